"""Agents that agents spawn, and guards that stop a run: whose words go where, and what of them stays."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import pytest
from pydantic_ai import Agent, RunContext
from pydantic_ai.capabilities import AbstractCapability, Hooks
from pydantic_ai.exceptions import SkipModelRequest
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart, UserPromptPart
from pydantic_ai.models import ModelRequestContext
from pydantic_ai.models.function import AgentInfo

from adapters.kit import brief, check_pairs, split_edge, stored
from adapters.pydantic_ai_world import Script, words
from memolog import Event, InputError, Memory, NotFound
from memolog.adapters.guards import GuardStopped
from memolog.adapters.pydantic_ai import Child, MemoryCapability, child_memory, discard_turn
from memolog.events import Withdrawn
from memolog.memory import Thread
from memolog.turn import Turn


class Watched(Memory):
    """A memory that tells which turns were begun."""

    def __init__(self, address: str) -> None:
        super().__init__(address)
        self.begun: list[tuple[str, Mapping[str, Any] | None]] = []

    def thread(self, id: str, *, resource: str) -> Thread:  # noqa: A002
        begun = self.begun

        class WatchedThread(Thread):
            def turn(self, **options: Any) -> Turn:
                begun.append((id, options.get("settings")))
                return super().turn(**options)

        return WatchedThread(self, self._connection, id, resource)


@pytest.fixture
async def memory(tmp_path: Path) -> AsyncIterator[Watched]:
    """Return a memory of this test alone."""
    async with Watched(str(tmp_path / "memolog.db")) as one:
        yield one


async def lines(memory: Memory, thread: str) -> list[str]:
    """Return what is stored of a thread of alice."""
    return brief(await stored(memory, "alice", thread))


async def everything(memory: Memory) -> dict[str, list[str]]:
    """Return what is stored of alice's threads, without those that are empty."""
    threads = (await (await memory.open()).store.threads.list("alice")).items
    said = {thread.id: await lines(memory, thread.id) for thread in threads}
    return {thread: words_ for thread, words_ in said.items() if words_}


def delegating(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """Ask the helper once, then say what it found. If the helper spoke in the same thread, the result is above its words."""
    del info
    last = messages[-1].parts[-1]
    is_told = isinstance(last, UserPromptPart) and "results of your tool calls" in words(last)
    seen = [part for message in messages for part in message.parts if isinstance(part, ToolReturnPart)]
    found = seen[-1:] if is_told or isinstance(last, ToolReturnPart) else []
    calls = [ToolCallPart("ask", {"question": "where is it?"}, f"c{len(messages)}")]
    return ModelResponse([TextPart(f"found: {found[-1].content}")] if found else calls)


def family(
    memory: Memory, child: Child, *, mode: str | None = None, worker: Sequence[MemoryCapability] = ()
) -> tuple[Agent[Any, str], Script, Script]:
    """Return an agent whose tool asks another agent, and the models of both."""
    parent, helper = Script(delegating), Script()
    asked = Agent(helper.model, name="worker", capabilities=worker)
    boss = Agent(parent.model, name="boss", capabilities=[MemoryCapability(memory, "alice")])

    @boss.tool
    async def ask(ctx: RunContext[Any], question: str) -> str:
        result = await asked.run(question, capabilities=[child_memory(ctx, child, mode=mode)])
        return result.output

    return boss, parent, helper


PARENT = ["user: go", "call c1: ask", "result c1", "assistant: found: you said: where is it?"]
HELPER = ["user: where is it?", "assistant: you said: where is it?"]


# ---------------------------------------------------------------- children


async def test_a_child_with_a_thread_of_its_own(memory: Watched) -> None:
    """What the child says and is told is in its thread, nothing of it in the parent's."""
    boss, _, helper = family(memory, "own", mode="research")
    await boss.run("go", conversation_id="t1")
    assert await lines(memory, "t1") == PARENT
    thread, settings = memory.begun[-1]
    assert thread.startswith("t1/")
    assert settings == {"mode": "research"}
    assert await lines(memory, thread) == HELPER
    assert "go" not in [words(part) for part in helper.requests[0][0].parts if isinstance(part, UserPromptPart)]


async def test_each_spawn_is_a_conversation_unless_it_is_named(memory: Watched) -> None:
    """Children that run side by side do not mix; one that is named goes on where it was."""
    helper = Script()
    worker = Agent(helper.model, name="worker")
    script = Script(
        lambda messages, _: ModelResponse(
            [TextPart("done")]
            if isinstance(messages[-1].parts[0], ToolReturnPart)
            else [ToolCallPart("ask", {"name": name}) for name in ("", "", "kept", "kept")]
        )
    )
    boss = Agent(script.model, capabilities=[MemoryCapability(memory, "alice")])

    @boss.tool(sequential=True)
    async def ask(ctx: RunContext[Any], name: str) -> str:
        await worker.run("look", conversation_id=name or None, capabilities=[child_memory(ctx)])
        return "ok"

    await boss.run("go", conversation_id="t1")
    children = [thread for thread, _ in memory.begun[1:]]
    assert len(set(children)) == 3
    assert children[2] == children[3] == "t1/kept"
    assert len(await lines(memory, "t1/kept")) == 4


async def test_a_child_that_shares_the_thread(memory: Watched) -> None:
    """It sees the conversation and speaks in it; the parent's pairs stay whole."""
    boss, parent, helper = family(memory, "shared")
    await boss.run("go", conversation_id="t1")
    rows = await stored(memory, "alice", "t1")
    check_pairs(rows)
    assert sorted(brief(rows)) == sorted([*PARENT, *HELPER])
    seen = [part.part_kind for message in helper.requests[0] for part in message.parts]
    assert seen[:3] == ["user-prompt", "tool-call", "tool-return"]
    after = [part.part_kind for message in parent.requests[1] for part in message.parts]
    assert after == ["user-prompt", "tool-call", "tool-return", "text", "user-prompt", "text", "user-prompt"]
    note, _ = split_edge(words(cast("UserPromptPart", parent.requests[1][-1].parts[-1])))
    assert "results of your tool calls" in note
    assert note not in str(await stored(memory, "alice", "t1"))
    await boss.run("go on", conversation_id="t1")
    check_pairs(await stored(memory, "alice", "t1"))


async def test_a_child_that_may_only_read(memory: Watched) -> None:
    """It sees the conversation, leaves nothing in it, and has no tool that writes."""
    boss, _, helper = family(memory, "read_only", mode="explore")
    await boss.run("go", conversation_id="t1")
    assert await lines(memory, "t1") == PARENT
    assert memory.begun[-1] == ("t1", {"mode": "explore", "read_only": True})
    said = [words(part) for message in helper.requests[0] for part in message.parts if isinstance(part, UserPromptPart)]
    assert [split_edge(text)[0] for text in said] == ["go", "where is it?"]
    assert [tool.name for tool in helper.infos[0].function_tools] == ["task-query", "memory-search"]


@pytest.mark.parametrize(("child", "thread"), [("own", "t1/worker"), ("shared", "t1"), ("read_only", "t1")])
async def test_an_agent_with_a_memory_of_its_own_is_a_child_inside_a_tool(
    memory: Watched, child: Child, thread: str
) -> None:
    """What it does there is said when it is made; outside it has its own conversation."""
    helper = Script()
    worker = Agent(helper.model, name="worker", capabilities=[MemoryCapability(memory, "alice", child=child)])
    boss = Agent(Script(delegating).model, capabilities=[MemoryCapability(memory, "alice")])

    @boss.tool
    async def ask(ctx: RunContext[Any], question: str) -> str:
        return (await worker.run(question, conversation_id=ctx.conversation_id)).output

    await boss.run("go", conversation_id="t1")
    assert memory.begun[-1][0] == thread
    await worker.run("alone", conversation_id="t9")
    assert memory.begun[-1] == ("t9", None)
    assert await lines(memory, "t9") == ["user: alone", "assistant: you said: alone"]


async def test_children_of_different_users_are_no_children(memory: Watched) -> None:
    """An agent that works for another resource stays with that one."""
    worker = Agent(Script().model, capabilities=[MemoryCapability(memory, "bob")])
    boss = Agent(Script(delegating).model, capabilities=[MemoryCapability(memory, "alice")])

    @boss.tool_plain
    async def ask(question: str) -> str:
        return (await worker.run(question, conversation_id="b1")).output

    await boss.run("go", conversation_id="t1")
    assert brief(await stored(memory, "bob", "b1")) == HELPER


async def test_child_memory_needs_a_run_with_memory() -> None:
    """Without one there is nothing to inherit, and the error says what to do."""
    agent = Agent(Script(delegating).model)

    @agent.tool
    async def ask(ctx: RunContext[Any], question: str) -> str:
        child_memory(ctx)
        return question

    with pytest.raises(InputError, match="MemoryCapability"):
        await agent.run("go")


# ---------------------------------------------------------------- guards


class Blocked(Exception):
    """What the guards of these tests raise."""


class InputGuard(AbstractCapability[Any]):
    """Stops a run whose user says something forbidden."""

    async def before_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        if "forbidden" in str(ctx.prompt):
            raise Blocked("input")
        return request_context


class OutputGuard(AbstractCapability[Any]):
    """Stops a run whose model says something forbidden."""

    async def after_model_request(
        self, ctx: RunContext[Any], *, request_context: ModelRequestContext, response: ModelResponse
    ) -> ModelResponse:
        if "secret" in (response.text or ""):
            raise Blocked("output")
        return response


@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize("words_", ["forbidden words", "tell the secret"])
async def test_a_guard_that_stops_discards_the_turn(memory: Watched, words_: str, is_first: bool) -> None:
    """On either side, wherever it stands: nothing of the turn stays, and the next one does not see it."""
    script = Script()
    remembering = MemoryCapability(memory, "alice", discard_on=(Blocked,))
    guards = [InputGuard(), OutputGuard()]
    agent = Agent(script.model, capabilities=[*guards, remembering] if is_first else [remembering, *guards])
    await agent.run("hello", conversation_id="t1")
    with pytest.raises(Blocked):
        await agent.run(words_, conversation_id="t1")
    assert await lines(memory, "t1") == ["user: hello", "assistant: you said: hello"]
    await agent.run("again", conversation_id="t1")
    assert words_ not in script.prompts.sent[-1][1]


async def test_the_stop_of_our_own_guards_discards_without_being_named(memory: Watched) -> None:
    """What `Guards` raises is known as a stop."""

    class Own(AbstractCapability[Any]):
        async def after_model_request(
            self, ctx: RunContext[Any], *, request_context: ModelRequestContext, response: ModelResponse
        ) -> ModelResponse:
            raise GuardStopped("no-secrets", "output", "it holds a secret")

    agent = Agent(Script().model, capabilities=[MemoryCapability(memory, "alice"), Own()])
    with pytest.raises(GuardStopped):
        await agent.run("hello", conversation_id="t1")
    assert await lines(memory, "t1") == []


def _refuse(output: str) -> str:
    raise Blocked(output)


@pytest.mark.parametrize("child", ["own", "shared", "read_only"])
async def test_a_guard_discards_what_children_said(memory: Watched, child: Child) -> None:
    """Nothing of the stopped agent run stays, and nothing of its children, which ended before. An event counts the messages."""
    events: list[Event] = []
    memory.subscribe(events.append)
    boss, _, _ = family(memory, child, worker=[MemoryCapability(memory, "alice")])
    await boss.run("before", conversation_id="t1")
    before = await everything(memory)
    boss.output_validator(_refuse)
    with pytest.raises(Blocked):
        await boss.run("go", conversation_id="t1", capabilities=[MemoryCapability(memory, "alice", discard_on=Blocked)])
    assert next(event.messages for event in events if isinstance(event, Withdrawn)) == 4
    assert len(before) == (2 if child == "own" else 1)
    assert await everything(memory) == before


async def test_a_guard_that_answers_in_the_models_place(memory: Watched) -> None:
    """A guard need not raise: it says that the turn must not stay, and the run goes on to its refusal."""
    hooks: Hooks[Any] = Hooks()

    @hooks.on.before_model_request
    async def guard(ctx: RunContext[Any], request_context: ModelRequestContext) -> ModelRequestContext:
        if "forbidden" in str(ctx.prompt):
            discard_turn(ctx)
            raise SkipModelRequest(ModelResponse([TextPart("I must not.")]))
        return request_context

    agent = Agent(Script().model, capabilities=[MemoryCapability(memory, "alice"), hooks])
    result = await agent.run("forbidden", conversation_id="t1")
    assert result.output == "I must not."
    with pytest.raises(NotFound):
        await (await memory.open()).store.threads.get("alice", "t1")
    await agent.run("fine", conversation_id="t1")
    assert await lines(memory, "t1") == ["user: fine", "assistant: you said: fine"]


async def test_an_answer_in_the_models_place_is_kept_otherwise(memory: Watched) -> None:
    """A cache that answers is as good as a model."""
    hooks: Hooks[Any] = Hooks()

    @hooks.on.before_model_request
    async def cache(ctx: RunContext[Any], request_context: ModelRequestContext) -> ModelRequestContext:
        raise SkipModelRequest(ModelResponse([TextPart("from a cache")]))

    agent = Agent(Script().model, capabilities=[MemoryCapability(memory, "alice"), hooks])
    await agent.run("hello", conversation_id="t1")
    assert await lines(memory, "t1") == ["user: hello", "assistant: from a cache"]


async def test_many_conversations_at_once(memory: Watched) -> None:
    """Ten runs with children side by side: none sees or keeps a word of another."""
    boss, parent, _ = family(memory, "own")
    await asyncio.gather(*(boss.run(f"go {number}", conversation_id=f"t{number}") for number in range(10)))
    for number in range(10):
        assert (await lines(memory, f"t{number}"))[0] == f"user: go {number}"
        assert len(await lines(memory, f"t{number}")) == 4
    for messages in parent.requests:
        prompts = [words(part) for message in messages for part in message.parts if isinstance(part, UserPromptPart)]
        assert len([prompt for prompt in prompts if prompt.startswith("go ")]) == 1
