"""What a store holds after something happened to it, and what must hold for every store at every moment."""

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

from memolog.db.queries import Script, Statement, Step
from memolog.db.sqlite import SqliteEngine
from memolog.store import Store

__all__ = ["Row", "check_sound", "everything", "select"]

Row = tuple[Any, ...]

_TABLES = (
    *("threads", "messages", "unseen", "leases", "usage", "calibrations", "resource_settings"),
    *("tasks", "task_books", "task_labels", "task_links", "task_changes", "task_messages"),
    *("working_memory", "working_memory_versions", "items"),
)
_THREADS = """SELECT t.resource, t.id, t.last_seq, COUNT(m.pk), COUNT(DISTINCT m.seq), COALESCE(MIN(m.seq), 1),
  COALESCE(MAX(m.seq), 0)
FROM threads t LEFT JOIN messages m ON m.thread_pk = t.pk GROUP BY t.resource, t.id, t.last_seq"""
_MESSAGES = """SELECT t.id, m.id, m.continuation, m.seq, m.metadata, m.parts, m.pk
FROM messages m JOIN threads t ON t.pk = m.thread_pk ORDER BY t.id, m.seq"""


def step(text: str) -> Step:
    """Return a query without parameters as a step of a script."""
    return Step(Statement(name="test", text=text, parameters=(), lists=()), {})


async def select(store: Store, *texts: str) -> list[list[Row]]:
    """Run queries on one snapshot; return the rows of each."""

    def script() -> Script[list[list[Row]]]:
        answers: list[list[Row]] = []
        for text in texts:
            rows = yield step(text)
            answers.append([tuple(row) for row in rows])
        return answers

    return await store.engine.read(script)


async def check_sound(store: Store) -> list[Row]:
    """Check what must always hold; return every message's row, of the same snapshot."""
    threads, messages = await select(store, _THREADS, _MESSAGES)
    for _, thread, last_seq, count, distinct, first, last in threads:
        assert (count, distinct, first, last) == (last_seq, last_seq, 1, last_seq), thread
    if isinstance(store.engine, SqliteEngine):
        damage, orphans = await select(store, "PRAGMA integrity_check", "PRAGMA foreign_key_check")
        assert damage == [("ok",)]
        assert orphans == []
    _check_whole_batches(messages)
    return messages


def _check_whole_batches(messages: Sequence[Row]) -> None:
    """Check that a batch which says how large it is was saved as a whole, without a stranger in between."""
    sizes, places = dict[str, int](), dict[str, list[tuple[str, int]]]()
    for thread, _, _, seq, metadata, _, _ in messages:
        told = json.loads(metadata)
        if "batch" in told:
            sizes[told["batch"]] = told["size"]
            places.setdefault(told["batch"], []).append((thread, seq))
    for batch, found in places.items():
        first_thread, first_seq = found[0]
        assert found == [(first_thread, first_seq + number) for number in range(sizes[batch])], batch


async def everything(store: Store) -> dict[str, list[str]]:
    """Return all rows as text, free of internal keys, so that two databases can be compared."""
    (keys,) = await select(store, "SELECT pk, id FROM threads")
    names = dict(keys)
    answers = await select(
        store, *(f"SELECT {columns} FROM {table}" for table, columns in (await _columns(store)).items())
    )
    found: dict[str, list[str]] = {}
    for (table, columns), rows in zip((await _columns(store)).items(), answers, strict=True):
        titles = columns.split(", ")
        at = titles.index("thread_pk") if "thread_pk" in titles else None
        texts = (str([names.get(value) if place == at else value for place, value in enumerate(row)]) for row in rows)
        found[table] = sorted(texts)
    return found


async def _columns(store: Store) -> dict[str, str]:
    """Return the columns of each table that are worth comparing."""
    if isinstance(store.engine, SqliteEngine):
        queries = [f"SELECT name FROM pragma_table_info('{table}')" for table in _TABLES]
    else:
        where = "table_schema = current_schema() AND table_name"
        queries = [f"SELECT column_name FROM information_schema.columns WHERE {where} = '{name}'" for name in _TABLES]
    answers = await select(store, *queries)
    wanted: dict[str, str] = {}
    for table, rows in zip(_TABLES, answers, strict=True):
        names = sorted(name for (name,) in rows if not name.endswith("pk") or name == "thread_pk")
        assert len(names) == len(Counter(names))
        wanted[table] = ", ".join(names)
    return wanted
