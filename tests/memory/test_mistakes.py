"""Mistakes that a newcomer makes: each is refused at once, with what, why and what next, and nothing is lost by it."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kit.talk import hold
from memolog import (
    AssistantMessage,
    ConfigError,
    InputError,
    MemologError,
    Memory,
    NewMessage,
    ToolCallPart,
    ToolMessage,
    UserMessage,
)

Mistake = Callable[[Memory], Awaitable[object]]


async def _prepare(memory: Memory, *messages: object, **options: object) -> None:
    async with memory.thread("t1", resource="alice").turn() as turn:
        await turn.prepare(*messages, **options)  # pyright: ignore[reportArgumentType]


async def _record(memory: Memory, usage: object) -> None:
    async with memory.thread("t1", resource="alice").turn() as turn:
        await turn.prepare(UserMessage("hello"))
        await turn.record(AssistantMessage("hi"), usage=usage)  # pyright: ignore[reportArgumentType]


async def _turn(memory: Memory, **options: object) -> None:
    async with memory.thread("t1", resource="alice").turn(**options) as turn:  # pyright: ignore[reportArgumentType]
        await turn.prepare(UserMessage("hello"))


async def _unentered(memory: Memory) -> None:
    turn = memory.thread("t1", resource="alice").turn()
    turn.id = "mine"
    await turn.prepare(UserMessage("hello"))


def _made(make: Callable[[Any], NewMessage], content: object) -> NewMessage:
    return make(content)


async def _listen(memory: Memory) -> None:
    async def listener(_: object) -> None: ...

    memory.subscribe(listener)  # pyright: ignore[reportArgumentType]


async def _override(memory: Memory) -> None:
    await _prepare(memory, UserMessage("hello"))
    await memory.thread("t1", resource="alice").override({"nope": 1})


MISTAKES: dict[str, tuple[Mistake, type[MemologError], str]] = {
    "a number instead of a message": (lambda m: _prepare(m, 5), InputError, "UserMessage"),
    "a text for this request only": (
        lambda m: _prepare(m, UserMessage("hello"), ephemeral=["x"]),
        InputError,
        "UserMessage",
    ),
    "a number for this request only": (
        lambda m: _prepare(m, UserMessage("hello"), ephemeral=5),
        InputError,
        "message or a list",
    ),
    "a role that is none for this request only": (
        lambda m: _prepare(m, ephemeral=[NewMessage(role="bogus", parts=())]),  # pyright: ignore[reportArgumentType]
        InputError,
        "`role` must be one of",
    ),
    "a turn outside of its block": (_unentered, InputError, "async with"),
    "usage as a dict": (lambda m: _record(m, {"input_tokens": 3}), InputError, "Usage"),
    "a zone that nobody knows": (lambda m: _turn(m, zone="Mars/Phobos"), InputError, "Europe/Lisbon"),
    "a setting that is fixed": (lambda m: _turn(m, settings={"durability": "full"}), ConfigError, "durability"),
    "a call without an id": (
        lambda m: _prepare(m, AssistantMessage(ToolCallPart(id=None, name="look"))),  # pyright: ignore[reportArgumentType]
        InputError,
        "`id` of a ToolCallPart",
    ),
    "a result for a number": (lambda m: _prepare(m, ToolMessage(7, "found")), InputError, "ToolResultPart"),  # pyright: ignore[reportArgumentType]
    "redaction for one turn": (lambda m: _turn(m, settings={"redact_raw": True}), ConfigError, "redact_raw"),
    "a model for one turn": (lambda m: _turn(m, settings={"model": "openai:x"}), ConfigError, "turn\\(model="),
    "an observer for one turn": (
        lambda m: _turn(m, settings={"observation": {"model": "openai:x"}}),
        ConfigError,
        "observation.model",
    ),
    "nothing said": (lambda m: _prepare(m, _made(UserMessage, None)), InputError, "got None"),
    "nothing answered": (lambda m: _prepare(m, _made(AssistantMessage, None)), InputError, "got None"),
    "a number said": (lambda m: _prepare(m, _made(UserMessage, 5)), InputError, "got int"),
    "bytes said": (lambda m: _prepare(m, _made(UserMessage, b"x")), InputError, "got bytes"),
    "an async listener": (_listen, InputError, "memory.events"),
    "settings of a thread that nobody knows": (_override, ConfigError, "nope"),
    "a moment as a text": (lambda m: m.thread("t1", resource="alice").as_of("yesterday"), InputError, "datetime"),  # pyright: ignore[reportArgumentType]
    "a limit as a text": (lambda m: m.resource("alice").search("a", limit="3"), InputError, "whole number, got '3'"),  # pyright: ignore[reportArgumentType]
    "half a result": (lambda m: m.resource("alice").search("a", limit=2.5), InputError, "whole number, got 2.5"),  # pyright: ignore[reportArgumentType]
    "neighbours as a text": (lambda m: m.resource("alice").search("a", context="2"), InputError, "context=3"),  # pyright: ignore[reportArgumentType]
    "a source that is none": (
        lambda m: m.resource("alice").search("a", sources="rw"),  # pyright: ignore[reportArgumentType]
        InputError,
        "Unknown source: 'rw'",
    ),
    "a number of sources": (lambda m: m.resource("alice").search("a", sources=3), InputError, "Unknown source: 3"),  # pyright: ignore[reportArgumentType]
    "a list of lists": (lambda m: m.resource("alice").search("a", sources=[["raw"]]), InputError, "Unknown source"),  # pyright: ignore[reportArgumentType]
    "a cursor as a number": (lambda m: m.resource("alice").search("a", cursor=3), InputError, "unchanged"),  # pyright: ignore[reportArgumentType]
    "how many to keep as a text": (lambda m: m.thread("t1", resource="alice").compact(keep="2"), InputError, "keep=3"),  # pyright: ignore[reportArgumentType]
    "half a message to keep": (lambda m: m.thread("t1", resource="alice").compact(keep=2.5), InputError, "keep=3"),  # pyright: ignore[reportArgumentType]
    "the number of a context as a text": (
        lambda m: m.thread("t1", resource="alice").seen("1"),  # pyright: ignore[reportArgumentType]
        InputError,
        "must be a whole number",
    ),
    "a limit of tasks as a text": (lambda m: m.resource("alice").tasks().list(limit="3"), InputError, "whole number"),  # pyright: ignore[reportArgumentType]
    "days as a text": (lambda m: m.resource("alice").tasks().stale(days="3"), InputError, "`days` must be a number"),  # pyright: ignore[reportArgumentType]
    "a version as a text": (
        lambda m: m.resource("alice").working_memory().versions(before="3"),  # pyright: ignore[reportArgumentType]
        InputError,
        "whole number",
    ),
    "a title as a number": (
        lambda m: m.thread("t1", resource="alice").update(title=5),  # pyright: ignore[reportArgumentType]
        InputError,
        "`title` must be .*, got",
    ),
    "metadata as a text": (
        lambda m: m.thread("t1", resource="alice").update(metadata="x"),  # pyright: ignore[reportArgumentType]
        InputError,
        "`metadata` must be .*, got",
    ),
    "settings as a text": (
        lambda m: m.thread("t1", resource="alice").override("x"),  # pyright: ignore[reportArgumentType]
        InputError,
        "`settings` must be .*, got",
    ),
    "an export to nowhere": (lambda m: m.export(None), InputError, "`target` must be .*, got"),  # pyright: ignore[reportArgumentType]
    "a model as a number": (lambda m: _turn(m, model=5), InputError, "`model` must be .*, got"),
    "a generation as a text": (lambda m: m.thread("t1", resource="alice").restore("x"), InputError, "history"),  # pyright: ignore[reportArgumentType]
}


@pytest.mark.parametrize("name", MISTAKES)
async def test_a_mistake_is_refused_and_the_next_call_works(name: str) -> None:
    """The error names the way out, and the memory goes on."""
    mistake, kind, hint = MISTAKES[name]
    async with Memory(":memory:") as memory:
        with pytest.raises(kind, match=hint):
            await mistake(memory)
        context = await hold(memory, "and now")
        assert context.messages[-1].text == "and now"


async def test_one_message_for_this_request_only() -> None:
    """It need not stand in a list."""
    async with Memory(":memory:") as memory, memory.thread("t1", resource="alice").turn() as turn:
        context = await turn.prepare(UserMessage("hello"), ephemeral=UserMessage("once"))
        assert [message.text for message in context.messages] == ["hello", "once"]


def test_a_configuration_as_a_dict_and_no_address() -> None:
    """They are refused before anything is opened."""
    with pytest.raises(ConfigError, match="from_dict"):
        Memory(":memory:", config={"scope": "resource"})  # pyright: ignore[reportArgumentType]
    with pytest.raises(ConfigError, match=r"`address` must be .*, got"):
        Memory(None)  # pyright: ignore[reportArgumentType]
