"""Every setting of Memolog: declared once, checked in one place, read from three sources.

Knows names, defaults, meanings and which values contradict each other. Knows no store, no model and
no clock; it reads a file only when it is handed a path, and never the process's own environment.
"""

from memolog.config.kinds import KeepRecent, Kind, patterns_in
from memolog.config.sections import CompactionConfig, ObservationConfig, RecallConfig, ReflectionConfig, RetentionConfig
from memolog.config.setting import Setting
from memolog.config.sizes import MODE_TOKENS
from memolog.config.sources import RESERVED_VARIABLES
from memolog.config.tree import Config, settings

__all__ = [
    "MODE_TOKENS",
    "RESERVED_VARIABLES",
    "CompactionConfig",
    "Config",
    "KeepRecent",
    "Kind",
    "ObservationConfig",
    "RecallConfig",
    "ReflectionConfig",
    "RetentionConfig",
    "Setting",
    "patterns_in",
    "settings",
]
