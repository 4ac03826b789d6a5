"""Read hook events and transcripts as messages, and decide which messages are new."""

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

_READ: Final = ("claude-code", "codex")
SAME: Final = timedelta(seconds=5)
"""Two equal events within this time are one event that was reported twice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """One message, as an event reported it."""

    thread: str
    at: datetime
    message: NewMessage
    record: Record


def thread_of(record: Record) -> str:
    """Return the thread of an event: the session, or the session and its sub-agent."""
    session = str(record["session"])
    return f"{session}-{record['agent']}" if record.get("agent") else session


def hook_id(thread: str, *names: object) -> str:
    """Return the id of a message from an event."""
    return stable_id("hook", thread, *names)


# ---------------------------------------------------------------- events


def heard_of(records: Sequence[Record]) -> list[Heard]:
    """Return the messages of events, without repeated reports, in order of time."""
    found: dict[str, Heard] = {}
    spoken: dict[tuple[str, str, str], datetime] = {}
    for record in sorted(records, key=lambda one: float(one.get("at") or 0)):
        for one in _messages(record, spoken):
            found.setdefault(str(one.message.id), one)
    # Each message has one part, so `with_own_apart` splits none.
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
        # A tool of another server with the name of one of ours.
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
    """Return the conversations of a transcript; None if it cannot be read."""
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
    """Return the public part of a message part; parts between an opening and a closing tag are private too."""
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


# A prompt is reported when its line is written; an answer is reported when it has ended.
_NEAR_PROMPT: Final = timedelta(minutes=2)
_NEAR_ANSWER: Final = timedelta(minutes=10)
# A transcript that is this far past an event will not add a line for it.
_PAST: Final = timedelta(minutes=1)
# A text of this length inside another is not a coincidence.
_LONG: Final = 20
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconciled:
    """Messages to save in one thread, in order, and events that wait for a line of the transcript."""

    thread: str
    messages: tuple[NewMessage, ...] = ()
    waiting: tuple[Heard, ...] = ()


@dataclass(slots=True, kw_only=True)
class _Known:
    """Messages that are known already, from the store or the transcript."""

    ids: set[str] = field(default_factory=set[str])
    calls: set[str] = field(default_factory=set[str])
    results: set[str] = field(default_factory=set[str])
    texts: list[tuple[str, str, datetime]] = field(default_factory=list[tuple[str, str, datetime]])
    by_events: dict[tuple[str, str], list[datetime]] = field(default_factory=dict[tuple[str, str], list[datetime]])

    def add(self, role: str, at: datetime | None, parts: Iterable[Part], *, by_event: bool = False) -> None:
        said = list[str]()
        for part in parts:
            match part:
                case ToolCallPart():
                    self.calls.add(part.id)
                case ToolResultPart():
                    self.results.add(part.call_id)
                case TextPart():
                    said.append(part.text)
                case _:
                    pass
        if not said:
            return
        text = squeezed("\n".join(said))
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
                return self._was_told(heard, role, text) or self._was_said(role, text, heard.at)
            case _:
                return False

    def _was_told(self, heard: Heard, role: str, text: str) -> bool:
        """Return whether an earlier event reported it: by the id of the host or, without one, by time."""
        if heard.record.get("turn"):
            return heard.message.id in self.ids
        return any(abs(heard.at - then) <= SAME for then in self.by_events.get((role, text), ()))

    def _was_said(self, role: str, text: str, at: datetime) -> bool:
        near = _near(role)
        said = [one for by, one, then in self.texts if by == role and abs(at - then) <= near]
        # An answer may consist of several lines.
        return any(_holds(one, text) for one in said) or (role == "assistant" and text in " ".join(said))


def _near(role: str) -> timedelta:
    return _NEAR_ANSWER if role == "assistant" else _NEAR_PROMPT


def _holds(line: str, told: str) -> bool:
    """Return whether a line contains the text of an event: a host may add text of its own before or around it."""
    return line == told or line.endswith(f" {told}") or (len(told) >= _LONG and told in line)


def squeezed(text: str) -> str:
    """Return a text in the form used for comparison: white space collapsed, a host command as it was typed."""
    command = _inside(text, "command-name")
    if command is not None:
        text = f"/{command.strip().lstrip('/')} {_inside(text, 'command-args') or ''}"
    return " ".join(text.split())


def _inside(text: str, tag: str) -> str | None:
    """Return the content of the first element with this tag, or None."""
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
    """Decide what to save of a thread now.

    `stored` holds every row, also tombstones. `is_over` means that the transcript will not grow any more.
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
    """Return the lines that are not stored, without parts that are stored from an event."""
    ids = {row.id for row in stored}
    told = _StoredFromEvents(row for row in stored if row.metadata.get("source") == SOURCE)
    new = list[NewMessage]()
    for line in lines:
        if line.id in ids:
            continue
        parts = tuple(part for part in line.parts if not (_is_removed(thread, part, ids) or told.takes(line, part)))
        if parts:
            new.append(line if parts == line.parts else replace(line, parts=parts))
    return new


class _StoredFromEvents:
    """Texts that are stored from events; each matches one line."""

    def __init__(self, rows: Iterable[Message]) -> None:
        self.texts: list[tuple[str, str, datetime]] = []
        for row in rows:
            self.texts += [
                (row.role, squeezed(part.text), row.created_at) for part in row.parts if isinstance(part, TextPart)
            ]

    def takes(self, line: NewMessage, part: Part) -> bool:
        if not isinstance(part, TextPart):
            return False
        text, at = squeezed(part.text), line.created_at or _EPOCH
        for index, (role, said, then) in enumerate(self.texts):
            if role != line.role or abs(at - then) > _near(role):
                continue
            if _holds(text, said):
                del self.texts[index]
                return True
            if text and role == "assistant" and text in said:
                # One of several lines of an answer.
                return True
        return False


def _is_removed(thread: str, part: Part, ids: set[str]) -> bool:
    """Return whether an event reported this call or result, also one that was forgotten since."""
    match part:
        case ToolCallPart():
            return hook_id(thread, "call", part.id) in ids
        case ToolResultPart():
            return hook_id(thread, "result", part.call_id) in ids
        case _:
            return False


def _in_order(written: Sequence[NewMessage], spoken: Sequence[Heard]) -> tuple[NewMessage, ...]:
    """Return lines in order, with messages that only events reported inserted by time."""
    rest = list(spoken)
    merged = list[NewMessage]()
    for line in written:
        while rest and line.created_at is not None and rest[0].at < line.created_at:
            merged.append(rest.pop(0).message)
        merged.append(line)
    return (*merged, *(one.message for one in rest))
