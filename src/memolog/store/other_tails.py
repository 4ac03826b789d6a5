"""Read the newest messages of other threads that a shared log does not cover yet, and count the rest."""

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
# A context shows no more tokens of a message.
_LINE_TOKENS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherTail:
    """The newest messages of another thread that the log does not cover."""

    thread: str
    alias: int
    title: str | None
    messages: tuple[Message, ...]
    earlier: int = 0
    """How many uncovered messages come before these."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherTails:
    """The latest active other threads, and how many more there are."""

    tails: tuple[OtherTail, ...] = ()
    more_threads: int = 0
    more_messages: int = 0
    """How many uncovered messages those threads have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherLimits:
    """How much of the other threads to read."""

    threads: int
    messages: int
    """Of each thread, the newest."""
    tokens: int | None = None
    """The tokens shown of all threads together; None reads every message."""


def reading_others(
    resource: str, log_pk: int, thread_pk: int, ends: Mapping[str, int], limits: OtherLimits
) -> Script[OtherTails]:
    """Read the newest messages of other threads; `ends` holds the cursors of the log that was read."""
    where = {"resource": resource, "log_pk": log_pk, "thread_pk": thread_pk}
    rows = yield q.other_threads(**where, ends=list(ends), limit=limits.threads)
    if not rows:
        # A limit of 0 threads reads nothing.
        return OtherTails()
    pks = [row.pk for row in rows]
    covered = {row.id: ends.get(row.id, row.cursor) for row in rows}
    tails = yield from _newest(pks, covered, limits)
    totals = {row.place: row for row in (yield q.count_other_messages(**where, read=pks))}
    found: list[OtherTail] = []
    for row in rows:
        end, earlier = covered[row.id], 0
        tail = tuple(m for m in tails.get(row.id, ()) if m.seq > end and m.state == "live" and not m.own)
        tail = tail[-limits.messages :]
        if tail and end == row.cursor:
            earlier = totals[row.pk].messages - len(tail)
        elif tail:
            # The cursor has moved since the log was read.
            earlier = (yield messages.count_said(thread_pk=row.pk, after=end, before=tail[0].seq))[0].messages
        title = unpack(row.title) or unpack(row.hinted_title)
        found.append(OtherTail(thread=row.id, alias=row.alias, title=title, messages=tail, earlier=earlier))
    rest = totals.get(0)
    return OtherTails(
        tails=tuple(found),
        more_threads=rest.threads if rest else 0,
        more_messages=rest.messages if rest else 0,
    )


def _newest(pks: list[int], covered: Mapping[str, int], limits: OtherLimits) -> Script[dict[str, list[Message]]]:
    """Read as many of the newest rows of each thread as a context can show."""
    # Some rows may be tombstones or our own, so read twice as many as are shown.
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
    """Return whether these rows fill the tokens shown, newest first over all threads."""
    read = list(tails)
    begun = [tail[0].created_at for tail in read if tail[0].seq > covered[tail[0].thread] + 1]
    if not begun:
        return True
    newer = (m for tail in read for m in tail if m.created_at >= max(begun) and m.state == "live" and not m.own)
    return sum(min(message.tokens, _LINE_TOKENS) for message in newer) >= tokens
