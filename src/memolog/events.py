"""Events as typed values, and the bus that delivers them. A listener that raises or is slow does not affect a turn."""

import asyncio
import contextlib
import dataclasses
import logging
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from datetime import datetime
from inspect import iscoroutinefunction
from typing import TypeAlias

from memolog.core.clock import Clock
from memolog.core.document import Document
from memolog.core.exact_json import JsonObject, encode
from memolog.core.observation import Generation
from memolog.errors import InputError
from memolog.text.redaction import REDACTION

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
        """Return the name of the kind of event."""
        return type(self).__name__

    def data(self) -> JsonObject:
        """Return the fields of this kind of event as JSON."""
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
    """A run failed and is retried later, or its result was refused."""

    run: str
    run_kind: str
    error: str
    retry_at: datetime | None

    def __post_init__(self) -> None:
        """Redact secrets from the error: a model may repeat the key it was called with."""
        object.__setattr__(self, "error", REDACTION.redact(self.error))


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovered(Event):
    """A run was taken over from an owner that is gone, or retried after a failure."""

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
    """The current task or the suggested response of the thread has changed."""

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
    """A context was cut: messages were left out, or only their beginning and end are shown."""

    messages: int
    """How many messages were left out."""
    limit: int
    """The hard limit; without one, the most tokens of a request that the log covers and the context repeats."""
    shortened: int = 0
    """How many messages are shown in part."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Degraded(Event):
    """Something failed, and the turn continued without it."""

    what: str
    error: str

    def __post_init__(self) -> None:
        """Redact secrets from the error."""
        object.__setattr__(self, "error", REDACTION.redact(self.error))


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsChanged(Event):
    """Settings of the configuration replaced those stored with the resource, by dotted name: before and now."""

    before: JsonObject
    now: JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class Withdrawn(Event):
    """What a turn saved was withdrawn."""

    messages: int
    runs: int
    groups: int
    observations: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Windows(Event):
    """The token counts and limits of the tail and the log, and what is buffered."""

    message_tokens: int
    message_limit: int
    observation_tokens: int
    observation_limit: int
    buffered_groups: int
    runs: int


def changed_document(document: Document, at: datetime) -> WorkingMemoryChanged:
    """Return the event of a document's current version."""
    number, by = document.current.number, document.current.by
    return WorkingMemoryChanged(at=at, resource=document.resource, thread=document.thread, version=number, by=by)


def new_generation_event(made: Generation, resource: str, thread: str) -> GenerationMade:
    """Return the event of a new generation."""
    return GenerationMade(
        at=made.created_at,
        resource=resource,
        thread=thread,
        number=made.number,
        generation_kind=made.kind,
        tokens_before=made.tokens_before,
        tokens_after=made.tokens_after,
        dropped=len(made.dropped),
    )


Listener: TypeAlias = Callable[[Event], None]


class Bus:
    """Delivers events to callbacks and iterators, in order."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._listeners: list[Listener] = []
        self._queues: list[asyncio.Queue[Event | None]] = []
        self._is_closed = False
        self._troubles: dict[tuple[str, str | None], Degraded] = {}

    @property
    def has_listeners(self) -> bool:
        """Return whether there is a callback or an iterator."""
        return bool(self._listeners or self._queues)

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Call a function with every event from now on; returns the function that ends it."""
        if iscoroutinefunction(listener) or iscoroutinefunction(getattr(listener, "__call__", None)):  # noqa: B004
            raise InputError(
                "A listener is a plain function, not an async one.",
                why="Events are emitted in the middle of a turn, which does not wait for listeners.",
                then="Iterate over memory.events() in your own task, or start a task in a plain function.",
            )
        self._listeners.append(listener)

        def stop() -> None:
            with contextlib.suppress(ValueError):
                self._listeners.remove(listener)

        return stop

    def stream(self) -> AsyncGenerator[Event]:
        """Iterate over events from now on, until the memory is closed."""
        # Created now, not at the first step of the iterator, so that no event is missed before it.
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
        """Return the last failure of a thread. It is kept in memory, since the database may have failed."""
        return self._troubles.get((resource, thread))

    def degraded(self, resource: str, thread: str | None, what: str, error: object) -> None:
        """Emit the event that an action failed and Memolog continued without it."""
        self.emit(Degraded(at=self._clock.now(), resource=resource, thread=thread, what=what, error=str(error)))

    def emit(self, event: Event) -> None:
        """Deliver an event. Errors of listeners are logged and not raised."""
        if isinstance(event, Degraded):
            _log.warning("%s of %s failed: %s", event.what, event.thread, event.error)
            key = event.resource, event.thread
            self._troubles.pop(key, None)
            self._troubles[key] = event
            if len(self._troubles) > _TROUBLES:
                del self._troubles[next(iter(self._troubles))]
        for listener in tuple(self._listeners):
            try:
                listener(event)
            except Exception:  # noqa: BLE001 - an error of a listener must not fail the turn
                _log.exception("a listener failed on %s", event.kind)
        for queue in tuple(self._queues):
            if queue.full():
                # A slow reader misses the oldest events.
                queue.get_nowait()
            queue.put_nowait(event)

    def close(self) -> None:
        """End every iterator, also those that are started later."""
        self._is_closed = True
        for queue in tuple(self._queues):
            if queue.full():
                queue.get_nowait()
            queue.put_nowait(None)
