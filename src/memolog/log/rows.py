"""Define the rows of a snapshot as values, and read observations and plans of a log."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Final

from memolog.core.clock import from_micros, to_micros
from memolog.core.exact_json import JsonObject, JsonValue, loads, unpack
from memolog.core.observation import Observation, Source, Span
from memolog.core.run import RunKind, RunStatus
from memolog.core.thread import Hints
from memolog.db.queries import Row, Script, load_queries
from memolog.db.rows import hints_from_row, moment, object_in, span_from_row
from memolog.log.heartbeat import Beat
from memolog.text.dates import local
from memolog.text.identifiers import content_words

q = load_queries("log/logs")

# At most this many plans are shown, and each is compared with at most this many later observations.
_MOST_PLANS: Final = 50
_MOST_LATER: Final = 500
_NO_PLANS: Final = frozenset({"question", "finding", "error", "test", "source", "change"})
_ASKED: Final = ("User asked", "User asks")
# A later observation is about the same thing as a plan if it contains at least this share of the words of the plan. Words are
# equal if their first _STEM characters are.
_SAME_SHARE: Final = 0.6
_STEM: Final = 4
# The first characters of words for dates. These words are not compared.
_DAYS: Final = """
    mond tues wedn thur frid satu sund janu febr marc apri june july augu sept octo nove dece next last week mont year toda
    tomo yest mean date"""
_DAY_WORDS: Final = frozenset(_DAYS.split())


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadHead:
    """The columns of a thread that turns need."""

    id: str
    pk: int = 0
    last_seq: int = 0
    hints: Hints = field(default_factory=Hints)
    last_request_at: datetime | None = None
    last_model: str | None = None
    overrides: JsonObject = field(default_factory=dict[str, JsonValue])
    title: str | None = None
    created_at: int = 0
    has_tasks: bool = False
    """Whether the resource of the thread ever had a task."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogHead:
    """The row of a log: its version, and the failures of its observer. The defaults stand for a log that does not exist."""

    pk: int = 0
    id: str = ""
    version: int = 0
    generation: int = 0
    failures: int = 0
    retry_at: datetime | None = None
    last_success_at: datetime | None = None
    last_error_at: datetime | None = None
    last_error: str | None = None
    settled_tokens: int = 0
    """The tokens of the log when its generation began or, if later, when a reflection failed to shorten it."""
    working_memory: str | None = None
    """The versions of the working memory at the start of the generation, as JSON."""
    run_changes: int = 0
    """How many increments of `version` did not change the active groups."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRow:
    """An active group with its rendered text."""

    id: str
    handle: str
    tokens: int
    text: str = ""
    kind: str = "observer"
    observations: int = 0
    first_at: datetime | None = None
    last_at: datetime | None = None
    activated_at: datetime | None = None
    position: int = 0
    span: Span | None = None
    pk: int = 0
    thread_pk: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BufferedRow:
    """A buffered group: observed, but not part of the log until it is activated."""

    id: str
    kind: str
    covers: tuple[str, ...] = ()
    """The groups that a reflection replaces."""
    thread: str | None = None
    span: Span | None = None
    handle: str = ""
    pk: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRow:
    """A run without a result: running, or failed and waiting for its next attempt."""

    id: str
    kind: RunKind
    status: RunStatus
    lease_until: datetime
    fence: int
    attempt: int
    thread: str | None = None
    span: Span | None = None
    retry_at: datetime | None = None
    owner: str = ""
    """The process that carries out the run."""
    beat_at: datetime
    """When the lease of the run was last renewed."""
    owner_beat: Beat | None = None
    """The last heartbeat of that process. None if it has not written one."""
    is_silent: bool = False
    """Whether that process is dead, even if the lease has not expired."""

    def has_ended(self, now: datetime) -> bool:
        """Return whether the lease has expired or the process is dead."""
        return self.is_silent or self.lease_until <= now


def thread_head(row: Row, thread: str) -> ThreadHead:
    """Return the thread of a `thread_head` row."""
    return ThreadHead(
        pk=row.pk,
        id=thread,
        last_seq=row.last_seq,
        hints=hints_from_row(row),
        last_request_at=moment(row.last_request_at),
        last_model=row.last_model,
        overrides=object_in(row.overrides),
        title=unpack(row.title),
        created_at=row.created_at,
        has_tasks=row.last_handle is not None,
    )


def log_head(row: Row) -> LogHead:
    """Return the log of a `find_log` row."""
    return LogHead(
        pk=row.pk,
        id=row.id,
        version=row.version,
        generation=row.generation,
        failures=row.failures,
        retry_at=moment(row.retry_at),
        last_success_at=moment(row.last_success_at),
        last_error_at=moment(row.last_error_at),
        last_error=unpack(row.last_error),
        settled_tokens=max(row.tokens_after, _incompressible_tokens(row.abandoned, row.generation)),
        working_memory=row.working_memory,
        run_changes=row.run_changes,
    )


def _incompressible_tokens(inputs: str | None, generation: int) -> int:
    """Return the tokens of the log when a reflection of this generation failed to shorten it. Return 0 if none failed."""
    if not inputs or '"incompressible"' not in inputs:
        return 0
    found: JsonObject = loads(inputs)
    return int(found.get("log_tokens", 0)) if found.get("generation") == generation else 0


def group_row(row: Row) -> GroupRow:
    """Return the group of a row with the columns of `select_groups` and `position`."""
    return GroupRow(
        pk=row.pk,
        id=row.id,
        handle=row.handle,
        kind=row.kind,
        tokens=row.tokens,
        text=unpack(row.text) or "",
        observations=row.observations,
        first_at=moment(row.first_at),
        last_at=moment(row.last_at),
        activated_at=moment(row.activated_at),
        position=row.position,
        thread_pk=row.thread_pk,
        span=span_from_row(row),
    )


def buffered_row(row: Row) -> BufferedRow:
    """Return the group of a `buffered_groups` row."""
    # Only the inputs of a reflection contain the groups that it covers.
    inputs: JsonObject = loads(row.inputs) if row.kind == "reflection" and row.inputs else {}
    return BufferedRow(
        pk=row.pk,
        id=row.id,
        kind=row.kind,
        thread=row.thread,
        span=span_from_row(row),
        handle=row.handle,
        covers=tuple(inputs.get("groups", ())),
    )


def run_row(row: Row) -> RunRow:
    """Return the run of an `open_runs` row."""
    return RunRow(
        id=row.id,
        kind=row.kind,
        status=row.status,
        thread=row.thread,
        span=span_from_row(row),
        lease_until=from_micros(row.lease_until),
        retry_at=moment(row.retry_at),
        fence=row.fence,
        attempt=row.attempt,
        owner=row.owner,
        beat_at=from_micros(row.heartbeat_at),
        owner_beat=beat_of(row),
    )


def beat_of(row: Row) -> Beat | None:
    """Return the last beat of the process of a row. None if the process has not written one."""
    return None if row.beats is None else Beat(number=row.beats, at=from_micros(row.beat_at))


def observation_from_row(row: Row, sources: tuple[Source, ...] = (), merges: tuple[str, ...] = ()) -> Observation:
    """Return the observation of a row with the columns of `select_lines`."""
    return Observation(
        id=row.id,
        group=row.group_id,
        ordinal=row.ordinal,
        priority=row.priority,
        text=unpack(row.text) or "",
        said_at=moment(row.said_at),
        zone=unpack(row.zone),
        about=None if row.about is None else date.fromisoformat(row.about),
        parent=row.parent,
        verbatim=unpack(row.verbatim),
        trust=row.trust,
        grounded=bool(row.grounded),
        category=unpack(row.category),
        files=tuple(loads(row.files)) if row.files != "[]" else (),
        metadata=object_in(row.metadata),
        state=row.state,
        tokens=row.tokens,
        sources=sources,
        merges=merges,
    )


def reading_observations(log_pk: int, groups: Sequence[str]) -> Script[tuple[Observation, ...]]:
    """Return the observations of some groups in the order in which the groups were created."""
    rows = yield q.group_observations(log_pk=log_pk, groups=groups)
    sources = sources_by_line((yield q.observation_sources(log_pk=log_pk, groups=groups)))
    merges: dict[str, tuple[str, ...]] = {}
    for row in (yield q.observation_merges(log_pk=log_pk, groups=groups)):
        merges[row.observation] = (*merges.get(row.observation, ()), row.merged)
    return tuple(observation_from_row(row, sources.get(row.id, ()), merges.get(row.id, ())) for row in rows)


def sources_by_line(rows: Sequence[Row]) -> dict[str, tuple[Source, ...]]:
    """Return the sources of observations, by the id of the observation."""
    sources: dict[str, tuple[Source, ...]] = {}
    for row in rows:
        source = Source(thread=row.thread, span=Span(first=row.first_seq, last=row.last_seq))
        sources[row.observation] = (*sources.get(row.observation, ()), source)
    return sources


def reading_plans(
    log_pk: int, generation: int, *, entries: int, since: date, before: date
) -> Script[tuple[Observation, ...]]:
    """Return the plans for days from `since` to before `before`, the latest day first, from groups up to position `entries`.

    A plan is left out if a later observation is about the same thing, because that observation tells the outcome.
    """
    where = {"log_pk": log_pk, "generation": generation, "entries": entries}
    days = {"since": since.isoformat(), "before": before.isoformat()}
    rows = yield q.lines_about(**where, **days, limit=_MOST_PLANS)
    plans = [line for line in (observation_from_row(row) for row in rows) if _is_plan(line)]
    if not plans:
        return ()
    first = min((to_micros(plan.said_at) for plan in plans if plan.said_at), default=0)
    rows = yield q.lines_since(**where, since=first, limit=_MOST_LATER)
    # The newest observation is first, so the observations before a plan in this list are later than the plan.
    newest = [(row.id, _stems(unpack(row.text) or "")) for row in rows]
    positions = {id_: position for position, (id_, _) in enumerate(newest)}
    return tuple(
        plan
        for plan in plans
        if not any(_is_same(_stems(plan.text), words) for _, words in newest[: positions.get(plan.id, 0)])
    )


def _is_plan(line: Observation) -> bool:
    """Return whether an observation is about something to do on a day that was in the future when it was said."""
    if line.about is None or line.priority not in {"high", "medium"} or line.trust == "tool" or line.is_unverified:
        return False
    if line.category in _NO_PLANS or line.text.startswith(_ASKED) or line.text.rstrip().endswith(("?", "？", "؟")):
        return False
    if line.said_at is None:
        return line.category == "plan"
    return line.about > local(line.said_at, line.zone).date()


def _stems(text: str) -> frozenset[str]:
    return frozenset(word[:_STEM] for word in content_words(text) if not word.isdecimal()) - _DAY_WORDS


def _is_same(plan: frozenset[str], later: frozenset[str]) -> bool:
    return bool(plan) and len(plan & later) >= _SAME_SHARE * len(plan)
