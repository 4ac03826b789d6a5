"""Plays exchanges through turns of a memory, as an agent would.

Knows one process: its memory, its clock, and which messages were said. What else happens at an exchange is a scene.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace

from memolog.apps.demo.script import RESOURCE, ZONE, Exchange, Step
from memolog.apps.demo.tally import Tally
from memolog.context import Context
from memolog.domain.message import NewMessage
from memolog.runtime.memory import Memory
from memolog.runtime.turn import Turn
from memolog.testing import FakeClock
from memolog.tokens import HeuristicCounter, count_message

__all__ = ["Played", "play_exchange"]

_COUNTER = HeuristicCounter()


@dataclass(slots=True)
class Played:
    """What was said, and what it came to."""

    said: dict[str, list[NewMessage]] = field(default_factory=dict[str, list[NewMessage]])
    history: dict[str, int] = field(default_factory=dict[str, int])
    """The tokens of each thread's messages."""
    tally: Tally = field(default_factory=Tally)

    def add(self, thread: str, message: NewMessage) -> None:
        """Keep what was said."""
        self.said.setdefault(thread, []).append(message)
        self.history[thread] = self.history.get(thread, 0) + count_message(message, _COUNTER)


async def play_exchange(
    memory: Memory,
    clock: FakeClock,
    exchange: Exchange,
    played: Played,
    *,
    stored: frozenset[str] = frozenset(),
    answer: Callable[[Context, Step], Awaitable[NewMessage]] | None = None,
    saved: Callable[[NewMessage], None] | None = None,
) -> None:
    """Play one exchange; what another process stored of it before it died is not asked for again.

    `answer` gives the last reply in place of the script, `saved` is told of each message that is stored.
    """
    async with memory.turn(exchange.thread, RESOURCE, zone=ZONE) as turn:
        for number, step in enumerate(exchange.steps, start=1):
            played.add(exchange.thread, step.given)
            if step.reply.id in stored:
                played.add(exchange.thread, step.reply)
                continue
            context = await _prepare(turn, clock, step, played)
            if saved:
                saved(step.given)
            reply = step.reply
            if answer is not None and number == len(exchange.steps):
                reply = replace(reply, parts=(await answer(context, step)).parts)
            clock.time = reply.created_at or clock.time
            await turn.record(reply)
            played.add(exchange.thread, reply)
            if saved:
                saved(reply)
            # Background work is let through after each step, so that the demo shows the same every time.
            await memory.settled()
    await memory.settled()


async def _prepare(turn: Turn, clock: FakeClock, step: Step, played: Played) -> Context:
    clock.time = step.given.created_at or clock.time
    context = await turn.prepare(step.given)
    played.tally.add(turn.thread, context, played.history[turn.thread], clock.time)
    return context
