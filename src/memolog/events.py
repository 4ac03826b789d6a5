"""Events: what happened, as typed values, for whoever listens.

Knows the kinds of events and how to hand them out. A listener that raises or is slow never harms a turn.
"""

import asyncio
import contextlib
import dataclasses
import logging
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from datetime import datetime
from inspect import iscoroutinefunction
from typing import TypeAlias

from memolog.core.document import Document
from memolog.core.exact_json import JsonObject, encode
from memolog.errors import InputError
from memolog.text.redaction import REDACTION

__all__ = [
    "Activated",
    "Bus",
    "CompactionMade",
    "Decided",
    "Degraded",
    "Event",
    "GenerationMade",
    "HintsChanged",
    "Recovered",
    "RunEnded",
    "RunFailed",
    "RunStarted",
    "SettingsChanged",
    "TitleChanged",
    "Trimmed",
    "Windows",
    "Withdrawn",
    "WorkingMemoryChanged",
    "changed_document",
]

_log = logging.getLogger("memolog")
_QUEUED = 10_000
_TROUBLES = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened to a thread."""

    at: datetime
    resource: str
    thread: str | None

    @property
    def kind(self) -> str:
        """Return the name of what happened."""
        return type(self).__name__

    def data(self) -> JsonObject:
        """Return what is particular to this kind, as JSON."""
        own = (field.name for field in dataclasses.fields(self) if field.name not in {"at", "resource", "thread"})
        return {name: encode(getattr(self, name)) for name in own}


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided(Event):
    """A decision was made, for a reason."""

    decision: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStarted(Event):
    """An observer or reflector run began."""

    run: str
    run_kind: str
    first_seq: int | None
    last_seq: int | None
    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEnded(Event):
    """A run's result is stored."""

    run: str
    run_kind: str
    observations: int
    faults: tuple[str, ...] = ()
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFailed(Event):
    """A run failed; it is tried again later, or its result was refused."""

    run: str
    run_kind: str
    error: str
    retry_at: datetime | None

    def __post_init__(self) -> None:
        """Take secrets out of the error: a model may repeat the key it was called with."""
        object.__setattr__(self, "error", REDACTION.redact(self.error))


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovered(Event):
    """A run was taken over from an owner that is gone, or tried again after a failure."""

    run: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Activated(Event):
    """Buffered groups entered the log."""

    groups: tuple[str, ...]
    tokens: int
    last_seq: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationMade(Event):
    """The log was rewritten."""

    number: int
    generation_kind: str
    tokens_before: int
    tokens_after: int
    dropped: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionMade(Event):
    """Messages are shown and indexed by a summary from now on."""

    compaction: str
    first_seq: int
    last_seq: int
    messages: int
    tokens_before: int
    tokens_after: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HintsChanged(Event):
    """The observer has a new idea of what the thread is about to do."""

    current_task: str | None
    suggested_response: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TitleChanged(Event):
    """The thread has a new title."""

    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkingMemoryChanged(Event):
    """The working memory of a thread, or (thread None) of the resource, has a new version."""

    version: int
    by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Trimmed(Event):
    """A context was cut: messages were left out of it, or are shown with their beginning and their end alone."""

    messages: int
    """How many were left out."""
    limit: int
    """The hard limit; without one, how much is repeated of a request that the log covers."""
    shortened: int = 0
    """How many are shown in part."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Degraded(Event):
    """Something failed, and the turn went on without it."""

    what: str
    error: str

    def __post_init__(self) -> None:
        """Take secrets out of the error, whoever raised it."""
        object.__setattr__(self, "error", REDACTION.redact(self.error))


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsChanged(Event):
    """A configuration took the place of settings that were stored with the resource, by dotted name: before and now."""

    before: JsonObject
    now: JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class Withdrawn(Event):
    """A turn was taken back."""

    messages: int
    runs: int
    groups: int
    observations: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Windows(Event):
    """How full the windows are: messages, observations, and what is buffered."""

    message_tokens: int
    message_limit: int
    observation_tokens: int
    observation_limit: int
    buffered_groups: int
    runs: int


def changed_document(document: Document, at: datetime) -> WorkingMemoryChanged:
    """Return the event that tells of a document's present version."""
    number, by = document.current.number, document.current.by
    return WorkingMemoryChanged(at=at, resource=document.resource, thread=document.thread, version=number, by=by)


Listener: TypeAlias = Callable[[Event], None]


class Bus:
    """Hands events to callbacks and iterators, in order."""

    def __init__(self) -> None:
        self._listeners: list[Listener] = []
        self._queues: list[asyncio.Queue[Event | None]] = []
        self._is_closed = False
        self._troubles: dict[tuple[str, str | None], Degraded] = {}

    @property
    def has_listeners(self) -> bool:
        """Tell whether anybody listens."""
        return bool(self._listeners or self._queues)

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Call a function with every event from now on; returns the function that ends it."""
        if iscoroutinefunction(listener) or iscoroutinefunction(getattr(listener, "__call__", None)):  # noqa: B004
            raise InputError(
                "A listener is a plain function, not an async one.",
                why="Events are told in the middle of a turn, where nobody could wait for it.",
                then="Iterate over memory.events() in a task of your own, or start one in a plain function.",
            )
        self._listeners.append(listener)

        def stop() -> None:
            with contextlib.suppress(ValueError):
                self._listeners.remove(listener)

        return stop

    def stream(self) -> AsyncGenerator[Event]:
        """Iterate over events from now on, until the memory is closed."""
        # Made at once, not at the first step: what happens before somebody reads is not missed.
        queue: asyncio.Queue[Event | None] = asyncio.Queue(_QUEUED)
        self._queues.append(queue)
        if self._is_closed:
            queue.put_nowait(None)
        return self._read(queue)

    async def _read(self, queue: "asyncio.Queue[Event | None]") -> AsyncGenerator[Event]:
        try:
            while (event := await queue.get()) is not None:
                yield event
        finally:
            self._queues.remove(queue)

    def trouble(self, resource: str, thread: str) -> Degraded | None:
        """Return what failed last for a thread: the database may have been what failed, so it is not kept there."""
        return self._troubles.get((resource, thread))

    def emit(self, event: Event) -> None:
        """Hand out an event. Errors of listeners are logged and go no further."""
        if isinstance(event, Degraded):
            key = event.resource, event.thread
            self._troubles.pop(key, None)
            self._troubles[key] = event
            if len(self._troubles) > _TROUBLES:
                del self._troubles[next(iter(self._troubles))]
        for listener in tuple(self._listeners):
            try:
                listener(event)
            except Exception:  # noqa: BLE001 - whatever a listener does, it is not our turn that fails
                _log.exception("a listener failed on %s", event.kind)
        for queue in tuple(self._queues):
            if queue.full():
                # Who does not read in time misses the oldest, and holds nobody up.
                queue.get_nowait()
            queue.put_nowait(event)

    def close(self) -> None:
        """End every iterator, also those that are yet to come."""
        self._is_closed = True
        for queue in tuple(self._queues):
            if queue.full():
                queue.get_nowait()
            queue.put_nowait(None)
