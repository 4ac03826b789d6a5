"""Write and read files: `export`, `import`, `backup` and `restore`. An existing file is overwritten only with `--overwrite`."""

from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, cast

import typer

from memolog.apps.cli.command import Answer, Call, DryRun, InResource, chosen_resource, chosen_thread, is_missing, verb
from memolog.apps.cli.output import JsonOutput, clean, fields
from memolog.core.exact_json import encode
from memolog.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import RenderableType

    from memolog.core.reports import ImportReport

app = typer.Typer()

_Overwrite = Annotated[bool, typer.Option("--overwrite", help="Overwrite an existing file.")]


@verb(
    app,
    needs="database",
    example="memolog export all.jsonl\nmemolog export atlas.md --markdown --resource alice --thread atlas",
)
async def export(
    call: Call,
    file: Annotated[str, typer.Argument(help="File to write, or - for standard output.")],
    resource: InResource = None,
    markdown: Annotated[bool, typer.Option("--markdown", help="Write the log of one thread as Markdown.")] = False,
    thread: Annotated[
        str | None,
        typer.Option("--thread", "-t", help="Thread for --markdown. Default: the thread with the newest activity."),
    ] = None,
    overwrite: _Overwrite = False,
) -> Answer:
    """Export all resources, or one resource, as JSON lines. `import` restores exactly the same memory, without a model."""
    if file == "-" and call.as_json:
        raise InputError(
            "--json cannot be used together with an export to standard output.", then="Pass a file, or omit --json."
        )
    if thread is not None and not markdown:
        raise InputError(
            "--thread can be used only with --markdown.",
            then="Add --markdown to export the log of the thread, or omit --thread.",
        )
    if markdown:
        return await _export_markdown(call, file, resource, thread, overwrite=overwrite)
    if file == "-":
        await call.memory.export(cast("IO[str]", JsonOutput()), resource=resource)
        return Answer(data=None, is_printed=True)
    with call.progress(f"exporting to {file}", "No file was written. Run the command again to start over."):
        report = await call.memory.export(file, resource=resource, overwrite=overwrite)
    lines = [("written to", file), ("resources", ", ".join(report.resources))]
    lines += [(kind, f"{count:,}") for kind, count in report.lines.items() if count]
    return Answer(data={"file": file, **encode(report)}, show=lambda: fields(lines))


async def _export_markdown(
    call: Call, file: str, resource: str | None, thread: str | None, *, overwrite: bool
) -> Answer:
    owner = await chosen_resource(call.memory, resource)
    name = await chosen_thread(call.memory, owner, thread)
    chosen = call.memory.thread(name, resource=owner)
    if file == "-":
        print(clean(await chosen.export_markdown()), end="")
        return Answer(data=None, is_printed=True)
    size = len((await chosen.export_markdown(file, overwrite=overwrite)).encode("utf-8", "replace"))
    data = {"file": file, "resource": owner, "thread": name, "bytes": size}
    return Answer(data=data, show=f"The log of {name} was written to {file} ({size:,} bytes).")


@verb(app, needs="address", writes=True, makes=True, name="import", example="memolog import alice.jsonl --db copy.db")
async def import_(
    call: Call,
    file: Annotated[Path, typer.Argument(help="Export of Memolog, or transcript or database of another system.")],
    resource: Annotated[
        str | None, typer.Option("--resource", "-r", help="Resource to import into, if the file contains no resource.")
    ] = None,
    format_: Annotated[str | None, typer.Option("--format", help="Format of the file. Default: detected.")] = None,
    dry_run: DryRun = False,
    revive: Annotated[
        bool, typer.Option("--revive", help="Also import messages that were forgotten in this database.")
    ] = False,
) -> Answer:
    """Import an export, or the history of another system. Times are kept. A second import of the same file changes nothing."""
    if not file.exists():
        from memolog.db.postgres_address import safe_url

        raise InputError(f"There is no file {safe_url(str(file))}.", then="Check the path.")
    then = "Nothing was changed." if dry_run else "What was imported is stored. Run the command again for the rest."

    async def import_into(address: str, *, dry_run: bool) -> "ImportReport":
        from memolog.memory import Memory

        async with Memory(address, config=call.config) as memory:
            return await memory.import_from(file, resource=resource, format=format_, dry_run=dry_run, revive=revive)

    with call.progress(f"importing {file}", then):
        # Only an import that adds something creates a database, so it is tried first with an empty database in RAM.
        tried = await import_into(":memory:", dry_run=True) if is_missing(call.address) else None
        is_done = tried is not None and (dry_run or tried.has_changed_nothing)
        report = tried if tried and is_done else await import_into(call.address, dry_run=dry_run)
    if not (report.dry_run or report.has_changed_nothing):
        with call.progress("indexing", "Everything is imported. The next search indexes more."):
            await _index(call, report.resources)
    return Answer(data=report, show=lambda: _show_import(report))


async def _index(call: Call, resources: "Sequence[str]") -> None:
    """Index what was imported, because this process ends before it could do so in the background."""
    from memolog.memory import Memory

    async with Memory(call.address, config=call.config) as memory:
        for name in resources:
            await memory.resource(name).index()


def _show_import(report: "ImportReport") -> "RenderableType":
    added = "would add" if report.dry_run else "added"
    rows = [("format", report.format), ("resources", ", ".join(report.resources))]
    for name, counts in (
        (added, report.added),
        ("unchanged", report.unchanged),
        ("changed here, not replaced", report.kept),
        ("removed or forgotten here, not added", report.left),
    ):
        rows += [(name, words) for words in [", ".join(f"{kind} {n:,}" for kind, n in counts.items() if n)] if words]
    rows += [("skipped", f"{item.where}: {item.why}") for item in report.skipped]
    if report.has_changed_nothing:
        why = (
            "everything exists already or was removed or forgotten here"
            if any(report.left.values())
            else "everything exists already"
        )
        rows.append((added, f"nothing, because {why}"))
    return fields(rows)


@verb(app, needs="database", example="memolog backup copy.db")
async def backup(
    call: Call, file: Annotated[Path, typer.Argument(help="File to create.")], overwrite: _Overwrite = False
) -> Answer:
    """Copy a SQLite database to a file. The database may be in use. For PostgreSQL, use the tools of PostgreSQL."""
    with call.progress(f"copying to {file}", "No file was written. Run the command again to start over."):
        size = await call.memory.backup(file, overwrite=overwrite)
    data = {"file": str(file), "bytes": size}
    return Answer(data=data, show=f"Copied {call.shown_address} to {file}: {size:,} bytes.")


@verb(
    app,
    needs="address",
    writes=True,
    makes=True,
    installed=False,
    example="memolog restore backup.db --db restored.db",
)
async def restore(
    call: Call,
    file: Annotated[Path, typer.Argument(help="Backup file.")],
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace an existing database. The old database is kept beside it.")
    ] = False,
) -> Answer:
    """Create a database from a backup. No program may use the database during this time."""
    from memolog import restore_backup

    if "://" in call.address:
        raise InputError(
            "A backup can be restored only to a SQLite file.", then="Pass a file with --db, or import an export."
        )
    kept = restore_backup(file, call.address, overwrite=overwrite)
    data = {"database": call.address, "from": str(file), "kept": str(kept) if kept else None}
    words = f"Restored {call.address} from {file}." + (f" The old database is now {kept}." if kept else "")
    return Answer(data=data, show=words)
