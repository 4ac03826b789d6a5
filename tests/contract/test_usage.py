"""What every engine does with the ledger and the calibrations."""

import asyncio
import random
from datetime import timedelta
from decimal import Decimal

import pytest

from contract.raw_sql import add_task, run_sql
from kit.effort import counts
from memolog.core.message import UserMessage
from memolog.core.run import Calibration, Usage, UsageTotal
from memolog.errors import InputError
from memolog.log.usage import UsageLine
from memolog.store import Store
from memolog.testing import FakeClock

NANO = 1e-9


async def test_an_empty_ledger_sums_to_nothing(store: Store) -> None:
    """No line, and a total of zero."""
    assert await store.ledger.lines("alice") == ()
    assert await store.ledger.total("alice") == UsageTotal()


async def test_every_number_of_a_request_is_kept(store: Store) -> None:
    """One request is its own sum."""
    await store.ledger.add(
        "alice",
        Usage(
            model="m",
            input_tokens=1,
            output_tokens=2,
            cache_read_tokens=3,
            cache_write_tokens=4,
            cost=0.25,
            kind="other",
        ),
    )
    total = UsageTotal(
        requests=1, input_tokens=1, output_tokens=2, cache_read_tokens=3, cache_write_tokens=4, cost=0.25
    )
    assert await store.ledger.lines("alice") == (UsageLine(kind="other", model="m", total=total),)
    assert await store.ledger.total("alice") == total


async def test_lines_are_by_kind_and_model(store: Store) -> None:
    """A line each, in a fixed order, and the total over them."""
    for usage in (
        Usage(kind="turn", model="b", input_tokens=1),
        Usage(kind="turn", model="a", input_tokens=2),
        Usage(kind="observe", model="a", input_tokens=4),
        Usage(kind="turn", model="a", input_tokens=8),
        Usage(kind="reflect", model="a", input_tokens=16),
    ):
        await store.ledger.add("alice", usage)
    lines = await store.ledger.lines("alice")
    assert [(line.kind, line.model, line.total.requests, line.total.input_tokens) for line in lines] == [
        ("observe", "a", 1, 4),
        ("reflect", "a", 1, 16),
        ("turn", "a", 2, 10),
        ("turn", "b", 1, 1),
    ]
    total = await store.ledger.total("alice")
    assert (total.requests, total.input_tokens) == (5, 31)


async def test_sums_by_thread_task_and_run(store: Store) -> None:
    """Each filter alone and together; what does not exist sums to nothing."""
    await store.messages.save("alice", "t1", UserMessage("a"))
    await store.messages.save("alice", "t2", UserMessage("b"))
    await add_task(store, "alice", "k1")
    for usage in (
        Usage(model="m", input_tokens=1, thread="t1"),
        Usage(model="m", input_tokens=2, thread="t1", task="k1", run="r1"),
        Usage(model="m", input_tokens=4, thread="t2", task="k1", run="r2"),
        Usage(model="m", input_tokens=8, run="r2"),
    ):
        await store.ledger.add("alice", usage)

    async def tokens(thread: str | None = None, task: str | None = None, run: str | None = None) -> int:
        return (await store.ledger.total("alice", thread=thread, task=task, run=run)).input_tokens

    assert await tokens() == 15
    assert await tokens(thread="t1") == 3
    assert await tokens(thread="t2") == 4
    assert await tokens(task="k1") == 6
    assert await tokens(run="r2") == 12
    assert await tokens(thread="t2", run="r2", task="k1") == 4
    assert await tokens(thread="t1", run="r2") == 0
    for nothing in ("t9", "k9", "r9"):
        assert await tokens(thread=nothing) == await tokens(task=nothing) == await tokens(run=nothing) == 0


async def test_sums_since_a_moment(store: Store, clock: FakeClock) -> None:
    """The moment itself is included; a request that says when it was is counted there."""
    noon = clock.now()
    await store.ledger.add("alice", Usage(model="m", input_tokens=1))
    await store.ledger.add("alice", Usage(model="m", input_tokens=2, at=noon - timedelta(days=2)))
    clock.advance(hours=1)
    await store.ledger.add("alice", Usage(model="m", input_tokens=4))

    async def since(**ago: float) -> int:
        return (await store.ledger.total("alice", since=clock.now() - timedelta(**ago))).input_tokens

    assert await since(minutes=0) == 4
    assert await since(hours=1) == 5
    assert await since(days=3) == 7
    assert await since(hours=-1) == 0


@pytest.mark.parametrize("seed", range(3))
async def test_costs_are_exact_to_the_billionth(store: Store, seed: int) -> None:
    """Thousands of tiny amounts do not drift, as sums of floats would."""
    chance = random.Random(seed)
    prices = [round(chance.uniform(0, 10 ** chance.randint(-9, 0)), 9) for _ in range(counts(150, 2000))]
    await asyncio.gather(*(store.ledger.add("alice", Usage(model="m", cost=price)) for price in prices))
    exact = sum(Decimal(str(price)) for price in prices)
    assert abs(Decimal((await store.ledger.total("alice")).cost) - exact) < Decimal("1e-9")


async def test_a_tenth_three_times_is_three_tenths(store: Store) -> None:
    """Money is kept in whole billionths."""
    for _ in range(3):
        await store.ledger.add("alice", Usage(model="m", cost=0.1))
    await store.ledger.add("alice", Usage(model="m", cost=0.4 * NANO))
    assert (await store.ledger.total("alice")).cost == 0.3
    await store.ledger.add("alice", Usage(model="m", cost=NANO))
    assert (await store.ledger.total("alice")).cost == 0.300000001


async def test_a_provider_that_reports_nonsense_costs_nothing(store: Store) -> None:
    """Negative numbers count as none."""
    await store.ledger.add("alice", Usage(model="m", input_tokens=-5, output_tokens=3, cost=-1.0))
    total = await store.ledger.total("alice")
    assert (total.requests, total.input_tokens, total.output_tokens, total.cost) == (1, 0, 3, 0.0)


@pytest.mark.parametrize("cost", [float("nan"), float("inf"), float("-inf")])
async def test_a_cost_that_is_no_number_is_refused(store: Store, cost: float) -> None:
    """It is told, and the ledger stays as it was."""
    with pytest.raises(InputError, match="`cost`"):
        await store.ledger.add("alice", Usage(model="m", cost=cost))
    assert await store.ledger.total("alice") == UsageTotal()


async def test_a_sum_outlives_its_thread(store: Store) -> None:
    """What was spent stays spent when the thread is deleted."""
    await store.messages.save("alice", "t", UserMessage("a"))
    await store.ledger.add("alice", Usage(model="m", cost=1.5, thread="t"))
    await store.threads.delete("alice", "t")
    assert (await store.ledger.total("alice")).cost == 1.5
    await store.threads.create("alice", "t")
    assert (await store.ledger.total("alice", thread="t")).requests == 0


async def test_a_request_for_an_unknown_thread_counts_for_the_resource(store: Store) -> None:
    """It is not lost, and not put on a thread that is made later."""
    await store.ledger.add("alice", Usage(model="m", input_tokens=7, thread="later"))
    await store.threads.create("alice", "later")
    assert (await store.ledger.total("alice", thread="later")).input_tokens == 0
    assert (await store.ledger.total("alice")).input_tokens == 7


async def test_large_numbers_add_up(store: Store) -> None:
    """Sums beyond 32 bits are exact."""
    for _ in range(3):
        await store.ledger.add("alice", Usage(model="m", input_tokens=2**40, cost=1_000_000.0))
    total = await store.ledger.total("alice")
    assert (total.input_tokens, total.cost) == (3 * 2**40, 3_000_000.0)


# ---------------------------------------------------------------- calibration


def one_more(known: Calibration) -> Calibration:
    """Learn one sample, and a little more of a factor."""
    return Calibration(model=known.model, factor=known.factor + 0.5, samples=known.samples + 1)


async def test_an_unknown_model_counts_as_we_do(store: Store) -> None:
    """The factor is one until something is learned."""
    assert await store.ledger.calibration("alice", "m") == Calibration(model="m", factor=1.0, samples=0)


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
