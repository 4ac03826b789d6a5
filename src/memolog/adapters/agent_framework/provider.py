"""The context provider: memory at every model request of an Agent Framework agent.

Knows the hooks: a run begins and ends with the provider's, and each request in between passes a chat middleware that the provider
adds. So a loop of tools is saved step by step, and every request sees a fresh context. Translates and decides nothing.
"""

import logging
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import contextmanager
from typing import Any, TypeAlias
from weakref import WeakKeyDictionary

from agent_framework import (
    AgentResponse,
    AgentSession,
    ChatContext,
    ChatMiddleware,
    ChatResponse,
    ChatResponseUpdate,
    ContextProvider,
    FunctionTool,
    HistoryProvider,
    Message,
    ResponseStream,
    SessionContext,
    SupportsAgentRun,
)

from memolog.adapters.agent_framework.messages import to_agent_framework
from memolog.adapters.agent_framework.running import Run
from memolog.adapters.checking import check_memory
from memolog.adapters.sending import is_refusal
from memolog.context import Context
from memolog.domain.codec import dumps
from memolog.domain.errors import InputError
from memolog.domain.own import OWN_TOOLS
from memolog.runtime.memory import Memory
from memolog.runtime.tools import Tools
from memolog.tools import definition, guidance

__all__ = ["MemoryProvider"]

_log = logging.getLogger("memolog")

Named: TypeAlias = str | Callable[[AgentSession], str]
Stream: TypeAlias = ResponseStream[ChatResponseUpdate, ChatResponse]


class MemoryProvider(ContextProvider):
    """A long memory for an agent: `Agent(client, context_providers=[MemoryProvider(memory, resource="alice")])`."""

    def __init__(
        self,
        memory: Memory,
        *,
        resource: Named,
        thread: Named | None = None,
        tools: bool = True,
        edge_after_results: bool = True,
        keep_rewritten: bool = False,
        zone: str | None = None,
        source_id: str = "memolog",
    ) -> None:
        """Take a memory, and whose it is: a name, or a function of the session. The thread is the session's id unless named.

        `tools` offers the three tools. `edge_after_results=False` leaves the edge out where the last message is a tool's, for
        providers that take no words there. A middleware that puts other words in place of the model's has stopped the turn,
        which is then discarded; with `keep_rewritten` those other words are saved instead.
        """
        check_memory(memory)
        super().__init__(source_id)
        self.memory = memory
        self._resource, self._thread, self._zone = resource, thread, zone
        self._has_tools, self._edge_after_results = tools, edge_after_results
        self._keeps_rewritten = keep_rewritten
        self._runs: WeakKeyDictionary[AgentSession, Run] = WeakKeyDictionary()
        self._has_warned = False

    # ------------------------------------------------------------ a run

    async def before_run(
        self, *, agent: SupportsAgentRun, session: AgentSession, context: SessionContext, state: dict[str, Any]
    ) -> None:
        """Begin a run: offer the tools, and stand before each of its requests."""
        del state
        self._look_at(getattr(agent, "client", None))
        if (last := self._runs.get(session)) is not None:
            # A run that failed where nobody told us: what it saved stays.
            await last.leave()
        run = self._runs[session] = self._begun(agent, session)
        if self._has_tools:
            tools = self.memory.tools(run.resource, thread=run.thread, session=run.thread)
            context.extend_tools(self.source_id, [_tool(tools, name) for name in OWN_TOOLS])
        context.metadata[self.source_id] = run
        context.extend_middleware(self.source_id, _EachRequest(self, run))

    async def after_run(
        self, *, agent: SupportsAgentRun, session: AgentSession, context: SessionContext, state: dict[str, Any]
    ) -> None:
        """End the turn."""
        del agent, state
        del session
        run = context.metadata.pop(self.source_id, None)
        if isinstance(run, Run):
            await run.finish(context.response, replaces=self._keeps_rewritten)

    def run_of(self, session: AgentSession) -> Run | None:
        """Return the latest run of a session, under way or over; None before the first."""
        return self._runs.get(session)

    async def answered(self, run: Run, response: AgentResponse) -> None:
        """Take note of what a run has answered in the end: what is not the model's is a guard's."""
        if run.is_begun:
            await run.finish(response, replaces=self._keeps_rewritten)

    def _begun(self, agent: SupportsAgentRun, session: AgentSession) -> Run:
        providers: Any = getattr(agent, "context_providers", ())
        histories = frozenset(one.source_id for one in providers if isinstance(one, HistoryProvider))
        return Run(
            self.memory,
            _named("resource", self._resource, session, None),
            _named("thread", self._thread, session, session.session_id),
            zone=self._zone,
            histories=histories,
        )

    def _look_at(self, client: object) -> None:
        """Warn once of a client that calls no chat middleware: memory would stand before none of its requests."""
        if client is None or hasattr(client, "chat_middleware") or self._has_warned:
            return
        self._has_warned = True
        _log.warning(
            "%s has no chat middleware, so the model sees nothing of memory and its steps are not saved: make it a class of "
            "(FunctionInvocationLayer, ChatMiddlewareLayer, BaseChatClient)",
            type(client).__name__,
        )

    # ------------------------------------------------------------ a request

    def ask(self, request: ChatContext, context: Context) -> None:
        """Put memory into a request: the caller's instructions, the prefix, the messages of the context and the edge."""
        options: dict[str, Any] = dict(request.options or {})
        own = options.get("instructions")
        texts = [own if isinstance(own, str) else "\n".join(own or ()), *([guidance()] if self._has_tools else ())]
        options["instructions"] = "\n\n".join(filter(None, [*texts, context.system]))
        # The context is the whole conversation: a service that remembers it too would be told everything twice.
        options.pop("conversation_id", None)
        request.kwargs.pop("conversation_id", None)
        if getattr(request.client, "STORES_BY_DEFAULT", False) or options.get("store"):
            options["store"] = False
        request.options = options
        messages = [message for message in request.messages if message.role == "system"]
        messages += [to_agent_framework(message) for message in context.messages]
        after_result = bool(messages) and messages[-1].role == "tool"
        if context.edge and (self._edge_after_results or not after_result):
            messages.append(Message("user", [context.edge_text]))
        request.messages = messages


class _EachRequest(ChatMiddleware):
    """Saves what is new before a request, puts memory into it, and saves the answer."""

    def __init__(self, provider: MemoryProvider, run: Run) -> None:
        self._provider, self._run = provider, run

    async def process(self, context: ChatContext, call_next: Callable[[], Awaitable[None]]) -> None:
        """Stand around one request."""
        run = self._run
        made = await run.prepare(context.messages, model=_model_name(context))
        self._provider.ask(context, made)
        try:
            await call_next()
            if isinstance(context.result, ChatResponse):
                await run.record(context.result)
        except BaseException as error:
            await _failed(run, error)
            raise
        if isinstance(context.result, ResponseStream):
            _listen(context.result, run)


async def _failed(run: Run, error: BaseException | None) -> None:
    """Keep what was said when a model fails or a run is cancelled; what a provider refuses is taken back."""
    await (run.take_back() if error is not None and is_refusal(error) else run.leave())


def _listen(stream: Stream, run: Run) -> None:
    """Save what a stream adds up to when it ends; one that breaks off or is closed half-way is saved as far as it came."""
    heard: list[ChatResponseUpdate] = []
    failed: list[BaseException] = []

    @contextmanager
    def watch() -> Generator[None]:
        try:
            yield
        except Exception as error:
            failed.append(error)
            raise

    def hear(update: ChatResponseUpdate) -> ChatResponseUpdate:
        heard.append(update)
        return update

    async def ended() -> None:
        if heard:
            await run.record(ChatResponse.from_updates(heard))
        else:
            await _failed(run, failed[-1] if failed else None)

    stream.with_pull_context_manager(watch)
    stream.with_transform_hook(hear)
    stream.with_cleanup_hook(ended)


def _tool(tools: Tools, name: str) -> FunctionTool:
    told: Mapping[str, Any] = definition(name)["function"]

    async def call(**arguments: Any) -> str:
        return dumps(await tools.call(name, arguments))

    return FunctionTool(
        name=name,
        description=told["description"],
        func=call,
        input_model=told["parameters"],
        approval_mode="never_require",
    )


def _named(what: str, given: Named | None, session: AgentSession, otherwise: str | None) -> str:
    name = given(session) if callable(given) else given or otherwise
    if not isinstance(name, str) or not name:
        raise InputError(
            f"The run does not say which {what} it is about.",
            why="Every call of a memory names its resource and its thread.",
            then=f"Pass {what}= to the provider: a name, or a function that returns it for a session.",
        )
    return name


def _model_name(context: ChatContext) -> str | None:
    options = context.options or {}
    for found in (options.get("model"), getattr(context.client, "model", None)):
        if isinstance(found, str) and found:
            return found
    return None
