"""The rows that a snapshot is read from, as values.

Knows which column is which field. Knows no query.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from memolog.domain.codec import JsonObject, loads, unpack
from memolog.domain.moments import from_micros
from memolog.domain.observation import Span
from memolog.domain.thread import Hints
from memolog.store.processes import Beat
from memolog.store.sql import Row

__all__ = [
    "BufferedRow",
    "GroupRow",
    "LogHead",
    "OtherRow",
    "RunRow",
    "ThreadHead",
    "UnseenRow",
    "buffered_row",
    "group_row",
    "log_head",
    "moment",
    "no_log",
    "run_row",
    "unseen_row",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadHead:
    """The thread's row, as far as turns need it."""

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
    """Whether its resource ever had a task: most never ask for one."""


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
    generation_at: datetime
    metadata: JsonObject
    working_memory: str | None
    """Which versions of the working memory the generation began with, as JSON."""
    run_changes: int = 0
    """How many of its versions left the active groups as they were."""


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
    """A group that is ready and out of sight."""

    pk: int
    id: str
    kind: str
    thread: str | None
    span: Span | None
    handle: str
    covers: tuple[str, ...]
    first_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRow:
    """A run that is under way or waits to be tried again."""

    id: str
    kind: Any
    status: Any
    thread: str | None
    span: Span | None
    lease_until: datetime
    retry_at: datetime | None
    fence: int
    attempt: int
    owner: str
    beat_at: datetime
    """When its lease was last prolonged."""
    owner_beat: Beat | None
    """The last beat of the process that carries it out; None where that is not known."""


class OtherRow(NamedTuple):
    """One uncovered message of another thread, as an `other_tails` row gives it. A tuple: a shared log has hundreds of them."""

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
    """0 where the log has no place for the thread yet."""
    turn: str | None

    @property
    def at(self) -> datetime:
        """Return when it was said."""
        return from_micros(self.created_at)


@dataclass(frozen=True, slots=True, kw_only=True)
class UnseenRow:
    """From which message on a running turn has no reply yet, and the process that runs it, with its last beat."""

    thread: str
    turn: str
    first_seq: int
    owner: str
    owner_beat: Beat | None


def moment(micros: int | None) -> datetime | None:
    """Return a moment, or None."""
    return None if micros is None else from_micros(micros)


def _span(first: int | None, last: int | None) -> Span | None:
    return None if first is None or last is None else Span(first=first, last=last)


def no_log(now: int) -> LogHead:
    """Return what a log looks like before it has been made."""
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


def log_head(row: Row) -> LogHead:
    """Return the log of a `find_log` row."""
    return LogHead(
        pk=row[0],
        id=row[1],
        version=row[2],
        generation=row[3],
        failures=row[4],
        retry_at=moment(row[5]),
        last_success_at=moment(row[6]),
        last_error_at=moment(row[7]),
        last_error=unpack(row[8]),
        settled_tokens=row[10],
        generation_at=from_micros(row[11]),
        metadata=loads(row[12]) if row[12] != "{}" else {},
        working_memory=row[14],
        run_changes=row[15],
    )


def group_row(row: Row) -> GroupRow:
    """Return the group of an `active_groups` row."""
    return GroupRow(
        pk=row[0],
        id=row[1],
        handle=row[2],
        kind=row[3],
        tokens=row[4],
        text=unpack(row[5]) or "",
        observations=row[6],
        first_at=moment(row[7]),
        last_at=moment(row[8]),
        activated_at=moment(row[9]),
        position=row[10],
        thread_pk=row[11],
        span=_span(row[12], row[13]),
    )


def buffered_row(row: Row) -> BufferedRow:
    """Return the group of a `buffered_groups` row."""
    # Only a reflection's inputs name what it would take the place of.
    inputs: JsonObject = loads(row[7]) if row[2] == "reflection" and row[7] else {}
    return BufferedRow(
        pk=row[0],
        id=row[1],
        kind=row[2],
        thread=row[3],
        span=_span(row[4], row[5]),
        handle=row[6],
        covers=tuple(inputs.get("groups", ())),
        first_at=moment(row[8]),
    )


def run_row(row: Row) -> RunRow:
    """Return the run of an `open_runs` row."""
    return RunRow(
        id=row[0],
        kind=row[1],
        status=row[2],
        thread=row[3],
        span=_span(row[4], row[5]),
        lease_until=from_micros(row[6]),
        retry_at=moment(row[7]),
        fence=row[8],
        attempt=row[9],
        owner=row[10],
        beat_at=from_micros(row[11]),
        owner_beat=_beat(row[12], row[13]),
    )


def _beat(number: int | None, at: int) -> Beat | None:
    return None if number is None else Beat(number=number, at=from_micros(at))


def unseen_row(row: Row) -> UnseenRow:
    """Return what a row of `unseen` says."""
    return UnseenRow(thread=row[0], turn=row[1], first_seq=row[2], owner=row[3], owner_beat=_beat(row[4], row[5]))
