"""The queue before the connections and threads of a process: its order, what it costs, and when it gives up."""

import asyncio
from collections.abc import Callable

import pytest

from memolog.core.deadline import Budget, background_task, ranked
from memolog.db.queue import CallQueue
from memolog.errors import StoreBusy


@pytest.fixture
async def move(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Return a function that lets seconds pass. Time passes only when it is told to."""
    loop = asyncio.get_running_loop()
    now = loop.time()
    monkeypatch.setattr(loop, "time", lambda: now)

    def moving(seconds: float) -> None:
        nonlocal now
        now += seconds

    return moving


async def settle() -> None:
    """Let every task run that can."""
    for _ in range(10):
        await asyncio.sleep(0)


async def test_the_step_that_began_first_is_served_first(move: Callable[[float], None]) -> None:
    """The second call of an early step comes before the first call of a late one."""
    queue, served = CallQueue(1, what="connections"), list[str]()

    async def step(name: str, calls: int, begun: asyncio.Event) -> None:
        async with Budget(1_000.0, patience=1_000.0).limit():
            begun.set()
            for number in range(calls):
                async with queue.place():
                    served.append(f"{name}{number}")
                    await asyncio.sleep(0)

    await queue.enter()
    tasks = list[asyncio.Task[None]]()
    for name in "abc":
        begun = asyncio.Event()
        tasks.append(asyncio.create_task(step(name, 3, begun)))
        await begun.wait()
        move(1.0)
    await settle()
    assert queue.waiting == 3
    queue.leave()
    await asyncio.gather(*tasks)
    # While `b0` is served, `a` asks for its second place and gets it next.
    assert [name for name in served if name[0] == "a"] == ["a0", "a1", "a2"]
    assert served.index("a2") < served.index("b2") < served.index("c2")
    assert served.index("a2") < served.index("c1")


async def test_turns_come_before_the_background_which_is_not_forgotten() -> None:
    """One place of four is for the background, as long as turns wait. A heartbeat comes first."""
    queue, served = CallQueue(1, what="connections"), list[str]()

    async def call(name: str) -> None:
        async with queue.place():
            served.append(name)

    async def beat() -> None:
        with ranked("urgent"):
            await call("beat")

    await queue.enter()
    tasks = [background_task(call("background")) for _ in range(3)]
    tasks += [asyncio.create_task(call("turn")) for _ in range(7)]
    await settle()
    tasks.append(background_task(beat()))
    await settle()
    queue.leave()
    await asyncio.gather(*tasks)
    turns = ["turn"] * 3
    assert served == ["beat", *turns[:2], "background", *turns, "background", *turns[:2], "background"]


async def test_waiting_costs_nothing_while_the_queue_moves(move: Callable[[float], None]) -> None:
    """A step of one second waits a minute for its turn, and then still has its second."""
    queue = CallQueue(1, what="connections")

    async def step() -> float:
        budget = Budget(1.0, patience=100.0)
        async with budget.limit(), queue.place():
            return budget.left
        raise AssertionError

    await queue.enter()
    others = [asyncio.create_task(queue.enter()) for _ in range(100)]
    await settle()
    waiting = asyncio.create_task(step())
    await settle()
    for _ in range(100):
        move(0.6)
        queue.leave()
        await settle()
    assert all(other.done() for other in others)
    assert not waiting.done()
    queue.leave()
    assert await waiting == pytest.approx(1.0)


async def test_a_step_without_time_cannot_queue(move: Callable[[float], None]) -> None:
    """A step whose time is used up does not say that it waited for 0.0 s."""
    queue = CallQueue(1, what="connections")
    await queue.enter()
    budget = Budget(1.0, patience=100.0)
    move(2.0)
    with pytest.raises(StoreBusy, match=r"The step had no time left to wait for its turn\..*1 call"):
        async with budget.limit(), queue.place():
            raise AssertionError


async def test_a_queue_that_does_not_move_uses_up_the_budget(move: Callable[[float], None]) -> None:
    """The error says how many places there are and how many calls wait, and nothing of the budget is left."""
    queue = CallQueue(2, what="connections")
    await queue.enter()
    await queue.enter()
    budget = Budget(1.0, patience=100.0)

    async def step() -> None:
        async with budget.limit(), queue.place():
            raise AssertionError

    waiting = asyncio.create_task(step())
    await settle()
    move(0.9)
    await settle()
    assert not waiting.done()
    move(0.2)
    with pytest.raises(
        StoreBusy, match=r"waited 1\.1 s.*All 2 connections of this process are in use, and 1 call waits"
    ):
        await waiting
    assert budget.left == 0.0


async def test_patience_ends(move: Callable[[float], None]) -> None:
    """However well the queue moves, a step waits no longer than its patience, in all its calls and limits together."""
    queue = CallQueue(1, what="connections")
    await queue.enter()
    budget = Budget(1.0, patience=2.0)

    async def step() -> None:
        async with budget.limit():
            async with queue.place():
                pass
            # A limit inside has no patience of its own.
            async with Budget(1.0).limit(), queue.place():
                raise AssertionError

    async def overtake() -> None:
        with ranked("urgent"):
            await queue.enter()

    waiting = asyncio.create_task(step())
    await settle()
    move(0.9)
    other = asyncio.create_task(queue.enter())
    await settle()
    queue.leave()
    await other
    for _ in range(2):
        assert not waiting.done()
        other = asyncio.create_task(overtake())
        await settle()
        move(0.6)
        queue.leave()
        await other
        await settle()
    with pytest.raises(StoreBusy, match="for its turn"):
        await waiting


async def test_a_cancelled_call_passes_its_place_on() -> None:
    """Whether it was cancelled while it waited or after it had got its place."""
    queue = CallQueue(1, what="connections")
    for is_served in (False, True):
        await queue.enter()
        first, second = asyncio.create_task(queue.enter()), asyncio.create_task(queue.enter())
        await settle()
        if is_served:
            queue.leave()
        first.cancel()
        await settle()
        assert first.cancelled()
        if not is_served:
            queue.leave()
        await second
        queue.leave()
    assert queue.waiting == 0
    await queue.enter()
