"""Compactions in the store: which messages are next, compact, deepen, restore, prune.

Knows the three texts of a message: raw is never changed, the other two are replaced by a batch's summary and brought back byte
for byte. Each write is one transaction, and refuses what is no longer as it was read. Knows nothing of how summaries are made.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final

from memolog.domain.codec import dumps, loads, pack, unpack
from memolog.domain.compaction import Compaction, Pruned
from memolog.domain.errors import Conflict, InputError, NotFound, ThreadNotFound
from memolog.domain.message import Message
from memolog.domain.moments import from_micros, to_micros
from memolog.domain.observation import Priority, Span
from memolog.store.engine import Engine
from memolog.store.rows import message_from_row
from memolog.store.scope import check_id, check_limit, clamp
from memolog.store.sql import Row, Script, load_queries

__all__ = ["Candidate", "Compactions", "Noted", "RowTexts", "copying_compactions", "undoing_compactions"]

q = load_queries("compactions")
threads = load_queries("threads")

_AT_ONCE: Final = 500
_ROW_CHARACTERS: Final = 100
_FEW_CHARACTERS: Final = 50_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A message, and whether it may be compacted now."""

    message: Message
    is_free: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RowTexts:
    """What is indexed of one message at the first level, and at the second."""

    seq: int
    search: str | None
    brief: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Noted:
    """A line of the log about messages of a span, and the group it stands in."""

    id: str
    text: str
    priority: Priority
    seqs: tuple[int, ...]
    handle: str


class Compactions:
    """The compactions of every resource, one resource at a time."""

    def __init__(self, engine: Engine, new_id: Callable[[], str]) -> None:
        self._engine, self._new_id = engine, new_id

    # ------------------------------------------------------------ reading

    async def candidates(
        self, resource: str, thread: str, *, after: int = 0, again: bool = False, limit: int = 100
    ) -> tuple[Candidate, ...]:
        """Return the rows from the oldest that may be compacted on, tombstones and all that follows too.

        What was brought back by hand stays as it is, unless it is asked for `again`.
        """
        _check(resource, thread)
        values = {"after": clamp(after), "again": int(again), "limit": check_limit(limit)}

        def script() -> Script[tuple[Candidate, ...]]:
            rows = yield q.candidates(resource=resource, thread=thread, **values)
            if not rows:
                yield from _expect(resource, thread)
            return tuple(
                Candidate(
                    message=message_from_row(row[:21]),
                    is_free=row[8] != "live" or (row[10] == 0 and not row[19] and (again or row[21] is None)),
                )
                for row in rows
            )

        return await self._engine.read(script)

    async def due(self, resource: str, thread: str, *, keep: int) -> tuple[int, int]:
        """Return where the last batch ends, and how many messages follow it, the newest `keep` left alone."""
        _check(resource, thread)

        def script() -> Script[tuple[int, int]]:
            rows = yield q.due(resource=resource, thread=thread, keep=keep)
            return (rows[0][0], rows[0][1]) if rows else (0, 0)

        return await self._engine.read(script)

    async def list(self, resource: str, thread: str) -> tuple[Compaction, ...]:
        """Return the compactions of a thread in the order of its messages, also those that were restored."""
        _check(resource, thread)

        def script() -> Script[tuple[Compaction, ...]]:
            rows = yield q.compactions_of(resource=resource, thread=thread)
            if not rows:
                yield from _expect(resource, thread)
            return tuple(map(_compaction, rows))

        return await self._engine.read(script)

    async def noted(self, resource: str, thread: str, span: Span, *, shared: bool = False) -> tuple[Noted, ...]:
        """Return what the thread's log, or the shared one, says about a span."""
        _check(resource, thread)

        def script() -> Script[tuple[Noted, ...]]:
            rows = yield q.lines_over(
                resource=resource, thread=thread, first_seq=span.first, last_seq=span.last, shared=int(shared)
            )
            found: dict[int, Noted] = {}
            for pk, name, text, priority, first, last, handle, _ in rows:
                seqs = tuple(range(max(first, span.first), min(last, span.last) + 1))
                known = found.get(pk)
                found[pk] = (
                    replace(known, seqs=(*known.seqs, *seqs))
                    if known
                    else Noted(id=name, text=unpack(text) or "", priority=priority, seqs=seqs, handle=handle)
                )
            return tuple(found.values())

        return await self._engine.read(script)

    # ------------------------------------------------------------ compacting

    async def compact(
        self, resource: str, thread: str, rows: Sequence[RowTexts], *, summary: str, now: datetime
    ) -> Compaction:
        """Compact a batch of messages to the first level; raises Conflict if one of them is no longer as it was."""
        _check(resource, thread)
        at, name = to_micros(now), self._new_id()
        if not rows or not summary.strip():
            raise InputError(
                "There is nothing to compact.", then="Pass messages, and the summary that stands for them."
            )

        def script() -> Script[Compaction]:
            thread_pk = yield from _lock(resource, thread)
            span = Span(first=rows[0].seq, last=rows[-1].seq)
            where = {"thread_pk": thread_pk, "first_seq": span.first, "last_seq": span.last}
            stored = {row[0]: row for row in (yield q.rows_of_span(**where))}
            before = [_before(stored.get(row.seq), row) for row in rows]
            # Who reads rows between these must find none that is live: it would be hidden without being summed up.
            if {seq for seq, row in stored.items() if row[1] == "live"} != {row.seq for row in rows}:
                raise _changed()
            made = yield q.insert_compaction(
                id=name, level=1, now=at, restored_at=None, summary=pack(summary), before=dumps(before), **where
            )
            values = [
                {
                    "thread_pk": thread_pk,
                    "seq": row.seq,
                    "injection": pack(summary),
                    "search": pack(row.search),
                    "compaction_pk": made[0][0],
                }
                for row in rows
            ]
            yield q.compact_message.many(values)
            return Compaction(
                id=name, thread=thread, span=span, level=1, summary=summary, created_at=now, messages=len(rows)
            )

        # Every row gets the summary.
        is_brief = len(rows) * (len(summary) + _ROW_CHARACTERS) <= _FEW_CHARACTERS
        return await self._engine.write(script, name="compactions.compact", brief=is_brief)

    async def deepen(self, resource: str, thread: str, *, keep: int) -> int:
        """Take batches with so many newer messages to the second level; returns how many messages that were."""
        _check(resource, thread)

        def script() -> Script[int]:
            thread_pk = yield from _lock(resource, thread)
            deepened = 0
            for row in (yield q.due_for_depth(resource=resource, thread=thread, keep=keep)):
                texts = [
                    {"thread_pk": thread_pk, "seq": old["seq"], "search": old["brief"], "compaction_pk": row[0]}
                    for old in loads(row[9])
                ]
                yield q.deepen_message.many(texts)
                yield q.set_level(compaction_pk=row[0], level=2)
                deepened += len(texts)
            return deepened

        return await self._engine.write(script, name="compactions.deepen")

    async def restore(self, resource: str, thread: str, compaction: str, *, now: datetime) -> Compaction:
        """Bring the messages of a batch back as they were, byte for byte. Restoring twice is harmless."""
        _check(resource, thread)
        check_id("compaction", compaction)
        at = to_micros(now)

        def script() -> Script[Compaction]:
            thread_pk = yield from _lock(resource, thread)
            rows = yield q.compaction_by_id(resource=resource, thread=thread, id=compaction)
            if not rows:
                raise NotFound(
                    f"There is no compaction {compaction} in thread {thread}.", then="See compactions() for their ids."
                )
            found = _compaction(rows[0])
            if found.restored_at is not None:
                return found
            pruned = yield q.pruned_in(thread_pk=thread_pk, compaction_pk=rows[0][0])
            if pruned[0][0]:
                raise InputError(
                    f"Compaction {compaction} cannot be restored.",
                    why=f"The raw text of {pruned[0][0]} of its messages was pruned.",
                    then="Its summary and the log are what is left of them.",
                )
            yield from _restoring(rows[0])
            yield q.mark_restored(compaction_pk=rows[0][0], now=at)
            return replace(found, restored_at=now)

        return await self._engine.write(script, name="compactions.restore")

    # ------------------------------------------------------------ pruning

    async def prune(
        self, resource: str, thread: str, *, days: int, now: datetime, left: Callable[[str], str]
    ) -> Pruned:
        """Remove the raw text of compacted messages that are old, observed and linked to no open task.

        What is indexed of a short message is its raw text: `left` says what of it stays.
        """
        _check(resource, thread)
        youngest = to_micros(now - timedelta(days=days))

        def script() -> Script[Pruned]:
            thread_pk = yield from _lock(resource, thread)
            kept = {"young": 0, "not_observed": 0, "open_task": 0, "not_compacted": 0}
            chosen: list[int] = []
            for seq, created_at, level, is_observed, is_open in (yield q.prunable(thread_pk=thread_pk)):
                reasons = {
                    "young": created_at > youngest,
                    "not_observed": not is_observed,
                    "open_task": bool(is_open),
                    "not_compacted": level == 0,
                }
                reason = next((name for name, speaks_against in reasons.items() if speaks_against), None)
                if reason is None:
                    chosen.append(seq)
                else:
                    kept[reason] += 1
            yield from _pruning(thread_pk, chosen, left)
            return Pruned(messages=len(chosen), is_clean=False, **kept)

        return await self._engine.write(script, name="compactions.prune")


# ---------------------------------------------------------------- pieces of scripts


def undoing_compactions(thread_pk: int, first: int, last: int) -> Script[None]:
    """Bring back every batch over these messages and forget its summary, which may speak of them."""
    for row in (yield q.compactions_over(thread_pk=thread_pk, first_seq=first, last_seq=last)):
        if row[8] is None:
            yield from _restoring(row)
            yield q.clear_pruned(thread_pk=thread_pk, compaction_pk=row[0])
        yield q.delete_compaction(compaction_pk=row[0])


def copying_compactions(
    source_pk: int, target_pk: int, up_to: int, new_id: Callable[[], str]
) -> Script[dict[int, int]]:
    """Copy the compactions of a thread to its clone; returns the key of each copy by that of its original."""
    copied: dict[int, int] = {}
    for pk, first, last, level, created_at, restored_at, summary, before in (
        yield q.copy_compactions(thread_pk=source_pk, up_to=up_to)
    ):
        made = yield q.insert_compaction(
            id=new_id(),
            thread_pk=target_pk,
            first_seq=first,
            last_seq=min(last, up_to),
            level=level,
            now=created_at,
            restored_at=restored_at,
            summary=summary,
            before=dumps([old for old in loads(before) if old["seq"] <= up_to]),
        )
        copied[pk] = made[0][0]
    return copied


def _pruning(thread_pk: int, seqs: Sequence[int], left: Callable[[str], str]) -> Script[None]:
    """Remove the raw text of some messages wherever it stands: in the rows, and in what their batches would write back."""
    if not seqs:
        return
    for start in range(0, len(seqs), _AT_ONCE):
        rows = yield q.indexed_texts(thread_pk=thread_pk, seqs=seqs[start : start + _AT_ONCE])
        texts = [{"thread_pk": thread_pk, "seq": seq, "search": _left_of(search, left)} for seq, search in rows]
        yield q.prune_message.many(texts)
    gone = set(seqs)
    # Also of batches that were restored, and compacted again.
    for row in (yield q.compactions_over(thread_pk=thread_pk, first_seq=seqs[0], last_seq=seqs[-1])):
        before = [_without_raw(old, left) if old["seq"] in gone else old for old in loads(row[9])]
        yield q.set_before(compaction_pk=row[0], before=dumps(before))


def _without_raw(old: dict[str, Any], left: Callable[[str], str]) -> dict[str, Any]:
    return {**old, "injection": None, "search": None, "brief": _left_of(old["brief"], left)}


def _left_of(packed: str | None, left: Callable[[str], str]) -> str | None:
    text = unpack(packed)
    return None if text is None else pack(left(text))


def _restoring(row: Row) -> Script[None]:
    texts = [
        {
            "thread_pk": row[10],
            "seq": old["seq"],
            "level": old["level"],
            "injection": old["injection"],
            "search": old["search"],
            "compaction_pk": row[0],
        }
        for old in loads(row[9])
    ]
    yield q.restore_message.many(texts)


def _before(row: Row | None, texts: RowTexts) -> dict[str, Any]:
    """Return the columns of a message as they are, which a restore writes back, and what the second level will be."""
    if row is None or row[1] != "live" or row[2] != 0 or row[6]:
        raise _changed()
    return {
        "seq": texts.seq,
        "level": row[2],
        "injection": row[4],
        "search": row[5],
        "brief": pack(texts.brief),
    }


def _changed() -> Conflict:
    return Conflict("The messages have changed since they were read.", then="Read them again and compact again.")


def _compaction(row: Row) -> Compaction:
    return Compaction(
        id=row[1],
        thread=row[2],
        span=Span(first=row[3], last=row[4]),
        level=row[5],
        summary=unpack(row[6]) or "",
        created_at=from_micros(row[7]),
        messages=len(loads(row[9])),
        restored_at=None if row[8] is None else from_micros(row[8]),
    )


def _check(resource: str, thread: str) -> None:
    check_id("resource", resource)
    check_id("thread", thread)


def _lock(resource: str, thread: str) -> Script[int]:
    rows = yield threads.lock_thread(resource=resource, thread=thread)
    if not rows:
        raise ThreadNotFound(thread)
    return rows[0][0]


def _expect(resource: str, thread: str) -> Script[None]:
    rows = yield threads.get_thread(resource=resource, thread=thread)
    if not rows:
        raise ThreadNotFound(thread)
