"""What must hold for every log at every moment, read from the rows themselves."""

import itertools
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from crash.survivors import select
from memolog.store import Store

__all__ = ["Rows", "check_log", "read_rows"]

_QUERIES = {
    "messages": """SELECT t.pk, t.id, m.seq, m.role, m.state, m.pairs, m.parts FROM messages m
        JOIN threads t ON t.pk = m.thread_pk ORDER BY t.pk, m.seq""",
    "threads": "SELECT pk, id, last_seq, hinted_seq FROM threads",
    "cursors": "SELECT log_pk, thread_pk, seq, alias FROM cursors",
    "logs": "SELECT pk, generation, failures FROM logs",
    "groups": """SELECT g.pk, g.id, g.log_pk, g.kind, g.state, g.thread_pk, g.first_seq, g.last_seq, g.text, r.inputs
        FROM groups g LEFT JOIN runs r ON r.pk = g.run_pk ORDER BY g.pk""",
    "runs": "SELECT log_pk, kind, status, thread_pk, first_seq, last_seq FROM runs",
    "entries": "SELECT log_pk, generation, position, group_pk FROM log_entries ORDER BY log_pk, generation, position",
    "observations": "SELECT pk, group_pk, state, text FROM observations",
    "sources": "SELECT observation_pk, thread_pk, first_seq, last_seq FROM observation_sources",
    "merges": "SELECT observation_pk, merged_pk FROM observation_merges",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A row of groups."""

    pk: int
    id: str
    log: int
    kind: str
    state: str
    thread: int | None
    first: int
    last: int
    text: str
    covers: tuple[str, ...]


@dataclass(slots=True, kw_only=True)
class Rows:
    """All rows of one moment."""

    tables: dict[str, list[tuple[Any, ...]]]
    groups: list[Group] = field(default_factory=list[Group])

    def __post_init__(self) -> None:
        for pk, id_, log, kind, state, thread, first, last, text, inputs in self.tables["groups"]:
            covers = tuple(json.loads(inputs).get("groups", ())) if inputs and kind == "reflection" else ()
            self.groups.append(
                Group(
                    pk=pk,
                    id=id_,
                    log=log,
                    kind=kind,
                    state=state,
                    thread=thread,
                    first=first or 0,
                    last=last or 0,
                    text=text,
                    covers=covers,
                )
            )


async def read_rows(store: Store) -> Rows:
    """Read every table that the invariants are about, on one snapshot."""
    answers = await select(store, *_QUERIES.values())
    return Rows(tables=dict(zip(_QUERIES, answers, strict=True)))


def check_log(rows: Rows, before: Rows | None) -> None:
    """Check all invariants; `before` is the moment of the last check."""
    _check_messages(rows, before)
    _check_cursors(rows, before)
    for log, generation, _ in rows.tables["logs"]:
        _check_spans(rows, log)
        _check_entries(rows, log, generation)
    _check_pairs(rows)
    _check_sources(rows)


def _check_messages(rows: Rows, before: Rows | None) -> None:
    """Numbers are dense, and what was saved never changes but for its state."""
    numbers: dict[int, list[int]] = {}
    for thread, _, seq, *_ in rows.tables["messages"]:
        numbers.setdefault(thread, []).append(seq)
    for thread, _, last_seq, _ in rows.tables["threads"]:
        assert numbers.get(thread, []) == list(range(1, last_seq + 1))
    if before is not None:
        now = {row[:3]: (row[3], row[6]) for row in rows.tables["messages"]}
        for row in before.tables["messages"]:
            assert now[row[:3]] == (row[3], row[6])


def _check_cursors(rows: Rows, before: Rows | None) -> None:
    """Cursors never go back, never pass the last message, and aliases never change."""
    last = {thread: seq for thread, _, seq, _ in rows.tables["threads"]}
    now = {row[:2]: row[2:] for row in rows.tables["cursors"]}
    for (_, thread), (seq, _) in now.items():
        assert 0 <= seq <= last[thread]
    for log, thread, seq, alias in before.tables["cursors"] if before else ():
        assert now[log, thread][0] >= seq
        assert now[log, thread][1] == alias


def _check_spans(rows: Rows, log: int) -> None:
    """Check that groups and runs never overlap; what is or was in the log tiles each thread up to its cursor."""
    for log_pk, thread, cursor, _ in rows.tables["cursors"]:
        if log_pk != log:
            continue
        groups = [
            g for g in rows.groups if (g.log, g.thread, g.kind) == (log, thread, "observer") and g.state != "void"
        ]
        runs = [
            (first, last)
            for run_log, kind, status, run_thread, first, last in rows.tables["runs"]
            if (run_log, run_thread, kind) == (log, thread, "observe") and status in {"running", "failed"}
        ]
        spans = sorted([(g.first, g.last) for g in groups] + runs)
        for (_, end), (start, _) in itertools.pairwise(spans):
            assert end < start, f"{spans} overlap"
        covered = sorted((g.first, g.last) for g in groups if g.state in {"active", "covered"})
        position = 0
        for first, last in covered:
            assert first == position + 1, f"a gap before {first} in {covered}"
            position = last
        assert position == cursor, f"{covered} do not end at the cursor {cursor}"


def _leaves(groups: dict[str, Group], group: Group) -> Iterable[str]:
    if group.kind != "reflection":
        yield group.id
    for name in group.covers:
        yield from _leaves(groups, groups[name])


def _check_entries(rows: Rows, log: int, generation: int) -> None:
    """Check that the present generation stands for every group ever activated, once, and that no other is active."""
    by_pk = {group.pk: group for group in rows.groups}
    by_id = {group.id: group for group in rows.groups}
    entries = [by_pk[pk] for log_pk, number, _, pk in rows.tables["entries"] if (log_pk, number) == (log, generation)]
    positions = [place for log_pk, number, place, _ in rows.tables["entries"] if (log_pk, number) == (log, generation)]
    assert positions == list(range(1, len(positions) + 1))
    assert {group.pk for group in entries} == {g.pk for g in rows.groups if g.log == log and g.state == "active"}
    leaves = [name for group in entries for name in _leaves(by_id, group)]
    expected = [g.id for g in rows.groups if g.log == log and g.kind == "observer" and g.state in {"active", "covered"}]
    assert sorted(leaves) == sorted(expected)


def _check_pairs(rows: Rows) -> None:
    """No span ends between a call and its result, unless somebody spoke in between."""
    messages: dict[int, list[tuple[Any, ...]]] = {}
    for row in rows.tables["messages"]:
        messages.setdefault(row[0], []).append(row)
    for group in rows.groups:
        if group.kind != "observer" or group.state == "void" or group.thread is None:
            continue
        waiting: set[str] = set()
        for _, _, seq, role, state, pairs, _ in messages[group.thread]:
            calls, results = json.loads(pairs) if pairs else ((), ())
            if role == "user":
                waiting.clear()
            if seq > group.last and state == "live":
                assert not waiting & set(results), f"a span ends at {group.last}, between a call and its result"
            waiting -= set(results)
            if state == "live" and seq <= group.last:
                waiting |= set(calls)


def _check_sources(rows: Rows) -> None:
    """Every line that counts names live messages of its span; a reflected line has the sources of what it merges."""
    by_pk = {group.pk: group for group in rows.groups}
    by_id = {group.id: group for group in rows.groups}
    dead = {(row[0], row[2]) for row in rows.tables["messages"] if row[4] != "live"}
    sources: dict[int, set[tuple[int, int]]] = {}
    for line, thread, first, last in rows.tables["sources"]:
        sources.setdefault(line, set()).update((thread, seq) for seq in range(first, last + 1))
    for line, group_pk, state, text in rows.tables["observations"]:
        group = by_pk[group_pk]
        if state != "active" or group.state != "active":
            continue
        assert text
        cited = sources.get(line, set())
        assert cited, f"{text} comes from nowhere"
        assert not cited & dead, f"{text} comes from what was taken back"
        spans = [by_id[name] for name in _leaves(by_id, group)]
        covered = {(leaf.thread, seq) for leaf in spans for seq in range(leaf.first, leaf.last + 1)}
        assert cited <= covered
    for line, merged in rows.tables["merges"]:
        assert sources.get(merged, set()) <= sources.get(line, set())
