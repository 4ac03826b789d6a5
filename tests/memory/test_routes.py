"""Resources that a function distributes over several databases."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from kit.engines import engines
from memolog import AssistantMessage, Config, ConfigError, InputError, Memory, NotSaved, UserMessage
from memolog.errors import StoreClosed
from memolog.events import Event
from memolog.sync import SyncMemory
from memolog.testing import ScriptedModel

engine_name = engines("sqlite", "postgres")

SMALL = Config.from_dict({"observation": {"message_tokens": 400}})


@pytest.fixture
def two(engine_name: str, tmp_path: Path, request: pytest.FixtureRequest) -> tuple[str, str]:
    """Return the addresses of two databases."""
    if engine_name == "postgres":
        return request.getfixturevalue("postgres_url"), request.getfixturevalue("new_postgres_url")
    return str(tmp_path / "east.db"), str(tmp_path / "west.db")


@pytest.fixture
def route(two: tuple[str, str]) -> Callable[[str], str]:
    """Return a function that stores resources with an odd number in the second database."""
    return lambda resource: two[int(resource.removeprefix("user-")) % 2]


@pytest.fixture
async def memory(route: Callable[[str], str]) -> AsyncIterator[Memory]:
    """Return a memory on both databases."""
    async with Memory(route, config=SMALL, model=ScriptedModel()) as opened:
        yield opened


async def talk(memory: Memory, resource: str, *texts: str) -> None:
    """Save some questions with their answers."""
    for text in texts:
        async with memory.thread("chat", resource=resource).turn() as turn:
            await turn.prepare(UserMessage(text))
            await turn.record(AssistantMessage("Noted."))


async def test_each_resource_is_stored_in_its_database_only(memory: Memory, two: tuple[str, str]) -> None:
    """No row of a resource is in the other database."""
    for number in range(4):
        await talk(memory, f"user-{number}", f"My number is {number} and I live in Lisbon. " * 30)
    await memory.settled()

    for place, address in enumerate(two):
        async with Memory(address) as alone:
            assert await alone.resources() == (f"user-{place}", f"user-{place + 2}")
            assert await alone.thread("chat", resource=f"user-{place}").runs()
            assert (await alone.doctor()).is_healthy


async def test_every_call_of_a_resource_reaches_its_database(memory: Memory, tmp_path: Path) -> None:
    """Search, pack, tools, export, import and doctor use the database of the resource."""
    await talk(memory, "user-0", "The harbour code is 4711.")
    await talk(memory, "user-1", "The harbour code is 1213.")

    for number, code in ((0, "4711"), (1, "1213")):
        resource = memory.resource(f"user-{number}")
        found = await resource.search("harbour code")
        assert code in found.results[0].content
        assert code in (await resource.pack(thread="chat")).text
        assert (await memory.doctor(resource.id)).is_healthy
        assert await resource.tools(thread="chat").call("recall", {"query": "harbour code"})
        target = tmp_path / f"{number}.jsonl"
        assert (await memory.export(target, resource=resource.id)).resources == (resource.id,)
        assert not (await memory.import_from(target, resource=resource.id)).added


async def test_events_of_all_databases_arrive(memory: Memory) -> None:
    """A listener hears the events of each database until it stops."""
    heard: list[Event] = []
    stop = memory.subscribe(heard.append)
    await talk(memory, "user-0", "Hello.")
    await talk(memory, "user-1", "Hello.")
    assert {event.resource for event in heard} == {"user-0", "user-1"}
    stop()
    count = len(heard)
    await talk(memory, "user-0", "Again.")
    assert len(heard) == count


async def test_calls_about_one_database_are_refused(memory: Memory, tmp_path: Path) -> None:
    """A call without a resource cannot know which database is meant."""
    calls: list[Any] = [
        memory.resources(),
        memory.open(),
        memory.doctor(),
        memory.backup(tmp_path / "copy.db"),
        memory.export(tmp_path / "all.jsonl"),
        memory.import_from(tmp_path / "all.jsonl"),
    ]
    for call in calls:
        with pytest.raises(InputError, match=r"several databases.*Name a resource, or open the database itself"):
            await call


async def test_wrong_addresses_and_closed_memories(two: tuple[str, str]) -> None:
    """The function must return an address, and a closed memory stays closed."""
    memory = Memory(lambda resource: two[0] if resource == "known" else None)  # type: ignore[arg-type,return-value]  # pyright: ignore[reportArgumentType]
    with pytest.raises(ConfigError, match=r"returned None for the resource stranger\."):
        memory.resource("stranger")
    with pytest.raises(InputError, match="The resource id is empty"):
        memory.resource("")
    with pytest.raises(ConfigError, match="must be a plain function, got an async function"):
        Memory(_asynchronous)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    await talk(memory, "known", "Hello.")
    await memory.aclose()
    await memory.aclose()
    with pytest.raises(StoreClosed):
        memory.resource("known")
    assert "lambda" in repr(memory)


async def _asynchronous(resource: str) -> str:
    return resource


async def test_messages_that_no_database_took_are_all_reported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Both files are moved away while they are open, so both databases refuse to write. Each failure is logged once."""
    memory = Memory(lambda resource: tmp_path / f"{resource}.db", config=Config(busy_timeout=0.0))
    for number in range(2):
        await talk(memory, f"user-{number}", "Hello.")
        (tmp_path / f"user-{number}.db").rename(tmp_path / f"moved-{number}.db")
        await talk(memory, f"user-{number}", "Is anybody there?")
    with pytest.raises(NotSaved) as lost:
        await memory.aclose()
    assert lost.value.counts == {("user-0", "chat"): 2, ("user-1", "chat"): 2}
    assert caplog.text.count("the last attempt to save messages of chat failed") == 2


def test_the_synchronous_memory_takes_a_route(route: Callable[[str], str], two: tuple[str, str]) -> None:
    """`SyncMemory` has the same argument."""
    with SyncMemory(route) as memory:
        memory.thread("chat", resource="user-1").save(UserMessage("Hello."))
    with SyncMemory(two[1]) as alone:
        assert alone.resources() == ("user-1",)
