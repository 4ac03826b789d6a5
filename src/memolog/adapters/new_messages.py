"""Find the new messages in the list that a client sends, and rewind the thread if the client went back to an earlier message."""

import logging
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from itertools import takewhile
from typing import Final

from memolog.adapters.alignment import Said, after_last_answer, align, has_answer, marks
from memolog.adapters.provider_limits import take_back
from memolog.core.message import Message, NewMessage, Part, ToolCallPart, ToolResultPart
from memolog.errors import InputError, MemologError, NotFound, ThreadNotFound
from memolog.memory import Memory
from memolog.transfer.exact import notes
from memolog.turn import Turn

_log = logging.getLogger("memolog")

# If the list contains an answer, at most `_PAGES` pages of `_PAGE` stored messages are read.
_PAGE: Final = 200
_PAGES: Final = 5
# If the list contains no answer, only this many messages at the end of the thread are read.
_END: Final = 50
# Larger than every sequence number.
_LAST: Final = 2**62


async def find_new(
    memory: Memory,
    resource: str,
    thread: str,
    given: Sequence[NewMessage],
    *,
    own_turns: str | None = None,
    is_whole: bool = False,
) -> tuple[tuple[NewMessage, ...], tuple[Message, ...]]:
    """Return the new messages of a list, and the unanswered stored messages that the list repeats.

    With `own_turns` the thread is rewound if the client went back to an earlier message. All later messages must then belong to
    ended turns whose ids begin with `own_turns`, except messages of others directly before an edited question, which stay.
    `is_whole` means that the client always sends its whole conversation. If the
    database cannot be read, all messages after the last answer count as new, or with `config.strict` the error is raised.
    """
    try:
        stored, is_beginning = await _stored(memory, resource, thread, given)
        rewinds = own_turns is not None and not memory.config.read_only
        found = align(given, stored, rewinds=rewinds, is_beginning=is_beginning, is_whole=is_whole)
        new = found.new
        if found.kept is not None:
            kept = _after_others(stored, found.kept, own_turns or "") if _is_question(new[:1]) else found.kept
            to = stored[kept - 1].seq if kept else 0
            branch = await memory.thread(thread, resource=resource).rewind(to=to, only_turns=own_turns)
            # If nothing was rewound, the stored answer still follows the question, so the question is saved again.
            new = new if branch else new or after_last_answer(given)
        new = await _not_forgotten(memory, resource, thread, new)
        return with_calls(with_names(new, (*stored, *given)), stored), tuple(stored[len(stored) - found.repeated :])
    except MemologError as error:
        if memory.config.strict or isinstance(error, InputError):
            raise
        _log.warning("stored messages cannot be read, so all messages after the last answer count as new: %s", error)
        return with_names(after_last_answer(given), given), ()


def _is_question(first: Sequence[NewMessage]) -> bool:
    return any(
        said.role == "user" and not any(isinstance(part, ToolResultPart) for part in said.parts) for said in first
    )


def _after_others(stored: Sequence[Message], kept: int, own_turns: str) -> int:
    """Return `kept` plus the number of messages of others that follow directly. An edited question may be asked after them.

    For example, chat programs ask for a title in the same thread.
    """
    others = takewhile(lambda row: not (row.turn or "").startswith(own_turns), stored[kept:])
    return kept + sum(1 for _ in others)


async def _not_forgotten(
    memory: Memory, resource: str, thread: str, new: tuple[NewMessage, ...]
) -> tuple[NewMessage, ...]:
    """Return the new messages without forgotten ones, which a client sends again as history.

    The last message that is not a tool result, and the tool results after it, are not history. They are always returned.
    """
    last = len(new) - 1
    while last > 0 and new[last].role == "tool":
        last -= 1
    if last <= 0:
        return new
    gone = await memory.thread(thread, resource=resource).forgotten(new[:last], is_history=True)
    return tuple(message for index, message in enumerate(new) if index not in gone)


async def _stored(
    memory: Memory, resource: str, thread: str, given: Sequence[NewMessage]
) -> tuple[list[Message], bool]:
    """Return the live messages at the end of the thread, and whether they are the whole thread.

    Pages are read until one contains the first question of the list and there are as many messages as in the list, but at most
    `_PAGES`.
    """
    handle = memory.thread(thread, resource=resource)
    rows: list[Message] = []
    before: int | None = _LAST
    asked = next((marks(said) for said in given if said.role == "user"), None)
    for _ in range(_PAGES):
        try:
            page = await handle.messages(before=before, limit=_PAGE if has_answer(given) else _END)
        except ThreadNotFound:
            return [], True
        rows = [*(row for row in page.items if row.state == "live"), *rows]
        before = int(page.next) if page.next else None
        # Later questions may be equal to the first one, so it must not be found too early.
        is_found = len(rows) >= len(given) and any(marks(row) == asked for row in page.items)
        if before is None or not has_answer(given) or is_found:
            break
    return rows, before is None


def with_names(messages: Iterable[NewMessage], said: Iterable[Said]) -> tuple[NewMessage, ...]:
    """Return the messages with the name of the tool added to each tool result, because most APIs leave it out.

    The names are read from the tool calls in `said`. Results of Memolog's own tools are recognised by the name of the tool.
    """
    parts = [part for one in said for part in one.parts]
    names = {part.id: part.name for part in parts if isinstance(part, ToolCallPart)}
    return tuple(replace(message, parts=tuple(_named(part, names) for part in message.parts)) for message in messages)


def _named(part: Part, names: Mapping[str, str]) -> Part:
    if not isinstance(part, ToolResultPart) or part.name or part.call_id not in names:
        return part
    return replace(part, name=names[part.call_id])


def with_calls(messages: Sequence[NewMessage], stored: Iterable[Said]) -> tuple[NewMessage, ...]:
    """Return the messages, in which a tool result without an id gets the id of the stored call that it answers.

    The Gemini API allows results without ids, even if their calls have ids. They are matched by the name of the tool.
    """
    parts = [part for one in stored for part in one.parts]
    answered = {part.call_id for part in parts if isinstance(part, ToolResultPart)}
    waiting = [part for part in parts if isinstance(part, ToolCallPart) and part.id not in answered]
    made: list[NewMessage] = []
    for message in messages:
        several: list[Part] = []
        for part in message.parts:
            found = None
            if isinstance(part, ToolResultPart) and _has_no_id(part):
                found = next((call for call in waiting if call.name == part.name), None)
            if found is not None and isinstance(part, ToolResultPart):
                waiting.remove(found)
                part = replace(part, call_id=found.id, extra=part.extra if _has_no_id(found) else None)  # noqa: PLW2901
            several.append(part)
        made.append(replace(message, parts=tuple(several)) if tuple(several) != message.parts else message)
    return tuple(made)


def _has_no_id(part: Part) -> bool:
    return bool(notes(part, "google").get("no_id"))


def prefix_of(first: str) -> str:
    """Return the prefix of turn ids for a conversation with this first message."""
    return f"{sha256(first.encode('utf-8', 'surrogatepass')).hexdigest()[:12]}-"


class AgentTurn:
    """The turn of an agent run, and methods that find out which messages are stored already."""

    def __init__(self, memory: Memory, resource: str, thread: str, *, zone: str | None = None) -> None:
        self.memory, self.resource, self.thread, self.zone = memory, resource, thread, zone
        self.id = ""
        """The id of the turn. It is empty before the first step."""
        self.id_prefix = ""
        """The beginning of the ids of new turns. Agent runs whose histories have the same first message have the same prefix."""
        self._turn: Turn | None = None
        # Sequence numbers of unanswered messages of an earlier agent run that this agent run repeats.
        self._repeated: tuple[int, ...] = ()

    async def open(self, id_: str = "") -> Turn:
        """Return the open turn. After `leave` the same turn is opened again. `id_` continues the turn of an earlier agent run."""
        if self._turn is None:
            turn = self.memory.thread(self.thread, resource=self.resource).turn(zone=self.zone)
            turn.id, turn.id_prefix = self.id or id_, self.id_prefix
            self._turn = await turn.__aenter__()
            self.id = turn.id
        return self._turn

    async def leave(self) -> None:
        """End the turn. The saved messages stay."""
        turn, self._turn = self._turn, None
        if turn is not None:
            await turn.__aexit__(None, None, None)

    async def discard(self) -> None:
        """Withdraw everything that this agent run saved."""
        if self.id:
            turn = await self.open()
            self._turn, self.id = None, ""
            await turn.discard()

    async def take_back(self) -> None:
        """Withdraw the messages that the provider rejected: the unanswered messages of this agent run, and those it repeats."""
        turn = await self.open()
        self._turn = None
        await take_back(turn, self._repeated, strict=self.memory.config.strict)

    async def new(self, said: Sequence[NewMessage]) -> tuple[NewMessage, ...]:
        """Return the messages that are not stored yet. `take_back` will also withdraw the others, if they are unanswered."""
        if not said or self.memory.config.read_only:
            return tuple(said)
        fresh, repeated = await find_new(self.memory, self.resource, self.thread, said)
        self._repeated += tuple(row.seq for row in repeated)
        return fresh

    async def rewind_after(self, seq: int, known: Container[str]) -> None:
        """Rewind the thread to the message with number `seq`, if the caller went back to it.

        `known` are the ids of the messages in the caller's history. The caller went back if the history contains none of the
        messages after `seq`. All of them must belong to ended turns whose ids begin with `id_prefix`.
        """
        handle = self.memory.thread(self.thread, resource=self.resource)
        try:
            after = (await handle.messages(after=seq, limit=_PAGE)).items
            if self.id_prefix and after and not any(row.id in known for row in after if row.state == "live"):
                await handle.rewind(to=seq, only_turns=self.id_prefix)
        except MemologError as error:
            if self.memory.config.strict:
                raise
            _log.warning("the thread cannot be rewound: %s", error)

    async def rows(self, id_: str) -> tuple[Message, ...]:
        """Return the stored rows of a message. Return an empty tuple if there are none or the database cannot be read."""
        try:
            return await self.memory.resource(self.resource).message(id_, thread=self.thread)
        except MemologError:
            return ()

    async def is_new_thread(self) -> bool:
        """Return whether nothing was ever saved in the thread. Return False if the database cannot be read."""
        try:
            return (await self.memory.thread(self.thread, resource=self.resource).info()).last_seq == 0
        except NotFound:
            return True
        except MemologError:
            return False
