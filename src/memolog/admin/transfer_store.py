"""Export all rows of a resource, and import them into another database exactly.

An import changes no stored row: each imported row is new, the same as a stored one, or refused.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import groupby
from typing import Any, Final, Protocol

from memolog.admin.doctor import lowering_trust, rendering_anew
from memolog.core.clock import to_micros
from memolog.core.exact_json import dumps, loads
from memolog.core.thread import Hints
from memolog.db.engine import Engine
from memolog.db.queries import Row, Script, Step, load_queries
from memolog.db.scope import check_ids, chunks, taking_thread
from memolog.errors import ImportConflict, InputError
from memolog.log.store import hint_values
from memolog.log.withdrawals import Render

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
    kind = str(type(value).__name__)
    if kind in ("bool", "list", "dict"):
        raise InputError(
            f"{where} ({table.kind}) must have a plain value in {name}, got {kind}.",
            then="Export it again.",
        )
    return value


logs = load_queries("log/logs")

_PAGE = 400
_GROUPS = 50
_ALL = 1_000_000
_SHOWN = 60
_NAMES = ("a", "b", "c", "d")
# A row that is missing here was removed on purpose if its thread or log has changed since. Messages are never removed.
_NEVER_REMOVED = frozenset({"message"})


class Lines(Protocol):
    """Takes the lines of an export. After a lost connection the export begins again: `start` drops the unfinished lines."""

    def start(self) -> None:
        """Begin a resource, or begin it again."""
        ...

    def take(self, line: str) -> None:
        """Take one line without its line break."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrived:
    """Counts of imported rows by kind."""

    added: Counter[str] = field(default_factory=Counter[str])
    same: Counter[str] = field(default_factory=Counter[str])
    kept: Counter[str] = field(default_factory=Counter[str])
    """Stored already and changed since: the stored row stays."""
    left: Counter[str] = field(default_factory=Counter[str])
    """Removed here since: the row is not imported."""

    def count(self, other: Arrived) -> None:
        """Add other counts."""
        for name in ("added", "same", "kept", "left"):
            getattr(self, name).update(getattr(other, name))


@dataclass(slots=True, kw_only=True)
class Arrival:
    """The state of an import into one resource."""

    resource: str
    is_fresh: bool
    """The resource was empty when the import began, so no row can be stored already."""
    moved: set[tuple[str, Any]] = field(default_factory=set[tuple[str, Any]])
    known: dict[str, Counter[int]] = field(default_factory=dict[str, Counter[int]])
    """Hashes of the stored rows without a natural key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Outcome:
    arrived: Arrived
    moved: set[tuple[str, Any]]
    dry_run: bool


class Transfers:
    """Exports and imports rows, one resource at a time."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def export(self, resource: str, lines: Lines) -> Counter[str]:
        """Write all rows of a resource, as of one moment; returns the number of lines by kind."""
        check_ids(resource=resource)
        return await self._engine.read(lambda: _exporting(resource, lines), brief=False)

    async def begin(self, resource: str) -> Arrival:
        """Begin or continue an import into a resource."""
        check_ids(resource=resource)

        def script() -> Script[bool]:
            rows = yield q.any_of(resource=resource)
            return not rows[0].found

        return Arrival(resource=resource, is_fresh=await self._engine.read(script))

    async def put(
        self, resource: str, arrival: Arrival, rows: Sequence[tuple[Table, Values]], *, dry_run: bool = False
    ) -> Arrived:
        """Import rows, all or none. Stored rows stay; raises ImportConflict for rows that contradict them."""
        check_ids(resource=resource)
        chosen, same = await self._without_repetitions(arrival, rows)
        if dry_run:
            outcome = await self._engine.read(lambda: _putting(arrival, chosen, dry_run=True), brief=False)
        else:
            outcome = await self._engine.write(lambda: _putting(arrival, chosen, dry_run=False), name="transfers.put")
        arrival.moved |= outcome.moved
        outcome.arrived.same.update(same)
        return outcome.arrived

    async def render(
        self, resource: str, texts: Mapping[str, str], *, render: Render, count: Callable[[str], int]
    ) -> None:
        """Render imported groups without a text, and lower the trust of lines to that of their sources.

        `texts` holds the exported texts; a text that matches the lines is stored unchanged.
        """
        check_ids(resource=resource)
        for some in chunks(list(texts), _GROUPS):

            def script(some: Sequence[str] = some) -> Script[None]:
                yield from lowering_trust(resource, some)
                yield from rendering_anew(resource, {name: texts[name] for name in some}, render, count)

            await self._engine.write(script, name="transfers.render")

    async def date(self, resource: str, thread: str, *, created_at: datetime, updated_at: datetime) -> None:
        """Set the times of a thread to those of its messages; raises ThreadNotFound."""
        check_ids(resource=resource, thread=thread)
        times = {"created_at": to_micros(created_at), "updated_at": to_micros(updated_at)}

        def script() -> Script[None]:
            yield from taking_thread(resource, thread)
            yield q.set_times(resource=resource, thread=thread, **times)

        await self._engine.write(script, name="transfers.date")

    async def hint(self, resource: str, thread: str, hints: Hints) -> None:
        """Set the hints of a thread, unless it has newer ones; raises ThreadNotFound."""
        check_ids(resource=resource, thread=thread)

        def script() -> Script[None]:
            thread_pk = (yield from taking_thread(resource, thread)).pk
            yield logs.apply_hints(**hint_values(hints, thread_pk, hints.last_seq))

        await self._engine.write(script, name="transfers.hint")

    async def _without_repetitions(
        self, arrival: Arrival, rows: Sequence[tuple[Table, Values]]
    ) -> tuple[list[tuple[Table, Values]], Counter[str]]:
        """Remove rows without a natural key that are stored already, as often as they are stored."""
        same, chosen = Counter[str](), list[tuple[Table, Values]]()
        for table, values in rows:
            if table.one is None and not arrival.is_fresh:
                known = arrival.known.get(table.kind)
                if known is None:
                    known = arrival.known[table.kind] = await self._known(arrival.resource, table)
                mark = hash(line_of(table, values))
                if known[mark]:
                    known[mark] -= 1
                    same[table.kind] += 1
                    continue
            chosen.append((table, values))
        return chosen, same

    async def _known(self, resource: str, table: Table) -> Counter[int]:
        def script() -> Script[Counter[int]]:
            found: Counter[int] = Counter()
            pages = _Pages(table, resource)
            while rows := (yield from pages.next()):
                found.update(hash(line_of(table, values)) for values in rows)
            return found

        return await self._engine.read(script, brief=False)


# ---------------------------------------------------------------- out


class _Pages:
    """Reads the rows of one kind in pages."""

    def __init__(self, table: Table, resource: str) -> None:
        self._table, self._resource = table, resource
        self._after: dict[str, int] = dict.fromkeys(_NAMES[: table.keys], -1)
        self._is_over = False

    def next(self) -> Script[list[Values]]:
        """Return the next rows; none at the end."""
        table = self._table
        while not self._is_over:
            limit = _PAGE if table.keys else _ALL
            rows: list[Row] = list((yield table.page(resource=self._resource, limit=limit, **self._after)))
            if not rows:
                break
            if table.is_sorted_here:
                rows.sort(key=lambda row: (*row[: table.keys], *(cell or "" for cell in row[table.keys :][:2])))
            self._after = dict(zip(_NAMES, rows[-1][: table.keys], strict=False))
            self._is_over = not table.keys
            values = [values_of(table, row) for row in rows]
            if table.kind == "task-label":
                values = [row for row in values if row["label"] is not None]
            if values:
                return values
        return []


def _exporting(resource: str, lines: Lines) -> Script[Counter[str]]:
    # Lines are written while rows are read, so an export needs memory for one page only.
    lines.start()
    written: Counter[str] = Counter()
    for table in TABLES:
        pages = _Pages(table, resource)
        while rows := (yield from pages.next()):
            if table.kind == "generation":
                yield from _naming(resource, rows)
            for values in rows:
                lines.take(line_of(table, values))
            written[table.kind] += len(rows)
    return written


def _naming(resource: str, rows: Sequence[Values]) -> Script[None]:
    """Replace internal keys in the working memory of generations by thread names ("" is the resource)."""
    kept = [_versions(row) for row in rows]
    keys = sorted({int(key) for versions in kept for key in versions} - {0})
    names = {"0": ""}
    if keys:
        names |= {str(row.pk): row.id for row in (yield q.thread_names(resource=resource, keys=keys))}
    for row, versions in zip(rows, kept, strict=True):
        named = {names[key]: version for key, version in versions.items() if key in names}
        row["working_memory"] = dumps(named) if named else None


def _versions(row: Values) -> dict[str, int]:
    return loads(row["working_memory"]) if row["working_memory"] else {}


def _unnaming(resource: str, rows: Sequence[Values]) -> Script[list[Values]]:
    """Replace thread names by the keys of this database."""
    kept = [_versions(row) for row in rows]
    names = sorted({name for versions in kept for name in versions} - {""})
    keys = {"": 0}
    if names:
        keys |= {row.id: row.pk for row in (yield q.thread_keys(resource=resource, threads=names))}
    made: list[Values] = []
    for row, versions in zip(rows, kept, strict=True):
        found = {str(keys[name]): version for name, version in versions.items() if name in keys}
        made.append({**row, "working_memory": dumps(found) if found else None})
    return made


# ---------------------------------------------------------------- in


def _putting(arrival: Arrival, rows: Sequence[tuple[Table, Values]], *, dry_run: bool) -> Script[_Outcome]:
    outcome = _Outcome(arrived=Arrived(), moved=set(), dry_run=dry_run)
    for kind, some in groupby(rows, key=lambda row: row[0].kind):
        table, values = BY_KIND[kind], [row for _, row in some]
        new = values
        if not arrival.is_fresh and table.one is not None:
            new = yield from _choosing(arrival, table, table.one, values, outcome)
        outcome.arrived.added[kind] += len(new)
        if new and not dry_run:
            yield from _adding(arrival.resource, table, new)
    return outcome


def _adding(resource: str, table: Table, rows: Sequence[Values]) -> Script[None]:
    if table.kind == "generation":
        rows = yield from _unnaming(resource, rows)
    yield table.add.many([{**row, "resource": resource} for row in rows])
    if table.kind == "message":
        for thread, some in groupby(rows, key=lambda row: row["thread"]):
            numbers = [row["seq"] for row in some]
            yield q.index_again(resource=resource, thread=thread, first=min(numbers), last=max(numbers))


def _choosing(
    arrival: Arrival, table: Table, find: Query, rows: Sequence[Values], outcome: _Outcome
) -> Script[list[Values]]:
    """Return the rows that are not stored yet; the others are counted or refused."""
    new: list[Values] = []
    seen: set[tuple[Any, ...]] = set()
    for row in rows:
        key = tuple(row[name] for name in table.natural)
        found = yield find(resource=arrival.resource, **{name: row[name] for name in table.natural})
        is_moved = table.parent is not None and (table.parent[0], row[table.parent[1]]) in arrival.moved | outcome.moved
        if is_moved:
            outcome.moved.add(table.key(row))
        if found:
            here = values_of(table, found[0])
            if table.kind == "generation":
                yield from _naming(arrival.resource, [here])
            yield from _meeting(arrival, table, row, here, outcome)
        elif not is_moved and key not in seen:
            new.append(row)
            seen.add(key)
        elif table.kind in _NEVER_REMOVED:
            raise ImportConflict(
                _name(table, row), "it is not here, and its thread has been used since it was imported in part"
            )
        else:
            outcome.arrived.left[table.kind] += 1
    return new


def _meeting(arrival: Arrival, table: Table, row: Values, here: Values, outcome: _Outcome) -> Script[None]:
    """Compare a row with the stored one."""
    if table.kind == "group" and not row["text"]:
        # Its text is rendered from its lines: see `render`.
        row = {**row, "text": here["text"], "tokens": here["tokens"]}
    if row == here:
        outcome.arrived.same[table.kind] += 1
        return
    for name in _differing(table, row, here):
        raise ImportConflict(_name(table, row), f"its {name} is {_short(here[name])} here, not {_short(row[name])}")
    if table.newer is not None and here[table.newer] < row[table.newer]:
        raise ImportConflict(
            _name(table, row), f"the export is newer: {table.newer} is {here[table.newer]} here, not {row[table.newer]}"
        )
    outcome.moved.add(table.key(row))
    outcome.arrived.kept[table.kind] += 1
    if table.kind == "task-book" and not outcome.dry_run:
        yield q.raise_handle(resource=arrival.resource, last_handle=row["last_handle"])


def _differing(table: Table, row: Values, here: Values) -> Iterator[str]:
    for name in table.fixed:
        is_emptied = name == "parts" and any(one["state"] == "forgotten" or one["pruned"] for one in (row, here))
        if row[name] != here[name] and not is_emptied:
            yield name


def _name(table: Table, row: Values) -> str:
    named = " ".join(str(row[name]) for name in table.natural if row[name] is not None)
    return f"{table.kind} {named}".strip()


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"
