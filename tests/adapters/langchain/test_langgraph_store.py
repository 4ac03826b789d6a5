"""The store of LangGraph: the semantics of its own stores, items of resources, and the conversations found through it."""

import asyncio
from typing import Any

import pytest
from langgraph.config import get_store
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.store.base import GetOp, PutOp, SearchOp
from langgraph.store.memory import InMemoryStore

from adapters.langchain.scripted import told
from memolog import InputError, Memory, SyncMemory
from memolog.adapters.langgraph import MemologStore

FOODS: dict[str, dict[str, Any]] = {
    "a": {"text": "likes pizza", "stars": 5, "tags": ["food"], "of": {"kind": "like", "who": "alice"}},
    "b": {"text": "plays the piano", "stars": 3.5, "tags": [], "of": {"kind": "hobby"}},
    "c": {"text": "owns a piano from Leipzig", "stars": None},
}
FILTERS: list[dict[str, Any]] = [
    {},
    {"stars": 5},
    {"stars": {"$gte": 3.5}},
    {"stars": {"$gt": 3.5, "$lte": 5}},
    {"stars": {"$lt": 4}, "text": {"$ne": "x"}},
    {"stars": {"$eq": 3.5}},
    {"tags": ["food"]},
    {"of": {"kind": "like"}},
    {"missing": "x"},
]
PATHS = [("alice", "notes"), ("alice", "notes", "old"), ("alice", "diary", "old"), ("alice", "diary")]


async def test_it_answers_as_the_stores_of_langgraph_do(address: str) -> None:
    """The same operations on this store and on one of LangGraph give the same items, on each engine."""
    async with Memory(address) as memory:
        stores: list[Any] = [MemologStore(memory), InMemoryStore()]
        for store in stores:
            for path in PATHS:
                for key, value in FOODS.items():
                    await store.aput(path, key, value)
            await store.aput(PATHS[0], "a", {**FOODS["a"], "stars": 4})
            await store.adelete(PATHS[1], "b")
            await store.adelete(PATHS[1], "never there")
        ours, theirs = stores
        got = await ours.aget(PATHS[0], "a")
        assert (got.value, got.namespace, got.key) == ({**FOODS["a"], "stars": 4}, PATHS[0], "a")
        assert got.created_at < got.updated_at
        assert await ours.aget(PATHS[1], "b") is None
        for wanted in FILTERS:
            for prefix in (("alice",), *PATHS):
                # LangGraph compares a missing number with an error, so the item without one is left out of its answer.
                if "stars" not in wanted or not isinstance(wanted["stars"], dict) or "$eq" in wanted["stars"]:
                    expected = await theirs.asearch(prefix, filter=wanted, limit=100)
                    found = await ours.asearch(prefix, filter=wanted, limit=100)
                    assert _names(found) == _names(expected), wanted
        high = await ours.asearch(PATHS[0], filter={"stars": {"$gte": 3.5}})
        assert _names(high) == {(PATHS[0], "a"), (PATHS[0], "b"), (PATHS[1], "a")}
        with pytest.raises(ValueError, match="Unsupported operator"):
            await ours.asearch(PATHS[0], filter={"stars": {"$in": [1]}})
        for listing in (
            {},
            {"max_depth": 2},
            {"suffix": ("old",)},
            {"prefix": ("alice", "*", "old")},
            {"prefix": ("alice", "diary"), "limit": 1, "offset": 1},
        ):
            named = {"prefix": ("alice",), **listing}
            assert await ours.alist_namespaces(**named) == await theirs.alist_namespaces(**named), listing


def _names(items: list[Any]) -> set[tuple[Any, str]]:
    return {(item.namespace, item.key) for item in items}


async def test_a_query_finds_items_by_their_words() -> None:
    """Items with words of the query are first and have scores. Without a query the newest is first."""
    async with Memory(":memory:") as memory:
        store = MemologStore(memory, resource=1)
        for key, value in FOODS.items():
            await store.aput(("notes", "alice"), key, value)
        found = await store.asearch(("notes", "alice"), query="Who plays a piano?")
        assert [item.key for item in found] == ["b", "c", "a"]
        assert [item.score is not None for item in found] == [True, True, False]
        rest = await store.asearch(("notes", "alice"), query="Who plays a piano?", limit=1, offset=1)
        assert [item.key for item in rest] == ["c"]
        newest = await store.asearch(("notes", "alice"), limit=2)
        assert [item.key for item in newest] == ["c", "b"]
        by_filter = await store.asearch(("notes", "alice"), query="piano", filter={"stars": 3.5})
        assert [item.key for item in by_filter] == ["b"]


async def test_a_namespace_belongs_to_one_resource() -> None:
    """Items of another resource are never found, a namespace without its resource is refused, and forget deletes the items."""
    async with Memory(":memory:") as memory:
        store, one = MemologStore(memory), MemologStore(memory, resource="carol")
        await store.aput(("alice", "notes"), "k", {"text": "of alice"})
        await store.aput(("bob", "notes"), "k", {"text": "of bob"})
        await one.aput(("alice", "notes"), "k", {"text": "of carol"})
        assert [item.value for item in await store.asearch(("alice",))] == [{"text": "of alice"}]
        assert [item.value for item in await one.asearch(())] == [{"text": "of carol"}]
        assert await one.alist_namespaces() == [("alice", "notes")]
        for call in (store.asearch(()), store.alist_namespaces(), store.alist_namespaces(prefix=("*", "notes"))):
            with pytest.raises(InputError, match="does not name its resource"):
                await call
        assert (await memory.resource("alice").forget()).items == 1
        assert await store.aget(("alice", "notes"), "k") is None
        assert await store.aget(("bob", "notes"), "k") is not None


async def test_what_cannot_be_done_is_refused() -> None:
    """Expiry, wrong arguments and values that are not JSON are refused, and nothing is stored."""
    async with Memory(":memory:") as memory:
        store = MemologStore(memory)
        with pytest.raises(NotImplementedError, match="TTL is not supported"):
            await store.aput(("alice", "notes"), "k", {}, ttl=5)
        with pytest.raises(NotImplementedError, match="do not expire"):
            await store.abatch([PutOp(("alice", "notes"), "k", {}, ttl=5)])
        with pytest.raises(InputError, match="JSON"):
            await store.aput(("alice", "notes"), "k", {"when": object()})
        with pytest.raises(InputError, match="more than the limit"):
            await store.aput(("alice", *("ö" * 400 for _ in range(4))), "k", {})
        with pytest.raises(InputError, match="Nothing can be written there"):
            await store.aput(("alice", "conversations"), "k", {})
        with pytest.raises(InputError, match="position of a label"):
            MemologStore(memory, resource=-1)
        with pytest.raises(InputError, match="must be a Memory or a SyncMemory"):
            MemologStore("memolog.db")  # pyright: ignore[reportArgumentType]
        assert await store.asearch(("alice",)) == []


async def test_reads_of_a_batch_come_before_its_writes() -> None:
    """As in LangGraph's own stores. The writes of a resource are one transaction."""
    async with Memory(":memory:") as memory:
        store = MemologStore(memory)
        name = ("alice", "notes")
        results = await store.abatch(
            [PutOp(name, "k", {"n": 1}), GetOp(name, "k"), PutOp(name, "k", {"n": 2}), SearchOp(name)]
        )
        assert results == [None, None, None, []]
        assert (await store.aget(name, "k")).value == {"n": 2}  # pyright: ignore[reportOptionalMemberAccess]
        with pytest.raises(InputError):
            await store.abatch([PutOp(name, "k", {"n": 3}), PutOp(name, "bad", {"x": object()})])
        assert (await store.aget(name, "k")).value == {"n": 2}  # pyright: ignore[reportOptionalMemberAccess]
        await asyncio.gather(*(store.aput(name, f"k{n}", {"n": n}) for n in range(20)))
        assert len(await store.asearch(name, limit=100)) == 21


async def test_conversations_are_found_through_the_store() -> None:
    """Messages of all threads, or of one, are found by words and read by their id. A search of them needs a query."""
    async with Memory(":memory:") as memory:
        alice = memory.resource("alice")
        await alice.thread("t1").save({"role": "user", "content": "My dog is called Biscuit."})
        await alice.thread("t2").save({"role": "user", "content": "The dog next door is called Rex."})
        await memory.resource("bob").thread("t1").save({"role": "user", "content": "Bob's dog is Waldi."})
        store = MemologStore(memory)
        found = await store.asearch(("alice", "conversations"), query="what is the dog called?")
        assert {item.value["thread"] for item in found} == {"t1", "t2"}
        [one] = await store.asearch(("alice", "conversations", "t1"), query="dog", filter={"role": "user"})
        assert one.value["content"] == "My dog is called Biscuit."
        assert one.namespace == ("alice", "conversations", "t1")
        again = await store.aget(one.namespace, one.key)
        assert again is not None
        assert again.value["content"] == one.value["content"]
        assert await store.aget(("alice", "conversations"), "nothing") is None
        assert await store.asearch(("alice", "conversations", "t1"), query="dog", filter={"role": "tool"}) == []
        with pytest.raises(InputError, match="needs a query"):
            await store.asearch(("alice", "conversations"))
        off = MemologStore(memory, conversations=None)
        await off.aput(("alice", "conversations"), "k", {"text": "an item"})
        assert len(await off.asearch(("alice", "conversations"))) == 1


def test_a_graph_uses_it_without_await(tmp_path: Any) -> None:
    """A compiled graph hands the store to its nodes, and it has its items after a restart."""

    def node(state: MessagesState) -> Any:
        store = get_store()
        known = store.search(("alice", "facts"))
        store.put(("alice", "facts"), f"f{len(known)}", {"text": state["messages"][-1].content})
        return {"messages": [told(f"I know {len(known)} facts")]}

    def answer() -> str:
        with SyncMemory(str(tmp_path / "m.db")) as memory:
            builder = StateGraph(MessagesState)
            builder.add_node("node", node)
            builder.add_edge(START, "node")
            graph: Any = builder.compile(store=MemologStore(memory))
            return graph.invoke({"messages": [("user", "The sky is blue.")]})["messages"][-1].content

    assert [answer(), answer()] == ["I know 0 facts", "I know 1 facts"]


async def test_a_memory_without_a_loop_of_its_own_is_refused_in_a_synchronous_call() -> None:
    """The error says what to pass."""
    async with Memory(":memory:") as memory:
        with pytest.raises(InputError, match="SyncMemory"):
            MemologStore(memory).get(("alice", "notes"), "k")


async def test_items_are_exported_and_imported(tmp_path: Any) -> None:
    """An export contains the items, an import adds them, and a newer one that is stored stays."""
    async with Memory(":memory:") as first, Memory(":memory:") as second:
        name = ("alice", "notes")
        await MemologStore(first).aput(name, "k", {"text": "ä\u0000\ud800"})
        await first.export(tmp_path / "all.jsonl")
        await second.import_from(tmp_path / "all.jsonl")
        there = MemologStore(second)
        assert await there.aget(name, "k") == await MemologStore(first).aget(name, "k")
        await there.aput(name, "k", {"text": "newer"})
        await second.import_from(tmp_path / "all.jsonl")
        assert (await there.aget(name, "k")).value == {"text": "newer"}  # pyright: ignore[reportOptionalMemberAccess]
        assert await second.resources() == ("alice",)
        assert (await second.doctor()).is_healthy
