"""Servers wait for clients as long as a busy machine needs."""

import pytest

from memolog.apps.mcp import subscriptions


@pytest.fixture(autouse=True)
def patient_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a client take a notification whenever it is ready."""
    monkeypatch.setattr(subscriptions, "_PATIENCE", 120.0)
