"""The store behind a transaction pooler, said in the address or noticed by itself: no session, the same story."""

import asyncio
import uuid
from datetime import timedelta
from typing import Any

import pytest

from kit.clock import until
from kit.engines import store_at
from kit.talk import forget_thread
from memolog.core.message import UserMessage
from memolog.core.run import Usage
from memolog.errors import StoreBusy, StoreUnavailable
from memolog.store import Store
from pooler import Pooler, Settings

_TASKS = 16
_EACH = 6


def _query(*, said: bool) -> str:
    return f"schema=p_{uuid.uuid4().hex[:12]}" + ("&pooler=transaction" if said else "")


def is_pooled(store: Store) -> bool:
    """Return whether the engine of a store treats its server as a transaction pooler."""
    engine: Any = store.engine
    return engine._pooler


async def tell_story(store: Store) -> None:
    """Do a little of everything; each step stands on the ones before."""
    await store.threads.create("r", "t", title="A thread")
    await store.messages.save("r", "t", [UserMessage(f"{number}", id=f"m{number}") for number in range(120)])
    again = await store.messages.save("r", "t", [UserMessage(["0", "more"], id="m0"), UserMessage("1", id="m1")])
    assert again.added == 1
    first = await store.messages.page("r", "t", limit=100)
    assert first.next is not None
    second = await store.messages.page("r", "t", after=int(first.next), limit=100)
    assert [message.seq for message in (*first.items, *second.items)] == list(range(1, 122))
    lease = await store.leases.acquire("r", "work", "me", lasts=timedelta(minutes=1))
    assert lease is not None
    assert await store.leases.acquire("r", "work", "you", lasts=timedelta(minutes=1)) is None
    assert await store.leases.release("r", lease)
    copy = await store.threads.clone("r", "t", "copy")
    assert copy.last_seq == 121
    await store.ledger.add("r", Usage(kind="turn", model="m", input_tokens=3))
    assert (await store.ledger.total("r")).input_tokens == 3
    await _crowd(store)
    assert (await forget_thread(store, "copy", "r")).messages == 121


async def _crowd(store: Store) -> None:
    """Save from many tasks at once into a few threads; every number is used once."""

    async def save(task: int) -> None:
        for number in range(_EACH):
            await store.messages.save("r", f"crowd{number % 3}", UserMessage(f"{task}.{number}"))
            await store.messages.after("r", f"crowd{number % 3}", limit=5)

    await asyncio.gather(*(save(task) for task in range(_TASKS)))
    for number in range(3):
        messages = await store.messages.after("r", f"crowd{number}")
        assert [message.seq for message in messages] == list(range(1, _TASKS * _EACH // 3 + 1))


async def test_the_address_says_so(postgres_server: str) -> None:
    """With `pooler=transaction` nothing is sent that a pooler refuses, and every transaction finds the schema."""
    async with Pooler(postgres_server) as pooler:
        async with await store_at(pooler.url(_query(said=True))) as store:
            await tell_story(store)
        assert pooler.refused == []
        assert pooler.switches > 100


@pytest.mark.parametrize("settings", ["refuse", "drop", "pass"])
async def test_it_is_noticed(postgres_server: str, settings: Settings) -> None:
    """A plain address works too, whether the pooler refuses our settings, drops them, or passes the first client's on."""
    async with Pooler(postgres_server, settings=settings) as pooler:
        async with await store_at(pooler.url(_query(said=False))) as store:
            assert is_pooled(store)
            await tell_story(store)
        assert bool(pooler.refused) == (settings == "refuse")
        assert pooler.switches > 100


@pytest.mark.parametrize("settings", ["refuse", "drop", "pass"])
async def test_two_stores_of_one_pooler(postgres_server: str, settings: Settings) -> None:
    """Two schemas behind one pooler share its connections and never meet."""
    async with Pooler(postgres_server, settings=settings, backends=3) as pooler:
        one, other = await store_at(pooler.url(_query(said=False))), await store_at(pooler.url(_query(said=False)))
        async with one, other:
            await asyncio.gather(tell_story(one), tell_story(other))
            names = {thread.id for thread in (await one.threads.list("r")).items}
            assert names == {"t", "crowd0", "crowd1", "crowd2"}


async def test_prepared_statements_that_vanish(postgres_server: str) -> None:
    """An engine that was told that there is no pooler, wrongly, notices by the first statement that is gone."""
    query = _query(said=False) + "&pooler=none"
    async with Pooler(postgres_server, settings="pass") as pooler, await store_at(pooler.url(query)) as store:
        assert not is_pooled(store)
        await tell_story(store)
        assert is_pooled(store)


async def test_no_pooler_is_not_taken_for_one(postgres_url: str) -> None:
    """A server itself is used with prepared statements."""
    async with await store_at(postgres_url) as store:
        assert not is_pooled(store)
        await tell_story(store)
        assert not is_pooled(store)


async def _saved(store: Store) -> bool:
    """Save a message. A pooler may pass on a cancellation late, to the next statement: that call says that it may be repeated."""
    try:
        await store.messages.save("r", "t", UserMessage("y"))
    except StoreBusy:
        return False
    return True


async def test_a_cancelled_call_behind_a_pooler(postgres_server: str) -> None:
    """A call that is cancelled in the middle gives its connection back clean: the next transaction works."""
    async with Pooler(postgres_server, backends=2) as pooler, await store_at(pooler.url(_query(said=True))) as store:
        for pause in (0, 0.001, 0.002, 0.003, 0.005):
            saving = [asyncio.create_task(store.messages.save("r", "t", UserMessage("x"))) for _ in range(6)]
            await asyncio.sleep(pause)
            for task in saving:
                task.cancel()
            ends = await asyncio.gather(*saving, return_exceptions=True)
            assert not [end for end in ends if isinstance(end, Exception)]
            await until(lambda: _saved(store))
        messages = await store.messages.after("r", "t")
        assert [message.seq for message in messages] == list(range(1, len(messages) + 1))
        assert sum(message.text == "y" for message in messages) == 5


async def test_a_pooler_that_is_gone(postgres_server: str) -> None:
    """When nobody answers any more, the error says so and is worth a retry."""
    async with Pooler(postgres_server) as pooler:
        store = await store_at(pooler.url(_query(said=True)))
        await store.messages.save("r", "t", UserMessage("x"))
    async with store:
        with pytest.raises(StoreUnavailable) as refused:
            await store.messages.save("r", "t", UserMessage("y"))
        assert refused.value.retryable
