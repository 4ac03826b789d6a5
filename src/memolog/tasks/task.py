"""Tasks, their links, and the results of calls about tasks. The store computes `blocked`. Callers cannot set it."""

import re
from dataclasses import dataclass, field
from datetime import datetime
from typing import ClassVar, Final, Literal, TypeAlias

from memolog.core.exact_json import JsonObject, nothing
from memolog.core.message import Message
from memolog.core.observation import Observation
from memolog.core.run import UsageTotal
from memolog.text.html import html_table

TaskStatus: TypeAlias = Literal["open", "in_progress", "closed"]
TaskType: TypeAlias = Literal["bug", "feature", "task", "epic", "chore"]
CloseReason: TypeAlias = Literal["completed", "wontfix", "duplicate"]
LinkKind: TypeAlias = Literal["blocks", "parent-child", "related", "discovered-from"]
MessageLinkKind: TypeAlias = Literal["output", "reference", "created-from"]

STATUSES: Final[tuple[TaskStatus, ...]] = ("open", "in_progress", "closed")
TASK_TYPES: Final[tuple[TaskType, ...]] = ("bug", "feature", "task", "epic", "chore")
CLOSE_REASONS: Final[tuple[CloseReason, ...]] = ("completed", "wontfix", "duplicate")
LINK_KINDS: Final[tuple[LinkKind, ...]] = ("blocks", "parent-child", "related", "discovered-from")
MESSAGE_LINK_KINDS: Final[tuple[MessageLinkKind, ...]] = ("output", "reference", "created-from")

_HANDLE = re.compile(r"#?(?:T-?)?(\d{1,15})", re.IGNORECASE)


def handle_in(name: str) -> str:
    """Return the handle T-12 for `T-12`, `t12`, `#12` or `12`. Return any other text unchanged."""
    found = _HANDLE.fullmatch(name.strip())
    return f"T-{int(found[1])}" if found else name


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A task."""

    html_columns: ClassVar = ("handle", "title", "status", "priority", "type", "assignee", "due")
    id: str
    handle: str
    resource: str
    title: str
    created_at: datetime
    updated_at: datetime
    description: str = ""
    status: TaskStatus = "open"
    priority: int = 2
    type: TaskType = "task"
    assignee: str | None = None
    session: str | None = None
    held_until: datetime | None = None
    """The claim of `session` ends at this moment unless it is renewed. After that, any session may claim the task."""
    labels: frozenset[str] = frozenset()
    defer_until: datetime | None = None
    due: datetime | None = None
    close_reason: CloseReason | None = None
    summary: str | None = None
    closed_at: datetime | None = None
    blocked: bool = False
    level: int = 0
    """The level of decay: 0 not decayed, 1 only the summary, 2 archived."""
    version: int = 1
    """A number that increases with every change. Pass it to `edit` to detect a change by another writer."""
    metadata: JsonObject = field(default_factory=nothing)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRef:
    """The short form of a task."""

    id: str
    handle: str
    title: str
    status: TaskStatus
    priority: int
    blocked: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskCounts:
    """The number of tasks by state, without closed tasks. `ready` tasks can be claimed now."""

    ready: int = 0
    blocked: int = 0
    deferred: int = 0
    in_progress: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadyTask:
    """A task that can be claimed, and the reasons in one line."""

    task: Task
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadyTasks:
    """The tasks that can be claimed now, the most urgent first, and the counts of all tasks that are not closed.

    `next` is the token of the next page.
    """

    items: tuple[ReadyTask, ...]
    counts: TaskCounts
    next: str | None = None

    def _repr_html_(self) -> str:
        rows = [(one.task.handle, one.task.title, one.task.priority, one.why) for one in self.items]
        return html_table(("handle", "title", "priority", "why"), rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class Explained:
    """The reasons why a task is ready or not ready. `blockers` are the open tasks that block it or one of its parents."""

    task: Task
    is_ready: bool
    reasons: tuple[str, ...]
    blockers: tuple[TaskRef, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskChange:
    """One change in the history of a task, with its author."""

    at: datetime
    who: str
    what: str
    details: JsonObject = field(default_factory=nothing)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskView:
    """A task with its links."""

    task: Task
    blocked_by: tuple[TaskRef, ...] = ()
    """The tasks that must be closed before this task, including those that are closed."""
    blocks: tuple[TaskRef, ...] = ()
    parents: tuple[TaskRef, ...] = ()
    children: tuple[TaskRef, ...] = ()
    related: tuple[TaskRef, ...] = ()
    discovered_from: tuple[TaskRef, ...] = ()
    discovered: tuple[TaskRef, ...] = ()
    messages: int = 0
    """The number of linked messages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimed:
    """A claimed task. `renewed` is True if this session had claimed the task already."""

    task: Task
    until: datetime
    fence: int
    renewed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Closed:
    """A closed task, the tasks that it unblocked, its children that are not closed, and the task that was claimed next."""

    task: Task
    unblocked: tuple[TaskRef, ...] = ()
    open_children: tuple[TaskRef, ...] = ()
    next: Claimed | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LikelyDuplicate:
    """Two tasks that are likely duplicates. `likeness` is from 0 to 1."""

    task: TaskRef
    other: TaskRef
    likeness: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkedMessage:
    """A message of a task. `kind` is None if the message is linked only because it was saved while the task was active."""

    message: Message
    kind: MessageLinkKind | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskAbout:
    """A task with its messages, its observations and its cost."""

    task: Task
    messages: tuple[LinkedMessage, ...]
    observations: tuple[Observation, ...]
    cost: UsageTotal
    total_messages: int = 0
    next: str | None = None
    """The value of `after` for the call that returns the next messages. None if there are no more messages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskHit:
    """A task that a search found, with its messages and observations if `related` was set."""

    task: Task
    snippet: str
    rank: float
    messages: tuple[LinkedMessage, ...] = ()
    observations: tuple[Observation, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Decayed:
    """The handles of the tasks that were reduced to their summary, and of the tasks that were archived."""

    summarised: tuple[str, ...] = ()
    archived: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftSummary:
    """The draft of a summary for closing a task. Its text has citations such as [1].

    `sources` has the messages of each citation: the thread, and the first and last sequence number.
    """

    text: str
    sources: tuple[tuple[str, int, int], ...] = ()
    model: str = "extractive"
