"""Named queries: how files are read, and that every query is there and is given exactly what it asks for."""

import ast
import contextlib
import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

import memolog
from memolog.admin.transfer_store import TABLES
from memolog.db.migrations import _statements, migrations
from memolog.db.queries import Queries, Statement, Step, _statement, load_queries, split_named

PACKAGE = Path(str(memolog.__file__)).parent
FILES = sorted(f"{path.parents[1].name}/{path.stem}" for path in PACKAGE.glob("*/sql/*.sql"))


# ---------------------------------------------------------------- the loader


def test_a_file_is_split_by_its_headers() -> None:
    """Names become keys; comments and what stands before the first header are dropped."""
    named = split_named("-- words\n\n-- one --\n-- why\nSELECT 1 -- here\nFROM x\n\n-- two_2 --\nSELECT 2\n")
    assert list(named) == ["one", "two_2"]
    assert named["one"].split() == ["SELECT", "1", "FROM", "x"]
    assert named["two_2"] == "SELECT 2"


def test_a_query_is_put_into_another() -> None:
    """Before or after it in the file."""
    named = split_named("-- a --\n{base} WHERE x\n-- base --\nSELECT 1\n-- b --\n{base} WHERE y\n")
    assert named["a"] == "SELECT 1 WHERE x"
    assert named["b"] == "SELECT 1 WHERE y"


def test_parameters_are_found_once_and_in_order() -> None:
    """Casts and times of day are none."""
    statement = _statement("x", "SELECT :b, :a, :b, x::text, '12:30' FROM t WHERE id IN (:ids[])")
    assert statement.parameters == ("b", "a", "ids")
    assert statement.lists == ("ids",)


def test_parameters_are_numbered_for_postgres() -> None:
    """One number a name, also when it occurs again or is the start of another name."""
    statement = _statement("x", "SELECT :a, :ab, :a, :abc, x::text")
    assert statement.numbered("$") == "SELECT $1, $2, $1, $3, x::text"
    assert statement.parameters == ("a", "ab", "abc")


@pytest.mark.parametrize(
    ("count", "padded"),
    [
        (0, 1),
        (1, 1),
        (2, 2),
        (3, 4),
        (4, 4),
        (5, 8),
        (8, 8),
        (9, 16),
        (33, 64),
        (64, 64),
        (65, 128),
        (129, 192),
        (257, 320),
    ],
)
def test_lists_are_padded(count: int, padded: int) -> None:
    """The last item is repeated, so that the answer is the same and the texts are few."""
    statement = _statement("x", "SELECT 1 WHERE a = :a AND id IN (:ids[])")
    items = [f"i{index}" for index in range(count)]
    lengths, values = Step(statement, {"a": 1, "ids": items}).flat()
    assert lengths == (padded,)
    assert values == [1, *items, *[items[-1] if items else None] * (padded - count)]


def test_lists_are_spelled_out_on_both_engines() -> None:
    """The numbers in the text are the places of the values, also where a list is named twice."""
    statement = _statement(
        "x", "SELECT :a WHERE id IN (:ids[]) OR b = :ids_total OR other IN (:more[]) OR x IN (:ids[])"
    )
    step = Step(statement, {"a": 1, "ids": [1, 2, 3], "ids_total": 9, "more": []})
    lengths, values = step.flat()
    text = "SELECT ?1 WHERE id IN (?2, ?3, ?4, ?5) OR b = ?6 OR other IN (?7) OR x IN (?2, ?3, ?4, ?5)"
    assert statement.numbered("?", lengths) == text
    assert statement.numbered("$", lengths) == text.replace("?", "$")
    assert values == [1, 1, 2, 3, 3, 9, None]


def test_a_list_may_stand_for_a_table() -> None:
    """A row an item and none more: each would be looked up."""
    statement = _statement("x", "SELECT column1, :a FROM (VALUES :words()) AS wanted")
    lengths, values = Step(statement, {"a": 1, "words": ["x", "y", "z"]}).flat()
    assert statement.numbered("$", lengths) == "SELECT column1, $1 FROM (VALUES ($2), ($3), ($4)) AS wanted"
    assert values == [1, "x", "y", "z"]


def test_values_come_in_the_order_of_the_parameters() -> None:
    """However they were given; one that is missing is an error that names it."""
    statement = _statement("x", "SELECT :a, :b")
    assert Step(statement, {"b": None, "a": 1}).flat() == ((), [1, None])
    with pytest.raises(KeyError, match="b"):
        Step(statement, {"a": 1}).flat()


def test_queries_make_steps() -> None:
    """By name, with one set of values or with many; an unknown name is an error that names it."""
    statement = Statement(name="put", text="INSERT :a", parameters=("a",), lists=())
    queries = Queries({"put": statement})
    assert queries.put(a=1) == Step(statement, {"a": 1})
    assert queries.put.many([{"a": 1}, {"a": 2}]) == Step(statement, {}, [{"a": 1}, {"a": 2}])
    with pytest.raises(AttributeError, match="no query is named take"):
        _ = queries.take


# ---------------------------------------------------------------- our own files


def text_of(name: str) -> str:
    """Return the text of a file of queries."""
    room, _, file = name.partition("/")
    return (PACKAGE / room / "sql" / f"{file}.sql").read_text("utf-8")


@pytest.mark.parametrize("name", FILES)
def test_every_file_is_well_formed(name: str) -> None:
    """Each query has one name and one statement, and nothing of the format is left in it."""
    text = text_of(name)
    headers = re.findall(r"^-- (\w+) --$", text, re.MULTILINE)
    assert len(headers) == len(set(headers))
    assert not text.split("-- ", maxsplit=1)[0].strip()
    for statement in load_queries(name).statements.values():
        assert statement.text
        assert not re.search(r"\{\w+\}|;|--", statement.text), statement.name
        assert set(statement.parameters) == set(re.findall(r"(?<![:\w]):([a-z_]+)", statement.text)), statement.name
        assert "?" not in statement.text
        assert "$" not in statement.text


class Use:
    """One use of a query in our code."""

    def __init__(self, path: Path, node: ast.Attribute, statement: str, queries: str, call: ast.Call | None) -> None:
        self.where = f"{path.relative_to(PACKAGE)}:{node.lineno} {queries}.{statement}"
        self.queries, self.statement, self.call = queries, statement, call


def loaded_names(tree: ast.Module) -> dict[str, str]:
    """Return which names of a module hold the queries of which file."""
    found: dict[str, str] = {}
    for node in tree.body:
        match node:
            case ast.Assign(
                targets=[ast.Name(id=target)],
                value=ast.Call(func=ast.Name(id="load_queries"), args=[ast.Constant(value=str(file))]),
            ):
                found[target] = file
            case _:
                pass
    return found


def uses() -> Iterator[Use]:
    """Yield every `q.name` in the package, with the call that it is part of."""
    for path in sorted(PACKAGE.rglob("*.py")):
        tree = ast.parse(path.read_text("utf-8"))
        names = loaded_names(tree)
        calls = {id(node.func): node for node in ast.walk(tree) if isinstance(node, ast.Call)}
        for node in ast.walk(tree):
            match node:
                case ast.Attribute(value=ast.Name(id=holder), attr=attribute) if (
                    holder in names and attribute != "statements"
                ):
                    yield Use(path, node, attribute, names[holder], calls.get(id(node)))
                case _:
                    pass


USES = list(uses())


def test_uses_are_found() -> None:
    """The search finds the queries that every store needs."""
    assert {"messages/threads", "messages/messages", "log/leases", "log/usage"} <= {use.queries for use in USES}
    assert len(USES) >= 30


@pytest.mark.parametrize("use", USES, ids=lambda use: use.where)
def test_every_used_query_is_there_and_gets_what_it_asks_for(use: Use) -> None:
    """No name is wrong, no parameter is missing and none is too many, as far as the call spells them out."""
    statements = load_queries(use.queries).statements
    assert use.statement in statements, use.where
    if use.call is None:
        # It is handed on, or used as `.many(…)`: the contract tests run it.
        return
    assert not use.call.args, "values are given by name"
    asked = set(statements[use.statement].parameters)
    given = {keyword.arg for keyword in use.call.keywords if keyword.arg is not None}
    assert given <= asked, f"{use.where} has no {given - asked}"
    if all(keyword.arg is not None for keyword in use.call.keywords):
        assert given == asked, f"{use.where} is not given {asked - given}"


@pytest.mark.parametrize("name", FILES)
def test_every_query_is_used(name: str) -> None:
    """A query that nobody calls, and that no other includes, is left over."""
    text = text_of(name)
    used = {use.statement for use in USES if use.queries == name} | set(re.findall(r"\{(\w+)\}", text))
    if name == "admin/transfer":
        used |= {query.name for table in TABLES for query in (table.page, table.add, table.one) if query}
    assert set(load_queries(name).statements) == used


# ---------------------------------------------------------------- plans


def test_a_tail_reads_the_earlier_rows_by_an_index_of_the_changed_ones() -> None:
    """Without that index, every turn would look at each row of its tail."""
    with contextlib.closing(sqlite3.connect(":memory:")) as connection:
        for migration in migrations("sqlite"):
            for statement in _statements(migration.text):
                connection.execute(statement)
        text = load_queries("messages/messages").tail.numbered("?")
        plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {text}", (1, 2, 3))]
    assert "SEARCH m USING INDEX messages_changed (thread_pk=? AND seq>? AND seq<?)" in plan
    assert not [line for line in plan if line.startswith("SCAN")]
