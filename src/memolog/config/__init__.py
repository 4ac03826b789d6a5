"""Every setting of Memolog: declared once, checked in one place, read from a mapping, a file or the environment."""

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
