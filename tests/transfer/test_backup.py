"""Backups: online, of one moment, and never over something else unasked."""

import asyncio
from pathlib import Path

import pytest

from conftest import FakeClock
from memolog import restore_backup
from memolog.domain.errors import InputError, MemologError
from memolog.domain.message import UserMessage
from transfer.world import memory_at


async def said(path: Path, clock: FakeClock) -> list[str]:
    """Return what a database holds."""
    async with memory_at(str(path), clock) as memory:
        return [m.text for m in await (await memory.open()).store.messages.after("alice", "t1")]


async def test_a_backup_while_others_write(clock: FakeClock, tmp_path: Path) -> None:
    """The copy is a prefix of what was written, whole and readable; writing goes on."""
    async with memory_at(str(tmp_path / "m.db"), clock) as memory:
        store = (await memory.open()).store

        async def write() -> None:
            for number in range(300):
                await store.messages.save("alice", "t1", UserMessage(f"message {number}"))
                await asyncio.sleep(0)

        writing = asyncio.create_task(write())
        await asyncio.sleep(0.02)
        size = await memory.backup(tmp_path / "copy.db")
        await writing
        with pytest.raises(InputError, match="exists already"):
            await memory.backup(tmp_path / "copy.db")
    assert size > 0
    copied = await said(tmp_path / "copy.db", clock)
    assert copied == [f"message {number}" for number in range(len(copied))]
    assert len(await said(tmp_path / "m.db", clock)) == 300
    assert not (tmp_path / "copy.db.partial").exists()


async def test_restoring(clock: FakeClock, tmp_path: Path) -> None:
    """Into a new file at once; over an old one only when asked, and that one is kept."""
    live, copy = tmp_path / "m.db", tmp_path / "copy.db"
    async with memory_at(str(live), clock) as memory:
        store = (await memory.open()).store
        await store.messages.save("alice", "t1", UserMessage("one"))
        await memory.backup(copy)
        await store.messages.save("alice", "t1", UserMessage("two"))
    assert restore_backup(copy, tmp_path / "new.db") is None
    assert await said(tmp_path / "new.db", clock) == ["one"]
    with pytest.raises(InputError, match="overwrite=True"):
        restore_backup(copy, live)
    assert await said(live, clock) == ["one", "two"]
    kept = restore_backup(copy, live, overwrite=True)
    assert kept is not None
    assert (await said(live, clock), await said(kept, clock)) == (["one"], ["one", "two"])


async def test_what_is_no_backup(clock: FakeClock, tmp_path: Path) -> None:
    """A missing, foreign or damaged file is refused before anything is touched."""
    (tmp_path / "text.db").write_text("no database at all " * 100)
    for name in ("nowhere.db", "text.db"):
        with pytest.raises(MemologError):
            restore_backup(tmp_path / name, tmp_path / "new.db")
    async with memory_at(":memory:", clock) as memory:
        with pytest.raises(InputError, match="Export it instead"):
            await memory.backup(tmp_path / "copy.db")
    assert not (tmp_path / "new.db").exists()


async def test_a_log_for_people(clock: FakeClock, tmp_path: Path) -> None:
    """Markdown by date, with marks and what each line comes from."""
    async with memory_at(str(tmp_path / "m.db"), clock, model=None) as memory:
        async with memory.turn("t1", "alice") as turn:
            await turn.prepare(UserMessage("I decided to use PostgreSQL 18 for the billing service."))
        assert "Nothing has been observed" in await memory.export_markdown("t1", "alice")
        await memory.observe("t1", "alice")
        text = await memory.export_markdown("t1", "alice")
    assert "## 2026-03-14" in text
    assert "PostgreSQL 18" in text
    assert "*[t1 1-1]*" in text
