"""Result values of search and recall."""

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
    """One hit of a search."""

    html_columns: ClassVar = ("rank", "source", "thread", "seq", "role", "at", "snippet")
    id: str
    """The id of the message, the observation or the task."""
    source: Source
    rank: int
    """1 is the best."""
    score: float
    content: str
    snippet: str
    """The part of the content around the matches, which are marked by « and »."""
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
    """The short name: g3.2 for a line of the log (recall accepts it, with its thread), T-7 for a task."""
    state: str = "live"
    """The state of an observation, which may be superseded or dropped, or the status of a task."""
    message: Message | None = None
    before: tuple[Message, ...] = ()
    after: tuple[Message, ...] = ()
    parts: Mapping[str, float] = field(default_factory=dict[str, float])
    """With `explain=True`: the share of each part of the ranking in the score."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchAnswer:
    """A page of results, the total number, and the cursor of the next page."""

    results: tuple[SearchResult, ...]
    total: int
    next: str | None = None
    """Pass it as `cursor` for the next results; None if there are no more."""
    terms: tuple[str, ...] = ()
    """The terms that were searched, rarest first."""
    rarity: Mapping[str, float] = field(default_factory=dict[str, float])
    """The weight of each term by its rarity."""
    left_out: tuple[str, ...] = ()
    """The terms that were too common or too many to be searched, or to be searched completely."""
    relaxed: tuple[str, ...] = ()
    """What was not found as written: words for which similar ones were found instead, and quotations of a question."""
    behind: int = 0
    """How many threads have messages that are not indexed, because the memory is read-only or other processes keep writing."""

    def _repr_html_(self) -> str:
        return html_items(self.results, note=f"{len(self.results)} of {self.total}")


Detail: TypeAlias = Literal["low", "full"]
PartType: TypeAlias = Literal["text", "reasoning", "tool_call", "tool_result", "file", "unknown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecalledPiece:
    """A part of a message, or a piece of one.

    In full detail the concatenated pieces of a part are exactly its text.
    """

    part: int
    """The index of the part, from 0."""
    type: PartType
    text: str
    start: int
    """The first character of the part that it contains."""
    length: int
    """The number of characters of the whole part."""
    tool: str | None = None
    call: str | None = None
    is_error: bool = False
    files: tuple[str, ...] = ()
    """Descriptions of the files of a tool's result."""

    @property
    def is_whole(self) -> bool:
        """Return whether this is the whole part."""
        return len(self.text) == self.length


@dataclass(frozen=True, slots=True, kw_only=True)
class Recalled:
    """A message with what the page shows of it; nothing of a withdrawn or forgotten one."""

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
    """Whether its raw text was removed, and its summary is shown instead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallPage:
    """A page of messages in their order, and the cursors of the pages before and after."""

    items: tuple[Recalled, ...]
    text: str
    """The page as text for a model."""
    tokens: int
    detail: Detail
    next: str | None = None
    """The cursor of the page that follows; None at the end."""
    previous: str | None = None
    """The cursor of the page before; None at the beginning."""
