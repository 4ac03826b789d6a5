"""One run of an agent of the OpenAI Agents SDK: its items, its hooks, and what is saved and shown at each step.

Each run has its own object, so that concurrent runs of a session do not mix.
"""

import inspect
import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Protocol, TypeAlias, cast

from agents import Agent, AgentHookContext, ModelResponse, RunConfig, RunContextWrapper, RunHooks, Tool
from agents.items import TResponseInputItem
from agents.memory import SessionSettings
from agents.run import CallModelData, ModelInputData
from agents.usage import Usage as AgentsUsage

from memolog import Context, Memory, NewMessage, StoreError, Turn, Usage
from memolog.adapters.new_messages import news_of, unsaved
from memolog.adapters.openai import responses
from memolog.adapters.provider_limits import is_refusal, take_back
from memolog.context import ContextMessage
from memolog.domain.codec import dumps
from memolog.domain.message import Message
from memolog.domain.own import own_tool
from memolog.tools import guidance

Item: TypeAlias = dict[str, Any]

# What a provider gives an item, and takes from it, without another thing being said.
_PASSING: Final = frozenset({"id", "status"})


def plain(item: object) -> Item:
    """Return an item as JSON, whether the SDK hands out a dict or one of its models."""
    if isinstance(item, Mapping):
        return dict(cast("Mapping[str, Any]", item))
    return cast("Any", item).model_dump(exclude_unset=True, mode="json")


def key(item: Item) -> str:
    """Return what two copies of an item have in common, also if one of them has lost its id on the way."""
    kind = item.get("type") or "message"
    if call := item.get("call_id"):
        return f"{kind}:{call}"
    said = {name: value for name, value in item.items() if name not in _PASSING and value is not None}
    return dumps({**said, "type": kind})


def to_messages(items: Sequence[object]) -> list[NewMessage]:
    """Return items as messages."""
    return list(responses.from_items([plain(item) for item in items]))


def to_items(messages: Sequence[Message | ContextMessage]) -> list[Item]:
    """Return messages as items, those that came from items exactly as they came."""
    return list(responses.to_items(messages))


def new_items(said: Sequence[Item], stored: Sequence[Item]) -> list[Item]:
    """Return the end of what was said that is not stored yet: a caller may hand in the conversation so far as well."""
    count = len(unsaved(to_messages(said), to_messages(stored)))
    # What a model said at once is one message, so the items of a message go together.
    start = next(place for place in range(len(said) + 1) if len(to_messages(said[place:])) == count)
    return list(said[start:])


def since_last_input(items: Sequence[object]) -> list[Item]:
    """Return the items after the last that a user said, that one included."""
    told = [plain(item) for item in items]
    places = [place for place, item in enumerate(told) if item.get("role") == "user"]
    return told[places[-1] :] if places else told


def to_input(context: Context, instructions: str | None, *, is_stored: bool) -> tuple[str | None, list[Item]]:
    """Return the instructions and the items of a request: the caller's own, the prefix, what was said, and the edge last."""
    request = responses.to_request(context, instructions=instructions, is_stored=is_stored)
    return request.get("instructions"), request["input"]


def model_of(agent: Agent[Any], config: RunConfig) -> str | None:
    """Return the name of the model that answers, as far as the SDK says it."""
    model = config.model or agent.model
    return model if isinstance(model, str) else getattr(model, "model", None)


def usage_of(usage: AgentsUsage, model: str | None) -> Usage | None:
    """Return what a request cost; None where nothing was reported."""
    if not usage.input_tokens and not usage.output_tokens:
        return None
    read = usage.input_tokens_details.cached_tokens or 0
    written = usage.input_tokens_details.cache_write_tokens or 0
    return Usage(
        model=model or "unknown",
        input_tokens=max(0, usage.input_tokens - read - written),
        output_tokens=usage.output_tokens,
        cache_read_tokens=read,
        cache_write_tokens=written,
    )


class Watched(Protocol):
    """A run that wants to hear of answers and of tools at work."""

    tools_at_work: int
    is_asking: bool

    async def answered(self, agent: Agent[Any], response: ModelResponse) -> None:
        """Take what the model answered."""
        ...


class RunWatch(RunHooks[Any]):
    """Tells a run of answers and of tools at work; everything else goes straight to the caller's hooks."""

    def __init__(self, run: Watched, own: RunHooks[Any] | None) -> None:
        self._run, self._own = run, own or RunHooks[Any]()

    async def on_llm_start(
        self,
        context: RunContextWrapper[Any],
        agent: Agent[Any],
        system_prompt: str | None,
        input_items: list[TResponseInputItem],
    ) -> None:
        """Note that the model is asked."""
        self._run.is_asking = not self._run.tools_at_work
        await self._own.on_llm_start(context, agent, system_prompt, input_items)

    async def on_llm_end(self, context: RunContextWrapper[Any], agent: Agent[Any], response: ModelResponse) -> None:
        """Save the answer."""
        await self._run.answered(agent, response)
        await self._own.on_llm_end(context, agent, response)

    async def on_agent_start(self, context: AgentHookContext[Any], agent: Agent[Any]) -> None:
        """Pass it on."""
        await self._own.on_agent_start(context, agent)

    async def on_agent_end(self, context: AgentHookContext[Any], agent: Agent[Any], output: Any) -> None:
        """Pass it on."""
        await self._own.on_agent_end(context, agent, output)

    async def on_handoff(self, context: RunContextWrapper[Any], from_agent: Agent[Any], to_agent: Agent[Any]) -> None:
        """Pass it on."""
        await self._own.on_handoff(context=context, from_agent=from_agent, to_agent=to_agent)

    async def on_tool_start(self, context: RunContextWrapper[Any], agent: Agent[Any], tool: Tool) -> None:
        """Note that a tool is at work."""
        self._run.tools_at_work += 1
        await self._own.on_tool_start(context, agent, tool)

    async def on_tool_end(self, context: RunContextWrapper[Any], agent: Agent[Any], tool: Tool, result: object) -> None:
        """Note that it has ended."""
        self._run.tools_at_work = max(0, self._run.tools_at_work - 1)
        await self._own.on_tool_end(context, agent, tool, result)


_log = logging.getLogger("memolog")

# Far more than what a model says at once.
_LATEST: Final = 200


class Kept(Protocol):
    """A conversation of the SDK, and whose memory keeps it."""

    memory: Memory
    thread: str
    resource: str
    zone: str | None
    session_id: str
    session_settings: SessionSettings | None

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """Return the items."""
        ...

    async def pop_item(self) -> TResponseInputItem | None:
        """Forget the newest item and return it."""
        ...

    async def clear_session(self) -> None:
        """Forget all of them."""
        ...


class AgentRun:
    """A session for one run: the same items, and all that belongs to this run's turn."""

    def __init__(self, session: Kept, *, is_one_turn: bool) -> None:
        self._session, self._is_one_turn = session, is_one_turn
        self.session_id = session.session_id
        self.session_settings: SessionSettings | None = session.session_settings
        self._config = RunConfig()
        self._turn: Turn | None = None
        # Said by the caller and not saved yet; saved already, and still to be announced by the SDK.
        self._fresh: list[Item] = []
        self._announced: Counter[str] = Counter()
        self._is_resumed = True
        self.tools_at_work = 0
        self.is_asking = False
        """Whether the model is being asked: an error is its provider's then, and not a tool's."""
        self._is_first = True
        self._said: Sequence[Item] = ()

    def wiring(self, run_config: RunConfig | dict[str, Any] | None, hooks: RunHooks[Any] | None) -> dict[str, Any]:
        """Return the arguments for the runner: the caller's own, with the memory in between."""
        own = RunConfig(**run_config) if isinstance(run_config, dict) else run_config or RunConfig()
        self._config = own
        config = replace(own, call_model_input_filter=self.filter_input, session_input_callback=self.take_input)
        return {"session": self, "run_config": config, "hooks": RunWatch(self, hooks)}

    # ------------------------------------------------------------ the turn

    async def _open(self) -> Turn:
        if self._turn is None:
            session = self._session
            turn = session.memory.turn(session.thread, session.resource, zone=session.zone)
            self._turn = await turn.__aenter__()
        return self._turn

    async def leave(self) -> None:
        """End the turn: what was said and is not saved yet is saved, whatever became of the run."""
        turn, self._turn = self._turn, None
        if self._fresh and turn is None:
            turn = await self._open()
            self._turn = None
        if turn is None:
            return
        try:
            if self._fresh:
                await turn.record(*to_messages(self._fresh))
                self._fresh = []
        finally:
            await turn.__aexit__(None, None, None)

    async def discard(self) -> None:
        """Take back what this run saved."""
        turn, self._turn, self._fresh = self._turn, None, []
        if turn is not None:
            await turn.discard()

    def is_refused(self, error: BaseException | None) -> bool:
        """Tell whether a run ended because the provider will never take what it was sent."""
        return error is not None and self.is_asking and is_refusal(error)

    async def take_back(self) -> None:
        """Take back what the provider refused."""
        turn, self._turn, self._fresh = self._turn, None, []
        if turn is not None:
            again = (await self._news(to_messages(self._said)))[1]
            await take_back(turn, [row.seq for row in again], strict=self._session.memory.config.strict)

    async def _news(self, said: Sequence[NewMessage]) -> tuple[Sequence[NewMessage], Sequence[Message]]:
        session = self._session
        return await news_of(session.memory, session.resource, session.thread, said)

    # ------------------------------------------------------------ what the SDK asks for

    async def take_input(
        self, history: list[TResponseInputItem], new: list[TResponseInputItem]
    ) -> list[TResponseInputItem]:
        """Note what is new at the start of a run; the caller's own merge of history and input is kept."""
        known = {id(item) for item in history}
        own = self._config.session_input_callback
        merged = [*history, *new]
        if own is not None:
            made = own(history, new)
            merged = list(await made if inspect.isawaitable(made) else made)
        if not self.tools_at_work:
            self._is_resumed = False
            said = [plain(item) for item in merged if id(item) not in known]
            self._said = said
            self._fresh = new_items(said, [plain(item) for item in history])
            self._announced.update(map(key, said[: len(said) - len(self._fresh)]))
        return merged

    async def filter_input(self, data: CallModelData[Any]) -> ModelInputData:
        """Save what is not saved yet, and let the model see the memory's context instead of the raw history."""
        # An agent that is a tool of this one inherits the filter: its talk is another conversation.
        sent = data.model_data if self.tools_at_work else await self._context(data)
        own = self._config.call_model_input_filter
        if own is None:
            return sent
        made = own(CallModelData(model_data=sent, agent=data.agent, context=data.context))
        return await made if inspect.isawaitable(made) else made

    async def _context(self, data: CallModelData[Any]) -> ModelInputData:
        turn = await self._open()
        self._is_resumed = False
        fresh, self._fresh = self._fresh, []
        self._announced.update(key(item) for item in fresh)
        context = await turn.prepare(*await self._new(to_messages(fresh)), model=model_of(data.agent, self._config))
        has_tools = any(own_tool(tool.name) for tool in data.agent.tools)
        own = [text for text in (data.model_data.instructions, guidance() if has_tools else None) if text]
        is_stored = data.agent.model_settings.store is not False
        instructions, items = to_input(context, "\n\n".join(own) or None, is_stored=is_stored)
        return ModelInputData(input=cast("list[TResponseInputItem]", items), instructions=instructions)

    async def _new(self, said: Sequence[NewMessage]) -> Sequence[NewMessage]:
        """Return what is new; what was said before a run that failed, and is said again, stands in the thread once."""
        is_first, self._is_first = self._is_first, False
        if not is_first or not said or self._session.memory.config.read_only:
            return said
        return (await self._news(said))[0]

    async def answered(self, agent: Agent[Any], response: ModelResponse) -> None:
        """Save what the model answered as soon as it is there, and learn from its usage."""
        self.is_asking = False
        turn = await self._open()
        usage = usage_of(response.usage, model_of(agent, self._config))
        if not self._is_one_turn:
            # An output guardrail may still refuse it, and nobody would tell: the SDK adds it once it is accepted.
            await turn.record(usage=usage)
            return
        items = [plain(item) for item in response.to_input_items()]
        self._announced.update(map(key, items))
        await turn.record(*to_messages(items), usage=usage)

    # ------------------------------------------------------------ the session protocol

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """Return the items of the conversation; without a database the run begins without them."""
        try:
            return await self._session.get_items(limit)
        except StoreError as error:
            if self._session.memory.config.strict:
                raise
            _log.warning("the history could not be read, and the run begins without it: %s", error)
            return []

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Save what the SDK announces, unless it is saved already."""
        self.tools_at_work = 0
        new = await self._unsaved([plain(item) for item in items])
        if new:
            turn = await self._open()
            await turn.record(*to_messages(new))

    async def _unsaved(self, items: Sequence[Item]) -> list[Item]:
        if self._is_resumed:
            # A run that goes on after a pause, in another process perhaps: what came before the pause is saved.
            self._is_resumed = False
            self._announced.update(map(key, since_last_input(await self.get_items(_LATEST))))
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

    async def pop_item(self) -> TResponseInputItem | None:
        """Forget the newest item and return it."""
        return await self._session.pop_item()

    async def clear_session(self) -> None:
        """Forget the conversation."""
        await self._session.clear_session()
