"""Agent Framework's messages and ours, both ways, exactly.

Knows the kinds of content that have a part of ours; every other kind is kept whole. What our parts cannot say (identifiers,
properties, annotations) goes along in the `extra` of the parts and comes back from there. Knows no agent and no store.
"""

import base64
import binascii
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final, cast

from agent_framework import Message, UsageDetails

from memolog.adapters.roundtrip import Said, filled, holding, value_at
from memolog.domain.codec import check_json, dumps
from memolog.domain.errors import NotJson
from memolog.domain.message import (
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
from memolog.domain.run import Usage

__all__ = ["CONTROLS", "from_agent_framework", "said_in", "to_agent_framework", "usage_of"]

_KEY: Final = "agent_framework"
_ROLES: Final[dict[str, Role]] = {
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
    "system": "system",
    "developer": "system",
}
CONTROLS: Final = frozenset({"function_approval_request", "function_approval_response", "oauth_consent_request"})
"""Contents by which a person steers a run; nobody says them to the model."""
_SAID: Final = ("role", "contents", "author_name")


# ---------------------------------------------------------------- from Agent Framework


def from_agent_framework(message: Message) -> NewMessage:
    """Return a message of Agent Framework as ours."""
    dump = _plain(message.to_dict())
    contents = [_plain(one) for one in cast("list[Json]", dump.get("contents") or [])]
    dump["contents"] = contents
    parts = [_part(content, f"{message.message_id or ''}:{n}") for n, content in enumerate(contents)]
    head: Json = {name: value for name, value in dump.items() if name not in _SAID}
    role = _ROLES.get(message.role, "user")
    if role != message.role:
        head["role"] = message.role
    if not parts:
        head["silent"] = True
    first = parts[0] if parts else TextPart(text="")
    made = NewMessage(
        role=role,
        parts=(_with_carried(first, message=head), *parts[1:]),
        id=message.message_id if role == "user" else None,
        speaker=message.author_name,
    )
    if _dumped(made) == dump:
        return made
    return replace(made, parts=(_with_carried(first, message={**head, "whole": dump}), *made.parts[1:]))


def said_in(message: Message) -> NewMessage | None:
    """Return what is to be saved of a message: all but what steers a run; None where nothing is left."""
    if any(content.type in CONTROLS for content in message.contents):
        kept = [content for content in message.contents if content.type not in CONTROLS]
        message = Message(
            message.role,
            kept,
            author_name=message.author_name,
            message_id=message.message_id,
            additional_properties=dict(message.additional_properties),
        )
    return from_agent_framework(message) if message.contents else None


def _carried(part: Part) -> Json:
    found = (part.extra or {}).get(_KEY)
    return cast("Json", found) if isinstance(found, dict) else {}


def _with_carried(part: Part, **more: Any) -> Part:
    return replace(part, extra={**(part.extra or {}), _KEY: {**_carried(part), **more}})


def _dumped(message: NewMessage) -> Json:
    back = to_agent_framework(message).to_dict()
    return {**_plain(back), "contents": [_plain(one) for one in cast("list[Json]", back.get("contents") or [])]}


def _plain(dump: Json) -> Json:
    """Return the fields that are JSON; what is none was never sent to a model."""
    return {name: value for name, value in dump.items() if name == "contents" or _is_json(value)}


def _is_json(value: object) -> bool:
    try:
        dumps(value)
        check_json("A field", value)
    except (NotJson, TypeError, ValueError, RecursionError):
        return False
    return True


def _part(content: Json, unnamed: str) -> Part:
    match content.get("type"):
        case "text" if isinstance(content.get("text"), str):
            return TextPart(text=content["text"], extra=_extra(content, text=("text",)))
        case "text_reasoning":
            return _reasoning(content)
        case "data" | "uri":
            return _file(content) or UnknownPart(data=content)
        case "function_call":
            # Some providers give a call no id.
            id_ = content.get("call_id") or unnamed
            holes: Any = {"id": ("call_id",)} if content.get("call_id") else {}
            if "arguments" in content:
                holes["arguments"] = ("arguments",)
            name = content.get("name") or ""
            return ToolCallPart(id=id_, name=name, arguments=content.get("arguments"), extra=_extra(content, **holes))
        case "function_result" if isinstance(content.get("call_id"), str):
            return _result(content)
        case _:
            return UnknownPart(data=content)


def _extra(content: Json, /, **holes: Any) -> Json | None:
    plain: Json = {"type": "text", "text": content.get("text"), "additional_properties": {}}
    return None if content == plain else {_KEY: holding(content, **holes)}


def _reasoning(content: Json) -> Part:
    text, hidden = content.get("text"), content.get("protected_data")
    holes: Any = {}
    if isinstance(text, str):
        holes["text"] = ("text",)
    if isinstance(hidden, str):
        holes["encrypted"] = ("protected_data",)
    return ReasoningPart(
        text=text if isinstance(text, str) else "",
        encrypted=hidden if isinstance(hidden, str) else None,
        extra=_extra(content, **holes),
    )


def _file(content: Json) -> FilePart | None:
    uri, media = content.get("uri"), content.get("media_type")
    if not isinstance(uri, str):
        return None
    name = value_at(content, ("additional_properties", "filename"))
    name = name if isinstance(name, str) else None
    media = media if isinstance(media, str) else "application/octet-stream"
    if not uri.startswith("data:"):
        return FilePart(media_type=media, url=uri, name=name, extra=_extra(content, url=("uri",)))
    head, _, body = uri.rpartition(",")
    try:
        data = base64.b64decode(body, validate=True)
    except (binascii.Error, ValueError):
        return None
    if base64.b64encode(data).decode() != body:
        return None
    extra = holding(content, data=("uri",))
    return FilePart(media_type=media, data=data, name=name, extra={_KEY: {**extra, "head": f"{head},"}})


def _result(content: Json) -> Part:
    """Return a result. The data of a picture in it counts as a picture, and not as text that nobody can read."""
    files: list[FilePart] = []
    items: list[Any] = []
    for item in cast("list[Json]", content.get("items") or []):
        file = _file(item) if item.get("type") == "data" else None
        items.append(item if file is None else {"file": len(files)})
        if file is not None:
            files.append(file)
    holes: Any = {"call_id": ("call_id",)}
    if "result" in content:
        holes["content"] = ("result",)
    hollow = {**content, "items": items} if "items" in content else content
    return ToolResultPart(
        call_id=content["call_id"],
        content=content.get("result"),
        name=content.get("name"),
        is_error=content.get("exception") is not None,
        files=tuple(files),
        extra=_extra(hollow, **holes),
    )


# ---------------------------------------------------------------- to Agent Framework


def to_agent_framework(message: Said) -> Message:
    """Return the message of Agent Framework that says what ours says."""
    head = _head(message.parts)
    whole = head.pop("whole", None)
    if whole is not None:
        return Message.from_dict(whole)
    is_silent = head.pop("silent", False)
    contents = [] if is_silent else [made for part in message.parts if (made := _content(part)) is not None]
    dump: Json = {"role": message.role, **head, "contents": contents}
    if message.speaker is not None:
        dump["author_name"] = message.speaker
    return Message.from_dict(dump)


def _head(parts: Sequence[Part]) -> Json:
    found = _carried(parts[0]).get("message") if parts else None
    return dict(cast("Json", found)) if isinstance(found, dict) else {}


def _content(part: Part) -> Json | None:
    kept = _carried(part)
    if "block" in kept:
        made = filled(part, kept)
        if isinstance(part, ToolResultPart) and "items" in made:
            made["items"] = [_item(item, part.files) for item in made["items"]]
        return made
    match part:
        case TextPart():
            return {"type": "text", "text": part.text}
        case FilePart(data=bytes() as data):
            uri = f"data:{part.media_type};base64,{base64.b64encode(data).decode()}"
            return {"type": "data", "uri": uri, "media_type": part.media_type}
        case FilePart():
            return {"type": "uri", "uri": part.url or "", "media_type": part.media_type}
        case ToolCallPart():
            is_known = isinstance(part.arguments, str | dict)
            arguments = cast("Any", part.arguments if is_known else dumps(part.arguments or {}))
            return {"type": "function_call", "call_id": part.id, "name": part.name, "arguments": arguments}
        case ToolResultPart():
            return _standard_result(part)
        case UnknownPart():
            # Ours are objects with a kind that the library knows; another library's mean nothing to it.
            data: Any = part.data
            return cast("Json", data) if _KEY in (part.extra or {}) or _is_content(data) else None
        case ReasoningPart():
            # Thoughts are signed for the model that had them, and another library's are in no form that it takes back.
            return None


def _is_content(data: Any) -> bool:
    return isinstance(data, dict) and isinstance(cast("Json", data).get("type"), str)


def _standard_result(part: ToolResultPart) -> Json:
    result = part.content if isinstance(part.content, str) else dumps(part.content)
    made: Json = {"type": "function_result", "call_id": part.call_id, "result": result}
    if part.files:
        made["items"] = [{"type": "text", "text": result}, *filter(None, map(_content, part.files))]
    # The library tells a failure by an exception's text.
    return {**made, "exception": result or "failed"} if part.is_error else made


def _item(item: Json, files: Sequence[FilePart]) -> Json | None:
    number = item.get("file")
    return _content(files[number]) if isinstance(number, int) else item


# ---------------------------------------------------------------- usage


def usage_of(details: UsageDetails | None, model: str | None) -> Usage | None:
    """Return what a request cost, as the library reports it: its input counts what the cache held, ours does not."""
    if not details:
        return None
    read = details.get("cache_read_input_token_count") or 0
    written = details.get("cache_creation_input_token_count") or 0
    return Usage(
        model=model or "unknown",
        input_tokens=max((details.get("input_token_count") or 0) - read - written, 0),
        output_tokens=details.get("output_token_count") or 0,
        cache_read_tokens=read,
        cache_write_tokens=written,
    )
