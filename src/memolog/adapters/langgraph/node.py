"""A node of a graph with memory: it saves what is new in the state, adds memory to the node's messages and saves the answer."""

import asyncio
import copy
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import is_dataclass, replace
from functools import wraps
from typing import Any, Final, TypeAlias, cast

from langchain_core.messages import AIMessage, BaseMessage, RemoveMessage, SystemMessage, convert_to_messages
from langchain_core.runnables import Runnable, RunnableConfig, RunnableLambda
from langchain_core.tools import BaseTool
from langgraph.config import get_config
from langgraph.errors import GraphBubbleUp
from langgraph.types import Command
from pydantic import BaseModel

from memolog import Context, NewMessage, NotFound
from memolog.adapters import at_once, returned
from memolog.adapters.driver import Drive, Driver
from memolog.adapters.guards import check_memory
from memolog.adapters.langchain.messages import from_langchain
from memolog.adapters.langchain.middleware import (
    Named,
    Run,
    chosen_id,
    instructions_of,
    langchain_messages,
    model_name_of,
    question_of,
    set_result_ids,
    tool_for,
    with_marks,
)
from memolog.adapters.provider_limits import is_refusal
from memolog.core.clock import IdMaker, SystemClock, system_chance
from memolog.errors import InputError, MemologError
from memolog.memory import Memory
from memolog.sync import SyncMemory
from memolog.tools.definitions import definitions, guidance

Node: TypeAlias = Callable[..., Any] | Runnable[Any, Any]
"""A function that a graph calls with its state, or a chat model."""

_LAST: Final = 2**62


class _Step(Run):
    """One call of a node. Each call has a run of its own, because a node has no state besides that of the graph."""

    def __init__(self, *args: Any, is_blind: bool, **options: Any) -> None:
        """Set whether the earlier steps of this turn are not stored: the memory is read-only, or the database is away."""
        super().__init__(*args, **options)
        self._is_blind = is_blind

    async def _new_at_first_step(self, said: Sequence[BaseMessage], *, answered: bool) -> list[NewMessage]:
        if not self._is_blind:
            return await super()._new_at_first_step(said, answered=answered)
        # Messages with ids can be saved again later without being stored twice.
        return [from_langchain(one) for one in said[question_of(said) :]]

    async def _without_saved(self, messages: Sequence[BaseMessage], new: Sequence[NewMessage]) -> list[NewMessage]:
        if self._is_blind:
            return list(new)
        fresh = await super()._without_saved(messages, new)
        if any(isinstance(one, AIMessage) for one in messages[question_of(messages) :]):
            # The question has an answer from an earlier step. If the provider refuses this request, both stay.
            self._repeated = ()
        return fresh


class GraphMemory:
    """A long memory for a graph: `builder.add_node("model", GraphMemory(memory, resource="alice").node(model))`."""

    def __init__(
        self,
        memory: Memory | SyncMemory,
        *,
        resource: Named = None,
        thread: Named = None,
        tools: bool = False,
        system_prompt: str = "",
        messages_key: str = "messages",
        zone: str | None = None,
    ) -> None:
        """Set the memory. `resource` and `thread` are ids, or functions that get the runtime and return an id.

        The defaults are `configurable["resource"]` and `configurable["thread_id"]` of the call. With `tools` the model is told
        how to use the three memory tools, and `tools` of this object has them for `bind_tools` and a `ToolNode`. `system_prompt`
        is the first part of the system message. `messages_key` is the name of the messages in the state.
        """
        check_memory(memory, Memory, SyncMemory)
        self._driver, self._is_sync = Driver(memory), isinstance(memory, SyncMemory)
        self._resource, self._thread, self._zone = resource, thread, zone
        self._system_prompt, self._key = system_prompt, messages_key
        self._new_id = IdMaker(SystemClock().now, system_chance)
        is_read_only = self._driver.memory.config.read_only
        self._guidance = [guidance(read_only=is_read_only)] if tools else []
        offered = definitions("mcp", read_only=is_read_only) if tools else []
        self.tools: list[BaseTool] = [tool_for(schema, self._driver, self._scope) for schema in offered]
        """The memory tools. They work on the thread and the resource of the call."""

    def node(self, node: Node) -> Any:
        """Return a node that calls `node` with memory. `node` is a chat model, or a function that calls one.

        In place of the messages of the state it gets one system message, the messages of the context and the edge. The messages
        of the state stay as they are, and the answer is added to them. A model may have tools bound to it.
        """
        if isinstance(node, Runnable):
            return self._of_model(cast("Runnable[Any, Any]", node))
        if not callable(node):
            raise InputError(
                f"`node` must be a chat model or a function, got {type(node).__name__}.",
                then="Pass the model, or the function that you would pass to add_node.",
            )
        return self._of_function(node)

    # ------------------------------------------------------------ nodes

    def _of_model(self, model: Runnable[Any, Any]) -> Runnable[Any, Any]:
        inner = _innermost(model)

        def call(state: Any, config: RunnableConfig) -> Any:
            def ask(given: Any) -> Any:
                return model.invoke(_said(given, self._key), config)

            return at_once(self._call(state, self._driver.now, inner, ask))

        async def acall(state: Any, config: RunnableConfig) -> Any:
            async def ask(given: Any) -> Any:
                return await model.ainvoke(_said(given, self._key), config)

            return await self._call(state, self._driver.later, inner, ask)

        return RunnableLambda(call, afunc=acall, name="model")

    def _of_function(self, function: Callable[..., Any]) -> Callable[..., Any]:
        is_async = inspect.iscoroutinefunction(function)

        def call(state: Any, *args: Any, **named: Any) -> Any:
            return at_once(self._call(state, self._driver.now, None, lambda given: function(given, *args, **named)))

        async def acall(state: Any, *args: Any, **named: Any) -> Any:
            async def ask(given: Any) -> Any:
                if is_async:
                    return await function(given, *args, **named)
                # A function that may block runs in a thread, as LangGraph itself would run it.
                return await asyncio.to_thread(function, given, *args, **named)

            return await self._call(state, self._driver.later, None, ask)

        made = call if self._is_sync and not is_async else acall
        # LangGraph reads from the signature what else it must pass. `__wrapped__` would hide that the node is asynchronous.
        made = wraps(function)(made)
        del made.__wrapped__
        vars(made)["__signature__"] = inspect.signature(function)
        return made

    async def _call(self, state: Any, drive: Drive, model: Any, ask: Callable[[Any], Any]) -> Any:
        messages = _said(state, self._key)
        set_result_ids(cast("Any", messages))
        run = await drive(self._begin())
        context = await drive(run.prepare(messages, model=None if model is None else model_name_of(model)))
        try:
            result = await returned(ask(self._asked(state, messages, context, model)))
        except GraphBubbleUp:
            await drive(run.leave())
            raise
        except BaseException as error:
            await drive(run.refuse(messages) if is_refusal(error) else run.leave())
            raise
        result, answers = _answers(result, self._key, self._new_id)
        await drive(_end(run, [*messages, *answers]))
        return result

    async def _begin(self) -> Run:
        """Return the run of this step. It continues the turn of the last stored message, unless there is a new question."""
        resource, thread = self._scope()
        memory = self._driver.memory
        turn: str | None = None
        is_blind = memory.config.read_only
        try:
            newest = await memory.thread(thread, resource=resource).messages(before=_LAST, limit=1)
            turn = next((row.turn for row in newest.items if row.state == "live"), None)
        except NotFound:
            pass
        except MemologError:
            is_blind = True
        return _Step(memory, resource, thread, mark={"turn": turn}, zone=self._zone, is_blind=is_blind)

    def _asked(self, state: Any, messages: Sequence[BaseMessage], context: Context, model: Any) -> Any:
        """Return the state with the caller's instructions, the prefix, the messages of the context and the edge."""
        own = [SystemMessage(self._system_prompt)] if self._system_prompt else []
        own += [one for one in messages if isinstance(one, SystemMessage)]
        if "anthropic" in str(getattr(model, "_llm_type", "")):
            system, said = with_marks(own, self._guidance, context)
        else:
            system = instructions_of(own, [*self._guidance, *filter(None, [context.system])])
            said = langchain_messages(context)
        return _with(state, self._key, [*([system] if system else []), *said])

    def _scope(self) -> tuple[str, str]:
        settings: dict[str, Any] = get_config().get("configurable") or {}
        return (
            chosen_id("resource", self._resource, settings.get("resource"), 'resource="…"'),
            chosen_id("thread", self._thread, settings.get("thread_id"), 'configurable={"thread_id": "…"}'),
        )


async def _end(run: Run, messages: Sequence[BaseMessage]) -> None:
    await run.record(messages)
    await run.leave()


def _innermost(model: Any) -> Any:
    """Return the chat model itself, without the tools or settings that are bound to it."""
    while (bound := getattr(model, "bound", None)) is not None:
        model = bound
    return model


# ---------------------------------------------------------------- states


def _said(state: Any, key: str) -> list[BaseMessage]:
    """Return the messages of a state, which may be a dict, a dataclass or a model of Pydantic."""
    is_dict = isinstance(state, Mapping)
    if not (key in state if is_dict else hasattr(state, key)):
        raise InputError(
            f"The state has no {key!r}.",
            why="The memory saves the messages of the state.",
            then="Use MessagesState, or pass messages_key= with the name of your messages.",
        )
    given: Any = cast("Mapping[str, Any]", state)[key] if is_dict else getattr(state, key)
    return convert_to_messages(given or [])


def _with(state: Any, key: str, messages: list[BaseMessage]) -> Any:
    if isinstance(state, Mapping):
        return {**cast("Mapping[str, Any]", state), key: messages}
    if isinstance(state, BaseModel):
        return state.model_copy(update={key: messages})
    if is_dataclass(state) and not isinstance(state, type):
        return replace(state, **{key: messages})
    made = copy.copy(state)
    setattr(made, key, messages)
    return made


def _answers(result: Any, key: str, new_id: Callable[[], str]) -> tuple[Any, list[BaseMessage]]:
    """Return the result of a node, and the messages in it.

    Each message gets an id, because the graph would give it one only after it was saved.
    """
    given: Any = {key: [result]} if isinstance(result, BaseMessage) else result
    update: Any = cast("Any", given).update if isinstance(given, Command) else given
    if not isinstance(update, Mapping) or not (said := cast("Mapping[str, Any]", update).get(key)):
        return cast("Any", given), []
    listed: Iterable[Any] = cast("Iterable[Any]", said) if isinstance(said, list | tuple) else [said]
    messages = convert_to_messages(list(listed))
    for message in messages:
        message.id = message.id or new_id()
    changed = {**cast("Mapping[str, Any]", update), key: messages}
    made: Any = replace(cast("Any", given), update=changed) if isinstance(given, Command) else changed
    return made, [message for message in messages if not isinstance(message, RemoveMessage)]
