"""Forgetting in the store: messages, threads, a whole resource, and what is older than a moment.

Knows everything that hangs on a message. A forgotten message keeps its row as a tombstone, so that its place is never given
again and no run brings it back; a forgotten thread or resource keeps nothing but its costs. Keyed hashes stay of both, by which
what others still have is recognised: see `tombstones`. Each call is one transaction, and a dry run is the same transaction, taken
back. Knows nothing of the bytes that deleted rows leave in a file: see `sqlite_files`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime

from memolog.domain.clock import Clock
from memolog.domain.errors import NotFound, ThreadNotFound
from memolog.domain.forgetting import Forgotten
from memolog.domain.moments import to_micros
from memolog.store.compactions import undoing_compactions
from memolog.store.engine import Engine, Work
from memolog.store.extracts import deleting_extracts
from memolog.store.indexing import reading_scope
from memolog.store.rederiving import Loss, rederiving
from memolog.store.reindexing import clearing_index, resetting_index, taking_index
from memolog.store.rows import message_from_row
from memolog.store.scope import check_id
from memolog.store.sql import Script, load_queries
from memolog.store.tombstones import burying_messages, burying_resource, burying_thread
from memolog.store.withdrawals import Render, ranges, taking_logs

__all__ = ["Forgetting", "told", "work_of"]

q = load_queries("forgetting")
logs = load_queries("logs")
rows_of = load_queries("messages")
threads = load_queries("threads")

_LEASE_CHARACTERS = 400
_PAGE = 400
_LAST = 2**62
_SKEW = 300_000_000


class Forgetting:
    """Forgets for every resource, one resource at a time."""

    def __init__(self, engine: Engine, clock: Clock, new_id: Callable[[], str]) -> None:
        self._engine, self._clock, self._new_id = engine, clock, new_id

    async def message(
        self, resource: str, message_id: str, *, thread: str | None = None, render: Render, dry_run: bool = False
    ) -> Forgotten:
        """Forget a message, in every thread of the resource or in one; raises NotFound."""
        check_id("resource", resource)
        check_id("message", message_id)
        if thread is not None:
            check_id("thread", thread)
        at = self._now()

        def script() -> Script[Forgotten]:
            if thread is None:
                rows = yield rows_of.by_id_anywhere(resource=resource, id=message_id)
            else:
                rows = yield rows_of.by_id(resource=resource, thread=thread, id=message_id)
            if not rows:
                where = f"thread {thread}" if thread is not None else "any thread of this resource"
                raise NotFound(f"There is no message {message_id} in {where}.", then="Check its id.")
            places = [(row[1], row[2]) for row in rows]
            return (yield from self._forgetting_messages(resource, places, render, at))

        return await told(self._engine.write(work_of(script, dry_run=dry_run), name="forgetting.message"))

    async def older(
        self,
        resource: str,
        *,
        messages: datetime | None = None,
        prompts: datetime | None = None,
        events: datetime | None = None,
        render: Render,
        dry_run: bool = False,
    ) -> Forgotten:
        """Forget what is from before a moment: messages, kept prompts, events with records of contexts; None leaves them."""
        check_id("resource", resource)
        at = self._now()

        def script() -> Script[Forgotten]:
            gone = Forgotten(resource=resource)
            if messages is not None:
                rows = yield q.older(resource=resource, before=to_micros(messages))
                gone += yield from self._forgetting_messages(resource, [(row[0], row[1]) for row in rows], render, at)
            if prompts is not None:
                rows = yield q.old_prompts(resource=resource, before=to_micros(prompts))
                gone += Forgotten(resource=resource, prompts=len(rows))
            if events is not None:
                told_of = yield q.old_events(resource=resource, before=to_micros(events))
                seen = yield q.old_contexts(resource=resource, before=to_micros(events))
                gone += Forgotten(resource=resource, events=len(told_of), contexts=len(seen))
            return gone

        return await told(self._engine.write(work_of(script, dry_run=dry_run), name="forgetting.older"))

    async def thread(self, resource: str, thread: str, *, render: Render, dry_run: bool = False) -> Forgotten:
        """Forget a thread with all that hangs on it, also in a log that it shares; raises ThreadNotFound."""
        check_id("resource", resource)
        check_id("thread", thread)
        at = self._now()

        def script() -> Script[Forgotten]:
            yield from taking_index(resource)
            rows = yield threads.lock_thread(resource=resource, thread=thread)
            if not rows:
                raise ThreadNotFound(thread)
            gone = yield from self._forgetting_thread(resource, thread, rows[0][0], render, at)
            yield from resetting_index(resource)
            return gone

        return await told(self._engine.write(work_of(script, dry_run=dry_run), name="forgetting.thread"))

    async def resource(self, resource: str, *, dry_run: bool = False) -> Forgotten:
        """Forget a resource: nothing of it stays but its costs. Raises NotFound if there is nothing of it."""
        check_id("resource", resource)

        at = self._now()

        def script() -> Script[Forgotten]:
            return (yield from self._forgetting_resource(resource, at))

        return await told(self._engine.write(work_of(script, dry_run=dry_run), name="forgetting.resource"))

    # ------------------------------------------------------------ pieces of scripts

    def _now(self) -> int:
        return to_micros(self._clock.now())

    def _forgetting_messages(
        self, resource: str, places: Sequence[tuple[str, int]], render: Render, at: int
    ) -> Script[Forgotten]:
        gone = Forgotten(resource=resource)
        if not places:
            return gone
        yield from taking_index(resource)
        lines: dict[int, dict[int, str]] = {}
        # In one order, so that two writers cannot wait for each other.
        for thread in sorted({thread for thread, _ in places}):
            rows = yield threads.lock_thread(resource=resource, thread=thread)
            if not rows:
                continue
            thread_pk = rows[0][0]
            yield from taking_logs(thread_pk)
            for first, last in ranges(sorted(seq for name, seq in places if name == thread)):
                where = {"thread_pk": thread_pk, "first_seq": first, "last_seq": last}
                yield from self._burying(resource, thread, first, last, at)
                gone += yield from _forgetting_range(resource, where, at)
                for pk, name, log_pk in (yield q.citing(**where)):
                    lines.setdefault(log_pk, {})[pk] = name
        if not gone.messages:
            return gone
        for log_pk, found in sorted(lines.items()):
            loss = Loss(log_pk=log_pk, lines=tuple(found), how="deleted", kind="forget")
            made = yield from rederiving(loss, self._new_id, render, at)
            gone += Forgotten(resource=resource, observations=made.lines, reflections=made.reflections)
        yield from resetting_index(resource)
        return gone

    def _forgetting_thread(
        self, resource: str, thread: str, thread_pk: int, render: Render, at: int
    ) -> Script[Forgotten]:
        yield from taking_logs(thread_pk)
        gone = yield from _counting_thread(resource, thread, thread_pk)
        yield from burying_thread(
            resource, thread, self._new_id, (yield from self._burying(resource, thread, 0, _LAST, at))
        )
        prompts = yield q.delete_prompts(thread_pk=thread_pk, first_seq=0)
        yield q.clear_group_hints(thread_pk=thread_pk, first_seq=0)
        yield q.clear_run_errors(thread_pk=thread_pk)
        yield q.clear_log_errors(thread_pk=thread_pk)
        lines: dict[int, list[int]] = {}
        where = {"thread_pk": thread_pk, "first_seq": 0, "last_seq": _LAST}
        for pk, _, log_pk in (yield q.citing(**where)):
            lines.setdefault(log_pk, []).append(pk)
        names: list[str] = []
        reflections: list[str] = []
        for log_pk, _, owner in (yield logs.logs_of_thread(thread_pk=thread_pk)):
            if owner is not None:
                names += [row[0] for row in (yield q.lines_of_log(log_pk=log_pk))]
                continue
            loss = Loss(
                log_pk=log_pk,
                lines=tuple(lines.get(log_pk, ())),
                how="deleted",
                kind="forget",
                without_thread=thread_pk,
            )
            made = yield from rederiving(loss, self._new_id, render, at)
            names += made.lines
            reflections += made.reflections
        yield threads.delete_thread(resource=resource, thread=thread)
        yield q.delete_lease(resource=resource, name=f"compact {thread[:_LEASE_CHARACTERS]}")
        return gone + Forgotten(
            resource=resource, observations=tuple(names), reflections=tuple(reflections), prompts=len(prompts)
        )

    def _forgetting_resource(self, resource: str, at: int) -> Script[Forgotten]:
        gone = Forgotten(resource=resource)
        is_indexed = (yield from reading_scope(resource)) is not None
        yield from taking_index(resource)
        names = [row[0] for row in (yield q.threads_of_resource(resource=resource))]
        for name in names:
            rows = yield threads.lock_thread(resource=resource, thread=name)
            if rows:
                gone += yield from _counting_thread(resource, name, rows[0][0])
                until = yield from self._burying(resource, name, 0, _LAST, at)
                yield from burying_thread(resource, name, self._new_id, until)
        lines: list[str] = []
        for row in (yield q.logs_of_resource(resource=resource)):
            lines += [line[0] for line in (yield q.lines_of_log(log_pk=row[0]))]
        tasks, events, usage, versions, prompts, others = (yield q.counts_of_resource(resource=resource))[0]
        if not (names or lines or tasks or events or versions or others or is_indexed):
            raise NotFound("There is nothing of this resource.", then="Check its id.")
        yield from burying_resource(resource, self._new_id, at)
        index = (yield from clearing_index(resource)).index - gone.index
        yield q.delete_tasks(resource=resource)
        yield q.delete_task_book(resource=resource)
        yield q.delete_threads(resource=resource)
        yield q.delete_logs(resource=resource)
        yield q.delete_documents(resource=resource)
        yield q.delete_events(resource=resource)
        yield q.delete_leases(resource=resource)
        yield q.delete_calibrations(resource=resource)
        yield q.delete_settings(resource=resource)
        return gone + Forgotten(
            resource=resource,
            observations=tuple(lines),
            tasks=tasks,
            events=events,
            usage=usage,
            working_memory=versions,
            prompts=prompts,
            index=index,
        )

    def _burying(self, resource: str, thread: str, first: int, last: int, at: int) -> Script[int]:
        """Leave hashes of the messages of a range; returns the moment up to which their thread would be forgotten.

        Clocks differ by a little: what was said in the near future of this one is forgotten too.
        """
        latest = at + _SKEW
        while True:
            rows = yield rows_of.after(resource=resource, thread=thread, after=first - 1, up_to=last, limit=_PAGE)
            messages = [message_from_row(row) for row in rows]
            at = max([at, *(min(to_micros(one.created_at), latest) for one in messages)])
            yield from burying_messages(
                resource, thread, [one for one in messages if one.state != "forgotten"], self._new_id, at
            )
            if len(rows) < _PAGE:
                return at
            first = messages[-1].seq + 1


def _forgetting_range(resource: str, where: dict[str, int], at: int) -> Script[Forgotten]:
    """Make tombstones of a range of a thread's messages, and remove what hangs on them but for the lines of logs."""
    thread_pk, first = where["thread_pk"], where["first_seq"]
    from_here = {"thread_pk": thread_pk, "first_seq": first}
    compactions = yield q.count_compactions(**where)
    yield from undoing_compactions(thread_pk, first, where["last_seq"])
    linked = yield q.count_task_rows(**where)
    documents = yield q.count_documents(**where)
    unlinked = yield q.unlink_tasks(**where)
    rows = yield q.tombstone(**where)
    runs = yield logs.abandon_runs_over(now=at, **where)
    extracts = yield q.count_extracts(**where)
    yield from deleting_extracts(where)
    groups = yield logs.void_groups_over(**where)
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
        task_links=linked[0][0] + len(unlinked),
        prompts=len(prompts),
        extracts=extracts[0][0],
        compactions=compactions[0][0],
        events=len(events),
        index=documents[0][0],
    )


def _counting_thread(resource: str, thread: str, thread_pk: int) -> Script[Forgotten]:
    row = (yield q.counts_of_thread(thread_pk=thread_pk))[0]
    return Forgotten(
        resource=resource,
        threads=(thread,),
        messages=row[0],
        groups=row[1],
        runs=row[2],
        hints=row[3],
        working_memory=row[4],
        task_links=row[5],
        extracts=row[6],
        compactions=row[7],
        contexts=row[8],
        events=row[9],
        usage=row[10],
        index=row[11],
    )


# ---------------------------------------------------------------- dry runs


class _Undone(Exception):
    """Takes a transaction back, and tells what it would have done."""

    def __init__(self, gone: Forgotten) -> None:
        super().__init__("a dry run")
        self.gone = gone


def work_of(script: Work[Forgotten], *, dry_run: bool) -> Work[Forgotten]:
    """Return the script itself or, for a dry run, one that does the same and takes it back."""

    def undone() -> Script[Forgotten]:
        gone = yield from script()
        raise _Undone(gone)

    return undone if dry_run else script


async def told(write: Awaitable[Forgotten]) -> Forgotten:
    """Return what a write did, or would have done."""
    try:
        return await write
    except _Undone as undone:
        return _as_dry(undone.gone)


def _as_dry(gone: Forgotten) -> Forgotten:
    return Forgotten(resource=gone.resource, dry_run=True) + gone
