"""What a memory offers about what was said long ago: search and recall, the log's past, and compaction.

Knows the calls and their defaults. Knows not how it is done: that is in `searching`, `recalling`, `compacting` and the store.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Collection
from dataclasses import replace
from datetime import datetime
from typing import Any, Literal

from memolog.config import Config
from memolog.domain.clock import Clock
from memolog.domain.compaction import Compacted, Compaction, Pruned
from memolog.domain.errors import Conflict, InputError
from memolog.domain.extract import Extract
from memolog.domain.observation import Generation
from memolog.domain.recall import Detail, PartType, RecallPage
from memolog.domain.search import SOURCES, SearchAnswer, Source
from memolog.extractive import words_left
from memolog.runtime.events import GenerationMade
from memolog.runtime.extractors import latest
from memolog.runtime.kit import Kit
from memolog.runtime.recalling import RecallRequest, recall
from memolog.runtime.searching import Wanted, search_memory
from memolog.runtime.status import Status
from memolog.store.recall import Reference
from memolog.store.scope import check_choices, check_number
from memolog.store.snapshot import GroupRow, Snapshot
from memolog.store.sqlite_files import clean_file
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
        """Observe all that was said by now and move it into the log; waits for it, however long: the deadline is for turns."""

    @abstractmethod
    async def _open_to_write(self) -> Kit: ...

    @abstractmethod
    async def _look(self, thread: str, resource: str, *, create: bool = True) -> tuple[Config, Snapshot]: ...

    async def recall(
        self,
        reference: Reference,
        resource: str,
        *,
        thread: str | None = None,
        detail: Detail = "low",
        types: Collection[PartType] | PartType = (),
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
        config = await kit.config_for(resource)
        return await recall(kit.store, self.counter, resource, request, shared=config.scope == "resource")

    async def compact(self, thread: str, resource: str, *, keep: int = 0) -> Compacted:
        """Observe a thread and let summaries stand for its messages, in contexts and in the index; says what it made.

        The newest `keep` messages stay as they are. With a log, only what the log covers by then is compacted, so that nothing
        is out of sight. Raw texts stay, recall shows them, and `restore_compaction` brings all of it back.
        """
        if check_number("keep", keep) < 0:
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
        keeps it. The result says how many those were. Summaries, observations, and for search the names and numbers stay.
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
        now = self.clock.now()
        pruned = await kit.store.compactions.prune(resource, thread, days=days, now=now, left=words_left)
        file = kit.store.engine.file
        if file is None or not pruned.messages:
            return pruned
        # Rows that change leave their bytes behind.
        is_clean = await asyncio.to_thread(clean_file, file, timeout=config.busy_timeout)
        return replace(pruned, is_clean=is_clean)

    # ------------------------------------------------------------ finding

    async def search(
        self,
        query: str,
        resource: str,
        *,
        thread: str | None = None,
        limit: int = 10,
        context: int = 0,
        sources: Collection[Source] | Source | None = None,
        by: Literal["message", "thread"] = "message",
        explain: bool = False,
        cursor: str | None = None,
    ) -> SearchAnswer:
        """Find what was said, observed or planned: any text is a query, the best result comes first.

        `context` adds so many messages before and after each, `sources` names what to look through, `by="thread"` answers with
        the best message of each thread, `explain` shows the parts of each score, `cursor` is the `next` of the answer before.
        """
        named: Any = None if sources is None else check_choices("source", sources, SOURCES)
        check_number("context", context)
        wanted = Wanted(
            thread=thread, limit=limit, context=context, sources=named, by=by, explain=explain, cursor=cursor
        )
        kit = await self.open()
        return await search_memory(kit.store, self.config, query, resource, wanted, self.clock.now())

    # ------------------------------------------------------------ the past

    async def history(self, thread: str, resource: str) -> tuple[Generation, ...]:
        """Return the generations of the log, oldest first."""
        kit = await self.open()
        return await kit.store.logs.history(resource, await _owner_of_log(kit, thread, resource))

    async def as_of(self, thread: str, resource: str, at: datetime) -> tuple[GroupRow, ...]:
        """Return the log as it was at a moment."""
        if not isinstance(at, datetime):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InputError(f"A moment is a datetime, not {type(at).__name__}.", then="Pass datetime(…, tzinfo=UTC).")
        kit = await self.open()
        return await kit.store.logs.as_of(resource, await _owner_of_log(kit, thread, resource), at)

    async def restore(self, thread: str, resource: str, generation: int) -> Generation:
        """Bring an old generation of the log back, with all that was activated since."""
        check_number("generation", generation, then="Take one from history().")
        kit = await self._open_to_write()
        while True:
            _, snapshot = await self._look(thread, resource)
            now = self.clock.now()
            try:
                made = await kit.store.logs.restore(snapshot, generation, now=now)
                break
            except Conflict:
                # A run ended meanwhile: look again. Each try sees what the one before it lost to.
                continue
        await kit.core.tell(
            GenerationMade(
                at=now,
                resource=resource,
                thread=thread,
                number=made.number,
                generation_kind=made.kind,
                tokens_before=made.tokens_before,
                tokens_after=made.tokens_after,
                dropped=0,
            )
        )
        return made

    async def extracts(self, thread: str, resource: str, *, key: str | None = None) -> tuple[Extract, ...]:
        """Return the values that extractors drew from a thread, the newest of each; or all versions of one, oldest first."""
        kit = await self.open()
        versions = await kit.store.extracts.list(resource, thread)
        if key is not None:
            return tuple(version for version in versions if version.key == key)
        return tuple(latest(versions).values())


async def _owner_of_log(kit: Kit, thread: str, resource: str) -> str | None:
    return thread if (await kit.config_for(resource)).scope == "thread" else None
