"""A long memory for AI agents: the log tells what exists, search and recall return the exact words."""

from memolog.config import Config, KeepRecent, ObservationConfig, ReflectionConfig
from memolog.domain.errors import ConfigError, InputError, MemologError, NotFound, StoreError
from memolog.domain.message import (
    AssistantMessage,
    FilePart,
    Message,
    NewMessage,
    ReasoningPart,
    SystemMessage,
    TextPart,
    ToolCallPart,
    ToolMessage,
    ToolResultPart,
    UnknownPart,
    UserMessage,
)
from memolog.domain.observation import Span
from memolog.domain.run import Lease, Usage
from memolog.domain.thread import Thread
from memolog.runtime.opening import open_store
from memolog.store import Store
from memolog.version import __version__

__all__ = [
    "AssistantMessage",
    "Config",
    "ConfigError",
    "FilePart",
    "InputError",
    "KeepRecent",
    "Lease",
    "MemologError",
    "Message",
    "NewMessage",
    "NotFound",
    "ObservationConfig",
    "ReasoningPart",
    "ReflectionConfig",
    "Span",
    "Store",
    "StoreError",
    "SystemMessage",
    "TextPart",
    "Thread",
    "ToolCallPart",
    "ToolMessage",
    "ToolResultPart",
    "UnknownPart",
    "Usage",
    "UserMessage",
    "__version__",
    "open_store",
]
