"""Allocate sequence numbers for messages of a thread, with the task that the thread is working on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from memolog.domain.errors import ThreadNotFound
from memolog.store.sql import Script, load_queries
from memolog.store.task_claims import held_task

__all__ = ["Place", "taking_place"]

q = load_queries("messages")
threads = load_queries("threads")


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A place for messages: the key of the thread, the last number allocated, and the task that the thread works on."""

    thread_pk: int
    seq: int
    task_pk: int | None
    task: str | None

    def values(self) -> dict[str, Any]:
        """Return the values of the columns."""
        return {"thread_pk": self.thread_pk, "seq": self.seq, "task_pk": self.task_pk}


def taking_place(resource: str, thread: str, count: int, now: int, *, create: bool) -> Script[Place]:
    """Lock the thread and allocate its next numbers; creates a missing thread if `create`."""
    step = q.advance(resource=resource, thread=thread, count=count, now=now)
    rows = yield step
    if not rows and create:
        empty = {"title": None, "metadata": "{}", "overrides": "{}", "cloned_from": None}
        yield threads.create_thread(resource=resource, thread=thread, now=now, **empty)
        rows = yield step
    if not rows:
        raise ThreadNotFound(thread)
    row = rows[0]
    held = None if row.active_task_pk is None else (yield from held_task(row.pk, now))
    return Place(thread_pk=row.pk, seq=row.last_seq, task_pk=held.pk if held else None, task=held.id if held else None)
