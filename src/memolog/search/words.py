"""Split a text or a query into words, and words into the terms of the index.

restaurants          restaur                                     a word by its stem
getUserById          =getuserbyid · get · user · by · id         an identifier whole, and its parts
src/auth/login.ts    =src/auth/login.ts · =auth/login.ts ·       a path whole, its ends, and its parts
                     =login.ts · src · auth · login · ts
東京都               東 · 京 · 都 · 東京 · 京都                  characters and pairs
"""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from typing import Final

from memolog.domain.caches import remembered
from memolog.domain.word_lists import UNSPACED
from memolog.search.english import stem

__all__ = [
    "LONGEST_WORD",
    "Word",
    "folded",
    "grams",
    "is_unspaced",
    "names_in",
    "normal",
    "parts_in_order",
    "places_of",
    "plain_of",
    "terms_of_word",
    "whole_of",
    "words_of",
]

LONGEST_WORD: Final = 64
"""A word is known by its first characters: longer ones are keys, hashes and blobs, told apart long before."""

_MOST_PARTS = 12
_MOST_ENDS = 4
_REMEMBERED = 65_536
# What holds an identifier together. Signs that belong to the sentence (a full stop at its end) are never inside a word.
_ASCII: Final = re.compile(r"[A-Za-z0-9_]+(?:[./\\:@#+-]+[A-Za-z0-9_]+)*")
_JOINTS: Final = "./\\:@#+-"
# Points and vowel signs that may be left out; those of the Indic scripts may not.
_POINTS: Final = "\u0300-\u036f\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u064b-\u065f\u0670"
_MARKS: Final = rf"{_POINTS}\u0900-\u0dff"
_LETTER: Final = rf"[^\W{UNSPACED}]|[{_MARKS}]"
_ANY: Final = re.compile(rf"([{UNSPACED}]+)|(?:{_LETTER})+(?:[./\\:@#+-]+(?:{_LETTER})+)*")
_RUN: Final = re.compile(rf"[{UNSPACED}]")
_PART: Final = re.compile(rf"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|(?:[^\W\d_A-Za-z]|[{_MARKS}])+")
_SEGMENTS: Final = re.compile(r"[./\\:@#+-]+")
_JOINED: Final = re.compile(r"[./\\:@#+_-]+")
_ACCENTS: Final = re.compile(f"[{_POINTS}]")

Word = str
"""A piece of a text as it is written there: a word, an identifier, or a run of a script without spaces."""


def normal(text: str) -> str:
    """Return the text with one code for one character: full width, ligatures and composed letters are unified."""
    return text if text.isascii() else unicodedata.normalize("NFKC", text)


def folded(word: str) -> str:
    """Return a word without case and accents."""
    if word.isascii():
        return word.lower()
    plain = _ACCENTS.sub("", unicodedata.normalize("NFD", word.casefold()))
    return unicodedata.normalize("NFC", plain)


def words_of(text: str) -> list[Word]:
    """Return the words of a normal text, in order."""
    return _ASCII.findall(text) if text.isascii() else [hit[0] for hit in _ANY.finditer(text)]


def places_of(word: Word, text: str) -> Iterator[int]:
    """Yield where a word stands in an ASCII text, not counting where it is a part of another one."""
    at, length = text.find(word), len(word)
    while at >= 0:
        before = text[max(0, at - LONGEST_WORD) : at].rstrip(_JOINTS)[-1:]
        if not before.isalnum() and before != "_":
            whole = _ASCII.match(text, at)
            if whole is not None and whole.end() == at + length:
                yield at
        at = text.find(word, at + length)


@remembered(_REMEMBERED)
def terms_of_word(word: Word) -> tuple[str, ...]:
    """Return the terms that a word is indexed as: the one that says most comes first."""
    if word.isalpha() and (word.islower() or word.istitle() or word.isupper()) and not is_unspaced(word):
        return (stem(folded(word))[:LONGEST_WORD],)
    if word.isdigit():
        return (word[:LONGEST_WORD],)
    if is_unspaced(word):
        return tuple(_characters(folded(word)))
    return tuple(dict.fromkeys((*_wholes(word), *_parts(word))))


def is_unspaced(word: Word) -> bool:
    """Return whether a word is a run of a script without spaces."""
    return not word.isascii() and _RUN.match(word) is not None


def _characters(run: str) -> Iterator[str]:
    """Yield each pair of neighbours, then each character: a word of one or two is found as surely as a sentence."""
    yield from (run[at : at + 2] for at in range(len(run) - 1))
    yield from run


def plain_of(word: Word) -> str:
    """Return a word as it is compared with others: folded, and a path with the slashes that most have."""
    return folded(word).replace("\\", "/")[:LONGEST_WORD]


def whole_of(word: Word) -> str:
    """Return the term that stands for a word as it is written."""
    return f"={plain_of(word)}"


def _wholes(word: Word) -> Iterator[str]:
    yield whole_of(word)
    yield from map(whole_of, _ends(word))
    # In `os.WriteFile` or `provider_test.go` there stands a name that is asked for alone.
    for segment in _SEGMENTS.split(word)[:_MOST_PARTS]:
        if "_" in segment or (segment != segment.lower() and _PART.fullmatch(segment) is None):
            yield whole_of(segment)


def _ends(word: Word) -> Iterator[str]:
    """Yield the ends of a path: it is asked for by its last folders as often as by all of them."""
    end = word.replace("\\", "/")
    for _ in range(_MOST_ENDS):
        _, slash, end = end.partition("/")
        if not slash:
            break
        yield end


def names_in(word: Word) -> Iterator[str]:
    """Yield what a longer word is also known by, folded: the ends of a path, and the parts of an identifier."""
    if not word.isalpha():
        yield from map(plain_of, _ends(word))
    if not word.isalpha() or not (word.islower() or word.istitle() or word.isupper()):
        yield from (
            plain_of(part) for part in _PART.findall(word[: 4 * LONGEST_WORD])[:_MOST_PARTS] if not part.isdigit()
        )


def _parts(word: Word) -> Iterator[str]:
    for part in _PART.findall(word[: 4 * LONGEST_WORD])[:_MOST_PARTS]:
        yield stem(folded(part))[:LONGEST_WORD]


def parts_in_order(word: Word) -> Sequence[str]:
    """Return what a word is made of, as it is written: characters where a script has no spaces, else what signs hold together."""
    if word.isalnum() and word.isascii():
        return (word,)
    return word if is_unspaced(word) else [part for part in _JOINED.split(word) if part]


def grams(word: str) -> frozenset[str]:
    """Return the trigrams of a folded word; one of fewer characters has none."""
    return frozenset(word[at : at + 3] for at in range(len(word) - 2))
