"""Turn tasks, messages and observations into small JSON objects of bounded size."""

import json
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Any, Final, TypeVar

from memolog.domain.observation import MARKS, UNVERIFIED, Observation
from memolog.domain.task import LinkedMessage, Task, TaskRef, TaskView

__all__ = [
    "MOST_CHARACTERS",
    "ROOM",
    "clip",
    "fitting",
    "minute",
    "shown_message",
    "shown_observation",
    "shown_ref",
    "shown_refs",
    "shown_task",
    "shown_view",
]

T = TypeVar("T")

MOST_CHARACTERS: Final = 8_000
"""The most that one answer has: about 2,000 tokens."""
ROOM: Final = MOST_CHARACTERS - 1_000
"""How much of it the items of a list may take."""
_MOST_REFS: Final = 15
_SNIPPET: Final = 400


def clip(text: str, most: int) -> str:
    """Return a text of at most so many characters; a mark says that there is more."""
    return text if len(text) <= most else f"{text[: most - 1].rstrip()}…"


def fitting(items: Sequence[T], show: Callable[[T], dict[str, Any]], room: int) -> list[dict[str, Any]]:
    """Return as many items as there is room for, but at least one."""
    shown: list[dict[str, Any]] = []
    left = room
    for item in items:
        made = show(item)
        left -= len(json.dumps(made, ensure_ascii=False, default=str)) + 2
        if left < 0 and shown:
            break
        shown.append(made)
    return shown


def _given(**fields: object) -> dict[str, Any]:
    """Return the fields that say something."""
    return {name: value for name, value in fields.items() if value not in (None, "", [], (), False)}


def minute(at: datetime) -> str:
    """Return a moment to the minute, in the ISO form."""
    return at.isoformat(timespec="minutes").replace("+00:00", "Z")


def _minute(at: datetime | None) -> str | None:
    return None if at is None else minute(at)


def shown_task(task: Task) -> dict[str, Any]:
    """Return a task in one line: what it takes to choose it."""
    return {
        "handle": task.handle,
        "title": clip(task.title, _SNIPPET),
        "status": task.status,
        "priority": task.priority,
        **_given(
            type=task.type if task.type != "task" else None,
            blocked=task.blocked,
            labels=sorted(task.labels),
            assignee=task.assignee,
            due=_minute(task.due),
            session=task.session if task.status == "in_progress" else None,
            summary=clip(task.summary, _SNIPPET) if task.summary else None,
        ),
    }


def shown_ref(ref: TaskRef) -> dict[str, Any]:
    """Return a task in a few words."""
    return {"handle": ref.handle, "title": clip(ref.title, 120), "status": ref.status}


def shown_refs(refs: Iterable[TaskRef]) -> list[Any]:
    """Return some tasks, and how many more there are."""
    known = list(refs)
    more = [f"and {len(known) - _MOST_REFS} more"] if len(known) > _MOST_REFS else []
    return [*map(shown_ref, known[:_MOST_REFS]), *more]


def shown_view(view: TaskView, *, start: int, most: int) -> tuple[dict[str, Any], int | None]:
    """Return a task with all that hangs on it, its description from a character on, and where that goes on."""
    task, text = view.task, view.task.description
    end = min(len(text), start + most)
    told = {
        **shown_task(task),
        **_given(
            id=task.id,
            description=text[start:end],
            created=_minute(task.created_at),
            deferred_until=_minute(task.defer_until),
            closed=_minute(task.closed_at),
            close_reason=task.close_reason,
            summary=clip(task.summary, most) if task.summary else None,
            blocked_by=shown_refs(view.blocked_by),
            blocks=shown_refs(view.blocks),
            parents=shown_refs(view.parents),
            children=shown_refs(view.children),
            related=shown_refs(view.related),
            discovered_from=shown_refs(view.discovered_from),
            discovered=shown_refs(view.discovered),
            messages=view.messages,
        ),
    }
    return told, end if end < len(text) else None


def shown_message(linked: LinkedMessage) -> dict[str, Any]:
    """Return a message of a task, shortened; recall has the rest."""
    message = linked.message
    return {
        "id": message.id,
        "thread": message.thread,
        "number": message.seq,
        "role": message.role,
        "at": _minute(message.created_at),
        **_given(link=linked.kind, text=clip(message.text, _SNIPPET)),
    }


def shown_observation(observation: Observation) -> str:
    """Return an observation as one line."""
    day = f"{observation.said_at.date().isoformat()} " if observation.said_at else ""
    doubt = f"{UNVERIFIED} " if observation.is_unverified else ""
    return f"{MARKS[observation.priority]} {day}{doubt}{clip(observation.text, _SNIPPET)}"
