"""Processes that end right after `record`: a worker, `memolog worker --once` or a later turn observes their messages."""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from kit.clock import until
from kit.engines import engines
from memolog import AssistantMessage, Config, Memory, UserMessage
from memolog.testing import ScriptedModel
from worker.children import LIMIT, a_worker, is_drained
from worker.worker_child import CONFIG

engine_name = engines("sqlite", "postgres")
WORDS = "one two three four five six seven eight nine ten "
# A function: opens the memory, holds one turn and is gone, without closing anything.
FUNCTION = f"""
import asyncio, os, sys
from memolog import AssistantMessage, Memory
from memolog.testing import ScriptedModel
from worker.worker_child import CONFIG

async def main():
    memory = Memory(sys.argv[1], model=ScriptedModel(), config=CONFIG.with_overrides({{"background": sys.argv[2]}}))
    async with memory.thread("red", resource="alice").turn() as turn:
        await turn.prepare("{WORDS}" * 8)
        await turn.record(AssistantMessage("{WORDS}" * 8))
        os._exit(0)

asyncio.run(main())
"""


async def call_function(address: str, background: str) -> None:
    """Hold one turn in a process that ends right after `record`."""
    path = os.pathsep.join([*sys.path, *filter(None, [os.environ.get("PYTHONPATH")])])
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", FUNCTION, address, background, env={**os.environ, "PYTHONPATH": path}
    )
    assert await process.wait() == 0


def once(address: str, *more: str, code: int = 0) -> list[dict[str, Any]]:
    """Run `memolog worker --once`, as cron does, and return what it reports. The thresholds are stored with the resource."""
    done = subprocess.run(
        [sys.executable, "-m", "memolog", "worker", "--once", "--json", "--db", address, *more],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code, done
    return [json.loads(line) for line in done.stdout.splitlines()]


async def observed(memory: Memory) -> int:
    """Return how many messages of the thread are in groups."""
    runs = await memory.thread("red", resource="alice").runs()
    return sum(run.span.last - run.span.first + 1 for run in runs if run.status == "done" and run.span)


async def test_with_a_worker(address: str) -> None:
    """The worker observes what a process that is gone has left."""
    await call_function(address, "worker")
    await call_function(address, "worker")
    async with Memory(address, config=CONFIG) as memory, a_worker(address):

        async def is_so() -> bool:
            return await observed(memory) > 0 and await is_drained(memory, "red")

        await until(is_so, LIMIT)


async def test_with_cron(address: str) -> None:
    """`memolog worker --once` does what is due and exits; a second one finds nothing to do."""
    await call_function(address, "worker")
    await call_function(address, "worker")
    told = await asyncio.to_thread(once, address)
    assert told[0]["event"] == "started"
    assert (told[-1]["event"], told[-1]["failed"], told[-1]["errors"]) == ("ended", 0, 0)
    assert told[-1]["runs"] >= 1
    again = await asyncio.to_thread(once, address)
    assert again[-1]["runs"] == 0
    async with Memory(address, config=CONFIG) as memory:
        assert await observed(memory) > 0
        assert await memory.due() == ()


async def test_after_an_import(address: str, tmp_path: Path) -> None:
    """`memolog worker --once` right after an import observes what was imported, although no turn was made."""
    export = tmp_path / "export.jsonl"
    async with Memory(tmp_path / "source.db") as memory:
        # More tokens than the default thresholds ask for.
        said = [UserMessage(f"{WORDS * 20}{number}") for number in range(40)]
        await memory.thread("red", resource="alice").save(said)
        await memory.export(export)
    async with Memory(address) as memory:
        await memory.import_from(export)
    assert (await asyncio.to_thread(once, address))[-1]["runs"] >= 1
    async with Memory(address, config=Config(background="worker")) as memory:
        assert await observed(memory) > 0
        assert await memory.due() == ()


async def test_without_a_worker(address: str) -> None:
    """The next turn of the thread recovers what a process that is gone has left, and observes it."""
    config = CONFIG.with_overrides({"background": "loop"})
    await call_function(address, "loop")
    await call_function(address, "loop")
    async with Memory(address, model=ScriptedModel(), config=config) as memory:

        async def is_so() -> bool:
            async with memory.thread("red", resource="alice").turn() as turn:
                await turn.prepare("and now?")
                await turn.record(AssistantMessage("now this"))
            await memory.settled()
            return await observed(memory) >= 4

        await until(is_so, LIMIT)


async def test_a_second_worker_of_a_file(address: str, engine_name: str) -> None:
    """On SQLite it says who works already; on PostgreSQL it joins."""
    await call_function(address, "worker")
    async with a_worker(address) as first:
        await first.heard("started")
        if engine_name == "postgres":
            assert (await asyncio.to_thread(once, address, "--grace", "600"))[-1]["event"] == "ended"
            return
        (error,) = await asyncio.to_thread(lambda: once(address, code=4))
        assert f"Process {first.process.pid} on " in json.dumps(error)


def test_a_database_in_ram_has_no_worker() -> None:
    """Nobody else could use it."""
    (error,) = once(":memory:", code=3)
    assert "in RAM" in json.dumps(error)
