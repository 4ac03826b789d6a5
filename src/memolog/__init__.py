"""A long memory for AI agents. The log summarises all conversations, and search and recall return the exact words.

A public name is imported when it is first used, so that `import memolog` is fast.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from memolog.version import __version__

if TYPE_CHECKING:
    from memolog.admin.backup import restore_backup as restore_backup
    from memolog.connection import open_store as open_store
    from memolog.context.context import Context as Context
    from memolog.core.config import CompactionConfig as CompactionConfig
    from memolog.core.config import Config as Config
    from memolog.core.config import ObservationConfig as ObservationConfig
    from memolog.core.config import RecallConfig as RecallConfig
    from memolog.core.config import ReflectionConfig as ReflectionConfig
    from memolog.core.config import RetentionConfig as RetentionConfig
    from memolog.core.config import SemanticConfig as SemanticConfig
    from memolog.core.message import AssistantMessage as AssistantMessage
    from memolog.core.message import FilePart as FilePart
    from memolog.core.message import Message as Message
    from memolog.core.message import NewMessage as NewMessage
    from memolog.core.message import ReasoningPart as ReasoningPart
    from memolog.core.message import SystemMessage as SystemMessage
    from memolog.core.message import TextPart as TextPart
    from memolog.core.message import ToolCallPart as ToolCallPart
    from memolog.core.message import ToolMessage as ToolMessage
    from memolog.core.message import ToolResultPart as ToolResultPart
    from memolog.core.message import UnknownPart as UnknownPart
    from memolog.core.message import UserMessage as UserMessage
    from memolog.core.observation import Extract as Extract
    from memolog.core.observation import Generation as Generation
    from memolog.core.observation import Observation as Observation
    from memolog.core.observation import Span as Span
    from memolog.core.reports import Compacted as Compacted
    from memolog.core.reports import Compaction as Compaction
    from memolog.core.reports import ExportReport as ExportReport
    from memolog.core.reports import Finding as Finding
    from memolog.core.reports import Forgotten as Forgotten
    from memolog.core.reports import ImportReport as ImportReport
    from memolog.core.reports import Pruned as Pruned
    from memolog.core.reports import Report as Report
    from memolog.core.run import Lease as Lease
    from memolog.core.run import Usage as Usage
    from memolog.core.setting_kinds import KeepRecent as KeepRecent
    from memolog.core.thread import ThreadInfo as ThreadInfo
    from memolog.errors import ConfigError as ConfigError
    from memolog.errors import Conflict as Conflict
    from memolog.errors import InputError as InputError
    from memolog.errors import MemologError as MemologError
    from memolog.errors import ModelFailed as ModelFailed
    from memolog.errors import NotFound as NotFound
    from memolog.errors import NotSaved as NotSaved
    from memolog.errors import StoreBusy as StoreBusy
    from memolog.errors import StoreClosed as StoreClosed
    from memolog.errors import StoreError as StoreError
    from memolog.errors import StoreUnavailable as StoreUnavailable
    from memolog.events import Event as Event
    from memolog.log.status import Status as Status
    from memolog.memory import Memory as Memory
    from memolog.memory import Resource as Resource
    from memolog.memory import Thread as Thread
    from memolog.observer.extractors import Extractor as Extractor
    from memolog.observer.model import Model as Model
    from memolog.observer.model import ModelReply as ModelReply
    from memolog.observer.model import ModelRequest as ModelRequest
    from memolog.search.values import RecallPage as RecallPage
    from memolog.search.values import SearchAnswer as SearchAnswer
    from memolog.search.values import SearchResult as SearchResult
    from memolog.store import Store as Store
    from memolog.sync import SyncMemory as SyncMemory
    from memolog.turn import Turn as Turn

_HOMES = {
    "memolog.admin.backup": ("restore_backup",),
    "memolog.connection": ("open_store",),
    "memolog.context.context": ("Context",),
    "memolog.core.config": (
        "CompactionConfig",
        "Config",
        "ObservationConfig",
        "RecallConfig",
        "ReflectionConfig",
        "RetentionConfig",
        "SemanticConfig",
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
    "memolog.core.setting_kinds": ("KeepRecent",),
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

__all__ = ["__version__", *sorted(_HOME_OF)]  # noqa: PLE0604 # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> object:
    """Import a public name from its module."""
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module 'memolog' has no attribute {name!r}")
    value: object = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
