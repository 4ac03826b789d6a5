"""Derive reflections again after lines of a log were deleted, corrected or retracted.

A reflected line that merges such a line is replaced by the other lines that it merges, without asking a model. Groups keep their
spans, and reflections the groups that they cover.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from memolog.core.exact_json import dumps, loads
from memolog.db.queries import Row, Script, load_queries
from memolog.db.scope import chunks
from memolog.log.rows import group_row
from memolog.log.store import new_generation
from memolog.log.withdrawals import Render, storing_rendering

q = load_queries("log/lines")
logs = load_queries("log/logs")

Gone: TypeAlias = Literal["deleted", "retracted"]

_KEYS_A_QUERY = 500
_SHOWN_GROUPS = frozenset({"active", "covered"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """The lines of a log that were deleted or retracted."""

    log_pk: int
    lines: tuple[int, ...]
    how: Gone
    kind: Literal["forget", "edit"]
    instead: Mapping[int, int] = field(default_factory=dict[int, int])
    """The lines that replace some of them."""
    by_hand: bool = False
    """Whether these lines were chosen by hand: then the lines that they merge do not replace them."""
    without_thread: int | None = None
    """A thread that is about to be deleted: its groups are removed from the log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rederived:
    """The lines that are gone, including reflected ones, and the handles of the reflections that were derived again."""

    lines: tuple[str, ...]
    reflections: tuple[str, ...]


def rederiving(loss: Loss, new_id: Callable[[], str], render: Render, at: int) -> Script[Rederived]:
    """Mark lines and all that was derived from them as gone, add their replacements, and create a generation."""
    tainted = yield from _tainted(loss)
    pks = [row.pk for row in tainted]
    for chunk in chunks(pks, _KEYS_A_QUERY):
        yield q.erase(pks=chunk) if loss.how == "deleted" else q.set_state(pks=chunk, state=loss.how)
    direct = set(loss.lines) if loss.by_hand else set[int]()
    instead: dict[int, tuple[int, ...]] = {old: (new,) for old, new in loss.instead.items()}
    for row in tainted:
        if row.pk not in direct:
            instead[row.pk] = yield from _standing_in(row, instead, new_id)
    touched = yield from reading_groups([*pks, *(new for several in instead.values() for new in several)])
    yield from rewriting(loss, touched, render, at)
    reflections = tuple(
        group.handle for group in touched.values() if group.kind == "reflection" and group.state in _SHOWN_GROUPS
    )
    return Rederived(lines=tuple(row.id for row in tainted), reflections=reflections)


def _tainted(loss: Loss) -> Script[list[Row]]:
    """Return the lines and all that was derived from them, the oldest first."""
    over = {"deleted"} if loss.how == "deleted" else {"deleted", "retracted"}
    found: dict[int, Row] = {}
    for chunk in chunks(loss.lines, _KEYS_A_QUERY):
        found |= {row.pk: row for row in (yield q.states(pks=chunk))}
    todo: list[int] = list(found)
    while todo:
        rows: list[Row] = []
        for chunk in chunks(todo, _KEYS_A_QUERY):
            rows += yield q.mergers(pks=chunk)
        fresh = {row.pk: row for row in rows if row.pk not in found and row.state not in over}
        found |= fresh
        todo = list(fresh)
    return sorted(found.values(), key=lambda row: (row.group_pk, row.ordinal))


def _standing_in(
    line: Row, instead: Mapping[int, tuple[int, ...]], new_id: Callable[[], str]
) -> Script[tuple[int, ...]]:
    """Copy the remaining lines that a reflected line merges into its group; returns the new lines."""
    left: dict[int, None] = {}
    for merged in (yield q.merged_of(observation_pk=line.pk)):
        if merged.pk in instead:
            left |= dict.fromkeys(instead[merged.pk])
        elif merged.state not in {"deleted", "retracted"}:
            left[merged.pk] = None
    # Another line of the same reflection may merge it already.
    for row in (yield q.stood_for(group_pk=line.group_pk)):
        left.pop(row.merged_pk, None)
    made: list[int] = []
    for source_pk in left:
        made += [(yield from copying_line(source_pk, line.group_pk, line.state, new_id))]
    return tuple(made)


def copying_line(
    source_pk: int, group_pk: int, state: str, new_id: Callable[[], str], *, merges: bool = True
) -> Script[int]:
    """Copy a line with its sources into a group; returns the key of the copy."""
    rows = yield q.copy_line(
        id=new_id(), group_pk=group_pk, source_pk=source_pk, state="active" if state == "retracted" else state
    )
    pk: int = rows[0].pk
    yield q.copy_sources(observation_pk=pk, source_pk=source_pk)
    if merges:
        yield q.add_merge(observation_pk=pk, merged_pk=source_pk)
    yield q.count_lines(group_pk=group_pk)
    return pk


def reading_groups(lines: Iterable[int]) -> Script[dict[int, Row]]:
    """Return the groups of some lines by their keys."""
    found: dict[int, Row] = {}
    for chunk in chunks(list(lines), _KEYS_A_QUERY):
        found |= {row.pk: row for row in (yield q.groups_of_lines(pks=chunk))}
    return found


def rewriting(loss: Loss, touched: Mapping[int, Row], render: Render, at: int) -> Script[None]:
    """Render the groups again and, if the log shows one of them, create a generation."""
    log_pk = loss.log_pk
    number = (yield logs.touch_version(log_pk=log_pk))[0].generation
    present = [group_row(row) for row in (yield logs.active_groups(log_pk=log_pk, generation=number))]
    before = sum(group.tokens for group in present)
    tokens = {group.pk: group.tokens for group in present}
    for group in touched.values():
        if group.state in _SHOWN_GROUPS:
            tokens[group.pk] = yield from storing_rendering(log_pk, group.id, render)
        else:
            yield logs.set_group_text(group_pk=group.pk, text="", tokens=0)
    yield logs.void_buffered_reflections(log_pk=log_pk)
    yield logs.abandon_reflections(log_pk=log_pk, now=at)
    if loss.how == "deleted":
        yield q.erase_void_reflections(log_pk=log_pk)
    gone = (yield from _leaving(log_pk, loss.without_thread)) if loss.without_thread is not None else set[int]()
    order = [group.pk for group in present if group.pk not in gone]
    if len(order) < len(present) or not touched.keys().isdisjoint(order):
        after = sum(tokens[pk] for pk in order)
        yield from new_generation(log_pk, number + 1, loss.kind, order, at, before=before, after=after)


def _leaving(log_pk: int, thread_pk: int) -> Script[set[int]]:
    """Remove the groups of a thread from what reflections cover; returns them and the reflections that cover nothing else."""
    rows = yield q.groups_of_thread(log_pk=log_pk, thread_pk=thread_pk)
    gone = {row.pk for row in rows}
    names = {row.id for row in rows}
    # A reflection is newer than all groups that it covers.
    for group in (yield logs.reflections(log_pk=log_pk)):
        inputs = loads(group.inputs)
        left = [covered for covered in inputs.get("groups", ()) if covered not in names]
        yield q.set_inputs(group_pk=group.pk, inputs=dumps({**inputs, "groups": left}))
        if not left:
            gone.add(group.pk)
            names.add(group.id)
            yield logs.set_group_state(group_pk=group.pk, state="void")
    return gone
