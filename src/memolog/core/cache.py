"""Process-wide caches of results that depend on text or rows alone: bounded, and emptied by `forget()` and `aclose()`.

Every such cache is made here, since a cached result holds the text that it was computed from.
"""

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Final, TypeVar

_GivenT = TypeVar("_GivenT")
_ResultT = TypeVar("_ResultT")

_CACHES: Final[list[Callable[[], object]]] = []


def emptied_by(empty: Callable[[], object]) -> None:
    """Name what empties a cache of a module, which lives as long as the process."""
    _CACHES.append(empty)


def remembered(most: int) -> Callable[[Callable[[_GivenT], _ResultT]], Callable[[_GivenT], _ResultT]]:
    """Remember the last results of a function of one value; at most so many of them."""

    def decorate(function: Callable[[_GivenT], _ResultT]) -> Callable[[_GivenT], _ResultT]:
        cache = lru_cache(most)(function)
        emptied_by(cache.cache_clear)
        return cache

    return decorate


def empty_caches() -> None:
    """Drop everything that is remembered of any text: what was forgotten must not be left in memory."""
    for empty in _CACHES:
        empty()
    # Phrases that were searched for are compiled, and the library keeps what it compiled.
    re.purge()


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
