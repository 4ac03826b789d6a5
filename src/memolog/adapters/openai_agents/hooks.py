"""The hooks of a run: what the memory must hear of, and then the caller's own hooks.

Knows the SDK's hooks. Knows not what is done with what it hears.
"""

from typing import Any, Protocol

from agents import Agent, AgentHookContext, ModelResponse, RunContextWrapper, RunHooks, Tool
from agents.items import TResponseInputItem

__all__ = ["RunWatch", "Watched"]


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
