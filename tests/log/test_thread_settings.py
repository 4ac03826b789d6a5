"""What differs for one thread or one turn, and what a memory tells of itself then."""

import pytest

from kit.engines import engines
from kit.talk import hold, listen
from memolog import Config, ConfigError, UserMessage
from memolog.events import Degraded, Trimmed
from memolog.memory import Memory
from memolog.testing import FakeClock

CONFIG = Config.from_dict({"observation": {"message_tokens": 300}})
engine_name = engines("sqlite", "postgres")


async def chat(memory: Memory, turns: int, thread: str = "t") -> None:
    """Hold some turns."""
    for number in range(turns):
        await hold(memory, f"The limit of q{number} is {number * 100}. " * 5, "Done. " * 15, thread=thread)
        await memory.settled()


async def test_settings_of_one_thread(address: str, clock: FakeClock) -> None:
    """They hold for its turns and its status, and for no other thread."""
    async with Memory(address, clock=clock, config=CONFIG) as memory:
        await chat(memory, 1)
        await chat(memory, 1, "other")
        thread = await memory.thread("t", resource="alice").override({"observation.message_tokens": 5_000})
        assert thread.overrides == {"observation.message_tokens": 5_000}
        assert (await memory.thread("t", resource="alice").status()).messages.limit == 5_000
        assert (await memory.thread("other", resource="alice").status()).messages.limit == 300


@pytest.mark.parametrize("name", ["model", "observation.model", "busy_timeout", "durability"])
async def test_an_error_names_the_thread(name: str) -> None:
    """A setting that neither a thread nor a turn can have is reported for the one that was given it."""
    async with Memory(":memory:") as memory:
        thread = memory.thread("t", resource="alice")
        with pytest.raises(ConfigError, match=f"`{name}` cannot be set for a thread"):
            await thread.create(settings={name: "x"})
        with pytest.raises(ConfigError, match=f"`{name}` cannot be set for a turn"):
            thread.turn(settings={name: "x"})


@pytest.mark.parametrize("settings", [{"read_only": True}, {"scope": "resource"}])
async def test_settings_that_a_thread_cannot_have(address: str, clock: FakeClock, settings: dict[str, object]) -> None:
    """How a thread is read is known before its settings are."""
    async with Memory(address, clock=clock, config=CONFIG) as memory:
        await chat(memory, 1)
        with pytest.raises(ConfigError, match="cannot be set for a thread"):
            await memory.thread("t", resource="alice").override(settings)
        assert await hold(memory, "And?", thread="t", settings=settings)


async def test_settings_of_one_turn(address: str, clock: FakeClock) -> None:
    """They count before the thread's own, which hold for all that they do not name and for the turns that follow."""
    async with Memory(address, clock=clock, config=CONFIG.with_overrides({"observe": False})) as memory:
        await chat(memory, 4)
        await memory.thread("t", resource="alice").override({"last_messages": 6, "context_tokens": 5_000})
        async with memory.thread("t", resource="alice").turn(settings={"last_messages": 2}) as turn:
            few = await turn.prepare(UserMessage("And?"))
            again = await turn.prepare()
        more = await hold(memory, "And now?", thread="t")
    assert [len(context.messages) for context in (few, again, more)] == [2, 2, 6]


async def test_settings_that_nobody_knows_any_more(address: str, clock: FakeClock) -> None:
    """What was stored past us, or by another release, is ignored and told of; the rest of it holds, and so do turns."""
    async with Memory(address, clock=clock, config=CONFIG) as memory:
        events = listen(memory)
        await chat(memory, 1)
        kit = await memory.open()
        own = {"nope": 1, "observation.message_tokens": 5_000}
        await kit.store.threads.update("alice", "t", overrides=own)
        assert (await memory.thread("t", resource="alice").status()).messages.limit == 5_000
        context = await hold(memory, "And?", thread="t")
        assert len(context.messages) == 3
    told = [event for event in events if isinstance(event, Degraded)]
    assert told
    assert all("nope" in event.error and event.thread == "t" for event in told)


async def test_health_without_a_log(address: str, clock: FakeClock) -> None:
    """Who observes nothing is not behind with it."""
    async with Memory(address, clock=clock, config=CONFIG.with_overrides({"observe": False})) as memory:
        await chat(memory, 12)
        assert (await memory.thread("t", resource="alice").status()).health == "ok"


async def test_a_reader_writes_nothing(address: str, clock: FakeClock) -> None:
    """A turn that only reads tells that it trimmed, and keeps no record of it."""
    async with Memory(address, clock=clock, config=CONFIG.with_overrides({"observe": False})) as memory:
        await chat(memory, 12)
        events = listen(memory)
        kit = await memory.open()
        before = await kit.store.journal.newest("alice")
        assert (
            await hold(
                memory, "And?", thread="t", settings={"read_only": True, "context_tokens": 400, "last_messages": 20}
            )
        ).trimmed
        assert await kit.store.journal.newest("alice") == before
    assert [event for event in events if isinstance(event, Trimmed)]
