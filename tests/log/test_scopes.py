"""Resource scope: several threads share one log, each with its own cursor, and a change of scope loses nothing."""

import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from crash.survivors import select, step
from kit.engines import a_memory, engines
from kit.talk import hold, listen
from log.engine_invariants import check_log, read_rows
from memolog import (
    AssistantMessage,
    Config,
    Extractor,
    FilePart,
    ObservationConfig,
    ReflectionConfig,
    TextPart,
    UserMessage,
)
from memolog import ToolCallPart as Call
from memolog.context.context import Context
from memolog.context.edge import OTHER_CONVERSATION
from memolog.core.thread import Hints
from memolog.db.queries import Script
from memolog.errors import ThreadNotFound
from memolog.events import Activated, RunEnded, RunFailed, RunStarted, SettingsChanged
from memolog.memory import Memory
from memolog.observer.model import ModelRequest
from memolog.store import Store
from memolog.testing import FakeClock, ScriptedModel, observations_of

RESOURCE = "alice"
THREAD_SCOPE = Config(
    observation=ObservationConfig(message_tokens=2_000, previous_tokens=200),
    reflection=ReflectionConfig(observation_tokens=4_000),
    activate_after_idle=False,
    scope="thread",
)
SHARED = replace(THREAD_SCOPE, scope="resource")
_SECTION = re.compile(r'^<thread id="([^"]+)">\n(.*?)\n</thread>', re.MULTILINE | re.DOTALL)
engine_name = engines("memory", "postgres")
memory = a_memory(model=ScriptedModel, config=SHARED)


async def say(memory: Memory, thread: str, *texts: str, clock: FakeClock | None = None) -> Context:
    """Hold a turn for each text; return the last context."""
    context = Context()
    for text in texts:
        context = await hold(memory, f"{thread}: {text}", f"{thread} hears {text}", thread=thread)
        if clock is not None:
            clock.advance(minutes=1)
    return context


def model_of(memory: Memory) -> ScriptedModel:
    """Return the scripted model of a memory."""
    assert isinstance(memory.model, ScriptedModel)
    return memory.model


async def cursors(memory: Memory) -> dict[str, tuple[int, int, int]]:
    """Return the cursor, the alias and the last sequence number of each thread in the shared log."""
    text = """SELECT t.id, c.seq, c.alias, t.last_seq FROM cursors c JOIN threads t ON t.pk = c.thread_pk
    JOIN logs l ON l.pk = c.log_pk WHERE l.thread_pk IS NULL"""
    (rows,) = await select((await memory.open()).store, text)
    return {name: (seq, alias, last) for name, seq, alias, last in rows}


# ---------------------------------------------------------------- one log


async def test_threads_share_one_log(memory: Memory, clock: FakeClock) -> None:
    """What was observed in one thread is in the prefix of all, under the thread's alias; each has its own cursor."""
    for name in ("red", "green", "blue"):
        await say(memory, name, *("word " * 40 for _ in range(3)), clock=clock)
    status = await memory.thread("red", resource=RESOURCE).observe()
    assert status.scope == "resource"
    assert status.backlog_tokens == 0
    where = await cursors(memory)
    assert {name: seq for name, (seq, _, _) in where.items()} == {"red": 6, "green": 6, "blue": 6}
    one, other = await say(memory, "red", "again"), await say(memory, "blue", "again")
    assert one.system == other.system
    aliases = {alias for _, alias, _ in where.values()}
    assert aliases == {1, 2, 3}
    assert all(f't{alias}"' in one.system for alias in aliases)
    assert not any(name in one.system for name in ("red", "green", "blue"))
    check_log(await read_rows((await memory.open()).store), None)


async def test_hints_belong_to_their_thread(memory: Memory) -> None:
    """The task of one thread is not the task of another."""
    model_of(memory).answers.append(lambda request: observations_of(request).replace("Going on from", "Task of red,"))
    await say(memory, "red", "word " * 40)
    await memory.thread("red", resource=RESOURCE).observe()
    await say(memory, "blue", "word " * 40)
    threads = (await memory.open()).store.threads
    red, blue = await threads.get(RESOURCE, "red"), await threads.get(RESOURCE, "blue")
    assert "Task of red" in str(red.hints.current_task)
    assert blue.hints == Hints()
    assert "Task of red" in (await say(memory, "red", "next")).edge_text
    assert "Task of red" not in (await say(memory, "blue", "next")).edge_text


async def test_aliases_are_stable(memory: Memory, clock: FakeClock) -> None:
    """A thread has one short name in a log, from the first time that any model sees it, whatever comes and goes."""
    seen: dict[str, set[str]] = {}
    for number in range(4):
        for name in ("red", "green", "blue", "white"):
            context = await say(memory, name, f"only {name} says this {number} " + "word " * 10, clock=clock)
            for alias, body in re.findall(
                r'<other-conversation thread="([^"]+)"[^>]*>(.*?)</other', context.render(), re.DOTALL
            ):
                told = re.search(r"only (\w+) says", body)
                assert told is not None
                seen.setdefault(told[1], set()).add(alias)
        if number == 1:
            await memory.thread("red", resource=RESOURCE).observe()
            await memory.resource(RESOURCE).forget(thread="white")
    where = await cursors(memory)
    assert set(seen) == {"red", "green", "blue", "white"}
    for name in ("red", "green", "blue"):
        assert seen[name] == {f"t{where[name][1]}"}
    assert len({alias for _, alias, _ in where.values()}) == 4


async def test_threads_that_the_log_has_never_seen_have_aliases_too(memory: Memory, clock: FakeClock) -> None:
    """Threads that were filled by somebody else are shown under short names as well, never under their ids."""
    store = (await memory.open()).store
    for name in ("secret-project", "other-project"):
        await store.messages.save(RESOURCE, name, UserMessage(f"hello from {name[:5]}"))
    first = await say(memory, "here", "hello")
    assert "hello from secre" in first.edge_text
    assert "-project" not in first.edge_text
    names = set(re.findall(r'<other-conversation thread="(t\d+)"', first.edge_text))
    assert len(names) == 2
    await memory.thread("here", resource=RESOURCE).observe()
    assert names == {f"t{alias}" for name, (_, alias, _) in (await cursors(memory)).items() if name != "here"}


async def test_other_conversations_are_at_the_edge(memory: Memory, clock: FakeClock) -> None:
    """Unobserved messages of other threads are shown after the tail, with a warning, and are gone once the log has them."""
    await say(memory, "red", "the build is broken", clock=clock)
    context = await say(memory, "blue", "hello", clock=clock)
    assert "the build is broken" in context.edge_text
    assert OTHER_CONVERSATION in context.edge_text
    assert "the build is broken" not in context.render_without_edge()
    assert [message.text for message in context.messages] == ["blue: hello"]
    await memory.thread("blue", resource=RESOURCE).observe()
    context = await say(memory, "blue", "and now?")
    assert OTHER_CONVERSATION not in context.edge_text


async def test_other_threads_count_towards_the_window(memory: Memory, clock: FakeClock) -> None:
    """A thread that says little is still activated when the others fill the window."""
    for name in "abcdefgh":
        await say(memory, name, "word " * 150, clock=clock)
        await memory.settled()
    for _ in range(4):
        await say(memory, "quiet", "word " * 150, clock=clock)
        await memory.settled()
    status = await memory.thread("quiet", resource=RESOURCE).status()
    assert status.groups > 0
    assert status.messages.tokens < 2_400
    check_log(await read_rows((await memory.open()).store), None)


async def test_how_much_of_other_conversations_is_shown_is_a_setting(address: str, clock: FakeClock) -> None:
    """So many conversations, so many messages of each, so many tokens; whatever is not shown is counted, and built again."""
    config = SHARED.with_overrides({"observation.message_tokens": 30_000, "other_threads": 2, "other_messages": 3})
    async with Memory(address, model=ScriptedModel(), config=config, clock=clock) as memory:
        for name in ("a", "b", "c", "d"):
            await say(memory, name, *(f"number {number}" for number in range(4)), clock=clock)
        async with memory.thread("a", resource=RESOURCE).turn() as turn:
            await turn.prepare(UserMessage("a: withdrawn"))
            await turn.discard()
        context = await say(memory, "here", "hello")
        assert len(re.findall("<other-conversation ", context.edge_text)) == 2
        assert context.edge_text.count("[5 earlier messages not shown]") == 2
        assert "[2 other conversations with 16 messages not shown]" in context.edge_text
        assert (await memory.thread("here", resource=RESOURCE).seen(1)).edge_text == context.edge_text
    little = config.with_overrides({"other_tokens": 40})
    async with Memory(address, model=ScriptedModel(), config=little, clock=clock) as memory:
        if address != ":memory:":
            context = await hold(memory, "and now?", thread="here", settings={"read_only": True})
            assert "[4 other conversations with 32 messages not shown]" in context.edge_text
            assert "<other-conversation " not in context.edge_text
    nothing = config.with_overrides({"other_threads": 0})
    async with Memory(address, model=ScriptedModel(), config=nothing, clock=clock) as memory:
        await say(memory, "d", "number 9")
        assert "conversation" not in (await say(memory, "here", "and now?")).edge_text


# ---------------------------------------------------------------- batches


async def test_short_threads_are_observed_in_one_call_oldest_first(memory: Memory, clock: FakeClock) -> None:
    """One call carries several short threads, in the order of their oldest messages, whatever they are called."""
    for name in ("zebra", "mouse", "ant"):
        await say(memory, name, "word " * 10, clock=clock)
    events = listen(memory)
    await memory.thread("ant", resource=RESOURCE).observe()
    assert len(model_of(memory).requests) == 1
    shown = [body for _, body in _SECTION.findall(model_of(memory).requests[0].text)]
    assert [re.findall(r"(\w+): word", body)[0] for body in shown] == ["zebra", "mouse", "ant"]
    started = [event.thread for event in events if isinstance(event, RunStarted)]
    assert started == ["zebra", "mouse", "ant"]
    assert len([event for event in events if isinstance(event, RunEnded)]) == 3
    check_log(await read_rows((await memory.open()).store), None)


def all_but(name: str) -> Any:
    """Return an observer that answers for every thread of a call but the one that speaks of a name."""

    def answer(request: ModelRequest) -> str:
        bodies = dict(_SECTION.findall(request.text))
        kept = [alias for alias, body in bodies.items() if f"{name}: " not in body]
        sections = dict(_SECTION.findall(observations_of(request)))
        return "\n".join(f'<thread id="{alias}">\n{sections[alias]}\n</thread>' for alias in kept)

    return answer


@pytest.mark.parametrize("name", ["zebra", "mouse", "ant"])
async def test_one_failing_thread_keeps_the_progress_of_the_others(memory: Memory, clock: FakeClock, name: str) -> None:
    """An answer that leaves a thread out fails for that thread alone; only it is asked about again."""
    model = model_of(memory)
    for thread in ("zebra", "mouse", "ant"):
        await say(memory, thread, "word " * 10, clock=clock)
    model.answers.append(all_but(name))
    events = listen(memory)
    await memory.thread("ant", resource=RESOURCE).observe()
    assert [event.thread for event in events if isinstance(event, RunFailed)] == [name]
    where = await cursors(memory)
    assert {thread: seq for thread, (seq, _, _) in where.items()} == {
        thread: 0 if thread == name else 2 for thread in ("zebra", "mouse", "ant")
    }
    clock.advance(minutes=5)
    await memory.thread("ant", resource=RESOURCE).observe()
    assert all(seq == last for seq, _, last in (await cursors(memory)).values())
    assert len(model.requests) == 2
    assert f"{name}: word" in model.requests[1].text
    assert not any(f"{other}: word" in model.requests[1].text for other in {"zebra", "mouse", "ant"} - {name})
    check_log(await read_rows((await memory.open()).store), None)


async def test_a_call_about_several_threads_shows_the_end_of_the_log_once(memory: Memory, clock: FakeClock) -> None:
    """What they share is paid for once; each is called in the call what it is called in the log."""
    for name in ("zebra", "mouse", "ant"):
        await say(memory, name, f"{name} is {name}", clock=clock)
    await memory.thread("ant", resource=RESOURCE).observe()
    for name in ("zebra", "mouse", "ant"):
        await say(memory, name, "word " * 10, clock=clock)
    await memory.thread("ant", resource=RESOURCE).observe()
    text = model_of(memory).requests[-1].text
    assert text.count("<log-end>") == 1
    assert text.index("</log-end>") < text.index("<thread ")
    where = await cursors(memory)
    called = {alias: re.findall(r"(\w+): word", body)[0] for alias, body in _SECTION.findall(text)}
    assert called == {f"t{where[name][1]}": name for name in ("zebra", "mouse", "ant")}
    check_log(await read_rows((await memory.open()).store), None)


async def test_a_call_about_several_threads_carries_their_files(address: str, clock: FakeClock) -> None:
    """What the observer's model may look at, it may look at in a batch too."""
    image = FilePart(media_type="image/png", data=b"a picture", name="plan.png", width=32, height=32)
    config = SHARED.with_overrides({"observation.attach_files": True, "observation.message_tokens": 40_000})
    async with Memory(address, model=ScriptedModel(), config=config, clock=clock) as memory:
        for name in ("zebra", "mouse"):
            await hold(memory, UserMessage([TextPart(text="look"), image]), "a plan", thread=name)
        await memory.thread("mouse", resource=RESOURCE).observe()
        (request,) = model_of(memory).requests
        assert [file.name for file in request.files] == ["plan.png", "plan.png"]
        assert "1. plan.png, of message [1]\n2. plan.png, of message [3]" in request.text


async def test_one_thread_of_several_asked_about_one_by_one_may_fail(address: str, clock: FakeClock) -> None:
    """Values of the application are asked for thread by thread; a failure there keeps the others' progress too."""
    model = ScriptedModel()
    mood = Extractor(key="mood", instructions="How the user feels.")
    async with Memory(address, model=model, config=SHARED, clock=clock, extractors=[mood]) as memory:
        for name in ("zebra", "mouse", "ant"):
            await say(memory, name, "word " * 10, clock=clock)
        model.answers += [observations_of, "", observations_of]
        await memory.thread("ant", resource=RESOURCE).observe()
        assert {name: seq for name, (seq, _, _) in (await cursors(memory)).items()} == {
            "zebra": 2,
            "mouse": 0,
            "ant": 2,
        }


@pytest.mark.parametrize("asked", [0, 200, 800])
async def test_as_much_of_the_log_is_shown_as_was_asked_for(address: str, clock: FakeClock, asked: int) -> None:
    """Many small groups make a long log: the observer is shown its end up to the limit, not so many groups of it."""
    config = SHARED.with_overrides({"observation.previous_tokens": asked})
    async with Memory(address, model=ScriptedModel(), config=config, clock=clock) as memory:
        for number in range(72):
            await say(memory, "red", f"number {number} is said here", clock=clock)
            await memory.thread("red", resource=RESOURCE).observe()
        # As long as a message must be for the end of the log to have 800 tokens.
        await say(memory, "red", "and now? " * 2_500, clock=clock)
        await memory.thread("red", resource=RESOURCE).observe()
        shown = re.search(r"<log-end>\n(.*?)\n</log-end>", model_of(memory).requests[-1].text, re.DOTALL)
        tokens = memory.counter.count(shown[1]) if shown else 0
        # Each line counts for itself, and with its end.
        assert asked * 0.8 <= tokens <= asked


@pytest.mark.parametrize("how", ["deleted", "discarded"])
async def test_a_thread_that_goes_during_a_call_keeps_the_progress_of_the_others(
    memory: Memory, clock: FakeClock, how: str
) -> None:
    """Its own result is refused; what the others came to is stored, and they are not asked about again."""
    turn = memory.thread("zebra", resource=RESOURCE).turn()
    await turn.__aenter__()
    await turn.prepare(UserMessage("zebra: word " * 10))
    await say(memory, "mouse", "word " * 10, clock=clock)
    await say(memory, "ant", "word " * 10, clock=clock)

    async def meanwhile(request: ModelRequest) -> str:
        if how == "deleted":
            await memory.resource(RESOURCE).forget(thread="zebra")
        else:
            await turn.discard()
        return observations_of(request)

    model_of(memory).answers.append(meanwhile)
    await memory.thread("ant", resource=RESOURCE).observe()
    where = await cursors(memory)
    assert (where["mouse"][0], where["ant"][0]) == (2, 2)
    mentions = [request for request in model_of(memory).requests if "mouse: word" in request.text]
    assert len(mentions) == 1
    check_log(await read_rows((await memory.open()).store), None)


async def test_a_run_that_another_process_took_over_keeps_the_progress_of_the_others(
    memory: Memory, clock: FakeClock
) -> None:
    """The third run of a call loses its lease: the others are stored together, and it is left to its new owner."""
    for name in ("zebra", "mouse", "ant"):
        await say(memory, name, "word " * 10, clock=clock)
    store = (await memory.open()).store
    events = listen(memory)

    async def meanwhile(request: ModelRequest) -> str:
        third = [event.run for event in events if isinstance(event, RunStarted)][2]
        late = clock.now() + timedelta(hours=1)
        taken = await store.runs.take_over(RESOURCE, third, 1, owner="another process", now=late, lease=3_600)
        assert taken is not None
        return observations_of(request)

    model_of(memory).answers.append(meanwhile)
    commits: list[str] = []
    store.engine.commit_hook = commits.append
    await memory.thread("zebra", resource=RESOURCE).buffer()
    await memory.settled()
    store.engine.commit_hook = None
    assert [event.thread for event in events if isinstance(event, RunEnded)] == ["zebra", "mouse"]
    assert [event.thread for event in events if isinstance(event, RunFailed)] == ["ant"]
    assert commits.count("runs.finish:after") == 1
    (runs,) = await select(store, "SELECT status, owner FROM runs ORDER BY pk")
    assert [status for status, _ in runs] == ["done", "done", "running"]
    assert runs[2][1] == "another process"
    (groups,) = await select(store, "SELECT handle, run_pk FROM groups ORDER BY pk")
    assert [handle for handle, _ in groups] == ["g1", "g2"]
    check_log(await read_rows(store), None)


async def test_the_runs_of_a_call_are_started_ended_and_noted_together(memory: Memory, clock: FakeClock) -> None:
    """However many threads a call has, their runs cost as many transactions as one: to start, to end, and to note each."""
    for number in range(6):
        await say(memory, f"thread-{number}", "word " * 10, clock=clock)
    store = (await memory.open()).store
    commits: list[str] = []
    store.engine.commit_hook = commits.append
    await memory.thread("thread-0", resource=RESOURCE).buffer()
    await memory.settled()
    store.engine.commit_hook = None
    done = [name.removesuffix(":after") for name in commits if name.endswith(":after")]
    assert (done.count("runs.start"), done.count("runs.finish")) == (1, 1)
    assert done.count("journal.add") <= 3
    stored = [event.kind for event in await store.journal.events(RESOURCE)]
    assert (stored.count("RunStarted"), stored.count("RunEnded")) == (6, 6)
    check_log(await read_rows(store), None)


async def occupy(store: Store, run: str) -> None:
    """Put a group where the result of a run belongs, so that the database refuses the result."""

    def script() -> Script[None]:
        columns = "log_pk, thread_pk, first_seq, last_seq"
        yield step(
            f"INSERT INTO groups (id, handle, kind, tokens, created_at, text, {columns}) "
            f"SELECT 'occupied', 'g99', 'observer', 0, 0, '', {columns} FROM runs WHERE id = '{run}'"
        )

    await store.engine.write(script, name="occupy")


async def test_a_result_that_cannot_be_stored_keeps_the_progress_of_the_others(
    memory: Memory, clock: FakeClock
) -> None:
    """The database refuses one of three results: the others are stored one by one, and only that thread is asked again."""
    for name in ("zebra", "mouse", "ant"):
        await say(memory, name, "word " * 10, clock=clock)
    store = (await memory.open()).store
    events = listen(memory)

    async def meanwhile(request: ModelRequest) -> str:
        second = [event.run for event in events if isinstance(event, RunStarted)][1]
        await occupy(store, second)
        return observations_of(request)

    model_of(memory).answers.append(meanwhile)
    await memory.thread("zebra", resource=RESOURCE).buffer()
    await memory.settled()
    assert [event.thread for event in events if isinstance(event, RunEnded)] == ["zebra", "ant"]
    assert [event.thread for event in events if isinstance(event, RunFailed)] == ["mouse"]
    (runs,) = await select(store, "SELECT status FROM runs ORDER BY pk")
    assert [status for (status,) in runs] == ["done", "failed", "done"]


async def test_an_open_call_elsewhere_holds_nobody_back(memory: Memory, clock: FakeClock) -> None:
    """A thread that waits for a tool keeps its call in its tail; the others are observed to their ends."""
    await hold(memory, "look it up", AssistantMessage([Call(id="c", name="look")]), thread="waiting")
    await say(memory, "red", "word " * 40, clock=clock)
    await memory.thread("red", resource=RESOURCE).observe()
    where = await cursors(memory)
    assert where["red"][0] == where["red"][2]
    assert (where["waiting"][0], where["waiting"][2]) == (1, 2)


# ---------------------------------------------------------------- reflecting


def condensed(request: ModelRequest) -> str:
    """Answer as a reflector that keeps a line a thread, joins what both say, and finds one of them off track."""
    lines = re.findall(r"^(o\d+) (t\d+) 🟡 \(\d\d:\d\d\) (.*)$", request.text, re.MULTILINE)
    by_thread: dict[str, list[str]] = {}
    common: list[str] = []
    for name, thread, text in lines:
        (common if "everywhere" in text else by_thread.setdefault(thread, [])).append(name)
    told = "\n".join(
        f"* {thread} 🔴 (09:00) the words of one [{','.join(names)}]" for thread, names in by_thread.items()
    )
    off = '<thread id="t2"><off-track>words of t2; back to green</off-track></thread>'
    return f"<observations>\n{told}\n* 🔴 said everywhere [{','.join(common)}]\n</observations>\n{off}"


def in_words(request: ModelRequest) -> str:
    """Answer with a line for every message of a user, in its own words."""

    def line(hit: re.Match[str]) -> str:
        said = re.search(rf"^<message>\[{hit[1]}\][^\n]*\n([^\n]+)", request.text, re.MULTILINE)
        return f"* 🟡 {said[1][:60] if said else ''} [{hit[1]}]"

    return re.sub(r"\* 🟡 Message (\d+) was said \[[\d,]+\]", line, observations_of(request))


async def test_a_reflection_keeps_which_thread_a_line_is_of(memory: Memory, clock: FakeClock) -> None:
    """The reflector is shown it, the log shows it, lines of several threads are joined, and hints go to their thread."""
    model, store = model_of(memory), (await memory.open()).store
    for number in range(3):
        for name in ("red", "green"):
            await say(memory, name, f"the words of {name}, {number}", clock=clock)
    for name in ("red", "green"):
        await say(memory, name, "said everywhere", clock=clock)
    model.answers += [in_words]
    await memory.thread("red", resource=RESOURCE).observe()
    before = {name: (await store.threads.get(RESOURCE, name)).hints for name in ("red", "green")}
    model.answers += [condensed]
    await memory.thread("red", resource=RESOURCE).reflect()
    aliases = {f"t{alias}": name for name, (_, alias, _) in (await cursors(memory)).items()}
    asked = model.requests[-1].text
    for alias, text in re.findall(r"^o\d+ (t\d+) 🟡 \(\d\d:\d\d\) (.*)$", asked, re.MULTILINE):
        assert text.startswith(f"{aliases[alias]}: ")
    assert f"t2 current task: {before['green'].current_task}" in asked
    context = await say(memory, "red", "and now?")
    shown = [line for line in context.system.split("\n") if line.startswith("* 🔴")]
    assert [line.partition(") ")[2] for line in shown] == [
        "t1: the words of one",
        "t2: the words of one",
        "said everywhere",
    ]
    snapshot = await store.logs.snapshot(RESOURCE, "red", "resource")
    lines = await store.logs.observations(snapshot.resource, snapshot.log.pk, [snapshot.groups[0].id])
    assert [line.text for line in lines] == ["the words of one", "the words of one", "said everywhere"]
    after = {name: (await store.threads.get(RESOURCE, name)).hints for name in ("red", "green")}
    assert after["red"] == before["red"]
    assert "words of t2; back to green" in str(after["green"].suggested_response)
    forgotten = next(source for source in lines[0].sources)
    row = (await store.messages.span(RESOURCE, forgotten.thread, forgotten.span))[0]
    await memory.resource(RESOURCE).forget(message=row.id, thread=forgotten.thread)
    system = (await say(memory, "red", "and then?")).system
    assert f"t1: {aliases['t1']}: the words of {aliases['t1']}, 1" in system
    assert "t2: the words of one" in system


async def test_the_embedded_reflector_keeps_which_thread_a_line_is_of(address: str, clock: FakeClock) -> None:
    """Without a model too."""
    async with Memory(address, config=SHARED, clock=clock) as memory:
        for number in range(6):
            for name in ("red", "green"):
                await say(memory, name, f"I want {name} wall number {number} painted by Alice.", clock=clock)
                await say(memory, name, "I want everything to be dry.", clock=clock)
        await memory.thread("red", resource=RESOURCE).observe()
        await memory.thread("red", resource=RESOURCE).reflect()
        aliases = {name: f"t{alias}" for name, (_, alias, _) in (await cursors(memory)).items()}
        system = (await say(memory, "red", "and now?")).system
        shown = [line for line in system.split("\n") if " wall number " in line]
        assert shown
        for line in shown:
            name = "red" if "red wall" in line else "green"
            assert f" {aliases[name]}: " in line


# ---------------------------------------------------------------- a change of scope


async def _talk(memory: Memory, clock: FakeClock, threads: Sequence[str], turns: int) -> None:
    for _ in range(turns):
        for thread in threads:
            await say(memory, thread, "word " * 60, clock=clock)
            await memory.settled()


@pytest.mark.parametrize("engine_name", ["sqlite", "postgres"], indirect=True)
async def test_a_change_of_scope_on_live_data(address: str, clock: FakeClock) -> None:
    """Thread, resource, thread, resource: no message is lost, each log tiles its threads, and the old logs stay."""
    model = ScriptedModel()
    before: list[Any] = []
    for number, config in enumerate((THREAD_SCOPE, SHARED, THREAD_SCOPE, SHARED), start=1):
        async with Memory(address, model=model, config=config, clock=clock) as memory:
            store = (await memory.open()).store
            await _talk(memory, clock, ("red", "blue"), 5)
            for name in ("red", "blue"):
                status = await memory.thread(name, resource=RESOURCE).observe()
                assert (status.backlog_tokens, status.cursor, status.scope) == (0, number * 10, config.scope)
                rows = await store.messages.after(RESOURCE, name, 0)
                assert [row.seq for row in rows] == list(range(1, number * 10 + 1))
            check_log(await read_rows((await memory.open()).store), None)
            groups, logs = await select(
                store,
                "SELECT id, handle, first_seq, last_seq, state, text FROM groups ORDER BY pk",
                "SELECT COUNT(*) FROM logs",
            )
            # What one scope has observed is never touched by the other.
            assert groups[: len(before)] == before
            assert logs == [(2 if number == 1 else 3,)]
            before = groups
            for name, alias in (("red", "t1"), ("blue", "t2")):
                system = (await hold(memory, "what do you know?", thread=name, settings={"read_only": True})).system
                assert (alias in system) == (config.scope == "resource")
                assert "<observations id=" in system


@pytest.mark.parametrize("engine_name", ["sqlite", "postgres"], indirect=True)
async def test_who_does_not_say_takes_what_the_resource_was_used_with(address: str, clock: FakeClock) -> None:
    """Scope and thresholds are stored with the resource: a memory without settings sees the same log and the same limits."""
    async with Memory(address, model=ScriptedModel(), config=SHARED, clock=clock) as memory:
        for name in ("red", "blue"):
            await say(memory, name, "word " * 40, clock=clock)
        said = await memory.thread("red", resource=RESOURCE).observe()
        history = await memory.thread("red", resource=RESOURCE).history()
    async with Memory(address, config=Config(read_only=True), clock=clock) as memory:
        found = await memory.thread("blue", resource=RESOURCE).status()
        assert (found.scope, found.groups) == ("resource", said.groups)
        assert (found.messages.limit, found.observations.limit) == (2_000, 4_000)
        assert await memory.thread("blue", resource=RESOURCE).history() == history
        assert "[red 1-2]" in await memory.thread("blue", resource=RESOURCE).export_markdown()
        # Nobody else is meant.
        assert (await (await memory.open()).config_for("bob")).scope == "thread"
    async with Memory(address, clock=clock) as memory:
        await say(memory, "green", "word " * 40, clock=clock)
        await memory.thread("green", resource=RESOURCE).observe()
        assert set(await cursors(memory)) == {"red", "blue", "green"}
        (logs,) = await select((await memory.open()).store, "SELECT COUNT(*) FROM logs")
        assert logs == [(1,)]


@pytest.mark.parametrize("engine_name", ["sqlite", "postgres"], indirect=True)
async def test_what_the_code_says_wins_and_is_told_once(address: str, clock: FakeClock) -> None:
    """A different setting is stored in place of the old one, with an event; the same again, or silence, is no news."""

    async def changes(config: Config, turns: int = 2) -> list[tuple[Any, Any]]:
        async with Memory(address, model=ScriptedModel(), config=config, clock=clock) as memory:
            events = listen(memory)
            for _ in range(turns):
                await say(memory, "red", "hello", clock=clock)
            return [(event.before, event.now) for event in events if isinstance(event, SettingsChanged)]

    assert await changes(SHARED) == []
    assert await changes(SHARED) == []
    assert await changes(Config()) == []
    assert await changes(Config(scope="thread")) == [({"scope": "resource"}, {"scope": "thread"})]
    assert await changes(Config(scope="thread")) == []
    longer = SHARED.with_overrides({"observation.message_tokens": 9_000})
    before = {"scope": "thread", "observation.message_tokens": 2_000}
    assert await changes(longer) == [(before, {"scope": "resource", "observation.message_tokens": 9_000})]
    async with Memory(address, clock=clock) as memory:
        await hold(memory, "for this turn only", thread="red", settings={"scope": "thread"})
        found = await memory.thread("red", resource=RESOURCE).status()
        assert (found.scope, found.messages.limit) == ("resource", 9_000)
        await memory.resource(RESOURCE).forget()
        assert await (await memory.open()).store.settings.get(RESOURCE) == {}


async def test_a_resource_that_was_forgotten_is_set_up_again(address: str, clock: FakeClock) -> None:
    """The memory that forgot it stores what it says once more."""
    async with Memory(address, model=ScriptedModel(), config=SHARED, clock=clock) as memory:
        await say(memory, "red", "hello")
        await memory.resource(RESOURCE).forget()
        await say(memory, "red", "hello")
        assert (await (await memory.open()).store.settings.get(RESOURCE))["scope"] == "resource"


# ---------------------------------------------------------------- sweeping


@pytest.mark.parametrize("config", [THREAD_SCOPE, SHARED], ids=["thread", "resource"])
async def test_a_sweep_observes_what_was_left_behind(address: str, clock: FakeClock, config: Config) -> None:
    """Threads that nobody reopened are observed in the background, in either scope; a second sweep finds nothing to ask."""
    model = ScriptedModel()
    async with Memory(address, model=model, config=config, clock=clock) as memory:
        for name in ("red", "green", "blue"):
            await say(memory, name, "word " * 20, clock=clock)
        assert model.requests == []
        assert await memory.resource(RESOURCE).sweep() == 3
        await memory.settled()
        for name in ("red", "green", "blue"):
            assert (await memory.thread(name, resource=RESOURCE).status()).backlog_tokens == 0
        asked = len(model.requests)
        assert asked == (3 if config.scope == "thread" else 1)
        assert await memory.resource(RESOURCE).sweep() == 0
        await memory.settled()
        assert len(model.requests) == asked
        assert await memory.resource("somebody else").sweep() == 0
        with pytest.raises(ThreadNotFound):
            await memory.thread("red", resource="somebody else").observe()


async def test_a_sweep_takes_over_from_the_dead(address: str, clock: FakeClock) -> None:
    """A run whose owner is gone is taken over, though nobody speaks in its thread any more."""
    model = ScriptedModel()
    async with Memory(address, model=model, config=THREAD_SCOPE, clock=clock) as memory:
        model.answers.append(RuntimeError("down"))
        await say(memory, "red", "word " * 400)
        await memory.settled()
        assert (await memory.thread("red", resource=RESOURCE).status()).failed == 1
        clock.advance(hours=1)
        await memory.resource(RESOURCE).sweep()
        await memory.settled()
        status = await memory.thread("red", resource=RESOURCE).status()
        assert (status.failed, status.backlog_tokens) == (0, 0)


async def test_many_threads_are_swept(address: str, clock: FakeClock) -> None:
    """More threads than one page of the list, and more than one call can carry."""
    model = ScriptedModel()
    async with Memory(address, model=model, config=THREAD_SCOPE, clock=clock) as memory:
        store = (await memory.open()).store
        for number in range(210):
            await store.messages.save(RESOURCE, f"thread-{number}", UserMessage("hello"))
        assert await memory.resource(RESOURCE).sweep() == 210
        await memory.settled()
    assert len(model.requests) == 210


async def test_a_busy_sibling_does_not_push_out_the_last_answer(memory: Memory, clock: FakeClock) -> None:
    """Two conversations go on while a third is much busier: each sees the answer that its user replies to."""
    events = listen(memory)
    counts = dict.fromkeys(("one", "two", "three"), 0)
    for number in range(72):
        thread = "one" if number % 12 == 5 else "two" if number % 12 == 11 else "three"
        said = counts[thread]
        counts[thread] += 1
        async with memory.thread(thread, resource=RESOURCE).turn() as turn:
            context = await turn.prepare(UserMessage(f"{thread} asks {said}: " + "so and so " * 12))
            texts = [message.text for message in context.tail]
            assert not said or any(text.startswith(f"{thread} answers {said - 1}:") for text in texts), (thread, said)
            await turn.record(AssistantMessage(f"{thread} answers {said}: " + "such and such " * 12))
        await memory.settled()
        clock.advance(minutes=1)
    assert len([event for event in events if isinstance(event, Activated)]) >= 3
