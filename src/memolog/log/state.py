"""The input of a decision: sizes, spans and states, read at one moment. Token counts are calibrated to the model."""

from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import TypeAlias

from memolog.core.message import Role
from memolog.core.model_names import canonical_model
from memolog.core.observation import Scope, Span
from memolog.core.run import RunKind, RunStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class Weight:
    """A message as decisions see it: its place, its size, and the tool calls it opens or answers."""

    seq: int
    tokens: int
    role: Role
    at: datetime
    opens: tuple[str, ...] = ()
    closes: tuple[str, ...] = ()
    turn: str | None = None
    """The turn that saved it: a result answers the call of its own turn."""
    is_gone: bool = False
    """True for a tombstone: it keeps its place, and is as if it had not been said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tail:
    """What the log does not cover yet of one thread."""

    thread: str
    cursor: int
    weights: tuple[Weight, ...]
    """Every row after the cursor, tombstones too (they weigh nothing), without a gap."""
    hinted: bool = False
    """Whether the observer has said something about this thread before."""
    unseen_from: int | None = None
    """The first message that no model has seen yet, in a turn that is running: it stays in the tail, with all that follows."""

    @property
    def tokens(self) -> int:
        """Return what the tail weighs."""
        return sum(weight.tokens for weight in self.weights)

    @property
    def seen_tokens(self) -> int:
        """Return what the messages weigh that a model has seen."""
        return sum(weight.tokens for weight in self.weights if self.is_seen(weight.seq))

    def is_seen(self, seq: int) -> bool:
        """Return whether a model has seen this message, and all before it."""
        return self.unseen_from is None or seq < self.unseen_from

    def tokens_in(self, span: Span) -> int:
        """Return what a span of the tail weighs."""
        first, last = span.first, span.last
        return sum(weight.tokens for weight in self.weights if first <= weight.seq <= last)


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenRun:
    """A run without a result: running, or failed and waiting for its next attempt."""

    id: str
    kind: RunKind
    status: RunStatus
    lease_until: datetime
    fence: int
    attempt: int
    thread: str | None = None
    span: Span | None = None
    retry_at: datetime | None = None
    is_silent: bool = False
    """Its lease was set by a clock that was ahead, and is no longer renewed."""

    def has_ended(self, now: datetime) -> bool:
        """Return whether its lease is over."""
        return self.is_silent or self.lease_until <= now


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """A buffered group: observed, and out of sight until it is activated."""

    id: str
    thread: str
    span: Span


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadyReflection:
    """A buffered reflection, and the groups that it would take the place of."""

    id: str
    covers: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """An active group of the log, in its order."""

    id: str
    tokens: int
    observations: int
    newest: datetime | None
    is_reflection: bool = False


@dataclass(frozen=True, kw_only=True)
class State:
    """Everything that `decide` looks at."""

    scope: Scope
    thread: str
    """The thread whose turn it is."""
    version: int
    tails: tuple[Tail, ...]
    repeated_tokens: int = 0
    """What the log covers and the context shows all the same: the request that the tail goes on from."""
    entries: tuple[Entry, ...] = ()
    ready: tuple[Ready, ...] = ()
    runs: tuple[OpenRun, ...] = ()
    reflection: ReadyReflection | None = None
    settled_at: int = 0
    """What the log weighed when its generation began, or when a reflection could not make it any smaller."""
    generation: int = 0
    failures: int = 0
    retry_at: datetime | None = None
    last_request_at: datetime | None = None
    last_activation_at: datetime | None = None
    last_model: str | None = None
    model: str | None = None
    cache_seconds: float | None = None
    """How long the provider keeps a prompt warm; None: do not care."""
    may_wait: bool = True
    """False once this step has waited, and for work in the background."""
    may_activate: bool = True
    """False for work in the background: the log changes only right before it is read."""
    ending: bool = False
    """True at the end of a turn."""
    by_hand: frozenset[str] = frozenset()
    """What a person asked for: `buffer`, `observe`, `activate`, `reflect`, `activate_reflection`."""

    @cached_property
    def uncovered_tokens(self) -> int:
        """Return what is not covered, over all threads of the scope."""
        return sum(tail.tokens for tail in self.tails)

    @cached_property
    def seen_tokens(self) -> int:
        """Return what is not covered and has been seen by a model, over all threads of the scope."""
        return sum(tail.seen_tokens for tail in self.tails)

    @cached_property
    def tail_tokens(self) -> int:
        """Return what contexts show of messages: what is not covered, and what is repeated.

        Decisions compare `uncovered_tokens` with the limit: a repeated request counted when it was new.
        """
        return self.uncovered_tokens + self.repeated_tokens

    @cached_property
    def log_tokens(self) -> int:
        """Return what the log weighs."""
        return sum(entry.tokens for entry in self.entries)

    @cached_property
    def taken(self) -> dict[str, list[Span]]:
        """Return the spans of each thread that a buffered group or a run holds."""
        found: dict[str, list[Span]] = {}
        for holder in (*self.ready, *self.runs):
            if holder.thread is not None and holder.span is not None:
                found.setdefault(holder.thread, []).append(holder.span)
        return found

    @property
    def own_tail(self) -> Tail:
        """Return the tail of the thread whose turn it is."""
        return next((tail for tail in self.tails if tail.thread == self.thread), self.tails[0])

    @property
    def has_other_model(self) -> bool:
        """Return whether the model is another one than that of the last request; its other names are no other model."""
        if not self.model or not self.last_model:
            return False
        return canonical_model(self.model) != canonical_model(self.last_model)

    def running(self, kind: RunKind) -> tuple[OpenRun, ...]:
        """Return the runs of a kind that are under way."""
        return tuple(run for run in self.runs if run.kind == kind and run.status == "running")


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanOf:
    """A span of one thread."""

    thread: str
    span: Span


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """Nothing is to be done: use the context as it is."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Activate:
    """Move these buffered groups into the log, in this order."""

    groups: tuple[str, ...]
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Buffer:
    """Observe these spans in the background, in one call."""

    spans: tuple[SpanOf, ...]
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Observe:
    """Wait for an observation: of the run that is under way, or of one that is started now."""

    run: str | None
    spans: tuple[SpanOf, ...]
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Reflect:
    """Condense these groups; `wait` says whether the turn waits for it."""

    groups: tuple[str, ...]
    reason: str
    run: str | None = None
    wait: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ActivateReflection:
    """Let a buffered reflection take the place of what it covers."""

    group: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Recover:
    """Take over a run whose owner is gone, or try a failed one again."""

    run: str
    fence: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Trim:
    """Cut the context, never the store: everything else has failed to keep it below the hard limit."""

    limit: int
    reason: str


Decision: TypeAlias = Wait | Activate | Buffer | Observe | Reflect | ActivateReflection | Recover | Trim
