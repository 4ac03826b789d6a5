"""Many who share a memory, and those of them that fail: a turn does not wait for the trouble of others."""

import asyncio
import os
import signal
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import asyncpg
import pytest

from kit.models import Hanging
from kit.talk import hold, kill, listen
from memolog import AssistantMessage, Config, Context, Memory, ToolMessage, UserMessage
from memolog.core.deadline import Budget
from memolog.core.message import NewMessage, ToolCallPart, ToolResultPart
from memolog.core.observation import Span
from memolog.db import postgres
from memolog.db.queries import Step
from memolog.db.queue import CallQueue
from memolog.errors import StoreBusy, StoreUnavailable
from memolog.events import Degraded, Event, Recovered
from memolog.log import runs, snapshot
from memolog.log import store as logs
from memolog.store import Store
from memolog.testing import FakeClock, ScriptedModel

SHARED = Config.from_dict({"scope": "resource", "observation": {"message_tokens": 2_000}})
SMALL = Config.from_dict({"observation": {"message_tokens": 300}})
on_files = pytest.mark.parametrize("engine_name", ["sqlite", "postgres"], indirect=True)
# Far longer than anything here takes on a busy machine, far shorter than a wait for somebody who is gone.
PATIENCE = 120.0
AN_HOUR = {"lease": 3_600, "observation.deadline": 3_600}


async def talk(memory: Memory, thread: str, turns: int, words: int = 30) -> None:
    """Hold some turns of a thread."""
    for number in range(turns):
        rest = f"{number} of {thread} " + "word " * words
        await hold(memory, f"question {rest}", f"answer {rest}", thread=thread)


# ---------------------------------------------------------------- a shared log


@on_files
async def test_many_conversations_share_a_log(address: str, clock: FakeClock) -> None:
    """Two processes of eight conversations: no turn fails, nothing is lost, and the log covers all of it in the end."""
    events: list[Event] = []
    config = SHARED.with_overrides({"turn_timeout": 600})
    async with (
        Memory(address, model=ScriptedModel(), clock=clock, config=config) as one,
        Memory(address, model=ScriptedModel(), clock=clock, config=config) as other,
    ):
        for memory in (one, other):
            memory.subscribe(events.append)
        names = [f"t{number}" for number in range(8)]
        await asyncio.gather(
            *(talk(one, f"one-{name}", 4) for name in names), *(talk(other, f"other-{name}", 4) for name in names)
        )
        await asyncio.gather(one.settled(), other.settled())
        status = await one.thread("one-t0", resource="alice").observe()
        assert not [event for event in events if isinstance(event, Degraded)]
        assert (status.running, status.failed) == (0, 0)
        seen = await (await one.open()).store.logs.snapshot("alice", "one-t0", "resource")
        assert (seen.cursor, seen.others) == (8, ())


async def test_a_turn_goes_on_while_another_caller_has_the_log(
    address: str, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It reads nothing of the other threads but what it shows, starts nothing, and does not wait."""
    async with Memory(address, model=ScriptedModel(), clock=clock, config=SHARED) as memory:
        await talk(memory, "t1", 4)
        await talk(memory, "t2", 1)
        await memory.settled()
        kit = await memory.open()
        held = kit.core.hold("alice", "t1", "resource")
        await held.take()
        with monkeypatch.context() as patch:
            patch.delitem(snapshot.q.__dict__, "other_heads")
            context = await hold(memory, "what about us? " + "word " * 2_000, thread="t2")
            assert "question 3 of t1" in context.edge_text
        # Who asks by hand waits for it.
        by_hand = asyncio.create_task(memory.thread("t2", resource="alice").observe())
        await asyncio.sleep(0.05)
        assert not by_hand.done()
        held.give()
        status = await by_hand
        assert status.cursor == status.last_seq


async def test_threads_are_taken_in_one_order(store: Store, clock: FakeClock, monkeypatch: pytest.MonkeyPatch) -> None:
    """By rising keys, whatever they are called: two who take the same threads do not wait for each other."""
    taken: list[int] = []
    make: Any = runs.threads.lock_key

    class Recorded:
        def many(self, values: Any) -> Step:
            taken.extend(value["thread_pk"] for value in values)
            return make.many(values)

    for name in ("c", "a", "b"):
        await store.messages.save("alice", name, [UserMessage("hello")])
    seen = await store.logs.snapshot("alice", "a", "resource")
    monkeypatch.setitem(runs.threads.__dict__, "lock_key", Recorded())
    span = Span(first=1, last=1)
    new = [runs.NewRun(id=f"run-{n}", kind="observe", thread=n, span=span, inputs={}) for n in ("a", "c", "b")]
    claims = await store.runs.start("alice", seen.log.pk, seen.log.version, new, owner="o", now=clock.now(), lease=30)
    assert taken == sorted(taken)
    made = runs.RunResult(group="", observations=(), hints=None, tokens=0, model="m", prompt_version="1")
    for claim in claims:
        await store.runs.finish("alice", claim, runs_made(made, claim.run), now=clock.now())
    seen = await store.logs.snapshot("alice", "a", "resource")
    taken.clear()
    shown = [logs.Rendered(id=f"group-{run.id}", text="x", tokens=1) for run in new]
    await store.logs.activate(seen.resource, seen.log.pk, seen.log.version, shown, now=clock.now())
    assert len(taken) == 3
    assert taken == sorted(taken)


def runs_made(made: runs.RunResult, run: str) -> runs.RunResult:
    """Return what a run made, under a group of its own."""
    return replace(made, group=f"group-{run}")


# ---------------------------------------------------------------- processes that are gone


async def test_how_a_process_is_doing(store: Store, clock: FakeClock) -> None:
    """It is judged by its beats, and by the time that passes here; a clock only tells what is older than a lease."""
    processes = store.processes
    assert await processes.life("p") == "unknown"
    await processes.beat("p")
    assert await processes.life("p") == "fresh"
    await processes.beat("p")
    assert await processes.life("p") == "moving"
    clock.advance(days=1)
    # It was seen to go on: its clock may be any.
    assert await processes.life("p") == "moving"
    processes.silence = 0.0
    assert await processes.life("p") == "silent"


async def test_a_process_is_known_with_its_first_message(store: Store, clock: FakeClock) -> None:
    """What a new process saves is not taken for that of a dead one before its first beat, nor after a long silence."""
    await store.messages.save("alice", "t1", [UserMessage("Hello.")], turn="turn-1", owner="p")
    assert await store.processes.life("p") == "fresh"
    clock.advance(hours=2)
    await store.messages.save("alice", "t1", [UserMessage("Hello again.")], turn="turn-2", owner="p")
    assert await store.processes.life("p") == "moving"


@on_files
async def test_nobody_waits_for_a_process_that_was_killed(address: str, clock: FakeClock) -> None:
    """A run is in flight whose process is gone: a turn goes on at once, and takes it over once beats are missing."""
    config = Config.from_dict({"buffer_on_idle": True}).with_overrides(AN_HOUR)
    killed = Memory(address, model=Hanging(), clock=clock, config=config)
    await talk(killed, "t1", 2, words=200)
    assert (await killed.thread("t1", resource="alice").status()).running
    await kill(killed)
    async with Memory(address, model=ScriptedModel(), clock=clock, config=SMALL.with_overrides(AN_HOUR)) as memory:
        events = listen(memory)
        async with asyncio.timeout(PATIENCE):
            await talk(memory, "t1", 1)
        assert not [event for event in events if isinstance(event, Recovered)]
        (await memory.open()).store.processes.silence = 0.0
        await talk(memory, "t1", 1)
        await memory.settled()
        assert [event for event in events if isinstance(event, Recovered)]
        status = await memory.thread("t1", resource="alice").observe()
        assert (status.running, status.cursor) == (0, status.last_seq)
    (await killed.open()).store.engine.commit_hook = None
    await killed.aclose()


@on_files
async def test_a_loop_that_ends_gives_runs_back(address: str, clock: FakeClock) -> None:
    """A run whose task is cancelled, as a loop does at its end, can be taken over at once."""
    ended = Memory(address, model=Hanging(), clock=clock, config=Config.from_dict({"buffer_on_idle": True}))
    await talk(ended, "t1", 2, words=200)
    # All at once, as a loop does at its end: nothing of the process goes on.
    mine = asyncio.all_tasks() - {asyncio.current_task()}
    assert [task for task in mine if task.get_name().startswith("memolog-run-")]
    for task in mine:
        task.cancel()
    await asyncio.wait(mine)
    async with Memory(address, model=ScriptedModel(), clock=clock, config=SMALL) as memory:
        events = listen(memory)
        await talk(memory, "t1", 1)
        await memory.settled()
        assert [event for event in events if isinstance(event, Recovered)]
    await ended.aclose()


async def test_the_embedded_observer_finishes_before_a_turn_ends(address: str, clock: FakeClock) -> None:
    """The process may end after the turn: nothing is left for its next one."""
    config = Config.from_dict({"buffer_on_idle": True, "turn_timeout": 600})
    memory = Memory(address, clock=clock, config=config)
    for number in range(3):
        await talk(memory, "t1", 1)
        seen = await (await memory.open()).store.logs.snapshot("alice", "t1", "thread")
        assert not seen.runs
        assert max(group.span.last for group in seen.buffered if group.span) == 2 * number + 2
    await memory.aclose()


# ---------------------------------------------------------------- one budget


async def test_a_budget_is_for_all_that_is_done_within_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several waits share it, those for a model do not count, and what is left is less each time."""
    budget = Budget(0.05)

    async def wait(times: int) -> None:
        async with budget.limit():
            for _ in range(times):
                await asyncio.sleep(0.01)

    with pytest.raises(StoreBusy, match=r"within 0\.05 s"):
        await wait(1_000)
    assert budget.left == 0.0
    with pytest.raises(StoreBusy):
        await wait(1_000)
    # Time passes only when it is told to.
    now = asyncio.get_running_loop().time()
    monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: now)
    budget = Budget(100.0)
    async with budget.limit(reserve=0.5):
        assert budget.left == pytest.approx(50.0)
        now += 10.0
        assert budget.left == pytest.approx(40.0)
        with budget.paused():
            now += 20.0
        assert budget.left == pytest.approx(40.0)


@pytest.mark.parametrize("engine_name", ["postgres"], indirect=True)
async def test_a_server_that_stops_to_answer(address: str, clock: FakeClock) -> None:
    """A step of a turn ends when its budget is used up, with all that is known; what was said is saved later."""
    async with Memory(address, model=ScriptedModel(), clock=clock) as memory:
        events = listen(memory)
        await talk(memory, "t1", 1)
        engine: Any = (await memory.open()).store.engine
        backends = [holder._con.get_server_pid() for holder in engine._pool._holders if holder._con is not None]
        for pid in backends:
            os.kill(pid, signal.SIGSTOP)
        try:
            async with asyncio.timeout(PATIENCE):
                async with memory.thread("t1", resource="alice").turn(settings={"turn_timeout": 0.5}) as turn:
                    context = await turn.prepare(UserMessage("are you there?"))
                    assert context.messages[-1].text == "are you there?"
        finally:
            for pid in backends:
                os.kill(pid, signal.SIGCONT)
        assert [event.what for event in events if isinstance(event, Degraded)]
        await memory.settled()
        await hold(memory, "and now?")
        stored = await (await memory.open()).store.messages.after("alice", "t1")
        assert [message.text for message in stored][-2:] == ["are you there?", "and now?"]


# ---------------------------------------------------------------- turns of one thread at once, with equal call ids


def pairs(context: Context) -> dict[str, object]:
    """Return what each tool was answered; every call must be followed by its result."""
    found: dict[str, object] = {}
    for message, following in zip(context.messages, context.messages[1:], strict=False):
        for part in message.parts:
            if isinstance(part, ToolCallPart):
                (result,) = following.parts
                assert isinstance(result, ToolResultPart)
                assert result.call_id == part.id
                found[part.name] = result.content
    return found


def call(tool: str) -> NewMessage:
    """Return an answer that calls a tool, with the id that this provider begins every turn with."""
    return AssistantMessage([ToolCallPart(id="call_1", name=tool, arguments={})])


@pytest.mark.parametrize("first", ["weather", "time"])
async def test_each_result_stays_with_the_call_of_its_own_turn(address: str, clock: FakeClock, first: str) -> None:
    """Whoever answers first: both models see their own result behind their own call."""
    async with (
        Memory(address, clock=clock) as memory,
        memory.thread("t", resource="alice").turn() as one,
        memory.thread("t", resource="alice").turn() as two,
    ):
        await one.prepare(UserMessage("What is the weather?"))
        await one.record(call("weather"))
        await two.prepare(UserMessage("What is the time?"))
        await two.record(call("time"))
        answers = {"weather": (one, "sunny"), "time": (two, "noon")}
        (turn, said), (other, said_then) = answers.pop(first), next(iter(answers.values()))
        context = await turn.prepare(ToolMessage("call_1", said))
        assert pairs(context)[first] == said
        context = await other.prepare(ToolMessage("call_1", said_then))
        assert pairs(context) == {"weather": "sunny", "time": "noon"}


async def test_a_span_holds_the_pairs_of_both_turns(address: str, clock: FakeClock) -> None:
    """What is observed together is a call and its own result, also where another turn stands in between."""
    model = ScriptedModel()
    async with Memory(address, clock=clock, model=model) as memory:
        async with (
            memory.thread("t", resource="alice").turn() as one,
            memory.thread("t", resource="alice").turn() as two,
        ):
            await one.prepare(UserMessage("What is the weather? " * 40))
            await one.record(call("weather"))
            await two.prepare(UserMessage("What is the time? " * 40))
            await two.record(call("time"))
            await one.prepare(ToolMessage("call_1", "sunny " * 100))
            await two.prepare(ToolMessage("call_1", "noon " * 100))
            await two.record(AssistantMessage("It is noon. " * 40))
            await one.record(AssistantMessage("It is sunny."))
        await memory.thread("t", resource="alice").override({"observation.message_tokens": 200})
        await memory.thread("t", resource="alice").observe()
    assert len(model.requests) > 1
    for request in model.requests:
        for tool, said in (("weather", "sunny"), ("time", "noon")):
            assert (f"<call>{tool}" in request.text) == (f"<result>{tool}\n{said}" in request.text), request.text
            assert 'state="no result"' not in request.text


async def test_the_embedded_observer_reads_each_call_with_its_own_result(address: str, clock: FakeClock) -> None:
    """A provider that begins to count anew in every turn is understood: each call has its own outcome."""
    async with Memory(address, clock=clock) as memory:
        for tool, said in (("run_tests", "2 failed, 5 passed"), ("deploy", "deployed to staging")):
            async with memory.thread("t", resource="alice").turn() as turn:
                await turn.prepare(UserMessage(f"Please use {tool}."))
                await turn.record(call(tool))
                await turn.prepare(ToolMessage("call_1", said))
                await turn.record(AssistantMessage("Done."))
        await memory.thread("t", resource="alice").observe()
        kit = await memory.open()
        snapshot = await kit.store.logs.snapshot("alice", "t", "thread")
        lines = "\n".join(group.text for group in snapshot.groups).splitlines()
        outcomes = [line for line in lines if "run_tests" in line or "deploy" in line]
        assert any("run_tests" in line and "2 failed" in line for line in outcomes), lines
        assert any("deploy" in line and "staging" in line for line in outcomes), lines
        assert not any("deploy" in line and "2 failed" in line for line in outcomes), lines


# ---------------------------------------------------------------- more turns than can be served at once


def queue_of(engine: Any) -> CallQueue:
    """Return the queue in which the writes of an engine wait."""
    return engine._queue if hasattr(engine, "_queue") else engine._queues_of_loop()[1]


@on_files
async def test_turns_wait_for_their_share_of_one_connection(address: str, clock: FakeClock) -> None:
    """Fifty conversations begin while the only place is taken: they queue, none is degraded, and nothing is lost."""
    config = Config.from_dict({"pool_size": 1, "observation": {"message_tokens": 300}})
    async with Memory(address, model=ScriptedModel(), clock=clock, config=config) as memory:
        events = listen(memory)
        queue = queue_of((await memory.open()).store.engine)
        await queue.enter()
        talks = [asyncio.create_task(talk(memory, f"t{number}", 2)) for number in range(50)]
        while queue.waiting < len(talks):  # noqa: ASYNC110 - each of them reaches the queue after a few iterations
            await asyncio.sleep(0)
        queue.leave()
        await asyncio.gather(*talks)
        await memory.settled()
        assert queue.waiting == 0
        assert not [event for event in events if isinstance(event, Degraded)]
        threads = (await memory.resource("alice").threads()).items
        assert [thread.last_seq for thread in threads] == [4] * 50


@on_files
async def test_a_turn_that_waits_too_long_says_for_what(address: str, clock: FakeClock) -> None:
    """It gets the context that is known, the event names what is in use and how many wait, and its messages are saved later."""
    async with Memory(address, model=ScriptedModel(), clock=clock, config=Config(pool_size=1)) as memory:
        events = listen(memory)
        await talk(memory, "t1", 1)
        queue = queue_of((await memory.open()).store.engine)
        await queue.enter()
        async with memory.thread("t1", resource="alice").turn(settings={"queue_timeout": 0}) as turn:
            context = await turn.prepare(UserMessage("are you there?"))
            queue.leave()
        assert context.messages[-1].text == "are you there?"
        degraded = next(event for event in events if isinstance(event, Degraded))
        assert degraded.what == "preparing the context"
        what = "database connections" if address.startswith("postgresql") else "threads for writing"
        assert f"All 1 {what} of this process are in use, and " in degraded.error
        await hold(memory, "and now?")
        stored = await (await memory.open()).store.messages.after("alice", "t1")
        assert [message.text for message in stored][-2:] == ["are you there?", "and now?"]


@on_files
async def test_many_turns_of_one_thread_at_once(address: str, clock: FakeClock) -> None:
    """Sixty turns of one thread in two processes: each waits for the others, none is degraded, each message is stored once."""
    config = Config.from_dict({"pool_size": 2, "turn_timeout": 600})
    async with (
        Memory(address, model=ScriptedModel(), clock=clock, config=config) as one,
        Memory(address, model=ScriptedModel(), clock=clock, config=config) as other,
    ):
        events = listen(one)
        other.subscribe(events.append)
        await asyncio.gather(
            *(hold(memory, f"question {n}", f"answer {n}") for n in range(30) for memory in (one, other))
        )
        await asyncio.gather(one.settled(), other.settled())
        assert not [event for event in events if isinstance(event, Degraded)]
        stored = await (await one.open()).store.messages.after("alice", "t1")
        said = sorted(message.text for message in stored)
        assert said == sorted(2 * [f"{kind} {n}" for n in range(30) for kind in ("question", "answer")])


@pytest.mark.parametrize("engine_name", ["postgres"], indirect=True)
async def test_a_server_without_a_free_connection_is_tried_again(
    address: str, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other processes use all connections of the server for a while: calls try again, and no turn notices."""
    async with Memory(address, model=ScriptedModel(), clock=clock) as memory:
        events = listen(memory)
        await talk(memory, "t1", 1)
        engine: Any = (await memory.open()).store.engine
        pool, refused = engine._pool, 3

        async def full(**options: Any) -> Any:
            nonlocal refused
            if refused:
                refused -= 1
                raise asyncpg.exceptions.TooManyConnectionsError("sorry, too many clients already")
            return await pool.acquire(**options)

        with monkeypatch.context() as patch:
            patch.setattr(engine, "_pool", SimpleNamespace(acquire=full, release=pool.release))
            await talk(memory, "t1", 1)
            await memory.settled()
        assert not refused
        assert not [event for event in events if isinstance(event, Degraded)]


@pytest.mark.parametrize("engine_name", ["postgres"], indirect=True)
async def test_a_server_without_a_free_connection_is_named(
    address: str, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the server has no free connection for too long, the error says so, inside a turn and outside."""
    async with Memory(address, model=ScriptedModel(), clock=clock) as memory:
        await talk(memory, "t1", 1)
        events = listen(memory)
        engine: Any = (await memory.open()).store.engine
        pool = engine._pool

        async def full(**_: Any) -> Any:
            raise asyncpg.exceptions.TooManyConnectionsError("sorry, too many clients already")

        with monkeypatch.context() as patch:
            patch.setattr(engine, "_pool", SimpleNamespace(acquire=full, release=pool.release))
            with pytest.raises(StoreBusy, match="use all connections of its server"):
                async with Budget(0.01).limit():
                    await memory.thread("t1", resource="alice").messages()
            patch.setattr(engine, "options", replace(engine.options, connect_timeout=0))
            await talk(memory, "t1", 1)
            with pytest.raises(StoreBusy, match=r"no free connection.*too many clients already"):
                await memory.thread("t1", resource="alice").messages()
        degraded = [event for event in events if isinstance(event, Degraded)]
        assert degraded
        assert all("has no free connection" in event.error for event in degraded)


@pytest.mark.parametrize("engine_name", ["postgres"], indirect=True)
async def test_a_wait_for_a_connection_that_ended_is_not_named_later(
    address: str, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A call waits for a connection and fails. If the time of the step ends later, the error does not name that wait."""
    async with Memory(address, model=ScriptedModel(), clock=clock) as memory:
        await talk(memory, "t1", 1)
        engine: Any = (await memory.open()).store.engine
        pool, errors = engine._pool, iter([asyncpg.exceptions.TooManyConnectionsError("too many"), OSError("gone")])

        async def full(**_: Any) -> Any:
            raise next(errors)

        with monkeypatch.context() as patch:
            patch.setattr(engine, "_pool", SimpleNamespace(acquire=full, release=pool.release))

            async def step() -> None:
                budget = Budget(PATIENCE)
                async with budget.limit():
                    with pytest.raises(StoreUnavailable):
                        await memory.thread("t1", resource="alice").messages()
                    budget.resume(-PATIENCE)
                    await asyncio.Event().wait()

            with pytest.raises(StoreBusy, match="locked by another process"):
                await step()


@pytest.mark.parametrize("engine_name", ["postgres"], indirect=True)
async def test_a_current_schema_is_opened_without_the_lock_of_migrations(address: str, clock: FakeClock) -> None:
    """Processes that start together wait for each other only if there is something to migrate."""
    async with Memory(address, clock=clock) as memory:
        await talk(memory, "t1", 1)
        connection = await asyncpg.connect(address.split("&schema=", 1)[0])
        try:
            await connection.execute("SELECT pg_advisory_lock($1)", postgres._LOCK_KEY)
            async with asyncio.timeout(PATIENCE), Memory(address, clock=clock) as other:
                await talk(other, "t1", 1)
        finally:
            await connection.close()
