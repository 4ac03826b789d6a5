"""A crash in the middle of a compaction leaves whole batches, and who asks again gets what there would have been."""

from contextlib import suppress
from typing import Any

import pytest

from crash.children import Deadly, Death
from crash.survivors import check_sound
from kit.engines import engines
from memolog import AssistantMessage, CompactionConfig, Config, ToolCallPart, ToolMessage, UserMessage
from memolog.memory import Memory
from memolog.testing import FakeClock

CONFIG = Config(observe=False, compaction=CompactionConfig(automatic=False, batch=5, after=5, deep_after=12))
NAMES = ("compactions.compact", "compactions.deepen", "compactions.restore")
POINTS = [f"{name}:{moment}" for name in NAMES for moment in ("before", "after")]


engine_name = engines("sqlite", "postgres")


async def fill(memory: Memory) -> None:
    """Save exchanges with a tool."""
    store = (await memory.open()).store
    for number in range(6):
        call = ToolCallPart(id=f"c{number}", name="read", arguments={"path": f"src/module_{number}.py"})
        await store.messages.save(
            "alice",
            "t",
            [
                UserMessage(f"Question {number} about module_{number}.", id=f"u{number}"),
                AssistantMessage([call], id=f"a{number}"),
                ToolMessage(f"c{number}", f"def handler_{number}(): ...\n" * 20, id=f"r{number}"),
                AssistantMessage(f"Answer {number}.", id=f"f{number}"),
            ],
        )


async def work(memory: Memory) -> None:
    """Compact all of it, and bring the second batch back."""
    await memory.thread("t", resource="alice").compact()
    made = await memory.thread("t", resource="alice").compactions()
    await memory.thread("t", resource="alice").restore_compaction(made[1].id)


async def left(memory: Memory) -> tuple[Any, ...]:
    """Return the texts of every message and what the batches say; ids differ from one life to the next."""
    store = (await memory.open()).store
    rows = await store.messages.after("alice", "t")
    made = await memory.thread("t", resource="alice").compactions()
    return (
        [(row.id, row.level, row.injection, row.search, row.parts) for row in rows],
        [(one.span, one.level, one.summary, one.messages, one.restored_at is None) for one in made],
    )


async def live(address: str, clock: FakeClock, point: str = "", nth: int = 1, *, first: bool = True) -> bool:
    """Do the work, and die at a commit point; tells whether that was reached."""
    memory, hook = Memory(address, config=CONFIG, clock=clock), Deadly(point, nth)
    if first:
        await fill(memory)
    store = (await memory.open()).store
    store.engine.commit_hook = hook
    with suppress(Death):
        await work(memory)
    store.engine.commit_hook = None
    for row in await store.messages.after("alice", "t"):
        assert (row.level == 0) == (row.injection is None)
    await memory.aclose()
    return hook.dead


@pytest.mark.parametrize("point", POINTS)
async def test_a_kill_in_the_middle_is_a_pause(point: str, address: str, clock: FakeClock) -> None:
    """Dead at any commit of it, before or after, the next process ends where an undisturbed one does."""
    whole = f"{address}_whole"
    await live(whole, clock)
    async with Memory(whole, config=CONFIG, clock=clock) as memory:
        expected = await left(memory)
    assert {row[1] for row in expected[0]} == {0, 1, 2}
    for nth in (1, 2, 4) if point.startswith("compactions.compact") else (1,):
        where = f"{address}_{nth}"
        assert await live(where, clock, point, nth), f"{point} was not reached {nth} times"
        async with Memory(where, config=CONFIG, clock=clock) as memory:
            before = await left(memory)
            await check_sound((await memory.open()).store)
        if not before[1] or all(one[4] for one in before[1]):
            # The restore had not happened: the whole of it is asked for again.
            await live(where, clock, first=False)
        async with Memory(where, config=CONFIG, clock=clock) as memory:
            assert await left(memory) == expected
