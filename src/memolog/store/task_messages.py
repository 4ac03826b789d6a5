"""Link messages to tasks, and read the messages and observations of a task."""

from __future__ import annotations

from collections.abc import Sequence

from memolog.domain.clock import Clock
from memolog.domain.errors import InputError, MessageNotFound
from memolog.domain.moments import to_micros
from memolog.domain.observation import Observation, Span
from memolog.domain.task import MESSAGE_LINK_KINDS, LinkedMessage, MessageLinkKind
from memolog.store.engine import Engine
from memolog.store.lines import observation_from_row, sources_by_line
from memolog.store.rows import message_from_row
from memolog.store.scope import (
    FIRST,
    Page,
    check_id,
    check_ids,
    check_limit,
    check_optional_ids,
    chunks,
    page_key,
    page_of,
)
from memolog.store.sql import Row, Script, load_queries
from memolog.store.task_rows import Found, change_step, finding

__all__ = ["TaskMessages", "attaching"]

q = load_queries("task_messages")

_IDS_A_QUERY = 256


class TaskMessages:
    """The messages of the tasks of every resource, one resource at a time."""

    def __init__(self, engine: Engine, clock: Clock) -> None:
        self._engine, self._clock = engine, clock

    async def attach(
        self,
        resource: str,
        task: str,
        messages: Sequence[str] | Span,
        kind: MessageLinkKind,
        *,
        who: str,
        thread: str | None = None,
    ) -> int:
        """Link messages to a task, by their ids or as a span of a thread; returns how many links are new.

        All of them or none: an id that is not there raises MessageNotFound.
        """
        check_ids(resource=resource, task=task, who=who)
        check_optional_ids(thread=thread)
        if kind not in MESSAGE_LINK_KINDS:
            raise InputError(f"Unknown kind of link: {kind!r}.", then=f"Use one of {', '.join(MESSAGE_LINK_KINDS)}.")
        now = to_micros(self._clock.now())

        def script() -> Script[int]:
            found = yield from finding(resource, task)
            count = yield from attaching(resource, found, messages, kind, thread=thread)
            if count:
                yield change_step(found.pk, now, who, "attached", kind=kind, messages=count)
            return count

        return await self._engine.write(script, name="task_messages.attach")

    async def detach(
        self, resource: str, task: str, messages: Sequence[str] | Span, *, who: str, thread: str | None = None
    ) -> int:
        """Unlink messages from a task, whether linked by hand or not; returns how many were linked."""
        check_ids(resource=resource, task=task, who=who)
        check_optional_ids(thread=thread)
        now = to_micros(self._clock.now())

        def script() -> Script[int]:
            found = yield from finding(resource, task)
            gone = 0
            for row in (yield from _meant(resource, thread, messages)):
                where = {"task_pk": found.pk, "thread_pk": row.thread_pk, "seq": row.seq}
                by_hand = yield q.detach(**where)
                by_itself = yield q.unlink_own(**where)
                gone += bool(by_hand or by_itself)
            if gone:
                yield change_step(found.pk, now, who, "detached", messages=gone)
            return gone

        return await self._engine.write(script, name="task_messages.detach")

    async def messages(
        self, resource: str, task: str, *, limit: int = 50, after: str | None = None
    ) -> Page[LinkedMessage]:
        """Return the messages of a task, oldest first."""
        check_ids(resource=resource, task=task)
        check_limit(limit)
        at, pk = page_key(after, (FIRST, FIRST))

        def script() -> Script[Page[LinkedMessage]]:
            found = yield from finding(resource, task)
            rows = yield q.linked(task_pk=found.pk, at=at, pk=pk, limit=limit + 1)
            shown, more = page_of(rows, limit, "created_at", "pk")
            return Page(items=tuple(map(_linked, shown)), next=more)

        return await self._engine.read(script)

    async def count(self, resource: str, task: str) -> int:
        """Return how many messages are linked to a task."""
        check_ids(resource=resource, task=task)

        def script() -> Script[int]:
            found = yield from finding(resource, task)
            return (yield q.count_linked(task_pk=found.pk))[0].messages

        return await self._engine.read(script)

    async def observations(self, resource: str, task: str, *, limit: int = 200) -> tuple[Observation, ...]:
        """Return the lines of the log that cite a message of a task, oldest first."""
        check_ids(resource=resource, task=task)
        check_limit(limit)

        def script() -> Script[tuple[Observation, ...]]:
            found = yield from finding(resource, task)
            rows = yield q.observations(task_pk=found.pk, limit=limit)
            sources = sources_by_line((yield q.sources(pks=[row.pk for row in rows])) if rows else ())
            return tuple(observation_from_row(row, sources.get(row.id, ())) for row in rows)

        return await self._engine.read(script, brief=False)


def attaching(
    resource: str, found: Found, messages: Sequence[str] | Span, kind: MessageLinkKind, *, thread: str | None = None
) -> Script[int]:
    """Link messages to a task, as part of a larger script; returns how many links are new."""
    pks = [row.pk for row in (yield from _meant(resource, thread, messages))]
    new = 0
    for chunk in chunks(pks, _IDS_A_QUERY):
        new += len((yield q.attach(task_pk=found.pk, kind=kind, pks=chunk)))
    return new


def _linked(row: Row) -> LinkedMessage:
    return LinkedMessage(message=message_from_row(row), kind=row.kind)


def _meant(resource: str, thread: str | None, messages: Sequence[str] | Span) -> Script[Sequence[Row]]:
    """Return the rows of some messages; raises MessageNotFound for a missing one."""
    if isinstance(messages, Span):
        if thread is None:
            raise InputError("A span of messages needs a thread.", then="Pass thread=…, or name messages by their ids.")
        rows = yield q.by_span(resource=resource, thread=thread, first=messages.first, last=messages.last)
        if not rows:
            raise MessageNotFound(f"{messages.first}-{messages.last} of {thread}")
        return rows
    ids = [check_id("message", message) for message in ([messages] if isinstance(messages, str) else messages)]
    if not ids:
        raise InputError("`messages` must not be empty.", then="Pass at least one message id.")
    found: list[Row] = []
    for chunk in chunks(ids, _IDS_A_QUERY):
        found.extend((yield q.by_ids(resource=resource, thread=thread, ids=chunk)))
    missing = set(ids) - {row.id for row in found}
    if missing:
        raise MessageNotFound(min(missing))
    return found
