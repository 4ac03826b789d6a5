"""Values that an application extracts from a thread, with every version kept."""

from dataclasses import dataclass
from datetime import datetime

from memolog.domain.codec import JsonValue
from memolog.domain.observation import Span

__all__ = ["Extract", "NewExtract"]


@dataclass(frozen=True, slots=True, kw_only=True)
class NewExtract:
    """A value to be kept under its key."""

    key: str
    value: JsonValue


@dataclass(frozen=True, slots=True, kw_only=True)
class Extract:
    """One version of a value: what it is, who drew it, when, and from which messages."""

    key: str
    value: JsonValue
    version: int
    """Counted from 1 in the order of the messages; the newest holds."""
    by: str
    at: datetime
    thread: str
    span: Span
    run: str
