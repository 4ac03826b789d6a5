"""The rows of tasks as values, and the few steps that every script about tasks begins with.

Knows which column is which field, and that a task is named by its id or its handle. Knows nothing of blocking or claims.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, cast

from memolog.domain.codec import JsonObject, dumps, loads, pack, unpack
from memolog.domain.errors import TaskNotFound
from memolog.domain.moments import from_micros
from memolog.domain.task import Task, TaskChange, TaskRef, TaskStatus, handle_in
from memolog.store.sql import Row, Script, Step, load_queries

__all__ = [
    "Found",
    "change_from_row",
    "change_step",
    "finding",
    "lease_name",
    "reading_task",
    "ref_from_row",
    "tasks_of_rows",
]

q = load_queries("tasks")

_ROWS_A_QUERY = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A task's key, and as much of its row as decides what may be done with it."""

    pk: int
    id: str
    handle: str
    status: TaskStatus
    is_blocked: bool
    level: int
    version: int
    session: str | None


def lease_name(task_id: str) -> str:
    """Return the name under which a task is claimed."""
    return f"task:{task_id}"


def finding(resource: str, task: str) -> Script[Found]:
    """Find a task by id or handle; raises TaskNotFound."""
    rows = yield q.find(resource=resource, task=task, handle=handle_in(task))
    if not rows:
        raise TaskNotFound(task)
    pk, id_, handle, status, blocked, level, version, session = rows[0]
    return Found(
        pk=pk,
        id=id_,
        handle=handle,
        status=status,
        is_blocked=bool(blocked),
        level=level,
        version=version,
        session=unpack(session),
    )


def reading_task(task_pk: int) -> Script[Task]:
    """Read one task whose key is known."""
    rows = yield q.by_pk(task_pk=task_pk)
    return (yield from tasks_of_rows(rows))[0]


def tasks_of_rows(rows: Sequence[Row]) -> Script[tuple[Task, ...]]:
    """Return the tasks of `select_tasks` rows, with their labels."""
    labels: dict[int, set[str]] = {}
    pks = [cast("int", row[0]) for row in rows]
    for start in range(0, len(pks), _ROWS_A_QUERY):
        for task_pk, label in (yield q.labels_of(pks=pks[start : start + _ROWS_A_QUERY])):
            labels.setdefault(task_pk, set()).add(label)
    return tuple(_task(row, frozenset(labels.get(row[0], ()))) for row in rows)


def _moment(micros: int | None) -> datetime | None:
    return None if micros is None else from_micros(micros)


def _task(row: Row, labels: frozenset[str]) -> Task:
    session = unpack(row[9])
    is_claimed = row[4] == "in_progress" and row[22] is not None and unpack(row[22]) == session
    return Task(
        id=row[1],
        handle=row[2],
        resource=row[3],
        status=row[4],
        priority=row[5],
        type=row[6],
        blocked=bool(row[7]),
        assignee=unpack(row[8]),
        session=session,
        held_until=_moment(row[23]) if is_claimed else None,
        labels=labels,
        defer_until=_moment(row[10]),
        due=_moment(row[11]),
        created_at=from_micros(row[12]),
        updated_at=from_micros(row[13]),
        closed_at=_moment(row[14]),
        close_reason=row[15],
        level=row[16],
        version=row[17],
        title=unpack(row[18]) or "",
        summary=unpack(row[19]),
        metadata=cast("JsonObject", loads(row[20])) if row[20] != "{}" else {},
        description=unpack(row[21]) or "",
    )


def ref_from_row(row: Row) -> TaskRef:
    """Return the few words of a `select_refs` row."""
    return TaskRef(
        id=row[0],
        handle=row[1],
        title=unpack(row[2]) or "",
        status=row[3],
        priority=row[4],
        blocked=bool(row[5]),
    )


def change_step(task_pk: int, now: int, who: str, what: str, **details: Any) -> Step:
    """Return the step that enters a change into a task's history. What is None is not told."""
    change = {"what": what, **{name: value for name, value in details.items() if value is not None}}
    return q.insert_change(task_pk=task_pk, now=now, who=pack(who), change=dumps(change))


def change_from_row(row: Row) -> TaskChange:
    """Return the entry of a `changes` row."""
    change = cast("dict[str, Any]", loads(row[2]))
    return TaskChange(at=from_micros(row[0]), who=unpack(row[1]) or "", what=change.pop("what"), details=change)
