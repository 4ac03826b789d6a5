"""Runs many worlds and says what struck and what broke: `make sim RUNS=2000`, or one of them in detail: `make sim SEED=7`.

Exits with 1 if an invariant is broken, or if some fault never struck.
"""

# ruff: noqa: T201 - a program that is read by a person

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, field
from itertools import islice

from simulation.faults import KINDS
from simulation.world import Outcome, Violation, simulate

_WORKERS = 2
_MOST_VIOLATIONS = 5


@dataclass(slots=True)
class Total:
    """What all runs came to."""

    runs: int = 0
    steps: int = 0
    struck: Counter[str] = field(default_factory=Counter[str])
    decisions: Counter[str] = field(default_factory=Counter[str])
    shapes: Counter[str] = field(default_factory=Counter[str])
    counts: Counter[str] = field(default_factory=Counter[str])
    violations: list[str] = field(default_factory=list[str])

    def add(self, outcome: Outcome | str) -> None:
        """Add a run: what it came to, or how it was broken."""
        self.runs += 1
        if isinstance(outcome, str):
            self.violations.append(outcome)
            return
        self.steps += outcome.steps
        for name in ("struck", "decisions", "shapes", "counts"):
            getattr(self, name).update(getattr(outcome, name))


def _try(seed: int, steps: int) -> Outcome | str:
    try:
        return simulate(seed, steps)
    except Violation as violation:
        return str(violation)
    except Exception as error:
        return f"seed {seed}: the simulation itself failed: {error!r}"


def _run_all(first: int, runs: int, steps: int) -> Total:
    total, began = Total(), time.monotonic()
    seeds = iter(range(first, first + runs))
    with ProcessPoolExecutor(_WORKERS) as pool:

        def submit(count: int) -> Iterator["Future[Outcome | str]"]:
            for seed in islice(seeds, count):
                yield pool.submit(_try, seed, steps)

        pending = set(submit(2 * _WORKERS))
        while pending:
            done, pending = wait(pending, return_when=FIRST_COMPLETED)
            for future in done:
                outcome = future.result()
                total.add(outcome)
                if isinstance(outcome, str):
                    print(f"\r{outcome}", file=sys.stderr, flush=True)
            if len(total.violations) < _MOST_VIOLATIONS:
                pending |= set(submit(len(done)))
            rate = total.runs / (time.monotonic() - began)
            line = f"\r{total.runs:,} of {runs:,} runs, {rate:.1f} a second, {len(total.violations)} broken"
            print(line, end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return total


def _table(title: str, counts: Counter[str], names: tuple[str, ...] = ()) -> None:
    print(f"\n{title}")
    for name in names or sorted(counts, key=lambda name: -counts[name]):
        print(f"  {name:34} {counts[name]:>12,}")


def _replay(seed: int, steps: int) -> int:
    """Live through one seed, line by line."""
    try:
        outcome = simulate(seed, steps, verbose=True)
    except Violation as violation:
        print(f"\nseed {seed}: {violation.problem}")
        return 1
    _table("faults", outcome.struck, KINDS)
    _table("decisions", outcome.decisions)
    return 0


def main() -> int:
    """Run as asked; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, help="how many worlds; without it, one seed is replayed")
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--steps", type=int, default=200, help="steps in each world")
    asked = parser.parse_args()
    if asked.runs is None:
        return _replay(asked.seed, asked.steps)
    total = _run_all(asked.seed, asked.runs, asked.steps)
    _table("faults that struck", total.struck, KINDS)
    _table("decisions", total.decisions)
    _table("turns", total.shapes)
    _table("checked", total.counts)
    print(f"\n{total.runs:,} runs, {total.steps:,} steps, {len(total.violations)} broken")
    for violation in total.violations:
        print(f"\n{violation}")
    silent = [kind for kind in KINDS if not total.struck[kind]]
    if silent:
        print(f"\nnever struck: {', '.join(silent)}")
    return 1 if total.violations or silent else 0


if __name__ == "__main__":
    sys.exit(main())
