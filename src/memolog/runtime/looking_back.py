"""What a memory offers about what was said long ago: recall the exact words, and compact what need not be in sight.

Knows the calls and their defaults. The work is done in `recalling` and `compacting`.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection

from memolog.config import Config
from memolog.domain.clock import Clock
from memolog.domain.compaction import Compacted, Compaction, Pruned
from memolog.domain.errors import InputError
from memolog.domain.recall import Detail, PartType, RecallPage
from memolog.runtime.kit import Kit
from memolog.runtime.recalling import RecallRequest, recall
from memolog.runtime.status import Status
from memolog.store.recall import Reference
from memolog.store.snapshot import Snapshot
from memolog.tokens import TokenCounter

__all__ = ["LookingBack"]


class LookingBack(ABC):
    """The part of a memory that looks back."""

    config: Config
    clock: Clock
    counter: TokenCounter

    @abstractmethod
    async def open(self) -> Kit:
        """Open the database, if that has not been done; returns its parts."""

    @abstractmethod
    async def observe(self, thread: str, resource: str) -> Status:
        """Observe all that is left and move it into the log, waiting for it."""

    @abstractmethod
    async def _open_to_write(self) -> Kit: ...

    @abstractmethod
    async def _look(self, thread: str, resource: str) -> tuple[Config, Snapshot]: ...

    async def recall(
        self,
        reference: Reference,
        resource: str,
        *,
        thread: str | None = None,
        detail: Detail = "low",
        types: Collection[PartType] = (),
        tool: str | None = None,
        part: int | None = None,
        tokens: int = 2_000,
        cursor: str | None = None,
    ) -> RecallPage:
        """Return a page of the messages behind a reference, in their exact words.

        A reference is what the log or a search shows: a group ("g3"), an observation, a message, or a span ("12-30", also with
        its thread: "t1 12-30"); numbers need a thread. A message's page goes on through its thread. `detail="low"` shows a line
        or two a message, "full" all of it; `types`, `tool` and `part` choose among the parts. A page has at most so many
        `tokens`; `cursor` takes its `next` or `previous`.
        """
        request = RecallRequest(
            reference=reference,
            thread=thread,
            detail=detail,
            types=types,
            tool=tool,
            part=part,
            tokens=tokens,
            cursor=cursor,
        )
        kit = await self.open()
        return await recall(kit.store, self.counter, resource, request, shared=self.config.scope == "resource")

    async def compact(self, thread: str, resource: str, *, keep: int = 0) -> Compacted:
        """Observe a thread and let summaries stand for its messages, in contexts and in the index; says what it made.

        The newest `keep` messages stay as they are. With a log, only what the log covers by then is compacted, so that nothing
        is out of sight. Raw texts stay, recall shows them, and `restore_compaction` brings all of it back.
        """
        if keep < 0:
            raise InputError(f"{keep} messages cannot be kept.", then="Pass a number from 0.")
        kit = await self._open_to_write()
        config, _ = await self._look(thread, resource)
        status = await self.observe(thread, resource)
        up_to = status.cursor if config.observe else None
        return await kit.compacting.compact(resource, thread, config, keep=keep, up_to=up_to, covered=status.cursor)

    async def compactions(self, thread: str, resource: str) -> tuple[Compaction, ...]:
        """Return what was compacted in a thread, in the order of its messages, also what was restored."""
        kit = await self.open()
        return await kit.store.compactions.list(resource, thread)

    async def restore_compaction(self, thread: str, resource: str, compaction: str) -> Compaction:
        """Bring the messages of a batch back as they were, byte for byte."""
        kit = await self._open_to_write()
        return await kit.store.compactions.restore(resource, thread, compaction, now=self.clock.now())

    async def prune(self, thread: str, resource: str) -> Pruned:
        """Remove the raw text of old messages for good; off unless `compaction.prune` is set.

        Whatever is younger than `compaction.prune_days`, not covered by an observation, linked to an open task or not compacted
        keeps it. The result says how many those were.
        """
        kit = await self._open_to_write()
        config, _ = await self._look(thread, resource)
        if not config.compaction.prune:
            raise InputError(
                "Pruning is off.",
                why="It removes raw text that nothing can bring back.",
                then="Set compaction.prune = True if that is what you want.",
            )
        days = config.compaction.prune_days
        return await kit.store.compactions.prune(resource, thread, days=days, now=self.clock.now())
