"""What a worker reports."""

import socket
import sys
from unittest.mock import AsyncMock

import psycopg
import pytest

from kit.engines import engines
from memolog.errors import ConfigError, ModelFailed, StoreUnavailable
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


async def test_a_worker_whose_port_is_used_has_not_started(address: str) -> None:
    """The error is the only thing that it says."""
    with socket.create_server(("127.0.0.1", 0)) as used:
        here = worker_here(address, metrics_port=used.getsockname()[1])
        with pytest.raises(StoreUnavailable, match="another program uses port"):
            await here.task
    assert here.told == []


async def test_a_worker_with_a_pooler_has_not_started(postgres_url: str) -> None:
    """The error is the only thing that it says."""
    here = worker_here(f"{postgres_url}&pooler=transaction")
    with pytest.raises(ConfigError, match="transaction pooler"):
        await here.task
    assert here.told == []


async def test_no_connection_for_jobs(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error has the reason, and the address without its password."""
    refused = psycopg.OperationalError("too many clients")
    monkeypatch.setattr(psycopg.AsyncConnection, "connect", AsyncMock(side_effect=refused))
    address = postgres_url.replace("postgresql://postgres@", "postgresql://postgres:s3cret@")
    with pytest.raises(StoreUnavailable, match="too many clients") as caught:
        await worker_here(address).task
    assert "of no pooler" in str(caught.value)
    assert "s3cret" not in str(caught.value)
