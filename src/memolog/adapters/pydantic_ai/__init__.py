"""Memory for Pydantic AI agents: a capability, and a store for conversations. Needs the extra `pydantic-ai`."""

from memolog.adapters import missing

if (error := missing("pydantic_ai", "Pydantic AI", "pydantic-ai")) is not None:
    raise error

from memolog.adapters.pydantic_ai.capability import Child, MemoryCapability, child_memory, discard_turn
from memolog.adapters.pydantic_ai.conversations import MemoryConversations

__all__ = ["Child", "MemoryCapability", "MemoryConversations", "child_memory", "discard_turn"]
