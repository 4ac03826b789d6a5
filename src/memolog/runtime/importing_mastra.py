"""Imports from Mastra: threads, messages, working memory, and its observations with their generations.

Knows how its records become a log of ours: the first generation's text is what was observed, each later one is a reflection
over what was there before. Knows neither its tables nor its message formats.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from memolog.context.render import render_group
from memolog.domain.codec import dumps, pack
from memolog.domain.errors import MemologError, StoreCorrupt
from memolog.domain.message import Message
from memolog.domain.moments import to_micros
from memolog.domain.observation import Observation
from memolog.domain.transfer import ImportReport
from memolog.prompt import parse_observations
from memolog.runtime.importing_elsewhere import Tally, save_conversation, save_document
from memolog.runtime.kit import Kit
from memolog.store import Store
from memolog.store.mastra import MastraTables, open_mastra
from memolog.store.transfer_lines import Values
from memolog.store.transfer_tables import BY_KIND, Table
from memolog.tokens import TokenCounter
from memolog.transfer import Conversation
from memolog.transfer.mastra import at_of, metadata_of, read_messages, sections
from memolog.transfer.values import stable_id

__all__ = ["import_mastra"]

_WHO = "mastra"
Record = Mapping[str, Any]


async def import_mastra(kit: Kit, address: str, resource: str | None, tally: Tally) -> ImportReport:
    """Take in all of a Mastra database, or one resource of it."""
    tables = await open_mastra(address)
    try:
        await _threads(kit.store, tables, resource, tally)
        for row in await tables.resources():
            if row["working_memory"] and resource in {None, row["id"]}:
                tally.resources[row["id"]] = None
                await save_document(kit.store, row["id"], None, row["working_memory"], _WHO, tally)
        await _records(kit, tables, resource, tally)
    finally:
        await tables.close()
    return tally.report()


async def _threads(store: Store, tables: MastraTables, resource: str | None, tally: Tally) -> None:
    for row in await tables.threads():
        if resource not in {None, row["resource"]}:
            continue
        metadata = dict(metadata_of(row["metadata"]))
        document = metadata.pop("workingMemory", None)
        read = [(one, read_messages(one)) for one in await tables.messages(row["id"])]
        conversation = Conversation(
            thread=row["id"],
            title=row["title"] or None,
            messages=tuple(made for _, some in read for made in some),
            metadata={"source": "mastra", **metadata},
            created_at=at_of(row["created_at"]) or datetime(1970, 1, 1, tzinfo=UTC),
        )
        for one, some in read:
            if not some:
                tally.skip(f"{row['id']}, message {one['id']}", "it is empty")
        await save_conversation(store, conversation, row["resource"], tally)
        if isinstance(document, str) and document:
            await save_document(store, row["resource"], row["id"], document, _WHO, tally)


# ---------------------------------------------------------------- observations


async def _records(kit: Kit, tables: MastraTables, resource: str | None, tally: Tally) -> None:
    chains: dict[tuple[str, str | None], list[Record]] = defaultdict(list)
    for record in await tables.records():
        if resource in {None, record["resource"]}:
            chains[record["resource"], record["thread"]].append(record)
    for (owner, thread), chain in chains.items():
        for record in chain:
            _tell_buffered(record, tally)
        if tally.dry_run:
            tally.added["generation"] += len(chain)
            continue
        threads = (
            [thread] if thread else sorted({name for r in chain for name, _ in sections(r["observations"]) if name})
        )
        try:
            messages = {name: await kit.store.messages.after(owner, name) for name in threads}
            rows = _Log(owner=owner, thread=thread, counter=kit.core.counter, messages=messages).build(chain)
            arrival = await kit.store.transfers.begin(owner)
            arrived = await kit.store.transfers.put(owner, arrival, rows)
        except StoreCorrupt:
            tally.skip(
                f"observations of {thread or owner}", "there is a log already; what Mastra observed stays out of it"
            )
            continue
        except MemologError as error:
            tally.skip(f"observations of {thread or owner}", f"{error.what} {error.why}".strip())
            continue
        for name in ("added", "same", "kept", "left"):
            getattr(tally, name).update(getattr(arrived, name))


def _tell_buffered(record: Record, tally: Tally) -> None:
    for column, what in (("chunks", "observations"), ("reflection", "a reflection")):
        if record[column]:
            why = f"buffered {what}: not in its log yet, and the messages are still seen as they are"
            tally.skip(f"record {record['id']}", why)


@dataclass(slots=True, kw_only=True)
class _Log:
    """A log of ours in the making, as rows of an export."""

    owner: str
    thread: str | None
    counter: TokenCounter
    messages: Mapping[str, Sequence[Message]]
    rows: list[tuple[Table, Values]] = field(default_factory=list[tuple[Table, Values]])
    ends: dict[str, int] = field(default_factory=dict[str, int])
    active: list[str] = field(default_factory=list[str])
    handles: int = 0

    @property
    def id(self) -> str:
        return stable_id(_WHO, self.owner, self.thread, "log")

    def build(self, chain: Sequence[Record]) -> list[tuple[Table, Values]]:
        """Return the rows of a chain of generations, parents before children."""
        started = _micros(chain[0])
        for number, record in enumerate(chain):
            self._generation(number, record)
        states = set(self.active)
        log = {"thread": self.thread, "version": 1, "generation": len(chain) - 1, "next_handle": self.handles + 1}
        self._add(
            "log", id=self.id, **log, next_alias=len(self.ends) + 1, created_at=started, failures=0, metadata="{}"
        )
        for alias, (name, seq) in enumerate(self.ends.items(), start=1):
            self._add("cursor", log=self.id, thread=name, seq=seq, alias=alias)
        for table, values in self.rows:
            if table.kind == "group":
                values["state"] = "active" if values["id"] in states else "covered"
        order = list(BY_KIND)
        return sorted(self.rows, key=lambda row: order.index(row[0].kind))

    def _generation(self, number: int, record: Record) -> None:
        at = _micros(record)
        told = sections(record["observations"])
        fresh = self._fresh(record)
        before = list(self.active)
        run = None
        if number == 0:
            by_thread = {name or self.thread: text for name, text in told}
            made = [
                self._group(record, f"{name}", "observer", by_thread.get(name, ""), at, {name: span})
                for name, span in fresh.items()
            ]
            loose = [text for name, text in by_thread.items() if name not in fresh and text]
            made += [self._group(record, "rest", "edit", text, at, {}) for text in loose]
        else:
            covered = [self._group(record, f"{name}", "observer", "", at, {name: s}) for name, s in fresh.items()]
            run = stable_id(_WHO, record["id"], "run")
            self._run(run, "reflect", at, inputs={"groups": [*before, *covered], "generation": number - 1})
            spans = {name: (1, end) for name, end in self.ends.items() if end}
            text = "\n".join(body for _, body in told)
            made = [self._group(record, "reflection", "reflection", text, at, spans, run=run)]
        self.active = made
        kind = "start" if number == 0 else "reflection"
        counts = {"tokens_before": 0, "tokens_after": 0, "dropped": "[]"}
        self._add("generation", log=self.id, number=number, of=kind, run=run, created_at=at, **counts)
        for position, group in enumerate(made, start=1):
            place = {"generation": number, "position": position}
            self._add("entry", log=self.id, **place, group=group, added_at=at)

    def _fresh(self, record: Record) -> dict[str, tuple[int, int]]:
        """Return the span that each thread was observed over in this generation."""
        until = at_of(record["observed_at"])
        found: dict[str, tuple[int, int]] = {}
        for name, rows in self.messages.items():
            start = self.ends.setdefault(name, 0)
            seqs = [row.seq for row in rows if until is not None and row.created_at <= until and row.seq > start]
            if seqs:
                self.ends[name] = max(seqs)
                found[name] = (start + 1, max(seqs))
        return found

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
        group = stable_id(_WHO, record["id"], part, kind)
        lines = self._observations(record, group, text)
        is_observer = kind == "observer"
        name, span = next(iter(spans.items())) if is_observer else (None, (None, None))
        if is_observer:
            run = stable_id(_WHO, record["id"], part, "run")
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
        drafts = parse_observations(text, (), base=base, zone=UTC).observations if text.strip() else ()
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
        self._add(
            "observation",
            id=line.id,
            group=line.group,
            ordinal=line.ordinal,
            parent=line.parent,
            priority=line.priority,
            trust="assistant",
            grounded=1,
            state="active",
            tokens=line.tokens,
            said_at=to_micros(line.said_at) if line.said_at else None,
            about=line.about.isoformat() if line.about else None,
            text=pack(line.text),
            verbatim=pack(line.verbatim),
            files=dumps(list(line.files)),
            metadata=dumps(dict(line.metadata)),
        )
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
            owner=_WHO,
            model=_WHO,
            inputs=dumps(dict(inputs or {})),
            **numbers,
            **times,
            **where,
        )

    def _add(self, kind: str, **values: Any) -> None:
        table = BY_KIND[kind]
        self.rows.append((table, dict.fromkeys(table.columns) | values))


def _micros(record: Record) -> int:
    return to_micros(at_of(record["created_at"]) or datetime(1970, 1, 1, tzinfo=UTC))
