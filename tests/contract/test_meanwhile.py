"""What one process reads stays true until it has written what follows from it, whatever another does meanwhile.

On PostgreSQL alone: on SQLite nobody else writes as long as one does.
"""

from collections.abc import Sequence
from typing import Any

import pytest

from contract.meanwhile import RESOURCE, Race, Scribe
from contract.raw_sql import run_sql
from kit.engines import OpenStore, engines
from kit.talk import forget_thread, tasks_of
from memolog.core.config import Config
from memolog.core.message import AssistantMessage, UserMessage
from memolog.core.observation import Scope
from memolog.errors import NotFound
from memolog.search.embedding import unit
from memolog.search.search import SearchOptions, search_memory
from memolog.search.vectors import Vectors
from memolog.store import Store
from memolog.testing import FakeClock

engine_name = engines("postgres")


@pytest.fixture
async def race(open_a_store: OpenStore, monkeypatch: pytest.MonkeyPatch) -> Race:
    """Return two stores on the database of this test."""
    return Race(await open_a_store(), await open_a_store(), monkeypatch)


async def say(store: Store, thread: str, *texts: str) -> None:
    """Save some messages whose ids are what they say."""
    await store.messages.save(RESOURCE, thread, [UserMessage(text, id=text) for text in texts], turn=f"turn-{texts[0]}")


async def expect_whole(store: Store, thread: str, scope: Scope) -> None:
    """Expect that a log covers what its cursor says, and that the doctor finds nothing."""
    seen = await store.logs.snapshot(RESOURCE, thread, scope)
    covered = max((g.span.last for g in seen.groups if g.span and g.thread_pk == seen.thread.pk), default=0)
    assert covered == seen.cursor
    found = await store.doctor.examine(
        RESOURCE, count=lambda _: 5, redact=str, render=lambda group, _lines, _aliases: (group.text, group.tokens)
    )
    assert not [(one.finding.kind, one.finding.explanation) for one in found if one.finding.kind != "tokens"]


async def half_observed(store: Store, clock: FakeClock) -> Scribe:
    """Save four messages: two are in the log, the others wait to be activated; returns who does that."""
    scribe = Scribe(store, clock)
    await say(store, "t1", "a", "b")
    await scribe.observe("t1", "first")
    await scribe.activate("t1")
    await say(store, "t1", "c", "d")
    await scribe.observe("t1", "second")
    return scribe


# ---------------------------------------------------------------- copies of logs


@pytest.mark.parametrize("after", ["get_cursor", "groups_of_log"])
async def test_a_clone_is_of_one_moment(race: Race, clock: FakeClock, after: str) -> None:
    """Its log covers what its cursor says, also when the original's takes over more while it is copied."""
    scribe = await half_observed(race.other, clock)
    await race.run_well(race.one.threads.clone(RESOURCE, "t1", "t2"), after, scribe.activate("t1"))
    await expect_whole(race.other, "t1", "thread")
    await expect_whole(race.other, "t2", "thread")


@pytest.mark.parametrize("after", ["thread_logs", "groups_of_log"])
async def test_a_merge_is_of_one_moment(race: Race, clock: FakeClock, after: str) -> None:
    """The shared log covers what its cursor says, also when a thread's own log takes over more while it is merged."""
    scribe = await half_observed(race.other, clock)
    merge = race.one.copies.merge(RESOURCE)
    await race.run_well(merge, after, scribe.activate("t1"))
    await expect_whole(race.other, "t1", "resource")


# ---------------------------------------------------------------- lines that are corrected while they are forgotten


@pytest.mark.parametrize("what", ["message", "thread"])
async def test_what_is_forgotten_does_not_stay_in_a_correction(race: Race, clock: FakeClock, what: str) -> None:
    """Somebody corrects a line while the message that it comes from is forgotten: nothing of it stays."""
    scribe = Scribe(race.other, clock, "resource")
    await say(race.other, "t1", "a")
    await say(race.other, "t2", "b")
    for thread in ("t1", "t2"):
        await scribe.observe(thread, f"secret of {thread}")
        await scribe.activate(thread)
    (line,) = [line for line in await scribe.lines("t2") if line.text == "secret of t1"]
    await scribe.reflect("t2", "secrets of both")
    forget = (
        race.one.forgetting.message(RESOURCE, "a") if what == "message" else race.one.forgetting.thread(RESOURCE, "t1")
    )
    edit = race.other.line_edits.edit(RESOURCE, line.id, "the very secret of t1", tokens=3)
    forgotten, _ = await race.run(forget, "citing", edit)
    assert not isinstance(forgotten, BaseException), forgotten
    seen = await race.other.logs.snapshot(RESOURCE, "t2", "resource")
    assert not [group.text for group in seen.groups if "secret of t1" in group.text]
    texts = [row[0] for row in await run_sql(race.other, "SELECT text FROM observations WHERE state <> 'deleted'")]
    assert texts == ["secret of t2"] * 2


async def test_what_is_withdrawn_does_not_stay_in_a_correction(race: Race, clock: FakeClock) -> None:
    """A turn is taken back while somebody corrects a line about it: nothing of it stays."""
    scribe = Scribe(race.other, clock)
    await say(race.other, "t1", "a")
    await scribe.observe("t1", "the secret")
    await scribe.activate("t1")
    (line,) = await scribe.lines("t1")
    edit = race.one.line_edits.edit(RESOURCE, line.id, "the very secret", tokens=3)
    withdraw = race.other.withdrawals.withdraw(RESOURCE, "t1", "turn-a")
    _, withdrawn = await race.run(edit, "set_state", withdraw)
    assert not isinstance(withdrawn, BaseException), withdrawn
    assert not await scribe.lines("t1")
    seen = await race.other.logs.snapshot(RESOURCE, "t1", "thread")
    assert not [group.text for group in seen.groups if "secret" in group.text]


# ---------------------------------------------------------------- rows that go while others refer to them


async def test_a_thread_that_goes_is_in_nobodys_way(race: Race, clock: FakeClock) -> None:
    """Somebody else makes the shared log, with a place for each thread, while a thread is deleted."""
    await say(race.other, "t1", "a")
    await say(race.other, "t2", "b")
    snapshot = race.other.logs.snapshot(RESOURCE, "t2", "resource")
    deleted, seen = await race.run(forget_thread(race.one), "delete_thread", snapshot)
    assert deleted.messages == 1
    assert not isinstance(seen, BaseException), seen


# ---------------------------------------------------------------- the index


async def test_an_index_that_is_started_over_is_whole_again(race: Race) -> None:
    """A message is forgotten while another process indexes another thread: all of the rest can be found afterwards."""
    await say(race.other, "t1", "common words")
    await race.other.messages.save(RESOURCE, "t1", AssistantMessage("forgettable words", id="m"))
    await race.other.indexing.catch_up(RESOURCE, str)
    await say(race.other, "t2", "lasting words")
    forget = race.other.forgetting.message(RESOURCE, "m")
    await race.run_well(race.one.indexing.catch_up(RESOURCE, str), "add_doc", forget)
    await race.other.indexing.catch_up(RESOURCE, str)
    rows = await run_sql(
        race.other, "SELECT s.resource FROM search_docs d LEFT JOIN search_scopes s ON s.pk = d.scope_pk"
    )
    assert rows == [(RESOURCE,)] * 2


async def test_a_task_is_found_as_it_is(race: Race) -> None:
    """Two processes index a task, and it is edited between them: the slower one does not write what it was before."""
    task = await tasks_of(race.other, RESOURCE).create("paint the fence")

    async def indexing_and_editing() -> None:
        await race.other.indexing.catch_up(RESOURCE, str)
        await tasks_of(race.other, RESOURCE).edit(task.id, title="mend the roof")

    await race.run_well(race.one.indexing.catch_up(RESOURCE, str), "labels_of", indexing_and_editing())
    await race.other.indexing.catch_up(RESOURCE, str)
    ((terms,),) = await run_sql(race.other, "SELECT CAST(terms AS TEXT) FROM search_docs")
    assert "roof" in terms
    assert "fence" not in terms


# ---------------------------------------------------------------- vectors


@pytest.mark.parametrize("what", ["message", "thread", "resource"])
async def test_what_is_forgotten_is_not_in_the_queue_of_a_new_embedder(race: Race, what: str) -> None:
    """A text is forgotten while the queue of a new embedder is filled: it does not stay there, so it never gets a vector."""
    await say(race.other, "t1", "forgettable words", "lasting words")
    await race.other.indexing.catch_up(RESOURCE, str)
    vectors = Vectors(race.one.engine)
    embedder = await vectors.choose("new", 2)
    await race.run_well(vectors.batch(embedder, str, limit=9), "fill", _forgetting(race.other, what))
    await race.other.indexing.catch_up(RESOURCE, str)
    left = await run_sql(race.other, "SELECT doc FROM search_vector_queue")
    assert left == await run_sql(race.other, "SELECT doc FROM search_docs")
    batch = await vectors.batch(embedder, str, limit=9)
    assert [one.text for one in batch or ()] == (["lasting words"] if what == "message" else [])


@pytest.mark.parametrize("what", ["message", "thread", "resource"])
@pytest.mark.parametrize("after", ["read_embedder", "claim_wanted", "add_vector"])
async def test_what_is_forgotten_while_it_gets_its_vector_has_none(race: Race, what: str, after: str) -> None:
    """A text is forgotten in the middle of the transaction that stores its vector: the vector is not stored, or goes too."""
    await say(race.other, "t1", "forgettable words", "lasting words")
    await race.other.indexing.catch_up(RESOURCE, str)
    vectors = Vectors(race.one.engine)
    embedder = await vectors.choose("new", 2)
    batch = await vectors.batch(embedder, str, limit=9)
    assert batch is not None
    assert len(batch) == 2
    made = [(one, unit([1.0, 0.0])) for one in batch]
    await race.run_well(vectors.add(embedder, made), after, _forgetting(race.other, what))
    left = await run_sql(race.other, "SELECT place & 33554431 FROM search_vectors")
    assert [seq for (seq,) in left if seq == 1] == []


async def _forgetting(store: Store, what: str) -> None:
    """Forget one of two messages, or all of them."""
    match what:
        case "message":
            await store.forgetting.message(RESOURCE, "forgettable words")
        case "thread":
            await store.forgetting.thread(RESOURCE, "t1")
        case _:
            await store.forgetting.resource(RESOURCE)


# ---------------------------------------------------------------- tasks


async def test_what_is_edited_while_a_task_decays_is_kept(race: Race, clock: FakeClock) -> None:
    """A closed task is put away as it is, not as it was a moment before somebody edited it."""
    tasks = tasks_of(race.other, RESOURCE)
    task = await tasks.create("roof", description="old")
    await tasks.close(task.id, summary="done")
    clock.advance(days=31)
    edit = tasks.edit(task.id, description="new")
    await race.run(tasks_of(race.one, RESOURCE).decay(), "due_to_decay", edit, times=2)
    whole = await tasks.restore(task.id)
    assert whole.description == "new"


async def test_a_line_that_goes_with_its_thread_is_not_found(race: Race, clock: FakeClock) -> None:
    """Who corrects a line while its thread is deleted is told that there is no such line."""
    scribe = Scribe(race.other, clock)
    await say(race.other, "t1", "a")
    await scribe.observe("t1", "a line")
    await scribe.activate("t1")
    (line,) = await scribe.lines("t1")
    edit = race.other.line_edits.edit(RESOURCE, line.id, "another line", tokens=3)
    _, edited = await race.run(forget_thread(race.one), "delete_thread", edit)
    assert isinstance(edited, NotFound), edited


@pytest.mark.parametrize("engine_name", ["sqlite", "postgres"], indirect=True)
async def test_a_thread_that_goes_while_it_is_found_has_no_neighbours(
    open_a_store: OpenStore, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A search that shows what stands around a result is not broken off because somebody deletes its thread."""
    store = await open_a_store()
    await say(store, "t1", "the roof", "leaks")
    reading = store.searching.rows

    async def reading_and_deleting(resource: str, keys: Sequence[int]) -> Any:
        rows = await reading(resource, keys)
        await forget_thread(store)
        return rows

    monkeypatch.setattr(store.searching, "rows", reading_and_deleting)
    answer = await search_memory(store, Config(), "roof", RESOURCE, SearchOptions(context=1), clock.now())
    assert [(result.id, result.before, result.after) for result in answer.results] == [("the roof", (), ())]
