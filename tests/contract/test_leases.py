"""What every engine does with leases: one holder at a time, and a fence that tells the late ones apart."""

import asyncio
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


async def test_a_free_lease_is_acquired(store: Store, clock: FakeClock) -> None:
    """The first holder has fence one, until the time that was asked for."""
    lease = await held(store, "a")
    assert lease == Lease(name="run", owner="a", fence=1, expires_at=clock.now() + HALF_A_MINUTE)
    assert await lease_of(store, "alice", "run") == lease


async def test_a_held_lease_is_not_acquired(store: Store, clock: FakeClock) -> None:
    """Not by another, and not by its own holder either; nothing of it changes."""
    lease = await held(store, "a")
    clock.advance(seconds=29.999)
    assert await store.leases.acquire("alice", "run", "b", lasts=HALF_A_MINUTE) is None
    assert await store.leases.acquire("alice", "run", "a", lasts=HALF_A_MINUTE) is None
    assert await lease_of(store, "alice", "run") == lease


async def test_names_and_resources_are_separate(store: Store) -> None:
    """Leases of other names and of other resources do not get in the way."""
    first = await held(store, "a")
    assert (await held(store, "b", name="other")).fence == 1
    assert (await held(store, "c", resource="bob")).fence == 1
    assert await lease_of(store, "alice", "run") == first


@pytest.mark.parametrize("expired", [False, True])
async def test_many_callers_have_one_winner(store: Store, clock: FakeClock, *, expired: bool) -> None:
    """Exactly one of many gets a lease that is free, and exactly one takes over an expired one."""
    if expired:
        await held(store, "dead")
        clock.advance(seconds=30)
    many = counts(25, 200)
    calls = (store.leases.acquire("alice", "run", f"w{index}", lasts=HALF_A_MINUTE) for index in range(many))
    won = [lease for lease in await asyncio.gather(*calls) if lease is not None]
    assert len(won) == 1
    assert won[0].fence == (2 if expired else 1)
    assert await lease_of(store, "alice", "run") == won[0]


async def test_two_stores_have_one_winner(store: Store, open_a_store: OpenStore, engine_name: str) -> None:
    """Callers with connections of their own decide it in the database; two stores in memory are two databases."""
    other = await open_a_store()
    calls = [
        one.leases.acquire("alice", "run", f"w{index}", lasts=HALF_A_MINUTE)
        for index in range(8)
        for one in (store, other)
    ]
    won = [lease for lease in await asyncio.gather(*calls) if lease is not None]
    assert len(won) == (2 if engine_name == "memory" else 1)


async def test_the_fence_rises_at_every_change_of_hands(store: Store, clock: FakeClock) -> None:
    """By release and by expiry."""
    first = await held(store, "a")
    assert await store.leases.release("alice", first)
    second = await held(store, "a")
    clock.advance(seconds=30)
    third = await held(store, "b")
    assert [lease.fence for lease in (first, second, third)] == [1, 2, 3]


async def test_a_zombie_is_refused(store: Store, clock: FakeClock) -> None:
    """Who lost a lease does not release it, even under the same name; the new holder keeps it."""
    zombie = await held(store, "a")
    clock.advance(seconds=30)
    for owner in ("b", "a"):
        holder = await held(store, owner)
        assert not await store.leases.release("alice", zombie)
        assert await lease_of(store, "alice", "run") == holder
        clock.advance(seconds=30)


async def test_a_guessed_fence_is_refused(store: Store) -> None:
    """Owner and fence must both be right."""
    lease = await held(store, "a")
    for wrong in (
        Lease(name="run", owner="b", fence=1, expires_at=lease.expires_at),
        Lease(name="run", owner="a", fence=2, expires_at=lease.expires_at),
        Lease(name="other", owner="a", fence=1, expires_at=lease.expires_at),
    ):
        assert not await store.leases.release("alice", wrong)
    assert await lease_of(store, "alice", "run") == lease


async def test_a_released_lease_is_free(store: Store) -> None:
    """Nobody holds it, releasing twice is told, and it can be acquired at once."""
    lease = await held(store, "a")
    assert await store.leases.release("alice", lease)
    assert await lease_of(store, "alice", "run") is None
    assert not await store.leases.release("alice", lease)
    assert (await held(store, "b")).fence == 2


@pytest.mark.parametrize("lasts", [timedelta(0), timedelta(seconds=-1), timedelta.max])
async def test_a_lease_lasts_for_some_time(store: Store, lasts: timedelta) -> None:
    """A duration that is none, or that no calendar holds, is refused; nothing changes."""
    with pytest.raises(InputError, match="`lasts`"):
        await store.leases.acquire("alice", "run", "a", lasts=lasts)
    assert await lease_of(store, "alice", "run") is None
