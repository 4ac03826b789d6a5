"""Working memory through the public face: shown without costing the cache, whoever changes it."""

from pathlib import Path

import pytest

from kit.engines import a_memory
from kit.talk import hold, listen
from memolog import AssistantMessage, Config, ObservationConfig, ReflectionConfig, UserMessage
from memolog.errors import DocumentConflict, DocumentInvalid, DocumentTooLarge, InputError, StoreReadOnly
from memolog.events import Activated, GenerationMade, WorkingMemoryChanged
from memolog.memory import Memory
from memolog.testing import FakeClock, ScriptedModel

SMALL = Config(
    observation=ObservationConfig(message_tokens=1_000, previous_tokens=200),
    reflection=ReflectionConfig(observation_tokens=600),
)
memory = a_memory(model=ScriptedModel, config=SMALL)


def block(blocks: object, name: str = "working-memory") -> str:
    """Return the text of the block of that name, or nothing."""
    return next((one.text for one in blocks if one.name == name), "")  # pyright: ignore[reportAttributeAccessIssue, reportGeneralTypeIssues]


async def test_an_update_does_not_cost_the_cache(memory: Memory, clock: FakeClock) -> None:
    """The prefix keeps the text it began with; the present one is at the edge until a generation takes it over."""
    events = listen(memory)
    facts = memory.resource("alice").working_memory()
    await facts.replace("# Name\n\nAnn\n", who="test")
    previous, kept, changes, taken_over = "", 0, 0, 0
    for number in range(70):
        before = len(events)
        async with memory.thread("t1", resource="alice").turn() as turn:
            context = await turn.prepare(UserMessage(f"question {number} " + "word " * 30))
            text = context.render_without_edge()
            is_rewritten = any(isinstance(event, Activated | GenerationMade) for event in events[before:])
            assert is_rewritten or text.startswith(previous)
            kept += not is_rewritten
            present = await facts.read()
            assert present is not None
            in_prefix, at_edge = block(context.blocks), block(context.edge)
            # The present text is always in sight, in exactly one place.
            assert (present.current.text.strip() in in_prefix) != (present.current.text.strip() in at_edge)
            taken_over += present.current.number > 1 and not at_edge
            await facts.edit_section("Count", str(number // 20), who="test")
            changes += 1
            before = len(events)
            again = (await turn.prepare()).render_without_edge()
            assert again == text or any(isinstance(event, Activated | GenerationMade) for event in events[before:])
            await turn.record(AssistantMessage("answer " + "word " * 30))
            previous = again
        await memory.settled()
        clock.advance(minutes=1)
    assert kept > 30
    assert taken_over > 0
    assert changes == 70
    assert len([event for event in events if isinstance(event, WorkingMemoryChanged)]) == 5
    assert len(await memory.thread("t1", resource="alice").history()) > 1


async def test_what_was_seen_names_its_versions(memory: Memory) -> None:
    """A context is built again with the working memory as it was then, at both places."""
    facts = memory.resource("alice").working_memory()
    await facts.start("coding", who="test")
    seen = []
    for text in ("one", "two", "three"):
        async with memory.thread("t1", resource="alice").turn() as turn:
            await memory.resource("alice").working_memory(thread="t1").replace(text, who="test") if seen else None
            seen.append(await turn.prepare(UserMessage(text)))
        await facts.edit_section("Decisions", text, who="test")
    for number, context in enumerate(seen, start=1):
        assert await memory.thread("t1", resource="alice").seen(number) == context


async def test_both_scopes_are_shown_and_the_threads_holds(memory: Memory) -> None:
    """The resource's document is shown in every thread, a thread's own only there, and it says which one holds."""
    await hold(memory, "hello", "hello")
    await memory.resource("alice").working_memory().replace("Prefers tea", who="test")
    await (
        memory.resource("alice")
        .working_memory(thread="t1")
        .replace("Prefers coffee in {this} {thread} <b>", who="test")
    )
    async with memory.thread("t1", resource="alice").turn() as turn:
        context = await turn.prepare(UserMessage("hello"))
        assert block(context.edge) == (
            "<working-memory>\nIn all conversations:\n\nPrefers tea\n\nIn this conversation; where the two differ, this "
            "holds:\n\nPrefers coffee in {this} {thread} <b>\n</working-memory>"
        )
    async with memory.thread("t2", resource="alice").turn() as turn:
        context = await turn.prepare(UserMessage("hello"))
        assert block(context.blocks) == "<working-memory>\nPrefers tea\n</working-memory>"
        assert block(context.edge) == ""
    assert "tea" not in (await hold(memory, "hello", resource="bob")).render()


async def test_a_shared_log_shows_each_thread_its_own(address: str, clock: FakeClock) -> None:
    """In resource scope the threads share a log and its generations, not their documents."""
    config = Config(
        scope="resource", observation=SMALL.observation, reflection=ReflectionConfig(observation_tokens=400)
    )
    async with Memory(address, model=ScriptedModel(), config=config, clock=clock) as memory:
        for thread in ("t1", "t2"):
            await hold(memory, "hello", thread=thread)
            await memory.resource("alice").working_memory(thread=thread).replace(f"of {thread}", who="test")
        in_prefix = ""
        for number in range(40):
            for thread in ("t1", "t2"):
                async with memory.thread(thread, resource="alice").turn() as turn:
                    context = await turn.prepare(UserMessage(f"{number} " + "word " * 60))
                    assert (f"of {thread}" in block(context.blocks)) != (f"of {thread}" in block(context.edge))
                    in_prefix = block(context.blocks)
                    other = "t2" if thread == "t1" else "t1"
                    assert f"of {other}" not in block(context.blocks) + block(context.edge)
            await memory.settled()
            clock.advance(minutes=1)
        assert len(await memory.thread("t1", resource="alice").history()) > 1
        assert in_prefix != ""


async def test_a_document_that_is_emptied_is_said_to_be(memory: Memory) -> None:
    """What the prefix says no longer holds, and the edge says so."""
    facts = memory.resource("alice").working_memory()
    await facts.replace("# Name\n\nAnn\n", who="test")
    async with memory.thread("t1", resource="alice").turn() as turn:
        await turn.prepare(UserMessage("hello"))
        await facts.replace("", who="test")
        context = await turn.prepare()
        assert "was emptied" in block(context.edge)
        await facts.restore(1, who="test")
        assert block((await turn.prepare()).edge) == ""


async def test_templates_schemas_and_limits(memory: Memory) -> None:
    """What a user meets: a start that does not overwrite, a schema that refuses, a limit that says by how much."""
    facts = memory.resource("alice").working_memory()
    with pytest.raises(InputError, match="coding, personal"):
        await facts.start("poetry", who="test")
    await facts.replace("x" * 10_000, who="test")
    with pytest.raises(DocumentTooLarge, match="10,200 characters, 200 more than the limit of 10,000"):
        await facts.replace("x" * 10_200, who="test")
    await facts.replace("", who="test")
    started = await facts.start("personal", who="test")
    with pytest.raises(DocumentInvalid, match="already"):
        await facts.start("coding", who="test")
    await facts.edit_section("About me", "- Name: Bob", who="test")
    with pytest.raises(DocumentConflict):
        await facts.edit_section("About me", "- Name: Ann", who="test", version=started.current.number)
    table = memory.resource("bob").working_memory()
    schema = {"type": "object", "properties": {"name": {"type": "string"}}, "additionalProperties": False}
    await table.start(schema=schema, who="test")
    await table.merge({"name": "Bob"}, who="test")
    with pytest.raises(DocumentInvalid, match="'age'"):
        await table.merge({"age": 5}, who="test")
    assert await table.value() == {"name": "Bob"}
    assert await table.diff(1) == '--- version 1\n+++ version 2\n@@ -1 +1,3 @@\n-{}\n+{\n+  "name": "Bob"\n+}\n'
    with pytest.raises(DocumentInvalid, match="Markdown"):
        await facts.value()


async def test_a_read_only_memory_reads(tmp_path: Path, clock: FakeClock) -> None:
    """It shows the working memory, in the prefix as nothing has begun yet, and does not change it."""
    address = str(tmp_path / "memolog.db")
    async with Memory(address, clock=clock) as memory:
        await memory.resource("alice").working_memory().replace("Prefers tea", who="test")
        store = (await memory.open()).store
        await store.threads.create("alice", "t1")
    async with Memory(address, clock=clock, config=Config(read_only=True)) as memory:
        context = await hold(memory, "hello")
        assert "Prefers tea" in block(context.blocks)
        with pytest.raises(StoreReadOnly):
            await memory.resource("alice").working_memory().replace("x", who="test")
