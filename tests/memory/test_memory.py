"""Whole stories through the public face, on every engine."""

from typing import Any

import pytest

from kit.engines import a_memory
from kit.talk import hold, listen, logged
from memolog import (
    AssistantMessage,
    Config,
    ObservationConfig,
    ReflectionConfig,
    ToolCallPart,
    ToolMessage,
    UserMessage,
)
from memolog.core.run import Usage
from memolog.events import Activated, Decided, GenerationMade
from memolog.memory import Memory
from memolog.testing import FakeClock, ScriptedModel

SMALL = Config(
    observation=ObservationConfig(message_tokens=1_000, previous_tokens=200),
    reflection=ReflectionConfig(observation_tokens=600),
)
memory = a_memory(model=ScriptedModel, config=SMALL)


async def chat(memory: Memory, clock: FakeClock, turns: int, **options: Any) -> list[str]:
    """Hold some turns of small talk; return what the model saw at each, without the edge."""
    seen: list[str] = []
    for number in range(turns):
        async with memory.thread("t1", resource="alice").turn(**options) as turn:
            context = await turn.prepare(UserMessage(f"question {number} " + "about the weather " * 10))
            seen.append(context.render_without_edge())
            await turn.record(AssistantMessage(f"answer {number} " + "it will rain " * 15))
        await memory.settled()
        clock.advance(minutes=1)
    return seen


async def test_a_long_conversation_stays_small_and_nothing_is_lost(memory: Memory, clock: FakeClock) -> None:
    """The tail is activated into the log, the log is reflected, and every message is still there."""
    events = listen(memory)
    await chat(memory, clock, 80)
    status = await memory.thread("t1", resource="alice").status()
    assert status.last_seq == 160
    assert status.messages.tokens < 1_200
    assert status.cursor > 100
    assert any(isinstance(event, Activated) for event in events)
    assert any(isinstance(event, GenerationMade) for event in events)
    store = (await memory.open()).store
    rows = await store.messages.after("alice", "t1", 0)
    assert [row.seq for row in rows] == list(range(1, 161))
    assert rows[0].text.startswith("question 0")


async def test_each_context_extends_the_last_between_activations(memory: Memory, clock: FakeClock) -> None:
    """Outside activations and reflections the next context begins with the last one, byte for byte."""
    events = listen(memory)
    previous, kept, total = "", 0, 0
    for number in range(60):
        before = len(events)
        async with memory.thread("t1", resource="alice").turn() as turn:
            context = await turn.prepare(UserMessage(f"question {number} " + "word " * 30))
            text = context.render_without_edge()
            await turn.record(AssistantMessage("answer " + "word " * 30))
        await memory.settled()
        rewritten = any(isinstance(event, Activated | GenerationMade) for event in events[before:])
        if previous and not rewritten:
            total += 1
            kept += text.startswith(previous)
        previous = text
        clock.advance(minutes=1)
    assert total > 30
    assert kept == total


async def test_tool_loop_keeps_the_request_in_sight(memory: Memory, clock: FakeClock) -> None:
    """In a long tool loop the user's request is repeated once the log has passed it, and pairs stay together."""
    async with memory.thread("t1", resource="alice").turn() as turn:
        context = await turn.prepare(UserMessage("please refactor everything, this is the request"))
        for number in range(40):
            call = ToolCallPart(id=f"c{number}", name="read_file", arguments={"path": f"src/{number}.py"})
            await turn.record(AssistantMessage([f"step {number}", call]))
            context = await turn.prepare(ToolMessage(f"c{number}", "line of code\n" * 20, name="read_file"))
            await memory.settled()
            clock.advance(seconds=5)
    texts = [message.text for message in context.tail]
    assert any("this is the request" in text for text in texts)
    calls = [part.id for message in context.tail for part in message.parts if part.type == "tool_call"]
    results = [part.call_id for message in context.tail for part in message.parts if part.type == "tool_result"]
    assert calls == results


async def test_what_was_seen_can_be_built_again(memory: Memory, clock: FakeClock) -> None:
    """Every context of the thread can be rebuilt from its record, edge included."""
    whole: list[str] = []
    for number in range(25):
        async with memory.thread("t1", resource="alice").turn(zone="Europe/Berlin") as turn:
            context = await turn.prepare(UserMessage(f"question {number} " + "word " * 60))
            whole.append(context.render())
            await turn.record(AssistantMessage("answer " + "word " * 60))
        await memory.settled()
        clock.advance(hours=1)
    for number, text in enumerate(whole, start=1):
        assert (await memory.thread("t1", resource="alice").seen(number)).render() == text


async def test_discard_leaves_no_trace(memory: Memory, clock: FakeClock) -> None:
    """A discarded turn is neither shown nor observed, and its places in the order are kept."""
    await chat(memory, clock, 3)
    async with memory.thread("t1", resource="alice").turn() as turn:
        await turn.prepare(UserMessage("my password is swordfish"))
        await turn.discard()
    context = await hold(memory, "hello again")
    assert "swordfish" not in context.render()
    status = await memory.thread("t1", resource="alice").observe()
    assert status.backlog_tokens == 0
    assert status.cursor == status.last_seq == 8


async def test_discard_can_keep_what_was_answered(memory: Memory) -> None:
    """Of a turn whose last request was refused, what the model had answered stays; what came after goes."""
    call = ToolCallPart(id="c1", name="look", arguments={})
    async with memory.thread("t1", resource="alice").turn() as turn:
        await turn.prepare(UserMessage("look"))
        await turn.record(AssistantMessage([call]))
        await turn.prepare(ToolMessage("c1", "a picture that no provider takes"))
        await turn.discard(keep_answered=True)
    async with memory.thread("t1", resource="alice").turn() as turn:
        context = await turn.prepare(UserMessage("go on"))
        assert [(message.role, message.synthetic) for message in context.messages] == [
            ("user", False),
            ("assistant", False),
            ("tool", True),
            ("user", False),
        ]
        await turn.discard(keep_answered=True)
    assert "go on" not in (await hold(memory, "and now?")).render()


async def test_history_as_of_and_restore(memory: Memory, clock: FakeClock) -> None:
    """Old generations can be listed, read and brought back with all that was activated since."""
    await chat(memory, clock, 60)
    generations = await memory.thread("t1", resource="alice").history()
    assert [g.number for g in generations] == list(range(len(generations)))
    assert generations[-1].kind == "reflection"
    before = await memory.thread("t1", resource="alice").as_of(generations[1].created_at)
    made = await memory.thread("t1", resource="alice").restore(0)
    assert made.restored_from == 0
    after = await memory.thread("t1", resource="alice").as_of(clock.now())
    assert len(after) > len(before)
    assert {group.kind for group in after} == {"observer"}
    await chat(memory, clock, 5)


async def test_what_a_request_has_beside_the_context_is_not_its_size(memory: Memory) -> None:
    """Instructions and tools count on both sides; where nobody knows them, nothing is learned."""
    for thread, beside, factor in (("t1", 5_000, 1.0), ("t2", None, 1.0), ("t3", 0, 4.0)):
        async with memory.thread(thread, resource="alice").turn(model=thread) as turn:
            context = await turn.prepare(UserMessage("word " * 100))
            usage = Usage(model=thread, input_tokens=context.tokens.total + 5_000)
            await turn.record(AssistantMessage("fine"), usage=usage, beside=beside)
        kit = await memory.open()
        assert await kit.factor("alice", thread) == pytest.approx(factor)
        assert (await kit.store.ledger.total("alice", thread=thread)).input_tokens == usage.input_tokens


async def test_every_decision_has_a_reason(memory: Memory, clock: FakeClock) -> None:
    """Decisions are events with readable reasons, kept in the journal."""
    events = listen(memory)
    await chat(memory, clock, 20)
    reasons = [event.reason for event in events if isinstance(event, Decided)]
    assert all(len(reason) > 10 for reason in reasons)
    kit = await memory.open()
    stored = await kit.store.journal.events("alice", thread="t1")
    assert {"Decided", "RunStarted", "RunEnded", "Activated"} <= {event.kind for event in stored}


async def test_a_clone_has_its_own_copy_of_the_log(memory: Memory, clock: FakeClock) -> None:
    """A cloned thread begins with the same log and goes its own way; provenance leads into its own messages."""
    await chat(memory, clock, 60)
    clone = await memory.thread("t1", resource="alice").clone("t2")
    assert clone.cloned_from == "t1"
    one, two = (
        await memory.thread("t1", resource="alice").status(),
        await memory.thread("t2", resource="alice").status(),
    )
    assert (two.cursor, two.last_seq, two.groups) == (one.cursor, one.last_seq, one.groups)
    assert two.observations.tokens == one.observations.tokens
    lines = await logged(memory, "t2")
    assert {source.thread for line in lines for source in line.sources} == {"t2"}
    context = await hold(memory, "and now?", thread="t2")
    assert context.blocks
    made = await memory.thread("t2", resource="alice").restore(0)
    assert made.number == 1
    assert (await memory.thread("t1", resource="alice").status()).last_seq == one.last_seq


@pytest.mark.parametrize("engine_name", ["sqlite", "postgres"], indirect=True)
async def test_logs_merge_after_a_change_of_scope(address: str, clock: FakeClock) -> None:
    """The shared log takes over what the threads' own logs hold, without a model and without doing it twice."""
    async with Memory(address, model=ScriptedModel(), config=SMALL, clock=clock) as memory:
        await chat(memory, clock, 30)
        own = await memory.thread("t1", resource="alice").status()
    model = ScriptedModel()
    shared = SMALL.with_overrides({"scope": "resource"})
    async with Memory(address, model=model, config=shared, clock=clock) as memory:
        assert await memory.resource("alice").merge() == ("t1",)
        assert await memory.resource("alice").merge() == ()
        status = await memory.thread("t1", resource="alice").status()
        assert (status.scope, status.cursor, status.groups) == ("resource", own.cursor, own.groups)
        assert model.requests == []
        context = await hold(memory, "what did I ask in the other conversation?", thread="t2")
        assert 'thread="t1"' in context.system
