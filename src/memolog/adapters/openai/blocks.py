"""Files and what cannot be sent, as content blocks of the OpenAI APIs.

Knows how a file becomes a block in either API, and what stands in for what this API cannot take. Knows no message.
"""

import base64
import re
from typing import Any, Final

from memolog.adapters.exact import Json, Said
from memolog.domain.message import FilePart, UnknownPart

__all__ = ["data_url", "edge_message", "file_block", "name_of", "stand_in", "usage_counts", "without_nothing"]

_NOT_IN_NAMES: Final = re.compile(r"[\s<|\\/>]+")
_MOST_NAME: Final = 64


def data_url(file: FilePart) -> str | None:
    """Return a file's content as an address, or its address; None if it has neither."""
    if file.data is None:
        return file.url
    return f"data:{file.media_type};base64,{base64.b64encode(file.data).decode()}"


def file_block(file: FilePart, *, is_chat: bool) -> Json:
    """Return the block of a file that a user shows: an image, a sound, or a document."""
    kind, address = file.media_type.split("/")[0], data_url(file)
    detail = {"detail": file.detail} if file.detail else {}
    if address is None or (is_chat and kind != "image" and file.data is None):
        return stand_in(file, is_chat=is_chat)
    if kind == "image":
        if is_chat:
            return {"type": "image_url", "image_url": {"url": address, **detail}}
        return {"type": "input_image", "image_url": address, **detail}
    if kind == "audio" and file.data is not None:
        sound = {"data": base64.b64encode(file.data).decode(), "format": file.media_type.partition("/")[2]}
        return {"type": "input_audio", "input_audio": sound}
    name = {"filename": file.name} if file.name else {}
    if is_chat:
        return {"type": "file", "file": {**name, "file_data": address}}
    return {"type": "input_file", **name, ("file_url" if file.data is None else "file_data"): address}


def stand_in(part: FilePart | UnknownPart, *, is_chat: bool, is_output: bool = False) -> Json:
    """Return a short text in the place of a part that this API cannot take; the part itself stays in the store."""
    if isinstance(part, FilePart):
        told = " ".join(filter(None, (part.media_type, part.name, part.url)))
    else:
        told = str(part.data.get("type", "part")) if isinstance(part.data, dict) else "part"  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]
    kind = "text" if is_chat else "output_text" if is_output else "input_text"
    return {"type": kind, "text": f"[{told}]"}


def name_of(said: Said) -> str | None:
    """Return who speaks, as the API takes names; None if nobody is named."""
    return _NOT_IN_NAMES.sub("_", said.speaker)[:_MOST_NAME] if said.speaker else None


def edge_message(edge: str) -> list[Json]:
    """Return the edge as the last message; it may quote what others said, so it speaks with no more weight than a user."""
    return [{"role": "user", "content": edge}] if edge else []


def without_nothing(data: Json) -> Json:
    """Return what is said without fields that are null, which answers have and requests may not."""
    return {name: value for name, value in data.items() if value is not None or name == "content"}


def usage_counts(told: Json, incoming: str, outgoing: str) -> dict[str, Any]:
    """Return the counts of a usage; cached tokens are told apart from those read anew."""
    details: Json = told.get(f"{incoming}_details") or {}
    read, written = details.get("cached_tokens") or 0, details.get("cache_write_tokens") or 0
    total = told.get(incoming) or 0
    return {
        "input_tokens": max(total - read - written, 0),
        "output_tokens": told.get(outgoing) or 0,
        "cache_read_tokens": read,
        "cache_write_tokens": written,
    }
