"""Many agents on one database, one virtual clock, random faults: the invariants hold after every step."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from kit.effort import counts
from memolog.db.queries import Statement, Step
from memolog.log import decide as spans
from memolog.log import runs
from memolog.log import store as logs
from memolog.log.snapshot import Weight
from memolog.log.state import Tail
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


# ---------------------------------------------------------------- bugs planted on purpose


MOST_SEEDS = 40


def found(pattern: str) -> Violation:
    """Return the first violation among some seeds; fails if there is none, or if it is about something else."""
    for seed in range(MOST_SEEDS):
        try:
            simulate(seed, 200)
        except Violation as violation:
            if any(word in violation.problem for word in pattern.split("|")):
                return violation
            pytest.fail(f"found something else: {violation}")
    pytest.fail(f"{MOST_SEEDS} seeds did not find the planted bug")


def plant(monkeypatch: pytest.MonkeyPatch, queries: Any, name: str, change: Callable[[Step], Step]) -> None:
    """Replace a query by a changed one."""
    make: Callable[..., Step] = getattr(queries, name)

    def changed(**values: object) -> Step:
        return change(make(**values))

    monkeypatch.setitem(queries.__dict__, name, changed)


def test_a_commit_without_its_fence(monkeypatch: pytest.MonkeyPatch) -> None:
    """A zombie's result that nobody refuses: a span is observed twice, or a finished run finishes again."""

    def unfenced(step: Step) -> Step:
        text = step.statement.text.replace("AND owner = :owner AND fence = :fence AND status = 'running'", "")
        assert text != step.statement.text
        old = step.statement
        return step._replace(statement=Statement(old.name, text, old.parameters, old.lists))

    plant(monkeypatch, runs.q, "end_run", unfenced)
    assert found("refused by a guard|disagree|has the run|overlaps").seed < MOST_SEEDS


def test_a_cursor_that_runs_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    """An activation that moves the cursor one message too far: that message would be in no log and in no tail."""
    moved: Any = logs.q.move_cursor

    class Ahead:
        def many(self, values: Sequence[dict[str, int]]) -> Step:
            return moved.many([{**one, "last_seq": one["last_seq"] + 1} for one in values])

    monkeypatch.setitem(logs.q.__dict__, "move_cursor", Ahead())
    assert found("the cursor is at|its tail begins after").seed < MOST_SEEDS


def test_a_cut_inside_a_pair(monkeypatch: pytest.MonkeyPatch) -> None:
    """A span that ends anywhere: a call is observed without its result."""

    def anywhere(weights: Sequence[Weight]) -> list[int]:
        return list(range(len(weights)))

    monkeypatch.setattr(spans, "closed_ends", anywhere)
    assert found("inside call").seed < MOST_SEEDS


def test_a_message_that_nobody_has_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """A log that takes what no model has answered: a tool's result would be out of sight before it was ever shown."""

    def always(tail: Tail, seq: int) -> bool:
        del tail, seq
        return True

    monkeypatch.setattr(Tail, "is_seen", always)
    assert found("has no reply and is in the log|no model has seen is out of sight").seed < MOST_SEEDS
