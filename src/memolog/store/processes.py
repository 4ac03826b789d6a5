"""Processes in the store: which of those that share a database are alive.

A process that has something under way counts up its beats every second or two. Whether it still does is judged by the time that
passes here: the clocks of other hosts may differ, so that of a beat only tells those apart that are older than a lease.
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
from memolog.store.scope import check_id
from memolog.store.sql import Script, load_queries

__all__ = ["Beat", "Life", "Processes", "appearing"]

q = load_queries("processes")

Life: TypeAlias = Literal["moving", "fresh", "silent", "unknown"]
"""Seen to beat; not watched for long enough; no longer beating; without a row."""

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
        """After how many seconds without a beat a process counts as dead, for who watches it."""
        self.lease = _LEASE_SECONDS
        """How old by its own clock the last beat of a process may be that was not watched."""
        self.time: Callable[[], float] = lambda: asyncio.get_running_loop().time()
        """The time that passes here."""
        self._watched: dict[str, _Watched] = {}
        self._has_swept = False

    async def beat(self, owner: str) -> None:
        """Say that this process is alive."""
        check_id("owner", owner)
        now = self._clock.now()

        def script() -> Script[None]:
            yield q.beat(owner=owner, now=to_micros(now))
            if not self._has_swept:
                # Once for each process: what others left behind long ago.
                yield q.sweep(before=to_micros(now - _OLD))

        await self._engine.write(script, name="processes.beat")
        self._has_swept = True

    async def life(self, owner: str) -> Life:
        """Tell how a process is doing now."""

        def script() -> Script[Beat | None]:
            rows = yield q.last_beat(owner=owner)
            return Beat(number=rows[0][0], at=from_micros(rows[0][1])) if rows else None

        return self.judge(owner, await self._engine.read(script))

    async def is_alive(self, owner: str, *, since: datetime | None = None) -> bool:
        """Tell whether a process is alive now.

        `since` is when it was last known to be there by other means: a process without a row counts as alive for a few seconds
        from then on, since its first beat may be on its way.
        """
        life = await self.life(owner)
        if life == "unknown":
            return since is not None and self._clock.now() - since <= timedelta(seconds=self.silence)
        return life != "silent"

    def judge(self, owner: str, beat: Beat | None, *, silence: float | None = None, lease: float | None = None) -> Life:
        """Tell how a process is doing whose last beat was just read; `silence` and `lease` take the place of the usual ones."""
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
    """Make a process known together with what it saves, so that nobody takes it for dead before its next beat."""
    yield q.appear(owner=owner, now=now, before=now - round(_SILENCE_SECONDS * 1_000_000))
