"""Detect the format of a file from its content, and read its conversations."""

import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, Final, cast

from memolog.core.message import NewMessage
from memolog.core.reports import Skipped
from memolog.errors import InputError
from memolog.transfer.chat_exports import read_chatgpt, read_claude
from memolog.transfer.coding_agents import is_claude_code, is_codex, read_claude_code, read_codex
from memolog.transfer.conversation import Conversation, Data, as_data, as_list, dated, message, moment, stable_id
from memolog.transfer.frameworks import is_langchain, is_pydantic_ai, langchain_messages, pydantic_ai_messages
from memolog.transfer.messages import anthropic_role, blocks, chat_parts, is_anthropic, item_parts, openai_role

FORMATS: Final = (
    *("memolog-export", "mastra", "claude-code", "codex", "chatgpt", "claude"),
    *("openai", "anthropic", "pydantic-ai", "langchain"),
)

_SQLITE = b"SQLite format 3\x00"
# The format is detected from at most this many lines.
_LOOKED_AT = 40
_BY_LINE: Final = {"claude-code": read_claude_code, "codex": read_codex}


def detect(path: Path) -> str:
    """Return the format of a file, one of `FORMATS`. Raise InputError if the format is unknown."""
    with path.open("rb") as file:
        if file.read(len(_SQLITE)) == _SQLITE:
            return "mastra"
    lines = _head(path)
    if lines and lines[0].get("format") == "memolog-export":
        return "memolog-export"
    if is_claude_code(lines):
        return "claude-code"
    if is_codex(lines):
        return "codex"
    found = _of_json(_whole(path))
    if found is None:
        raise InputError(
            f"The format of {path.name} is unknown.",
            why=f"Known formats: {', '.join(FORMATS)}.",
            then="Pass the format, or convert the file to a JSON list of messages with `role` and `content`.",
        )
    return found


def _of_json(data: Any) -> str | None:
    items = as_list(data) or [data]
    if any("mapping" in as_data(item) for item in items):
        return "chatgpt"
    if any("chat_messages" in as_data(item) for item in items):
        return "claude"
    messages = _messages(data)
    if not messages:
        return None
    if is_pydantic_ai(messages):
        return "pydantic-ai"
    if is_langchain(messages):
        return "langchain"
    if all("role" in as_data(one) or "type" in as_data(one) for one in messages):
        return "anthropic" if is_anthropic(messages) else "openai"
    return None


def read_source(path: Path, format_: str) -> Iterator[Conversation]:
    """Yield the conversations of a file in this format."""
    name = path.stem
    if format_ in _BY_LINE:
        bad: list[Skipped] = []
        yield from _BY_LINE[format_](_lines(path, bad), name)
        if bad:
            yield Conversation(thread=name, messages=(), skipped=tuple(bad))
        return
    data = _whole(path)
    if format_ in {"chatgpt", "claude"}:
        read = read_chatgpt if format_ == "chatgpt" else read_claude
        yield from read(as_list(data) or [data])
        return
    yield _plain(data, format_, name)


def _plain(data: Any, format_: str, name: str) -> Conversation:
    messages, head = _messages(data), as_data(data)
    thread = str(head.get("thread") or head.get("id") or head.get("thread_id") or name)
    skipped: list[Skipped] = []
    match format_:
        case "pydantic-ai":
            read = list(pydantic_ai_messages(messages, thread))
        case "langchain":
            read = list(langchain_messages(messages, thread))
        case "anthropic" | "openai":
            read = list(_of_api(messages, thread, format_, skipped))
            if system := head.get("system") or head.get("instructions"):
                read.insert(0, message("system", blocks(system), id=stable_id(format_, thread, "system")))
        case _:
            raise InputError(f"`format` is unknown: {format_!r}.", then=f"Use one of {', '.join(FORMATS)}.")
    start = moment(head.get("created_at") or head.get("created"))
    return Conversation(
        thread=thread,
        title=head.get("title") or None,
        messages=dated(read, start),
        metadata={"source": format_},
        skipped=tuple(skipped),
    )


def _of_api(messages: list[Any], thread: str, format_: str, skipped: list[Skipped]) -> Iterator[NewMessage]:
    for number, data in enumerate(map(as_data, messages)):
        found = _api_parts(data, format_)
        if found is None or not found[1]:
            skipped.append(Skipped(where=f"{thread}, message {number + 1}", why="it is empty or has no role"))
            continue
        role, parts = found
        at = moment(data.get("created_at") or data.get("timestamp"))
        # A message without an id gets an id from its position, so that a second import gives it the same id.
        key = str(data.get("id") or stable_id(format_, thread, number))
        yield message(role, parts, id=key, at=at, speaker=data.get("name") if role == "user" else None)


def _api_parts(data: Data, format_: str) -> Any:
    if format_ == "anthropic":
        parts = blocks(data.get("content"))
        return anthropic_role(str(data.get("role", "user")), parts), parts
    if "role" in data and data.get("type", "message") == "message":
        role = openai_role(data["role"])
        return (role, chat_parts(data)) if role else None
    return item_parts(data)


def _messages(data: Any) -> list[Any]:
    inner = as_data(data)
    return as_list(data) or as_list(inner.get("messages")) or as_list(inner.get("input")) or as_list(inner.get("items"))


# ---------------------------------------------------------------- files


def _lines(path: Path, bad: list[Skipped]) -> Iterator[tuple[int, Data]]:
    with path.open("rb") as file:
        for number, text in enumerate(file, start=1):
            if not text.strip():
                continue
            try:
                data: Any = json.loads(text)
            except (ValueError, RecursionError):
                # The last line is often incomplete if the session is still running.
                bad.append(Skipped(where=f"{path.name}, line {number}", why="it is not JSON"))
                continue
            if isinstance(data, dict):
                yield number, cast("Data", data)


def _head(path: Path) -> list[Data]:
    with path.open("rb") as file:
        if file.read(1) != b"{":
            return []
    return [line for _, line in islice(_lines(path, []), _LOOKED_AT)]


def _whole(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise InputError(
            f"{path.name} is not JSON, and its format is unknown.",
            why=f"{error}.",
            then=f"Use a file in one of these formats: {', '.join(FORMATS)}.",
        ) from error
