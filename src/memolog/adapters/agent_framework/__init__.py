"""Memory for agents of Microsoft Agent Framework: a context provider, guards, and the translation of messages.

Needs the library, which is an extra: `pip install "memolog[agent-framework]"`.
"""

from memolog.domain.errors import ConfigError

try:
    import agent_framework as _library
except ImportError as error:
    raise ConfigError(
        "Agent Framework is not installed.",
        why="The adapter for it is an extra.",
        then='Run: pip install "memolog[agent-framework]".',
    ) from error

from memolog.adapters.agent_framework.messages import from_agent_framework, to_agent_framework
from memolog.adapters.agent_framework.provider import MemoryGuard, MemoryProvider

__all__ = ["MemoryGuard", "MemoryProvider", "from_agent_framework", "to_agent_framework"]

del _library
