"""The cache of an open memory: tails, groups and plans of the latest logs, settings and calibration of resources.

Only committed rows are cached, and values that depend on them alone. The cache may be emptied at any moment.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from typing import NamedTuple, TypeAlias

from memolog.core.cache import Cache
from memolog.core.exact_json import JsonObject
from memolog.core.message import Message
from memolog.core.observation import Observation
from memolog.db.queries import Row, Script, load_queries
from memolog.db.rows import message_from_row
from memolog.log.rows import GroupRow, LogHead, group_row

messages = load_queries("messages/messages")
logs = load_queries("log/logs")

KnownRows: TypeAlias = Mapping[int, Message]
"""Short, unchanged messages by sequence number."""

# A few megabytes in all: the tails and the logs of the latest active threads, without long messages.
_TAILS = 32
_LOGS = 16
_RESOURCES = 10_000
_SHORT_CHARACTERS = 16_384


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


class MemoryCache:
    """Everything that one open memory caches. Every part is bounded."""

    def __init__(self) -> None:
        self.tails = Cache[tuple[object, ...], KnownRows](_TAILS)
        """Rows of the latest tails by log and thread."""
        self.plans = Cache[str, Plans](_LOGS)
        self.settings = Cache[str, JsonObject](_RESOURCES)
        """Stored settings by resource, once the lasting settings of the memory were stored: saves a read in every turn."""
        self.factors = Cache[tuple[str, str], float](_RESOURCES)
        """Calibration factors by resource and model."""
        self._groups = Cache[str, _Groups](_LOGS)
        self._made = Cache[str, Mapping[Row, GroupRow]](_LOGS)

    def clear(self) -> None:
        """Empty the cache: what was forgotten must not stay in memory."""
        for part in (self.tails, self.plans, self.settings, self.factors, self._groups, self._made):
            part.clear()

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


def reading_groups(log: LogHead, cache: MemoryCache) -> Script[tuple[GroupRow, ...]]:
    """Return the groups of a log, from the cache if possible."""
    groups = cache.groups(log)
    if groups is None:
        groups = cache.groups_of(log, (yield logs.active_groups(log_pk=log.pk, generation=log.generation)))
    return groups


def reading_tail(
    thread_pk: int, start: int, last_seq: int, known: KnownRows
) -> Script[tuple[tuple[Message, ...], KnownRows]]:
    """Return the rows after `start`, and those of them that the next snapshot does not read again.

    Reads only rows that are new or have changed since they were saved.
    """
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
