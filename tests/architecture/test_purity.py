"""Nothing astray: SQL in the store, and the client of a model behind the module that wraps it.

Time and chance as arguments, and libraries that are loaded late, are checked by ruff (`flake8-tidy-imports` in `pyproject.toml`).
"""

import ast
import re
from collections.abc import Iterator

from architecture.source import PACKAGE, Module, docstrings, modules

# ---------------------------------------------------------------- SQL

# Upper case is how we write SQL, so the first words suffice; in lower case a whole phrase tells it from prose.
SQL = re.compile(
    r"""\s*(?:
    (?:SELECT|PRAGMA|SAVEPOINT|EXPLAIN|VACUUM|ANALYZE|ATTACH|DETACH|REINDEX|TRUNCATE|GRANT)\s
    | (?:BEGIN|COMMIT|ROLLBACK|VACUUM|ANALYZE|END)(?:\s*;?\s*$|\s+[A-Z])
    | INSERT\s+(?:INTO|OR)\s | REPLACE\s+INTO\s | UPDATE\s+\S+\s+SET\s | UPDATE\s+$ | DELETE\s+FROM\s | SET\s+(?:LOCAL|SESSION)\s
    | (?:CREATE|DROP|ALTER)\s+(?:OR\s+REPLACE\s+)?(?:TEMP\w*\s+|UNIQUE\s+|VIRTUAL\s+)?
      (?:TABLE|INDEX|VIEW|TRIGGER|SCHEMA|FUNCTION|EXTENSION)\s
    | WITH\s+(?:RECURSIVE\s+)?\w+\s*(?:\([^)]*\)\s*)?AS\s
    | select\s.+\sfrom\s | insert\s+into\s+\w+\s*[(v] | update\s+\w+\s+set\s | delete\s+from\s+\w+\s*(?:$|;|where\s)
    | (?:create|drop|alter)\s+(?:table|index|view|trigger)\s | pragma\s+\w+
    )""",
    re.VERBOSE | re.DOTALL,
)
# Transactions, pragmas, the catalogue and the record of migrations are the engines' own; tables are not.
ENGINE_MODULES = re.compile(r"db/(?:sqlite|postgres)(?:_\w+)?\.py|db/migrations\.py|admin/backup\.py")
CREATE_TABLE = re.compile(r"^\s*CREATE (?:VIRTUAL )?TABLE (?:IF NOT EXISTS )?(\w+)", re.MULTILINE)


def sql_in(module: Module) -> Iterator[tuple[ast.Constant, str]]:
    """Yield the string literals of a module that are SQL; docstrings are for people."""
    prose = docstrings(module.tree)
    for node in ast.walk(module.tree):
        if (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and id(node) not in prose
            and SQL.match(node.value)
        ):
            yield node, node.value


def tables() -> set[str]:
    """Return every table that a migration makes."""
    texts = [path.read_text("utf-8") for path in (PACKAGE / "db" / "migrations").glob("*.sql")]
    return {name for text in texts for name in CREATE_TABLE.findall(text)}


def test_sql_is_in_sql_files() -> None:
    """A query is a named text in the `sql` folder of its room; only the engines have statements of their own."""
    rooms = [module for module in modules() if not ENGINE_MODULES.fullmatch(module.place)]
    assert [module.at(node, text[:60]) for module in rooms for node, text in sql_in(module)] == []


def test_engines_know_no_table() -> None:
    """What an engine says in SQL names no table of ours beside the record of migrations."""
    known = re.compile(rf"\b(?:{'|'.join(sorted(tables()))})\b")
    engines = [module for module in modules() if ENGINE_MODULES.fullmatch(module.place)]
    assert len(engines) >= 3
    assert [module.at(node, text) for module in engines for node, text in sql_in(module) if known.search(text)] == []


def test_what_looks_like_sql() -> None:
    """The pattern tells SQL from sentences that begin with the same word."""
    sql = "SELECT 1|  BEGIN IMMEDIATE|COMMIT|PRAGMA user_version|CREATE UNIQUE INDEX i ON t (a)|WITH x AS (SELECT 1) SELECT 2"
    assert all(map(SQL.match, [*sql.split("|"), "select a from t", "delete from t where a = 1"]))
    prose = (
        "Select a task from the list.",
        "delete from the log what is old",
        "Update the thread.",
        "UPDATED",
        "select",
    )
    assert not any(map(SQL.match, prose))


# ---------------------------------------------------------------- other libraries

# Which modules may import a library at all, also when it is needed: its words are known nowhere else.
KNOWN_BY: dict[str, tuple[str, ...]] = {
    "pydantic_ai": ("adapters/pydantic_ai", "observer/model_choice", "observer/embedder_choice"),
}


def libraries(node: ast.AST) -> set[str]:
    """Return the top packages that a statement imports."""
    match node:
        case ast.Import():
            return {alias.name.split(".")[0] for alias in node.names}
        case ast.ImportFrom(module=str(name), level=0):
            return {name.split(".")[0]}
        case _:
            return set()


def test_a_client_is_known_by_one_module() -> None:
    """A library behind a seam is imported by the module that wraps it and by no other, not even inside a function."""
    found = {
        (library, module.place)
        for module in modules()
        for node in ast.walk(module.tree)
        for library in libraries(node) & KNOWN_BY.keys()
    }
    assert ("pydantic_ai", "observer/model_choice.py") in found
    assert [
        (lib, place) for lib, place in sorted(found) if not place.removesuffix(".py").startswith(KNOWN_BY[lib])
    ] == []
