"""What a model or a client is told when the database fails: a plain sentence, nothing of the address, the user or the schema."""

import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from gateway.test_memory import echo
from gateway.world import APIS, opened
from memolog import Config, Memory, errors
from memolog.apps.mcp import Served, build_server
from memolog.errors import ConfigError, MemologError, ModelFailed, StoreError, StoreUnavailable
from memolog.tools.actions import ACTIONS
from tools.world import world

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

ODD = ("a\x00b", "\x00", "half \ud800", "T-1\x00", "'; DROP TABLE tasks; --\x00", "\x01x")
INSIDES = ("postgresql:", "PostgreSQL", "SQLite", "mira", "db.example", "tenant_7", "relation", ".db")
DETAIL = StoreUnavailable(
    "The database postgresql://mira:…@db.example/m?schema=tenant_7 cannot be reached.",
    why='PostgreSQL says: relation "tenant_7.tasks" is gone.',
    then="Check the address, the user and that the server is running.",
)


def calls() -> list[tuple[str, str, dict[str, Any]]]:
    """Return a call of every action for each of its fields, with the field left to be filled."""
    return [
        (tool, name, dict(kind.example))
        for tool, actions in ACTIONS.items()
        for kind in actions.values()
        for name in kind.model_fields
        if name != "action"
    ]


async def test_odd_characters_are_no_failure_of_the_database(address: str) -> None:
    """Whatever field of whatever action holds NUL or half a character, the answer is one that the tool gives itself."""
    async with world(address) as here:
        for tool, field, example in calls():
            for odd in ODD:
                answer = await here.tools.call(tool, {**example, field: [odd] if odd == ODD[0] else odd})
                told = str(answer.get("error", ""))
                assert not [word for word in (*INSIDES, "database", "failed to answer") if word in told], (field, told)


async def test_a_title_with_odd_characters_is_found(address: str) -> None:
    """A task is found by the title that it was given, also if that holds NUL."""
    async with Memory(address) as memory:
        tasks = memory.resource("alice").tasks()
        made = await tasks.create("Odd \x00 Title")
        assert [task.id for task in await tasks.find("odd \x00 title")] == [made.id]


def kinds(base: type[MemologError]) -> Iterator[type[MemologError]]:
    """Return a class of errors with all below it."""
    yield base
    for kind in base.__subclasses__():
        yield from kinds(kind)


def test_every_error_of_the_database_has_a_plain_text() -> None:
    """Errors that name our insides say less outside; all others say everything, since the caller is to act on them."""
    hidden = {*kinds(StoreError), *kinds(ConfigError), ModelFailed}
    for kind in kinds(MemologError):
        if kind.__module__ != errors.__name__:
            continue
        error = kind.__new__(kind)
        MemologError.__init__(error, "At postgresql://mira@db.example.", why="tenant_7")
        told = error.for_outside
        assert (told == str(error)) == (kind not in hidden), kind
        if kind in hidden:
            assert not [word for word in INSIDES if word in told]


Failing = Callable[[Memory], Any]


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> Failing:
    """Return a function after which the database of a memory does nothing but fail."""

    async def fail(*_: object, **__: object) -> None:
        raise DETAIL

    async def break_it(memory: Memory) -> None:
        engine = (await memory.open()).store.engine
        monkeypatch.setattr(engine, "read", fail)
        monkeypatch.setattr(engine, "write", fail)

    return break_it


def check(told: str, caplog: pytest.LogCaptureFixture) -> None:
    """The text is plain; the log has the rest."""
    assert told.strip()
    assert not [word for word in INSIDES if word in told], told
    assert "tenant_7" in caplog.text


@pytest.mark.parametrize("tool", ACTIONS)
async def test_tools_tell_nothing_of_the_database(
    tool: str, failing: Failing, caplog: pytest.LogCaptureFixture
) -> None:
    """A model is told that the memory cannot be reached, and not where it is."""
    async with world() as here:
        await failing(here.memory)
        for kind in ACTIONS[tool].values():
            answer = await here.tools.call(tool, dict(kind.example))
            assert (answer["success"], answer["retryable"]) == (False, True)
            check(answer["error"], caplog)


async def test_the_server_tells_nothing_of_the_database(failing: Failing, caplog: pytest.LogCaptureFixture) -> None:
    """Neither do resources, prompts and completions of the MCP server."""
    async with world() as here:
        served = Served(memory=here.memory, resource="alice", thread="t1")
        async with Client(build_server(served), mode="auto") as client:
            await failing(here.memory)
            for uri in ("memolog://log", "memolog://context-pack", "memolog://working-memory", "memolog://task/T-1"):
                with pytest.raises(Exception) as raised:
                    await client.read_resource(uri)
                check(str(raised.value), caplog)
            with pytest.raises(Exception) as raised:
                await client.list_resources()
            check(str(raised.value), caplog)


@pytest.mark.parametrize("api", APIS)
async def test_the_gateway_tells_nothing_of_the_database(
    api: str, tmp_path: Path, failing: Failing, caplog: pytest.LogCaptureFixture
) -> None:
    """A client of a gateway that is strict is told that the memory is away, and not where it is."""
    async with opened(tmp_path / "memolog.db", echo, config=Config(strict=True, turn_timeout=1)) as here:
        await failing(here.memory)
        with caplog.at_level(logging.WARNING), pytest.raises(Exception) as raised:
            await here.talk(api).say("Hello.")
        check(str(raised.value), caplog)
        assert raised.value.status_code == 503  # pyright: ignore[reportAttributeAccessIssue]
        await here.memory.aclose()
