"""A `ConversationStore` of Pydantic AI in the database of a memory.

It returns stored messages unchanged. They are not part of the memory: they are not searched, observed or sent to the model.
"""

import contextlib
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final, cast

from pydantic_ai.conversation import Conversation, ConversationTypeAdapter
from pydantic_ai.conversation_store import (
    ConversationConflict,
    ConversationEntry,
    ConversationRecord,
    ConversationStore,
)
from pydantic_ai.messages import ModelMessagesTypeAdapter

from memolog.adapters.pydantic_ai.messages import dumped
from memolog.core.exact_json import JsonObject
from memolog.core.message import Message, NewMessage, UnknownPart
from memolog.errors import NotFound, ThreadExists
from memolog.memory import Memory
from memolog.transfer.exact import Json
from memolog.transfer.frameworks import PYDANTIC_AI

__all__ = ["MemoryConversations"]

# The conversations belong to a separate resource, whose id ends with this suffix.
_BESIDE: Final = "#conversations"
_PAGE: Final = 200
_ALL: Final = 2**31
# The settings of a thread whose messages are not observed.
_QUIET: Final = {"observe": False}
_PLAIN: Final = ("head_id", "scope", "forked_from", "forked_at", "branches", "revision")


class MemoryConversations(ConversationStore):
    """A `ConversationStore` in a memory's database, for one resource.

    Deleting a conversation deletes its messages too, unless a fork still needs them.
    """

    def __init__(self, memory: Memory, resource: str) -> None:
        self._resource = memory.resource(f"{resource}{_BESIDE}")

    # ------------------------------------------------------------ records

    async def read_record(self, conversation_id: str) -> ConversationRecord | None:
        """Return the record of a conversation; None if there is none."""
        try:
            thread = await self._resource.thread(conversation_id).info()
        except NotFound:
            return None
        return _record(conversation_id, thread.metadata)

    async def read_records(self, *, scope: str | None = None, limit: int | None = None) -> Sequence[ConversationRecord]:
        """Return the records, latest first."""
        found: list[ConversationRecord] = []
        page = None
        while page is None or page.next is not None:
            page = await self._resource.threads(limit=_PAGE, after=page.next if page else None)
            records = (_record(thread.id, thread.metadata) for thread in page.items)
            found += (record for record in records if record is not None and scope in {None, record.scope})
        return sorted(found, key=lambda record: record.updated_at, reverse=True)[:limit]

    async def write_record(
        self,
        record: ConversationRecord,
        *,
        new_entries: Sequence[ConversationEntry] = (),
        expected_revision: str | None,
    ) -> None:
        """Store the new entries, then the record if the stored revision is still `expected_revision`.

        If another save changes the revision in between, the new entries stay, but no record refers to them.
        """
        name = record.conversation_id
        thread = self._resource.thread(name)
        stored = await self.read_record(name)
        if (stored.revision if stored else None) != expected_revision:
            raise ConversationConflict(name)
        if record.head_id is not None and record.head_id not in {entry.id for entry in new_entries}:
            try:
                await self._row(record.head_id)
            except LookupError as error:
                raise ConversationConflict(name) from error
        with contextlib.suppress(ThreadExists):
            await thread.create(settings=_QUIET)
        if new_entries:
            await thread.save([_row_of(entry) for entry in new_entries])
        await thread.update(metadata=_change(name, expected_revision, record))

    async def delete_record(self, conversation_id: str, *, expected_revision: str) -> None:
        """Delete a record, and its entries unless another conversation was forked from them."""
        thread = self._resource.thread(conversation_id)
        try:
            await thread.update(metadata=_change(conversation_id, expected_revision, None))
        except NotFound as error:
            raise ConversationConflict(conversation_id) from error
        if not await self._is_needed(conversation_id):
            with contextlib.suppress(NotFound):
                await thread.forget()

    async def _is_needed(self, thread: str) -> bool:
        for record in await self.read_records():
            if record.forked_from is None:
                continue
            for tip in (record.head_id, *record.branches):
                if any(row.thread == thread for row in await self._line(tip)):
                    return True
        return False

    # ------------------------------------------------------------ entries

    async def read_entry(self, entry_id: str) -> ConversationEntry:
        """Return one entry."""
        return _entry(await self._row(entry_id))

    async def read_history(self, head_id: str | None, *, limit: int | None = None) -> list[ConversationEntry]:
        """Return an entry and the entries before it, oldest first."""
        return [_entry(row) for row in await self._line(head_id, limit)]

    async def _row(self, entry_id: str) -> Message:
        try:
            return (await self._resource.message(entry_id))[0]
        except NotFound as error:
            raise LookupError(entry_id) from error

    async def _line(self, head_id: str | None, limit: int | None = None) -> list[Message]:
        """Return an entry and its ancestors, oldest first. A fork may have ancestors in another conversation."""
        known: dict[str, Message] = {}
        line: list[Message] = []
        at = head_id
        while at is not None and (limit is None or len(line) < limit):
            if at not in known:
                row = await self._row(at)
                page = await self._resource.thread(row.thread).messages(limit=_ALL)
                known |= {one.id: one for one in page.items if one.state == "live"}
            line.append(known[at])
            at = cast("str | None", known[at].metadata.get("parent"))
        line.reverse()
        return line


# ---------------------------------------------------------------- rows


def _row_of(entry: ConversationEntry) -> NewMessage:
    part = UnknownPart(data=dumped(entry.message))
    return NewMessage(role="system", parts=(part,), id=entry.id, own=True, metadata={"parent": entry.parent_id})


def _entry(row: Message) -> ConversationEntry:
    # A forgotten entry has no parts. The IndexError is a LookupError, which Pydantic AI expects.
    part = cast("UnknownPart", row.parts[0])
    message = ModelMessagesTypeAdapter.validate_python([part.data])[0]
    return ConversationEntry(id=row.id, parent_id=cast("str | None", row.metadata.get("parent")), message=message)


def _change(name: str, expected: str | None, record: ConversationRecord | None) -> Any:
    """Return a function that changes the metadata of a thread. It raises ConversationConflict for an unexpected revision."""

    def change(old: JsonObject) -> JsonObject:
        stored = cast("Json | None", old.get(PYDANTIC_AI))
        if (stored["revision"] if stored else None) != expected:
            raise ConversationConflict(name)
        rest = {key: value for key, value in old.items() if key != PYDANTIC_AI}
        return rest if record is None else {**rest, PYDANTIC_AI: _data(record)}

    return change


def _data(record: ConversationRecord) -> Json:
    carried = Conversation(
        usage=record.usage,
        conversation_id=record.conversation_id,
        deferred_tool_requests=record.deferred_tool_requests,
    )
    data = cast("Json", ConversationTypeAdapter.dump_python(carried, mode="json"))
    plain = {name: getattr(record, name) for name in _PLAIN}
    kept = {name: data[name] for name in ("usage", "deferred_tool_requests")}
    return {**kept, **plain, "updated_at": record.updated_at.isoformat(), "format_version": record.format_version}


def _record(name: str, metadata: JsonObject) -> ConversationRecord | None:
    data = cast("Json | None", metadata.get(PYDANTIC_AI))
    if data is None:
        return None
    held = {"usage": data["usage"], "deferred_tool_requests": data["deferred_tool_requests"], "conversation_id": name}
    carried = ConversationTypeAdapter.validate_python(held)
    return ConversationRecord(
        conversation_id=name,
        usage=carried.usage,
        deferred_tool_requests=carried.deferred_tool_requests,
        updated_at=datetime.fromisoformat(data["updated_at"]),
        **{field: data[field] for field in _PLAIN},
    )
