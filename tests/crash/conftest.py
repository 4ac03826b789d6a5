"""A schema of its own for every test here: a killed process may still write while the next test has begun."""

import pytest


@pytest.fixture
def postgres_url(new_postgres_url: str) -> str:
    """Return an address with a schema that does not exist yet."""
    return new_postgres_url
