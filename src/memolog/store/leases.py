"""Leases: timed sole claims, with a fence that rises at every change of hands.

Knows who holds what until when. The contract, on every engine and from any number of processes:

- *acquire*: exactly one caller wins; the winner gets a higher fence than any holder before it.
- *renew*: only the holder can, and only while nobody has taken over; an expired lease that nobody took is still renewed.
- *release*: only the holder can; the fence stays, so that the next holder's is higher.
- *reap*: ends the expired ones and says which, so that their work can be taken over.
"""

# Scripts are made at every call; their annotations need not be evaluated each time.
from __future__ import annotations

from datetime import datetime, timedelta

from memolog.domain.clock import Clock
from memolog.domain.errors import InputError, LeaseLost
from memolog.domain.moments import to_micros
from memolog.domain.run import Lease
from memolog.store.engine import Engine
from memolog.store.rows import lease_from_row
from memolog.store.scope import check_id
from memolog.store.sql import Script, load_queries

__all__ = ["Leases"]

q = load_queries("leases")


class Leases:
    """The leases of every resource, one resource at a time."""

    def __init__(self, engine: Engine, clock: Clock) -> None:
        self._engine, self._clock = engine, clock

    async def acquire(self, resource: str, name: str, owner: str, *, lasts: timedelta) -> Lease | None:
        """Return the lease, or None while somebody else (or this owner) holds it."""
        check_id("resource", resource)
        check_id("lease", name)
        check_id("owner", owner)
        now, expires_at = self._end(lasts)

        def script() -> Script[Lease | None]:
            rows = yield q.acquire(
                resource=resource,
                name=name,
                owner=owner,
                now=to_micros(now),
                expires_at=to_micros(expires_at),
            )
            if not rows:
                return None
            return Lease(name=name, owner=owner, fence=rows[0][0], expires_at=expires_at)

        return await self._engine.write(script, name="leases.acquire")

    async def renew(self, resource: str, lease: Lease, *, lasts: timedelta) -> Lease:
        """Prolong a lease; raises LeaseLost if another owner has taken over."""
        check_id("resource", resource)
        _, expires_at = self._end(lasts)

        def script() -> Script[Lease]:
            rows = yield q.renew(
                resource=resource,
                name=lease.name,
                owner=lease.owner,
                fence=lease.fence,
                expires_at=to_micros(expires_at),
            )
            if not rows:
                raise LeaseLost(lease.name, lease.owner, lease.fence)
            return Lease(name=lease.name, owner=lease.owner, fence=lease.fence, expires_at=expires_at)

        return await self._engine.write(script, name="leases.renew")

    async def release(self, resource: str, lease: Lease) -> bool:
        """Give a lease back; returns False if it was lost already."""
        check_id("resource", resource)

        def script() -> Script[bool]:
            rows = yield q.release(resource=resource, name=lease.name, owner=lease.owner, fence=lease.fence)
            return bool(rows)

        return await self._engine.write(script, name="leases.release")

    async def get(self, resource: str, name: str) -> Lease | None:
        """Return the lease as it is held now, expired or not; None if nobody holds it."""
        check_id("resource", resource)
        check_id("lease", name)

        def script() -> Script[Lease | None]:
            rows = yield q.get(resource=resource, name=name)
            return lease_from_row(rows[0]) if rows else None

        return await self._engine.read(script)

    async def reap(self, resource: str) -> tuple[Lease, ...]:
        """End every expired lease of a resource and return them, the longest expired first."""
        check_id("resource", resource)
        now = to_micros(self._clock.now())

        def script() -> Script[tuple[Lease, ...]]:
            ended: list[Lease] = []
            for row in (yield q.expired(resource=resource, now=now)):
                lease = lease_from_row(row)
                if (yield q.reap(resource=resource, name=lease.name, fence=lease.fence, now=now)):
                    ended.append(lease)
            return tuple(ended)

        return await self._engine.write(script, name="leases.reap")

    def _end(self, lasts: timedelta) -> tuple[datetime, datetime]:
        if lasts <= timedelta(0):
            raise InputError(f"A lease cannot last {lasts}.", then="Pass a positive duration.")
        now = self._clock.now()
        try:
            return now, now + lasts
        except OverflowError:
            raise InputError(f"A lease cannot last {lasts}.", then="Pass a shorter duration.") from None
