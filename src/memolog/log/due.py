"""Find the logs that have background work, with one query, and ask workers to look at a log.

The query reads the threads that have changed since a worker last looked at them, and the runs that ended without a result. The
rules here are those of `decide`, but on sums of tokens. So `decide` may still find that nothing can be done, for example because
a tool call has no result yet.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from memolog.core.clock import from_micros, to_micros
from memolog.core.config import Config
from memolog.core.exact_json import JsonObject, dumps
from memolog.core.job import LOOK, QUEUE, HeldRuns, LookJob
from memolog.core.measures import WorkKind
from memolog.core.observation import Scope
from memolog.db.engine import Calls, writes
from memolog.db.queries import Row, Script, load_queries
from memolog.db.rows import from_row, moment, object_in
from memolog.db.scope import check_ids
from memolog.log.decide import breaker_is_open, condensable, filled_step, is_due, may_reflect, next_step
from memolog.log.snapshot import GroupRow, ThreadHead, find_log
from memolog.log.state import Asked, State
from memolog.text.tokens import calibrated

q = load_queries("log/due")

# The threads that one query reads. All threads of a shared log are read together, even if they are more.
_PAGE: Final = 200
# More are needed only if workers take the job between two statements again and again. Then a sweep finds the work.
_DEFER_ATTEMPTS: Final = 3


class Why(NamedTuple):
    """Why a worker should look at a log."""

    kind: WorkKind
    reason: str
    rest: bool = False
    """Whether the worker should also observe messages that are fewer than a step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingThread:
    """A thread, and how many of its tokens and messages no group and no run covers."""

    id: str
    pk: int
    last_seq: int
    updated_at: datetime
    overrides: JsonObject
    last_model: str | None
    uncovered: int
    """The tokens of messages after the cursor."""
    free: int
    """The tokens of messages after the cursor that are in no buffered group and no run."""
    waiting: int
    """The number of those messages."""
    oldest: datetime | None
    """The time of the first message after the cursor that is in no buffered group."""
    has_hole: bool
    """Whether some of those messages are before a buffered group or a run."""
    is_hinted: bool
    """Whether a group with hints of this thread was activated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingLog:
    """A log with its threads, the longest idle first, and the sums that show whether it has work."""

    resource: str
    is_shared: bool
    threads: tuple[WaitingThread, ...]
    pk: int | None
    """None if the log does not exist yet."""
    version: int
    generation: int
    failures: int
    retry_at: datetime | None
    runs: int
    """The number of runs without a result."""
    observing: int
    """The number of observer runs under way."""
    expired: int
    """The number of runs whose lease has ended."""
    next_try: datetime | None
    """When the first failed run may be tried again."""
    tokens: int
    settled_tokens: int
    has_reflection: bool

    @property
    def waiting(self) -> int:
        """Return the number of messages that no group and no run covers."""
        return sum(thread.waiting for thread in self.threads)

    @property
    def thread(self) -> WaitingThread:
        """Return the thread to look at: the longest idle one with messages that no group and no run covers."""
        return next((thread for thread in self.threads if thread.waiting), self.threads[-1])

    @property
    def state(self) -> tuple[object, ...]:
        """Return a value that differs after every change of the log or of its threads."""
        return (self.pk, self.version, self.runs, *((thread.pk, thread.last_seq) for thread in self.threads))

    def why_due(self, config: Config, factor: float, now: datetime) -> Why | None:
        """Return why a worker should look at the log, as far as the sums show it."""
        if self.expired:
            return Why("take_over", "a run was left behind")
        if self._may_retry(now):
            return Why("retry", "a failed run may be tried again")
        if breaker_is_open(self.failures, self.retry_at, now):
            return None
        return self._why_observe(config, factor, now) or self._why_reflect(config, factor)

    def _may_retry(self, now: datetime) -> bool:
        return self.next_try is not None and is_due(self.next_try, now) and is_due(self.retry_at, now)

    def _why_observe(self, config: Config, factor: float, now: datetime) -> Why | None:
        if self.observing >= config.observation.parallel or not self.waiting:
            return None
        stretches = [calibrated(factor, thread.free) for thread in self.threads if thread.waiting]
        free = sum(stretches)
        uncovered = sum(calibrated(factor, thread.uncovered) for thread in self.threads)
        log_tokens, step = calibrated(factor, self.tokens), config.buffer_step
        if step is not None and self.observing:
            step = step * (4 + self.observing) // 4
        elif step is not None:
            step = next_step(config, log=log_tokens, uncovered=uncovered, taken=uncovered - free)
        if any(thread.has_hole for thread in self.threads):
            return Why("observe", "buffered groups wait for earlier messages")
        if step is not None and free >= filled_step(stretches, step, config.threshold_for(log_tokens)):
            return Why("observe", f"{free:,} tokens are new")
        if free == uncovered >= config.threshold_for(log_tokens):
            return Why("observe", f"the tail has {uncovered:,} tokens")
        idle = now - max(thread.updated_at for thread in self.threads)
        if config.sweep_after is not None and idle >= timedelta(seconds=config.sweep_after):
            return Why("observe", f"{self.waiting:,} messages are left", rest=True)
        return None

    def _why_reflect(self, config: Config, factor: float) -> Why | None:
        tokens = calibrated(factor, self.tokens)
        if self.has_reflection or not may_reflect(
            config, self.generation, tokens, calibrated(factor, self.settled_tokens)
        ):
            return None
        is_new = self.is_shared and any(thread.uncovered and not thread.is_hinted for thread in self.threads)
        if is_new and tokens < config.reflect_block_at:
            return None
        return Why("reflect", f"the log has {tokens:,} tokens")


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingPage:
    """Some logs that may have work, and where the next page begins. `next` is None after the last page."""

    logs: tuple[WaitingLog, ...]
    next: tuple[int, int] | None


class Due(Calls):
    """Finds the logs with background work. For workers, which act for the whole database."""

    async def page(
        self, *, scope: Scope | None, now: datetime, after: tuple[int, int] | None = None, resource: str | None = None
    ) -> WaitingPage:
        """Return a page of the logs that may have work. `scope` is the scope that the configuration sets, if it sets one.

        With `resource`, all threads of this resource are read. Otherwise the threads of all resources that have changed since
        a worker last looked at them, and on the first page also the logs with runs that were left behind.
        """
        if resource is not None:
            check_ids(resource=resource)
        return await self.engine.read(lambda: reading_page(scope=scope, now=now, after=after, resource=resource))

    async def why(self, log: WaitingLog, config: Config, factor: float, now: datetime) -> Why | None:
        """Return why a worker should look at a log. Reads the groups of a log that may be reflected."""
        why = log.why_due(config, factor, now)
        if why is not None and why.kind == "reflect":
            can_reflect = await self.engine.read(lambda: _can_reflect(log, config, factor, now))
            return why if can_reflect else None
        return why

    async def held(self, now: datetime) -> HeldRuns | None:
        """Return the runs under way in any process, with leases that have not ended. None if there are none."""
        (held,) = await self.engine.fetch(q.held(now=to_micros(now)), _held)
        return held

    @writes("due.mark")
    def mark(self, threads: Sequence[tuple[WaitingLog, WaitingThread]]) -> Script[None]:
        """Note that nothing is left to do for some threads, as long as no message is added."""
        yield q.mark.many(
            [
                {"thread_pk": thread.pk, "last_seq": thread.last_seq, "log_pk": log.pk, "version": log.version}
                # All writers lock threads in the order of their keys.
                for log, thread in sorted(threads, key=lambda pair: pair[1].pk)
            ]
        )


class Jobs(Calls):
    """Asks workers to look at a log. On SQLite there is nothing to do, because its worker asks the database what is due."""

    @writes("jobs.defer")
    def defer(self, resource: str, thread: str, scope: Scope) -> Script[None]:
        """Ask a worker to look at the log of a thread. If such a job waits already, nothing is added."""
        yield from self.deferring(resource, thread, scope)

    def deferring(self, resource: str, thread: str, scope: Scope) -> Script[None]:
        """Add the job in the transaction of the caller. It must be the last step, because it may wait for another transaction."""
        check_ids(resource=resource, thread=thread)
        if self.engine.has_queue:
            job = LookJob(resource=resource, thread=thread, is_shared=scope == "resource")
            # No worker may take a waiting job before this transaction ends. If one has just taken it, another job is added.
            for _ in range(_DEFER_ATTEMPTS):
                if (yield q.defer(queue=QUEUE, task=LOOK, key=job.key, arguments=dumps(job.arguments))):
                    return
                if (yield q.hold_job(key=job.key)):
                    return


def reading_page(
    *,
    scope: Scope | None,
    now: datetime,
    after: tuple[int, int] | None = None,
    resource: str | None = None,
    limit: int = _PAGE,
) -> Script[WaitingPage]:
    """Read a page of logs, as part of a larger script. `Due.page` explains the arguments."""
    at, key = after or (-1, -1)
    values = {
        "scope": None if scope is None else dumps(scope),
        "now": to_micros(now),
        "after_at": at,
        "after_pk": key,
        "limit": limit,
    }
    rows = yield q.due(**values) if resource is None else q.due_of(resource=resource, **values)
    is_full = bool(rows) and rows[0].page_size == limit
    return WaitingPage(logs=tuple(_logs(rows)), next=(rows[0].page_at, rows[0].page_pk) if is_full else None)


def _can_reflect(log: WaitingLog, config: Config, factor: float, now: datetime) -> Script[bool]:
    head = yield from find_log(log.resource, None if log.is_shared else log.thread.pk)
    if head is None:
        return False
    rows = yield q.entries(log_pk=head.pk, generation=head.generation)
    entries = tuple(from_row(GroupRow, row, last_at=moment(row.last_at)) for row in rows)
    state = State(
        scope="resource" if log.is_shared else "thread",
        thread=ThreadHead(id=log.thread.id),
        log=head,
        asked=Asked(factor=factor),
        tails=(),
        entries=entries,
    )
    settled = calibrated(factor, head.settled_tokens)
    return may_reflect(config, head.generation, state.log_tokens, settled) and bool(condensable(state, config, now))


def _logs(rows: Iterable[Row]) -> Iterable[WaitingLog]:
    found: dict[tuple[str, int], list[Row]] = {}
    for row in rows:
        found.setdefault((row.resource, row.owner), []).append(row)
    return (_log(of_log) for of_log in found.values())


def _held(row: Row) -> HeldRuns | None:
    return HeldRuns(count=row.runs, until=from_micros(row.first_end)) if row.runs else None


def _log(rows: Sequence[Row]) -> WaitingLog:
    row = rows[0]
    return WaitingLog(
        resource=row.resource,
        is_shared=not row.owner,
        threads=tuple(map(_thread, rows)),
        pk=row.log_pk,
        version=row.version or 0,
        generation=row.generation or 0,
        failures=row.failures or 0,
        retry_at=moment(row.retry_at),
        runs=row.runs,
        observing=row.observing,
        expired=row.expired,
        next_try=moment(row.next_try),
        tokens=row.log_tokens,
        settled_tokens=row.settled_tokens or 0,
        has_reflection=bool(row.reflections),
    )


def _thread(row: Row) -> WaitingThread:
    return WaitingThread(
        id=row.thread,
        pk=row.thread_pk,
        last_seq=row.last_seq,
        updated_at=from_micros(row.updated_at),
        overrides=object_in(row.overrides),
        last_model=row.last_model,
        uncovered=row.uncovered,
        free=row.free,
        waiting=row.waiting,
        oldest=moment(row.oldest),
        is_hinted=row.hinted_seq > 0,
        has_hole=row.first_waiting is not None and row.last_taken is not None and row.first_waiting < row.last_taken,
    )
