"""Define the rows of a snapshot as values, and read observations and plans of a log."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, Final, NamedTuple

from memolog.core.clock import from_micros, to_micros
from memolog.core.exact_json import JsonObject, loads, unpack
from memolog.core.observation import Observation, Source, Span
from memolog.core.thread import Hints
from memolog.db.queries import Row, Script, load_queries
from memolog.db.rows import hints_from_row, moment, object_in, span_from_row
from memolog.log.heartbeat import Beat
from memolog.log.state import OpenRun
from memolog.text.dates import local
from memolog.text.identifiers import content_words

q = load_queries("log/logs")

# Limits of the plans shown, and of the lines that they are compared with.
_MOST_PLANS: Final = 50
_MOST_LATER: Final = 500
_NO_PLANS: Final = frozenset({"question", "finding", "error", "test", "source", "change"})
_ASKED: Final = ("User asked", "User asks")
# Two lines are about the same thing if the other has this share of the words of the first, compared by their beginnings.
_SAME_SHARE: Final = 0.6
_STEM: Final = 4
_DAYS: Final = """
    mond tues wedn thur frid satu sund janu febr marc apri june july augu sept octo nove dece next last week mont year toda
    tomo yest mean date"""
_DAY_WORDS: Final = frozenset(_DAYS.split())


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadHead:
    """The columns of a thread that turns need."""

    pk: int
    id: str
    last_seq: int
    hints: Hints
    last_request_at: datetime | None
    last_model: str | None
    overrides: JsonObject
    title: str | None
    created_at: int
    has_tasks: bool = False
    """Whether its resource ever had a task."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogHead:
    """The log's row: the version that a commit names, and the health of its observer."""

    pk: int
    id: str
    version: int
    generation: int
    failures: int
    retry_at: datetime | None
    last_success_at: datetime | None
    last_error_at: datetime | None
    last_error: str | None
    settled_tokens: int
    """Its tokens when its generation began or, if later, when a reflection could not shorten it."""
    generation_at: datetime
    metadata: JsonObject
    working_memory: str | None
    """The versions of the working memory that the generation began with, as JSON."""
    run_changes: int = 0
    """How many of its versions did not change the active groups."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRow:
    """An active group with the text it was rendered to."""

    pk: int
    id: str
    handle: str
    kind: str
    tokens: int
    text: str
    observations: int
    first_at: datetime | None
    last_at: datetime | None
    activated_at: datetime | None
    position: int
    thread_pk: int | None
    span: Span | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BufferedRow:
    """A group that is ready but not yet part of the log."""

    pk: int
    id: str
    kind: str
    thread: str | None
    span: Span | None
    handle: str
    covers: tuple[str, ...]
    first_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRow(OpenRun):
    """An open run, and the process that runs it."""

    owner: str
    beat_at: datetime
    """When its lease was last renewed."""
    owner_beat: Beat | None
    """The last heartbeat of the process that runs it, if known."""


class OtherRow(NamedTuple):
    """One message of another thread that the log does not cover yet. A tuple, since a shared log has hundreds of them.

    The fields are the columns of `other_tails` in their order.
    """

    thread: str
    cursor: int
    hinted_seq: int
    seq: int
    tokens: int
    role: Any
    created_at: int
    state: str
    pairs: str | None
    alias: int
    """0 if the log has no cursor for the thread yet."""
    turn: str | None

    @property
    def at(self) -> datetime:
        """Return when it was said."""
        return from_micros(self.created_at)


@dataclass(frozen=True, slots=True, kw_only=True)
class UnseenRow:
    """The first message of a running turn that has no reply yet, and the process that runs the turn."""

    thread: str
    turn: str
    first_seq: int
    owner: str
    owner_beat: Beat | None


def no_log(now: int) -> LogHead:
    """Return the log of a thread that has none yet."""
    return LogHead(
        pk=0,
        id="",
        version=0,
        generation=0,
        failures=0,
        retry_at=None,
        last_success_at=None,
        last_error_at=None,
        last_error=None,
        settled_tokens=0,
        generation_at=from_micros(now),
        metadata={},
        working_memory=None,
    )


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
        generation_at=from_micros(row.generation_at),
        metadata=object_in(row.metadata),
        working_memory=row.working_memory,
        run_changes=row.run_changes,
    )


def _incompressible_tokens(inputs: str | None, generation: int) -> int:
    """Return the tokens of the log when a reflection of this generation could not shorten it; 0 if there was none."""
    if not inputs or '"incompressible"' not in inputs:
        return 0
    found: JsonObject = loads(inputs)
    return int(found.get("log_tokens", 0)) if found.get("generation") == generation else 0


def group_row(row: Row) -> GroupRow:
    """Return the group of a row with the columns of `select_groups` and its position."""
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
    # Only the inputs of a reflection name the groups that it covers.
    inputs: JsonObject = loads(row.inputs) if row.kind == "reflection" and row.inputs else {}
    return BufferedRow(
        pk=row.pk,
        id=row.id,
        kind=row.kind,
        thread=row.thread,
        span=span_from_row(row),
        handle=row.handle,
        covers=tuple(inputs.get("groups", ())),
        first_at=moment(row.first_at),
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
        owner_beat=_beat(row),
    )


def _beat(row: Row) -> Beat | None:
    return None if row.beats is None else Beat(number=row.beats, at=from_micros(row.beat_at))


def unseen_row(row: Row) -> UnseenRow:
    """Return the turn of an `unseen` row."""
    return UnseenRow(thread=row.thread, turn=row.turn, first_seq=row.first_seq, owner=row.owner, owner_beat=_beat(row))


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
    """Read the observations of some groups in the order in which the groups were created."""
    rows = yield q.group_observations(log_pk=log_pk, groups=groups)
    sources = sources_by_line((yield q.observation_sources(log_pk=log_pk, groups=groups)))
    merges: dict[str, tuple[str, ...]] = {}
    for row in (yield q.observation_merges(log_pk=log_pk, groups=groups)):
        merges[row.observation] = (*merges.get(row.observation, ()), row.merged)
    return tuple(observation_from_row(row, sources.get(row.id, ()), merges.get(row.id, ())) for row in rows)


def sources_by_line(rows: Sequence[Row]) -> dict[str, tuple[Source, ...]]:
    """Return the sources of observations by their ids."""
    sources: dict[str, tuple[Source, ...]] = {}
    for row in rows:
        source = Source(thread=row.thread, span=Span(first=row.first_seq, last=row.last_seq))
        sources[row.observation] = (*sources.get(row.observation, ()), source)
    return sources


def reading_plans(
    log_pk: int, generation: int, *, entries: int, since: date, before: date
) -> Script[tuple[Observation, ...]]:
    """Read the plans for days from `since` to before `before` without an outcome in a later line, the latest day first.

    Looks at the first `entries` groups of the log.
    """
    where = {"log_pk": log_pk, "generation": generation, "entries": entries}
    days = {"since": since.isoformat(), "before": before.isoformat()}
    rows = yield q.lines_about(**where, **days, limit=_MOST_PLANS)
    plans = [line for line in (observation_from_row(row) for row in rows) if _is_plan(line)]
    if not plans:
        return ()
    first = min((to_micros(plan.said_at) for plan in plans if plan.said_at), default=0)
    rows = yield q.lines_since(**where, since=first, limit=_MOST_LATER)
    # The newest line is first, so lines before a plan in this list are later than the plan.
    newest = [(row.id, _stems(unpack(row.text) or "")) for row in rows]
    places = {id_: place for place, (id_, _) in enumerate(newest)}
    return tuple(
        plan
        for plan in plans
        if not any(_is_same(_stems(plan.text), words) for _, words in newest[: places.get(plan.id, 0)])
    )


def _is_plan(line: Observation) -> bool:
    """Return whether a line is about a day that was in the future when it was said, and about something to do."""
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
