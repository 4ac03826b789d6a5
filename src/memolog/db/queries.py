"""Load named queries from `.sql` files and define the steps that scripts consist of.

A *script* is one transaction, written as a generator: it yields steps, and the engine sends the rows of each step back. A script
does no I/O, so both engines can run the same script. PostgreSQL needs one round trip per step.

    -- claim_lease --
    -- A comment says why.
    INSERT INTO … VALUES (:name, …)          one value per parameter
    SELECT … WHERE id IN (:ids[])            a list, expanded to as many placeholders as needed
    SELECT … FROM (VALUES :words()) AS w     a non-empty list as a table of one column
    {select_messages} WHERE …                the text of another query of the same file

A query whose name begins with `lock_` and that has no RETURNING clause only locks rows. SQLite skips such a query, because a
transaction that writes has locked the whole file already. PostgreSQL skips a query whose name begins with `fts_`, which fills the
full-text table of SQLite. PostgreSQL has an index instead.
"""

import re
from collections import namedtuple
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from itertools import accumulate
from typing import Any, NamedTuple, TypeAlias, TypeVar, cast

T = TypeVar("T")

Row: TypeAlias = Any
"""A tuple whose fields have the names of the columns."""
Values: TypeAlias = Mapping[str, object]

MOST_INLINE = 150_000
"""The rows of one query are processed on a worker thread if they have more characters than this."""
_ROW_CHARACTERS = 100
_FEW_COLUMNS = 6

_SHORT_LIST = 64
_HEADER = re.compile(r"^-- (\w+) --$", re.MULTILINE)
_COMMENT = re.compile(r"--[^\n]*(\n|$)")
_INCLUDE = re.compile(r"\{(\w+)\}")
_PARAMETER = re.compile(r"(?<![:\w]):([a-z_]+)(\[\]|\(\))?")


@dataclass(frozen=True, slots=True, eq=False)
class Statement:
    """One named query: a function of its parameters that returns a step. It is its own key in caches."""

    name: str
    text: str
    parameters: tuple[str, ...]
    lists: tuple[str, ...]
    tables: tuple[str, ...] = ()
    """The names of the lists that are written as a table of one column."""
    only_locks: bool = False
    """Whether the query only locks rows."""
    fills_fts: bool = False
    """Whether the query only fills the full-text table of SQLite."""

    def numbered(self, mark: str, lengths: tuple[int, ...] = ()) -> str:
        """Return the text with numbered parameters (`$1` or `?1`), in the order of `parameters`. `lengths` is for the lists."""
        return _numbered(self, mark, lengths)

    def __call__(self, **values: object) -> "Step":
        """Return one step with these values."""
        return Step(self, values)

    def given(self, values: Values) -> "Step":
        """Return one step with the values of a mapping. The caller must not change it."""
        return Step(self, values)

    def many(self, values: Sequence[Values]) -> "Step":
        """Return one step that runs the statement with each set of values."""
        return Step(self, {}, values)


class Step(NamedTuple):
    """One execution of a statement with one set of values, or several executions that return no rows (`many`).

    A named tuple, because a turn makes twenty of them, and a frozen dataclass takes three times as long to make.
    """

    statement: Statement
    values: Values
    many: Sequence[Values] | None = None

    def flat(self) -> tuple[tuple[int, ...], list[object]]:
        """Return the padded length of each list, and all values, in the order of the statement's parameters."""
        statement, lengths, values = self.statement, list[int](), list[object]()
        for name in statement.parameters:
            value = self.values[name]
            if name in statement.lists:
                items = list(cast("Sequence[object]", value))
                # Padding changes nothing in an IN list, but would add rows to a table.
                if name not in statement.tables:
                    items = padded(items or [None])
                values += items
                lengths.append(len(items))
            else:
                values.append(value)
        return tuple(lengths), values


Script: TypeAlias = Generator[Step, Sequence[Row], T]


class Queries:
    """The queries of one file, each as a function of its parameters: `q.claim_lease(name=…, owner=…)`."""

    def __init__(self, statements: Mapping[str, Statement]) -> None:
        self.statements = dict(statements)
        self.__dict__.update(statements)

    def __getattr__(self, name: str) -> Statement:
        # Every query is an attribute, so this is called for unknown names only.
        raise AttributeError(f"no query is named {name}")


def split_named(text: str) -> dict[str, str]:
    """Return the queries of a file by name. Comments are removed, and `{name}` is replaced by the text of that query."""
    pieces = _HEADER.split(text)
    named = zip(pieces[1::2], pieces[2::2], strict=True)
    plain = {name: _COMMENT.sub("\n", body).strip() for name, body in named}
    return {name: _INCLUDE.sub(lambda hit: plain[hit[1]], body) for name, body in plain.items()}


@cache
def load_queries(name: str) -> Queries:
    """Return the queries of a file: `load_queries("tasks/claims")` reads `tasks/sql/claims.sql`."""
    room, _, file = name.partition("/")
    text = files("memolog").joinpath(room, "sql", f"{file}.sql").read_text("utf-8")
    return Queries({key: _statement(key, body) for key, body in split_named(text).items()})


def _statement(name: str, text: str) -> Statement:
    found = list(dict.fromkeys(_PARAMETER.findall(text)))
    return Statement(
        name=name,
        text=text,
        parameters=tuple(parameter for parameter, _ in found),
        lists=tuple(parameter for parameter, form in found if form),
        tables=tuple(parameter for parameter, form in found if form == "()"),
        only_locks=name.startswith("lock_") and "RETURNING" not in text,
        fills_fts=name.startswith("fts_"),
    )


def padded(items: Sequence[T]) -> list[T]:
    """Return a non-empty list, longer by repetitions of its last item, so that fewer different statements are prepared."""
    count = len(items)
    length = 1 << max(0, count - 1).bit_length() if count <= _SHORT_LIST else -(-count // _SHORT_LIST) * _SHORT_LIST
    return [*items, *[items[-1]] * (length - count)]


@cache
def _numbered(statement: Statement, mark: str, lengths: tuple[int, ...]) -> str:
    sizes = dict(zip((name for name in statement.parameters if name in statement.lists), lengths, strict=True))
    counts = [sizes.get(name, 1) for name in statement.parameters]
    first = dict(zip(statement.parameters, accumulate(counts, initial=1), strict=False))

    def spell(hit: re.Match[str]) -> str:
        name, form = hit[1], hit[2]
        marks = [f"{mark}{first[name] + index}" for index in range(sizes.get(name, 1))]
        return ", ".join(f"({one})" if form == "()" else one for one in marks)

    return _PARAMETER.sub(spell, statement.text)


def weight_of(rows: Sequence[Row]) -> int:
    """Return the approximate number of characters in rows. Rows with few columns have only numbers and names and count as 0."""
    if not rows or len(rows[0]) <= _FEW_COLUMNS:
        return 0
    # Most queries return one row or a few. A list is faster here than a generator.
    return _ROW_CHARACTERS * len(rows) + sum([len(cell) for row in rows for cell in row if type(cell) is str])


def named_rows(columns: Iterable[str], rows: Iterable[Iterable[Any]]) -> list[Row]:
    """Return rows as tuples with named fields. A column whose name is not an identifier can be read by position only."""
    return list(map(row_maker(tuple(columns)), rows))


@cache
def row_maker(columns: tuple[str, ...]) -> Callable[[Iterable[Any]], Row]:
    """Return a function that returns a row with these columns as a tuple with named fields."""
    made: Any = namedtuple("Row", columns, rename=True)  # noqa: PYI024 - the columns are known at run time only  # pyright: ignore[reportUntypedNamedTuple]
    return made._make
