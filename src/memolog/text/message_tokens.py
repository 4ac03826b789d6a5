"""Count the tokens of messages as a provider sees them.

Never raises: a part that cannot be counted is over-estimated. `extra` of a part is not sent to the model and not counted.
"""

from collections.abc import Iterable
from typing import Final

from memolog.core.exact_json import JsonObject, JsonValue, dumps
from memolog.core.message import (
    ROLES,
    FilePart,
    Message,
    NewMessage,
    Part,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    UnknownPart,
)
from memolog.text.media_tokens import count_file
from memolog.text.tokens import TokenCounter, guarded, over_estimate

# OpenAI's cookbook, "How to count tokens": three for each message, one for its role, one for a
# name. Others publish nothing; theirs are close.
_PER_MESSAGE: Final = 3
_PER_ROLE: Final = 1
_PER_NAME: Final = 1
# The id and the wrapping of a call and of its result, as the model sees them.
_PER_CALL: Final = 10
_PER_RESULT: Final = 8
# The cookbook again: what surrounds each function, and all of them.
_PER_SCHEMA: Final = 8
_PER_SCHEMAS: Final = 12
# Opaque blobs are base64, of which at most one character in four becomes a token.
_BLOB_CHARACTERS: Final = 4


def count_message(message: Message | NewMessage, counter: TokenCounter) -> int:
    """Return the tokens of a message in a request, with its speaker's name; never raises."""

    def measure() -> int:
        parts = message.parts
        if len(parts) == 1 and isinstance(parts[0], TextPart) and not message.speaker and message.role in ROLES:
            # Most messages are plain text and are counted at every save, so this path is short.
            return _PER_MESSAGE + _PER_ROLE + count_text(parts[0].text, counter)
        speaker = message.speaker
        name = _PER_NAME + count_text(speaker, counter) if speaker else 0
        return name + count_parts(message.role, message.parts, counter)

    return guarded(measure, message)


def count_parts(role: str, parts: Iterable[Part], counter: TokenCounter) -> int:
    """Return the tokens of one message of these parts in a request; never raises."""

    def measure() -> int:
        return sum(guarded(lambda part=part: _part(part, counter), part) for part in parts)

    word = guarded(lambda: 0 if role in ROLES else count_text(role, counter), role)
    return _PER_MESSAGE + max(word, _PER_ROLE) + guarded(measure, parts)


def count_text(text: object, counter: TokenCounter) -> int:
    """Return the tokens of a text, over-estimated if the counter fails or it is not a string; never raises."""
    if not isinstance(text, str):
        return over_estimate(text)
    return guarded(lambda: counter.count(text), text)


def count_tool_schemas(schemas: Iterable[JsonObject], counter: TokenCounter) -> int:
    """Return the tokens of tool descriptions in a request that offers them; never raises."""

    def measure() -> int:
        each = [_PER_SCHEMA + _json(schema, counter) for schema in schemas]
        return _PER_SCHEMAS + sum(each) if each else 0

    return guarded(measure, schemas)


def _part(part: object, counter: TokenCounter) -> int:
    match part:
        case TextPart():
            return count_text(part.text, counter)
        case ReasoningPart():
            return count_text(part.text, counter) + _blob(part.signature) + _blob(part.encrypted)
        case ToolCallPart():
            return _PER_CALL + count_text(part.name, counter) + _json(part.arguments, counter)
        case ToolResultPart():
            return _result(part, counter)
        case FilePart():
            return count_file(part, counter)
        case _:
            data: JsonValue = part.data if isinstance(part, UnknownPart) else part
            return over_estimate(dumps(data))


def _result(part: ToolResultPart, counter: TokenCounter) -> int:
    name = count_text(part.name, counter) if part.name else 0
    files = sum(count_file(file, counter) for file in part.files)
    return _PER_RESULT + name + _json(part.content, counter) + files


def _json(value: JsonValue, counter: TokenCounter) -> int:
    """Count a JSON value as the provider gets it: a string as it is, anything else as JSON text."""
    if value is None:
        return 0
    if isinstance(value, str):
        return count_text(value, counter)
    return guarded(lambda: counter.count(dumps(value)), value)


def _blob(blob: str | None) -> int:
    return -(-len(blob) // _BLOB_CHARACTERS) if blob else 0
