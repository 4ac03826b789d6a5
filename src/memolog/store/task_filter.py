"""Filter tasks, for lists and for ready tasks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from memolog.domain.errors import InputError
from memolog.domain.task import STATUSES, TASK_TYPES, TaskStatus, TaskType
from memolog.store.scope import check_ids, check_optional_ids
from memolog.store.sql import Script
from memolog.store.task_rows import finding

__all__ = ["LOWEST_PRIORITY", "TaskFilter", "parent_of"]

LOWEST_PRIORITY = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFilter:
    """Conditions on tasks; a task must have all labels. A condition that is not given always holds."""

    statuses: tuple[TaskStatus, ...] = ()
    types: tuple[TaskType, ...] = ()
    labels: tuple[str, ...] = ()
    assignee: str | None = None
    parent: str | None = None
    most_priority: int = LOWEST_PRIORITY
    """The lowest urgency shown: 1 means priorities 0 and 1."""

    def __post_init__(self) -> None:
        for given, known, kind in ((self.statuses, STATUSES, "status"), (self.types, TASK_TYPES, "type of task")):
            unknown = [value for value in given if value not in known]
            if unknown:
                raise InputError(f"Unknown {kind}: {unknown[0]!r}.", then=f"Use one of {', '.join(known)}.")
        for label in self.labels:
            check_ids(label=label)
        check_optional_ids(assignee=self.assignee, task=self.parent)

    def values(self, parent_pk: int | None) -> dict[str, Any]:
        """Return the values of the `filters` query."""
        labels = sorted(set(self.labels))
        return {
            "any_status": int(not self.statuses),
            "statuses": self.statuses,
            "any_type": int(not self.types),
            "types": self.types,
            "most_priority": self.most_priority,
            "assignee": self.assignee,
            "labelled": len(labels),
            "labels": labels,
            "parent_pk": parent_pk,
        }


def parent_of(resource: str, wanted: TaskFilter) -> Script[int | None]:
    """Return the key of the parent that a filter names."""
    if wanted.parent is None:
        return None
    return (yield from finding(resource, wanted.parent)).pk
