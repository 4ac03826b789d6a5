"""What a memory offers to come and go with: export, import, backup and restore.

Knows the calls and their defaults. Knows neither formats nor rows: those are in `exporting`, `importing`, `memolog.transfer` and
the store.
"""

import asyncio
import os
from abc import ABC, abstractmethod
from pathlib import Path

from memolog.config import Config
from memolog.context.render import reading_order
from memolog.domain.clock import Clock
from memolog.domain.errors import InputError
from memolog.domain.transfer import ExportReport, ImportReport
from memolog.runtime.exporting import Target, export_to, log_as_markdown
from memolog.runtime.importing import Progress, Tally
from memolog.runtime.importing_elsewhere import import_files
from memolog.runtime.importing_mastra import import_mastra
from memolog.runtime.kit import Kit
from memolog.store.postgres_address import safe_url
from memolog.store.sqlite import SqliteEngine
from memolog.store.sqlite_backup import copy_back, copy_file, refuse_own
from memolog.store.sqlite_files import clean_file
from memolog.transfer import detect

__all__ = ["Transferring", "restore_backup"]

_SERVERS = ("postgresql://", "postgres://")


class Transferring(ABC):
    """The part of a memory that takes things in and out."""

    clock: Clock
    config: Config

    @abstractmethod
    async def open(self) -> Kit:
        """Open the database, if that has not been done; returns its parts."""

    @abstractmethod
    async def _open_to_write(self) -> Kit: ...

    async def export(self, target: Target, *, resource: str | None = None, overwrite: bool = False) -> ExportReport:
        """Write everything, or all of one resource, as JSON lines to a path or an open text file.

        The lines are the same whichever engine they come from. `import_from` reads them back, exactly and without a model. The
        file is readable by its owner only; `overwrite` lets it take the place of an older one, once it is whole.
        """
        kit = await self.open()
        if isinstance(kit.store.engine, SqliteEngine) and isinstance(target, str | os.PathLike):
            refuse_own(kit.store.engine.path, Path(target))
        return await export_to(kit.store, target, resource, self.clock.now(), overwrite=overwrite)

    async def export_markdown(self, thread: str, resource: str) -> str:
        """Return the log of a thread as Markdown for people: the observations by date, with what they come from."""
        kit = await self.open()
        config = await kit.config_for(resource)
        snapshot = await kit.store.logs.snapshot(resource, thread, config.scope, create=False)
        ids = [group.id for group in snapshot.groups]
        lines = await kit.store.logs.observations(snapshot.resource, snapshot.log.pk, ids) if ids else ()
        active = [line for line in lines if line.state == "active"]
        return log_as_markdown(snapshot.thread.title or thread, reading_order(active, ids))

    async def import_from(
        self,
        source: "str | os.PathLike[str]",
        *,
        resource: str | None = None,
        format: str | None = None,  # noqa: A002
        dry_run: bool = False,
        progress: Progress | None = None,
        revive: bool = False,
    ) -> ImportReport:
        """Take in an export of ours, or what another system has kept; importing the same again changes nothing.

        What it is, is found out by looking, or said by `format`. `resource` is whose it becomes: needed where the source does
        not say. `dry_run` tells what would happen. An import that was interrupted goes on where it stopped when it is repeated.
        What was forgotten here stays forgotten, unless `revive` asks for it: then it comes back, and counts as never forgotten.
        """
        kit = await (self.open() if dry_run else self._open_to_write())
        address = os.fspath(source)
        is_server = address.startswith(_SERVERS)
        if not is_server and not await asyncio.to_thread(Path(address).exists):
            raise InputError(f"{safe_url(address)} does not exist.", then="Check its name.")
        is_file = not is_server and Path(address).is_file()  # noqa: ASYNC240
        found = format or ("mastra" if is_server else detect(Path(address)) if is_file else None)
        if found == "mastra":
            tally = Tally(format=found, dry_run=dry_run, progress=progress, revive=revive)
            return await import_mastra(kit, address, resource, tally)
        report = await import_files(
            kit,
            Path(address),
            resource=resource,
            format_=found,
            dry_run=dry_run,
            progress=progress,
            revive=revive,
        )
        if not dry_run and report.left and kit.store.engine.file is not None:
            # What was forgotten again has been in the file for a moment.
            await asyncio.to_thread(clean_file, kit.store.engine.file, timeout=self.config.busy_timeout)
        return report

    async def backup(self, target: "str | os.PathLike[str]", *, overwrite: bool = False) -> int:
        """Copy the database into a new file while others write to it; returns its size in bytes.

        `overwrite` lets it take the place of an older one, once it is whole.

        For SQLite. A PostgreSQL server has its own tools for that, or export it.
        """
        kit = await self.open()
        engine = kit.store.engine
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
