"""Session files of Codex: one JSON object a line, with a header and the items of the Responses API.

Knows its lines, those of the older form too. Events repeat for people what the items say, so they are left out.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from memolog.domain.message import NewMessage, TextPart
from memolog.domain.transfer import Skipped
from memolog.transfer.openai import item_parts
from memolog.transfer.values import Conversation, Data, as_data, message, moment, stable_id

__all__ = ["fits", "read"]

_KINDS = {"session_meta", "response_item", "event_msg", "turn_context", "compacted"}
# What the host puts in front of the user's own words.
_INJECTED = ("<environment_context>", "<user_instructions>", "# AGENTS.md instructions", "<turn_aborted>")


def fits(lines: Iterable[Data]) -> bool:
    """Tell whether these are lines of such a file."""
    first: Data = next(iter(lines), dict[str, Any]())
    return first.get("type") in _KINDS or ("id" in first and "instructions" in first and "timestamp" in first)


def read(lines: Iterable[tuple[int, Data]], name: str) -> Iterator[Conversation]:
    """Yield the session of a file."""
    thread, metadata = name, {"source": "codex"}
    messages: list[NewMessage] = []
    skipped: list[Skipped] = []
    for number, line in lines:
        head = _head(line)
        if head:
            thread = str(head.get("id") or thread)
            git = as_data(head.get("git"))
            metadata |= {key: str(head[key]) for key in ("cwd", "cli_version") if head.get(key)}
            metadata |= {"branch": str(git["branch"])} if git.get("branch") else {}
            continue
        one, why = _message(line, thread, number)
        if one is not None:
            messages.append(one)
        else:
            skipped.append(Skipped(where=f"{name}, line {number}", why=why))
    yield Conversation(thread=thread, messages=tuple(messages), metadata=metadata, skipped=tuple(skipped))


def _head(line: Data) -> Data | None:
    if line.get("type") == "session_meta":
        return as_data(line.get("payload"))
    return line if "type" not in line and "instructions" in line else None


def _message(line: Data, thread: str, number: int) -> tuple[NewMessage | None, str]:
    item: Any = as_data(line.get("payload")) if line.get("type") == "response_item" else line
    if line.get("type") in _KINDS - {"response_item"} or "record_type" in line:
        return None, f"a line of type {line.get('type', line.get('record_type'))!s:.40} is no message"
    found = item_parts(item)
    if found is None or not found[1]:
        return None, "it is empty, or nobody said it"
    role, parts = found
    first = parts[0]
    if role == "user" and isinstance(first, TextPart) and first.text.lstrip().startswith(_INJECTED):
        return None, "the host wrote it, not the user"
    name = str(item.get("id") or stable_id("codex", thread, number))
    # A call and its result may carry one id: the place tells them apart.
    return message(role, parts, id=stable_id(name, number), at=moment(line.get("timestamp"))), ""
