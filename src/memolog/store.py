"""Open the store at an address, on SQLite or PostgreSQL. A `Store` reads and writes all data of Memolog."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final, Self

from memolog.admin.doctor import Doctor
from memolog.admin.edit import LineEdits
from memolog.admin.forget import Forgetting
from memolog.admin.transfer_store import Transfers
from memolog.compaction.store import Compactions
from memolog.core.cache import empty_caches
from memolog.core.clock import Clock, IdMaker, to_micros
from memolog.core.config import Config
from memolog.core.exact_json import JsonObject, JsonValue, dumps, loads
from memolog.core.message import NewMessage
from memolog.core.model_names import canonical_model
from memolog.core.observation import Scope
from memolog.core.run import Calibration, Usage
from memolog.db.engine import Calls, Engine, reads, writes
from memolog.db.migrations import migrate_sqlite, pending_in_file
from memolog.db.postgres_address import PostgresOptions, has_password, safe_url
from memolog.db.queries import Script, load_queries
from memolog.db.scope import check_ids
from memolog.db.sqlite import SqliteEngine
from memolog.errors import ConfigError, NotADatabase
from memolog.items.store import StoredItems
from memolog.log.due import Due, Jobs
from memolog.log.heartbeat import Leases, Processes
from memolog.log.inspection import Inspection, Survey
from memolog.log.journal import Journal
from memolog.log.measures import Measuring
from memolog.log.runs import Extracts, Runs
from memolog.log.snapshot import MemoryCache, OtherLimits, Snapshot, TailLimit, reading_snapshot
from memolog.log.store import Logs
from memolog.log.usage import Ledger, Lesson, calibrating, check_usage, summing_spent, usage_step
from memolog.log.withdrawals import Render, Withdrawals, render_again
from memolog.messages.branches import Branches
from memolog.messages.clone import Copies
from memolog.messages.store import Messages, Saved, Then, Weigh, noting_unseen, reporting_files
from memolog.messages.threads import Threads, listing_resources
from memolog.messages.tombstones import Tombstones
from memolog.search.index import Indexing
from memolog.search.recall_store import Recall
from memolog.search.semantic import Semantic
from memolog.search.store import Searching
from memolog.tasks.dependencies import TaskReady
from memolog.text.redaction import redactor_for, without_secrets
from memolog.text.tokens import HeuristicCounter
from memolog.working_memory.store import WorkingMemories

q = load_queries("log/settings")

_SQLITE_PREFIX = "sqlite://"
_POSTGRES_PREFIXES = ("postgresql://", "postgres://")
_RENDER: Final = partial(render_again, HeuristicCounter().count)


class ResourceSettings(Calls):
    """Reads and stores the settings of a resource."""

    @reads
    def get(self, resource: str) -> Script[JsonObject]:
        """Return the stored settings by dotted name."""
        check_ids(resource=resource)
        return (yield from _reading(resource))

    @writes("settings.put")
    def put(self, resource: str, settings: Mapping[str, JsonValue]) -> Script[JsonObject]:
        """Store settings. Return the old values of the settings that were stored with another value."""
        check_ids(resource=resource)
        before = yield from _reading(resource)
        for name, value in sorted(settings.items()):
            if name not in before or before[name] != value:
                yield q.put_setting(resource=resource, name=name, value=dumps(value))
        return {name: before[name] for name in settings if name in before and before[name] != settings[name]}


def _reading(resource: str) -> Script[JsonObject]:
    rows = yield q.settings_of(resource=resource)
    return {row.name: loads(row.value) for row in rows}


class Store:
    """Reads and writes all stored data. Each attribute is for one kind of data. Close the store, or use it with `async with`."""

    def __init__(
        self,
        engine: Engine,
        *,
        clock: Clock,
        new_id: Callable[[], str],
        weigh: Weigh,
        render: Render,
        config: Config,
    ) -> None:
        self.engine = engine
        self.clock = clock
        self.new_id = new_id
        self.config = config
        self.render = render
        # With `redact_raw`, secrets are removed from messages and from other texts before they are stored.
        redactor = redactor_for(config)
        clean = partial(without_secrets, redactor=redactor) if config.redact_raw else None
        clean_value = redactor.value if config.redact_raw else None
        self.threads = Threads(engine, clock, new_id)
        self.messages = Messages(engine, clock, new_id, weigh, config.max_message_bytes, clean)
        self.leases = Leases(engine, clock)
        self.processes = Processes(engine, clock)
        self.ledger = Ledger(engine, clock)
        self.cache = MemoryCache()
        self.logs = Logs(engine, clock, new_id, self.cache)
        self.runs = Runs(engine)
        self.due, self.jobs = Due(engine), Jobs(engine)
        self.measuring = Measuring(engine)
        self.inspection = Inspection(engine)
        self.survey = Survey(engine)
        self.journal = Journal(engine)
        of_logs = (engine, clock, new_id, render)
        self.withdrawals = Withdrawals(*of_logs)
        self.branches = Branches(*of_logs, self.messages)
        self.copies = Copies(*of_logs)
        self.tombstones = Tombstones(engine)
        self.task_ready = TaskReady(engine)
        self.working_memory = WorkingMemories(engine, clock, clean_value)
        self.items = StoredItems(engine, clock, config.max_message_bytes, clean_value)
        self.recall = Recall(engine)
        self.compactions = Compactions(engine, new_id)
        self.extracts = Extracts(engine)
        self.settings = ResourceSettings(engine)
        self.indexing = Indexing(engine)
        self.searching = Searching(engine)
        self.semantic: Semantic | None = None
        """Searches by meaning. None without an embedder."""
        self.forgetting = Forgetting(*of_logs)
        self.line_edits = LineEdits(*of_logs)
        self.transfers = Transfers(engine)
        self.doctor = Doctor(engine, clock)

    async def save_and_snapshot(
        self,
        resource: str,
        thread: str,
        messages: Sequence[NewMessage],
        *,
        turn: str,
        owner: str,
        scope: Scope,
        newest: int | None = None,
        others: bool | OtherLimits = True,
        limit: TailLimit | None = None,
        then: Then | None = None,
    ) -> tuple[Saved, Snapshot]:
        """Save messages of a running turn. Return the saved messages, and a snapshot that was read after saving.

        `then` returns further steps of the transaction that saves.
        """
        check_ids(owner=owner)
        ready, now, is_long = await self.messages.ready_soon(resource, thread, messages, turn)

        def saving() -> Script[Saved]:
            saved = yield from self.messages.saving(resource, thread, ready, now)
            yield from noting_unseen(resource, thread, saved, turn=turn, owner=owner, now=now)
            if then is not None:
                yield from then(saved)
            return saved

        saved, snapshot = await self.engine.write_and_read(
            saving,
            lambda: reading_snapshot(resource, thread, scope, self.cache, newest=newest, others=others, limit=limit),
            name="store.save_and_snapshot",
            brief=not is_long,
        )
        if not snapshot.is_complete:
            return saved, await self.logs.snapshot(resource, thread, scope, newest=newest, others=others, limit=limit)
        snapshot.keep(self.cache)
        return saved, snapshot

    async def save_and_book(
        self,
        resource: str,
        thread: str,
        messages: Sequence[NewMessage],
        *,
        turn: str,
        owner: str,
        usage: Usage,
        lesson: Lesson | None = None,
        then: Then | None = None,
    ) -> Saved:
        """Save messages of a running turn and the usage of its request in one transaction, and calibrate with `lesson`.

        `then` returns further steps of the transaction.
        """
        check_ids(owner=owner)
        check_usage(usage)
        ready, now, is_long = await self.messages.ready_soon(resource, thread, messages, turn)
        at = now if usage.at is None else to_micros(usage.at)

        def script() -> Script[tuple[Saved, Calibration | None]]:
            saved = yield from self.messages.saving(resource, thread, ready, now)
            yield from noting_unseen(resource, thread, saved, turn=turn, owner=owner, now=now)
            yield usage_step(resource, usage, usage.run, at)
            learnt: Calibration | None = None
            if lesson is not None:
                yield from reporting_files(resource, thread, lesson.files)
                learnt = yield from calibrating(resource, lesson.model, lesson.learn, thread=lesson.thread)
            if then is not None:
                yield from then(saved)
            return saved, learnt

        saved, new = await self.engine.write(script, name="store.save_and_book", brief=not is_long)
        if lesson is not None and new is not None:
            self.cache.factors.put((resource, canonical_model(lesson.model)), new.factor)
        return saved

    async def learn(self, resource: str, thread: str, lesson: Lesson) -> None:
        """Calibrate a model, and store the tokens of large files that a provider reported."""
        if lesson.files:
            await self.messages.report_files(resource, thread, lesson.files)
        new = await self.ledger.calibrate(resource, lesson.model, lesson.learn, thread=lesson.thread)
        self.cache.factors.put((resource, canonical_model(lesson.model)), new.factor)

    async def spent(self) -> float:
        """Return the cost of all requests but those of turns so far in dollars, for all resources together."""
        return await self.engine.read(summing_spent)

    async def resources(self, *, also_forgotten: bool = False) -> tuple[str, ...]:
        """Return the ids of all resources, for administration of the database.

        `also_forgotten` includes forgotten resources, of which only tombstones are stored.
        """
        return await self.engine.read(lambda: listing_resources(also_forgotten=also_forgotten), brief=False)

    async def close(self) -> None:
        """Wait for running calls and close the database. A second call does nothing."""
        try:
            await self.engine.close()
        finally:
            self.empty_caches()

    def empty_caches(self) -> None:
        """Drop all cached messages, logs and words. They are read again when they are needed."""
        self.cache.clear()
        empty_caches()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


async def open_store(
    address: str,
    *,
    clock: Clock,
    chance: Callable[[int], int],
    weigh: Weigh,
    render: Render = _RENDER,
    config: Config | None = None,
) -> Store:
    """Open the store at an address and migrate its schema.

    `memolog.db`, `sqlite:///path` and `:memory:` are SQLite, `postgresql://…` is PostgreSQL. `chance` returns the requested
    number of random bits. `weigh` counts the tokens of a message. `render` makes the text of a group again after a change.
    """
    config = config or Config()
    engine = await _open_engine(address, config, to_micros(clock.now()))
    new_id = IdMaker(clock.now, chance)
    return Store(engine, clock=clock, new_id=new_id, weigh=weigh, render=render, config=config)


async def _open_engine(address: str, config: Config, now: int) -> Engine:
    if address.startswith(_POSTGRES_PREFIXES):
        # The driver is an optional dependency and slow to import.
        from memolog.db.postgres import PostgresEngine  # noqa: PLC0415

        postgres = PostgresEngine(
            address,
            PostgresOptions(pool_size=config.pool_size, statement_timeout=config.statement_timeout),
        )
        try:
            await postgres.start()
            await postgres.migrate(now)
            if config.background == "worker" and not config.read_only:
                await postgres.open_queue()
        except BaseException:
            await postgres.close()
            raise
        return postgres
    return await _open_sqlite(_sqlite_path(address), config, now)


def _sqlite_path(address: str) -> str:
    if not address.strip():
        raise ConfigError(
            "The address of the database is empty.",
            why="SQLite would use a temporary file and store nothing.",
            then="Pass a file name, or :memory: for a database in RAM.",
        )
    if address.startswith(_SQLITE_PREFIX):
        path = address[len(_SQLITE_PREFIX) :]
        # As in other tools, three slashes begin a relative path and four slashes an absolute path.
        return path.removeprefix("/") or ":memory:"
    if "://" in address:
        raise ConfigError(
            f"Unknown kind of database: {safe_url(address).split('://', maxsplit=1)[0]}://.",
            then="Use a file name, sqlite:///path, :memory: or postgresql://user@host/database.",
        )
    if has_password(address) or address.startswith(("postgresql:", "postgres:")):
        raise ConfigError(
            f"{safe_url(address)} is neither a file name nor a valid address.",
            then="Write postgresql://user@host:port/database, and the password into PGPASSWORD or ~/.pgpass.",
        )
    return address


async def _open_sqlite(path: str, config: Config, now: int) -> Engine:
    if Path(path).is_dir():  # noqa: ASYNC240
        # For a folder, the error of SQLite does not say that it is a folder.
        raise NotADatabase(f"{path} is a folder.", then="Pass the name of a file in it.")
    engine = SqliteEngine(
        path, durability=config.durability, busy_timeout=config.busy_timeout, read_only=config.read_only
    )
    try:
        await engine.start(
            lambda connection: pending_in_file(path, connection),
            lambda connection: migrate_sqlite(path, connection, now=now, read_only=config.read_only),
        )
    except BaseException:
        await engine.close()
        raise
    return engine
