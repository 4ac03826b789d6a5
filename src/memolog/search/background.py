"""Index new and changed rows in the background, in small batches, while the process does not write anything else."""

import asyncio
import contextlib
import logging

from memolog.errors import MemologError
from memolog.search.analysis import Redact
from memolog.search.index import Indexing

_log = logging.getLogger("memolog")

# Indexing begins when this process has written nothing for IDLE_SECONDS, and pauses at the next write. If the process writes
# without such a pause, one batch is indexed every BUSY_SECONDS.
IDLE_SECONDS = 0.5
BUSY_SECONDS = 10.0
# A batch is small, because a save that begins meanwhile waits for it.
_ROWS = 32
# The name of the commit point of a batch.
_OWN = "search.index"


class BackgroundIndexing:
    """Indexes the rows that this process, or an earlier one, has written. `wrote` must be called after each commit."""

    def __init__(self, indexing: Indexing, redact: Redact) -> None:
        self._indexing, self._redact = indexing, redact
        self._loop = asyncio.get_running_loop()
        self._writes = 0
        self._task: asyncio.Task[None] | None = None
        self._is_awake = False
        self._is_closed = False

    def wrote(self, name: str) -> None:
        """Note a commit of this process. May be called on any thread."""
        if name == _OWN:
            return
        self._writes += 1
        if not self._is_awake and not self._is_closed:
            self._is_awake = True
            # A closed event loop is an error of the caller, and must not fail a write that is committed.
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._begin)

    def _begin(self) -> None:
        if self._task is None and not self._is_closed:
            self._task = asyncio.create_task(self._run(), name="memolog-index")
            self._task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._task, self._is_awake = None, False
        if not task.cancelled() and (error := task.exception()) is not None:
            # The rows stay in the queue. The next write begins again.
            _log.info("background indexing has stopped: %s", error)

    async def close(self) -> None:
        """Stop after the running batch."""
        self._is_closed = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})

    async def _run(self) -> None:
        """Index until nothing waits."""
        while True:
            writes = self._writes
            try:
                is_done = await self._round()
            except MemologError as error:
                _log.info("the search index cannot be updated: %s", error)
                return
            if is_done and writes == self._writes:
                return

    async def _round(self) -> bool:
        """Wait for a pause, then index until the next write. Return whether nothing waits any more."""
        writes = await self._pause()
        resource = await self._indexing.next_waiting("")
        while resource is not None:
            batch = await self._indexing.index_batch(resource, self._redact, rows=_ROWS)
            if batch is not None and not batch.added:
                # Another process indexes the same rows.
                return False
            if writes != self._writes or self._indexing.callers:
                return False
            if batch is None:
                resource = await self._indexing.next_waiting(resource)
            await asyncio.sleep(0)
        return True

    async def _pause(self) -> int:
        """Wait until nothing was written for a while, or until the process was busy for long. Return the number of writes."""
        for _ in range(int(BUSY_SECONDS / IDLE_SECONDS)):
            writes = self._writes
            await asyncio.sleep(IDLE_SECONDS)
            if writes == self._writes and not self._indexing.callers:
                break
        return self._writes
