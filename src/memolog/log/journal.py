"""Store and read events, and records of prepared contexts. Records contain numbers and ids, but no texts."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from memolog.core.clock import from_micros, to_micros
from memolog.core.exact_json import JsonObject, dumps, loads
from memolog.db.engine import Calls, reads, writes
from memolog.db.queries import Row, Script, load_queries
from memolog.db.scope import LAST, check_ids, check_limit, check_number, check_optional_ids, clamp
from memolog.errors import MemologError, NotFound
from memolog.events import Bus, Degraded, Event

if TYPE_CHECKING:
    from memolog.store import Store

q = load_queries("log/runs")
logs = load_queries("log/logs")


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredEvent:
    """A stored event. Later events have higher numbers."""

    number: int
    kind: str
    thread: str | None
    at: datetime
    data: JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextRecord:
    """The contents of one prepared context, as numbers and ids."""

    number: int
    turn: str
    step: int
    at: datetime
    record: JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestSize:
    """The tokens of one request, and of the whole conversation up to it, which it would have without a memory."""

    number: int
    at: datetime
    tokens: int
    whole: int


class Journal(Calls):
    """Stores and reads events and context records. Every call is for one resource."""

    @writes("journal.add")
    def add(self, resource: str, events: Sequence[Event]) -> Script[None]:
        """Store events in this order."""
        check_ids(resource=resource)
        rows = [
            {
                "resource": resource,
                "thread": event.thread,
                "at": to_micros(event.at),
                "kind": event.kind,
                "data": dumps(event.data()),
            }
            for event in events
        ]
        yield q.add_event.many(rows)

    async def events(
        self, resource: str, *, thread: str | None = None, after: int = 0, limit: int = 1000
    ) -> tuple[StoredEvent, ...]:
        """Return the events whose number is greater than `after`, oldest first."""
        check_ids(resource=resource)
        check_optional_ids(thread=thread)
        return await self.engine.fetch(
            q.list_events(resource=resource, thread=thread, after=after, limit=limit), _event
        )

    async def newest(
        self,
        resource: str,
        *,
        thread: str | None = None,
        before: int | None = None,
        kinds: Sequence[str] = (),
        limit: int = 10,
    ) -> tuple[StoredEvent, ...]:
        """Return the newest events, oldest first: those before number `before`, and only those of some kinds."""
        check_ids(resource=resource)
        check_limit(limit)
        check_optional_ids(thread=thread)
        step = q.newest_events(
            resource=resource,
            thread=thread,
            before=LAST if before is None else check_number("before", before),
            any_kind=int(not kinds),
            kinds=list(kinds),
            limit=limit,
        )
        return (await self.engine.fetch(step, _event))[::-1]

    async def pulse(self, resource: str) -> tuple[int, ...]:
        """Return numbers that differ after a change of the resource. Changes of items are not among them."""
        check_ids(resource=resource)
        return (await self.engine.fetch(q.pulse(resource=resource), tuple[int, ...]))[0]

    @writes("journal.add_context")
    def add_context(
        self,
        resource: str,
        thread_pk: int,
        *,
        turn: str,
        step: int,
        now: datetime,
        record: JsonObject,
        model: str | None,
    ) -> Script[int]:
        """Store the record of a context and the time of the request, and return the number of the context in its thread."""
        check_ids(resource=resource, turn=turn)
        at = to_micros(now)
        text = dumps(dict(record))
        yield logs.set_last_request(resource=resource, thread_pk=thread_pk, now=at, model=model)
        rows = yield logs.add_context(resource=resource, thread_pk=thread_pk, turn=turn, step=step, now=at, record=text)
        if not rows:
            raise NotFound("The thread of this context was deleted.", then="Begin a new turn.")
        return rows[0].number

    async def context(self, resource: str, thread: str, number: int) -> ContextRecord | None:
        """Return the record of a context. None if the thread has no context with this number."""
        check_ids(resource=resource, thread=thread)
        check_number("number", number, then="Pass the number of the request: 1 for the first of the thread.")
        step = logs.get_context(resource=resource, thread=thread, number=clamp(number))
        return next(iter(await self.engine.fetch(step, _record)), None)

    async def contexts(
        self, resource: str, thread: str, *, after: int = 0, limit: int = 100
    ) -> tuple[ContextRecord, ...]:
        """Return the records of the contexts of a thread, oldest first."""
        check_ids(resource=resource, thread=thread)
        step = logs.list_contexts(resource=resource, thread=thread, after=after, limit=limit)
        return await self.engine.fetch(step, _record)

    async def newest_contexts(self, resource: str, thread: str, *, limit: int = 100) -> tuple[ContextRecord, ...]:
        """Return the records of the newest contexts of a thread, oldest first."""
        check_ids(resource=resource, thread=thread)
        check_limit(limit)
        step = logs.newest_contexts(resource=resource, thread=thread, limit=limit)
        return (await self.engine.fetch(step, _record))[::-1]

    @reads
    def sizes(self, resource: str, thread: str, *, before: int | None, limit: int) -> Script[tuple[RequestSize, ...]]:
        """Return the sizes of the newest requests of a thread before number `before`, oldest first."""
        check_ids(resource=resource, thread=thread)
        check_limit(limit)
        bound = LAST if before is None else check_number("before", before)
        rows = yield logs.contexts_before(resource=resource, thread=thread, before=bound, limit=limit)
        records = [_record(row) for row in rows][::-1]
        # The record of a request that could not read the database has no sizes.
        sized = [(one, int(one.record["last"])) for one in records if "tokens" in one.record and "last" in one.record]
        if not sized:
            return ()
        first, last = min(seq for _, seq in sized), max(seq for _, seq in sized)
        whole: int = (yield logs.tokens_up_to(resource=resource, thread=thread, seq=first))[0].tokens
        sums = {first: whole}
        for row in (yield logs.tokens_between(resource=resource, thread=thread, first=first, last=last)):
            whole += row.tokens
            sums[row.seq] = whole
        known = sorted(sums)
        return tuple(
            RequestSize(
                number=one.number,
                at=one.at,
                tokens=sum(one.record["tokens"]),
                # A withdrawn message has no sum of its own.
                whole=sums[known[bisect_right(known, seq) - 1]],
            )
            for one, seq in sized
        )


def _event(row: Row) -> StoredEvent:
    return StoredEvent(number=row.pk, at=from_micros(row.at), kind=row.kind, thread=row.thread, data=loads(row.data))


def _record(row: Row) -> ContextRecord:
    return ContextRecord(
        number=row.number, turn=row.turn, step=row.step, at=from_micros(row.at), record=loads(row.record)
    )


class EventJournal:
    """Emits the events of a `Memory` and stores them. If storing fails, it emits a `Degraded` event instead of raising."""

    def __init__(self, store: Store, bus: Bus) -> None:
        self._store, self.bus = store, bus
        self._emitted: dict[str, list[Event]] = {}

    async def tell(self, *events: Event) -> None:
        """Emit events of one resource and store them."""
        for event in events:
            self.bus.emit(event)
        if events:
            await self.flush(events[0].resource, events)

    def tell_later(self, event: Event) -> None:
        """Emit an event now. It is stored with the next event of its resource, or by `flush`."""
        self.bus.emit(event)
        self._emitted.setdefault(event.resource, []).append(event)

    async def flush(self, resource: str, events: Sequence[Event] = ()) -> None:
        """Store the events of the resource that `tell_later` has emitted, and then `events`."""
        events = (*self._emitted.pop(resource, ()), *events)
        # Wait decisions are not stored, because every request ends with one. Degraded events are not stored, because they often
        # mean that the store failed.
        to_store = [e for e in events if not isinstance(e, Degraded) and getattr(e, "decision", "") != "Wait"]
        if not to_store or self._store.config.read_only:
            return
        try:
            await self._store.journal.add(resource, to_store)
        except MemologError as error:
            self.bus.degraded(resource, to_store[0].thread, "storing events", error)
