"""Many agents on one database, one virtual clock, random faults: the invariants hold after every step."""

import pytest

from kit.effort import counts
from simulation.faults import KINDS
from simulation.world import Violation, simulate

STEPS = 200


@pytest.mark.parametrize("seed", range(counts(12, 200)))
def test_every_invariant_holds_whatever_strikes(seed: int) -> None:
    """A world of this seed breaks nothing, and comes to rest when the faults end; a failure names its seed."""
    outcome = simulate(seed, STEPS)
    assert outcome.steps == STEPS
    assert outcome.counts["checks"] > STEPS // 4
    assert outcome.counts["contexts"] > 20


def test_one_seed_is_one_story() -> None:
    """The same seed makes the same things happen in the same order, so that a failure can be replayed."""
    first, second = simulate(3, 120), simulate(3, 120)
    assert first.trace == second.trace
    assert (first.struck, first.decisions, first.counts) == (second.struck, second.decisions, second.counts)


def test_every_kind_of_fault_strikes() -> None:
    """No fault is there in name only: some seeds together bring about each of them, and every decision."""
    struck, decisions = set[str](), set[str]()
    for seed in range(1_000, 1_060):
        try:
            outcome = simulate(seed, 150)
        except Violation as violation:
            pytest.fail(str(violation))
        struck |= set(outcome.struck)
        decisions |= set(outcome.decisions)
        if struck == set(KINDS) and len(decisions) >= 7:
            break
    assert struck == set(KINDS)
    assert {"Activate", "ActivateReflection", "Buffer", "Observe", "Recover", "Reflect", "Wait"} <= decisions
