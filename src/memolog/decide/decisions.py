"""The possible decisions, each with a reason in words. The runtime performs them."""

from dataclasses import dataclass
from typing import TypeAlias

from memolog.domain.observation import Span

__all__ = [
    "Activate",
    "ActivateReflection",
    "Buffer",
    "Decision",
    "Observe",
    "Recover",
    "Reflect",
    "SpanOf",
    "Trim",
    "Wait",
]


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
