"""Imports of our own exports: line by line, in batches, exact and without a model.

Knows how lines become batches. Knows not what a row that is there already means: that is the store's.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from memolog.domain.errors import InputError, StoreCorrupt
from memolog.domain.transfer import ImportReport
from memolog.runtime.exporting import FORMAT, read_export
from memolog.store import Store
from memolog.store.transfer_lines import Values, row_of
from memolog.store.transfer_tables import Table
from memolog.store.transfers import Arrival, Arrived

__all__ = ["Progress", "import_export"]

Progress = Callable[[int], None]
"""Called with how many lines or messages have been read so far."""

_ROWS = 400
_CHARACTERS = 4_000_000


@dataclass(slots=True, kw_only=True)
class _Batch:
    """Rows of one resource that go in together."""

    resource: str
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


async def import_export(
    store: Store, path: Path, *, resource: str | None, dry_run: bool, progress: Progress | None
) -> ImportReport:
    """Put an export in; what is there already is left as it is."""
    total, resources = Arrived(), dict[str, None]()
    arrival: Arrival | None = None
    for batch in _batches(path, resource):
        if arrival is None or arrival.resource != batch.resource:
            arrival = await store.transfers.begin(batch.resource)
            resources[batch.resource] = None
        total.count(await _put(store, arrival, batch, path, dry_run=dry_run))
        if progress is not None:
            progress(batch.last)
    return ImportReport(
        format=FORMAT,
        dry_run=dry_run,
        resources=tuple(resources),
        added=dict(+total.added),
        unchanged=dict(+total.same),
        kept=dict(+total.kept),
        left=dict(+total.left),
    )


async def _put(store: Store, arrival: Arrival, batch: _Batch, path: Path, *, dry_run: bool) -> Arrived:
    try:
        return await store.transfers.put(batch.resource, arrival, batch.rows, dry_run=dry_run)
    except StoreCorrupt as error:
        raise InputError(
            f"Lines {batch.first} to {batch.last} of {path.name} cannot be taken.",
            why=f"{error.why} Another resource may use the same ids, or the file was changed by hand.",
            then="Import into an empty database. Nothing of these lines is in; what came before them is.",
        ) from error


def _batches(path: Path, resource: str | None) -> Iterator[_Batch]:
    batch: _Batch | None = None
    for number, data in read_export(path):
        if data.get("kind") == "header":
            if resource is not None and len(data.get("resources", ())) != 1:
                raise InputError(
                    f"{path.name} does not hold exactly one resource, so it cannot become {resource!r}.",
                    then="Import it without naming a resource, or export one resource.",
                )
            continue
        if data.get("kind") == "resource":
            if batch is not None:
                yield batch
            batch = _Batch(resource=resource or _resource(data, path, number), first=number, last=number)
            continue
        if batch is None:
            raise InputError(f"Line {number} of {path.name} belongs to no resource.", then="Export again.")
        batch.add(number, row_of(data, f"Line {number} of {path.name}"))
        if batch.is_full:
            yield batch
            batch = _Batch(resource=batch.resource, first=number + 1, last=number)
    if batch is not None:
        yield batch


def _resource(data: dict[str, Any], path: Path, number: int) -> str:
    name = data.get("resource")
    if not isinstance(name, str):
        raise InputError(f"Line {number} of {path.name} names no resource.", then="Export again.")
    return name
