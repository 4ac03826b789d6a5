"""The input and the result of a decision, as values. Token counts are calibrated to the model."""

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
    """True for a tombstone: it keeps its sequence number and has no content."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tail:
    """The messages of one thread that the log does not cover yet."""

    thread: str
    cursor: int
    weights: tuple[Weight, ...]
    """Every row after the cursor, tombstones too (they weigh nothing), without a gap."""
    hinted: bool = False
    """Whether a run has observed this thread before."""
    unseen_from: int | None = None
    """The first message of a running turn that no model has seen: it stays in the tail, with all messages after it."""

    @property
    def tokens(self) -> int:
        """Return the tokens of the tail."""
        return sum(weight.tokens for weight in self.weights)

    @property
    def seen_tokens(self) -> int:
        """Return the tokens of the messages that a model has seen."""
        return sum(weight.tokens for weight in self.weights if self.is_seen(weight.seq))

    def is_seen(self, seq: int) -> bool:
        """Return whether a model has seen this message, and all before it."""
        return self.unseen_from is None or seq < self.unseen_from

    def tokens_in(self, span: Span) -> int:
        """Return the tokens of a span of the tail."""
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
class ReadyGroup:
    """A buffered group: observed, and out of sight until it is activated."""

    id: str
    thread: str
    span: Span


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadyReflection:
    """A buffered reflection, and the groups that it would replace."""

    id: str
    covers: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEntry:
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
    """Tokens of the request that the tail continues: the log covers it, and the context shows it again."""
    entries: tuple[LogEntry, ...] = ()
    ready: tuple[ReadyGroup, ...] = ()
    runs: tuple[OpenRun, ...] = ()
    reflection: ReadyReflection | None = None
    settled_at: int = 0
    """Tokens of the log when its generation began or, if later, when a reflection could not shorten it."""
    generation: int = 0
    failures: int = 0
    retry_at: datetime | None = None
    last_request_at: datetime | None = None
    last_activation_at: datetime | None = None
    last_model: str | None = None
    model: str | None = None
    cache_seconds: float | None = None
    """How long the provider caches a prompt; None: ignore the cache."""
    may_wait: bool = True
    """False once this step has waited, and for work in the background."""
    may_activate: bool = True
    """False for work in the background: the log changes only right before it is read."""
    ending: bool = False
    """True at the end of a turn."""
    by_hand: frozenset[str] = frozenset()
    """What a manual call asked for: `buffer`, `observe`, `activate`, `reflect`, `activate_reflection`."""

    @cached_property
    def uncovered_tokens(self) -> int:
        """Return the tokens that are not covered, over all threads of the scope."""
        return sum(tail.tokens for tail in self.tails)

    @cached_property
    def seen_tokens(self) -> int:
        """Return the uncovered tokens that a model has seen, over all threads of the scope."""
        return sum(tail.seen_tokens for tail in self.tails)

    @cached_property
    def tail_tokens(self) -> int:
        """Return the tokens of messages that a context shows: uncovered and repeated ones.

        Decisions compare `uncovered_tokens` with the limit, since a repeated request was counted when it was new.
        """
        return self.uncovered_tokens + self.repeated_tokens

    @cached_property
    def log_tokens(self) -> int:
        """Return the tokens of the log."""
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
        """Return whether the model differs from that of the last request. Aliases of one model are the same model."""
        if not self.model or not self.last_model:
            return False
        return canonical_model(self.model) != canonical_model(self.last_model)

    def running(self, kind: RunKind) -> tuple[OpenRun, ...]:
        """Return the running runs of a kind."""
        return tuple(run for run in self.runs if run.kind == kind and run.status == "running")


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanOf:
    """A span of one thread."""

    thread: str
    span: Span


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """Do nothing: use the context as it is."""

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
    """Wait for an observation, by a running run or by a new one."""

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
    """Replace the groups that a buffered reflection covers by the reflection."""

    group: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Recover:
    """Take over a run whose owner is gone, or retry a failed one."""

    run: str
    fence: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Trim:
    """Cut the context, never the store, to stay below the hard limit."""

    limit: int
    reason: str


Decision: TypeAlias = Wait | Activate | Buffer | Observe | Reflect | ActivateReflection | Recover | Trim
