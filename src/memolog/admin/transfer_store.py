"""Export all rows of a resource, and import them into another database exactly.

An import changes no stored row: it adds missing rows, skips stored rows, and raises ImportConflict for rows that contradict a
stored row. Imported groups are rendered again, and an observation gets at most the trust of its sources.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import groupby
from typing import IO, Any, Final, cast

from memolog.admin.doctor import matches_rendering
from memolog.core.clock import to_micros
from memolog.core.exact_json import dumps, loads, pack, unpack
from memolog.core.progress import is_heard, report
from memolog.core.thread import Hints
from memolog.db.engine import Calls, reads, writes
from memolog.db.queries import Row, Script, Statement, load_queries
from memolog.db.scope import check_ids, chunks, taking_thread
from memolog.errors import ImportConflict, InputError
from memolog.log.store import hint_values
from memolog.log.withdrawals import Render, rendering

q = load_queries("admin/transfer")
log_queries = load_queries("log/logs")
_PAGE = 400
_GROUPS = 50
_TRUSTS: Final = ("tool", "assistant", "user")
_ALL = 1_000_000
_SHOWN = 60
# The kinds of rows that are counted for the progress of an export, and how many are written between two reports.
_LARGE = ("message", "observation")
_REPORTED = 200
# If a row is missing here and its parent row has changed since the export, the row was probably deleted here and is not imported.
# The rows of messages are never deleted, so a missing message is a conflict.
_NEVER_REMOVED = frozenset({"message"})


class Table:
    """One kind of row. Its queries are `KIND_page`, `KIND_add` and `KIND_one`. Their parameters are its columns and keys."""

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
        """Set the special columns, as names separated by spaces.

        `fixed` columns never change, so two rows that differ in them contradict each other. `json` columns contain JSON. `parent`
        is the column that refers to the parent row. Its name is the kind of the parent, or it is written `COLUMN:KIND`. The
        column `newer` rises with every change of the row.
        """
        name = kind.replace("-", "_")
        self.kind, self.newer, self.is_sorted_here = kind, newer, is_sorted_here
        self.fixed, self.json = fixed.split(), frozenset(json.split())
        column, _, above = parent.partition(":")
        self.parent = (above or column, column) if parent else None
        self.page, self.add = q.statements[f"{name}_page"], q.statements[f"{name}_add"]
        # A kind without this query has no natural key: its rows are compared as a whole.
        self.one = q.statements.get(f"{name}_one")
        self.columns = _parameters(self.add)
        self.natural = _parameters(self.one) if self.one else ()
        # The page query returns these internal keys as its first columns. The rows are ordered by them.
        self.keys = _parameters(self.page)

    def key(self, row: Mapping[str, Any]) -> tuple[str, Any]:
        """Return the kind and id by which children refer to this row."""
        return self.kind, row.get(self.natural[0]) if self.natural else None


def _parameters(query: Statement) -> tuple[str, ...]:
    return tuple(name for name in query.parameters if name not in {"resource", "limit"})


# With `is_sorted_here` rows are sorted in Python, because the order depends on texts, which the engines compare differently.
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
    Table("item", json="value", newer="updated_at"),
    Table("usage"),
    Table("calibration", is_sorted_here=True),
    Table("setting", json="value", is_sorted_here=True),
    Table("extract", json="value", parent="thread"),
    Table("context", fixed="turn step at", json="record", parent="thread"),
    Table("event", json="data"),
)
"""All kinds, with parents before their children."""
BY_KIND: Final = {table.kind: table for table in TABLES}
Values = dict[str, Any]


def values_of(table: Table, row: Sequence[Any]) -> Values:
    """Return the columns of a row of a page by name, without the internal keys."""
    return dict(zip(table.columns, row[len(table.keys) :], strict=True))


def line_of(table: Table, values: Mapping[str, Any]) -> str:
    """Return a row as one line of JSON, without columns that are NULL."""
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
    # Do not decode a JSON string, because the import would store it as plain text.
    return value if not isinstance(value, str) and dumps(value) == text else text


def row_of(data: Mapping[str, Any], where: str) -> tuple[Table, Values]:
    """Return the table and values of a line. Raise InputError if the line is not part of an export."""
    table = BY_KIND.get(data.get("kind", ""))
    if table is None:
        raise InputError(
            f"{where} has an unknown kind: {str(data.get('kind'))[:40]!r}.",
            why="The line was written by a newer release, or is not part of an export.",
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrived:
    """Counts of processed rows by kind: added, and the same as a stored row."""

    added: Counter[str] = field(default_factory=Counter[str])
    same: Counter[str] = field(default_factory=Counter[str])
    kept: Counter[str] = field(default_factory=Counter[str])
    """Rows that are stored here and were changed since the export. The stored rows are not changed."""
    left: Counter[str] = field(default_factory=Counter[str])
    """Rows that were deleted here since the export. They are not imported."""
    moved: set[tuple[str, Any]] = field(default_factory=set[tuple[str, Any]])
    """The kinds and ids of rows that were changed or deleted here since the export."""

    def count(self, other: Arrived) -> None:
        """Add the counts of another part of the import."""
        for name in ("added", "same", "kept", "left"):
            getattr(self, name).update(getattr(other, name))


@dataclass(slots=True, kw_only=True)
class Arrival:
    """The state of an import into one resource."""

    resource: str
    is_fresh: bool
    """Whether the resource was empty when the import began, so that no row needs to be compared."""
    moved: set[tuple[str, Any]] = field(default_factory=set[tuple[str, Any]])
    known: dict[str, Counter[int]] = field(default_factory=dict[str, Counter[int]])
    """By kind, the hashes of the stored rows of kinds without a natural key."""


class Transfers(Calls):
    """Exports and imports rows. Every call is for one resource."""

    async def export(self, resource: str, file: IO[bytes]) -> Counter[str]:
        """Write all rows of a resource as JSON lines, as of one moment. Return the number of lines by kind."""
        check_ids(resource=resource)
        start = file.tell()
        return await self.engine.read(lambda: _exporting(resource, file, start), brief=False)

    @reads
    def begin(self, resource: str) -> Script[Arrival]:
        """Return the state of a new import into a resource."""
        check_ids(resource=resource)
        rows = yield q.any_of(resource=resource)
        return Arrival(resource=resource, is_fresh=not rows[0].found)

    async def put(
        self, resource: str, arrival: Arrival, rows: Sequence[tuple[Table, Values]], *, dry_run: bool = False
    ) -> Arrived:
        """Import rows in one transaction. Raise ImportConflict for a row that contradicts a stored row."""
        check_ids(resource=resource)
        chosen, same = await self._without_repetitions(arrival, rows)
        if dry_run:
            arrived = await self.engine.read(lambda: _putting(arrival, chosen, dry_run=True), brief=False)
        else:
            arrived = await self.engine.write(lambda: _putting(arrival, chosen, dry_run=False), name="transfers.put")
        arrival.moved |= arrived.moved
        arrived.same.update(same)
        return arrived

    async def render(
        self, resource: str, texts: Mapping[str, str], *, render: Render, count: Callable[[str], int]
    ) -> None:
        """Render imported groups that have no text, and lower the trust of their observations to that of the sources.

        `texts` has the exported text of each group. A text that matches the observations is stored unchanged.
        """
        check_ids(resource=resource)
        for some in chunks(list(texts), _GROUPS):

            def script(some: Sequence[str] = some) -> Script[None]:
                yield from _lowering_trust(resource, some)
                yield from _rendering_imported(resource, {name: texts[name] for name in some}, render, count)

            await self.engine.write(script, name="transfers.render")

    @writes("transfers.date")
    def date(self, resource: str, thread: str, *, created_at: datetime, updated_at: datetime) -> Script[None]:
        """Set the times of a thread. Raise ThreadNotFound if it does not exist."""
        check_ids(resource=resource, thread=thread)
        times = {"created_at": to_micros(created_at), "updated_at": to_micros(updated_at)}
        yield from taking_thread(resource, thread)
        yield q.set_times(resource=resource, thread=thread, **times)

    @writes("transfers.hint")
    def hint(self, resource: str, thread: str, hints: Hints) -> Script[None]:
        """Set current task, suggested response and title of a thread, unless it has newer ones. Raise ThreadNotFound."""
        check_ids(resource=resource, thread=thread)
        thread_pk = (yield from taking_thread(resource, thread)).pk
        yield log_queries.apply_hints(**hint_values(hints, thread_pk, hints.last_seq))

    async def _without_repetitions(
        self, arrival: Arrival, rows: Sequence[tuple[Table, Values]]
    ) -> tuple[list[tuple[Table, Values]], Counter[str]]:
        """Return the rows to import, and by kind the number of other rows. Those have no natural key and are stored already.

        If a row occurs several times in the export, it is left out only as often as it is stored.
        """
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
            yield from _reading(table, resource, lambda line: found.update([hash(line)]))
            return found

        return await self.engine.read(script, brief=False)


def _reading(table: Table, resource: str, take: Callable[[str], None]) -> Script[None]:
    """Call `take` with each row of a kind as a line. Rows are read in pages, to keep few of them in RAM."""
    after = dict.fromkeys(table.keys, -1)
    while True:
        rows: list[Row] = list((yield table.page(resource=resource, limit=_PAGE if after else _ALL, **after)))
        if table.is_sorted_here:
            rows.sort(key=lambda row: (*row[: len(after)], *(cell or "" for cell in row[len(after) :][:2])))
        page = [values_of(table, row) for row in rows]
        if table.kind == "generation":
            yield from _naming_threads(resource, page)
        for values in page:
            # A task without labels is returned as a row whose label is NULL.
            if table.kind != "task-label" or values["label"] is not None:
                take(line_of(table, values))
        if not rows or not after:
            return
        after = dict(zip(after, rows[-1], strict=False))


def _exporting(resource: str, file: IO[bytes], start: int) -> Script[Counter[str]]:
    written: Counter[str] = Counter()

    def take(line: str) -> None:
        file.write(line.encode() + b"\n")
        written[kind] += 1
        if kind in _LARGE and not written[kind] % _REPORTED:
            report("messages and observations", sum(written[one] for one in _LARGE), total)

    counts = (yield q.count_large(resource=resource)) if is_heard() else ()
    total = counts[0].counted if counts else None
    # After a lost connection the script runs again, so remove the lines of the first attempt.
    file.seek(start)
    file.truncate()
    kind = "resource"
    take(dumps({"kind": kind, "resource": resource}))
    for table in TABLES:
        kind = table.kind
        yield from _reading(table, resource, take)
    return written


def _naming_threads(resource: str, rows: Sequence[Values]) -> Script[None]:
    """Replace thread keys by thread ids in the working memory versions of generations. The id "" means the resource."""
    keys = sorted({int(key) for row in rows for key in _versions(row)} - {0})
    found = (yield q.thread_names(resource=resource, keys=keys)) if keys else ()
    _rename_versions(rows, {"0": "", **{str(row.pk): row.id for row in found}})


def _keying_threads(resource: str, rows: Sequence[Values]) -> Script[list[Values]]:
    """Replace thread ids by the thread keys of this database in the working memory versions of generations."""
    names = sorted({name for row in rows for name in _versions(row)} - {""})
    found = (yield q.thread_keys(resource=resource, threads=names)) if names else ()
    made = [dict(row) for row in rows]
    _rename_versions(made, {"": "0", **{row.id: str(row.pk) for row in found}})
    return made


def _rename_versions(rows: Sequence[Values], names: Mapping[str, str]) -> None:
    for row in rows:
        named = {names[key]: version for key, version in _versions(row).items() if key in names}
        row["working_memory"] = dumps(named) if named else None


def _versions(row: Values) -> dict[str, int]:
    return loads(row["working_memory"]) if row["working_memory"] else {}


def _putting(arrival: Arrival, rows: Sequence[tuple[Table, Values]], *, dry_run: bool) -> Script[Arrived]:
    arrived = Arrived()
    for kind, some in groupby(rows, key=lambda row: row[0].kind):
        table, values = BY_KIND[kind], [row for _, row in some]
        new = values
        if not arrival.is_fresh and table.one is not None:
            new = yield from _selecting_new(arrival, table, table.one, values, arrived)
        arrived.added[kind] += len(new)
        if new and not dry_run:
            yield from _adding(arrival.resource, table, new)
        if kind == "task-book" and not dry_run:
            for row in values:
                yield q.raise_handle(resource=arrival.resource, last_handle=row["last_handle"])
    return arrived


def _adding(resource: str, table: Table, rows: Sequence[Values]) -> Script[None]:
    if table.kind == "generation":
        rows = yield from _keying_threads(resource, rows)
    yield table.add.many([{**row, "resource": resource} for row in rows])
    if table.kind == "message":
        for thread, some in groupby(rows, key=lambda row: row["thread"]):
            numbers = [row["seq"] for row in some]
            yield q.index_again(resource=resource, thread=thread, first=min(numbers), last=max(numbers))


def _selecting_new(
    arrival: Arrival, table: Table, find: Statement, rows: Sequence[Values], arrived: Arrived
) -> Script[list[Values]]:
    """Return the rows to add. Count all other rows in `arrived`, or raise ImportConflict."""
    new: list[Values] = []
    seen: set[tuple[Any, ...]] = set()
    for row in rows:
        key = tuple(row[name] for name in table.natural)
        found = yield find(resource=arrival.resource, **{name: row[name] for name in table.natural})
        is_moved = table.parent is not None and (table.parent[0], row[table.parent[1]]) in arrival.moved | arrived.moved
        if is_moved:
            arrived.moved.add(table.key(row))
        if found:
            here = values_of(table, found[0])
            if table.kind == "generation":
                yield from _naming_threads(arrival.resource, [here])
            _compare(table, row, here, arrived)
        elif not is_moved and key not in seen:
            new.append(row)
            seen.add(key)
        elif table.kind in _NEVER_REMOVED:
            raise ImportConflict(
                _described(table, row), "it is missing here, although its thread was imported and used since"
            )
        else:
            arrived.left[table.kind] += 1
    return new


def _compare(table: Table, row: Values, here: Values, arrived: Arrived) -> None:
    """Compare a row with the stored row, and count the result in `arrived`."""
    if table.kind == "group" and not row["text"]:
        # An imported group has no text until `render` is called, so do not compare the texts.
        row = {**row, "text": here["text"], "tokens": here["tokens"]}
    if row == here:
        arrived.same[table.kind] += 1
        return
    for name in table.fixed:
        is_emptied = name == "parts" and any(one["state"] == "forgotten" or one["pruned"] for one in (row, here))
        if row[name] != here[name] and not is_emptied:
            raise ImportConflict(
                _described(table, row), f"its {name} is {_shortened(here[name])} here, not {_shortened(row[name])}"
            )
    if table.newer is not None and here[table.newer] < row[table.newer]:
        raise ImportConflict(
            _described(table, row),
            f"the export is newer: {table.newer} is {here[table.newer]} here, not {row[table.newer]}",
        )
    arrived.moved.add(table.key(row))
    arrived.kept[table.kind] += 1


def _described(table: Table, row: Values) -> str:
    named = " ".join(str(row[name]) for name in table.natural if row[name] is not None)
    return f"{table.kind} {named}".strip()


def _shortened(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"


def _rendering_imported(
    resource: str, texts: Mapping[str, str], render: Render, count: Callable[[str], int]
) -> Script[None]:
    """Set the text of imported groups: the exported text if it matches the observations, otherwise a rendered text."""
    for row in (yield q.groups_named(resource=resource, names=list(texts))):
        group, rendered, tokens = yield from rendering(row.log_pk, row.id, render)
        if not group.text:
            exported = unpack(texts[row.id]) or ""
            if exported and matches_rendering(exported, rendered):
                rendered, tokens = exported, count(exported)
            yield log_queries.set_group_text(group_pk=group.pk, text=pack(rendered), tokens=tokens)


def _lowering_trust(resource: str, groups: Sequence[str]) -> Script[None]:
    """Lower the trust of observations in these groups to that of their best source."""
    for row in (yield q.trust_of_sources(resource=resource, names=list(groups))):
        # An observation without sources was imported from another system. It is trusted like the words of a model.
        allowed = _TRUSTS[int(row.best) - 1] if row.best else "assistant"
        if _TRUSTS.index(row.trust) > _TRUSTS.index(allowed):
            yield q.set_trust(key=row.pk, trust=allowed)
