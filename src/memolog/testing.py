"""Helpers for tests of agents with memory: a model with scripted answers, and a clock that is set by hand.

They need no network and no API key.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import TypeAlias

from memolog.core.run import Usage
from memolog.observer.model import ModelReply, ModelRequest

__all__ = ["FakeClock", "ScriptedModel", "observations_of", "reflection_of"]

Answer: TypeAlias = str | ModelReply | BaseException | Callable[[ModelRequest], str | Awaitable[str]]

_THREAD = re.compile(r'^<thread id="([^"]+)">$', re.MULTILINE)
_NUMBERED = re.compile(r"^<message>\[(\d+)\]", re.MULTILINE)
_IDENTIFIED = re.compile(r"^[ \t]*(o\d+) ", re.MULTILINE)


class FakeClock:
    """A clock that only `advance` changes."""

    def __init__(self, start: datetime | None = None) -> None:
        self.time = start or datetime(2026, 3, 14, 9, 0, tzinfo=UTC)

    def now(self) -> datetime:
        """Return the time of this clock."""
        return self.time

    def advance(self, **duration: float) -> None:
        """Add a timedelta with these arguments: `clock.advance(hours=3)`."""
        self.time += timedelta(**duration)


def observations_of(request: ModelRequest) -> str:
    """Return a reply as an observer writes it, with one short observation for every two messages of the request."""
    names = _THREAD.findall(request.text)
    if not names:
        return _section(request.text)
    parts = _THREAD.split(request.text)
    answers = (
        f'<thread id="{name}">\n{_section(body)}\n</thread>' for name, body in zip(names, parts[2::2], strict=True)
    )
    return "\n".join(answers)


def _section(text: str) -> str:
    numbers = _NUMBERED.findall(text)
    if not numbers:
        return "<observations>\nNothing worth keeping.\n</observations>"
    pairs = [numbers[at : at + 2] for at in range(0, len(numbers), 2)]
    lines = "\n".join(f"* 🟡 Message {pair[0]} was said [{','.join(pair)}]" for pair in pairs)
    return f"<observations>\n{lines}\n</observations>\n<current-task>Going on from {numbers[-1]}</current-task>"


def reflection_of(request: ModelRequest) -> str:
    """Return a reply as a reflector writes it, with one observation that replaces all observations of the request."""
    ids = list(dict.fromkeys(_IDENTIFIED.findall(request.text)))
    return f"<observations>\n* 🔴 All of it, in short [{', '.join(ids)}]\n</observations>"


def _noted(_: ModelRequest) -> str:
    return "Noted."


_DEFAULTS = {"observe": observations_of, "reflect": reflection_of, "turn": _noted, "other": _noted}


class ScriptedModel:
    """A model that returns the given answers in order. Later requests are answered by `observations_of` or `reflection_of`.

    An answer is a text, a ModelReply, an error to raise, or a function of the request. Each call first waits `seconds`.
    """

    def __init__(self, answers: Sequence[Answer] = (), *, seconds: float = 0.0, name: str = "scripted") -> None:
        self.name = name
        self.answers = list(answers)
        self.seconds = seconds
        self.requests: list[ModelRequest] = []

    async def complete(self, request: ModelRequest) -> ModelReply:
        """Return the next answer."""
        self.requests.append(request)
        default = _DEFAULTS[request.purpose]
        answer: Answer = self.answers.pop(0) if self.answers else default
        if self.seconds:
            await asyncio.sleep(self.seconds)
        if isinstance(answer, BaseException):
            raise answer
        if isinstance(answer, ModelReply):
            return answer
        text = answer if isinstance(answer, str) else answer(request)
        if not isinstance(text, str):
            text = await text
        usage = Usage(
            model=self.name,
            input_tokens=(len(request.system) + len(request.text)) // 4,
            output_tokens=len(text) // 4,
            kind=request.purpose,
        )
        return ModelReply(text=text, usage=usage)
