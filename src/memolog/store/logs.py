"""Logs in the store: read a snapshot, activate groups and reflections, read and restore generations.

Knows the rows of logs. Whatever changes a log names the version it was decided on: the loser of a race gets a Conflict and
decides again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from functools import partial
from types import MappingProxyType
from typing import Any, TypeVar

from memolog.domain.clock import Clock
from memolog.domain.codec import JsonObject, decode, dumps, encode, loads, pack, unpack
from memolog.domain.errors import Conflict, InputError, ThreadNotFound
from memolog.domain.moments import from_micros, to_micros
from memolog.domain.observation import Generation, Observation, Scope
from memolog.domain.thread import Hints
from memolog.domain.working_memory import Document
from memolog.store.coverage import reading_leaves, reading_standing
from memolog.store.engine import Engine, Work
from memolog.store.lines import reading_lines, reading_lines_by_id, reading_observations, reading_plans
from memolog.store.other_tails import OtherLimits, OtherTail, OtherTails, reading_others
from memolog.store.recent import Plans, Recent
from memolog.store.scope import check_id
from memolog.store.snapshot import (
    GroupRow,
    Snapshot,
    checking_version,
    completing_log,
    group_row,
    reading_snapshot,
)
from memolog.store.sql import Row, Script, load_queries
from memolog.store.working_memory import applying, present_versions

__all__ = ["Activated", "Logs", "OtherTail", "OtherTails", "Rendered"]

T = TypeVar("T")

q = load_queries("logs")
threads = load_queries("threads")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendered:
    """A group and the text it was rendered to, once."""

    id: str
    text: str
    tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Activated:
    """What an activation did to a thread: its cursor's new place, and its new hints."""

    thread_pk: int
    last_seq: int
    hints: Hints | None
    document: Document | None = None
    """The working memory, if the group changed it."""


class Logs:
    """The logs of every resource, one resource at a time."""

    def __init__(self, engine: Engine, clock: Clock, new_id: Callable[[], str], recent: Recent) -> None:
        self._engine, self._clock, self._new_id, self._recent = engine, clock, new_id, recent

    def _now(self) -> int:
        return to_micros(self._clock.now())

    # ------------------------------------------------------------ reading

    async def snapshot(
        self,
        resource: str,
        thread: str,
        scope: Scope,
        *,
        create: bool = True,
        newest: int | None = None,
        others: bool | OtherLimits = True,
    ) -> Snapshot:
        """Return all that a decision and a context are made from, as of one moment.

        A log that does not exist yet is made, unless `create` is False: it then looks empty. `others` reads what a shared log
        does not cover of the other threads: all that a decision needs, or what a context shows of it.
        """
        check_id("resource", resource)
        check_id("thread", thread)
        now = self._now()

        def reading() -> Script[Snapshot]:
            return reading_snapshot(resource, thread, scope, now, self._recent, newest=newest, others=others)

        snapshot = await self._engine.read(reading)
        if create and not snapshot.is_complete:
            completing = partial(completing_log, resource, thread, scope, self._new_id, now)
            _, snapshot = await self._engine.write_and_read(completing, reading, name="logs.snapshot")
        snapshot.keep(self._recent)
        return snapshot

    async def observations(self, resource: str, log_pk: int, groups: Sequence[str]) -> tuple[Observation, ...]:
        """Return the observations of some groups, with their sources and what they merge."""
        check_id("resource", resource)
        if not groups:
            return ()
        return await self._engine.read(_owned(resource, log_pk, lambda: reading_observations(log_pk, groups), ()))

    async def lines(self, resource: str, log_pk: int, groups: Sequence[str]) -> tuple[Observation, ...]:
        """Return the observations of some groups as far as a text of them shows."""
        check_id("resource", resource)
        return await self._engine.read(_owned(resource, log_pk, lambda: reading_lines(log_pk, groups), ()))

    async def plans(self, snapshot: Snapshot, *, since: date, before: date) -> tuple[Observation, ...]:
        """Return what was planned for one of these days and of which no later line says how it went.

        What was read is kept until the log or the date changes.
        """
        log = snapshot.log
        if not snapshot.groups:
            return ()
        known = self._recent.plans.get(log.id)
        if known and (known.version, known.generation, known.before) == (log.version, log.generation, before):
            return known.lines
        reading = partial(
            reading_plans,
            log.pk,
            log.generation,
            entries=snapshot.groups[-1].position,
            since=since,
            before=before,
        )
        lines = await self._engine.read(reading)
        self._recent.plans.put(log.id, Plans(log.version, log.generation, before, lines))
        return lines

    async def lines_by_id(self, resource: str, log_pk: int, ids: Sequence[str]) -> tuple[Observation, ...]:
        """Return some lines of a log, in this order, without those that were deleted."""
        check_id("resource", resource)
        return (
            await self._engine.read(_owned(resource, log_pk, lambda: reading_lines_by_id(log_pk, ids), ()))
            if ids
            else ()
        )

    async def groups_at(self, resource: str, log_pk: int, generation: int, *, entries: int) -> tuple[GroupRow, ...]:
        """Return the first groups of a generation, as many as a run or a context was shown."""
        check_id("resource", resource)

        def script() -> Script[tuple[GroupRow, ...]]:
            rows = yield q.active_groups(log_pk=log_pk, generation=generation)
            return tuple(row for row in map(group_row, rows) if row.position <= entries)

        return await self._engine.read(_owned(resource, log_pk, script, ()))

    async def history(self, resource: str, thread: str | None) -> tuple[Generation, ...]:
        """Return the generations of a thread's log, or of the shared one (None), oldest first."""
        check_id("resource", resource)
        if thread is not None:
            check_id("thread", thread)

        def script() -> Script[tuple[Generation, ...]]:
            log_pk = yield from _find_log(resource, thread)
            rows = yield q.generations(log_pk=log_pk)
            return tuple(map(_generation, rows))

        return await self._engine.read(script)

    async def as_of(self, resource: str, thread: str | None, at: datetime) -> tuple[GroupRow, ...]:
        """Return the groups that the log consisted of at a moment."""
        check_id("resource", resource)
        if thread is not None:
            check_id("thread", thread)
        moment = to_micros(at)

        def script() -> Script[tuple[GroupRow, ...]]:
            log_pk = yield from _find_log(resource, thread)
            found = yield q.generation_at(log_pk=log_pk, at=moment)
            if found[0][0] is None:
                return ()
            rows = yield q.entries_at(log_pk=log_pk, generation=found[0][0], at=moment)
            return tuple(map(group_row, rows))

        return await self._engine.read(script)

    async def others(
        self,
        resource: str,
        log_pk: int,
        thread_pk: int,
        ends: Mapping[str, int] = MappingProxyType({}),
        *,
        limits: OtherLimits,
    ) -> OtherTails:
        """Return the newest uncovered messages of the resource's other threads, the latest active thread first.

        `ends` says where the log of a snapshot ends in them: what was activated since is not in what it shows.
        """
        check_id("resource", resource)
        return await self._engine.read(lambda: reading_others(resource, log_pk, thread_pk, ends, limits))

    async def hints_of(
        self, resource: str, log_pk: int, thread_pk: int, last_seq: int, *, generation: int | None = None
    ) -> Hints:
        """Return the hints that the group with this end brought to its thread.

        With a generation, as its reflections have changed them.
        """
        check_id("resource", resource)

        def script() -> Script[Hints]:
            if generation is not None:
                rows = yield q.reflected_hints(log_pk=log_pk, generation=generation, thread_pk=thread_pk)
                changed = (decode(Hints, loads(row[0])) for row in rows)
                if found := next((hints for hints in changed if hints.last_seq == last_seq), None):
                    return found
            rows = yield q.hints_of(log_pk=log_pk, thread_pk=thread_pk, last_seq=last_seq)
            if not rows or rows[0][0] is None:
                return Hints()
            hints = decode(Hints, loads(rows[0][0]))
            at = hints.at if hints.at or rows[0][1] is None else from_micros(rows[0][1])
            return replace(hints, at=at, last_seq=last_seq)

        return await self._engine.read(_owned(resource, log_pk, script, Hints()))

    async def hinted(self, resource: str, log_pk: int, groups: Sequence[str], *, most: int) -> dict[str, int]:
        """Return the threads that some groups come from, and from which message the hints of each are; the latest ones."""
        check_id("resource", resource)

        def script() -> Script[dict[str, int]]:
            rows = yield q.hinted_threads(log_pk=log_pk, groups=list(groups), limit=most)
            return {row[0]: row[1] for row in rows}

        return await self._engine.read(_owned(resource, log_pk, script, {})) if groups else {}

    async def alias(self, resource: str, log_pk: int, thread: str) -> int:
        """Return the short number that a thread has in a log."""
        check_id("resource", resource)
        check_id("thread", thread)

        def script() -> Script[int]:
            rows = yield q.thread_head(resource=resource, thread=thread)
            found = (yield q.get_cursor(log_pk=log_pk, thread_pk=rows[0][0])) if rows else ()
            return found[0][1] if found else 0

        return await self._engine.read(script)

    async def aliases(self, resource: str, log_pk: int, threads: Sequence[str]) -> dict[str, int]:
        """Return the short numbers of some threads in a log that the resource's threads share; none for any other log."""
        check_id("resource", resource)
        if not threads:
            return {}

        def script() -> Script[dict[str, int]]:
            owner = yield q.log_of(resource=resource, log_pk=log_pk)
            rows = (yield q.shared_aliases(log_pk=log_pk, threads=list(threads))) if owner else ()
            return {row[0]: row[1] for row in rows}

        return await self._engine.read(script)

    async def count_dropped(self, resource: str, log_pk: int) -> int:
        """Return how many lines no line of the log stands for any more; search finds them, restore brings them back."""
        check_id("resource", resource)

        def script() -> Script[int]:
            return (yield q.count_dropped(log_pk=log_pk))[0][0]

        return await self._engine.read(_owned(resource, log_pk, script, 0))

    # ------------------------------------------------------------ activating

    async def activate(
        self, resource: str, log_pk: int, version: int, groups: Sequence[Rendered], *, now: datetime
    ) -> tuple[Activated, ...]:
        """Move buffered groups into the log, their cursors with them; raises Conflict if the log has changed."""
        check_id("resource", resource)
        at = to_micros(now)

        def script() -> Script[tuple[Activated, ...]]:
            yield from _lock_threads(resource, log_pk, version, [group.id for group in groups])
            generation = yield from _take(log_pk, version)
            return (yield from _activate_all(log_pk, generation, groups, at))

        return await self._engine.write(script, name="logs.activate")

    async def activate_reflection(
        self, snapshot: Snapshot, group_pk: int, covers: Sequence[str], rendered: Rendered, *, now: datetime
    ) -> Generation | None:
        """Let a reflection take the place of the groups it covers: a new generation.

        Groups that were activated meanwhile, cursors and buffered groups stay as they are. Raises Conflict if the log has
        changed. A reflection that no longer fits the beginning of the log is put aside: None.
        """
        log, at = snapshot.log, to_micros(now)
        covered = [group for group in snapshot.groups if group.id in set(covers)]
        rest = [group for group in snapshot.groups if group.id not in set(covers)]

        def script() -> Script[Generation | None]:
            hinted = _hinted_threads((yield q.group_hints(group_pk=group_pk))[0][0])
            yield from _lock_threads(snapshot.resource, log.pk, log.version, [rendered.id], hinted=hinted)
            yield from _take(log.pk, log.version)
            if [group.id for group in covered] != list(covers) or covered != list(snapshot.groups[: len(covered)]):
                yield q.set_group_state(group_pk=group_pk, state="void")
                return None
            yield q.supersede(group_pk=group_pk)
            dropped: list[str] = []
            for group in covered:
                dropped += [row[0] for row in (yield q.drop_rest(group_pk=group.pk))]
                yield q.set_group_state(group_pk=group.pk, state="covered")
            inputs = yield q.inputs_of_group(group_pk=group_pk)
            if omitted := loads(inputs[0][0]).get("omitted") if inputs else None:
                dropped += [row[0] for row in (yield q.drop_omitted(log_pk=log.pk, ids=omitted))]
            rows = yield q.activate_reflection_group(
                group_pk=group_pk, now=at, text=pack(rendered.text), tokens=rendered.tokens
            )
            yield from _apply_reflected_hints(log.pk, rows[0][0])
            after = rendered.tokens + sum(group.tokens for group in rest)
            return (
                yield from new_generation(
                    log.pk,
                    log.generation + 1,
                    "reflection",
                    [group_pk, *(group.pk for group in rest)],
                    at,
                    before=sum(group.tokens for group in snapshot.groups),
                    after=after,
                    dropped=dropped,
                )
            )

        return await self._engine.write(script, name="logs.activate_reflection")

    async def restore(self, snapshot: Snapshot, generation: int, *, now: datetime) -> Generation:
        """Make a new generation of an old one's groups plus all that was activated since.

        Cursors and tombstones stay; a buffered or running reflection is void.
        """
        log, at = snapshot.log, to_micros(now)
        if not 0 <= generation <= log.generation:
            raise InputError(
                f"There is no generation {generation}.", why=f"The newest is {log.generation}.", then="See history()."
            )

        def script() -> Script[Generation]:
            yield from checking_version(log.pk, log.version, snapshot.resource)
            yield from _take(log.pk, log.version)
            old = yield from reading_standing(log.pk, generation)
            covered = yield from reading_leaves(log.pk, old)
            since = [row for row in (yield q.observer_groups(log_pk=log.pk)) if row[1] not in covered]
            yield q.void_buffered_reflections(log_pk=log.pk)
            yield q.abandon_reflections(log_pk=log.pk, now=at)
            order = [group.pk for group in old] + [row[0] for row in since]
            for group in snapshot.groups:
                if group.pk not in order:
                    yield q.set_group_state(group_pk=group.pk, state="covered")
            for group_pk in order:
                yield q.set_group_state(group_pk=group_pk, state="active")
                yield q.revive(group_pk=group_pk)
            after = sum(group.tokens for group in old) + sum(row[2] for row in since)
            return (
                yield from new_generation(
                    log.pk,
                    log.generation + 1,
                    "restore",
                    order,
                    at,
                    before=sum(group.tokens for group in snapshot.groups),
                    after=after,
                    restored_from=generation,
                )
            )

        return await self._engine.write(script, name="logs.restore")


# ---------------------------------------------------------------- pieces of scripts


def _owned(resource: str, log_pk: int, reading: Work[T], nothing: T) -> Work[T]:
    """Return a script that reads a log of the resource; of any other log there is nothing to read."""

    def script() -> Script[T]:
        if not (yield q.log_of(resource=resource, log_pk=log_pk)):
            return nothing
        return (yield from reading())

    return script


def _find_log(resource: str, thread: str | None) -> Script[int]:
    """Return the key of a thread's log, or of the shared one (None); 0, which no log has, where there is none yet."""
    thread_pk = 0
    if thread is not None:
        rows = yield q.thread_head(resource=resource, thread=thread)
        if not rows:
            raise ThreadNotFound(thread)
        thread_pk = rows[0][0]
    found = yield q.find_log(resource=resource, thread_pk=thread_pk)
    return found[0][0] if found else 0


def _lock_threads(
    resource: str, log_pk: int, version: int, groups: Sequence[str], *, hinted: Sequence[str] = ()
) -> Script[None]:
    """Take the threads that groups are about, and those whose hints they change, in the order in which everybody takes them."""
    yield from checking_version(log_pk, version, resource)
    keys = {row[0] for row in (yield q.threads_of_groups(log_pk=log_pk, groups=groups))}
    if hinted:
        keys |= {row[1] for row in (yield threads.thread_keys(resource=resource, threads=list(hinted)))}
    yield threads.lock_key.many([{"thread_pk": pk} for pk in sorted(keys)])


def _take(log_pk: int, version: int) -> Script[int]:
    rows = yield q.take_version(log_pk=log_pk, version=version)
    if not rows:
        raise Conflict("The log has changed since it was read.", then="Read it again and decide again.")
    return rows[0][0]


def _hinted_threads(hints: str | None) -> list[str]:
    """Return the threads that a reflection of a shared log says something of."""
    return list(loads(hints).get("threads", ())) if hints else []


def _apply_reflected_hints(log_pk: int, text: str | None) -> Script[None]:
    """Let what a reflector says of the log's thread, or of each of the threads that share it, become their hints."""
    told: JsonObject = loads(text) if text else {}
    for thread, said in (told.get("threads") or ({None: told} if told else {})).items():
        hints = decode(Hints, said)
        new = {
            "log_pk": log_pk,
            "current_task": pack(hints.current_task),
            "suggested_response": pack(hints.suggested_response),
            "last_seq": hints.last_seq,
        }
        yield q.apply_reflected_hints(**new) if thread is None else q.apply_shared_hints(**new, thread=thread)


def _activate_all(log_pk: int, generation: int, groups: Sequence[Rendered], at: int) -> Script[tuple[Activated, ...]]:
    """Activate groups in their order, in few statements however many there are: the threads wait for it."""
    position = (yield q.last_position(log_pk=log_pk, generation=generation))[0][0]
    ready = {row[0]: row for row in (yield q.ready_groups(log_pk=log_pk, groups=[group.id for group in groups]))}
    cursors = {row[2]: row[6] for row in ready.values()}
    present = {row[2]: _hints_of_row(row[7:]) for row in ready.values()}
    done = list[Activated]()
    texts, moves, entries = list[dict[str, object]](), list[dict[str, object]](), list[dict[str, object]]()
    hinted, kept = list[dict[str, object]](), list[dict[str, object]]()
    for group in groups:
        if group.id not in ready:
            raise Conflict("The group is no longer buffered.", then="Decide again.")
        _, group_pk, thread_pk, first_seq, last_seq, hints_text, *_ = ready[group.id]
        if cursors[thread_pk] != first_seq - 1:
            raise Conflict("The group does not continue the cursor.", then="Decide again.")
        cursors[thread_pk], position = last_seq, position + 1
        texts.append({"group_pk": group_pk, "now": at, "text": pack(group.text), "tokens": group.tokens})
        moves.append({"log_pk": log_pk, "thread_pk": thread_pk, "first_seq": first_seq, "last_seq": last_seq})
        entries.append(
            {"log_pk": log_pk, "generation": generation, "position": position, "group_pk": group_pk, "now": at}
        )
        hints = decode(Hints, loads(hints_text)) if hints_text else None
        if hints is not None:
            # What a span says of the thread holds after what the spans before it said. The group keeps it as it came to hold,
            # so that what a context showed can be shown again.
            hints = replace(hints, at=hints.at or from_micros(at)).after(present[thread_pk])
            present[thread_pk] = hints
            kept.append({"group_pk": group_pk, "hints": dumps({**loads(hints_text), **encode(hints)})})
            hinted.append(_hint_values(hints, thread_pk, last_seq))
        done.append(Activated(thread_pk=thread_pk, last_seq=last_seq, hints=hints))
    yield q.activate_group.many(texts)
    yield q.move_cursor.many(moves)
    yield q.add_entry.many(entries)
    yield q.set_group_hints.many(kept)
    yield q.apply_hints.many(hinted)
    for place, group in enumerate(groups):
        if text := ready[group.id][5]:
            document = yield from applying(log_pk, done[place].thread_pk, text, at)
            done[place] = replace(done[place], document=document)
    return tuple(done)


def _hints_of_row(row: Sequence[Any]) -> Hints:
    task, response, title, hinted_at, hinted_seq = row
    return Hints(
        current_task=unpack(task),
        suggested_response=unpack(response),
        title=unpack(title),
        at=None if hinted_at is None else from_micros(hinted_at),
        last_seq=hinted_seq,
    )


def _hint_values(hints: Hints, thread_pk: int, last_seq: int) -> dict[str, object]:
    return {
        "thread_pk": thread_pk,
        "current_task": pack(hints.current_task),
        "suggested_response": pack(hints.suggested_response),
        "title": pack(hints.title),
        "now": None if hints.at is None else to_micros(hints.at),
        "last_seq": last_seq,
    }


def new_generation(
    log_pk: int,
    number: int,
    kind: Any,
    groups: Sequence[int],
    at: int,
    *,
    before: int,
    after: int,
    dropped: Sequence[str] = (),
    restored_from: int | None = None,
) -> Script[Generation]:
    """Make a generation of these groups, in this order, and make it the log."""
    working_memory = yield from present_versions(log_pk)
    yield q.create_generation(
        log_pk=log_pk,
        number=number,
        kind=kind,
        run_pk=None,
        now=at,
        restored_from=restored_from,
        tokens_before=before,
        tokens_after=after,
        dropped=dumps(list(dropped)),
        working_memory=working_memory,
    )
    entries = [
        {"log_pk": log_pk, "generation": number, "position": position, "group_pk": group_pk, "now": at}
        for position, group_pk in enumerate(groups, start=1)
    ]
    yield q.add_entry.many(entries)
    yield q.set_generation(log_pk=log_pk, generation=number)
    return Generation(
        number=number,
        kind=kind,
        created_at=from_micros(at),
        dropped=tuple(dropped),
        restored_from=restored_from,
        tokens_before=before,
        tokens_after=after,
    )


def _generation(row: Row) -> Generation:
    return Generation(
        number=row[0],
        kind=row[1],
        created_at=from_micros(row[2]),
        run=row[3],
        dropped=tuple(loads(row[4])),
        restored_from=row[5],
        tokens_before=row[6],
        tokens_after=row[7],
    )
