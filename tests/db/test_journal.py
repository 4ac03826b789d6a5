"""The journal of a SQLite file stays small."""

import asyncio
from pathlib import Path

from memolog import Memory, UserMessage

MOST_BYTES = 8 * 1024 * 1024
LIMIT_SECONDS = 60.0


def _journal_bytes(path: Path) -> int:
    return Path(f"{path}-wal").stat().st_size


async def test_the_journal_stays_small(tmp_path: Path) -> None:
    """After many writes in a row, the journal soon has at most 8 MiB again, although messages are still saved."""
    path = tmp_path / "m.db"
    most = 0
    async with Memory(str(path)) as memory:
        save = (await memory.open()).store.messages.save
        for number in range(40):
            await save("alice", "t1", [UserMessage(f"{number} {place} " * 1_000) for place in range(100)])
            most = max(most, _journal_bytes(path))
        assert most > MOST_BYTES // 2, "the test must write enough for a checkpoint"
        async with asyncio.timeout(LIMIT_SECONDS):
            while _journal_bytes(path) > MOST_BYTES:
                await save("alice", "t1", UserMessage("more"))
                await asyncio.sleep(0.01)
