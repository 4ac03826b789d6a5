"""Copy a SQLite database into a new file while it is used, and restore such a copy.

A copy is of one moment and replaces an existing file only if `overwrite` is set.
"""

import asyncio
import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

from memolog.db.migrations import refuse_foreign_file
from memolog.db.sqlite import SqliteEngine, file_is_gone, is_memory, mapped_errors
from memolog.db.sqlite_files import connect, copy_whole, free_name, make_empty, mode_of
from memolog.errors import InputError, NotADatabase, StoreCorrupt

if TYPE_CHECKING:
    from memolog.connection import Connection


async def backup(connection: "Connection", target: "str | os.PathLike[str]", *, overwrite: bool) -> int:
    """Copy the SQLite database of a connection into a new file; return the size of the copy in bytes."""
    engine = (await connection.open()).store.engine
    if not isinstance(engine, SqliteEngine):
        raise InputError(
            "`backup` copies SQLite databases only; this one is on a PostgreSQL server.",
            then="Use pg_dump, or export to a .jsonl file, which both engines import.",
        )
    return await asyncio.to_thread(copy_file, engine.path, Path(target), overwrite=overwrite)


def copy_file(path: str, target: Path, *, overwrite: bool = False) -> int:
    """Copy a database into a new file while other processes write to it; return the size of the copy in bytes.

    The copy is of one moment and has no journal beside it. It appears under its name only when it is complete.
    """
    if is_memory(path):
        raise InputError("A database in memory has no file to copy.", then="Export it instead.")
    refuse_own(path, target)
    if os.path.lexists(target) and (not overwrite or target.is_dir()):
        raise _exists(
            target,
            "A backup does not replace a file by default.",
            "Name another file, or pass overwrite=True or --overwrite.",
        )
    if not target.parent.is_dir():
        # SQLite would report that the database cannot be opened, although only the folder of the copy is missing.
        raise InputError(f"There is no folder {target.parent}.", then="Make it, or name another file.")
    if not Path(path).is_file():
        raise file_is_gone(path)
    try:
        copy_whole(path, target, overwrite=overwrite)
    except FileExistsError:
        raise _exists(target, "Another process has just written it.", "Name another file.") from None
    except OSError as error:
        raise InputError(
            f"The backup cannot be written to {target}.", why=f"The system reports: {error}.", then="Name another file."
        ) from error
    return target.stat().st_size


def restore_backup(
    backup: "str | os.PathLike[str]", target: "str | os.PathLike[str]", *, overwrite: bool = False
) -> Path | None:
    """Restore a backup to a database file; an existing file is refused or, with `overwrite`, kept under another name.

    Return the path of the kept file, None if there was none.
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
            "Name a new file, or pass overwrite=True or --overwrite.",
        )
    if not target.exists():
        raise InputError(f"{target} is a link to a file that does not exist.", then="Name the database itself.")
    if target.samefile(backup):
        raise InputError("A backup cannot be restored onto itself.", then="Name the database to restore.")
    # A link to the database stays a link.
    target = target.resolve()
    kept = free_name(f"{target}.before-restore-")
    with contextlib.suppress(NotADatabase):
        copy_file(str(target), kept)
    if not kept.exists():
        # It is not a database: move it away unchanged.
        target.rename(kept)
        make_empty(target, mode_of(kept))
    # Copied by SQLite, not renamed: processes that have the file open see either all of the old or all of the new content.
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
        raise InputError(f"{target} is the database itself, and would be overwritten.", then="Name another file.")


def _check(backup: Path) -> None:
    """Raise an error unless this is a complete database of Memolog."""
    if not backup.is_file():
        raise InputError(f"There is no backup {backup}.", then="Check its name.")
    with mapped_errors(str(backup)), connect(backup, "ro") as connection:
        refuse_foreign_file(str(backup), connection)
        if not connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchall():
            raise NotADatabase(f"{backup} is empty.", then="Name another file.")
        said = connection.execute("PRAGMA quick_check(1)").fetchall()
    if said != [("ok",)]:
        raise StoreCorrupt(
            f"The backup {backup} is damaged.", why=f"SQLite reports: {said[0][0]}.", then="Use another one."
        )


def _exists(path: Path, why: str, then: str) -> InputError:
    return InputError(f"{path} exists already.", why=why, then=then)
