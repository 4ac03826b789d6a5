"""Memory for Microsoft Agent Framework: a context provider, a guard, and the translation of messages.

Needs the extra `agent-framework`.
"""

from memolog.adapters import missing

if (error := missing("agent_framework", "Agent Framework", "agent-framework")) is not None:
    raise error

from memolog.adapters.agent_framework.messages import from_agent_framework, to_agent_framework
from memolog.adapters.agent_framework.provider import MemoryGuard, MemoryProvider

__all__ = ["MemoryGuard", "MemoryProvider", "from_agent_framework", "to_agent_framework"]
