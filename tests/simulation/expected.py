"""What the database must hold: everything that was offered to it and acknowledged, and nothing else."""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from memolog.core.message import NewMessage, parts_to_json
from memolog.messages.store import Saved
from simulation.model import MARKER, MARKERS

__all__ = ["Expected", "Offered"]

Key = tuple[str, str]
RowKey = tuple[str, str, str, int]


@dataclass(slots=True)
class Offered:
    """A message as it was handed in, with all the parts it has grown to."""

    resource: str
    thread: str
    role: str
    parts: list[Any]


@dataclass(slots=True)
class Expected:
    """What was offered and what was acknowledged."""

    offered: dict[str, Offered] = field(default_factory=dict[str, Offered])
    acknowledged: set[RowKey] = field(default_factory=set[RowKey])
    unseen: set[RowKey] = field(default_factory=set[RowKey])
    """Acknowledged since the last check."""
    of_marker: dict[str, str] = field(default_factory=dict[str, str])
    """The message that each marker stands in."""

    def offer(self, resource: str, thread: str, messages: Iterable[NewMessage]) -> None:
        """Note what is handed in."""
        for message in messages:
            text = parts_to_json(message.parts)
            parts = json.loads(text)
            self.of_marker.update(dict.fromkeys(MARKER.findall(text), message.id or ""))
            known = self.offered.get(message.id or "")
            if known is None or len(known.parts) < len(parts):
                self.offered[message.id or ""] = Offered(resource, thread, message.role, parts)

    def acknowledge(self, saved: Saved) -> None:
        """Note what was committed."""
        rows = {(row.resource, row.thread, row.id, row.continuation) for row in saved.messages}
        self.acknowledged |= rows
        self.unseen |= rows

    def is_known(self, resource: str, thread: str, message: str) -> bool:
        """Return whether a message was acknowledged before."""
        return any((resource, thread, message, n) in self.acknowledged for n in (0, 1))

    def delete(self, resource: str, thread: str) -> None:
        """Note that a thread is gone."""
        gone = {row for row in self.acknowledged if row[:2] == (resource, thread)}
        self.acknowledged -= gone
        self.unseen -= gone

    def leak(self, resource: str, text: str) -> str | None:
        """Return the word of another resource in a text, if there is one."""
        own = MARKERS[int(resource[1:])]
        return next((word for word in MARKERS if word != own and word in text), None)
