"""Recognise forgotten messages that come back from transcripts, from clients that send their history again, or from exports.

A tombstone is a keyed hash of a thread's name, of a message's id, or of a part of a message. Each resource has a random key,
which is part of its exports. New messages are never compared with tombstones.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Final, Protocol

from memolog.core.clock import to_micros
from memolog.core.exact_json import dumps
from memolog.core.message import Part, Role
from memolog.db.engine import Engine
from memolog.db.queries import Script, load_queries
from memolog.db.scope import check_ids, chunks
from memolog.transfer.conversation import marks_of

q = load_queries("messages/tombstones")

_VALUES_A_QUERY = 256
_DIGITS = 40
# How far apart two records of the same words may be: a prompt has the time when it was sent, an answer that of its end.
_NEAR: Final[dict[str, timedelta]] = {"user": timedelta(minutes=2)}
_NEAR_OTHERS: Final = timedelta(minutes=10)


class Saying(Protocol):
    """A stored message, or one that comes from outside."""

    @property
    def id(self) -> str | None:
        """Return its id, if it has one."""
        ...

    @property
    def role(self) -> Role:
        """Return its role."""
        ...

    @property
    def parts(self) -> tuple[Part, ...]:
        """Return its parts."""
        ...

    @property
    def created_at(self) -> datetime | None:
        """Return its time, if known."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """Tombstones by kind and value: when it was said, and until when it is forgotten."""

    times: dict[tuple[str, str], list[tuple[int, int]]] = field(
        default_factory=dict[tuple[str, str], list[tuple[int, int]]]
    )

    def until(self, kind: str, values: Iterable[str]) -> int | None:
        """Return the moment up to which something is forgotten; None if it is not."""
        return max((until for value in values for _, until in self.times.get((kind, value), ())), default=None)

    def has_words(self, values: Iterable[str], said_at: int | None, near: int) -> bool:
        """Return whether something said at about this time was forgotten; at any time if the time is not known."""
        return any(
            said_at is None or (abs(said_at - then) <= near and said_at <= until)
            for value in values
            for then, until in self.times.get(("words", value), ())
        )


class Tombstones:
    """Recognises what was forgotten, one resource at a time."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def find(
        self, resource: str, thread: str, messages: Sequence[Saying], *, is_history: bool = False
    ) -> frozenset[int]:
        """Return the indexes of the messages that were forgotten in this thread, or with it.

        Messages from after the forgetting are new. `is_history`: messages that a client sends again, without ids or times;
        they are recognised by their content.
        """
        check_ids(resource=resource, thread=thread)
        return await self._engine.read(lambda: finding(resource, thread, messages, is_history=is_history), brief=False)

    async def forgotten_until(self, resource: str) -> int | None:
        """Return the moment up to which a resource is forgotten as a whole, in microseconds; None if it was not."""
        check_ids(resource=resource)

        def script() -> Script[int | None]:
            keys = yield from _keys(resource)
            values = [_hash(key, "resource") for key in keys]
            return (yield from _finding(resource, values)).until("resource", values)

        return await self._engine.read(script)

    async def threads(self, resource: str, threads: Sequence[tuple[str, int]]) -> frozenset[str]:
        """Return the threads, given with their beginnings, that were forgotten since."""
        check_ids(resource=resource)

        def script() -> Script[frozenset[str]]:
            keys = yield from _keys(resource)
            values = {name: [_hash(key, "thread", name) for key in keys] for name, _ in threads}
            found = yield from _finding(resource, [value for some in values.values() for value in some])
            untils = {name: found.until("thread", some) for name, some in values.items()}
            return frozenset(name for name, began in threads if (until := untils[name]) is not None and began <= until)

        return await self._engine.read(script)

    async def lift(self, resource: str, thread: str, messages: Sequence[Saying]) -> int:
        """Delete the tombstones of a thread and of these messages, so that they can come back; returns how many."""
        check_ids(resource=resource, thread=thread)

        def script() -> Script[int]:
            lifted = 0
            for key in (yield from _keys(resource)):
                values = [_hash(key, "resource"), _hash(key, "thread", thread)]
                for one in messages:
                    values += [value for _, value in _named_hashes(key, thread, one)]
                for some in chunks(values, _VALUES_A_QUERY):
                    lifted += len((yield q.lift(resource=resource, values=some)))
            return lifted

        return await self._engine.write(script, name="tombstones.lift")


# ---------------------------------------------------------------- pieces of scripts


def finding(
    resource: str, thread: str, messages: Sequence[Saying], *, is_history: bool = False
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
        # By name or id only messages from before the forgetting, since an id may be used again.
        untils = () if is_history else (thread_until, found.until("id", ids[place]))
        is_named = any(until is not None and (said_at is None or said_at <= until) for until in untils)
        marks = words[place]
        if is_named or (marks and all(found.has_words(some, said_at, near) for some in marks)):
            gone.add(place)
    return frozenset(gone)


def burying_messages(
    resource: str, thread: str, messages: Iterable[Saying], new_id: Callable[[], str], at: int
) -> Script[None]:
    """Store tombstones of messages."""
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


def burying_thread(resource: str, thread: str, new_id: Callable[[], str], at: int) -> Script[None]:
    """Store the tombstone of a thread."""
    key = yield from _key(resource, new_id, at)
    yield q.bury(**_row(resource, "thread", _hash(key, "thread", thread), said_at=0, at=at))


def burying_resource(resource: str, new_id: Callable[[], str], at: int) -> Script[None]:
    """Store the tombstone of a resource."""
    key = yield from _key(resource, new_id, at)
    yield q.bury(**_row(resource, "resource", _hash(key, "resource"), said_at=0, at=at))


def _row(resource: str, kind: str, value: str, *, said_at: int, at: int) -> dict[str, object]:
    return {"resource": resource, "kind": kind, "value": value, "said_at": said_at, "forgotten_at": at}


def _keys(resource: str) -> Script[list[str]]:
    return [row.value for row in (yield q.keys(resource=resource))]


def _key(resource: str, new_id: Callable[[], str], at: int) -> Script[str]:
    """Return the key of a resource; creates it when something of the resource is forgotten for the first time."""
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


def _named_hashes(key: str, thread: str, one: Saying) -> Iterable[tuple[str, str]]:
    if one.id:
        yield "id", _hash(key, "id", thread, one.id)
    for mark in marks_of(one.role, one.parts):
        yield "words", _hash(key, "words", thread, mark)
