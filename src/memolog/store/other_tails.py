"""What a shared log does not cover of the other threads: the newest messages of those that were active last.

A context shows them beside a log that was read before: where that log ended in a thread, what is shown begins. What is not
read is counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from memolog.domain.codec import unpack
from memolog.domain.message import Message
from memolog.store.rows import message_from_row
from memolog.store.sql import Script, load_queries

__all__ = ["OtherLimits", "OtherTail", "OtherTails", "reading_others"]

q = load_queries("logs")
messages = load_queries("messages")

_FIRST_READ = 6
# A context shows no more of a message.
_LINE_TOKENS = 100


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


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherLimits:
    """How much of the other threads is read."""

    threads: int
    messages: int
    """Of each thread, the newest."""
    tokens: int | None = None
    """What is shown of all of them together: no more is read than may be. None reads every message."""


def reading_others(
    resource: str, log_pk: int, thread_pk: int, ends: Mapping[str, int], limits: OtherLimits
) -> Script[OtherTails]:
    """Read the newest messages of other threads; `ends` says up to where the log that was read covers each."""
    where = {"resource": resource, "log_pk": log_pk, "thread_pk": thread_pk}
    rows = yield q.other_threads(**where, ends=list(ends), limit=limits.threads)
    if not rows:
        # With a limit of 0 nothing is known of the threads that there are.
        return OtherTails()
    pks = [row[0] for row in rows]
    covered = {row[1]: ends.get(row[1], row[2]) for row in rows}
    tails = yield from _newest(pks, covered, limits)
    totals = {place: (threads, said) for place, threads, said in (yield q.count_other_messages(**where, read=pks))}
    found: list[OtherTail] = []
    for pk, name, cursor, alias, title, hinted_title in rows:
        end, earlier = covered[name], 0
        tail = tuple(m for m in tails.get(name, ()) if m.seq > end and m.state == "live" and not m.own)
        tail = tail[-limits.messages :]
        if tail and end == cursor:
            earlier = totals[pk][1] - len(tail)
        elif tail:
            # The log has gone on since it was read.
            earlier = (yield messages.count_said(thread_pk=pk, after=end, before=tail[0].seq))[0][0]
        shown = unpack(title) or unpack(hinted_title)
        found.append(OtherTail(thread=name, alias=alias, title=shown, messages=tail, earlier=earlier))
    more_threads, more_messages = totals.get(0, (0, 0))
    return OtherTails(tails=tuple(found), more_threads=more_threads, more_messages=more_messages)


def _newest(pks: list[int], covered: Mapping[str, int], limits: OtherLimits) -> Script[dict[str, list[Message]]]:
    """Read the newest rows of each thread: as many as may be shown, for most are too old for that."""
    # Some of the newest rows may be gone or our own: twice as many are read as are shown.
    most = 2 * limits.messages
    reach = most if limits.tokens is None else min(_FIRST_READ, most)
    while True:
        tails = dict[str, list[Message]]()
        for row in (yield messages.newest_of(threads=pks, newest=reach)):
            message = message_from_row(row)
            tails.setdefault(message.thread, []).append(message)
        if reach == most or _is_enough(tails.values(), covered, limits.tokens or 0):
            return tails
        reach = min(4 * reach, most)


def _is_enough(tails: Iterable[list[Message]], covered: Mapping[str, int], tokens: int) -> bool:
    """Tell whether what is shown, newest first over all threads, is among these."""
    read = list(tails)
    begun = [tail[0].created_at for tail in read if tail[0].seq > covered[tail[0].thread] + 1]
    if not begun:
        return True
    newer = (m for tail in read for m in tail if m.created_at >= max(begun) and m.state == "live" and not m.own)
    return sum(min(message.tokens, _LINE_TOKENS) for message in newer) >= tokens
