"""Messages of LangChain, to and from Memolog messages, without loss.

What our parts cannot hold is kept in their `extra`. A message that would not come back the same is kept whole.
"""

import base64
import binascii
from collections.abc import Callable, Iterator, Mapping, Sequence
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

from memolog.adapters.roundtrip import Path, Said, filled, holding, value_at
from memolog.domain.codec import check_json, dumps, loads
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

KEY: Final = "langchain"
"""Under this key a part's `extra` holds what LangChain needs back."""

Block: TypeAlias = str | dict[str, Any]

# What LangChain calls them, and what is assumed where a block does not say more.
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
# Where the content or the address of a file is, in the order in which they are tried.
_DATA: Final[tuple[Path, ...]] = (
    ("base64",),
    ("data",),
    ("source", "data"),
    ("input_audio", "data"),
    ("file", "file_data"),
    ("file_data",),
)
_ADDRESS: Final[tuple[Path, ...]] = (("url",), ("image_url", "url"), ("image_url",), ("source", "url"))


def carried(part: Part) -> Mapping[str, Any]:
    """Return what a part keeps for LangChain; empty where another library made it."""
    found = (part.extra or {}).get(KEY)
    return cast("Mapping[str, Any]", found) if isinstance(found, Mapping) else {}


def with_carried(part: Part, **more: Any) -> Part:
    """Return the part with more to keep for LangChain."""
    return replace(part, extra={**(part.extra or {}), KEY: {**carried(part), **more}})


def _extra(block: dict[str, Any], **holes: Path) -> dict[str, Any]:
    return {KEY: holding(block, **holes)}


# ---------------------------------------------------------------- a block becomes a part


def part_of(block: Block) -> Part:
    """Return the part that says what a block says; one that nothing of ours can say is kept whole."""
    if isinstance(block, str):
        return TextPart(text=block, extra={KEY: {"item": True}})
    kind = block.get("type")
    if kind in _READERS and (part := _READERS[kind](block)) is not None:
        return part
    if kind in _MEDIA_TYPES and (part := _file(block)) is not None:
        return part
    return UnknownPart(data=block)


def _text(block: dict[str, Any]) -> Part | None:
    text = block.get("text")
    if not isinstance(text, str):
        return None
    if block == {"type": "text", "text": text}:
        return TextPart(text=text)
    return TextPart(text=text, extra=_extra(block, text=("text",)))


def _thinking(block: dict[str, Any]) -> Part | None:
    text, signature = block.get("thinking"), block.get("signature")
    if not isinstance(text, str):
        return None
    if not isinstance(signature, str):
        return ReasoningPart(text=text, extra=_extra(block, text=("thinking",)))
    return ReasoningPart(
        text=text, signature=signature, extra=_extra(block, text=("thinking",), signature=("signature",))
    )


def _hidden_thinking(block: dict[str, Any]) -> Part | None:
    data = block.get("data")
    return ReasoningPart(encrypted=data, extra=_extra(block, encrypted=("data",))) if isinstance(data, str) else None


def _reasoning(block: dict[str, Any]) -> Part | None:
    holes: dict[str, Path] = {}
    values: dict[str, str] = {}
    for name, path in (
        ("text", ("reasoning",)),
        ("signature", ("extras", "signature")),
        ("encrypted", ("encrypted_content",)),
    ):
        if isinstance(value := value_at(block, path), str):
            values[name], holes[name] = value, path
    if not values and not isinstance(block.get("summary"), list):
        return None
    if "text" not in values:
        # A provider that tells its thoughts as a list of summaries gets that list back as it was.
        values["text"] = "\n\n".join(_summaries(block))
    return ReasoningPart(
        text=values["text"],
        signature=values.get("signature"),
        encrypted=values.get("encrypted"),
        extra=_extra(block, **holes),
    )


def _summaries(block: dict[str, Any]) -> list[str]:
    found = cast("list[Any]", block.get("summary") or [])
    return [text for item in found if isinstance(text := value_at(item, ("text",)), str)]


def _file(block: dict[str, Any]) -> Part | None:
    kind = str(block["type"])
    for path in _DATA:
        if isinstance(text := value_at(block, path), str):
            return _from_data(block, kind, path, text)
    for path in _ADDRESS:
        if isinstance(text := value_at(block, path), str):
            if text.startswith("data:"):
                return _from_data(block, kind, path, text)
            media = _media_type(block, kind)
            return FilePart(media_type=media, url=text, **_sizes(block), extra=_extra(block, url=path))
    return None


def _from_data(block: dict[str, Any], kind: str, path: Path, text: str) -> Part | None:
    head, _, body = text.rpartition(",") if text.startswith("data:") else ("", "", text)
    try:
        data = base64.b64decode(body, validate=True)
    except (binascii.Error, ValueError):
        return None
    if base64.b64encode(data).decode() != body:
        return None
    media = head.removeprefix("data:").split(";")[0] or _media_type(block, kind)
    extra = _extra(block, data=path)
    if head:
        extra[KEY]["head"] = f"{head},"
    return FilePart(media_type=media, data=data, **_sizes(block), extra=extra)


def _sizes(block: dict[str, Any]) -> dict[str, Any]:
    name = next((name for key in ("filename", "name", "title") if isinstance(name := block.get(key), str)), None)
    detail = value_at(block, ("image_url", "detail")) or block.get("detail")
    return {"name": name, "detail": detail if isinstance(detail, str) else None}


def _media_type(block: dict[str, Any], kind: str) -> str:
    for path in (("mime_type",), ("media_type",), ("source", "media_type")):
        if isinstance(found := value_at(block, path), str):
            return found
    if isinstance(form := value_at(block, ("input_audio", "format")), str):
        return f"audio/{form}"
    return _MEDIA_TYPES[kind]


_READERS: Final[dict[str, Callable[[dict[str, Any]], Part | None]]] = {
    "text": _text,
    "thinking": _thinking,
    "redacted_thinking": _hidden_thinking,
    "reasoning": _reasoning,
}


# ---------------------------------------------------------------- a part becomes a block


def block_of(part: Part) -> Block | None:
    """Return the block that a part came from, or a standard one for what another library said; None for what none can say."""
    kept = carried(part)
    if kept.get("item") is True and isinstance(part, TextPart):
        return part.text
    if "block" in kept:
        return filled(part, kept)
    match part:
        case TextPart():
            return {"type": "text", "text": part.text}
        case FilePart():
            return _standard_file(part)
        case UnknownPart():
            return cast("dict[str, Any]", part.data) if isinstance(part.data, dict) else None
        case ReasoningPart() | ToolCallPart() | ToolResultPart():
            # Thoughts are signed for the model that had them, and another library's are not in a form that it takes back here.
            return None


def _standard_file(part: FilePart) -> Block:
    family = part.media_type.split("/")[0]
    block: dict[str, Any] = {"type": family if family in {"image", "audio", "video"} else "file"}
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
# What parts and the speaker say; the rest of a message's fields goes along.
_SAID: Final = ("content", "tool_calls", "invalid_tool_calls", "name")
# What a field holds where it says nothing; the others hold None.
_EMPTY: Final[dict[str, Any]] = {"additional_kwargs": {}, "response_metadata": {}}
_SAID_BY_RESULT: Final = (*_SAID, "tool_call_id", "status")


# ---------------------------------------------------------------- from LangChain


def from_langchain(message: BaseMessage) -> NewMessage:
    """Return a message of LangChain as ours, under the same id."""
    if isinstance(message, BaseMessageChunk):
        message = message_chunk_to_message(message)
    dump = _plain(message.model_dump())
    role = _role(message, dump)
    parts = (_result(dump),) if isinstance(message, ToolMessage) else tuple(_parts(dump))
    said = _SAID_BY_RESULT if isinstance(message, ToolMessage) else _SAID
    head = {name: value for name, value in dump.items() if name not in said and value != _EMPTY.get(name)}
    if isinstance(dump["content"], str):
        head["text"] = True
    # A message without a word has a part all the same: an answer may be nothing but its usage.
    first = parts[0] if parts else TextPart(text="")
    if not parts:
        head["silent"] = True
    made = NewMessage(
        role=role,
        parts=(with_carried(first, message=head), *parts[1:]),
        id=message.id,
        speaker=None if isinstance(message, ToolMessage) else message.name,
    )
    return made if _plain(_rebuilt(made).model_dump()) == dump else _kept_whole(made, dump)


def _role(message: BaseMessage, dump: dict[str, Any]) -> Role:
    spoken = _SPOKEN.get(str(dump.get("role")).lower()) if isinstance(message, ChatMessage) else None
    return spoken or _ROLES.get(message.type, "user")


def _kept_whole(made: NewMessage, dump: dict[str, Any]) -> NewMessage:
    first, *rest = made.parts
    kept = {"whole": {name: dump[name] for name in _SAID if name in dump}}
    return NewMessage(
        role=made.role,
        parts=(with_carried(first, message={**carried(first)["message"], **kept}), *rest),
        id=made.id,
        speaker=made.speaker,
    )


def _parts(dump: dict[str, Any]) -> Iterator[Part]:
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


def _calls(dump: dict[str, Any]) -> list[dict[str, Any]]:
    return [*(dump.get("tool_calls") or ()), *(dump.get("invalid_tool_calls") or ())]


def _call_id(call: dict[str, Any], dump: dict[str, Any], number: int) -> str:
    # Some providers give a call no id: ours follows from the message's, so that it is the same when it is saved again.
    return call.get("id") or f"{dump.get('id') or ''}:{number}"


def _called(block: Block) -> str:
    if isinstance(block, str) or block.get("type") not in _CALL_BLOCKS:
        return ""
    return str(block.get("call_id") or block.get("id") or "")


def _call_part(id_: str, call: dict[str, Any], block: Block | None) -> Part:
    entry: dict[str, Any] = {"name": call.get("name") or "", "args": call.get("args"), "id": id_, "type": "tool_call"}
    kept: dict[str, Any] = {name: value for name, value in call.items() if name not in entry or entry[name] != value}
    part = ToolCallPart(
        id=id_, name=entry["name"], arguments=entry["args"], extra={KEY: {"call": kept}} if kept else None
    )
    return part if block is None else with_carried(part, block=block)


def _result(dump: dict[str, Any]) -> Part:
    content: str | list[Block] = dump["content"]
    files: list[FilePart] = []
    shown: list[Block] = []
    for block in content if isinstance(content, list) else ():
        # The data of an image counts as an image, and not as text that nobody can read.
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


def _plain(dump: dict[str, Any]) -> dict[str, Any]:
    """Return a message's fields as JSON values; what is none (an artifact of a tool may be anything) is left out."""
    return {name: value for name, value in dump.items() if name in _SAID or _is_json(value)}


def _is_json(value: object) -> bool:
    try:
        dumps(value)
        check_json("A field", value)
    except (NotJson, TypeError, ValueError, RecursionError):
        return False
    return True


# ---------------------------------------------------------------- to LangChain


def to_langchain(message: Said) -> list[AnyMessage]:
    """Return the messages of LangChain that say what ours says: one, or one a result."""
    results = [part for part in message.parts if isinstance(part, ToolResultPart)]
    rest = tuple(part for part in message.parts if not isinstance(part, ToolResultPart))
    made: list[BaseMessage] = [_tool_message(part) for part in results]
    if rest:
        made.append(_rebuilt(NewMessage(role=message.role, parts=rest, speaker=message.speaker)))
    return cast("list[AnyMessage]", made)


def _head(parts: Sequence[Part]) -> dict[str, Any]:
    found = carried(parts[0]).get("message") if parts else None
    return dict(cast("dict[str, Any]", found)) if isinstance(found, dict) else {}


def _rebuilt(message: NewMessage) -> BaseMessage:
    first = message.parts[0]
    if isinstance(first, ToolResultPart):
        return _tool_message(first)
    head = _head(message.parts)
    whole, is_text, is_silent = head.pop("whole", None), head.pop("text", None), head.pop("silent", False)
    kind = str(head.pop("type", "")) or next(name for name, role in _ROLES.items() if role == message.role)
    kind = kind if kind in _KINDS and kind != "tool" else "human"
    parts = () if is_silent else message.parts
    fields: dict[str, Any] = {**head, "name": message.speaker}
    if whole is not None:
        return _KINDS[kind](**{**fields, **whole})
    fields["content"] = _content(parts, is_text=is_text)
    if kind == "ai":
        fields |= _tool_calls(parts)
    return _KINDS[kind](**fields)


def _content(parts: Sequence[Part], *, is_text: bool | None) -> str | list[Block]:
    said = [part for part in parts if not isinstance(part, ToolCallPart) or "block" in carried(part)]
    texts = [part.text for part in said if isinstance(part, TextPart)]
    is_plain = len(texts) == len(said) and not any("block" in carried(part) for part in said)
    if is_text or (is_text is None and is_plain and len(texts) <= 1):
        return "\n\n".join(texts)
    if is_text is None and not is_plain:
        # Words that another library's parts stand for: what has no block here is left out, and never a reason to fail.
        said = [part for part in said if not isinstance(part, ReasoningPart | UnknownPart) or "block" in carried(part)]
    return [block for part in said if (block := block_of(part)) is not None]


def _tool_calls(parts: Sequence[Part]) -> dict[str, Any]:
    calls: list[dict[str, Any]] = []
    broken: list[dict[str, Any]] = []
    for part in parts:
        if not isinstance(part, ToolCallPart):
            continue
        kept: dict[str, Any] = carried(part).get("call") or {}
        is_broken = kept.get("type") == "invalid_tool_call"
        arguments: Any = part.arguments if is_broken else _as_arguments(part.arguments)
        entry = {"name": part.name, "args": arguments, "id": part.id, "type": "tool_call", **kept}
        (broken if is_broken else calls).append(entry)
    return {"tool_calls": calls, "invalid_tool_calls": broken}


def _as_arguments(arguments: Any) -> dict[str, Any]:
    """Return the arguments of a call, which another library may have saved as text: LangChain takes nothing but an object."""
    if isinstance(arguments, dict):
        return cast("dict[str, Any]", arguments)
    if not isinstance(arguments, str):
        return {} if arguments is None else {"value": arguments}
    try:
        read = loads(arguments or "{}")
    except ValueError:
        return {"value": arguments}
    return cast("dict[str, Any]", read) if isinstance(read, dict) else {"value": read}


def _tool_message(part: ToolResultPart) -> ToolMessage:
    is_ours = "message" in carried(part)
    head = _head((part,))
    whole: dict[str, Any] = head.pop("whole", {})
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
    fields: dict[str, Any] = {
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
    """Return what a request cost, as LangChain reports it: its input counts what the cache held, ours does not."""
    reported = message.usage_metadata
    if reported is None:
        return None
    details = cast("dict[str, int]", reported.get("input_token_details") or {})
    read, written = details.get("cache_read") or 0, details.get("cache_creation") or 0
    name = model or message.response_metadata.get("model_name") or "unknown"
    return Usage(
        model=str(name),
        input_tokens=max(reported["input_tokens"] - read - written, 0),
        output_tokens=reported["output_tokens"],
        cache_read_tokens=read,
        cache_write_tokens=written,
    )
