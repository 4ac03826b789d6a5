"""Task memory's face: the tasks of one resource, as one session sees them.

Knows whose tasks they are, which session claims them and who is named in their history. Rules and rows are elsewhere.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from memolog.domain.codec import JsonObject, nothing
from memolog.domain.errors import Conflict, InputError, TaskMoveRefused, TaskNotFound
from memolog.domain.observation import Span
from memolog.domain.task import (
    Claimed,
    Closed,
    CloseReason,
    Decayed,
    DraftSummary,
    LinkKind,
    MessageLinkKind,
    NewTask,
    Task,
    TaskType,
)
from memolog.runtime.redacting import redactor_for
from memolog.runtime.task_reading import Scoped, TaskReading, names_in
from memolog.runtime.task_summary import drafted_summary
from memolog.store.task_filter import TaskFilter

__all__ = ["UNCHANGED", "Scoped", "Tasks", "Unchanged"]

_TRIED_A_PAGE: Final = 20


class Unchanged:
    """Stands for an argument that was not given, where None means something."""


UNCHANGED: Final = Unchanged()


class Tasks(TaskReading):
    """The tasks of one resource. A task is named by its id or its handle (`T-12`, `t12`, `#12`) everywhere."""

    # ------------------------------------------------------------ making and changing

    async def create(
        self,
        title: str,
        *,
        description: str = "",
        priority: int = 2,
        type: TaskType = "task",  # noqa: A002 - the word that everybody uses for it
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
        id: str | None = None,  # noqa: A002 - as in every other value of ours
    ) -> Task:
        """Create a task, with its labels and its links to other tasks; `created_from` names the messages it came from."""
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
        """Change what is given. With the `version` that was read, a change by somebody else since is a conflict."""
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
        """Keep a task out of what is ready until a moment; None brings it back."""
        return await self.edit(task, defer_until=until)

    async def due(self, task: str, when: datetime | None) -> Task:
        """Say when a task is due; None takes it back."""
        return await self.edit(task, due=when)

    async def link(self, source: str, target: str, kind: LinkKind = "blocks") -> Task:
        """Link two tasks: `source` blocks, is the parent of, is related to, or gave rise to `target`.

        Returns the target. Raises TaskCycle, with the circle, where the two would wait for each other.
        """
        store = await self._store(to_write=True)
        return await store.task_links.link(self.resource, source, target, kind, who=self._name)

    async def unlink(self, source: str, target: str, kind: LinkKind = "blocks") -> Task:
        """Take a link away; returns the target."""
        store = await self._store(to_write=True)
        return await store.task_links.unlink(self.resource, source, target, kind, who=self._name)

    # ------------------------------------------------------------ working

    async def claim(self, task: str, *, thread: str | None = None, lease: float | None = None) -> Claimed:
        """Claim a task for this session, for so many seconds, and make it the active task of a thread.

        Exactly one of any number of callers wins. Raises TaskBlocked or TaskHeld, which say what to do instead.
        """
        store = await self._store(to_write=True)
        return await store.task_claims.claim(
            self.resource,
            task,
            self._holder,
            lasts=self._lasts(lease),
            who=self._name,
            thread=thread or self._scoped.thread,
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
        """Claim the most pressing task that is ready; None if there is none."""
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
                    # Somebody was quicker with this one; the next may still be had.
                    continue

    async def heartbeat(self, task: str, *, lease: float | None = None) -> Claimed:
        """Prolong this session's claim. Saving messages in the thread of an active task does it too."""
        store = await self._store(to_write=True)
        return await store.task_claims.heartbeat(self.resource, task, self._holder, lasts=self._lasts(lease))

    async def release(self, task: str, *, force: bool = False) -> Task:
        """Give a task back unfinished; `force` takes it from another session."""
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
        """Close a task, saying why and what came of it; tells what that unblocked, and may claim the next."""
        store = await self._store(to_write=True)
        closed = await store.task_claims.close(
            self.resource, task, reason, summary, session=self._holder, who=self._name, force=force
        )
        if not claim_next:
            return closed
        following = await self.claim_next()
        return Closed(task=closed.task, unblocked=closed.unblocked, open_children=closed.open_children, next=following)

    async def reopen(self, task: str, *, why: str | None = None) -> Task:
        """Open a closed task again."""
        store = await self._store(to_write=True)
        return await store.task_claims.reopen(self.resource, task, who=self._name, why=why)

    def _lasts(self, lease: float | None) -> timedelta:
        seconds = self._scoped.config.task_lease if lease is None else lease
        try:
            return timedelta(seconds=seconds)
        except (OverflowError, ValueError, TypeError):
            raise InputError(f"A claim cannot last {seconds!r} s.", then="Pass a positive number of seconds.") from None

    # ------------------------------------------------------------ what was said and learned

    async def attach(
        self,
        task: str,
        messages: Sequence[str] | Span,
        kind: MessageLinkKind = "reference",
        *,
        thread: str | None = None,
    ) -> int:
        """Link past messages to a task, by their ids or as a span of a thread; returns how many links are new."""
        store = await self._store(to_write=True)
        where = thread or (self._scoped.thread if isinstance(messages, Span) else None)
        return await store.task_messages.attach(self.resource, task, messages, kind, who=self._name, thread=where)

    async def detach(self, task: str, messages: Sequence[str] | Span, *, thread: str | None = None) -> int:
        """Take messages away from a task, however they came to it."""
        store = await self._store(to_write=True)
        where = thread or (self._scoped.thread if isinstance(messages, Span) else None)
        return await store.task_messages.detach(self.resource, task, messages, who=self._name, thread=where)

    async def draft_summary(self, task: str, *, most: int = 8) -> DraftSummary:
        """Draft the summary that closing asks for, with citations; the model writes it, if there is one."""
        kit = await self._open_kit()
        found = await self.get(task)
        config = self._scoped.config
        return await drafted_summary(
            kit, self.resource, found, most=most, to_write=not config.read_only, redactor=redactor_for(config)
        )

    # ------------------------------------------------------------ decay

    async def decay(self, *, limit: int = 500) -> Decayed:
        """Let closed tasks whose time has come shrink: to their summary after 30 days, to an archive after 90."""
        return await (await self._store(to_write=True)).task_decay.decay(self.resource, limit=limit)

    async def restore(self, task: str) -> Task:
        """Make a decayed task whole again, byte for byte."""
        return await (await self._store(to_write=True)).task_decay.restore(self.resource, task)
