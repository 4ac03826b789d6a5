"""Copies of a SQLite file: online, of one moment, and back again.

Knows SQLite's own way of copying, and that nothing is overwritten unasked. Knows no table.
"""

import contextlib
import os
from pathlib import Path

from memolog.db.migrations import refuse_foreign_file
from memolog.db.sqlite import file_is_gone, is_memory, mapped_errors
from memolog.db.sqlite_files import connect, copy_whole, free_name, make_empty, mode_of
from memolog.errors import InputError, NotADatabase, StoreCorrupt


def refuse_own(path: str, target: Path) -> None:
    """Refuse a file to write to that is the database itself, or stands beside it as its journal."""
    own = [Path(f"{path}{end}") for end in ("", "-wal", "-shm", "-journal")]
    if any(
        target.resolve() == file.resolve() or (target.exists() and file.exists() and target.samefile(file))
        for file in own
    ):
        raise InputError(f"{target} is the database itself, and would be lost.", then="Name another file.")


def copy_file(path: str, target: Path, *, overwrite: bool = False) -> int:
    """Copy a database into a new file while others write to it; returns the copy's size in bytes.

    The copy is of one moment and has no journal beside it. It appears under its name only when it is whole.
    """
    if is_memory(path):
        raise InputError("A database in memory has no file to copy.", then="Export it instead.")
    refuse_own(path, target)
    if os.path.lexists(target) and (not overwrite or target.is_dir()):
        raise _exists(target, "A backup takes the place of another file only if that is allowed.", "Name another file.")
    if not target.parent.is_dir():
        # SQLite would tell of a database that cannot be opened, and mean the copy.
        raise InputError(f"There is no folder {target.parent}.", then="Make it, or name another file.")
    if not Path(path).is_file():
        raise file_is_gone(path)
    try:
        copy_whole(path, target, overwrite=overwrite)
    except FileExistsError:
        raise _exists(target, "Somebody else has just written it.", "Name another file.") from None
    except OSError as error:
        raise InputError(
            f"The backup cannot be written to {target}.", why=f"The system says: {error}.", then="Name another file."
        ) from error
    return target.stat().st_size


def copy_back(backup: Path, target: Path, *, overwrite: bool = False) -> Path | None:
    """Put a backup in the place of a database. What is there is refused, or with `overwrite` kept beside it first.

    Returns where that copy is, None if there was nothing.
    """
    check(backup)
    if not os.path.lexists(target):
        copy_file(str(backup), target)
        return None
    if not overwrite:
        raise _exists(
            target,
            "Restoring would replace all that is in it.",
            "Name a new file, or allow it: overwrite=True, or --overwrite.",
        )
    if not target.exists():
        raise InputError(f"{target} is a link that leads nowhere.", then="Name the database itself.")
    if target.samefile(backup):
        raise InputError("A backup cannot be restored onto itself.", then="Name the database to restore.")
    # Who names the database by a link means the database.
    target = target.resolve()
    kept = free_name(f"{target}.before-restore-")
    with contextlib.suppress(NotADatabase):
        copy_file(str(target), kept)
    if not kept.exists():
        # No database at all: moved away as it is.
        target.rename(kept)
        make_empty(target, mode_of(kept))
    # By SQLite itself and not by a rename: who has the file open sees either all of the old or all of the new one.
    with mapped_errors(str(target)), connect(backup, "ro") as source, connect(target) as into:
        source.backup(into)
    return kept


def check(backup: Path) -> None:
    """Refuse what is no whole database of ours."""
    if not backup.is_file():
        raise InputError(f"There is no backup {backup}.", then="Check its name.")
    with mapped_errors(str(backup)), connect(backup, "ro") as connection:
        refuse_foreign_file(str(backup), connection)
        if not connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchall():
            raise NotADatabase(f"{backup} is empty.", then="Name another file.")
        said = connection.execute("PRAGMA quick_check(1)").fetchall()
    if said != [("ok",)]:
        raise StoreCorrupt(
            f"The backup {backup} is damaged.", why=f"SQLite says: {said[0][0]}.", then="Use another one."
        )


def _exists(path: Path, why: str, then: str) -> InputError:
    return InputError(f"{path} exists already.", why=why, then=then)
