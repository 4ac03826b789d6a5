"""Import an export of Memolog, or the data of another system. Detect the format of the source.

An export of Memolog is imported exactly, in batches and without a model.
"""

import asyncio
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memolog.admin.export import FORMAT, FORMAT_VERSION
from memolog.admin.import_conversations import Progress, Tally, save_conversation
from memolog.admin.import_mastra import import_mastra
from memolog.admin.transfer_store import Arrival, Table, Values, row_of
from memolog.core.clock import from_micros, to_micros
from memolog.core.message import NewMessage
from memolog.core.progress import is_heard, report
from memolog.core.reports import ImportReport, Skipped
from memolog.db.postgres_address import safe_url
from memolog.db.sqlite_files import clean_file
from memolog.errors import InputError, NotFound, StoreCorrupt
from memolog.transfer.detect import detect, read_source

if TYPE_CHECKING:
    from memolog.connection import Components, Connection
    from memolog.store import Store

# A batch of rows takes a few milliseconds on the event loop.
_ROWS = 16
_CHARACTERS = 4_000_000
_SERVERS = ("postgresql://", "postgres://")
_ENDINGS = (".json", ".jsonl")


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
    """Import a file, a folder or a database. The format is detected unless it is passed."""
    components = await (connection.open() if dry_run else connection.open_to_write())
    address = os.fspath(source)
    is_server = address.startswith(_SERVERS)
    if not is_server and not await asyncio.to_thread(Path(address).exists):
        raise InputError(f"{safe_url(address)} does not exist.", then="Check the path.")
    is_file = not is_server and Path(address).is_file()  # noqa: ASYNC240
    found = format_ or ("mastra" if is_server else detect(Path(address)) if is_file else None)
    tally = Tally(format=found or "", dry_run=dry_run, progress=progress, revive=revive)
    if found == "mastra":
        return await import_mastra(components, address, resource, tally)
    report = await _import_files(components, Path(address), resource, found, tally)
    if not dry_run and report.left and components.store.engine.file is not None:
        # Rows that were imported and forgotten again may have left deleted bytes in the file.
        await asyncio.to_thread(clean_file, components.store.engine.file, timeout=connection.config.busy_timeout)
    return report


async def _import_files(
    components: "Components", source: Path, resource: str | None, format_: str | None, tally: Tally
) -> ImportReport:
    """Import the conversations of a file, or of every JSON file in a folder."""
    kinds, unknown = await asyncio.to_thread(lambda: _kinds(_files(source), format_))
    if resource is None and set(kinds.values()) != {FORMAT}:
        raise InputError(
            "`resource` is missing, and the source does not name one.",
            then='Pass resource="alice".',
        )
    tally = replace(tally, format=next(iter(kinds.values())), skipped=unknown)
    for file, kind in kinds.items():
        if kind == FORMAT:
            await _import_memolog(components, file, resource, tally)
            continue
        if is_heard():
            report("reading the file", 0)
            tally.expected["message"] += await asyncio.to_thread(_count_messages, file, kind)
        conversations = read_source(file, kind)
        # Read the file on a worker thread, because it may be long.
        while conversation := await asyncio.to_thread(next, conversations, None):
            await save_conversation(components.store, conversation, conversation.resource or resource or "", tally)
    return tally.report()


def _count_messages(file: Path, kind: str) -> int:
    return sum(len(conversation.messages) for conversation in read_source(file, kind))


def _kinds(files: list[Path], format_: str | None) -> tuple[dict[Path, str], list[Skipped]]:
    """Return the format of each file, and the files of unknown format. Raise InputError if all are unknown."""
    kinds, unknown = dict[Path, str](), list[Skipped]()
    for file in files:
        try:
            kinds[file] = format_ or detect(file)
        except InputError as error:
            if len(files) == 1:
                raise
            unknown.append(Skipped(where=file.name, why=error.what))
    if not kinds:
        raise InputError(
            f"None of the {len(files)} files has a supported format.",
            why=f"The first file: {unknown[0].why}",
            then="Pass the format of the files.",
        )
    return kinds, unknown


def _files(source: Path) -> list[Path]:
    if source.is_file():
        return [source]
    found = sorted(path for path in source.rglob("*") if path.is_file() and path.suffix in _ENDINGS)
    if not found:
        what = "contains no .json or .jsonl file" if source.is_dir() else "does not exist"
        raise InputError(f"{source} {what}.", then="Pass a file, or a folder that contains such files.")
    return found


async def _import_memolog(components: "Components", path: Path, resource: str | None, tally: Tally) -> None:
    """Import an export of Memolog. Existing rows are not changed, and forgotten rows are imported only with `revive`."""
    store = components.store
    state: _ResourceImport | None = None
    is_whole = False
    total = await asyncio.to_thread(_count_lines, path) if is_heard() else None
    try:
        for batch in _batches(path, resource):
            if state is None or state.arrival.resource != batch.resource:
                if state is not None:
                    await _finish(components, state, tally, is_whole=True)
                until = await store.tombstones.forgotten_until(batch.resource)
                is_gone = not tally.revive and until is not None and batch.made_at <= until
                state = _ResourceImport(arrival=await store.transfers.begin(batch.resource), is_gone=is_gone)
                tally.resources[batch.resource] = None
            if state.is_gone:
                tally.left.update(table.kind for table, _ in batch.rows)
                continue
            await _look_for_forgotten(store, state, batch.rows, revive=tally.revive, dry_run=tally.dry_run)
            rows = [(table, _without_text(table, values, state)) for table, values in batch.rows]
            try:
                tally.count(await store.transfers.put(batch.resource, state.arrival, rows, dry_run=tally.dry_run))
            except StoreCorrupt as error:
                raise InputError(
                    f"Lines {batch.first} to {batch.last} of {path.name} cannot be imported.",
                    why=f"{error.why} Another resource may use the same ids, or the file was changed by hand.",
                    then="Import into an empty database. Only the lines before these are imported.",
                ) from error
            if tally.progress is not None:
                tally.progress(batch.last)
            report("lines", batch.last, total)
        is_whole = True
    finally:
        if state is not None:
            await _finish(components, state, tally, is_whole=is_whole)


def _count_lines(path: Path) -> int:
    with path.open("rb") as file:
        return sum(1 for _ in file)


@dataclass(slots=True, kw_only=True)
class _ResourceImport:
    """The state of an import of one resource from an export."""

    arrival: Arrival
    is_gone: bool
    """Whether the resource was forgotten here after the export was made. Then nothing is imported."""
    texts: dict[str, str] = field(default_factory=dict[str, str])
    """Exported texts of groups by id. Groups are rendered again when all observations are imported."""
    threads: dict[str, datetime] = field(default_factory=dict[str, datetime])
    """Creation times of the threads that were forgotten here, by id."""
    messages: dict[tuple[str, str], datetime] = field(default_factory=dict[tuple[str, str], datetime])
    """Times of the messages that were forgotten here, by thread and id."""


@dataclass(slots=True, kw_only=True)
class _Batch:
    """Rows of one resource that are imported in one transaction."""

    resource: str
    made_at: int
    """The time of the export in microseconds, or 0 if the header has none."""
    first: int
    last: int = 0
    rows: list[tuple[Table, Values]] = field(default_factory=list[tuple[Table, Values]])
    size: int = 0

    def add(self, number: int, row: tuple[Table, Values]) -> None:
        self.rows.append(row)
        self.last = number
        self.size += sum(len(value) for value in row[1].values() if isinstance(value, str))

    @property
    def is_full(self) -> bool:
        return len(self.rows) >= _ROWS or self.size >= _CHARACTERS


def _without_text(table: Table, values: Values, state: _ResourceImport) -> Values:
    """Return a row without its rendered text, and store the text in `state`. `_finish` checks the text before models see it."""
    if table.kind != "group" or not values["text"]:
        return values
    state.texts[values["id"]] = values["text"]
    return {**values, "text": "", "tokens": 0}


async def _look_for_forgotten(
    store: "Store", state: _ResourceImport, rows: Sequence[tuple[Table, Values]], *, revive: bool, dry_run: bool
) -> None:
    """Add the threads and messages that were forgotten here to `state`. With `revive`, remove their tombstones instead."""
    resource = state.arrival.resource
    if state.arrival.is_fresh:
        return
    threads = [(values["id"], values["created_at"]) for table, values in rows if table.kind == "thread"]
    # Messages are compared by id and without their parts, because only one of two messages with the same text may be forgotten.
    messages: dict[str, list[NewMessage]] = {}
    for table, values in rows:
        if table.kind == "message" and values["state"] != "forgotten":
            at = from_micros(values["created_at"])
            line = NewMessage(id=values["id"], role=values["role"], parts=(), created_at=at)
            messages.setdefault(values["thread"], []).append(line)
    if revive:
        for thread in {name for name, _ in threads} | messages.keys() if not dry_run else ():
            await store.tombstones.lift(resource, thread, messages.get(thread, ()))
        return
    gone = await store.tombstones.threads(resource, threads)
    state.threads |= {name: from_micros(began) for name, began in threads if name in gone}
    for thread, lines in messages.items():
        if thread not in state.threads:
            places = await store.tombstones.find(resource, thread, lines)
            found = (lines[place] for place in places)
            state.messages |= {(thread, one.id): one.created_at for one in found if one.id and one.created_at}


async def _finish(components: "Components", state: _ResourceImport, tally: Tally, *, is_whole: bool) -> None:
    """Render the imported groups. Then forget the imported threads and messages that had been forgotten in this database.

    After an error, do not render. The sources of some observations may be missing, so their trust and the texts of their groups
    would be wrong. The next import of the file renders them.
    """
    tally.left["thread"] += len(state.threads)
    tally.left["message"] += len(state.messages)
    if tally.dry_run or state.is_gone:
        return
    store, resource = components.store, state.arrival.resource
    if is_whole:
        await store.transfers.render(resource, state.texts, render=store.render, count=components.core.counter.count)
    # Compare the times, because a new thread or message may use the same id.
    for thread, began in sorted(state.threads.items()):
        with suppress(NotFound):
            if (await store.threads.get(resource, thread)).created_at == began:
                await store.forgetting.thread(resource, thread)
    for (thread, message), said in sorted(state.messages.items()):
        with suppress(NotFound):
            if (await store.messages.get(resource, message, thread=thread))[0].created_at == said:
                await store.forgetting.message(resource, message, thread=thread)


def _batches(path: Path, resource: str | None) -> Iterator[_Batch]:
    batch: _Batch | None = None
    made_at = 0
    for number, data in _read_export(path):
        if data.get("kind") == "header":
            with suppress(KeyError, TypeError, ValueError):
                made_at = to_micros(datetime.fromisoformat(data["created_at"]))
            if resource is not None and len(data.get("resources", ())) != 1:
                raise InputError(
                    f"{path.name} does not contain exactly one resource, so it cannot be imported as {resource!r}.",
                    then="Import it without `resource`, or export one resource.",
                )
            continue
        if data.get("kind") == "resource":
            if batch is not None:
                yield batch
            name = resource or _resource(data, path, number)
            batch = _Batch(resource=name, made_at=made_at, first=number, last=number)
            continue
        if batch is None:
            raise InputError(f"Line {number} of {path.name} belongs to no resource.", then="Export again.")
        batch.add(number, row_of(data, f"Line {number} of {path.name}"))
        if batch.is_full:
            yield batch
            batch = _Batch(resource=batch.resource, made_at=made_at, first=number + 1, last=number)
    if batch is not None:
        yield batch


def _resource(data: dict[str, Any], path: Path, number: int) -> str:
    name = data.get("resource")
    if not isinstance(name, str):
        raise InputError(f"Line {number} of {path.name} has no resource.", then="Export again.")
    return name


def _read_export(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield each line of an export with its number, beginning with the header. Raise InputError if the file is incomplete."""
    count, is_whole = 0, False
    with path.open("rb") as file:
        header = _parsed(file.readline(), path, 1)
        _check_header(header, path)
        yield 1, header
        for number, text in enumerate(file, start=2):
            data = _parsed(text, path, number)
            if data.get("kind") == "end":
                is_whole = data.get("lines") == count
                break
            count += 1
            yield number, data
    if not is_whole:
        raise InputError(
            f"{path.name} is not complete: it ends after {count} lines.",
            why="The export was interrupted, or the file was not copied completely.",
            then="Export again, then import the new file. It adds only the lines that are missing here.",
        )


def _parsed(text: bytes, path: Path, number: int) -> dict[str, Any]:
    try:
        data: Any = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(
            f"Line {number} of {path.name} is not JSON.",
            why=f"{error}.",
            then="Export again, because this file is damaged.",
        ) from error
    if not isinstance(data, dict):
        raise InputError(
            f"Line {number} of {path.name} is not a JSON object.", then="Export again, because this file is damaged."
        )
    return data  # pyright: ignore[reportUnknownVariableType]


def _check_header(data: dict[str, Any], path: Path) -> None:
    if data.get("format") != FORMAT:
        raise InputError(f"{path.name} is not an export of Memolog.", then="Pass another file, or pass the format.")
    version: Any = data.get("version")
    if not isinstance(version, int) or version > FORMAT_VERSION:
        raise InputError(
            f"{path.name} has version {version} of the format, but this release reads versions up to {FORMAT_VERSION}.",
            then="Import it with the release that wrote it, or a newer one.",
        )
