"""Build the context of a request from a snapshot, and build it again from its record.

A record holds numbers and ids, no copies of messages.
"""

import logging
from collections.abc import Container, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING

from memolog.context.auto_recall import Passage, passage_texts, read_passages
from memolog.context.build import bare, build
from memolog.context.context import Context, GroupView, OtherThread, View
from memolog.context.edge import PASSED_DAYS
from memolog.context.pairs import closed_cuts, is_compacted
from memolog.context.wording import working_memory_text
from memolog.core.cache import each_once
from memolog.core.config import Config
from memolog.core.deadline import offload
from memolog.core.exact_json import JsonObject
from memolog.core.message import Message, NewMessage, has_many_parts
from memolog.core.observation import Observation, Span
from memolog.core.thread import Hints
from memolog.errors import NotFound
from memolog.log.rows import GroupRow
from memolog.log.snapshot import OtherLimits, OtherTail, OtherTails, Snapshot, goes_on
from memolog.log.snapshot_state import others_for
from memolog.messages.store import additions, grown_by_id
from memolog.tasks.rules import edge_lines
from memolog.text.dates import local, shifted
from memolog.text.message_tokens import count_message
from memolog.text.tokens import TokenCounter
from memolog.working_memory.store import Facts

if TYPE_CHECKING:
    from memolog.store import Store

_log = logging.getLogger("memolog")


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """What a context is built from beside the store."""

    snapshot: Snapshot | None
    config: Config
    now: datetime
    ephemeral: tuple[NewMessage, ...] = ()
    zone: str | None = None
    task_lines: tuple[str, ...] = ()
    plans: tuple[Observation, ...] = ()
    """Plans of the last days without a known result."""
    passages: tuple[Passage, ...] = ()
    """Earlier messages that were found for the newest one."""
    repeated_tokens: int | None = None
    """How much of a covered request is repeated; None: as configured."""
    passed: tuple[int, int] = (0, 0)
    """The number and tokens of ephemeral messages that are not stored."""
    limit: int | None = None
    """The most tokens that the context may have."""
    window: int | None = None
    """The context window of the model, if known: the limit of a larger context."""
    unseen_from: int | None = None
    """The first message of the thread that no model has seen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """A context, its record, the tokens that the log does not cover, and those of them in no span yet."""

    context: Context
    record: JsonObject
    uncovered: int = 0
    unspanned: int = 0


def _as_message(message: NewMessage, seq: int, now: datetime, counter: TokenCounter) -> Message:
    """Return an unsaved message as a context shows it once it is saved."""
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
    """Builds contexts, new ones and recorded ones."""

    def __init__(self, store: "Store", counter: TokenCounter, instructions: str | None = None) -> None:
        self._store, self._counter, self._instructions = store, counter, instructions

    async def build(self, shown: Shown) -> Made:
        """Return the context of a request and its record."""
        snapshot = shown.snapshot
        if snapshot is None:
            return known_context(shown, (), (), self._counter, self._instructions)
        config = shown.config
        tail = tuple(message for message in snapshot.tail if message.state == "live")
        groups, cursor = (snapshot.groups, snapshot.cursor) if config.observe else ((), 0)
        before = snapshot.covered_at
        if not config.observe:
            read, tail = tail, _newest(tail, config.last_messages)
            before = read[-len(tail) - 1].created_at if len(tail) < len(read) else None
        others = snapshot.beside or OtherTails()
        limits = others_for(config, decides=False)
        if snapshot.ends and isinstance(limits, OtherLimits):
            where = snapshot.resource, snapshot.log.pk, snapshot.thread.pk
            others = await self._store.logs.others(*where, snapshot.ends, limits=limits)
        if not config.read_only:
            # A thread without an alias is not shown: its name would change later.
            others = replace(others, tails=tuple(other for other in others.tails if other.alias))
        repeated = snapshot.repeated if config.observe else ()
        plans = await self._plans(shown, snapshot) if config.observe else ()
        shown = replace(shown, task_lines=await self._task_lines(shown, snapshot), plans=plans)
        view = _view(
            shown,
            self._counter,
            self._instructions,
            groups=groups,
            cursor=cursor,
            tail=tail,
            before=before,
            repeated=repeated,
            others=others,
            hints=snapshot.thread.hints,
            facts=snapshot.facts,
        )
        is_long = has_many_parts(tail)
        context = await offload(build, view, when=is_long)
        if shown.window is not None and view.limit is None and context.tokens.total > shown.window:
            view = replace(view, limit=shown.window)
            context = await offload(build, view, when=is_long)
        record = _record(shown, snapshot, view, context, others)
        uncovered, unspanned = _uncovered(snapshot)
        return Made(context=context, record=record, uncovered=uncovered, unspanned=unspanned)

    async def _task_lines(self, shown: Shown, snapshot: Snapshot) -> tuple[str, ...]:
        """Return the task lines of the edge: the active task, and the most valuable ready ones."""
        if not snapshot.thread.has_tasks or shown.config.task_tokens <= 0:
            return ()
        tasks = await self._store.task_ready.edge(snapshot.resource, snapshot.thread.id, now=shown.now)
        return edge_lines(tasks, now=shown.now, budget=shown.config.task_tokens, count=self._counter.count)

    async def _plans(self, shown: Shown, snapshot: Snapshot) -> tuple[Observation, ...]:
        today = local(shown.now, shown.zone).date()
        return await self._store.logs.plans(snapshot, since=shifted(today, -PASSED_DAYS), before=today)

    async def including(
        self,
        snapshot: Snapshot,
        unsaved: Sequence[NewMessage],
        shown: Shown,
        *,
        withdrawn: Container[str] = (),
    ) -> Snapshot:
        """Return a snapshot as if these messages were saved, and those with `withdrawn` ids were not."""
        last, thread = snapshot.thread.last_seq, snapshot.thread.id
        new = await self._store.messages.not_stored(snapshot.resource, thread, unsaved, withdrawn=withdrawn)
        fresh = tuple(_as_message(m, last + i, shown.now, self._counter) for i, m in enumerate(new, start=1))
        tail = tuple(m for m in snapshot.tail if m.id not in withdrawn) + fresh
        repeated = tuple(m for m in snapshot.repeated if m.id not in withdrawn)
        return replace(snapshot, tail=tail, repeated=repeated if goes_on(tail) else ())

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
        groups = await self._store.logs.groups_at(
            snapshot.resource, snapshot.log.pk, record["generation"], entries=record["entries"]
        )
        numbers = record.get("shown") or (record["first"], record["last"])
        tail = await self._span(resource, thread, numbers[0], numbers[-1])
        tail = tuple(message for message in tail if "shown" not in record or message.seq in record["shown"])
        tail = await self._as_it_was(resource, thread, tail, record)
        repeated = [m for seq in record["repeated"] for m in await self._span(resource, thread, seq, seq)]
        hints = Hints()
        if record["hinted"]:
            where = resource, snapshot.log.pk, snapshot.thread.pk, record["hinted"]
            hints = await self._store.logs.hints_of(*where, generation=record["generation"])
        facts = await self._facts(resource, thread, record.get("working_memory", {}))
        shown = Shown(
            snapshot=snapshot,
            config=config.with_overrides(
                {
                    "recall.tokens": record.get("recall_tokens", config.recall.tokens),
                    "assume_done": record.get("assume_done", config.assume_done),
                    "other_tokens": record.get("other_tokens", config.other_tokens),
                }
            ),
            limit=record["limit"],
            unseen_from=record.get("unseen"),
            now=datetime.fromisoformat(record["now"]),
            zone=record["zone"],
            task_lines=tuple(record.get("tasks", ())),
            plans=await self._store.logs.lines_by_id(snapshot.resource, snapshot.log.pk, record.get("plans", ())),
            passages=await read_passages(self._store, resource, record),
            repeated_tokens=record.get("repeated_tokens"),
            passed=(record.get("ephemeral", 0), record.get("ephemeral_tokens", 0)),
        )
        before = datetime.fromisoformat(record["before"]) if record.get("before") else None
        view = _view(
            shown,
            self._counter,
            self._instructions,
            groups=groups,
            cursor=record["cursor"],
            tail=tail,
            before=before,
            repeated=tuple(repeated),
            others=await self._others(resource, record),
            hints=hints,
            facts=facts,
        )
        return build(view)

    async def _others(self, resource: str, record: JsonObject) -> OtherTails:
        """Return what a recorded context showed of other threads."""
        tails = [
            OtherTail(
                thread=other["thread"],
                alias=other["alias"],
                title=other["title"],
                messages=await self._span(resource, other["thread"], other["first"], other["last"]),
                earlier=other.get("earlier", 0),
            )
            for other in record["others"]
        ]
        more = record.get("more_others", (0, 0))
        return OtherTails(tails=tuple(tails), more_threads=more[0], more_messages=more[1])

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
        # The newest compaction of a message before that time is the one that was shown.
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


def known_context(
    shown: Shown,
    since: Sequence[Message],
    unsaved: Sequence[NewMessage],
    counter: TokenCounter,
    instructions: str | None,
) -> Made:
    """Return a context without reading the store: of the last snapshot, of messages saved since, and of unsaved ones."""
    snapshot = shown.snapshot
    read = snapshot.thread.last_seq if snapshot else 0
    known = tuple(m for m in snapshot.tail if m.state == "live") if snapshot else ()
    known += tuple(m for m in since if m.seq > read)
    try:
        start = max((m.seq for m in known), default=read)
        new = additions(grown_by_id(known), unsaved, "")
        tail = known + tuple(_as_message(m, start + i, shown.now, counter) for i, m in enumerate(new, start=1))
        view = _view(
            shown,
            counter,
            instructions,
            groups=snapshot.groups if snapshot else (),
            cursor=snapshot.cursor if snapshot else 0,
            tail=tail,
            before=snapshot.covered_at if snapshot and shown.config.observe else None,
            repeated=snapshot.repeated if snapshot and goes_on(tail) else (),
            others=OtherTails(),
            hints=snapshot.thread.hints if snapshot else Hints(),
            facts=snapshot.facts if snapshot else Facts(),
        )
        context = build(view)
        record = _record(shown, snapshot, view, context, OtherTails())
    except Exception:  # noqa: BLE001 - memory never breaks the agent
        _log.exception("building a context failed unexpectedly")
        return Made(context=bare((*known, *unsaved), shown.ephemeral, instructions), record={})
    # Another turn may save messages in between before these are saved, so each message is named.
    return Made(context=context, record={**record, "degraded": True, "shown": [m.seq for m in known]})


def _view(
    shown: Shown,
    counter: TokenCounter,
    instructions: str | None,
    *,
    groups: Sequence[GroupRow],
    cursor: int,
    tail: tuple[Message, ...],
    before: datetime | None,
    repeated: tuple[Message, ...],
    others: OtherTails,
    hints: Hints,
    facts: Facts,
) -> View:
    snapshot, config = shown.snapshot, shown.config
    thread = snapshot.thread.id if snapshot else ""
    return View(
        scope=snapshot.scope if snapshot else config.scope,
        thread=thread,
        now=shown.now,
        counter=counter,
        zone=shown.zone,
        groups=_views_of(groups),
        cursor=cursor,
        alias=f"t{snapshot.alias}" if snapshot and snapshot.scope == "resource" else None,
        tail=tail,
        before=before,
        repeated=repeated,
        repeated_tokens=config.repeated_tokens if shown.repeated_tokens is None else shown.repeated_tokens,
        hints=hints,
        others=_other_threads(others),
        others_tokens=config.other_tokens,
        more_others=(others.more_threads, others.more_messages),
        task_lines=shown.task_lines,
        plans=tuple((plan.about, plan.text) for plan in shown.plans if plan.about),
        working_memory=working_memory_text(facts.before),
        working_memory_now=working_memory_text(facts.now),
        assume_done=config.assume_done,
        ephemeral=shown.ephemeral,
        passed=shown.passed[0],
        passed_tokens=shown.passed[1],
        recalled=passage_texts(shown.passages, thread, budget=config.recall.tokens, zone=shown.zone, counter=counter),
        instructions=instructions,
        limit=shown.limit,
        unseen_from=shown.unseen_from,
    )


def _view_of(group: GroupRow) -> GroupView:
    return GroupView(handle=group.handle, text=group.text, tokens=group.tokens)


# The groups of a log are mostly the same objects from one request to the next.
_views_of = each_once(_view_of)


def _newest(tail: tuple[Message, ...], count: int) -> tuple[Message, ...]:
    """Return the newest messages, extended so that no call is separated from its result."""
    most = max(0, len(tail) - count)
    return tail[max(cut for cut in closed_cuts(tail) if cut <= most) :]


def _other_threads(others: OtherTails) -> tuple[OtherThread, ...]:
    return tuple(
        OtherThread(
            alias=f"t{other.alias}" if other.alias else other.thread,
            title=other.title,
            messages=other.messages,
            earlier=other.earlier,
        )
        for other in others.tails
    )


def _record(
    shown: Shown, snapshot: Snapshot | None, view: View, context: Context, others: OtherTails
) -> dict[str, object]:
    return {
        "scope": view.scope,
        "generation": snapshot.log.generation if snapshot else 0,
        "entries": len(view.groups),
        "cursor": view.cursor,
        "first": view.tail[0].seq if view.tail else 0,
        "last": view.tail[-1].seq if view.tail else 0,
        "before": view.before.isoformat() if view.before else None,
        "compacted": [message.seq for message in view.tail if message.level and is_compacted(message)],
        "repeated": [message.seq for message in view.repeated],
        "repeated_tokens": view.repeated_tokens,
        "hinted": snapshot.thread.hints.last_seq if snapshot else 0,
        "others": [
            {
                "thread": other.thread,
                "alias": other.alias,
                "title": other.title,
                "first": other.messages[0].seq if other.messages else 0,
                "last": other.messages[-1].seq if other.messages else 0,
                "earlier": other.earlier,
            }
            for other in others.tails
        ],
        "more_others": [others.more_threads, others.more_messages],
        "other_tokens": shown.config.other_tokens,
        "working_memory": {s: list(numbers) for s, numbers in snapshot.facts.versions.items()} if snapshot else {},
        "now": shown.now.isoformat(),
        "zone": shown.zone,
        "limit": view.limit,
        "unseen": view.unseen_from,
        "recall_tokens": shown.config.recall.tokens,
        "ephemeral": len(shown.ephemeral),
        "ephemeral_tokens": sum(count_message(message, view.counter) for message in shown.ephemeral),
        "plans": [plan.id for plan in shown.plans],
        "assume_done": view.assume_done,
        "recalled": [[p.messages[0].thread, p.hit, *(m.seq for m in p.messages)] for p in shown.passages],
        "recalled_at": [[p.places.get(m.seq) for m in p.messages] for p in shown.passages],
        "tokens": [context.tokens.prefix, context.tokens.tail, context.tokens.edge],
        "trimmed": context.trimmed,
        "shortened": context.shortened,
        # The only copied text: tasks have no older versions. It is short.
        **({"tasks": list(shown.task_lines)} if shown.task_lines else {}),
    }


def _uncovered(snapshot: Snapshot) -> tuple[int, int]:
    """Return the tokens that the log does not cover, and those of them in no buffered group or run."""
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
