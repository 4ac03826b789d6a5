"""Finding tasks by words.

Knows how a found row becomes a hit, and ranks by how many of the words it has and where. It reads every task of the resource.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from memolog.domain.codec import unpack
from memolog.domain.task import STATUSES, Task, TaskHit, TaskStatus
from memolog.store.engine import Engine
from memolog.store.scope import check_id, check_limit
from memolog.store.sql import Row, Script, load_queries
from memolog.store.task_messages import TaskMessages
from memolog.store.task_rows import tasks_of_rows
from memolog.tasks.likeness import words_in

__all__ = ["TaskSearch"]

q = load_queries("task_search")
tasks = load_queries("tasks")


class TaskSearch:
    """Searches the tasks of every resource, one resource at a time."""

    def __init__(self, engine: Engine, messages: TaskMessages) -> None:
        self._engine, self._messages = engine, messages

    async def search(
        self,
        resource: str,
        query: str,
        *,
        statuses: Sequence[TaskStatus] = (),
        limit: int = 10,
        related: bool = False,
    ) -> tuple[TaskHit, ...]:
        """Return the tasks that fit some words best; `related` adds what was said and learned about each."""
        check_id("resource", resource)
        check_limit(limit)
        wanted = words_in(query)

        def script() -> Script[tuple[TaskHit, ...]]:
            rows = yield q.by_words(
                resource=resource, any_status=int(not statuses), statuses=tuple(statuses) or STATUSES
            )
            scored = sorted(((score, row) for row in rows if (score := _score(row, wanted))), key=lambda s: -s[0])[
                :limit
            ]
            found = yield tasks.by_pks(resource=resource, pks=[row[0] for _, row in scored])
            by_pk = dict(zip([row[0] for row in found], (yield from tasks_of_rows(found)), strict=True))
            return tuple(_hit(by_pk[row[0]], score) for score, row in scored)

        hits = await self._engine.read(script, brief=False)
        return tuple([await self._with_related(resource, hit) for hit in hits]) if related else hits

    async def _with_related(self, resource: str, hit: TaskHit) -> TaskHit:
        page = await self._messages.messages(resource, hit.task.id, limit=5)
        observations = await self._messages.observations(resource, hit.task.id, limit=10)
        return replace(hit, messages=page.items, observations=observations)


def _score(row: Row, wanted: frozenset[str]) -> float:
    # Most rows have none of the words: a plain look is many times faster than taking a text apart.
    texts = [(text, weight) for text, weight in zip(row[1:], (3.0, 2.0, 1.0), strict=True) if _may_hold(text, wanted)]
    return sum(weight * len(wanted & words_in(unpack(text) or "")) for text, weight in texts)


def _may_hold(text: str | None, wanted: frozenset[str]) -> bool:
    if not text:
        return False
    folded = text.casefold()
    return any(word in folded for word in wanted)


def _hit(task: Task, score: float) -> TaskHit:
    return TaskHit(task=task, snippet=task.title, rank=score)
