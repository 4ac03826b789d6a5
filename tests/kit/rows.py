"""Stored values made by hand: messages of a thread, lines of a log, and a group as it is rendered."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from memolog.core.message import Message, Part, Role, TextPart
from memolog.core.observation import Observation, Priority, Source, Span
from memolog.log.rendering import render_group

# A Saturday.
SAID = datetime(2026, 3, 14, 9, 15, tzinfo=UTC)


def row(seq: int, role: Role, *parts: Part | str, **fields: Any) -> Message:
    """Return a stored message, one minute after the one before it."""
    made = tuple(TextPart(text=part) if isinstance(part, str) else part for part in parts)
    values: dict[str, Any] = {"id": f"m{seq}", "resource": "alice", "thread": "t1", "tokens": 1}
    values |= {"created_at": SAID + timedelta(minutes=seq), **fields}
    return Message(seq=seq, role=role, parts=made, **values)


def line(text: str, *cites: int, priority: Priority = "medium", ordinal: int = 1, **fields: Any) -> Observation:
    """Return a line of a log that cites these messages."""
    sources = tuple(Source(thread="t1", span=Span(first=seq, last=seq)) for seq in cites)
    values: dict[str, Any] = {"id": f"o{ordinal}", "group": "g", "sources": sources, "said_at": SAID, **fields}
    return Observation(ordinal=ordinal, priority=priority, text=text, **values)


def rendered(observations: Sequence[Observation], handle: str = "g1", **options: Any) -> str:
    """Return a group of lines as it stands in a log."""
    values: dict[str, Any] = {"previous": None, "alias": None, "is_reflection": False, **options}
    return render_group(handle=handle, observations=observations, **values)
