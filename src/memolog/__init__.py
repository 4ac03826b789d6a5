"""A long memory for AI agents: the log tells what exists, search and recall return the exact words.

The public names, each loaded when it is first used: a program that needs one value does not pay for all of them.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from memolog.version import __version__

if TYPE_CHECKING:
    from memolog.admin.backup import restore_backup
    from memolog.connection import open_store
    from memolog.context.context import Context
    from memolog.core.config import Config
    from memolog.core.config_sections import (
        CompactionConfig,
        ObservationConfig,
        RecallConfig,
        ReflectionConfig,
        RetentionConfig,
    )
    from memolog.core.message import (
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
    from memolog.core.observation import Extract, Generation, Observation, Span
    from memolog.core.reports import (
        Compacted,
        Compaction,
        ExportReport,
        Finding,
        Forgotten,
        ImportReport,
        Pruned,
        Report,
    )
    from memolog.core.run import Lease, Usage
    from memolog.core.settings import KeepRecent
    from memolog.core.thread import ThreadInfo
    from memolog.errors import (
        ConfigError,
        Conflict,
        InputError,
        MemologError,
        ModelFailed,
        NotFound,
        NotSaved,
        StoreBusy,
        StoreClosed,
        StoreError,
        StoreUnavailable,
    )
    from memolog.events import Event
    from memolog.log.status import Status
    from memolog.memory import Memory, Resource, Thread
    from memolog.observer.extractors import Extractor
    from memolog.observer.model import Model, ModelReply, ModelRequest
    from memolog.search.values import RecallPage, SearchAnswer, SearchResult
    from memolog.store import Store
    from memolog.sync import SyncMemory
    from memolog.turn import Turn

__all__ = [
    "AssistantMessage",
    "Compacted",
    "Compaction",
    "CompactionConfig",
    "Config",
    "ConfigError",
    "Conflict",
    "Context",
    "Event",
    "ExportReport",
    "Extract",
    "Extractor",
    "FilePart",
    "Finding",
    "Forgotten",
    "Generation",
    "ImportReport",
    "InputError",
    "KeepRecent",
    "Lease",
    "MemologError",
    "Memory",
    "Message",
    "Model",
    "ModelFailed",
    "ModelReply",
    "ModelRequest",
    "NewMessage",
    "NotFound",
    "NotSaved",
    "Observation",
    "ObservationConfig",
    "Pruned",
    "ReasoningPart",
    "RecallConfig",
    "RecallPage",
    "ReflectionConfig",
    "Report",
    "Resource",
    "RetentionConfig",
    "SearchAnswer",
    "SearchResult",
    "Span",
    "Status",
    "Store",
    "StoreBusy",
    "StoreClosed",
    "StoreError",
    "StoreUnavailable",
    "SyncMemory",
    "SystemMessage",
    "TextPart",
    "Thread",
    "ThreadInfo",
    "ToolCallPart",
    "ToolMessage",
    "ToolResultPart",
    "Turn",
    "UnknownPart",
    "Usage",
    "UserMessage",
    "__version__",
    "open_store",
    "restore_backup",
]

_HOMES = {
    "memolog.admin.backup": ("restore_backup",),
    "memolog.connection": ("open_store",),
    "memolog.context.context": ("Context",),
    "memolog.core.config": ("Config",),
    "memolog.core.config_sections": (
        "CompactionConfig",
        "ObservationConfig",
        "RecallConfig",
        "ReflectionConfig",
        "RetentionConfig",
    ),
    "memolog.core.message": (
        "AssistantMessage",
        "FilePart",
        "Message",
        "NewMessage",
        "ReasoningPart",
        "SystemMessage",
        "TextPart",
        "ToolCallPart",
        "ToolMessage",
        "ToolResultPart",
        "UnknownPart",
        "UserMessage",
    ),
    "memolog.core.observation": (
        "Extract",
        "Generation",
        "Observation",
        "Span",
    ),
    "memolog.core.reports": (
        "Compacted",
        "Compaction",
        "ExportReport",
        "Finding",
        "Forgotten",
        "ImportReport",
        "Pruned",
        "Report",
    ),
    "memolog.core.run": (
        "Lease",
        "Usage",
    ),
    "memolog.core.settings": ("KeepRecent",),
    "memolog.core.thread": ("ThreadInfo",),
    "memolog.errors": (
        "ConfigError",
        "Conflict",
        "InputError",
        "MemologError",
        "ModelFailed",
        "NotFound",
        "NotSaved",
        "StoreBusy",
        "StoreClosed",
        "StoreError",
        "StoreUnavailable",
    ),
    "memolog.events": ("Event",),
    "memolog.log.status": ("Status",),
    "memolog.memory": (
        "Memory",
        "Resource",
        "Thread",
    ),
    "memolog.observer.extractors": ("Extractor",),
    "memolog.observer.model": (
        "Model",
        "ModelReply",
        "ModelRequest",
    ),
    "memolog.search.values": (
        "RecallPage",
        "SearchAnswer",
        "SearchResult",
    ),
    "memolog.store": ("Store",),
    "memolog.sync": ("SyncMemory",),
    "memolog.turn": ("Turn",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> object:
    """Load a public name from its module."""
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module 'memolog' has no attribute {name!r}")
    value: object = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
