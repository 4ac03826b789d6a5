"""Observations: the lines of a log, their sources, and the generations of a log."""

from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Literal, TypeAlias

from memolog.core.exact_json import JsonObject, JsonValue, nothing

Scope: TypeAlias = Literal["thread", "resource"]
Priority: TypeAlias = Literal["high", "medium", "low", "done"]
Trust: TypeAlias = Literal["tool", "assistant", "user"]
ObservationState: TypeAlias = Literal["active", "superseded", "dropped", "retracted", "deleted"]
GenerationKind: TypeAlias = Literal["start", "reflection", "restore", "edit", "forget", "compact", "merge"]

KEPT: frozenset[Priority] = frozenset({"high", "done"})
"""Priorities of lines that outlive every reflection."""
CODE_METADATA: frozenset[str] = frozenset(
    {"ungrounded", "speaks_for_user", "unverified", "lowered_from", "dropped_identifiers"}
)
"""Names of metadata that only code may set."""
MARKS: dict[Priority, str] = {"high": "🔴", "medium": "🟡", "low": "🟢", "done": "✅"}
UNVERIFIED: str = "(unverified)"
"""The mark that models see on a line that says more than its sources."""
TRACES: tuple[str, ...] = ("Also named: ", "Also mentioned: ")
"""The beginnings of lines that only name what a reflection left out."""


def is_doubtful(*, grounded: bool, metadata: JsonObject) -> bool:
    """Return whether a line with these fields says more than its sources."""
    return not grounded or any(metadata.get(name) for name in ("speaks_for_user", "unverified"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """First to last message sequence number, both included."""

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
    """Messages that an observation cites: a span of one thread."""

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
    """When it was said."""
    zone: str | None = None
    about: date | None = None
    """The day that the line is about, if it can be computed."""
    parent: int | None = None
    """The ordinal of the parent line."""
    verbatim: str | None = None
    """Text that user and assistant write together, kept word for word under the line."""
    sources: tuple[Source, ...] = ()
    merges: tuple[str, ...] = ()
    """The observations that a reflected line replaces."""
    trust: Trust = "assistant"
    grounded: bool = True
    category: str | None = None
    files: tuple[str, ...] = ()
    metadata: JsonObject = field(default_factory=nothing)
    state: ObservationState = "active"
    tokens: int = 0

    @property
    def is_unverified(self) -> bool:
        """Whether it has something that its sources do not have. Models see it with a mark."""
        return is_doubtful(grounded=self.grounded, metadata=self.metadata)

    @property
    def mode(self) -> str | None:
        """The mode in which it was observed; None if unknown."""
        return self.metadata.get("mode")


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation:
    """One state of a log between two rewrites."""

    number: int
    kind: GenerationKind
    created_at: datetime
    run: str | None = None
    dropped: tuple[str, ...] = ()
    """Observations that no line of this generation replaces; they can be restored and searched."""
    restored_from: int | None = None
    tokens_before: int = 0
    tokens_after: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class NewExtract:
    """A value of an extractor to store under its key."""

    key: str
    value: JsonValue


@dataclass(frozen=True, slots=True, kw_only=True)
class Extract:
    """One version of a value that an extractor drew from messages."""

    key: str
    value: JsonValue
    version: int
    """Counted from 1 in the order of the messages; the newest is the current one."""
    by: str
    at: datetime
    thread: str
    span: Span
    run: str
