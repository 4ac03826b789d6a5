"""Work by asking the database what is due: the worker of a SQLite file, and one pass over any database (`--once`)."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from memolog.apps.worker.work import Work
from memolog.core.job import DueLog
from memolog.errors import MemologError

# The seconds between two questions: the shortest while there is work, then more and more.
_SHORTEST: Final = 1.0
_LONGEST: Final = 5.0
_UPKEEP_SECONDS: Final = 3_600.0


async def pass_once(work: Work, *, concurrency: int, stop: asyncio.Event, grace: float) -> bool:
    """Do everything that is due in the database, and return True.

    Runs of other processes are waited for if their leases end within `grace` seconds, because these processes may be dead. If
    `stop` is set before, begin nothing more, wait for the work under way at most `grace` seconds, and return False.
    """
    doing, stopping = asyncio.ensure_future(_pass(work, concurrency, stop, grace)), asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait({doing, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if not doing.done():
            await asyncio.wait({doing}, timeout=grace)
    finally:
        stopping.cancel()
        doing.cancel()
        await asyncio.wait({doing})
    return False if doing.cancelled() else doing.result()


async def _pass(work: Work, concurrency: int, stop: asyncio.Event, grace: float) -> bool:
    poll, loop = _Poll(work, concurrency), asyncio.get_running_loop()
    end = loop.time() + grace
    while not stop.is_set():
        try:
            while (not stop.is_set() and await poll.begin()) or poll.running:
                await poll.wait(None)
        finally:
            await poll.end(0.0)
        left = await work.seconds_held()
        if left is None or left > end - loop.time():
            break
        with suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), min(_SHORTEST, left))
    if stop.is_set():
        return False
    await work.index()
    await work.upkeep()
    return True


async def poll_forever(
    work: Work, *, concurrency: int, stop: asyncio.Event, grace: float, check: Callable[[], None]
) -> None:
    """Do what is due until `stop` is set. Then wait for the work under way, at most `grace` seconds, and cancel it.

    `check` raises if the database can never be used again, for example because its file was replaced. That ends the worker.
    """
    poll, loop = _Poll(work, concurrency), asyncio.get_running_loop()
    pause, next_upkeep = _SHORTEST, loop.time()
    stopping = asyncio.ensure_future(stop.wait())
    try:
        while not stop.is_set():
            check()
            try:
                found = await poll.begin()
                work.found()
                await work.index()
                if loop.time() >= next_upkeep:
                    next_upkeep = loop.time() + _UPKEEP_SECONDS
                    await work.upkeep()
            except MemologError as error:
                check()
                work.failed("asking the database for work", error)
                found = False
            pause = _SHORTEST if found or poll.running else min(_LONGEST, pause * 1.25)
            await poll.wait(pause, stopping)
        await poll.end(grace)
    finally:
        stopping.cancel()
        await poll.end(0.0)


class _Poll:
    """Looks at several logs at a time, and at each log once at a time."""

    def __init__(self, work: Work, concurrency: int) -> None:
        self._work, self._concurrency = work, concurrency
        self.running: dict[str, asyncio.Task[None]] = {}

    async def begin(self) -> bool:
        """Begin to work on the logs that are due, as many as fit, and return whether there were any."""
        due = [one for one in await self._work.due() if one.job.key not in self.running]
        for one in due[: max(0, self._concurrency - len(self.running))]:
            key = one.job.key
            self.running[key] = task = asyncio.create_task(self._look(one), name=f"memolog-look-{key}")
            task.add_done_callback(lambda _, key=key: self.running.pop(key, None))
        return bool(due)

    async def _look(self, one: DueLog) -> None:
        try:
            await self._work.look(one.job)
        except MemologError as error:
            self._work.failed(f"looking at {one.job.resource}: {one.job.thread}", error)
            # Without this pause, a log whose look always fails would keep the worker busy.
            await asyncio.sleep(_SHORTEST)

    async def wait(self, seconds: float | None, *others: "asyncio.Future[Any]") -> None:
        """Wait until one of the tasks ends, or so many seconds. If no task fits any more, wait for one to end."""
        waiting = {*self.running.values(), *others}
        if waiting:
            await asyncio.wait(waiting, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)

    async def end(self, grace: float) -> None:
        """Wait for the tasks, at most `grace` seconds, then cancel them. Closing the memory releases the leases of their runs."""
        if self.running:
            _, late = await asyncio.wait(set(self.running.values()), timeout=grace)
            for task in late:
                task.cancel()
            if late:
                await asyncio.wait(late)
