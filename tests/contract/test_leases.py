"""What every engine does with leases: one holder at a time, and a fence that tells the late ones apart."""

import asyncio
from datetime import timedelta

import pytest

from kit.effort import counts
from kit.engines import OpenStore
from memolog.domain.errors import InputError, LeaseLost
from memolog.domain.run import Lease
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
    assert await store.leases.get("alice", "run") == lease


async def test_a_held_lease_is_not_acquired(store: Store, clock: FakeClock) -> None:
    """Not by another, and not by its own holder either; nothing of it changes."""
    lease = await held(store, "a")
    clock.advance(seconds=29.999)
    assert await store.leases.acquire("alice", "run", "b", lasts=HALF_A_MINUTE) is None
    assert await store.leases.acquire("alice", "run", "a", lasts=HALF_A_MINUTE) is None
    assert await store.leases.get("alice", "run") == lease


async def test_names_and_resources_are_separate(store: Store) -> None:
    """Leases of other names and of other resources do not get in the way."""
    first = await held(store, "a")
    assert (await held(store, "b", name="other")).fence == 1
    assert (await held(store, "c", resource="bob")).fence == 1
    assert await store.leases.get("alice", "run") == first


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
    assert await store.leases.get("alice", "run") == won[0]


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
    """By release, by expiry and by reaping; renewing leaves it."""
    first = await held(store, "a")
    assert await store.leases.release("alice", first)
    second = await held(store, "a")
    clock.advance(seconds=30)
    third = await held(store, "b")
    renewed = await store.leases.renew("alice", third, lasts=HALF_A_MINUTE)
    clock.advance(seconds=31)
    assert await store.leases.reap("alice") == (renewed,)
    fourth = await held(store, "b")
    assert [lease.fence for lease in (first, second, third, renewed, fourth)] == [1, 2, 3, 3, 4]


async def test_a_holder_renews(store: Store, clock: FakeClock) -> None:
    """The end moves to now and the duration; also to an earlier one, if it is asked for."""
    lease = await held(store, "a")
    clock.advance(seconds=20)
    renewed = await store.leases.renew("alice", lease, lasts=HALF_A_MINUTE)
    assert (renewed.expires_at, renewed.fence) == (clock.now() + HALF_A_MINUTE, lease.fence)
    clock.advance(seconds=20)
    assert await store.leases.acquire("alice", "run", "b", lasts=HALF_A_MINUTE) is None
    shorter = await store.leases.renew("alice", renewed, lasts=timedelta(seconds=1))
    clock.advance(seconds=1)
    assert shorter.expires_at == clock.now()
    assert (await held(store, "b")).fence == 2


async def test_an_expired_lease_that_nobody_took_is_renewed(store: Store, clock: FakeClock) -> None:
    """A holder that was only slow goes on."""
    lease = await held(store, "a")
    clock.advance(hours=2)
    renewed = await store.leases.renew("alice", lease, lasts=HALF_A_MINUTE)
    assert await store.leases.get("alice", "run") == renewed
    assert await store.leases.acquire("alice", "run", "b", lasts=HALF_A_MINUTE) is None


async def test_a_zombie_is_refused(store: Store, clock: FakeClock) -> None:
    """Who lost a lease neither renews nor releases it, even under the same name; the new holder keeps it."""
    zombie = await held(store, "a")
    clock.advance(seconds=30)
    for owner in ("b", "a"):
        holder = await held(store, owner)
        with pytest.raises(LeaseLost, match="a no longer holds run") as caught:
            await store.leases.renew("alice", zombie, lasts=HALF_A_MINUTE)
        assert not caught.value.retryable
        assert not await store.leases.release("alice", zombie)
        assert await store.leases.get("alice", "run") == holder
        clock.advance(seconds=30)


async def test_a_guessed_fence_is_refused(store: Store) -> None:
    """Owner and fence must both be right."""
    lease = await held(store, "a")
    for wrong in (
        Lease(name="run", owner="b", fence=1, expires_at=lease.expires_at),
        Lease(name="run", owner="a", fence=2, expires_at=lease.expires_at),
        Lease(name="other", owner="a", fence=1, expires_at=lease.expires_at),
    ):
        with pytest.raises(LeaseLost):
            await store.leases.renew("alice", wrong, lasts=HALF_A_MINUTE)
        assert not await store.leases.release("alice", wrong)
    assert await store.leases.get("alice", "run") == lease


async def test_a_released_lease_is_free(store: Store) -> None:
    """Nobody holds it, releasing twice is told, and it can be acquired at once."""
    lease = await held(store, "a")
    assert await store.leases.release("alice", lease)
    assert await store.leases.get("alice", "run") is None
    assert not await store.leases.release("alice", lease)
    with pytest.raises(LeaseLost):
        await store.leases.renew("alice", lease, lasts=HALF_A_MINUTE)
    assert (await held(store, "b")).fence == 2


async def test_reaping_ends_the_expired_ones(store: Store, clock: FakeClock) -> None:
    """The longest expired first; those that still run, and those of others, stay; a second reaping finds nothing."""
    early = await held(store, "a", name="z")
    clock.advance(seconds=10)
    late = await held(store, "b", name="a")
    foreign = await held(store, "c", resource="bob")
    clock.advance(seconds=25)
    fresh = await held(store, "d", name="fresh")
    assert await store.leases.reap("alice") == (early,)
    clock.advance(seconds=5)
    assert await store.leases.reap("alice") == (late,)
    assert await store.leases.reap("alice") == ()
    assert await store.leases.get("alice", "fresh") == fresh
    assert await store.leases.get("bob", "run") == foreign
    with pytest.raises(LeaseLost):
        await store.leases.renew("alice", early, lasts=HALF_A_MINUTE)


async def test_reapers_share_nothing(store: Store, clock: FakeClock) -> None:
    """Each expired lease is handed to exactly one of many reapers."""
    for index in range(10):
        await held(store, "a", name=f"n{index:02}")
    clock.advance(minutes=1)
    reaped = await asyncio.gather(*(store.leases.reap("alice") for _ in range(counts(5, 30))))
    assert sorted(lease.name for some in reaped for lease in some) == [f"n{index:02}" for index in range(10)]


async def test_a_reaper_does_not_end_what_was_renewed(store: Store, clock: FakeClock) -> None:
    """A lease that was renewed before the reaper came is not expired."""
    lease = await held(store, "a")
    clock.advance(minutes=1)
    renewed = await store.leases.renew("alice", lease, lasts=HALF_A_MINUTE)
    assert await store.leases.reap("alice") == ()
    assert await store.leases.get("alice", "run") == renewed


async def test_a_renewal_races_a_takeover(store: Store, clock: FakeClock) -> None:
    """Of the old holder and the new ones at most one believes to hold it."""
    for index in range(counts(5, 50)):
        name = f"race{index}"
        old = await held(store, "old", name=name)
        clock.advance(seconds=30)
        outcomes = await asyncio.gather(
            store.leases.renew("alice", old, lasts=HALF_A_MINUTE),
            *(store.leases.acquire("alice", name, f"new{each}", lasts=HALF_A_MINUTE) for each in range(3)),
            return_exceptions=True,
        )
        holders = [outcome for outcome in outcomes if isinstance(outcome, Lease)]
        assert len(holders) == 1
        assert await store.leases.get("alice", name) == holders[0]


@pytest.mark.parametrize("lasts", [timedelta(0), timedelta(seconds=-1), timedelta.max])
async def test_a_lease_lasts_for_some_time(store: Store, lasts: timedelta) -> None:
    """A duration that is none, or that no calendar holds, is refused; nothing changes."""
    with pytest.raises(InputError, match="cannot last"):
        await store.leases.acquire("alice", "run", "a", lasts=lasts)
    assert await store.leases.get("alice", "run") is None
    lease = await held(store, "a")
    with pytest.raises(InputError, match="cannot last"):
        await store.leases.renew("alice", lease, lasts=lasts)
    assert await store.leases.get("alice", "run") == lease
