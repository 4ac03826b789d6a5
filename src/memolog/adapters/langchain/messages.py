"""Messages of LangChain, to and from Memolog messages, without loss.

Fields that Memolog's parts do not have are stored in the `extra` of the parts. If a message could still not be rebuilt exactly,
its content and tool calls are stored a second time, as LangChain has them.
"""

import base64
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final, TypeAlias, cast

from langchain_core.messages import (
    AIMessage,
    AnyMessage,
    BaseMessage,
    BaseMessageChunk,
    ChatMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
    message_chunk_to_message,
)

from memolog.adapters.new_messages import Said
from memolog.adapters.provider_limits import usage_of_total
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
from memolog.transfer.exact import (
    Json,
    arguments_object,
    json_fields,
    message_note,
    notes,
    rebuilt,
    with_message_note,
)
from memolog.transfer.frameworks import LANGCHAIN, langchain_parts, langchain_result

Block: TypeAlias = str | Json


# ---------------------------------------------------------------- a part becomes a block


def block_of(part: Part) -> Block | None:
    """Return the block from which a part was made, or a standard block of LangChain; None if LangChain has no such block."""
    stored = notes(part, LANGCHAIN)
    if stored.get("item") is True and isinstance(part, TextPart):
        return part.text
    if "block" in stored:
        return rebuilt(part, LANGCHAIN)
    match part:
        case TextPart():
            return {"type": "text", "text": part.text}
        case FilePart():
            return _standard_file(part)
        case UnknownPart():
            return cast("Json", part.data) if isinstance(part.data, dict) else None
        case ReasoningPart() | ToolCallPart() | ToolResultPart():
            # LangChain has no block for reasoning of another framework. Tool calls and results are not blocks.
            return None


def _standard_file(part: FilePart) -> Block:
    family = part.media_type.split("/")[0]
    block: Json = {"type": family if family in {"image", "audio", "video"} else "file"}
    if part.data is not None:
        block["base64"] = base64.b64encode(part.data).decode()
    elif part.url is not None:
        block["url"] = part.url
    block["mime_type"] = part.media_type
    return {**block, "filename": part.name} if part.name and block["type"] == "file" else block


_ROLES: Final[dict[str, Role]] = {"human": "user", "ai": "assistant", "system": "system", "tool": "tool"}
_SPOKEN: Final[dict[str, Role]] = {
    "user": "user",
    "human": "user",
    "assistant": "assistant",
    "ai": "assistant",
    "system": "system",
    "developer": "system",
}
_KINDS: Final[dict[str, type[BaseMessage]]] = {
    "human": HumanMessage,
    "ai": AIMessage,
    "system": SystemMessage,
    "tool": ToolMessage,
    "chat": ChatMessage,
}
# Fields that are stored in the parts and in the speaker. All other fields are stored in a note.
_SAID: Final = ("content", "tool_calls", "invalid_tool_calls", "name")
# The empty values of fields that are never None. Empty fields are not stored in the note.
_EMPTY: Final[dict[str, Any]] = {"additional_kwargs": {}, "response_metadata": {}}
_SAID_BY_RESULT: Final = (*_SAID, "tool_call_id", "status")


# ---------------------------------------------------------------- from LangChain


def from_langchain(message: BaseMessage) -> NewMessage:
    """Return a LangChain message as a Memolog message with the same id."""
    if isinstance(message, BaseMessageChunk):
        message = message_chunk_to_message(message)
    dump = json_fields(message.model_dump(), *_SAID)
    is_result = isinstance(message, ToolMessage)
    parts = (langchain_result(dump),) if is_result else tuple(langchain_parts(dump))
    said = _SAID_BY_RESULT if is_result else _SAID
    head = {name: value for name, value in dump.items() if name not in said and value != _EMPTY.get(name)}
    if isinstance(dump["content"], str):
        head["text"] = True
    if not parts:
        # A Memolog message must have a part, but an answer of LangChain may consist only of its usage.
        head["silent"] = True
    spoken = _SPOKEN.get(str(dump.get("role")).lower()) if isinstance(message, ChatMessage) else None
    made = NewMessage(
        role=spoken or _ROLES.get(message.type, "user"),
        parts=with_message_note(parts or (TextPart(text=""),), LANGCHAIN, **head),
        id=message.id,
        speaker=None if is_result else message.name,
    )
    if json_fields(_message(made).model_dump(), *_SAID) == dump:
        return made
    whole = {name: dump[name] for name in _SAID if name in dump}
    return replace(made, parts=with_message_note(made.parts, LANGCHAIN, whole=whole))


# ---------------------------------------------------------------- to LangChain


def to_langchain(message: Said) -> list[AnyMessage]:
    """Return a Memolog message as LangChain messages: one for each tool result, and one for the other parts."""
    results = [part for part in message.parts if isinstance(part, ToolResultPart)]
    rest = tuple(part for part in message.parts if not isinstance(part, ToolResultPart))
    made: list[BaseMessage] = [_tool_message(part) for part in results]
    if rest:
        made.append(_message(NewMessage(role=message.role, parts=rest, speaker=message.speaker)))
    return cast("list[AnyMessage]", made)


def _message(message: NewMessage) -> BaseMessage:
    first = message.parts[0]
    if isinstance(first, ToolResultPart):
        return _tool_message(first)
    head = message_note(message.parts, LANGCHAIN)
    whole, is_text, is_silent = head.pop("whole", None), head.pop("text", None), head.pop("silent", False)
    kind = str(head.pop("type", "")) or next(name for name, role in _ROLES.items() if role == message.role)
    kind = kind if kind in _KINDS and kind != "tool" else "human"
    parts = () if is_silent else message.parts
    fields: Json = {**head, "name": message.speaker}
    if whole is not None:
        return _KINDS[kind](**{**fields, **whole})
    fields["content"] = _content(parts, is_text=is_text)
    if kind == "ai":
        fields |= _tool_calls(parts)
    return _KINDS[kind](**fields)


def _content(parts: Sequence[Part], *, is_text: bool | None) -> str | list[Block]:
    said = [part for part in parts if not isinstance(part, ToolCallPart) or "block" in notes(part, LANGCHAIN)]
    texts = [part.text for part in said if isinstance(part, TextPart)]
    is_plain = len(texts) == len(said) and not any("block" in notes(part, LANGCHAIN) for part in said)
    if is_text or (is_text is None and is_plain and len(texts) <= 1):
        return "\n\n".join(texts)
    if is_text is None and not is_plain:
        # The parts come from another framework. Reasoning and unknown parts are left out, because LangChain cannot read them.
        said = [
            part
            for part in said
            if not isinstance(part, ReasoningPart | UnknownPart) or "block" in notes(part, LANGCHAIN)
        ]
    return [block for part in said if (block := block_of(part)) is not None]


def _tool_calls(parts: Sequence[Part]) -> Json:
    calls: list[Json] = []
    broken: list[Json] = []
    for part in parts:
        if not isinstance(part, ToolCallPart):
            continue
        rest: Json = notes(part, LANGCHAIN).get("call") or {}
        is_broken = rest.get("type") == "invalid_tool_call"
        arguments: Any = part.arguments if is_broken else arguments_object(part.arguments, "value")
        entry = {"name": part.name, "args": arguments, "id": part.id, "type": "tool_call", **rest}
        (broken if is_broken else calls).append(entry)
    return {"tool_calls": calls, "invalid_tool_calls": broken}


def _tool_message(part: ToolResultPart) -> ToolMessage:
    is_from_langchain = "message" in notes(part, LANGCHAIN)
    head = message_note((part,), LANGCHAIN)
    whole: Json = head.pop("whole", {})
    for name in ("type", "text"):
        head.pop(name, None)
    content: Any = part.content
    if is_from_langchain and isinstance(content, list):
        content = [_result_block(block, part.files) for block in cast("list[Block]", content)]
    elif not isinstance(content, str) and not _is_blocks(content):
        content = "" if content is None else dumps(content)
    if part.files and not is_from_langchain:
        said: list[Block] = [{"type": "text", "text": content}] if isinstance(content, str) else list(content)
        content = [*said, *filter(None, map(block_of, part.files))]
    fields: Json = {
        **head,
        "content": content,
        "tool_call_id": part.call_id,
        "name": part.name,
        "status": "error" if part.is_error else "success",
        **whole,
    }
    return ToolMessage(**fields)


def _is_blocks(content: Any) -> bool:
    if not isinstance(content, list) or not content:
        return False
    return all(isinstance(one, dict) and "type" in one for one in cast("list[Any]", content))


def _result_block(block: Block, files: Sequence[FilePart]) -> Block:
    if isinstance(block, dict) and block.get("type") == "file" and isinstance(number := block.get("file"), int):
        return block_of(files[number]) or block
    return block


# ---------------------------------------------------------------- usage


def usage_of(message: AIMessage, model: str | None) -> Usage | None:
    """Return the usage of a request; None if LangChain reports none."""
    reported = message.usage_metadata
    if reported is None:
        return None
    details = cast("dict[str, int]", reported.get("input_token_details") or {})
    name = model or message.response_metadata.get("model_name")
    read, written = details.get("cache_read"), details.get("cache_creation")
    return usage_of_total(name, reported["input_tokens"], reported["output_tokens"], read, written)
