"""A Pydantic AI agent with memory: stored messages, requests to the model, and failures."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from pydantic_ai import (
    Agent,
    BinaryImage,
    CancellationToken,
    DeferredToolRequests,
    DeferredToolResults,
    ModelRetry,
    RunContext,
    capture_run_messages,
)
from pydantic_ai.capabilities import ProcessHistory
from pydantic_ai.exceptions import CallDeferred, RunCancelled
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    ModelResponsePart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.fallback import FallbackModel
from pydantic_ai.models.function import AgentInfo

from adapters.kit import brief, check_pairs, stored
from adapters.pydantic_ai_world import Answer, Script, edge_of, saying, words
from memolog import Config, FilePart, InputError, Memory, ToolResultPart
from memolog import TextPart as OurText
from memolog.adapters.pydantic_ai import MemoryCapability

PNG = BinaryImage(b"\x89PNG\xff\xfe\x00", media_type="image/png")


@pytest.fixture
async def memory(tmp_path: Path) -> AsyncIterator[Memory]:
    """Return a memory of this test alone."""
    async with Memory(str(tmp_path / "memolog.db")) as one:
        yield one


def agent_with(memory: Memory, script: Script, **options: Any) -> Agent[Any, Any]:
    """Return an agent whose memory is alice's."""
    capability = MemoryCapability(memory, "alice")
    return Agent(script.model, capabilities=[capability, *options.pop("capabilities", ())], **options)


async def said(memory: Memory, thread: str = "t1", resource: str = "alice") -> list[str]:
    """Return what is stored of a thread, in lines."""
    return brief(await stored(memory, resource, thread))


def calling(*calls: ModelResponsePart, then: str = "done") -> Answer:
    """Return an answer that calls tools once, then says something."""

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        del info
        is_answered = any(isinstance(part, ToolReturnPart) for part in messages[-1].parts)
        return ModelResponse([TextPart(then)] if is_answered else list(calls))

    return answer


def down(*_: object) -> ModelResponse:
    """Fail as a provider that cannot be reached."""
    raise ConnectionError("down")


# ---------------------------------------------------------------- requests


async def test_the_order_of_a_request(memory: Memory) -> None:
    """The caller's instructions come first, then the log, then messages with the edge at the end."""
    script = Script()
    agent = agent_with(memory, script, instructions="Be kind.")
    agent.instructions(lambda: "Always new.")
    await agent.run("the API lives in server/ and the limit is 4,096", conversation_id="t1")
    await memory.thread("t1", resource="alice").observe()
    await agent.run("where is it?", conversation_id="t1")
    instructions = script.infos[1].instructions or ""
    places = [instructions.index(text) for text in ("Be kind.", "memory-search", "server/", "Always new.")]
    assert places == sorted(places)
    assert edge_of(script.requests[1])
    assert "where is it?" in words(script.requests[1][-1].parts[-1])  # pyright: ignore[reportArgumentType]


async def test_the_library_keeps_its_own_history_clean(memory: Memory) -> None:
    """The messages that an agent run returns contain neither the log nor the edge."""
    script = Script()
    agent = agent_with(memory, script, instructions="Be kind.")
    await agent.run("the API lives in server/", conversation_id="t1")
    await memory.thread("t1", resource="alice").observe()
    result = await agent.run("where?", conversation_id="t1")
    text = result.all_messages_json().decode()
    assert "server/" in (script.infos[1].instructions or "")
    assert "server/" not in text
    assert "<now>" not in text
    assert [message.kind for message in result.all_messages()] == ["request", "response"]


async def test_whose_memory_it_is_may_follow_from_the_run(memory: Memory) -> None:
    """A resource, a thread and a zone may be functions of the run's context."""

    @dataclass
    class Deps:
        user: str

    script = Script()
    capability = MemoryCapability[Deps](
        memory, lambda ctx: ctx.deps.user, thread=lambda ctx: f"mail-{ctx.conversation_id}", zone="Asia/Tokyo"
    )
    agent = Agent(script.model, deps_type=Deps, capabilities=[capability])
    runs = [agent.run(f"I am {user}", deps=Deps(user), conversation_id="t1") for user in ("ann", "bob", "cleo")]
    await asyncio.gather(*runs)
    for user in ("ann", "bob", "cleo"):
        assert await said(memory, "mail-t1", user) == [f"user: I am {user}", f"assistant: you said: I am {user}"]
    edge = edge_of(script.requests[0])
    assert edge is not None
    assert "Asia/Tokyo" in edge


async def test_an_empty_answer_has_its_price(memory: Memory) -> None:
    """An empty answer is not stored, but its usage is counted."""
    answers = iter([ModelResponse([]), ModelResponse([TextPart("well")])])

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        del messages, info
        return next(answers)

    await agent_with(memory, Script(answer)).run("hello", conversation_id="t1")
    lines = await said(memory)
    assert (lines[0], lines[-1]) == ("user: hello", "assistant: well")
    assert (await memory.thread("t1", resource="alice").status()).usage.requests == 2


# ---------------------------------------------------------------- what the caller supplies


async def test_supplied_history_is_not_saved_again(memory: Memory) -> None:
    """Messages of earlier agent runs that the caller supplies are not stored again."""
    agent = agent_with(memory, Script())
    first = await agent.run("one", conversation_id="t1")
    second = await agent.run("two", message_history=first.all_messages())
    await agent.run("three", conversation=second.conversation)
    expected = [line for word in ("one", "two", "three") for line in (f"user: {word}", f"assistant: you said: {word}")]
    assert await said(memory) == expected


async def test_a_new_thread_begins_with_the_history_it_is_given(memory: Memory) -> None:
    """If memory is added to a conversation that has begun, the earlier messages are saved once."""
    script = Script()
    before = await Agent(script.model, system_prompt="Be brief.").run("one", conversation_id="t1")
    agent = agent_with(memory, script, system_prompt="Be brief.")
    after = await agent.run("two", message_history=before.all_messages())
    assert await said(memory) == [
        *("user: one", "assistant: you said: one"),
        *("user: two", "assistant: you said: two"),
    ]
    await agent.run("three", message_history=[*before.all_messages(), *after.new_messages()])
    assert len(await said(memory)) == 6
    assert [len(message.parts) for message in script.requests[-1]] == [2, 1, 1, 1, 1]


@pytest.mark.parametrize("kept", [1, 3], ids=["the first question", "a later question"])
async def test_another_answer(memory: Memory, kept: int) -> None:
    """A history that ends with an answered question: the model sees the question once, and no rejected answer."""
    numbers = count(1)

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        del messages, info
        return ModelResponse([TextPart(f"answer {next(numbers)}")])

    script = Script(answer)
    agent = agent_with(memory, script)
    first = await agent.run("one", conversation_id="t1")
    second = await agent.run("two", message_history=first.all_messages(), conversation_id="t1")
    for _ in range(3):
        await agent.run(message_history=second.all_messages()[:kept], conversation_id="t1")
    before = ["user: one", "assistant: answer 1"] if kept > 1 else []
    assert await said(memory) == [*before, f"user: {'two' if kept > 1 else 'one'}", "assistant: answer 5"]
    assert [len(script.requests[-1]), "answer 4" in script.prompts.sent[-1][1]] == [kept, False]
    assert len(await memory.thread("t1", resource="alice").branches()) == 3


async def test_examples_in_every_history(memory: Memory) -> None:
    """Messages that the caller created are the same in each run: nobody went back."""
    agent = agent_with(memory, Script())
    examples = [ModelRequest([UserPromptPart("2+2")]), ModelResponse([TextPart("4")])]
    for text in ("one", "two", "three"):
        await agent.run(text, message_history=examples, conversation_id="t1")
    assert [line for line in await said(memory) if line.startswith("user")][-3:] == [
        *("user: one", "user: two", "user: three"),
    ]


async def test_a_history_of_another_branch(memory: Memory) -> None:
    """A question after an older history takes the place of what came after it, but nobody else's messages are withdrawn."""
    agent = agent_with(memory, Script())
    first = await agent.run("one", conversation_id="t1")
    for text in ("two", "two again"):
        await agent.run(text, message_history=first.all_messages(), conversation_id="t1")
    assert (await said(memory))[2:] == ["user: two again", "assistant: you said: two again"]
    await agent_with(memory, Script()).run("from elsewhere", conversation_id="t1")
    await agent.run("three", message_history=first.all_messages(), conversation_id="t1")
    assert len(await said(memory)) == 8


async def test_a_request_that_failed_is_asked_again(memory: Memory) -> None:
    """An agent run that continues with the request of a failed one does not save it twice."""
    script = Script(down)
    agent = agent_with(memory, script)
    with capture_run_messages() as messages, pytest.raises(ConnectionError):
        await agent.run("hello", conversation_id="t1")
    script.answer = saying(TextPart("mended"))
    result = await agent.run(message_history=messages)
    assert result.output == "mended"
    assert await said(memory) == ["user: hello", "assistant: mended"]


async def test_a_request_of_the_caller_is_saved(memory: Memory) -> None:
    """A request at the end of the supplied history is saved as the question."""
    agent = agent_with(memory, Script())
    history = [ModelRequest([UserPromptPart("from a queue")])]
    await agent.run(message_history=history, conversation_id="t1")
    assert await said(memory) == ["user: from a queue", "assistant: you said: from a queue"]


async def test_a_history_that_is_rewritten_is_saved_once(memory: Memory) -> None:
    """Hooks may remove messages from the history during an agent run. Each message is saved once."""
    script = Script(calling(ToolCallPart("look", {}, "c1")))
    trim = ProcessHistory(lambda messages: messages[-1:])
    agent = agent_with(memory, script, capabilities=[trim])
    agent.tool_plain(name="look")(lambda: "seen")
    for number in range(3):
        script.answer = calling(ToolCallPart("look", {}, f"c{number}"))
        await agent.run(f"turn {number}", conversation_id="t1")
    lines = await said(memory)
    assert len(lines) == 12
    assert lines[:4] == ["user: turn 0", "call c0: look", "result c0", "assistant: done"]


async def test_the_same_answer_twice_is_two_answers(memory: Memory) -> None:
    """Equal answers of one agent run are all stored, even if they are the same object."""
    agent = agent_with(memory, Script(saying(TextPart("again"))), retries=3)
    seen: list[str] = []

    @agent.output_validator
    def third(output: str) -> str:
        seen.append(output)
        if len(seen) < 3:
            raise ModelRetry("once more")
        return output

    await agent.run("say it", conversation_id="t1")
    lines = await said(memory)
    assert lines.count("assistant: again") == 3
    assert [line.split(":")[0] for line in lines] == ["user", "assistant", "system", "assistant", "system", "assistant"]


# ---------------------------------------------------------------- when something goes wrong


async def test_a_cancelled_run_keeps_what_was_said(memory: Memory) -> None:
    """The question stays if the cancellation token of the library ends the agent run."""
    script = Script()
    agent = agent_with(memory, script)
    token, script.stuck = CancellationToken(), asyncio.Event()
    run = asyncio.create_task(agent.run("hello", conversation_id="t1", cancellation_token=token))
    await script.stuck.wait()
    token.cancel()
    with pytest.raises(RunCancelled):
        await run
    assert await said(memory) == ["user: hello"]


async def test_a_hook_that_fails_before_the_model_is_asked(memory: Memory) -> None:
    """The question is stored even if the model was never called."""

    def refuse(messages: list[ModelMessage]) -> list[ModelMessage]:
        raise OSError("rate limit")

    agent = agent_with(memory, Script(), capabilities=[ProcessHistory(refuse)])
    with pytest.raises(OSError, match="rate limit"):
        await agent.run("hello", conversation_id="t1")
    assert await said(memory) == ["user: hello"]


async def test_a_stream_left_half_way_keeps_what_came(memory: Memory) -> None:
    """If the caller raises an exception while it reads a stream, the received words are stored."""
    agent = agent_with(memory, Script())

    async def fail_while_reading() -> None:
        async with agent.run_stream("second words", conversation_id="t1") as stream:
            async for _ in stream.stream_text(delta=True, debounce_by=None):
                raise KeyError("the caller's own")

    with pytest.raises(KeyError):
        await fail_while_reading()
    assert await said(memory) == ["user: second words", "assistant: you"]


async def test_every_way_to_run_an_agent(memory: Memory) -> None:
    """With events, with nodes, and with a loop that the caller leaves, each answer is stored once."""
    agent = agent_with(memory, Script())
    async with agent.run_stream_events("events", conversation_id="t1") as events:
        _ = [event async for event in events]
    async with agent.iter("nodes", conversation_id="t1") as run:
        _ = [node async for node in run]
    async with agent.iter("left", conversation_id="t1") as run:
        async for node in run:
            if Agent.is_call_tools_node(node):
                break
    assert await said(memory) == [
        *("user: events", "assistant: you said: events"),
        *("user: nodes", "assistant: you said: nodes"),
        *("user: left", "assistant: you said: left"),
    ]


async def test_another_model_answers_after_the_first_failed(memory: Memory) -> None:
    """Each model gets the same request, and every message is saved once."""
    first, second = Script(down), Script()
    model = FallbackModel(first.model, second.model, fallback_on=(ConnectionError,))
    agent = Agent(model, capabilities=[MemoryCapability(memory, "alice")])
    await agent.run("one", conversation_id="t1")
    await agent.run("two", conversation_id="t1")
    assert await said(memory) == [
        *("user: one", "assistant: you said: one"),
        *("user: two", "assistant: you said: two"),
    ]
    assert first.prompts.sent == second.prompts.sent


# ---------------------------------------------------------------- what models say and tools return


async def test_structured_output_is_a_pair(memory: Memory) -> None:
    """An answer by an output tool is kept as a call with its result, also after a wrong one."""

    class City(BaseModel):
        name: str
        people: int

    answers = iter([{"name": "Lagos"}, {"name": "Lagos", "people": 15_000_000}])

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        del messages
        return ModelResponse([ToolCallPart(info.output_tools[0].name, next(answers))])

    agent = agent_with(memory, Script(answer), output_type=City)
    result = await agent.run("which city?", conversation_id="t1")
    assert result.output == City(name="Lagos", people=15_000_000)
    rows = await stored(memory, "alice", "t1")
    check_pairs(rows)
    assert [row.role for row in rows] == ["user", "assistant", "tool", "assistant", "tool"]
    wrong, right = (row.parts[0] for row in rows if row.role == "tool")
    assert isinstance(wrong, ToolResultPart)
    assert wrong.is_error
    assert isinstance(right, ToolResultPart)
    assert not right.is_error


async def test_files_go_both_ways(memory: Memory) -> None:
    """Pictures that a user sends and a tool returns are stored as files and sent again as they were."""
    script = Script(calling(ToolCallPart("shot", {}, "c1")))
    agent = agent_with(memory, script)
    agent.tool_plain(name="shot")(lambda: ["here", PNG])
    await agent.run(["what is this?", PNG], conversation_id="t1")
    rows = await stored(memory, "alice", "t1")
    assert [type(part) for part in rows[0].parts] == [OurText, FilePart]
    result = rows[2].parts[0]
    assert isinstance(result, ToolResultPart)
    assert [file.data for file in result.files] == [PNG.data]
    script.answer = script.echo
    await agent.run("and now?", conversation_id="t1")
    sent = [part for message in script.requests[-1] for part in message.parts]
    assert isinstance(sent[0], UserPromptPart)
    assert sent[0].content == ["what is this?", PNG]
    assert isinstance(sent[2], ToolReturnPart)
    assert sent[2].files == [PNG]


async def test_deferred_calls_are_answered_by_a_later_run(memory: Memory) -> None:
    """A call that waits for a person gets its result in a later agent run, and they form a pair."""
    script = Script(calling(ToolCallPart("pay", {"sum": 3}, "c1")))
    agent = agent_with(memory, script, output_type=[str, DeferredToolRequests])

    @agent.tool_plain
    def pay(sum: int) -> str:  # noqa: A002
        raise CallDeferred

    first = await agent.run("pay three", conversation_id="t1")
    assert isinstance(first.output, DeferredToolRequests)
    assert await said(memory) == ["user: pay three", "call c1: pay"]
    results = DeferredToolResults(calls={"c1": "paid"})
    second = await agent.run(message_history=first.all_messages(), deferred_tool_results=results)
    assert second.output == "done"
    rows = await stored(memory, "alice", "t1")
    check_pairs(rows)
    assert brief(rows) == ["user: pay three", "call c1: pay", "result c1", "assistant: done"]


async def test_an_answer_that_its_provider_paused(memory: Memory) -> None:
    """The provider gets its paused answer back unchanged, and the whole answer is stored once."""
    script = Script(saying(TextPart("and done")))
    paused = [
        ModelRequest([UserPromptPart("start")], run_id="r0"),
        ModelResponse([TextPart("half")], state="suspended", run_id="r0"),
    ]
    agent = agent_with(memory, script)
    result = await agent.run(message_history=paused, conversation_id="t1")
    assert result.output == "halfand done"
    assert [part.part_kind for message in script.requests[0] for part in message.parts] == ["user-prompt", "text"]
    assert await said(memory) == ["user: start", "assistant: half", "assistant: and done"]
    assert len(await stored(memory, "alice", "t1")) == 2


async def test_words_that_come_while_a_tool_runs(memory: Memory) -> None:
    """A message that a tool enqueues is part of the conversation."""
    script = Script(calling(ToolCallPart("look", {}, "c1")))
    agent = agent_with(memory, script)

    @agent.tool
    def look(ctx: RunContext[Any]) -> str:
        ctx.enqueue("wait, also check the tests")
        return "seen"

    await agent.run("go", conversation_id="t1")
    assert await said(memory) == [
        *("user: go", "call c1: look", "result c1"),
        *("user: wait, also check the tests", "assistant: done"),
    ]


# ---------------------------------------------------------------- tools


async def test_an_agent_may_do_without_the_tools(memory: Memory) -> None:
    """Memory without tools adds none, and no guidance."""
    script = Script()
    agent = Agent(script.model, capabilities=[MemoryCapability(memory, "alice", tools=False)])
    await agent.run("hello", conversation_id="t1")
    assert script.infos[0].function_tools == []
    assert "memory-search" not in (script.infos[0].instructions or "")


# ---------------------------------------------------------------- settings


async def test_settings_differ_for_these_runs(memory: Memory) -> None:
    """An agent run may have its own settings. With `read_only` it stores nothing."""
    script = Script()
    await agent_with(memory, script).run("one", conversation_id="t1")
    reader = Agent(script.model, capabilities=[MemoryCapability(memory, "alice", settings={"read_only": True})])
    await reader.run("two", conversation_id="t1")
    assert [tool.name for tool in script.infos[1].function_tools] == ["task-query", "memory-search"]
    assert await said(memory) == ["user: one", "assistant: you said: one"]
    assert [len(message.parts) for message in script.requests[1]] == [1, 1, 1]


async def test_wrong_settings_are_told(memory: Memory) -> None:
    """An unknown setting is rejected when the agent run begins."""
    agent = Agent(Script().model, capabilities=[MemoryCapability(memory, "alice", mode="dreaming")])
    with pytest.raises(Exception, match="dreaming"):
        await agent.run("hello", conversation_id="t1")


async def test_a_message_that_cannot_be_stored_is_told(tmp_path: Path) -> None:
    """The caller gets an error for a message that is too large."""
    async with Memory(str(tmp_path / "m.db"), config=Config(max_message_bytes=2_000)) as memory:
        with pytest.raises(InputError, match="2,000"):
            await agent_with(memory, Script()).run("x" * 3_000, conversation_id="t1")


# ---------------------------------------------------------------- as a user meets it


def test_memory_cannot_be_loaded_later(tmp_path: Path) -> None:
    """`defer_loading` is rejected, because memory that is loaded later misses earlier messages."""
    with pytest.raises(InputError, match="loaded later"):
        MemoryCapability(Memory(str(tmp_path / "m.db")), "alice", defer_loading=True)


def test_runs_without_a_loop(tmp_path: Path) -> None:
    """`run_sync` works with memory."""
    memory = Memory(str(tmp_path / "m.db"))
    script = Script()
    agent = agent_with(memory, script)
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    try:
        agent.run_sync("one", conversation_id="t1")
        agent.run_sync("two", conversation_id="t1")
        assert len(script.requests[-1]) == 3
        loop.run_until_complete(memory.aclose())
    finally:
        asyncio.set_event_loop(None)
        loop.close()


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"child": "readonly"}, "'own', 'shared', 'read_only'"),
        ({"child": ["own"]}, "'own', 'shared', 'read_only'"),
        ({"resource": 3}, "resource"),
        ({"resource": None}, "resource"),
        ({"thread": 3}, "thread"),
        ({"zone": 3}, "zone"),
    ],
)
async def test_what_cannot_be_is_refused_at_once(memory: Memory, options: Any, named: str) -> None:
    """Wrong arguments are rejected when the capability is created, not during an agent run."""
    given: dict[str, Any] = {"memory": memory, "resource": "alice", **options}
    with pytest.raises(InputError, match=named) as told:
        MemoryCapability(**given)
    assert told.value.then
