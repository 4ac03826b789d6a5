"""A database in an empty folder for every test of hooks, and an environment without settings of the user."""

from pathlib import Path

import pytest

from hooks.world import Desk
from memolog.apps.hooks import session_start
from memolog.testing import FakeClock


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Remove the settings of the user from the environment."""
    names = "MEMOLOG_DB MEMOLOG_RESOURCE MEMOLOG_HOOKS CLAUDE_PROJECT_DIR CLAUDE_CONFIG_DIR CODEX_HOME"
    for name in names.split():
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("MEMOLOG_HOME", str(tmp_path / "home"))


@pytest.fixture(autouse=True)
def patient_sessions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the start of a session wait for a slow database as long as it takes."""
    monkeypatch.setattr(session_start, "_MAX_SECONDS", 120.0)


@pytest.fixture
def desk(tmp_path: Path, clock: FakeClock) -> Desk:
    """Return a database that does not exist yet."""
    return Desk(address=str(tmp_path / "memory" / "memolog.db"), clock=clock)
