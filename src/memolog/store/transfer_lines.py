"""Convert rows to the lines of an export and back, byte for byte. JSON columns are written as JSON if that loses nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from memolog.domain.codec import dumps, loads
from memolog.domain.errors import InputError
from memolog.store.transfer_tables import BY_KIND, Table

__all__ = ["Values", "line_of", "row_of", "values_of"]

Values = dict[str, Any]


def values_of(table: Table, row: Sequence[Any]) -> Values:
    """Return the columns of a page's row by name, without its internal numbers."""
    return dict(zip(table.columns, row[table.keys :], strict=True))


def line_of(table: Table, values: Mapping[str, Any]) -> str:
    """Return one line, without empty columns."""
    told: Values = {"kind": table.kind}
    for name, value in values.items():
        if value is not None:
            told[name] = _shown(value) if name in table.json else value
    return dumps(told)


def _shown(text: str) -> Any:
    try:
        value = loads(text)
    except ValueError:
        return text
    # A JSON string would be read back as plain text, so strings are not decoded.
    return value if not isinstance(value, str) and dumps(value) == text else text


def row_of(data: Mapping[str, Any], where: str) -> tuple[Table, Values]:
    """Return the table and values of a line; raises InputError for a line that is not part of an export."""
    table = BY_KIND.get(data.get("kind", ""))
    if table is None:
        raise InputError(
            f"{where} has an unknown kind: {str(data.get('kind'))[:40]!r}.",
            why="It was written by a newer release, or is not a line of an export.",
            then="Import it with the release that wrote it, or a newer one.",
        )
    unknown = sorted(set(data) - set(table.columns) - {"kind"})
    if unknown:
        raise InputError(
            f"{where} ({table.kind}) has an unknown field: {unknown[0][:40]}.",
            then="Import it with the release that wrote it, or a newer one.",
        )
    return table, {name: _stored(table, name, data.get(name), where) for name in table.columns}


def _stored(table: Table, name: str, value: Any, where: str) -> Any:
    if name in table.json and value is not None and not isinstance(value, str):
        return dumps(value)
    kind: type = type(value)
    if kind in (bool, list, dict):
        raise InputError(
            f"{where} ({table.kind}) must have a plain value in {name}, got {kind.__name__}.",
            then="Export it again.",
        )
    return value
