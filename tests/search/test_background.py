"""The index is brought up to date in the background, and a search with too much to index says what is missing."""

import asyncio
from collections.abc import Iterator
from unittest.mock import patch

import pytest

from contract.raw_sql import run_sql
from kit.clock import until
from kit.engines import a_memory
from kit.talk import RESOURCE, hold, save_texts, store_of
from memolog import Config, Memory
from memolog.search import background, search
from memolog.testing import FakeClock

memory = a_memory()


@pytest.fixture
def eager(quiet_index: None) -> Iterator[None]:
    """Begin to index in the background after a short pause."""
    with patch.object(background, "IDLE_SECONDS", 0.01), patch.object(background, "BUSY_SECONDS", 0.05):
        yield


async def waiting(memory: Memory) -> int:
    """Return the number of threads and rows that wait to be indexed."""
    store = await store_of(memory)
    counts = await run_sql(
        store, "SELECT (SELECT COUNT(*) FROM search_behind) + (SELECT COUNT(*) FROM search_queue) AS waiting"
    )
    return int(str(counts[0][0]))


async def is_paid(memory: Memory) -> bool:
    """Return whether nothing waits to be indexed."""
    return await waiting(memory) == 0


async def has_documents(memory: Memory) -> bool:
    """Return whether something is indexed."""
    return (await run_sql(await store_of(memory), "SELECT COUNT(*) FROM search_docs")) != [(0,)]


# ---------------------------------------------------------------- in the background


@pytest.mark.usefixtures("eager")
async def test_what_is_written_is_indexed_without_a_search(memory: Memory) -> None:
    """Messages, observations and tasks of several resources, more than one batch of them."""
    await save_texts(memory, "many", *(f"whale number {number}" for number in range(100)))
    await hold(memory, "My name is Ada and I live in Berlin.", "Noted.")
    await memory.thread("t1", resource=RESOURCE).observe()
    await memory.resource("bob").tasks().create("Count the whales")
    await until(lambda: is_paid(memory))
    store = await store_of(memory)
    sources = await run_sql(store, "SELECT source, COUNT(*) FROM search_docs GROUP BY source ORDER BY source")
    counts = {str(source): int(str(count)) for source, count in sources}
    assert counts["raw"] == 102
    assert counts["task"] == 1
    assert counts["observation"] >= 1
    # What is written later is indexed too.
    await save_texts(memory, "later", "another whale")
    await until(lambda: is_paid(memory))


@pytest.mark.usefixtures("eager")
async def test_what_an_earlier_process_left_is_indexed(address: str, clock: FakeClock, engine_name: str) -> None:
    """The next process that writes indexes it."""
    if engine_name == "memory":
        pytest.skip("it is gone with its process")
    with patch.object(background, "IDLE_SECONDS", 3_600.0):
        async with Memory(address, clock=clock) as first:
            await save_texts(first, "t", "the blue whale")
            assert await waiting(first) == 1
    async with Memory(address, clock=clock) as second:
        await save_texts(second, "t", "another whale", resource="bob")
        await until(lambda: is_paid(second))


@pytest.mark.usefixtures("eager")
async def test_closing_in_the_middle(address: str, clock: FakeClock, engine_name: str) -> None:
    """Nothing is indexed twice or left out."""
    if engine_name == "memory":
        pytest.skip("it is gone with its process")
    async with Memory(address, clock=clock) as memory:
        await save_texts(memory, "t", *(f"whale {number}" for number in range(300)))
        await until(lambda: has_documents(memory))
    with patch.object(background, "IDLE_SECONDS", 3_600.0):
        async with Memory(address, clock=clock) as memory:
            await memory.resource(RESOURCE).index()
            assert (await memory.resource(RESOURCE).search("whale")).total == 300


@pytest.mark.usefixtures("eager")
async def test_a_busy_process_indexes_too(memory: Memory) -> None:
    """It never pauses, and still the index follows."""
    number = 0

    async def saves_and_has_documents() -> bool:
        nonlocal number
        number += 1
        await save_texts(memory, "t", f"whale {number}")
        return await has_documents(memory)

    await until(saves_and_has_documents)


@pytest.mark.usefixtures("eager")
async def test_settling_leaves_no_task(memory: Memory) -> None:
    """It ends the task that indexes after its batch. The rest is indexed after the next pause."""
    await save_texts(memory, "t", *(f"whale {number}" for number in range(300)))
    await until(lambda: has_documents(memory))
    await memory.settled()
    assert asyncio.all_tasks() == {asyncio.current_task()}
    await until(lambda: is_paid(memory))


@pytest.mark.usefixtures("eager")
async def test_closing_leaves_no_task(address: str, clock: FakeClock) -> None:
    """Neither while rows are indexed nor while a pause runs."""
    async with Memory(address, clock=clock) as memory:
        await save_texts(memory, "t", *(f"whale {number}" for number in range(300)))
        await until(lambda: has_documents(memory))
    async with Memory(address, clock=clock) as memory:
        await save_texts(memory, "t", "another whale")
    assert asyncio.all_tasks() == {asyncio.current_task()}


@pytest.mark.usefixtures("eager")
async def test_a_search_that_leaves_rows_is_a_reason_to_index(
    address: str, clock: FakeClock, engine_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that only searches indexes the rest."""
    if engine_name == "memory":
        pytest.skip("it is gone with its process")
    monkeypatch.setattr(search, "_MOST_INDEXED", 1)
    with patch.object(background, "IDLE_SECONDS", 3_600.0):
        async with Memory(address, clock=clock) as first:
            await save_texts(first, "t", *(f"whale {number}" for number in range(300)))
    async with Memory(address, clock=clock) as second:
        assert (await second.resource(RESOURCE).search("whale")).unindexed > 0
        await until(lambda: is_paid(second))


async def test_a_reader_indexes_nothing(memory: Memory, address: str, clock: FakeClock, engine_name: str) -> None:
    """It cannot write."""
    if engine_name == "memory":
        pytest.skip("nobody else can open it")
    await save_texts(memory, "t", "the blue whale")
    async with Memory(address, clock=clock, config=Config(read_only=True)) as reader:
        assert (await reader.open()).indexer is None
        assert (await reader.resource(RESOURCE).search("whale")).unindexed == 1


# ---------------------------------------------------------------- a search with much to index


async def test_a_search_indexes_only_so_much_and_says_what_is_missing(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next searches index more, until nothing is missing."""
    monkeypatch.setattr(search, "_MOST_INDEXED", 100_000)
    for thread in range(10):
        await save_texts(memory, f"t{thread}", *(f"whale {thread} {number}" for number in range(60)))
    found = await memory.resource(RESOURCE).search("whale", limit=1)
    assert 0 < found.total < 600
    assert found.total + found.unindexed == 600
    assert 0 < found.behind <= 10
    seen = [found.unindexed]
    while seen[-1]:
        found = await memory.resource(RESOURCE).search("whale", limit=1)
        seen.append(found.unindexed)
    assert seen == sorted(set(seen), reverse=True)
    assert (found.total, found.behind) == (600, 0)


async def test_everything_is_indexed_at_once_if_asked(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    """`index` has no limit."""
    monkeypatch.setattr(search, "_MOST_INDEXED", 0)
    await save_texts(memory, "t", *(f"whale {number}" for number in range(300)))
    assert (await memory.resource(RESOURCE).search("whale")).unindexed == 300
    await memory.resource(RESOURCE).index()
    found = await memory.resource(RESOURCE).search("whale")
    assert (found.total, found.unindexed) == (300, 0)


async def test_a_model_is_told_what_is_missing(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer of the tool says it in words."""
    await save_texts(memory, "t", "the blue whale")
    tools = memory.resource(RESOURCE).tools()
    assert "not indexed" not in str(await tools.call("memory-search", {"action": "search", "query": "whale"}))
    monkeypatch.setattr(search, "_MOST_INDEXED", 0)
    await save_texts(memory, "t", "another whale")
    said = await tools.call("memory-search", {"action": "search", "query": "whale"})
    assert "1 entry is not indexed yet" in str(said)
