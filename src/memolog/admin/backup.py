"""Copy a SQLite database into a new file while it is used, and restore such a copy.

A copy contains the database as of one moment. It replaces an existing file only if `overwrite` is set.
"""

import asyncio
import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

from memolog.db.migrations import pending_in_file
from memolog.db.sqlite import SqliteEngine, file_is_gone, is_memory, mapped_errors
from memolog.db.sqlite_files import connect, copy_whole, free_name, make_empty, mode_of
from memolog.errors import InputError, NotADatabase, StoreCorrupt

if TYPE_CHECKING:
    from memolog.connection import Connection


async def backup(connection: "Connection", target: "str | os.PathLike[str]", *, overwrite: bool) -> int:
    """Copy the SQLite database of a connection into a new file. Return the size of the copy in bytes."""
    engine = (await connection.open()).store.engine
    if not isinstance(engine, SqliteEngine):
        raise InputError(
            "`backup` copies SQLite databases only, but this database is on a PostgreSQL server.",
            then="Use pg_dump, or export to a .jsonl file, which both engines import.",
        )
    return await asyncio.to_thread(copy_file, engine.path, Path(target), overwrite=overwrite)


def copy_file(path: str, target: Path, *, overwrite: bool = False) -> int:
    """Copy a database into a new file, also while other processes write to it. Return the size of the copy in bytes.

    The copy contains the database as of one moment and has no journal. It is renamed to `target` when it is complete.
    """
    if is_memory(path):
        raise InputError("A database in RAM has no file to copy.", then="Export it instead.")
    refuse_own(path, target)
    if os.path.lexists(target) and (not overwrite or target.is_dir()):
        raise _exists(
            target,
            "A backup does not replace a file by default.",
            "Choose another file, or pass overwrite=True.",
        )
    if not target.parent.is_dir():
        # SQLite would report that the database cannot be opened, although only the folder of the copy is missing.
        raise InputError(f"There is no folder {target.parent}.", then="Create the folder, or choose another file.")
    if not Path(path).is_file():
        raise file_is_gone(path)
    try:
        copy_whole(path, target, overwrite=overwrite)
    except FileExistsError:
        raise _exists(target, "Another process has just created it.", "Choose another file.") from None
    except OSError as error:
        raise InputError(
            f"The backup cannot be written to {target}.",
            why=f"The system reports: {error}.",
            then="Choose another file.",
        ) from error
    return target.stat().st_size


def restore_backup(
    backup: "str | os.PathLike[str]", target: "str | os.PathLike[str]", *, overwrite: bool = False
) -> Path | None:
    """Restore a backup to a database file. With `overwrite`, the content of an existing file is first stored under another name.

    Return the path of that copy, or None if `target` did not exist. Without `overwrite`, raise InputError for an existing file.
    """
    backup, target = Path(backup), Path(target)
    _check(backup)
    if not os.path.lexists(target):
        copy_file(str(backup), target)
        return None
    if not overwrite:
        raise _exists(
            target,
            "Restoring would replace everything in it.",
            "Choose a new file, or pass overwrite=True.",
        )
    if not target.exists():
        raise InputError(
            f"{target} is a link to a file that does not exist.", then="Pass the path of the database itself."
        )
    if target.samefile(backup):
        raise InputError("A backup cannot be restored onto itself.", then="Pass another target.")
    # If `target` is a link, replace the content of the linked file.
    target = target.resolve()
    kept = free_name(f"{target}.before-restore-")
    with contextlib.suppress(NotADatabase):
        copy_file(str(target), kept)
    if not kept.exists():
        # The target is not a database, so it could not be copied. Rename it.
        target.rename(kept)
        make_empty(target, mode_of(kept))
    # SQLite writes the new content in one transaction, so processes that have the file open see the old or the new database.
    with mapped_errors(str(target)), connect(backup, "ro") as source, connect(target) as into:
        source.backup(into)
    return kept


def refuse_own(path: str, target: Path) -> None:
    """Raise InputError if a target is the database file itself or one of its journals."""
    own = [Path(f"{path}{end}") for end in ("", "-wal", "-shm", "-journal")]
    if any(
        target.resolve() == file.resolve() or (target.exists() and file.exists() and target.samefile(file))
        for file in own
    ):
        raise InputError(
            f"{target} is a file of the database itself, which would be overwritten.", then="Choose another file."
        )


def _check(backup: Path) -> None:
    """Raise an error unless the file is an undamaged database of Memolog."""
    if not backup.is_file():
        raise InputError(f"The backup {backup} does not exist.", then="Check the path.")
    with mapped_errors(str(backup)), connect(backup, "ro") as connection:
        pending_in_file(str(backup), connection)
        if not connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchall():
            raise NotADatabase(f"{backup} is empty.", then="Choose another file.")
        problems = connection.execute("PRAGMA quick_check(1)").fetchall()
    if problems != [("ok",)]:
        raise StoreCorrupt(
            f"The backup {backup} is damaged.", why=f"SQLite reports: {problems[0][0]}.", then="Use another backup."
        )


def _exists(path: Path, why: str, then: str) -> InputError:
    return InputError(f"{path} exists already.", why=why, then=then)
