"""What a model never takes: it is found, named in the log, and holds nothing up; an outage is waited for all the same."""

import asyncio
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from kit.engines import engines
from kit.talk import Story, stories
from memolog import AssistantMessage, Config, UserMessage
from memolog.events import Degraded, RunEnded, RunFailed
from memolog.memory import Memory
from memolog.observer.model import ModelReply, ModelRequest, ModelUnavailable
from memolog.store import Store
from memolog.testing import FakeClock, ScriptedModel

MISSING = "could not be observed"
engine_name = engines("sqlite", "postgres")


class Picky(ScriptedModel):
    """A model that fails wherever it is shown some words."""

    def __init__(self, words: str, fails: Callable[[], str]) -> None:
        super().__init__()
        self.words, self.fails = words, fails
        self.in_vain = 0

    async def complete(self, request: ModelRequest) -> ModelReply:
        if self.words in request.text:
            self.in_vain += 1
            return ModelReply(text=self.fails())
        return await super().complete(request)


def refused() -> str:
    """Refuse the call, as a content filter does."""
    raise RuntimeError("400 content_filter")


class Talk(Story):
    """A story with tiny windows, and its health after each turn."""

    thread = "t"

    def __init__(self, address: str, clock: FakeClock, model: ScriptedModel, **settings: Any) -> None:
        small = {
            "observation": {"message_tokens": 300, "previous_tokens": 100},
            "reflection": {"observation_tokens": 100_000},
        }
        super().__init__(address, clock, model, config=Config.from_dict(small | settings))
        self.health: list[str] = []

    async def chat(self, turns: int, *, odd: int | None = None) -> None:
        """Hold some turns, an hour apart; one of them has the words."""
        for number in range(turns):
            self.clock.advance(hours=1)
            async with self.memory.thread("t", resource="alice").turn() as turn:
                words = "FORBIDDEN " if number == odd else ""
                await turn.prepare(UserMessage(f"{words}The limit of q{number} is {number * 100}."))
                await turn.record(AssistantMessage("Done. " * 15))
            await self.memory.settled()
            self.health.append((await self.memory.thread("t", resource="alice").status()).health)


Open = Callable[..., Talk]
tell = stories(Talk)


async def test_one_message_that_is_always_refused(tell: Open) -> None:
    """The log goes on behind it; a line says what is missing, an event that it is, and little is paid in vain."""
    model = Picky("FORBIDDEN", refused)
    story = tell(model)
    await story.chat(30, odd=3)
    status = await story.memory.thread("t", resource="alice").status()
    assert (status.health, status.failed) == ("ok", 0)
    assert status.messages.tokens < status.messages.limit
    system = await story.log()
    assert system.count(MISSING) == 1
    assert "FORBIDDEN" not in system
    assert model.in_vain < 10
    (degraded,) = story.told(Degraded)
    assert "content_filter" in degraded.error
    assert [event.faults for event in story.told(RunEnded) if "stood_in" in event.faults]
    assert (await story.memory.doctor()).is_healthy
    (hit,) = (await story.memory.resource("alice").search("FORBIDDEN", thread="t")).results[:1]
    assert "q3" in hit.content


async def test_health_while_the_head_is_stuck(tell: Open) -> None:
    """Runs behind it that succeed do not make it well."""
    story = tell(Picky("FORBIDDEN", refused))
    await story.chat(12, odd=0)
    first, last = story.health.index("failing"), 11 - story.health[::-1].index("failing")
    assert set(story.health[first : last + 1]) == {"failing"}
    assert last - first >= 3
    assert story.health[-1] == "ok"


async def test_a_message_without_a_usable_answer(tell: Open) -> None:
    """A line says that it is missing; its words would make the model fail on whatever shows the log's end."""
    story = tell(Picky("FORBIDDEN", lambda: ""))
    await story.chat(30, odd=3)
    assert (await story.memory.thread("t", resource="alice").status()).health == "ok"
    system = await story.log()
    assert system.count(MISSING) == 1
    assert "FORBIDDEN" not in system


async def test_a_model_that_is_not_there(tell: Open) -> None:
    """Nothing is missing from the log because a model was away for a day."""
    model = Picky("limit", refused)
    story = tell(model)
    await story.chat(24)
    status = await story.memory.thread("t", resource="alice").status()
    assert (status.health, status.cursor) == ("failing", 0)
    model.words = "nobody says this"
    story.clock.advance(hours=1)
    await story.memory.thread("t", resource="alice").observe()
    status = await story.memory.thread("t", resource="alice").status()
    assert (status.health, status.cursor) == ("ok", status.last_seq)
    assert MISSING not in await story.log()


@pytest.mark.parametrize("error", [asyncio.CancelledError(), GeneratorExit("gone"), BaseException("odd")])
async def test_a_model_that_raises_what_it_should_not(tell: Open, error: BaseException) -> None:
    """Nobody cancelled it: that is a failure like any other, noted and tried ever more slowly."""

    def raises() -> str:
        raise error

    model = Picky("limit", raises)
    story = tell(model)
    await story.chat(3)
    failed = story.told(RunFailed)
    assert failed
    assert all(event.retry_at is not None and type(error).__name__ in event.error for event in failed)
    assert story.health[-1] == "failing"
    model.words = "nobody says this"
    await story.chat(3)
    assert story.health[-1] == "ok"


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt()])
def test_an_exit_is_noted_and_goes_through(tmp_path: Path, error: BaseException) -> None:
    """It ends the program; the next one need not wait for the run to be given up."""

    def raises() -> str:
        raise error

    stores: list[Store] = []

    async def until_exit() -> None:
        story = Talk(address, FakeClock(), Picky("limit", raises))
        stores.append((await story.memory.open()).store)
        await story.chat(5)

    async def after() -> list[str]:
        async with Memory(address, clock=FakeClock()) as memory:
            kit = await memory.open()
            return [f"{run.status} {run.error}" for run in await kit.store.runs.list("alice")]

    address = str(tmp_path / "exit.db")
    with pytest.raises(type(error)):
        asyncio.run(until_exit())
    # A program that ends takes its threads along; this one goes on.
    asyncio.run(stores[0].close())
    assert [text.split(":")[0] for text in asyncio.run(after())] == [f"failed {type(error).__name__}"]


async def test_a_way_that_is_broken_for_a_while(tell: Open) -> None:
    """A provider that cannot be reached has refused nothing, even if it answers now and then."""

    def away() -> str:
        raise ModelUnavailable("The model cannot be reached.")

    model = Picky("FORBIDDEN", away)
    story = tell(model)
    await story.chat(6, odd=0)
    failed = len(story.told(RunFailed))
    assert failed >= 3
    model.words = "nobody says this"
    await story.chat(4)
    assert MISSING not in await story.log()
    assert (await story.memory.thread("t", resource="alice").status()).health == "ok"


async def test_a_span_of_nothing_else(tell: Open) -> None:
    """A span in which nothing else was said is tried for so long as nobody knows whether the model works at all."""
    story = tell(Picky("FORBIDDEN", refused))
    await story.chat(1, odd=0)
    await story.memory.thread("t", resource="alice").observe()
    await story.chat(12)
    system = await story.log()
    assert system.count(MISSING) == 1


async def test_a_reflection_that_never_fits(tell: Open) -> None:
    """The embedded reflector takes over, and the log does not grow for ever."""

    class Talkative(ScriptedModel):
        async def complete(self, request: ModelRequest) -> ModelReply:
            if request.purpose == "reflect":
                return ModelReply(text="I would rather not.")
            return await super().complete(request)

    story = tell(Talkative(), reflection={"observation_tokens": 200, "keep_recent": {"hours": 0, "observations": 5}})
    await story.chat(60)
    status = await story.memory.thread("t", resource="alice").status()
    assert status.generation > 0
    assert any("stood_in" in event.faults for event in story.told(RunEnded))
    assert (await story.memory.doctor()).is_healthy


class Running(FakeClock):
    """A clock that runs: it is a little later whenever it is read."""

    def now(self) -> datetime:
        self.advance(seconds=0.01)
        return super().now()


async def test_observing_by_hand_goes_on_after_a_refused_reflection(
    tell: Open, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the log rests after the failure no observation may start. The call waits for that, and observes all messages."""

    class Reluctant(ScriptedModel):
        refusals = 2

        async def complete(self, request: ModelRequest) -> ModelReply:
            if request.purpose == "reflect" and self.refusals:
                self.refusals -= 1
                refused()
            return await super().complete(request)

    small = {"observation_tokens": 600, "keep_recent": {"hours": 0, "observations": 3}}
    monkeypatch.setattr("memolog.memory._POLL_SECONDS", 0.001)
    story = tell(Reluctant(), reflection=small)
    story.memory._connection.clock = Running(clock.time)
    thread = story.memory.thread("t", resource="alice")
    said = [
        (UserMessage(f"The limit of q{number} is {number * 100}."), AssistantMessage("Done. " * 15))
        for number in range(300)
    ]
    await thread.save([message for pair in said for message in pair])
    status = await thread.observe()
    assert "reflect" in {event.run_kind for event in story.told(RunFailed)}
    assert (status.cursor, status.backlog_tokens) == (600, 0)
