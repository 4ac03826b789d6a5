"""Convert hook events and transcripts into messages, and decide which messages are new.

A message can be in an event, in a line of the transcript, or in both. It must be stored once.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, NamedTuple

from memolog.apps.hooks.events import PrivateFilter, public, public_text
from memolog.core.message import (
    FilePart,
    Message,
    NewMessage,
    Part,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    UnknownPart,
    tool_key,
)
from memolog.core.own_tools import own_tool, with_own_apart
from memolog.errors import InputError
from memolog.transfer.conversation import Conversation, stable_id
from memolog.transfer.detect import read_source

Record = dict[str, Any]
SOURCE: Final = "hook"
"""Value of `source` in the metadata of a message that comes from an event, not from a transcript."""

# Hosts whose transcripts can be read.
_READABLE: Final = ("claude-code", "codex")
SAME: Final = timedelta(seconds=5)
"""Two events with equal text within this time are one event that the host reported twice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """A message that an event reported, with the record of the event."""

    thread: str
    at: datetime
    message: NewMessage
    record: Record


def thread_of(record: Record) -> str:
    """Return the thread of an event, named after the session and, for a sub-agent, also after the sub-agent."""
    session = str(record["session"])
    return f"{session}-{record['agent']}" if record.get("agent") else session


def hook_id(thread: str, *names: object) -> str:
    """Return the id of a message from an event. Equal arguments give the same id."""
    return stable_id("hook", thread, *names)


# ---------------------------------------------------------------- events


def heard_of(records: Sequence[Record]) -> list[Heard]:
    """Return the messages of events in order of time. A message that was reported twice is returned once."""
    found: dict[str, Heard] = {}
    spoken: dict[tuple[str, str, str], datetime] = {}
    for record in sorted(records, key=lambda one: float(one.get("at") or 0)):
        for one in _messages(record, spoken):
            found.setdefault(str(one.message.id), one)
    # Each message has one part, so `with_own_apart` returns as many messages as it gets.
    messages = with_own_apart((one.message for one in found.values()), set())
    return [replace(one, message=message) for one, message in zip(found.values(), messages, strict=True)]


def _messages(record: Record, spoken: dict[tuple[str, str, str], datetime]) -> Iterator[Heard]:
    thread, at = thread_of(record), datetime.fromtimestamp(float(record["at"]), UTC)
    match record["kind"]:
        case "prompt":
            role = "user"
        case "answer" | "stop":
            role = "assistant"
        case "tool":
            yield from _tool(record, thread, at)
            return
        case _:
            return
    text = str(record.get("text") or "")
    if text.strip():
        first = spoken.get((thread, role, text), at)
        first = first if at - first <= SAME else at
        spoken[thread, role, text] = first
        key = record.get("turn") or first.isoformat()
        yield _heard(record, thread, at, role, TextPart(text=text), hook_id(thread, role, key, text))


def _tool(record: Record, thread: str, at: datetime) -> Iterator[Heard]:
    name, server = str(record.get("tool") or ""), str(record.get("server") or "")
    if server and own_tool(f"{server}__{name}") is None and own_tool(name) is not None:
        # The tool of another server has the name of a tool of Memolog, so add the server to the name.
        name = f"mcp__{server}__{name}"
    call = str(record.get("call") or "")
    if not call:
        content = (record.get("turn"), name, record.get("input"), record.get("output"))
        call = f"hook-{hook_id(thread, *content)}"
    call_part = ToolCallPart(id=call, name=name, arguments=record.get("input"))
    yield _heard(record, thread, at, "assistant", call_part, hook_id(thread, "call", call))
    is_error = bool(record.get("is_error"))
    result_part = ToolResultPart(call_id=call, content=record.get("output"), name=name, is_error=is_error)
    yield _heard(record, thread, at, "tool", result_part, hook_id(thread, "result", call))


def _heard(record: Record, thread: str, at: datetime, role: Any, part: Part, id_: str) -> Heard:
    metadata = {"source": SOURCE, "host": str(record.get("host"))}
    message = NewMessage(role=role, parts=(part,), id=id_, created_at=at, metadata=metadata)
    return Heard(thread=thread, at=at, message=message, record=record)


# ---------------------------------------------------------------- transcripts


def transcript_of(host: str, path: str) -> tuple[Conversation, ...] | None:
    """Return the conversations of a transcript without private text. The tuple is empty if the format of the host is unknown.

    None means that the file cannot be read. The host may not have written it yet.
    """
    if host not in _READABLE:
        return ()
    file, found = Path(path).expanduser(), list[Conversation]()
    if not file.is_file():
        return None
    try:
        for one in read_source(file, host):
            messages = with_own_apart(_public(one.messages), set())
            title = public_text(one.title).strip() if one.title else None
            found.append(replace(one, messages=tuple(messages), title=title or None))
    except (OSError, InputError):
        return None
    return tuple(found)


def _public(messages: Iterable[NewMessage]) -> Iterator[NewMessage]:
    for message in messages:
        private = PrivateFilter()
        parts = tuple(part for part in (_public_part(part, private) for part in message.parts) if part is not None)
        if parts:
            yield message if parts == message.parts else replace(message, parts=parts)


def _public_part(part: Part, private: PrivateFilter) -> Part | None:
    """Return a message part without private text. None means that the whole part is private.

    A part between an opening tag and a closing tag in other parts is private, too.
    """
    match part:
        case TextPart():
            text = private.public(part.text)
            return part if text == part.text else replace(part, text=text) if text.strip() else None
        case ToolCallPart():
            return replace(part, arguments=public(part.arguments))
        case ToolResultPart():
            return replace(part, content=public(part.content), files=() if private.depth else part.files)
        case ReasoningPart():
            return replace(part, text=public_text(part.text))
        case FilePart():
            return None if private.depth else part
        case UnknownPart():
            return None if private.depth else replace(part, data=public(part.data))


# Maximum difference between the time of an event and the time of its line in the transcript. A host reports a prompt when it
# writes the line, but reports an answer only when the answer is complete.
_NEAR_PROMPT: Final = timedelta(minutes=2)
_NEAR_ANSWER: Final = timedelta(minutes=10)
# If a transcript has a line that is this much later than an event, the host will not add a line for the event any more.
_PAST: Final = timedelta(minutes=1)
# If the text of an event has at least this many characters, a line of the transcript that contains it is the same message.
_LONG: Final = 20
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconciled:
    """Messages to save in one thread, in order, and waiting events, for which the host may still add lines to the transcript."""

    thread: str
    messages: tuple[NewMessage, ...] = ()
    waiting: tuple[Heard, ...] = ()


class _Said(NamedTuple):
    """The text of a message in the form for comparisons."""

    role: str
    text: str
    at: datetime


def _said(message: Message | NewMessage) -> list[_Said]:
    """Return the text of a message, or an empty list if the message has no text."""
    texts = [part.text for part in message.parts if isinstance(part, TextPart)]
    return [_Said(message.role, squeezed("\n".join(texts)), message.created_at or _EPOCH)] if texts else []


def _near(role: str) -> timedelta:
    return _NEAR_ANSWER if role == "assistant" else _NEAR_PROMPT


def _contains(line: str, text: str) -> bool:
    """Return whether a line of a transcript contains the text of an event. A host may add its own text to a prompt."""
    return line == text or line.endswith(f" {text}") or (len(text) >= _LONG and text in line)


def squeezed(text: str) -> str:
    """Return a text in the form for comparisons: with single spaces, and a command of the host as the user typed it."""
    command = _inside(text, "command-name")
    if command is not None:
        text = f"/{command.strip().lstrip('/')} {_inside(text, 'command-args') or ''}"
    return " ".join(text.split())


def _inside(text: str, tag: str) -> str | None:
    """Return the content of the first element with this tag. None means that there is no such element."""
    _, opened, rest = text.partition(f"<{tag}>")
    inside, closed, _ = rest.partition(f"</{tag}>")
    return inside if opened and closed else None


def reconcile(
    thread: str,
    stored: Sequence[Message],
    transcript: Conversation | None,
    heard: Sequence[Heard],
    *,
    is_over: bool,
) -> Reconciled:
    """Decide which messages of a thread to save now, and which events to keep for the next sweep.

    `stored` has every message of the thread, also tombstones. `is_over` means that the transcript will not grow any more.
    """
    lines = transcript.messages if transcript else ()
    ids = {row.id for row in stored}
    tools = {tool_key(part) for message in (*stored, *lines) for part in message.parts}
    reported, written = list[_Said](), list[_Said]()
    for message in (*stored, *lines):
        is_from_event = isinstance(message, Message) and message.metadata.get("source") == SOURCE
        (reported if is_from_event else written).extend(_said(message))
    until = max((line.created_at for line in lines if line.created_at), default=_EPOCH) - _PAST
    spoken, waiting = list[Heard](), list[Heard]()
    for one in heard:
        if one.message.id not in ids and not _is_known(one, tools, reported, written):
            (spoken if is_over or one.at < until else waiting).append(one)
    new = _new_lines(thread, lines, ids, reported)
    return Reconciled(thread=thread, messages=_in_order(new, spoken), waiting=tuple(waiting))


def _is_known(
    heard: Heard, tools: set[tuple[str, str] | None], reported: Sequence[_Said], written: Sequence[_Said]
) -> bool:
    """Return whether a message of an event is stored already, or is in the transcript.

    `reported` are texts that are stored from events, and `written` are the texts of all other messages.
    """
    (part,) = heard.message.parts
    key = tool_key(part)
    if key is not None:
        return key in tools
    ((role, text, at),) = _said(heard.message)
    # With a turn id, two events of one message have the same message id. So only events without a turn id are compared by time.
    if not heard.record.get("turn") and any(
        one.role == role and one.text == text and abs(at - one.at) <= SAME for one in reported
    ):
        return True
    near = [one.text for one in written if one.role == role and abs(at - one.at) <= _near(role)]
    # An answer may consist of several lines of the transcript.
    return any(_contains(line, text) for line in near) or (role == "assistant" and text in " ".join(near))


def _new_lines(thread: str, lines: Sequence[NewMessage], ids: set[str], reported: Sequence[_Said]) -> list[NewMessage]:
    """Return the lines of a transcript that are not stored, without parts that are stored from an event."""
    left = list(reported)
    new = list[NewMessage]()
    for line in lines:
        if line.id in ids:
            continue
        parts = tuple(part for part in line.parts if not _is_reported(thread, line, part, ids, left))
        if parts:
            new.append(line if parts == line.parts else replace(line, parts=parts))
    return new


def _is_reported(thread: str, line: NewMessage, part: Part, ids: set[str], reported: list[_Said]) -> bool:
    """Return whether a part of a line is stored from an event.

    Each text in `reported` matches one line, and is then removed from the list.
    """
    key = tool_key(part)
    if key is not None:
        return hook_id(thread, *key) in ids
    if not isinstance(part, TextPart):
        return False
    text, at = squeezed(part.text), line.created_at or _EPOCH
    for index, (role, whole, then) in enumerate(reported):
        if role != line.role or abs(at - then) > _near(role):
            continue
        if _contains(text, whole):
            del reported[index]
            return True
        if text and role == "assistant" and text in whole:
            # The line is one of several lines of this answer, so the answer stays in the list.
            return True
    return False


def _in_order(written: Sequence[NewMessage], spoken: Sequence[Heard]) -> tuple[NewMessage, ...]:
    """Return the lines of the transcript in their order, and insert by time the messages that only events reported."""
    rest = list(spoken)
    merged = list[NewMessage]()
    for line in written:
        while rest and line.created_at is not None and rest[0].at < line.created_at:
            merged.append(rest.pop(0).message)
        merged.append(line)
    return (*merged, *(one.message for one in rest))
