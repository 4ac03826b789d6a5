"""Show messages that a search found, with their neighbours, within a number of tokens."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from memolog.context.dates import clock
from memolog.context.escape import fold
from memolog.context.recalled import part_text
from memolog.domain.lookalikes import quoted_label
from memolog.domain.message import FilePart, Message, ReasoningPart, ToolCallPart, ToolResultPart
from memolog.tokens import TokenCounter, cut, cut_end, cut_middle

__all__ = ["Passage", "Place", "passage_texts", "said"]

_NEIGHBOUR: Final = 240
_LEAST: Final = 80
_NAME: Final = 60
_BEFORE, _AFTER = "… ", " …"

Place: TypeAlias = tuple[int, int]
"""The first character of what a message was found by, and the one after its last, in what is shown of the message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """A message that was found, and its neighbours, in their order."""

    hit: int
    """The sequence number of the one that was found."""
    messages: tuple[Message, ...]
    places: Mapping[int, Place] = field(default_factory=dict[int, Place])
    """By sequence number, what must not be cut out of a message; of any other, the middle is."""


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
        text = "\n".join(_line(message, thread, _shown(message, passage, most), zone) for message in messages)
        if counter.count(text) <= budget:
            return text
        if most > _LEAST:
            most = max(_LEAST, most // 2)
        elif len(messages) > 1:
            messages = tuple(message for message in messages if message.seq == passage.hit)
            most = max(_LEAST, 4 * budget)
        else:
            return ""


def said(message: Message) -> str:
    """Return all of a message that can be shown, as one line."""
    return " ".join(filter(None, map(_said, message.parts)))


def _shown(message: Message, passage: Passage, most: int) -> str:
    text, most = said(message), most if message.seq == passage.hit else _NEIGHBOUR
    place = passage.places.get(message.seq)
    return cut_middle(text, most, " … ") if place is None else _around(text, place, most)


def _around(text: str, place: Place, most: int) -> str:
    """Return as much of a text as may be shown of it, with a place in the middle."""
    if len(text) <= most:
        return text
    first, last = place
    room = most - len(_BEFORE) - len(_AFTER)
    start = min(first - max(0, room - (last - first)) // 2, len(text) - room)
    rest = cut_end(text, len(text) - start) if start > 0 else text
    shown = cut(rest, room)
    before, after = _BEFORE if len(rest) < len(text) else "", _AFTER if len(shown) < len(rest) else ""
    return f"{before}{shown}{after}"


def _line(message: Message, thread: str, shown: str, zone: str | None) -> str:
    speaker = f" {quoted_label(message.speaker, _NAME)}" if message.speaker else ""
    elsewhere = "" if message.thread == thread else ", in another conversation"
    return f"({clock(message.created_at, zone)}{elsewhere}) {message.role}{speaker}: {shown}"


def _said(part: object) -> str:
    match part:
        case ReasoningPart():
            return ""
        case ToolCallPart():
            return f"[call {quoted_label(part.name, _NAME, is_tool=True)}] {fold(part_text(part))}".strip()
        case ToolResultPart():
            return f"[result] {fold(part_text(part))}".strip()
        case FilePart():
            return f"[file] {fold(part_text(part))}"
        case _:
            return fold(part_text(part))  # pyright: ignore[reportArgumentType]
