"""The contract for an agent with memory, tested with every framework."""

import asyncio
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from adapters.kit import SMALL, Prompts, answer, brief, calls, check_pairs, expected, question, stored
from adapters.worlds import INSTRUCTIONS, WORLDS, AgentFramework, Call, Heard, LangChain, Step, World
from memolog import Config, InputError, Memory, StoreError, SyncMemory, ToolResultPart
from memolog.adapters.agent_framework import MemoryGuard, MemoryProvider
from memolog.adapters.langchain import MemoryMiddleware
from memolog.adapters.pydantic_ai import MemoryCapability
from memolog.tools.definitions import guidance

every_world = pytest.mark.parametrize("kind", WORLDS, ids=lambda kind: kind.__name__)
either_way = pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])


def talk(heard: Heard) -> Step:
    """Answer a question, after a tool call if the question needs one."""
    number = int(heard.asked.split()[1])
    needed = [Call("weather", id_, {"city": f"City{number}"}) for id_ in calls(number)]
    return needed if needed and heard.roles[-1] != "tool" else answer(number)


def about(heard: Heard) -> Step:
    """Answer with the question. "storm" calls a tool that fails. "sun" calls a tool, and then the model fails."""
    cities = {"storm": "nowhere", "sun": "Rome"}
    if heard.asked in cities and heard.roles[-1] != "tool":
        return [Call("weather", f"c-{heard.asked}", {"city": cities[heard.asked]})]
    return ConnectionError("down again") if heard.asked == "sun" else f"about {heard.asked}"


@every_world
async def test_a_long_conversation_over_a_restart(kind: type[World], tmp_path: Path) -> None:
    """The conversation crosses thresholds, calls tools and streams some answers. The memory is opened again half-way."""
    prompts = Prompts()
    turns = 80
    heard: list[Heard] = []
    for half in (range(1, turns // 2 + 1), range(turns // 2 + 1, turns + 1)):
        async with Memory(tmp_path / "m.db", config=SMALL) as memory:
            prompts.watch(memory)
            world = kind(memory, talk, prompts=prompts)
            for number in half:
                await world.ask(question(number), streamed=number % 5 == 0)
            await memory.settled()
            rows = await stored(memory, "alice", "t1")
            usage = (await memory.thread("t1", resource="alice").status()).usage
        heard += world.heard
        assert brief(rows) == expected(range(1, half.stop))
    check_pairs(rows)
    prompts.check(least_changes=3)
    assert max(len(one.roles) for one in heard) < 150, "the log never took over"
    assert all(one.system.startswith(INSTRUCTIONS) for one in heard)
    assert usage.requests >= len(heard)
    assert usage.output_tokens >= len(heard)


@every_world
async def test_on_each_engine(kind: type[World], address: str) -> None:
    """A short conversation with a tool call on each engine. The same question twice is two messages."""
    async with Memory(address) as memory:
        world = kind(memory, talk)
        for number in (6, 7, 8, 8):
            await world.ask(question(number), streamed=number == 8)
        assert await world.lines() == [*expected(range(6, 9)), *expected(range(8, 9))]


@every_world
async def test_a_read_only_memory_tells_the_model_so(kind: type[World], tmp_path: Path) -> None:
    """The instructions for the tools name no action that writes, such a call is refused, and nothing is stored."""

    def remember(heard: Heard) -> Step:
        fact = {"action": "remember", "text": "The sky is green."}
        return "noted" if heard.roles[-1] == "tool" else [Call("memory-search", "c1", fact)]

    async with Memory(tmp_path / "m.db") as memory:
        writer = kind(memory, talk)
        await writer.ask(question(7))
        before = await writer.lines()
    async with Memory(tmp_path / "m.db", config=Config(read_only=True)) as memory:
        reader = kind(memory, remember)
        await reader.ask("remember it")
        assert await reader.lines() == before
        assert await memory.resource("alice").working_memory().read() is None
    assert guidance() in writer.heard[0].system
    assert all(guidance(read_only=True) in heard.system for heard in reader.heard)
    assert not any("task-mutate" in heard.system or "remember" in heard.system for heard in reader.heard)
    # Agent Framework compares the arguments with the schema before it calls the tool.
    refusal = "Argument parsing failed" if kind is AgentFramework else "read-only"
    assert refusal in reader.heard[1].text


@every_world
async def test_the_order_of_a_request(kind: type[World], tmp_path: Path) -> None:
    """A request has the caller's instructions, those of the memory, the messages and the edge. The edge is not stored."""
    async with Memory(tmp_path / "m.db") as memory:
        world = kind(memory, talk)
        await world.ask(question(7))
        rows = await stored(memory, "alice", "t1")
    first, second = world.heard
    assert first.system.index(INSTRUCTIONS) < first.system.index("memory-search")
    assert second.system == first.system
    assert (first.roles, second.roles) == (["user"], ["user", "assistant", "tool"])
    assert [row.role for row in rows] == ["user", "assistant", "tool", "assistant"]
    for heard in world.heard:
        assert heard.edge
        assert heard.edge not in {row.text for row in rows}


@every_world
async def test_scopes_do_not_mix(kind: type[World], tmp_path: Path) -> None:
    """Concurrent conversations of one resource and of two resources."""
    async with Memory(tmp_path / "m.db") as memory:
        places = [("alice", "t1"), ("bob", "t1"), ("alice", "t2")]
        worlds = [kind(memory, talk, resource=resource, thread=thread) for resource, thread in places]
        for number in range(1, 5):
            asking = [world.ask(question(number + n), streamed=number % 2 == 0) for n, world in enumerate(worlds)]
            await asyncio.gather(*asking)
        for n, world in enumerate(worlds):
            assert await world.lines() == expected(range(1 + n, 5 + n))


@every_world
async def test_the_tools_work_and_their_scope_is_fixed(kind: type[World], tmp_path: Path) -> None:
    """A model searches and creates a task. A `resource` in its arguments is refused."""

    def script(heard: Heard) -> Step:
        if heard.asked != "use them":
            return "noted"
        if heard.roles[-1] != "tool":
            return [Call("memory-search", "c0", {"action": "search", "query": "heliotrope", "resource": "bob"})]
        if heard.roles.count("tool") == 1:
            return [Call("memory-search", "c1", {"action": "search", "query": "heliotrope"})]
        made = [Call("task-mutate", "c2", {"action": "create", "title": "Paint the door"})]
        return made if "Paint the door" not in heard.text else "done"

    async with Memory(tmp_path / "m.db") as memory:
        world = kind(memory, script)
        await world.ask("my colour is heliotrope")
        await kind(memory, script, resource="bob").ask("secret heliotrope of bob")
        await world.ask("use them")
        tasks = await memory.resource("alice").tasks().ready()
        rows = await stored(memory, "alice", "t1")
    refused, found, made = (str(getattr(row.parts[0], "content", "")) for row in rows if row.role == "tool")
    assert "`resource` is not a field of search" in refused
    assert "my colour is" in found
    assert "secret" not in found
    assert "success" in made
    assert [one.task.title for one in tasks.items] == ["Paint the door"]
    assert [row.own for row in rows if row.role == "tool"] == [True, True, True]


# ---------------------------------------------------------------- what goes wrong


@every_world
@either_way
async def test_a_failing_run_keeps_what_was_said(kind: type[World], streamed: bool, tmp_path: Path) -> None:
    """The model fails, then a tool raises an exception. In the next request every call has a result."""
    down = [True]

    def script(heard: Heard) -> Step:
        return ConnectionError("the provider is down") if down and down.pop() else about(heard)

    async with Memory(tmp_path / "m.db") as memory:
        world = kind(memory, script)
        with pytest.raises(ConnectionError):
            await world.ask("now", streamed=streamed)
        if kind is AgentFramework:
            # A tool that raises is a result that says so.
            await world.ask("storm", streamed=streamed)
            rest = ["result c-storm", "assistant: about storm"]
        else:
            with pytest.raises(Exception, match="no weather"):
                await world.ask("storm", streamed=streamed)
            rest = []
        with pytest.raises(ConnectionError):
            await world.ask("sun", streamed=streamed)
        await world.ask("later", streamed=streamed)
        lines = await world.lines()
        parts = [part for row in await stored(memory, "alice", "t1") for part in row.parts]
    errors = [part.is_error for part in parts if isinstance(part, ToolResultPart)]
    assert lines == [
        *("user: now", "user: storm", "call c-storm: weather", *rest),
        *("user: sun", "call c-sun: weather", "result c-sun", "user: later", "assistant: about later"),
    ]
    assert errors == [True, False][-len(errors) :]
    assert world.heard[-1].roles[:3] == ["user", "assistant", "tool"]


@every_world
@either_way
async def test_a_cancelled_run_keeps_what_was_said(kind: type[World], streamed: bool, tmp_path: Path) -> None:
    """The agent run is cancelled before or during the answer. No task is left running."""
    async with Memory(tmp_path / "m.db") as memory:
        world = kind(memory, about)
        world.stuck = asyncio.Event()
        running = asyncio.create_task(world.ask("one", streamed=streamed))
        await world.stuck.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        world.stuck = None
        await world.ask("two", streamed=streamed)
        lines = await world.lines()
    # What came of a stream is kept where the library hands it on piece by piece.
    assert lines[0] == "user: one"
    assert lines[-2:] == ["user: two", "assistant: about two"]
    assert lines[1:-2] in ([], ["assistant: about"])
    assert [task for task in asyncio.all_tasks() if task is not asyncio.current_task()] == []


@every_world
async def test_a_stream_that_is_left(kind: type[World], tmp_path: Path) -> None:
    """If the caller stops reading a stream, the question stays stored, and no task is left running."""
    before = asyncio.all_tasks()
    async with Memory(tmp_path / "m.db") as memory:
        world = kind(memory, about)
        await world.leave("one")
        await world.ask("two")
        lines = await world.lines()
    assert asyncio.all_tasks() == before
    assert lines[0] == "user: one"
    assert lines[-2:] == ["user: two", "assistant: about two"]
    assert len(lines) <= 4


@every_world
async def test_a_database_that_is_gone_does_not_stop_the_agent(
    kind: type[World], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The agent run goes on with its own messages, which are saved when the database is back. With `strict` it raises."""
    monkeypatch.setattr("memolog.turn._RETRY_SECONDS", 0.0)
    nowhere = "postgresql://nobody@127.0.0.1:1/nothing"
    memory = Memory(nowhere)
    world = kind(memory, talk)
    await world.ask(question(7))
    assert world.heard[-1].roles == ["user", "assistant", "tool"]
    memory.address = str(tmp_path / "m.db")
    async with memory:
        await world.ask(question(8), streamed=True)
        assert await world.lines() == expected(range(7, 9))
    strict = Memory(nowhere, config=Config(strict=True))
    with pytest.raises(StoreError):
        await kind(strict, talk).ask(question(1))
    await strict.aclose()


@every_world
def test_a_memory_of_the_wrong_kind(kind: type[World], tmp_path: Path) -> None:
    """An address is rejected, and so is a SyncMemory by adapters that are only asynchronous."""
    with pytest.raises(InputError, match=kind.memory_error):
        kind.adapter("memolog.db")
    with SyncMemory(str(tmp_path / "m.db")) as memory:
        if issubclass(kind, LangChain):
            kind.adapter(memory)
            return
        with pytest.raises(InputError, match="got SyncMemory"):
            kind.adapter(memory)


@every_world
def test_a_missing_library_is_told(kind: type[World]) -> None:
    """If the library is not installed, the error names the extra to install."""
    module = f"memolog.adapters.{kind.folder or kind.extra.replace('-', '_')}"
    code = f"import sys; sys.modules[{kind.package!r}] = None; import {module}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert f'pip install "memolog[{kind.extra}]"' in done.stderr


GUARDED: dict[str, Callable[[Any, Any], object]] = {
    "LangChain": lambda memory, guards: MemoryMiddleware(memory, guards=guards),
    "AgentFramework": lambda memory, guards: MemoryGuard(MemoryProvider(memory, resource="alice"), guards=guards),
    "PydanticAI": lambda memory, guards: MemoryCapability(memory, "alice", discard_on=guards),
}


@pytest.mark.parametrize("make", GUARDED.values(), ids=GUARDED)
def test_guards_that_are_no_errors(make: Any, tmp_path: Path) -> None:
    """Values that are not exception classes are rejected. One class needs no tuple."""
    memory = Memory(tmp_path / "m.db")
    for wrong in ("x", (ValueError, "x"), [ValueError], ValueError()):
        with pytest.raises(InputError, match="must be an exception class or a tuple"):
            make(memory, wrong)
    make(memory, ValueError)
