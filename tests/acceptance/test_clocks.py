"""Clocks that are set back, and processes that are closed: nobody waits for work that nobody does."""

import asyncio

import pytest

from conftest import FakeClock
from memolog import AssistantMessage, Config, UserMessage
from memolog.runtime.events import Event, Recovered
from memolog.runtime.memory import Memory
from memolog.runtime.model import ModelReply, ModelRequest
from memolog.testing import ScriptedModel

CONFIG = Config.from_dict({"observation": {"message_tokens": 300, "deadline": 0}})
AHEAD = 30


@pytest.fixture(params=("sqlite", "postgres"))
def engine_name(request: pytest.FixtureRequest) -> str:
    """Name the engines on which a memory can be opened again."""
    return request.param


class Hanging(ScriptedModel):
    """A model that never answers."""

    async def complete(self, request: ModelRequest) -> ModelReply:
        await asyncio.Event().wait()
        return await super().complete(request)


async def chat(memory: Memory, clock: FakeClock, turns: int) -> None:
    """Hold some turns."""
    for number in range(turns):
        clock.advance(seconds=1)
        async with memory.turn("t", "alice") as turn:
            await turn.prepare(UserMessage(f"question {number} " + "about the weather " * 10))
            await turn.record(AssistantMessage("it will rain " * 10))


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
    events: list[Event] = []
    async with Memory(address, model=ScriptedModel(), clock=clock, config=CONFIG) as memory:
        memory.subscribe(events.append)
        await chat(memory, clock, 1)
        await memory.settled()
        assert [event for event in events if isinstance(event, Recovered)]
        status = await memory.observe("t", "alice")
        assert (status.running, status.failed, status.cursor) == (0, 0, status.last_seq)
        kit = await memory.open()
        assert max(run.attempt for run in await kit.store.runs.list("alice")) == 1
