"""One run of an agent as one turn of memory.

Knows which messages of the graph's state are new, saves them before the model is asked, and ends the turn. It lives in the
state of its graph for as long as the run does. Everything here can be awaited; who drives it is not its business.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, RemoveMessage, SystemMessage

from memolog.adapters.langchain.messages import from_langchain, usage_of
from memolog.adapters.news import news_of
from memolog.adapters.sending import take_back
from memolog.context import Context
from memolog.domain.errors import MemologError
from memolog.domain.message import Message, MessageState, NewMessage, Part, Role, TextPart
from memolog.runtime.memory import Memory
from memolog.runtime.turn import Turn

__all__ = ["Run"]

_SUMMARY: Final = "summarization"
# How far back a message is looked for that is stored: a caller's history may have other ids every time.
_NEAR: Final = 12
_ROLE: Final[dict[str, Role]] = {"ai": "assistant", "tool": "tool"}


class Run:
    """What memory knows of one run: its turn, which messages it has seen, and whether a guard let the last answer pass."""

    def __init__(
        self, memory: Memory, resource: str, thread: str, *, mark: Mapping[str, Any], zone: str | None
    ) -> None:
        """Name the scope; `mark` is what the graph's state remembers of earlier runs."""
        self.resource, self.thread = resource, thread
        self._memory, self._zone = memory, zone
        self.mark = mark
        self._turn: Turn | None = None
        self._seen: set[str] | None = None
        self._saved: dict[str, tuple[Part, ...]] = {}
        self.id = ""
        self.is_asked = False
        """Whether the model is to be asked, and nothing has come of it yet: a guard may stop it there."""
        self._model: str | None = None
        self._again: tuple[int, ...] = ()
        """The numbers of what an earlier run said, that nobody has answered, and that this one says again."""

    # ------------------------------------------------------------ steps

    async def prepare(
        self, messages: Sequence[BaseMessage], *, ephemeral: Sequence[BaseMessage] = (), model: str | None
    ) -> Context:
        """Save what is new in the state, and return what the model should see."""
        is_first = self._seen is None
        new = await self._new(messages, answered=False)
        if is_first:
            new = await self._said_first(messages, new)
        turn = await self._open(new)
        self._model = model
        self._keep(new)
        return await turn.prepare(*new, ephemeral=[from_langchain(one) for one in ephemeral], model=model)

    async def record(self, messages: Sequence[BaseMessage], *, answered: bool = True) -> None:
        """Save what is new in the state: an answer that no guard stopped, or what tools returned at the end."""
        if not (new := await self._new(messages, answered=answered)):
            return
        turn = await self._open(new)
        self._keep(new)
        ids = {message.id for message in new}
        told = [usage_of(one, self._model) for one in messages if isinstance(one, AIMessage) and one.id in ids]
        await turn.record(*new, usage=next((usage for usage in reversed(told) if usage), None))

    async def leave(self) -> None:
        """End the turn; what is saved stays. The next step, if there is one, opens it again."""
        turn, self._turn = self._turn, None
        if turn is not None:
            await turn.__aexit__(None, None, None)

    async def discard(self) -> None:
        """Withdraw all that this run saved."""
        if self.id and self._saved:
            turn = await self._open(())
            self._turn = None
            await turn.discard()
        self.id, self._saved = "", {}

    async def take_back(self, messages: Sequence[BaseMessage]) -> None:
        """Withdraw what the provider refused: what it has not answered of this run, and what this run asked again."""
        await self._keep_places(messages)
        turn = await self._open(())
        self._turn = None
        await take_back(turn, self._again, strict=self._memory.config.strict)

    async def stop(self, messages: Sequence[BaseMessage]) -> None:
        """Withdraw all that this run saved; what else of it the state holds is never taken up, in no later run either."""
        await self._keep_places(messages)
        await self.discard()

    async def _keep_places(self, messages: Sequence[BaseMessage]) -> None:
        """Save the places of what the state holds and the store does not, to be withdrawn with the rest."""
        said = [one for one in messages if _is_said(one)]
        rest = [one for one in await self._unstored(said[_question(said) :]) if one.id]
        if rest:
            # Their places, without their words: a checkpoint still has them, and only here is it known that they were stopped.
            places = [
                NewMessage(role=_ROLE.get(one.type, "user"), parts=(TextPart(text=""),), id=one.id) for one in rest
            ]
            self._keep(places)
            await (await self._open(places)).record(*places)

    async def finish(self, messages: Sequence[BaseMessage]) -> None:
        """End the turn as the state has it at the end; what a guard has rewritten replaces what was saved."""
        again = [from_langchain(one) for one in messages if one.id in self._saved]
        if any(self._saved[one.id or ""] != one.parts for one in again):
            await self.discard()
            self._keep(again)
            await (await self._open(again)).record(*again)
        await self.record(messages, answered=False)
        await self.leave()

    # ------------------------------------------------------------ inside

    async def _open(self, new: Iterable[NewMessage]) -> Turn:
        if self._turn is None:
            turn = self._memory.turn(self.thread, self.resource, zone=self._zone)
            # A run that was interrupted goes on as the same turn, unless the user has said something new.
            before = "" if any(message.role == "user" for message in new) else self.mark.get("turn") or ""
            turn.id = self.id or before
            self._turn = await turn.__aenter__()
            self.id = turn.id
        return self._turn

    def _keep(self, new: Iterable[NewMessage]) -> None:
        self._saved.update({message.id: message.parts for message in new if message.id})

    async def _new(self, messages: Sequence[BaseMessage], *, answered: bool) -> list[NewMessage]:
        """Return what memory has not seen yet, and see it."""
        said = [one for one in messages if _is_said(one)]
        if self._seen is None:
            self._seen = {one.id or "" for one in said}
            return await self._unknown(said, answered=answered)
        new = [one for one in said if one.id not in self._seen]
        self._seen.update(one.id or "" for one in new)
        return [from_langchain(one) for one in new]

    async def _unknown(self, said: Sequence[BaseMessage], *, answered: bool) -> list[NewMessage]:
        """Return what is new at the first step of a run: the graph's state holds the whole conversation."""
        until = self.mark.get("until")
        place = next((n + 1 for n, one in enumerate(said) if until and one.id == until), None)
        if place is None and await self._is_empty():
            # A conversation that was held before memory came to it.
            place = 0
        if place is None:
            place = await self._after_known(said)
        if place is None:
            answers = [n for n, one in enumerate(said) if isinstance(one, AIMessage)]
            place = 0 if not answers else answers[-1] + (0 if answered else 1)
        return [from_langchain(one) for one in await self._unstored(said[place:])]

    async def _said_first(self, messages: Sequence[BaseMessage], new: Sequence[NewMessage]) -> list[NewMessage]:
        """Return what is new at the first request; what an earlier run said before its model failed stands in the thread once."""
        if self._memory.config.read_only:
            return list(new)
        fresh, again = await news_of(self._memory, self.resource, self.thread, new)
        found = again
        while found and fresh:
            # A checkpoint has the words of every try.
            fresh, found = await news_of(self._memory, self.resource, self.thread, fresh)
        asked = [one for one in messages if _is_said(one)]
        ids = {one.id for one in asked[_question(asked) :] if one.id}
        known = [row for id_ in ids for row in await self._rows(id_)]
        self._again = tuple({row.seq for row in (*again, *known) if row.state == "live"})
        return list(fresh)

    async def _rows(self, id_: str) -> tuple[Message, ...]:
        try:
            kit = await self._memory.open()
            return await kit.store.messages.get(self.resource, id_, thread=self.thread)
        except MemologError:
            return ()

    async def _is_empty(self) -> bool:
        try:
            kit = await self._memory.open()
            return (await kit.store.messages.totals(self.resource, self.thread)).messages == 0
        except MemologError:
            # Without a database nobody knows; what the user says now is what matters then.
            return False

    async def _after_known(self, said: Sequence[BaseMessage]) -> int | None:
        """Return the place after the last message that is stored, if it is near the end: histories are long."""
        for place in range(len(said), max(len(said) - _NEAR, 0), -1):
            if await self._state(said[place - 1]) is not None:
                # What stands behind it is looked at once more, together with whether it was withdrawn.
                return place - 1
        return None

    async def _unstored(self, candidates: Sequence[BaseMessage]) -> list[BaseMessage]:
        """Return what is not stored; what was answered to something that was withdrawn went with it."""
        new: list[BaseMessage] = []
        is_stopped = False
        for one in candidates:
            if (state := await self._state(one)) is not None:
                is_stopped = state == "withdrawn"
                continue
            is_stopped = is_stopped and not isinstance(one, HumanMessage)
            if not is_stopped:
                new.append(one)
        return new

    async def _state(self, message: BaseMessage) -> MessageState | None:
        """Return how an earlier run's message is stored: live, withdrawn or forgotten; None if it is not."""
        if not message.id:
            return None
        rows = await self._rows(message.id)
        return None if not rows else "live" if any(row.state == "live" for row in rows) else rows[-1].state


def _question(said: Sequence[BaseMessage]) -> int:
    """Return where the last question begins, which may be of several messages."""
    place = next((n for n in range(len(said) - 1, -1, -1) if isinstance(said[n], HumanMessage)), len(said))
    while 0 < place < len(said) and isinstance(said[place - 1], HumanMessage):
        place -= 1
    return place


def _is_said(message: BaseMessage) -> bool:
    """Tell whether a message belongs to the conversation: instructions do not, nor does a summary that stands for others."""
    is_summary = message.additional_kwargs.get("lc_source") == _SUMMARY
    return not isinstance(message, SystemMessage | RemoveMessage) and not (
        is_summary and isinstance(message, HumanMessage)
    )
