"""A snapshot: all rows that one decision and one context are made from, read at one moment.

Knows which rows those are. Sizes are derived from them each time; nothing is accumulated.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from memolog.domain.codec import JsonObject, loads, unpack
from memolog.domain.errors import ThreadNotFound
from memolog.domain.message import Message
from memolog.domain.moments import from_micros
from memolog.domain.observation import Scope, Span
from memolog.domain.thread import Hints
from memolog.store.recent import Known, Recent, reading_tail
from memolog.store.rows import message_from_row
from memolog.store.sql import Row, Script, load_queries

__all__ = [
    "BufferedRow",
    "GroupRow",
    "LogHead",
    "OtherRow",
    "RunRow",
    "Snapshot",
    "ThreadHead",
    "ensure_log",
    "group_row",
    "reading_snapshot",
]

q = load_queries("logs")
messages = load_queries("messages")

# More of other threads' rows than this are left for the next decision: they are observed oldest first anyway.
_OTHER_ROWS = 4_000


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
    inputs: JsonObject
    started_at: datetime
    error: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherRow:
    """One uncovered message of another thread: its small columns."""

    thread: str
    cursor: int
    hinted_seq: int
    seq: int
    tokens: int
    role: Any
    at: datetime
    state: str
    calls: tuple[str, ...]
    results: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """What is known of one thread and its log at one moment."""

    resource: str
    scope: Scope
    thread: ThreadHead
    log: LogHead
    cursor: int
    alias: int
    tail: tuple[Message, ...]
    """Every row after the cursor, tombstones too."""
    repeated: tuple[Message, ...]
    """What the user said last, where the log covers it but not all that followed: the model goes on from it."""
    groups: tuple[GroupRow, ...]
    buffered: tuple[BufferedRow, ...]
    runs: tuple[RunRow, ...]
    others: tuple[OtherRow, ...]
    known: Known
    """The rows of the tail that need not be read again."""

    def keep(self, recent: Recent) -> None:
        """Remember what the next snapshot need not read again. Only once this one is committed."""
        recent.tails.put(_tail_key(self.log, self.thread), self.known)
        recent.groups.put(_groups_key(self.log), self.groups)


def reading_snapshot(
    resource: str,
    thread: str,
    scope: Scope,
    new_id: Callable[[], str] | None,
    now: int,
    recent: Recent,
    *,
    newest: int | None = None,
) -> Script[Snapshot]:
    """Read the snapshot; makes the log and the cursor where there are none yet, if it is given ids for them.

    `newest` reads no more than that many messages of the tail, for who keeps no log.
    """
    head = yield from _thread_head(resource, thread)
    owner = head.pk if scope == "thread" else None
    if new_id is None:
        rows = yield q.find_log(resource=resource, thread_pk=owner or 0)
        log = _log_head(rows[0]) if rows else _no_log(now)
    else:
        log = yield from ensure_log(resource, owner, new_id, now)
    cursor, alias = yield from _cursor(log.pk, head.pk, create=new_id is not None)
    # Who keeps no log is shown the newest messages, whether or not a log that was kept before covers them.
    start = cursor if newest is None else max(0, head.last_seq - newest)
    known = recent.tails.get(_tail_key(log, head)) or {}
    tail, known = yield from reading_tail(head.pk, start, head.last_seq, known)
    repeated = yield from _repeated(head.pk, cursor, tail)
    groups = recent.groups.get(_groups_key(log))
    if groups is None:
        groups = tuple(map(group_row, (yield q.active_groups(log_pk=log.pk, generation=log.generation))))
    buffered = yield q.buffered_groups(log_pk=log.pk)
    runs = yield q.open_runs(log_pk=log.pk)
    others: Any = ()
    if scope == "resource":
        others = yield q.other_tails(resource=resource, log_pk=log.pk, thread_pk=head.pk, limit=_OTHER_ROWS)
    return Snapshot(
        resource=resource,
        scope=scope,
        thread=head,
        log=log,
        cursor=cursor,
        alias=alias,
        tail=tail,
        repeated=repeated,
        groups=groups,
        buffered=tuple(map(_buffered_row, buffered)),
        runs=tuple(map(_run_row, runs)),
        others=tuple(map(_other_row, others)),
        known=known,
    )


def _tail_key(log: LogHead, thread: ThreadHead) -> tuple[object, ...]:
    # A thread that is made anew may get the key of a deleted one, but not its beginning.
    return log.id, thread.pk, thread.created_at


def _groups_key(log: LogHead) -> tuple[str, int, int]:
    # Whatever changes the log or what it consists of changes its version.
    return log.id, log.version, log.generation


def _repeated(thread_pk: int, cursor: int, tail: Sequence[Message]) -> Script[tuple[Message, ...]]:
    """Return the request that the tail goes on from; it depends on rows alone, so it stays until the next activation."""
    first = next((message for message in tail if message.state == "live"), None)
    if cursor == 0 or (first is not None and first.role == "user"):
        return ()
    rows = yield messages.last_user(thread_pk=thread_pk, up_to=cursor)
    return tuple(map(message_from_row, rows))


def ensure_log(resource: str, thread_pk: int | None, new_id: Callable[[], str], now: int) -> Script[LogHead]:
    """Return the log of a thread, or (None) of the whole resource; makes it if need be."""
    rows = yield q.find_log(resource=resource, thread_pk=thread_pk or 0)
    if not rows:
        created = yield q.create_log(id=new_id(), resource=resource, thread_pk=thread_pk, now=now)
        if created:
            yield q.create_generation(
                log_pk=created[0][0],
                number=0,
                kind="start",
                run_pk=None,
                now=now,
                restored_from=None,
                tokens_before=0,
                tokens_after=0,
                dropped="[]",
            )
        rows = yield q.find_log(resource=resource, thread_pk=thread_pk or 0)
    return _log_head(rows[0])


def _thread_head(resource: str, thread: str) -> Script[ThreadHead]:
    rows = yield q.thread_head(resource=resource, thread=thread)
    if not rows:
        raise ThreadNotFound(thread)
    row = rows[0]
    hints = Hints(
        current_task=unpack(row[2]),
        suggested_response=unpack(row[3]),
        title=unpack(row[4]),
        at=_moment(row[5]),
        last_seq=row[6],
    )
    return ThreadHead(
        pk=row[0],
        id=thread,
        last_seq=row[1],
        hints=hints,
        last_request_at=_moment(row[7]),
        last_model=row[8],
        overrides=loads(row[9]) if row[9] != "{}" else {},
        title=unpack(row[10]),
        created_at=row[11],
    )


def _cursor(log_pk: int, thread_pk: int, *, create: bool) -> Script[tuple[int, int]]:
    rows = yield q.get_cursor(log_pk=log_pk, thread_pk=thread_pk)
    if not rows and not create:
        return 0, 1
    if not rows:
        yield q.create_cursor(log_pk=log_pk, thread_pk=thread_pk, seq=0)
        rows = yield q.get_cursor(log_pk=log_pk, thread_pk=thread_pk)
    return rows[0][0], rows[0][1]


# ---------------------------------------------------------------- rows


def _moment(micros: int | None) -> datetime | None:
    return None if micros is None else from_micros(micros)


def _span(first: int | None, last: int | None) -> Span | None:
    return None if first is None or last is None else Span(first=first, last=last)


def _no_log(now: int) -> LogHead:
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
    )


def _log_head(row: Row) -> LogHead:
    return LogHead(
        pk=row[0],
        id=row[1],
        version=row[2],
        generation=row[3],
        failures=row[4],
        retry_at=_moment(row[5]),
        last_success_at=_moment(row[6]),
        last_error_at=_moment(row[7]),
        last_error=unpack(row[8]),
        settled_tokens=row[10],
        generation_at=from_micros(row[11]),
        metadata=loads(row[12]) if row[12] != "{}" else {},
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
        first_at=_moment(row[7]),
        last_at=_moment(row[8]),
        activated_at=_moment(row[9]),
        position=row[10],
        thread_pk=row[11],
        span=_span(row[12], row[13]),
    )


def _buffered_row(row: Row) -> BufferedRow:
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
        first_at=_moment(row[8]),
    )


def _run_row(row: Row) -> RunRow:
    return RunRow(
        id=row[0],
        kind=row[1],
        status=row[2],
        thread=row[3],
        span=_span(row[4], row[5]),
        lease_until=from_micros(row[6]),
        retry_at=_moment(row[7]),
        fence=row[8],
        attempt=row[9],
        owner=row[10],
        inputs=loads(row[11]),
        started_at=from_micros(row[12]),
        error=unpack(row[13]),
    )


def _other_row(row: Row) -> OtherRow:
    calls, results = loads(row[8]) if row[8] else ((), ())
    return OtherRow(
        thread=row[0],
        cursor=row[1],
        hinted_seq=row[2],
        seq=row[3],
        tokens=row[4],
        role=row[5],
        at=from_micros(row[6]),
        state=row[7],
        calls=tuple(calls),
        results=tuple(results),
    )
