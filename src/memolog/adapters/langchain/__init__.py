"""Memory for LangChain and LangGraph agents: a middleware, and the translation of messages. Needs the extra `langchain`."""

from memolog.adapters import missing

if (error := missing("langchain", "LangChain", "langchain")) is not None:
    raise error

from memolog.adapters.langchain.messages import from_langchain, to_langchain
from memolog.adapters.langchain.middleware import MemoryMiddleware, guarded

__all__ = ["MemoryMiddleware", "from_langchain", "guarded", "to_langchain"]
