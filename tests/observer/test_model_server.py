"""The default client against a real server on this machine: whatever it does, no turn fails, an event says what, and it recovers.

The server speaks the OpenAI chat completions protocol over plain sockets. Nothing here leaves the loopback interface.
"""

import asyncio
import contextlib
import json
import os
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from kit.talk import Story
from memolog import AssistantMessage, Config, FilePart, ObservationConfig, UserMessage
from memolog.core.run import Usage
from memolog.events import Degraded, RunFailed
from memolog.log.status import Status
from memolog.observer.model import ModelRefused, ModelRequest, ModelUnavailable, Price, Retry
from memolog.observer.model_choice import FallbackModel, ModelAt, PydanticModel
from memolog.testing import FakeClock, observations_of, reflection_of

Reply: TypeAlias = tuple[int, dict[str, str], dict[str, Any]]
Handler: TypeAlias = Callable[[dict[str, Any]], Awaitable[Reply]]

SMALL = Config(observation=ObservationConfig(message_tokens=1_000, previous_tokens=200))
ASKED = ModelRequest(purpose="observe", system="Be brief.", text="Hello.", temperature=0.3)
KEY = "a-key-of-no-known-shape"
EXAMPLE = Path(__file__).parents[2] / "examples" / "with_a_model.py"
# Attempts follow each other at once: what is tested is that there are several, not how far apart.
PROMPT = Retry(attempts=3, first=0.0)


async def well(body: dict[str, Any]) -> Reply:
    """Answer as a dutiful observer would."""
    text = body["messages"][-1]["content"]
    request = ModelRequest(purpose="observe", system="", text=text)
    return completion(observations_of(request), body["model"])


def completion(text: str, model: str) -> Reply:
    """Return a chat completion as the protocol has it."""
    message = {"role": "assistant", "content": text}
    usage = {
        "prompt_tokens": 120,
        "completion_tokens": 30,
        "total_tokens": 150,
        "prompt_tokens_details": {"cached_tokens": 100},
    }
    choice = {"index": 0, "finish_reason": "stop", "message": message}
    body = {"id": "c1", "object": "chat.completion", "created": 1, "model": model, "choices": [choice], "usage": usage}
    return 200, {}, body


def answering(status: int, answer: dict[str, Any], **headers: str) -> Handler:
    """Return a handler that always answers the same."""

    async def handle(body: dict[str, Any]) -> Reply:
        del body
        return status, headers, answer

    return handle


def failing(status: int, message: str, **headers: str) -> Handler:
    """Return a handler that always answers with an error."""
    return answering(status, {"error": {"message": message, "type": "test"}}, **headers)


async def hanging(body: dict[str, Any]) -> Reply:
    """Never answer."""
    await asyncio.Event().wait()
    return await well(body)


@dataclass
class Server:
    """An OpenAI-compatible server. It answers from its script first, then as `handler` does."""

    handler: Handler = well
    script: list[Handler] = field(default_factory=list[Handler])
    bodies: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    headers: list[dict[str, str]] = field(default_factory=list[dict[str, str]])
    asked: asyncio.Event = field(default_factory=asyncio.Event)
    port: int = 0
    tasks: set["asyncio.Task[None]"] = field(default_factory=set["asyncio.Task[None]"])
    models: list[PydanticModel] = field(default_factory=list[PydanticModel])

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def model(self, **options: Any) -> PydanticModel:
        """Return the default client for this server, which is closed with it."""
        given: dict[str, Any] = {"retry": PROMPT, "timeout": 120.0, **options}
        self.models.append(PydanticModel(ModelAt(base_url=self.address, name="m", api_key=KEY), **given))
        return self.models[-1]

    async def refuses(self, kind: type[Exception], words: str, **options: Any) -> None:
        """Assert that a call fails with this error and these words."""
        with pytest.raises(kind, match=words):
            await self.model(**options).complete(ASKED)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.tasks.add(task)
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            lines = head.split("\r\n")
            assert lines[0] == "POST /v1/chat/completions HTTP/1.1"
            headers = {k.lower(): v for k, _, v in (line.partition(": ") for line in lines[1:] if line)}
            body = json.loads(await reader.readexactly(int(headers["content-length"])))
            self.headers.append(headers)
            self.bodies.append(body)
            self.asked.set()
            handler = self.script.pop(0) if self.script else self.handler
            status, extra, answer = await handler(body)
            if pieces := answer.get("pieces"):
                writer.write(
                    f"HTTP/1.1 {status} X\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n".encode()
                )
                for piece in pieces:
                    writer.write(f"data: {json.dumps(piece)}\n\n".encode())
                    await writer.drain()
                if answer["ends"]:
                    writer.write(b"data: [DONE]\n\n")
                    await writer.drain()
                else:
                    await asyncio.Event().wait()
                return
            data = json.dumps(answer).encode()
            fields = {"content-type": "application/json", "content-length": str(len(data)), "connection": "close"}
            rows = "".join(f"{name}: {value}\r\n" for name, value in {**fields, **extra}.items())
            writer.write(f"HTTP/1.1 {status} X\r\n{rows}\r\n".encode() + data)
            await writer.drain()
        finally:
            self.tasks.discard(task)
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    """Start a server on a free port of the loopback interface; close it and its calls at the end."""
    made = Server()
    listening = await asyncio.start_server(made.serve, "127.0.0.1", 0)
    made.port = listening.sockets[0].getsockname()[1]
    try:
        yield made
    finally:
        for model in made.models:
            await model.aclose()
        listening.close()
        calls = tuple(made.tasks)
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)
        await listening.wait_closed()


class Talk(Story):
    """A story with turns that each ask about the weather."""

    async def turns(self, number: int, minutes: float = 0.01) -> None:
        """Hold turns; each must come back with the user's own words in its context."""
        for index in range(number):
            async with self.memory.thread("t1", resource="alice").turn() as turn:
                context = await turn.prepare(UserMessage(f"question {index} " + "about the weather " * 10))
                assert f"question {index} " in context.render_without_edge()
                await turn.record(AssistantMessage(f"answer {index} " + "it will rain " * 15))
            await self.memory.settled()
            self.clock.advance(minutes=minutes)

    def failures(self) -> list[str]:
        """Return what the events of failed runs say."""
        return [event.error for event in self.told(RunFailed)]

    async def status(self) -> Status:
        """Return the status of the thread."""
        return await self.memory.thread("t1", resource="alice").status()

    async def recovers(self) -> None:
        """Wait out every back-off, and find the memory well again."""
        self.clock.advance(hours=2)
        await self.turns(8)
        status = await self.status()
        assert (status.health, status.breaker_open, status.failures) == ("ok", False, 0)
        assert status.last_success_at is not None
        assert status.cursor > 0
        assert len(await self.stored()) == status.last_seq


@contextlib.asynccontextmanager
async def talk(model: PydanticModel | FallbackModel, clock: FakeClock) -> AsyncGenerator[Talk]:
    """Open a memory on a model; close both."""
    made = Talk(":memory:", clock, model, config=SMALL)
    async with made.memory:
        yield made
    await model.aclose()


# ---------------------------------------------------------------- the client by itself


async def test_an_answer_with_its_usage(server: Server) -> None:
    """Text, tokens and cost come back; cached tokens are counted apart; the price is the one that was given."""
    reply = await server.model(price=Price(input=10.0, output=100.0, cache_read=1.0)).complete(ASKED)
    assert "Nothing worth keeping." in reply.text
    assert reply.usage == Usage(
        model=f"{server.address}#m",
        input_tokens=20,
        output_tokens=30,
        cache_read_tokens=100,
        cost=(20 * 10 + 30 * 100 + 100 * 1) / 1_000_000,
        kind="observe",
    )


async def test_what_goes_over_the_wire(server: Server) -> None:
    """Instructions, text, temperature, limit, key and any option arrive unchanged; a request's option beats the model's."""
    model = server.model(settings={"seed": 7, "extra_body": {"top_k": 5}, "top_p": 0.5}, max_tokens=111)
    await model.complete(ASKED)
    await model.complete(
        ModelRequest(
            purpose="reflect", system="Be brief.", text="Hello.", max_tokens=99, options={"seed": 8, "top_p": None}
        )
    )
    first, second = server.bodies
    assert [message["content"] for message in first["messages"]] == ["Be brief.", "Hello."]
    assert (first["model"], first["temperature"], first["seed"], first["top_k"]) == ("m", 0.3, 7, 5)
    assert (first["max_completion_tokens"], first["top_p"]) == (111, 0.5)
    assert (second["temperature"], second["seed"], second["max_completion_tokens"]) == (0.0, 8, 99)
    assert "top_p" not in second
    assert server.headers[0]["authorization"] == f"Bearer {KEY}"


def written(*words: str, ends: bool = True) -> Handler:
    """Return a handler that answers piece by piece; one that does not end goes silent after the last."""

    async def handle(body: dict[str, Any]) -> Reply:
        assert body["stream"] is True
        chunk = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": body["model"]}
        pieces = [{**chunk, "choices": [{"index": 0, "delta": {"role": "assistant", "content": w}}]} for w in words]
        end = {**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": "length"}]}
        return 200, {}, {"pieces": [*pieces, end] if ends else pieces, "ends": ends}

    return handle


async def test_an_answer_that_is_read_as_it_is_written(server: Server) -> None:
    """The pieces are joined, and the reply has the reason why the model stopped."""
    server.handler = written("Be", " brief", ".")
    reply = await server.model(stream=True).complete(ASKED)
    assert (reply.text, reply.finish_reason, reply.is_cut_off) == ("Be brief.", "length", True)


async def test_an_answer_that_goes_silent(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """The wait for a further piece is shorter than the wait for the first. The clock of the loop jumps after a piece was read."""
    loop, ahead, has_read = asyncio.get_running_loop(), [0.0], asyncio.Event()
    time, reschedule = loop.time, asyncio.Timeout.reschedule

    def rescheduled(timeout: asyncio.Timeout, when: float | None) -> None:
        reschedule(timeout, when)
        if when is not None and when <= loop.time() + 120:
            has_read.set()

    monkeypatch.setattr(loop, "time", lambda: time() + ahead[0])
    monkeypatch.setattr(asyncio.Timeout, "reschedule", rescheduled)
    server.handler = written("Be", " brief", ends=False)
    words = "did not continue its answer within 120 s"
    asked = asyncio.create_task(server.refuses(ModelUnavailable, words, stream=True, timeout=480.0, retry=None))
    await has_read.wait()
    while not asked.done():
        ahead[0] += 121
        await asyncio.sleep(0)
    await asked


async def test_every_request_has_a_limit_over_the_wire(server: Server, clock: FakeClock) -> None:
    """Under both of its names: many servers know only the older one. An answer that reaches it says so."""
    reply = await server.model().complete(replace(ASKED, max_tokens=99))
    assert (server.bodies[0]["max_tokens"], server.bodies[0]["max_completion_tokens"]) == (99, 99)
    assert reply.finish_reason == "stop"
    server.bodies.clear()
    told = Talk(":memory:", clock, f"{server.address}#m", config=Config(model_timeout=77))
    async with told.memory:
        await told.turns(2)
        await told.memory.thread("t1", resource="alice").observe()
    (body,) = server.bodies
    assert body["max_tokens"] > 0
    # The time is a setting for this form too.
    assert server.headers[-1]["x-stainless-read-timeout"] == "77"


async def test_files_go_over_the_wire(server: Server) -> None:
    """An image goes along as its bytes or its address, after the text that lists it."""
    files = (
        FilePart(media_type="image/png", data=b"\x89PNG", name="a.png"),
        FilePart(media_type="image/jpeg", url="https://example.com/b.jpg"),
    )
    status, _, answer = completion("A receipt.", "m")
    server.handler = answering(status, answer)
    await server.model().complete(replace(ASKED, files=files))
    text, *images = server.bodies[0]["messages"][-1]["content"]
    assert text == {"type": "text", "text": "Hello."}
    assert [image["image_url"]["url"] for image in images] == [
        "data:image/png;base64,iVBORw==",
        "https://example.com/b.jpg",
    ]


async def test_a_model_that_is_asked_to_think_gets_no_temperature(server: Server) -> None:
    """Providers refuse a temperature for reasoning models. The effort is passed on."""
    await server.model(settings={"openai_reasoning_effort": "high"}).complete(ASKED)
    assert "temperature" not in server.bodies[0]
    assert server.bodies[0]["reasoning_effort"] == "high"


async def test_no_key_of_another_provider_is_sent(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """An address without a key gets none, whatever is in the environment."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-for-somebody-else")
    model = PydanticModel(f"{server.address}#m", retry=PROMPT)
    await model.complete(ASKED)
    await model.aclose()
    assert "sk-for-somebody-else" not in json.dumps(server.headers)


async def test_a_key_from_the_environment(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """A provider's own variables work: `openai-chat:` with a base URL and a key."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("OPENAI_BASE_URL", server.address)
    server.script = [failing(403, f"{KEY} may not do this")]
    model = PydanticModel("openai-chat:gpt-4.1-mini", retry=PROMPT)
    with pytest.raises(ModelRefused, match=r"HTTP 403.*Check the key in OPENAI_API_KEY") as caught:
        await model.complete(ASKED)
    assert KEY not in str(caught.value)
    reply = await model.complete(ASKED)
    await model.aclose()
    assert server.headers[-1]["authorization"] == f"Bearer {KEY}"
    assert reply.usage is not None
    assert reply.usage.model == "openai-chat:gpt-4.1-mini"
    # A model of a known provider has a price in the list that comes with the client.
    assert reply.usage.cost > 0


async def test_too_many_requests_then_success(server: Server) -> None:
    """A 429 is asked again once the provider's Retry-After has passed, with the same question."""
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    server.script = [failing(429, "slow down", **{"retry-after": "3"}), well]
    reply = await server.model(retry=Retry(first=1.0, chance=lambda: 1.0, sleep=sleep)).complete(ASKED)
    assert reply.usage is not None
    assert slept == [4.0]
    assert server.bodies[0] == server.bodies[1]


@pytest.mark.parametrize(
    ("status", "calls", "kind"),
    [
        *((status, 3, ModelUnavailable) for status in (500, 503, 529, 408)),
        *((status, 1, ModelRefused) for status in (400, 404, 422)),
    ],
)
async def test_which_statuses_are_asked_again(server: Server, status: int, calls: int, kind: type[Exception]) -> None:
    """The server's own faults and slowness are; what it refuses is not. The error says the status and the reason."""
    server.handler = failing(status, "it is broken")
    await server.refuses(kind, rf"HTTP {status}\. it is broken\.")
    assert len(server.bodies) == calls


async def test_a_quota_that_is_used_up_is_not_asked_again(server: Server) -> None:
    """Some providers say 429 when the account is empty: waiting does not fill it."""
    error = {"message": "no credit", "type": "insufficient_quota", "code": "insufficient_quota"}
    server.handler = answering(429, {"error": error})
    await server.refuses(ModelRefused, "no credit")
    assert len(server.bodies) == 1


async def test_a_wrong_key(server: Server) -> None:
    """The error has advice, and not the key that the server repeats."""
    server.handler = failing(401, f"Incorrect API key provided: {KEY}")
    await server.refuses(ModelRefused, r"HTTP 401\. .*\[redacted\]\. Check the `api_key`")
    assert len(server.bodies) == 1


async def test_nobody_listens() -> None:
    """A refused connection is a transport error that names the model."""
    model = PydanticModel("http://127.0.0.1:1/v1#m", retry=PROMPT)
    with pytest.raises(ModelUnavailable, match=r"127\.0\.0\.1:1/v1#m gave no answer"):
        await model.complete(ASKED)
    await model.aclose()


async def test_an_answer_that_is_no_completion(server: Server) -> None:
    """A proxy that answers something else makes an error of ours, not one of the library's."""
    server.handler = answering(200, {"hello": "world"})
    await server.refuses(ModelRefused, "cannot be read")


async def test_a_cancelled_call_is_given_up(server: Server) -> None:
    """Cancelling the caller ends the call, no other is made, and the client still works, closed twice in between."""
    server.script = [hanging]
    model = server.model()
    task = asyncio.create_task(model.complete(ASKED))
    await server.asked.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert len(server.bodies) == 1
    assert (await model.complete(ASKED)).usage is not None
    await model.aclose()
    await model.aclose()
    assert (await model.complete(ASKED)).usage is not None


def test_one_model_on_two_event_loops() -> None:
    """A client made on one loop is made anew on the next: connections cannot move."""
    local = Server()
    made: list[PydanticModel] = []

    async def once() -> None:
        listening = await asyncio.start_server(local.serve, "127.0.0.1", local.port)
        local.port = listening.sockets[0].getsockname()[1]
        made.append(made[0] if made else local.model())
        await made[-1].complete(ASKED)
        await made[-1].complete(ASKED)
        listening.close()
        await listening.wait_closed()

    asyncio.run(once())
    asyncio.run(once())
    assert made[0] is made[1]
    assert len(local.bodies) == 4


# ---------------------------------------------------------------- a memory on the client


async def test_a_memory_while_the_server_fails(server: Server, clock: FakeClock) -> None:
    """The breaker opens: turns go on without waiting or asking, and when the server is well again so is the memory."""
    server.handler = failing(500, "the disk is full")
    async with talk(server.model(), clock) as told:
        await told.turns(20)
        # All that is due again is tried, and fails again; from here on the clock stands still.
        clock.advance(hours=2)
        await told.turns(1, minutes=0)
        status = await told.status()
        assert (status.breaker_open, status.health, status.cursor) == (True, "failing", 0)
        assert status.last_error is not None
        assert "HTTP 500. the disk is full." in status.last_error
        assert all("ModelUnavailable" in error and "the disk is full" in error for error in told.failures())
        assert told.failures()
        # While it is open a turn asks nobody and waits for nothing.
        calls, before = len(server.bodies), len(told.events)
        await told.turns(1, minutes=0)
        assert len(server.bodies) == calls
        assert not any(isinstance(event, Degraded | RunFailed) for event in told.events[before:])
        server.handler = well
        await told.recovers()


async def test_a_memory_without_a_key(
    clock: FakeClock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The embedded observer goes on working, and a warning names the variable that is missing."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    async with talk(PydanticModel("openai:gpt-5-mini"), clock) as told:
        await told.turns(12)
        assert told.failures() == []
        status = await told.status()
        assert (status.last_seq, status.failures) == (24, 0)
    assert any("Set OPENAI_API_KEY" in line for line in caplog.messages)


# ---------------------------------------------------------------- the example


async def run_example(folder: Path, model: str | None) -> tuple[int | None, str]:
    """Run the example as a person would, with this model and without anybody's keys."""
    environment = {name: value for name, value in os.environ.items() if not name.endswith("_API_KEY")}
    environment.pop("MEMOLOG_MODEL", None)
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(EXAMPLE),
        cwd=folder,
        env=environment | ({"MEMOLOG_MODEL": model} if model else {}),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    told, _ = await process.communicate()
    return process.returncode, told.decode()


async def test_the_example_with_a_model(server: Server, tmp_path: Path) -> None:
    """It observes and reflects through the server, shows the log that came of it, and tells what it was billed."""

    async def answer(body: dict[str, Any]) -> Reply:
        text = body["messages"][-1]["content"]
        told = reflection_of if "<log>" in text else observations_of
        return completion(told(ModelRequest(purpose="observe", system="", text=text)), body["model"])

    server.handler = answer
    code, told = await run_example(tmp_path, f"{server.address}#m")
    assert code == 0, told
    asked = [body["messages"][-1]["content"] for body in server.bodies]
    assert sum("<transcript>" in text for text in asked) > 3
    assert sum("<log>" in text for text in asked) > 0
    assert "GenerationMade" in told
    assert "* (" in told
    assert f"{len(server.bodies)} calls: {20 * len(server.bodies):,} tokens sent" in told
    assert "health: ok" in told


@pytest.mark.parametrize(
    ("model", "code", "said"),
    [(None, 0, "MEMOLOG_MODEL is not set"), ("openai:gpt-5-mini", 1, "Set OPENAI_API_KEY")],
)
async def test_the_example_without_a_key(tmp_path: Path, model: str | None, code: int, said: str) -> None:
    """It says what is missing and ends; nothing is left behind."""
    ended, told = await run_example(tmp_path, model)
    assert (ended, said in told, "Traceback" in told) == (code, True, False)
    assert os.listdir(tmp_path) == []  # noqa: PTH208 - a path would block the loop as well
