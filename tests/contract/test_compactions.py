"""Compactions in the store, on every engine: raw never changes, the other texts come back byte for byte."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from contract.raw_sql import add_group, add_log, add_task, insert, run_sql, set_state, thread_pk
from memolog.compaction.store import RowTexts
from memolog.core.exact_json import loads
from memolog.core.message import AssistantMessage, UserMessage
from memolog.core.observation import Span
from memolog.core.reports import Compaction
from memolog.errors import Conflict, InputError, NotFound, StoreError
from memolog.store import Store
from memolog.testing import FakeClock

COLUMNS = (
    "SELECT seq, id, role, tokens, state, level, pruned, injection, search, parts FROM messages ORDER BY thread_pk, seq"
)
ODD = "\x01 and \x00 and \ud800 and '; --"


async def fill(store: Store, count: int = 12, thread: str = "t") -> None:
    """Save that many messages."""
    await store.messages.save("alice", thread, [UserMessage(f"message {n}", id=f"m{n}") for n in range(1, count + 1)])


def texts(*seqs: int) -> list[RowTexts]:
    """Return texts for some messages."""
    return [RowTexts(seq=seq, search=f"search {seq} {ODD}", brief=f"brief {seq} {ODD}") for seq in seqs]


async def compact(store: Store, seqs: Sequence[int], summary: str = f"in short {ODD}", thread: str = "t") -> Compaction:
    """Compact some messages."""
    return await store.compactions.compact("alice", thread, texts(*seqs), summary=summary, now=store.clock.now())


async def rows(store: Store) -> list[tuple[Any, ...]]:
    """Return the columns of every message."""
    return await run_sql(store, COLUMNS)


async def test_a_batch_has_one_summary_and_raw_stays(store: Store) -> None:
    """The two derived texts change, the parts and the counts do not."""
    await fill(store)
    before = await store.messages.after("alice", "t")
    made = await compact(store, range(1, 6))
    assert (made.span, made.level, made.messages) == (Span(first=1, last=5), 1, 5)
    after = await store.messages.after("alice", "t")
    assert [m.parts for m in after] == [m.parts for m in before]
    assert [m.tokens for m in after] == [m.tokens for m in before]
    assert [m.level for m in after] == [1] * 5 + [0] * 7
    assert {m.injection for m in after[:5]} == {f"in short {ODD}"}
    assert [m.search for m in after[:5]] == [f"search {n} {ODD}" for n in range(1, 6)]
    assert await store.compactions.list("alice", "t") == (made,)


async def test_restore_is_byte_exact_at_either_level(store: Store, clock: FakeClock) -> None:
    """Every column of every message is as it was, also what another index had written before."""
    await fill(store)
    await run_sql(store, "UPDATE messages SET search = 'older words' WHERE seq = 2")
    before = await rows(store)
    for keep in (1_000, 0):
        made = await compact(store, range(1, 9))
        deepened = await store.compactions.deepen("alice", "t", keep=keep)
        assert deepened == (8 if keep == 0 else 0)
        assert await rows(store) != before
        clock.advance(minutes=1)
        restored = await store.compactions.restore("alice", "t", made.id, now=clock.now())
        assert restored.restored_at == clock.now()
        assert await rows(store) == before
        # Once more changes nothing.
        assert await store.compactions.restore("alice", "t", made.id, now=clock.now()) == restored
        assert await rows(store) == before


async def test_depth_leaves_the_summary_alone(store: Store) -> None:
    """At the second level only the brief is indexed; what a context shows stays."""
    await fill(store, 30)
    await compact(store, range(1, 11))
    await compact(store, range(11, 21), "the second")
    assert await store.compactions.deepen("alice", "t", keep=20) == 10
    assert await store.compactions.deepen("alice", "t", keep=20) == 0
    after = await store.messages.after("alice", "t")
    assert [m.level for m in after] == [2] * 10 + [1] * 10 + [0] * 10
    assert after[0].search == f"brief 1 {ODD}"
    assert after[0].injection == f"in short {ODD}"
    assert [c.level for c in await store.compactions.list("alice", "t")] == [2, 1]


async def test_what_has_changed_is_refused(store: Store) -> None:
    """Compacted already, withdrawn, missing, or with a message between that nobody summed up: nothing is changed."""
    await fill(store)
    await compact(store, [1, 2, 3])
    await set_state(store, "m5", "withdrawn")
    await set_state(store, "m6", "forgotten")
    before = await rows(store)
    for seqs in ([3, 4], [4, 5], [5, 6], [11, 12, 13], [7, 9]):
        with pytest.raises(Conflict):
            await compact(store, seqs)
    for given, summary in ((texts(), "x"), (texts(7), " ")):
        with pytest.raises(InputError):
            await store.compactions.compact("alice", "t", given, summary=summary, now=store.clock.now())
    assert await rows(store) == before
    # Tombstones between are no hindrance, and stay what they are.
    await compact(store, [4, 7])
    assert [row[5] for row in await rows(store)][:7] == [1, 1, 1, 1, 0, 0, 1]


async def test_candidates_are_what_may_be_compacted(store: Store, clock: FakeClock) -> None:
    """Compacted messages are none, restored ones only when asked for again."""
    await fill(store)
    made = await compact(store, [1, 2, 3])
    await compact(store, [7, 8])
    found = await store.compactions.candidates("alice", "t")
    assert [(c.message.seq, c.is_free) for c in found] == [(n, n not in {7, 8}) for n in range(4, 13)]
    assert [c.message.seq for c in await store.compactions.candidates("alice", "t", after=6, limit=2)] == [9, 10]
    assert await store.compactions.due("alice", "t", keep=2) == (8, 2)
    assert await store.compactions.due("alice", "t", keep=20) == (8, 0)
    assert await store.compactions.due("alice", "none", keep=2) == (0, 0)
    await store.compactions.restore("alice", "t", made.id, now=clock.now())
    assert (await store.compactions.candidates("alice", "t"))[0].message.seq == 4
    assert (await store.compactions.candidates("alice", "t", again=True))[0].message.seq == 1
    again = await compact(store, [1, 2, 3], "anew")
    assert [c.id for c in await store.compactions.list("alice", "t")][:2] == [made.id, again.id]


async def test_a_foreign_or_missing_compaction_is_not_found(store: Store, clock: FakeClock) -> None:
    """The answer is the same, and nothing is restored."""
    await fill(store)
    made = await compact(store, [1, 2])
    await fill(store, 2, "other")
    before = await rows(store)
    for resource, thread, name in (("alice", "other", made.id), ("alice", "t", "none"), ("bob", "t", made.id)):
        with pytest.raises(NotFound):
            await store.compactions.restore(resource, thread, name, now=clock.now())
    assert await rows(store) == before


async def test_what_is_withdrawn_takes_the_summary_with_it(store: Store, clock: FakeClock) -> None:
    """A summary may speak of what was taken back: its batch comes back whole, and the summary is gone."""
    await fill(store, 4)
    await store.messages.save("alice", "t", [UserMessage("secret", id="s")], turn="guarded")
    await compact(store, [3, 4, 5], "someone said a secret")
    await store.withdrawals.withdraw("alice", "t", "guarded")
    assert await store.compactions.list("alice", "t") == ()
    assert "secret" not in repr([row[7:9] for row in await rows(store)])
    assert [m.level for m in await store.messages.after("alice", "t")] == [0, 0, 0, 0]


async def test_a_clone_has_its_own_compactions(store: Store, clock: FakeClock) -> None:
    """The copy is compacted like the original, and each is restored by itself."""
    await fill(store)
    raw = await store.messages.after("alice", "t")
    made = await compact(store, range(1, 6))
    await store.threads.clone("alice", "t", "copy")
    [copied] = await store.compactions.list("alice", "copy")
    assert (copied.span, copied.summary, copied.id != made.id) == (made.span, made.summary, True)
    await store.compactions.restore("alice", "copy", copied.id, now=clock.now())
    restored = await store.messages.after("alice", "copy")
    assert [(m.level, m.injection, m.search) for m in restored] == [(0, None, None)] * len(restored)
    assert [m.parts for m in restored] == [m.parts for m in raw]
    assert (await store.messages.after("alice", "t"))[0].level == 1


async def test_what_the_log_says_about_a_span(store: Store) -> None:
    """Lines that cite the span are found with their group; deleted ones and other logs' are not."""
    await fill(store)
    pk = await thread_pk(store, "alice", "t")
    log = await add_log(store, "alice", "log", thread=pk)
    group = await add_group(store, log, "g1", (pk, 1, 6))
    for number, state in ((1, "active"), (2, "deleted"), (3, "superseded")):
        named = {"id": f"o{number}", "group_pk": group, "ordinal": number, "state": state}
        made = await insert(store, "observations", **named, priority="high", text=f"line {number}")
        for first in (number, number + 4):
            values = f"({made}, {pk}, {first}, {first + 1})"
            await run_sql(store, f"INSERT INTO observation_sources VALUES {values}")
    found = await store.compactions.noted("alice", "t", Span(first=2, last=6))
    assert [(n.id, n.seqs, n.handle) for n in found] == [("o1", (2, 5, 6), "g1"), ("o3", (3, 4), "g1")]
    assert await store.compactions.noted("alice", "t", Span(first=2, last=6), shared=True) == ()


# ---------------------------------------------------------------- pruning


async def prepare_pruning(store: Store, clock: FakeClock) -> int:
    """Save eight messages, compact seven, observe six; the last two are young."""
    start = clock.now()
    clock.time = start - timedelta(days=31)
    await fill(store, 6)
    clock.time = start
    await store.messages.save("alice", "t", [AssistantMessage("young", id="m7"), UserMessage("younger", id="m8")])
    pk = await thread_pk(store, "alice", "t")
    log = await add_log(store, "alice", "log", thread=pk)
    await add_group(store, log, "g1", (pk, 1, 5))
    await run_sql(store, "UPDATE groups SET observations = 2")
    await compact(store, [*range(1, 5), 5, 6, 7])
    return pk


async def test_pruning_refuses_what_it_must(store: Store, clock: FakeClock) -> None:
    """Young, not observed, of an open task, not compacted: each keeps its text and is counted."""
    pk = await prepare_pruning(store, clock)
    task = await add_task(store, "alice", "open")
    linked = await add_task(store, "alice", "linked")
    await run_sql(store, "UPDATE messages SET task_pk = :task WHERE seq = 2", task=task)
    await run_sql(store, "INSERT INTO task_messages VALUES (:task, :thread, 3, 'reference')", task=linked, thread=pk)
    pruned = await store.compactions.prune("alice", "t", days=30, now=clock.now(), left=str.upper)
    counted = (pruned.messages, pruned.young, pruned.not_observed, pruned.open_task, pruned.not_compacted)
    assert counted == (3, 2, 1, 2, 0)
    after = await store.messages.after("alice", "t")
    assert [m.seq for m in after if m.pruned] == [1, 4, 5]
    assert all(not m.parts for m in after if m.pruned)
    assert all(m.parts for m in after if not m.pruned)
    assert {m.injection for m in after if m.pruned} == {f"in short {ODD}"}
    for name in ("open", "linked"):
        await run_sql(
            store,
            "UPDATE tasks SET status = 'closed', closed_at = 1, close_reason = 'completed' WHERE id = :id",
            id=name,
        )
    assert (await store.compactions.prune("alice", "t", days=30, now=clock.now(), left=str.upper)).messages == 2
    clock.advance(days=365)
    last = await store.compactions.prune("alice", "t", days=30, now=clock.now(), left=str.upper)
    assert (last.messages, last.not_observed) == (0, 3)


async def test_what_is_indexed_of_a_pruned_message_is_reduced(store: Store, clock: FakeClock) -> None:
    """In the row, in what its batch keeps for the second level and for a restore, and in older batches over it."""
    await prepare_pruning(store, clock)
    [made] = await store.compactions.list("alice", "t")
    await store.compactions.restore("alice", "t", made.id, now=clock.now())
    await run_sql(store, "UPDATE messages SET search = 'older words' WHERE seq = 2")
    await compact(store, [1, 2, 3, 4, 5, 6, 7])
    await store.compactions.prune("alice", "t", days=30, now=clock.now(), left=lambda text: f"of {text[-9:-8]}")
    after = await store.messages.after("alice", "t")
    reduced = [m.search for m in after if m.pruned]
    assert reduced == [f"of {f'search {n} {ODD}'[-9:-8]}" for n in range(1, 6)]
    assert [m.search for m in after[5:7]] == [f"search {n} {ODD}" for n in (6, 7)]
    for (before,) in await run_sql(store, "SELECT before FROM compactions"):
        kept = {old["seq"]: old for old in loads(before)}
        assert all("brief" not in kept[seq]["brief"] for seq in range(1, 6))
        assert all("brief" in kept[seq]["brief"] for seq in (6, 7))
        assert "older words" not in before
    assert await store.compactions.deepen("alice", "t", keep=0) == 7
    deep = await store.messages.after("alice", "t")
    assert not any("brief" in (m.search or "") for m in deep if m.pruned)


async def test_what_is_pruned_stays_away(store: Store, clock: FakeClock) -> None:
    """Neither saving it again nor a restore nor a withdrawal brings half a message back."""
    await prepare_pruning(store, clock)
    await store.compactions.prune("alice", "t", days=30, now=clock.now(), left=str.upper)
    before = await rows(store)
    saved = await store.messages.save("alice", "t", UserMessage("message 1", id="m1"))
    assert saved.added == 0
    [made] = await store.compactions.list("alice", "t")
    with pytest.raises(InputError, match="pruned"):
        await store.compactions.restore("alice", "t", made.id, now=clock.now())
    assert await rows(store) == before
    with pytest.raises(StoreError):
        await run_sql(store, "UPDATE messages SET parts = '[1]', pruned = 0 WHERE seq = 1")
    assert await rows(store) == before
