"""Messages of Pydantic AI, to and from Memolog messages, without loss.

One request of the library may hold parts of several speakers. Each speaker becomes one Memolog message, with an id derived from
its content.
"""

import base64
import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Final, cast

from pydantic_ai.messages import ModelMessage, ModelMessagesTypeAdapter, ModelRequest, ModelRequestPart, ModelResponse

from memolog.adapters.roundtrip import Json, Said, notes, usage_of_total
from memolog.core.cache import each_once
from memolog.core.exact_json import JsonObject, dumps
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
from memolog.core.run import Usage

KEY: Final = "pydantic_ai"
"""The key of `extra` that is Pydantic AI's: `message`, `part` and `item` hold the fields that our parts have no place for."""


_NO_TYPE: Final = "application/octet-stream"
_URLS: Final = frozenset({"image-url", "audio-url", "document-url", "video-url"})
_FILES: Final = _URLS | {"binary", "uploaded-file"}
_TEXTS: Final = frozenset({"text-content", "structured-content"})
_GOOD: Final = "success"
# Said by the application: the observer must not take it for the user's words.
_FEEDBACK: Final = frozenset({"retry-feedback", "retry-prompt"})
_SAID: Final = {
    "text": ("content",),
    "thinking": ("content", "signature"),
    "tool-call": ("tool_call_id", "tool_name", "args"),
}


def mark(**kept: object) -> JsonObject | None:
    """Return the `extra` of a part with these notes; None if there are none."""
    told = {name: value for name, value in kept.items() if value is not None}
    return {KEY: told} if told else None


def request_role(part: Mapping[str, Any]) -> Role:
    """Return the role of a part of a request."""
    match part.get("part_kind"):
        case "user-prompt" | "speech":
            return "user"
        case "tool-return":
            return "tool"
        case "retry-prompt" if part.get("tool_name"):
            return "tool"
        case _:
            return "system"


# ---------------------------------------------------------------- requests


def to_request_parts(part: Json, text: str) -> tuple[Part, ...]:
    """Return the Memolog parts for a part of a request; `text` is the form in which the library sends feedback."""
    kind = part.get("part_kind")
    if kind == "user-prompt":
        return tuple(_prompt(part))
    if kind == "system-prompt":
        return (TextPart(text=part["content"], extra=mark(part=_left(part, "content"))),)
    if kind == "tool-return":
        return (_read_return(part),)
    if kind in _FEEDBACK and part.get("tool_name"):
        result = ToolResultPart(
            call_id=part["tool_call_id"], content=text, name=part["tool_name"], is_error=True, extra=mark(part=part)
        )
        return (result,)
    if kind in _FEEDBACK:
        return (TextPart(text=text, extra=mark(part=part)),)
    return (_unknown(part),)


def _prompt(part: Json) -> Iterator[Part]:
    content, rest = part["content"], _left(part, "content")
    if isinstance(content, str):
        yield TextPart(text=content, extra=mark(part=rest))
        return
    items = cast("list[str | Json]", content)
    if not items:
        yield UnknownPart(data=[], extra=mark(part=rest, item={}))
    for number, item in enumerate(items):
        yield _read_item(item, rest if number == 0 else None)


def _read_item(item: str | Json, part: Json | None) -> Part:
    """Return one item of a prompt; only the first item has the fields of the prompt."""
    if isinstance(item, str):
        return TextPart(text=item, extra=mark(part=part, item={}))
    kind = item.get("kind")
    if kind in _TEXTS:
        return TextPart(text=item["content"], extra=mark(part=part, item=_rest(item, "content")))
    if kind in _FILES:
        return _read_file(item, part)
    return UnknownPart(data=item, extra=mark(part=part, item={}))


def _read_file(item: Json, part: Json | None = None) -> FilePart:
    kind, media_type = item["kind"], item.get("media_type") or _NO_TYPE
    if kind == "binary":
        rest = _rest(item, "data", "media_type")
        return FilePart(media_type=media_type, data=_bytes(item["data"]), extra=mark(part=part, item=rest))
    if kind in _URLS:
        return FilePart(media_type=media_type, url=item["url"], extra=mark(part=part, item=_rest(item, "url")))
    return FilePart(media_type=media_type, name=item["file_id"], extra=mark(part=part, item=_rest(item, "file_id")))


def _read_return(part: Json) -> ToolResultPart:
    content, files, places = _without_files(part.get("content"))
    rest = _left(part, "content", "tool_call_id", "tool_name")
    return ToolResultPart(
        call_id=part["tool_call_id"],
        content=content,
        name=part["tool_name"],
        is_error=part.get("outcome", _GOOD) != _GOOD,
        files=files,
        extra=mark(part=rest, files=places or None),
    )


def _without_files(content: object) -> tuple[object, tuple[FilePart, ...], list[int]]:
    """Return a tool's content without files, the files, and their places; the place is -1 if the content is one file."""
    if _is_file(content):
        return None, (_read_file(cast("Json", content)),), [-1]
    if not isinstance(content, list):
        return content, (), []
    items = cast("list[object]", content)
    places = [number for number, item in enumerate(items) if _is_file(item)]
    files = tuple(_read_file(cast("Json", items[number])) for number in places)
    return [item for item in items if not _is_file(item)], files, places


def _is_file(value: object) -> bool:
    if not isinstance(value, dict):
        return False
    item = cast("Json", value)
    needed = {"binary": "data", "uploaded-file": "file_id"}.get(str(item.get("kind")), "url")
    return item.get("kind") in _FILES and isinstance(item.get(needed), str)


# ---------------------------------------------------------------- responses


def to_response_part(part: Json) -> Part:
    """Return the Memolog part for a part of a response."""
    kind = str(part.get("part_kind"))
    said = _SAID.get(kind)
    if said is None:
        content = part.get("content")
        if kind == "file" and _is_file(content):
            file = _read_file(cast("Json", content))
            return FilePart(
                media_type=file.media_type,
                data=file.data,
                extra=mark(part=_left(part, "content"), item=notes(file, KEY)["item"]),
            )
        return _unknown(part)
    rest = _left(part, *said)
    extra = None if rest == {"part_kind": kind} else mark(part=rest)
    if kind == "text":
        return TextPart(text=part["content"], extra=extra)
    if kind == "thinking":
        return ReasoningPart(text=part["content"], signature=part.get("signature"), extra=extra)
    return ToolCallPart(id=part["tool_call_id"], name=part["tool_name"], arguments=part.get("args"), extra=extra)


# ---------------------------------------------------------------- both


def _unknown(part: Json) -> UnknownPart:
    return UnknownPart(data=part, extra=mark(part={"part_kind": part.get("part_kind")}))


def _left(data: Mapping[str, Any], *said: str) -> Json:
    """Return the other fields of a part, without those that are None, which is their default."""
    return {name: value for name, value in data.items() if name not in said and value is not None}


def _rest(item: Mapping[str, Any], *said: str) -> Json:
    """Return the other fields of an item."""
    return {name: value for name, value in item.items() if name not in said}


def _bytes(text: Any) -> bytes:
    return text if isinstance(text, bytes) else base64.urlsafe_b64decode(text)


_ID_CHARACTERS: Final = 24
_LONGEST_RUN: Final = 64


def dumped(message: ModelMessage) -> Json:
    """Return a message as the library writes it to JSON."""
    return cast("list[Json]", ModelMessagesTypeAdapter.dump_python([message], mode="json"))[0]


def to_messages(message: ModelMessage, *, after: int = 0, again: int = 0) -> tuple[NewMessage, ...]:
    """Return the Memolog messages for a message of the library, from its part number `after` on.

    Their ids are derived from content and run, so that saving them again changes nothing; `again` distinguishes equal messages
    of one run.
    """
    data = dumped(message)
    parts = cast("list[Json]", data.pop("parts"))
    envelope = {name: value for name, value in data.items() if value is not None}
    if isinstance(message, ModelResponse):
        groups: list[tuple[Role, list[Part]]] = [("assistant", [to_response_part(part) for part in parts[after:]])]
    else:
        groups = _by_role(parts[after:], message.parts[after:])
    if after == 0:
        groups = _enveloped(groups, envelope, "assistant" if isinstance(message, ModelResponse) else "user")
    where = _where(message, data, parts)
    said_at = _said_at(message)
    return tuple(
        NewMessage(role=role, parts=tuple(ours), id=_id(where, after, number, again), created_at=said_at)
        for number, (role, ours) in enumerate(groups)
        if ours
    )


def _by_role(parts: Sequence[Json], objects: Sequence[ModelRequestPart]) -> list[tuple[Role, list[Part]]]:
    groups: list[tuple[Role, list[Part]]] = []
    for part, said in zip(parts, objects, strict=True):
        role = request_role(part)
        if not groups or groups[-1][0] != role:
            groups.append((role, []))
        groups[-1][1].extend(to_request_parts(part, _shown(said)))
    return groups


def _shown(part: object) -> str:
    """Return the text that the library sends to the model for feedback."""
    tell: Any = getattr(part, "model_response", None)
    return str(tell()) if callable(tell) else ""


def _enveloped(groups: list[tuple[Role, list[Part]]], envelope: Json, role: Role) -> list[tuple[Role, list[Part]]]:
    """Return the groups, with the fields of the whole message noted at the first part."""
    if not groups or not groups[0][1]:
        return [(role, [UnknownPart(data={}, extra=mark(message=envelope))])]
    first = groups[0][1][0]
    extra = {**(first.extra or {}), KEY: {**notes(first, KEY), "message": envelope}}
    groups[0][1][0] = replace(first, extra=extra)
    return groups


def _said_at(message: ModelMessage) -> datetime | None:
    """Return the time of a message."""
    if isinstance(message, ModelResponse):
        return message.timestamp
    times = (getattr(part, "timestamp", None) for part in message.parts)
    return next((time for time in times if isinstance(time, datetime)), message.timestamp)


def _where(message: ModelMessage, data: Json, parts: Sequence[Json]) -> str:
    """Return the run and a digest of the content. Without the time of a request, which changes when it is sent again."""
    run, at = message.run_id or "", data["timestamp"] if isinstance(message, ModelResponse) else None
    digest = hashlib.sha256(dumps([run, at, list(parts)]).encode()).hexdigest()[:_ID_CHARACTERS]
    # A run id of the caller that is too long or not printable is only in the digest.
    return f"{run}:{digest}" if run.isprintable() and 0 < len(run) <= _LONGEST_RUN else digest


def _id(where: str, after: int, number: int, again: int) -> str:
    tail = "".join(f"{mark_}{count}" for mark_, count in (("+", after), (".", number), ("~", again)) if count)
    return f"{where}{tail}"


def usage_of(response: ModelResponse, model: str) -> Usage:
    """Return the usage of a response."""
    told = response.usage
    read, written = told.cache_read_tokens, told.cache_write_tokens
    return usage_of_total(model, told.input_tokens, told.output_tokens, read, written, cost=_cost(response))


def _cost(response: ModelResponse) -> float:
    """Return the price of a response in dollars; zero if the price of the model is unknown."""
    if response.usage.cost is not None:
        return float(response.usage.cost)
    try:
        return float(response.cost().total_price)
    except (AssertionError, LookupError, ValueError):
        return 0.0


# A required field; no model gets it.
_NO_TIME: Final = datetime(1970, 1, 1, tzinfo=UTC)
_NO_TOOL: Final = "unknown"


def to_model_messages(messages: Iterable[Said]) -> list[ModelMessage]:
    """Return Memolog messages as messages of the library."""
    said = tuple(messages)
    # A result that the context adds for an unanswered call may not name the tool.
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
        # Copies, because callers may change a message; parts are never changed.
        made += map(copy, found)
    return made


def _names_its_tools(one: Said) -> bool:
    return all(part.name for part in one.parts if isinstance(part, ToolResultPart))


def _goes_on(one: Said) -> bool:
    """Tell whether a message belongs to the request of the message before it."""
    return one.role != "assistant" and bool(one.parts) and "message" not in notes(one.parts[0], KEY)


def _read(one: Said, tools: dict[str, str]) -> tuple[ModelMessage, ...]:
    try:
        return tuple(ModelMessagesTypeAdapter.validate_python(_built(one, tools, exact=True)))
    except ValueError:
        # A release of the library that cannot read the notes of another one still gets the content.
        return tuple(ModelMessagesTypeAdapter.validate_python(_built(one, tools, exact=False)))


def _read_alone(one: Said) -> tuple[ModelMessage, ...]:
    return _read(one, {})


# Each step of a run converts the whole tail, and most of it is the same.
_each: Final = each_once(_read_alone)


def _built(one: Said, tools: dict[str, str], *, exact: bool) -> list[Json]:
    """Return a message as JSON that the library reads."""
    made: list[_Message] = []
    is_response = one.role == "assistant"
    for part in one.parts:
        kept = notes(part, KEY) if exact else {}
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
            # Of another library, or in the wrong place: it has no form in this one.
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
            # An unknown part of another library has no form in this one.
            message.parts += [cast("Json", part.data)] if kind is not None else []
        case TextPart() if kind in {"retry-feedback", "retry-prompt"}:
            message.parts.append(rest)
        case TextPart() if kind == "system-prompt" or (not kept.keys() - {"message"} and one.role == "system"):
            prompt = {"part_kind": "system-prompt", "timestamp": one.created_at or _NO_TIME, **rest}
            message.parts.append({**prompt, "content": part.text})
        case _:
            _add_to_prompt(message, one, part, kept)


def _add_to_prompt(message: _Message, one: Said, part: Part, kept: Json) -> None:
    """Add a part of a user's prompt: a new prompt, or an item of the one before."""
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
    """Return a tool's content with the files in their places."""
    files = [_file(file, notes(file, KEY) if kept else {}) for file in part.files]
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
