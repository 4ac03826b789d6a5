"""Leaving and closing: whatever fails meanwhile, what a turn took is saved in the end, or its loss is told."""

import asyncio
import contextlib
from collections.abc import Generator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kit.clock import until
from kit.engines import engines
from kit.talk import RESOURCE, THREAD, hold, stories
from memolog import AssistantMessage, StoreError, SyncMemory, UserMessage, outbox
from memolog.core.run import Usage
from memolog.errors import NotSaved, StoreClosed, StoreUnavailable
from memolog.events import Degraded
from memolog.store import Store
from memolog.testing import FakeClock, ScriptedModel
from messages.test_faults import SMALL, Open, Talk, before_writes, locked, unwritable

HURRIED = replace(SMALL, busy_timeout=0.5)
engine_name = engines("sqlite", "postgres")


tell = stories(Talk, may_lose=True)


# ---------------------------------------------------------------- leaving


@pytest.mark.parametrize("is_locked", [False, True], ids=["unwritable", "locked"])
async def test_a_turn_that_is_cancelled_while_it_is_left(tell: Open, file: str, *, is_locked: bool) -> None:
    """What its calls took is saved in the background, and somebody is told."""
    story = tell(address=file) if is_locked else tell()
    await story.chat(1)
    left = asyncio.Event()

    async def agent() -> None:
        async with story.memory.thread(THREAD, resource=RESOURCE).turn() as turn:
            await turn.prepare(UserMessage("two"))
            await turn.record(AssistantMessage("two-a"))
            await turn.record(AssistantMessage("two-b"))
            left.set()

    with locked(file) if is_locked else unwritable(await story.store()):
        task = asyncio.create_task(agent())
        await left.wait()
        # It is leaving by now, and waits a moment for a database that may be back.
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert is_locked or "cancelled" in story.told(Degraded)[-1].error
    story.said += ["two", "two-a", "two-b"]
    await story.memory.settled()
    await story.recovers()


async def test_a_turn_that_goes_on_with_another_is_taken_back_with_it(tell: Open) -> None:
    """A turn under the name of an earlier one withdraws what both said."""
    story = tell()
    await story.chat(1)
    async with story.memory.thread(THREAD, resource=RESOURCE).turn() as turn:
        await turn.prepare(UserMessage("one"))
    again = story.memory.thread(THREAD, resource=RESOURCE).turn()
    again.id = turn.id
    async with again:
        await again.prepare(UserMessage("two"))
        await again.discard()
    await story.recovers()


async def test_the_next_turn_sees_what_is_not_saved(tell: Open) -> None:
    """A context is made of what can be read and of what this process holds, in its order; nothing is seen twice."""
    story = tell()
    await story.chat(2)
    with unwritable(await story.store()):
        assert [m.text for m in (await story.ask("one", "one-a")).messages] == story.said[:-1]
        assert [m.text for m in (await story.ask("two", "two-a")).messages] == story.said[:-1]
        status = await story.memory.thread(THREAD, resource=RESOURCE).status()
        assert (status.health, status.unsaved) == ("failing", 4)
        assert "takes nothing" in (status.last_error or "")
        assert status.last_error_at is not None
    assert [m.text for m in (await story.ask("three", "three-a")).messages] == story.said[:-1]
    assert await story.stored() == story.said
    assert (await story.memory.thread(THREAD, resource=RESOURCE).status()).unsaved == 0
    await story.recovers()


@contextlib.contextmanager
def mute(store: Store) -> Generator[None]:
    """Let nothing be written, nor anything be read."""
    read, store.engine.read = store.engine.read, failing
    try:
        with unwritable(store):
            yield
    finally:
        store.engine.read = read


async def failing(*_: object, **__: object) -> Any:
    """Answer nothing."""
    raise StoreUnavailable("The database answers nothing.", then="Try again.")


@pytest.mark.parametrize("outage", [contextlib.nullcontext, unwritable, mute])
async def test_what_is_said_again_is_shown_once(tell: Open, outage: Any) -> None:
    """A message that was stored, and has grown since, looks the same whether the database can be written, read, or neither."""
    story = tell()
    async with story.memory.thread(THREAD, resource=RESOURCE).turn() as turn:
        await turn.prepare(UserMessage("asked", id="m1"))
        await turn.record(AssistantMessage(["hello"], id="m2"))
        await turn.prepare()
        with outage(await story.store()):
            again = AssistantMessage(["hello", "grown"], id="m2")
            context = await turn.prepare(UserMessage("asked", id="m1"), again, UserMessage("more", id="m3"))
            assert [message.text for message in context.messages] == ["asked", "hello\n\ngrown", "more"]
            await turn.record(AssistantMessage(["yes"], id="m4"))
            context = await turn.prepare(AssistantMessage(["yes", "no"], id="m4"))
            assert [message.text for message in context.messages][-2:] == ["more", "yes\n\nno"]
    await story.memory.settled()
    assert await story.stored() == ["asked", "hello", "grown", "more", "yes", "no"]


@pytest.mark.parametrize("outage", [contextlib.nullcontext, unwritable])
async def test_what_the_log_covers_and_is_said_again_is_not_shown(tell: Open, outage: Any) -> None:
    """It is told by the log; it does not stand after what is newer. What was shown can be built again."""
    story = tell()
    await hold(story.memory, UserMessage("asked", id="m1"), AssistantMessage("told", id="m2"))
    await story.memory.thread(THREAD, resource=RESOURCE).observe()
    async with story.memory.thread(THREAD, resource=RESOURCE).turn() as turn:
        with outage(await story.store()):
            context = await turn.prepare(
                UserMessage("asked", id="m1"), AssistantMessage("told", id="m2"), UserMessage("new")
            )
    assert [message.text for message in context.tail] == ["new"]
    await story.memory.settled()
    seen = await story.memory.thread(THREAD, resource=RESOURCE).seen(2)
    assert [message.text for message in seen.tail] == ["new"]


async def test_what_is_left_is_saved_with_the_next_write(tell: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    """However often it failed before: any turn that can save shows that the database is there."""
    # The next try of its own is a long time away.
    monkeypatch.setattr(outbox, "_FIRST_DELAY", 1_000.0)
    story = tell()
    await story.chat(1)
    with unwritable(await story.store()):
        await story.ask("one", "one-a")
    await hold(story.memory, "hello", thread="another")

    async def is_saved() -> bool:
        return await story.stored() == story.said

    await until(is_saved)
    await story.recovers()


async def test_usage_is_booked_with_what_is_saved_later(tell: Open) -> None:
    """Once, with the thread that it was spent for."""
    story = tell()
    await story.chat(1)
    usage = Usage(model="m", input_tokens=700, output_tokens=7, cost=0.5)
    with unwritable(await story.store()):
        await story.ask("one", "one-a", usage=usage)
        assert (await story.memory.thread(THREAD, resource=RESOURCE).status()).usage.output_tokens == 0
    await story.memory.settled()
    await story.memory.settled()
    total = await (await story.store()).ledger.total(RESOURCE, thread=THREAD)
    assert (total.input_tokens, total.output_tokens, total.cost) == (700, 7, 0.5)
    await story.recovers()


async def test_search_answers_while_nothing_can_be_written(tell: Open) -> None:
    """From what is indexed; the answer says that there is more."""
    story = tell()
    await story.ask("The key is under the mat.")
    assert (await story.memory.resource(RESOURCE).search("key")).total == 1
    await story.ask("The other key is in the shed.")
    with unwritable(await story.store()):
        answer = await story.memory.resource(RESOURCE).search("key")
    assert (answer.total, answer.behind) == (1, 1)
    answer = await story.memory.resource(RESOURCE).search("key")
    assert (answer.total, answer.behind) == (2, 0)


# ---------------------------------------------------------------- strict


async def test_strict_keeps_nothing_of_a_call_that_raised(tell: Open, file: str) -> None:
    """A write that was waiting for the lock when the call gave up is not made later."""
    story = tell(address=file, config=replace(SMALL, strict=True))
    await story.chat(1)
    async with story.memory.thread(THREAD, resource=RESOURCE).turn() as turn:
        with locked(file):
            for _ in range(2):
                with pytest.raises(StoreError):
                    await turn.prepare(UserMessage("two"))
        await turn.prepare(UserMessage("three"))
    # The worker that waited has had its turn before this.
    await (await story.store()).threads.get(RESOURCE, THREAD)
    story.said.append("three")
    await story.recovers()


# ---------------------------------------------------------------- closing


async def test_closing_saves_what_is_left(tell: Open, clock: FakeClock, address: str) -> None:
    """However long ago the last try was."""
    story = tell()
    await story.chat(1)
    with unwritable(await story.store()):
        await story.ask("one", "one-a")
        await story.memory.settled()
    await story.memory.aclose()
    again = tell()
    assert await again.stored() == story.said


@pytest.mark.parametrize("is_locked", [False, True], ids=["unwritable", "locked"])
async def test_closing_tells_what_is_lost(tell: Open, file: str, *, is_locked: bool) -> None:
    """By an error and by an event, with how many messages of which threads; closing again is harmless."""
    story = tell(config=HURRIED, address=file) if is_locked else tell(config=HURRIED)
    await story.chat(1)
    with locked(file) if is_locked else unwritable(await story.store()):
        await story.ask("one", "one-a")
        with pytest.raises(NotSaved, match="2 messages could not be saved") as lost:
            await story.memory.aclose()
    assert lost.value.counts == {(RESOURCE, THREAD): 2}
    assert f"2 of thread {THREAD}" in str(lost.value)
    assert story.told(Degraded)[-1].error == str(lost.value)
    await story.memory.aclose()


async def test_closing_that_is_cancelled_saves_what_can_be_saved_at_once(tell: Open) -> None:
    """Also while an observer is waited for: neither what was said is lost, nor does anything stay behind."""
    story = tell(model=ScriptedModel(seconds=3_600))
    await hold(story.memory, "word " * 900)
    story.said.append("word " * 900)
    assert (await story.memory.thread(THREAD, resource=RESOURCE).status()).running
    with unwritable(await story.store()):
        await story.ask("one", "one-a")
    store = await story.store()
    closing = asyncio.create_task(story.memory.aclose())

    async def is_saved() -> bool:
        return [row.text for row in await store.messages.after(RESOURCE, THREAD, 0)] == story.said

    await until(is_saved)
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing
    with pytest.raises(StoreClosed):
        await store.threads.get(RESOURCE, THREAD)
    await story.memory.aclose()
    assert asyncio.all_tasks() == {asyncio.current_task()}
    assert await tell().stored() == story.said


async def test_closing_that_is_cancelled_is_finished_by_the_next(tell: Open) -> None:
    """It tells what is lost; the store is closed already, and the third one is harmless."""
    story = tell(config=replace(SMALL, busy_timeout=3_600))
    await story.memory.open()
    await story.chat(1)
    store = await story.store()
    with unwritable(store):
        await story.ask("one")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(story.memory.aclose(), 0.1)
    with pytest.raises(StoreClosed):
        await store.threads.get(RESOURCE, THREAD)
    with pytest.raises(NotSaved, match=r"1 message could not be saved.*closing was interrupted"):
        await story.memory.aclose()
    await story.memory.aclose()


async def test_the_error_of_a_block_comes_first(tell: Open) -> None:
    """What is lost is told as an event then."""
    story = tell(config=HURRIED)
    outage = unwritable(await story.store())

    async def fall() -> None:
        async with story.memory:
            outage.__enter__()
            await story.ask("one")
            raise KeyError("fallen")

    with pytest.raises(KeyError, match="fallen"):
        await fall()
    assert "1 message could not be saved" in story.told(Degraded)[-1].error
    outage.__exit__(None, None, None)


async def test_a_turn_that_is_open_when_the_memory_is_closed(tell: Open) -> None:
    """What it took is saved; what it brings afterwards is refused, not taken and lost."""
    story = tell()
    async with story.memory.thread(THREAD, resource=RESOURCE).turn() as turn:
        with unwritable(await story.store()):
            await turn.prepare(UserMessage("asked"))
        await story.memory.aclose()
        for call in (turn.prepare(UserMessage("again")), turn.record(AssistantMessage("answer")), turn.discard()):
            with pytest.raises(StoreClosed):
                await call
    assert asyncio.all_tasks() == {asyncio.current_task()}
    again = tell()
    assert await again.stored() == ["asked"]


async def test_a_closed_memory_has_no_turns(tell: Open, address: str) -> None:
    """In both faces; a turn that was made before is not entered either."""
    story = tell()
    await story.chat(1)
    early = story.memory.thread(THREAD, resource=RESOURCE).turn()
    await story.memory.aclose()
    with pytest.raises(StoreClosed):
        story.memory.thread(THREAD, resource=RESOURCE).turn()
    with pytest.raises(StoreClosed):
        await early.__aenter__()
    with pytest.raises(StoreClosed):
        await story.memory.open()

    def in_sync() -> None:
        memory = SyncMemory(address)
        memory.open()
        memory.close()
        with pytest.raises(StoreClosed):
            memory.thread(THREAD, resource=RESOURCE).turn()
        memory.close()

    await asyncio.to_thread(in_sync)


# ---------------------------------------------------------------- the file


async def test_a_file_that_is_removed_or_replaced_while_it_is_open(tell: Open, tmp_path: Path) -> None:
    """Nothing is written into it; it is told, and once the file is back, what was said is saved."""
    path, aside = tmp_path / "memolog.db", tmp_path / "aside.db"
    story = tell(address=str(path))
    await story.chat(1)
    path.rename(aside)
    assert [m.text for m in (await story.ask("one", "one-a")).messages] == story.said[:-1]
    path.touch()
    await story.ask("two", "two-a")
    assert all("removed or replaced" in event.error for event in story.told(Degraded))
    status = await story.memory.thread(THREAD, resource=RESOURCE).status()
    assert (status.health, status.unsaved) == ("failing", 4)
    assert "removed or replaced" in (status.last_error or "")
    with pytest.raises(StoreUnavailable):
        await (await story.store()).threads.create(RESOURCE, "another")
    assert path.stat().st_size == 0
    aside.rename(path)
    await story.memory.settled()
    await story.recovers()


@pytest.mark.parametrize("count", [1, 2, 4])
async def test_calls_of_one_turn_at_once(tell: Open, file: str, count: int) -> None:
    """As the results of parallel tools come: each is saved once, in its order, although the first had to wait."""
    story = tell(address=file, config=replace(SMALL, busy_timeout=120))
    async with story.memory.thread("t", resource=RESOURCE).turn() as turn:
        await turn.prepare(UserMessage("go"))
        with locked(file, hurried=False):
            calls = [asyncio.create_task(turn.record(AssistantMessage(f"part {number}"))) for number in range(count)]
            await asyncio.sleep(0.1)
            last = asyncio.create_task(turn.prepare(UserMessage("last")))
            await asyncio.sleep(0.3)
        await asyncio.gather(*calls)
        said = ["go", *(f"part {number}" for number in range(count)), "last"]
        assert [message.text for message in (await last).messages] == said
    context = await hold(story.memory, "next", thread="t")
    assert [message.text for message in context.messages] == [*said, "next"]


@pytest.mark.parametrize("is_for_ever", [False, True])
async def test_usage_that_cannot_be_stored_loses_no_answer(tell: Open, *, is_for_ever: bool) -> None:
    """An answer is saved with its usage, and without it if the usage is refused. What fails once is stored once later."""
    story = tell()
    await story.ask("one", "one-a")
    refused, store = {"store.save_and_book", "usage.add"}, await story.store()
    failed: list[str] = []

    async def failing(name: str) -> None:
        if name in refused and (is_for_ever or not failed):
            failed.append(name)
            raise ValueError("refused") if is_for_ever else StoreUnavailable("The database is gone.", then="Try again.")

    write = before_writes(store, failing)
    await story.ask("two", "two-a", usage=Usage(model="m", input_tokens=700, output_tokens=7))
    store.engine.write = write
    saved = await store.messages.after(RESOURCE, THREAD)
    assert [message.text for message in saved] == story.said
    assert failed == (["store.save_and_book", "usage.add"] if is_for_ever else ["store.save_and_book"])
    assert (await store.ledger.total(RESOURCE, thread=THREAD)).output_tokens == (0 if is_for_ever else 7)
