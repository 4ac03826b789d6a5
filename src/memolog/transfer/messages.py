"""Parse messages of the OpenAI and Anthropic APIs from JSON, for imports and for the adapters."""

from collections.abc import Iterable
from typing import Any, Final, cast

from memolog.core.message import (
    FilePart,
    Part,
    ReasoningPart,
    Role,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    UnknownPart,
)
from memolog.transfer.conversation import Data, as_data, as_list, data_file, plain_text

_OPENAI_ROLES: dict[str, Role] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
    "function": "tool",
}


# The types of tool calls that the caller must answer, and the field with their arguments.
CALLS: Final[dict[str, str]] = {
    "function_call": "arguments",
    "custom_tool_call": "input",
    "local_shell_call": "action",
    "shell_call": "action",
    "computer_call": "action",
    "apply_patch_call": "operation",
}


def openai_role(role: object) -> Role | None:
    """Return the Memolog role for a role of the OpenAI API, or None if it is unknown."""
    return _OPENAI_ROLES.get(str(role))


def chat_parts(data: Data) -> tuple[Part, ...]:
    """Return the parts of a chat message."""
    role = data.get("role")
    if role in {"tool", "function"}:
        call = str(data.get("tool_call_id") or data.get("name") or "")
        return (ToolResultPart(call_id=call, content=_joined_text(data.get("content")), name=data.get("name")),)
    parts = list(content_parts(data.get("content")))
    if data.get("refusal"):
        parts.append(TextPart(text=str(data["refusal"])))
    calls = as_list(data.get("tool_calls"))
    if data.get("function_call"):
        calls = [{"id": as_data(data["function_call"]).get("name"), "function": data["function_call"]}, *calls]
    parts += [call_part(as_data(call)) for call in calls]
    return tuple(parts)


def item_parts(item: Data) -> tuple[Role, tuple[Part, ...]] | None:
    """Return the role and parts of an item of the Responses API. Return None for an unknown role or empty reasoning."""
    kind = item.get("type")
    call = str(item.get("call_id") or item.get("id") or "")
    if kind in CALLS:
        name = str(item.get("name") or str(kind).removesuffix("_call"))
        return "assistant", (ToolCallPart(id=call, name=name, arguments=item.get(CALLS[kind])),)
    if str(kind).removesuffix("_output") in CALLS:
        return "tool", (ToolResultPart(call_id=call, content=_joined_text(item.get("output"))),)
    match kind:
        case "message" | None:
            role = openai_role(item.get("role"))
            return (role, tuple(content_parts(item.get("content")))) if role else None
        case "reasoning":
            texts = [*as_list(item.get("summary")), *as_list(item.get("content"))]
            text = plain_text(texts)
            encrypted = item.get("encrypted_content")
            return ("assistant", (ReasoningPart(text=text, encrypted=encrypted),)) if text or encrypted else None
        case _:
            return "assistant", (UnknownPart(data=dict(item)),)


def _joined_text(content: Any) -> Any:
    return plain_text(content) if isinstance(content, list) else content


def call_part(call: Data) -> ToolCallPart:
    """Return the part for a tool call of a chat message."""
    function = as_data(call.get("function") or call.get("custom"))
    arguments = function.get("arguments", function.get("input"))
    return ToolCallPart(id=str(call.get("id") or ""), name=str(function.get("name", "")), arguments=arguments)


def content_parts(content: Any) -> list[Part]:
    """Return the parts of `content`, which is a text or a list of blocks."""
    if content is None or content == "":
        return []
    if not isinstance(content, list):
        return [TextPart(text=plain_text(content))]
    return [
        TextPart(text=item) if isinstance(item, str) else content_part(as_data(item))
        for item in as_list(cast("object", content))
    ]


def content_part(part: Data) -> Part:
    """Return the part for a block. An unknown block becomes an unknown part."""
    match part.get("type"):
        case "text" | "input_text" | "output_text" | "refusal":
            return TextPart(text=str(part.get("text") or part.get("refusal") or ""))
        case "image_url":
            image = as_data(part.get("image_url"))
            found = data_file("image/png", image.get("url"), detail=image.get("detail"))
        case "input_image":
            found = data_file("image/png", part.get("image_url"), detail=part.get("detail"))
        case "input_audio":
            audio = as_data(part.get("input_audio"))
            found = data_file(f"audio/{audio.get('format', 'wav')}", audio.get("data"))
        case "file" | "input_file":
            file = as_data(part.get("file")) or part
            found = data_file("application/pdf", file.get("file_data") or file.get("file_url"), file.get("filename"))
        case _:
            found = None
    return found if isinstance(found, FilePart) else UnknownPart(data=dict(part))


def is_anthropic(messages: Iterable[Any]) -> bool:
    """Return whether a message has a block of a type that only the Anthropic API has."""
    types = {"tool_use", "tool_result", "thinking", "redacted_thinking"}
    return any(
        as_data(block).get("type") in types for one in messages for block in as_list(as_data(one).get("content"))
    )


def anthropic_role(role: str, parts: tuple[Part, ...]) -> Role:
    """Return the Memolog role. It is "tool" for a user message that has only tool results."""
    if role == "user" and parts and all(isinstance(part, ToolResultPart) for part in parts):
        return "tool"
    return cast("Role", role if role in {"user", "assistant", "system"} else "user")


def blocks(content: object) -> tuple[Part, ...]:
    """Return the parts of the content of a message of the Anthropic API."""
    if isinstance(content, str):
        return (TextPart(text=content),) if content else ()
    return tuple(
        TextPart(text=block) if isinstance(block, str) else block_part(as_data(block)) for block in as_list(content)
    )


def block_part(block: Data) -> Part:
    """Return the part for a block of the Anthropic API. An unknown block becomes an unknown part."""
    match block.get("type"):
        case "text":
            return TextPart(text=str(block.get("text", "")))
        case "thinking":
            return ReasoningPart(text=str(block.get("thinking", "")), signature=block.get("signature"))
        case "redacted_thinking":
            return ReasoningPart(encrypted=str(block.get("data", "")))
        # Tool calls that the provider executes have other types, which become unknown parts.
        case "tool_use":
            return ToolCallPart(
                id=str(block.get("id", "")), name=str(block.get("name", "")), arguments=block.get("input")
            )
        case "tool_result":
            return _block_result(block)
        case "image" | "document":
            return _block_file(block)
        case _:
            return UnknownPart(data=dict(block))


def _block_file(block: Data) -> Part:
    source = as_data(block.get("source"))
    name = block.get("title")
    usual = "image/png" if block.get("type") == "image" else "application/pdf"
    if source.get("type") == "text":
        content = str(source.get("data", "")).encode("utf-8", "surrogatepass")
        return FilePart(media_type=str(source.get("media_type", "text/plain")), data=content, name=name)
    found = data_file(str(source.get("media_type", usual)), source.get("data") or source.get("url"), name)
    return found if isinstance(found, FilePart) else UnknownPart(data=dict(block))


def _block_result(block: Data) -> Part:
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
