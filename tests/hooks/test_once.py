"""Events are stored once and in order, also if they are repeated, late, or without a transcript."""

import random
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from datetime import timedelta
from itertools import chain, islice
from pathlib import Path
from typing import Any

import pytest

from hooks.world import Desk, Session, Step, brief
from kit.effort import counts
from memolog import UserMessage
from memolog.apps.hooks.sweep import purge

OBSERVER = """
import asyncio, sys
from memolog import Config, Memory, ObservationConfig
from memolog.errors import MemologError

async def main():
    config = Config(observation=ObservationConfig(message_tokens=3_000, previous_tokens=300))
    async with Memory(sys.argv[1], config=config) as memory:
        print("ready", flush=True)
        while True:
            for thread in sys.argv[2:]:
                try:
                    await memory.thread(thread, resource="project").observe()
                except MemologError as error:
                    print(error, file=sys.stderr)
            await asyncio.sleep(0.01)

asyncio.run(main())
"""


def observing(desk: Desk, thread: str) -> "subprocess.Popen[str]":
    """Start a process that observes a thread until it is killed."""
    return subprocess.Popen([sys.executable, "-c", OBSERVER, str(desk.db), thread], stdout=subprocess.PIPE, text=True)


async def play(desk: Desk, session: Session, steps: Iterable[Step], chance: random.Random, *, sweeps: int) -> int:
    """Play a session with repeated and late events, and return the number of hook calls."""
    held: list[tuple[Any, Any]] = []
    unwritten: list[Any] = []
    calls = 0
    for kind, what in steps:
        if kind == "line":
            unwritten.append(what)
        # A host writes its transcript when it has time for it.
        while unwritten and chance.random() < 0.7:
            session.write(unwritten.pop(0))
        if kind == "line":
            continue
        at = desk.clock.now()
        told = [(what, at)] * (2 if chance.random() < 0.2 else 1)
        if chance.random() < 0.15:
            # It comes later than others that happened after it.
            held += told
            continue
        if chance.random() < 0.3:
            told += held
            held = []
        for event, moment in told:
            desk.tell(session.host, event, moment)
            calls += 1
        if what["hook_event_name"] == "Stop" and chance.random() < 1 / sweeps:
            await desk.sweep()
    for event, moment in held:
        desk.tell(session.host, event, moment)
        calls += 1
    for line in unwritten:
        session.write(line)
    return calls


@pytest.mark.parametrize("host", ["claude-code", "codex"])
async def test_five_hundred_events_are_stored_once(desk: Desk, tmp_path: Path, host: Any) -> None:
    """Some events are repeated or late, and another process observes. Each line is stored once, in order."""
    chance = random.Random(11)
    session = Session(host=host, folder=tmp_path, clock=desk.clock, project=str(tmp_path))
    # The same words again and again are said again and again.
    prompts = [
        chance.choice(["continue", "yes", f"fix bug {number} in src/auth.ts"]) for number in range(counts(125, 400))
    ]
    steps = chain.from_iterable(map(session.turn, prompts))
    assert await play(desk, session, islice(steps, 40), chance, sweeps=1) > 10
    await desk.sweep()
    with observing(desk, session.name) as observer:
        assert observer.stdout is not None
        assert observer.stdout.readline() == "ready\n"
        try:
            calls = await play(desk, session, steps, chance, sweeps=12)
            desk.tell(host, session.event("SessionEnd", reason="other"))
            await desk.sweep()
        finally:
            observer.kill()
    assert calls > 500
    await desk.later()
    assert brief(await desk.messages(session.name)) == session.said
    assert desk.options(host).spool.sizes() == {}


@pytest.mark.parametrize("host", ["claude-code", "codex"])
async def test_without_a_transcript_events_speak_for_themselves(desk: Desk, tmp_path: Path, host: Any) -> None:
    """The transcript does not exist. Prompts, calls, results and answers are stored once from events."""
    chance = random.Random(5)
    session = Session(host=host, folder=tmp_path / "nowhere", clock=desk.clock, project=str(tmp_path))
    steps = chain.from_iterable(session.turn(f"prompt {number}") for number in range(30))
    await play(desk, session, (step for step in steps if step[0] == "event"), chance, sweeps=3)
    await desk.later()
    stored = brief(await desk.messages(session.name))
    assert Counter(stored) == Counter(session.said)


async def test_what_the_transcript_lacks_is_kept(desk: Desk, tmp_path: Path) -> None:
    """A prompt without a line is stored, in order of time, when the transcript has later lines."""
    session = Session(host="claude-code", folder=tmp_path, clock=desk.clock, project=str(tmp_path))
    lost = session.event("UserPromptSubmit", prompt="queued while it worked")
    first = list(session.turn("first"))
    desk.live(session, [*first[:4], ("event", lost), *first[4:]])
    await desk.sweep()
    assert "user queued while it worked" not in brief(await desk.messages(session.name))
    desk.clock.advance(minutes=5)
    desk.live(session, session.turn("second"))
    await desk.sweep()
    stored = brief(await desk.messages(session.name))
    assert stored.count("user queued while it worked") == 1
    assert [line for line in stored if not line.startswith("user queued")] == session.said
    assert stored.index("user queued while it worked") < stored.index("user second")


async def test_a_line_that_comes_after_its_event_was_stored_is_not_stored_again(desk: Desk, tmp_path: Path) -> None:
    """The host writes the transcript after the events were stored. Only lines without an event are added."""
    session = Session(host="claude-code", folder=tmp_path, clock=desk.clock, project=str(tmp_path))
    began = desk.clock.now()
    steps = list(session.turn("build it"))
    for what in [what for kind, what in steps if kind == "event"]:
        desk.tell("claude-code", what, began + timedelta(seconds=12))
    await desk.later()
    assert len(await desk.messages(session.name)) == len(session.said)
    desk.live(session, [step for step in steps if step[0] == "line"])
    extra = session._claude_line("assistant", "One thing more.", "")
    extra["timestamp"] = (began + timedelta(seconds=30)).isoformat()
    session.write(extra)
    desk.tell("claude-code", session.event("SessionEnd", reason="exit"))
    await desk.sweep()
    stored = brief(await desk.messages(session.name))
    assert Counter(stored) == Counter([*session.said, "assistant One thing more."])


async def test_the_same_words_twice_are_two_messages(desk: Desk, tmp_path: Path) -> None:
    """Events with equal text and different turn ids are two messages. A repeated event adds nothing."""
    for generation in ("g1", "g2", "g2"):
        event = {
            "hook_event_name": "beforeSubmitPrompt",
            "conversation_id": "c1",
            "generation_id": generation,
            "prompt": "continue",
            "workspace_roots": [str(tmp_path)],
        }
        assert desk.tell("cursor", event) == '{"continue": true}\n'
    await desk.sweep()
    desk.tell("cursor", event)
    await desk.sweep()
    assert brief(await desk.messages("c1")) == ["user continue", "user continue"]


async def test_what_was_forgotten_stays_forgotten(desk: Desk, tmp_path: Path) -> None:
    """A forgotten message is not stored again, although the transcript still has it."""
    session = Session(host="claude-code", folder=tmp_path, clock=desk.clock, project=str(tmp_path))
    desk.live(session, session.turn("my password is swordfish"))
    await desk.sweep()
    first = (await desk.messages(session.name))[0]
    async with desk.memory() as memory:
        await memory.resource("project").forget(message=first.id, thread=session.name)
    desk.live(session, session.turn("and now?"))
    await desk.sweep()
    stored = brief(await desk.messages(session.name))
    assert stored == session.said[1:]


async def test_a_sweep_that_was_stopped_is_done_again(desk: Desk, tmp_path: Path) -> None:
    """If a sweep stops after it has taken events, the next sweep stores them."""
    session = Session(host="codex", folder=tmp_path, clock=desk.clock, project=str(tmp_path))
    steps = chain(session.turn("one"), session.turn("two"))
    desk.live(session, islice(steps, 8))
    spool = desk.options("codex").spool
    (name,) = spool.sizes()
    taken = spool.take(name)
    assert taken
    desk.live(session, steps)
    await desk.sweep()
    await desk.later()
    assert brief(await desk.messages(session.name)) == session.said
    assert spool.sizes() == {}


# ---------------------------------------------------------------- what was forgotten


@pytest.mark.parametrize("host", ["claude-code", "codex"])
async def test_a_forgotten_session_does_not_come_back(desk: Desk, tmp_path: Path, host: Any) -> None:
    """A forgotten session returns neither from its transcript nor from waiting events. Later messages are stored."""
    session = Session(host=host, folder=tmp_path, clock=desk.clock)
    desk.live(session, session.turn("my code is swordfish"))
    await desk.sweep()
    # One more prompt waits for its line.
    desk.clock.advance(minutes=1)
    desk.tell(host, session.event("UserPromptSubmit", prompt="it is still swordfish", turn_id="x"))
    desk.clock.advance(seconds=1)
    if host == "codex":
        # A sweep that was stopped has taken it already.
        desk.options("sweep").spool.take(session.name)
        desk.tell(host, session.event("UserPromptSubmit", prompt="once more: swordfish", turn_id="y"))
        desk.clock.advance(seconds=1)
    async with desk.memory() as memory:
        await memory.resource("project").forget(thread=session.name)
        spool = desk.options("sweep").spool
        await purge(memory.resource("project"), spool)
        assert not [name for name in spool.sizes() if "swordfish" in str(spool.peek(name))]
    desk.clock.advance(minutes=5)
    since = len(session.said)
    desk.live(session, session.turn("and what is the weather?", tools=1))
    await desk.later()
    left = await desk.messages(session.name)
    assert Counter(brief(left)) == Counter(session.said[since:])


async def test_events_of_others_stay_in_the_spool(desk: Desk, tmp_path: Path) -> None:
    """A purge removes only events of the forgotten session."""
    names = [f"0b5b1c1e-0000-4000-8000-00000000000{number}" for number in range(3)]
    for name in names:
        desk.resource = "other" if name == names[2] else "project"
        session = Session(host="cursor", folder=tmp_path, clock=desk.clock, name=name)
        desk.tell("cursor", session.event("beforeSubmitPrompt", prompt=f"about {name}"))
    desk.resource = "project"
    spool = desk.options("sweep").spool
    async with desk.memory() as memory:
        for resource in ("project", "other"):
            thread = memory.thread(names[0], resource=resource)
            await thread.save([UserMessage("x")])
            await thread.forget()
        assert await purge(memory.resource("project"), spool) == 1
        assert await purge(memory.resource("project"), spool) == 0
    assert sorted(text for name in spool.sizes() for one in spool.peek(name) if (text := one.get("text"))) == [
        f"about {name}" for name in names[1:]
    ]
