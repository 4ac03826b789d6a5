"""The shapes of turns: sequences of public calls. A shape waits at `point` between two calls until the world lets it continue."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from memolog import AssistantMessage, ToolCallPart, ToolMessage, UserMessage
from memolog.core.message import NewMessage, TextPart

if TYPE_CHECKING:
    from memolog.turn import Turn
    from simulation.actor import Actor


class BodyError(Exception):
    """The application fails in the middle of a turn."""


def _user(talk: Actor, tokens: int | None = None) -> NewMessage:
    return UserMessage(talk.words(tokens or talk.rng.randrange(5, 120)), id=talk.new_id())


def _answer(talk: Actor, tokens: int | None = None) -> NewMessage:
    return AssistantMessage(talk.words(tokens or talk.rng.randrange(10, 200)), id=talk.new_id())


def _calls(talk: Actor) -> tuple[NewMessage, list[str]]:
    names = [f"c{talk.new_id()}" for _ in range(talk.rng.choice((1, 1, 2, 3)))]
    parts = [ToolCallPart(id=name, name="look", arguments={"at": name}) for name in names]
    return AssistantMessage([TextPart(text=talk.words(10)), *parts], id=talk.new_id()), names


def _result(talk: Actor, call: str) -> NewMessage:
    size = talk.rng.choice((10, 40, 150, talk.window // 3))
    return ToolMessage(call, talk.words(size), name="look", id=talk.new_id())


async def _ask(talk: Actor, turn: Turn, tokens: int | None = None, **options: Any) -> None:
    await talk.prepare(turn, _user(talk, tokens), **options)
    await talk.point()
    await talk.record(turn, _answer(talk))


async def chat(talk: Actor) -> None:
    """Ask, be answered."""
    async with talk.turn() as turn:
        await _ask(talk, turn)
        await talk.point()


async def grow(talk: Actor) -> None:
    """Save an answer again, unchanged and then with further parts under the same id."""
    async with talk.turn() as turn:
        question = _user(talk)
        await talk.prepare(turn, question)
        first, more = TextPart(text=talk.words(20)), TextPart(text=talk.words(30))
        name = talk.new_id()
        await talk.record(turn, AssistantMessage([first], id=name))
        await talk.point()
        await talk.record(turn, question)
        await talk.record(turn, AssistantMessage([first, more], id=name))
        await talk.prepare(turn)
        await talk.point()


async def tools(talk: Actor) -> None:
    """Go through some rounds of tool calls, several at a time, answered together or one by one."""
    rng = talk.rng
    async with talk.turn() as turn:
        await talk.prepare(turn, _user(talk))
        for _ in range(rng.choice((1, 2, 3, 6))):
            await talk.point()
            message, names = _calls(talk)
            await talk.record(turn, message)
            await talk.point()
            rng.shuffle(names)
            results = [_result(talk, name) for name in names]
            if rng.random() < 0.6:
                await talk.prepare(turn, *results)
                continue
            for result in results:
                if rng.random() < 0.5:
                    await talk.record(turn, result)
                else:
                    await talk.prepare(turn, result)
                await talk.point()
            await talk.prepare(turn)
        await talk.record(turn, _answer(talk))


async def unanswered(talk: Actor) -> None:
    """Leave calls without results; some come later."""
    async with talk.turn() as turn:
        await talk.prepare(turn, _user(talk))
        await talk.point()
        message, names = _calls(talk)
        await talk.record(turn, message)
        answered = names[: talk.rng.randrange(len(names))]
        if answered:
            await talk.prepare(turn, *(_result(talk, name) for name in answered))
        talk.thread.open_calls.extend(names[len(answered) :])
        await talk.point()


async def late(talk: Actor) -> None:
    """Hand in a result that an earlier turn did not wait for, with or without a question before it."""
    waiting = talk.thread.open_calls
    async with talk.turn() as turn:
        if talk.rng.random() < 0.6 or not waiting:
            await talk.prepare(turn, _user(talk))
            await talk.point()
        if waiting:
            call = waiting.pop(talk.rng.randrange(len(waiting)))
            await talk.prepare(turn, _result(talk, call))
        await talk.record(turn, _answer(talk))
        await talk.point()


async def nested(talk: Actor) -> None:
    """Hold a turn inside a turn, of this thread or of another."""
    async with talk.turn() as outer:
        await talk.prepare(outer, _user(talk))
        message, names = _calls(talk)
        is_calling = talk.rng.random() < 0.5
        if is_calling:
            await talk.record(outer, message)
        async with talk.turn(talk.sibling()) as inner:
            await _ask(talk, inner)
        await talk.point()
        if is_calling:
            await talk.prepare(outer, *(_result(talk, name) for name in names))
        await talk.record(outer, _answer(talk))


async def huge(talk: Actor) -> None:
    """Say more at once than the window holds."""
    async with talk.turn() as turn:
        await _ask(talk, turn, talk.window * talk.rng.choice((1, 2, 4)))


async def ephemeral(talk: Actor) -> None:
    """Show the model something that is not kept."""
    async with talk.turn() as turn:
        await _ask(talk, turn, ephemeral=(UserMessage("this is for you only", id="passing"),))


async def discarded(talk: Actor) -> None:
    """Take everything back."""
    async with talk.turn() as turn:
        await talk.prepare(turn, _user(talk))
        await talk.point()
        if talk.rng.random() < 0.5:
            message, names = _calls(talk)
            await talk.record(turn, message)
            await talk.prepare(turn, *(_result(talk, name) for name in names))
            await talk.point()
        await talk.record(turn, _answer(talk, talk.rng.choice((20, talk.window // 2))))
        await talk.point()
        await talk.discard(turn)


async def raising(talk: Actor) -> None:
    """Fail in the middle."""
    async with talk.turn() as turn:
        await _ask(talk, turn)
        talk.struck("turn raises")
        raise BodyError


Shape: TypeAlias = "Callable[[Actor], Awaitable[None]]"
SHAPES: Final[tuple[tuple[Shape, float], ...]] = (
    (chat, 8),
    (tools, 5),
    (grow, 1),
    (unanswered, 1.2),
    (late, 1.2),
    (nested, 1),
    (huge, 0.7),
    (ephemeral, 0.7),
    (discarded, 1.2),
    (raising, 0.5),
)
