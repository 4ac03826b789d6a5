"""Read the data exports of chat programs: ChatGPT and Claude."""

from collections.abc import Iterator
from typing import Any

from memolog.core.message import NewMessage, Part, ReasoningPart, TextPart, ToolCallPart, ToolResultPart, UnknownPart
from memolog.core.reports import Skipped
from memolog.transfer.conversation import (
    Conversation,
    Data,
    as_data,
    as_list,
    data_file,
    dated,
    message,
    moment,
    text_parts,
)
from memolog.transfer.messages import blocks


def read_chatgpt(conversations: list[Any]) -> Iterator[Conversation]:
    """Yield the conversations of a ChatGPT export, each with its current branch. Messages of other branches are skipped."""
    for item in conversations:
        data = as_data(item)
        mapping = as_data(data.get("mapping"))
        branch = _branch(mapping, str(data.get("current_node", "")))
        in_branch = frozenset(branch)
        messages: list[NewMessage] = []
        skipped: list[Skipped] = []
        thread = str(data.get("conversation_id") or data.get("id"))
        for node in (*branch, *(name for name in mapping if name not in in_branch)):
            inner = as_data(as_data(mapping.get(node)).get("message"))
            if not inner:
                continue
            one = _chatgpt_message(inner, node)
            why = "it is not on the current branch" if node not in in_branch else "it is empty or hidden"
            if one is None or node not in in_branch:
                skipped.append(Skipped(where=f"{thread}, {node}", why=why))
            else:
                messages.append(one)
        yield _exported("chatgpt", thread, data.get("title"), data.get("create_time"), messages, skipped)


def _branch(mapping: Data, node: str) -> list[str]:
    found: dict[str, None] = {}
    while node and node in mapping and node not in found:
        found[node] = None
        node = str(as_data(mapping[node]).get("parent") or "")
    return list(found)[::-1]


def _chatgpt_message(data: Data, node: str) -> NewMessage | None:
    author, content = as_data(data.get("author")), as_data(data.get("content"))
    role = str(author.get("role", "user"))
    if as_data(data.get("metadata")).get("is_visually_hidden_from_conversation"):
        return None
    parts = tuple(_chatgpt_parts(content))
    if not parts:
        return None
    name = str(data.get("id") or node)
    at, recipient = moment(data.get("create_time")), str(data.get("recipient") or "all")
    if role == "tool":
        text = "\n".join(part.text for part in parts if isinstance(part, TextPart))
        # The export has no call ids, so use the id of the message.
        return message("tool", (ToolResultPart(call_id=name, name=author.get("name"), content=text),), id=name, at=at)
    if role == "assistant" and recipient != "all":
        text = "\n".join(part.text for part in parts if isinstance(part, TextPart))
        return message("assistant", (ToolCallPart(id=name, name=recipient, arguments=text),), id=name, at=at)
    return message(
        "assistant" if role == "assistant" else "system" if role == "system" else "user", parts, id=name, at=at
    )


def _chatgpt_parts(content: Data) -> Iterator[Part]:
    match content.get("content_type"):
        case "thoughts":
            for thought in as_list(content.get("thoughts")):
                yield ReasoningPart(text=str(as_data(thought).get("content", "")))
        case "reasoning_recap" | "user_editable_context" | "model_editable_context":
            return
        case "code" | "execution_output" | "tether_quote" | "tether_browsing_display":
            yield from text_parts(str(content.get("text") or content.get("result") or ""))
        case _:
            for item in as_list(content.get("parts")):
                if isinstance(item, str):
                    yield from text_parts(item)
                elif "asset_pointer" in as_data(item):
                    yield data_file("image/png", as_data(item)["asset_pointer"])
                else:
                    yield UnknownPart(data=item)


def read_claude(conversations: list[Any]) -> Iterator[Conversation]:
    """Yield the conversations of a Claude export."""
    for item in conversations:
        data = as_data(item)
        thread = str(data.get("uuid"))
        messages: list[NewMessage] = []
        skipped: list[Skipped] = []
        for inner in map(as_data, as_list(data.get("chat_messages"))):
            parts = _claude_parts(inner)
            if not parts:
                skipped.append(Skipped(where=f"{thread}, {inner.get('uuid')}", why="it is empty"))
                continue
            role = "user" if inner.get("sender") == "human" else "assistant"
            messages.append(message(role, parts, id=str(inner.get("uuid")), at=moment(inner.get("created_at"))))
        yield _exported("claude", thread, data.get("name"), data.get("created_at"), messages, skipped)


def _exported(
    source: str, thread: str, title: Any, created_at: Any, messages: list[NewMessage], skipped: list[Skipped]
) -> Conversation:
    start = moment(created_at)
    return Conversation(
        thread=thread,
        title=title or None,
        messages=dated(messages, start),
        created_at=start,
        metadata={"source": source},
        skipped=tuple(skipped),
    )


def _claude_parts(data: Data) -> tuple[Part, ...]:
    parts = [part for part in blocks(data.get("content")) if not (isinstance(part, TextPart) and not part.text)]
    if not parts:
        parts = list(text_parts(str(data.get("text") or "")))
    for file in map(as_data, as_list(data.get("attachments"))):
        text = f"{file.get('file_name', '')}\n{file.get('extracted_content', '')}".strip()
        parts += text_parts(text)
    return tuple(parts)
