"""The demo's database, an inspector on it, and a browser: each made once for all tests of a worker."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Browser

from memolog import Memory
from memolog.apps.demo.play import Demo
from memolog.apps.demo.screen import Screen
from memolog.apps.ui import Listening, UiSettings, serve
from ui.browser import Watched, started, visiting
from ui.worked import worked

TOKEN = "a-token-of-the-tests-0123456789"


@asynccontextmanager
async def inspecting(address: str, **settings: Any) -> AsyncGenerator[tuple[Memory, Listening]]:
    """Serve the inspector of a database while the block runs."""
    options: dict[str, Any] = {"every": 0.05, **settings}
    chosen = UiSettings(token=TOKEN, **options)
    async with (
        Memory(address) as memory,
        serve(memory, chosen, port=0) as listening,
    ):
        yield memory, listening


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def demo(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Play the demo once, and return the path of its database. Tests only read it."""
    path: Path = tmp_path_factory.mktemp("demo") / "demo.db"
    await Demo(str(path), Screen(quiet=True)).play()
    return str(path)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def used(demo: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the path of a copy of the demo's database with tasks, working memory and costs. Tests only read it."""
    return await worked(demo, str(tmp_path_factory.mktemp("used") / "used.db"))


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def inspector(demo: str) -> AsyncIterator[Listening]:
    """Serve the demo's database."""
    async with inspecting(demo) as (_, listening):
        yield listening


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncIterator[Browser]:
    """Start one browser. Each test has a profile of its own in it."""
    async with started() as running:
        yield running


@pytest_asyncio.fixture(loop_scope="session")
async def visit(browser: Browser, inspector: Listening) -> AsyncIterator[Watched]:
    """Enter the inspector of the demo's database."""
    async with visiting(browser, inspector.url) as watched:
        yield watched
