"""Guards around the model: check the input and the output of a turn, and discard the turn if a guard stops it.

A guard is a function that gets a `Checked` with the new messages. It returns None, or the reason why the turn must stop. A guard
that raises an exception stops the turn too. This module also contains the checks of arguments that all adapters share.
"""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self, TypeAlias, TypeVar, cast

from memolog import Context
from memolog.core.exact_json import json_texts
from memolog.core.message import FilePart, NewMessage, ReasoningPart, texts_of
from memolog.core.run import Usage
from memolog.errors import InputError, MemologError
from memolog.memory import Memory
from memolog.sync import SyncMemory, SyncTurn
from memolog.turn import Given, Turn, answers_in, messages_in

__all__ = ["Checked", "Guard", "GuardStopped", "GuardedTurn", "Guards", "SyncGuardedTurn"]

A = TypeVar("A", bound=Given)


def check_memory(memory: object, *kinds: type[Memory | SyncMemory]) -> None:
    """Raise InputError unless `memory` belongs to one of these classes. The default is `Memory`."""
    kinds = kinds or (Memory,)
    if not isinstance(memory, kinds):
        names = " or a ".join(kind.__name__ for kind in kinds)
        # The value is not shown, because it may be a database address with a password.
        raise InputError(
            f"`memory` must be a {names}, got {type(memory).__name__}.",
            why="Asynchronous code needs a Memory, and synchronous code needs a SyncMemory.",
            then=f'Pass {kinds[-1].__name__}("memolog.db"), which the caller opens and closes.',
        )


def check_id(what: str, value: object, then: str) -> str:
    """Return the id of a thread or of a resource. Raise InputError if it is empty or not a string."""
    if not isinstance(value, str) or not value:
        raise InputError(f"The agent run has no {what}.", why="Memory is stored for a thread of a resource.", then=then)
    return value


def check_errors(name: str, given: object) -> None:
    """Raise InputError unless `given` is an exception class or a tuple of exception classes."""
    classes: tuple[object, ...] = cast("tuple[Any, ...]", given) if isinstance(given, tuple) else (given,)
    for one in classes:
        if not (isinstance(one, type) and issubclass(one, BaseException)):
            raise InputError(
                f"`{name}` must be an exception class or a tuple of exception classes, got {one!r}.",
                why="An error of one of these classes discards the turn.",
                then=f"Pass the classes themselves: {name}=(Blocked,).",
            )


Side: TypeAlias = Literal["input", "output"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """The argument of a guard: the new messages of the input or the output, and the context that the model gets."""

    side: Side
    messages: tuple[NewMessage, ...]
    context: Context

    @property
    def text(self) -> str:
        """Return the texts, tool calls, tool results and file names of the new messages, joined by blank lines.

        A tool call or a tool result becomes several lines: the name of the tool, then every name and value of its arguments or
        content. JSON is decoded, so an escaped character cannot hide a word. A file becomes its name and its URL. Reasoning and
        the contents of files are left out.
        """
        parts = (part for message in self.messages for part in message.parts if not isinstance(part, ReasoningPart))
        texts = ("\n".join(filter(None, texts_of(part, json_texts, _names))) for part in parts)
        return "\n\n".join(filter(None, texts))


def _names(file: FilePart) -> Iterator[str]:
    yield file.name or ""
    # A `data:` URL is the content of a file.
    yield file.url if file.url and file.url[:5].lower() != "data:" else ""


Guard: TypeAlias = Callable[[Checked], "str | Awaitable[str | None] | None"]


class GuardStopped(MemologError):
    """A guard stopped the turn. All messages that the turn saved were withdrawn."""

    def __init__(self, guard: str, side: Side, reason: str) -> None:
        self.guard, self.side, self.reason = guard, side, reason
        super().__init__(
            f"The {side} guard {guard} stopped the turn.",
            why=reason if reason.endswith((".", "!", "?")) else f"{reason}.",
            then="Inform the user and start another turn.",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Guards:
    """The guards of an agent, in the order in which they are called."""

    input: Sequence[Guard] = ()
    output: Sequence[Guard] = ()

    def __post_init__(self) -> None:
        for side, guards in (("input", self.input), ("output", self.output)):
            if not isinstance(guards, Sequence) or not all(map(callable, guards)):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise InputError(
                    f"`{side}` must be a list of functions, got {guards!r}.",
                    why="Each guard is called with a Checked.",
                    then=f"Pass the functions themselves: Guards({side}=[your_guard]).",
                )

    def turn(self, memory: Memory, thread: str, resource: str, **options: Any) -> "GuardedTurn":
        """Return a turn that calls the guards: `async with guards.turn(memory, "t1", "alice") as turn`."""
        check_memory(memory)
        return GuardedTurn(memory.thread(thread, resource=resource).turn(**options), self)

    def sync_turn(self, memory: SyncMemory, thread: str, resource: str, **options: Any) -> "SyncGuardedTurn":
        """Return a turn that calls the guards, for synchronous code: `with guards.sync_turn(memory, "t1", "alice") as turn`."""
        check_memory(memory, SyncMemory)
        return SyncGuardedTurn(memory, memory.thread(thread, resource=resource).turn(**options), self)

    async def run(
        self,
        memory: Memory,
        thread: str,
        resource: str,
        *messages: Given,
        model: Callable[[Context], Awaitable[A]],
        settings: Mapping[str, Any] | None = None,
    ) -> A:
        """Run a turn of one step and return the answer. Raise GuardStopped if a guard stops the turn."""
        async with self.turn(memory, thread, resource, settings=settings) as turn:
            context = await turn.prepare(*messages)
            answer = await model(context)
            await turn.record(answer)
        return answer


class GuardedTurn:
    """A turn that calls guards before and after the model. Use it like a Turn. `prepare` and `record` may raise GuardStopped."""

    def __init__(self, turn: Turn, guards: Guards, *, on_threads: bool = False) -> None:
        """Wrap a turn. With `on_threads` each guard is called in a worker thread, so that it may block."""
        self._turn, self._guards, self._on_threads = turn, guards, on_threads
        self.thread, self.resource = turn.thread, turn.resource
        self._context = Context()

    async def prepare(
        self, *messages: Given, ephemeral: NewMessage | Sequence[NewMessage] = (), model: str | None = None
    ) -> Context:
        """Save new messages, call the input guards and return the context for the model. It takes what `Turn.prepare` takes."""
        said = messages_in(messages)
        self._context = await self._turn.prepare(*said, ephemeral=ephemeral, model=model)
        await self._check("input", (*said, *([ephemeral] if isinstance(ephemeral, NewMessage) else ephemeral)))
        return self._context

    async def record(
        self, *messages: Given, model: str | None = None, usage: Usage | None = None, beside: int | None = 0
    ) -> None:
        """Call the output guards and save the answer of the model. It takes what `Turn.record` takes."""
        said, reported = answers_in(messages)
        # The turn refuses a value that is not a message.
        if all(isinstance(message, NewMessage) for message in said):  # pyright: ignore[reportUnnecessaryIsInstance]
            await self._check("output", said)
        # Save the messages that were checked. If the response contains no message, pass the response itself, because the turn
        # reports a response that has neither a message nor usage.
        await self._turn.record(*(said or messages), model=model, usage=usage or reported, beside=beside)

    async def discard(self) -> None:
        """Withdraw the messages that this turn saved, and end the turn."""
        await self._turn.discard()

    async def _check(self, side: Side, messages: tuple[NewMessage, ...]) -> None:
        checked = Checked(side=side, messages=messages, context=self._context)
        for guard in self._guards.input if side == "input" else self._guards.output:
            try:
                reason = await asyncio.to_thread(guard, checked) if self._on_threads else guard(checked)
                if inspect.isawaitable(reason):
                    reason = await reason
            except BaseException:
                # A guard that raises an exception stops the turn.
                await self._turn.discard()
                raise
            if reason is not None:
                await self._turn.discard()
                raise _stop_error(guard, side, reason)

    async def __aenter__(self) -> Self:
        await self._turn.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._turn.__aexit__(*cast("tuple[Any, Any, Any]", error))


class SyncGuardedTurn:
    """A guarded turn for synchronous code."""

    def __init__(self, memory: SyncMemory, turn: SyncTurn, guards: Guards) -> None:
        # Guards run in worker threads, so that a slow guard does not block the event loop of the memory.
        self.inner = GuardedTurn(turn.asynchronous, guards, on_threads=True)
        self._call = memory.run

    def prepare(
        self, *messages: Given, ephemeral: NewMessage | Sequence[NewMessage] = (), model: str | None = None
    ) -> Context:
        """Save new messages, call the input guards and return the context for the model."""
        return self._call(self.inner.prepare(*messages, ephemeral=ephemeral, model=model))

    def record(
        self, *messages: Given, model: str | None = None, usage: Usage | None = None, beside: int | None = 0
    ) -> None:
        """Call the output guards and save the answer of the model."""
        self._call(self.inner.record(*messages, model=model, usage=usage, beside=beside))

    def discard(self) -> None:
        """Withdraw the messages that this turn saved, and end the turn."""
        self._call(self.inner.discard())

    def __enter__(self) -> Self:
        self._call(self.inner.__aenter__())
        return self

    def __exit__(self, *error: object) -> None:
        self._call(self.inner.__aexit__(*error))


def _stop_error(guard: Guard, side: Side, reason: object) -> MemologError:
    name = str(getattr(guard, "__name__", type(guard).__name__))
    if isinstance(reason, str) and reason.strip():
        return GuardStopped(name, side, reason)
    return InputError(
        f"The {side} guard {name} returned {reason!r}.",
        why="A guard must return None, or the reason to stop as a text. The turn was discarded.",
        then="Return None or a non-empty text.",
    )
