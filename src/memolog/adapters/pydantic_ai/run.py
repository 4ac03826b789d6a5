"""One run of a Pydantic AI agent: its turn, and which messages of its history are saved.

A history may be rewritten while the run goes on; each message is saved once.
"""

import contextlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, SystemPromptPart

from memolog import Context
from memolog.adapters.new_messages import AgentTurn
from memolog.adapters.provider_limits import is_refusal
from memolog.adapters.pydantic_ai.messages import to_messages, usage_of
from memolog.core.message import NewMessage
from memolog.core.run import Usage
from memolog.errors import NotFound
from memolog.memory import Memory
from memolog.turn import Turn

__all__ = ["MemoryRun", "Place", "is_passing", "leading_prompts"]

_UNFINISHED: Final = "suspended"
_AT_ONCE: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The memory, resource and thread of a run."""

    memory: Memory
    resource: str
    thread: str
    read_only: bool = False


@dataclass(frozen=True, slots=True)
class _New:
    messages: tuple[NewMessage, ...]
    usage: Usage | None = None


class MemoryRun(AgentTurn):
    """The memory of one run: saves each message of its history once, in order."""

    def __init__(self, place: Place, turn: Turn, run_id: str | None, outer: "MemoryRun | None" = None) -> None:
        super().__init__(place.memory, place.resource, place.thread)
        self.place, self.turn, self._outer = place, turn, outer
        self._turn = turn
        self.is_stopped = False
        self.children: list[MemoryRun] = []
        self._run_id = run_id
        self._history: Sequence[ModelMessage] = ()
        # The saved parts of each message of this run, in the order of the history.
        self._done: list[Sequence[object]] = []
        self._saved: Counter[str] = Counter()
        self._resumed: ModelMessage | None = None
        self._model: str | None = None
        self._has_begun = self._is_rewritten = False
        # Whether the model is being called: then an error comes from the provider, not from a tool.
        self._is_asking = False

    # ------------------------------------------------------------ moments of a run

    async def begin(self) -> None:
        """Open the turn."""
        await self.turn.__aenter__()
        if self._outer is not None:
            self._outer.children.append(self)

    async def end(self, error: BaseException | None, *, is_guarded: bool) -> None:
        """Save what is left, or discard the run if a guard stopped it; then close the turn."""
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
        """Note the history, so that it can be saved if the run fails."""
        self._history = history

    async def prepare(self, history: Sequence[ModelMessage], model: str) -> Context:
        """Save the new messages and return the context for the model."""
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
        """Save the new messages, unless a guard stopped the run."""
        self._is_asking = False
        if self.is_stopped:
            return
        if not self._has_begun and self._first() < len(self._history):
            await self._begin()
        await self._record(list(self._new()))

    async def discard(self) -> None:
        """Withdraw what this run and its children saved."""
        await self.turn.discard()
        for child in self.children:
            await child.withdraw()

    async def withdraw(self) -> None:
        """Withdraw what this run saved, after it has ended."""
        place = self.place
        if not place.read_only:
            with contextlib.suppress(NotFound):
                await place.memory.thread(place.thread, resource=place.resource).withdraw(self.turn.id)
        for child in self.children:
            await child.withdraw()

    async def _record(self, new: Sequence[_New]) -> None:
        for one in new:
            await self.turn.record(*one.messages, model=self._model, usage=one.usage)

    # ------------------------------------------------------------ what a caller supplied

    async def _begin(self) -> None:
        """Save the history that the caller supplied, if the thread is empty."""
        self._has_begun = True
        first = self._first()
        before = list(self._history[:first])
        request = self._history[-1] if self._history else None
        if first == len(self._history) and isinstance(request, ModelRequest):
            # The run continues with a request of the caller, which an earlier run may have saved.
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
        """Save a history in a turn of its own, because a guard may discard the turn of the run."""
        seen: Counter[str] = Counter()
        ours: list[NewMessage] = []
        for number, message in enumerate(history):
            bare = _bare(message, opens=number == 0)
            if bare.parts:
                name = to_messages(bare)[0].id or ""
                ours += to_messages(bare, again=seen[name])
                seen[name] += 1
        async with self.place.memory.thread(self.place.thread, resource=self.place.resource).turn() as turn:
            for start in range(0, len(ours), _AT_ONCE):
                await turn.record(*ours[start : start + _AT_ONCE])

    # ------------------------------------------------------------ what is new

    def _first(self) -> int:
        history, run_id = self._history, self._run_id
        return next((n for n, message in enumerate(history) if message.run_id == run_id), len(history))

    def _own(self) -> list[ModelMessage]:
        """Return the messages of this run, without the history that the caller supplied."""
        first = self._first()
        resumed = [m for m in self._history[:first] if m is self._resumed or _is_copy(m, self._resumed)]
        return [*resumed, *self._history[first:]]

    def _new(self) -> Iterator[_New]:
        """Yield the messages that are not saved, and mark them as saved: each answer alone, requests together."""
        own, asked = self._own(), list[NewMessage]()
        if len(own) < len(self._done):
            self._is_rewritten = True
            del self._done[len(own) :]
        for number, message in enumerate(own):
            if isinstance(message, ModelResponse) and message.state == _UNFINISHED:
                # The complete answer follows when the provider has finished it.
                break
            is_new = number >= len(self._done)
            messages = self._unsaved(number, message)
            if not isinstance(message, ModelResponse):
                asked += messages
            elif messages or (is_new and not self._is_rewritten):
                if asked:
                    yield _New(tuple(asked))
                    asked = []
                # An empty answer has a usage too.
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
            # Positions have changed, so compare ids.
            return ()
        self._saved[name] += 1
        ours = to_messages(bare, after=after, again=self._saved[name] - 1)
        # The memory sets the time.
        return tuple(replace(one, created_at=None) for one in ours)

    def _bare(self, message: ModelMessage) -> ModelMessage:
        return _bare(message, opens=bool(self._history) and message is self._history[0])


def _begins_with(parts: Sequence[object], known: Sequence[object]) -> bool:
    return len(parts) >= len(known) and all(a is b or a == b for a, b in zip(parts, known, strict=False))


def _is_copy(message: ModelMessage, original: ModelMessage | None) -> bool:
    return original is not None and len(message.parts) > 0 and _begins_with(message.parts, original.parts)


def _bare(message: ModelMessage, *, opens: bool) -> ModelMessage:
    """Return the message without the parts that belong to one request only."""
    if isinstance(message, ModelResponse):
        return message
    said = message.parts[len(leading_prompts(message)) if opens else 0 :]
    return replace(message, parts=[part for part in said if not is_passing(part)], instructions=None)


def leading_prompts(message: ModelMessage) -> list[SystemPromptPart]:
    """Return the system prompts at the beginning of a request, which the agent adds each time."""
    found: list[SystemPromptPart] = []
    for part in message.parts:
        if not isinstance(part, SystemPromptPart):
            break
        found.append(part)
    return found


def is_passing(part: object) -> bool:
    """Tell whether a part belongs to one request only."""
    return isinstance(part, SystemPromptPart) and part.scope == "request"
