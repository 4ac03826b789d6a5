"""Estimate from their words whether two tasks mean the same. Rare words count more than common ones."""

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations

__all__ = ["like_pairs", "words_in"]

_WORD = re.compile(r"[^\W_]+", re.UNICODE)
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_EMPTY = frozenset(
    (
        *("a", "an", "and", "as", "at", "be", "by", "for", "from", "in", "into", "is", "it", "its", "of", "on", "or"),
        *("that", "the", "this", "to", "up", "we", "with"),
    )
)
_SHORTEST_STEM = 3
# Words that many tasks share bring only pairs that rarer words decide; they are weighed, not looked up.
_MOST_SHARING = 200


def words_in(text: str) -> frozenset[str]:
    """Return the words of a text, in the form in which they are compared."""
    pieces = (piece for word in _WORD.findall(_HUMP.sub(" ", text)) for piece in (word.casefold(),))
    return frozenset(stem for piece in pieces if piece not in _EMPTY for stem in (_stem(piece),))


def _stem(word: str) -> str:
    """Return a word without the endings that change nothing here; what is compared is never shown."""
    for ending in ("ing", "ed", "es", "s"):
        if word.endswith(ending) and len(word) - len(ending) >= _SHORTEST_STEM:
            return word[: -len(ending)]
    return word


def like_pairs(texts: Sequence[str], *, least: float, of: int | None = None) -> list[tuple[int, int, float]]:
    """Return the pairs of texts, by index, that are at least that much alike, the likest first.

    With `of`, only the pairs of that text are looked at.
    """
    bags = [words_in(text) for text in texts]
    holders: dict[str, list[int]] = {}
    for index, bag in enumerate(bags):
        for word in bag:
            holders.setdefault(word, []).append(index)
    weights = {word: math.log1p(len(texts) / len(where)) for word, where in holders.items()}
    found: list[tuple[int, int, float]] = []
    for one, other in _candidates(bags, holders, of):
        likeness = _likeness(bags[one], bags[other], weights)
        if likeness >= least:
            found.append((one, other, likeness))
    return sorted(found, key=lambda pair: (-pair[2], pair[0], pair[1]))


def _candidates(
    bags: Sequence[frozenset[str]], holders: Mapping[str, Sequence[int]], of: int | None
) -> Iterable[tuple[int, int]]:
    pairs: Counter[tuple[int, int]] = Counter()
    looked = holders if of is None else {word: holders[word] for word in bags[of]}
    for where in looked.values():
        if of is not None:
            pairs.update((min(of, index), max(of, index)) for index in where if index != of)
        elif len(where) <= _MOST_SHARING:
            pairs.update(combinations(where, 2))
    return sorted(pairs)


def _likeness(one: frozenset[str], other: frozenset[str], weights: Mapping[str, float]) -> float:
    """Return the share of the words' weight that both have."""
    shared = sum(weights[word] for word in one & other)
    union = sum(weights[word] for word in one | other)
    return shared / union if union else 0.0
