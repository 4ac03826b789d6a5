"""The part of a text around the hits, with the hits marked.

Knows words and terms. Never longer than asked for by more than one word.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Final, TypeAlias

from memolog.search.words import (
    LONGEST_WORD,
    Word,
    folded,
    is_unspaced,
    normal,
    places_of,
    terms_of_word,
    words_of,
)

__all__ = ["Marker"]

_LENGTH: Final = 240
_LOOKED_AT = 20_000
_MOST_CHARACTERS = 1_000_000
_OPEN, _CLOSE = "«", "»"
_BEFORE = 40
_SAME = 1e-9
"""Sums of the same numbers in another order differ by less."""

_Hit: TypeAlias = tuple[int, int, str, float]
"""Where a term stands: its first character, the one after its last, the term and its weight."""


class Marker:
    """Cuts and marks the texts of one answer: what a word is worth is looked up once for all of them."""

    def __init__(self, terms: Mapping[str, float]) -> None:
        """Take what was looked for, and how rare it is."""
        self._terms = terms
        self._seen: set[Word] = set()
        self._marked: dict[Word, tuple[float, str]] = {}

    def snippet(self, text: str, length: int = _LENGTH) -> str:
        """Return the stretch of a text where the rarest terms stand closest together, each hit between « and »."""
        hits = self._first_hits(text)
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

    def _first_hits(self, text: str) -> list[_Hit]:
        """Return the hits of the first stretch of a long text that has any."""
        hits = self._hits(text[:_LOOKED_AT])
        at = _LOOKED_AT
        while not hits and at < min(len(text), _MOST_CHARACTERS):
            # A word may stand across the border: the stretches overlap.
            at -= LONGEST_WORD
            found = self._hits(text[at : at + _LOOKED_AT])
            hits = [(first + at, last + at, term, worth) for first, last, term, worth in found]
            at += _LOOKED_AT
        return hits

    def _hits(self, text: str) -> list[_Hit]:
        """Return where the terms stand."""
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
        hits: list[_Hit] = []
        for at, word in places:
            worth, term = marked[word]
            if not word.isascii() and is_unspaced(word):
                hits += self._inside(word, at)
            else:
                hits.append((at, at + len(word), term, worth))
        return hits

    def _inside(self, run: Word, at: int) -> Iterator[_Hit]:
        """Yield where terms stand in a run without spaces; those that touch are one hit."""
        plain = folded(run)
        wanted = [term for term in dict.fromkeys(terms_of_word(normal(run))) if term in self._terms]
        found = sorted((hit.start(), hit.end(), term) for term in wanted for hit in re.finditer(re.escape(term), plain))
        if not found or len(plain) != len(run):
            worth, term = self._marked[run]
            yield at, at + len(run), term, worth
            return
        first, last, term = found[0]
        for begins, ends, other in found[1:]:
            if begins > last:
                yield at + first, at + last, term, self._terms[term]
                first, last, term = begins, ends, other
            else:
                last, term = max(last, ends), max(term, other, key=self._terms.__getitem__)
        yield at + first, at + last, term, self._terms[term]

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


def _start(hits: list[_Hit], length: int) -> int:
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
