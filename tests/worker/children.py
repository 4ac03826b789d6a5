"""Processes of these tests: start a worker or a web process, and read the lines of JSON that it tells."""

import asyncio
import contextlib
import json
import os
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from kit.clock import until
from memolog import Memory

_FOLDER = Path(__file__).parent
LIMIT = 300
"""The longest that a test waits for something, in seconds. Only a failure takes so long."""


class Child:
    """A process, and what it has told so far."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.told: list[dict[str, Any]] = []
        self._reading = asyncio.create_task(self._read())

    async def _read(self) -> None:
        assert self.process.stdout is not None
        async for line in self.process.stdout:
            # A killed process may leave half a line.
            with contextlib.suppress(ValueError):
                self.told.append(json.loads(line))

    async def heard(self, event: str, count: int = 1) -> None:
        """Wait until it has told something so many times."""

        async def is_so() -> bool:
            return sum(one["event"] == event for one in self.told) >= count

        await until(is_so, LIMIT)

    async def kill(self) -> None:
        """End the process as a power failure does, if it is still there."""
        if self.process.returncode is None:
            self.process.kill()
        await self.ended()

    async def ended(self) -> int:
        """Wait for its end, and return its exit code."""
        async with asyncio.timeout(LIMIT):
            code = await self.process.wait()
            await self._reading
            return code


@asynccontextmanager
async def a_worker(address: str, *, seconds: float = 0.0, grace: float = 20.0) -> AsyncGenerator[Child]:
    """Start a worker, and kill it at the end of the block if it is still there."""
    child = await started("worker_child.py", address, str(seconds), str(grace))
    try:
        yield child
    finally:
        await child.kill()


async def started(program: str, *arguments: str) -> Child:
    """Start a program of this folder."""
    path = os.pathsep.join([str(_FOLDER.parent), *filter(None, [os.environ.get("PYTHONPATH")])])
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(_FOLDER / program),
        *arguments,
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": path},
    )
    return Child(process)


async def is_drained(memory: Memory, *threads: str) -> bool:
    """Return whether nothing is due, and no run is under way."""
    if await memory.due():
        return False
    states = [await memory.thread(thread, resource="alice").status() for thread in threads]
    return all(not state.running and not state.failed for state in states)
