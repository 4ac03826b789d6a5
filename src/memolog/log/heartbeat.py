"""Heartbeats and leases. Heartbeats show to other processes that a process is alive.

A process writes heartbeats only while it has runs or turns. Only one owner has a lease at a time, and each new owner gets a
higher fence.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal, TypeAlias

from memolog.core.cache import Cache
from memolog.core.clock import Clock, from_micros, to_micros
from memolog.core.deadline import ranked
from memolog.core.run import Lease
from memolog.db.engine import Engine, TimedCalls, writes
from memolog.db.queries import Row, Script, load_queries
from memolog.db.scope import check_ids
from memolog.errors import InputError, MemologError

q = load_queries("log/processes")
leases = load_queries("log/leases")

Life: TypeAlias = Literal["moving", "fresh", "silent", "unknown"]
"""The state of a process.

moving: a new beat was seen. fresh: its last beat is recent, but no second beat was seen yet. silent: it is dead. unknown: it has
not written a beat.
"""

_SILENCE_SECONDS = 5.0
_LEASE_SECONDS = 30.0
# Rows of processes whose last beat is older than this are deleted.
_OLD = timedelta(days=1)
# At most this many processes are watched.
_MOST_WATCHED = 1_024


@dataclass(frozen=True, slots=True, kw_only=True)
class Beat:
    """The last beat of a process: its number, and its time by the clock of that process."""

    number: int
    at: datetime


def beat_of(row: Row) -> Beat | None:
    """Return the last beat of the process of a row. None if the process has not written one."""
    return None if row.beats is None else Beat(number=row.beats, at=from_micros(row.beat_at))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Watched:
    number: int
    since: float
    is_moving: bool


class Processes:
    """The processes that use a database. They do not belong to a resource."""

    def __init__(self, engine: Engine, clock: Clock) -> None:
        self._engine, self._clock = engine, clock
        self.silence = _SILENCE_SECONDS
        """A watched process counts as dead after this many seconds without a new beat."""
        self.lease = _LEASE_SECONDS
        """A process of which only one beat was seen counts as dead if that beat is older than this many seconds."""
        self.time: Callable[[], float] = lambda: asyncio.get_running_loop().time()
        """The local monotonic time."""
        self._watched = Cache[str, _Watched](_MOST_WATCHED)
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
        beats = await self._engine.fetch(q.last_beat(owner=owner), beat_of)
        return self.judge(owner, beats[0] if beats else None)

    def judge(self, owner: str, beat: Beat | None, *, silence: float | None = None, lease: float | None = None) -> Life:
        """Return the state of a process. `beat` is its last beat, just read. `silence` and `lease` override the attributes."""
        if beat is None:
            return "unknown"
        time = self.time()
        known = self._watched.get(owner)
        if known is None or known.number != beat.number:
            known = _Watched(number=beat.number, since=time, is_moving=known is not None)
            self._watched.put(owner, known)
        if time - known.since >= (self.silence if silence is None else silence):
            return "silent"
        if known.is_moving:
            return "moving"
        is_recent = self._clock.now() - beat.at <= timedelta(seconds=self.lease if lease is None else lease)
        return "fresh" if is_recent else "silent"


def appearing(owner: str, now: int) -> Script[None]:
    """Write a beat of a process in the transaction that saves its messages, so that the process counts as alive at once."""
    yield q.appear(owner=owner, now=now, before=now - round(_SILENCE_SECONDS * 1_000_000))


class Heartbeat:
    """Writes the beats of one process."""

    def __init__(self, processes: Processes, owner: str, *, clock: Clock, every: float) -> None:
        self._processes, self._owner, self._clock, self._every = processes, owner, clock, every
        self._under_way = 0
        self._beaten: tuple[float, datetime] | None = None
        self._task: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._ending: set[asyncio.Task[None]] = set()
        self._gate = asyncio.Lock()

    @contextmanager
    def under_way(self) -> Generator[None]:
        """Write beats while the block runs."""
        self._under_way += 1
        if self._task is None and self._timer is None:
            if self._is_due():
                self._begin()
            else:
                # Most turns end before the next beat is due, and need no task.
                self._timer = asyncio.get_running_loop().call_later(self._every, self._begin)
        try:
            yield
        finally:
            self._under_way -= 1
            if not self._under_way:
                self._end()

    def _begin(self) -> None:
        self._timer = None
        self._task = asyncio.get_running_loop().create_task(self._go_on(), name="memolog-heartbeat")

    def _end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._task is not None:
            self._ending.add(self._task)
            self._task.add_done_callback(self._ending.discard)
            self._task.cancel()
            self._task = None

    async def now(self) -> None:
        """Write a beat if one is due. Called before this process starts or takes over a run."""
        async with self._gate:
            if self._is_due():
                at = asyncio.get_running_loop().time(), self._clock.now()
                # Other processes treat this one as dead if its beats are late.
                with ranked("urgent"):
                    await self._processes.beat(self._owner)
                self._beaten = at

    def _is_due(self) -> bool:
        """Return whether the last beat is old by elapsed time or by the clock. They differ if the clock was set."""
        if self._beaten is None:
            return True
        time, now = self._beaten
        is_old = asyncio.get_running_loop().time() - time >= self._every
        return is_old or abs((self._clock.now() - now).total_seconds()) >= self._every

    async def _go_on(self) -> None:
        while True:
            # If a beat fails, the next one follows after the usual time.
            with contextlib.suppress(MemologError, TimeoutError):
                async with asyncio.timeout(2 * self._every):
                    await self.now()
            await asyncio.sleep(self._every)

    async def ended(self) -> None:
        """Wait until the cancelled tasks have ended."""
        if self._ending:
            await asyncio.wait(self._ending)

    async def stop(self) -> None:
        """Stop writing beats."""
        self._end()
        await self.ended()


class Leases(TimedCalls):
    """Acquires and releases leases. Every call is for one resource."""

    @writes("leases.acquire")
    def acquire(self, resource: str, name: str, owner: str, *, lasts: timedelta) -> Script[Lease | None]:
        """Return the lease. None if it has an owner, even if that owner is the caller."""
        check_ids(resource=resource, lease=name, owner=owner)
        if lasts <= timedelta(0):
            raise InputError(f"`lasts` must be positive, got {lasts}.", then="Pass a positive duration.")
        now = self._now()
        try:
            end = from_micros(now) + lasts
        except OverflowError:
            raise InputError(f"`lasts` is too long: {lasts}.", then="Pass a shorter duration.") from None
        rows = yield leases.acquire(resource=resource, name=name, owner=owner, now=now, expires_at=to_micros(end))
        return Lease(name=name, owner=owner, fence=rows[0].fence, expires_at=end) if rows else None

    @writes("leases.release")
    def release(self, resource: str, lease: Lease) -> Script[bool]:
        """Release a lease. Return False if its owner has lost it before."""
        check_ids(resource=resource)
        rows = yield leases.release(resource=resource, name=lease.name, owner=lease.owner, fence=lease.fence)
        return bool(rows)
