"""What the three tools share: their scope, finding the task that a model names, and showing values as short JSON.

A task is named by handle, id, title or "current"; ambiguous names are refused.
"""

import difflib
import json
import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, TypeVar

from memolog.core.observation import MARKS, UNVERIFIED, Observation
from memolog.errors import ThreadNotFound
from memolog.memory import Memory
from memolog.tasks.calls import Tasks
from memolog.tasks.task import LinkedMessage, Task, TaskRef, TaskView
from memolog.tools.arguments import Misunderstood
from memolog.working_memory.calls import WorkingMemory

CURRENT: Final = frozenset({"current", "active", "this", "mine", "current task", "active task", "this task"})
_HANDLE_IN: Final = re.compile(r"\bT-\d{1,15}\b", re.IGNORECASE)
_NEAR: Final = 0.85
_FEW: Final = 5
_SHORTEST: Final = 4


async def task_meant(tasks: Tasks, name: str, current: str | None = None) -> Task:
    """Return the task that a name means; raises Misunderstood if it means none, or several."""
    plain = name.strip().strip("\"'`")
    if plain.casefold() in CURRENT:
        if current is None:
            raise Misunderstood("No task is in hand here. Claim one first, or name it by its handle, such as T-12.")
        return await tasks.get(current)
    for spelling in dict.fromkeys((plain, *_HANDLE_IN.findall(plain)[:1])):
        found = await tasks.find(spelling)
        if len(found) == 1:
            return found[0]
        if found:
            raise _several(plain, found)
    return await _by_title(tasks, plain)


async def _by_title(tasks: Tasks, name: str) -> Task:
    """Return the task whose title equals the name except for case, contains it, or differs by a typing error."""
    wanted = _folded(name)
    hits = [hit.task for hit in await tasks.search(name, limit=2 * _FEW)] if wanted else []
    titles = [(task, _folded(task.title)) for task in hits]
    tests: tuple[Callable[[str], bool], ...] = (
        lambda title: title == wanted,
        lambda title: len(wanted) >= _SHORTEST and (wanted in title or title in wanted),
        lambda title: difflib.SequenceMatcher(None, wanted, title).ratio() >= _NEAR,
    )
    for is_meant in tests:
        found = [task for task, title in titles if is_meant(title)]
        # Open tasks have precedence over closed ones.
        still = [task for task in found if task.status != "closed"] or found
        if len(still) == 1:
            return still[0]
        if still:
            raise _several(name, still)
    near = f" Near to it: {_listed(hits)}." if hits else ""
    raise Misunderstood(
        f"There is no task {name!r}.{near} Name a task by its handle, such as T-12; task-query list shows them."
    )


def _several(name: str, found: "list[Task] | tuple[Task, ...]") -> Misunderstood:
    return Misunderstood(f"{name!r} could be several tasks: {_listed(found)}. Name one by its handle.")


def _listed(tasks: "list[Task] | tuple[Task, ...]") -> str:
    return ", ".join(f"{task.handle} ({task.title[:80]})" for task in tasks[:_FEW])


def _folded(title: str) -> str:
    return " ".join(re.sub(r"[^\w\s]", " ", title).split()).casefold()


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """The memory, resource, thread and session that a toolset acts on."""

    memory: Memory
    resource: str
    thread: str | None = None
    session: str | None = None
    tasks: Tasks = field(init=False)

    def __post_init__(self) -> None:
        made = self.memory.resource(self.resource).tasks(session=self.session, who=self.who, thread=self.thread)
        object.__setattr__(self, "tasks", made)

    @property
    def who(self) -> str:
        """Return the author for histories."""
        return self.session or self.thread or "agent"

    async def current(self) -> str | None:
        """Return the active task of the thread; None if there is none or the thread has no messages yet."""
        if self.thread is None:
            return None
        store = (await self.memory.open()).store
        with suppress(ThreadNotFound):
            return (await store.threads.get(self.resource, self.thread)).active_task

    def document(self, *, of_thread: bool) -> WorkingMemory:
        """Return the working memory of the resource, or of the thread."""
        return self.memory.resource(self.resource).working_memory(thread=self.thread if of_thread else None)


T = TypeVar("T")

MOST_CHARACTERS: Final = 8_000
"""The most characters of an answer, about 2,000 tokens."""
ROOM: Final = MOST_CHARACTERS - 1_000
"""The most characters of the items of a list."""
_MOST_REFS: Final = 15
_SNIPPET: Final = 400


def clip(text: str, most: int) -> str:
    """Return a text of at most `most` characters; … marks a cut."""
    return text if len(text) <= most else f"{text[: most - 1].rstrip()}…"


def fitting(items: Sequence[T], show: Callable[[T], dict[str, Any]], room: int) -> list[dict[str, Any]]:
    """Return as many items as fit, but at least one."""
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
    """Return the fields that are not empty."""
    return {name: value for name, value in fields.items() if value not in (None, "", [], (), False)}


def minute(at: datetime | None) -> str | None:
    """Return a moment to the minute, in the ISO form."""
    return None if at is None else at.isoformat(timespec="minutes").replace("+00:00", "Z")


def shown_task(task: Task) -> dict[str, Any]:
    """Return the short form of a task."""
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
            due=minute(task.due),
            session=task.session if task.status == "in_progress" else None,
            summary=clip(task.summary, _SNIPPET) if task.summary else None,
        ),
    }


def shown_ref(ref: TaskRef) -> dict[str, Any]:
    """Return handle, title and status of a task."""
    return {"handle": ref.handle, "title": clip(ref.title, 120), "status": ref.status}


def shown_refs(refs: Iterable[TaskRef]) -> list[Any]:
    """Return some tasks, and the number of further ones."""
    known = list(refs)
    more = [f"and {len(known) - _MOST_REFS} more"] if len(known) > _MOST_REFS else []
    return [*map(shown_ref, known[:_MOST_REFS]), *more]


def shown_view(view: TaskView, *, start: int, most: int) -> tuple[dict[str, Any], int | None]:
    """Return a task with its links and its description from a character on, and where the description continues."""
    task, text = view.task, view.task.description
    end = min(len(text), start + most)
    shown = {
        **shown_task(task),
        **_given(
            id=task.id,
            description=text[start:end],
            created=minute(task.created_at),
            deferred_until=minute(task.defer_until),
            closed=minute(task.closed_at),
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
    return shown, end if end < len(text) else None


def shown_message(linked: LinkedMessage) -> dict[str, Any]:
    """Return a message of a task, shortened."""
    message = linked.message
    return {
        "id": message.id,
        "thread": message.thread,
        "number": message.seq,
        "role": message.role,
        "at": minute(message.created_at),
        **_given(link=linked.kind, text=clip(message.text, _SNIPPET)),
    }


def shown_observation(observation: Observation) -> str:
    """Return an observation as one line."""
    day = f"{observation.said_at.date().isoformat()} " if observation.said_at else ""
    doubt = f"{UNVERIFIED} " if observation.is_unverified else ""
    return f"{MARKS[observation.priority]} {day}{doubt}{clip(observation.text, _SNIPPET)}"
