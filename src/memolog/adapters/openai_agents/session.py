"""Session of the OpenAI Agents SDK that is stored in a memory, with the tools of the memory and two ways to run an agent.

Each agent run has a separate `AgentRun`, so that concurrent agent runs of a session do not mix.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import Any, Final, TypeAlias, cast

from agents import (
    Agent,
    FunctionTool,
    InputGuardrailTripwireTriggered,
    ModelResponse,
    OutputGuardrailTripwireTriggered,
    RunConfig,
    RunContextWrapper,
    RunHooks,
    Runner,
    RunResult,
    RunResultStreaming,
    RunState,
    StreamEvent,
    Tool,
    ToolInputGuardrailTripwireTriggered,
    ToolOutputGuardrailTripwireTriggered,
)
from agents.items import TResponseInputItem
from agents.memory import SessionSettings
from agents.run import CallModelData, ModelInputData
from agents.tool_context import ToolContext
from agents.usage import Usage as AgentsUsage

from memolog import InputError, Memory, NewMessage, NotFound, StoreError, Usage
from memolog.adapters import returned
from memolog.adapters.alignment import align
from memolog.adapters.guards import check_memory
from memolog.adapters.new_messages import AgentTurn
from memolog.adapters.openai import responses
from memolog.adapters.provider_limits import is_refusal, usage_of_total
from memolog.core.exact_json import dumps
from memolog.core.message import Message
from memolog.core.own_tools import own_tool
from memolog.memory import Tools
from memolog.tools.definitions import guidance

TRIPWIRES: Final = (
    InputGuardrailTripwireTriggered,
    OutputGuardrailTripwireTriggered,
    ToolInputGuardrailTripwireTriggered,
    ToolOutputGuardrailTripwireTriggered,
)
# Messages per page, and a number larger than every sequence number.
_PAGE: Final = 200
_LAST: Final = 2**62


class MemologSession:
    """One conversation of the Agents SDK with a long memory.

    `await session.run(agent, "…")` and `async with session.stream(agent, "…") as result` are `Runner.run` and
    `Runner.run_streamed` with memory. The object is also a `Session`: its items are the messages of the thread.
    """

    def __init__(
        self,
        memory: Memory,
        *,
        thread: str,
        resource: str,
        history: int = 20,
        zone: str | None = None,
    ) -> None:
        """Set the thread and the resource of the conversation.

        At the start of an agent run the SDK gets the latest `history` items, for guardrails and `to_input_list`. The model gets
        the context of the memory instead.
        """
        check_memory(memory)
        if not isinstance(history, int) or history < 0:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InputError(
                f"`history` must be a whole number of 0 or more, got {history!r}.", then="Pass history=0 for no items."
            )
        self.memory, self.thread, self.resource, self.zone = memory, thread, resource, zone
        self.session_id = thread
        self.session_settings: SessionSettings | None = SessionSettings(limit=history)

    # ------------------------------------------------------------ running

    async def run(
        self, agent: Agent[Any], said: "str | list[TResponseInputItem] | RunState[Any, Any]", **options: Any
    ) -> RunResult:
        """Run an agent like `Runner.run`, as one turn. The turn is discarded if a guardrail stops the agent run."""
        async with self._running(options) as (wiring, _):
            return await Runner.run(agent, said, **wiring)

    @asynccontextmanager
    async def stream(
        self, agent: Agent[Any], said: "str | list[TResponseInputItem] | RunState[Any, Any]", **options: Any
    ) -> AsyncGenerator[RunResultStreaming]:
        """Run an agent like `Runner.run_streamed`, as one turn. The stream ends when the block is left."""
        async with self._running(options) as (wiring, run):
            result = Runner.run_streamed(agent, said, **wiring)
            # The SDK reports only complete answers. The events show how much of an incomplete answer the caller has read.
            vars(result)["stream_events"] = partial(run.read, result.stream_events)
            try:
                yield result
            finally:
                if not result.is_complete:
                    result.cancel()
                if result.run_loop_task is not None:
                    await asyncio.wait([result.run_loop_task])
            if isinstance(error := result.run_loop_exception, TRIPWIRES) or (error and run.is_refused(error)):
                # A caller that did not read the stream to its end has not got the error yet.
                raise error

    @asynccontextmanager
    async def _running(self, options: Mapping[str, Any]) -> AsyncGenerator[tuple[dict[str, Any], "AgentRun"]]:
        run = AgentRun(self, is_one_turn=True)
        try:
            yield {**options, **run.wiring(options.get("run_config"), options.get("hooks"))}, run
        except TRIPWIRES:
            await run.discard()
            raise
        except Exception as error:
            if run.is_refused(error):
                await run.take_back()
            raise
        finally:
            await run.leave()

    def wiring(self, *, run_config: Any = None, hooks: Any = None) -> dict[str, Any]:
        """Return the arguments for one call of the runner: `Runner.run(agent, "…", **session.wiring())`.

        Only `run` and `stream` discard the turn if a guardrail stops the agent run. The SDK does not report this to a session.
        """
        return AgentRun(self, is_one_turn=False).wiring(run_config, hooks)

    def tools(self) -> list[Tool]:
        """Return the three tools of the memory, for this thread and resource."""
        tools = self.memory.resource(self.resource).tools(thread=self.thread)
        return [_tool(tools, schema) for schema in tools.definitions("openai-responses")]

    # ------------------------------------------------------------ the session protocol

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """Return the items of the conversation, oldest first. With `limit` return only the latest items."""
        items: list[Item] = []
        before = _LAST
        while limit is None or len(items) < limit:
            page = await self._page(before)
            if not page:
                break
            before = page[0].seq
            items = responses.to_items([message for message in page if message.state == "live"]) + items
        shown = items if limit is None else items[max(0, len(items) - limit) :]
        return cast("list[TResponseInputItem]", shown)

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Save items at the end of the conversation."""
        async with self.memory.thread(self.thread, resource=self.resource).turn(zone=self.zone) as turn:
            await turn.record(*to_messages(items))

    async def pop_item(self) -> TResponseInputItem | None:
        """Forget the newest item and return it. Return None if there is no item."""
        before = _LAST
        while page := await self._page(before):
            before = page[0].seq
            for message in reversed(page):
                items = responses.to_items([message]) if message.state == "live" else []
                if items:
                    await self.memory.resource(self.resource).forget(thread=self.thread, message=message.id)
                    if items[:-1]:
                        # Consecutive items of the model are one message, so the other items of the message are saved again.
                        await self.add_items(cast("list[TResponseInputItem]", items[:-1]))
                    return cast("TResponseInputItem", items[-1])
        return None

    async def clear_session(self) -> None:
        """Forget the whole conversation and its observations."""
        with suppress(NotFound):
            await self.memory.resource(self.resource).forget(thread=self.thread)

    async def _page(self, before: int) -> Sequence[Message]:
        try:
            thread = self.memory.thread(self.thread, resource=self.resource)
            return (await thread.messages(before=before, limit=_PAGE)).items
        except NotFound:
            return ()


def _tool(toolset: Tools, schema: dict[str, Any]) -> FunctionTool:
    name: str = schema["name"]

    async def invoke(context: ToolContext[Any], arguments: str) -> str:
        del context
        return dumps(await toolset.call(name, arguments))

    return FunctionTool(
        name=name,
        description=schema["description"],
        params_json_schema=schema["parameters"],
        on_invoke_tool=invoke,
        strict_json_schema=False,
    )


Item: TypeAlias = dict[str, Any]

# The provider sets these fields. They do not change the meaning of an item.
_PASSING: Final = frozenset({"id", "status"})


def plain(item: object) -> Item:
    """Return an item as JSON. The item is a dict or a Pydantic model of the SDK."""
    if isinstance(item, Mapping):
        return dict(cast("Mapping[str, Any]", item))
    return cast("Any", item).model_dump(exclude_unset=True, mode="json")


def key(item: Item) -> str:
    """Return a key that is equal for all copies of an item, with or without an id."""
    kind = item.get("type") or "message"
    if call := item.get("call_id"):
        return f"{kind}:{call}"
    said = {name: value for name, value in item.items() if name not in _PASSING and value is not None}
    return dumps({**said, "type": kind})


def to_messages(items: Sequence[object]) -> list[NewMessage]:
    """Return items as Memolog messages."""
    return list(responses.from_items([plain(item) for item in items]))


def _new_items(said: Sequence[Item], stored: Sequence[Item]) -> list[Item]:
    """Return the new items at the end of a list, which may begin with the stored conversation."""
    count = len(align(to_messages(said), to_messages(stored)).new)
    # Consecutive items of the model are one message. So find the first item from which the rest of `said` has `count` messages.
    start = next(place for place in range(len(said) + 1) if len(to_messages(said[place:])) == count)
    return list(said[start:])


def model_of(agent: Agent[Any], config: RunConfig) -> str | None:
    """Return the name of the model; None if the SDK does not have the name."""
    model = config.model or agent.model
    return model if isinstance(model, str) else getattr(model, "model", None)


def usage_of(usage: AgentsUsage, model: str | None) -> Usage | None:
    """Return the usage of a request; None if none was reported."""
    if not usage.input_tokens and not usage.output_tokens:
        return None
    details = usage.input_tokens_details
    return usage_of_total(
        model, usage.input_tokens, usage.output_tokens, details.cached_tokens, details.cache_write_tokens
    )


class _RunWatch(RunHooks[Any]):
    """Hooks that report answers and running tools to the agent run, and then call the hooks of the caller."""

    def __init__(self, run: "AgentRun", own: RunHooks[Any] | None) -> None:
        self._run, self._own = run, own or RunHooks[Any]()
        for name in ("on_agent_start", "on_agent_end", "on_handoff"):
            setattr(self, name, getattr(self._own, name))

    async def on_llm_start(
        self,
        context: RunContextWrapper[Any],
        agent: Agent[Any],
        system_prompt: str | None,
        input_items: list[TResponseInputItem],
    ) -> None:
        # An agent that runs as a tool also calls a model. `is_asking` is only about the model of the outer agent.
        self._run.is_asking = not self._run.tools_at_work
        await self._own.on_llm_start(context, agent, system_prompt, input_items)

    async def on_llm_end(self, context: RunContextWrapper[Any], agent: Agent[Any], response: ModelResponse) -> None:
        await self._run.answered(agent, response)
        await self._own.on_llm_end(context, agent, response)

    async def on_tool_start(self, context: RunContextWrapper[Any], agent: Agent[Any], tool: Tool) -> None:
        self._run.tools_at_work += 1
        await self._own.on_tool_start(context, agent, tool)

    async def on_tool_end(self, context: RunContextWrapper[Any], agent: Agent[Any], tool: Tool, result: object) -> None:
        self._run.tools_at_work = max(0, self._run.tools_at_work - 1)
        await self._own.on_tool_end(context, agent, tool, result)


_log = logging.getLogger("memolog")

# Maximum number of the latest items that are read to find the last user item.
_LATEST: Final = 200


class AgentRun(AgentTurn):
    """The session object that the SDK gets for one agent run. It opens and ends the turn of the agent run."""

    def __init__(self, session: MemologSession, *, is_one_turn: bool) -> None:
        super().__init__(session.memory, session.resource, session.thread, zone=session.zone)
        self._session, self._is_one_turn = session, is_one_turn
        self.session_id = session.session_id
        self.session_settings: SessionSettings | None = session.session_settings
        self.pop_item, self.clear_session = session.pop_item, session.clear_session
        self._config = RunConfig()
        self._fresh: list[Item] = []
        # Items that are saved already, but that the SDK will still pass to `add_items`: the key of each, and how often.
        self._announced: Counter[str] = Counter()
        self._is_resumed = True
        self.tools_at_work = 0
        self.is_asking = False
        """Whether the model is being called. An error during this call comes from the provider, not from a tool."""
        self._is_first = True
        self._said: Sequence[Item] = ()
        # The streamed answers that the caller has read, and the number of answers that are saved.
        self._read: list[responses.ResponseStream] = []
        self._answered = 0

    def wiring(self, run_config: RunConfig | dict[str, Any] | None, hooks: RunHooks[Any] | None) -> dict[str, Any]:
        """Return the arguments for the runner: those of the caller, with the memory added."""
        own = RunConfig(**run_config) if isinstance(run_config, dict) else run_config or RunConfig()
        self._config = own
        config = replace(own, call_model_input_filter=self.filter_input, session_input_callback=self.take_input)
        return {"session": self, "run_config": config, "hooks": _RunWatch(self, hooks)}

    # ------------------------------------------------------------ the turn

    async def leave(self) -> None:
        """End the turn. Input that is not saved yet is saved first, even if the agent run failed."""
        try:
            if self._fresh:
                turn = await self.open()
                await turn.record(*to_messages(self._fresh))
                self._fresh = []
            # If a stream is left before an answer is complete, the part that was read is saved.
            for stream in self._read[self._answered :]:
                if message := responses.from_response(stream.response()).message:
                    await (await self.open()).record(message)
        finally:
            self._read = []
            await super().leave()

    async def discard(self) -> None:
        """Withdraw everything that this agent run saved."""
        self._fresh, self._read = [], []
        await super().discard()

    def is_refused(self, error: BaseException | None) -> bool:
        """Return whether an agent run ended because the provider rejected the request."""
        return error is not None and self.is_asking and is_refusal(error)

    async def take_back(self) -> None:
        """Withdraw the messages that the provider rejected."""
        self._fresh = []
        if self.id:
            await self.new(to_messages(self._said))
            await super().take_back()

    async def read(self, events: Callable[[], AsyncIterator[StreamEvent]]) -> AsyncGenerator[StreamEvent]:
        """Yield the events of a stream, and collect the answers in them."""
        async with aclosing(cast("AsyncGenerator[StreamEvent]", events())) as stream:
            async for event in stream:
                if event.type == "raw_response_event":
                    if not self._read or self._read[-1].is_whole:
                        self._read.append(responses.ResponseStream())
                    self._read[-1].add(plain(event.data))
                yield event

    # ------------------------------------------------------------ callbacks of the SDK

    async def take_input(
        self, history: list[TResponseInputItem], new: list[TResponseInputItem]
    ) -> list[TResponseInputItem]:
        """Find the new items at the start of an agent run, and return the history and the input in one list.

        The `session_input_callback` of the caller joins them. Without a callback they are concatenated.
        """
        history_ids = {id(item) for item in history}
        own = self._config.session_input_callback
        merged = [*history, *new]
        if own is not None:
            merged = list(await returned(own(history, new)))
        if not self.tools_at_work:
            self._is_resumed = False
            said = [plain(item) for item in merged if id(item) not in history_ids]
            self._said = said
            self._fresh = _new_items(said, [plain(item) for item in history])
            self._announced.update(map(key, said[: len(said) - len(self._fresh)]))
        return merged

    async def filter_input(self, data: CallModelData[Any]) -> ModelInputData:
        """Save the new items, and return the context of the memory as the input of the model in place of the history."""
        # An agent that runs as a tool inherits the filter, but gets no memory: its messages are another conversation.
        sent = data.model_data if self.tools_at_work else await self._context(data)
        own = self._config.call_model_input_filter
        if own is None:
            return sent
        return await returned(own(CallModelData(model_data=sent, agent=data.agent, context=data.context)))

    async def _context(self, data: CallModelData[Any]) -> ModelInputData:
        turn = await self.open()
        self._is_resumed = False
        fresh, self._fresh = self._fresh, []
        self._announced.update(key(item) for item in fresh)
        new: Sequence[NewMessage] = to_messages(fresh)
        if self._is_first:
            # A failed agent run may have saved some of the messages already.
            self._is_first, new = False, await self.new(new)
        context = await turn.prepare(*new, model=model_of(data.agent, self._config))
        has_tools = any(own_tool(tool.name) for tool in data.agent.tools)
        own = [
            text
            for text in (
                data.model_data.instructions,
                guidance(read_only=self.memory.config.read_only) if has_tools else None,
            )
            if text
        ]
        is_stored = data.agent.model_settings.store is not False
        request = responses.to_request(context, instructions="\n\n".join(own) or None, is_stored=is_stored)
        return ModelInputData(input=request["input"], instructions=request.get("instructions"))

    async def answered(self, agent: Agent[Any], response: ModelResponse) -> None:
        """Save an answer and its usage."""
        self.is_asking = False
        self._answered += 1
        turn = await self.open()
        usage = usage_of(response.usage, model_of(agent, self._config))
        if not self._is_one_turn:
            # An output guardrail may still reject the answer. If it does not, the SDK passes the answer to `add_items`.
            await turn.record(usage=usage)
            return
        items = [plain(item) for item in response.to_input_items()]
        self._announced.update(map(key, items))
        await turn.record(*to_messages(items), usage=usage)

    # ------------------------------------------------------------ the session protocol

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """Return the items of the conversation.

        If the database cannot be read, return an empty list. With `config.strict` the error is raised.
        """
        try:
            return await self._session.get_items(limit)
        except StoreError as error:
            if self.memory.config.strict:
                raise
            _log.warning("the history cannot be read, so the agent run begins without it: %s", error)
            return []

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Save the items that the SDK passes, except those that are saved already."""
        self.tools_at_work = 0
        new = await self._unsaved([plain(item) for item in items])
        if new:
            turn = await self.open()
            await turn.record(*to_messages(new))

    async def _unsaved(self, items: Sequence[Item]) -> list[Item]:
        if self._is_resumed:
            # The agent run continues after a pause. The items from the last user item to the pause are saved already.
            self._is_resumed = False
            latest = [plain(item) for item in await self.get_items(_LATEST)]
            inputs = [index for index, item in enumerate(latest) if item.get("role") == "user"]
            self._announced.update(map(key, latest[inputs[-1] if inputs else 0 :]))
        waiting = Counter(map(key, self._fresh))
        new: list[Item] = []
        for item in items:
            name = key(item)
            if self._announced[name]:
                self._announced[name] -= 1
            else:
                new.append(item)
                waiting[name] -= 1
        self._fresh = [item for item in self._fresh if waiting[key(item)] > 0]
        return new
