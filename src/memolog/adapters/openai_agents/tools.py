"""The three tools of the memory as function tools of the Agents SDK.

Knows the SDK's form of a tool. What the tools do, and that they never raise, is theirs.
"""

from typing import Any

from agents import FunctionTool, Tool
from agents.tool_context import ToolContext

from memolog.domain.codec import dumps
from memolog.runtime.tools import Tools

__all__ = ["function_tools"]


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
