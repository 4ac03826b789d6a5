"""What a memory's tools offer, as a shape: the tools themselves are built on the memory, in `memolog.tools`.

Knows the names and nothing else.
"""

from typing import Any, Literal, Protocol

from memolog.runtime.portal import Portal

__all__ = ["SyncTools", "Tools"]

Form = Literal["openai", "openai-responses", "anthropic", "mcp"]


class Tools(Protocol):
    """Three tools for a model: look at tasks, change them, search memory."""

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the tools."""
        ...

    @property
    def guidance(self) -> str:
        """Return how to use the tools, for the system prompt."""
        ...

    def definitions(self, form: Form = "openai") -> list[dict[str, Any]]:
        """Return the definitions to give to a model, in one of the forms."""
        ...

    async def call(self, name: str, arguments: object = None) -> dict[str, Any]:
        """Return the answer to a call, as a value whatever happens."""
        ...


class SyncTools:
    """The tools without `await`."""

    def __init__(self, tools: Tools, portal: Portal) -> None:
        self._tools, self._portal = tools, portal

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the tools."""
        return self._tools.names

    @property
    def guidance(self) -> str:
        """Return how to use the tools, for the system prompt."""
        return self._tools.guidance

    def definitions(self, form: Form = "openai") -> list[dict[str, Any]]:
        """Return the definitions to give to a model, in one of the forms."""
        return self._tools.definitions(form)

    def call(self, name: str, arguments: object = None) -> dict[str, Any]:
        """Return the answer to a call, as a value whatever happens."""
        return self._portal.call(self._tools.call(name, arguments))
