"""Limit how long one step of a turn waits for the database, and keep long computations off the event loop."""

import asyncio
from collections.abc import Callable, Coroutine, Generator
from contextlib import contextmanager
from types import TracebackType
from typing import Final, TypeVar

from memolog.errors import StoreBusy

T = TypeVar("T")


class Budget:
    """The time limit of one step of a turn. It starts when the object is created. Waits for a model do not count."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._loop = asyncio.get_running_loop()
        self._end = self._loop.time() + seconds
        self._timeout: asyncio.Timeout | None = None
        self._reserve = 0.0

    @property
    def left(self) -> float:
        """Return the remaining seconds before the limit."""
        return max(0.0, self._end - self._reserve - self._loop.time())

    def limit(self, *, reserve: float = 0.0) -> "_Limit":
        """Cancel the block when the time is over, and raise StoreBusy. A write that is not committed by then is rolled back.

        `reserve` is the share of the whole time that is kept for later blocks of the same step.
        """
        self._reserve = reserve * self._seconds
        return _Limit(self, self._end - self._reserve)

    def entered(self, timeout: asyncio.Timeout | None) -> None:
        """Set the timeout that `paused` moves. None after the limited block."""
        self._timeout = timeout

    def too_late(self) -> StoreBusy:
        """Return the error for a block that was cancelled."""
        return StoreBusy(
            f"The database did not answer within {self._seconds:g} s.",
            why="It is locked by another process, or its server is slow.",
            then="The turn continues, and unsaved messages are saved with the next call. `turn_timeout` sets the limit.",
        )

    @contextmanager
    def paused(self) -> Generator[None]:
        """Do not count the time inside the block, which waits for a model."""
        started, timeout = self._loop.time(), self._timeout
        if timeout is not None and not timeout.expired():
            timeout.reschedule(None)
        try:
            yield
        finally:
            self._end += self._loop.time() - started
            if timeout is not None and not timeout.expired():
                timeout.reschedule(self._end - self._reserve)


class _Limit:
    """The block of `Budget.limit`. Each step of a turn enters a few of them, so this is a class and not a generator."""

    def __init__(self, budget: Budget, end: float) -> None:
        self._budget, self._timeout = budget, asyncio.timeout_at(end)

    async def __aenter__(self) -> None:
        await self._timeout.__aenter__()
        self._budget.entered(self._timeout)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._budget.entered(None)
        try:
            await self._timeout.__aexit__(kind, error, trace)
        except TimeoutError as late:
            raise self._budget.too_late() from late


async def in_time(call: Coroutine[object, object, T], seconds: float) -> T:
    """Await a call of the store. Raise StoreBusy if it takes longer than `seconds`."""
    async with Budget(seconds).limit():
        return await call
    raise AssertionError("unreachable: the block returns or raises")


# A computation in slices lets other tasks run after so many seconds. A task that wakes up may wait for three slices: the running
# one, the one in whose iteration of the loop its timer fires, and the one before it in the queue.
_SLICE_SECONDS: Final = 0.001


async def in_slices(work: Generator[None, None, T]) -> T:
    """Run a generator to its end, and return its result. Where it yields, other tasks of the event loop can run.

    A worker thread would not help the other tasks much, because it keeps the interpreter to itself for milliseconds at a time.
    """
    loop = asyncio.get_running_loop()
    await asyncio.sleep(0)
    began = loop.time()
    while True:
        try:
            next(work)
        except StopIteration as end:
            return end.value
        if loop.time() - began > _SLICE_SECONDS:
            await asyncio.sleep(0)
            began = loop.time()


def at_once(work: Generator[None, None, T]) -> T:
    """Run a generator to its end without a pause, and return its result."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            return end.value


async def offload(function: Callable[..., T], *arguments: object, when: bool) -> T:
    """Call a function. With `when`, call it in a worker thread, so that other tasks of the event loop can run."""
    return await asyncio.to_thread(function, *arguments) if when else function(*arguments)
