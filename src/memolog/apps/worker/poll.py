"""Work by asking the database what is due: the worker of a SQLite file, and one pass over any database (`--once`)."""

import asyncio
import math
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, NamedTuple

from memolog.apps.worker.work import Work
from memolog.core.job import DueLog
from memolog.errors import MemologError, StoreReadOnly

# The seconds between two questions: the shortest while there is work, then more and more.
_SHORTEST: Final = 1.0
_LONGEST: Final = 5.0
_UPKEEP_SECONDS: Final = 3_600.0
# The longest pause after a look at a log that has failed.
_LONGEST_BACK_OFF: Final = 60.0


async def pass_once(work: Work, *, concurrency: int, stop: asyncio.Event, grace: float) -> bool:
    """Do everything that is due in the database, and return True.

    Runs of other processes are waited for if their leases end within `grace` seconds, because these processes may be dead. If
    `stop` is set before, begin nothing more, wait for the work under way at most `grace` seconds, and return False. A log whose
    look fails is left to the next pass.
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
    poll, loop = _Poll(work, concurrency, tries_again=False), asyncio.get_running_loop()
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

    `check` raises if the database can never be used again, for example because its file was replaced. That ends the worker, and
    so does a database that cannot be written to. Other errors are reported once, and once more when all is well again.
    """
    poll, loop = _Poll(work, concurrency), asyncio.get_running_loop()
    pause, next_upkeep, failing = _SHORTEST, loop.time(), ""
    stopping = asyncio.ensure_future(stop.wait())
    try:
        while not stop.is_set():
            check()
            try:
                found = await poll.begin()
                await work.index()
                if loop.time() >= next_upkeep:
                    next_upkeep = loop.time() + _UPKEEP_SECONDS
                    await work.upkeep()
            except MemologError as error:
                check()
                if isinstance(error, StoreReadOnly):
                    raise
                if str(error) != failing:
                    work.failed("asking the database for work", error)
                found, failing = False, str(error)
            else:
                if not poll.is_failing:
                    # A log may still find the database away although this question was answered.
                    work.found()
                if failing:
                    work.works("asking the database for work")
                failing = ""
            pause = _SHORTEST if found or poll.running else min(_LONGEST, pause * 1.25)
            await poll.wait(pause, stopping)
        await poll.end(grace)
    finally:
        stopping.cancel()
        await poll.end(0.0)


class _Failure(NamedTuple):
    """A look at a log that has failed."""

    text: str
    pause: float
    until: float
    """The time of the event loop before which the log is not looked at again."""


class _Poll:
    """Looks at several logs at a time, and at each log once at a time."""

    def __init__(self, work: Work, concurrency: int, *, tries_again: bool = True) -> None:
        self._work, self._concurrency, self._tries_again = work, concurrency, tries_again
        self.running: dict[str, asyncio.Task[None]] = {}
        self._failures: dict[str, _Failure] = {}
        self._ending: StoreReadOnly | None = None

    @property
    def is_failing(self) -> bool:
        """Return whether the last look at one of the logs has failed."""
        return bool(self._failures)

    async def begin(self) -> bool:
        """Begin to work on the logs that are due, as many as fit, and return whether there were any.

        Raise StoreReadOnly if a look has found that the database cannot be written to, because waiting cannot mend that.
        """
        if self._ending is not None:
            raise self._ending
        found, time = await self._work.due(), asyncio.get_running_loop().time()
        known = {one.job.key for one in found} | self.running.keys()
        self._failures = {key: one for key, one in self._failures.items() if key in known}
        due = [one for one in found if one.job.key not in self.running and not self._is_paused(one.job.key, time)]
        for one in due[: max(0, self._concurrency - len(self.running))]:
            key = one.job.key
            self.running[key] = task = asyncio.create_task(self._look(one), name=f"memolog-look-{key}")
            task.add_done_callback(lambda _, key=key: self.running.pop(key, None))
        return bool(due)

    def _is_paused(self, key: str, time: float) -> bool:
        return key in self._failures and time < self._failures[key].until

    async def _look(self, one: DueLog) -> None:
        key, what = one.job.key, f"looking at {one.job.resource}: {one.job.thread}"
        try:
            await self._work.look(one.job)
        except StoreReadOnly as error:
            self._ending = error
        except MemologError as error:
            before = self._failures.get(key)
            if before is None or before.text != str(error):
                self._work.failed(what, error)
            pause = min(_LONGEST_BACK_OFF, 2 * before.pause) if before else _SHORTEST
            until = asyncio.get_running_loop().time() + pause if self._tries_again else math.inf
            self._failures[key] = _Failure(str(error), pause, until)
        else:
            if self._failures.pop(key, None) is not None:
                self._work.works(what)

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
