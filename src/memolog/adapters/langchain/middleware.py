"""Middleware of a LangChain agent: it saves new messages, adds memory to each model request and saves each answer."""

import copy
import functools
import inspect
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import replace
from typing import Annotated, Any, Final, NotRequired, TypeAlias, TypeVar, cast

from langchain.agents.middleware.pii import PIIDetectionError
from langchain.agents.middleware.types import (
    AgentMiddleware,
    AgentState,
    ExtendedModelResponse,
    ModelRequest,
    ModelResponse,
    PrivateStateAttr,
)
from langchain_core.messages import (
    AIMessage,
    AnyMessage,
    BaseMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
)
from langchain_core.tools import BaseTool, StructuredTool
from langgraph.channels.untracked_value import UntrackedValue
from langgraph.config import get_config
from langgraph.errors import GraphBubbleUp
from langgraph.runtime import Runtime, get_runtime
from langgraph.types import Command

from memolog import Context
from memolog.adapters import at_once, returned
from memolog.adapters.driver import Drive, Driver
from memolog.adapters.guards import GuardStopped, check_errors, check_id, check_memory
from memolog.adapters.langchain.messages import from_langchain, to_langchain, usage_of
from memolog.adapters.new_messages import AgentTurn, prefix_of
from memolog.adapters.provider_limits import is_refusal
from memolog.core.exact_json import dumps
from memolog.core.message import FilePart, Message, MessageState, NewMessage, Part, Role, TextPart
from memolog.memory import Memory
from memolog.sync import SyncMemory
from memolog.tools.definitions import definitions, guidance
from memolog.turn import Turn

T = TypeVar("T")


Scope = Callable[[], tuple[str, str]]


def tool_for(schema: Mapping[str, Any], driver: Driver, scope: Scope) -> BaseTool:
    """Return the tool of a definition. `scope` returns the resource and the thread of the current agent run."""
    name: str = schema["name"]

    async def answer(resource: str, thread: str, arguments: dict[str, Any]) -> str:
        tools = driver.memory.resource(resource).tools(thread=thread, session=thread)
        return dumps(await tools.call(name, arguments))

    def call(**arguments: Any) -> str:
        return at_once(driver.now(answer(*scope(), arguments)))

    async def acall(**arguments: Any) -> str:
        return await driver.later(answer(*scope(), arguments))

    return StructuredTool(
        name=name, description=schema["description"], args_schema=schema["inputSchema"], func=call, coroutine=acall
    )


_SUMMARY: Final = "summarization"
# LangGraph sets this key in the configuration of an agent run that has a checkpointer.
_CHECKPOINTER: Final = "__pregel_checkpointer"
# Maximum number of messages at the end of the state that are looked up by id. The lookup may find none, because a caller may
# create new ids for the same messages in every agent run.
_NEAR: Final = 12
_ROLE: Final[dict[str, Role]] = {"ai": "assistant", "tool": "tool"}


class Run(AgentTurn):
    """One agent run: its turn, and which messages of the state are processed and saved."""

    def __init__(
        self, memory: Memory, resource: str, thread: str, *, mark: Mapping[str, Any], zone: str | None
    ) -> None:
        """Set the thread. `mark` is from an earlier agent run: the id of its turn (`turn`) or of its last message (`until`)."""
        super().__init__(memory, resource, thread, zone=zone)
        self.mark = mark
        # Without checkpoints the state contains only the messages that the caller passed.
        self._has_checkpoints = bool((get_config().get("configurable") or {}).get(_CHECKPOINTER))
        self._processed: set[str] | None = None
        self._saved: dict[str, tuple[Part, ...]] = {}
        self.is_asked = False
        """Whether a step has begun whose answer is not saved yet. If the agent run ends during this step, a guard stopped it."""
        self._model: str | None = None

    # ------------------------------------------------------------ steps

    async def prepare(
        self, messages: Sequence[BaseMessage], *, ephemeral: Sequence[BaseMessage] = (), model: str | None
    ) -> Context:
        """Save the new messages of the state and return the context for the model."""
        is_first = self._processed is None
        if is_first:
            await self._rewind([one for one in messages if _is_said(one)])
        new = await self._new(messages, answered=False)
        if is_first:
            new = await self._without_saved(messages, new)
        turn = await self._open(new)
        self._model = model
        self._mark_saved(new)
        return await turn.prepare(*new, ephemeral=[from_langchain(one) for one in ephemeral], model=model)

    async def record(self, messages: Sequence[BaseMessage], *, answered: bool = True) -> None:
        """Save the new messages of the state. With `answered` the last answer has passed all guards, and is saved too."""
        if not (new := await self._new(messages, answered=answered)):
            return
        turn = await self._open(new)
        self._mark_saved(new)
        ids = {message.id for message in new}
        usages = [usage_of(one, self._model) for one in messages if isinstance(one, AIMessage) and one.id in ids]
        await turn.record(*new, usage=next((usage for usage in reversed(usages) if usage), None))

    async def discard(self) -> None:
        """Withdraw everything that this agent run saved."""
        if self._saved:
            await super().discard()
        self.id, self._saved = "", {}

    async def refuse(self, messages: Sequence[BaseMessage]) -> None:
        """Withdraw the messages that the provider rejected. They stay in the state, but are not saved again."""
        await self._save_placeholders(messages)
        await self.take_back()

    async def stop(self, messages: Sequence[BaseMessage]) -> None:
        """Withdraw everything that this agent run saved. Its messages stay in the state, but are not saved again."""
        await self._save_placeholders(messages)
        await self.discard()

    async def _save_placeholders(self, messages: Sequence[BaseMessage]) -> None:
        """Save empty rows for the messages since the last question that are not stored. The caller then withdraws these rows."""
        said = [one for one in messages if _is_said(one)]
        rest = [one for one in await self._unstored(said[question_of(said) :]) if one.id]
        if rest:
            # The checkpoint still contains these messages. The withdrawn rows show that they must not be saved later.
            empty = [
                NewMessage(role=_ROLE.get(one.type, "user"), parts=(TextPart(text=""),), id=one.id) for one in rest
            ]
            self._mark_saved(empty)
            await (await self._open(empty)).record(*empty)

    async def finish(self, messages: Sequence[BaseMessage]) -> None:
        """Save the remaining messages and end the turn. If a guard rewrote saved messages, first save all of them again."""
        again = [from_langchain(one) for one in messages if one.id in self._saved]
        if any(self._saved[one.id or ""] != one.parts for one in again):
            await self.discard()
            self._mark_saved(again)
            await (await self._open(again)).record(*again)
        await self.record(messages, answered=False)
        await self.leave()

    # ------------------------------------------------------------ going back

    async def _rewind(self, said: Sequence[BaseMessage]) -> None:
        """Rewind the thread if the state went back to an earlier checkpoint."""
        if not self._has_checkpoints or not said or not said[0].id or self.memory.config.read_only:
            return
        # All checkpoints of a conversation have the same first message.
        self.id_prefix = prefix_of(said[0].id)
        if (shared := await self._last_shared(said)) is not None:
            await self.rewind_after(shared, {one.id for one in said[:-1]})

    async def _last_shared(self, said: Sequence[BaseMessage]) -> int | None:
        """Return the number of the last live message that is also in the state. An edited last question does not count.

        If there is none, return 0 (rewind the whole thread) if the state is short and its last message was stored before.
        Otherwise return None.
        """
        was_stored = False
        for one in said[: -_NEAR - 1 : -1]:
            rows = await self.rows(one.id or "")
            was_stored = was_stored or (one is said[-1] and bool(rows))
            live = [row for row in rows if row.state == "live"]
            if live and not (one is said[-1] and _is_edited(one, live)):
                return live[-1].seq
        return 0 if was_stored and len(said) <= _NEAR else None

    # ------------------------------------------------------------ inside

    async def _open(self, new: Iterable[NewMessage]) -> Turn:
        # An interrupted agent run continues its turn, unless there is a new user message.
        return await self.open("" if any(one.role == "user" for one in new) else self.mark.get("turn") or "")

    def _mark_saved(self, new: Iterable[NewMessage]) -> None:
        self._saved.update({message.id: message.parts for message in new if message.id})

    async def _new(self, messages: Sequence[BaseMessage], *, answered: bool) -> list[NewMessage]:
        """Return the messages that this agent run has not processed, and mark them as processed."""
        said = [one for one in messages if _is_said(one)]
        if self._processed is None:
            self._processed = {one.id or "" for one in said}
            return await self._new_at_first_step(said, answered=answered)
        new = [one for one in said if one.id not in self._processed]
        self._processed.update(one.id or "" for one in new)
        return [from_langchain(one) for one in new]

    async def _new_at_first_step(self, said: Sequence[BaseMessage], *, answered: bool) -> list[NewMessage]:
        """Return the new messages at the first step, when the state contains the whole conversation."""
        until = self.mark.get("until")
        place = next((n + 1 for n, one in enumerate(said) if until and one.id == until), None)
        if place is None and await self.is_new_thread():
            # The conversation began without memory, so all messages are new.
            place = 0
        if place is None:
            place = await self._last_stored(said)
        if place is None:
            answers = [n for n, one in enumerate(said) if isinstance(one, AIMessage)]
            place = 0 if not answers else answers[-1] + (0 if answered else 1)
        return [from_langchain(one) for one in await self._unstored(said[place:])] or await self._asked_again(said)

    async def _asked_again(self, said: Sequence[BaseMessage]) -> list[NewMessage]:
        """Return the last message of the state, without its id, if it is a question that must be saved again.

        This is so if its stored message is no longer live, or if messages follow it in the thread that could not be rewound.
        """
        last = said[-1] if said else None
        if (
            not isinstance(last, HumanMessage)
            or not self._has_checkpoints
            or not (rows := await self.rows(last.id or ""))
        ):
            return []
        handle = self.memory.thread(self.thread, resource=self.resource)
        after = (await handle.messages(after=rows[-1].seq, limit=1)).items
        if not after and rows[-1].state == "live":
            return []
        return [replace(from_langchain(last), id=None)]

    async def _without_saved(self, messages: Sequence[BaseMessage], new: Sequence[NewMessage]) -> list[NewMessage]:
        """Return the new messages at the first request, without messages that a failed agent run has saved."""
        if self.memory.config.read_only:
            return list(new)
        before, fresh = len(new), await self.new(new)
        while 0 < len(fresh) < before:
            # The checkpoint contains the messages of every failed attempt. So compare until no more saved messages are found.
            before, fresh = len(fresh), await self.new(fresh)
        asked = [one for one in messages if _is_said(one)]
        known: list[Message] = []
        turn: str | None = None
        for one in asked[question_of(asked) :]:
            rows = [row for row in await self.rows(one.id or "") if row.state == "live"]
            known += rows
            if isinstance(one, HumanMessage):
                turn = rows[-1].turn if rows else None
        # Unanswered questions of earlier turns are before this question in the state, but are not part of it.
        self._repeated = tuple({*self._repeated, *(row.seq for row in known if turn is not None and row.turn == turn)})
        return list(fresh)

    async def _last_stored(self, said: Sequence[BaseMessage]) -> int | None:
        """Return the index of the last stored message; None if none of the last `_NEAR` messages is stored."""
        for place in range(len(said), max(len(said) - _NEAR, 0), -1):
            if await self._state(said[place - 1]) is not None:
                # The stored message is included, because `_unstored` reads its state.
                return place - 1
        return None

    async def _unstored(self, candidates: Sequence[BaseMessage]) -> list[BaseMessage]:
        """Return the messages that are not stored. Answers to a withdrawn message are left out."""
        new: list[BaseMessage] = []
        is_stopped = False
        for one in candidates:
            if (state := await self._state(one)) is not None:
                is_stopped = state == "withdrawn"
                continue
            is_stopped = is_stopped and not isinstance(one, HumanMessage)
            if not is_stopped:
                new.append(one)
        return new

    async def _state(self, message: BaseMessage) -> MessageState | None:
        """Return the state of a stored message; None if it is not stored."""
        if not message.id:
            return None
        rows = await self.rows(message.id)
        return None if not rows else "live" if any(row.state == "live" for row in rows) else rows[-1].state


def _is_edited(message: BaseMessage, rows: Sequence[Message]) -> bool:
    """Return whether a question has another text or other files than its stored message.

    A text with redacted secrets, and a message without its raw text, count as unchanged.
    """
    given, stored = from_langchain(message).parts, [part for row in rows for part in row.parts]
    if any(row.pruned for row in rows) or any(
        "[redacted: " in part.text for part in stored if isinstance(part, TextPart)
    ):
        return False
    return _content(given) != _content(stored)


def _content(parts: Iterable[Part]) -> list[tuple[str | bytes | None, ...]]:
    """Return the texts and files of a message, to compare messages."""
    return [
        (part.text,) if isinstance(part, TextPart) else (part.url, part.data)
        for part in parts
        if isinstance(part, TextPart | FilePart)
    ]


def question_of(said: Sequence[BaseMessage]) -> int:
    """Return the index of the first message of the last question. A question may have several messages."""
    place = next((n for n in range(len(said) - 1, -1, -1) if isinstance(said[n], HumanMessage)), len(said))
    while 0 < place < len(said) and isinstance(said[place - 1], HumanMessage):
        place -= 1
    return place


def _is_said(message: BaseMessage) -> bool:
    """Return whether a message belongs to the conversation. Instructions and summaries of LangChain do not."""
    is_summary = message.additional_kwargs.get("lc_source") == _SUMMARY
    return not isinstance(message, SystemMessage | RemoveMessage) and not (
        is_summary and isinstance(message, HumanMessage)
    )


Named: TypeAlias = str | Callable[[Runtime[Any]], str] | None
Request: TypeAlias = ModelRequest[Any]
Response: TypeAlias = ModelResponse[Any]
Extended: TypeAlias = ExtendedModelResponse[Any]


class MemoryState(AgentState[Any]):
    """Private fields in the state of the graph. Checkpoints contain `memolog`, but not `memolog_run`."""

    memolog_run: NotRequired[Annotated[Run | None, UntrackedValue, PrivateStateAttr]]
    memolog: NotRequired[Annotated[dict[str, Any], PrivateStateAttr]]


def _hooks(step: Callable[[Any, MemoryState, Drive], Awaitable[dict[str, Any]]]) -> tuple[Any, Any]:
    """Return two hooks of a middleware that run `step`: a synchronous one and an asynchronous one."""

    def hook(self: "MemoryMiddleware", state: MemoryState, runtime: Runtime[Any]) -> dict[str, Any]:
        del runtime
        return at_once(cast("Any", step(self, state, self.driver.now)))

    async def ahook(self: "MemoryMiddleware", state: MemoryState, runtime: Runtime[Any]) -> dict[str, Any]:
        del runtime
        return await step(self, state, self.driver.later)

    return hook, ahook


class MemoryMiddleware(AgentMiddleware[Any, Any, Any]):
    """A long memory for an agent: `create_agent(…, middleware=[MemoryMiddleware(memory, resource="alice")])`.

    Put it first in the list, before all guards.
    """

    state_schema = MemoryState

    def __init__(
        self,
        memory: Memory | SyncMemory,
        *,
        resource: Named = None,
        thread: Named = None,
        tools: bool = True,
        discard_on_jump: bool = True,
        guards: type[Exception] | tuple[type[Exception], ...] = (GuardStopped, PIIDetectionError),
        zone: str | None = None,
    ) -> None:
        """Set the memory. `resource` and `thread` are ids, or functions that get the runtime and return an id.

        The defaults are `configurable["resource"]` and `configurable["thread_id"]` of the agent run. With `tools` the model gets
        the three memory tools. If a later middleware raises one of `guards` during the model call, the turn is discarded. With
        `discard_on_jump` the turn is also discarded if a middleware jumps to the end.
        """
        super().__init__()
        check_memory(memory, Memory, SyncMemory)
        check_errors("guards", guards)
        self.driver = Driver(memory)
        self._resource, self._thread, self._zone = resource, thread, zone
        self._has_tools = tools
        self._discards_on_jump, self._guards = discard_on_jump, guards
        offered = definitions("mcp", read_only=self.driver.memory.config.read_only) if tools else []
        self.tools = [tool_for(schema, self.driver, self.scope) for schema in offered]

    # ------------------------------------------------------------ resource and thread

    def scope(self) -> tuple[str, str]:
        """Return the resource and the thread of the current agent run."""
        settings: dict[str, Any] = get_config().get("configurable") or {}
        return (
            chosen_id("resource", self._resource, settings.get("resource"), 'resource="…"'),
            chosen_id("thread", self._thread, settings.get("thread_id"), 'configurable={"thread_id": "…"}'),
        )

    def _run_of(self, state: MemoryState) -> Run:
        if (run := state.get("memolog_run")) is not None:
            return run
        resource, thread = self.scope()
        return Run(self.driver.memory, resource, thread, mark=state.get("memolog") or {}, zone=self._zone)

    # ------------------------------------------------------------ before the model

    async def _begin(self, state: MemoryState, drive: Drive) -> dict[str, Any]:
        """Begin a step. From here on a guard may stop the agent run."""
        del drive
        run = self._run_of(state)
        run.is_asked = True
        return {"memolog_run": run}

    before_model, abefore_model = _hooks(_begin)

    def wrap_model_call(self, request: Request, handler: Callable[[Request], Response]) -> Response | Extended:
        """Save the new messages and call the model with memory."""
        return at_once(self._call(request, handler, self.driver.now))

    async def awrap_model_call(
        self, request: Request, handler: Callable[[Request], Awaitable[Response]]
    ) -> Response | Extended:
        """Save the new messages and call the model with memory."""
        return await self._call(request, handler, self.driver.later)

    async def _call(self, request: Request, handler: Callable[[Request], Any], drive: Drive) -> Response | Extended:
        run = self._run_of(cast("MemoryState", request.state))
        context = await drive(self._prepare(run, request))
        try:
            return _with_run(await returned(handler(self._asked(request, context))), run, request)
        except GraphBubbleUp:
            raise
        except BaseException as error:
            await drive(self._failed(run, request, error))
            raise

    async def _prepare(self, run: Run, request: Request) -> Context:
        set_result_ids(request.messages)
        known = {one.id for one in request.state["messages"]}
        lasting: list[BaseMessage] = []
        ephemeral: list[BaseMessage] = []
        for one in request.messages:
            # A message that is not in the state was added by an outer middleware to this request only. It is not stored.
            is_lasting = one.id in known or isinstance(one, ToolMessage | SystemMessage)
            (lasting if is_lasting else ephemeral).append(one)
        return await run.prepare(lasting, ephemeral=ephemeral, model=model_name_of(request.model))

    async def _failed(self, run: Run, request: Request, error: BaseException) -> None:
        """Discard the turn if a guard raised the error. Withdraw a rejected request. Otherwise end the turn."""
        if isinstance(error, self._guards):
            await run.stop(request.state["messages"])
        elif is_refusal(error):
            await run.refuse(request.state["messages"])
        else:
            await run.leave()

    def _asked(self, request: Request, context: Context) -> Request:
        """Return the request with the caller's instructions, the prefix, the messages of the context and the edge."""
        given = [request.system_message, *(one for one in request.messages if isinstance(one, SystemMessage))]
        own = [one for one in given if one is not None]
        texts = [guidance(read_only=self.driver.memory.config.read_only)] if self._has_tools else []
        if "anthropic" in str(getattr(request.model, "_llm_type", "")):
            system, messages = with_marks(own, texts, context)
        else:
            system = instructions_of(own, [*texts, *filter(None, [context.system])])
            messages = langchain_messages(context)
        return request.override(system_message=system, messages=cast("list[AnyMessage]", messages))

    # ------------------------------------------------------------ after the model

    async def _answered(self, state: MemoryState, drive: Drive) -> dict[str, Any]:
        """Save the answer. It has passed all guards, because this hook runs after theirs."""
        run = self._run_of(state)
        await drive(run.record(state["messages"]))
        run.is_asked = False
        return {"memolog_run": run, "memolog": {**run.mark, "turn": run.id}}

    after_model, aafter_model = _hooks(_answered)

    # ------------------------------------------------------------ the end

    async def _end(self, state: MemoryState, drive: Drive) -> dict[str, Any]:
        run = state.get("memolog_run")
        is_stopped = run is None or run.is_asked
        if is_stopped and self._discards_on_jump:
            # No step began, or the last step has no saved answer, so a guard has jumped to the end.
            await drive(self.stop(state))
        elif run is not None:
            await drive(run.finish(state["messages"]))
        last: BaseMessage | None = state["messages"][-1] if state["messages"] else None
        return {"memolog_run": None, "memolog": {"until": last.id} if last is not None else {}}

    after_agent, aafter_agent = _hooks(_end)

    def stop(self, state: MemoryState) -> Coroutine[Any, Any, None]:
        """Return a coroutine that discards the turn of the agent run with this state."""
        return self._run_of(state).stop(state["messages"])


# ---------------------------------------------------------------- pieces of a request


def chosen_id(what: str, given: Named, configured: Any, how: str) -> str:
    """Return the id of a thread or a resource: what was passed, or what the call configures."""
    name = given(get_runtime()) if callable(given) else given or configured
    return check_id(what, name, f"Pass the {what} to the middleware or in the configuration of the call: {how}.")


def _with_run(response: Response, run: Run, request: Request) -> Response | Extended:
    """Return the response. Add the run to the state if LangGraph skipped `before_model`, as it does after a failed agent run."""
    if cast("MemoryState", request.state).get("memolog_run") is run:
        return response
    run.is_asked = True
    return ExtendedModelResponse(model_response=response, command=Command(update={"memolog_run": run}))


def model_name_of(model: Any) -> str | None:
    """Return the name of a chat model, or None if it has none."""
    for attribute in ("model_name", "model"):
        if isinstance(name := getattr(model, attribute, None), str) and name:
            return name
    return None


def set_result_ids(messages: list[AnyMessage]) -> None:
    """Set missing ids of tool results. LangChain sets those of malformed calls too late, after Memolog has saved the results."""
    answer_id = ""
    for message in messages:
        if isinstance(message, ToolMessage):
            message.id = message.id or f"{answer_id}:{message.tool_call_id}"
        elif message.id:
            answer_id = message.id


def langchain_messages(context: Context) -> list[BaseMessage]:
    """Return the messages of a context, with the edge."""
    return [made for message in context.joined() for made in to_langchain(message)]


# A request to Claude has at most four cache marks.
_MARK: Final = {"type": "ephemeral"}
_MOST_MARKS: Final = 4


def with_marks(
    own: list[SystemMessage], texts: list[str], context: Context
) -> tuple[SystemMessage | None, list[BaseMessage]]:
    """Return system message and messages for Claude, with cache marks after the log and at the last message before the edge.

    Each group of the log is a block of its own, so that a new group does not change a block that is cached.
    """
    fixed = [block for one in own for block in _blocks(one.content)]
    fixed += [{"type": "text", "text": text} for text in texts]
    log: list[dict[str, Any]] = [
        {"type": "text", "text": block.text if number == 0 else f"\n\n{block.text}"}
        for number, block in enumerate(context.blocks)
    ]
    messages = [_without_marks(one) for one in langchain_messages(replace(context, edge=()))]
    free = _MOST_MARKS - sum("cache_control" in block for block in fixed)
    if free > 0 and _mark_last(messages):
        free -= 1
    if free > 0 and log:
        log[-1]["cache_control"] = _MARK
    if context.edge:
        _add_edge(messages, context.edge_text)
    system = [*fixed, *log]
    return SystemMessage(content=cast("Any", system)) if system else None, messages


def _blocks(content: str | list[Any]) -> list[dict[str, Any]]:
    """Return the content of a message as blocks."""
    items: list[Any] = [content] if isinstance(content, str) else content
    return [{"type": "text", "text": one} if isinstance(one, str) else one for one in items if one]


def _without_marks(message: BaseMessage) -> BaseMessage:
    """Return a message without the cache marks of earlier requests. With them a request could have too many marks."""
    if isinstance(message.content, str) or "cache_control" not in str(message.content):
        return message
    bare = [{name: value for name, value in one.items() if name != "cache_control"} for one in _blocks(message.content)]
    return message.model_copy(update={"content": bare})


def _mark_last(messages: list[BaseMessage]) -> bool:
    """Set a cache mark at the last text of the last message. Return False if the message cannot have a cache mark."""
    last = messages[-1] if messages else None
    if not isinstance(last, HumanMessage | ToolMessage):
        return False
    blocks = _blocks(last.content)
    for place in reversed(range(len(blocks))):
        if blocks[place].get("type") == "text" and str(blocks[place].get("text", "")).strip():
            blocks[place] = {**blocks[place], "cache_control": _MARK}
            messages[-1] = last.model_copy(update={"content": blocks})
            return True
    return False


def _add_edge(messages: list[BaseMessage], edge: str) -> None:
    """Add the edge to the last user message, as a separate block at its end."""
    block: dict[str, Any] = {"type": "text", "text": edge}
    for place in reversed(range(len(messages))):
        message = messages[place]
        if isinstance(message, HumanMessage):
            messages[place] = message.model_copy(update={"content": [*_blocks(message.content), block]})
            return
    messages.insert(0, HumanMessage(content=[cast("Any", block)]))


def instructions_of(own: list[SystemMessage], texts: list[str]) -> SystemMessage | None:
    """Return one system message: the caller's instructions, then `texts`. Return None if there are neither."""
    if not own and not texts:
        return None
    if all(isinstance(one.content, str) for one in own):
        return SystemMessage(content="\n\n".join(filter(None, [*(str(one.content) for one in own), *texts])))
    blocks: list[str | dict[str, Any]] = []
    for one in own:
        blocks.extend([{"type": "text", "text": one.content}] if isinstance(one.content, str) else one.content)
    return SystemMessage(content=[*blocks, *({"type": "text", "text": text} for text in texts)])


Guard = TypeVar("Guard", bound=AgentMiddleware[Any, Any, Any])

_HOOKS: Final = tuple(
    f"{prefix}{name}"
    for name in ("before_agent", "before_model", "wrap_model_call", "wrap_tool_call", "after_model", "after_agent")
    for prefix in ("", "a")
)

# An asynchronous hook may call the synchronous hook. Only the outer hook discards the turn.
_IS_WATCHED: ContextVar[bool] = ContextVar("memolog_guard_is_watched", default=False)


def guarded(memory: MemoryMiddleware, guard: Guard) -> Guard:
    """Return a copy of a guard that discards the turn when the guard raises an exception.

    Use it where the agent is created: `middleware=[memory, guarded(memory, PIIMiddleware("email", strategy="block"))]`.
    """
    kind = type(guard)
    hooks = {
        name: _watched(getattr(kind, name), memory)
        for name in _HOOKS
        if getattr(kind, name) is not getattr(AgentMiddleware, name)
    }
    watched = copy.copy(guard)
    watched.__class__ = cast("type[Guard]", type(kind.__name__, (kind,), hooks))
    return watched


def _watched(hook: Callable[..., Any], memory: MemoryMiddleware) -> Callable[..., Any]:
    async def watched(drive: Drive, first: Any, call: Callable[[], Any]) -> Any:
        is_outer, token = not _IS_WATCHED.get(), _IS_WATCHED.set(True)
        try:
            return await returned(call())
        except GraphBubbleUp:
            raise
        except Exception:
            if is_outer:
                await drive(memory.stop(_state_of(first)))
            raise
        finally:
            _IS_WATCHED.reset(token)

    if inspect.iscoroutinefunction(hook):

        @functools.wraps(hook)
        async def ahook(self: Any, first: Any, *rest: Any, **named: Any) -> Any:
            return await watched(memory.driver.later, first, lambda: hook(self, first, *rest, **named))

        return ahook

    @functools.wraps(hook)
    def plain(self: Any, first: Any, *rest: Any, **named: Any) -> Any:
        return at_once(watched(memory.driver.now, first, lambda: hook(self, first, *rest, **named)))

    return plain


def _state_of(first: Any) -> MemoryState:
    """Return the state from the first argument of a hook, which is the state or a request with the state."""
    return cast("MemoryState", first if isinstance(first, dict) else first.state)
