"""The store: everything that is kept, behind one object, on either engine.

Knows which engine an address means and what a store consists of. Time and chance are given by whoever opens it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

from memolog.admin.doctor import Doctor
from memolog.admin.edit import LineEdits
from memolog.admin.forget_store import Forgetting
from memolog.admin.transfer_store import Transfers
from memolog.compaction.store import Compactions
from memolog.core.cache import empty_caches
from memolog.core.clock import Clock, to_micros
from memolog.core.exact_json import JsonObject, JsonValue, dumps, loads
from memolog.core.ids import IdMaker
from memolog.core.message import NewMessage
from memolog.core.observation import Scope
from memolog.db.engine import Engine
from memolog.db.migrations import migrate_sqlite, refuse_foreign_file
from memolog.db.postgres_address import PostgresOptions, has_password, safe_url
from memolog.db.queries import Script, load_queries
from memolog.db.scope import CleanValue, check_ids
from memolog.db.sqlite import SqliteEngine, SqliteOptions
from memolog.errors import ConfigError, NotADatabase
from memolog.log.cache import Recent
from memolog.log.extracts import Extracts
from memolog.log.heartbeat import Processes
from memolog.log.journal import Journal
from memolog.log.leases import Leases
from memolog.log.runs import Runs
from memolog.log.snapshot import OtherLimits, Snapshot, reading_snapshot
from memolog.log.store import Logs
from memolog.log.usage import Ledger, summing_spent
from memolog.log.withdrawals import Withdrawals
from memolog.messages.clone import Copies
from memolog.messages.store import Clean, Messages, Saved, Weigh, is_much, noting_unseen
from memolog.messages.threads import Threads, listing_resources
from memolog.messages.tombstones import Tombstones
from memolog.search.index import Indexing
from memolog.search.recall_store import Recall
from memolog.search.store import Searching
from memolog.tasks.claims import TaskClaims, TaskDecay
from memolog.tasks.dependencies import TaskLinks, TaskReady
from memolog.tasks.queries import TaskViews
from memolog.tasks.store import TaskMessages, TaskStore
from memolog.working_memory.store import WorkingMemories

q = load_queries("log/settings")


class ResourceSettings:
    """The settings of every resource, one resource at a time."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def get(self, resource: str) -> JsonObject:
        """Return the stored settings by dotted name."""
        check_ids(resource=resource)
        return await self._engine.read(lambda: _reading(resource))

    async def put(self, resource: str, settings: Mapping[str, JsonValue]) -> JsonObject:
        """Store settings; returns the old values of those that changed."""
        check_ids(resource=resource)

        def script() -> Script[JsonObject]:
            before = yield from _reading(resource)
            for name, value in sorted(settings.items()):
                if name not in before or before[name] != value:
                    yield q.put_setting(resource=resource, name=name, value=dumps(value))
            return {name: before[name] for name in settings if name in before and before[name] != settings[name]}

        return await self._engine.write(script, name="settings.put")


def _reading(resource: str) -> Script[JsonObject]:
    rows = yield q.settings_of(resource=resource)
    return {row.name: loads(row.value) for row in rows}


_SQLITE_PREFIX = "sqlite://"
_POSTGRES_PREFIXES = ("postgresql://", "postgres://")


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreOptions:
    """How a store is opened; the configuration's settings of the same names."""

    durability: Literal["normal", "full"] = "normal"
    busy_timeout: float = 10.0
    statement_timeout: float = 30.0
    pool_size: int = 10
    max_message_bytes: int = 100_000_000
    read_only: bool = False
    clean: Clean | None = None
    """What takes secrets out of messages before they are stored, where `redact_raw` is set."""
    clean_value: CleanValue | None = None
    """The same for the texts of tasks and of the working memory."""


class Store:
    """Threads, messages, leases and the ledger of every resource. Close it, or use it as `async with`."""

    def __init__(
        self,
        engine: Engine,
        *,
        clock: Clock,
        new_id: Callable[[], str],
        weigh: Weigh,
        options: StoreOptions,
    ) -> None:
        self.engine = engine
        self.clock = clock
        self.new_id = new_id
        self.options = options
        self.threads = Threads(engine, clock, new_id)
        self.messages = Messages(engine, clock, new_id, weigh, options.max_message_bytes, options.clean)
        self.leases = Leases(engine, clock)
        self.processes = Processes(engine, clock)
        self.ledger = Ledger(engine, clock)
        self._recent = Recent()
        self.logs = Logs(engine, clock, new_id, self._recent)
        self.runs = Runs(engine)
        self.journal = Journal(engine)
        self.withdrawals = Withdrawals(engine)
        self.copies = Copies(engine, new_id)
        self.tasks = TaskStore(engine, clock, new_id, options.clean_value)
        self.tombstones = Tombstones(engine)
        self.task_links = TaskLinks(engine, clock)
        self.task_claims = TaskClaims(engine, clock, options.clean_value)
        self.task_views = TaskViews(engine, clock)
        self.task_ready = TaskReady(engine, clock)
        self.task_messages = TaskMessages(engine, clock)
        self.task_decay = TaskDecay(engine, clock)
        self.working_memory = WorkingMemories(engine, clock, options.clean_value)
        self.recall = Recall(engine)
        self.compactions = Compactions(engine, new_id)
        self.extracts = Extracts(engine)
        self.settings = ResourceSettings(engine)
        self.indexing = Indexing(engine)
        self.searching = Searching(engine)
        self.forgetting = Forgetting(engine, clock, new_id)
        self.line_edits = LineEdits(engine, clock, new_id)
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
    ) -> tuple[Saved, Snapshot]:
        """Save messages of a running turn and read all that the next decision needs, as it is once they are saved."""
        check_ids(owner=owner)
        is_long = is_much(messages)
        ready, now = await self.messages.ready_soon(resource, thread, messages, turn, is_long=is_long)

        def saving() -> Script[Saved]:
            saved = yield from self.messages.saving(resource, thread, ready, now, create=True)
            yield from noting_unseen(resource, thread, saved, turn=turn, owner=owner, now=now)
            return saved

        saved, snapshot = await self.engine.write_and_read(
            saving,
            lambda: reading_snapshot(resource, thread, scope, now, self._recent, newest=newest, others=others),
            name="store.save_and_snapshot",
            brief=not is_long,
        )
        if not snapshot.is_complete:
            return saved, await self.logs.snapshot(resource, thread, scope, newest=newest, others=others)
        snapshot.keep(self._recent)
        return saved, snapshot

    async def spent(self) -> float:
        """Return how many dollars observing and reflecting cost so far, for all resources together."""
        return await self.engine.read(summing_spent)

    async def resources(self, *, also_forgotten: bool = False) -> tuple[str, ...]:
        """Return whose memory is here, for whoever runs the database; a caller who acts for one resource needs no other.

        `also_forgotten` names those too of whom nothing is left but that they were forgotten.
        """
        return await self.engine.read(lambda: listing_resources(also_forgotten=also_forgotten), brief=False)

    async def close(self) -> None:
        """Finish what is running and let go of the database. Closing twice is harmless."""
        try:
            await self.engine.close()
        finally:
            self.empty_caches()

    def empty_caches(self) -> None:
        """Drop what is kept in memory of messages, of the log and of their words; all of it can be read again."""
        self._recent.clear()
        empty_caches()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()


async def open_store(
    address: str,
    *,
    clock: Clock,
    chance: Callable[[int], int],
    weigh: Weigh,
    options: StoreOptions | None = None,
) -> Store:
    """Open the store at an address, bringing its schema up to date.

    `memolog.db`, `sqlite:///path` or `:memory:` mean SQLite, `postgresql://…` means PostgreSQL. `chance` returns that many
    random bits, `weigh` counts tokens.
    """
    options = options or StoreOptions()
    engine = await _open_engine(address, options, to_micros(clock.now()))
    new_id = IdMaker(clock.now, chance)
    return Store(engine, clock=clock, new_id=new_id, weigh=weigh, options=options)


async def _open_engine(address: str, options: StoreOptions, now: int) -> Engine:
    if address.startswith(_POSTGRES_PREFIXES):
        # The driver is an extra, and costs a start-up that SQLite users need not pay.
        from memolog.db.postgres import PostgresEngine  # noqa: PLC0415

        postgres = PostgresEngine(
            address,
            PostgresOptions(pool_size=options.pool_size, statement_timeout=options.statement_timeout),
        )
        try:
            await postgres.start()
            await postgres.migrate(now)
        except BaseException:
            await postgres.close()
            raise
        return postgres
    path = _sqlite_path(address)
    _refuse_folder(path)
    return await _open_sqlite(path, options, now)


def _sqlite_path(address: str) -> str:
    if not address.strip():
        raise ConfigError(
            "The address of the database is empty.",
            why="SQLite would take it for a temporary file and keep nothing.",
            then="Name a file, or :memory: if nothing should be kept.",
        )
    if address.startswith(_SQLITE_PREFIX):
        path = address[len(_SQLITE_PREFIX) :]
        # sqlite:///relative and sqlite:////absolute, as most tools write it.
        return path.removeprefix("/") or ":memory:"
    if "://" in address:
        raise ConfigError(
            f"{safe_url(address).split('://', maxsplit=1)[0]}:// is no database that Memolog knows.",
            then="Use a file name, sqlite:///path, :memory: or postgresql://user@host/database.",
        )
    if has_password(address) or address.startswith(("postgresql:", "postgres:")):
        raise ConfigError(
            f"{safe_url(address)} is neither a file name nor an address.",
            then="Write postgresql://user@host:port/database, and the password into PGPASSWORD or ~/.pgpass.",
        )
    return address


def _refuse_folder(path: str) -> None:
    # SQLite would call it a failure of the disk.
    if Path(path).is_dir():
        raise NotADatabase(f"{path} is a folder.", then="Name a file in it.")


async def _open_sqlite(path: str, options: StoreOptions, now: int) -> Engine:
    engine = SqliteEngine(
        path,
        SqliteOptions(
            durability=options.durability,
            busy_timeout=options.busy_timeout,
            read_only=options.read_only,
        ),
    )
    try:
        await engine.start(
            lambda connection: refuse_foreign_file(path, connection),
            lambda connection: migrate_sqlite(path, connection, now=now, read_only=options.read_only),
        )
    except BaseException:
        await engine.close()
        raise
    return engine
