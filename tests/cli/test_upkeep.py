"""Forgetting, correcting, undoing and repairing from the command line."""

import asyncio
import os
import shutil
import tempfile
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cli import world
from cli.world import run
from memolog.core.message import UserMessage
from memolog.memory import Memory


def test_a_dry_run_tells_and_leaves(folder: Path) -> None:
    """A dry run reports the numbers that are forgotten afterwards."""
    would = run("forget", "--thread", "notes", "--dry-run", "--json").document
    assert (would["dry_run"], would["threads"]) == (True, ["notes"])
    assert run("status", "--thread", "notes").code == 0
    gone = run("forget", "--thread", "notes", "--yes", "--json").document
    assert (gone["dry_run"], gone["messages"], gone["is_clean"]) == (False, would["messages"], True)
    assert run("status", "--thread", "notes").code == 1
    assert run("status", "--thread", "atlas").code == 0


def test_a_message_and_a_line_are_forgotten_by_their_names(folder: Path) -> None:
    """With --thread, `forget` takes the number of a message and the name of a line. `recall --ids` shows ids."""
    shown = run("recall", "2", "--thread", "notes", "--ids").out
    item = run("recall", "2", "--thread", "notes", "--json").document["items"][0]
    assert item["id"] in shown
    assert item["id"] not in run("recall", "2", "--thread", "notes").out
    assert run("forget", "--message", "2", "--thread", "notes", "--dry-run", "--json").document["messages"] == 1
    assert run("forget", "--message", "99999999999999999999", "-t", "notes", "--dry-run").code == 1
    assert "needs a thread" in run("forget", "--message", "2", "--dry-run").err
    assert "--thread" in run("forget", "--observation", "g1.1", "--dry-run").err
    line = run("log", "--thread", "notes", "--json").document["observations"][0]
    by_id = run("forget", "--observation", line["id"], "--dry-run", "--json").document
    assert run("forget", "--observation", "g1.1", "--thread", "notes", "--dry-run", "--json").document == by_id
    assert by_id["observations"] == [line["id"]] or by_id["observations"] == 1
    assert run("forget", "--observation", "g1.99", "--thread", "notes", "--dry-run").code == 1
    assert run("forget", "--message", "2", "--thread", "notes", "--yes").code == 0
    assert "forgotten" in run("recall", "2", "--thread", "notes").out


def test_everything_of_a_resource(folder: Path) -> None:
    """The resource is gone. The exit code is 1 if nothing is forgotten: without retention settings, and at the second time."""
    assert run("forget", "--retention", "--yes").code == 1
    assert run("forget", "--everything", "--yes").code == 0
    assert run("threads").code == 1
    assert run("forget", "--everything", "--yes", "--resource", "alice").code == 1


def test_a_line_is_named_by_its_place(folder: Path) -> None:
    """A line can be corrected, retracted and reinstated by the name g1.1, which the log shows, or by its id."""
    assert "g1.1" in run("log", "--thread", "notes", "--sources").out
    corrected = run("correct", "g1.1", "The API lives in backend/.", "--thread", "notes", "--json").document
    assert "backend/" in run("log", "--thread", "notes").out
    assert run("retract", corrected["id"], "--thread", "notes").code == 0
    assert "backend/" not in run("log", "--thread", "notes").out
    assert run("reinstate", corrected["id"], "--thread", "notes").code == 0
    assert "backend/" in run("log", "--thread", "notes").out
    assert run("retract", "g9.9", "--thread", "notes").code == 1
    assert run("correct", "g1.1", "x", "--priority", "urgent", "--thread", "notes").code == 2


# ---------------------------------------------------------------- what was condensed comes back


def test_a_generation_comes_back(folder: Path) -> None:
    """The log is as in the old generation, with all later observations. The history is complete, and a revert can be undone."""
    before = run("history", "--json").document["generations"]
    newest = before[-1]["number"]
    assert newest > 1
    made = run("revert", "1", "--json").document
    assert (made["number"], made["kind"], made["restored_from"]) == (newest + 1, "restore", 1)
    assert len(run("history", "--json").document["generations"]) == len(before) + 1
    removed = [line for line in run("diff", "1", "--json").document["diff"].splitlines()[2:] if line.startswith("-")]
    assert removed == []
    assert run("doctor").code == 0
    assert run("revert", str(newest)).code == 0
    assert run("diff", str(newest)).code == 1


def test_a_batch_comes_back(folder: Path) -> None:
    """After an undo, search does not find the summary any more. A second undo fails."""
    (batch,) = run("compactions", "--thread", "notes", "--json").document["compactions"]
    name = f"{batch['span']['first']}-{batch['span']['last']}"
    assert name in run("compactions", "--thread", "notes").out
    assert run("search", "usersRouter", "--source", "compacted").code == 0
    done = run("uncompact", name, "--thread", "notes", "--json").document
    assert [item["id"] for item in done["restored"]] == [batch["id"]]
    assert done["messages"] == batch["messages"] > 0
    assert run("search", "usersRouter", "--source", "compacted").code == 1
    assert "undone" in run("compactions", "--thread", "notes").out
    again = run("uncompact", batch["id"], "--thread", "notes")
    assert again.code == 1
    assert "undone already" in again.err
    assert run("uncompact", "--all", "--thread", "notes").code == 1
    assert run("doctor").code == 0


def test_every_batch_comes_back(folder: Path) -> None:
    """--all undoes every batch of the thread, and no batch of another thread."""
    made = run("compact", "--thread", "atlas", "--json").document["compactions"]
    assert len(made) > 1
    done = run("uncompact", "--all", "--thread", "atlas", "--json").document
    assert {item["id"] for item in done["restored"]} == {item["id"] for item in made}
    assert run("compactions", "--thread", "atlas", "--json").document["compactions"][0]["restored_at"]
    assert not run("compactions", "--thread", "notes", "--json").document["compactions"][0]["restored_at"]


# ---------------------------------------------------------------- the doctor


_NOBODY = 65534


@contextmanager
def unwritable(*paths: Path) -> Generator[None]:
    """Take away the right to write. Root gives up its rights for a while, because they override every permission."""
    is_root = os.geteuid() == 0
    for path in paths:
        path.chmod(path.stat().st_mode & ~0o222 | 0o444)
    if is_root:
        os.seteuid(_NOBODY)
    try:
        yield
    finally:
        if is_root:
            os.seteuid(0)
        for path in paths:
            path.chmod(path.stat().st_mode | 0o200)


@pytest.fixture
def readable(made: Path) -> Iterator[Path]:
    """Return a folder with a copy of the database that every user may read."""
    with tempfile.TemporaryDirectory(prefix="memolog-readable-") as name:
        folder = Path(name)
        shutil.copytree(made, folder, dirs_exist_ok=True)
        with world.inside(folder):
            folder.chmod(0o755)
            for path in folder.rglob("*"):
                path.chmod(0o755 if path.is_dir() else 0o644)
            yield folder


def test_a_database_that_cannot_be_written_is_searched_and_checked(readable: Path) -> None:
    """A search answers from the index and says what is missing, and the doctor checks. Nothing is changed."""
    file = readable / "memolog.db"
    assert run("search", "argon2id").code == 0
    asyncio.run(_say())
    file.chmod(0o644)
    assert not (readable / "memolog.db-wal").exists()
    before = file.read_bytes()
    with unwritable(file, readable):
        found, missed = run("search", "argon2id"), run("search", "zeppelins")
        checked, repair = run("doctor"), run("doctor", "--repair")
        pruned = run("rewind", "1", "--thread", "notes")
    assert (found.code, missed.code) == (0, 1), found.err
    for said in (found, missed):
        assert "1 entry is not in the index yet and was not searched" in said.out
    assert (checked.code, "healthy" in checked.out, "not examined" in checked.out) == (0, True, True), checked.err
    for refused in (repair, pruned):
        assert refused.code == 3
        assert "permissions" in refused.err or "may write" in refused.err
        assert "read_only" not in refused.err
    assert file.read_bytes() == before


async def _say() -> None:
    async with Memory("memolog.db") as memory, memory.thread("notes", resource=world.RESOURCE).turn() as turn:
        await turn.prepare(UserMessage("Zeppelins leave at noon"))


def test_what_is_wrong_is_told_and_repaired(folder: Path) -> None:
    """A claim of ten years is found and repaired, and the database is copied before."""
    assert run("tasks", "claim", "T-1", "--lease", str(10 * 365 * 24 * 3600)).code == 0
    found = run("doctor")
    assert found.code == 1
    assert "--repair" in found.out
    assert "lease" in found.out
    repaired = run("doctor", "--repair", "--json")
    assert repaired.code == 0
    assert Path(repaired.document["copy"]).exists()
    assert run("doctor").code == 0
