"""The files of a SQLite database: what is left in them after rows were deleted, and the copies that stand beside them.

Knows pages, journals and indexes of words, all of which keep deleted bytes until they are written anew. Knows no table.
"""

import contextlib
import itertools
import os
import re
import sqlite3
import stat
import tempfile
from collections.abc import Generator
from pathlib import Path

from memolog.db.sqlite import mapped_errors

PARTIAL = r"\.[a-z0-9_]{8}\.partial"
"""How the name of a file ends, as a pattern, while it is being written."""

_PRIVATE = 0o600

_BUSY_SECONDS = 30.0
# Releases before this one wrote to `NAME.partial`.
_HALF = rf"(?:(?:{PARTIAL}|\.partial)(?:-journal|-wal|-shm)?)?"
_COPY = re.compile(
    r"\.before-(?:migration-from-v[0-9]+|repair-[0-9]{8}T[0-9]{6}(?:-[0-9]+)?|restore-[0-9]+)(?P<half>" + _HALF + ")"
)


@contextlib.contextmanager
def connect(
    path: "str | os.PathLike[str]", mode: str = "rw", *, timeout: float = _BUSY_SECONDS
) -> Generator[sqlite3.Connection]:
    """Open a database file by itself, for work that no script does; `mode` is one of SQLite's: ro, rw, rwc.

    Nothing that the schema of the file says is trusted: no function with an effect runs from a trigger, a view or an index.
    """
    address = f"{Path(path).absolute().as_uri()}?mode={mode}"
    with contextlib.closing(sqlite3.connect(address, uri=True, timeout=timeout, isolation_level=None)) as connection:
        connection.execute("PRAGMA trusted_schema = OFF")
        yield connection


def clean_file(path: str, *, timeout: float = 10.0) -> bool:
    """Write the file anew, so that nothing of what was deleted is left in it or in its journal.

    Waits for other writers. False if another process kept reading, so that the journal could not be emptied.
    """
    with mapped_errors(path), connect(path, timeout=timeout) as connection:
        # Deleting from an index only marks what is deleted: the words stay in its segments until these are merged.
        _tell_indexes(connection, "rebuild")
        connection.execute("VACUUM")
        row = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        return row[0] == 0


def rebuild_indexes(path: str, *, timeout: float = 10.0) -> None:
    """Build the indexes of words anew from their rows, in as few segments as can be."""
    with mapped_errors(path), connect(path, timeout=timeout) as connection:
        _tell_indexes(connection, "rebuild")
        _tell_indexes(connection, "optimize")


def damage_in(path: str, *, timeout: float = 10.0) -> tuple[list[str], list[str]]:
    """Return what SQLite itself finds wrong with the file, and the indexes of words that do not match their rows."""
    with mapped_errors(path), connect(path, timeout=timeout) as connection:
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
    """Return the names of the indexes of words, quoted."""
    rows = connection.execute(
        "SELECT name FROM sqlite_master WHERE type = 'table' AND sql LIKE 'CREATE VIRTUAL TABLE%USING fts5%'"
    )
    return ['"' + name.replace('"', '""') + '"' for (name,) in rows.fetchall()]


# ---------------------------------------------------------------- copies


def copy_whole(path: str, target: Path, *, overwrite: bool = False) -> None:
    """Copy a database as it was last committed, while others write to it; raises FileExistsError and other errors of the system.

    The copy is of one moment, has no journal beside it, and may be read by whom the original may be read by. It appears under
    its name only when it is whole.
    """
    with (
        new_file(target, mode=mode_of(path), overwrite=overwrite) as partial,
        mapped_errors(path),
        connect(path, "ro") as source,
        connect(partial) as copy,
    ):
        # In one step: a reader's view of one moment, which keeps no writer waiting.
        source.backup(copy)
        copy.execute("PRAGMA journal_mode = DELETE")


def copies_of(path: str) -> list[Path]:
    """Return the copies that migrations, repairs and restores left beside a database, also half ones. The names are exact."""
    return [found for found, _ in _copies(path)]


def _copies(path: str) -> list[tuple[Path, bool]]:
    """Return the copies beside a database, each with whether it is only a part of one."""
    # A link is only another name of the database: copies stand beside the file itself.
    file, copies = Path(path).resolve(), list[tuple[Path, bool]]()
    for found in sorted(file.parent.iterdir()):
        match = _COPY.fullmatch(found.name[len(file.name) :]) if found.name.startswith(file.name) else None
        if match and found.is_file() and not found.is_symlink():
            copies.append((found, bool(match["half"])))
    return copies


def snapshot_path(path: str, version: int) -> Path:
    """Return where the copy stands that was taken before the migration from this version."""
    return Path(f"{Path(path).resolve()}.before-migration-from-v{version}")


def copy_before_migration(path: str, version: int) -> None:
    """Copy a database beside itself, in the place of the copy of an attempt before this one; nobody else may do so meanwhile."""
    for half in [found for found, is_half in _copies(path) if is_half]:
        # A crash may have left half a copy.
        half.unlink(missing_ok=True)
    copy_whole(path, snapshot_path(path, version), overwrite=True)


def copy_before_repair(path: str, stamp: str) -> Path:
    """Copy a database beside itself; returns where to."""
    target = Path(f"{Path(path).resolve()}.before-repair-{stamp}")
    if os.path.lexists(target):
        target = free_name(f"{target}-")
    copy_whole(path, target)
    return target


@contextlib.contextmanager
def new_file(target: Path, *, mode: int = _PRIVATE, overwrite: bool = False) -> Generator[Path]:
    """Give the path of an empty file to fill; it becomes `target` when the block ends, and is removed if that fails.

    Raises FileExistsError if there is something under the name of the target, unless `overwrite`. A link in its place is
    replaced then, never followed.
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
    """Make a file that is not there yet; raises FileExistsError, also for a link that leads nowhere."""
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode))
    # What the umask took away.
    path.chmod(mode)


def _link(partial: Path, target: Path, mode: int) -> None:
    """Give a file its name, without replacing what may have been put there meanwhile."""
    try:
        os.link(partial, target)
    except FileExistsError:
        raise
    except OSError:
        # Some file systems have no links: the name is taken first, and then given to the whole file.
        make_empty(target, mode)
        partial.replace(target)


def mode_of(path: "str | os.PathLike[str]") -> int:
    """Return who may read and write a file."""
    return stat.S_IMODE(Path(path).stat().st_mode) & 0o777


def free_name(start: str) -> Path:
    """Return the first path that nothing stands at: the start of its name with a number."""
    return next(path for number in itertools.count(1) if not os.path.lexists(path := Path(f"{start}{number}")))
