"""What a store remembers of its last snapshot never differs from what is in the database, whoever changed that."""

import random
from dataclasses import replace

import pytest

from kit.effort import counts
from kit.engines import OpenStore
from kit.talk import forget_thread
from memolog.core.message import AssistantMessage, NewMessage, ToolCallPart, ToolMessage, UserMessage
from memolog.core.observation import Observation, Span
from memolog.errors import LeaseLost, StoreError
from memolog.log.runs import NewRun, RunClaim, RunResult
from memolog.log.snapshot import Snapshot
from memolog.log.store import Rendered
from memolog.store import Store
from memolog.testing import FakeClock

RESOURCE, THREAD = "alice", "t1"
_FAILS = 0.2


class Author:
    """Changes a thread at random, each time through another store."""

    def __init__(self, seed: int, clock: FakeClock) -> None:
        self.chance, self.clock = random.Random(seed), clock
        self.number = 0
        self.claim: RunClaim | None = None

    def messages(self) -> list[NewMessage]:
        """Return something to say; now and then a call and its result, or a text too long to be kept in memory."""
        self.number += 1
        call = ToolCallPart(id=f"c{self.number}", name="look")
        kinds: list[list[NewMessage]] = [
            [UserMessage(f"question {self.number}", id=f"m{self.number}")],
            [AssistantMessage(call), ToolMessage(call.id, f"found {self.number}")],
            [UserMessage("long " * 6_000)],
        ]
        return self.chance.choices(kinds, [6, 3, 1])[0]

    async def save(self, store: Store) -> None:
        """Say something, in one of a few turns."""
        await store.messages.save(RESOURCE, THREAD, self.messages(), turn=f"turn-{self.number % 4}")

    async def grow(self, store: Store) -> None:
        """Add to a message that was saved before."""
        more = [UserMessage([f"question {self.number}", " and more"], id=f"m{self.number}")]
        try:
            await store.messages.save(RESOURCE, THREAD, more)
        except StoreError:
            # It was withdrawn, or was something else: then it stays as it is.
            return

    async def withdraw(self, store: Store) -> None:
        """Take a turn back."""
        turn = f"turn-{self.chance.randrange(4)}"
        await store.withdrawals.withdraw(RESOURCE, THREAD, turn)

    async def begin_again(self, store: Store) -> None:
        """Forget the thread, and begin one of the same name."""
        await forget_thread(store)
        self.clock.advance(seconds=1)
        await self.save(store)

    async def start(self, store: Store) -> None:
        """Begin to observe some messages."""
        seen = await store.logs.snapshot(RESOURCE, THREAD, "thread")
        held = max((group.span.last for group in seen.buffered if group.span), default=seen.cursor)
        live = [message.seq for message in seen.tail if message.seq > held and message.state == "live"]
        if not live or seen.runs:
            return
        span = Span(first=held + 1, last=self.chance.choice(live[:4]))
        run = NewRun(id=store.new_id(), kind="observe", thread=THREAD, span=span, inputs={})
        (self.claim,) = await store.runs.start(
            RESOURCE, seen.log.pk, seen.log.version, [run], owner="o", now=self.clock.now(), lease=30
        )

    async def finish(self, store: Store) -> None:
        """Bring what was observed, or fail once."""
        if self.claim is None:
            return
        now, claim = self.clock.now(), self.claim
        if self.chance.random() < _FAILS:
            failed = await store.runs.fail(RESOURCE, claim, "no answer", now=now, retry_at=now)
            if failed is not None:
                self.claim = await store.runs.take_over(RESOURCE, claim.run, claim.fence, owner="o", now=now, lease=30)
            return
        self.claim = None
        line = Observation(
            id=store.new_id(), group=claim.run, ordinal=1, priority="medium", text=f"seen {self.number}", said_at=now
        )
        made = RunResult(group=claim.run, observations=(line,), hints=None, tokens=5, model="m", prompt_version="1")
        try:
            await store.runs.finish(RESOURCE, claim, made, now=now)
        except LeaseLost:
            # What it was about was withdrawn.
            return

    async def activate(self, store: Store) -> None:
        """Let the log take over what was observed."""
        seen = await store.logs.snapshot(RESOURCE, THREAD, "thread")
        for group in seen.buffered:
            # What was withdrawn leaves a hole that nothing goes beyond.
            if group.span and group.span.first == seen.cursor + 1:
                shown = Rendered(id=group.id, text=f"group {self.number}", tokens=5)
                await store.logs.activate(seen.resource, seen.log.pk, seen.log.version, [shown], now=self.clock.now())

    async def observe(self, store: Store) -> None:
        """Do all three at once."""
        for step in (self.start, self.finish, self.activate):
            await step(store)

    async def edit(self, store: Store) -> None:
        """Take a line of the log out of sight, or bring it back."""
        seen = await store.logs.snapshot(RESOURCE, THREAD, "thread")
        lines = await store.logs.observations(seen.resource, seen.log.pk, [group.id for group in seen.groups])
        if not lines:
            return
        line = self.chance.choice(lines)
        if line.state == "retracted":
            await store.line_edits.reinstate(RESOURCE, line.id)
        elif line.state == "active":
            await store.line_edits.retract(RESOURCE, line.id)

    async def restore(self, store: Store) -> None:
        """Bring the first generation back."""
        await store.logs.restore(await store.logs.snapshot(RESOURCE, THREAD, "thread"), 0, now=self.clock.now())

    async def fail(self, store: Store) -> None:
        """Save and read, and lose all of it at the last moment."""

        def lose(point: str) -> None:
            if point.endswith(":before"):
                raise StoreError("The disk is full.")

        store.engine.commit_hook = lose
        try:
            await store.save_and_snapshot(RESOURCE, THREAD, self.messages(), turn="turn-1", owner="o", scope="thread")
        except StoreError:
            return
        finally:
            store.engine.commit_hook = None

    async def step(self, store: Store) -> str:
        """Do one of these; return its name."""
        steps = {
            self.save: 24,
            self.grow: 3,
            self.withdraw: 4,
            self.observe: 2,
            self.start: 6,
            self.finish: 6,
            self.activate: 6,
            self.edit: 3,
            self.fail: 3,
            self.restore: 1,
            self.begin_again: 1,
        }
        chosen = self.chance.choices(list(steps), list(steps.values()))[0]
        await chosen(store)
        return chosen.__name__


def bare(snapshot: Snapshot) -> Snapshot:
    """Return a snapshot without what is only remembered."""
    return replace(snapshot, known={})


@pytest.mark.parametrize("engine_name", ["sqlite", "postgres"], indirect=True)
@pytest.mark.parametrize("seed", range(counts(3, 20)))
async def test_what_is_remembered_is_what_is_there(open_a_store: OpenStore, clock: FakeClock, seed: int) -> None:
    """Two stores take turns in changing a thread, and whenever one looks, it sees what one that was just opened sees."""
    one, other = await open_a_store(), await open_a_store()
    author = Author(seed, clock)
    await author.save(one)
    done: list[str] = []
    for _ in range(80):
        done.append(await author.step(author.chance.choice([one, other])))
        clock.advance(seconds=1)
        fresh = await open_a_store()
        expected = bare(await fresh.logs.snapshot(RESOURCE, THREAD, "thread"))
        await fresh.close()
        # Who looks seldom has missed several changes.
        for store in author.chance.sample((one, other), author.chance.randrange(3)):
            assert bare(await store.logs.snapshot(RESOURCE, THREAD, "thread")) == expected, done
    assert {"withdraw", "start", "finish", "activate"} <= set(done)


@pytest.mark.parametrize("engine_name", ["sqlite", "postgres"], indirect=True)
async def test_groups_that_did_not_change_are_the_very_same(open_a_store: OpenStore, clock: FakeClock) -> None:
    """A run that begins and ends leaves them as they are; an activation or an edit elsewhere leaves the others."""
    one, other = await open_a_store(), await open_a_store()
    author = Author(1, clock)
    author.chance.random = lambda: 1.0
    for _ in range(2):
        await author.save(one)
        await author.observe(one)
    before = await one.logs.snapshot(RESOURCE, THREAD, "thread")
    assert len(before.groups) == 2
    await author.save(one)
    await author.start(one)
    started = await one.logs.snapshot(RESOURCE, THREAD, "thread")
    assert started.groups is before.groups
    await author.finish(one)
    finished = await one.logs.snapshot(RESOURCE, THREAD, "thread")
    assert finished.groups is before.groups
    assert before.log.version < started.log.version < finished.log.version
    await author.activate(other)
    activated = await one.logs.snapshot(RESOURCE, THREAD, "thread")
    assert len(activated.groups) == 3
    assert all(group is known for group, known in zip(activated.groups, before.groups, strict=False))
    line = (await other.logs.observations(before.resource, before.log.pk, [before.groups[1].id]))[0]
    await other.line_edits.retract(RESOURCE, line.id)
    edited = await one.logs.snapshot(RESOURCE, THREAD, "thread")
    assert [group is known for group, known in zip(edited.groups, activated.groups, strict=True)] == [True, False, True]


@pytest.mark.parametrize("engine_name", ["sqlite", "postgres"], indirect=True)
async def test_who_missed_an_activation_reads_it(open_a_store: OpenStore, clock: FakeClock) -> None:
    """A run that ends passes on what is known of the log only if nobody changed the log since that was read."""
    one, other = await open_a_store(), await open_a_store()
    author = Author(1, clock)
    author.chance.random = lambda: 1.0
    await author.save(one)
    await author.start(one)
    await author.finish(one)
    await author.save(one)
    await author.start(one)
    await author.activate(other)
    await author.finish(one)
    found = await one.logs.snapshot(RESOURCE, THREAD, "thread")
    assert len(found.groups) == 1
    assert found.groups == (await other.logs.snapshot(RESOURCE, THREAD, "thread")).groups
