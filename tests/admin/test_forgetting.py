"""Forgetting through the public face, on every engine: nothing of it is left, everything else is as it was."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from admin.lived_in import Echo, dump, files_holding, live, names_in, opened, rows_of, settings, word
from kit.talk import hold, logged, store_of
from log.engine_invariants import check_log, read_rows
from memolog import (
    Forgotten,
    InputError,
    ModelReply,
    ModelRequest,
    NotFound,
    RetentionConfig,
    UserMessage,
    restore_backup,
)
from memolog.core.observation import Observation
from memolog.db.sqlite_files import copies_of
from memolog.errors import MessageConflict
from memolog.memory import Memory
from memolog.testing import FakeClock


@pytest.fixture
async def memory(address: str, clock: FakeClock) -> AsyncIterator[Memory]:
    """Return a memory that goes through everything in a short talk, on each engine in turn."""
    async with opened(address, clock) as memory:
        yield memory


async def lines(memory: Memory, resource: str, thread: str) -> list[Observation]:
    """Return the lines that the log shows now."""
    found = await logged(memory, thread, resource, scope=memory.config.scope)
    return [line for line in found if line.state == "active"]


async def shown(memory: Memory, resource: str, thread: str) -> str:
    """Return what the model would see."""
    async with memory.thread(thread, resource=resource).turn(
        settings={"read_only": True, "keep_prompts": False}
    ) as turn:
        return (await turn.prepare()).render()


async def of_others(memory: Memory, resource: str) -> dict[str, list[str]]:
    """Return every row that speaks of another resource."""
    found = await dump(await store_of(memory))
    return {
        name: [row for row in rows if resource in row] for name, rows in found.items() if "search_index" not in name
    }


# ---------------------------------------------------------------- a message


async def test_a_message_is_gone_from_everything_that_was_made_of_it(memory: Memory, clock: FakeClock) -> None:
    """Its row is a tombstone; no table, index, prompt or context holds its words, and coverage is as it was."""
    await live(memory, clock, "alice")
    await live(memory, clock, "bob", threads=("a",), turns=4)
    store = await store_of(memory)
    code = word("alice", "a", 3)
    others = await of_others(memory, "qzbob")
    before = await store.logs.snapshot("alice", "a", "thread")
    assert len(rows_of(await dump(store), code)) > 5
    for name in (code, f"call-{code}", f"result-{code}"):
        gone = await memory.resource("alice").forget(message=name)
        assert gone.messages == 1
    gone = await memory.resource("alice").forget(message=f"answer-{code}", thread="a")
    assert gone.observations
    assert gone.prompts == 0, "they went with the first message"
    assert (gone.dry_run, gone.is_clean) == (False, store.engine.file is not None)
    rows = await store.messages.get("alice", code)
    assert [(row.state, row.parts, row.metadata, row.search) for row in rows] == [("forgotten", (), {}, None)]
    left = rows_of(await dump(store), code)
    # The ids that the caller gave are the tombstones' own.
    assert [row for row in left if not row.startswith("messages:")] == []
    assert code not in await shown(memory, "alice", "a")
    assert not [found for found in (await memory.resource("alice").search(code)).results if code in found.content]
    after = await store.logs.snapshot("alice", "a", "thread")
    assert after.cursor == before.cursor
    check_log(await read_rows(store), None)
    assert await of_others(memory, "qzbob") == others
    assert word("alice", "a", 4) in str(await dump(store))


async def test_a_reflection_is_derived_again_from_what_is_left(memory: Memory, clock: FakeClock) -> None:
    """What a reflected line said of the others stays, in their words; nothing is observed again."""
    await live(memory, clock, "alice", threads=("a",))
    reflected = next(line for line in await lines(memory, "alice", "a") if len(line.merges) == 2)
    store = await store_of(memory)
    merged = [await store.line_edits.get("alice", name) for name in reflected.merges]
    victim, survivor = merged[0], merged[1]
    span = victim.sources[0].span
    (message,) = await store.messages.span("alice", "a", span)
    gone = await memory.resource("alice").forget(message=message.id, thread="a")
    assert {victim.id, reflected.id} <= set(gone.observations)
    assert gone.reflections
    now = await lines(memory, "alice", "a")
    assert reflected.id not in [line.id for line in now]
    heir = next(line for line in now if survivor.id in line.merges)
    assert (heir.text, heir.sources, heir.priority) == (survivor.text, survivor.sources, survivor.priority)
    assert survivor.text in await shown(memory, "alice", "a")
    assert (await memory.thread("a", resource="alice").history())[-1].kind == "forget"
    check_log(await read_rows(store), None)
    # Older generations hold nothing of it either, and can still be brought back.
    await memory.thread("a", resource="alice").restore(0)
    assert f"{victim.text}\n" not in await shown(memory, "alice", "a")
    assert survivor.text in await shown(memory, "alice", "a")
    check_log(await read_rows(store), None)


async def test_what_is_forgotten_does_not_come_back(memory: Memory) -> None:
    """Saved again under its id, with the same words or with others, it stays forgotten, and who saves it is told."""
    await hold(memory, UserMessage("my code is swordfish", id="m1"), thread="t")
    await memory.resource("alice").forget(message="m1")
    async with memory.thread("t", resource="alice").turn() as turn:
        for words in ("my code is swordfish", "my code is a secret"):
            with pytest.raises(MessageConflict, match="Message m1 of thread t was forgotten"):
                await turn.prepare(UserMessage(words, id="m1"), UserMessage("and now?", id="m2"))
        with pytest.raises(MessageConflict):
            await turn.record(UserMessage("my code is swordfish", id="m1"))
        context = await turn.prepare(UserMessage("and now?", id="m2"))
        assert [message.text for message in context.messages] == ["and now?"]
    assert rows_of(await dump(await store_of(memory)), "swordfish") == []
    again = await memory.resource("alice").forget(message="m1")
    assert again.messages == 0


class Slow(Echo):
    """A model that waits until it may answer."""

    def __init__(self) -> None:
        self.asked, self.may_answer = asyncio.Event(), asyncio.Event()

    async def complete(self, request: ModelRequest) -> ModelReply:
        """Answer once that is allowed."""
        self.asked.set()
        await self.may_answer.wait()
        return await super().complete(request)


@pytest.mark.parametrize("what", ["message", "thread", "resource"])
async def test_a_run_in_flight_cannot_bring_it_back(address: str, clock: FakeClock, what: str) -> None:
    """The observer has read it already, and answers after it was forgotten: nothing of the answer is kept."""
    model = Slow()
    async with Memory(address, model=model, config=settings(), clock=clock) as memory:
        store = await store_of(memory)
        await store.messages.save("alice", "t", [UserMessage(f"tell me of qzsecret{n}", id=f"m{n}") for n in range(4)])
        await store.messages.save("bob", "t", UserMessage("qzbob"))
        await memory.thread("t", resource="alice").buffer()
        await model.asked.wait()
        names: dict[str, dict[str, Any]] = {"message": {"message": "m1"}, "thread": {"thread": "t"}, "resource": {}}
        gone = await memory.resource("alice").forget(**names[what])
        assert gone.runs == 1
        model.may_answer.set()
        await memory.settled()
        code = "qzsecret1" if what == "message" else "qzsecret"
        assert rows_of(await dump(store), code) == []
        if what == "message":
            # What is left of the span is observed again, without it.
            await memory.thread("t", resource="alice").observe()
            assert rows_of(await dump(store), code) == []
            assert "qzsecret2" in str(await lines(memory, "alice", "t"))
            check_log(await read_rows(store), None)


async def test_unknown_things_are_told(memory: Memory) -> None:
    """What is not there cannot be forgotten, and what is asked for must make sense."""
    await hold(memory, UserMessage("hello", id="m1"), thread="t")
    unknown: list[dict[str, Any]] = [
        {"message": "m2"},
        {"message": "m1", "thread": "other"},
        {"thread": "other"},
        {"observation": "o1"},
    ]
    for names in unknown:
        with pytest.raises(NotFound):
            await memory.resource("alice").forget(**names)
    with pytest.raises(NotFound):
        await memory.resource("nobody").forget()
    with pytest.raises(InputError):
        await memory.resource("alice").forget(observation="o1", thread="t")


# ---------------------------------------------------------------- a thread


@pytest.mark.parametrize("scope", ["thread", "resource"])
async def test_a_thread_is_gone_and_its_neighbours_are_not(address: str, clock: FakeClock, scope: str) -> None:
    """Also from a log that it shared: the reflected lines that joined it with others say what is left."""
    async with opened(address, clock, scope=scope) as memory:
        await live(memory, clock, "alice", threads=("a", "b"), turns=10)
        store = await store_of(memory)
        usage = await store.ledger.total("alice")
        kept = await store.messages.after("alice", "a")
        gone = await memory.resource("alice").forget(thread="b")
        assert gone.threads == ("b",)
        assert min(gone.messages, gone.contexts, gone.working_memory, gone.usage, len(gone.observations)) > 0
        found = await dump(store)
        assert rows_of(found, "qzaliceb") == []
        assert await store.threads.count("alice") == 1
        assert await store.ledger.total("alice") == usage
        assert [replace(row, task=None) for row in await store.messages.after("alice", "a")] == [
            replace(row, task=None) for row in kept
        ]
        assert "qzalicea" in await shown(memory, "alice", "a")
        assert (await memory.resource("alice").search(word("alice", "a", 1))).results
        check_log(await read_rows(store), None)
        await memory.thread("a", resource="alice").restore(0)
        check_log(await read_rows(store), None)


# ---------------------------------------------------------------- a resource


async def test_only_copies_of_our_own_are_removed(tmp_path: Path, clock: FakeClock) -> None:
    """Every name that Memolog gives to a copy goes, half ones too; what others have put beside the database stays."""
    file = str(tmp_path / "m.db")
    stamp, half = "20260314T090000", ".k3_b0x9q.partial"
    ours = ["migration-from-v4", f"migration-from-v12{half}", f"migration-from-v12{half}-journal", "restore-7"]
    ours += [f"repair-{stamp}", f"repair-{stamp}-2", f"restore-1{half}", "migration-from-v3.partial"]
    others = ["upgrade-of-the-server", "migration-from-v4.gz", "migration-from-vX", "repair-yesterday", "restore-", "x"]
    async with opened(file, clock) as memory:
        await (await store_of(memory)).messages.save("alice", "a", UserMessage("x", id="m1"))
        for name in (*ours, *others):
            (tmp_path / f"m.db.before-{name}").write_text("a copy")
        (tmp_path / "my.db.before-restore-1").write_text("of another database")
        (tmp_path / "m.db.before-restore-8").symlink_to(tmp_path / "my.db.before-restore-1")
        gone = await memory.resource("alice").forget(message="m1")
        assert set(gone.copies) == {f"{file}.before-{name}" for name in ours}
    left = {"m.db", "my.db.before-restore-1", "m.db.before-restore-8", *(f"m.db.before-{name}" for name in others)}
    assert set(names_in(tmp_path)) == left


async def test_a_link_is_only_another_name(tmp_path: Path, clock: FakeClock) -> None:
    """Copies stand beside the file itself, and go with it, by whatever name the database was opened."""
    file, link = tmp_path / "m.db", tmp_path / "elsewhere" / "current.db"
    link.parent.mkdir()
    link.symlink_to(file)
    async with opened(str(file), clock) as memory:
        await (await store_of(memory)).messages.save("alice", "a", UserMessage("x", id="m1"))
        await memory.backup(tmp_path / "b.db")
    for name in (file, link):
        restore_backup(tmp_path / "b.db", name, overwrite=True)
    assert sorted(path.name for path in copies_of(str(link))) == ["m.db.before-restore-1", "m.db.before-restore-2"]
    async with opened(str(link), clock) as memory:
        gone = await memory.resource("alice").forget(message="m1")
    assert len(gone.copies) == 2
    assert set(names_in(tmp_path)) == {"m.db", "b.db", "elsewhere"}
    assert link.is_symlink()


def leave_copies(file: str) -> None:
    """Put what migrations leave beside a database: a copy of it, and half of one."""
    Path(f"{file}.before-migration-from-v4").write_bytes(Path(file).read_bytes())
    Path(f"{file}.before-migration-from-v3.partial").write_text("qzalice")


async def test_a_resource_leaves_no_byte(address: str, clock: FakeClock, tmp_path: Path) -> None:
    """Not in a table, an index, the file, its journal or the copies beside it; the others are untouched."""
    async with opened(address, clock) as memory:
        for resource in ("alice", "bob"):
            await live(memory, clock, resource, turns=8)
        store = await store_of(memory)
        others = await of_others(memory, "bob")
        seen = await shown(memory, "bob", "a")
        usage = await store.ledger.total("alice")
        file = store.engine.file
        if file is not None:
            leave_copies(file)
            assert len(files_holding(file, "qzalice")) >= 3
        assert rows_of(await dump(store), "qzalice") != []
        gone = await memory.resource("alice").forget()
        assert set(gone.threads) == {"a", "b"}
        counted = (gone.messages, gone.tasks, gone.prompts, gone.events, gone.index, gone.working_memory, gone.extracts)
        assert min(counted) > 0
        assert rows_of(await dump(store), "qzalice") == []
        assert await of_others(memory, "bob") == others
        assert await shown(memory, "bob", "a") == seen
        assert await store.ledger.total("alice") == usage
        assert (await memory.resource("bob").search(word("bob", "a", 1))).results
        check_log(await read_rows(store), None)
        if file is not None:
            assert len(gone.copies) == 2
            assert gone.is_clean
            assert files_holding(file, "qzalice", "zalicea", "zaliceb") == []
            assert files_holding(file, "qzbob") != []
    if file is not None:
        assert files_holding(file, "qzalice", "zalicea", "zaliceb") == []
        assert names_in(tmp_path) == ["memolog.db"]


@pytest.mark.parametrize("what", ["message", "thread", "resource", "observation"])
async def test_a_dry_run_tells_the_same_and_changes_nothing(memory: Memory, clock: FakeClock, what: str) -> None:
    """It is the same work, taken back."""
    await live(memory, clock, "alice", threads=("a",), turns=8)
    store = await store_of(memory)
    line = (await lines(memory, "alice", "a"))[0].id
    names: dict[str, dict[str, Any]] = {
        "message": {"message": word("alice", "a", 2)},
        "thread": {"thread": "a"},
        "resource": {},
        "observation": {"observation": line},
    }
    before = await dump(store)
    would: Forgotten = await memory.resource("alice").forget(**names[what], dry_run=True)
    assert would.dry_run
    assert await dump(store) == before
    did = await memory.resource("alice").forget(**names[what])
    assert replace(did, dry_run=True, is_clean=False, copies=would.copies) == would


# ---------------------------------------------------------------- lines


async def test_a_line_is_corrected_and_keeps_its_sources(memory: Memory, clock: FakeClock) -> None:
    """The new line is shown and found in place of the old one, also where a reflection had merged that."""
    await live(memory, clock, "alice", threads=("a",), turns=12)
    store = await store_of(memory)
    reflected = next(line for line in await lines(memory, "alice", "a") if len(line.merges) == 2)
    old = await store.line_edits.get("alice", reflected.merges[0])
    new = await memory.resource("alice").edit_observation(old.id, "They spoke of a gryphon", priority="low")
    assert (new.text, new.priority, new.sources, new.group) == (
        "They spoke of a gryphon",
        "low",
        old.sources,
        old.group,
    )
    assert new.metadata["edit_of"] == old.id
    context = await shown(memory, "alice", "a")
    assert "gryphon" in context
    assert reflected.text not in context
    assert (await memory.thread("a", resource="alice").history())[-1].kind == "edit"
    assert [hit.source for hit in (await memory.resource("alice").search("gryphon")).results] != []
    assert (await store.line_edits.get("alice", old.id)).state == "retracted"
    check_log(await read_rows(store), None)
    # The old line can be deleted for good, and its correction stays.
    await memory.resource("alice").forget(observation=old.id)
    assert "gryphon" in await shown(memory, "alice", "a")
    with pytest.raises(InputError):
        await memory.resource("alice").edit_observation(old.id, "again")
    with pytest.raises(InputError):
        await memory.resource("alice").edit_observation(new.id, "  ")
    # And it goes with the message that it comes from.
    (message,) = await store.messages.span("alice", "a", old.sources[0].span)
    await memory.resource("alice").forget(message=message.id)
    assert rows_of(await dump(store), "gryphon") == []


async def test_a_retracted_line_comes_back(memory: Memory, clock: FakeClock) -> None:
    """Out of the log, of its reflections and of search, and back into all of them."""
    await live(memory, clock, "alice", threads=("a",), turns=12)
    store = await store_of(memory)
    reflected = next(line for line in await lines(memory, "alice", "a") if len(line.merges) == 2)
    one, other = [await store.line_edits.get("alice", name) for name in reflected.merges]
    assert (await memory.resource("alice").retract(one.id)).state == "retracted"
    assert (await memory.resource("alice").retract(one.id)).state == "retracted"
    log = [line.text for line in await lines(memory, "alice", "a")]
    assert other.text in log
    assert one.text not in log
    assert reflected.text not in log
    check_log(await read_rows(store), None)
    assert (await memory.resource("alice").reinstate(one.id)).state == "superseded"
    log = [line.text for line in await lines(memory, "alice", "a")]
    assert one.text in log
    assert one.text in await shown(memory, "alice", "a")
    assert log.count(one.text) == 1
    check_log(await read_rows(store), None)
    shown_line = next(line for line in await lines(memory, "alice", "a") if not line.merges)
    await memory.resource("alice").retract(shown_line.id)
    assert f"{shown_line.text}\n" not in await shown(memory, "alice", "a")
    assert (await memory.resource("alice").reinstate(shown_line.id)).state == "active"
    assert f"{shown_line.text}\n" in await shown(memory, "alice", "a")


async def test_a_deleted_line_is_gone_and_its_messages_are_not(memory: Memory, clock: FakeClock) -> None:
    """Nothing of its wording is left, and nothing brings it back."""
    await live(memory, clock, "alice", threads=("a",), turns=6)
    store = await store_of(memory)
    line = (await lines(memory, "alice", "a"))[0]
    edited = await memory.resource("alice").edit_observation(line.id, "They spoke of a gryphon")
    gone = await memory.resource("alice").forget(observation=edited.id)
    assert edited.id in gone.observations
    assert rows_of(await dump(store), "gryphon") == []
    with pytest.raises(InputError):
        await memory.resource("alice").reinstate(edited.id)
    assert await store.messages.span("alice", "a", line.sources[0].span)
    with pytest.raises(NotFound):
        await memory.resource("bob").forget(observation=line.id)


# ---------------------------------------------------------------- by age


async def test_retention_forgets_what_is_old(address: str, clock: FakeClock) -> None:
    """Off by default; once set, what is older goes with all that was made of it."""
    old = word("alice", "a", 0)
    async with opened(address, clock) as memory:
        await live(memory, clock, "alice", threads=("a",), turns=4)
        clock.advance(days=40)
        assert await memory.resource("alice").apply_retention() == Forgotten(resource="alice")
        await hold(memory, UserMessage("still here? qzfresh", id="fresh"), "yes", thread="a")
    keep = RetentionConfig(message_days=30, prompt_days=10, journal_days=20)
    async with opened(address, clock, retention=keep) as memory:
        store = await store_of(memory)
        if store.engine.file is None:
            return
        would = await memory.resource("alice").apply_retention(dry_run=True)
        assert would.messages > 4
        gone = await memory.resource("alice").apply_retention()
        assert (gone.messages, gone.events) == (would.messages, would.events)
        assert min(gone.events, gone.contexts) > 0
        left = await dump(store)
        assert [row for row in rows_of(left, old) if not row.startswith("messages:")] == []
        assert rows_of(left, "qzfresh") != []
        assert (await memory.resource("alice").apply_retention()).messages == 0
        check_log(await read_rows(store), None)
