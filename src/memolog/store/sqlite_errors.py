"""SQLite's errors in our words.

Knows result codes, and what each means for whoever called: what happened, why, what to do next.
"""

import contextlib
import sqlite3
from collections.abc import Generator

from memolog.domain.errors import (
    MemologError,
    NotADatabase,
    StoreBusy,
    StoreCorrupt,
    StoreFull,
    StoreReadOnly,
    StoreUnavailable,
)

__all__ = ["BUSY", "cannot_open", "code_of", "file_is_gone", "mapped", "mapped_errors", "not_a_database"]

BUSY = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}


def code_of(error: sqlite3.Error) -> int:
    """Return the primary result code, without its extension."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


@contextlib.contextmanager
def mapped_errors(path: str) -> Generator[None]:
    """Turn SQLite's errors into ours, which say what to do next."""
    try:
        yield
    except sqlite3.Error as error:
        raise mapped(path, error) from error


def cannot_open(path: str, why: str) -> StoreUnavailable:
    """Return the error for a file that is not there and cannot be made."""
    error = StoreUnavailable(
        f"The database {path} cannot be opened.",
        why=f"SQLite says: {why}.",
        then="Check that the folder exists and that this user may write to it.",
    )
    # Unlike a server that is down, a folder that is not there does not come back by itself.
    error.retryable = False
    return error


def not_a_database(path: str, why: str) -> NotADatabase:
    """Return the error for a file of somebody else."""
    return NotADatabase(f"{path} is not a database.", why=why, then="Name another file, or move this one away.")


def mapped(path: str, error: sqlite3.Error) -> MemologError:
    """Return what an error of SQLite means."""
    says = f"SQLite says: {error}."
    code = code_of(error)
    if code in BUSY:
        return StoreBusy(
            f"The database {path} stayed locked.",
            why="Another process is in the middle of a long write.",
            then="Try again, or raise busy_timeout.",
        )
    if code == sqlite3.SQLITE_FULL or error.sqlite_errorcode == sqlite3.SQLITE_IOERR_SHMSIZE:
        return StoreFull(
            f"No space is left for {path}.",
            why=says,
            then="Free some space; nothing was half-saved.",
        )
    if code in {sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH}:
        return StoreReadOnly(
            f"The database {path} cannot be written to.",
            why=says,
            then="Check the permissions of the file and its folder, or open it with read_only=True.",
        )
    if code == sqlite3.SQLITE_NOTADB:
        return not_a_database(path, says)
    if code == sqlite3.SQLITE_CORRUPT:
        return StoreCorrupt(
            f"The database {path} is damaged.",
            why=says,
            then="Go back to a copy, or save what is left with the .recover command of the sqlite3 program.",
        )
    if code == sqlite3.SQLITE_CANTOPEN:
        return cannot_open(path, str(error))
    if code == sqlite3.SQLITE_IOERR:
        return StoreUnavailable(f"The disk under {path} failed.", why=says, then="Check the disk, then try again.")
    return StoreCorrupt(
        f"The database {path} refused the operation.",
        why=says,
        then="Nothing was saved by this call. Please report it: this should not happen.",
    )


def file_is_gone(path: str) -> StoreUnavailable:
    """Return the error for a file that was removed or replaced while it was open."""
    error = StoreUnavailable(
        f"The database {path} was removed or replaced while it was open.",
        why="What is written now would be in a file that nobody can find any more.",
        then="Put the file back, or close the memory and open it again; nothing was written meanwhile.",
    )
    # A person has to mend it: to try again at once changes nothing.
    error.retryable = False
    return error
