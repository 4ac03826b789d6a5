"""Redact the secrets in a message before it is stored.

Provider data (`extra`), encrypted reasoning and files that are no text stay as they are.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from memolog.domain.codec import JsonValue
from memolog.domain.message import (
    FilePart,
    Message,
    NewMessage,
    Part,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
)
from memolog.prompt.redact import REDACTION, Redactor

__all__ = ["messages_without_secrets", "parts_without_secrets", "without_secrets"]

_TEXTS: Final = ("text/", "application/json", "application/xml", "application/yaml", "application/toml")


def without_secrets(message: NewMessage, redactor: Redactor = REDACTION) -> NewMessage:
    """Return the message with every secret replaced by `[redacted: kind]`; the same one if it has none."""
    parts = parts_without_secrets(message.parts, redactor)
    metadata = redactor.value(message.metadata)
    speaker = redactor.redact(message.speaker) if message.speaker else message.speaker
    if parts == message.parts and metadata == message.metadata and speaker == message.speaker:
        return message
    return replace(message, parts=parts, metadata=metadata if isinstance(metadata, dict) else {}, speaker=speaker)


def messages_without_secrets(messages: Iterable[Message], redactor: Redactor) -> tuple[Message, ...]:
    """Return stored messages without their secrets, those without any as they are."""
    return tuple(_message(message, redactor) for message in messages) if redactor.enabled else tuple(messages)


def _message(message: Message, redactor: Redactor) -> Message:
    parts = parts_without_secrets(message.parts, redactor)
    speaker = redactor.redact(message.speaker) if message.speaker else message.speaker
    if speaker == message.speaker and all(one is other for one, other in zip(parts, message.parts, strict=True)):
        return message
    return replace(message, parts=parts, speaker=speaker)


def parts_without_secrets(parts: Sequence[Part], redactor: Redactor = REDACTION) -> tuple[Part, ...]:
    """Return the parts of a message without their secrets."""
    return tuple(map(_Cleaning(redactor).part, parts))


class _Cleaning:
    """Redacts the values of a message."""

    def __init__(self, redactor: Redactor) -> None:
        self._redact, self.value = redactor.redact, redactor.value

    def part(self, part: Part) -> Part:
        """Return a part without its secrets, the very same if it has none."""
        match part:
            case TextPart():
                text = self._redact(part.text)
                return part if text == part.text else replace(part, text=text)
            case ReasoningPart():
                text = self._redact(part.text)
                # Providers refuse a signature that does not match the text.
                return part if text == part.text else replace(part, text=text, signature=None)
            case ToolCallPart():
                name, arguments = self._redact(part.name), self.value(part.arguments)
                if name == part.name and _is_same(arguments, part.arguments):
                    return part
                return replace(part, name=name, arguments=arguments)
            case ToolResultPart():
                content, files = self.value(part.content), tuple(map(self.file, part.files))
                name = part.name and self._redact(part.name)
                if _is_same(content, part.content) and files == part.files and name == part.name:
                    return part
                return replace(part, name=name, content=content, files=files)
            case FilePart():
                return self.file(part)
            case _:
                data = self.value(part.data)
                return part if _is_same(data, part.data) else replace(part, data=data)

    def file(self, part: FilePart) -> FilePart:
        """Return a file without secrets in its text and its name."""
        data = self.content(part)
        url = part.url and self._redact(part.url)
        name = part.name and self._redact(part.name)
        return (
            part
            if (data, url, name) == (part.data, part.url, part.name)
            else replace(part, data=data, url=url, name=name)
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


def _is_same(new: JsonValue, old: JsonValue) -> bool:
    return new is old or (isinstance(new, str) and new == old)
