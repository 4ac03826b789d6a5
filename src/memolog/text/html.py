"""Render values as HTML tables for notebooks. All text in a table is escaped."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Final

from memolog.text.cut import cut

# Maximum length of the text of a cell, in characters.
_MAX_CELL: Final = 500


def html_table(heads: Sequence[str], rows: Iterable[Sequence[object]], *, note: str = "") -> str:
    """Return a table with one row for each sequence of values, and a note below it."""
    head = "".join(f"<th>{_cell(name)}</th>" for name in heads)
    body = "".join(f"<tr>{''.join(f'<td>{_cell(value)}</td>' for value in row)}</tr>" for row in rows)
    below = f"<p>{_cell(note)}</p>" if note else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{below}"


def html_items(items: Sequence[object], *, note: str = "") -> str:
    """Return a table of values of one class. The columns are the attributes that `html_columns` of the class lists."""
    columns: tuple[str, ...] = getattr(type(items[0]), "html_columns", ()) if items else ()
    if not columns:
        return html_table(("",), [(repr(item),) for item in items], note=note)
    return html_table(columns, [[getattr(item, name) for name in columns] for item in items], note=note)


def _cell(value: object) -> str:
    from html import escape  # noqa: PLC0415 - the import loads a long table that only notebooks need

    text = f"{value:%Y-%m-%d %H:%M}" if isinstance(value, datetime) else "" if value is None else str(value)
    return escape(cut(text, _MAX_CELL))
