"""Process-wide caches of results that depend on text or rows alone: bounded, and emptied by `forget()` and `aclose()`.

Every such cache is made here, since a cached result holds the text that it was computed from.
"""

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Final, TypeVar

__all__ = ["emptied_by", "empty_caches", "remembered"]

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
