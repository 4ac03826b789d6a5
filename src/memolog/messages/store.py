"""Save and load messages.

Saving is idempotent. If the id of a message is stored already and the content is the same, nothing changes. If the message has
additional parts, these are stored as a further row. If its content differs, the message is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, NamedTuple, TypeAlias, cast

from memolog.core.clock import Clock, from_micros, to_micros
from memolog.core.deadline import offload
from memolog.core.exact_json import dumps, object_text, pack
from memolog.core.message import (
    FilePart,
    Message,
    NewMessage,
    Part,
    ReasoningPart,
    Role,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    UnknownPart,
    continues,
    pairs_of,
    parts_to_json,
)
from memolog.core.observation import Span
from memolog.db.engine import Calls, Engine, reads, writes
from memolog.db.queries import Script, load_queries
from memolog.db.rows import message_from_row
from memolog.db.scope import (
    LAST,
    Page,
    check_id,
    check_ids,
    check_limit,
    check_optional_ids,
    chunks,
    clamp,
    reading_thread,
)
from memolog.errors import MessageConflict, MessageNotFound, MessageTooLarge
from memolog.log.heartbeat import appearing
from memolog.messages.tombstones import finding
from memolog.messages.validation import check_message
from memolog.tasks.claims import held_task
from memolog.text.message_tokens import count_large_files
from memolog.text.tokens import HeuristicCounter

q = load_queries("messages/messages")
threads = load_queries("messages/threads")

Weigh: TypeAlias = Callable[[NewMessage], int]
"""Counts the tokens of a message."""

Clean: TypeAlias = Callable[[NewMessage], NewMessage]
"""Returns a message without its secrets, or the same object if it has none."""

Values: TypeAlias = dict[str, Any]

_IDS_A_QUERY = 256
# Estimated cost of checking, counting and writing a message. Work of more than a few milliseconds runs on a worker thread.
_BRIEF_MICROSECONDS = 8_000.0
_PART_MICROSECONDS = 20.0
_VALUE_MICROSECONDS = 2.0
_CHARACTER_MICROSECONDS = 0.015
_MOST_VALUES = 10_000
# The fields of parts that may be large.
_LARGE = ("text", "arguments", "content", "files", "data")


class _Place(NamedTuple):
    """Where allocated rows go: the thread, the last allocated number, and the active task."""

    thread_pk: int
    seq: int
    task_pk: int | None
    task: str | None

    def values(self, one: _Ready, seq: int) -> Values:
        """Return the values of the row of a message with this number."""
        return {**one.values, "thread_pk": self.thread_pk, "seq": seq, "task_pk": self.task_pk}


def allocating(resource: str, thread: str, count: int, now: int) -> Script[_Place]:
    """Lock the thread and allocate its next sequence numbers. A missing thread is created."""
    step = q.advance(resource=resource, thread=thread, count=count, now=now)
    rows = yield step
    if not rows:
        empty = {"title": None, "metadata": "{}", "overrides": "{}", "cloned_from": None}
        yield threads.create_thread(resource=resource, thread=thread, now=now, **empty)
        rows = yield step
    row = rows[0]
    if row.waits_since is None:
        yield q.begin_to_wait(thread_pk=row.pk, now=now)
    held = None if row.active_task_pk is None else (yield from held_task(row.pk, now))
    return _Place(row.pk, row.last_seq, held.pk if held else None, held.id if held else None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Saved:
    """The stored rows of the saved messages, and how many of these rows are new."""

    messages: tuple[Message, ...]
    added: int
    left: int = 0
    """The number of messages that were not saved because they had been forgotten."""


Then: TypeAlias = Callable[[Saved], Script[None]]
"""Further steps of the transaction that has saved messages."""


class _Ready(NamedTuple):
    """A checked message and its column values, without thread and sequence number."""

    message: NewMessage
    values: Values
    is_fresh: bool
    """Whether the id was just generated, so that it cannot be stored already."""


class Messages(Calls):
    """Saves and loads messages. Every call is for one resource."""

    def __init__(
        self,
        engine: Engine,
        clock: Clock,
        new_id: Callable[[], str],
        weigh: Weigh,
        max_bytes: int,
        clean: Clean | None = None,
    ) -> None:
        super().__init__(engine)
        self._clock, self._new_id = clock, new_id
        self._weigh, self._max_bytes, self._clean = weigh, max_bytes, clean

    # ------------------------------------------------------------ saving

    async def save(
        self,
        resource: str,
        thread: str,
        messages: NewMessage | Sequence[NewMessage],
        *,
        turn: str | None = None,
        owner: str | None = None,
        is_told_again: bool = False,
        then: Then | None = None,
    ) -> Saved:
        """Save one or many messages of one thread in this order. After an error none of them is saved.

        A missing thread is created. `owner` is the process that runs the turn: until a reply is saved, no message of the turn
        enters a log. Set `is_told_again` for messages from another system: forgotten messages among them are not saved again.
        `then` returns further steps of the transaction.
        """
        given = [messages] if isinstance(messages, NewMessage) else messages
        check_optional_ids(owner=owner)
        ready, now, is_long = await self.ready_soon(resource, thread, given, turn)

        def script() -> Script[Saved]:
            left = (yield from finding(resource, thread, given)) if is_told_again else frozenset[int]()
            chosen = [one for place, one in enumerate(ready) if place not in left] if left else ready
            if left and not chosen:
                return Saved(messages=(), added=0, left=len(left))
            saved = yield from self.saving(resource, thread, chosen, now)
            if left:
                saved = replace(saved, left=len(left))
            if turn is not None and owner is not None:
                yield from noting_unseen(resource, thread, saved, turn=turn, owner=owner, now=now)
            if then is not None:
                yield from then(saved)
            return saved

        return await self.engine.write(script, name="messages.save", brief=not is_long)

    @writes("messages.end_turn")
    def end_turn(self, resource: str, thread: str, turn: str) -> Script[None]:
        """Mark the messages of a turn as seen, because the turn has ended and no reply will follow."""
        check_ids(resource=resource, thread=thread, turn=turn)
        yield q.clear_unseen(resource=resource, thread=thread, turn=turn, before=LAST)

    async def ready_soon(
        self, resource: str, thread: str, messages: Sequence[NewMessage], turn: str | None
    ) -> tuple[list[_Ready], int, bool]:
        """Call `ready`, on a worker thread if it takes long. Return its results, and whether it took long."""
        if is_much(messages):
            return *(await offload(self.ready, resource, thread, messages, turn, when=True)), True
        return *self.ready(resource, thread, messages, turn), False

    def ready(
        self, resource: str, thread: str, messages: Sequence[NewMessage], turn: str | None
    ) -> tuple[list[_Ready], int]:
        """Check messages and convert them to column values."""
        check_ids(resource=resource, thread=thread)
        check_optional_ids(turn=turn)
        now = to_micros(self._clock.now())
        return [self._ready(message, now, turn) for message in messages], now

    def _ready(self, message: NewMessage, now: int, turn: str | None) -> _Ready:
        parts = check_message(message)
        if self._clean is not None and (cleaned := self._clean(message)) is not message:
            message, parts = cleaned, check_message(cleaned)
        is_fresh = message.id is None
        message_id = self._new_id() if message.id is None else check_id("message", message.id)
        # Encode only texts that may exceed the limit.
        if len(parts) * 4 > self._max_bytes and (size := len(parts.encode())) > self._max_bytes:
            raise MessageTooLarge(message_id, size, self._max_bytes)
        # Most messages are a single text, which has neither calls nor files.
        is_text = len(message.parts) == 1 and type(message.parts[0]) is TextPart
        tokens = self._weigh(message)
        values: Values = {
            "id": message_id,
            "continuation": 0,
            "role": message.role,
            "tokens": tokens,
            "created_at": now if message.created_at is None else to_micros(message.created_at),
            "own": int(message.own),
            "turn": turn,
            "zone": pack(message.zone),
            "speaker": pack(message.speaker),
            "pairs": None if is_text else _pairs_text(message.parts),
            "metadata": object_text("The metadata", message.metadata) if message.metadata else "{}",
            "parts": parts,
            "file_tokens": None if is_text else _file_tokens(message.parts, tokens),
        }
        return _Ready(message, values, is_fresh)

    def saving(self, resource: str, thread: str, ready: Sequence[_Ready], now: int) -> Script[Saved]:
        """Save prepared messages as part of a larger script."""
        if len(ready) == 1 or not (yield from _all_new(resource, thread, ready)):
            rows: list[Message] = []
            added = 0
            for one in ready:
                stored, is_new = yield from self._save_one(resource, thread, one, now)
                rows.extend(stored)
                added += is_new
            return Saved(messages=tuple(rows), added=added)
        place = yield from allocating(resource, thread, len(ready), now)
        first = place.seq - len(ready) + 1
        numbered = [place.values(one, first + i) for i, one in enumerate(ready)]
        yield q.insert_messages.many(numbered)
        saved = (
            _message(resource, thread, one.message, row, place.task) for one, row in zip(ready, numbered, strict=True)
        )
        return Saved(messages=tuple(saved), added=len(ready))

    def _save_one(self, resource: str, thread: str, one: _Ready, now: int) -> Script[tuple[tuple[Message, ...], bool]]:
        place = yield from allocating(resource, thread, 1, now)
        values = place.values(one, place.seq)
        # A new id cannot be stored already.
        insert = q.insert_messages if one.is_fresh else q.insert_message
        if (yield insert.given(values)) or one.is_fresh:
            return (_message(resource, thread, one.message, values, place.task),), True
        # The id is stored already. The message is a repetition, has more parts, or conflicts with the stored one.
        rows = yield q.by_id(resource=resource, thread=thread, id=one.values["id"])
        stored = [message_from_row(row) for row in rows]
        rest = grown_from(stored).lacks(one.message, thread)
        if not rest:
            yield q.give_back(thread_pk=place.thread_pk, count=1)
            return tuple(message for message in stored if message.state != "withdrawn"), False
        added = replace(one.message, parts=rest)
        grown: Values = {
            **values,
            "continuation": len(stored),
            "tokens": self._weigh(added),
            "pairs": _pairs_text(rest),
            "parts": parts_to_json(rest),
        }
        grown["file_tokens"] = _file_tokens(rest, grown["tokens"])
        yield q.insert_messages.many([grown])
        return (_message(resource, thread, added, grown, place.task),), True

    async def not_stored(
        self,
        resource: str,
        thread: str,
        messages: NewMessage | Sequence[NewMessage],
        *,
        withdrawn: Container[str] = (),
    ) -> tuple[NewMessage, ...]:
        """Return the messages, or their parts, that are not stored yet. An id in `withdrawn` counts as not stored."""
        check_ids(resource=resource, thread=thread)
        given = [messages] if isinstance(messages, NewMessage) else messages
        offered = given if self._clean is None else [self._clean(message) for message in given]
        ids = [message.id for message in offered if message.id is not None and message.id not in withdrawn]
        known = await self.engine.read(lambda: reading_grown(resource, thread, ids)) if ids else {}
        return tuple(additions(known, offered, thread))

    @writes("messages.report")
    def report_files(self, resource: str, thread: str, tokens: Mapping[int, int]) -> Script[None]:
        """Store the tokens that a provider reported for the large files of messages, by sequence number."""
        check_ids(resource=resource, thread=thread)
        yield from reporting_files(resource, thread, tokens)

    # ------------------------------------------------------------ loading

    @reads
    def after(
        self, resource: str, thread: str, cursor: int = 0, *, limit: int | None = None
    ) -> Script[tuple[Message, ...]]:
        """Return the live messages after a sequence number, oldest first: a thread's tail."""
        found = yield from _between(resource, thread, cursor, LAST, limit)
        return tuple(message for message in found if message.state == "live")

    @reads
    def span(self, resource: str, thread: str, span: Span) -> Script[tuple[Message, ...]]:
        """Return every message of a span, including tombstones."""
        return (yield from _between(resource, thread, span.first - 1, span.last, None))

    @reads
    def spans(self, resource: str, spans: Sequence[tuple[str, Span]]) -> Script[list[tuple[Message, ...]]]:
        """Return every message of each span of a thread, including tombstones. All are read on one snapshot."""
        found: list[tuple[Message, ...]] = []
        for thread, span in spans:
            found.append((yield from _between(resource, thread, span.first - 1, span.last, None)))
        return found

    @reads
    def live_counts(
        self, resource: str, threads: Sequence[str], *, up_to: int = 0
    ) -> Script[dict[str, tuple[int, int]]]:
        """Return, by thread, the number of live messages, and how many of them have a number of at most `up_to`."""
        check_ids(resource=resource)
        rows = (yield q.live_counts(resource=resource, threads=threads, up_to=up_to)) if threads else ()
        known = {row.thread: (row.messages, row.up_to) for row in rows}
        return {thread: known.get(thread, (0, 0)) for thread in threads}

    @reads
    def get(self, resource: str, message_id: str, *, thread: str | None = None) -> Script[tuple[Message, ...]]:
        """Return the rows of one message: itself, then its continuations. Raises MessageNotFound.

        Without a thread, all threads of the resource are searched.
        """
        check_ids(resource=resource, message=message_id)
        check_optional_ids(thread=thread)
        where: Values = {"resource": resource, "id": message_id}
        rows = yield (q.by_id_anywhere(**where) if thread is None else q.by_id(thread=thread, **where))
        if not rows:
            raise MessageNotFound(message_id)
        return tuple(map(message_from_row, rows))

    @reads
    def page(
        self,
        resource: str,
        thread: str,
        *,
        after: int | None = None,
        before: int | None = None,
        limit: int = 50,
    ) -> Script[Page[Message]]:
        """Return some messages, oldest first: the first ones after a sequence number, or the last ones before it.

        Without `after` and `before`, return the first page. `next` is the sequence number from which the next page in the same
        direction continues.
        """
        check_ids(resource=resource, thread=thread)
        where: Values = {"resource": resource, "thread": thread, "limit": check_limit(limit) + 1}
        if before is None:
            rows = yield q.after(after=clamp(after or 0), up_to=LAST, **where)
        else:
            rows = yield q.before(before=clamp(before), **where)
        if not rows:
            yield from reading_thread(resource, thread)
        shown = [message_from_row(row) for row in rows[:limit]]
        more = str(shown[-1].seq) if len(rows) > limit else None
        return Page(items=tuple(sorted(shown, key=lambda message: message.seq)), next=more)


def is_much(messages: Sequence[NewMessage]) -> bool:
    """Return whether saving messages takes so long that a worker thread should do it.

    Stops counting at the limit, and does not validate values.
    """
    left = _BRIEF_MICROSECONDS
    waiting: list[object] = [getattr(message, "parts", ()) for message in messages]
    if len(waiting) == 1 and type(waiting[0]) is tuple:
        parts = cast("tuple[object, ...]", waiting[0])
        if len(parts) == 1 and type(parts[0]) is TextPart:
            # Most calls save one text.
            waiting = [parts[0].text]
    while waiting and left > 0:
        value = waiting.pop()
        left -= _VALUE_MICROSECONDS
        match value:
            case str() | bytes():
                left -= len(value) * _CHARACTER_MICROSECONDS
            case list() | tuple():
                waiting += cast("Sequence[object]", value)[:_MOST_VALUES]
            case dict():
                waiting += islice(cast("dict[object, object]", value).values(), _MOST_VALUES)
            case TextPart() | ReasoningPart() | ToolCallPart() | ToolResultPart() | FilePart() | UnknownPart():
                left -= _PART_MICROSECONDS
                waiting += (getattr(value, name) for name in _LARGE if hasattr(value, name))
            case _:
                pass
    return left <= 0


# ---------------------------------------------------------------- pieces of scripts


def _between(resource: str, thread: str, after: int, up_to: int, limit: int | None) -> Script[tuple[Message, ...]]:
    check_ids(resource=resource, thread=thread)
    most = LAST if limit is None else check_limit(limit)
    rows = yield q.after(resource=resource, thread=thread, after=clamp(after), up_to=clamp(up_to), limit=most)
    if not rows:
        yield from reading_thread(resource, thread)
    return tuple(map(message_from_row, rows))


def noting_unseen(resource: str, thread: str, saved: Saved, *, turn: str, owner: str, now: int) -> Script[None]:
    """Store the sequence number of the first message of a running turn that no reply follows yet."""
    replied = max((row.seq for row in saved.messages if row.role == "assistant"), default=0)
    if replied:
        yield q.clear_unseen(resource=resource, thread=thread, turn=turn, before=replied)
    if saved.added < len(saved.messages):
        # Some messages were stored before, as after a failed request. Those that no reply follows are still unseen.
        seqs = [row.seq for row in saved.messages]
        yield q.take_unseen(resource=resource, thread=thread, turn=turn, seqs=seqs)
        rows = yield q.last_reply(resource=resource, thread=thread)
        replied = max(replied, rows[0].seq if rows else 0)
    first = min((row.seq for row in saved.messages if row.seq > replied and row.state == "live"), default=None)
    if first is not None:
        yield q.note_unseen(resource=resource, thread=thread, turn=turn, first_seq=first, owner=owner)
        yield from appearing(owner, now)


def reporting_files(resource: str, thread: str, tokens: Mapping[int, int]) -> Script[None]:
    """Store the tokens that a provider reported for large files, as part of a larger script."""
    for seq, reported in tokens.items():
        yield q.set_reported(resource=resource, thread=thread, seq=seq, reported=reported)


def _all_new(resource: str, thread: str, ready: Sequence[_Ready]) -> Script[bool]:
    ids = [str(one.values["id"]) for one in ready]
    if len(set(ids)) != len(ids):
        return False
    known = [message_id for message_id, one in zip(ids, ready, strict=True) if not one.is_fresh]
    for chunk in chunks(known, _IDS_A_QUERY):
        if (yield q.known_ids(resource=resource, thread=thread, ids=chunk)):
            return False
    return True


def _pairs_text(parts: tuple[Part, ...]) -> str | None:
    calls, results = pairs_of(parts)
    return dumps([calls, results]) if calls or results else None


def _file_tokens(parts: tuple[Part, ...], most: int) -> int | None:
    """Return the tokens of large files, but at most `most`, the tokens of the message. None if there is no large file."""
    # The counter of the `Memory` is not needed, because it counts only text, and most large files are not text.
    return min(count_large_files(parts, HeuristicCounter()), most) or None


def _message(resource: str, thread: str, new: NewMessage, values: Values, task: str | None) -> Message:
    return Message(
        id=values["id"],
        resource=resource,
        thread=thread,
        seq=values["seq"],
        continuation=values["continuation"],
        role=new.role,
        parts=new.parts,
        created_at=from_micros(values["created_at"]),
        tokens=values["tokens"],
        file_tokens=values["file_tokens"] or 0,
        zone=new.zone,
        speaker=new.speaker,
        own=new.own,
        task=task,
        metadata=new.metadata,
        turn=values["turn"],
    )


# ---------------------------------------------------------------- what saving a message adds


@dataclass(frozen=True, slots=True, kw_only=True)
class Grown:
    """A stored message with all its parts so far."""

    id: str
    role: Role | None
    """The role of its first live row. None means that no row is live."""
    parts: tuple[Part, ...]
    is_forgotten: bool = False
    """Whether a row was forgotten. Saving the message again then raises MessageConflict."""
    is_pruned: bool = False
    """Whether the raw text was removed. Saving the message again then adds nothing, and its parts are not compared."""

    def lacks(self, offered: NewMessage, thread: str) -> tuple[Part, ...]:
        """Return the parts that are not stored yet. Raise MessageConflict if the role or the stored parts differ."""
        if self.is_forgotten:
            raise MessageConflict(self.id, thread, None)
        if self.is_pruned:
            return ()
        if self.role is not None and self.role != offered.role:
            raise MessageConflict(self.id, thread, f"its role is {self.role}, not {offered.role}")
        rest = continues(self.parts, offered.parts)
        if rest is None:
            raise MessageConflict(self.id, thread, "its parts differ")
        return rest


def grown_from(rows: Sequence[Message]) -> Grown:
    """Return a message from its rows. There must be at least one."""
    live = [row for row in rows if row.state == "live"]
    return Grown(
        id=rows[0].id,
        role=live[0].role if live else None,
        parts=tuple(part for row in live for part in row.parts),
        is_forgotten=any(row.state == "forgotten" for row in rows),
        is_pruned=any(row.pruned for row in rows),
    )


def grown_by_id(rows: Iterable[Message]) -> dict[str, Grown]:
    """Return the messages of these rows by id."""
    together: dict[str, list[Message]] = {}
    for row in rows:
        together.setdefault(row.id, []).append(row)
    return {name: grown_from(some) for name, some in together.items()}


def additions(known: Mapping[str, Grown], offered: Iterable[NewMessage], thread: str) -> Iterator[NewMessage]:
    """Yield the messages, or their parts, that saving would add. Messages that would be refused are skipped."""
    now = dict(known)
    for message in offered:
        before = now.get(message.id or "")
        try:
            rest = tuple(message.parts) if before is None else before.lacks(message, thread)
        except MessageConflict:
            continue
        if before is None or rest:
            yield message if before is None else replace(message, parts=rest)
        if message.id is not None and not (before and before.is_pruned):
            parts = (*before.parts, *rest) if before else rest
            now[message.id] = Grown(id=message.id, role=message.role, parts=parts)


def reading_grown(resource: str, thread: str, ids: Sequence[str]) -> Script[dict[str, Grown]]:
    """Return the stored messages that have one of `ids`, by id."""
    found: dict[str, Grown] = {}
    for chunk in chunks(ids, _IDS_A_QUERY):
        known = yield q.known_ids(resource=resource, thread=thread, ids=chunk)
        for name in dict.fromkeys(row.id for row in known):
            rows = yield q.by_id(resource=resource, thread=thread, id=name)
            found[name] = grown_from([message_from_row(row) for row in rows])
    return found
