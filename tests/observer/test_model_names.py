"""The names that one model goes by: turns of one model are turns of one model, and what is learned of it is found again."""

import pytest

from kit.engines import engines
from kit.talk import hold, listen
from memolog import AssistantMessage, Config, Memory, Usage, UserMessage
from memolog.events import Activated, Decided
from memolog.testing import FakeClock, ScriptedModel

engine_name = engines("sqlite", "postgres")


ASKED, TOLD = "openai-responses:gpt-5-mini", "gpt-5-mini-2025-08-07"
SMALL = Config().with_overrides({"observation": {"message_tokens": 4_000, "buffer_tokens": 300}})


async def turns(memory: Memory, clock: FakeClock, count: int, *, asked: str | None, told: str, times: int = 1) -> None:
    """Say something long in each turn; the provider reports so many times as many tokens as we count."""
    for number in range(count):
        clock.advance(seconds=10)
        async with memory.thread("t1", resource="alice").turn() as turn:
            context = await turn.prepare(UserMessage(f"step {number}: " + "word " * 150), model=asked)
            usage = Usage(model=told, input_tokens=context.tokens.total * times, output_tokens=5)
            await turn.record(AssistantMessage("fine"), model=told, usage=usage)
            await turn.prepare(UserMessage("go on"))
            await turn.record(AssistantMessage("done"), model=told)
        await memory.settled()


def opened(address: str, clock: FakeClock, config: Config = SMALL) -> Memory:
    """Return a memory with an observer that always answers."""
    return Memory(address, config=config, model=ScriptedModel(), clock=clock)


async def test_the_name_in_a_response_is_no_change_of_model(address: str, clock: FakeClock) -> None:
    """Who asks for an alias and records the dated name keeps the prompt cache: nothing is activated early."""
    async with opened(address, clock) as memory:
        events = listen(memory)
        await turns(memory, clock, 11, asked=ASKED, told=TOLD)
        assert (await memory.thread("t1", resource="alice").status()).buffered_groups > 0
        assert [event.reason for event in events if isinstance(event, Decided) and event.decision == "Activate"] == []
        await turns(memory, clock, 1, asked="openai:gpt-5", told="gpt-5-2025-08-07")
        assert [event for event in events if isinstance(event, Activated)]


@pytest.mark.parametrize(
    ("asked", "told", "later"),
    [
        pytest.param(ASKED, TOLD, "openai:gpt-5-mini", id="asked for and reported under two names"),
        pytest.param(None, TOLD, None, id="named by the answer alone"),
        pytest.param("azure:our-deployment", TOLD, "our-deployment", id="a deployment with a name of its own"),
    ],
)
async def test_what_is_learned_of_a_model_counts_in_later_turns(
    asked: str | None, told: str, later: str | None, address: str, clock: FakeClock
) -> None:
    """A model that counts three times our tokens fills its window three times as fast, under all of its names."""
    async with opened(address, clock, Config()) as memory:
        await turns(memory, clock, 5, asked=asked, told=told, times=3)
    once = Config().with_overrides({"observation": {"message_tokens": 4_000, "buffer_tokens": 2_000}})
    async with opened(address, clock, once) as memory:
        events = listen(memory)
        await hold(memory, "and now?", model=later)
        assert "Buffer" in [event.decision for event in events if isinstance(event, Decided)]


async def test_another_model_that_answers_teaches_nothing_about_the_one_asked_for(
    address: str, clock: FakeClock
) -> None:
    """A fallback counts in its own way, and is no change of the model that is asked for."""
    async with opened(address, clock) as memory:
        await turns(memory, clock, 2, asked="gpt-5", told="claude-sonnet-4-5-20250929", times=3)
        kit = await memory.open()
        assert await kit.factor("alice", "openai:gpt-5") == 1.0
        assert await kit.factor("alice", "anthropic:claude-sonnet-4-5") == pytest.approx(3.0)
