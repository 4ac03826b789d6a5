"""Memory never breaks the agent: whatever fails, the turn has a usable context, nothing said is lost, somebody is told."""

import asyncio
import json
import logging
import sqlite3
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from crash.survivors import select
from kit.engines import engines
from kit.models import Priced
from kit.talk import RESOURCE, THREAD, Story, forget_thread, hold, listen, stories
from memolog import AssistantMessage, Config, ObservationConfig, ReflectionConfig, UserMessage
from memolog import ToolCallPart as Call
from memolog import ToolMessage as Result
from memolog import turn as telemetry
from memolog.context.context import Context
from memolog.core.run import Usage
from memolog.db.sqlite import SqliteEngine
from memolog.errors import InputError, ModelFailed, NotFound, StoreError, StoreReadOnly, StoreUnavailable
from memolog.events import Activated, Decided, Degraded, Event, Recovered, RunFailed, StepEnded, Windows, Withdrawn
from memolog.observer.model import ModelRequest
from memolog.store import Store
from memolog.testing import FakeClock, ScriptedModel, observations_of

SMALL = Config(
    observation=ObservationConfig(message_tokens=1_000, previous_tokens=200, deadline=120),
    reflection=ReflectionConfig(observation_tokens=600),
    close_timeout=120,
)
STRICT = replace(SMALL, strict=True)
HASTY = replace(SMALL, observation=replace(SMALL.observation, deadline=0.05), close_timeout=0.05)
HURRY = {"observation.deadline": 0.05}
# More answers than any test asks for.
ALWAYS = 1_000


class Talk(Story):
    """A story with small windows that keeps everything that was said."""

    def __init__(self, address: str, clock: FakeClock, model: Any = None, **options: Any) -> None:
        super().__init__(address, clock, model, **{"config": SMALL, **options})
        self.said: list[str] = []

    async def chat(self, turns: int = 1, words: int = 30, **options: Any) -> Context:
        """Hold some turns; return the last context, which is always usable."""
        context = Context()
        for _ in range(turns):
            number = len(self.said)
            question, answer = f"question {number} " + "word " * words, f"answer {number} " + "word " * words
            async with self.memory.thread(THREAD, resource=RESOURCE).turn(**options) as turn:
                context = await turn.prepare(UserMessage(question))
                assert context.messages[-1].text == question
                await turn.record(AssistantMessage(answer))
            self.said += [question, answer]
            await self.memory.settled()
            self.clock.advance(minutes=1)
        return context

    async def ask(
        self, question: str, answer: str | None = None, usage: Usage | None = None, **options: Any
    ) -> Context:
        """Hold one turn; return its context."""
        async with self.memory.thread(THREAD, resource=RESOURCE).turn(**options) as turn:
            context = await turn.prepare(UserMessage(question))
            self.said.append(question)
            if answer is not None:
                await turn.record(AssistantMessage(answer), usage=usage)
                self.said.append(answer)
        return context

    async def recovers(self) -> None:
        """Check that everything said is stored once, and that the next turns bring the log up to date."""
        assert await self.stored() == self.said
        self.clock.advance(minutes=20)
        await self.chat(2)
        assert await self.stored() == self.said
        status = await self.memory.thread(THREAD, resource=RESOURCE).observe()
        assert (status.health, status.backlog_tokens, status.cursor) == ("ok", 0, status.last_seq), status.last_error
        assert not status.breaker_open


def held_by(gate: asyncio.Event) -> Callable[[ModelRequest], Awaitable[str]]:
    """Return an answer that waits at a gate."""

    async def held(request: ModelRequest) -> str:
        await gate.wait()
        return observations_of(request)

    return held


Open = Callable[..., Talk]
engine_name = engines("memory", "postgres")
tell = stories(Talk)

# ---------------------------------------------------------------- models

BAD_ANSWERS: dict[str, tuple[Any, str]] = {
    "raises": (RuntimeError("no such model"), "the model failed: RuntimeError: no such model"),
    "nothing": ("", "empty"),
    "blank": (" \n\t ", "empty"),
    "repeats": ("The same again. " * 5_000, "degenerate"),
    "ten megabytes": ("<observations>\n* 🔴 " + "x" * 10_000_000 + "\n</observations>", "degenerate"),
    "ten megabytes of lines": ("<observations>\n" + "* 🔴 The same line\n" * 500_000 + "</observations>", "degenerate"),
}


@pytest.mark.parametrize("name", BAD_ANSWERS)
async def test_a_model_that_answers_badly(tell: Open, name: str) -> None:
    """The run fails and says why, the model is left alone for a while, and what was said is observed later."""
    answer, reason = BAD_ANSWERS[name]
    story = tell(model=ScriptedModel([answer] * ALWAYS))
    await story.chat(6)
    failed = story.told(RunFailed)
    assert failed
    assert all(reason in event.error and event.retry_at > event.at for event in failed)
    status = await story.memory.thread(THREAD, resource=RESOURCE).status()
    assert (status.health, status.groups, status.buffered_groups, status.cursor) == ("failing", 0, 0, 0)
    assert status.failed > 0
    assert reason in (status.last_error or "")
    assert status.last_error_at is not None
    assert status.last_success_at is None
    # No answer of that kind becomes memory, and no turn asks again before its time.
    assert len(story.model.requests) <= 12
    story.model.answers.clear()
    await story.recovers()
    assert story.told(Recovered)


async def test_a_model_that_hangs(tell: Open) -> None:
    """A turn far above the limit waits as long as it may, goes on with raw messages, and the next one does not wait."""
    never = asyncio.Event()
    story = tell(model=ScriptedModel([held_by(never)] * 3))
    context = await asyncio.wait_for(story.ask("word " * 2_000, settings=HURRY), 100)
    assert context.messages[-1].text == story.said[-1]
    # What is new is shown whole, so nothing is waited for yet.
    assert not story.told(Degraded)
    context = await asyncio.wait_for(story.ask("and now?", settings=HURRY), 100)
    assert [message.text for message in context.messages] == story.said
    assert [event.what for event in story.told(Degraded)] == ["waiting for the model"]
    assert (await story.memory.thread(THREAD, resource=RESOURCE).status()).breaker_open
    before = len(story.told(Degraded))
    await asyncio.wait_for(story.ask("short", settings=HURRY), 100)
    assert len(story.told(Degraded)) == before
    never.set()
    await story.memory.settled()
    await story.recovers()


async def test_closing_does_not_wait_for_a_model_that_hangs(tell: Open, clock: FakeClock) -> None:
    """What is under way is stopped when patience is over; no task is left, and its lease lets another take it over."""
    story = tell(model=ScriptedModel([held_by(asyncio.Event())]), config=HASTY)
    await hold(story.memory, "word " * 300)
    assert (await story.memory.thread(THREAD, resource=RESOURCE).status()).running == 1
    await asyncio.wait_for(story.memory.aclose(), 100)
    assert len(asyncio.all_tasks()) == 1
    with pytest.raises(StoreError):
        await story.memory.thread(THREAD, resource=RESOURCE).status()


async def test_a_model_that_fails_is_left_alone(tell: Open, clock: FakeClock) -> None:
    """Each failure of a run makes its pause longer; before its time no turn asks, and a success ends it."""
    story = tell(model=ScriptedModel([RuntimeError("down")] * ALWAYS))
    await story.ask("word " * 300)
    await story.memory.settled()
    for _ in range(5):
        asked = len(story.model.requests)
        clock.time = story.told(RunFailed)[-1].retry_at - timedelta(milliseconds=1)
        await story.ask("too early")
        assert len(story.model.requests) == asked
        clock.advance(minutes=11)
        await story.ask("in time")
        await story.memory.settled()
        assert len(story.model.requests) == asked + 1
    pauses = [(event.retry_at - event.at).total_seconds() for event in story.told(RunFailed)]
    assert pauses == sorted(pauses)
    assert len(pauses) == 6
    assert pauses[-1] > 16 * pauses[0]
    story.model.answers.clear()
    await story.recovers()


# ---------------------------------------------------------------- listeners


async def test_a_callback_that_raises(tell: Open, caplog: pytest.LogCaptureFixture) -> None:
    """It is logged; the turn, and whoever else listens, never notice."""
    story = tell()

    def broken(event: Event) -> None:
        raise ZeroDivisionError(event.kind)

    stop = story.memory.subscribe(broken)
    after = listen(story.memory)
    with caplog.at_level(logging.ERROR, logger="memolog"):
        await story.chat(4)
    assert any("a listener failed" in record.message for record in caplog.records)
    assert after == story.events[-len(after) :]
    stop()
    stop()
    caplog.clear()
    await story.recovers()
    assert caplog.records == []


async def test_events_come_in_order_and_end(tell: Open) -> None:
    """An iterator has every event from its making on, in the order of the callbacks, and ends when the memory is closed."""
    story = tell()
    stream = story.memory.events()
    await story.chat(8)
    story.memory.thread(THREAD, resource=RESOURCE).activate().close()
    expected = list(story.events)
    kinds = [event.kind for event in expected]
    assert kinds.index("RunStarted") < kinds.index("RunEnded")
    got = [await asyncio.wait_for(anext(stream), 100) for _ in expected]
    assert got == expected
    late = asyncio.create_task(_all(story.memory.events()))
    await asyncio.sleep(0)
    await story.memory.aclose()
    with pytest.raises(StopAsyncIteration):
        await asyncio.wait_for(anext(stream), 100)
    assert await asyncio.wait_for(late, 100) == story.events[len(expected) :]
    assert await asyncio.wait_for(_all(story.memory.events()), 100) == []


async def _all(stream: AsyncIterator[Event]) -> list[Event]:
    return [event async for event in stream]


async def test_who_does_not_read_misses_the_oldest(tell: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    """An iterator that nobody reads holds nobody up."""
    monkeypatch.setattr("memolog.events._QUEUED", 5)
    story = tell()
    stream = story.memory.events()
    await story.chat(8)
    assert len(story.events) > 5
    got = [await anext(stream) for _ in range(5)]
    assert got == story.events[-5:]


async def test_the_journal_has_what_was_told(tell: Open) -> None:
    """Events are kept in order, but for the decisions to wait."""
    story = tell(model=ScriptedModel([RuntimeError("down")]))
    await story.chat(6)
    kept = await (await story.store()).journal.events(RESOURCE, thread=THREAD)
    told = [e for e in story.events if not isinstance(e, Windows | StepEnded) and getattr(e, "decision", "") != "Wait"]
    assert [(event.kind, event.at) for event in kept] == [(event.kind, event.at) for event in told]


# ---------------------------------------------------------------- the database


@contextmanager
def locked(path: str, *, hurried: bool = True) -> Generator[None]:
    """Lock a database file as another process would, from a thread of its own.

    Hurried: while a write waits for the lock, the time of the loop runs ahead, so that the write soon uses up its limit.
    """
    taken, done = threading.Event(), threading.Event()

    def hold() -> None:
        connection = sqlite3.connect(path, isolation_level=None)
        connection.execute("BEGIN IMMEDIATE")
        taken.set()
        done.wait(300)
        connection.execute("ROLLBACK")
        connection.close()

    holder = threading.Thread(target=hold)
    holder.start()
    assert taken.wait(60)
    try:
        with pytest.MonkeyPatch.context() as patched:
            if hurried:
                _hurry_writes(patched)
            yield
    finally:
        done.set()
        holder.join()


def _hurry_writes(patched: pytest.MonkeyPatch) -> None:
    loop, write, ahead = asyncio.get_running_loop(), SqliteEngine.write, 0
    time = loop.time

    async def run_ahead() -> None:
        nonlocal ahead
        while True:
            ahead += 1
            await asyncio.sleep(0)

    async def hurried(self: SqliteEngine, *work: Any, **options: Any) -> Any:
        running = asyncio.create_task(run_ahead())
        try:
            return await write(self, *work, **options)
        finally:
            running.cancel()

    patched.setattr(loop, "time", lambda: time() + ahead)
    patched.setattr(SqliteEngine, "write", hurried)


async def test_a_database_that_is_locked(tell: Open, file: str) -> None:
    """The turn goes on with what it knows; once the lock is gone, the rest is saved, once, in its order."""
    story = tell(address=file)
    await story.chat(2)
    with locked(file):
        async with story.memory.thread(THREAD, resource=RESOURCE).turn() as turn:
            context = await turn.prepare(UserMessage("are you there?"))
            # Only writers are locked out: the model sees all that was said before.
            assert [message.text for message in context.messages] == [*story.said, "are you there?"]
            call = Call(id="c", name="look")
            await turn.record(AssistantMessage([call]))
            context = await turn.prepare(Result("c", "found"))
            assert [message.role for message in context.messages][-3:] == ["user", "assistant", "tool"]
        status = await story.memory.thread(THREAD, resource=RESOURCE).status()
        assert (status.health, status.unsaved) == ("failing", 3)
        assert "did not answer within" in (status.last_error or "")
    story.said += ["are you there?", "", ""]
    degraded = [event.what for event in story.told(Degraded)]
    assert degraded == [
        "preparing the context",
        "recording the answer",
        "preparing the context",
        "saving the end of the turn",
    ]
    assert all("did not answer within" in event.error for event in story.told(Degraded))
    # The lock lasted longer than the turn: what it could not save it has told, and saves now.
    await story.memory.settled()
    assert await story.stored() == story.said
    status = await story.memory.thread(THREAD, resource=RESOURCE).status()
    assert (status.health, status.unsaved) == ("ok", 0)


async def test_a_lock_that_ends_within_the_turn(tell: Open, file: str) -> None:
    """What could not be saved at first is saved with the next call of the turn."""
    story = tell(address=file)
    await story.chat(2)
    async with story.memory.thread(THREAD, resource=RESOURCE).turn() as turn:
        with locked(file):
            await turn.prepare(UserMessage("are you there?"))
        context = await turn.prepare()
        assert [message.text for message in context.messages][-3:] == [*story.said[-2:], "are you there?"]
        await turn.record(AssistantMessage("yes"))
    story.said += ["are you there?", "yes"]
    await story.recovers()


def before_writes(store: Store, call: Callable[[str], Awaitable[object]]) -> Callable[..., Any]:
    """Call a function with the name of each write before it is made; returns the engine's own function."""
    write = store.engine.write

    async def watched(work: Any, *, name: str, brief: bool = True) -> Any:
        await call(name)
        return await write(work, name=name, brief=brief)

    store.engine.write = watched
    return write


def fail(store: Store, *, times: int, error: Exception | None = None, only: str | None = None) -> list[str]:
    """Let the engine fail the next writes; returns the list of those that failed."""
    failed: list[str] = []

    async def failing(name: str) -> None:
        if len(failed) < times and only in {None, name}:
            failed.append(name)
            raise error or StoreUnavailable("The database is gone.", then="Try again.")

    before_writes(store, failing)
    return failed


@contextmanager
def unwritable(store: Store) -> Generator[None]:
    """Let every write fail; reading works."""

    async def failing(_: str) -> None:
        raise StoreUnavailable("The database takes nothing.", then="Try again.")

    write = before_writes(store, failing)
    try:
        yield
    finally:
        store.engine.write = write


async def test_a_database_that_is_gone_for_one_call(tell: Open) -> None:
    """Wherever in a turn it happens: the context is usable, and nothing is lost."""
    story = tell()
    await story.chat(3)
    for times in range(1, 4):
        failed = fail(await story.store(), times=times)
        before = len(story.told(Degraded))
        await story.chat(2)
        assert len(failed) == times
        assert len(story.told(Degraded)) > before
    await story.recovers()


@pytest.mark.parametrize(
    "name",
    ["store.save_and_snapshot", "messages.save", "logs.snapshot", "runs.start", "runs.finish", "journal.add_context"],
)
async def test_each_write_of_a_turn_may_fail(tell: Open, name: str) -> None:
    """The write that fails is repeated by the turn, by the run, or by the next turn."""
    story = tell()
    # A log is made once, at the beginning.
    await story.chat(0 if name == "logs.snapshot" else 1)
    failed = fail(await story.store(), times=2, only=name)
    await story.chat(6)
    assert failed == [name, name]
    await story.recovers()
    transcripts = [request.text.split("<transcript>")[1] for request in story.model.requests]
    assert len(transcripts) == len(set(transcripts))


async def test_an_error_that_nobody_foresaw(tell: Open, caplog: pytest.LogCaptureFixture) -> None:
    """A bug of ours, or of a driver, is logged loudly and goes no further either."""
    story = tell()
    await story.chat(2)
    fail(await story.store(), times=1, error=ZeroDivisionError("a bug"))
    with caplog.at_level(logging.ERROR, logger="memolog"):
        await story.chat(1)
    assert story.told(Degraded)
    assert caplog.records
    await story.recovers()


async def test_strict_raises(tell: Open) -> None:
    """With `strict` the same failures reach the caller, and the call is as if it had not been made: it can be repeated."""
    story = tell(config=STRICT)
    await story.chat(2)
    failed = fail(await story.store(), times=1)
    async with story.memory.thread(THREAD, resource=RESOURCE).turn() as turn:
        with pytest.raises(StoreUnavailable):
            await turn.prepare(UserMessage("are you there?"))
        context = await turn.prepare()
        assert context.messages[-1].text == story.said[-1]
        context = await turn.prepare(UserMessage("are you there?"))
        assert context.messages[-1].text == "are you there?"
        failed.clear()
        with pytest.raises(StoreUnavailable):
            await turn.record(AssistantMessage("never mind"))
        await turn.record(AssistantMessage("yes"))
    story.said += ["are you there?", "yes"]
    assert story.told(Degraded)
    await story.recovers()


async def test_strict_repeats_what_was_saved_before_it_raised(tell: Open) -> None:
    """A call may fail after its words are saved: who repeats it says them once."""
    story = tell(config=STRICT)
    await story.chat(2)
    fail(await story.store(), times=1, only="journal.add_context")
    async with story.memory.thread(THREAD, resource=RESOURCE).turn() as turn:
        with pytest.raises(StoreUnavailable):
            await turn.prepare(UserMessage("are you there?"))
        await turn.prepare(UserMessage("are you there?"))
        await turn.prepare(UserMessage("are you there?"))
    story.said += ["are you there?"] * 2
    await story.recovers()


async def test_strict_raises_at_the_end_of_a_turn(tell: Open) -> None:
    """A turn whose end fails says so, unless its body raised already."""
    story = tell(config=replace(STRICT, buffer_on_idle=True))
    await story.chat(1)
    failed: list[str] = []

    async def end_badly(error: Exception | None = None) -> None:
        async with story.memory.thread(THREAD, resource=RESOURCE).turn() as turn:
            await turn.prepare(UserMessage("hello"))
            failed[:] = fail(await story.store(), times=1, only="runs.start")
            if error is not None:
                raise error

    with pytest.raises(StoreUnavailable):
        await end_badly()
    with pytest.raises(KeyError):
        await end_badly(KeyError("the body's own"))


async def test_strict_raises_for_a_model_that_fails(tell: Open) -> None:
    """Only where the turn would have to go on with far too much; what was said is saved, once."""
    story = tell(config=STRICT, model=ScriptedModel([RuntimeError("down")] * ALWAYS))
    await story.chat(1)
    question = "word " * 2_000
    await story.ask(question)
    await story.memory.settled()
    async with story.memory.thread(THREAD, resource=RESOURCE).turn() as turn:
        with pytest.raises(ModelFailed, match="down"):
            await turn.prepare(UserMessage("and now?"))
        with pytest.raises(ModelFailed):
            await turn.prepare(UserMessage("and now?"))
    story.said.append("and now?")
    story.model.answers.clear()
    await story.recovers()


# ---------------------------------------------------------------- turns


async def test_two_turns_at_once(tell: Open) -> None:
    """Overlapping turns of one thread: everything is saved once, calls find their results, and the log tiles."""
    story = tell()

    async def one(name: str) -> None:
        async with story.memory.thread(THREAD, resource=RESOURCE).turn() as turn:
            await turn.prepare(UserMessage(f"{name} asks " + "word " * 30))
            for number in range(5):
                await turn.record(AssistantMessage([Call(id=f"{name}{number}", name="look")]))
                await asyncio.sleep(0)
                context = await turn.prepare(Result(f"{name}{number}", "text " * 20))
                _check_pairs(context)

    await asyncio.gather(*(one(name) for name in "abcd"))
    store = await story.store()
    rows = await store.messages.after(RESOURCE, THREAD, 0)
    assert [row.seq for row in rows] == list(range(1, 45))
    await story.memory.settled()
    status = await story.memory.thread(THREAD, resource=RESOURCE).observe()
    assert status.cursor == status.last_seq == 44


def _check_pairs(context: Context) -> None:
    """Every call that the model sees has its result right behind, and the other way round."""
    parts = [part for message in context.messages for part in message.parts]
    calls = [part.id for part in parts if part.type == "tool_call"]
    results = [part.call_id for part in parts if part.type == "tool_result"]
    assert sorted(calls) == sorted(results)
    assert len(set(calls)) == len(calls)


async def test_a_turn_inside_a_turn(tell: Open) -> None:
    """A sub-agent that talks in the same thread, or in another, disturbs nothing."""
    story = tell()
    async with story.memory.thread(THREAD, resource=RESOURCE).turn() as outer:
        await outer.prepare(UserMessage("outer question"))
        async with story.memory.thread(THREAD, resource=RESOURCE).turn() as inner:
            context = await inner.prepare(UserMessage("inner question"))
            assert [message.text for message in context.messages] == ["outer question", "inner question"]
            await inner.record(AssistantMessage("inner answer"))
        assert len((await hold(story.memory, "elsewhere", thread="elsewhere")).messages) == 1
        context = await outer.prepare()
        await outer.record(AssistantMessage("outer answer"))
    story.said += ["outer question", "inner question", "inner answer", "outer answer"]
    assert [message.text for message in context.messages] == story.said[:3]
    await story.recovers()


async def test_a_call_that_is_never_answered(tell: Open) -> None:
    """While it may be answered it stays in the tail; after the next user message it is closed, and a late result is a new row."""
    story = tell()
    async with story.memory.thread(THREAD, resource=RESOURCE).turn() as turn:
        await turn.prepare(UserMessage("look it up"))
        await turn.record(AssistantMessage(["I will", Call(id="lost", name="look")]))
        await turn.prepare()
    story.said += ["look it up", "I will"]
    status = await story.memory.thread(THREAD, resource=RESOURCE).observe()
    assert (status.cursor, status.last_seq) == (1, 2)
    context = await story.chat()
    answers = [part for message in context.messages for part in message.parts if part.type == "tool_result"]
    assert [(part.call_id, part.is_error) for part in answers] == [("lost", True)]
    status = await story.memory.thread(THREAD, resource=RESOURCE).observe()
    assert status.cursor == status.last_seq == 4
    async with story.memory.thread(THREAD, resource=RESOURCE).turn() as turn:
        context = await turn.prepare(Result("lost", "late"))
        _check_no_orphans(context)
    story.said.append("")
    await story.recovers()


def _check_no_orphans(context: Context) -> None:
    calls = {part.id for message in context.messages for part in message.parts if part.type == "tool_call"}
    results = {part.call_id for message in context.messages for part in message.parts if part.type == "tool_result"}
    assert results <= calls


async def test_a_clock_that_jumps_back(tell: Open, clock: FakeClock) -> None:
    """Sequence numbers decide: order, coverage and ids do not mind an hour that comes twice, or a year."""
    story = tell()
    for jump in (timedelta(hours=1), timedelta(days=400), timedelta(seconds=1)):
        await story.chat(6)
        clock.time -= jump
    await story.chat(6)
    rows = await (await story.store()).messages.after(RESOURCE, THREAD, 0)
    assert [row.text for row in rows] == story.said
    ids = [row.id for row in rows]
    assert ids == sorted(ids)
    await story.recovers()


async def test_a_thread_that_is_deleted_during_a_run(tell: Open) -> None:
    """The run's result is refused, the turn goes on in a thread that begins anew."""
    gate = asyncio.Event()
    story = tell(model=ScriptedModel([held_by(gate)]))
    store = await story.store()
    async with story.memory.thread(THREAD, resource=RESOURCE).turn() as turn:
        await turn.prepare(UserMessage("word " * 300))
        assert (await forget_thread(store)).messages == 1
        gate.set()
        await story.memory.settled()
        assert [event.retry_at for event in story.told(RunFailed)] == [None]
        await turn.record(AssistantMessage("I am still here"))
        context = await turn.prepare()
        assert context.messages[-1].text == "I am still here"
    story.said.append("I am still here")
    (groups,) = await select(store, "SELECT COUNT(*) FROM groups")
    assert groups == [(0,)]
    await story.recovers()


async def test_a_thread_that_is_deleted_while_a_turn_decides(tell: Open) -> None:
    """Between any two steps of a turn the thread may go: the turn still has its context."""
    story = tell()
    await story.chat(3)
    store = await story.store()
    for name in ("logs.snapshot", "runs.start", "journal.add_context"):
        with suppress(NotFound):
            await forget_thread(store)
        story.said.clear()
        deleting: list[str] = []

        async def delete_once(now: str, name: str = name, deleting: list[str] = deleting) -> None:
            if now == name and not deleting:
                deleting.append(name)
                await forget_thread(store)

        before_writes(store, delete_once)
        async with story.memory.thread(THREAD, resource=RESOURCE).turn() as turn:
            context = await turn.prepare(UserMessage("word " * 300))
            assert context.messages[-1].text == "word " * 300
        assert deleting
        await story.memory.settled()
    with suppress(NotFound):
        await forget_thread(store)
    story.clock.advance(hours=1)
    await story.chat(1)
    await story.recovers()


@pytest.mark.parametrize("moment", range(7))
async def test_a_turn_that_is_cancelled(tell: Open, moment: int) -> None:
    """Wherever it is cancelled: no task is left behind, what was said is saved, and the thread goes on."""
    story = tell(model=ScriptedModel(seconds=0.01))
    await story.chat(2)
    question = "cancelled " + "word " * 400
    prepared, recorded = asyncio.Event(), asyncio.Event()

    async def turn() -> None:
        async with story.memory.thread(THREAD, resource=RESOURCE).turn() as turn:
            await turn.prepare(UserMessage(question))
            prepared.set()
            await turn.record(AssistantMessage("answer"))
            recorded.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(turn())
    # Early on at any moment; later when it has come so far.
    for _ in range(moment * 4 + 1 if moment < 4 else 0):
        await asyncio.sleep(0.001 * moment)
    if moment >= 4:
        await (prepared if moment < 6 else recorded).wait()
    if moment == 5:
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await story.memory.settled()
    assert asyncio.all_tasks() == {asyncio.current_task()}
    stored = await story.stored()
    assert stored[:4] == story.said
    assert stored[4:] in ([], [question], [question, "answer"])
    assert moment < 4 or stored[4:]
    assert moment < 6 or stored[4:] == [question, "answer"]
    story.said = stored
    await story.recovers()


async def test_a_body_that_raises(tell: Open) -> None:
    """What was said until then is saved, and the error is the body's own."""
    story = tell()

    async def fall() -> None:
        async with story.memory.thread(THREAD, resource=RESOURCE).turn() as turn:
            await turn.prepare(UserMessage("before the fall"))
            await turn.record(AssistantMessage("falling"))
            raise KeyError("fallen")

    with pytest.raises(KeyError, match="fallen"):
        await fall()
    story.said += ["before the fall", "falling"]
    await story.recovers()


async def test_a_discard_that_fails_says_so(tell: Open) -> None:
    """What was not withdrawn must not pass for withdrawn; it can be repeated, and until then nothing else is said."""
    story = tell()
    async with story.memory.thread(THREAD, resource=RESOURCE).turn() as turn:
        await turn.prepare(UserMessage("secret"))
        fail(await story.store(), times=1)
        with pytest.raises(StoreUnavailable):
            await turn.discard()
        with pytest.raises(InputError, match="being withdrawn"):
            await turn.prepare(UserMessage("secret again"))
        await turn.discard()
        with pytest.raises(InputError, match="not open"):
            await turn.discard()
    assert [event.what for event in story.told(Degraded)] == ["discarding"]
    assert len(story.told(Withdrawn)) == 1
    await story.recovers()


async def test_a_discard_that_is_not_repeated_is_done_later(tell: Open) -> None:
    """What a guard stopped is out of the thread before anything else of it is saved, and is shown to no model meanwhile."""
    story = tell()
    await story.chat(1)
    async with story.memory.thread(THREAD, resource=RESOURCE).turn() as turn:
        await turn.prepare(UserMessage("secret"))
        outage = unwritable(await story.store())
        outage.__enter__()
        with pytest.raises(StoreUnavailable):
            await turn.discard()
    async with story.memory.thread(THREAD, resource=RESOURCE).turn() as turn:
        context = await turn.prepare(UserMessage("hello"))
        assert [message.text for message in context.messages] == [*story.said, "hello"]
    assert story.told(Withdrawn) == []
    outage.__exit__(None, None, None)
    story.said.append("hello")
    await story.memory.settled()
    assert len(story.told(Withdrawn)) == 1
    assert await story.stored() == story.said
    await story.recovers()


# ---------------------------------------------------------------- settings


TABLES = ("threads", "messages", "logs", "cursors", "runs", "groups", "observations", "contexts", "events", "usage")


def content_of(path: str) -> bytes:
    """Return a file's bytes."""
    return Path(path).read_bytes()


async def rows_of(store: Store) -> list[list[Any]]:
    """Return every row that a turn could write."""
    return await select(store, *(f"SELECT * FROM {table} ORDER BY 1, 2" for table in TABLES))


@pytest.mark.parametrize("engine_name", ["sqlite", "postgres"], indirect=True)
async def test_read_only_writes_nothing(tell: Open, engine_name: str, address: str) -> None:
    """On an existing log it makes the same contexts, with what was just said, and changes not a byte."""
    writer = tell()
    await writer.chat(12)
    await writer.memory.thread(THREAD, resource=RESOURCE).activate()
    store = await writer.store()
    before = await rows_of(store)
    content = b""
    if engine_name == "sqlite":
        await writer.memory.aclose()
        content = content_of(address)
    reader = tell(config=replace(SMALL, read_only=True))
    async with reader.memory.thread(THREAD, resource=RESOURCE).turn() as turn:
        context = await turn.prepare(UserMessage("what do you know?"))
        assert context.messages[-1].text == "what do you know?"
        assert "<observations id=" in context.system
        await turn.record(AssistantMessage([Call(id="c", name="look")]), usage=Usage(model="m", input_tokens=5))
        context = await turn.prepare(Result("c", "found"))
        assert [message.role for message in context.messages][-3:] == ["user", "assistant", "tool"]
    async with reader.memory.thread("unknown", resource=RESOURCE).turn() as turn:
        context = await turn.prepare(UserMessage("anybody here?"))
        assert [message.text for message in context.messages] == ["anybody here?"]
        await turn.discard()
    assert (await reader.memory.thread(THREAD, resource=RESOURCE).status()).groups > 0
    assert len(await reader.memory.thread(THREAD, resource=RESOURCE).history()) > 0
    assert len(await reader.memory.thread(THREAD, resource=RESOURCE).as_of(reader.clock.now())) > 0
    thread = reader.memory.thread(THREAD, resource=RESOURCE)
    for refused in (thread.observe, thread.reflect, thread.buffer, thread.activate):
        with pytest.raises(StoreReadOnly):
            await refused()
    assert await rows_of(await reader.store()) == before
    await reader.memory.aclose()
    if engine_name == "sqlite":
        assert content_of(address) == content
    assert reader.model.requests == []


async def test_without_observing(tell: Open) -> None:
    """`observe=False`: no log, no model, the last messages are the tail; switched on later, nothing is missing."""
    story = tell(config=replace(SMALL, observe=False, last_messages=4))
    context = await story.chat(12)
    assert [message.text for message in context.messages][1:] == [*story.said[-4:-2], story.said[-2]]
    assert story.model.requests == []
    assert await story.stored() == story.said
    assert context.blocks == () or "<observations" not in context.system


async def test_observing_switched_off_for_a_turn(tell: Open) -> None:
    """A log that exists is left out, and the last messages are shown even where the log covers them."""
    story = tell()
    await story.chat(6)
    await story.memory.thread(THREAD, resource=RESOURCE).observe()
    context = await story.chat(1, settings={"observe": False, "last_messages": 4})
    assert "<observations" not in context.system
    assert [message.text for message in context.messages] == [*story.said[-5:-2], story.said[-2]]
    await story.recovers()


async def test_ephemeral_messages_leave_no_trace(tell: Open) -> None:
    """They are shown in one request, after the tail, and neither stored nor observed."""
    story = tell()
    async with story.memory.thread(THREAD, resource=RESOURCE).turn() as turn:
        context = await turn.prepare(UserMessage("word " * 300), ephemeral=[UserMessage("whisper")])
        assert [message.text for message in context.messages] == ["word " * 300, "whisper"]
        assert "whisper" in context.render()
        assert "whisper" not in context.render_without_edge()
        context = await turn.prepare()
        assert "whisper" not in context.render()
    story.said.append("word " * 300)
    await story.recovers()
    assert not any("whisper" in request.text for request in story.model.requests)


@pytest.mark.parametrize("is_pause", [False, True], ids=["a change of model", "a pause"])
async def test_what_makes_the_cache_useless_activates(tell: Open, clock: FakeClock, *, is_pause: bool) -> None:
    """What is buffered enters the log when the prompt cache is of no use any more, and not before, nor where that is off."""
    story = tell()
    await story.chat(5, model="one")
    assert (await story.memory.thread(THREAD, resource=RESOURCE).status()).buffered_groups > 0
    for settings in ({"activate_after_idle": False}, None):
        assert story.told(Activated) == []
        clock.advance(minutes=30 * is_pause)
        await story.chat(1, model="one" if settings or is_pause else "two", settings=settings)
    reasons = [event.reason for event in story.told(Decided) if event.decision == "Activate"]
    assert len(reasons) == len(story.told(Activated)) == 1
    assert ("the prompt cache is cold" if is_pause else "the model changed from one to two") in reasons[0]
    await story.recovers()


async def test_an_error_that_quotes_the_prompt(tell: Open, caplog: pytest.LogCaptureFixture) -> None:
    """A provider quotes the prompt in its error, as JSON: events, logs and rows have only the rest of it."""

    def refuse(request: ModelRequest) -> str:
        quote = json.dumps(request.text)
        raise RuntimeError(f"HTTP 400, input too long: {quote[len(quote) // 2 :]}")

    story = tell(model=ScriptedModel([refuse] * ALWAYS))
    events = listen(story.memory)
    await story.chat(6)
    await story.memory.settled()
    status = await story.memory.thread(THREAD, resource=RESOURCE).status()
    failed = [event.error for event in events if isinstance(event, RunFailed)]
    assert failed
    for error in (*failed, status.last_error or "", *(record.getMessage() for record in caplog.records)):
        assert "word" not in error
        assert len(error) < 600
    assert "HTTP 400, input too long:" in failed[0]


async def test_status_tells_how_it_is_doing(tell: Open, clock: FakeClock) -> None:
    """Windows, backlog, runs, breaker, last error and cost, at each stage of a thread's life."""
    story = tell(model=Priced())
    await story.chat(1, words=10)
    status = await story.memory.thread(THREAD, resource=RESOURCE).status()
    assert (status.health, status.running, status.failed, status.breaker_open) == ("ok", 0, 0, False)
    assert status.backlog_tokens == status.messages.tokens > 0
    assert (status.messages.limit, status.observations.limit) == (1_000, 600)
    assert 0 < status.messages.tokens < status.messages.limit
    assert status.usage.cost == 0
    await story.chat(5)
    status = await story.memory.thread(THREAD, resource=RESOURCE).status()
    assert status.buffered_groups > 0
    assert status.buffered_tokens + status.backlog_tokens == status.messages.tokens
    assert status.usage.cost == pytest.approx(0.01 * len(story.model.requests))
    assert status.last_success_at is not None
    story.model.is_down = True
    await story.chat(3)
    status = await story.memory.thread(THREAD, resource=RESOURCE).status()
    assert (status.health, status.failed, status.failures) == ("failing", 1, status.failures)
    assert status.failures > 0
    assert status.last_error == "the model failed: ConnectionError: down"
    await story.chat(25)
    assert (await story.memory.thread(THREAD, resource=RESOURCE).status()).messages.tokens > 1_200
    story.model.is_down = False
    await story.recovers()
    status = await story.memory.thread(THREAD, resource=RESOURCE).status()
    assert (status.failures, status.failed, status.breaker_open) == (0, 0, False)
    assert status.observations.tokens > 0
    assert status.groups > 0


# ---------------------------------------------------------------- telemetry


class FakeTracer:
    """A tracer that notes what it is asked for."""

    def __init__(self) -> None:
        self.spans: list[tuple[str, Mapping[str, Any]]] = []

    def start_as_current_span(
        self, name: str, *, attributes: Mapping[str, Any], record_exception: bool, set_status_on_exception: bool
    ) -> AbstractContextManager[None]:
        """Note a span, which must not be told what an exception says."""
        assert not record_exception
        assert not set_status_on_exception
        self.spans.append((name, attributes))
        return nullcontext()


async def test_spans_appear(tell: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tracer provider that is set through OpenTelemetry's API sees every step of a turn, also if it is set late."""
    from opentelemetry import trace

    tracer = FakeTracer()
    story = tell()
    await story.chat(1)
    monkeypatch.setattr(trace, "get_tracer_provider", object)
    monkeypatch.setattr(trace, "get_tracer", {"memolog": tracer}.__getitem__)
    await story.chat(2)
    names = [name for name, _ in tracer.spans]
    assert names == ["memolog.prepare", "memolog.record"] * 2
    assert all(attributes["gen_ai.conversation.id"] == THREAD for _, attributes in tracer.spans)


async def test_spans_cost_nothing_without_the_api(tell: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where OpenTelemetry is not installed, turns work all the same."""
    monkeypatch.setitem(__import__("sys").modules, "opentelemetry", None)
    telemetry._tracing.cache_clear()
    try:
        await tell().chat(1)
        assert telemetry._tracing() is None
    finally:
        telemetry._tracing.cache_clear()
