"""The official clients through the gateway: every message is stored once."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from adapters.kit import SMALL, Prompts, check_pairs, split_edge, stored
from adapters.provider import APIS as DRIVERS
from adapters.rules import signature
from gateway.upstream import Call, Reply, Seen
from gateway.world import APIS, Conversation, World, opened
from memolog.core.message import ToolCallPart

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


def said_in(seen: Seen) -> list[Any]:
    """Return the conversation of a request that the provider got."""
    given = seen.body["input" if seen.path.endswith("responses") else "messages"]
    return [{"role": "user", "content": given}] if isinstance(given, str) else given


def newest(seen: Seen) -> str:
    """Return the last user message of a request."""
    texts: list[str] = []
    for one in said_in(seen):
        content = one.get("content")
        blocks = [content] if isinstance(content, str) else [b.get("text", "") for b in content or ()]
        if one.get("role") == "user":
            texts += [said for text in blocks if (said := split_edge(text)[0])]
    # An unanswered question may be part of the same message.
    return texts[-1].rpartition("\n\n")[2]


def echo(seen: Seen) -> Reply:
    """Answer with the last user message."""
    return f"You said: {newest(seen)}"


def tooled(seen: Seen) -> Reply:
    """Call a tool, or answer if the tool was called already."""
    number = newest(seen).split()[-1]
    asked = json.dumps(said_in(seen))
    return f"It is {number}." if f"call_{number}" in asked else Call(f"call_{number}", "look", {"at": int(number)})


@pytest.mark.parametrize("is_streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("api", APIS)
async def test_only_what_is_new_need_be_sent(tmp_path: Path, api: str, is_streamed: bool) -> None:
    """The client sends only its newest message, and the provider gets the whole conversation."""
    async with opened(tmp_path / "memolog.db", echo) as world:
        talk = world.talk(api, is_streamed=is_streamed)
        assert await talk.say("Hello there.") == "You said: Hello there."
        assert await talk.say("How are you?") == "You said: How are you?"
        sent = json.dumps(said_in(world.upstream.seen[-1]))
        assert all(words in sent for words in ("Hello there.", "You said: Hello there.", "How are you?"))
        assert await world.lines() == [
            "user: Hello there.",
            "assistant: You said: Hello there.",
            "user: How are you?",
            "assistant: You said: How are you?",
        ]


@pytest.mark.parametrize("is_streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("api", APIS)
async def test_a_client_that_sends_its_whole_history(tmp_path: Path, api: str, is_streamed: bool) -> None:
    """Each message is stored once, calls have their results, and reasoning stays in its place."""
    async with opened(tmp_path / "memolog.db", tooled) as world:
        talk = world.talk(api, is_whole=True, is_streamed=is_streamed)
        for number in range(4):
            call = await talk.say(f"Look at {number}")
            assert call == Call(f"call_{number}", "look", {"at": number})
            assert await talk.answer((f"call_{number}", f"seen {number}")) == f"It is {number}."
        rows = await stored(world.memory, "alice", "t1")
        check_pairs(rows)
        assert await world.lines() == [
            line
            for number in range(4)
            for line in (
                f"user: Look at {number}",
                f"call call_{number}: look",
                f"result call_{number}",
                f"assistant: It is {number}.",
            )
        ]
        calls = [part for row in rows for part in row.parts if isinstance(part, ToolCallPart)]
        arguments = [json.loads(c.arguments) if isinstance(c.arguments, str) else c.arguments for c in calls]
        assert arguments == [{"at": number} for number in range(4)]
        if api != "chat":
            # What the model thought goes back to it untouched, where it was.
            marks = [f"enc-{n}" if api == "responses" else signature(f"thought {n}") for n in range(1, 8)]
            sent = json.dumps(said_in(world.upstream.seen[-1]))
            assert [sent.index(mark) for mark in marks] == sorted(sent.index(mark) for mark in marks)


@pytest.mark.parametrize("api", APIS)
async def test_the_rest_of_a_request_is_passed_on(tmp_path: Path, api: str) -> None:
    """Model, temperature, instructions and key are the client's; the edge is in the last message and never stored."""
    async with opened(tmp_path / "memolog.db", echo) as world:
        await world.talk(api).say("Hello.")
        seen = world.upstream.seen[-1]
        assert (seen.body["model"], seen.body["temperature"]) == ("m", 0.5)
        assert "Be exact." in json.dumps(seen.body)
        assert "sk-the-clients-own-key" in json.dumps(seen.headers)
        assert not [name for name in seen.headers if name.startswith("x-memolog")]
        assert "<now>" in json.dumps(said_in(seen)[-1])
        assert not any("<now>" in line for line in await world.lines())


@pytest.mark.parametrize("api", APIS)
async def test_usage_is_learned(tmp_path: Path, api: str) -> None:
    """The usage of a request is in the ledger, with and without streaming."""
    async with opened(tmp_path / "memolog.db", echo) as world:
        for is_streamed in (False, True):
            await world.talk(api, is_streamed=is_streamed).say("Hello.")
        total = await world.memory.resource("alice").usage(thread="t1")
        assert (total.requests, total.input_tokens, total.output_tokens) == (2, 200, 10)


@pytest.mark.parametrize("api", ["chat", "messages"])
async def test_a_long_conversation_with_a_restart(tmp_path: Path, api: str) -> None:
    """Between activations each prompt extends the last one, and every message is stored once."""
    prompts, said = Prompts(), list[str]()
    number = 0
    for _ in range(2):
        async with opened(tmp_path / "memolog.db", echo, config=SMALL) as world:
            prompts.watch(world.memory)
            world.upstream.tokens = lambda seen: len(seen.raw) // 4
            for _ in range(25):
                number += 1
                text = f"Question {number}: {'what of it, ' * 30}"
                talk = world.talk(api, is_streamed=bool(number % 2))
                await talk.say(text)
                said += [f"user: {text.strip()}", f"assistant: You said: {text.strip()}"]
                prompts.add(DRIVERS[api].prompt(world.upstream.seen[-1].body))
            await world.memory.settled()
            assert [line.strip() for line in await world.lines()] == said
    prompts.check()


async def test_one_thread_through_three_apis(tmp_path: Path) -> None:
    """Requests through different APIs belong to one thread."""
    async with opened(tmp_path / "memolog.db", echo) as world:
        for api in (*APIS, *APIS):
            await world.talk(api, is_streamed=True).say(f"Through {api}.")
        lines = [line for line in await world.lines() if line.startswith("user")]
        assert lines == [f"user: Through {api}." for api in (*APIS, *APIS)]
        assert "Through chat." in json.dumps(said_in(world.upstream.seen[-1]))


async def test_a_hundred_conversations_at_once(tmp_path: Path) -> None:
    """Two turns of each conversation, through every API: no request or thread has a text of another."""

    def script(seen: Seen) -> Reply:
        return f"Noted for {newest(seen).split()[0]}."

    async with opened(tmp_path / "memolog.db", script) as world:
        talks = [
            world.talk(
                APIS[n % 3],
                thread=f"t{n % 10}",
                resource=f"user{n}",
                is_whole=bool(n % 2),
                is_streamed=bool(n % 5),
            )
            for n in range(100)
        ]
        for turn in range(2):
            answers = await asyncio.gather(*(talk.say(f"user{n}-word asks {turn}") for n, talk in enumerate(talks)))
            assert answers == [f"Noted for user{n}-word." for n in range(100)]
        for seen in world.upstream.seen:
            text = seen.raw.decode()
            names = {word.split("-word")[0] for word in text.replace('"', " ").split() if "-word" in word}
            assert len(names) == 1, names
        for n, talk in enumerate(talks):
            await check_own(world, talk, n)


async def check_own(world: World, talk: Conversation, number: int) -> None:
    """Check that a thread has exactly the messages of its client."""
    lines = await world.lines(talk.headers["x-memolog-thread"], talk.headers["x-memolog-resource"])
    assert lines == [
        line
        for turn in range(2)
        for line in (f"user: user{number}-word asks {turn}", f"assistant: Noted for user{number}-word.")
    ]


async def test_every_engine(address: str) -> None:
    """Tool calls through every API on each engine."""
    async with opened(address, tooled) as world:
        for api in APIS:
            talk = world.talk(api, thread=api, is_whole=True, is_streamed=True)
            await talk.say("Look at 7")
            await talk.answer(("call_7", "seen"))
            check_pairs(await stored(world.memory, "alice", api))
            assert (await world.lines(api))[-1] == "assistant: It is 7."


def test_the_example_runs(tmp_path: Path) -> None:
    """The provider gets the whole conversation although the client sends only new messages."""
    example = Path(__file__).parents[2] / "examples" / "proxy.py"
    done = subprocess.run([sys.executable, example], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    first = "the first was: We deploy on Fridays."
    assert done.stdout.splitlines() == [f"You have told me {count} things; {first}" for count in (1, 2, 3)]
