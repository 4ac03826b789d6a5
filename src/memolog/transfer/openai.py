"""Messages of the OpenAI APIs: chat completions, and the items of the Responses API.

Knows their roles, content parts and calls. Knows nothing of where such messages are kept.
"""

import json
from typing import Any

from memolog.domain.message import Part, ReasoningPart, Role, TextPart, ToolCallPart, ToolResultPart, UnknownPart
from memolog.transfer.values import Data, as_data, as_list, data_file, plain_text

__all__ = ["chat_parts", "item_parts", "role_of"]

_ROLES: dict[str, Role] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
    "function": "tool",
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
    parts = list(_content(data.get("content")))
    if data.get("refusal"):
        parts.append(TextPart(text=str(data["refusal"])))
    calls = as_list(data.get("tool_calls"))
    if data.get("function_call"):
        calls = [{"id": as_data(data["function_call"]).get("name"), "function": data["function_call"]}, *calls]
    parts += [_call(as_data(call)) for call in calls]
    return tuple(parts)


def item_parts(item: Data) -> tuple[Role, tuple[Part, ...]] | None:
    """Return the role and the parts of a Responses item; None if it is none that is said or done."""
    match item.get("type"):
        case "message" | None:
            role = role_of(item.get("role"))
            return (role, tuple(_content(item.get("content")))) if role else None
        case "function_call" | "custom_tool_call":
            return "assistant", (
                ToolCallPart(
                    id=str(item.get("call_id") or item.get("id") or ""),
                    name=str(item.get("name", "")),
                    arguments=item.get("arguments", item.get("input")),
                ),
            )
        case "local_shell_call":
            call = str(item.get("call_id") or item.get("id") or "")
            return "assistant", (ToolCallPart(id=call, name="local_shell", arguments=item.get("action")),)
        case "function_call_output" | "custom_tool_call_output" | "local_shell_call_output":
            output = item.get("output")
            return "tool", (ToolResultPart(call_id=str(item.get("call_id", "")), content=_plain(output)),)
        case "reasoning":
            texts = [*as_list(item.get("summary")), *as_list(item.get("content"))]
            text = plain_text(texts)
            encrypted = item.get("encrypted_content")
            return ("assistant", (ReasoningPart(text=text, encrypted=encrypted),)) if text or encrypted else None
        case _:
            return "assistant", (UnknownPart(data=dict(item)),)


def _plain(content: Any) -> Any:
    return plain_text(content) if isinstance(content, list) else content


def _call(call: Data) -> Part:
    function = as_data(call.get("function") or call.get("custom"))
    arguments = function.get("arguments", function.get("input"))
    return ToolCallPart(id=str(call.get("id") or ""), name=str(function.get("name", "")), arguments=arguments)


def _content(content: Any) -> list[Part]:
    if content is None or content == "":
        return []
    if not isinstance(content, list):
        return [TextPart(text=content if isinstance(content, str) else json.dumps(content))]
    return [_part(as_data(item)) if isinstance(item, dict) else TextPart(text=str(item)) for item in as_list(content)]


def _part(part: Data) -> Part:
    match part.get("type"):
        case "text" | "input_text" | "output_text" | "refusal":
            return TextPart(text=str(part.get("text") or part.get("refusal") or ""))
        case "image_url":
            return data_file("image/png", as_data(part.get("image_url")).get("url"))
        case "input_image":
            return data_file("image/png", part.get("image_url"))
        case "input_audio":
            audio = as_data(part.get("input_audio"))
            return data_file(f"audio/{audio.get('format', 'wav')}", audio.get("data"))
        case "file" | "input_file":
            file = as_data(part.get("file")) or part
            return data_file("application/pdf", file.get("file_data"), file.get("filename"))
        case _:
            return UnknownPart(data=dict(part))
