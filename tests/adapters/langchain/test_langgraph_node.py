"""The node of LangGraph: functions and states of all kinds, removed messages, and conversations without a checkpointer."""

from dataclasses import dataclass, field
from typing import Annotated, Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, RemoveMessage, SystemMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.graph.message import REMOVE_ALL_MESSAGES, add_messages
from langgraph.runtime import Runtime
from langgraph.types import Command
from pydantic import BaseModel

from adapters.kit import brief, split_edge, stored
from adapters.langchain.scripted import Scripted, told
from memolog import InputError, Memory, SyncMemory
from memolog.adapters.langgraph import GraphMemory


def told_always(text: str) -> Any:
    """Return a script or a node that always answers the same."""

    def answer(_: Any) -> Any:
        return told(text)

    return answer


def nothing(_: Any) -> Any:
    """Return an empty update."""
    return {}


AT: Any = {"configurable": {"thread_id": "t1"}}


class PydanticState(BaseModel):
    """A state that is a model of Pydantic."""

    messages: Annotated[list[Any], add_messages] = []


@dataclass
class DataState:
    """A state that is a dataclass."""

    messages: Annotated[list[Any], add_messages] = field(default_factory=list[Any])


def graph_of(node: Any, state: Any = MessagesState, *, saver: Any = None, **more: Any) -> Any:
    """Return a graph of one node."""
    builder = StateGraph(state)
    builder.add_node("model", node)
    last = "model"
    for name, other in more.items():
        builder.add_node(name, other)
        builder.add_edge(last, name)
        last = name
    builder.add_edge(START, "model")
    return builder.compile(checkpointer=saver)


def said(messages: list[BaseMessage]) -> list[str]:
    """Return messages as lines, without the system message and the edge."""
    return [f"{one.type}: {split_edge(str(one.content))[0]}" for one in messages if not isinstance(one, SystemMessage)]


@pytest.mark.parametrize("state", [MessagesState, PydanticState, DataState], ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
async def test_a_function_of_any_state(state: Any, is_async: bool) -> None:
    """The function sees the whole conversation though the caller passes only the question, and gets what it asks for."""
    heard: list[list[str]] = []

    def answer(state: Any, config: RunnableConfig, runtime: Runtime) -> Any:
        messages = state["messages"] if isinstance(state, dict) else state.messages
        assert config.get("configurable", {})["thread_id"] == "t1"
        assert runtime is not None
        heard.append(said(messages))
        return {"messages": told(f"answer {len(heard)}")}

    async def later(state: Any, config: RunnableConfig, runtime: Runtime) -> Any:
        return answer(state, config, runtime)

    async with Memory(":memory:") as memory:
        graph = graph_of(GraphMemory(memory, resource="alice").node(later if is_async else answer), state)
        for number in (1, 2):
            done = await graph.ainvoke({"messages": [("user", f"question {number}")]}, AT)
        rows = await stored(memory, "alice", "t1")
    assert heard[1] == ["human: question 1", "ai: answer 1", "human: question 2"]
    assert said(done["messages"]) == ["human: question 2", "ai: answer 2"]
    assert brief(rows) == ["user: question 1", "assistant: answer 1", "user: question 2", "assistant: answer 2"]
    assert [row.id for row in rows[2:]] == [one.id for one in done["messages"]]


def test_a_synchronous_graph(tmp_path: Any) -> None:
    """A function, a command and a model are called without await, and the memory is there after a restart."""

    def command(_: Any) -> Any:
        return Command(update={"messages": [told("two")]})

    def plain(_: Any) -> Any:
        return {"messages": [{"role": "assistant", "content": "four"}]}

    kinds: list[Any] = [told_always("one"), command, Scripted(script=told_always("three")), plain]
    for kind in kinds:
        with SyncMemory(str(tmp_path / "m.db")) as memory:
            node = GraphMemory(memory, resource="alice", system_prompt="Be brief.").node(kind)
            graph_of(node).invoke({"messages": [("user", "What?")]}, AT)
    with SyncMemory(str(tmp_path / "m.db")) as memory:
        page = memory.thread("t1", resource="alice").messages(after=0)
    assert [row.text for row in page.items][1::2] == ["one", "two", "three", "four"]


async def test_a_graph_that_removes_old_messages() -> None:
    """The memory keeps what a node removes from the state. Nothing is saved twice and the model still sees it."""
    heard: list[list[str]] = []

    def hear(messages: list[BaseMessage]) -> AIMessage:
        heard.append(said(messages))
        return told(f"answer {len(heard)}")

    model = Scripted(script=hear)

    def trim(state: MessagesState) -> Any:
        return {"messages": [RemoveMessage(str(one.id)) for one in state["messages"][:-1]]}

    def summarise(state: MessagesState) -> Any:
        return {"messages": [RemoveMessage(REMOVE_ALL_MESSAGES), *state["messages"][-2:]]}

    async with Memory(":memory:") as memory:
        node = GraphMemory(memory, resource="alice").node(model)
        for shorten in (trim, summarise):
            graph = graph_of(node, saver=InMemorySaver(), shorten=shorten)
            for number in range(4):
                await graph.ainvoke({"messages": [("user", f"{shorten.__name__} {number}")]}, AT)
        lines = brief(await stored(memory, "alice", "t1"))
    assert len(heard[-1]) == 15
    assert len(lines) == 16
    assert lines[0::2] == [f"user: {name} {number}" for name in ("trim", "summarise") for number in range(4)]


async def test_a_graph_that_removes_its_newest_messages() -> None:
    """If a graph removes an answer and asks again, the thread is rewound: only the new answer is live."""
    answers = iter(["bad", "good", "next"])
    saver = InMemorySaver()
    async with Memory(":memory:") as memory:

        def answer(_: Any) -> AIMessage:
            return told(next(answers))

        model = Scripted(script=answer)
        graph = graph_of(GraphMemory(memory, resource="alice").node(model), saver=saver)
        done = await graph.ainvoke({"messages": [HumanMessage("What?", id="h1")]}, AT)
        bad = done["messages"][-1]
        await graph.ainvoke({"messages": [RemoveMessage(str(bad.id)), HumanMessage("What?", id="h1")]}, AT)
        await graph.ainvoke({"messages": [HumanMessage("And then?")]}, AT)
        lines = brief(await stored(memory, "alice", "t1"))
    assert lines == ["user: What?", "assistant: good", "user: And then?", "assistant: next"]


async def test_other_nodes_and_wrong_arguments() -> None:
    """Messages of other nodes are saved by the next call. A state without messages and a wrong node are refused."""

    def note(_: Any) -> Any:
        return {"messages": [AIMessage("a note", name="critic")]}

    async with Memory(":memory:") as memory:
        remember = GraphMemory(memory, resource="alice")
        graph = graph_of(
            remember.node(Scripted(script=told_always("one"))),
            saver=InMemorySaver(),
            note=note,
        )
        await graph.ainvoke({"messages": [("user", "a")]}, AT)
        await graph.ainvoke({"messages": [("user", "b")]}, AT)
        assert brief(await stored(memory, "alice", "t1")) == [
            *("user: a", "assistant: one", "assistant: a note", "user: b", "assistant: one")
        ]
        with pytest.raises(InputError, match="must be a chat model or a function"):
            remember.node("model")  # pyright: ignore[reportArgumentType]
        other = GraphMemory(memory, resource="alice", messages_key="talk").node(nothing)
        with pytest.raises(InputError, match="no 'talk'"):
            await graph_of(other).ainvoke({"messages": [("user", "a")]}, AT)
        with pytest.raises(InputError, match="no resource"):
            await graph_of(GraphMemory(memory).node(nothing)).ainvoke({"messages": [("user", "a")]}, AT)
