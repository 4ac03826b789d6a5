"""What a shared log does not cover of the other threads: the newest messages of those that were active last.

A context shows them beside a log that was read before: where that log ended in a thread, what is shown begins. What is not
read is counted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from memolog.domain.codec import unpack
from memolog.domain.message import Message
from memolog.store.rows import message_from_row
from memolog.store.sql import Script, load_queries

__all__ = ["OtherTail", "OtherTails", "reading_others"]

q = load_queries("logs")
messages = load_queries("messages")


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherTail:
    """What the log does not cover of another thread: its newest messages."""

    thread: str
    alias: int
    title: str | None
    messages: tuple[Message, ...]
    earlier: int = 0
    """How many uncovered messages come before these."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherTails:
    """The other threads that were active last, and how many more there are."""

    tails: tuple[OtherTail, ...] = ()
    more_threads: int = 0
    more_messages: int = 0
    """How many uncovered messages those threads have."""


def reading_others(
    resource: str, log_pk: int, thread_pk: int, ends: Mapping[str, int], *, threads: int, newest: int
) -> Script[OtherTails]:
    """Read the newest messages of other threads; `ends` says up to where the log that was read covers each."""
    where = {"resource": resource, "log_pk": log_pk, "thread_pk": thread_pk}
    rows = yield q.other_threads(**where, ends=list(ends), limit=threads)
    tails = dict[str, list[Message]]()
    if rows:
        # Some of the newest rows may be gone or our own: twice as many are read as are shown.
        for row in (yield messages.newest_of(threads=[row[0] for row in rows], newest=2 * newest)):
            message = message_from_row(row)
            tails.setdefault(message.thread, []).append(message)
    found: list[OtherTail] = []
    for pk, name, cursor, alias, title, hinted_title in rows:
        end, earlier = ends.get(name, cursor), 0
        read = tails.get(name, [])
        said = [m for m in read if m.seq > end and m.state == "live" and not m.own]
        tail = tuple(said[-newest:])
        if tail and (len(said) > newest or read[0].seq > end + 1):
            earlier = (yield messages.count_said(thread_pk=pk, after=end, before=tail[0].seq))[0][0]
        shown = unpack(title) or unpack(hinted_title)
        found.append(OtherTail(thread=name, alias=alias, title=shown, messages=tail, earlier=earlier))
    if len(rows) < threads:
        return OtherTails(tails=tuple(found))
    more = (yield q.count_other_messages(**where, read=[row[0] for row in rows]))[0]
    return OtherTails(tails=tuple(found), more_threads=more[0], more_messages=more[1])
