"""One turn of one thread in one process. Every call is checked: it raises no error of Memolog, and its context is correct."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from memolog.core.message import NewMessage, Part, TextPart, ToolResultPart, parts_to_json
from memolog.core.run import Usage
from memolog.errors import StoreError
from memolog.events import Degraded
from memolog.turn import Turn
from simulation.checker import Broken
from simulation.faults import Crash
from simulation.model import MARKER, MARKERS
from simulation.process import Process
from simulation.seen import Request
from simulation.turns import BodyError

if TYPE_CHECKING:
    from simulation.world import World

_FILLER = "the quick brown fox jumps over the lazy dog while nobody is looking "


@dataclass(slots=True, eq=False)
class Conversation:
    """A thread, and who is in it."""

    resource: str
    name: str
    open_calls: list[str] = field(default_factory=list[str])
    active: int = 0
    crowded: bool = False
    mine: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    """The markers of what each turn has handed in."""
    orphans: set[str] = field(default_factory=set[str])
    """The turns under which the thread was deleted: what they said is in two threads of one name."""
    unseen: dict[str, Unseen] = field(default_factory=dict)
    """What each running turn has handed in since its last reply."""


@dataclass(slots=True)
class Unseen:
    """What a turn has handed in and no model has answered: the texts, and what makes them count as seen."""

    process: Process
    by_hand: int
    """How many calls of observe or activate had begun in the resource when the first of these texts was passed."""
    texts: list[str] = field(default_factory=list[str])

    def still(self, by_hand: int) -> list[str]:
        """Return the texts that a context must show: none after a call of observe, or if the process seemed to be dead."""
        return [] if by_hand != self.by_hand or self.process.was_paused or not self.process.is_up else self.texts


class Actor:
    """Plays one shape of a turn."""

    def __init__(
        self, stage: World, process: Process, thread: Conversation, shape: Callable[..., Awaitable[None]]
    ) -> None:
        self._stage, self.process, self.thread, self._shape = stage, process, thread, shape
        self.rng, self.window = stage.rng, stage.window
        self.number = stage.number()
        self._answers = 0
        self.task: asyncio.Task[Any]

    def __str__(self) -> str:
        return f"a{self.number} {self.process.name} {self.thread.resource}/{self.thread.name} {self._shape.__name__}"

    async def play(self) -> None:
        """Play the turn to its end, whatever end that is."""
        self._stage.shapes[self._shape.__name__] += 1
        try:
            await self._shape(self)
        except (Crash, asyncio.CancelledError, BodyError):
            pass
        except Exception as error:
            self._stage.fail(f"{self} was broken by {error!r}")
        self._stage.note(f"{self} ends")

    # ------------------------------------------------------------ what shapes use

    @asynccontextmanager
    async def turn(self, thread: Any = None) -> AsyncGenerator[Turn]:
        """Begin a turn."""
        where: Conversation = thread or self.thread
        name = ""
        model = self.rng.choice((None, None, "small", "large"))
        where.crowded = where.crowded or where.active > 0
        where.active += 1
        try:
            async with self.process.memory.thread(where.name, resource=where.resource).turn(model=model) as turn:
                where.mine[turn.id] = []
                name = turn.id
                yield turn
        finally:
            where.active -= 1
            where.unseen.pop(name, None)

    def words(self, tokens: int) -> str:
        """Return text with a marker of its own and the word of the resource."""
        animal = MARKERS[int(self.thread.resource[1:])]
        text = _FILLER * (tokens * 4 // len(_FILLER) + 1)
        return f"k{self._stage.number()}k {animal} {text[: tokens * 4]}"

    def new_id(self) -> str:
        """Return a new id."""
        return f"m{self._stage.number()}"

    async def point(self) -> None:
        """Wait until the world lets this turn go on."""
        await self._stage.wait_for_turn(self)

    def sibling(self) -> Conversation:
        """Return a thread of the same resource, this one too."""
        return self.rng.choice([t for t in self._stage.threads if t.resource == self.thread.resource])

    def struck(self, kind: str) -> None:
        """Count a fault."""
        self._stage.struck.note(kind)

    async def prepare(self, turn: Turn, *messages: NewMessage, ephemeral: tuple[NewMessage, ...] = ()) -> None:
        """Prepare, and check what the model would see."""
        stage, process = self._stage, self.process
        where = self._where(turn)
        mine = self._offer(turn, messages)
        rows = stage.checker.rows(
            "SELECT pk, last_seq FROM threads WHERE resource = ? AND id = ?", turn.resource, turn.thread
        )
        before, began = len(process.degraded), asyncio.get_running_loop().time()
        rests = process.rests
        is_alone = where.active == 1 and not where.crowded
        context = await turn.prepare(*messages, ephemeral=ephemeral)
        told = [event for event in process.degraded[before:] if _is_about(event, turn)]
        runs = stage.checker.rows("SELECT id FROM runs WHERE status = 'running' AND owner = ?", process.owner)
        running = [run for (run,) in runs]
        request = Request(
            resource=turn.resource,
            thread=turn.thread,
            turn=turn.id,
            step=turn.step,
            mine=list(mine),
            owner=process.owner,
            unseen=self._unseen(turn),
            last_seq=rows[0][1] if rows else 0,
            thread_pk=-1 if turn.id in where.orphans else rows[0][0] if rows else 0,
            is_degraded=any(event.what == "preparing the context" for event in told),
            has_waited=process.rests > rests
            or process.has_lost_a_run(running)
            or any(event.what == "waiting for the model" for event in told)
            or asyncio.get_running_loop().time() - began >= process.memory.config.observation.deadline,
            is_repeatable=not ephemeral,
            is_alone=is_alone and not where.crowded,
        )
        if where.active == 1:
            where.crowded = False
        stage.note(f"{self} prepared step {turn.step}{' degraded' if request.is_degraded else ''}")
        try:
            stage.seen.check(context, request)
        except Broken as broken:
            stage.fail(str(broken))

    async def record(self, turn: Turn, *messages: NewMessage) -> None:
        """Record."""
        self._offer(turn, messages)
        # Only every second answer has usage. It is not of this request, so it must not calibrate token counts.
        self._answers += 1
        usage = Usage(model="answering", input_tokens=100, output_tokens=10) if self._answers % 2 else None
        await turn.record(*messages, usage=usage, beside=None)
        self._stage.note(f"{self} recorded")

    async def discard(self, turn: Turn) -> None:
        """Discard; the one call that may say that the database is away."""
        self._stage.struck.note("turn discarded")
        self._where(turn).mine[turn.id].clear()
        self._where(turn).unseen.pop(turn.id, None)
        self._stage.seen.forget(turn.resource, turn.thread)
        try:
            await turn.discard()
        except StoreError as error:
            self._stage.note(f"{self} could not discard: {error}")
        else:
            self._stage.note(f"{self} discarded")

    # ------------------------------------------------------------ inside

    def _where(self, turn: Turn) -> Conversation:
        return next(t for t in self._stage.threads if (t.resource, t.name) == (turn.resource, turn.thread))

    def _offer(self, turn: Turn, messages: tuple[NewMessage, ...]) -> list[str]:
        self._stage.expected.offer(turn.resource, turn.thread, messages)
        mine = self._where(turn).mine[turn.id]
        mine.extend(word for message in messages for word in MARKER.findall(parts_to_json(message.parts)))
        for message in messages:
            self._wait_for_reply(turn, message)
        return mine

    def _wait_for_reply(self, turn: Turn, message: NewMessage) -> None:
        """Note what has no reply yet. A message that is handed in again after its reply has been seen."""
        where = self._where(turn)
        if message.role == "assistant":
            where.unseen.pop(turn.id, None)
            return
        texts = [text for part in message.parts if (text := _text(part))]
        if self._stage.expected.is_known(turn.resource, turn.thread, message.id or ""):
            return
        # Whoever begins by hand takes what is there once it has looked; when that is, the stage does not know.
        hands = self._stage.by_hand[turn.resource] - self._stage.at_hand[turn.resource]
        unseen = where.unseen.setdefault(turn.id, Unseen(self.process, hands))
        unseen.texts.extend(texts)

    def _unseen(self, turn: Turn) -> list[str]:
        found = self._where(turn).unseen.get(turn.id)
        return list(found.still(self._stage.by_hand[turn.resource])) if found else []


def _text(part: Part) -> str:
    if isinstance(part, ToolResultPart):
        return str(part.content)
    return part.text if isinstance(part, TextPart) else ""


def _is_about(event: Degraded, turn: Turn) -> bool:
    return (event.resource, event.thread) == (turn.resource, turn.thread)
