"""Conversations of Pydantic AI in a memory's database: they do what the library's own store does, and stay."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from pydantic_ai import Agent, BinaryImage, DeferredToolRequests
from pydantic_ai.conversation import Conversation, ConversationTypeAdapter
from pydantic_ai.conversation_store import ConversationConflict, ConversationStore, InMemoryConversationStore
from pydantic_ai.exceptions import CallDeferred, UserError
from pydantic_ai.messages import TextPart, ToolCallPart

from adapters.kit import brief, stored
from adapters.pydantic_ai_world import Script, saying
from memolog import Memory
from memolog.adapters.pydantic_ai import MemoryCapability, MemoryConversations

PNG = BinaryImage(b"\x89PNG\xff\xfe\x00", media_type="image/png")


@pytest.fixture
async def memory(address: str) -> AsyncIterator[Memory]:
    """Return a memory on each engine in turn."""
    async with Memory(address) as one:
        yield one


def shown(conversation: Conversation | None) -> Any:
    """Return a conversation as JSON, but for its revision, which is never the same twice."""
    assert conversation is not None
    data = ConversationTypeAdapter.dump_python(conversation, mode="json")
    return {name: value for name, value in data.items() if name != "revision"}


async def turn(store: ConversationStore, agent: Agent[Any, Any], name: str, prompt: Any, **options: Any) -> Any:
    """Load, run, save: as the library's guide does it."""
    conversation = await store.load(name, **options) or Conversation(conversation_id=name)
    result = await agent.run(prompt, conversation=conversation)
    await store.save(result, **options)
    return result


async def test_it_does_what_the_librarys_own_store_does(memory: Memory) -> None:
    """Turns, a window, a branch, a fork, a switch back, a rewritten history: both stores tell the same."""
    agent = Agent(Script().model, system_prompt="Be brief.", instructions="Be kind.")
    ours, theirs = MemoryConversations(memory, "alice"), InMemoryConversationStore()
    for prompt in ("one", ["look", PNG], "three"):
        result = await turn(ours, agent, "t1", prompt, scope="mail")
        # The same messages for the other one, whose runs would have other times.
        known = await theirs.load("t1") or Conversation(conversation_id="t1")
        conversation = Conversation(
            conversation_id="t1",
            messages=result.conversation.messages,
            usage=result.conversation.usage,
            revision=known.revision,
        )
        await theirs.save(conversation, scope="mail")
    told: list[Any] = []
    for store in (ours, theirs):
        loaded = await store.load("t1", scope="mail")
        assert loaded is not None
        window = await store.load("t1", limit=2)
        entries = await store.load_entries("t1")
        assert entries is not None
        assert [entry.parent_id for entry in entries] == [None, *(entry.id for entry in entries[:-1])]
        branched = await store.branch("t1", at=2, expected_revision=loaded.revision)
        record = await store.read_record("t1")
        assert record is not None
        assert record.branches == [entries[-1].id]
        fork = await store.fork("t1", from_entry=entries[3].id, new_conversation_id="t2", scope="chat")
        back = await store.branch("t1", from_entry=entries[-1].id, expected_revision=branched.revision)
        rewritten = Conversation(
            conversation_id="t1", messages=back.messages[2:], usage=back.usage, revision=back.revision
        )
        await store.save(rewritten)
        names = [
            [one.conversation_id for one in await store.list_conversations(scope=s)] for s in ("mail", "chat", None)
        ]
        all_of_it = [shown(one) for one in (loaded, window, branched, fork, back, await store.load("t1"))]
        told.append((all_of_it, [sorted(group) for group in names], await store.load("t1", scope="chat")))
    assert told[0] == told[1]


async def test_a_conflict_is_told(memory: Memory) -> None:
    """Whoever saves what somebody else has changed meanwhile is refused; of many exactly one wins."""
    store = MemoryConversations(memory, "alice")
    agent = Agent(Script().model)
    await turn(store, agent, "t1", "one")
    mine, yours = await store.load("t1"), await store.load("t1")
    assert mine is not None
    assert yours is not None
    result = await agent.run("two", conversation=mine)
    await store.save(result)
    with pytest.raises(ConversationConflict):
        await store.save(await agent.run("also two", conversation=yours))
    with pytest.raises(ConversationConflict):
        await store.save(Conversation(conversation_id="t1"))
    loads = [await store.load("t1") for _ in range(8)]
    runs = [await agent.run(f"race {n}", conversation=one) for n, one in enumerate(loads)]
    saves = await asyncio.gather(*(store.save(run) for run in runs), return_exceptions=True)
    assert sum(isinstance(save, list) for save in saves) == 1
    assert sum(isinstance(save, ConversationConflict) for save in saves) == 7
    final = await store.load("t1")
    assert final is not None
    assert len(final.messages) == 6


async def test_deleting(memory: Memory) -> None:
    """A deleted conversation is gone with its messages, but not what a fork still tells."""
    store = MemoryConversations(memory, "alice")
    agent = Agent(Script().model)
    await turn(store, agent, "t1", "one", scope="mail")
    entries = await store.load_entries("t1")
    assert entries is not None
    await store.fork("t1", new_conversation_id="t2")
    await store.delete("t1", scope="other")
    assert await store.load("t1") is not None
    await store.delete("t1")
    assert await store.load("t1") is None
    fork = await store.load("t2")
    assert fork is not None
    assert len(fork.messages) == 2
    await turn(store, agent, "t2", "two")
    await store.delete("t2")
    await turn(store, agent, "t3", "three")
    await store.delete("t3")
    assert [record.conversation_id for record in await store.list_conversations()] == []
    with pytest.raises(LookupError):
        await store.read_entry("nowhere")
    with pytest.raises(ConversationConflict):
        await store.delete_record("t3", expected_revision="any")
    with pytest.raises(UserError):
        await store.fork("t3")


async def test_resources_do_not_see_each_other(memory: Memory) -> None:
    """A conversation of one resource is none of another's, and no part of anybody's memory."""
    agent = Agent(Script().model)
    ours, others = MemoryConversations(memory, "alice"), MemoryConversations(memory, "bob")
    await turn(ours, agent, "t1", "a secret word")
    entries = await ours.load_entries("t1")
    assert entries is not None
    assert await others.load("t1") is None
    with pytest.raises(LookupError):
        await others.read_entry(entries[0].id)
    assert (await memory.resource("secret").search("alice")).results == ()
    assert (await memory.resource("secret").search("alice#conversations")).results == ()
    assert await memory.resource("alice#conversations").sweep() == 0


@pytest.mark.parametrize("engine_name", ["sqlite", "postgres"])
async def test_with_memory_and_after_a_restart(address: str) -> None:
    """The two seams together: the program gets its messages back, the memory keeps each word once."""
    script = Script()
    for prompt in ("one", "two"):
        async with Memory(address) as memory:
            store = MemoryConversations(memory, "alice")
            agent = Agent(script.model, system_prompt="Be brief.", capabilities=[MemoryCapability(memory, "alice")])
            await turn(store, agent, "t1", prompt)
    async with Memory(address) as memory:
        loaded = await MemoryConversations(memory, "alice").load("t1")
        assert loaded is not None
        assert [message.kind for message in loaded.messages] == ["request", "response"] * 2
        assert [part.part_kind for part in loaded.messages[0].parts] == ["system-prompt", "user-prompt"]
        assert loaded.usage.requests == 2
        lines = brief(await stored(memory, "alice", "t1"))
        assert lines == ["user: one", "assistant: you said: one", "user: two", "assistant: you said: two"]


async def test_a_paused_run_is_still_paused(memory: Memory) -> None:
    """Calls that wait for a person are carried over."""
    store = MemoryConversations(memory, "alice")
    script = Script(saying(ToolCallPart("pay", {"sum": 3}, "c1")))
    agent = Agent(script.model, output_type=[str, DeferredToolRequests])

    @agent.tool_plain
    def pay(sum: int) -> str:  # noqa: A002
        raise CallDeferred

    await turn(store, agent, "t1", "pay three")
    loaded = await store.load("t1")
    assert loaded is not None
    assert loaded.deferred_tool_requests is not None
    results = loaded.deferred_tool_requests.build_results(calls={"c1": "paid"})
    script.answer = saying(TextPart("thanks"))
    result = await agent.run(conversation=loaded, deferred_tool_results=results)
    await store.save(result)
    assert result.output == "thanks"
    again = await store.load("t1")
    assert again is not None
    assert again.deferred_tool_requests is None
    assert len(again.messages) == 4
