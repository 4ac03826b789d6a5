"""A folder with a prepared database for every test of the command line."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from cli import world


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder that all others are copies of."""
    folder = tmp_path_factory.mktemp("made")
    world.build(folder)
    return folder


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Iterator[Path]:
    """Work in a folder of this test's own, with a database in it."""
    world.copy(made, tmp_path)
    with world.inside(tmp_path):
        yield tmp_path
