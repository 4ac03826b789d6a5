"""Session of the OpenAI Agents SDK that a memory keeps, with its tools and two ways to run an agent."""

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, cast

from agents import (
    Agent,
    FunctionTool,
    InputGuardrailTripwireTriggered,
    OutputGuardrailTripwireTriggered,
    Runner,
    RunResult,
    RunResultStreaming,
    RunState,
    Tool,
    ToolInputGuardrailTripwireTriggered,
    ToolOutputGuardrailTripwireTriggered,
)
from agents.items import TResponseInputItem
from agents.memory import SessionSettings
from agents.tool_context import ToolContext

from memolog import InputError, Memory, NotFound
from memolog.adapters.guards import check_memory
from memolog.adapters.openai_agents.run import AgentRun, Item, to_items, to_messages
from memolog.domain.codec import dumps
from memolog.domain.message import Message
from memolog.runtime.tools import Tools

TRIPWIRES: Final = (
    InputGuardrailTripwireTriggered,
    OutputGuardrailTripwireTriggered,
    ToolInputGuardrailTripwireTriggered,
    ToolOutputGuardrailTripwireTriggered,
)
_PAGE: Final = 200
_LAST: Final = 2**62


class MemologSession:
    """One conversation of the Agents SDK with a long memory behind it.

    `await session.run(agent, "…")` and `async with session.stream(agent, "…") as result` are `Runner.run` and
    `Runner.run_streamed` with the memory in place. It is a `Session` by itself too: its items are the thread's messages.
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
        """Name the conversation and whose it is.

        The SDK is handed the latest `history` items at the start of a run, for guardrails and `to_input_list`; what the model
        sees is the memory's.
        """
        check_memory(memory)
        _check_history(history)
        self.memory, self.thread, self.resource, self.zone = memory, thread, resource, zone
        self.session_id = thread
        self.session_settings: SessionSettings | None = SessionSettings(limit=history)

    # ------------------------------------------------------------ running

    async def run(
        self, agent: Agent[Any], said: "str | list[TResponseInputItem] | RunState[Any, Any]", **options: Any
    ) -> RunResult:
        """Run an agent as `Runner.run` does, as one turn of the memory. A guardrail that stops it takes the turn back."""
        async with self._running(options) as (wiring, _):
            return await Runner.run(agent, said, **wiring)

    @asynccontextmanager
    async def stream(
        self, agent: Agent[Any], said: "str | list[TResponseInputItem] | RunState[Any, Any]", **options: Any
    ) -> AsyncGenerator[RunResultStreaming]:
        """Run an agent as `Runner.run_streamed` does, as one turn; leaving the block ends a stream that was left half-way."""
        async with self._running(options) as (wiring, run):
            result = Runner.run_streamed(agent, said, **wiring)
            try:
                yield result
            finally:
                await _end(result)
            if isinstance(error := result.run_loop_exception, TRIPWIRES) or (error and run.is_refused(error)):
                # Whoever did not read the stream to its end has not heard of it yet.
                raise error

    @asynccontextmanager
    async def _running(self, options: Mapping[str, Any]) -> AsyncGenerator[tuple[dict[str, Any], AgentRun]]:
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
        """Return the arguments for one call of `Runner.run` by hand: `Runner.run(agent, "…", **session.wiring())`.

        Nobody tells a session that a guardrail has stopped a run: only `run` and `stream` can take the turn back.
        """
        return AgentRun(self, is_one_turn=False).wiring(run_config, hooks)

    def tools(self) -> list[Tool]:
        """Return the three tools of the memory for an agent; whose memory they open is fixed here, not by the model."""
        return function_tools(self.memory.tools(self.resource, thread=self.thread))

    # ------------------------------------------------------------ the session protocol

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """Return the items of the conversation, oldest first: the latest ones if there is a limit."""
        items: list[Item] = []
        before = _LAST
        while limit is None or len(items) < limit:
            page = await self._page(before)
            if not page:
                break
            before = page[0].seq
            items = to_items([message for message in page if message.state == "live"]) + items
        shown = items if limit is None else items[max(0, len(items) - limit) :]
        return cast("list[TResponseInputItem]", shown)

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Save items at the end of the conversation."""
        async with self.memory.turn(self.thread, self.resource, zone=self.zone) as turn:
            await turn.record(*to_messages(items))

    async def pop_item(self) -> TResponseInputItem | None:
        """Forget the newest item and return it; None if there is none."""
        before = _LAST
        while page := await self._page(before):
            before = page[0].seq
            for message in reversed(page):
                items = to_items([message]) if message.state == "live" else []
                if items:
                    await self.memory.forget(self.resource, thread=self.thread, message=message.id)
                    if items[:-1]:
                        # What a model said at once is one message; what stays of it is said anew.
                        await self.add_items(cast("list[TResponseInputItem]", items[:-1]))
                    return cast("TResponseInputItem", items[-1])
        return None

    async def clear_session(self) -> None:
        """Forget the whole conversation, with all that was made of it."""
        try:
            await self.memory.forget(self.resource, thread=self.thread)
        except NotFound:
            return

    async def _page(self, before: int) -> Sequence[Message]:
        kit = await self.memory.open()
        try:
            page = await kit.store.messages.page(self.resource, self.thread, before=before, limit=_PAGE)
        except NotFound:
            return ()
        return page.items


def _check_history(history: object) -> None:
    if not isinstance(history, int) or history < 0:
        raise InputError(
            f"The SDK cannot be handed {history!r} items.", then="Pass a whole number as history=, 0 for none."
        )


async def _end(result: RunResultStreaming) -> None:
    """End a stream, wherever it is, and wait until nothing of it is running."""
    if not result.is_complete:
        result.cancel()
    task = result.run_loop_task
    if task is not None:
        await asyncio.wait([task])


def function_tools(toolset: Tools) -> list[Tool]:
    """Return the tools of one resource for an agent."""
    return [_tool(toolset, made) for made in toolset.definitions("openai-responses")]


def _tool(toolset: Tools, made: dict[str, Any]) -> FunctionTool:
    name: str = made["name"]

    async def invoke(context: ToolContext[Any], arguments: str) -> str:
        del context
        return dumps(await toolset.call(name, arguments))

    return FunctionTool(
        name=name,
        description=made["description"],
        params_json_schema=made["parameters"],
        on_invoke_tool=invoke,
        strict_json_schema=False,
    )
