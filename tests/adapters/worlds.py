"""Agents of every framework with memory, behind one interface. A script answers the requests to the model.

The agents, messages, tools and errors are those of the libraries.
"""

import asyncio
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any
from uuid import uuid4

import httpx
import openai
from agent_framework import Agent as FrameworkAgent
from agent_framework import AgentSession, Content
from agent_framework import Message as FrameworkMessage
from agent_framework import tool as framework_tool
from agent_framework.exceptions import ChatClientException
from agents import Agent as OpenAIAgent
from agents import RunConfig, Usage, function_tool
from agents.testing import ModelCall, ModelStep, ScriptedModel, assistant_message, function_call
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool as langchain_tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from pydantic_ai import Agent
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, UserPromptPart
from pydantic_ai.models.function import AgentInfo

from adapters.agent_framework.scripted import Received
from adapters.agent_framework.scripted import Scripted as FrameworkScripted
from adapters.kit import Prompts, brief, forecast, line_of, split_edge, split_messages, stored
from adapters.langchain.scripted import Scripted as LangChainScripted
from adapters.langchain.scripted import edge_of, plain
from adapters.pydantic_ai_world import Script as PydanticScript
from adapters.pydantic_ai_world import rendered, words
from memolog import Memory
from memolog.adapters.agent_framework import MemoryProvider
from memolog.adapters.langchain import MemoryMiddleware
from memolog.adapters.langgraph import GraphMemory
from memolog.adapters.openai_agents import MemologSession
from memolog.adapters.pydantic_ai import MemoryCapability

INSTRUCTIONS = "You are brief."


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """One request as the model received it, without its edge."""

    system: str
    roles: list[str]
    asked: str
    """The last question of the user."""
    text: str
    """The whole request as exact text."""
    edge: str | None


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call of the model."""

    name: str
    id: str
    arguments: dict[str, Any] = field(default_factory=dict[str, Any])


Step = str | Sequence[Call] | Exception
Script = Callable[[Heard], Step]


def http_error(status: int) -> openai.APIStatusError:
    """Return the error that the client of a provider raises for an HTTP status."""
    response: Any = httpx.Response(status, request=httpx.Request("POST", "http://provider.test/v1"), json={"error": {}})
    return openai.APIStatusError(f"status {status}", response=response, body=None)


class World(ABC):
    """An agent of one library with memory, the tool `weather`, and a model that follows a script."""

    memory_error = "must be a Memory, got str"
    package: str
    extra: str
    folder: str | None = None
    """The folder of the adapter, if its name is not that of the extra."""

    def __init__(
        self,
        memory: Memory,
        script: Script,
        *,
        prompts: Prompts | None = None,
        resource: str = "alice",
        thread: str = "t1",
        tools: bool = True,
    ) -> None:
        self.memory, self.script, self.prompts = memory, script, prompts
        self.resource, self.thread, self.has_tools = resource, thread, tools
        self.heard: list[Heard] = []
        self.tool_error: Exception | None = None
        self.stuck: asyncio.Event | None = None
        """Set when the model is called. The model then never answers."""

    @classmethod
    @abstractmethod
    def adapter(cls, memory: Any) -> object:
        """Create the adapter with this memory."""

    @abstractmethod
    async def ask(self, text: str, *, streamed: bool = False) -> None:
        """Run the agent."""

    @abstractmethod
    async def leave(self, text: str) -> None:
        """Run the agent as a stream, and stop reading after the first piece."""

    def error(self, status: int) -> Exception:
        """Return the error that this library raises for an HTTP status."""
        return http_error(status)

    def weather(self, city: str) -> str:
        """Tell the weather."""
        if self.tool_error is not None:
            raise self.tool_error
        return forecast(city)

    def step(self, heard: Heard) -> str | Sequence[Call]:
        """Store a request and return the answer of the script. If the script returns an error, raise it."""
        # Servers with strict templates refuse two user messages in a row.
        assert ("user", "user") not in pairwise(heard.roles)
        # An unanswered question and the next one are one message.
        heard = replace(heard, asked=heard.asked.rpartition("\n\n")[2])
        self.heard.append(heard)
        if self.prompts is not None:
            self.prompts.add(heard.text)
        step = self.script(heard)
        if isinstance(step, Exception):
            raise step
        return step

    async def wait(self) -> None:
        """Wait for ever if the test has set `stuck`."""
        if self.stuck is not None:
            self.stuck.set()
            await asyncio.Event().wait()

    async def lines(self) -> list[str]:
        """Return the stored messages, one line for each part."""
        return [line.strip() for line in brief(await stored(self.memory, self.resource, self.thread))]


class PydanticAI(World):
    """Pydantic AI."""

    package, extra = "pydantic_ai", "pydantic-ai"

    def __init__(self, memory: Memory, script: Script, **options: Any) -> None:
        super().__init__(memory, script, **options)
        self._model = PydanticScript(self._answer)
        self._agent: Agent[Any, Any] = Agent(
            self._model.model,
            instructions=INSTRUCTIONS,
            capabilities=[MemoryCapability(memory, self.resource, tools=self.has_tools)],
        )
        self._agent.tool_plain(name="weather")(self.weather)

    @classmethod
    def adapter(cls, memory: Any) -> object:
        return MemoryCapability(memory, "alice")

    def _answer(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        self._model.stuck = self.stuck
        parts: list[Any] = [part for message in messages for part in message.parts]
        kinds = {"user-prompt": "user", "tool-return": "tool"}
        roles = [kinds.get(part.part_kind, "assistant") for part in parts]
        asked, edge = split_edge(next(words(part) for part in reversed(parts) if isinstance(part, UserPromptPart)))
        text = rendered(messages, info)
        step = self.step(Heard(system=info.instructions or "", roles=roles, asked=asked, text=text, edge=edge))
        if isinstance(step, str):
            return ModelResponse([TextPart(step)])
        return ModelResponse([ToolCallPart(c.name, c.arguments, c.id) for c in step])

    def error(self, status: int) -> Exception:
        return ModelHTTPError(status, "scripted", {"error": "status"})

    async def ask(self, text: str, *, streamed: bool = False) -> None:
        if not streamed:
            await self._agent.run(text, conversation_id=self.thread)
            return
        async with self._agent.run_stream(text, conversation_id=self.thread) as result:
            await result.get_output()

    async def leave(self, text: str) -> None:
        async with self._agent.run_stream(text, conversation_id=self.thread) as result:
            async for _ in result.stream_text(delta=True, debounce_by=None):
                break


class OpenAIAgents(World):
    """The OpenAI Agents SDK."""

    package, extra = "agents", "openai-agents"

    def __init__(self, memory: Memory, script: Script, **options: Any) -> None:
        super().__init__(memory, script, **options)
        self._session = MemologSession(memory, thread=self.thread, resource=self.resource)
        weather = function_tool(self.weather, name_override="weather", failure_error_function=None)
        self._agent = OpenAIAgent[Any](
            name="helper",
            instructions=INSTRUCTIONS,
            tools=[weather, *(self._session.tools() if self.has_tools else ())],
        )

    @classmethod
    def adapter(cls, memory: Any) -> object:
        return MemologSession(memory, thread="t1", resource="alice")

    async def _answer(self, call: ModelCall) -> ModelStep:
        said, edge = split_messages(call.input)
        kinds = {"function_call": "assistant", "function_call_output": "tool"}
        text = "\n\n".join([call.system_instructions or "", *map(line_of, said)])
        step = self.step(
            Heard(
                system=call.system_instructions or "",
                roles=[kinds.get(str(item.get("type"))) or str(item.get("role")) for item in said],
                asked=next(item["content"] for item in reversed(said) if item.get("role") == "user"),
                text=text,
                edge=edge,
            )
        )
        await self.wait()
        usage = Usage(requests=1, input_tokens=len(text) // 5, output_tokens=10)
        if isinstance(step, str):
            return ModelStep(output=[assistant_message(step, item_id=f"msg_{len(self.heard)}")], usage=usage)
        return ModelStep(output=[function_call(c.name, c.arguments, call_id=c.id) for c in step], usage=usage)

    def _options(self) -> dict[str, Any]:
        self._agent.model = ScriptedModel([ModelStep.respond(self._answer)] * 5)
        return {"run_config": RunConfig(tracing_disabled=True)}

    async def ask(self, text: str, *, streamed: bool = False) -> None:
        if not streamed:
            await self._session.run(self._agent, text, **self._options())
            return
        async with self._session.stream(self._agent, text, **self._options()) as result:
            async for _ in result.stream_events():
                pass

    async def leave(self, text: str) -> None:
        async with self._session.stream(self._agent, text, **self._options()) as result:
            events: Any = result.stream_events()
            await anext(events)
            await events.aclose()


class LangChain(World):
    """LangChain, with a checkpointer."""

    package, extra = "langchain", "langchain"
    memory_error = "must be a Memory or a SyncMemory"
    has_saver = True

    def __init__(self, memory: Memory, script: Script, **options: Any) -> None:
        super().__init__(memory, script, **options)
        self._model = LangChainScripted(script=self._answer)
        self.agent: Any = create_agent(
            self._model,
            [langchain_tool("weather", description="Tell the weather.")(self.weather)],
            system_prompt=INSTRUCTIONS,
            middleware=[MemoryMiddleware(self.memory, resource=self.resource, tools=self.has_tools)],
            checkpointer=InMemorySaver() if self.has_saver else None,
        )

    @classmethod
    def adapter(cls, memory: Any) -> object:
        return MemoryMiddleware(memory)

    def _answer(self, messages: list[BaseMessage]) -> Any:
        edge = edge_of(self._model.received[-1])
        self._model.stuck = self.stuck
        kinds: dict[Any, str] = {HumanMessage: "user", AIMessage: "assistant", ToolMessage: "tool"}
        step = self.step(
            Heard(
                system=str(messages[0].content),
                roles=[kinds[type(one)] for one in messages[1:]],
                asked=next(str(one.content) for one in reversed(messages) if isinstance(one, HumanMessage)),
                text=plain(messages),
                edge=edge,
            )
        )
        if isinstance(step, str):
            return AIMessage(step)
        calls: Any = [{"name": c.name, "args": c.arguments, "id": c.id, "type": "tool_call"} for c in step]
        return AIMessage("", tool_calls=calls)

    async def ask(self, text: str, *, streamed: bool = False) -> None:
        if not streamed:
            await self.agent.ainvoke(*self._given(text))
            return
        async for _ in self._streamed(text):
            pass

    async def leave(self, text: str) -> None:
        stream = self._streamed(text)
        await anext(stream)
        await stream.aclose()

    def _given(self, text: str) -> tuple[Any, Any]:
        return {"messages": [{"role": "user", "content": text}]}, {"configurable": {"thread_id": self.thread}}

    def _streamed(self, text: str) -> Any:
        return self.agent.astream(*self._given(text), stream_mode="messages")


class LangChainAlone(LangChain):
    """LangChain without a checkpointer."""

    has_saver = False


class LangGraph(LangChain):
    """A graph of LangGraph with a model node and a tool node, with a checkpointer."""

    package, extra = "langgraph", "langchain"
    folder = "langgraph"

    def __init__(self, memory: Memory, script: Script, **options: Any) -> None:
        super().__init__(memory, script, **options)
        memo = GraphMemory(memory, resource=self.resource, tools=self.has_tools, system_prompt=INSTRUCTIONS)
        tools = [langchain_tool("weather", description="Tell the weather.")(self.weather), *memo.tools]
        builder = StateGraph(MessagesState)
        builder.add_node("model", memo.node(self._model.bind_tools(tools)))
        builder.add_node("tools", ToolNode(tools, handle_tool_errors=False))
        builder.add_edge(START, "model")
        builder.add_conditional_edges("model", tools_condition)
        builder.add_edge("tools", "model")
        self.agent = builder.compile(checkpointer=InMemorySaver() if self.has_saver else None)

    @classmethod
    def adapter(cls, memory: Any) -> object:
        return GraphMemory(memory)


class LangGraphAlone(LangGraph):
    """A graph of LangGraph without a checkpointer."""

    has_saver = False


class AgentFramework(World):
    """Agent Framework."""

    package, extra = "agent_framework", "agent-framework"

    def __init__(self, memory: Memory, script: Script, **options: Any) -> None:
        super().__init__(memory, script, **options)
        self._client = FrameworkScripted(self._answer)
        self._session = AgentSession(session_id=self.thread)
        self.agent: FrameworkAgent[Any] = FrameworkAgent(
            self._client,
            INSTRUCTIONS,
            tools=[framework_tool(self.weather, name="weather", approval_mode="never_require")],
            context_providers=[MemoryProvider(self.memory, resource=self.resource, tools=self.has_tools)],
        )

    @classmethod
    def adapter(cls, memory: Any) -> object:
        return MemoryProvider(memory, resource="alice")

    def _answer(self, messages: Sequence[FrameworkMessage]) -> Any:
        received: Received = self._client.received[-1]
        self._client.stuck = self.stuck
        step = self.step(
            Heard(
                system=received.instructions,
                roles=[str(message.role) for message in messages],
                asked=next(one.contents[-1].text or "" for one in reversed(messages) if one.role == "user"),
                text=received.text,
                edge=received.edge,
            )
        )
        if isinstance(step, str):
            return FrameworkMessage("assistant", [step])
        calls = [Content.from_function_call(c.id, c.name, arguments=json.dumps(c.arguments)) for c in step]
        return FrameworkMessage("assistant", calls)

    def error(self, status: int) -> Exception:
        # As the library's clients do: the status is in the error that this one was raised from.
        made = ChatClientException(f"The service failed to complete the prompt: status {status}", http_error(status))
        made.__cause__ = http_error(status)
        return made

    def _said(self, text: str) -> FrameworkMessage:
        return FrameworkMessage("user", [text], message_id=uuid4().hex)

    async def ask(self, text: str, *, streamed: bool = False) -> None:
        if not streamed:
            await self.agent.run(self._said(text), session=self._session)
            return
        async for _ in self.agent.run(self._said(text), session=self._session, stream=True):
            pass

    async def leave(self, text: str) -> None:
        stream = self.agent.run(self._said(text), session=self._session, stream=True)
        await anext(stream)
        await stream.close()


WORLDS: tuple[type[World], ...] = (
    PydanticAI,
    OpenAIAgents,
    LangChain,
    LangChainAlone,
    LangGraph,
    LangGraphAlone,
    AgentFramework,
)
