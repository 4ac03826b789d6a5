"""A folder with a prepared database for every test of the command line."""

import asyncio
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli import world
from evaluation.samples import write_samples


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder that is copied for every test."""
    folder = tmp_path_factory.mktemp("made")
    asyncio.run(world.build(folder / "memolog.db"))
    write_samples(folder)
    return folder


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Iterator[Path]:
    """Work in a folder with a copy of the database."""
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    with world.inside(tmp_path):
        yield tmp_path


@pytest.fixture
def in_berlin() -> Iterator[None]:
    """Use the time zone of Berlin as that of this machine."""
    with world.local_zone("Europe/Berlin"):
        yield
