"""Perform `task-query`: ready, show, list, search."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, TypeVar

from memolog.domain.task import TaskHit
from memolog.tools.actions import ListTasks, Ready, SearchTasks, Show
from memolog.tools.naming import task_meant
from memolog.tools.scope import Scope
from memolog.tools.showing import (
    ROOM,
    fitting,
    shown_message,
    shown_observation,
    shown_task,
    shown_view,
)
from memolog.tools.understanding import Misunderstood

__all__ = ["query_tasks"]

T = TypeVar("T")

_DESCRIPTION: Final = 3_500
_RELATED: Final = 5


async def query_tasks(scope: Scope, action: Ready | Show | ListTasks | SearchTasks) -> dict[str, Any]:
    """Return the answer to a question about tasks."""
    match action:
        case Ready():
            return await _ready(scope, action)
        case Show():
            return await _show(scope, action)
        case ListTasks():
            return await _list(scope, action)
        case SearchTasks():
            return await _search(scope, action)


async def _named(scope: Scope, name: str | None) -> str | None:
    return None if name is None else (await task_meant(scope.tasks, name, await scope.current())).id


async def _ready(scope: Scope, action: Ready) -> dict[str, Any]:
    parent = await _named(scope, action.parent)

    async def page(limit: int) -> Any:
        return await scope.tasks.ready(
            labels=action.labels,
            types=[action.type] if action.type else (),
            max_priority=4 if action.max_priority is None else action.max_priority,
            assignee=action.assignee,
            parent=parent,
            limit=limit,
            after=action.cursor,
        )

    found, shown = await _paged(page, action.limit, lambda item: {**shown_task(item.task), "why": item.why})
    counts = found.counts
    told = {"ready": counts.ready, "blocked": counts.blocked, "in_progress": counts.in_progress}
    return {"tasks": shown, "counts": told, **_more(found.next)}


async def _list(scope: Scope, action: ListTasks) -> dict[str, Any]:
    parent = await _named(scope, action.parent)

    async def page(limit: int) -> Any:
        return await scope.tasks.list(
            status=(action.status,) if action.status else (),
            types=[action.type] if action.type else (),
            labels=action.labels,
            max_priority=4 if action.max_priority is None else action.max_priority,
            assignee=action.assignee,
            parent=parent,
            blocked=action.blocked,
            limit=limit,
            after=action.cursor,
        )

    found, shown = await _paged(page, action.limit, shown_task)
    return {"tasks": shown, **_more(found.next)}


async def _paged(
    page: Callable[[int], Awaitable[Any]], limit: int, show: Callable[[Any], dict[str, Any]]
) -> tuple[Any, list[dict[str, Any]]]:
    """Return a page and what is shown of it; where it does not fit, a shorter page, so that its cursor is right."""
    found = await page(limit)
    shown = fitting(found.items, show, ROOM)
    if len(shown) < len(found.items):
        found = await page(len(shown))
        shown = [show(item) for item in found.items]
    return found, shown


def _more(cursor: str | None) -> dict[str, Any]:
    return {"cursor": cursor} if cursor is not None else {}


async def _show(scope: Scope, action: Show) -> dict[str, Any]:
    task = await task_meant(scope.tasks, action.task, await scope.current())
    view = await scope.tasks.show(task.id)
    told, end = shown_view(view, start=_offset(action.cursor), most=_DESCRIPTION)
    answer: dict[str, Any] = {"task": told}
    if task.status == "open":
        explained = await scope.tasks.explain(task.id)
        answer["ready"] = explained.is_ready
        answer["why"] = list(explained.reasons)[:_RELATED]
    if action.related:
        about = await scope.tasks.about(task.id, limit=_RELATED)
        answer["observations"] = [shown_observation(one) for one in about.observations[-_RELATED:]]
        answer["messages"] = fitting(about.messages, shown_message, ROOM // 3)
    return {**answer, **_more(None if end is None else _cursor(end))}


async def _search(scope: Scope, action: SearchTasks) -> dict[str, Any]:
    start = _offset(action.cursor)
    hits = await scope.tasks.search(
        action.query,
        status=(action.status,) if action.status else (),
        # One more than is shown, to find out whether there are more.
        limit=start + action.limit + 1,
        related=action.related,
    )
    chosen: Sequence[TaskHit] = hits[start : start + action.limit]
    shown = fitting(chosen, _hit, ROOM)
    end = start + len(shown)
    return {"tasks": shown, **_more(_cursor(end) if end < len(hits) else None)}


def _hit(hit: TaskHit) -> dict[str, Any]:
    told = {**shown_task(hit.task), "snippet": hit.snippet}
    if hit.messages:
        told["messages"] = [shown_message(one) for one in hit.messages[:_RELATED]]
    if hit.observations:
        told["observations"] = [shown_observation(one) for one in hit.observations[:_RELATED]]
    return told


def _cursor(place: int) -> str:
    return f"from-{place}"


def _offset(cursor: str | None) -> int:
    if cursor is None:
        return 0
    place = cursor.removeprefix("from-")
    if not place.isdecimal() or len(place) > 9:  # noqa: PLR2004 - far beyond any page
        raise Misunderstood(f"{cursor!r} is not a cursor. Pass the cursor of the last answer unchanged.")
    return int(place)
