"""Define the kinds of lines in an export, and convert rows of the database to lines and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from memolog.core.exact_json import dumps, loads
from memolog.db.queries import Statement, load_queries
from memolog.errors import InputError

q = load_queries("admin/transfer")


class Table:
    """One kind of line. Its queries are named after it, and their parameters are its columns and keys."""

    def __init__(
        self,
        kind: str,
        *,
        fixed: str = "",
        json: str = "",
        parent: str = "",
        newer: str | None = None,
        is_sorted_here: bool = False,
    ) -> None:
        """Name the columns that are special.

        `fixed` never change: if they differ, two rows are not the same row. `json` hold JSON. `parent` names the parent row and
        is called like its kind, unless it is followed by a colon and the kind. `newer` rises with every change of the row.
        """
        name = kind.replace("-", "_")
        self.kind, self.newer, self.is_sorted_here = kind, newer, is_sorted_here
        self.fixed, self.json = fixed.split(), frozenset(json.split())
        column, _, above = parent.partition(":")
        self.parent = (above or column, column) if parent else None
        self.page, self.add = q.statements[f"{name}_page"], q.statements[f"{name}_add"]
        # Rows without a natural key are compared as a whole.
        self.one = q.statements.get(f"{name}_one")
        self.columns = _parameters(self.add)
        self.natural = _parameters(self.one) if self.one else ()
        # As many leading columns of a page are internal numbers, which order and continue it.
        self.keys = _parameters(self.page)

    def key(self, row: Mapping[str, Any]) -> tuple[str, Any]:
        """Return how other rows refer to this one."""
        return self.kind, row.get(self.natural[0]) if self.natural else None


def _parameters(query: Statement) -> tuple[str, ...]:
    return tuple(name for name in query.parameters if name not in {"resource", "limit"})


# `is_sorted_here`: the order depends on texts, which engines compare differently.
TABLES: Final = (
    Table("tombstone"),
    Table("task-book"),
    Table("task", fixed="handle created_at", json="metadata archive", newer="version"),
    Table("task-label", parent="task", is_sorted_here=True),
    Table("task-link", parent="source:task"),
    Table("task-change", json="change", parent="task"),
    Table("thread", fixed="created_at cloned_from", json="overrides metadata", newer="last_seq"),
    Table("compaction", fixed="thread first_seq last_seq created_at", json="before", parent="thread"),
    Table(
        "message",
        fixed="id continuation role tokens created_at own parts",
        json="pairs metadata parts",
        parent="thread",
    ),
    Table("branch", fixed="thread number kept_to created_at", json="live", parent="thread"),
    Table("task-message", parent="task"),
    Table("log", fixed="thread created_at", json="metadata", newer="version"),
    Table("cursor", fixed="alias", parent="log"),
    Table("run", fixed="log of thread first_seq last_seq started_at", json="inputs", parent="log"),
    Table("run-prompt", json="prompt", parent="run"),
    Table("group", fixed="log handle of thread first_seq last_seq created_at", json="hints", parent="log"),
    Table("generation", fixed="of created_at", json="dropped working_memory", parent="log"),
    Table("entry", fixed="group", parent="log"),
    Table("observation", fixed="group ordinal", json="files metadata", parent="group"),
    Table("source", fixed="last_seq", parent="observation"),
    Table("merge", parent="observation"),
    Table("working-memory", json="schema", newer="version"),
    Table("working-memory-version", fixed="at who text", parent="thread:working-memory"),
    Table("usage"),
    Table("calibration", is_sorted_here=True),
    Table("setting", json="value", is_sorted_here=True),
    Table("extract", json="value", parent="thread"),
    Table("context", fixed="turn step at", json="record", parent="thread"),
    Table("event", json="data"),
)
"""Every kind, parents before children."""
BY_KIND: Final = {table.kind: table for table in TABLES}
Values = dict[str, Any]


def values_of(table: Table, row: Sequence[Any]) -> Values:
    """Return the columns of a page's row by name, without its internal numbers."""
    return dict(zip(table.columns, row[len(table.keys) :], strict=True))


def line_of(table: Table, values: Mapping[str, Any]) -> str:
    """Return one line, without empty columns."""
    line: Values = {"kind": table.kind}
    for name, value in values.items():
        if value is not None:
            line[name] = _shown(value) if name in table.json else value
    return dumps(line)


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
    if isinstance(value, bool | list | dict):
        raise InputError(
            f"{where} ({table.kind}) must have a plain value in {name}, got {type(cast('object', value)).__name__}.",
            then="Export it again.",
        )
    return value
