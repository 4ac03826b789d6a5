"""Wrapped OpenAI clients, Responses and Chat Completions: the library's own clients and types, a provider with a script."""

from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from adapters import wrapped
from adapters.kit import brief, stored
from adapters.provider import APIS, Chat, Driver, Json, Provider, Reply
from memolog import Config, InputError, Memory, StoreError, Turn
from memolog.adapters.provider_limits import encodable

DRIVERS = [APIS["chat"], APIS["responses"]]
each = pytest.mark.parametrize("driver", DRIVERS, ids=lambda driver: driver.name)


def extend(whole: Json, more: Any) -> Json:
    """Return the arguments with one more message: a text of the user's, or an answer of the library's, as users append it."""
    name = "messages" if "messages" in whole else "input"
    known = whole[name] if isinstance(whole[name], list) else [{"role": "user", "content": whole[name]}]
    if isinstance(more, str):
        return {**whole, name: [*known, {"role": "user", "content": more}]}
    return {**whole, name: [*known, more.choices[0].message] if name == "messages" else [*known, *more.output]}


@each
async def test_a_long_conversation(driver: Driver, tmp_path: Path) -> None:
    """Two hundred turns: every message once and in order, and prompts that extend each other."""
    await wrapped.check_a_long_conversation(driver, str(tmp_path / "memolog.db"))


@each
async def test_both_engines(driver: Driver, address: str) -> None:
    """The same on every engine."""
    await wrapped.check_both_engines(driver, address)


@each
def test_a_sync_client(driver: Driver, tmp_path: Path) -> None:
    """A client that does not wait, with a memory that does not."""
    wrapped.check_a_sync_client(driver, tmp_path)


@each
async def test_whole_lists(driver: Driver) -> None:
    """The whole conversation each time, as the library's own answers."""
    await wrapped.check_whole_lists(driver, extend)


@each
async def test_a_cut_stream(driver: Driver) -> None:
    """Streams that end early."""
    await wrapped.check_a_cut_stream(driver)


@each
async def test_a_failing_run(driver: Driver) -> None:
    """Errors, with and without the library's own retries."""
    await wrapped.check_a_failing_run(driver)


@each
async def test_bindings(driver: Driver) -> None:
    """Threads by wrap, by call, by turn."""
    await wrapped.check_bindings(driver)


@each
async def test_contradictions(driver: Driver) -> None:
    """A turn, and what says otherwise."""
    await wrapped.check_contradictions(driver)


@each
@pytest.mark.parametrize("status", [400, 413, 415, 422])
async def test_a_refused_message(driver: Driver, status: int) -> None:
    """What the provider will never take does not spoil the thread."""
    await wrapped.check_a_refused_message(driver, status)


@each
def test_a_refused_message_without_waiting(driver: Driver, tmp_path: Path) -> None:
    """The same for a client that does not wait."""
    wrapped.check_a_refused_message_without_waiting(driver, tmp_path)


@each
async def test_a_refused_retry(driver: Driver) -> None:
    """A question that failed, and is refused when it is asked again."""
    await wrapped.check_a_refused_retry(driver)


@each
async def test_a_stream_that_fails(driver: Driver) -> None:
    """An error within an answer that began well."""
    await wrapped.check_a_stream_that_fails(driver)


@each
async def test_counting(driver: Driver) -> None:
    """What tokens are counted by."""
    await wrapped.check_counting(driver)


@each
async def test_half_characters(driver: Driver) -> None:
    """What UTF-8 cannot hold."""
    await wrapped.check_half_characters(driver)


@each
async def test_many_at_once(driver: Driver) -> None:
    """Conversations side by side."""
    await wrapped.check_many_at_once(driver)


@each
async def test_tools(driver: Driver) -> None:
    """The three tools of memory, in this API's form."""
    await wrapped.check_tools(driver, "openai" if driver.name == "chat" else "openai-responses")


@each
async def test_without_a_database(driver: Driver, tmp_path: Path) -> None:
    """A database that is not there does not stop the agent."""
    await wrapped.check_without_a_database(driver, tmp_path, extend)


class Colour(BaseModel):
    """What the model is to give back."""

    name: str


async def test_other_ways_of_calling() -> None:
    """Parsed answers, raw answers, and the library's own streams are remembered too."""
    chat, responses = (Provider(driver, lambda _: Reply(text='{"name": "red"}')) for driver in DRIVERS)
    async with Memory(":memory:") as memory:
        client = wrapped.wrap(chat.driver, chat.async_client(), memory, thread="c", resource="alice")
        said = chat.driver.said("Which colour?")
        parsed = await client.chat.completions.parse(**said, response_format=Colour)
        assert parsed.choices[0].message.parsed == Colour(name="red")
        raw = await client.chat.completions.with_raw_response.create(**said)
        assert raw.parse().choices[0].message.content == '{"name": "red"}'
        async with client.chat.completions.with_streaming_response.create(**said) as answer:
            assert (await answer.parse()).id == "chatcmpl-3"
        async with client.chat.completions.stream(**said) as stream:
            async for _ in stream:
                pass
        assert len(await stored(memory, "alice", "c")) == 8
        client = wrapped.wrap(responses.driver, responses.async_client(), memory, thread="r", resource="alice")
        said = responses.driver.said("Which colour?")
        assert (await client.responses.parse(**said, text_format=Colour)).output_parsed == Colour(name="red")
        async with client.responses.stream(**said) as stream:
            assert (await stream.get_final_response()).output_text == '{"name": "red"}'
        assert len(await stored(memory, "alice", "r")) == 4


async def test_where_the_provider_keeps_the_conversation() -> None:
    """What the caller says goes as it is, only the log goes before it; both sides are saved all the same."""
    driver = APIS["responses"]
    provider = Provider(driver, lambda _: Reply(text="Yes."))
    async with Memory(":memory:") as memory:
        call = driver.call(wrapped.wrap(driver, provider.async_client(), memory, thread="t1", resource="alice"))
        first = await call(**driver.said("one"))
        await memory.thread("t1", resource="alice").observe()
        await call(**driver.said("two"), previous_response_id=first.id)
        assert provider.bodies[1]["input"] == "two"
        assert provider.bodies[1]["instructions"].startswith("Be exact.\n\n")
        assert len(await stored(memory, "alice", "t1")) == 4


async def test_an_answer_that_cannot_be_kept(caplog: pytest.LogCaptureFixture) -> None:
    """Nested deeper than the store takes it, it still reaches the caller; with `strict` the caller is told."""
    odd: list[Any] = []
    for _ in range(250):
        odd = [odd]

    class Odd(Chat):
        """A provider whose answers have a field that nobody expects."""

        def answer(self, reply: Reply, number: int, tokens: int) -> Json:
            made = super().answer(reply, number, tokens)
            made["choices"][0]["message"]["odd"] = odd
            return made

    driver = Odd()
    provider = Provider(driver, lambda _: Reply(text="Yes."))
    for is_strict in (False, True):
        async with Memory(":memory:", config=Config(strict=is_strict)) as memory:
            call = driver.call(wrapped.wrap(driver, provider.async_client(), memory, thread="t1", resource="alice"))
            if is_strict:
                with pytest.raises(InputError):
                    await call(**driver.said("hello"))
            else:
                assert driver.text(await call(**driver.said("hello"))) == "Yes."
                assert "cannot be stored" in caplog.text
            assert brief(await stored(memory, "alice", "t1")) == ["user: hello"]


async def test_an_answer_that_the_caller_gives() -> None:
    """A model of this API does not go on from it: it is a message of its own."""
    driver = APIS["chat"]
    provider = Provider(driver, lambda _: Reply(text="Two."))
    async with Memory(":memory:") as memory:
        call = driver.call(wrapped.wrap(driver, provider.async_client(), memory, thread="t1", resource="alice"))
        said = driver.said("Count.")
        await call(**{**said, "messages": [*said["messages"], {"role": "assistant", "content": "One."}]})
        assert brief(await stored(memory, "alice", "t1")) == ["user: Count.", "assistant: One.", "assistant: Two."]


async def test_what_cannot_be_taken_back(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """A database that fails just then: the caller sees what the provider said; with `strict`, what the database said."""

    async def fail(_: Turn, **_options: object) -> None:
        raise StoreError("Locked.")

    monkeypatch.setattr(Turn, "discard", fail)
    driver = APIS["chat"]
    provider = Provider(driver, lambda _: Reply(status=400))
    for is_strict, match in ((False, "out of order"), (True, "Locked")):
        async with Memory(":memory:", config=Config(strict=is_strict)) as memory:
            call = driver.call(wrapped.wrap(driver, provider.async_client(), memory, thread="t1", resource="alice"))
            with pytest.raises(Exception, match=match):
                await call(**driver.said("hello"))
    assert "cannot be withdrawn" in caplog.text


def test_what_can_be_sent() -> None:
    """Only what UTF-8 cannot hold is changed; what is no JSON is left for the client to tell."""
    plain: Json = {"a": ["b", {"c": None}], "d": b"bytes"}
    assert encodable(plain) is plain
    odd: Json = {"a": {("no", "key"): 1}}
    assert encodable(odd) is odd
    assert encodable({"a": ("\ud800", 1, {"\udfff": True})}) == {"a": ["\ufffd", 1, {"\ufffd": True}]}


async def test_a_call_that_cannot_be_read() -> None:
    """What is no list of messages is refused with advice, and nobody is asked."""
    provider = Provider(APIS["chat"], lambda _: Reply(text="Yes."))
    async with Memory(":memory:") as memory:
        client = wrapped.wrap(APIS["chat"], provider.async_client(), memory, thread="t1", resource="alice")
        with pytest.raises(InputError, match="Pass a list of messages"):
            await client.post("/chat/completions", cast_to=object, body={"messages": "hello"})
    assert provider.bodies == []


async def test_other_calls_are_left_alone() -> None:
    """What is no conversation passes through untouched."""
    provider = Provider(APIS["chat"], lambda _: Reply(status=500))
    async with Memory(":memory:") as memory:
        client = wrapped.wrap(APIS["chat"], provider.async_client(), memory)
        with pytest.raises(Exception, match="out of order"):
            await client.embeddings.create(model="m", input="hello")
        assert provider.bodies == [{"input": "hello", "model": "m", "encoding_format": "base64"}]
