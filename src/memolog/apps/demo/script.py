"""The conversation that the demo plays, read from our own notes in `talk/`.

Knows the form of those notes and turns them into messages with ids and times. Knows nothing of memory.

    = 2026-03-02 09:05 scene    when an exchange begins, and what else happens there, if anything
    > …                         what the user says; lines that are indented by four go on
    @ tool what                 a call; `  + ` lines are what it was given to write, indented ones its answer (`@!` failed)
    < …                         what the assistant says
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cache
from importlib.resources import files
from typing import Final
from zoneinfo import ZoneInfo

from memolog.domain.codec import JsonObject
from memolog.domain.message import AssistantMessage, NewMessage, ToolCallPart, ToolMessage, UserMessage

__all__ = ["RESOURCE", "THREADS", "ZONE", "Exchange", "Step", "script"]

RESOURCE: Final = "mira"
THREADS: Final = ("api", "web", "ops")
ZONE: Final = "Europe/Berlin"
_BERLIN: Final = ZoneInfo(ZONE)
# Longer than the lease of a run, so that the first message after a crash finds it ended.
_BETWEEN: Final = timedelta(seconds=45)
_GIVEN: Final = "  + "
_INDENT: Final = "    "


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One request to the model: what is new for it, and what it answers."""

    given: NewMessage
    reply: NewMessage


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """From what the user says to the final answer."""

    thread: str
    at: datetime
    scene: str | None
    said: str
    steps: tuple[Step, ...]


@dataclass(slots=True)
class _Entry:
    """One marked line with what belongs to it."""

    mark: str
    head: str
    given: list[str]
    lines: list[str]


@cache
def script() -> tuple[Exchange, ...]:
    """Return all exchanges of the three threads, in the order of their times."""
    found = [exchange for thread in THREADS for exchange in _read(thread)]
    return tuple(sorted(found, key=lambda exchange: exchange.at))


def _read(thread: str) -> Iterator[Exchange]:
    text = files("memolog.apps.demo").joinpath("talk", f"{thread}.txt").read_text("utf-8")
    entries = list(_entries(text))
    starts = [index for index, entry in enumerate(entries) if entry.mark == "="]
    count = 0
    for start, end in zip(starts, [*starts[1:], len(entries)], strict=True):
        exchange = _exchange(thread, entries[start], entries[start + 1 : end], count)
        count += 2 * len(exchange.steps)
        yield exchange


def _entries(text: str) -> Iterator[_Entry]:
    entry: _Entry | None = None
    for line in text.splitlines():
        if line[:1] in {"=", ">", "<", "@"}:
            if entry is not None:
                yield entry
            mark, _, head = line.partition(" ")
            entry = _Entry(mark, head, [], [])
        elif entry is not None and line.startswith("  +"):
            entry.given.append(line[len(_GIVEN) :])
        elif entry is not None and line.startswith(_INDENT):
            entry.lines.append(line[len(_INDENT) :])
    if entry is not None:
        yield entry


def _exchange(thread: str, header: _Entry, entries: list[_Entry], count: int) -> Exchange:
    day, time, *scene = header.head.split()
    at = datetime.fromisoformat(f"{day}T{time}").replace(tzinfo=_BERLIN)
    said = "\n".join([entries[0].head, *entries[0].lines])
    messages: list[NewMessage] = [UserMessage(said, speaker="Mira")]
    for entry in entries[1:]:
        messages += _messages(entry, f"{thread}-call-{count + len(messages)}")
    stamped = [
        replace(message, id=f"{thread}-{count + number:03d}", created_at=at + number * _BETWEEN)
        for number, message in enumerate(messages, start=1)
    ]
    pairs = zip(stamped[::2], stamped[1::2], strict=True)
    steps = tuple(Step(given=given, reply=reply) for given, reply in pairs)
    return Exchange(thread=thread, at=at, scene=scene[0] if scene else None, said=said, steps=steps)


def _messages(entry: _Entry, call_id: str) -> Iterator[NewMessage]:
    """Yield an answer, or a call and its result."""
    if entry.mark == "<":
        yield AssistantMessage("\n".join([entry.head, *entry.lines]))
        return
    name, _, target = entry.head.partition(" ")
    key = "command" if name == "run" else "query" if name == "search_code" else "path"
    arguments: JsonObject = {key: target}
    if entry.given:
        arguments["content"] = "\n".join(entry.given) + "\n"
    yield AssistantMessage(ToolCallPart(id=call_id, name=name, arguments=arguments))
    yield ToolMessage(call_id, "\n".join(entry.lines), name=name, is_error=entry.mark == "@!")
