"""What people look at: the threads of all resources, pages of a log, where a line comes from, and the cost of each day."""

from datetime import timedelta

import pytest

from kit.engines import a_memory
from kit.talk import hold
from memolog import Config, Memory, NotFound, Span, UserMessage
from memolog.core.run import Usage
from memolog.testing import FakeClock

CONFIG = Config.from_dict(
    {
        "observation": {"message_tokens": 400, "buffer_tokens": False, "previous_tokens": 100},
        "reflection": {"observation_tokens": 500, "keep_recent": {"hours": 0, "observations": 0}},
        "activate_after_idle": False,
    }
)
memory = a_memory(CONFIG)
SAID = "I decided that part {0} of the shed is painted in colour {0}, and never again in colour {1}."


async def say(memory: Memory, thread: str, turns: int, resource: str = "alice") -> None:
    """Hold turns in which the user decides something each time."""
    for number in range(turns):
        await hold(memory, SAID.format(number, number + 100), "Noted.", thread=thread, resource=resource)


async def test_the_threads_of_all_resources_come_in_pages_with_the_sizes_of_their_status(
    memory: Memory, clock: FakeClock
) -> None:
    """The latest active thread is first. The sizes are those that `status` returns."""
    for thread, resource in (("t1", "alice"), ("t2", "bob"), ("t3", "alice")):
        await say(memory, thread, 2, resource)
        clock.advance(seconds=60)
    await memory.thread("t3", resource="alice").observe()
    activity = await memory.activity()
    assert (activity.unobserved, dict(activity.runs)) == (2, {})
    first = await memory.overview(limit=2)
    second = await memory.overview(limit=2, after=first.next)
    assert [one.thread.id for one in (*first, *second)] == ["t3", "t2", "t1"]
    assert second.next is None
    assert [one.thread.id for one in await memory.overview(resource="bob")] == ["t2"]
    for one in (*first, *second):
        status = await memory.thread(one.thread.id, resource=one.thread.resource).status()
        assert (one.messages, one.observations) == (status.messages, status.observations)
        assert (one.live, one.health, one.running) == (status.live, status.health, 0)
    assert [(one.id, one.threads, one.messages) for one in await memory.latest_resources()] == [
        ("alice", 2, 8),
        ("bob", 1, 4),
    ]


async def test_pages_of_a_log_are_the_log(memory: Memory) -> None:
    """All pages together have the lines of `log`, in its order, and each line has the group and the run that made it."""
    await say(memory, "t1", 12)
    thread = memory.thread("t1", resource="alice")
    await thread.observe()
    lines = list(await thread.log())
    paged: list[str] = []
    before: str | None = None
    for _ in range(100):
        page = await thread.log_page(before=before, limit=3)
        paged = [*(line.id for line in page.lines), *paged]
        assert {line.group for line in page.lines} == page.groups.keys()
        assert all(group.run is not None and group.run.status == "done" for group in page.groups.values())
        before = page.next
        if before is None:
            break
    by_id = {line.id: line for line in lines}
    assert sorted(paged) == sorted(by_id)
    assert [by_id[name].group for name in paged] == [line.group for line in lines]
    newest = (await thread.log_page(limit=1)).lines[0]
    assert newest == by_id[newest.id]
    span = newest.sources[0].span
    of_messages = await thread.log_page(messages=span)
    assert newest.id in {line.id for line in of_messages.lines}
    assert all(
        any(s.span.first <= span.last and s.span.last >= span.first for s in line.sources) for line in of_messages.lines
    )


async def test_where_a_line_comes_from_and_what_became_of_it(memory: Memory) -> None:
    """A reflected line names the lines that it merges, these name it, and what the reflection dropped is listed."""
    await say(memory, "t1", 12)
    thread, resource = memory.thread("t1", resource="alice"), memory.resource("alice")
    await thread.observe()
    await thread.reflect()
    await thread.observe()
    reflected = [line for line in await thread.log() if line.merges]
    assert reflected
    for line in reflected:
        origin = await resource.origin(line.id)
        assert origin.observation == line
        assert origin.group.kind == "reflection"
        assert origin.group.run is not None
        assert {one.id for one in origin.replaces} == set(line.merges)
        for merged in origin.replaces:
            assert line.id in {one.id for one in (await resource.origin(merged.id)).replaced_by}
    dropped = {one.id for one in (await resource.origin(reflected[0].id)).dropped}
    assert dropped == {name for generation in await thread.history() for name in generation.dropped}
    spans = [source.span for line in reflected for source in line.sources]
    whole = await thread.log_page(messages=Span(first=1, last=max(span.last for span in spans)), limit=500)
    assert {line.state for line in whole.lines} >= {"active", "superseded"}
    with pytest.raises(NotFound, match="forgotten"):
        await memory.resource("bob").origin(reflected[0].id)


async def test_the_cost_of_each_day(memory: Memory) -> None:
    """Days are those of UTC. One resource or one thread can be chosen."""
    thread = memory.thread("t1", resource="alice")
    await thread.save([UserMessage("Hello")])
    await memory.thread("t2", resource="bob").save("Hello")
    ledger, start = (await memory.open()).store.ledger, memory.clock.now()
    for days, resource, cost in ((0, "alice", 0.5), (0, "bob", 0.25), (1, "alice", 1.0), (1, "alice", 2.0)):
        usage = Usage(model="m", input_tokens=10, cost=cost, at=start + timedelta(days=days), thread="t1")
        await ledger.add(resource, usage)
    whole = await memory.usage_by_day(since=start)
    assert [(one.day, one.total.requests, one.total.cost) for one in whole] == [
        (start.date(), 2, 0.75),
        (start.date() + timedelta(days=1), 2, 3.0),
    ]
    assert [one.total.cost for one in await memory.usage_by_day(since=start, resource="bob")] == [0.25]
    assert [one.total.cost for one in await memory.usage_by_day(since=start, resource="alice", thread="t1")] == [
        0.5,
        3.0,
    ]
    assert await memory.usage_by_day(since=start + timedelta(days=2)) == ()
    # The costs of a resource stay when it is forgotten, and a resource without a thread can have some too.
    await memory.resource("bob").forget()
    await ledger.add("carol", Usage(model="m", input_tokens=10, cost=0.125, at=start))
    first, _ = await memory.usage_by_day(since=start)
    assert (first.total.requests, first.total.cost) == (3, 0.875)
    assert [one.total.cost for one in await memory.usage_by_day(since=start, resource="carol")] == [0.125]


async def test_records_of_requests_and_changes_of_the_database(memory: Memory) -> None:
    """The newest records come by default, those after a number on demand, and the revision differs after a change."""
    before = await memory.revision()
    await say(memory, "t1", 3)
    assert await memory.revision() != before
    thread = memory.thread("t1", resource="alice")
    assert [one.number for one in await thread.contexts(limit=2)] == [2, 3]
    assert [one.number for one in await thread.contexts(after=0, limit=2)] == [1, 2]
