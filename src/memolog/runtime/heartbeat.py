"""Write the heartbeat of this process, by which others see that its runs and turns are alive.

Writes only while something is running.
"""

import asyncio
import contextlib
from collections.abc import Generator
from contextlib import contextmanager
from datetime import datetime

from memolog.domain.clock import Clock
from memolog.domain.errors import MemologError
from memolog.store.processes import Processes

__all__ = ["Heartbeat"]


class Heartbeat:
    """Writes the beats of one process."""

    def __init__(self, processes: Processes, owner: str, *, clock: Clock, every: float) -> None:
        self._processes, self._owner, self._clock, self._every = processes, owner, clock, every
        self._under_way = 0
        self._beaten: tuple[float, datetime] | None = None
        self._task: asyncio.Task[None] | None = None
        self._ending: set[asyncio.Task[None]] = set()
        self._gate = asyncio.Lock()

    @contextmanager
    def under_way(self) -> Generator[None]:
        """Beat while the block runs."""
        self._under_way += 1
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._go_on(), name="memolog-heartbeat")
        try:
            yield
        finally:
            self._under_way -= 1
            if not self._under_way:
                self._end()

    def _end(self) -> None:
        if self._task is not None:
            self._ending.add(self._task)
            self._task.add_done_callback(self._ending.discard)
            self._task.cancel()
            self._task = None

    async def now(self) -> None:
        """Write a beat if one is due: before this process claims something."""
        async with self._gate:
            if self._is_due():
                at = asyncio.get_running_loop().time(), self._clock.now()
                await self._processes.beat(self._owner)
                self._beaten = at

    def _is_due(self) -> bool:
        """Return whether the last beat is old, by elapsed time or by the clock, which may have been set."""
        if self._beaten is None:
            return True
        time, now = self._beaten
        is_old = asyncio.get_running_loop().time() - time >= self._every
        return is_old or abs((self._clock.now() - now).total_seconds()) >= self._every

    async def _go_on(self) -> None:
        while True:
            # A failed beat is retried at the next.
            with contextlib.suppress(MemologError, TimeoutError):
                async with asyncio.timeout(2 * self._every):
                    await self.now()
            await asyncio.sleep(self._every)

    async def ended(self) -> None:
        """Wait until cancelled beats have stopped."""
        if self._ending:
            await asyncio.wait(self._ending)

    async def stop(self) -> None:
        """Stop beating."""
        self._end()
        await self.ended()
