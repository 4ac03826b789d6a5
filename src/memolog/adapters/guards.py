"""Guards around the model: check the input and the output of a turn, and discard the turn when a guard stops it.

A guard is a function that gets what is new and returns None, or the reason why the turn must stop. A guard that raises stops the
turn too. The checks of arguments that all adapters share are here as well.
"""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Literal, Self, TypeAlias, TypeGuard, cast

from memolog.context import Context
from memolog.domain.errors import InputError, MemologError
from memolog.domain.message import NewMessage, TextPart
from memolog.domain.run import Usage
from memolog.runtime.memory import Memory
from memolog.runtime.sync import SyncMemory, SyncTurn
from memolog.runtime.turn import Turn


def check_memory(memory: object, *, sync_too: bool = False) -> None:
    """Refuse what is no open memory; a `SyncMemory` too, unless the adapter can serve callers that do not await."""
    if isinstance(memory, Memory) or (sync_too and isinstance(memory, SyncMemory)):
        return
    if isinstance(memory, SyncMemory):
        raise InputError(
            "A SyncMemory cannot be used here.",
            why="This is awaited, and a SyncMemory is for callers that do not await.",
            then="Hand in a Memory: `async with Memory(…) as memory`.",
        )
    raise _no_memory(memory, "Memory or a SyncMemory" if sync_too else "Memory")


def check_sync_memory(memory: object) -> None:
    """Refuse what is no `SyncMemory`, for callers that do not await."""
    if not isinstance(memory, SyncMemory):
        raise _no_memory(memory, "SyncMemory")


def check_errors(name: str, given: object) -> None:
    """Refuse what is neither an exception class nor a tuple of them: nothing would ever match it."""
    classes: tuple[object, ...] = cast("tuple[Any, ...]", given) if isinstance(given, tuple) else (given,)
    for one in classes:
        if not _is_error(one):
            raise InputError(
                f"{name} holds {one!r}, which is no exception class.",
                why="An error is compared with these, and nothing is ever one of that.",
                then=f"Pass a class or a tuple of classes: {name}=(Blocked,).",
            )


def _is_error(one: object) -> TypeGuard[type[BaseException]]:
    return isinstance(one, type) and issubclass(one, BaseException)


def _no_memory(given: object, wanted: str) -> InputError:
    # Not the value itself: it may be an address, with a password in it.
    return InputError(
        f"A {type(given).__name__} was handed in where a {wanted} belongs.",
        then=f'Open one first and hand that in: {wanted.rsplit(maxsplit=1)[-1]}("memolog.db").',
    )


Side: TypeAlias = Literal["input", "output"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """What a guard looks at: what is new on its side, and the context that the model gets or got."""

    side: Side
    messages: tuple[NewMessage, ...]
    context: Context

    @property
    def text(self) -> str:
        """Return the text of what is new, joined by blank lines."""
        parts = [part for message in self.messages for part in message.parts]
        return "\n\n".join(part.text for part in parts if isinstance(part, TextPart))


Guard: TypeAlias = Callable[[Checked], "str | Awaitable[str | None] | None"]


class GuardStopped(MemologError):
    """A guard stopped the turn; nothing of the turn is in memory any more."""

    def __init__(self, guard: str, side: Side, reason: str) -> None:
        self.guard, self.side, self.reason = guard, side, reason
        super().__init__(
            f"The {side} guard {guard} stopped the turn.",
            why=reason if reason.endswith((".", "!", "?")) else f"{reason}.",
            then="Tell the user, and begin another turn.",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Guards:
    """The guards of an agent, in the order in which they are asked."""

    input: Sequence[Guard] = ()
    output: Sequence[Guard] = ()

    def __post_init__(self) -> None:
        """Refuse what could not be asked when it counts."""
        for side, guards in (("input", self.input), ("output", self.output)):
            if not _are_guards(guards):
                raise InputError(
                    f"The {side} guards are a list of functions, not {guards!r}.",
                    why="Each of them is called with what it should look at.",
                    then=f"Pass Guards({side}=[your_guard]), with the functions themselves.",
                )

    def turn(self, memory: Memory, thread: str, resource: str, **options: Any) -> "GuardedTurn":
        """Begin a turn with guards around the model: `async with guards.turn(memory, "t1", "alice") as turn`."""
        check_memory(memory)
        return GuardedTurn(memory.turn(thread, resource, **options), self)

    def sync_turn(self, memory: SyncMemory, thread: str, resource: str, **options: Any) -> "SyncGuardedTurn":
        """Begin a turn without waiting: `with guards.sync_turn(memory, "t1", "alice") as turn`."""
        check_sync_memory(memory)
        return SyncGuardedTurn(memory.turn(thread, resource, **options), self)

    async def run(
        self,
        memory: Memory,
        thread: str,
        resource: str,
        *messages: NewMessage,
        model: Callable[[Context], Awaitable[NewMessage]],
        settings: Mapping[str, Any] | None = None,
    ) -> NewMessage:
        """Hold one turn of one step and return the answer; raises GuardStopped where a guard stops it."""
        async with self.turn(memory, thread, resource, settings=settings) as turn:
            context = await turn.prepare(*messages)
            answer = await model(context)
            await turn.record(answer)
        return answer

    def of(self, side: Side) -> Sequence[Guard]:
        """Return the guards of a side."""
        return self.input if side == "input" else self.output


class GuardedTurn:
    """A turn with guards around the model. Use it as a turn of memory; `prepare` and `record` may raise GuardStopped."""

    def __init__(self, turn: Turn, guards: Guards, *, on_threads: bool = False) -> None:
        """Take the turn, the guards, and whether these may hold up who calls them: then they get a thread each."""
        self._turn, self._guards, self._on_threads = turn, guards, on_threads
        self.thread, self.resource = turn.thread, turn.resource
        self._context = Context()

    async def prepare(
        self, *messages: NewMessage, ephemeral: Sequence[NewMessage] = (), model: str | None = None
    ) -> Context:
        """Save what is new and return what the model should see, if every input guard lets it pass."""
        self._context = await self._turn.prepare(*messages, ephemeral=ephemeral, model=model)
        await self._check("input", (*messages, *ephemeral))
        return self._context

    async def record(
        self, *messages: NewMessage, model: str | None = None, usage: Usage | None = None, beside: int | None = 0
    ) -> None:
        """Save what the model answered, if every output guard lets it pass."""
        await self._check("output", messages)
        await self._turn.record(*messages, model=model, usage=usage, beside=beside)

    async def discard(self) -> None:
        """Withdraw what this turn saved, as if it had not been said, and end the turn."""
        await self._turn.discard()

    async def _check(self, side: Side, messages: tuple[NewMessage, ...]) -> None:
        checked = Checked(side=side, messages=messages, context=self._context)
        for guard in self._guards.of(side):
            try:
                reason = await asyncio.to_thread(guard, checked) if self._on_threads else guard(checked)
                if inspect.isawaitable(reason):
                    reason = await reason
            except BaseException:
                # Who cannot tell that it is harmless must not let it pass.
                await self._turn.discard()
                raise
            if reason is not None:
                await self._turn.discard()
                raise _stopped(guard, side, reason)

    async def __aenter__(self) -> Self:
        await self._turn.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._turn.__aexit__(kind, error, trace)


class SyncGuardedTurn:
    """A guarded turn without `await`."""

    def __init__(self, turn: SyncTurn, guards: Guards) -> None:
        # The turn and the calls of its loop are the memory's; a guard that takes its time must not hold that loop up.
        self.inner = GuardedTurn(turn._turn, guards, on_threads=True)  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
        self._call = turn._portal.call  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]

    def prepare(self, *messages: NewMessage, ephemeral: Sequence[NewMessage] = (), model: str | None = None) -> Context:
        """Save what is new and return what the model should see, if every input guard lets it pass."""
        return self._call(self.inner.prepare(*messages, ephemeral=ephemeral, model=model))

    def record(
        self, *messages: NewMessage, model: str | None = None, usage: Usage | None = None, beside: int | None = 0
    ) -> None:
        """Save what the model answered, if every output guard lets it pass."""
        self._call(self.inner.record(*messages, model=model, usage=usage, beside=beside))

    def discard(self) -> None:
        """Withdraw what this turn saved, as if it had not been said, and end the turn."""
        self._call(self.inner.discard())

    def __enter__(self) -> Self:
        self._call(self.inner.__aenter__())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._call(self.inner.__aexit__(kind, error, trace))


def _are_guards(given: object) -> bool:
    return isinstance(given, Sequence) and all(map(callable, cast("Sequence[object]", given)))


def _stopped(guard: Guard, side: Side, reason: object) -> MemologError:
    if isinstance(reason, str) and reason.strip():
        return GuardStopped(_guard_name(guard), side, reason)
    return InputError(
        f"The {side} guard {_guard_name(guard)} returned {reason!r}.",
        why="A guard returns None where all is well, or the reason to stop as a text; the turn is discarded.",
        then="Return None or a text that is not empty.",
    )


def _guard_name(guard: Guard) -> str:
    return str(getattr(guard, "__name__", type(guard).__name__))
