"""Threads in the store: create, get, list, update, clone, delete.

Knows the rows of threads. Every call names its resource; a foreign thread answers as if it did not exist.
"""

# Scripts are made at every call; their annotations need not be evaluated each time.
from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from memolog.domain.clock import Clock
from memolog.domain.codec import JsonObject, object_text, pack
from memolog.domain.errors import InputError, ThreadExists, ThreadNotFound
from memolog.domain.moments import to_micros
from memolog.domain.thread import Thread
from memolog.store.compactions import copying_compactions
from memolog.store.copies import cloning_log, cloning_share
from memolog.store.engine import Engine
from memolog.store.extracts import cloning_extracts
from memolog.store.rows import thread_from_row
from memolog.store.scope import LAST, Page, check_id, check_limit, page_key, page_token
from memolog.store.sql import Script, load_queries
from memolog.store.withdrawals import taking_out
from memolog.store.working_memory import copying_document

__all__ = ["Threads", "listing_resources"]

q = load_queries("threads")

_COPY_ROWS = 500
_COPIED: Final[tuple[str, ...]] = (
    *("seq", "id", "continuation", "role", "tokens", "created_at", "state", "own", "level"),
    *("zone", "speaker", "pairs", "metadata", "parts", "injection", "search", "pruned", "compaction_pk"),
)


class _Unchanged:
    """Stands for an argument that was not given, where None means something."""


UNCHANGED: Final = _Unchanged()


class Threads:
    """The threads of every resource, one resource at a time."""

    def __init__(self, engine: Engine, clock: Clock, new_id: Callable[[], str]) -> None:
        self._engine, self._clock, self._new_id = engine, clock, new_id

    def _now(self) -> int:
        return to_micros(self._clock.now())

    async def create(
        self,
        resource: str,
        thread: str | None = None,
        *,
        title: str | None = None,
        metadata: JsonObject | None = None,
        overrides: JsonObject | None = None,
    ) -> Thread:
        """Create a thread; raises ThreadExists if this resource has used the id."""
        check_id("resource", resource)
        name = check_id("thread", thread) if thread is not None else self._new_id()
        values = {
            "resource": resource,
            "thread": name,
            "now": self._now(),
            "title": pack(title),
            "metadata": object_text("The metadata", metadata or {}),
            "overrides": object_text("The overrides", overrides or {}),
            "cloned_from": None,
        }

        def script() -> Script[Thread]:
            created = yield q.create_thread(**values)
            if not created:
                raise ThreadExists(name)
            return (yield from _get(resource, name))

        return await self._engine.write(script, name="threads.create")

    async def get(self, resource: str, thread: str) -> Thread:
        """Return a thread; raises ThreadNotFound."""
        check_id("resource", resource)
        check_id("thread", thread)
        return await self._engine.read(lambda: _get(resource, thread))

    async def list(self, resource: str, *, limit: int = 100, after: str | None = None) -> Page[Thread]:
        """Return the threads with the newest activity first; pass `next` as `after` for more."""
        check_id("resource", resource)
        check_limit(limit)
        before_at, before_pk = page_key(after, (LAST, LAST))

        def script() -> Script[Page[Thread]]:
            values: dict[str, Any] = {"before_at": before_at, "before_pk": before_pk}
            rows = yield q.list_threads(resource=resource, limit=limit + 1, **values)
            shown = rows[:limit]
            more = page_token((shown[-1][4], shown[-1][0])) if len(rows) > limit else None
            return Page(items=tuple(thread_from_row(row) for row in shown), next=more)

        return await self._engine.read(script)

    async def count(self, resource: str) -> int:
        """Return how many threads a resource has."""
        check_id("resource", resource)

        def script() -> Script[int]:
            rows = yield q.count_threads(resource=resource)
            return rows[0][0]

        return await self._engine.read(script)

    async def update(
        self,
        resource: str,
        thread: str,
        *,
        title: str | _Unchanged | None = UNCHANGED,
        metadata: JsonObject | Callable[[JsonObject], JsonObject] | None = None,
        overrides: JsonObject | None = None,
    ) -> Thread:
        """Change the title, the metadata or the overrides; what is not given stays.

        Metadata may be a function of what is stored, for those who change a part of it: nobody writes in between, and what
        it raises leaves everything as it was.
        """
        check_id("resource", resource)
        check_id("thread", thread)

        def script() -> Script[Thread]:
            yield q.lock_thread(resource=resource, thread=thread)
            old = yield from _get(resource, thread)
            new = replace(
                old,
                title=old.title if isinstance(title, _Unchanged) else title,
                metadata=_changed(old.metadata, metadata),
                overrides=old.overrides if overrides is None else overrides,
            )
            yield q.update_thread(
                resource=resource,
                thread=thread,
                title=pack(new.title),
                metadata=object_text("The metadata", new.metadata),
                overrides=object_text("The overrides", new.overrides),
                now=self._now(),
            )
            return (yield from _get(resource, thread))

        return await self._engine.write(script, name="threads.update")

    async def clone(
        self, resource: str, thread: str, new_thread: str | None = None, *, up_to: int | None = None
    ) -> Thread:
        """Copy a thread's messages, up to a sequence number if given, into a new thread of the same resource."""
        check_id("resource", resource)
        check_id("thread", thread)
        name = check_id("thread", new_thread) if new_thread is not None else self._new_id()
        if up_to is not None and up_to < 0:
            raise InputError(f"A thread cannot be cloned up to {up_to}.", then="Pass a sequence number.")

        def script() -> Script[Thread]:
            locked = yield q.lock_thread(resource=resource, thread=thread)
            if not locked:
                raise ThreadNotFound(thread)
            source_pk, last = locked[0]
            source = yield from _get(resource, thread)
            created = yield q.create_thread(
                resource=resource,
                thread=name,
                now=self._now(),
                title=pack(source.title),
                metadata=object_text("The metadata", source.metadata),
                overrides=object_text("The overrides", source.overrides),
                cloned_from=thread,
            )
            if not created:
                raise ThreadExists(name)
            end = last if up_to is None else min(last, up_to)
            yield from self._copy(source_pk, created[0][0], end)
            yield q.set_last_seq(thread_pk=created[0][0], last_seq=end)
            yield from cloning_extracts(source_pk, created[0][0], end)
            yield from copying_document(resource, source_pk, created[0][0], self._now())
            yield from cloning_log(resource, source_pk, created[0][0], end, self._new_id, self._now())
            yield from cloning_share(resource, source_pk, created[0][0], thread, end, self._new_id, self._now())
            return (yield from _get(resource, name))

        return await self._engine.write(script, name="threads.clone")

    def _copy(self, source_pk: int, target_pk: int, end: int) -> Script[None]:
        """Copy rows in batches. Continuations of one message keep sharing one id, a new one."""
        ids: dict[str, str] = {}
        compactions = yield from copying_compactions(source_pk, target_pk, end, self._new_id)
        after = 0
        while after < end:
            rows = yield q.copy_messages(thread_pk=source_pk, after=after, up_to=end, limit=_COPY_ROWS)
            copies: list[dict[str, object]] = []
            for row in rows:
                copy: dict[str, object] = dict(zip(_COPIED, row, strict=True))
                copy["thread_pk"] = target_pk
                copy["compaction_pk"] = compactions.get(row[-1])
                old = str(copy["id"])
                if old not in ids:
                    ids[old] = self._new_id()
                copy["id"] = ids[old]
                copies.append(copy)
            yield q.insert_copy.many(copies)
            after = rows[-1][0]

    async def delete(self, resource: str, thread: str) -> int:
        """Delete a thread with all that hangs on it; returns how many messages went. Raises ThreadNotFound."""
        check_id("resource", resource)
        check_id("thread", thread)
        now = self._now()

        def script() -> Script[int]:
            locked = yield q.lock_thread(resource=resource, thread=thread)
            if not locked:
                raise ThreadNotFound(thread)
            yield from taking_out(locked[0][0], now)
            gone = yield q.delete_thread(resource=resource, thread=thread)
            return gone[0][0]

        return await self._engine.write(script, name="threads.delete")


def _changed(old: JsonObject, new: JsonObject | Callable[[JsonObject], JsonObject] | None) -> JsonObject:
    if new is None:
        return old
    return new(old) if callable(new) else new


def _get(resource: str, thread: str) -> Script[Thread]:
    rows = yield q.get_thread(resource=resource, thread=thread)
    if not rows:
        raise ThreadNotFound(thread)
    return thread_from_row(rows[0])


def listing_resources(*, also_forgotten: bool = False) -> Script[tuple[str, ...]]:
    """Return whose memory there is, or was: ids, and nothing of what was said."""
    rows = yield q.list_resources()
    forgotten = (yield q.list_forgotten()) if also_forgotten else ()
    return tuple(sorted({row[0] for row in (*rows, *forgotten)}))
