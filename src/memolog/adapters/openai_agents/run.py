"""One run of an agent with memory: what the SDK asks for on the way, from the first input to the last answer.

Knows the order in which the SDK reads its session, adds to it, filters the model's input and reports answers; that differs
between runs that stream and runs that do not. Each run has its own, so that runs side by side do not mix. Decides nothing:
what the model sees is the turn's context.
"""

import inspect
import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final, Protocol, cast

from agents import Agent, ModelResponse, RunConfig, RunHooks
from agents.items import TResponseInputItem
from agents.memory import SessionSettings
from agents.run import CallModelData, ModelInputData

from memolog import Memory, StoreError, Turn
from memolog.adapters.news import news_of
from memolog.adapters.openai_agents.hooks import RunWatch
from memolog.adapters.openai_agents.items import (
    Item,
    key,
    model_of,
    new_items,
    plain,
    since_last_input,
    to_input,
    to_messages,
    usage_of,
)
from memolog.adapters.sending import is_refusal, take_back
from memolog.domain.message import Message, NewMessage
from memolog.domain.own import own_tool
from memolog.tools import guidance

__all__ = ["AgentRun", "Kept"]

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
