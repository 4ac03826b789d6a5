"""One block of a LangChain message's content, as a part of ours and back, exactly.

Knows the shapes that providers and LangChain itself give to text, reasoning, images, sounds and files. A part carries the block
it was made from with a hole where its own text or data goes, so that the block comes back as it was. Knows no whole message.
"""

import base64
import binascii
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final, TypeAlias, cast

from memolog.adapters.holes import Path, filled, holding, value_at
from memolog.domain.message import FilePart, Part, ReasoningPart, TextPart, ToolCallPart, ToolResultPart, UnknownPart

__all__ = ["KEY", "Block", "block_of", "carried", "part_of", "with_carried"]

KEY: Final = "langchain"
"""Under this key a part's `extra` holds what LangChain needs back."""

Block: TypeAlias = str | dict[str, Any]

# What LangChain calls them, and what is assumed where a block does not say more.
_MEDIA: Final = {
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
    if kind in _MEDIA and (part := _file(block)) is not None:
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
    return _MEDIA[kind]


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
