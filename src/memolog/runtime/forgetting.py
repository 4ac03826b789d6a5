"""What a memory offers to correct, to forget and to examine what it holds.

Knows the calls, and that forgetting is finished only when the files are clean. Knows not how rows are forgotten or examined:
that is in the store.
"""

import asyncio
from abc import ABC, abstractmethod
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

from memolog.config import Config
from memolog.domain.clock import Clock
from memolog.domain.diagnosis import Report
from memolog.domain.errors import InputError
from memolog.domain.forgetting import Forgotten
from memolog.domain.observation import Observation, Priority
from memolog.runtime.examining import examine
from memolog.runtime.kit import Kit
from memolog.store.sqlite_files import clean_file, copies_of
from memolog.tokens import TokenCounter

__all__ = ["Forgetting"]


class Forgetting(ABC):
    """The part of a memory that forgets."""

    config: Config
    clock: Clock
    counter: TokenCounter

    @abstractmethod
    async def open(self) -> Kit:
        """Open the database, if that has not been done; returns its parts."""

    @abstractmethod
    async def _open_to_write(self) -> Kit: ...

    # ------------------------------------------------------------ forgetting

    async def forget(
        self,
        resource: str,
        *,
        thread: str | None = None,
        message: str | None = None,
        observation: str | None = None,
        dry_run: bool = False,
    ) -> Forgotten:
        """Forget a message, an observation, a thread or, if nothing else is named, the whole resource. It cannot be undone.

        With it goes what was made of it: observations, through every reflection, hints, kept prompts, its words in the index. A
        run in flight cannot bring it back. `thread` narrows `message` down, or is forgotten itself. `dry_run` only tells.
        """
        kit = await self._open_to_write()
        store, render = kit.store, kit.core.rerender
        if observation is not None:
            if thread is not None or message is not None:
                raise InputError("An observation is named by its id alone.", then="Leave thread and message out.")
            gone = await store.line_edits.delete(resource, observation, render=render, dry_run=dry_run)
        elif message is not None:
            gone = await store.forgetting.message(resource, message, thread=thread, render=render, dry_run=dry_run)
        elif thread is not None:
            gone = await store.forgetting.thread(resource, thread, render=render, dry_run=dry_run)
        else:
            gone = await store.forgetting.resource(resource, dry_run=dry_run)
        if not dry_run and message is None and observation is None:
            # What a turn could not save yet must not come back later.
            kit.outbox.forget(resource, thread)
            if thread is None:
                kit.forget(resource)
        if not dry_run:
            kit.store.empty_caches()
        return await self._clean(kit, gone)

    async def apply_retention(self, resource: str, *, dry_run: bool = False) -> Forgotten:
        """Forget what has become older than the settings under `retention` allow; without any, nothing."""
        kit = await self._open_to_write()
        store, keep = kit.store, self.config.retention
        gone = await store.forgetting.older(
            resource,
            messages=self._days_ago(keep.message_days),
            prompts=self._days_ago(keep.prompt_days),
            events=self._days_ago(keep.journal_days),
            render=kit.core.rerender,
            dry_run=dry_run,
        )
        is_empty = gone == Forgotten(resource=resource, dry_run=dry_run)
        if not is_empty and not dry_run:
            store.empty_caches()
        return gone if is_empty else await self._clean(kit, gone)

    def _days_ago(self, days: int | None) -> datetime | None:
        return None if days is None else self.clock.now() - timedelta(days=days)

    async def _clean(self, kit: Kit, gone: Forgotten) -> Forgotten:
        """Remove the copies that still hold it, and the bytes that deleted rows leave behind."""
        file = kit.store.engine.file
        if file is None:
            return gone
        copies = await asyncio.to_thread(copies_of, file)
        gone = replace(gone, copies=tuple(str(copy) for copy in copies))
        if gone.dry_run:
            return gone
        await asyncio.to_thread(_remove, copies)
        is_clean = await asyncio.to_thread(clean_file, file, timeout=self.config.busy_timeout)
        return replace(gone, is_clean=is_clean)

    # ------------------------------------------------------------ correcting

    async def edit_observation(
        self, resource: str, observation: str, text: str, *, priority: Priority | None = None
    ) -> Observation:
        """Correct a line of the log; returns the new line. The old one is kept as retracted, its sources stay."""
        kit = await self._open_to_write()
        return await kit.store.line_edits.edit(
            resource,
            observation,
            text,
            tokens=self.counter.count(text),
            priority=priority,
            render=kit.core.rerender,
        )

    async def retract(self, resource: str, observation: str) -> Observation:
        """Take an observation out of the log and of search, until it is reinstated."""
        kit = await self._open_to_write()
        return await kit.store.line_edits.retract(resource, observation, render=kit.core.rerender)

    async def reinstate(self, resource: str, observation: str) -> Observation:
        """Bring a retracted observation back."""
        kit = await self._open_to_write()
        return await kit.store.line_edits.reinstate(resource, observation, render=kit.core.rerender)

    # ------------------------------------------------------------ examining

    async def doctor(self, resource: str | None = None, *, repair: bool = False) -> Report:
        """Prove on the real rows that everything is as it must be: of one resource, or of the whole database.

        `repair` puts right what can be without losing anything that was said, after a copy of a SQLite file, and builds the
        search index anew. What is not safe is only explained.
        """
        kit = await (self._open_to_write() if repair else self.open())
        return await examine(kit, resource, self.config, self.counter, repair=repair)


def _remove(copies: list[Path]) -> None:
    for copy in copies:
        copy.unlink(missing_ok=True)
