"""A message without its secrets, for whoever does not want them stored at all.

Knows which texts a message has. Knows not what a secret looks like. What a provider attached and wants back unchanged (`extra`),
encrypted reasoning and files that are no text stay as they are.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final, cast

from memolog.domain.codec import JsonValue, dumps, loads
from memolog.domain.message import FilePart, NewMessage, Part, ReasoningPart, TextPart, ToolCallPart, ToolResultPart
from memolog.prompt.redact import REDACTION

__all__ = ["without_secrets"]

_TEXTS: Final = ("text/", "application/json", "application/xml", "application/yaml", "application/toml")


def without_secrets(message: NewMessage) -> NewMessage:
    """Return the message with every secret replaced by `[redacted: kind]`; the same one if it has none."""
    parts = tuple(map(_part, message.parts))
    metadata = _value(message.metadata)
    if parts == message.parts and metadata == message.metadata:
        return message
    return replace(message, parts=parts, metadata=metadata if isinstance(metadata, dict) else {})


def _part(part: Part) -> Part:
    match part:
        case TextPart():
            return replace(part, text=REDACTION.redact(part.text))
        case ReasoningPart():
            text = REDACTION.redact(part.text)
            # A signature of other words is worth nothing, and a provider would refuse it.
            return part if text == part.text else replace(part, text=text, signature=None)
        case ToolCallPart():
            return replace(part, arguments=_value(part.arguments))
        case ToolResultPart():
            return replace(part, content=_value(part.content), files=tuple(map(_file, part.files)))
        case FilePart():
            return _file(part)
        case _:
            return replace(part, data=_value(part.data))


def _file(part: FilePart) -> FilePart:
    return replace(
        part,
        data=_content(part),
        url=None if part.url is None else REDACTION.redact(part.url),
        name=None if part.name is None else REDACTION.redact(part.name),
    )


def _content(part: FilePart) -> bytes | None:
    if part.data is None or not part.media_type.lower().startswith(_TEXTS):
        return part.data
    try:
        text = part.data.decode()
    except UnicodeDecodeError:
        return part.data
    clean = REDACTION.redact(text)
    return part.data if clean == text else clean.encode()


def _value(value: JsonValue) -> JsonValue:
    """Return a JSON value without its secrets. As one text a name still stands beside what it names: `"password": "…"`."""
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, str):
        return REDACTION.redact(value)
    try:
        text = dumps(value)
    except (TypeError, ValueError, RecursionError):
        # What is no JSON is refused when it is saved, in better words.
        return value
    clean = REDACTION.redact(text)
    if clean == text:
        return value
    try:
        return loads(clean)
    except ValueError:
        return _inside(value)


def _inside(value: Any) -> JsonValue:
    if isinstance(value, str):
        return REDACTION.redact(value)
    if isinstance(value, dict):
        return {name: _inside(item) for name, item in cast("dict[str, Any]", value).items()}
    if isinstance(value, list | tuple):
        return [_inside(item) for item in cast("Sequence[Any]", value)]
    return value
