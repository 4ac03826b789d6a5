"""Nothing astray: SQL in the store, clock and chance in the runtime, other libraries behind the module that wraps them."""

import ast
import re
from collections.abc import Iterator

import pytest

from architecture.source import PACKAGE, Module, aliases, docstrings, dotted, module_level, modules

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


@pytest.mark.parametrize(
    ("text", "is_sql"),
    [
        ("SELECT 1", True),
        ("  BEGIN IMMEDIATE", True),
        ("COMMIT", True),
        ("PRAGMA user_version", True),
        ("CREATE UNIQUE INDEX i ON t (a)", True),
        ("WITH x AS (SELECT 1) SELECT 2", True),
        ("select a from t", True),
        ("delete from t where a = 1", True),
        ("Select a task from the list.", False),
        ("delete from the log what is old", False),
        ("Update the thread.", False),
        ("UPDATED", False),
        ("select", False),
    ],
)
def test_what_looks_like_sql(text: str, is_sql: bool) -> None:
    """The pattern tells SQL from sentences that begin with the same word."""
    assert bool(SQL.match(text)) is is_sql


# ---------------------------------------------------------------- clock and chance

ASTRAY = re.compile(
    r"""datetime\.(?:datetime\.(?:now|utcnow|today)|date\.today)
    | time\.(?:time|monotonic|perf_counter|process_time|thread_time|clock_gettime)(?:_ns)? | time\.(?:localtime|gmtime|ctime)
    | random\..+ | secrets\..+ | uuid\.uuid[1467] | os\.(?:urandom|getrandom)""",
    re.VERBOSE,
)
ALLOWED = {
    # The defaults of a retry, which are arguments.
    ("observer/model.py", "random.random"),
    ("observer/model.py", "time.monotonic"),
    # Measures how long one caller has kept the event loop, to let others run; no value depends on it.
    ("db/sqlite.py", "time.perf_counter"),
    # Measures how long calls take, which is all that this verb is for.
    ("apps/cli/bench.py", "time.perf_counter"),
    # A hook has no time to load the runtime: it labels what a host tells with the moment it was told.
    ("apps/hooks/entry.py", "time.time"),
    # Spreads the retries of transactions that met, so that they do not meet again; no value depends on it.
    ("db/postgres.py", "random.random"),
    # Seeded by a name, so that the demo shows the same in every run.
    ("apps/demo/play.py", "random.Random"),
}


def clock_and_chance(module: Module) -> Iterator[tuple[ast.AST, str]]:
    """Yield where a module asks for the time or for chance, or hands on a function that does."""
    names = aliases(module.tree)
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Name | ast.Attribute) and (name := dotted(node, names)) and ASTRAY.fullmatch(name):
            yield node, name


def test_time_and_chance_are_arguments() -> None:
    """Only the system's clock asks the machine for the time or for chance, and the exceptions in the list."""
    pure = [module for module in modules() if module.place != "core/clock.py"]
    found = [(module, node, name) for module in pure for node, name in clock_and_chance(module)]
    assert [module.at(node, name) for module, node, name in found if (module.place, name) not in ALLOWED] == []


def test_the_exceptions_are_still_needed() -> None:
    """An exception that nothing uses any more is taken off the list."""
    used = {(module.place, name) for module in modules() for _, name in clock_and_chance(module)}
    assert used >= ALLOWED


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("from datetime import datetime as d\nd.now()", ["datetime.datetime.now"]),
        ("import time\nwait = time.monotonic", ["time.monotonic"]),
        ("from secrets import token_hex\ntoken_hex()", ["secrets.token_hex"]),
        ("import uuid\nuuid.UUID(int=1)", []),
        ("clock.now()", []),
    ],
)
def test_what_counts_as_clock_or_chance(text: str, found: list[str]) -> None:
    """The check follows imports under other names and leaves a clock that was handed in alone."""
    module = Module(name="memolog.x", place="x.py", text=text, tree=ast.parse(text))
    assert [name for _, name in clock_and_chance(module)] == found


# ---------------------------------------------------------------- output and other libraries

# Where a library may be imported at module level; elsewhere it is imported when it is needed, if at all.
WRAPPED_BY: dict[str, str | tuple[str, ...] | None] = {
    "agents": "adapters/openai_agents",
    "anthropic": "adapters/anthropic",
    "asyncpg": "db/postgres",
    "httpx": "apps/gateway",
    "mcp": "apps/mcp",
    "openai": "adapters/openai",
    "pydantic": "tools",
    "pydantic_ai": "adapters/pydantic_ai",
    "splintr": None,
    "starlette": ("apps/mcp", "apps/gateway"),
    "uvicorn": ("apps/network", "apps/mcp", "apps/gateway"),
}


# Which modules may import a library at all, also when it is needed: its words are known nowhere else.
KNOWN_BY: dict[str, tuple[str, ...]] = {
    "pydantic_ai": ("adapters/pydantic_ai", "observer/pydantic_model"),
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


def may_wrap(module: Module, library: str) -> bool:
    """Tell whether this module is where a library may be imported at once; what has no entry may be anywhere."""
    home = WRAPPED_BY.get(library, "")
    homes = (home,) if isinstance(home, str) else home or ()
    return home == "" or any(module.place.startswith((f"{one}.py", f"{one}/")) for one in homes)


def test_only_apps_print() -> None:
    """A library is silent: what it has to say it returns, raises or logs."""
    quiet = [module for module in modules() if not module.place.startswith(("apps/", "__main__"))]
    found = [(module, node) for module in quiet for node in ast.walk(module.tree)]
    prints = [module.at(node, "print") for module, node in found if isinstance(node, ast.Name) and node.id == "print"]
    assert prints == []


def test_other_libraries_are_imported_where_they_are_wrapped() -> None:
    """Nobody pays at start-up for a library that is not used."""
    wrong = [
        module.at(node, f"{library} at module level")
        for module in modules()
        for node in module_level(module.tree)
        for library in sorted(libraries(node))
        if not may_wrap(module, library)
    ]
    assert wrong == []


def test_a_client_is_known_by_one_module() -> None:
    """A library behind a seam is imported by the module that wraps it and by no other, not even inside a function."""
    found = {
        (library, module.place)
        for module in modules()
        for node in ast.walk(module.tree)
        for library in libraries(node) & KNOWN_BY.keys()
    }
    assert ("pydantic_ai", "observer/pydantic_model.py") in found
    assert [
        (lib, place) for lib, place in sorted(found) if not place.removesuffix(".py").startswith(KNOWN_BY[lib])
    ] == []
