"""Memory, Resource and Thread: the objects that a program uses.

A `Memory` is an open database. A `Resource` is a user, a project or a team that has memory there. A `Thread` is one conversation
of a resource. `Resource` and `Thread` objects contain only ids, so creating one reads and writes nothing.
"""

import asyncio
import contextlib
import os
from collections import defaultdict
from collections.abc import AsyncGenerator, Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from importlib import import_module
from inspect import iscoroutinefunction
from math import inf
from types import TracebackType
from typing import Any, Literal, Protocol, Self, TypeAlias, cast

from memolog.admin import forget as forgetting
from memolog.admin.backup import backup
from memolog.admin.doctor import examine
from memolog.admin.export import Target, export, log_as_markdown, write_text
from memolog.admin.import_conversations import Progress, Tally, save_conversation
from memolog.admin.imports import import_from
from memolog.compaction.extractive import words_left
from memolog.connection import Components, Connection, check_thread, check_turn, overridden
from memolog.context.context import Context
from memolog.context.pack import Pack, context_pack
from memolog.core.clock import Clock, SystemClock, system_chance
from memolog.core.config import Config
from memolog.core.exact_json import JsonObject, dumps
from memolog.core.job import DueLog, HeldRuns, LookJob
from memolog.core.measures import WORK_KINDS, Measures
from memolog.core.message import FilePart, Message, NewMessage
from memolog.core.model_names import canonical_model
from memolog.core.observation import Extract, Generation, Observation, Priority, Span
from memolog.core.reports import Compacted, Compaction, ExportReport, Forgotten, ImportReport, Pruned, Report
from memolog.core.run import KeptPrompt, Run, UsageTotal
from memolog.core.thread import UNCHANGED, ThreadInfo, Unchanged
from memolog.db.postgres_address import safe_url
from memolog.db.scope import Page, check_choices, check_id, check_number, check_text
from memolog.db.sqlite_files import clean_file
from memolog.errors import ConfigError, Conflict, InputError, MemologError, NotSaved, StoreClosed
from memolog.events import Bus, Event, new_generation_event
from memolog.items.calls import Items
from memolog.log.due import WaitingLog, WaitingThread, Why
from memolog.log.inspection import Activity, LogPage, Origin, ResourceSummary, ThreadSummary, UsageDay
from memolog.log.journal import ContextRecord, RequestSize, StoredEvent
from memolog.log.render import Log, reading_order
from memolog.log.snapshot import OTHER_ROWS, GroupRow, Snapshot
from memolog.log.state import Asked
from memolog.log.status import Status, status_of
from memolog.log.usage import ThreadUsage, UsageLine
from memolog.messages.branches import Again, Branch, Rewound
from memolog.messages.provider_messages import Given, messages_in
from memolog.observer.embedder_choice import EmbedderSpec
from memolog.observer.extractors import Extractor
from memolog.observer.model_choice import ModelSpec
from memolog.observer.run import embedded_lines, spent_of
from memolog.outbox import check_messages
from memolog.search.index import reading_next_waiting
from memolog.search.recall import RecallRequest, recall
from memolog.search.recall_store import Reference
from memolog.search.search import SearchOptions, search_memory
from memolog.search.values import SOURCES, Detail, PartType, RecallPage, SearchAnswer, Source
from memolog.tasks.calls import Tasks
from memolog.tasks.rules import edge_lines
from memolog.text.redaction import for_the_index
from memolog.text.tokens import HeuristicCounter, TokenCounter
from memolog.transfer.conversation import Conversation
from memolog.turn import Turn
from memolog.working_memory.calls import WorkingMemory

_POLL_SECONDS = 0.05
# `observe` stops waiting for a run of another process if nothing changes during this many leases. By then a dead process is
# detected and its runs are taken over.
_LEASES = 2
# The maximum seconds that `observe` waits for retries after failures.
_LONGEST_REST = 60.0
# If a clock does not change for this many seconds, it is the clock of a test. Then `observe` stops waiting for a retry.
_STANDSTILL_SECONDS = 0.25
# A sweep works on at most this many logs at a time.
_SWEPT_AT_ONCE = 4

Route: TypeAlias = Callable[[str], "str | os.PathLike[str]"]
"""A function that returns the address of the database in which a resource is stored. The id of the resource is its argument."""
Form = Literal["openai", "openai-responses", "anthropic", "mcp"]

# More groups than any log has.
_ALL_GROUPS = 2**31
# The settings of a turn that saves nothing.
_LOOKING = {"read_only": True, "buffer_on_idle": False, "keep_prompts": False, "manage_working_memory": False}


class Tools(Protocol):
    """Three tools for a model: they read tasks, change tasks, and search the memory."""

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the tools."""
        ...

    @property
    def session(self) -> str:
        """Return the session for which tasks are claimed: the passed session, else the thread, else a new id."""
        ...

    @property
    def guidance(self) -> str:
        """Return a text for the system prompt that explains how to use the tools."""
        ...

    def definitions(self, form: Form = "openai") -> list[Any]:
        """Return the definitions of the tools in the form of a provider or of MCP.

        Each definition is a dict. Its type is Any, so that it fits `tools=` of every client.
        """
        ...

    async def call(self, name: str, arguments: object = None) -> dict[str, Any]:
        """Return the answer to a call. An error is returned as an answer too, and never raised."""
        ...

    async def files(self, name: str, arguments: object = None) -> tuple[FilePart, ...]:
        """Return the files of the part that a successful `recall` with `part` shows, for the model. Other calls have no files."""
        ...


class _Handle:
    """Base of `Resource` and `Thread`. Two objects with the same ids and the same database are equal."""

    def __init__(self, memory: "Memory", connection: Connection, *ids: str) -> None:
        self._memory, self._connection, self._ids = memory, connection, ids

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, type(self)):
            return False
        return (other._ids, other._connection.address) == (self._ids, self._connection.address)

    def __hash__(self) -> int:
        return hash((type(self), self._ids))


class Thread(_Handle):
    """One conversation of a resource. Get it with `memory.thread(id, resource=…)` or `resource.thread(id)`.

    The first turn creates the thread.
    """

    id: str
    resource: str
    """The id of the resource."""

    def __init__(self, memory: "Memory", connection: Connection, thread: str, resource: str) -> None:
        self.id, self.resource = check_id("thread", thread), check_id("resource", resource)
        super().__init__(memory, connection, self.id, self.resource)

    def __repr__(self) -> str:
        return f"Thread({self.id!r}, resource={self.resource!r})"

    def _owner(self) -> "Resource":
        return Resource(self._memory, self._connection, self.resource)

    # ------------------------------------------------------------ talking

    def turn(
        self, *, model: str | None = None, zone: str | None = None, settings: Mapping[str, Any] | None = None
    ) -> Turn:
        """Begin a turn: `async with thread.turn() as turn`.

        `model` is the model that answers. `zone` is the time zone of the user (`"Europe/Berlin"`). `settings` are for this turn
        only.
        """
        connection = self._connection
        if connection.outbox.is_closed:
            raise StoreClosed
        check_turn(settings, zone)
        check_text("model", model)
        return Turn(connection, self.id, self.resource, own=settings, model=model, zone=zone)

    async def context(self, *messages: Given, model: str | None = None, zone: str | None = None) -> Context:
        """Return the context that the model would see now, with `messages` added. Saves nothing and starts nothing."""
        async with self.turn(model=model, zone=zone, settings=_LOOKING) as turn:
            return await turn.prepare(*messages)

    async def seen(self, number: int) -> Context:
        """Rebuild the context of an earlier request. `number` is the number of the request in the thread, counted from 1."""
        components = await self._connection.open()
        return await components.contexts.again(self.resource, self.id, number, self._connection.config)

    async def messages(self, *, after: int | None = None, before: int | None = None, limit: int = 50) -> Page[Message]:
        """Return a page of messages, oldest first: the first after number `after` (default 0), or the last before `before`."""
        components = await self._connection.open()
        return await components.store.messages.page(self.resource, self.id, after=after, before=before, limit=limit)

    # ------------------------------------------------------------ the thread itself

    async def info(self) -> ThreadInfo:
        """Return the title, metadata, settings and last message number of the thread. Raises ThreadNotFound."""
        return await (await self._connection.open()).store.threads.get(self.resource, self.id)

    async def update(
        self,
        *,
        title: str | Unchanged | None = UNCHANGED,
        metadata: JsonObject | Callable[[JsonObject], JsonObject] | None = None,
    ) -> ThreadInfo:
        """Change the title or the metadata. An argument that is not passed changes nothing. Raises ThreadNotFound.

        `metadata` replaces the stored metadata. If it is a function, it gets the stored metadata and returns the new metadata.
        """
        if not isinstance(title, Unchanged):
            check_text("title", title)
        given: object = metadata
        if given is not None and not isinstance(given, Mapping) and not callable(given):
            raise InputError(
                f"`metadata` must be a dict or a function, got {type(metadata).__name__}.",
                then='Pass {"name": "value"}.',
            )
        threads = (await self._connection.open_to_write()).store.threads
        return await threads.update(self.resource, self.id, title=title, metadata=metadata)

    async def override(self, settings: Mapping[str, Any]) -> ThreadInfo:
        """Store settings for all turns of this thread. They replace its stored settings, and override the configuration."""
        check_thread(settings)
        self._connection.config.with_overrides(settings)
        components = await self._connection.open_to_write()
        return await components.store.threads.update(self.resource, self.id, overrides=dict(settings))

    async def clone(self, new_thread: str | None = None) -> ThreadInfo:
        """Copy the thread and its log into a new thread. In a shared log, copies of observed messages count as observed."""
        components = await self._connection.open_to_write()
        return await components.store.threads.clone(self.resource, self.id, new_thread)

    async def forget(self, *, message: str | None = None, dry_run: bool = False) -> Forgotten:
        """Forget the thread or one of its messages, and all derived data. This cannot be undone. `dry_run` only reports."""
        return await self._owner().forget(thread=self.id, message=message, dry_run=dry_run)

    # ------------------------------------------------------------ the log

    async def status(self) -> Status:
        """Return token counts, backlog, health and cost."""
        connection = self._connection
        components = await connection.open()
        config, snapshot = await connection.look(self.id, self.resource, create=False)
        spent = 0.0 if config.budget is None else await spent_of(components.store, self.resource, self.id, config)
        live = await components.store.messages.live_counts(self.resource, [self.id], up_to=snapshot.cursor)
        return status_of(
            snapshot,
            config,
            await components.store.ledger.total(self.resource, thread=self.id),
            connection.clock.now(),
            await components.factor(self.resource, snapshot.thread.last_model),
            spent,
            unsaved=connection.outbox.counts().get((self.resource, self.id)),
            trouble=connection.bus.trouble(self.resource, self.id),
            dropped=await components.store.logs.count_dropped(snapshot.resource, snapshot.log.pk),
            live=live[self.id],
        )

    async def log(self, *, generation: int | None = None, retracted: bool = False) -> Log:
        """Return the observations in the order in which the model sees them. `retracted` adds retracted observations.

        `generation` is the number of a generation from `history()`. By default the current generation is returned.
        """
        components = await self._connection.open()
        snapshot, groups = await self._groups_at(components, generation)
        ids = [group.id for group in groups]
        lines = await components.store.logs.observations(snapshot.resource, snapshot.log.pk, ids)
        is_past = generation is not None and generation != snapshot.log.generation
        states = {"active", "retracted"} if retracted else {"active"}
        return Log(reading_order([line for line in lines if is_past or line.state in states], ids))

    async def groups(self, *, generation: int | None = None) -> tuple[GroupRow, ...]:
        """Return the groups of the log in their order, each with its handle, its span and the text that the model sees."""
        _, groups = await self._groups_at(await self._connection.open(), generation)
        return tuple(groups)

    async def log_page(self, *, messages: Span | None = None, before: str | None = None, limit: int = 60) -> LogPage:
        """Return a page of the log with its groups and the runs that made them: the newest lines, in their order.

        With `messages`, return the observations with a source among these messages, also replaced ones. For the lines before a
        page, pass its `next` as `before`. `log` returns the whole log.
        """
        components = await self._connection.open()
        shared = (await components.config_for(self.resource)).scope == "resource"
        return await components.store.inspection.log_page(
            self.resource, self.id, shared=shared, messages=messages, before=before, limit=limit
        )

    async def contexts(self, *, after: int | None = None, limit: int = 100) -> tuple[ContextRecord, ...]:
        """Return the records of requests, oldest first: those after number `after`, or by default the newest.

        `seen` rebuilds the context of a record from its number.
        """
        journal = (await self._connection.open()).store.journal
        if after is None:
            return await journal.newest_contexts(self.resource, self.id, limit=limit)
        return await journal.contexts(self.resource, self.id, after=after, limit=limit)

    async def sizes(self, *, before: int | None = None, limit: int = 200) -> tuple[RequestSize, ...]:
        """Return the tokens of the newest requests, oldest first, each with the tokens that it would have without a memory.

        For earlier requests, pass the lowest number as `before`.
        """
        journal = (await self._connection.open()).store.journal
        return await journal.sizes(self.resource, self.id, before=before, limit=limit)

    async def _groups_at(self, components: Components, generation: int | None) -> tuple[Snapshot, Sequence[GroupRow]]:
        config, logs = await components.config_for(self.resource), components.store.logs
        snapshot = await logs.snapshot(self.resource, self.id, config.scope, create=False, newest=1)
        if generation is None:
            return snapshot, snapshot.groups
        check_number("generation", generation, then="Take one from history().")
        return snapshot, await logs.groups_at(snapshot.resource, snapshot.log.pk, generation, entries=_ALL_GROUPS)

    async def export_markdown(self, target: "str | os.PathLike[str] | None" = None, *, overwrite: bool = False) -> str:
        """Return the log as Markdown for people: the observations by date, with their sources.

        If `target` is passed, the text is also written to this file. `overwrite` replaces an existing file.
        """
        text = log_as_markdown((await self.info()).title or self.id, await self.log())
        if target is not None:
            await write_text(self._connection, target, text, overwrite=overwrite)
        return text

    async def buffer(self) -> None:
        """Observe in the background all messages that are not observed yet."""
        await self._by_hand("buffer")

    async def observe(self) -> Status:
        """Observe all messages saved so far and activate the observations. Waits for the model without a time limit.

        After a failure it waits for the next attempt, but at most a minute in total. The returned status has the error.
        """
        await self._catch_up()
        return await self.status()

    async def activate(self) -> Status:
        """Move every buffered group into the log."""
        await self._by_hand("activate")
        return await self.status()

    async def reflect(self) -> Status:
        """Condense the log now and wait for the result. Waits at most one lease for a reflection of another process."""
        await self._by_hand("reflect", may_wait=True)
        return await self.status()

    async def finalize(self, *, compact: bool = False) -> Status:
        """End a session: observe all messages that are not observed yet. `compact` also compacts the messages."""
        if compact:
            await self.compact()
        return await self.observe()

    async def _catch_up(self) -> None:
        """Observe and activate until the log covers the messages saved so far, or nothing more can be done."""
        loop, look = asyncio.get_running_loop(), partial(self._connection.look, self.id, self.resource)
        _, snapshot = await look()
        ends, through = _ends(snapshot), snapshot.thread.last_seq
        before: object = None
        changed, patience = loop.time(), timedelta(seconds=_LONGEST_REST)
        while True:
            await self._by_hand("observe", may_wait=True, through=through)
            await self._by_hand("activate", through=through)
            config, snapshot = await look()
            left = sum(message.seq <= ends[snapshot.thread.id] for message in snapshot.tail)
            left += sum(weight.seq <= ends[other.thread] for other in snapshot.others for weight in other.weights)
            if not left:
                return
            under_way = [run for run in snapshot.runs if run.status == "running" and run.kind == "observe"]
            beats = [(run.id, run.fence, run.beat_at) for run in under_way]
            now = (snapshot.cursor, left, len(snapshot.buffered), len(snapshot.groups), beats)
            if now != before:
                before, changed = now, loop.time()
            elif not under_way and (rested := await _rest(snapshot, self._connection.clock, patience)) is not None:
                before, patience = None, patience - rested
            elif not under_way or loop.time() - changed > _LEASES * config.lease:
                # The observer waits after a failure, a tool call has no result yet, or the run of another process does not end.
                return
            else:
                # Another process has the run, so wait and read again.
                await asyncio.sleep(_POLL_SECONDS)

    async def _by_hand(self, what: str, *, may_wait: bool = False, through: int | None = None) -> None:
        components = await self._connection.open_to_write()
        config, snapshot = await self._connection.look(self.id, self.resource)
        through = snapshot.thread.last_seq if through is None else through
        asked = Asked(by_hand=frozenset({what}), may_wait=may_wait, through=through)
        await components.core.advance(snapshot, config, asked)

    async def history(self) -> tuple[Generation, ...]:
        """Return the generations of the log, oldest first."""
        components = await self._connection.open()
        return await components.store.logs.history(self.resource, await self._owner_of_log(components))

    async def as_of(self, at: datetime) -> tuple[GroupRow, ...]:
        """Return the groups that the log had at a moment."""
        if not isinstance(at, datetime):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InputError(f"`at` must be a datetime, got {type(at).__name__}.", then="Pass datetime(…, tzinfo=UTC).")
        components = await self._connection.open()
        return await components.store.logs.as_of(self.resource, await self._owner_of_log(components), at)

    async def _owner_of_log(self, components: Components) -> str | None:
        return self.id if (await components.config_for(self.resource)).scope == "thread" else None

    async def restore(self, generation: int) -> Generation:
        """Create a new generation from the groups of an old generation and all groups that were activated after it."""
        check_number("generation", generation, then="Take one from history().")
        components = await self._connection.open_to_write()
        made: Generation | None = None
        while made is None:
            _, snapshot = await self._connection.look(self.id, self.resource)
            # If the log has changed meanwhile, read it again.
            with contextlib.suppress(Conflict):
                made = await components.store.logs.restore(snapshot, generation, now=self._connection.clock.now())
        await components.core.tell(new_generation_event(made, self.resource, self.id))
        return made

    async def extracts(self, *, key: str | None = None) -> tuple[Extract, ...]:
        """Return the newest version of each extracted value, or all versions of one `key`, oldest first."""
        components = await self._connection.open()
        versions = await components.store.extracts.list(self.resource, self.id)
        if key is not None:
            return tuple(version for version in versions if version.key == key)
        return tuple({version.key: version for version in versions}.values())

    async def runs(self, *, limit: int = 100) -> tuple[Run, ...]:
        """Return the observer runs over this thread and the reflector runs over its log, the newest first."""
        components = await self._connection.open()
        config = await components.config_for(self.resource)
        snapshot = await components.store.logs.snapshot(self.resource, self.id, config.scope, create=False, newest=1)
        found = await components.store.runs.list(self.resource, log_pk=snapshot.log.pk, limit=limit)
        return tuple(run for run in found if run.thread in {None, self.id})

    async def prompts(self, run: str) -> tuple[KeptPrompt, ...]:
        """Return the requests and replies of a run. They are stored only if `keep_prompts` was set."""
        return await (await self._connection.open()).store.runs.prompts(self.resource, run)

    # ------------------------------------------------------------ compaction

    async def compact(self, *, keep: int = 0) -> Compacted:
        """Observe the thread, replace its messages by summaries in contexts and in the search index, and return the summaries.

        The newest `keep` messages are not compacted. With a log, only messages that the log covers are compacted. The raw texts
        stay stored, and recall shows them. `restore_compaction` undoes a compaction.
        """
        if check_number("keep", keep) < 0:
            raise InputError(f"`keep` must be 0 or more, got {keep}.")
        components = await self._connection.open_to_write()
        config, _ = await self._connection.look(self.id, self.resource)
        status = await self.observe()
        up_to = status.cursor if config.observe else None
        return await components.compacting.compact(
            self.resource, self.id, config, keep=keep, up_to=up_to, covered=status.cursor
        )

    async def compactions(self) -> tuple[Compaction, ...]:
        """Return the compactions in the order of the messages, including restored ones."""
        return await (await self._connection.open()).store.compactions.list(self.resource, self.id)

    async def restore_compaction(self, compaction: str) -> Compaction:
        """Undo a compaction: contexts and the search index use the texts from before, byte for byte."""
        components, now = await self._connection.open_to_write(), self._connection.clock.now()
        return await components.store.compactions.restore(self.resource, self.id, compaction, now=now)

    async def prune(self, *, dry_run: bool = False) -> Pruned:
        """Delete the raw text of old messages. This cannot be undone. Raises InputError unless `compaction.prune` is set.

        The text is not deleted if the message is younger than `compaction.prune_days`, not observed, linked to an open task or
        not compacted. The result counts such messages. Summaries and observations stay. Search still finds names and numbers.
        `dry_run` only counts.
        """
        components = await self._connection.open_to_write()
        config, _ = await self._connection.look(self.id, self.resource)
        if not config.compaction.prune:
            raise InputError(
                "Pruning is off.",
                why="It deletes raw text, and this cannot be undone.",
                then="Set compaction.prune = True if you want this.",
            )
        days, now = config.compaction.prune_days, self._connection.clock.now()
        pruned = await components.store.compactions.prune(
            self.resource, self.id, days=days, now=now, left=words_left, dry_run=dry_run
        )
        file = components.store.engine.file
        if file is None or dry_run or not pruned.messages:
            return pruned
        # The file still contains the deleted bytes, so rewrite the file.
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
        """Search only this thread. `Resource.search` describes the arguments."""
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
        """Return a page of the messages that a reference of this thread points to. `Resource.recall` describes the arguments."""
        return await self._owner().recall(
            reference, thread=self.id, detail=detail, types=types, tool=tool, part=part, tokens=tokens, cursor=cursor
        )

    # ------------------------------------------------------------ tasks, working memory, tools

    def tasks(self, *, session: str | None = None, who: str | None = None) -> Tasks:
        """Return the tasks of the resource. A task that is claimed becomes the active task of this thread."""
        return self._owner().tasks(session=session, who=who, thread=self.id)

    def working_memory(self) -> WorkingMemory:
        """Return the working memory of this thread."""
        return self._owner().working_memory(thread=self.id)

    def tools(self, *, session: str | None = None) -> Tools:
        """Return the three tools for a model that works in this thread."""
        return self._owner().tools(thread=self.id, session=session)

    # ------------------------------------------------------------ messages without a turn

    async def create(
        self,
        *,
        title: str | None = None,
        metadata: JsonObject | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> ThreadInfo:
        """Create the thread before its first turn, with its settings. Raises ThreadExists."""
        check_thread(settings or {})
        self._connection.config.with_overrides(settings or {})
        components = await self._connection.open_to_write()
        return await components.store.threads.create(
            self.resource, self.id, title=title, metadata=metadata, overrides=dict(settings or {})
        )

    async def save(self, messages: Given | Sequence[NewMessage]) -> tuple[Message, ...]:
        """Save messages without a turn, either all of them or none. Saving the same messages again changes nothing.

        A text is a message of the user. A dict, or a list of dicts, is read as in `prepare`.
        """
        several = isinstance(messages, list | tuple) and all(isinstance(one, NewMessage) for one in messages)
        said = messages_in(cast("Sequence[Given]", messages) if several else (cast("Given", messages),))
        check_messages(said)
        components = await self._connection.open_to_write()
        return (await components.store.messages.save(self.resource, self.id, said)).messages

    async def import_messages(
        self, messages: Sequence[NewMessage], *, source: str, title: str | None = None
    ) -> ImportReport:
        """Append messages of this conversation that another system stored, with their times. A repeated import changes nothing.

        `source` is the name of that system. It is stored in the metadata of a new thread. Forgotten messages are skipped.
        """
        components = await self._connection.open_to_write()
        tally = Tally(format=source, dry_run=False)
        told = Conversation(thread=self.id, messages=tuple(messages), title=title, metadata={"source": source})
        await save_conversation(components.store, told, self.resource, tally)
        return tally.report()

    async def forgotten(self, messages: Sequence[NewMessage], *, is_history: bool = False) -> frozenset[int]:
        """Return the indexes of the messages that were forgotten, alone or together with this thread.

        Set `is_history` for messages that a client sends again without ids and times. They are compared by their content.
        """
        components = await self._connection.open()
        return await components.store.tombstones.find(self.resource, self.id, messages, is_history=is_history)

    async def withdraw(self, turn: str) -> None:
        """Withdraw all messages of an ended turn. `turn` is the id of the turn. Raises ThreadNotFound."""
        components = await self._connection.open_to_write()
        await components.store.withdrawals.withdraw(self.resource, self.id, turn)

    async def rewind(self, *, to: int | str, only_turns: str | None = None) -> Branch | None:
        """Withdraw every message after `to`, the number or the id of the last message that stays. 0 withdraws all messages.

        Use it when a user edits an earlier question or wants another answer. Observations of withdrawn messages are removed from
        the log. The messages are stored as a branch: `branches` lists it, and `restore_branch` restores it. If `only_turns` is
        passed, every message after `to` must belong to an ended turn whose id begins with `only_turns`; otherwise nothing is
        withdrawn. Returns None if nothing was withdrawn, also if the thread ends before `to`. Raises TurnRunning if a message
        after `to` is of a running turn.
        """
        components, again = await self._open_rewound()
        running = await self._running_turns(components)
        rewound = await components.store.branches.rewind(
            self.resource, self.id, to, again=again, only_turns=only_turns, running=running
        )
        return self._rewound(rewound)

    async def branches(self) -> tuple[Branch, ...]:
        """Return the branches of this thread, oldest first. A branch has the messages that a rewind withdrew."""
        return await (await self._connection.open()).store.branches.list(self.resource, self.id)

    async def restore_branch(self, branch: str) -> Branch | None:
        """Restore a branch: append its messages again, after the messages that the branch and the thread have in common.

        Messages of the thread that the branch does not have are withdrawn and become a new branch, which is returned. Returns
        None if there are no such messages. Raises BranchNotFound, and TurnRunning if one of them is of a running turn.
        """
        components, again = await self._open_rewound()
        running = await self._running_turns(components)
        rewound = await components.store.branches.restore(self.resource, self.id, branch, again=again, running=running)
        return self._rewound(rewound)

    async def _running_turns(self, components: Components) -> frozenset[str]:
        """Return the turns that are open in this process, and those of living processes that wait for an answer."""
        waiting = await components.store.branches.waiting(self.resource, self.id)
        return frozenset({*self._connection.open_turns, *(row.turn for row in components.core.running(waiting))})

    async def _open_rewound(self) -> tuple[Components, Again]:
        components = await self._connection.open_to_write()
        # Save the messages that ended turns could not save. Otherwise they would be saved after the rewind.
        await self._connection.outbox.save(self.resource, self.id)
        config = await components.config_for(self.resource)
        again = partial(embedded_lines, config=config, new_id=components.store.new_id, counter=self._connection.counter)
        return components, again

    def _rewound(self, rewound: Rewound) -> Branch | None:
        if rewound.rows.messages:
            now = self._connection.clock.now()
            self._connection.bus.emit(rewound.rows.event(self.resource, self.id, now))
        return rewound.branch

    async def advance(self) -> None:
        """Observe, activate or reflect if this is due, as a turn does. Use it after `save`, which starts nothing."""
        components = await self._connection.open_to_write()
        config, snapshot = await self._connection.look(self.id, self.resource)
        await components.core.advance(snapshot, config, Asked())

    async def work(self, *, rest: bool = False) -> int:
        """Do the background work that is due for the log of this thread, in this process, and wait for it.

        `memolog worker` calls it. Runs of other processes are left alone while these are alive. `rest` also observes messages
        that are fewer than a step. Nothing is activated, because a turn does that. Returns the number of decisions to start runs.
        After `Memory.start_no_more` it starts nothing.
        """
        components = await self._connection.open_to_write()
        started, before = 0, None
        while not components.runner.is_ending:
            config, snapshot = await self._connection.look(self.id, self.resource)
            config = config.with_overrides({"background": "loop"})
            state = (snapshot.log.version, snapshot.thread.last_seq)
            if not config.observe:
                await components.compacting.automatic(self.resource, self.id, config)
            if not config.observe or state == before:
                # If nothing has changed since the last round, another process has the work.
                return started
            asked = Asked(
                by_hand=frozenset({"buffer"} if rest else ()),
                may_activate=False,
                ending=True,
                factor=await components.factor(self.resource, snapshot.thread.last_model),
            )
            _, decisions = await components.core.advance(snapshot, config, asked)
            begun = sum(name not in {"Wait", "Trim"} for name in decisions)
            if not begun:
                return started
            started, before = started + begun, state
            # A batch that has ended may have started the next one.
            while await components.runner.finished(
                self.resource, None if config.scope == "resource" else self.id, None
            ):
                pass
            if not (rest or config.buffer_on_idle):
                # After each batch the runner has decided again, so nothing is due any more.
                return started
        return started


class Resource(_Handle):
    """The memory of a user, a project or a team. Get it with `memory.resource(id)`.

    A resource cannot read the data of another resource.
    """

    id: str

    def __init__(self, memory: "Memory", connection: Connection, resource: str) -> None:
        self.id = check_id("resource", resource)
        super().__init__(memory, connection, self.id)

    def __repr__(self) -> str:
        return f"Resource({self.id!r})"

    # ------------------------------------------------------------ threads

    def thread(self, id: str) -> Thread:  # noqa: A002 - as in every other value
        """Return one conversation of this resource. Reads and writes nothing."""
        return Thread(self._memory, self._connection, id, self.id)

    async def threads(self, *, limit: int = 100, after: str | None = None) -> Page[ThreadInfo]:
        """Return a page of threads, the latest active first. For the next page, pass its `next` as `after`."""
        return await (await self._connection.open()).store.threads.list(self.id, limit=limit, after=after)

    async def sweep(self) -> int:
        """Observe in the background all messages of all threads that are not observed yet, a few threads at a time.

        Returns the number of threads that have such messages or running runs. It is 0 when all messages are observed.
        """
        components = await self._connection.open_to_write()
        found = [log for log in await self._waiting(components) if log.waiting or log.runs]
        if found:
            components.runner.spawn(self._work_off(found))
        return sum(bool(thread.waiting or (log.runs and thread.uncovered)) for log in found for thread in log.threads)

    async def _waiting(self, components: Components) -> list[WaitingLog]:
        """Return the logs of all threads that are observed."""
        config, now = await components.config_for(self.id), self._connection.clock.now()
        found: dict[int, WaitingLog] = {}
        page = None
        while page is None or page.next is not None:
            after = None if page is None else page.next
            page = await components.store.due.page(scope=config.scope, now=now, after=after, resource=self.id)
            found |= {0 if log.is_shared else log.threads[0].pk: log for log in page.logs}
        return [log for log in found.values() if overridden(config, log.thread.overrides)[0].observe]

    async def _work_off(self, logs: Sequence[WaitingLog]) -> None:
        few = asyncio.Semaphore(_SWEPT_AT_ONCE)

        async def work(thread: str) -> None:
            async with few:
                try:
                    await self.thread(thread).work(rest=True)
                except MemologError as error:
                    self._connection.bus.degraded(self.id, thread, "sweeping", error)

        await asyncio.gather(*(work(log.thread.id) for log in logs))

    async def merge(self) -> tuple[str, ...]:
        """Merge the logs of the threads into the shared log, after a change to resource scope.

        Returns the merged threads. A thread is not merged if runs have already observed it for the shared log, or are about to.
        A `Degraded` event gives the reason, and the messages of that thread are observed again.
        """
        connection = self._connection
        components = await connection.open_to_write()
        merged = await components.store.copies.merge(self.id)
        # Store the scope, so that processes without this setting use the shared log, too.
        await components.config_for(self.id, keep=True)
        for thread, why in merged.left:
            connection.bus.degraded(self.id, thread, "merging a log", why)
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
        """Search messages, observations, reflections and tasks, and return the best result first. Any text is a query.

        `context` is the number of messages to add before and after each result. `sources` limits the search to some sources.
        `by="thread"` returns the best message of each thread. `explain` adds the parts of each score. For the next page, pass
        the `next` of an answer as `cursor`.
        """
        named: Any = None if sources is None else check_choices("source", sources, SOURCES)
        check_number("context", context)
        wanted = SearchOptions(
            thread=thread, limit=limit, context=context, sources=named, by=by, explain=explain, cursor=cursor
        )
        components = await self._connection.open()
        config, now = self._connection.config, self._connection.clock.now()
        return await search_memory(components.store, config, query, self.id, wanted, now)

    async def index(self) -> None:
        """Index everything that waits to be indexed, however much it is. With an embedder, make all vectors too.

        Searches and background work do the same for smaller amounts. `SearchAnswer.unindexed` says how much was left.
        """
        components = await self._connection.open_to_write()
        await components.store.indexing.catch_up(self.id, for_the_index(self._connection.config))
        if components.store.semantic is not None:
            await components.store.semantic.make(self.id)

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
        """Return a page of the messages that a reference points to, in their exact words.

        A reference comes from the log or a search: a group ("g3"), an observation, a message, or a span ("12-30" with `thread`,
        or "t1 12-30"). The pages of a message continue with the messages around it. `detail="low"` shows one or two lines
        of each message, `detail="full"` the whole message. `types`, `tool` and `part` select parts. A page has at most `tokens`
        tokens. For another page, pass the `next` or `previous` of a page as `cursor`.
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
        components = await self._connection.open()
        config = await components.config_for(self.id)
        return await recall(
            components.store, self._connection.counter, self.id, request, shared=config.scope == "resource"
        )

    # ------------------------------------------------------------ tasks, working memory, tools

    def tasks(self, *, session: str | None = None, who: str | None = None, thread: str | None = None) -> Tasks:
        """Return the tasks of this resource for a session.

        Tasks are claimed for `session` (by default the thread). `who` is stored in their history as the author of changes. A
        claimed task becomes the active task of `thread`, and new messages of that thread are linked to the task.
        """
        connection = self._connection
        return Tasks(connection.open, self.id, connection.config, session=session, who=who, thread=thread)

    def working_memory(self, *, thread: str | None = None) -> WorkingMemory:
        """Return the working memory of this resource, or of one of its threads."""
        connection = self._connection
        return WorkingMemory(connection.open, connection.open_to_write, self.id, thread, connection.config)

    def items(self) -> Items:
        """Return the items of this resource: JSON objects that a program stores under namespaces and keys."""
        connection = self._connection
        return Items(connection.open, connection.open_to_write, self.id, connection.clock)

    def tools(self, *, thread: str | None = None, session: str | None = None, read_only: bool = False) -> Tools:
        """Return the three tools for a model that works for this resource: definitions, guidance, and calls.

        Tasks are claimed for `session`. A claimed task becomes the active task of `thread`. With `read_only`, the tools offer
        and perform only actions that read.
        """
        # Import the toolset at its first use, because it imports this module and a library that is slow to import.
        holder = session or thread
        made: Tools = import_module("memolog.tools.toolset").Toolset(
            self._memory,
            self.id,
            session=holder or self._connection.new_id(),
            thread=thread,
            who=holder or "agent",
            read_only=read_only,
        )
        return made

    # ------------------------------------------------------------ correcting and forgetting

    async def edit_observation(self, observation: str, text: str, *, priority: Priority | None = None) -> Observation:
        """Correct an observation: retract it, and return a new observation with the new text and the same sources."""
        components = await self._connection.open_to_write()
        return await components.store.line_edits.edit(
            self.id,
            observation,
            text,
            tokens=self._connection.counter.count(text),
            priority=priority,
        )

    async def retract(self, observation: str) -> Observation:
        """Remove an observation from the log and from search. `reinstate` undoes this."""
        components = await self._connection.open_to_write()
        return await components.store.line_edits.retract(self.id, observation)

    async def origin(self, observation: str) -> Origin:
        """Return where an observation comes from: its sources, the run that made it, and what it replaces or what replaces it.

        Raises NotFound.
        """
        return await (await self._connection.open()).store.inspection.origin(self.id, observation)

    async def reinstate(self, observation: str) -> Observation:
        """Reinstate a retracted observation."""
        components = await self._connection.open_to_write()
        return await components.store.line_edits.reinstate(self.id, observation)

    async def forget(
        self,
        *,
        thread: str | None = None,
        message: str | None = None,
        observation: str | None = None,
        dry_run: bool = False,
    ) -> Forgotten:
        """Forget a message, an observation, a thread or, if none is passed, the whole resource. This cannot be undone.

        All data derived from it is forgotten too: observations and their copies in reflections, hints, stored prompts, and words
        of the search index. A run that is running cannot store it again. With `message`, `thread` is the thread of the message.
        `dry_run` only reports.
        """
        return await forgetting.forget(
            self._connection, self.id, thread=thread, message=message, observation=observation, dry_run=dry_run
        )

    async def apply_retention(self, *, dry_run: bool = False) -> Forgotten:
        """Forget data that is older than the settings under `retention` allow. If none of them is set, nothing is forgotten."""
        return await forgetting.forget_older(self._connection, self.id, dry_run=dry_run)

    # ------------------------------------------------------------ administration and inspection

    async def export(self, target: Target, *, overwrite: bool = False) -> ExportReport:
        """Write all data of this resource as JSON lines to a path or an open text file. See `Memory.export`."""
        return await export(self._connection, target, self.id, overwrite=overwrite)

    async def doctor(self, *, repair: bool = False) -> Report:
        """Check the stored rows of this resource. See `Memory.doctor`."""
        return await self._memory.doctor(self.id, repair=repair)

    async def usage(
        self, *, thread: str | None = None, task: str | None = None, since: datetime | None = None
    ) -> UsageTotal:
        """Return the tokens and US dollars spent, in total or for one thread or task."""
        components = await self._connection.open()
        return await components.store.ledger.total(self.id, thread=thread, task=task, since=since)

    async def usage_by_model(
        self, *, thread: str | None = None, task: str | None = None, since: datetime | None = None
    ) -> tuple[UsageLine, ...]:
        """Return the usage as `usage` does, but one line for each kind of work and each model."""
        components = await self._connection.open()
        return await components.store.ledger.lines(self.id, thread=thread, task=task, since=since)

    async def usage_by_thread(self, *, since: datetime | None = None, limit: int = 50) -> tuple[ThreadUsage, ...]:
        """Return the usage of the threads that cost the most, the most expensive first.

        An entry without a thread is the usage outside of threads and of forgotten threads.
        """
        components = await self._connection.open()
        return await components.store.ledger.by_thread(self.id, since=since, limit=limit)

    async def config(self) -> Config:
        """Return the configuration of the `Memory`, completed with the settings that are stored with this resource."""
        return await (await self._connection.open()).config_for(self.id)

    async def journal(
        self,
        *,
        thread: str | None = None,
        after: int | None = None,
        before: int | None = None,
        kinds: Collection[str] | str = (),
        limit: int = 1_000,
    ) -> tuple[StoredEvent, ...]:
        """Return stored events of all processes, oldest first: the events after number `after`, or by default the newest.

        The newest may be limited to those before number `before`, and to some `kinds`, such as "Decided".
        """
        journal = (await self._connection.open()).store.journal
        if after is None:
            named = (kinds,) if isinstance(kinds, str) else tuple(kinds)
            return await journal.newest(self.id, thread=thread, before=before, kinds=named, limit=limit)
        if before is not None or kinds:
            raise InputError("`after` cannot be combined with `before` or `kinds`.", then="Pass only one of them.")
        return await journal.events(self.id, thread=thread, after=after, limit=limit)

    async def runs(self, *, limit: int = 100) -> tuple[Run, ...]:
        """Return the runs of the observer and the reflector over all threads, the newest first. See `Thread.runs`."""
        return await (await self._connection.open()).store.runs.list(self.id, limit=limit)

    async def revision(self) -> tuple[int, ...]:
        """Return numbers that differ after a change of messages, log, tasks, working memory or events. Items do not count."""
        return await (await self._connection.open()).store.journal.pulse(self.id)

    async def message(self, id: str, *, thread: str | None = None) -> tuple[Message, ...]:  # noqa: A002
        """Return the rows of one message: the message, then its continuations. Raises MessageNotFound.

        Without `thread`, the message is searched in all threads of the resource.
        """
        return await (await self._connection.open()).store.messages.get(self.id, id, thread=thread)

    async def pack(
        self, *, thread: str | None = None, session: str | None = None, tokens: int = 4_000, zone: str | None = None
    ) -> Pack:
        """Return the most relevant memory as one text of at most `tokens` tokens, for an agent that begins to work.

        `thread` is the conversation that the agent continues. It comes first, then the latest active threads. Tasks that
        `session` (by default the thread) has claimed are shown as active. The text is empty if nothing is stored.
        """
        return await context_pack(self._memory, self.id, thread, session=session, tokens=tokens, zone=zone)

    async def task_lines(
        self, *, thread: str | None = None, session: str | None = None, tokens: int = 600
    ) -> tuple[str, ...]:
        """Return the tasks in progress and the ready tasks as lines of at most `tokens` tokens.

        The tasks that `session` (by default the thread) has claimed come first.
        """
        components, now = await self._connection.open(), self._connection.clock.now()
        tasks = await components.store.task_ready.overview(self.id, now=now, thread=thread, session=session)
        return edge_lines(tasks, now=now, budget=tokens, count=self._connection.counter.count)


class Memory:
    """A long memory for the threads of any number of resources.

    It opens its database at the first use. Close it with `aclose()`, or use it as `async with Memory(…) as memory`.
    """

    config: Config
    clock: Clock
    counter: TokenCounter
    model: ModelSpec | None

    def __init__(
        self,
        address: "str | os.PathLike[str] | Route" = "memolog.db",
        *,
        model: ModelSpec | None = None,
        embedder: EmbedderSpec | None = None,
        config: Config | None = None,
        clock: Clock | None = None,
        counter: TokenCounter | None = None,
        instructions: str | None = None,
        extractors: Sequence[Extractor] = (),
        chance: Callable[[int], int] = system_chance,
    ) -> None:
        """Set the address of the database and the model that observes. All arguments have defaults.

        A model is `"provider:model"`, an address, an object with a method `complete`, or a function. Without a model the
        embedded observer is used, which needs no network and costs nothing. With an `embedder`, search finds texts by meaning
        too: `"openai:text-embedding-3-small"`, an address, `"fastembed:NAME"`, or a function from texts to vectors. If the
        resources are distributed over several databases, `address` is a function that returns the address of the database for
        the id of a resource.
        """
        if config is not None and not isinstance(config, Config):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigError(
                f"`config` must be a Config, got {type(config).__name__}.",
                then="Use Config(…) or Config.from_dict(…).",
            )
        if iscoroutinefunction(address):
            raise ConfigError("The function for addresses must be a plain function, got an async function.")
        if not isinstance(address, str | os.PathLike) and not callable(address):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigError(
                f"`address` must be a file name, an address or a function, got {type(address).__name__}.",
                then='Pass "memolog.db", ":memory:" or postgresql://user@host/database.',
            )
        self.config = config or Config()
        self.model, self.clock = model, clock or SystemClock()
        self.counter = counter or HeuristicCounter()
        options = {
            "model": model,
            "embedder": embedder,
            "config": self.config,
            "clock": self.clock,
            "counter": self.counter,
            "instructions": instructions,
            "extractors": extractors,
            "chance": chance,
        }
        self._databases: _Databases | None = None
        if isinstance(address, str | os.PathLike):
            self._own = Connection(os.fspath(address), **cast("Any", options))
        else:
            self._databases = _Databases(address, Bus(self.clock), lambda found: Memory(found, **cast("Any", options)))

    def __repr__(self) -> str:
        return repr(self._databases) if self._databases else f"Memory({safe_url(self.address)!r})"

    # ------------------------------------------------------------ opening and closing

    @property
    def _connection(self) -> Connection:
        if self._databases is not None:
            raise InputError(
                "This memory has several databases, and the call is about one of them.",
                then="Name a resource, or open the database itself with Memory(address).",
            )
        return self._own

    def _of(self, resource: str | None) -> "Memory":
        """Return the memory of the database in which a resource is stored, or this memory if there is no resource."""
        return self if self._databases is None or resource is None else self._databases.of(resource)

    @property
    def address(self) -> str:
        """Return the address of the database. It may be changed until the database is opened."""
        return self._connection.address

    @address.setter
    def address(self, address: str) -> None:
        self._connection.address = address

    async def open(self) -> Components:
        """Open the database if it is not open, and return the components of the memory."""
        return await self._connection.open()

    async def aclose(self) -> None:
        """Wait for background work, save unsaved messages, then close the database. A second call does nothing.

        Runs that are not finished after `close_timeout` seconds are left for the next process, even if their model hangs. Saving
        is retried for at most `busy_timeout` seconds. Raises NotSaved if messages are lost.
        """
        await (self._own.close() if self._databases is None else self._databases.close())

    async def settled(self) -> None:
        """Wait until all background work of this process has finished.

        Tries once to save unsaved messages. Does not wait for an unavailable database, nor for the search index.
        """
        await (self._own.settled() if self._databases is None else self._databases.settled())

    async def __aenter__(self) -> Self:
        # Databases of a route are opened when their first resource is used.
        if self._databases is None:
            await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self.aclose()
        except NotSaved:
            # An event has reported the loss. Raise the error that ended the block, if there is one.
            if error is None:
                raise

    # ------------------------------------------------------------ handles

    def resource(self, id: str) -> Resource:  # noqa: A002 - as in every other value
        """Return the memory of one user, project or team. Reads and writes nothing."""
        memory = self._of(id)
        return Resource(self, self._own, id) if memory is self else memory.resource(id)

    def thread(self, id: str, *, resource: str) -> Thread:  # noqa: A002
        """Return one conversation of a resource. Reads and writes nothing."""
        memory = self._of(resource)
        return Thread(self, self._own, id, resource) if memory is self else memory.thread(id, resource=resource)

    async def resources(self) -> tuple[str, ...]:
        """Return the ids of all resources with stored data."""
        return await (await self.open()).store.resources()

    # ------------------------------------------------------------ events

    def subscribe(self, listener: Callable[[Event], None]) -> Callable[[], None]:
        """Call `listener` with every event from now on. Return a function that ends the subscription."""
        return self._bus.subscribe(listener)

    def events(self) -> AsyncGenerator[Event]:
        """Return an iterator over the events from now on. It ends when the memory is closed."""
        return self._bus.stream()

    @property
    def _bus(self) -> Bus:
        return self._own.bus if self._databases is None else self._databases.bus

    # ------------------------------------------------------------ background work of the whole database

    async def due(self) -> tuple[DueLog, ...]:
        """Return the logs of all resources that have background work, the longest waiting first. `memolog worker` calls it."""
        components = await self._connection.open_to_write()
        scope = self.config.scope if "scope" in self.config.named else None
        found: dict[str, DueLog] = {}
        page, now = None, self.clock.now()
        while page is None or page.next is not None:
            page = await components.store.due.page(scope=scope, now=now, after=None if page is None else page.next)
            done: list[tuple[WaitingLog, WaitingThread]] = []
            for log in page.logs:
                due, is_done = await self._due(components, log, now)
                if due is not None:
                    found[due.job.key] = due
                done += [(log, thread) for thread in log.threads if is_done(thread)]
            if done:
                await components.store.due.mark(done)
        return tuple(found.values())

    async def _due(
        self, components: Components, log: WaitingLog, now: datetime
    ) -> tuple[DueLog | None, Callable[[WaitingThread], bool]]:
        """Return the work of a log, and a function that tells whether a thread has nothing left before its next message."""
        thread = log.thread
        config, _ = overridden(await components.config_for(log.resource), thread.overrides)
        if config.observe:
            factor = await components.factor(log.resource, thread.last_model)
            why = await components.store.due.why(log, config, factor, now)
        else:
            why = Why("compact", "messages may be compacted") if config.compaction.automatic else None
        job = LookJob(resource=log.resource, thread=thread.id, is_shared=log.is_shared, rest=bool(why and why.rest))
        due = DueLog(job=job, reason=why.reason, state=(why.reason, *log.state)) if why else None
        if not config.observe:
            return due, lambda _: True
        # After failures the log may have work again when its pause is over.
        is_open = due is not None or log.runs > 0 or log.failures > 0
        return due, lambda one: not is_open and (not one.waiting or config.sweep_after is None)

    async def measures(self) -> Measures:
        """Return the work that waits in the database, its runs and its costs. `/metrics` of the servers calls it.

        Writes nothing. Looks at the 500 threads whose new messages wait the longest.
        """
        components, now = await self.open(), self.clock.now()
        scope = self.config.scope if "scope" in self.config.named else None
        stored = await components.store.measuring.read(scope=scope, now=now)
        backlog, waiting = dict.fromkeys(WORK_KINDS, 0), list[datetime]()
        # Most resources have the same settings, and completing a configuration takes time.
        configs: dict[str, Config] = {}
        for log in stored.logs:
            thread, resource = log.thread, log.resource
            settings = stored.settings.get(resource, {})
            if (key := dumps(settings)) not in configs:
                configs[key] = self.config.completed(settings)
            config, _ = overridden(configs[key], thread.overrides)
            model = canonical_model(thread.last_model) if thread.last_model else ""
            if config.observe:
                why = await components.store.due.why(log, config, stored.factors.get((resource, model), 1.0), now)
                kind = why.kind if why else None
                waiting += [one.oldest for one in log.threads if one.oldest is not None]
            else:
                kind = "compact" if config.compaction.automatic else None
            if kind is not None:
                backlog[kind] += 1
        return Measures(
            at=now,
            backlog=backlog,
            oldest_at=min(waiting, default=None),
            runs=stored.runs,
            unindexed=stored.unindexed,
            spent=stored.spent,
            repeated=dict(components.store.engine.repeated),
        )

    async def overview(
        self, *, resource: str | None = None, limit: int = 25, after: str | None = None
    ) -> Page[ThreadSummary]:
        """Return a page of the threads of all resources, or of one, the latest active first, with their sizes and their health.

        For the next page, pass its `next` as `after`. `Thread.status` returns more about one thread.
        """
        components = await self.open()

        def config_for(stored: JsonObject, thread: ThreadInfo) -> Config:
            return overridden(self.config.completed(stored), thread.overrides)[0]

        return await components.store.survey.threads(resource, limit, after, config_for)

    async def activity(self) -> Activity:
        """Return the work under way in the whole database: threads that are not observed, runs, and rows to index."""
        return await (await self.open()).store.survey.activity(self.clock.now())

    async def latest_resources(self, *, limit: int = 50) -> tuple[ResourceSummary, ...]:
        """Return the resources with threads, the latest active first, with their numbers of threads and messages."""
        return await (await self.open()).store.survey.resources(limit)

    async def usage_by_day(
        self, *, since: datetime, resource: str | None = None, thread: str | None = None
    ) -> tuple[UsageDay, ...]:
        """Return the tokens and US dollars spent on each day in UTC, one entry for each kind of work.

        Without `resource`, of all resources that have threads. `thread` is a thread of the resource.
        """
        return await (await self.open()).store.survey.usage_by_day(resource, thread, since)

    async def revision(self) -> tuple[int, ...]:
        """Return numbers that differ after a change in the database, as `Resource.revision`. Resources are counted together."""
        return await (await self.open()).store.survey.pulse()

    async def check_ready(self) -> None:
        """Raise an error if the database cannot be read, or if its schema is not the one of this release."""
        await (await self.open()).store.measuring.check_schema()

    async def held(self) -> HeldRuns | None:
        """Return the runs of all resources that a process has claimed, or None. `memolog worker` calls it."""
        components = await self._connection.open()
        return await components.store.due.held(self.clock.now())

    def start_no_more(self) -> None:
        """Start no more background runs in this process. Runs under way go on. `memolog worker` calls it before it ends."""
        if (components := self._connection.opened) is not None:
            components.runner.is_ending = True

    async def index(self) -> int:
        """Index everything that waits to be indexed, of all resources, and return how many resources that were.

        With an embedder, make the vectors of all resources too. If the embedder fails, they are made later.
        """
        components = await self._connection.open_to_write()
        store, redact = components.store, for_the_index(self.config)
        count, resource = 0, await store.engine.read(lambda: reading_next_waiting(""))
        while resource is not None:
            await store.indexing.catch_up(resource, redact)
            count, resource = count + 1, await store.engine.read(partial(reading_next_waiting, resource))
        if store.semantic is not None:
            await store.semantic.make_some()
        return count

    # ------------------------------------------------------------ the whole database

    async def export(self, target: Target, *, resource: str | None = None, overwrite: bool = False) -> ExportReport:
        """Write the whole database, or one resource, as JSON lines to a path or an open text file.

        The lines are the same for SQLite and PostgreSQL. `import_from` restores them exactly, without a model. Only the user of
        this process can read the file. `overwrite` replaces an existing file when the new file is complete.
        """
        if (memory := self._of(resource)) is not self:
            return await memory.export(target, resource=resource, overwrite=overwrite)
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
        """Import an export of Memolog, or the data of another system. Repeating an import changes nothing.

        The format is detected if `format` is not passed. `resource` is used for conversations that name no
        resource, and as the new name if an export has one resource. `dry_run` only reports. A repeated call continues an
        interrupted import. Data that was forgotten in this database is skipped, unless `revive` is set.
        """
        options = {"resource": resource, "dry_run": dry_run, "progress": progress, "revive": revive}
        if (memory := self._of(resource)) is not self:
            return await memory.import_from(source, format=format, **cast("Any", options))
        return await import_from(self._connection, source, format_=format, **cast("Any", options))

    async def backup(self, target: "str | os.PathLike[str]", *, overwrite: bool = False) -> int:
        """Copy a SQLite database into a new file, and return the size of the copy in bytes. The database may be in use.

        `overwrite` replaces an existing file when the copy is complete. For PostgreSQL use the tools of the server, or `export`.
        """
        return await backup(self._connection, target, overwrite=overwrite)

    async def doctor(self, resource: str | None = None, *, repair: bool = False) -> Report:
        """Check the stored rows of one resource or of the whole database.

        `repair` corrects the findings that can be corrected without a loss of messages, and rebuilds the search index. A SQLite
        file is copied first. Other findings are only explained.
        """
        if (memory := self._of(resource)) is not self:
            return await memory.doctor(resource, repair=repair)
        components = await (self._connection.open_to_write() if repair else self.open())
        return await examine(components, resource, self.config, self.counter, repair=repair)


class _Databases:
    """The databases of a memory whose resources are distributed. Each database has a `Memory` of its own."""

    def __init__(self, route: Route, bus: Bus, make: Callable[[str], Memory]) -> None:
        self._route, self.bus, self._make = route, bus, make
        self._memories: dict[str, Memory] = {}
        self._is_closed = False

    def __repr__(self) -> str:
        return f"Memory({getattr(self._route, '__qualname__', type(self._route).__name__)})"

    def of(self, resource: str) -> Memory:
        """Return the memory of the database in which a resource is stored."""
        if self._is_closed:
            raise StoreClosed
        found = self._route(check_id("resource", resource))
        address = os.fspath(found) if isinstance(found, os.PathLike) else found
        if not isinstance(address, str) or not address:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigError(
                f"The function for addresses returned {address!r} for the resource {resource}.",
                then='Return a text such as "memolog.db" or postgresql://user@host/database.',
            )
        if address not in self._memories:
            self._memories[address] = memory = self._make(address)
            memory.subscribe(self.bus.forward)
        return self._memories[address]

    async def settled(self) -> None:
        """Wait until the background work of all databases has finished."""
        await asyncio.gather(*(memory.settled() for memory in self._memories.values()))

    async def close(self) -> None:
        """Close all databases. Raises NotSaved with the messages of all databases that are lost."""
        self._is_closed = True
        ends = await asyncio.gather(*(memory.aclose() for memory in self._memories.values()), return_exceptions=True)
        self.bus.close()
        problems = [end for end in ends if end is not None]
        lost = [end for end in problems if isinstance(end, NotSaved)]
        if len(lost) > 1 and len(lost) == len(problems):
            counts = {key: count for one in lost for key, count in one.counts.items()}
            raise NotSaved(counts, f"{len(lost)} databases could not be written to")
        for problem in problems:
            raise problem


async def _rest(snapshot: Snapshot, clock: Clock, patience: timedelta) -> timedelta | None:
    """Wait until a failed run may be retried, and return how long that took.

    Return None if no run has failed, if the retry is due later than `patience` allows, or if the clock stands still.
    """
    # After a failed reflection no observation may start for a while either.
    failed = [run.retry_at for run in snapshot.runs if run.status == "failed" and run.retry_at]
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
            return None
    return last - start


def _ends(snapshot: Snapshot) -> Mapping[str, float]:
    """Return for each thread the number of the last message that the log shall cover."""
    # If other threads have more messages than were read, all messages of all threads shall be covered.
    is_cut = sum(len(other.weights) for other in snapshot.others) >= OTHER_ROWS
    ends = {other.thread: inf if is_cut else other.weights[-1].seq for other in snapshot.others}
    return defaultdict(lambda: inf if is_cut else 0, ends | {snapshot.thread.id: snapshot.thread.last_seq})
