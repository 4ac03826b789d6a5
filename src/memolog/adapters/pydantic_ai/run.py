"""What memory knows of one run of an agent: its turn, and what of the run's history is saved already.

Knows how a history grows and is rewritten while a run goes on. It decides nothing: what is new is handed to the turn, and what
the turn answers becomes the request.
"""

import contextlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, SystemPromptPart

from memolog.adapters.agent_turn import AgentTurn
from memolog.adapters.provider_limits import is_refusal
from memolog.adapters.pydantic_ai.messages import to_messages, usage_of
from memolog.context import Context
from memolog.domain.errors import NotFound
from memolog.domain.message import NewMessage
from memolog.domain.run import Usage
from memolog.runtime.memory import Memory
from memolog.runtime.turn import Turn

__all__ = ["MemoryRun", "Place", "is_passing", "leading_prompts"]

_UNFINISHED: Final = "suspended"
_AT_ONCE: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Whose memory a run has, and which thread of it."""

    memory: Memory
    resource: str
    thread: str
    read_only: bool = False

    def is_of(self, memory: Memory, resource: str) -> bool:
        """Tell whether it is in this resource's memory."""
        return self.memory is memory and self.resource == resource


@dataclass(frozen=True, slots=True)
class _New:
    messages: tuple[NewMessage, ...]
    usage: Usage | None = None


class MemoryRun(AgentTurn):
    """The memory of one run: what is new is saved once, in order, however the history is handed on."""

    def __init__(self, place: Place, turn: Turn, run_id: str | None, outer: "MemoryRun | None" = None) -> None:
        super().__init__(place.memory, place.resource, place.thread)
        self.place, self.turn, self._outer = place, turn, outer
        self._turn = turn
        self.is_stopped = False
        self.children: list[MemoryRun] = []
        self._run_id = run_id
        self._history: Sequence[ModelMessage] = ()
        # The parts of each message of this run that are saved, in the order of the history.
        self._done: list[Sequence[object]] = []
        self._saved: Counter[str] = Counter()
        self._resumed: ModelMessage | None = None
        self._model: str | None = None
        self._has_begun = self._is_rewritten = False
        # Whether the model is being asked: an error is its provider's then, and not a tool's.
        self._is_asking = False

    # ------------------------------------------------------------ moments of a run

    async def begin(self) -> None:
        """Open the turn."""
        await self.turn.__aenter__()
        if self._outer is not None:
            self._outer.children.append(self)

    async def end(self, error: BaseException | None, *, is_guarded: bool) -> None:
        """Save what is left, or withdraw all of it if a guard has stopped the run; then close the turn."""
        try:
            if self.is_stopped or is_guarded:
                await self.discard()
            elif error is not None and self._is_asking and is_refusal(error):
                await self.take_back()
            else:
                await self.keep()
        finally:
            await self.turn.__aexit__(type(error) if error else None, error, None)

    def look(self, history: Sequence[ModelMessage]) -> None:
        """Keep the list that the run adds to, so that what a failing run leaves in it can be saved."""
        self._history = history

    async def prepare(self, history: Sequence[ModelMessage], model: str) -> Context:
        """Save what is new and return what the model should see."""
        self.look(history)
        self._model = model
        is_first = not self._has_begun
        if is_first:
            await self._begin()
        new = list(self._new())
        asked = new.pop().messages if new and new[-1].usage is None else ()
        await self._record(new)
        if is_first and asked and not new and not self.place.read_only:
            asked = await self.new(asked)
        self._is_asking = True
        return await self.turn.prepare(*asked, model=model)

    async def keep(self) -> None:
        """Save what is new, without asking for a context; of a run that a guard has stopped nothing more is saved."""
        self._is_asking = False
        if self.is_stopped:
            return
        if not self._has_begun and self._first() < len(self._history):
            await self._begin()
        await self._record(list(self._new()))

    async def discard(self) -> None:
        """Withdraw what this run saved, and what the runs that it spawned saved, though those have ended."""
        await self.turn.discard()
        for child in self.children:
            await child.withdraw()

    async def withdraw(self) -> None:
        """Withdraw what a run saved that has ended."""
        place = self.place
        if not place.read_only:
            kit = await place.memory.open()
            with contextlib.suppress(NotFound):
                await kit.store.withdrawals.withdraw(
                    place.resource, place.thread, self.turn.id, after=0, now=kit.clock.now(), render=kit.core.rerender
                )
        for child in self.children:
            await child.withdraw()

    async def _record(self, new: Sequence[_New]) -> None:
        for one in new:
            await self.turn.record(*one.messages, model=self._model, usage=one.usage)

    # ------------------------------------------------------------ what a caller supplied

    async def _begin(self) -> None:
        """Look at what the caller supplied before this run: it is saved only if the thread has nothing yet."""
        self._has_begun = True
        first = self._first()
        before = list(self._history[:first])
        request = self._history[-1] if self._history else None
        if first == len(self._history) and isinstance(request, ModelRequest):
            # The run goes on with a request that the caller supplied: an earlier run, if any, has saved it.
            before.pop()
            self._resumed = request
            if await self._is_known(to_messages(self._bare(request))):
                self._done.append(tuple(self._bare(request).parts))
        if before and not self.place.read_only and await self.is_new_thread():
            await self._adopt(before)

    async def _is_known(self, messages: Sequence[NewMessage]) -> bool:
        rows = [row for message in messages for row in await self.rows(message.id or "")]
        self._repeated += tuple(row.seq for row in rows)
        # A message that was withdrawn may be said again.
        return any(row.state != "withdrawn" for row in rows)

    async def _adopt(self, history: Sequence[ModelMessage]) -> None:
        """Let a thread begin with a history that nobody has saved, in a turn of its own: a guard may discard ours."""
        seen: Counter[str] = Counter()
        ours: list[NewMessage] = []
        for number, message in enumerate(history):
            bare = _bare(message, opens=number == 0)
            if bare.parts:
                name = to_messages(bare)[0].id or ""
                ours += to_messages(bare, again=seen[name])
                seen[name] += 1
        async with self.place.memory.turn(self.place.thread, self.place.resource) as turn:
            for start in range(0, len(ours), _AT_ONCE):
                await turn.record(*ours[start : start + _AT_ONCE])

    # ------------------------------------------------------------ what is new

    def _first(self) -> int:
        history, run_id = self._history, self._run_id
        return next((n for n, message in enumerate(history) if message.run_id == run_id), len(history))

    def _own(self) -> list[ModelMessage]:
        """Return the messages of this run: what the caller supplied comes before them."""
        first = self._first()
        resumed = [m for m in self._history[:first] if m is self._resumed or _is_copy(m, self._resumed)]
        return [*resumed, *self._history[first:]]

    def _new(self) -> Iterator[_New]:
        """Yield what is not saved yet, and take it for saved: an answer by itself, what is asked in one piece."""
        own, asked = self._own(), list[NewMessage]()
        if len(own) < len(self._done):
            self._is_rewritten = True
            del self._done[len(own) :]
        for number, message in enumerate(own):
            if isinstance(message, ModelResponse) and message.state == _UNFINISHED:
                # It comes again as a whole once its provider has finished it.
                break
            is_new = number >= len(self._done)
            messages = self._unsaved(number, message)
            if not isinstance(message, ModelResponse):
                asked += messages
            elif messages or (is_new and not self._is_rewritten):
                if asked:
                    yield _New(tuple(asked))
                    asked = []
                # Also an empty answer has its price.
                yield _New(messages, usage_of(message, self._model or message.model_name or "unknown"))
        if asked:
            yield _New(tuple(asked))

    def _unsaved(self, number: int, message: ModelMessage) -> tuple[NewMessage, ...]:
        bare, after = self._bare(message), 0
        if number < len(self._done):
            if _begins_with(bare.parts, self._done[number]):
                after = len(self._done[number])
            else:
                self._is_rewritten = True
                del self._done[number:]
        self._done[number : number + 1] = [tuple(bare.parts)]
        if len(bare.parts) == after:
            return ()
        name = to_messages(bare, after=after)[0].id or ""
        if self._is_rewritten and self._saved[name]:
            # Places say nothing any more; the id says that it is saved.
            return ()
        self._saved[name] += 1
        ours = to_messages(bare, after=after, again=self._saved[name] - 1)
        # Said now, by the memory's own clock.
        return tuple(replace(one, created_at=None) for one in ours)

    def _bare(self, message: ModelMessage) -> ModelMessage:
        return _bare(message, opens=bool(self._history) and message is self._history[0])


def _begins_with(parts: Sequence[object], known: Sequence[object]) -> bool:
    return len(parts) >= len(known) and all(a is b or a == b for a, b in zip(parts, known, strict=False))


def _is_copy(message: ModelMessage, original: ModelMessage | None) -> bool:
    return original is not None and len(message.parts) > 0 and _begins_with(message.parts, original.parts)


def _bare(message: ModelMessage, *, opens: bool) -> ModelMessage:
    """Return the message without what belongs to the request and not to the conversation."""
    if isinstance(message, ModelResponse):
        return message
    said = message.parts[len(leading_prompts(message)) if opens else 0 :]
    return replace(message, parts=[part for part in said if not is_passing(part)], instructions=None)


def leading_prompts(message: ModelMessage) -> list[SystemPromptPart]:
    """Return the system prompts that open a request: the agent's own, which it gives anew each time."""
    found: list[SystemPromptPart] = []
    for part in message.parts:
        if not isinstance(part, SystemPromptPart):
            break
        found.append(part)
    return found


def is_passing(part: object) -> bool:
    """Tell whether a part is for one request only."""
    return isinstance(part, SystemPromptPart) and part.scope == "request"
