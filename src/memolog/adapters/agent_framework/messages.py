"""Messages of Microsoft Agent Framework, to and from Memolog messages, without loss.

Fields that Memolog's parts do not have are stored in the `extra` of the parts. If a message could still not be rebuilt exactly,
the whole message is also stored in `extra`.
"""

import base64
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final, cast

from agent_framework import Message, UsageDetails

from memolog.adapters.new_messages import Said
from memolog.adapters.provider_limits import usage_of_total
from memolog.core.exact_json import dumps
from memolog.core.message import (
    FilePart,
    NewMessage,
    Part,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    UnknownPart,
)
from memolog.core.run import Usage
from memolog.transfer.exact import (
    Json,
    Path,
    decoded,
    json_fields,
    kept,
    message_note,
    note,
    notes,
    rebuilt,
    text_at,
    with_message_note,
)
from memolog.transfer.messages import openai_role

__all__ = ["CONTROLS", "from_agent_framework", "said_in", "to_agent_framework", "usage_of"]

_KEY: Final = "agent_framework"
CONTROLS: Final = frozenset({"function_approval_request", "function_approval_response", "oauth_consent_request"})
"""The types of contents that control an agent run. They are not saved and not sent to the model."""
_SAID: Final = ("role", "contents", "author_name")


# ---------------------------------------------------------------- from Agent Framework


def from_agent_framework(message: Message) -> NewMessage:
    """Return an Agent Framework message as a Memolog message."""
    dump = _dumped(message)
    parts = [_part(content, f"{message.message_id or ''}:{n}") for n, content in enumerate(dump["contents"])]
    head: Json = {name: value for name, value in dump.items() if name not in _SAID}
    role = openai_role(message.role) or "user"
    if role != message.role:
        head["role"] = message.role
    if not parts:
        head["silent"] = True
    made = NewMessage(
        role=role,
        parts=with_message_note(parts or (TextPart(text=""),), _KEY, **head),
        id=message.message_id if role == "user" else None,
        speaker=message.author_name,
    )
    if _dumped(to_agent_framework(made)) == dump:
        return made
    return replace(made, parts=with_message_note(made.parts, _KEY, whole=dump))


def _dumped(message: Message) -> Json:
    """Return a message as JSON. Fields that cannot be written as JSON are left out."""
    dump = json_fields(message.to_dict(), "contents")
    return {
        **dump,
        "contents": [json_fields(one, "contents") for one in cast("list[Json]", dump.get("contents") or [])],
    }


def said_in(message: Message) -> NewMessage | None:
    """Return the Memolog message without contents that control the agent run; None if there are no other contents."""
    if any(content.type in CONTROLS for content in message.contents):
        others = [content for content in message.contents if content.type not in CONTROLS]
        message = Message(
            message.role,
            others,
            author_name=message.author_name,
            message_id=message.message_id,
            additional_properties=dict(message.additional_properties),
        )
    return from_agent_framework(message) if message.contents else None


def _part(content: Json, default_id: str) -> Part:
    match content.get("type"):
        case "text" if isinstance(content.get("text"), str):
            text = content["text"]
            plain: Json = {"type": "text", "text": text, "additional_properties": {}}
            return kept(TextPart(text=text), _KEY, content, plain=plain, text=("text",))
        case "text_reasoning":
            text, hidden = text_at(content, "text"), text_at(content, "protected_data")
            found = {"text": (text, ("text",)), "encrypted": (hidden, ("protected_data",))}
            places: dict[str, Path] = {name: path for name, (value, path) in found.items() if value is not None}
            return kept(ReasoningPart(text=text or "", encrypted=hidden), _KEY, content, **places)
        case "data" | "uri":
            return _file(content) or UnknownPart(data=content)
        case "function_call":
            places = {"id": ("call_id",)} if content.get("call_id") else {}
            places |= {"arguments": ("arguments",)} if "arguments" in content else {}
            # Some providers do not give an id to a call. Then `default_id` is used.
            id_ = content.get("call_id") or default_id
            part = ToolCallPart(id=id_, name=content.get("name") or "", arguments=content.get("arguments"))
            return kept(part, _KEY, content, **places)
        case "function_result" if isinstance(content.get("call_id"), str):
            return _result(content)
        case _:
            return UnknownPart(data=content)


def _file(content: Json) -> FilePart | None:
    uri = text_at(content, "uri")
    if uri is None:
        return None
    media = text_at(content, "media_type") or "application/octet-stream"
    name = text_at(content, "additional_properties", "filename")
    if not uri.startswith("data:"):
        return kept(FilePart(media_type=media, url=uri, name=name), _KEY, content, url=("uri",))
    data = decoded(uri)
    if data is None:
        return None
    return kept(FilePart(media_type=media, data=data, name=name), _KEY, content, data=("uri",))


def _result(content: Json) -> Part:
    """Return a tool result. Binary data in it, such as an image, becomes a file, so that it is not counted as text."""
    files: list[FilePart] = []
    items: list[Any] = []
    for item in cast("list[Json]", content.get("items") or []):
        file = _file(item) if item.get("type") == "data" else None
        items.append(item if file is None else {"file": len(files)})
        if file is not None:
            files.append(file)
    places: dict[str, Path] = {"call_id": ("call_id",)}
    if "result" in content:
        places["content"] = ("result",)
    part = ToolResultPart(
        call_id=content["call_id"],
        content=content.get("result"),
        name=content.get("name"),
        is_error=content.get("exception") is not None,
        files=tuple(files),
    )
    return kept(part, _KEY, {**content, "items": items} if "items" in content else content, **places)


# ---------------------------------------------------------------- to Agent Framework


def to_agent_framework(message: Said) -> Message:
    """Return a Memolog message as an Agent Framework message."""
    head = message_note(message.parts, _KEY)
    whole = head.pop("whole", None)
    if whole is not None:
        return Message.from_dict(whole)
    is_silent = head.pop("silent", False)
    contents = [] if is_silent else [made for part in message.parts if (made := _content(part)) is not None]
    dump: Json = {"role": message.role, **head, "contents": contents}
    if message.speaker is not None:
        dump["author_name"] = message.speaker
    return Message.from_dict(dump)


def _content(part: Part) -> Json | None:
    if "block" in notes(part, _KEY):
        made = rebuilt(part, _KEY)
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
            # An unknown part of another framework is sent only if it has a `type`, because every content of Agent Framework has.
            data: Any = part.data
            return cast("Json", data) if note(part, _KEY) is not None or text_at(data, "type") is not None else None
        case ReasoningPart():
            # Agent Framework cannot read the reasoning of another framework.
            return None


def _standard_result(part: ToolResultPart) -> Json:
    result = part.content if isinstance(part.content, str) else dumps(part.content)
    made: Json = {"type": "function_result", "call_id": part.call_id, "result": result}
    if part.files:
        made["items"] = [{"type": "text", "text": result}, *filter(None, map(_content, part.files))]
    # Agent Framework marks a failed call by the text of an exception.
    return {**made, "exception": result or "failed"} if part.is_error else made


def _item(item: Json, files: Sequence[FilePart]) -> Json | None:
    number = item.get("file")
    return _content(files[number]) if isinstance(number, int) else item


# ---------------------------------------------------------------- usage


def usage_of(details: UsageDetails | None, model: str | None) -> Usage | None:
    """Return the usage of a request; None if Agent Framework reports none."""
    if not details:
        return None
    read, written = details.get("cache_read_input_token_count"), details.get("cache_creation_input_token_count")
    return usage_of_total(model, details.get("input_token_count"), details.get("output_token_count"), read, written)
