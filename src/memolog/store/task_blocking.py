"""Link tasks without cycles, and keep `tasks.blocked` equal to its definition (`memolog.tasks.blocking`) at every commit.

Only tasks that a change can affect are looked at: those below the changed one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from memolog.domain.clock import Clock
from memolog.domain.errors import InputError, TaskCycle
from memolog.domain.moments import to_micros
from memolog.domain.task import LINK_KINDS, LinkKind, Task, TaskRef
from memolog.store.engine import Engine
from memolog.store.scope import check_ids, chunks
from memolog.store.sql import Script, load_queries
from memolog.store.task_rows import Found, change_step, finding, reading_task, ref_from_row
from memolog.tasks.blocking import ORDERING, CycleSearch

__all__ = ["TaskLinks", "linking", "reading_refs", "refusing_cycle", "settling", "settling_after_status", "taking_book"]

q = load_queries("task_links")
tasks = load_queries("tasks")

_KEYS_A_QUERY = 512


class TaskLinks:
    """Links between the tasks of every resource, one resource at a time."""

    def __init__(self, engine: Engine, clock: Clock) -> None:
        self._engine, self._clock = engine, clock

    async def link(self, resource: str, source: str, target: str, kind: LinkKind, *, who: str) -> Task:
        """Link two tasks; linking them again changes nothing. Raises TaskCycle if they would wait for each other.

        `source` blocks, is the parent of, is related to, or gave rise to `target`. Returns the target.
        """
        _check(resource, source, target, kind, who)
        now = to_micros(self._clock.now())

        def script() -> Script[Task]:
            yield from taking_book(resource)
            one = yield from finding(resource, source)
            other = yield from finding(resource, target)
            if (yield from linking(one, other, kind, who, now)) and kind in ORDERING:
                yield from settling([other.pk])
            return (yield from reading_task(other.pk))

        return await self._engine.write(script, name="task_links.link")

    async def unlink(self, resource: str, source: str, target: str, kind: LinkKind, *, who: str) -> Task:
        """Remove a link; returns the target. Nothing changes if there is no such link."""
        _check(resource, source, target, kind, who)
        now = to_micros(self._clock.now())

        def script() -> Script[Task]:
            yield from taking_book(resource)
            one = yield from finding(resource, source)
            other = yield from finding(resource, target)
            first, second = _ordered(one, other, kind)
            if (yield q.delete_link(source_pk=first.pk, target_pk=second.pk, kind=kind)):
                yield from _tell(one, other, kind, who, now, "unlinked")
                if kind in ORDERING:
                    yield from settling([other.pk])
            return (yield from reading_task(other.pk))

        return await self._engine.write(script, name="task_links.unlink")


def _check(resource: str, source: str, target: str, kind: str, who: str) -> None:
    check_ids(resource=resource, task=source, who=who)
    check_ids(task=target)
    if kind not in LINK_KINDS:
        raise InputError(f"Unknown kind of link: {kind!r}.", then=f"Use one of {', '.join(LINK_KINDS)}.")


# ---------------------------------------------------------------- pieces of scripts


def taking_book(resource: str) -> Script[None]:
    """Lock the blocking links of a resource's tasks until the transaction ends."""
    yield tasks.take_book(resource=resource, count=0)


def linking(source: Found, target: Found, kind: LinkKind, who: str, now: int) -> Script[bool]:
    """Link two tasks, refusing cycles; returns whether the link is new. The caller has taken the book, and settles."""
    if source.pk == target.pk:
        raise InputError(
            f"{source.handle} cannot be linked to itself.", then="Name two tasks, by their ids or their handles."
        )
    if kind in ORDERING:
        yield from refusing_cycle(source, target, kind)
    first, second = _ordered(source, target, kind)
    if not (yield q.insert_link(source_pk=first.pk, target_pk=second.pk, kind=kind, now=now)):
        return False
    yield from _tell(source, target, kind, who, now, "linked")
    return True


def _ordered(source: Found, target: Found, kind: LinkKind) -> tuple[Found, Found]:
    # "related" has no direction, so it is stored once.
    return (target, source) if kind == "related" and target.pk < source.pk else (source, target)


def _tell(source: Found, target: Found, kind: LinkKind, who: str, now: int, what: str) -> Script[None]:
    yield change_step(source.pk, now, who, what, kind=kind, target=target.handle)
    yield change_step(target.pk, now, who, what, kind=kind, source=source.handle)


def refusing_cycle(source: Found, target: Found, kind: LinkKind) -> Script[None]:
    """Raise TaskCycle if the target of a link already comes before the source."""
    search = CycleSearch(source.pk, target.pk)
    while not search.is_over:
        direction, ends = search.next()
        found: list[tuple[int, int]] = []
        for pks in chunks(ends, _KEYS_A_QUERY):
            rows = yield (q.after_these(pks=pks) if direction == "forward" else q.before_these(pks=pks))
            found.extend((row.source_pk, row.target_pk) for row in rows)
        search.feed(direction, found)
    if search.path is not None:
        rows = yield q.handles(pks=search.path)
        handles = {row.pk: row.handle for row in rows}
        path = (source.handle, *(handles[pk] for pk in search.path))
        raise TaskCycle(source.handle, target.handle, kind, path)


def settling(pks: Iterable[int]) -> Script[dict[int, bool]]:
    """Update the blocked column of these tasks and of all that it affects; returns what changed."""
    changed: dict[int, bool] = {}
    todo = list(dict.fromkeys(pks))
    while todo:
        touched: list[int] = []
        for chunk in chunks(todo, _KEYS_A_QUERY):
            for row in (yield q.settle(pks=chunk)):
                changed[row.pk] = bool(row.blocked)
                touched.append(row.pk)
        # Only children inherit the state: a blocker counts by its status, even if it is blocked itself.
        felt: dict[int, None] = {}
        for chunk in chunks(touched, _KEYS_A_QUERY):
            felt.update({row.target_pk: None for row in (yield q.children_of(pks=chunk))})
        todo = list(felt)
    return changed


def settling_after_status(task_pk: int) -> Script[dict[int, bool]]:
    """Settle a task that was closed or opened, what it blocks, and its children."""
    waiting = yield q.waiting_for(task_pk=task_pk)
    return (yield from settling([task_pk, *(row.target_pk for row in waiting)]))


def reading_refs(pks: Sequence[int]) -> Script[tuple[TaskRef, ...]]:
    """Return short forms of tasks, the most urgent first."""
    refs: list[TaskRef] = []
    for chunk in chunks(pks, _KEYS_A_QUERY):
        refs.extend(ref_from_row(row) for row in (yield q.refs(pks=chunk)))
    return tuple(refs)
