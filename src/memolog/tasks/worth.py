"""Choose the tasks that a context shows at its edge, within a budget of tokens."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from memolog.domain.task import Task, TaskCounts

__all__ = ["EdgeTask", "EdgeTasks", "edge_lines", "worth"]

_SOON = timedelta(days=2)
_LONGEST_TITLE = 160


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgeTask:
    """A task that may be shown; `unblocks` is how many others wait for it."""

    task: Task
    is_active: bool = False
    unblocks: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgeTasks:
    """The tasks that may be shown, and how many there are in all."""

    tasks: tuple[EdgeTask, ...] = ()
    counts: TaskCounts = field(default_factory=TaskCounts)


def worth(shown: EdgeTask, now: datetime) -> tuple[int, int, int, int, datetime]:
    """Return the key that sorts what matters most first; among equals the oldest."""
    task = shown.task
    urgency = 2
    if task.due is not None:
        urgency = 0 if task.due <= now else 1 if task.due - now <= _SOON else 2
    pressing = task.priority - (1 if urgency == 1 else 2 if urgency == 0 else 0)
    return (0 if shown.is_active else 1, pressing, urgency, -shown.unblocks, task.created_at)


def edge_lines(given: EdgeTasks, *, now: datetime, budget: int, count: Callable[[str], int]) -> tuple[str, ...]:
    """Return a line for each task that fits the budget, the most valuable first, and one that counts the rest."""
    if budget <= 0 or not (given.tasks or given.counts.blocked or given.counts.ready):
        return ()
    lines: list[str] = []
    left = budget - count(_rest(given.counts, given.counts.ready))
    ready = 0
    for shown in sorted(given.tasks, key=lambda one: worth(one, now)):
        line = _line(shown, now)
        cost = count(line)
        # A long title does not push out the shorter ones after it.
        if cost > left:
            continue
        left -= cost
        lines.append(line)
        ready += not shown.is_active
    rest = _rest(given.counts, max(0, given.counts.ready - ready))
    return (*lines, rest) if rest and (lines or count(rest) <= budget) else tuple(lines)


def _line(shown: EdgeTask, now: datetime) -> str:
    task = shown.task
    facts = [f"P{task.priority}"]
    if task.type != "task":
        facts.append(task.type)
    if task.due is not None:
        facts.append(f"{'overdue since' if task.due <= now else 'due'} {task.due.date().isoformat()}")
    if shown.unblocks:
        facts.append(f"unblocks {shown.unblocks}")
    title = task.title if len(task.title) <= _LONGEST_TITLE else f"{task.title[:_LONGEST_TITLE]}…"
    return f"{'active' if shown.is_active else 'ready'} {task.handle} ({', '.join(facts)}): {title}"


def _rest(counts: TaskCounts, more: int) -> str:
    words = [f"{more} more ready"] if more else []
    if counts.blocked:
        words.append(f"{counts.blocked} blocked")
    return ", ".join(words)
