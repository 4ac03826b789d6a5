"""One process of a fleet: holds turns in random threads and says which messages it knows to be saved.

Run as `python fleet_child.py ADDRESS SEED TURNS THREADS HOURS`. Its clock is so many hours ahead. Each
acknowledged message is a line of JSON on standard output.
"""

import asyncio
import json
import random
import sys
from contextlib import suppress
from datetime import datetime, timedelta

from memolog import AssistantMessage, Config, Memory, ObservationConfig, ReflectionConfig, Turn, UserMessage
from memolog.core.clock import SystemClock
from memolog.core.message import NewMessage, ToolCallPart, ToolMessage
from memolog.errors import ModelFailed
from memolog.testing import ScriptedModel

CONFIG = Config(
    # Longer than all that a process waits for: the leases of those that were killed, and a busy machine.
    observation=ObservationConfig(message_tokens=800, previous_tokens=100, deadline=120),
    reflection=ReflectionConfig(observation_tokens=500),
    close_timeout=120,
    # Only a process that was killed lets a lease of this length end.
    lease=600,
    heartbeat=1.0,
    busy_timeout=120,
    statement_timeout=120,
    pool_size=4,
)


class Ahead(SystemClock):
    """A clock that is some hours ahead."""

    def __init__(self, hours: int) -> None:
        self.ahead = timedelta(hours=hours)

    def now(self) -> datetime:
        """Return a time in the future."""
        return super().now() + self.ahead


def acknowledge(thread: str, *messages: NewMessage) -> None:
    """Say that these are saved."""
    for message in messages:
        line = json.dumps({"thread": thread, "id": message.id, "text": _text(message)})
        sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _text(message: NewMessage) -> str:
    return "".join(getattr(part, "text", "") for part in message.parts)


async def prepare(turn: Turn, message: NewMessage) -> None:
    """Make the call again where the observer is behind: another process, which was killed, may have had its runs."""
    for _ in range(5):
        with suppress(ModelFailed):
            await turn.prepare(message)
            return
    await turn.prepare(message)


async def hold(memory: Memory, chance: random.Random, thread: str, name: str) -> None:
    """Hold one turn: a question, sometimes a tool call, an answer."""
    async with memory.thread(thread, resource="fleet").turn() as turn:
        question = UserMessage(f"{name} asks " + "some words " * chance.randint(5, 30), id=f"{name}-q")
        await prepare(turn, question)
        acknowledge(thread, question)
        if chance.random() < 0.3:
            call = AssistantMessage(ToolCallPart(id=f"{name}-c", name="look", arguments={"at": name}), id=f"{name}-c")
            result = ToolMessage(f"{name}-c", "a line\n" * chance.randint(1, 60), id=f"{name}-r")
            await turn.record(call)
            await prepare(turn, result)
            acknowledge(thread, call, result)
        answer = AssistantMessage(f"{name} answers " + "more words " * chance.randint(5, 30), id=f"{name}-a")
        await turn.record(answer)
        acknowledge(thread, answer)


async def main(address: str, seed: int, turns: int, threads: int, hours: int) -> None:
    """Hold turns, a few at a time."""
    chance = random.Random(seed)
    model = ScriptedModel(seconds=0.005)
    config = CONFIG.with_overrides({"strict": True})
    async with Memory(address, model=model, config=config, clock=Ahead(hours)) as memory:
        for number in range(turns):
            thread = f"t{chance.randrange(threads)}"
            await hold(memory, chance, thread, f"p{seed}-{number}")
        await memory.settled()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], *map(int, sys.argv[2:])))
