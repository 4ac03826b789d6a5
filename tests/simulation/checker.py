"""Check the invariants by reading the database with plain SQL.

Each check reads one snapshot on its own connection, and compares it with the messages that were offered and acknowledged
(`Expected`). Rows that never change are checked once. A full check reads everything again.
"""

import json
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from memolog.core.message import NewMessage, parts_to_json
from memolog.messages.store import Saved
from simulation.model import MARKER, MARKERS

Row = tuple[Any, ...]

_LIVE_GROUPS = ("buffered", "active", "covered")


RowKey = tuple[str, str, str, int]


@dataclass(slots=True)
class Offered:
    """A message as it was handed in, with all the parts it has grown to."""

    resource: str
    thread: str
    role: str
    parts: list[Any]


@dataclass(slots=True)
class Expected:
    """What was offered and what was acknowledged."""

    offered: dict[str, Offered] = field(default_factory=dict[str, Offered])
    acknowledged: set[RowKey] = field(default_factory=set[RowKey])
    unseen: set[RowKey] = field(default_factory=set[RowKey])
    """Acknowledged since the last check."""
    of_marker: dict[str, str] = field(default_factory=dict[str, str])
    """The message that each marker stands in."""

    def offer(self, resource: str, thread: str, messages: Iterable[NewMessage]) -> None:
        """Note what is handed in."""
        for message in messages:
            text = parts_to_json(message.parts)
            parts = json.loads(text)
            self.of_marker.update(dict.fromkeys(MARKER.findall(text), message.id or ""))
            known = self.offered.get(message.id or "")
            if known is None or len(known.parts) < len(parts):
                self.offered[message.id or ""] = Offered(resource, thread, message.role, parts)

    def acknowledge(self, saved: Saved) -> None:
        """Note what was committed."""
        rows = {(row.resource, row.thread, row.id, row.continuation) for row in saved.messages}
        self.acknowledged |= rows
        self.unseen |= rows

    def is_known(self, resource: str, thread: str, message: str) -> bool:
        """Return whether a message was acknowledged before."""
        return any((resource, thread, message, n) in self.acknowledged for n in (0, 1))

    def delete(self, resource: str, thread: str) -> None:
        """Note that a thread is gone."""
        gone = {row for row in self.acknowledged if row[:2] == (resource, thread)}
        self.acknowledged -= gone
        self.unseen -= gone

    def leak(self, resource: str, text: str) -> str | None:
        """Return the word of another resource in a text, if there is one."""
        own = MARKERS[int(resource[1:])]
        return next((word for word in MARKERS if word != own and word in text), None)


class Broken(AssertionError):
    """Something that must always hold does not."""


@dataclass(frozen=True, slots=True)
class Group:
    """A group's row."""

    pk: int
    id: str
    kind: str
    state: str
    thread: int | None
    first: int | None
    last: int | None
    run: int | None
    handle: str
    has_text: bool


@dataclass(slots=True)
class _Known:
    """What earlier checks have seen."""

    messages: int = 0
    observations: int = 0
    cursors: dict[tuple[int, int], int] = field(default_factory=dict[tuple[int, int], int])
    boundaries: set[tuple[int, int, int]] = field(default_factory=set[tuple[int, int, int]])
    logs: dict[int, Row] = field(default_factory=dict[int, Row])
    parts: Counter[tuple[int, str]] = field(default_factory=Counter[tuple[int, str]])
    withdrawn: Row = ()


class Checker:
    """Reads one database again and again."""

    def __init__(self, path: str, expected: Expected) -> None:
        self._db = sqlite3.connect(f"file:{path}?mode=ro", uri=True, isolation_level=None, cached_statements=64)
        self._expected = expected
        self._known = _Known()
        self._version = -1
        self._gone = 0
        self._covers: dict[int, tuple[str, ...]] = {}
        self.checks = 0

    def close(self) -> None:
        """Let go of the database."""
        self._db.close()

    def start_over(self) -> None:
        """Look at all rows again: some were deleted, and their keys may be given to others."""
        self._known = _Known(cursors=self._known.cursors, boundaries=self._known.boundaries)
        self._version = -1
        self._covers.clear()

    def rows(self, query: str, *values: object) -> list[Row]:
        """Return the rows of a query."""
        return self._db.execute(query, values).fetchall()

    def check(self, *, full: bool = False) -> None:
        """Check all that may have changed since the last time; with `full`, everything. Raises Broken."""
        version = self.rows("PRAGMA data_version")[0][0]
        if version == self._version and not full:
            return
        self._version = version
        self.checks += 1
        if full:
            self.start_over()
        self._db.execute("BEGIN")
        try:
            self._check_sequences()
            self._check_messages()
            self._check_cursors()
            for log in self.rows("SELECT pk, resource, thread_pk, version, generation FROM logs"):
                runs = self.rows("SELECT COUNT(*), SUM(fence) FROM runs WHERE log_pk = ?", log[0])
                if self._known.logs.get(log[0]) != (*log, *runs):
                    self._known.logs[log[0]] = (*log, *runs)
                    self._check_log(log[0], log[4])
            self._check_observations()
            self._check_withdrawn()
        finally:
            self._db.execute("ROLLBACK")

    # ------------------------------------------------------------ messages

    def _check_sequences(self) -> None:
        for thread, last, count, least, most in self.rows(
            "SELECT t.pk, t.last_seq, COUNT(m.pk), COALESCE(MIN(m.seq), 1), COALESCE(MAX(m.seq), 0) "
            "FROM threads t LEFT JOIN messages m ON m.thread_pk = t.pk GROUP BY t.pk"
        ):
            if (count, least, most) != (last, 1, last):
                raise Broken(f"thread {thread}: {count} rows from {least} to {most}, the last number is {last}")

    def _check_messages(self) -> None:
        """Check that every row is exactly a message that was offered, and that acknowledged messages are stored."""
        known = self._known
        found: set[tuple[str, str, str, int]] = set()
        rewound = {row[0] for row in self.rows("SELECT thread_pk FROM branches")}
        for pk, thread_pk, resource, thread, message, continuation, role, parts in self.rows(
            "SELECT m.pk, m.thread_pk, t.resource, t.id, m.id, m.continuation, m.role, m.parts "
            "FROM messages m JOIN threads t ON t.pk = m.thread_pk WHERE m.pk > ? ORDER BY m.pk",
            known.messages,
        ):
            offered = self._expected.offered.get(message)
            if offered is None or (offered.resource, offered.thread, offered.role) != (resource, thread, role):
                raise Broken(f"row {pk} of {resource}/{thread} ({message}, {role}) was never offered")
            stored = json.loads(parts)
            start = known.parts[thread_pk, message]
            if start and thread_pk in rewound and not self._is_live(thread_pk, message, parts, pk):
                # The message was withdrawn. Its branch was restored, or its turn handed it in again.
                start = next((n for n in range(start) if offered.parts[n : n + len(stored)] == stored), start)
            elif (continuation == 0) != (start == 0):
                raise Broken(f"message {message} is not continued")
            if offered.parts[start : start + len(stored)] != stored:
                raise Broken(f"message {message} is not what was offered: {parts[:200]}")
            known.parts[thread_pk, message] = start + len(stored)
            known.messages = pk
            found.add((resource, thread, message, continuation))
        missing = self._expected.unseen - found
        self._expected.unseen.clear()
        if missing and not self._are_stored(missing):
            raise Broken(f"acknowledged and not there: {sorted(missing)[:5]}")

    def _is_live(self, thread_pk: int, message: str, parts: str, pk: int) -> bool:
        """Return whether an earlier row of a message with the same parts is live."""
        query = "SELECT 1 FROM messages WHERE thread_pk = ? AND id = ? AND parts = ? AND pk < ? AND state = 'live'"
        return bool(self.rows(query, thread_pk, message, parts, pk))

    def _are_stored(self, rows: Iterable[tuple[str, str, str, int]]) -> bool:
        query = (
            "SELECT 1 FROM messages m JOIN threads t ON t.pk = m.thread_pk "
            "WHERE t.resource = ? AND t.id = ? AND m.id = ? AND m.continuation = ?"
        )
        return all(self.rows(query, *row) for row in rows)

    def check_acknowledged(self) -> None:
        """Check that every row that was ever acknowledged, and not deleted since, is there."""
        stored = set(
            self.rows(
                "SELECT t.resource, t.id, m.id, m.continuation FROM messages m JOIN threads t ON t.pk = m.thread_pk"
            )
        )
        if missing := self._expected.acknowledged - stored:
            raise Broken(f"acknowledged and lost: {sorted(missing)[:5]}")

    def _check_cursors(self) -> None:
        found = {(log, thread): seq for log, thread, seq in self.rows("SELECT log_pk, thread_pk, seq FROM cursors")}
        for key, seq in self._known.cursors.items():
            if key in found and found[key] < seq:
                raise Broken(f"the cursor of log {key[0]}, thread {key[1]} went back from {seq} to {found[key]}")
        self._known.cursors = found

    # ------------------------------------------------------------ logs

    def groups(self, log: int) -> list[Group]:
        """Return every group of a log."""
        query = (
            "SELECT pk, id, kind, state, thread_pk, first_seq, last_seq, run_pk, handle, text <> '' "
            "FROM groups WHERE log_pk = ? ORDER BY first_seq"
        )
        return [Group(*row) for row in self.rows(query, log)]

    def _check_log(self, log: int, generation: int) -> None:
        groups = self.groups(log)
        runs = self.rows(
            "SELECT pk, id, kind, status, thread_pk, first_seq, last_seq FROM runs WHERE log_pk = ? ORDER BY first_seq",
            log,
        )
        self._check_spans(log, groups, runs)
        self._check_runs(groups, runs)
        self._check_entries(log, generation, groups)

    def _check_spans(self, log: int, groups: list[Group], runs: list[Row]) -> None:
        """Check that covered spans tile what is before the cursor, and that all others lie behind it, side by side."""
        cursors = {thread: seq for (of, thread), seq in self._known.cursors.items() if of == log}
        observers = [group for group in groups if group.kind == "observer" and group.state in _LIVE_GROUPS]
        under_way = [run for run in runs if run[2] == "observe" and run[3] in {"running", "failed"}]
        lasts: dict[int, int] = dict(self.rows("SELECT pk, last_seq FROM threads"))
        for thread in sorted({g.thread for g in observers if g.thread} | {run[4] for run in under_way} | set(cursors)):
            cursor = cursors.get(thread, 0)
            end = 0
            mine = [group for group in observers if group.thread == thread]
            for group in (group for group in mine if group.state != "buffered"):
                if group.first != end + 1:
                    raise Broken(f"log {log}, thread {thread}: a covered span begins at {group.first} after {end}")
                end = group.last or 0
            if end != cursor:
                raise Broken(f"log {log}, thread {thread}: covered up to {end}, the cursor is at {cursor}")
            ahead = [(group.first or 0, group.last or 0) for group in mine if group.state == "buffered"]
            ahead += [(run[5], run[6]) for run in under_way if run[4] == thread]
            for first, last in sorted(ahead):
                if first <= end:
                    raise Broken(f"log {log}, thread {thread}: span {first}–{last} overlaps what ends at {end}")
                end = last
            if end > lasts[thread]:
                raise Broken(f"log {log}, thread {thread}: spans reach {end}, the last message is {lasts[thread]}")
            firsts = {group.first or 0 for group in mine} | {first for first, _ in ahead}
            self._check_boundaries(
                log, thread, firsts, {group.last or 0 for group in mine} | {last for _, last in ahead}
            )

    def _check_boundaries(self, log: int, thread: int, firsts: set[int], ends: set[int]) -> None:
        """No span ends between a call and its result; each end is looked at when it is first seen."""
        fresh = {end for end in ends if (log, thread, end) not in self._known.boundaries}
        if not fresh:
            return
        # What an earlier boundary has separated, when that was right, no later one separates again.
        earlier = {end for of, at, end in self._known.boundaries if (of, at) == (log, thread)}
        self._known.boundaries |= {(log, thread, end) for end in fresh}
        rows = self.rows("SELECT seq, role, pairs, state FROM messages WHERE thread_pk = ? ORDER BY seq", thread)
        # A span may have been cut before something was withdrawn; and what fills a hole ends where the hole does.
        is_new = self.rows("SELECT COUNT(*) FROM messages WHERE state = 'withdrawn'")[0][0] != self._gone
        torn, torn_by_gone = list(_torn(rows, is_strict=False)), list(_torn(rows, is_strict=True))
        for end in fresh:
            for call, first, last in torn if is_new or end + 1 in firsts else torn_by_gone:
                is_separate = any(first <= other < end for other in earlier)
                if first <= end and (last is None or end < last) and not is_separate:
                    raise Broken(
                        f"log {log}, thread {thread}: a span ends at {end}, inside call {call} ({first}–{last})"
                    )

    def _check_runs(self, groups: list[Group], runs: list[Row]) -> None:
        """Every group comes from one run that is done and has its span; every done run has its group."""
        by_pk = {run[0]: run for run in runs}
        made: set[int] = set()
        for group in groups:
            run = by_pk.get(group.run or 0)
            if run is None or run[3] != "done":
                raise Broken(f"group {group.handle} ({group.state}) has the run {run}")
            if (run[4], run[5], run[6]) != (group.thread, group.first, group.last) or run[0] in made:
                raise Broken(f"group {group.handle} and its run {run[1]} disagree")
            made.add(run[0])
        for run in runs:
            if run[3] == "done" and run[0] not in made:
                raise Broken(f"run {run[1]} is done and made no group")

    def _check_entries(self, log: int, generation: int, groups: list[Group]) -> None:
        """Check that what the log lists stands for every covered group, each once."""
        by_id = {group.id: group for group in groups}
        by_pk = {group.pk: group for group in groups}
        entries = [
            by_pk[row[0]]
            for row in self.rows(
                "SELECT group_pk FROM log_entries WHERE log_pk = ? AND generation = ? ORDER BY position",
                log,
                generation,
            )
        ]
        stood_for: Counter[str] = Counter()
        for entry in entries:
            if entry.state != "active":
                raise Broken(f"log {log} lists {entry.handle}, which is {entry.state}")
            for group in self.leaves(entry, by_id):
                stood_for[group.id] += 1
                if group is not entry and group.state != "covered":
                    raise Broken(f"{group.handle} is inside reflection {entry.handle} and is {group.state}")
        wanted = {g.id for g in groups if g.kind == "observer" and g.state in {"active", "covered"}}
        if set(stood_for) != wanted or any(count != 1 for count in stood_for.values()):
            lost = sorted(by_id[name].handle for name in wanted - set(stood_for))
            extra = sorted(by_id[name].handle for name, count in stood_for.items() if count > 1 or name not in wanted)
            raise Broken(f"log {log}, generation {generation}: lost {lost}, twice or without right {extra}")

    def leaves(self, group: Group, by_id: dict[str, Group], *, is_past: bool = False) -> Iterator[Group]:
        """Yield the observer groups that a group stands for, through every reflection.

        What stood in the log in the past may have gone with its thread.
        """
        if group.kind == "observer":
            yield group
            return
        if group.pk not in self._covers:
            inputs = self.rows("SELECT inputs FROM runs WHERE pk = ?", group.run)[0][0]
            self._covers[group.pk] = tuple(json.loads(inputs)["groups"])
        for name in self._covers[group.pk]:
            if name not in by_id and is_past:
                continue
            if name not in by_id:
                raise Broken(f"reflection {group.handle} covers a group that does not exist: {name}")
            yield from self.leaves(by_id[name], by_id, is_past=is_past)

    # ------------------------------------------------------------ observations

    def _check_observations(self) -> None:
        """Each has sources inside its span, or inside what it merges; none speaks of another resource."""
        for pk, name, kind, first, last, thread, resource, text, sources, strange in self.rows(
            "SELECT o.pk, o.id, g.kind, g.first_seq, g.last_seq, g.thread_pk, l.resource, o.text, "
            "  (SELECT COUNT(*) FROM observation_sources s JOIN threads t ON t.pk = s.thread_pk "
            "   WHERE s.observation_pk = o.pk AND s.last_seq <= t.last_seq AND t.resource = l.resource), "
            "  (SELECT COUNT(*) FROM observation_sources s WHERE s.observation_pk = o.pk AND g.kind = 'observer' "
            "   AND (s.thread_pk <> g.thread_pk OR s.first_seq < g.first_seq OR s.last_seq > g.last_seq)) "
            "FROM observations o JOIN groups g ON g.pk = o.group_pk JOIN logs l ON l.pk = g.log_pk "
            "WHERE o.pk > ? AND g.state <> 'void' AND o.state <> 'deleted' ORDER BY o.pk",
            self._known.observations,
        ):
            del thread
            self._known.observations = pk
            if not sources or strange:
                raise Broken(
                    f"observation {name} of a {kind} group ({first}–{last}) has {sources} sources, {strange} foreign"
                )
            if leak := self._expected.leak(resource, text):
                raise Broken(f"observation {name} of {resource} says {leak}")
        # A deleted line keeps its links to deleted lines, also of a reflection that left the log with its only thread.
        if unresolved := self.rows(
            "SELECT x.observation_pk FROM observation_merges x JOIN observations o ON o.pk = x.observation_pk "
            "JOIN groups g ON g.pk = o.group_pk JOIN observations m ON m.pk = x.merged_pk "
            "JOIN groups h ON h.pk = m.group_pk WHERE g.state = 'active' AND h.state <> 'covered' "
            "AND (o.state <> 'deleted' OR m.state <> 'deleted') LIMIT 3"
        ):
            raise Broken(f"observations {unresolved} merge lines that are not covered")

    def _check_withdrawn(self) -> None:
        """Check that what was withdrawn is cited by nothing that stands in a log or will."""
        gone = self._gone = self.rows("SELECT COUNT(*) FROM messages WHERE state = 'withdrawn'")[0][0]
        seen = (gone, self._known.observations, tuple(self._known.logs.values()))
        if not gone or seen == self._known.withdrawn:
            return
        self._known.withdrawn = seen
        found = self.rows(
            "SELECT o.id, g.handle, g.kind, g.state, o.state, m.seq FROM messages m "
            "JOIN observation_sources s ON s.thread_pk = m.thread_pk AND m.seq BETWEEN s.first_seq AND s.last_seq "
            "JOIN observations o ON o.pk = s.observation_pk JOIN groups g ON g.pk = o.group_pk "
            "WHERE m.state = 'withdrawn' AND o.state <> 'deleted' AND g.state <> 'void' LIMIT 3"
        )
        if found:
            raise Broken(f"withdrawn and still cited: {found}")
        for thread, kept_to, live in self.rows("SELECT thread_pk, kept_to, live FROM branches"):
            last = max(last for _, last in json.loads(live))
            shown = self.rows(
                "SELECT handle, first_seq, last_seq FROM groups WHERE thread_pk = ? AND kind = 'observer' AND text <> '' "
                "AND state <> 'void' AND first_seq > ? AND last_seq <= ?",
                *(thread, kept_to, last),
            )
            if shown:
                raise Broken(f"thread {thread} was rewound from {last} to {kept_to}, and its log still shows {shown}")


def _torn(rows: list[Row], *, is_strict: bool) -> Iterator[tuple[str, int, int | None]]:
    """Yield each call with the ends at which a span would tear it: from the call to its result or the next question.

    Strictly, what was withdrawn is as if it had not been said: a question that is gone closes no call.
    """
    opened: dict[str, int] = {}
    for seq, role, pairs, state in rows:
        if state != "live":
            if role == "user" and not is_strict:
                opened.clear()
            continue
        calls, results = json.loads(pairs) if pairs else ((), ())
        if role == "user" and not results:
            for call, first in opened.items():
                yield call, first, seq
            opened.clear()
        for result in results:
            if result in opened:
                yield result, opened.pop(result), seq
        opened.update(dict.fromkeys(calls, seq))
    for call, first in opened.items():
        yield call, first, None
