"""Read the session files of coding agents: Claude Code and Codex."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from memolog.core.message import NewMessage, TextPart
from memolog.core.reports import Skipped
from memolog.transfer.conversation import (
    Conversation,
    Data,
    as_data,
    message,
    moment,
    stable_id,
)
from memolog.transfer.messages import anthropic_role, blocks, item_parts


def is_claude_code(lines: Iterable[Data]) -> bool:
    """Return whether these are lines of a session file of Claude Code."""
    return any("sessionId" in line and ("uuid" in line or "leafUuid" in line) for line in lines)


def read_claude_code(lines: Iterable[tuple[int, Data]], name: str) -> Iterator[Conversation]:
    """Yield the sessions of a file. A side chain (the messages of a sub-agent) becomes a separate thread."""
    sessions: dict[str, tuple[list[NewMessage], dict[str, Any]]] = {}
    skipped: list[Skipped] = []
    title: str | None = None
    for number, line in lines:
        if line.get("type") == "summary":
            title = str(line.get("summary", "")) or title
            continue
        why = _skip_reason(line)
        if why:
            skipped.append(Skipped(where=f"{name}, line {number}", why=why))
            continue
        one = _claude_code_message(line)
        thread = str(line.get("sessionId") or name)
        if line.get("isSidechain"):
            thread = f"{thread}-{line.get('agentId') or 'side'}"
        messages, metadata = sessions.setdefault(thread, ([], {"source": "claude-code"}))
        messages.append(one)
        for key in ("cwd", "gitBranch", "version"):
            if line.get(key):
                metadata.setdefault(key, line[key])
    for thread, (messages, metadata) in sessions.items():
        yield Conversation(
            thread=thread,
            title=title,
            messages=tuple(messages),
            metadata=metadata,
            skipped=tuple(skipped),
        )
        skipped = []
    if skipped and not sessions:
        yield Conversation(thread=name, messages=(), skipped=tuple(skipped))


def _skip_reason(line: Mapping[str, Any]) -> str | None:
    if line.get("type") not in {"user", "assistant"}:
        return f"a line of type {line.get('type')!s:.40} is not a message"
    if line.get("isMeta"):
        return "it was written by Claude Code itself, not by a person or a model"
    if line.get("isCompactSummary"):
        return "it is a summary of other messages in the file"
    if not blocks(as_data(line.get("message")).get("content")):
        return "it is empty"
    return None


def _claude_code_message(line: Data) -> NewMessage:
    inner = as_data(line.get("message"))
    parts = blocks(inner.get("content"))
    metadata = {"model": inner["model"]} if inner.get("model") else {}
    role = anthropic_role(str(inner.get("role") or line.get("type")), parts)
    at = moment(line.get("timestamp"))
    return message(role, parts, id=str(line.get("uuid") or stable_id(line)), at=at, metadata=metadata)


_CODEX_KINDS = {"session_meta", "response_item", "event_msg", "turn_context", "compacted"}
# Texts that Codex sends as messages of the user begin with one of these.
_INJECTED = ("<environment_context>", "<user_instructions>", "# AGENTS.md instructions", "<turn_aborted>")


def is_codex(lines: Iterable[Data]) -> bool:
    """Return whether these are lines of a session file of Codex."""
    first: Data = next(iter(lines), dict[str, Any]())
    return first.get("type") in _CODEX_KINDS or ("id" in first and "instructions" in first and "timestamp" in first)


def read_codex(lines: Iterable[tuple[int, Data]], name: str) -> Iterator[Conversation]:
    """Yield the session of a file. Lines of events are skipped, because they repeat the messages."""
    thread, metadata = name, {"source": "codex"}
    messages: list[NewMessage] = []
    skipped: list[Skipped] = []
    for number, line in lines:
        head = _codex_head(line)
        if head:
            thread = str(head.get("id") or thread)
            git = as_data(head.get("git"))
            metadata |= {key: str(head[key]) for key in ("cwd", "cli_version") if head.get(key)}
            metadata |= {"branch": str(git["branch"])} if git.get("branch") else {}
            continue
        one, why = _codex_message(line, thread, number)
        if one is not None:
            messages.append(one)
        else:
            skipped.append(Skipped(where=f"{name}, line {number}", why=why))
    yield Conversation(thread=thread, messages=tuple(messages), metadata=metadata, skipped=tuple(skipped))


def _codex_head(line: Data) -> Data | None:
    if line.get("type") == "session_meta":
        return as_data(line.get("payload"))
    return line if "type" not in line and "instructions" in line else None


def _codex_message(line: Data, thread: str, number: int) -> tuple[NewMessage | None, str]:
    item: Any = as_data(line.get("payload")) if line.get("type") == "response_item" else line
    if line.get("type") in _CODEX_KINDS - {"response_item"} or "record_type" in line:
        return None, f"a line of type {line.get('type', line.get('record_type'))!s:.40} is not a message"
    found = item_parts(item)
    if found is None or not found[1]:
        return None, "it is empty, or not a message"
    role, parts = found
    first = parts[0]
    if role == "user" and isinstance(first, TextPart) and first.text.lstrip().startswith(_INJECTED):
        return None, "it was written by Codex itself, not by the user"
    name = str(item.get("id") or stable_id("codex", thread, number))
    # A call and its result may have the same id, so add the number of the line.
    return message(role, parts, id=stable_id(name, number), at=moment(line.get("timestamp"))), ""
