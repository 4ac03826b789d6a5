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
