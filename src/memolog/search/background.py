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
    """Indexes the rows that this process, or an earlier one, has written. `wrote` must be called after each commit.

    A timer waits for a pause. A task exists only while rows are indexed.
    """

    def __init__(self, indexing: Indexing, redact: Redact) -> None:
        self._indexing, self._redact = indexing, redact
        self._loop = asyncio.get_running_loop()
        self._writes = 0
        # The number of writes when the timer was set, and how often it found that more was written.
        self._writes_then = self._busy_looks = 0
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None
        self._is_awake = False
        self._is_closed = False
        self._more = False
        """Whether rows were left when the last task ended."""

    def wrote(self, name: str) -> None:
        """Note a commit of this process. May be called on any thread."""
        if name == _OWN:
            return
        self._writes += 1
        if not self._is_awake and not self._is_closed:
            self._is_awake = True
            # A closed event loop is an error of the caller, and must not fail a write that is committed.
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._wait_for_a_pause)

    async def settled(self) -> None:
        """Wait until no rows are being indexed. Rows that wait for a pause are not waited for."""
        if self._task is not None:
            await asyncio.wait({self._task})

    async def close(self) -> None:
        """Stop after the running batch."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})

    # ------------------------------------------------------------ waiting

    def _wait_for_a_pause(self) -> None:
        self._busy_looks = 0
        self._set_timer()

    def _set_timer(self) -> None:
        if not self._is_closed:
            self._writes_then = self._writes
            self._timer = self._loop.call_later(IDLE_SECONDS, self._look)

    def _look(self) -> None:
        """Begin to index if nothing was written since the timer was set, or if the process has been busy for long."""
        is_idle = self._writes == self._writes_then and not self._indexing.callers
        self._busy_looks += 1
        if is_idle or self._busy_looks >= BUSY_SECONDS / IDLE_SECONDS:
            self._task = self._loop.create_task(self._index(self._writes), name="memolog-index")
            self._task.add_done_callback(self._ended)
        else:
            self._set_timer()

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._task = None
        error = None if task.cancelled() else task.exception()
        if error is not None:
            # The rows stay in the queue. The next write begins again.
            log = _log.info if isinstance(error, MemologError) else _log.warning
            log("background indexing has stopped: %s", error)
        if error is None and self._more:
            self._wait_for_a_pause()
        else:
            self._is_awake = False

    # ------------------------------------------------------------ indexing

    async def _index(self, writes: int) -> None:
        """Index until nothing waits or this process writes again."""
        self._more = True
        resource = await self._indexing.next_waiting("")
        while resource is not None:
            batch = await self._indexing.index_batch(resource, self._redact, rows=_ROWS)
            # No row was added if another process indexes the same rows.
            is_held = batch is not None and not batch.added
            if is_held or writes != self._writes or self._indexing.callers:
                return
            if batch is None:
                resource = await self._indexing.next_waiting(resource)
            await asyncio.sleep(0)
        self._more = writes != self._writes
