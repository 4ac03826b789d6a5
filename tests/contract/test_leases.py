"""What every engine does with leases: one holder at a time, and a fence that tells the late ones apart."""

import asyncio
import random
from collections import Counter
from dataclasses import replace
from datetime import timedelta

import pytest

from contract.raw_sql import lease_of
from kit.effort import counts
from kit.engines import OpenStore
from memolog.core.run import Lease
from memolog.errors import InputError
from memolog.store import Store
from memolog.testing import FakeClock

HALF_A_MINUTE = timedelta(seconds=30)


async def held(store: Store, owner: str, name: str = "run", resource: str = "alice") -> Lease:
    """Acquire a lease that is free."""
    lease = await store.leases.acquire(resource, name, owner, lasts=HALF_A_MINUTE)
    assert lease is not None
    return lease


@pytest.mark.parametrize("seed", range(counts(4, 30)))
async def test_a_lease_has_one_holder_at_a_time(store: Store, clock: FakeClock, seed: int) -> None:
    """Each name of each resource by itself: held until it ends or is released, and the fence rises with every holder.

    Neither another nor the holder acquires what is held; who lost it, or guesses owner or fence, releases nothing.
    """
    chance, fences = random.Random(seed), Counter[tuple[str, str]]()
    present: dict[tuple[str, str], Lease] = {}
    given: list[tuple[str, Lease]] = []
    for _ in range(counts(120, 1000)):
        key = resource, name = chance.choice(("alice", "bob")), chance.choice(("run", "other"))
        what = chance.choice(("acquire", "acquire", "release", "guess", "wait"))
        if what == "acquire":
            owner = chance.choice("abc")
            lease = await store.leases.acquire(resource, name, owner, lasts=HALF_A_MINUTE)
            if key in present and present[key].expires_at > clock.now():
                assert lease is None
            else:
                fences[key] += 1
                until = clock.now() + HALF_A_MINUTE
                present[key] = Lease(name=name, owner=owner, fence=fences[key], expires_at=until)
                assert lease == present[key]
                given.append((resource, present[key]))
        elif what == "release" and given:
            resource, lease = chance.choice(given)
            key = (resource, lease.name)
            assert await store.leases.release(resource, lease) is (present.get(key) == lease)
            if present.get(key) == lease:
                del present[key]
        elif what == "guess" and key in present:
            wrong = chance.choice(({"owner": "x"}, {"fence": fences[key] + 1}, {"name": "none"}))
            assert not await store.leases.release(resource, replace(present[key], **wrong))
        else:
            clock.advance(seconds=chance.choice((1, 15, 29.999, 30)))
        assert await lease_of(store, *key) == present.get(key)


@pytest.mark.parametrize("expired", [False, True])
async def test_many_callers_have_one_winner(
    store: Store, open_a_store: OpenStore, clock: FakeClock, engine_name: str, *, expired: bool
) -> None:
    """Exactly one of many gets a lease that is free or expired, also among callers with connections of their own."""
    if expired:
        await held(store, "dead")
        clock.advance(seconds=30)
    # Two stores in memory are two databases.
    stores = (store,) if engine_name == "memory" else (store, await open_a_store())
    calls = [
        one.leases.acquire("alice", "run", f"w{index}", lasts=HALF_A_MINUTE)
        for index in range(counts(12, 100))
        for one in stores
    ]
    (won,) = [lease for lease in await asyncio.gather(*calls) if lease is not None]
    assert won.fence == (2 if expired else 1)
    assert await lease_of(store, "alice", "run") == won


@pytest.mark.parametrize("lasts", [timedelta(0), timedelta(seconds=-1), timedelta.max])
async def test_a_lease_lasts_for_some_time(store: Store, lasts: timedelta) -> None:
    """A duration that is none, or that no calendar holds, is refused; nothing changes."""
    with pytest.raises(InputError, match="`lasts`"):
        await store.leases.acquire("alice", "run", "a", lasts=lasts)
    assert await lease_of(store, "alice", "run") is None
