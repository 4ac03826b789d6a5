"""Find the new messages in a list of which some are stored already, and the turn of a run that saves them once.

A caller may pass the whole conversation, its end, or only what is new:

1. Everything up to the last stored assistant message in the list is history. A list without one continues the last stored answer.
2. After that, a beginning that equals the end of the stored messages is a repeated request. The rest is new.

Assistant messages are compared by tool calls and text. Reasoning and the spelling of a library are ignored.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final, TypeAlias, TypeVar

from memolog.adapters.provider_limits import take_back
from memolog.context.context import ContextMessage
from memolog.core.message import Message, NewMessage, Part, ToolCallPart, ToolResultPart
from memolog.errors import InputError, MemologError, NotFound, ThreadNotFound
from memolog.memory import Memory
from memolog.transfer.conversation import marks_of
from memolog.turn import Turn

_log = logging.getLogger("memolog")

# How many stored messages are searched for an answer of the list.
_PAGE: Final = 200
_PAGES: Final = 5
# How many are read if the list has no answer: only the end of the thread matters then.
_END: Final = 50
_LAST: Final = 2**62

Said: TypeAlias = NewMessage | Message | ContextMessage
S = TypeVar("S", bound=Said)


async def find_new(
    memory: Memory, resource: str, thread: str, given: Sequence[NewMessage]
) -> tuple[tuple[NewMessage, ...], tuple[Message, ...]]:
    """Return the new messages of a list, and the unanswered stored messages that it repeats.

    If the database cannot be read, everything after the last answer is new.
    """
    try:
        stored = await _stored(memory, resource, thread, given)
        new, repeated = align(given, stored)
        new = await _not_forgotten(memory, resource, thread, new)
        return with_names(new, (*stored, *given)), repeated
    except MemologError as error:
        if memory.config.strict or isinstance(error, InputError):
            raise
        _log.warning("stored messages cannot be read; everything after the last answer is taken for new: %s", error)
        return with_names(after_last_answer(given), given), ()


async def _not_forgotten(
    memory: Memory, resource: str, thread: str, new: tuple[NewMessage, ...]
) -> tuple[NewMessage, ...]:
    """Return messages without those that were forgotten and that a client sends again as history.

    The last message, and tool results after it, are never history.
    """
    last = len(new) - 1
    while last > 0 and new[last].role == "tool":
        last -= 1
    if last <= 0:
        return new
    gone = await memory.thread(thread, resource=resource).forgotten(new[:last], is_history=True)
    return tuple(one for place, one in enumerate(new) if place not in gone)


async def _stored(memory: Memory, resource: str, thread: str, given: Sequence[NewMessage]) -> list[Message]:
    """Return the last stored messages, as far back as the list may reach."""
    handle = memory.thread(thread, resource=resource)
    rows: list[Message] = []
    before: int | None = _LAST
    limit = _PAGE if has_answer(given) else _END
    for _ in range(_PAGES):
        try:
            page = await handle.messages(before=before, limit=limit)
        except ThreadNotFound:
            break
        rows = [*(row for row in page.items if row.state == "live"), *rows]
        before = int(page.next) if page.next else None
        if before is None or is_known(given, rows) or not has_answer(given):
            break
    return rows


def align(given: Sequence[NewMessage], stored: Sequence[S]) -> tuple[tuple[NewMessage, ...], tuple[S, ...]]:
    """Return the new messages of a list, and the unanswered messages at the end of `stored` that the list repeats.

    `stored` is the end of the thread, or all of it.
    """
    known = [marks_of(said.role, said.parts) for said in stored]
    start, since = _history(given, stored, known)
    rest = [marks_of(message.role, message.parts) for message in given[start:]]
    counts = range(min(len(rest), len(since)), 0, -1)
    count = next((count for count in counts if rest[:count] == since[-count:]), 0)
    return tuple(given[start + count :]), tuple(stored[len(stored) - count :])


def has_answer(given: Sequence[Said]) -> bool:
    """Tell whether a list has a message of the assistant."""
    return any(said.role == "assistant" for said in given)


def is_known(given: Sequence[NewMessage], stored: Sequence[Said]) -> bool:
    """Tell whether an assistant message of the list is stored."""
    known = {marks[-1] for said in stored if said.role == "assistant" and (marks := marks_of(said.role, said.parts))}
    return any(
        marks[-1] in known for said in given if said.role == "assistant" and (marks := marks_of(said.role, said.parts))
    )


def with_names(messages: Iterable[NewMessage], said: Iterable[Said]) -> tuple[NewMessage, ...]:
    """Return the messages with the names of their calls added to the results, which most APIs leave out.

    The results of Memolog's own tools are recognised by this name.
    """
    parts = [part for one in said for part in one.parts]
    names = {part.id: part.name for part in parts if isinstance(part, ToolCallPart)}
    return tuple(replace(message, parts=tuple(_named(part, names) for part in message.parts)) for message in messages)


def _named(part: Part, names: Mapping[str, str]) -> Part:
    if not isinstance(part, ToolResultPart) or part.name or part.call_id not in names:
        return part
    return replace(part, name=names[part.call_id])


def after_last_answer(given: Sequence[NewMessage]) -> tuple[NewMessage, ...]:
    """Return the messages after the last one of the assistant."""
    places = [place for place, said in enumerate(given) if said.role == "assistant"]
    return tuple(given[places[-1] + 1 :]) if places else tuple(given)


def _history(
    given: Sequence[NewMessage], stored: Sequence[Said], known: Sequence[list[str]]
) -> tuple[int, Sequence[list[str]]]:
    """Return the index where history ends in the list, and the marks of the messages stored after that."""
    answers = [place for place, said in enumerate(stored) if said.role == "assistant"]
    # Of equal answers the latest counts.
    last_place = {known[place][-1]: place for place in answers if known[place]}
    for place in range(len(given) - 1, -1, -1):
        marks = marks_of(given[place].role, given[place].parts) if given[place].role == "assistant" else []
        if marks and marks[-1] in last_place:
            return place + 1, known[last_place[marks[-1]] + 1 :]
    return 0, known[answers[-1] + 1 :] if answers else known


class AgentTurn:
    """The turn of a run, and what the store has of its thread."""

    def __init__(self, memory: Memory, resource: str, thread: str, *, zone: str | None = None) -> None:
        self.memory, self.resource, self.thread, self.zone = memory, resource, thread, zone
        self.id = ""
        """The id of the turn; empty before the first step."""
        self._turn: Turn | None = None
        # Sequence numbers of unanswered messages of an earlier run that this run repeats.
        self._repeated: tuple[int, ...] = ()

    async def open(self, id_: str = "") -> Turn:
        """Return the turn; after `leave` the same turn is opened again. `id_` continues a turn of an earlier run."""
        if self._turn is None:
            turn = self.memory.thread(self.thread, resource=self.resource).turn(zone=self.zone)
            turn.id = self.id or id_
            self._turn = await turn.__aenter__()
            self.id = turn.id
        return self._turn

    async def leave(self) -> None:
        """End the turn and keep what is saved."""
        turn, self._turn = self._turn, None
        if turn is not None:
            await turn.__aexit__(None, None, None)

    async def discard(self) -> None:
        """Withdraw everything that this run saved."""
        if self.id:
            turn = await self.open()
            self._turn, self.id = None, ""
            await turn.discard()

    async def take_back(self) -> None:
        """Withdraw what the provider rejected: the unanswered messages of this run and those that it repeats."""
        turn = await self.open()
        self._turn = None
        await take_back(turn, self._repeated, strict=self.memory.config.strict)

    async def new(self, said: Sequence[NewMessage]) -> tuple[NewMessage, ...]:
        """Return the messages that are not stored yet, and remember which of the others wait for an answer."""
        if not said or self.memory.config.read_only:
            return tuple(said)
        fresh, repeated = await find_new(self.memory, self.resource, self.thread, said)
        self._repeated += tuple(row.seq for row in repeated)
        return fresh

    async def rows(self, id_: str) -> tuple[Message, ...]:
        """Return the stored rows of a message; empty if there are none or the database cannot be read."""
        try:
            return await self.memory.resource(self.resource).message(id_, thread=self.thread)
        except MemologError:
            return ()

    async def is_new_thread(self) -> bool:
        """Tell whether nothing was ever saved in the thread; False if the database cannot be read."""
        try:
            return (await self.memory.thread(self.thread, resource=self.resource).info()).last_seq == 0
        except NotFound:
            return True
        except MemologError:
            return False
