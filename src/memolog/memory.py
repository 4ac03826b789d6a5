"""Memory, Resource and Thread: the objects that a program holds.

A `Memory` is a database, a `Resource` is whose memory it is (a user, a project), a `Thread` is one conversation of theirs.
Resources and threads are handles that hold ids alone: making one reads and writes nothing.
"""

import asyncio
import os
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from importlib import import_module
from math import inf
from types import TracebackType
from typing import Any, Literal, NamedTuple, Protocol, Self

from memolog.admin import forget as forgetting
from memolog.admin.backup import backup
from memolog.admin.doctor import examine
from memolog.admin.export import Target, export, log_as_markdown
from memolog.admin.import_conversations import Progress
from memolog.admin.imports import import_from
from memolog.compaction.extractive import words_left
from memolog.components import Kit, check_thread, check_turn
from memolog.connection import Connection
from memolog.context.context import Context
from memolog.core.clock import Clock, SystemClock, system_chance
from memolog.core.config import Config
from memolog.core.exact_json import JsonObject
from memolog.core.message import Message
from memolog.core.observation import Extract, Generation, Observation, Priority
from memolog.core.reports import Compacted, Compaction, ExportReport, Forgotten, ImportReport, Pruned, Report
from memolog.core.run import KeptPrompt, Run, UsageTotal
from memolog.core.thread import ThreadInfo
from memolog.db.postgres_address import safe_url
from memolog.db.scope import Page, check_choices, check_id, check_number
from memolog.db.sqlite_files import clean_file
from memolog.errors import ConfigError, Conflict, InputError, NotSaved, StoreClosed
from memolog.events import Degraded, Event, GenerationMade
from memolog.log.rendering import reading_order
from memolog.log.rows import GroupRow
from memolog.log.snapshot import OTHER_ROWS, Snapshot
from memolog.log.snapshot_state import Asked
from memolog.log.status import Status, status_of
from memolog.messages.provider_messages import Given
from memolog.observer.budget import spent_of
from memolog.observer.extractors import Extractor, latest
from memolog.observer.model_choice import ModelSpec
from memolog.search.recall import RecallRequest, recall
from memolog.search.recall_store import Reference
from memolog.search.search import SearchOptions, search_memory
from memolog.search.values import SOURCES, Detail, PartType, RecallPage, SearchAnswer, Source
from memolog.tasks.calls import UNCHANGED, Scoped, Tasks, Unchanged
from memolog.text.tokens import HeuristicCounter, TokenCounter
from memolog.turn import Turn
from memolog.working_memory.calls import WorkingMemory

_POLL_SECONDS = 0.05
# By then a dead process is detected, and its runs are taken over.
_LEASES = 2
_LONGEST_REST = 60.0
_STANDSTILL_SECONDS = 0.25


async def catch_up(
    look: Callable[[], Awaitable[tuple[Config, Snapshot]]],
    observe: Callable[[int], Awaitable[None]],
    activate: Callable[[int], Awaitable[None]],
    clock: Clock,
) -> None:
    """Observe and activate until the log covers what was there at the beginning, or nothing more can be done.

    Both get the number of the last message at the beginning. After a failure it waits until a retry is allowed, for at most a
    minute in total.
    """
    loop = asyncio.get_running_loop()
    _, snapshot = await look()
    wanted, through = _wanted(snapshot), snapshot.thread.last_seq
    before: object = None
    changed, patience = loop.time(), timedelta(seconds=_LONGEST_REST)
    while True:
        await observe(through)
        await activate(through)
        config, snapshot = await look()
        left = _left(snapshot, wanted)
        if not left:
            return
        under_way = [run for run in snapshot.runs if run.status == "running" and run.kind == "observe"]
        beats = [(run.id, run.fence, run.beat_at) for run in under_way]
        now = (snapshot.cursor, left, len(snapshot.buffered), len(snapshot.groups), beats)
        if now != before:
            before, changed = now, loop.time()
        elif not under_way and (rested := await _rest(snapshot, clock, patience)) is not None:
            before, patience = None, patience - rested
        elif not under_way or loop.time() - changed > _LEASES * config.lease:
            # The observer backs off, a call has no result yet, or the run of another process does not end.
            return
        else:
            # Another process runs it: wait and read again.
            await asyncio.sleep(_POLL_SECONDS)


async def _rest(snapshot: Snapshot, clock: Clock, patience: timedelta) -> timedelta | None:
    """Wait until a failed run may be retried; returns how long that took, None if there is none or it takes too long."""
    failed = [
        run.retry_at for run in snapshot.runs if run.status == "failed" and run.kind == "observe" and run.retry_at
    ]
    if not failed:
        return None
    due = max(min(failed), snapshot.log.retry_at or min(failed))
    start = last = clock.now()
    if due - start > patience:
        return None
    loop = asyncio.get_running_loop()
    moved = loop.time()
    while last < due:
        await asyncio.sleep(_POLL_SECONDS)
        if (now := clock.now()) != last:
            last, moved = now, loop.time()
        elif loop.time() - moved > _STANDSTILL_SECONDS:
            # The clock stands still.
            return None
    return last - start


class _Wanted(NamedTuple):
    """Up to which message each thread is to be observed."""

    ends: dict[str, float]
    others: float
    """The same for threads that were not read."""

    def is_missing(self, thread: str, seq: int) -> bool:
        """Return whether a message that the log does not cover is wanted."""
        return seq <= self.ends.get(thread, self.others)


def _wanted(snapshot: Snapshot) -> _Wanted:
    # If there is more than was read, all of it is wanted.
    is_cut = len(snapshot.others) >= OTHER_ROWS
    ends = {row.thread: inf if is_cut else row.seq for row in snapshot.others}
    return _Wanted(ends | {snapshot.thread.id: snapshot.thread.last_seq}, inf if is_cut else 0)


def _left(snapshot: Snapshot, wanted: _Wanted) -> int:
    """Return how many of the wanted messages the log does not cover."""
    own = sum(wanted.is_missing(snapshot.thread.id, message.seq) for message in snapshot.tail)
    return own + sum(wanted.is_missing(row.thread, row.seq) for row in snapshot.others)


Form = Literal["openai", "openai-responses", "anthropic", "mcp"]


class Tools(Protocol):
    """Three tools for a model: look at tasks, change them, search memory."""

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the tools."""
        ...

    @property
    def guidance(self) -> str:
        """Return how to use the tools, for the system prompt."""
        ...

    def definitions(self, form: Form = "openai") -> list[dict[str, Any]]:
        """Return the definitions to give to a model, in one of the forms."""
        ...

    async def call(self, name: str, arguments: object = None) -> dict[str, Any]:
        """Return the answer to a call, as a value whatever happens."""
        ...


# As many groups as a log can have.
_ALL_GROUPS = 2**31
# The settings of a turn that saves nothing.
_LOOKING = {"read_only": True, "buffer_on_idle": False, "keep_prompts": False, "manage_working_memory": False}


class _Handle(ABC):
    """An id of something in a database; equal to every other handle of the same."""

    id: str

    def __init__(self, memory: "Memory", connection: Connection) -> None:
        self._memory, self._connection = memory, connection

    @abstractmethod
    def _key(self) -> tuple[str, ...]: ...

    def __eq__(self, other: object) -> bool:
        return isinstance(other, type(self)) and other._key() == self._key()

    def __hash__(self) -> int:
        return hash((type(self), self._key()))


class Thread(_Handle):
    """One conversation of a resource. Get it with `memory.thread(id, resource=…)` or `resource.thread(id)`.

    The thread itself is made by its first turn.
    """

    id: str
    resource: str
    """The id of the resource."""

    def __init__(self, memory: "Memory", connection: Connection, thread: str, resource: str) -> None:
        super().__init__(memory, connection)
        self.id, self.resource = check_id("thread", thread), check_id("resource", resource)

    def __repr__(self) -> str:
        return f"Thread({self.id!r}, resource={self.resource!r})"

    def _key(self) -> tuple[str, ...]:
        return self._connection.address, self.resource, self.id

    def _owner(self) -> "Resource":
        return Resource(self._memory, self._connection, self.resource)

    # ------------------------------------------------------------ talking

    def turn(
        self, *, model: str | None = None, zone: str | None = None, settings: Mapping[str, Any] | None = None
    ) -> Turn:
        """Begin a turn: `async with thread.turn() as turn`.

        `model` is the one that answers, `zone` is where the user is (`"Europe/Berlin"`), `settings` apply to this turn only.
        """
        connection = self._connection
        if connection.outbox.is_closed:
            raise StoreClosed
        check_turn(settings, zone)
        return Turn(
            connection.open,
            connection.outside,
            self.id,
            self.resource,
            config=connection.config,
            own=settings,
            model=model,
            zone=zone,
        )

    async def context(self, *messages: Given, model: str | None = None, zone: str | None = None) -> Context:
        """Return what the model would see now, with these messages added; saves nothing and starts nothing."""
        async with self.turn(model=model, zone=zone, settings=_LOOKING) as turn:
            return await turn.prepare(*messages)

    async def seen(self, number: int) -> Context:
        """Build again what the model saw: the context of that number in the thread, counted from 1."""
        kit = await self._connection.open()
        return await kit.contexts.again(self.resource, self.id, number, self._connection.config)

    async def messages(self, *, after: int | None = None, before: int | None = None, limit: int = 50) -> Page[Message]:
        """Return stored messages, oldest first: those after a sequence number, or the last ones before it."""
        kit = await self._connection.open()
        return await kit.store.messages.page(self.resource, self.id, after=after, before=before, limit=limit)

    # ------------------------------------------------------------ the thread itself

    async def info(self) -> ThreadInfo:
        """Return the stored thread: title, metadata, settings of its own, last message; raises ThreadNotFound."""
        return await (await self._connection.open()).store.threads.get(self.resource, self.id)

    async def update(
        self,
        *,
        title: str | Unchanged | None = UNCHANGED,
        metadata: JsonObject | Callable[[JsonObject], JsonObject] | None = None,
    ) -> ThreadInfo:
        """Change the title or the metadata; what is not given stays. Raises ThreadNotFound.

        `metadata` replaces what is stored; a function gets what is stored and returns what replaces it, in one transaction.
        """
        threads = (await self._connection.open_to_write()).store.threads
        if isinstance(title, Unchanged):
            return await threads.update(self.resource, self.id, metadata=metadata)
        return await threads.update(self.resource, self.id, title=title, metadata=metadata)

    async def override(self, settings: Mapping[str, Any]) -> ThreadInfo:
        """Store settings that differ from the configuration in all turns of this thread; they replace earlier ones."""
        check_thread(settings)
        self._connection.config.with_overrides(settings)
        kit = await self._connection.open_to_write()
        return await kit.store.threads.update(self.resource, self.id, overrides=dict(settings))

    async def clone(self, new_thread: str | None = None) -> ThreadInfo:
        """Copy the thread into a new one, its log included; a log that threads share covers the copy as far as the original."""
        kit = await self._connection.open_to_write()
        return await kit.store.threads.clone(self.resource, self.id, new_thread)

    async def forget(self, *, message: str | None = None, dry_run: bool = False) -> Forgotten:
        """Forget the thread, or one message of it, with what was made of it. It cannot be undone; `dry_run` only reports."""
        return await self._owner().forget(thread=self.id, message=message, dry_run=dry_run)

    # ------------------------------------------------------------ the log

    async def status(self) -> Status:
        """Return token counts, backlog, health and cost."""
        connection = self._connection
        kit = await connection.open()
        config, snapshot = await connection.look(self.id, self.resource, create=False)
        spent = 0.0 if config.budget is None else await spent_of(kit.store, self.resource, self.id, config)
        return status_of(
            snapshot,
            config,
            await kit.store.ledger.total(self.resource, thread=self.id),
            connection.clock.now(),
            await kit.factor(self.resource, snapshot.thread.last_model),
            spent,
            unsaved=connection.outbox.counts().get((self.resource, self.id)),
            trouble=connection.bus.trouble(self.resource, self.id),
            dropped=await kit.store.logs.count_dropped(snapshot.resource, snapshot.log.pk),
        )

    async def log(self, *, generation: int | None = None) -> tuple[Observation, ...]:
        """Return the observations that the model sees, in its order; or those of an earlier generation, from `history()`."""
        kit = await self._connection.open()
        config = await kit.config_for(self.resource)
        snapshot = await kit.store.logs.snapshot(self.resource, self.id, config.scope, create=False)
        logs, log = kit.store.logs, snapshot.log.pk
        groups: Sequence[GroupRow] = snapshot.groups
        if generation is not None:
            check_number("generation", generation, then="Take one from history().")
            groups = await logs.groups_at(snapshot.resource, log, generation, entries=_ALL_GROUPS)
        ids = [group.id for group in groups]
        lines = await logs.observations(snapshot.resource, log, ids)
        is_past = generation is not None and generation != snapshot.log.generation
        return tuple(reading_order([line for line in lines if is_past or line.state == "active"], ids))

    async def export_markdown(self) -> str:
        """Return the log as Markdown for people: the observations by date, with what they come from."""
        return log_as_markdown((await self.info()).title or self.id, await self.log())

    async def buffer(self) -> None:
        """Observe in the background what is not observed yet, however little it is."""
        await self._by_hand("buffer")

    async def observe(self) -> Status:
        """Observe everything that was said by now and move it into the log. Waits for the model without a time limit.

        After a failure it waits until the model may be asked again, and returns if that takes more than a minute: the status
        says what failed.
        """

        async def act(through: int, *, what: str) -> None:
            await self._by_hand(what, may_wait=what == "observe", through=through)

        look = partial(self._connection.look, self.id, self.resource)
        await catch_up(look, partial(act, what="observe"), partial(act, what="activate"), self._connection.clock)
        return await self.status()

    async def activate(self) -> Status:
        """Move every buffered group into the log."""
        await self._by_hand("activate")
        return await self.status()

    async def reflect(self) -> Status:
        """Condense the log now, and wait for it; for a reflection of another process no longer than a lease."""
        await self._by_hand("reflect", may_wait=True)
        return await self.status()

    async def finalize(self, *, compact: bool = False) -> Status:
        """End a session: observe what is left, and compact it if asked to, so that the next one begins with a log."""
        if compact:
            await self.compact()
        return await self.observe()

    async def _by_hand(self, what: str, *, may_wait: bool = False, through: int | None = None) -> None:
        kit = await self._connection.open_to_write()
        config, snapshot = await self._connection.look(self.id, self.resource)
        through = snapshot.thread.last_seq if through is None else through
        asked = Asked(by_hand=frozenset({what}), may_wait=may_wait, through=through)
        await kit.core.advance(snapshot, config, asked)

    async def history(self) -> tuple[Generation, ...]:
        """Return the generations of the log, oldest first."""
        kit = await self._connection.open()
        return await kit.store.logs.history(self.resource, await self._owner_of_log(kit))

    async def as_of(self, at: datetime) -> tuple[GroupRow, ...]:
        """Return the log as it was at a moment."""
        if not isinstance(at, datetime):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InputError(f"`at` must be a datetime, got {type(at).__name__}.", then="Pass datetime(…, tzinfo=UTC).")
        kit = await self._connection.open()
        return await kit.store.logs.as_of(self.resource, await self._owner_of_log(kit), at)

    async def _owner_of_log(self, kit: Kit) -> str | None:
        return self.id if (await kit.config_for(self.resource)).scope == "thread" else None

    async def restore(self, generation: int) -> Generation:
        """Bring an old generation of the log back, with all that was activated since."""
        check_number("generation", generation, then="Take one from history().")
        kit = await self._connection.open_to_write()
        while True:
            _, snapshot = await self._connection.look(self.id, self.resource)
            now = self._connection.clock.now()
            try:
                made = await kit.store.logs.restore(snapshot, generation, now=now)
                break
            except Conflict:
                # A run ended meanwhile: look again. Each try sees what the one before it lost to.
                continue
        await kit.core.tell(
            GenerationMade(
                at=now,
                resource=self.resource,
                thread=self.id,
                number=made.number,
                generation_kind=made.kind,
                tokens_before=made.tokens_before,
                tokens_after=made.tokens_after,
                dropped=0,
            )
        )
        return made

    async def extracts(self, *, key: str | None = None) -> tuple[Extract, ...]:
        """Return the values that extractors drew from the thread, the newest of each; or all versions of one, oldest first."""
        kit = await self._connection.open()
        versions = await kit.store.extracts.list(self.resource, self.id)
        if key is not None:
            return tuple(version for version in versions if version.key == key)
        return tuple(latest(versions).values())

    async def runs(self, *, limit: int = 100) -> tuple[Run, ...]:
        """Return the runs of the observer and the reflector over this thread's log, the newest first."""
        kit = await self._connection.open()
        config = await kit.config_for(self.resource)
        snapshot = await kit.store.logs.snapshot(self.resource, self.id, config.scope, create=False)
        found = await kit.store.runs.list(self.resource, log_pk=snapshot.log.pk, limit=limit)
        return tuple(run for run in found if run.thread in {None, self.id})

    async def prompts(self, run: str) -> tuple[KeptPrompt, ...]:
        """Return what a run sent to the model and what came back; empty unless `keep_prompts` was set."""
        return await (await self._connection.open()).store.runs.prompts(self.resource, run)

    # ------------------------------------------------------------ compaction

    async def compact(self, *, keep: int = 0) -> Compacted:
        """Observe the thread and replace its messages by summaries, in contexts and in the index; returns what it made.

        The newest `keep` messages stay as they are. With a log, only what the log covers by then is compacted, so that nothing
        is out of sight. Raw texts stay, recall shows them, and `restore_compaction` brings all of it back.
        """
        if check_number("keep", keep) < 0:
            raise InputError(f"`keep` must be 0 or more, got {keep}.")
        kit = await self._connection.open_to_write()
        config, _ = await self._connection.look(self.id, self.resource)
        status = await self.observe()
        up_to = status.cursor if config.observe else None
        return await kit.compacting.compact(
            self.resource, self.id, config, keep=keep, up_to=up_to, covered=status.cursor
        )

    async def compactions(self) -> tuple[Compaction, ...]:
        """Return what was compacted, in the order of the messages, also what was restored."""
        return await (await self._connection.open()).store.compactions.list(self.resource, self.id)

    async def restore_compaction(self, compaction: str) -> Compaction:
        """Bring the messages of a compaction back as they were, byte for byte."""
        kit, now = await self._connection.open_to_write(), self._connection.clock.now()
        return await kit.store.compactions.restore(self.resource, self.id, compaction, now=now)

    async def prune(self) -> Pruned:
        """Remove the raw text of old messages for good; off unless `compaction.prune` is set.

        Whatever is younger than `compaction.prune_days`, not covered by an observation, linked to an open task or not compacted
        keeps it. The result says how many those were. Summaries, observations, and for search the names and numbers stay.
        """
        kit = await self._connection.open_to_write()
        config, _ = await self._connection.look(self.id, self.resource)
        if not config.compaction.prune:
            raise InputError(
                "Pruning is off.",
                why="It removes raw text that nothing can bring back.",
                then="Set compaction.prune = True if that is what you want.",
            )
        days, now = config.compaction.prune_days, self._connection.clock.now()
        pruned = await kit.store.compactions.prune(self.resource, self.id, days=days, now=now, left=words_left)
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
        *,
        limit: int = 10,
        context: int = 0,
        sources: Collection[Source] | Source | None = None,
        explain: bool = False,
        cursor: str | None = None,
    ) -> SearchAnswer:
        """Search this thread alone; the arguments are those of `Resource.search`."""
        return await self._owner().search(
            query, thread=self.id, limit=limit, context=context, sources=sources, explain=explain, cursor=cursor
        )

    async def recall(
        self,
        reference: Reference,
        *,
        detail: Detail = "low",
        types: Collection[PartType] | PartType = (),
        tool: str | None = None,
        part: int | None = None,
        tokens: int = 2_000,
        cursor: str | None = None,
    ) -> RecallPage:
        """Return a page of the messages behind a reference of this thread; the arguments are those of `Resource.recall`."""
        return await self._owner().recall(
            reference, thread=self.id, detail=detail, types=types, tool=tool, part=part, tokens=tokens, cursor=cursor
        )

    # ------------------------------------------------------------ tasks, working memory, tools

    def tasks(self, *, session: str | None = None, who: str | None = None) -> Tasks:
        """Return the tasks of the resource; a claimed one becomes the active task of this thread."""
        return self._owner().tasks(session=session, who=who, thread=self.id)

    def working_memory(self) -> WorkingMemory:
        """Return the working memory of this thread."""
        return self._owner().working_memory(thread=self.id)

    def tools(self, *, session: str | None = None) -> Tools:
        """Return the three tools for a model that works in this thread."""
        return self._owner().tools(thread=self.id, session=session)


class Resource(_Handle):
    """Whose memory it is: a user, a project, a team. Get it with `memory.resource(id)`.

    Nothing of one resource is ever visible to another.
    """

    id: str

    def __init__(self, memory: "Memory", connection: Connection, resource: str) -> None:
        super().__init__(memory, connection)
        self.id = check_id("resource", resource)

    def __repr__(self) -> str:
        return f"Resource({self.id!r})"

    def _key(self) -> tuple[str, ...]:
        return self._connection.address, self.id

    # ------------------------------------------------------------ threads

    def thread(self, id: str) -> Thread:  # noqa: A002 - as in every other value
        """Return one conversation of this resource; reads and writes nothing."""
        return Thread(self._memory, self._connection, id, self.id)

    async def threads(self, *, limit: int = 100, after: str | None = None) -> Page[ThreadInfo]:
        """Return the threads with the newest activity first; pass `next` as `after` for more."""
        return await (await self._connection.open()).store.threads.list(self.id, limit=limit, after=after)

    async def sweep(self) -> int:
        """Observe in the background what threads left behind that were not opened again.

        Returns in how many of them something was begun or is under way: none, once all of it is observed.
        """
        kit = await self._connection.open_to_write()
        touched, page = 0, None
        while page is None or page.next is not None:
            page = await kit.store.threads.list(self.id, limit=200, after=page.next if page else None)
            for thread in page.items:
                config, snapshot = await self._connection.look(thread.id, self.id)
                if config.observe and (snapshot.runs or any(m.state == "live" for m in snapshot.tail)):
                    asked = Asked(by_hand=frozenset({"buffer"}), may_activate=False)
                    _, decisions = await kit.core.advance(snapshot, config, asked)
                    touched += bool(snapshot.runs) or any(name != "Wait" for name in decisions)
        return touched

    async def merge(self) -> tuple[str, ...]:
        """After a change to resource scope: move what the threads' own logs hold into the shared log.

        Returns the threads that were merged; a `Degraded` event names each that could not be, and why: what the shared log has
        observed by itself would stand there twice. Nothing is lost either way: what is left is observed again.
        """
        connection = self._connection
        kit, now = await connection.open_to_write(), connection.clock.now()
        merged = await kit.store.copies.merge(self.id, now=now, render=kit.core.rerender)
        for thread, why in merged.left:
            connection.tell(Degraded(at=now, resource=self.id, thread=thread, what="merging a log", error=why))
        return merged.threads

    # ------------------------------------------------------------ finding

    async def search(
        self,
        query: str,
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
        wanted = SearchOptions(
            thread=thread, limit=limit, context=context, sources=named, by=by, explain=explain, cursor=cursor
        )
        kit = await self._connection.open()
        config, now = self._connection.config, self._connection.clock.now()
        return await search_memory(kit.store, config, query, self.id, wanted, now)

    async def recall(
        self,
        reference: Reference,
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
        kit = await self._connection.open()
        config = await kit.config_for(self.id)
        return await recall(kit.store, self._connection.counter, self.id, request, shared=config.scope == "resource")

    # ------------------------------------------------------------ tasks, working memory, tools

    def tasks(self, *, session: str | None = None, who: str | None = None, thread: str | None = None) -> Tasks:
        """Return the tasks of this resource, as a session sees them.

        `session` is who claims (the thread, if none is named), `who` is named in the history, and what is claimed becomes the
        active task of `thread`: what is said there is linked to it.
        """
        connection = self._connection
        scoped = Scoped(resource=self.id, session=session, who=who, thread=thread, config=connection.config)
        return Tasks(connection.open, scoped)

    def working_memory(self, *, thread: str | None = None) -> WorkingMemory:
        """Return the working memory of this resource, or of one of its threads, to read and change it."""
        connection = self._connection
        return WorkingMemory(connection.open, connection.open_to_write, self.id, thread, connection.config)

    def tools(self, *, thread: str | None = None, session: str | None = None) -> Tools:
        """Return the three tools for a model that works for this resource: definitions, guidance, and calls.

        What is claimed is claimed for the session, and becomes the active task of the thread.
        """
        # Built on the memory itself, and on a library that takes time to load: imported at the first use.
        made: Tools = import_module("memolog.tools.toolset").Toolset(
            self._memory, self.id, thread=thread, session=session
        )
        return made

    # ------------------------------------------------------------ correcting and forgetting

    async def edit_observation(self, observation: str, text: str, *, priority: Priority | None = None) -> Observation:
        """Correct a line of the log; returns the new line. The old one is kept as retracted, its sources stay."""
        kit = await self._connection.open_to_write()
        return await kit.store.line_edits.edit(
            self.id,
            observation,
            text,
            tokens=self._connection.counter.count(text),
            priority=priority,
            render=kit.core.rerender,
        )

    async def retract(self, observation: str) -> Observation:
        """Take an observation out of the log and of search, until it is reinstated."""
        kit = await self._connection.open_to_write()
        return await kit.store.line_edits.retract(self.id, observation, render=kit.core.rerender)

    async def reinstate(self, observation: str) -> Observation:
        """Bring a retracted observation back."""
        kit = await self._connection.open_to_write()
        return await kit.store.line_edits.reinstate(self.id, observation, render=kit.core.rerender)

    async def forget(
        self,
        *,
        thread: str | None = None,
        message: str | None = None,
        observation: str | None = None,
        dry_run: bool = False,
    ) -> Forgotten:
        """Forget a message, an observation, a thread or, if nothing else is named, the whole resource. It cannot be undone.

        What was made of it goes too: observations, through every reflection, hints, kept prompts, its words in the index. A
        run in flight cannot bring it back. `thread` narrows `message` down, or is forgotten itself. `dry_run` only reports.
        """
        return await forgetting.forget(
            self._connection, self.id, thread=thread, message=message, observation=observation, dry_run=dry_run
        )

    async def apply_retention(self, *, dry_run: bool = False) -> Forgotten:
        """Forget what has become older than the settings under `retention` allow; without any, nothing."""
        return await forgetting.forget_older(self._connection, self.id, dry_run=dry_run)

    # ------------------------------------------------------------ looking after

    async def export(self, target: Target, *, overwrite: bool = False) -> ExportReport:
        """Write all of this resource as JSON lines to a path or an open text file; see `Memory.export`."""
        return await export(self._connection, target, self.id, overwrite=overwrite)

    async def doctor(self, *, repair: bool = False) -> Report:
        """Check the rows of this resource; see `Memory.doctor`."""
        return await self._memory.doctor(self.id, repair=repair)

    async def usage(
        self, *, thread: str | None = None, task: str | None = None, since: datetime | None = None
    ) -> UsageTotal:
        """Return the tokens and dollars that were spent, in all or for one thread or task."""
        kit = await self._connection.open()
        return await kit.store.ledger.total(self.id, thread=thread, task=task, since=since)


class Memory:
    """A long memory for the threads of any number of resources.

    Opens its database at the first use; close it with `aclose()`, or use it as `async with`.
    """

    config: Config
    clock: Clock
    counter: TokenCounter
    model: ModelSpec | None

    def __init__(
        self,
        address: "str | os.PathLike[str]" = "memolog.db",
        *,
        model: ModelSpec | None = None,
        config: Config | None = None,
        clock: Clock | None = None,
        counter: TokenCounter | None = None,
        instructions: str | None = None,
        extractors: Sequence[Extractor] = (),
        chance: Callable[[int], int] = system_chance,
    ) -> None:
        """Name the database, and the model that observes; everything has a default.

        A model is `"provider:model"`, an address, an object with `complete` or a function. Without one the embedded observer
        runs the whole pipeline, on this machine and for nothing.
        """
        if config is not None and not isinstance(config, Config):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigError(
                f"`config` must be a Config, got {type(config).__name__}.",
                then="Use Config(…) or Config.from_dict(…).",
            )
        self.config = config or Config()
        self.model, self.clock = model, clock or SystemClock()
        self.counter = counter or HeuristicCounter()
        self._connection = Connection(
            os.fspath(address),
            model=model,
            config=self.config,
            clock=self.clock,
            counter=self.counter,
            instructions=instructions,
            extractors=extractors,
            chance=chance,
        )

    def __repr__(self) -> str:
        return f"Memory({safe_url(self.address)!r})"

    # ------------------------------------------------------------ opening and closing

    @property
    def address(self) -> str:
        """Return where the database is; it may be changed until the database is open."""
        return self._connection.address

    @address.setter
    def address(self, address: str) -> None:
        self._connection.address = address

    async def open(self) -> Kit:
        """Open the database, if that has not been done; returns its parts."""
        return await self._connection.open()

    async def aclose(self) -> None:
        """Let background work finish, save what is left, then close the database. Closing twice is harmless.

        What turns could not save is tried once more, for as long as `busy_timeout`; raises NotSaved if that fails as well.
        """
        await self._connection.close()

    async def settled(self) -> None:
        """Wait until no background work of this process is in flight, and none follows.

        What could not be saved is tried once more; a database that is away is not waited for.
        """
        await self._connection.settled()

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self.aclose()
        except NotSaved:
            # An event has reported it; the error that ended the block comes first.
            if error is None:
                raise

    # ------------------------------------------------------------ handles

    def resource(self, id: str) -> Resource:  # noqa: A002 - as in every other value
        """Return the memory of one user, project or team; reads and writes nothing."""
        return Resource(self, self._connection, id)

    def thread(self, id: str, *, resource: str) -> Thread:  # noqa: A002
        """Return one conversation of a resource; reads and writes nothing."""
        return Thread(self, self._connection, id, resource)

    async def resources(self) -> tuple[str, ...]:
        """Return the ids of all resources that have something stored."""
        return await (await self.open()).store.resources()

    # ------------------------------------------------------------ events

    def subscribe(self, listener: Callable[[Event], None]) -> Callable[[], None]:
        """Call a function with every event from now on; returns the function that ends it."""
        return self._connection.bus.subscribe(listener)

    def events(self) -> AsyncGenerator[Event]:
        """Iterate over events from now on, until the memory is closed."""
        return self._connection.bus.stream()

    # ------------------------------------------------------------ the whole database

    async def export(self, target: Target, *, resource: str | None = None, overwrite: bool = False) -> ExportReport:
        """Write everything, or all of one resource, as JSON lines to a path or an open text file.

        The lines are the same whichever engine they come from. `import_from` reads them back, exactly and without a model. The
        file is readable by its owner only; `overwrite` lets it take the place of an older one, once it is whole.
        """
        return await export(self._connection, target, resource, overwrite=overwrite)

    async def import_from(
        self,
        source: "str | os.PathLike[str]",
        *,
        resource: str | None = None,
        format: str | None = None,  # noqa: A002
        dry_run: bool = False,
        progress: Progress | None = None,
        revive: bool = False,
    ) -> ImportReport:
        """Import an export of ours, or what another system has kept; importing the same again changes nothing.

        The format is detected, or named by `format`. `resource` is whose it becomes: needed where the source does not say.
        `dry_run` reports what would happen. An import that was interrupted goes on where it stopped when it is repeated. What was
        forgotten here stays forgotten, unless `revive` asks for it: then it comes back, and counts as never forgotten.
        """
        return await import_from(
            self._connection,
            source,
            resource=resource,
            format_=format,
            dry_run=dry_run,
            progress=progress,
            revive=revive,
        )

    async def backup(self, target: "str | os.PathLike[str]", *, overwrite: bool = False) -> int:
        """Copy the database into a new file while others write to it; returns its size in bytes.

        `overwrite` lets it take the place of an older one, once it is whole. For SQLite: a PostgreSQL server has its own tools
        for that, or export it.
        """
        return await backup(self._connection, target, overwrite=overwrite)

    async def doctor(self, resource: str | None = None, *, repair: bool = False) -> Report:
        """Check on the real rows that everything is as it must be: of one resource, or of the whole database.

        `repair` puts right what can be without losing anything that was said, after a copy of a SQLite file, and builds the
        search index anew. What is not safe is only explained.
        """
        kit = await (self._connection.open_to_write() if repair else self.open())
        return await examine(kit, resource, self.config, self.counter, repair=repair)
