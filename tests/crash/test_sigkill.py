"""A crash is a pause: after SIGKILL at any moment the store is as if the last commit had just happened."""

import asyncio
import json
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from crash import writer_child
from crash.children import child_env, order, started
from crash.survivors import Row, check_sound, everything
from crash.writer_child import OPERATIONS, open_fixed, open_real, prologue, text_of
from kit.effort import counts
from kit.engines import engines
from memolog.core.message import UserMessage
from memolog.store import Store

_CHILD = str(Path(writer_child.__file__))
_PATIENCE = 120.0

Acks = dict[tuple[str, str, int], tuple[int, str]]
"""Thread, id and continuation of what was acknowledged, to its sequence number and batch."""
engine_name = engines("sqlite", "postgres")


def _kill_one(address: str, seed: str, chance: random.Random, acks_file: Path, *, early: bool = False) -> Acks:
    """Start a writer, kill it at a random moment (early: about when it opens the store), return what it had acknowledged."""
    with acks_file.open("wb") as told:
        child = subprocess.Popen([sys.executable, _CHILD, "write", address, seed], stdout=told, env=child_env())
        try:
            if early:
                time.sleep(chance.uniform(0.05, 0.4))
            else:
                _wait_for_first(acks_file, child)
                time.sleep(chance.uniform(0, 0.1))
            assert child.poll() is None, f"the writer {seed} ended by itself with {child.returncode}"
        finally:
            child.send_signal(signal.SIGKILL)
            child.wait(_PATIENCE)
    acks = _read_acks(acks_file)
    assert acks or early
    return acks


def _wait_for_first(acks_file: Path, child: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + _PATIENCE
    while acks_file.stat().st_size == 0 and child.poll() is None:
        assert time.monotonic() < deadline, "the writer saved nothing"
        time.sleep(0.002)


def _read_acks(acks_file: Path) -> Acks:
    acks: Acks = {}
    whole, _, _ = acks_file.read_text().rpartition("\n")
    for line in whole.splitlines():
        thread, batch, places = json.loads(line)
        for message_id, continuation, seq in places:
            acks[thread, message_id, continuation] = (seq, batch)
    return acks


def _check_acknowledged(acks: Acks, rows: list[Row]) -> None:
    """Every acknowledged row is there once, at its place, with its content."""
    stored = {(thread, id_, number): (seq, json.loads(told)["batch"]) for thread, id_, number, seq, told, *_ in rows}
    assert len(stored) == len(rows)
    missing = {key: place for key, place in acks.items() if stored.get(key) != place}
    assert not missing, f"{len(missing)} of {len(acks)} acknowledged rows are not as they were: {sorted(missing)[:5]}"
    for _, message_id, continuation, _, _, parts, _ in rows:
        assert [part["text"] for part in json.loads(parts)] == [text_of(message_id, continuation)]


async def test_kills_at_random_moments_lose_nothing(address: str, tmp_path: Path) -> None:
    """Writers are killed one after the other on one database: what they acknowledged is there, and nothing is half there."""
    everyone: Acks = {}
    rows: list[Row] = []
    for number in range(counts(6, 200)):
        seed = f"k{random.SystemRandom().randrange(10**9)}"
        print(f"kill {number}: seed {seed}")  # noqa: T201 - pytest shows it when the test fails
        acks = _kill_one(address, seed, random.Random(seed), tmp_path / "acks", early=number % 8 == 3)
        before = len(rows)
        async with await open_real(address) as store:
            rows = await check_sound(store)
        _check_acknowledged(acks, rows)
        assert len(rows) >= before + len(acks)
        everyone |= acks
    _check_acknowledged(everyone, rows)


async def test_a_killed_writer_leaves_no_lock(address: str, tmp_path: Path) -> None:
    """The next writer need not wait for the dead one."""
    _kill_one(address, "k", random.Random(3), tmp_path / "acks")
    async with await open_real(address) as store, asyncio.timeout(60):
        saved = [await store.messages.save("crash", thread, UserMessage("next")) for thread in writer_child.THREADS]
    assert all(one.added == 1 for one in saved)


# ---------------------------------------------------------------- commit points


@pytest.fixture(scope="module")
def victims() -> Iterator[subprocess.Popen[str]]:
    """Start the process that forks a victim for each commit point."""
    with started("writer_child.py", "points") as process:
        yield process


def _kill_at(victims: subprocess.Popen[str], point: str, address: str) -> None:
    assert order(victims, point, address) == (signal.SIGKILL, []), f"the victim did not reach {point}"


def _twin(address: str) -> str:
    """Return the address of a second, empty database."""
    return f"{address}_twin"


async def _look(address: str) -> dict[str, Any]:
    async with await open_fixed(address, minutes=20) as store:
        await check_sound(store)
        return await everything(store)


@pytest.mark.parametrize("name", OPERATIONS)
async def test_a_kill_at_a_commit_point(name: str, address: str, victims: subprocess.Popen[str]) -> None:
    """Killed before the commit, nothing of the call is there; killed after it, all of it, as in a database without a crash."""
    for where in (address, _twin(address)):
        async with await open_fixed(where) as store:
            await prologue(store)
    old = await _look(address)
    async with await open_fixed(_twin(address), minutes=10) as store:
        await OPERATIONS[name](store)
    done = await _look(_twin(address))
    assert old != done

    _kill_at(victims, f"{name}:before", address)
    assert await _look(address) == old
    _kill_at(victims, f"{name}:after", address)
    assert await _look(address) == done


async def test_an_error_at_a_commit_point_takes_everything_back(store: Store) -> None:
    """An error just before the commit leaves nothing behind, reaches the caller as it is, and the next call works."""

    def hook(reached: str) -> None:
        raise ZeroDivisionError(reached)

    await prologue(store)
    old = await everything(store)
    store.engine.commit_hook = hook
    for name in OPERATIONS:
        with pytest.raises(ZeroDivisionError, match=f"{name}:before"):
            await OPERATIONS[name](store)
        assert await everything(store) == old
    store.engine.commit_hook = None
    for name in ("messages.save", "threads.clone", "task_claims.close", "forgetting.thread"):
        await OPERATIONS[name](store)
    assert await everything(store) != old
