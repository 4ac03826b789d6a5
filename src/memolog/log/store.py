"""Read logs, activate groups and reflections, and restore generations.

Every call that changes a log passes the version of the log that the caller has read. If the version has changed since, the call
raises Conflict.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from functools import partial
from itertools import takewhile
from types import MappingProxyType
from typing import Final, TypeAlias

from memolog.core.clock import Clock, from_micros, to_micros
from memolog.core.deadline import at_once, in_slices
from memolog.core.document import Document
from memolog.core.exact_json import JsonObject, decode, dumps, encode, loads, pack, unpack
from memolog.core.message import Message
from memolog.core.observation import Generation, Observation, Scope, Source, Span
from memolog.core.thread import Hints, threads_of_subagents
from memolog.db.engine import Engine, TimedCalls, reads, writes
from memolog.db.queries import Row, Script, load_queries
from memolog.db.rows import from_row, hints_from_row, moment, object_in
from memolog.db.scope import check_ids, check_optional_ids, reading_thread
from memolog.errors import Conflict, InputError
from memolog.log.render import render_group
from memolog.log.snapshot import (
    GroupRow,
    LogHead,
    MemoryCache,
    OtherLimits,
    OtherTails,
    OtherThread,
    Plans,
    Snapshot,
    TailLimit,
    ThreadHead,
    checking_version,
    completing_log,
    generation_from_row,
    group_row,
    new_generation,
    reading_groups,
    reading_newest,
    reading_others,
    reading_snapshot,
)
from memolog.text.dates import local
from memolog.text.identifiers import content_words
from memolog.working_memory.store import applying

q = load_queries("log/logs")
messages = load_queries("messages/messages")
threads = load_queries("messages/threads")


# At most _MOST_PLANS plans are read, and they are compared with at most _MOST_LATER later observations.
_MOST_PLANS: Final = 50
_MOST_LATER: Final = 500
# For a pack, at most _MOST_GROUPS groups of recent threads are considered. Each counts as at least _LEAST_GROUP tokens.
_MOST_GROUPS: Final = 2_000
_LEAST_GROUP: Final = 30
_NO_PLANS: Final = frozenset({"question", "finding", "error", "test", "source", "change"})
_ASKED: Final = ("User asked", "User asks")
# A later observation is about the same thing as a plan if it contains at least this share of the words of the plan. Words are
# equal if their first _STEM characters are.
_SAME_SHARE: Final = 0.6
_STEM: Final = 4
# The first characters of words for dates. These words are not compared.
_DAYS: Final = """
    mond tues wedn thur frid satu sund janu febr marc apri june july augu sept octo nove dece next last week mont year toda
    tomo yest mean date"""
_DAY_WORDS: Final = frozenset(_DAYS.split())


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendered:
    """A group and its rendered text."""

    id: str
    text: str
    tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ActivatedThread:
    """The result of an activation for one thread: the new cursor and the new hints (current task, suggested response, title)."""

    thread_pk: int
    last_seq: int
    hints: Hints | None
    document: Document | None = None
    """The new working memory. None if the group did not change the working memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecentThread:
    """A thread, with some of its groups and some of the messages that no group covers."""

    id: str
    pk: int
    title: str | None
    updated_at: datetime
    is_of_subagent: bool
    groups: tuple[str, ...] = ()
    """The texts of the groups, the oldest first. Empty for threads that share a log."""
    messages: tuple[Message, ...] = ()
    earlier: int = 0
    """How many messages before `messages` no group covers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecentThreads:
    """The threads that were active last, those of sub-agents after the others, and counts of lines and messages not read."""

    threads: tuple[RecentThread, ...] = ()
    more_lines: int = 0
    more_messages: int = 0


class Logs(TimedCalls):
    """Reads and changes logs. Every call is for one resource."""

    def __init__(self, engine: Engine, clock: Clock, new_id: Callable[[], str], cache: MemoryCache) -> None:
        super().__init__(engine, clock)
        self._new_id, self._cache = new_id, cache

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
        limit: TailLimit | None = None,
        activates: bool = True,
    ) -> Snapshot:
        """Return all rows that `decide` and a context need, as of one moment.

        A missing log is created. With `create=False` it is not created, and the snapshot has an empty log. `others` is for a
        shared log: True reads the messages of other threads that `decide` needs, `OtherLimits` the messages that a context shows.
        `limit` and `activates` are those of `reading_snapshot`.
        """
        check_ids(resource=resource, thread=thread)
        now = self._now()
        reading = partial(
            reading_snapshot,
            resource,
            thread,
            scope,
            self._cache,
            newest=newest,
            others=others,
            limit=limit,
            activates=activates,
        )

        snapshot = await self.engine.read(reading)
        if create and not snapshot.is_complete:
            completing = partial(completing_log, resource, thread, scope, self._new_id, now)
            _, snapshot = await self.engine.write_and_read(completing, reading, name="logs.snapshot")
        snapshot.keep(self._cache)
        return snapshot

    async def observations(self, resource: str, log_pk: int, groups: Sequence[str]) -> tuple[Observation, ...]:
        """Return the observations of some groups, with their sources and the ids of the observations that they merge."""
        check_ids(resource=resource)
        # A reflection can have hundreds of lines.
        return await in_slices(_observations(await self._observation_rows(resource, log_pk, groups)))

    @reads
    def _observation_rows(self, resource: str, log_pk: int, groups: Sequence[str]) -> Script[_ObservationRows]:
        if not groups or not (yield q.log_of(resource=resource, log_pk=log_pk)):
            return (), (), ()
        return (yield from _reading_observation_rows(log_pk, groups))

    async def plans(self, snapshot: Snapshot, *, since: date, before: date) -> tuple[Observation, ...]:
        """Return the plans for days from `since` to before `before` that have no known outcome, from the cache if possible."""
        log = snapshot.log
        if not snapshot.groups:
            return ()
        key = log.version, log.generation, since, before
        cached = self._cache.plans.get(log.id)
        if cached and cached[:-1] == key:
            return cached.lines
        reading = partial(
            reading_plans,
            log.pk,
            log.generation,
            entries=snapshot.groups[-1].position,
            since=since,
            before=before,
        )
        lines = await self.engine.read(reading)
        self._cache.plans.put(log.id, Plans(*key, lines), weight=sum(line.tokens for line in lines))
        return lines

    @reads
    def lines_by_id(self, resource: str, log_pk: int, ids: Sequence[str]) -> Script[tuple[Observation, ...]]:
        """Return the observations with these ids, in this order, without deleted ones."""
        check_ids(resource=resource)
        if not ids or not (yield q.log_of(resource=resource, log_pk=log_pk)):
            return ()
        rows = yield q.lines_by_id(log_pk=log_pk, ids=ids)
        found = {row.id: observation_from_row(row) for row in rows if row.state != "deleted"}
        return tuple(found[name] for name in ids if name in found)

    @reads
    def groups_at(self, resource: str, log_pk: int, generation: int, *, entries: int) -> Script[tuple[GroupRow, ...]]:
        """Return the groups of a generation whose position is at most `entries`."""
        check_ids(resource=resource)
        if not (yield q.log_of(resource=resource, log_pk=log_pk)):
            return ()
        rows = yield q.active_groups(log_pk=log_pk, generation=generation)
        return tuple(row for row in map(group_row, rows) if row.position <= entries)

    async def lines_at(
        self,
        resource: str,
        log_pk: int,
        generation: int,
        *,
        entries: int,
        choose: Callable[[Sequence[GroupRow]], Sequence[GroupRow]],
    ) -> tuple[Sequence[GroupRow], tuple[Observation, ...]]:
        """Return the chosen groups of `groups_at` and their observations, without sources and the ids of merged observations."""
        groups, rows = await self._line_rows_at(resource, log_pk, generation, entries, choose)
        return groups, await in_slices(_observations((rows, (), ())))

    @reads
    def _line_rows_at(
        self,
        resource: str,
        log_pk: int,
        generation: int,
        entries: int,
        choose: Callable[[Sequence[GroupRow]], Sequence[GroupRow]],
    ) -> Script[tuple[Sequence[GroupRow], Sequence[Row]]]:
        check_ids(resource=resource)
        heads = yield q.log_state(resource=resource, log_pk=log_pk)
        if not heads:
            return (), ()
        if heads[0].generation == generation:
            groups = yield from reading_groups(from_row(LogHead, heads[0]), self._cache)
        else:
            groups = tuple(map(group_row, (yield q.active_groups(log_pk=log_pk, generation=generation))))
        chosen = choose([group for group in groups if group.position <= entries])
        if not chosen:
            return (), ()
        return chosen, (yield q.group_observations(log_pk=log_pk, groups=[group.id for group in chosen]))

    @reads
    def history(self, resource: str, thread: str | None) -> Script[tuple[Generation, ...]]:
        """Return the generations of a thread's log, oldest first. `thread=None` means the shared log of the resource."""
        log_pk = yield from _find_log(resource, thread)
        rows = yield q.generations(log_pk=log_pk)
        return tuple(map(generation_from_row, rows))

    @reads
    def as_of(self, resource: str, thread: str | None, at: datetime) -> Script[tuple[GroupRow, ...]]:
        """Return the groups that the log had at a moment. `thread=None` means the shared log of the resource."""
        until = to_micros(at)
        log_pk = yield from _find_log(resource, thread)
        number = (yield q.generation_at(log_pk=log_pk, at=until))[0].number
        if number is None:
            return ()
        rows = yield q.entries_at(log_pk=log_pk, generation=number, at=until)
        return tuple(map(group_row, rows))

    @reads
    def others(
        self,
        resource: str,
        log_pk: int,
        thread_pk: int,
        known: Sequence[OtherThread] = (),
        *,
        limits: OtherLimits,
        version: int | None = None,
    ) -> Script[OtherTails]:
        """Return the newest messages of the resource's other threads that the log does not cover, the latest active thread first.

        `known` are the other threads of a snapshot, and `version` is that of its log. Messages after their cursors are returned
        even if the log covers them now.
        """
        check_ids(resource=resource)
        return (yield from reading_others(resource, log_pk, thread_pk, known, limits, self._cache, version=version))

    @reads
    def recent(
        self,
        resource: str,
        scope: Scope,
        *,
        tokens: int,
        own: ThreadHead | None = None,
        buffered: Mapping[str, Sequence[Span]] = MappingProxyType({}),
    ) -> Script[RecentThreads]:
        """Return the threads that were active last, except `own`, with enough groups and messages to fill `tokens` tokens.

        The number of queries does not depend on the number of threads. Of the groups, the newest and those with important lines
        are read. `buffered` has the spans of buffered groups of a shared log by thread.
        """
        check_ids(resource=resource)
        where = {"resource": resource, "thread_pk": own.pk if own else 0}
        most = min(max(tokens // 12, 100), 1_000)
        is_shared = scope == "resource"
        rows = yield q.recent_threads(**where, shared=int(is_shared), limit=most)
        below = threads_of_subagents([*(row.id for row in rows), *([own.id] if own else ())])
        rows = sorted(rows, key=lambda row: row.id in below)
        names = {row.pk: row.id for row in rows}
        groups = () if is_shared else (yield q.recent_groups(**where, threads=most, limit=_MOST_GROUPS))
        read = _chosen(sorted(groups, key=lambda group: names.get(group.thread_pk) in below), tokens)
        texts = yield from _reading_texts(resource, read)
        spans = {name: list(found) for name, found in buffered.items()}
        for group in groups:
            if group.state == "buffered" and group.thread_pk in names:
                spans.setdefault(names[group.thread_pk], []).append(Span(first=group.first_seq, last=group.last_seq))
        open_counts = {row.pk: _uncovered(row.cursor, row.last_seq, spans.get(row.id, ())) for row in rows}
        said = [row for row in rows if open_counts[row.pk]][: min(max(tokens // 150, 4), 40)]
        tails: dict[str, list[Message]] = {}
        if said:
            newest = min(max(tokens // 10 // len(said), 8), 100)
            for message in (yield from reading_newest([row.pk for row in said], newest, self._cache)):
                tails.setdefault(message.thread, []).append(message)
        chosen, spoken = {group.pk for group in read}, {row.pk for row in said}

        def recent_thread(row: Row) -> RecentThread:
            tail = _outside(tails.get(row.id, ()), row.cursor, spans.get(row.id, ()))
            own_groups = sorted((group for group in read if group.thread_pk == row.pk), key=_place)
            return RecentThread(
                id=row.id,
                pk=row.pk,
                title=unpack(row.title) or unpack(row.hinted_title),
                updated_at=from_micros(row.updated_at),
                is_of_subagent=row.id in below,
                groups=tuple(texts[group.pk] for group in own_groups if texts.get(group.pk)),
                messages=tail,
                earlier=open_counts[row.pk] - len(tail) if row.pk in spoken else 0,
            )

        return RecentThreads(
            threads=tuple(map(recent_thread, rows)),
            more_lines=sum(group.observations for group in groups if group.pk not in chosen),
            more_messages=sum(count for pk, count in open_counts.items() if pk not in spoken),
        )

    @reads
    def hints_of(
        self, resource: str, log_pk: int, thread_pk: int, last_seq: int, *, generation: int | None = None
    ) -> Script[Hints]:
        """Return the hints of the group that ends at message `last_seq`.

        A reflection can change these hints. With `generation`, the hints of the newest reflection of that generation are returned
        if it has hints for this message.
        """
        check_ids(resource=resource)
        if not (yield q.log_of(resource=resource, log_pk=log_pk)):
            return Hints()
        if generation is not None:
            rows = yield q.reflected_hints(log_pk=log_pk, generation=generation, thread_pk=thread_pk)
            changed = (decode(Hints, loads(row.hints)) for row in rows)
            if found := next((hints for hints in changed if hints.last_seq == last_seq), None):
                return found
        rows = yield q.hints_of(log_pk=log_pk, thread_pk=thread_pk, last_seq=last_seq)
        if not rows or rows[0].hints is None:
            return Hints()
        hints = decode(Hints, loads(rows[0].hints))
        return replace(hints, at=hints.at or moment(rows[0].activated_at), last_seq=last_seq)

    @reads
    def hinted(self, resource: str, log_pk: int, groups: Sequence[str], *, most: int) -> Script[dict[str, int]]:
        """Return at most `most` threads that some groups are about, each with the last message that its hints are based on."""
        check_ids(resource=resource)
        if not groups or not (yield q.log_of(resource=resource, log_pk=log_pk)):
            return {}
        rows = yield q.hinted_threads(log_pk=log_pk, groups=list(groups), limit=most)
        return {row.id: row.hinted_seq for row in rows}

    @reads
    def aliases(self, resource: str, log_pk: int, threads: Sequence[str]) -> Script[dict[str, int]]:
        """Return the short numbers of some threads in a shared log. The result is empty for the log of a single thread."""
        check_ids(resource=resource)
        if not threads:
            return {}
        owner = yield q.log_of(resource=resource, log_pk=log_pk)
        rows = (yield q.shared_aliases(log_pk=log_pk, threads=list(threads))) if owner else ()
        return {row.id: row.alias for row in rows}

    @reads
    def count_dropped(self, resource: str, log_pk: int) -> Script[int]:
        """Return how many observations reflections have dropped. Search still finds them, and `restore` activates them again."""
        check_ids(resource=resource)
        is_ours = yield q.log_of(resource=resource, log_pk=log_pk)
        return (yield q.count_dropped(log_pk=log_pk))[0].lines if is_ours else 0

    # ------------------------------------------------------------ activating

    @writes("logs.activate")
    def activate(
        self, resource: str, log_pk: int, version: int, groups: Sequence[Rendered], *, now: datetime
    ) -> Script[tuple[ActivatedThread, ...]]:
        """Move buffered groups into the log and advance the cursors of their threads. Raises Conflict if the log has changed."""
        check_ids(resource=resource)
        at = to_micros(now)
        yield from _lock_threads(resource, log_pk, version, [group.id for group in groups])
        generation = yield from _take(log_pk, version, appends=True)
        return (yield from _activate_all(log_pk, generation, groups, at))

    @writes("logs.activate_reflection")
    def activate_reflection(
        self, snapshot: Snapshot, group_pk: int, covers: Sequence[str], rendered: Rendered, *, now: datetime
    ) -> Script[Generation | None]:
        """Create a generation in which a reflection replaces the groups that it covers, and return the generation.

        Groups that were activated after the reflection started stay active. Cursors and buffered groups do not change. If the
        reflection no longer covers the beginning of the log, or the oldest groups after earlier reflections, it becomes void and
        None is returned. Raises Conflict if the log has changed.
        """
        log, at = snapshot.log, to_micros(now)
        wanted = set(covers)
        earlier = list(takewhile(lambda group: group.id not in wanted, snapshot.groups))
        covered = [group for group in snapshot.groups if group.id in wanted]
        end = len(earlier) + len(covered)
        rest = [*earlier, *snapshot.groups[end:]]
        # A reflection of a shared log may have hints for several threads.
        hints = (yield q.group_hints(group_pk=group_pk))[0].hints
        hinted = list(loads(hints).get("threads", ())) if hints else []
        yield from _lock_threads(snapshot.resource, log.pk, log.version, [rendered.id], hinted=hinted)
        yield from _take(log.pk, log.version)
        is_behind = any(group.kind != "reflection" for group in earlier)
        is_apart = [group.id for group in snapshot.groups[len(earlier) : end]] != list(covers)
        if is_behind or is_apart:
            yield q.set_group_state(group_pk=group_pk, state="void")
            return None
        yield q.supersede(group_pk=group_pk)
        dropped: list[str] = []
        for group in covered:
            dropped += [row.id for row in (yield q.drop_rest(group_pk=group.pk))]
            yield q.set_group_state(group_pk=group.pk, state="covered")
        inputs = yield q.inputs_of_group(group_pk=group_pk)
        if omitted := loads(inputs[0].inputs).get("omitted") if inputs else None:
            dropped += [row.id for row in (yield q.drop_omitted(log_pk=log.pk, ids=omitted))]
        rows = yield q.activate_reflection_group(
            group_pk=group_pk, now=at, text=pack(rendered.text), tokens=rendered.tokens
        )
        yield from _apply_reflected_hints(log.pk, rows[0].hints)
        after = rendered.tokens + sum(group.tokens for group in rest)
        return (
            yield from new_generation(
                log.pk,
                log.generation + 1,
                "reflection",
                [*(group.pk for group in earlier), group_pk, *(group.pk for group in snapshot.groups[end:])],
                at,
                before=sum(group.tokens for group in snapshot.groups),
                after=after,
                dropped=dropped,
            )
        )

    @writes("logs.restore")
    def restore(self, snapshot: Snapshot, generation: int, *, now: datetime) -> Script[Generation]:
        """Create a new generation from the groups of an old generation and all groups that were activated after it.

        Cursors and tombstones do not change. Buffered reflections become void, and running reflections are abandoned.
        """
        log, at = snapshot.log, to_micros(now)
        if not 0 <= generation <= log.generation:
            raise InputError(f"`generation` must be 0 to {log.generation}, got {generation}.", then="See history().")
        yield from checking_version(log.pk, log.version, snapshot.resource)
        yield from _take(log.pk, log.version)
        old = yield from reading_standing(log.pk, generation)
        covered = yield from reading_leaves(log.pk, old)
        since = [row for row in (yield q.observer_groups(log_pk=log.pk)) if row.id not in covered]
        yield q.void_buffered_reflections(log_pk=log.pk)
        yield q.abandon_reflections(log_pk=log.pk, now=at)
        order = [group.pk for group in old] + [row.pk for row in since]
        for group in snapshot.groups:
            if group.pk not in order:
                yield q.set_group_state(group_pk=group.pk, state="covered")
        for group_pk in order:
            yield q.set_group_state(group_pk=group_pk, state="active")
            yield q.revive(group_pk=group_pk)
        after = sum(group.tokens for group in old) + sum(row.tokens for row in since)
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


# ---------------------------------------------------------------- pieces of scripts


def reading_standing(log_pk: int, generation: int) -> Script[list[GroupRow]]:
    """Return the groups of a generation. A reflection that has become void is replaced by the groups that it covered."""
    todo = [group_row(row) for row in reversed((yield q.active_groups(log_pk=log_pk, generation=generation)))]
    void = {row.pk for row in (yield q.void_reflections(log_pk=log_pk))}
    found: list[GroupRow] = []
    while todo:
        group = todo.pop()
        if group.pk not in void:
            found.append(group)
        else:
            todo += reversed((yield from reading_members(log_pk, group.pk)))
    return found


def reading_members(log_pk: int, group_pk: int) -> Script[list[GroupRow]]:
    """Return the groups that a reflection covers, in their order."""
    inputs = yield q.inputs_of_group(group_pk=group_pk)
    names: list[str] = loads(inputs[0].inputs).get("groups", []) if inputs else []
    if not names:
        return []
    by_id = {row.id: group_row(row) for row in (yield q.groups_by_id(log_pk=log_pk, groups=names))}
    return [by_id[name] for name in names if name in by_id]


def reading_leaves(log_pk: int, groups: Sequence[GroupRow]) -> Script[set[str]]:
    """Return the ids of all observer groups that are in `groups` or that reflections in `groups` cover, at any depth."""
    found: set[str] = set()
    todo = list(groups)
    while todo:
        group = todo.pop()
        if group.kind == "reflection":
            todo += yield from reading_members(log_pk, group.pk)
        else:
            found.add(group.id)
    return found


def _find_log(resource: str, thread: str | None) -> Script[int]:
    """Return the key of a thread's log, or of the shared log for `thread=None`. Return 0 if the log does not exist yet."""
    check_ids(resource=resource)
    check_optional_ids(thread=thread)
    thread_pk = 0 if thread is None else (yield from reading_thread(resource, thread)).pk
    found = yield q.find_log(resource=resource, thread_pk=thread_pk)
    return found[0].pk if found else 0


def _lock_threads(
    resource: str, log_pk: int, version: int, groups: Sequence[str], *, hinted: Sequence[str] = ()
) -> Script[None]:
    """Lock the threads of some groups and the `hinted` threads. All callers lock in the same order, to avoid deadlocks."""
    yield from checking_version(log_pk, version, resource)
    keys = {row.thread_pk for row in (yield q.threads_of_groups(log_pk=log_pk, groups=groups))}
    if hinted:
        keys |= {row.pk for row in (yield threads.thread_keys(resource=resource, threads=list(hinted)))}
    yield threads.lock_key.many([{"thread_pk": pk} for pk in sorted(keys)])


def _take(log_pk: int, version: int, *, appends: bool = False) -> Script[int]:
    take = q.take_version_to_append if appends else q.take_version
    rows = yield take(log_pk=log_pk, version=version)
    if not rows:
        raise Conflict("The log has changed since it was read.", then="Read it again and decide again.")
    return rows[0].generation


def _apply_reflected_hints(log_pk: int, text: str | None) -> Script[None]:
    """Store the hints of a reflection for the thread of the log, or for each thread of a shared log."""
    stored: JsonObject = loads(text) if text else {}
    for thread, fields in (stored.get("threads") or ({None: stored} if stored else {})).items():
        hints = decode(Hints, fields)
        new = {
            "log_pk": log_pk,
            "current_task": pack(hints.current_task),
            "suggested_response": pack(hints.suggested_response),
            "last_seq": hints.last_seq,
        }
        yield q.apply_reflected_hints(**new) if thread is None else q.apply_shared_hints(**new, thread=thread)


def _activate_all(
    log_pk: int, generation: int, groups: Sequence[Rendered], at: int
) -> Script[tuple[ActivatedThread, ...]]:
    """Activate groups in the given order. Uses few statements, because the threads stay locked until the commit."""
    position = (yield q.last_position(log_pk=log_pk, generation=generation))[0].position
    ready = {row.id: row for row in (yield q.ready_groups(log_pk=log_pk, groups=[group.id for group in groups]))}
    cursors = {row.thread_pk: row.cursor for row in ready.values()}
    present = {row.thread_pk: hints_from_row(row) for row in ready.values()}
    done = list[ActivatedThread]()
    texts, moves, entries = list[dict[str, object]](), list[dict[str, object]](), list[dict[str, object]]()
    hinted, kept = list[dict[str, object]](), list[dict[str, object]]()
    for group in groups:
        if group.id not in ready:
            raise Conflict("The group is no longer buffered.", then="Decide again.")
        row = ready[group.id]
        group_pk, thread_pk, first_seq, last_seq = row.pk, row.thread_pk, row.first_seq, row.last_seq
        if cursors[thread_pk] != first_seq - 1:
            raise Conflict("The group does not continue the cursor.", then="Decide again.")
        cursors[thread_pk], position = last_seq, position + 1
        texts.append({"group_pk": group_pk, "now": at, "text": pack(group.text), "tokens": group.tokens})
        moves.append({"log_pk": log_pk, "thread_pk": thread_pk, "first_seq": first_seq, "last_seq": last_seq})
        entries.append(
            {"log_pk": log_pk, "generation": generation, "position": position, "group_pk": group_pk, "now": at}
        )
        hints = decode(Hints, loads(row.hints)) if row.hints else None
        if hints is not None:
            # Hints that this group does not set are copied from the groups before it. The result is stored with the group,
            # so that an earlier context can be rebuilt.
            hints = replace(hints, at=hints.at or from_micros(at)).after(present[thread_pk])
            present[thread_pk] = hints
            kept.append({"group_pk": group_pk, "hints": dumps({**loads(row.hints), **encode(hints)})})
            hinted.append(hint_values(hints, thread_pk, last_seq))
        done.append(ActivatedThread(thread_pk=thread_pk, last_seq=last_seq, hints=hints))
    yield q.activate_group.many(texts)
    yield q.move_cursor.many(moves)
    yield q.add_entry.many(entries)
    yield q.set_group_hints.many(kept)
    yield q.apply_hints.many(hinted)
    for place, group in enumerate(groups):
        if text := ready[group.id].hints:
            document = yield from applying(log_pk, done[place].thread_pk, text, at)
            done[place] = replace(done[place], document=document)
    return tuple(done)


def hint_values(hints: Hints, thread_pk: int, last_seq: int) -> dict[str, object]:
    """Return the parameters of the query `apply_hints`."""
    return {
        "thread_pk": thread_pk,
        "current_task": pack(hints.current_task),
        "suggested_response": pack(hints.suggested_response),
        "title": pack(hints.title),
        "now": None if hints.at is None else to_micros(hints.at),
        "last_seq": last_seq,
    }


# ---------------------------------------------------------------- observations and plans


def _chosen(groups: Sequence[Row], tokens: int) -> list[Row]:
    """Return the groups to read: about 2 * `tokens` tokens of the newest groups, and as many of groups with important lines."""
    chosen: dict[int, Row] = {}
    for candidates in (groups, [group for group in groups if group.marked]):
        room = 2 * tokens
        for group in candidates:
            if group.pk not in chosen and room > 0:
                room -= max(group.tokens, _LEAST_GROUP)
                chosen[group.pk] = group
    return list(chosen.values())


def _place(group: Row) -> tuple[bool, int, int]:
    """Return the sort key of a group in its log. Buffered groups come last."""
    return group.position is None, group.position or 0, group.pk


def _outside(messages: Sequence[Message], cursor: int, spans: Sequence[Span]) -> tuple[Message, ...]:
    """Return the messages that neither the log nor one of these spans covers."""
    return tuple(
        one for one in messages if one.seq > cursor and not any(span.first <= one.seq <= span.last for span in spans)
    )


def _uncovered(cursor: int, last_seq: int, spans: Iterable[Span]) -> int:
    """Return how many messages after the cursor are in none of the spans."""
    return last_seq - cursor - sum(max(0, span.last - max(span.first, cursor + 1) + 1) for span in spans)


def _reading_texts(resource: str, groups: Sequence[Row]) -> Script[dict[int, str]]:
    """Return the texts of groups by key. A buffered group has no text yet, so it is rendered."""
    texts: dict[int, str] = {}
    active = [group.pk for group in groups if group.state == "active"]
    ready = {group.pk: group for group in groups if group.state != "active"}
    if active:
        texts |= {row.pk: unpack(row.text) or "" for row in (yield q.group_texts(resource=resource, groups=active))}
    if ready:
        lines: dict[int, list[Observation]] = {}
        for row in (yield q.lines_of_groups(resource=resource, groups=list(ready))):
            lines.setdefault(row.group_pk, []).append(observation_from_row(row))
        for pk, own in lines.items():
            texts[pk] = render_group(
                handle=ready[pk].handle, observations=own, previous=None, alias=None, is_reflection=False
            )
    return texts


def observation_from_row(row: Row, sources: tuple[Source, ...] = (), merges: tuple[str, ...] = ()) -> Observation:
    """Return the observation of a row with the columns of `select_lines`."""
    return Observation(
        id=row.id,
        group=row.group_id,
        ordinal=row.ordinal,
        priority=row.priority,
        text=unpack(row.text) or "",
        said_at=moment(row.said_at),
        zone=unpack(row.zone),
        about=None if row.about is None else date.fromisoformat(row.about),
        parent=row.parent,
        verbatim=unpack(row.verbatim),
        trust=row.trust,
        grounded=bool(row.grounded),
        category=unpack(row.category),
        files=tuple(loads(row.files)) if row.files != "[]" else (),
        metadata=object_in(row.metadata),
        state=row.state,
        tokens=row.tokens,
        sources=sources,
        merges=merges,
    )


def reading_observations(log_pk: int, groups: Sequence[str]) -> Script[tuple[Observation, ...]]:
    """Return the observations of some groups in the order in which the groups were created."""
    return at_once(_observations((yield from _reading_observation_rows(log_pk, groups))))


_ObservationRows: TypeAlias = tuple[Sequence[Row], Sequence[Row], Sequence[Row]]
"""The rows of observations, of their sources, and of the observations that they merge."""


def _reading_observation_rows(log_pk: int, groups: Sequence[str]) -> Script[_ObservationRows]:
    lines = yield q.group_observations(log_pk=log_pk, groups=groups)
    sources = yield q.observation_sources(log_pk=log_pk, groups=groups)
    return lines, sources, (yield q.observation_merges(log_pk=log_pk, groups=groups))


def _observations(rows: _ObservationRows) -> Generator[None, None, tuple[Observation, ...]]:
    """Return the observations of these rows, and yield after each."""
    lines, from_, merged = rows
    sources = sources_by_line(from_)
    yield
    merges: dict[str, list[str]] = {}
    for row in merged:
        merges.setdefault(row.observation, []).append(row.merged)
    found: list[Observation] = []
    for row in lines:
        found.append(observation_from_row(row, sources.get(row.id, ()), tuple(merges.get(row.id, ()))))
        yield
    return tuple(found)


def sources_by_line(rows: Sequence[Row]) -> dict[str, tuple[Source, ...]]:
    """Return the sources of observations, by the id of the observation."""
    sources: dict[str, list[Source]] = {}
    for row in rows:
        source = Source(thread=row.thread, span=Span(first=row.first_seq, last=row.last_seq))
        sources.setdefault(row.observation, []).append(source)
    return {name: tuple(several) for name, several in sources.items()}


def reading_plans(
    log_pk: int, generation: int, *, entries: int, since: date, before: date
) -> Script[tuple[Observation, ...]]:
    """Return the plans for days from `since` to before `before`, the latest day first, from groups up to position `entries`.

    A plan is left out if a later observation is about the same thing, because that observation describes the outcome.
    """
    where = {"log_pk": log_pk, "generation": generation, "entries": entries}
    days = {"since": since.isoformat(), "before": before.isoformat()}
    rows = yield q.lines_about(**where, **days, limit=_MOST_PLANS)
    plans = [line for line in (observation_from_row(row) for row in rows) if _is_plan(line)]
    if not plans:
        return ()
    first = min((to_micros(plan.said_at) for plan in plans if plan.said_at), default=0)
    rows = yield q.lines_since(**where, since=first, limit=_MOST_LATER)
    # The newest observation is first, so the observations before a plan in this list are later than the plan.
    newest = [(row.id, _stems(unpack(row.text) or "")) for row in rows]
    positions = {id_: position for position, (id_, _) in enumerate(newest)}
    open_plans: list[Observation] = []
    for plan in plans:
        stems = _stems(plan.text)
        later = (len(stems & words) for _, words in newest[: positions.get(plan.id, 0)])
        if not stems or all(shared < _SAME_SHARE * len(stems) for shared in later):
            open_plans.append(plan)
    return tuple(open_plans)


def _is_plan(line: Observation) -> bool:
    """Return whether an observation is about something to do on a day that was in the future when it was said."""
    if line.about is None or line.priority not in {"high", "medium"} or line.trust == "tool" or line.is_unverified:
        return False
    if line.category in _NO_PLANS or line.text.startswith(_ASKED) or line.text.rstrip().endswith(("?", "？", "؟")):
        return False
    if line.said_at is None:
        return line.category == "plan"
    return line.about > local(line.said_at, line.zone).date()


def _stems(text: str) -> frozenset[str]:
    return frozenset(word[:_STEM] for word in content_words(text) if not word.isdecimal()) - _DAY_WORDS
