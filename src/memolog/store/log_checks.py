"""Define the checks of the doctor that need more than a query: spans, log entries, pairs, cycles of tasks and the index."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from memolog.domain.codec import loads
from memolog.domain.diagnosis import FindingKind
from memolog.search.texts import Redact
from memolog.store.checks import Found, found_at
from memolog.store.indexing import has_words
from memolog.store.sql import Row, Script, Step, load_queries
from memolog.store.task_blocking import settling

__all__ = [
    "checking_entries",
    "checking_index",
    "checking_pairs",
    "checking_spans",
    "checking_tasks",
    "checking_tokens",
]

q = load_queries("doctor")

_IN_LOG = frozenset({"active", "covered"})
_NAMED = 12


# ---------------------------------------------------------------- spans and cursors


def checking_spans(resource: str | None) -> Script[list[Found]]:
    """Check that the spans of each thread in a log are contiguous up to its cursor, and that all others lie after it."""
    spans: dict[tuple[int, int], list[Row]] = {}
    for row in (yield q.spans(resource=resource)):
        spans.setdefault((row.log_pk, row.thread_pk), []).append(row)
    found: list[Found] = []
    for cursor in (yield q.cursors(resource=resource)):
        found += _of_thread(cursor, spans.pop((cursor.log_pk, cursor.thread_pk), []))
    for (_, thread_pk), rows in spans.items():
        names = ", ".join(row.handle for row in rows[:_NAMED])
        found.append(found_at("cursor", f"thread key {thread_pk}", f"No cursor says how far {names} cover it."))
    return found


def _of_thread(cursor: Row, rows: Sequence[Row]) -> Iterator[Found]:
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
        repair = _running(q.drop_cursor(**place), q.put_cursor(**place, seq=end, alias=cursor.alias))
        yield found_at("cursor", where, text, repair)
    for row in ahead:
        if row.first_seq <= end:
            repair = _running(q.void_group(key=row.pk)) if row.state == "buffered" else None
            text = (
                f"{row.handle} ({row.state}) covers messages {row.first_seq}–{row.last_seq}; {end} is covered already."
            )
            yield found_at("overlap", where, text, repair)
        end = max(end, row.last_seq)
    if end > cursor.last_seq:
        yield found_at("coverage", where, f"Spans reach message {end}, but the last one is {cursor.last_seq}.")


def _running(*steps: Step) -> Callable[[], Script[None]]:
    """Return a script of these steps."""

    def script() -> Script[None]:
        for step in steps:  # noqa: UP028 - a tuple cannot be sent rows
            yield step

    return script


# ---------------------------------------------------------------- what a log stands for


def checking_entries(resource: str | None) -> Script[list[Found]]:
    """Check that each log covers every group that was ever activated exactly once."""
    groups: dict[int, dict[str, Row]] = {}
    for row in (yield q.log_groups(resource=resource)):
        groups.setdefault(row.log_pk, {})[row.id] = row
    stood_for: dict[int, Counter[str]] = {log_pk: Counter() for log_pk in groups}
    owners: dict[int, str] = {}
    found: list[Found] = []
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


# ---------------------------------------------------------------- pairs


def checking_pairs(resource: str | None) -> Script[list[Found]]:
    """Check that no span ends between a call and its result, unless a user message is in between."""
    ends: dict[int, list[tuple[int, str]]] = {}
    for row in (yield q.spans(resource=resource)):
        ends.setdefault(row.thread_pk, []).append((row.last_seq, row.handle))
    found: list[Found] = []
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


# ---------------------------------------------------------------- tasks, tokens, index


def checking_tasks(resource: str | None) -> Script[list[Found]]:
    """Check the blocked column, and that no task waits for itself."""
    found: list[Found] = []
    for row in (yield q.blocked(resource=resource)):
        text = "It is marked as blocked, but nothing blocks it." if row.blocked else "It is blocked, but not marked so."
        found.append(found_at("blocked", row.place, text, _settling(row.key)))
    after: dict[int, set[int]] = {}
    names: dict[int, str] = {}
    for row in (yield q.ordering_links(resource=resource)):
        where = f"task {row.source} of {row.resource}"
        if row.resource != row.other:
            found.append(found_at("task-link", where, f"It is linked to {row.target} of {row.other}."))
            continue
        after.setdefault(row.source_pk, set()).add(row.target_pk)
        names |= {row.source_pk: where, row.target_pk: f"task {row.target} of {row.resource}"}
    circle = _in_circles(after)
    found += [found_at("task-link", names[pk], "It waits for itself: its links form a cycle.") for pk in circle]
    return found


def _settling(task_pk: int) -> Callable[[], Script[None]]:
    def script() -> Script[None]:
        yield from settling([task_pk])

    return script


def _in_circles(after: Mapping[int, set[int]]) -> list[int]:
    """Return the tasks of cycles: what remains after repeatedly removing tasks without predecessors or successors."""
    left = {pk: set(targets) for pk, targets in after.items()}
    while True:
        aimed_at = {target for targets in left.values() for target in targets}
        kept = {pk: targets & left.keys() for pk, targets in left.items() if pk in aimed_at}
        kept = {pk: targets for pk, targets in kept.items() if targets}
        if kept == left:
            return sorted(left)
        left = kept


def checking_tokens(resource: str | None, count: Callable[[str], int]) -> Script[list[Found]]:
    """Check that groups with a text have tokens, and those without have none."""
    found: list[Found] = []
    for row in (yield q.group_tokens(resource=resource)):
        real = count(row.text) if row.text else 0
        text = f"It counts as {row.tokens:,} tokens, but its text has {real:,}."
        repair = _running(q.fix_group_tokens(key=row.key, tokens=real))
        found.append(found_at("tokens", row.place, text, repair))
    return found


def checking_index(resource: str | None, redact: Redact) -> Script[list[Found]]:
    """Check that every message that contains a word is indexed."""
    found: list[Found] = []
    for row in (yield q.unindexed(resource=resource)):
        if has_words(row, redact):
            where = f"message {row.seq} of thread {row.thread} of {row.resource}"
            found.append(found_at("index-missing", where, "The index does not find it.", reindex=row.resource))
    return found
