"""Parse the columns of a Mastra database: messages in both formats, metadata, observations, hints and buffered chunks."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, cast

from memolog.core.message import (
    NewMessage,
    Part,
    ReasoningPart,
    Role,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    UnknownPart,
)
from memolog.core.thread import Hints
from memolog.transfer.conversation import Data, as_data, as_list, data_file, message, moment, plain_text

LATER: Final = "-later"
"""Suffix of the id of the message that is made from the parts after the last observation."""
LAST: Final = "-last"
"""Suffix of the id of the message that is made from the parts after the last buffering."""
_RESULTS: Final = "-results"
_MARKER: Final = "data-om-"
"""Prefix of the types of the markers that the memory of Mastra adds to messages."""
_OBSERVED: Final = "data-om-observation-end"
_BUFFERED: Final = "data-om-buffering-end"

_SECTION = re.compile(r'<thread id="([^"]*+)">')
_SECTION_END: Final = "</thread>"
_ROLES: dict[str, Role] = {
    "user": "user",
    "assistant": "assistant",
    "system": "system",
    "tool": "tool",
    "signal": "system",
}


def metadata_of(value: object) -> Data:
    """Parse a column that is JSON text, binary JSON, or an object that the driver has parsed."""
    if isinstance(value, bytes):
        try:
            return as_data(read_jsonb(value))
        except ValueError:
            return {}
    return as_data(_json(value))


def at_of(value: object) -> datetime | None:
    """Parse a time that is text, or a datetime that the driver has parsed."""
    if isinstance(value, datetime):
        return value if value.tzinfo else value.replace(tzinfo=UTC)
    return moment(value)


def sections(text: str) -> list[tuple[str | None, str]]:
    """Return pairs of a thread and its section of the text. The text outside of sections has None as its thread."""
    found: list[tuple[str | None, str]] = []
    outside: list[str] = []
    at = 0
    while (start := _SECTION.search(text, at)) and (end := text.find(_SECTION_END, start.end())) >= 0:
        outside.append(text[at : start.start()])
        found.append((start[1], text[start.end() : end].removeprefix("\n").removesuffix("\n")))
        at = end + len(_SECTION_END)
    rest = "".join([*outside, text[at:]]).strip()
    return [*([(None, rest)] if rest else []), *found]


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """Buffered observations that are not in the log yet."""

    id: str
    text: str
    messages: frozenset[str]
    hints: Hints


def hints_in(metadata: Data) -> Hints:
    """Return the hints in the metadata of a thread, with the time of the last observed message."""
    return _hints_from(as_data(as_data(metadata.get("mastra")).get("om")), "suggestedResponse")


def chunks_of(value: object) -> list[Chunk]:
    """Return the chunks of a record, oldest first."""
    items = [as_data(item) for item in as_list(_json(value))]
    return [
        Chunk(
            id=str(item.get("id") or number),
            text=str(item.get("observations") or ""),
            messages=frozenset(map(str, as_list(item.get("messageIds")))),
            hints=_hints_from(item, "suggestedContinuation"),
        )
        for number, item in enumerate(items)
    ]


def _hints_from(data: Data, response: str) -> Hints:
    return Hints(
        current_task=_text(data.get("currentTask")),
        suggested_response=_text(data.get(response)),
        title=_text(data.get("threadTitle")),
        at=at_of(data.get("lastObservedAt")),
    )


def _text(value: object) -> str | None:
    return value.strip() or None if isinstance(value, str) else None


def source_of(name: str) -> tuple[str, str]:
    """Split the id of an imported message into its id in Mastra and the suffix for its piece (`LATER`, `LAST` or "")."""
    name = name.removesuffix(_RESULTS)
    return next(((name.removesuffix(end), end) for end in (LATER, LAST) if name.endswith(end)), (name, ""))


def read_messages(row: Mapping[str, Any]) -> tuple[NewMessage, ...]:
    """Return the messages of one row. Tool results that are in the same row as their calls become a separate tool message.

    Parts may be added to a row after it was observed or buffered, so up to three pieces of a row become separate messages.
    """
    content = _json(row["content"])
    role = _ROLES.get(str(row["role"]), "user")
    at, name = at_of(row["created_at"]), str(row["id"])
    made: list[NewMessage] = []
    for end, (said, results) in zip(("", LATER, LAST), _pieces(content), strict=True):
        if said:
            made.append(message(role, said, id=f"{name}{end}", at=at))
        if results:
            made.append(message("tool", results, id=f"{name}{end}{_RESULTS}" if said else f"{name}{end}", at=at))
    return tuple(made)


def _pieces(content: Any) -> list[tuple[list[Part], list[Part]]]:
    """Return the parts and the tool results of each piece: the observed piece, the buffered piece and the rest."""
    nothing: tuple[list[Part], list[Part]] = [], []
    if as_data(content).get("format") not in {2, 3}:
        return [_parts(content), nothing, nothing]
    parts = as_list(as_data(content).get("parts"))
    types = [as_data(part).get("type") for part in parts]
    observed, buffered = (
        max((index + 1 for index, kind in enumerate(types) if kind == wanted), default=0)
        for wanted in (_OBSERVED, _BUFFERED)
    )
    buffered = max(observed, buffered)
    if buffered and not observed:
        return [_parts(parts[:buffered]), nothing, _parts(parts[buffered:])]
    if buffered:
        return [_parts(parts[:observed]), _parts(parts[observed:buffered]), _parts(parts[buffered:])]
    said, results = _parts(parts)
    text = as_data(content).get("content")
    if not said and text and not any(_is_marker(as_data(part)) for part in parts):
        said.append(TextPart(text=plain_text(text)))
    return [(said, results), nothing, nothing]


def _is_marker(part: Data) -> bool:
    return str(part.get("type", "")).startswith(_MARKER)


def _json(value: Any) -> Any:
    try:
        return json.loads(value) if isinstance(value, str) else value
    except ValueError:
        return value


def _parts(content: Any) -> tuple[list[Part], list[Part]]:
    """Return the parts without tool results, and the tool results, in either format of Mastra."""
    if not isinstance(content, list):
        return [TextPart(text=plain_text(content))] if content else [], []
    said: list[Part] = []
    results: list[Part] = []
    for item in cast("list[Any]", content):
        part = as_data(item)
        match part.get("type"):
            case "text":
                said.append(TextPart(text=str(part.get("text", ""))))
            case "reasoning" | "redacted-reasoning":
                said.append(_reasoning(part))
            case "tool-invocation" | "tool-call" | "tool-result":
                call, kind = as_data(part.get("toolInvocation")) or part, part["type"]
                if kind != "tool-result":
                    arguments = call.get("args", call.get("input"))
                    said.append(
                        ToolCallPart(
                            id=str(call.get("toolCallId", "")), name=str(call.get("toolName", "")), arguments=arguments
                        )
                    )
                if kind == "tool-result" or call.get("state") in {"result", "output-available", "output-error"}:
                    results.append(_result(call))
            case "file" | "image" as kind:
                usual = "image/png" if kind == "image" else "application/octet-stream"
                media = str(part.get("mimeType") or part.get("mediaType") or usual)
                said.append(data_file(media, part.get("data") or part.get("url") or part.get("image")))
            case kind if kind != "step-start" and not _is_marker(part):
                said.append(UnknownPart(data=item))
            case _:
                pass
    return said, results


def _reasoning(part: Data) -> Part:
    details = [as_data(item) for item in as_list(part.get("details"))]
    text = str(part.get("reasoning") or part.get("text") or "") or plain_text([d for d in details if "text" in d])
    signature = part.get("signature") or next((d["signature"] for d in details if d.get("signature")), None)
    return ReasoningPart(text=text, signature=signature)


def _result(call: Data) -> Part:
    return ToolResultPart(
        call_id=str(call.get("toolCallId", "")),
        name=call.get("toolName"),
        content=call.get("result", call.get("output", call.get("errorText"))),
        is_error=bool(call.get("isError")) or call.get("state") == "output-error",
    )


_LONG = {12: 1, 13: 2, 14: 4, 15: 8}
_NULL, _TRUE, _FALSE = 0, 1, 2
_NUMBERS = frozenset({3, 4, 5, 6})
_RAW_TEXT = frozenset({7, 10})
_ESCAPED_TEXT = frozenset({8, 9})
_ARRAY, _OBJECT = 11, 12


def read_jsonb(blob: bytes) -> Any:
    """Parse the binary JSON of SQLite. Raise ValueError if it is malformed."""
    try:
        value, end = _jsonb_value(blob, 0)
    except (IndexError, RecursionError) as error:
        raise ValueError("the value is incomplete, or nested too deeply") from error
    if end != len(blob):
        raise ValueError("there are bytes after the value")
    return value


def _jsonb_value(blob: bytes, at: int) -> tuple[Any, int]:
    kind, length = blob[at] & 15, blob[at] >> 4
    at += 1
    if length in _LONG:
        size = _LONG[length]
        length, at = int.from_bytes(blob[at : at + size], "big"), at + size
    end = at + length
    if end > len(blob):
        raise ValueError("the value is incomplete")
    if kind in {_ARRAY, _OBJECT}:
        return _jsonb_items(blob, at, end, kind), end
    return _scalar(kind, blob[at:end].decode()), end


def _scalar(kind: int, text: str) -> Any:
    if kind in _RAW_TEXT:
        return text
    if kind in _ESCAPED_TEXT:
        return json.loads(f'"{text}"')
    if kind in _NUMBERS:
        return int(text, 0) if text.lower().lstrip("+-").startswith("0x") else json.loads(text)
    if kind in {_NULL, _TRUE, _FALSE}:
        return {_NULL: None, _TRUE: True, _FALSE: False}[kind]
    raise ValueError(f"unknown kind {kind}")


def _jsonb_items(blob: bytes, at: int, end: int, kind: int) -> Any:
    items: list[Any] = []
    while at < end:
        item, at = _jsonb_value(blob, at)
        items.append(item)
    return items if kind == _ARRAY else dict(zip(items[::2], items[1::2], strict=True))
