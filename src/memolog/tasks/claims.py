"""Claim, renew, release, close and reopen tasks. Reduce closed tasks to a summary after 30 days, and archive them after 90 days.

These rules hold on every engine and with any number of processes:

- *claim*: exactly one session succeeds. A blocked task cannot be claimed, and the error names the blockers. A claimed task
  becomes the active task of the thread.
- *heartbeat*: only the session that has claimed the task can renew the claim, until another session takes the task over.
- *expired lease*: the task is ready again, and the next claim takes it over. Nothing needs to be cleaned up.
- *close*: needs a reason and a summary, ends the claim, and returns the tasks that it unblocked.

Rows are locked in this order to avoid deadlocks: task book (see `taking_book`), thread, lease, task.
"""

from __future__ import annotations

import base64
import zlib
from datetime import datetime, timedelta
from typing import Final, cast

from memolog.core.clock import from_micros, to_micros
from memolog.core.exact_json import dumps, loads, pack, unpack
from memolog.db.queries import Row, Script, load_queries
from memolog.db.scope import check_limit, check_optional_ids, taking_thread
from memolog.errors import InputError, StoreCorrupt, TaskBlocked, TaskHeld, TaskMoveRefused
from memolog.tasks.dependencies import reading_refs, reading_roots, settling_after_status, taking_book
from memolog.tasks.rows import TaskCalls, change_step, finding, lease_name, reading_task, ref_from_row, writes
from memolog.tasks.rules import named
from memolog.tasks.task import CLOSE_REASONS, Claimed, Closed, CloseReason, Decayed, Task

decay_queries = load_queries("tasks/task_decay")
_DAY: Final = timedelta(days=1) // timedelta(microseconds=1)
# The number of days after closing at which a task gets each level of decay.
_AFTER_DAYS: Final = {1: 30, 2: 90}
# An archived task keeps at most this many characters of its summary.
_ARCHIVED_SUMMARY: Final = 200
# The prefix of an archive that is compressed.
_COMPRESSED: Final = "z:"
claim_queries = load_queries("tasks/task_claims")
lease_queries = load_queries("log/leases")
link_queries = load_queries("tasks/task_links")
thread_queries = load_queries("messages/threads")
_LONGEST_SUMMARY = 100_000


class TaskClaims(TaskCalls):
    """Calls that claim, close and decay tasks."""

    @writes("task_claims.claim")
    def claim(self, task: str, *, thread: str | None = None, lease: float | None = None) -> Script[Claimed]:
        """Claim a task for this session, for `lease` seconds, and make it the active task of a thread.

        Only one of several callers succeeds. Raise TaskBlocked if another task must be closed first, and TaskHeld if another
        session has claimed the task.
        """
        thread = self._thread if thread is None else thread
        check_optional_ids(thread=thread)
        resource, session, now, end = self.resource, self._holder, self._now, self._end(lease)
        until = to_micros(end)
        found = yield from finding(resource, task)
        if thread is not None:
            # A task may be claimed before the first message of the thread is saved.
            empty = {"title": None, "metadata": "{}", "overrides": "{}", "cloned_from": None}
            yield thread_queries.create_thread(resource=resource, thread=thread, now=now, **empty)
            yield from taking_thread(resource, thread)
        if found.status == "closed":
            raise TaskMoveRefused(found.handle, "closed", "claimed", "Reopen it first, or claim another one.")
        name = lease_name(found.id)
        # Only one of several callers acquires the lease.
        rows = yield lease_queries.acquire(resource=resource, name=name, owner=pack(session), now=now, expires_at=until)
        fence = rows[0].fence if rows else (yield from self._prolonging(found, until))
        took = yield claim_queries.take_task(
            task_pk=found.pk,
            session=pack(session),
            assignee=self._name,
            lease_micros=until - now,
            now=now,
        )
        if not took:
            yield from _refusing(resource, found)
        if thread is not None:
            yield claim_queries.set_active(resource=resource, thread=thread, task_pk=found.pk, session=pack(session))
        if rows:
            before = unpack(found.session) if found.status == "in_progress" else None
            yield change_step(found.pk, now, self._name, "claimed", session=session, took_over_from=before)
        claimed = yield from reading_task(found.pk)
        return Claimed(task=claimed, until=end, fence=fence, renewed=not rows)

    def _prolonging(self, found: Row, until: int) -> Script[int]:
        """Renew the lease of this session and return its fence. Raise TaskHeld if another session has the lease."""
        rows = yield claim_queries.prolong(
            resource=self.resource, name=lease_name(found.id), session=pack(self._holder), expires_at=until
        )
        if not rows:
            yield from _held_by_other(self.resource, found)
        return rows[0].fence

    @writes("task_claims.heartbeat")
    def heartbeat(self, task: str, *, lease: float | None = None) -> Script[Claimed]:
        """Renew the claim of this session. Saving messages in the thread of its active task renews the claim too."""
        end = self._end(lease)
        found = yield from finding(self.resource, task)
        if found.status != "in_progress" or unpack(found.session) != self._holder:
            yield from _held_by_other(self.resource, found)
        fence = yield from self._prolonging(found, to_micros(end))
        held = yield from reading_task(found.pk)
        return Claimed(task=held, until=end, fence=fence, renewed=True)

    @writes("task_claims.release")
    def release(self, task: str, *, force: bool = False) -> Script[Task]:
        """Release a task, so that it is open again. `force` also releases a task that another session has claimed."""
        resource, now = self.resource, self._now
        found = yield from finding(resource, task)
        if found.status != "in_progress":
            raise TaskMoveRefused(found.handle, found.status, "released", "Only a claimed task can be released.")
        yield claim_queries.clear_active(task_pk=found.pk)
        yield from _expecting_free(resource, found, self._holder, now, force=force)
        yield claim_queries.free(resource=resource, name=lease_name(found.id))
        if (yield claim_queries.let_go(task_pk=found.pk, now=now)):
            yield change_step(found.pk, now, self._name, "released", session=unpack(found.session))
        return (yield from reading_task(found.pk))

    @writes("task_claims.close")
    def _close(self, task: str, reason: CloseReason, summary: str, *, force: bool) -> Script[Closed]:
        """Close a task, and return it with the tasks that this unblocked. Also decay a few tasks that were closed long ago.

        Raise TaskHeld if another session has claimed the task, unless `force` is set.
        """
        resource, now = self.resource, self._now
        text = str(self._clean(_checked_end(reason, summary)))
        yield from taking_book(resource)
        found = yield from finding(resource, task)
        yield claim_queries.clear_active(task_pk=found.pk)
        yield from _expecting_free(resource, found, self._holder, now, force=force)
        if not (yield claim_queries.close_task(task_pk=found.pk, reason=reason, summary=pack(text), now=now)):
            raise TaskMoveRefused(found.handle, "closed already", "closed", "Reopen it first if it is not done.")
        yield claim_queries.free(resource=resource, name=lease_name(found.id))
        yield change_step(found.pk, now, self._name, "closed", reason=reason, session=unpack(found.session))
        changed = yield from settling_after_status(found.pk)
        freed = [pk for pk, is_blocked in changed.items() if not is_blocked and pk != found.pk]
        unblocked = yield from reading_refs(freed)
        children = yield link_queries.open_children(task_pk=found.pk)
        yield from decaying(resource, now, limit=4)
        closed = yield from reading_task(found.pk)
        return Closed(task=closed, unblocked=unblocked, open_children=tuple(map(ref_from_row, children)))

    @writes("task_claims.reopen")
    def reopen(self, task: str, *, why: str | None = None) -> Script[Task]:
        """Reopen a closed task, and restore it if it has decayed. The tasks that it blocks are blocked again."""
        why = None if why is None else str(self._clean(why))
        now = self._now
        yield from taking_book(self.resource)
        found = yield from finding(self.resource, task)
        if found.level > 0:
            yield from unpacking(found, now)
        old = yield from reading_task(found.pk)
        if not (yield claim_queries.reopen_task(task_pk=found.pk, now=now)):
            raise TaskMoveRefused(found.handle, found.status, "reopened", "Only a closed task can be reopened.")
        yield from settling_after_status(found.pk)
        was = {"reason": old.close_reason, "summary": old.summary}
        yield change_step(found.pk, now, self._name, "reopened", why=why, was=was)
        return (yield from reading_task(found.pk))

    def _end(self, lease: float | None) -> datetime:
        seconds = self._config.task_lease if lease is None else lease
        try:
            end = self._moment + timedelta(seconds=seconds)
        except (OverflowError, ValueError, TypeError):
            end = self._moment
        if end <= self._moment:
            raise InputError(
                f"`lease` must be a positive number of seconds and end before the year 10000, got {seconds!r}.",
                then="Pass a positive number of seconds.",
            )
        return end

    @writes("task_decay.decay")
    def decay(self, *, limit: int = 500) -> Script[Decayed]:
        """Reduce closed tasks to their summary after 30 days, and archive them after 90 days."""
        check_limit(limit)
        return (yield from decaying(self.resource, self._now, limit=limit))

    @writes("task_decay.restore")
    def restore(self, task: str) -> Script[Task]:
        """Restore the description, metadata and summary of a decayed task."""
        found = yield from finding(self.resource, task)
        if found.level > 0:
            yield from unpacking(found, self._now)
        return (yield from reading_task(found.pk))


def decaying(resource: str, now: int, *, limit: int) -> Script[Decayed]:
    """Decay tasks as part of a larger script."""
    summarised: list[str] = []
    archived: list[str] = []
    # Level 2 comes first, so that no task decays by two levels at once.
    for level, done in ((2, archived), (1, summarised)):
        before = now - _AFTER_DAYS[level] * _DAY
        rows = yield decay_queries.due_to_decay(resource=resource, level=level - 1, before=before, limit=limit)
        for row in rows:
            changed = yield decay_queries.decay(
                task_pk=row.pk, level=level, old_level=level - 1, version=row.version, **_decayed_columns(row, level)
            )
            done.extend(one.handle for one in changed)
    return Decayed(summarised=tuple(summarised), archived=tuple(archived))


def unpacking(found: Row, now: int) -> Script[None]:
    """Restore the columns of a task from its archive."""
    rows = yield decay_queries.kept(task_pk=found.pk)
    archive = cast("str", rows[0].archive or "")
    try:
        text = (
            zlib.decompress(base64.b64decode(archive[len(_COMPRESSED) :])).decode()
            if archive.startswith(_COMPRESSED)
            else archive
        )
        kept = cast("dict[str, str | None]", loads(text))
    except ValueError as error:
        raise StoreCorrupt(
            f"The archive of {found.handle} cannot be read.",
            why=str(error),
            then="The rest of the task is not affected. Restore a backup to get its description.",
        ) from error
    yield decay_queries.restore(
        task_pk=found.pk,
        summary=kept["summary"],
        metadata=kept["metadata"],
        description=kept["description"],
        now=now,
    )


def _decayed_columns(row: Row, level: int) -> dict[str, object]:
    """Return the columns of a task at a level, with the rest archived."""
    whole = row.archive or dumps({"summary": row.summary, "metadata": row.metadata, "description": row.description})
    if level == 1:
        return {"summary": row.summary, "metadata": "{}", "description": "", "archive": whole}
    short = unpack(row.summary) or ""
    if len(short) > _ARCHIVED_SUMMARY:
        short = f"{short[:_ARCHIVED_SUMMARY].rstrip()}…"
    packed = _COMPRESSED + base64.b64encode(zlib.compress(whole.encode(), 9)).decode()
    return {"summary": pack(short), "metadata": "{}", "description": "", "archive": packed}


def held_task(thread_pk: int, now: int) -> Script[Row | None]:
    """Return the row of the active task of a thread, or None if its claim has ended.

    A thread that saves messages is working on the task, so the claim is renewed when half of its time is over.
    """
    rows = yield claim_queries.held(thread_pk=thread_pk, now=now)
    if not rows:
        return None
    held = rows[0]
    if held.lease_micros and held.expires_at - now < held.lease_micros // 2:
        lease = {"name": held.name, "owner": held.owner, "fence": held.fence}
        yield claim_queries.renew_held(thread_pk=thread_pk, expires_at=now + held.lease_micros, **lease)
    return held


def _checked_end(reason: object, summary: object) -> str:
    if reason not in CLOSE_REASONS:
        raise InputError(f"Unknown reason to close a task: {reason!r}.", then=f"Use one of {', '.join(CLOSE_REASONS)}.")
    if not isinstance(summary, str) or not summary.strip():
        raise InputError(
            "A task cannot be closed without a summary.",
            why="The summary records what was done and decided.",
            then="Write a few sentences about the result; draft_summary() drafts them from the conversation.",
        )
    if len(summary) > _LONGEST_SUMMARY:
        raise InputError(
            f"`summary` must have at most {_LONGEST_SUMMARY:,} characters, got {len(summary):,}.", then="Shorten it."
        )
    return summary


def _refusing(resource: str, found: Row) -> Script[None]:
    """Raise the error for a task that could not be claimed although its lease was free."""
    now = yield from finding(resource, found.id)
    if now.status == "closed":
        raise TaskMoveRefused(found.handle, "closed", "claimed", "Reopen it first, or claim another one.")
    roots = yield from reading_roots(found.pk)
    raise TaskBlocked(found.handle, tuple(root.handle for root in roots), named(roots) or "a blocked parent")


def _held_by_other(resource: str, found: Row) -> Script[None]:
    rows = yield claim_queries.holder(resource=resource, name=lease_name(found.id))
    if not rows:
        raise TaskHeld(found.handle, None, "")
    raise TaskHeld(found.handle, unpack(rows[0].owner), f"{from_micros(rows[0].expires_at):%Y-%m-%d %H:%M:%S} UTC")


def _expecting_free(resource: str, found: Row, session: str, now: int, *, force: bool) -> Script[None]:
    """Raise TaskHeld if another session has claimed the task, unless `force` is set."""
    rows = yield claim_queries.holder(resource=resource, name=lease_name(found.id))
    is_held = bool(rows) and rows[0].expires_at > now and unpack(rows[0].owner) != session
    if is_held and not force:
        yield from _held_by_other(resource, found)
