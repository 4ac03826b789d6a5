"""What is asked for by hand is waited for, whatever the deadline of turns says."""

import asyncio

import pytest

from acceptance.test_clocks import LASTS, LEASE, Hanging, beat, chat
from kit.engines import engines
from kit.talk import listen
from memolog import Config, UserMessage
from memolog.runtime.events import Degraded
from memolog.runtime.memory import Memory
from memolog.runtime.model import ModelReply, ModelRequest
from memolog.testing import FakeClock, ScriptedModel

CONFIG = Config.from_dict({"observation": {"message_tokens": 300, "deadline": 0}, **LEASE})
engine_name = engines("sqlite", "postgres")


class Slow(ScriptedModel):
    """A model that takes a moment for each answer."""

    async def complete(self, request: ModelRequest) -> ModelReply:
        await asyncio.sleep(0.05)
        return await super().complete(request)


@pytest.mark.parametrize("lease", [LEASE, {"lease": 0.02, "heartbeat": 0.01}])
async def test_observe_waits_where_turns_never_do(address: str, clock: FakeClock, lease: dict[str, float]) -> None:
    """All of it is observed when the call returns, however long it takes, and no wait in vain is held against the model."""
    async with Memory(address, model=Slow(), clock=clock, config=CONFIG.with_overrides(lease)) as memory:
        events = listen(memory)
        await chat(memory, clock, 6)
        status = await memory.observe("t", "alice")
    assert (status.health, status.running, status.failed, status.cursor) == ("ok", 0, 0, status.last_seq)
    assert not [event for event in events if isinstance(event, Degraded)]


async def test_observe_waits_for_the_run_of_another_memory(address: str, clock: FakeClock) -> None:
    """It lasts longer than a lease, which is prolonged: nobody is asked twice."""
    thought = asyncio.Event()
    theirs, ours = Hanging(thought), ScriptedModel()
    async with Memory(address, model=theirs, clock=clock, config=CONFIG) as busy:
        await chat(busy, clock, 6)
        await busy.buffer("t", "alice")
        async with Memory(address, model=ours, clock=clock, config=CONFIG) as memory:
            observing = asyncio.create_task(memory.observe("t", "alice"))
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
    async with Memory(address, model=Slow(), clock=clock, config=CONFIG) as memory:
        await chat(memory, clock, 12)
        before = await memory.observe("t", "alice")
        assert before.generation == 0
        status = await memory.reflect("t", "alice")
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

    async with Memory(address, model=Listening(), clock=clock, config=CONFIG) as memory:
        await chat(memory, clock, 2)
        await memory.settled()
        begun = (await memory.status("t", "alice")).last_seq

        async def talk() -> None:
            while True:
                await chat(memory, clock, 1)
                async with said:
                    said.notify_all()
                await asyncio.sleep(0.02)

        is_talking = True
        talking = asyncio.create_task(talk())
        status = await asyncio.wait_for(memory.observe("t", "alice"), 120)
        is_talking = False
        async with said:
            said.notify_all()
        talking.cancel()
        await asyncio.wait({talking})
    assert begun <= status.cursor < status.last_seq


async def test_a_full_tail_does_not_take_the_place_of_a_reflection(address: str, clock: FakeClock) -> None:
    """What is due comes first, and then what was asked for."""
    quick = CONFIG.with_overrides({"observation.deadline": 300})
    async with Memory(address, model=Slow(), clock=clock, config=quick) as memory:
        await chat(memory, clock, 12)
        await memory.observe("t", "alice")
        kit = await memory.open()
        await kit.store.messages.save("alice", "t", [UserMessage("about the weather " * 400, id="long")])
        status = await memory.reflect("t", "alice")
    assert status.generation == 1


async def test_more_threads_than_are_read_at_once(
    address: str, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under a shared log all threads are observed, also those that the first look did not reach."""
    for place in ("memolog.store.snapshot", "memolog.runtime.catching_up"):
        monkeypatch.setattr(f"{place}.OTHER_ROWS", 3)
    config = CONFIG.with_overrides({"scope": "resource", "observation.message_tokens": 10_000})
    async with Memory(address, model=ScriptedModel(), clock=clock, config=config) as memory:
        kit = await memory.open()
        for number in range(5):
            said = [UserMessage(f"about the weather {n}") for n in range(4)]
            await kit.store.messages.save("alice", f"t{number}", said)
        await memory.observe("t0", "alice")
        threads = [await memory.status(f"t{number}", "alice") for number in range(5)]
    assert [status.cursor for status in threads] == [4] * 5
