"""Create, get, list, update and clone threads. A call for one resource never finds a thread of another resource."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from memolog.compaction.store import copying_compactions
from memolog.core.clock import Clock, to_micros
from memolog.core.exact_json import JsonObject, object_text, pack
from memolog.core.thread import UNCHANGED, ThreadInfo, Unchanged
from memolog.db.engine import Calls, Engine, reads, writes
from memolog.db.queries import Script, load_queries
from memolog.db.rows import thread_from_row
from memolog.db.scope import (
    LAST,
    Page,
    check_id,
    check_ids,
    check_limit,
    page_key,
    page_of,
    reading_thread,
    taking_thread,
)
from memolog.errors import ThreadExists
from memolog.messages.clone import cloning_log, cloning_share
from memolog.working_memory.store import copying_document

q = load_queries("messages/threads")
extracts = load_queries("log/extracts")

# Clones copy this many rows per statement.
_COPY_ROWS = 500


class Threads(Calls):
    """Manages threads. Every call is for one resource."""

    def __init__(self, engine: Engine, clock: Clock, new_id: Callable[[], str]) -> None:
        super().__init__(engine)
        self._clock, self._new_id = clock, new_id

    def _now(self) -> int:
        return to_micros(self._clock.now())

    @writes("threads.create")
    def create(
        self,
        resource: str,
        thread: str | None = None,
        *,
        title: str | None = None,
        metadata: JsonObject | None = None,
        overrides: JsonObject | None = None,
    ) -> Script[ThreadInfo]:
        """Create a thread. Raises ThreadExists if the resource has a thread with this id."""
        check_ids(resource=resource)
        name = check_id("thread", thread) if thread is not None else self._new_id()
        yield from self._creating(resource, name, title, metadata or {}, overrides or {})
        return (yield from _get(resource, name))

    def _creating(
        self,
        resource: str,
        thread: str,
        title: str | None,
        metadata: JsonObject,
        overrides: JsonObject,
        cloned_from: str | None = None,
    ) -> Script[int]:
        """Create a thread and return its key."""
        created = yield q.create_thread(
            resource=resource,
            thread=thread,
            now=self._now(),
            title=pack(title),
            metadata=object_text("The metadata", metadata),
            overrides=object_text("The overrides", overrides),
            cloned_from=cloned_from,
        )
        if not created:
            raise ThreadExists(thread)
        return created[0].pk

    @reads
    def get(self, resource: str, thread: str) -> Script[ThreadInfo]:
        """Return a thread. Raises ThreadNotFound."""
        check_ids(resource=resource, thread=thread)
        return (yield from _get(resource, thread))

    @reads
    def get_all(self, resource: str, threads: Iterable[str]) -> Script[dict[str, ThreadInfo]]:
        """Return threads by id. Raises ThreadNotFound."""
        found: dict[str, ThreadInfo] = {}
        for thread in threads:
            check_ids(resource=resource, thread=thread)
            found[thread] = yield from _get(resource, thread)
        return found

    @reads
    def list(self, resource: str, *, limit: int = 100, after: str | None = None) -> Script[Page[ThreadInfo]]:
        """Return the threads with the newest activity first. Pass `next` of the page as `after` for the next page."""
        check_ids(resource=resource)
        check_limit(limit)
        before_at, before_pk = page_key(after, (LAST, LAST))
        rows = yield q.list_threads(resource=resource, limit=limit + 1, before_at=before_at, before_pk=before_pk)
        shown, more = page_of(rows, limit, "updated_at", "pk")
        return Page(items=tuple(map(thread_from_row, shown)), next=more)

    @reads
    def count(self, resource: str) -> Script[int]:
        """Return the number of threads of a resource."""
        check_ids(resource=resource)
        return (yield q.count_threads(resource=resource))[0].threads

    @writes("threads.update")
    def update(
        self,
        resource: str,
        thread: str,
        *,
        title: str | Unchanged | None = UNCHANGED,
        metadata: JsonObject | Callable[[JsonObject], JsonObject] | None = None,
        overrides: JsonObject | None = None,
    ) -> Script[ThreadInfo]:
        """Change the title, the metadata or the overrides. Arguments that are not given leave their field unchanged.

        `metadata` may be a function of the stored metadata. It runs in the transaction. If it raises an error, nothing changes.
        """
        check_ids(resource=resource, thread=thread)
        yield q.lock_thread(resource=resource, thread=thread)
        old = yield from _get(resource, thread)
        yield q.update_thread(
            resource=resource,
            thread=thread,
            title=pack(old.title if isinstance(title, Unchanged) else title),
            metadata=object_text("The metadata", _changed(old.metadata, metadata)),
            overrides=object_text("The overrides", old.overrides if overrides is None else overrides),
            now=self._now(),
        )
        return (yield from _get(resource, thread))

    @writes("threads.clone")
    def clone(self, resource: str, thread: str, new_thread: str | None = None) -> Script[ThreadInfo]:
        """Copy a thread into a new thread of the same resource."""
        check_ids(resource=resource, thread=thread)
        name = check_id("thread", new_thread) if new_thread is not None else self._new_id()
        taken = yield from taking_thread(resource, thread)
        source_pk, end = taken.pk, taken.last_seq
        source = yield from _get(resource, thread)
        target_pk = yield from self._creating(
            resource, name, source.title, source.metadata, source.overrides, cloned_from=thread
        )
        now = self._now()
        yield from self._copy(source_pk, target_pk, end)
        yield q.set_last_seq(thread_pk=target_pk, last_seq=end)
        yield extracts.copy_extracts(source_pk=source_pk, target_pk=target_pk)
        yield from copying_document(resource, source_pk, target_pk, now)
        yield from cloning_log(resource, source_pk, target_pk, self._new_id, now)
        yield from cloning_share(resource, source_pk, target_pk, thread, self._new_id, now)
        return (yield from _get(resource, name))

    def _copy(self, source_pk: int, target_pk: int, end: int) -> Script[None]:
        """Copy rows in batches. All rows of one message get the same new id."""
        ids: dict[str, str] = {}
        compactions = yield from copying_compactions(source_pk, target_pk, self._new_id)
        after = 0
        while after < end:
            rows = yield q.copy_messages(thread_pk=source_pk, after=after, limit=_COPY_ROWS)
            copies: list[dict[str, Any]] = []
            for row in rows:
                if row.id not in ids:
                    ids[row.id] = self._new_id()
                changed = {
                    "thread_pk": target_pk,
                    "id": ids[row.id],
                    "compaction_pk": compactions.get(row.compaction_pk),
                }
                copies.append(row._asdict() | changed)
            yield q.insert_copy.many(copies)
            after = rows[-1].seq


def _changed(old: JsonObject, new: JsonObject | Callable[[JsonObject], JsonObject] | None) -> JsonObject:
    if new is None:
        return old
    return new(old) if callable(new) else new


def _get(resource: str, thread: str) -> Script[ThreadInfo]:
    return thread_from_row((yield from reading_thread(resource, thread)))


def listing_resources(*, also_forgotten: bool = False) -> Script[tuple[str, ...]]:
    """Return the ids of all resources. `also_forgotten` adds resources of which only tombstones are stored."""
    rows = yield q.list_resources()
    forgotten = (yield q.list_forgotten()) if also_forgotten else ()
    return tuple(sorted({row.resource for row in (*rows, *forgotten)}))
