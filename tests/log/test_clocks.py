"""Clocks that are set back, and processes that are closed: nobody waits for work that nobody does."""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from kit.clock import until
from kit.engines import engines
from kit.models import Hanging, Stubborn
from kit.talk import hold, kill, listen
from memolog import Config, UserMessage
from memolog.events import Degraded, Recovered
from memolog.memory import Memory
from memolog.observer.model import ModelReply, ModelRequest
from memolog.testing import FakeClock, ScriptedModel

CONFIG = Config.from_dict({"observation": {"message_tokens": 300, "deadline": 0}, "close_timeout": 0})
AHEAD = 30
# Leases end by clocks that the tests move on; beats come by themselves, and are waited for.
LASTS = 300
LEASE = {"lease": LASTS, "heartbeat": 0.02}
engine_name = engines("sqlite", "postgres")


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
        status = await memory.thread("t", resource="alice").observe()
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
        status = await memory.thread("t", resource="alice").observe()
        assert (status.running, status.failed, status.cursor) == (0, 0, status.last_seq)
        kit = await memory.open()
        assert max(run.attempt for run in await kit.store.runs.list("alice")) == 1


async def test_a_model_that_ignores_its_cancellation_does_not_delay_closing(address: str, clock: FakeClock) -> None:
    """`aclose` ends, and the next process has the run at once. The answer that comes after all changes nothing."""
    stubborn = Stubborn()
    first = Memory(address, model=stubborn, clock=clock, config=CONFIG)
    await chat(first, clock, 1)
    await asyncio.wait_for(stubborn.asked.wait(), 60)
    running = [task for task in asyncio.all_tasks() if task.get_name().startswith("memolog-run")]
    assert running
    async with asyncio.timeout(60):
        await first.aclose()
    assert all(task.done() for task in running)
    left = asyncio.all_tasks() - {asyncio.current_task()}
    async with Memory(address, model=ScriptedModel(), clock=clock, config=CONFIG) as second:
        events = listen(second)
        await chat(second, clock, 1)
        await second.settled()
        assert [event for event in events if isinstance(event, Recovered)]
        before = await second.thread("t", resource="alice").observe()
        assert (before.running, before.failed, before.cursor) == (0, 0, before.last_seq)
        log = await second.thread("t", resource="alice").log()
        stubborn.thought.set()
        await asyncio.wait(left, timeout=60)
        assert await second.thread("t", resource="alice").log() == log


async def test_a_process_that_was_killed_under_a_clock_that_was_ahead(address: str, clock: FakeClock) -> None:
    """Its lease ends in a month. Who sees that nobody prolongs it goes on with the run, and not before."""
    config = CONFIG.with_overrides({**LEASE, "heartbeat": LASTS / 3})
    clock.advance(days=AHEAD)
    killed = Memory(address, model=Hanging(), clock=clock, config=config)
    await chat(killed, clock, 5)
    kit = await killed.open()
    assert [run.status for run in await kit.store.runs.list("alice")].count("running")
    await kill(killed)
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
        status = await memory.thread("t", resource="alice").observe()
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
        status = await first.thread("t", resource="alice").observe()
        assert (status.running, status.failed, status.cursor) == (0, 0, status.last_seq)


# ---------------------------------------------------------------- calls made by hand


NEVER_WAITING = Config.from_dict({"observation": {"message_tokens": 300, "deadline": 0}, "close_timeout": 0, **LEASE})


@pytest.mark.parametrize("lease", [LEASE, {"lease": 0.02, "heartbeat": 0.01}])
async def test_observe_waits_where_turns_never_do(address: str, clock: FakeClock, lease: dict[str, float]) -> None:
    """All of it is observed when the call returns, however long it takes, and no wait in vain is held against the model."""
    async with Memory(
        address, model=ScriptedModel(seconds=0.05), clock=clock, config=NEVER_WAITING.with_overrides(lease)
    ) as memory:
        events = listen(memory)
        await chat(memory, clock, 6)
        status = await memory.thread("t", resource="alice").observe()
    assert (status.health, status.running, status.failed, status.cursor) == ("ok", 0, 0, status.last_seq)
    assert not [event for event in events if isinstance(event, Degraded)]


async def test_observe_waits_for_the_run_of_another_memory(address: str, clock: FakeClock) -> None:
    """It lasts longer than a lease, which is prolonged: nobody is asked twice."""
    thought = asyncio.Event()
    theirs, ours = Hanging(thought), ScriptedModel()
    async with Memory(address, model=theirs, clock=clock, config=NEVER_WAITING) as busy:
        await chat(busy, clock, 6)
        await busy.thread("t", resource="alice").buffer()
        async with Memory(address, model=ours, clock=clock, config=NEVER_WAITING) as memory:
            observing = asyncio.create_task(memory.thread("t", resource="alice").observe())
            for _ in range(4):
                clock.advance(seconds=LASTS / 2)
                await beat(busy)
                assert not observing.done()
            thought.set()
            status = await observing
        assert (status.health, status.running, status.failed, status.cursor) == ("ok", 0, 0, status.last_seq)
        first = [request.text for request in theirs.requests if request.purpose == "observe"]
        assert len(first) == len(set(first))
        assert not {request.text for request in ours.requests} & set(first)


async def test_reflect_waits_where_turns_never_do(address: str, clock: FakeClock) -> None:
    """The log is condensed when the call returns."""
    async with Memory(address, model=ScriptedModel(seconds=0.05), clock=clock, config=NEVER_WAITING) as memory:
        await chat(memory, clock, 12)
        before = await memory.thread("t", resource="alice").observe()
        assert before.generation == 0
        status = await memory.thread("t", resource="alice").reflect()
    assert (status.generation, status.failed) == (1, 0)


async def test_who_goes_on_talking_is_not_waited_for(address: str, clock: FakeClock) -> None:
    """All that was said when the call began is observed, and it does not run after what is said meanwhile."""
    said = asyncio.Condition()
    is_talking = False

    class Listening(ScriptedModel):
        """A model that answers only when more was said than it was asked about."""

        async def complete(self, request: ModelRequest) -> ModelReply:
            if is_talking:
                async with said:
                    await said.wait()
            return await super().complete(request)

    async with Memory(address, model=Listening(), clock=clock, config=NEVER_WAITING) as memory:
        await chat(memory, clock, 2)
        await memory.settled()
        begun = (await memory.thread("t", resource="alice").status()).last_seq

        async def talk() -> None:
            while True:
                await chat(memory, clock, 1)
                async with said:
                    said.notify_all()
                await asyncio.sleep(0.02)

        is_talking = True
        talking = asyncio.create_task(talk())
        status = await asyncio.wait_for(memory.thread("t", resource="alice").observe(), 120)
        is_talking = False
        async with said:
            said.notify_all()
        talking.cancel()
        await asyncio.wait({talking})
    assert begun <= status.cursor < status.last_seq


async def test_a_full_tail_does_not_take_the_place_of_a_reflection(address: str, clock: FakeClock) -> None:
    """What is due comes first, and then what was asked for."""
    quick = NEVER_WAITING.with_overrides({"observation.deadline": 300})
    async with Memory(address, model=ScriptedModel(seconds=0.05), clock=clock, config=quick) as memory:
        await chat(memory, clock, 12)
        await memory.thread("t", resource="alice").observe()
        kit = await memory.open()
        await kit.store.messages.save("alice", "t", [UserMessage("about the weather " * 400, id="long")])
        status = await memory.thread("t", resource="alice").reflect()
    assert status.generation == 1


async def test_more_threads_than_are_read_at_once(
    address: str, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under a shared log all threads are observed, also those that the first look did not reach."""
    for place in ("memolog.log.snapshot", "memolog.memory"):
        monkeypatch.setattr(f"{place}.OTHER_ROWS", 3)
    config = NEVER_WAITING.with_overrides({"scope": "resource", "observation.message_tokens": 10_000})
    async with Memory(address, model=ScriptedModel(), clock=clock, config=config) as memory:
        kit = await memory.open()
        for number in range(5):
            said = [UserMessage(f"about the weather {n}") for n in range(4)]
            await kit.store.messages.save("alice", f"t{number}", said)
        await memory.thread("t0", resource="alice").observe()
        threads = [await memory.thread(f"t{number}", resource="alice").status() for number in range(5)]
    assert [status.cursor for status in threads] == [4] * 5
