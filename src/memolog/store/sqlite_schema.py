"""Bringing a SQLite file to the present schema.

Knows how to lock, snapshot and migrate a file. Knows no table beside the record of migrations.
"""

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from memolog.domain.errors import StoreReadOnly
from memolog.store.migrate import (
    CREATE_RECORD,
    READ_RECORD,
    RECORD,
    Migration,
    pending,
    refuse_foreign,
)
from memolog.store.sqlite import is_memory
from memolog.store.sqlite_errors import mapped_errors

__all__ = ["copy_file", "migrate_sqlite", "refuse_foreign_file", "snapshot_path"]


def snapshot_path(path: str, version: int) -> Path:
    """Return where the copy stands that was taken before the migration from this version."""
    return Path(f"{path}.before-migration-from-v{version}")


def refuse_foreign_file(path: str, connection: sqlite3.Connection) -> None:
    """Refuse the file of another application before anything is written to it."""
    refuse_foreign(path, _tables(connection))


def migrate_sqlite(path: str, connection: sqlite3.Connection, *, now: int, read_only: bool = False) -> None:
    """Apply what is left, all in one transaction: two processes that start at once do it once."""
    with mapped_errors(path):
        if not _pending(path, connection):
            return
        if read_only:
            raise StoreReadOnly(
                f"The schema of {path} is not up to date, and it is opened for reading only.",
                then="Open it once without read_only: that brings it up to date.",
            )
        # The lock makes a second process wait here; it then finds nothing left to do.
        connection.execute("BEGIN IMMEDIATE")
        try:
            left = _pending(path, connection)
            version = _version(connection)
            if left and version and not is_memory(path):
                copy_file(path, snapshot_path(path, version))
            connection.execute(CREATE_RECORD)
            for migration in left:
                _apply(connection, migration, now)
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise


def _pending(path: str, connection: sqlite3.Connection) -> tuple[Migration, ...]:
    refuse_foreign_file(path, connection)
    return pending("sqlite", _applied(connection))


def _tables(connection: sqlite3.Connection) -> list[str]:
    rows = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
    return [name for (name,) in rows.fetchall()]


def _applied(connection: sqlite3.Connection) -> list[tuple[int, str]]:
    return connection.execute(READ_RECORD).fetchall() if _tables(connection) else []


def _version(connection: sqlite3.Connection) -> int:
    return max((version for version, _ in _applied(connection)), default=0)


def _apply(connection: sqlite3.Connection, migration: Migration, now: int) -> None:
    for statement in _statements(migration.text):
        connection.execute(statement)
    values = (migration.version, migration.name, migration.checksum, now)
    connection.execute(f"{RECORD} VALUES (?, ?, ?, ?)", values)


def _statements(text: str) -> Iterator[str]:
    """Split a file into statements; SQLite itself knows where one ends, also inside a trigger."""
    lines: list[str] = []
    for line in text.splitlines(keepends=True):
        lines.append(line)
        if sqlite3.complete_statement("".join(lines)):
            yield "".join(lines)
            lines.clear()


def copy_file(path: str, target: Path) -> None:
    """Copy the file as it was last committed. The copy appears under its name only when it is whole."""
    partial = target.with_name(f"{target.name}.partial")
    # A crash may have left half a copy.
    partial.unlink(missing_ok=True)
    with (
        contextlib.closing(sqlite3.connect(Path(path).absolute().as_uri() + "?mode=ro", uri=True)) as source,
        contextlib.closing(sqlite3.connect(partial)) as copy,
    ):
        source.backup(copy)
    partial.replace(target)
