"""Read hook events and transcripts as messages, and decide which messages are new."""

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from memolog.apps.hooks.events import Curtain, public, public_text
from memolog.domain.errors import InputError
from memolog.domain.message import (
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
from memolog.domain.own import own_tool, with_own_apart
from memolog.transfer import Conversation, read_source
from memolog.transfer.values import stable_id

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


# A prompt is told when it is sent, and its line is written then; an answer is told when it has ended.
_NEAR_PROMPT: Final = timedelta(minutes=2)
_NEAR_ANSWER: Final = timedelta(minutes=10)
# A transcript that has gone on for so long after an event will not come back to it.
_PAST: Final = timedelta(minutes=1)
# Words enough that nobody says them by chance inside others.
_LONG: Final = 20
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What is to be saved in one thread, in order, and the events that wait for their line."""

    thread: str
    messages: tuple[NewMessage, ...] = ()
    waiting: tuple[Heard, ...] = ()


@dataclass(slots=True, kw_only=True)
class _Known:
    """What was said already, whoever told it."""

    ids: set[str] = field(default_factory=set[str])
    calls: set[str] = field(default_factory=set[str])
    results: set[str] = field(default_factory=set[str])
    texts: list[tuple[str, str, datetime]] = field(default_factory=list[tuple[str, str, datetime]])
    by_events: dict[tuple[str, str], list[datetime]] = field(default_factory=dict[tuple[str, str], list[datetime]])

    def add(self, role: str, at: datetime | None, parts: Iterable[Part], *, by_event: bool = False) -> None:
        """Note what a message says."""
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
        """Tell whether something that an event tells of is known."""
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
        """Tell whether an earlier event told it: by the host's own id, or, where it gives none, by the moment."""
        if heard.record.get("turn"):
            return heard.message.id in self.ids
        return any(abs(heard.at - then) <= SAME for then in self.by_events.get((role, text), ()))

    def _was_said(self, role: str, text: str, at: datetime) -> bool:
        near = _near(role)
        said = [one for by, one, then in self.texts if by == role and abs(at - then) <= near]
        # An answer may have come in several pieces.
        return any(_holds(one, text) for one in said) or (role == "assistant" and text in " ".join(said))


def _near(role: str) -> timedelta:
    return _NEAR_ANSWER if role == "assistant" else _NEAR_PROMPT


def _holds(line: str, told: str) -> bool:
    """Tell whether a line says what an event told: a host may write what it added itself before or around it."""
    return line == told or line.endswith(f" {told}") or (len(told) >= _LONG and told in line)


def squeezed(text: str) -> str:
    """Return a text as it is compared: spaces do not count, and a command of the host is what was typed."""
    command = _inside(text, "command-name")
    if command is not None:
        text = f"/{command.strip().lstrip('/')} {_inside(text, 'command-args') or ''}"
    return " ".join(text.split())


def _inside(text: str, tag: str) -> str | None:
    """Return what stands in the first element of this tag; None without one."""
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
) -> Told:
    """Return what to save of a thread now.

    `stored` is every row of it, tombstones too. `is_over` says that no line will come any more.
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
    return Told(thread=thread, messages=_in_order(written, spoken), waiting=tuple(waiting))


def _new_lines(thread: str, stored: Sequence[Message], lines: Sequence[NewMessage]) -> list[NewMessage]:
    """Return the lines that are not stored, without what an event has told already."""
    ids = {row.id for row in stored}
    told = _Told(row for row in stored if row.metadata.get("source") == SOURCE)
    new = list[NewMessage]()
    for line in lines:
        if line.id in ids:
            continue
        parts = tuple(part for part in line.parts if not (_is_removed(thread, part, ids) or told.takes(line, part)))
        if parts:
            new.append(line if parts == line.parts else replace(line, parts=parts))
    return new


class _Told:
    """What is stored because an event told it; each text answers for one line."""

    def __init__(self, rows: Iterable[Message]) -> None:
        self.texts: list[tuple[str, str, datetime]] = []
        for row in rows:
            self.texts += [
                (row.role, squeezed(part.text), row.created_at) for part in row.parts if isinstance(part, TextPart)
            ]

    def takes(self, line: NewMessage, part: Part) -> bool:
        """Tell whether a part of a line is stored already."""
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
                # One of several pieces of an answer.
                return True
        return False


def _is_removed(thread: str, part: Part, ids: set[str]) -> bool:
    """Tell whether an event told of this call or result: also one that was forgotten since, whose words are gone."""
    match part:
        case ToolCallPart():
            return hook_id(thread, "call", part.id) in ids
        case ToolResultPart():
            return hook_id(thread, "result", part.call_id) in ids
        case _:
            return False


def _in_order(written: Sequence[NewMessage], spoken: Sequence[Heard]) -> tuple[NewMessage, ...]:
    """Return lines in their order, with what only events told put between them by its time."""
    rest = list(spoken)
    merged = list[NewMessage]()
    for line in written:
        while rest and line.created_at is not None and rest[0].at < line.created_at:
            merged.append(rest.pop(0).message)
        merged.append(line)
    return (*merged, *(one.message for one in rest))
