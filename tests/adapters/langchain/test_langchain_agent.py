"""LangChain agents with memory: real graphs and hooks, a scripted model, a real store."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from adapters.kit import SMALL, Prompts, answer, brief, calls, check_pairs, expected, question, stored
from adapters.langchain.scripted import Scripted, called, edge_of, last_question, told, weather, without_edge
from memolog import Memory, SyncMemory
from memolog.adapters.langchain import MemoryMiddleware
from memolog.errors import InputError

HERE: Any = {"configurable": {"thread_id": "t1", "resource": "alice"}}


def talk(messages: list[BaseMessage]) -> AIMessage:
    """Answer; some questions need a tool first."""
    number = int(last_question(messages).split()[1])
    needed: Any = [
        {"name": "weather", "args": {"city": "Rome"}, "id": id_, "type": "tool_call"} for id_ in calls(number)
    ]
    return told("", tool_calls=needed) if needed and not isinstance(messages[-1], ToolMessage) else told(answer(number))


def agent(
    memory: Memory | SyncMemory, model: Scripted, *, saver: Any = None, middleware: Any = (), **options: Any
) -> Any:
    """Return an agent with memory first."""
    return create_agent(
        model,
        [weather],
        system_prompt="You are brief.",
        middleware=[MemoryMiddleware(memory, **options), *middleware],
        checkpointer=saver,
    )


def said(text: str) -> dict[str, Any]:
    """Return the input of a run."""
    return {"messages": [{"role": "user", "content": text}]}


def test_a_thread_without_await(tmp_path: Path) -> None:
    """A long conversation of a synchronous agent, streamed or not."""
    prompts = Prompts()
    model = Scripted(script=talk, prompts=prompts)
    with SyncMemory(str(tmp_path / "m.db"), config=SMALL) as memory:
        memory.subscribe(prompts._hear)
        bot = agent(memory, model, saver=InMemorySaver())
        for number in range(1, 41):
            if number % 5:
                bot.invoke(said(question(number)), HERE)
            else:
                list(bot.stream(said(question(number)), HERE, stream_mode="updates"))
        memory.settled()
        rows = memory.run(stored(memory.asynchronous, "alice", "t1"))
        usage = memory.thread("t1", resource="alice").status().usage
    assert brief(rows) == expected(range(1, 41))
    check_pairs(rows)
    prompts.check(least_changes=1)
    assert usage.output_tokens >= 40 * 10


async def test_a_memory_without_await_serves_both(tmp_path: Path) -> None:
    """A SyncMemory works for synchronous and asynchronous calls of an agent."""
    with SyncMemory(str(tmp_path / "m.db")) as memory:
        bot = agent(memory, Scripted(script=talk))
        await bot.ainvoke(said(question(7)), HERE)
        await asyncio.to_thread(bot.invoke, said(question(8)), HERE)
        rows = await asyncio.to_thread(memory.run, stored(memory.asynchronous, "alice", "t1"))
    assert brief(rows) == expected(range(7, 9))


async def test_a_memory_that_must_be_awaited_says_so(tmp_path: Path) -> None:
    """A synchronous call with a Memory is rejected, and the error names SyncMemory."""
    async with Memory(tmp_path / "m.db") as memory:
        bot = agent(memory, Scripted(script=talk))
        with pytest.raises(InputError, match="SyncMemory"):
            await asyncio.to_thread(bot.invoke, said(question(1)), HERE)


# ---------------------------------------------------------------- what is asked


async def test_instructions_and_the_state(tmp_path: Path) -> None:
    """System messages are joined with the system prompt. Ids are stored, and the state does not contain the edge."""
    async with Memory(tmp_path / "m.db") as memory:
        model = Scripted(script=talk)
        bot = agent(memory, model, saver=InMemorySaver())
        await bot.ainvoke({"messages": [SystemMessage("Speak plainly."), HumanMessage(question(7), id="h7")]}, HERE)
        state = await bot.aget_state(HERE)
        rows = await stored(memory, "alice", "t1")
    system = str(model.received[0][0].content)
    assert system.index("You are brief.") < system.index("Speak plainly.") < system.index("memory-search")
    assert all(map(edge_of, model.received))
    assert edge_of(state.values["messages"]) is None
    assert rows[0].id == "h7"


async def test_history_of_the_caller_is_not_saved_again(tmp_path: Path) -> None:
    """Without a checkpointer the caller sends the whole conversation, with ids or without. It is stored once."""
    async with Memory(tmp_path / "m.db") as memory:
        bot = agent(memory, Scripted(script=talk))
        first = await bot.ainvoke(said(question(1)), HERE)
        second = await bot.ainvoke({"messages": [*first["messages"], HumanMessage(question(2))]}, HERE)
        bare = [{"role": one.type, "content": one.content} for one in second["messages"]]
        await bot.ainvoke({"messages": [*bare, HumanMessage(question(3))]}, HERE)
        rows = await stored(memory, "alice", "t1")
    assert brief(rows) == expected(range(1, 4))


async def test_a_conversation_that_memory_comes_to_late(tmp_path: Path) -> None:
    """The earlier messages are saved once, and the model gets them."""
    saver, model = InMemorySaver(), Scripted(script=talk)
    bare: Any = create_agent(model, [weather], checkpointer=saver)
    for number in (6, 7):
        await bare.ainvoke(said(question(number)), HERE)
    async with Memory(tmp_path / "m.db") as memory:
        bot = agent(memory, model, saver=saver)
        for number in (8, 9):
            await bot.ainvoke(said(question(number)), HERE)
        rows = await stored(memory, "alice", "t1")
    assert brief(rows) == expected(range(6, 10))
    assert question(6) in [one.content for one in model.received[-1]]


async def test_whose_memory_it_is(tmp_path: Path) -> None:
    """Resource and thread come from the agent run or from the middleware. Without a resource the agent run is rejected."""

    def user(runtime: Any) -> str:
        return runtime.context["user"]

    async with Memory(tmp_path / "m.db") as memory:
        model = Scripted(script=talk)
        with pytest.raises(InputError, match="resource"):
            await agent(memory, model).ainvoke(said(question(1)), {"configurable": {"thread_id": "t1"}})
        named = agent(memory, model, resource=user, thread="always")
        await named.ainvoke(said(question(1)), context={"user": "carol"})
        assert brief(await stored(memory, "carol", "always")) == expected(range(1, 2))


# ---------------------------------------------------------------- what goes wrong


async def test_a_failed_run_goes_on_where_it_failed(tmp_path: Path) -> None:
    """LangGraph calls the model again from the checkpoint, here after the memory was opened again."""
    failures = [ConnectionError("down")]

    def script(messages: list[BaseMessage]) -> Any:
        return failures.pop() if failures and isinstance(messages[-1], ToolMessage) else talk(messages)

    saver, model = InMemorySaver(), Scripted(script=script)
    for again in (False, True):
        async with Memory(tmp_path / "m.db") as memory:
            bot = agent(memory, model, saver=saver)
            if again:
                await bot.ainvoke(None, HERE)
                await bot.ainvoke(said(question(8)), HERE)
            else:
                with pytest.raises(ConnectionError):
                    await bot.ainvoke(said(question(7)), HERE)
            rows = await stored(memory, "alice", "t1")
    assert brief(rows) == expected(range(7, 9))


async def test_an_answer_that_another_middleware_failed_on(tmp_path: Path) -> None:
    """The answer is in the state, so the next agent run saves it in its place, even in a new thread."""
    from langchain.agents.middleware import after_model

    failures = [ConnectionError("down")]

    @after_model
    def failing(state: Any, runtime: Any) -> None:
        if failures:
            raise failures.pop()

    async with Memory(tmp_path / "m.db") as memory:
        bot = agent(memory, Scripted(script=talk), saver=InMemorySaver(), middleware=[failing])
        with pytest.raises(ConnectionError):
            await bot.ainvoke(said(question(1)), HERE)
        assert brief(await stored(memory, "alice", "t1")) == [f"user: {question(1)}"]
        await bot.ainvoke(said(question(2)), HERE)
        rows = await stored(memory, "alice", "t1")
    assert brief(rows) == expected(range(1, 3))


async def test_an_interrupted_run_goes_on_as_one_turn(tmp_path: Path) -> None:
    """A person approves a call after the memory was opened again. Every message is stored once, in order."""
    from langchain.agents.middleware import HumanInTheLoopMiddleware

    saver, model = InMemorySaver(), Scripted(script=talk)
    for resume in (False, True):
        async with Memory(tmp_path / "m.db") as memory:
            bot = agent(
                memory, model, saver=saver, middleware=[HumanInTheLoopMiddleware(interrupt_on={"weather": True})]
            )
            if resume:
                await bot.ainvoke(Command(resume={"decisions": [{"type": "approve"}]}), HERE)
                await bot.ainvoke(said(question(8)), HERE)
            else:
                assert (await bot.ainvoke(said(question(7)), HERE))["__interrupt__"]
            rows = await stored(memory, "alice", "t1")
    assert brief(rows) == expected(range(7, 9))


async def test_a_call_that_langchain_cannot_read(tmp_path: Path) -> None:
    """LangChain answers a malformed call. The call and the answer are stored once, as a pair."""

    def script(messages: list[BaseMessage]) -> AIMessage:
        if len([one for one in messages if isinstance(one, AIMessage)]) == 0:
            broken = {"name": "weather", "args": "{oh", "id": "bad", "error": "no JSON", "type": "invalid_tool_call"}
            return told("", invalid_tool_calls=[broken])
        return told("sorry")

    async with Memory(tmp_path / "m.db") as memory:
        model = Scripted(script=script)
        bot = agent(memory, model, saver=InMemorySaver())
        for text in ("one", "two", "three"):
            await bot.ainvoke(said(text), HERE)
        rows = await stored(memory, "alice", "t1")
    check_pairs(rows)
    assert [type(one).__name__ for one in model.received[2][1:-1]][:4] == [
        "HumanMessage",
        "AIMessage",
        "ToolMessage",
        "HumanMessage",
    ]
    assert "malformed" in str(model.received[2][3].content)


# ---------------------------------------------------------------- other ways through the graph


@pytest.mark.parametrize("is_first", [True, False], ids=["inside", "outside"])
async def test_a_model_that_is_asked_again(tmp_path: Path, is_first: bool) -> None:
    """With retries inside or outside of memory, question and answer are stored once."""
    from langchain.agents.middleware import ModelRetryMiddleware

    failures = [ConnectionError("down"), ConnectionError("still down")]

    def script(messages: list[BaseMessage]) -> Any:
        return failures.pop() if failures else talk(messages)

    async with Memory(tmp_path / "m.db") as memory:
        retry = ModelRetryMiddleware(max_retries=3, initial_delay=0, jitter=False)
        memorable = MemoryMiddleware(memory)
        order: Any = [memorable, retry] if is_first else [retry, memorable]
        bot: Any = create_agent(Scripted(script=script), [weather], middleware=order)
        await bot.ainvoke(said(question(7)), HERE)
        await bot.ainvoke(said(question(8)), HERE)
        rows = await stored(memory, "alice", "t1")
    assert brief(rows) == expected(range(7, 9))


async def test_an_answer_with_a_structure(tmp_path: Path) -> None:
    """LangChain answers the call with the structured answer. The pair is stored once."""
    from langchain.agents.structured_output import ToolStrategy
    from pydantic import BaseModel

    class Verdict(BaseModel):
        """What came of it."""

        good: bool

    def script(messages: list[BaseMessage]) -> AIMessage:
        return called("Verdict", f"v{len(messages)}", good=True)

    async with Memory(tmp_path / "m.db") as memory:
        bot: Any = create_agent(
            Scripted(script=script), middleware=[MemoryMiddleware(memory)], response_format=ToolStrategy(Verdict)
        )
        for text in ("one", "two"):
            done = await bot.ainvoke(said(text), HERE)
            assert done["structured_response"] == Verdict(good=True)
        rows = await stored(memory, "alice", "t1")
    check_pairs(rows)
    assert [row.role for row in rows] == ["user", "assistant", "tool"] * 2


async def test_a_tool_whose_result_is_the_answer(tmp_path: Path) -> None:
    """The model is not called again, so the result is saved at the end of the agent run."""

    @tool(return_direct=True)
    def look_up(word: str) -> str:
        """Look a word up."""
        return f"the meaning of {word}"

    def script(messages: list[BaseMessage]) -> AIMessage:
        return called("look_up", f"c{len(messages)}", word="memory")

    async with Memory(tmp_path / "m.db") as memory:
        bot: Any = create_agent(Scripted(script=script), [look_up], middleware=[MemoryMiddleware(memory)])
        for text in ("one", "two"):
            await bot.ainvoke(said(text), HERE)
        rows = await stored(memory, "alice", "t1")
    check_pairs(rows)
    assert [row.role for row in rows] == ["user", "assistant", "tool"] * 2


async def test_thoughts_and_pictures_reach_the_model_as_they_were(tmp_path: Path) -> None:
    """Signed blocks between tool calls and pictures of the user are sent unchanged."""
    blocks: list[Any] = [
        {"type": "thinking", "thinking": "hm", "signature": "c2ln"},
        {"type": "text", "text": "Let me look."},
        {"type": "tool_use", "id": "c1", "name": "weather", "input": {"city": "Rome"}},
    ]

    def script(messages: list[BaseMessage]) -> AIMessage:
        if isinstance(messages[-1], ToolMessage):
            return told("sunny")
        call: Any = {"name": "weather", "args": {"city": "Rome"}, "id": "c1", "type": "tool_call"}
        return told("", content=blocks, tool_calls=[call])

    shown = HumanMessage([{"type": "image", "base64": "iVBORw==", "mime_type": "image/png"}], id="h1")
    async with Memory(tmp_path / "m.db") as memory:
        model = Scripted(script=script)
        done = await agent(memory, model).ainvoke({"messages": [shown]}, HERE)
    _, seen, thought, result = model.received[1]
    assert seen.content[:-1] == shown.content
    assert thought.content == blocks
    assert thought.model_dump_json() == done["messages"][1].model_dump_json()
    assert result.model_dump_json() == done["messages"][2].model_dump_json()


# ---------------------------------------------------------------- going back


async def _checkpoint(bot: Any, last: str) -> Any:
    """Return the configuration of the newest checkpoint whose state ends with this text."""
    history = [one async for one in bot.aget_state_history(HERE)]
    return next(one.config for one in history if one.values.get("messages") and one.values["messages"][-1].text == last)


def _about(messages: list[BaseMessage]) -> AIMessage:
    return told(f"about {last_question(messages)}")


def _graph(memory: Memory, model: Scripted) -> Any:
    return create_agent(model, middleware=[MemoryMiddleware(memory, resource="alice")], checkpointer=InMemorySaver())


async def _ask(bot: Any, at: Any, *texts: str) -> None:
    for text in texts:
        await bot.ainvoke({"messages": [HumanMessage(text, id=f"h-{text}")]}, at)


async def _edit(bot: Any, last: str, text: str) -> None:
    edited = await bot.aupdate_state(await _checkpoint(bot, last), {"messages": [HumanMessage(text, id=f"h-{last}")]})
    await bot.ainvoke(None, edited)


@pytest.mark.parametrize("first", ["one", "two"], ids=["the first question", "a later question"])
@pytest.mark.parametrize("times", [1, 3])
async def test_another_answer(tmp_path: Path, first: str, times: int) -> None:
    """A checkpoint before an answer is run again: the model sees the question once, and no rejected answer."""
    async with Memory(tmp_path / "m.db") as memory:
        model = Scripted(script=lambda _: told(f"answer {len(model.received)}"))  # pyright: ignore[reportUnknownLambdaType]
        bot = _graph(memory, model)
        await _ask(bot, HERE, "one", "two")
        at = await _checkpoint(bot, first)
        for _ in range(times):
            await bot.ainvoke(None, at)
        rows = brief(await stored(memory, "alice", "t1"))
        branches = await memory.thread("t1", resource="alice").branches()
    before = ["user: one", "assistant: answer 1"] if first == "two" else []
    assert rows == [*before, f"user: {first}", f"assistant: answer {2 + times}"]
    assert len(branches) == times
    assert "answer 2" not in str(model.received[-1])


@pytest.mark.parametrize("last", ["one", "two"], ids=["the first question", "a later question"])
async def test_an_edited_question(tmp_path: Path, last: str) -> None:
    """The model sees the new words, also when it is edited twice or asked again; the old ones are a branch."""
    async with Memory(tmp_path / "m.db") as memory:
        model = Scripted(script=_about)
        bot = _graph(memory, model)
        await _ask(bot, HERE, "one", "two")
        await _edit(bot, last, "uno")
        await bot.ainvoke(None, await _checkpoint(bot, "uno"))
        await _edit(bot, last, "eins")
        await _ask(bot, HERE, "next")
        rows = brief(await stored(memory, "alice", "t1"))
    before = ["user: one", "assistant: about one"] if last == "two" else []
    assert rows == [*before, "user: eins", "assistant: about eins", "user: next", "assistant: about next"]
    assert not {one.text.removeprefix("about ") for one in model.received[-1]} & {"two", "uno"}


async def test_an_edited_picture(tmp_path: Path) -> None:
    """The user replaces only the picture of a question. The model sees the new one, and the old one is a branch."""

    def asked(url: str) -> HumanMessage:
        picture = {"type": "image_url", "image_url": {"url": url}}
        return HumanMessage([{"type": "text", "text": "What is this?"}, picture], id="h-1")

    old, new = "data:image/png;base64,b2xk", "data:image/png;base64,bmV3"
    async with Memory(tmp_path / "m.db") as memory:
        model = Scripted(script=lambda _: told(f"answer {len(model.received)}"))  # pyright: ignore[reportUnknownLambdaType]
        bot = _graph(memory, model)
        await bot.ainvoke({"messages": [asked(old)]}, HERE)
        for url in (new, new):
            edited = await bot.aupdate_state(await _checkpoint(bot, "What is this?"), {"messages": [asked(url)]})
            await bot.ainvoke(None, edited)
            assert (old in str(model.received[-1]), new in str(model.received[-1])) == (False, True)
        branches = await memory.thread("t1", resource="alice").branches()
        rows = await stored(memory, "alice", "t1")
    assert len(branches) == 2
    assert brief(rows)[-1] == "assistant: answer 3"
    assert [row.role for row in rows] == ["user", "assistant"]


async def test_a_new_question_after_an_older_checkpoint(tmp_path: Path) -> None:
    """What came after the checkpoint is withdrawn, but nothing that another graph saved in the same thread."""
    async with Memory(tmp_path / "m.db") as memory:
        model = Scripted(script=_about)
        bots = [_graph(memory, model) for _ in range(2)]
        await _ask(bots[0], HERE, "one", "two")
        await _ask(bots[0], await _checkpoint(bots[0], "about one"), "three")
        assert brief(await stored(memory, "alice", "t1"))[2:] == ["user: three", "assistant: about three"]
        await _ask(bots[1], HERE, "other")
        await _ask(bots[0], await _checkpoint(bots[0], "about one"), "four")
        rows = brief(await stored(memory, "alice", "t1"))
    assert rows[2:] == [
        *("user: three", "assistant: about three", "user: other", "assistant: about other"),
        *("user: four", "assistant: about four"),
    ]


async def test_without_a_checkpointer_nobody_goes_back(tmp_path: Path) -> None:
    """A program may give every question the same id, or send the same examples each time."""
    async with Memory(tmp_path / "m.db") as memory:
        bot = create_agent(Scripted(script=_about), middleware=[MemoryMiddleware(memory, resource="alice")])
        for text in ("one", "two", "three"):
            examples = [HumanMessage("example", id="e1"), AIMessage("yes", id="e2")]
            await bot.ainvoke({"messages": [*examples, HumanMessage(text)]}, HERE)
        rows = brief(await stored(memory, "alice", "t1"))
    assert [line for line in rows if line.startswith("user")] == [
        f"user: {n}" for n in ("example", "one", "two", "three")
    ]


async def test_another_answer_after_messages_of_others(tmp_path: Path) -> None:
    """They are not withdrawn, so the question is asked again and is the last message of the request."""
    async with Memory(tmp_path / "m.db") as memory:
        model = Scripted(script=_about)
        bot = _graph(memory, model)
        await _ask(bot, HERE, "one", "two")
        async with memory.thread("t1", resource="alice").turn() as turn:
            await turn.prepare("by phone")
            await turn.record("noted")
        await bot.ainvoke(None, await _checkpoint(bot, "two"))
        rows = brief(await stored(memory, "alice", "t1"))
    assert rows[4:] == ["user: by phone", "assistant: noted", "user: two", "assistant: about two"]
    assert last_question(without_edge(model.received[-1])) == "two"
