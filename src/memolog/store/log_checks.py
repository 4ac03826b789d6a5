"""The checks that need more than a query: how spans tile, what logs stand for, pairs, circles of tasks, missing documents.

Knows the invariants of logs and tasks. Reads, and says how to repair; changes nothing itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from memolog.domain.codec import loads
from memolog.domain.diagnosis import Finding, FindingKind
from memolog.search.texts import Redact
from memolog.store.checks import Found
from memolog.store.indexing import has_words
from memolog.store.sql import Row, Script, load_queries
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


def _found(kind: FindingKind, where: str, explanation: str, repair: Callable[[], Script[None]] | None = None) -> Found:
    finding = Finding(kind=kind, where=where, explanation=explanation, is_safe=repair is not None)
    return Found(finding=finding, repair=repair)


# ---------------------------------------------------------------- spans and cursors


def checking_spans(resource: str | None) -> Script[list[Found]]:
    """Check that spans tile what each log covers of each thread, up to its cursor, and that the others lie behind it."""
    spans: dict[tuple[int, int], list[Row]] = {}
    for row in (yield q.spans(resource=resource)):
        spans.setdefault((row[0], row[1]), []).append(row)
    found: list[Found] = []
    for cursor in (yield q.cursors(resource=resource)):
        found += _of_thread(cursor, spans.pop((cursor[0], cursor[1]), []))
    for (_, thread_pk), rows in spans.items():
        names = ", ".join(row[5] for row in rows[:_NAMED])
        found.append(_found("cursor", f"thread key {thread_pk}", f"No cursor says how far {names} cover it."))
    return found


def _of_thread(cursor: Row, rows: Sequence[Row]) -> Iterator[Found]:
    log_pk, thread_pk, seq, alias, thread, resource, last_seq = cursor
    where = f"thread {thread} of {resource}"
    inside = sorted((row for row in rows if row[4] in _IN_LOG), key=lambda row: row[2])
    ahead = sorted((row for row in rows if row[4] not in _IN_LOG), key=lambda row: row[2])
    end, is_whole = 0, True
    for _, _, first, last, _, handle, _ in inside:
        if first != end + 1:
            kind: FindingKind = "overlap" if first <= end else "coverage"
            what = "what is before it is covered already" if first <= end else f"nothing covers {end + 1}–{first - 1}"
            yield _found(kind, where, f"Group {handle} begins at message {first}, and {what}.")
            is_whole = False
        end = max(end, last)
    if end != seq and is_whole:
        text = f"The groups cover messages up to {end}, the cursor says {seq}: what is between is seen twice or not at all."
        yield _found("cursor", where, text, _moving(log_pk, thread_pk, end, alias))
    for _, _, first, last, state, handle, group_pk in ahead:
        if first <= end:
            repair = _voiding(group_pk) if state == "buffered" else None
            text = f"{handle} ({state}) is about messages {first}–{last}; up to {end} they have been observed already."
            yield _found("overlap", where, text, repair)
        end = max(end, last)
    if end > last_seq:
        yield _found("coverage", where, f"Spans reach message {end}, and the last one is {last_seq}.")


def _moving(log_pk: int, thread_pk: int, seq: int, alias: int) -> Callable[[], Script[None]]:
    def script() -> Script[None]:
        yield q.drop_cursor(log_pk=log_pk, thread_pk=thread_pk)
        yield q.put_cursor(log_pk=log_pk, thread_pk=thread_pk, seq=seq, alias=alias)

    return script


def _voiding(group_pk: int) -> Callable[[], Script[None]]:
    def script() -> Script[None]:
        yield q.void_group(key=group_pk)

    return script


# ---------------------------------------------------------------- what a log stands for


def checking_entries(resource: str | None) -> Script[list[Found]]:
    """Check that what each log lists stands for every group ever activated, each once."""
    groups: dict[int, dict[str, Row]] = {}
    for row in (yield q.log_groups(resource=resource)):
        groups.setdefault(row[0], {})[row[1]] = row
    stood_for: dict[int, Counter[str]] = {log_pk: Counter() for log_pk in groups}
    owners: dict[int, str] = {}
    found: list[Found] = []
    for log_pk, owner, name, handle, *_ in (yield q.listed(resource=resource)):
        owners[log_pk] = owner
        known = groups.get(log_pk, {})
        if name in known:
            leaves, lost = _leaves(known, name)
            stood_for[log_pk].update(leaves)
            if lost:
                found.append(_found("log-entry", f"group {handle} of {owner}", "It stands for groups that are gone."))
    for log_pk, counted in stood_for.items():
        where = f"a log of {owners.get(log_pk, 'a resource')}"
        for name, row in groups[log_pk].items():
            if row[3] == "observer" and row[4] in _IN_LOG and counted[name] != 1:
                times = "nothing in the log stands for it" if not counted[name] else "the log says it twice"
                found.append(_found("coverage", where, f"Group {row[2]} is {row[4]}, and {times}."))
    return found


def _leaves(groups: Mapping[str, Row], name: str) -> tuple[list[str], bool]:
    leaves, lost, todo = list[str](), False, [name]
    while todo:
        row = groups.get(todo.pop())
        if row is None:
            lost = True
        elif row[3] != "reflection":
            leaves.append(row[1])
        else:
            inputs: Mapping[str, Any] = loads(row[5]) if row[5] else {}
            todo += inputs.get("groups", [])
    return leaves, lost


# ---------------------------------------------------------------- pairs


def checking_pairs(resource: str | None) -> Script[list[Found]]:
    """Check that no span ends between a call and its result, unless somebody spoke in between."""
    ends: dict[int, list[tuple[int, str]]] = {}
    for row in (yield q.spans(resource=resource)):
        ends.setdefault(row[1], []).append((row[3], row[5]))
    found: list[Found] = []
    waiting: dict[str, int] = {}
    thread_pk = 0
    for thread, seq, role, state, pairs in (yield q.pairs(resource=resource)):
        if thread != thread_pk:
            waiting, thread_pk = dict[str, int](), thread
        told: tuple[Sequence[str], Sequence[str]] = loads(pairs) if pairs and state == "live" else ((), ())
        calls, results = told
        for call in results:
            first = waiting.pop(call, None)
            torn = [handle for end, handle in ends.get(thread, ()) if first is not None and first <= end < seq]
            found += [
                _found(
                    "pair",
                    f"group {handle}",
                    f"It ends between call {call} at message {first} and its result at {seq}.",
                )
                for handle in torn
            ]
        if role == "user" and not results:
            waiting.clear()
        for call in calls:
            waiting[call] = seq
    return found


# ---------------------------------------------------------------- tasks, tokens, index


def checking_tasks(resource: str | None) -> Script[list[Found]]:
    """Check that what is blocked says so, and that no task waits for itself."""
    found: list[Found] = []
    for pk, where, blocked in (yield q.blocked(resource=resource)):
        text = (
            "It counts as blocked, and nothing blocks it." if blocked else "It counts as free, and something blocks it."
        )
        found.append(_found("blocked", where, text, _settling(pk)))
    after: dict[int, set[int]] = {}
    names: dict[int, str] = {}
    for owner, source, target, source_pk, target_pk, other in (yield q.ordering_links(resource=resource)):
        if owner != other:
            found.append(_found("task-link", f"task {source} of {owner}", f"It is linked to {target} of {other}."))
            continue
        after.setdefault(source_pk, set()).add(target_pk)
        names |= {source_pk: f"task {source} of {owner}", target_pk: f"task {target} of {owner}"}
    circle = _in_circles(after)
    found += [_found("task-link", names[pk], "It waits for itself: its links form a circle.") for pk in circle]
    return found


def _settling(task_pk: int) -> Callable[[], Script[None]]:
    def script() -> Script[None]:
        yield from settling([task_pk])

    return script


def _in_circles(after: Mapping[int, set[int]]) -> list[int]:
    """Return what is left once everything that waits for nothing is taken away, from both ends, again and again."""
    left = {pk: set(targets) for pk, targets in after.items()}
    while True:
        aimed_at = {target for targets in left.values() for target in targets}
        kept = {pk: targets & left.keys() for pk, targets in left.items() if pk in aimed_at}
        kept = {pk: targets for pk, targets in kept.items() if targets}
        if kept == left:
            return sorted(left)
        left = kept


def checking_tokens(resource: str | None, count: Callable[[str], int]) -> Script[list[Found]]:
    """Check that groups with a text have a size, and those without have none."""
    found: list[Found] = []
    for pk, where, tokens, text in (yield q.group_tokens(resource=resource)):
        real = count(text) if text else 0
        found.append(
            _found("tokens", where, f"It counts for {tokens:,} tokens, and its text has {real:,}.", _sizing(pk, real))
        )
    return found


def _sizing(group_pk: int, tokens: int) -> Callable[[], Script[None]]:
    def script() -> Script[None]:
        yield q.fix_group_tokens(key=group_pk, tokens=tokens)

    return script


def checking_index(resource: str | None, redact: Redact) -> Script[list[Found]]:
    """Check that every message with a word in it can be found."""
    found: list[Found] = []
    for row in (yield q.unindexed(resource=resource)):
        if has_words(row[:11], redact):
            where = f"message {row[2]} of thread {row[12]} of {row[11]}"
            finding = Finding(
                kind="index-missing", where=where, explanation="The index does not find it.", is_safe=True
            )
            found.append(Found(finding=finding, reindex=row[11]))
    return found
