"""The values that a log consists of: observations (its lines), the sources of observations, and generations."""

from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Literal, TypeAlias

from memolog.core.exact_json import JsonObject, JsonValue, nothing

Scope: TypeAlias = Literal["thread", "resource"]
Priority: TypeAlias = Literal["high", "medium", "low", "done"]
Trust: TypeAlias = Literal["tool", "assistant", "user"]
ObservationState: TypeAlias = Literal["active", "superseded", "dropped", "retracted", "deleted"]
GenerationKind: TypeAlias = Literal["start", "reflection", "restore", "edit", "forget", "compact", "merge"]
GenerationCause: TypeAlias = Literal["rewind", "discard"]

KEPT: frozenset[Priority] = frozenset({"high", "done"})
"""A reflection keeps observations of these priorities."""
CODE_METADATA: frozenset[str] = frozenset(
    {"ungrounded", "speaks_for_user", "unverified", "lowered_from", "dropped_identifiers"}
)
"""Metadata of observations that only Memolog's code may set, never a model."""
MARKS: dict[Priority, str] = {"high": "🔴", "medium": "🟡", "low": "🟢", "done": "✅"}
UNVERIFIED: str = "(unverified)"
"""The mark that models see on an observation that its sources do not fully support."""
TRACES: tuple[str, ...] = ("Also named: ", "Also mentioned: ")
"""The first words of observations that only list names which a reflection omitted."""


def is_doubtful(*, grounded: bool, metadata: JsonObject) -> bool:
    """Return whether the sources of an observation with these fields do not fully support it."""
    return not grounded or any(metadata.get(name) for name in ("speaks_for_user", "unverified"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """The first and the last sequence number of consecutive messages. Both are included."""

    first: int
    last: int

    def __post_init__(self) -> None:
        if not 1 <= self.first <= self.last:
            raise ValueError(f"a span needs 1 <= first <= last, got first={self.first}, last={self.last}")

    def __contains__(self, seq: int) -> bool:
        return self.first <= seq <= self.last

    def __len__(self) -> int:
        return self.last - self.first + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """The span of one thread that an observation was made from."""

    thread: str
    span: Span


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """One dated, prioritised line of the log."""

    id: str
    group: str
    ordinal: int
    priority: Priority
    text: str
    said_at: datetime | None = None
    """The time of the message that says this. A reflection has the time of the earliest observation that it merges, if possible
    of one on the same day."""
    zone: str | None = None
    about: date | None = None
    """The date that the observation is about. None means that it names no date, or that the date could not be computed."""
    parent: int | None = None
    """The ordinal of the parent observation in the same group."""
    verbatim: str | None = None
    """Text that user and assistant write together, such as a draft. It is stored and shown unchanged under the line."""
    sources: tuple[Source, ...] = ()
    merges: tuple[str, ...] = ()
    """The ids of the observations that this one replaces, if a reflection made it."""
    trust: Trust = "assistant"
    grounded: bool = True
    category: str | None = None
    files: tuple[str, ...] = ()
    metadata: JsonObject = field(default_factory=nothing)
    state: ObservationState = "active"
    tokens: int = 0

    @property
    def is_unverified(self) -> bool:
        """Whether the sources do not fully support the observation. Models see a mark on it."""
        return is_doubtful(grounded=self.grounded, metadata=self.metadata)

    @property
    def mode(self) -> str | None:
        """The mode in which the observation was made. None means unknown."""
        return self.metadata.get("mode")


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation:
    """One version of a log. Every rewrite of the log, such as a reflection, starts a new generation."""

    number: int
    kind: GenerationKind
    created_at: datetime
    run: str | None = None
    dropped: tuple[str, ...] = ()
    """The ids of observations that this generation removed without a replacement. They can be searched and restored."""
    restored_from: int | None = None
    tokens_before: int = 0
    tokens_after: int = 0
    cause: GenerationCause | None = None
    """For the kind "forget": what removed messages, if it was not `forget`. "discard" means that a turn was withdrawn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewExtract:
    """A new value from an extractor, to be stored under its key."""

    key: str
    value: JsonValue


@dataclass(frozen=True, slots=True, kw_only=True)
class Extract:
    """One version of a value that an extractor found in messages."""

    key: str
    value: JsonValue
    version: int
    """Counted from 1 in the order of the messages. The highest version is current."""
    by: str
    at: datetime
    thread: str
    span: Span
    run: str
