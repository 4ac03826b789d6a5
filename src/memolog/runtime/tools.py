"""What a memory's tools offer, as a shape: the tools themselves are built on the memory, in `memolog.tools`.

Knows the names and nothing else.
"""

from typing import Any, Literal, Protocol

__all__ = ["Tools"]

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
