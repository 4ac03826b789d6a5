"""Return the text of messages as sources: what was said, and separately what tools returned."""

from collections.abc import Iterator, Mapping
from typing import Final, cast

from memolog.domain.codec import JsonValue, loads
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

__all__ = ["is_spoken_by_user", "returned_text", "said_text", "source_text"]

# Transcripts show at most 100,000 tokens, and of what is longer the two ends.
_MOST: Final = 400_000
_DEEPEST: Final = 40
_MOST_VALUES: Final = 20_000


def source_text(message: Message) -> str:
    """Return everything in a message that an observer may draw on."""
    return "\n".join(filter(None, (said_text(message), returned_text(message))))


def said_text(message: Message) -> str:
    """Return what the speaker of a message said or called; of a tool's message nothing."""
    if message.role == "tool" or message.own:
        return ""
    texts = [text for part in message.parts if not isinstance(part, ToolResultPart) for text in _texts(part)]
    return "\n".join([message.speaker or "", *map(_ends, texts)]).strip()


def returned_text(message: Message) -> str:
    """Return what tools answered in a message, whatever its role; all of it where the message is a tool's."""
    if message.own:
        return ""
    is_tool = message.role == "tool"
    parts = [part for part in message.parts if is_tool or isinstance(part, ToolResultPart)]
    return "\n".join(_ends(text) for part in parts for text in _texts(part))


def is_spoken_by_user(message: Message) -> bool:
    """Return whether a user said something in a message: some providers put results of tools into users' messages."""
    spoken = [part for part in message.parts if not isinstance(part, ToolResultPart)]
    return message.role == "user" and not message.own and any(_has_words(part) for part in spoken)


def _has_words(part: Part) -> bool:
    return bool(part.text.strip()) if isinstance(part, TextPart) else isinstance(part, FilePart | UnknownPart)


def _ends(text: str) -> str:
    return text if len(text) <= _MOST else f"{text[: _MOST // 2]}\n{text[-_MOST // 2 :]}"


def _texts(part: Part) -> Iterator[str]:
    match part:
        case TextPart() | ReasoningPart():
            yield part.text
        case ToolCallPart():
            yield part.name
            yield from _values(part.arguments)
        case ToolResultPart():
            yield part.name or ""
            yield from _values(part.content)
            for file in part.files:
                yield from _file(file)
        case FilePart():
            yield from _file(part)
        case UnknownPart():
            yield from _values(part.data)


def _file(part: FilePart) -> Iterator[str]:
    yield f"{part.name or ''} {part.media_type} {part.url[:2_000] if part.url else ''}"
    yield f"{part.width or ''} × {part.height or ''}, {part.pages or ''} pages, {part.seconds or ''} s"
    if part.data is not None:
        size = len(part.data)
        yield f"{size} bytes, {round(size / 1e3)} kB, {round(size / 1e6)} MB, {size / 1e6:.1f} MB"


def _values(value: JsonValue) -> Iterator[str]:
    """Yield the texts in a JSON value, also in one that is written as text."""
    if isinstance(value, str) and value[:1] in {"{", "["}:
        try:
            value = loads(value)
        except (ValueError, RecursionError):
            yield str(value)
            return
    todo: list[tuple[object, int]] = [(value, 0)]
    for _ in range(_MOST_VALUES):
        if not todo:
            return
        item, depth = todo.pop()
        if isinstance(item, Mapping):
            for key, inner in reversed(list(cast("Mapping[object, object]", item).items())[:_MOST_VALUES]):
                todo += [(inner, depth + 1), (str(key), depth + 1)] if depth < _DEEPEST else []
        elif isinstance(item, list | tuple):
            todo += [(inner, depth + 1) for inner in reversed(cast("list[object]", item)[:_MOST_VALUES])]
        elif item is not None:
            yield str(item)
