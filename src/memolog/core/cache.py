"""Bounded caches: `Cache` for an open memory, and decorators that cache results of pure functions for the process.

A cached result holds the text that it was computed from, so `forget()` and `aclose()` empty all caches with `empty_caches`.
"""

import re
from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import lru_cache
from threading import Lock
from typing import Final, Generic, TypeVar

K = TypeVar("K")
S = TypeVar("S")
V = TypeVar("V")

_EMPTY_FUNCTIONS: Final[list[Callable[[], object]]] = []
# The maximum number of cached sequences. All values of a cached sequence stay in RAM.
_MOST_SEQUENCES = 16


class Cache(Generic[K, V]):
    """A thread-safe cache of at most `most` values. The value that was stored longest ago is dropped first."""

    def __init__(self, most: int) -> None:
        self._most, self._gate = most, Lock()
        self._values: OrderedDict[K, V] = OrderedDict()

    def get(self, key: K) -> V | None:
        """Return the value of a key, or None."""
        return self._values.get(key)

    def put(self, key: K, value: V) -> None:
        """Store the value of a key."""
        with self._gate:
            self._values[key] = value
            self._values.move_to_end(key)
            if len(self._values) > self._most:
                self._values.popitem(last=False)

    def clear(self) -> None:
        """Drop all values."""
        with self._gate:
            self._values.clear()


def empty_caches() -> None:
    """Drop every cached result of the process, because forgotten text must not stay in RAM."""
    for empty in _EMPTY_FUNCTIONS:
        empty()
    # The module `re` caches compiled patterns, and a pattern may contain a searched phrase.
    re.purge()


def remembered(most: int) -> Callable[[Callable[[K], V]], Callable[[K], V]]:
    """Cache the latest results of a function of one value, at most `most` of them."""

    def decorate(function: Callable[[K], V]) -> Callable[[K], V]:
        cached = lru_cache(most)(function)
        _EMPTY_FUNCTIONS.append(cached.cache_clear)
        return cached

    return decorate


def grown(empty: S, add: Callable[[S, Sequence[K]], S]) -> Callable[[Sequence[K]], S]:
    """Return a function that folds a sequence with `add`, and computes only the values that were appended since the last call.

    `add` gets the result for the earlier values, which it must not change, and the appended values.
    """
    known: dict[int, tuple[tuple[K, ...], S]] = {}
    _EMPTY_FUNCTIONS.append(known.clear)

    def answer(values: Sequence[K]) -> S:
        if not values:
            return empty
        given = tuple(values)
        # The key is the identity of the first value, which the entry keeps alive. Comparing the same objects is fast.
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
    """Return a map over append-only sequences that computes only new items."""

    def add(known: tuple[V, ...], values: Sequence[K]) -> tuple[V, ...]:
        return (*known, *map(work_out, values))

    return grown((), add)
