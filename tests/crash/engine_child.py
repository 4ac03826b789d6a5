"""A fixed conversation with a memory, and the program that dies in the middle of it.

    engine_child.py      forks a process for each line of stdin; it holds the conversation from a step on, and may be killed

Everything that happens is the same each time: the clock says which step it is, and the model's answers depend on nothing but
what it is asked. A step that was interrupted is repeated with the same message ids, later than any lease lasts.
"""

import asyncio
import hashlib
import os
import random
import re
import signal
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from crash.children import fork_for_each_line, tell
from memolog import (
    AssistantMessage,
    Config,
    ObservationConfig,
    ReflectionConfig,
    ToolCallPart,
    ToolMessage,
    UserMessage,
)
from memolog.core.message import NewMessage
from memolog.core.run import Usage
from memolog.memory import Memory
from memolog.observer.model import ModelReply, ModelRequest
from memolog.testing import reflection_of
from memolog.turn import Turn

__all__ = ["RESOURCE", "STEPS", "THREAD", "Conversation", "converse"]

RESOURCE: Final = "crash"
THREAD: Final = "talk"
STEPS: Final = (
    *(*["chat"] * 6, "tools", "outage", "outage", *["chat"] * 3, "guard", *["chat"] * 3, "stall", "slow"),
    # The last turn shows what was reflected meanwhile, whether or not that was done before `observe` had ended.
    *(*["chat"] * 5, "restore", "reflect", *["chat"] * 2, "observe", "chat"),
)
_CONFIG: Final = Config(
    observation=ObservationConfig(message_tokens=600, previous_tokens=200, deadline=120),
    reflection=ReflectionConfig(observation_tokens=300),
    # Time passes differently where a step is repeated; nothing but sizes may decide here.
    activate_after_idle=False,
    close_timeout=120,
)
_START: Final = datetime(2026, 3, 14, 9, 0, tzinfo=UTC)
_STEP: Final = timedelta(minutes=30)
# Longer than a lease; a step may be interrupted again and again and is over before the next.
_AFTER_LEASES: Final = timedelta(seconds=31)
_SLOW_SECONDS: Final = 0.2
_NUMBERED: Final = re.compile(r"^<message>\[(\d+)\][^\n]*\n(.*?)\n</message>", re.MULTILINE | re.DOTALL)
_TRANSCRIPT: Final = re.compile(r"<transcript>.*</transcript>", re.DOTALL)

Tell = Callable[[object], None]


class _Clock:
    """A clock that shows the step."""

    def __init__(self) -> None:
        self.time = _START

    def now(self) -> datetime:
        """Return the time of the step."""
        return self.time


class _Model:
    """Answers by the request alone; it is away in the steps of an outage."""

    name = "fixed"

    def __init__(self, clock: _Clock, tell: Tell) -> None:
        self._clock, self._tell = clock, tell
        self.thought: asyncio.Event | None = None
        """When it has thought for long enough about what is slow; None: after a moment."""

    async def complete(self, request: ModelRequest) -> ModelReply:
        """Return the same answer to the same request."""
        step = (self._clock.now() - _START) // _STEP
        transcript = "".join(_TRANSCRIPT.findall(request.text))
        self._tell(["asked", step, _digest(transcript), _digest(request.text)])
        if STEPS[step] == "outage":
            raise ConnectionError("the model is away")
        if "slow" in transcript:
            await (asyncio.sleep(_SLOW_SECONDS) if self.thought is None else self.thought.wait())
        if request.purpose == "reflect":
            return ModelReply(text=reflection_of(request))
        shown = _NUMBERED.findall(transcript)
        lines = "\n".join(f"* 🟡 They said {_digest(text)} [{number}]" for number, text in shown[::2])
        hint = f"<current-task>Go on from {_digest(shown[-1][1])}</current-task>"
        usage = Usage(model=self.name, input_tokens=len(request.text) // 4, cost=0.001)
        return ModelReply(text=f"<observations>\n{lines}\n</observations>\n{hint}", usage=usage)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:10]


class Conversation:
    """Holds the steps of the conversation, one after the other."""

    def __init__(self, address: str, tell: Tell) -> None:
        self._clock, self._tell = _Clock(), tell
        self._model = _Model(self._clock, tell)
        self.memory = Memory(
            address,
            model=self._model,
            config=_CONFIG,
            clock=self._clock,
            chance=random.Random(os.getpid()).getrandbits,
        )

    async def hold(self, first: int, attempt: int = 0) -> None:
        """Go through the steps from one on, which may have been interrupted that often before."""
        for number in range(first, len(STEPS)):
            self._clock.time = _START + number * _STEP
            if number == first:
                self._clock.time += attempt * _AFTER_LEASES
            await getattr(self, f"_{STEPS[number]}")(number)
            await self.memory.settled()
            self._tell(["done", number])

    def _turn(self, **options: Any) -> Turn:
        return self.memory.thread(THREAD, resource=RESOURCE).turn(model="answering", **options)

    async def _say(self, turn: Turn, number: int, text: str) -> None:
        turn.id = f"turn-{number}"
        context = await turn.prepare(_at(number, UserMessage(f"question {number} {text}", id=f"u{number}")))
        await self.memory.settled()
        await self._answer(turn, number, "done", ["it will rain " * 14], context.tokens.total)

    async def _answer(self, turn: Turn, number: int, name: str, parts: list[Any], counted: int = 0) -> None:
        usage = Usage(model="answering", input_tokens=counted, output_tokens=1) if counted else None
        await turn.record(_at(number, AssistantMessage(parts, id=f"a{number}-{name}")), usage=usage)
        await self.memory.settled()

    async def _chat(self, number: int) -> None:
        async with self._turn() as turn:
            await self._say(turn, number, "about the weather " * 9)

    _outage = _chat

    async def _tools(self, number: int, calls: int = 4) -> None:
        async with self._turn() as turn:
            await self._say(turn, number, "look it up " * 9)
            # Usage that comes after its answer is stored by itself.
            await turn.record(usage=Usage(model="answering", input_tokens=100, output_tokens=1))
            await self._loop(turn, number, calls)

    async def _loop(self, turn: Turn, number: int, calls: int) -> None:
        for call in range(calls):
            name = f"{number}.{call}"
            part = ToolCallPart(id=name, name="read", arguments={"path": f"{name}.txt"})
            await self._answer(turn, number, str(call), [part])
            await turn.prepare(_at(number, ToolMessage(name, "line of text\n" * 12, id=f"r{name}")))
            await self.memory.settled()

    async def _guard(self, number: int) -> None:
        """Say something, look things up until some of it is in the log, and take it all back."""
        async with self._turn() as turn:
            await self._say(turn, number, "my password is swordfish " * 5)
            await self._loop(turn, number, 12)
            await turn.discard()

    async def _stall(self, number: int) -> None:
        """Say more than a turn waits for, without patience."""
        async with self._turn(settings={"observation.deadline": 0.001}) as turn:
            await self._say(turn, number, "slow and long " * 260)

    async def _slow(self, number: int) -> None:
        """Say something that is thought about for longer than a heartbeat."""
        runs: Any = (await self.memory.open()).store.runs
        heartbeat, self._model.thought = runs.heartbeat, asyncio.Event()

        async def beating(*claim: Any, **options: Any) -> None:
            await heartbeat(*claim, **options)
            if self._model.thought is not None:
                self._model.thought.set()

        runs.heartbeat = beating
        async with self._turn(settings={"heartbeat": 0.01, "buffer_on_idle": True}) as turn:
            await self._say(turn, number, "slow " * 30)
        await self.memory.settled()
        runs.heartbeat, self._model.thought = heartbeat, None

    async def _reflect(self, number: int) -> None:
        del number
        # Asked for by hand, it is done once: who died after it need not repeat it.
        if (await self.memory.thread(THREAD, resource=RESOURCE).history())[-1].kind == "restore":
            await self.memory.thread(THREAD, resource=RESOURCE).reflect()

    async def _restore(self, number: int) -> None:
        del number
        await self.memory.thread(THREAD, resource=RESOURCE).restore(0)

    async def _observe(self, number: int) -> None:
        del number
        await self.memory.thread(THREAD, resource=RESOURCE).observe()


def _at(number: int, message: NewMessage) -> NewMessage:
    """Return a message as it was said, however often it is said again."""
    return replace(message, created_at=_START + number * _STEP)


async def converse(address: str, first: int, attempt: int, points: dict[str, int]) -> None:
    """Hold the conversation from a step on; die when one of these commit points is reached for the given time."""
    reached = Counter[str]()

    def hook(name: str) -> None:
        reached[name] += 1
        if reached[name] == points.get(name):
            tell(["died", name])
            os.kill(os.getpid(), signal.SIGKILL)

    conversation = Conversation(address, tell)
    kit = await conversation.memory.open()
    kit.store.engine.commit_hook = hook
    await conversation.hold(first, attempt)
    await conversation.memory.aclose()


if __name__ == "__main__":
    fork_for_each_line(converse)
