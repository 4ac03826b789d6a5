"""Memory for graphs of LangGraph: a node with memory, and a store. Needs the extra `langchain`."""

from memolog.adapters import missing

if (error := missing("langgraph", "LangGraph", "langchain")) is not None:
    raise error

from memolog.adapters.langgraph.node import GraphMemory
from memolog.adapters.langgraph.store import MemologStore

__all__ = ["GraphMemory", "MemologStore"]
