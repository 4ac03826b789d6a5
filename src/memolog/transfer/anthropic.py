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

__all__ = ["blocks", "is_anthropic", "role_of"]


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
        _part(as_data(block)) if isinstance(block, dict) else TextPart(text=str(block)) for block in as_list(content)
    )


def _part(block: Data) -> Part:
    match block.get("type"):
        case "text":
            return TextPart(text=str(block.get("text", "")))
        case "thinking":
            return ReasoningPart(text=str(block.get("thinking", "")), signature=block.get("signature"))
        case "redacted_thinking":
            return ReasoningPart(encrypted=str(block.get("data", "")))
        case "tool_use" | "server_tool_use":
            return ToolCallPart(
                id=str(block.get("id", "")), name=str(block.get("name", "")), arguments=block.get("input")
            )
        case "tool_result":
            return _result(block)
        case "image" | "document":
            source = as_data(block.get("source"))
            return data_file(str(source.get("media_type", "image/png")), source.get("data") or source.get("url"))
        case _:
            return UnknownPart(data=dict(block))


def _result(block: Data) -> Part:
    content = block.get("content")
    inner = [_part(as_data(item)) for item in as_list(content)]
    files = tuple(part for part in inner if isinstance(part, FilePart))
    texts = [item for item in as_list(content) if as_data(item).get("type") not in {"image", "document"}]
    return ToolResultPart(
        call_id=str(block.get("tool_use_id", "")),
        content=plain_text(texts) if isinstance(content, list) else content,
        is_error=bool(block.get("is_error")),
        files=files,
    )
