"""Draw the screenshots of the inspector, on the database of the demo. Run by `make docs`; without a Chromium the pictures stay.

The clock stands still at the end of the demo and ids are those of the demo, so that a picture changes only with its page.
"""

import asyncio
import os
import shutil
import tempfile
from datetime import timedelta
from pathlib import Path

from playwright.async_api import async_playwright

from memolog import Memory
from memolog.apps.demo.play import Demo
from memolog.apps.demo.screen import Screen
from memolog.apps.ui import UiSettings, serve

HERE = Path(__file__).parent
FOLDER = HERE / "screenshots"
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"]
OF = "resource=mira&thread=api"
# The name of the picture, the address, the scheme of colours, and what is selected on the page.
PICTURES = (
    ("overview", "/", "light", ""),
    ("thread", f"/thread?{OF}&at=16&log=messages", "light", ".log .line.high:not(.gone):has-text('late fee') a"),
    ("context", f"/context?{OF}&n=100", "light", ""),
    ("search", "/search?q=late+fee&resource=mira", "light", ".hit summary"),
    ("dark", f"/thread?{OF}", "dark", ".log .line.high a"),
)


async def draw() -> None:
    """Play the demo, and write the pictures."""
    path = os.environ.get("MEMOLOG_CHROMIUM") or next((found for name in NAMES if (found := shutil.which(name))), None)
    if path is None:
        print(
            "The screenshots of the inspector stay as they are: there is no Chromium (sudo apt-get install chromium)."
        )
        return
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        demo = Demo(f"{folder}/demo.db", Screen(quiet=True))
        await demo.play()
        demo.clock.time += timedelta(minutes=20)
        settings = UiSettings(token="a-token-of-the-screenshots")  # noqa: S106
        async with (
            Memory(demo.address, clock=demo.clock) as memory,
            serve(memory, settings, port=0) as at,
            async_playwright() as playwright,
        ):
            browser = await playwright.chromium.launch(executable_path=path, args=FLAGS)
            for name, address, scheme, selected in PICTURES:
                context = await browser.new_context(
                    viewport={"width": 1240, "height": 760},
                    color_scheme="dark" if scheme == "dark" else "light",
                    timezone_id="UTC",
                )
                page = await context.new_page()
                await page.goto(at.url)
                await page.goto(f"{at.base}{address}")
                if selected:
                    await page.locator(selected).first.click()
                    await page.wait_for_timeout(500)
                    await page.evaluate("window.scrollTo(0, 0)")
                await page.screenshot(path=FOLDER / f"{name}.png")
                await context.close()
            await browser.close()


if __name__ == "__main__":
    asyncio.run(draw())
