"""Result values of recall: messages as they were said, in pages."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal, TypeAlias

from memolog.domain.message import MessageState, Role

__all__ = ["Detail", "PartType", "RecallPage", "Recalled", "RecalledPiece"]

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
