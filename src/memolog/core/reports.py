"""Reports that forget, doctor, export, import, compact and prune return."""

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
    "vector",
    "version",
    "working-memory",
]

_NOT_SUMMED = frozenset({"resource", "dry_run", "is_clean"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Forgotten:
    """Ids and counts of the data that `forget` removed or would remove. It never contains the forgotten text."""

    resource: str
    dry_run: bool = False
    threads: tuple[str, ...] = ()
    """Ids of the threads that were removed completely."""
    messages: int = 0
    observations: tuple[str, ...] = ()
    """Ids of the observations that were made from the forgotten messages, also through reflections."""
    reflections: tuple[str, ...] = ()
    """Handles (such as g7) of the reflections that were made again from the remaining observations."""
    groups: int = 0
    """The number of groups that were removed or made void. Their remaining messages are observed again."""
    runs: int = 0
    """The number of running runs that were abandoned, so that they cannot store the forgotten text again."""
    hints: int = 0
    """The number of threads whose current task, suggested response and observed title were removed."""
    working_memory: int = 0
    """The number of versions of working memory."""
    items: int = 0
    tasks: int = 0
    task_links: int = 0
    """The number of links between tasks and messages."""
    prompts: int = 0
    """The number of stored prompts with their replies."""
    extracts: int = 0
    compactions: int = 0
    contexts: int = 0
    """The number of records of contexts."""
    events: int = 0
    index: int = 0
    """The number of documents in the search index, plus the words that occurred only in them."""
    usage: int = 0
    """The number of usage entries. They are not removed, because they contain costs and no text."""
    copies: tuple[str, ...] = ()
    """Paths of the copies beside the database file that were removed."""
    is_clean: bool = False
    """Whether the database file and its journal were rewritten, so that they contain no removed byte."""

    def __add__(self, other: Self) -> Self:
        """Return the sum of both reports."""
        own = {field.name: getattr(self, field.name) for field in fields(self)}
        sums = {name: value + getattr(other, name) for name, value in own.items() if name not in _NOT_SUMMED}
        return replace(self, is_clean=self.is_clean or other.is_clean, **sums)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One problem that `doctor` found."""

    kind: FindingKind
    where: str
    """The place of the problem in words: resource, thread, log, task and so on."""
    explanation: str
    """A description of the problem and its consequences."""
    is_safe: bool
    """Whether `repair=True` can repair the problem without loss of messages."""
    repaired: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The result of `doctor`."""

    findings: tuple[Finding, ...]
    examined: tuple[tuple[str, int], ...]
    """Pairs of a kind and the number of examined rows: threads, messages, groups and so on."""
    copy: str | None = None
    """The path of the copy of the database that was made before the repair. None means that there is no copy."""
    index_rebuilt: bool = False
    not_indexed: int = 0
    """The number of new messages and changed rows that are not indexed yet. The next search indexes them."""

    @property
    def is_healthy(self) -> bool:
        """Return whether every finding is repaired, or there is none."""
        return all(finding.repaired for finding in self.findings)


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped:
    """An entry of the source that was not imported."""

    where: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportReport:
    """The result of an export."""

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
    """The result of an import, or of its dry run. Counts are by kind: thread, message, observation and so on."""

    format: str
    dry_run: bool
    resources: tuple[str, ...]
    added: Mapping[str, int] = field(default_factory=dict[str, int])
    unchanged: Mapping[str, int] = field(default_factory=dict[str, int])
    """Entries that the database has already."""
    kept: Mapping[str, int] = field(default_factory=dict[str, int])
    """Entries that were changed in the database since the export. The changed ones stay."""
    left: Mapping[str, int] = field(default_factory=dict[str, int])
    """Entries that were removed from the database since the export. They are not imported."""
    skipped: tuple[Skipped, ...] = ()
    """Entries that could not be imported, with the reason."""

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
        """Return whether nothing was added."""
        return not any(self.added.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Compaction:
    """One batch of compacted messages. A context shows `summary` instead of the messages of `span`."""

    id: str
    thread: str
    span: Span
    level: int
    """1: the messages are indexed by summary, code lines and identifiers. 2: they are indexed by summary only."""
    summary: str
    created_at: datetime
    messages: int = 0
    restored_at: datetime | None = None
    """The time at which the messages were restored. None means that they are compacted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compacted:
    """The result of one call of `compact`."""

    messages: int
    """The number of messages that were compacted."""
    summary: str
    """The summaries of the batches, one after the other."""
    compactions: tuple[Compaction, ...] = ()
    deepened: int = 0
    """The number of messages in older batches that are now indexed by their summary only."""
    groups: tuple[str, ...] = ()
    """The handles (such as g7) of the groups that cover the compacted messages. `recall` accepts them."""
    observations: tuple[str, ...] = ()
    """The ids of the observations about the compacted messages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruned:
    """The number of messages whose raw text was deleted. Each reason to keep the text has the number of such messages."""

    messages: int
    young: int = 0
    not_observed: int = 0
    open_task: int = 0
    not_compacted: int = 0
    dry_run: bool = False
    """Whether the messages were only counted, and nothing was deleted."""
    is_clean: bool = False
    """Whether the SQLite file was rewritten, so that it contains no deleted byte."""
