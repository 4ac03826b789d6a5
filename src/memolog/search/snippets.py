"""The part of a text around the hits, with the hits marked.

Knows words and terms. Never longer than asked for by more than one word.
"""

from collections.abc import Mapping
from typing import Final

from memolog.search.words import normal, terms_of_word, words_of

__all__ = ["snippet_of"]

_LENGTH: Final = 240
_LOOKED_AT = 20_000
_OPEN, _CLOSE = "«", "»"
_BEFORE = 40


def snippet_of(text: str, terms: Mapping[str, float], length: int = _LENGTH) -> str:
    """Return the stretch of a text where the rarest terms stand closest together, each hit between « and »."""
    hits = _hits(text[:_LOOKED_AT], terms)
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


def _hits(text: str, terms: Mapping[str, float]) -> list[tuple[int, int, str, float]]:
    """Return where the terms stand: first and last character, the term, and its weight."""
    found: list[tuple[int, int, str, float]] = []
    at = 0
    for word in words_of(text):
        first = text.find(word, at)
        at = first + len(word)
        best = max(((terms[term], term) for term in terms_of_word(normal(word)) if term in terms), default=None)
        if best:
            found.append((first, at, best[1], best[0]))
    return found


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
