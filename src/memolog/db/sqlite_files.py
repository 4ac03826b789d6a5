"""Clean, check, copy and lock the files of a SQLite database.

Deleted text stays in pages, journals and full-text indexes until they are rewritten.
"""

import contextlib
import itertools
import os
import re
import socket
import sqlite3
import stat
import tempfile
from collections.abc import Callable, Generator
from pathlib import Path

from memolog.db.sqlite import BUSY, check_size, code_of, file_is_gone, is_sealed, mapped, mapped_errors
from memolog.errors import ConfigError, Conflict, MemologError, StoreUnavailable

PARTIAL = r"\.[a-z0-9_]{8}\.partial"
"""A pattern for the end of the name of a file that is being written."""

_PRIVATE = 0o600

_BUSY_SECONDS = 30.0
# Older releases wrote to `NAME.partial`.
_HALF = rf"(?:(?:{PARTIAL}|\.partial)(?:-journal|-wal|-shm)?)?"
_COPY = re.compile(
    r"\.before-(?:migration-from-v[0-9]+|repair-[0-9]{8}T[0-9]{6}(?:-[0-9]+)?|restore-[0-9]+)(?P<half>" + _HALF + ")"
)


@contextlib.contextmanager
def connect(
    path: "str | os.PathLike[str]", mode: str = "rw", *, timeout: float = _BUSY_SECONDS
) -> Generator[sqlite3.Connection]:
    """Open a database file without an engine. `mode` is a mode of SQLite: ro, rw or rwc.

    The schema is not trusted, so its triggers, views and indexes cannot call functions with side effects.
    """
    immutable = "&immutable=1" if mode == "ro" and is_sealed(path) else ""
    address = f"{Path(path).absolute().as_uri()}?mode={mode}{immutable}"
    with contextlib.closing(sqlite3.connect(address, uri=True, timeout=timeout, isolation_level=None)) as connection:
        connection.execute("PRAGMA trusted_schema = OFF")
        yield connection


def clean_file(path: str, *, timeout: float = 10.0) -> bool:
    """Rewrite the file, so that deleted text is removed from the file and its journal. Wait for other writers.

    Return False if the journal could not be emptied because another process was reading.
    """
    with mapped_errors(path), connect(path, timeout=timeout) as connection:
        # Deleted words stay in a full-text index until its segments are merged.
        _run_on_indexes(connection, "rebuild")
        connection.execute("VACUUM")
        row = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        return row[0] == 0


def rebuild_indexes(path: str, *, timeout: float = 10.0) -> None:
    """Rebuild the full-text indexes from their rows, in as few segments as possible."""
    with mapped_errors(path), connect(path, timeout=timeout) as connection:
        _run_on_indexes(connection, "rebuild")
        _run_on_indexes(connection, "optimize")


def damage_in(path: str, *, timeout: float = 10.0, read_only: bool = False) -> tuple[list[str], list[str]]:
    """Return the problems that SQLite finds in the file, and a line for each full-text index that does not match its rows.

    With `read_only`, the full-text indexes are not compared with their rows, because SQLite writes for this check.
    """
    with mapped_errors(path), connect(path, "ro" if read_only else "rw", timeout=timeout) as connection:
        lines = [str(row[0]) for row in connection.execute("PRAGMA integrity_check(20)").fetchall()]
        wrong: list[str] = []
        for name in () if read_only else _text_indexes(connection):
            try:
                connection.execute(f"INSERT INTO {name} ({name}, rank) VALUES ('integrity-check', 1)")
            except sqlite3.DatabaseError as error:
                wrong.append(f"{name}: {error}")
        return [line for line in lines if line != "ok"], wrong


def _run_on_indexes(connection: sqlite3.Connection, command: str) -> None:
    for name in _text_indexes(connection):
        connection.execute(f"INSERT INTO {name} ({name}) VALUES ('{command}')")


def _text_indexes(connection: sqlite3.Connection) -> list[str]:
    """Return the quoted names of the full-text indexes."""
    rows = connection.execute(
        "SELECT name FROM sqlite_master WHERE type = 'table' AND sql LIKE 'CREATE VIRTUAL TABLE%USING fts5%'"
    )
    return ['"' + name.replace('"', '""') + '"' for (name,) in rows.fetchall()]


# ---------------------------------------------------------------- copies


def copy_whole(path: str, target: Path, *, overwrite: bool = False) -> None:
    """Copy a database as of its last commit, also while other processes write to it. Raise OSError if the copy cannot be written.

    The copy has no journal, and has the permissions of the original. It is renamed to `target` when it is complete.
    """
    with (
        new_file(target, mode=mode_of(path), overwrite=overwrite) as partial,
        mapped_errors(path),
        connect(path, "ro") as source,
        connect(partial) as copy,
    ):
        # Without a page limit, the backup is one step: it copies one consistent snapshot and blocks no writer.
        source.backup(copy)
        copy.execute("PRAGMA journal_mode = DELETE")


def copies_of(path: str, *, only_partial: bool = False) -> list[Path]:
    """Return the copies of a database that migrations, repairs and restores made, including partial copies."""
    # Copies are in the folder of the file itself, not in the folder of a symbolic link to it.
    file, copies = Path(path).resolve(), list[Path]()
    for found in sorted(file.parent.iterdir()):
        match = _COPY.fullmatch(found.name[len(file.name) :]) if found.name.startswith(file.name) else None
        if match and (match["half"] or not only_partial) and found.is_file() and not found.is_symlink():
            copies.append(found)
    return copies


def snapshot_path(path: str, version: int) -> Path:
    """Return the path of the copy that is made before the migration from this version."""
    return Path(f"{Path(path).resolve()}.before-migration-from-v{version}")


def copy_before_migration(path: str, version: int) -> None:
    """Copy a database before a migration, and replace the copy of an earlier attempt. The caller must hold the write lock."""
    for partial in copies_of(path, only_partial=True):
        # A crash has interrupted this copy.
        partial.unlink(missing_ok=True)
    copy_whole(path, snapshot_path(path, version), overwrite=True)


def copy_before_repair(path: str, stamp: str) -> Path:
    """Copy a database before a repair. Return the path of the copy."""
    target = Path(f"{Path(path).resolve()}.before-repair-{stamp}")
    if os.path.lexists(target):
        target = free_name(f"{target}-")
    copy_whole(path, target)
    return target


@contextlib.contextmanager
def new_file(target: Path, *, mode: int = _PRIVATE, overwrite: bool = False) -> Generator[Path]:
    """Yield the path of an empty file. The file is renamed to `target` when the block ends, and removed if the block raises.

    Raise FileExistsError if `target` exists, unless `overwrite` is set. A symbolic link is replaced, never followed.
    """
    if not overwrite and os.path.lexists(target):
        raise FileExistsError(f"{target} exists already")
    file, name = tempfile.mkstemp(dir=target.parent, prefix=f"{target.name}.", suffix=".partial")
    os.close(file)
    partial = Path(name)
    try:
        partial.chmod(mode)
        yield partial
        with partial.open("rb+") as file:
            os.fsync(file.fileno())
        if overwrite:
            partial.replace(target)
        else:
            _link(partial, target, mode)
    finally:
        with contextlib.suppress(OSError):
            partial.unlink(missing_ok=True)


def make_empty(path: Path, mode: int) -> None:
    """Create an empty file. Raise FileExistsError if the path exists, even as a broken symbolic link."""
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode))
    # The umask may have removed some bits.
    path.chmod(mode)


def _link(partial: Path, target: Path, mode: int) -> None:
    """Rename a file. Raise FileExistsError if another process has created a file with that name."""
    try:
        os.link(partial, target)
    except FileExistsError:
        raise
    except OSError:
        # Some file systems have no hard links. Create an empty file first, then replace it.
        make_empty(target, mode)
        partial.replace(target)


def mode_of(path: "str | os.PathLike[str]") -> int:
    """Return the permission bits of a file."""
    return stat.S_IMODE(Path(path).stat().st_mode) & 0o777


def free_name(start: str) -> Path:
    """Return the first unused path that begins with `start` and ends with a number."""
    return next(path for number in itertools.count(1) if not os.path.lexists(path := Path(f"{start}{number}")))


@contextlib.contextmanager
def only_worker(path: str) -> Generator[None]:
    """Make sure that no other worker uses the same SQLite file. The lock ends with the process, however it ends."""
    if path == ":memory:":
        raise ConfigError(
            "A worker cannot use a database in RAM.",
            why="No other process can reach that database.",
            then="Pass a file with --db.",
        )
    # A symbolic link and its target are the same database, so they have the same lock.
    file = Path(path).resolve()
    # A file that is no database must not get a lock file. Memory reports the error of a file that does not exist.
    if file.is_file():
        check_size(path)
        with mapped_errors(path), connect(file, "ro") as connection:
            connection.execute("PRAGMA schema_version")
    with contextlib.ExitStack() as stack:
        lock: sqlite3.Connection | None = None
        try:
            lock = stack.enter_context(
                contextlib.closing(sqlite3.connect(f"{file}-worker", isolation_level=None, timeout=0.0))
            )
            lock.execute("CREATE TABLE IF NOT EXISTS worker (pid INTEGER, host TEXT)")
            lock.execute("BEGIN IMMEDIATE")
            lock.execute("DELETE FROM worker")
            lock.execute("INSERT INTO worker VALUES (?, ?)", (os.getpid(), socket.gethostname()))
            lock.execute("COMMIT")
            # Others can still read who has the lock.
            lock.execute("BEGIN IMMEDIATE")
        except sqlite3.Error as error:
            if lock is not None and code_of(error) in BUSY:
                raise _taken(path, lock) from error
            raise _cannot_lock(f"{file}-worker", error) from error
        yield


def same_file(path: str) -> Callable[[], None]:
    """Return a function that raises StoreUnavailable if the file was removed or replaced since this call."""
    file = Path(path).absolute()
    before = _identity(file)

    def check() -> None:
        if _identity(file) != before:
            raise file_is_gone(path)

    return check


def _identity(file: Path) -> tuple[int, int] | None:
    try:
        found = file.stat()
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


def _cannot_lock(path: str, error: sqlite3.Error) -> MemologError:
    """Return the error for a lock file that cannot be created or written."""
    if code_of(error) not in {sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM}:
        return mapped(path, error)
    unavailable = StoreUnavailable(
        f"The lock file {path} of the worker cannot be written.",
        why=f"SQLite says: {error}.",
        then="Make the folder of the database writable, because a worker needs this file beside the database.",
    )
    # A retry cannot succeed: permissions do not change by themselves.
    unavailable.retryable = False
    return unavailable


def _taken(path: str, lock: sqlite3.Connection) -> Conflict:
    who = "Another process"
    with contextlib.suppress(sqlite3.OperationalError):
        row = lock.execute("SELECT pid, host FROM worker").fetchone()
        who = f"Process {row[0]} on {row[1]}" if row else who
    return Conflict(
        f"{who} is already the worker of {path}.",
        why="One worker does the work of a SQLite file.",
        then="Use that worker, or stop it first.",
    )
