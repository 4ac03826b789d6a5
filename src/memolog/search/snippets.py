"""The part of a text around the hits, with the hits marked.

Knows words and terms. Never longer than asked for by more than one word.
"""

from collections.abc import Mapping
from typing import Final

from memolog.search.words import Word, normal, terms_of_word, words_of, words_with_places

__all__ = ["Marker"]

_LENGTH: Final = 240
_LOOKED_AT = 20_000
_OPEN, _CLOSE = "«", "»"
_BEFORE = 40


class Marker:
    """Cuts and marks the texts of one answer: what a word is worth is looked up once for all of them."""

    def __init__(self, terms: Mapping[str, float]) -> None:
        """Take what was looked for, and how rare it is."""
        self._terms = terms
        self._known: dict[Word, tuple[float, str] | None] = {}

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
        known = self._known
        # Most words are no hit, and most texts repeat words: only the different ones are looked at.
        here = frozenset(words_of(text))
        for word in here - known.keys():
            worth = [(self._terms[term], term) for term in terms_of_word(normal(word)) if term in self._terms]
            known[word] = max(worth) if worth else None
        marked = {word: worth for word in here if (worth := known[word]) is not None}
        if not marked:
            return []
        return [
            (at, at + len(word), marked[word][1], marked[word][0])
            for at, word in words_with_places(text)
            if word in marked
        ]


def _start(hits: list[tuple[int, int, str, float]], length: int) -> int:
    best, start = 0.0, 0
    for index, (first, _, _, _) in enumerate(hits):
        seen: dict[str, float] = {}
        for _, last, term, weight in hits[index : index + 50]:
            if last > first + length - _BEFORE:
                break
            seen[term] = weight
        if sum(seen.values()) > best:
            best, start = sum(seen.values()), max(0, first - _BEFORE)
    return start
