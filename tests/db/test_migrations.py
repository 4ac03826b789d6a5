"""Migrations: once, all or nothing, forward only, with a copy before, and the same schema on both engines."""

import asyncio
import contextlib
import re
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from crash.survivors import Row, check_sound, select
from kit.engines import engines, store_at
from memolog.core.message import UserMessage
from memolog.db import migrations as migrate
from memolog.db.migrations import Migration
from memolog.db.sqlite import SqliteEngine
from memolog.db.sqlite_files import snapshot_path
from memolog.errors import SchemaTooNew, StoreCorrupt, StoreReadOnly
from memolog.store import Store

_RECORD = "SELECT version, name, checksum FROM memolog_migrations ORDER BY version"

Pretend = Callable[..., None]
engine_name = engines("sqlite", "postgres")


@pytest.fixture
def pretend(monkeypatch: pytest.MonkeyPatch, engine_name: str) -> Pretend:
    """Return a function that makes the code believe that it has only the first migrations, or further ones."""
    real = migrate.migrations(engine_name)

    def believe(*more: Migration, first: int | None = None) -> None:
        def some(engine: str) -> tuple[Migration, ...]:
            assert engine == engine_name
            return (*real[:first], *more)

        monkeypatch.setattr(migrate, "migrations", some)

    return believe


def _new(text: str, version: int = 9999) -> Migration:
    return Migration(version=version, name="new", text=text, checksum=f"of {version}")


_GOOD = _new("CREATE TABLE added (x BIGINT);\nALTER TABLE threads ADD COLUMN extra TEXT;\n")
_BAD = _new("CREATE TABLE added (x BIGINT);\nDROP TABLE usage;\nINSERT INTO no_such_table VALUES (1);\n")


async def _fill(address: object) -> None:
    async with await store_at(address) as store:
        await store.messages.save("r", "t", [UserMessage(f"{number}") for number in range(7)])


async def _fill_as_first_release(address: object) -> None:
    """Save the same with the columns of the first migration, because this release writes columns that came later."""
    async with await store_at(address) as store:
        await _run(
            store, "INSERT INTO threads (resource, id, created_at, updated_at, last_seq) VALUES ('r', 't', 1, 1, 7)"
        )
        for number in range(7):
            row = f'pk, {number + 1}, \'m{number}\', \'user\', 1, 1, \'[{{"type":"text","text":"{number}"}}]\''
            into = "messages (thread_pk, seq, id, role, tokens, created_at, parts)"
            await _run(store, f"INSERT INTO {into} SELECT {row} FROM threads")


async def _texts(store: Store) -> list[str]:
    return [message.text for message in await store.messages.after("r", "t")]


async def _run(store: Store, text: str) -> None:
    """Change the database behind the store's back."""
    engine: Any = store.engine
    if isinstance(engine, SqliteEngine):
        engine._writer.execute(text)
    else:
        async with engine._connection() as connection:
            await connection.execute(text)


# ---------------------------------------------------------------- the schema as text


async def _schema(store: Store) -> list[str]:
    """Return everything that the database says about its schema, as sorted lines."""
    if isinstance(store.engine, SqliteEngine):
        answers = await select(store, "SELECT type, name, tbl_name, sql FROM sqlite_master")
    else:
        here = "= current_schema()"
        answers = await select(
            store,
            "SELECT table_name, column_name, ordinal_position, data_type, is_nullable, column_default, is_identity"
            f" FROM information_schema.columns WHERE table_schema {here}",
            f"SELECT tablename, replace(indexdef, schemaname || '.', '') FROM pg_indexes WHERE schemaname {here}",
            "SELECT conrelid::regclass::text, contype::text, pg_get_constraintdef(oid) FROM pg_constraint"
            f" WHERE connamespace::regnamespace::text {here}",
            "SELECT tgrelid::regclass::text, replace(pg_get_triggerdef(t.oid), current_schema() || '.', '')"
            f" FROM pg_trigger t JOIN pg_class c ON c.oid = tgrelid"
            f" WHERE NOT tgisinternal AND relnamespace::regnamespace::text {here}",
            "SELECT proname::text, prosrc FROM pg_proc WHERE pronamespace::regnamespace::text" + here,
        )
    return sorted(str(row) for rows in answers for row in rows)


async def test_one_at_a_time_equals_all_at_once(address: str, engine_name: str, pretend: Pretend) -> None:
    """A database that grew release by release is the same as one that was made today."""
    steps = len(migrate.migrations(engine_name))
    assert steps >= 2
    grown, record = list[str](), list[Row]()
    for number in range(1, steps + 1):
        pretend(first=number)
        async with await store_at(address) as store:
            (record,) = await select(store, _RECORD)
            grown = await _schema(store)
        assert len(record) == number
    async with await store_at(f"{address}_new") as store:
        made = await _schema(store)
        (fresh_record,) = await select(store, _RECORD)
    assert grown == made
    assert record == fresh_record
    assert len(made) > 30


def _constraint_error(engine_name: str) -> type[Exception]:
    return sqlite3.IntegrityError if engine_name == "sqlite" else asyncpg.CheckViolationError


async def test_an_old_database_opens(address: str, engine_name: str, pretend: Pretend) -> None:
    """What was saved under the first migration alone is there under all of them, guards included."""
    pretend(first=1)
    await _fill_as_first_release(address)
    pretend()
    async with await store_at(address) as store:
        assert await _texts(store) == [str(number) for number in range(7)]
        await check_sound(store)
        (record,) = await select(store, _RECORD)
        assert [row[0] for row in record] == [one.version for one in migrate.migrations(engine_name)]
        with pytest.raises(_constraint_error(engine_name), match="messages never change"):
            await _run(store, "UPDATE messages SET role = 'tool'")
        await store.messages.save("r", "t", UserMessage("new"))
        assert len(await _texts(store)) == 8


async def test_messages_are_moved_with_all_that_refers_to_them(
    address: str, engine_name: str, pretend: Pretend
) -> None:
    """Migration 18 makes the table of messages again: every value, every reference, every check and every guard stays."""
    names = (
        "pk, thread_pk, seq, id, continuation, role, tokens, created_at, state, own, level, pruned, task_pk, compaction_pk, turn,"
        " zone, speaker, pairs, metadata, parts, injection, search, file_tokens, reported_file_tokens"
    )
    rows = (f"SELECT {names} FROM messages ORDER BY pk", "SELECT task_pk, thread_pk, seq, kind FROM task_messages")
    pretend(first=17)
    await _fill(address)
    async with await store_at(address) as store:
        await _run(
            store,
            "INSERT INTO tasks (resource, id, handle, created_at, updated_at, title) VALUES ('r', 'k', 'k', 1, 1, 'k')",
        )
        await _run(
            store,
            "INSERT INTO task_messages SELECT k.pk, m.thread_pk, 3, 'output' FROM tasks k, messages m WHERE m.seq = 3",
        )
        await _run(
            store,
            "UPDATE messages SET state = 'withdrawn', search = 'x', task_pk = (SELECT pk FROM tasks) WHERE seq = 2",
        )
        await _run(store, "UPDATE messages SET level = 1, injection = 'y', turn = 'z', file_tokens = 5 WHERE seq = 4")
        await _run(store, "DELETE FROM messages WHERE seq = 7")
        await _run(store, "UPDATE threads SET last_seq = 6")
        before = await select(store, *rows)
        assert [len(some) for some in before] == [6, 1]
    pretend()
    async with await store_at(address) as store:
        assert await select(store, *rows) == before
        await check_sound(store)
        await store.messages.save("r", "t", UserMessage("new"))
        for wrong in ("role = 'tool'", "state = 'gone'", "parts = 'x'"):
            with pytest.raises(_constraint_error(engine_name)):
                await _run(store, f"UPDATE messages SET {wrong}")
        with pytest.raises(_constraint_error(engine_name), match="go back"):
            await _run(store, "UPDATE threads SET last_seq = 1")
        if engine_name == "sqlite":
            assert await select(store, "PRAGMA foreign_key_check") == [[]]
            into = "messages (thread_pk, seq, id, role, tokens, created_at, parts)"
            plan = await select(store, f"EXPLAIN INSERT INTO {into} VALUES (1, 9, 'a', 'user', 1, 1, '')")
            assert "OpenEphemeral" not in str(plan)
        await _run(store, "DELETE FROM messages WHERE seq = 3")
        assert (await select(store, rows[1])) == [[]]


# ---------------------------------------------------------------- once

_STARTER = """
import asyncio, sys
from memolog.core.message import UserMessage
from memolog.core.clock import SystemClock, system_chance
from memolog.store import open_store
import memolog.db.postgres

async def main():
    store = await open_store(sys.argv[1], clock=SystemClock(), chance=system_chance, weigh=lambda message: 1)
    async with store:
        await store.messages.save("r", "t", UserMessage(sys.argv[2]))

print("ready", flush=True)
sys.stdin.readline()
asyncio.run(main())
"""


@pytest.mark.parametrize("processes", [2, 8])
async def test_processes_that_start_at_once(address: str, engine_name: str, processes: int) -> None:
    """However many start at once on a database that is not there yet, each migration is applied once and all get to work."""
    await asyncio.to_thread(_start_at_once, address, processes)
    async with await store_at(address) as store:
        (record,) = await select(store, _RECORD)
        assert [row[0] for row in record] == [one.version for one in migrate.migrations(engine_name)]
        assert sorted(await _texts(store)) == [str(number) for number in range(processes)]
        await check_sound(store)
    if engine_name == "sqlite":
        assert not list(Path(address).parent.glob("*.before-migration*"))


def _start_at_once(address: str, processes: int) -> None:
    with contextlib.ExitStack() as stack:
        started: list[subprocess.Popen[str]] = []
        for number in range(processes):
            command = [sys.executable, "-c", _STARTER, address, str(number)]
            pipe = subprocess.PIPE
            process = stack.enter_context(subprocess.Popen(command, text=True, stdin=pipe, stdout=pipe, stderr=pipe))
            stack.callback(process.kill)
            started.append(process)
        for process in started:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        for process in started:
            print("go", file=process.stdin, flush=True)
        for process in started:
            _, errors = process.communicate(timeout=60)
            assert (process.returncode, errors) == (0, "")


# ---------------------------------------------------------------- refused


@pytest.mark.parametrize("read_only", [False, True])
async def test_a_newer_schema_is_refused(address: str, read_only: bool) -> None:
    """A database of a newer release is left alone; the error names both versions and says to upgrade."""
    async with await store_at(address) as store:
        await _run(store, "INSERT INTO memolog_migrations VALUES (9999, 'later', 'x', 1)")
    with pytest.raises(SchemaTooNew, match=r"version 9999.*Upgrade") as refused:
        await store_at(address, read_only=read_only)
    assert not refused.value.retryable


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE memolog_migrations SET checksum = 'another' WHERE version = 1",
        "UPDATE memolog_migrations SET version = 0 WHERE version = 1",
    ],
    ids=["other text", "unknown version"],
)
async def test_another_history_is_refused(address: str, change: str) -> None:
    """A record that does not fit this release's migrations is refused instead of being built upon."""
    async with await store_at(address) as store:
        await _run(store, change)
    with pytest.raises(StoreCorrupt, match=r"Migration [01] of this database"):
        await store_at(address)


# ---------------------------------------------------------------- a further one


async def test_a_further_migration(address: str, engine_name: str, pretend: Pretend) -> None:
    """It is applied to a database in use, with its record; a SQLite file is copied first, and the copy opens as it was."""
    await _fill(address)
    last = migrate.migrations(engine_name)[-1].version
    pretend(_GOOD)
    for _ in range(2):
        async with await store_at(address) as store:
            record, added = await select(store, _RECORD, "SELECT * FROM added")
            assert record[-1] == (9999, "new", "of 9999")
            assert added == []
            assert len(await _texts(store)) == 7
    if engine_name == "sqlite":
        pretend()
        async with await store_at(snapshot_path(address, last)) as copy:
            assert len(await _texts(copy)) == 7
            await check_sound(copy)


async def test_a_migration_that_fails_half_way(address: str, engine_name: str, pretend: Pretend) -> None:
    """Everything of it is taken back: schema, data and record are as before, and the code of before opens it."""
    await _fill(address)
    async with await store_at(address) as store:
        before, record = await _schema(store), await select(store, _RECORD)
    pretend(_GOOD, replace(_BAD, version=10_000, text=_BAD.text.replace("added", "added_too")))
    for _ in range(2):
        with pytest.raises(StoreCorrupt, match="no_such_table"):
            await store_at(address)
    pretend()
    async with await store_at(address) as store:
        assert await _schema(store) == before
        assert await select(store, _RECORD) == record
        assert len(await _texts(store)) == 7
        await store.messages.save("r", "t", UserMessage("goes on"))
        await check_sound(store)
    if engine_name == "sqlite":
        last = migrate.migrations("sqlite")[-1].version
        async with await store_at(snapshot_path(address, last)) as copy:
            assert len(await _texts(copy)) == 7
    pretend(_GOOD)
    async with await store_at(address) as store:
        assert len(await _texts(store)) == 8


@pytest.mark.parametrize("engine_name", ["sqlite"], indirect=True)
async def test_half_a_copy_is_not_in_the_way(address: str, pretend: Pretend) -> None:
    """What a crash left of a copy, with a journal or not, is replaced, and none of it stays."""
    await _fill(address)
    last = migrate.migrations("sqlite")[-1].version
    target = snapshot_path(address, last)
    partial = target.with_name(f"{target.name}.partial")
    partial.write_bytes(b"SQLite format 3\0" + b"half a copy" * 1_000)
    pretend(_GOOD)
    async with await store_at(address) as store:
        assert len(await _texts(store)) == 7
    assert not partial.exists()
    with contextlib.closing(sqlite3.connect(target)) as copy:
        assert copy.execute("SELECT COUNT(*) FROM messages").fetchone() == (7,)
        assert copy.execute("PRAGMA integrity_check").fetchone() == ("ok",)


@pytest.mark.parametrize("engine_name", ["sqlite"], indirect=True)
async def test_a_read_only_store_is_not_migrated(address: str, pretend: Pretend) -> None:
    """Opened for reading only, a file that lacks a migration is refused and neither changed nor copied."""
    await _fill(address)
    folder = Path(address).parent
    before = _contents(folder)
    pretend(_GOOD)
    with pytest.raises(StoreReadOnly, match="up to date"):
        await store_at(address, read_only=True)
    after = _contents(folder)
    assert after["memolog.db"] == before["memolog.db"]
    assert after.keys() - before.keys() <= {"memolog.db-shm", "memolog.db-wal"}


def _contents(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


async def test_a_migration_while_another_store_is_open(address: str, pretend: Pretend) -> None:
    """A store that was opened before goes on after another process has added to the schema."""
    await _fill(address)
    async with await store_at(address) as old:
        assert len(await _texts(old)) == 7
        assert (await old.threads.get("r", "t")).last_seq == 7
        pretend(_GOOD)
        async with await store_at(address) as new:
            await new.messages.save("r", "t", UserMessage("new"))
        await old.messages.save("r", "t", UserMessage("old"))
        assert (await old.threads.get("r", "t")).last_seq == 9
        assert (await _texts(old))[-2:] == ["new", "old"]


# ---------------------------------------------------------------- both engines


@pytest.fixture
async def both(tmp_path: Path, postgres_url: str) -> Any:
    """Return an open store on each engine."""
    async with await store_at(tmp_path / "memolog.db") as one, await store_at(postgres_url) as other:
        yield one, other


async def _one(store: Store, text: str) -> list[Row]:
    (rows,) = await select(store, text)
    return rows


def _gather(rows: Sequence[Row]) -> dict[str, list[tuple[Any, ...]]]:
    """Return the rows by their first column, which names the table."""
    found: dict[str, list[tuple[Any, ...]]] = {}
    for table, *rest in rows:
        found.setdefault(table, []).append(tuple(rest))
    return {table: sorted(values, key=str) for table, values in found.items()}


_SQLITE_TABLES = (
    "FROM pragma_table_list l {} WHERE l.schema = 'main' AND l.type = 'table' AND l.name NOT LIKE 'sqlite_%'"
)
# What both engines say about their schema: the query for SQLite, and that for PostgreSQL.
_SAME = {
    "the columns, and which may be empty": (
        'SELECT l.name, c.name, c."notnull" = 1 OR c.pk > 0 '
        + _SQLITE_TABLES.format("JOIN pragma_table_info(l.name) c"),
        (
            "SELECT table_name::text, column_name::text, CASE is_nullable WHEN 'NO' THEN 1 ELSE 0 END"
            " FROM information_schema.columns WHERE table_schema = current_schema()"
            " AND table_name IN (SELECT tablename FROM pg_tables WHERE schemaname = current_schema())"
        ),
    ),
    "the columns that are unique together, under a condition or not": (
        "SELECT l.name, (SELECT group_concat(COALESCE(c.name, '()'), ',') FROM pragma_index_info(i.name) c), i.partial "
        + _SQLITE_TABLES.format("JOIN pragma_index_list(l.name) i")
        # An INTEGER PRIMARY KEY is the table itself and needs no index.
        + ' AND i."unique" = 1 UNION ALL SELECT l.name, c.name, 0 '
        + _SQLITE_TABLES.format("JOIN pragma_table_info(l.name) c")
        + " AND c.pk = 1 AND NOT EXISTS (SELECT 1 FROM pragma_index_list(l.name) i WHERE i.origin = 'pk')",
        (
            "SELECT c.relname::text, (SELECT string_agg(COALESCE(a.attname::text, '()'), ',' ORDER BY k.place)"
            " FROM unnest(i.indkey) WITH ORDINALITY AS k (number, place)"
            " LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = k.number AND k.number > 0),"
            " CASE WHEN i.indpred IS NULL THEN 0 ELSE 1 END"
            " FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid"
            " WHERE i.indisunique AND c.relkind = 'r' AND c.relnamespace = current_schema()::regnamespace"
        ),
    ),
    "the foreign keys, and what happens when a row is deleted": (
        'SELECT l.name, f."table", f.on_delete '
        + _SQLITE_TABLES.format("JOIN pragma_foreign_key_list(l.name) f")
        + " AND f.seq = 0",
        (
            "SELECT conrelid::regclass::text, confrelid::regclass::text,"
            " CASE confdeltype WHEN 'c' THEN 'CASCADE' WHEN 'n' THEN 'SET NULL' ELSE 'NO ACTION' END"
            " FROM pg_constraint WHERE contype = 'f' AND connamespace = current_schema()::regnamespace"
        ),
    ),
}


@pytest.mark.parametrize("what", _SAME)
async def test_both_engines_have_the_same_schema(both: tuple[Store, Store], what: str) -> None:
    """The same tables with the same columns, keys and references."""
    ours, theirs = [_gather(await _one(store, text)) for store, text in zip(both, _SAME[what], strict=True)]
    assert ours == theirs
    assert sum(map(len, ours.values())) > 20


async def test_both_engines_check_as_much(both: tuple[Store, Store]) -> None:
    """Each table has as many checks, and as many triggers, on one engine as on the other."""
    sqlite, postgres = both
    tables = await _one(sqlite, "SELECT name, sql FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
    checks = {table: len(re.findall(r"\bCHECK \(", sql)) for table, sql in tables}
    theirs = await _one(
        postgres,
        "SELECT conrelid::regclass::text FROM pg_constraint"
        " WHERE contype = 'c' AND connamespace = current_schema()::regnamespace",
    )
    assert {table: count for table, count in checks.items() if count} == Counter(table for (table,) in theirs)
    triggers = await _one(sqlite, "SELECT tbl_name, name FROM sqlite_master WHERE type = 'trigger'")
    their_triggers = await _one(
        postgres,
        "SELECT tgrelid::regclass::text, tgname::text FROM pg_trigger t JOIN pg_class c ON c.oid = tgrelid"
        " WHERE NOT tgisinternal AND c.relnamespace = current_schema()::regnamespace",
    )
    assert _gather(triggers) == _gather(their_triggers)
