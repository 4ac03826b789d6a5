"""Compaction through the public face, on every engine: by hand, by count, and back again."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from kit.engines import a_memory
from kit.talk import hold, listen
from memolog import (
    AssistantMessage,
    CompactionConfig,
    Config,
    InputError,
    NotFound,
    StoreError,
    ToolCallPart,
    ToolMessage,
    UserMessage,
)
from memolog.core.message import Message, ToolResultPart
from memolog.events import CompactionMade, Degraded
from memolog.memory import Memory
from memolog.testing import FakeClock, ScriptedModel

PLAIN = Config(observe=False, last_messages=60)
TALK = "I would like to know all about it, in every detail, as soon as that is possible. "
memory = a_memory(config=PLAIN)


async def talk(memory: Memory, clock: FakeClock, turns: int, first: int = 0, **options: Any) -> None:
    """Hold some turns with a tool; the background settles after each."""
    for number in range(first, first + turns):
        async with memory.thread("t1", resource="alice").turn(**options) as turn:
            await turn.prepare(UserMessage(f"Question {number} about module_{number}.py. {TALK}", id=f"u{number}"))
            call = ToolCallPart(id=f"c{number}", name="read", arguments={"path": f"src/module_{number}.py"})
            await turn.record(AssistantMessage([call], id=f"a{number}"))
            await turn.prepare(ToolMessage(f"c{number}", f"def handler_{number}():\n    pass\n" * 30, id=f"r{number}"))
            await turn.record(AssistantMessage(f"Answer {number}. {TALK}", id=f"f{number}"))
        await memory.settled()
        clock.advance(minutes=1)


async def rows(memory: Memory) -> tuple[Message, ...]:
    """Return the messages of the thread."""
    return await (await memory.open()).store.messages.after("alice", "t1")


def bare(messages: tuple[Message, ...]) -> list[tuple[Any, ...]]:
    """Return all that a restore must bring back."""
    return [(m.seq, m.id, m.level, m.injection, m.search, m.parts, m.tokens, m.state) for m in messages]


def unpaired(context: Any) -> list[str]:
    """Return the calls and results of a context that do not follow each other."""
    waiting: set[str] = set()
    wrong: list[str] = []
    for message in context.tail:
        results = {part.call_id for part in message.parts if isinstance(part, ToolResultPart)}
        if not results:
            wrong += waiting
            waiting = set()
        wrong += results - waiting
        waiting -= results
        waiting |= {part.id for part in message.parts if isinstance(part, ToolCallPart)}
    return wrong + list(waiting)


# ---------------------------------------------------------------- by count


async def test_old_messages_are_compacted_by_count(memory: Memory, clock: FakeClock) -> None:
    """Thirty newer messages bring a batch to the first level, ninety to the second; contexts stay whole."""
    events = listen(memory)
    await talk(memory, clock, 9)
    assert await memory.thread("t1", resource="alice").compactions() == ()
    await talk(memory, clock, 25, first=9)
    found = await rows(memory)
    assert len(found) == 136
    levels = [m.level for m in found]
    assert levels == sorted(levels, reverse=True)
    assert 30 <= levels.count(0) < 45
    assert levels.count(2) >= 30
    made = await memory.thread("t1", resource="alice").compactions()
    assert [c.span.first for c in made] == [1, *(c.span.last + 1 for c in made[:-1])]
    assert all(8 <= c.messages <= 12 for c in made)
    assert sum(isinstance(event, CompactionMade) for event in events) == len(made)
    context = await hold(memory, "and now?")
    text = context.render_without_edge()
    assert unpaired(context) == []
    # A summary is shown once, in the place of its messages.
    shown = [c for c in made if c.span.last > 137 - 60]
    for compaction in shown:
        assert text.count(compaction.summary.splitlines()[1][:60]) >= 1
    assert text.count("<earlier-messages>") == len(shown)
    assert context.tokens.tail < sum(m.tokens for m in found[-60:])


async def test_a_restored_batch_is_left_alone(memory: Memory, clock: FakeClock) -> None:
    """What somebody brought back stays, whatever comes after it, until it is compacted by hand."""
    await talk(memory, clock, 14)
    made = await memory.thread("t1", resource="alice").compactions()
    await memory.thread("t1", resource="alice").restore_compaction(made[0].id)
    await talk(memory, clock, 10, first=14)
    span = made[0].span
    found = await rows(memory)
    assert {m.level for m in found if m.seq in span} == {0}
    assert found[span.last].level > 0
    await memory.thread("t1", resource="alice").compact()
    assert 0 not in {m.level for m in await rows(memory)}


async def test_with_a_log_nothing_is_compacted_by_itself(address: str, engine_name: str, clock: FakeClock) -> None:
    """The prefix and the tail of a thread that is observed change only as the log does."""
    if engine_name == "memory":
        return
    async with Memory(address, clock=clock) as memory:
        await talk(memory, clock, 14)
        assert await memory.thread("t1", resource="alice").compactions() == ()
    async with Memory(address, clock=clock, config=PLAIN) as memory:
        off = {"compaction.automatic": False}
        await talk(memory, clock, 1, first=14, settings=off)
        assert await memory.thread("t1", resource="alice").compactions() == ()
        await talk(memory, clock, 1, first=15)
        assert await memory.thread("t1", resource="alice").compactions() != ()


async def test_a_model_sums_up_and_the_embedded_one_stands_in(address: str, clock: FakeClock) -> None:
    """Where a model is named it writes the summaries; when it fails, that is told and the work goes on."""
    model = ScriptedModel(
        [
            "<observations>\n* 🔴 Told by the model: question 0 about module_0.py [1]\n</observations>",
            ConnectionError("away"),
        ]
    )
    config = Config(observe=False, compaction=CompactionConfig(batch=4, after=8, deep_after=8))
    async with Memory(address, model=model, config=config, clock=clock) as memory:
        events = listen(memory)
        await talk(memory, clock, 4)
        made = await memory.thread("t1", resource="alice").compactions()
        assert "Told by the model" in made[0].summary
        assert len(model.requests) == 2
        assert "Told by the model" not in made[1].summary
        assert any(isinstance(event, Degraded) and event.what == "summarising messages" for event in events)
        usage = await (await memory.open()).store.ledger.total("alice")
        assert usage.requests == 1


async def test_a_spent_budget_asks_no_model(address: str, clock: FakeClock) -> None:
    """Summaries are made all the same."""
    model = ScriptedModel()
    config = Config(observe=False, budget=0.0, compaction=CompactionConfig(batch=4, after=8, deep_after=8))
    async with Memory(address, model=model, config=config, clock=clock) as memory:
        await talk(memory, clock, 4)
        assert await memory.thread("t1", resource="alice").compactions()
        assert model.requests == []


# ---------------------------------------------------------------- by hand


async def test_by_hand_it_also_observes(address: str, clock: FakeClock) -> None:
    """The result names how many messages, the summary, and the groups and observations made of them."""
    model = ScriptedModel()
    async with Memory(address, model=model, clock=clock) as memory:
        await talk(memory, clock, 6)
        before = await rows(memory)
        done = await memory.thread("t1", resource="alice").compact()
        assert done.messages == 24
        assert len(done.observations) >= 6
        assert sum(c.messages for c in done.compactions) == 24
        assert all(c.summary in done.summary for c in done.compactions)
        # The log was paid for once: the summaries are made of it.
        assert len(model.requests) == len(done.groups)
        assert "was said" in done.summary
        page = await memory.resource("alice").recall(done.groups[0], thread="t1", detail="full", tokens=20_000)
        assert page.items[0].pieces[0].text == before[0].text
        assert {m.level for m in await rows(memory)} == {1}
        assert [m.parts for m in await rows(memory)] == [m.parts for m in before]
        context = await hold(memory, "go on")
        assert "<observations" in context.render()
        assert "earlier-messages" not in context.render()
        again = await memory.thread("t1", resource="alice").compact(keep=1)
        assert (again.messages, again.summary) == (0, "")


async def test_what_cannot_be_observed_is_not_compacted(address: str, clock: FakeClock) -> None:
    """With a log, a message leaves sight only when the log speaks of it."""
    async with Memory(address, model=ScriptedModel([ConnectionError("away")] * 50), clock=clock) as memory:
        await talk(memory, clock, 3)
        before = bare(await rows(memory))
        done = await memory.thread("t1", resource="alice").compact()
        assert (done.messages, done.groups) == (0, ())
        assert bare(await rows(memory)) == before


async def test_contexts_come_back_too(memory: Memory, clock: FakeClock) -> None:
    """What a model is shown after a restore is what it was shown before, also by a memory that has read the summaries."""
    await talk(memory, clock, 12, settings={"compaction.automatic": False})
    shown: list[str] = []
    for step in ("before", "compacted", "restored"):
        if step == "compacted":
            await memory.thread("t1", resource="alice").compact()
        for made in await memory.thread("t1", resource="alice").compactions() if step == "restored" else ():
            await memory.thread("t1", resource="alice").restore_compaction(made.id)
        async with memory.thread("t1", resource="alice").turn(settings={"compaction.automatic": False}) as turn:
            text = (await turn.prepare(UserMessage("what now?"))).render_without_edge()
            await turn.discard()
        # All but the question, which is a new message each time.
        shown.append(text.rpartition("[user ")[0])
    assert shown[1] != shown[0]
    assert "<earlier-messages>" in shown[1]
    assert shown[2] == shown[0]


async def test_many_compact_at_once(address: str, clock: FakeClock) -> None:
    """Each message is in one batch, whoever was first; nobody fails."""
    async with Memory(address, config=PLAIN, clock=clock) as memory:
        await talk(memory, clock, 12, settings={"compaction.automatic": False})
        await memory.thread("t1", resource="alice").observe()
        done = await asyncio.gather(*(memory.thread("t1", resource="alice").compact() for _ in range(4)))
        assert sum(one.messages for one in done) == 48
        made = await memory.thread("t1", resource="alice").compactions()
        assert [c.span.first for c in made] == [1, *(c.span.last + 1 for c in made[:-1])]
        assert {m.level for m in await rows(memory)} == {1}


async def test_a_session_ends_with_a_compaction(address: str, clock: FakeClock) -> None:
    """`finalize(compact=True)` leaves a log and nothing else in sight."""
    async with Memory(address, clock=clock) as memory:
        await talk(memory, clock, 4)
        status = await memory.thread("t1", resource="alice").finalize(compact=True)
        assert status.messages.tokens == 0
        assert {m.level for m in await rows(memory)} == {1}


async def test_shared_logs_are_compacted_thread_by_thread(address: str, clock: FakeClock) -> None:
    """In resource scope the groups of the shared log stand for the thread's messages."""
    async with Memory(address, config=Config(scope="resource"), clock=clock) as memory:
        await talk(memory, clock, 3)
        await hold(memory, "Something else entirely, about gardens.", thread="t2")
        done = await memory.thread("t1", resource="alice").compact()
        assert done.messages == 12
        assert done.observations
        store = (await memory.open()).store
        assert [m.level for m in await store.messages.after("alice", "t2")] == [0]
        assert "gardens" not in done.summary


async def test_what_the_model_saw_can_be_seen_again(memory: Memory, clock: FakeClock) -> None:
    """A context is built again as it was, whether its messages have been compacted or restored since."""
    await talk(memory, clock, 9)
    seen: list[str] = []
    for number in (9, 15):
        await talk(memory, clock, number - 9, first=9)
        seen.append((await hold(memory, f"how far? {number}")).render())
    store = (await memory.open()).store
    contexts = await store.journal.contexts("alice", "t1")
    numbers = [c.number for c in contexts if c.step == 1 and c.number in {19, len(contexts)}]
    await memory.thread("t1", resource="alice").compact()
    assert [(await memory.thread("t1", resource="alice").seen(number)).render() for number in numbers] == seen
    for made in await memory.thread("t1", resource="alice").compactions():
        await memory.thread("t1", resource="alice").restore_compaction(made.id)
    assert [(await memory.thread("t1", resource="alice").seen(number)).render() for number in numbers] == seen


# ---------------------------------------------------------------- pruning and refusals


async def test_pruning_is_off_until_it_is_asked_for(address: str, engine_name: str, clock: FakeClock) -> None:
    """It says so; once on, only what is old, observed and compacted loses its raw text."""
    if engine_name == "memory":
        return
    async with Memory(address, clock=clock) as memory:
        await talk(memory, clock, 3)
        await memory.thread("t1", resource="alice").compact()
        with pytest.raises(InputError, match="off"):
            await memory.thread("t1", resource="alice").prune()
    async with Memory(address, clock=clock, config=Config(compaction=CompactionConfig(prune=True))) as memory:
        assert (await memory.thread("t1", resource="alice").prune()).messages == 0
        clock.advance(days=31)
        await talk(memory, clock, 1, first=3)
        done = await memory.thread("t1", resource="alice").prune()
        assert (done.messages, done.young) == (12, 4)
        page = await memory.resource("alice").recall("t1 1-12", detail="full", tokens=20_000)
        assert all(item.pruned for item in page.items)
        assert "[raw text removed]" in page.text
        with pytest.raises(InputError, match="pruned"):
            await memory.thread("t1", resource="alice").restore_compaction(
                (await memory.thread("t1", resource="alice").compactions())[0].id
            )
        assert (await hold(memory, "still here?")).render()


async def test_no_sentence_of_a_pruned_message_is_left(
    address: str, engine_name: str, clock: FakeClock, tmp_path: Path
) -> None:
    """Neither in a result nor in the file; it is still found by its names and numbers, and what was observed stays."""
    secret = "wombats sleep peacefully below Dalton bridge near dock 4711"
    said = [f"Remember that {secret} until spring.", f"Noted: {secret}."]
    model = ScriptedModel(
        [
            lambda _: (
                "<observations>\nDate: 2026-03-14\n* 🔴 (09:00) Animals rest at a bridge until spring [1, 2]\n</observations>"
            )
        ]
    )
    config = Config(compaction=CompactionConfig(prune=True))
    async with Memory(address, clock=clock, config=config, model=model) as memory:
        await hold(memory, said[0], said[1])
        await memory.thread("t1", resource="alice").compact()
        assert len((await memory.resource("alice").search("wombats", sources="compacted")).results) == 2
        clock.advance(days=31)
        done = await memory.thread("t1", resource="alice").prune()
        assert done.messages == 2
        assert done.is_clean == (engine_name == "sqlite")
        found = await memory.resource("alice").search("wombats sleep peacefully")
        assert not any("wombats" in result.content for result in found.results)
        found = await memory.resource("alice").search("4711 Dalton", sources="compacted")
        assert {result.content for result in found.results} == {"4711 Dalton Remember", "4711 Dalton Noted"}
        assert (await memory.resource("alice").search("animals rest", sources="observation")).results
        store = (await memory.open()).store
        assert (await store.compactions.deepen("alice", "t1", keep=0)) == 2
        assert not any("sleep" in (message.search or "") for message in await rows(memory))
        assert not any(
            "sleep" in (batch.summary or "") for batch in await memory.thread("t1", resource="alice").compactions()
        )
        assert (await memory.doctor("alice")).is_healthy
    assert b"sleep peacefully" not in _bytes_in(tmp_path)


def _bytes_in(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


async def test_bad_calls_say_what_to_do(memory: Memory, clock: FakeClock) -> None:
    """A missing thread, a missing compaction, a negative number."""
    await talk(memory, clock, 1)
    for call in (
        memory.thread("none", resource="alice").compact(),
        memory.thread("none", resource="alice").compactions(),
        memory.thread("t1", resource="bob").compact(),
    ):
        with pytest.raises(NotFound):
            await call
    with pytest.raises(NotFound):
        await memory.thread("t1", resource="alice").restore_compaction("none")
    with pytest.raises(InputError):
        await memory.thread("t1", resource="alice").compact(keep=-1)


async def test_a_read_only_memory_compacts_nothing(address: str, engine_name: str, clock: FakeClock) -> None:
    """Neither by hand nor by count."""
    if engine_name == "memory":
        return
    async with Memory(address, config=PLAIN, clock=clock) as memory:
        await talk(memory, clock, 12, settings={"compaction.automatic": False})
    async with Memory(address, config=PLAIN.with_overrides({"read_only": True}), clock=clock) as memory:
        await hold(memory, "hello")
        await memory.settled()
        assert await memory.thread("t1", resource="alice").compactions() == ()
        with pytest.raises(StoreError):
            await memory.thread("t1", resource="alice").compact()


# ---------------------------------------------------------------- search at each level of compaction


LONG = "We walked along the river for hours and spoke of nothing in particular, as friends do. " * 6
NAMES = [f"wug{letter}{other}zim" for letter in "abcdef" for other in "aeiou"]
CODE = "```python\n" + "\n".join(f"{name} = prepare(rows)" for name in NAMES) + "\n```"
unlogged = a_memory(config=Config(observe=False))


async def found(unlogged: Memory, query: str) -> list[tuple[str, str]]:
    """Return the messages that a query finds, with their source."""
    answer = await unlogged.resource("alice").search(query, sources=("raw", "compacted"))
    return [(result.id, result.source) for result in answer.results]


async def test_search_at_each_level(unlogged: Memory, clock: FakeClock) -> None:
    """Raw words first; then the summary with code and names; then the summary; after a restore all of it again."""
    store = (await unlogged.open()).store
    text = f"I prefer Fastify over Express. {LONG} Zebrafinch sang. {LONG}\n{CODE}\n{LONG}"
    await store.messages.save("alice", "t1", [UserMessage(text, id="hit"), AssistantMessage(LONG, id="other")])
    assert await found(unlogged, "river friends")
    assert ("hit", "raw") in await found(unlogged, NAMES[-1])
    done = await unlogged.thread("t1", resource="alice").compact()
    # A name that nobody wrote down, and that only the code has.
    name = next(name for name in reversed(NAMES) if name not in done.summary)
    assert ("hit", "compacted") in await found(unlogged, name)
    assert ("hit", "compacted") in await found(unlogged, "Fastify")
    assert await store.compactions.deepen("alice", "t1", keep=0) == 2
    assert ("hit", "compacted") in await found(unlogged, "Fastify")
    assert await found(unlogged, name) == []
    for made in done.compactions:
        await unlogged.thread("t1", resource="alice").restore_compaction(made.id)
    assert ("hit", "raw") in await found(unlogged, name)
    assert await found(unlogged, "river friends")
