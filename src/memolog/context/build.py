"""Build the context of a request from a snapshot, or build an earlier context again from its record.

Prefix and note depend only on the log, and the tail only on the messages. The edge also depends on the current time. Equal views
give equal bytes. A record contains numbers and ids, but no copies of messages.
"""

import logging
from bisect import bisect_left
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from memolog.context.auto_recall import Passage, passage_texts, read_passages
from memolog.context.context import Block, Context, ContextMessage, Counts
from memolog.context.edge import OTHERS, PASSED_DAYS, edge_blocks, working_memory_text
from memolog.context.tail import (
    LEAST_SHOWN,
    ShownTail,
    TailCutter,
    closed_cuts,
    is_compacted,
    shortened,
    show,
)
from memolog.core.cache import grown
from memolog.core.config import Config
from memolog.core.deadline import offload
from memolog.core.exact_json import JsonObject
from memolog.core.message import Message, NewMessage, has_many_parts
from memolog.core.observation import Observation, Span
from memolog.core.pairs import is_question
from memolog.core.thread import Hints
from memolog.errors import NotFound
from memolog.log.snapshot import GroupRow, OtherLimits, OtherTail, OtherTails, Snapshot, ThreadHead, goes_on
from memolog.log.state import others_for
from memolog.messages.store import additions, grown_by_id
from memolog.tasks.rules import edge_lines
from memolog.text.dates import local, shifted
from memolog.text.escape import element, escape, fixed_text
from memolog.text.message_tokens import count_message, count_parts, count_text
from memolog.text.tokens import TokenCounter, share
from memolog.working_memory.store import Facts

if TYPE_CHECKING:
    from memolog.store import Store

_log = logging.getLogger("memolog")
_CONTINUATION: Final = fixed_text("context/continuation")
_CONTINUATION_ALIAS: Final = fixed_text("context/continuation_alias")
_BACKLOG: Final = fixed_text("context/backlog")
_PASSED_ALONG: Final = fixed_text("context/passed_along")
_USAGE: Final = fixed_text("context/usage").format(plans=fixed_text("context/usage_plans"))
_USAGE_DONE: Final = fixed_text("context/usage").format(plans=fixed_text("context/usage_plans_done"))
_USAGE_FACTS: Final = fixed_text("context/usage_facts")
_USAGE_RESOURCE: Final = fixed_text("context/usage_resource")
_BLOCK_TOKENS: Final = 200_000


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """All values from which a context is built: a snapshot, and the values of one request."""

    snapshot: Snapshot
    now: datetime
    counter: TokenCounter
    config: Config = field(default_factory=Config)
    instructions: str | None = None
    """The instructions of the application. They come first and are not changed."""
    zone: str | None = None
    """The time zone of the user: an IANA name or an offset such as "+02:00". None means UTC."""
    ephemeral: tuple[NewMessage, ...] = ()
    """Messages for this request only, neither stored nor observed."""
    passed: tuple[int, int] = (0, 0)
    """The number of ephemeral messages of a recorded request, and their tokens. The messages themselves are not stored."""
    repeated_tokens: int | None = None
    """The maximum tokens of each repeated message. None means the configured number."""
    unread: int = 0
    """How many imported messages after the cursor are not shown, because the log will cover them soon."""
    task_lines: tuple[str, ...] = ()
    plans: tuple[Observation, ...] = ()
    """Plans for the last days that have no known outcome."""
    passages: tuple[Passage, ...] = ()
    """Earlier messages that a search found for the newest user message."""
    recalled: tuple[str, ...] = ()
    """The passages as texts."""
    limit: int | None = None
    """The maximum tokens of the context. To stay below it, the tail and the other threads are shortened."""
    unseen_from: int | None = None
    """The first message that no model has seen. To stay below the limit, it and later messages may be cut but not left out."""

    @property
    def most_repeated(self) -> int:
        """Return the maximum tokens of each repeated message."""
        return self.config.repeated_tokens if self.repeated_tokens is None else self.repeated_tokens


def bare(
    messages: Iterable[Message | NewMessage], ephemeral: Iterable[NewMessage], instructions: str | None
) -> Context:
    """Return a context of only these messages and the application's instructions."""
    blocks = (Block(name="instructions", text=instructions, tokens=0, stable=True),) if instructions else ()
    shown = tuple(map(ContextMessage.of, messages))
    return Context(blocks=blocks, tail=shown, ephemeral=tuple(map(ContextMessage.of, ephemeral)))


def build(view: View) -> Context:
    """Return the context of a request: prefix, note, tail, ephemeral messages and edge."""
    prefix, note = tuple(_prefix(view)), _note(view)
    passed = view.passed[1] + sum(count_message(message, view.counter) for message in view.ephemeral)
    mark = (ContextMessage.note(_BACKLOG.format(count=f"{view.unread:,}")),) if view.unread else ()
    opening, fixed = note.tokens if note else 0, _sum(prefix)
    opening += sum(count_parts(one.role, one.parts, view.counter) for one in mark)
    tail, edge = _fitted(view, fixed + opening + passed)
    # A note stands for the ephemeral messages of a recorded request, because they were not stored.
    unknown = [ContextMessage.note(_PASSED_ALONG.format(count=view.passed[0]))] if view.passed[0] else []
    return Context(
        blocks=prefix,
        note=note,
        tail=(*mark, *tail.messages),
        ephemeral=(*unknown, *map(ContextMessage.of, view.ephemeral)),
        edge=edge,
        tokens=Counts(prefix=fixed, tail=opening + tail.tokens, edge=passed + _sum(edge)),
        trimmed=tail.trimmed + view.unread,
        shortened=_shortened(view, tail),
    )


def _prefix(view: View) -> Iterable[Block]:
    """Yield the blocks of the prefix. Groups come last, so that an activation only appends text."""
    if view.instructions and view.instructions.strip():
        yield _stable(view, "instructions", view.instructions)
    snapshot = view.snapshot
    groups = _group_blocks(snapshot.groups)
    kept = working_memory_text(snapshot.facts.before) or ""
    if kept.strip():
        yield _stable(view, "facts", _USAGE_FACTS)
        yield _stable(view, "working-memory", element("working-memory", escape(kept)))
    if groups:
        # The log is explained only where there is one, and after the facts, so that its first group only appends text.
        usage = _USAGE_DONE if view.config.assume_done else _USAGE
        yield _stable(view, "usage", f"{usage}\n{_USAGE_RESOURCE}" if snapshot.scope == "resource" else usage)
    yield from groups


def _more_blocks(blocks: tuple[Block, ...], groups: Sequence[GroupRow]) -> tuple[Block, ...]:
    new = (
        Block(name=f"group {group.handle}", text=group.text, tokens=group.tokens, stable=True)
        for group in groups
        if group.text
    )
    return (*blocks, *new)


# An activation appends groups to a log that may have hundreds of them, so the blocks of the earlier groups are cached.
_group_blocks = grown((), _more_blocks, attrgetter("tokens"), heaviest=_BLOCK_TOKENS)


def _note(view: View) -> Block | None:
    snapshot = view.snapshot
    if snapshot.cursor <= 0:
        return None
    own = f"\n{_CONTINUATION_ALIAS.format(alias=f't{snapshot.alias}')}" if snapshot.scope == "resource" else ""
    return _stable(view, "continuation", _CONTINUATION + own)


def _stable(view: View, name: str, text: str) -> Block:
    return Block(name=name, text=text, tokens=count_text(text, view.counter), stable=True)


def _fitted(view: View, fixed: int) -> tuple[ShownTail, tuple[Block, ...]]:
    """Return tail and edge, shortened to stay below the limit as far as possible."""
    edge = edge_blocks(view, others_tokens=view.config.other_tokens)
    tail = show(*_sized(view, None), view.counter, view.snapshot.covered_at)
    if view.limit is None or fixed + tail.tokens + _sum(edge) <= view.limit:
        return tail, edge
    if view.recalled:
        # Recalled messages are removed first.
        return _fitted(replace(view, recalled=()), fixed)
    snapshot = view.snapshot
    if snapshot.repeated and any(map(is_question, snapshot.tail)):
        # Repeated messages are removed next, if the tail has a newer user message.
        tail, edge = _fitted(replace(view, snapshot=replace(snapshot, repeated=())), fixed)
        return replace(tail, trimmed=tail.trimmed + len(snapshot.repeated)), edge
    room = view.limit - fixed
    most: int | None = None
    while True:
        tail, edge = _left_out(view, most, room, edge)
        if tail.tokens + _sum(edge) <= room or (most is not None and most <= LEAST_SHOWN):
            return tail, edge
        most = _next_size(view, tail, most, room - _sum(edge))


def _next_size(view: View, tail: ShownTail, most: int | None, room: int) -> int:
    """Return the next smaller maximum size of a message with which the shown messages may fit.

    The possible sizes depend only on the limit, so that the next context cuts a message in the same way.
    """
    shown = {row.seq for row in tail.rows}
    sizes = [message.tokens for message in (*view.snapshot.repeated, *view.snapshot.tail) if message.seq in shown]
    even = max(share(sizes, room), LEAST_SHOWN)
    size = (view.limit or 0) // 2 if most is None else most * 3 // 4
    while size > even:
        size = size * 3 // 4
    return size


def _left_out(view: View, most: int | None, room: int, edge: tuple[Block, ...]) -> tuple[ShownTail, tuple[Block, ...]]:
    """Return tail and edge, with each message cut to at most `most` tokens and, if necessary, without the oldest exchanges."""
    repeated, rows = _sized(view, most)
    cutter = TailCutter(
        repeated=repeated,
        tail=rows,
        counter=view.counter,
        before=view.snapshot.covered_at,
        unseen_from=view.unseen_from,
    )
    tail = cutter.without_older(room - _sum(edge))
    if tail.tokens + _sum(edge) > room:
        excess = tail.tokens + _sum(edge) - room
        others = _sum(block for block in edge if block.name == OTHERS)
        edge = edge_blocks(view, others_tokens=max(others - excess, 0))
    if tail.tokens + _sum(edge) > room:
        tail = cutter.without_steps(room - _sum(edge))
    return tail, edge


def _sized(view: View, most: int | None) -> tuple[tuple[Message, ...], tuple[Message, ...]]:
    """Return the repeated messages and the tail, each message cut to at most `most` tokens.

    If `most` is None, only messages that exceed the limit of the whole context are cut. The cut depends only on the message and
    the limit, so that each context extends the one before it.
    """
    limit, counter, tail = view.limit, view.counter, view.snapshot.tail
    least = view.most_repeated if most is None else min(view.most_repeated, most)
    # Repeated messages are shown unchanged, even if they are compacted.
    plain = (replace(m, level=0, injection=None) if is_compacted(m) else m for m in view.snapshot.repeated)
    # An unchanged message stays the same object, because caches use it as their key.
    repeated = tuple(shortened(message, least, counter) for message in plain)
    if limit is None:
        return repeated, tail
    over, size = (limit, limit // 2) if most is None else (most, most)
    if all(message.tokens <= over for message in tail):
        return repeated, tail
    return repeated, tuple(shortened(m, size, counter) if m.tokens > over else m for m in tail)


def _shortened(view: View, tail: ShownTail) -> int:
    """Return how many of the shown messages were cut."""
    if view.limit is None and not view.snapshot.repeated:
        return 0
    whole = {message.seq: message.parts for message in (*view.snapshot.repeated, *view.snapshot.tail)}
    return sum(row.parts is not whole[row.seq] for row in tail.rows)


def _sum(blocks: Iterable[Block]) -> int:
    return sum(block.tokens for block in blocks)


# ---------------------------------------------------------------- from the store


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """A context and its record."""

    context: Context
    record: JsonObject
    uncovered: int = 0
    """The tokens of messages that the log does not cover."""
    free: Mapping[str, int] = field(default_factory=dict[str, int])
    """The part of `uncovered` that is after all buffered groups and runs of its thread, by thread."""
    files: tuple[Message, ...] = ()
    """The stored messages with large files that the context shows."""
    is_backlog: bool = False
    """Whether imported messages are not shown because the log does not cover them yet."""


def _as_message(message: NewMessage, seq: int, now: datetime, counter: TokenCounter) -> Message:
    """Return an unsaved message as a stored one, so that a context can show it."""
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
    """Builds new contexts, and earlier contexts from their records."""

    def __init__(self, store: "Store", counter: TokenCounter, instructions: str | None = None) -> None:
        self._store, self._counter, self._instructions = store, counter, instructions

    async def build(self, view: View, *, window: int | None = None) -> Made:
        """Return the context of a request and its record. `window` is the limit in tokens if the view has none."""
        read, config = view.snapshot, view.config
        tail = tuple(message for message in read.tail if message.state == "live")
        others = read.beside or OtherTails()
        limits = others_for(config, decides=False)
        if read.others and isinstance(limits, OtherLimits):
            where = read.resource, read.log.pk, read.thread.pk
            others = await self._store.logs.others(*where, read.others, limits=limits, version=read.log.version)
        if others.tails and not config.read_only:
            # A thread without an alias is not shown, because its name would change when it gets an alias.
            others = replace(others, tails=tuple(other for other in others.tails if other.alias))
        snapshot, unread = _without_backlog(replace(read, tail=tail, beside=others))
        if not config.observe:
            newest = _newest(tail, config.last_messages)
            before = tail[-len(newest) - 1].created_at if len(newest) < len(tail) else None
            snapshot = replace(snapshot, tail=newest, covered_at=before, groups=(), cursor=0, repeated=())
        today = local(view.now, view.zone).date()
        view = replace(
            view,
            snapshot=snapshot,
            unread=unread,
            task_lines=await self._task_lines(view),
            plans=await self._store.logs.plans(read, since=shifted(today, -PASSED_DAYS), before=today)
            if config.observe
            else (),
            recalled=_recalled(view),
        )
        is_long = has_many_parts(snapshot.tail)
        context = await offload(build, view, when=is_long)
        if window is not None and view.limit is None and context.tokens.total > window:
            view = replace(view, limit=window)
            context = await offload(build, view, when=is_long)
        uncovered, free = _uncovered(read)
        return Made(
            context=context,
            record=_record(view, context),
            uncovered=uncovered,
            free=free,
            files=_large_files(view, context),
            is_backlog=unread > 0,
        )

    async def _task_lines(self, view: View) -> tuple[str, ...]:
        """Return the task lines of the edge: the active task and the most valuable ready tasks."""
        thread, budget = view.snapshot.thread, view.config.task_tokens
        if not thread.has_tasks or budget <= 0:
            return ()
        tasks = await self._store.task_ready.edge(view.snapshot.resource, thread.id, now=view.now)
        return edge_lines(tasks, now=view.now, budget=budget, count=self._counter.count)

    async def including(
        self,
        snapshot: Snapshot,
        unsaved: Sequence[NewMessage],
        now: datetime,
        *,
        withdrawn: Container[str] = (),
    ) -> Snapshot:
        """Return a snapshot that also has these unsaved messages, and does not have the messages with `withdrawn` ids."""
        last, thread = snapshot.thread.last_seq, snapshot.thread.id
        new = await self._store.messages.not_stored(snapshot.resource, thread, unsaved, withdrawn=withdrawn)
        fresh = tuple(_as_message(m, last + i, now, self._counter) for i, m in enumerate(new, start=1))
        tail = tuple(m for m in snapshot.tail if m.id not in withdrawn) + fresh
        repeated = tuple(m for m in snapshot.repeated if m.id not in withdrawn)
        return replace(snapshot, tail=tail, repeated=repeated if goes_on(tail, repeated) else ())

    # ------------------------------------------------------------ again

    async def again(self, resource: str, thread: str, number: int, config: Config) -> Context:
        """Build the context with this number again, as it was sent to the model."""
        stored = await self._store.journal.context(resource, thread, number)
        if stored is None:
            raise NotFound(
                f"Thread {thread} has no context {number}.",
                then="Pass a number from 1 on. Each request of the thread has the next number.",
            )
        record = stored.record
        snapshot = await self._store.logs.snapshot(resource, thread, record["scope"], create=False, newest=1)
        groups = await self._store.logs.groups_at(
            snapshot.resource, snapshot.log.pk, record["generation"], entries=record["entries"]
        )
        numbers = record.get("shown") or (record["first"], record["last"])
        withdrawn = await self._store.branches.withdrawn_since(resource, thread, numbers[-1])
        tail = await self._span(resource, thread, numbers[0], numbers[-1], withdrawn)
        tail = tuple(message for message in tail if "shown" not in record or message.seq in record["shown"])
        tail = await self._as_it_was(resource, thread, tail, record)
        repeated = [m for seq in record["repeated"] for m in await self._span(resource, thread, seq, seq, withdrawn)]
        hints = Hints()
        if record["hinted"]:
            where = resource, snapshot.log.pk, snapshot.thread.pk, record["hinted"]
            hints = await self._store.logs.hints_of(*where, generation=record["generation"])
        settings = {
            "recall.tokens": record.get("recall_tokens", config.recall.tokens),
            "assume_done": record.get("assume_done", config.assume_done),
            "other_tokens": record.get("other_tokens", config.other_tokens),
        }
        view = View(
            snapshot=replace(
                snapshot,
                thread=replace(snapshot.thread, hints=hints),
                groups=groups,
                cursor=record["cursor"],
                tail=tail,
                covered_at=datetime.fromisoformat(record["before"]) if record.get("before") else None,
                repeated=tuple(repeated),
                beside=await self._others(resource, record),
                facts=await self._facts(resource, thread, record.get("working_memory", {})),
            ),
            config=config.with_overrides(settings),
            counter=self._counter,
            instructions=self._instructions,
            limit=record["limit"],
            unseen_from=record.get("unseen"),
            unread=record.get("unread", 0),
            now=datetime.fromisoformat(record["now"]),
            zone=record["zone"],
            task_lines=tuple(record.get("tasks", ())),
            plans=await self._store.logs.lines_by_id(snapshot.resource, snapshot.log.pk, record.get("plans", ())),
            passages=await read_passages(self._store, resource, record),
            repeated_tokens=record.get("repeated_tokens"),
            passed=(record.get("ephemeral", 0), record.get("ephemeral_tokens", 0)),
        )
        return build(replace(view, recalled=_recalled(view)))

    async def _others(self, resource: str, record: JsonObject) -> OtherTails:
        """Return the messages of other threads that a recorded context showed."""
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
        """Return the working memory in the recorded `versions`: for each scope the version in the prefix, and the current one."""
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
        """Return the messages, each as a summary or whole, as the recorded context showed it."""
        compacted = set(record.get("compacted", ()))
        if all(is_compacted(message) == (message.seq in compacted) for message in tail):
            return tail
        # The context showed the newest compaction that existed when it was built.
        at, summaries = datetime.fromisoformat(record["now"]), dict[int, str]()
        for made in await self._store.compactions.list(resource, thread):
            if made.created_at <= at:
                summaries |= dict.fromkeys(range(made.span.first, made.span.last + 1), made.summary)
        return tuple(
            replace(message, level=1, injection=summaries.get(message.seq, message.injection))
            if message.seq in compacted
            else replace(message, level=0, injection=None)
            for message in tail
        )

    async def _span(
        self, resource: str, thread: str, first: int, last: int, withdrawn: Container[int] = ()
    ) -> tuple[Message, ...]:
        """Return the messages of a span that were live before the messages in `withdrawn` were withdrawn."""
        if not 1 <= first <= last:
            return ()
        rows = await self._store.messages.span(resource, thread, Span(first=first, last=last))
        was_live = (
            replace(row, state="live") if row.state == "withdrawn" and row.seq in withdrawn else row for row in rows
        )
        return tuple(message for message in was_live if message.state == "live")


def _without_backlog(snapshot: Snapshot) -> tuple[Snapshot, int]:
    """Return the snapshot with the messages that a context shows, and the number of imported messages that it does not show."""
    tail, backlog = snapshot.tail, snapshot.backlog
    if backlog is None or not tail:
        return snapshot, 0
    wanted = bisect_left(tail, backlog.shown_from, key=lambda message: message.seq)
    # A message of a turn is always shown.
    said = (place for place, message in enumerate(tail) if place >= wanted and message.turn is not None)
    most, cuts = next(said, len(tail) - 1), closed_cuts(tail)
    later = (cut for cut in cuts if wanted <= cut <= most)
    cut = next(later, max(cut for cut in cuts if cut <= wanted))
    before = tail[cut - 1].created_at if cut else snapshot.covered_at
    shown = replace(snapshot, tail=tail[cut:], covered_at=before, repeated=())
    return shown, tail[cut].seq - 1 - snapshot.cursor


def _large_files(view: View, context: Context) -> tuple[Message, ...]:
    """Return the messages with large files that a context shows. If the context was shortened, they are unknown: return ()."""
    if context.trimmed or context.shortened:
        return ()
    return tuple(m for m in view.snapshot.tail if m.file_tokens and not is_compacted(m))


def empty_snapshot(config: Config) -> Snapshot:
    """Return the snapshot that stands for a thread that could not be read."""
    return Snapshot(resource="", scope=config.scope, thread=ThreadHead(id=""))


def known_context(view: View, since: Sequence[Message], unsaved: Sequence[NewMessage]) -> Made:
    """Return a context without reading the store: from the last snapshot, the messages saved since, and unsaved messages."""
    snapshot = view.snapshot
    read = snapshot.thread.last_seq
    snapshot, unread = _without_backlog(replace(snapshot, tail=tuple(m for m in snapshot.tail if m.state == "live")))
    known = snapshot.tail + tuple(m for m in since if m.seq > read)
    try:
        start = max((m.seq for m in known), default=read)
        new = additions(grown_by_id(known), unsaved, "")
        tail = known + tuple(_as_message(m, start + i, view.now, view.counter) for i, m in enumerate(new, start=1))
        snapshot = replace(
            snapshot,
            tail=tail,
            covered_at=snapshot.covered_at if view.config.observe else None,
            repeated=snapshot.repeated if goes_on(tail, snapshot.repeated) else (),
            beside=None,
        )
        view = replace(view, snapshot=snapshot, unread=unread)
        context = build(view)
        record = _record(view, context)
    except Exception:  # noqa: BLE001 - a failure of Memolog must not stop the agent
        _log.exception("building a context failed unexpectedly")
        return Made(context=bare((*known, *unsaved), view.ephemeral, view.instructions), record={})
    # Another turn may save messages between these, so the record lists the number of each message.
    return Made(context=context, record={**record, "degraded": True, "shown": [m.seq for m in known]})


def _recalled(view: View) -> tuple[str, ...]:
    budget = view.config.recall.tokens
    return passage_texts(view.passages, view.snapshot.thread.id, budget=budget, zone=view.zone, counter=view.counter)


def _newest(tail: tuple[Message, ...], count: int) -> tuple[Message, ...]:
    """Return the newest `count` messages, or a few more, so that no call is separated from its result."""
    most = max(0, len(tail) - count)
    return tail[max(cut for cut in closed_cuts(tail) if cut <= most) :]


def _record(view: View, context: Context) -> dict[str, object]:
    snapshot, config = view.snapshot, view.config
    tail, before, others = snapshot.tail, snapshot.covered_at, snapshot.beside or OtherTails()
    return {
        "scope": snapshot.scope,
        "generation": snapshot.log.generation,
        "entries": len(snapshot.groups),
        "cursor": snapshot.cursor,
        "first": tail[0].seq if tail else 0,
        "last": tail[-1].seq if tail else 0,
        "before": before.isoformat() if before else None,
        "compacted": [message.seq for message in tail if message.level and is_compacted(message)],
        "repeated": [message.seq for message in snapshot.repeated],
        "repeated_tokens": view.most_repeated,
        "hinted": snapshot.thread.hints.last_seq,
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
        "other_tokens": config.other_tokens,
        "working_memory": {scope: list(numbers) for scope, numbers in snapshot.facts.versions.items()},
        "now": view.now.isoformat(),
        "zone": view.zone,
        "limit": view.limit,
        "unseen": view.unseen_from,
        "unread": view.unread,
        "recall_tokens": config.recall.tokens,
        "ephemeral": len(view.ephemeral),
        "ephemeral_tokens": sum(count_message(message, view.counter) for message in view.ephemeral),
        "plans": [plan.id for plan in view.plans],
        "assume_done": config.assume_done,
        "recalled": [[p.messages[0].thread, p.hit, *(m.seq for m in p.messages)] for p in view.passages],
        "recalled_at": [[p.places.get(m.seq) for m in p.messages] for p in view.passages],
        "tokens": [context.tokens.prefix, context.tokens.tail, context.tokens.edge],
        "trimmed": context.trimmed,
        "shortened": context.shortened,
        # This is the only copied text, because old versions of tasks are not stored. It is short.
        **({"tasks": list(view.task_lines)} if view.task_lines else {}),
    }


def _uncovered(snapshot: Snapshot) -> tuple[int, dict[str, int]]:
    """Return the values of `uncovered` and `free` in `Made`."""
    ends: dict[str, int] = {}
    for holder in (*snapshot.buffered, *snapshot.runs):
        if holder.thread is not None and holder.span is not None:
            ends[holder.thread] = max(holder.span.last, ends.get(holder.thread, 0))
    own = snapshot.thread.id
    live = [message for message in snapshot.tail if message.state == "live"]
    uncovered = sum(message.tokens for message in live)
    free = {own: sum(message.tokens for message in live if message.seq > ends.get(own, 0))}
    for other in snapshot.others:
        uncovered += other.tokens
        end = ends.get(other.thread, 0)
        rest = [weight.tokens for weight in other.weights if weight.seq > end] if end else [other.tokens]
        if rest:
            free[other.thread] = sum(rest)
    return uncovered, free
