"""Check the invariants of a database, and repair the violations that can be repaired safely.

Each check in the table `CHECKS` is one query for the rows that violate an invariant. The other checks are functions.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from memolog.core.config import Config
from memolog.core.exact_json import loads, pack
from memolog.core.progress import report
from memolog.core.reports import Finding, FindingKind, Report
from memolog.db.engine import TimedCalls, writes
from memolog.db.queries import Row, Script, Statement, Step, load_queries
from memolog.db.scope import check_optional_ids
from memolog.db.sqlite_files import copy_before_repair, damage_in, rebuild_indexes
from memolog.log.snapshot import GroupRow
from memolog.log.withdrawals import Render, rendering
from memolog.search.analysis import Redact
from memolog.search.index import has_words, line_has_words, resetting_index
from memolog.tasks.dependencies import settling
from memolog.text.redaction import for_the_index
from memolog.text.tokens import TokenCounter

if TYPE_CHECKING:
    from memolog.connection import Components

q = load_queries("admin/doctor")
due_queries = load_queries("log/due")
_YEAR_MICROS: Final = 365 * 24 * 3600 * 1_000_000
log_queries = load_queries("log/logs")
# The beginning of a group's text that does not depend on its observations: the thread's alias and the time since the last group.
_BEFORE: Final = re.compile(
    r'^(<(?:observations|reflection) id="[^"<>]*")(?: thread="t[0-9]+")?>\n'
    r"(?:\[(?:[0-9]+ )?(?:day|week|month|year)s? later\]\n)?"
)
_IN_LOG = frozenset({"active", "covered"})
_NAMED = 12
# Checks after those of the table `CHECKS`: spans and entries, tasks and tokens, the index, the texts of groups, and the file.
_MORE_CHECKS: Final = 5
_EXAMINED: Final = ("threads", "messages", "groups", "observations", "tasks", "documents of the index")


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """A finding and its repair: SQL steps, a task to update, or an index to rebuild."""

    finding: Finding
    repair: tuple[Step, ...] = ()
    task: int | None = None
    """The task whose blocked state must be computed again."""
    reindex: str | None = None
    """The resource whose index must be rebuilt."""


async def examine(
    components: Components, resource: str | None, config: Config, counter: TokenCounter, *, repair: bool
) -> Report:
    """Check the rows of one resource or of all resources, and the file. With `repair`, make the repairs that are safe."""
    doctor, redact = components.store.doctor, for_the_index(config)

    async def find() -> tuple[Diagnosis, ...]:
        rows = await doctor.examine(resource, count=counter.count, redact=redact, render=components.store.render)
        return *rows, *await _file_findings(components, config)

    found = await find()
    if not repair:
        return await doctor.report(resource, found, left=found)
    file, copy = components.store.engine.file, None
    if file is not None and found:
        stamp = components.clock.now().strftime("%Y%m%dT%H%M%S")
        copy = str(await asyncio.to_thread(copy_before_repair, file, stamp))
    await doctor.repair(found)
    components.store.empty_caches()
    if file is not None:
        await asyncio.to_thread(rebuild_indexes, file, timeout=config.busy_timeout)
    for name in (resource,) if resource is not None else await components.store.resources():
        await components.store.indexing.catch_up(name, redact)
    return replace(await doctor.report(resource, found, await find()), copy=copy, index_rebuilt=True)


class Doctor(TimedCalls):
    """Examines one resource, or the whole database."""

    async def examine(
        self, resource: str | None, *, count: Callable[[str], int], redact: Redact, render: Render
    ) -> tuple[Diagnosis, ...]:
        """Return all violations of invariants in the rows, as of one moment."""
        check_optional_ids(resource=resource)
        now = self._now()

        def script() -> Script[tuple[Diagnosis, ...]]:
            found = yield from checking_logs(resource, now)
            report("checks", len(CHECKS) + 1, len(CHECKS) + _MORE_CHECKS)
            found += _check_tasks((yield q.blocked(resource=resource)), (yield q.ordering_links(resource=resource)))
            found += _check_tokens((yield q.group_tokens(resource=resource)), count)
            report("checks", len(CHECKS) + 2, len(CHECKS) + _MORE_CHECKS)
            found += _check_index((yield q.unindexed(resource=resource)), redact)
            found += _check_lines((yield q.unindexed_lines(resource=resource)), redact)
            report("checks", len(CHECKS) + 3, len(CHECKS) + _MORE_CHECKS)
            for row in (yield q.rendered(resource=resource)):
                found += _check_rendering(row, *(yield from rendering(row.log_pk, row.id, render)))
            return tuple(found)

        return await self.engine.read(script, brief=False)

    @writes("doctor.repair")
    def repair(self, found: Sequence[Diagnosis]) -> Script[None]:
        """Make all safe repairs, in one transaction."""
        for step in [step for one in found for step in one.repair]:  # noqa: UP028 - `yield from` cannot send rows to a list
            yield step
        yield from settling(one.task for one in found if one.task is not None)
        for resource in sorted({one.reindex for one in found if one.reindex is not None}):
            yield from resetting_index(resource)

    async def report(self, resource: str | None, found: Sequence[Diagnosis], left: Sequence[Diagnosis] = ()) -> Report:
        """Return a report of `found`. `left` has the findings after a repair. Safe findings that it lacks count as repaired."""
        *rows, not_indexed = map(int, (await self.engine.fetch(q.examined(resource=resource), tuple[int, ...]))[0])
        still = {replace(one.finding, is_safe=True) for one in left}
        findings = tuple(
            replace(one.finding, repaired=one.finding.is_safe and one.finding not in still) for one in found
        )
        examined = tuple(zip(_EXAMINED, rows, strict=True))
        return Report(findings=findings, examined=examined, not_indexed=not_indexed)


@dataclass(frozen=True, slots=True)
class Check:
    """One invariant: the query for the rows that violate it, an explanation, and the statement that repairs a row.

    The query returns a key, a place for the report, and the columns that the explanation and the repair use.
    """

    kind: FindingKind
    look: Statement
    explain: str
    repair: Statement | None = None
    is_safe: Callable[[Row], bool] = bool
    reindexes: bool = False
    """Whether the repair is to rebuild the index of the resource."""


def found_at(
    kind: FindingKind,
    where: str,
    explanation: str,
    *repair: Step,
    task: int | None = None,
    reindex: str | None = None,
    is_safe: bool = False,
) -> Diagnosis:
    """Return a finding. It is safe to repair if a repair is passed."""
    is_safe = is_safe or bool(repair) or task is not None or reindex is not None
    finding = Finding(kind=kind, where=where, explanation=explanation, is_safe=is_safe)
    return Diagnosis(finding=finding, repair=repair, task=task, reindex=reindex)


async def _file_findings(components: Components, config: Config) -> Sequence[Diagnosis]:
    file = components.store.engine.file
    if file is None:
        return ()
    report("checks", len(CHECKS) + 4, len(CHECKS) + _MORE_CHECKS)
    broken, indexes = await asyncio.to_thread(damage_in, file, timeout=config.busy_timeout, read_only=config.read_only)
    damage = "SQLite reports: {}. Restore a backup, or use the .recover command of sqlite3."
    words = "The full-text index does not match its documents ({}), so searches miss some of them."
    return [
        *(found_at("damage", file, damage.format(line)) for line in broken),
        # With `repair`, these indexes are always rebuilt.
        *(found_at("index-word", file, words.format(line), is_safe=True) for line in indexes),
    ]


def checking_logs(resource: str | None, now: int) -> Script[list[Diagnosis]]:
    """Return the findings of `CHECKS`, and of the checks of spans, log entries and tool calls."""
    found: list[Diagnosis] = []
    for number, check in enumerate(CHECKS):
        report("checks", number, len(CHECKS) + _MORE_CHECKS)
        found += yield from _checking(check, resource, now)
    spans = yield q.spans(resource=resource)
    found += _check_spans(spans, (yield q.cursors(resource=resource)))
    found += _check_entries((yield q.log_groups(resource=resource)), (yield q.listed(resource=resource)))
    found += _check_pairs(spans, (yield q.pairs(resource=resource)))
    return found


def _checking(check: Check, resource: str | None, now: int) -> Script[list[Diagnosis]]:
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
        "The last message should be {last_seq}, but the thread has {messages} rows, and the last one is {newest}.",
        q.fix_sequence,
        # If rows at the end are missing, `last_seq` stays, because their numbers must not be used again.
        is_safe=lambda row: row.messages == row.newest > row.last_seq,
    ),
    Check("forgotten-text", q.tombstones, "The message was forgotten but still has text.", q.fix_tombstone),
    Check("forgotten-text", q.deleted_lines, "The observation was deleted but still has text.", q.fix_deleted_line),
    Check(
        "dead-source",
        q.dead_sources,
        "The observation is shown, but one of its source messages was withdrawn or forgotten. Retract or delete it.",
    ),
    Check("provenance", q.no_sources, "The observation has no source message."),
    Check(
        "provenance",
        q.strange_sources,
        "Source messages of the observation are missing, or are not in the span of its group.",
    ),
    Check(
        "count",
        q.line_counts,
        "The stored number of observations is {observations}, but the group has {counted}.",
        q.fix_line_count,
    ),
    Check("tokens", q.message_tokens, "The message has content but 0 tokens, so contexts are larger than reported."),
    Check(
        "version",
        q.generations,
        "The log is at generation {generation}, but the newest generation is {newest}.",
        q.fix_generation,
        is_safe=lambda row: row.newest >= 0,
    ),
    Check("log-entry", q.unlisted, "The group is active but not part of the log, so it is not shown.", q.fix_unlisted),
    Check("log-entry", q.wrongly_listed, "The group is part of the log, but its state is {state}."),
    Check("run", q.unmade, "The run that made the group is {status}, not done."),
    Check(
        "lease",
        q.endless_runs,
        "The lease ends in more than a year. If the owner has crashed, no other process takes the run over until then.",
        q.fix_endless_run,
    ),
    Check(
        "lease",
        q.endless_leases,
        "The lease ends in more than a year. If the owner has crashed, no other owner can acquire it until then.",
        q.fix_lease,
    ),
    Check("lease", q.idle_leases, "The lease is for a task that is closed or missing.", q.fix_lease),
    Check(
        "hints",
        q.hints,
        "The hints are from message {hinted_seq}, but the last message is {last_seq}, so newer hints would be refused.",
        q.fix_hints,
    ),
    Check("alias", q.aliases, "The alias t{alias} of the thread is not valid.", q.fix_alias),
    Check(
        "alias",
        q.foreign_cursors,
        "The thread belongs to {resource} or has its own log, so this log must not cover it.",
    ),
    Check(
        "task-link",
        q.handles_given,
        "{tasks} tasks have handles, but the last handle is recorded as {last_handle}, so a handle would be used twice.",
    ),
    Check(
        "working-memory",
        q.documents,
        "The document is at version {version}, but {versions} versions are stored, and the last one is {newest}.",
        q.fix_document,
        is_safe=lambda row: row.versions == row.newest > 0,
    ),
    Check("orphan", q.lost_lines, "The group of the observation does not exist."),
    Check("orphan", q.lost_messages, "The thread of the message does not exist."),
    Check("orphan", q.lost_entries, "The log contains a group that does not exist.", q.fix_lost_entry),
    Check("orphan", q.lost_links, "The task or the message of the link does not exist.", q.fix_lost_link),
    Check("orphan", q.lost_prompts, "The run of the stored prompt does not exist.", q.fix_lost_prompt),
    Check(
        "index-extra",
        q.stale_docs,
        "The index contains a document that was deleted or withdrawn, or is internal.",
        reindexes=True,
    ),
    Check(
        "index-stats",
        q.wrong_stats,
        "The index counts {documents} documents, but has {counted}, so the order of search results may be wrong.",
        reindexes=True,
    ),
    Check(
        "index-stats",
        q.wrong_counts,
        "The index has wrong counts of {terms} terms, so common words may be taken for rare ones.",
        reindexes=True,
    ),
    Check(
        "index-behind",
        q.unwatched,
        "Some messages of the thread are not indexed and not queued for indexing.",
        reindexes=True,
    ),
    Check(
        "vector",
        q.stale_vectors,
        "The vector is of a text that was deleted or withdrawn, or does not have {dimension} dimensions.",
        q.fix_stale_vector,
        reindexes=True,
    ),
    Check(
        "vector",
        q.missing_vectors,
        "The text has no vector of {embedder} and is not queued for one, so that it is found by its words only.",
        q.fix_missing_vector,
    ),
)


def _check_rendering(row: Row, group: GroupRow, rendered: str, tokens: int) -> Iterator[Diagnosis]:
    """Check that the stored text of a group matches its observations. Contexts contain this text."""
    if not matches_rendering(group.text, rendered):
        text = "The stored text of the group does not match its observations. Models get the stored text."
        set_text = log_queries.set_group_text(group_pk=group.pk, text=pack(rendered), tokens=tokens)
        yield found_at("rendering", row.place, text, set_text, q.touch_log_of(key=group.pk))


def matches_rendering(text: str, rendered: str) -> bool:
    """Return whether two texts of a group are equal, except for the parts that depend on the log."""
    return text == rendered or _without_context(text) == _without_context(rendered)


def _without_context(text: str) -> str:
    return _BEFORE.sub(r"\1>\n", text)


def _check_spans(groups: Sequence[Row], cursors: Sequence[Row]) -> Iterator[Diagnosis]:
    """Check that the spans in the log have no gaps up to each thread's cursor, and that all other spans are after the cursor."""
    spans: dict[tuple[int, int], list[Row]] = {}
    for row in groups:
        spans.setdefault((row.log_pk, row.thread_pk), []).append(row)
    for cursor in cursors:
        yield from _span_findings(cursor, spans.pop((cursor.log_pk, cursor.thread_pk), []))
    for (_, thread_pk), rows in spans.items():
        names = ", ".join(row.handle for row in rows[:_NAMED])
        text = f"The log covers the thread with {names}, but has no cursor for it."
        yield found_at("cursor", f"thread key {thread_pk}", text)


def _span_findings(cursor: Row, rows: Sequence[Row]) -> Iterator[Diagnosis]:
    where = f"thread {cursor.thread} of {cursor.resource}"
    inside = sorted((row for row in rows if row.state in _IN_LOG), key=lambda row: row.first_seq)
    ahead = sorted((row for row in rows if row.state not in _IN_LOG), key=lambda row: row.first_seq)
    end, is_whole = 0, True
    for row in inside:
        first = row.first_seq
        if first != end + 1:
            kind: FindingKind = "overlap" if first <= end else "coverage"
            what = "earlier groups cover this message" if first <= end else f"nothing covers {end + 1}–{first - 1}"
            yield found_at(kind, where, f"Group {row.handle} begins at message {first}, and {what}.")
            is_whole = False
        end = max(end, row.last_seq)
    if end != cursor.seq and is_whole:
        text = f"The groups cover messages up to {end}, but the cursor is at {cursor.seq}."
        place = {"log_pk": cursor.log_pk, "thread_pk": cursor.thread_pk}
        put = q.put_cursor(**place, seq=end, alias=cursor.alias)
        look_again = due_queries.look_again(thread_pk=cursor.thread_pk)
        yield found_at("cursor", where, text, q.drop_cursor(**place), put, look_again)
    for row in ahead:
        if row.first_seq <= end:
            repair = [q.void_group(key=row.pk)] if row.state == "buffered" else []
            text = (
                f"{row.handle} ({row.state}) covers messages {row.first_seq}–{row.last_seq}, "
                f"but other groups already cover messages up to {end}."
            )
            yield found_at("overlap", where, text, *repair)
        end = max(end, row.last_seq)
    if end > cursor.last_seq:
        yield found_at("coverage", where, f"Spans reach message {end}, but the last message is {cursor.last_seq}.")


def _check_entries(rows: Sequence[Row], listed: Sequence[Row]) -> Iterator[Diagnosis]:
    """Check that the log contains every activated group exactly once, either itself or through one reflection."""
    groups: dict[int, dict[str, Row]] = {}
    for row in rows:
        groups.setdefault(row.log_pk, {})[row.id] = row
    represented: dict[int, Counter[str]] = {log_pk: Counter() for log_pk in groups}
    owners: dict[int, str] = {}
    for row in listed:
        owners[row.pk] = row.resource
        known = groups.get(row.pk, {})
        if row.id in known:
            leaves, lost = _leaves(known, row.id)
            represented[row.pk].update(leaves)
            if lost:
                where = f"group {row.handle} of {row.resource}"
                yield found_at("log-entry", where, "The reflection replaced groups that do not exist.")
    for log_pk, counted in represented.items():
        where = f"a log of {owners.get(log_pk, 'a resource')}"
        for name, row in groups[log_pk].items():
            if row.kind == "observer" and row.state in _IN_LOG and counted[name] != 1:
                times = "the log does not contain it" if not counted[name] else "the log contains it more than once"
                yield found_at("coverage", where, f"Group {row.handle} is {row.state}, but {times}.")


def _leaves(groups: Mapping[str, Row], name: str) -> tuple[list[str], bool]:
    """Return the ids of the observed groups that a group was reflected from, and whether some group is missing."""
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


def _check_pairs(spans: Sequence[Row], rows: Sequence[Row]) -> Iterator[Diagnosis]:
    """Check that no span ends between a tool call and its result, unless a user message is between them."""
    ends: dict[int, list[tuple[int, str]]] = {}
    for row in spans:
        ends.setdefault(row.thread_pk, []).append((row.last_seq, row.handle))
    waiting: dict[str, int] = {}
    thread_pk = 0
    for row in rows:
        if row.thread_pk != thread_pk:
            waiting, thread_pk = dict[str, int](), row.thread_pk
        pairs: tuple[Sequence[str], Sequence[str]] = loads(row.pairs) if row.pairs and row.state == "live" else ((), ())
        calls, results = pairs
        for call in results:
            first = waiting.pop(call, None)
            torn = [handle for end, handle in ends.get(thread_pk, ()) if first is not None and first <= end < row.seq]
            text = f"The group ends between the tool call {call} (message {first}) and its result (message {row.seq})."
            yield from (found_at("pair", f"group {handle}", text) for handle in torn)
        if row.role == "user" and not results:
            waiting.clear()
        for call in calls:
            waiting[call] = row.seq


def _check_tasks(blocked: Sequence[Row], links: Sequence[Row]) -> Iterator[Diagnosis]:
    """Check the column `blocked`, and that the links between tasks stay in one resource and form no cycle."""
    for row in blocked:
        problem = "marked as blocked, but nothing blocks it" if row.blocked else "blocked, but not marked as blocked"
        yield found_at("blocked", row.place, f"The task is {problem}.", task=row.key)
    after: dict[int, set[int]] = {}
    names: dict[int, str] = {}
    for row in links:
        where = f"task {row.source} of {row.resource}"
        if row.resource == row.other:
            after.setdefault(row.source_pk, set()).add(row.target_pk)
            names |= {row.source_pk: where, row.target_pk: f"task {row.target} of {row.resource}"}
        else:
            text = f"The task is linked to {row.target} of another resource, {row.other}."
            yield found_at("task-link", where, text)
    for pk in _tasks_in_cycles(after):
        yield found_at("task-link", names[pk], "The task is in a cycle of links, or between two cycles.")


def _tasks_in_cycles(after: Mapping[int, set[int]]) -> list[int]:
    """Return the tasks that are in a cycle or on a path between two cycles. Repeatedly remove tasks without links on one side."""
    left = {pk: set(targets) for pk, targets in after.items()}
    while True:
        aimed_at = {target for targets in left.values() for target in targets}
        kept = {pk: targets & left.keys() for pk, targets in left.items() if pk in aimed_at}
        kept = {pk: targets for pk, targets in kept.items() if targets}
        if kept == left:
            return sorted(left)
        left = kept


def _check_tokens(groups: Sequence[Row], count: Callable[[str], int]) -> Iterator[Diagnosis]:
    """Check that groups with a text have tokens, and that groups without a text have none."""
    for row in groups:
        real = count(row.text) if row.text else 0
        text = f"The stored number of tokens is {row.tokens:,}, but the text of the group has {real:,}."
        yield found_at("tokens", row.place, text, q.fix_group_tokens(key=row.key, tokens=real))


def _check_index(unindexed: Sequence[Row], redact: Redact) -> Iterator[Diagnosis]:
    """Check that every message that contains a word is indexed."""
    for row in unindexed:
        if has_words(row, redact):
            where = f"message {row.seq} of thread {row.thread} of {row.resource}"
            yield found_at("index-missing", where, "The message is not in the index.", reindex=row.resource)


def _check_lines(unindexed: Sequence[Row], redact: Redact) -> Iterator[Diagnosis]:
    """Check that every observation of the log that contains a word is indexed."""
    for row in unindexed:
        if line_has_words(row, redact):
            where = f"observation {row.handle} of {row.resource}"
            yield found_at("index-missing", where, "The observation is not in the index.", reindex=row.resource)
