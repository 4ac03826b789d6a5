"""Emit events to listeners and write them into the journal of the store."""

import logging
from collections.abc import Sequence

from memolog.domain.clock import Clock
from memolog.domain.errors import MemologError
from memolog.runtime.events import Bus, Degraded, Event
from memolog.store import Store
from memolog.store.journal import NewEvent

__all__ = ["EventJournal"]

_log = logging.getLogger("memolog")


class EventJournal:
    """Emits the events of a memory and stores them. A journal that cannot be written is reported, and never raises."""

    def __init__(self, store: Store, bus: Bus, clock: Clock) -> None:
        self._store, self.bus, self._clock = store, bus, clock
        self._emitted: dict[str, list[Event]] = {}

    async def tell(self, *events: Event) -> None:
        """Emit events of one resource and store them."""
        for event in events:
            self._emit(event)
        if events:
            await self.flush(events[0].resource, events)

    async def degraded(self, resource: str, thread: str | None, what: str, error: object) -> None:
        """Emit that something failed and is gone on without."""
        at = self._clock.now()
        await self.tell(Degraded(at=at, resource=resource, thread=thread, what=what, error=str(error)))

    def tell_later(self, event: Event) -> None:
        """Emit an event; it is stored with the next event of its resource, or by `flush`."""
        self._emit(event)
        self._emitted.setdefault(event.resource, []).append(event)

    def _emit(self, event: Event) -> None:
        self.bus.emit(event)
        if isinstance(event, Degraded):
            _log.warning("%s of %s failed: %s", event.what, event.thread, event.error)

    async def flush(self, resource: str, events: Sequence[Event] = ()) -> None:
        """Store events, after those of the resource that were emitted and are not stored yet."""
        events = (*self._emitted.pop(resource, ()), *events)
        # Every request waits, and its record says why; a degraded event is often about the store itself.
        kept = [e for e in events if not isinstance(e, Degraded) and getattr(e, "decision", "") != "Wait"]
        if not kept or self._store.options.read_only:
            return
        rows = [NewEvent(kind=event.kind, thread=event.thread, at=event.at, data=event.data()) for event in kept]
        try:
            await self._store.journal.add(resource, rows)
        except MemologError as error:
            at, thread = self._clock.now(), kept[0].thread
            self.bus.emit(Degraded(at=at, resource=resource, thread=thread, what="keeping events", error=str(error)))
