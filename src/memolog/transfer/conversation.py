"""Conversations read from other systems, and the JSON helpers that every format uses."""

import base64
import binascii
import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, cast

from memolog.core.exact_json import JsonObject, dumps, encode, nothing
from memolog.core.message import (
    FilePart,
    NewMessage,
    Part,
    ReasoningPart,
    Role,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    UnknownPart,
)
from memolog.core.reports import Skipped

Data = Mapping[str, Any]

_MILLIS = 10**11
_MICROS = 10**14


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """One conversation: a thread with its messages, oldest first."""

    thread: str
    messages: tuple[NewMessage, ...]
    resource: str | None = None
    """The owner, if the source names one."""
    title: str | None = None
    metadata: JsonObject = field(default_factory=nothing)
    created_at: datetime | None = None
    skipped: tuple[Skipped, ...] = ()


def as_data(value: object) -> Data:
    """Return an object, or an empty one for anything else."""
    return cast("Data", value) if isinstance(value, Mapping) else {}


def as_list(value: object) -> list[Any]:
    """Return a list, or an empty one for anything else."""
    return cast("list[Any]", value) if isinstance(value, list) else []


def moment(value: object) -> datetime | None:
    """Return a time from ISO text, or from seconds, milliseconds or microseconds since 1970; None for anything else."""
    try:
        if isinstance(value, str) and value:
            if value.replace(".", "", 1).isdigit():
                return moment(float(value))
            found = datetime.fromisoformat(value)
            return found if found.tzinfo else found.replace(tzinfo=UTC)
        if isinstance(value, int | float) and not isinstance(value, bool):
            scale = 1_000_000 if value > _MICROS else 1_000 if value > _MILLIS else 1
            return datetime.fromtimestamp(value / scale, UTC)
    except (ValueError, OverflowError, OSError):
        pass
    return None


def stable_id(*names: object) -> str:
    """Return an id that depends on nothing but the names."""
    return hashlib.sha256(dumps([str(name) for name in names]).encode()).hexdigest()[:32]


def message(
    role: Role,
    parts: Iterable[Part],
    *,
    id: str,  # noqa: A002
    at: datetime | None = None,
    speaker: str | None = None,
    metadata: JsonObject | None = None,
) -> NewMessage:
    """Return a message."""
    return NewMessage(
        role=role, parts=tuple(parts), id=id, created_at=at, speaker=speaker, metadata=dict(metadata or {})
    )


def dated(messages: Iterable[NewMessage], start: datetime | None) -> tuple[NewMessage, ...]:
    """Give messages without a time that of the message before them, or of the conversation."""
    made: list[NewMessage] = []
    last = start
    for one in messages:
        last = one.created_at or last
        made.append(replace(one, created_at=last))
    return tuple(made)


def plain_text(value: Any) -> str:
    """Return the text of a content that is a text or a list of text blocks; anything else as JSON."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "\n".join(
            item if isinstance(item, str) else str(as_data(item).get("text", "")) for item in cast("list[Any]", value)
        )
    return "" if value is None else json.dumps(value, ensure_ascii=False)


def data_file(media_type: str, data: object, name: str | None = None, detail: object = None) -> Part:
    """Return a file from base64, a data address or an address; an unknown part for anything else."""
    fine = detail if isinstance(detail, str) else None
    if isinstance(data, str) and data.startswith("data:"):
        head, _, data = data.partition(",")
        media_type = head[5:].split(";")[0] or media_type
    if isinstance(data, str) and data.startswith(("http://", "https://", "file:", "sediment:", "/")):
        return FilePart(media_type=media_type, url=data, name=name, detail=fine)
    if isinstance(data, str):
        try:
            content = base64.b64decode(data, validate=True)
            return FilePart(media_type=media_type, data=content, name=name, detail=fine)
        except (binascii.Error, ValueError):
            pass
    return UnknownPart(data={"media_type": media_type, "data": data})


def text_parts(text: str) -> tuple[Part, ...]:
    """Return one text part; none for an empty text."""
    return (TextPart(text=text),) if text else ()


def marks_of(role: str, parts: Iterable[Part]) -> list[str]:
    """Return the marks by which messages are compared, one for each part, ignoring white space and reasoning.

    Tombstones are hashes of these texts: do not change them.
    """
    marks: list[str] = []
    for part in parts:
        match part:
            case TextPart():
                if text := " ".join(part.text.split()):
                    marks.append(dumps([role, text]))
            case ToolCallPart():
                marks.append(dumps(["call", part.id, part.name]))
            case ToolResultPart():
                marks.append(dumps(["result", part.call_id]))
            case FilePart():
                marks.append(dumps(["file", part.url or hashlib.sha256(part.data or b"").hexdigest()]))
            case ReasoningPart():
                pass
            case _:
                marks.append(dumps(["other", encode(part.data)]))
    return marks
