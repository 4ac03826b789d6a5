"""The plugin and the services of ADK, with a real runner against a scripted Gemini API. Run: make test-versions EXTRAS=adk."""

import asyncio
import json
import re
import warnings
from collections.abc import Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any

import httpx
import pytest

from adapters.kit import SMALL, Prompts, answer, brief, calls, check_pairs, expected, forecast, question, stored
from adapters.provider import GEMINI, Json, Reply, send
from adapters.rules import Rules
from memolog import InputError, Memory, SyncMemory

pytest.importorskip("google.adk", reason="Run: make test-versions EXTRAS=adk")
# The package warns about its own experimental parts.
pytestmark = pytest.mark.filterwarnings("ignore")
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from google.adk.agents import LlmAgent, ParallelAgent, RunConfig  # pyright: ignore[reportMissingImports]
    from google.adk.agents.run_config import StreamingMode  # pyright: ignore[reportMissingImports]
    from google.adk.errors.already_exists_error import AlreadyExistsError  # pyright: ignore[reportMissingImports]
    from google.adk.events import Event  # pyright: ignore[reportMissingImports]
    from google.adk.memory.memory_entry import MemoryEntry  # pyright: ignore[reportMissingImports]
    from google.adk.models import Gemini  # pyright: ignore[reportMissingImports]
    from google.adk.runners import Runner  # pyright: ignore[reportMissingImports]
    from google.adk.sessions import InMemorySessionService, Session  # pyright: ignore[reportMissingImports]
    from google.adk.sessions.base_session_service import GetSessionConfig  # pyright: ignore[reportMissingImports]
    from google.adk.sessions.sqlite_session_service import SqliteSessionService  # pyright: ignore[reportMissingImports]
    from google.genai import Client, types  # pyright: ignore[reportMissingImports]
    from google.genai.errors import APIError  # pyright: ignore[reportMissingImports]

    from memolog.adapters.adk import MemologMemoryService, MemologPlugin, MemologSessionService

APP, USER, OWNER = "travel", "alice", "travel/alice"


class Server:
    """The Gemini API behind an HTTP transport, and models that use it."""

    def __init__(self, script: Callable[[Json], Reply]) -> None:
        self.script, self.rules, self.bodies = script, Rules(), list[Json]()

    async def answer(self, request: httpx.Request) -> httpx.Response:
        """Answer a request."""
        body = json.loads(request.content)
        self.bodies.append(body)
        asked = {**body, "stream": True} if ":stream" in request.url.path else body
        sent = send(GEMINI, self.rules, asked, self.script(body), len(self.bodies))
        if sent.lines is None:
            return httpx.Response(sent.status, json=sent.data)
        return httpx.Response(200, headers={"content-type": "text/event-stream"}, content=b"".join(sent.lines))

    def model(self) -> Any:
        """Return a model of the kit."""
        transport = httpx.AsyncClient(transport=httpx.MockTransport(self.answer))
        options = types.HttpOptions(base_url="http://model.test", httpx_async_client=transport)
        return Gemini(model="gemini-test", client=Client(api_key="k", http_options=options))


def texts(body: Json) -> list[str]:
    """Return the texts of the user in a request."""
    return [
        part["text"] for one in body["contents"] if one["role"] == "user" for part in one["parts"] if "text" in part
    ]


def talk(body: Json) -> Reply:
    """Answer a question, after tool calls if it needs some."""
    asked = next(text for text in reversed(texts(body)) if text.startswith("Question")).split("\n\n")[-1]
    number = int(asked.split()[1])
    has_results = any("functionResponse" in part for part in body["contents"][-1]["parts"])
    needed = [] if has_results else calls(number)
    return Reply(calls=tuple((id_, "weather") for id_ in needed)) if needed else Reply(text=answer(number))


def weather(n: int) -> str:
    """Tell the weather."""
    del n
    return forecast("Rome")


def agent(model: Any, **more: Any) -> Any:
    """Return an agent with a tool."""
    return LlmAgent(name="guide", model=model, instruction="Be exact.", **{"tools": [weather], **more})


def runner(model: Any, sessions: Any, *plugins: Any, **more: Any) -> Any:
    """Return a runner for an agent."""
    root = more.pop("root", None) or agent(model)
    return Runner(app_name=APP, agent=root, session_service=sessions, plugins=list(plugins), **more)


async def ask(runs: Any, text: str, *, session: str = "t1", streamed: bool = False) -> list[Any]:
    """Send a question and return the events."""
    config = RunConfig(streaming_mode=StreamingMode.SSE if streamed else StreamingMode.NONE)
    message = types.Content(role="user", parts=[types.Part(text=text)])
    running = runs.run_async(user_id=USER, session_id=session, new_message=message, run_config=config)
    return [event async for event in running]


@pytest.mark.parametrize("is_ours", [False, True], ids=["sqlite", "memolog"])
async def test_a_long_session_over_a_restart(tmp_path: Path, *, is_ours: bool) -> None:
    """200 turns over thresholds, with tools and streams: stored once, in order, in pairs, and each prompt extends the last."""
    prompts = Prompts()

    def script(body: Json) -> Reply:
        prompts.add(GEMINI.prompt(body))
        return talk(body)

    server = Server(script)
    for half in (range(1, 101), range(101, 201)):
        async with Memory(tmp_path / "m.db", config=SMALL) as memory:
            prompts.watch(memory)
            sessions = (
                SqliteSessionService(str(tmp_path / "sessions.db")) if not is_ours else MemologSessionService(memory)
            )
            runs = runner(server.model(), sessions, MemologPlugin(memory))
            if half[0] == 1:
                await sessions.create_session(app_name=APP, user_id=USER, session_id="t1")
            for number in half:
                events = await ask(runs, question(number), streamed=number % 3 == 0)
                assert any(event.partial for event in events) == (number % 3 == 0)
            await memory.settled()
            rows = await stored(memory, OWNER, "t1")
            usage = (await memory.thread("t1", resource=OWNER).status()).usage
            session = await sessions.get_session(app_name=APP, user_id=USER, session_id="t1")
            await runs.close()
    assert [line for line in brief(rows) if line != "reasoning"] == expected(range(1, 201))
    check_pairs(rows)
    prompts.check(least_changes=5)
    assert usage.requests >= len(server.bodies)
    assert max(len(body["contents"]) for body in server.bodies) < 150
    assert [row.id for row in rows] == [event.id for event in session.events]


async def test_what_the_model_sees() -> None:
    """The contents are those of the memory, instructions stay, calls without ids stay so, and branches are left alone."""
    wants = ["call"]
    server = Server(lambda _: Reply(calls=(("", "weather"),)) if wants and wants.pop() else Reply(text="done"))
    async with Memory(":memory:") as memory:
        sessions = InMemorySessionService()
        await sessions.create_session(app_name=APP, user_id=USER, session_id="t1")
        await memory.thread("t1", resource=OWNER).save(
            [{"role": "user", "content": "Earlier, elsewhere."}, {"role": "assistant", "content": "Yes."}]
        )
        runs = runner(None, sessions, MemologPlugin(memory), root=agent(server.model(), static_instruction="Be brief."))
        await ask(runs, "And now?")
        first, second = server.bodies
        assert texts(first)[0].startswith("Earlier, elsewhere.")
        assert "\nBe exact.\n" in texts(first)[-3]
        assert texts(first)[-2] == "And now?"
        assert GEMINI.has_edge(first)
        assert "id" not in second["contents"][-2]["parts"][-1]["functionCall"]
        assert "id" not in second["contents"][-1]["parts"][0]["functionResponse"]
        assert first["systemInstruction"]["parts"][0]["text"].startswith("Be brief.")
        pair = [LlmAgent(name=name, model=server.model(), instruction=name) for name in ("left", "right")]
        runs = runner(None, sessions, MemologPlugin(memory), root=ParallelAgent(name="both", sub_agents=pair))
        await ask(runs, "Both of you?")
        assert not any(GEMINI.has_edge(body) for body in server.bodies[2:])
        rows = await stored(memory, OWNER, "t1")
        check_pairs(rows)
        assert brief(rows)[-3:] == ["user: Both of you?", "assistant: done", "assistant: done"]


@pytest.mark.parametrize("is_ours", [False, True], ids=["in memory", "memolog"])
async def test_failures_and_going_back(*, is_ours: bool) -> None:
    """A refused question is withdrawn, other errors keep it, a stream that is left keeps what came, and a rewind is followed."""
    statuses = [400, 503]
    server = Server(lambda body: Reply(status=statuses.pop(0)) if statuses else talk(body))
    with SyncMemory(":memory:") as memory:
        sessions = MemologSessionService(memory) if is_ours else InMemorySessionService()
        await sessions.create_session(app_name=APP, user_id=USER, session_id="t1")
        runs = runner(server.model(), sessions, MemologPlugin(memory))
        for number in (1, 2):
            with pytest.raises(APIError):
                await ask(runs, question(number))
        events = await ask(runs, question(3))
        assert [row.text for row in await _rows(memory)] == [question(2), question(3), answer(3)]
        await runs.rewind_async(user_id=USER, session_id="t1", rewind_before_invocation_id=events[0].invocation_id)
        await ask(runs, question(4))
        assert [row.text for row in await _rows(memory)] == [question(2), question(4), answer(4)]
        asked = types.Content(role="user", parts=[types.Part(text=question(5))])
        config = RunConfig(streaming_mode=StreamingMode.SSE)
        async with aclosing(runs.run_async(user_id=USER, session_id="t1", new_message=asked, run_config=config)) as run:
            async for _ in run:
                break
        await ask(runs, question(6))
        assert [row.text for row in await _rows(memory)][-3:] == [question(5), question(6), answer(6)]
        [forgotten] = [row for row in await _rows(memory) if row.text == answer(6)]
        memory.resource(OWNER).forget(thread="t1", message=forgotten.id)
        await ask(runs, question(8))
        assert [row.text for row in await _rows(memory)][-3:] == [question(6), question(8), answer(8)]
    with pytest.raises(InputError, match="memory"):
        MemologPlugin("memolog.db")  # pyright: ignore[reportArgumentType]


async def _rows(memory: SyncMemory) -> Any:
    return memory.run(stored(memory.asynchronous, OWNER, "t1"))


async def test_the_session_service(tmp_path: Path) -> None:
    """Events come back exactly, states have their scopes, a forgotten message is gone, and errors are those of the kit."""
    here: Any = {"app_name": APP, "user_id": USER}
    thought = types.Part(text="hm", thought=True, thought_signature=b"\xff\xfe~?")
    picture = types.Part(inline_data=types.Blob(data=b"\x89PNG\xff\xfb\xef", mime_type="image/png"))
    asks_user = types.Part(function_call=types.FunctionCall(id="adk-1", name="adk_request_confirmation", args={"a": 1}))
    async with Memory(tmp_path / "m.db") as memory:
        service = MemologSessionService(memory)
        await service.create_session(**here, session_id="t1", state={"s": 1, "user:v": 5, "temp:x": 0})
        with pytest.raises(AlreadyExistsError):
            await service.create_session(**here, session_id="t1")
        said = [
            Event(author="user", invocation_id="i1", message=types.UserContent([types.Part(text="Look:"), picture])),
            Event(
                author="guide",
                invocation_id="i1",
                message=types.ModelContent([thought, asks_user, types.Part(text="No.")]),
            ),
            Event(
                author="guide",
                invocation_id="i1",
                branch="a.b",
                message=types.ModelContent([thought, types.Part(text="x")]),
            ),
            Event(author="guide", state={"n": {"deep": [1, None]}, "user:u": 2, "app:a": 3, "temp:t": 4}),
            Event(author="guide", message=types.ModelContent("long " * 30_000)),
        ]
        session = await service.get_session(**here, session_id="t1")
        stale = session.model_copy(deep=True)
        for event in said:
            await service.append_event(session, event)
        await service.append_event(session, said[-1])
        assert session.state["temp:t"] == 4
        with pytest.raises(ValueError, match="Read it again"):
            await service.append_event(stale, Event(author="user", message="late"))
    async with Memory(tmp_path / "m.db") as memory:
        service = MemologSessionService(memory)
        read = await service.get_session(**here, session_id="t1")
        assert [event.model_dump() for event in read.events] == [event.model_dump() for event in session.events]
        assert read.state == {"n": {"deep": [1, None]}, "s": 1, "user:u": 2, "user:v": 5, "app:a": 3}
        assert read.last_update_time == said[-1].timestamp
        other = await service.create_session(app_name=APP, user_id="bob")
        assert other.state == {"app:a": 3}
        assert await service.get_user_state(**here) == {"u": 2, "v": 5}
        assert [one.id for one in (await service.list_sessions(app_name=APP)).sessions] == ["t1", other.id]
        assert [one.id for one in (await service.list_sessions(**here)).sessions] == ["t1"]
        last = await service.get_session(**here, session_id="t1", config=GetSessionConfig(num_recent_events=2))
        assert [event.id for event in last.events] == [event.id for event in said[-2:]]
        await memory.resource(OWNER).forget(thread="t1", message=said[0].id)
        left = await service.get_session(**here, session_id="t1")
        assert not left.events[0].content.parts
        await service.delete_session(**here, session_id="t1")
        assert await service.get_session(**here, session_id="t1") is None
        assert not (await service.list_sessions(**here)).sessions
        with pytest.raises(ValueError, match="not found"):
            await service.append_event(left, Event(author="user", message="late"))


async def test_the_memory_service() -> None:
    """Sessions are found once, by all of a user's sessions, forgotten for good, and written beside the plugin without copies."""
    server = Server(lambda _: Reply(text="The hotel is called Aurora."))
    async with Memory(":memory:") as memory:
        service, sessions = MemologMemoryService(memory, limit=3), InMemorySessionService()
        here: Any = {"app_name": APP, "user_id": USER}
        await sessions.create_session(**here, session_id="t1")
        runs = runner(server.model(), sessions, MemologPlugin(memory), memory_service=service)
        await ask(runs, "Where do we sleep?")
        session: Session = await sessions.get_session(**here, session_id="t1")
        for _ in range(2):
            await service.add_session_to_memory(session)
        await service.add_events_to_memory(**here, events=session.events[:1], session_id="t2")
        note = types.Content(role="user", parts=[types.Part(text="The cat eats salmon.")])
        await service.add_memory(**here, memories=[MemoryEntry(content=note, author="bob", id="n1")])
        assert len(await stored(memory, OWNER, "t1")) == 2
        [found] = (await service.search_memory(**here, query="name of the hotel")).memories
        assert found.content.parts[0].text == "The hotel is called Aurora."
        assert (found.author, found.content.role) == ("guide", "model")
        [cat] = (await service.search_memory(**here, query="salmon")).memories
        assert (cat.id, cat.author) == ("n1", "bob")
        assert not (await service.search_memory(app_name="other", user_id=USER, query="salmon")).memories
        for _ in range(2):
            await service.delete_memory(**here, memory_id=found.id)
            await service.add_session_to_memory(session)
            assert not (await service.search_memory(**here, query="Aurora")).memories


def test_the_guide(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The snippets of the guide run as they stand, with another model."""
    monkeypatch.chdir(tmp_path)
    guide = (Path(__file__).parents[3] / "docs" / "guides" / "adk.md").read_text("utf-8")
    first, second, third = re.findall(r"```py\n(.*?)```", guide, re.DOTALL)
    server = Server(lambda _: Reply(text="In the Aurora."))
    exec(first.replace('model="gemini-3-flash"', "model=scripted"), {"scripted": server.model()})  # noqa: S102
    with SyncMemory("memolog.db") as memory:
        said = memory.thread("rome", resource="alice").messages(before=10).items
        assert [message.text for message in said] == ["Where do we sleep?", "In the Aurora."]
        named: dict[str, Any] = {"memory": memory, "agent": agent(server.model()), "sessions": InMemorySessionService()}
        for snippet in (second, third):
            exec(snippet, named)  # noqa: S102
            runs = named["runner"]
            asyncio.run(runs.run_debug("And there?", user_id=USER, session_id="oslo"))
            seen = asyncio.run(runs.session_service.get_session(app_name=APP, user_id=USER, session_id="oslo"))
            assert len(seen.events) == 2
        assert len(memory.run(stored(memory.asynchronous, OWNER, "oslo"))) == 4
