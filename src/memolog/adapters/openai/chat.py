"""Translate the JSON of Chat Completions to and from Memolog messages, streamed or not, without the `openai` package."""

import base64
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final, cast

from memolog import Context
from memolog.adapters.exchange import Answer, Api
from memolog.adapters.new_messages import Said
from memolog.adapters.provider_limits import usage_of_total
from memolog.core.exact_json import JsonValue, sendable, well_formed
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
from memolog.transfer.messages import call_part, content_part, content_parts, openai_role

# Characters that the API rejects in the name of a speaker, and the maximum length of the name.
_NOT_IN_NAMES: Final = re.compile(r"[\s<|\\/>]+")
_MOST_NAME: Final = 64


def content_block(part: Part, key: str, kind: str) -> JsonValue:
    """Return the block for a text, file or unknown part; None for other parts.

    `kind` is the `type` of a text block: "text" in Chat Completions, "input_text" or "output_text" in Responses.
    """
    match part:
        case TextPart():
            return {"type": kind, "text": part.text}
        case FilePart():
            return _file_block(part, kind)
        case UnknownPart():
            return part.data if note(part, key) is not None else {"type": kind, "text": described(part)}
        case _:
            return None


def _file_block(file: FilePart, kind: str) -> Json:
    """Return the image, audio or document block for a file, or a short text if the API does not accept the file."""
    family, is_chat = file.media_type.split("/")[0], kind == "text"
    data = None if file.data is None else base64.b64encode(file.data).decode()
    address = file.url if data is None else f"data:{file.media_type};base64,{data}"
    if address is None or kind == "output_text" or (is_chat and family != "image" and data is None):
        return {"type": kind, "text": described(file)}
    if family == "image":
        detail = {"detail": file.detail} if file.detail else {}
        if is_chat:
            return {"type": "image_url", "image_url": {"url": address, **detail}}
        return {"type": "input_image", "image_url": address, **detail}
    if family == "audio" and data is not None:
        return {"type": "input_audio", "input_audio": {"data": data, "format": file.media_type.partition("/")[2]}}
    name = {"filename": file.name} if file.name else {}
    if is_chat:
        return {"type": "file", "file": {**name, "file_data": address}}
    return {"type": "input_file", **name, ("file_url" if data is None else "file_data"): address}


def without_nothing(data: Json) -> Json:
    """Return a message without its null fields except `content`. Answers have null fields that a request must not have."""
    return {name: value for name, value in data.items() if value is not None or name == "content"}


def usage_from(data: Data, incoming: str, outgoing: str) -> Usage | None:
    """Return the usage of an answer; None if it has none. `incoming` and `outgoing` are the names of its token counts."""
    counts = as_data(data.get("usage"))
    details = as_data(counts.get(f"{incoming}_details"))
    read, written = details.get("cached_tokens"), details.get("cache_write_tokens")
    return (
        usage_of_total(data.get("model"), counts.get(incoming), counts.get(outgoing), read, written) if counts else None
    )


KEY: Final = "openai-chat"
# The names under which servers send reasoning.
_THOUGHTS: Final = ("reasoning_content", "reasoning")
_block: Final = partial(content_block, key=KEY, kind="text")


# ---------------------------------------------------------------- from the API


def from_messages(messages: Iterable[Data]) -> tuple[NewMessage, ...]:
    """Return one Memolog message for each message of the API."""
    return tuple(map(_message, messages))


def split(messages: Sequence[Data]) -> tuple[tuple[Data, ...], tuple[Data, ...]]:
    """Return the instructions at the beginning of a request, and the messages after them."""
    count = next((n for n, one in enumerate(messages) if one.get("role") not in {"system", "developer"}), len(messages))
    return tuple(messages[:count]), tuple(messages[count:])


def from_response(data: Data) -> Answer:
    """Return the first choice of an answer, with the usage of the answer."""
    choice = as_data(next(iter(as_list(data.get("choices"))), None))
    said = as_data(choice.get("message"))
    about = {"id": data.get("id"), "model": data.get("model"), "finish_reason": choice.get("finish_reason")}
    metadata = {"openai": {name: value for name, value in about.items() if value}}
    return Answer(
        message=replace(_message({"role": "assistant", **said}), metadata=metadata) if said else None,
        usage=usage_from(data, "prompt_tokens", "completion_tokens"),
    )


def _message(data: Data) -> NewMessage:
    role = openai_role(data.get("role"))
    if role is None:
        return NewMessage(role="user", parts=(UnknownPart(data=dict(data), extra={KEY: {"whole": True}}),))
    parts = _result_parts(data) if role == "tool" else _parts(data)
    name = data.get("name")
    speaker = name if role != "tool" and isinstance(name, str) and name else None
    message = NewMessage(role=role, parts=parts or (TextPart(text=""),), speaker=speaker)
    change = difference(_plain(message), dict(data))
    if change is None:
        return message
    return replace(message, parts=(noted(message.parts[0], KEY, change=change), *message.parts[1:]))


def _result_parts(data: Data) -> tuple[Part, ...]:
    content, files, shape = read_result(data.get("content"), content_part, _block)
    call = str(data.get("tool_call_id") or data.get("name") or "")
    name = data.get("name")
    part = ToolResultPart(call_id=call, content=content, name=name if isinstance(name, str) else None, files=files)
    return (part if shape is None else noted(part, KEY, shape=shape),)


def _parts(data: Data) -> tuple[Part, ...]:
    parts: list[Part] = []
    thought = next((name for name in _THOUGHTS if data.get(name) and isinstance(data[name], str)), None)
    if thought:
        parts.append(ReasoningPart(text=data[thought], extra={KEY: {"field": thought}}))
    content = data.get("content")
    said = [noted(part, KEY) if isinstance(part, UnknownPart) else part for part in content_parts(content)]
    if isinstance(content, list) and said:
        # Without this note a list with a single text block would be written back as a plain text.
        said[0] = noted(said[0], KEY, list=True)
    parts += said
    for name in ("refusal", "audio"):
        text = data.get(name) if name == "refusal" else as_data(data.get("audio")).get("transcript")
        if text and isinstance(text, str):
            parts.append(TextPart(text=text, extra={KEY: {"field": name}}))
    if data.get("function_call"):
        call = as_data(data["function_call"])
        parts.append(noted(call_part({"id": call.get("name"), "function": call}), KEY, field="function_call"))
    for call in as_list(data.get("tool_calls")):
        part = call_part(as_data(call))
        parts.append(noted(part, KEY, kind="custom") if as_data(call).get("type") == "custom" else part)
    return tuple(parts)


# ---------------------------------------------------------------- to the API


def to_messages(messages: Iterable[Said]) -> list[Json]:
    """Return the messages of the API. Messages that came from the API are written back unchanged."""
    return [one for said in messages for one in _write(said)]


def to_request(context: Context, *, instructions: Sequence[Data] = ()) -> Json:
    """Return the messages of a request: the caller's instructions, the prefix, the messages, and the edge."""
    sent: list[JsonValue] = list(_opening(instructions, context.system))
    for message in context.joined():
        first = message.parts[0]
        if len(message.parts) == 1 and isinstance(first, TextPart) and not (first.extra or message.speaker):
            # A faster way for plain text, because most messages of a long context are plain text. The result is the same.
            text = first.text
            sent.append({"role": message.role, "content": text if text.isascii() else well_formed(text)})
        else:
            sent += [sendable(written) for one in _write(message) if (written := _sendable(one))]
    return {"messages": sent}


def _opening(instructions: Sequence[Data], system: str) -> list[Json]:
    texts = [one.get("content") for one in instructions]
    roles = {one.get("role") for one in instructions} or {"system"}
    if not system:
        return [dict(one) for one in instructions]
    if len(roles) == 1 and all(isinstance(text, str) for text in texts):
        # Many servers accept only one system message, and only at the beginning.
        return [{"role": roles.pop(), "content": "\n\n".join([*cast("list[str]", texts), system])}]
    return [*(dict(one) for one in instructions), {"role": "system", "content": system}]


def _write(said: Said) -> list[Json]:
    first = said.parts[0] if said.parts else None
    if isinstance(first, UnknownPart) and notes(first, KEY).get("whole"):
        return [dict(first.data)]
    results = [part for part in said.parts if isinstance(part, ToolResultPart)]
    if not results:
        change = notes(first, KEY).get("change") if first else None
        return [applied(_plain(said), change)]
    rest = tuple(part for part in said.parts if not isinstance(part, ToolResultPart))
    written: list[Json] = [applied(_result(part), notes(part, KEY).get("change")) for part in results]
    return written if not rest else [*written, *_write(replace(said, parts=rest, role="user"))]


def _plain(said: Said) -> Json:
    """Return a message as JSON of the API. Changes that a note of the message contains are not applied."""
    if said.parts and isinstance(said.parts[0], ToolResultPart):
        return _result(said.parts[0])
    message: Json = {"role": said.role}
    if said.speaker:
        message["name"] = _NOT_IN_NAMES.sub("_", said.speaker)[:_MOST_NAME]
    content = _content(said)
    calls = [part for part in said.parts if isinstance(part, ToolCallPart)]
    if content is not None or not said.parts or said.role != "assistant":
        message["content"] = "" if content is None else content
    elif calls:
        message["content"] = None
    for part in said.parts:
        _add_field(message, part)
    plain = [_call(part) for part in calls if _field(part) is None]
    if plain:
        message["tool_calls"] = plain
    return message


def _field(part: Part) -> str | None:
    return notes(part, KEY).get("field")


def _add_field(message: Json, part: Part) -> None:
    """Add a part that has a separate field in the API: reasoning, a refusal, the transcript of audio, a function call."""
    match _field(part), part:
        case "audio", TextPart():
            message["audio"] = {"transcript": part.text}
        case "function_call", ToolCallPart():
            message["function_call"] = {"name": part.name, "arguments": json_text(part.arguments)}
        case str(field), TextPart() | ReasoningPart():
            message[field] = part.text
        case _:
            pass


def _content(said: Said) -> JsonValue:
    parts = [
        part for part in said.parts if isinstance(part, TextPart | FilePart | UnknownPart) and _field(part) is None
    ]
    if not parts:
        return None
    is_list = bool(notes(parts[0], KEY).get("list"))
    if len(parts) == 1 and isinstance(parts[0], TextPart) and not is_list:
        return parts[0].text
    is_assistant = said.role == "assistant"
    if is_assistant and not is_list and all(isinstance(part, TextPart) for part in parts):
        # Some servers accept only a plain text from the assistant.
        return "\n\n".join(part.text for part in cast("list[TextPart]", parts))
    return [_text(described(part)) if is_assistant and isinstance(part, FilePart) else _block(part) for part in parts]


def _text(text: str) -> Json:
    return {"type": "text", "text": text}


def _call(part: ToolCallPart) -> Json:
    text = json_text(part.arguments)
    if notes(part, KEY).get("kind") == "custom":
        return {"id": part.id, "type": "custom", "custom": {"name": part.name, "input": text}}
    return {"id": part.id, "type": "function", "function": {"name": part.name, "arguments": text}}


def _result(part: ToolResultPart) -> Json:
    content = write_result(part, notes(part, KEY).get("shape"), _block)
    return {"role": "tool", "tool_call_id": part.call_id, "content": content}


def _sendable(message: Json) -> Json | None:
    """Return a message for a request, without fields that only answers have; None if the message is empty."""
    sent = without_nothing(message)
    sent.pop("annotations", None)
    sound = as_data(sent.pop("audio", None))
    if sound and not sent.get("content"):
        # The id of the audio expires, so the transcript is sent instead.
        sent["content"] = str(sound.get("transcript", ""))
    if sent.get("role") in {"tool", "function"}:
        return {**sent, "content": _tool_text(sent_result(sent.get("content")))}
    if not sent.get("content") and not any(sent.get(name) for name in ("tool_calls", "function_call", "refusal")):
        return None
    return sent


def _tool_text(content: JsonValue) -> JsonValue:
    """Return the content of a tool message as a text or as text blocks, because the API accepts nothing else."""
    if isinstance(content, list):
        blocks = [as_data(block) for block in cast("list[Any]", content)]
        return [
            dict(block) if block.get("type") == "text" else _text(described(UnknownPart(data=dict(block))))
            for block in blocks
        ]
    return json_text(content)


# Text fields that a chunk contains completely. Other text fields are sent in pieces, which are joined.
_WHOLE: Final = ("id", "type", "role", "index", "name", "format", "status")


class ChatStream:
    """Assembles a streamed chat completion. If the stream ends early, its tool calls are left out."""

    def __init__(self) -> None:
        self._about: Json = {}
        self._message: Json = {}
        self.is_whole = False

    def add(self, chunk: Data) -> None:
        """Add a chunk. Only its first choice is used."""
        for name, value in chunk.items():
            if name != "choices" and value is not None:
                self._about[name] = value
        for choice in map(as_data, as_list(chunk.get("choices"))):
            if choice.get("index") in (0, None):
                _merge(self._message, as_data(choice.get("delta")))
                if choice.get("finish_reason"):
                    self._about["finish_reason"] = choice["finish_reason"]
                    self.is_whole = True

    def response(self) -> Json:
        """Return the completion so far."""
        message = {"role": "assistant", "content": None, **self._message}
        calls = [
            {name: value for name, value in as_data(call).items() if name != "index"}
            for call in as_list(message.pop("tool_calls", None))
        ]
        if not self.is_whole:
            message.pop("function_call", None)
        elif calls:
            message["tool_calls"] = calls
        finish = {"finish_reason": self._about.get("finish_reason")}
        has_said = any(value for name, value in message.items() if name != "role")
        about = {name: value for name, value in self._about.items() if name != "finish_reason"}
        choices = [{"index": 0, "message": message, **finish}] if has_said else []
        return {**about, "object": "chat.completion", "choices": choices}


def _merge(whole: Json, piece: Data) -> None:
    for name, value in piece.items():
        known = whole.get(name)
        if isinstance(value, str) and isinstance(known, str) and name not in _WHOLE:
            whole[name] = known + value
        elif isinstance(value, list):
            whole[name] = cast("list[Any]", known) if isinstance(known, list) else []
            _merge_list(whole[name], cast("list[Any]", value))
        elif isinstance(value, dict):
            whole[name] = cast("Json", known) if isinstance(known, dict) else {}
            _merge(whole[name], as_data(cast("object", value)))
        elif value is not None and (value != "" or name not in whole):
            whole[name] = value


def _merge_list(whole: list[Any], pieces: list[Any]) -> None:
    for piece in pieces:
        index = as_data(piece).get("index")
        found = next((one for one in whole if index is not None and as_data(one).get("index") == index), None)
        if found is not None:
            _merge(found, piece)
        elif isinstance(piece, dict):
            whole.append({})
            _merge(whole[-1], as_data(cast("object", piece)))
        else:
            whole.append(piece)


def _goes_on(body: Data) -> bool:
    """Return whether the server continues the last message. OpenAI does not. Other servers do if a field requests it."""
    messages = as_list(body.get("messages"))
    last: Data = as_data(messages[-1]) if messages else {}
    return bool(body.get("continue_final_message") or last.get("prefix") or last.get("partial"))


CHAT_API: Final = Api(
    path="/chat/completions",
    given=lambda body: from_messages(split(body.get("messages") or ())[1]),
    request=lambda body, context: {**body, **to_request(context, instructions=split(body.get("messages") or ())[0])},
    own=lambda body: list(split(body.get("messages") or ())[0]),
    answer=from_response,
    stream=ChatStream,
    goes_on=_goes_on,
)
