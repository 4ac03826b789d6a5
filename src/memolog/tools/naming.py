"""Find the task that a model means: by handle, id, title, or "the current one". Ambiguous names are refused."""

import difflib
import re
from collections.abc import Callable
from typing import Final

from memolog.domain.errors import ThreadNotFound
from memolog.domain.task import Task
from memolog.runtime.memory import Memory
from memolog.runtime.tasks import Tasks
from memolog.tools.understanding import Misunderstood

__all__ = ["CURRENT", "active_task", "task_meant"]

CURRENT: Final = frozenset({"current", "active", "this", "mine", "current task", "active task", "this task"})
_HANDLE_IN: Final = re.compile(r"\bT-\d{1,15}\b", re.IGNORECASE)
_NEAR: Final = 0.85
_FEW: Final = 5
_SHORTEST: Final = 4


async def active_task(memory: Memory, resource: str, thread: str | None) -> str | None:
    """Return the active task of a thread, or None, as in a thread where nothing has been said yet."""
    if thread is None:
        return None
    kit = await memory.open()
    try:
        return (await kit.store.threads.get(resource, thread)).active_task
    except ThreadNotFound:
        return None


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
    """Return the task whose title is the same but for case, holds the name, or differs by a slip of the pen."""
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
        # Of several, the one that is still to be done is meant.
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
