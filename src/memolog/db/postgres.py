"""Run scripts on PostgreSQL, with a connection pool and one transaction per script.

Behind a transaction pooler, prepared statements and session settings are lost after each transaction. With `pooler=True` the
engine sends the settings with every transaction and prepares nothing. The engine switches to this mode if it detects a pooler:
the settings are refused or lost, the id of the server process differs from the one at login, or a prepared statement does not
exist or exists already.
"""

import asyncio
import logging
import random
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from itertools import count
from typing import Any, TypeVar, cast

from memolog.core.deadline import Budget, current_budget
from memolog.db.engine import Engine, Work
from memolog.db.migrations import CREATE_RECORD, READ_RECORD, RECORD, TABLE, pending, refuse_foreign
from memolog.db.postgres_address import PostgresOptions, safe_url, split_url
from memolog.db.queries import MOST_INLINE, Row, Script, Step, named_rows, weight_of
from memolog.db.queue import CallQueue
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

# How long closing waits for connections after all calls have ended, in seconds.
_CLOSE_SECONDS = 5.0
_ATTEMPTS = 8
_ROLLBACK_SECONDS = 1.0
# The longest delay before another attempt, in seconds.
_LONGEST_DELAY = 0.5
_LOCK_KEY = 0x6D656D6F6C6F67  # "memolog" in ASCII. Only one process at a time can migrate.

# After these errors a retry may succeed. For example, a referenced row was deleted after it was read, or a migration made cached
# plans invalid.
_RACES = (
    *(pg.SerializationError, pg.DeadlockDetectedError, pg.UniqueViolationError, pg.ForeignKeyViolationError),
    pg.InvalidCachedStatementError,
)
# A prepared statement does not exist, or another client has prepared one of that name: only a transaction pooler causes this.
_POOLED = (pg.InvalidSQLStatementNameError, pg.DuplicatePreparedStatementError)
# An unknown parameter of the address is sent to the server as a setting. With these errors the server refuses its name or value.
_WRONG_PARAMETER = (pg.UndefinedObjectError, pg.InvalidParameterValueError, pg.CantChangeRuntimeParamError)
_REFUSED_SETTINGS = (pg.ProtocolViolationError, pg.FeatureNotSupportedError)
# For these errors of the server, `_mapped` reports that the server cannot be reached. Other errors of the server that `_mapped`
# does not know mean that the server refused the operation.
_UNREACHABLE = (
    *(pg.PostgresConnectionError, pg.InvalidCatalogNameError, pg.InvalidAuthorizationSpecificationError),
    *(pg.OperatorInterventionError, pg.InsufficientResourcesError, pg.IdleInTransactionSessionTimeoutError),
)
_OF_DATABASE = (pg.PostgresError, pg.InterfaceError, pg.InternalClientError, OSError)
_GONE = (
    *(pg.PostgresConnectionError, pg.InterfaceError, pg.InternalClientError, OSError),
    *(pg.AdminShutdownError, pg.CrashShutdownError, pg.IdleInTransactionSessionTimeoutError),
)


# What Memolog and the worker use of the job queue.
_QUEUE_PARTS = frozenset(
    {
        "procrastinate_defer_jobs_v1",
        "procrastinate_fetch_job_v2",
        "procrastinate_finish_job_v1",
        "procrastinate_jobs_queueing_lock_idx_v1",
        "procrastinate_register_worker_v1",
        "procrastinate_retry_job_v2",
    }
)


def _is_not_about_the_pool_floor(record: logging.LogRecord) -> bool:
    """Return whether a line of asyncpg's log is shown. Memolog itself reports a server that cannot be reached."""
    return not str(record.msg).startswith("Failed to restore the pool connection floor")


# While a server is away, asyncpg writes this line with a traceback at each try to connect.
logging.getLogger("asyncpg.pool").addFilter(_is_not_about_the_pool_floor)


class _LostRace(Exception):
    """A transaction was not committed and may succeed when it runs again, for example after a race or a lost connection."""


class PostgresEngine(Engine):
    """Runs scripts on one schema of a PostgreSQL database."""

    dialect = "postgres"

    def __init__(self, url: str, options: PostgresOptions | None = None) -> None:
        """Set the address and the options. `start` connects."""
        super().__init__()
        self._url, self.options = split_url(url, options or PostgresOptions())
        self.name = safe_url(url)
        self._pooler = bool(self.options.pooler)
        self._pool: Any = None
        self._old_pool: Any = None
        self._closed = False
        self._pool_gate = asyncio.Lock()
        self._queue = CallQueue(self.options.pool_size, what="database connections", stall=self.options.connect_timeout)
        self._putting_back: set[asyncio.Task[None]] = set()

    # ------------------------------------------------------------ connections

    async def start(self) -> None:
        """Connect, so that a wrong address raises an error at once."""
        async with self._connection():
            pass

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
                self._pooler = await self._detect_pooler()
            return await cast("Any", asyncpg).create_pool(
                self._url,
                min_size=1,
                max_size=self.options.pool_size,
                # No session state is changed, so there is nothing to reset.
                reset=_no_reset,
                **self._login(),
            )
        except (MemologError, pg.TooManyConnectionsError):
            raise
        except _WRONG_PARAMETER as error:
            raise ConfigError(
                f"The server refused a parameter of the address {self.name}.",
                why=f"PostgreSQL says: {error}.",
                then="Check the parameters after the `?` of the address.",
            ) from error
        except Exception as error:
            raise self._mapped(error) from error

    async def _detect_pooler(self) -> bool:
        """Connect once. Return whether there is a pooler: it refuses or loses the settings, or changes the server process."""
        try:
            connection = await cast("Any", asyncpg).connect(self._url, **self._login())
        except _REFUSED_SETTINGS:
            return True
        try:
            # In one transaction a pooler uses one server process, so both values come from the same process.
            async with connection.transaction():
                row = await connection.fetchrow("SELECT pg_backend_pid(), current_setting('search_path')")
            return tuple(row) != (connection.get_server_pid(), dict(self._settings())["search_path"])
        except _POOLED:
            return True
        finally:
            connection.terminate()

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
                self.repeated[_reason(lost)] += 1
                await asyncio.sleep(_delay(attempt))
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
            # `_put_back` rolls the transaction back.
            return
        is_broken = isinstance(error, _GONE)
        is_ending = not isinstance(error, Exception)
        try:
            # After an interrupted call the driver may not know yet that BEGIN was executed.
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
        # If the driver cannot encode a value, it raises an InterfaceError that is also a ValueError. Then a retry would fail too.
        if not isinstance(error, _GONE) or isinstance(error, ValueError):
            return self._mapped(error)
        if not committing:
            # Nothing was committed, so the script can run again on a new connection.
            return _LostRace()
        return StoreUnavailable(
            f"The connection to {self.name} was lost during a commit.",
            why="It is unknown whether the server finished the commit.",
            then="Repeat the call. A message with an id is saved only once.",
        )

    def _fall_back(self) -> None:
        """Stop preparing statements. The next transaction creates a new pool. Running transactions finish in the old pool."""
        if not self._pooler:
            self._pooler = True
            self._old_pool, self._pool = self._pool, None

    @asynccontextmanager
    async def _connection(self) -> AsyncGenerator[Connection]:
        await self._queue.enter()
        is_later = False
        try:
            pool, connection = await self._acquired()
            try:
                yield connection
            except asyncio.CancelledError:
                # A cancelled caller must not wait for the server, which may never answer.
                is_later = True
                self._put_back_later(pool, connection)
                raise
            except BaseException:
                await pool.release(connection)
                raise
            await pool.release(connection)
        finally:
            if not is_later:
                self._queue.leave()

    async def _acquired(self) -> tuple[Any, Connection]:
        """Return a connection and its pool. If other processes use all connections of the server, retry for some seconds."""
        budget = current_budget()
        try:
            found = await self._acquired_later(budget)
        except Exception:
            # The step may go on without this call. A cancelled call keeps the reason: the end of the time has cancelled it.
            if budget is not None:
                budget.waits_for(None)
            raise
        return found

    async def _acquired_later(self, budget: Budget | None) -> tuple[Any, Connection]:
        loop = asyncio.get_running_loop()
        end = loop.time() + self.options.connect_timeout
        for attempt in count():
            try:
                pool = await self._get_pool()
                connection = await pool.acquire(timeout=self.options.connect_timeout)
            except MemologError:
                raise
            except TimeoutError as error:
                raise StoreBusy(
                    f"The server of {self.name} accepted no connection within {self.options.connect_timeout:g} s."
                ) from error
            except Exception as error:
                if self._closed:
                    raise StoreClosed from error
                delay = _delay(attempt)
                if not isinstance(error, pg.TooManyConnectionsError) or loop.time() + delay > end:
                    raise self._mapped(error) from error
                if budget is not None:
                    budget.waits_for(f"Other processes use all connections of its server. PostgreSQL says: {error}.")
                await asyncio.sleep(delay)
            else:
                if budget is not None and attempt:
                    budget.waits_for(None)
                return pool, connection
        raise AssertionError("unreachable: the loop returns or raises")

    def _put_back_later(self, pool: Any, connection: Connection) -> None:
        task = asyncio.get_running_loop().create_task(_put_back(pool, connection), name="memolog-rollback")
        self._putting_back.add(task)
        task.add_done_callback(self._is_back)

    def _is_back(self, task: "asyncio.Task[None]") -> None:
        self._putting_back.discard(task)
        self._queue.leave()

    # ------------------------------------------------------------ schema

    async def migrate(self, now: int) -> None:
        """Apply the pending migrations. If several processes start at the same time, only one applies them."""
        async with self._connection() as connection:
            try:
                async with connection.transaction():
                    # If nothing is pending the lock is not needed, and processes that start together do not wait for each other.
                    if not await self._is_current(connection):
                        await connection.execute("SELECT pg_advisory_xact_lock($1)", _LOCK_KEY)
                        await self._migrate(connection, now)
            except MemologError:
                raise
            except Exception as error:
                raise self._mapped(error) from error

    async def _is_current(self, connection: Connection) -> bool:
        """Return whether all migrations are applied."""
        schema = self.options.schema
        rows = await connection.fetch("SELECT tablename FROM pg_tables WHERE schemaname = $1", schema)
        tables = [cast("str", row[0]) for row in rows]
        refuse_foreign(f"The schema {schema}", tables)
        if TABLE not in tables:
            return False
        await connection.execute(f'SET LOCAL search_path = "{schema}"')
        return not pending("postgres", await _applied(connection))

    async def _migrate(self, connection: Connection, now: int) -> None:
        schema = self.options.schema
        rows = await connection.fetch("SELECT tablename FROM pg_tables WHERE schemaname = $1", schema)
        tables = [cast("str", row[0]) for row in rows]
        refuse_foreign(f"The schema {schema}", tables)
        # Create the schema only if it is missing, because the user may not have the permission for CREATE SCHEMA.
        if not await connection.fetch("SELECT 1 FROM pg_namespace WHERE nspname = $1", schema):
            await connection.execute(f'CREATE SCHEMA "{schema}"')
        await connection.execute(f'SET LOCAL search_path = "{schema}"')
        if TABLE not in tables:
            await connection.execute(CREATE_RECORD)
        for migration in pending("postgres", await _applied(connection)):
            await connection.execute(migration.text)
            values = (migration.version, migration.name, migration.checksum, now)
            await connection.execute(f"{RECORD} VALUES ($1, $2, $3, $4)", *values)

    async def open_queue(self) -> None:
        """Create the tables of the job queue in our schema if they are missing, and check that their version fits."""
        async with self._connection() as connection:
            try:
                async with connection.transaction():
                    await connection.execute("SELECT pg_advisory_xact_lock($1)", _LOCK_KEY)
                    await connection.execute(f'SET LOCAL search_path = "{self.options.schema}"')
                    if not await connection.fetchval("SELECT to_regclass('procrastinate_jobs')"):
                        await connection.execute(_queue_schema())
                    await self._check_queue(connection)
            except MemologError:
                raise
            except Exception as error:
                raise self._mapped(error) from error
        self.has_queue = True

    async def _check_queue(self, connection: Connection) -> None:
        schema = self.options.schema
        rows = await connection.fetch(
            "SELECT proname FROM pg_proc WHERE pronamespace = $1::text::regnamespace UNION ALL "
            "SELECT indexname FROM pg_indexes WHERE schemaname = $1::text",
            schema,
        )
        missing = sorted(_QUEUE_PARTS - {row[0] for row in rows})
        if missing:
            raise ConfigError(
                f"The tables of Procrastinate in the schema {schema} are of another version: {missing[0]} is missing.",
                why="Memolog needs the tables of Procrastinate 3.",
                then="Stop the workers and apply the migrations of Procrastinate to this schema, or, if no job waits, drop the "
                "tables, types and functions whose names begin with procrastinate_. Memolog creates them again.",
            )

    # ------------------------------------------------------------ the end

    async def settled(self) -> None:
        """Wait until the connections of cancelled calls are rolled back and returned to their pool."""
        if self._putting_back:
            await asyncio.wait(self._putting_back)

    async def close(self) -> None:
        """Wait for running calls and close the connections."""
        if self._closed:
            return
        self._closed = True
        await self.settled()
        for pool in (self._old_pool, self._pool):
            if pool is not None:
                # No call is running any more. A connection may still count as used if its release was cancelled, as by an event
                # loop that ends. The pool would wait for it for ever. After the timeout it ends its connections instead.
                with suppress(TimeoutError):
                    async with asyncio.timeout(_CLOSE_SECONDS):
                        await pool.close()

    # ------------------------------------------------------------ errors

    def _mapped(self, error: Exception) -> MemologError:
        says = f"PostgreSQL says: {error}."
        if isinstance(error, pg.DiskFullError | pg.OutOfMemoryError):
            return StoreFull(
                f"No space is left on the server of {self.name}.",
                why=says,
                then="Free some space. Nothing of this call was saved.",
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
        if isinstance(error, pg.TooManyConnectionsError):
            return StoreBusy(
                f"The server of {self.name} has no free connection.",
                why=says,
                then="Lower `pool_size`, use a pooler, or raise max_connections of the server.",
            )
        if isinstance(error, pg.CharacterNotInRepertoireError | pg.UntranslatableCharacterError):
            return InputError(
                "A text has a character that PostgreSQL cannot store, such as NUL.",
                then="Remove the character.",
            )
        if isinstance(error, pg.ClientConfigurationError):
            return ConfigError(f"The address {self.name} cannot be used: {error}.", then="Check its parameters.")
        if isinstance(error, pg.PostgresError | ValueError) and not isinstance(error, _UNREACHABLE):
            return StoreCorrupt(
                f"The database {self.name} refused the operation.",
                why=says,
                then="Nothing was saved by this call. Please report this error, because it should not happen.",
            )
        silent = "It gave no answer in time." if isinstance(error, TimeoutError) else f"{type(error).__name__}."
        return StoreUnavailable(
            f"The database {self.name} cannot be reached.",
            why=says if str(error) else silent,
            then="Check the address and the user, and check that the server is running.",
        )


def _delay(attempt: int) -> float:
    """Return the seconds before another attempt: random, so that processes that failed together do not fail together again."""
    return random.random() * min(0.002 * 2**attempt, _LONGEST_DELAY)  # noqa: S311


async def _applied(connection: Connection) -> list[tuple[int, str]]:
    return [(int(row[0]), str(row[1])) for row in await connection.fetch(READ_RECORD)]


def _reason(error: BaseException | None) -> str:
    """Return why a transaction is repeated, as a word for counters."""
    if isinstance(error, pg.DeadlockDetectedError):
        return "deadlock"
    if isinstance(error, pg.SerializationError):
        return "serialization"
    if isinstance(error, pg.IntegrityConstraintViolationError):
        return "constraint"
    return "connection" if isinstance(error, _GONE) else "statement"


def _queue_schema() -> str:
    """Return the SQL that creates the tables of the job queue."""
    try:
        from procrastinate.schema import SchemaManager  # noqa: PLC0415 - only needed to create the tables
    except ImportError as missing:
        raise ConfigError(
            'background = "worker" needs the tables of Procrastinate, which are missing, and Procrastinate is not installed.',
            then='Install it with: pip install "memolog[worker]", or start `memolog worker` once, which creates the tables.',
        ) from missing
    return SchemaManager.get_schema()


async def _no_reset(connection: Connection) -> None:
    """Do nothing, instead of the reset that asyncpg sends after every use of a connection."""


def _drop(connection: Connection) -> None:
    """Close a connection at once. The server rolls its transaction back, and the pool opens a new connection."""
    with suppress(pg.InterfaceError):  # the pool may have closed it already
        connection.terminate()


async def _put_back(pool: Any, connection: Connection) -> None:
    """Roll back and return a connection to its pool. Close the connection if the rollback fails or takes long."""
    try:
        # The driver may not know yet that BEGIN was executed, so always roll back.
        await connection.execute("ROLLBACK", timeout=_ROLLBACK_SECONDS)
    except BaseException as error:
        _drop(connection)
        if not isinstance(error, _OF_DATABASE):
            raise
    await pool.release(connection)


async def _drive(connection: Connection, script: Script[T]) -> T:
    """Run a script and return its result."""
    try:
        step = next(script)
        while True:
            rows = await _execute(connection, step)
            if weight_of(rows) > MOST_INLINE:
                # Process many rows on a worker thread, to keep the event loop free.
                step, end = await asyncio.to_thread(_advanced, script, rows)
                if step is None:
                    return cast("T", end)
            else:
                step = script.send(rows)
    except StopIteration as end:
        return cast("T", end.value)


def _advanced(script: Script[T], rows: Sequence[Row]) -> tuple[Step | None, T | None]:
    """Send rows to a script. Return its next step and None, or None and its result."""
    try:
        return script.send(rows), None
    except StopIteration as end:
        return None, end.value


async def _execute(connection: Connection, step: Step) -> Sequence[Row]:
    if step.statement.fills_fts:
        return []
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
