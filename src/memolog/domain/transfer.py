"""Reports of exports and imports: counts by kind, and what was skipped and why."""

from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["ExportReport", "ImportReport", "Skipped"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped:
    """Something that an import left out."""

    where: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportReport:
    """What an export wrote."""

    resources: tuple[str, ...]
    lines: Mapping[str, int]
    """How many lines of each kind: message, observation, task …"""

    @property
    def threads(self) -> int:
        """Return how many threads there are in it."""
        return self.lines.get("thread", 0)

    @property
    def messages(self) -> int:
        """Return how many messages there are in it, tombstones too."""
        return self.lines.get("message", 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportReport:
    """What an import did, or would do. Counts are by kind: thread, message, observation and so on."""

    format: str
    dry_run: bool
    resources: tuple[str, ...]
    added: Mapping[str, int] = field(default_factory=dict[str, int])
    unchanged: Mapping[str, int] = field(default_factory=dict[str, int])
    """There already, and the same."""
    kept: Mapping[str, int] = field(default_factory=dict[str, int])
    """There already, and changed since: what is here holds."""
    left: Mapping[str, int] = field(default_factory=dict[str, int])
    """Removed here since the export was made: it stays away."""
    skipped: tuple[Skipped, ...] = ()
    """What could not be taken, and why."""

    @property
    def threads(self) -> int:
        """Return how many threads are new."""
        return self.added.get("thread", 0)

    @property
    def messages(self) -> int:
        """Return how many messages are new."""
        return self.added.get("message", 0)

    @property
    def has_changed_nothing(self) -> bool:
        """Return whether all of it was there already."""
        return not any(self.added.values())
