"""The job queue on PostgreSQL: the transaction that saves messages adds the job, once for each log, and never fails by it."""

import asyncio
import sys
import uuid
from typing import Any, cast

import asyncpg
import pytest

from crash.children import Deadly, Death
from kit.engines import engines
from log.test_due import CONFIG, SHARED, WORDS, rows, turn, waiting_jobs
from memolog import AssistantMessage, Memory
from memolog.db.queries import Script, Statement
from memolog.errors import ConfigError, StoreBusy
from memolog.testing import FakeClock, ScriptedModel
from pooler import Pooler

__all__ = ["engine_name", "rows"]

engine_name = engines("postgres")


async def test_a_save_that_fails_defers_nothing(address: str, clock: FakeClock, rows: Any) -> None:
    """The job is added by the transaction that saves the answer: both are there, or neither."""
    async with Memory(address, model=ScriptedModel(), config=CONFIG, clock=clock) as memory:
        engine = (await memory.open()).store.engine
        async with memory.thread("red", resource="alice").turn() as one:
            await one.prepare("hello")
            commits: list[str] = []

            def refuse(name: str) -> None:
                commits.append(name)
                if name.endswith(":before"):
                    raise StoreBusy("a test")

            engine.commit_hook = refuse
            await one.record(AssistantMessage(WORDS * 40))
            assert await waiting_jobs(rows) == []
            assert "messages.save:before" in commits
            commits.clear()
            engine.commit_hook = commits.append
            await one.record(AssistantMessage("done"))
            assert await waiting_jobs(rows) == [("alice", "red")]
            assert "jobs.defer:after" not in commits


async def test_a_job_that_is_stopped(address: str, clock: FakeClock, rows: Any) -> None:
    """Stopped before the commit, there is no job; stopped after it, there is one."""
    async with Memory(address, model=ScriptedModel(), config=CONFIG, clock=clock) as memory:
        store = (await memory.open()).store
        for moment, jobs in (("before", []), ("after", [("alice", "red")])):
            store.engine.commit_hook = Deadly(f"jobs.defer:{moment}", 1)
            with pytest.raises(Death):
                await store.jobs.defer("alice", "red", "thread")
            store.engine.commit_hook = None
            assert await waiting_jobs(rows) == jobs


async def test_many_ask_at_once(address: str, clock: FakeClock, rows: Any) -> None:
    """Transactions that add the same job at the same time wait for each other, and none of them fails."""
    async with Memory(address, model=ScriptedModel(), config=SHARED, clock=clock) as memory:
        store = (await memory.open()).store
        seen: list[str] = []
        store.engine.commit_hook = seen.append
        await asyncio.gather(*(store.jobs.defer("alice", f"t{number}", "resource") for number in range(20)))
        assert len(await waiting_jobs(rows)) == 1
        # No transaction had to run again.
        assert seen.count("jobs.defer:before") == 20


async def test_a_waiting_job_is_not_taken_before_the_transaction_that_counts_on_it(
    postgres_server: str, address: str, clock: FakeClock, rows: Any
) -> None:
    """A worker that took it earlier would not see what the transaction saves, and nothing else would say so until a sweep."""
    taken = "select id from procrastinate_fetch_job_v2(null, null) where id is not null"
    async with Memory(address, model=ScriptedModel(), config=CONFIG, clock=clock) as memory:
        store = (await memory.open()).store
        await store.jobs.defer("alice", "red", "thread")
        holder: Any = await cast("Any", asyncpg).connect(postgres_server)
        await holder.execute("select pg_advisory_lock(4711)")
        waiting = Statement("wait", "SELECT pg_advisory_xact_lock(4711)", (), ())

        def saving() -> Script[None]:
            yield from store.jobs.deferring("alice", "red", "thread")
            yield waiting()

        save = asyncio.create_task(store.engine.write(saving, name="a test"))
        while not await holder.fetchval("select count(*) from pg_locks where locktype = 'advisory' and not granted"):  # noqa: ASYNC110 - it happens in the server
            await asyncio.sleep(0.01)
        assert await rows(taken) == []
        await holder.close()
        await save
        assert len(await rows(taken)) == 1
        # Now that a worker has it, the next transaction adds another one.
        await store.jobs.defer("alice", "red", "thread")
        assert len(await rows(taken)) == 1


async def test_the_interface_of_procrastinate(address: str, clock: FakeClock, rows: Any) -> None:
    """Memolog adds rows to this table, and relies on these columns, defaults and indexes and on the trigger that notifies."""
    async with Memory(address, model=ScriptedModel(), config=CONFIG, clock=clock) as memory:
        await memory.open()
        columns = await rows(
            "select column_name, data_type, column_default is not null as has_default, is_nullable from "
            "information_schema.columns where table_schema = current_schema and table_name = 'procrastinate_jobs' "
            "order by ordinal_position"
        )
        assert [tuple(row) for row in columns] == [
            ("id", "bigint", True, "NO"),
            ("queue_name", "character varying", False, "NO"),
            ("task_name", "character varying", False, "NO"),
            ("priority", "integer", True, "NO"),
            ("lock", "text", False, "YES"),
            ("queueing_lock", "text", False, "YES"),
            ("args", "jsonb", True, "NO"),
            ("status", "USER-DEFINED", True, "NO"),
            ("scheduled_at", "timestamp with time zone", False, "YES"),
            ("attempts", "integer", True, "NO"),
            ("abort_requested", "boolean", True, "NO"),
            ("worker_id", "bigint", False, "YES"),
        ]
        (index,) = await rows(
            "select indexdef from pg_indexes where schemaname = current_schema "
            "and indexname = 'procrastinate_jobs_queueing_lock_idx_v1'"
        )
        assert index[0].startswith("CREATE UNIQUE INDEX")
        assert "(queueing_lock) WHERE (status = 'todo'" in index[0]
        (function,) = await rows(
            "select pg_get_function_identity_arguments(oid) from pg_proc "
            "where proname = 'procrastinate_defer_jobs_v1' and pronamespace = current_schema::regnamespace"
        )
        assert "procrastinate_job_to_defer_v1[]" in function[0]
        (trigger,) = await rows(
            "select count(*) from pg_trigger where tgname = 'procrastinate_jobs_notify_queue_job_inserted_v1' "
            "and tgrelid = 'procrastinate_jobs'::regclass"
        )
        assert trigger[0] == 1


async def test_tables_of_another_version(address: str, clock: FakeClock, rows: Any) -> None:
    """They are refused with a sentence that says what to do; without `worker` they are not looked at."""
    async with Memory(address, config=CONFIG, clock=clock) as memory:
        await memory.open()
    await rows("drop index procrastinate_jobs_queueing_lock_idx_v1")
    with pytest.raises(ConfigError, match="of another version: procrastinate_jobs_queueing_lock_idx_v1 is missing"):
        await Memory(address, config=CONFIG, clock=clock).open()
    async with Memory(address, clock=clock) as memory:
        await turn(memory, "red", 20)


async def test_without_procrastinate(address: str, clock: FakeClock, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is needed only to create the tables: processes that find them do without."""
    monkeypatch.setitem(sys.modules, "procrastinate.schema", None)
    with pytest.raises(ConfigError, match=r"memolog\[worker\]"):
        await Memory(address, config=CONFIG, clock=clock).open()
    monkeypatch.undo()
    async with Memory(address, config=CONFIG, clock=clock) as memory:
        await memory.open()
    monkeypatch.setitem(sys.modules, "procrastinate.schema", None)
    async with Memory(address, config=CONFIG, clock=clock) as memory:
        await turn(memory, "red", 400)


async def test_behind_a_pooler(postgres_server: str, clock: FakeClock) -> None:
    """Jobs are added through a transaction pooler as without one."""
    schema = f"p_{uuid.uuid4().hex[:12]}"
    async with Pooler(postgres_server) as pooler:
        address = pooler.url(f"schema={schema}&pooler=transaction")
        async with Memory(address, model=ScriptedModel(), config=CONFIG, clock=clock) as memory:
            for _ in range(4):
                await turn(memory, "red", 100)
            await memory.settled()
        assert pooler.refused == []
    connection: Any = await cast("Any", asyncpg).connect(postgres_server, server_settings={"search_path": schema})
    assert await waiting_jobs(connection.fetch) == [("alice", "red")]
    await connection.close()
