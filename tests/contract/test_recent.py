"""What a store remembers of its last snapshot never differs from what is in the database, whoever changed that."""

import random
from dataclasses import replace

import pytest

from conftest import FakeClock, OpenStore, counts
from contract.test_scope import render
from memolog.domain.errors import StoreError
from memolog.domain.message import AssistantMessage, NewMessage, ToolCallPart, ToolMessage, UserMessage
from memolog.domain.observation import Observation, Span
from memolog.store import Store
from memolog.store.logs import Rendered
from memolog.store.runs import Made, NewRun
from memolog.store.snapshot import Snapshot

RESOURCE, THREAD = "alice", "t1"


class Author:
    """Changes a thread at random, each time through another store."""

    def __init__(self, seed: int, clock: FakeClock) -> None:
        self.chance, self.clock = random.Random(seed), clock
        self.number = 0

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
        await store.withdrawals.withdraw(RESOURCE, THREAD, turn, after=0, now=self.clock.now(), render=render)

    async def begin_again(self, store: Store) -> None:
        """Delete the thread, and begin one of the same name."""
        await store.threads.delete(RESOURCE, THREAD)
        self.clock.advance(seconds=1)
        await self.save(store)

    async def observe(self, store: Store) -> None:
        """Let the log take over some messages."""
        seen = await store.logs.snapshot(RESOURCE, THREAD, "thread")
        live = [message.seq for message in seen.tail[: self.chance.randrange(1, 5)] if message.state == "live"]
        if not live or seen.buffered:
            return
        now, log = self.clock.now(), seen.log
        span = Span(first=seen.cursor + 1, last=live[-1])
        run = NewRun(id=store.new_id(), kind="observe", thread=THREAD, span=span, inputs={})
        (claim,) = await store.runs.start(RESOURCE, log.pk, log.version, [run], owner="o", now=now, lease=30)
        line = Observation(
            id=store.new_id(), group=run.id, ordinal=1, priority="medium", text=f"seen {self.number}", said_at=now
        )
        made = Made(group=run.id, observations=(line,), hints=None, tokens=5, model="m", prompt_version="1")
        await store.runs.finish(RESOURCE, claim, made, now=now)
        version = (await store.logs.snapshot(RESOURCE, THREAD, "thread")).log.version
        group = Rendered(id=run.id, text=f"group {self.number}", tokens=5)
        await store.logs.activate(log.pk, version, [group], now=now)

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
            await store.save_and_snapshot(RESOURCE, THREAD, self.messages(), turn="turn-1", scope="thread")
        except StoreError:
            return
        finally:
            store.engine.commit_hook = None

    async def step(self, store: Store) -> str:
        """Do one of these; return its name."""
        steps = [self.save, self.grow, self.withdraw, self.observe, self.fail, self.restore, self.begin_again]
        chosen = self.chance.choices(steps, [24, 3, 4, 2, 3, 1, 1])[0]
        await chosen(store)
        return chosen.__name__


def bare(snapshot: Snapshot) -> Snapshot:
    """Return a snapshot without what is only remembered."""
    return replace(snapshot, known={})


@pytest.mark.parametrize("engine_name", ["sqlite", "postgres"], indirect=True)
@pytest.mark.parametrize("seed", range(counts(3, 20)))
async def test_what_is_remembered_is_what_is_there(open_a_store: OpenStore, clock: FakeClock, seed: int) -> None:
    """Two stores take turns in changing a thread, and each sees what one that was just opened sees."""
    one, other = await open_a_store(), await open_a_store()
    author = Author(seed, clock)
    await author.save(one)
    done: list[str] = []
    for _ in range(60):
        done.append(await author.step(author.chance.choice([one, other])))
        clock.advance(seconds=1)
        fresh = await open_a_store()
        expected = bare(await fresh.logs.snapshot(RESOURCE, THREAD, "thread"))
        await fresh.close()
        for store in (one, other):
            assert bare(await store.logs.snapshot(RESOURCE, THREAD, "thread")) == expected, done
    assert {"withdraw", "observe"} <= set(done)
