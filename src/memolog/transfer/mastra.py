"""What Mastra keeps: messages in its two formats, metadata, and the text of its observations.

Knows the contents of its columns. Knows neither its tables nor where our log puts what is read here.
"""

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, cast

from memolog.domain.message import (
    NewMessage,
    Part,
    ReasoningPart,
    Role,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    UnknownPart,
)
from memolog.transfer.jsonb import read_jsonb
from memolog.transfer.values import Data, as_data, as_list, data_file, message, moment, plain_text

__all__ = ["at_of", "metadata_of", "read_messages", "sections"]

_SECTION = re.compile(r'<thread id="([^"]*)">\n?(.*?)\n?</thread>', re.DOTALL)
_ROLES: dict[str, Role] = {
    "user": "user",
    "assistant": "assistant",
    "system": "system",
    "tool": "tool",
    "signal": "system",
}


def metadata_of(value: object) -> Data:
    """Return an object that is stored as text, in binary, or as the driver reads it."""
    if isinstance(value, bytes):
        try:
            return as_data(read_jsonb(value))
        except ValueError:
            return {}
    return as_data(_json(value)) if isinstance(value, str) else as_data(value)


def at_of(value: object) -> datetime | None:
    """Return a moment, from a text or from what a driver makes of it."""
    if isinstance(value, datetime):
        return value if value.tzinfo else value.replace(tzinfo=UTC)
    return moment(value)


def sections(text: str) -> list[tuple[str | None, str]]:
    """Return the observations by thread, where the text says so; all of it without one, where it does not."""
    found = [(name, body) for name, body in _SECTION.findall(text)]
    rest = _SECTION.sub("", text).strip()
    return [*([(None, rest)] if rest else []), *found]


def read_messages(row: Mapping[str, Any]) -> tuple[NewMessage, ...]:
    """Return the messages of one row: results that stand with their calls become a message of the tools."""
    content: Any = row["content"]
    content = _json(content) if isinstance(content, str) else content
    if isinstance(content, dict) and as_data(content).get("format") in {2, 3}:
        said, results = _v2(as_data(content))
    else:
        said, results = _v1(content)
    role = _ROLES.get(str(row["role"]), "user")
    at, name = at_of(row["created_at"]), str(row["id"])
    made: list[NewMessage] = []
    if said:
        made.append(message(role, said, id=name, at=at))
    if results:
        made.append(message("tool", results, id=f"{name}-results" if said else name, at=at))
    return tuple(made)


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _v2(content: Data) -> tuple[list[Part], list[Part]]:
    said: list[Part] = []
    results: list[Part] = []
    for item in as_list(content.get("parts")):
        part = as_data(item)
        match part.get("type"):
            case "text":
                said.append(TextPart(text=str(part.get("text", ""))))
            case "reasoning":
                said.append(_reasoning(part))
            case "tool-invocation":
                call = as_data(part.get("toolInvocation"))
                said.append(_call(call))
                if call.get("state") in {"result", "output-available", "output-error"}:
                    results.append(_result(call))
            case "file":
                media = str(part.get("mimeType") or part.get("mediaType") or "application/octet-stream")
                said.append(data_file(media, part.get("data") or part.get("url")))
            case "step-start":
                pass
            case _:
                said.append(UnknownPart(data=dict(part)))
    if not said and content.get("content"):
        said.append(TextPart(text=plain_text(content["content"])))
    return said, results


def _v1(content: Any) -> tuple[list[Part], list[Part]]:
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
                said.append(ReasoningPart(text=str(part.get("text", "")), signature=part.get("signature")))
            case "tool-call":
                said.append(_call(part))
            case "tool-result":
                results.append(_result(part))
            case "file" | "image":
                said.append(data_file(str(part.get("mimeType", "image/png")), part.get("data") or part.get("image")))
            case _:
                said.append(UnknownPart(data=item))
    return said, results


def _reasoning(part: Data) -> Part:
    details = [as_data(item) for item in as_list(part.get("details"))]
    text = str(part.get("reasoning") or part.get("text") or "") or plain_text([d for d in details if "text" in d])
    signature = next((d["signature"] for d in details if d.get("signature")), None)
    return ReasoningPart(text=text, signature=signature)


def _call(call: Data) -> Part:
    return ToolCallPart(
        id=str(call.get("toolCallId", "")),
        name=str(call.get("toolName", "")),
        arguments=call.get("args", call.get("input")),
    )


def _result(call: Data) -> Part:
    return ToolResultPart(
        call_id=str(call.get("toolCallId", "")),
        name=call.get("toolName"),
        content=call.get("result", call.get("output", call.get("errorText"))),
        is_error=bool(call.get("isError")) or call.get("state") == "output-error",
    )
