"""What a context shows of messages too large for it, of results that come late, and of what was shown while things failed."""

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from kit.engines import OpenMemory, engines, memories
from kit.talk import hold, listen, of_kind, stored_texts
from memolog import AssistantMessage, Config, ObservationConfig, ToolCallPart, ToolMessage, UserMessage
from memolog.context.context import Context
from memolog.core.message import ToolResultPart
from memolog.errors import StoreUnavailable
from memolog.events import Trimmed
from memolog.memory import Memory
from memolog.store import Store
from memolog.testing import ScriptedModel, observations_of

RESOURCE, THREAD = "alice", "t1"
LIMITED = Config(observation=ObservationConfig(message_tokens=2_000, deadline=120), context_tokens=3_000)
BIG = "First of all: " + "the port of service 7 is 8007. " * 4_000 + "That is all."
MARK = re.compile(r"\[… ([\d,]+) characters are left out here .* recall the message ([\w-]+) …\]")

engine_name = engines("memory", "postgres")


opened = memories(make_model=ScriptedModel)


async def say(memory: Memory, text: str, answer: str = "ok") -> Context:
    """Hold one turn."""
    return await hold(memory, text, answer)


def shown_of(text: str) -> tuple[str, int, str, str]:
    """Return how a cut text begins, how much is missing, of which message, and how it ends."""
    found = MARK.search(text)
    assert found is not None
    return text[: found.start()], int(found[1].replace(",", "")), found[2], text[found.end() :]


@pytest.mark.parametrize("observe", [True, False])
async def test_one_message_above_the_hard_limit(opened: OpenMemory, observe: bool) -> None:
    """It is shown cut, always alike, and says where the rest is; somebody is told, and what is stored is exact."""
    memory = opened(replace(LIMITED, observe=observe), ScriptedModel([RuntimeError()] * 50))
    events = listen(memory)
    first = await say(memory, BIG)
    assert first.tokens.total <= 3_000
    assert (first.trimmed, first.shortened) == (0, 1)
    head, missing, message, tail = shown_of(first.tail[0].text)
    assert BIG.startswith(head.rstrip("\n"))
    assert BIG.endswith(tail.lstrip("\n"))
    assert len(head) - 1 + missing + len(tail) - 1 == len(BIG)
    assert [(event.messages, event.shortened, event.limit) for event in of_kind(events, Trimmed)] == [(0, 1, 3_000)]
    page = await memory.resource(RESOURCE).recall(message, detail="full", tokens=50_000)
    assert "the port of service 7 is 8007. " * 100 in page.text
    second = await say(memory, "and then?")
    assert second.render_without_edge().startswith(first.render_without_edge())
    assert await stored_texts(memory) == [BIG, "ok", "and then?", "ok"]
    for number, context in ((1, first), (2, second)):
        assert (await memory.thread(THREAD, resource=RESOURCE).seen(number)).render() == context.render()


@pytest.mark.parametrize("observe", [True, False])
async def test_one_tool_result_above_the_hard_limit(opened: OpenMemory, observe: bool) -> None:
    """It is cut like a message, and stays the result of its call."""
    memory = opened(replace(LIMITED, observe=observe), ScriptedModel([RuntimeError()] * 50))
    events = listen(memory)
    async with memory.thread(THREAD, resource=RESOURCE).turn() as turn:
        await turn.prepare(UserMessage("read it"))
        await turn.record(AssistantMessage([ToolCallPart(id="c", name="read")]))
        context = await turn.prepare(ToolMessage("c", BIG))
        again = await turn.prepare()
    assert context.tokens.total <= 3_000
    assert [message.role for message in context.tail] == ["user", "assistant", "tool"]
    part = context.tail[2].parts[0]
    assert isinstance(part, ToolResultPart)
    assert part.call_id == "c"
    assert shown_of(str(part.content))[0].startswith("First of all")
    assert again.render_without_edge() == context.render_without_edge()
    # It stays cut from step to step, and is told once.
    assert len(of_kind(events, Trimmed)) == 1


async def test_a_covered_request_is_counted_and_the_first_to_go(opened: OpenMemory) -> None:
    """A request larger than a tail is repeated in part, truly marked, told and counted; newer messages push it out."""
    memory = opened(LIMITED, ScriptedModel([observations_of, *[RuntimeError()] * 50]))
    events = listen(memory)
    async with memory.thread(THREAD, resource=RESOURCE).turn() as turn:
        await turn.prepare(UserMessage(BIG))
        await turn.record(AssistantMessage([ToolCallPart(id="c", name="read")]))
        await memory.settled()
        first = await turn.prepare(ToolMessage("c", "read"))
        await turn.record(AssistantMessage("ok"))
    assert first.note is not None
    assert "covers" not in first.tail[0].text
    assert shown_of(first.tail[0].text)[2] == (await (await memory.open()).store.messages.after(RESOURCE, THREAD))[0].id
    told = of_kind(events, Trimmed)
    assert (told[0].messages, told[0].shortened) == (0, 1)
    status = await memory.thread(THREAD, resource=RESOURCE).status()
    assert status.messages.tokens >= first.tokens.tail - first.note.tokens - 50
    assert status.backlog_tokens < 100
    second = await say(memory, "more " * 300)
    assert second.render_without_edge().startswith(first.render_without_edge())
    third = await say(memory, "again " * 300)
    assert third.tokens.total <= 3_000
    assert third.trimmed == 1
    assert BIG[:40] not in third.render()
    assert {"more " * 300, "again " * 300} <= {message.text for message in third.tail}


async def test_the_observer_sees_a_late_result_with_its_call(opened: OpenMemory) -> None:
    """Also when the call was observed long before."""
    model = ScriptedModel()
    memory = opened(replace(LIMITED, context_tokens=None), model)
    async with memory.thread(THREAD, resource=RESOURCE).turn() as turn:
        await turn.prepare(UserMessage("run the tests"))
        await turn.record(AssistantMessage([ToolCallPart(id="c1", name="pytest", arguments={"path": "tests/unit"})]))
    await say(memory, "never mind")
    assert (await memory.thread(THREAD, resource=RESOURCE).observe()).cursor == 4
    async with memory.thread(THREAD, resource=RESOURCE).turn() as turn:
        context = await turn.prepare(ToolMessage("c1", "42 passed"))
        assert "answered late" in context.tail[-1].text
        await turn.record(AssistantMessage("They pass."))
    await memory.thread(THREAD, resource=RESOURCE).observe()
    asked = model.requests[-1].text
    assert '<call>pytest {"path":"tests/unit"}</call>' in asked
    assert "<result>pytest\n42 passed</result>" in asked
    assert "run the tests" not in asked.split("<call>", 1)[1]


async def test_what_is_passed_along_once_is_told_of_in_what_was_seen(opened: OpenMemory) -> None:
    """It is not kept, so a note stands for it; everything else is as it was, also where the limit left something out."""
    memory = opened(replace(LIMITED, context_tokens=2_500), ScriptedModel([RuntimeError()] * 50))
    for number in range(5):
        await say(memory, f"{number} " + "word " * 250)
    async with memory.thread(THREAD, resource=RESOURCE).turn() as turn:
        context = await turn.prepare(UserMessage("and now?"), ephemeral=[UserMessage("only now: " + "x " * 2_500)])
    assert context.trimmed
    seen = await memory.thread(THREAD, resource=RESOURCE).seen(6)
    assert seen.render_without_edge() == context.render_without_edge()
    assert (seen.edge, seen.tokens) == (context.edge, context.tokens)
    assert [message.text for message in seen.ephemeral] == [
        "[1 messages were passed along here for this request alone. They are not kept.]"
    ]


def fail(store: Store, names: set[str]) -> Callable[[], None]:
    """Let the engine fail these writes; returns what ends that."""
    write = store.engine.write

    async def failing(work: Any, *, name: str, brief: bool = True) -> Any:
        if name in names:
            raise StoreUnavailable("The database is gone.", then="Try again.")
        return await write(work, name=name, brief=brief)

    store.engine.write = failing
    return names.clear


def said_in(context: Context) -> list[tuple[str, object]]:
    """Return what a context shows, without the numbers of its rows."""
    return [(message.role, message.parts) for message in context.tail]


async def test_what_was_shown_while_the_database_was_away_is_recorded_later(opened: OpenMemory) -> None:
    """With the next step that finds it again: what the model saw can be built again, in the order of its requests."""
    memory = opened(replace(LIMITED, context_tokens=None))
    await say(memory, "hello")
    store = (await memory.open()).store
    shown: list[Context] = []
    async with memory.thread(THREAD, resource=RESOURCE).turn() as turn:
        end = fail(store, {"store.save_and_snapshot", "messages.save"})
        shown.append(await turn.prepare(UserMessage("are you there?")))
        await turn.record(AssistantMessage([ToolCallPart(id="c", name="look")]))
        shown.append(await turn.prepare(ToolMessage("c", "found")))
        end()
        # Somebody else is faster: what they say was not shown.
        await say(memory, "me first")
        shown.append(await turn.prepare())
        await turn.record(AssistantMessage("yes"))
    records = await store.journal.contexts(RESOURCE, THREAD)
    assert [(record.number, record.record.get("degraded", False)) for record in records] == [
        (1, False),
        (2, False),
        (3, True),
        (4, True),
        (5, False),
    ]
    for number, context in zip((3, 4, 5), shown, strict=True):
        assert said_in(await memory.thread(THREAD, resource=RESOURCE).seen(number)) == said_in(context)


async def test_what_was_shown_before_a_turn_ended_without_its_database_is_recorded(opened: OpenMemory) -> None:
    """It is recorded with what the turn left behind; what failed after it had read the thread is recorded as well."""
    memory = opened(replace(LIMITED, context_tokens=None))
    await say(memory, "hello")
    store = (await memory.open()).store
    async with memory.thread(THREAD, resource=RESOURCE).turn() as turn:
        end = fail(store, {"journal.add_context"})
        first = await turn.prepare(UserMessage("are you there?"))
        end()
        end = fail(store, {"store.save_and_snapshot", "messages.save", "journal.add_context"})
        await turn.record(AssistantMessage("I am"))
        second = await turn.prepare(UserMessage("good"))
    end()
    await say(memory, "and now?")
    records = await store.journal.contexts(RESOURCE, THREAD)
    assert [record.record.get("degraded", False) for record in records] == [False, True, True, False]
    for number, context in ((2, first), (3, second)):
        assert said_in(await memory.thread(THREAD, resource=RESOURCE).seen(number)) == said_in(context)
