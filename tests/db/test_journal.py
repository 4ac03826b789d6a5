"""The journal of a SQLite file stays small."""

import random
import sqlite3
from contextlib import closing
from pathlib import Path

from kit.clock import until
from memolog import Memory, UserMessage

MOST_BYTES = 8 * 1024 * 1024


def _journal_bytes(path: Path) -> int:
    return Path(f"{path}-wal").stat().st_size


async def test_short_writes_leave_a_small_journal(tmp_path: Path) -> None:
    """They are made on the event loop, and a worker thread empties the journal: soon, although messages are still saved."""
    path = tmp_path / "m.db"
    chance = random.Random(1)
    async with Memory(str(path)) as memory:
        store = (await memory.open()).store

        async def saves_until_small() -> bool:
            for _ in range(100):
                await store.messages.save("alice", "t1", UserMessage(f"{chance.getrandbits(20_000):x}"))
            return path.stat().st_size > MOST_BYTES and _journal_bytes(path) <= MOST_BYTES // 2

        await until(saves_until_small)


async def test_long_writes_in_a_row_leave_a_small_journal(tmp_path: Path) -> None:
    """The worker thread that makes them empties the journal itself, so the journal is small after each of them."""
    path = tmp_path / "m.db"
    chance = random.Random(1)
    async with Memory(str(path)) as memory:
        store = (await memory.open()).store
        for _ in range(20):
            # Random digits cannot be compressed much.
            messages = [UserMessage(f"{chance.getrandbits(80_000):x}") for _ in range(100)]
            await store.messages.save("alice", "t1", messages)
            assert _journal_bytes(path) <= MOST_BYTES
        assert path.stat().st_size > 2 * MOST_BYTES, "the test must write enough for several checkpoints"
        await memory.resource("alice").forget()
        assert _journal_bytes(path) <= MOST_BYTES


async def test_the_journal_is_small_again_after_a_long_read(tmp_path: Path) -> None:
    """While another program reads an old snapshot, the journal must grow. After that, the next writes make it small again."""
    path = tmp_path / "m.db"
    chance = random.Random(1)
    async with Memory(str(path)) as memory:
        store = (await memory.open()).store

        async def save() -> None:
            messages = [UserMessage(f"{chance.getrandbits(80_000):x}") for _ in range(100)]
            await store.messages.save("alice", "t1", messages)

        await save()
        with closing(sqlite3.connect(path, isolation_level=None)) as reader:
            reader.execute("BEGIN")
            assert reader.execute("SELECT COUNT(*) FROM messages").fetchone() == (100,)
            for _ in range(10):
                await save()
            assert _journal_bytes(path) > MOST_BYTES
        await save()
        assert _journal_bytes(path) <= MOST_BYTES
