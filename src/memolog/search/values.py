"""Result values of a search."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import ClassVar, Final, Literal, TypeAlias, get_args

from memolog.core.message import Message, MessageState, Role
from memolog.text.html import html_items

Source: TypeAlias = Literal["raw", "compacted", "observation", "reflection", "task"]
SOURCES: Final[tuple[str, ...]] = get_args(Source)


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResult:
    """One hit: what was found, where, and why."""

    html_columns: ClassVar = ("rank", "source", "thread", "seq", "role", "at", "snippet")
    id: str
    """Of the message, the observation or the task."""
    source: Source
    rank: int
    """1 is the best."""
    score: float
    content: str
    snippet: str
    """The part of the content around the hits, each of them between « and »."""
    at: datetime
    exact: str = ""
    """The same part as it was written: whole lines, without marks, to be copied."""
    zone: str | None = None
    """The time zone of the speaker, if it is known."""
    thread: str | None = None
    seq: int | None = None
    role: Role | None = None
    speaker: str | None = None
    task: str | None = None
    handle: str | None = None
    """What people and models call it: g3.2 for a line of the log (recall takes it, with its thread), T-7 for a task."""
    state: str = "live"
    """Observations and reflections may be superseded or dropped, and are found all the same."""
    message: Message | None = None
    before: tuple[Message, ...] = ()
    after: tuple[Message, ...] = ()
    parts: Mapping[str, float] = field(default_factory=dict[str, float])
    """With `explain=True`: what each part of the ranking gave to the score."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchAnswer:
    """Some results, how many there are in all, and how to go on."""

    results: tuple[SearchResult, ...]
    total: int
    next: str | None = None
    """Pass it as `cursor` for the results after these; None: there are no more."""
    terms: tuple[str, ...] = ()
    """What was looked for, rarest first."""
    rarity: Mapping[str, float] = field(default_factory=dict[str, float])
    """How much each of the terms counts for being rare."""
    left_out: tuple[str, ...] = ()
    """What was too common or too much to be looked for, or to be looked for everywhere."""
    relaxed: tuple[str, ...] = ()
    """What stands nowhere as it was asked for: words, where others that hold them or look like them were found instead, and what
    a question quotes."""
    behind: int = 0
    """How many threads have messages that could not be indexed, since the memory is read-only or others go on writing."""

    def _repr_html_(self) -> str:
        return html_items(self.results, note=f"{len(self.results)} of {self.total}")


Detail: TypeAlias = Literal["low", "full"]
PartType: TypeAlias = Literal["text", "reasoning", "tool_call", "tool_result", "file", "unknown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecalledPiece:
    """A part of a message, or a stretch of one.

    In full detail the pieces of a part, put one after the other, are its text, character for character.
    """

    part: int
    """Which part of its row it is, from 0."""
    type: PartType
    text: str
    start: int
    """At which character of the part it begins."""
    length: int
    """How many characters the whole part has."""
    tool: str | None = None
    call: str | None = None
    is_error: bool = False
    files: tuple[str, ...] = ()
    """The files that came with a tool's result, described."""

    @property
    def is_whole(self) -> bool:
        """Return whether this is the whole part."""
        return len(self.text) == self.length


@dataclass(frozen=True, slots=True, kw_only=True)
class Recalled:
    """A message with what the page shows of it. A tombstone keeps its place and shows nothing."""

    thread: str
    seq: int
    id: str
    role: Role
    at: datetime
    state: MessageState = "live"
    zone: str | None = None
    speaker: str | None = None
    pieces: tuple[RecalledPiece, ...] = ()
    pruned: bool = False
    """Its raw text was removed; what was written about it is shown instead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallPage:
    """Some messages in their order, and how to go on in either direction."""

    items: tuple[Recalled, ...]
    text: str
    """The page as a model is shown it."""
    tokens: int
    detail: Detail
    next: str | None = None
    """The cursor of the page that follows; None at the end."""
    previous: str | None = None
    """The cursor of the page before; None at the beginning."""
