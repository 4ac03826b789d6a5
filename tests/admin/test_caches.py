"""What was forgotten is not left in memory: no cache of the process or of a memory holds a word of it."""

import gc
import sys
import types
from pathlib import Path

import pytest

from kit.talk import hold
from memolog.core.message import AssistantMessage, ToolCallPart, ToolMessage, UserMessage
from memolog.memory import Memory

# Backwards, so that nothing but what is planted holds the word.
DROW = "qakowozzuklib"


def told() -> str:
    """Return the word as it is told; made anew each time."""
    return DROW[::-1]


def holders() -> list[str]:
    """Return what still holds the word: containers, modules and caches that the collector knows, by their kind."""
    gc.collect()
    word, found = told(), list[str]()
    frames = {id(frame) for frame in sys._current_frames().values()}
    # Most texts are held by several containers; each is read once.
    clean = set[int]()
    for one in gc.get_objects():
        if id(one) in frames or isinstance(one, types.FrameType):
            continue
        for inner in gc.get_referents(one):
            if not isinstance(inner, str | bytes) or id(inner) in clean:
                continue
            if (word in inner.lower()) if isinstance(inner, str) else (word.encode() in inner.lower()):
                found.append(f"{type(one).__name__}: {repr(inner)[:80]}")
            else:
                clean.add(id(inner))
    return found


async def talk(memory: Memory, thread: str) -> None:
    """Tell the word in every way that passes a cache: said, called, found, recalled, shown, in a phrase and in a name."""
    word = told()
    for step in range(3):
        async with memory.thread(thread, resource="alice").turn() as turn:
            await turn.prepare(UserMessage(f"The {word} number {step} is stored in {word}_table_{step} since Monday."))
            await turn.record(
                AssistantMessage([ToolCallPart(id=f"c{step}", name="look", arguments={"where": f"{word}s/{step}"})]),
                ToolMessage(f"c{step}", {"found": [f"{word}ing was seen"]}, name="look"),
                AssistantMessage(f"Noted: the {word.upper()} is number {step}."),
            )
    await memory.thread(thread, resource="alice").observe()
    assert (await memory.resource("alice").search(word)).results
    assert (await memory.resource("alice").search(f'"the {word} number"')).results
    assert word in (await memory.resource("alice").recall("1-9", thread=thread, tokens=10_000)).text
    assert word in (await hold(memory, "And now?", thread=thread)).system


@pytest.mark.parametrize("what", ["resource", "thread", "closed"])
async def test_no_cache_holds_what_is_gone(tmp_path: Path, what: str) -> None:
    """Neither after a resource or a thread was forgotten, nor after the memory was closed."""
    assert holders() == []
    memory = Memory(tmp_path / "memory.db")
    async with memory:
        await talk(memory, "t1")
        assert holders()
        if what == "resource":
            await memory.resource("alice").forget()
        elif what == "thread":
            await memory.resource("alice").forget(thread="t1")
        if what != "closed":
            assert holders() == []
    assert holders() == []
