"""Define the kinds of lines in an export, and convert rows of the database to lines and back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from memolog.core.exact_json import dumps, loads
from memolog.db.queries import Step, load_queries
from memolog.errors import InputError

q = load_queries("admin/transfer")

Query = Callable[..., Step]


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """One kind of line."""

    kind: str
    page: Query
    add: Any
    columns: tuple[str, ...]
    keys: int = 1
    """How many leading columns of a page are internal numbers, which order and continue it."""
    one: Query | None = None
    """Finds one row by its natural key; None if rows have none and are compared as a whole."""
    natural: tuple[str, ...] = ()
    fixed: tuple[str, ...] = ()
    """The columns that never change: if they differ, the two are not the same row."""
    json: frozenset[str] = frozenset()
    parent: tuple[str, str] | None = None
    """The kind of the parent row, and the column that names it."""
    newer: str | None = None
    """The number that rises with every change of the row."""
    is_sorted_here: bool = False
    """Its order depends on texts, which engines compare differently, so rows are sorted here."""

    def key(self, row: Mapping[str, Any]) -> tuple[str, Any]:
        """Return how other rows refer to this one."""
        return self.kind, row.get(self.natural[0]) if self.natural else None


def _columns(text: str) -> tuple[str, ...]:
    return tuple(text.split())


TABLES: Final = (
    Table(
        kind="tombstone",
        page=q.tombstone_page,
        one=q.tombstone_one,
        add=q.tombstone_add,
        columns=("of", "value", "said_at", "forgotten_at"),
        natural=("of", "value", "said_at"),
    ),
    Table(kind="task-book", page=q.book_page, one=q.book_one, add=q.book_add, keys=0, columns=("last_handle",)),
    Table(
        kind="task",
        page=q.task_page,
        one=q.task_one,
        add=q.task_add,
        columns=_columns(
            "id handle status priority type blocked assignee session defer_until due created_at updated_at closed_at "
            "close_reason level version lease_micros restored_at title summary metadata description archive"
        ),
        natural=("id",),
        fixed=("handle", "created_at"),
        json=frozenset({"metadata", "archive"}),
        newer="version",
    ),
    Table(
        kind="task-label",
        page=q.label_page,
        one=q.label_one,
        add=q.label_add,
        columns=("task", "label"),
        natural=("task", "label"),
        parent=("task", "task"),
        is_sorted_here=True,
    ),
    Table(
        kind="task-link",
        page=q.link_page,
        one=q.link_one,
        add=q.link_add,
        keys=3,
        columns=("source", "target", "of", "created_at"),
        natural=("source", "target", "of"),
        parent=("task", "source"),
    ),
    Table(
        kind="task-change",
        page=q.change_page,
        add=q.change_add,
        columns=("task", "at", "who", "change"),
        json=frozenset({"change"}),
        parent=("task", "task"),
    ),
    Table(
        kind="thread",
        page=q.thread_page,
        one=q.thread_one,
        add=q.thread_add,
        columns=_columns(
            "id last_seq created_at updated_at last_request_at last_model active_task active_session hinted_at hinted_seq "
            "cloned_from title current_task suggested_response hinted_title overrides metadata"
        ),
        natural=("id",),
        fixed=("created_at", "cloned_from"),
        json=frozenset({"overrides", "metadata"}),
        newer="last_seq",
    ),
    Table(
        kind="compaction",
        page=q.compaction_page,
        one=q.compaction_one,
        add=q.compaction_add,
        columns=_columns("id thread first_seq last_seq level created_at restored_at summary before"),
        natural=("id",),
        fixed=("thread", "first_seq", "last_seq", "created_at"),
        json=frozenset({"before"}),
        parent=("thread", "thread"),
    ),
    Table(
        kind="message",
        page=q.message_page,
        one=q.message_one,
        add=q.message_add,
        keys=2,
        columns=_columns(
            "thread seq id continuation role tokens created_at state own level pruned task compaction turn zone speaker "
            "pairs metadata parts injection search"
        ),
        natural=("thread", "seq"),
        fixed=("id", "continuation", "role", "tokens", "created_at", "own", "parts"),
        json=frozenset({"pairs", "metadata", "parts"}),
        parent=("thread", "thread"),
    ),
    Table(
        kind="task-message",
        page=q.task_message_page,
        one=q.task_message_one,
        add=q.task_message_add,
        keys=4,
        columns=("task", "thread", "seq", "of"),
        natural=("task", "thread", "seq", "of"),
        parent=("task", "task"),
    ),
    Table(
        kind="log",
        page=q.log_page,
        one=q.log_one,
        add=q.log_add,
        columns=_columns(
            "id thread version generation next_handle next_alias created_at failures retry_at last_success_at last_error_at "
            "last_error metadata"
        ),
        natural=("id",),
        fixed=("thread", "created_at"),
        json=frozenset({"metadata"}),
        newer="version",
    ),
    Table(
        kind="cursor",
        page=q.cursor_page,
        one=q.cursor_one,
        add=q.cursor_add,
        keys=2,
        columns=("log", "thread", "seq", "alias"),
        natural=("log", "thread"),
        fixed=("alias",),
        parent=("log", "log"),
    ),
    Table(
        kind="run",
        page=q.run_page,
        one=q.run_one,
        add=q.run_add,
        columns=_columns(
            "id log of status thread first_seq last_seq owner fence lease_until heartbeat_at attempt started_at finished_at "
            "retry_at model prompt_version input_tokens output_tokens cost error inputs"
        ),
        natural=("id",),
        fixed=("log", "of", "thread", "first_seq", "last_seq", "started_at"),
        json=frozenset({"inputs"}),
        parent=("log", "log"),
    ),
    Table(
        kind="run-prompt",
        page=q.prompt_page,
        one=q.prompt_one,
        add=q.prompt_add,
        keys=2,
        columns=("run", "call", "prompt", "reply"),
        natural=("run", "call"),
        json=frozenset({"prompt"}),
        parent=("run", "run"),
    ),
    Table(
        kind="group",
        page=q.group_page,
        one=q.group_one,
        add=q.group_add,
        columns=_columns(
            "id log handle of state thread first_seq last_seq run tokens observations first_at last_at created_at "
            "activated_at hints text"
        ),
        natural=("id",),
        fixed=("log", "handle", "of", "thread", "first_seq", "last_seq", "created_at"),
        json=frozenset({"hints"}),
        parent=("log", "log"),
    ),
    Table(
        kind="generation",
        page=q.generation_page,
        one=q.generation_one,
        add=q.generation_add,
        keys=2,
        columns=_columns(
            "log number of run created_at restored_from tokens_before tokens_after dropped working_memory"
        ),
        natural=("log", "number"),
        fixed=("of", "created_at"),
        json=frozenset({"dropped", "working_memory"}),
        parent=("log", "log"),
    ),
    Table(
        kind="entry",
        page=q.entry_page,
        one=q.entry_one,
        add=q.entry_add,
        keys=3,
        columns=("log", "generation", "position", "group", "added_at"),
        natural=("log", "generation", "position"),
        fixed=("group",),
        parent=("log", "log"),
    ),
    Table(
        kind="observation",
        page=q.observation_page,
        one=q.observation_one,
        add=q.observation_add,
        columns=_columns(
            "id group ordinal parent priority trust grounded state tokens said_at zone about category text verbatim files "
            "metadata"
        ),
        natural=("id",),
        fixed=("group", "ordinal"),
        json=frozenset({"files", "metadata"}),
        parent=("group", "group"),
    ),
    Table(
        kind="source",
        page=q.source_page,
        one=q.source_one,
        add=q.source_add,
        keys=3,
        columns=("observation", "thread", "first_seq", "last_seq"),
        natural=("observation", "thread", "first_seq"),
        fixed=("last_seq",),
        parent=("observation", "observation"),
    ),
    Table(
        kind="merge",
        page=q.merge_page,
        one=q.merge_one,
        add=q.merge_add,
        keys=2,
        columns=("observation", "merged"),
        natural=("observation", "merged"),
        parent=("observation", "observation"),
    ),
    Table(
        kind="working-memory",
        page=q.document_page,
        one=q.document_one,
        add=q.document_add,
        columns=("thread", "format", "version", "schema"),
        natural=("thread",),
        json=frozenset({"schema"}),
        newer="version",
    ),
    Table(
        kind="working-memory-version",
        page=q.version_page,
        one=q.version_one,
        add=q.version_add,
        keys=2,
        columns=("thread", "version", "at", "who", "text"),
        natural=("thread", "version"),
        fixed=("at", "who", "text"),
        parent=("working-memory", "thread"),
    ),
    Table(
        kind="usage",
        page=q.usage_page,
        add=q.usage_add,
        columns=_columns(
            "thread task run of model at input_tokens output_tokens cache_read_tokens cache_write_tokens cost"
        ),
    ),
    Table(
        kind="calibration",
        page=q.calibration_page,
        one=q.calibration_one,
        add=q.calibration_add,
        keys=0,
        columns=("model", "factor", "samples"),
        natural=("model",),
        is_sorted_here=True,
    ),
    Table(
        kind="setting",
        page=q.setting_page,
        one=q.setting_one,
        add=q.setting_add,
        keys=0,
        columns=("name", "value"),
        natural=("name",),
        json=frozenset({"value"}),
        is_sorted_here=True,
    ),
    Table(
        kind="extract",
        page=q.extract_page,
        add=q.extract_add,
        columns=_columns("thread first_seq last_seq at key who run value"),
        json=frozenset({"value"}),
        parent=("thread", "thread"),
    ),
    Table(
        kind="context",
        page=q.context_page,
        one=q.context_one,
        add=q.context_add,
        keys=2,
        columns=("thread", "number", "turn", "step", "at", "record"),
        natural=("thread", "number"),
        fixed=("turn", "step", "at"),
        json=frozenset({"record"}),
        parent=("thread", "thread"),
    ),
    Table(
        kind="event",
        page=q.event_page,
        add=q.event_add,
        columns=("thread", "at", "of", "data"),
        json=frozenset({"data"}),
    ),
)
"""Every kind, parents before children."""
BY_KIND: Final = {table.kind: table for table in TABLES}
Values = dict[str, Any]


def values_of(table: Table, row: Sequence[Any]) -> Values:
    """Return the columns of a page's row by name, without its internal numbers."""
    return dict(zip(table.columns, row[table.keys :], strict=True))


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
