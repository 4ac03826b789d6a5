"""Where a message goes: its thread's row, its number, and the task that the thread is working on.

Knows how the next numbers of a thread are taken. Knows nothing of what is saved there.
"""

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
    """Where a message goes: its thread's key, its number (the last of several), and the task in hand."""

    thread_pk: int
    seq: int
    task_pk: int | None
    task: str | None

    def values(self) -> dict[str, Any]:
        """Return the columns that say where."""
        return {"thread_pk": self.thread_pk, "seq": self.seq, "task_pk": self.task_pk}


def taking_place(resource: str, thread: str, count: int, now: int, *, create: bool) -> Script[Place]:
    """Take the thread's row and its next numbers; return its key, the last of the numbers, and the task in hand."""
    step = q.advance(resource=resource, thread=thread, count=count, now=now)
    rows = yield step
    if not rows and create:
        empty = {"title": None, "metadata": "{}", "overrides": "{}", "cloned_from": None}
        yield threads.create_thread(resource=resource, thread=thread, now=now, **empty)
        rows = yield step
    if not rows:
        raise ThreadNotFound(thread)
    thread_pk, seq, active = rows[0]
    # Most threads work on no task: only then is anything asked.
    held = None if active is None else (yield from held_task(thread_pk, now))
    return Place(thread_pk=thread_pk, seq=seq, task_pk=held[0] if held else None, task=held[1] if held else None)
