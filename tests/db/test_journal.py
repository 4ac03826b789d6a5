"""The journal of a SQLite file stays small."""

import asyncio
from pathlib import Path

from memolog import Memory, UserMessage

MOST_BYTES = 8 * 1024 * 1024
LIMIT_SECONDS = 60.0


async def test_the_journal_stays_small(tmp_path: Path) -> None:
    """After many writes in a row, the journal soon has at most 8 MiB again, although messages are still saved."""
    path = tmp_path / "m.db"
    journal = Path(f"{path}-wal")
    most = 0
    async with Memory(str(path)) as memory:
        save = (await memory.open()).store.messages.save
        for number in range(40):
            await save("alice", "t1", [UserMessage(f"{number} {place} " * 1_000) for place in range(100)])
            most = max(most, journal.stat().st_size)
        assert most > MOST_BYTES // 2, "the test must write enough for a checkpoint"
        async with asyncio.timeout(LIMIT_SECONDS):
            while journal.stat().st_size > MOST_BYTES:
                await save("alice", "t1", UserMessage("more"))
                await asyncio.sleep(0.01)
