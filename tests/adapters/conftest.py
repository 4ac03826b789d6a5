"""Every test with a provider fails if a request broke a rule of the providers."""

from collections.abc import Iterator

import pytest

from adapters.rules import FAULTS


@pytest.fixture(autouse=True)
def provider_rules() -> Iterator[None]:
    """Check that no request of the test broke a rule."""
    FAULTS.clear()
    yield
    assert FAULTS == []
