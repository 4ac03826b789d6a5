"""Lines of an export: rows to JSON and back, byte for byte.

Knows how a row looks in a line. JSON that stands in a column is shown as JSON where that loses nothing, and as text where it
would. Knows no database.
"""

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
    """Return one line. What is empty is left out."""
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
    # A text stands for itself when it is read again, so only what is no text can be shown as what it means.
    return value if not isinstance(value, str) and dumps(value) == text else text


def row_of(data: Mapping[str, Any], where: str) -> tuple[Table, Values]:
    """Return what a line says; refuses what is no line of an export."""
    table = BY_KIND.get(data.get("kind", ""))
    if table is None:
        raise InputError(
            f"{where} is of an unknown kind: {str(data.get('kind'))[:40]!r}.",
            why="It was written by a newer release, or is no line of an export.",
            then="Import it with the release that wrote it, or a newer one.",
        )
    unknown = sorted(set(data) - set(table.columns) - {"kind"})
    if unknown:
        raise InputError(
            f"{where} ({table.kind}) has a field that this release does not know: {unknown[0][:40]}.",
            then="Import it with the release that wrote it, or a newer one.",
        )
    return table, {name: _stored(table, name, data.get(name), where) for name in table.columns}


def _stored(table: Table, name: str, value: Any, where: str) -> Any:
    if name in table.json and value is not None and not isinstance(value, str):
        return dumps(value)
    if isinstance(value, bool | list | dict):
        raise InputError(f"{where} ({table.kind}) has no plain value in {name}.", then="Export it again.")
    return value
