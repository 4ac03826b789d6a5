"""Messages of LangChain, to and from Memolog messages, without loss.

What our parts cannot hold is kept in their `extra`. A message that would not come back the same is kept whole.
"""

import base64
from collections.abc import Callable, Iterator, Sequence
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

from memolog.adapters.roundtrip import (
    Json,
    Path,
    Said,
    arguments_object,
    decoded,
    json_fields,
    kept,
    message_note,
    noted,
    notes,
    rebuilt,
    text_at,
    usage_of_total,
    value_at,
    with_message_note,
)
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

KEY: Final = "langchain"
"""The key of a part's `extra` that is LangChain's."""

Block: TypeAlias = str | Json

# The media type of a block that does not name one.
_MEDIA_TYPES: Final = {
    "image": "image/png",
    "image_url": "image/png",
    "input_image": "image/png",
    "audio": "audio/wav",
    "input_audio": "audio/wav",
    "video": "video/mp4",
    "file": "application/pdf",
    "input_file": "application/pdf",
    "document": "application/pdf",
    "text-plain": "text/plain",
}
# Where the content or the address of a file may stand, in the order in which they are tried.
_DATA: Final[tuple[Path, ...]] = (
    ("base64",),
    ("data",),
    ("source", "data"),
    ("input_audio", "data"),
    ("file", "file_data"),
    ("file_data",),
)
_ADDRESS: Final[tuple[Path, ...]] = (("url",), ("image_url", "url"), ("image_url",), ("source", "url"))


# ---------------------------------------------------------------- a block becomes a part


def part_of(block: Block) -> Part:
    """Return the part for a block; a block that no other part can hold becomes an unknown part."""
    if isinstance(block, str):
        return TextPart(text=block, extra={KEY: {"item": True}})
    kind = block.get("type")
    if kind in _READERS and (part := _READERS[kind](block)) is not None:
        return part
    if kind in _MEDIA_TYPES and (part := _file(block)) is not None:
        return part
    return UnknownPart(data=block)


def _text(block: Json) -> Part | None:
    text = text_at(block, "text")
    if text is None:
        return None
    return kept(TextPart(text=text), KEY, block, plain={"type": "text", "text": text}, text=("text",))


def _thinking(block: Json) -> Part | None:
    text, signature = text_at(block, "thinking"), text_at(block, "signature")
    if text is None:
        return None
    signed: dict[str, Path] = {} if signature is None else {"signature": ("signature",)}
    return kept(ReasoningPart(text=text, signature=signature), KEY, block, text=("thinking",), **signed)


def _hidden_thinking(block: Json) -> Part | None:
    data = text_at(block, "data")
    return None if data is None else kept(ReasoningPart(encrypted=data), KEY, block, encrypted=("data",))


def _reasoning(block: Json) -> Part | None:
    places = {"text": ("reasoning",), "signature": ("extras", "signature"), "encrypted": ("encrypted_content",)}
    found = {name: text for name, path in places.items() if (text := text_at(block, *path)) is not None}
    summaries = block.get("summary")
    if not found and not isinstance(summaries, list):
        return None
    # A list of summaries is not taken apart: the provider gets it back as it was.
    told = cast("list[Any]", summaries) if isinstance(summaries, list) else []
    texts = [text for item in told if (text := text_at(item, "text")) is not None]
    part = ReasoningPart(
        text=found.get("text", "\n\n".join(texts)),
        signature=found.get("signature"),
        encrypted=found.get("encrypted"),
    )
    return kept(part, KEY, block, **{name: places[name] for name in found})


def _file(block: Json) -> Part | None:
    kind = str(block["type"])
    name = next((name for key in ("filename", "name", "title") if (name := text_at(block, key)) is not None), None)
    detail = value_at(block, ("image_url", "detail")) or block.get("detail")
    detail = detail if isinstance(detail, str) else None
    for path in (*_DATA, *_ADDRESS):
        if not isinstance(text := value_at(block, path), str):
            continue
        if path in _ADDRESS and not text.startswith("data:"):
            address = FilePart(media_type=_media_type(block, kind), url=text, name=name, detail=detail)
            return kept(address, KEY, block, url=path)
        data = decoded(text)
        head = text.removeprefix("data:").split(";")[0].split(",")[0] if text.startswith("data:") else ""
        if data is None:
            return None
        file = FilePart(media_type=head or _media_type(block, kind), data=data, name=name, detail=detail)
        return kept(file, KEY, block, data=path)
    return None


def _media_type(block: Json, kind: str) -> str:
    for path in (("mime_type",), ("media_type",), ("source", "media_type")):
        if (found := text_at(block, *path)) is not None:
            return found
    if (form := text_at(block, "input_audio", "format")) is not None:
        return f"audio/{form}"
    return _MEDIA_TYPES[kind]


_READERS: Final[dict[str, Callable[[Json], Part | None]]] = {
    "text": _text,
    "thinking": _thinking,
    "redacted_thinking": _hidden_thinking,
    "reasoning": _reasoning,
}


# ---------------------------------------------------------------- a part becomes a block


def block_of(part: Part) -> Block | None:
    """Return the block that a part came from, a standard block for other parts, or None if there is none."""
    stored = notes(part, KEY)
    if stored.get("item") is True and isinstance(part, TextPart):
        return part.text
    if "block" in stored:
        return rebuilt(part, KEY)
    match part:
        case TextPart():
            return {"type": "text", "text": part.text}
        case FilePart():
            return _standard_file(part)
        case UnknownPart():
            return cast("Json", part.data) if isinstance(part.data, dict) else None
        case ReasoningPart() | ToolCallPart() | ToolResultPart():
            # Reasoning is signed for its model, and reasoning of another library has no form that LangChain takes.
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
_CALL_BLOCKS: Final = ("tool_use", "tool_call", "function_call")
# Fields that parts and speaker hold; the other fields are kept as a note.
_SAID: Final = ("content", "tool_calls", "invalid_tool_calls", "name")
# The value of an empty field, where it is not None.
_EMPTY: Final[dict[str, Any]] = {"additional_kwargs": {}, "response_metadata": {}}
_SAID_BY_RESULT: Final = (*_SAID, "tool_call_id", "status")


# ---------------------------------------------------------------- from LangChain


def from_langchain(message: BaseMessage) -> NewMessage:
    """Return a message of LangChain as a Memolog message with the same id."""
    if isinstance(message, BaseMessageChunk):
        message = message_chunk_to_message(message)
    dump = json_fields(message.model_dump(), *_SAID)
    is_result = isinstance(message, ToolMessage)
    parts = (_result(dump),) if is_result else tuple(_parts(dump))
    said = _SAID_BY_RESULT if is_result else _SAID
    head = {name: value for name, value in dump.items() if name not in said and value != _EMPTY.get(name)}
    if isinstance(dump["content"], str):
        head["text"] = True
    if not parts:
        # A message needs a part: an answer may be nothing but its usage.
        head["silent"] = True
    made = NewMessage(
        role=_role(message, dump),
        parts=with_message_note(parts or (TextPart(text=""),), KEY, **head),
        id=message.id,
        speaker=None if is_result else message.name,
    )
    if json_fields(_message(made).model_dump(), *_SAID) == dump:
        return made
    whole = {name: dump[name] for name in _SAID if name in dump}
    return replace(made, parts=with_message_note(made.parts, KEY, whole=whole))


def _role(message: BaseMessage, dump: Json) -> Role:
    spoken = _SPOKEN.get(str(dump.get("role")).lower()) if isinstance(message, ChatMessage) else None
    return spoken or _ROLES.get(message.type, "user")


def _parts(dump: Json) -> Iterator[Part]:
    calls = {_call_id(call, dump, n): call for n, call in enumerate(_calls(dump))}
    content: str | list[Block] = dump["content"]
    if isinstance(content, str):
        if content:
            yield TextPart(text=content)
        content = []
    for block in content:
        id_ = _called(block)
        yield _call_part(id_, calls.pop(id_), block) if id_ in calls else part_of(block)
    for id_, call in calls.items():
        yield _call_part(id_, call, None)


def _calls(dump: Json) -> list[Json]:
    return [*(dump.get("tool_calls") or ()), *(dump.get("invalid_tool_calls") or ())]


def _call_id(call: Json, dump: Json, number: int) -> str:
    # Some providers give a call no id: derive it from the message, so that it is the same every time.
    return call.get("id") or f"{dump.get('id') or ''}:{number}"


def _called(block: Block) -> str:
    if isinstance(block, str) or block.get("type") not in _CALL_BLOCKS:
        return ""
    return str(block.get("call_id") or block.get("id") or "")


def _call_part(id_: str, call: Json, block: Block | None) -> Part:
    entry: Json = {"name": call.get("name") or "", "args": call.get("args"), "id": id_, "type": "tool_call"}
    rest: Json = {name: value for name, value in call.items() if name not in entry or entry[name] != value}
    part = ToolCallPart(
        id=id_, name=entry["name"], arguments=entry["args"], extra={KEY: {"call": rest}} if rest else None
    )
    return part if block is None else noted(part, KEY, block=block)


def _result(dump: Json) -> Part:
    content: str | list[Block] = dump["content"]
    files: list[FilePart] = []
    shown: list[Block] = []
    for block in content if isinstance(content, list) else ():
        # Files are kept apart, so that their data is not counted as text.
        part = part_of(block)
        if isinstance(part, FilePart):
            files.append(part)
            shown.append({"type": "file", "file": len(files) - 1, "media_type": part.media_type})
        else:
            shown.append(block)
    return ToolResultPart(
        call_id=dump["tool_call_id"],
        content=content if isinstance(content, str) else shown,
        name=dump.get("name"),
        is_error=dump.get("status") == "error",
        files=tuple(files),
    )


# ---------------------------------------------------------------- to LangChain


def to_langchain(message: Said) -> list[AnyMessage]:
    """Return a Memolog message as messages of LangChain: one for each tool result, and one for the rest."""
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
    head = message_note(message.parts, KEY)
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
    said = [part for part in parts if not isinstance(part, ToolCallPart) or "block" in notes(part, KEY)]
    texts = [part.text for part in said if isinstance(part, TextPart)]
    is_plain = len(texts) == len(said) and not any("block" in notes(part, KEY) for part in said)
    if is_text or (is_text is None and is_plain and len(texts) <= 1):
        return "\n\n".join(texts)
    if is_text is None and not is_plain:
        # Parts of another library: those without a block in LangChain are left out.
        said = [
            part for part in said if not isinstance(part, ReasoningPart | UnknownPart) or "block" in notes(part, KEY)
        ]
    return [block for part in said if (block := block_of(part)) is not None]


def _tool_calls(parts: Sequence[Part]) -> Json:
    calls: list[Json] = []
    broken: list[Json] = []
    for part in parts:
        if not isinstance(part, ToolCallPart):
            continue
        rest: Json = notes(part, KEY).get("call") or {}
        is_broken = rest.get("type") == "invalid_tool_call"
        arguments: Any = part.arguments if is_broken else arguments_object(part.arguments, "value")
        entry = {"name": part.name, "args": arguments, "id": part.id, "type": "tool_call", **rest}
        (broken if is_broken else calls).append(entry)
    return {"tool_calls": calls, "invalid_tool_calls": broken}


def _tool_message(part: ToolResultPart) -> ToolMessage:
    is_ours = "message" in notes(part, KEY)
    head = message_note((part,), KEY)
    whole: Json = head.pop("whole", {})
    for name in ("type", "text"):
        head.pop(name, None)
    content: Any = part.content
    if is_ours and isinstance(content, list):
        content = [_result_block(block, part.files) for block in cast("list[Block]", content)]
    elif not isinstance(content, str) and not _is_blocks(content):
        content = "" if content is None else dumps(content)
    if part.files and not is_ours:
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
    """Return the usage that LangChain reports for a request; None if it reports none."""
    reported = message.usage_metadata
    if reported is None:
        return None
    details = cast("dict[str, int]", reported.get("input_token_details") or {})
    name = model or message.response_metadata.get("model_name")
    read, written = details.get("cache_read"), details.get("cache_creation")
    return usage_of_total(name, reported["input_tokens"], reported["output_tokens"], read, written)
