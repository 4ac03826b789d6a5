"""Parts of Pydantic AI messages as JSON, into ours and back, without a byte lost.

Knows the kinds of parts and of user content. What our parts cannot say is kept in their `extra`, under one key, and a kind that
is new becomes an unknown part with all of it inside. Knows no conversation and no store.
"""

import base64
from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeAlias, cast

from memolog.domain.codec import JsonObject
from memolog.domain.message import (
    FilePart,
    Part,
    ReasoningPart,
    Role,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    UnknownPart,
)

__all__ = ["KEY", "Json", "mark", "marked", "request_role", "to_request_parts", "to_response_part"]

KEY: Final = "pydantic_ai"
"""The one key of `extra` that is ours: `message`, `part` and `item` hold what is left to say of each."""

Json: TypeAlias = dict[str, Any]

_NO_TYPE: Final = "application/octet-stream"
_URLS: Final = frozenset({"image-url", "audio-url", "document-url", "video-url"})
_FILES: Final = _URLS | {"binary", "uploaded-file"}
_TEXTS: Final = frozenset({"text-content", "structured-content"})
_GOOD: Final = "success"
# Said by the application, not by the user: an observer must not take it for the user's words.
_FEEDBACK: Final = frozenset({"retry-feedback", "retry-prompt"})
_SAID: Final = {
    "text": ("content",),
    "thinking": ("content", "signature"),
    "tool-call": ("tool_call_id", "tool_name", "args"),
}


def marked(part: Part) -> Json:
    """Return what the adapter kept with a part; empty for a part that came from elsewhere."""
    kept = part.extra.get(KEY) if part.extra else None
    return cast("Json", kept) if isinstance(kept, dict) else {}


def mark(**kept: object) -> JsonObject | None:
    """Return the `extra` of a part: what is left to say of it, or None if nothing is."""
    told = {name: value for name, value in kept.items() if value is not None}
    return {KEY: told} if told else None


def request_role(part: Mapping[str, Any]) -> Role:
    """Return whose part of a request it is."""
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
    """Return our parts for one part of a request; `text` is what the library would tell the model in its place."""
    kind = part.get("part_kind")
    if kind == "user-prompt":
        return tuple(_prompt(part))
    if kind == "system-prompt":
        return (TextPart(text=part["content"], extra=mark(part=_left(part, "content"))),)
    if kind == "tool-return":
        return (_tool_return(part),)
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
        yield _item(item, rest if number == 0 else None)


def _item(item: str | Json, part: Json | None) -> Part:
    """Return one piece of a prompt that is a list; only its first piece says of which prompt."""
    if isinstance(item, str):
        return TextPart(text=item, extra=mark(part=part, item={}))
    kind = item.get("kind")
    if kind in _TEXTS:
        return TextPart(text=item["content"], extra=mark(part=part, item=_rest(item, "content")))
    if kind in _FILES:
        return _file(item, part)
    return UnknownPart(data=item, extra=mark(part=part, item={}))


def _file(item: Json, part: Json | None = None) -> FilePart:
    kind, media_type = item["kind"], item.get("media_type") or _NO_TYPE
    if kind == "binary":
        rest = _rest(item, "data", "media_type")
        return FilePart(media_type=media_type, data=_bytes(item["data"]), extra=mark(part=part, item=rest))
    if kind in _URLS:
        return FilePart(media_type=media_type, url=item["url"], extra=mark(part=part, item=_rest(item, "url")))
    return FilePart(media_type=media_type, name=item["file_id"], extra=mark(part=part, item=_rest(item, "file_id")))


def _tool_return(part: Json) -> ToolResultPart:
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
    """Take files out of what a tool returned, so that they are counted as files and not as text; says where they were.

    A place of -1 means that the content was nothing but one file.
    """
    if _is_file(content):
        return None, (_file(cast("Json", content)),), [-1]
    if not isinstance(content, list):
        return content, (), []
    items = cast("list[object]", content)
    places = [number for number, item in enumerate(items) if _is_file(item)]
    files = tuple(_file(cast("Json", items[number])) for number in places)
    return [item for item in items if not _is_file(item)], files, places


def _is_file(value: object) -> bool:
    if not isinstance(value, dict):
        return False
    item = cast("Json", value)
    needed = {"binary": "data", "uploaded-file": "file_id"}.get(str(item.get("kind")), "url")
    return item.get("kind") in _FILES and isinstance(item.get(needed), str)


# ---------------------------------------------------------------- responses


def to_response_part(part: Json) -> Part:
    """Return our part for one part of a response."""
    kind = str(part.get("part_kind"))
    said = _SAID.get(kind)
    if said is None:
        content = part.get("content")
        if kind == "file" and _is_file(content):
            file = _file(cast("Json", content))
            return FilePart(
                media_type=file.media_type,
                data=file.data,
                extra=mark(part=_left(part, "content"), item=marked(file)["item"]),
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
    """Return the fields of a part that nothing else says. None is what they all are if they are not given."""
    return {name: value for name, value in data.items() if name not in said and value is not None}


def _rest(item: Mapping[str, Any], *said: str) -> Json:
    """Return the fields of a piece of content that nothing else says, all of them: by these the library knows its own."""
    return {name: value for name, value in item.items() if name not in said}


def _bytes(text: Any) -> bytes:
    return text if isinstance(text, bytes) else base64.urlsafe_b64decode(text)
