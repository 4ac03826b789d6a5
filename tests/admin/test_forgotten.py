"""What was forgotten does not come back from those who still have it: clients, transcripts, exports."""

import json
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from admin.lived_in import dump, live, opened, rows_of, word
from kit.talk import hold, store_of, stored_texts
from memolog import AssistantMessage, Memory, UserMessage
from memolog.adapters.new_messages import find_new
from memolog.core.message import NewMessage, TextPart, ToolCallPart, ToolMessage
from memolog.errors import ImportConflict
from memolog.testing import FakeClock

SECRET = "my code is swordfish"


@pytest.fixture
async def memory(address: str, clock: FakeClock) -> AsyncIterator[Memory]:
    """Return a memory that observes with small windows."""
    async with opened(address, clock) as memory:
        yield memory


async def forget(memory: Memory, what: str) -> None:
    """Forget the secret by itself, or with all around it."""
    names: dict[str, dict[str, Any]] = {"message": {"message": "m1"}, "thread": {"thread": "t"}, "resource": {}}
    await memory.resource("alice").forget(**names[what])


def said(messages: Sequence[NewMessage]) -> list[str]:
    """Return the texts of messages that are not saved yet."""
    return [part.text for message in messages for part in message.parts if isinstance(part, TextPart)]


def transcript(path: Path, *lines: tuple[str, str, str]) -> Path:
    """Write a transcript as a host does: when, which line, and what was said."""
    rows = [
        {
            "type": "user",
            "uuid": name,
            "sessionId": "t",
            "timestamp": f"2026-03-14T{at}:00+00:00",
            "message": {"role": "user", "content": text},
        }
        for at, name, text in lines
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


# ---------------------------------------------------------------- a client that sends its history again


@pytest.mark.parametrize("what", ["message", "thread", "resource"])
async def test_a_client_that_sends_its_history_again(memory: Memory, clock: FakeClock, what: str) -> None:
    """The forgotten question, the answer that nobody has any more and the call in it stay away; what is new is taken."""
    call = AssistantMessage([ToolCallPart(id="c1", name="look", arguments={"at": 1})])
    history: list[NewMessage] = [
        UserMessage(SECRET),
        call,
        ToolMessage("c1", "swordfish it is"),
        AssistantMessage("Noted."),
    ]
    async with memory.thread("t", resource="alice").turn() as turn:
        await turn.prepare(UserMessage(SECRET, id="m1"))
        await turn.record(call)
        await turn.prepare(*history[2:3])
        await turn.record(history[3])
    clock.advance(minutes=1)
    if what == "message":
        for message in await (await store_of(memory)).messages.after("alice", "t"):
            await memory.resource("alice").forget(message=message.id)
    else:
        await forget(memory, what)
    clock.advance(minutes=1)
    new, _ = await find_new(memory, "alice", "t", [*history, UserMessage("and now?")])
    assert said(new) == ["and now?"]
    # In another thread, or said last, it is new: people may say it again.
    elsewhere, _ = await find_new(memory, "alice", "other", [*history, UserMessage("and now?")])
    assert len(elsewhere) == 5
    again, _ = await find_new(memory, "alice", "t", [UserMessage(SECRET)])
    assert said(again) == [SECRET]


# ---------------------------------------------------------------- a transcript that the host still has


@pytest.mark.parametrize("what", ["message", "thread", "resource"])
async def test_a_transcript_that_the_host_still_has(
    memory: Memory, clock: FakeClock, tmp_path: Path, what: str
) -> None:
    """Read again, it brings what was said since; the rest comes back only if somebody asks for it."""
    lines = [("08:00", "m1", SECRET), ("08:05", "m2", "the weather is fine")]
    file = transcript(tmp_path / "t.jsonl", *lines)
    given: dict[str, Any] = {"resource": "alice", "format": "claude-code"}
    await memory.import_from(file, **given)
    assert await stored_texts(memory, "t") == [SECRET, "the weather is fine"]
    await forget(memory, what)
    before = ["the weather is fine"] if what == "message" else []
    report = await memory.import_from(file, **given)
    assert report.added.get("message", 0) == 0
    assert report.left["message"] == (1 if what == "message" else 2)
    assert rows_of(await dump(await store_of(memory)), "swordfish") == []
    clock.advance(hours=1)
    # Said again after it was forgotten, also under a name that was used before, it is new.
    transcript(file, *lines, ("09:30", "m9", "nice to see you"), ("09:31", "m8", SECRET))
    for _ in range(2):
        await memory.import_from(file, **given)
        assert await stored_texts(memory, "t") == [*before, "nice to see you", SECRET]
    if what != "message":
        revived = await memory.import_from(file, **given, revive=True)
        assert (revived.added["message"], revived.left) == (2, {})
        assert (await memory.import_from(file, **given)).left == {}


async def test_another_name_for_the_same_line(memory: Memory, clock: FakeClock, tmp_path: Path) -> None:
    """A host tells a prompt by an event and by a line: forgotten as one, it does not come back as the other."""
    await memory.import_from(transcript(tmp_path / "a.jsonl", ("08:00", "m1", SECRET)), resource="alice")
    await memory.resource("alice").forget(message="m1")
    file = transcript(tmp_path / "b.jsonl", ("08:01", "m2", f"  {SECRET}\n"), ("08:20", "m3", SECRET))
    await memory.import_from(file, resource="alice")
    # The last line was said twenty minutes later, so it is another message, which was not forgotten.
    kept = await (await store_of(memory)).messages.after("alice", "t")
    assert [message.id for message in kept] == ["m3"]
    clock.advance(hours=1)


async def test_a_forgotten_thread_can_be_begun_anew(memory: Memory, clock: FakeClock) -> None:
    """Under the same name, with the same ids and other words, or with the very same words."""
    for words in (SECRET, "something else", SECRET):
        await hold(memory, UserMessage(words, id="m1"), thread="t")
        assert await stored_texts(memory, "t") == [words]
        clock.advance(minutes=1)
        await memory.resource("alice").forget(thread="t")


async def test_nothing_of_the_text_is_in_a_tombstone(memory: Memory) -> None:
    """The same words of two people, and of two threads, leave different hashes: none can be looked up in a table."""
    store = await store_of(memory)
    for resource in ("alice", "bob"):
        for thread in ("t", "u"):
            await store.messages.save(resource, thread, UserMessage(SECRET, id="m1"))
            await memory.resource(resource).forget(thread=thread)
    rows = (await dump(store))["tombstones"]
    assert len(rows) == 2 * (1 + 2 * 3)
    assert len({row.split(",")[3] for row in rows}) == len(rows)
    assert not [row for row in rows if "swordfish" in row or "m1" in row]


# ---------------------------------------------------------------- an export from before


@pytest.mark.parametrize("scope", ["thread", "resource"])
async def test_an_older_export(address: str, clock: FakeClock, tmp_path: Path, scope: Any) -> None:
    """What was forgotten since stays forgotten, in the log too; what else is in it comes in."""
    old, newer = tmp_path / "old.jsonl", tmp_path / "newer.jsonl"
    secret, other = word("alice", "a", 3), word("alice", "b", 3)
    async with opened(address, clock, scope=scope) as memory:
        await live(memory, clock, "alice", turns=6)
        await memory.export(old)
        clock.advance(minutes=1)
        await memory.resource("alice").forget(thread="a")
        for message in (other, f"call-{other}", f"result-{other}", f"answer-{other}"):
            await memory.resource("alice").forget(message=message, thread="b")
        clock.advance(minutes=1)
        store = await store_of(memory)
        report = await memory.import_from(old, dry_run=True)
        assert report.left["thread"] == 1
        await memory.import_from(old)
        found = await dump(store)
        assert rows_of(found, secret) == []
        assert [row for row in rows_of(found, other) if not row.startswith("messages:")] == []
        assert [thread.id for thread in (await store.threads.list("alice")).items] == ["b"]
        await memory.export(newer)
    # The tombstones travel: a database that was restored from an export knows them too.
    async with opened(str(tmp_path / "restored.db"), clock, scope=scope) as memory:
        await memory.import_from(newer)
        await memory.import_from(old)
        found = await dump(await store_of(memory))
        assert rows_of(found, secret) == []
        assert [row for row in rows_of(found, other) if not row.startswith("messages:")] == []
        # Begun anew here, a thread of the same name is not mixed with the old one.
        await hold(memory, "something else", thread="a")
        with pytest.raises(ImportConflict):
            await memory.import_from(old)
        assert await stored_texts(memory, "a") == ["something else"]


async def test_an_older_export_of_somebody_who_was_forgotten(address: str, clock: FakeClock, tmp_path: Path) -> None:
    """Nothing of it comes in, tasks and working memory neither, unless it is asked for; a full export says so to others."""
    old, newer = tmp_path / "old.jsonl", tmp_path / "newer.jsonl"
    async with opened(address, clock) as memory:
        await memory.resource("alice").tasks(who="me").create("Write to swordfish")
        await memory.resource("alice").items().put(("facts",), "word", {"text": "swordfish"})
        await memory.resource("alice").working_memory().replace("swordfish", who="me")
        await (await store_of(memory)).messages.save("alice", "t", UserMessage(SECRET, id="m1"))
        await memory.export(old)
        clock.advance(minutes=1)
        await memory.resource("alice").forget()
        report = await memory.import_from(old)
        assert (report.added, report.left["message"], report.left["task"]) == ({}, 1, 1)
        await memory.export(newer)
    async with opened(str(tmp_path / "restored.db"), clock) as memory:
        await memory.import_from(newer)
        await memory.import_from(old)
        assert rows_of(await dump(await store_of(memory)), "swordfish") == []
        revived = await memory.import_from(old, revive=True)
        assert (revived.added["message"], revived.left) == (1, {})
        assert await stored_texts(memory, "t") == [SECRET]
