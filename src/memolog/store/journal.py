"""The journal: what happened, and what each prepared context held.

Knows the rows of events and of context records. Records hold numbers and ids, never copies of texts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from memolog.domain.codec import JsonObject, dumps, loads
from memolog.domain.errors import InputError, NotFound
from memolog.domain.moments import from_micros, to_micros
from memolog.store.engine import Engine
from memolog.store.scope import check_id, check_limit, clamp
from memolog.store.sql import Row, Script, load_queries

__all__ = ["ContextRecord", "Journal", "NewEvent", "StoredEvent"]

q = load_queries("runs")
logs = load_queries("logs")


@dataclass(frozen=True, slots=True, kw_only=True)
class NewEvent:
    """Something that happened, about to be kept."""

    kind: str
    thread: str | None
    at: datetime
    data: JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredEvent:
    """Something that happened, with its place in the order of all that did."""

    number: int
    kind: str
    thread: str | None
    at: datetime
    data: JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextRecord:
    """What one prepared context held, in numbers and ids."""

    number: int
    turn: str
    step: int
    at: datetime
    record: JsonObject


class Journal:
    """The journal of every resource, one resource at a time."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def add(self, resource: str, events: Sequence[NewEvent]) -> None:
        """Keep some events, in this order."""
        check_id("resource", resource)
        rows = [
            {
                "resource": resource,
                "thread": event.thread,
                "at": to_micros(event.at),
                "kind": event.kind,
                "data": dumps(dict(event.data)),
            }
            for event in events
        ]

        def script() -> Script[None]:
            yield q.add_event.many(rows)

        await self._engine.write(script, name="journal.add")

    async def events(
        self, resource: str, *, thread: str | None = None, after: int = 0, limit: int = 1000
    ) -> tuple[StoredEvent, ...]:
        """Return what happened after an event, oldest first."""
        check_id("resource", resource)
        if thread is not None:
            check_id("thread", thread)

        def script() -> Script[tuple[StoredEvent, ...]]:
            rows = yield q.list_events(resource=resource, thread=thread, after=after, limit=limit)
            return tuple(map(_event, rows))

        return await self._engine.read(script)

    async def newest(self, resource: str, *, thread: str | None = None, limit: int = 10) -> tuple[StoredEvent, ...]:
        """Return what happened last, oldest first."""
        check_id("resource", resource)
        check_limit(limit)
        if thread is not None:
            check_id("thread", thread)

        def script() -> Script[tuple[StoredEvent, ...]]:
            rows = yield q.newest_events(resource=resource, thread=thread, limit=limit)
            return tuple(map(_event, reversed(rows)))

        return await self._engine.read(script)

    async def pulse(self, resource: str) -> tuple[int, ...]:
        """Return a few numbers; when they differ from those of another moment, something of the resource has changed."""
        check_id("resource", resource)

        def script() -> Script[tuple[int, ...]]:
            rows = yield q.pulse(resource=resource)
            return tuple(rows[0])

        return await self._engine.read(script)

    async def add_context(
        self,
        resource: str,
        thread_pk: int,
        *,
        turn: str,
        step: int,
        now: datetime,
        record: JsonObject,
        model: str | None,
    ) -> int:
        """Keep what a context held, and that a request was made; returns the context's number in its thread."""
        check_id("resource", resource)
        check_id("turn", turn)
        at = to_micros(now)
        text = dumps(dict(record))

        def script() -> Script[int]:
            yield logs.set_last_request(resource=resource, thread_pk=thread_pk, now=at, model=model)
            rows = yield logs.add_context(
                resource=resource, thread_pk=thread_pk, turn=turn, step=step, now=at, record=text
            )
            if not rows:
                raise NotFound("The thread of this context is gone.", then="Begin a new turn.")
            return rows[0][0]

        return await self._engine.write(script, name="journal.add_context")

    async def context(self, resource: str, thread: str, number: int) -> ContextRecord | None:
        """Return what the context of that number held, or None."""
        check_id("resource", resource)
        check_id("thread", thread)
        if not isinstance(number, int):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InputError(
                f"The number of a context is an int, not {type(number).__name__}.",
                then="Pass the number of the request: 1 for the first of the thread.",
            )

        def script() -> Script[ContextRecord | None]:
            rows = yield logs.get_context(resource=resource, thread=thread, number=clamp(number))
            return _record(rows[0]) if rows else None

        return await self._engine.read(script)

    async def contexts(
        self, resource: str, thread: str, *, after: int = 0, limit: int = 100
    ) -> tuple[ContextRecord, ...]:
        """Return what the contexts of a thread held, oldest first."""
        check_id("resource", resource)
        check_id("thread", thread)

        def script() -> Script[tuple[ContextRecord, ...]]:
            rows = yield logs.list_contexts(resource=resource, thread=thread, after=after, limit=limit)
            return tuple(map(_record, rows))

        return await self._engine.read(script)


def _event(row: Row) -> StoredEvent:
    return StoredEvent(number=row[0], at=from_micros(row[1]), kind=row[2], thread=row[3], data=loads(row[4]))


def _record(row: Row) -> ContextRecord:
    return ContextRecord(number=row[0], turn=row[1], step=row[2], at=from_micros(row[3]), record=loads(row[4]))
