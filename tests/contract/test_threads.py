"""What every engine does with threads."""

import asyncio

import pytest

from contract.raw_sql import insert, run_sql, set_state, thread_pk
from kit.effort import counts
from kit.talk import forget_thread
from memolog.core.exact_json import JsonObject
from memolog.core.message import AssistantMessage, NewMessage, TextPart, UserMessage
from memolog.errors import InputError, ThreadExists, ThreadNotFound
from memolog.store import Store
from memolog.testing import FakeClock


async def names(store: Store, resource: str, limit: int) -> list[str]:
    """Return the ids of all threads, page by page."""
    found: list[str] = []
    token = None
    while True:
        page = await store.threads.list(resource, limit=limit, after=token)
        # A page that is exactly full does not promise another.
        assert page.items or token is None
        found.extend(thread.id for thread in page.items)
        if page.next is None:
            return found
        token = page.next


async def test_an_id_is_made_where_none_is_given(store: Store) -> None:
    """Two nameless threads are two threads."""
    one = await store.threads.create("alice")
    two = await store.threads.create("alice")
    assert one.id < two.id
    assert await store.threads.count("alice") == 2


async def test_many_creators_have_one_winner(store: Store) -> None:
    """Of many callers at once exactly one creates the thread; the others are refused and leave it as it is."""
    calls = (store.threads.create("alice", "t", title=str(number)) for number in range(counts(12, 100)))
    made = await asyncio.gather(*calls, return_exceptions=True)
    (winner,) = [outcome for outcome in made if not isinstance(outcome, ThreadExists)]
    assert [winner] == list((await store.threads.list("alice")).items)


async def test_a_missing_thread_is_not_found(store: Store) -> None:
    """Reading, changing and cloning say so alike."""
    for call in (store.threads.get, store.threads.update, store.threads.clone):
        with pytest.raises(ThreadNotFound, match="no thread nowhere"):
            await call("alice", "nowhere")


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("atlsa", "Did you mean atlas?"),
        ("Atlas", "Did you mean atlas?"),
        ("atlases", "Did you mean atlas?"),
        ("ttlas", "Did you mean atlas?"),
        ("auth", "Did you mean auth-api or auth-service?"),
        ("t9", "Did you mean t1, t2 or t3?"),
        ("xylophone", ""),
        ("x", ""),
        ("private", ""),
    ],
)
async def test_the_error_names_threads_with_a_similar_id(store: Store, given: str, meant: str) -> None:
    """A typo is the usual cause. Threads of another resource are not named."""
    for thread in ("atlas", "auth-service", "auth-api", "notes", "t1", "t2", "t3"):
        await store.threads.create("alice", thread)
    await store.threads.create("bob", "private-1")
    for call in (store.threads.get("alice", given), store.logs.snapshot("alice", given, "thread")):
        with pytest.raises(ThreadNotFound, match=f"no thread {given} ") as caught:
            await call
        assert caught.value.then.startswith(meant or "Check the id and the resource.")


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 100])
async def test_pages_hold_every_thread_once(store: Store, limit: int) -> None:
    """Whatever the size of a page, none is left out and none comes twice, also at equal times."""
    made = [(await store.threads.create("alice", f"t{index}")).id for index in range(7)]
    await store.threads.create("bob", "t0")
    assert await names(store, "alice", limit) == made[::-1]


async def test_paging_goes_on_while_threads_come_and_go(store: Store, clock: FakeClock) -> None:
    """What nobody touched meanwhile is seen exactly once; what is new or touched is not seen twice."""
    for index in range(10):
        await store.threads.create("alice", f"t{index}")
        clock.advance(seconds=1)
    first = await store.threads.list("alice", limit=4)
    await store.threads.create("alice", "new")
    await store.messages.save("alice", "t2", UserMessage("touched, not seen yet"))
    await store.messages.save("alice", "t8", UserMessage("touched, seen already"))
    await forget_thread(store, "t6")
    await forget_thread(store, "t5")
    second = await store.threads.list("alice", limit=4, after=first.next)
    assert [thread.id for thread in first.items] == ["t9", "t8", "t7", "t6"]
    assert [thread.id for thread in second.items] == ["t4", "t3", "t1", "t0"]
    assert second.next is None


@pytest.mark.parametrize(
    "token", ["", "x", "1", "1.2.3", "1.", "1.99999999999999999999", "a.b", "1e3.0", "1;DROP TABLE threads"]
)
async def test_a_made_up_page_token_is_refused(store: Store, token: str) -> None:
    """Only what a page handed out continues it."""
    await store.threads.create("alice", "t")
    with pytest.raises(InputError, match="cursor of a page"):
        await store.threads.list("alice", after=token)
    assert await names(store, "alice", 5) == ["t"]


@pytest.mark.parametrize("limit", [0, -1, 2**63 - 1, 2**63])
async def test_a_page_holds_at_least_one(store: Store, limit: int) -> None:
    """A size that is no size is refused alike by every engine, wherever there are pages."""
    await store.messages.save("alice", "t", [UserMessage("a"), UserMessage("b")])
    with pytest.raises(InputError, match="limit"):
        await store.threads.list("alice", limit=limit)
    for call in (store.messages.page, store.messages.after):
        with pytest.raises(InputError, match="limit"):
            await call("alice", "t", limit=limit)


async def test_an_update_changes_what_is_given(store: Store, clock: FakeClock) -> None:
    """What is not given stays; a title of None removes it; the time moves."""
    await store.threads.create("alice", "t", title="old", metadata={"a": 1}, overrides={"b": 2})
    clock.advance(minutes=1)
    unchanged = await store.threads.update("alice", "t")
    assert (unchanged.title, unchanged.metadata, unchanged.overrides) == ("old", {"a": 1}, {"b": 2})
    assert unchanged.updated_at == clock.now() != unchanged.created_at
    renamed = await store.threads.update("alice", "t", title="new")
    assert (renamed.title, renamed.metadata) == ("new", {"a": 1})
    nameless = await store.threads.update("alice", "t", title=None)
    assert (nameless.title, nameless.overrides) == (None, {"b": 2})
    emptied = await store.threads.update("alice", "t", metadata={}, overrides={"c": [3]})
    assert (emptied.metadata, emptied.overrides) == ({}, {"c": [3]})
    assert emptied == await store.threads.get("alice", "t")


async def test_metadata_changes_by_a_function_of_what_is_stored(store: Store) -> None:
    """Callers that each change a part of it lose nothing of each other's, and one that raises changes nothing."""
    await store.threads.create("alice", "t", metadata={"kept": True})

    async def count_up() -> None:
        await store.threads.update("alice", "t", metadata=lambda old: {**old, "count": old.get("count", 0) + 1})

    await asyncio.gather(*(count_up() for _ in range(10)))
    assert (await store.threads.get("alice", "t")).metadata == {"kept": True, "count": 10}

    def refuse(old: JsonObject) -> JsonObject:
        raise LookupError(str(old["count"]))

    with pytest.raises(LookupError, match="10"):
        await store.threads.update("alice", "t", title="new", metadata=refuse)
    after = await store.threads.get("alice", "t")
    assert (after.title, after.metadata["count"]) == (None, 10)


async def test_updates_at_once_all_count(store: Store) -> None:
    """Two callers that change different fields do not undo each other."""
    await store.threads.create("alice", "t")
    await asyncio.gather(
        *(store.threads.update("alice", "t", title="T") for _ in range(4)),
        *(store.threads.update("alice", "t", metadata={"m": 1}) for _ in range(4)),
        *(store.threads.update("alice", "t", overrides={"o": 1}) for _ in range(4)),
    )
    kept = await store.threads.get("alice", "t")
    assert (kept.title, kept.metadata, kept.overrides) == ("T", {"m": 1}, {"o": 1})


# ---------------------------------------------------------------- clones


async def test_a_clone_is_a_thread_of_its_own(store: Store, clock: FakeClock) -> None:
    """Messages are copied under new ids, exactly; afterwards the two go separate ways."""
    await store.threads.create("alice", "t", title="T", metadata={"m": 1}, overrides={"o": 1})
    first = NewMessage(
        role="user",
        parts=(TextPart(text="a\x00b"),),
        id="m1",
        zone="Asia/Tokyo",
        speaker="Al",
        own=True,
        metadata={"k": 1},
    )
    await store.messages.save("alice", "t", [first, AssistantMessage("c", id="m2")])
    clock.advance(hours=1)
    clone = await store.threads.clone("alice", "t", "copy")
    assert (clone.title, clone.metadata, clone.overrides) == ("T", {"m": 1}, {"o": 1})
    assert (clone.cloned_from, clone.last_seq, clone.created_at) == ("t", 2, clock.now())
    originals = await store.messages.after("alice", "t")
    copies = await store.messages.after("alice", "copy")
    assert [copy.parts for copy in copies] == [original.parts for original in originals]
    for original, copy in zip(originals, copies, strict=True):
        assert copy.id != original.id
        for name in ("seq", "role", "created_at", "tokens", "zone", "speaker", "own", "metadata", "continuation"):
            assert getattr(copy, name) == getattr(original, name), name
    await store.messages.save("alice", "copy", UserMessage("only here"))
    assert (await store.threads.get("alice", "copy")).last_seq == 3
    assert (await store.threads.get("alice", "t")).last_seq == 2


async def test_a_clone_keeps_continuations_together(store: Store) -> None:
    """Rows of one message share one new id, and it goes on growing."""
    await store.messages.save("alice", "t", AssistantMessage(["a"], id="m"))
    await store.messages.save("alice", "t", UserMessage("between"))
    await store.messages.save("alice", "t", AssistantMessage(["a", "b"], id="m"))
    await store.threads.clone("alice", "t", "copy")
    rows = await store.messages.after("alice", "copy")
    assert [row.continuation for row in rows] == [0, 0, 1]
    assert rows[0].id == rows[2].id != "m"
    grown = await store.messages.save("alice", "copy", AssistantMessage(["a", "b", "c"], id=rows[0].id))
    assert [row.continuation for row in grown.messages] == [2]
    assert grown.messages[0].text == "c"


async def test_a_clone_keeps_tombstones(store: Store) -> None:
    """What was withdrawn or forgotten stays so, and keeps its number."""
    await store.messages.save("alice", "t", [UserMessage(name, id=name) for name in "abc"])
    await set_state(store, "a", "withdrawn")
    await set_state(store, "b", "forgotten")
    await store.threads.clone("alice", "t", "copy")
    page = await store.messages.page("alice", "copy")
    assert [(row.seq, row.state) for row in page.items] == [(1, "withdrawn"), (2, "forgotten"), (3, "live")]
    assert [row.text for row in await store.messages.after("alice", "copy")] == ["c"]


async def test_a_long_thread_is_cloned_whole(store: Store) -> None:
    """More rows than one batch of copying, in order."""
    many = counts(1001, 5003)
    await store.messages.save("alice", "t", [UserMessage(str(index)) for index in range(many)])
    clone = await store.threads.clone("alice", "t", "copy")
    assert clone.last_seq == many
    copies = await store.messages.after("alice", "copy")
    assert [copy.text for copy in copies] == [str(index) for index in range(many)]


async def test_a_clone_that_is_refused_leaves_nothing(store: Store) -> None:
    """An existing name, itself and a foreign thread are refused."""
    await store.messages.save("alice", "t", UserMessage("a"))
    await store.messages.save("alice", "other", UserMessage("b"))
    for name in ("other", "t"):
        with pytest.raises(ThreadExists):
            await store.threads.clone("alice", "t", name)
    with pytest.raises(ThreadNotFound):
        await store.threads.clone("bob", "t", "copy")
    assert await store.threads.count("alice") == 2
    assert await store.threads.count("bob") == 0
    assert await run_sql(store, "SELECT COUNT(*) FROM messages") == [(2,)]


async def test_a_thread_with_tombstones_and_compactions_can_be_forgotten(store: Store) -> None:
    """The guard that keeps forgotten rows unchanged does not prevent the deletion of their thread."""
    await store.messages.save("alice", "t", [UserMessage("a", id="a"), UserMessage("b", id="b")])
    pk = await thread_pk(store, "alice", "t")
    place = {"id": "c", "thread_pk": pk, "first_seq": 1, "last_seq": 2, "level": 1}
    made = await insert(store, "compactions", **place, created_at=1, summary="s", before="[]")
    await run_sql(store, "UPDATE messages SET compaction_pk = :c, level = 1 WHERE thread_pk = :pk", c=made, pk=pk)
    await set_state(store, "a", "withdrawn")
    await set_state(store, "b", "forgotten")
    await forget_thread(store, "t")
    assert await run_sql(store, "SELECT COUNT(*) FROM messages") == [(0,)]
