"""Values that are not what they should be: refused by the call that brings them, and never in the way of anything else."""

import datetime as dt
import math
from collections import UserDict
from collections.abc import Iterator
from typing import Any, cast

import pytest

from kit.engines import engines
from kit.talk import RESOURCE, THREAD, hold, stories
from memolog import (
    AssistantMessage,
    FilePart,
    InputError,
    NewMessage,
    ReasoningPart,
    TextPart,
    ToolResultPart,
    UserMessage,
)
from memolog.context import build as contexts
from memolog.core.message import parts_to_json
from memolog.core.run import Usage
from memolog.events import Degraded
from memolog.messages import store as messages
from messages.test_away import nowhere
from messages.test_faults import Open, Talk, unwritable

ODD_USAGE: dict[str, dict[str, Any]] = {
    "no tokens": {"input_tokens": None},
    "tokens as a text": {"output_tokens": "5"},
    "tokens without end": {"cache_read_tokens": 2**70},
    "half a token": {"input_tokens": 0.5},
    "a cost as a text": {"cost": "0.1"},
    "a cost that is no number": {"cost": math.nan},
    "a cost without end": {"cost": 10**400},
    "a kind that is none": {"kind": "zzz"},
    "no model": {"model": None},
    "a time as a text": {"at": "2026-01-01"},
}
ODD_MESSAGES: dict[str, dict[str, Any]] = {
    "a time as a text": {"created_at": "2026-01-01T00:00:00Z"},
    "a time as a number": {"created_at": 1_700_000_000.0},
    "a date": {"created_at": dt.date(2026, 1, 1)},
    "own as a text": {"own": "yes"},
    "no parts": {"parts": None},
    "parts as a text": {"parts": "hello"},
    "a number for a name": {"role": "tool", "parts": (ToolResultPart(call_id="c", name=5),)},  # pyright: ignore[reportArgumentType]
    "a list for a call": {"role": "tool", "parts": (ToolResultPart(call_id=["c"]),)},  # pyright: ignore[reportArgumentType]
    "bytes for a signature": {"role": "assistant", "parts": (ReasoningPart(signature=b"abc"),)},  # pyright: ignore[reportArgumentType]
    "a file without a kind": {"parts": (FilePart(media_type=None),)},  # pyright: ignore[reportArgumentType]
    "a list as metadata": {"metadata": [1]},
    "an object in the metadata": {"metadata": {"x": object()}},
    "a number for an id": {"id": 7},
}


class Moody(UserDict[str, Any]):
    """Metadata that cannot be read any more once it is moody."""

    is_moody = False

    def __iter__(self) -> Iterator[str]:
        if self.is_moody:
            raise RuntimeError("not today")
        return super().__iter__()


def poison(metadata: Moody) -> NewMessage:
    """Return a message that was fine when it was said."""
    return NewMessage(role="user", parts=(TextPart(text="poison"),), metadata=metadata)


engine_name = engines("sqlite", "postgres")


tell = stories(Talk, may_lose=True)


@pytest.mark.parametrize("name", ODD_USAGE)
async def test_odd_usage_is_refused_by_the_call_that_brings_it(tell: Open, name: str) -> None:
    """Whether the database can be written or not; nothing of the call is kept, and the thread goes on."""
    story, odd = tell(), Usage(**dict[str, Any](model="m", input_tokens=5) | ODD_USAGE[name])
    async with story.memory.thread(THREAD, resource=RESOURCE).turn() as turn:
        await turn.prepare(UserMessage("one"))
        with pytest.raises(InputError):
            await turn.record(AssistantMessage("refused"), usage=odd)
        with unwritable(await story.store()):
            await turn.record(AssistantMessage("two"))
            with pytest.raises(InputError):
                await turn.record(AssistantMessage("refused"), usage=odd)
    story.said += ["one", "two"]
    assert await story.stored() == story.said
    assert (await story.memory.thread(THREAD, resource=RESOURCE).status()).unsaved == 0


@pytest.mark.parametrize("name", ODD_MESSAGES)
async def test_an_odd_message_is_refused_by_the_call_that_brings_it(tell: Open, name: str) -> None:
    """The same for messages, in both calls of a turn."""
    story, odd = tell(), NewMessage(**dict[str, Any](role="user", parts=()) | ODD_MESSAGES[name])
    async with story.memory.thread(THREAD, resource=RESOURCE).turn() as turn:
        with pytest.raises(InputError):
            await turn.prepare(odd)
        with unwritable(await story.store()):
            await turn.prepare(UserMessage("one"))
            with pytest.raises(InputError):
                await turn.record(odd)
            with pytest.raises(InputError):
                await turn.prepare(odd)
    assert await story.stored() == ["one"]
    assert (await story.memory.thread(THREAD, resource=RESOURCE).status()).unsaved == 0


async def test_what_can_never_be_saved_is_given_up_alone(tell: Open) -> None:
    """For whatever reason: it is told, and what was said before and after it is saved, in every thread."""
    story, metadata = tell(), Moody(x=1)
    await story.chat(1)
    usage = Usage(model="m", input_tokens=5)
    with unwritable(await story.store()):
        async with story.memory.thread(THREAD, resource=RESOURCE).turn() as turn:
            await turn.prepare(UserMessage("one"))
            await turn.record(poison(metadata), AssistantMessage("two"), usage=usage)
        await hold(story.memory, "three", thread="another", resource="bob")
        metadata.is_moody = True
        # Nobody may change what was handed in; who does it all the same harms nothing else.
        object.__setattr__(usage, "input_tokens", None)
    await story.memory.settled()
    story.said += ["one", "two"]
    assert await story.stored() == story.said
    store = await story.store()
    assert [row.text for row in await store.messages.after("bob", "another", 0)] == ["three"]
    lost = [event.error for event in story.told(Degraded) if "cannot be" in event.error]
    assert [text.partition(":")[0] for text in lost] == [
        f"1 message of thread {THREAD} cannot be saved",
        f"the usage of a request of thread {THREAD} cannot be stored",
    ]
    assert (await story.memory.thread(THREAD, resource=RESOURCE).status()).unsaved == 0
    await story.memory.aclose()


async def test_a_memory_that_is_closed_saves_what_stands_beside_an_odd_value(tell: Open) -> None:
    """The loss of one message is told, and nothing else is lost."""
    story, metadata = tell(), Moody(x=1)
    with unwritable(await story.store()):
        async with story.memory.thread(THREAD, resource=RESOURCE).turn() as turn:
            await turn.prepare(poison(metadata))
        await hold(story.memory, "three", thread="another")
        metadata.is_moody = True
    await story.memory.aclose()
    again = tell()
    rows = await (await again.store()).messages.after(RESOURCE, "another", 0)
    assert [row.text for row in rows] == ["three"]


async def test_a_row_that_is_stored_already_is_shown(tell: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    """An earlier release took a number for a tool's name, and bytes for a signature."""
    story = tell()
    parts = (
        ToolResultPart(
            call_id="c", content="found", name=cast("Any", 5), files=(FilePart(media_type=cast("Any", None)),)
        ),
        ReasoningPart(text="hm", signature=cast("Any", ["x"])),
    )
    with monkeypatch.context() as patch:
        patch.setattr(messages, "check_message", unchecked)
        await (await story.store()).messages.save(
            RESOURCE, THREAD, [NewMessage(role="tool", parts=parts[:1]), NewMessage(role="assistant", parts=parts[1:])]
        )
    context = await hold(story.memory, "hello")
    assert "found" in context.messages[0].text
    assert context.messages[-1].text == "hello"
    await story.memory.thread(THREAD, resource=RESOURCE).observe()
    assert (await story.memory.thread(THREAD, resource=RESOURCE).status()).health == "ok"
    assert not story.told(Degraded)


def unchecked(message: NewMessage) -> str:
    """Take a message as it is."""
    return parts_to_json(message.parts)


@pytest.mark.parametrize("is_away", [False, True])
async def test_a_context_that_cannot_be_built(tell: Open, monkeypatch: pytest.MonkeyPatch, *, is_away: bool) -> None:
    """The last resort builds nothing: the model is shown what was said."""

    def broken(_: object) -> None:
        raise TypeError("not today")

    monkeypatch.setattr(contexts, "build", broken)
    story = tell(instructions="Be brief.")
    if is_away:
        story.memory.address = nowhere()
    async with story.memory.thread(THREAD, resource=RESOURCE).turn() as turn:
        context = await turn.prepare(UserMessage("one"), ephemeral=[UserMessage("once")])
    assert context.system == "Be brief."
    assert [message.text for message in context.messages] == ["one", "once"]
    assert story.told(Degraded)


async def test_a_conflict_is_given_up_alone(tell: Open) -> None:
    """What waits is saved as one; a message of it whose id is taken does not take the others with it."""
    story = tell()
    await hold(story.memory, UserMessage("one", id="m1"))
    async with story.memory.thread(THREAD, resource=RESOURCE).turn() as turn:
        with unwritable(await story.store()):
            await turn.prepare(UserMessage("two"))
            await turn.record(AssistantMessage("taken", id="m1"), AssistantMessage("three"))
        context = await turn.prepare(UserMessage("four"))
    assert [message.text for message in context.messages] == ["one", "two", "three", "four"]
    assert await story.stored() == ["one", "two", "three", "four"]
    assert [event for event in story.told(Degraded) if "m1 is already stored" in event.error]
