"""The three tools in the form of Pydantic AI.

Knows how a definition becomes a tool of the library. The scope comes from the run, never from the model.
"""

from collections.abc import Callable
from typing import Any, Final

from pydantic_ai import FunctionToolset, Tool

from memolog.runtime.tools import Tools
from memolog.tools.definitions import definition

__all__ = ["READING", "WRITING", "make_toolset"]

READING: Final = ("task-query", "memory-search")
WRITING: Final = ("task-query", "task-mutate", "memory-search")


def make_toolset(find: Callable[[], Tools], names: tuple[str, ...], id_: str | None) -> FunctionToolset[Any]:
    """Return a toolset whose calls go to the tools that `find` returns once a model calls one."""
    return FunctionToolset([_tool(find, name) for name in names], id=id_)


def _tool(find: Callable[[], Tools], name: str) -> Tool[Any]:
    async def call(**arguments: Any) -> dict[str, Any]:
        return await find().call(name, arguments)

    told = definition(name, "mcp")
    return Tool.from_schema(call, name=name, description=told["description"], json_schema=told["inputSchema"])
