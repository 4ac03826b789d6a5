"""What a shared log does not cover of the other threads: the newest messages of those that were active last.

Knows that a context shows them beside a log that was read before: where that log ended in a thread, what is shown begins.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from memolog.domain.codec import unpack
from memolog.domain.message import Message
from memolog.store.rows import message_from_row
from memolog.store.scope import LAST
from memolog.store.sql import Script, load_queries

__all__ = ["OtherTail", "reading_others"]

q = load_queries("logs")
messages = load_queries("messages")


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherTail:
    """What the log does not cover of another thread: its newest messages."""

    thread: str
    alias: int
    title: str | None
    messages: tuple[Message, ...]


def reading_others(
    resource: str, log_pk: int, thread_pk: int, ends: Mapping[str, int], *, threads: int, newest: int
) -> Script[tuple[OtherTail, ...]]:
    """Read the newest messages of other threads; `ends` says up to where the log that was read covers each."""
    where = {"resource": resource, "log_pk": log_pk, "thread_pk": thread_pk}
    rows = yield q.other_threads(**where, ends=list(ends), limit=threads)
    found: list[OtherTail] = []
    for _, name, cursor, alias, title, hinted_title in rows:
        end = ends.get(name, cursor)
        step = messages.before(resource=resource, thread=name, before=LAST, limit=newest)
        tail = tuple(m for m in map(message_from_row, reversed((yield step))) if m.seq > end)
        shown = unpack(title) or unpack(hinted_title)
        found.append(OtherTail(thread=name, alias=alias, title=shown, messages=tail))
    return tuple(found)
