"""Save imported conversations and working memory documents. `memolog.transfer` reads the formats of other systems.

Messages keep their times and ids. Existing messages and documents are not changed. If imported messages are newer than an
existing thread, its `updated_at` is set to their time.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from memolog.admin.transfer_store import Arrived
from memolog.core.clock import to_micros
from memolog.core.message import NewMessage
from memolog.core.progress import report
from memolog.core.reports import ImportReport, Skipped
from memolog.errors import InputError, MessageConflict, ThreadExists, ThreadNotFound
from memolog.transfer.conversation import Conversation, marks_of
from memolog.working_memory.document import replaced

if TYPE_CHECKING:
    from memolog.store import Store

# The messages of one transaction, which takes a few milliseconds on the event loop.
_BATCH = 16
_LARGEST = 10_000_000
Progress = Callable[[int], None]
"""Called with the number of lines or messages that have been processed so far."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally(Arrived):
    """The counts and skipped items of an import that is under way."""

    format: str
    dry_run: bool
    progress: Progress | None = None
    expected: Counter[str] = field(default_factory=Counter[str])
    """How many messages the sources have. Empty if they were not counted."""
    revive: bool = False
    """Whether forgotten messages are imported again."""
    forgotten: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    """Resource and thread of conversations from which forgotten messages were left out."""
    resources: dict[str, None] = field(default_factory=dict[str, None])
    skipped: list[Skipped] = field(default_factory=list[Skipped])

    def skip(self, where: str, why: str) -> None:
        """Record an item that is not imported."""
        self.skipped.append(Skipped(where=where, why=why))

    def report(self) -> ImportReport:
        """Return the report of the import."""
        return ImportReport(
            format=self.format,
            dry_run=self.dry_run,
            resources=tuple(self.resources),
            added=dict(+self.added),
            unchanged=dict(+self.same),
            kept=dict(+self.kept),
            left=dict(+self.left),
            skipped=tuple(self.skipped),
        )


async def save_conversation(store: "Store", conversation: Conversation, resource: str, tally: Tally) -> None:
    """Save one conversation. Existing messages are not changed, and new messages are appended."""
    tally.skipped.extend(conversation.skipped)
    if not conversation.messages and not conversation.title and conversation.created_at is None:
        return
    tally.resources[resource] = None
    thread = conversation.thread
    if (remaining := await _without_forgotten(store, resource, conversation, tally)) is None:
        return
    conversation = remaining
    is_new = await _is_new(store, resource, thread)
    tally.added["thread"] += is_new
    tally.same["thread"] += not is_new
    if tally.dry_run:
        await _compare(store, resource, thread, conversation.messages, tally, is_new=is_new)
        return
    if is_new:
        try:
            await store.threads.create(resource, thread, title=conversation.title, metadata=conversation.metadata)
        except ThreadExists:
            is_new = False
    before = await store.threads.get(resource, thread)
    for start in range(0, len(conversation.messages), _BATCH):
        await _save(store, resource, thread, conversation.messages[start : start + _BATCH], tally)
        done = tally.added["message"] + tally.same["message"]
        if tally.progress is not None:
            tally.progress(done)
        report("messages", done, tally.expected["message"] or None)
    times = [one.created_at for one in conversation.messages if one.created_at]
    if is_new and (times or conversation.created_at):
        first = conversation.created_at or min(times)
        await store.transfers.date(resource, thread, created_at=first, updated_at=max([first, *times]))
    elif not is_new:
        # An import does not count as activity. So set the times of the thread back, or to the newest imported message if later.
        newest = max([before.updated_at, *times])
        await store.transfers.date(resource, thread, created_at=before.created_at, updated_at=newest)


async def save_document(store: "Store", resource: str, thread: str | None, text: str, who: str, tally: Tally) -> None:
    """Save an imported working memory document, unless the resource or thread has one already."""
    try:
        present = await store.working_memory.get(resource, thread)
    except ThreadNotFound:
        present = None
    if present is not None:
        counts = tally.same if present.current.text == text else tally.kept
        counts["working-memory"] += 1
        return
    tally.added["working-memory"] += 1
    if not tally.dry_run:
        await store.working_memory.change(resource, replaced(text), thread=thread, who=who, most=_LARGEST)


async def _without_forgotten(
    store: "Store", resource: str, conversation: Conversation, tally: Tally
) -> Conversation | None:
    """Return a conversation without forgotten messages. Return None if the thread was forgotten and no message remains."""
    thread, messages = conversation.thread, conversation.messages
    if tally.revive:
        if not tally.dry_run:
            await store.tombstones.lift(resource, thread, messages)
        return conversation
    times = [one.created_at for one in messages if one.created_at]
    began = conversation.created_at or min(times, default=None)
    # A conversation without a time counts as older than any forgotten thread.
    is_gone = bool(await store.tombstones.threads(resource, [(thread, to_micros(began) if began else 0)]))
    gone = await store.tombstones.find(resource, thread, messages)
    if not is_gone and not gone:
        return conversation
    tally.forgotten.add((resource, thread))
    tally.left["message"] += len(gone)
    remaining = tuple(one for index, one in enumerate(messages) if index not in gone)
    if is_gone and not remaining:
        tally.left["thread"] += 1
        return None
    # The title may contain forgotten text.
    return replace(conversation, messages=remaining, title=None, created_at=None)


async def _is_new(store: "Store", resource: str, thread: str) -> bool:
    try:
        await store.threads.get(resource, thread)
    except ThreadNotFound:
        return True
    return False


async def _save(store: "Store", resource: str, thread: str, messages: tuple[NewMessage, ...], tally: Tally) -> None:
    try:
        saved = await store.messages.save(resource, thread, messages, is_told_again=not tally.revive)
    except InputError as error:
        if len(messages) == 1:
            if isinstance(error, MessageConflict) and await _has_same_words(store, resource, thread, messages[0]):
                tally.same["message"] += 1
            else:
                why = error.what
                if isinstance(error, MessageConflict):
                    why = "it was forgotten" if error.is_forgotten else "another message has its id"
                tally.skip(f"{thread}, message {messages[0].id}", why)
            return
        # One refused message fails the whole batch, so save the messages one by one.
        for one in messages:
            await _save(store, resource, thread, (one,), tally)
        return
    tally.added["message"] += saved.added
    tally.left["message"] += saved.left
    tally.same["message"] += len(messages) - saved.added - saved.left


async def _has_same_words(store: "Store", resource: str, thread: str, one: NewMessage) -> bool:
    """Return whether a message is stored with the same content. An older release may have split the content into other parts."""
    rows = [row for row in await store.messages.get(resource, one.id or "", thread=thread) if row.state == "live"]
    stored = [mark for row in rows for mark in marks_of(one.role, row.parts)]
    return stored == marks_of(one.role, one.parts)


async def _compare(
    store: "Store", resource: str, thread: str, messages: tuple[NewMessage, ...], tally: Tally, *, is_new: bool
) -> None:
    known: set[str] = set()
    if not is_new:
        known = {one.id for one in await store.messages.after(resource, thread)}
    for one in messages:
        counts = tally.same if one.id in known else tally.added
        counts["message"] += 1
