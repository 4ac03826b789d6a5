"""Tests of the page about decisions and runs: live while a turn runs, and filtered."""

from pathlib import Path

from playwright.async_api import Browser

from memolog import Config, Memory, UserMessage
from memolog.core.config import ObservationConfig
from ui.browser import one_loop, visiting
from ui.conftest import inspecting
from ui.worked import HOSTILE

pytestmark = one_loop


async def test_a_turn_of_another_process_is_seen_as_it_happens(browser: Browser, tmp_path: Path) -> None:
    """The page is not loaded again by hand. Filters by thread and kind show only what they name."""
    path = str(tmp_path / "live.db")
    config = Config(observation=ObservationConfig(message_tokens=400))
    async with Memory(path, config=config) as agent:
        thread = agent.thread("kitchen", resource="alice")
        await thread.save([UserMessage("My sister Nora lives in Oslo.")])
        async with (
            inspecting(path) as (_, listening),
            visiting(browser, listening.url) as watched,
        ):
            await watched.open("/why?resource=alice")
            assert "No run yet" in await watched.page.inner_text("main")
            async with thread.turn() as turn:
                for number in range(12):
                    said = f"Recipe {number}: {'flour, sugar and eggs, ' * 10}"
                    await turn.prepare(said if number else HOSTILE)
                    await turn.record(f"Noted recipe {number}.")
            await agent.settled()
            await watched.page.wait_for_selector(".events .chip:has-text('run ended')")
            await watched.page.wait_for_selector("td .chip.ok:has-text('done')")
            assert await watched.violations() == []
            decided = watched.page.locator(".events li:has-text('decided')")
            assert await decided.count() > 0
            await watched.open("/why?resource=alice&thread=kitchen&kind=runs")
            kinds = await watched.page.locator(".events .chip").all_inner_texts()
            assert set(kinds) <= {"run began", "run ended"}
            await watched.open("/why?resource=alice&kind=failures")
            kinds = await watched.page.locator(".events .chip").all_inner_texts()
            assert set(kinds) <= {"run failed", "recovered", "trimmed"}
            watched.expected = ("404",)
            await watched.open("/why?resource=alice&thread=elsewhere")
            assert await watched.page.inner_text("h1") == "Not found"
