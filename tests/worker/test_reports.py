"""What a worker reports."""

import sys

import pytest

from kit.engines import engines
from memolog.errors import ConfigError, ModelFailed
from worker.test_stop import Gated, tell, worker_here

engine_name = engines("sqlite", "postgres")


async def test_the_looks_add_up(address: str) -> None:
    """Several logs are looked at together. Each look reports its own runs, and a look without a run reports nothing."""
    await tell(address, "red", "green", "blue", turns=8)
    here = worker_here(address, once=True, concurrency=3)
    here.model.gate.set()
    counts = await here.task
    looked = [one["runs"] for one in here.told if one["event"] == "looked"]
    assert sum(looked) == counts.runs
    assert len(looked) >= 3
    assert 0 not in looked


async def test_a_failure_says_why(address: str) -> None:
    """The report of the look and the last line have the error of the model."""
    await tell(address, "red")
    model = Gated()
    model.answers += [ModelFailed("The model is\nout of order.")] * 9
    model.gate.set()
    here = worker_here(address, model, once=True)
    counts = await here.task
    assert counts.exit_code == 3
    (looked,) = (one for one in here.told if one["event"] == "looked")
    assert "1 failed: " in looked["words"]
    assert "The model is out of order" in looked["words"]
    assert "The model is out of order" in here.told[-1]["words"]
    assert "out of order" in here.told[-1]["last_error"]


@pytest.mark.parametrize("name", ["asyncpg", "procrastinate"])
async def test_a_missing_package(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """The error names the package and the extra of a worker, whichever package it is."""
    monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.delitem(sys.modules, "memolog.db.postgres", raising=False)
    with pytest.raises(ConfigError) as caught:
        await worker_here("postgresql://nobody@127.0.0.1:1/nothing").task
    assert name in caught.value.what
    assert caught.value.then == 'Install them with: pip install "memolog[worker]"'
