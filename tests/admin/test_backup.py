"""Backups: online, of one moment, and never over something else unasked."""

import asyncio
import contextlib
import html
import re
import sqlite3
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import markdown
import pytest
from markdown_it import MarkdownIt

from admin.lived_in import memory_at, names_in
from memolog import restore_backup
from memolog.admin.export import log_as_markdown
from memolog.core.message import UserMessage
from memolog.core.observation import Observation, Source, Span
from memolog.errors import InputError, MemologError, StoreCorrupt
from memolog.testing import FakeClock


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
        async with memory.thread("t1", resource="alice").turn() as turn:
            await turn.prepare(UserMessage("I decided to use PostgreSQL 18 for the billing service."))
        assert "Nothing has been observed" in await memory.thread("t1", resource="alice").export_markdown()
        await memory.thread("t1", resource="alice").observe()
        text = await memory.thread("t1", resource="alice").export_markdown()
    assert "## 2026-03-14" in text
    assert "PostgreSQL 18" in text
    assert "*[t1 1-1]*" in text


# ---------------------------------------------------------------- who may read a copy, and what stands in its way


def mode(path: Path) -> int:
    """Return who may read and write a file."""
    return path.stat().st_mode & 0o777


async def filled(path: Path, clock: FakeClock) -> None:
    """Make a database that only its owner may read."""
    async with memory_at(str(path), clock) as memory:
        await (await memory.open()).store.messages.save("alice", "t1", UserMessage("one"))
    await asyncio.to_thread(path.chmod, 0o600)


async def test_copies_are_as_private_as_what_they_copy(clock: FakeClock, tmp_path: Path) -> None:
    """Backup, restore, what was there before a restore or a repair: all 0600. An export is always."""
    live, copy, export = tmp_path / "m.db", tmp_path / "copy.db", tmp_path / "all.jsonl"
    await filled(live, clock)
    async with memory_at(str(live), clock) as memory:
        await memory.backup(copy)
        await memory.export(export)
        with contextlib.closing(sqlite3.connect(live)) as connection:
            connection.execute("UPDATE threads SET last_seq = last_seq + 5")
            connection.commit()
        report = await memory.doctor(repair=True)
        assert report.copy is not None
        assert mode(Path(report.copy)) == 0o600
    restore_backup(copy, tmp_path / "new.db")
    kept = restore_backup(copy, live, overwrite=True)
    assert kept is not None
    assert [mode(path) for path in (copy, export, tmp_path / "new.db", kept, live)] == [0o600] * 5
    live.chmod(0o640)
    async with memory_at(str(live), clock) as memory:
        await memory.backup(tmp_path / "shared.db")
    assert mode(tmp_path / "shared.db") == 0o640


@pytest.mark.parametrize("planted", ["copy.db", "copy.db.partial"])
async def test_nothing_is_written_through_a_link(clock: FakeClock, tmp_path: Path, planted: str) -> None:
    """Neither under the name itself, also if the link leads nowhere yet, nor under one that it might have on the way."""
    await filled(tmp_path / "m.db", clock)
    victim = tmp_path / "victim.txt"
    for there in (True, False):
        if there:
            victim.write_text("mine")
        (tmp_path / planted).unlink(missing_ok=True)
        (tmp_path / planted).symlink_to(victim)
        async with memory_at(str(tmp_path / "m.db"), clock) as memory:
            for write in (memory.backup, memory.export):
                if planted == "copy.db":
                    with pytest.raises(InputError, match="exists already"):
                        await write(tmp_path / "copy.db")
                else:
                    await write(tmp_path / "copy.db")
                    (tmp_path / "copy.db").unlink()
                assert victim.exists() is there
                assert (tmp_path / planted).is_symlink()
        if planted == "copy.db" and not there:
            await filled(tmp_path / "b.db", clock)
            for overwrite in (False, True):
                with pytest.raises(InputError):
                    restore_backup(tmp_path / "b.db", tmp_path / "copy.db", overwrite=overwrite)
            assert not victim.exists()
        if there:
            assert victim.read_text() == "mine"
            victim.unlink()


async def test_an_export_replaces_nothing_unasked(clock: FakeClock, tmp_path: Path) -> None:
    """A file that is there stays, unless that is allowed; a link in its place is replaced and not followed."""
    await filled(tmp_path / "m.db", clock)
    target, other = tmp_path / "all.jsonl", tmp_path / "other.txt"
    other.write_text("mine")
    target.symlink_to(other)
    async with memory_at(str(tmp_path / "m.db"), clock) as memory:
        with pytest.raises(InputError, match="overwrite=True"):
            await memory.export(target)
        await memory.export(target, overwrite=True)
    assert (other.read_text(), target.is_symlink(), mode(target)) == ("mine", False, 0o600)
    assert names_in(tmp_path) == ["all.jsonl", "m.db", "other.txt"]


# ---------------------------------------------------------------- a database that somebody has prepared

TRIGGER = "CREATE TRIGGER evil AFTER INSERT ON messages BEGIN DELETE FROM threads WHERE id = 'other'; END"
PREPARED = {
    "a trigger": TRIGGER,
    "a view": "CREATE VIEW evil AS SELECT * FROM messages",
    "an index": "CREATE UNIQUE INDEX evil ON messages (role)",
    "an index of words": "CREATE VIRTUAL TABLE \"x(x) VALUES('x'); DROP TABLE usage; --\" USING fts5(a)",
    "a column": "ALTER TABLE threads ADD COLUMN evil TEXT DEFAULT 'x'",
    "a trigger that is missing": "DROP TRIGGER {guard}",
    "an index that is missing": "DROP INDEX {index}",
    "a trigger that says it is a table": (
        "INSERT INTO sqlite_master (type, name, tbl_name, rootpage, sql) "
        f"VALUES ('table', 'evil', 'evil', 0, '{TRIGGER.replace(chr(39), chr(39) * 2)}')"
    ),
    "another statement": "UPDATE sqlite_master SET sql = replace(sql, 'forgotten', 'forgotted') WHERE name = 'messages'",
}


@pytest.mark.parametrize("what", PREPARED)
async def test_a_prepared_database_is_neither_opened_nor_restored(clock: FakeClock, tmp_path: Path, what: str) -> None:
    """Extra triggers and views, changed tables, missing guards: refused by name before anything of it runs."""
    path = tmp_path / "m.db"
    await filled(path, clock)
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        (guard,) = connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger' LIMIT 1").fetchone()
        (index,) = connection.execute(
            "SELECT name FROM sqlite_master WHERE type = 'index' AND sql > '' LIMIT 1"
        ).fetchone()
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute(PREPARED[what].format(guard=guard, index=index))
    before = path.read_bytes()
    # SQLite itself finds some of them, depending on its release.
    refused = "is not the one that Memolog makes|malformed database schema"
    with pytest.raises(StoreCorrupt, match=refused):
        async with memory_at(str(path), clock) as memory:
            await memory.open()
    with pytest.raises(StoreCorrupt, match=refused):
        restore_backup(path, tmp_path / "new.db")
    assert path.read_bytes() == before
    assert not (tmp_path / "new.db").exists()


async def test_tables_of_others_are_left_alone(clock: FakeClock, tmp_path: Path) -> None:
    """Tools that copy a database as it grows keep a table of theirs in it, and statistics are nobody's."""
    path = tmp_path / "m.db"
    await filled(path, clock)
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("CREATE TABLE _others_seq (id INTEGER PRIMARY KEY, seq INTEGER)")
        connection.execute("ANALYZE")
    assert await said(path, clock) == ["one"]


async def test_a_schema_is_not_trusted_where_a_file_is_only_looked_at(clock: FakeClock, tmp_path: Path) -> None:
    """Readers and copies run with `trusted_schema` off; a writer needs it for the index, after the schema was compared."""
    await filled(tmp_path / "m.db", clock)
    async with memory_at(str(tmp_path / "m.db"), clock) as memory:
        engine = (await memory.open()).store.engine
        assert engine._reader.execute("PRAGMA trusted_schema").fetchone() == (0,)  # type: ignore[attr-defined]


# ---------------------------------------------------------------- Markdown


HOSTILE = (
    "<script>alert(1)</script>",
    "![x](https://evil.example/pixel.png)",
    "[click](javascript:alert(1))",
    "\\[click](javascript:alert(1))",
    "\\\\![x](https://evil.example/p)",
    "<img src=x onerror=alert(1)>",
    "<javascript:alert(1)>",
    "&#60;script&#62;alert(1)&lt;/script&gt;",
    "![x][r]\n\n[r]: https://evil.example/p",
    "# heading\n<iframe src=//evil.example>",
    "`` ` `` ![a](https://evil.example/b) `",
    "[[page]] ![[file]] <!-- x --> <?php ?> <![CDATA[x]]>",
)


@pytest.mark.parametrize("text", HOSTILE)
def test_nothing_that_was_said_is_markup(text: str) -> None:
    """Rendered by a reader that allows everything, a log has no tag, link or image that it did not have without the text."""
    line = Observation(
        id="o1",
        group="g1",
        ordinal=1,
        priority="high",
        text=text,
        verbatim=f"{text}\n\n{text}",
        said_at=datetime(2026, 3, 14, tzinfo=UTC),
        sources=(Source(thread=" ".join(text.split())[:60], span=Span(first=1, last=2)),),
    )
    child = replace(line, parent=1)
    page = log_as_markdown(text, (line, child))
    for rendered in (MarkdownIt("commonmark", {"html": True}).render(page), markdown.markdown(page)):
        found = set(re.findall(r"<[/!?]*(\w+)", rendered))
        assert found <= {"h1", "h2", "ul", "li", "p", "em", "pre", "code"}
        if "`" not in text:
            assert html.unescape(re.sub("<[^>]*>", "", rendered)).count(" ".join(text.split())) >= 3
