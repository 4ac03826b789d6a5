"""Whatever is wrong with a database, the caller gets the right error, nothing is half-saved, and the next call works."""

import asyncio
import contextlib
import os
import random
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

from crash.survivors import check_sound, select
from kit.engines import OpenStore, weigh
from memolog.core.clock import SystemClock, system_chance
from memolog.core.config import Config
from memolog.core.message import NewMessage, UserMessage
from memolog.core.run import Calibration
from memolog.db import postgres
from memolog.db.postgres_address import safe_url
from memolog.db.sqlite import SqliteEngine
from memolog.errors import (
    ConfigError,
    MemologError,
    NotADatabase,
    StoreBusy,
    StoreClosed,
    StoreCorrupt,
    StoreError,
    StoreFull,
    StoreReadOnly,
    StoreUnavailable,
)
from memolog.store import Store, open_store

T = TypeVar("T")

_NOBODY = 65534


async def _open(address: object, **options: Any) -> Store:
    return await open_store(
        str(address), clock=SystemClock(), chance=system_chance, weigh=weigh, config=Config(**options)
    )


async def _fill(address: object, messages: int = 5) -> None:
    async with await _open(address) as store:
        await store.messages.save("r", "t", [UserMessage(f"{number}", id=f"{number}") for number in range(messages)])


async def _count(store: Store) -> int:
    await check_sound(store)
    (rows,) = await select(store, "SELECT COUNT(*) FROM messages")
    return rows[0][0]


# ---------------------------------------------------------------- files that cannot be written to


async def test_a_store_opened_read_only(tmp_path: Path) -> None:
    """Reads work, every write is refused as such, and the file stays as it was."""
    path = tmp_path / "memolog.db"
    await _fill(path)
    before = path.read_bytes()
    async with await _open(path, read_only=True) as store:
        for write in (store.messages.save("r", "t", UserMessage("no")), store.threads.create("r", "new")):
            with pytest.raises(StoreReadOnly):
                await write
            assert await _count(store) == 5
    assert path.read_bytes() == before


async def test_a_missing_file_opened_read_only(tmp_path: Path) -> None:
    """It is not made, and the error says that it cannot be opened."""
    with pytest.raises(StoreUnavailable, match="cannot be opened"):
        await _open(tmp_path / "none.db", read_only=True)
    assert _names(tmp_path) == []


@contextlib.contextmanager
def _unprivileged() -> Generator[None]:
    """Give up root's rights for a while: they override every permission."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(_NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.fixture
async def bound_file() -> AsyncIterator[Path]:
    """Return a database whose permissions bind us while we are unprivileged, in a folder of its own."""
    folder = Path(tempfile.mkdtemp(prefix="memolog-faults-"))
    path = folder / "memolog.db"
    try:
        await _fill(path)
        if os.geteuid() == 0:
            os.chown(path, _NOBODY, _NOBODY)
            os.chown(folder, _NOBODY, _NOBODY)
        yield path
    finally:
        _allow(folder, 0o755)
        shutil.rmtree(folder)


def _allow(path: Path, mode: int) -> None:
    path.chmod(mode)


def _names(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.iterdir())


async def test_a_read_only_file(bound_file: Path) -> None:
    """Writing is refused as such; once the file is writable again, everything works and nothing is missing."""
    with _unprivileged():
        _allow(bound_file, 0o444)
        async with await _open(bound_file) as store:
            with pytest.raises(StoreReadOnly):
                await store.messages.save("r", "t", UserMessage("no"))
            assert await _count(store) == 5
        # The journal has taken its permissions from the file.
        for name in _names(bound_file.parent):
            _allow(bound_file.parent / name, 0o644)
        async with await _open(bound_file) as store:
            await store.messages.save("r", "t", UserMessage("yes"))
            assert await _count(store) == 6


async def test_a_read_only_folder(bound_file: Path) -> None:
    """A folder that takes no new file cannot hold a journal: opening is refused, reading only is possible."""
    folder = bound_file.parent
    with _unprivileged():
        _allow(folder, 0o555)
        with pytest.raises((StoreUnavailable, StoreReadOnly)) as refused:
            await _fill(bound_file)
        assert "folder" in str(refused.value)
        async with await _open(bound_file, read_only=True) as store:
            assert await _count(store) == 5
        assert _names(folder) == [bound_file.name]
        _allow(folder, 0o755)
        async with await _open(bound_file) as store:
            await store.messages.save("r", "t", UserMessage("yes"))
            assert await _count(store) == 6


async def test_a_file_that_may_not_be_read(bound_file: Path) -> None:
    """It cannot be opened, and the error says what to check."""
    with _unprivileged():
        _allow(bound_file, 0o000)
        with pytest.raises(StoreUnavailable, match="this user"):
            await _open(bound_file)


async def test_close_leaves_one_file(tmp_path: Path) -> None:
    """After a clean close the file alone is the database, so that copying it copies everything."""
    path = tmp_path / "memolog.db"
    await _fill(path)
    assert _names(tmp_path) == ["memolog.db"]
    async with await _open(shutil.copy(path, tmp_path / "copy.db")) as store:
        assert await _count(store) == 5


# ---------------------------------------------------------------- a full disk


def _writer(store: Store) -> sqlite3.Connection:
    assert isinstance(store.engine, SqliteEngine)
    return store.engine._writer


@pytest.mark.parametrize("durability", ["normal", "full"])
async def test_a_full_database(tmp_path: Path, durability: str) -> None:
    """Without space a save is refused as a whole; with space again the same save works."""
    async with await _open(tmp_path / "memolog.db", durability=durability) as store:
        await store.messages.save("r", "t", UserMessage("first"))
        pages = _writer(store).execute("PRAGMA page_count").fetchone()[0]
        _writer(store).execute(f"PRAGMA max_page_count = {pages + 2}")
        batch = [UserMessage("x" * 2_000, id=f"{number}") for number in range(50)]
        for _ in range(3):
            with pytest.raises(StoreFull) as refused:
                await store.messages.save("r", "t", batch)
            assert refused.value.retryable
            assert await _count(store) == 1
        _writer(store).execute("PRAGMA max_page_count = 1000000")
        assert (await store.messages.save("r", "t", batch)).added == 50
        assert await _count(store) == 51


def _mount(*arguments: str | Path) -> bool:
    return subprocess.run(["mount", *arguments], check=False, capture_output=True).returncode == 0


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Mount a disk of two megabytes, where that is allowed."""
    if os.geteuid() != 0 or shutil.which("mount") is None:
        pytest.skip("only root can mount a small disk")
    disk = tmp_path / "disk"
    disk.mkdir()
    if not _mount("-t", "tmpfs", "-o", "size=2m", "none", disk):
        pytest.skip("this machine does not allow mounting")
    try:
        yield disk
    finally:
        subprocess.run(["umount", disk], check=True)


async def test_a_full_disk(small_disk: Path) -> None:
    """On a disk that fills up, whole saves are kept and the first one that does not fit is refused; more space mends it."""
    async with await _open(small_disk / "memolog.db") as store:
        saved = await _save_until_full(store)
        assert 0 < saved < 2_000
        assert await _count(store) == saved * 4
        with pytest.raises(StoreFull):
            await store.messages.save("r", "t", _large_batch(saved))
        _mount("-o", "remount,size=16m", small_disk)
        assert (await store.messages.save("r", "t", _large_batch(saved))).added == 4
        assert await _count(store) == saved * 4 + 4


def _large_batch(number: int) -> list[NewMessage]:
    return [UserMessage("x" * 3_000, id=f"{number}.{place}") for place in range(4)]


async def _save_until_full(store: Store) -> int:
    """Return how many batches fit."""
    for number in range(2_000):
        try:
            await store.messages.save("r", "t", _large_batch(number))
        except StoreFull:
            return number
    return 2_000


async def test_opening_on_a_full_disk(small_disk: Path) -> None:
    """Neither a new nor an old file can be opened for writing, which is said; afterwards the old one has everything."""
    await _fill(small_disk / "old.db")
    with contextlib.suppress(OSError), (small_disk / "ballast").open("wb", buffering=0) as ballast:
        for _ in range(10_000):
            ballast.write(b"x" * 4096)
    for name in ("old.db", "new.db"):
        with pytest.raises(StoreFull):
            await _fill(small_disk / name, 8)
    (small_disk / "ballast").unlink()
    async with await _open(small_disk / "old.db") as store:
        assert await _count(store) == 5
    await _fill(small_disk / "new.db")


# ---------------------------------------------------------------- files that are something else


@pytest.mark.parametrize(
    "content",
    [b"x", b"Dear diary,\n", b"Dear diary,\n" * 1_000, random.Random(1).randbytes(20_000), b"\0" * 5_000],
    ids=["a byte", "a short text", "a text", "noise", "zeros"],
)
async def test_a_file_that_is_no_database(tmp_path: Path, content: bytes) -> None:
    """It is refused as such, and not a byte of it changes."""
    path = tmp_path / "notes.txt"
    path.write_bytes(content)
    for read_only in (False, True):
        with pytest.raises(NotADatabase):
            await _open(path, read_only=read_only)
    assert path.read_bytes() == content


async def test_the_database_of_another_application(tmp_path: Path) -> None:
    """It is refused by name, and not a byte of it changes, not even the mode of its journal."""
    path = tmp_path / "other.db"
    with contextlib.closing(sqlite3.connect(path)) as other:
        other.execute("CREATE TABLE invoices (number)")
    before = path.read_bytes()
    with pytest.raises(NotADatabase, match=r"another application.*invoices"):
        await _open(path)
    assert path.read_bytes() == before
    assert _names(tmp_path) == ["other.db"]


@pytest.mark.parametrize("kept", [150, 4096, 20_000, -4096])
async def test_a_truncated_database(tmp_path: Path, kept: int) -> None:
    """A file that was cut off is told to be damaged, and is left as it is for whoever mends it."""
    whole, cut = tmp_path / "whole.db", tmp_path / "cut.db"
    await _fill(whole, 200)
    content = whole.read_bytes()[:kept]
    cut.write_bytes(content)
    with pytest.raises(StoreCorrupt, match="damaged"):
        await _open(cut)
    assert cut.read_bytes() == content


async def test_an_empty_file_becomes_ours(tmp_path: Path) -> None:
    """An empty file, as temporary ones are, is simply used."""
    (tmp_path / "new.db").touch()
    await _fill(tmp_path / "new.db")
    async with await _open(tmp_path / "new.db") as store:
        assert await _count(store) == 5


@pytest.mark.parametrize("name", [".", "missing/memolog.db", "\0"])
async def test_a_path_that_cannot_be_a_file(tmp_path: Path, name: str) -> None:
    """A folder, a missing folder and an impossible name cannot be opened, and no folder is made."""
    with pytest.raises(StoreError, match=r"cannot be opened|is a folder"):
        await _open(f"{tmp_path}/{name}")
    assert _names(tmp_path) == []


# ---------------------------------------------------------------- addresses


@pytest.mark.parametrize("scheme", ["mysql", "redis", "http", "sqlite3", "postgres+asyncpg"])
async def test_an_unknown_scheme(scheme: str) -> None:
    """The error names the scheme and the ones that are known, and not the password."""
    with pytest.raises(ConfigError, match="postgresql://") as refused:
        await _open(f"{scheme}://me:hunter2@127.0.0.1/memolog")
    assert f"{scheme}://" in str(refused.value)
    assert "hunter2" not in str(refused.value)


async def test_nobody_listens(unused_tcp_port: int) -> None:
    """A wrong host or port is told at once, with the address and without the password."""
    with pytest.raises(StoreUnavailable, match=r"127\.0\.0\.1") as refused:
        await _open(f"postgresql://me:hunter2@127.0.0.1:{unused_tcp_port}/memolog")
    assert refused.value.retryable
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    ("right", "wrong"), [("/postgres?", "/nowhere?"), ("postgres:@", "stranger:hunter2@")], ids=["database", "user"]
)
async def test_a_name_that_the_server_does_not_know(postgres_server: str, right: str, wrong: str) -> None:
    """A wrong database or user is told with its name, and never the password."""
    with pytest.raises(StoreUnavailable, match=r"nowhere|stranger") as refused:
        await _open(postgres_server.replace(right, wrong))
    assert "hunter2" not in str(refused.value)


async def test_a_wrong_password(unused_tcp_port: int) -> None:
    """What the server says about a password is passed on, the password is not."""

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        code = int.from_bytes((await reader.readexactly(8))[4:])
        if code == 80877103:  # a request for TLS comes first
            writer.write(b"N")
            await reader.readexactly(8)
        fields = b"SFATAL\0VFATAL\0C28P01\0Mpassword authentication failed\0\0"
        writer.write(b"E" + (len(fields) + 4).to_bytes(4) + fields)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(refuse, "127.0.0.1", unused_tcp_port)
    async with server:
        with pytest.raises(StoreUnavailable, match="authentication failed") as refused:
            await _open(f"postgresql://me:hunter2@127.0.0.1:{unused_tcp_port}/memolog")
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://me:hunter2/7@127.0.0.1:1/db",
        "postgresql://me:hunter2#7@127.0.0.1:1/db",
        "postgresql://me:hunter2?7@127.0.0.1:1/db",
        "postgresql://me:hunt:er2@[::1/db",
        "postgresql://127.0.0.1:1/db?user=me&password=hunter2",
        "postgresql://127.0.0.1:hunter2@/db",
        "postgresql://me:hunter2@127.0.0.1:1/db?schema=no-such",
        "postgresql://me:hunter2@127.0.0.1:1/db?pooler=maybe",
        "postgresql://me:hunter2@127.0.0.1:1/db?sslmode=maybe",
    ],
)
async def test_no_form_of_an_address_gives_its_password_away(address: str) -> None:
    """However the address is written, and whatever is wrong with it, the error is ours and the password is not in it."""
    with pytest.raises((ConfigError, StoreUnavailable)) as refused:
        await _open(address)
    for secret in ("hunter2", "er2"):
        assert secret not in str(refused.value).replace("user", "")
    assert "hunter2" not in safe_url(address)


def test_the_driver_is_missing() -> None:
    """Without asyncpg the error names what to install; SQLite still works."""
    program = """
import asyncio, sys
sys.modules["asyncpg"] = None
from memolog.errors import ConfigError
from memolog.core.clock import SystemClock, system_chance
from memolog.store import open_store

async def main():
    async with await open_store(":memory:", clock=SystemClock(), chance=system_chance, weigh=len) as store:
        await store.threads.create("r", "t")
    try:
        await open_store("postgresql://127.0.0.1:1/db", clock=SystemClock(), chance=system_chance, weigh=len)
    except ConfigError as error:
        print(error)

asyncio.run(main())
"""
    ran = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True, timeout=60)
    assert "memolog[postgres]" in ran.stdout


# ---------------------------------------------------------------- busy databases

_HOLD = """
import sqlite3, sys
held = sqlite3.connect(sys.argv[1], isolation_level=None)
held.execute("BEGIN IMMEDIATE")
print("held", flush=True)
sys.stdin.readline()
held.execute("ROLLBACK")
print("released", flush=True)
"""


@pytest.fixture
def locker() -> Iterator[Any]:
    """Return a function that locks a file from another process; what it returns releases the lock."""
    with contextlib.ExitStack() as stack:

        def lock(path: Path) -> Any:
            command = [sys.executable, "-c", _HOLD, str(path)]
            process = stack.enter_context(
                subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            )
            stack.callback(process.kill)
            assert process.stdin is not None
            assert process.stdout is not None
            assert process.stdout.readline() == "held\n"

            def release() -> None:
                print(file=process.stdin, flush=True)
                assert process.stdout is not None
                assert process.stdout.readline() == "released\n"

            return release

        yield lock


@pytest.mark.parametrize("durability", ["normal", "full"])
async def test_locked_for_too_long(tmp_path: Path, locker: Any, durability: str) -> None:
    """A lock held longer than the busy timeout is told as such, and the next call works."""
    path = tmp_path / "memolog.db"
    async with await _open(path, busy_timeout=0.3, durability=durability) as store:
        await _patiently(lambda: store.messages.save("r", "t", UserMessage("first", id="first")))
        release = locker(path)
        results = await asyncio.gather(
            *(store.messages.save("r", "t", UserMessage("no")) for _ in range(3)), return_exceptions=True
        )
        assert [type(result) for result in results] == [StoreBusy] * 3
        assert await _count(store) == 1
        release()
        await _patiently(lambda: store.messages.save("r", "t", UserMessage("second", id="second")))
        assert await _count(store) == 2


async def test_locked_for_a_while(tmp_path: Path, locker: Any) -> None:
    """A lock that is given back in time is only waited for; the loop, which gives it back, runs on meanwhile."""
    path = tmp_path / "memolog.db"
    async with await _open(path, busy_timeout=120) as store:
        await store.messages.save("r", "t", UserMessage("first"))
        release = locker(path)
        saving = asyncio.create_task(store.messages.save("r", "t", UserMessage("second")))
        await asyncio.sleep(0.1)
        assert not saving.done()
        release()
        assert (await saving).added == 1


async def test_a_file_locked_while_it_is_opened(tmp_path: Path, locker: Any) -> None:
    """A store that is up to date opens beside a writer, and reads."""
    path = tmp_path / "memolog.db"
    await _fill(path)
    release = locker(path)
    async with await _patiently(lambda: _open(path, busy_timeout=0.2)) as store:
        assert await _patiently(lambda: _count(store)) == 5
        release()


async def test_a_row_locked_for_too_long(postgres_url: str) -> None:
    """On PostgreSQL a statement that waits longer than its time limit is told as busy; the next call works."""
    async with (
        await _open(postgres_url) as other,
        await _patiently(lambda: _open(postgres_url, statement_timeout=0.5)) as store,
    ):
        await other.messages.save("r", "t", UserMessage("first"))
        engine: Any = other.engine
        async with engine._connection() as connection, connection.transaction():
            await connection.execute("UPDATE threads SET updated_at = updated_at")
            with pytest.raises(StoreBusy) as refused:
                await store.messages.save("r", "t", UserMessage("no"))
        assert refused.value.retryable
        await _patiently(lambda: store.messages.save("r", "t", UserMessage("second", id="second")))
        assert await _count(other) == 2


async def _patiently(call: Callable[[], Awaitable[T]]) -> T:
    """Make a call again that took longer than its short limit because the machine is busy."""
    async with asyncio.timeout(120):
        while True:
            with contextlib.suppress(StoreBusy):
                return await call()


async def test_all_connections_in_use(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """More tasks than connections queue up and all get through."""
    async with await _open(postgres_url, pool_size=2) as store:
        await asyncio.gather(*(store.messages.save("r", f"t{n % 4}", UserMessage("x")) for n in range(40)))
        assert await _count(store) == 40


# ---------------------------------------------------------------- a server that goes away


async def _end_connections(store: Store) -> int:
    """End every connection of ours on the server, but the one that asks."""
    end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'memolog'"
    (ended,) = await select(store, f"{end} AND pid <> pg_backend_pid()")
    return len(ended)


async def test_the_server_ends_idle_connections(postgres_url: str) -> None:
    """Connections that were ended between two calls are replaced, unseen by the caller, for reads and for writes."""
    async with await _open(postgres_url) as store, await _open(postgres_url, pool_size=1) as other:
        await asyncio.gather(*(store.messages.save("r", f"t{number}", UserMessage("x")) for number in range(6)))
        for number in range(6):
            assert await _end_connections(other) >= 1
            if number % 2:
                await asyncio.sleep(0.05)
            await store.messages.save("r", "t", UserMessage("y"))
        assert await _end_connections(other) >= 1
        assert await _count(store) == 12


async def test_closing_does_not_wait_for_a_connection_that_was_never_released(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A task that was cancelled while it gave a connection back does not keep the store from closing."""
    monkeypatch.setattr(postgres, "_CLOSE_SECONDS", 0.05)
    async with asyncio.timeout(120):
        async with await _open(postgres_url) as store:
            await store.messages.save("r", "t", UserMessage("x"))
            pool = getattr(store.engine, "_pool")  # noqa: B009
            await pool.acquire()
        assert pool.is_closing()


async def test_the_server_ends_a_transaction(postgres_url: str) -> None:
    """A connection that ends inside a transaction costs nothing: the call is run again and saves once."""
    async with await _open(postgres_url) as store, await _open(postgres_url, pool_size=1) as other:
        await store.messages.save("r", "t", UserMessage("first", id="1"))
        engine: Any = other.engine
        async with engine._connection() as connection, connection.transaction():
            await connection.execute("UPDATE threads SET updated_at = updated_at")
            saving = asyncio.create_task(store.messages.save("r", "t", [UserMessage("a"), UserMessage("b")]))
            end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            ended: list[Any] = []
            for _ in range(2_400):
                # Within a transaction the server would show the same moment again and again.
                await connection.execute("SELECT pg_stat_clear_snapshot()")
                ended = await connection.fetch(f"{end} WHERE wait_event_type = 'Lock' AND query LIKE '%threads%'")
                if ended:
                    break
                await asyncio.sleep(0.05)
            assert len(ended) == 1
        assert (await saving).added == 2
        assert await _count(store) == 3


async def test_one_lost_connection_does_not_harm_the_others(postgres_url: str) -> None:
    """While connections are ended again and again, many writers go on: each save is whole, and errors are retryable."""
    async with await _open(postgres_url) as store, await _open(postgres_url, pool_size=1) as other:
        saving = [asyncio.create_task(_save_stubbornly(store, f"w{number}")) for number in range(8)]
        for _ in range(10):
            await asyncio.sleep(0.02)
            await _end_connections(other)
        tries = await asyncio.gather(*saving)
        assert await _count(store) == 8 * 30
        assert sum(tries) < 8 * 30 * 2


async def _save_stubbornly(store: Store, name: str) -> int:
    """Save thirty messages, each until it is saved; return the number of calls."""
    calls = 0
    for number in range(30):
        for _ in range(20):
            calls += 1
            try:
                await store.messages.save("r", name, UserMessage("x", id=f"{name}.{number}"))
                break
            except MemologError as error:
                if not error.retryable:
                    raise
    return calls


async def test_a_connection_lost_in_a_commit_is_told_as_open(postgres_url: str) -> None:
    """Nobody can know whether that commit happened: the error says so, and repeating it under the same id saves once."""
    async with await _open(postgres_url) as store:
        engine: Any = store.engine
        await store.messages.save("r", "t", UserMessage("first"))
        connections: list[Any] = []

        def lose(point: str) -> None:
            if point.endswith(":before") and not connections:
                connections.extend(holder._con for holder in engine._pool._holders if holder._in_use)
                connections[0]._transport.abort()

        engine.commit_hook = lose
        with pytest.raises(StoreUnavailable, match="lost during a commit") as refused:
            await store.messages.save("r", "t", UserMessage("second", id="2"))
        assert refused.value.retryable
        await store.messages.save("r", "t", UserMessage("second", id="2"))
        assert await _count(store) == 2


# ---------------------------------------------------------------- errors that are not the database's


async def test_an_error_of_the_caller_passes_unchanged(store: Store) -> None:
    """What a caller's own function raises inside a transaction reaches the caller as it is, on every engine."""

    def learn(known: Calibration) -> Calibration:
        raise ValueError(known.model)

    with pytest.raises(ValueError, match="some-model"):
        await store.ledger.calibrate("r", "some-model", learn)
    assert (await store.ledger.calibration("r", "some-model")).samples == 0


async def test_a_closed_store_says_so(open_a_store: OpenStore) -> None:
    """Every call after close is refused as such, and closing again is harmless."""
    store = await open_a_store()
    await store.messages.save("r", "t", UserMessage("x"))
    await store.close()
    await store.close()
    for call in (store.messages.save("r", "t", UserMessage("no")), store.threads.count("r")):
        with pytest.raises(StoreClosed):
            await call
