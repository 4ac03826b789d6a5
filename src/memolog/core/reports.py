"""Reports of forgetting, checking, exporting, importing and compacting."""

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

_NOT_SUMMED = frozenset({"resource", "dry_run", "is_clean"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Forgotten:
    """What `forget` removed or would remove: ids and counts, never text, so that the report keeps nothing of it."""

    resource: str
    dry_run: bool = False
    threads: tuple[str, ...] = ()
    """Threads that were removed as a whole."""
    messages: int = 0
    observations: tuple[str, ...] = ()
    """Observations made from it, through every reflection."""
    reflections: tuple[str, ...] = ()
    """Handles of the reflections that were derived again from the remaining lines."""
    groups: int = 0
    """Groups that were removed or made void; their remaining messages are observed again."""
    runs: int = 0
    """Running runs that were abandoned, so that they cannot bring it back."""
    hints: int = 0
    """Threads whose current task, suggested response and observed title were removed."""
    working_memory: int = 0
    """Versions of working memory."""
    tasks: int = 0
    task_links: int = 0
    """Links between tasks and messages."""
    prompts: int = 0
    """Stored prompts with their replies."""
    extracts: int = 0
    compactions: int = 0
    contexts: int = 0
    """Records of contexts."""
    events: int = 0
    index: int = 0
    """Documents of the search index, and words that occur nowhere else."""
    usage: int = 0
    """Entries of the ledger, which stay: they hold costs and no text."""
    copies: tuple[str, ...] = ()
    """Copies of the database beside it that were removed."""
    is_clean: bool = False
    """Whether the file and its journal were rewritten, so that no byte of it is left in them."""

    def __add__(self, other: Self) -> Self:
        """Return both reports as one."""
        own = {field.name: getattr(self, field.name) for field in fields(self)}
        sums = {name: value + getattr(other, name) for name, value in own.items() if name not in _NOT_SUMMED}
        return replace(self, is_clean=self.is_clean or other.is_clean, **sums)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One problem that `doctor` found."""

    kind: FindingKind
    where: str
    """Where it was found: resource, thread, log, task and so on, in words."""
    explanation: str
    """What is wrong, and its consequences."""
    is_safe: bool
    """Whether `repair=True` can repair it without loss of messages."""
    repaired: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What `doctor` examined and found."""

    findings: tuple[Finding, ...]
    examined: tuple[tuple[str, int], ...]
    """How many of each were examined: threads, messages, groups and so on."""
    copy: str | None = None
    """Where the database was copied to before it was repaired."""
    index_rebuilt: bool = False

    @property
    def is_healthy(self) -> bool:
        """Return whether no finding is left unrepaired."""
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
    """The number of lines of each kind: message, observation, task and so on."""

    @property
    def threads(self) -> int:
        """Return the number of exported threads."""
        return self.lines.get("thread", 0)

    @property
    def messages(self) -> int:
        """Return the number of exported messages, including tombstones."""
        return self.lines.get("message", 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportReport:
    """What an import did, or would do. Counts are by kind: thread, message, observation and so on."""

    format: str
    dry_run: bool
    resources: tuple[str, ...]
    added: Mapping[str, int] = field(default_factory=dict[str, int])
    unchanged: Mapping[str, int] = field(default_factory=dict[str, int])
    """Exist already and are equal."""
    kept: Mapping[str, int] = field(default_factory=dict[str, int])
    """Exist already and have changed since the export: the existing ones stay."""
    left: Mapping[str, int] = field(default_factory=dict[str, int])
    """Were removed here since the export: they are not imported."""
    skipped: tuple[Skipped, ...] = ()
    """What could not be imported, and why."""

    @property
    def threads(self) -> int:
        """Return the number of new threads."""
        return self.added.get("thread", 0)

    @property
    def messages(self) -> int:
        """Return the number of new messages."""
        return self.added.get("message", 0)

    @property
    def has_changed_nothing(self) -> bool:
        """Return whether everything existed already."""
        return not any(self.added.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Compaction:
    """One batch of compacted messages: a span, and the summary that a context shows instead."""

    id: str
    thread: str
    span: Span
    level: int
    """1: indexed by summary, code lines and identifiers. 2: by summary only."""
    summary: str
    created_at: datetime
    messages: int = 0
    restored_at: datetime | None = None
    """When its messages were restored; None while they are compacted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compacted:
    """What one call compacted, and the observations about it."""

    messages: int
    """How many messages were compacted."""
    summary: str
    """The summaries of the batches, one after the other."""
    compactions: tuple[Compaction, ...] = ()
    deepened: int = 0
    """How many messages of older batches are now indexed by their summary only."""
    groups: tuple[str, ...] = ()
    """The handles of the groups that cover the compacted messages; recall takes them."""
    observations: tuple[str, ...] = ()
    """The ids of the observations about them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruned:
    """How many messages lost their raw text, and how many kept it, by reason."""

    messages: int
    young: int = 0
    not_observed: int = 0
    open_task: int = 0
    not_compacted: int = 0
    is_clean: bool = False
    """Whether a SQLite file was rewritten, so that no removed byte is left in it."""
