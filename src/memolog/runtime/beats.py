"""Beats: which runs nobody carries out any more, although their leases end in the future.

A lease that was prolonged further ahead than it lasts was given out by a clock that was set back since, or by a host whose
clock is ahead. Of the first nobody is left who prolongs it, of the second somebody is: only time that passes here tells them
apart. Knows beats and the time of the event loop. What is kept here can be lost: then it is watched once more.
"""

from collections.abc import Callable, Iterable
from datetime import datetime

from memolog.store.log_rows import RunRow

__all__ = ["Beats"]

_MOST_WATCHED = 1_024


class Beats:
    """Watches leases of clocks that are ahead."""

    def __init__(self, time: Callable[[], float]) -> None:
        self._time = time
        self._watched: dict[str, tuple[int, datetime, float]] = {}

    def silent(self, runs: Iterable[RunRow], now: datetime) -> frozenset[str]:
        """Return the runs whose leases lie too far ahead, and were not prolonged here for as long as a lease lasts."""
        return frozenset(run.id for run in runs if _is_ahead(run, now) and self._is_silent(run))

    def _is_silent(self, run: RunRow) -> bool:
        known = self._watched.get(run.id)
        if known is None or known[:2] != (run.fence, run.beat_at):
            if len(self._watched) >= _MOST_WATCHED:
                self._watched.clear()
            self._watched[run.id] = run.fence, run.beat_at, self._time()
            return False
        return self._time() - known[2] >= (run.lease_until - run.beat_at).total_seconds()


def _is_ahead(run: RunRow, now: datetime) -> bool:
    return run.status == "running" and now < run.lease_until and run.beat_at - now > run.lease_until - run.beat_at
