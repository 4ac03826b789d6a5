"""Detect which of the processes that share a database are alive.

A process with work in progress counts up its beats every second or two. Others watch the count with their own clock, since
the clocks of hosts may differ; the time of a beat is only used for processes that were not watched yet.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal, TypeAlias

from memolog.domain.clock import Clock
from memolog.domain.moments import from_micros, to_micros
from memolog.store.engine import Engine
from memolog.store.scope import check_ids
from memolog.store.sql import Script, load_queries

__all__ = ["Beat", "Life", "Processes", "appearing"]

q = load_queries("processes")

Life: TypeAlias = Literal["moving", "fresh", "silent", "unknown"]
"""Seen to beat; not watched for long enough; stopped beating; without a row."""

_SILENCE_SECONDS = 5.0
_LEASE_SECONDS = 30.0
_OLD = timedelta(days=1)
_MOST_WATCHED = 1_024


@dataclass(frozen=True, slots=True, kw_only=True)
class Beat:
    """The last beat of a process: its number, and the time of its own clock."""

    number: int
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class _Watched:
    number: int
    since: float
    is_moving: bool


class Processes:
    """The processes that use a database, of every resource."""

    def __init__(self, engine: Engine, clock: Clock) -> None:
        self._engine, self._clock = engine, clock
        self.silence = _SILENCE_SECONDS
        """After how many seconds without a beat a watched process counts as dead."""
        self.lease = _LEASE_SECONDS
        """The greatest age of the last beat of a process that was not watched yet, by its own clock."""
        self.time: Callable[[], float] = lambda: asyncio.get_running_loop().time()
        """The local monotonic time."""
        self._watched: dict[str, _Watched] = {}
        self._has_swept = False

    async def beat(self, owner: str) -> None:
        """Record that this process is alive."""
        check_ids(owner=owner)
        now = self._clock.now()

        def script() -> Script[None]:
            yield q.beat(owner=owner, now=to_micros(now))
            if not self._has_swept:
                # Once per process: delete rows of processes that ended long ago.
                yield q.sweep(before=to_micros(now - _OLD))

        await self._engine.write(script, name="processes.beat")
        self._has_swept = True

    async def life(self, owner: str) -> Life:
        """Return the state of a process."""

        def script() -> Script[Beat | None]:
            rows = yield q.last_beat(owner=owner)
            return Beat(number=rows[0].beats, at=from_micros(rows[0].beat_at)) if rows else None

        return self.judge(owner, await self._engine.read(script))

    async def is_alive(self, owner: str, *, since: datetime | None = None) -> bool:
        """Return whether a process is alive.

        A process without a row counts as alive for a few seconds after `since`, the last sign of it, until its first beat.
        """
        life = await self.life(owner)
        if life == "unknown":
            return since is not None and self._clock.now() - since <= timedelta(seconds=self.silence)
        return life != "silent"

    def judge(self, owner: str, beat: Beat | None, *, silence: float | None = None, lease: float | None = None) -> Life:
        """Return the state of a process whose last beat was just read; `silence` and `lease` override the defaults."""
        if beat is None:
            return "unknown"
        time = self.time()
        known = self._watched.get(owner)
        if known is None or known.number != beat.number:
            if len(self._watched) >= _MOST_WATCHED:
                self._watched.clear()
            known = _Watched(number=beat.number, since=time, is_moving=known is not None)
            self._watched[owner] = known
        if time - known.since >= (self.silence if silence is None else silence):
            return "silent"
        if known.is_moving:
            return "moving"
        is_recent = self._clock.now() - beat.at <= timedelta(seconds=self.lease if lease is None else lease)
        return "fresh" if is_recent else "silent"


def appearing(owner: str, now: int) -> Script[None]:
    """Record a process together with what it saves, so that it counts as alive before its next beat."""
    yield q.appear(owner=owner, now=now, before=now - round(_SILENCE_SECONDS * 1_000_000))
