"""From a snapshot to a context, and from a context's record back to it.

Knows what a record must hold so that the context can be built again: numbers and ids, no copies of what was said.
"""

from collections.abc import Container, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from memolog.config import Config
from memolog.context import Context, GroupView, OtherThread, View, build, is_compacted, working_memory_text
from memolog.context.passages import Passage, passage_texts
from memolog.domain.codec import JsonObject
from memolog.domain.errors import NotFound
from memolog.domain.message import FilePart, Message, NewMessage, TextPart
from memolog.domain.observation import Span
from memolog.domain.thread import Hints
from memolog.runtime.injecting import read_passages
from memolog.store import Store
from memolog.store.logs import OtherTail
from memolog.store.snapshot import GroupRow, Snapshot
from memolog.store.working_memory import Facts
from memolog.tasks.worth import edge_lines
from memolog.tokens import TokenCounter, count_message, cut_middle

__all__ = ["Contexts", "Made", "Shown", "as_message"]

# However small a tail may be, a request of this size is repeated whole.
_REPEATED_TOKENS = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """What a turn brings to its context."""

    snapshot: Snapshot | None
    config: Config
    now: datetime
    ephemeral: tuple[NewMessage, ...] = ()
    zone: str | None = None
    task_lines: tuple[str, ...] = ()
    passages: tuple[Passage, ...] = ()
    """What was found among earlier messages for the newest one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """A context, the record of what it holds, how much the log does not cover, and how much of that no span holds yet."""

    context: Context
    record: JsonObject
    uncovered: int = 0
    unspanned: int = 0


def as_message(message: NewMessage, seq: int, now: datetime, counter: TokenCounter) -> Message:
    """Return what is not stored yet as it will look to a context."""
    return Message(
        id=message.id or "",
        resource="",
        thread="",
        seq=seq,
        role=message.role,
        parts=message.parts,
        created_at=message.created_at or now,
        tokens=count_message(message, counter),
        speaker=message.speaker,
    )


class Contexts:
    """Builds contexts and builds them again."""

    def __init__(self, store: Store, counter: TokenCounter, instructions: str | None = None) -> None:
        self._store, self._counter, self._instructions = store, counter, instructions
        self._last_views: tuple[Sequence[GroupRow], tuple[GroupView, ...]] = ((), ())

    async def build(self, shown: Shown) -> Made:
        """Return the context of a request and its record."""
        snapshot = shown.snapshot
        if snapshot is None:
            return self.without_store(shown, (), ())
        config = shown.config
        tail = tuple(message for message in snapshot.tail if message.state == "live")
        groups, cursor = (snapshot.groups, snapshot.cursor) if config.observe else ((), 0)
        if not config.observe:
            tail = tail[-config.last_messages :]
        others: tuple[OtherTail, ...] = ()
        if config.observe and snapshot.others:
            others = await self._store.logs.others(snapshot.resource, snapshot.log.pk, snapshot.thread.pk)
        repeated = snapshot.repeated if config.observe else ()
        shown = replace(shown, task_lines=await self._task_lines(shown, snapshot))
        view = self._view(
            shown, snapshot, groups, cursor, tail, repeated, others, snapshot.thread.hints, snapshot.facts
        )
        context = build(view)
        record = _record(shown, snapshot, view, context, others)
        uncovered, unspanned = _uncovered(snapshot)
        return Made(context=context, record=record, uncovered=uncovered, unspanned=unspanned)

    def _view(
        self,
        shown: Shown,
        snapshot: Snapshot,
        groups: Sequence[GroupRow],
        cursor: int,
        tail: tuple[Message, ...],
        repeated: tuple[Message, ...],
        others: tuple[OtherTail, ...],
        hints: Hints,
        facts: Facts,
    ) -> View:
        return View(
            scope=snapshot.scope,
            thread=snapshot.thread.id,
            now=shown.now,
            counter=self._counter,
            zone=shown.zone,
            groups=self._views_of(groups),
            cursor=cursor,
            alias=f"t{snapshot.alias}" if snapshot.scope == "resource" else None,
            tail=tail,
            repeated=tuple(self._shortened(message, shown.config.threshold) for message in repeated),
            hints=hints,
            others=tuple(
                OtherThread(alias=f"t{o.alias}" if o.alias else o.thread, title=o.title, messages=o.messages)
                for o in others
            ),
            task_lines=shown.task_lines,
            working_memory=working_memory_text(facts.before),
            working_memory_now=working_memory_text(facts.now),
            assume_done=shown.config.assume_done,
            ephemeral=shown.ephemeral,
            recalled=passage_texts(
                shown.passages,
                snapshot.thread.id,
                budget=shown.config.recall.tokens,
                zone=shown.zone,
                counter=self._counter,
            ),
            instructions=self._instructions,
            limit=shown.config.context_tokens,
        )

    async def _task_lines(self, shown: Shown, snapshot: Snapshot) -> tuple[str, ...]:
        """Return what the edge tells of the tasks: the active one, and the most valuable of those that are ready."""
        if not snapshot.thread.has_tasks or shown.config.task_tokens <= 0:
            return ()
        tasks = await self._store.task_ready.edge(snapshot.resource, snapshot.thread.id, now=shown.now)
        return edge_lines(tasks, now=shown.now, budget=shown.config.task_tokens, count=self._counter.count)

    def _views_of(self, groups: Sequence[GroupRow]) -> tuple[GroupView, ...]:
        # From one request to the next the log is mostly the same, and so is the very value that was read.
        last, views = self._last_views
        if groups is not last:
            views = tuple(
                GroupView(handle=g.handle, kind=g.kind, text=g.text, tokens=g.tokens)  # pyright: ignore[reportArgumentType]
                for g in groups
            )
            self._last_views = groups, views
        return views

    def _shortened(self, message: Message, most: int) -> Message:
        """Return what the model goes on from; a request that outgrows a whole tail is cut in its middle, always alike."""
        most = max(most, _REPEATED_TOKENS)
        if message.tokens <= most:
            return message
        text = cut_middle(message.text, 4 * most, mark="\n[… cut: the log covers the whole of it …]\n")
        others = tuple(part for part in message.parts if isinstance(part, FilePart))
        return replace(message, parts=(TextPart(text=text), *others), tokens=self._counter.count(text))

    def without_store(self, shown: Shown, since: Sequence[Message], unsaved: Sequence[NewMessage]) -> Made:
        """Return a context of what is known without the database: what was read and saved last, and what is not yet."""
        snapshot = shown.snapshot
        read = snapshot.thread.last_seq if snapshot else 0
        known = tuple(m for m in snapshot.tail if m.state == "live") if snapshot else ()
        known += tuple(m for m in since if m.seq > read)
        start = max((m.seq for m in known), default=read)
        fresh = tuple(as_message(m, start + i, shown.now, self._counter) for i, m in enumerate(unsaved, start=1))
        view = View(
            scope=snapshot.scope if snapshot else "thread",
            thread=snapshot.thread.id if snapshot else "",
            now=shown.now,
            counter=self._counter,
            zone=shown.zone,
            groups=self._views_of(snapshot.groups if snapshot else ()),
            cursor=snapshot.cursor if snapshot else 0,
            alias=f"t{snapshot.alias}" if snapshot and snapshot.scope == "resource" else None,
            tail=known + fresh,
            repeated=tuple(self._shortened(message, shown.config.threshold) for message in snapshot.repeated)
            if snapshot
            else (),
            hints=snapshot.thread.hints if snapshot else Hints(),
            working_memory=working_memory_text(snapshot.facts.before) if snapshot else None,
            working_memory_now=working_memory_text(snapshot.facts.now) if snapshot else None,
            ephemeral=shown.ephemeral,
            instructions=self._instructions,
            limit=shown.config.context_tokens,
        )
        return Made(context=build(view), record={})

    def including(
        self,
        snapshot: Snapshot,
        unsaved: Sequence[NewMessage],
        shown: Shown,
        *,
        withdrawn: Container[str] = (),
    ) -> Snapshot:
        """Return a snapshot as it would be if these messages had been saved, and those of these ids taken back."""
        last, stored = snapshot.thread.last_seq, {message.id for message in snapshot.tail}
        new = [message for message in unsaved if message.id not in stored]
        fresh = tuple(as_message(m, last + i, shown.now, self._counter) for i, m in enumerate(new, start=1))
        return replace(
            snapshot,
            tail=tuple(m for m in snapshot.tail if m.id not in withdrawn) + fresh,
            repeated=tuple(m for m in snapshot.repeated if m.id not in withdrawn),
        )

    # ------------------------------------------------------------ again

    async def again(self, resource: str, thread: str, number: int, config: Config) -> Context:
        """Build the context of that number again, as the model saw it."""
        stored = await self._store.journal.context(resource, thread, number)
        if stored is None:
            raise NotFound(
                f"Thread {thread} has no context {number}.",
                then="They are counted from 1, one for each request of the thread.",
            )
        record = stored.record
        snapshot = await self._store.logs.snapshot(resource, thread, record["scope"], create=False, newest=1)
        groups = await self._store.logs.groups_at(snapshot.log.pk, record["generation"], entries=record["entries"])
        tail = await self._span(resource, thread, record["first"], record["last"])
        tail = await self._as_it_was(resource, thread, tail, record)
        repeated = [m for seq in record["repeated"] for m in await self._span(resource, thread, seq, seq)]
        others = [
            OtherTail(
                thread=other["thread"],
                alias=other["alias"],
                title=other["title"],
                messages=await self._span(resource, other["thread"], other["first"], other["last"]),
            )
            for other in record["others"]
        ]
        hints = Hints()
        if record["hinted"]:
            hints = await self._store.logs.hints_of(snapshot.log.pk, snapshot.thread.pk, record["hinted"])
        facts = await self._facts(resource, thread, record.get("working_memory", {}))
        shown = Shown(
            snapshot=snapshot,
            config=config.with_overrides(
                {"context_tokens": record["limit"], "recall.tokens": record.get("recall_tokens", config.recall.tokens)}
            ),
            now=datetime.fromisoformat(record["now"]),
            zone=record["zone"],
            task_lines=tuple(record.get("tasks", ())),
            passages=await read_passages(self._store, resource, record.get("recalled", ())),
        )
        view = self._view(shown, snapshot, groups, record["cursor"], tail, tuple(repeated), tuple(others), hints, facts)
        return build(view)

    async def _facts(self, resource: str, thread: str, versions: JsonObject) -> Facts:
        """Return the working memory of those versions."""
        texts: tuple[dict[str, str], dict[str, str]] = ({}, {})
        for scope, numbers in versions.items():
            for found, number in zip(texts, numbers, strict=True):
                if number:
                    owner = thread if scope == "thread" else None
                    found[scope] = (await self._store.working_memory.version(resource, number, thread=owner)).text
        return Facts(before=texts[0], now=texts[1])

    async def _as_it_was(
        self, resource: str, thread: str, tail: tuple[Message, ...], record: JsonObject
    ) -> tuple[Message, ...]:
        """Return messages compacted or whole, as they were when the context was built."""
        summed = set(record.get("compacted", ()))
        if all(is_compacted(message) == (message.seq in summed) for message in tail):
            return tail
        # The newest batch over a message that was made by then is the one that was shown.
        at, summaries = datetime.fromisoformat(record["now"]), dict[int, str]()
        for made in await self._store.compactions.list(resource, thread):
            if made.created_at <= at:
                summaries |= dict.fromkeys(range(made.span.first, made.span.last + 1), made.summary)
        return tuple(
            replace(message, level=1, injection=summaries.get(message.seq, message.injection))
            if message.seq in summed
            else replace(message, level=0, injection=None)
            for message in tail
        )

    async def _span(self, resource: str, thread: str, first: int, last: int) -> tuple[Message, ...]:
        if not 1 <= first <= last:
            return ()
        rows = await self._store.messages.span(resource, thread, Span(first=first, last=last))
        return tuple(message for message in rows if message.state == "live")


def _record(
    shown: Shown, snapshot: Snapshot, view: View, context: Context, others: Sequence[OtherTail]
) -> dict[str, object]:
    return {
        "scope": snapshot.scope,
        "generation": snapshot.log.generation,
        "entries": len(view.groups),
        "cursor": view.cursor,
        "first": view.tail[0].seq if view.tail else 0,
        "last": view.tail[-1].seq if view.tail else 0,
        "compacted": [message.seq for message in view.tail if message.level and is_compacted(message)],
        "repeated": [message.seq for message in view.repeated],
        "hinted": snapshot.thread.hints.last_seq,
        "others": [
            {
                "thread": other.thread,
                "alias": other.alias,
                "title": other.title,
                "first": other.messages[0].seq if other.messages else 0,
                "last": other.messages[-1].seq if other.messages else 0,
            }
            for other in others
        ],
        "working_memory": {scope: list(numbers) for scope, numbers in snapshot.facts.versions.items()},
        "now": shown.now.isoformat(),
        "zone": shown.zone,
        "limit": shown.config.context_tokens,
        "recall_tokens": shown.config.recall.tokens,
        "ephemeral": len(shown.ephemeral),
        "recalled": [[p.messages[0].thread, p.hit, *(m.seq for m in p.messages)] for p in shown.passages],
        "tokens": [context.tokens.prefix, context.tokens.tail, context.tokens.edge],
        "trimmed": context.trimmed,
        # The one text that is copied: tasks change and keep no older versions of themselves. It is short.
        **({"tasks": list(shown.task_lines)} if shown.task_lines else {}),
    }


def _uncovered(snapshot: Snapshot) -> tuple[int, int]:
    """Return how much the log does not cover, and how much of that neither a buffered group nor a run holds."""
    ends: dict[str, int] = {}
    for holder in (*snapshot.buffered, *snapshot.runs):
        if holder.thread is not None and holder.span is not None:
            ends[holder.thread] = max(holder.span.last, ends.get(holder.thread, 0))
    own = ends.get(snapshot.thread.id, 0)
    live = [message for message in snapshot.tail if message.state == "live"]
    others = [row for row in snapshot.others if row.state == "live"]
    uncovered = sum(message.tokens for message in live) + sum(row.tokens for row in others)
    free = sum(message.tokens for message in live if message.seq > own)
    return uncovered, free + sum(row.tokens for row in others if row.seq > ends.get(row.thread, 0))
