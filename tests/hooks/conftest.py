"""A desk for every test of hooks: a database in an empty folder, and an environment without the user's own settings."""

from pathlib import Path

import pytest

from conftest import FakeClock
from hooks.world import Desk


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nothing of the machine's user is read or written."""
    names = "MEMOLOG_DB MEMOLOG_RESOURCE MEMOLOG_HOOKS CLAUDE_PROJECT_DIR CLAUDE_CONFIG_DIR CODEX_HOME"
    for name in names.split():
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("MEMOLOG_HOME", str(tmp_path / "home"))


@pytest.fixture
def desk(tmp_path: Path, clock: FakeClock) -> Desk:
    """Return a database that is not there yet."""
    return Desk(address=str(tmp_path / "memory" / "memolog.db"), clock=clock)
