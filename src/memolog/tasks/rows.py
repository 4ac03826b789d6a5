"""Find tasks by id or handle, and convert their rows to values."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from copy import copy
from dataclasses import dataclass
from datetime import datetime
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeVar, cast

from memolog.core.clock import from_micros, to_micros
from memolog.core.config import Config
from memolog.core.exact_json import JsonValue, dumps, loads, pack, unpack
from memolog.db.queries import Row, Script, Step, load_queries
from memolog.db.rows import moment, object_in
from memolog.db.scope import check_id, check_ids, check_optional_ids, chunks
from memolog.errors import InputError, StoreReadOnly, TaskNotFound
from memolog.tasks.task import STATUSES, TASK_TYPES, Task, TaskChange, TaskRef, TaskStatus, TaskType, handle_in
from memolog.text.redaction import redactor_for

if TYPE_CHECKING:
    from memolog.connection import Components

q = load_queries("tasks/tasks")

_ROWS_A_QUERY = 512


T = TypeVar("T")


class TaskCalls:
    """Base class for the calls on the tasks of one resource. `reads` and `writes` turn a script into a coroutine method."""

    _components: Components
    _moment: datetime

    def __init__(
        self,
        open_components: Callable[[], Awaitable[Components]],
        resource: str,
        config: Config,
        *,
        session: str | None,
        who: str | None,
        thread: str | None,
    ) -> None:
        self._open_components, self._config, self._who, self._thread = open_components, config, who, thread
        self.resource = check_id("resource", resource)
        self._session = session or thread

    async def _begun(self, *, to_write: bool = False) -> Self:
        """Return a copy of this object for one call. It has the time at which the call began, also if its script runs again."""
        if to_write and self._config.read_only:
            raise StoreReadOnly("This memory is read-only.", then="Open another Memory without read_only.")
        components = await self._open_components()
        if self._session is None:
            # Claims need a session. With a new id, they belong to this object only.
            self._session = components.store.new_id()
        if to_write:
            check_ids(session=self._session, who=self._name)
        begun = copy(self)
        begun._components, begun._moment = components, components.clock.now()  # noqa: SLF001
        return begun

    async def _run(self, script: Callable[[Self], Script[T]], name: str | None, *, brief: bool) -> T:
        """Run a script for one call. `name` is passed to the commit hook. If it is None, the script only reads."""
        begun = await self._begun(to_write=name is not None)
        engine = begun._components.store.engine  # noqa: SLF001
        if name is None:
            return await engine.read(lambda: script(begun), brief=brief)
        return await engine.write(lambda: script(begun), name=name)

    @property
    def _now(self) -> int:
        return to_micros(self._moment)

    @property
    def _holder(self) -> str:
        return self._session or "unknown"

    @property
    def _name(self) -> str:
        """Return the author of changes, for the history."""
        return self._who or self._holder

    def _clean(self, value: JsonValue) -> JsonValue:
        """Return a value without secrets if `redact_raw` is set, else the same value."""
        return redactor_for(self._config).value(value) if self._config.redact_raw else value


C = TypeVar("C", bound=TaskCalls)
P = ParamSpec("P")


def _method(
    script: Callable[Concatenate[C, P], Script[T]], name: str | None = None, *, brief: bool = True
) -> Callable[Concatenate[C, P], Coroutine[Any, Any, T]]:
    @wraps(script)
    async def call(self: C, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._run(lambda begun: script(begun, *args, **kwargs), name, brief=brief)  # pyright: ignore[reportPrivateUsage]

    return call


def reads(script: Callable[Concatenate[C, P], Script[T]]) -> Callable[Concatenate[C, P], Coroutine[Any, Any, T]]:
    """Return a coroutine method that runs a script on one consistent snapshot."""
    return _method(script)


def reads_much(script: Callable[Concatenate[C, P], Script[T]]) -> Callable[Concatenate[C, P], Coroutine[Any, Any, T]]:
    """Like `reads`, for a script that reads many rows."""
    return _method(script, brief=False)


def writes(
    name: str,
) -> Callable[[Callable[Concatenate[C, P], Script[T]]], Callable[Concatenate[C, P], Coroutine[Any, Any, T]]]:
    """Return a decorator for a method that runs its script in one transaction. `name` is passed to the commit hook."""
    return lambda script: _method(script, name)


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


def names_in(given: Any) -> tuple[Any, ...]:
    """Return a tuple of names from one name or several."""
    return (given,) if isinstance(given, str) else tuple(given)
