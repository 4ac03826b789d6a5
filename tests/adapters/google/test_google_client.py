"""The client of Google with memory, against a scripted provider. It needs `google-genai`: make test-versions EXTRAS=google."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from adapters.kit import SMALL, Prompts, answer, brief, calls, check_pairs, expected, forecast, question, stored
from adapters.provider import GEMINI, Json, Reply, send
from adapters.rules import Rules
from memolog import InputError, Memory, SyncMemory
from memolog.adapters.google import at, wrap

genai: Any = pytest.importorskip("google.genai", reason="Run: make test-versions EXTRAS=google")


class Server:
    """The Gemini API behind an HTTP transport."""

    def __init__(self, script: Callable[[Json], Reply]) -> None:
        self.script, self.rules = script, Rules()
        self.bodies: list[Json] = []
        self.headers: list[Any] = []

    def answer(self, request: httpx.Request) -> httpx.Response:
        """Answer a request."""
        body = json.loads(request.content)
        self.bodies.append(body)
        self.headers.append(request.headers)
        asked = {**body, "stream": True} if ":stream" in request.url.path else body
        sent = send(GEMINI, self.rules, asked, self.script(body), len(self.bodies))
        if sent.lines is None:
            return httpx.Response(sent.status, json=sent.data)
        return httpx.Response(200, headers={"content-type": "text/event-stream"}, content=b"".join(sent.lines))

    async def answer_later(self, request: httpx.Request) -> httpx.Response:
        """Answer a request of an asynchronous client."""
        return self.answer(request)

    def client(self) -> Any:
        """Return the client of the library."""
        options = genai.types.HttpOptions(
            base_url="http://model.test",
            httpx_client=httpx.Client(transport=httpx.MockTransport(self.answer)),
            httpx_async_client=httpx.AsyncClient(transport=httpx.MockTransport(self.answer_later)),
        )
        return genai.Client(api_key="k", http_options=options)


def asked(body: Json) -> str:
    """Return the last question of a request."""
    texts = [
        part["text"] for one in body["contents"] if one["role"] == "user" for part in one["parts"] if "text" in part
    ]
    return next(text for text in reversed(texts) if text.startswith("Question")).split("\n\n")[-1]


def talk(body: Json) -> Reply:
    """Answer a question, after tool calls if it needs some."""
    number = int(asked(body).split()[1])
    has_results = any("functionResponse" in part for part in body["contents"][-1]["parts"])
    needed = [] if has_results else calls(number)
    return Reply(calls=tuple((id_, "weather") for id_ in needed)) if needed else Reply(text=answer(number))


CONFIG: Any = {"system_instruction": "Be exact."}


async def ask(client: Any, number: int, *, streamed: bool) -> None:
    """Ask a question and answer the calls of the model. Only new contents are sent."""
    contents: list[Any] = [{"role": "user", "parts": [{"text": question(number)}]}]
    while contents:
        if streamed:
            chunks = [
                chunk
                async for chunk in await client.aio.models.generate_content_stream(
                    model="m", contents=contents, config=CONFIG
                )
            ]
        else:
            chunks = [await client.aio.models.generate_content(model="m", contents=contents, config=CONFIG)]
        called = [call for chunk in chunks for call in chunk.function_calls or ()]
        responses = [
            {"function_response": {"id": call.id, "name": call.name, "response": {"result": forecast("Rome")}}}
            for call in called
        ]
        contents = [{"role": "user", "parts": responses}] if responses else []


async def test_a_long_conversation_over_a_restart(tmp_path: Path) -> None:
    """200 turns over thresholds, with tools and streams: stored once, in order, in pairs, and each prompt extends the last."""
    prompts = Prompts()

    def script(body: Json) -> Reply:
        prompts.add(GEMINI.prompt(body))
        return talk(body)

    server = Server(script)
    for half in (range(1, 101), range(101, 201)):
        async with Memory(tmp_path / "m.db", config=SMALL) as memory:
            prompts.watch(memory)
            client = wrap(server.client(), memory, thread="t1", resource="alice")
            for number in half:
                await ask(client, number, streamed=number % 3 == 0)
            await memory.settled()
            rows = await stored(memory, "alice", "t1")
            usage = (await memory.thread("t1", resource="alice").status()).usage
    assert [line for line in brief(rows) if line != "reasoning"] == expected(range(1, 201))
    check_pairs(rows)
    prompts.check(least_changes=5)
    assert usage.requests >= len(server.bodies)
    assert all("model" not in body for body in server.bodies)
    assert max(len(body["contents"]) for body in server.bodies) < 150


def test_without_await_and_with_automatic_calls(tmp_path: Path) -> None:
    """The synchronous client, a chat, a stream, and functions that the library calls by itself."""

    def weather(city: str) -> str:
        """Tell the weather."""
        return forecast(city)

    def script(body: Json) -> Reply:
        wants = "weather" in asked(body) and "functionResponse" not in json.dumps(body["contents"][-1])
        return Reply(calls=(("c1", "weather"),), arguments='{"city": "Rome"}') if wants else Reply(text="done")

    server = Server(script)
    with SyncMemory(str(tmp_path / "m.db")) as memory:
        client: Any = wrap(server.client(), memory, thread="t1", resource="alice")
        done = client.models.generate_content(
            model="m", contents="Question one: the weather?", config={"tools": [weather], **CONFIG}
        )
        assert done.text == "done"
        chat = client.chats.create(model="m")
        assert chat.send_message("Question two?").text == "done"
        assert "".join(piece.text or "" for piece in chat.send_message_stream("Question three?")) == "done"
        client.models.generate_content(model="m", contents="Question four?", config={**at("t2", "bob")})
        rows = memory.run(stored(memory.asynchronous, "alice", "t1"))
        others = memory.run(stored(memory.asynchronous, "bob", "t2"))
    assert [line for line in brief(rows) if line != "reasoning"] == [
        "user: Question one: the weather?",
        *("call c1: weather", "result c1", "assistant: done"),
        *("user: Question two?", "assistant: done", "user: Question three?", "assistant: done"),
    ]
    assert brief(others)[0] == "user: Question four?"
    assert not any(name.startswith("x-memolog") for headers in server.headers for name in headers)


async def test_failures() -> None:
    """A refused question is withdrawn, a question to a broken provider stays, and wrong arguments are refused."""
    statuses = [400, 503]
    server = Server(lambda body: Reply(status=statuses.pop(0)) if statuses else talk(body))
    async with Memory(":memory:") as memory:
        client: Any = wrap(server.client(), memory, thread="t1", resource="alice")
        for number in (1, 2):
            with pytest.raises(genai.errors.APIError):
                await ask(client, number, streamed=number == 1)
        await ask(client, 3, streamed=True)
        rows = await stored(memory, "alice", "t1")
        assert [row.text for row in rows] == [question(2), question(3), answer(3)]
        with pytest.raises(InputError, match="cachedContent"):
            await client.aio.models.generate_content(
                model="m", contents="x", config={"cached_content": "cachedContents/1"}
            )
        assert await stored(memory, "alice", "t1") == rows
        with pytest.raises(InputError, match="SyncMemory"):
            client.models.generate_content(model="m", contents="x")
        with pytest.raises(InputError, match="cannot be wrapped"):
            wrap(object(), memory)
        with pytest.raises(InputError, match="has no thread"):
            await wrap(server.client(), memory).aio.models.generate_content(model="m", contents="x")
