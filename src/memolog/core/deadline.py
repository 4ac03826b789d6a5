"""Limit how long one step of a turn waits for the database, and keep long computations off the event loop."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from contextlib import asynccontextmanager, contextmanager
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

    @asynccontextmanager
    async def limit(self, *, reserve: float = 0.0) -> AsyncGenerator[None]:
        """Cancel the block when the time is over, and raise StoreBusy. A write that is not committed by then is rolled back.

        `reserve` is the share of the whole time that is kept for later blocks of the same step.
        """
        self._reserve = reserve * self._seconds
        timeout = asyncio.timeout_at(self._end - self._reserve)
        try:
            async with timeout:
                self._timeout = timeout
                yield
        except TimeoutError as error:
            if not timeout.expired():
                raise
            raise StoreBusy(
                f"The database did not answer within {self._seconds:g} s.",
                why="It is locked by another process, or its server is slow.",
                then="The turn continues, and unsaved messages are saved with the next call. `turn_timeout` sets the limit.",
            ) from error
        finally:
            self._timeout = None

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


async def in_time(call: Coroutine[object, object, T], seconds: float) -> T:
    """Await a call of the store. Raise StoreBusy if it takes longer than `seconds`."""
    async with Budget(seconds).limit():
        return await call
    raise AssertionError("unreachable: the block returns or raises")


# A computation in slices lets other tasks run after so many seconds.
_SLICE_SECONDS: Final = 0.002


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
