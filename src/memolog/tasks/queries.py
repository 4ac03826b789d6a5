"""Read tasks: one with its links, lists, stale tasks and likely duplicates."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from memolog.core.clock import Clock, to_micros
from memolog.core.exact_json import pack
from memolog.db.engine import Engine
from memolog.db.queries import Script, load_queries
from memolog.db.scope import FIRST, LAST, Page, check_id, check_ids, check_limit, check_optional_ids, page_key, page_of
from memolog.errors import InputError
from memolog.tasks.dependencies import reading_refs
from memolog.tasks.rows import TaskFilter, finding, parent_of, reading_task, ref_from_row, tasks_of_rows
from memolog.tasks.rules import like_pairs
from memolog.tasks.task import LikelyDuplicate, Task, TaskRef, TaskView

# A century.
_MOST_DAYS = 36_525

q = load_queries("tasks/tasks")
links = load_queries("tasks/task_links")
messages = load_queries("tasks/task_messages")

_COMPARED = 5_000


class TaskViews:
    """Reads the tasks of every resource, one resource at a time."""

    def __init__(self, engine: Engine, clock: Clock) -> None:
        self._engine, self._clock = engine, clock

    async def get(self, resource: str, task: str) -> Task:
        """Return a task by id or handle; raises TaskNotFound."""
        check_ids(resource=resource, task=task)

        def script() -> Script[Task]:
            found = yield from finding(resource, task)
            return (yield from reading_task(found.pk))

        return await self._engine.read(script)

    async def some(self, resource: str, tasks: Sequence[str]) -> dict[str, Task]:
        """Return the existing ones among some tasks by their ids."""
        check_ids(resource=resource)
        ids = [check_id("task", task) for task in tasks]

        def script() -> Script[dict[str, Task]]:
            rows = (yield q.by_ids(resource=resource, ids=ids)) if ids else ()
            return {task.id: task for task in (yield from tasks_of_rows(rows))}

        return await self._engine.read(script)

    async def named(self, resource: str, title: str, *, limit: int = 10) -> tuple[Task, ...]:
        """Return the tasks with this title, ignoring case; those not closed first."""
        check_ids(resource=resource)
        check_limit(limit)
        wanted = (pack(title) or "").lower()

        def script() -> Script[tuple[Task, ...]]:
            rows = yield q.by_title(resource=resource, title=wanted, limit=limit)
            return (yield from tasks_of_rows(rows))

        return await self._engine.read(script, brief=False)

    async def show(self, resource: str, task: str) -> TaskView:
        """Return a task with all its links."""
        check_ids(resource=resource, task=task)

        def script() -> Script[TaskView]:
            found = yield from finding(resource, task)
            shown = yield from reading_task(found.pk)
            sides: dict[tuple[str, bool], list[TaskRef]] = {}
            for row in (yield links.neighbours(task_pk=found.pk)):
                sides.setdefault((row.kind, bool(row.is_source)), []).append(ref_from_row(row))
            linked = yield messages.count_linked(task_pk=found.pk)

            def side(kind: str, *, is_source: bool) -> tuple[TaskRef, ...]:
                return tuple(sides.get((kind, is_source), ()))

            return TaskView(
                task=shown,
                blocked_by=side("blocks", is_source=False),
                blocks=side("blocks", is_source=True),
                parents=side("parent-child", is_source=False),
                children=side("parent-child", is_source=True),
                related=side("related", is_source=True) + side("related", is_source=False),
                discovered_from=side("discovered-from", is_source=False),
                discovered=side("discovered-from", is_source=True),
                messages=linked[0].messages,
            )

        return await self._engine.read(script)

    async def list(
        self,
        resource: str,
        chosen: TaskFilter | None = None,
        *,
        session: str | None = None,
        blocked: bool | None = None,
        due_before: datetime | None = None,
        limit: int = 50,
        after: str | None = None,
    ) -> Page[Task]:
        """Return the tasks that match a filter, newest first."""
        check_ids(resource=resource)
        check_limit(limit)
        check_optional_ids(session=session)
        wanted = chosen or TaskFilter()
        before_at, before_pk = page_key(after, (LAST, LAST))
        values: dict[str, Any] = {
            "session": session,
            "blocked": None if blocked is None else int(blocked),
            "due_before": None if due_before is None else to_micros(due_before),
            "before_at": before_at,
            "before_pk": before_pk,
            "limit": limit + 1,
        }

        def script() -> Script[Page[Task]]:
            parent = yield from parent_of(resource, wanted)
            rows = yield q.list_tasks(resource=resource, **values, **wanted.values(parent))
            shown, more = page_of(rows, limit, "created_at", "pk")
            return Page(items=(yield from tasks_of_rows(shown)), next=more)

        return await self._engine.read(script)

    async def stale(self, resource: str, *, days: float = 14, limit: int = 50, after: str | None = None) -> Page[Task]:
        """Return unclaimed tasks that have not changed for so many days, the longest unchanged first."""
        check_ids(resource=resource)
        check_limit(limit)
        if not isinstance(days, int | float) or not 0 <= days <= _MOST_DAYS:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InputError(
                f"`days` must be a number from 0 to {_MOST_DAYS:,}, got {days!r}.", then="Pass a number of days."
            )
        now = self._clock.now()
        before = to_micros(now - timedelta(days=days))
        at, pk = page_key(after, (FIRST, FIRST))

        def script() -> Script[Page[Task]]:
            rows = yield q.stale(resource=resource, before=before, now=to_micros(now), at=at, pk=pk, limit=limit + 1)
            shown, more = page_of(rows, limit, "updated_at", "pk")
            return Page(items=(yield from tasks_of_rows(shown)), next=more)

        return await self._engine.read(script, brief=False)

    async def duplicates(
        self, resource: str, task: str | None = None, *, title: str | None = None, least: float = 0.6, limit: int = 20
    ) -> tuple[LikelyDuplicate, ...]:
        """Return pairs of open tasks that are likely the same: all pairs, or those with a task or a title."""
        check_ids(resource=resource)
        check_limit(limit)
        check_optional_ids(task=task)

        def script() -> Script[tuple[TaskRef, list[TaskRef]]]:
            asked = TaskRef(id="", handle="", title=title or "", status="open", priority=2)
            if task is not None:
                (asked,) = yield from reading_refs([(yield from finding(resource, task)).pk])
            rows = yield q.open_texts(resource=resource, limit=_COMPARED)
            return asked, [ref for ref in map(ref_from_row, rows) if ref.id != asked.id]

        asked, refs = await self._engine.read(script, brief=False)
        is_one = task is not None or title is not None
        if is_one:
            refs.append(asked)
        of = len(refs) - 1 if is_one else None
        pairs = like_pairs([ref.title for ref in refs], least=least, of=of)
        # The task that was asked about comes first.
        return tuple(
            LikelyDuplicate(
                task=refs[other if other == of else one],
                other=refs[one if other == of else other],
                likeness=round(likeness, 3),
            )
            for one, other, likeness in pairs[:limit]
        )
