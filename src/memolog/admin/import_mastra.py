"""Import a Mastra database: threads, messages, working memory, current tasks, and observations with their generations.

The first generation becomes observed groups. Each later generation becomes a reflection. Buffered chunks become buffered groups.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from memolog.admin.import_conversations import Tally, save_conversation, save_document
from memolog.admin.transfer_store import BY_KIND, Table, Values
from memolog.core.clock import to_micros
from memolog.core.exact_json import dumps, encode, pack
from memolog.core.message import Message, ToolCallPart, ToolResultPart
from memolog.core.observation import Observation
from memolog.core.reports import ImportReport
from memolog.core.thread import Hints
from memolog.db.engine import Engine
from memolog.db.postgres_address import PostgresOptions
from memolog.db.queries import Step, load_queries
from memolog.db.sqlite import SqliteEngine
from memolog.errors import InputError, MemologError, StoreCorrupt
from memolog.log.render import render_group
from memolog.log.runs import observation_values
from memolog.observer.drafts import Parsed
from memolog.observer.reply import parse_observations
from memolog.text.tokens import TokenCounter
from memolog.transfer.conversation import Conversation, stable_id
from memolog.transfer.mastra import (
    LAST,
    Chunk,
    at_of,
    chunks_of,
    hints_in,
    metadata_of,
    read_messages,
    sections,
    source_of,
)

if TYPE_CHECKING:
    from memolog.connection import Components
    from memolog.store import Store

q = load_queries("admin/mastra")
_NEEDED = {"mastra_threads", "mastra_messages"}
_SOURCE = "mastra"
Record = Mapping[str, Any]


async def import_mastra(components: Components, address: str, resource: str | None, tally: Tally) -> ImportReport:
    """Import one resource or all resources of a Mastra database."""
    async with _opened(address) as tables:
        thread_hints = await _threads(components.store, tables, resource, tally)
        for row in await tables.rows("mastra_resources", q.resources()):
            if row["working_memory"] and resource in {None, row["id"]}:
                tally.resources[row["id"]] = None
                await save_document(components.store, row["id"], None, row["working_memory"], _SOURCE, tally)
        await _records(components, tables, resource, tally, thread_hints)
    return tally.report()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tables:
    """The tables of an open Mastra database."""

    engine: Engine
    names: frozenset[str]

    async def rows(self, table: str, step: Step) -> tuple[Mapping[str, Any], ...]:
        """Return the rows of a table, or no rows if this version of Mastra does not have the table."""
        return await self.engine.fetch(step, lambda row: row._asdict(), brief=False) if table in self.names else ()


@asynccontextmanager
async def _opened(address: str) -> AsyncGenerator[_Tables, None]:
    """Open a SQLite file or a PostgreSQL schema. The schema is `public`, unless the address has the parameter `schema`."""
    engine: Engine
    if address.startswith(("postgresql://", "postgres://")):
        # The driver may not be installed.
        from memolog.db.postgres import PostgresEngine  # noqa: PLC0415

        engine, step = PostgresEngine(address, PostgresOptions(schema="public")), q.tables_of_schema()
        await engine.start()
    else:
        engine, step = SqliteEngine(address, read_only=True), q.tables_of_file()
        await engine.start(lambda _: None, lambda _: None)
    try:
        names = frozenset(await engine.fetch(step, lambda row: str(row.name)))
        if not names >= _NEEDED:
            raise InputError(
                "The database has no tables of Mastra.",
                why=f"`mastra_threads` or `mastra_messages` is missing. There are {len(names)} tables named mastra_….",
                then="Pass the database of Mastra. For PostgreSQL, add ?schema=NAME if its schema is not `public`.",
            )
        yield _Tables(engine=engine, names=names)
    finally:
        await engine.close()


async def _threads(store: Store, tables: _Tables, resource: str | None, tally: Tally) -> dict[tuple[str, str], Hints]:
    """Import the conversations. Return current task, suggested response and title by resource and thread."""
    thread_hints: dict[tuple[str, str], Hints] = {}
    for row in await tables.rows("mastra_threads", q.threads()):
        if resource not in {None, row["resource"]}:
            continue
        metadata = dict(metadata_of(row["metadata"]))
        document = metadata.pop("workingMemory", None)
        read = [(one, read_messages(one)) for one in await tables.rows("mastra_messages", q.messages(thread=row["id"]))]
        conversation = Conversation(
            thread=row["id"],
            title=row["title"] or None,
            messages=tuple(made for _, some in read for made in some),
            metadata={"source": "mastra", **metadata},
            created_at=at_of(row["created_at"]) or datetime(1970, 1, 1, tzinfo=UTC),
        )
        for one, some in read:
            if not some:
                tally.skip(
                    f"{row['id']}, message {one['id']}", "it is empty, or contains only markers of the memory of Mastra"
                )
        await save_conversation(store, conversation, row["resource"], tally)
        if (row["resource"], row["id"]) in tally.forgotten:
            continue
        if isinstance(document, str) and document:
            await save_document(store, row["resource"], row["id"], document, _SOURCE, tally)
        thread_hints[row["resource"], row["id"]] = hints_in(metadata)
    return thread_hints


async def _records(
    components: Components,
    tables: _Tables,
    resource: str | None,
    tally: Tally,
    thread_hints: Mapping[tuple[str, str], Hints],
) -> None:
    chains: dict[tuple[str, str | None], list[Record]] = defaultdict(list)
    for record in await tables.rows("mastra_observational_memory", q.records()):
        owner, thread = record["resource"], record["thread"]
        if resource not in {None, owner}:
            continue
        if any(of == owner and thread in {None, name} for of, name in tally.forgotten):
            tally.skip(f"record {record['id']}", "a message that it was made from was forgotten here")
        else:
            chains[owner, thread].append(record)
    hinted = dict(thread_hints)
    for (owner, thread), chain in chains.items():
        if chain[-1]["reflection"]:
            tally.skip(
                f"record {chain[-1]['id']}",
                "a buffered reflection is not imported; the log is reflected again when it is long",
            )
        if tally.dry_run:
            tally.added["generation"] += len(chain)
            continue
        known = {name: one for (of, name), one in thread_hints.items() if of == owner}
        log = await _chain(components, owner, thread, chain, known, tally)
        # `_chain` has set the hints of these threads, or the existing log has newer hints.
        for name in [thread] if thread else known if log is None else log.ends:
            hinted.pop((owner, name), None)
    if tally.dry_run:
        return
    for (owner, name), one in hinted.items():
        rows = await components.store.messages.after(owner, name)
        seqs = [row.seq for row in rows if one.at is None or row.created_at <= one.at]
        await _hint(components.store, owner, name, one, rows, max(seqs, default=0))


async def _chain(
    components: Components,
    owner: str,
    thread: str | None,
    chain: Sequence[Record],
    thread_hints: Mapping[str, Hints],
    tally: Tally,
) -> _Log | None:
    """Import the log of a chain of generations. Return None if the log is refused."""
    named = {name for record in chain for name, _ in sections(record["observations"]) if name}
    # A chunk has message ids but no thread, so all threads must be searched for them.
    threads = [thread] if thread else sorted(set(thread_hints) if chain[-1]["chunks"] else named)
    try:
        log = _Log(
            owner=owner,
            thread=thread,
            counter=components.core.counter,
            messages={name: await components.store.messages.after(owner, name) for name in threads},
            thread_hints=thread_hints,
            observed=frozenset(named),
        )
        rows = log.build(chain)
        arrival = await components.store.transfers.begin(owner)
        arrived = await components.store.transfers.put(owner, arrival, rows)
    except MemologError as error:
        exists = "there is a log already, so the observations of Mastra are not added"
        why = exists if isinstance(error, StoreCorrupt) else f"{error.what} {error.why}".strip()
        tally.skip(f"observations of {thread or owner}", why)
        return None
    tally.count(arrived)
    for where, why in log.left_out:
        tally.skip(where, why)
    for name, end in log.ends.items():
        own = thread_hints.get(name, Hints())
        # Hints in the metadata of a thread are newer than those in the texts of the log.
        one = own if _has_hints(own) else log.hints.get(name)
        await _hint(components.store, owner, name, one, log.messages[name], end)
    return log


async def _hint(
    store: Store, owner: str, thread: str, thread_hints: Hints | None, rows: Sequence[Message], end: int
) -> None:
    """Set the hints of a thread as of message `end`, unless the thread has newer hints."""
    last = next((row for row in reversed(rows) if row.seq <= end), None)
    if thread_hints is not None and last is not None and _has_hints(thread_hints):
        await store.transfers.hint(owner, thread, replace(thread_hints, at=last.created_at, last_seq=last.seq))


def _has_hints(thread_hints: Hints) -> bool:
    return bool(thread_hints.current_task or thread_hints.suggested_response)


@dataclass(slots=True, kw_only=True)
class _Log:
    """Builds a log as rows of an export."""

    owner: str
    thread: str | None
    counter: TokenCounter
    messages: Mapping[str, Sequence[Message]]
    thread_hints: Mapping[str, Hints]
    """Hints from the metadata of each thread."""
    observed: frozenset[str]
    """The threads that have a section in the text of a shared log."""
    text_hints: Hints = field(default_factory=Hints)
    """Hints in the text of the last group."""
    hints: dict[str, Hints] = field(default_factory=dict[str, Hints])
    """The last hints in the texts of the log, by thread."""
    left_out: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    rows: list[tuple[Table, Values]] = field(default_factory=list[tuple[Table, Values]])
    ends: dict[str, int] = field(default_factory=dict[str, int])
    active: list[str] = field(default_factory=list[str])
    handles: int = 0

    @property
    def id(self) -> str:
        return stable_id(_SOURCE, self.owner, self.thread, "log")

    def build(self, chain: Sequence[Record]) -> list[tuple[Table, Values]]:
        """Return the rows of a chain of generations, parents before children."""
        started = _micros(chain[0])
        for number, record in enumerate(chain):
            self._generation(number, record)
        states = set(self.active)
        buffered = set(self._chunks(chain[-1]))
        log = {"thread": self.thread, "version": 1, "generation": len(chain) - 1, "next_handle": self.handles + 1}
        self._add(
            "log", id=self.id, **log, next_alias=len(self.ends) + 1, created_at=started, failures=0, metadata="{}"
        )
        for alias, (name, seq) in enumerate(self.ends.items(), start=1):
            self._add("cursor", log=self.id, thread=name, seq=seq, alias=alias)
        for table, values in self.rows:
            if table.kind == "group":
                is_active, is_buffered = values["id"] in states, values["id"] in buffered
                values["state"] = "buffered" if is_buffered else "active" if is_active else "covered"
        order = list(BY_KIND)
        return sorted(self.rows, key=lambda row: order.index(row[0].kind))

    def _generation(self, number: int, record: Record) -> None:
        at = _micros(record)
        texts = sections(record["observations"])
        fresh = self._fresh(record)
        before = list(self.active)
        run = None
        if number == 0:
            by_thread = {name or self.thread: text for name, text in texts}
            made: list[str] = []
            for name, span in fresh.items():
                made.append(self._group(record, f"{name}", "observer", by_thread.get(name, ""), at, {name: span}))
                self.hints[name] = self.text_hints
            loose = [text for name, text in by_thread.items() if name not in fresh and text]
            made += [self._group(record, "rest", "edit", text, at, {}) for text in loose]
        else:
            covered = [self._group(record, f"{name}", "observer", "", at, {name: s}) for name, s in fresh.items()]
            run = stable_id(_SOURCE, record["id"], "run")
            self._run(run, "reflect", at, inputs={"groups": [*before, *covered], "generation": number - 1})
            spans = {name: (1, end) for name, end in self.ends.items() if end}
            text = "\n".join(body for _, body in texts)
            made = [self._group(record, "reflection", "reflection", text, at, spans, run=run)]
            if self.thread is not None and _has_hints(self.text_hints):
                self.hints[self.thread] = self.text_hints
        self.active = made
        kind = "start" if number == 0 else "reflection"
        counts = {"tokens_before": 0, "tokens_after": 0, "dropped": "[]"}
        self._add("generation", log=self.id, number=number, of=kind, run=run, created_at=at, **counts)
        for position, group in enumerate(made, start=1):
            place = {"generation": number, "position": position}
            self._add("entry", log=self.id, **place, group=group, added_at=at)

    def _fresh(self, record: Record) -> dict[str, tuple[int, int]]:
        """Return, by thread, the span of the messages that were first observed in this generation."""
        until = at_of(record["observed_at"])
        found: dict[str, tuple[int, int]] = {}
        for name, rows in self.messages.items():
            if self.thread is None and name not in self.observed:
                continue
            start = self.ends.setdefault(name, 0)
            own = self.thread_hints[name].at if self.thread is None and name in self.thread_hints else None
            # In a shared log each thread has its own time up to which it was observed.
            last = min(filter(None, (until, own)), default=None)
            seqs = [row.seq for row in rows if last is not None and row.seq > start and _is_observed(row, last)]
            if seqs:
                self.ends[name] = max(seqs)
                found[name] = (start + 1, max(seqs))
        return found

    def _chunks(self, record: Record) -> Iterator[str]:
        """Yield the ids of the buffered groups. Skip chunks that do not continue the log or separate a call from its result."""
        ends, stopped = dict(self.ends), set[str]()
        for chunk in chunks_of(record["chunks"]):
            spans = {name: self._span(chunk, rows, ends.get(name, 0)) for name, rows in self.messages.items()}
            ahead = {name: span for name, span in spans.items() if span != (0, 0)}
            name, span = next(iter(ahead.items()), ("", None))
            if len(ahead) != 1 or span is None or name in stopped:
                # The chunk is observed already, or it follows a skipped chunk.
                stopped.update(ahead)
                if ahead:
                    self.left_out.append((f"buffered chunk {chunk.id}", "its messages are observed again"))
                continue
            ends[name] = span[1]
            self.ends.setdefault(name, 0)
            text = next((body for of, body in sections(chunk.text) if of in {None, name}), chunk.text)
            yield self._group(record, chunk.id, "observer", text, _micros(record), {name: span})
            thread_hints = chunk.hints if _has_hints(chunk.hints) else self.text_hints
            last = next(row for row in self.messages[name] if row.seq == span[1])
            hints = replace(thread_hints, at=last.created_at, last_seq=last.seq)
            # The last group is buffered. Activation renders its text and applies its hints.
            values = next(values for table, values in reversed(self.rows) if table.kind == "group")
            told = dumps(encode(hints)) if _has_hints(thread_hints) else None
            values |= {"activated_at": None, "text": "", "hints": told}

    def _span(self, chunk: Chunk, rows: Sequence[Message], start: int) -> tuple[int, int] | None:
        """Return the span that a chunk covers after message `start`, (0, 0) if it covers none, or None for an invalid span."""
        sources = {
            row.seq: source_of(row.id) for row in rows if not chunk.messages.isdisjoint((row.id, source_of(row.id)[0]))
        }
        # Parts may have been added to the last message after it was buffered, so its end is not covered.
        end = (sources[max(sources)][0], LAST) if sources else None
        seqs = [seq for seq, source in sources.items() if seq > start and source != end]
        if not seqs:
            return 0, 0
        is_whole = seqs == list(range(start + 1, seqs[-1] + 1)) and _is_closed(rows, seqs[-1])
        return (start + 1, seqs[-1]) if is_whole else None

    def _group(
        self,
        record: Record,
        part: str,
        kind: str,
        text: str,
        at: int,
        spans: Mapping[str, tuple[int, int]],
        *,
        run: str | None = None,
    ) -> str:
        self.handles += 1
        group = stable_id(_SOURCE, record["id"], part, kind)
        lines = self._observations(record, group, text)
        is_observer = kind == "observer"
        name, span = next(iter(spans.items())) if is_observer else (None, (None, None))
        if is_observer:
            run = stable_id(_SOURCE, record["id"], part, "run")
            self._run(run, "observe", at, thread=name, span=span)
        aliases = {known: f"t{number}" for number, known in enumerate(self.ends, start=1)}
        alias = aliases.get(name or "") if self.thread is None else None
        handle = f"g{self.handles}"
        shown = render_group(
            handle=handle, observations=lines, previous=None, alias=alias, is_reflection=kind == "reflection"
        )
        said = [to_micros(line.said_at) for line in lines if line.said_at]
        self._add(
            "group",
            id=group,
            log=self.id,
            handle=handle,
            of=kind,
            thread=name,
            first_seq=span[0],
            last_seq=span[1],
            run=run,
            tokens=self.counter.count(shown) if shown else 0,
            observations=len(lines),
            first_at=min(said, default=None),
            last_at=max(said, default=None),
            created_at=at,
            activated_at=at,
            text=pack(shown),
        )
        for line in lines:
            self._line(line, spans)
        return group

    def _observations(self, record: Record, group: str, text: str) -> list[Observation]:
        base = at_of(record["observed_at"]) or at_of(record["created_at"]) or datetime(1970, 1, 1, tzinfo=UTC)
        parsed = parse_observations(text, (), base=base.astimezone(UTC)) if text.strip() else Parsed()
        drafts = parsed.observations
        self.text_hints = Hints(
            current_task=parsed.hints.current_task,
            suggested_response=parsed.hints.suggested_response,
            title=parsed.hints.title,
        )
        return [
            Observation(
                id=stable_id(group, ordinal),
                group=group,
                ordinal=ordinal,
                priority=draft.priority,
                text=draft.text,
                said_at=draft.said_at,
                about=draft.about,
                parent=None if draft.parent is None else draft.parent + 1,
                verbatim=draft.verbatim,
                files=draft.files,
                tokens=self.counter.count(draft.text),
                metadata={"source": "mastra"},
            )
            for ordinal, draft in enumerate(drafts, start=1)
        ]

    def _line(self, line: Observation, spans: Mapping[str, tuple[int, int]]) -> None:
        self._add("observation", group=line.group, state="active", **observation_values(line))
        for name, (first, last) in spans.items():
            self._add("source", observation=line.id, thread=name, first_seq=first, last_seq=last)

    def _run(
        self,
        run: str,
        kind: str,
        at: int,
        *,
        thread: str | None = None,
        span: tuple[int | None, int | None] = (None, None),
        inputs: Mapping[str, Any] | None = None,
    ) -> None:
        numbers = {"fence": 1, "attempt": 1, "input_tokens": 0, "output_tokens": 0, "cost": 0}
        times = dict.fromkeys(("lease_until", "heartbeat_at", "started_at", "finished_at"), at)
        where = {"thread": thread, "first_seq": span[0], "last_seq": span[1]}
        self._add(
            "run",
            id=run,
            log=self.id,
            of=kind,
            status="done",
            owner=_SOURCE,
            model=_SOURCE,
            inputs=dumps(dict(inputs or {})),
            **numbers,
            **times,
            **where,
        )

    def _add(self, kind: str, **values: Any) -> None:
        table = BY_KIND[kind]
        self.rows.append((table, dict.fromkeys(table.columns) | values))


def _is_observed(row: Message, until: datetime) -> bool:
    """Return whether a message was observed at the time `until`. If it has exactly this time, parts added later were not."""
    if row.created_at == until:
        return not source_of(row.id)[1]
    return row.created_at < until


def _is_closed(rows: Sequence[Message], last: int) -> bool:
    """Return whether every tool call up to message `last` is followed there by its result or by a user message."""
    waiting: set[str] = set()
    for row in rows:
        if row.seq > last:
            break
        if row.role == "user":
            waiting.clear()
        waiting |= {part.id for part in row.parts if isinstance(part, ToolCallPart)}
        waiting -= {part.call_id for part in row.parts if isinstance(part, ToolResultPart)}
    return not waiting


def _micros(record: Record) -> int:
    return to_micros(at_of(record["created_at"]) or datetime(1970, 1, 1, tzinfo=UTC))
