"""Every page on every engine, without a browser."""

from collections.abc import AsyncIterator

import httpx
import pytest
import pytest_asyncio

from kit.engines import engines
from memolog import AssistantMessage, Memory, UserMessage
from memolog.apps.ui.app import PAGES
from ui.conftest import TOKEN, inspecting

engine_name = engines("sqlite", "postgres")


@pytest_asyncio.fixture
async def client(address: str) -> AsyncIterator[httpx.AsyncClient]:
    """Return a client that was let in, on a database with one conversation."""
    async with Memory(address) as memory:
        thread = memory.thread("t1", resource="alice")
        for number in range(3):
            async with thread.turn() as turn:
                await turn.prepare(UserMessage(f"I decided that part {number} is green."))
                await turn.record(AssistantMessage("Noted."))
        await thread.observe()
        await memory.resource("alice").index()
        line = next(iter(await thread.log())).id
        async with (
            inspecting(address) as (_, at),
            httpx.AsyncClient(base_url=at.base, trust_env=False, timeout=120, follow_redirects=True) as made,
        ):
            made.params = {"resource": "alice", "thread": "t1", "line": line}
            assert (await made.get("/", params={"token": TOKEN})).status_code == 200
            yield made


@pytest.mark.parametrize("path", [page.path for page in PAGES if page.is_listed])
async def test_a_page(client: httpx.AsyncClient, path: str) -> None:
    """The page answers on this engine."""
    answer = await client.get(path, params={"q": "green", "ref": "g1"})
    assert answer.status_code == 200, answer.text
    assert "alice" in answer.text


async def test_words_of_the_conversation(client: httpx.AsyncClient) -> None:
    """The pages show what was said."""
    for path in ("/thread", "/context", "/search", "/recall"):
        assert "part" in (await client.get(path, params={"q": "green", "ref": "g1"})).text


@pytest.mark.parametrize("value", ["-1", "9223372036854775808", "9" * 5000, "first", "0001-01-01T00:00+14:00"])
async def test_an_address_with_nonsense(client: httpx.AsyncClient, value: str) -> None:
    """A number or a moment that cannot be is said to be wrong. The page does not fail."""
    for path, name in (
        ("/thread", "at"),
        ("/thread", "before"),
        ("/context", "n"),
        ("/time", "before"),
        ("/time", "below"),
        ("/time", "at"),
        ("/why", "before"),
        ("/working-memory", "before"),
        ("/cost", "days"),
    ):
        answer = await client.get(path, params={name: value})
        assert answer.status_code == 400, (path, name, answer.text)
        assert f"`{name}` must be" in answer.text
    answer = await client.get("/time", params={"old": value, "new": "1"})
    assert answer.status_code == 400, answer.text
