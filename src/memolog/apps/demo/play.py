"""The demo from the first line to the last figure.

Knows the order of things: who plays which exchange, which scene belongs to it, and what is said at the end.
"""

from dataclasses import dataclass, field
from datetime import date
from functools import partial

from memolog.apps.demo.crash import Killed, kill_midway
from memolog.apps.demo.narrator import Narrator
from memolog.apps.demo.proof import Proof, prove
from memolog.apps.demo.scenes import Shown, ask, close_task, fetch_code, open_tasks, start_task
from memolog.apps.demo.screen import WIDTH, Screen, cut_to
from memolog.apps.demo.script import RESOURCE, THREADS, Exchange, Step, script
from memolog.apps.demo.settings import CONFIG, open_memory
from memolog.apps.demo.stage import Played, play_exchange
from memolog.context import Context
from memolog.domain.errors import InputError
from memolog.domain.message import NewMessage
from memolog.runtime.memory import Memory
from memolog.store.postgres_address import safe_url
from memolog.testing import FakeClock

__all__ = ["Demo"]


@dataclass(slots=True)
class Demo:
    """One run of the demo on one database."""

    address: str
    screen: Screen
    clock: FakeClock = field(default_factory=FakeClock)
    played: Played = field(default_factory=Played)
    shown: Shown = field(default_factory=Shown)
    killed: Killed | None = None
    survived: int = 0
    """How many of the messages that the killed process had stored were there afterwards."""
    proof: Proof | None = None
    narrator: Narrator = field(init=False)

    def __post_init__(self) -> None:
        self.narrator = Narrator(self.screen)

    async def play(self) -> None:
        """Play everything; what happened is in the fields."""
        exchanges = script()
        crash = next(number for number, exchange in enumerate(exchanges) if exchange.scene == "crash")
        self._introduce(exchanges)
        async with self._open("first") as memory:
            await _refuse_used(memory)
            await self._days(memory, exchanges[:crash], frozenset())
        stored = await self._crash(exchanges, crash)
        async with self._open("second") as memory:
            memory_has = await _stored(memory)
            self.survived = len(memory_has & set(stored))
            there = f"{self.survived} of {len(stored)} messages that it had saved are there"
            self.screen.line(_INSET, (f"restarted: {there}", "good"))
            for thread in THREADS:
                self.narrator.covered[thread] = (await memory.status(thread, RESOURCE)).cursor
            await self._days(memory, exchanges[crash:], memory_has, crash)
            self.proof = await prove(memory, self.played.said)
        await self.screen.pause(0.5)

    def _open(self, name: str) -> Memory:
        memory = open_memory(self.address, self.clock, name)
        memory.subscribe(self.narrator.hear)
        return memory

    def _introduce(self, exchanges: tuple[Exchange, ...]) -> None:
        line = self.screen.line
        count = sum(2 * len(exchange.steps) for exchange in exchanges)
        days = len({exchange.at.date() for exchange in exchanges})
        line(("Memolog: a long memory for AI agents", "title"))
        line()
        line(
            f"Mira and her assistant build Toolshed, a tool library: {days} days, {len(THREADS)} conversations, {count} messages."
        )
        line("What they say is scripted. What the memory does with it is real, and needs no key and no network.")
        line(
            f"So that everything happens soon, windows are small: {CONFIG.threshold:,} tokens of messages (usually 30,000)"
        )
        line(f"and {CONFIG.reflect_at:,} tokens of log (usually 40,000).")

    # ------------------------------------------------------------ days

    async def _days(
        self, memory: Memory, exchanges: tuple[Exchange, ...], stored: frozenset[str], number: int = 0
    ) -> None:
        day: date | None = exchanges[0].at.date() if number else None
        for exchange in exchanges:
            if exchange.at.date() != day:
                if day is not None:
                    self.screen.day_ends(self.narrator.levels)
                day = exchange.at.date()
                await self._day(exchange)
            if exchange.steps[0].given.id not in stored:
                self._said(exchange)
            await self._exchange(memory, exchange, stored)
            await self.screen.pause(0.12)
        if exchanges[-1].scene != "crash" and stored:
            self.screen.day_ends(self.narrator.levels)

    async def _day(self, exchange: Exchange) -> None:
        self.screen.line()
        self.screen.line((f"{exchange.at:%A} {exchange.at.day} {exchange.at:%B}", "title"))
        await self.screen.pause(0.3)

    def _said(self, exchange: Exchange) -> None:
        head = f"  {exchange.at:%H:%M}  {exchange.thread}  "
        self.screen.line((head, "dim"), ("Mira ", "user"), cut_to(exchange.said, WIDTH - len(head) - 5))

    async def _exchange(self, memory: Memory, exchange: Exchange, stored: frozenset[str]) -> None:
        play = partial(play_exchange, memory, self.clock, exchange, self.played, stored=stored)
        match exchange.scene:
            case "question":
                await play(answer=partial(ask, memory, exchange, self.screen, self.shown))
            case "exact-code":
                await play(answer=partial(self._code, memory))
            case "claim-task":
                await start_task(memory, self.screen)
                await play()
            case "open-task":
                await play()
                await open_tasks(memory, self.screen)
            case "close-task":
                await play(answer=partial(close_task, memory, self.screen, self.shown))
            case _:
                await play()
        if exchange.scene:
            await self.screen.pause(1.2)

    async def _code(self, memory: Memory, _context: Context, step: Step) -> NewMessage:
        return await fetch_code(memory, step, self.played.said["api"], self.screen, self.shown)

    # ------------------------------------------------------------ the crash

    async def _crash(self, exchanges: tuple[Exchange, ...], number: int) -> tuple[str, ...]:
        """Let another process play on until it is killed; returns what it had stored."""
        self.screen.day_ends(self.narrator.levels)
        await self._day(exchanges[number])
        killed = self.killed = await kill_midway(self.address, number)
        for exchange in exchanges[number:]:
            if exchange.steps[0].given.id in killed.saved:
                self._said(exchange)
        first, last = killed.span
        self.narrator.spans[killed.run] = killed.span
        self.screen.line(
            _INSET,
            (
                f"killed: the process dies (exit code {killed.exit_code}) while it notes messages {first}–{last}",
                "crash",
            ),
        )
        await self.screen.pause(1.2)
        return killed.saved


_INSET = "             "


async def _stored(memory: Memory) -> frozenset[str]:
    store = (await memory.open()).store
    found = [await store.messages.after(RESOURCE, thread, 0) for thread in THREADS]
    return frozenset(message.id for rows in found for message in rows)


async def _refuse_used(memory: Memory) -> None:
    """Play on an empty database only: what is there already would be counted as said here."""
    store = (await memory.open()).store
    if (await store.threads.list(RESOURCE, limit=1)).items:
        raise InputError(
            f"{safe_url(memory.address)} has conversations of “{RESOURCE}” already.",
            why="The demo proves that what it said is there, and nothing else.",
            then="Pass --db with a new file, or leave it out.",
        )
