"""Forgetting and correcting from the command line: asked for twice, told in numbers, and done."""

from pathlib import Path

import pytest

from cli.world import run


def test_it_asks_before_it_forgets(folder: Path) -> None:
    """Without a terminal to ask at and without --yes nothing goes."""
    done = run("forget", "--thread", "notes")
    assert done.code == 2
    assert "--yes" in done.err
    assert run("status", "--thread", "notes").code == 0


def test_a_dry_run_tells_and_leaves(folder: Path) -> None:
    """What would go is told, and is what then goes."""
    would = run("forget", "--thread", "notes", "--dry-run", "--json").document
    assert (would["dry_run"], would["threads"]) == (True, ["notes"])
    assert run("status", "--thread", "notes").code == 0
    gone = run("forget", "--thread", "notes", "--yes", "--json").document
    assert (gone["dry_run"], gone["messages"], gone["is_clean"]) == (False, would["messages"], True)
    assert run("status", "--thread", "notes").code == 1
    assert run("status", "--thread", "atlas").code == 0


def test_everything_of_a_resource(folder: Path) -> None:
    """The resource is gone, and asking again answers no."""
    assert run("forget", "--everything", "--yes").code == 0
    assert run("threads").code == 1
    assert run("forget", "--everything", "--yes", "--resource", "alice").code == 1


@pytest.mark.parametrize(
    "line", ["forget --yes", "forget --everything --thread notes --yes", "forget --retention --everything --yes"]
)
def test_what_is_to_be_forgotten_must_be_clear(folder: Path, line: str) -> None:
    """Nothing, or two things at once, is refused."""
    assert run(*line.split()).code == 2
    assert run("status", "--thread", "notes").code == 0


def test_retention_without_settings_forgets_nothing(folder: Path) -> None:
    """Ages are set on purpose: without them the answer is no."""
    assert run("forget", "--retention", "--yes").code == 1


def test_a_line_is_named_by_its_place(folder: Path) -> None:
    """What the log shows as g1.1 can be corrected, taken back and brought back under that name."""
    assert "g1.1" in run("log", "--thread", "notes", "--sources").out
    corrected = run("correct", "g1.1", "The API lives in backend/.", "--thread", "notes", "--json").document
    assert "backend/" in run("log", "--thread", "notes").out
    assert run("retract", corrected["id"], "--thread", "notes").code == 0
    assert "backend/" not in run("log", "--thread", "notes").out
    assert run("reinstate", corrected["id"], "--thread", "notes").code == 0
    assert "backend/" in run("log", "--thread", "notes").out
    assert run("retract", "g9.9", "--thread", "notes").code == 1
    assert run("correct", "g1.1", "x", "--priority", "urgent", "--thread", "notes").code == 2
