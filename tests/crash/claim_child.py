"""The program of the claim tests: one process of several claimers, told by lines what to claim.

    claim_child.py ADDRESS NAME CLAIMERS     each line of stdin names a task; all claimers try it at once
    claim_child.py ADDRESS NAME hold TASK    claims a task for three seconds, tells so, and sleeps until it is killed

Each answer is one line: the names of the claimers that won.
"""

import asyncio
import json
import os
import sys
from datetime import timedelta

from crash.writer_child import RESOURCE, open_real
from memolog.errors import TaskHeld
from memolog.store import Store

__all__ = ["SHORT"]

SHORT = timedelta(seconds=3)


def _tell(value: object) -> None:
    os.write(1, json.dumps(value).encode() + b"\n")


async def _try(store: Store, task: str, session: str) -> str | None:
    try:
        await store.task_claims.claim(RESOURCE, task, session, lasts=timedelta(hours=1), who=session)
    except TaskHeld:
        return None
    return session


async def _claim(address: str, name: str, claimers: int) -> None:
    loop = asyncio.get_running_loop()
    async with await open_real(address) as store:
        _tell("ready")
        while task := (await loop.run_in_executor(None, sys.stdin.readline)).strip():
            tries = [_try(store, task, f"{name}.{number}") for number in range(claimers)]
            _tell([won for won in await asyncio.gather(*tries) if won is not None])


async def _hold(address: str, name: str, task: str) -> None:
    async with await open_real(address) as store:
        await store.task_claims.claim(RESOURCE, task, name, lasts=SHORT, who=name, thread="old")
        _tell("held")
        await asyncio.sleep(3600)


if __name__ == "__main__":
    match sys.argv[1:]:
        case [address, name, "hold", task]:
            asyncio.run(_hold(address, name, task))
        case [address, name, claimers]:
            asyncio.run(_claim(address, name, int(claimers)))
        case _:
            sys.exit(f"what is {sys.argv[1:]}?")
