"""Random saves, compactions, restores and withdrawals: restored bytes are the saved ones, contexts sane, pairs whole."""

import asyncio
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kit.effort import counts
from memolog import AssistantMessage, CompactionConfig, Config, ToolCallPart, ToolMessage, UserMessage
from memolog.compaction.store import RowTexts
from memolog.core.message import Message, NewMessage, ToolResultPart
from memolog.memory import Memory
from memolog.testing import FakeClock

WORDS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=80) | st.sampled_from(
    [
        "\x00",
        "\x01packed?",
        "word " * 200,
        "def f(x):\n    return x\n",
        "<earlier-messages>",
        "日本語" * 30,
        "\U0001f9d1\U0001f3fd",
    ]
)
STEP = st.one_of(
    st.tuples(st.just("talk"), WORDS),
    st.tuples(st.just("call"), WORDS),
    st.tuples(st.just("open"), WORDS),
    st.tuples(st.just("discard"), WORDS),
    st.tuples(st.just("compact"), st.integers(0, 6)),
    st.tuples(st.just("restore"), st.integers(0, 30)),
    st.tuples(st.just("clone"), st.integers(0, 3)),
)
PLAIN = Config(observe=False, last_messages=14, compaction=CompactionConfig(batch=4, after=6, deep_after=12))
LOGGED = Config(compaction=CompactionConfig(batch=4, after=6, deep_after=12))
AT = datetime(2026, 3, 14, 9, 0, tzinfo=UTC)


class World:
    """One thread, what was ever saved in it, and what must hold after every step."""

    def __init__(self, memory: Memory, clock: FakeClock) -> None:
        self.memory, self.clock, self.said = memory, clock, dict[str, tuple[Any, ...]]()
        self.number = 0

    async def step(self, what: str, with_: Any) -> None:
        """Do one thing."""
        self.number += 1
        self.clock.advance(seconds=1)
        match what:
            case "compact":
                done = await self.memory.thread("t", resource="alice").compact(keep=with_)
                assert (done.messages > 0) == bool(done.summary)
                assert sum(made.messages for made in done.compactions) == done.messages
            case "restore":
                made = await self.memory.thread("t", resource="alice").compactions()
                if made:
                    await self.memory.thread("t", resource="alice").restore_compaction(made[with_ % len(made)].id)
            case "clone":
                await self.memory.thread("t", resource="alice").clone(f"copy {self.number}")
            case _:
                await self._turn(what, with_)
        await self.memory.settled()

    async def _turn(self, what: str, words: str) -> None:
        name = f"{self.number}"
        async with self.memory.thread("t", resource="alice").turn() as turn:
            asked = UserMessage(f"{name} {words}", id=f"u{name}")
            messages: list[NewMessage] = [asked]
            self._sane((await turn.prepare(asked)).tail)
            if what in {"call", "open"}:
                call = AssistantMessage(
                    [ToolCallPart(id=f"c{name}", name="read", arguments={"p": words})], id=f"a{name}"
                )
                messages.append(call)
                await turn.record(call)
            if what == "call":
                result = ToolMessage(f"c{name}", words, id=f"r{name}")
                messages.append(result)
                self._sane((await turn.prepare(result)).tail)
            if what == "discard":
                await turn.discard()
                return
            answer = AssistantMessage(f"answer {words}", id=f"f{name}")
            messages.append(answer)
            await turn.record(answer)
        self.said |= {str(message.id): message.parts for message in messages}

    def _sane(self, tail: Any) -> None:
        """Every call is followed by its result, no summary is shown twice, nothing is shown compacted and whole."""
        waiting: set[str] = set()
        for message in tail:
            results = {part.call_id for part in message.parts if isinstance(part, ToolResultPart)}
            assert results <= waiting
            assert results or not waiting
            waiting = (waiting - results) | {part.id for part in message.parts if isinstance(part, ToolCallPart)}
        assert not waiting
        seqs = [message.seq for message in tail if message.seq is not None and not message.synthetic]
        assert seqs == sorted(set(seqs))
        summaries = [message.parts[0].text for message in tail if message.synthetic and message.seq is not None]
        assert len(summaries) == len(set(summaries))

    async def check(self) -> None:
        """Raw texts are what was saved; what is not compacted has no other text; batches neither overlap nor tear pairs."""
        store = (await self.memory.open()).store
        rows: tuple[Message, ...] = await store.messages.after("alice", "t") if self.said else ()
        assert {row.id: row.parts for row in rows} == self.said
        for row in rows:
            assert (row.level == 0) == (row.injection is None)
            assert row.level > 0 or row.search is None
        made = [one for one in await store.compactions.list("alice", "t") if one.restored_at is None] if rows else []
        spans = [one.span for one in made]
        assert all(before.last < after.first for before, after in pairwise(spans))
        assert {row.seq for row in rows if row.level > 0} == {r.seq for r in rows if any(r.seq in s for s in spans)}
        owner = {row.seq: next((s.first for s in spans if row.seq in s), 0) for row in rows}
        calls = {part.id: row.seq for row in rows for part in row.parts if isinstance(part, ToolCallPart)}
        for row in rows:
            for part in row.parts:
                if isinstance(part, ToolResultPart):
                    assert owner[calls[part.call_id]] == owner[row.seq]

    async def restore_all(self) -> None:
        """Bring everything back, and find it as it was saved."""
        store = (await self.memory.open()).store
        for thread in (await store.threads.list("alice")).items:
            for made in await self.memory.thread(thread.id, resource="alice").compactions():
                await self.memory.thread(thread.id, resource="alice").restore_compaction(made.id)
            for row in await store.messages.after("alice", thread.id):
                assert (row.level, row.injection, row.search) == (0, None, None)
        await self.check()


async def _live(config: Config, steps: list[tuple[str, Any]]) -> None:
    clock = FakeClock(AT)
    async with Memory(":memory:", config=config, clock=clock) as memory:
        world = World(memory, clock)
        await world.step("talk", "hello")
        for what, with_ in steps:
            await world.step(what, with_)
            await world.check()
        await world.restore_all()


@settings(max_examples=counts(25, 500), deadline=None)
@given(st.booleans(), st.lists(STEP, min_size=5, max_size=25))
def test_nothing_is_lost_by_compacting(observes: bool, steps: list[tuple[str, Any]]) -> None:
    """Whatever is done in whatever order, with a log or without."""
    asyncio.run(_live(LOGGED if observes else PLAIN, steps))


def test_the_machine_finds_a_torn_pair() -> None:
    """The check itself can fail: a call in a batch and its result outside is noticed."""
    clock = FakeClock(AT)

    async def tear() -> None:
        async with Memory(":memory:", config=PLAIN, clock=clock) as memory:
            world = World(memory, clock)
            await world.step("call", "x")
            store = (await memory.open()).store
            rows = [RowTexts(seq=seq, search="x", brief="x") for seq in (1, 2)]
            await store.compactions.compact("alice", "t", rows, summary="torn", now=clock.now())
            await world.check()

    with pytest.raises(AssertionError):
        asyncio.run(tear())
