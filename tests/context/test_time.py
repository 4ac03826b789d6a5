"""What a context says about time: when messages were said, plans whose date has passed, and how old a hint is."""

import asyncio
import io
import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from kit.engines import OpenMemory, memories
from kit.talk import edge_of, hold
from memolog import AssistantMessage, Config, NewMessage, ObservationConfig, TextPart
from memolog.context.context import Context
from memolog.memory import Memory
from memolog.testing import FakeClock, ScriptedModel

RESOURCE, THREAD = "alice", "t1"
CONFIG = Config(observation=ObservationConfig(buffer_tokens=False), activate_after_idle=False)
SMALL = Config.from_dict({"observation": {"message_tokens": 300}})

opened = memories(CONFIG, ScriptedModel)


async def say(memory: Memory, text: str, answer: str = "ok", thread: str = THREAD, zone: str | None = None) -> Context:
    """Hold one turn."""
    return await hold(memory, text, answer, thread=thread, zone=zone)


async def check_seen(memory: Memory, context: Context, number: int, thread: str = THREAD) -> None:
    """Compare a context with what is built again from its record."""
    assert (await memory.thread(thread, resource=RESOURCE).seen(number)).render() == context.render()


async def stored(memory: Memory) -> Any:
    """Return the rows of the thread."""
    return await (await memory.open()).store.messages.after(RESOURCE, THREAD, 0)


def observed(*lines: str, **hints: str) -> str:
    """Return the answer of an observer."""
    told = "".join(f"\n<{name.replace('_', '-')}>{text}</{name.replace('_', '-')}>" for name, text in hints.items())
    return "<observations>\n" + "\n".join(lines) + "\n</observations>" + told


# ---------------------------------------------------------------- when things were said


async def test_the_tail_says_when_things_were_said(opened: OpenMemory, clock: FakeClock) -> None:
    """A gap is marked once, contexts go on extending each other, and nothing of it is stored or observed."""
    model = ScriptedModel()
    memory = opened(model=model)
    contexts = [await say(memory, "I fly to Porto tomorrow", zone="Europe/Berlin")]
    clock.advance(minutes=59)
    contexts.append(await say(memory, "Which gate?"))
    clock.advance(days=24)
    contexts.append(await say(memory, "I am back", zone="Europe/Berlin"))
    clock.advance(minutes=1)
    contexts.append(await say(memory, "And tired"))
    for number, (earlier, later) in enumerate(pairwise(contexts), start=1):
        assert later.render_without_edge().startswith(earlier.render_without_edge())
        await check_seen(memory, earlier, number)
    mark = "[3 weeks later: Tuesday 2026-04-07, 11:59]"
    assert [message.text for message in contexts[-1].tail] == [
        *("I fly to Porto tomorrow", "ok", "Which gate?", "ok"),
        *(mark, "I am back", "ok", "And tired"),
    ]
    await memory.thread(THREAD, resource=RESOURCE).observe()
    page = await stored(memory)
    assert not any("later:" in message.text for message in page)
    assert not any("later:" in request.text for request in model.requests)


async def test_a_gap_between_the_log_and_the_tail_is_marked(opened: OpenMemory, clock: FakeClock) -> None:
    """Also where the message before the gap is in the log alone; a restart changes nothing."""
    memory = opened()
    await say(memory, "The port is 8080")
    await memory.thread(THREAD, resource=RESOURCE).observe()
    clock.advance(hours=5)
    first = await say(memory, "Which port?")
    assert [message.text for message in first.tail] == ["[5 hours later: Saturday 2026-03-14, 14:00]", "Which port?"]
    clock.advance(minutes=5)
    second = await say(memory, "Sure?")
    assert second.render_without_edge().startswith(first.render_without_edge())
    await check_seen(memory, first, 2)
    await check_seen(memory, second, 3)


async def test_without_a_log_the_newest_messages_are_dated_too(opened: OpenMemory, clock: FakeClock) -> None:
    """The message before the first that is shown counts."""
    memory = opened(replace(CONFIG, observe=False, last_messages=2))
    await say(memory, "one")
    clock.advance(hours=3)
    await say(memory, "two", answer="second")
    context = await say(memory, "three")
    assert [message.text for message in context.tail] == ["second", "three"]
    clock.advance(hours=3)
    await memory.settled()
    context = await say(memory, "four", answer="")
    assert [message.text for message in context.tail] == ["ok", "[3 hours later: Saturday 2026-03-14, 15:00]", "four"]


# ---------------------------------------------------------------- plans whose date has passed

PLANS = (
    "* 🔴 (09:00) User will move from Express to Fastify on Monday (meaning 2026-03-16) [1]",
    "* 🔴 (09:00) User has a dentist appointment on Tuesday (meaning 2026-03-17) [1]",
    "* 🔴 (09:00) User will call the bank on Wednesday (meaning 2026-03-18) [1]",
    "* 🟡 (09:00) User asked whether the shop opens on Monday (meaning 2026-03-16) [1]",
    "* 🔴 (09:00) User was in Rome last week (meaning 2026-03-07) [1]",
)
SAID = (
    "I will move from Express to Fastify on Monday. I have a dentist appointment on Tuesday. I will call the bank on"
    " Wednesday. Does the shop open on Monday? I was in Rome last week."
)


@pytest.mark.parametrize("scope", ["thread", "resource"])
async def test_plans_are_told_once_their_date_has_passed(opened: OpenMemory, clock: FakeClock, scope: Any) -> None:
    """Not before, not when an entry says that they are done or were moved, and not for ever."""
    done = observed(
        "* ✅ (10:00) Move from Express to Fastify finished; user confirmed [1]",
        "* 🔴 (10:00) User's dentist appointment was moved from Tuesday to Friday (meaning 2026-03-27) [2]",
    )
    memory = opened(replace(CONFIG, scope=scope), ScriptedModel([observed(*PLANS), done]))
    await say(memory, SAID)
    await memory.thread(THREAD, resource=RESOURCE).observe()
    assert edge_of(await say(memory, "hello"), "plans") == ""
    clock.advance(days=4)
    context = await say(memory, "What is left?")
    assert edge_of(context, "plans") == (
        "<plans>\n"
        "* 2026-03-17 (date has passed; not known to be done): User has a dentist appointment on Tuesday\n"
        "* 2026-03-16 (date has passed; not known to be done): User will move from Express to Fastify on Monday\n"
        "</plans>"
    )
    assert "even when its date has passed" in context.system
    again = await say(memory, "Fastify is done: the move from Express works", "Then the dentist was moved to Friday.")
    assert again.render_without_edge().startswith(context.render_without_edge())
    await memory.thread(THREAD, resource=RESOURCE).observe()
    clock.advance(days=1)
    later = await say(memory, "And now?")
    assert edge_of(later, "plans") == (
        "<plans>\n* 2026-03-18 (date has passed; not known to be done): User will call the bank on Wednesday\n</plans>"
    )
    clock.advance(days=8)
    assert "bank" not in edge_of(await say(memory, "Next week?"), "plans")
    await check_seen(memory, context, 3)
    await check_seen(memory, later, 5)


async def test_a_forgotten_plan_is_not_told(opened: OpenMemory, clock: FakeClock) -> None:
    """What was known of it goes with the message."""
    memory = opened(model=ScriptedModel([observed(*PLANS)]))
    await say(memory, SAID)
    await memory.thread(THREAD, resource=RESOURCE).observe()
    clock.advance(days=3)
    assert "Fastify" in edge_of(await say(memory, "What is left?"), "plans")
    message = (await stored(memory))[0]
    await memory.resource(RESOURCE).forget(message=message.id, thread=THREAD)
    context = await say(memory, "What is left?")
    assert edge_of(context, "plans") == ""
    assert "Fastify" not in (await memory.thread(THREAD, resource=RESOURCE).seen(2)).render()


async def test_the_embedded_observer_finds_plans(opened: OpenMemory, clock: FakeClock) -> None:
    """Without a model, too."""
    memory = opened(model="extractive")
    await say(memory, "I will present the budget to the board tomorrow.")
    await memory.thread(THREAD, resource=RESOURCE).observe()
    clock.advance(days=3)
    assert "2026-03-15 (date has passed; not known to be done)" in edge_of(await say(memory, "Hello"), "plans")


# ---------------------------------------------------------------- where the work stands


async def hints_of(memory: Memory) -> Any:
    """Return what is known about where the thread stands."""
    return (await (await memory.open()).store.threads.get(RESOURCE, THREAD)).hints


async def step(memory: Memory) -> Context:
    """Return the context of a step in which no user says anything: the model goes on from its own words."""
    async with memory.thread(THREAD, resource=RESOURCE).turn() as turn:
        return await turn.prepare()


@pytest.mark.parametrize("scope", ["thread", "resource"])
async def test_of_several_groups_the_newest_task_holds(opened: OpenMemory, clock: FakeClock, scope: Any) -> None:
    """A group that says nothing about the task brings no older one back, and makes the task no younger."""
    answers = [
        observed("* 🟡 (09:00) User has old letters [1]", current_task="Sort the old letters", thread_title="Letters"),
        observed(
            "* 🟡 (09:10) User has a boat [1]", current_task="Paint the boat", suggested_response="Ask for the colour"
        ),
        observed("* 🟡 (09:30) User finds it a fine day [1]"),
    ]
    memory = opened(replace(CONFIG, scope=scope), ScriptedModel(answers))
    await say(memory, "Sort the old letters")
    await memory.thread(THREAD, resource=RESOURCE).observe()
    assert (await hints_of(memory)).current_task == "Sort the old letters"
    clock.advance(minutes=10)
    await say(memory, "Paint the boat", "Which colour?")
    said = clock.now()
    await memory.thread(THREAD, resource=RESOURCE).buffer()
    await memory.settled()
    clock.advance(minutes=20)
    await say(memory, "It is a fine day", "Indeed")
    await memory.thread(THREAD, resource=RESOURCE).buffer()
    await memory.settled()
    clock.advance(hours=5)
    await memory.thread(THREAD, resource=RESOURCE).activate()
    hints = await hints_of(memory)
    assert (hints.current_task, hints.suggested_response, hints.title) == ("Paint the boat", None, "Letters")
    assert (hints.at, hints.last_seq) == (said, 6)
    context = await step(memory)
    assert edge_of(context, "hints") == '<current-task said="5 hours ago">\nPaint the boat\n</current-task>'
    await check_seen(memory, context, 4)
    # After a new request, the older task is called so.
    context = await say(memory, "Forget it. Fix the roof instead.")
    assert edge_of(context, "hints") == '<earlier-task said="5 hours ago">\nPaint the boat\n</earlier-task>'
    await check_seen(memory, context, 5)


async def test_a_task_that_is_done_is_no_hint_any_more(opened: OpenMemory) -> None:
    """An observer ends it in words; silence does not end it."""
    line = "* 🟡 (09:00) User has a boat to paint [1]"
    answers = [observed(line, current_task="Paint the boat"), observed(line), observed(line, current_task="None.")]
    memory = opened(model=ScriptedModel(answers))
    for expected in ("Paint the boat", "Paint the boat", None):
        await say(memory, "Paint the boat")
        await memory.thread(THREAD, resource=RESOURCE).observe()
        assert (await hints_of(memory)).current_task == expected
    context = await step(memory)
    assert edge_of(context, "hints") == ""
    await check_seen(memory, context, 4)


async def test_what_a_reflection_said_of_the_task_is_seen_again(opened: OpenMemory) -> None:
    """The context after it shows the new words, the one before it the old ones; both can be built again."""
    line = "* 🟡 (09:00) User talked about the boat and the roof of the house [1]"
    reflected = (
        "<observations>\n* 🟡 (09:00) Talk about the boat [o1]\n</observations>\n<current-task>none</current-task>"
    )
    answers = [observed(line, current_task="Talk about the boat"), reflected]
    config = Config.from_dict(
        {"observation": {"buffer_tokens": False}, "reflection": {"keep_recent": {"hours": 0, "observations": 0}}}
    )
    memory = opened(config, ScriptedModel(answers))
    await say(memory, "Talk about the boat and the roof of the house")
    await memory.thread(THREAD, resource=RESOURCE).observe()
    before = await step(memory)
    assert "<current-task" in edge_of(before, "hints")
    await memory.thread(THREAD, resource=RESOURCE).reflect()
    assert (await hints_of(memory)).current_task is None
    after = await step(memory)
    assert edge_of(after, "hints") == ""
    await check_seen(memory, before, 2)
    await check_seen(memory, after, 3)


async def test_the_embedded_observer_ends_what_was_answered(opened: OpenMemory, clock: FakeClock) -> None:
    """A question that was answered is no task; a request is one until it is confirmed, and as old as its message."""
    memory = opened(model="extractive")
    await say(memory, "Which port does the service use?", "It uses port 8080.")
    await memory.thread(THREAD, resource=RESOURCE).observe()
    assert (await hints_of(memory)).current_task is None
    said = clock.now()
    await say(memory, "Please write tests for the orders endpoint", "I have written three tests.")
    clock.advance(minutes=30)
    await say(memory, "The orders endpoint is slow on Mondays.", "That is good to know.")
    await memory.thread(THREAD, resource=RESOURCE).observe()
    hints = await hints_of(memory)
    assert (hints.current_task, hints.at) == ("Please write tests for the orders endpoint", said)
    await say(memory, "It works now, thanks!", "Glad to hear it.")
    await memory.thread(THREAD, resource=RESOURCE).observe()
    assert (await hints_of(memory)).current_task is None


async def foreign_export(clock: FakeClock, zone: str) -> str:
    """Return what a machine exported that knew this zone."""
    async with Memory(":memory:", clock=clock, config=SMALL) as memory:
        async with memory.thread("t", resource="alice").turn() as turn:
            await turn.prepare(NewMessage(role="user", parts=(TextPart(text="The port is 8080."),), zone="Europe/Rome"))
            await turn.record(AssistantMessage("Noted. " * 20))
        text = io.StringIO()
        await memory.export(text, resource="alice")
    lines = [json.loads(line) for line in text.getvalue().splitlines()]
    for line in lines:
        if line.get("zone") == "Europe/Rome":
            line["zone"] = zone
    return "".join(json.dumps(line) + "\n" for line in lines)


@pytest.mark.parametrize("engine_name", ["sqlite", "postgres"], indirect=True)
@pytest.mark.parametrize("zone", ["Mars/Olympus", "+99:00"])
@pytest.mark.parametrize("model", [None, ScriptedModel()])
async def test_an_unknown_zone_is_utc(
    tmp_path: Path, address: str, clock: FakeClock, zone: str, model: ScriptedModel | None
) -> None:
    """It comes with an import; the thread goes on as any other."""
    exported = tmp_path / "all.jsonl"
    await asyncio.to_thread(exported.write_text, await foreign_export(clock, zone), "utf-8")
    async with Memory(address, clock=clock, model=model, config=SMALL) as memory:
        await memory.import_from(exported)
        status = await memory.thread("t", resource="alice").observe()
        assert (status.cursor, status.health) == (status.last_seq, "ok")
        context = await hold(memory, "And now?", thread="t")
        assert "09:00" in context.system
        assert await memory.thread("t", resource="alice").export_markdown()
