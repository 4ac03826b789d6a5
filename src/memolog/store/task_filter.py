"""Which tasks are meant: the filter that lists and readiness share.

Knows its values and how the queries take them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from memolog.domain.errors import InputError
from memolog.domain.task import STATUSES, TASK_TYPES, TaskStatus, TaskType
from memolog.store.scope import check_id
from memolog.store.sql import Script
from memolog.store.task_rows import finding

__all__ = ["TaskFilter", "parent_of"]

_LOWEST_PRIORITY = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFilter:
    """Which tasks are meant; what is not given does not matter. All labels must be there."""

    statuses: tuple[TaskStatus, ...] = ()
    types: tuple[TaskType, ...] = ()
    labels: tuple[str, ...] = ()
    assignee: str | None = None
    parent: str | None = None
    most_priority: int = _LOWEST_PRIORITY
    """The lowest urgency shown: 1 means priorities 0 and 1."""

    def __post_init__(self) -> None:
        for given, known, kind in ((self.statuses, STATUSES, "status"), (self.types, TASK_TYPES, "type of task")):
            unknown = [value for value in given if value not in known]
            if unknown:
                raise InputError(f"{unknown[0]!r} is no {kind}.", then=f"Use one of {', '.join(known)}.")
        for kind, value in (
            *(("label", label) for label in self.labels),
            ("assignee", self.assignee),
            ("task", self.parent),
        ):
            if value is not None:
                check_id(kind, value)

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
    """Find the parent that a filter names."""
    if wanted.parent is None:
        return None
    return (yield from finding(resource, wanted.parent)).pk
