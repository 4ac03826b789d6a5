"""Tasks: what is to be done, and what blocks what.

Knows the fields, the links and which status may follow which. Blocked is computed elsewhere and never set by hand.
"""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, Literal, TypeAlias

from memolog.domain.codec import JsonObject, nothing

__all__ = ["TASK_MOVES", "MessageLink", "Task", "TaskLink", "TaskStatus"]

TaskStatus: TypeAlias = Literal["open", "in_progress", "closed"]
TaskType: TypeAlias = Literal["bug", "feature", "task", "epic", "chore"]
CloseReason: TypeAlias = Literal["completed", "wontfix", "duplicate"]
LinkKind: TypeAlias = Literal["blocks", "parent-child", "related", "discovered-from"]
MessageLinkKind: TypeAlias = Literal["output", "reference", "created-from"]

TASK_MOVES: Final[dict[TaskStatus, frozenset[TaskStatus]]] = {
    "open": frozenset({"in_progress", "closed"}),
    "in_progress": frozenset({"open", "closed"}),
    "closed": frozenset({"open"}),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One thing to be done."""

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
    labels: frozenset[str] = frozenset()
    defer_until: datetime | None = None
    due: datetime | None = None
    close_reason: CloseReason | None = None
    summary: str | None = None
    closed_at: datetime | None = None
    blocked: bool = False
    level: int = 0
    """How far it has decayed: 0 whole, 1 summary, 2 archived."""
    metadata: JsonObject = field(default_factory=nothing)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskLink:
    """How two tasks hang together: `source` blocks, is the parent of, is related to, or gave rise to `target`."""

    source: str
    target: str
    kind: LinkKind


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageLink:
    """What a message is to a task."""

    task: str
    thread: str
    seq: int
    kind: MessageLinkKind
