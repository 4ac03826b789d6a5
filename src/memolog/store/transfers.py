"""Transfers: everything that a resource has, out of one database and into another, exactly.

Knows the order of rows, what a row that is there already means, and when an import must refuse. Knows neither files nor formats.
Nothing that is there is changed: what an import brings is new, the same, or refused.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import groupby
from typing import Any, Protocol

from memolog.domain.codec import dumps, loads, pack
from memolog.domain.errors import ImportConflict, ThreadNotFound
from memolog.domain.moments import to_micros
from memolog.domain.thread import Hints
from memolog.store.engine import Engine
from memolog.store.renderings import lowering_trust, rendering_anew
from memolog.store.scope import check_id
from memolog.store.sql import Row, Script, load_queries
from memolog.store.transfer_lines import Values, line_of, values_of
from memolog.store.transfer_tables import BY_KIND, TABLES, Query, Table
from memolog.store.withdrawals import Render

__all__ = ["Arrival", "Arrived", "Lines", "Transfers"]

q = load_queries("transfer")
threads = load_queries("threads")
logs = load_queries("logs")

_PAGE = 400
_GROUPS = 50
_ALL = 1_000_000
_SHOWN = 60
_NAMES = ("a", "b", "c", "d")
# A row that is missing here was removed on purpose where its thread or log has moved on; a message never is.
_NEVER_REMOVED = frozenset({"message"})


class Lines(Protocol):
    """Takes the lines of an export. A lost connection begins again: `start` forgets what came since the last one ended."""

    def start(self) -> None:
        """Begin a resource, or begin it again."""
        ...

    def take(self, line: str) -> None:
        """Take one line, without its end."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrived:
    """What became of some rows, by kind."""

    added: Counter[str] = field(default_factory=Counter[str])
    same: Counter[str] = field(default_factory=Counter[str])
    kept: Counter[str] = field(default_factory=Counter[str])
    """There already, and changed since: what is here holds."""
    left: Counter[str] = field(default_factory=Counter[str])
    """Not here any more, under something that has moved on: stays away."""

    def count(self, other: Arrived) -> None:
        """Add up."""
        for name in ("added", "same", "kept", "left"):
            getattr(self, name).update(getattr(other, name))


@dataclass(slots=True, kw_only=True)
class Arrival:
    """An import under way into one resource: what has been learnt on the way."""

    resource: str
    is_fresh: bool
    """The resource had nothing when it began: no row can be there already."""
    moved: set[tuple[str, Any]] = field(default_factory=set[tuple[str, Any]])
    known: dict[str, Counter[int]] = field(default_factory=dict[str, Counter[int]])
    """The rows that have no key, by what they hold."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Outcome:
    arrived: Arrived
    moved: set[tuple[str, Any]]
    dry_run: bool


class Transfers:
    """Takes one resource out, or puts it in."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def export(self, resource: str, lines: Lines) -> Counter[str]:
        """Write all that a resource has, as of one moment; returns how many lines of each kind."""
        check_id("resource", resource)
        return await self._engine.read(lambda: _exporting(resource, lines), brief=False)

    async def begin(self, resource: str) -> Arrival:
        """Begin, or go on with, an import into a resource."""
        check_id("resource", resource)

        def script() -> Script[bool]:
            rows = yield q.any_of(resource=resource)
            return not rows[0][0]

        return Arrival(resource=resource, is_fresh=await self._engine.read(script))

    async def put(
        self, resource: str, arrival: Arrival, rows: Sequence[tuple[Table, Values]], *, dry_run: bool = False
    ) -> Arrived:
        """Put rows in, all or none of them. What is there already stays; what contradicts it is refused."""
        check_id("resource", resource)
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
        """Give groups that were put in without a text what their lines look like, and let no line claim too much trust.

        `texts` is what came with each; it is taken as it is where it says what the lines say.
        """
        check_id("resource", resource)
        names = list(texts)
        for start in range(0, len(names), _GROUPS):
            some = names[start : start + _GROUPS]

            def script(some: Sequence[str] = some) -> Script[None]:
                yield from lowering_trust(resource, some)
                yield from rendering_anew(resource, {name: texts[name] for name in some}, render, count)

            await self._engine.write(script, name="transfers.render")

    async def date(self, resource: str, thread: str, *, created_at: datetime, updated_at: datetime) -> None:
        """Let a thread be as old as what was said in it; raises ThreadNotFound."""
        check_id("resource", resource)
        check_id("thread", thread)
        times = {"created_at": to_micros(created_at), "updated_at": to_micros(updated_at)}

        def script() -> Script[None]:
            if not (yield threads.lock_thread(resource=resource, thread=thread)):
                raise ThreadNotFound(thread)
            yield q.set_times(resource=resource, thread=thread, **times)

        await self._engine.write(script, name="transfers.date")

    async def hint(self, resource: str, thread: str, hints: Hints) -> None:
        """Let a thread have these hints, unless it has newer ones; raises ThreadNotFound."""
        check_id("resource", resource)
        check_id("thread", thread)

        def script() -> Script[None]:
            rows = yield threads.lock_thread(resource=resource, thread=thread)
            if not rows:
                raise ThreadNotFound(thread)
            yield logs.apply_hints(
                thread_pk=rows[0][0],
                current_task=pack(hints.current_task),
                suggested_response=pack(hints.suggested_response),
                title=pack(hints.title),
                now=None if hints.at is None else to_micros(hints.at),
                last_seq=hints.last_seq,
            )

        await self._engine.write(script, name="transfers.hint")

    async def _without_repetitions(
        self, arrival: Arrival, rows: Sequence[tuple[Table, Values]]
    ) -> tuple[list[tuple[Table, Values]], Counter[str]]:
        """Leave out the rows without a key that are there already, as often as they are."""
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
    """Walks through the rows of one kind."""

    def __init__(self, table: Table, resource: str) -> None:
        self._table, self._resource = table, resource
        self._after: dict[str, int] = dict.fromkeys(_NAMES[: table.keys], -1)
        self._is_over = False

    def next(self) -> Script[list[Values]]:
        """Return some more rows; none at the end."""
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
    # The lines go out while the rows come in: an export takes no more memory than a page.
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
    """Replace the internal keys in what a generation began with by the threads' names ("" is the resource)."""
    kept = [_versions(row) for row in rows]
    keys = sorted({int(key) for versions in kept for key in versions} - {0})
    names = {"0": ""}
    if keys:
        names |= {str(pk): name for pk, name in (yield q.thread_names(resource=resource, keys=keys))}
    for row, versions in zip(rows, kept, strict=True):
        named = {names[key]: version for key, version in versions.items() if key in names}
        row["working_memory"] = dumps(named) if named else None


def _versions(row: Values) -> dict[str, int]:
    return loads(row["working_memory"]) if row["working_memory"] else {}


def _unnaming(resource: str, rows: Sequence[Values]) -> Script[list[Values]]:
    """Replace names by the keys that the threads have here."""
    kept = [_versions(row) for row in rows]
    names = sorted({name for versions in kept for name in versions} - {""})
    keys = {"": 0}
    if names:
        keys |= {name: pk for name, pk in (yield q.thread_keys(resource=resource, threads=names))}  # noqa: C416
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
    """Return the rows that are not there yet; the others are counted, or refused."""
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
    """Compare a row with the one that is here."""
    if table.kind == "group" and not row["text"]:
        # Its text follows from its lines: see `render`.
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
