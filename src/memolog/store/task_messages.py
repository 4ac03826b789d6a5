"""What was said and learned about a task: its messages, linked by themselves or by hand, and the observations that cite them.

Knows the links between tasks and messages. Costs are the ledger's.
"""

from __future__ import annotations

from collections.abc import Sequence

from memolog.domain.clock import Clock
from memolog.domain.errors import InputError, MessageNotFound
from memolog.domain.moments import to_micros
from memolog.domain.observation import Observation, Source, Span
from memolog.domain.task import MESSAGE_LINK_KINDS, LinkedMessage, MessageLinkKind
from memolog.store.engine import Engine
from memolog.store.lines import observation_from_row
from memolog.store.rows import message_from_row
from memolog.store.scope import FIRST, Page, check_id, check_limit, page_key, page_token
from memolog.store.sql import Row, Script, load_queries
from memolog.store.task_rows import Found, change_step, finding

__all__ = ["TaskMessages", "attaching"]

q = load_queries("task_messages")

_IDS_A_QUERY = 256
# The columns of a message's row, and of an observation's.
_MESSAGE_COLUMNS = 21


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
        self._check(resource, task, who, thread)
        if kind not in MESSAGE_LINK_KINDS:
            raise InputError(f"{kind!r} is no kind of link.", then=f"Use one of {', '.join(MESSAGE_LINK_KINDS)}.")
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
        """Take messages away from a task, however they came to it; returns how many were linked."""
        self._check(resource, task, who, thread)
        now = to_micros(self._clock.now())

        def script() -> Script[int]:
            found = yield from finding(resource, task)
            gone = 0
            for thread_pk, seq, *_ in (yield from _meant(resource, thread, messages)):
                where = {"task_pk": found.pk, "thread_pk": thread_pk, "seq": seq}
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
        """Return what was said about a task, oldest first."""
        check_id("resource", resource)
        check_id("task", task)
        check_limit(limit)
        at, pk = page_key(after, (FIRST, FIRST))

        def script() -> Script[Page[LinkedMessage]]:
            found = yield from finding(resource, task)
            rows = yield q.linked(task_pk=found.pk, at=at, pk=pk, limit=limit + 1)
            shown = rows[:limit]
            more = page_token((shown[-1][7], shown[-1][_MESSAGE_COLUMNS])) if len(rows) > limit else None
            return Page(items=tuple(map(_linked, shown)), next=more)

        return await self._engine.read(script)

    async def count(self, resource: str, task: str) -> int:
        """Return how many messages are linked to a task."""
        check_id("resource", resource)
        check_id("task", task)

        def script() -> Script[int]:
            found = yield from finding(resource, task)
            return (yield q.count_linked(task_pk=found.pk))[0][0]

        return await self._engine.read(script)

    async def observations(self, resource: str, task: str, *, limit: int = 200) -> tuple[Observation, ...]:
        """Return what was learned from a task's messages: the lines of the log that cite one of them, oldest first."""
        check_id("resource", resource)
        check_id("task", task)
        check_limit(limit)

        def script() -> Script[tuple[Observation, ...]]:
            found = yield from finding(resource, task)
            rows = yield q.observations(task_pk=found.pk, limit=limit)
            sources: dict[str, list[Source]] = {}
            if rows:
                for observation, thread, first, last in (yield q.sources(pks=[row[17] for row in rows])):
                    sources.setdefault(observation, []).append(Source(thread=thread, span=Span(first=first, last=last)))
            return tuple(observation_from_row(row, tuple(sources.get(row[0], ())), ()) for row in rows)

        return await self._engine.read(script, brief=False)

    def _check(self, resource: str, task: str, who: str, thread: str | None) -> None:
        check_id("resource", resource)
        check_id("task", task)
        check_id("who", who)
        if thread is not None:
            check_id("thread", thread)


def attaching(
    resource: str, found: Found, messages: Sequence[str] | Span, kind: MessageLinkKind, *, thread: str | None = None
) -> Script[int]:
    """Link messages to a task, as part of a larger script; returns how many links are new."""
    pks = [row[3] for row in (yield from _meant(resource, thread, messages))]
    new = 0
    for start in range(0, len(pks), _IDS_A_QUERY):
        new += len((yield q.attach(task_pk=found.pk, kind=kind, pks=pks[start : start + _IDS_A_QUERY])))
    return new


def _linked(row: Row) -> LinkedMessage:
    return LinkedMessage(message=message_from_row(row[:_MESSAGE_COLUMNS]), kind=row[_MESSAGE_COLUMNS + 1])


def _meant(resource: str, thread: str | None, messages: Sequence[str] | Span) -> Script[Sequence[Row]]:
    """Return the rows of the messages that are meant; raises MessageNotFound for what is not there."""
    if isinstance(messages, Span):
        if thread is None:
            raise InputError("A span needs its thread.", then="Pass thread=…, or name messages by their ids.")
        rows = yield q.by_span(resource=resource, thread=thread, first=messages.first, last=messages.last)
        if not rows:
            raise MessageNotFound(f"{messages.first}-{messages.last} of {thread}")
        return rows
    ids = [check_id("message", message) for message in ([messages] if isinstance(messages, str) else messages)]
    if not ids:
        raise InputError("No message was named.", then="Pass at least one message id.")
    found: list[Row] = []
    for start in range(0, len(ids), _IDS_A_QUERY):
        found.extend((yield q.by_ids(resource=resource, thread=thread, ids=ids[start : start + _IDS_A_QUERY])))
    missing = set(ids) - {row[2] for row in found}
    if missing:
        raise MessageNotFound(min(missing))
    return found
