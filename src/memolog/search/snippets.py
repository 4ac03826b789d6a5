"""The part of a text around the hits, with the hits marked.

Knows words and terms. Never longer than asked for by more than one word.
"""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Final

from memolog.search.words import Word, normal, terms_of_word, words_of

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
        found: list[tuple[int, int, str, float]] = []
        at, find = 0, text.index
        for word in words if here else ():
            # Between two words there is nothing that a word could be found in.
            at = find(word, at)
            end = at + len(word)
            if word in here:
                worth, term = marked[word]
                found.append((at, end, term, worth))
            at = end
        return found

    def _look_at(self, words: AbstractSet[Word], *, is_ascii: bool) -> None:
        terms = self._terms
        wanted = terms.keys()
        for word in words:
            of_word = terms_of_word(word if is_ascii else normal(word))
            if not wanted.isdisjoint(of_word):
                self._marked[word] = max((terms[term], term) for term in of_word if term in terms)
        self._seen |= words


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
