"""Messages as Pydantic AI and LangChain write them to JSON.

Knows the two shapes. Knows nothing of where such messages are kept.
"""

from collections.abc import Iterator
from typing import Any

from memolog.domain.message import (
    NewMessage,
    Part,
    ReasoningPart,
    Role,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    UnknownPart,
)
from memolog.transfer.anthropic import blocks
from memolog.transfer.openai import chat_parts
from memolog.transfer.values import Data, as_data, as_list, data_file, message, moment, plain_text, stable_id

__all__ = ["is_langchain", "is_pydantic_ai", "langchain_messages", "pydantic_ai_messages"]

_LANGCHAIN: dict[str, Role] = {
    "human": "user",
    "user": "user",
    "ai": "assistant",
    "assistant": "assistant",
    "system": "system",
    "developer": "system",
    "tool": "tool",
    "function": "tool",
}


def is_pydantic_ai(messages: list[Any]) -> bool:
    """Tell whether these are messages of Pydantic AI."""
    return all(as_data(one).get("kind") in {"request", "response"} and "parts" in as_data(one) for one in messages)


def pydantic_ai_messages(messages: list[Any], name: str) -> Iterator[NewMessage]:
    """Yield what was said: a request's parts belong to several speakers, and each gets a message of its own."""
    for number, data in enumerate(map(as_data, messages)):
        key = stable_id("pydantic-ai", name, number)
        at = moment(data.get("timestamp"))
        runs: list[tuple[Role, list[Part], Any]] = []
        for item in map(as_data, as_list(data.get("parts"))):
            role, parts = _pydantic_part(item, is_response=data.get("kind") == "response")
            if runs and runs[-1][0] == role:
                runs[-1][1].extend(parts)
            elif parts:
                runs.append((role, parts, moment(item.get("timestamp")) or at))
        metadata = {"model": data["model_name"]} if data.get("model_name") else {}
        for place, (role, parts, when) in enumerate(runs):
            yield message(role, parts, id=key if not place else f"{key}-{place}", at=when, metadata=metadata)


def _pydantic_part(item: Data, *, is_response: bool) -> tuple[Role, list[Part]]:
    content, call = item.get("content"), str(item.get("tool_call_id") or "")
    match item.get("part_kind"):
        case "system-prompt":
            return "system", [TextPart(text=plain_text(content))]
        case "user-prompt":
            return "user", _user_content(content)
        case "text":
            return "assistant", [TextPart(text=plain_text(content))] if content else []
        case "thinking":
            return "assistant", [ReasoningPart(text=str(content or ""), signature=item.get("signature"))]
        case "tool-call" | "builtin-tool-call":
            return "assistant", [ToolCallPart(id=call, name=str(item.get("tool_name", "")), arguments=item.get("args"))]
        case "tool-return" | "builtin-tool-return":
            return "tool", [ToolResultPart(call_id=call, name=item.get("tool_name"), content=content)]
        case "retry-prompt":
            if item.get("tool_name") is None:
                return "user", [TextPart(text=plain_text(content))]
            return "tool", [ToolResultPart(call_id=call, name=item.get("tool_name"), content=content, is_error=True)]
        case _:
            return "assistant" if is_response else "user", [UnknownPart(data=dict(item))]


def _user_content(content: object) -> list[Part]:
    if isinstance(content, str):
        return [TextPart(text=content)]
    made: list[Part] = []
    for item in as_list(content):
        part = as_data(item)
        if isinstance(item, str):
            made.append(TextPart(text=item))
        elif part.get("kind") == "binary":
            made.append(data_file(str(part.get("media_type")), str(part.get("data", "")).translate({45: 43, 95: 47})))
        elif "url" in part:
            made.append(data_file(str(part.get("media_type") or "application/octet-stream"), part["url"]))
        else:
            made.append(UnknownPart(data=item))
    return made


def is_langchain(messages: list[Any]) -> bool:
    """Tell whether these are messages of LangChain."""
    return all(_langchain_role(as_data(one)) is not None and "role" not in as_data(one) for one in messages)


def langchain_messages(messages: list[Any], name: str) -> Iterator[NewMessage]:
    """Yield what was said."""
    for number, data in enumerate(map(as_data, messages)):
        inner = as_data(data.get("kwargs")) or as_data(data.get("data")) or data
        role = _langchain_role(data) or "user"
        key = (
            str(inner.get("id") or stable_id("langchain", name, number))
            if not isinstance(inner.get("id"), list)
            else ""
        )
        yield message(
            role,
            tuple(_langchain_parts(role, inner)),
            id=key or stable_id("langchain", name, number),
            speaker=inner.get("name") if role != "tool" else None,
            at=moment(as_data(inner.get("additional_kwargs")).get("timestamp")),
        )


def _langchain_role(data: Data) -> Role | None:
    kind = str(data.get("type", ""))
    if data.get("lc") and isinstance(data.get("id"), list):
        kind = str(data["id"][-1]).removesuffix("Chunk").removesuffix("Message").lower()
    return _LANGCHAIN.get(kind.removesuffix("Chunk").removesuffix("Message").lower())


def _langchain_parts(role: Role, data: Data) -> Iterator[Part]:
    content = data.get("content")
    if role == "tool":
        yield ToolResultPart(
            call_id=str(data.get("tool_call_id") or ""),
            name=data.get("name"),
            content=plain_text(content) if isinstance(content, list) else content,
            is_error=data.get("status") == "error",
        )
        return
    has_openai_parts = any(as_data(item).get("type") == "image_url" for item in as_list(content))
    said = chat_parts({"role": role, "content": content}) if has_openai_parts else blocks(content)
    calls = [as_data(call) for call in as_list(data.get("tool_calls"))]
    known = {call.get("id") for call in calls}
    yield from (part for part in said if not (isinstance(part, ToolCallPart) and part.id in known))
    for call in calls:
        yield ToolCallPart(id=str(call.get("id") or ""), name=str(call.get("name", "")), arguments=call.get("args"))
