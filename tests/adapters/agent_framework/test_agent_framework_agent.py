"""Agents of Agent Framework with memory: real agents and layers, a scripted client, a real store."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from agent_framework import (
    Agent,
    AgentSession,
    BaseChatClient,
    ChatResponse,
    Content,
    InMemoryHistoryProvider,
    Message,
    tool,
)

from adapters.agent_framework.scripted import Scripted, called, last_question, told, weather
from adapters.kit import SMALL, TOOL_EVERY, Prompts, answer, brief, check_pairs, expected, question, stored
from memolog import Config, InputError, Memory, StoreError, SyncMemory
from memolog.adapters.agent_framework import MemoryProvider
from memolog.errors import NotSaved


def talk(messages: list[Message]) -> Message:
    """Answer; every seventh question needs a tool first."""
    number = int(last_question(messages).split()[1])
    if number % TOOL_EVERY == 0 and messages[-1].role != "tool":
        return called("weather", f"call-{number}", f'{{"city": "City{number}"}}')
    return told(answer(number))


def asked(number: int) -> Message:
    """Return what the user says, with an id as an application gives it."""
    return Message("user", [question(number)], message_id=f"q{number}")


def agent(memory: Memory, client: Scripted, *, before: Any = (), middleware: Any = (), **options: Any) -> Agent[Any]:
    """Return an agent with memory."""
    named: Any = {"resource": "alice", **options}
    provider = MemoryProvider(memory, **named)
    return Agent(
        client,
        "You are brief.",
        tools=[weather],
        context_providers=[*before, provider],
        middleware=list(middleware),
    )


def here() -> AgentSession:
    """Return the session of the thread that these tests are about."""
    return AgentSession(session_id="t1")


async def test_two_hundred_turns_over_a_restart(tmp_path: Path) -> None:
    """Thresholds are crossed, tools are called, some turns are streamed, the process starts anew half-way."""
    prompts = Prompts()
    client = Scripted(talk, prompts=prompts)
    for half in (range(1, 101), range(101, 201)):
        async with Memory(tmp_path / "m.db", config=SMALL) as memory:
            prompts.watch(memory)
            bot, session = agent(memory, client), here()
            for number in half:
                if number % 5:
                    await bot.run(asked(number), session=session)
                else:
                    async for _ in bot.run(asked(number), session=session, stream=True):
                        pass
            await memory.settled()
            rows = await stored(memory, "alice", "t1")
            usage = (await memory.thread("t1", resource="alice").status()).usage
    assert brief(rows) == expected(range(1, 201))
    check_pairs(rows)
    prompts.check(least_changes=4)
    assert max(len(received.messages) for received in client.received) < 150, "the log never took over"
    assert all(received.instructions.startswith("You are brief.") for received in client.received)
    assert usage.requests >= len(client.received)


async def test_on_each_engine(address: str) -> None:
    """A short conversation with a tool, on whatever stores it."""
    async with Memory(address) as memory:
        bot, session = agent(memory, Scripted(talk)), here()
        for number in (6, 7, 8):
            await bot.run(asked(number), session=session)
        rows = await stored(memory, "alice", "t1")
    assert brief(rows) == expected(range(6, 9))


async def test_the_order_of_a_request(tmp_path: Path) -> None:
    """The caller's instructions, then memory's, then what was said, then the edge: for this request alone."""
    async with Memory(tmp_path / "m.db") as memory:
        client = Scripted(talk)
        session = here()
        done = await agent(memory, client).run([Message("system", ["Speak plainly."]), asked(7)], session=session)
        rows = await stored(memory, "alice", "t1")
    first, second = client.received
    assert first.instructions.index("You are brief.") < first.instructions.index("memory-search")
    assert [message.role for message in first.messages] == ["system", "user"]
    assert [message.role for message in second.messages] == ["system", "user", "assistant", "tool"]
    assert second.instructions == first.instructions
    assert first.edge
    assert second.edge
    kept = [message.text for message in done.messages] + [row.text for row in rows]
    assert not {first.edge, second.edge} & set(kept)
    assert [row.role for row in rows] == ["user", "assistant", "tool", "assistant"]
    assert rows[0].id == "q7"


async def test_no_words_after_a_result_where_a_provider_takes_none(tmp_path: Path) -> None:
    """The edge is left out at later steps."""
    async with Memory(tmp_path / "m.db") as memory:
        client = Scripted(talk)
        await agent(memory, client, edge_after_results=False).run(asked(7), session=here())
    assert [received.edge is None for received in client.received] == [False, True]


async def test_history_of_others_is_not_saved_again(tmp_path: Path) -> None:
    """The library's own history provider has it too, or the caller hands it in: memory shows it once."""
    async with Memory(tmp_path / "m.db") as memory:
        client, session = Scripted(talk), here()
        bot = agent(memory, client, before=[InMemoryHistoryProvider()])
        for number in (6, 7, 8):
            await bot.run(asked(number), session=session)
        handed = [asked(6), told("Answer 6"), asked(9)]
        await agent(memory, client).run(handed, session=here())
        rows = await stored(memory, "alice", "t1")
    assert brief(rows) == expected(range(6, 10))
    texts = [message.text for message in client.received[-1].messages if message.role == "user"]
    assert texts == [question(number) for number in range(6, 10)]


async def test_a_conversation_that_memory_comes_to_late(tmp_path: Path) -> None:
    """What was said before is taken over once, and stays in sight."""
    client, session, history = Scripted(talk), here(), InMemoryHistoryProvider()
    bare = Agent(client, tools=[weather], context_providers=[history])
    for number in (6, 7):
        await bare.run(asked(number), session=session)
    async with Memory(tmp_path / "m.db") as memory:
        bot = agent(memory, client, before=[history])
        for number in (8, 9):
            await bot.run(asked(number), session=session)
        rows = await stored(memory, "alice", "t1")
    assert brief(rows) == expected(range(6, 10))
    check_pairs(rows)


async def test_scopes_do_not_mix(tmp_path: Path) -> None:
    """Whose memory it is comes from the provider, by name or by session; concurrent runs stay apart."""
    async with Memory(tmp_path / "m.db") as memory:
        client = Scripted(talk)

        def owner(session: AgentSession) -> str:
            return str(session.state.get("user") or "")

        bot = agent(memory, client, resource=owner)
        sessions = {name: AgentSession(session_id="t1") for name in ("alice", "bob")}
        for name, session in sessions.items():
            session.state["user"] = name
        for number in range(1, 5):
            await asyncio.gather(
                *(bot.run(asked(number + n), session=session) for n, session in enumerate(sessions.values()))
            )
        for n, name in enumerate(sessions):
            assert brief(await stored(memory, name, "t1")) == expected(range(1 + n, 5 + n))
        with pytest.raises(InputError, match="resource"):
            await bot.run(asked(1), session=here())


async def test_the_tools_work_and_their_scope_is_fixed(tmp_path: Path) -> None:
    """A model finds what was said, and makes a task; what it says of a resource changes nothing."""

    def script(messages: list[Message]) -> Message:
        results = [message for message in messages if message.role == "tool"]
        if last_question(messages) != "use them":
            return told("noted")
        if not results:
            return called("memory-search", "c1", '{"action": "search", "query": "heliotrope", "resource": "bob"}')
        if len(results) == 1:
            return called("task-mutate", "c2", '{"action": "create", "title": "Paint the door"}')
        return told("done")

    def said(text: str) -> Message:
        return Message("user", [text], message_id=text)

    async with Memory(tmp_path / "m.db") as memory:
        client = Scripted(script)
        bot = agent(memory, client)
        await bot.run(said("my colour is heliotrope"), session=here())
        await agent(memory, client, resource="bob").run(said("secret heliotrope of bob"), session=here())
        done = await bot.run(said("use them"), session=here())
        tasks = await memory.resource("alice").tasks().ready()
        rows = await stored(memory, "alice", "t1")
    results = [str(content.result) for message in done.messages for content in message.contents if content.call_id]
    found, made = [result for result in results if "success" in result]
    assert "my colour is" in found
    assert "secret" not in found
    assert '"success":true' in made
    assert [one.task.title for one in tasks.items] == ["Paint the door"]
    assert [row.own for row in rows if row.role == "tool"] == [True, True]


# ---------------------------------------------------------------- what goes wrong


async def test_a_failing_run_keeps_what_was_said(tmp_path: Path) -> None:
    """A client that is down; a tool that raises is a result that says so."""
    broken = [True]

    def script(messages: list[Message]) -> Any:
        about = last_question(messages)
        if about == "now" and broken:
            return broken.pop() and ConnectionError("the provider is down")
        if about == "storm" and messages[-1].role != "tool":
            return called("weather", "c1", '{"city": "nowhere"}')
        return told(f"about {about}")

    async with Memory(tmp_path / "m.db") as memory:
        bot, session = agent(memory, Scripted(script)), here()
        with pytest.raises(ConnectionError):
            await bot.run(Message("user", ["now"], message_id="1"), session=session)
        await bot.run(Message("user", ["storm"], message_id="2"), session=session)
        broken.append(True)
        stream = bot.run(Message("user", ["now"], message_id="3"), session=session, stream=True)
        with pytest.raises(ConnectionError):
            await stream.get_final_response()
        await bot.run(Message("user", ["later"], message_id="4"), session=session)
        rows = await stored(memory, "alice", "t1")
    assert brief(rows) == [
        "user: now",
        "user: storm",
        "call c1: weather",
        "result c1",
        "assistant: about storm",
        "user: now",
        "user: later",
        "assistant: about later",
    ]
    result: Any = rows[3].parts[0]
    assert result.is_error


@pytest.mark.parametrize("streams", [False, True])
async def test_a_cancelled_run_keeps_what_was_said(tmp_path: Path, streams: bool) -> None:
    """Cancelled while the model thinks, or while it speaks: the words that came are kept."""
    async with Memory(tmp_path / "m.db") as memory:
        client = Scripted(talk)
        client.stuck = asyncio.Event()
        bot, session = agent(memory, client), here()

        async def run() -> None:
            if streams:
                async for _ in bot.run(asked(1), session=session, stream=True):
                    pass
            else:
                await bot.run(asked(1), session=session)

        running = asyncio.create_task(run())
        await client.stuck.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        client.stuck = None
        await bot.run(asked(2), session=session)
        await memory.settled()
        rows = await stored(memory, "alice", "t1")
    half = ["assistant: Answer"] if streams else []
    assert brief(rows) == [f"user: {question(1)}", *half, *expected(range(2, 3))]


async def test_a_stream_that_is_left(tmp_path: Path) -> None:
    """Closed half-way, it is saved as far as it came."""
    async with Memory(tmp_path / "m.db") as memory:
        bot, session = agent(memory, Scripted(talk)), here()
        stream = bot.run(asked(1), session=session, stream=True)
        heard = [await anext(stream) for _ in range(2)]
        await stream.close()
        await bot.run(asked(2), session=session)
        rows = await stored(memory, "alice", "t1")
    assert "".join(update.text for update in heard) == "Answer 1:"
    assert brief(rows) == [f"user: {question(1)}", "assistant: Answer 1:", *expected(range(2, 3))]


async def test_a_call_that_needs_approval(tmp_path: Path) -> None:
    """A person approves a call in a run of its own: the call and its result stay a pair, the approval is not said."""

    @tool(approval_mode="always_require")
    def launch(city: str) -> str:
        """Launch."""
        return f"launched {city}"

    def script(messages: list[Message]) -> Message:
        return told("done") if messages[-1].role == "tool" else called("launch", "c1", '{"city": "Rome"}')

    async with Memory(tmp_path / "m.db") as memory:
        client, session = Scripted(script), here()
        provider = MemoryProvider(memory, resource="alice")
        bot = Agent(client, tools=[launch], context_providers=[provider])
        first = await bot.run(Message("user", ["launch"], message_id="1"), session=session)
        (request,) = first.user_input_requests
        approval = Message("user", [request.to_function_approval_response(approved=True)])
        done = await bot.run(approval, session=session)
        rows = await stored(memory, "alice", "t1")
    assert done.text == "done"
    assert brief(rows) == ["user: launch", "call c1: launch", "result c1", "assistant: done"]


async def test_a_database_that_is_gone_does_not_stop_the_agent() -> None:
    """Without it the agent answers what it is asked, and the end says what is lost; in strict mode the error is raised."""
    nowhere = "postgresql://nobody@127.0.0.1:1/nothing"
    memory, client = Memory(nowhere), Scripted(talk)
    done = await agent(memory, client).run(asked(7), session=here())
    assert done.text.startswith("Answer 7")
    assert [message.role for message in client.received[-1].messages] == ["user", "assistant", "tool"]
    with pytest.raises(NotSaved):
        await memory.aclose()
    strict = Memory(nowhere, config=Config(strict=True))
    with pytest.raises(StoreError):
        await agent(strict, Scripted(talk)).run(asked(1), session=here())
    await strict.aclose()


async def test_pictures_reach_the_model_as_they_were(tmp_path: Path) -> None:
    """Content of every kind passes through memory untouched."""
    picture = Content.from_data(b"\x89PNG and more", "image/png")
    async with Memory(tmp_path / "m.db") as memory:
        client = Scripted(talk)
        message = Message("user", [question(1), picture], message_id="q1")
        await agent(memory, client).run(message, session=here())
    assert client.received[0].messages[0].to_json() == message.to_json()


def test_a_provider_without_a_memory(tmp_path: Path) -> None:
    """An address is no memory, and neither is one that cannot be awaited."""
    wrong: Any = "memolog.db"
    with pytest.raises(InputError, match="got str"):
        MemoryProvider(wrong, resource="alice")
    with SyncMemory(str(tmp_path / "m.db")) as wrong, pytest.raises(InputError, match="got SyncMemory"):
        MemoryProvider(wrong, resource="alice")


class Bare(BaseChatClient[Any]):
    """A client without the layers."""

    async def _inner_get_response(self, **kwargs: Any) -> ChatResponse:
        return ChatResponse(messages=[told("Hello.")])


async def test_a_client_that_calls_no_middleware(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Memory cannot stand before its requests: one warning says so, and what to do."""
    async with Memory(tmp_path / "m.db") as memory:
        bot = Agent(Bare(), context_providers=[MemoryProvider(memory, resource="alice", tools=False)])
        for _ in range(2):
            await bot.run("Hi", session=here())
        warned = [one.getMessage() for one in caplog.records if one.name == "memolog"]
        assert len(warned) == 1
        assert "Bare" in warned[0]
        assert "ChatMiddlewareLayer" in warned[0]
        caplog.clear()
        await agent(memory, Scripted(talk)).run(asked(1), session=AgentSession(session_id="t2"))
        assert [one for one in caplog.records if one.name == "memolog"] == []
