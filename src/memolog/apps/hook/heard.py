"""What was heard of a session: its events as messages, and its transcript as messages, both without what is private.

Knows how events and lines become messages, and their ids. Knows not what of it is stored already.
"""

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from memolog.apps.hook.private import Curtain, public, public_text
from memolog.domain.errors import InputError
from memolog.domain.message import (
    FilePart,
    NewMessage,
    Part,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    UnknownPart,
)
from memolog.domain.own import own_tool, with_own_apart
from memolog.transfer import Conversation, read_source
from memolog.transfer.conversation import stable_id

__all__ = ["SAME", "SOURCE", "Heard", "Record", "heard_of", "hook_id", "thread_of", "transcript_of"]

Record = dict[str, Any]
SOURCE: Final = "hook"
"""What the metadata of a message says that no transcript had."""

_READ: Final = ("claude-code", "codex")
SAME: Final = timedelta(seconds=5)
"""Two events that say the same so shortly after each other are one that was told twice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """One thing that was said or done, as an event told it."""

    thread: str
    at: datetime
    message: NewMessage
    record: Record


def thread_of(record: Record) -> str:
    """Return the thread of an event: the session, or what a sub-agent does in it."""
    session = str(record["session"])
    return f"{session}-{record['agent']}" if record.get("agent") else session


def hook_id(thread: str, *names: object) -> str:
    """Return the id of a message that an event told of."""
    return stable_id("hook", thread, *names)


# ---------------------------------------------------------------- events


def heard_of(records: Sequence[Record]) -> list[Heard]:
    """Return what events say, each once however often it was told, in the order of their times."""
    found: dict[str, Heard] = {}
    spoken: dict[tuple[str, str, str], datetime] = {}
    for record in sorted(records, key=lambda one: float(one.get("at") or 0)):
        for one in _messages(record, spoken):
            found.setdefault(str(one.message.id), one)
    # Each has one part, so none is taken apart here.
    messages = with_own_apart((one.message for one in found.values()), set())
    return [replace(one, message=message) for one, message in zip(found.values(), messages, strict=True)]


def _messages(record: Record, spoken: dict[tuple[str, str, str], datetime]) -> Iterator[Heard]:
    thread, at = thread_of(record), datetime.fromtimestamp(float(record["at"]), UTC)
    match record["kind"]:
        case "prompt":
            texts = [("user", str(record.get("text") or ""))]
        case "answer" | "stop":
            texts = [("assistant", str(record.get("text") or ""))]
        case "tool":
            yield from _tool(record, thread, at)
            return
        case _:
            return
    for role, text in texts:
        if not text.strip():
            continue
        first = spoken.get((thread, role, text), at)
        first = first if at - first <= SAME else at
        spoken[thread, role, text] = first
        key = record.get("turn") or first.isoformat()
        yield _heard(record, thread, at, role, TextPart(text=text), hook_id(thread, role, key, text))


def _tool(record: Record, thread: str, at: datetime) -> Iterator[Heard]:
    name, server = str(record.get("tool") or ""), str(record.get("server") or "")
    if server and own_tool(f"{server}__{name}") is None and own_tool(name) is not None:
        # The tool of another server that is called like one of ours.
        name = f"mcp__{server}__{name}"
    call = str(record.get("call") or "")
    if not call:
        told = (record.get("turn"), name, record.get("input"), record.get("output"))
        call = f"hook-{hook_id(thread, *told)}"
    made = ToolCallPart(id=call, name=name, arguments=record.get("input"))
    yield _heard(record, thread, at, "assistant", made, hook_id(thread, "call", call))
    is_error = bool(record.get("is_error"))
    answered = ToolResultPart(call_id=call, content=record.get("output"), name=name, is_error=is_error)
    yield _heard(record, thread, at, "tool", answered, hook_id(thread, "result", call))


def _heard(record: Record, thread: str, at: datetime, role: Any, part: Part, id_: str) -> Heard:
    metadata = {"source": SOURCE, "host": str(record.get("host"))}
    message = NewMessage(role=role, parts=(part,), id=id_, created_at=at, metadata=metadata)
    return Heard(thread=thread, at=at, message=message, record=record)


# ---------------------------------------------------------------- transcripts


def transcript_of(host: str, path: str) -> tuple[Conversation, ...] | None:
    """Return the conversations of a transcript; None where there is none that can be read."""
    file = Path(path).expanduser()
    if host not in _READ or not file.is_file():
        return None
    found: list[Conversation] = []
    with contextlib.suppress(OSError, InputError):
        for one in read_source(file, host):
            messages = with_own_apart(_public(one.messages), set())
            title = public_text(one.title).strip() if one.title else None
            found.append(replace(one, messages=tuple(messages), title=title or None))
        return tuple(found)
    return None


def _public(messages: Iterable[NewMessage]) -> Iterator[NewMessage]:
    for message in messages:
        curtain = Curtain()
        parts = tuple(part for part in (_public_part(part, curtain) for part in message.parts) if part is not None)
        if parts:
            yield message if parts == message.parts else replace(message, parts=parts)


def _public_part(part: Part, curtain: Curtain) -> Part | None:
    """Return what of a part may be kept; what stands between two texts of which one opens and one closes is private too."""
    match part:
        case TextPart():
            text = curtain.through(part.text)
            return part if text == part.text else replace(part, text=text) if text.strip() else None
        case ToolCallPart():
            return replace(part, arguments=public(part.arguments))
        case ToolResultPart():
            return replace(part, content=public(part.content), files=() if curtain.depth else part.files)
        case ReasoningPart():
            return replace(part, text=public_text(part.text))
        case FilePart():
            return None if curtain.depth else part
        case UnknownPart():
            return None if curtain.depth else replace(part, data=public(part.data))
