"""Import exports of Memolog, line by line in batches, exactly and without a model."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memolog.admin.export import read_export
from memolog.admin.transfer_store import Arrival, Arrived, Table, Values, row_of
from memolog.core.clock import from_micros, to_micros
from memolog.core.message import Part, Role
from memolog.core.reports import ImportReport, Skipped
from memolog.errors import InputError, NotFound, StoreCorrupt

if TYPE_CHECKING:
    from memolog.components import Components
    from memolog.store import Store

Progress = Callable[[int], None]
"""Called with how many lines or messages have been read so far."""

_ROWS = 400
_CHARACTERS = 4_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally(Arrived):
    """What an import did so far."""

    format: str
    dry_run: bool
    progress: Progress | None = None
    revive: bool = False
    """Whether forgotten messages are imported again."""
    forgotten: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    """Resource and thread of which something was left out because it was forgotten."""
    resources: dict[str, None] = field(default_factory=dict[str, None])
    skipped: list[Skipped] = field(default_factory=list[Skipped])

    def skip(self, where: str, why: str) -> None:
        """Note what was left out."""
        self.skipped.append(Skipped(where=where, why=why))

    def report(self) -> ImportReport:
        """Return all of it."""
        return ImportReport(
            format=self.format,
            dry_run=self.dry_run,
            resources=tuple(self.resources),
            added=dict(+self.added),
            unchanged=dict(+self.same),
            kept=dict(+self.kept),
            left=dict(+self.left),
            skipped=tuple(self.skipped),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Line:
    """A message of an export, identified by its id: of two messages with the same words, one may be forgotten."""

    id: str
    role: Role
    created_at: datetime
    parts: tuple[Part, ...] = ()


@dataclass(slots=True, kw_only=True)
class _Batch:
    """Rows of one resource that are imported in one transaction."""

    resource: str
    made_at: int
    """When the export was made; 0 if it does not say."""
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


@dataclass(slots=True, kw_only=True)
class _Passage:
    """The state of importing one resource."""

    arrival: Arrival
    is_gone: bool
    """The resource was forgotten here after the export was made: nothing is imported."""
    texts: dict[str, str] = field(default_factory=dict[str, str])
    """Texts of the groups by id; they are rendered again once their lines are imported."""
    threads: dict[str, datetime] = field(default_factory=dict[str, datetime])
    """Threads that were forgotten here, with their creation times."""
    messages: dict[tuple[str, str], datetime] = field(default_factory=dict[tuple[str, str], datetime])
    """Messages that were forgotten here, by thread and id, with their times."""


async def import_export(components: "Components", path: Path, resource: str | None, tally: Tally) -> None:
    """Import an export. Existing rows stay as they are; what was forgotten here stays forgotten, unless `revive`."""
    store = components.store
    passage: _Passage | None = None
    try:
        for batch in _batches(path, resource):
            if passage is None or passage.arrival.resource != batch.resource:
                if passage is not None:
                    await _finish(components, passage, tally)
                passage = await _begin(store, batch, revive=tally.revive)
                tally.resources[batch.resource] = None
            if passage.is_gone:
                tally.left.update(table.kind for table, _ in batch.rows)
                continue
            await _look_for_forgotten(store, passage, batch.rows, revive=tally.revive, dry_run=tally.dry_run)
            rows = [(table, _without_text(table, values, passage)) for table, values in batch.rows]
            tally.count(await _put(store, passage.arrival, batch, rows, path, dry_run=tally.dry_run))
            if tally.progress is not None:
                tally.progress(batch.last)
    finally:
        # Also after an interruption, for what was imported so far.
        if passage is not None:
            await _finish(components, passage, tally)


async def _begin(store: "Store", batch: _Batch, *, revive: bool) -> _Passage:
    until = await store.tombstones.forgotten_until(batch.resource)
    is_gone = not revive and until is not None and batch.made_at <= until
    return _Passage(arrival=await store.transfers.begin(batch.resource), is_gone=is_gone)


def _without_text(table: Table, values: Values, passage: _Passage) -> Values:
    """Return a row without its rendered text, which would be shown to models unchecked."""
    if table.kind != "group" or not values["text"]:
        return values
    passage.texts[values["id"]] = values["text"]
    return {**values, "text": "", "tokens": 0}


async def _look_for_forgotten(
    store: "Store", passage: _Passage, rows: Sequence[tuple[Table, Values]], *, revive: bool, dry_run: bool
) -> None:
    """Note which of these rows were forgotten here; with `revive`, remove their tombstones instead."""
    resource = passage.arrival.resource
    if passage.arrival.is_fresh:
        return
    threads = [(values["id"], values["created_at"]) for table, values in rows if table.kind == "thread"]
    messages: dict[str, list[_Line]] = {}
    for table, values in rows:
        if table.kind == "message" and values["state"] != "forgotten":
            line = _Line(id=values["id"], role=values["role"], created_at=from_micros(values["created_at"]))
            messages.setdefault(values["thread"], []).append(line)
    if revive:
        for thread in {name for name, _ in threads} | messages.keys() if not dry_run else ():
            await store.tombstones.lift(resource, thread, messages.get(thread, ()))
        return
    gone = await store.tombstones.threads(resource, threads)
    passage.threads |= {name: from_micros(began) for name, began in threads if name in gone}
    for thread, lines in messages.items():
        if thread not in passage.threads:
            places = await store.tombstones.find(resource, thread, lines)
            passage.messages |= {(thread, lines[place].id): lines[place].created_at for place in places}


async def _finish(components: "Components", passage: _Passage, tally: Tally) -> None:
    """Render the imported groups, and forget again what was forgotten here."""
    tally.left["thread"] += len(passage.threads)
    tally.left["message"] += len(passage.messages)
    if tally.dry_run or passage.is_gone:
        return
    store, resource, render = components.store, passage.arrival.resource, components.core.rerender
    await store.transfers.render(resource, passage.texts, render=render, count=components.core.counter.count)
    # Only rows of this file: something else may use the same id by now.
    for thread, began in sorted(passage.threads.items()):
        with suppress(NotFound):
            if (await store.threads.get(resource, thread)).created_at == began:
                await store.forgetting.thread(resource, thread, render=render)
    for (thread, message), said in sorted(passage.messages.items()):
        with suppress(NotFound):
            if (await store.messages.get(resource, message, thread=thread))[0].created_at == said:
                await store.forgetting.message(resource, message, thread=thread, render=render)


async def _put(
    store: "Store",
    arrival: Arrival,
    batch: _Batch,
    rows: Sequence[tuple[Table, Values]],
    path: Path,
    *,
    dry_run: bool,
) -> Arrived:
    try:
        return await store.transfers.put(batch.resource, arrival, rows, dry_run=dry_run)
    except StoreCorrupt as error:
        raise InputError(
            f"Lines {batch.first} to {batch.last} of {path.name} cannot be imported.",
            why=f"{error.why} Another resource may use the same ids, or the file was changed by hand.",
            then="Import into an empty database. None of these lines is imported; those before them are.",
        ) from error


def _batches(path: Path, resource: str | None) -> Iterator[_Batch]:
    batch: _Batch | None = None
    made_at = 0
    for number, data in read_export(path):
        if data.get("kind") == "header":
            made_at = _made_at(data)
            if resource is not None and len(data.get("resources", ())) != 1:
                raise InputError(
                    f"{path.name} does not hold exactly one resource, so it cannot become {resource!r}.",
                    then="Import it without naming a resource, or export one resource.",
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


def _made_at(header: dict[str, Any]) -> int:
    try:
        return to_micros(datetime.fromisoformat(header["created_at"]))
    except (KeyError, TypeError, ValueError):
        return 0


def _resource(data: dict[str, Any], path: Path, number: int) -> str:
    name = data.get("resource")
    if not isinstance(name, str):
        raise InputError(f"Line {number} of {path.name} names no resource.", then="Export again.")
    return name
