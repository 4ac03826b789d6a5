"""Tests of the pages about what is stored: tasks, working memory, cost and the doctor."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from playwright.async_api import Browser

from ui.browser import Watched, one_loop, visiting
from ui.conftest import inspecting
from ui.worked import RESOURCE

pytestmark = one_loop

PATHS = [
    f"/tasks?resource={RESOURCE}",
    f"/tasks?resource={RESOURCE}&state=open",
    f"/task?resource={RESOURCE}&task=T-3",
    f"/task?resource={RESOURCE}&task=T-7",
    f"/working-memory?resource={RESOURCE}&old=1",
    f"/cost?resource={RESOURCE}",
    f"/cost?resource={RESOURCE}&thread=api&of=thread&days=7",
    f"/why?resource={RESOURCE}",
    f"/time?resource={RESOURCE}&thread=api&old=1&new=2",
    f"/time?resource={RESOURCE}&thread=api&at=2026-03-06T12:00",
    f"/doctor?resource={RESOURCE}&check=yes",
]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def url(used: str) -> AsyncIterator[str]:
    """Serve the database in which people have worked, and return the address."""
    async with inspecting(used) as (_, listening):
        yield listening.url


@pytest_asyncio.fixture(loop_scope="session")
async def page(browser: Browser, url: str) -> AsyncIterator[Watched]:
    """Enter it with a wide screen."""
    async with visiting(browser, url) as watched:
        yield watched


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_each_page_is_readable_on_a_phone_and_shows_hostile_text_as_text(
    browser: Browser, url: str, scheme: str
) -> None:
    """No serious violation, nothing wider than the screen, no element that a stored text has made, no form that writes."""
    size = {"width": 400, "height": 800}
    async with visiting(browser, url, color_scheme=scheme, viewport=size) as watched:
        for path in PATHS:
            await watched.open(path)
            assert await watched.violations() == [], path
            assert await watched.page.evaluate("document.documentElement.scrollWidth") <= 400, path
            assert await watched.page.locator("main script, main img, form[method=post]").count() == 0, path


async def test_the_board_leads_to_a_task_through_the_graph(page: Watched) -> None:
    """A box of the graph is a link. The task says what it waits for, and shows its messages with their place."""
    await page.open(PATHS[0])
    assert await page.page.locator(".board section").all_inner_texts() != []
    arrows = page.page.locator(".graph .arrow")
    assert await arrows.count() == 4
    await page.page.locator(".graph a", has_text="T-5").click()
    await page.page.wait_for_url("**/task?*T-5*")
    assert "T-3" in await page.page.inner_text("main")
    await page.page.locator(".graph a", has_text="T-3").click()
    await page.page.wait_for_url("**/task?*T-3*")
    assert await page.page.locator(".quote").count() == 3
    link = await page.page.locator(".quote a").first.get_attribute("href")
    assert link == f"/thread?resource={RESOURCE}&thread=api&at=4"


async def test_versions_of_the_working_memory_are_compared(page: Watched) -> None:
    """The difference shows what was added and what was removed. Any two versions can be chosen."""
    await page.open(f"/working-memory?resource={RESOURCE}")
    await page.page.click("text=what it changed >> nth=1")
    await page.page.wait_for_url("**old=1**")
    assert await page.page.inner_text(".diff .cut") == "-- Late fee: 50 cents a day"
    assert await page.page.inner_text(".diff .add") == "+- Late fee: 20 cents a day"
    await page.page.fill("[name=new]", "3")
    await page.page.click("main button")
    await page.page.wait_for_url("**new=3**")
    assert await page.page.locator(".diff .add").count() == 2


async def test_the_doctor_looks_only_when_asked(page: Watched) -> None:
    """Opening the page reads nothing. After the button it says what was examined."""
    await page.open("/doctor")
    assert "healthy" not in await page.page.inner_text("main")
    await page.page.click("main button")
    await page.page.wait_for_url("**check=yes**")
    assert "healthy" in await page.page.inner_text("main")


async def test_the_log_is_compared_between_generations_and_shown_as_it_was(page: Watched) -> None:
    """A mark on the time line leads to what its generation changed. A date shows the log of that date, without later lines."""
    await page.open(f"/time?resource={RESOURCE}&thread=api")
    assert await page.page.locator("polyline").count() == 2
    assert await page.page.locator(".timeline circle").count() > 3
    await page.page.locator(".timeline a").nth(1).click()
    await page.page.wait_for_url("**old=1&new=2")
    assert await page.page.locator(".diff .add").count() > 0
    assert await page.page.locator(".diff .cut").count() > 0
    await page.page.fill("[name=at]", "2026-03-06T12:00")
    await page.page.click("button:has-text('Show')")
    await page.page.wait_for_url("**at=**")
    then = await page.page.inner_text("main .card >> nth=0")
    assert "Date: 2026-03-0" in then
    assert "Date: 2026-03-09" not in then
