"""Compact, deepen, restore and prune messages.

A message has a raw text, a text for contexts and a text for search. Compaction replaces only the last two, and a restore writes
them back byte for byte. Each write is one transaction, and raises Conflict if the messages have changed since they were read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final

from memolog.core.clock import from_micros, to_micros
from memolog.core.exact_json import dumps, loads, pack, unpack
from memolog.core.message import Message
from memolog.core.observation import Priority, Span
from memolog.core.reports import Compaction, Pruned
from memolog.db.engine import Calls, Engine, reads, writes
from memolog.db.queries import Row, Script, load_queries
from memolog.db.rows import from_row, message_from_row, moment
from memolog.db.scope import check_ids, check_limit, chunks, clamp, reading_thread, taking_thread
from memolog.errors import Conflict, InputError, NotFound

q = load_queries("compaction/compactions")

# Messages per query.
_AT_ONCE: Final = 500
# A worker thread writes more than _FEW_CHARACTERS characters. Each message counts as _ROW_CHARACTERS characters more.
_ROW_CHARACTERS: Final = 100
_FEW_CHARACTERS: Final = 50_000


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionCandidate:
    """A message, and whether it may be compacted now."""

    message: Message
    is_free: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RowTexts:
    """The search text of one message at the first level, and at the second level (`brief`)."""

    seq: int
    search: str | None
    brief: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryLine:
    """A line about some messages. If it is an observation of the log, it has an id and the handle of its group."""

    text: str
    seqs: tuple[int, ...]
    priority: Priority = "medium"
    id: str = ""
    handle: str = ""


class Compactions(Calls):
    """Makes, lists, restores and prunes compactions. Every call is for one resource."""

    def __init__(self, engine: Engine, new_id: Callable[[], str]) -> None:
        super().__init__(engine)
        self._new_id = new_id

    # ------------------------------------------------------------ reading

    @reads
    def candidates(
        self, resource: str, thread: str, *, after: int = 0, again: bool = False, limit: int = 100
    ) -> Script[tuple[CompactionCandidate, ...]]:
        """Return the first message that may be compacted and the messages after it, including tombstones.

        Messages that were restored by hand may be compacted only if `again` is True.
        """
        check_ids(resource=resource, thread=thread)
        values = {"after": clamp(after), "again": int(again), "limit": check_limit(limit)}
        rows = yield q.candidates(resource=resource, thread=thread, **values)
        if not rows:
            yield from reading_thread(resource, thread)
        return tuple(
            CompactionCandidate(
                message=message_from_row(row),
                is_free=row.state != "live"
                or (row.level == 0 and not row.pruned and (again or row.compaction_pk is None)),
            )
            for row in rows
        )

    @reads
    def due(self, resource: str, thread: str, *, keep: int) -> Script[tuple[int, int]]:
        """Return the end of the last batch, and how many messages after it may be compacted, without the newest `keep`."""
        check_ids(resource=resource, thread=thread)
        rows = yield q.due(resource=resource, thread=thread, keep=keep)
        return (rows[0].last_seq, rows[0].messages) if rows else (0, 0)

    @reads
    def list(self, resource: str, thread: str) -> Script[tuple[Compaction, ...]]:
        """Return the compactions of a thread in the order of its messages, including restored ones."""
        check_ids(resource=resource, thread=thread)
        rows = yield q.compactions_of(resource=resource, thread=thread)
        if not rows:
            yield from reading_thread(resource, thread)
        return tuple(map(_compaction, rows))

    @reads
    def noted(self, resource: str, thread: str, span: Span, *, shared: bool = False) -> Script[tuple[SummaryLine, ...]]:
        """Return the observations about a span, from the thread's log or, if `shared` is True, from the shared log."""
        check_ids(resource=resource, thread=thread)
        rows = yield q.lines_over(
            resource=resource, thread=thread, first_seq=span.first, last_seq=span.last, shared=int(shared)
        )
        found: dict[int, SummaryLine] = {}
        for row in rows:
            seqs = tuple(range(max(row.first_seq, span.first), min(row.last_seq, span.last) + 1))
            text = unpack(row.text) or ""
            noted = found.get(row.pk) or SummaryLine(
                id=row.id, text=text, priority=row.priority, seqs=(), handle=row.handle
            )
            found[row.pk] = replace(noted, seqs=(*noted.seqs, *seqs))
        return tuple(found.values())

    # ------------------------------------------------------------ compacting

    async def compact(
        self, resource: str, thread: str, rows: Sequence[RowTexts], *, summary: str, now: datetime
    ) -> Compaction:
        """Compact a batch of messages to the first level. Raises Conflict if one of them has changed."""
        check_ids(resource=resource, thread=thread)
        at, name = to_micros(now), self._new_id()
        if not rows or not summary.strip():
            raise InputError("There is nothing to compact.", then="Pass messages and the summary that replaces them.")

        def script() -> Script[Compaction]:
            thread_pk = (yield from taking_thread(resource, thread)).pk
            span = Span(first=rows[0].seq, last=rows[-1].seq)
            where = {"thread_pk": thread_pk, "first_seq": span.first, "last_seq": span.last}
            stored = {row.seq: row for row in (yield q.rows_of_span(**where))}
            before = [_before(stored.get(row.seq), row) for row in rows]
            # Refuse a live message between these, because the context would show neither it nor a summary of it.
            if {seq for seq, row in stored.items() if row.state == "live"} != {row.seq for row in rows}:
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
                    "compaction_pk": made[0].pk,
                }
                for row in rows
            ]
            yield q.compact_message.many(values)
            return Compaction(
                id=name, thread=thread, span=span, level=1, summary=summary, created_at=now, messages=len(rows)
            )

        # The summary is stored with every message.
        is_brief = len(rows) * (len(summary) + _ROW_CHARACTERS) <= _FEW_CHARACTERS
        return await self.engine.write(script, name="compactions.compact", brief=is_brief)

    @writes("compactions.deepen")
    def deepen(self, resource: str, thread: str, *, keep: int) -> Script[int]:
        """Move batches with at least `keep` newer messages to the second level. Return how many messages they have."""
        check_ids(resource=resource, thread=thread)
        thread_pk = (yield from taking_thread(resource, thread)).pk
        deepened = 0
        for row in (yield q.due_for_depth(resource=resource, thread=thread, keep=keep)):
            texts = [
                {"thread_pk": thread_pk, "seq": old["seq"], "search": old["brief"], "compaction_pk": row.pk}
                for old in loads(row.before)
            ]
            yield q.deepen_message.many(texts)
            yield q.set_level(compaction_pk=row.pk, level=2)
            deepened += len(texts)
        return deepened

    @writes("compactions.restore")
    def restore(self, resource: str, thread: str, compaction: str, *, now: datetime) -> Script[Compaction]:
        """Restore the messages of a batch byte for byte, and return the compaction. A second call changes nothing."""
        check_ids(resource=resource, thread=thread)
        check_ids(compaction=compaction)
        at = to_micros(now)
        thread_pk = (yield from taking_thread(resource, thread)).pk
        rows = yield q.compaction_by_id(resource=resource, thread=thread, id=compaction)
        if not rows:
            raise NotFound(
                f"There is no compaction {compaction} in thread {thread}.", then="See compactions() for their ids."
            )
        found = _compaction(rows[0])
        if found.restored_at is not None:
            return found
        pruned = (yield q.pruned_in(thread_pk=thread_pk, compaction_pk=rows[0].pk))[0].messages
        if pruned:
            raise InputError(
                f"Compaction {compaction} cannot be restored.",
                why=f"The raw text of {pruned} of its messages was pruned.",
                then="Use the summary of the compaction and the log instead.",
            )
        yield from _restoring(rows[0])
        yield q.mark_restored(compaction_pk=rows[0].pk, now=at)
        return replace(found, restored_at=now)

    # ------------------------------------------------------------ pruning

    @writes("compactions.prune")
    def prune(
        self, resource: str, thread: str, *, days: int, now: datetime, left: Callable[[str], str], dry_run: bool = False
    ) -> Script[Pruned]:
        """Remove the raw text of compacted messages that are old, observed and linked to no open task.

        The search text of a short message is its raw text, so `left` returns the words of a search text that may stay.
        `dry_run` only counts.
        """
        check_ids(resource=resource, thread=thread)
        youngest = to_micros(now - timedelta(days=days))
        thread_pk = (yield from taking_thread(resource, thread)).pk
        kept = {"young": 0, "not_observed": 0, "open_task": 0, "not_compacted": 0}
        chosen: list[int] = []
        for row in (yield q.prunable(thread_pk=thread_pk)):
            reasons = {
                "young": row.created_at > youngest,
                "not_observed": not row.is_observed,
                "open_task": bool(row.is_open),
                "not_compacted": row.level == 0,
            }
            reason = next((name for name, applies in reasons.items() if applies), None)
            if reason is None:
                chosen.append(row.seq)
            else:
                kept[reason] += 1
        if not dry_run:
            yield from _pruning(thread_pk, chosen, left)
        return Pruned(messages=len(chosen), is_clean=False, dry_run=dry_run, **kept)


# ---------------------------------------------------------------- pieces of scripts


def undoing_compactions(thread_pk: int, first: int, last: int) -> Script[None]:
    """Restore every batch that has messages from `first` to `last`, and delete its summary, which may quote the messages."""
    for row in (yield q.compactions_over(thread_pk=thread_pk, first_seq=first, last_seq=last)):
        if row.restored_at is None:
            yield from _restoring(row)
            yield q.clear_pruned(thread_pk=thread_pk, compaction_pk=row.pk)
        yield q.delete_compaction(compaction_pk=row.pk)


def copying_compactions(source_pk: int, target_pk: int, new_id: Callable[[], str]) -> Script[dict[int, int]]:
    """Copy the compactions of a thread to its clone. Return the keys of the copies by the keys of the originals."""
    copied: dict[int, int] = {}
    for row in (yield q.copy_compactions(thread_pk=source_pk)):
        made = yield q.insert_compaction(
            id=new_id(),
            thread_pk=target_pk,
            first_seq=row.first_seq,
            last_seq=row.last_seq,
            level=row.level,
            now=row.created_at,
            restored_at=row.restored_at,
            summary=row.summary,
            before=row.before,
        )
        copied[row.pk] = made[0].pk
    return copied


def _pruning(thread_pk: int, seqs: Sequence[int], left: Callable[[str], str]) -> Script[None]:
    """Remove the raw text of some messages from their rows, and from the texts that a restore of their batches writes."""
    if not seqs:
        return
    for some in chunks(seqs, _AT_ONCE):
        rows = yield q.indexed_texts(thread_pk=thread_pk, seqs=some)
        texts = [{"thread_pk": thread_pk, "seq": row.seq, "search": _left_of(row.search, left)} for row in rows]
        yield q.prune_message.many(texts)
    gone = set(seqs)
    # The query also returns batches that were restored and whose messages were compacted again.
    for row in (yield q.compactions_over(thread_pk=thread_pk, first_seq=seqs[0], last_seq=seqs[-1])):
        before = loads(row.before)
        for old in before:
            if old["seq"] in gone:
                old |= {"injection": None, "search": None, "brief": _left_of(old["brief"], left)}
        yield q.set_before(compaction_pk=row.pk, before=dumps(before))


def _left_of(packed: str | None, left: Callable[[str], str]) -> str | None:
    text = unpack(packed)
    return None if text is None else pack(left(text))


def _restoring(row: Row) -> Script[None]:
    texts = [
        {
            "thread_pk": row.thread_pk,
            "seq": old["seq"],
            "level": old["level"],
            "injection": old["injection"],
            "search": old["search"],
            "compaction_pk": row.pk,
        }
        for old in loads(row.before)
    ]
    yield q.restore_message.many(texts)


def _before(row: Row | None, texts: RowTexts) -> dict[str, Any]:
    """Return the current columns of a message, which a restore writes back, and its search text at the second level."""
    if row is None or row.state != "live" or row.level != 0 or row.pruned:
        raise _changed()
    return {
        "seq": texts.seq,
        "level": row.level,
        "injection": row.injection,
        "search": row.search,
        "brief": pack(texts.brief),
    }


def _changed() -> Conflict:
    return Conflict("The messages have changed since they were read.", then="Read them again and compact again.")


def _compaction(row: Row) -> Compaction:
    return from_row(
        Compaction,
        row,
        span=Span(first=row.first_seq, last=row.last_seq),
        summary=unpack(row.summary) or "",
        created_at=from_micros(row.created_at),
        messages=len(loads(row.before)),
        restored_at=moment(row.restored_at),
    )
