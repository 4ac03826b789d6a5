"""Task memory's face, the reading side: the tasks of one resource, as one session sees them.

Knows whose tasks they are and which session looks. Changing them is `runtime.tasks`.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from memolog.config import Config
from memolog.domain.errors import InputError, StoreReadOnly, TaskNotFound
from memolog.domain.observation import Observation
from memolog.domain.task import (
    Explained,
    LikelyDuplicate,
    LinkedMessage,
    ReadyTasks,
    Task,
    TaskAbout,
    TaskChange,
    TaskCounts,
    TaskHit,
    TaskStatus,
    TaskType,
    TaskView,
)
from memolog.runtime.kit import Kit
from memolog.runtime.task_search import TaskQuery, search_tasks
from memolog.store import Store
from memolog.store.scope import Page, check_id
from memolog.store.task_filter import TaskFilter

__all__ = ["Scoped", "TaskReading", "names_in"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scoped:
    """Whose tasks, for which session, and how they are held."""

    resource: str
    session: str | None = None
    who: str | None = None
    thread: str | None = None
    config: Config = field(default_factory=Config)


class TaskReading:
    """The tasks of one resource, to be read. A task is named by its id or its handle everywhere."""

    def __init__(self, open_kit: Callable[[], Awaitable[Kit]], scoped: Scoped) -> None:
        self._open_kit, self._scoped = open_kit, scoped
        self.resource = check_id("resource", scoped.resource)
        self._session = scoped.session or scoped.thread

    async def _store(self, *, to_write: bool = False) -> Store:
        if to_write and self._scoped.config.read_only:
            raise StoreReadOnly("This memory is read-only.", then="Open another one without read_only.")
        kit = await self._open_kit()
        if self._session is None:
            # Nobody else can have it: a claim of these tasks is the claim of this very object.
            self._session = kit.store.new_id()
        return kit.store

    @property
    def _name(self) -> str:
        """Who is named in the history."""
        return self._scoped.who or self._session or "unknown"

    @property
    def _holder(self) -> str:
        return self._session or "unknown"

    # ------------------------------------------------------------ reading

    async def get(self, task: str) -> Task:
        """Return a task; raises NotFound."""
        return await (await self._store()).task_views.get(self.resource, task)

    async def find(self, name: str) -> tuple[Task, ...]:
        """Return the tasks that somebody may mean: by id, by handle, or else by exactly this title."""
        store = await self._store()
        try:
            return (await store.task_views.get(self.resource, name),)
        except (TaskNotFound, InputError):
            return await store.task_views.named(self.resource, name)

    async def show(self, task: str) -> TaskView:
        """Return a task with what blocks it, what it blocks, and all other links."""
        return await (await self._store()).task_views.show(self.resource, task)

    async def list(
        self,
        *,
        status: TaskStatus | Sequence[TaskStatus] = (),
        types: Sequence[TaskType] = (),
        labels: Sequence[str] = (),
        max_priority: int = 4,
        assignee: str | None = None,
        session: str | None = None,
        parent: str | None = None,
        blocked: bool | None = None,
        due_before: datetime | None = None,
        limit: int = 50,
        after: str | None = None,
    ) -> Page[Task]:
        """Return tasks, newest first; what is not given does not matter. Pass `next` as `after` for more."""
        store = await self._store()
        chosen = TaskFilter(
            statuses=names_in(status),
            types=tuple(types),
            labels=names_in(labels),
            most_priority=max_priority,
            assignee=assignee,
            parent=parent,
        )
        return await store.task_views.list(
            self.resource, chosen, session=session, blocked=blocked, due_before=due_before, limit=limit, after=after
        )

    async def ready(
        self,
        *,
        labels: Sequence[str] = (),
        types: Sequence[TaskType] = (),
        max_priority: int = 4,
        assignee: str | None = None,
        parent: str | None = None,
        limit: int = 10,
        after: str | None = None,
    ) -> ReadyTasks:
        """Return what can be claimed now, by priority, then age, with why, and how many are ready and blocked in all."""
        store = await self._store()
        chosen = TaskFilter(
            types=tuple(types), labels=names_in(labels), most_priority=max_priority, assignee=assignee, parent=parent
        )
        return await store.task_ready.ready(self.resource, chosen, limit=limit, after=after)

    async def counts(self) -> TaskCounts:
        """Return how many tasks are ready, blocked, deferred and in progress."""
        return await (await self._store()).task_ready.counts(self.resource)

    async def explain(self, task: str) -> Explained:
        """Return why a task is or is not ready."""
        return await (await self._store()).task_ready.explain(self.resource, task)

    async def stale(self, *, days: float = 14, limit: int = 50, after: str | None = None) -> Page[Task]:
        """Return tasks that nobody touched for so many days and nobody works on, the longest untouched first."""
        return await (await self._store()).task_views.stale(self.resource, days=days, limit=limit, after=after)

    async def duplicates(
        self, task: str | None = None, *, title: str | None = None, least: float = 0.6, limit: int = 20
    ) -> tuple[LikelyDuplicate, ...]:
        """Return tasks that likely mean the same: all pairs, or those of a task, or of a title before it is created."""
        store = await self._store()
        return await store.task_views.duplicates(self.resource, task, title=title, least=least, limit=limit)

    async def history(self, task: str, *, limit: int = 100, after: str | None = None) -> Page[TaskChange]:
        """Return who changed what and when, oldest first."""
        return await (await self._store()).tasks.history(self.resource, task, limit=limit, after=after)

    async def search(
        self,
        query: str,
        *,
        status: TaskStatus | Sequence[TaskStatus] = (),
        limit: int = 10,
        related: bool = False,
    ) -> tuple[TaskHit, ...]:
        """Return the tasks that fit some words best; `related` adds what was said and learned about each."""
        store = await self._store()
        asked = TaskQuery(text=query, statuses=names_in(status), limit=limit, related=related)
        now = (await self._open_kit()).clock.now()
        return await search_tasks(store, self._scoped.config, self.resource, asked, now)

    async def messages(self, task: str, *, limit: int = 50, after: str | None = None) -> Page[LinkedMessage]:
        """Return what was said about a task, oldest first."""
        return await (await self._store()).task_messages.messages(self.resource, task, limit=limit, after=after)

    async def observations(self, task: str, *, limit: int = 200) -> tuple[Observation, ...]:
        """Return what was learned from a task's messages."""
        return await (await self._store()).task_messages.observations(self.resource, task, limit=limit)

    async def about(self, task: str, *, limit: int = 50, after: str | None = None) -> TaskAbout:
        """Return everything about a task: what was said, what was learned, and what it cost."""
        store = await self._store()
        found = await store.task_views.get(self.resource, task)
        page = await store.task_messages.messages(self.resource, found.id, limit=limit, after=after)
        return TaskAbout(
            task=found,
            messages=page.items,
            observations=await store.task_messages.observations(self.resource, found.id),
            cost=await store.ledger.total(self.resource, task=found.id),
            total_messages=await store.task_messages.count(self.resource, found.id),
            next=page.next,
        )


def names_in(given: Any) -> tuple[Any, ...]:
    """Return one name or several as a tuple."""
    return (given,) if isinstance(given, str) else tuple(given)
