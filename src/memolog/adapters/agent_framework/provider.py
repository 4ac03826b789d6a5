"""Context provider and guard middleware of an Agent Framework agent.

The provider adds a chat middleware that saves new messages, adds memory to each request and saves each answer.
"""

import logging
from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from typing import Any, TypeAlias, cast
from weakref import WeakKeyDictionary

from agent_framework import (
    AgentContext,
    AgentMiddleware,
    AgentResponse,
    AgentSession,
    ChatContext,
    ChatMiddleware,
    ChatResponse,
    ChatResponseUpdate,
    Content,
    ContextProvider,
    FunctionTool,
    HistoryProvider,
    Message,
    MiddlewareException,
    ResponseStream,
    SessionContext,
    SupportsAgentRun,
)
from agent_framework.exceptions import AgentInvalidResponseException

from memolog import Context
from memolog.adapters.agent_framework.messages import from_agent_framework, said_in, to_agent_framework, usage_of
from memolog.adapters.alignment import align
from memolog.adapters.guards import GuardStopped, check_errors, check_id, check_memory
from memolog.adapters.new_messages import AgentTurn
from memolog.adapters.provider_limits import is_refusal
from memolog.core.exact_json import dumps
from memolog.core.message import NewMessage, ToolCallPart, UserMessage
from memolog.memory import Memory, Tools
from memolog.tools.definitions import guidance
from memolog.transfer.exact import text_at


class Run(AgentTurn):
    """One agent run: its turn, and which of its messages are saved."""

    def __init__(
        self,
        memory: Memory,
        resource: str,
        thread: str,
        *,
        zone: str | None,
        histories: frozenset[str],
        is_first: bool,
    ) -> None:
        """Set the thread. `histories` are the ids of history providers. `is_first` marks the first agent run of the session."""
        super().__init__(memory, resource, thread, zone=zone)
        self._histories, self._is_first = histories, is_first
        self._said: list[NewMessage] = []
        # The texts of the answers of the model, and whether the last answer has tool calls.
        self._answers: list[str] = []
        self._is_calling = True
        self._model: str | None = None

    # ------------------------------------------------------------ steps

    async def prepare(self, messages: Sequence[Message], *, model: str | None) -> Context:
        """Save the new messages of a request and return the context for the model."""
        turn = await self.open()
        self._model = model
        said, ephemeral = self._sorted(messages)
        new = align(_translated(said), self._said).new if self._said else await self._first(said, messages)
        self._said += new
        return await turn.prepare(*new, ephemeral=ephemeral, model=model)

    async def record(self, response: ChatResponse) -> None:
        """Save an answer."""
        new = _translated(response.messages)
        self._said += new
        self._answers.extend(_texts(response.messages))
        self._is_calling = any(isinstance(part, ToolCallPart) for message in new for part in message.parts)
        turn = await self.open()
        await turn.record(*new, usage=usage_of(response.usage_details, self._model or response.model))

    async def discard(self) -> None:
        """Withdraw everything that this agent run saved."""
        turn = await self.open()
        if not self._said:
            # A history provider still has the stopped messages. With this empty row the thread is no longer new, so that the next
            # agent run does not save the whole history.
            await turn.record(UserMessage(""))
        await super().discard()
        self._said.clear()

    async def take_back(self) -> None:
        """Withdraw the messages that the provider rejected."""
        await super().take_back()
        self.id = ""

    async def finish(self, response: AgentResponse | None, *, replaces: bool) -> None:
        """Save the messages that are not saved yet, and end the turn.

        If a guard replaced the answer, discard the turn. With `replaces`, then save the questions and the new answer.
        """
        messages = response.messages if response is not None else []
        if self._is_rewritten(messages):
            said = [message for message in self._said if message.role == "user"]
            await self.discard()
            if not replaces:
                return
            rest = [*said, *_translated(messages)]
            self._answers = _texts(messages)
        else:
            rest = list(align(_translated(messages), self._said).new)
        if rest:
            self._said += rest
            await (await self.open()).record(*rest)
        await self.leave()

    def _is_rewritten(self, messages: Iterable[Message]) -> bool:
        """Return whether an answer of the model was replaced."""
        texts = _texts(messages)
        if any(text not in texts for text in self._answers):
            return True
        return self._is_calling and any(text not in self._answers for text in texts)

    def _sorted(self, messages: Iterable[Message]) -> tuple[list[Message], list[NewMessage]]:
        """Return the messages of this agent run, and those that other providers add to this request. Leave out the history."""
        said: list[Message] = []
        ephemeral: list[NewMessage] = []
        for message in messages:
            source = _source(message)
            if message.role == "system" or source in self._histories:
                continue
            if source is None:
                said.append(message)
            else:
                ephemeral.append(from_agent_framework(message))
        return said, ephemeral

    async def _first(self, said: Sequence[Message], messages: Iterable[Message]) -> list[NewMessage]:
        """Return the new messages at the first request: the whole conversation if it is new, else those after the last answer."""
        if self._is_first and await self.is_new_thread():
            # The session may have begun without memory, so the messages of history providers are new too.
            before = [message for message in messages if _source(message) in self._histories]
            said = [*before, *said]
        else:
            answers = [n for n, message in enumerate(said) if message.role == "assistant"]
            said = said[answers[-1] + 1 :] if answers else said
        return list(await self.new(_translated(said)))


def _translated(messages: Iterable[Message]) -> list[NewMessage]:
    return [made for message in messages if (made := said_in(message)) is not None]


def _texts(messages: Iterable[Message]) -> list[str]:
    return [message.text for message in messages if message.role == "assistant" and message.text]


def _source(message: Message) -> str | None:
    """Return the id of the provider that added a message; None if the message comes from the caller or the agent."""
    return text_at(message.additional_properties, "_attribution", "source_id")


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
        keep_rewritten: bool = False,
        zone: str | None = None,
        source_id: str = "memolog",
    ) -> None:
        """Set the memory. `resource` and `thread` are ids, or functions that get the session and return an id.

        The default thread is the id of the session. With `tools` the model gets the three memory tools. If a middleware replaces
        the answer of the model, the turn is discarded. With `keep_rewritten` the questions and the new answer are saved instead.
        """
        check_memory(memory)
        super().__init__(source_id)
        self.memory = memory
        self._resource, self._thread, self._zone = resource, thread, zone
        self._has_tools = tools
        self.keeps_rewritten = keep_rewritten
        self.runs: WeakKeyDictionary[AgentSession, Run] = WeakKeyDictionary()
        self._has_warned = False

    # ------------------------------------------------------------ an agent run

    async def before_run(
        self, *, agent: SupportsAgentRun, session: AgentSession, context: SessionContext, state: dict[str, Any]
    ) -> None:
        """Begin an agent run: add the tools, and the middleware for its requests."""
        del state
        self._warn_about(getattr(agent, "client", None))
        if (last := self.runs.get(session)) is not None:
            # Agent Framework does not report a failed agent run. So end the turn of the session's previous agent run here.
            await last.leave()
        run = self.runs[session] = self._new_run(agent, session, is_first=last is None)
        if self._has_tools:
            tools = self.memory.resource(run.resource).tools(thread=run.thread, session=run.thread)
            context.extend_tools(self.source_id, [_tool(tools, schema) for schema in tools.definitions("mcp")])
        context.metadata[self.source_id] = run
        context.extend_middleware(self.source_id, _EachRequest(self, run))

    async def after_run(
        self, *, agent: SupportsAgentRun, session: AgentSession, context: SessionContext, state: dict[str, Any]
    ) -> None:
        """End the turn."""
        del agent, session, state
        run = context.metadata.pop(self.source_id, None)
        if isinstance(run, Run):
            await run.finish(context.response, replaces=self.keeps_rewritten)

    def _new_run(self, agent: SupportsAgentRun, session: AgentSession, *, is_first: bool) -> Run:
        providers: Any = getattr(agent, "context_providers", ())
        histories = frozenset(one.source_id for one in providers if isinstance(one, HistoryProvider))
        return Run(
            self.memory,
            _chosen_id("resource", self._resource, session, None),
            _chosen_id("thread", self._thread, session, session.session_id),
            zone=self._zone,
            histories=histories,
            is_first=is_first,
        )

    def _warn_about(self, client: object) -> None:
        """Warn once about a client that does not call chat middleware."""
        if client is None or hasattr(client, "chat_middleware") or self._has_warned:
            return
        self._has_warned = True
        _log.warning(
            "%s has no chat middleware, so the model gets no memory and its answers are not saved. Derive the client from "
            "(FunctionInvocationLayer, ChatMiddlewareLayer, BaseChatClient)",
            type(client).__name__,
        )

    # ------------------------------------------------------------ a request

    def ask(self, request: ChatContext, context: Context) -> None:
        """Add memory to a request: it gets the caller's instructions, the prefix, the messages of the context, and the edge."""
        options: dict[str, Any] = dict(request.options or {})
        own = options.get("instructions")
        texts = [
            own if isinstance(own, str) else "\n".join(own or ()),
            *([guidance(read_only=self.memory.config.read_only)] if self._has_tools else ()),
        ]
        options["instructions"] = "\n\n".join(filter(None, [*texts, context.system]))
        # The context contains the conversation, so the provider of the model must not add the copy that it has stored.
        options.pop("conversation_id", None)
        request.kwargs.pop("conversation_id", None)
        if getattr(request.client, "STORES_BY_DEFAULT", False) or options.get("store"):
            options["store"] = False
        request.options = options
        messages = [message for message in request.messages if message.role == "system"]
        messages += [_with_one_text(to_agent_framework(message)) for message in context.joined()]
        request.messages = messages


class _EachRequest(ChatMiddleware):
    """Saves the new messages of a request, adds memory to the request, and saves the answer."""

    def __init__(self, provider: MemoryProvider, run: Run) -> None:
        self._provider, self._run = provider, run

    async def process(self, context: ChatContext, call_next: Callable[[], Awaitable[None]]) -> None:
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
    """Withdraw a rejected request. After any other failure only end the turn."""
    await (run.take_back() if error is not None and is_refusal(error) else run.leave())


def _listen(stream: Stream, run: Run) -> None:
    """Save the answer of a stream when the stream ends, even if the answer is incomplete."""
    updates: list[ChatResponseUpdate] = []

    def hear(update: ChatResponseUpdate) -> ChatResponseUpdate:
        updates.append(update)
        return update

    async def ended(error: Exception | None) -> None:
        is_whole = isinstance(error, StopAsyncIteration) or any(update.finish_reason for update in updates)
        said = updates if is_whole else _texts_of(updates)
        if said:
            await run.record(ChatResponse.from_updates(said))
        else:
            await _failed(run, error)

    stream.with_transform_hook(hear)
    _at_end(stream, ended)


def _texts_of(updates: Iterable[ChatResponseUpdate]) -> list[ChatResponseUpdate]:
    """Return only the texts of a stream that ended early, because its tool calls and its reasoning may be incomplete."""
    texts: list[ChatResponseUpdate] = []
    for update in updates:
        contents = [content for content in update.contents if content.type == "text" and content.text]
        if contents:
            said = copy(update)
            said.contents = contents
            texts.append(said)
    return texts


def _with_one_text(message: Message) -> Message:
    """Return a message with consecutive texts of the user joined, because clients would send each text as a message."""
    contents: list[Content] = []
    for content in message.contents:
        if message.role == "user" and contents and contents[-1].type == content.type == "text":
            contents[-1] = Content.from_text(f"{contents[-1].text}\n\n{content.text}")
        else:
            contents.append(content)
    if len(contents) < len(message.contents):
        message.contents = contents
    return message


def _at_end(stream: "ResponseStream[Any, Any]", ended: Callable[[Exception | None], Awaitable[None]]) -> None:
    """Call `ended` when a stream ends: with its error, StopAsyncIteration after its last update, or None if it was left early."""
    failed: list[Exception] = []

    @contextmanager
    def watch() -> Generator[None]:
        try:
            yield
        except Exception as error:
            failed.append(error)
            raise

    stream.with_pull_context_manager(watch)
    stream.with_cleanup_hook(lambda: ended(failed[-1] if failed else None))


def _tool(tools: Tools, schema: Mapping[str, Any]) -> FunctionTool:
    name: str = schema["name"]

    async def call(**arguments: Any) -> str:
        return dumps(await tools.call(name, arguments))

    return FunctionTool(
        name=name,
        description=schema["description"],
        func=call,
        input_model=schema["inputSchema"],
        approval_mode="never_require",
    )


def _chosen_id(what: str, given: Named | None, session: AgentSession, otherwise: str | None) -> str:
    name = given(session) if callable(given) else given or otherwise
    then = f"Pass {what}= to the provider: an id, or a function that gets the session and returns an id."
    return check_id(what, name, then)


def _model_name(context: ChatContext) -> str | None:
    options = context.options or {}
    for found in (options.get("model"), getattr(context.client, "model", None)):
        if isinstance(found, str) and found:
            return found
    return None


class MemoryGuard(AgentMiddleware):
    """Discards a turn that a guard stopped: `Agent(…, middleware=[MemoryGuard(provider), *your_guards])`.

    `provider` is the MemoryProvider of the agent. Put MemoryGuard first in the list. It has no effect in agent runs without a
    session.
    """

    def __init__(
        self,
        provider: MemoryProvider,
        *,
        guards: type[Exception] | tuple[type[Exception], ...] = (
            GuardStopped,
            MiddlewareException,
            AgentInvalidResponseException,
        ),
    ) -> None:
        """Set the provider, and the exceptions with which guards stop an agent run."""
        check_errors("guards", guards)
        self._provider, self._guards = provider, guards

    async def process(self, context: AgentContext, call_next: Callable[[], Awaitable[None]]) -> None:
        """Run the agent. Discard the turn if a guard stops the agent run or replaces the answer."""
        before = self._run(context.session)

        def run() -> Run | None:
            # If a guard stopped this agent run before it began, the provider still has the previous agent run of the session.
            found = self._run(context.session)
            return None if found is before else found

        async def failed(error: Exception | None) -> None:
            if isinstance(error, self._guards) and (found := run()) is not None:
                await found.discard()

        async def answered(response: AgentResponse) -> None:
            if (found := run()) is not None and found.id:
                await found.finish(response, replaces=self._provider.keeps_rewritten)

        try:
            await call_next()
        except self._guards as error:
            await failed(error)
            raise
        if isinstance(context.result, AgentResponse):
            await answered(context.result)
        elif isinstance(context.result, ResponseStream):
            stream = cast("ResponseStream[Any, Any]", context.result)
            _at_end(stream, failed)
            stream.with_result_hook(answered)

    def _run(self, session: AgentSession | None) -> Run | None:
        return None if session is None else self._provider.runs.get(session)
