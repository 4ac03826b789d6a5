"""Agents of Agent Framework with memory: real agents and layers, a scripted client, a real store."""

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
from adapters.kit import answer, brief, calls, check_pairs, expected, question, stored
from memolog import InputError, Memory
from memolog.adapters.agent_framework import MemoryProvider


def talk(messages: list[Message]) -> Message:
    """Answer; some questions need a tool first."""
    number = int(last_question(messages).split()[1])
    if calls(number) and messages[-1].role != "tool":
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


async def test_history_of_others_is_not_saved_again(tmp_path: Path) -> None:
    """Messages that a history provider or the caller supplies again are stored and sent once."""
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
    """The earlier messages are saved once."""
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


async def test_whose_memory_it_is(tmp_path: Path) -> None:
    """The resource may depend on the session. A system message of the caller stays first, and ids are stored."""

    def owner(session: AgentSession) -> str:
        return str(session.state.get("user") or "")

    async with Memory(tmp_path / "m.db") as memory:
        client, session = Scripted(talk), here()
        bot = agent(memory, client, resource=owner)
        with pytest.raises(InputError, match="resource"):
            await bot.run(asked(1), session=session)
        session.state["user"] = "bob"
        await bot.run([Message("system", ["Speak plainly."]), asked(7)], session=session)
        rows = await stored(memory, "bob", "t1")
    assert brief(rows) == expected(range(7, 8))
    assert [message.role for message in client.received[1].messages] == ["system", "user", "assistant", "tool"]
    assert rows[0].id == "q7"


# ---------------------------------------------------------------- what goes wrong


async def test_a_call_that_needs_approval(tmp_path: Path) -> None:
    """A person approves a call in a separate agent run. Call and result are a pair, and the approval is not stored."""

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


async def test_pictures_reach_the_model_as_they_were(tmp_path: Path) -> None:
    """A picture is sent to the model unchanged."""
    picture = Content.from_data(b"\x89PNG and more", "image/png")
    async with Memory(tmp_path / "m.db") as memory:
        client = Scripted(talk)
        message = Message("user", [question(1), picture], message_id="q1")
        await agent(memory, client).run(message, session=here())
    assert client.received[0].messages[0].to_json() == message.to_json()


class Bare(BaseChatClient[Any]):
    """A client without the layers."""

    async def _inner_get_response(self, **kwargs: Any) -> ChatResponse:
        return ChatResponse(messages=[told("Hello.")])


async def test_a_client_that_calls_no_middleware(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """One warning says that the client calls no middleware, and how to change it."""
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
