"""A late writer is harmless: whoever lost a lease or a race changes nothing, and no model is asked twice for what succeeded."""

import asyncio
import re
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from crash.survivors import select
from kit.effort import counts
from kit.engines import engines
from kit.talk import hold, listen
from memolog import Config, ObservationConfig, ReflectionConfig, UserMessage
from memolog.core.observation import Observation, Source, Span
from memolog.core.run import Usage
from memolog.core.thread import Hints
from memolog.errors import Conflict, LeaseLost
from memolog.events import Activated, Event, Recovered, RunFailed
from memolog.log.runs import NewRun, RunClaim, RunResult
from memolog.log.store import Rendered
from memolog.memory import Memory
from memolog.observer.model import ModelRequest
from memolog.store import Store
from memolog.testing import FakeClock, ScriptedModel, observations_of

RESOURCE, THREAD = "alice", "t1"
engine_name = engines("sqlite", "postgres")


LEASE = 30.0
SMALL = Config(
    observation=ObservationConfig(message_tokens=1_000, previous_tokens=200),
    reflection=ReflectionConfig(observation_tokens=4_000),
    activate_after_idle=False,
    close_timeout=60,
    # The clock is moved on by more than a lease; on a machine that stands still for long, nobody renews it meanwhile.
    lease=290,
    heartbeat=280,
)
PATIENT = replace(SMALL.observation, deadline=0)
# Everything that a run could leave behind.
TABLES = (
    *("logs", "runs", "groups", "observations", "observation_sources", "observation_merges", "cursors"),
    *("log_entries", "generations", "usage", "messages"),
)


async def everything(store: Store) -> list[list[Any]]:
    """Return all rows that a run could touch."""
    return await select(store, *(f"SELECT * FROM {table} ORDER BY 1, 2" for table in TABLES))


def made(group: str, text: str = "They said hello") -> RunResult:
    """Return what a run made of the first message."""
    line = Observation(
        id=f"line-{group}",
        group=group,
        ordinal=1,
        priority="medium",
        text=text,
        sources=(Source(thread=THREAD, span=Span(first=1, last=1)),),
        tokens=4,
    )
    usage = Usage(model="m", input_tokens=10, cost=0.5, kind="observe", thread=THREAD)
    return RunResult(
        group=group, observations=(line,), hints=Hints(), tokens=4, model="m", prompt_version="1", usage=usage
    )


async def start(store: Store, clock: FakeClock, owner: str) -> RunClaim:
    """Start a run over the first message of a thread."""
    await store.messages.save(RESOURCE, THREAD, UserMessage("hello", id="m1"))
    log = (await store.logs.snapshot(RESOURCE, THREAD, "thread")).log
    run = NewRun(id="run", kind="observe", thread=THREAD, span=Span(first=1, last=1), inputs={})
    now = clock.now()
    return (await store.runs.start(RESOURCE, log.pk, log.version, [run], owner=owner, now=now, lease=LEASE))[0]


async def try_all(store: Store, clock: FakeClock, zombie: RunClaim) -> None:
    """Let a zombie try everything; each try is refused and leaves every row as it was."""
    before = await everything(store)
    now = clock.now()
    with pytest.raises(LeaseLost):
        await store.runs.finish(RESOURCE, zombie, made("zombie"), now=now)
    assert await everything(store) == before
    with pytest.raises(LeaseLost):
        await store.runs.heartbeat(RESOURCE, zombie, now=now, lease=LEASE)
    assert await everything(store) == before
    assert await store.runs.fail(RESOURCE, zombie, "late", now=now, retry_at=now + timedelta(seconds=5)) is None
    assert await everything(store) == before
    assert not await store.runs.abandon(RESOURCE, zombie, "late", now=now)
    assert await everything(store) == before


# ---------------------------------------------------------------- leases


async def test_a_zombie_is_refused(store: Store, clock: FakeClock) -> None:
    """Taken over, finished or activated by another: the first owner can neither finish, renew, fail nor give up the run."""
    first = await start(store, clock, "first")
    clock.advance(seconds=LEASE + 1)
    second = await store.runs.take_over(RESOURCE, first.run, first.fence, owner="second", now=clock.now(), lease=LEASE)
    assert second is not None
    assert second.fence == first.fence + 1
    await try_all(store, clock, first)
    await store.runs.finish(RESOURCE, second, made("good"), now=clock.now())
    await try_all(store, clock, first)
    await try_all(store, clock, second)
    log = (await store.logs.snapshot(RESOURCE, THREAD, "thread")).log
    await store.logs.activate(
        RESOURCE, log.pk, log.version, [Rendered(id="good", text="text", tokens=1)], now=clock.now()
    )
    await try_all(store, clock, first)
    snapshot = await store.logs.snapshot(RESOURCE, THREAD, "thread")
    assert [group.id for group in snapshot.groups] == ["good"]
    assert snapshot.cursor == 1


async def test_a_zombie_among_runs_that_are_finished_together(store: Store, clock: FakeClock) -> None:
    """Of three results that are stored in one transaction, the one of a lost lease changes nothing, wherever it stands."""
    names = ("a", "b", "c")
    for place in range(3):
        resource = f"{RESOURCE}-{place}"
        for name in names:
            await store.messages.save(resource, name, UserMessage("hello"))
        log = (await store.logs.snapshot(resource, "a", "resource")).log
        runs = [
            NewRun(id=f"{place}-{name}", kind="observe", thread=name, span=Span(first=1, last=1), inputs={})
            for name in names
        ]
        claims = await store.runs.start(
            resource, log.pk, log.version, runs, owner="first", now=clock.now(), lease=LEASE
        )
        lost = claims[place]
        late = clock.now() + timedelta(seconds=LEASE + 1)
        taken = await store.runs.take_over(resource, lost.run, lost.fence, owner="second", now=late, lease=LEASE)
        assert taken is not None
        results = [(claim, made(f"of {claim.run}")) for claim in claims]
        assert await store.runs.finish_all(resource, results, now=clock.now()) == (lost,)
        # All of them are late now.
        before = await everything(store)
        assert await store.runs.finish_all(resource, results, now=clock.now()) == claims
        assert await everything(store) == before
        buffered = (await store.logs.snapshot(resource, "a", "resource")).buffered
        assert [group.id for group in buffered] == [f"of {claim.run}" for claim in claims if claim is not lost]
        assert [group.handle for group in buffered] == ["g1", "g2"]
        await store.runs.finish(resource, taken, made(f"of another {place}"), now=late)
        buffered = (await store.logs.snapshot(resource, "a", "resource")).buffered
        assert {group.handle for group in buffered} == {"g1", "g2", "g3"}


async def test_what_a_zombie_spent_is_known(store: Store, clock: FakeClock) -> None:
    """A late failure changes nothing but the ledger: the money is gone all the same."""
    first = await start(store, clock, "first")
    clock.advance(seconds=LEASE + 1)
    assert await store.runs.take_over(RESOURCE, first.run, first.fence, owner="second", now=clock.now(), lease=LEASE)
    before = await everything(store)
    spent = Usage(model="m", cost=0.25, kind="observe")
    now = clock.now()
    assert await store.runs.fail(RESOURCE, first, "late", now=now, retry_at=now, usage=spent) is None
    after = await everything(store)
    place = TABLES.index("usage")
    assert [rows for table, rows in zip(TABLES, after, strict=True) if table != "usage"] == [
        rows for table, rows in zip(TABLES, before, strict=True) if table != "usage"
    ]
    assert len(after[place]) == len(before[place]) + 1
    assert (await store.ledger.total(RESOURCE)).cost == pytest.approx(0.25)


async def test_a_live_lease_cannot_be_taken(store: Store, clock: FakeClock) -> None:
    """Before its end nobody gets the run, after a heartbeat neither; of many who try later exactly one does."""
    claim = await start(store, clock, "first")
    clock.advance(seconds=LEASE - 1)
    assert await store.runs.take_over(RESOURCE, claim.run, claim.fence, owner="x", now=clock.now(), lease=LEASE) is None
    await store.runs.heartbeat(RESOURCE, claim, now=clock.now(), lease=LEASE)
    clock.advance(seconds=2)
    assert await store.runs.take_over(RESOURCE, claim.run, claim.fence, owner="x", now=clock.now(), lease=LEASE) is None
    clock.advance(seconds=LEASE)
    tries = await asyncio.gather(
        *(
            store.runs.take_over(RESOURCE, claim.run, claim.fence, owner=f"o{number}", now=clock.now(), lease=LEASE)
            for number in range(8)
        )
    )
    assert sum(won is not None for won in tries) == 1


async def test_withdrawn_messages_do_not_come_back(store: Store, clock: FakeClock) -> None:
    """A run over what was withdrawn meanwhile is refused: its owner is a zombie too."""
    await store.messages.save(RESOURCE, THREAD, UserMessage("hello", id="m1"), turn="turn")
    claim = await start(store, clock, "first")
    gone = await store.withdrawals.withdraw(RESOURCE, THREAD, "turn")
    assert (gone.messages, gone.runs) == ((1,), ("run",))
    await try_all(store, clock, claim)


# ---------------------------------------------------------------- two memories on one database

_TRANSCRIPT = re.compile(r"<transcript>.*</transcript>", re.DOTALL)


@pytest.fixture
async def two(address: str, clock: FakeClock) -> AsyncIterator[tuple[Memory, Memory]]:
    """Return two memories on one database, as two processes would have them; they share one model."""
    model = ScriptedModel()
    async with (
        Memory(address, model=model, config=SMALL, clock=clock) as one,
        Memory(address, model=model, config=SMALL, clock=clock) as other,
    ):
        yield one, other


async def talk(memory: Memory, clock: FakeClock, name: str, turns: int, thread: str = THREAD) -> None:
    """Hold some turns."""
    for number in range(turns):
        rest = f"{name} {number} " + "word " * 40
        await hold(memory, f"question {rest}", f"answer {rest}", thread=thread)
        clock.advance(seconds=1)


def asked(model: ScriptedModel) -> Counter[str]:
    """Return how often the model was asked about each transcript."""
    return Counter("".join(_TRANSCRIPT.findall(request.text)) for request in model.requests)


def scripted(memory: Memory) -> ScriptedModel:
    """Return the model of a memory."""
    assert isinstance(memory.model, ScriptedModel)
    return memory.model


async def test_the_loser_of_an_activation_decides_again(two: tuple[Memory, Memory], clock: FakeClock) -> None:
    """Another memory activates between the decision and its commit: the commit is refused, and the next look shows why."""
    one, other = two
    await talk(one, clock, "a", 5)
    await one.settled()
    told: dict[str, list[Event]] = {"one": [], "other": []}
    one.subscribe(told["one"].append)
    other.subscribe(told["other"].append)
    logs = (await one.open()).store.logs
    activate, conflicts = logs.activate, list[Conflict]()

    async def late(*args: Any, **options: Any) -> Any:
        await other.thread(THREAD, resource=RESOURCE).activate()
        try:
            return await activate(*args, **options)
        except Conflict as conflict:
            conflicts.append(conflict)
            raise

    logs.activate = late
    status = await one.thread(THREAD, resource=RESOURCE).activate()
    assert len(conflicts) == 1
    assert not [event for event in told["one"] if isinstance(event, Activated)]
    winners = [event for event in told["other"] if isinstance(event, Activated)]
    assert len(winners) == 1
    assert status == await other.thread(THREAD, resource=RESOURCE).status()
    assert status.groups == len(winners[0].groups)
    assert status.cursor == winners[0].last_seq
    before = len(scripted(one).requests)
    await one.thread(THREAD, resource=RESOURCE).observe()
    assert all(times == 1 for times in asked(scripted(one)).values()), before


async def test_racing_memories_ask_once(two: tuple[Memory, Memory], clock: FakeClock) -> None:
    """Two memories hold turns of one thread at once: each span is observed by one of them, once, and the log tiles."""
    one, other = two
    for number in range(counts(4, 20)):
        await asyncio.gather(talk(one, clock, f"a{number}", 4), talk(other, clock, f"b{number}", 4))
        await asyncio.gather(*(memory.thread(THREAD, resource=RESOURCE).activate() for memory in two))
    await asyncio.gather(*(memory.settled() for memory in two))
    status = await one.thread(THREAD, resource=RESOURCE).observe()
    assert status.cursor == status.last_seq == counts(4, 20) * 16
    times = asked(scripted(one))
    assert len(times) > counts(4, 20)
    assert set(times.values()) == {1}
    snapshot = await (await one.open()).store.logs.snapshot(RESOURCE, THREAD, "thread")
    spans = sorted((group.span.first, group.span.last) for group in snapshot.groups if group.span)
    assert [first for first, _ in spans] == [1, *(last + 1 for _, last in spans[:-1])]


async def test_a_result_is_kept_whatever_happened_to_the_log(address: str, clock: FakeClock) -> None:
    """While a run is under way another memory saves, observes, activates and restores; the result still has its place."""
    gate = asyncio.Event()

    async def held(request: ModelRequest) -> str:
        await gate.wait()
        return observations_of(request)

    slow, quick = ScriptedModel([held]), ScriptedModel()
    async with (
        Memory(address, model=slow, config=SMALL, clock=clock) as one,
        Memory(address, model=quick, config=SMALL, clock=clock) as other,
    ):
        await talk(one, clock, "a", 3)
        await talk(other, clock, "b", 6)
        await other.settled()
        await other.thread(THREAD, resource=RESOURCE).restore(0)
        assert (await other.thread(THREAD, resource=RESOURCE).status()).running == 1
        gate.set()
        await one.settled()
        status = await other.thread(THREAD, resource=RESOURCE).observe()
    assert status.cursor == status.last_seq == 18
    assert set((asked(slow) + asked(quick)).values()) == {1}


async def test_who_takes_over_asks_the_same_question(address: str, clock: FakeClock) -> None:
    """A run's inputs are fixed in its row: neither newer hints nor a longer log change what its next owner asks."""
    reached, never = asyncio.Event(), asyncio.Event()

    async def held(request: ModelRequest) -> str:
        reached.set()
        await never.wait()
        return ""

    slow, quick = ScriptedModel([observations_of, held]), ScriptedModel()
    # Its model never answers, so closing need not wait for it.
    config = replace(SMALL, observation=PATIENT, close_timeout=0.1)
    dead = Memory(address, model=slow, config=config, clock=clock)
    async with Memory(address, model=quick, config=SMALL, clock=clock) as other:
        await talk(dead, clock, "a", 3)
        await dead.settled()
        assert len(slow.requests) == 1
        await talk(dead, clock, "b", 3)
        await asyncio.wait_for(reached.wait(), 120)
        assert len(slow.requests) >= 2
        await other.thread(THREAD, resource=RESOURCE).activate()
        hints = (await (await other.open()).store.threads.get(RESOURCE, THREAD)).hints
        assert hints.current_task is not None
        assert hints.current_task not in slow.requests[1].text
        events = listen(other)
        clock.advance(minutes=5)
        await talk(other, clock, "c", 1)
        await other.settled()
        assert {event.reason for event in events if isinstance(event, Recovered)} == {
            "the lease of its owner has ended"
        }
        assert slow.requests[1].text in [request.text for request in quick.requests]
        before = await everything((await other.open()).store)
        await dead.aclose()
        assert await everything((await other.open()).store) == before


async def test_a_zombie_of_flesh_and_blood(address: str, clock: FakeClock) -> None:
    """A memory whose run was taken over and finished elsewhere gets its answer late: it is told, and nothing changes."""
    gate = asyncio.Event()

    async def held(request: ModelRequest) -> str:
        await gate.wait()
        return observations_of(request).replace("was said", "was said, says a zombie")

    async with (
        Memory(address, model=ScriptedModel([held]), config=SMALL, clock=clock) as zombie,
        Memory(address, model=ScriptedModel(), config=SMALL, clock=clock) as other,
    ):
        await talk(zombie, clock, "a", 3)
        clock.advance(minutes=5)
        await other.resource(RESOURCE).sweep()
        await other.settled()
        await other.thread(THREAD, resource=RESOURCE).observe()
        told = listen(zombie)
        store = (await other.open()).store
        before = await everything(store)
        gate.set()
        await zombie.settled()
        assert await everything(store) == before
        assert [event.retry_at for event in told if isinstance(event, RunFailed)] == [None]
        assert "zombie" not in (await hold(other, "and now?")).render()


async def test_a_clock_that_jumps_does_not_make_a_zombie_of_oneself(address: str, clock: FakeClock) -> None:
    """A machine that slept finds its own lease over: as long as nobody took the run, it is renewed, not asked again."""
    gate = asyncio.Event()

    async def held(request: ModelRequest) -> str:
        await gate.wait()
        return observations_of(request)

    model = ScriptedModel([held])
    async with Memory(address, model=model, config=SMALL, clock=clock) as memory:
        await talk(memory, clock, "a", 3)
        clock.advance(hours=8)
        await talk(memory, clock, "b", 1)
        gate.set()
        await memory.settled()
        status = await memory.thread(THREAD, resource=RESOURCE).observe()
    assert status.cursor == status.last_seq == 8
    assert set(asked(model).values()) == {1}
