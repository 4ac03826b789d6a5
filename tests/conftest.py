"""The fixtures of the kit, for every test, and the option `--quick`. Importing `kit.effort` sets the profile of hypothesis."""

from pathlib import Path

import pytest

from kit import effort
from kit.clock import clock, patient_programs, patient_runs, patient_turns, quiet_index
from kit.engines import (
    address,
    engine_name,
    file,
    migrated,
    new_postgres_url,
    open_a_store,
    postgres_server,
    postgres_url,
    schemas,
    store,
)

FIXTURES = (
    address,
    clock,
    engine_name,
    file,
    new_postgres_url,
    open_a_store,
    patient_programs,
    patient_runs,
    patient_turns,
)
DATABASES = (migrated, postgres_server, postgres_url, quiet_index, schemas, store)
__all__ = ["effort"]

# Folders whose tests start other programs, tell long stories or build the site.
NOT_QUICK = frozenset({"adapters", "cli", "crash", "docs", "gateway", "hooks", "mcp_server", "npm", "simulation", "ui"})
HERE = Path(__file__).parent


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option of `make quick`."""
    parser.addoption(
        "--quick", action="store_true", help="only tests of rooms, without a database or with SQLite in RAM"
    )


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """With `--quick`, do not even import the tests of slow folders."""
    inside = collection_path.relative_to(HERE).parts if collection_path.is_relative_to(HERE) else ()
    return True if config.getoption("--quick") and inside and inside[0] in NOT_QUICK else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """With `--quick`, leave out the other engines."""
    if config.getoption("--quick"):
        left_out = [item for item in items if not _is_quick(item)]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if _is_quick(item)]


def _is_quick(item: pytest.Item) -> bool:
    engine = getattr(getattr(item, "callspec", None), "params", {}).get("engine_name", "memory")
    return engine == "memory" and "postgres_server" not in getattr(item, "fixturenames", ())
