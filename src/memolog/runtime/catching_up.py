"""Observe a thread by hand until the log covers every message that was there when the call started.

Messages saved after that are left for the next run.
"""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from math import inf
from typing import NamedTuple

from memolog.config import Config
from memolog.domain.clock import Clock
from memolog.store.snapshot import OTHER_ROWS, Snapshot

__all__ = ["catch_up"]

_POLL_SECONDS = 0.05
# By then a dead process is detected, and its runs are taken over.
_LEASES = 2
_LONGEST_REST = 60.0
_STANDSTILL_SECONDS = 0.25


async def catch_up(
    look: Callable[[], Awaitable[tuple[Config, Snapshot]]],
    observe: Callable[[int], Awaitable[None]],
    activate: Callable[[int], Awaitable[None]],
    clock: Clock,
) -> None:
    """Observe and activate until the log covers what was there at the beginning, or nothing more can be done.

    Both get the number of the last message at the beginning. After a failure it waits until a retry is allowed, for at most a
    minute in total.
    """
    loop = asyncio.get_running_loop()
    _, snapshot = await look()
    wanted, through = _wanted(snapshot), snapshot.thread.last_seq
    before: object = None
    changed, patience = loop.time(), timedelta(seconds=_LONGEST_REST)
    while True:
        await observe(through)
        await activate(through)
        config, snapshot = await look()
        left = _left(snapshot, wanted)
        if not left:
            return
        under_way = [run for run in snapshot.runs if run.status == "running" and run.kind == "observe"]
        beats = [(run.id, run.fence, run.beat_at) for run in under_way]
        now = (snapshot.cursor, left, len(snapshot.buffered), len(snapshot.groups), beats)
        if now != before:
            before, changed = now, loop.time()
        elif not under_way and (rested := await _rest(snapshot, clock, patience)) is not None:
            before, patience = None, patience - rested
        elif not under_way or loop.time() - changed > _LEASES * config.lease:
            # The observer backs off, a call has no result yet, or the run of another process does not end.
            return
        else:
            # Another process runs it: wait and read again.
            await asyncio.sleep(_POLL_SECONDS)


async def _rest(snapshot: Snapshot, clock: Clock, patience: timedelta) -> timedelta | None:
    """Wait until a failed run may be retried; returns how long that took, None if there is none or it takes too long."""
    failed = [
        run.retry_at for run in snapshot.runs if run.status == "failed" and run.kind == "observe" and run.retry_at
    ]
    if not failed:
        return None
    due = max(min(failed), snapshot.log.retry_at or min(failed))
    start = last = clock.now()
    if due - start > patience:
        return None
    loop = asyncio.get_running_loop()
    moved = loop.time()
    while last < due:
        await asyncio.sleep(_POLL_SECONDS)
        if (now := clock.now()) != last:
            last, moved = now, loop.time()
        elif loop.time() - moved > _STANDSTILL_SECONDS:
            # The clock stands still.
            return None
    return last - start


class _Wanted(NamedTuple):
    """Up to which message each thread is to be observed."""

    ends: dict[str, float]
    others: float
    """The same for threads that were not read."""

    def is_missing(self, thread: str, seq: int) -> bool:
        """Return whether a message that the log does not cover is wanted."""
        return seq <= self.ends.get(thread, self.others)


def _wanted(snapshot: Snapshot) -> _Wanted:
    # If there is more than was read, all of it is wanted.
    is_cut = len(snapshot.others) >= OTHER_ROWS
    ends = {row.thread: inf if is_cut else row.seq for row in snapshot.others}
    return _Wanted(ends | {snapshot.thread.id: snapshot.thread.last_seq}, inf if is_cut else 0)


def _left(snapshot: Snapshot, wanted: _Wanted) -> int:
    """Return how many of the wanted messages the log does not cover."""
    own = sum(wanted.is_missing(snapshot.thread.id, message.seq) for message in snapshot.tail)
    return own + sum(wanted.is_missing(row.thread, row.seq) for row in snapshot.others)
