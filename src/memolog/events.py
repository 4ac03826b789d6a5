"""The events of Memolog, and the bus that delivers them. A listener that raises or is slow does not affect a turn."""

import asyncio
import contextlib
import dataclasses
import logging
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from datetime import datetime
from inspect import iscoroutinefunction
from typing import TypeAlias

from memolog.core.cache import Cache
from memolog.core.clock import Clock
from memolog.core.document import Document
from memolog.core.exact_json import JsonObject, encode
from memolog.core.observation import Generation
from memolog.errors import InputError
from memolog.text.redaction import REDACTION

_log = logging.getLogger("memolog")
# An iterator that is not read keeps at most this many events, the newest.
_QUEUED = 10_000
# The last failure is kept for at most this many threads.
_TROUBLES = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Base of all events. `thread` is None if the event concerns the whole resource."""

    at: datetime
    resource: str
    thread: str | None

    @property
    def kind(self) -> str:
        """Return the name of the class."""
        return type(self).__name__

    def data(self) -> JsonObject:
        """Return the fields of the subclass as JSON."""
        own = (field.name for field in dataclasses.fields(self) if field.name not in {"at", "resource", "thread"})
        return {name: encode(getattr(self, name)) for name in own}


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided(Event):
    """`decide` returned a decision."""

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
    """The result of a run was stored."""

    run: str
    run_kind: str
    observations: int
    faults: tuple[str, ...] = ()
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFailed(Event):
    """A run failed and is retried at `retry_at`. If that is None, the run was abandoned or its result was refused."""

    run: str
    run_kind: str
    error: str
    retry_at: datetime | None

    def __post_init__(self) -> None:
        """Redact secrets from the error, because a model may repeat the key of its call."""
        object.__setattr__(self, "error", REDACTION.redact(self.error))


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovered(Event):
    """A run was taken over from a dead process, or retried after a failure."""

    run: str
    reason: str
    is_takeover: bool = False
    """Whether the lease of another process had ended. False for a retry."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Activated(Event):
    """Buffered groups were moved into the log."""

    groups: tuple[str, ...]
    tokens: int
    last_seq: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationMade(Event):
    """A generation of the log was created."""

    number: int
    generation_kind: str
    tokens_before: int
    tokens_after: int
    dropped: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionMade(Event):
    """Messages were compacted: contexts and the search index use a summary instead."""

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
    """An observation gave the thread a new title."""

    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkingMemoryChanged(Event):
    """The working memory of a thread has a new version. If `thread` is None, it is the working memory of the resource."""

    version: int
    by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Trimmed(Event):
    """A context was shortened: messages were left out, or only their beginning and end are shown."""

    messages: int
    """How many messages were left out."""
    limit: int
    """The hard limit of the context. If none is set, the limit of the tail while imported messages are not observed yet, or the
    maximum tokens of a user message that the context shows again."""
    shortened: int = 0
    """How many messages are shown only in part."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Degraded(Event):
    """An action failed, and Memolog continued without it."""

    what: str
    error: str

    def __post_init__(self) -> None:
        """Redact secrets from the error."""
        object.__setattr__(self, "error", REDACTION.redact(self.error))


@dataclass(frozen=True, slots=True, kw_only=True)
class StepEnded(Event):
    """A call of `prepare` or `record` has ended, with or without an error. It is not stored."""

    step: str
    """`prepare` or `record`."""
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsChanged(Event):
    """Settings of the configuration replaced settings stored with the resource. Has the old and the new values by dotted name."""

    before: JsonObject
    now: JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class Withdrawn(Event):
    """Messages were withdrawn. Has the number of messages, and of the runs, groups and observations removed with them."""

    messages: int
    runs: int
    groups: int
    observations: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Windows(Event):
    """The tokens and limits of the tail and of the log, and the number of buffered groups and runs."""

    message_tokens: int
    message_limit: int
    observation_tokens: int
    observation_limit: int
    buffered_groups: int
    runs: int


def changed_document(document: Document, at: datetime) -> WorkingMemoryChanged:
    """Return the event of the current version of a working memory."""
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
        self.meters: list[Listener] = []
        """Also called with every event. They do not count for `has_listeners`, so no event is made only for them."""
        self._troubles = Cache[tuple[str, str | None], Degraded](_TROUBLES)

    @property
    def has_listeners(self) -> bool:
        """Return whether an event is delivered to any callback or iterator."""
        return bool(self._listeners or self._queues)

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Call `listener` with every event from now on. Return a function that ends the subscription."""
        if iscoroutinefunction(listener) or iscoroutinefunction(getattr(listener, "__call__", None)):  # noqa: B004
            raise InputError(
                "A listener must be a plain function, got an async function.",
                why="Events are emitted in the middle of a turn, which does not wait for listeners.",
                then="Iterate over memory.events() in your own task, or start a task in a plain function.",
            )
        self._listeners.append(listener)

        def stop() -> None:
            with contextlib.suppress(ValueError):
                self._listeners.remove(listener)

        return stop

    def stream(self) -> AsyncGenerator[Event]:
        """Return an iterator over the events from now on. It ends when the memory is closed."""
        # Create the queue now and not at the first step of the iterator, so that no event is missed before that step.
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
        """Return the last failure of a thread. It is not stored, because the database may have failed."""
        return self._troubles.get((resource, thread))

    def degraded(self, resource: str, thread: str | None, what: str, error: object) -> None:
        """Emit the event that an action failed and Memolog continued without it."""
        self.emit(Degraded(at=self._clock.now(), resource=resource, thread=thread, what=what, error=str(error)))

    def emit(self, event: Event) -> None:
        """Deliver an event. Errors of listeners are logged and not raised."""
        if isinstance(event, Degraded):
            of_thread = f" of {event.thread}" if event.thread else ""
            _log.warning("%s%s failed: %s", event.what, of_thread, event.error)
            self._troubles.put((event.resource, event.thread), event)
        self.forward(event)

    def forward(self, event: Event) -> None:
        """Deliver an event that another bus has emitted and logged."""
        for listener in (*self._listeners, *self.meters):
            try:
                listener(event)
            except Exception:  # noqa: BLE001 - an error of a listener must not fail the turn
                _log.exception("a listener failed on %s", event.kind)
        self._queue(event)

    def close(self) -> None:
        """End every iterator, including iterators that are created later."""
        self._is_closed = True
        self._queue(None)

    def _queue(self, event: Event | None) -> None:
        for queue in tuple(self._queues):
            if queue.full():
                # The queue of a slow reader is full, so drop the oldest event.
                queue.get_nowait()
            queue.put_nowait(event)
