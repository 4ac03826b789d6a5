"""What one server serves: a memory, whose it is, and how much of it is told at once.

Knows the scope, which is fixed before the first client comes. Knows nothing of the protocol but the words it cannot carry.
"""

import json
from dataclasses import dataclass, field
from typing import Any, Final

from memolog.adapters.guards import check_memory
from memolog.domain.errors import InputError
from memolog.runtime.memory import Memory
from memolog.runtime.tools import Tools

__all__ = ["PACK_TOKENS", "Served", "tool_definitions", "wire_json", "wire_text"]

PACK_TOKENS: Final = 4_000
_LEAST_TOKENS: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """A memory as the clients of one server see it."""

    memory: Memory
    resource: str
    thread: str | None = None
    """The conversation that the tools work for; without one, that which was active last is shown."""
    session: str | None = None
    """For whom tasks are claimed; without one, for the thread, or else for this server alone."""
    tokens: int = PACK_TOKENS
    """How large a context pack may be."""
    every: float = 2.0
    """How often to look for changes that other processes made, in seconds, while a client wants to know."""
    tools: Tools = field(init=False)

    def __post_init__(self) -> None:
        check_memory(self.memory)
        if self.tokens < _LEAST_TOKENS:
            raise InputError(
                f"A context pack cannot tell anything in {self.tokens} tokens.",
                then=f"Allow at least {_LEAST_TOKENS}.",
            )
        object.__setattr__(self, "tools", self.tools_of(self.session))

    @property
    def is_read_only(self) -> bool:
        """Tell whether clients may only look."""
        return self.memory.config.read_only

    def tools_of(self, session: str | None) -> Tools:
        """Return the tools, claiming for a session."""
        return self.memory.tools(self.resource, thread=self.thread, session=session)

    def definitions(self) -> list[dict[str, Any]]:
        """Return the definitions that clients are given."""
        return tool_definitions(self.tools, is_read_only=self.is_read_only)


def tool_definitions(tools: Tools, *, is_read_only: bool) -> list[dict[str, Any]]:
    """Return the tools' own definitions: without those that change anything where nothing may be changed."""
    return [one for one in tools.definitions("mcp") if not is_read_only or one["annotations"]["readOnlyHint"]]


def wire_text(text: str) -> str:
    """Return a text that can be sent: halves of surrogate pairs, which UTF-8 does not have, are joined or replaced."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def wire_json(value: object) -> str:
    """Return a value as JSON that can be sent."""
    return wire_text(json.dumps(value, ensure_ascii=False))
