"""Task memory without `await`: every call of `Tasks`, driven through the portal of the synchronous face.

Decides nothing; a test checks that nothing is missing.
"""

from collections.abc import Coroutine, Sequence
from datetime import datetime
from typing import Any, Protocol, TypeVar

from memolog.domain.codec import JsonObject
from memolog.domain.observation import Observation, Span
from memolog.domain.task import (
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
from memolog.runtime.tasks import UNCHANGED, Tasks, Unchanged
from memolog.store.scope import Page

__all__ = ["SyncTasks"]

T = TypeVar("T")


class _Call(Protocol):
    """Runs a coroutine somewhere and waits for it."""

    def __call__(self, work: Coroutine[Any, Any, T]) -> T: ...


class SyncTasks:
    """The tasks of one resource, without `await`."""

    def __init__(self, tasks: Tasks, call: _Call) -> None:
        self._tasks, self._call = tasks, call

    def create(
        self,
        title: str,
        *,
        description: str = "",
        priority: int = 2,
        type: TaskType = "task",  # noqa: A002 - as its twin
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
        id: str | None = None,  # noqa: A002 - as its twin
    ) -> Task:
        """Create a task, with its labels and its links to other tasks; `created_from` names the messages it came from."""
        return self._call(
            self._tasks.create(
                title,
                description=description,
                priority=priority,
                type=type,
                assignee=assignee,
                labels=labels,
                defer_until=defer_until,
                due=due,
                metadata=metadata,
                parent=parent,
                blocked_by=blocked_by,
                blocks=blocks,
                related=related,
                discovered_from=discovered_from,
                created_from=created_from,
                id=id,
            )
        )

    def edit(
        self,
        task: str,
        *,
        title: str | None = None,
        description: str | None = None,
        priority: int | None = None,
        type: TaskType | None = None,  # noqa: A002 - as its twin
        assignee: str | Unchanged | None = UNCHANGED,
        metadata: JsonObject | None = None,
        defer_until: datetime | Unchanged | None = UNCHANGED,
        due: datetime | Unchanged | None = UNCHANGED,
        version: int | None = None,
    ) -> Task:
        """Change what is given. With the `version` that was read, a change by somebody else since is a conflict."""
        return self._call(
            self._tasks.edit(
                task,
                title=title,
                description=description,
                priority=priority,
                type=type,
                assignee=assignee,
                metadata=metadata,
                defer_until=defer_until,
                due=due,
                version=version,
            )
        )

    def label(self, task: str, *, add: Sequence[str] = (), remove: Sequence[str] = ()) -> Task:
        """Add and remove labels."""
        return self._call(self._tasks.label(task, add=add, remove=remove))

    def defer(self, task: str, until: datetime | None) -> Task:
        """Keep a task out of what is ready until a moment; None brings it back."""
        return self._call(self._tasks.defer(task, until))

    def due(self, task: str, when: datetime | None) -> Task:
        """Say when a task is due; None takes it back."""
        return self._call(self._tasks.due(task, when))

    def link(self, source: str, target: str, kind: LinkKind = "blocks") -> Task:
        """Link two tasks: `source` blocks, is the parent of, is related to, or gave rise to `target`."""
        return self._call(self._tasks.link(source, target, kind))

    def unlink(self, source: str, target: str, kind: LinkKind = "blocks") -> Task:
        """Take a link away; returns the target."""
        return self._call(self._tasks.unlink(source, target, kind))

    def claim(self, task: str, *, thread: str | None = None, lease: float | None = None) -> Claimed:
        """Claim a task for this session, for so many seconds, and make it the active task of a thread."""
        return self._call(self._tasks.claim(task, thread=thread, lease=lease))

    def claim_next(
        self,
        *,
        labels: Sequence[str] = (),
        types: Sequence[TaskType] = (),
        max_priority: int = 4,
        assignee: str | None = None,
        thread: str | None = None,
        lease: float | None = None,
    ) -> Claimed | None:
        """Claim the most pressing task that is ready; None if there is none."""
        return self._call(
            self._tasks.claim_next(
                labels=labels, types=types, max_priority=max_priority, assignee=assignee, thread=thread, lease=lease
            )
        )

    def heartbeat(self, task: str, *, lease: float | None = None) -> Claimed:
        """Prolong this session's claim. Saving messages in the thread of an active task does it too."""
        return self._call(self._tasks.heartbeat(task, lease=lease))

    def release(self, task: str, *, force: bool = False) -> Task:
        """Give a task back unfinished; `force` takes it from another session."""
        return self._call(self._tasks.release(task, force=force))

    def close(
        self,
        task: str,
        reason: CloseReason = "completed",
        *,
        summary: str,
        claim_next: bool = False,
        force: bool = False,
    ) -> Closed:
        """Close a task, saying why and what came of it; tells what that unblocked, and may claim the next."""
        return self._call(self._tasks.close(task, reason, summary=summary, claim_next=claim_next, force=force))

    def reopen(self, task: str, *, why: str | None = None) -> Task:
        """Open a closed task again."""
        return self._call(self._tasks.reopen(task, why=why))

    def attach(
        self,
        task: str,
        messages: Sequence[str] | Span,
        kind: MessageLinkKind = "reference",
        *,
        thread: str | None = None,
    ) -> int:
        """Link past messages to a task, by their ids or as a span of a thread; returns how many links are new."""
        return self._call(self._tasks.attach(task, messages, kind, thread=thread))

    def detach(self, task: str, messages: Sequence[str] | Span, *, thread: str | None = None) -> int:
        """Take messages away from a task, however they came to it."""
        return self._call(self._tasks.detach(task, messages, thread=thread))

    def draft_summary(self, task: str, *, most: int = 8) -> DraftSummary:
        """Draft the summary that closing asks for, with citations; the model writes it, if there is one."""
        return self._call(self._tasks.draft_summary(task, most=most))

    def decay(self, *, limit: int = 500) -> Decayed:
        """Let closed tasks whose time has come shrink: to their summary after 30 days, to an archive after 90."""
        return self._call(self._tasks.decay(limit=limit))

    def restore(self, task: str) -> Task:
        """Make a decayed task whole again, byte for byte."""
        return self._call(self._tasks.restore(task))

    def get(self, task: str) -> Task:
        """Return a task; raises NotFound."""
        return self._call(self._tasks.get(task))

    def find(self, name: str) -> tuple[Task, ...]:
        """Return the tasks that somebody may mean: by id, by handle, or else by exactly this title."""
        return self._call(self._tasks.find(name))

    def show(self, task: str) -> TaskView:
        """Return a task with what blocks it, what it blocks, and all other links."""
        return self._call(self._tasks.show(task))

    def list(
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
        return self._call(
            self._tasks.list(
                status=status,
                types=types,
                labels=labels,
                max_priority=max_priority,
                assignee=assignee,
                session=session,
                parent=parent,
                blocked=blocked,
                due_before=due_before,
                limit=limit,
                after=after,
            )
        )

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
    ) -> ReadyTasks:
        """Return what can be claimed now, by priority, then age, with why, and how many are ready and blocked in all."""
        return self._call(
            self._tasks.ready(
                labels=labels,
                types=types,
                max_priority=max_priority,
                assignee=assignee,
                parent=parent,
                limit=limit,
                after=after,
            )
        )

    def counts(self) -> TaskCounts:
        """Return how many tasks are ready, blocked, deferred and in progress."""
        return self._call(self._tasks.counts())

    def explain(self, task: str) -> Explained:
        """Return why a task is or is not ready."""
        return self._call(self._tasks.explain(task))

    def stale(self, *, days: float = 14, limit: int = 50, after: str | None = None) -> Page[Task]:
        """Return tasks that nobody touched for so many days and nobody works on, the longest untouched first."""
        return self._call(self._tasks.stale(days=days, limit=limit, after=after))

    def duplicates(
        self, task: str | None = None, *, title: str | None = None, least: float = 0.6, limit: int = 20
    ) -> tuple[LikelyDuplicate, ...]:
        """Return tasks that likely mean the same: all pairs, or those of a task, or of a title before it is created."""
        return self._call(self._tasks.duplicates(task, title=title, least=least, limit=limit))

    def history(self, task: str, *, limit: int = 100, after: str | None = None) -> Page[TaskChange]:
        """Return who changed what and when, oldest first."""
        return self._call(self._tasks.history(task, limit=limit, after=after))

    def search(
        self, query: str, *, status: TaskStatus | Sequence[TaskStatus] = (), limit: int = 10, related: bool = False
    ) -> tuple[TaskHit, ...]:
        """Return the tasks that fit some words best; `related` adds what was said and learned about each."""
        return self._call(self._tasks.search(query, status=status, limit=limit, related=related))

    def messages(self, task: str, *, limit: int = 50, after: str | None = None) -> Page[LinkedMessage]:
        """Return what was said about a task, oldest first."""
        return self._call(self._tasks.messages(task, limit=limit, after=after))

    def observations(self, task: str, *, limit: int = 200) -> tuple[Observation, ...]:
        """Return what was learned from a task's messages."""
        return self._call(self._tasks.observations(task, limit=limit))

    def about(self, task: str, *, limit: int = 50, after: str | None = None) -> TaskAbout:
        """Return everything about a task: what was said, what was learned, and what it cost."""
        return self._call(self._tasks.about(task, limit=limit, after=after))
