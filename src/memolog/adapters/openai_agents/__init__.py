"""Memory for the OpenAI Agents SDK: a session that remembers, whatever the agent and its model are.

Knows the names that users need. Needs the SDK: `pip install "memolog[openai-agents]"`.
"""

from memolog.adapters.openai_agents.session import MemologSession

__all__ = ["MemologSession"]
