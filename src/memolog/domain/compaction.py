"""Compactions: batches of messages that are shown and indexed by a summary, and can be restored."""

from dataclasses import dataclass
from datetime import datetime

from memolog.domain.observation import Span

__all__ = ["Compacted", "Compaction", "Pruned"]


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
