"""Runs that another process holds: `--once` says so, or waits for them."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

from kit.clock import until
from kit.engines import engines
from memolog import Memory, UserMessage
from memolog.apps.worker import queue
from worker.children import LIMIT, a_worker, is_drained
from worker.test_stop import PATIENT, WORDS, Gated, turns_of, worker_here

engine_name = engines("sqlite", "postgres")


@asynccontextmanager
async def a_holder(address: str) -> AsyncGenerator[Gated]:
    """Open a memory that has begun a run and waits for its model. For other processes it may as well be dead."""
    model = Gated()
    async with Memory(address, model=model, config=PATIENT.with_overrides({"background": "loop"})) as memory:
        await turns_of(memory, "red")

        async def is_asked() -> bool:
            return model.asked > 0

        await until(is_asked, LIMIT)
        try:
            yield model
        finally:
            model.gate.set()
            await memory.settled()


async def test_once_says_who_holds_a_run(address: str) -> None:
    """The lease is longer than the grace: the worker says that work is left, with the exit code for `try again later`."""
    async with a_holder(address):
        here = worker_here(address, once=True, grace=10.0)
        counts = await here.task
    assert (counts.runs, counts.exit_code) == (0, 4)
    assert here.told[-1]["held"] == 1
    assert "1 run is held by another process until " in here.told[-1]["words"]


async def test_once_waits_for_a_lease(address: str) -> None:
    """The lease ends within the grace: the worker waits for the end of the run."""
    async with a_holder(address) as model:
        here = worker_here(address, once=True, grace=10_000.0)
        await here.heard("held")
        model.gate.set()
        counts = await here.task
    assert counts.exit_code == 0
    assert here.told[-1]["held"] == 0


def never(seconds: int) -> str:
    """Return a schedule without a sweep during a test."""
    del seconds
    return "0 0 29 2 *"


async def test_a_look_finds_work_without_a_job(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Messages that no turn has asked for are found after the next look at any log, not only by the next periodic sweep."""
    monkeypatch.setattr(queue, "_cron", never)
    async with Memory(postgres_url, config=PATIENT) as memory:
        await memory.thread("blue", resource="alice").save([UserMessage(WORDS * 20) for _ in range(4)])
        assert [due.job.thread for due in await memory.due()] == ["blue"]
        worker = worker_here(postgres_url)
        worker.model.gate.set()
        await turns_of(memory, "red")
        await until(lambda: is_drained(memory, "red", "blue"), LIMIT)
    worker.stop.set()
    assert (await worker.task).runs > 1


async def test_a_run_is_taken_over_when_its_lease_ends(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker on PostgreSQL need not wait for its next sweep, which is never in this test."""
    monkeypatch.setattr(queue, "_cron", never)
    async with Memory(postgres_url, config=PATIENT) as memory:
        async with a_worker(postgres_url, seconds=600) as first:
            await turns_of(memory, "red")
            await first.heard("asked")
            await first.kill()
        second = worker_here(postgres_url)
        second.model.gate.set()
        await until(lambda: is_drained(memory, "red"), LIMIT)
    second.stop.set()
    assert (await second.task).recovered_runs == 1
