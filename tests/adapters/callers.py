"""A program for each adapter: the clients, agents and models are those of the libraries."""

import json
from collections.abc import AsyncIterator, Awaitable
from contextlib import AsyncExitStack
from typing import Any
from uuid import uuid4

import anthropic
import httpx
import openai
from agent_framework import Agent as FrameworkAgent
from agent_framework import AgentSession
from agent_framework import Message as FrameworkMessage
from agent_framework import tool as framework_tool
from agent_framework.openai import OpenAIChatClient, OpenAIChatCompletionClient
from agents import Agent as OpenAIAgent
from agents import OpenAIChatCompletionsModel, OpenAIResponsesModel, RunConfig, function_tool
from anthropic.types import Message, RawMessageStreamEvent
from langchain.agents import create_agent
from langchain_core.messages import HumanMessage
from langchain_core.tools import tool as langchain_tool
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from openai.lib.streaming.chat import ChatCompletionStreamState
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.responses import Response, ResponseStreamEvent
from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelMessagesTypeAdapter
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.models.openai import OpenAIResponsesModel as PydanticResponsesModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider

from adapters.provider import GEMINI, Driver, Json, Provider, wrap
from adapters.story import INSTRUCTIONS, RESOURCE, THREAD, Caller
from gateway.upstream import Seen, Upstream, running
from memolog import Memory
from memolog.adapters.agent_framework import MemoryProvider
from memolog.adapters.exchange import at
from memolog.adapters.langchain import MemoryMiddleware
from memolog.adapters.langgraph import GraphMemory
from memolog.adapters.openai_agents import MemologSession
from memolog.adapters.pydantic_ai import MemoryCapability
from memolog.apps.gateway import GatewaySettings, serve

# The clients check longer lists piece by piece, which takes most of the time. So longer lists are sent by their `post`.
_SHORT = 30
_ENDPOINTS: dict[str, tuple[str, Any, Any]] = {
    "chat": ("/chat/completions", ChatCompletion, ChatCompletionChunk),
    "responses": ("/responses", Response, ResponseStreamEvent),
    "messages": ("/v1/messages", Message, RawMessageStreamEvent),
}


class Lists(Caller):
    """A wrapped client. The program sends its whole list of messages each time, and keeps or drops what failed."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._client: Any = None
        self._talk: list[list[Json]] = []

    async def open(self, memory: Memory, provider: Provider) -> None:
        """Read the list from a file, as a program does that was started again."""
        self._talk = json.loads(json.dumps(self._talk))
        self._client = wrap(self.driver, provider.async_client(), memory, thread=THREAD, resource=RESOURCE)

    async def back(self, question: str) -> None:
        """Shorten the list."""
        del self._talk[[one[0]["content"] for one in self._talk].index(question) :]

    async def ask(self, text: str, *, streamed: bool) -> None:
        """Add the question and the answers to the list."""
        if self._talk and self._talk[-1] == [self._asked(text)]:
            # The question is still in the list, because its request failed.
            self._talk.pop()
        self._talk.append([self._asked(text)])
        try:
            while ids := await self._step(streamed=streamed):
                self._talk[-1] += self._results([(id_, self.look(1)) for id_ in ids])
        except Exception as error:
            is_refused = getattr(error, "status_code", None) == 400
            self.keeps_failed = not is_refused and self.chance.random() < 0.5
            if not self.keeps_failed:
                self._talk.pop()
            raise

    async def leave(self, text: str) -> None:
        """Keep the words that were read, or only the question, or nothing."""
        self._talk.append([self._asked(text)])
        stream = await self._send(streamed=True)
        said = ""
        async for event in stream:
            said = self.driver.piece(event)
            if said:
                break
        await stream.close()
        self.keeps_failed = self.chance.random() < 0.7
        if not self.keeps_failed:
            self._talk.pop()
        elif self.chance.random() < 0.5:
            self._talk[-1].append(self._answered(said))

    def _asked(self, text: str) -> Json:
        return {"role": "user", "content": text}

    def _answered(self, text: str) -> Json:
        return {"role": "assistant", "content": text}

    async def _send(self, *, streamed: bool) -> Any:
        body = self._request()
        if len(body.get("messages") or body["input"]) < _SHORT:
            return await self.driver.call(self._client)(**body, **({"stream": True} if streamed else {}))
        path, whole, piece = _ENDPOINTS[self.api]
        kind: Any = anthropic.AsyncStream if self.api == "messages" else openai.AsyncStream
        how = {"stream": True, "stream_cls": kind[piece]} if streamed else {}
        return await self._client.post(path, body={**body, "stream": streamed}, cast_to=whole, **how)

    async def _step(self, *, streamed: bool) -> list[str]:
        """Send the list, add the answer, and return the ids of the calls in it."""
        done = await self._send(streamed=streamed)
        if streamed:
            done = await _assembled(self.api, done)
        if self.api == "chat":
            said = [_plain(done.choices[0].message.model_dump(exclude_none=True))]
            calls = [call["id"] for call in said[0].get("tool_calls", ())]
        elif self.api == "responses":
            said = [_plain(item.model_dump(exclude_none=True)) for item in done.output]
            calls = [item["call_id"] for item in said if item["type"] == "function_call"]
        else:
            blocks = [_plain(block.model_dump(exclude_none=True)) for block in done.content]
            said = [{"role": "assistant", "content": blocks}]
            calls = [block["id"] for block in blocks if block["type"] == "tool_use"]
        self._talk[-1] += said
        return calls

    def _request(self) -> Json:
        key = "input" if self.api == "responses" else "messages"
        messages = [one for exchange in self._talk for one in exchange]
        if self.api == "responses":
            # Some programs send a reference in place of an answer that the provider has stored.
            messages = [
                {"type": "item_reference", "id": one["id"]} if "id" in one and place < len(messages) - 9 else one
                for place, one in enumerate(messages)
            ]
        opening = [{"role": "system", "content": INSTRUCTIONS}] if self.api == "chat" else []
        return {**self.driver.said(""), key: [*opening, *messages]}

    def _results(self, results: list[tuple[str, str]]) -> list[Json]:
        made = self.driver.results(results)
        return made["input"] if self.api == "responses" else [m for m in made["messages"] if m["role"] != "system"]


async def _assembled(api: str, stream: Any) -> Any:
    """Return the answer of a stream."""
    if api == "chat":
        state = ChatCompletionStreamState()
        async for chunk in stream:
            state.handle_chunk(chunk)
        return state.get_final_completion()
    events = [event async for event in stream]
    if api == "responses":
        return events[-1].response
    message, inputs = events[0].message, dict[int, str]()
    for event in events:
        if event.type == "content_block_start":
            message.content.append(event.content_block)
        elif event.type == "content_block_delta":
            block = message.content[event.index]
            for name in ("text", "thinking", "signature"):
                if hasattr(event.delta, name):
                    setattr(block, name, getattr(block, name) + getattr(event.delta, name))
            inputs[event.index] = inputs.get(event.index, "") + getattr(event.delta, "partial_json", "")
    for place, text in inputs.items():
        if text:
            message.content[place].input = json.loads(text)
    return message


def _plain(value: Any) -> Any:
    """Return an answer without the fields that the client library has added."""
    if isinstance(value, dict):
        added = {"parsed", "parsed_arguments", "parsed_output", "index"}
        return {name: _plain(item) for name, item in value.items() if name not in added}
    return [_plain(item) for item in value] if isinstance(value, list) else value


class Chat(Lists):
    """The client of OpenAI, Chat Completions."""

    api = "chat"


class Responses(Lists):
    """The client of OpenAI, Responses."""

    api = "responses"


class Messages(Lists):
    """The client of Anthropic."""

    api = "messages"


class _ThroughGateway(Lists):
    """The client of a provider whose address is that of the gateway."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._stack = AsyncExitStack()

    async def open(self, memory: Memory, provider: Provider) -> None:
        """Start a provider and a gateway on loopback."""
        await super().open(memory, provider)
        await self._serve(memory, provider)

    async def _serve(self, memory: Memory, provider: Provider) -> None:
        def script(seen: Seen) -> Any:
            provider.bodies.append(seen.body)
            return provider.script(seen.body)

        upstream = Upstream(script, rules=provider.rules, numbers=len(provider.bodies))
        upstream.tokens = lambda seen: len(seen.raw) // 4
        address = await self._stack.enter_async_context(running(upstream))
        settings = GatewaySettings(openai=f"{address}/v1", anthropic=address, google=address)
        gateway = await self._stack.enter_async_context(serve(memory, settings, port=0))
        self._client = self._make_client(gateway.url)
        self._stack.push_async_callback(self._client.aclose if self.api == "gemini" else self._client.close)

    def _make_client(self, url: str) -> Any:
        headers = at(THREAD, RESOURCE)["extra_headers"]
        if self.api == "messages":
            return anthropic.AsyncAnthropic(base_url=url, api_key="k", max_retries=0, default_headers=headers)
        return openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="k", max_retries=0, default_headers=headers)

    async def close(self) -> None:
        """Stop the servers."""
        await self._stack.aclose()


class GatewayChat(_ThroughGateway):
    """The gateway, Chat Completions."""

    api = "chat"


class GatewayResponses(_ThroughGateway):
    """The gateway, Responses."""

    api = "responses"


class GatewayMessages(_ThroughGateway):
    """The gateway, Messages."""

    api = "messages"


class GatewayGemini(_ThroughGateway):
    """The gateway, Gemini API. The program speaks HTTP, as programs in other languages do."""

    api = "gemini"

    async def open(self, memory: Memory, provider: Provider) -> None:
        """Start a provider and a gateway on loopback."""
        self._talk = json.loads(json.dumps(self._talk))
        await self._serve(memory, provider)

    @property
    def driver(self) -> Driver:
        """Return the API that the program uses."""
        return GEMINI

    def _make_client(self, url: str) -> Any:
        headers = {**at(THREAD, RESOURCE)["extra_headers"], "x-goog-api-key": "k"}
        return httpx.AsyncClient(base_url=url, headers=headers, trust_env=False, timeout=120)

    async def back(self, question: str) -> None:
        """Shorten the list."""
        del self._talk[[one[0]["parts"][0]["text"] for one in self._talk].index(question) :]

    def _asked(self, text: str) -> Json:
        return {"role": "user", "parts": [{"text": text}]}

    def _answered(self, text: str) -> Json:
        return {"role": "model", "parts": [{"text": text}]}

    async def _send(self, *, streamed: bool) -> Any:
        body = {**self.driver.said(""), "contents": [one for exchange in self._talk for one in exchange]}
        method = "streamGenerateContent?alt=sse" if streamed else "generateContent"
        request = self._client.build_request("POST", f"/v1beta/models/m:{method}", json=body)
        answer = await self._client.send(request, stream=True)
        if answer.status_code >= 400:
            await answer.aread()
            raise _HttpError(answer.status_code)
        return GeminiAnswer(answer)

    async def _step(self, *, streamed: bool) -> list[str]:
        answer = await self._send(streamed=streamed)
        events = [event async for event in answer] if streamed else [json.loads(await answer.http.aread())]
        parts = [
            part for event in events for part in event["candidates"][0]["content"]["parts"] if part != {"text": ""}
        ]
        assert events[-1]["candidates"][0]["finishReason"] == "STOP"
        self._talk[-1].append({"role": "model", "parts": parts})
        return [part["functionCall"]["id"] for part in parts if "functionCall" in part]

    def _results(self, results: list[tuple[str, str]]) -> list[Json]:
        return self.driver.results(results)["contents"]


class _HttpError(Exception):
    """An answer with an error status."""

    def __init__(self, status: int) -> None:
        super().__init__(f"status {status}")
        self.status_code = status


class GeminiAnswer:
    """A streamed answer of the Gemini API."""

    def __init__(self, http: httpx.Response) -> None:
        self.http = http

    async def __aiter__(self) -> AsyncIterator[Json]:
        async for line in self.http.aiter_lines():
            if line.startswith("data: "):
                event = json.loads(line[6:])
                if "error" in event:
                    raise _HttpError(event["error"]["code"])
                yield event

    async def close(self) -> None:
        """Leave the stream."""
        await self.http.aclose()


class PydanticAI(Caller):
    """Pydantic AI. The program passes the messages of its earlier agent runs, and has none of a failed one."""

    keeps_failed = False

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._agent: Any = None
        self._history: list[ModelMessage] = []
        self._starts: dict[str, int] = {}

    async def open(self, memory: Memory, provider: Provider) -> None:
        """Read the messages from a file, as a program does that was started again."""
        self._history = ModelMessagesTypeAdapter.validate_json(ModelMessagesTypeAdapter.dump_json(self._history))
        self._agent = Agent(
            self._model(provider.async_client()),
            instructions=INSTRUCTIONS,
            capabilities=[MemoryCapability(memory, RESOURCE, tools=False)],
        )
        self._agent.tool_plain(name="look")(self.look)

    def _model(self, client: Any) -> Any:
        match self.api:
            case "chat":
                return OpenAIChatModel("m", provider=OpenAIProvider(openai_client=client))
            case "responses":
                return PydanticResponsesModel("m", provider=OpenAIProvider(openai_client=client))
            case _:
                return AnthropicModel("m", provider=AnthropicProvider(anthropic_client=client))

    async def back(self, question: str) -> None:
        """Shorten the history."""
        del self._history[self._starts[question] :]

    async def ask(self, text: str, *, streamed: bool) -> None:
        """Run the agent with the history."""
        options: Any = {"message_history": self._history, "conversation_id": THREAD}
        if streamed:
            async with self._agent.run_stream(text, **options) as result:
                await result.get_output()
        else:
            result = await self._agent.run(text, **options)
        self._starts[text] = len(self._history)
        self._history = result.all_messages()

    async def leave(self, text: str) -> None:
        """Leave the stream."""
        async with self._agent.run_stream(text, message_history=self._history, conversation_id=THREAD) as result:
            async for _ in result.stream_text(delta=True, debounce_by=None):
                break


class PydanticResponses(PydanticAI):
    """Pydantic AI with Responses."""

    api = "responses"


class PydanticMessages(PydanticAI):
    """Pydantic AI with Anthropic."""

    api = "messages"


class OpenAIAgents(Caller):
    """The Agents SDK of OpenAI with Responses."""

    api = "responses"
    rewinds = False

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._session: Any = None
        self._agent: Any = None

    async def open(self, memory: Memory, provider: Provider) -> None:
        """Create the session and the agent."""
        self._session = MemologSession(memory, thread=THREAD, resource=RESOURCE)
        look = function_tool(self.look, name_override="look", failure_error_function=None)
        kind: Any = OpenAIResponsesModel if self.api == "responses" else OpenAIChatCompletionsModel
        model = kind("m", provider.async_client())
        self._agent = OpenAIAgent[Any](name="helper", instructions=INSTRUCTIONS, tools=[look], model=model)

    async def back(self, question: str) -> None:
        """Do nothing, because the session is the thread."""

    async def ask(self, text: str, *, streamed: bool) -> None:
        """Run the agent."""
        config = RunConfig(tracing_disabled=True)
        if not streamed:
            await self._session.run(self._agent, text, run_config=config)
            return
        async with self._session.stream(self._agent, text, run_config=config) as result:
            async for _ in result.stream_events():
                pass

    async def leave(self, text: str) -> None:
        """Leave the stream after its first words."""
        async with self._session.stream(self._agent, text, run_config=RunConfig(tracing_disabled=True)) as result:
            events: Any = result.stream_events()
            async for event in events:
                if "text.delta" in str(getattr(getattr(event, "data", None), "type", "")):
                    break
            await events.aclose()


class OpenAIAgentsChat(OpenAIAgents):
    """The Agents SDK of OpenAI with Chat Completions."""

    api = "chat"


class LangChain(Caller):
    """LangChain with a checkpointer. The program goes back to an earlier checkpoint."""

    hears_streams = False

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._agent: Any = None
        self._saver = InMemorySaver()
        self._before: dict[str, Any] = {}
        self._at: Any = {"configurable": {"thread_id": THREAD}}

    async def open(self, memory: Memory, provider: Provider) -> None:
        """Create the agent. The checkpointer outlives a restart."""
        self._agent = create_agent(
            self._model(provider),
            [langchain_tool("look", description="Look.")(self.look)],
            system_prompt=INSTRUCTIONS,
            middleware=[MemoryMiddleware(memory, resource=RESOURCE, tools=False)],
            checkpointer=self._saver,
        )

    def _model(self, provider: Provider) -> ChatOpenAI:
        client = provider.async_client()
        return ChatOpenAI(
            model="m",
            api_key="k",  # pyright: ignore[reportArgumentType]
            async_client=client.chat.completions,
            root_async_client=client,
            max_retries=0,
            use_responses_api=self.api == "responses",
            stream_usage=True,
        )

    async def back(self, question: str) -> None:
        """Continue from an earlier checkpoint."""
        self._at = self._before[question]

    async def _run(self, text: str, work: Awaitable[Any]) -> None:
        # A question that is asked again after a failure is in the checkpoint already.
        self._before.setdefault(text, self._at)
        try:
            await work
        finally:
            # The checkpoint contains the question of a failed agent run too.
            self._at = (await self._agent.aget_state({"configurable": {"thread_id": THREAD}})).config

    async def ask(self, text: str, *, streamed: bool) -> None:
        """Run the agent."""
        given = {"messages": [HumanMessage(text, id=uuid4().hex)]}
        if not streamed:
            await self._run(text, self._agent.ainvoke(given, self._at))
            return

        async def read() -> None:
            async for _ in self._agent.astream(given, self._at, stream_mode="messages"):
                pass

        await self._run(text, read())

    async def leave(self, text: str) -> None:
        """Leave the stream after its first words."""

        async def read() -> None:
            given = {"messages": [HumanMessage(text, id=uuid4().hex)]}
            stream = self._agent.astream(given, self._at, stream_mode="messages")
            async for piece, _ in stream:
                if piece.text:
                    break
            await stream.aclose()

        await self._run(text, read())


class LangGraph(LangChain):
    """A graph of LangGraph with a node for the model, one for the tools, and a checkpointer."""

    async def open(self, memory: Memory, provider: Provider) -> None:
        """Create the graph. The checkpointer outlives a restart."""
        tools = [langchain_tool("look", description="Look.")(self.look)]
        builder = StateGraph(MessagesState)
        remembering = GraphMemory(memory, resource=RESOURCE, system_prompt=INSTRUCTIONS)
        builder.add_node("model", remembering.node(self._model(provider).bind_tools(tools)))
        builder.add_node("tools", ToolNode(tools))
        builder.add_edge(START, "model")
        builder.add_conditional_edges("model", tools_condition)
        builder.add_edge("tools", "model")
        self._agent = builder.compile(checkpointer=self._saver)


class AgentFramework(Caller):
    """Agent Framework with Chat Completions."""

    rewinds = False

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._agent: Any = None
        self._session: Any = None

    async def open(self, memory: Memory, provider: Provider) -> None:
        """Create the agent, and a new session with the id of the thread."""
        kind: Any = OpenAIChatClient if self.api == "responses" else OpenAIChatCompletionClient
        self._session = AgentSession(session_id=THREAD)
        self._agent = FrameworkAgent(
            kind("m", async_client=provider.async_client()),
            INSTRUCTIONS,
            tools=[framework_tool(self.look, name="look", approval_mode="never_require")],
            context_providers=[MemoryProvider(memory, resource=RESOURCE, tools=False)],
        )

    async def back(self, question: str) -> None:
        """Do nothing, because the session has no messages of its own."""

    def _said(self, text: str) -> FrameworkMessage:
        return FrameworkMessage("user", [text], message_id=uuid4().hex)

    async def ask(self, text: str, *, streamed: bool) -> None:
        """Run the agent."""
        if not streamed:
            await self._agent.run(self._said(text), session=self._session)
            return
        async for _ in self._agent.run(self._said(text), session=self._session, stream=True):
            pass

    async def leave(self, text: str) -> None:
        """Leave the stream after its first words."""
        stream = self._agent.run(self._said(text), session=self._session, stream=True)
        async for update in stream:
            if update.text:
                break
        await stream.close()


class AgentFrameworkResponses(AgentFramework):
    """Agent Framework with Responses."""

    api = "responses"
