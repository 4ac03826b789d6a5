"""Our messages back into those of Pydantic AI.

What the adapter saved comes back exactly as it was; what came from elsewhere, or was shortened or mended, is said in the
library's plain words. Knows no conversation and no store.
"""

from collections.abc import Iterable
from copy import copy
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, Protocol, cast

from pydantic_ai.messages import ModelMessage, ModelMessagesTypeAdapter, ModelRequest

from memolog.adapters.pydantic_ai.parts import Json, marked
from memolog.domain.message import (
    FilePart,
    Part,
    ReasoningPart,
    Role,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    UnknownPart,
)
from memolog.domain.once import each_once

__all__ = ["to_model_messages"]

# Stands where no time is known; it is not sent to any model.
_NO_TIME: Final = datetime(1970, 1, 1, tzinfo=UTC)
_NO_TOOL: Final = "unknown"


class Said(Protocol):
    """A message as a context or the store has it."""

    @property
    def role(self) -> Role:
        """Return who speaks."""
        ...

    @property
    def parts(self) -> tuple[Part, ...]:
        """Return what is said."""
        ...

    @property
    def created_at(self) -> datetime | None:
        """Return when it was said, where that is known."""
        ...


def to_model_messages(messages: Iterable[Said]) -> list[ModelMessage]:
    """Return the library's messages for ours, in their order."""
    said = tuple(messages)
    # A context mends what was never answered, and need not name the tool.
    tools = {part.id: part.name for one in said for part in one.parts if isinstance(part, ToolCallPart)}
    made: list[ModelMessage] = []
    for one, known in zip(said, _each(said), strict=True):
        found = known if _names_its_tools(one) else _read(one, tools)
        if (
            found
            and _goes_on(one)
            and made
            and isinstance(made[-1], ModelRequest)
            and isinstance(found[0], ModelRequest)
        ):
            made[-1].parts = [*made[-1].parts, *found[0].parts]
            found = found[1:]
        # Those who are handed a message may write into it, as the line above does; the parts are never written into.
        made += map(copy, found)
    return made


def _names_its_tools(one: Said) -> bool:
    return all(part.name for part in one.parts if isinstance(part, ToolResultPart))


def _goes_on(one: Said) -> bool:
    """Tell whether a message belongs to the request before it: one request may hold several of ours."""
    return one.role != "assistant" and bool(one.parts) and "message" not in marked(one.parts[0])


def _read(one: Said, tools: dict[str, str]) -> tuple[ModelMessage, ...]:
    try:
        return tuple(ModelMessagesTypeAdapter.validate_python(_built(one, tools, exact=True)))
    except ValueError:
        # A release that cannot read what another one kept still gets every word of it.
        return tuple(ModelMessagesTypeAdapter.validate_python(_built(one, tools, exact=False)))


def _read_alone(one: Said) -> tuple[ModelMessage, ...]:
    return _read(one, {})


# Each step of a run looks at all of the tail, and hardly any of it is new.
_each: Final = each_once(_read_alone)


def _built(one: Said, tools: dict[str, str], *, exact: bool) -> list[Json]:
    """Return the message as the library reads it from JSON."""
    made: list[_Message] = []
    is_response = one.role == "assistant"
    for part in one.parts:
        kept = marked(part) if exact else {}
        if "message" in kept or not made:
            made.append(
                _Message(is_response=is_response, at=one.created_at or _NO_TIME, envelope=kept.get("message", {}))
            )
        if is_response:
            made[-1].parts += _response_part(part, kept)
        else:
            _add_to_request(made[-1], one, part, kept, tools)
    return [message.data() for message in made if message.parts or message.envelope]


@dataclass(slots=True)
class _Message:
    is_response: bool
    at: datetime
    envelope: Json
    parts: list[Json] = field(default_factory=list[Json])

    def data(self) -> Json:
        kind = "response" if self.is_response else "request"
        return {**(self.envelope or {"timestamp": self.at}), "kind": kind, "parts": self.parts}


# ---------------------------------------------------------------- responses


def _response_part(part: Part, kept: Json) -> list[Json]:
    rest: Json = kept.get("part", {})
    match part:
        case TextPart():
            return [{"part_kind": "text", **rest, "content": part.text}]
        case ReasoningPart():
            return [{"part_kind": "thinking", **rest, "content": part.text, "signature": part.signature}]
        case ToolCallPart():
            call = {"tool_name": part.name, "tool_call_id": part.id, "args": part.arguments}
            return [{"part_kind": "tool-call", **rest, **call}]
        case FilePart(data=bytes()):
            return [{"part_kind": "file", **rest, "content": _file(part, kept)}]
        case FilePart():
            return [{"part_kind": "text", "content": f"[{part.media_type}] {part.url or part.name or ''}".strip()}]
        case UnknownPart() if rest:
            return [cast("Json", part.data)]
        case UnknownPart() | ToolResultPart():
            # Of another library, or out of place: nothing that this one's models could be sent.
            return []


# ---------------------------------------------------------------- requests


def _add_to_request(message: _Message, one: Said, part: Part, kept: Json, tools: dict[str, str]) -> None:
    rest: Json = kept.get("part", {})
    kind = rest.get("part_kind")
    match part:
        case ToolResultPart() if kind == "retry-prompt":
            message.parts.append(rest)
        case ToolResultPart():
            message.parts.append(_tool_return(part, kept, one, tools))
        case UnknownPart() if "item" not in kept:
            # One of another library is nothing that this one's models could be sent.
            message.parts += [cast("Json", part.data)] if kind is not None else []
        case TextPart() if kind in {"retry-feedback", "retry-prompt"}:
            message.parts.append(rest)
        case TextPart() if kind == "system-prompt" or (not kept.keys() - {"message"} and one.role == "system"):
            prompt = {"part_kind": "system-prompt", "timestamp": one.created_at or _NO_TIME, **rest}
            message.parts.append({**prompt, "content": part.text})
        case _:
            _add_to_prompt(message, one, part, kept)


def _add_to_prompt(message: _Message, one: Said, part: Part, kept: Json) -> None:
    """Add what a user said: a new prompt, or a further piece of the one before it."""
    rest: Json = kept.get("part", {})
    if isinstance(part, TextPart) and "item" not in kept and ("part" in kept or len(one.parts) == 1):
        prompt = {"part_kind": "user-prompt", "timestamp": one.created_at or _NO_TIME, **rest, "content": part.text}
        message.parts.append(prompt)
        return
    item = _item(part, kept)
    last: Json | None = message.parts[-1] if message.parts else None
    is_first = "part" in kept or ("item" not in kept and part is one.parts[0])
    if is_first or last is None or not isinstance(last.get("content"), list) or last["part_kind"] != "user-prompt":
        last = {"part_kind": "user-prompt", "timestamp": one.created_at or _NO_TIME, **rest}
        last["content"] = list[Any]()
        message.parts.append(last)
    if item is not None:
        cast("list[Any]", last["content"]).append(item)


def _item(part: Part, kept: Json) -> str | Json | None:
    rest: Json = kept.get("item", {})
    match part:
        case TextPart():
            return {**rest, "content": part.text} if rest else part.text
        case FilePart():
            return _file(part, kept)
        case UnknownPart() if "item" in kept and part.data:
            return cast("Json", part.data)
        case _:
            return None


def _file(part: FilePart, kept: Json) -> Json:
    rest: Json = kept.get("item", {})
    if rest.get("kind") == "uploaded-file":
        return {**rest, "file_id": part.name}
    if part.data is not None:
        return {"kind": "binary", **rest, "data": part.data, "media_type": part.media_type}
    kinds = ("image", "audio", "video")
    kind = next((f"{name}-url" for name in kinds if part.media_type.startswith(f"{name}/")), "document-url")
    return {"kind": kind, "media_type": part.media_type, **rest, "url": part.url or ""}


def _tool_return(part: ToolResultPart, kept: Json, one: Said, tools: dict[str, str]) -> Json:
    rest: Json = kept.get("part", {})
    plain: Json = {"part_kind": "tool-return", "timestamp": one.created_at or _NO_TIME}
    if part.is_error:
        plain["outcome"] = "failed"
    name = part.name or tools.get(part.call_id, _NO_TOOL)
    return {**plain, **rest, "tool_name": name, "tool_call_id": part.call_id, "content": _with_files(part, kept)}


def _with_files(part: ToolResultPart, kept: Json) -> Any:
    """Return what a tool returned, with its files back in their places."""
    files = [_file(file, marked(file) if kept else {}) for file in part.files]
    places = cast("list[int]", kept.get("files", []))
    if places == [-1] and len(files) == 1:
        return files[0]
    if not files:
        return part.content
    items = list(cast("list[Any]", part.content)) if isinstance(part.content, list) else [part.content]
    if len(places) != len(files):
        return [*items, *files]
    for place, file in zip(places, files, strict=True):
        items.insert(place, file)
    return items
