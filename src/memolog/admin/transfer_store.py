"""Export all rows of a resource, and import them into another database exactly.

An import changes no stored row: each imported row is new, the same as a stored one, or refused. Imported groups are rendered
again from their lines, and a line may not have more trust than its sources.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import groupby
from typing import Any, Final, Protocol

from memolog.admin.doctor import matches_rendering
from memolog.admin.export_tables import BY_KIND, TABLES, Query, Table, Values, line_of, values_of
from memolog.core.clock import to_micros
from memolog.core.exact_json import dumps, loads, pack, unpack
from memolog.core.thread import Hints
from memolog.db.engine import Engine
from memolog.db.queries import Row, Script, load_queries
from memolog.db.scope import check_ids, chunks, taking_thread
from memolog.errors import ImportConflict
from memolog.log.store import hint_values
from memolog.log.withdrawals import Render, rendering

q = load_queries("admin/transfer")
log_queries = load_queries("log/logs")
_PAGE = 400
_GROUPS = 50
_TRUSTS: Final = ("tool", "assistant", "user")
_ALL = 1_000_000
_SHOWN = 60
_KEY_NAMES = ("a", "b", "c", "d")
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
                yield from rendering_imported(resource, {name: texts[name] for name in some}, render, count)

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
            yield log_queries.apply_hints(**hint_values(hints, thread_pk, hints.last_seq))

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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Outcome:
    arrived: Arrived
    moved: set[tuple[str, Any]]
    dry_run: bool


class _Pages:
    """Reads the rows of one kind in pages."""

    def __init__(self, table: Table, resource: str) -> None:
        self._table, self._resource = table, resource
        self._after: dict[str, int] = dict.fromkeys(_KEY_NAMES[: table.keys], -1)
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
            self._after = dict(zip(_KEY_NAMES, rows[-1][: table.keys], strict=False))
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
                yield from _naming_threads(resource, rows)
            for values in rows:
                lines.take(line_of(table, values))
            written[table.kind] += len(rows)
    return written


def _naming_threads(resource: str, rows: Sequence[Values]) -> Script[None]:
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


def _keying_threads(resource: str, rows: Sequence[Values]) -> Script[list[Values]]:
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


def _putting(arrival: Arrival, rows: Sequence[tuple[Table, Values]], *, dry_run: bool) -> Script[_Outcome]:
    outcome = _Outcome(arrived=Arrived(), moved=set(), dry_run=dry_run)
    for kind, some in groupby(rows, key=lambda row: row[0].kind):
        table, values = BY_KIND[kind], [row for _, row in some]
        new = values
        if not arrival.is_fresh and table.one is not None:
            new = yield from _selecting_new(arrival, table, table.one, values, outcome)
        outcome.arrived.added[kind] += len(new)
        if new and not dry_run:
            yield from _adding(arrival.resource, table, new)
    return outcome


def _adding(resource: str, table: Table, rows: Sequence[Values]) -> Script[None]:
    if table.kind == "generation":
        rows = yield from _keying_threads(resource, rows)
    yield table.add.many([{**row, "resource": resource} for row in rows])
    if table.kind == "message":
        for thread, some in groupby(rows, key=lambda row: row["thread"]):
            numbers = [row["seq"] for row in some]
            yield q.index_again(resource=resource, thread=thread, first=min(numbers), last=max(numbers))


def _selecting_new(
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
                yield from _naming_threads(arrival.resource, [here])
            yield from _comparing(arrival, table, row, here, outcome)
        elif not is_moved and key not in seen:
            new.append(row)
            seen.add(key)
        elif table.kind in _NEVER_REMOVED:
            raise ImportConflict(
                _described(table, row), "it is not here, and its thread has been used since it was imported in part"
            )
        else:
            outcome.arrived.left[table.kind] += 1
    return new


def _comparing(arrival: Arrival, table: Table, row: Values, here: Values, outcome: _Outcome) -> Script[None]:
    """Compare a row with the stored one."""
    if table.kind == "group" and not row["text"]:
        # Its text is rendered from its lines: see `render`.
        row = {**row, "text": here["text"], "tokens": here["tokens"]}
    if row == here:
        outcome.arrived.same[table.kind] += 1
        return
    for name in _differing(table, row, here):
        raise ImportConflict(
            _described(table, row), f"its {name} is {_shortened(here[name])} here, not {_shortened(row[name])}"
        )
    if table.newer is not None and here[table.newer] < row[table.newer]:
        raise ImportConflict(
            _described(table, row),
            f"the export is newer: {table.newer} is {here[table.newer]} here, not {row[table.newer]}",
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


def _described(table: Table, row: Values) -> str:
    named = " ".join(str(row[name]) for name in table.natural if row[name] is not None)
    return f"{table.kind} {named}".strip()


def _shortened(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"


def rendering_imported(
    resource: str, texts: Mapping[str, str], render: Render, count: Callable[[str], int]
) -> Script[None]:
    """Store a text for imported groups: the one that came with them if it matches their lines, or else a rendered one."""
    for row in (yield q.groups_named(resource=resource, names=list(texts))):
        group, rendered, tokens = yield from rendering(row.log_pk, row.id, render)
        if not group.text:
            brought = unpack(texts[row.id]) or ""
            if brought and matches_rendering(brought, rendered):
                rendered, tokens = brought, count(brought)
            yield log_queries.set_group_text(group_pk=group.pk, text=pack(rendered), tokens=tokens)


def lowering_trust(resource: str, groups: Sequence[str]) -> Script[int]:
    """Lower the trust of lines in these groups to that of their best source; returns how many lines changed."""
    lowered = 0
    for row in (yield q.trust_of_sources(resource=resource, names=list(groups))):
        # A line without a source was imported: it counts as a model's word.
        allowed = _TRUSTS[int(row.best) - 1] if row.best else "assistant"
        if _TRUSTS.index(row.trust) > _TRUSTS.index(allowed):
            lowered += 1
            yield q.set_trust(key=row.pk, trust=allowed)
    return lowered
