"""The three tools as tools of LangChain.

Knows how LangChain describes and calls a tool. Whose memory it is comes from the run's configuration, never from the model.
"""

from collections.abc import Callable
from typing import Any

from langchain_core.tools import BaseTool, StructuredTool

from memolog.adapters.langchain.driving import Driver
from memolog.domain.codec import dumps
from memolog.domain.own import OWN_TOOLS
from memolog.tools import definition

__all__ = ["tools_for"]

Scope = Callable[[], tuple[str, str]]


def tools_for(driver: Driver, scope: Scope) -> list[BaseTool]:
    """Return the tools; each call asks `scope` for the resource and the thread that the run is about."""
    return [_tool(name, driver, scope) for name in OWN_TOOLS]


def _tool(name: str, driver: Driver, scope: Scope) -> BaseTool:
    told = definition(name)["function"]

    async def answer(resource: str, thread: str, arguments: dict[str, Any]) -> str:
        tools = driver.memory.tools(resource, thread=thread, session=thread)
        return dumps(await tools.call(name, arguments))

    def call(**arguments: Any) -> str:
        return driver.call(answer(*scope(), arguments))

    async def acall(**arguments: Any) -> str:
        return await driver.acall(answer(*scope(), arguments))

    return StructuredTool(
        name=name, description=told["description"], args_schema=told["parameters"], func=call, coroutine=acall
    )
