"""Messages of Pydantic AI, to and from Memolog messages, without loss.

A request of Pydantic AI may contain parts of several roles. Consecutive parts of one role become one Memolog message, with an id
derived from the content of the request.
"""

import hashlib
from collections.abc import Iterable, Sequence
from copy import copy
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, cast

from pydantic_ai.messages import ModelMessage, ModelMessagesTypeAdapter, ModelRequest, ModelRequestPart, ModelResponse

from memolog.adapters.new_messages import Said
from memolog.adapters.provider_limits import usage_of_total
from memolog.core.cache import each_once
from memolog.core.exact_json import dumps
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
from memolog.transfer.exact import Json, noted, notes
from memolog.transfer.frameworks import PYDANTIC_AI, mark, request_role, to_request_parts, to_response_part

_ID_CHARACTERS: Final = 24
_MAX_RUN_ID: Final = 64


def dumped(message: ModelMessage) -> Json:
    """Return a message as the JSON that Pydantic AI writes."""
    return cast("list[Json]", ModelMessagesTypeAdapter.dump_python([message], mode="json"))[0]


def to_messages(message: ModelMessage, *, after: int = 0, again: int = 0) -> tuple[NewMessage, ...]:
    """Return the Memolog messages for a message of Pydantic AI, from part number `after` on.

    The ids are derived from the content and the agent run, so that saving a message again changes nothing. `again` distinguishes
    equal messages of one agent run.
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
    where = _id_base(message, data, parts)
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
    """Return the text that Pydantic AI sends to the model for a retry; empty for other parts."""
    render: Any = getattr(part, "model_response", None)
    return str(render()) if callable(render) else ""


def _enveloped(groups: list[tuple[Role, list[Part]]], envelope: Json, role: Role) -> list[tuple[Role, list[Part]]]:
    """Return the groups. A note at the first part stores the fields of the whole message."""
    if not groups or not groups[0][1]:
        return [(role, [UnknownPart(data={}, extra=mark(message=envelope))])]
    groups[0][1][0] = noted(groups[0][1][0], PYDANTIC_AI, message=envelope)
    return groups


def _said_at(message: ModelMessage) -> datetime | None:
    if isinstance(message, ModelResponse):
        return message.timestamp
    times = (getattr(part, "timestamp", None) for part in message.parts)
    return next((time for time in times if isinstance(time, datetime)), message.timestamp)


def _id_base(message: ModelMessage, data: Json, parts: Sequence[Json]) -> str:
    """Return the run id and a digest of the content. The digest leaves out the time of a request, which a retry changes."""
    run, at = message.run_id or "", data["timestamp"] if isinstance(message, ModelResponse) else None
    digest = hashlib.sha256(dumps([run, at, list(parts)]).encode()).hexdigest()[:_ID_CHARACTERS]
    # A run id that is too long or not printable is used only for the digest.
    return f"{run}:{digest}" if run.isprintable() and 0 < len(run) <= _MAX_RUN_ID else digest


def _id(where: str, after: int, number: int, again: int) -> str:
    tail = "".join(f"{mark_}{count}" for mark_, count in (("+", after), (".", number), ("~", again)) if count)
    return f"{where}{tail}"


def usage_of(response: ModelResponse, model: str) -> Usage:
    """Return the usage of a response."""
    counts = response.usage
    read, written = counts.cache_read_tokens, counts.cache_write_tokens
    return usage_of_total(model, counts.input_tokens, counts.output_tokens, read, written, cost=_cost(response))


def _cost(response: ModelResponse) -> float:
    """Return the price of a response in dollars; 0 if the price is unknown."""
    if response.usage.cost is not None:
        return float(response.usage.cost)
    try:
        return float(response.cost().total_price)
    except (AssertionError, LookupError, ValueError):
        return 0.0


# The time is a required field, but it is not sent to the model.
_NO_TIME: Final = datetime(1970, 1, 1, tzinfo=UTC)
_NO_TOOL: Final = "unknown"


def to_model_messages(messages: Iterable[Said]) -> list[ModelMessage]:
    """Return Memolog messages as messages of Pydantic AI."""
    said = tuple(messages)
    # The context adds results to unanswered calls. Such a result may have no tool name, so the names are read from the calls.
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
        # The messages are copied, because callers may change them. Parts are never changed.
        made += map(copy, found)
    return made


def _names_its_tools(one: Said) -> bool:
    return all(part.name for part in one.parts if isinstance(part, ToolResultPart))


def _goes_on(one: Said) -> bool:
    """Return whether a message belongs to the same request as the message before it."""
    return one.role != "assistant" and bool(one.parts) and "message" not in notes(one.parts[0], PYDANTIC_AI)


def _read(one: Said, tools: dict[str, str]) -> tuple[ModelMessage, ...]:
    try:
        return tuple(ModelMessagesTypeAdapter.validate_python(_built(one, tools, exact=True)))
    except ValueError:
        # This release of Pydantic AI cannot read notes that another release wrote, so only the content is used.
        return tuple(ModelMessagesTypeAdapter.validate_python(_built(one, tools, exact=False)))


def _read_alone(one: Said) -> tuple[ModelMessage, ...]:
    return _read(one, {})


# The number of tokens of a message is not known here. It only limits the size of the cache.
_SUPPOSED_TOKENS: Final = 500
# Each step of an agent run converts the whole tail, so results for the same messages are cached.
_each: Final = each_once(_read_alone, lambda _: _SUPPOSED_TOKENS)


def _built(one: Said, tools: dict[str, str], *, exact: bool) -> list[Json]:
    """Return a message as JSON that Pydantic AI reads."""
    made: list[_Message] = []
    is_response = one.role == "assistant"
    for part in one.parts:
        kept = notes(part, PYDANTIC_AI) if exact else {}
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
            # Pydantic AI has no response part for unknown parts of other frameworks and for tool results.
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
            # Pydantic AI has no request part for unknown parts of other frameworks.
            message.parts += [cast("Json", part.data)] if kind is not None else []
        case TextPart() if kind in {"retry-feedback", "retry-prompt"}:
            message.parts.append(rest)
        case TextPart() if kind == "system-prompt" or (not kept.keys() - {"message"} and one.role == "system"):
            prompt = {"part_kind": "system-prompt", "timestamp": one.created_at or _NO_TIME, **rest}
            message.parts.append({**prompt, "content": part.text})
        case _:
            _add_to_prompt(message, one, part, kept)


def _add_to_prompt(message: _Message, one: Said, part: Part, kept: Json) -> None:
    """Add a part as a new user prompt, or as an item of the user prompt before it."""
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
    """Return the content of a tool result, with the files at their positions."""
    files = [_file(file, notes(file, PYDANTIC_AI) if kept else {}) for file in part.files]
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
