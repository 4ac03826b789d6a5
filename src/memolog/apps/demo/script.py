"""Read the conversation of the demo from `talk/`, which has one file for each thread.

= 2026-03-02 09:05 scene    an exchange starts; the name of its scene is optional
> …                         text of the user; it may continue on lines with four spaces
@ tool argument             a tool call (`@!`: it failed); after it, lines that begin with `  + ` are the content that the call
                            writes, and lines that begin with four spaces are the result of the call
< …                         text of the assistant
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cache
from importlib.resources import files
from typing import Final
from zoneinfo import ZoneInfo

from memolog import AssistantMessage, NewMessage, TextPart, ToolCallPart, ToolMessage, UserMessage
from memolog.core.exact_json import JsonObject

THREADS: Final = ("api", "web", "ops")
ZONE: Final = "Europe/Berlin"
# Time between two messages. It is longer than the lease of a run (30 s). The demo kills a process during a run, and at the next
# message the lease of that run has expired.
_BETWEEN: Final = timedelta(seconds=45)
_ENTRY: Final = re.compile(r"^([><]|@!?) (.*)\n((?:(?![><@]).*\n)*)", re.MULTILINE)
_ARGUMENTS: Final = {"run": "command", "search_code": "query"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """A user message and the messages up to the final answer. Messages for the model and its replies alternate."""

    thread: str
    at: datetime
    scene: str | None
    messages: tuple[NewMessage, ...]

    @property
    def said(self) -> str:
        """Return the text of the user."""
        return text_of(self.messages[0])

    @property
    def steps(self) -> list[tuple[NewMessage, NewMessage]]:
        """Return the new message and the reply of each request to the model."""
        return list(zip(self.messages[::2], self.messages[1::2], strict=True))


def text_of(message: NewMessage) -> str:
    """Return the text of a message."""
    return "\n".join(part.text for part in message.parts if isinstance(part, TextPart))


@cache
def script() -> tuple[Exchange, ...]:
    """Return all exchanges of the three threads in order of time."""
    found = [exchange for thread in THREADS for exchange in _read(thread)]
    return tuple(sorted(found, key=lambda exchange: exchange.at))


def _read(thread: str) -> Iterator[Exchange]:
    text = files("memolog.apps.demo").joinpath("talk", f"{thread}.txt").read_text("utf-8")
    count = 0
    for block in f"\n{text}".split("\n= ")[1:]:
        head, _, body = block.partition("\n")
        day, time, *scene = head.split()
        at = datetime.fromisoformat(f"{day}T{time}").replace(tzinfo=ZoneInfo(ZONE))
        messages: list[NewMessage] = []
        for mark, first, rest in _ENTRY.findall(body):
            messages += _messages(mark, first, rest.splitlines(), f"{thread}-call-{count + len(messages)}")
        stamped = tuple(
            replace(message, id=f"{thread}-{count + number:03d}", created_at=at + number * _BETWEEN)
            for number, message in enumerate(messages, start=1)
        )
        count += len(messages)
        yield Exchange(thread=thread, at=at, scene=scene[0] if scene else None, messages=stamped)


def _messages(mark: str, first: str, rest: list[str], call_id: str) -> Iterator[NewMessage]:
    """Yield a text, or a tool call and its result."""
    lines, content = ([line[4:] for line in rest if line.startswith(begin)] for begin in ("    ", "  +"))
    if mark == ">":
        yield UserMessage("\n".join([first, *lines]), speaker="Mira")
    elif mark == "<":
        yield AssistantMessage("\n".join([first, *lines]))
    else:
        name, _, target = first.partition(" ")
        arguments: JsonObject = {_ARGUMENTS.get(name, "path"): target}
        if content:
            arguments["content"] = "\n".join(content) + "\n"
        yield AssistantMessage(ToolCallPart(id=call_id, name=name, arguments=arguments))
        yield ToolMessage(call_id, "\n".join(lines), name=name, is_error=mark == "@!")
