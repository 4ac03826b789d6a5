"""Kill a real process while it observes in the background.

Run as a module with the number of an exchange and `MEMOLOG_DB`, this is the process that is killed: it prints what it stored,
and waits once its first background run has started.
"""

import asyncio
import json
import os
import sys
from asyncio.subprocess import DEVNULL, PIPE
from dataclasses import dataclass

from memolog.apps.demo.script import Played, open_memory, play_exchange, script
from memolog.core.message import NewMessage
from memolog.errors import MemologError
from memolog.events import Event, RunStarted
from memolog.testing import FakeClock


@dataclass(frozen=True, slots=True, kw_only=True)
class Killed:
    """What is known of the killed process."""

    pid: int
    exit_code: int
    saved: tuple[str, ...]
    """Ids of the messages that it reported as stored."""
    run: str
    span: tuple[int, int]
    """Messages that it was observing."""


async def kill_midway(address: str, number: int) -> Killed:
    """Let another process play from an exchange on, and kill it as soon as it observes."""
    command = (sys.executable, "-m", "memolog.apps.demo.crash", str(number))
    # The address may contain a password, and arguments are visible to every user of the machine.
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
        "The process to be killed ended by itself.",
        why=f"Its exit code is {process.returncode}.",
        then="Run the demo again with a new --db.",
    )


def _say(**told: object) -> None:
    print(json.dumps(told), flush=True)


def _hear(event: Event) -> None:
    if isinstance(event, RunStarted) and event.first_seq is not None:
        _say(run=event.run, first=event.first_seq, last=event.last_seq)
        # The run is claimed and not finished: wait here to be killed.
        sys.stdin.read()


def _saved(message: NewMessage) -> None:
    _say(saved=message.id)


async def _play(address: str, number: int) -> None:
    clock = FakeClock()
    async with open_memory(address, clock, "victim") as memory:
        memory.subscribe(_hear)
        for exchange in script()[number:]:
            await play_exchange(memory, clock, exchange, Played(), saved=_saved)


if __name__ == "__main__":
    asyncio.run(_play(os.environ["MEMOLOG_DB"], int(sys.argv[1])))
