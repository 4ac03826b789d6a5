"""Choose which text of a message, an observation or a task is indexed, and under which class. Callers redact it."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

from memolog.domain.message import (
    FilePart,
    Part,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    UnknownPart,
)
from memolog.search.keys import ASSISTANT, TOOL, USER

__all__ = ["Redact", "kind_of", "text_of_parts", "text_of_task"]

Redact = Callable[[str], str]
"""Returns a text without its secrets."""

_DEEPEST = 50
_SHORT = 200


def kind_of(role: str, parts: Sequence[Part]) -> int:
    """Return the class of a message: what users, assistants and tools say is weighed apart."""
    if role == "tool" or not any(isinstance(part, TextPart) for part in parts):
        return TOOL
    return USER if role == "user" else ASSISTANT


def text_of_parts(parts: Sequence[Part]) -> str:
    """Return all that can be read in the parts of a message, tool calls and results too."""
    if len(parts) == 1 and isinstance(parts[0], TextPart):
        return parts[0].text
    return "\n".join(text for part in parts for text in _texts(part) if text)


def _texts(part: Part) -> Iterator[str]:
    match part:
        case TextPart() | ReasoningPart():
            yield part.text
        case ToolCallPart():
            yield part.name
            yield from _strings(part.arguments)
        case ToolResultPart():
            yield part.name or ""
            yield from _strings(part.content)
            for file in part.files:
                yield from _texts(file)
        case FilePart():
            yield part.name or ""
            yield part.url or ""
        case UnknownPart():
            yield from _strings(part.data)


def _strings(value: Any, depth: int = 0) -> Iterator[str]:
    """Yield the texts inside a JSON value, keys too: what a tool was asked for is in both."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, bool) or value is None or depth > _DEEPEST:
        return
    elif isinstance(value, int | float):
        yield str(value)
    elif isinstance(value, dict):
        for key, inner in value.items():  # pyright: ignore[reportUnknownVariableType]
            if _is_short(cast("object", inner)):
                # A name gives away that what it names is a secret: they stay together.
                yield f'{key}: "{inner}"'
                continue
            yield str(key)  # pyright: ignore[reportUnknownArgumentType]
            yield from _strings(inner, depth + 1)
    elif isinstance(value, list | tuple):
        items = cast("Sequence[object]", value)
        if items and all(map(_is_short, items)):
            # The words of a command: an option and what it is set to.
            yield " ".join(map(str, items))
            return
        for inner in items:
            yield from _strings(inner, depth + 1)


def _is_short(value: object) -> bool:
    """Return whether a value is a few words on one line."""
    if isinstance(value, str):
        return 0 < len(value) <= _SHORT and "\n" not in value and '"' not in value
    return isinstance(value, int | float) and not isinstance(value, bool)


def text_of_task(title: str, description: str, summary: str | None, labels: Sequence[str]) -> str:
    """Return what a task says of itself."""
    return "\n".join(text for text in (title, summary or "", description, " ".join(labels)) if text)
