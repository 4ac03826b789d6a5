"""Examine a database for violated invariants, and repair what is safe to repair.

Checks that one query answers are a table (`CHECKS`); the others are scripts. Models are shown the stored text of a group, so it
must match the lines that it was rendered from.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from memolog.core.clock import Clock, to_micros
from memolog.core.config import Config
from memolog.core.exact_json import loads, pack
from memolog.core.reports import Finding, FindingKind, Report
from memolog.db.engine import Engine
from memolog.db.queries import Row, Script, Statement, Step, load_queries
from memolog.db.scope import check_optional_ids
from memolog.db.sqlite_files import copy_before_repair, damage_in, rebuild_indexes
from memolog.log.withdrawals import Render, rendering
from memolog.search.analysis import Redact
from memolog.search.index import has_words, resetting_index
from memolog.tasks.dependencies import settling
from memolog.text.redaction import for_the_index
from memolog.text.tokens import TokenCounter

if TYPE_CHECKING:
    from memolog.connection import Components

q = load_queries("admin/doctor")
_YEAR_MICROS: Final = 365 * 24 * 3600 * 1_000_000
log_queries = load_queries("log/logs")
# These depend on the log and on the group before, not on the lines: whether threads share the log, and the time since then.
_BEFORE: Final = re.compile(
    r'^(<(?:observations|reflection) id="[^"<>]*")(?: thread="t[0-9]+")?>\n'
    r"(?:\[(?:[0-9]+ )?(?:day|week|month|year)s? later\]\n)?"
)
_IN_LOG = frozenset({"active", "covered"})
_NAMED = 12
_EXAMINED: Final = ("threads", "messages", "groups", "observations", "tasks", "documents of the index")


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """A finding and its repair."""

    finding: Finding
    repair: tuple[Step, ...] = ()
    task: int | None = None
    """The task whose blocked state must be computed again."""
    reindex: str | None = None
    """The resource whose index must be rebuilt."""


async def examine(
    components: Components, resource: str | None, config: Config, counter: TokenCounter, *, repair: bool
) -> Report:
    """Return what is wrong with the rows of one resource or of all, and with the file; `repair` repairs what is safe."""
    doctor, redact = components.store.doctor, for_the_index(config)

    async def look() -> tuple[Diagnosis, ...]:
        rows = await doctor.examine(resource, count=counter.count, redact=redact, render=components.core.rerender)
        return *rows, *await _file_findings(components, config)

    found = await look()
    if not repair:
        return await doctor.report(resource, found, left=found)
    file, copy = components.store.engine.file, None
    if file is not None and found:
        stamp = components.clock.now().strftime("%Y%m%dT%H%M%S")
        copy = str(await asyncio.to_thread(copy_before_repair, file, stamp))
    await doctor.repair(found)
    if file is not None:
        await asyncio.to_thread(rebuild_indexes, file, timeout=config.busy_timeout)
    for name in (resource,) if resource is not None else await doctor.resources():
        await components.store.indexing.catch_up(name, redact)
    return replace(await doctor.report(resource, found, await look()), copy=copy, index_rebuilt=True)


class Doctor:
    """Examines one resource, or the whole database."""

    def __init__(self, engine: Engine, clock: Clock) -> None:
        self._engine, self._clock = engine, clock

    async def examine(
        self, resource: str | None, *, count: Callable[[str], int], redact: Redact, render: Render
    ) -> tuple[Diagnosis, ...]:
        """Return every violation of an invariant, as of one moment."""
        check_optional_ids(resource=resource)
        now = to_micros(self._clock.now())

        def script() -> Script[tuple[Diagnosis, ...]]:
            found: list[Diagnosis] = []
            for check in CHECKS:
                found += yield from checking(check, resource, now)
            found += yield from checking_spans(resource)
            found += yield from checking_entries(resource)
            found += yield from checking_pairs(resource)
            found += yield from checking_tasks(resource)
            found += yield from checking_tokens(resource, count)
            found += yield from checking_index(resource, redact)
            found += yield from checking_renderings(resource, render)
            return tuple(found)

        return await self._engine.read(script, brief=False)

    async def repair(self, found: Sequence[Diagnosis]) -> None:
        """Repair what is safe, in one transaction: all of it, or nothing."""

        def script() -> Script[None]:
            for step in [step for one in found for step in one.repair]:  # noqa: UP028 - a list cannot be sent rows
                yield step
            yield from settling(one.task for one in found if one.task is not None)
            for resource in sorted({one.reindex for one in found if one.reindex is not None}):
                yield from resetting_index(resource)

        await self._engine.write(script, name="doctor.repair")

    async def report(self, resource: str | None, found: Sequence[Diagnosis], left: Sequence[Diagnosis] = ()) -> Report:
        """Return a report of the findings; those that a second examination no longer finds count as repaired."""
        rows = (await self._engine.fetch(q.examined(resource=resource), tuple[int, ...]))[0]
        still = {replace(one.finding, is_safe=True) for one in left}
        findings = tuple(
            replace(one.finding, repaired=one.finding.is_safe and one.finding not in still) for one in found
        )
        return Report(findings=findings, examined=tuple(zip(_EXAMINED, rows, strict=True)))

    async def resources(self) -> tuple[str, ...]:
        """Return all resources."""
        return await self._engine.fetch(q.resources(), lambda row: row.resource)


@dataclass(frozen=True, slots=True)
class Check:
    """One invariant: the query for the rows that violate it, an explanation, and the statement that repairs a row.

    A row has a key and a place; the explanation and the parameters of the repair name its other columns.
    """

    kind: FindingKind
    look: Statement
    explain: str
    repair: Statement | None = None
    is_safe: Callable[[Row], bool] = bool
    reindexes: bool = False
    """Whether rebuilding the index of the resource repairs it."""


def found_at(
    kind: FindingKind, where: str, explanation: str, *repair: Step, task: int | None = None, reindex: str | None = None
) -> Diagnosis:
    """Return a finding; it is safe to repair if there is a repair."""
    is_safe = bool(repair) or task is not None or reindex is not None
    finding = Finding(kind=kind, where=where, explanation=explanation, is_safe=is_safe)
    return Diagnosis(finding=finding, repair=repair, task=task, reindex=reindex)


async def _file_findings(components: Components, config: Config) -> Sequence[Diagnosis]:
    file = components.store.engine.file
    if file is None or config.read_only:
        return ()
    broken, indexes = await asyncio.to_thread(damage_in, file, timeout=config.busy_timeout)
    damage = "SQLite reports: {}. Restore a backup, or save what is left with the .recover command of sqlite3."
    words = "The index of words does not match its documents ({}): searches miss some."
    return [
        *(_file_finding("damage", file, damage.format(line), is_safe=False) for line in broken),
        *(_file_finding("index-word", file, words.format(line), is_safe=True) for line in indexes),
    ]


def _file_finding(kind: FindingKind, file: str, explanation: str, *, is_safe: bool) -> Diagnosis:
    return Diagnosis(finding=Finding(kind=kind, where=file, explanation=explanation, is_safe=is_safe))


def checking(check: Check, resource: str | None, now: int) -> Script[list[Diagnosis]]:
    """Return what one check finds."""
    given = {"resource": resource, "latest": now + _YEAR_MICROS}
    found: list[Diagnosis] = []
    for row in (yield check.look(**{name: given[name] for name in check.look.parameters})):
        steps: list[Step] = []
        if check.repair is not None and check.is_safe(row):
            steps.append(check.repair(**{name: getattr(row, name) for name in check.repair.parameters}))
        explanation = check.explain.format(**row._asdict())
        reindex = row.resource if check.reindexes else None
        found.append(found_at(check.kind, row.place, explanation, *steps, reindex=reindex))
    return found


CHECKS: Final = (
    Check(
        "sequence",
        q.sequences,
        "The thread says that its last message is {last_seq}; it has {messages} rows, the last of which is {newest}.",
        q.fix_sequence,
        # Numbers only rise: if rows are missing at the end, their numbers must not be used again.
        is_safe=lambda row: row.messages == row.newest > row.last_seq,
    ),
    Check("forgotten-text", q.tombstones, "It was forgotten but still has text.", q.fix_tombstone),
    Check("forgotten-text", q.deleted_lines, "It was deleted but still has text.", q.fix_deleted_line),
    Check(
        "dead-source",
        q.dead_sources,
        "It is shown but cites a message that was withdrawn or forgotten. Retract or delete it.",
    ),
    Check("provenance", q.no_sources, "It names no source message."),
    Check("provenance", q.strange_sources, "It names messages that are missing or not of its group."),
    Check(
        "count", q.line_counts, "It says that it has {observations} observations but has {counted}.", q.fix_line_count
    ),
    Check("tokens", q.message_tokens, "It has content but no tokens, so windows are fuller than reported."),
    Check(
        "version",
        q.generations,
        "The log is at generation {generation}; the newest one is {newest}.",
        q.fix_generation,
        is_safe=lambda row: row.newest >= 0,
    ),
    Check("log-entry", q.unlisted, "It is active but not part of the log, so it is not shown.", q.fix_unlisted),
    Check("log-entry", q.wrongly_listed, "It is part of the log but its state is {state}."),
    Check("run", q.unmade, "Its run is {status}, not done."),
    Check(
        "lease",
        q.endless_runs,
        "Its lease ends in more than a year: if its owner is gone, it is not taken over.",
        q.fix_endless_run,
    ),
    Check(
        "lease",
        q.endless_leases,
        "It ends in more than a year: if its owner is gone, it stays blocked.",
        q.fix_lease,
    ),
    Check("lease", q.idle_leases, "It claims a task that is closed or missing.", q.fix_lease),
    Check(
        "hints",
        q.hints,
        "Its hints are from message {hinted_seq}, but its last message is {last_seq}: newer hints would be refused.",
        q.fix_hints,
    ),
    Check("alias", q.aliases, "Its alias t{alias} is not valid.", q.fix_alias),
    Check(
        "alias", q.foreign_cursors, "The thread belongs to {resource} or has its own log; this log must not cover it."
    ),
    Check(
        "task-link",
        q.handles_given,
        "{tasks} tasks have handles, but only {last_handle} were given out: the next would be given twice.",
    ),
    Check(
        "working-memory",
        q.documents,
        "It is at version {version}; {versions} versions are stored, the last of which is {newest}.",
        q.fix_document,
        is_safe=lambda row: row.versions == row.newest > 0,
    ),
    Check("orphan", q.lost_lines, "Its group does not exist."),
    Check("orphan", q.lost_messages, "Its thread does not exist."),
    Check("orphan", q.lost_entries, "It lists a group that does not exist.", q.fix_lost_entry),
    Check("orphan", q.lost_links, "Its task or its message does not exist.", q.fix_lost_link),
    Check("orphan", q.lost_prompts, "Its run does not exist.", q.fix_lost_prompt),
    Check(
        "index-extra", q.stale_docs, "The index finds something that is deleted, withdrawn or internal.", reindexes=True
    ),
    Check(
        "index-stats",
        q.wrong_stats,
        "The index counts {documents} documents, but there are {counted}: ranks are wrong.",
        reindexes=True,
    ),
    Check(
        "index-behind", q.unwatched, "Some of its messages are not indexed and not queued for indexing.", reindexes=True
    ),
)


def checking_renderings(resource: str | None, render: Render) -> Script[list[Diagnosis]]:
    """Check that the text of every group matches its lines."""
    found: list[Diagnosis] = []
    for row in (yield q.rendered(resource=resource)):
        group, rendered, tokens = yield from rendering(row.log_pk, row.id, render)
        if not matches_rendering(group.text, rendered):
            text = "Its text, which models are shown, is not what its lines say."
            set_text = log_queries.set_group_text(group_pk=group.pk, text=pack(rendered), tokens=tokens)
            found.append(found_at("rendering", row.place, text, set_text, q.touch_log_of(key=group.pk)))
    return found


def matches_rendering(text: str, rendered: str) -> bool:
    """Return whether a text matches rendered lines, ignoring what depends on the groups before it."""
    return text == rendered or _without_context(text) == _without_context(rendered)


def _without_context(text: str) -> str:
    return _BEFORE.sub(r"\1>\n", text)


def checking_spans(resource: str | None) -> Script[list[Diagnosis]]:
    """Check that the spans of each thread in a log are contiguous up to its cursor, and that all others lie after it."""
    spans: dict[tuple[int, int], list[Row]] = {}
    for row in (yield q.spans(resource=resource)):
        spans.setdefault((row.log_pk, row.thread_pk), []).append(row)
    found: list[Diagnosis] = []
    for cursor in (yield q.cursors(resource=resource)):
        found += _span_findings(cursor, spans.pop((cursor.log_pk, cursor.thread_pk), []))
    for (_, thread_pk), rows in spans.items():
        names = ", ".join(row.handle for row in rows[:_NAMED])
        found.append(found_at("cursor", f"thread key {thread_pk}", f"No cursor says how far {names} cover it."))
    return found


def _span_findings(cursor: Row, rows: Sequence[Row]) -> Iterator[Diagnosis]:
    where = f"thread {cursor.thread} of {cursor.resource}"
    inside = sorted((row for row in rows if row.state in _IN_LOG), key=lambda row: row.first_seq)
    ahead = sorted((row for row in rows if row.state not in _IN_LOG), key=lambda row: row.first_seq)
    end, is_whole = 0, True
    for row in inside:
        first = row.first_seq
        if first != end + 1:
            kind: FindingKind = "overlap" if first <= end else "coverage"
            what = "earlier groups cover it already" if first <= end else f"nothing covers {end + 1}–{first - 1}"
            yield found_at(kind, where, f"Group {row.handle} begins at message {first}, and {what}.")
            is_whole = False
        end = max(end, row.last_seq)
    if end != cursor.seq and is_whole:
        text = f"The groups cover messages up to {end}, but the cursor is at {cursor.seq}."
        place = {"log_pk": cursor.log_pk, "thread_pk": cursor.thread_pk}
        put = q.put_cursor(**place, seq=end, alias=cursor.alias)
        yield found_at("cursor", where, text, q.drop_cursor(**place), put)
    for row in ahead:
        if row.first_seq <= end:
            repair = [q.void_group(key=row.pk)] if row.state == "buffered" else []
            text = (
                f"{row.handle} ({row.state}) covers messages {row.first_seq}–{row.last_seq}; {end} is covered already."
            )
            yield found_at("overlap", where, text, *repair)
        end = max(end, row.last_seq)
    if end > cursor.last_seq:
        yield found_at("coverage", where, f"Spans reach message {end}, but the last one is {cursor.last_seq}.")


def checking_entries(resource: str | None) -> Script[list[Diagnosis]]:
    """Check that each log covers every group that was ever activated exactly once."""
    groups: dict[int, dict[str, Row]] = {}
    for row in (yield q.log_groups(resource=resource)):
        groups.setdefault(row.log_pk, {})[row.id] = row
    stood_for: dict[int, Counter[str]] = {log_pk: Counter() for log_pk in groups}
    owners: dict[int, str] = {}
    found: list[Diagnosis] = []
    for row in (yield q.listed(resource=resource)):
        owners[row.pk] = row.resource
        known = groups.get(row.pk, {})
        if row.id in known:
            leaves, lost = _leaves(known, row.id)
            stood_for[row.pk].update(leaves)
            if lost:
                where = f"group {row.handle} of {row.resource}"
                found.append(found_at("log-entry", where, "It covers groups that do not exist."))
    for log_pk, counted in stood_for.items():
        where = f"a log of {owners.get(log_pk, 'a resource')}"
        for name, row in groups[log_pk].items():
            if row.kind == "observer" and row.state in _IN_LOG and counted[name] != 1:
                times = "nothing in the log covers it" if not counted[name] else "the log contains it twice"
                found.append(found_at("coverage", where, f"Group {row.handle} is {row.state}, but {times}."))
    return found


def _leaves(groups: Mapping[str, Row], name: str) -> tuple[list[str], bool]:
    leaves, lost, todo = list[str](), False, [name]
    while todo:
        row = groups.get(todo.pop())
        if row is None:
            lost = True
        elif row.kind != "reflection":
            leaves.append(row.id)
        else:
            inputs: Mapping[str, Any] = loads(row.inputs) if row.inputs else {}
            todo += inputs.get("groups", [])
    return leaves, lost


def checking_pairs(resource: str | None) -> Script[list[Diagnosis]]:
    """Check that no span ends between a call and its result, unless a user message is in between."""
    ends: dict[int, list[tuple[int, str]]] = {}
    for row in (yield q.spans(resource=resource)):
        ends.setdefault(row.thread_pk, []).append((row.last_seq, row.handle))
    found: list[Diagnosis] = []
    waiting: dict[str, int] = {}
    thread_pk = 0
    for row in (yield q.pairs(resource=resource)):
        if row.thread_pk != thread_pk:
            waiting, thread_pk = dict[str, int](), row.thread_pk
        pairs: tuple[Sequence[str], Sequence[str]] = loads(row.pairs) if row.pairs and row.state == "live" else ((), ())
        calls, results = pairs
        for call in results:
            first = waiting.pop(call, None)
            torn = [handle for end, handle in ends.get(thread_pk, ()) if first is not None and first <= end < row.seq]
            text = f"It ends between call {call} at message {first} and its result at {row.seq}."
            found += [found_at("pair", f"group {handle}", text) for handle in torn]
        if row.role == "user" and not results:
            waiting.clear()
        for call in calls:
            waiting[call] = row.seq
    return found


def checking_tasks(resource: str | None) -> Script[list[Diagnosis]]:
    """Check the blocked column, and that no task waits for itself."""
    found: list[Diagnosis] = []
    for row in (yield q.blocked(resource=resource)):
        text = "It is marked as blocked, but nothing blocks it." if row.blocked else "It is blocked, but not marked so."
        found.append(found_at("blocked", row.place, text, task=row.key))
    after: dict[int, set[int]] = {}
    names: dict[int, str] = {}
    for row in (yield q.ordering_links(resource=resource)):
        where = f"task {row.source} of {row.resource}"
        if row.resource != row.other:
            found.append(found_at("task-link", where, f"It is linked to {row.target} of {row.other}."))
            continue
        after.setdefault(row.source_pk, set()).add(row.target_pk)
        names |= {row.source_pk: where, row.target_pk: f"task {row.target} of {row.resource}"}
    in_cycle = _tasks_in_cycles(after)
    found += [found_at("task-link", names[pk], "It waits for itself: its links form a cycle.") for pk in in_cycle]
    return found


def _tasks_in_cycles(after: Mapping[int, set[int]]) -> list[int]:
    """Return the tasks of cycles: what remains after repeatedly removing tasks without predecessors or successors."""
    left = {pk: set(targets) for pk, targets in after.items()}
    while True:
        aimed_at = {target for targets in left.values() for target in targets}
        kept = {pk: targets & left.keys() for pk, targets in left.items() if pk in aimed_at}
        kept = {pk: targets for pk, targets in kept.items() if targets}
        if kept == left:
            return sorted(left)
        left = kept


def checking_tokens(resource: str | None, count: Callable[[str], int]) -> Script[list[Diagnosis]]:
    """Check that groups with a text have tokens, and those without have none."""
    found: list[Diagnosis] = []
    for row in (yield q.group_tokens(resource=resource)):
        real = count(row.text) if row.text else 0
        text = f"It counts as {row.tokens:,} tokens, but its text has {real:,}."
        found.append(found_at("tokens", row.place, text, q.fix_group_tokens(key=row.key, tokens=real)))
    return found


def checking_index(resource: str | None, redact: Redact) -> Script[list[Diagnosis]]:
    """Check that every message that contains a word is indexed."""
    found: list[Diagnosis] = []
    for row in (yield q.unindexed(resource=resource)):
        if has_words(row, redact):
            where = f"message {row.seq} of thread {row.thread} of {row.resource}"
            found.append(found_at("index-missing", where, "The index does not find it.", reindex=row.resource))
    return found
