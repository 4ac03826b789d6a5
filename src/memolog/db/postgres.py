"""Run scripts on PostgreSQL: a connection pool, and one transaction per script.

Behind a transaction pooler no prepared statement and no session setting outlives a transaction. With `pooler=True` the settings
are sent with every transaction, and nothing is prepared. The engine switches to this mode if it detects a pooler: our settings
are refused or lost, the server process has another id, or a prepared statement is gone.
"""

import asyncio
import random
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeVar, cast

from memolog.db.engine import Engine, Work
from memolog.db.migrations import CREATE_RECORD, READ_RECORD, RECORD, TABLE, pending, refuse_foreign
from memolog.db.postgres_address import PostgresOptions, safe_url, split_url
from memolog.db.queries import MOST_INLINE, Row, Script, Step, named_rows, weight_of
from memolog.errors import (
    ConfigError,
    InputError,
    MemologError,
    StoreBusy,
    StoreClosed,
    StoreCorrupt,
    StoreFull,
    StoreReadOnly,
    StoreUnavailable,
)

try:
    import asyncpg
    from asyncpg import exceptions as pg
except ImportError as missing:  # pragma: no cover - exercised by a subprocess test
    raise ConfigError(
        "PostgreSQL needs the asyncpg driver, which is not installed.",
        then='Install it with: pip install "memolog[postgres]"',
    ) from missing


T = TypeVar("T")
Connection = Any

_ATTEMPTS = 8
_ROLLBACK_SECONDS = 1.0
_LOCK_KEY = 0x6D656D6F6C6F67  # "memolog": keeps two migrating processes apart

# A retry may succeed: a referenced row may have been deleted since it was read, and a migration outdates cached plans.
_RACES = (
    *(pg.SerializationError, pg.DeadlockDetectedError, pg.UniqueViolationError, pg.ForeignKeyViolationError),
    pg.InvalidCachedStatementError,
)
# Our prepared statement is gone, or one of another client is there: only a transaction pooler causes that.
_POOLED = (pg.InvalidSQLStatementNameError, pg.DuplicatePreparedStatementError)
_REFUSED_SETTINGS = (pg.ProtocolViolationError, pg.FeatureNotSupportedError)
# Any other error of the server means that it was reached and refused the operation.
_UNREACHABLE = (
    *(pg.PostgresConnectionError, pg.InvalidCatalogNameError, pg.InvalidAuthorizationSpecificationError),
    *(pg.OperatorInterventionError, pg.InsufficientResourcesError, pg.IdleInTransactionSessionTimeoutError),
)
_OF_DATABASE = (pg.PostgresError, pg.InterfaceError, pg.InternalClientError, OSError)
_GONE = (
    *(pg.PostgresConnectionError, pg.InterfaceError, pg.InternalClientError, OSError),
    *(pg.AdminShutdownError, pg.CrashShutdownError, pg.IdleInTransactionSessionTimeoutError),
)


class _LostRace(Exception):
    """The database refused a transaction that may succeed when it is run again."""


class PostgresEngine(Engine):
    """Runs scripts on one schema of a PostgreSQL database."""

    def __init__(self, url: str, options: PostgresOptions | None = None) -> None:
        """Name the database; `start` connects to it."""
        self._url, self.options = split_url(url, options or PostgresOptions())
        self.name = safe_url(url)
        self._pooler = bool(self.options.pooler)
        self._pool: Any = None
        self._left: Any = None
        self._closed = False
        self._pool_gate = asyncio.Lock()
        self._putting_back: set[asyncio.Task[None]] = set()

    # ------------------------------------------------------------ connections

    async def start(self) -> None:
        """Connect, so that a wrong address raises here."""
        await self._get_pool()

    async def _get_pool(self) -> Any:
        if self._closed:
            raise StoreClosed
        async with self._pool_gate:
            if self._pool is None:
                self._pool = await self._connect()
            return self._pool

    async def _connect(self) -> Any:
        try:
            if not self._pooler and self.options.pooler is None:
                self._pooler = await self._meets_pooler()
            return await self._create_pool()
        except MemologError:
            raise
        except Exception as error:
            raise self._mapped(error) from error

    async def _meets_pooler(self) -> bool:
        """Connect once; returns whether our settings were lost or another process answers for the server."""
        try:
            connection = await cast("Any", asyncpg).connect(self._url, **self._login())
        except _REFUSED_SETTINGS:
            return True
        try:
            # A pooler keeps one transaction on one server process.
            async with connection.transaction():
                row = await connection.fetchrow("SELECT pg_backend_pid(), current_setting('search_path')")
            return tuple(row) != (connection.get_server_pid(), dict(self._settings())["search_path"])
        except _POOLED:
            return True
        finally:
            connection.terminate()

    async def _create_pool(self) -> Any:
        return await cast("Any", asyncpg).create_pool(
            self._url,
            min_size=1,
            max_size=self.options.pool_size,
            # Settings end with their transaction, so nothing needs a reset.
            reset=_no_reset,
            **self._login(),
        )

    def _login(self) -> dict[str, Any]:
        settings = {} if self._pooler else dict(self._settings())
        return {
            "timeout": self.options.connect_timeout,
            "statement_cache_size": 0 if self._pooler else 256,
            "server_settings": {"application_name": "memolog"} | settings,
        }

    def _settings(self) -> Sequence[tuple[str, str]]:
        milliseconds = int(self.options.statement_timeout * 1000)
        return (
            ("search_path", f'"{self.options.schema}"'),
            ("statement_timeout", str(milliseconds)),
            ("idle_in_transaction_session_timeout", str(2 * milliseconds)),
        )

    def _opening(self, isolation: str) -> str:
        begin = f"BEGIN ISOLATION LEVEL {isolation}"
        if not self._pooler:
            return begin
        return "; ".join([begin, *(f"SET LOCAL {name} = {value}" for name, value in self._settings())])

    # ------------------------------------------------------------ scripts

    async def read(self, work: Work[T], *, brief: bool = True) -> T:
        """Run a script on one consistent snapshot."""
        del brief
        return await self._run(work, "REPEATABLE READ, READ ONLY", None)

    async def write(self, work: Work[T], *, name: str, brief: bool = True) -> T:
        """Run a script in one transaction and commit it."""
        del brief
        return await self._run(work, "READ COMMITTED", name)

    async def _run(self, work: Work[T], isolation: str, name: str | None) -> T:
        lost: BaseException | None = None
        for attempt in range(_ATTEMPTS):
            try:
                async with self._connection() as connection:
                    return await self._transact(connection, work, isolation, name)
            except _LostRace as race:
                lost = race.__cause__
                await asyncio.sleep(random.random() * 0.002 * 2**attempt)  # noqa: S311
        raise self._mapped(cast("Exception", lost)) from lost

    async def _transact(self, connection: Connection, work: Work[T], isolation: str, name: str | None) -> T:
        committing = False
        try:
            await connection.execute(self._opening(isolation))
            result = await _drive(connection, work())
            if name is not None:
                self.reached(name, "before")
            committing = True
            await connection.execute("COMMIT")
        except BaseException as error:
            await self._roll_back(connection, error)
            if not isinstance(error, _OF_DATABASE):
                raise
            raise self._after_failure(error, committing=committing) from error
        if name is not None:
            self.reached(name, "after")
        return result

    async def _roll_back(self, connection: Connection, error: BaseException) -> None:
        if isinstance(error, asyncio.CancelledError):
            # `_put_back` rolls it back.
            return
        is_broken = isinstance(error, _GONE)
        is_ending = not isinstance(error, Exception)
        try:
            # An interrupted call may still be on its way, so that BEGIN may have been executed.
            if not is_broken and (is_ending or connection.is_in_transaction()):
                await connection.execute("ROLLBACK", timeout=self.options.connect_timeout)
        except _OF_DATABASE:
            is_broken = True
        except BaseException:
            _drop(connection)
            raise
        if is_broken:
            _drop(connection)

    def _after_failure(self, error: Exception, *, committing: bool) -> Exception:
        """Return _LostRace if the script should run again, or the error to raise."""
        if isinstance(error, _RACES):
            return _LostRace()
        if isinstance(error, _POOLED):
            self._fall_back()
            return _LostRace()
        # A value that the driver cannot send is an interface error as well.
        if not isinstance(error, _GONE) or isinstance(error, ValueError):
            return self._mapped(error)
        if not committing:
            # Nothing was committed, so it can run again on a new connection.
            return _LostRace()
        return StoreUnavailable(
            f"The connection to {self.name} was lost in the middle of a commit.",
            why="The server may have finished it or not.",
            then="Do it again: what is saved under an id of yours is saved once.",
        )

    def _fall_back(self) -> None:
        """Replace the pool with prepared statements; transactions that still use it may finish."""
        if not self._pooler:
            self._pooler = True
            self._left, self._pool = self._pool, None

    @asynccontextmanager
    async def _connection(self) -> AsyncGenerator[Connection]:
        pool = await self._get_pool()
        try:
            connection = await pool.acquire(timeout=self.options.connect_timeout)
        except TimeoutError as error:
            raise StoreBusy(
                "No database connection became free in time.",
                why=f"All {self.options.pool_size} are in use.",
                then="Raise pool_size, or do less at once.",
            ) from error
        except Exception as error:
            raise StoreClosed if self._closed else self._mapped(error) from error
        try:
            yield connection
        except asyncio.CancelledError:
            # A cancelled caller does not wait for a server that may never answer.
            self._put_back_later(pool, connection)
            raise
        except BaseException:
            await pool.release(connection)
            raise
        await pool.release(connection)

    def _put_back_later(self, pool: Any, connection: Connection) -> None:
        task = asyncio.get_running_loop().create_task(_put_back(pool, connection), name="memolog-rollback")
        self._putting_back.add(task)
        task.add_done_callback(self._putting_back.discard)

    # ------------------------------------------------------------ schema

    async def migrate(self, now: int) -> None:
        """Migrate the schema to the current version. Processes that start at the same time migrate it once."""
        async with self._connection() as connection:
            try:
                async with connection.transaction():
                    await connection.execute("SELECT pg_advisory_xact_lock($1)", _LOCK_KEY)
                    await self._migrate(connection, now)
            except MemologError:
                raise
            except Exception as error:
                raise self._mapped(error) from error

    async def _migrate(self, connection: Connection, now: int) -> None:
        schema = self.options.schema
        rows = await connection.fetch("SELECT tablename FROM pg_tables WHERE schemaname = $1", schema)
        tables = [cast("str", row[0]) for row in rows]
        refuse_foreign(f"The schema {schema}", tables)
        # Create the schema only if it is missing: the user may not have the permission.
        if not await connection.fetch("SELECT 1 FROM pg_namespace WHERE nspname = $1", schema):
            await connection.execute(f'CREATE SCHEMA "{schema}"')
        await connection.execute(f'SET LOCAL search_path = "{schema}"')
        if TABLE not in tables:
            await connection.execute(CREATE_RECORD)
        applied = [(int(row[0]), str(row[1])) for row in await connection.fetch(READ_RECORD)]
        for migration in pending("postgres", applied):
            await connection.execute(migration.text)
            values = (migration.version, migration.name, migration.checksum, now)
            await connection.execute(f"{RECORD} VALUES ($1, $2, $3, $4)", *values)

    # ------------------------------------------------------------ the end

    async def settled(self) -> None:
        """Wait until the connections of cancelled calls are back in their pool."""
        if self._putting_back:
            await asyncio.wait(self._putting_back)

    async def close(self) -> None:
        """Let the connections finish and close them."""
        if self._closed:
            return
        self._closed = True
        await self.settled()
        for pool in (self._left, self._pool):
            if pool is not None:
                await pool.close()

    # ------------------------------------------------------------ errors

    def _mapped(self, error: Exception) -> MemologError:
        says = f"PostgreSQL says: {error}."
        if isinstance(error, pg.DiskFullError | pg.OutOfMemoryError):
            return StoreFull(
                f"No space is left on the server of {self.name}.",
                why=says,
                then="Free some space; nothing was half-saved.",
            )
        if isinstance(error, pg.ReadOnlySQLTransactionError | pg.InsufficientPrivilegeError):
            return StoreReadOnly(
                f"The database {self.name} cannot be written to.",
                why=says,
                then="Connect to the primary, with a user that may write to the schema.",
            )
        if isinstance(error, pg.QueryCanceledError | pg.LockNotAvailableError | pg.TransactionRollbackError):
            return StoreBusy(
                "The database did not finish in time.",
                why=says,
                then="Try again, or raise statement_timeout.",
            )
        if isinstance(error, pg.CharacterNotInRepertoireError | pg.UntranslatableCharacterError):
            return InputError(
                "A text has a character that PostgreSQL cannot store, such as NUL.",
                then="Leave it out.",
            )
        if isinstance(error, pg.ClientConfigurationError):
            return ConfigError(f"The address {self.name} cannot be used: {error}.", then="Check its parameters.")
        if isinstance(error, pg.PostgresError | ValueError) and not isinstance(error, _UNREACHABLE):
            return StoreCorrupt(
                f"The database {self.name} refused the operation.",
                why=says,
                then="Nothing was saved by this call. Please report it: this should not happen.",
            )
        return StoreUnavailable(
            f"The database {self.name} cannot be reached.",
            why=f"{says if str(error) else type(error).__name__ + '.'}",
            then="Check the address, the user and that the server is running.",
        )


async def _no_reset(connection: Connection) -> None:
    """Leave a connection as it is."""


def _drop(connection: Connection) -> None:
    """Close a connection at once: the server rolls back, and the pool opens a new one."""
    with suppress(pg.InterfaceError):  # the pool may have seen it first
        connection.terminate()


async def _put_back(pool: Any, connection: Connection) -> None:
    """Roll back and return a connection to its pool; close it if that takes long."""
    try:
        # The cancelled call may still be on its way, so that BEGIN may have been executed.
        await connection.execute("ROLLBACK", timeout=_ROLLBACK_SECONDS)
    except BaseException as error:
        _drop(connection)
        if not isinstance(error, _OF_DATABASE):
            raise
    await pool.release(connection)


async def _drive(connection: Connection, script: Script[T]) -> T:
    """Run a script to its end and return its result."""
    try:
        step = next(script)
        while True:
            rows = await _execute(connection, step)
            if weight_of(rows) > MOST_INLINE:
                # Many rows are processed on a worker thread, so that the event loop is not blocked.
                step, end = await asyncio.to_thread(_advanced, script, rows)
                if step is None:
                    return cast("T", end)
            else:
                step = script.send(rows)
    except StopIteration as end:
        return cast("T", end.value)


def _advanced(script: Script[T], rows: Sequence[Row]) -> tuple[Step | None, T | None]:
    """Return the next step of a script, or None and its result."""
    try:
        return script.send(rows), None
    except StopIteration as end:
        return None, end.value


async def _execute(connection: Connection, step: Step) -> Sequence[Row]:
    if step.many is not None:
        if not step.many:
            return []
        names = step.statement.parameters
        await connection.executemany(
            step.statement.numbered("$"), [[values[name] for name in names] for values in step.many]
        )
        return []
    lengths, values = step.flat()
    rows = await connection.fetch(step.statement.numbered("$", lengths), *values)
    return named_rows(rows[0].keys(), rows) if rows else []
