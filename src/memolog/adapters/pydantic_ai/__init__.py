"""A long memory for Pydantic AI agents: `Agent(…, capabilities=[MemoryCapability(memory, "alice")])`.

Knows its public names. Everything else is in the modules beside it, and needs the extra `pydantic-ai`.
"""

from importlib.util import find_spec

from memolog.domain.errors import ConfigError

if find_spec("pydantic_ai") is None:
    raise ConfigError(
        "Pydantic AI is not installed.",
        why="Libraries that are adapted to are extras.",
        then='Run: pip install "memolog[pydantic-ai]".',
    )

from memolog.adapters.pydantic_ai.capability import Child, MemoryCapability, child_memory, discard_turn
from memolog.adapters.pydantic_ai.conversations import MemoryConversations

__all__ = ["Child", "MemoryCapability", "MemoryConversations", "child_memory", "discard_turn"]
