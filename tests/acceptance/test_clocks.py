"""Clocks that are set back, and processes that are closed: nobody waits for work that nobody does."""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from kit.clock import until
from kit.engines import engines
from kit.talk import hold, listen
from memolog import Config
from memolog.domain.errors import StoreError
from memolog.runtime.events import Recovered
from memolog.runtime.memory import Memory
from memolog.runtime.model import ModelReply, ModelRequest
from memolog.testing import FakeClock, ScriptedModel

CONFIG = Config.from_dict({"observation": {"message_tokens": 300, "deadline": 0}})
AHEAD = 30
# Leases end by clocks that the tests move on; beats come by themselves, and are waited for.
LASTS = 300
LEASE = {"lease": LASTS, "heartbeat": 0.02}
engine_name = engines("sqlite", "postgres")


class Hanging(ScriptedModel):
    """A model that never answers, or not before it is let."""

    def __init__(self, thought: asyncio.Event | None = None) -> None:
        super().__init__()
        self.thought = thought or asyncio.Event()

    async def complete(self, request: ModelRequest) -> ModelReply:
        await self.thought.wait()
        return await super().complete(request)


def watch_by(kit: Any) -> Callable[[float], None]:
    """Let other processes be watched by a time that passes when it is told to; return who tells it."""
    passed = 0.0

    def move_on(seconds: float) -> None:
        nonlocal passed
        passed += seconds

    kit.store.processes.time = lambda: passed
    return move_on


async def beat(memory: Memory) -> None:
    """Let a memory say that it is alive, and wait until it has renewed the leases of all its runs."""
    kit = await memory.open()
    now = kit.clock.now()
    await kit.runner.heartbeat.now()

    async def are_renewed() -> bool:
        snapshot = await kit.store.logs.snapshot("alice", "t", "thread")
        beats = [run.beat_at for run in snapshot.runs if run.status == "running" and run.owner == kit.core.owner]
        assert beats
        return min(beats) >= now

    await until(are_renewed)


async def chat(memory: Memory, clock: FakeClock, turns: int) -> None:
    """Hold some turns."""
    for number in range(turns):
        clock.advance(seconds=1)
        await hold(memory, f"question {number} " + "about the weather " * 10, "it will rain " * 10, thread="t")


async def test_a_failure_under_a_clock_that_was_ahead(address: str, clock: FakeClock) -> None:
    """Its time to try again lies in a month: it is tried at once."""
    model = ScriptedModel([RuntimeError("down")] * 50)
    async with Memory(address, model=model, clock=clock, config=CONFIG) as memory:
        clock.advance(days=AHEAD)
        for _ in range(4):
            await chat(memory, clock, 1)
            await memory.settled()
        clock.advance(days=-AHEAD)
        model.answers.clear()
        await chat(memory, clock, 2)
        await memory.settled()
        status = await memory.observe("t", "alice")
        assert (status.health, status.failed, status.cursor) == ("ok", 0, status.last_seq)


@pytest.mark.parametrize("ahead", [0, AHEAD])
async def test_a_closed_process_gives_its_runs_back(address: str, clock: FakeClock, ahead: int) -> None:
    """The next one goes on with them at once, whatever the clock says; the try that was broken off does not count."""
    clock.advance(days=ahead)
    for _ in range(5):
        async with Memory(address, model=Hanging(), clock=clock, config=CONFIG) as memory:
            await chat(memory, clock, 1)
    clock.advance(days=-ahead)
    async with Memory(address, model=ScriptedModel(), clock=clock, config=CONFIG) as memory:
        events = listen(memory)
        await chat(memory, clock, 1)
        await memory.settled()
        assert [event for event in events if isinstance(event, Recovered)]
        status = await memory.observe("t", "alice")
        assert (status.running, status.failed, status.cursor) == (0, 0, status.last_seq)
        kit = await memory.open()
        assert max(run.attempt for run in await kit.store.runs.list("alice")) == 1


def fall(point: str) -> None:
    """Let a process write nothing more: it was killed."""
    raise StoreError(f"Nothing is written at {point}.")


async def test_a_process_that_was_killed_under_a_clock_that_was_ahead(address: str, clock: FakeClock) -> None:
    """Its lease ends in a month. Who sees that nobody prolongs it goes on with the run, and not before."""
    config = CONFIG.with_overrides({**LEASE, "heartbeat": LASTS / 3})
    clock.advance(days=AHEAD)
    killed = Memory(address, model=Hanging(), clock=clock, config=config)
    await chat(killed, clock, 5)
    kit = await killed.open()
    assert [run.status for run in await kit.store.runs.list("alice")].count("running")
    kit.store.engine.commit_hook = fall
    ours = {task for task in asyncio.all_tasks() if task.get_name().startswith("memolog-")}
    for task in ours:
        task.cancel()
    await asyncio.wait(ours)
    clock.advance(days=-AHEAD)
    async with Memory(address, model=ScriptedModel(), clock=clock, config=config) as memory:
        passed = watch_by(await memory.open())
        events = listen(memory)
        await chat(memory, clock, 1)
        await memory.settled()
        assert not [event for event in events if isinstance(event, Recovered)]
        passed(LASTS)
        await chat(memory, clock, 1)
        await memory.settled()
        assert [event for event in events if isinstance(event, Recovered)]
        status = await memory.observe("t", "alice")
        assert (status.running, status.failed, status.cursor) == (0, 0, status.last_seq)
    kit.store.engine.commit_hook = None
    await killed.aclose()


async def test_hosts_whose_clocks_differ_by_more_than_a_lease(address: str, clock: FakeClock) -> None:
    """The one that is behind leaves the other's runs alone: taking them from each other in turn would never end."""
    ahead = FakeClock(clock.now() + timedelta(days=AHEAD))
    config = CONFIG.with_overrides(LEASE)
    thought = asyncio.Event()
    async with (
        Memory(address, model=Hanging(thought), clock=ahead, config=config) as first,
        Memory(address, model=ScriptedModel(), clock=clock, config=config) as second,
    ):
        passed = watch_by(await second.open())
        events = listen(second)
        await chat(first, ahead, 3)
        # Longer than a lease in all, and shorter from one beat to the next.
        for _ in range(4):
            passed(LASTS / 2)
            ahead.advance(seconds=LASTS / 2)
            await beat(first)
            await chat(second, clock, 1)
        thought.set()
        await first.settled()
        await second.settled()
        assert not [event for event in events if isinstance(event, Recovered)]
        status = await first.observe("t", "alice")
        assert (status.running, status.failed, status.cursor) == (0, 0, status.last_seq)
