"""Messages of the Anthropic API: content blocks with text, thinking, tool use, results, images and documents.

Knows the blocks. Knows nothing of where such messages are kept.
"""

from collections.abc import Iterable
from typing import Any, cast

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
from memolog.transfer.values import Data, as_data, as_list, data_file, plain_text

__all__ = ["block_part", "blocks", "is_anthropic", "role_of"]


def is_anthropic(messages: Iterable[Any]) -> bool:
    """Tell whether some message has a block that only this API has."""
    ours = {"tool_use", "tool_result", "thinking", "redacted_thinking"}
    return any(as_data(block).get("type") in ours for one in messages for block in as_list(as_data(one).get("content")))


def role_of(role: str, parts: tuple[Part, ...]) -> Role:
    """Return our role: a user message that only answers tool calls is the tools'."""
    if role == "user" and parts and all(isinstance(part, ToolResultPart) for part in parts):
        return "tool"
    return cast("Role", role if role in {"user", "assistant", "system"} else "user")


def blocks(content: object) -> tuple[Part, ...]:
    """Return the parts of a message's content."""
    if isinstance(content, str):
        return (TextPart(text=content),) if content else ()
    return tuple(
        TextPart(text=block) if isinstance(block, str) else block_part(as_data(block)) for block in as_list(content)
    )


def block_part(block: Data) -> Part:
    """Return one block; what only the provider can read is kept as it came."""
    match block.get("type"):
        case "text":
            return TextPart(text=str(block.get("text", "")))
        case "thinking":
            return ReasoningPart(text=str(block.get("thinking", "")), signature=block.get("signature"))
        case "redacted_thinking":
            return ReasoningPart(encrypted=str(block.get("data", "")))
        # A tool that the provider runs by itself is answered beside its call, in a block of another kind: both stay as they are.
        case "tool_use":
            return ToolCallPart(
                id=str(block.get("id", "")), name=str(block.get("name", "")), arguments=block.get("input")
            )
        case "tool_result":
            return _result(block)
        case "image" | "document":
            return _file(block)
        case _:
            return UnknownPart(data=dict(block))


def _file(block: Data) -> Part:
    source = as_data(block.get("source"))
    name = block.get("title")
    usual = "image/png" if block.get("type") == "image" else "application/pdf"
    if source.get("type") == "text":
        content = str(source.get("data", "")).encode("utf-8", "surrogatepass")
        return FilePart(media_type=str(source.get("media_type", "text/plain")), data=content, name=name)
    found = data_file(str(source.get("media_type", usual)), source.get("data") or source.get("url"), name)
    return found if isinstance(found, FilePart) else UnknownPart(data=dict(block))


def _result(block: Data) -> Part:
    content = block.get("content")
    inner = [block_part(as_data(item)) for item in as_list(content)]
    files = tuple(part for part in inner if isinstance(part, FilePart))
    texts = [item for item in as_list(content) if as_data(item).get("type") not in {"image", "document"}]
    return ToolResultPart(
        call_id=str(block.get("tool_use_id", "")),
        content=plain_text(texts) if isinstance(content, list) else content,
        is_error=bool(block.get("is_error")),
        files=files,
    )
