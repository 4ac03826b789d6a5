"""An event loop whose time is virtual: waiting moves the clock instead of taking time. Each process reads its own clock.

Work for other threads is done in place, so that one seed gives one order of events. Whoever still wakes the loop from another
thread is waited for, for a few real seconds; if nothing can happen any more, that is a deadlock and raises.
"""

import asyncio
import selectors
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

T = TypeVar("T")

_REAL_SECONDS = 3.0
START = datetime(2026, 3, 14, 9, 0, tzinfo=UTC)


class Deadlock(BaseException):
    """Every task waits for another; a BaseException, so that no `except Exception` takes it for a fault to live with."""


class _VirtualSelector(selectors.DefaultSelector):
    """Moves the time on where a real one would sleep."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> Any:
        if timeout is None:
            found = super().select(_REAL_SECONDS)
            if not found:
                raise Deadlock("nothing is scheduled and nobody wakes the loop")
            return found
        if timeout > 0:
            self.now += timeout
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """A loop in virtual time."""

    def __init__(self) -> None:
        self._virtual = _VirtualSelector()
        super().__init__(self._virtual)

    def time(self) -> float:
        """Return the virtual seconds since the loop was made."""
        return self._virtual.now

    def run_in_executor(self, executor: Any, func: Callable[..., T], *args: Any) -> "asyncio.Future[T]":
        """Do the work here and now: a thread would bring an order of its own."""
        future: asyncio.Future[T] = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:
            future.set_exception(error)
        return future


class SkewedClock:
    """Tells the virtual time, wrongly by `skew` seconds."""

    def __init__(self, loop: asyncio.AbstractEventLoop, skew: float = 0.0) -> None:
        self._loop, self.skew = loop, skew

    def now(self) -> datetime:
        """Return what this process takes for the present."""
        return START + timedelta(seconds=self._loop.time() + self.skew)
