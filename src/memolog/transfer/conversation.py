"""Define conversations of other systems, and functions that the readers of all formats use."""

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
    """One conversation of another system, which is imported as a thread. The oldest message is first."""

    thread: str
    messages: tuple[NewMessage, ...]
    resource: str | None = None
    """The resource, if the source contains one."""
    title: str | None = None
    metadata: JsonObject = field(default_factory=nothing)
    created_at: datetime | None = None
    skipped: tuple[Skipped, ...] = ()


def as_data(value: object) -> Data:
    """Return the value if it is an object, otherwise an empty object."""
    return cast("Data", value) if isinstance(value, Mapping) else {}


def as_list(value: object) -> list[Any]:
    """Return the value if it is a list, otherwise an empty list."""
    return cast("list[Any]", value) if isinstance(value, list) else []


def moment(value: object) -> datetime | None:
    """Parse an ISO time, or a number of seconds, milliseconds or microseconds since 1970. Return None for any other value."""
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
    """Return an id that is the same whenever the names are the same."""
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
    """Return the messages. A message without a time gets the time of the message before it, or `start` if it is the first."""
    made: list[NewMessage] = []
    last = start
    for one in messages:
        last = one.created_at or last
        made.append(replace(one, created_at=last))
    return tuple(made)


def plain_text(value: Any) -> str:
    """Return a text, or the joined texts of a list of blocks. Any other value is returned as JSON."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "\n".join(
            item if isinstance(item, str) else str(as_data(item).get("text", "")) for item in cast("list[Any]", value)
        )
    return "" if value is None else json.dumps(value, ensure_ascii=False)


def data_file(media_type: str, data: object, name: str | None = None, detail: object = None) -> Part:
    """Return a file part from base64 text, a data URL or another URL. Any other value becomes an unknown part."""
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
    """Return one text part, or nothing for an empty text."""
    return (TextPart(text=text),) if text else ()


def marks_of(role: str, parts: Iterable[Part]) -> list[str]:
    """Return a text for each part, to compare messages. Reasoning and differences in white space are ignored.

    Stored tombstones are hashes of these texts, so the texts must stay the same in all releases.
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
