"""After an import: the context is bounded and says what it leaves out, and the backlog is observed in order, in slices."""

from collections.abc import Callable
from itertools import pairwise

import pytest

from kit.models import Hanging
from kit.talk import Story, hold, of_kind, store_of, stories
from memolog import AssistantMessage, Config, NewMessage, UserMessage
from memolog.context.context import Context
from memolog.core.message import ToolCallPart, ToolResultPart
from memolog.events import Decided, Degraded, Trimmed
from memolog.log import snapshot as snapshots
from memolog.memory import Memory
from memolog.testing import FakeClock

CONFIG = Config.from_dict({"observation": {"message_tokens": 2_000}, "reflection": {"observation_tokens": 100_000}})
LIMIT = CONFIG.block_at_for(0)
COUNT = 400
tell = stories(Story)


def imported(count: int = COUNT) -> list[NewMessage]:
    """Return a conversation of another system."""
    kinds = (UserMessage, AssistantMessage)
    return [kinds[number % 2](f"message {number:04} is about ticket-{number}") for number in range(count)]


async def begin(memory: Memory, messages: list[NewMessage]) -> None:
    """Import messages: they are saved outside of a turn."""
    await memory.thread("t1", resource="alice").save(messages)


def mark_of(context: Context) -> str:
    """Return the mark that says how many messages are not shown yet, or nothing."""
    return next((m.text for m in context.messages if m.synthetic and "earlier messages of this" in m.text), "")


async def test_the_first_context_is_bounded_and_says_so(address: str, clock: FakeClock) -> None:
    """It shows the newest messages, waits for no model, and names the number of the others, which a search finds."""
    async with Memory(
        address, model=Hanging(), clock=clock, config=CONFIG.with_overrides({"close_timeout": 0})
    ) as memory:
        events: list[object] = []
        memory.subscribe(events.append)
        await begin(memory, imported())
        context = await hold(memory, "and now?", "nothing")
        said = [m for m in context.tail if not m.synthetic]
        assert said[-2].text == f"message {COUNT - 1:04} is about ticket-{COUNT - 1}"
        assert LIMIT // 2 < context.tokens.tail <= LIMIT
        left_out = COUNT + 1 - len(said)
        assert left_out > 0
        assert mark_of(context).startswith(f"[{left_out} earlier messages of this conversation are not shown here")
        assert context.trimmed == left_out
        (trimmed,) = [event for event in events if isinstance(event, Trimmed)]
        assert (trimmed.messages, trimmed.limit) == (left_out, LIMIT)
        assert not [event for event in events if isinstance(event, Degraded)]
        assert [event.decision for event in events if isinstance(event, Decided)][-1] == "Trim"
        found = await memory.resource("alice").search("ticket-7", thread="t1")
        assert "ticket-7" in found.results[0].snippet


async def test_the_next_contexts_only_extend_it(address: str, clock: FakeClock) -> None:
    """Until something is activated, a context begins with the one before, for many turns in a row."""
    async with Memory(
        address, model=Hanging(), clock=clock, config=CONFIG.with_overrides({"close_timeout": 0})
    ) as memory:
        await begin(memory, imported())
        last: Context | None = None
        changes = 0
        for number in range(30):
            context = await hold(memory, f"question {number}", f"answer {number}")
            assert context.tokens.tail <= LIMIT
            if last is not None:
                changes += context.messages[: len(last.messages)] != last.messages
                assert (await memory.thread("t1", resource="alice").seen(number + 1)).messages == context.messages
            last = context
        # The cut moves by many messages at once, so it moves rarely.
        assert changes <= 1


async def test_a_snapshot_reads_the_ends_of_a_backlog_only(
    address: str, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The newest messages for the context, the oldest without their text for `decide`; both are the same as in a whole tail."""
    monkeypatch.setattr(snapshots, "BACKLOG_ROWS", 50)
    monkeypatch.setattr(snapshots, "_WHOLE_ROWS", 8)
    monkeypatch.setattr(snapshots, "_SIZES", 16)
    async with Memory(address, clock=clock, config=CONFIG) as memory:
        await begin(memory, imported())
        store = await store_of(memory)
        whole = await store.logs.snapshot("alice", "t1", "thread")
        store.cache.clear()
        part = await store.logs.snapshot("alice", "t1", "thread", limit=CONFIG.block_at_for)
        assert len(whole.tail) == COUNT
        assert whole.backlog is None
        assert part.tail == whole.tail[-len(part.tail) :]
        assert len(part.tail) < COUNT
        assert part.backlog is not None
        assert [row.seq for row in part.backlog.oldest] == list(range(1, 51))
        # Read again, with everything in the cache: the same.
        again = await store.logs.snapshot("alice", "t1", "thread", limit=CONFIG.block_at_for)
        assert (again.tail, again.backlog) == (part.tail, part.backlog)
        monkeypatch.setattr(snapshots, "_WHOLE_ROWS", 10_000)
        at_once = await store.logs.snapshot("alice", "t1", "thread", limit=CONFIG.block_at_for)
        assert (at_once.tail, at_once.backlog) == (part.tail, part.backlog)


@pytest.mark.parametrize("buffer_tokens", [0.2, False])
async def test_a_backlog_is_observed_in_order_until_nothing_is_left_out(
    tell: Callable[..., Story], monkeypatch: pytest.MonkeyPatch, buffer_tokens: object
) -> None:
    """In slices that are much shorter than the backlog; the groups follow each other without a gap."""
    monkeypatch.setattr(snapshots, "BACKLOG_ROWS", 60)
    config = CONFIG.with_overrides({"observation.buffer_tokens": buffer_tokens})
    story = tell(config=config)
    await begin(story.memory, imported())
    context, turns = await hold(story.memory, "and now?", "nothing"), 1
    assert mark_of(context)
    while mark_of(context):
        await story.memory.settled()
        context = await hold(story.memory, "and now?", "nothing")
        turns += 1
        assert turns < 60
        assert context.tokens.tail <= LIMIT + 500
    await story.memory.settled()
    snapshot = await (await story.store()).logs.snapshot("alice", "t1", "thread")
    spans = sorted((group.span.first, group.span.last) for group in snapshot.groups if group.span)
    assert spans[0][0] == 1
    assert all(before[1] + 1 == after[0] for before, after in pairwise(spans))
    assert spans[-1][1] == snapshot.cursor
    assert snapshot.cursor > COUNT // 2
    assert not of_kind(story.events, Degraded)


async def test_the_background_goes_on_without_a_turn(
    tell: Callable[..., Story], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One turn is enough to have the whole backlog buffered, although a slice is short and only a turn activates groups."""
    monkeypatch.setattr(snapshots, "BACKLOG_ROWS", 60)
    story = tell(config=CONFIG)
    await begin(story.memory, imported())
    await hold(story.memory, "and now?", "nothing")
    await story.memory.settled()
    snapshot = await (await story.store()).logs.snapshot("alice", "t1", "thread")
    last = max(group.span.last for group in snapshot.buffered if group.span)
    floor = sum(m.tokens for m in snapshot.tail if m.seq > last)
    assert floor < LIMIT


@pytest.mark.parametrize("shift", range(6))
async def test_a_call_and_its_result_are_not_separated(address: str, clock: FakeClock, shift: int) -> None:
    """Wherever the cut falls in imported exchanges with tools."""
    messages: list[NewMessage] = imported(shift)
    for number in range(150):
        call = ToolCallPart(id=f"c{number}", name="look", arguments={"place": number})
        result = ToolResultPart(call_id=f"c{number}", content=f"result {number}")
        messages += [
            UserMessage(f"look at {number}"),
            NewMessage(role="assistant", parts=(call,)),
            NewMessage(role="tool", parts=(result,)),
        ]
    async with Memory(
        address, model=Hanging(), clock=clock, config=CONFIG.with_overrides({"close_timeout": 0})
    ) as memory:
        await begin(memory, messages)
        context = await hold(memory, "and now?", "nothing")
    assert mark_of(context)
    calls = [part.id for m in context.messages for part in m.parts if isinstance(part, ToolCallPart)]
    results = [part.call_id for m in context.messages for part in m.parts if isinstance(part, ToolResultPart)]
    assert calls
    assert calls == results
    assert not [m for m in context.messages if "late-result" in m.text]


async def test_messages_of_turns_are_never_left_out(address: str, clock: FakeClock) -> None:
    """A tail that grew by turns while the model did not answer is shown whole, also after an import before it."""
    config = CONFIG.with_overrides({"close_timeout": 0, "observation.deadline": 0})
    async with Memory(address, model=Hanging(), clock=clock, config=config) as memory:
        await begin(memory, imported(50))
        said = [f"question {number} " + "word " * 150 for number in range(25)]
        contexts = [await hold(memory, text, "answer") for text in said]
        context = contexts[-1]
        shown = [m.text for m in context.messages]
        assert context.tokens.tail > LIMIT
        assert all(text in shown for text in said)
        assert mark_of(context).startswith("[50 earlier messages")
