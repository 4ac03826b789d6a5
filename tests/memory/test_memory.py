"""Whole stories through the public face, on every engine."""

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
from memolog.events import Activated, Degraded, GenerationMade
from memolog.memory import Memory
from memolog.testing import FakeClock, ScriptedModel

SMALL = Config(
    observation=ObservationConfig(message_tokens=1_000, previous_tokens=200),
    reflection=ReflectionConfig(observation_tokens=600),
)
memory = a_memory(model=ScriptedModel, config=SMALL)


async def chat(memory: Memory, clock: FakeClock, turns: int) -> None:
    """Hold some turns of small talk."""
    for number in range(turns):
        question, answer = f"question {number} " + "about the weather " * 10, f"answer {number} " + "it will rain " * 15
        await hold(memory, question, answer)
        await memory.settled()
        clock.advance(minutes=1)


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
            ("assistant", True),
            ("user", False),
        ]
        await turn.discard(keep_answered=True)
    assert "go on" not in (await hold(memory, "and now?")).render()


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


OF_THREADS = Config.from_dict({"observation": {"message_tokens": 300}, "scope": "thread"})
OF_RESOURCE = OF_THREADS.with_overrides({"scope": "resource"})


async def tell(memory: Memory, turns: int, thread: str = "a") -> str:
    """Hold some turns; return the log as the last one saw it."""
    system = ""
    for number in range(turns):
        system = (await hold(memory, f"The limit of q{number} is {number * 100}.", "Done. " * 30, thread=thread)).system
        await memory.settled()
    return system


@pytest.mark.parametrize("engine_name", ["sqlite", "postgres"], indirect=True)
async def test_a_clone_under_a_shared_log(address: str, clock: FakeClock) -> None:
    """It is covered as far as its original, by a group that says so, and goes on from there by itself."""
    async with Memory(address, clock=clock, config=OF_RESOURCE) as memory:
        await tell(memory, 10)
        source = await memory.thread("a", resource="alice").observe()
        await memory.thread("a", resource="alice").clone("b")
        status = await memory.thread("b", resource="alice").status()
        assert (status.cursor, status.last_seq) == (source.cursor, source.last_seq)
        await memory.thread("b", resource="alice").observe()
        kit = await memory.open()
        copied = [run for run in await kit.store.runs.list("alice") if run.thread == "b"]
        assert [run.inputs for run in copied] == [{"cloned_from": "a"}]
        system = await tell(memory, 1, "b")
        assert system.count("limit of q7 is 700") == 1
        await memory.thread("b", resource="alice").observe()
        assert (await memory.thread("b", resource="alice").status()).cursor == source.cursor + 2
        assert (await memory.doctor()).is_healthy
        await memory.resource("alice").forget(thread="a")
        assert (await memory.doctor()).is_healthy


@pytest.mark.parametrize("engine_name", ["sqlite", "postgres"], indirect=True)
async def test_a_merge_says_what_it_leaves(address: str, clock: FakeClock) -> None:
    """What the shared log has observed by itself stays there; a thread that was merged before is no news."""
    for config, thread in ((OF_RESOURCE, "a"), (OF_THREADS, "a"), (OF_THREADS, "b")):
        async with Memory(address, clock=clock, config=config) as memory:
            await tell(memory, 10, thread)
            await memory.thread(thread, resource="alice").observe()
    async with Memory(address, clock=clock, config=OF_RESOURCE) as memory:
        events = listen(memory)
        assert await memory.resource("alice").merge() == ("b",)
        assert await memory.resource("alice").merge() == ()
        assert (await memory.doctor()).is_healthy
    told = [event for event in events if isinstance(event, Degraded)]
    assert [(event.thread, event.what) for event in told] == [("a", "merging a log")] * 2
    assert "already observed it" in told[0].error
