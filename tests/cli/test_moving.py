"""Export, import, backup and restore from the command line."""

from pathlib import Path

import pytest

from cli.world import run


def lines_of(path: Path) -> list[str]:
    """Return the lines of an export without its header, which contains the time of the export."""
    return path.read_text("utf-8").splitlines()[1:]


def test_an_export_comes_back_exactly(folder: Path) -> None:
    """An export of an imported export has the same lines. A second import changes nothing."""
    assert run("export", "one.jsonl").code == 0
    first = run("import", "one.jsonl", "--db", "new.db", "--json").document
    assert first["added"]["message"] > 0
    assert run("export", "two.jsonl", "--db", "new.db").code == 0
    assert lines_of(folder / "one.jsonl") == lines_of(folder / "two.jsonl")
    again = run("import", "one.jsonl", "--db", "new.db", "--json").document
    assert not any(again["added"].values())
    assert "everything exists already" in run("import", "one.jsonl", "--db", "new.db").out


def test_an_export_can_be_piped(folder: Path) -> None:
    """A dash means standard output, which then has only the export."""
    assert run("export", "one.jsonl").code == 0
    assert run("export", "-").out.splitlines()[1:] == lines_of(folder / "one.jsonl")
    assert run("export", "-", "--json").code == 2


def test_a_dry_run_imports_nothing(folder: Path) -> None:
    """A dry run reports the numbers and creates no database."""
    told = run("import", "alice.jsonl", "--db", "new.db", "--dry-run", "--json").document
    assert told["dry_run"]
    assert told["added"]["message"] > 0
    assert not (folder / "new.db").exists()
    again = run("import", "alice.jsonl", "--dry-run", "--json").document
    assert not any(again["added"].values())


def test_an_import_is_indexed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A search finds everything, although it would not index anything itself."""
    monkeypatch.setattr("memolog.search.search._MOST_INDEXED", 0)
    assert run("import", "alice.jsonl", "--db", "new.db").code == 0
    found = run("search", "argon2id", "--db", "new.db", "--json").document
    assert (found["total"] > 0, found["unindexed"]) == (True, 0)


def test_a_folder_may_hold_exports(folder: Path) -> None:
    """Exports contain their resource. Other files need --resource. Files in an unknown format are reported."""
    archive = folder / "archive"
    archive.mkdir()
    assert run("export", "archive/alice.jsonl").code == 0
    done = run("import", "archive", "--db", "new.db", "--json").document
    assert (done["format"], done["resources"]) == ("memolog-export", ["alice"])
    assert run("export", "again.jsonl", "--db", "new.db").code == 0
    assert lines_of(folder / "again.jsonl") == lines_of(archive / "alice.jsonl")
    (archive / "a.json").write_text("{}")
    (archive / "talk.json").write_text('[{"role": "user", "content": "Hello"}]')
    assert run("import", "archive", "--db", "new.db").code == 2
    mixed = run("import", "archive", "--db", "new.db", "--resource", "alice", "--json").document
    assert mixed["added"] == {"thread": 1, "message": 1}
    assert mixed["unchanged"] == done["added"]
    assert [item["where"] for item in mixed["skipped"]] == ["a.json"]


def test_a_backup_comes_back(folder: Path) -> None:
    """A restore removes later changes, and keeps the replaced database under another name."""
    assert run("backup", "now.db").code == 0
    assert run("tasks", "create", "Later").code == 0
    count = len(run("tasks", "list", "--json").document["items"])
    assert run("restore", "now.db").code == 2
    restored = run("restore", "now.db", "--overwrite", "--json").document
    assert len(run("tasks", "list", "--json").document["items"]) == count - 1
    assert len(run("tasks", "list", "--json", "--db", restored["kept"]).document["items"]) == count
    before = (folder / "now.db").read_bytes()
    assert run("backup", "now.db").code == 2
    assert (folder / "now.db").read_bytes() == before
    assert run("backup", "now.db", "--overwrite").code == 0
    assert run("status", "--db", "now.db").code == 0


def test_a_log_as_markdown(folder: Path) -> None:
    """The log of one thread is written as Markdown to a file or to standard output."""
    done = run("export", "notes.md", "--markdown", "--thread", "notes", "--json").document
    page = (folder / "notes.md").read_text("utf-8")
    assert (done["thread"], done["bytes"]) == ("notes", len(page.encode()))
    lines = run("log", "--thread", "notes", "--json").document["observations"]
    assert lines
    assert all(line["text"] in page for line in lines)
    assert run("export", "-", "--markdown", "--thread", "notes").out == page
    assert run("export", "notes.md", "--markdown", "--thread", "notes").code == 2
    assert run("export", "notes.md", "--markdown", "--thread", "atlas", "--overwrite").code == 0
    assert (folder / "notes.md").read_text("utf-8") != page
