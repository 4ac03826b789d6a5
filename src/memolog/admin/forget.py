"""Forget messages, observations, threads, resources and old rows. Delete the copies of the database file.

The row of a forgotten message stays as a tombstone, so that its number is not used again and no run can restore the message.
Of a thread or resource, two things stay: the costs, and keyed hashes of the forgotten messages and threads (see `tombstones`).
Each call is one transaction, and a dry run rolls the same transaction back. After a call that is not a dry run, the database file
is rewritten without deleted bytes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING

from memolog.compaction.store import undoing_compactions
from memolog.core.clock import to_micros
from memolog.core.progress import report
from memolog.core.reports import Forgotten
from memolog.db.engine import Engine, Work
from memolog.db.queries import Script, load_queries
from memolog.db.rows import message_from_row
from memolog.db.scope import LAST, check_ids, check_optional_ids, taking_thread
from memolog.db.sqlite_files import clean_file, copies_of
from memolog.errors import InputError, NotFound
from memolog.log.withdrawals import LogChanges, Loss, ranges, rederiving, taking_logs
from memolog.messages.tombstones import burying_all, burying_messages
from memolog.search.index import clearing_index, reading_scope, resetting_index, taking_index

if TYPE_CHECKING:
    from memolog.connection import Components, Connection

due_queries = load_queries("log/due")
extract_queries = load_queries("log/extracts")
q = load_queries("admin/forgetting")
line_queries = load_queries("log/lines")
log_queries = load_queries("log/logs")
message_queries = load_queries("messages/messages")
thread_queries = load_queries("messages/threads")
vector_queries = load_queries("search/vectors")

_DELETES = (
    *(q.delete_tasks, q.delete_task_book, q.delete_threads, q.delete_logs, q.delete_documents, q.delete_items),
    *(q.delete_events, q.delete_leases, q.delete_calibrations, q.delete_settings),
)
_LEASE_CHARACTERS = 400
_PAGE = 400
_SKEW_MICROS = 300_000_000


async def forget(
    connection: Connection,
    resource: str,
    *,
    thread: str | None,
    message: str | None,
    observation: str | None,
    dry_run: bool,
) -> Forgotten:
    """Forget a message, an observation or a thread. If none of them is passed, forget the whole resource."""
    components = await connection.open_to_write()
    store = components.store
    if observation is not None:
        if thread is not None or message is not None:
            raise InputError(
                "`observation` cannot be combined with `thread` or `message`.", then="Pass the observation only."
            )
        gone = await store.line_edits.delete(resource, observation, dry_run=dry_run)
    elif message is not None:
        gone = await store.forgetting.message(resource, message, thread=thread, dry_run=dry_run)
    elif thread is not None:
        gone = await store.forgetting.thread(resource, thread, dry_run=dry_run)
    else:
        gone = await store.forgetting.resource(resource, dry_run=dry_run)
    if not dry_run and message is None and observation is None:
        # Messages that a turn could not save yet must not be saved later.
        components.outbox.forget(resource, thread)
    return await _clean(connection, components, gone)


async def forget_older(connection: Connection, resource: str, *, dry_run: bool) -> Forgotten:
    """Forget messages, prompts and events that are older than the settings under `retention` allow."""
    components = await connection.open_to_write()
    keep = connection.config.retention

    def days_ago(days: int | None) -> datetime | None:
        return None if days is None else connection.clock.now() - timedelta(days=days)

    gone = await components.store.forgetting.older(
        resource,
        messages=days_ago(keep.message_days),
        prompts=days_ago(keep.prompt_days),
        events=days_ago(keep.journal_days),
        dry_run=dry_run,
    )
    if gone == Forgotten(resource=resource, dry_run=dry_run):
        return gone
    return await _clean(connection, components, gone)


async def _clean(connection: Connection, components: Components, gone: Forgotten) -> Forgotten:
    """Delete the copies of the database, which may contain forgotten text, and rewrite the file without deleted bytes."""
    if not gone.dry_run:
        components.store.empty_caches()
    file = components.store.engine.file
    if file is None:
        return gone
    copies = await asyncio.to_thread(copies_of, file)
    gone = replace(gone, copies=tuple(str(copy) for copy in copies))
    if gone.dry_run:
        return gone
    for copy in copies:
        await asyncio.to_thread(copy.unlink, missing_ok=True)
    report("rewriting the file", 0)
    is_clean = await asyncio.to_thread(clean_file, file, timeout=connection.config.busy_timeout)
    return replace(gone, is_clean=is_clean)


class Forgetting(LogChanges):
    """Forgets messages, threads and resources. Each call changes one resource."""

    async def message(
        self, resource: str, message_id: str, *, thread: str | None = None, dry_run: bool = False
    ) -> Forgotten:
        """Forget a message in one thread, or in every thread of the resource. Raise NotFound if it does not exist."""
        check_ids(resource=resource, message=message_id)
        check_optional_ids(thread=thread)
        at = self._now()

        def script() -> Script[Forgotten]:
            if thread is None:
                rows = yield message_queries.by_id_anywhere(resource=resource, id=message_id)
            else:
                rows = yield message_queries.by_id(resource=resource, thread=thread, id=message_id)
            if not rows:
                where = f"thread {thread}" if thread is not None else "any thread of this resource"
                raise NotFound(f"There is no message {message_id} in {where}.", then="Check its id.")
            places = [(row.thread, row.seq) for row in rows]
            return (yield from self._forgetting_messages(resource, places, at))

        return await write_or_try(self.engine, script, name="forgetting.message", dry_run=dry_run)

    async def older(
        self,
        resource: str,
        *,
        messages: datetime | None = None,
        prompts: datetime | None = None,
        events: datetime | None = None,
        dry_run: bool = False,
    ) -> Forgotten:
        """Forget rows that are older than the time of their kind. `events` includes context records. None keeps all rows."""
        check_ids(resource=resource)
        at = self._now()

        def script() -> Script[Forgotten]:
            gone = Forgotten(resource=resource)
            if messages is not None:
                rows = yield q.older(resource=resource, before=to_micros(messages))
                gone += yield from self._forgetting_messages(resource, [(row.id, row.seq) for row in rows], at)
            if prompts is not None:
                rows = yield q.old_prompts(resource=resource, before=to_micros(prompts))
                gone += Forgotten(resource=resource, prompts=len(rows))
            if events is not None:
                old_events = yield q.old_events(resource=resource, before=to_micros(events))
                old_contexts = yield q.old_contexts(resource=resource, before=to_micros(events))
                gone += Forgotten(resource=resource, events=len(old_events), contexts=len(old_contexts))
            return gone

        return await write_or_try(self.engine, script, name="forgetting.older", dry_run=dry_run)

    async def thread(self, resource: str, thread: str, *, dry_run: bool = False) -> Forgotten:
        """Forget a thread and everything made from it, also in a shared log. Raise ThreadNotFound if it does not exist."""
        check_ids(resource=resource, thread=thread)
        at = self._now()

        def script() -> Script[Forgotten]:
            yield from taking_index(resource)
            thread_pk = (yield from taking_thread(resource, thread)).pk
            gone = yield from self._forgetting_thread(resource, thread, thread_pk, at)
            yield from resetting_index(resource)
            return gone

        return await write_or_try(self.engine, script, name="forgetting.thread", dry_run=dry_run)

    async def resource(self, resource: str, *, dry_run: bool = False) -> Forgotten:
        """Forget a resource except for its costs. Raise NotFound if nothing is stored for it."""
        check_ids(resource=resource)
        work = partial(self._forgetting_resource, resource, self._now())
        return await write_or_try(self.engine, work, name="forgetting.resource", dry_run=dry_run)

    def _forgetting_messages(self, resource: str, places: Sequence[tuple[str, int]], at: int) -> Script[Forgotten]:
        gone = Forgotten(resource=resource)
        if not places:
            return gone
        yield from taking_index(resource)
        lines: dict[int, dict[int, str]] = {}
        # Lock the threads in a fixed order, to avoid deadlocks.
        for thread in sorted({thread for thread, _ in places}):
            rows = yield thread_queries.lock_thread(resource=resource, thread=thread)
            if not rows:
                continue
            thread_pk = rows[0].pk
            yield from taking_logs(thread_pk)
            for first, last in ranges(sorted(seq for name, seq in places if name == thread)):
                where = {"thread_pk": thread_pk, "first_seq": first, "last_seq": last}
                yield from self._burying(resource, thread, first, last, at)
                gone += yield from _forgetting_range(resource, where, at)
                for line in (yield line_queries.citing(**where)):
                    lines.setdefault(line.log_pk, {})[line.pk] = line.id
        if not gone.messages:
            return gone
        for log_pk, found in sorted(lines.items()):
            loss = Loss(log_pk=log_pk, lines=tuple(found), how="deleted", kind="forget")
            made = yield from rederiving(loss, self._new_id, self._render, at)
            gone += Forgotten(resource=resource, observations=made.lines, reflections=made.reflections)
        yield from resetting_index(resource)
        return gone

    def _forgetting_thread(self, resource: str, thread: str, thread_pk: int, at: int) -> Script[Forgotten]:
        yield from taking_logs(thread_pk)
        gone = yield from _counting_thread(resource, thread, thread_pk)
        until = yield from self._burying(resource, thread, 0, LAST, at, total=gone.messages)
        yield from burying_all(resource, thread, self._new_id, until)
        prompts = yield q.delete_prompts(thread_pk=thread_pk, first_seq=0)
        yield q.clear_group_hints(thread_pk=thread_pk, first_seq=0)
        yield q.clear_run_errors(thread_pk=thread_pk)
        yield q.clear_log_errors(thread_pk=thread_pk)
        lines: dict[int, list[int]] = {}
        where = {"thread_pk": thread_pk, "first_seq": 0, "last_seq": LAST}
        for line in (yield line_queries.citing(**where)):
            lines.setdefault(line.log_pk, []).append(line.pk)
        names: list[str] = []
        reflections: list[str] = []
        for log in (yield log_queries.logs_of_thread(thread_pk=thread_pk)):
            if log.thread_pk is not None:
                names += [row.id for row in (yield q.lines_of_log(log_pk=log.pk))]
                continue
            loss = Loss(
                log_pk=log.pk,
                lines=tuple(lines.get(log.pk, ())),
                how="deleted",
                kind="forget",
                without_thread=thread_pk,
            )
            made = yield from rederiving(loss, self._new_id, self._render, at)
            names += made.lines
            reflections += made.reflections
        yield thread_queries.delete_thread(resource=resource, thread=thread)
        yield q.delete_lease(resource=resource, name=f"compact {thread[:_LEASE_CHARACTERS]}")
        return gone + Forgotten(
            resource=resource, observations=tuple(names), reflections=tuple(reflections), prompts=len(prompts)
        )

    def _forgetting_resource(self, resource: str, at: int) -> Script[Forgotten]:
        gone = Forgotten(resource=resource)
        is_indexed = (yield from reading_scope(resource)) is not None
        yield from taking_index(resource)
        names = [row.id for row in (yield q.threads_of_resource(resource=resource))]
        for name in names:
            rows = yield thread_queries.lock_thread(resource=resource, thread=name)
            if rows:
                counts = yield from _counting_thread(resource, name, rows[0].pk)
                gone += counts
                until = yield from self._burying(resource, name, 0, LAST, at, total=counts.messages)
                yield from burying_all(resource, name, self._new_id, until)
        lines: list[str] = []
        for log in (yield q.logs_of_resource(resource=resource)):
            lines += [line.id for line in (yield q.lines_of_log(log_pk=log.pk))]
        counts = (yield q.counts_of_resource(resource=resource))[0]._asdict()
        has_rows = counts.pop("others") or any(counts[kind] for kind in ("tasks", "events", "working_memory", "items"))
        if not (names or lines or has_rows or is_indexed):
            raise NotFound(f"Nothing is stored for resource {resource}.", then="Check its id.")
        yield from burying_all(resource, None, self._new_id, at)
        index = (yield from clearing_index(resource)).index - gone.index
        yield vector_queries.forget_sets(resource=resource)
        for delete in _DELETES:
            yield delete(resource=resource)
        return gone + Forgotten(resource=resource, observations=tuple(lines), index=index, **counts)

    def _burying(
        self, resource: str, thread: str, first: int, last: int, at: int, *, total: int | None = None
    ) -> Script[int]:
        """Store hashes of a range of messages. Return a time: conversations of this thread that began by then are forgotten.

        The returned time is `at`, or the time of the latest message if that is later. It is at most five minutes after `at`. The
        five minutes allow for clocks that differ.
        """
        latest, done = at + _SKEW_MICROS, 0
        while True:
            rows = yield message_queries.after(
                resource=resource, thread=thread, after=first - 1, up_to=last, limit=_PAGE
            )
            messages = [message_from_row(row) for row in rows]
            at = max([at, *(min(to_micros(one.created_at), latest) for one in messages)])
            yield from burying_messages(
                resource, thread, [one for one in messages if one.state != "forgotten"], self._new_id, at
            )
            done += len(rows)
            report(f"messages of {thread}", done, total)
            if len(rows) < _PAGE:
                return at
            first = messages[-1].seq + 1


def _forgetting_range(resource: str, where: dict[str, int], at: int) -> Script[Forgotten]:
    """Turn a range of messages into tombstones, and remove what was made from them. The caller deletes the observations."""
    thread_pk, first = where["thread_pk"], where["first_seq"]
    from_here = {"thread_pk": thread_pk, "first_seq": first}
    compactions = yield q.count_compactions(**where)
    yield from undoing_compactions(thread_pk, first, where["last_seq"])
    linked = yield q.count_task_rows(**where)
    documents = yield q.count_documents(**where)
    unlinked = yield q.unlink_tasks(**where)
    rows = yield q.tombstone(**where)
    runs = yield log_queries.abandon_runs_over(now=at, **where)
    extracts = yield q.count_extracts(**where)
    yield extract_queries.delete_extracts_over(**where)
    groups = yield log_queries.void_groups_over(**where)
    if groups:
        yield due_queries.look_again(thread_pk=thread_pk)
    yield q.clear_group_hints(**from_here)
    hints = yield q.clear_thread_hints(**from_here)
    prompts = yield q.delete_prompts(**from_here)
    yield q.clear_run_errors(thread_pk=thread_pk)
    yield q.clear_log_errors(thread_pk=thread_pk)
    events = yield q.delete_telling_events(thread_pk=thread_pk)
    return Forgotten(
        resource=resource,
        messages=len(rows),
        groups=len(groups),
        runs=len(runs),
        hints=len(hints),
        task_links=linked[0].counted + len(unlinked),
        prompts=len(prompts),
        extracts=extracts[0].counted,
        compactions=compactions[0].counted,
        events=len(events),
        index=documents[0].counted,
    )


def _counting_thread(resource: str, thread: str, thread_pk: int) -> Script[Forgotten]:
    counts = (yield q.counts_of_thread(thread_pk=thread_pk))[0]._asdict()
    return Forgotten(resource=resource, threads=(thread,), index=counts.pop("index_docs"), **counts)


class _Undone(Exception):
    """Raised with the result of a dry run, so that its transaction is rolled back."""

    def __init__(self, gone: Forgotten) -> None:
        super().__init__("a dry run")
        self.gone = gone


async def write_or_try(engine: Engine, script: Work[Forgotten], *, name: str, dry_run: bool) -> Forgotten:
    """Run a script and return its result. For a dry run, roll the transaction back."""

    def undone() -> Script[Forgotten]:
        raise _Undone((yield from script()))

    try:
        return await engine.write(undone if dry_run else script, name=name)
    except _Undone as end:
        return replace(end.gone, dry_run=True)
