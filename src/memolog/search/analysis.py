"""What a text is indexed as: its terms with how often each occurs, its words, its length, and a few traits.

Knows texts. Which text of a message, an observation or a task that is, is said in `texts.py`.
"""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Final

from memolog.search.english import NUMBERS, STOP_WORDS, TIMES
from memolog.search.words import LONGEST_WORD, folded, normal, terms_of_word, words_of

__all__ = ["ASKS", "NAMES_SOMETHING", "NUMBER", "STATES", "TIME", "Analysed", "analyse"]

ASKS: Final = 1
"""It ends with a question: what follows is the answer."""
STATES: Final = 2
"""Most of its sentences are statements."""
NUMBER: Final = 4
TIME: Final = 8
NAMES_SOMETHING: Final = 16

_MOST_CHARACTERS = 1_000_000
_MOST_TERMS = 16_000
# How often a term occurs is kept in three steps: once, twice or thrice, more. Beyond that BM25 hardly rises.
_OFTEN, _VERY_OFTEN = 2, 4
_SENTENCE: Final = re.compile(r"[.!?。!?…]+(?=\s|$)")
_NAME: Final = re.compile(r"(?<=[a-z,] )[A-Z][a-z]+")
_LOOKED_AT = 4_000
_REMEMBERED = 65_536


@dataclass(frozen=True, slots=True, kw_only=True)
class Analysed:
    """One text as the index keeps it."""

    terms: tuple[str, ...]
    """Each term, and marked with `^` and `^^` once more if it occurs often or very often."""
    words: tuple[str, ...]
    """The different words as they are written, folded: what prefixes and parts of words are looked up in."""
    length: int
    traits: int


def analyse(text: str) -> Analysed:
    """Return what a text is indexed as; beyond a million characters it is not looked at."""
    text = normal(text[:_MOST_CHARACTERS])
    counts: dict[str, int] = {}
    words: dict[str, None] = {}
    length = 0
    # Every word of every message passes here: what follows from the word alone is remembered.
    for word, times in Counter(words_of(text)).items():
        plain, terms, is_empty = _known(word)
        words[plain] = None
        length += times
        for term in terms:
            counts[term] = counts.get(term, 0) + (1 if is_empty else times)
    return Analysed(
        terms=tuple(_with_marks(counts)),
        words=tuple(words),
        length=length,
        traits=_traits(text[:_LOOKED_AT], words),
    )


@lru_cache(_REMEMBERED)
def _known(word: str) -> tuple[str, tuple[str, ...], bool]:
    """Return a word folded, its terms, and whether it is a function word: how often one occurs says nothing."""
    plain = folded(word)
    return plain[:LONGEST_WORD], terms_of_word(word), plain in STOP_WORDS


def _with_marks(counts: dict[str, int]) -> Iterator[str]:
    for term, times in islice(counts.items(), _MOST_TERMS):
        yield term
        if times >= _OFTEN:
            yield f"{term}^"
            if times >= _VERY_OFTEN:
                yield f"{term}^^"


def _traits(text: str, words: dict[str, None]) -> int:
    traits = 0
    stripped = text.rstrip()
    if stripped.endswith(("?", "?")):
        traits |= ASKS
    ends = _SENTENCE.findall(stripped)
    asked = sum("?" in end or "?" in end for end in ends)
    if 2 * asked < max(1, len(ends)):
        traits |= STATES
    if not NUMBERS.isdisjoint(words) or any(word.isdigit() for word in words):
        traits |= NUMBER
    if not TIMES.isdisjoint(words):
        traits |= TIME
    if _NAME.search(text):
        traits |= NAMES_SOMETHING
    return traits
