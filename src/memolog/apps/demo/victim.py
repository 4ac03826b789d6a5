"""The process that is killed: plays on from one exchange, and says what it has stored.

Run as `python -m memolog.apps.demo.victim NUMBER`, with the address of the database in `MEMOLOG_DB`. Once it has begun to
observe in the background it says so and stands still until somebody kills it.
"""

import asyncio
import json
import os
import sys

from memolog.apps.demo.script import script
from memolog.apps.demo.settings import open_memory
from memolog.apps.demo.stage import Played, play_exchange
from memolog.domain.message import NewMessage
from memolog.runtime.events import Event, RunStarted
from memolog.testing import FakeClock

__all__: list[str] = []


def _say(**told: object) -> None:
    print(json.dumps(told), flush=True)


def _hear(event: Event) -> None:
    if isinstance(event, RunStarted) and event.first_seq is not None:
        _say(run=event.run, first=event.first_seq, last=event.last_seq)
        # The run is claimed and its work is not done: this is the moment to die.
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
