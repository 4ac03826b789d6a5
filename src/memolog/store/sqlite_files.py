"""The files of a SQLite database: what is left in them after rows were deleted, and the copies that stand beside them.

Knows pages, journals and indexes of words, all of which keep deleted bytes until they are written anew. Knows no table.
"""

import contextlib
import sqlite3
from pathlib import Path

from memolog.store.sqlite import mapped_errors
from memolog.store.sqlite_schema import copy_file

__all__ = ["clean_file", "copies_of", "copy_before_repair"]

_BEFORE = ".before-"


def clean_file(path: str, *, timeout: float = 10.0) -> bool:
    """Write the file anew, so that nothing of what was deleted is left in it or in its journal.

    Waits for other writers. False if another process kept reading, so that the journal could not be emptied.
    """
    with (
        mapped_errors(path),
        contextlib.closing(sqlite3.connect(path, timeout=timeout, isolation_level=None)) as connection,
    ):
        for name in _word_indexes(connection):
            # Deleting from an index only marks what is deleted: the words stay in its segments until these are merged.
            connection.execute(f"INSERT INTO {name} ({name}) VALUES ('rebuild')")
        connection.execute("VACUUM")
        row = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        return row[0] == 0


def _word_indexes(connection: sqlite3.Connection) -> list[str]:
    rows = connection.execute(
        "SELECT name FROM sqlite_master WHERE type = 'table' AND sql LIKE 'CREATE VIRTUAL TABLE%USING fts5%'"
    )
    return [name for (name,) in rows.fetchall()]


def copies_of(path: str) -> list[Path]:
    """Return the copies that migrations and repairs left beside a database, also half ones."""
    file = Path(path)
    return sorted(found for found in file.parent.glob(f"{_literal(file.name)}{_BEFORE}*") if found.is_file())


def copy_before_repair(path: str, stamp: str) -> Path:
    """Copy a database beside itself; returns where to."""
    target = Path(f"{path}{_BEFORE}repair-{stamp}")
    copy_file(path, target)
    return target


def _literal(name: str) -> str:
    return "".join(f"[{sign}]" if sign in "*?[" else sign for sign in name)
