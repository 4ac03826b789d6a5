"""Capability of a Pydantic AI agent: its instructions and tools, and memory at each step of a run."""

from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import KW_ONLY, dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Final, Literal, TypeAlias, get_args

import anyio
from pydantic_ai import AgentRunResult, FunctionToolset, RunContext, Tool
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.capabilities.abstract import AgentNode, NodeResult, WrapRunHandler, WrapToolExecuteHandler
from pydantic_ai.messages import (
    CachePoint,
    InstructionPart,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserContent,
    UserPromptPart,
)
from pydantic_ai.models import ModelRequestContext
from pydantic_ai.tools import ToolDefinition
from pydantic_ai.toolsets import AbstractToolset

from memolog import Context
from memolog.adapters.guards import GuardStopped, check_errors, check_memory
from memolog.adapters.pydantic_ai.messages import to_model_messages
from memolog.adapters.pydantic_ai.run import MemoryRun, Place, is_passing, leading_prompts
from memolog.core.message import FilePart
from memolog.errors import InputError
from memolog.memory import Memory, Tools
from memolog.tools.definitions import definition, guidance

READING: Final = ("task-query", "memory-search")
WRITING: Final = ("task-query", "task-mutate", "memory-search")


def make_toolset(find: Callable[[], Tools], names: tuple[str, ...], id_: str | None) -> FunctionToolset[Any]:
    """Return a toolset that calls the tools returned by `find`, which is called at each use."""
    return FunctionToolset([_tool(find, name) for name in names], id=id_)


def _tool(find: Callable[[], Tools], name: str) -> Tool[Any]:
    async def call(**arguments: Any) -> dict[str, Any]:
        return await find().call(name, arguments)

    told = definition(name, "mcp")
    return Tool.from_schema(call, name=name, description=told["description"], json_schema=told["inputSchema"])


# A required field that is not sent.
_NO_TIME: Final = datetime(1970, 1, 1, tzinfo=UTC)


def is_resuming(request: ModelRequestContext) -> bool:
    """Tell whether the provider continues a paused answer; it needs the request unchanged."""
    last = request.messages[-1] if request.messages else None
    return isinstance(last, ModelResponse) and last.state == "suspended"


def with_context(request: ModelRequestContext, context: Context) -> ModelRequestContext:
    """Return the request with memory, for this attempt only."""
    messages = _messages(request, context)
    parameters = request.model_request_parameters
    if context.system:
        # The log is stable and stands before instructions that change with each request, so that it can be cached.
        parts = [*(parameters.instruction_parts or ()), InstructionPart(content=context.system, name="log")]
        parameters = replace(parameters, instruction_parts=InstructionPart.sorted(parts))
    return replace(request, messages=messages, model_request_parameters=parameters)


def _messages(request: ModelRequestContext, context: Context) -> list[ModelMessage]:
    given = request.messages
    prompts = leading_prompts(given[0]) if given else []
    opening = [ModelRequest(parts=prompts)] if prompts else []
    # The note before the tail changes with each request; the tail only grows.
    note = len(context.messages) - len(context.tail) - len(context.ephemeral)
    said = [*to_model_messages(context.messages[:note]), *to_model_messages(context.messages[note:])]
    if not said or not isinstance(said[-1], ModelRequest):
        # A concurrent turn has answered meanwhile: the current request must still come last.
        said += given[-1:]
    closing: list[SystemPromptPart | UserPromptPart] = [
        part
        for message in given[-1:]
        for part in message.parts
        if isinstance(part, SystemPromptPart) and is_passing(part)
    ]
    if context.edge and not _is_thinking(said):
        closing.append(_edge(request, context))
    return [*opening, *said, *([ModelRequest(parts=closing)] if closing else [])]


def _edge(request: ModelRequestContext, context: Context) -> UserPromptPart:
    """Return the edge, after a cache mark if one may stand there."""
    text, settings = context.edge_text, request.model_settings or {}
    # Some providers cannot mark a message that ends in a file.
    has_files = context.tail and any(isinstance(part, FilePart) for part in context.tail[-1].parts)
    marked: list[UserContent] = [CachePoint(), text]
    content = text if settings.get("cache") is False or has_files else marked
    return UserPromptPart(content=content, timestamp=_NO_TIME)


def _is_thinking(messages: Sequence[ModelMessage]) -> bool:
    """Tell whether a reasoning model is between two tool calls, where a user's text would end its reasoning."""
    last = messages[-1]
    if not any(isinstance(part, ToolReturnPart) for part in last.parts):
        return False
    for message in reversed(messages):
        if isinstance(message, ModelResponse):
            if any(isinstance(part, ThinkingPart) for part in message.parts):
                return True
        elif any(isinstance(part, UserPromptPart) for part in message.parts):
            return False
    return False


Child: TypeAlias = Literal["own", "shared", "read_only"]
"""The memory of a run inside another run: its own thread, the thread of the outer run, or that thread without writing."""

Chosen: TypeAlias = str | Callable[[RunContext[Any]], str]
"""A text, or a function of the run's context that returns it, such as `lambda ctx: ctx.deps.user_id`."""

_ID: Final = "memolog"
# The run that is calling a tool: a run that the tool starts is its child.
_OUTER: ContextVar[MemoryRun | None] = ContextVar("memolog_outer_run", default=None)


@dataclass
class MemoryCapability(AbstractCapability[Any]):
    """A long memory for an agent: `Agent(…, capabilities=[MemoryCapability(memory, "alice")])`.

    The conversation id of a run is the thread: `agent.run("…", conversation_id="t1")`.
    """

    memory: Memory
    resource: Chosen
    """The owner of the memory."""

    _: KW_ONLY

    thread: Chosen | None = None
    """The thread; by default the conversation id of the run."""
    child: Child = "own"
    """The memory of runs that a tool of another run starts."""
    mode: str | None = None
    """What the observer looks for: `explore`, `bug_fixing`, `research` and so on."""
    settings: Mapping[str, Any] | None = None
    """Settings of these runs that differ from the configuration of the memory."""
    zone: Chosen | None = None
    """The time zone of the user, such as `Europe/Lisbon`."""
    tools: bool = True
    """Whether to offer the three tools, with instructions for them."""
    discard_on: type[BaseException] | tuple[type[BaseException], ...] = (GuardStopped,)
    """Exceptions by which guards stop a run; such a run is discarded."""
    id: str | None = _ID
    outer: MemoryRun | None = field(default=None, repr=False, compare=False)
    """The outer run of a child, which determines the memory of the child."""
    run: MemoryRun | None = field(default=None, init=False, repr=False, compare=False)
    """The current run; each run has its own copy of the capability."""

    def __post_init__(self) -> None:
        """Check the arguments."""
        if self.defer_loading:
            raise InputError(
                "`defer_loading` is not supported: memory that is loaded later misses earlier messages.",
                then="Leave it out; `tools=False` hides the tools.",
            )
        check_memory(self.memory)
        check_errors("discard_on", self.discard_on)
        if self.child not in (known := get_args(Child)):
            raise InputError(
                f"`child` must be one of {', '.join(map(repr, known))}, got {self.child!r}.", then="Use one of these."
            )
        _check_chosen("resource", self.resource)
        for name in ("thread", "zone"):
            if getattr(self, name) is not None:
                _check_chosen(name, getattr(self, name))

    @classmethod
    def get_serialization_name(cls) -> str | None:
        """Return None: an open memory cannot be serialized."""
        return None

    # ------------------------------------------------------------ what the agent gets

    def get_instructions(self) -> str | None:
        """Return the instructions for the tools."""
        return guidance() if self.tools else None

    def get_toolset(self) -> AbstractToolset[Any] | None:
        """Return the tools; a read-only run gets none that write."""
        if not self.tools:
            return None
        is_reading = self.run is not None and self.run.place.read_only
        return make_toolset(self._tools, READING if is_reading else WRITING, self.id)

    def _tools(self) -> Tools:
        place = self._run.place
        return place.memory.resource(place.resource).tools(thread=place.thread)

    @property
    def _run(self) -> MemoryRun:
        if self.run is None:
            raise InputError("The capability has no run.", then="Pass it to an agent and run the agent.")
        return self.run

    # ------------------------------------------------------------ a run

    async def for_run(self, ctx: RunContext[Any]) -> AbstractCapability[Any]:
        """Return the copy of the capability for one run."""
        settings: dict[str, Any] = {**(self.settings or {})}
        if self.mode is not None:
            settings["mode"] = self.mode
        outer, place = self._place(ctx)
        if place.read_only:
            settings["read_only"] = True
        place = replace(place, read_only=bool(settings.get("read_only")))
        zone = _chosen(self.zone, ctx) if self.zone is not None else None
        turn = place.memory.thread(place.thread, resource=place.resource).turn(zone=zone, settings=settings or None)
        copy = replace(self)
        copy.run = MemoryRun(place, turn, ctx.run_id, outer)
        return copy

    def _place(self, ctx: RunContext[Any]) -> tuple[MemoryRun | None, Place]:
        """Return the outer run, if there is one, and the place of the run's memory."""
        if self.outer is not None:
            return self.outer, _inside(self.outer.place, self.child, ctx)
        resource, outer = _chosen(self.resource, ctx), _OUTER.get()
        if (
            self.thread is None
            and outer is not None
            and (outer.place.memory, outer.place.resource) == (self.memory, resource)
        ):
            return outer, _inside(outer.place, self.child, ctx)
        thread = _chosen(self.thread, ctx) if self.thread is not None else ctx.conversation_id or str(ctx.run_id)
        is_reading = self.memory.config.read_only
        return None, Place(memory=self.memory, resource=resource, thread=thread, read_only=is_reading)

    async def wrap_run(self, ctx: RunContext[Any], *, handler: WrapRunHandler) -> AgentRunResult[Any]:
        """Open the turn for the run, and save what is left when it ends or fails."""
        del ctx
        run = self._run
        await run.begin()
        try:
            result = await handler()
        except BaseException as error:
            # Messages of a cancelled run are saved too.
            with anyio.CancelScope(shield=True):
                await run.end(error, is_guarded=isinstance(error, self.discard_on))
            raise
        await run.end(None, is_guarded=False)
        return result

    # ------------------------------------------------------------ the moments in it

    async def before_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """Note the history, so that it is saved at the end even if a later hook fails."""
        self._run.look(ctx.messages)
        return request_context

    async def prepare_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """Save the new messages and return the request with the context."""
        if is_resuming(request_context):
            return request_context
        model = request_context.model_id or request_context.model.model_name
        context = await self._run.prepare(ctx.messages, model)
        return with_context(request_context, context)

    async def before_node_run(self, ctx: RunContext[Any], *, node: "AgentNode[Any]") -> "AgentNode[Any]":
        """Save an answer before its tools are called."""
        self._run.look(ctx.messages)
        await self._run.keep()
        return node

    async def after_node_run(
        self, ctx: RunContext[Any], *, node: "AgentNode[Any]", result: "NodeResult[Any]"
    ) -> "NodeResult[Any]":
        """Save an answer when it is in the history."""
        del node
        self._run.look(ctx.messages)
        await self._run.keep()
        return result

    async def wrap_tool_execute(
        self,
        ctx: RunContext[Any],
        *,
        call: ToolCallPart,
        tool_def: ToolDefinition,
        args: dict[str, Any],
        handler: WrapToolExecuteHandler,
    ) -> Any:
        """Call a tool; runs that it starts are children of this run."""
        del ctx, call, tool_def
        token = _OUTER.set(self._run)
        try:
            return await handler(args)
        finally:
            _OUTER.reset(token)


def _check_chosen(name: str, value: object) -> None:
    if not isinstance(value, str) and not callable(value):
        raise InputError(
            f"`{name}` must be a text or a function, got {value!r}.",
            then=f"Pass a text, or a function that returns it: {name}=lambda ctx: ctx.deps.{name}.",
        )


def _chosen(value: Chosen, ctx: RunContext[Any]) -> str:
    return value if isinstance(value, str) else value(ctx)


def _inside(outer: Place, child: Child, ctx: RunContext[Any]) -> Place:
    """Return the place of a child's memory."""
    match child:
        case "shared":
            return outer
        case "read_only":
            return replace(outer, read_only=True)
        case "own":
            # The library passes on the outer conversation id, which is not a name that the caller chose for the child.
            own = (ctx.agent.name if ctx.agent is not None else None) or "child"
            name = ctx.conversation_id if ctx.conversation_id not in {None, outer.thread} else own
            return replace(outer, thread=f"{outer.thread}/{name}")


# ---------------------------------------------------------------- for tools and hooks


def child_memory(
    ctx: RunContext[Any], child: Child = "own", *, mode: str | None = None, tools: bool = True, **options: Any
) -> MemoryCapability:
    """Return the memory for an agent that this run starts: `other.run(…, capabilities=[child_memory(ctx)])`.

    It has the same resource, and its own thread, this one, or this one without writing. The further options are those of
    `MemoryCapability`.
    """
    outer = _running(ctx)
    place = outer.place
    return MemoryCapability(place.memory, place.resource, child=child, mode=mode, tools=tools, outer=outer, **options)


def discard_turn(ctx: RunContext[Any]) -> None:
    """Discard this run when it ends: for a guard that stops a run without raising."""
    _running(ctx).is_stopped = True


def _running(ctx: RunContext[Any]) -> MemoryRun:
    for capability in ctx.capabilities.values():
        if isinstance(capability, MemoryCapability) and capability.run is not None:
            return capability.run
    raise InputError(
        "The run has no memory.", then="Give its agent a MemoryCapability, or pass one to `run(capabilities=[…])`."
    )
