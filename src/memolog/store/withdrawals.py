"""Withdrawing what a turn saved, as if it had not been said.

Knows what hangs on a message: runs over it are given up, buffered groups over it are void, and observations that cite it are
deleted from the log, through every reflection. Its row stays as a tombstone and keeps its place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from memolog.domain.codec import loads, pack
from memolog.domain.errors import ThreadNotFound
from memolog.domain.moments import to_micros
from memolog.domain.observation import Observation
from memolog.store.compactions import undoing_compactions
from memolog.store.coverage import reading_members
from memolog.store.engine import Engine
from memolog.store.extracts import deleting_extracts
from memolog.store.lines import reading_observations
from memolog.store.logs import new_generation
from memolog.store.scope import check_id
from memolog.store.snapshot import GroupRow, group_row
from memolog.store.sql import Script, load_queries

__all__ = ["Render", "Withdrawals", "Withdrawn", "ranges", "reading_aliases", "taking_logs", "taking_out"]

q = load_queries("logs")
threads = load_queries("threads")

Render = Callable[[GroupRow, Sequence[Observation], Mapping[str, str]], tuple[str, int]]
"""Renders a group anew from the observations that are left, under its thread's alias; returns its text and tokens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Withdrawn:
    """What a withdrawal did."""

    messages: tuple[int, ...]
    runs: tuple[str, ...]
    groups: tuple[str, ...]
    observations: tuple[str, ...]


class Withdrawals:
    """Takes back what was said."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def withdraw(
        self,
        resource: str,
        thread: str,
        turn: str,
        *,
        after: int,
        now: datetime,
        render: Render,
        also: Sequence[int] = (),
        keep_answered: bool = False,
    ) -> Withdrawn:
        """Withdraw what a turn saved after a sequence number, and `also` others, unless an answer follows them.

        With `keep_answered` also the turn's own answers stay, and what came before the last of them.
        """
        check_id("resource", resource)
        check_id("thread", thread)
        check_id("turn", turn)
        at = to_micros(now)

        def script() -> Script[Withdrawn]:
            rows = yield threads.lock_thread(resource=resource, thread=thread)
            if not rows:
                raise ThreadNotFound(thread)
            thread_pk = rows[0][0]
            yield from taking_logs(thread_pk)
            answered = (yield q.last_answer(thread_pk=thread_pk, turn=turn))[0][0] if keep_answered else 0
            rows = yield q.withdraw(thread_pk=thread_pk, turn=turn, after=max(after, answered))
            yield q.withdraw_unseen(thread_pk=thread_pk, turn=turn)
            more = (yield q.withdraw_unanswered(thread_pk=thread_pk, seqs=list(also))) if also else ()
            gone = sorted(row[0] for row in (*rows, *more))
            runs: list[str] = []
            groups: list[str] = []
            observations: list[str] = []
            for first, last in ranges(gone):
                where = {"thread_pk": thread_pk, "first_seq": first, "last_seq": last}
                yield from undoing_compactions(thread_pk, first, last)
                runs += [row[0] for row in (yield q.abandon_runs_over(now=at, **where))]
                yield from deleting_extracts(where)
                groups += [row[0] for row in (yield q.void_groups_over(**where))]
                observations += yield from _forget_activated(where, at, render)
            return Withdrawn(
                messages=tuple(gone), runs=tuple(runs), groups=tuple(groups), observations=tuple(observations)
            )

        return await self._engine.write(script, name="withdrawals.withdraw")


def ranges(seqs: Sequence[int]) -> list[tuple[int, int]]:
    """Return consecutive numbers as first and last."""
    ranges: list[tuple[int, int]] = []
    for seq in seqs:
        if ranges and ranges[-1][1] == seq - 1:
            ranges[-1] = (ranges[-1][0], seq)
        else:
            ranges.append((seq, seq))
    return ranges


def taking_logs(thread_pk: int) -> Script[None]:
    """Take the logs that know a thread, before anything of them is read: nobody else changes one until this ends."""
    for row in (yield q.logs_of_thread(thread_pk=thread_pk)):
        yield q.touch_version(log_pk=row[0])


def taking_out(thread_pk: int, at: int) -> Script[None]:
    """Take a thread that is about to be deleted out of the logs that it shares with others."""
    yield from taking_logs(thread_pk)
    for log_pk, _, owner in (yield q.logs_of_thread(thread_pk=thread_pk)):
        if owner is not None:
            continue
        rows = yield q.groups_of_thread(log_pk=log_pk, thread_pk=thread_pk)
        if rows:
            yield from _rewrite(log_pk, {row[0]: row[1] for row in rows}, at, None)


def _forget_activated(where: dict[str, int], at: int, render: Render) -> Script[list[str]]:
    """Delete the observations that cite a range, and rewrite the logs they stand in."""
    deleted: list[str] = []
    touched: dict[int, dict[int, str]] = {}
    for group_pk, name, log_pk in (yield q.active_groups_over(**where)):
        rows = yield q.delete_observations_citing(group_pk=group_pk, **where)
        deleted += [row[0] for row in rows]
        touched.setdefault(log_pk, {})[group_pk] = name
    for log_pk, groups in touched.items():
        yield from _rewrite(log_pk, groups, at, render)
    return deleted


def _rewrite(log_pk: int, touched: dict[int, str], at: int, render: Render | None) -> Script[None]:
    """Make a generation without what was deleted: reflections over touched groups are taken apart.

    The touched groups are rendered anew or, without a renderer, left out.
    """
    rows = yield q.touch_version(log_pk=log_pk)
    number = rows[0][1]
    groups = [group_row(row) for row in (yield q.active_groups(log_pk=log_pk, generation=number))]
    before = sum(group.tokens for group in groups)
    apart = yield from _void_reflections(log_pk, set(touched.values()))
    order: list[int] = []
    after = 0
    for group in groups:
        for pk, tokens in (yield from _what_is_left(log_pk, group, touched, apart, render)):
            order.append(pk)
            after += tokens
    yield q.void_buffered_reflections(log_pk=log_pk)
    yield q.abandon_reflections(log_pk=log_pk, now=at)
    yield from new_generation(log_pk, number + 1, "forget", order, at, before=before, after=after)


def _void_reflections(log_pk: int, names: set[str]) -> Script[set[int]]:
    """Void every reflection over these groups, also those of older generations: a restore must not bring them back."""
    voided: set[int] = set()
    # A reflection is younger than all that it covers.
    for group_pk, name, inputs in (yield q.reflections(log_pk=log_pk)):
        if names.isdisjoint(loads(inputs).get("groups", [])):
            continue
        names.add(name)
        voided.add(group_pk)
        yield q.set_group_text(group_pk=group_pk, text="", tokens=0)
        yield q.set_group_state(group_pk=group_pk, state="void")
        yield q.delete_observations(group_pk=group_pk)
    return voided


def _what_is_left(
    log_pk: int, group: GroupRow, touched: Mapping[int, str], apart: set[int], render: Render | None
) -> Script[list[tuple[int, int]]]:
    """Return what stands for a group now: itself, rendered anew, or what a reflection that is taken apart covered."""
    if group.pk in apart:
        inside: list[tuple[int, int]] = []
        for member in (yield from reading_members(log_pk, group)):
            inside += yield from _what_is_left(log_pk, member, touched, apart, render)
        for pk, _ in inside:
            yield q.set_group_state(group_pk=pk, state="active")
            yield q.revive(group_pk=pk)
        return inside
    if group.pk not in touched:
        return [(group.pk, group.tokens)]
    if render is None:
        return []
    left = yield from reading_observations(log_pk, [group.id])
    aliases = yield from reading_aliases(log_pk, left)
    text, tokens = render(group, [o for o in left if o.state != "deleted"], aliases)
    yield q.set_group_text(group_pk=group.pk, text=pack(text), tokens=tokens)
    return [(group.pk, tokens)]


def reading_aliases(log_pk: int, lines: Iterable[Observation]) -> Script[dict[str, str]]:
    """Return what the threads of some lines are called in a log that several share; nothing in a log of one thread's own."""
    threads = sorted({source.thread for line in lines for source in line.sources})
    rows = (yield q.shared_aliases(log_pk=log_pk, threads=threads)) if threads else ()
    return {row[0]: f"t{row[1]}" for row in rows}
