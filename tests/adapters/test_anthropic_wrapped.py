"""Wrapped Anthropic clients: the library's own clients and types, a provider that follows a script."""

from pathlib import Path
from typing import Any

import pytest

from adapters import wrapped
from adapters.kit import brief, stored
from adapters.provider import APIS, Json, Provider, Reply
from memolog import Memory

DRIVER = APIS["messages"]


def extend(whole: Json, more: Any) -> Json:
    """Return the arguments with one more message: a text of the user's, or an answer of the library's, as users append it."""
    one = {"role": "user", "content": more} if isinstance(more, str) else {"role": more.role, "content": more.content}
    return {**whole, "messages": [*whole["messages"], one]}


async def test_a_long_conversation(tmp_path: Path) -> None:
    """Two hundred turns: every message once and in order, and prompts that extend each other."""
    await wrapped.check_a_long_conversation(DRIVER, str(tmp_path / "memolog.db"))


async def test_both_engines(address: str) -> None:
    """The same on every engine."""
    await wrapped.check_both_engines(DRIVER, address)


def test_a_sync_client(tmp_path: Path) -> None:
    """A client that does not wait, with a memory that does not."""
    wrapped.check_a_sync_client(DRIVER, tmp_path)


async def test_whole_lists() -> None:
    """The whole conversation each time, as the library's own answers."""
    await wrapped.check_whole_lists(DRIVER, extend)


async def test_a_cut_stream() -> None:
    """Streams that end early."""
    await wrapped.check_a_cut_stream(DRIVER)


async def test_a_failing_run() -> None:
    """Errors, with and without the library's own retries."""
    await wrapped.check_a_failing_run(DRIVER)


async def test_bindings() -> None:
    """Threads by wrap, by call, by turn."""
    await wrapped.check_bindings(DRIVER)


async def test_contradictions() -> None:
    """A turn, and what says otherwise."""
    await wrapped.check_contradictions(DRIVER)


@pytest.mark.parametrize("status", [400, 413, 415, 422])
async def test_a_refused_message(status: int) -> None:
    """What the provider will never take does not spoil the thread."""
    await wrapped.check_a_refused_message(DRIVER, status)


def test_a_refused_message_without_waiting(tmp_path: Path) -> None:
    """The same for a client that does not wait."""
    wrapped.check_a_refused_message_without_waiting(DRIVER, tmp_path)


async def test_a_refused_retry() -> None:
    """A question that failed, and is refused when it is asked again."""
    await wrapped.check_a_refused_retry(DRIVER)


async def test_a_stream_that_fails() -> None:
    """An error within an answer that began well."""
    await wrapped.check_a_stream_that_fails(DRIVER)


async def test_counting() -> None:
    """What tokens are counted by."""
    await wrapped.check_counting(DRIVER)


async def test_half_characters() -> None:
    """What UTF-8 cannot hold."""
    await wrapped.check_half_characters(DRIVER)


async def test_many_at_once() -> None:
    """Conversations side by side."""
    await wrapped.check_many_at_once(DRIVER)


async def test_tools() -> None:
    """The three tools of memory, in this API's form."""
    await wrapped.check_tools(DRIVER, "anthropic")


async def test_the_library_s_own_stream() -> None:
    """`messages.stream`, its text and its final message, and the beta path are remembered too."""
    provider = Provider(DRIVER, lambda _: Reply(text="Hello there"))
    async with Memory(":memory:") as memory:
        client = wrapped.wrap(DRIVER, provider.async_client(), memory, thread="t1", resource="alice")
        async with client.messages.stream(**DRIVER.said("one")) as stream:
            assert "".join([text async for text in stream.text_stream]) == "Hello there"
        await client.beta.messages.create(**DRIVER.said("two"))
        said = [line for line in brief(await stored(memory, "alice", "t1")) if line != "reasoning"]
        assert said == ["user: one", "assistant: Hello there", "user: two", "assistant: Hello there"]


async def test_an_answer_that_the_caller_began() -> None:
    """What the caller puts into the model's mouth is sent last, and saved as the beginning of the answer."""
    provider = Provider(DRIVER, lambda _: Reply(text=" two, three.", thinks=False))
    async with Memory(":memory:") as memory:
        call = DRIVER.call(wrapped.wrap(DRIVER, provider.async_client(), memory, thread="t1", resource="alice"))
        begun = {"role": "assistant", "content": "One,"}
        said = DRIVER.said("Count.")
        await call(**{**said, "messages": [*said["messages"], begun]})
        assert provider.bodies[0]["messages"][-1]["content"][0]["text"] == "One,"
        assert brief(await stored(memory, "alice", "t1")) == ["user: Count.", "assistant: One, two, three."]
        whole = [*said["messages"], {"role": "assistant", "content": "One, two, three."}]
        await call(**{**said, "messages": [*whole, {"role": "user", "content": "More."}]})
        assert len(await stored(memory, "alice", "t1")) == 4


async def test_the_cache_is_marked() -> None:
    """After the log and at the last message; the caller's marks count, and the mark is the caller's to choose."""
    provider = Provider(DRIVER, lambda _: Reply(text="Yes."))
    async with Memory(":memory:") as memory:
        client = provider.async_client()
        call = DRIVER.call(wrapped.wrap(DRIVER, client, memory, thread="t1", resource="alice"))
        await call(**DRIVER.said("one"))
        await memory.thread("t1", resource="alice").observe()
        await call(**DRIVER.said("two"))
        body = provider.bodies[1]
        assert [n for n, block in enumerate(body["system"]) if "cache_control" in block] == [len(body["system"]) - 1]
        assert "cache_control" in body["messages"][-1]["content"][-2]
        tools = [
            {
                "name": f"t{n}",
                "description": "",
                "input_schema": {"type": "object"},
                "cache_control": {"type": "ephemeral"},
            }
            for n in range(3)
        ]
        await call(**DRIVER.said("three"), tools=tools)
        assert "cache_control" not in str(provider.bodies[2]["system"])
        assert "cache_control" in str(provider.bodies[2]["messages"])
        plain = wrapped.wrap_anthropic(client, memory, thread="t1", resource="alice", cache=None)
        await DRIVER.call(plain)(**DRIVER.said("four"))
        assert "cache_control" not in str(provider.bodies[3])


async def test_thinking_between_tool_calls_is_untouched() -> None:
    """Signed blocks go back as they came, in their place."""
    replies = iter([Reply(calls=(("c1", "look"),)), Reply(text="Done.")])
    provider = Provider(DRIVER, lambda _: next(replies))
    async with Memory(":memory:") as memory:
        call = DRIVER.call(wrapped.wrap(DRIVER, provider.async_client(), memory, thread="t1", resource="alice"))
        await call(**DRIVER.said("look"))
        await call(**DRIVER.results([("c1", "42")]))
    assert provider.bodies[1]["messages"][1]["content"] == [
        {"type": "thinking", "thinking": "hm", "signature": "sig-1"},
        {"type": "tool_use", "id": "c1", "name": "look", "input": {"n": 1}},
    ]
