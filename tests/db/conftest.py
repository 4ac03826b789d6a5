"""A new schema and all migrations for every test here, since these tests are about migrations."""

import pytest


@pytest.fixture
def postgres_url(new_postgres_url: str) -> str:
    """Return an address with a schema that does not exist yet."""
    return new_postgres_url


@pytest.fixture(autouse=True)
def migrated() -> None:
    """Migrate databases in RAM too."""
