"""Messages of the OpenAI APIs: chat completions, and the items of the Responses API.

Knows their roles, content parts and calls. Knows nothing of where such messages are kept.
"""

from typing import Any, Final, cast

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

__all__ = ["CALLS", "call_part", "chat_parts", "content_part", "content_parts", "item_parts", "role_of"]

_ROLES: dict[str, Role] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
    "function": "tool",
}


# Calls that the caller answers, by the type of their item, and where what is asked for stands in it.
CALLS: Final[dict[str, str]] = {
    "function_call": "arguments",
    "custom_tool_call": "input",
    "local_shell_call": "action",
    "shell_call": "action",
    "computer_call": "action",
    "apply_patch_call": "operation",
}


def role_of(role: object) -> Role | None:
    """Return our role; None if this API has no such role."""
    return _ROLES.get(str(role))


def chat_parts(data: Data) -> tuple[Part, ...]:
    """Return the parts of a chat message."""
    role = data.get("role")
    if role in {"tool", "function"}:
        call = str(data.get("tool_call_id") or data.get("name") or "")
        return (ToolResultPart(call_id=call, content=_plain(data.get("content")), name=data.get("name")),)
    parts = list(content_parts(data.get("content")))
    if data.get("refusal"):
        parts.append(TextPart(text=str(data["refusal"])))
    calls = as_list(data.get("tool_calls"))
    if data.get("function_call"):
        calls = [{"id": as_data(data["function_call"]).get("name"), "function": data["function_call"]}, *calls]
    parts += [call_part(as_data(call)) for call in calls]
    return tuple(parts)


def item_parts(item: Data) -> tuple[Role, tuple[Part, ...]] | None:
    """Return the role and the parts of a Responses item; None if it is none that is said or done."""
    kind = item.get("type")
    call = str(item.get("call_id") or item.get("id") or "")
    if kind in CALLS:
        name = str(item.get("name") or str(kind).removesuffix("_call"))
        return "assistant", (ToolCallPart(id=call, name=name, arguments=item.get(CALLS[kind])),)
    if str(kind).removesuffix("_output") in CALLS:
        return "tool", (ToolResultPart(call_id=call, content=_plain(item.get("output"))),)
    match kind:
        case "message" | None:
            role = role_of(item.get("role"))
            return (role, tuple(content_parts(item.get("content")))) if role else None
        case "reasoning":
            texts = [*as_list(item.get("summary")), *as_list(item.get("content"))]
            text = plain_text(texts)
            encrypted = item.get("encrypted_content")
            return ("assistant", (ReasoningPart(text=text, encrypted=encrypted),)) if text or encrypted else None
        case _:
            return "assistant", (UnknownPart(data=dict(item)),)


def _plain(content: Any) -> Any:
    return plain_text(content) if isinstance(content, list) else content


def call_part(call: Data) -> ToolCallPart:
    """Return a call of a chat message."""
    function = as_data(call.get("function") or call.get("custom"))
    arguments = function.get("arguments", function.get("input"))
    return ToolCallPart(id=str(call.get("id") or ""), name=str(function.get("name", "")), arguments=arguments)


def content_parts(content: Any) -> list[Part]:
    """Return the parts of a content: a text, or a list of blocks."""
    if content is None or content == "":
        return []
    if not isinstance(content, list):
        return [TextPart(text=plain_text(content))]
    return [
        TextPart(text=item) if isinstance(item, str) else content_part(as_data(item))
        for item in as_list(cast("object", content))
    ]


def content_part(part: Data) -> Part:
    """Return one block of a content; what only the provider can read is kept as it came."""
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
