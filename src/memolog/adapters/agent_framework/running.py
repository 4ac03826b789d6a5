"""One run of an agent as one turn of memory.

Knows which messages of a request are new, saves them before the model is asked and each answer as soon as it is there, and ends
the turn. Knows nothing of the hooks that call it.
"""

from collections.abc import Iterable, Sequence

from agent_framework import AgentResponse, ChatResponse, Message

from memolog.adapters.agent_framework.messages import from_agent_framework, said_in, usage_of
from memolog.adapters.holes import value_at
from memolog.adapters.news import news_of
from memolog.adapters.sending import take_back
from memolog.context import Context
from memolog.domain.errors import MemologError, ThreadNotFound
from memolog.domain.message import NewMessage, ToolCallPart, ToolResultPart, UserMessage
from memolog.runtime.memory import Memory
from memolog.runtime.turn import Turn

__all__ = ["Run"]


class Run:
    """What memory knows of one run: its turn, and what of it is saved."""

    def __init__(
        self, memory: Memory, resource: str, thread: str, *, zone: str | None, histories: frozenset[str]
    ) -> None:
        """Name the scope, and the providers that hold the same history as memory does."""
        self.resource, self.thread = resource, thread
        self._memory, self._zone, self._histories = memory, zone, histories
        self._turn: Turn | None = None
        self._id = ""
        # Kept, and not only numbered: an object that is gone could lend its number to another.
        self._seen: dict[int, Message] = {}
        self._calls: set[str] = set()
        self._results: set[str] = set()
        self._answers: list[str] = []
        self._said: list[NewMessage] = []
        # What the model has answered is in order as long as it does not wait for results that it is never shown.
        self._is_calling = True
        self._model: str | None = None
        # The numbers of what an earlier run said, that nobody has answered, and that this one says again.
        self._again: tuple[int, ...] = ()

    @property
    def is_begun(self) -> bool:
        """Tell whether anything of it was saved."""
        return bool(self._id)

    # ------------------------------------------------------------ steps

    async def prepare(self, messages: Sequence[Message], *, model: str | None) -> Context:
        """Save what is new in a request, and return what the model should see."""
        turn = await self._open()
        self._model = model
        said, ephemeral = self._sorted(messages)
        new = await self._first(said, messages) if not self._said else self._later(said)
        self._see(messages)
        self._keep(new)
        return await turn.prepare(*new, ephemeral=ephemeral, model=model)

    async def record(self, response: ChatResponse) -> None:
        """Save an answer."""
        new = [made for message in response.messages if (made := said_in(message)) is not None]
        self._see(response.messages)
        self._keep(new)
        self._answers.extend(_texts(response.messages))
        self._is_calling = any(isinstance(part, ToolCallPart) for message in new for part in message.parts)
        turn = await self._open()
        await turn.record(*new, usage=usage_of(response.usage_details, self._model or response.model))

    async def leave(self) -> None:
        """End the turn; what is saved stays. The next request, if there is one, opens it again."""
        turn, self._turn = self._turn, None
        if turn is not None:
            await turn.__aexit__(None, None, None)

    async def discard(self) -> None:
        """Withdraw all that this run saved."""
        turn = await self._open()
        if not self._said:
            # A place without words: a history that others keep has what was stopped, and must not pass for one that is new.
            await turn.record(UserMessage(""))
        self._turn, self._id = None, ""
        await turn.discard()
        self._said.clear()

    async def take_back(self) -> None:
        """Withdraw what the provider refused: what it has not answered of this run, and what this run asked again."""
        turn = await self._open()
        self._turn, self._id = None, ""
        await take_back(turn, self._again, strict=self._memory.config.strict)

    async def finish(self, response: AgentResponse | None, *, replaces: bool) -> None:
        """End the turn with what was said last; an answer in place of the model's is a guard's."""
        messages = response.messages if response is not None else []
        if self._is_rewritten(messages):
            said = [message for message in self._said if message.role == "user"]
            await self.discard()
            if not replaces:
                return
            rest = [*said, *(made for message in messages if (made := said_in(message)) is not None)]
            self._answers = _texts(messages)
        else:
            rest = [made for message in messages if (made := self._unsaved(message)) is not None]
        if rest:
            self._keep(rest)
            await (await self._open()).record(*rest)
        await self.leave()

    def _is_rewritten(self, messages: Iterable[Message]) -> bool:
        """Tell whether somebody has put other words in place of the model's, or answered in its stead."""
        texts = _texts(messages)
        if any(text not in texts for text in self._answers):
            return True
        return self._is_calling and any(text not in self._answers for text in texts)

    def _unsaved(self, message: Message) -> NewMessage | None:
        """Return what the run has added to its answer: results that no request was made with, or a last word."""
        if message.role == "assistant":
            return said_in(message) if message.text and message.text not in self._answers else None
        return self._unsaved_results(message)

    # ------------------------------------------------------------ inside

    async def _open(self) -> Turn:
        if self._turn is None:
            turn = self._memory.turn(self.thread, self.resource, zone=self._zone)
            turn.id = self._id
            self._turn = await turn.__aenter__()
            self._id = turn.id
        return self._turn

    def _see(self, messages: Iterable[Message]) -> None:
        self._seen.update({id(message): message for message in messages})

    def _keep(self, new: Iterable[NewMessage]) -> None:
        for message in new:
            self._said.append(message)
            self._calls.update(part.id for part in message.parts if isinstance(part, ToolCallPart))
            self._results.update(part.call_id for part in message.parts if isinstance(part, ToolResultPart))

    def _sorted(self, messages: Iterable[Message]) -> tuple[list[Message], list[NewMessage]]:
        """Return what was said in this run, and what other providers show in this request only."""
        said: list[Message] = []
        ephemeral: list[NewMessage] = []
        for message in messages:
            source = _source(message)
            if message.role == "system" or source in self._histories:
                continue
            if source is None:
                said.append(message)
            else:
                ephemeral.append(from_agent_framework(message))
        return said, ephemeral

    async def _first(self, said: Sequence[Message], messages: Iterable[Message]) -> list[NewMessage]:
        """Return what is new at the first request: what comes after the last answer, if the thread is known already."""
        if await self._is_unheard_of():
            # A conversation that was held before memory came to it.
            before = [message for message in messages if _source(message) in self._histories]
            said = [*before, *said]
        else:
            answers = [n for n, message in enumerate(said) if message.role == "assistant"]
            said = said[answers[-1] + 1 :] if answers else said
        new = [made for message in said if (made := said_in(message)) is not None]
        if self._memory.config.read_only:
            return new
        fresh, again = await news_of(self._memory, self.resource, self.thread, new)
        self._again = tuple(row.seq for row in again)
        return list(fresh)

    def _later(self, said: Iterable[Message]) -> list[NewMessage]:
        """Return what is new at a later request: results, and what somebody put in between."""
        new: list[NewMessage] = []
        for message in said:
            if id(message) in self._seen or message.role == "assistant":
                # Answers are saved as the model gives them.
                continue
            made = self._unsaved_results(message) if message.role == "tool" else said_in(message)
            if made is not None:
                new.append(made)
        return new

    def _unsaved_results(self, message: Message) -> NewMessage | None:
        made = said_in(message) if message.role == "tool" else None
        if made is None:
            return None
        ids = {part.call_id for part in made.parts if isinstance(part, ToolResultPart)}
        return None if ids and ids <= self._results else made

    async def _is_unheard_of(self) -> bool:
        """Tell whether memory has never met this thread; one whose turns were all discarded it has."""
        try:
            kit = await self._memory.open()
            await kit.store.threads.get(self.resource, self.thread)
        except ThreadNotFound:
            return True
        except MemologError:
            # Without a database nobody knows; what the user says now is what matters then.
            return False
        return False


def _texts(messages: Iterable[Message]) -> list[str]:
    return [message.text for message in messages if message.role == "assistant" and message.text]


def _source(message: Message) -> str | None:
    """Return which provider has put a message into the request; None for what the caller or the loop did."""
    source = value_at(message.additional_properties, ("_attribution", "source_id"))
    return source if isinstance(source, str) else None
