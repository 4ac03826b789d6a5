"""Workers as real processes: they do what turns left to them, and whatever happens to one of them, another one goes on."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from kit.clock import until
from kit.engines import engines
from memolog import AssistantMessage, Memory
from memolog.testing import ScriptedModel
from worker.worker_child import CONFIG

engine_name = engines("sqlite", "postgres")
WORDS = "one two three four five six seven eight nine ten "
_FOLDER = Path(__file__).parent
_LIMIT = 120


class Child:
    """A worker process, and what it has told so far."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.told: list[dict[str, Any]] = []
        self._reading = asyncio.create_task(self._read())

    async def _read(self) -> None:
        assert self.process.stdout is not None
        async for line in self.process.stdout:
            self.told.append(json.loads(line))

    async def heard(self, event: str, count: int = 1) -> None:
        """Wait until it has told something so many times."""

        async def is_so() -> bool:
            return sum(one["event"] == event for one in self.told) >= count

        await until(is_so, _LIMIT)

    async def ended(self) -> int:
        """Wait for its end, and return its exit code."""
        async with asyncio.timeout(_LIMIT):
            code = await self.process.wait()
            await self._reading
            return code


@asynccontextmanager
async def a_worker(address: str, *, seconds: float = 0.0, grace: float = 20.0) -> AsyncGenerator[Child]:
    """Start a worker, and kill it at the end of the block if it is still there."""
    path = os.pathsep.join([str(_FOLDER.parent), *filter(None, [os.environ.get("PYTHONPATH")])])
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(_FOLDER / "worker_child.py"),
        *(address, str(seconds), str(grace)),
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": path},
    )
    child = Child(process)
    try:
        yield child
    finally:
        if process.returncode is None:
            process.kill()
        await child.ended()


@pytest.fixture
def new_address(address: str) -> str:
    """Return the address of a database with a worker's tables, which other processes open too."""
    return address


async def turn(memory: Memory, thread: str, words: int = 100) -> None:
    """Hold one turn with about this many words."""
    async with memory.thread(thread, resource="alice").turn() as one:
        await one.prepare(WORDS * (words // 20))
        await one.record(AssistantMessage(WORDS * (words // 20)))


async def backlog(memory: Memory, *threads: str) -> int:
    """Return how many tokens of these threads are neither in a group nor in a run that has ended."""
    states = [await memory.thread(thread, resource="alice").status() for thread in threads]
    return sum(state.backlog_tokens for state in states)


async def is_drained(memory: Memory, *threads: str) -> bool:
    """Return whether nothing is due, and no run is under way."""
    if await memory.due():
        return False
    states = [await memory.thread(thread, resource="alice").status() for thread in threads]
    return all(not state.running and not state.failed for state in states)


async def test_a_worker_does_what_turns_left(new_address: str) -> None:
    """Turns call no model. A worker, started before or after them, observes and indexes."""
    model = ScriptedModel()
    threads = ("red", "green", "blue")
    async with Memory(new_address, model=model, config=CONFIG) as memory:
        for _ in range(4):
            for thread in threads:
                await turn(memory, thread)
        assert model.requests == []
        async with a_worker(new_address) as child:
            await child.heard("looked", 3)
            await until(lambda: is_drained(memory, *threads), _LIMIT)
            for _ in range(3):
                for thread in threads:
                    await turn(memory, thread)
            await until(lambda: is_drained(memory, *threads), _LIMIT)

            async def is_indexed() -> bool:
                found = await memory.resource("alice").search("seven")
                return not found.unindexed

            await until(is_indexed, _LIMIT)
            child.process.terminate()
            assert await child.ended() == 0
        assert child.told[-1]["event"] == "ended"
        assert child.told[-1]["failed"] == 0
        assert model.requests == []
        assert (await memory.doctor()).is_healthy


async def test_a_killed_worker_is_replaced(new_address: str) -> None:
    """A worker dies during a model call. When its lease has ended, another one takes its run over."""
    async with Memory(new_address, model=ScriptedModel(), config=CONFIG) as memory:
        for _ in range(4):
            await turn(memory, "red")
        async with a_worker(new_address, seconds=600) as first:
            await first.heard("asked")
            first.process.kill()
            await first.ended()
        async with a_worker(new_address) as second:
            await until(lambda: is_drained(memory, "red"), _LIMIT)
            second.process.terminate()
            assert await second.ended() == 0
        assert second.told[-1]["recovered"] >= 1
        runs = await memory.thread("red", resource="alice").runs()
        assert {run.status for run in runs} == {"done"}
        assert (await memory.doctor()).is_healthy


async def test_a_worker_that_stops_gives_back(new_address: str) -> None:
    """SIGTERM during a long model call: the worker ends within its grace, and its lease has ended with it."""
    async with Memory(new_address, model=ScriptedModel(), config=CONFIG) as memory:
        for _ in range(4):
            await turn(memory, "red")
        async with a_worker(new_address, seconds=600, grace=4.0) as child:
            await child.heard("asked")
            child.process.send_signal(signal.SIGTERM)
            assert await child.ended() == 0
        runs = await memory.thread("red", resource="alice").runs()
        assert {run.status for run in runs} == {"running"}
        # The leases were given back, so the next worker takes the run over at once, and no attempt has failed.
        assert [one.reason for one in await memory.due()] == ["a run was left behind"]
        async with a_worker(new_address) as second:
            await until(lambda: is_drained(memory, "red"), _LIMIT)
            second.process.terminate()
            assert await second.ended() == 0
        assert {run.attempt for run in await memory.thread("red", resource="alice").runs()} == {1}


async def test_a_worker_that_stops_finishes(new_address: str) -> None:
    """SIGTERM during a short model call: the worker waits for the answer, stores it and ends."""
    async with Memory(new_address, model=ScriptedModel(), config=CONFIG) as memory:
        for _ in range(4):
            await turn(memory, "red")
        async with a_worker(new_address, seconds=1.0, grace=100.0) as child:
            await child.heard("asked")
            child.process.send_signal(signal.SIGTERM)
            assert await child.ended() == 0
        assert child.told[-1]["runs"] >= 1
        assert "running" not in {run.status for run in await memory.thread("red", resource="alice").runs()}
