"""Find tasks by id or handle, and convert their rows to values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

from memolog.core.clock import Clock, from_micros
from memolog.core.exact_json import dumps, loads, pack, unpack
from memolog.db.engine import Engine, TimedCalls
from memolog.db.queries import Row, Script, Step, load_queries
from memolog.db.rows import moment, object_in
from memolog.db.scope import CleanValue, check_ids, check_optional_ids, chunks
from memolog.errors import InputError, TaskNotFound
from memolog.tasks.task import STATUSES, TASK_TYPES, Task, TaskChange, TaskRef, TaskStatus, TaskType, handle_in

q = load_queries("tasks/tasks")

_ROWS_A_QUERY = 512


class TaskCalls(TimedCalls):
    """Base class for the calls on tasks. Each call reads or changes the tasks of one resource."""

    def __init__(self, engine: Engine, clock: Clock, new_id: Callable[[], str], clean: CleanValue | None) -> None:
        super().__init__(engine, clock)
        self._new_id = new_id
        self._clean: CleanValue = clean or (lambda value: value)


def lease_name(task_id: str) -> str:
    """Return the name of the lease on a task."""
    return f"task:{task_id}"


def finding(resource: str, task: str) -> Script[Row]:
    """Return the row of a task by its id or handle, with the columns of the query `find`. Raise TaskNotFound if there is none."""
    check_ids(resource=resource, task=task)
    rows = yield q.find(resource=resource, task=task, handle=handle_in(task))
    if not rows:
        raise TaskNotFound(task)
    return rows[0]


def reading_task(task_pk: int) -> Script[Task]:
    """Return the task with this primary key."""
    rows = yield q.by_pk(task_pk=task_pk)
    return (yield from tasks_of_rows(rows))[0]


def tasks_of_rows(rows: Sequence[Row]) -> Script[tuple[Task, ...]]:
    """Read the labels of tasks, and return the tasks. The rows have the columns of the SQL fragment `select_tasks`."""
    labels: dict[int, set[str]] = {}
    for pks in chunks([row.pk for row in rows], _ROWS_A_QUERY):
        for row in (yield q.labels_of(pks=pks)):
            labels.setdefault(row.task_pk, set()).add(row.label)
    return tuple(_task(row, frozenset(labels.get(row.pk, ()))) for row in rows)


def _task(row: Row, labels: frozenset[str]) -> Task:
    session = unpack(row.session)
    is_claimed = row.status == "in_progress" and row.owner is not None and unpack(row.owner) == session
    return Task(
        id=row.id,
        handle=row.handle,
        resource=row.resource,
        status=row.status,
        priority=row.priority,
        type=row.type,
        blocked=bool(row.blocked),
        assignee=unpack(row.assignee),
        session=session,
        held_until=moment(row.expires_at) if is_claimed else None,
        labels=labels,
        defer_until=moment(row.defer_until),
        due=moment(row.due),
        created_at=from_micros(row.created_at),
        updated_at=from_micros(row.updated_at),
        closed_at=moment(row.closed_at),
        close_reason=row.close_reason,
        level=row.level,
        version=row.version,
        title=unpack(row.title) or "",
        summary=unpack(row.summary),
        metadata=object_in(row.metadata),
        description=unpack(row.description) or "",
    )


def ref_from_row(row: Row) -> TaskRef:
    """Return the short form of a task. The row has the columns of the SQL fragment `select_refs`."""
    return TaskRef(
        id=row.id,
        handle=row.handle,
        title=unpack(row.title) or "",
        status=row.status,
        priority=row.priority,
        blocked=bool(row.blocked),
    )


def change_step(task_pk: int, now: int, who: str, what: str, **details: Any) -> Step:
    """Return the step that adds a change to the history of a task. Details that are None are not stored."""
    change = {"what": what, **{name: value for name, value in details.items() if value is not None}}
    return q.insert_change(task_pk=task_pk, now=now, who=pack(who), change=dumps(change))


def change_from_row(row: Row) -> TaskChange:
    """Return the change from a row of the query `changes`."""
    change = cast("dict[str, Any]", loads(row.change))
    return TaskChange(at=from_micros(row.at), who=unpack(row.who) or "", what=change.pop("what"), details=change)


LOWEST_PRIORITY = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFilter:
    """Conditions on tasks. A task must have all of the labels. A condition with its default value has no effect."""

    statuses: tuple[TaskStatus, ...] = ()
    types: tuple[TaskType, ...] = ()
    labels: tuple[str, ...] = ()
    assignee: str | None = None
    parent: str | None = None
    most_priority: int = LOWEST_PRIORITY
    """The highest number of a priority that matches: 1 means the priorities 0 and 1."""

    def __post_init__(self) -> None:
        for given, known, kind in ((self.statuses, STATUSES, "status"), (self.types, TASK_TYPES, "type of task")):
            unknown = [value for value in given if value not in known]
            if unknown:
                raise InputError(f"Unknown {kind}: {unknown[0]!r}.", then=f"Use one of {', '.join(known)}.")
        for label in self.labels:
            check_ids(label=label)
        check_optional_ids(assignee=self.assignee, task=self.parent)

    def values(self, parent_pk: int | None) -> dict[str, Any]:
        """Return the parameters of the SQL fragment `filters`."""
        labels = sorted(set(self.labels))
        return {
            "any_status": int(not self.statuses),
            "statuses": self.statuses,
            "any_type": int(not self.types),
            "types": self.types,
            "most_priority": self.most_priority,
            "assignee": self.assignee,
            "labelled": len(labels),
            "labels": labels,
            "parent_pk": parent_pk,
        }


def parent_of(resource: str, wanted: TaskFilter) -> Script[int | None]:
    """Return the primary key of the parent in a filter, or None if the filter has no parent."""
    if wanted.parent is None:
        return None
    return (yield from finding(resource, wanted.parent)).pk
