"""Link tasks without cycles, update their blocked state, and read which tasks are ready and why.

After every commit, the column `tasks.blocked` matches its definition in `memolog.tasks.rules`. A change updates only the tasks
that it can affect.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from operator import attrgetter

from memolog.core.clock import to_micros
from memolog.core.exact_json import pack, unpack
from memolog.db.engine import Calls
from memolog.db.engine import reads as reads_of_resource
from memolog.db.queries import Row, Script, load_queries
from memolog.db.scope import FIRST, check_ids, check_limit, check_optional_ids, chunks, page_key, page_of
from memolog.errors import InputError, TaskCycle
from memolog.tasks.rows import (
    TaskCalls,
    TaskFilter,
    change_step,
    finding,
    names_in,
    parent_of,
    reading_task,
    reads,
    ref_from_row,
    tasks_of_rows,
    writes,
)
from memolog.tasks.rules import ORDERING, SOON, EdgeTask, EdgeTasks, not_ready_because, why_ready
from memolog.tasks.task import (
    LINK_KINDS,
    Explained,
    LinkKind,
    ReadyTask,
    ReadyTasks,
    Task,
    TaskCounts,
    TaskRef,
    TaskType,
)

link_queries = load_queries("tasks/task_links")
task_queries = load_queries("tasks/tasks")
_KEYS_A_QUERY = 512
# The edge of a context chooses from at most this many ready tasks, and from at most as many tasks that are due within `SOON`.
_AT_EDGE = 24
_ORDER = ("priority", "created_at", "pk")


class TaskLinks(TaskCalls):
    """Calls that link tasks, and read which tasks are ready."""

    @writes("task_links.link")
    def link(self, source: str, target: str, kind: LinkKind = "blocks") -> Script[Task]:
        """Link two tasks: `source` blocks, is the parent of, is related to, or gave rise to `target`.

        Return the target. Raise TaskCycle if the tasks would wait for each other.
        """
        one, other = yield from self._locking_two(source, target, kind)
        if (yield from linking(one, other, kind, self._name, self._now)) and kind in ORDERING:
            yield from settling([other.pk])
        return (yield from reading_task(other.pk))

    @writes("task_links.unlink")
    def unlink(self, source: str, target: str, kind: LinkKind = "blocks") -> Script[Task]:
        """Remove a link, and return the target."""
        one, other = yield from self._locking_two(source, target, kind)
        first, second = _ordered(one, other, kind)
        if (yield link_queries.delete_link(source_pk=first.pk, target_pk=second.pk, kind=kind)):
            yield from _recording_link(one, other, kind, self._name, self._now, "unlinked")
            if kind in ORDERING:
                yield from settling([other.pk])
        return (yield from reading_task(other.pk))

    def _locking_two(self, source: str, target: str, kind: LinkKind) -> Script[tuple[Row, Row]]:
        """Lock the links, and return the rows of two tasks."""
        if kind not in LINK_KINDS:
            raise InputError(f"Unknown kind of link: {kind!r}.", then=f"Use one of {', '.join(LINK_KINDS)}.")
        yield from taking_book(self.resource)
        return (yield from finding(self.resource, source)), (yield from finding(self.resource, target))

    @reads
    def ready(
        self,
        *,
        labels: Sequence[str] = (),
        types: Sequence[TaskType] = (),
        max_priority: int = 4,
        assignee: str | None = None,
        parent: str | None = None,
        limit: int = 10,
        after: str | None = None,
    ) -> Script[ReadyTasks]:
        """Return the tasks that can be claimed now, sorted by priority and age, with reasons, and the counts of all tasks."""
        check_limit(limit)
        wanted = TaskFilter(
            types=tuple(types), labels=names_in(labels), most_priority=max_priority, assignee=assignee, parent=parent
        )
        key = page_key(after, (FIRST, FIRST, FIRST))
        rows = yield from _ready_rows(self.resource, wanted, self._now, key, limit + 1)
        shown, more = page_of(rows, limit, *_ORDER)
        waiting = yield from _unblocks(shown)
        found = yield from tasks_of_rows(shown)
        counts = yield from _counts(self.resource, self._now)
        return ReadyTasks(
            items=tuple(
                ReadyTask(task=task, why=why_ready(task, self._moment, waiting.get(row.pk, 0)))
                for row, task in zip(shown, found, strict=True)
            ),
            counts=counts,
            next=more,
        )

    @reads
    def counts(self) -> Script[TaskCounts]:
        """Return how many tasks are ready, blocked, deferred and in progress."""
        return (yield from _counts(self.resource, self._now))

    @reads
    def explain(self, task: str) -> Script[Explained]:
        """Return the reasons why a task is ready or not ready."""
        found = yield from finding(self.resource, task)
        shown = yield from reading_task(found.pk)
        own = [ref_from_row(row) for row in (yield link_queries.open_blockers(pks=[found.pk]))]
        parents = yield link_queries.blocked_parents(pks=[found.pk])
        by_parent: list[tuple[TaskRef, Sequence[TaskRef]]] = []
        for row in parents:
            above = yield from reading_roots(row.pk)
            by_parent.append((ref_from_row(row), above))
        reasons = not_ready_because(shown, self._moment, own, by_parent)
        roots = {ref.id: ref for refs in (own, *(roots for _, roots in by_parent)) for ref in refs}
        if reasons:
            return Explained(task=shown, is_ready=False, reasons=reasons, blockers=tuple(roots.values()))
        waiting = yield task_queries.unblocks(pks=[found.pk])
        why = why_ready(shown, self._moment, waiting[0].tasks if waiting else 0)
        return Explained(task=shown, is_ready=True, reasons=(f"It is ready: {why}.",))


class TaskReady(Calls):
    """Reads tasks for contexts."""

    @reads_of_resource
    def edge(self, resource: str, thread: str, *, now: datetime) -> Script[EdgeTasks]:
        """Return the tasks that a context may show: the active task of the thread, urgent ready tasks, and tasks due soon."""
        check_ids(resource=resource, thread=thread)
        active = yield task_queries.active_of_thread(resource=resource, thread=thread, now=to_micros(now))
        return (yield from _edge(resource, now, active, ()))

    @reads_of_resource
    def overview(
        self, resource: str, *, now: datetime, thread: str | None = None, session: str | None = None
    ) -> Script[EdgeTasks]:
        """Return the tasks of `edge` and all other tasks in progress. Tasks that `session` has claimed count as active too."""
        check_ids(resource=resource)
        check_optional_ids(thread=thread, session=session)
        at = to_micros(now)
        holder = session or thread
        held = yield task_queries.held_tasks(
            resource=resource, session=None if holder is None else pack(holder), now=at, limit=_AT_EDGE
        )
        active = (yield task_queries.active_of_thread(resource=resource, thread=thread, now=at)) if thread else ()
        mine = [row for row in held if holder is not None and unpack(row.owner) == holder]
        return (yield from _edge(resource, now, [*active, *mine], held))


def _edge(resource: str, now: datetime, active: Sequence[Row], held: Sequence[Row]) -> Script[EdgeTasks]:
    """Return active tasks, tasks that sessions hold, urgent ready tasks, and tasks due soon."""
    at = to_micros(now)
    ready = yield from _ready_rows(resource, TaskFilter(), at, (FIRST, FIRST, FIRST), _AT_EDGE)
    due = yield task_queries.due_soon(resource=resource, now=at, until=to_micros(now + SOON), limit=_AT_EDGE)
    rows = list({row.pk: row for row in (*active, *held, *ready, *due)}.values())
    waiting = yield from _unblocks(rows)
    found = yield from tasks_of_rows(rows)
    counts = yield from _counts(resource, at)
    active_pks, held_pks = {row.pk for row in active}, {row.pk for row in held}
    shown = (
        EdgeTask(
            task=task,
            is_active=row.pk in active_pks,
            is_held=row.pk in held_pks and row.pk not in active_pks,
            unblocks=waiting.get(row.pk, 0),
        )
        for row, task in zip(rows, found, strict=True)
    )
    return EdgeTasks(tasks=tuple(shown), counts=counts)


def taking_book(resource: str) -> Script[None]:
    """Lock the blocking links of a resource's tasks until the transaction ends."""
    yield task_queries.take_book(resource=resource, count=0)


def linking(source: Row, target: Row, kind: LinkKind, who: str, now: int) -> Script[bool]:
    """Link two tasks, and return whether the link is new. Raise TaskCycle if they would wait for each other.

    The caller must call `taking_book` before, and `settling` afterwards.
    """
    if source.pk == target.pk:
        raise InputError(f"{source.handle} cannot be linked to itself.", then="Pass the ids or handles of two tasks.")
    # If earlier links say that the target must be closed before the source, the new link would make a cycle.
    if kind in ORDERING and (pks := (yield from finding_path(target.pk, source.pk))):
        handles = {row.pk: row.handle for row in (yield link_queries.handles(pks=pks))}
        raise TaskCycle(source.handle, target.handle, kind, (source.handle, *(handles[pk] for pk in pks)))
    first, second = _ordered(source, target, kind)
    if not (yield link_queries.insert_link(source_pk=first.pk, target_pk=second.pk, kind=kind, now=now)):
        return False
    yield from _recording_link(source, target, kind, who, now, "linked")
    return True


def _ordered(source: Row, target: Row, kind: LinkKind) -> tuple[Row, Row]:
    # A "related" link has no direction, so it is stored only once, with the lower key first.
    return (target, source) if kind == "related" and target.pk < source.pk else (source, target)


def _recording_link(source: Row, target: Row, kind: LinkKind, who: str, now: int, what: str) -> Script[None]:
    yield change_step(source.pk, now, who, what, kind=kind, target=target.handle)
    yield change_step(target.pk, now, who, what, kind=kind, source=source.handle)


def finding_path(start: int, end: int) -> Script[list[int]]:
    """Return the keys of the tasks on a path of links from `start` to `end`, or an empty list if there is no path.

    The search runs from both ends. Each step extends the side that has fewer tasks to continue from.
    """
    seen: tuple[dict[int, int], dict[int, int]] = ({start: start}, {end: end})
    ends = [[start], [end]]
    meeting = start if start == end else None
    while meeting is None and all(ends):
        side = 0 if len(ends[0]) <= len(ends[1]) else 1
        found: dict[int, int] = {}
        for pks in chunks(ends[side], _KEYS_A_QUERY):
            rows = yield link_queries.before_these(pks=pks) if side else link_queries.after_these(pks=pks)
            found |= (
                {row.source_pk: row.target_pk for row in rows}
                if side
                else {row.target_pk: row.source_pk for row in rows}
            )
        ends[side] = [pk for pk in found if pk not in seen[side]]
        seen[side].update({pk: found[pk] for pk in ends[side]})
        meeting = next((pk for pk in ends[side] if pk in seen[1 - side]), None)
    return [] if meeting is None else [*_way(seen[0], meeting)[::-1], *_way(seen[1], meeting)[1:]]


def _way(seen: Mapping[int, int], pk: int) -> list[int]:
    way = [pk]
    while seen[way[-1]] != way[-1]:
        way.append(seen[way[-1]])
    return way


def settling(pks: Iterable[int]) -> Script[dict[int, bool]]:
    """Update the blocked state of these tasks and of the tasks below them. Return the new state of the tasks that changed."""
    changed: dict[int, bool] = {}
    todo = list(dict.fromkeys(pks))
    while todo:
        touched: list[int] = []
        for chunk in chunks(todo, _KEYS_A_QUERY):
            for row in (yield link_queries.settle(pks=chunk)):
                changed[row.pk] = bool(row.blocked)
                touched.append(row.pk)
        # Update the children of changed tasks. Other tasks are not affected: a task blocks them until it is closed, even if it is
        # blocked itself.
        affected: dict[int, None] = {}
        for chunk in chunks(touched, _KEYS_A_QUERY):
            affected.update({row.target_pk: None for row in (yield link_queries.children_of(pks=chunk))})
        todo = list(affected)
    return changed


def settling_after_status(task_pk: int) -> Script[dict[int, bool]]:
    """Update the blocked state of a task that was closed or reopened, of the tasks that it blocks, and of its children."""
    waiting = yield link_queries.waiting_for(task_pk=task_pk)
    return (yield from settling([task_pk, *(row.target_pk for row in waiting)]))


def reading_refs(pks: Sequence[int]) -> Script[tuple[TaskRef, ...]]:
    """Return the short forms of tasks, the most urgent first."""
    refs: list[TaskRef] = []
    for chunk in chunks(pks, _KEYS_A_QUERY):
        refs.extend(ref_from_row(row) for row in (yield link_queries.refs(pks=chunk)))
    return tuple(refs)


def _ready_rows(resource: str, wanted: TaskFilter, now: int, key: Sequence[int], limit: int) -> Script[Sequence[Row]]:
    priority, at, pk = key
    where = {"resource": resource, "now": now, "priority": priority, "at": at, "pk": pk, "limit": limit}
    parent = yield from parent_of(resource, wanted)
    values = {**where, **wanted.values(parent)}
    opened = yield task_queries.ready_open(**values)
    ended = yield task_queries.ready_ended(**values)
    if not ended:
        return opened
    return sorted((*opened, *ended), key=attrgetter(*_ORDER))[:limit]


def _unblocks(rows: Sequence[Row]) -> Script[dict[int, int]]:
    if not rows:
        return {}
    return {row.source_pk: row.tasks for row in (yield task_queries.unblocks(pks=[row.pk for row in rows]))}


def _counts(resource: str, now: int) -> Script[TaskCounts]:
    groups = {(row.status, bool(row.blocked)): row.tasks for row in (yield task_queries.counts(resource=resource))}
    deferred = (yield task_queries.count_deferred(resource=resource, now=now))[0].tasks
    in_progress = sum(groups.get(("in_progress", blocked), 0) for blocked in (False, True))
    ended = (yield task_queries.count_ended(resource=resource, now=now))[0].tasks if in_progress else 0
    return TaskCounts(
        ready=groups.get(("open", False), 0) - deferred + ended,
        blocked=sum(groups.get((status, True), 0) for status in ("open", "in_progress")),
        deferred=deferred,
        in_progress=in_progress,
    )


def reading_roots(task_pk: int) -> Script[tuple[TaskRef, ...]]:
    """Return the open tasks that block a task or one of the parents above it."""
    roots: dict[int, TaskRef] = {}
    level, seen = [task_pk], {task_pk}
    while level:
        rows = yield link_queries.open_blockers(pks=level)
        roots.update({row.pk: ref_from_row(row) for row in rows})
        parents = yield link_queries.blocked_parents(pks=level)
        level = [pk for pk in dict.fromkeys(row.pk for row in parents) if pk not in seen]
        seen.update(level)
    return tuple(roots.values())
