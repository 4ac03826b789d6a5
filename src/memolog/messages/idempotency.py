"""Work out what saving a message adds to the stored ones: all of it, its new parts, or nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from memolog.core.message import Message, NewMessage, Part, Role, continues
from memolog.db.queries import Script, load_queries
from memolog.db.rows import message_from_row
from memolog.db.scope import chunks
from memolog.errors import MessageConflict

q = load_queries("messages/messages")

_IDS_A_QUERY = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Grown:
    """A stored message with all its parts so far."""

    id: str
    role: Role | None
    """None if no row of it is live."""
    parts: tuple[Part, ...]
    is_forgotten: bool = False
    """Part of it was forgotten: saving it again raises MessageConflict."""
    is_pruned: bool = False
    """Its raw text was removed: saving it again is accepted without comparing parts."""

    def lacks(self, offered: NewMessage, thread: str) -> tuple[Part, ...]:
        """Return the parts that are not stored yet; raises MessageConflict if role or parts differ."""
        if self.is_forgotten:
            raise MessageConflict(self.id, thread, None)
        if self.is_pruned:
            return ()
        if self.role is not None and self.role != offered.role:
            raise MessageConflict(self.id, thread, f"its role is {self.role}, not {offered.role}")
        rest = continues(self.parts, offered.parts)
        if rest is None:
            raise MessageConflict(self.id, thread, "its parts differ")
        return rest


def grown_from(rows: Sequence[Message]) -> Grown:
    """Return a message from its rows, at least one."""
    live = [row for row in rows if row.state == "live"]
    return Grown(
        id=rows[0].id,
        role=live[0].role if live else None,
        parts=tuple(part for row in live for part in row.parts),
        is_forgotten=any(row.state == "forgotten" for row in rows),
        is_pruned=any(row.pruned for row in rows),
    )


def grown_by_id(rows: Iterable[Message]) -> dict[str, Grown]:
    """Return the messages of these rows by id."""
    together: dict[str, list[Message]] = {}
    for row in rows:
        together.setdefault(row.id, []).append(row)
    return {name: grown_from(some) for name, some in together.items()}


def additions(known: Mapping[str, Grown], offered: Iterable[NewMessage], thread: str) -> Iterator[NewMessage]:
    """Yield what saving these messages in order would add. Messages that would be refused add nothing."""
    now = dict(known)
    for message in offered:
        before = now.get(message.id or "")
        try:
            rest = tuple(message.parts) if before is None else before.lacks(message, thread)
        except MessageConflict:
            continue
        if before is None or rest:
            yield message if before is None else replace(message, parts=rest)
        if message.id is not None and not (before and before.is_pruned):
            parts = (*before.parts, *rest) if before else rest
            now[message.id] = Grown(id=message.id, role=message.role, parts=parts)


def reading_grown(resource: str, thread: str, ids: Sequence[str]) -> Script[dict[str, Grown]]:
    """Return the stored ones among these messages."""
    found: dict[str, Grown] = {}
    for chunk in chunks(ids, _IDS_A_QUERY):
        known = yield q.known_ids(resource=resource, thread=thread, ids=chunk)
        for name in dict.fromkeys(row.id for row in known):
            rows = yield q.by_id(resource=resource, thread=thread, id=name)
            found[name] = grown_from([message_from_row(row) for row in rows])
    return found
