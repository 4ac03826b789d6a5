"""Time in tests: a clock that stands still, waiting for a condition, and limits that no slow machine reaches."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from memolog.core.clock import Clock
from memolog.core.config import Config
from memolog.core.deadline import Budget
from memolog.db.engine import Engine
from memolog.log import runner
from memolog.log.heartbeat import Processes
from memolog.search import background
from memolog.testing import FakeClock


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
    """Let turns wait for a slow database as long as it takes, unless a test sets a limit of its own."""
    begin = Budget.__init__

    def limited(self: Budget, seconds: float, *, patience: float = 0.0) -> None:
        begin(self, 120.0 if seconds == Config().turn_timeout else seconds, patience=patience)

    monkeypatch.setattr(Budget, "__init__", limited)


@pytest.fixture(autouse=True)
def patient_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Never treat a process as dead because the machine was slow, and let closing wait for runs and their leases.

    Tests of processes that are gone move their time on, or set `silence`. Tests with a model that hangs set `close_timeout`.
    """
    begin, close = Processes.__init__, runner.Runner.close

    def watching(self: Processes, engine: Engine, clock: Clock) -> None:
        begin(self, engine, clock)
        self.time = lambda: 0.0

    async def closing(self: runner.Runner, patience: float) -> None:
        await close(self, 120.0 if patience == Config().close_timeout else patience)

    monkeypatch.setattr(Processes, "__init__", watching)
    monkeypatch.setattr(runner.Runner, "close", closing)
    monkeypatch.setattr(runner, "_GIVE_BACK_SECONDS", 120.0)


@pytest.fixture(scope="session", autouse=True)
def quiet_index() -> Iterator[None]:
    """Let nothing be indexed in the background, so that no test depends on its moment; tests of it set a shorter pause.

    The scope includes databases that several tests share.
    """
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(background, "IDLE_SECONDS", 3_600.0)
        patched.setattr(background, "BUSY_SECONDS", 36_000.0)
        yield


@pytest.fixture(autouse=True, scope="session")
def patient_programs() -> Iterator[None]:
    """Let programs that tests start find the module that gives them long limits too."""
    paths = [str(Path(__file__).parent / "children"), *filter(None, [os.environ.get("PYTHONPATH")])]
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("PYTHONPATH", os.pathsep.join(paths))
        yield
