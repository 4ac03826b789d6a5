"""Parse messages of Pydantic AI and LangChain from JSON, for imports and for the adapters.

Fields that Memolog's parts do not have are stored as notes (see `memolog.transfer.exact`). Neither library must be installed.
"""

import base64
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final, cast

from memolog.core.exact_json import JsonObject
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
from memolog.transfer.conversation import Data, as_data, as_list, message, moment, plain_text, stable_id
from memolog.transfer.exact import Json, Path, decoded, kept, noted, notes, text_at, value_at


def _without_notes(part: Part) -> Part:
    """Return a part without the notes, which an import does not need."""
    if isinstance(part, ToolResultPart):
        part = replace(part, files=tuple(replace(file, extra=None) for file in part.files))
    return replace(part, extra=None)


# ---------------------------------------------------------------- Pydantic AI

PYDANTIC_AI: Final = "pydantic_ai"
"""The key in `extra` for notes on messages of Pydantic AI: fields of its message, its part and an item of a prompt."""
_NO_TYPE: Final = "application/octet-stream"
_URLS: Final = frozenset({"image-url", "audio-url", "document-url", "video-url"})
_FILES: Final = _URLS | {"binary", "uploaded-file"}
_TEXTS: Final = frozenset({"text-content", "structured-content"})
_GOOD: Final = "success"
# The application sends these parts, so the observer must not treat them as words of the user.
_FEEDBACK: Final = frozenset({"retry-feedback", "retry-prompt"})
# The fields that the Memolog part stores, by kind of part.
_STORED: Final = {
    "text": ("content",),
    "thinking": ("content", "signature"),
    "tool-call": ("tool_call_id", "tool_name", "args"),
}


def mark(**values: object) -> JsonObject | None:
    """Return the `extra` of a part with these notes, or None if all of them are None."""
    given = {name: value for name, value in values.items() if value is not None}
    return {PYDANTIC_AI: given} if given else None


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


def to_request_parts(part: Json, text: str) -> tuple[Part, ...]:
    """Return the Memolog parts for a part of a request. `text` is the text that the library sends to a model as feedback."""
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
    """Return the part for one item of a prompt. `part` has the other fields of the prompt, for the first item only."""
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
        data = item["data"] if isinstance(item["data"], bytes) else base64.urlsafe_b64decode(item["data"])
        rest = _rest(item, "data", "media_type")
        return FilePart(media_type=media_type, data=data, extra=mark(part=part, item=rest))
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
    """Return the content of a tool without files, the files, and their indexes. The index is -1 if the content is one file."""
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


def to_response_part(part: Json) -> Part:
    """Return the Memolog part for a part of a response."""
    kind = str(part.get("part_kind"))
    stored = _STORED.get(kind)
    if stored is None:
        content = part.get("content")
        if kind == "file" and _is_file(content):
            file = _read_file(cast("Json", content))
            return FilePart(
                media_type=file.media_type,
                data=file.data,
                extra=mark(part=_left(part, "content"), item=notes(file, PYDANTIC_AI)["item"]),
            )
        return _unknown(part)
    rest = _left(part, *stored)
    extra = None if rest == {"part_kind": kind} else mark(part=rest)
    if kind == "text":
        return TextPart(text=part["content"], extra=extra)
    if kind == "thinking":
        return ReasoningPart(text=part["content"], signature=part.get("signature"), extra=extra)
    return ToolCallPart(id=part["tool_call_id"], name=part["tool_name"], arguments=part.get("args"), extra=extra)


def _unknown(part: Json) -> UnknownPart:
    return UnknownPart(data=part, extra=mark(part={"part_kind": part.get("part_kind")}))


def _left(data: Mapping[str, Any], *stored: str) -> Json:
    """Return the other fields of a part. Fields that are None are omitted, because None is their default."""
    return {name: value for name, value in data.items() if name not in stored and value is not None}


def _rest(item: Mapping[str, Any], *stored: str) -> Json:
    return {name: value for name, value in item.items() if name not in stored}


def is_pydantic_ai(messages: list[Any]) -> bool:
    """Return whether these are messages of Pydantic AI."""
    return all(as_data(one).get("kind") in {"request", "response"} and "parts" in as_data(one) for one in messages)


def pydantic_ai_messages(messages: list[Any], name: str) -> Iterator[NewMessage]:
    """Yield the messages. A request whose parts have several roles becomes one message per role."""
    for number, data in enumerate(map(as_data, messages)):
        key = stable_id("pydantic-ai", name, number)
        at = moment(data.get("timestamp"))
        pieces: list[tuple[Role, list[Part], Any]] = []
        for item in map(as_data, as_list(data.get("parts"))):
            is_response = data.get("kind") == "response"
            role: Role = "assistant" if is_response else request_role(item)
            parts = [part for part in _read(dict(item), is_response=is_response) if part != TextPart(text="")]
            if pieces and pieces[-1][0] == role:
                pieces[-1][1].extend(parts)
            elif parts:
                pieces.append((role, parts, moment(item.get("timestamp")) or at))
        metadata = {"model": data["model_name"]} if data.get("model_name") else {}
        for index, (role, parts, when) in enumerate(pieces):
            yield message(role, parts, id=key if not index else f"{key}-{index}", at=when, metadata=metadata)


def _read(item: Json, *, is_response: bool) -> list[Part]:
    try:
        text = plain_text(item.get("content"))
        parts = (to_response_part(item),) if is_response else to_request_parts(item, text)
    except (KeyError, TypeError, ValueError):
        parts = (UnknownPart(data=item),)
    return list(map(_without_notes, parts))


# ---------------------------------------------------------------- LangChain

LANGCHAIN: Final = "langchain"
"""The key in `extra` for notes on messages of LangChain."""
_LANGCHAIN_ROLES: dict[str, Role] = {
    "human": "user",
    "user": "user",
    "ai": "assistant",
    "assistant": "assistant",
    "system": "system",
    "developer": "system",
    "tool": "tool",
    "function": "tool",
}
# For each type of text block: the type of the part, and the path in the block of each field. The first field is required.
_LANGCHAIN_TEXTS: Final[dict[str, tuple[type[TextPart | ReasoningPart], dict[str, Path]]]] = {
    "text": (TextPart, {"text": ("text",)}),
    "thinking": (ReasoningPart, {"text": ("thinking",), "signature": ("signature",)}),
    "redacted_thinking": (ReasoningPart, {"encrypted": ("data",)}),
    "reasoning": (
        ReasoningPart,
        {"text": ("reasoning",), "signature": ("extras", "signature"), "encrypted": ("encrypted_content",)},
    ),
}
# The media type of a block that does not contain one.
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
# The paths at which a block may have the content or the URL of a file. They are tried in this order.
_DATA: Final[tuple[Path, ...]] = (
    ("base64",),
    ("data",),
    ("source", "data"),
    ("input_audio", "data"),
    ("file", "file_data"),
    ("file_data",),
)
_ADDRESS: Final[tuple[Path, ...]] = (("url",), ("image_url", "url"), ("image_url",), ("source", "url"))


def langchain_part(block: Any) -> Part:
    """Return the part for a block of content. A block that is not supported becomes an unknown part."""
    if isinstance(block, str):
        return TextPart(text=block, extra={LANGCHAIN: {"item": True}})
    kind = as_data(block).get("type")
    if kind in _LANGCHAIN_TEXTS and (part := _langchain_text(block, kind)) is not None:
        return part
    if kind in _MEDIA_TYPES and (part := _langchain_file(block)) is not None:
        return part
    return UnknownPart(data=block)


def _langchain_text(block: Json, kind: str) -> Part | None:
    make, places = _LANGCHAIN_TEXTS[kind]
    found = {name: text for name, path in places.items() if isinstance(text := value_at(block, path), str)}
    summaries: object = block.get("summary") if kind == "reasoning" else None
    is_whole = bool(found) if kind == "reasoning" else next(iter(places)) in found
    if not is_whole and not isinstance(summaries, list):
        return None
    # A list of summaries also stays in the notes, so that the provider receives the same list again.
    texts = [text for item in as_list(cast("object", summaries)) if (text := text_at(item, "text")) is not None]
    said: dict[str, Any] = {"text": "\n\n".join(texts), **found}
    plain = {"type": "text", "text": said["text"]} if kind == "text" else None
    return kept(make(**said), LANGCHAIN, block, plain=plain, **{name: places[name] for name in found})


def _langchain_file(block: Json) -> Part | None:
    kind = str(block["type"])
    name = next((name for key in ("filename", "name", "title") if (name := text_at(block, key)) is not None), None)
    detail = value_at(block, ("image_url", "detail")) or block.get("detail")
    detail = detail if isinstance(detail, str) else None
    for path in (*_DATA, *_ADDRESS):
        if not isinstance(text := value_at(block, path), str):
            continue
        if path in _ADDRESS and not text.startswith("data:"):
            address = FilePart(media_type=_media_type(block, kind), url=text, name=name, detail=detail)
            return kept(address, LANGCHAIN, block, url=path)
        data = decoded(text)
        head = text.removeprefix("data:").split(";")[0].split(",")[0] if text.startswith("data:") else ""
        if data is None:
            return None
        file = FilePart(media_type=head or _media_type(block, kind), data=data, name=name, detail=detail)
        return kept(file, LANGCHAIN, block, data=path)
    return None


def _media_type(block: Json, kind: str) -> str:
    for path in (("mime_type",), ("media_type",), ("source", "media_type")):
        if (found := text_at(block, *path)) is not None:
            return found
    if (form := text_at(block, "input_audio", "format")) is not None:
        return f"audio/{form}"
    return _MEDIA_TYPES[kind]


_CALL_BLOCKS: Final = ("tool_use", "tool_call", "function_call")


def langchain_parts(dump: Data) -> Iterator[Part]:
    """Yield the parts of a message of LangChain. Tool messages are read by `langchain_result`."""
    both = (*as_list(dump.get("tool_calls")), *as_list(dump.get("invalid_tool_calls")))
    # Some providers return calls without ids. Derive an id from the message, so that it is always the same.
    calls = {call.get("id") or f"{dump.get('id') or ''}:{n}": call for n, call in enumerate(map(as_data, both))}
    content = dump.get("content")
    if content and isinstance(content, str):
        yield TextPart(text=content)
    for block in as_list(content):
        id_ = _called(block)
        yield _call_part(id_, calls.pop(id_), block) if id_ in calls else langchain_part(block)
    for id_, call in calls.items():
        yield _call_part(id_, call, None)


def _called(block: Any) -> str:
    data = as_data(block)
    return str(data.get("call_id") or data.get("id") or "") if data.get("type") in _CALL_BLOCKS else ""


def _call_part(id_: str, call: Data, block: Any) -> Part:
    entry: Json = {"name": call.get("name") or "", "args": call.get("args"), "id": id_, "type": "tool_call"}
    rest: Json = {name: value for name, value in call.items() if name not in entry or entry[name] != value}
    part = ToolCallPart(
        id=id_, name=entry["name"], arguments=entry["args"], extra={LANGCHAIN: {"call": rest}} if rest else None
    )
    return part if block is None else noted(part, LANGCHAIN, block=block)


def langchain_result(dump: Data) -> ToolResultPart:
    """Return the result in a tool message of LangChain."""
    content = dump.get("content")
    files: list[FilePart] = []
    shown: list[Any] = []
    for block in as_list(content):
        # Move files out of the content, so that their data is not counted as text.
        part = langchain_part(block)
        if isinstance(part, FilePart):
            files.append(part)
            shown.append({"type": "file", "file": len(files) - 1, "media_type": part.media_type})
        else:
            shown.append(block)
    return ToolResultPart(
        call_id=str(dump.get("tool_call_id") or ""),
        content=shown if isinstance(content, list) else content,
        name=dump.get("name"),
        is_error=dump.get("status") == "error",
        files=tuple(files),
    )


def is_langchain(messages: list[Any]) -> bool:
    """Return whether these are messages of LangChain."""
    return all(_langchain_role(as_data(one)) is not None and "role" not in as_data(one) for one in messages)


def langchain_messages(messages: list[Any], name: str) -> Iterator[NewMessage]:
    """Yield the messages."""
    for number, data in enumerate(map(as_data, messages)):
        inner = as_data(data.get("kwargs")) or as_data(data.get("data")) or data
        role = _langchain_role(data) or "user"
        own = inner.get("id")
        yield message(
            role,
            map(_without_notes, [langchain_result(inner)] if role == "tool" else langchain_parts(inner)),
            id=str(own) if own and not isinstance(own, list) else stable_id("langchain", name, number),
            speaker=inner.get("name") if role != "tool" else None,
            at=moment(as_data(inner.get("additional_kwargs")).get("timestamp")),
        )


def _langchain_role(data: Data) -> Role | None:
    kind = str(data.get("type", ""))
    if data.get("lc") and isinstance(data.get("id"), list):
        kind = str(data["id"][-1])
    return _LANGCHAIN_ROLES.get(kind.removesuffix("Chunk").removesuffix("Message").lower())
