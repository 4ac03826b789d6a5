"""What every engine does with tasks: create, link, claim, close, decay, and what is told about them."""

import asyncio
from datetime import datetime, timedelta
from typing import Any

import pytest

from contract.raw_sql import lease_of, run_sql
from kit.effort import counts
from kit.engines import OpenStore
from kit.talk import tasks_of
from memolog.core.message import UserMessage
from memolog.core.observation import Span
from memolog.core.run import Usage
from memolog.errors import (
    InputError,
    MessageNotFound,
    TaskBlocked,
    TaskChanged,
    TaskCycle,
    TaskHeld,
    TaskMoveRefused,
    TaskNotFound,
)
from memolog.store import Store
from memolog.tasks.calls import Tasks
from memolog.tasks.task import Claimed, Closed, LinkKind, Task
from memolog.testing import FakeClock

R = "alice"
HOUR = timedelta(hours=1)
AN_HOUR = HOUR.total_seconds()
ODD = "odd \x00 text with \ud800 a lone half, 日本語 and ✅\n\nlines "


def tasks(store: Store, session: str = "s1", who: str = "me") -> Tasks:
    """Return the tasks of alice for a session."""
    return tasks_of(store, R, session=session, who=who)


async def create(store: Store, title: str, **more: Any) -> Task:
    """Create a task."""
    return await tasks(store).create(title, **more)


async def claim(store: Store, task: str, session: str = "s1", lease: float = AN_HOUR, **more: Any) -> Claimed:
    """Claim a task."""
    return await tasks(store, session, who=session).claim(task, lease=lease, **more)


async def close(store: Store, task: str, session: str = "s1", **more: Any) -> Closed:
    """Close a task."""
    given: dict[str, Any] = {"reason": "completed", "summary": "It is done.", **more}
    return await tasks(store, session).close(task, **given)


async def link(store: Store, source: str, target: str, kind: LinkKind = "blocks") -> Task:
    """Link two tasks."""
    return await tasks(store).link(source, target, kind)


async def ready(store: Store, **more: Any) -> list[str]:
    """Return the handles of what is ready, in order."""
    return [item.task.handle for item in (await tasks(store).ready(**more)).items]


# ---------------------------------------------------------------- creating and changing


async def test_a_task_comes_back_as_it_was_made(store: Store, clock: FakeClock) -> None:
    """Every field is kept, odd text too, and a task is found by its id and by any spelling of its handle."""
    made = await create(
        store,
        f"Title {ODD}",
        description=ODD,
        priority=0,
        type="bug",
        assignee="tom",
        labels=frozenset({"auth", "日本"}),
        defer_until=clock.now() + HOUR,
        due=clock.now() + 2 * HOUR,
        metadata={"k": [1, None, ODD]},
        id="my id",
    )
    assert (made.title, made.description, made.metadata) == (f"Title {ODD}", ODD, {"k": [1, None, ODD]})
    assert (made.priority, made.type, made.assignee, made.labels) == (0, "bug", "tom", {"auth", "日本"})
    assert (made.handle, made.status, made.version, made.level) == ("T-1", "open", 1, 0)
    assert made.due == clock.now() + 2 * HOUR
    for name in ("my id", "T-1", "t-1", "t1", "#1", "1", " T-01 "):
        assert await tasks(store).get(name) == made
    assert await tasks(store).find("title x") == ()
    with pytest.raises(TaskNotFound):
        await tasks(store).get("T-2")
    with pytest.raises(InputError, match="exists already"):
        await create(store, "again", id="my id")
    assert (await create(store, "next")).handle == "T-2"


@pytest.mark.parametrize(
    "wrong",
    [
        {"title": ""},
        {"title": "  "},
        {"title": "x" * 501},
        {"priority": 5},
        {"priority": -1},
        {"priority": True},
        {"type": "story"},
        {"due": datetime(2026, 1, 1)},  # noqa: DTZ001 - the point
        {"labels": frozenset({""})},
        {"metadata": {"a": {1, 2}}},
        {"assignee": ""},
        {"description": "x" * 1_000_001},
        {"parent": "T-77"},
        {"blocked_by": ("nobody",)},
    ],
    ids=str,
)
async def test_what_is_no_task_is_refused(store: Store, wrong: dict[str, Any]) -> None:
    """A value that a task cannot have leaves nothing behind, not even a handle that links to nothing."""
    with pytest.raises((InputError, TaskNotFound)) as caught:
        await create(store, **{"title": "good", **wrong})
    assert caught.value.then
    assert (await tasks(store).list()).items == ()


async def test_editing(store: Store, clock: FakeClock) -> None:
    """What is given changes, the rest stays; a version that is not the present one is a conflict; history tells it."""
    made = await create(store, "Old", description="words")
    clock.advance(minutes=1)
    eve = tasks(store, who="eve")
    edited = await eve.edit("T-1", title="New", due=clock.now(), version=1)
    assert (edited.title, edited.description, edited.version) == ("New", "words", 2)
    assert edited.updated_at == clock.now() > made.updated_at
    with pytest.raises(TaskChanged) as caught:
        await eve.edit("T-1", title="Late", version=1)
    assert caught.value.retryable
    same = await eve.edit("T-1", title="New")
    assert same == edited
    history = (await tasks(store).history("T-1")).items
    assert [(change.what, change.who) for change in history] == [("created", "me"), ("edited", "eve")]
    assert history[1].details["fields"]["title"] == ["Old", "New"]
    assert history[1].at == clock.now()


async def test_many_editors_lose_no_change(store: Store) -> None:
    """Editors that name what they read either win or are told; every win is one version."""
    await create(store, "Counter", metadata={"n": 0})

    async def add_one() -> None:
        while True:
            task = await tasks(store).get("T-1")
            try:
                metadata = {"n": task.metadata["n"] + 1}
                await tasks(store).edit("T-1", metadata=metadata, version=task.version)
            except TaskChanged:
                continue
            return

    many = counts(16, 60)
    await asyncio.gather(*(add_one() for _ in range(many)))
    task = await tasks(store).get("T-1")
    assert (task.metadata["n"], task.version) == (many, many + 1)


async def test_labels(store: Store) -> None:
    """Labels are added and removed, each once, and lists can ask for all of several."""
    await create(store, "a", labels=frozenset({"x"}))
    await create(store, "b", labels=frozenset({"x", "y"}))
    assert (await tasks(store).label("T-1", add=["y", "z"], remove=["x", "nothing"])).labels == {"y", "z"}
    both = await tasks(store).list(labels=("x", "y"))
    assert [task.handle for task in both.items] == ["T-2"]
    assert await ready(store, labels=("y",)) == ["T-1", "T-2"]
    changes = (await tasks(store).history("T-1")).items
    assert changes[-1].details == {"added": ["y", "z"], "removed": ["x"]}


async def test_fields_and_labels_change_together(store: Store) -> None:
    """One change of the version for both; if a label is refused, no field changes; the labels replace those of now."""
    await create(store, "a", labels=["x", "y"])
    edited = await tasks(store).edit("T-1", title="b", labels=["y", "z"], version=1)
    assert (edited.title, edited.labels, edited.version) == ("b", {"y", "z"}, 2)
    both = (await tasks(store).history("T-1")).items[-2:]
    assert [change.what for change in both] == ["edited", "labelled"]
    assert both[1].details == {"added": ["z"], "removed": ["x"]}
    assert (await tasks(store).edit("T-1", title="b", labels=["z", "y"])).version == 2
    refused: list[dict[str, Any]] = [{"labels": [""]}, {"add_labels": [""]}, {"labels": ["w"], "version": 1}]
    for wrong in refused:
        with pytest.raises((InputError, TaskChanged)):
            await tasks(store).edit("T-1", title="c", **wrong)
    moved = await tasks(store).edit("T-1", priority=0, add_labels=["w", "y"], remove_labels=["z"])
    assert (moved.title, moved.priority, moved.labels, moved.version) == ("b", 0, {"w", "y"}, 3)
    assert (await tasks(store).edit("T-1", labels=[])).labels == frozenset()


# ---------------------------------------------------------------- links


async def test_links_are_shown_from_both_ends(store: Store) -> None:
    """Each kind of link has its two sides; being related has only one."""
    for title in ("hub", "blocker", "blocked", "parent", "child", "friend", "origin", "found"):
        await create(store, title)
    for source, target, kind in (
        ("T-2", "T-1", "blocks"),
        ("T-1", "T-3", "blocks"),
        ("T-4", "T-1", "parent-child"),
        ("T-1", "T-5", "parent-child"),
        ("T-1", "T-6", "related"),
        ("T-7", "T-1", "discovered-from"),
        ("T-1", "T-8", "discovered-from"),
    ):
        await link(store, source, target, kind)  # pyright: ignore[reportArgumentType]
    await link(store, "T-6", "T-1", "related")
    view = await tasks(store).show("T-1")
    sides = (view.blocked_by, view.blocks, view.parents, view.children, view.related)
    assert [[ref.handle for ref in side] for side in sides] == [["T-2"], ["T-3"], ["T-4"], ["T-5"], ["T-6"]]
    assert [ref.handle for ref in view.discovered_from] == ["T-7"]
    assert [ref.handle for ref in view.discovered] == ["T-8"]
    assert len(await run_sql(store, "SELECT 1 FROM task_links")) == 7
    await tasks(store).unlink("T-6", "T-1", "related")
    assert (await tasks(store).show("T-1")).related == ()


async def test_a_circle_is_refused_and_shown(store: Store) -> None:
    """Blocking and parents together have no circle: a child cannot block its own ancestor. Nothing changes."""
    await create(store, "epic")
    await create(store, "feature", parent="T-1")
    await create(store, "task", parent="T-2")
    await create(store, "later", blocked_by=("T-3",))
    with pytest.raises(TaskCycle) as caught:
        await link(store, "T-4", "T-1", "blocks")
    assert caught.value.path == ("T-4", "T-1", "T-2", "T-3", "T-4")
    assert "T-4 → T-1 → T-2 → T-3 → T-4" in str(caught.value)
    with pytest.raises(InputError, match="itself"):
        await link(store, "T-1", "T-1")
    with pytest.raises(TaskCycle):
        await create(store, "both", blocked_by=("T-4",), blocks=("T-1",))
    assert len(await run_sql(store, "SELECT 1 FROM task_links")) == 3
    assert len((await tasks(store).list()).items) == 4
    await link(store, "T-4", "T-1", "related")


async def test_two_blockers_closed_at_once_unblock(open_a_store: OpenStore, engine_name: str) -> None:
    """Writers that each close one of many blockers see each other: what they block does not stay blocked for ever."""
    one = await open_a_store()
    # A database in memory has one store only.
    stores = [one, one if engine_name == "memory" else await open_a_store()]
    many = counts(6, 20)
    for number in range(many):
        await create(one, f"blocker {number}")
    target = await create(one, "target", blocked_by=tuple(f"T-{number + 1}" for number in range(many)))
    assert target.blocked
    closed = await asyncio.gather(*(close(stores[n % 2], f"T-{n + 1}", f"s{n}") for n in range(many)))
    assert sum(len(done.unblocked) for done in closed) == 1
    assert not (await tasks(one).get(target.id)).blocked


# ---------------------------------------------------------------- ready


async def test_ready_is_ordered_and_explained(store: Store, clock: FakeClock) -> None:
    """By priority, then age; without what is blocked, deferred, held or closed; pages go on; the counts are of all."""
    await create(store, "old, low", priority=3)
    clock.advance(days=1)
    for number in range(4):
        await create(store, f"task {number}", priority=1)
        clock.advance(minutes=1)
    await create(store, "urgent", priority=0, due=clock.now() - HOUR)
    await create(store, "blocked", priority=0, blocked_by=("T-6",))
    await create(store, "deferred", priority=0, defer_until=clock.now() + HOUR)
    await claim(store, "T-2")
    await close(store, "T-3")
    assert await ready(store) == ["T-6", "T-4", "T-5", "T-1"]
    page = await tasks(store).ready(limit=2)
    assert (page.counts.ready, page.counts.blocked, page.counts.deferred, page.counts.in_progress) == (4, 1, 1, 1)
    rest = await tasks(store).ready(limit=2, after=page.next)
    assert [item.task.handle for item in (*page.items, *rest.items)] == ["T-6", "T-4", "T-5", "T-1"]
    assert rest.next is None
    assert "overdue" in page.items[0].why
    assert "unblocks 1" in page.items[0].why
    assert await ready(store, max_priority=1) == ["T-6", "T-4", "T-5"]
    clock.advance(hours=2)
    assert await ready(store) == ["T-6", "T-8", "T-2", "T-4", "T-5", "T-1"]


async def test_explain_says_every_reason(store: Store, clock: FakeClock) -> None:
    """Blockers of its own, a blocked parent and what that waits for, deferral, a holder, and having been closed."""
    await create(store, "root")
    await create(store, "epic", blocked_by=("T-1",))
    await create(store, "feature", parent="T-2")
    await create(store, "task", parent="T-3", defer_until=clock.now() + HOUR)
    explained = await tasks(store).explain("T-4")
    assert not explained.is_ready
    assert [ref.handle for ref in explained.blockers] == ["T-1"]
    told = " ".join(explained.reasons)
    assert "T-3" in told
    assert "T-1" in told
    assert "deferred" in told
    assert (await tasks(store).explain("T-1")).is_ready
    await claim(store, "T-1", "worker")
    assert "worker" in (await tasks(store).explain("T-1")).reasons[0]
    await close(store, "T-1", "worker")
    assert "completed" in (await tasks(store).explain("T-1")).reasons[0]
    assert [reason for reason in (await tasks(store).explain("T-4")).reasons if "deferred" not in reason] == []


async def test_lists_filter_and_page(store: Store, clock: FakeClock) -> None:
    """Every filter alone and together, newest first, page after page."""
    await create(store, "epic", type="epic")
    for number in range(5):
        clock.advance(minutes=1)
        await create(store, f"task {number}", parent="T-1" if number % 2 else None, assignee="tom" if number else None)
    await claim(store, "T-2", "worker")
    await close(store, "T-3")

    async def handles(**more: Any) -> list[str]:
        return [task.handle for task in (await tasks(store).list(**more)).items]

    assert await handles() == ["T-6", "T-5", "T-4", "T-3", "T-2", "T-1"]
    assert await handles(status=("open",)) == ["T-6", "T-5", "T-4", "T-1"]
    assert await handles(status=("in_progress", "closed")) == ["T-3", "T-2"]
    assert await handles(types=("epic",)) == ["T-1"]
    assert await handles(parent="T-1") == ["T-5", "T-3"]
    assert await handles(assignee="tom", parent="T-1", status=("open",)) == ["T-5"]
    assert await handles(session="worker") == ["T-2"]
    assert await handles(blocked=True) == []
    page = await tasks(store).list(limit=4)
    rest = await tasks(store).list(limit=4, after=page.next)
    assert [task.handle for task in (*page.items, *rest.items)] == ["T-6", "T-5", "T-4", "T-3", "T-2", "T-1"]
    for wrong in ({"status": "done"}, {"types": ("story",)}):
        with pytest.raises(InputError):
            await handles(**wrong)


async def test_stale_and_likely_duplicates(store: Store, clock: FakeClock) -> None:
    """What nobody touched for long, the longest first; and what says the same in other words."""
    await create(store, "Add the login form for admins")
    await create(store, "Adding login forms for the admins")
    await create(store, "Speed up the nightly import")
    await claim(store, "T-3", lease=100 * 24 * AN_HOUR)
    clock.advance(days=15)
    await create(store, "fresh")
    assert [task.handle for task in (await tasks(store).stale()).items] == ["T-1", "T-2"]
    pairs = await tasks(store).duplicates()
    assert [{pair.task.handle, pair.other.handle} for pair in pairs] == [{"T-1", "T-2"}]
    assert [pair.other.handle for pair in await tasks(store).duplicates("T-2")] == ["T-1"]
    asked = await tasks(store).duplicates(title="login form for admins")
    assert {pair.other.handle for pair in asked} == {"T-1", "T-2"}
    assert await tasks(store).duplicates(title="write the manual") == ()


# ---------------------------------------------------------------- claims


async def test_a_claim_holds_until_its_lease_ends(store: Store, clock: FakeClock) -> None:
    """Held, refused to others, renewed by its own; then ready again without anybody sweeping, and taken over."""
    await create(store, "task")
    first = await claim(store, "T-1", "a")
    assert (first.task.status, first.task.session, first.until) == ("in_progress", "a", clock.now() + HOUR)
    with pytest.raises(TaskHeld) as caught:
        await claim(store, "T-1", "b")
    assert caught.value.holder == "a"
    assert caught.value.retryable
    clock.advance(minutes=50)
    again = await claim(store, "T-1", "a")
    assert (again.renewed, again.fence, again.until) == (True, 1, clock.now() + HOUR)
    beat = await tasks(store, "a").heartbeat("T-1", lease=2 * AN_HOUR)
    assert beat.task.held_until == clock.now() + 2 * HOUR
    with pytest.raises(TaskHeld):
        await tasks(store, "b").heartbeat("T-1", lease=AN_HOUR)
    assert await ready(store) == []
    clock.advance(hours=2)
    assert await ready(store) == ["T-1"]
    # Nobody took it: its holder may still go on.
    await tasks(store, "a").heartbeat("T-1", lease=AN_HOUR)
    clock.advance(hours=1)
    taken = await claim(store, "T-1", "b")
    assert (taken.fence, taken.task.session) == (2, "b")
    with pytest.raises(TaskHeld, match="held by b"):
        await tasks(store, "a").heartbeat("T-1", lease=AN_HOUR)
    with pytest.raises(TaskHeld):
        await tasks(store, "a").close("T-1", summary="mine")
    last = (await tasks(store).history("T-1")).items[-1]
    assert (last.what, last.details["took_over_from"]) == ("claimed", "a")


async def test_a_blocked_task_is_not_claimed(store: Store) -> None:
    """The refusal names what must come first, through parents too; nothing is held afterwards."""
    await create(store, "root")
    await create(store, "epic", blocked_by=("T-1",))
    await create(store, "task", parent="T-2")
    with pytest.raises(TaskBlocked) as caught:
        await claim(store, "T-3")
    assert caught.value.blockers == ("T-1",)
    assert 'T-1 "root"' in str(caught.value)
    assert await lease_of(store, R, f"task:{(await tasks(store).get('T-3')).id}") is None
    closed = await close(store, "T-1")
    assert [ref.handle for ref in closed.unblocked] == ["T-2", "T-3"]
    await claim(store, "T-3")


async def test_release_close_and_reopen(store: Store) -> None:
    """Back to open, closed with what is needed, open again with what it blocks; each refused where it makes no sense."""
    await create(store, "task")
    await create(store, "next", blocked_by=("T-1",))
    with pytest.raises(TaskMoveRefused):
        await tasks(store, "a").release("T-1")
    await claim(store, "T-1", "a", thread="t1")
    assert (await store.threads.get(R, "t1")).active_session == "a"
    with pytest.raises(TaskHeld):
        await tasks(store, "b").release("T-1")
    released = await tasks(store, "b").release("T-1", force=True)
    assert (released.status, released.session) == ("open", None)
    assert (await store.threads.get(R, "t1")).active_task is None
    for reason, summary in (("done", "x"), ("completed", " "), ("completed", None), ("completed", "x" * 100_001)):
        with pytest.raises(InputError):
            await close(store, "T-1", reason=reason, summary=summary)
    done = await close(store, "T-1", reason="wontfix", summary=f"because {ODD}")
    assert (done.task.close_reason, done.task.summary, done.task.blocked) == ("wontfix", f"because {ODD}", False)
    assert [ref.handle for ref in done.unblocked] == ["T-2"]
    with pytest.raises(TaskMoveRefused):
        await close(store, "T-1")
    with pytest.raises(TaskMoveRefused):
        await claim(store, "T-1")
    opened = await tasks(store).reopen("T-1", why="it came back")
    assert (opened.status, opened.summary, opened.closed_at) == ("open", None, None)
    assert (await tasks(store).get("T-2")).blocked
    with pytest.raises(TaskMoveRefused):
        await tasks(store).reopen("T-1")
    what = [change.what for change in (await tasks(store).history("T-1")).items]
    assert what == ["created", "linked", "claimed", "released", "closed", "reopened"]


async def test_closing_a_parent_names_its_open_children(store: Store) -> None:
    """An epic may be closed before its tasks, and says which are left."""
    await create(store, "epic", type="epic")
    await create(store, "left", parent="T-1")
    await create(store, "done", parent="T-1")
    await close(store, "T-3")
    assert [ref.handle for ref in (await close(store, "T-1")).open_children] == ["T-2"]


# ---------------------------------------------------------------- messages


async def test_messages_are_linked_while_the_task_is_held(store: Store, clock: FakeClock) -> None:
    """From the claim until it is released, closed, taken over or its lease ends; and work renews the lease."""
    await create(store, "task")
    await create(store, "other")

    async def say(thread: str = "t1") -> str | None:
        saved = await store.messages.save(R, thread, UserMessage("hello"))
        (row,) = await store.messages.span(R, thread, Span(first=saved.messages[0].seq, last=saved.messages[0].seq))
        assert row.task == saved.messages[0].task
        return row.task

    task = (await tasks(store).get("T-1")).id
    assert await say() is None
    await claim(store, "T-1", "a", thread="t1")
    assert await say() == task
    assert await say("t2") is None
    clock.advance(minutes=40)
    assert await say() == task
    clock.advance(minutes=40)
    # The word in between has renewed it for another hour.
    assert await say() == task
    batch = await store.messages.save(R, "t1", [UserMessage("one", id="x"), UserMessage("two")])
    assert [message.task for message in batch.messages] == [task, task]
    clock.advance(hours=1)
    assert await say() is None
    await claim(store, "T-1", "b", thread="t2")
    assert await say() is None
    assert await say("t2") == task
    await claim(store, "T-2", "b", thread="t2")
    assert await say("t2") == (await tasks(store).get("T-2")).id
    await close(store, "T-2", "b")
    assert await say("t2") is None
    assert (await tasks(store).about("T-1")).total_messages == 6


async def test_messages_are_linked_by_hand(store: Store) -> None:
    """By id and by span, of a kind; each is shown once; what is not there links nothing; links can be taken away."""
    await store.messages.save(R, "t1", [UserMessage(f"word {n}", id=f"m{n}") for n in range(6)])
    made = await tasks(store).create("task", created_from=("m0",))
    assert await tasks(store).attach(made.id, ["m1", "m2"], "output") == 2
    assert await tasks(store).attach("T-1", Span(first=2, last=4), "reference", thread="t1") == 3
    changes = (await tasks(store).history("T-1")).items
    assert await tasks(store).attach("T-1", ["m2", "m1", "m2"], "output") == 0
    assert await tasks(store).attach("T-1", Span(first=2, last=4), "reference", thread="t1") == 0
    assert (await tasks(store).history("T-1")).items == changes
    with pytest.raises(MessageNotFound):
        await tasks(store).attach("T-1", ["m5", "nothing"], "output")
    with pytest.raises(InputError):
        await tasks(store).attach("T-1", ["m5"], "blocks")  # pyright: ignore[reportArgumentType]
    with pytest.raises(InputError):
        await tasks(store).attach("T-1", Span(first=1, last=1), "output")
    page = await tasks(store).messages("T-1", limit=3)
    rest = await tasks(store).messages("T-1", limit=3, after=page.next)
    shown = [(linked.message.id, linked.kind) for linked in (*page.items, *rest.items)]
    assert shown == [("m0", "created-from"), ("m1", "output"), ("m2", "output"), ("m3", "reference")]
    assert (await tasks(store).show("T-1")).messages == 4
    assert await tasks(store).detach("T-1", ["m1", "m5"]) == 1
    assert (await tasks(store).about("T-1")).total_messages == 3


async def test_costs_are_the_tasks(store: Store, clock: FakeClock) -> None:
    """A turn's request counts for the task that its thread holds, one that is named for that, and none afterwards."""
    task = await create(store, "task")
    await create(store, "other")
    await claim(store, "T-1", "a", thread="t1")
    await store.ledger.add(R, Usage(model="m", cost=1.0, thread="t1"))
    await store.ledger.add(R, Usage(model="m", cost=2.0, thread="t2"))
    await store.ledger.add(R, Usage(model="m", cost=4.0, thread="t2", task=task.id))
    clock.advance(hours=1)
    await store.ledger.add(R, Usage(model="m", cost=8.0, thread="t1"))
    assert (await store.ledger.total(R, task=task.id)).cost == 5.0


# ---------------------------------------------------------------- decay


async def test_decay_and_restore_are_exact(store: Store, clock: FakeClock) -> None:
    """After 30 days the summary is left, after 90 its beginning; a restored task is byte for byte what it was."""
    summary = f"{ODD}. " * 20
    given = {"description": ODD * 50, "metadata": {"a": [ODD, 1.5]}, "labels": frozenset({"x"}), "priority": 1}
    await create(store, "task", **given)
    await create(store, "open for ever", description="stays")
    closed = (await close(store, "T-1", summary=summary)).task
    before = (await tasks(store).history("T-1")).items
    clock.advance(days=29, hours=23)
    assert (await tasks(store).decay()).summarised == ()
    clock.advance(hours=1)
    assert (await tasks(store).decay()).summarised == ("T-1",)
    one = await tasks(store).get("T-1")
    assert (one.level, one.description, one.metadata, one.summary) == (1, "", {}, summary)
    assert await tasks(store).restore("T-1") == closed
    assert (await tasks(store).decay()).summarised == ()
    clock.advance(days=30)
    assert (await tasks(store).decay()).summarised == ("T-1",)
    clock.advance(days=60)
    assert (await tasks(store).decay()).archived == ("T-1",)
    two = await tasks(store).get("T-1")
    assert two.level == 2
    assert len(two.summary or "") <= 201
    assert (two.title, two.labels, two.closed_at) == ("task", {"x"}, closed.closed_at)
    with pytest.raises(TaskMoveRefused):
        await tasks(store).edit("T-1", title="x")
    assert await tasks(store).restore("T-1") == closed
    assert await tasks(store).restore("T-1") == closed
    assert (await tasks(store).history("T-1")).items == before
    assert (await tasks(store).get("T-2")).description == "stays"


async def test_a_decayed_task_is_whole_when_it_is_reopened(store: Store, clock: FakeClock) -> None:
    """Reopening restores; and closing lets what is due decay by itself."""
    await create(store, "task", description="all of it")
    await create(store, "another")
    await close(store, "T-1")
    clock.advance(days=40)
    await close(store, "T-2")
    assert (await tasks(store).get("T-1")).level == 1
    opened = await tasks(store).reopen("T-1")
    assert (opened.level, opened.description, opened.status) == (0, "all of it", "open")
