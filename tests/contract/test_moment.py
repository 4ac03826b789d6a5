"""A snapshot is of one moment, whatever others do while it is read: a context made of it shows every message exactly once."""

import asyncio

import pytest

from contract.meanwhile import Scribe
from contract.test_recent import RESOURCE, THREAD, Author
from kit.engines import OpenStore
from memolog.context.build import Contexts, View
from memolog.core.config import Config
from memolog.core.message import UserMessage
from memolog.log.snapshot import Snapshot
from memolog.store import Store
from memolog.testing import FakeClock
from memolog.text.tokens import HeuristicCounter

ROUNDS = 40

pytestmark = pytest.mark.parametrize("engine_name", ["sqlite", "postgres"], indirect=True)


class Reader:
    """Reads snapshots for as long as somebody writes, and says what does not fit together."""

    def __init__(self, store: Store) -> None:
        self.store, self.is_over = store, False
        self.read, self.torn = 0, list[str]()

    async def snapshots(self) -> None:
        """Read without saying anything."""
        while not self.is_over:
            self.look_at(await self.store.logs.snapshot(RESOURCE, THREAD, "thread"))
            await asyncio.sleep(0)

    async def turns(self) -> None:
        """Say something and read in one call."""
        while not self.is_over:
            said = UserMessage(f"beside {self.read}")
            saved, seen = await self.store.save_and_snapshot(
                RESOURCE, THREAD, [said], turn="beside", owner="o", scope="thread"
            )
            self.look_at(seen)
            shown = {message.seq for message in seen.tail}
            assert all(message.seq in shown or message.seq <= seen.cursor for message in saved.messages)
            await asyncio.sleep(0)

    def look_at(self, seen: Snapshot) -> None:
        """Compare what the log covers with where the tail begins, and what is under way with what failed."""
        self.read += 1
        covered = max((group.span.last for group in seen.groups if group.span), default=0)
        if covered != seen.cursor:
            self.torn.append(f"the log covers {covered}, the tail begins after {seen.cursor}")
        if any(run.status == "failed" for run in seen.runs) and not seen.log.failures:
            self.torn.append("a run has failed, and nobody counts it")
        ahead = [group.span.last for group in seen.buffered if group.span and group.span.last <= seen.cursor]
        if ahead:
            self.torn.append(f"{ahead} is buffered, and in the log up to {seen.cursor}")


@pytest.mark.parametrize("way", ["snapshots", "turns"])
async def test_a_snapshot_is_of_one_moment(open_a_store: OpenStore, clock: FakeClock, way: str) -> None:
    """Two processes: one observes and activates, the other reads as often as it can."""
    one, other = await open_a_store(), await open_a_store()
    author, reader = Author(7, clock), Reader(other)
    await author.save(one)
    reading = asyncio.create_task(getattr(reader, way)())
    rounds = 0
    async with asyncio.timeout(300):
        while rounds < ROUNDS or reader.read < ROUNDS / 4:
            await author.save(one)
            await author.observe(one)
            await asyncio.sleep(0)
            rounds += 1
    reader.is_over = True
    await reading
    assert not reader.torn, f"{len(reader.torn)} of {reader.read}: {reader.torn[:5]}"


async def test_a_context_shows_other_threads_from_where_its_log_ends(open_a_store: OpenStore, clock: FakeClock) -> None:
    """What the shared log takes over after it was read is shown as it was said: it is not out of sight for a request."""
    store = await open_a_store()
    for thread in (THREAD, "t2"):
        await store.messages.save(RESOURCE, thread, UserMessage(f"what was said in {thread}"))
    scribe = Scribe(store, clock, "resource")
    await scribe.observe("t2", "a line about t2")
    seen = await store.logs.snapshot(RESOURCE, THREAD, "resource")
    await scribe.activate("t2")
    counter, config = HeuristicCounter(), Config(scope="resource")
    contexts = Contexts(store, counter)
    for snapshot in (seen, await store.logs.snapshot(RESOURCE, THREAD, "resource")):
        made = await contexts.build(View(snapshot=snapshot, config=config, now=clock.now(), counter=counter))
        assert ("what was said in t2" in str(made.context)) is (snapshot is seen)
        assert ("text of g1" in str(made.context)) is (snapshot is not seen)
