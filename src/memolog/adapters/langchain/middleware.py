"""The middleware: memory at every model request of a LangChain agent.

Knows the hooks and what the graph's state carries between them. Translates and decides nothing: what is new is saved before the
model is asked, what the model should see comes from the context, an answer is saved once no guard has stopped it.
"""

from collections.abc import Awaitable, Callable
from typing import Annotated, Any, NotRequired, TypeAlias, cast

from langchain.agents.middleware.pii import PIIDetectionError
from langchain.agents.middleware.types import (
    AgentMiddleware,
    AgentState,
    ExtendedModelResponse,
    ModelRequest,
    ModelResponse,
    PrivateStateAttr,
)
from langchain_core.messages import AnyMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langgraph.channels.untracked_value import UntrackedValue
from langgraph.config import get_config
from langgraph.errors import GraphBubbleUp
from langgraph.runtime import Runtime, get_runtime
from langgraph.types import Command

from memolog.adapters.checking import check_errors, check_memory
from memolog.adapters.guards import GuardStopped
from memolog.adapters.langchain.driving import Driver
from memolog.adapters.langchain.messages import to_langchain
from memolog.adapters.langchain.running import Run
from memolog.adapters.langchain.tools import tools_for
from memolog.adapters.sending import is_refusal
from memolog.context import Context
from memolog.domain.errors import InputError
from memolog.runtime.memory import Memory
from memolog.runtime.sync import SyncMemory
from memolog.tools import guidance

__all__ = ["MemoryMiddleware", "MemoryState"]

Named: TypeAlias = str | Callable[[Runtime[Any]], str] | None
Request: TypeAlias = ModelRequest[Any]
Response: TypeAlias = ModelResponse[Any]
Extended: TypeAlias = ExtendedModelResponse[Any]


class MemoryState(AgentState[Any]):
    """What memory keeps in the graph's state: nothing of it is input or output, and the run itself is not checkpointed."""

    memolog_run: NotRequired[Annotated[Run | None, UntrackedValue, PrivateStateAttr]]
    memolog: NotRequired[Annotated[dict[str, Any], PrivateStateAttr]]


class MemoryMiddleware(AgentMiddleware[Any, Any, Any]):
    """A long memory for an agent: `create_agent(…, middleware=[MemoryMiddleware(memory, resource="alice")])`.

    Put it first, so that guards stand between memory and the model on both sides.
    """

    state_schema = MemoryState

    def __init__(
        self,
        memory: Memory | SyncMemory,
        *,
        resource: Named = None,
        thread: Named = None,
        tools: bool = True,
        edge_after_results: bool = True,
        discard_on_jump: bool = True,
        guards: type[Exception] | tuple[type[Exception], ...] = (GuardStopped, PIIDetectionError),
        zone: str | None = None,
    ) -> None:
        """Take a memory, and whose it is: a name, a function of the runtime, or what the run's `configurable` says.

        Without a name the resource is `configurable["resource"]` and the thread is `configurable["thread_id"]`.

        `tools` offers the three tools. `edge_after_results=False` leaves the edge out where the last message is a tool's, for
        providers that take no words there. A middleware behind this one that jumps to the end has stopped the turn, which is
        then discarded unless `discard_on_jump` is False; so has one that raises one of `guards` while the model is called.
        """
        super().__init__()
        check_memory(memory, sync_too=True)
        check_errors("guards", guards)
        self._driver = Driver(memory)
        self._resource, self._thread, self._zone = resource, thread, zone
        self._has_tools, self._edge_after_results = tools, edge_after_results
        self._discards_on_jump, self._guards = discard_on_jump, guards
        self.tools = tools_for(self._driver, self.scope) if tools else []

    # ------------------------------------------------------------ whose memory

    def scope(self) -> tuple[str, str]:
        """Return the resource and the thread of the run that is under way."""
        settings: dict[str, Any] = get_config().get("configurable") or {}
        return (
            _named("resource", self._resource, settings.get("resource"), 'resource="…"'),
            _named("thread", self._thread, settings.get("thread_id"), 'configurable={"thread_id": "…"}'),
        )

    def _begun(self, state: MemoryState) -> Run:
        if (run := state.get("memolog_run")) is not None:
            return run
        resource, thread = self.scope()
        return Run(self._driver.memory, resource, thread, mark=state.get("memolog") or {}, zone=self._zone)

    # ------------------------------------------------------------ before the model

    def before_model(self, state: MemoryState, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Begin a step: a guard that ends the run from here on has stopped it."""
        del runtime
        run = self._begun(state)
        run.is_asked = True
        return {"memolog_run": run}

    async def abefore_model(self, state: MemoryState, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Begin a step."""
        return self.before_model(state, runtime)

    def wrap_model_call(self, request: Request, handler: Callable[[Request], Response]) -> Response | Extended:
        """Save what is new, and ask the model with memory in front of it."""
        run = self._begun(cast("MemoryState", request.state))
        context = self._driver.call(self._prepare(run, request))
        try:
            return _with_run(handler(self._asked(request, context)), run, request)
        except GraphBubbleUp:
            raise
        except BaseException as error:
            self._driver.call(self._failed(run, request, error))
            raise

    async def awrap_model_call(
        self, request: Request, handler: Callable[[Request], Awaitable[Response]]
    ) -> Response | Extended:
        """Save what is new, and ask the model with memory in front of it."""
        run = self._begun(cast("MemoryState", request.state))
        context = await self._driver.acall(self._prepare(run, request))
        try:
            return _with_run(await handler(self._asked(request, context)), run, request)
        except GraphBubbleUp:
            raise
        except BaseException as error:
            await self._driver.acall(self._failed(run, request, error))
            raise

    async def _prepare(self, run: Run, request: Request) -> Context:
        _name_results(request.messages)
        known = {one.id for one in request.state["messages"]}
        lasting: list[BaseMessage] = []
        ephemeral: list[BaseMessage] = []
        for one in request.messages:
            # What an outer middleware adds to one request is in no state, and is not stored.
            is_lasting = one.id in known or isinstance(one, ToolMessage | SystemMessage)
            (lasting if is_lasting else ephemeral).append(one)
        return await run.prepare(lasting, ephemeral=ephemeral, model=_model_name(request))

    async def _failed(self, run: Run, request: Request, error: BaseException) -> None:
        """Keep what was said when a model fails or a run is cancelled.

        A guard that raises has stopped the turn, and what a provider refuses is taken back.
        """
        if isinstance(error, self._guards):
            await run.stop(request.state["messages"])
        elif is_refusal(error):
            await run.take_back(request.state["messages"])
        else:
            await run.leave()

    def _asked(self, request: Request, context: Context) -> Request:
        """Return the request with the caller's instructions, the prefix, the messages of the context and the edge."""
        own = [request.system_message, *(one for one in request.messages if isinstance(one, SystemMessage))]
        texts = [guidance()] if self._has_tools else []
        system = _instructions([one for one in own if one is not None], [*texts, *filter(None, [context.system])])
        messages = [made for message in context.messages for made in to_langchain(message)]
        after_result = bool(messages) and isinstance(messages[-1], ToolMessage)
        if context.edge and (self._edge_after_results or not after_result):
            messages.append(HumanMessage(content=context.edge_text))
        return request.override(system_message=system, messages=messages)

    # ------------------------------------------------------------ after the model

    def after_model(self, state: MemoryState, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Save the answer: all guards behind this middleware have let it pass."""
        del runtime
        run = self._begun(state)
        self._driver.call(run.record(state["messages"]))
        return self._answered(run)

    async def aafter_model(self, state: MemoryState, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Save the answer: all guards behind this middleware have let it pass."""
        del runtime
        run = self._begun(state)
        await self._driver.acall(run.record(state["messages"]))
        return self._answered(run)

    def _answered(self, run: Run) -> dict[str, Any]:
        run.is_asked = False
        return {"memolog_run": run, "memolog": {**run.mark, "turn": run.id}}

    # ------------------------------------------------------------ the end

    def after_agent(self, state: MemoryState, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """End the turn."""
        del runtime
        self._driver.call(self._end(state))
        return _ended(state["messages"])

    async def aafter_agent(self, state: MemoryState, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """End the turn."""
        del runtime
        await self._driver.acall(self._end(state))
        return _ended(state["messages"])

    async def _end(self, state: MemoryState) -> None:
        run = state.get("memolog_run")
        is_stopped = run is None or run.is_asked
        if is_stopped and self._discards_on_jump:
            # No step began, or the last one did and no answer came through it: a guard has jumped to the end.
            await self._begun(state).stop(state["messages"])
        elif run is not None:
            await run.finish(state["messages"])

    def stop(self, state: MemoryState) -> None:
        """Discard the turn of the run with this state: a guard has stopped it."""
        self._driver.call(self._begun(state).stop(state["messages"]))

    async def astop(self, state: MemoryState) -> None:
        """Discard the turn of the run with this state: a guard has stopped it."""
        await self._driver.acall(self._begun(state).stop(state["messages"]))


# ---------------------------------------------------------------- pieces of a request


def _named(what: str, given: Named, configured: Any, how: str) -> str:
    name = given(get_runtime()) if callable(given) else given or configured
    if not isinstance(name, str) or not name:
        raise InputError(
            f"The run does not say which {what} it is about.",
            why="Every call of a memory names its resource and its thread.",
            then=f"Name it when the agent is called or the middleware is made: {how}.",
        )
    return name


def _with_run(response: Response, run: Run, request: Request) -> Response | Extended:
    """Put the run into the state where it is not yet: a run that failed at the model goes on there."""
    if cast("MemoryState", request.state).get("memolog_run") is run:
        return response
    run.is_asked = True
    return ExtendedModelResponse(model_response=response, command=Command(update={"memolog_run": run}))


def _model_name(request: Request) -> str | None:
    for attribute in ("model_name", "model"):
        if isinstance(name := getattr(request.model, attribute, None), str) and name:
            return name
    return None


def _name_results(messages: list[AnyMessage]) -> None:
    """Give an id to the results that LangChain makes for calls it could not read: they are saved before it does so."""
    asked = ""
    for message in messages:
        if isinstance(message, ToolMessage):
            message.id = message.id or f"{asked}:{message.tool_call_id}"
        elif message.id:
            asked = message.id


def _instructions(own: list[SystemMessage], texts: list[str]) -> SystemMessage | None:
    """Return one system message: the caller's own instructions first, then memory's prefix."""
    if not own and not texts:
        return None
    if all(isinstance(one.content, str) for one in own):
        return SystemMessage(content="\n\n".join(filter(None, [*(str(one.content) for one in own), *texts])))
    blocks: list[str | dict[str, Any]] = []
    for one in own:
        blocks.extend([{"type": "text", "text": one.content}] if isinstance(one.content, str) else one.content)
    return SystemMessage(content=[*blocks, *({"type": "text", "text": text} for text in texts)])


def _ended(messages: list[AnyMessage]) -> dict[str, Any]:
    last: BaseMessage | None = messages[-1] if messages else None
    return {"memolog_run": None, "memolog": {"until": last.id} if last is not None else {}}
