"""Task memory through the public face: sessions that hand work on, what a context tells of it, and summaries with citations."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from contract.raw_sql import run_sql
from kit.engines import a_memory
from kit.models import PRICE, Priced
from kit.talk import hold, store_of
from memolog import AssistantMessage, Config, ObservationConfig, UserMessage
from memolog.core.observation import Span
from memolog.core.run import Usage
from memolog.errors import InputError, NotFound, StoreReadOnly, TaskBlocked
from memolog.memory import Memory
from memolog.tasks.rules import EdgeTask, EdgeTasks, edge_lines
from memolog.tasks.task import Task, TaskCounts
from memolog.testing import FakeClock, ScriptedModel
from memolog.text.tokens import HeuristicCounter

SMALL = Config(observation=ObservationConfig(message_tokens=1_000, previous_tokens=200))
memory = a_memory(model=ScriptedModel, config=SMALL)


async def talk(memory: Memory, words: str, thread: str = "t1") -> Any:
    """Hold a turn and return its context."""
    async with memory.thread(thread, resource="alice").turn() as turn:
        context = await turn.prepare(UserMessage(words))
        await turn.record(AssistantMessage(f"about {words}"), usage=Usage(model="m", input_tokens=10, cost=0.5))
    return context


# ---------------------------------------------------------------- stories


async def test_work_is_handed_on_between_sessions(memory: Memory, clock: FakeClock) -> None:
    """One session plans, works and dies; another finds what is ready, takes over, and learns all that was said."""
    first = memory.resource("alice").tasks(session="one", thread="t1", who="Ada")
    schema = await first.create("Design the schema", priority=1)
    form = await first.create("Build the form", blocked_by=[schema.handle])
    docs = await first.create("Write the manual", blocked_by=[form.handle], priority=3)
    await first.claim(schema.handle)
    await talk(memory, "a table users with an email")
    closed = await first.close(schema.handle, summary="users(email)", claim_next=True)
    assert [ref.handle for ref in closed.unblocked] == [form.handle]
    assert closed.next is not None
    assert closed.next.task.id == form.id
    await talk(memory, "the form posts to /login")
    clock.advance(hours=1)

    second = memory.resource("alice").tasks(session="two", thread="t2", who="Bob")
    ready = await second.ready()
    assert [item.task.id for item in ready.items] == [form.id]
    assert ready.counts == TaskCounts(ready=1, blocked=1, in_progress=1)
    with pytest.raises(TaskBlocked):
        await second.claim(docs.id)
    taken = await second.claim_next()
    assert taken is not None
    assert taken.task.id == form.id
    assert await second.claim_next() is None
    await talk(memory, "it needs a label", thread="t2")
    about = await second.about(form.id)
    assert [linked.message.text for linked in about.messages] == [
        "the form posts to /login",
        "about the form posts to /login",
        "it needs a label",
        "about it needs a label",
    ]
    assert about.cost.cost == 1.0
    await second.close(form.id, summary="posts to /login, labelled")
    history = (await second.history(form.id)).items
    assert [(change.who, change.what) for change in history if change.what != "linked"] == [
        ("Ada", "created"),
        ("Ada", "claimed"),
        ("Bob", "claimed"),
        ("Bob", "closed"),
    ]


async def test_everything_about_a_task(memory: Memory) -> None:
    """What was learned is found through the messages it cites, and the draft of a summary cites them."""
    tasks = memory.resource("alice").tasks(thread="t1")
    await talk(memory, "small talk before")
    await tasks.create("Talk about the weather")
    await tasks.claim("T-1")
    for number in range(3):
        await talk(memory, f"it rains {number}")
    await tasks.release("T-1")
    await talk(memory, "small talk after")
    await memory.thread("t1", resource="alice").observe()
    observations = await tasks.observations("T-1")
    cited = {
        seq for one in observations for source in one.sources for seq in range(source.span.first, source.span.last + 1)
    }
    assert observations
    assert cited <= set(range(3, 9))
    draft = await tasks.draft_summary("T-1")
    assert draft.sources
    assert {thread for thread, _, _ in draft.sources} == {"t1"}
    assert "[1]" in draft.text
    assert (await tasks.observations((await tasks.create("other")).id)) == ()
    # A reflection that is not activated yet repeats lines of the log, so its lines do not count.
    store = await store_of(memory)
    await run_sql(store, "UPDATE groups SET state = 'buffered'")
    assert await tasks.observations("T-1") == observations
    await run_sql(store, "UPDATE groups SET kind = 'reflection'")
    assert await tasks.observations("T-1") == ()


@pytest.mark.parametrize(
    ("answer", "is_used"),
    [
        ("It rains, as was seen. [1][2]", True),
        ("It rains, as nobody noted. [99]", False),
        ("It rains.", False),
        ("", False),
        ("[1]" + "and on " * 1_000, False),
        (RuntimeError("no model today"), False),
    ],
    ids=["good", "unknown citation", "no citation", "empty", "runaway", "failing"],
)
async def test_a_written_summary_is_used_if_it_cites(
    tmp_path: Path, clock: FakeClock, answer: str | Exception, is_used: bool
) -> None:
    """The model writes the draft; one that cites nothing, or what is not there, gives way to the embedded one."""
    model = ScriptedModel()
    async with Memory(tmp_path / "m.db", model=model, config=SMALL, clock=clock) as memory:
        tasks = memory.resource("alice").tasks(thread="t1")
        await tasks.create("Watch the weather")
        await tasks.claim("T-1")
        for number in range(3):
            await talk(memory, f"it rains {number}")
        await memory.thread("t1", resource="alice").observe()
        model.answers.append(answer)
        draft = await tasks.draft_summary("T-1")
        assert (draft.model == "scripted") is is_used
        assert "[1]" in draft.text
        assert draft.sources
        assert "Watch the weather" in model.requests[-1].text
        cost = await (await memory.open()).store.ledger.lines("alice", task=(await tasks.get("T-1")).id)
        assert any(line.kind == "other" for line in cost) is not isinstance(answer, Exception)


async def test_a_summary_counts_against_the_budget(tmp_path: Path, clock: FakeClock) -> None:
    """Its cost is a part of what was spent; without money no model is asked."""
    model = Priced()
    config = SMALL.with_overrides({"budget": 1.0})
    async with Memory(tmp_path / "m.db", model=model, config=config, clock=clock) as memory:
        tasks = memory.resource("alice").tasks(thread="t1")
        await tasks.create("Watch the weather")
        await tasks.claim("T-1")
        await talk(memory, "it rains")
        await memory.thread("t1", resource="alice").observe()
        await tasks.draft_summary("T-1")
        status = await memory.thread("t1", resource="alice").status()
        assert status.budget_left == pytest.approx(1.0 - PRICE * len(model.requests))
    calls = len(model.requests)
    assert calls > 1
    config = SMALL.with_overrides({"budget": PRICE})
    async with Memory(tmp_path / "m.db", model=model, config=config, clock=clock) as memory:
        draft = await memory.resource("alice").tasks(thread="t1").draft_summary("T-1")
    assert (len(model.requests), draft.model) == (calls, "extractive")


async def test_the_edge_tells_of_tasks_and_the_prefix_does_not(memory: Memory, clock: FakeClock) -> None:
    """The active task first, then what is ready; after the last message only; and a context can be built again as it was."""
    plain = await talk(memory, "hello")
    assert "<tasks>" not in plain.render()
    tasks = memory.resource("alice").tasks(thread="t1")
    await tasks.create("Later", priority=4)
    await tasks.create("Now <b>&", priority=0)
    await tasks.create("In hand", priority=2)
    await tasks.create("Blocked", blocked_by=["T-1"])
    await tasks.claim("T-3")
    context = await talk(memory, "what is next?")
    edge = context.edge_text
    assert "<tasks>" in edge
    assert edge.index("active T-3") < edge.index("ready T-2") < edge.index("ready T-1")
    assert "1 blocked" in edge
    assert "T-3" not in context.render_without_edge()
    await tasks.close("T-3", summary="done")
    await tasks.edit("T-2", title="Another title")
    assert (await memory.thread("t1", resource="alice").seen(2)).edge_text == edge
    assert "<tasks>" not in (await hold(memory, "quiet", settings={"task_tokens": 0})).render()
    clock.advance(hours=1)


async def test_search_finds_tasks_by_their_words(memory: Memory) -> None:
    """By title, description and summary, in any case; with what was said about them if asked for."""
    await hold(memory, UserMessage("the schema is in auth.ts", id="m1"))
    tasks = memory.resource("alice").tasks()
    await tasks.create("Design LoginSchema", created_from=["m1"])
    await tasks.create("Invoices", description="the login page needs a link to invoices")
    await tasks.create("Unrelated")
    await tasks.close("T-3", summary="moved the refresh_tokens table")
    hits = await tasks.search("login schema", related=True)
    assert hits[0].task.handle == "T-1"
    assert [linked.message.id for linked in hits[0].messages] == ["m1"]
    assert {hit.task.handle for hit in hits} == {"T-1", "T-2"}
    assert [hit.task.handle for hit in await tasks.search("refresh_tokens")] == ["T-3"]
    assert await tasks.search("refresh_tokens", status="open") == ()
    for number in range(30):
        made = await tasks.create(f"login {number}")
        await tasks.close(made.id, summary="done")
    still = await tasks.search("login", status="open")
    assert {hit.task.handle for hit in still} == {"T-1", "T-2"}
    assert len(await tasks.search("login", limit=7)) == 7
    for odd in ("", "   ", '"', "AND OR NOT (", "*", "a\x00b \ud800"):
        await tasks.search(odd)


def task(number: int, clock: FakeClock, **more: Any) -> Task:
    """Return a task; higher numbers are younger."""
    given: dict[str, Any] = {"title": f"Task {number} " + "with words " * 5, **more}
    made = clock.now() + timedelta(minutes=number)
    return Task(id=str(number), handle=f"T-{number}", resource="r", created_at=made, updated_at=made, **given)


def test_the_edge_keeps_what_is_valuable_not_what_is_new(clock: FakeClock) -> None:
    """Within any budget: the active one first, then overdue, pressing and what holds others up; never over the budget."""
    counter = HeuristicCounter()
    shown = [EdgeTask(task=task(number, clock, priority=3)) for number in range(10, 40)]
    shown += [
        EdgeTask(task=task(1, clock, priority=2), unblocks=5),
        EdgeTask(task=task(2, clock, priority=4, due=clock.now() - timedelta(days=1)), unblocks=0),
        EdgeTask(task=task(3, clock, priority=4), is_active=True),
        EdgeTask(task=task(4, clock, priority=0)),
        EdgeTask(task=task(5, clock, priority=2)),
    ]
    given = EdgeTasks(tasks=tuple(shown), counts=TaskCounts(ready=34, blocked=7))
    order = ["T-3", "T-4", "T-2", "T-1", "T-5"]
    for budget in (0, 5, 20, 60, 120, 400, 5_000):
        lines = edge_lines(given, now=clock.now(), budget=budget, count=counter.count)
        assert sum(map(counter.count, lines)) <= budget
        named = [line.split()[1] for line in lines if line.startswith(("active", "ready"))]
        assert named[:5] == order[: len(named)]
        if named and len(named) < 35:
            assert lines[-1].startswith(f"{34 - len(named) + 1} more ready, 7 blocked")
    assert len(edge_lines(given, now=clock.now(), budget=5_000, count=counter.count)) == 36


async def test_errors_of_the_face(memory: Memory, tmp_path: Path) -> None:
    """What is not there, not allowed or makes no sense is told; a read-only memory writes nothing and still reads."""
    tasks = memory.resource("alice").tasks()
    made = await tasks.create("Find me", labels="one")
    assert made.labels == {"one"}
    assert [found.id for found in await tasks.find("find ME")] == [made.id]
    assert [found.id for found in await tasks.find("t1")] == [made.id]
    assert await tasks.find("nothing like it") == ()
    with pytest.raises(NotFound):
        await tasks.get("T-9")
    for lease in (0, -1, float("nan"), float("inf")):
        with pytest.raises(InputError):
            await tasks.claim("T-1", lease=lease)
        with pytest.raises(InputError):
            await tasks.claim_next(lease=lease)
    with pytest.raises(InputError):
        memory.resource("").tasks()
    with pytest.raises(InputError):
        await tasks.attach("T-1", Span(first=1, last=1))
    async with Memory(tmp_path / "m.db", config=Config(read_only=False)) as other:
        await other.resource("alice").tasks().create("Kept")
    async with Memory(tmp_path / "m.db", config=Config(read_only=True)) as reader:
        assert (await reader.resource("alice").tasks().get("T-1")).title == "Kept"
        with pytest.raises(StoreReadOnly):
            await reader.resource("alice").tasks().create("Not kept")
