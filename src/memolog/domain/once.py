"""Incremental map over an append-only sequence: cache results and compute only new items.

A sequence is identified by its first value. The caches are bounded and are emptied by `forget()` and `aclose()`.
"""

from collections.abc import Callable, Sequence
from typing import TypeVar

from memolog.domain.caches import emptied_by

__all__ = ["each_once", "grown"]

K = TypeVar("K")
S = TypeVar("S")
V = TypeVar("V")

# One sequence a thread: each holds all of its values.
_MOST_SEQUENCES = 16


def grown(empty: S, add: Callable[[S, Sequence[K]], S]) -> Callable[[Sequence[K]], S]:
    """Return what follows from a sequence, worked out from what is new at its end since it was last given.

    `add` gets what followed from the values before, which it must not change, and those that came after.
    """
    known: dict[int, tuple[tuple[K, ...], S]] = {}
    emptied_by(known.clear)

    def answer(values: Sequence[K]) -> S:
        if not values:
            return empty
        given = tuple(values)
        # Found by its first value, which lives as long as it is kept here; the same values are compared by identity first.
        before, made = known.get(id(given[0]), ((), empty))
        if given[: len(before)] != before:
            before, made = (), empty
        if len(given) > len(before):
            made = add(made, given[len(before) :])
            if len(known) >= _MOST_SEQUENCES:
                known.clear()
            known[id(given[0])] = given, made
        return made

    return answer


def each_once(work_out: Callable[[K], V]) -> Callable[[Sequence[K]], tuple[V, ...]]:
    """Return what follows from each value of a sequence that grows at its end."""

    def add(known: tuple[V, ...], values: Sequence[K]) -> tuple[V, ...]:
        return (*known, *map(work_out, values))

    return grown((), add)
