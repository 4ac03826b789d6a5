"""What a provider refuses for good is taken back, in every framework; what fails for a while is kept, and stands once.

The models are those that each library has for tests, or made of its own classes; the errors are those that libraries raise.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
from agent_framework import Agent as FrameworkAgent
from agent_framework import AgentSession
from agent_framework import Message as FrameworkMessage
from agent_framework import tool as framework_tool
from agent_framework.exceptions import ChatClientException
from agents import Agent as OpenAIAgent
from agents import RunConfig, function_tool
from agents.testing import ScriptedModel, assistant_message, function_call
from langchain.agents import create_agent
from langchain_core.messages import BaseMessage, ToolMessage
from langchain_core.tools import tool as langchain_tool
from langgraph.checkpoint.memory import InMemorySaver
from pydantic_ai import Agent
from pydantic_ai.exceptions import FallbackExceptionGroup, ModelHTTPError
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo

from adapters.agent_framework.scripted import Scripted as FrameworkScripted
from adapters.agent_framework.scripted import called as framework_called
from adapters.agent_framework.scripted import told as framework_told
from adapters.kit import brief, stored
from adapters.langchain.scripted import Scripted as LangChainScripted
from adapters.langchain.scripted import called as langchain_called
from adapters.langchain.scripted import told as langchain_told
from adapters.pydantic_ai_world import Script
from memolog import Memory, SyncMemory
from memolog.adapters.agent_framework import MemoryProvider
from memolog.adapters.langchain import MemoryMiddleware
from memolog.adapters.openai_agents import MemologSession
from memolog.adapters.provider_limits import is_refusal
from memolog.adapters.pydantic_ai import MemoryCapability

Failing = Callable[[str], BaseException | None]
"""Returns what a provider raises for a request with this text; None: it answers."""


def http_error(status: int) -> openai.APIStatusError:
    """Return what a client of a provider raises for a status."""
    response: Any = httpx.Response(status, request=httpx.Request("POST", "http://provider.test/v1"), json={"error": {}})
    return openai.APIStatusError(f"status {status}", response=response, body=None)


class World(ABC):
    """An agent of one library with memory: its model answers "Yes.", and calls the tool `look` when it is told to."""

    def __init__(self, memory: Memory, failing: Failing) -> None:
        self.memory, self.failing = memory, failing
        self.tool_error: Exception | None = None

    @abstractmethod
    async def ask(self, text: str, *, streamed: bool = False) -> None:
        """Run the agent."""

    @abstractmethod
    def error(self, status: int) -> Exception:
        """Return what this library raises for a status of HTTP."""

    def look(self) -> str:
        """Look."""
        if self.tool_error is not None:
            raise self.tool_error
        return "a poisoned picture"

    async def lines(self) -> list[str]:
        """Return what is stored."""
        return [line.strip() for line in brief(await stored(self.memory, "alice", "t1"))]


class PydanticAI(World):
    """Pydantic AI."""

    def __init__(self, memory: Memory, failing: Failing) -> None:
        super().__init__(memory, failing)
        self._script = Script(self._answer)
        self._agent: Agent[Any, Any] = Agent(
            self._script.model, capabilities=[MemoryCapability(memory, "alice", tools=False)]
        )
        self._agent.tool_plain(name="look")(self.look)

    def _answer(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        del info
        if error := self.failing(str(messages)):
            raise error
        is_answered = any(isinstance(part, ToolReturnPart) for part in messages[-1].parts)
        calls = "look" in Script.said(messages) and not is_answered
        return ModelResponse([ToolCallPart("look", {}, "c1") if calls else TextPart("Yes.")])

    def error(self, status: int) -> Exception:
        return ModelHTTPError(status, "scripted", {"error": "out of order"})

    async def ask(self, text: str, *, streamed: bool = False) -> None:
        if not streamed:
            await self._agent.run(text, conversation_id="t1")
            return
        async with self._agent.run_stream(text, conversation_id="t1") as result:
            await result.get_output()


class OpenAIAgents(World):
    """The OpenAI Agents SDK."""

    def __init__(self, memory: Memory, failing: Failing) -> None:
        super().__init__(memory, failing)
        self._model = ScriptedModel()
        self._session = MemologSession(memory, thread="t1", resource="alice")
        look = function_tool(self.look, name_override="look", failure_error_function=None)
        self._agent = OpenAIAgent[Any](name="helper", model=self._model, tools=[look])

    def error(self, status: int) -> Exception:
        return http_error(status)

    async def ask(self, text: str, *, streamed: bool = False) -> None:
        known = json.dumps([str(item) for item in await self._session.get_items()])
        yes = [assistant_message("Yes.")]
        if "look" in text:
            then: Any = self.failing(known + text + "a poisoned picture") or yes
            self._model.extend([[function_call("look", {}, call_id="c1")], then])
        else:
            first: Any = self.failing(known + text) or yes
            self._model.extend([first])
        options = {"run_config": RunConfig(tracing_disabled=True)}
        if not streamed:
            await self._session.run(self._agent, text, **options)
            return
        async with self._session.stream(self._agent, text, **options) as result:
            async for _ in result.stream_events():
                pass


class LangChain(World):
    """LangChain, with a checkpointer."""

    has_saver = True

    def __init__(self, memory: Memory, failing: Failing) -> None:
        super().__init__(memory, failing)
        self._agent: Any = create_agent(
            LangChainScripted(script=self._answer),
            [langchain_tool("look", description="Look.")(self.look)],
            middleware=[MemoryMiddleware(memory, resource="alice", tools=False)],
            checkpointer=InMemorySaver() if self.has_saver else None,
        )

    def _answer(self, messages: list[BaseMessage]) -> Any:
        asked = str(messages[-1].content)
        is_call = "look" in asked and not isinstance(messages[-1], ToolMessage)
        return self.failing(str(messages)) or (langchain_called("look", "c1") if is_call else langchain_told("Yes."))

    def error(self, status: int) -> Exception:
        return http_error(status)

    async def ask(self, text: str, *, streamed: bool = False) -> None:
        given = {"messages": [{"role": "user", "content": text}]}
        here: Any = {"configurable": {"thread_id": "t1"}}
        if not streamed:
            await self._agent.ainvoke(given, here)
            return
        async for _ in self._agent.astream(given, here, stream_mode="messages"):
            pass


class LangChainAlone(LangChain):
    """LangChain without a checkpointer."""

    has_saver = False


class AgentFramework(World):
    """Agent Framework."""

    def __init__(self, memory: Memory, failing: Failing) -> None:
        super().__init__(memory, failing)
        look = framework_tool(self.look, name="look", approval_mode="never_require")
        self._session = AgentSession(session_id="t1")
        self._agent: FrameworkAgent[Any] = FrameworkAgent(
            FrameworkScripted(self._answer),
            tools=[look],
            context_providers=[MemoryProvider(memory, resource="alice", tools=False)],
        )

    def _answer(self, messages: Sequence[FrameworkMessage]) -> Any:
        last = messages[-1]
        is_call = last.role == "user" and "look" in last.text
        said = json.dumps([message.to_json() for message in messages])
        return self.failing(said) or (framework_called("look", "c1", "{}") if is_call else framework_told("Yes."))

    def error(self, status: int) -> Exception:
        # As the library's clients do: the status is in the error that this one was raised from.
        made = ChatClientException(f"The service failed to complete the prompt: {status}", http_error(status))
        made.__cause__ = http_error(status)
        return made

    async def ask(self, text: str, *, streamed: bool = False) -> None:
        said = FrameworkMessage("user", [text], message_id=None)
        if not streamed:
            await self._agent.run(said, session=self._session)
            return
        async for _ in self._agent.run(said, session=self._session, stream=True):
            pass


WORLDS: tuple[type[World], ...] = (PydanticAI, OpenAIAgents, LangChain, LangChainAlone, AgentFramework)
every_world = pytest.mark.parametrize("kind", WORLDS, ids=lambda kind: kind.__name__)


@every_world
@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("status", [400, 413, 415, 422])
async def test_what_is_refused_does_not_kill_its_thread(
    kind: type[World], status: int, streamed: bool, tmp_path: Path
) -> None:
    """It is withdrawn, as if it had not been said; what was said before and what comes after is there."""
    async with Memory(tmp_path / "memolog.db") as memory:
        world = kind(memory, lambda said: world.error(status) if "poison" in said else None)
        await world.ask("one")
        with pytest.raises(Exception, match=r"status|out of order|failed"):
            await world.ask("poison", streamed=streamed)
        assert await world.lines() == ["user: one", "assistant: Yes."]
        await world.ask("two", streamed=streamed)
        assert await world.lines() == ["user: one", "assistant: Yes.", "user: two", "assistant: Yes."]


@every_world
@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
async def test_what_fails_for_a_while_is_kept_and_stands_once(
    kind: type[World], streamed: bool, tmp_path: Path
) -> None:
    """A status of 5xx or 429, a timeout and a lost connection say nothing about the words; asked again, they stand once."""
    request: Any = httpx.Request("POST", "http://provider.test/v1")
    failures: list[Exception] = []
    async with Memory(tmp_path / "memolog.db") as memory:
        world = kind(memory, lambda _: failures.pop() if failures else None)
        await world.ask("one")
        for error in (
            world.error(500),
            world.error(429),
            openai.APITimeoutError(request=request),
            openai.APIConnectionError(request=request),
        ):
            failures.append(error)
            with pytest.raises(type(error)):
                await world.ask("two", streamed=streamed)
            failures.clear()
            assert await world.lines() == ["user: one", "assistant: Yes.", "user: two"]
        await world.ask("two", streamed=streamed)
        assert await world.lines() == ["user: one", "assistant: Yes.", "user: two", "assistant: Yes."]
        # Answered, the same words are another question.
        await world.ask("two")
        assert await world.lines() == [
            *("user: one", "assistant: Yes."),
            *("user: two", "assistant: Yes."),
            *("user: two", "assistant: Yes."),
        ]


@every_world
async def test_what_failed_first_and_is_refused_then_goes(kind: type[World], tmp_path: Path) -> None:
    """The words that were kept after a failure are those that are refused when they are sent again."""
    statuses: list[int] = []
    async with Memory(tmp_path / "memolog.db") as memory:
        world = kind(memory, lambda said: world.error(statuses[-1]) if "poison" in said else None)
        await world.ask("one")
        for status, kept in ((500, ["user: poison"]), (400, [])):
            statuses.append(status)
            with pytest.raises(Exception, match=r"status|out of order|failed"):
                await world.ask("poison")
            assert await world.lines() == ["user: one", "assistant: Yes.", *kept]
        await world.ask("two")
        assert await world.lines() == ["user: one", "assistant: Yes.", "user: two", "assistant: Yes."]


@every_world
async def test_only_what_was_refused_of_a_turn_goes(kind: type[World], tmp_path: Path) -> None:
    """What the model has answered stays, a call too; its result, which the provider does not take, is withdrawn."""
    async with Memory(tmp_path / "memolog.db") as memory:
        world = kind(memory, lambda said: world.error(413) if "poison" in said else None)
        with pytest.raises(Exception, match=r"status|out of order|failed"):
            await world.ask("look")
        assert await world.lines() == ["user: look", "call c1: look"]
        await world.ask("two")
        assert await world.lines() == ["user: look", "call c1: look", "user: two", "assistant: Yes."]


@pytest.mark.parametrize("kind", [PydanticAI, OpenAIAgents, LangChain], ids=lambda kind: kind.__name__)
async def test_a_tool_that_is_refused_elsewhere_takes_nothing_back(kind: type[World], tmp_path: Path) -> None:
    """A status in the error of a tool is not the provider's."""
    async with Memory(tmp_path / "memolog.db") as memory:
        world = kind(memory, lambda _: None)
        world.tool_error = http_error(400)
        with pytest.raises(Exception, match="status 400"):
            await world.ask("look")
        assert await world.lines() == ["user: look", "call c1: look"]


def test_without_waiting(tmp_path: Path) -> None:
    """LangChain without `await`: the same."""
    with SyncMemory(str(tmp_path / "memolog.db")) as memory:

        def answer(messages: list[BaseMessage]) -> Any:
            return http_error(400) if "poison" in str(messages) else langchain_told("Yes.")

        bot: Any = create_agent(
            LangChainScripted(script=answer), [], middleware=[MemoryMiddleware(memory, resource="alice", tools=False)]
        )
        here = {"configurable": {"thread_id": "t1"}}
        for text in ("poison", "two"):
            try:
                bot.invoke({"messages": [{"role": "user", "content": text}]}, here)
            except openai.APIStatusError:
                assert text == "poison"
        with memory.thread("t1", resource="alice").turn() as turn:
            assert [message.text for message in turn.prepare().messages] == ["two", "Yes."]


def raised_from(error: Exception, cause: BaseException) -> Exception:
    """Return an error that another one led to."""
    error.__cause__ = cause
    return error


class Boto(Exception):
    """An error as the AWS client raises it."""

    def __init__(self) -> None:
        super().__init__("An error occurred (ValidationException)")
        self.response = {"Error": {"Code": "ValidationException"}, "ResponseMetadata": {"HTTPStatusCode": 400}}


class Coded(Exception):
    """An error that calls its status a code."""

    code = 400


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (http_error(400), True),
        (http_error(401), False),
        (http_error(404), False),
        (http_error(429), False),
        (http_error(500), False),
        (httpx.HTTPStatusError("", request=httpx.Request("GET", "http://x"), response=httpx.Response(422)), True),
        (ModelHTTPError(415, "m", None), True),
        (Boto(), True),
        (Coded(), True),
        (raised_from(RuntimeError("wrapped"), http_error(413)), True),
        (raised_from(RuntimeError("wrapped"), raised_from(ValueError("twice"), http_error(400))), True),
        (raised_from(http_error(500), http_error(400)), False),
        (FallbackExceptionGroup("all failed", [http_error(400), ModelHTTPError(422, "m", None)]), True),
        (FallbackExceptionGroup("all failed", [http_error(400), http_error(503)]), False),
        (TimeoutError("too slow"), False),
        (ConnectionError("gone"), False),
        (ValueError("status 400"), False),
    ],
    ids=repr,
)
def test_which_errors_are_refusals(error: BaseException, expected: bool) -> None:
    """The status decides, in the error or in what it was raised from; of several models all must have refused."""
    assert is_refusal(error) is expected
