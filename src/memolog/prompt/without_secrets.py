"""A message without its secrets, for whoever does not want them stored at all.

Knows which texts a message has. Knows not what a secret looks like. What a provider attached and wants back unchanged (`extra`),
encrypted reasoning and files that are no text stay as they are.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final, cast

from memolog.domain.codec import JsonValue, dumps, loads
from memolog.domain.message import FilePart, NewMessage, Part, ReasoningPart, TextPart, ToolCallPart, ToolResultPart
from memolog.prompt.redact import REDACTION, Redactor

__all__ = ["parts_without_secrets", "without_secrets"]

_TEXTS: Final = ("text/", "application/json", "application/xml", "application/yaml", "application/toml")


def without_secrets(message: NewMessage, redactor: Redactor = REDACTION) -> NewMessage:
    """Return the message with every secret replaced by `[redacted: kind]`; the same one if it has none."""
    parts = parts_without_secrets(message.parts, redactor)
    metadata = _Cleaning(redactor).value(message.metadata)
    if parts == message.parts and metadata == message.metadata:
        return message
    return replace(message, parts=parts, metadata=metadata if isinstance(metadata, dict) else {})


def parts_without_secrets(parts: Sequence[Part], redactor: Redactor = REDACTION) -> tuple[Part, ...]:
    """Return the parts of a message without their secrets."""
    return tuple(map(_Cleaning(redactor).part, parts))


class _Cleaning:
    """Takes what a redactor finds out of the values of a message."""

    def __init__(self, redactor: Redactor) -> None:
        self._redact = redactor.redact

    def part(self, part: Part) -> Part:
        """Return a part without its secrets."""
        match part:
            case TextPart():
                return replace(part, text=self._redact(part.text))
            case ReasoningPart():
                text = self._redact(part.text)
                # A signature of other words is worth nothing, and a provider would refuse it.
                return part if text == part.text else replace(part, text=text, signature=None)
            case ToolCallPart():
                return replace(part, arguments=self.value(part.arguments))
            case ToolResultPart():
                return replace(part, content=self.value(part.content), files=tuple(map(self.file, part.files)))
            case FilePart():
                return self.file(part)
            case _:
                return replace(part, data=self.value(part.data))

    def file(self, part: FilePart) -> FilePart:
        """Return a file without secrets in its text and its name."""
        return replace(
            part,
            data=self.content(part),
            url=None if part.url is None else self._redact(part.url),
            name=None if part.name is None else self._redact(part.name),
        )

    def content(self, part: FilePart) -> bytes | None:
        """Return the bytes of a text without its secrets; what is no text stays."""
        if part.data is None or not part.media_type.lower().startswith(_TEXTS):
            return part.data
        try:
            text = part.data.decode()
        except UnicodeDecodeError:
            return part.data
        clean = self._redact(text)
        return part.data if clean == text else clean.encode()

    def value(self, value: JsonValue) -> JsonValue:
        """Return a JSON value without its secrets. As one text a name still stands beside what it names: `"password": "…"`."""
        if value is None or isinstance(value, bool | int | float):
            return value
        if isinstance(value, str):
            return self._redact(value)
        try:
            text = dumps(value)
        except (TypeError, ValueError, RecursionError):
            # What is no JSON is refused when it is saved, in better words.
            return value
        clean = self._redact(text)
        if clean == text:
            return value
        try:
            return loads(clean)
        except ValueError:
            return self.inside(value)

    def inside(self, value: Any) -> JsonValue:
        """Return a JSON value with each of its texts cleaned by itself."""
        if isinstance(value, str):
            return self._redact(value)
        if isinstance(value, dict):
            return {name: self.inside(item) for name, item in cast("dict[str, Any]", value).items()}
        if isinstance(value, list | tuple):
            return [self.inside(item) for item in cast("Sequence[Any]", value)]
        return value
