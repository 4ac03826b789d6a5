"""Findings of a database check."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

__all__ = ["Finding", "FindingKind", "Report"]

FindingKind: TypeAlias = Literal[
    "alias",
    "blocked",
    "count",
    "coverage",
    "cursor",
    "damage",
    "dead-source",
    "forgotten-text",
    "hints",
    "index-behind",
    "index-extra",
    "index-missing",
    "index-stats",
    "index-word",
    "lease",
    "log-entry",
    "orphan",
    "overlap",
    "pair",
    "provenance",
    "rendering",
    "run",
    "sequence",
    "state",
    "task-link",
    "tokens",
    "version",
    "working-memory",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that is not as it must be."""

    kind: FindingKind
    where: str
    """What it was found in: resource, thread, log, task and the like, in words."""
    explanation: str
    """What is wrong, and what that means."""
    is_safe: bool
    """Whether `repair=True` can put it right without losing anything that was said."""
    repaired: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What was examined, and what was found."""

    findings: tuple[Finding, ...]
    examined: tuple[tuple[str, int], ...]
    """How many of each were looked at: threads, messages, groups and so on."""
    copy: str | None = None
    """Where the database was copied to before it was repaired."""
    index_rebuilt: bool = False

    @property
    def is_healthy(self) -> bool:
        """Return whether nothing is wrong any more."""
        return all(finding.repaired for finding in self.findings)
