"""Values of a parsed reply: lines, hints and faults."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, time

from memolog.domain.codec import JsonObject, nothing
from memolog.domain.observation import Priority
from memolog.prompt.faults import Fault, FaultKind

__all__ = ["Draft", "HintsDraft", "Parsed", "ParsedReflection", "ReflectedDraft"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """One line of an observer's reply."""

    priority: Priority
    text: str
    """Without mark, time, citations and braces; a "(meaning …)" stays where it was written."""
    said_at: datetime
    about: date | None = None
    """The day of the first "(meaning …)"."""
    parent: int | None = None
    """The index of the line that this one stands under."""
    verbatim: str | None = None
    cites: tuple[int, ...] = ()
    """Numbers of messages that were shown; a line without any under a parent has the parent's."""
    category: str | None = None
    files: tuple[str, ...] = ()
    metadata: JsonObject = field(default_factory=nothing)
    observer: str | None = None
    """Who wrote the line, where it was not the one who was asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HintsDraft:
    """Where the thread stands, as a reply says; None where it says nothing."""

    current_task: str | None = None
    """Empty where the reply says that there is none any more."""
    task_at: datetime | None = None
    """When the task was said, where it comes from one message."""
    suggested_response: str | None = None
    title: str | None = None
    working_memory: str | None = None
    """The whole document as the reply would have it; None where it leaves it alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parsed:
    """An observer's reply: what could be kept, and what was wrong with it."""

    observations: tuple[Draft, ...] = ()
    hints: HintsDraft = field(default_factory=HintsDraft)
    faults: tuple[Fault, ...] = ()
    nothing: bool = False
    """It said that nothing is worth keeping."""
    known: tuple[Draft, ...] = ()
    """Lines that were dropped because the log has them from the same day: what they cite is covered all the same."""

    def has(self, kind: FaultKind) -> bool:
        """Return whether this was wrong with it."""
        return any(fault.kind == kind for fault in self.faults)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReflectedDraft:
    """One line of a reflector's reply."""

    priority: Priority
    text: str
    merges: tuple[str, ...] = ()
    """The short ids that it stands for; empty where it named none that was shown."""
    on: date | None = None
    at: time | None = None
    about: date | None = None
    parent: int | None = None
    verbatim: str | None = None
    category: str | None = None
    files: tuple[str, ...] = ()
    metadata: JsonObject = field(default_factory=nothing)


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedReflection:
    """A reflector's reply: what could be kept, and what was wrong with it."""

    lines: tuple[ReflectedDraft, ...] = ()
    hints: HintsDraft = field(default_factory=HintsDraft)
    off_track: str | None = None
    """What the work drifted to and how to return; None while it is on track."""
    threads: "Mapping[str, ParsedReflection]" = field(default_factory=lambda: dict[str, ParsedReflection]())  # noqa: PLW0108 - the class is not there yet
    """Where several threads share the log: hints and off-track of each that it speaks of, by its short name; no lines."""
    faults: tuple[Fault, ...] = ()
