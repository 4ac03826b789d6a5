"""Result values of search and recall."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import ClassVar, Final, Literal, TypeAlias, get_args

from memolog.core.message import FilePart, Message, MessageState, Role
from memolog.text.html import html_items

Source: TypeAlias = Literal["raw", "compacted", "observation", "reflection", "task", "working-memory"]
SOURCES: Final[tuple[str, ...]] = get_args(Source)


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResult:
    """One hit of a search."""

    html_columns: ClassVar = ("rank", "source", "thread", "seq", "role", "at", "snippet")
    id: str
    """The id of the message, the observation or the task. For a line of the working memory: `working-memory`."""
    source: Source
    rank: int
    """1 is the best."""
    score: float
    content: str
    snippet: str
    """The part of the content around the matches. « and » mark the matches."""
    at: datetime
    exact: str = ""
    """The same part of the content without marks and in whole lines, so that it can be copied."""
    zone: str | None = None
    """The time zone of the speaker, if it is known."""
    thread: str | None = None
    seq: int | None = None
    role: Role | None = None
    speaker: str | None = None
    task: str | None = None
    handle: str | None = None
    """The short name: g3.2 for an observation, T-7 for a task. Pass g3.2 to `recall`, together with the thread."""
    state: str = "live"
    """The state of an observation (active, superseded or dropped), or the status of a task."""
    message: Message | None = None
    before: tuple[Message, ...] = ()
    after: tuple[Message, ...] = ()
    parts: Mapping[str, float] = field(default_factory=dict[str, float])
    """With `explain=True`: the parts of the score. Their sum is the score."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchAnswer:
    """A page of results, the total number, and the cursor of the next page."""

    results: tuple[SearchResult, ...]
    total: int
    next: str | None = None
    """Pass it as `cursor` to get the next page. None on the last page."""
    terms: tuple[str, ...] = ()
    """The terms that were searched, the rarest first."""
    rarity: Mapping[str, float] = field(default_factory=dict[str, float])
    """The weight of each term by its rarity."""
    left_out: tuple[str, ...] = ()
    """The terms that were not searched, or not searched completely, because they are too common or too many."""
    relaxed: tuple[str, ...] = ()
    """The words that were replaced by similar words because they do not occur, and the quoted phrases of a question that were not
    found."""
    behind: int = 0
    """The number of threads with messages that are not indexed yet. A search updates the index first, so this is 0 unless very
    much waits to be indexed, as after an import, the memory is read-only, the database cannot be written, or other processes
    write at the same time."""
    unindexed: int = 0
    """The number of messages, observations and tasks that were not searched, because they are not indexed yet.
    `Resource.index` indexes them at once. A process with write access indexes them in the background."""

    def _repr_html_(self) -> str:
        return html_items(self.results, note=f"{len(self.results)} of {self.total}")


Detail: TypeAlias = Literal["low", "full"]
PartType: TypeAlias = Literal["text", "reasoning", "tool_call", "tool_result", "file", "unknown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecalledPiece:
    """A part of a message, or a piece of a part.

    With detail="full", the pieces of a part, put together, are exactly its text. The text of a file is its description, or its
    content if it is a text file. If the request selects one `part`, the text of any other stored file is its content in base64.
    """

    part: int
    """The index of the part, from 0."""
    type: PartType
    text: str
    start: int
    """The position in the part, from 0, of the first character of the piece."""
    length: int
    """The number of characters of the whole part."""
    tool: str | None = None
    call: str | None = None
    is_error: bool = False
    files: tuple[str, ...] = ()
    """Descriptions of the files in the result of a tool, or of the file whose content the text is."""
    encoding: Literal["base64"] | None = None
    """How the text encodes the content of a file. None means that the text is plain text."""
    stored: tuple[FilePart, ...] = field(default=(), repr=False)
    """With detail="full": the file, or the files in the result of a tool, with their bytes or URLs."""

    @property
    def is_whole(self) -> bool:
        """Return whether the piece is the whole part."""
        return len(self.text) == self.length


@dataclass(frozen=True, slots=True, kw_only=True)
class Recalled:
    """A message, with the pieces that the page shows. A withdrawn or forgotten message has no pieces."""

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
    """Whether the raw text of the message was removed. Then its summary is shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallPage:
    """A page of messages in their order, with the cursors of the pages before and after it."""

    items: tuple[Recalled, ...]
    text: str
    """The page as text for a model."""
    tokens: int
    detail: Detail
    next: str | None = None
    """The cursor of the next page. None on the last page."""
    previous: str | None = None
    """The cursor of the page before. None on the first page."""
