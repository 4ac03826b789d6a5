"""Cache tails, groups and plans of the latest logs, so that the next snapshot reads only what is new.

Only committed rows are cached, and values that depend on one row alone. The cache may be emptied at any moment.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from datetime import date
from threading import Lock
from typing import Generic, NamedTuple, TypeAlias, TypeVar

from memolog.core.message import Message
from memolog.core.observation import Observation
from memolog.db.queries import Row, Script, load_queries
from memolog.db.rows import message_from_row
from memolog.log.rows import GroupRow, LogHead, group_row

messages = load_queries("messages/messages")
logs = load_queries("log/logs")

K = TypeVar("K")
V = TypeVar("V")

KnownRows: TypeAlias = Mapping[int, Message]
"""Short, unchanged messages by sequence number."""
Tail: TypeAlias = tuple[tuple[Message, ...], KnownRows]
"""Every row after the cursor, and those that the next snapshot does not read again."""

# A few megabytes in all: the tails and the logs of the latest active threads, without long messages.
_TAILS = 32
_LOGS = 16
_SHORT_CHARACTERS = 16_384


class _Latest(Generic[K, V]):
    """A thread-safe cache of the latest values."""

    def __init__(self, most: int) -> None:
        self._most, self._gate = most, Lock()
        self._values: OrderedDict[K, V] = OrderedDict()

    def get(self, key: K) -> V | None:
        return self._values.get(key)

    def put(self, key: K, value: V) -> None:
        with self._gate:
            self._values[key] = value
            self._values.move_to_end(key)
            if len(self._values) > self._most:
                self._values.popitem(last=False)

    def clear(self) -> None:
        with self._gate:
            self._values.clear()


class _Groups(NamedTuple):
    """The groups of a log after so many changes to them."""

    changes: int
    generation: int
    groups: tuple[GroupRow, ...]


class Plans(NamedTuple):
    """Plans for days before `before` without a known outcome, as of one version of a log."""

    version: int
    generation: int
    before: date
    lines: tuple[Observation, ...]


class SnapshotCache:
    """The latest tails by log and thread, and the groups and passed plans of the latest logs."""

    def __init__(self) -> None:
        self.tails = _Latest[tuple[object, ...], KnownRows](_TAILS)
        self.plans = _Latest[str, Plans](_LOGS)
        self._groups = _Latest[str, _Groups](_LOGS)
        self._made = _Latest[str, Mapping[Row, GroupRow]](_LOGS)

    def clear(self) -> None:
        """Empty the cache: what was forgotten must not stay in memory."""
        self.tails.clear()
        self.plans.clear()
        self._groups.clear()
        self._made.clear()

    def groups(self, log: LogHead) -> tuple[GroupRow, ...] | None:
        """Return the groups of a log if they are cached.

        Every change of a group changes the log's version. Changes by runs are counted in `run_changes`.
        """
        known = self._groups.get(log.id)
        is_same = known is not None and known[:2] == (log.version - log.run_changes, log.generation)
        return known.groups if known and is_same else None

    def keep_groups(self, log: LogHead, groups: tuple[GroupRow, ...]) -> None:
        """Cache the groups of a log."""
        self._groups.put(log.id, _Groups(log.version - log.run_changes, log.generation, groups))

    def groups_of(self, log: LogHead, rows: Sequence[Row]) -> tuple[GroupRow, ...]:
        """Return rows as groups. An unchanged row gives the same object, so that values cached for it are found."""
        known = self._made.get(log.id) or {}
        made = {row: known.get(row) or group_row(row) for row in rows}
        self._made.put(log.id, made)
        return tuple(made.values())


def reading_groups(log: LogHead, cache: SnapshotCache) -> Script[tuple[GroupRow, ...]]:
    """Return the groups of a log, from the cache if possible."""
    groups = cache.groups(log)
    if groups is None:
        groups = cache.groups_of(log, (yield logs.active_groups(log_pk=log.pk, generation=log.generation)))
    return groups


def reading_tail(thread_pk: int, start: int, last_seq: int, known: KnownRows) -> Script[Tail]:
    """Return the rows after `start`, reading only those that are new or have changed since they were saved."""
    newest = max(known, default=0)
    rows = yield messages.tail(thread_pk=thread_pk, after=start, known=newest)
    fresh = {row.seq: message_from_row(row) for row in rows}
    kept = {seq: message for seq, message in known.items() if seq > start and seq not in fresh}
    is_same = newest <= start or (newest in fresh and fresh[newest].id == known[newest].id)
    if not is_same or len(kept) + len(fresh) != last_seq - start:
        # Rows are missing, or another thread has the same key: read all of them.
        rows = yield messages.tail(thread_pk=thread_pk, after=start, known=0)
        fresh, kept = {row.seq: message_from_row(row) for row in rows}, {}
    tail = {**kept, **fresh}
    kept.update({row.seq: fresh[row.seq] for row in rows if _is_lasting(row)})
    return tuple(tail[seq] for seq in sorted(tail)), kept


def _is_lasting(row: Row) -> bool:
    """Return whether a row is short, live, not compacted and without a task: such a row does not change."""
    return row.state == "live" and row.level == 0 and row.task is None and len(row.parts) <= _SHORT_CHARACTERS
