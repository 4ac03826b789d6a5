"""Export, import, backup and restore: choose the format and the way in or out."""

import asyncio
import os
from pathlib import Path
from typing import TYPE_CHECKING

from memolog.admin.backup import copy_back, copy_file, refuse_own
from memolog.admin.export import Target, export_to
from memolog.admin.import_export import Progress, Tally
from memolog.admin.import_foreign import import_files
from memolog.admin.import_mastra import import_mastra
from memolog.core.reports import ExportReport, ImportReport
from memolog.db.postgres_address import safe_url
from memolog.db.sqlite import SqliteEngine
from memolog.db.sqlite_files import clean_file, new_file
from memolog.errors import InputError
from memolog.transfer.detect import detect

if TYPE_CHECKING:
    from memolog.connection import Connection

_SERVERS = ("postgresql://", "postgres://")


async def export(connection: "Connection", target: Target, resource: str | None, *, overwrite: bool) -> ExportReport:
    """Write everything, or all of one resource, as JSON lines to a path or an open text file."""
    components = await connection.open()
    if isinstance(components.store.engine, SqliteEngine) and isinstance(target, str | os.PathLike):
        refuse_own(components.store.engine.path, Path(target))
    return await export_to(components.store, target, resource, connection.clock.now(), overwrite=overwrite)


async def write_text(connection: "Connection", target: "str | os.PathLike[str]", text: str, *, overwrite: bool) -> None:
    """Write a text to a new file that only its owner can read; refuses the database itself."""
    engine = (await connection.open()).store.engine
    if isinstance(engine, SqliteEngine):
        refuse_own(engine.path, Path(target))

    def write() -> None:
        with new_file(Path(target), overwrite=overwrite) as partial:
            partial.write_bytes(text.encode("utf-8", "replace"))

    await asyncio.to_thread(write)


async def import_from(
    connection: "Connection",
    source: "str | os.PathLike[str]",
    *,
    resource: str | None,
    format_: str | None,
    dry_run: bool,
    progress: Progress | None,
    revive: bool,
) -> ImportReport:
    """Import an export, or what another system has kept; the format is detected unless it is named."""
    components = await (connection.open() if dry_run else connection.open_to_write())
    address = os.fspath(source)
    is_server = address.startswith(_SERVERS)
    if not is_server and not await asyncio.to_thread(Path(address).exists):
        raise InputError(f"{safe_url(address)} does not exist.", then="Check its name.")
    is_file = not is_server and Path(address).is_file()  # noqa: ASYNC240
    found = format_ or ("mastra" if is_server else detect(Path(address)) if is_file else None)
    if found == "mastra":
        tally = Tally(format=found, dry_run=dry_run, progress=progress, revive=revive)
        return await import_mastra(components, address, resource, tally)
    report = await import_files(
        components, Path(address), resource=resource, format_=found, dry_run=dry_run, progress=progress, revive=revive
    )
    if not dry_run and report.left and components.store.engine.file is not None:
        # What was forgotten again has been in the file for a moment.
        await asyncio.to_thread(clean_file, components.store.engine.file, timeout=connection.config.busy_timeout)
    return report


async def backup(connection: "Connection", target: "str | os.PathLike[str]", *, overwrite: bool) -> int:
    """Copy a SQLite database into a new file; returns its size in bytes."""
    engine = (await connection.open()).store.engine
    if not isinstance(engine, SqliteEngine):
        raise InputError(
            "Only a SQLite database is copied into a file.",
            why="A PostgreSQL server keeps its own backups.",
            then="Use pg_dump, or export to a .jsonl file, which either engine imports.",
        )
    return await asyncio.to_thread(copy_file, engine.path, Path(target), overwrite=overwrite)


def restore_backup(
    backup: "str | os.PathLike[str]", target: "str | os.PathLike[str]", *, overwrite: bool = False
) -> Path | None:
    """Make a database file of a backup. Refuses to replace one, unless `overwrite`: then the old one is kept beside it.

    Returns where the old one is kept, None if there was none.
    """
    return copy_back(Path(backup), Path(target), overwrite=overwrite)
