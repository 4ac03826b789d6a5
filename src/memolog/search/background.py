"""Index new and changed rows in the background, in small batches, while the process does not write anything else."""

import asyncio
import contextlib
import logging

from memolog.core.deadline import background_task
from memolog.errors import MemologError
from memolog.search.analysis import Redact
from memolog.search.index import Indexing, reading_next_waiting

_log = logging.getLogger("memolog")

# Indexing begins when this process has written nothing for IDLE_SECONDS, and pauses at the next write. If the process writes
# without such a pause, one batch is indexed every BUSY_SECONDS.
IDLE_SECONDS = 0.5
BUSY_SECONDS = 10.0
# A batch is small, because a save that begins meanwhile waits for it.
_ROWS = 32
# The name of the commit point of a batch.
OWN = "search.index"


class BackgroundIndexing:
    """Indexes the rows that this process, or an earlier one, has written. `wrote` must be called after each commit.

    A pause is a timer of the event loop. There is a task only while rows are indexed.
    """

    def __init__(self, indexing: Indexing, redact: Redact) -> None:
        self._indexing, self._redact = indexing, redact
        self._loop = asyncio.get_running_loop()
        self._writes = self._seen = 0
        """The number of writes, and that number when the last task began."""
        self._is_awake = False
        """Whether a timer or a task is running, or is about to begin."""
        self._is_closed = False
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[bool] | None = None
        self._is_stopping = False
        """Whether the task must end after its batch."""

    def wrote(self, name: str) -> None:
        """Note a commit of this process. May be called on any thread."""
        if name != OWN:
            self._writes += 1
        # A search that has indexed only a part of the rows begins a pause too, but is no reason to make the pause longer.
        if not self._is_awake and not self._is_closed:
            self._is_awake = True
            # A closed event loop is an error of the caller, and must not fail a write that is committed.
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._pause)

    async def settled(self) -> None:
        """Wait until the running batch ends. Indexing continues after the next pause."""
        if self._task is not None:
            self._is_stopping = True
            await asyncio.wait({self._task})

    async def close(self) -> None:
        """Stop after the running batch. A later write begins no other batch."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})

    def _pause(self, waited: float = 0.0) -> None:
        """Begin a pause. `waited` are the seconds since the last batch or the first write after it."""
        if not self._is_closed:
            self._timer = self._loop.call_later(IDLE_SECONDS, self._end_pause, waited + IDLE_SECONDS, self._writes)

    def _end_pause(self, waited: float, writes: int) -> None:
        is_idle = writes == self._writes and not self._indexing.callers
        if is_idle or waited >= BUSY_SECONDS:
            self._timer = None
            self._seen = self._writes
            self._task = background_task(self._index(), name="memolog-index")
            self._task.add_done_callback(self._ended)
        else:
            self._pause(waited)

    def _ended(self, task: asyncio.Task[bool]) -> None:
        self._task, self._is_stopping = None, False
        if task.cancelled() or task.exception() is not None:
            self._is_awake = False
        elif not task.result():
            self._pause()
        else:
            self._is_awake = False
            # A write on another thread may have come before this line, but after the task has ended.
            if self._writes != self._seen:
                self.wrote(OWN)

    async def _index(self) -> bool:
        """Index until the next write. Return whether nothing waits any more, or nothing can be indexed before the next write."""
        try:
            return await self._index_all()
        except MemologError as error:
            # The rows stay in the queue. The next write begins again.
            _log.info("the search index cannot be updated: %s", error)
            return True

    async def _index_all(self) -> bool:
        resource = await self._next_after("")
        while resource is not None:
            batch = await self._indexing.index_batch(resource, self._redact, rows=_ROWS)
            if batch is not None and not batch.added:
                # Another process indexes the same rows.
                return False
            if self._seen != self._writes or self._indexing.callers or self._is_stopping:
                return False
            if batch is None:
                resource = await self._next_after(resource)
            await asyncio.sleep(0)
        return True

    async def _next_after(self, resource: str) -> str | None:
        return await self._indexing.engine.read(lambda: reading_next_waiting(resource))
