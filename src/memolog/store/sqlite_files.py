"""The files of a SQLite database: what is left in them after rows were deleted, and the copies that stand beside them.

Knows pages, journals and indexes of words, all of which keep deleted bytes until they are written anew. Knows no table.
"""

import contextlib
import sqlite3
from pathlib import Path

from memolog.store.sqlite_errors import mapped_errors
from memolog.store.sqlite_schema import copy_file

__all__ = ["clean_file", "copies_of", "copy_before_repair", "damage_in", "rebuild_indexes"]

_BEFORE = ".before-"


def clean_file(path: str, *, timeout: float = 10.0) -> bool:
    """Write the file anew, so that nothing of what was deleted is left in it or in its journal.

    Waits for other writers. False if another process kept reading, so that the journal could not be emptied.
    """
    with (
        mapped_errors(path),
        contextlib.closing(sqlite3.connect(path, timeout=timeout, isolation_level=None)) as connection,
    ):
        # Deleting from an index only marks what is deleted: the words stay in its segments until these are merged.
        _tell_indexes(connection, "rebuild")
        connection.execute("VACUUM")
        row = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        return row[0] == 0


def rebuild_indexes(path: str, *, timeout: float = 10.0) -> None:
    """Build the indexes of words anew from their rows, in as few segments as can be."""
    with (
        mapped_errors(path),
        contextlib.closing(sqlite3.connect(path, timeout=timeout, isolation_level=None)) as connection,
    ):
        _tell_indexes(connection, "rebuild")
        _tell_indexes(connection, "optimize")


def damage_in(path: str, *, timeout: float = 10.0) -> tuple[list[str], list[str]]:
    """Return what SQLite itself finds wrong with the file, and the indexes of words that do not match their rows."""
    with (
        mapped_errors(path),
        contextlib.closing(sqlite3.connect(path, timeout=timeout, isolation_level=None)) as connection,
    ):
        told = [str(row[0]) for row in connection.execute("PRAGMA integrity_check(20)").fetchall()]
        wrong: list[str] = []
        for name in _word_indexes(connection):
            try:
                connection.execute(f"INSERT INTO {name} ({name}, rank) VALUES ('integrity-check', 1)")
            except sqlite3.DatabaseError as error:
                wrong.append(f"{name}: {error}")
        return [line for line in told if line != "ok"], wrong


def _tell_indexes(connection: sqlite3.Connection, command: str) -> None:
    for name in _word_indexes(connection):
        connection.execute(f"INSERT INTO {name} ({name}) VALUES ('{command}')")


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
