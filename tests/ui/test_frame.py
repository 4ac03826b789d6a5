"""Tests of the frame in a browser: it loads nothing from elsewhere, follows light and dark, and fits a phone."""

from playwright.async_api import Browser

from memolog.apps.ui import Listening
from ui.browser import Watched, one_loop, visiting

pytestmark = one_loop


async def test_the_page_has_a_frame_and_no_serious_violation(visit: Watched) -> None:
    """The first Tab leads past the navigation. The token is not in the address of the page."""
    page = visit.page
    assert await page.title() == "Overview · Memolog"
    assert "token" not in page.url
    await page.keyboard.press("Tab")
    await page.keyboard.press("Enter")
    assert page.url.endswith("#main")
    assert await visit.violations() == []


async def test_a_missing_page_and_a_missing_resource_are_said_in_plain_words(visit: Watched) -> None:
    """An error page has the frame, so that the reader finds the way back."""
    visit.expected = ("404", "400")
    await visit.open("/missing")
    assert await visit.page.inner_text("h1") == "Not found"
    await visit.page.click("main a")
    assert await visit.page.inner_text("h1") == "Overview"


async def test_dark_mode_and_a_phone(browser: Browser, inspector: Listening) -> None:
    """Colours follow the system, and nothing is wider than a screen of 400 pixels."""
    seen: list[str] = []
    for scheme in ("light", "dark"):
        size = {"width": 400, "height": 800}
        async with visiting(browser, inspector.url, color_scheme=scheme, viewport=size) as watched:
            page = watched.page
            seen.append(await page.evaluate("getComputedStyle(document.body).backgroundColor"))
            assert await page.evaluate("document.documentElement.scrollWidth") <= 400
    assert seen[0] != seen[1]
