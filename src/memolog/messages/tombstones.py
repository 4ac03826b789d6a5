"""Recognise forgotten messages in transcripts, in exports, and in the history that a client sends again.

A tombstone is a keyed hash of the id of a thread, of the id of a message, or of a part of a message. One tombstone can stand for
the whole resource. Each resource has a random key, which its exports contain. New messages are never compared with tombstones.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from hashlib import sha256
from typing import Final, TypeAlias

from memolog.core.clock import to_micros
from memolog.core.exact_json import dumps
from memolog.core.message import Message, NewMessage
from memolog.db.engine import Calls, reads, writes
from memolog.db.queries import Script, load_queries
from memolog.db.scope import check_ids, chunks
from memolog.transfer.conversation import marks_of

q = load_queries("messages/tombstones")

_VALUES_A_QUERY = 256
_DIGITS = 40
# Two systems may record different times for the same message. This is the maximum difference, by role. It is larger for answers,
# because some systems record when an answer begins and others when it ends.
_NEAR: Final[dict[str, timedelta]] = {"user": timedelta(minutes=2)}
_NEAR_OTHERS: Final = timedelta(minutes=10)

AnyMessage: TypeAlias = Message | NewMessage


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """The times of tombstones, by kind and hash: the time of the forgotten message, and the time when it was forgotten."""

    times: dict[tuple[str, str], list[tuple[int, int]]] = field(
        default_factory=dict[tuple[str, str], list[tuple[int, int]]]
    )

    def until(self, kind: str, values: Iterable[str]) -> int | None:
        """Return the latest time at which one of these hashes was forgotten. None means never."""
        return max((until for value in values for _, until in self.times.get((kind, value), ())), default=None)

    def has_words(self, values: Iterable[str], said_at: int | None, near: int) -> bool:
        """Return whether a part with one of these hashes was forgotten, from a message near `said_at` (None means any time)."""
        return any(
            said_at is None or (abs(said_at - then) <= near and said_at <= until)
            for value in values
            for then, until in self.times.get(("words", value), ())
        )


class Tombstones(Calls):
    """Recognises forgotten messages and threads. Every call is for one resource."""

    async def find(
        self, resource: str, thread: str, messages: Sequence[AnyMessage], *, is_history: bool = False
    ) -> frozenset[int]:
        """Return the indexes of the messages that were forgotten, one by one or with the whole thread.

        A message that is newer than the tombstone is not a forgotten one. Set `is_history` for messages that a client sends
        again without ids and times: they are recognised by their content only.
        """
        check_ids(resource=resource, thread=thread)
        return await self.engine.read(lambda: finding(resource, thread, messages, is_history=is_history), brief=False)

    @reads
    def forgotten_until(self, resource: str) -> Script[int | None]:
        """Return the time at which the whole resource was forgotten, in microseconds. None means never."""
        check_ids(resource=resource)
        values = [_hash(key, "resource") for key in (yield from _keys(resource))]
        return (yield from _finding(resource, values)).until("resource", values)

    @reads
    def threads(self, resource: str, threads: Sequence[tuple[str, int]]) -> Script[frozenset[str]]:
        """Return the threads that were forgotten after they began. `threads` has the id and the time of the beginning of each."""
        check_ids(resource=resource)
        keys = yield from _keys(resource)
        values = {name: [_hash(key, "thread", name) for key in keys] for name, _ in threads}
        found = yield from _finding(resource, [value for some in values.values() for value in some])
        untils = {name: found.until("thread", some) for name, some in values.items()}
        return frozenset(name for name, began in threads if (until := untils[name]) is not None and began <= until)

    @writes("tombstones.lift")
    def lift(self, resource: str, thread: str, messages: Sequence[AnyMessage]) -> Script[int]:
        """Delete the tombstones of the resource, a thread and `messages`, so that these can be stored again. Return how many."""
        check_ids(resource=resource, thread=thread)
        lifted = 0
        for key in (yield from _keys(resource)):
            values = [_hash(key, "resource"), _hash(key, "thread", thread)]
            for one in messages:
                values += [value for _, value in _named_hashes(key, thread, one)]
            for some in chunks(values, _VALUES_A_QUERY):
                lifted += len((yield q.lift(resource=resource, values=some)))
        return lifted


# ---------------------------------------------------------------- pieces of scripts


def finding(
    resource: str, thread: str, messages: Sequence[AnyMessage], *, is_history: bool = False
) -> Script[frozenset[int]]:
    """Return the indexes of the messages that were forgotten."""
    keys = (yield from _keys(resource)) if messages else []
    if not keys:
        return frozenset()
    of_thread = [_hash(key, "thread", thread) for key in keys]
    ids = [[_hash(key, "id", thread, one.id) for key in keys] if one.id else [] for one in messages]
    words = [
        [[_hash(key, "words", thread, mark) for key in keys] for mark in marks_of(one.role, one.parts)]
        for one in messages
    ]
    wanted = [*of_thread, *(value for some in ids for value in some)]
    wanted += [value for marks in words for some in marks for value in some]
    found = yield from _finding(resource, wanted)
    thread_until = found.until("thread", of_thread)
    gone: set[int] = set()
    for place, one in enumerate(messages):
        said_at = None if is_history or one.created_at is None else to_micros(one.created_at)
        near = _NEAR.get(one.role, _NEAR_OTHERS) // timedelta(microseconds=1)
        # An id may be used again, so the hash of an id or a thread counts only for messages from before it was forgotten.
        untils = () if is_history else (thread_until, found.until("id", ids[place]))
        is_named = any(until is not None and (said_at is None or said_at <= until) for until in untils)
        marks = words[place]
        if is_named or (marks and all(found.has_words(some, said_at, near) for some in marks)):
            gone.add(place)
    return frozenset(gone)


def burying_messages(
    resource: str, thread: str, messages: Iterable[AnyMessage], new_id: Callable[[], str], at: int
) -> Script[None]:
    """Store the tombstones of messages."""
    key = yield from _key(resource, new_id, at)
    rows: list[dict[str, object]] = []
    for one in messages:
        said_at = at if one.created_at is None else to_micros(one.created_at)
        for kind, value in _named_hashes(key, thread, one):
            rows.append(_row(resource, kind, value, said_at=0 if kind == "id" else said_at, at=max(at, said_at)))
    # A message may contain the same part twice.
    once = {(row["kind"], row["value"], row["said_at"]): row for row in rows}
    if once:
        yield q.bury.many(list(once.values()))


def burying_all(resource: str, thread: str | None, new_id: Callable[[], str], at: int) -> Script[None]:
    """Store the tombstone of a thread. If the thread is None, store the tombstone of the resource."""
    names = ("resource",) if thread is None else ("thread", thread)
    key = yield from _key(resource, new_id, at)
    yield q.bury(**_row(resource, names[0], _hash(key, *names), said_at=0, at=at))


def _row(resource: str, kind: str, value: str, *, said_at: int, at: int) -> dict[str, object]:
    return {"resource": resource, "kind": kind, "value": value, "said_at": said_at, "forgotten_at": at}


def _keys(resource: str) -> Script[list[str]]:
    return [row.value for row in (yield q.keys(resource=resource))]


def _key(resource: str, new_id: Callable[[], str], at: int) -> Script[str]:
    """Return the key of a resource. It is created when something of the resource is forgotten for the first time."""
    keys = yield from _keys(resource)
    if keys:
        return keys[0]
    key = new_id() + new_id()
    yield q.bury(**_row(resource, "key", key, said_at=0, at=at))
    return key


def _finding(resource: str, values: Sequence[str]) -> Script[_Found]:
    found = _Found()
    for some in chunks(list(dict.fromkeys(values)), _VALUES_A_QUERY):
        for row in (yield q.found(resource=resource, values=some)):
            found.times.setdefault((row.kind, row.value), []).append((row.said_at, row.forgotten_at))
    return found


# ---------------------------------------------------------------- hashes


def _hash(key: str, *names: object) -> str:
    return hmac.new(key.encode(), dumps([str(name) for name in names]).encode(), sha256).hexdigest()[:_DIGITS]


def _named_hashes(key: str, thread: str, one: AnyMessage) -> Iterable[tuple[str, str]]:
    if one.id:
        yield "id", _hash(key, "id", thread, one.id)
    for mark in marks_of(one.role, one.parts):
        yield "words", _hash(key, "words", thread, mark)
