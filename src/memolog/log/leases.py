"""Acquire and release leases: exclusive claims that expire, with a fence that rises at every change of owner.

On every engine and from any number of processes, exactly one caller of *acquire* wins and gets a higher fence than any owner
before it. Only the owner can *release*; the fence stays, so that the next owner's is higher.
"""

from __future__ import annotations

from datetime import timedelta

from memolog.core.clock import Clock, to_micros
from memolog.core.run import Lease
from memolog.db.engine import Calls, Engine, writes
from memolog.db.queries import Script, load_queries
from memolog.db.scope import check_ids
from memolog.errors import InputError

q = load_queries("log/leases")


class Leases(Calls):
    """The leases of every resource, one resource at a time."""

    def __init__(self, engine: Engine, clock: Clock) -> None:
        super().__init__(engine)
        self._clock = clock

    async def acquire(self, resource: str, name: str, owner: str, *, lasts: timedelta) -> Lease | None:
        """Return the lease, or None while another owner (or this one) holds it."""
        check_ids(resource=resource, lease=name, owner=owner)
        if lasts <= timedelta(0):
            raise InputError(f"`lasts` must be positive, got {lasts}.", then="Pass a positive duration.")
        now = self._clock.now()
        try:
            end = now + lasts
        except OverflowError:
            raise InputError(f"`lasts` is too long: {lasts}.", then="Pass a shorter duration.") from None
        step = q.acquire(resource=resource, name=name, owner=owner, now=to_micros(now), expires_at=to_micros(end))

        def script() -> Script[Lease | None]:
            rows = yield step
            return Lease(name=name, owner=owner, fence=rows[0].fence, expires_at=end) if rows else None

        return await self.engine.write(script, name="leases.acquire")

    @writes("leases.release")
    def release(self, resource: str, lease: Lease) -> Script[bool]:
        """Release a lease; returns False if it was lost already."""
        check_ids(resource=resource)
        rows = yield q.release(resource=resource, name=lease.name, owner=lease.owner, fence=lease.fence)
        return bool(rows)
