"""The doctor's exit code is the answer to whether all is well."""

from pathlib import Path

from cli.world import run


def test_a_healthy_database(folder: Path) -> None:
    """Nothing is found on a database that has been used."""
    done = run("doctor", "--json")
    assert (done.code, done.document["healthy"], done.document["findings"]) == (0, True, [])
    assert done.document["examined"]["messages"] > 0
    assert "healthy" in run("doctor", "--resource", "alice").out


def test_what_is_wrong_is_told_and_repaired(folder: Path) -> None:
    """A claim that would last for ten years is found; after the repair, with its copy, all is well."""
    assert run("tasks", "claim", "T-1", "--lease", str(10 * 365 * 24 * 3600)).code == 0
    found = run("doctor")
    assert found.code == 1
    assert "--repair" in found.out
    assert "lease" in found.out
    repaired = run("doctor", "--repair", "--json")
    assert repaired.code == 0
    assert Path(repaired.document["copy"]).exists()
    assert run("doctor").code == 0


def test_a_misspelt_resource_is_not_healthy(folder: Path) -> None:
    """Nobody is told that all is well about nothing at all."""
    done = run("doctor", "--resource", "nobody-at-all")
    assert done.code == 1
    assert "nobody-at-all has no memory" in done.err
