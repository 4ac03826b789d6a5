"""The rules of tasks: blocking, likely duplicates, reasons for being ready, and which tasks a context shows.

The store keeps the blocked state of a task in a column. This is its definition:

1. A closed task is not blocked.
2. A task is blocked if one of its blockers is not closed.
3. A task is blocked if one of its parents is blocked.
4. Blocking and parent links together have no cycle, so these rules always have exactly one result.
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import combinations
from typing import Final

from memolog.tasks.task import Task, TaskCounts, TaskRef
from memolog.text.cut import cut

ORDERING: Final = ("blocks", "parent-child")
"""The kinds of links that say which task must be closed first."""

_WORD = re.compile(r"[^\W_]+", re.UNICODE)
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_EMPTY = frozenset(
    (
        *("a", "an", "and", "as", "at", "be", "by", "for", "from", "in", "into", "is", "it", "its", "of", "on", "or"),
        *("that", "the", "this", "to", "up", "we", "with"),
    )
)
_SHORTEST_STEM = 3
# Two tasks are compared if they have a common word that at most this many tasks have.
_MOST_SHARING = 200


def words_in(text: str) -> frozenset[str]:
    """Return the stems of the words of a text, for comparison."""
    words = map(str.casefold, _WORD.findall(_HUMP.sub(" ", text)))
    return frozenset(_stem(word) for word in words if word not in _EMPTY)


def _stem(word: str) -> str:
    """Return a word without a common English ending."""
    for ending in ("ing", "ed", "es", "s"):
        if word.endswith(ending) and len(word) - len(ending) >= _SHORTEST_STEM:
            return word[: -len(ending)]
    return word


def like_pairs(texts: Sequence[str], *, least: float, of: int | None = None) -> list[tuple[int, int, float]]:
    """Return the pairs of texts, by index, with a likeness of at least `least`, the most alike first.

    If `of` is the index of a text, return only the pairs with that text.
    """
    bags = [words_in(text) for text in texts]
    holders: dict[str, list[int]] = {}
    for index, bag in enumerate(bags):
        for word in bag:
            holders.setdefault(word, []).append(index)
    weights = {word: math.log1p(len(texts) / len(where)) for word, where in holders.items()}
    found: list[tuple[int, int, float]] = []
    for one, other in _candidates(bags, holders, of):
        likeness = _likeness(bags[one], bags[other], weights)
        if likeness >= least:
            found.append((one, other, likeness))
    return sorted(found, key=lambda pair: (-pair[2], pair[0], pair[1]))


def _candidates(
    bags: Sequence[frozenset[str]], holders: Mapping[str, Sequence[int]], of: int | None
) -> Iterable[tuple[int, int]]:
    pairs: Counter[tuple[int, int]] = Counter()
    looked = holders if of is None else {word: holders[word] for word in bags[of]}
    for where in looked.values():
        if of is not None:
            pairs.update((min(of, index), max(of, index)) for index in where if index != of)
        elif len(where) <= _MOST_SHARING:
            pairs.update(combinations(where, 2))
    return sorted(pairs)


def _likeness(one: frozenset[str], other: frozenset[str], weights: Mapping[str, float]) -> float:
    """Return the weight of the common words, divided by the weight of all words of both texts."""
    shared = sum(weights[word] for word in one & other)
    union = sum(weights[word] for word in one | other)
    return shared / union if union else 0.0


_MOST_NAMED = 5


def named(refs: Sequence[TaskRef]) -> str:
    """Return the handles and titles of the first tasks, and the number of the others."""
    shown = [f'{ref.handle} "{ref.title[:80]}"' for ref in refs[:_MOST_NAMED]]
    rest = [f"{len(refs) - _MOST_NAMED} more"] if len(refs) > _MOST_NAMED else []
    return " and ".join([", ".join(shown), *rest])


def why_ready(task: Task, now: datetime, unblocks: int) -> str:
    """Return in one line why a task can be claimed."""
    is_open = task.status != "in_progress"
    claim = "nothing blocks it" if is_open else f"the claim of {task.session or 'its last holder'} has ended"
    days = max(0, (now - task.created_at).days)
    age = "since today" if days == 0 else f"{days} day{'s' if days > 1 else ''}"
    return ", ".join([f"P{task.priority}", claim, *_urgency(task, now, unblocks), f"waiting {age}"])


def _urgency(task: Task, now: datetime, unblocks: int) -> Iterator[str]:
    if task.due is not None:
        yield f"{'overdue since' if task.due <= now else 'due'} {_day(task.due)}"
    if unblocks:
        yield f"unblocks {unblocks}"


def not_ready_because(
    task: Task, now: datetime, blockers: Sequence[TaskRef], by_parent: Sequence[tuple[TaskRef, Sequence[TaskRef]]]
) -> tuple[str, ...]:
    """Return all reasons why a task is not ready. The result is empty for a ready task.

    `blockers` are the open tasks that block the task itself. `by_parent` has its blocked parents, each with the open tasks that
    block the parent.
    """
    reasons: list[str] = []
    if task.status == "closed":
        when = f" on {_day(task.closed_at)}" if task.closed_at else ""
        return (f"It was closed as {task.close_reason}{when}.",)
    if task.status == "in_progress" and task.held_until is not None and task.held_until > now:
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


SOON = timedelta(days=2)
"""A task that is due within this time is urgent."""
_LONGEST_TITLE = 160
_LONGEST_HOLDER = 80


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgeTask:
    """A task that the edge of a context may show. `unblocks` is the number of open tasks that it blocks."""

    task: Task
    is_active: bool = False
    is_held: bool = False
    """Whether another session works on the task."""
    unblocks: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgeTasks:
    """The tasks that the edge of a context may show, and the counts of all tasks."""

    tasks: tuple[EdgeTask, ...] = ()
    counts: TaskCounts = field(default_factory=TaskCounts)


def worth(shown: EdgeTask, now: datetime) -> tuple[int, int, int, int, datetime]:
    """Return the sort key of a task: the most important task comes first, and the oldest of equally important tasks."""
    task = shown.task
    urgency = 2
    if task.due is not None:
        urgency = 0 if task.due <= now else 1 if task.due - now <= SOON else 2
    return (
        0 if shown.is_active else 1 if shown.is_held else 2,
        task.priority + urgency,
        urgency,
        -shown.unblocks,
        task.created_at,
    )


def edge_lines(given: EdgeTasks, *, now: datetime, budget: int, count: Callable[[str], int]) -> tuple[str, ...]:
    """Return a line for each task that fits into the budget, the most important first, and a line that counts the others."""
    if budget <= 0 or not (given.tasks or given.counts.blocked or given.counts.ready):
        return ()
    lines: list[str] = []
    left = budget - count(_rest(given.counts, given.counts.ready))
    ready = 0
    for shown in sorted(given.tasks, key=lambda one: worth(one, now)):
        line = _line(shown, now)
        cost = count(line)
        # If a long line does not fit, a shorter one after it may fit.
        if cost <= left:
            left -= cost
            lines.append(line)
            ready += not (shown.is_active or shown.is_held)
    rest = _rest(given.counts, max(0, given.counts.ready - ready))
    return (*lines, rest) if rest and (lines or count(rest) <= budget) else tuple(lines)


def _line(shown: EdgeTask, now: datetime) -> str:
    task = shown.task
    facts = [f"P{task.priority}"]
    if task.type != "task":
        facts.append(task.type)
    facts += _urgency(task, now, shown.unblocks)
    if shown.is_held:
        facts.append(f"held by {cut(task.session or '', _LONGEST_HOLDER)}")
    title = task.title if len(task.title) <= _LONGEST_TITLE else f"{task.title[:_LONGEST_TITLE]}…"
    state = "active" if shown.is_active else "in progress" if shown.is_held else "ready"
    return f"{state} {task.handle} ({', '.join(facts)}): {title}"


def _rest(counts: TaskCounts, more: int) -> str:
    words = [f"{more} more ready"] if more else []
    if counts.blocked:
        words.append(f"{counts.blocked} blocked")
    return ", ".join(words)
