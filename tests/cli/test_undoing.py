"""What was condensed can be undone from the command line: a generation of the log, a batch of messages."""

from pathlib import Path

from cli.world import run


def test_a_generation_comes_back(folder: Path) -> None:
    """The log is what it was, with what was observed since; nothing of the history is lost, and it can be undone too."""
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
    """Undone once it is undone; what stood for its messages is gone from the index, and their own words are there."""
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
    """--all undoes what is in force in the thread, and leaves other threads alone."""
    made = run("compact", "--thread", "atlas", "--json").document["compactions"]
    assert len(made) > 1
    done = run("uncompact", "--all", "--thread", "atlas", "--json").document
    assert {item["id"] for item in done["restored"]} == {item["id"] for item in made}
    assert run("compactions", "--thread", "atlas", "--json").document["compactions"][0]["restored_at"]
    assert not run("compactions", "--thread", "notes", "--json").document["compactions"][0]["restored_at"]
