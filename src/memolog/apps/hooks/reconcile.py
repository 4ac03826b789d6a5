"""Convert hook events and transcripts into messages, and decide which messages are new.

A message can be in an event, in a line of the transcript, or in both. It must be stored once.
"""

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

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
)
from memolog.core.own_tools import own_tool, with_own_apart
from memolog.errors import InputError
from memolog.transfer.conversation import Conversation, stable_id
from memolog.transfer.detect import read_source

Record = dict[str, Any]
SOURCE: Final = "hook"
"""Value of `source` in the metadata of a message that comes from an event, not from a transcript."""

# Hosts whose transcripts can be read.
_READ: Final = ("claude-code", "codex")
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
    """Return the conversations of a transcript without private text. None means that the transcript cannot be read."""
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
# If a transcript has a line that is this much later than an event, the host will not add a line for the event.
_PAST: Final = timedelta(minutes=1)
# Minimum number of characters: if a line contains a text of this length, they are the same message and not equal by chance.
_LONG: Final = 20
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconciled:
    """Messages to save in one thread, in order, and events to keep, because their line in the transcript may still follow."""

    thread: str
    messages: tuple[NewMessage, ...] = ()
    waiting: tuple[Heard, ...] = ()


@dataclass(slots=True, kw_only=True)
class _Known:
    """Messages that are stored or in the transcript. Texts that were stored from events are in `by_events`, with their times."""

    ids: set[str] = field(default_factory=set[str])
    calls: set[str] = field(default_factory=set[str])
    results: set[str] = field(default_factory=set[str])
    texts: list[tuple[str, str, datetime]] = field(default_factory=list[tuple[str, str, datetime]])
    by_events: dict[tuple[str, str], list[datetime]] = field(default_factory=dict[tuple[str, str], list[datetime]])

    def add(self, role: str, at: datetime | None, parts: Iterable[Part], *, by_event: bool = False) -> None:
        texts = list[str]()
        for part in parts:
            match part:
                case ToolCallPart():
                    self.calls.add(part.id)
                case ToolResultPart():
                    self.results.add(part.call_id)
                case TextPart():
                    texts.append(part.text)
                case _:
                    pass
        if not texts:
            return
        text = squeezed("\n".join(texts))
        if by_event:
            self.by_events.setdefault((role, text), []).append(at or _EPOCH)
        else:
            self.texts.append((role, text, at or _EPOCH))

    def has(self, heard: Heard) -> bool:
        (part,) = heard.message.parts
        match part:
            case ToolCallPart():
                return part.id in self.calls
            case ToolResultPart():
                return part.call_id in self.results
            case TextPart():
                role, text = heard.message.role, squeezed(part.text)
                return self._is_from_event(heard, role, text) or self._is_in_texts(role, text, heard.at)
            case _:
                return False

    def _is_from_event(self, heard: Heard, role: str, text: str) -> bool:
        """Return whether the message was stored from an event: with the same id or, without a turn id, at about the same time."""
        if heard.record.get("turn"):
            return heard.message.id in self.ids
        return any(abs(heard.at - then) <= SAME for then in self.by_events.get((role, text), ()))

    def _is_in_texts(self, role: str, text: str, at: datetime) -> bool:
        near = _near(role)
        lines = [line for by, line, then in self.texts if by == role and abs(at - then) <= near]
        # An answer may consist of several lines of the transcript.
        return any(_contains(line, text) for line in lines) or (role == "assistant" and text in " ".join(lines))


def _near(role: str) -> timedelta:
    return _NEAR_ANSWER if role == "assistant" else _NEAR_PROMPT


def _contains(line: str, text: str) -> bool:
    """Return whether a line of a transcript contains the text of an event. A host may add text before or after it."""
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
    written = _new_lines(thread, stored, transcript.messages if transcript else ())
    known = _Known(ids={row.id for row in stored})
    for row in stored:
        known.add(row.role, row.created_at, row.parts, by_event=row.metadata.get("source") == SOURCE)
    for line in transcript.messages if transcript else ():
        known.add(line.role, line.created_at, line.parts)
    times = [line.created_at for line in transcript.messages if line.created_at] if transcript else []
    until = max(times, default=_EPOCH) - _PAST
    spoken, waiting = list[Heard](), list[Heard]()
    for one in heard:
        if one.message.id in known.ids or known.has(one):
            continue
        (spoken if is_over or one.at < until else waiting).append(one)
    return Reconciled(thread=thread, messages=_in_order(written, spoken), waiting=tuple(waiting))


def _new_lines(thread: str, stored: Sequence[Message], lines: Sequence[NewMessage]) -> list[NewMessage]:
    """Return the lines of a transcript that are not stored, without parts that are stored from an event."""
    ids = {row.id for row in stored}
    texts = _TextsFromEvents(row for row in stored if row.metadata.get("source") == SOURCE)
    new = list[NewMessage]()
    for line in lines:
        if line.id in ids:
            continue
        parts = tuple(part for part in line.parts if not (_is_reported(thread, part, ids) or texts.match(line, part)))
        if parts:
            new.append(line if parts == line.parts else replace(line, parts=parts))
    return new


class _TextsFromEvents:
    """Texts that are stored from events. Each text matches one line of the transcript, then it is removed from the list."""

    def __init__(self, rows: Iterable[Message]) -> None:
        self.texts: list[tuple[str, str, datetime]] = []
        for row in rows:
            self.texts += [
                (row.role, squeezed(part.text), row.created_at) for part in row.parts if isinstance(part, TextPart)
            ]

    def match(self, line: NewMessage, part: Part) -> bool:
        if not isinstance(part, TextPart):
            return False
        text, at = squeezed(part.text), line.created_at or _EPOCH
        for index, (role, stored, then) in enumerate(self.texts):
            if role != line.role or abs(at - then) > _near(role):
                continue
            if _contains(text, stored):
                del self.texts[index]
                return True
            if text and role == "assistant" and text in stored:
                # The line is one of several lines of this answer, so the answer stays in the list.
                return True
        return False


def _is_reported(thread: str, part: Part, ids: set[str]) -> bool:
    """Return whether an event reported this tool call or result. `ids` also has the ids of tombstones."""
    match part:
        case ToolCallPart():
            return hook_id(thread, "call", part.id) in ids
        case ToolResultPart():
            return hook_id(thread, "result", part.call_id) in ids
        case _:
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
