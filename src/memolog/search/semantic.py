"""Search by meaning: make the vectors of new texts in the background, and find the texts nearest to a query.

If the embedder fails, search continues with words alone. After a failure the embedder is not called for a while, and each further
failure makes this time longer.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final

from memolog.core.cache import Cache
from memolog.core.clock import Clock
from memolog.core.config import SemanticConfig
from memolog.core.deadline import background_task, current_budget
from memolog.core.progress import is_heard, report
from memolog.core.run import Usage
from memolog.errors import InputError, MemologError
from memolog.search import background
from memolog.search.analysis import Redact
from memolog.search.embedding import Array, Embedded, Embedder, Near, is_for_meaning, unit
from memolog.search.query import Query
from memolog.search.vectors import Vectors, Wanted
from memolog.text.error_text import error_text

_log = logging.getLogger("memolog")

# The texts of one request to the embedder, and the longest time of a request in the background.
_TEXTS_AT_ONCE: Final = 64
_REQUEST_SECONDS: Final = 60.0
# The waits after failures: the first, and the longest. Each is twice as long as the one before.
_FIRST_PAUSE: Final = 5.0
_LONGEST_PAUSE: Final = 600.0
# After this time it is tried again, if another process makes vectors now.
_OTHER_SECONDS: Final = 60.0
# The vectors of the last queries are kept, because a query is often repeated for its next page.
_QUERIES: Final = 256
# So many times as many neighbours are read if filters may remove most of them.
_NARROW: Final = 4
_PROBE: Final = "memory"


@dataclass(frozen=True, slots=True, kw_only=True)
class Around:
    """What the search by meaning needs from the rest of Memolog."""

    owner: str
    """The id of this process."""
    clock: Clock
    redact: Redact
    book: Callable[[str, Usage], Awaitable[None]]
    """Stores the usage of a request for a resource."""
    tell: Callable[[str, object], None]
    """Reports that something failed, with the resource and the error."""
    may_spend: Callable[[str, str | None], Awaitable[bool]]
    """Returns whether the budget allows another request for a resource and one of its threads, or no thread."""
    is_read_only: bool = False


class Replaced(MemologError):
    """Another process has chosen another embedder."""


class _CallFailed(Exception):
    """The embedder raised an error. The text of this exception quotes nothing of what was sent; `cause` is the error itself."""

    def __init__(self, name: str, cause: Exception, sent: Sequence[Wanted]) -> None:
        is_late = isinstance(cause, TimeoutError)
        text = f"The embedder {name} did not answer in time." if is_late else ""
        super().__init__(text or error_text(cause, *(one.text for one in sent if one.resource)))
        self.cause = cause


class Semantic:
    """Makes vectors with an embedder, and finds the vectors that are nearest to a query."""

    def __init__(self, vectors: Vectors, embedder: Embedder, config: SemanticConfig, around: Around) -> None:
        self.vectors, self.embedder, self.config = vectors, embedder, config
        self._around = around
        self._key: int | None = None
        self._dimension = 0
        """The key of the embedder in the database, and the dimension of its vectors, when they are known."""
        self._changed_at: float | None = None
        """The time of the event loop at which the dimension changed."""
        self._is_replaced = self._is_tidy = self._has_claim = False
        """Whether another embedder was chosen, whether the vectors of earlier ones were deleted, and whether this process has
        claimed the making of vectors."""
        self._refused: dict[str | None, int] = {}
        """By resource, or None for all, the last key of the queue up to which the texts that wait are those of spent budgets."""
        self._told: set[str] = set()
        """The resources of which it was reported that a budget is spent."""
        self._queries = Cache[str, Array](_QUERIES)
        self._failures = 0
        self._resume_at = 0.0
        """The time of the event loop before which the embedder is not called, after failures."""

    # ------------------------------------------------------------ finding

    async def near(self, resource: str, query: Query) -> Sequence[Near]:
        """Return the texts nearest to a query. Nothing if the query asks for exact words, or if the embedder fails."""
        if self._is_replaced or not is_for_meaning(query):
            return ()
        try:
            return await self._near(resource, query)
        except Exception as error:  # noqa: BLE001 - a search must not fail because of its optional part
            self.failed(error, resource)
            return ()

    async def _near(self, resource: str, query: Query) -> Sequence[Near]:
        vector = await self._vector(resource, query.plain)
        if vector is None or not await self._is_known(len(vector)):
            return ()
        # Filters other than that of the threads to search are applied later, so more texts are read.
        filters = (query.roles, query.without_roles, query.after, query.before, query.tasks, query.sources)
        is_narrow = any(filters) or bool(query.without_threads)
        return await self.vectors.nearest(
            resource,
            self._key or 0,
            vector,
            count=self.config.neighbours * (_NARROW if is_narrow else 1),
            least=self.config.threshold,
            threads=sorted(query.threads),
        )

    async def _vector(self, resource: str, text: str) -> Array | None:
        """Return the vector of a query. None if the embedder failed a short time ago."""
        clean = self._around.redact(text).strip()
        known = self._queries.get(clean)
        if known is not None or not clean:
            return known
        if asyncio.get_running_loop().time() < self._resume_at or not await self._may_spend(resource, None):
            return None
        budget = current_budget()
        # In a turn, the rest of the time is for the search by words.
        seconds = self.config.timeout if budget is None else min(self.config.timeout, budget.left / 2)
        vector = (await self._embed([Wanted(0, 0, resource, clean)], seconds, is_query=True))[0]
        self._queries.put(clean, vector)
        return vector

    async def _is_known(self, dimension: int) -> bool:
        """Return whether there are vectors of this embedder with this dimension."""
        if self._key is None or self._dimension != dimension:
            found = await self.vectors.chosen(self.embedder.name)
            if found is not None:
                self._key, self._dimension = found[:2]
        return self._key is not None and self._dimension == dimension

    # ------------------------------------------------------------ making

    async def make(self, resource: str | None = None) -> int:
        """Make all vectors that are missing, of one resource or of all. Return how many texts got one.

        For all resources, nothing is done if another process makes vectors now. Raises the error of the embedder.
        """
        try:
            return await self._make(resource)
        except _CallFailed as failed:
            raise failed.cause from failed.cause.__cause__

    async def _make(self, resource: str | None = None) -> int:
        made = 0
        await self._choose()
        if resource is not None:
            self._refused.pop(resource, None)
        while count := await self.make_batch(resource):
            made += count
            if is_heard() and resource is not None and self._key is not None:
                report("vectors", made, made + await self.vectors.waiting(self._key, resource))
        return made

    async def make_some(self) -> int:
        """Make vectors of all resources until none is missing or the embedder fails. Return how many texts got one."""
        if asyncio.get_running_loop().time() < self._resume_at:
            return 0
        try:
            return await self._make()
        except Exception as error:  # noqa: BLE001 - the texts stay in the queue, and are tried again
            self.failed(error)
            return 0

    async def make_batch(self, resource: str | None = None) -> int | None:
        """Make the next vectors. Return how many texts got one, or None if another process makes them. Raises if it fails.

        The error does not quote the texts.
        """
        if self._is_replaced:
            return 0
        key, owner = await self._choose(), self._around.owner
        batch, is_partial = await self._next_batch(key, resource)
        if not batch:
            await self._tidy(key, resource)
            return 0
        if resource is None:
            claimed = await self.vectors.claim(key, owner, self._around.clock.now())
            if claimed is None:
                raise self._replaced()
            if not claimed:
                return None
            self._has_claim = True
        texts = [one for one in batch if one.text.strip()]
        arrays = await self._embed(texts, _REQUEST_SECONDS) if texts else []
        if any(len(array) != self._dimension for array in arrays):
            # The model has another dimension than before under the same name, so all vectors are made again.
            self._note_change(len(arrays[0]))
            self._dimension = len(arrays[0])
            self._key = await self.vectors.choose(self.embedder.name, self._dimension)
            return len(batch)
        made: list[tuple[Wanted, Array | None]] = list(zip(texts, arrays, strict=True))
        made += [(one, None) for one in batch if not one.text.strip()]
        if await self.vectors.add(key, made) is None:
            raise self._replaced()
        self._failures, self._resume_at = 0, 0.0
        if is_partial:
            self._refused[resource] = batch[-1].pk
        return len(batch)

    async def _next_batch(self, key: int, resource: str | None) -> tuple[list[Wanted], bool]:
        """Return the next texts whose budget is not spent, and whether others were among them.

        The others stay in the queue. As a budget is a setting, this process does not look at them again, except for `index`.
        """
        while True:
            after = self._refused.get(resource, 0)
            batch = await self.vectors.batch(
                key, self._around.redact, limit=_TEXTS_AT_ONCE, resource=resource, after=after
            )
            if batch is None:
                raise self._replaced()
            accounts = dict.fromkeys((one.resource, one.thread) for one in batch)
            paid = {account for account in accounts if await self._may_spend(*account)}
            chosen = [one for one in batch if (one.resource, one.thread) in paid]
            if chosen or not batch:
                return chosen, len(chosen) < len(batch)
            self._refused[resource] = batch[-1].pk

    async def _may_spend(self, resource: str, thread: str | None) -> bool:
        """Return whether the budget allows another request, and report the first time that it does not."""
        may_spend = await self._around.may_spend(resource, thread)
        if not may_spend and resource not in self._told:
            self._told.add(resource)
            what = f"The budget is spent, so the embedder {self.embedder.name} is not called. Search finds words only."
            self._around.tell(resource, what)
        return may_spend

    def _note_change(self, dimension: int) -> None:
        """Raise InputError if the dimension changes again soon: then all vectors would be made again without an end."""
        now = asyncio.get_running_loop().time()
        if self._changed_at is not None and now - self._changed_at < _LONGEST_PAUSE:
            raise InputError(
                f"The embedder {self.embedder.name} returned vectors of {dimension} numbers, before that of {self._dimension}.",
                why="The dimension changed twice within ten minutes.",
                then="Use an embedder whose vectors all have the same length.",
            )
        self._changed_at = now

    async def _tidy(self, key: int, resource: str | None) -> None:
        """Let PostgreSQL compare all vectors, delete those of earlier embedders, and let other processes make vectors."""
        while await self.vectors.mirror():
            pass
        if resource is not None:
            return
        if not self._is_tidy:
            while await self.vectors.forget_older(key):
                pass
            self._is_tidy = True
        if self._has_claim:
            await self.vectors.release(key, self._around.owner)
            self._has_claim = False

    async def _choose(self) -> int:
        """Return the key of this embedder. At first it is made the chosen one of the database."""
        if self._key is None:
            found = await self.vectors.chosen(self.embedder.name)
            if found is None:
                self._dimension = len((await self._embed([Wanted(0, 0, "", _PROBE)], _REQUEST_SECONDS))[0])
            else:
                self._dimension = found[1]
            if found is None or not found[2]:
                self._key = await self.vectors.choose(self.embedder.name, self._dimension)
            else:
                self._key = found[0]
        return self._key

    def _replaced(self) -> Replaced:
        self._is_replaced = True
        return Replaced(
            f"The vectors of {self.embedder.name} were deleted.",
            why="Another process has chosen another embedder for this database.",
            then="Set the same embedder for all processes. Until then this process searches by words.",
        )

    async def _embed(self, texts: Sequence[Wanted], seconds: float, *, is_query: bool = False) -> list[Array]:
        """Return the vectors of texts, and book the usage. That of a text without a resource is not booked."""
        try:
            async with asyncio.timeout(seconds):
                made = await self.embedder.embed([one.text for one in texts], is_query=is_query)
        except Exception as error:
            raise _CallFailed(self.embedder.name, error, texts) from error
        if len(made.vectors) != len(texts):
            raise InputError(
                f"The embedder {self.embedder.name} returned {len(made.vectors)} vectors for {len(texts)} texts.",
                then="Return one vector for each text, in the same order.",
            )
        await self._book(texts, made)
        arrays = await asyncio.to_thread(lambda: [unit(vector) for vector in made.vectors])
        lengths = sorted({len(array) for array in arrays})
        if len(lengths) > 1:
            raise InputError(
                f"The embedder {self.embedder.name} returned vectors of {lengths[0]} and of {lengths[-1]} numbers in one answer.",
                then="Return vectors that all have the same length.",
            )
        return arrays

    async def _book(self, texts: Sequence[Wanted], made: Embedded) -> None:
        """Store the usage of a request. The threads share it by the lengths of their texts."""
        shares: dict[tuple[str, str | None], int] = {}
        for one in texts:
            account = (one.resource, one.thread)
            shares[account] = shares.get(account, 0) + len(one.text)
        total = sum(shares.values()) or 1
        for (resource, thread), share in shares.items():
            if resource and not self._around.is_read_only:
                part = share / total
                tokens, cost = round(made.tokens * part), made.cost * part
                name = self.embedder.name
                usage = Usage(model=name, input_tokens=tokens, cost=cost, kind="other", thread=thread)
                await self._around.book(resource, usage)

    def failed(self, error: Exception, resource: str = "") -> float:
        """Report a failure. Return the seconds until the next try."""
        pause = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2.0 ** min(self._failures, 20))
        self._failures += 1
        self._resume_at = asyncio.get_running_loop().time() + pause
        self._around.tell(resource, error)
        return pause


class BackgroundVectors:
    """Makes vectors after the index has changed. `wake` may be called on any thread.

    A pause is a timer of the event loop. There is a task only while vectors are made.
    """

    def __init__(self, semantic: Semantic) -> None:
        self._semantic = semantic
        self._loop = asyncio.get_running_loop()
        self._is_closed = False
        self._is_awake = self._was_woken = False
        """Whether a timer or a task is running, and whether `wake` was called since the task began."""
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[float | None] | None = None

    def wake(self) -> None:
        """Note that there may be texts without a vector."""
        self._was_woken = True
        if not self._is_awake and not self._is_closed:
            self._is_awake = True
            # A closed event loop is an error of the caller, and must not fail a write that is committed.
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._pause, background.IDLE_SECONDS)

    async def close(self) -> None:
        """Stop. A request under way is cancelled, and its texts stay in the queue."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})

    def _pause(self, seconds: float) -> None:
        if not self._is_closed:
            self._timer = self._loop.call_later(seconds, self._begin)

    def _begin(self) -> None:
        self._timer, self._was_woken = None, False
        self._task = background_task(self._make(), name="memolog-vectors")
        self._task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[float | None]) -> None:
        self._task = None
        pause = None if task.cancelled() or task.exception() is not None else task.result()
        if pause is None and self._was_woken and not task.cancelled():
            pause = background.IDLE_SECONDS
        if pause is None:
            self._is_awake = False
        else:
            self._pause(pause)

    async def _make(self) -> float | None:
        """Make vectors until none is missing. Return the seconds until the next try, or None if nothing is left to do."""
        try:
            while True:
                count = await self._semantic.make_batch()
                if count is None:
                    return _OTHER_SECONDS
                if not count:
                    return None
                await asyncio.sleep(0)
        except Replaced as error:
            self._semantic.failed(error)
            return None
        except Exception as error:  # noqa: BLE001 - the texts stay in the queue, and are tried again
            _log.info("vectors cannot be made: %s", error)
            return self._semantic.failed(error)
