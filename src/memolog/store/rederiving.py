"""Deriving reflections again from what is left, once some lines of a log are gone, corrected or taken back.

Knows what a reflected line stands for: where one of those is gone, the others take its place, in their own words, and no model is
asked. Coverage stays as it is: groups keep their spans, reflections the groups that they cover. Knows not why lines are gone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from memolog.domain.codec import dumps, loads, pack
from memolog.store.lines import reading_observations
from memolog.store.logs import new_generation
from memolog.store.snapshot import group_row
from memolog.store.sql import Row, Script, load_queries
from memolog.store.withdrawals import Render, reading_aliases

__all__ = ["Loss", "Rederived", "copying_line", "reading_groups", "rederiving", "rewriting"]

q = load_queries("lines")
logs = load_queries("logs")

Gone: TypeAlias = Literal["deleted", "retracted"]

_KEYS_A_QUERY = 500
_SHOWN_GROUPS = frozenset({"active", "covered"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """Which lines of a log are gone, and how: for good, or until they are reinstated."""

    log_pk: int
    lines: tuple[int, ...]
    how: Gone
    kind: Literal["forget", "edit"]
    instead: Mapping[int, int] = field(default_factory=dict[int, int])
    """The lines that stand for some of them from now on."""
    by_hand: bool = False
    """Whether somebody named these very lines: then what they merge does not come back in their place."""
    without_thread: int | None = None
    """A thread that is about to be deleted: its groups leave the log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rederived:
    """The lines that are gone, through every reflection, and the short ids of reflections that were derived again."""

    lines: tuple[str, ...]
    reflections: tuple[str, ...]


def rederiving(loss: Loss, new_id: Callable[[], str], render: Render, at: int) -> Script[Rederived]:
    """Mark lines and what was derived from them as gone, let the rest stand for them, and make a generation of it."""
    tainted = yield from _tainted(loss)
    pks = [row[0] for row in tainted]
    for chunk in _chunks(pks):
        yield q.erase(pks=chunk) if loss.how == "deleted" else q.set_state(pks=chunk, state=loss.how)
    direct = set(loss.lines) if loss.by_hand else set[int]()
    instead: dict[int, tuple[int, ...]] = {old: (new,) for old, new in loss.instead.items()}
    for row in tainted:
        if row[0] not in direct:
            instead[row[0]] = yield from _standing_in(row, instead, new_id)
    touched = yield from reading_groups([*pks, *(new for several in instead.values() for new in several)])
    yield from rewriting(loss, touched, render, at)
    reflections = tuple(row[4] for row in touched.values() if row[3] == "reflection" and row[2] in _SHOWN_GROUPS)
    return Rederived(lines=tuple(row[1] for row in tainted), reflections=reflections)


def _tainted(loss: Loss) -> Script[list[Row]]:
    """Return the lines and all that was derived from them, the oldest first: a reflection is younger than what it covers."""
    over = {"deleted"} if loss.how == "deleted" else {"deleted", "retracted"}
    found: dict[int, Row] = {}
    for chunk in _chunks(loss.lines):
        found |= {row[0]: row for row in (yield q.states(pks=chunk))}
    todo: list[int] = list(found)
    while todo:
        rows: list[Row] = []
        for chunk in _chunks(todo):
            rows += yield q.mergers(pks=chunk)
        fresh = {row[0]: row for row in rows if row[0] not in found and row[2] not in over}
        found |= fresh
        todo = list(fresh)
    return sorted(found.values(), key=lambda row: (row[3], row[4]))


def _standing_in(
    line: Row, instead: Mapping[int, tuple[int, ...]], new_id: Callable[[], str]
) -> Script[tuple[int, ...]]:
    """Put what is left of a reflected line's sources into its group; returns the new lines."""
    line_pk, _, state, group_pk, _ = line
    left: dict[int, None] = {}
    for merged_pk, merged_state in (yield q.merged_of(observation_pk=line_pk)):
        if merged_pk in instead:
            left |= dict.fromkeys(instead[merged_pk])
        elif merged_state not in {"deleted", "retracted"}:
            left[merged_pk] = None
    # Another line of the same reflection may stand for it already.
    for row in (yield q.stood_for(group_pk=group_pk)):
        left.pop(row[0], None)
    made: list[int] = []
    for source_pk in left:
        made += [(yield from copying_line(source_pk, group_pk, state, new_id))]
    return tuple(made)


def copying_line(
    source_pk: int, group_pk: int, state: str, new_id: Callable[[], str], *, merges: bool = True
) -> Script[int]:
    """Let a new line of a group stand for another line, in its words and with its sources; returns its key."""
    rows = yield q.copy_line(
        id=new_id(), group_pk=group_pk, source_pk=source_pk, state="active" if state == "retracted" else state
    )
    pk: int = rows[0][0]
    yield q.copy_sources(observation_pk=pk, source_pk=source_pk)
    if merges:
        yield q.add_merge(observation_pk=pk, merged_pk=source_pk)
    yield q.count_lines(group_pk=group_pk)
    return pk


def reading_groups(lines: Iterable[int]) -> Script[dict[int, Row]]:
    """Return the groups that some lines stand in, by their keys."""
    found: dict[int, Row] = {}
    for chunk in _chunks(lines):
        found |= {row[0]: row for row in (yield q.groups_of_lines(pks=chunk))}
    return found


def rewriting(loss: Loss, touched: Mapping[int, Row], render: Render, at: int) -> Script[None]:
    """Render the groups anew and, if the log shows one of them, make a generation of it."""
    log_pk = loss.log_pk
    rows = yield logs.touch_version(log_pk=log_pk)
    number = rows[0][1]
    present = [group_row(row) for row in (yield logs.active_groups(log_pk=log_pk, generation=number))]
    before = sum(group.tokens for group in present)
    tokens = {group.pk: group.tokens for group in present}
    for group_pk, name, state, *_ in touched.values():
        if state in _SHOWN_GROUPS:
            tokens[group_pk] = yield from _rendering(log_pk, name, render)
        else:
            yield logs.set_group_text(group_pk=group_pk, text="", tokens=0)
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
    """Take the groups of a thread out of what reflections cover; returns them, with the reflections of nothing else."""
    rows = yield q.groups_of_thread(log_pk=log_pk, thread_pk=thread_pk)
    gone = {row[0] for row in rows}
    names = {row[1] for row in rows}
    # A reflection is younger than all that it covers.
    for group_pk, name, text in (yield logs.reflections(log_pk=log_pk)):
        inputs = loads(text)
        left = [covered for covered in inputs.get("groups", ()) if covered not in names]
        yield q.set_inputs(group_pk=group_pk, inputs=dumps({**inputs, "groups": left}))
        if not left:
            gone.add(group_pk)
            names.add(name)
            yield logs.set_group_state(group_pk=group_pk, state="void")
    return gone


def _rendering(log_pk: int, name: str, render: Render) -> Script[int]:
    group = group_row((yield logs.groups_by_id(log_pk=log_pk, groups=[name]))[0])
    lines = yield from reading_observations(log_pk, [name])
    aliases = yield from reading_aliases(log_pk, lines)
    text, tokens = render(group, [line for line in lines if line.state not in {"deleted", "retracted"}], aliases)
    yield logs.set_group_text(group_pk=group.pk, text=pack(text), tokens=tokens)
    return tokens


def _chunks(pks: Iterable[int]) -> Iterator[Sequence[int]]:
    keys = list(pks)
    return (keys[start : start + _KEYS_A_QUERY] for start in range(0, len(keys), _KEYS_A_QUERY))
