"""Workers as real processes: they do what turns left to them, and whatever happens to one of them, another one goes on."""

import signal

from kit.clock import until
from kit.engines import engines
from memolog import AssistantMessage, Memory
from memolog.testing import ScriptedModel
from worker.children import LIMIT, a_worker, is_drained
from worker.worker_child import CONFIG

engine_name = engines("sqlite", "postgres")
WORDS = "one two three four five six seven eight nine ten "


async def turn(memory: Memory, thread: str, words: int = 100) -> None:
    """Hold one turn with about this many words."""
    async with memory.thread(thread, resource="alice").turn() as one:
        await one.prepare(WORDS * (words // 20))
        await one.record(AssistantMessage(WORDS * (words // 20)))


async def test_a_worker_does_what_turns_left(address: str) -> None:
    """Turns call no model. A worker, started before or after them, observes and indexes."""
    model = ScriptedModel()
    threads = ("red", "green", "blue")
    async with Memory(address, model=model, config=CONFIG) as memory:
        for _ in range(4):
            for thread in threads:
                await turn(memory, thread)
        assert model.requests == []
        async with a_worker(address) as child:
            await child.heard("looked", 3)
            await until(lambda: is_drained(memory, *threads), LIMIT)
            for _ in range(3):
                for thread in threads:
                    await turn(memory, thread)
            await until(lambda: is_drained(memory, *threads), LIMIT)

            async def is_indexed() -> bool:
                found = await memory.resource("alice").search("seven")
                return not found.unindexed

            await until(is_indexed, LIMIT)
            child.process.terminate()
            assert await child.ended() == 0
        assert child.told[-1]["event"] == "ended"
        assert child.told[-1]["failed"] == 0
        assert model.requests == []
        assert (await memory.doctor()).is_healthy


async def test_a_killed_worker_is_replaced(address: str) -> None:
    """A worker dies during a model call. When its lease has ended, another one takes its run over."""
    async with Memory(address, model=ScriptedModel(), config=CONFIG) as memory:
        for _ in range(4):
            await turn(memory, "red")
        async with a_worker(address, seconds=600) as first:
            await first.heard("asked")
            first.process.kill()
            await first.ended()
        async with a_worker(address) as second:
            await until(lambda: is_drained(memory, "red"), LIMIT)
            second.process.terminate()
            assert await second.ended() == 0
        assert second.told[-1]["recovered"] >= 1
        runs = await memory.thread("red", resource="alice").runs()
        assert {run.status for run in runs} == {"done"}
        assert (await memory.doctor()).is_healthy


async def test_a_worker_that_stops_gives_back(address: str) -> None:
    """SIGTERM during a long model call: the worker ends within its grace, and its lease has ended with it."""
    async with Memory(address, model=ScriptedModel(), config=CONFIG) as memory:
        for _ in range(4):
            await turn(memory, "red")
        async with a_worker(address, seconds=600, grace=4.0) as child:
            await child.heard("asked")
            child.process.send_signal(signal.SIGTERM)
            assert await child.ended() == 0
        runs = await memory.thread("red", resource="alice").runs()
        assert {run.status for run in runs} == {"running"}
        # The leases were given back, so the next worker takes the run over at once, and no attempt has failed.
        assert [one.reason for one in await memory.due()] == ["a run was left behind"]
        async with a_worker(address) as second:
            await until(lambda: is_drained(memory, "red"), LIMIT)
            second.process.terminate()
            assert await second.ended() == 0
        assert {run.attempt for run in await memory.thread("red", resource="alice").runs()} == {1}


async def test_a_worker_that_stops_finishes(address: str) -> None:
    """SIGTERM during a short model call: the worker waits for the answer, stores it and ends."""
    async with Memory(address, model=ScriptedModel(), config=CONFIG) as memory:
        for _ in range(4):
            await turn(memory, "red")
        async with a_worker(address, seconds=1.0, grace=100.0) as child:
            await child.heard("asked")
            child.process.send_signal(signal.SIGTERM)
            assert await child.ended() == 0
        assert child.told[-1]["runs"] >= 1
        assert "running" not in {run.status for run in await memory.thread("red", resource="alice").runs()}
