"""Choosing: which pieces to keep when not all of them fit.

Knows what each piece says and costs, and that a word which is kept already is worth nothing more. Knows no messages.
"""

import heapq
from collections.abc import Mapping, Sequence
from typing import NamedTuple

__all__ = ["Candidate", "choose"]

_JOINT = 6
"""What it costs to set one more piece apart from the last."""


class Candidate(NamedTuple):
    """A piece that may be kept; a tuple, since there are as many as there are clauses."""

    weights: Mapping[str, float]
    """What each of its words is worth."""
    cost: int
    factor: float = 1.0


def choose(candidates: Sequence[Candidate], budget: float, known: set[str]) -> set[int]:
    """Return which candidates to keep within a budget: always the one that says most that is new for what it costs.

    What the chosen ones say is added to `known`.
    """
    heap = [(-_worth(candidate, known), index) for index, candidate in enumerate(candidates)]
    heapq.heapify(heap)
    chosen: set[int] = set()
    while heap and budget > 0:
        worth, index = heapq.heappop(heap)
        candidate = candidates[index]
        if worth >= 0 or candidate.cost > budget:
            continue
        # Worth only falls as more is known: whoever still leads after a second look is the best.
        now = -_worth(candidate, known)
        if heap and now > heap[0][0]:
            heapq.heappush(heap, (now, index))
            continue
        if now >= 0:
            continue
        chosen.add(index)
        known.update(candidate.weights)
        budget -= candidate.cost + 2
    return chosen


def _worth(candidate: Candidate, known: set[str]) -> float:
    gain = sum([weight for word, weight in candidate.weights.items() if word not in known])
    return candidate.factor * gain / (candidate.cost + _JOINT)
