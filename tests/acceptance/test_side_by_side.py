"""Two turns of one thread at once, whose models give their calls the same ids."""

import pytest

from memolog import AssistantMessage, Context, Memory, ToolMessage, UserMessage
from memolog.domain.message import NewMessage, ToolCallPart, ToolResultPart
from memolog.testing import FakeClock, ScriptedModel


def pairs(context: Context) -> dict[str, object]:
    """Return what each tool was answered; every call must be followed by its result."""
    found: dict[str, object] = {}
    for message, following in zip(context.messages, context.messages[1:], strict=False):
        for part in message.parts:
            if isinstance(part, ToolCallPart):
                (result,) = following.parts
                assert isinstance(result, ToolResultPart)
                assert result.call_id == part.id
                found[part.name] = result.content
    return found


def call(tool: str) -> NewMessage:
    """Return an answer that calls a tool, with the id that this provider begins every turn with."""
    return AssistantMessage([ToolCallPart(id="call_1", name=tool, arguments={})])


@pytest.mark.parametrize("first", ["weather", "time"])
async def test_each_result_stays_with_the_call_of_its_own_turn(address: str, clock: FakeClock, first: str) -> None:
    """Whoever answers first: both models see their own result behind their own call."""
    async with (
        Memory(address, clock=clock) as memory,
        memory.turn("t", "alice") as one,
        memory.turn("t", "alice") as two,
    ):
        await one.prepare(UserMessage("What is the weather?"))
        await one.record(call("weather"))
        await two.prepare(UserMessage("What is the time?"))
        await two.record(call("time"))
        answers = {"weather": (one, "sunny"), "time": (two, "noon")}
        (turn, said), (other, said_then) = answers.pop(first), next(iter(answers.values()))
        context = await turn.prepare(ToolMessage("call_1", said))
        assert pairs(context)[first] == said
        context = await other.prepare(ToolMessage("call_1", said_then))
        assert pairs(context) == {"weather": "sunny", "time": "noon"}


async def test_a_span_holds_the_pairs_of_both_turns(address: str, clock: FakeClock) -> None:
    """What is observed together is a call and its own result, also where another turn stands in between."""
    model = ScriptedModel()
    async with Memory(address, clock=clock, model=model) as memory:
        async with memory.turn("t", "alice") as one, memory.turn("t", "alice") as two:
            await one.prepare(UserMessage("What is the weather? " * 40))
            await one.record(call("weather"))
            await two.prepare(UserMessage("What is the time? " * 40))
            await two.record(call("time"))
            await one.prepare(ToolMessage("call_1", "sunny " * 100))
            await two.prepare(ToolMessage("call_1", "noon " * 100))
            await two.record(AssistantMessage("It is noon. " * 40))
            await one.record(AssistantMessage("It is sunny."))
        await memory.override("t", "alice", {"observation.message_tokens": 200})
        await memory.observe("t", "alice")
    assert len(model.requests) > 1
    for request in model.requests:
        for tool, said in (("weather", "sunny"), ("time", "noon")):
            assert (f"<call>{tool}" in request.text) == (f"<result>{tool}\n{said}" in request.text), request.text
            assert 'state="no result"' not in request.text


async def test_the_embedded_observer_reads_each_call_with_its_own_result(address: str, clock: FakeClock) -> None:
    """A provider that begins to count anew in every turn is understood: each call has its own outcome."""
    async with Memory(address, clock=clock) as memory:
        for tool, said in (("run_tests", "2 failed, 5 passed"), ("deploy", "deployed to staging")):
            async with memory.turn("t", "alice") as turn:
                await turn.prepare(UserMessage(f"Please use {tool}."))
                await turn.record(call(tool))
                await turn.prepare(ToolMessage("call_1", said))
                await turn.record(AssistantMessage("Done."))
        await memory.observe("t", "alice")
        kit = await memory.open()
        snapshot = await kit.store.logs.snapshot("alice", "t", "thread")
        lines = "\n".join(group.text for group in snapshot.groups).splitlines()
        outcomes = [line for line in lines if "run_tests" in line or "deploy" in line]
        assert any("run_tests" in line and "2 failed" in line for line in outcomes), lines
        assert any("deploy" in line and "staging" in line for line in outcomes), lines
        assert not any("deploy" in line and "2 failed" in line for line in outcomes), lines
