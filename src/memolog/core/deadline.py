"""Limit how long one step of a turn waits for the database, and keep long computations off the event loop."""

import asyncio
from collections.abc import Callable, Coroutine, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from math import inf
from types import TracebackType
from typing import Any, Final, Literal, TypeAlias, TypeVar
from weakref import WeakKeyDictionary

from memolog.errors import StoreBusy

T = TypeVar("T")


# The innermost budget of each task. A task that a step starts has none, because the step does not wait for it.
_BUDGETS: dict[asyncio.Task[Any], "Budget"] = {}
Rank: TypeAlias = Literal["urgent", "normal", "background"]
"""In which order the queues of a process serve calls of the database."""

_RANK: ContextVar[Rank] = ContextVar("the rank of calls of the database", default="normal")


class Budget:
    """The time limit of one step of a turn. It starts when the object is created.

    Waits for a model do not count, and waits for other calls of this process do not count up to `patience` seconds.
    """

    def __init__(self, seconds: float, *, patience: float = 0.0) -> None:
        self._seconds = seconds
        self._loop = asyncio.get_running_loop()
        self.began = self._loop.time()
        """When the step began. The queues of the process serve the earliest step first."""
        self._end = self.began + seconds
        self._patience = patience
        self._timeout: asyncio.Timeout | None = None
        self._reserve = 0.0
        self._outer: Budget | None = None
        self._waits_for: str | None = None

    @property
    def left(self) -> float:
        """Return the remaining seconds before the limit."""
        return max(0.0, self._end - self._reserve - self._loop.time())

    @property
    def patience(self) -> float:
        """Return for how many more seconds the step may wait for other calls of this process."""
        return self._outer.patience if self._outer is not None else self._patience

    def limit(self, *, reserve: float = 0.0) -> "_Limit":
        """Cancel the block when the time is over, and raise StoreBusy. A write that is not committed by then is rolled back.

        `reserve` is the share of the whole time that is kept for later blocks of the same step.
        """
        self._reserve = reserve * self._seconds
        return _Limit(self, self._end - self._reserve)

    def enter(self, timeout: asyncio.Timeout, outer: "Budget | None") -> None:
        """Set the timeout that `stop` and `resume` move, and the budget of the block around this one."""
        self._timeout, self._outer = timeout, outer
        if outer is not None:
            self.began = outer.began

    def exit(self) -> None:
        """End the limited block."""
        self._timeout = self._outer = None

    def too_late(self) -> StoreBusy:
        """Return the error for a block that was cancelled."""
        return StoreBusy(
            f"The database did not answer within {self._seconds:g} s.",
            why=self._waits_for or "It is locked by another process, or its server is slow.",
            then="The turn continues, and unsaved messages are saved with the next call. `turn_timeout` sets the limit.",
        )

    def waits_for(self, reason: str | None) -> None:
        """Set the reason for a wait, as a sentence for the error if the time ends meanwhile. None means that the wait is over."""
        self._waits_for = reason
        if self._outer is not None:
            self._outer.waits_for(reason)

    @contextmanager
    def paused(self) -> Generator[None]:
        """Do not count the time inside the block, which waits for a model."""
        started = self._loop.time()
        self.stop()
        try:
            yield
        finally:
            self.resume(self._loop.time() - started)

    def stop(self) -> None:
        """Let no time pass until `resume`."""
        if self._timeout is not None and not self._timeout.expired():
            self._timeout.reschedule(None)
        if self._outer is not None:
            self._outer.stop()

    def resume(self, seconds: float, *, queued: float = 0.0) -> None:
        """Let time pass again, `seconds` later. `queued` is how long the step has waited for other calls of this process."""
        self._end += seconds
        self._patience -= queued
        if self._timeout is not None and not self._timeout.expired():
            self._timeout.reschedule(self._end - self._reserve)
        if self._outer is not None:
            self._outer.resume(seconds, queued=queued)


def current_budget() -> Budget | None:
    """Return the budget of the step that the current task runs. None if the task runs no step of a turn."""
    task = asyncio.current_task()
    return _BUDGETS.get(task) if task is not None else None


def current_rank() -> Rank:
    """Return the rank of calls of the database that the current task makes."""
    return _RANK.get()


@contextmanager
def ranked(rank: Rank) -> Generator[None]:
    """Give the calls of the database in the block this rank."""
    token = _RANK.set(rank)
    try:
        yield
    finally:
        _RANK.reset(token)


def background_task(work: Coroutine[object, object, T], *, name: str | None = None) -> asyncio.Task[T]:
    """Start a task whose calls of the database are served after those of turns and of the application."""
    with ranked("background"):
        # The task gets a copy of the current context.
        return asyncio.get_running_loop().create_task(work, name=name)


class _Limit:
    """The block of `Budget.limit`. Each step of a turn enters a few of them, so this is a class and not a generator."""

    def __init__(self, budget: Budget, end: float) -> None:
        self._budget, self._timeout = budget, asyncio.timeout_at(end)
        self._task: asyncio.Task[Any] | None = None
        self._outer: Budget | None = None

    async def __aenter__(self) -> None:
        await self._timeout.__aenter__()
        self._task = task = asyncio.current_task()
        if task is not None:
            self._outer = _BUDGETS.get(task)
            _BUDGETS[task] = self._budget
        self._budget.enter(self._timeout, self._outer)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._budget.exit()
        if self._task is not None:
            if self._outer is None:
                del _BUDGETS[self._task]
            else:
                _BUDGETS[self._task] = self._outer
        try:
            await self._timeout.__aexit__(kind, error, trace)
        except TimeoutError as late:
            raise self._budget.too_late() from late


async def in_time(call: Coroutine[object, object, T], seconds: float, *, patience: float = 0.0) -> T:
    """Await a call of the store. Raise StoreBusy if it takes longer than `seconds`. `patience` is that of a `Budget`."""
    async with Budget(seconds, patience=patience).limit():
        return await call
    raise AssertionError("unreachable: the block returns or raises")


# A computation in slices lets other tasks run after so many seconds. A task that wakes up may wait for three slices: the running
# one, the one in whose iteration of the loop its timer fires, and the one before it in the queue.
_SLICE_SECONDS: Final = 0.001
# When the last pause of a computation in slices ended, by event loop.
_PAUSED_AT: Final = WeakKeyDictionary[asyncio.AbstractEventLoop, float]()


async def in_slices(work: Generator[None, None, T], *, apart: bool = False) -> T:
    """Run a generator to its end, and return its result. Where it yields, other tasks of the event loop can run.

    A worker thread helps the other tasks less, because it keeps the interpreter to itself for 5 ms at a time. With `apart` the
    generator runs in one: use it if a single step may take longer than that.
    """
    if apart:
        return await asyncio.to_thread(at_once, work)
    loop = asyncio.get_running_loop()
    # Short computations that follow each other share a slice.
    began = _PAUSED_AT.get(loop, -inf)
    while True:
        if loop.time() - began > _SLICE_SECONDS:
            await asyncio.sleep(0)
            _PAUSED_AT[loop] = began = loop.time()
        try:
            next(work)
        except StopIteration as end:
            return end.value


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
