"""Values of a parsed reply: lines, hints and faults."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, time

from memolog.core.exact_json import JsonObject, nothing
from memolog.core.observation import Priority
from memolog.observer.faults import Fault, FaultKind
from memolog.text.tokens import TokenCounter


@dataclass(frozen=True, slots=True, kw_only=True)
class _Line:
    """What lines of observers and reflectors have in common."""

    priority: Priority
    text: str
    """Without mark, time, citations and braces; a "(meaning …)" stays where it was written."""
    about: date | None = None
    """The day of the first "(meaning …)"."""
    parent: int | None = None
    """The index of the line that this one stands under."""
    verbatim: str | None = None
    category: str | None = None
    files: tuple[str, ...] = ()
    metadata: JsonObject = field(default_factory=nothing)


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft(_Line):
    """One line of an observer's reply."""

    said_at: datetime
    cites: tuple[int, ...] = ()
    """Numbers of messages that were shown; a line without any under a parent has the parent's."""
    observer: str | None = None
    """The observer that wrote the line, if it is not the one that was called."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HintsDraft:
    """The hints of a reply; None where it has none."""

    current_task: str | None = None
    """Empty if the reply says that there is none."""
    task_at: datetime | None = None
    """When the task was said, where it comes from one message."""
    suggested_response: str | None = None
    title: str | None = None
    working_memory: str | None = None
    """The new text of the whole document; None if it is unchanged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parsed:
    """A parsed reply of an observer, with its faults."""

    observations: tuple[Draft, ...] = ()
    hints: HintsDraft = field(default_factory=HintsDraft)
    faults: tuple[Fault, ...] = ()
    nothing: bool = False
    """It said that nothing is worth keeping."""
    known: tuple[Draft, ...] = ()
    """Lines that were dropped because the log has them from the same day: what they cite is covered all the same."""

    def has(self, kind: FaultKind) -> bool:
        """Return whether the reply has a fault of this kind."""
        return any(fault.kind == kind for fault in self.faults)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReflectedDraft(_Line):
    """One line of a reflector's reply."""

    merges: tuple[str, ...] = ()
    """The short ids that it stands for; empty where it named none that was shown."""
    on: date | None = None
    at: time | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedReflection:
    """A parsed reply of a reflector, with its faults."""

    lines: tuple[ReflectedDraft, ...] = ()
    hints: HintsDraft = field(default_factory=HintsDraft)
    off_track: str | None = None
    """What the work drifted to and how to return; None while it is on track."""
    threads: "Mapping[str, ParsedReflection]" = field(default_factory=lambda: dict[str, ParsedReflection]())  # noqa: PLW0108 - the class is not there yet
    """If several threads share the log: the hints and off-track of each, by its alias; without lines."""
    faults: tuple[Fault, ...] = ()

    def tokens(self, counter: TokenCounter) -> int:
        """Return the tokens of all lines."""
        return sum(counter.count(line.text) for line in self.lines)
