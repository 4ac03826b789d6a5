"""Many writers at once: two processes of eight tasks on the same threads, and tasks that are cancelled in the middle."""

import asyncio
import itertools
import json
import random
import subprocess
import threading
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any

import pytest

from crash.children import answer, started
from crash.survivors import check_sound, select
from crash.writer_child import CROWD_TASKS, RESOURCE, THREADS, open_real
from kit.clock import until
from kit.effort import LONG, counts
from kit.engines import OpenStore, engines
from memolog.core.message import UserMessage
from memolog.store import Store

_PROCESSES = 2
_PATIENCE = 240
engine_name = engines("sqlite", "postgres")


def _run_crowds(address: str, each: int) -> dict[str, list[list[Any]]]:
    """Let the processes open a database that is not there yet and start at once; return where each task's messages went."""
    stories: dict[str, list[list[Any]]] = {}
    with ExitStack() as stack:
        crowds = [
            stack.enter_context(
                started("writer_child.py", "crowd", address, f"p{number}", str(each), stderr=subprocess.PIPE)
            )
            for number in range(_PROCESSES)
        ]
        assert [answer(crowd) for crowd in crowds] == ["ready"] * _PROCESSES
        for crowd in crowds:
            print("go", file=crowd.stdin, flush=True)
        for crowd in crowds:
            told, errors = crowd.communicate(timeout=_PATIENCE)
            assert (crowd.returncode, errors) == (0, "")
            stories |= json.loads(told)
    return stories


async def test_two_processes_of_eight_tasks(address: str) -> None:
    """No error surfaces, every message is there once where its writer was told, numbers are dense and in commit order."""
    total = counts(1_000, 10_000)
    each = total // (_PROCESSES * CROWD_TASKS)
    stories = _run_crowds(address, each)
    async with await open_real(address) as store:
        rows = await check_sound(store)
    assert len(stories) == _PROCESSES * CROWD_TASKS
    told = sorted(tuple(place) for story in stories.values() for place in story)
    assert told == sorted((thread, id_, seq) for thread, id_, _, seq, *_ in rows)
    assert len({id_ for _, id_, _ in told}) == len(told) == each * _PROCESSES * CROWD_TASKS
    for name, story in stories.items():
        for thread in THREADS:
            numbers = [seq for where, _, seq in story if where == thread]
            assert numbers == sorted(numbers), f"{name} was overtaken by itself in {thread}"
    for thread in THREADS:
        keys = [row[-1] for row in rows if row[0] == thread]
        assert keys == sorted(keys), f"the rows of {thread} were not inserted in the order of their numbers"
    authors = [id_.split(".")[0] for thread, id_, *_ in rows if thread == THREADS[0]]
    if LONG:
        # With few messages and a busy machine one process may be done before the other has begun.
        assert sum(one != other for one, other in itertools.pairwise(authors)) > 1, "the processes never met"


# ---------------------------------------------------------------- cancelling


async def _cancel_some(store: Store, chance: random.Random, seed: str) -> None:
    """Start saves in several tasks, and cancel each of them at a random moment, some twice."""
    tasks = [asyncio.create_task(_save_on(store, f"{seed}.{number}")) for number in range(8)]
    for task in tasks:
        await asyncio.sleep(chance.choice((0, 0, 0.0005, 0.002)))
        task.cancel()
        if chance.random() < 0.5:
            await asyncio.sleep(0)
            task.cancel()
    ends = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(isinstance(end, asyncio.CancelledError) for end in ends), ends


async def _save_on(store: Store, name: str) -> None:
    for number in range(10_000):
        batch = f"{name}.{number}"
        messages = [UserMessage("hello", id=f"{batch}.{place}") for place in range(4)]
        await store.messages.save(RESOURCE, THREADS[number % 2], messages)


async def test_a_cancelled_save_is_whole_or_not_there(
    open_a_store: OpenStore, caplog: pytest.LogCaptureFixture
) -> None:
    """Tasks cancelled in the middle of saves leave whole batches, no open transaction, and a store that works."""
    store = await open_a_store(pool_size=4)
    seed = f"{random.SystemRandom().randrange(10**9)}"
    print(f"seed {seed}")  # noqa: T201 - pytest shows it when the test fails
    chance = random.Random(seed)
    for number in range(counts(5, 50)):
        await _cancel_some(store, chance, f"{number}")
        async with asyncio.timeout(120):
            saved = await store.messages.save(RESOURCE, "after", UserMessage("still here"))
        assert saved.added == 1
    rows = await check_sound(store)
    batches = [id_.rpartition(".")[0] for thread, id_, *_ in rows if thread != "after"]
    assert all(batches.count(batch) == 4 for batch in set(batches[:400]))
    assert len(batches) % 4 == 0
    assert not caplog.records


async def test_a_write_cancelled_while_it_waits_for_a_row(postgres_url: str) -> None:
    """Whoever is cancelled in a queue leaves it: the row is free as soon as its holder is done."""
    async with await open_real(postgres_url) as store, await open_real(postgres_url) as other:
        await store.messages.save(RESOURCE, "one", UserMessage("first"))
        holding, done = asyncio.Event(), asyncio.Event()
        holder = asyncio.create_task(_hold_row(store, holding, done))
        await holding.wait()
        waiting = asyncio.create_task(other.messages.save(RESOURCE, "one", UserMessage("never")))
        await until(partial(_waits_for_a_row, store))
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        done.set()
        await holder
        async with asyncio.timeout(120):
            await other.messages.save(RESOURCE, "one", UserMessage("second"))
        texts = [message.text for message in await store.messages.after(RESOURCE, "one")]
    assert texts == ["first", "second"]


async def _waits_for_a_row(store: Store) -> bool:
    (waiting,) = await select(store, "SELECT pid FROM pg_stat_activity WHERE wait_event_type = 'Lock'")
    return bool(waiting)


async def _hold_row(store: Store, holding: asyncio.Event, done: asyncio.Event) -> None:
    engine: Any = store.engine
    async with engine._connection() as connection, connection.transaction():
        await connection.execute("UPDATE threads SET updated_at = updated_at")
        holding.set()
        await done.wait()


# ---------------------------------------------------------------- what stays behind


def _our_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if "memolog" in thread.name]


async def _connections(store: Store) -> Sequence[tuple[Any, ...]]:
    (rows,) = await select(
        store, "SELECT pid FROM pg_stat_activity WHERE application_name = 'memolog' AND pid <> pg_backend_pid()"
    )
    return rows


async def test_nothing_runs_on_after_close(address: str, engine_name: str, postgres_server: str) -> None:
    """After close, also in the middle of work that was cancelled, no thread and no connection of ours is left."""
    store = await open_real(address)
    await asyncio.gather(*(store.messages.save(RESOURCE, "one", UserMessage("x")) for _ in range(20)))
    await store.threads.count(RESOURCE)
    running = [asyncio.create_task(_save_on(store, f"{number}")) for number in range(5)]
    await asyncio.sleep(0.05)
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)
    if engine_name == "sqlite":
        assert _our_threads()
    await store.close()
    assert _our_threads() == []
    if engine_name == "postgres":
        async with await open_real(f"{postgres_server}&schema=watcher") as watcher:

            async def have_left() -> bool:
                return not await _connections(watcher)

            # The server needs a moment to see that a client has left.
            await until(have_left)
