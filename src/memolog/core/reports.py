"""Report of a `forget` call: ids and counts, never text, so that the report does not keep what was forgotten."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from typing import Literal, Self, TypeAlias

from memolog.core.observation import Span

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
class Forgotten:
    """Everything that was removed, or that would be: ids where they are useful, otherwise how many."""

    resource: str
    dry_run: bool = False
    threads: tuple[str, ...] = ()
    """Threads that are gone as a whole."""
    messages: int = 0
    observations: tuple[str, ...] = ()
    """Observations that said something of it, through every reflection."""
    reflections: tuple[str, ...] = ()
    """Short ids of the reflections that were derived again from what is left."""
    groups: int = 0
    """Groups that are gone or void; what is left of their messages is observed again."""
    runs: int = 0
    """Runs in flight that were given up, so that they cannot bring it back."""
    hints: int = 0
    """Threads whose current task, suggested response and observed title were removed."""
    working_memory: int = 0
    """Versions of working memory."""
    tasks: int = 0
    task_links: int = 0
    """Links between tasks and messages."""
    prompts: int = 0
    """Kept prompts with their replies."""
    extracts: int = 0
    compactions: int = 0
    contexts: int = 0
    """Records of what a context held."""
    events: int = 0
    index: int = 0
    """Documents of the search index, and words that nothing else holds."""
    usage: int = 0
    """Entries of the ledger that stay: they hold costs and no text."""
    copies: tuple[str, ...] = ()
    """Files beside the database that held a copy of it, and were removed."""
    is_clean: bool = False
    """Whether the file and its journal were written anew, so that no byte of it is left in them."""

    def __add__(self, other: Self) -> Self:
        """Return both reports as one."""
        own = {field.name: getattr(self, field.name) for field in fields(self)}
        sums = {name: value + getattr(other, name) for name, value in own.items() if name not in _NOT_SUMMED}
        return replace(self, is_clean=self.is_clean or other.is_clean, **sums)


_NOT_SUMMED = frozenset({"resource", "dry_run", "is_clean"})


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Compaction:
    """One batch: the messages of a span, and the summary that a context shows instead of them."""

    id: str
    thread: str
    span: Span
    level: int
    """1: indexed by summary, code lines and identifiers. 2: by summary only."""
    summary: str
    created_at: datetime
    messages: int = 0
    restored_at: datetime | None = None
    """When its messages were brought back; None while they are compacted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compacted:
    """What one call compacted, and what was observed of it."""

    messages: int
    """How many messages were compacted."""
    summary: str
    """The summaries of the batches, one after the other."""
    compactions: tuple[Compaction, ...] = ()
    deepened: int = 0
    """How many messages of older batches are now indexed by their summary only."""
    groups: tuple[str, ...] = ()
    """The handles of the groups of the log that cover what was compacted; recall takes them."""
    observations: tuple[str, ...] = ()
    """The ids of the observations that were made of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruned:
    """How many messages lost their raw text, and how many kept it, by reason."""

    messages: int
    young: int = 0
    not_observed: int = 0
    open_task: int = 0
    not_compacted: int = 0
    is_clean: bool = False
    """Whether a SQLite file was written anew, so that no byte of what was removed is left in it."""
