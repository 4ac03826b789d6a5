"""Serve calls in their order if a process makes more of them at the same time than it has connections or threads."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from heapq import heappop, heappush
from itertools import count
from math import inf
from typing import TypeAlias

from memolog.core.deadline import Budget, current_budget, current_rank
from memolog.errors import StoreBusy

_Waiter: TypeAlias = "asyncio.Future[None]"

# After so many calls of turns and of the application, one call of the background is served, so that none waits for ever.
_BEFORE_BACKGROUND = 3
_SHORT_SECONDS = 0.1


class CallQueue:
    """Lets at most `size` calls of an event loop run at the same time. Of the others, the step that began first is served first.

    Calls of the background wait until no other call waits, except that every fourth place is for them. The time in the queue is
    not part of the time budget of a step while the queue moves. A call raises StoreBusy if the queue has not moved for the rest
    of its budget, or for `stall` seconds without a budget. It also raises StoreBusy if its step has waited longer than its
    patience.
    """

    def __init__(self, size: int, *, what: str, stall: float = inf) -> None:
        """Set the number of calls, the plural name of what they wait for, and the limit for calls without a budget."""
        self._size, self._what, self._stall = size, what, stall
        self._free = size
        # The calls that wait: when their step began, a rising number, and the future that ends the wait.
        self._turns: list[tuple[float, int, _Waiter]] = []
        self._background: list[tuple[float, int, _Waiter]] = []
        self._numbers = count()
        self._in_a_row = 0
        self._moved_at = 0.0

    @property
    def waiting(self) -> int:
        """Return the number of calls that wait."""
        return sum(not waiter.done() for line in (self._turns, self._background) for *_, waiter in line)

    @asynccontextmanager
    async def place(self) -> AsyncGenerator[None]:
        """Run the block when it is the turn of this call."""
        await self.enter()
        try:
            yield
        finally:
            self.leave()

    async def enter(self) -> None:
        """Wait until it is the turn of this call. Each `enter` needs a `leave`."""
        if self._free > 0:
            self._free -= 1
            return
        budget, loop = current_budget(), asyncio.get_running_loop()
        waiter: _Waiter = loop.create_future()
        rank, began = current_rank(), loop.time() if budget is None else budget.began
        line = self._background if rank == "background" else self._turns
        heappush(line, (-inf if rank == "urgent" else began, next(self._numbers), waiter))
        try:
            await self._wait(waiter, budget)
        except BaseException:
            if waiter.done() and not waiter.cancelled() and waiter.exception() is None:
                # The call was cancelled after it got its place.
                self.leave()
            raise

    def leave(self) -> None:
        """Give the place to the call that is next."""
        self._moved_at = asyncio.get_running_loop().time()
        while self._turns or self._background:
            is_background = bool(self._background) and (not self._turns or self._in_a_row >= _BEFORE_BACKGROUND)
            *_, waiter = heappop(self._background if is_background else self._turns)
            if not waiter.done():
                self._in_a_row = 0 if is_background else self._in_a_row + 1
                waiter.set_result(None)
                return
        self._free += 1

    async def _wait(self, waiter: _Waiter, budget: Budget | None) -> None:
        """Wait, without counting the time while the queue moves. Raise StoreBusy if it takes too long."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        left, patience = (self._stall, inf) if budget is None else (budget.left, budget.patience)
        timer: asyncio.TimerHandle | None = None

        def look() -> None:
            nonlocal timer
            now, end = loop.time(), min(max(began, self._moved_at) + left, began + patience)
            if not waiter.done() and now >= end:
                waiter.set_exception(self._too_late(now - began))
            elif not waiter.done() and end < inf:
                timer = loop.call_at(end, look)

        look()
        if budget is not None:
            budget.stop()
        try:
            await waiter
        finally:
            if timer is not None:
                timer.cancel()
            if budget is not None:
                now = loop.time()
                # Since the queue moved last, the time counts.
                budget.resume(max(began, self._moved_at) - began, queued=now - began)

    def _too_late(self, waited: float) -> StoreBusy:
        # A step that has waited for the server before may have no time left for the queue.
        is_short = waited < _SHORT_SECONDS
        calls = "1 call waits" if self.waiting == 1 else f"{self.waiting} calls wait"
        return StoreBusy(
            "The step had no time left to wait for its turn."
            if is_short
            else f"The call waited {waited:.1f} s for its turn.",
            why=f"All {self._size} {self._what} of this process are in use, and {calls}.",
            then="Make fewer calls at the same time, raise `pool_size` for PostgreSQL, or raise `queue_timeout`.",
        )
