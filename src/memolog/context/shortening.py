"""Shorten one message: keep its beginning and its end, and say how much is missing and where it can be read.

The result depends on the message and the size alone, so it is the same at every request. Calls keep their ids.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from memolog.context.escape import fold
from memolog.context.pairs import content_text, is_compacted
from memolog.context.wording import CUT, CUT_FILE
from memolog.domain.lookalikes import label
from memolog.domain.message import (
    FilePart,
    Message,
    Part,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    UnknownPart,
)
from memolog.tokens import TokenCounter, count_message, count_parts, count_text, cut_end, cut_tokens, share

__all__ = ["LEAST_SHOWN", "shortened"]

LEAST_SHOWN: Final = 64
"""A message of this many tokens is always shown whole: less would be little but the words that say so."""
_NAME: Final = 80


def shortened(message: Message, most: int, counter: TokenCounter) -> Message:
    """Return the message with at most so many tokens, the words that say what is missing included; short ones as they are."""
    most = max(most, LEAST_SHOWN)
    if message.tokens <= most or message.state != "live" or is_compacted(message):
        return message
    # A count costs time in proportion to the text: that of a single part is known.
    sizes = [message.tokens] if len(message.parts) == 1 else [_size(message, part, counter) for part in message.parts]
    around = count_message(replace(message, parts=()), counter)
    cap = share(sizes, most - around)
    parts = tuple(
        one
        for part, size in zip(message.parts, sizes, strict=True)
        for one in ((part,) if size <= cap else _smaller(part, size, cap, message, counter))
    )
    if not parts:
        parts = (TextPart(text=_mark(0, message.id)),)
    short = replace(message, parts=parts)
    return replace(short, tokens=count_message(short, counter))


def _size(message: Message, part: Part, counter: TokenCounter) -> int:
    return count_parts(message.role, (part,), counter) - count_parts(message.role, (), counter)


def _smaller(part: Part, size: int, most: int, message: Message, counter: TokenCounter) -> tuple[Part, ...]:
    """Return a part cut, or as it is where the words that say what is missing would be longer."""
    short = tuple(_cut(part, most, message.id, counter))
    return short if sum(_size(message, one, counter) for one in short) < size else (part,)


def _mark(count: int, message: str) -> str:
    return CUT.format(count=f"{count:,}", id=fold(message))


def _cut(part: Part, most: int, message: str, counter: TokenCounter) -> Iterator[Part]:
    """Yield what is shown of a part that is too large. What a library kept beside it may be a copy, so it goes too."""
    match part:
        case TextPart():
            yield TextPart(text=_ends(part.text, most, message, counter))
        case ToolResultPart():
            around = count_parts("tool", (replace(part, content=None, files=()),), counter)
            files = tuple(file for file in part.files if count_parts("tool", (file,), counter) <= most // 4)
            room = most - around - sum(count_parts("tool", (file,), counter) for file in files)
            gone = "".join(f"\n{_file(file, message)}" for file in part.files if file not in files)
            text = _ends(content_text(part.content), room - count_text(gone, counter), message, counter) + gone
            yield replace(part, content=text, files=files, extra=None)
        case ToolCallPart():
            # Providers take an object and nothing else.
            around = count_parts("assistant", (replace(part, arguments={"left_out": ""}),), counter)
            text = _ends(content_text(part.arguments), most - around, message, counter)
            yield replace(part, arguments={"left_out": text}, extra=None)
        case FilePart():
            yield TextPart(text=_file(part, message))
        case ReasoningPart():
            # A thought that is not whole does not match its signature any more.
            return
        case UnknownPart():
            yield TextPart(text=_mark(len(content_text(part.data)), message))


def _file(part: FilePart, message: str) -> str:
    kind = " ".join(filter(None, (label(part.name or "", _NAME), label(part.media_type, _NAME))))
    return CUT_FILE.format(kind=kind, id=fold(message))


def _ends(text: str, most: int, message: str, counter: TokenCounter) -> str:
    """Return a text within so many tokens: its two ends and the mark; the mark alone where there is room for no more."""
    if len(text) <= 4 * max(most, 0) and count_text(text, counter) <= most:
        return text
    room = most - count_text(_mark(len(text), message), counter) - 2
    if room <= 0:
        return _mark(len(text), message)
    head = cut_tokens(text, (room + 1) // 2, counter)
    size = min(len(head), len(text) - len(head))
    while size and count_text(cut_end(text, size), counter) > room // 2:
        size = size * 9 // 10
    tail = cut_end(text, size) if size else ""
    return f"{head}\n{_mark(len(text) - len(head) - len(tail), message)}\n{tail}"
