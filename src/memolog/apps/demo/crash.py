"""A crash that is real: another process plays on, and is killed while it observes in the background.

Knows how to start that process, to listen to it and to kill it. What follows is the memory's business.
"""

import asyncio
import json
import os
import sys
from asyncio.subprocess import DEVNULL, PIPE
from dataclasses import dataclass

from memolog.domain.errors import MemologError

__all__ = ["Killed", "kill_midway"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Killed:
    """What is known of the process that was killed."""

    pid: int
    exit_code: int
    saved: tuple[str, ...]
    """The ids of the messages that it said were stored."""
    run: str
    span: tuple[int, int]
    """The messages that it was observing."""


async def kill_midway(address: str, number: int) -> Killed:
    """Let another process play on from an exchange, and kill it as soon as it observes."""
    command = (sys.executable, "-m", "memolog.apps.demo.victim", str(number))
    # The address may hold a password: the arguments of a process are seen by every user of the machine.
    environment = {**os.environ, "MEMOLOG_DB": address}
    process = await asyncio.create_subprocess_exec(*command, env=environment, stdin=PIPE, stdout=PIPE, stderr=DEVNULL)
    saved: list[str] = []
    try:
        while line := await process.stdout.readline() if process.stdout else b"":
            told = json.loads(line)
            if "run" in told:
                process.kill()
                code = await process.wait()
                span = (told["first"], told["last"])
                return Killed(pid=process.pid, exit_code=code, saved=tuple(saved), run=told["run"], span=span)
            saved.append(told["saved"])
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    raise MemologError(
        "The process that was to be killed ended by itself.",
        why=f"Its exit code is {process.returncode}.",
        then="Run the demo again with a new --db.",
    )
