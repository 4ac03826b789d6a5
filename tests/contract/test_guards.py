"""What the schema itself refuses, whoever writes it: on every engine alike, with nothing half-done."""

import pytest

from contract.raw_sql import add_group, add_log, add_run, add_task, insert, run_sql, set_state, thread_pk
from memolog.core.message import UserMessage
from memolog.errors import StoreCorrupt
from memolog.store import Store
from memolog.testing import FakeClock


async def refuse(store: Store, text: str, **values: object) -> StoreCorrupt:
    """Check that a statement is refused and that the store still works; return the error."""
    before = await run_sql(store, "SELECT COUNT(*) FROM messages")
    with pytest.raises(StoreCorrupt) as caught:
        await run_sql(store, text, **values)
    assert "Nothing was saved by this call" in str(caught.value)
    assert await run_sql(store, "SELECT COUNT(*) FROM messages") == before
    return caught.value


@pytest.fixture
async def pk(store: Store) -> int:
    """Return the key of a thread with five messages, m1 to m5."""
    await store.messages.save("alice", "t", [UserMessage(f"text {index}", id=f"m{index}") for index in range(1, 6)])
    return await thread_pk(store, "alice", "t")


@pytest.fixture
async def log(store: Store, pk: int) -> int:
    """Return the key of the thread's log."""
    return await add_log(store, "alice", "log", thread=pk)


# ---------------------------------------------------------------- messages never change


@pytest.mark.parametrize(
    "change",
    [
        "parts = '[]'",
        "role = 'assistant'",
        "seq = 99",
        "id = 'other'",
        "continuation = 1",
        "tokens = tokens + 1",
        "created_at = created_at + 1",
        "own = 1",
        "parts = '[]', state = 'withdrawn'",
        "thread_pk = (SELECT pk FROM threads WHERE id = 'elsewhere')",
    ],
)
async def test_a_saved_message_never_changes(store: Store, pk: int, change: str) -> None:
    """Not its words, its place, its time, nor whose it is."""
    await store.threads.create("alice", "elsewhere")
    before = await store.messages.get("alice", "m1")
    error = await refuse(store, f"UPDATE messages SET {change} WHERE id = 'm1'")
    assert "messages never change" in str(error)
    assert await store.messages.get("alice", "m1") == before


async def test_what_may_change_about_a_message_does(store: Store, pk: int) -> None:
    """Compaction, a task and withdrawal set their own columns; pruning may take the parts."""
    task = await add_task(store, "alice", "k")
    await run_sql(store, "UPDATE messages SET level = 1, injection = 'i', search = 's' WHERE id = 'm1'")
    await run_sql(store, "UPDATE messages SET task_pk = :task WHERE id = 'm1'", task=task)
    await run_sql(store, "UPDATE messages SET pruned = 1, parts = '[]' WHERE id = 'm1'")
    await set_state(store, "m2", "withdrawn")
    first, second = (await store.messages.page("alice", "t", limit=2)).items
    assert (first.level, first.injection, first.search, first.task, first.parts) == (1, "i", "s", "k", ())
    assert (second.state, second.text) == ("withdrawn", "text 2")


@pytest.mark.parametrize(
    "change", ["state = 'live'", "state = 'withdrawn'", "parts = '[1]'", "injection = 'words'", "search = 'words'"]
)
async def test_what_is_forgotten_stays_forgotten(store: Store, pk: int, change: str) -> None:
    """No state and no words come back."""
    await set_state(store, "m1", "forgotten")
    await refuse(store, f"UPDATE messages SET {change} WHERE id = 'm1'")
    row = (await store.messages.get("alice", "m1"))[0]
    assert (row.state, row.parts, row.injection, row.search) == ("forgotten", (), None, None)


async def test_a_task_with_a_forgotten_message_can_be_deleted(store: Store, pk: int) -> None:
    """The guard does not stand in the way of what hangs on the row."""
    task = await add_task(store, "alice", "k")
    await run_sql(store, "UPDATE messages SET task_pk = :task WHERE id = 'm1'", task=task)
    await set_state(store, "m1", "forgotten")
    await run_sql(store, "DELETE FROM tasks WHERE pk = :task", task=task)
    row = (await store.messages.get("alice", "m1"))[0]
    assert (row.state, row.task) == ("forgotten", None)


# ---------------------------------------------------------------- numbers, cursors, runs


async def insert_message(store: Store, thread: int, seq: int, message_id: str, continuation: int = 0) -> None:
    """Enter a row past our own code."""
    place = {"thread_pk": thread, "seq": seq, "id": message_id, "continuation": continuation}
    await insert(store, "messages", **place, role="user", tokens=1, created_at=1, parts="[]")


async def test_a_number_is_given_once_in_a_thread(store: Store, pk: int) -> None:
    """Two rows never share a place, nor an id and a continuation; another thread is free to."""
    for seq, message_id in ((3, "new"), (6, "m3"), (0, "new"), (-1, "new"), (6, "")):
        with pytest.raises(StoreCorrupt):
            await insert_message(store, pk, seq, message_id)
    assert len(await store.messages.after("alice", "t")) == 5
    await store.threads.create("alice", "u")
    await insert_message(store, await thread_pk(store, "alice", "u"), 3, "m3")
    await insert_message(store, pk, 6, "m3", continuation=1)


async def test_the_sequence_never_goes_back(store: Store, pk: int) -> None:
    """A thread cannot give out a number again; a number that nobody has may be given back."""
    error = await refuse(store, "UPDATE threads SET last_seq = 4 WHERE pk = :pk", pk=pk)
    assert "sequence numbers never go back" in str(error)
    await run_sql(store, "UPDATE threads SET last_seq = 7 WHERE pk = :pk", pk=pk)
    await run_sql(store, "UPDATE threads SET last_seq = 5 WHERE pk = :pk", pk=pk)
    assert (await store.messages.save("alice", "t", UserMessage("next"))).messages[0].seq == 6


async def test_a_cursor_never_goes_back(store: Store, pk: int, log: int) -> None:
    """It stands or moves on."""
    await run_sql(store, "INSERT INTO cursors (log_pk, thread_pk, seq, alias) VALUES (:log, :pk, 3, 1)", log=log, pk=pk)
    for seq in (2, 0, -1):
        error = await refuse(store, "UPDATE cursors SET seq = :seq WHERE log_pk = :log", seq=seq, log=log)
        assert "cursors never go back" in str(error)
    for seq in (3, 5):
        await run_sql(store, "UPDATE cursors SET seq = :seq WHERE log_pk = :log", seq=seq, log=log)
    assert await run_sql(store, "SELECT seq FROM cursors") == [(5,)]


@pytest.mark.parametrize("ended", ["done", "abandoned"])
async def test_a_finished_run_stays_finished(store: Store, clock: FakeClock, pk: int, log: int, ended: str) -> None:
    """No other status, in either direction."""
    run = await add_run(store, log, "r", (pk, 1, 2), status=ended, at=clock.now())
    for status in {"running", "failed", "done", "abandoned"} - {ended}:
        error = await refuse(store, f"UPDATE runs SET status = '{status}' WHERE pk = :run", run=run)
        assert "a finished run stays finished" in str(error)
    await run_sql(store, f"UPDATE runs SET status = '{ended}', error = 'noted' WHERE pk = :run", run=run)
    assert await run_sql(store, "SELECT status, error FROM runs") == [(ended, "noted")]


async def test_a_failed_run_may_be_tried_again(store: Store, clock: FakeClock, pk: int, log: int) -> None:
    """Running and failed may follow each other; the end needs its time."""
    run = await add_run(store, log, "r", (pk, 1, 2), status="running", at=clock.now())
    for status in ("failed", "running", "running"):
        await run_sql(store, f"UPDATE runs SET status = '{status}' WHERE pk = :run", run=run)
    await refuse(store, "UPDATE runs SET status = 'done' WHERE pk = :run", run=run)
    await run_sql(store, "UPDATE runs SET status = 'done', finished_at = 1 WHERE pk = :run", run=run)


async def test_a_span_has_one_open_run(store: Store, clock: FakeClock, pk: int, log: int) -> None:
    """A second run over the same start is refused until the first has ended."""
    run = await add_run(store, log, "r1", (pk, 1, 2), status="running", at=clock.now())
    for status in ("running", "failed"):
        with pytest.raises(StoreCorrupt):
            await add_run(store, log, "r2", (pk, 1, 4), status=status, at=clock.now())
    await run_sql(store, "UPDATE runs SET status = 'abandoned', finished_at = 1 WHERE pk = :run", run=run)
    await add_run(store, log, "r2", (pk, 1, 4), status="running", at=clock.now())


@pytest.mark.parametrize("span", [(0, 1), (-1, 1), (3, 2), (None, 2), (1, None)])
async def test_a_span_runs_forward(
    store: Store, clock: FakeClock, pk: int, log: int, span: tuple[int | None, int | None]
) -> None:
    """A run and a group of an observer name where they begin and end, in this order."""
    first, last = span
    text = (
        "INSERT INTO runs (id, log_pk, kind, thread_pk, first_seq, last_seq, owner, lease_until, heartbeat_at, started_at) "
        "VALUES ('r', :log, 'observe', :pk, :first, :last, 'w', 1, 1, 1)"
    )
    await refuse(store, text, log=log, pk=pk, first=first, last=last)
    text = (
        "INSERT INTO groups (id, log_pk, handle, kind, thread_pk, first_seq, last_seq, tokens, created_at, text) "
        "VALUES ('g', :log, 'g', 'observer', :pk, :first, :last, 1, 1, 'x')"
    )
    await refuse(store, text, log=log, pk=pk, first=first, last=last)


# ---------------------------------------------------------------- groups and generations


@pytest.mark.parametrize("span", [(1, 1), (1, 2), (1, 5), (2, 2)])
async def test_groups_do_not_begin_or_end_together(store: Store, pk: int, log: int, span: tuple[int, int]) -> None:
    """A second group from the same first, or to the same last, message is refused; a void one is not in the way."""
    await add_group(store, log, "g1", (pk, 1, 2))
    with pytest.raises(StoreCorrupt):
        await add_group(store, log, "g2", (pk, *span))
    with pytest.raises(StoreCorrupt):
        await add_group(store, log, "g2", (pk, *span), state="buffered")
    await add_group(store, log, "g2", (pk, *span), state="void")
    await add_group(store, log, "g3", (pk, 3, 4))
    assert await run_sql(store, "SELECT COUNT(*) FROM groups") == [(3,)]


async def test_a_voided_group_makes_room(store: Store, pk: int, log: int) -> None:
    """Once it is void, its span is free; it cannot come back beside the new one."""
    await add_group(store, log, "g1", (pk, 1, 2))
    await run_sql(store, "UPDATE groups SET state = 'void' WHERE id = 'g1'")
    await add_group(store, log, "g2", (pk, 1, 3))
    await refuse(store, "UPDATE groups SET state = 'active' WHERE id = 'g1'")


# ---------------------------------------------------------------- what hangs on what


async def test_nothing_hangs_in_the_air(store: Store, clock: FakeClock, pk: int, log: int) -> None:
    """A row that names a thread, a group's generation or a message needs them to be there."""
    entry = "INSERT INTO log_entries (log_pk, generation, position, group_pk, added_at) VALUES (:log, 7, 1, :g, 1)"
    await refuse(store, entry, log=log, g=await add_group(store, log, "g", (pk, 1, 2)))
    task = await add_task(store, "alice", "k")
    link = "INSERT INTO task_messages (task_pk, thread_pk, seq, kind) VALUES (:task, :pk, :seq, 'output')"
    await refuse(store, link, task=task, pk=pk, seq=99)
    await run_sql(store, link, task=task, pk=pk, seq=5)
    with pytest.raises(StoreCorrupt):
        await insert_message(store, 999, 1, "x")
    with pytest.raises(StoreCorrupt):
        await add_run(store, log, "r", (999, 1, 2), status="running", at=clock.now())


@pytest.mark.parametrize(
    "text",
    [
        # Two cursors of one thread, two threads under one alias, two groups under one handle, one generation twice, two logs.
        "INSERT INTO cursors (log_pk, thread_pk, seq, alias) SELECT l.pk, l.thread_pk, 1, m.seq FROM logs l, messages m",
        "INSERT INTO cursors (log_pk, thread_pk, seq, alias) SELECT l.pk, t.pk, 1, 1 FROM logs l, threads t",
        (
            "INSERT INTO groups (id, log_pk, handle, kind, tokens, created_at, text) "
            "SELECT m.id, l.pk, 'g1', 'reflection', 1, 1, 'x' FROM logs l, messages m"
        ),
        "INSERT INTO generations (log_pk, number, kind, created_at) SELECT l.pk, 1, 'start', 1 FROM logs l, messages m",
        "INSERT INTO generations (log_pk, number, kind, created_at) SELECT pk, -1, 'start', 1 FROM logs",
        "INSERT INTO logs (id, resource, thread_pk, created_at) SELECT 'second', resource, thread_pk, 1 FROM logs",
        "INSERT INTO logs (id, resource, created_at) VALUES ('shared', 'alice', 1), ('shared too', 'alice', 1)",
        "UPDATE messages SET task_pk = 999 WHERE id = 'm1'",
        "UPDATE messages SET compaction_pk = 999 WHERE id = 'm1'",
        "UPDATE threads SET active_task_pk = 999",
        "INSERT INTO cursors (log_pk, thread_pk, seq, alias) SELECT 999, pk, 1, 1 FROM threads",
        "INSERT INTO generations (log_pk, number, kind, created_at) VALUES (999, 1, 'start', 1)",
        "INSERT INTO usage (resource, thread_pk, kind, model, at) VALUES ('alice', 999, 'turn', 'm', 1)",
        "UPDATE messages SET state = 'forgotten' WHERE id = 'm1'",
        "UPDATE messages SET state = 'gone'",
        "UPDATE messages SET level = 3",
        "UPDATE messages SET pruned = 2",
        "UPDATE threads SET last_seq = -1",
        "INSERT INTO threads (resource, id, created_at, updated_at) VALUES ('', 'x', 1, 1)",
        "INSERT INTO threads (resource, id, created_at, updated_at) VALUES ('alice', '', 1, 1)",
        "INSERT INTO threads (resource, id, created_at, updated_at) VALUES ('alice', 't', 1, 1)",
        "INSERT INTO threads (resource, id, created_at) VALUES ('alice', 'x', 1)",
        "INSERT INTO leases (resource, name, fence, expires_at) VALUES ('alice', 'x', 0, 1)",
        "INSERT INTO usage (resource, kind, model, at) VALUES ('alice', 'gift', 'm', 1)",
        "INSERT INTO usage (resource, kind, model, at, cost) VALUES ('alice', 'turn', 'm', 1, -1)",
        "INSERT INTO calibrations (resource, model, factor, samples) VALUES ('alice', 'm', 0, 1)",
        "INSERT INTO working_memory (resource, format, version) VALUES ('alice', 'yaml', 1)",
        "UPDATE tasks SET status = 'closed'",
        "UPDATE tasks SET status = 'closed', closed_at = 1",
        "UPDATE tasks SET priority = 5",
        "INSERT INTO task_links (source_pk, target_pk, kind, created_at) SELECT pk, pk, 'blocks', 1 FROM tasks",
    ],
)
@pytest.mark.usefixtures("log")
async def test_a_column_holds_only_what_it_may(store: Store, text: str) -> None:
    """The schema knows the states, the ranges, what is unique, what must not be empty and what must be there.

    What is called forgotten must not hold its parts any more.
    """
    await add_task(store, "alice", "k")
    await store.threads.create("alice", "elsewhere")
    await refuse(store, text)
    assert [row.state for row in await store.messages.after("alice", "t")] == ["live"] * 5
