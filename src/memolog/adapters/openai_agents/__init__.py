"""Memory for the OpenAI Agents SDK: a session. Needs the extra `openai-agents`."""

from memolog.adapters import missing

if (error := missing("agents", "The OpenAI Agents SDK", "openai-agents")) is not None:
    raise error

from memolog.adapters.openai_agents.session import MemologSession

__all__ = ["MemologSession"]
