"""A Chromium for the tests of the inspector, and a page that notes whatever a user must never see.

The server and the browser run on one event loop for the whole session, so tests of this folder have the mark `one_loop`.
"""

import json
import os
import shutil
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.async_api import Browser, ConsoleMessage, Page, Request, async_playwright

AXE = Path(__file__).with_name("vendor") / "axe.min.js"
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
# A busy machine may need long for what takes milliseconds elsewhere.
PATIENCE_MS = 120_000
one_loop = pytest.mark.asyncio(loop_scope="session")


def chromium() -> str | None:
    """Return the path of a Chromium, or None. The variable MEMOLOG_CHROMIUM may name one."""
    named = os.environ.get("MEMOLOG_CHROMIUM")
    return named or next((path for name in NAMES if (path := shutil.which(name))), None)


@asynccontextmanager
async def started() -> AsyncGenerator[Browser]:
    """Run a browser while the block runs."""
    path = chromium()
    if path is None:
        pytest.skip("there is no Chromium: sudo apt-get install chromium")
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=path, args=FLAGS)
        try:
            yield browser
        finally:
            await browser.close()


class Watched:
    """A page of a browser that notes errors of its console and requests to other hosts."""

    def __init__(self, page: Page, base: str) -> None:
        self.page, self.base, self.problems = page, base, list[str]()
        # Pages that a test expects to fail are noted by the browser in its console.
        self.expected: tuple[str, ...] = ()
        page.on("console", self._console)
        page.on("pageerror", lambda error: self.problems.append(f"error: {error}"))
        page.on("request", self._request)

    def _console(self, message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"} and not any(words in message.text for words in self.expected):
            self.problems.append(f"console: {message.text}")

    def _request(self, request: Request) -> None:
        if urlsplit(request.url).netloc != urlsplit(self.base).netloc:
            self.problems.append(f"request: {request.url}")

    async def open(self, path: str) -> None:
        """Open a path of the inspector."""
        await self.page.goto(self.base + path)

    async def violations(self, *rules: str) -> list[str]:
        """Return the serious and critical findings of axe on the page as it is, of some rules or of all."""
        options: dict[str, Any] = {"preload": False, "resultTypes": ["violations"]}
        if rules:
            options["runOnly"] = list(rules)
        found: Any = await self.page.evaluate(f"{AXE.read_text('utf-8')}; axe.run({json.dumps(options)})")
        return [
            f"{one['id']}: {one['help']}: {node['html'][:200]} ({node.get('failureSummary', '')[:200]})"
            for one in found["violations"]
            if one["impact"] in {"serious", "critical"}
            for node in one["nodes"]
        ]


@asynccontextmanager
async def visiting(browser: Browser, url: str, **options: Any) -> AsyncGenerator[Watched]:
    """Enter an inspector with a new profile while the block runs. At the end fail if something went wrong in the page."""
    # axe is evaluated in the page, which its policy for scripts would refuse.
    context = await browser.new_context(bypass_csp=False, **options)
    try:
        page = await context.new_page()
        page.set_default_timeout(PATIENCE_MS)
        parts = urlsplit(url)
        watched = Watched(page, f"{parts.scheme}://{parts.netloc}")
        await page.goto(url)
        yield watched
        assert watched.problems == []
    finally:
        await context.close()
