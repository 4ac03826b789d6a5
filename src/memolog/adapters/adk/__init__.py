"""Memory for the Agent Development Kit (ADK) of Google: a plugin, a memory service, a session service. Needs the extra `adk`."""

from importlib.util import find_spec

from memolog.adapters import missing

# The namespace `google` may be missing too, so it is looked up first.
if (error := missing("google" if find_spec("google") is None else "google.adk", "The ADK", "adk")) is not None:
    raise error

from memolog.adapters.adk.memory_service import MemologMemoryService
from memolog.adapters.adk.plugin import MemologPlugin
from memolog.adapters.adk.session_service import MemologSessionService

__all__ = ["MemologMemoryService", "MemologPlugin", "MemologSessionService"]
