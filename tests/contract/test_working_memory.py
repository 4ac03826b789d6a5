"""Working memory in the store: versions, races, scopes, on every engine."""

import asyncio

import pytest

from kit.engines import OpenStore
from kit.talk import forget_thread
from memolog.errors import (
    DocumentConflict,
    InputError,
    ThreadNotFound,
)
from memolog.store import Store
from memolog.testing import FakeClock
from memolog.working_memory.document import Change, edited_section, merged_patch, replaced, restored

MOST = 10_000


async def test_every_version_is_kept(store: Store, clock: FakeClock) -> None:
    """Who wrote what when; the newest first, page by page."""
    document = None
    for number in range(1, 6):
        document = await store.working_memory.change("alice", replaced(f"text {number}"), who=f"w{number}", most=MOST)
        assert document.current.number == number
        assert document.current.at == clock.now()
        clock.advance(minutes=1)
    assert await store.working_memory.get("alice") == document
    found = await store.working_memory.versions("alice", limit=2)
    assert [(v.number, v.text, v.by) for v in found] == [(5, "text 5", "w5"), (4, "text 4", "w4")]
    rest = await store.working_memory.versions("alice", before=4)
    assert [v.number for v in rest] == [3, 2, 1]
    old = await store.working_memory.version("alice", 2)
    again = await store.working_memory.change("alice", restored(old), who="me", most=MOST)
    assert (again.current.number, again.current.text) == (6, "text 2")


async def test_what_changes_nothing_is_no_version(store: Store) -> None:
    """Writing the same text again leaves no trace."""
    first = await store.working_memory.change("alice", replaced("text"), who="a", most=MOST)
    assert await store.working_memory.change("alice", replaced("text"), who="b", most=MOST) == first


async def test_scopes_are_apart(store: Store) -> None:
    """The resource's document and those of its threads do not know of each other."""
    await store.threads.create("alice", "t1")
    await store.threads.create("alice", "t2")
    await store.working_memory.change("alice", replaced("all"), who="a", most=MOST)
    await store.working_memory.change("alice", replaced("one"), thread="t1", who="a", most=MOST)
    whole, one = await store.working_memory.get("alice"), await store.working_memory.get("alice", "t1")
    assert whole is not None
    assert one is not None
    assert (whole.thread, whole.current.text, one.thread, one.current.text) == (None, "all", "t1", "one")
    assert await store.working_memory.get("alice", "t2") is None
    assert await store.working_memory.get("bob") is None
    with pytest.raises(ThreadNotFound):
        await store.working_memory.get("alice", "none")


async def test_a_deleted_thread_takes_its_document_with_it(store: Store) -> None:
    """A thread that is made again under the same id starts without one."""
    await store.threads.create("alice", "t1")
    await store.working_memory.change("alice", replaced("one"), thread="t1", who="a", most=MOST)
    await forget_thread(store)
    await store.threads.create("alice", "t1")
    assert await store.working_memory.get("alice", "t1") is None


async def test_a_clone_has_a_document_of_its_own(store: Store) -> None:
    """The clone starts from the present text, and goes its own way."""
    await store.threads.create("alice", "t1")
    for text in ("one", "two"):
        await store.working_memory.change("alice", replaced(text), thread="t1", who="a", most=MOST)
    await store.threads.clone("alice", "t1", "t2")
    await store.working_memory.change("alice", replaced("three"), thread="t2", who="b", most=MOST)
    assert [v.text for v in await store.working_memory.versions("alice", "t2")] == ["three", "two"]
    assert [v.text for v in await store.working_memory.versions("alice", "t1")] == ["two", "one"]


async def test_writers_of_different_sections_both_win(store: Store) -> None:
    """The second one's version is old, and its change is kept all the same."""
    base = await store.working_memory.change("alice", replaced("# A\n\na\n\n# B\n\nb\n"), who="x", most=MOST)
    read = base.current.number
    await store.working_memory.change("alice", edited_section("A", "1"), who="y", most=MOST, read=read)
    done = await store.working_memory.change("alice", edited_section("B", "2"), who="z", most=MOST, read=read)
    assert done.current.text == "# A\n\n1\n\n# B\n\n2\n"
    whole = await store.working_memory.change(
        "alice", replaced("# A\n\na\n\n# B\n\nb\n\n# C\n\nc\n"), who="v", most=MOST, read=read
    )
    assert whole.current.text == "# A\n\n1\n\n# B\n\n2\n\n# C\n\nc\n"


async def test_the_loser_of_a_race_is_told(store: Store) -> None:
    """Same section: a conflict that names who was first and what both changed; nothing is written."""
    base = await store.working_memory.change("alice", replaced("# A\n\na\n"), who="x", most=MOST)
    await store.working_memory.change("alice", edited_section("A", "1"), who="y", most=MOST, read=1)
    with pytest.raises(DocumentConflict) as caught:
        await store.working_memory.change("alice", edited_section("A", "2"), who="z", most=MOST, read=1)
    assert "changed by y" in str(caught.value)
    assert "Both changed: A" in str(caught.value)
    assert caught.value.retryable
    present = await store.working_memory.get("alice")
    assert present is not None
    assert present.current.number == base.current.number + 1
    for read in (9, -1):
        with pytest.raises(InputError):
            await store.working_memory.change("alice", replaced("x"), who="z", most=MOST, read=read)


@pytest.mark.parametrize("form", ["markdown", "json"])
async def test_a_conflict_names_who_wrote_that_part(store: Store, form: str) -> None:
    """Not whoever wrote last somewhere else, and least of all whoever makes the change."""

    def put(name: str, text: str) -> Change:
        return edited_section(name, text) if form == "markdown" else merged_patch({name: text})

    await store.working_memory.change("alice", put("A", "a"), who="x", most=MOST)
    for who, name in (("early", "B"), ("ben", "A"), ("late", "A"), ("mira", "C")):
        await store.working_memory.change("alice", put(name, f"by {who}"), who=who, most=MOST)
    with pytest.raises(
        DocumentConflict, match=r"changed by ben\. It has version 5, but this change is based on version 1"
    ):
        await store.working_memory.change("alice", put("A", "2"), who="mira", most=MOST, read=1)
    with pytest.raises(DocumentConflict, match="changed by mira"):
        await store.working_memory.change("alice", put("C", "2"), who="ben", most=MOST, read=1)


async def test_the_first_writer_of_all(store: Store) -> None:
    """Two who saw nothing: the second merges or conflicts like any other."""
    await store.working_memory.change("alice", edited_section("A", "1"), who="y", most=MOST, read=0)
    done = await store.working_memory.change("alice", edited_section("B", "2"), who="z", most=MOST, read=0)
    assert done.current.text == "## A\n\n1\n\n## B\n\n2\n"
    with pytest.raises(DocumentConflict):
        await store.working_memory.change("alice", edited_section("A", "3"), who="z", most=MOST, read=0)


async def test_many_writers_lose_nothing(open_a_store: OpenStore) -> None:
    """Sixteen writers on two connections append at once: every line is there, every version once."""
    one = await open_a_store()
    stores = [one] if one.engine.__class__.__name__ == "SqliteEngine" else [one, await open_a_store()]
    await one.working_memory.change("alice", replaced("# List\n"), who="x", most=MOST)

    async def add(number: int) -> None:
        store = stores[number % len(stores)]
        change = edited_section("List", f"- {number}", "append")
        await store.working_memory.change("alice", change, who=f"w{number}", most=MOST)

    await asyncio.gather(*(add(number) for number in range(16)))
    document = await one.working_memory.get("alice")
    assert document is not None
    assert sorted(document.current.text.split("\n")[2:-1]) == sorted(f"- {number}" for number in range(16))
    assert [v.number for v in await one.working_memory.versions("alice")] == list(range(17, 0, -1))


@pytest.mark.parametrize("text", ["", "a\x00b", "\ud800", "日本語 🧵", "'; DROP TABLE threads; --", "\x01x"])
async def test_any_text_comes_back(store: Store, text: str) -> None:
    """Text is kept character by character."""
    await store.working_memory.change("alice", replaced(f"x{text}"), who="x", most=MOST)
    document = await store.working_memory.change("alice", replaced(text), who="x", most=MOST)
    assert document.current.text == text
    assert await store.working_memory.get("alice") == document
