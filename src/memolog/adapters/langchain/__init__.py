"""Memory for LangChain and LangGraph agents: a middleware, and the translation of messages.

Needs LangChain, which is an extra: `pip install "memolog[langchain]"`.
"""

from memolog.domain.errors import ConfigError

try:
    import langchain.agents as _agents
except ImportError as error:
    raise ConfigError(
        "LangChain is not installed.",
        why="The adapter for it is an extra.",
        then='Run: pip install "memolog[langchain]".',
    ) from error

from memolog.adapters.langchain.messages import from_langchain, to_langchain
from memolog.adapters.langchain.middleware import MemoryMiddleware, guarded

__all__ = ["MemoryMiddleware", "from_langchain", "guarded", "to_langchain"]

del _agents
