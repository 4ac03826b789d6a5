"""A worker that is told to stop begins nothing more, waits for the work under way, and says what it has left."""

import asyncio
import signal
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from kit.clock import until
from kit.engines import engines
from memolog import AssistantMessage, Memory
from memolog.apps.worker.process import WorkerOptions, run_until_signal, run_worker
from memolog.apps.worker.work import WorkerCounts
from memolog.errors import ConfigError
from memolog.observer.model import ModelReply, ModelRequest
from memolog.testing import ScriptedModel
from worker.children import LIMIT
from worker.worker_child import CONFIG

engine_name = engines("sqlite", "postgres")
WORDS = "one two three four five six seven eight nine ten "
PATIENT = CONFIG.with_overrides({"lease": 600, "heartbeat": 60, "observation.parallel": 1})


class Gated(ScriptedModel):
    """A model that answers when the gate is open."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = asyncio.Event()
        self.asked = 0

    async def complete(self, request: ModelRequest) -> ModelReply:
        """Wait for the gate, and answer as scripted."""
        self.asked += 1
        await self.gate.wait()
        return await super().complete(request)


@dataclass(slots=True, kw_only=True)
class Here:
    """A worker in this process."""

    task: "asyncio.Task[WorkerCounts]"
    model: Gated
    stop: asyncio.Event
    told: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])

    async def is_asked(self) -> bool:
        """Return whether the model was asked."""
        assert not self.task.done(), self.task
        return self.model.asked > 0

    async def heard(self, event: str, count: int = 1) -> None:
        """Wait until it has told of so many such events."""

        async def is_so() -> bool:
            return self.task.done() or sum(one["event"] == event for one in self.told) >= count

        await until(is_so, LIMIT)


def worker_here(address: str, model: Gated | None = None, **options: Any) -> Here:
    """Start a worker in this process."""
    stop, told, model = asyncio.Event(), list[dict[str, Any]](), model or Gated()

    def report(words: str, values: dict[str, object]) -> None:
        told.append({**values, "words": words})

    given: dict[str, Any] = {"concurrency": 1, "every": 1, "grace": 600.0, **options}
    chosen = WorkerOptions(**given)
    task = asyncio.create_task(run_worker(address, PATIENT, chosen, report=report, stop=stop, model=model))
    return Here(task=task, model=model, stop=stop, told=told)


async def tell(address: str, *threads: str, turns: int = 4) -> None:
    """Hold turns that leave work to a worker."""
    async with Memory(address, model=ScriptedModel(), config=PATIENT) as memory:
        for thread in threads:
            await turns_of(memory, thread, turns=turns)


async def turns_of(memory: Memory, thread: str, *, turns: int = 4) -> None:
    """Hold some turns."""
    for _ in range(turns):
        async with memory.thread(thread, resource="alice").turn() as turn:
            await turn.prepare(WORDS * 5)
            await turn.record(AssistantMessage(WORDS * 5))


async def test_once_waits_for_the_work_under_way(address: str) -> None:
    """The run under way is finished, the next one is not begun, and the exit code says that work is left."""
    await tell(address, "red", "green")
    here = worker_here(address, once=True)
    await until(here.is_asked, LIMIT)
    here.stop.set()
    here.model.gate.set()
    counts = await here.task
    assert (counts.runs, here.model.asked) == (1, 1)
    assert counts.exit_code == 130
    assert here.told[-1]["interrupted"] is True
    assert "before all work was done" in here.told[-1]["words"]


async def test_once_ends_after_its_grace(address: str) -> None:
    """A run that does not end is given back, and the exit code says that work is left."""
    await tell(address, "red")
    here = worker_here(address, once=True, grace=0.0)
    await until(here.is_asked, LIMIT)
    here.stop.set()
    assert (await here.task).exit_code == 130
    async with Memory(address, config=PATIENT) as memory:
        assert [one.reason for one in await memory.due()] == ["a run was left behind"]


async def test_no_run_begins_after_the_stop(address: str) -> None:
    """The log has messages for several runs. After the stop the first one ends, and no model is asked again."""
    await tell(address, "red", turns=30)
    here = worker_here(address)
    await until(here.is_asked, LIMIT)
    here.stop.set()
    here.model.gate.set()
    counts = await here.task
    assert counts.runs == 1
    assert here.model.asked == 1
    async with Memory(address, config=PATIENT) as memory:
        runs = await memory.thread("red", resource="alice").runs()
        assert {run.status for run in runs} == {"done"}
        assert await memory.due()


async def test_the_second_signal_ends_a_worker_at_once(address: str) -> None:
    """It does not wait for its grace, and gives the run back."""
    await tell(address, "red")
    model, signals = Gated(), asyncio.Queue[signal.Signals]()
    options = WorkerOptions(grace=100_000.0)
    doing = asyncio.create_task(
        run_until_signal(address, PATIENT, options, report=lambda _words, _values: None, signals=signals, model=model)
    )

    async def is_asked() -> bool:
        return model.asked > 0

    await until(is_asked, LIMIT)
    signals.put_nowait(signal.SIGINT)
    signals.put_nowait(signal.SIGINT)
    assert await doing is None
    async with Memory(address, config=PATIENT) as memory:
        assert [one.reason for one in await memory.due()] == ["a run was left behind"]


async def test_a_worker_whose_model_cannot_be_used_does_nothing(address: str) -> None:
    """It must not make logs with the embedded observer instead of the model that is set."""
    said: list[str] = []

    def report(text: str, values: Mapping[str, Any]) -> None:
        said.append(text)

    with pytest.raises(ConfigError, match="opnai"):
        await run_worker(
            address, PATIENT, WorkerOptions(once=True), report=report, stop=asyncio.Event(), model="opnai:gpt-5-mini"
        )
    assert said == []
