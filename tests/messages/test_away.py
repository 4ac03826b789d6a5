"""A database that cannot be reached when the first turn begins: the agent goes on, and what was said is saved later."""

import logging
import socket

import pytest

from kit.talk import hold, listen, stored_texts
from memolog import AssistantMessage, Config, ConfigError, InputError, Memory, StoreError, UserMessage
from memolog.db.postgres import PostgresEngine
from memolog.db.postgres_address import PostgresOptions
from memolog.db.queries import Script
from memolog.errors import NotSaved, StoreUnavailable
from memolog.events import Degraded
from memolog.testing import FakeClock


def nowhere() -> str:
    """Return the address of a server that does not listen."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    return f"postgresql://nobody@127.0.0.1:{port}/none"


def asking() -> Script[None]:
    """Ask anything."""
    yield from ()


async def say(memory: Memory, text: str) -> list[str]:
    """Hold a turn; return what the model was shown."""
    context = await hold(memory, text, f"answer to {text}")
    return [message.text for message in context.messages]


async def test_the_turn_goes_on_and_is_saved_later(
    address: str, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two turns without a database, then one with: everything is stored once, in its order."""
    memory = Memory(nowhere(), clock=clock)
    told = listen(memory)
    assert await say(memory, "one") == ["one"]
    # What this process holds is shown, also what an earlier turn said.
    assert await say(memory, "two") == ["one", "answer to one", "two"]
    assert {event.what for event in told if isinstance(event, Degraded)} == {"opening the database"}
    # The server is there now.
    memory.address = address
    monkeypatch.setattr("memolog.turn._RETRY_SECONDS", 0.0)
    async with memory:
        shown = await say(memory, "three")
        assert shown == ["one", "answer to one", "two", "answer to two", "three"]
        assert await stored_texts(memory) == [*shown, "answer to three"]


async def test_a_database_that_comes_back_within_a_turn(
    address: str, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was said before it came back is saved with what comes after."""
    monkeypatch.setattr("memolog.turn._RETRY_SECONDS", 0.0)
    memory = Memory(nowhere(), clock=clock)
    async with memory.thread("t1", resource="alice").turn() as turn:
        await turn.prepare(UserMessage("one"))
        memory.address = address
        await turn.record(AssistantMessage("two"))
        context = await turn.prepare(UserMessage("three"))
    assert [message.text for message in context.messages] == ["one", "two", "three"]
    async with memory:
        assert await stored_texts(memory) == ["one", "two", "three"]


async def test_a_database_that_somebody_else_opens_within_a_turn(address: str, clock: FakeClock) -> None:
    """What the turn said is saved when it ends, however soon; nobody need close the memory for it."""
    memory = Memory(nowhere(), clock=clock)
    async with (
        memory.thread("t1", resource="alice").turn() as turn,
        memory.thread("t1", resource="alice").turn() as unseen,
    ):
        await turn.prepare(UserMessage("one"))
        await unseen.prepare(UserMessage("two"))
        memory.address = address
        await memory.open()
    async with memory:
        assert sorted(await stored_texts(memory)) == ["one", "two"]
        assert (await memory.thread("t1", resource="alice").status()).unsaved == 0


async def test_a_discarded_turn_leaves_nothing(clock: FakeClock) -> None:
    """What was taken back is not saved later either."""
    memory = Memory(nowhere(), clock=clock)
    async with memory.thread("t1", resource="alice").turn() as turn:
        await turn.prepare(UserMessage("one"))
        await turn.discard()
    memory.address = ":memory:"
    async with memory:
        await say(memory, "two")
        assert await stored_texts(memory) == ["two", "answer to two"]


async def test_what_is_lost_in_the_end_is_told(clock: FakeClock, caplog: pytest.LogCaptureFixture) -> None:
    """A memory that is closed without ever having had a database says how much could not be saved."""
    memory = Memory(nowhere(), clock=clock)
    told = listen(memory)
    await say(memory, "one")
    with pytest.raises(NotSaved, match="2 messages could not be saved") as lost:
        await memory.aclose()
    assert lost.value.counts == {("alice", "t1"): 2}
    assert any("2 messages could not be saved" in line for line in caplog.messages)
    assert isinstance(told[-1], Degraded)
    assert (told[-1].resource, told[-1].thread, told[-1].error) == ("alice", "t1", str(lost.value))
    await memory.aclose()


async def test_what_can_never_be_saved_is_refused_at_once(
    address: str, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A wrong message is the caller's to mend while it is said, and keeps nothing else from being saved."""
    monkeypatch.setattr("memolog.turn._RETRY_SECONDS", 0.0)
    memory = Memory(nowhere(), clock=clock)
    async with memory.thread("t1", resource="alice").turn() as turn:
        with pytest.raises(InputError):
            await turn.prepare(UserMessage("one", speaker=7))  # pyright: ignore[reportArgumentType]
        await turn.prepare(UserMessage("two"))
    memory.address = address
    async with memory:
        await say(memory, "three")
        assert await stored_texts(memory) == ["two", "three", "answer to three"]


async def test_a_server_that_is_silent_is_said_to_be() -> None:
    """It accepts a connection and answers nothing."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"postgresql://nobody@127.0.0.1:{silent.getsockname()[1]}/none?sslmode=disable"
        engine = PostgresEngine(url, PostgresOptions(connect_timeout=0.1))
        with pytest.raises(StoreUnavailable, match="It gave no answer in time"):
            await engine.read(asking)


async def test_what_a_person_must_mend_is_raised(clock: FakeClock) -> None:
    """In strict mode, for wrong messages and for addresses that can never work."""
    with pytest.raises(StoreError, match="cannot be reached"):
        await say(Memory(nowhere(), clock=clock, config=Config(strict=True)), "one")
    async with Memory(nowhere(), clock=clock).thread("t1", resource="alice").turn() as turn:
        with pytest.raises(InputError, match="A message must be"):
            await turn.prepare(1)  # pyright: ignore[reportArgumentType]
    with pytest.raises(StoreError):
        await say(Memory("/nowhere/at/all/memolog.db", clock=clock), "one")


@pytest.mark.parametrize("parameter", ["foo=bar", "work_mem=much", "block_size=1"])
async def test_a_parameter_that_the_server_refuses(postgres_url: str, parameter: str) -> None:
    """A mistake in the address is reported as one, with the place to look at."""
    with pytest.raises(ConfigError, match=r"PostgreSQL says: .*Check the parameters after the `\?` of the address\."):
        await PostgresEngine(f"{postgres_url}&{parameter}").start()


def test_the_driver_does_not_report_a_server_that_is_away(caplog: pytest.LogCaptureFixture) -> None:
    """Of the log of its pool only the line about attempts to connect again is hidden."""
    log = logging.getLogger("asyncpg.pool")
    log.warning("Failed to restore the pool connection floor; retrying")
    log.warning("another line")
    assert [record.getMessage() for record in caplog.records] == ["another line"]
