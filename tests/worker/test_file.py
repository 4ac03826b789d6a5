"""The file of a SQLite worker: what ends the worker, and who may work on it."""

import asyncio
import shutil
from pathlib import Path

import pytest

from memolog.errors import StoreUnavailable
from worker.children import LIMIT
from worker.test_stop import tell, worker_here


def move_away(file: str, *, is_replaced: bool) -> None:
    """Rename the file, and put a copy into its place if it `is_replaced`."""
    moved = Path(file).rename(f"{file}.away")
    if is_replaced:
        shutil.copy(moved, file)


@pytest.mark.parametrize("is_replaced", [False, True])
async def test_a_file_that_is_gone_ends_its_worker(file: str, *, is_replaced: bool) -> None:
    """The error has exit code 3, so that a supervisor starts the worker again."""
    await tell(file, "red")
    here = worker_here(file)
    here.model.gate.set()
    await here.heard("looked")
    move_away(file, is_replaced=is_replaced)
    async with asyncio.timeout(LIMIT):
        with pytest.raises(StoreUnavailable, match="was removed or replaced"):
            await here.task
    assert not [one for one in here.told if one["event"] == "error"][1:]
