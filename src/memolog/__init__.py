"""A long memory for AI agents: the log tells what exists, search and recall return the exact words.

The public names, each loaded when it is first used: a program that needs one value does not pay for all of them.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from memolog.version import __version__

if TYPE_CHECKING:
    from memolog.config import (
        CompactionConfig,
        Config,
        KeepRecent,
        ObservationConfig,
        RecallConfig,
        ReflectionConfig,
        RetentionConfig,
    )
    from memolog.context import Context
    from memolog.domain.compaction import Compacted, Compaction, Pruned
    from memolog.domain.diagnosis import Finding, Report
    from memolog.domain.errors import (
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
    from memolog.domain.extract import Extract
    from memolog.domain.forgetting import Forgotten
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
    from memolog.domain.observation import Generation, Observation, Span
    from memolog.domain.recall import RecallPage
    from memolog.domain.run import Lease, Usage
    from memolog.domain.search import SearchAnswer, SearchResult
    from memolog.domain.thread import ThreadInfo
    from memolog.domain.transfer import ExportReport, ImportReport
    from memolog.runtime.events import Event
    from memolog.runtime.extractors import Extractor
    from memolog.runtime.memory import Memory, Resource, Thread
    from memolog.runtime.model import Model, ModelReply, ModelRequest
    from memolog.runtime.opening import open_store
    from memolog.runtime.status import Status
    from memolog.runtime.sync import SyncMemory
    from memolog.runtime.transferring import restore_backup
    from memolog.runtime.turn import Turn
    from memolog.store import Store

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
    "memolog.config": (
        "CompactionConfig",
        "Config",
        "KeepRecent",
        "ObservationConfig",
        "RecallConfig",
        "ReflectionConfig",
        "RetentionConfig",
    ),
    "memolog.context": ("Context",),
    "memolog.domain.compaction": ("Compacted", "Compaction", "Pruned"),
    "memolog.domain.diagnosis": ("Finding", "Report"),
    "memolog.domain.errors": (
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
    "memolog.domain.extract": ("Extract",),
    "memolog.domain.forgetting": ("Forgotten",),
    "memolog.domain.message": (
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
    "memolog.domain.observation": ("Generation", "Observation", "Span"),
    "memolog.domain.recall": ("RecallPage",),
    "memolog.domain.run": ("Lease", "Usage"),
    "memolog.domain.search": ("SearchAnswer", "SearchResult"),
    "memolog.domain.thread": ("ThreadInfo",),
    "memolog.domain.transfer": ("ExportReport", "ImportReport"),
    "memolog.runtime.events": ("Event",),
    "memolog.runtime.extractors": ("Extractor",),
    "memolog.runtime.memory": ("Memory", "Resource", "Thread"),
    "memolog.runtime.model": ("Model", "ModelReply", "ModelRequest"),
    "memolog.runtime.opening": ("open_store",),
    "memolog.runtime.status": ("Status",),
    "memolog.runtime.sync": ("SyncMemory",),
    "memolog.runtime.transferring": ("restore_backup",),
    "memolog.runtime.turn": ("Turn",),
    "memolog.store": ("Store",),
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
