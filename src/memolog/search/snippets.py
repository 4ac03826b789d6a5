"""Cut the best part out of a text that contains words of a query, and mark these words. Find phrases in texts."""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import islice
from typing import Final, TypeAlias

from memolog.core.cache import remembered
from memolog.search.query import phrase_of
from memolog.text.words import IRREGULAR, Word, folded, is_unspaced, normal, places_of, stem, terms_of_word, words_of

_REMEMBERED: Final = 512
_BEGINS_A_WORD: Final = re.compile(r"\w")


def contains_phrases(text: str, phrases: Sequence[str]) -> bool:
    """Return whether a text contains all phrases. The phrases must be in the form that `phrase_of` returns."""
    # Regular expressions are tried first, because splitting a text into words takes a hundred times as long.
    plain = folded(normal(text))
    if text.isascii():
        # Two spaces in a row show that the phrase contained a single accent between them, so an ASCII text cannot contain it.
        return all("  " not in phrase and among_ascii(phrase).search(plain) for phrase in phrases)
    if not all(_roughly(phrase).search(plain) for phrase in phrases):
        return False
    words = phrase_of(text)
    return all(phrase in words for phrase in phrases)


@remembered(_REMEMBERED)
def among_ascii(phrase: str) -> re.Pattern[str]:
    """Return a pattern for a phrase in folded ASCII text, where words consist of letters and digits."""
    words = r"[^a-z0-9]+".join(map(re.escape, phrase.split()))
    return re.compile(rf"(?<![a-z0-9]){words}(?![a-z0-9])")


@remembered(_REMEMBERED)
def _roughly(phrase: str) -> re.Pattern[str]:
    """Return a pattern for a phrase in folded text of any script. If the pattern does not match, the phrase does not occur."""
    words = phrase.split()
    # If a word begins with a punctuation mark, only the first word is searched. In a long row of punctuation marks the whole
    # pattern would be slow.
    if not all(_BEGINS_A_WORD.match(word) for word in words):
        words = words[:1]
    return re.compile(r"[\W_]*".join(map(re.escape, words)))


# All lengths are in characters. A snippet has this length, and begins this far before its first match.
_LENGTH: Final = 240
_BEFORE = 40
_MORE = 160
"""`exact` may be longer than the snippet by this length at each end, to begin and end with a whole line."""
# In a longer text, words are filtered by a pattern before they are analysed.
_LONG_TEXT = 20_000
# The text after this many characters is not searched. Other scripts take four times as long as ASCII.
_MOST_CHARACTERS = 1_000_000
_MOST_OTHERWISE = 250_000
_MOST_READ_BY_WORD = 50_000
# The maximum matches of a word, and of a phrase, in a text.
_MOST_HITS = 10_000
_MOST_PHRASES = 1_000
_BEGINS = 3
_NAME: Final = re.compile(r"\W")
# Of two equally rare terms, the term that occurs more often in the text has a slightly lower weight.
_SHADE, _MOST_SHADES = 1e-6, 10
_OPEN, _CLOSE = "«", "»"
_SAME = 1e-9
"""Sums that differ by less are considered equal."""

_Hit: TypeAlias = tuple[int, int, str, float]
"""Start and end of a match, the term and its weight."""


class Marker:
    """Cuts and marks the texts of one answer. The weight of a word is computed once for all texts."""

    def __init__(self, terms: Mapping[str, float], phrases: Collection[str] = ()) -> None:
        """Set the terms of the query with their weights, and its phrases in the form that `phrase_of` returns."""
        self._terms = terms
        self._phrases = [phrase.split() for phrase in phrases]
        # A phrase counts more than all single words together.
        self._phrase_worth = sum(terms.values()) + 1.0
        self._seen: set[Word] = set()
        self._marked: dict[Word, tuple[float, str]] = {}

    def both(self, text: str, length: int = _LENGTH) -> tuple[str, str]:
        """Return the part of a text where the rarest terms are closest together, in two forms.

        In the first form, « and » mark the matches, and spaces are reduced to one. The second form is a copy in whole lines.
        """
        start, hits = self._best(text, length)
        return self._with_marks(text, start, hits, length), _whole_lines(text, start, min(len(text), start + length))

    def _with_marks(self, text: str, start: int, hits: Sequence[_Hit], length: int) -> str:
        end = min(len(text), start + length)
        pieces = ["…" if start else ""]
        at = start
        for first, last, _, _ in hits:
            if first >= at and last <= end:
                pieces += [text[at:first], _OPEN, text[first:last], _CLOSE]
                at = last
        pieces += [text[at:end], "…" if end < len(text) else ""]
        return " ".join("".join(pieces).split())

    def place(self, text: str, length: int = _LENGTH) -> tuple[int, int] | None:
        """Return where the matches in the part that `both` returns begin and end. None if there are no matches."""
        start, hits = self._best(text, length)
        inside = [hit for hit in hits if hit[0] >= start and hit[1] <= start + length] or hits[:1]
        return (inside[0][0], inside[-1][1]) if inside else None

    def _best(self, text: str, length: int) -> tuple[int, list[_Hit]]:
        """Return the start of the best part, and the matches in and around it."""
        text = text[: _MOST_CHARACTERS if text.isascii() else _MOST_OTHERWISE]
        is_long = len(text) > _LONG_TEXT
        words, here = self._words(text, _sieve(self._terms) if is_long else None)
        hits = self._hits(text, words, here)
        if is_long:
            often = Counter(self._marked[word] for word in words if word in here)
            worths = {term: worth - _SHADE * min(count, _MOST_SHADES) for (worth, term), count in often.items()}
            hits = [(first, last, term, worths.get(term, worth)) for first, last, term, worth in hits]
        phrases = self._phrase_hits(text, length - _BEFORE) if self._phrases else []
        return _start(sorted(hits + phrases) if phrases else hits, length), hits

    def _phrase_hits(self, text: str, longest: int) -> list[_Hit]:
        """Return the matches of the phrases, each with at most `longest` characters."""
        hits: list[_Hit] = []
        parts = None if text.isascii() else _parts_of(text[:_MOST_READ_BY_WORD])
        plain = text.lower() if parts is None else ""
        for words in self._phrases:
            if parts is not None:
                found = _in_parts(words, parts)
            elif all(word in plain for word in words):
                found = (hit.span() for hit in among_ascii(" ".join(words)).finditer(plain))
            else:
                continue
            hits += [
                (first, min(last, first + longest), f"{words}", self._phrase_worth)
                for first, last in islice(found, _MOST_PHRASES)
            ]
        return sorted(hits)

    def _words(self, text: str, sieve: re.Pattern[str] | None = None) -> tuple[list[Word], AbstractSet[Word]]:
        words = words_of(text)
        # Most words do not match and many are repeated, so only distinct words are checked.
        here = set(words)
        new = here.difference(self._seen)
        if sieve is not None:
            self._seen |= new
            new = {word for word in new if sieve.search(folded(normal(word)))}
        self._look_at(new, is_ascii=text.isascii())
        here &= self._marked.keys()
        return words, here

    def _hits(self, text: str, words: Sequence[Word], here: AbstractSet[Word]) -> list[_Hit]:
        marked = self._marked
        if text.isascii():
            places = [(at, word) for word in here for at in islice(places_of(word, text), _MOST_HITS)]
            places.sort()
        else:
            places = [place for place in _places(text, words) if place[1] in here] if here else []
        hits: list[_Hit] = []
        for at, word in places:
            worth, term = marked[word]
            if not word.isascii() and is_unspaced(word):
                hits += self._inside(word, at)
            else:
                hits.append((at, at + len(word), term, worth))
        return hits

    def _inside(self, run: Word, at: int) -> Iterator[_Hit]:
        """Yield the matches in a text without spaces. Adjacent matches are joined."""
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


def _places(text: str, words: Iterable[Word]) -> Iterator[tuple[int, Word]]:
    """Yield the position of each word. `words` must be all words of the text in order."""
    at = 0
    for word in words:
        # The word cannot occur between the last word and this word, because there are no words between them.
        at = text.index(word, at)
        yield at, word
        at += len(word)


def _whole_lines(text: str, start: int, end: int) -> str:
    """Return a part of a text, extended to whole lines. … marks an end that is not the end of a line."""
    first = text.rfind("\n", max(0, start - _MORE), start) + 1
    if not first:
        first = 0 if start <= _MORE else start
    last = text.find("\n", end, end + _MORE)
    if last < 0:
        last = len(text) if len(text) <= end + _MORE else end
    is_cut = first == start and start and text[start - 1] != "\n", last == end < len(text) and text[end] != "\n"
    return f"{'…' if is_cut[0] else ''}{text[first:last]}{'…' if is_cut[1] else ''}"


def _sieve(terms: Collection[str]) -> re.Pattern[str]:
    """Return a pattern that matches every word that has one of the terms: the beginning of a term, or an irregular form.

    The pattern saves time, because analysing a word takes thirty times as long, and a long text has tens of thousands of words.
    """
    begins = {_NAME.split(term.lstrip("="))[0] for term in terms}
    # The last letter of a short stem may differ from that of the word: `dai` is the stem of `day`.
    short = {begin[: _BEGINS if len(begin) > _BEGINS else _BEGINS - 1] for begin in begins}
    return re.compile("|".join(map(re.escape, sorted(short | {form for form in IRREGULAR if stem(form) in terms}))))


def _in_parts(words: Sequence[str], parts: Sequence[tuple[str, int, int]]) -> Iterator[tuple[int, int]]:
    texts = [part for part, _, _ in parts]
    for at, text in enumerate(texts):
        if text == words[0] and texts[at : at + len(words)] == words:
            yield parts[at][1], parts[at + len(words) - 1][2]


def _parts_of(text: str) -> list[tuple[str, int, int]]:
    """Return the words of a text with their start and end. In scripts without spaces, each character counts as a word."""
    words = words_of(text)
    by_word = {word: phrase_of(word).split() for word in set(words)}
    found: list[tuple[str, int, int]] = []
    for at, word in _places(text, words):
        parts = by_word[word]
        if len(parts) == len(word):
            found += [(part, at + number, at + number + 1) for number, part in enumerate(parts)]
        else:
            found += [(part, at, at + len(word)) for part in parts]
    return found


def _start(hits: Sequence[_Hit], length: int) -> int:
    """Return the start of the part whose distinct terms have the highest weight. If several are equal, return the first."""
    best, start, worth, end = 0.0, 0, 0.0, 0
    inside: dict[str, int] = {}
    for first, _, term, weight in hits:
        # The part slides over the text: the weights of terms that enter it are added, and those that leave it are subtracted.
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
            # A word that is longer than the part never entered it.
            end += 1
    return start
