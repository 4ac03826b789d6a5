"""Explain in words why a task can be claimed now, or why it cannot."""

from collections.abc import Sequence
from datetime import datetime

from memolog.domain.task import Task, TaskRef

__all__ = ["is_held", "named", "not_ready_because", "why_ready"]

_MOST_NAMED = 5


def is_held(task: Task, now: datetime) -> bool:
    """Return whether a session works on a task and its claim has not ended."""
    return task.status == "in_progress" and task.held_until is not None and task.held_until > now


def named(refs: Sequence[TaskRef]) -> str:
    """Return tasks by handle and title, a few of them."""
    shown = [f'{ref.handle} "{ref.title[:80]}"' for ref in refs[:_MOST_NAMED]]
    rest = [f"{len(refs) - _MOST_NAMED} more"] if len(refs) > _MOST_NAMED else []
    return " and ".join([", ".join(shown), *rest])


def why_ready(task: Task, now: datetime, unblocks: int = 0) -> str:
    """Return in one line why a task can be claimed, and what speaks for it."""
    words = [f"P{task.priority}"]
    if task.status == "in_progress":
        words.append(f"the claim of {task.session or 'its last holder'} has ended")
    else:
        words.append("nothing blocks it")
    if task.due is not None:
        words.append(f"{'overdue since' if task.due <= now else 'due'} {_day(task.due)}")
    if unblocks:
        words.append(f"unblocks {unblocks}")
    words.append(f"waiting {_age(task.created_at, now)}")
    return ", ".join(words)


def not_ready_because(
    task: Task, now: datetime, blockers: Sequence[TaskRef], by_parent: Sequence[tuple[TaskRef, Sequence[TaskRef]]]
) -> tuple[str, ...]:
    """Return every reason why a task is not ready; none if it is.

    `blockers` are its own open ones, `by_parent` its blocked parents, each with the open tasks at the root of it.
    """
    reasons: list[str] = []
    if task.status == "closed":
        when = f" on {_day(task.closed_at)}" if task.closed_at else ""
        return (f"It was closed as {task.close_reason}{when}.",)
    if is_held(task, now) and task.held_until is not None:
        reasons.append(f"{task.session} works on it and holds it until {_moment(task.held_until)}.")
    if blockers:
        reasons.append(f"It waits for {named(blockers)}.")
    for parent, roots in by_parent:
        waits = f", which waits for {named(roots)}" if roots else ""
        reasons.append(f"Its parent {named([parent])} is blocked{waits}.")
    if task.defer_until is not None and task.defer_until > now:
        reasons.append(f"It is deferred until {_moment(task.defer_until)}.")
    return tuple(reasons)


def _day(moment: datetime) -> str:
    return moment.date().isoformat()


def _moment(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M} UTC"


def _age(since: datetime, now: datetime) -> str:
    days = max(0, (now - since).days)
    return "since today" if days == 0 else f"{days} day{'s' if days > 1 else ''}"
