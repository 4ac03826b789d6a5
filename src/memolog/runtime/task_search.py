"""Searching tasks: the one search, narrowed to tasks, with what was said and learned about each.

Knows how a hit becomes a task. How words are matched and ranked is the search's.
"""

from dataclasses import dataclass, replace
from datetime import datetime

from memolog.config import Config
from memolog.domain.task import TaskHit, TaskStatus
from memolog.runtime.searching import Wanted, search_memory
from memolog.store import Store
from memolog.store.scope import check_limit

__all__ = ["TaskQuery", "search_tasks"]

_MESSAGES = 5
_OBSERVATIONS = 10
# Hits of another status are passed over, page after page, but not for ever.
_MOST_PAGES = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskQuery:
    """Which tasks are looked for, and how they are shown."""

    text: str
    statuses: tuple[TaskStatus, ...] = ()
    limit: int = 10
    related: bool = False


async def search_tasks(
    store: Store, config: Config, resource: str, asked: TaskQuery, now: datetime
) -> tuple[TaskHit, ...]:
    """Return the tasks that fit some words best."""
    size = check_limit(asked.limit) if not asked.statuses else 3 * check_limit(asked.limit)
    hits: list[TaskHit] = []
    cursor: str | None = None
    for _ in range(_MOST_PAGES):
        wanted = Wanted(limit=size, sources=("task",), cursor=cursor)
        answer = await search_memory(store, config, asked.text, resource, wanted, now)
        found = await store.task_views.some(resource, [result.id for result in answer.results])
        hits.extend(
            TaskHit(task=found[result.id], snippet=result.snippet, rank=result.score)
            for result in answer.results
            if result.id in found and (not asked.statuses or found[result.id].status in asked.statuses)
        )
        cursor = answer.next
        if cursor is None or len(hits) >= asked.limit:
            break
    shown = hits[: asked.limit]
    return tuple([await _with_related(store, resource, hit) for hit in shown] if asked.related else shown)


async def _with_related(store: Store, resource: str, hit: TaskHit) -> TaskHit:
    page = await store.task_messages.messages(resource, hit.task.id, limit=_MESSAGES)
    observations = await store.task_messages.observations(resource, hit.task.id, limit=_OBSERVATIONS)
    return replace(hit, messages=page.items, observations=observations)
