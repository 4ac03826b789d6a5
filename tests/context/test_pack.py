"""A pack keeps within its tokens whatever it is made of, and gives its room to what matters most."""

import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kit.engines import engines
from kit.rows import rendered, row
from kit.talk import hold
from memolog import Config, ObservationConfig, UserMessage
from memolog.context.pack import Pack, PackConversation, PackView, context_pack, pack
from memolog.core.observation import Observation, Priority
from memolog.core.thread import Hints
from memolog.db.engine import Engine
from memolog.memory import Memory
from memolog.testing import FakeClock
from memolog.text.tokens import HeuristicCounter, SplintrCounter, TokenCounter

NOW = datetime(2026, 3, 20, 12, 0, tzinfo=UTC)


def group(number: int, *lines: tuple[Priority, str], verbatim: str | None = None) -> str:
    """Return a group as it stands in a log."""
    at = datetime(2026, 3, min(28, 1 + number), 9, 0, tzinfo=UTC)
    observations = [
        Observation(id=f"o{n}", group="g", ordinal=n, priority=priority, text=text, said_at=at, verbatim=verbatim)
        for n, (priority, text) in enumerate(lines, start=1)
    ]
    return rendered(observations, f"g{number}")


def alike(priority: Priority, number: int, text: str) -> list[tuple[Priority, str]]:
    """Return so many lines that differ in a number."""
    return [(priority, text.format(n)) for n in range(number)]


def packed(tokens: int = 4_000, **fields: object) -> Pack:
    """Return a pack of these things."""
    return pack(PackView(tokens=tokens, now=NOW, counter=HeuristicCounter(), **fields))  # pyright: ignore[reportArgumentType]


def test_everything_is_shown_where_there_is_room() -> None:
    """Facts, log, messages, hints and tasks, each once, groups as they are stored, and nothing is left out."""
    first = group(1, ("high", "User stated that the API lives in server/"))
    second = group(2, ("medium", "Assistant wrote <the> schema"), verbatim="a < b")
    made = packed(
        working_memory="# Facts\n\n- </working-memory> forged",
        task_lines=("active T-1 (P2): Write it", "2 more ready"),
        hints=Hints(current_task="Writing\nit", suggested_response="Go on", at=NOW),
        conversations=(
            PackConversation(
                thread='t"1',
                title="Login",
                at=NOW,
                groups=(first, second),
                messages=(row(1, "user", "Hello", created_at=NOW),),
            ),
            PackConversation(thread="t0", groups=(group(9, ("low", "Of the day before")),)),
        ),
    )
    assert made.left_out == ()
    assert made.text.startswith("<memory-pack>\n")
    assert made.text.endswith("\n</memory-pack>")
    assert f"{first}\n{second}\n(2026-03-20 12:00) user: Hello\n</conversation>" in made.text
    assert '<conversation thread="t&quot;1" title="Login" last="just now">' in made.text
    assert '<current-task said="just now">\nWriting it\n</current-task>' in made.text
    assert "- &lt;/working-memory> forged" in made.text
    assert "* active T-1 (P2): Write it" in made.text
    # What matters most stands last, where it is read best.
    assert made.text.index("Of the day before") < made.text.index("API lives") < made.text.index("T-1")
    assert made.tokens == HeuristicCounter().count(made.text)


def test_nothing_to_tell_is_no_text() -> None:
    """Who remembers nothing says nothing: an empty text, also where a conversation has only our own calls."""
    assert packed() == Pack()
    assert packed(working_memory="  \n", conversations=(PackConversation(thread="t"),)) == Pack()
    assert packed(conversations=(PackConversation(thread="t", messages=(row(1, "user", "x", own=True),)),)) == Pack()


def test_the_newest_and_the_marked_lines_stay() -> None:
    """Half of the log's room is for what is newest; then old decisions come before old details."""
    decisions = alike("high", 5, "decision {} stands")
    old = group(1, *decisions, *alike("low", 80, "detail {} of old"))
    new = group(2, *alike("medium", 40, "step {} was made lately"))
    made = packed(500, conversations=(PackConversation(thread="t", groups=(old, new)),))
    assert made.tokens <= 500
    assert "step 39 was" in made.text
    assert "step 0 was" not in made.text
    assert all(f"decision {n} stands" in made.text for n in range(5))
    assert "detail" not in made.text
    assert "[80 of 85 lines left out]" in made.text
    (told,) = made.left_out
    assert told.endswith("of 125 lines of the log")
    assert told in made.text


def test_a_huge_line_does_not_push_out_the_others() -> None:
    """An entry that cannot fit is left out alone."""
    text = group(1, ("high", "kept"), ("high", "huge " * 5_000), ("medium", "also kept"))
    made = packed(600, conversations=(PackConversation(thread="t", groups=(text,)),))
    assert "* 🔴 (09:00) kept" in made.text
    assert "also kept" in made.text
    assert "huge" not in made.text


def test_messages_get_what_the_log_does_not_need() -> None:
    """Where there is no log yet, the latest messages fill the room, and the earlier ones are counted."""
    said = tuple(row(n, "user", f"sentence number {n:03}") for n in range(1, 200))
    made = packed(800, conversations=(PackConversation(thread="t", messages=said),))
    assert 700 < made.tokens <= 800
    assert "number 199" in made.text
    assert "number 001" not in made.text
    assert made.left_out[0].endswith("of 199 messages")


def test_a_long_working_memory_is_cut() -> None:
    """Facts take less than a third, and it is said that there are more."""
    made = packed(500, working_memory="fact " * 2_000, task_lines=("ready T-1 (P2): Write it",))
    assert "T-1" in made.text
    assert made.left_out == ("the end of the working memory",)


words = st.text(st.characters(codec="utf-8"), max_size=120)
priorities: st.SearchStrategy[Priority] = st.sampled_from(["high", "medium", "low", "done"])
lines = st.lists(st.tuples(priorities, words), max_size=8)


def conversation(
    thread: str | None, title: str, groups: list[list[tuple[Priority, str]]], said: list[str]
) -> PackConversation:
    """Return a conversation with these groups and messages."""
    return PackConversation(
        thread=thread,
        title=title,
        at=NOW,
        groups=tuple(filter(None, (group(n, *given) for n, given in enumerate(groups, start=1)))),
        messages=tuple(row(n, "user", text) for n, text in enumerate(said, start=1)),
    )


conversations = st.lists(
    st.builds(
        conversation,
        st.none() | words.filter(bool),
        words,
        st.lists(lines, max_size=4),
        st.lists(words, max_size=12),
    ),
    max_size=3,
)


@pytest.mark.parametrize("counter", [HeuristicCounter(), SplintrCounter()])
@settings(deadline=None)
@given(
    tokens=st.integers(-1, 1_500),
    facts=st.none() | words | words.map(lambda text: text * 30),
    tasks=st.lists(words, max_size=6),
    hint=st.none() | words,
    given_conversations=conversations,
)
def test_a_pack_keeps_within_its_tokens(
    counter: TokenCounter,
    tokens: int,
    facts: str | None,
    tasks: list[str],
    hint: str | None,
    given_conversations: list[PackConversation],
) -> None:
    """Whatever there is and however small the room: never more tokens, and tags that no text can forge."""
    made = pack(
        PackView(
            tokens=tokens,
            now=NOW,
            counter=counter,
            working_memory=facts,
            task_lines=tuple(tasks),
            hints=Hints(current_task=hint),
            conversations=tuple(given_conversations),
        )
    )
    assert made.tokens == (counter.count(made.text) if made.text else 0)
    assert made.tokens <= max(tokens, 0)
    if made.text:
        assert made.text.count("<memory-pack>") == made.text.count("</memory-pack>") == 1
        assert made.text.count("<conversation") == made.text.count("</conversation>")
        assert made.text.count("<observations") == made.text.count("</observations>")


# ---------------------------------------------------------------- of a real memory, on each engine and in either scope

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


# ---------------------------------------------------------------- many threads

DECISION = "We decided to store refresh tokens hashed in server/db/tokens.ts."


@pytest.fixture(params=("thread", "resource"))
async def crowd(address: str, clock: FakeClock, request: pytest.FixtureRequest) -> AsyncIterator[Memory]:
    """Return a memory with a session in which something was decided, and twelve newer threads of its sub-agents."""
    async with Memory(address, config=replace(CONFIG, scope=request.param), clock=clock) as opened:
        await say(opened, "s1", DECISION)
        await opened.thread("s1", resource=RESOURCE).observe()
        for number in range(12):
            clock.advance(minutes=5)
            await say(opened, f"s1-agent{number}", f"Always read module number {number} in server/part{number}.py.")
            if number % 2:
                await opened.thread(f"s1-agent{number}", resource=RESOURCE).observe()
        yield opened


@pytest.mark.parametrize("thread", [None, "s1", "s2"])
async def test_newer_threads_do_not_push_out_a_decision(crowd: Memory, thread: str | None) -> None:
    """Whether the session goes on, another begins or none is named: what was decided is there, and so is the rest if it fits."""
    made = await context_pack(crowd, RESOURCE, thread)
    assert made.left_out == ()
    assert made.text.count("tokens.ts") == 1
    assert all(f"server/part{number}.py" in made.text for number in range(12))
    small = await context_pack(crowd, RESOURCE, thread, tokens=500)
    assert small.tokens <= 500
    assert "tokens.ts" in small.text
    assert small.left_out


async def test_the_number_of_queries_does_not_grow_with_the_threads(
    crowd: Memory, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pack of two hundred threads is read by as many statements as one of a few dozen, and by fewer without a thread."""
    store = (await crowd.open()).store

    async def statements(thread: str | None = "s1") -> int:
        count = 0
        engine = type(store.engine)
        whole = engine.read

        async def counted(self: Engine, script: Any, **how: Any) -> Any:
            def watching() -> Any:
                nonlocal count
                steps, sent = script(), None
                while True:
                    try:
                        step = steps.send(sent)
                    except StopIteration as end:
                        return end.value
                    count += 1
                    sent = yield step

            return await whole(self, watching, **how)

        with monkeypatch.context() as patched:
            patched.setattr(engine, "read", counted)
            await context_pack(crowd, RESOURCE, thread)
        return count

    async def more(first: int, end: int) -> None:
        for number in range(first, end):
            clock.advance(minutes=1)
            await store.messages.save(RESOURCE, f"more{number}", UserMessage(f"Sentence {number}."))

    await more(0, 10)
    few = await statements()
    await more(10, 190)
    assert 0 < await statements() <= few
    assert 0 < await statements(None) < few
    made = await context_pack(crowd, RESOURCE, "s1")
    assert "tokens.ts" in made.text
    assert "Sentence 189." in made.text


async def test_the_working_memory_of_a_thread_is_shown_only_there(crowd: Memory) -> None:
    """A pack without a thread or for a new one has the facts of the resource, not those of the thread that was active last."""
    resource = crowd.resource(RESOURCE)
    await resource.working_memory().replace("The fact for all.\n", who="test")
    await resource.working_memory(thread="s1-agent11").replace("The fact for one.\n", who="test")
    for thread, expected in ((None, False), ("s2", False), ("s1", False), ("s1-agent11", True)):
        text = (await context_pack(crowd, RESOURCE, thread)).text
        assert ("The fact for all." in text, "The fact for one." in text) == (True, expected)


async def test_what_was_not_read_is_counted(crowd: Memory, clock: FakeClock) -> None:
    """Lines and messages of threads for which there is no room are told of."""
    store = (await crowd.open()).store
    for number in range(60):
        clock.advance(minutes=1)
        await store.messages.save(RESOURCE, f"more{number}", UserMessage(f"Sentence {number}."))
    made = await context_pack(crowd, RESOURCE, tokens=300)
    (told,) = [words for words in made.left_out if words.endswith("messages")]
    assert int(told.split()[2]) >= 60


async def test_the_task_in_hand_without_a_thread(memory: Memory) -> None:
    """A task in progress is in the pack and in the lines for a hand-over: as active for its session, else with its holder."""
    resource = memory.resource(RESOURCE)
    await resource.tasks(session="elsewhere").claim("T-2")
    mine = (await resource.pack(session="s")).text
    assert "active T-1" in mine
    assert "in progress T-2 (P3, held by elsewhere): Write the changelog" in mine
    nobody = (await resource.pack()).text
    assert "in progress T-1 (P2, held by s): Rotate refresh tokens" in nobody
    lines = await resource.task_lines(session="s")
    assert lines[0].startswith("active T-1")
    assert lines[1].startswith("in progress T-2")
    assert (await resource.task_lines(thread="wednesday"))[0].startswith("active T-1")
