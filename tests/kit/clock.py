"""Time in tests: a clock that stands still, waiting for a condition, and turns that wait for a slow database."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from memolog.core.config import Config
from memolog.core.deadline import Budget
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
    """Let turns wait for a slow database as long as it takes; tests with a locked database set a shorter wait."""
    limit_turns(monkeypatch, lambda seconds: 120.0 if seconds == Config().turn_timeout else seconds)


@pytest.fixture(autouse=True)
def quiet_index(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let nothing be indexed in the background, so that no test depends on its moment; tests of it set a shorter pause."""
    monkeypatch.setattr(background, "IDLE_SECONDS", 3_600.0)
    monkeypatch.setattr(background, "BUSY_SECONDS", 36_000.0)


def limit_turns(patched: pytest.MonkeyPatch, seconds_for: Callable[[float], float]) -> None:
    """Give the steps of turns other limits than the configured ones."""
    begin = Budget.__init__

    def limited(self: Budget, seconds: float) -> None:
        begin(self, seconds_for(seconds))

    patched.setattr(Budget, "__init__", limited)
