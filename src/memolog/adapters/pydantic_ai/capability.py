"""Capability of a Pydantic AI agent: instructions and tools of the memory, and memory at each step of an agent run.

Hooks may rewrite the history during an agent run. Each message is still saved only once.
"""

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import KW_ONLY, dataclass, field, replace
from datetime import UTC, datetime
from itertools import takewhile
from typing import Any, Final, Literal, TypeAlias, cast, get_args

import anyio
from pydantic_ai import AgentRunResult, FunctionToolset, RunContext, Tool
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.capabilities.abstract import AgentNode, NodeResult, WrapRunHandler, WrapToolExecuteHandler
from pydantic_ai.messages import (
    CachePoint,
    InstructionPart,
    ModelMessage,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ToolCallPart,
    UserContent,
    UserPromptPart,
)
from pydantic_ai.models import Model, ModelRequestContext
from pydantic_ai.models.fallback import FallbackModel
from pydantic_ai.tools import AgentDepsT, ToolDefinition
from pydantic_ai.toolsets import AbstractToolset

from memolog import Context
from memolog.adapters.guards import GuardStopped, check_errors, check_memory
from memolog.adapters.new_messages import AgentTurn, prefix_of
from memolog.adapters.provider_limits import is_refusal
from memolog.adapters.pydantic_ai.messages import to_messages, to_model_messages, usage_of
from memolog.core.message import NewMessage
from memolog.core.run import Usage
from memolog.errors import InputError, NotFound
from memolog.memory import Memory, Tools
from memolog.tools.definitions import definitions, guidance
from memolog.turn import Turn

# The states of an answer that the provider has paused, and of one whose stream ended early.
_UNFINISHED: Final = "suspended"
_CUT: Final = "interrupted"
# At most this many messages of a history are saved in one call.
_AT_ONCE: Final = 200
# At most this many messages at the end of a history are looked up.
_NEAR: Final = 12


@dataclass(frozen=True, slots=True)
class _New:
    messages: tuple[NewMessage, ...]
    usage: Usage | None = None


class MemoryRun(AgentTurn):
    """The memory of one agent run. It saves each message of the history once, in order."""

    def __init__(
        self, memory: Memory, turn: Turn, run_id: str | None, *, outer: "MemoryRun | None", read_only: bool
    ) -> None:
        super().__init__(memory, turn.resource, turn.thread)
        self.turn, self.read_only, self._outer = turn, read_only, outer
        self._turn, self.id_prefix = turn, turn.id_prefix
        self.is_stopped = False
        self.children: list[MemoryRun] = []
        self._run_id = run_id
        self.history: Sequence[ModelMessage] = ()
        """The messages of the agent run so far. They are saved at its end, even if the agent run fails."""
        # The saved parts of each message of this agent run, in the order of the history.
        self._done: list[Sequence[object]] = []
        self._saved: Counter[str] = Counter()
        self._resumed: ModelMessage | None = None
        self._model: str | None = None
        self._has_begun = self._is_rewritten = False
        # While the model is being called, an error comes from the provider, not from a tool.
        self._is_asking = False

    # ------------------------------------------------------------ steps

    async def begin(self) -> None:
        """Open the turn."""
        await self.turn.__aenter__()
        if self._outer is not None:
            self._outer.children.append(self)

    async def end(self, error: BaseException | None, *, is_guarded: bool) -> None:
        """Save the remaining messages and end the turn.

        If a guard stopped the agent run, discard the turn instead. If the provider rejected the request, withdraw the request.
        """
        try:
            if self.is_stopped or is_guarded:
                await self.discard()
            elif error is not None and self._is_asking and is_refusal(error):
                await self.take_back()
            else:
                await self.keep()
        finally:
            await self.turn.__aexit__(None, error, None)

    async def prepare(self, history: Sequence[ModelMessage], model: str) -> Context:
        """Save the new messages and return the context for the model."""
        self.history = history
        self._model = model
        is_first = not self._has_begun
        if is_first:
            await self._begin()
        new = list(self._new())
        asked = new.pop().messages if new and new[-1].usage is None else ()
        await self._record(new)
        if is_first and asked and not new and not self.read_only:
            asked = await self.new(asked)
        self._is_asking = True
        return await self.turn.prepare(*asked, model=model)

    async def keep(self) -> None:
        """Save the new messages of the history, unless a guard stopped the agent run."""
        self._is_asking = False
        if self.is_stopped:
            return
        if not self._has_begun and self._first() < len(self.history):
            await self._begin()
        await self._record(list(self._new()))

    async def discard(self) -> None:
        """Withdraw everything that this agent run and its children saved."""
        await self.turn.discard()
        for child in self.children:
            await child.withdraw()

    async def withdraw(self) -> None:
        """Withdraw everything that this agent run and its children saved. Called after the agent run has ended."""
        if not self.read_only:
            with contextlib.suppress(NotFound):
                await self.memory.thread(self.thread, resource=self.resource).withdraw(self.turn.id)
        for child in self.children:
            await child.withdraw()

    async def _record(self, new: Sequence[_New]) -> None:
        for one in new:
            await self.turn.record(*one.messages, model=self._model, usage=one.usage)

    # ------------------------------------------------------------ the history of the caller

    async def _begin(self) -> None:
        """Save the caller's history if the thread is empty. Otherwise rewind the thread if the caller went back."""
        self._has_begun = True
        first = self._first()
        before = list(self.history[:first])
        request = self.history[-1] if self.history else None
        if first == len(self.history) and isinstance(request, ModelRequest):
            # The caller's history ends with a request, which is answered now. An earlier agent run may have saved this request.
            before.pop()
            self._resumed = request
            if await self._is_known(to_messages(self._bare(request))):
                self._done.append(tuple(self._bare(request).parts))
        if self.read_only:
            return
        if before and await self.is_new_thread():
            await self._adopt(before)
        else:
            await self._rewind([*before, *([self._resumed] if self._resumed else [])])

    async def _rewind(self, history: Sequence[ModelMessage]) -> None:
        """Rewind the thread if the caller went back: the thread has messages after the last message of the caller's history."""
        ids = [[one.id or "" for one in to_messages(self._bare(message))] for message in history]
        for names in ids[: -_NEAR - 1 : -1]:
            if live := [row.seq for name in names for row in await self.rows(name) if row.state == "live"]:
                await self.rewind_after(max(live), {name for some in ids for name in some})
                return

    async def _is_known(self, messages: Sequence[NewMessage]) -> bool:
        rows = [row for message in messages for row in await self.rows(message.id or "")]
        self._repeated += tuple(row.seq for row in rows)
        # A withdrawn message counts as unknown, because the user may send it again.
        return any(row.state != "withdrawn" for row in rows)

    async def _adopt(self, history: Sequence[ModelMessage]) -> None:
        """Save a history in a separate turn, because a guard may discard the turn of the agent run."""
        counts: Counter[str] = Counter()
        ours: list[NewMessage] = []
        for number, message in enumerate(history):
            bare = _bare(message, opens=number == 0)
            if bare.parts:
                name = to_messages(bare)[0].id or ""
                ours += to_messages(bare, again=counts[name])
                counts[name] += 1
        async with self.memory.thread(self.thread, resource=self.resource).turn() as turn:
            for start in range(0, len(ours), _AT_ONCE):
                await turn.record(*ours[start : start + _AT_ONCE])

    # ------------------------------------------------------------ new messages

    def _first(self) -> int:
        history, run_id = self.history, self._run_id
        return next((n for n, message in enumerate(history) if message.run_id == run_id), len(history))

    def _own(self) -> list[ModelMessage]:
        """Return the messages of this agent run, without the history of the caller."""
        first = self._first()
        resumed = [m for m in self.history[:first] if m is self._resumed or _is_copy(m, self._resumed)]
        return [*resumed, *self.history[first:]]

    def _new(self) -> Iterator[_New]:
        """Yield the messages that are not saved, and mark them as saved. Answers are yielded one by one, requests together."""
        own, asked = self._own(), list[NewMessage]()
        if len(own) < len(self._done):
            self._is_rewritten = True
            del self._done[len(own) :]
        for number, message in enumerate(own):
            if isinstance(message, ModelResponse) and message.state == _UNFINISHED:
                # The provider has paused this answer. The complete answer is saved later.
                break
            is_new = number >= len(self._done)
            messages = self._unsaved(number, message)
            if not isinstance(message, ModelResponse):
                asked += messages
            elif messages or (is_new and not self._is_rewritten):
                if asked:
                    yield _New(tuple(asked))
                    asked = []
                # An empty answer is yielded too, because it has a usage.
                yield _New(messages, usage_of(message, self._model or message.model_name or "unknown"))
        if asked:
            yield _New(tuple(asked))

    def _unsaved(self, number: int, message: ModelMessage) -> tuple[NewMessage, ...]:
        bare, after = self._bare(message), 0
        if number < len(self._done):
            if _begins_with(bare.parts, self._done[number]):
                after = len(self._done[number])
            else:
                self._is_rewritten = True
                del self._done[number:]
        self._done[number : number + 1] = [tuple(bare.parts)]
        if len(bare.parts) == after:
            return ()
        name = to_messages(bare, after=after)[0].id or ""
        if self._is_rewritten and self._saved[name]:
            # The positions in the history have changed, so the message is recognised by its id.
            return ()
        self._saved[name] += 1
        ours = to_messages(bare, after=after, again=self._saved[name] - 1)
        # With `created_at=None` the memory sets the time.
        return tuple(replace(one, created_at=None) for one in ours)

    def _bare(self, message: ModelMessage) -> ModelMessage:
        return _bare(message, opens=bool(self.history) and message is self.history[0])


def _begins_with(parts: Sequence[object], known: Sequence[object]) -> bool:
    return len(parts) >= len(known) and all(a is b or a == b for a, b in zip(parts, known, strict=False))


def _is_copy(message: ModelMessage, original: ModelMessage | None) -> bool:
    return original is not None and len(message.parts) > 0 and _begins_with(message.parts, original.parts)


def _bare(message: ModelMessage, *, opens: bool) -> ModelMessage:
    """Return the message without the instructions and system prompts that the agent adds to each request.

    Of an answer whose stream ended early only the text is returned, because tool calls and reasoning may be incomplete.
    """
    if isinstance(message, ModelResponse):
        if message.state != _CUT:
            return message
        return replace(message, parts=[part for part in message.parts if isinstance(part, TextPart) and part.content])
    said = message.parts[len(_leading_prompts(message)) if opens else 0 :]
    return replace(message, parts=[part for part in said if not _is_passing(part)], instructions=None)


def _leading_prompts(message: ModelMessage) -> list[SystemPromptPart]:
    """Return the system prompts at the beginning of a request. The agent adds them to each request."""
    parts = takewhile(lambda part: isinstance(part, SystemPromptPart), message.parts)
    return cast("list[SystemPromptPart]", list(parts))


def _is_passing(part: object) -> bool:
    """Return whether a part belongs to one request only."""
    return isinstance(part, SystemPromptPart) and part.scope == "request"


def _tool(find: Callable[[], Tools], schema: Mapping[str, Any]) -> Tool[Any]:
    """Return the tool of an MCP definition. `find` is called at each use and returns the tools of the agent run."""
    name = schema["name"]

    async def call(**arguments: Any) -> dict[str, Any]:
        return await find().call(name, arguments)

    return Tool.from_schema(call, name=name, description=schema["description"], json_schema=schema["inputSchema"])


_GO_ON: Final = (
    "Another agent run has answered in this conversation meanwhile. "
    "Continue your own work with the results of your tool calls above."
)
# The time is a required field, but it is not sent to the model.
_NO_TIME: Final = datetime(1970, 1, 1, tzinfo=UTC)
# Providers whose user messages may have cache marks, and those of them whose tool results may have one too.
_WITH_MARKS: Final = ("anthropic", "bedrock", "openrouter")
_WITH_MARKED_RESULTS: Final = ("anthropic", "bedrock")


def _with_context(request: ModelRequestContext, context: Context) -> ModelRequestContext:
    """Return a copy of the request with memory. The history of the agent run is not changed.

    The log and the static instructions become one text, because many servers accept only one system message. This text precedes
    instructions that change with each request, so that it can be cached.
    """
    parameters, messages = request.model_request_parameters, _messages(request, context)
    prompts = _leading_prompts(request.messages[0]) if request.messages else []
    parts = parameters.instruction_parts or []
    static = [part for part in parts if not part.dynamic and part.on_change == "rewrite"]
    others = [part for part in parts if part not in static]
    text = "\n\n".join(filter(None, [*(part.content for part in static), context.system]))
    if text and prompts and prompts[-1].dynamic_ref is None:
        prompts[-1] = replace(prompts[-1], content=f"{prompts[-1].content}\n\n{text}")
    elif text:
        others = [InstructionPart(content=text, name="log"), *others]
    if prompts:
        messages.insert(0, ModelRequest(parts=prompts))
    parameters = replace(parameters, instruction_parts=InstructionPart.sorted(others) or None)
    return replace(request, messages=messages, model_request_parameters=parameters)


def _messages(request: ModelRequestContext, context: Context) -> list[ModelMessage]:
    given = request.messages
    said = _with_joined_prompts(to_model_messages([message.filled for message in context.messages]))
    if said and isinstance(said[-1], ModelRequest):
        _add_parts(said, [part for one in given[-1:] for part in one.parts if _is_passing(part)])
    else:
        # A child or a concurrent turn has answered in the meantime. The last message must still be a request.
        said.append(_not_shown(given[-1:], said))
    if context.edge:
        _add_edge(said, context.edge_text, request)
    return said


def _not_shown(given: Sequence[ModelMessage], said: Sequence[ModelMessage]) -> ModelRequest:
    """Return the current request without the tool results that the context shows at their calls, or a note if none is left."""
    requests = [message for message in said if isinstance(message, ModelRequest)]
    shown = {getattr(part, "tool_call_id", None) for message in requests for part in message.parts} - {None}
    parts = [part for message in given if isinstance(message, ModelRequest) for part in message.parts]
    left = [part for part in parts if getattr(part, "tool_call_id", None) not in shown]
    return ModelRequest(parts=left or [UserPromptPart(content=_GO_ON, timestamp=_NO_TIME)])


def _with_joined_prompts(messages: Sequence[ModelMessage]) -> list[ModelMessage]:
    """Return the messages with consecutive prompts joined, because many servers refuse two user messages in a row.

    Consecutive answers, which concurrent turns make, are joined too if they are only text.
    """
    made: list[ModelMessage] = []
    for message in messages:
        if isinstance(message, ModelResponse):
            last = made[-1] if made else None
            if isinstance(last, ModelResponse) and _is_text(last) and _is_text(message):
                texts = [cast("TextPart", part).content for part in (*last.parts, *message.parts)]
                made[-1] = replace(last, parts=[TextPart(content="\n\n".join(texts))])
            else:
                made.append(message)
            continue
        parts: list[ModelRequestPart] = []
        for part in message.parts:
            before = parts or (made[-1].parts if made and isinstance(made[-1], ModelRequest) else [])
            last = before[-1] if before else None
            if isinstance(part, UserPromptPart) and isinstance(last, UserPromptPart):
                cast("list[ModelRequestPart]", before)[-1] = _joined(last, part.content)
            else:
                parts.append(part)
        if parts:
            made.append(replace(message, parts=parts))
    return made


def _is_text(response: ModelResponse) -> bool:
    return all(isinstance(part, TextPart) for part in response.parts)


def _joined(prompt: UserPromptPart, added: str | Sequence[UserContent]) -> UserPromptPart:
    """Return a prompt with added content. Two texts become one text, because not all servers accept lists."""
    content = prompt.content
    if isinstance(content, str) and isinstance(added, str):
        return replace(prompt, content=f"{content}\n\n{added}")
    first, second = ([one] if isinstance(one, str) else list(one) for one in (content, added))
    return replace(prompt, content=[*first, *second])


def _add_edge(messages: list[ModelMessage], edge: str, request: ModelRequestContext) -> None:
    """Append the edge to the last prompt. If the provider has cache marks, set one at the end of the other messages."""
    has_marks, last = _has_marks(request), len(messages) - 1
    places = ((n, k) for n in range(last, -1, -1) for k in range(len(messages[n].parts) - 1, -1, -1))
    found = next(((n, k) for n, k in places if isinstance(messages[n].parts[k], UserPromptPart)), None)
    if found is None:
        messages.insert(0, ModelRequest(parts=[UserPromptPart(content=edge, timestamp=_NO_TIME)]))
        return
    parts = list(cast("ModelRequest", messages[found[0]]).parts)
    prompt = cast("UserPromptPart", parts[found[1]])
    # Some providers cannot mark a prompt that ends in a file.
    ends_in_text = isinstance(prompt.content, str) or isinstance(prompt.content[-1], str)
    is_marked = has_marks and found[0] == last and ends_in_text
    # With cache marks the edge is a separate item, because a cache needs blocks that are equal at every step.
    added: str | list[UserContent] = [*([CachePoint()] if is_marked else []), edge] if has_marks else edge
    parts[found[1]] = _joined(prompt, added)
    messages[found[0]] = replace(cast("ModelRequest", messages[found[0]]), parts=parts)
    if has_marks and found[0] < last and all(m.system.startswith(_WITH_MARKED_RESULTS) for m in _models(request)):
        _add_parts(messages, [UserPromptPart(content=[CachePoint()], timestamp=_NO_TIME)])


def _add_parts(messages: list[ModelMessage], parts: Sequence[Any]) -> None:
    """Add parts to the last message if it is a request."""
    if isinstance(last := messages[-1], ModelRequest):
        messages[-1] = replace(last, parts=[*last.parts, *parts])


def _models(request: ModelRequestContext) -> Sequence[Model[Any]]:
    return request.model.models if isinstance(request.model, FallbackModel) else (request.model,)


def _has_marks(request: ModelRequestContext) -> bool:
    if (request.model_settings or {}).get("cache") is False:
        return False
    return any(
        model.system.startswith(_WITH_MARKS) or model.profile.get("openai_supports_prompt_cache_breakpoints")
        for model in _models(request)
    )


Child: TypeAlias = Literal["own", "shared", "read_only"]
"""The thread of an agent run inside another one: a separate thread, the outer thread, or the outer thread without writing."""

Chosen: TypeAlias = str | Callable[[RunContext[AgentDepsT]], str]
"""A text, or a function that gets the context of the agent run and returns a text: `lambda ctx: ctx.deps.user_id`."""

_ID: Final = "memolog"
# The agent run that is calling a tool. An agent run that the tool starts is its child.
_OUTER: ContextVar[MemoryRun | None] = ContextVar("memolog_outer_run", default=None)


@dataclass
class MemoryCapability(AbstractCapability[AgentDepsT]):
    """A long memory for an agent: `Agent(…, capabilities=[MemoryCapability(memory, "alice")])`.

    The conversation id of an agent run is the thread: `agent.run("…", conversation_id="t1")`. If `resource` is a function that
    uses `deps`, a type checker may need the type of `deps`: `MemoryCapability[Deps](memory, lambda ctx: ctx.deps.user)`.
    """

    memory: Memory
    resource: Chosen[AgentDepsT]
    """The id of the resource, or a function that returns the id."""

    _: KW_ONLY

    thread: Chosen[AgentDepsT] | None = None
    """The thread. The default is the conversation id of the agent run."""
    child: Child = "own"
    """The thread of an agent run that a tool of another agent run starts."""
    mode: str | None = None
    """What the observer looks for: `explore`, `bug_fixing`, `research` and so on."""
    settings: Mapping[str, Any] | None = None
    """Settings that replace those of the memory in these agent runs."""
    zone: Chosen[AgentDepsT] | None = None
    """The time zone of the user, such as `Europe/Lisbon`."""
    tools: bool = True
    """Whether the model gets the three memory tools, and instructions for them."""
    discard_on: type[BaseException] | tuple[type[BaseException], ...] = (GuardStopped,)
    """Exceptions with which guards stop an agent run. The turn is then discarded."""
    id: str | None = _ID
    outer: MemoryRun | None = field(default=None, repr=False, compare=False)
    """The outer agent run, if this is the memory of a child."""
    run: MemoryRun | None = field(default=None, init=False, repr=False, compare=False)
    """The current agent run. Each agent run has a separate copy of the capability."""

    def __post_init__(self) -> None:
        if self.defer_loading:
            raise InputError(
                "`defer_loading` is not supported.",
                why="Memory that is loaded later misses earlier messages.",
                then="Leave out `defer_loading`. To hide the tools, pass `tools=False`.",
            )
        check_memory(self.memory)
        check_errors("discard_on", self.discard_on)
        if self.child not in (known := get_args(Child)):
            raise InputError(
                f"`child` must be one of {', '.join(map(repr, known))}, got {self.child!r}.",
                then="Pass one of these texts.",
            )
        for name in ("resource", "thread", "zone"):
            value: object = getattr(self, name)
            if not isinstance(value, str) and not callable(value) and (value is not None or name == "resource"):
                raise InputError(
                    f"`{name}` must be a text or a function, got {value!r}.",
                    then=f"Pass a text, or a function that returns it: {name}=lambda ctx: ctx.deps.{name}.",
                )

    @classmethod
    def get_serialization_name(cls) -> str | None:
        """Return None, because an open memory cannot be serialized."""
        return None

    # ------------------------------------------------------------ what the agent gets

    def get_instructions(self) -> str | None:
        """Return the instructions for the tools; None without `tools`."""
        return guidance(read_only=self._is_reading) if self.tools else None

    def get_toolset(self) -> AbstractToolset[AgentDepsT] | None:
        """Return the tools; None without `tools`. In a read-only agent run they have no actions that write."""
        if not self.tools:
            return None
        offered = definitions("mcp", read_only=self._is_reading)
        return FunctionToolset([_tool(self._tools, schema) for schema in offered], id=self.id)

    @property
    def _is_reading(self) -> bool:
        return self.memory.config.read_only or (self.run is not None and self.run.read_only)

    def _tools(self) -> Tools:
        run = self._run
        return self.memory.resource(run.resource).tools(thread=run.thread, read_only=run.read_only)

    @property
    def _run(self) -> MemoryRun:
        if self.run is None:
            raise InputError(
                "The capability has no agent run.", then="Pass the capability to an agent and run the agent."
            )
        return self.run

    # ------------------------------------------------------------ an agent run

    async def for_run(self, ctx: RunContext[AgentDepsT]) -> AbstractCapability[AgentDepsT]:
        """Return the copy of the capability for one agent run."""
        settings: dict[str, Any] = {**(self.settings or {})}
        if self.mode is not None:
            settings["mode"] = self.mode
        outer, resource, thread, read_only = self._target(ctx)
        if read_only:
            settings["read_only"] = True
        zone = _chosen(self.zone, ctx) if self.zone is not None else None
        turn = self.memory.thread(thread, resource=resource).turn(zone=zone, settings=settings or None)
        copy = replace(self)
        first = ctx.messages[0].run_id if ctx.messages else ctx.run_id
        # A first message without a run id was created by the caller, not by an earlier agent run. Then there is no prefix.
        turn.id_prefix = prefix_of(first) if first else ""
        copy.run = MemoryRun(self.memory, turn, ctx.run_id, outer=outer, read_only=bool(settings.get("read_only")))
        return copy

    def _target(self, ctx: RunContext[AgentDepsT]) -> tuple[MemoryRun | None, str, str, bool]:
        """Return the outer agent run or None, the resource, the thread, and whether the agent run may only read."""
        resource, outer = _chosen(self.resource, ctx), self.outer or _OUTER.get()
        if outer is not None:
            is_same = outer.memory is self.memory and outer.resource == resource
            if self.outer is not None or (self.thread is None and is_same):
                return outer, resource, *_thread_of_child(outer, self.child, ctx)
        thread = _chosen(self.thread, ctx) if self.thread is not None else ctx.conversation_id or str(ctx.run_id)
        return None, resource, thread, self.memory.config.read_only

    async def wrap_run(self, ctx: RunContext[AgentDepsT], *, handler: WrapRunHandler) -> AgentRunResult[Any]:
        """Open the turn, run the agent, and save the remaining messages when the agent run ends or fails."""
        del ctx
        run = self._run
        await run.begin()
        try:
            result = await handler()
        except BaseException as error:
            # The shield lets the messages of a cancelled agent run be saved too.
            with anyio.CancelScope(shield=True):
                await run.end(error, is_guarded=isinstance(error, self.discard_on))
            raise
        await run.end(None, is_guarded=False)
        return result

    # ------------------------------------------------------------ hooks

    async def before_model_request(
        self, ctx: RunContext[AgentDepsT], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """Set the history, so that it is saved at the end even if a later hook fails."""
        self._run.history = ctx.messages
        return request_context

    async def prepare_model_request(
        self, ctx: RunContext[AgentDepsT], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """Save the new messages and return the request with the context."""
        last = request_context.messages[-1] if request_context.messages else None
        if isinstance(last, ModelResponse) and last.state == _UNFINISHED:
            # The provider continues a paused answer, so the request must not be changed.
            return request_context
        model = request_context.model_id or request_context.model.model_name
        context = await self._run.prepare(ctx.messages, model)
        return _with_context(request_context, context)

    async def before_node_run(
        self, ctx: RunContext[AgentDepsT], *, node: "AgentNode[AgentDepsT]"
    ) -> "AgentNode[AgentDepsT]":
        """Save an answer before its tools are called."""
        self._run.history = ctx.messages
        await self._run.keep()
        return node

    async def after_node_run(
        self, ctx: RunContext[AgentDepsT], *, node: "AgentNode[AgentDepsT]", result: "NodeResult[AgentDepsT]"
    ) -> "NodeResult[AgentDepsT]":
        """Save an answer as soon as it is in the history."""
        del node
        self._run.history = ctx.messages
        await self._run.keep()
        return result

    async def wrap_tool_execute(
        self,
        ctx: RunContext[AgentDepsT],
        *,
        call: ToolCallPart,
        tool_def: ToolDefinition,
        args: dict[str, Any],
        handler: WrapToolExecuteHandler,
    ) -> Any:
        """Call a tool. Agent runs that the tool starts are children of this agent run."""
        del ctx, call, tool_def
        token = _OUTER.set(self._run)
        try:
            return await handler(args)
        finally:
            _OUTER.reset(token)


def _chosen(value: Chosen[AgentDepsT], ctx: RunContext[AgentDepsT]) -> str:
    return value if isinstance(value, str) else value(ctx)


def _thread_of_child(outer: MemoryRun, child: Child, ctx: RunContext[Any]) -> tuple[str, bool]:
    """Return the thread of a child, and whether the child may only read."""
    match child:
        case "shared":
            return outer.thread, outer.read_only
        case "read_only":
            return outer.thread, True
        case "own":
            # A child that has the conversation id of the outer agent run, or none, is named after its agent.
            own = (ctx.agent.name if ctx.agent is not None else None) or "child"
            name = ctx.conversation_id if ctx.conversation_id not in {None, outer.thread} else own
            return f"{outer.thread}/{name}", outer.read_only


# ---------------------------------------------------------------- for tools and hooks


def child_memory(
    ctx: RunContext[Any], child: Child = "own", *, mode: str | None = None, tools: bool = True, **options: Any
) -> MemoryCapability[Any]:
    """Return the memory for an agent that this agent run starts: `other.run(…, capabilities=[child_memory(ctx)])`.

    The memory has the same resource, and `child` selects its thread. The other options are those of `MemoryCapability`.
    """
    outer = _running(ctx)
    return MemoryCapability(outer.memory, outer.resource, child=child, mode=mode, tools=tools, outer=outer, **options)


def discard_turn(ctx: RunContext[Any]) -> None:
    """Discard the turn when this agent run ends. Call it in a guard that stops an agent run without an exception."""
    _running(ctx).is_stopped = True


def _running(ctx: RunContext[Any]) -> MemoryRun:
    for capability in ctx.capabilities.values():
        if isinstance(capability, MemoryCapability) and capability.run is not None:
            return capability.run
    raise InputError(
        "The agent run has no memory.",
        then="Pass a MemoryCapability to the agent, or to `run(capabilities=[…])`.",
    )
