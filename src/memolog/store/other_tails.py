"""What a shared log does not cover of the other threads: the newest messages of those that were active last.

Knows that a context shows them beside a log that was read before: where that log ended in a thread, what is shown begins.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from memolog.domain.codec import unpack
from memolog.domain.message import Message
from memolog.store.rows import message_from_row
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
    tails = dict[str, list[Message]]()
    if rows:
        for row in (yield messages.newest_of(threads=[row[0] for row in rows], newest=newest)):
            message = message_from_row(row)
            tails.setdefault(message.thread, []).append(message)
    return tuple(
        OtherTail(
            thread=name,
            alias=alias,
            title=unpack(title) or unpack(hinted_title),
            messages=tuple(m for m in tails.get(name, ()) if m.seq > ends.get(name, cursor)),
        )
        for _, name, cursor, alias, title, hinted_title in rows
    )
