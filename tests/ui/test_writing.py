"""Tests of the forms of an inspector that may write, each used as a person would, with what the library says afterwards."""

import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

import httpx
import pytest_asyncio
from playwright.async_api import Browser

from memolog import Memory
from memolog.apps.ui import UiSettings
from memolog.core.observation import Observation, Span
from ui.browser import Watched, one_loop, visiting
from ui.conftest import TOKEN, inspecting
from ui.worked import HOSTILE, RESOURCE, THREAD

pytestmark = one_loop


class Desk(NamedTuple):
    """An inspector that may write, a page in it, and the memory that it serves."""

    memory: Memory
    watched: Watched
    base: str

    async def line(self, words: str) -> Observation:
        """Return the observation of the log that has some words."""
        log = await self.memory.thread(THREAD, resource=RESOURCE).log()
        return next(one for one in log if words in one.text)


@pytest_asyncio.fixture(loop_scope="session")
async def desk(used: str, browser: Browser, tmp_path: Path) -> AsyncIterator[Desk]:
    """Serve a copy of the database, so that a test may change it."""
    path = str(tmp_path / "desk.db")
    shutil.copy(used, path)
    async with (
        inspecting(path, write=True) as (memory, listening),
        visiting(browser, listening.url) as watched,
    ):
        yield Desk(memory, watched, listening.base)


async def test_an_observation_is_corrected_retracted_and_reinstated(desk: Desk) -> None:
    """The page leads from what the log says to who said it. A correction has the same sources and a way back."""
    watched, page = desk.watched, desk.watched.page
    line = (await desk.memory.thread(THREAD, resource=RESOURCE).log())[0]
    await watched.open(f"/observation?resource={RESOURCE}&thread={THREAD}&id={line.id}")
    assert line.text in await page.inner_text(".statement")
    assert await page.locator(".quote").count() > 0
    assert await watched.violations() == []
    await page.fill("[name=text]", HOSTILE)
    await page.click("text=Correct >> nth=-1")
    await page.wait_for_function("document.querySelector('.statement').innerText.includes('alert(1)')")
    assert await watched.violations() == []
    (made,) = [one for one in await desk.memory.thread(THREAD, resource=RESOURCE).log() if one.text == HOSTILE]
    assert made.sources == line.sources
    assert line.id not in {one.id for one in await desk.memory.thread(THREAD, resource=RESOURCE).log()}
    await page.click("text=Corrected from >> a")
    await page.click("main button:has-text('Reinstate')")
    await page.wait_for_selector("text=Retract >> nth=0")
    assert line.id in {one.id for one in await desk.memory.thread(THREAD, resource=RESOURCE).log()}
    await page.click("button:has-text('Retract')")
    await page.wait_for_selector("button:has-text('Reinstate')")
    assert line.id not in {one.id for one in await desk.memory.thread(THREAD, resource=RESOURCE).log()}


async def test_from_a_belief_to_its_correction(desk: Desk) -> None:
    """Who wonders why the agent believes something needs a search, two clicks and the right words."""
    page = desk.watched.page
    await desk.watched.open("/")
    await page.fill("#q", "late fee never more than 8 euros")
    await page.press("#q", "Enter")
    await page.click("text=correct it >> nth=0")
    await page.wait_for_url("**/observation?**")
    assert "late fee" in (await page.inner_text(".statement")).lower()
    assert "8 euros" in await page.inner_text(".quote >> nth=0")
    await page.fill("[name=text]", "The late fee is capped at 10 euros a loan.")
    await page.click("button:has-text('Correct')")
    await page.wait_for_selector(".statement:has-text('10 euros')")
    context = await desk.memory.thread(THREAD, resource=RESOURCE).context()
    assert "capped at 10 euros" in context.system


async def test_a_corrected_line_says_who_wrote_it(desk: Desk) -> None:
    """It is not said to be observed. It is shown in its thread also where a reflection has merged it."""
    watched, page = desk.watched, desk.watched.page
    old = (await desk.memory.thread(THREAD, resource=RESOURCE).log_page(messages=Span(first=17, last=17))).lines[0]
    assert old.state == "superseded"
    await watched.open(f"/observation?resource={RESOURCE}&thread={THREAD}&id={old.id}")
    await page.fill("[name=text]", "The late fee is capped at 10 euros a loan.")
    await page.click("button:has-text('Correct')")
    await page.wait_for_selector("text=Written by a person. Corrected from")
    assert await page.locator("text=In the log since").count() == 0
    await page.click("text=Show it in its thread")
    await page.wait_for_selector(".log .line[aria-current]:has-text('10 euros')")
    await page.wait_for_selector("#sources:has-text('A person corrected it.')")
    # It stands where the model sees it, although it has the last number of its group.
    thread = desk.memory.thread(THREAD, resource=RESOURCE)
    seen = [one.id for one in await thread.log()]
    beside = await thread.log_page(messages=Span(first=10, last=30))
    assert [one.id for one in beside.lines if one.id in seen] == [
        one for one in seen if one in {line.id for line in beside.lines}
    ]
    # From the message, the line that the model sees is in view.
    await watched.open(f"/thread?resource={RESOURCE}&thread={THREAD}&at=17&log=messages")
    lines = page.locator(".log .line.lit")
    assert await lines.count() >= 2
    present = page.locator(".log .line.lit:not(.gone):has-text('10 euros')")
    top, column = await present.bounding_box(), await page.locator(".log").bounding_box()
    assert top is not None
    assert column is not None
    assert column["y"] <= top["y"] < column["y"] + column["height"]


async def test_forgetting_shows_what_goes_and_wants_its_name(desk: Desk) -> None:
    """A wrong name forgets nothing. The right one forgets the thread, with everything made from it."""
    watched, page = desk.watched, desk.watched.page
    watched.expected = ("400",)
    resource = desk.memory.resource(RESOURCE)
    would = await resource.forget(thread="web", dry_run=True)
    await watched.open(f"/time?resource={RESOURCE}&thread=web")
    await page.click("text=Forget the thread")
    await page.wait_for_url("**/forget?*")
    assert f"{would.messages}" in await page.inner_text("dl")
    assert await watched.violations() == []
    await page.fill("[name=typed]", "wed")
    await page.click("button.grave")
    await page.wait_for_selector("[role=alert]")
    assert await watched.violations() == []
    assert "web" in {one.id for one in (await resource.threads()).items}
    await page.fill("[name=typed]", "web")
    await page.click("button.grave")
    await page.wait_for_selector("h1:has-text('Forgotten')")
    assert "web" not in {one.id for one in (await resource.threads()).items}


async def test_what_is_forgotten_is_shown_by_its_words_and_by_its_exact_name(desk: Desk) -> None:
    """Nobody knows an observation by its id. A name with several spaces can be typed as the page shows it."""
    watched, page = desk.watched, desk.watched.page
    line = (await desk.memory.thread(THREAD, resource=RESOURCE).log())[0]
    await watched.open(f"/forget?resource={RESOURCE}&thread={THREAD}&what=observation&id={line.id}")
    assert line.text in await page.inner_text("blockquote")
    message = (await desk.memory.thread(THREAD, resource=RESOURCE).messages(limit=1, before=2)).items[0]
    await watched.open(f"/forget?resource={RESOURCE}&thread={THREAD}&what=message&id={message.id}")
    assert " ".join(message.text.split())[:100] in await page.inner_text("blockquote")
    name = "Invoices of  ACME "
    await desk.memory.thread(name, resource=RESOURCE).save("A bill.")
    await watched.open(f"/forget?resource={RESOURCE}&what=thread&thread={quote(name)}")
    await page.fill("[name=typed]", "Invoices of ACME")
    await page.click("button.grave")
    await page.wait_for_selector("h1:has-text('Forgotten')")
    assert "The thread Invoices of ACME of mira is gone" in " ".join((await page.inner_text("main")).split())


async def test_two_people_correct_the_same_line(desk: Desk) -> None:
    """The second is told what happened, and sees the words that were written. So with a task and the working memory."""
    line = (await desk.memory.thread(THREAD, resource=RESOURCE).log())[1]
    task = (await desk.memory.resource(RESOURCE).tasks().list(limit=1)).items[0].handle
    first, second = desk.watched, await desk.watched.page.context.new_page()
    first.expected = ("409",)
    about = f"resource={RESOURCE}&thread={THREAD}"
    for path, field, button, told in (
        (f"/observation?{about}&id={line.id}", "text", "Correct", "Somebody has corrected or retracted this line"),
        (f"/task?{about}&task={task}", "title", "Save", "It was changed after it was read"),
        (f"/working-memory?{about}", "text", "Save as a new version", "Both changed"),
    ):
        await second.goto(f"{desk.base}{path}")
        await first.open(path)
        for page, words in ((first.page, "# Library\nOurs."), (second, "# Library\nTheirs, with some thought.")):
            await page.fill(f"main [name={field}]", words)
            await page.click(f"main button:has-text('{button}')")
            await page.wait_for_load_state()
        await second.wait_for_selector(f"text={told}")
        assert await second.inner_text("h1") == "Not possible now"
        if field == "text" and "id=" in path:
            assert "Theirs, with some thought." in await second.inner_text("main")


async def test_tasks_and_the_working_memory_are_changed(desk: Desk) -> None:
    """A task is created, edited, claimed, closed and reopened. The working memory gets a new version, and an old one again."""
    page, resource = desk.watched.page, desk.memory.resource(RESOURCE)
    await desk.watched.open(f"/tasks?resource={RESOURCE}")
    await page.fill("[name=title]", "Order bulbs")
    await page.fill("[name=blocked_by]", "T-3")
    await page.click("text=Create")
    await page.wait_for_url("**/task?*")
    (task,) = await resource.tasks().find("Order bulbs")
    assert task.blocked
    assert await desk.watched.violations() == []
    await page.fill("[name=other]", "T-3")
    await page.click("text=Remove")
    await page.wait_for_selector("button:has-text('Claim')")
    await page.click("button:has-text('Claim')")
    await page.wait_for_selector("button:has-text('Release')")
    await page.fill("[name=summary]", "Ordered 12")
    await page.click("button:has-text('Close the task')")
    await page.wait_for_selector("button:has-text('Reopen')")
    assert (await resource.tasks().get(task.id)).summary == "Ordered 12"
    await page.click("button:has-text('Reopen')")
    await page.wait_for_selector("button:has-text('Claim')")
    assert {change.who for change in (await resource.tasks().history(task.id)).items} == {"inspector"}

    await desk.watched.open(f"/working-memory?resource={RESOURCE}")
    await page.fill("[name=text]", "# Library\n\n- Closed on Sundays\n")
    await page.click("text=Save as a new version")
    await page.wait_for_selector("h2:has-text('Version 4')")
    document = await resource.working_memory().read()
    assert document is not None
    assert (document.current.text, document.current.by) == ("# Library\n\n- Closed on Sundays\n", "inspector")
    assert await desk.watched.violations() == []
    await page.click("[aria-label='Restore version 1']")
    await page.wait_for_selector("h2:has-text('Version 5')")


async def test_a_thread_is_observed_and_a_generation_is_restored(desk: Desk) -> None:
    """After observing nothing is left in the tail. A restored generation is a new one, so this can be undone too."""
    page, thread = desk.watched.page, desk.memory.thread(THREAD, resource=RESOURCE)
    await desk.watched.open(f"/time?resource={RESOURCE}&thread={THREAD}")
    await page.click("text=Observe now")
    await page.wait_for_url("**note=**")
    status = await thread.status()
    assert status.cursor == (await thread.info()).last_seq
    before = (await thread.history())[-1].number
    await page.click("[aria-label='Restore generation 1']")
    await page.wait_for_selector(f"td:has-text('{before + 1} now')")
    last = (await thread.history())[-1]
    assert (last.kind, last.restored_from) == ("restore", 1)
    assert await desk.watched.violations() == []


async def test_each_form_needs_write_and_its_token(used: str, tmp_path: Path) -> None:
    """Every address that changes something refuses a form without the token, and any form if the inspector only reads."""
    from memolog.apps.ui.app import PAGES

    paths = [page.path for page in PAGES if "POST" in page.methods]
    assert {"/observation/correct", "/forget", "/task/create", "/working-memory/change"} <= set(paths)
    path = str(tmp_path / "refused.db")
    shutil.copy(used, path)
    for write in (True, False):
        async with (
            inspecting(path, write=write) as (memory, listening),
            httpx.AsyncClient(base_url=listening.base, trust_env=False, timeout=120) as client,
        ):
            await client.get("/", params={"token": TOKEN})
            before = await memory.revision()
            csrf = {} if write else {"x-csrf-token": UiSettings(token=TOKEN).csrf}
            for one in paths:
                about = {"resource": RESOURCE, "thread": THREAD, "what": "thread", "task": "T-3", "id": "x"}
                answer = await client.post(
                    one, params=about, headers={"origin": listening.base, **csrf}, data={"typed": THREAD, "text": "x"}
                )
                assert answer.status_code == 403, one
            assert await memory.revision() == before
