"""The part of a text around the hits, with the hits marked.

Knows words and terms. Never longer than asked for by more than one word.
"""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Final

from memolog.search.words import Word, normal, places_of, terms_of_word, words_of

__all__ = ["Marker"]

_LENGTH: Final = 240
_LOOKED_AT = 20_000
_OPEN, _CLOSE = "«", "»"
_BEFORE = 40
_SAME = 1e-9
"""Sums of the same numbers in another order differ by less."""


class Marker:
    """Cuts and marks the texts of one answer: what a word is worth is looked up once for all of them."""

    def __init__(self, terms: Mapping[str, float]) -> None:
        """Take what was looked for, and how rare it is."""
        self._terms = terms
        self._seen: set[Word] = set()
        self._marked: dict[Word, tuple[float, str]] = {}

    def snippet(self, text: str, length: int = _LENGTH) -> str:
        """Return the stretch of a text where the rarest terms stand closest together, each hit between « and »."""
        hits = self._hits(text[:_LOOKED_AT])
        start = _start(hits, length)
        end = min(len(text), start + length)
        pieces = ["…" if start else ""]
        at = start
        for first, last, _, _ in hits:
            if first >= at and last <= end:
                pieces += [text[at:first], _OPEN, text[first:last], _CLOSE]
                at = last
        pieces += [text[at:end], "…" if end < len(text) else ""]
        return " ".join("".join(pieces).split())

    def _hits(self, text: str) -> list[tuple[int, int, str, float]]:
        """Return where the terms stand: first and last character, the term, and its weight."""
        marked, words = self._marked, words_of(text)
        # Most words are no hit, and most texts repeat words: only the different ones are looked at.
        here = set(words)
        self._look_at(here.difference(self._seen), is_ascii=text.isascii())
        here &= marked.keys()
        if text.isascii():
            places = [(at, word) for word in here for at in places_of(word, text)]
            places.sort()
        else:
            places = _one_by_one(text, words, here)
        return [(at, at + len(word), marked[word][1], marked[word][0]) for at, word in places]

    def _look_at(self, words: AbstractSet[Word], *, is_ascii: bool) -> None:
        terms = self._terms
        wanted = terms.keys()
        for word in words:
            of_word = terms_of_word(word if is_ascii else normal(word))
            if not wanted.isdisjoint(of_word):
                self._marked[word] = max((terms[term], term) for term in of_word if term in terms)
        self._seen |= words


def _one_by_one(text: str, words: Sequence[Word], wanted: AbstractSet[Word]) -> list[tuple[int, Word]]:
    """Return where some of the words of a text stand, whatever script it is in."""
    found: list[tuple[int, Word]] = []
    at = 0
    for word in words if wanted else ():
        # Between two words there is nothing that a word could be found in.
        at = text.index(word, at)
        if word in wanted:
            found.append((at, word))
        at += len(word)
    return found


def _start(hits: list[tuple[int, int, str, float]], length: int) -> int:
    """Return where the stretch begins whose different terms are worth most; of equals, the first."""
    best, start, worth, end = 0.0, 0, 0.0, 0
    inside: dict[str, int] = {}
    for first, _, term, weight in hits:
        # The stretch moves along the text: what enters is added, what leaves is taken off.
        while end < len(hits) and hits[end][1] <= first + length - _BEFORE:
            _, _, entering, more = hits[end]
            inside[entering] = inside.get(entering, 0) + 1
            worth += more if inside[entering] == 1 else 0.0
            end += 1
        if worth > best + _SAME:
            best, start = worth, max(0, first - _BEFORE)
        if term in inside:
            inside[term] -= 1
            if not inside[term]:
                del inside[term]
                worth -= weight
        else:
            # A word longer than the stretch never entered it.
            end += 1
    return start
