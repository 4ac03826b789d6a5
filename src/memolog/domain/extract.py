"""Extracts: values that an application has drawn from a thread, with every version kept.

Knows a value, where it comes from and who drew it. Knows not how it is asked for, nor what it means.
"""

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
