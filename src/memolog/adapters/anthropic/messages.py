"""Translate messages of the Anthropic API (JSON) to and from Memolog messages, streamed or not, with cache marks.

Signed thinking is passed through unchanged. The `anthropic` package is not needed.
"""

import base64
import json
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final, cast

from memolog import Context
from memolog.adapters.exchange import Answer, Api, with_speaker
from memolog.adapters.new_messages import Said
from memolog.core.exact_json import JsonValue, sendable
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
from memolog.transfer.conversation import Data, as_data, as_list
from memolog.transfer.exact import (
    Json,
    applied,
    arguments_object,
    described,
    difference,
    json_text,
    note,
    noted,
    notes,
    read_result,
    sent_result,
    write_result,
)
from memolog.transfer.messages import anthropic_role, block_part

KEY: Final = "anthropic"
MARK: Final[Json] = {"type": "ephemeral"}
# Maximum number of cache marks in a request, and the types of blocks that cannot have a cache mark.
_MOST_MARKS: Final = 4
_UNMARKED: Final = ("thinking", "redacted_thinking")
# The API requires a user message first, but an imported or trimmed conversation may begin with an answer.
_BEGINNING: Final = "(The conversation goes on.)"


# ---------------------------------------------------------------- from the API


def from_messages(messages: Iterable[Data]) -> tuple[NewMessage, ...]:
    """Return one Memolog message for each message of the API."""
    return tuple(map(_message, messages))


def from_response(data: Data) -> Answer:
    """Return an answer and the usage of the answer."""
    content = as_list(data.get("content"))
    about = {"id": data.get("id"), "model": data.get("model"), "stop_reason": data.get("stop_reason")}
    metadata = {"anthropic": {name: value for name, value in about.items() if value}}
    message = _message({"role": "assistant", "content": content})
    return Answer(
        message=replace(message, metadata=metadata) if content else None,
        usage=_usage(str(data.get("model") or "unknown"), as_data(data.get("usage"))),
    )


def _usage(model: str, counts: Data) -> Usage | None:
    if not counts:
        return None
    return Usage(
        model=model,
        input_tokens=counts.get("input_tokens") or 0,
        output_tokens=counts.get("output_tokens") or 0,
        cache_read_tokens=counts.get("cache_read_input_tokens") or 0,
        cache_write_tokens=counts.get("cache_creation_input_tokens") or 0,
    )


def _message(data: Data) -> NewMessage:
    content = data.get("content")
    is_list = isinstance(content, list)
    parts: list[Part] = [_part(block) for block in as_list(content)]
    if not parts:
        parts = [TextPart(text=content if isinstance(content, str) else "")]
    role = anthropic_role(str(data.get("role")), tuple(parts))
    if (is_list and len(parts) == 1 and isinstance(parts[0], TextPart)) or role == "system":
        parts[0] = noted(parts[0], KEY, list=is_list or None)
    change = difference(_plain(role, parts), dict(data))
    if change is not None:
        parts[0] = noted(parts[0], KEY, message=change)
    return NewMessage(role=role, parts=tuple(parts))


def _part(block: Any) -> Part:
    """Return the part for a block. A note stores the fields of the block that the part does not have."""
    data = as_data(block)
    part = block_part(data) if data else UnknownPart(data=block)
    match part:
        case ToolResultPart():
            content, files, shape = read_result(data.get("content"), block_part, _block)
            part = replace(part, content=content, files=files)
            part = part if shape is None else noted(part, KEY, shape=shape)
        case ReasoningPart() | UnknownPart():
            # The note marks the part as one of this provider, because other providers cannot read it.
            part = noted(part, KEY)
        case _:
            pass
    change = difference(_block(part), block)
    return part if change is None else noted(part, KEY, change=change)


# ---------------------------------------------------------------- to the API


def to_messages(messages: Iterable[Said]) -> list[Json]:
    """Return the messages of the API. Messages that came from the API are written back unchanged."""
    made: list[Json] = []
    for said in messages:
        change = notes(said.parts[0], KEY).get("message") if said.parts else None
        made.append(applied(_plain(said.role, said.parts), change))
    return made


def to_request(
    context: Context,
    *,
    system: str | Sequence[Data] | None = None,
    mark: Json | None = MARK,
    marks_elsewhere: int = 0,
) -> Json:
    """Return system and messages of a request: the caller's instructions, the prefix, the messages, and the edge.

    Cache marks are set after the log and at the last message before the edge. A request has at most four marks, so
    `marks_elsewhere` is the number of marks that the caller has set outside `system`. With `mark=None` no marks are set.
    """
    own: list[Json] = [{"type": "text", "text": system}] if isinstance(system, str) and system else []
    own = own or [dict(block) for block in system or () if not isinstance(block, str)]
    messages: list[Json] = sendable(_said(context))
    prefix: list[Json] = [
        {"type": "text", "text": block.text if number == 0 else f"\n\n{block.text}"}
        for number, block in enumerate(context.blocks)
    ]
    free = _MOST_MARKS - marks_elsewhere - sum("cache_control" in block for block in own)
    if mark is not None and free > 0 and _mark_last(messages, mark):
        free -= 1
    if mark is not None and free > 0 and prefix:
        prefix[-1] = {**prefix[-1], "cache_control": mark}
    if context.edge:
        _add_edge(messages, context.edge_text)
    request: Json = {"system": [*own, *prefix]} if own or prefix else {}
    return {**request, "messages": messages}


def _said(context: Context) -> list[Json]:
    """Return the messages of a request. Empty text is left out, and a user message is first.

    Results of one step, consecutive user messages, and consecutive answers of text only are joined.
    """
    messages: list[Json] = []
    last: Any = None
    given = tuple(message.filled for message in context.messages)
    for said, following in zip(given, (*given[1:], None), strict=True):
        if said.role == "assistant" and said.is_empty and (following is None or following.seq != said.seq):
            # A message of the model must not end with its thinking.
            continue
        role, parts = said.role, with_speaker(said).parts
        if role == "system" and (not parts or note(parts[0], KEY) is None):
            # Not all models accept a system message in the middle of the conversation.
            role = "user"
        blocks = [block for part in parts if (block := _sendable(part)) is not None]
        if not blocks:
            continue
        api_role = "user" if role == "tool" else role
        is_one = last is not None and (
            (last.role == role and role in {"tool", "user"})
            or (last.is_plain_answer and said.is_plain_answer)
            or (said.seq is not None and said.seq == last.seq)
        )
        if messages and is_one and messages[-1]["role"] == api_role:
            messages[-1]["content"] += blocks
        else:
            messages.append({"role": api_role, "content": blocks})
        last = said
    if messages and messages[0]["role"] == "assistant":
        messages.insert(0, {"role": "user", "content": [{"type": "text", "text": _BEGINNING}]})
    return messages


def _sendable(part: Part) -> Json | None:
    """Return a block for a request, without the cache mark of an earlier request; None if the part cannot be sent."""
    if isinstance(part, ReasoningPart) and note(part, KEY) is None:
        return None
    block = applied(_block(part), notes(part, KEY).get("change"))
    if not isinstance(block, dict):
        return None
    sent = cast("Json", _without_mark(cast("object", block)))
    if sent.get("type") == "text" and not str(sent.get("text", "")).strip():
        return None
    if sent.get("type") == "tool_use":
        sent["input"] = arguments_object(sent.get("input"))
    if sent.get("type") == "tool_result":
        sent["content"] = sent_result(sent.get("content"))
    if isinstance(sent.get("content"), list):
        sent["content"] = [_without_mark(inner) for inner in cast("list[object]", sent["content"])]
    return sent


def _without_mark(block: object) -> object:
    if not isinstance(block, dict):
        return block
    return {name: value for name, value in cast("Json", block).items() if name != "cache_control"}


def _mark_last(messages: list[Json], mark: Json) -> bool:
    """Set a cache mark at the last block that can have one. Return whether there is such a block."""
    for message in reversed(messages):
        blocks: list[Json] = message["content"]
        for place in reversed(range(len(blocks))):
            if blocks[place].get("type") not in _UNMARKED:
                blocks[place] = {**blocks[place], "cache_control": mark}
                return True
    return False


def _add_edge(messages: list[Json], edge: str) -> None:
    """Append the edge to the last user message without tool results. After tool results it would end the model's reasoning."""
    block = {"type": "text", "text": edge}
    for message in reversed(messages):
        if message["role"] == "user" and not any(one.get("type") == "tool_result" for one in message["content"]):
            message["content"].append(block)
            return
    messages.insert(0, {"role": "user", "content": [block]})


def _plain(role: str, parts: Sequence[Part]) -> Json:
    """Return the message as JSON of the API. Changes that a note of the message contains are not applied."""
    api_role = "user" if role == "tool" else role
    first = parts[0] if parts else TextPart(text="")
    if len(parts) <= 1 and isinstance(first, TextPart) and not notes(first, KEY).get("list"):
        return {"role": api_role, "content": first.text}
    blocks = [applied(_block(part), notes(part, KEY).get("change")) for part in parts]
    return {"role": api_role, "content": [block for block in blocks if block is not None]}


def _block(part: Part) -> JsonValue:
    match part:
        case TextPart():
            return {"type": "text", "text": part.text}
        case ReasoningPart():
            return _thinking(part)
        case ToolCallPart():
            return {"type": "tool_use", "id": part.id, "name": part.name, "input": arguments_object(part.arguments)}
        case ToolResultPart():
            return _result(part)
        case FilePart():
            return _file(part)
        case UnknownPart():
            return part.data if note(part, KEY) is not None else _stand_in(part)


def _thinking(part: ReasoningPart) -> Json:
    if part.encrypted is not None and not part.text:
        return {"type": "redacted_thinking", "data": part.encrypted}
    signature = {} if part.signature is None else {"signature": part.signature}
    return {"type": "thinking", "thinking": part.text, **signature}


def _result(part: ToolResultPart) -> Json:
    content = write_result(part, notes(part, KEY).get("shape"), _block)
    if content is not None and not isinstance(content, str | list):
        content = json_text(content)
    block: Json = {"type": "tool_result", "tool_use_id": part.call_id}
    if content is not None:
        block["content"] = content
    return {**block, "is_error": True} if part.is_error else block


def _file(part: FilePart) -> Json:
    kind = "image" if part.media_type.startswith("image/") else "document"
    named = {"title": part.name} if part.name and kind == "document" else {}
    if part.data is None:
        if part.url is None:
            return _stand_in(part)
        return {"type": kind, "source": {"type": "url", "url": part.url}, **named}
    if part.media_type == "text/plain":
        text = part.data.decode("utf-8", "replace")
        return {"type": kind, "source": {"type": "text", "media_type": part.media_type, "data": text}, **named}
    if kind == "document" and part.media_type != "application/pdf":
        return _stand_in(part)
    data = base64.b64encode(part.data).decode()
    return {"type": kind, "source": {"type": "base64", "media_type": part.media_type, "data": data}, **named}


def _stand_in(part: FilePart | UnknownPart) -> Json:
    return {"type": "text", "text": described(part)}


class MessageStream:
    """Assembles a streamed message. If the stream ends early, only its text blocks are returned."""

    def __init__(self) -> None:
        self._message: Json = {}
        self._blocks: dict[int, Json] = {}
        self._inputs: dict[int, str] = {}
        self.is_whole = False

    def add(self, event: Data) -> None:
        """Add an event."""
        place = event.get("index")
        match event.get("type"):
            case "message_start":
                self._message = dict(as_data(event.get("message")))
            case "content_block_start" if isinstance(place, int):
                self._blocks[place] = dict(as_data(event.get("content_block")))
            case "content_block_delta" if isinstance(place, int):
                self._delta(place, as_data(event.get("delta")))
            case "message_delta":
                self._message.update(as_data(event.get("delta")))
                counts = {name: value for name, value in as_data(event.get("usage")).items() if value is not None}
                self._message["usage"] = {**as_data(self._message.get("usage")), **counts}
            case "message_stop":
                self.is_whole = True
            case _:
                pass

    def _delta(self, place: int, delta: Data) -> None:
        block = self._blocks.setdefault(place, {"type": "text", "text": ""})
        for name, value in delta.items():
            if name == "type":
                continue
            if name == "partial_json":
                self._inputs[place] = self._inputs.get(place, "") + str(value)
            elif name == "citation":
                block["citations"] = [*(block.get("citations") or ()), value]
            elif isinstance(value, str) and isinstance(block.get(name), str):
                block[name] += value
            else:
                block[name] = value

    def response(self) -> Json:
        """Return the message so far."""
        blocks = {place: {**block} for place, block in self._blocks.items()}
        for place, text in self._inputs.items():
            blocks[place]["input"] = _input_value(text, blocks[place].get("input"))
        content = [blocks[place] for place in sorted(blocks)]
        if not self.is_whole:
            content = [block for block in content if block.get("type") == "text" and block.get("text")]
        return {**self._message, "content": content}


def _input_value(text: str, first: object) -> Any:
    """Return the input of a tool call from its joined pieces. Text that is not JSON is returned unchanged."""
    if not text.strip():
        return first
    with suppress(ValueError):
        return cast("object", json.loads(text))
    return text


def messages_api(mark: Json | None = MARK) -> Api:
    """Return the Api of the messages endpoint. `mark` is the cache mark; with None no marks are set."""

    def with_context(body: Json, context: Context) -> Json:
        marks = sum("cache_control" in as_data(tool) for tool in as_list(body.get("tools")))
        # A mark of the whole request counts too, because the provider sets it at the last block.
        marks += "cache_control" in body
        made = to_request(context, system=body.get("system"), mark=mark, marks_elsewhere=marks)
        return {**body, **made}

    return Api(
        path="/v1/messages",
        given=lambda body: from_messages(body.get("messages") or ()),
        request=with_context,
        own=lambda body: [body.get("system")],
        answer=from_response,
        stream=MessageStream,
        goes_on=lambda _: True,
    )
