"""The pack of a real memory: what a session begins with, on each engine and in either scope."""

import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from kit.engines import engines
from kit.talk import hold
from memolog import Config, ObservationConfig, UserMessage
from memolog.context.pack import context_pack
from memolog.memory import Memory
from memolog.testing import FakeClock

RESOURCE = "alice"
CONFIG = Config(observation=ObservationConfig(message_tokens=2_000, previous_tokens=200))
engine_name = engines("memory", "postgres")


@pytest.fixture(params=("thread", "resource"))
async def memory(address: str, clock: FakeClock, request: pytest.FixtureRequest) -> AsyncIterator[Memory]:
    """Return a memory with a finished session, one that was swept, and one that goes on."""
    async with Memory(address, config=replace(CONFIG, scope=request.param), clock=clock) as opened:
        await say(opened, "monday", "We decided to store refresh tokens hashed in server/db/tokens.ts.")
        await opened.thread("monday", resource=RESOURCE).observe()
        clock.advance(days=1)
        await say(opened, "tuesday", "We prefer argon2id over bcrypt in server/auth/hash.ts.")
        await opened.resource(RESOURCE).sweep()
        await opened.settled()
        clock.advance(days=1)
        await say(opened, "wednesday", "The login page is at client/login.tsx.")
        clock.advance(hours=2)
        tasks = opened.resource(RESOURCE).tasks(session="s", thread="wednesday")
        await tasks.create("Rotate refresh tokens")
        await tasks.create("Write the changelog", priority=3)
        await tasks.claim("T-1")
        await (
            opened.resource(RESOURCE).working_memory().replace("# Facts\n\n- The API lives in server/.\n", who="alice")
        )
        await (
            opened.resource(RESOURCE)
            .working_memory(thread="wednesday")
            .replace("- Only here: port 8080.\n", who="alice")
        )
        yield opened


async def say(memory: Memory, thread: str, text: str) -> None:
    """Hold one turn."""
    await hold(memory, text, f"Noted, and done as you said in {thread}.", thread=thread)


async def test_what_a_session_begins_with(memory: Memory) -> None:
    """A new thread is told of facts, tasks, the log, what is buffered for it, and what nobody has observed yet."""
    made = await context_pack(memory, RESOURCE, "thursday")
    assert made.left_out == ()
    assert "The API lives in server/." in made.text
    assert "port 8080" not in made.text
    assert "ready T-2" in made.text
    assert "tokens.ts" in made.text
    assert "argon2id" in made.text
    assert "client/login.tsx" in made.text
    assert await (await memory.open()).store.threads.count(RESOURCE) == 3


async def test_a_session_that_goes_on(memory: Memory) -> None:
    """A thread that goes on comes last, with its own facts and its active task; nothing is said twice."""
    made = await context_pack(memory, RESOURCE, "wednesday")
    assert "port 8080" in made.text
    assert "active T-1" in made.text
    assert made.text.count("client/login.tsx") == 1
    assert made.text.count("argon2id") == made.text.count("hash.ts") == 1
    assert made.text.index("tokens.ts") < made.text.index("client/login.tsx")


async def test_packing_changes_nothing(memory: Memory) -> None:
    """Two packs are the same, and the context of the next turn is not affected: nothing was activated."""
    before = await memory.thread("tuesday", resource=RESOURCE).status()
    first = await context_pack(memory, RESOURCE, "tuesday", tokens=300)
    assert first == await context_pack(memory, RESOURCE, "tuesday", tokens=300)
    assert first.tokens <= 300
    assert await memory.thread("tuesday", resource=RESOURCE).status() == before


async def test_a_long_tail_is_counted_and_not_read(memory: Memory) -> None:
    """Of hundreds of messages only the newest are read; all that are not shown are told of."""
    store = (await memory.open()).store
    for number in range(300):
        await store.messages.save(RESOURCE, "thursday", UserMessage(f"This is sentence number {number:03}."))
    made = await context_pack(memory, RESOURCE, "thursday", tokens=1_000)
    assert "number 299." in made.text
    assert "number 000." not in made.text
    shown = made.text.count("This is sentence number")
    (told,) = [words for words in made.left_out if words.endswith("messages")]
    left, _, of, _ = told.split()
    assert int(of) - int(left) >= shown
    assert int(of) >= 300


async def test_nobody_reads_what_is_somebody_elses(memory: Memory) -> None:
    """A resource without a memory has an empty pack, also under the name of another's thread."""
    made = await context_pack(memory, "bob", "wednesday")
    assert (made.text, made.tokens, made.left_out) == ("", 0, ())


def test_packing_loads_little() -> None:
    """Whoever begins a session must not wait for libraries: not even the store is loaded with it."""
    code = (
        "import sys; before = set(sys.modules); import memolog.context.pack\n"
        "heavy = ('memolog.store', 'memolog.memory', 'pydantic', 'typer')\n"
        "print(*sorted(name for name in set(sys.modules) - before if name.startswith(heavy)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


async def test_a_secret_stays_in_its_conversation(memory: Memory) -> None:
    """What was said last is told word for word, but no key of one session is put into the prompt of another."""
    key = "sk-ant-" + "api03-" + "Ab3dEf6hIj9kLm2nOp5qRs8tUv1wXy4z" * 2
    await say(memory, "wednesday", f"Deploy with {key} please.")
    made = await context_pack(memory, RESOURCE, "thursday")
    assert "Deploy with [redacted: Anthropic key] please." in made.text
    assert key not in made.text
