"""Bringing a SQLite file to the present schema.

Knows how to lock, snapshot and migrate a file. Knows no table beside the record of migrations.
"""

import contextlib
import sqlite3
from collections.abc import Iterator
from functools import lru_cache
from typing import TypeAlias

from memolog.domain.errors import StoreCorrupt, StoreReadOnly
from memolog.store import migrate
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
from memolog.store.sqlite_files import copy_before_migration

__all__ = ["migrate_sqlite", "refuse_foreign_file"]

_Schema: TypeAlias = dict[tuple[str, str], tuple[str, str]]
"""What a database consists of: by kind and name, the table it belongs to and the statement that made it."""

_TABLE = "CREATE TABLE "
_SHOWN = 3


def refuse_foreign_file(path: str, connection: sqlite3.Connection) -> None:
    """Refuse the file of another application, and one whose schema is not ours, before anything is written to it.

    A trigger or a view that somebody has put into a file runs whenever we write to it or read from it, and a changed table or
    a missing trigger of ours lets through what must not be. Tables of others beside ours are left alone.
    """
    schema = _schema_of(connection)
    refuse_foreign(path, [name for kind, name in schema if kind == "table"])
    if not schema:
        return
    applied = connection.execute(READ_RECORD).fetchall()
    left = {migration.version for migration in pending("sqlite", applied)}
    ours = _made_by(tuple(one for one in migrate.migrations("sqlite") if one.version not in left))
    wrong = sorted(_differences(schema, ours))
    if wrong:
        more = f" and {len(wrong) - _SHOWN} more" if len(wrong) > _SHOWN else ""
        raise StoreCorrupt(
            f"The schema of {path} is not the one that Memolog makes: {', '.join(wrong[:_SHOWN])}{more}.",
            why="What others put into a database would run with every write, and what is missing protects nothing.",
            then="If you made that change, take it back; otherwise use a backup, or a file from a source that you trust.",
        )


def _schema_of(connection: sqlite3.Connection) -> _Schema:
    rows = connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_master").fetchall()
    schema = {(kind, name): (table, " ".join((sql or "").split())) for kind, name, table, sql in rows}
    # What the engine keeps for itself: statistics, counters, and indexes without a statement of their own.
    return {
        key: made for key, made in schema.items() if not (key[1].startswith("sqlite_") and _is_plain(made[1] or _TABLE))
    }


@lru_cache(maxsize=4)
def _made_by(done: tuple[Migration, ...]) -> _Schema:
    """Return the schema that these migrations make."""
    with contextlib.closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        connection.execute("BEGIN")
        connection.execute(CREATE_RECORD)
        for migration in done:
            for statement in _statements(migration.text):
                connection.execute(statement)
        return _schema_of(connection)


def _differences(schema: _Schema, ours: _Schema) -> Iterator[str]:
    """Name what is missing, changed, or there without being ours."""
    words = [name for (_, name), (_, sql) in ours.items() if sql.startswith("CREATE VIRTUAL TABLE")]
    for (kind, name), made in ours.items():
        found = schema.get((kind, name))
        # The engine makes the tables under an index of words, and may make them differently in another release.
        is_under_words = any(name.startswith(f"{index}_") for index in words)
        if found is None:
            yield f"the {kind} {name!r} is missing"
        elif found != made and not (is_under_words and _is_plain(found[1])):
            yield f"the {kind} {name!r} is changed"
    for (kind, name), (_, sql) in schema.items():
        if (kind, name) not in ours and not _is_plain(sql):
            yield f"there is a {kind} {name[:60]!r}"


def _is_plain(sql: str) -> bool:
    """Tell whether a statement makes a table and nothing else. The kind that a row of the schema names proves nothing."""
    return sql.startswith(_TABLE)


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
                copy_before_migration(path, version)
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


def _applied(connection: sqlite3.Connection) -> list[tuple[int, str]]:
    return connection.execute(READ_RECORD).fetchall() if _schema_of(connection) else []


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
