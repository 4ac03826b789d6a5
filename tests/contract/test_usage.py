"""What every engine does with the ledger and the calibrations."""

import asyncio
import itertools
import random
from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from contract.raw_sql import add_task, run_sql
from kit.effort import counts
from kit.talk import forget_thread
from memolog.core.message import UserMessage
from memolog.core.run import Calibration, Usage, UsageTotal
from memolog.errors import InputError
from memolog.log.usage import UsageLine
from memolog.store import Store
from memolog.testing import FakeClock

COUNTS = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")


def some_usage(chance: random.Random, now: datetime) -> Usage:
    """Return a request of any kind, for anything: tiny and huge, and now and then with numbers below nothing."""
    return Usage(
        kind=chance.choice(("turn", "observe", "reflect", "other")),
        model=chance.choice("ab"),
        **{name: chance.choice((0, 7, 2**40, -5)) for name in COUNTS},
        cost=chance.choice((0.1, 0.4e-9, 1e-9, -1.0, 1e6, round(chance.uniform(0, 10 ** chance.randint(-9, 0)), 9))),
        thread=chance.choice((None, "t1", "t2", "unknown")),
        task=chance.choice((None, "k1", "k2")),
        run=chance.choice((None, "r1", "r2")),
        at=chance.choice((None, now - timedelta(hours=chance.randrange(5)))),
    )


def summed(added: Iterable[Usage]) -> UsageTotal:
    """Return the sum by hand: in whole billionths, and what is below nothing counts as none."""
    known = list(added)
    sums = {name: sum(max(getattr(one, name), 0) for one in known) for name in COUNTS}
    return UsageTotal(requests=len(known), cost=sum(round(max(one.cost, 0) * 1e9) for one in known) / 1e9, **sums)


@pytest.mark.parametrize("seed", range(counts(3, 20)))
async def test_sums_are_those_of_the_requests(store: Store, clock: FakeClock, seed: int) -> None:
    """By kind and model, in a fixed order; of a thread, a task and since a moment, alone and together."""
    chance, now = random.Random(seed), clock.now()
    assert (await store.ledger.lines("alice"), await store.ledger.total("alice")) == ((), UsageTotal())
    for name in ("t1", "t2"):
        await store.threads.create("alice", name)
        await add_task(store, "alice", name.replace("t", "k"))
    added = [some_usage(chance, now) for _ in range(counts(120, 2000))]
    await asyncio.gather(*(store.ledger.add("alice", usage) for usage in added))
    ages = (None, timedelta(0), timedelta(hours=2), timedelta(hours=-1))
    for thread, task, age in itertools.product((None, "t1", "t9"), (None, "k1", "k9"), ages):
        since = None if age is None else now - age
        chosen = [
            usage
            for usage in added
            if thread in {None, usage.thread}
            and task in {None, usage.task}
            and (since is None or (usage.at or now) >= since)
        ]
        lines = await store.ledger.lines("alice", thread=thread, task=task, since=since)
        groups = sorted({(usage.kind, usage.model) for usage in chosen})
        assert lines == tuple(
            UsageLine(kind=kind, model=model, total=summed(u for u in chosen if (u.kind, u.model) == (kind, model)))
            for kind, model in groups
        )
        total = await store.ledger.total("alice", thread=thread, task=task, since=since)
        assert total == replace(summed(chosen), cost=pytest.approx(summed(chosen).cost, rel=1e-15, abs=1e-9))


async def test_a_sum_outlives_its_thread(store: Store) -> None:
    """What was spent stays spent when the thread is deleted."""
    await store.messages.save("alice", "t", UserMessage("a"))
    await store.ledger.add("alice", Usage(model="m", cost=1.5, thread="t"))
    await forget_thread(store, "t")
    assert (await store.ledger.total("alice")).cost == 1.5
    await store.threads.create("alice", "t")
    assert (await store.ledger.total("alice", thread="t")).requests == 0


async def test_a_request_for_an_unknown_thread_counts_for_the_resource(store: Store) -> None:
    """It is not lost, and not put on a thread that is made later."""
    await store.ledger.add("alice", Usage(model="m", input_tokens=7, thread="later"))
    await store.threads.create("alice", "later")
    assert (await store.ledger.total("alice", thread="later")).input_tokens == 0
    assert (await store.ledger.total("alice")).input_tokens == 7


# ---------------------------------------------------------------- calibration


def one_more(known: Calibration) -> Calibration:
    """Learn one sample, and a little more of a factor."""
    return Calibration(model=known.model, factor=known.factor + 0.5, samples=known.samples + 1)


async def test_what_is_learned_is_kept(store: Store) -> None:
    """A step returns what is stored, for this model of this resource alone."""
    assert await store.ledger.calibrate("alice", "m", one_more) == Calibration(model="m", factor=1.5, samples=1)
    assert await store.ledger.calibrate("alice", "m", one_more) == Calibration(model="m", factor=2.0, samples=2)
    assert await store.ledger.calibration("alice", "m") == Calibration(model="m", factor=2.0, samples=2)
    assert await store.ledger.calibration("alice", "n") == Calibration(model="n")
    assert await store.ledger.calibration("bob", "m") == Calibration(model="m")


async def test_all_names_of_a_model_are_one_model(store: Store) -> None:
    """What is learned under a dated name is found under an alias; another size is another model."""
    await store.ledger.calibrate("alice", "gpt-5-mini-2025-08-07", one_more)
    learned = await store.ledger.calibrate("alice", "openai:gpt-5-mini", one_more)
    assert learned == Calibration(model="gpt-5-mini", factor=2.0, samples=2)
    assert await store.ledger.calibration("alice", "openai-responses:gpt-5-mini") == learned
    assert await store.ledger.calibration("alice", "gpt-5") == Calibration(model="gpt-5")


async def test_what_was_stored_under_an_old_name_is_found_and_goes_on(store: Store) -> None:
    """An earlier release kept each name apart: the one with the most samples counts, and is what is learned from."""
    for model, factor, samples in (("openai:gpt-5", 3.0, 2), ("gpt-5-2025-08-07", 2.0, 7)):
        values = f"('alice', '{model}', {factor}, {samples}) RETURNING model"
        await run_sql(store, f"INSERT INTO calibrations (resource, model, factor, samples) VALUES {values}")
    assert await store.ledger.calibration("alice", "gpt-5") == Calibration(model="gpt-5", factor=2.0, samples=7)
    learned = await store.ledger.calibrate("alice", "gpt-5", one_more)
    assert learned == Calibration(model="gpt-5", factor=2.5, samples=8)
    assert await store.ledger.calibration("alice", "gpt-5-2025-08-07") == learned


async def test_learners_at_once_all_count(store: Store) -> None:
    """No sample is lost among many callers, also when the row is new."""
    many = counts(25, 200)
    await asyncio.gather(*(store.ledger.calibrate("alice", "m", one_more) for _ in range(many)))
    assert await store.ledger.calibration("alice", "m") == Calibration(model="m", factor=1 + many / 2, samples=many)


async def test_a_learner_that_fails_changes_nothing(store: Store) -> None:
    """The step is undone as a whole, and the next one works."""
    await store.ledger.calibrate("alice", "m", one_more)

    def fail(known: Calibration) -> Calibration:
        raise InputError(f"No factor follows from {known.samples} samples.")

    with pytest.raises(InputError, match="1 samples"):
        await store.ledger.calibrate("alice", "m", fail)
    with pytest.raises(InputError, match="0 samples"):
        await store.ledger.calibrate("alice", "n", fail)
    assert (await store.ledger.calibration("alice", "m")).samples == 1
    assert (await store.ledger.calibrate("alice", "n", one_more)).samples == 1
