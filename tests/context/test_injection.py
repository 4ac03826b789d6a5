"""Earlier messages at the edge: off by default, found by what the user said last, stored nowhere."""

from dataclasses import replace
from typing import Any

import pytest

from kit.engines import a_memory
from kit.talk import edge_of, hold, listen
from memolog import AssistantMessage, Config, Context, RecallConfig, ToolCallPart, ToolMessage, UserMessage
from memolog.context.build import Made, View
from memolog.core.message import NewMessage, ToolResultPart
from memolog.errors import StoreUnavailable
from memolog.events import Degraded
from memolog.memory import Memory
from memolog.testing import FakeClock

FINDS = Config(observe=False, last_messages=4, recall=RecallConfig(results=2, neighbours=1))
memory = a_memory(config=FINDS)


async def fill(memory: Memory, thread: str = "t1", *, with_: str = "The passport number of the cat is Z-4711.") -> None:
    """Say one thing worth finding, and much after it."""
    said: list[NewMessage] = [
        UserMessage("Hello there."),
        UserMessage(with_, id="hit"),
        AssistantMessage("Noted, thank you."),
    ]
    said += [UserMessage(f"Chatter number {number} about the weather in spring.") for number in range(20)]
    await (await memory.open()).store.messages.save("alice", thread, said)


def recalled(context: Context) -> str:
    """Return what of the edge was found."""
    return edge_of(context, "recalled")


async def test_it_is_off_by_default(address: str, clock: FakeClock) -> None:
    """Nobody pays for what nobody asked for."""
    async with Memory(address, config=Config(observe=False, last_messages=4), clock=clock) as memory:
        await fill(memory)
        assert recalled(await hold(memory, "What is the passport number of the cat?")) == ""


async def test_the_words_come_back_with_their_neighbours(memory: Memory) -> None:
    """At the edge, not in the prefix or the tail; nothing of it is stored."""
    await fill(memory)
    store = (await memory.open()).store
    context = await hold(memory, "What is the passport number of the cat?")
    found = recalled(context)
    assert "The passport number of the cat is Z-4711." in found
    assert "Hello there." in found
    assert "Noted, thank you." in found
    assert "Z-4711" not in context.render_without_edge()
    rows = await store.messages.after("alice", "t1")
    assert len(rows) == 24
    assert [row.id for row in rows if "Z-4711" in row.text] == ["hit"]
    assert context.tokens.total >= context.tokens.edge > 0


async def test_what_the_model_sees_anyway_is_left_out(memory: Memory) -> None:
    """Neither the question itself nor the rest of the tail is shown twice."""
    await fill(memory)
    context = await hold(memory, "Chatter number 19 about the weather in spring, again?")
    assert "Chatter number 19 about the weather in spring." in context.render_without_edge()
    assert "Chatter number 19" not in recalled(context)
    assert "again?" not in recalled(context)
    assert "Chatter number" in recalled(context)


async def test_scope_is_thread_or_resource(memory: Memory) -> None:
    """Other threads are searched only when that was asked for, and other resources never."""
    await fill(memory, "other")
    store = (await memory.open()).store
    await store.messages.save("bob", "t9", UserMessage("The passport number of the cat is B-0815."))
    await store.messages.save("alice", "t1", UserMessage("Good morning."))
    question = "What is the passport number of the cat?"
    assert "Z-4711" not in recalled(await hold(memory, question))
    found = recalled(await hold(memory, question, settings={"recall.scope": "resource"}))
    assert "Z-4711" in found
    assert "in another conversation" in found
    assert "B-0815" not in found


async def test_it_is_bounded_and_gives_way(memory: Memory) -> None:
    """Never more tokens than allowed; with a hard limit it is the first to go."""
    await fill(
        memory, with_="The passport number of the cat is Z-4711. " + "And so on it went, for a long while. " * 400
    )
    question = "What is the passport number of the cat?"
    found = await hold(memory, question, settings={"recall.tokens": 200})
    assert "Z-4711" in recalled(found)
    block = next(block for block in found.edge if block.name == "recalled")
    assert block.tokens < 300
    strict = {"context_tokens": 400, "observation.message_tokens": 100, "observation.buffer_tokens": 50}
    limited = await hold(memory, question, settings=strict)
    assert recalled(limited) == ""


@pytest.mark.parametrize(
    "text",
    ['"', "-cat", "thread:other", "role:tool passport", "* * *", "   ", "\x00", "?", 'NEAR( "a" OR', "x" * 9_999],
)
async def test_any_question_will_do(memory: Memory, text: str) -> None:
    """What a person says is prose, whatever signs are in it."""
    await fill(memory)
    events = listen(memory)
    assert (await hold(memory, text)).tail
    assert not any(isinstance(event, Degraded) for event in events)
    assert "Z-4711" in recalled(await hold(memory, '-the: passport: -number *of* the "cat'))


async def test_every_step_of_a_turn_shows_the_same(memory: Memory) -> None:
    """It is searched for once; a tool's result is no new question."""
    await fill(memory)
    async with memory.thread("t1", resource="alice").turn() as turn:
        first = await turn.prepare(UserMessage("What is the passport number of the cat?"))
        await turn.record(AssistantMessage([ToolCallPart(id="c", name="look", arguments={})]))
        second = await turn.prepare(ToolMessage("c", "nothing here"))
    assert recalled(first) == recalled(second) != ""


async def test_it_can_be_seen_again(memory: Memory) -> None:
    """The record names what was found, so that the context can be built again."""
    await fill(memory)
    shown = (await hold(memory, "What is the passport number of the cat?")).render()
    await hold(memory, "And the dog?")
    assert (await memory.thread("t1", resource="alice").seen(1)).render() == shown


async def test_a_search_that_fails_harms_nobody(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    """The context is as it would be without, and whoever listens is told."""
    await fill(memory)
    store = (await memory.open()).store

    async def gone(*_: object, **__: object) -> None:
        raise StoreUnavailable("The index is gone.", then="Try later.")

    monkeypatch.setattr(store.searching, "search", gone)
    events = listen(memory)
    context = await hold(memory, "What is the passport number of the cat?")
    assert context.tail
    assert recalled(context) == ""
    assert any(isinstance(event, Degraded) and "earlier messages" in event.what for event in events)


async def test_compacted_messages_are_found_in_their_own_words(memory: Memory) -> None:
    """Compacted or not, the exact words come back; what memory itself answered does not."""
    await fill(memory)
    call = ToolCallPart(id="s", name="memory-search", arguments={"query": "passport"})
    answer = ToolResultPart(call_id="s", content="passport number of the cat: own answer")
    store = (await memory.open()).store
    own = [NewMessage(role="assistant", parts=(call,), own=True), NewMessage(role="tool", parts=(answer,), own=True)]
    await store.messages.save("alice", "t1", [*own, *(UserMessage(f"More chatter {n}.") for n in range(5))])
    await memory.thread("t1", resource="alice").compact()
    found = recalled(await hold(memory, "What is the passport number of the cat?"))
    assert "The passport number of the cat is Z-4711." in found
    assert "own answer" not in found


SECRET = "The wifi passphrase is bluegiraffe."
LONG = (
    f"Here are my notes. {'Nothing of interest happened. ' * 200}{SECRET} {'More of the same followed. ' * 200}The end."
)


async def test_a_long_message_is_shown_around_its_hit(memory: Memory) -> None:
    """Neither its head nor its tail is what it was found for; what is left out before and behind is told."""
    await fill(memory, with_=LONG)
    for number, tokens in enumerate((300, 1_000, 10_000), start=1):
        context = await hold(memory, "what is the wifi passphrase?", settings={"recall.tokens": tokens})
        found = recalled(context)
        assert SECRET in found
        assert (" user: … " in found) == (found.count(" …\n") == 1) == (tokens < 10_000)
        assert ("The end." in found) == ("Here are my notes." in found) == (tokens == 10_000)
        assert (await memory.thread("t1", resource="alice").seen(number)).render() == context.render()


async def test_a_neighbour_that_was_hit_too_is_shown_around_its_hit(memory: Memory) -> None:
    """In its few words it would not be there otherwise: no message is shown twice."""
    store = (await memory.open()).store
    said = [UserMessage("The wifi passphrase, the wifi passphrase!"), UserMessage(LONG)]
    await store.messages.save("alice", "t1", [*said, *(UserMessage(f"Chatter {n}.") for n in range(9))])
    assert SECRET in recalled(await hold(memory, "what is the wifi passphrase?"))


async def test_an_older_record_is_built_as_it_was(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    """It names no places: the middle of the message was left out then, and is now."""
    await fill(memory, with_=LONG)
    contexts = (await memory.open()).contexts
    build = contexts.build

    async def as_before(view: View, **options: Any) -> Made:
        made = await build(replace(view, passages=tuple(replace(p, places={}) for p in view.passages)), **options)
        return replace(made, record={name: value for name, value in made.record.items() if name != "recalled_at"})

    monkeypatch.setattr(contexts, "build", as_before)
    shown = await hold(memory, "what is the wifi passphrase?")
    assert SECRET not in recalled(shown)
    assert "The end." in recalled(shown)
    monkeypatch.undo()
    assert (await memory.thread("t1", resource="alice").seen(1)).render() == shown.render()


async def test_what_only_stands_beside_a_hit_takes_no_place(memory: Memory) -> None:
    """A question finds the messages around its words too; here each comes with its hit, so that every place is a hit's."""
    store = (await memory.open()).store
    said: list[NewMessage] = [
        UserMessage("Hello."),
        UserMessage("My passport and visa are in the blue box, I think."),
        UserMessage("Good."),
    ]
    said += [UserMessage(f"Chatter {number}.") for number in range(20)]
    said += [
        AssistantMessage("That passport business again, this time at the embassy of a country far away, was long.")
    ]
    said += [UserMessage(f"More chatter {number}.") for number in range(20)]
    await store.messages.save("alice", "t1", said)
    question = "Where are my passport and my visa?"
    answer = await memory.resource("alice").search(question)
    assert "passport" not in answer.results[1].content
    found = recalled(await hold(memory, question, settings={"recall.neighbours": 0}))
    assert "blue box" in found
    assert "embassy" in found
    assert "Hello." not in found
