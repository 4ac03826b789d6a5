"""Wrapped clients of OpenAI and Anthropic, with the real clients and types of the libraries and a scripted provider."""

import asyncio
import json
import socket
from collections.abc import Callable
from contextlib import nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from anthropic import AnthropicError
from openai import OpenAIError
from pydantic import BaseModel

from adapters.kit import SMALL, Prompts, brief, check_pairs, stored
from adapters.provider import APIS, Chat, Driver, Json, Provider, Reply, wrap
from adapters.rules import signature
from memolog import Config, InputError, Memory, StoreError, SyncMemory, Turn, UserMessage
from memolog.adapters.anthropic import wrap as wrap_anthropic
from memolog.adapters.exchange import at
from memolog.adapters.provider_limits import encodable

WORDS = "the adapter keeps every word of a conversation that goes on and on, and finds what was decided about"

each = pytest.mark.parametrize("driver", APIS.values(), ids=lambda driver: driver.name)
CHAT, MESSAGES = APIS["chat"], APIS["messages"]


def asking(provider: Provider, memory: Memory) -> Any:
    """Return the method of a wrapped client that sends a request in the thread of these tests."""
    return provider.driver.call(wrap(provider.driver, provider.async_client(), memory, thread="t1", resource="alice"))


async def lines(memory: Memory, thread: str = "t1", resource: str = "alice") -> list[str]:
    """Return the stored messages of a thread without reasoning, one line for each part."""
    return [line for line in brief(await stored(memory, resource, thread)) if line != "reasoning"]


def last_said(driver: Driver, body: Json) -> str:
    """Return the last line of a request before its edge, which the model answers."""
    return driver.prompt(body).splitlines()[-1]


class Model:
    """A model that answers, calls two tools, fails or waits, depending on the last message."""

    def __init__(self, driver: Driver) -> None:
        self.driver = driver
        self.waiting, self.calls = asyncio.Event(), 0

    def __call__(self, body: Json) -> Any:
        """Return what is answered to a request."""
        line = last_said(self.driver, body)
        if "tool_result" in line or '"tool"' in line or "function_call_output" in line:
            return Reply(text="The tools found it.")
        if "look it up" in line:
            self.calls += 2
            return Reply(text="I look.", calls=((f"c{self.calls - 1}", "look"), (f"c{self.calls}", "see")))
        if "fail now" in line:
            return Reply(status=500)
        if "never answer" in line:
            return self._wait()
        return Reply(text=f"Understood, number {line.split('number ')[1].split('.')[0]}. {WORDS} it.")

    async def _wait(self) -> Reply:
        self.waiting.set()
        await asyncio.Event().wait()
        raise AssertionError


class Talk:
    """A conversation through an asynchronous client, with the lines that must be stored."""

    def __init__(self, driver: Driver, provider: Provider, prompts: Prompts) -> None:
        self.driver, self.provider, self.prompts = driver, provider, prompts
        self.expected: list[str] = []

    async def say(self, client: Any, number: int, *, is_streamed: bool, then: str = "") -> None:
        """Run one turn. `then` selects a tool loop, a failing request or a cancelled one."""
        said = f"Message number {number}. {WORDS} number {number}. {then}".strip()
        call = self.driver.call(client)
        self.expected.append(f"user: {said}")
        if then == "fail now":
            with pytest.raises(Exception, match="out of order"):
                await call(**self.driver.said(said))
        elif then == "never answer":
            model: Any = self.provider.script
            model.waiting.clear()
            task = asyncio.create_task(call(**self.driver.said(said)))
            await model.waiting.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        else:
            self._heard(await self._ask(call, self.driver.said(said), is_streamed=is_streamed), then)
        self._look()
        if then == "look it up":
            model = self.provider.script
            ids = [f"c{model.calls - 1}", f"c{model.calls}"]
            results = self.driver.results([(id_, f"result of {id_}") for id_ in ids])
            self.expected += [f"result {id_}" for id_ in ids]
            self._heard(await self._ask(call, results, is_streamed=is_streamed), "")
            self._look()

    async def _ask(self, call: Callable[..., Any], arguments: Json, *, is_streamed: bool) -> str:
        if not is_streamed:
            return self.driver.text(await call(**arguments))
        return "".join([self.driver.piece(event) async for event in await call(**arguments, stream=True)])

    def _heard(self, text: str, then: str) -> None:
        if self.driver.name != "chat":
            self.expected.append("reasoning")
        self.expected.append(f"assistant: {text}")
        if then == "look it up":
            model: Any = self.provider.script
            self.expected += [f"call c{model.calls - 1}: look", f"call c{model.calls}: see"]

    def _look(self) -> None:
        body = self.provider.bodies[-1]
        self.prompts.add(self.driver.prompt(body))
        assert self.driver.has_edge(body)


EVENTS = {7: "look it up", 23: "fail now", 41: "never answer"}


@each
async def test_a_long_conversation(driver: Driver, tmp_path: Path) -> None:
    """Two hundred turns over thresholds, with tool loops, streams, failing and cancelled runs and a restart."""
    provider, prompts = Provider(driver, Model(driver)), Prompts()
    talk = Talk(driver, provider, prompts)
    for start, end in ((0, 100), (100, 200)):
        async with Memory(tmp_path / "memolog.db", config=SMALL) as memory:
            prompts.watch(memory)
            client = wrap(driver, provider.async_client(), memory, thread="t1", resource="alice")
            for number in range(start, end):
                await talk.say(client, number, is_streamed=number % 2 == 0, then=EVENTS.get(number % 50, ""))
                await memory.settled()
            rows = await stored(memory, "alice", "t1")
            status = await memory.thread("t1", resource="alice").status()
    assert brief(rows) == talk.expected
    check_pairs(rows)
    prompts.check()
    assert status.usage.requests > 190
    assert all("x-memolog-thread" not in headers for headers in provider.headers)


@each
async def test_both_engines(driver: Driver, address: str) -> None:
    """A short conversation with a tool loop, on every engine."""
    provider = Provider(driver, Model(driver))
    talk = Talk(driver, provider, Prompts())
    async with Memory(address) as memory:
        client = wrap(driver, provider.async_client(), memory, thread="t1", resource="alice")
        for number, then in enumerate(["", "look it up", "fail now", ""]):
            await talk.say(client, number, is_streamed=number % 2 == 1, then=then)
        rows = await stored(memory, "alice", "t1")
    assert brief(rows) == talk.expected
    check_pairs(rows)


@each
def test_a_sync_client(driver: Driver, tmp_path: Path) -> None:
    """A synchronous client: seventy turns over thresholds, streamed or not, with a tool loop and a failing request."""
    model = Model(driver)
    provider = Provider(driver, model)
    said: list[str] = []
    with SyncMemory(str(tmp_path / "memolog.db"), config=SMALL) as memory:
        client = wrap(driver, provider.client(), memory, thread="t1", resource="alice")
        call = driver.call(client)
        for number in range(70):
            text = f"Message number {number}. {WORDS} {'look it up' if number == 5 else ''}"
            said.append(f"user: {text}")
            if number % 2:
                answer = "".join(driver.piece(event) for event in call(**driver.said(text), stream=True))
            else:
                answer = driver.text(call(**driver.said(text)))
            said += [f"assistant: {answer}"]
            if number == 5:
                said += ["call c1: look", "call c2: see", "result c1", "result c2"]
                answer = driver.text(call(**driver.results([("c1", "1"), ("c2", "2")])))
                said += [f"assistant: {answer}"]
            memory.settled()
        with pytest.raises(Exception, match="out of order"):
            call(**driver.said("Message number 70. fail now"))
        assert memory.thread("t1", resource="alice").status().cursor > 0
    assert len(provider.bodies) == 72
    first, later = driver.prompt(provider.bodies[0]), driver.prompt(provider.bodies[1])
    assert later.startswith(first)

    async def look() -> list[str]:
        async with Memory(tmp_path / "memolog.db") as memory:
            return brief(await stored(memory, "alice", "t1"))

    kept = [line for line in asyncio.run(look()) if line != "reasoning"]
    assert kept == [*said, "user: Message number 70. fail now"]


@each
async def test_whole_lists(driver: Driver) -> None:
    """If a caller sends the whole conversation each time, every message is stored once, even after a failed request."""
    failing = iter([False, True, False, False])

    def script(body: Json) -> Reply:
        return Reply(status=500) if next(failing) else Reply(text=f"Answer {len(provider.bodies)}")

    provider = Provider(driver, script)
    async with Memory(":memory:") as memory:
        call = asking(provider, memory)
        whole = driver.extend(driver.said("one"), await call(**driver.said("one")))
        whole = driver.extend(whole, "two")
        with pytest.raises(Exception, match="out of order"):
            await call(**whole)
        whole = driver.extend(whole, await call(**whole))
        whole = driver.extend(whole, "three")
        await call(**whole)
        rows = await lines(memory)
    assert rows == [
        "user: one",
        "assistant: Answer 1",
        "user: two",
        "assistant: Answer 3",
        "user: three",
        "assistant: Answer 4",
    ]


@each
async def test_a_cut_stream(driver: Driver) -> None:
    """If a stream breaks off or the caller stops reading it, the received words are stored, and the next turn works."""
    reply = Reply(text="One two three", calls=(("c1", "look"),))
    events = [json.dumps(event) for event in driver.events(driver.answer(reply, 1, 1))]
    first_words = next(number for number, event in enumerate(events, start=1) if '"One"' in event)
    provider = Provider(driver, lambda _: reply, cut_after=first_words)
    async with Memory(":memory:") as memory:
        call = asking(provider, memory)
        try:
            heard = [driver.piece(event) async for event in await call(**driver.said("first"), stream=True)]
        except Exception as error:
            heard = [str(error)]
        assert heard
        provider.cut_after = None
        async with await call(**driver.said("second"), stream=True) as stream:
            async for event in stream:
                if driver.piece(event) == "One":
                    break
        rows = brief(await stored(memory, "alice", "t1"))
        await call(**driver.said("third"))
    said = [line for line in rows if line != "reasoning"]
    assert said == ["user: first", "assistant: One", "user: second", "assistant: One"]


def first_words(driver: Driver, reply: Reply) -> int:
    """Return the number of events of an answer until its first words."""
    events = driver.events(driver.answer(reply, 1, 1))
    return next(number for number, event in enumerate(events, start=1) if f'"{reply.text[:3]}"' in json.dumps(event))


@each
@pytest.mark.parametrize("how", ["broken", "ended", "failed"])
async def test_a_request_again_after_a_cut_stream(driver: Driver, how: str, address: str) -> None:
    """A question and a tool result are sent again after their answers were cut: each is stored once."""
    call_it, done = Reply(text="I look.", calls=(("c1", "look"),), thinks=False), Reply(text="Done.")
    half = Reply(text="Half of it.", thinks=False)
    broken = replace(half, cut=first_words(driver, half))
    cut = {"broken": broken, "ended": half, "failed": replace(half, breaks="overloaded_error")}[how]
    replies = iter((done, cut, cut, call_it, cut, done, done))
    provider = Provider(driver, lambda _: next(replies))
    async with Memory(address) as memory:
        call = asking(provider, memory)

        async def hear(arguments: Json, *, is_cut: bool) -> None:
            provider.cut_after = first_words(driver, half) if is_cut and how == "ended" else None
            # Some libraries raise an error if a stream is incomplete, others do not.
            with suppress(Exception) if is_cut else nullcontext():
                assert [event async for event in await call(**arguments, stream=True)]

        await hear(driver.said("one"), is_cut=False)
        for is_cut in (True, True, False):
            await hear(driver.said("two"), is_cut=is_cut)
        for is_cut in (True, False):
            await hear(driver.results([("c1", "found")]), is_cut=is_cut)
        await hear(driver.said("two"), is_cut=False)
        rows = await lines(memory)
        branches = await memory.thread("t1", resource="alice").branches()
    assert rows == [
        *("user: one", "assistant: Done.", "user: two", "assistant: I look.", "call c1: look", "result c1"),
        *("assistant: Done.", "user: two", "assistant: Done."),
    ]
    assert [branch.preview for branch in branches] == ["Hal"] * 3
    assert "Hal" not in json.dumps(provider.bodies[-1])


@each
async def test_a_stream_that_the_caller_left(driver: Driver) -> None:
    """The caller stops reading and asks the same again: this may be a new question, so both stay."""
    provider = Provider(driver, lambda _: Reply(text="One two three", thinks=False))
    async with Memory(":memory:") as memory:
        call = asking(provider, memory)
        for _ in range(2):
            async with await call(**driver.said("go on"), stream=True) as stream:
                async for event in stream:
                    if driver.piece(event) == "One":
                        break
        assert await lines(memory) == ["user: go on", "assistant: One"] * 2


@each
def test_a_sync_request_again_after_a_cut_stream(driver: Driver, tmp_path: Path) -> None:
    """The synchronous client stores the question once too."""
    half = Reply(text="Half of it.", thinks=False)
    replies = iter((replace(half, cut=first_words(driver, half)), Reply(text="Done.")))
    provider = Provider(driver, lambda _: next(replies))
    with SyncMemory(tmp_path / "memolog.db") as memory:
        call = driver.call(wrap(driver, provider.client(), memory, thread="t1", resource="alice"))
        with pytest.raises(Exception, match=r"(?i)connection|closed"):
            list(call(**driver.said("one"), stream=True))
        list(call(**driver.said("one"), stream=True))
        said = [row for row in memory.thread("t1", resource="alice").messages().items if row.state == "live"]
    assert [line for line in brief(said) if line != "reasoning"] == ["user: one", "assistant: Done."]


@each
async def test_a_failing_run(driver: Driver) -> None:
    """The caller gets the error of the library, the question stays, and a repeated question is stored once."""
    answers = iter([Reply(status=429), Reply(status=500), Reply(text="At last.")])
    provider = Provider(driver, lambda _: next(answers))
    async with Memory(":memory:") as memory:
        client = wrap(driver, provider.async_client(), memory, thread="t1", resource="alice").with_options(
            max_retries=1
        )
        with pytest.raises(Exception, match="out of order") as caught:
            await driver.call(client)(**driver.said("hello"), timeout=60)
        assert caught.value.status_code == 500  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
        assert brief(await stored(memory, "alice", "t1")) == ["user: hello"]
        await driver.call(client)(**driver.said("hello"))
        said = await lines(memory)
    assert said == ["user: hello", "assistant: At last."]


@each
async def test_bindings(driver: Driver) -> None:
    """A call may select another thread, and a turn of the caller may contain several calls. Wrong clients are rejected."""
    provider = Provider(driver, lambda _: Reply(text="Yes."))
    async with Memory(":memory:") as memory:
        free = wrap(driver, provider.async_client(), memory)
        with pytest.raises(InputError, match="has no thread"):
            await driver.call(free)(**driver.said("hello"))
        await driver.call(free)(**driver.said("hello"), **at("späť 1", "bob"))
        bound = wrap(driver, free, memory, thread="t1", resource="alice")
        await driver.call(bound)(**driver.said("hi"))
        await driver.call(bound.with_options(timeout=90))(**driver.said("hi again"))
        said = await lines(memory)
        assert said == ["user: hi", "assistant: Yes.", "user: hi again", "assistant: Yes."]
        assert len(await stored(memory, "bob", "späť 1")) == 2
        async with memory.thread("t2", resource="alice").turn() as turn:
            stepping = wrap(driver, provider.async_client(), memory, turn=turn)
            await driver.call(stepping)(**driver.said("one"))
            await driver.call(stepping)(**driver.said("two"))
            assert len(await stored(memory, "alice", "t2")) == 4
            await turn.discard()
        assert await stored(memory, "alice", "t2") == []
        async with memory.thread("t1", resource="alice").turn() as turn:
            assert len((await turn.prepare(UserMessage("more"))).tail) == 5
        with pytest.raises(InputError, match="must be a SyncMemory, got Memory"):
            wrap(driver, provider.client(), memory)
        with pytest.raises(InputError, match="cannot be wrapped"):
            wrap(driver, object(), memory)
    assert all("x-memolog" not in " ".join(headers) for headers in provider.headers)


@each
async def test_contradictions(driver: Driver) -> None:
    """Arguments that contradict the turn are rejected in `wrap` and in a call, before a request is sent."""
    provider = Provider(driver, lambda _: Reply(text="Yes."))
    raw = provider.async_client()
    async with Memory(":memory:") as memory, memory.thread("t1", resource="alice").turn() as turn:
        for odd in ({"thread": "t2"}, {"resource": "bob"}, {"zone": "Europe/Vienna"}, {"settings": {"threshold": 9}}):
            with pytest.raises(InputError, match=f"{next(iter(odd))}.*Leave"):
                wrap(driver, raw, memory, turn=turn, **odd)
        call = driver.call(wrap(driver, raw, memory, turn=turn, thread="t1", resource="alice"))
        for where in (("t2", "alice"), ("t1", "bob")):
            with pytest.raises(InputError, match="but the turn belongs to"):
                await call(**driver.said("hello"), **at(*where))
        assert provider.bodies == []
        await call(**driver.said("hello"), **at("t1", "alice"))
        assert "user: hello" in brief(await stored(memory, "alice", "t1"))
        for wrong in ((None, "alice"), ("", "alice"), ("t1", None), ("t1", "")):
            with pytest.raises(InputError, match="must be a non-empty string"):
                at(*wrong)  # pyright: ignore[reportArgumentType]
        for client, kind in ((raw, "Memory"), (provider.client(), "SyncMemory")):
            with pytest.raises(InputError, match=rf"got str.*Pass {kind}\("):
                wrap(driver, client, "memolog.db", thread="t1", resource="alice")


def _refusing(driver: Driver, status: int) -> Provider:
    """Return a provider that refuses every request with a poisoned message in it."""
    return Provider(driver, lambda body: Reply(status=status) if "poison" in json.dumps(body) else Reply(text="Yes."))


@each
@pytest.mark.parametrize("status", [400, 413, 415, 422])
async def test_a_refused_message(driver: Driver, status: int) -> None:
    """A rejected message is withdrawn, streamed or not. In a turn of the caller, the caller decides."""
    provider = _refusing(driver, status)
    async with Memory(":memory:") as memory:
        call = asking(provider, memory)
        await call(**driver.said("one"))
        for how in ({}, {"stream": True}):
            with pytest.raises(Exception, match="out of order") as caught:
                await call(**driver.said("poison"), **how)
            assert caught.value.status_code == status  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
        await call(**driver.said("two"))
        said = await lines(memory)
        assert said == ["user: one", "assistant: Yes.", "user: two", "assistant: Yes."]
        async with memory.thread("t2", resource="alice").turn() as turn:
            with pytest.raises(Exception, match="out of order"):
                await driver.call(wrap(driver, provider.async_client(), memory, turn=turn))(**driver.said("poison"))
            assert brief(await stored(memory, "alice", "t2")) == ["user: poison"]
            await turn.discard()
        assert await stored(memory, "alice", "t2") == []


@each
def test_a_refused_message_without_waiting(driver: Driver, tmp_path: Path) -> None:
    """A synchronous client withdraws a rejected message too."""
    provider = _refusing(driver, 400)
    with SyncMemory(str(tmp_path / "memolog.db")) as memory:
        call = driver.call(wrap(driver, provider.client(), memory, thread="t1", resource="alice"))
        for how in ({}, {"stream": True}):
            with pytest.raises(Exception, match="out of order"):
                call(**driver.said("poison"), **how)
        call(**driver.said("two"))
    assert "poison" not in json.dumps(provider.bodies[-1])


@each
async def test_a_refused_retry(driver: Driver) -> None:
    """A question stays after a failure. If it is sent again and rejected, only this question is withdrawn."""
    answers = iter([Reply(text="Yes."), Reply(status=500), Reply(status=400), Reply(text="No.")])
    provider = Provider(driver, lambda _: next(answers))
    async with Memory(":memory:") as memory:
        call = asking(provider, memory)
        await call(**driver.said("one"))
        for kept in (["user: one", "assistant: Yes.", "user: poison"], ["user: one", "assistant: Yes."]):
            with pytest.raises(Exception, match="out of order"):
                await call(**driver.said("poison"))
            assert await lines(memory) == kept
        await call(**driver.said("two"))
    assert "poison" not in json.dumps(provider.bodies[-1])


@each
async def test_a_stream_that_fails(driver: Driver) -> None:
    """A rejection in a stream withdraws the question. After any other failure the question and the received words stay."""
    replies = {
        "poison": Reply(breaks="invalid_request_error"),
        "busy": Reply(breaks="overloaded_error"),
        "late": Reply(text="Well", thinks=False, breaks="invalid_request_error"),
    }
    provider = Provider(driver, lambda body: next((one for word, one in replies.items() if word in json.dumps(body))))
    async with Memory(":memory:") as memory:
        said: dict[str, list[str]] = {}
        for word in replies:
            call = driver.call(wrap(driver, provider.async_client(), memory, thread=word, resource="alice"))
            # Some libraries raise here, others hand the error on.
            with suppress(OpenAIError, AnthropicError):
                assert [event async for event in await call(**driver.said(word), stream=True)]
            said[word] = await lines(memory, word)
    assert said == {"poison": [], "busy": ["user: busy"], "late": ["user: late", "assistant: Wel"]}


@each
async def test_counting(driver: Driver) -> None:
    """Instructions and tools do not change the learned factor between estimated and reported tokens."""
    provider = Provider(driver, lambda _: Reply(text="Yes."))
    words = {"type": "string", "description": "what to look for, and where, in plain words " * 20}
    tools = [{"name": f"look_{n}", "parameters": {"properties": {"words": words}}} for n in range(30)]
    factors: list[float] = []
    async with Memory(":memory:") as memory:
        for given in ({}, {"tools": tools}):
            call = driver.call(
                wrap(driver, provider.async_client(), memory, thread=f"t{len(given)}", resource=f"r{len(given)}")
            )
            await call(**driver.said("Where is the report of March, and who has read it since?"), **given)
            store = (await memory.open()).store
            # The provider answers as `m-1`; the next request will be for `m` again, and finds it there.
            learned = await store.ledger.calibration(f"r{len(given)}", "m")
            assert learned.samples == 1
            factors.append(learned.factor)
    # Not counted, the tools would make it four: the provider here reports some quarter of all characters.
    assert all(0.9 < factor < 1.6 for factor in factors)


@each
async def test_half_characters(driver: Driver) -> None:
    """Half a character is kept as it is, and sent as the sign for what cannot be shown: the thread goes on."""
    provider = Provider(driver, lambda _: Reply(text="Yes."))
    async with Memory(":memory:") as memory:
        call = asking(provider, memory)
        tool = {"name": "look", "parameters": {"\udc00": "\ud83d\ude00"}}
        await call(**driver.said("half \ud83d of it"), tools=[tool])
        await call(**driver.said("more"))
        assert "user: half \ud83d of it" in brief(await stored(memory, "alice", "t1"))
    assert provider.bodies[0]["tools"] == [{"name": "look", "parameters": {"\ufffd": "\U0001f600"}}]
    for body in provider.bodies:
        assert "half \ufffd of it" in json.dumps(body, ensure_ascii=False)


@each
async def test_tools(driver: Driver) -> None:
    """The tools of memory, offered in the API's own form and run by the caller: their results are stored as memory's own."""
    search = Reply(calls=(("c9", "memory-search"),), arguments='{"action": "search", "query": "argon2id"}')
    replies = iter([Reply(text="Noted."), search, Reply(text="argon2id, it was.")])
    provider = Provider(driver, lambda _: next(replies))
    async with Memory(":memory:") as memory:
        tools = memory.resource("alice").tools(thread="t1")
        call = asking(provider, memory)
        offered = {"tools": tools.definitions(driver.form)}
        await call(**driver.said("We hash with argon2id."), **offered)
        await call(**driver.said("Which hash was it?"), **offered)
        found = await tools.call("memory-search", search.arguments)
        await call(**driver.results([("c9", json.dumps(found))]), **offered)
        rows = await stored(memory, "alice", "t1")
    assert "We hash with" in json.dumps(found)
    assert provider.bodies[-1]["tools"] == offered["tools"]
    assert [row.own for row in rows if "result c9" in brief([row])] == [True]
    check_pairs(rows)


@each
async def test_without_a_database(driver: Driver, tmp_path: Path) -> None:
    """Without a database the calls go on, and their messages are saved when it is back. With `strict` a call raises."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        nowhere = f"postgresql://nobody@127.0.0.1:{free.getsockname()[1]}/none"
    provider = Provider(driver, lambda _: Reply(text=f"Answer {len(provider.bodies)}", thinks=False))
    memory = Memory(nowhere)
    call = asking(provider, memory)
    whole = driver.extend(driver.said("one"), await call(**driver.said("one")))
    await call(**driver.extend(whole, "two"))
    memory.address = str(tmp_path / "memolog.db")
    await memory.open()
    await call(**driver.said("three"))
    said = await lines(memory)
    await memory.aclose()
    assert said == [
        line
        for n, word in enumerate(["one", "two", "three"], 1)
        for line in (f"user: {word}", f"assistant: Answer {n}")
    ]
    strict = Memory(nowhere, config=Config(strict=True))
    with pytest.raises(StoreError):
        await driver.call(wrap(driver, provider.async_client(), strict, thread="t1", resource="alice"))(
            **driver.said("a")
        )
    assert len(provider.bodies) == 3


@each
async def test_many_at_once(driver: Driver) -> None:
    """Thirty concurrent conversations over one client, streamed or not, do not mix."""

    async def script(body: Json) -> Reply:
        for _ in range(3):
            await asyncio.sleep(0)
        name = last_said(driver, body).split("I am ")[1].split(".")[0]
        return Reply(text=f"Hello {name}.")

    provider = Provider(driver, script)
    async with Memory(":memory:") as memory:
        call = driver.call(wrap(driver, provider.async_client(), memory))

        async def talk(number: int) -> None:
            for step in range(3):
                said, where = driver.said(f"I am n{number}. Step {step}"), at(f"t{number}", f"r{number}")
                if (number + step) % 2:
                    async for _ in await call(**said, **where, stream=True):
                        await asyncio.sleep(0)
                else:
                    await call(**said, **where)

        await asyncio.gather(*map(talk, range(30)))
        for number in range(30):
            lines = [line for line in brief(await stored(memory, f"r{number}", f"t{number}")) if line != "reasoning"]
            assert lines == [
                line
                for step in range(3)
                for line in (f"user: I am n{number}. Step {step}", f"assistant: Hello n{number}.")
            ]


# ---------------------------------------------------------------- OpenAI


class Colour(BaseModel):
    """What the model is to give back."""

    name: str


async def test_other_ways_of_calling() -> None:
    """Parsed answers, raw answers and the stream helpers of the library are stored too."""
    chat, responses = (
        Provider(driver, lambda _: Reply(text='{"name": "red"}')) for driver in (APIS["chat"], APIS["responses"])
    )
    async with Memory(":memory:") as memory:
        client = wrap(chat.driver, chat.async_client(), memory, thread="c", resource="alice")
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
        client = wrap(responses.driver, responses.async_client(), memory, thread="r", resource="alice")
        said = responses.driver.said("Which colour?")
        assert (await client.responses.parse(**said, text_format=Colour)).output_parsed == Colour(name="red")
        async with client.responses.stream(**said) as stream:
            assert (await stream.get_final_response()).output_text == '{"name": "red"}'
        assert len(await stored(memory, "alice", "r")) == 4


async def test_where_the_provider_keeps_the_conversation() -> None:
    """The input of the caller is sent unchanged after the log, and question and answer are stored."""
    driver = APIS["responses"]
    provider = Provider(driver, lambda _: Reply(text="Yes."))
    async with Memory(":memory:") as memory:
        call = asking(provider, memory)
        first = await call(**driver.said("one"))
        await memory.thread("t1", resource="alice").observe()
        await call(**driver.said("two"), previous_response_id=first.id)
        assert provider.bodies[1]["input"] == "two"
        assert provider.bodies[1]["instructions"].startswith("Be exact.\n\n")
        assert len(await stored(memory, "alice", "t1")) == 4


async def test_an_answer_that_cannot_be_kept(caplog: pytest.LogCaptureFixture) -> None:
    """An answer that is nested too deeply to be stored reaches the caller. With `strict` the call raises."""
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
            call = asking(provider, memory)
            if is_strict:
                with pytest.raises(InputError):
                    await call(**driver.said("hello"))
            else:
                assert driver.text(await call(**driver.said("hello"))) == "Yes."
                assert "cannot be stored" in caplog.text
            assert brief(await stored(memory, "alice", "t1")) == ["user: hello"]


async def test_an_answer_that_the_caller_gives() -> None:
    """This API does not continue an assistant message, so it is stored as a separate message."""
    driver = APIS["chat"]
    provider = Provider(driver, lambda _: Reply(text="Two."))
    async with Memory(":memory:") as memory:
        call = asking(provider, memory)
        said = driver.said("Count.")
        await call(**{**said, "messages": [*said["messages"], {"role": "assistant", "content": "One."}]})
        assert brief(await stored(memory, "alice", "t1")) == ["user: Count.", "assistant: One.", "assistant: Two."]


async def test_what_cannot_be_taken_back(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """If the database fails at the withdrawal, the caller gets the error of the provider, or with `strict` of the database."""

    async def fail(_: Turn, **_options: object) -> None:
        raise StoreError("Locked.")

    monkeypatch.setattr(Turn, "discard", fail)
    driver = APIS["chat"]
    provider = Provider(driver, lambda _: Reply(status=400))
    for is_strict, match in ((False, "out of order"), (True, "Locked")):
        async with Memory(":memory:", config=Config(strict=is_strict)) as memory:
            call = asking(provider, memory)
            with pytest.raises(Exception, match=match):
                await call(**driver.said("hello"))
    assert "cannot be withdrawn" in caplog.text


def test_what_can_be_sent() -> None:
    """Only text that UTF-8 cannot encode is changed. The client reports values that are not JSON."""
    plain: Json = {"a": ["b", {"c": None}], "d": b"bytes"}
    assert encodable(plain) is plain
    odd: Json = {"a": {("no", "key"): 1}}
    assert encodable(odd) is odd
    assert encodable({"a": ("\ud800", 1, {"\udfff": True})}) == {"a": ["\ufffd", 1, {"\ufffd": True}]}


async def test_a_call_that_cannot_be_read() -> None:
    """Messages that are not a list are rejected before a request is sent."""
    provider = Provider(APIS["chat"], lambda _: Reply(text="Yes."))
    async with Memory(":memory:") as memory:
        client = wrap(APIS["chat"], provider.async_client(), memory, thread="t1", resource="alice")
        with pytest.raises(InputError, match=r"`messages` must be a list, got str.*Pass a list of messages"):
            await client.post("/chat/completions", cast_to=object, body={"messages": "hello"})
    assert provider.bodies == []


async def test_other_calls_are_left_alone() -> None:
    """A request to another endpoint is sent unchanged."""
    provider = Provider(APIS["chat"], lambda _: Reply(status=500))
    async with Memory(":memory:") as memory:
        client = wrap(APIS["chat"], provider.async_client(), memory)
        with pytest.raises(Exception, match="out of order"):
            await client.embeddings.create(model="m", input="hello")
        assert provider.bodies == [{"input": "hello", "model": "m", "encoding_format": "base64"}]


# ---------------------------------------------------------------- Anthropic


async def test_the_library_s_own_stream() -> None:
    """`messages.stream`, its text and its final message, and the beta path are remembered too."""
    provider = Provider(MESSAGES, lambda _: Reply(text="Hello there"))
    async with Memory(":memory:") as memory:
        client = wrap(MESSAGES, provider.async_client(), memory, thread="t1", resource="alice")
        async with client.messages.stream(**MESSAGES.said("one")) as stream:
            assert "".join([text async for text in stream.text_stream]) == "Hello there"
        await client.beta.messages.create(**MESSAGES.said("two"))
        said = await lines(memory)
        assert said == ["user: one", "assistant: Hello there", "user: two", "assistant: Hello there"]


async def test_an_answer_that_the_caller_began() -> None:
    """The beginning of an answer is sent last, and saved as the beginning of the whole answer."""
    provider = Provider(MESSAGES, lambda _: Reply(text=" two, three.", thinks=False))
    async with Memory(":memory:") as memory:
        call = asking(provider, memory)
        begun = {"role": "assistant", "content": "One,"}
        said = MESSAGES.said("Count.")
        await call(**{**said, "messages": [*said["messages"], begun]})
        assert provider.bodies[0]["messages"][-1]["content"][0]["text"] == "One,"
        assert brief(await stored(memory, "alice", "t1")) == ["user: Count.", "assistant: One, two, three."]
        whole = [*said["messages"], {"role": "assistant", "content": "One, two, three."}]
        await call(**{**said, "messages": [*whole, {"role": "user", "content": "More."}]})
        assert len(await stored(memory, "alice", "t1")) == 4


@pytest.mark.parametrize("answer", [" two, three.", "One, two, three."], ids=["the rest", "the whole"])
@pytest.mark.parametrize("mark", ["prefix", "partial", "continue_final_message"])
async def test_a_chat_answer_that_the_caller_began(mark: str, answer: str) -> None:
    """Servers that continue a message mark it in different ways, and answer with the rest or with the whole."""
    provider = Provider(CHAT, lambda _: Reply(text=answer))
    async with Memory(":memory:") as memory:
        call = asking(provider, memory)
        begun: dict[str, Any] = {"role": "assistant", "content": "One,"}
        body = {"extra_body": {mark: True}} if mark == "continue_final_message" else {}
        said = CHAT.said("Count.")
        sent = begun if body else {**begun, mark: True}
        await call(**{**said, **body, "messages": [*said["messages"], sent]})
        assert provider.bodies[0]["messages"][-1] == sent
        assert brief(await stored(memory, "alice", "t1")) == ["user: Count.", "assistant: One, two, three."]
        whole = [*said["messages"], {"role": "assistant", "content": "One, two, three."}]
        await call(**{**said, "messages": [*whole, {"role": "user", "content": "More."}]})
        assert provider.bodies[1]["messages"][: len(whole)] == whole
        assert len(await stored(memory, "alice", "t1")) == 4


async def test_a_chat_history_that_ends_with_an_answer() -> None:
    """Without a mark, an assistant message at the end is an answer of its own."""
    provider = Provider(CHAT, lambda _: Reply(text="Two."))
    async with Memory(":memory:") as memory:
        said = CHAT.said("Count.")
        history = [*said["messages"], {"role": "assistant", "content": "One."}]
        await asking(provider, memory)(**{**said, "messages": history})
        assert brief(await stored(memory, "alice", "t1")) == ["user: Count.", "assistant: One.", "assistant: Two."]


async def test_the_cache_is_marked() -> None:
    """Cache marks are set after the log and at the last message. Marks of the caller count, and the mark can be chosen."""
    provider = Provider(MESSAGES, lambda _: Reply(text="Yes."))
    async with Memory(":memory:") as memory:
        client = provider.async_client()
        call = MESSAGES.call(wrap(MESSAGES, client, memory, thread="t1", resource="alice"))
        await call(**MESSAGES.said("one"))
        await memory.thread("t1", resource="alice").observe()
        await call(**MESSAGES.said("two"))
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
        await call(**MESSAGES.said("three"), tools=tools)
        assert "cache_control" not in str(provider.bodies[2]["system"])
        assert "cache_control" in str(provider.bodies[2]["messages"])
        plain = wrap_anthropic(client, memory, thread="t1", resource="alice", cache=None)
        await MESSAGES.call(plain)(**MESSAGES.said("four"))
        assert "cache_control" not in str(provider.bodies[3])


async def test_thinking_between_tool_calls_is_untouched() -> None:
    """Signed blocks are sent back unchanged and in order."""
    replies = iter([Reply(calls=(("c1", "look"),)), Reply(text="Done.")])
    provider = Provider(MESSAGES, lambda _: next(replies))
    async with Memory(":memory:") as memory:
        call = asking(provider, memory)
        await call(**MESSAGES.said("look"))
        await call(**MESSAGES.results([("c1", "42")]))
    assert provider.bodies[1]["messages"][1]["content"] == [
        {"type": "thinking", "thinking": "thought 1", "signature": signature("thought 1")},
        {"type": "tool_use", "id": "c1", "name": "look", "input": {"n": 1}},
    ]
