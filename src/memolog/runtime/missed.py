"""Contexts that could not be recorded when they were shown: what is known of them until the database takes it.

Knows messages by their ids, for they have no numbers before they are saved. Where one of them never is, the record is given
up: it would not be true.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from memolog.domain.codec import JsonObject
from memolog.domain.errors import MessageNotFound, ThreadNotFound
from memolog.domain.message import NewMessage
from memolog.store import Store

__all__ = ["MissedContexts"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Missed:
    """A context that was shown and is not recorded yet."""

    turn: str
    step: int
    at: datetime
    model: str | None
    record: JsonObject
    unsaved: tuple[str, ...]
    """The ids of the messages in it that were not saved then."""


class MissedContexts:
    """What a turn showed while the database was away, in its order."""

    def __init__(self) -> None:
        self._waiting: list[_Missed] = []

    def add(
        self, record: JsonObject, unsaved: Iterable[NewMessage], turn: str, step: int, at: datetime, model: str | None
    ) -> None:
        """Remember a context that could not be recorded."""
        ids = tuple(message.id for message in unsaved if message.id)
        self._waiting.append(_Missed(turn=turn, step=step, at=at, model=model, record=record, unsaved=ids))

    def clear(self) -> None:
        """Give the records up."""
        self._waiting.clear()

    async def record(self, store: Store, resource: str, thread: str) -> None:
        """Record the contexts, now that their messages are saved."""
        while self._waiting:
            one = self._waiting[0]
            try:
                rows = [row for id_ in one.unsaved for row in await store.messages.get(resource, id_, thread=thread)]
                head = await store.logs.snapshot(resource, thread, "thread", create=False, newest=1)
            except (MessageNotFound, ThreadNotFound):
                self._waiting.pop(0)
                continue
            # What the log covers was not shown again because it was said again.
            new = (row.seq for row in rows if row.seq > one.record["cursor"])
            record = {**one.record, "shown": sorted({*one.record["shown"], *new})}
            await store.journal.add_context(
                resource, head.thread.pk, turn=one.turn, step=one.step, now=one.at, record=record, model=one.model
            )
            self._waiting.pop(0)
