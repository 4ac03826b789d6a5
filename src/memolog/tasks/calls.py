"""The calls on the tasks of one resource for one session: read, create, change, claim, close, search and summarise."""

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from memolog.core.config import Config
from memolog.core.exact_json import JsonObject, nothing
from memolog.core.observation import Observation, Span
from memolog.core.thread import UNCHANGED, Unchanged
from memolog.db.scope import Page, check_id, check_limit
from memolog.errors import Conflict, InputError, MemologError, StoreReadOnly, TaskMoveRefused, TaskNotFound
from memolog.observer.model import Model, ModelRequest, complete_in_time
from memolog.search.search import SearchOptions, search_memory
from memolog.tasks.rows import TaskFilter
from memolog.tasks.summary import draft, summary_prompt, written
from memolog.tasks.task import (
    Claimed,
    Closed,
    CloseReason,
    Decayed,
    DraftSummary,
    Explained,
    LikelyDuplicate,
    LinkedMessage,
    LinkKind,
    MessageLinkKind,
    NewTask,
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
from memolog.text.redaction import redactor_for

if TYPE_CHECKING:
    from memolog.connection import Components
    from memolog.store import Store

# `search` with `related` adds at most this many messages and observations to each task.
_MESSAGES = 5
_OBSERVATIONS = 10
# `search` reads at most this many pages of hits, because a filter by status may remove most of them.
_MOST_PAGES = 10
_log = logging.getLogger("memolog")
# The model that writes a summary is shown at most this many observations, and writes at most this many tokens.
_MOST_LINES = 100
_MOST_TOKENS = 2_000
# `claim_next` reads this many ready tasks at a time.
_TRIED_A_PAGE: Final = 20


class Tasks:
    """The tasks of one resource. All calls accept the id of a task or its handle (`T-12`, `t12`, `#12`)."""

    def __init__(
        self,
        open_components: "Callable[[], Awaitable[Components]]",
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

    async def _store(self, *, to_write: bool = False) -> "Store":
        if to_write and self._config.read_only:
            raise StoreReadOnly("This memory is read-only.", then="Open another one without read_only.")
        components = await self._open_components()
        if self._session is None:
            # Claims need a session. With a new id, they belong to this object only.
            self._session = components.store.new_id()
        return components.store

    @property
    def _name(self) -> str:
        """Return the author of changes, for the history."""
        return self._who or self._session or "unknown"

    @property
    def _holder(self) -> str:
        return self._session or "unknown"

    # ------------------------------------------------------------ reading

    async def get(self, task: str) -> Task:
        """Return a task. Raise TaskNotFound if it does not exist."""
        return await (await self._store()).task_views.get(self.resource, task)

    async def find(self, name: str) -> tuple[Task, ...]:
        """Return the task with this id or handle. If there is none, return the tasks with this title, ignoring case."""
        store = await self._store()
        try:
            return (await store.task_views.get(self.resource, name),)
        except (TaskNotFound, InputError):
            return await store.task_views.named(self.resource, name)

    async def show(self, task: str) -> TaskView:
        """Return a task with the tasks that it is linked to."""
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
        """Return the tasks that match all given filters, the newest first. Pass `next` as `after` to get the next page."""
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
        """Return the tasks that can be claimed now, by priority, then age, each with the reasons, and the counts of all tasks."""
        store = await self._store()
        chosen = TaskFilter(
            types=tuple(types), labels=names_in(labels), most_priority=max_priority, assignee=assignee, parent=parent
        )
        return await store.task_ready.ready(self.resource, chosen, limit=limit, after=after)

    async def counts(self) -> TaskCounts:
        """Return how many tasks are ready, blocked, deferred and in progress."""
        return await (await self._store()).task_ready.counts(self.resource)

    async def explain(self, task: str) -> Explained:
        """Return the reasons why a task is ready or not ready."""
        return await (await self._store()).task_ready.explain(self.resource, task)

    async def stale(self, *, days: float = 14, limit: int = 50, after: str | None = None) -> Page[Task]:
        """Return tasks that are not claimed and were not changed for `days` days, the oldest change first."""
        return await (await self._store()).task_views.stale(self.resource, days=days, limit=limit, after=after)

    async def duplicates(
        self, task: str | None = None, *, title: str | None = None, least: float = 0.6, limit: int = 20
    ) -> tuple[LikelyDuplicate, ...]:
        """Return pairs of tasks that are likely duplicates: all pairs, or those of a task or of a new title."""
        store = await self._store()
        return await store.task_views.duplicates(self.resource, task, title=title, least=least, limit=limit)

    async def history(self, task: str, *, limit: int = 100, after: str | None = None) -> Page[TaskChange]:
        """Return the changes of a task, each with its author and time, the oldest first."""
        return await (await self._store()).tasks.history(self.resource, task, limit=limit, after=after)

    async def search(
        self,
        query: str,
        *,
        status: TaskStatus | Sequence[TaskStatus] = (),
        limit: int = 10,
        related: bool = False,
    ) -> tuple[TaskHit, ...]:
        """Return the tasks that match a text best. `related` adds the messages and observations of each task."""
        store = await self._store()
        now = (await self._open_components()).clock.now()
        statuses = names_in(status)
        size = check_limit(limit) if not statuses else 3 * check_limit(limit)
        hits: list[TaskHit] = []
        cursor: str | None = None
        for _ in range(_MOST_PAGES):
            wanted = SearchOptions(limit=size, sources=("task",), cursor=cursor)
            answer = await search_memory(store, self._config, query, self.resource, wanted, now)
            found = await store.task_views.some(self.resource, [result.id for result in answer.results])
            hits.extend(
                TaskHit(task=found[result.id], snippet=result.snippet, rank=result.score)
                for result in answer.results
                if result.id in found and (not statuses or found[result.id].status in statuses)
            )
            cursor = answer.next
            if cursor is None or len(hits) >= limit:
                break
        shown = hits[:limit]
        return tuple([await _with_related(store, self.resource, hit) for hit in shown] if related else shown)

    async def messages(self, task: str, *, limit: int = 50, after: str | None = None) -> Page[LinkedMessage]:
        """Return the messages of a task, the oldest first."""
        return await (await self._store()).task_messages.messages(self.resource, task, limit=limit, after=after)

    async def observations(self, task: str, *, limit: int = 200) -> tuple[Observation, ...]:
        """Return the observations that were made from the messages of a task."""
        return await (await self._store()).task_messages.observations(self.resource, task, limit=limit)

    async def about(self, task: str, *, limit: int = 50, after: str | None = None) -> TaskAbout:
        """Return a task with its messages, its observations and its cost."""
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

    # ------------------------------------------------------------ changing

    async def create(
        self,
        title: str,
        *,
        description: str = "",
        priority: int = 2,
        type: TaskType = "task",  # noqa: A002 - the usual name
        assignee: str | None = None,
        labels: Sequence[str] = (),
        defer_until: datetime | None = None,
        due: datetime | None = None,
        metadata: JsonObject | None = None,
        parent: str | None = None,
        blocked_by: Sequence[str] = (),
        blocks: Sequence[str] = (),
        related: Sequence[str] = (),
        discovered_from: str | None = None,
        created_from: Sequence[str] = (),
        id: str | None = None,  # noqa: A002 - as in other values
    ) -> Task:
        """Create a task with its labels and its links to other tasks. `created_from` are the ids of its source messages."""
        store = await self._store(to_write=True)
        new = NewTask(
            title=title,
            description=description,
            priority=priority,
            type=type,
            assignee=assignee,
            labels=frozenset(names_in(labels)),
            defer_until=defer_until,
            due=due,
            metadata=nothing() if metadata is None else metadata,
            id=id,
            parent=parent,
            blocked_by=names_in(blocked_by),
            blocks=names_in(blocks),
            related=names_in(related),
            discovered_from=discovered_from,
        )
        return await store.tasks.create(self.resource, new, who=self._name, created_from=names_in(created_from))

    async def edit(
        self,
        task: str,
        *,
        title: str | None = None,
        description: str | None = None,
        priority: int | None = None,
        type: TaskType | None = None,  # noqa: A002
        assignee: str | Unchanged | None = UNCHANGED,
        metadata: JsonObject | None = None,
        defer_until: datetime | Unchanged | None = UNCHANGED,
        due: datetime | Unchanged | None = UNCHANGED,
        version: int | None = None,
    ) -> Task:
        """Change the given fields. With `version`, raise TaskChanged if the task has changed since that version."""
        store = await self._store(to_write=True)
        given = {"title": title, "description": description, "priority": priority, "type": type, "metadata": metadata}
        changes: dict[str, object] = {name: value for name, value in given.items() if value is not None}
        may_be_none = {"assignee": assignee, "defer_until": defer_until, "due": due}
        changes |= {name: value for name, value in may_be_none.items() if not isinstance(value, Unchanged)}
        return await store.tasks.edit(self.resource, task, changes, who=self._name, version=version)

    async def label(self, task: str, *, add: Sequence[str] = (), remove: Sequence[str] = ()) -> Task:
        """Add and remove labels."""
        store = await self._store(to_write=True)
        return await store.tasks.label(self.resource, task, add=names_in(add), remove=names_in(remove), who=self._name)

    async def defer(self, task: str, until: datetime | None) -> Task:
        """Defer a task, so that it is not ready until this time. None removes the time."""
        return await self.edit(task, defer_until=until)

    async def due(self, task: str, when: datetime | None) -> Task:
        """Set the time at which a task is due. None removes it."""
        return await self.edit(task, due=when)

    async def link(self, source: str, target: str, kind: LinkKind = "blocks") -> Task:
        """Link two tasks: `source` blocks, is the parent of, is related to, or gave rise to `target`.

        Return the target. Raise TaskCycle if the tasks would wait for each other.
        """
        store = await self._store(to_write=True)
        return await store.task_links.link(self.resource, source, target, kind, who=self._name)

    async def unlink(self, source: str, target: str, kind: LinkKind = "blocks") -> Task:
        """Remove a link, and return the target."""
        store = await self._store(to_write=True)
        return await store.task_links.unlink(self.resource, source, target, kind, who=self._name)

    # ------------------------------------------------------------ claiming and closing

    async def claim(self, task: str, *, thread: str | None = None, lease: float | None = None) -> Claimed:
        """Claim a task for this session, for `lease` seconds, and make it the active task of a thread.

        Only one of several callers succeeds. Raise TaskBlocked if another task must be closed first, and TaskHeld if another
        session has claimed the task.
        """
        store = await self._store(to_write=True)
        return await store.task_claims.claim(
            self.resource,
            task,
            self._holder,
            lasts=self._lasts(lease),
            who=self._name,
            thread=thread or self._thread,
        )

    async def claim_next(
        self,
        *,
        labels: Sequence[str] = (),
        types: Sequence[TaskType] = (),
        max_priority: int = 4,
        assignee: str | None = None,
        thread: str | None = None,
        lease: float | None = None,
    ) -> Claimed | None:
        """Claim the most urgent ready task, and return it. Return None if no task is ready."""
        store = await self._store(to_write=True)
        chosen = TaskFilter(labels=names_in(labels), types=tuple(types), most_priority=max_priority, assignee=assignee)
        tried: set[str] = set()
        while True:
            page = await store.task_ready.ready(self.resource, chosen, limit=_TRIED_A_PAGE)
            fresh = [item.task for item in page.items if item.task.id not in tried]
            if not fresh:
                return None
            for task in fresh:
                tried.add(task.id)
                try:
                    return await self.claim(task.id, thread=thread, lease=lease)
                except (Conflict, TaskMoveRefused, TaskNotFound):
                    # Another session has claimed or closed it, so try the next one.
                    continue

    async def heartbeat(self, task: str, *, lease: float | None = None) -> Claimed:
        """Renew the claim of this session. Saving messages in the thread of its active task renews the claim too."""
        store = await self._store(to_write=True)
        return await store.task_claims.heartbeat(self.resource, task, self._holder, lasts=self._lasts(lease))

    async def release(self, task: str, *, force: bool = False) -> Task:
        """Release a task, so that it is open again. `force` also releases a task that another session has claimed."""
        store = await self._store(to_write=True)
        return await store.task_claims.release(self.resource, task, self._holder, who=self._name, force=force)

    async def close(
        self,
        task: str,
        reason: CloseReason = "completed",
        *,
        summary: str,
        claim_next: bool = False,
        force: bool = False,
    ) -> Closed:
        """Close a task, and return it with the tasks that this unblocked. `claim_next` then claims the next ready task."""
        store = await self._store(to_write=True)
        closed = await store.task_claims.close(
            self.resource, task, reason, summary, session=self._holder, who=self._name, force=force
        )
        if not claim_next:
            return closed
        return replace(closed, next=await self.claim_next())

    async def reopen(self, task: str, *, why: str | None = None) -> Task:
        """Reopen a closed task."""
        store = await self._store(to_write=True)
        return await store.task_claims.reopen(self.resource, task, who=self._name, why=why)

    def _lasts(self, lease: float | None) -> timedelta:
        seconds = self._config.task_lease if lease is None else lease
        try:
            return timedelta(seconds=seconds)
        except (OverflowError, ValueError, TypeError):
            raise InputError(
                f"`lease` must be a number of seconds, got {seconds!r}.", then="Pass a positive number of seconds."
            ) from None

    # ------------------------------------------------------------ messages and summaries

    async def attach(
        self,
        task: str,
        messages: Sequence[str] | Span,
        kind: MessageLinkKind = "reference",
        *,
        thread: str | None = None,
    ) -> int:
        """Link messages to a task, by their ids or as a span of a thread. Return the number of new links."""
        store = await self._store(to_write=True)
        where = thread or (self._thread if isinstance(messages, Span) else None)
        return await store.task_messages.attach(self.resource, task, messages, kind, who=self._name, thread=where)

    async def detach(self, task: str, messages: Sequence[str] | Span, *, thread: str | None = None) -> int:
        """Unlink messages from a task, also those that were linked because the task was active. Return the number of messages."""
        store = await self._store(to_write=True)
        where = thread or (self._thread if isinstance(messages, Span) else None)
        return await store.task_messages.detach(self.resource, task, messages, who=self._name, thread=where)

    async def draft_summary(self, task: str, *, most: int = 8) -> DraftSummary:
        """Draft the summary for closing a task, with citations. The model writes it if there is one."""
        components = await self._open_components()
        found = await self.get(task)
        observations = await components.store.task_messages.observations(self.resource, found.id, limit=_MOST_LINES)
        if components.writer is None or not observations:
            return draft(found, observations, most=most)
        system, text = summary_prompt(found, observations)
        request = ModelRequest(
            purpose="reflect",
            system=system,
            text=redactor_for(self._config).redact(text),
            max_tokens=_MOST_TOKENS,
            timeout=components.config.model_timeout,
        )
        answer = await self._ask(components, components.writer, found, request)
        return written(answer, observations, components.writer.name) or draft(found, observations, most=most)

    async def _ask(self, components: "Components", model: Model, task: Task, request: ModelRequest) -> str:
        """Return the reply of a model, and store its cost. Return an empty text if the model fails."""
        try:
            reply = await complete_in_time(model, request)
        except Exception as error:  # noqa: BLE001 - a model may raise any error; then the extractive draft is used
            _log.warning("the model did not write a summary of %s: %s", task.handle, error)
            return ""
        if reply.usage is not None and not self._config.read_only:
            try:
                await components.store.ledger.add(self.resource, replace(reply.usage, kind="other", task=task.id))
            except MemologError as error:
                _log.warning("the cost of the summary of %s could not be saved: %s", task.handle, error)
        return reply.text

    # ------------------------------------------------------------ decay

    async def decay(self, *, limit: int = 500) -> Decayed:
        """Reduce closed tasks to their summary after 30 days, and archive them after 90 days."""
        return await (await self._store(to_write=True)).task_decay.decay(self.resource, limit=limit)

    async def restore(self, task: str) -> Task:
        """Restore the description, metadata and summary of a decayed task."""
        return await (await self._store(to_write=True)).task_decay.restore(self.resource, task)


async def _with_related(store: "Store", resource: str, hit: TaskHit) -> TaskHit:
    page = await store.task_messages.messages(resource, hit.task.id, limit=_MESSAGES)
    observations = await store.task_messages.observations(resource, hit.task.id, limit=_OBSERVATIONS)
    return replace(hit, messages=page.items, observations=observations)


def names_in(given: Any) -> tuple[Any, ...]:
    """Return a tuple of names from one name or several."""
    return (given,) if isinstance(given, str) else tuple(given)
