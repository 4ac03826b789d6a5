"""Passages: earlier messages that were found for the newest one, as texts for the edge.

Knows how a hit is shown with what stands around it, within a number of tokens. Knows nothing of how it was found.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from memolog.context.dates import local
from memolog.context.escape import fold
from memolog.context.recalled import part_text
from memolog.domain.message import FilePart, Message, ReasoningPart, ToolCallPart, ToolResultPart
from memolog.tokens import TokenCounter, cut, cut_middle

__all__ = ["Passage", "passage_texts"]

_NEIGHBOUR: Final = 240
_LEAST: Final = 80
_NAME: Final = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """A message that was found, and its neighbours, in their order."""

    hit: int
    """The sequence number of the one that was found."""
    messages: tuple[Message, ...]


def passage_texts(
    passages: Sequence[Passage], thread: str, *, budget: int, zone: str | None, counter: TokenCounter
) -> tuple[str, ...]:
    """Return each passage as a text, the best first, all of them within a budget of tokens."""
    texts: list[str] = []
    for left, passage in zip(range(len(passages), 0, -1), passages, strict=True):
        # What the better ones did not need is there for the others.
        text = _text(passage, thread, budget // left, zone, counter)
        size = counter.count(text)
        if text and size <= budget:
            texts.append(text)
            budget -= size
    return tuple(texts)


def _text(passage: Passage, thread: str, budget: int, zone: str | None, counter: TokenCounter) -> str:
    """Return a passage that fits: its hit gets shorter first to four characters a token, then neighbours are left out."""
    messages = passage.messages
    most = max(_LEAST, 4 * budget)
    while True:
        text = "\n".join(
            _line(message, thread, most if message.seq == passage.hit else _NEIGHBOUR, zone) for message in messages
        )
        if counter.count(text) <= budget:
            return text
        if most > _LEAST:
            most = max(_LEAST, most // 2)
        elif len(messages) > 1:
            messages = tuple(message for message in messages if message.seq == passage.hit)
            most = max(_LEAST, 4 * budget)
        else:
            return ""


def _line(message: Message, thread: str, most: int, zone: str | None) -> str:
    when = local(message.created_at, zone)
    clock = f"{when.date().isoformat()} {when.hour:02}:{when.minute:02}"
    speaker = f" {cut(fold(message.speaker), _NAME)}" if message.speaker else ""
    elsewhere = "" if message.thread == thread else ", in another conversation"
    said = " ".join(filter(None, map(_said, message.parts)))
    return f"({clock}{elsewhere}) {message.role}{speaker}: {cut_middle(said, most, ' … ')}"


def _said(part: object) -> str:
    match part:
        case ReasoningPart():
            return ""
        case ToolCallPart():
            return f"[call {cut(fold(part.name), _NAME)}] {fold(part_text(part))}".strip()
        case ToolResultPart():
            return f"[result] {fold(part_text(part))}".strip()
        case FilePart():
            return f"[file] {fold(part_text(part))}"
        case _:
            return fold(part_text(part))  # pyright: ignore[reportArgumentType]
