"""Guards of LangChain between memory and the model: a stopped turn is withdrawn."""

from pathlib import Path
from typing import Any

import pytest
from langchain import agents
from langchain.agents.middleware import (
    AgentMiddleware,
    PIIDetectionError,
    PIIMiddleware,
    after_agent,
    after_model,
    before_agent,
    before_model,
    wrap_model_call,
)
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver

from adapters.kit import brief, stored
from adapters.langchain.scripted import Scripted, called, last_question, told, weather
from memolog import Memory, SyncMemory
from memolog.adapters.langchain import MemoryMiddleware, guarded

# Its types tell the states of middlewares apart, which is not what is tested here.
create_agent: Any = agents.create_agent
HERE: Any = {"configurable": {"thread_id": "t1", "resource": "alice"}}
REFUSAL = {"messages": [AIMessage("I cannot help with that.")], "jump_to": "end"}


def script(messages: list[BaseMessage]) -> AIMessage:
    """Answer; a question about the weather needs a tool, one about the secret is answered with it."""
    asked = last_question(messages)
    if "weather" in asked and not isinstance(messages[-1], ToolMessage):
        return called("weather", "c1", city="Rome")
    return told("write to spy@example.org" if "secret" in asked else f"about {asked}")


def said(text: str) -> dict[str, Any]:
    """Return the input of a run."""
    return {"messages": [{"role": "user", "content": text}]}


def is_bad(messages: list[BaseMessage]) -> bool:
    """Tell whether the last message is one that these guards stop."""
    return any(word in str(messages[-1].content) for word in ("bad", "spy@", "sunny"))


@before_agent(can_jump_to=["end"])
def at_the_door(state: Any, runtime: Any) -> dict[str, Any] | None:
    """Look at a question once."""
    return REFUSAL if is_bad(state["messages"]) else None


@before_model(can_jump_to=["end"])
def at_each_step(state: Any, runtime: Any) -> dict[str, Any] | None:
    """Look at questions and results."""
    return REFUSAL if is_bad(state["messages"]) else None


@after_model(can_jump_to=["end"])
def at_the_exit(state: Any, runtime: Any) -> dict[str, Any] | None:
    """Look at answers."""
    return REFUSAL if is_bad(state["messages"]) else None


@pytest.mark.parametrize(
    ("guard", "text"),
    [
        (at_the_door, "a bad question"),
        (at_each_step, "a bad question"),
        (at_each_step, "what about the weather"),
        (at_the_exit, "tell me the secret"),
    ],
    ids=["question", "question-at-a-step", "result-at-a-later-step", "answer"],
)
@pytest.mark.parametrize("has_saver", [True, False], ids=["checkpointer", "alone"])
async def test_a_guard_that_jumps_to_the_end(tmp_path: Path, guard: Any, text: str, has_saver: bool) -> None:
    """The stopped turn is withdrawn, the refusal is not stored, and the turns before and after stay."""
    async with Memory(tmp_path / "m.db") as memory:
        model = Scripted(script=script)
        bot = create_agent(
            model,
            [weather],
            middleware=[MemoryMiddleware(memory), guard],
            checkpointer=InMemorySaver() if has_saver else None,
        )
        await bot.ainvoke(said("one"), HERE)
        stopped = await bot.ainvoke(said(text), HERE)
        assert stopped["messages"][-1].content == "I cannot help with that."
        history = [] if has_saver else stopped["messages"]
        await bot.ainvoke({"messages": [*history, {"role": "user", "content": "two"}]}, HERE)
        rows = await stored(memory, "alice", "t1")
    assert brief(rows) == ["user: one", "assistant: about one", "user: two", "assistant: about two"]
    assert text not in str(model.received[-1])


@pytest.mark.parametrize("guard", [at_the_door, at_each_step], ids=["door", "step"])
async def test_a_first_turn_that_is_stopped(tmp_path: Path, guard: Any) -> None:
    """If the stopped turn is sent again as history, it is not saved as an earlier conversation."""
    async with Memory(tmp_path / "m.db") as memory:
        bot = create_agent(Scripted(script=script), middleware=[MemoryMiddleware(memory), guard])
        stopped = await bot.ainvoke(said("a bad question"), HERE)
        await bot.ainvoke({"messages": [*stopped["messages"], {"role": "user", "content": "one"}]}, HERE)
        rows = await stored(memory, "alice", "t1")
    assert brief(rows) == ["user: one", "assistant: about one"]


async def test_a_jump_that_is_no_guard(tmp_path: Path) -> None:
    """A limit may jump to the end too. With `discard_on_jump=False` the messages stay."""
    async with Memory(tmp_path / "m.db") as memory:
        memorable = MemoryMiddleware(memory, discard_on_jump=False)
        bot = create_agent(Scripted(script=script), [weather], middleware=[memorable, at_each_step])
        await bot.ainvoke(said("what about the weather"), HERE)
        rows = await stored(memory, "alice", "t1")
    assert brief(rows) == [
        "user: what about the weather",
        "call c1: weather",
        "result c1",
        "assistant: I cannot help with that.",
    ]


async def test_a_guard_that_asks_again(tmp_path: Path) -> None:
    """A jump to the model does not stop the turn, so the first answer is stored too."""

    @after_model(can_jump_to=["model"])
    def once_more(state: Any, runtime: Any) -> dict[str, Any] | None:
        last = state["messages"][-1]
        return {"messages": [("user", "without the address")], "jump_to": "model"} if "spy@" in last.content else None

    async with Memory(tmp_path / "m.db") as memory:
        bot = create_agent(Scripted(script=script), middleware=[MemoryMiddleware(memory), once_more])
        await bot.ainvoke(said("the secret"), HERE)
        rows = await stored(memory, "alice", "t1")
    assert brief(rows) == [
        "user: the secret",
        "assistant: write to spy@example.org",
        "user: without the address",
        "assistant: about without the address",
    ]


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("mail me at ann@example.org", {"apply_to_input": True}),
        ("the secret", {"apply_to_input": False, "apply_to_output": True}),
        ("what about the weather", {"detector": "sunny", "apply_to_input": False, "apply_to_tool_results": True}),
    ],
    ids=["question", "answer", "result"],
)
@pytest.mark.parametrize("is_new", [True, False], ids=["first", "later"])
async def test_the_library_s_own_guard_raises(tmp_path: Path, text: str, options: Any, is_new: bool) -> None:
    """The guard raises in a separate node. The question stays in the state, but it is not saved later."""
    async with Memory(tmp_path / "m.db") as memory:
        memorable = MemoryMiddleware(memory)
        guard = guarded(memorable, PIIMiddleware("email", strategy="block", **options))
        model = Scripted(script=script)
        saver = InMemorySaver()
        bot = create_agent(model, [weather], middleware=[memorable, guard], checkpointer=saver)
        before = [] if is_new else ["user: one", "assistant: about one"]
        if not is_new:
            await bot.ainvoke(said("one"), HERE)
        with pytest.raises(PIIDetectionError):
            await bot.ainvoke(said(text), HERE)
        rows = await stored(memory, "alice", "t1")
        assert brief(rows) == before
        assert text in [one.content for one in (await bot.aget_state(HERE)).values["messages"]]
        # The guard would find it in the state again; without it the run goes on.
        await create_agent(model, [weather], middleware=[memorable], checkpointer=saver).ainvoke(said("two"), HERE)
        rows = await stored(memory, "alice", "t1")
        found = await memory.resource("alice").search("example.org")
    assert brief(rows) == [*before, "user: two", "assistant: about two"]
    assert found.results == ()
    assert text not in str(model.received[-1])


def test_a_guard_that_raises_without_await(tmp_path: Path) -> None:
    """A guard that raises in a synchronous agent run withdraws the turn."""
    with SyncMemory(str(tmp_path / "m.db")) as memory:
        memorable = MemoryMiddleware(memory)
        guard = guarded(memorable, PIIMiddleware("email", strategy="block", apply_to_output=True))
        bot = create_agent(Scripted(script=script), middleware=[memorable, guard], checkpointer=InMemorySaver())
        bot.invoke(said("one"), HERE)
        with pytest.raises(PIIDetectionError):
            bot.invoke(said("the secret"), HERE)
        rows = memory.run(stored(memory.asynchronous, "alice", "t1"))
    assert brief(rows) == ["user: one", "assistant: about one"]


async def test_a_guard_around_the_model_that_raises(tmp_path: Path) -> None:
    """Only exceptions in `guards` discard the turn, because a failing model raises exceptions too."""

    class Stopped(Exception):
        """A guard has stopped it."""

    @wrap_model_call
    async def around(request: Any, handler: Any) -> Any:
        response = await handler(request)
        if is_bad(response.result):
            raise Stopped
        return response

    async with Memory(tmp_path / "m.db") as memory:
        bot = create_agent(Scripted(script=script), middleware=[MemoryMiddleware(memory, guards=(Stopped,)), around])
        await bot.ainvoke(said("one"), HERE)
        with pytest.raises(Stopped):
            await bot.ainvoke(said("the secret"), HERE)
        rows = await stored(memory, "alice", "t1")
    assert brief(rows) == ["user: one", "assistant: about one"]


async def test_an_answer_that_a_guard_masks(tmp_path: Path) -> None:
    """The masked texts are stored, because the user saw these."""
    async with Memory(tmp_path / "m.db") as memory:
        guard = PIIMiddleware("email", strategy="redact", apply_to_input=True, apply_to_output=True)
        bot = create_agent(Scripted(script=script), middleware=[MemoryMiddleware(memory), guard])
        await bot.ainvoke(said("the secret of ann@example.org"), HERE)
        rows = await stored(memory, "alice", "t1")
    assert brief(rows) == ["user: the secret of [REDACTED_EMAIL]", "assistant: write to [REDACTED_EMAIL]"]


async def test_an_answer_that_is_rewritten_at_the_end(tmp_path: Path) -> None:
    """If a guard replaces a saved answer at the end, the turn is withdrawn and saved again with the new answer."""

    @after_agent
    def at_last(state: Any, runtime: Any) -> dict[str, Any] | None:
        last = state["messages"][-1]
        return {"messages": [AIMessage("No.", id=last.id)]} if "spy@" in last.content else None

    async with Memory(tmp_path / "m.db") as memory:
        model = Scripted(script=script)
        bot = create_agent(model, middleware=[MemoryMiddleware(memory), at_last], checkpointer=InMemorySaver())
        for text in ("one", "the secret", "two"):
            await bot.ainvoke(said(text), HERE)
        rows = await stored(memory, "alice", "t1")
        found = await memory.resource("alice").search("spy")
    assert brief(rows) == [
        "user: one",
        "assistant: about one",
        "user: the secret",
        "assistant: No.",
        "user: two",
        "assistant: about two",
    ]
    assert found.results == ()
    assert "spy@" not in str(model.received[-1])


async def test_what_is_added_to_one_request_is_not_stored(tmp_path: Path) -> None:
    """A message that another middleware adds to one request reaches the model, but is not stored."""

    class Reminder(AgentMiddleware[Any, Any, Any]):
        async def awrap_model_call(self, request: Any, handler: Any) -> Any:
            return await handler(request.override(messages=[*request.messages, AIMessage("(hint)")]))

    async with Memory(tmp_path / "m.db") as memory:
        model = Scripted(script=script)
        bot = create_agent(model, middleware=[Reminder(), MemoryMiddleware(memory)])
        await bot.ainvoke(said("one"), HERE)
        rows = await stored(memory, "alice", "t1")
    assert brief(rows) == ["user: one", "assistant: about one"]
    assert "(hint)" in [one.content for one in model.received[0]]
