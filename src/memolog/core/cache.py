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
# The maximum number of cached sequences, and of the tokens in them, as many as in the cached tails of a memory. All values of a
# cached sequence stay in RAM.
_MOST_SEQUENCES = 256
_MOST_TOKENS = 2_000_000


class Cache(Generic[K, V]):
    """A thread-safe cache of at most `most` values, which together weigh at most `heaviest` (None: any weight).

    The value that was stored longest ago is dropped first. The value that was stored last always stays.
    """

    def __init__(self, most: int, *, heaviest: int | None = None) -> None:
        self._most, self._heaviest, self._gate = most, heaviest, Lock()
        self._values: OrderedDict[K, V] = OrderedDict()
        # Weights are kept apart, because a tuple of value and weight would be one more object for each garbage collection.
        self._weights: dict[K, int] = {}
        self._weight = 0

    def get(self, key: K) -> V | None:
        """Return the value of a key, or None."""
        return self._values.get(key)

    def put(self, key: K, value: V, *, weight: int = 0) -> None:
        """Store the value of a key."""
        with self._gate:
            self._values.pop(key, None)
            self._values[key] = value
            self._weight += weight - self._weights.pop(key, 0)
            if weight:
                self._weights[key] = weight
            while len(self._values) > 1 and self._is_full():
                dropped, _ = self._values.popitem(last=False)
                self._weight -= self._weights.pop(dropped, 0)

    def drop(self, key: K) -> None:
        """Drop the value of a key."""
        with self._gate:
            self._values.pop(key, None)
            self._weight -= self._weights.pop(key, 0)

    def _is_full(self) -> bool:
        is_heavy = self._heaviest is not None and self._weight > self._heaviest
        return is_heavy or len(self._values) > self._most

    def clear(self) -> None:
        """Drop all values."""
        with self._gate:
            self._values.clear()
            self._weights.clear()
            self._weight = 0


class Seen:
    """Remembers numbers, at least the latest `most` of them and at most twice as many. `empty_caches` empties it."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._new, self._old = set[int](), set[int]()
        _EMPTY_FUNCTIONS.append(self.clear)

    def __contains__(self, number: int) -> bool:
        return number in self._new or number in self._old

    def add(self, number: int) -> None:
        """Remember a number."""
        if len(self._new) >= self._most:
            self._new, self._old = set[int](), self._new
        self._new.add(number)

    def clear(self) -> None:
        """Forget all numbers."""
        self._new, self._old = set[int](), set[int]()


def emptied(cache: Cache[K, V]) -> Cache[K, V]:
    """Return a cache of the process after adding it to those that `empty_caches` empties."""
    _EMPTY_FUNCTIONS.append(cache.clear)
    return cache


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


class Results(dict[K, V]):
    """The results of a function of one value: `results[value]` computes a missing result. `empty_caches` empties it.

    This is twice as fast as `remembered`, because it does not keep an order: it is emptied when it has `most` results. The result
    of a text with more than `longest` characters is not kept.
    """

    def __init__(self, function: Callable[[K], V], most: int, *, longest: int) -> None:
        super().__init__()
        self._function, self._most, self._longest = function, most, longest
        _EMPTY_FUNCTIONS.append(self.clear)

    def __missing__(self, value: K) -> V:
        found = self._function(value)
        if isinstance(value, str) and len(value) > self._longest:
            return found
        if len(self) >= self._most:
            self.clear()
        self[value] = found
        return found


def grown(
    empty: S, add: Callable[[S, Sequence[K]], S], weigh: Callable[[K], int], *, heaviest: int = _MOST_TOKENS
) -> Callable[[Sequence[K]], S]:
    """Return a function that folds a sequence with `add`, and computes only the values that were appended since the last call.

    `add` gets the result for the earlier values, which it must not change, and the appended values. `weigh` returns the tokens of
    a value. The cached sequences have at most `heaviest` tokens.
    """
    known = emptied(Cache[int, tuple[tuple[K, ...], S, int]](_MOST_SEQUENCES, heaviest=heaviest))
    # The key of the sequence that ends with a value, by the identity of that value. Entries may be out of date.
    ending = emptied(Cache[int, int](2 * _MOST_SEQUENCES))

    def drop_longer(given: Sequence[K]) -> None:
        """Drop the sequences that end with one of these values.

        After an activation a tail begins later. The longer sequence is not needed again.
        """
        for value in given:
            key = ending.get(id(value))
            entry = None if key is None else known.get(key)
            if key is not None and entry is not None and entry[0][-1] is value:
                known.drop(key)

    def answer(values: Sequence[K]) -> S:
        if not values:
            return empty
        given = tuple(values)
        # The key is the identity of the first value, which the entry keeps alive. Comparing the same objects is fast.
        before, made, weight = known.get(id(given[0])) or ((), empty, 0)
        if given[: len(before)] != before:
            before, made, weight = (), empty, 0
        if not before:
            drop_longer(given)
        if len(given) > len(before):
            new = given[len(before) :]
            made = add(made, new)
            weight += sum(map(weigh, new))
            known.put(id(given[0]), (given, made, weight), weight=weight)
            if before:
                ending.drop(id(before[-1]))
            ending.put(id(given[-1]), id(given[0]))
        return made

    return answer


def each_once(work_out: Callable[[K], V], weigh: Callable[[K], int]) -> Callable[[Sequence[K]], tuple[V, ...]]:
    """Return a map over append-only sequences that computes only new items. `weigh` returns the tokens of an item."""

    def add(known: tuple[V, ...], values: Sequence[K]) -> tuple[V, ...]:
        return (*known, *map(work_out, values))

    return grown((), add, weigh)
