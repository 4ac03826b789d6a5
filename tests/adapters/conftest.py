"""Every test with a provider fails if a request broke a rule of the providers; a gateway waits for a slow database."""

from collections.abc import Iterator

import pytest

from adapters.rules import FAULTS
from memolog.apps.gateway import app as gateway


@pytest.fixture(autouse=True)
def provider_rules() -> Iterator[None]:
    """Check that no request of the test broke a rule."""
    FAULTS.clear()
    yield
    assert FAULTS == []


@pytest.fixture(autouse=True)
def patient_gateway(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a request wait as long as it takes until the one before it is saved."""
    monkeypatch.setattr(gateway, "_MAX_SAVE_SECONDS", 120.0)
