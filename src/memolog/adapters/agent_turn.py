"""The turn of one run of an agent: opened on first use, and ended, discarded or taken back when the run ends."""

from collections.abc import Sequence

from memolog.adapters.new_messages import find_new
from memolog.adapters.provider_limits import take_back
from memolog.core.message import Message, NewMessage
from memolog.errors import MemologError, NotFound
from memolog.memory import Memory
from memolog.turn import Turn


class AgentTurn:
    """The turn of a run, and what the store has of its thread."""

    def __init__(self, memory: Memory, resource: str, thread: str, *, zone: str | None = None) -> None:
        self.memory, self.resource, self.thread, self.zone = memory, resource, thread, zone
        self.id = ""
        """The id of the turn; empty before the first step."""
        self._turn: Turn | None = None
        # Sequence numbers of unanswered messages of an earlier run that this run repeats.
        self._repeated: tuple[int, ...] = ()

    async def open(self, id_: str = "") -> Turn:
        """Return the turn; after `leave` the same turn is opened again. `id_` continues a turn of an earlier run."""
        if self._turn is None:
            turn = self.memory.thread(self.thread, resource=self.resource).turn(zone=self.zone)
            turn.id = self.id or id_
            self._turn = await turn.__aenter__()
            self.id = turn.id
        return self._turn

    async def leave(self) -> None:
        """End the turn and keep what is saved."""
        turn, self._turn = self._turn, None
        if turn is not None:
            await turn.__aexit__(None, None, None)

    async def discard(self) -> None:
        """Withdraw everything that this run saved."""
        if self.id:
            turn = await self.open()
            self._turn, self.id = None, ""
            await turn.discard()

    async def take_back(self) -> None:
        """Withdraw what the provider rejected: the unanswered messages of this run and those that it repeats."""
        turn = await self.open()
        self._turn = None
        await take_back(turn, self._repeated, strict=self.memory.config.strict)

    async def new(self, said: Sequence[NewMessage]) -> tuple[NewMessage, ...]:
        """Return the messages that are not stored yet, and remember which of the others wait for an answer."""
        if not said or self.memory.config.read_only:
            return tuple(said)
        fresh, repeated = await find_new(self.memory, self.resource, self.thread, said)
        self._repeated += tuple(row.seq for row in repeated)
        return fresh

    async def rows(self, id_: str) -> tuple[Message, ...]:
        """Return the stored rows of a message; empty if there are none or the database cannot be read."""
        try:
            return await self.memory.resource(self.resource).message(id_, thread=self.thread)
        except MemologError:
            return ()

    async def is_new_thread(self) -> bool:
        """Tell whether nothing was ever saved in the thread; False if the database cannot be read."""
        try:
            return (await self.memory.thread(self.thread, resource=self.resource).info()).last_seq == 0
        except NotFound:
            return True
        except MemologError:
            return False
