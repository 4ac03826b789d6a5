"""Clones and merges under a log that threads share: nothing stands in it twice, and what cannot be done is said."""

from kit.engines import engines
from kit.talk import hold, listen
from memolog import Config
from memolog.events import Degraded
from memolog.memory import Memory
from memolog.testing import FakeClock

OWN = Config.from_dict({"observation": {"message_tokens": 300}, "scope": "thread"})
SHARED = OWN.with_overrides({"scope": "resource"})
engine_name = engines("sqlite", "postgres")


async def chat(memory: Memory, turns: int, thread: str = "a") -> str:
    """Hold some turns; return the log as the last one saw it."""
    system = ""
    for number in range(turns):
        system = (await hold(memory, f"The limit of q{number} is {number * 100}.", "Done. " * 30, thread=thread)).system
        await memory.settled()
    return system


async def test_a_clone_under_a_shared_log(address: str, clock: FakeClock) -> None:
    """It is covered as far as its original, by a group that says so, and goes on from there by itself."""
    async with Memory(address, clock=clock, config=SHARED) as memory:
        await chat(memory, 10)
        source = await memory.thread("a", resource="alice").observe()
        await memory.thread("a", resource="alice").clone("b")
        status = await memory.thread("b", resource="alice").status()
        assert (status.cursor, status.last_seq) == (source.cursor, source.last_seq)
        await memory.thread("b", resource="alice").observe()
        kit = await memory.open()
        copied = [run for run in await kit.store.runs.list("alice") if run.thread == "b"]
        assert [run.inputs for run in copied] == [{"cloned_from": "a"}]
        system = await chat(memory, 1, "b")
        assert system.count("limit of q7 is 700") == 1
        await memory.thread("b", resource="alice").observe()
        assert (await memory.thread("b", resource="alice").status()).cursor == source.cursor + 2
        assert (await memory.doctor()).is_healthy
        await memory.resource("alice").forget(thread="a")
        assert (await memory.doctor()).is_healthy


async def test_a_merge_says_what_it_leaves(address: str, clock: FakeClock) -> None:
    """What the shared log has observed by itself stays there; a thread that was merged before is no news."""
    for config, thread in ((SHARED, "a"), (OWN, "a"), (OWN, "b")):
        async with Memory(address, clock=clock, config=config) as memory:
            await chat(memory, 10, thread)
            await memory.thread(thread, resource="alice").observe()
    async with Memory(address, clock=clock, config=SHARED) as memory:
        events = listen(memory)
        assert await memory.resource("alice").merge() == ("b",)
        assert await memory.resource("alice").merge() == ()
        assert (await memory.doctor()).is_healthy
    told = [event for event in events if isinstance(event, Degraded)]
    assert [(event.thread, event.what) for event in told] == [("a", "merging a log")] * 2
    assert "already observed it" in told[0].error
