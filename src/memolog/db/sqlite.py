"""Run scripts on SQLite. For a file, an engine has one connection for writing, several for reading and some for checkpoints.

Brief scripts run on the thread of the caller, because a commit takes less time than a switch to another thread. Work that may
wait runs on worker threads: waiting for locks of other processes, commits with `full` durability, long reads and checkpoints.
"""

import asyncio
import contextlib
import os
import random
import sqlite3
import threading
import time
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from functools import cache
from operator import itemgetter
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypeVar, cast
from weakref import WeakKeyDictionary, ref

from memolog.db.engine import Engine, Work
from memolog.db.queries import MOST_INLINE, Row, Script, Statement, Step, Values, row_maker, weight_of
from memolog.db.queue import CallQueue
from memolog.errors import (
    MemologError,
    NotADatabase,
    StoreBusy,
    StoreClosed,
    StoreCorrupt,
    StoreFull,
    StoreReadOnly,
    StoreUnavailable,
)

BUSY = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}

# The pause between two attempts to get the lock of another process, for a writer at most. It is random, so that each of several
# writers gets its share.
_RETRY_SECONDS = 0.01

T = TypeVar("T")
R = TypeVar("R")
SchemaStep: TypeAlias = Callable[[sqlite3.Connection], object]

# If a task has not suspended for this time, the engine lets other tasks of the event loop run after a call.
_BREATH_SECONDS = 0.002
# A larger journal is checkpointed in the background. The default of SQLite is about the same: 1,000 pages of 4 KiB. After a
# checkpoint SQLite reuses the journal from its start, and truncates the file to this size. So the file is larger only while pages
# are waiting for a checkpoint.
_CHECKPOINT_BYTES = 4 * 1024 * 1024
# After a commit on the event loop, the size of the journal is checked only every so many commits.
_COMMITS_BETWEEN_LOOKS = 16
_READER_THREADS = 2
# The cache of each connection. It is as large as the journal, because the pages of the file are read from mapped memory.
_CACHE_KIB = _CHECKPOINT_BYTES // 1024
_MMAP_BYTES = 1 << 30
_HEADER_BYTES = 100
_ROWS_AT_ONCE = 256


class _Waiting(Exception):
    """Another process has the lock, so the script must run on a worker thread, which may wait."""


class _TooMuch(Exception):
    """A step of a script read too many characters, so the script must run again on a worker thread."""


class _GivenUp(Exception):
    """The caller of a write was cancelled, so the write must not be committed."""


def is_memory(path: str) -> bool:
    """Return whether the path means a database in RAM."""
    return path in {"", ":memory:"}


class SqliteEngine(Engine):
    """Runs scripts on one SQLite database. Safe for several event loops, threads and processes."""

    dialect = "sqlite"

    def __init__(
        self,
        path: str,
        *,
        durability: Literal["normal", "full"] = "normal",
        busy_timeout: float = 10.0,
        read_only: bool = False,
    ) -> None:
        """Set the path and the options. `start` opens the file.

        With `normal` durability a commit survives a crash of the process. With `full` durability it waits for the disk and also
        survives a power failure. A write waits at most `busy_timeout` seconds for the lock of another process.
        """
        super().__init__()
        self.path, self._durability, self._busy_timeout, self._read_only = path, durability, busy_timeout, read_only
        self._memory = is_memory(path)
        self.file = None if self._memory else path
        # Keep the absolute path, because the process may change its working directory.
        self._absolute = os.path.abspath(path)  # noqa: PTH100 - links are not resolved
        self._identity: tuple[int, int] | None = None
        self._closed = False
        self._gate = threading.Lock()
        self._read_gate = self._gate if self._memory else threading.Lock()
        self._writer: sqlite3.Connection
        self._reader: sqlite3.Connection
        self._inline = self._memory or self._durability == "normal"
        self._waiting = ThreadPoolExecutor(1, thread_name_prefix="memolog-sqlite-write")
        self._reading = ThreadPoolExecutor(_READER_THREADS, thread_name_prefix="memolog-sqlite-read")
        # Each event loop has queues of its own, because a call of one loop cannot wake a call of another.
        self._queues = WeakKeyDictionary[asyncio.AbstractEventLoop, tuple[CallQueue, CallQueue]]()
        self._last_queues: tuple[ref[asyncio.AbstractEventLoop], tuple[CallQueue, CallQueue]] | None = None
        self._connections: list[sqlite3.Connection] = []
        self._local = threading.local()
        self._is_impatient = False
        """Whether the writer no longer waits for locks by itself."""
        self._commits = 0
        self._checkpointing: Future[None] | None = None
        # When the first call of this iteration of the event loop began.
        self._since: float | None = None

    # ------------------------------------------------------------ connections

    async def start(self, check: SchemaStep, change: SchemaStep) -> None:
        """Open the file on a worker thread. `check` raises an error for a foreign file. `change` migrates the schema."""
        await self._elsewhere(self._waiting, lambda: self._open(check, change))

    def _open(self, check: SchemaStep, change: SchemaStep) -> None:
        if not self._memory and Path(self.path).is_file():
            self._inspect(check)
        self._writer = self._connect(read_only=self._read_only)
        change(self._writer)
        self._identity = None if self._memory else self._file_identity()
        self._reader = self._writer if self._memory else self._connect(read_only=True)

    def _inspect(self, check: SchemaStep) -> None:
        """Check the file before anything is written. Even setting the journal mode would write to the file."""
        check_size(self.path)
        with mapped_errors(self.path), contextlib.closing(self._plain(read_only=True)) as connection:
            check(connection)

    def _connect(self, *, read_only: bool) -> sqlite3.Connection:
        self._check_file()
        connection = self._plain(read_only=read_only)
        try:
            with mapped_errors(self.path):
                self._prepare(connection, read_only=read_only)
        except BaseException:
            connection.close()
            raise
        self._connections.append(connection)
        return connection

    def _plain(self, *, read_only: bool) -> sqlite3.Connection:
        with mapped_errors(self.path):
            try:
                connection = sqlite3.connect(
                    self._address(read_only=read_only),
                    uri=True,
                    isolation_level=None,
                    check_same_thread=False,
                    cached_statements=256,
                    timeout=self._busy_timeout,
                )
            except ValueError as error:
                raise cannot_open(self.path, str(error)) from error
            # Do not let the schema of the file call functions with side effects.
            connection.execute("PRAGMA trusted_schema = OFF")
            return connection

    def _address(self, *, read_only: bool) -> str:
        if self._memory:
            return ":memory:"
        mode = ("?mode=ro&immutable=1" if self._read_only and is_sealed(self.path) else "?mode=ro") if read_only else ""
        return Path(self.path).absolute().as_uri() + mode

    def _prepare(self, connection: sqlite3.Connection, *, read_only: bool) -> None:
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
        if self._memory:
            connection.execute("PRAGMA trusted_schema = ON")
            return
        if not read_only:
            # The triggers of Memolog write to the full-text index, which many releases of SQLite forbid for untrusted schemas.
            # `pending_in_file` has checked the schema before.
            connection.execute("PRAGMA trusted_schema = ON")
            keep_journal(connection, timeout=self._busy_timeout)
            synchronous = "FULL" if self._durability == "full" else "NORMAL"
            connection.execute(f"PRAGMA synchronous = {synchronous}")
            # Checkpoints wait for the disk, so `_checkpoint` makes them on a worker thread.
            connection.execute("PRAGMA wal_autocheckpoint = 0")
            connection.execute(f"PRAGMA journal_size_limit = {_CHECKPOINT_BYTES}")
        connection.execute(f"PRAGMA mmap_size = {_MMAP_BYTES}")

    # ------------------------------------------------------------ scripts

    async def read(self, work: Work[T], *, brief: bool = True) -> T:
        """Run a script on one consistent snapshot."""
        if self._closed:
            raise StoreClosed
        if brief and (idle := self._idle_connection()):
            connection, gate = idle
            started = time.perf_counter()
            try:
                found = (self._on_snapshot(connection, work, most=MOST_INLINE),)
            except (_TooMuch, StoreBusy):
                found = ()
            finally:
                gate.release()
            await self._let_others_run(started)
            if found:
                return found[0]
        reads, _ = self._queues_of_loop()
        async with reads.place():
            return await self._elsewhere(self._reading, lambda: self._read_on_thread(work))

    def _idle_connection(self) -> tuple[sqlite3.Connection, threading.Lock] | None:
        """Return a connection for a short read, and its gate, which the caller must release. None if both connections are busy.

        The connection that writes is preferred: its cache has the pages that were written last. SQLite empties the cache of
        another connection after every write.
        """
        for connection, gate in ((self._writer, self._gate), (self._reader, self._read_gate)):
            if gate.acquire(blocking=False):
                return connection, gate
        return None

    async def write(self, work: Work[T], *, name: str, brief: bool = True) -> T:
        """Run a script in one transaction and commit it."""
        if self._closed:
            raise StoreClosed
        _, writes = self._queues_of_loop()
        await writes.enter()
        try:
            started = time.perf_counter()
            done = self._write_inline(work, name) if brief and self._inline else ()
            if not done:
                return await self._write_elsewhere(work, name)
        finally:
            writes.leave()
        await self._let_others_run(started)
        return done[0]

    def _write_inline(self, work: Work[T], name: str) -> tuple[T] | tuple[()]:
        """Write on the event loop and return the result. Return () if the write must wait or is long."""
        if not self._gate.acquire(blocking=False):
            return ()
        try:
            return (self._in_transaction(work, name, None),)
        except (_Waiting, _TooMuch):
            return ()
        finally:
            self._gate.release()

    def _queues_of_loop(self) -> tuple[CallQueue, CallQueue]:
        """Return the queues for the threads that read and for the thread that writes."""
        loop = asyncio.get_running_loop()
        last = self._last_queues
        # Almost always the same loop as in the call before.
        if last is not None and last[0]() is loop:
            return last[1]
        found = self._queues.get(loop)
        if found is None:
            reads = CallQueue(_READER_THREADS, what="threads for reading")
            writes = CallQueue(1, what="threads for writing")
            found = self._queues[loop] = reads, writes
        self._last_queues = ref(loop), found
        return found

    async def write_and_read(self, writing: Work[T], reading: Work[R], *, name: str, brief: bool = True) -> tuple[T, R]:
        """Write and read in one transaction, which is possible because SQLite has one writer at a time."""

        def script() -> Script[tuple[T, R]]:
            return (yield from writing()), (yield from reading())

        return await self.write(script, name=name, brief=brief)

    async def _elsewhere(self, pool: ThreadPoolExecutor, call: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(pool, copy_context().run, call)

    async def _write_elsewhere(self, work: Work[T], name: str) -> T:
        """Write on a worker thread. When a cancelled call returns, its write is either committed or will never be committed."""
        decided = threading.Lock()
        loop = asyncio.get_running_loop()
        run = copy_context().run
        call = loop.run_in_executor(self._waiting, lambda: run(self._write_on_thread, work, name, decided))
        try:
            return await asyncio.shield(call)
        except asyncio.CancelledError:
            if decided.acquire(blocking=False):
                call.cancel()
            else:
                await asyncio.wait({call})
            raise

    async def _let_others_run(self, started: float) -> None:
        # A call that ran on the event loop does not suspend its task. So the time of all calls in one iteration counts,
        # also the work of their callers in between.
        if self._since is None:
            self._since = started
            asyncio.get_running_loop().call_soon(self._begin_iteration)
        if time.perf_counter() - self._since > _BREATH_SECONDS:
            self._since = None
            await asyncio.sleep(0)

    def _begin_iteration(self) -> None:
        self._since = None

    def _read_on_thread(self, work: Work[T]) -> T:
        if self._memory:
            with self._read_gate:
                return self._on_snapshot(self._reader, work)
        connection = cast("sqlite3.Connection | None", getattr(self._local, "reader", None))
        if connection is None:
            connection = self._local.reader = self._connect(read_only=True)
        return self._on_snapshot(connection, work)

    def _write_on_thread(self, work: Work[T], name: str, decided: threading.Lock) -> T:
        with self._gate:
            return self._in_transaction(work, name, decided)

    def _on_snapshot(self, connection: sqlite3.Connection, work: Work[T], *, most: int | None = None) -> T:
        with mapped_errors(self.path):
            connection.execute("BEGIN")
            try:
                return _drive(connection, work(), most)
            finally:
                # After some errors SQLite rolls back automatically.
                if connection.in_transaction:
                    connection.execute("ROLLBACK")

    def _in_transaction(self, work: Work[T], name: str, decided: "threading.Lock | None") -> T:
        """Run a script and commit it. Both the commit and the cancellation try to acquire `decided`: the first one wins."""
        connection = self._writer
        self._check_file()
        try:
            self._begin(connection, decided)
            result = _drive(connection, work(), MOST_INLINE if decided is None else None)
            self.reached(name, "before")
            _claim(decided)
            connection.execute("COMMIT")
        except BaseException as error:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            if isinstance(error, sqlite3.Error):
                raise mapped(self.path, error) from error
            raise
        self.reached(name, "after")
        self._checkpoint_if_long(is_on_thread=decided is not None)
        return result

    def _begin(self, connection: sqlite3.Connection, decided: "threading.Lock | None") -> None:
        if not self._is_impatient:
            # SQLite would wait up to 100 ms between two attempts, longer the longer it waits, so that processes that come later
            # get the lock first.
            connection.execute("PRAGMA busy_timeout = 0")
            self._is_impatient = True
        end = time.perf_counter() + self._busy_timeout
        while True:
            try:
                connection.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError as error:
                if code_of(error) not in BUSY:
                    raise
                if decided is None:
                    self.repeated["busy"] += 1
                    raise _Waiting from None
                if decided.locked():
                    raise _GivenUp from None
                if time.perf_counter() >= end:
                    raise
                time.sleep(random.random() * _RETRY_SECONDS)  # noqa: S311
            else:
                return

    def _file_identity(self) -> tuple[int, int] | None:
        try:
            found = os.stat(self._absolute)  # noqa: PTH116
        except FileNotFoundError:
            return None
        except OSError:
            # Without the permission for `stat`, assume that the file is the same.
            return self._identity
        return found.st_dev, found.st_ino

    def _check_file(self) -> None:
        """Raise StoreUnavailable if the file was removed or replaced. The check is much faster than a commit."""
        if self._identity is not None and self._file_identity() != self._identity:
            raise file_is_gone(self.path)

    # ------------------------------------------------------------ checkpoints

    def _checkpoint_if_long(self, *, is_on_thread: bool) -> None:
        self._commits += 1
        if self._memory or (self._commits % _COMMITS_BETWEEN_LOOKS and not is_on_thread):
            return
        with contextlib.suppress(OSError):
            size = os.stat(f"{self.path}-wal").st_size  # noqa: PTH116
            if size <= _CHECKPOINT_BYTES or not (self._checkpointing is None or self._checkpointing.done()):
                return
            if is_on_thread:
                # Long writes that follow each other would outrun a checkpoint in the background.
                self._empty_journal()
            else:
                self._checkpointing = self._reading.submit(self._checkpoint)

    def _checkpoint(self) -> None:
        # Errors are ignored, because a later checkpoint moves the same pages.
        with contextlib.suppress(sqlite3.Error, MemologError):
            connection = self._checkpointer()
            connection.execute("PRAGMA wal_checkpoint(PASSIVE)")
            # The journal can be reused from its start only after all its pages are moved into the file. Writers have added a few
            # pages during the first checkpoint, so move these while the gate stops this process from writing. Writes that wait
            # for the gate do so on a worker thread. The journal is not truncated, because writing into allocated blocks takes
            # less time than making a file longer.
            with self._gate:
                connection.execute("PRAGMA wal_checkpoint(PASSIVE)")

    def _empty_journal(self) -> None:
        """Move all pages of the journal into the file and truncate the journal. The caller has the gate."""
        with contextlib.suppress(sqlite3.Error, MemologError):
            self._checkpointer().execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def _checkpointer(self) -> sqlite3.Connection:
        connection = cast("sqlite3.Connection | None", getattr(self._local, "checkpointer", None))
        if connection is None:
            connection = self._local.checkpointer = self._connect(read_only=False)
            connection.execute("PRAGMA busy_timeout = 0")
        return connection

    # ------------------------------------------------------------ the end

    async def close(self) -> None:
        """Wait for running calls and close every connection."""
        if self._closed:
            return
        self._closed = True
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(None, self._shut)

    def _shut(self) -> None:
        self._waiting.shutdown(wait=True)
        self._reading.shutdown(wait=True)
        # SQLite moves the journal into the file when the last connection is closed. Close the writer last, because it may write.
        for connection in reversed(self._connections):
            with contextlib.suppress(sqlite3.Error):
                connection.close()


def _claim(decided: "threading.Lock | None") -> None:
    if decided is not None and not decided.acquire(blocking=False):
        raise _GivenUp


# ---------------------------------------------------------------- steps


def _drive(connection: sqlite3.Connection, script: Script[T], most: int | None = None) -> T:
    """Run a script and return its result. Raise _TooMuch if the rows of a step have more than `most` characters."""
    try:
        step = next(script)
        while True:
            step = script.send(_execute(connection, step, most))
    except StopIteration as end:
        return cast("T", end.value)


def _execute(connection: sqlite3.Connection, step: Step, most: int | None) -> list[Row]:
    statement = step.statement
    if statement.only_locks:
        return []
    # Use numbered parameters, because the names are looked up one by one, which takes as long as reading a row.
    if statement.lists:
        lengths, values = step.flat()
        cursor = connection.execute(statement.numbered("?", lengths), values)
    else:
        text, pick = _numbered(statement)
        if step.many is not None:
            connection.executemany(text, map(pick, step.many))
            return []
        cursor = connection.execute(text, pick(step.values))
    return _fetched(statement, cursor, most)


@cache
def _numbered(statement: Statement) -> tuple[str, Callable[[Values], Any]]:
    """Return the text of a statement without lists, and a function that returns its values in their order."""
    names, text = statement.parameters, statement.numbered("?")
    if len(names) > 1:
        return text, itemgetter(*names)

    def pick(values: Values) -> tuple[object, ...]:
        # With one name, `itemgetter` would return the value itself, not a tuple.
        return tuple(values[name] for name in names)

    return text, pick


# Functions that make named tuples of rows. The columns of a statement are always the same.
_MAKERS: dict[Statement, Callable[[Iterable[Any]], Row]] = {}


def _fetched(statement: Statement, cursor: sqlite3.Cursor, most: int | None) -> list[Row]:
    """Return the rows of a statement. Raise _TooMuch as soon as they have more than `most` characters."""
    make = _MAKERS.get(statement)
    if make is None:
        # Each look at the description makes a tuple for each column.
        if (description := cursor.description) is None:
            return []
        make = _MAKERS[statement] = row_maker(tuple(column[0] for column in description))
    rows: list[Row] = []
    if most is None:
        rows = cursor.fetchall()
    while most is not None and (some := cursor.fetchmany(_ROWS_AT_ONCE)):
        rows += some
        most -= weight_of(some)
        if most < 0:
            cursor.close()
            raise _TooMuch
        if len(some) < _ROWS_AT_ONCE:
            break
    return list(map(make, rows))


def keep_journal(connection: sqlite3.Connection, *, timeout: float) -> None:
    """Switch to a write-ahead journal. Wait at most `timeout` seconds for other processes."""
    for left in range(int(timeout / _RETRY_SECONDS), -1, -1):
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if code_of(error) not in BUSY or not left:
                raise
            time.sleep(_RETRY_SECONDS)
        else:
            return


def is_sealed(path: "str | os.PathLike[str]") -> bool:
    """Return whether the folder is read-only and has no journal. SQLite then cannot create the files that a reader needs."""
    if Path(f"{path}-wal").exists():
        return False
    folder = Path(path).absolute().parent
    return not os.access(folder, os.W_OK, effective_ids=os.access in os.supports_effective_ids)


def code_of(error: sqlite3.Error) -> int:
    """Return the primary result code of an error, which is the lowest byte of the extended result code."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


@contextlib.contextmanager
def mapped_errors(path: str) -> Generator[None]:
    """Convert errors of SQLite to errors of Memolog."""
    try:
        yield
    except sqlite3.Error as error:
        raise mapped(path, error) from error


def mapped(path: str, error: sqlite3.Error) -> MemologError:
    """Return the error of Memolog for an error of SQLite."""
    says = f"SQLite says: {error}."
    code = code_of(error)
    if code in BUSY:
        return StoreBusy(
            f"The database {path} stayed locked.",
            why="Another process is writing to it.",
            then="Try again, or raise busy_timeout.",
        )
    if code == sqlite3.SQLITE_FULL or error.sqlite_errorcode == sqlite3.SQLITE_IOERR_SHMSIZE:
        return StoreFull(
            f"No space is left for {path}.",
            why=says,
            then="Free some space. Nothing of this call was saved.",
        )
    if code in {sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH}:
        return StoreReadOnly(
            f"The database {path} cannot be written to.",
            why=says,
            then="Check the permissions of the file and its folder, or open it with read_only=True.",
        )
    if code == sqlite3.SQLITE_NOTADB:
        return not_a_database(path, says)
    if code == sqlite3.SQLITE_CORRUPT:
        return StoreCorrupt(
            f"The database {path} is damaged.",
            why=says,
            then="Restore a backup, or use the .recover command of the sqlite3 program.",
        )
    if code == sqlite3.SQLITE_CANTOPEN:
        return cannot_open(path, str(error))
    if code == sqlite3.SQLITE_IOERR:
        return StoreUnavailable(f"The disk under {path} failed.", why=says, then="Check the disk, then try again.")
    return StoreCorrupt(
        f"The database {path} refused the operation.",
        why=says,
        then="Nothing was saved by this call. Please report this error, because it should not happen.",
    )


def cannot_open(path: str, why: str) -> StoreUnavailable:
    """Return the error for a file that cannot be opened or created."""
    error = StoreUnavailable(
        f"The database {path} cannot be opened.",
        why=f"SQLite says: {why}.",
        then="Check that the folder exists and that this user may write to it.",
    )
    # A retry cannot succeed: a missing folder does not appear by itself.
    error.retryable = False
    return error


def check_size(path: str) -> None:
    """Raise NotADatabase if the file has a few bytes. SQLite would treat it as an empty database and overwrite it.

    Only the size is read. Opening and closing the file would release the locks that other connections of this process have on it.
    """
    if 0 < Path(path).stat().st_size < _HEADER_BYTES:
        raise not_a_database(path, "The file is too short.")


def not_a_database(path: str, why: str) -> NotADatabase:
    """Return the error for a file that is not a database."""
    return NotADatabase(f"{path} is not a database.", why=why, then="Use another file, or move this one away.")


def file_is_gone(path: str) -> StoreUnavailable:
    """Return the error for a file that was removed or replaced while it was open."""
    error = StoreUnavailable(
        f"The database {path} was removed or replaced while it was open.",
        why="Changes would be written to the removed file and lost.",
        then="Put the file back, or close the Memory and open it again. Nothing of this call was written.",
    )
    # A retry of the call cannot succeed.
    error.retryable = False
    return error
