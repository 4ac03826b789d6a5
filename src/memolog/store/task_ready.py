"""Read which tasks are ready, and why others are not."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from operator import attrgetter

from memolog.domain.clock import Clock
from memolog.domain.moments import to_micros
from memolog.domain.task import Explained, ReadyTask, ReadyTasks, TaskCounts, TaskRef
from memolog.store.engine import Engine
from memolog.store.scope import FIRST, check_ids, check_limit, page_key, page_of
from memolog.store.sql import Row, Script, load_queries
from memolog.store.task_filter import TaskFilter, parent_of
from memolog.store.task_rows import finding, reading_task, ref_from_row, tasks_of_rows
from memolog.tasks.readiness import not_ready_because, why_ready
from memolog.tasks.worth import EdgeTask, EdgeTasks

__all__ = ["TaskReady", "reading_roots"]

q = load_queries("tasks")
links = load_queries("task_links")

_AT_EDGE = 24
_ORDER = ("priority", "created_at", "pk")
_SOON = timedelta(days=2)


class TaskReady:
    """Reads ready tasks, one resource at a time."""

    def __init__(self, engine: Engine, clock: Clock) -> None:
        self._engine, self._clock = engine, clock

    async def ready(
        self, resource: str, chosen: TaskFilter | None = None, *, limit: int = 10, after: str | None = None
    ) -> ReadyTasks:
        """Return what can be claimed now, by priority, then age, with why, and the counts of all."""
        check_ids(resource=resource)
        check_limit(limit)
        wanted = chosen or TaskFilter()
        moment = self._clock.now()
        now = to_micros(moment)
        key = page_key(after, (FIRST, FIRST, FIRST))

        def script() -> Script[ReadyTasks]:
            rows = yield from _ready_rows(resource, wanted, now, key, limit + 1)
            shown, more = page_of(rows, limit, *_ORDER)
            waiting = yield from _unblocks(shown)
            found = yield from tasks_of_rows(shown)
            counts = yield from _counts(resource, now)
            return ReadyTasks(
                items=tuple(
                    ReadyTask(task=task, why=why_ready(task, moment, waiting.get(row.pk, 0)))
                    for row, task in zip(shown, found, strict=True)
                ),
                counts=counts,
                next=more,
            )

        return await self._engine.read(script)

    async def counts(self, resource: str) -> TaskCounts:
        """Return how many tasks are ready, blocked, deferred and in progress."""
        check_ids(resource=resource)
        now = to_micros(self._clock.now())
        return await self._engine.read(lambda: _counts(resource, now))

    async def explain(self, resource: str, task: str) -> Explained:
        """Return why a task is or is not ready."""
        check_ids(resource=resource, task=task)
        now = self._clock.now()

        def script() -> Script[Explained]:
            found = yield from finding(resource, task)
            shown = yield from reading_task(found.pk)
            own = [ref_from_row(row) for row in (yield links.open_blockers(pks=[found.pk]))]
            parents = yield links.blocked_parents(pks=[found.pk])
            by_parent: list[tuple[TaskRef, Sequence[TaskRef]]] = []
            for row in parents:
                above = yield from reading_roots(row.pk)
                by_parent.append((ref_from_row(row), above))
            reasons = not_ready_because(shown, now, own, by_parent)
            roots = {ref.id: ref for refs in (own, *(roots for _, roots in by_parent)) for ref in refs}
            if reasons:
                return Explained(task=shown, is_ready=False, reasons=reasons, blockers=tuple(roots.values()))
            waiting = yield q.unblocks(pks=[found.pk])
            why = why_ready(shown, now, waiting[0].tasks if waiting else 0)
            return Explained(task=shown, is_ready=True, reasons=(f"It is ready: {why}.",))

        return await self._engine.read(script)

    async def edge(self, resource: str, thread: str, *, now: datetime) -> EdgeTasks:
        """Return the tasks that a context may show: the active one of the thread, the most urgent ready ones, and those due."""
        check_ids(resource=resource, thread=thread)
        at = to_micros(now)

        def script() -> Script[EdgeTasks]:
            active = yield q.active_of_thread(resource=resource, thread=thread, now=at)
            ready = yield from _ready_rows(resource, TaskFilter(), at, (FIRST, FIRST, FIRST), _AT_EDGE)
            due = yield q.due_soon(resource=resource, now=at, until=to_micros(now + _SOON), limit=_AT_EDGE)
            rows = list({row.pk: row for row in (*active, *ready, *due)}.values())
            waiting = yield from _unblocks(rows)
            found = yield from tasks_of_rows(rows)
            counts = yield from _counts(resource, at)
            active_pks = {row.pk for row in active}
            shown = (
                EdgeTask(task=task, is_active=row.pk in active_pks, unblocks=waiting.get(row.pk, 0))
                for row, task in zip(rows, found, strict=True)
            )
            return EdgeTasks(tasks=tuple(shown), counts=counts)

        return await self._engine.read(script)


# ---------------------------------------------------------------- pieces of scripts


def _ready_rows(resource: str, wanted: TaskFilter, now: int, key: Sequence[int], limit: int) -> Script[Sequence[Row]]:
    priority, at, pk = key
    where = {"resource": resource, "now": now, "priority": priority, "at": at, "pk": pk, "limit": limit}
    parent = yield from parent_of(resource, wanted)
    values = {**where, **wanted.values(parent)}
    opened = yield q.ready_open(**values)
    ended = yield q.ready_ended(**values)
    if not ended:
        return opened
    return sorted((*opened, *ended), key=attrgetter(*_ORDER))[:limit]


def _unblocks(rows: Sequence[Row]) -> Script[dict[int, int]]:
    if not rows:
        return {}
    return {row.source_pk: row.tasks for row in (yield q.unblocks(pks=[row.pk for row in rows]))}


def _counts(resource: str, now: int) -> Script[TaskCounts]:
    groups = {(row.status, bool(row.blocked)): row.tasks for row in (yield q.counts(resource=resource))}
    deferred = (yield q.count_deferred(resource=resource, now=now))[0].tasks
    in_progress = sum(groups.get(("in_progress", blocked), 0) for blocked in (False, True))
    ended = (yield q.count_ended(resource=resource, now=now))[0].tasks if in_progress else 0
    return TaskCounts(
        ready=groups.get(("open", False), 0) - deferred + ended,
        blocked=sum(groups.get((status, True), 0) for status in ("open", "in_progress")),
        deferred=deferred,
        in_progress=in_progress,
    )


def reading_roots(task_pk: int) -> Script[tuple[TaskRef, ...]]:
    """Return the open tasks that ultimately block a task: its blockers, or those of its blocked parents."""
    roots: dict[int, TaskRef] = {}
    level, seen = [task_pk], {task_pk}
    while level:
        rows = yield links.open_blockers(pks=level)
        roots.update({row.pk: ref_from_row(row) for row in rows})
        parents = yield links.blocked_parents(pks=level)
        level = [pk for pk in dict.fromkeys(row.pk for row in parents) if pk not in seen]
        seen.update(level)
    return tuple(roots.values())
