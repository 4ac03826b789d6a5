"""Memory for the OpenAI Agents SDK: a session that remembers, whatever the agent and its model are.

Knows its public names. Everything else is in the modules beside it, and needs the extra `openai-agents`.
"""

from importlib.util import find_spec

from memolog.domain.errors import ConfigError

if find_spec("agents") is None:
    raise ConfigError(
        "The OpenAI Agents SDK is not installed.",
        why="Libraries that are adapted to are extras.",
        then='Run: pip install "memolog[openai-agents]".',
    )

from memolog.adapters.openai_agents.session import MemologSession

__all__ = ["MemologSession"]
