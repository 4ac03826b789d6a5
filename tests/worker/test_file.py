"""The file of a SQLite worker: what ends the worker, and who may work on it."""

import asyncio
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from memolog.errors import Conflict, NotADatabase, StoreUnavailable
from worker.children import LIMIT
from worker.test_stop import tell, worker_here


def move_away(file: str, *, is_replaced: bool) -> None:
    """Rename the file, and put a copy into its place if it `is_replaced`."""
    moved = Path(file).rename(f"{file}.away")
    if is_replaced:
        shutil.copy(moved, file)


def names_in(folder: Path) -> list[str]:
    """Return the names of the files in a folder."""
    return [one.name for one in folder.iterdir()]


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


async def test_a_link_has_the_lock_of_its_file(file: str, tmp_path: Path) -> None:
    """A second worker cannot use the same database by another name."""
    await tell(file, "red")
    link = tmp_path / "link.db"
    link.symlink_to(file)
    first = worker_here(file)
    await first.heard("started")
    with pytest.raises(Conflict, match="is already the worker of"):
        await worker_here(str(link)).task
    first.model.gate.set()
    first.stop.set()
    await first.task


@pytest.mark.parametrize("text", ["short", "This is a text and no database.\n" * 99])
async def test_a_text_gets_no_lock(tmp_path: Path, text: str) -> None:
    """A file that is no database is left alone, and so is its folder."""
    path = tmp_path / "text.db"
    path.write_text(text)
    with pytest.raises(NotADatabase):
        await worker_here(str(path)).task
    assert names_in(tmp_path) == ["text.db"]


class FailingLock:
    """A connection to the lock file that fails as if its folder could not be written."""

    def __init__(self, code: int) -> None:
        self._code = code

    def execute(self, *_: object) -> None:
        """Raise the error of SQLite."""
        raise refused(self._code)

    def close(self) -> None:
        """Do nothing."""


def refused(code: int) -> sqlite3.OperationalError:
    """Return an error of SQLite with this code."""
    error = sqlite3.OperationalError("the folder cannot be written")
    error.sqlite_errorcode = code
    return error


@pytest.mark.parametrize("code", [sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY])
@pytest.mark.parametrize("opens", [True, False])
async def test_a_lock_that_cannot_be_written(
    file: str, monkeypatch: pytest.MonkeyPatch, code: int, *, opens: bool
) -> None:
    """The error names the folder, and does not call the process of an old lock file the worker."""
    await tell(file, "red")
    connect = sqlite3.connect

    def connected(path: str, *arguments: Any, **named: Any) -> Any:
        if not str(path).endswith("-worker"):
            return connect(path, *arguments, **named)
        if not opens:
            raise refused(code)
        return FailingLock(code)

    monkeypatch.setattr(sqlite3, "connect", connected)
    with pytest.raises(StoreUnavailable, match="folder of the database writable") as caught:
        await worker_here(file).task
    assert f"{file}-worker" in caught.value.what
    assert not caught.value.retryable
