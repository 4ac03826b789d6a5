"""The conversation of the demo, read from `talk/`, one file a thread.

= 2026-03-02 09:05 scene    start of an exchange, with the name of its scene if it has one
> …                         text of the user; lines indented by four continue it
@ tool what                 a tool call; `  + ` lines are its content, indented lines its result (`@!` if it failed)
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
# Longer than the lease of a run, so that it has expired at the first message after the crash.
_BETWEEN: Final = timedelta(seconds=45)
_ENTRY: Final = re.compile(r"^([><]|@!?) (.*)\n((?:(?![><@]).*\n)*)", re.MULTILINE)
_ARGUMENTS: Final = {"run": "command", "search_code": "query"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """From a user message to the final answer: what the model is given, and what it replies, in turn."""

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
        """Return each request to the model: the new message, and the reply."""
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
