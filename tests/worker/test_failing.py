"""A SQLite file that is there and cannot be used: the worker ends, or it reports the failure once and tries again later."""

import asyncio
import sqlite3
from typing import Any

import pytest

from kit.clock import until
from memolog.apps.worker import poll
from memolog.db.sqlite import SqliteEngine, mapped
from memolog.errors import MemologError, StoreFull, StoreReadOnly
from worker.children import LIMIT
from worker.test_stop import tell, worker_here


class Broken:
    """Makes the first write of every look at a log fail with this error, while there is one."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, error: MemologError) -> None:
        self.error: MemologError | None = error
        self.failed = 0
        write = SqliteEngine.write

        async def broken(engine: SqliteEngine, work: Any, *, name: str, brief: bool = True) -> Any:
            if self.error is None or name != "processes.beat":
                return await write(engine, work, name=name, brief=brief)
            self.failed += 1
            raise self.error

        monkeypatch.setattr(SqliteEngine, "write", broken)


def read_only(path: str) -> MemologError:
    """Return the error for a file that this user may not write to."""
    error = sqlite3.OperationalError("attempt to write a readonly database")
    error.sqlite_errorcode = sqlite3.SQLITE_READONLY
    return mapped(path, error)


@pytest.mark.parametrize("once", [True, False])
async def test_a_file_that_cannot_be_written_ends_its_worker(
    file: str, monkeypatch: pytest.MonkeyPatch, *, once: bool
) -> None:
    """Waiting cannot mend that, so the error is raised, which is exit code 3, and is not reported before."""
    await tell(file, "red", "green")
    Broken(monkeypatch, read_only(file))
    here = worker_here(file, once=once)
    async with asyncio.timeout(LIMIT):
        with pytest.raises(StoreReadOnly, match="attempt to write a readonly database"):
            await here.task
    assert not [one for one in here.told if one["event"] == "error"]


async def test_once_looks_once_at_a_log_that_fails(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It ends with exit code 3 and has reported each of the logs once."""
    await tell(file, "red", "green")
    Broken(monkeypatch, StoreFull("No space is left."))
    here = worker_here(file, once=True)
    here.model.gate.set()
    async with asyncio.timeout(LIMIT):
        counts = await here.task
    assert counts.exit_code == 3
    failed = [one["what"] for one in here.told if one["event"] == "error"]
    assert sorted(failed) == ["looking at alice: green", "looking at alice: red"]


async def test_a_failure_is_reported_once(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A permanent worker tries again with growing pauses, and reports the failure once and the next success once."""
    monkeypatch.setattr(poll, "_SHORTEST", 0.01)
    monkeypatch.setattr(poll, "_LONGEST", 0.01)
    await tell(file, "red")
    broken = Broken(monkeypatch, StoreFull("No space is left."))
    here = worker_here(file)
    here.model.gate.set()

    async def has_failed_often() -> bool:
        return broken.failed >= 5

    await until(has_failed_often, LIMIT)
    broken.error = None
    await here.heard("looked")
    await here.heard("works")
    here.stop.set()
    await here.task
    looks = [one["event"] for one in here.told if one.get("what") == "looking at alice: red"]
    assert looks == ["error", "works"]
