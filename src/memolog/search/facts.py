"""Search the working memory and items. They are small, so they are compared with the query without an index."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import datetime
from itertools import chain
from typing import Final

from memolog.search.analysis import Redact, add_stored_words, analyse
from memolog.search.query import Query, Wish
from memolog.search.snippets import contains_phrases
from memolog.text.words import STOP_WORDS

MOST_DOCUMENTS: Final = 50
"""The working memory of the resource and of the threads that changed theirs last, at most so many documents, is searched."""
SOURCE: Final = "working-memory"
_MOST_FACTS: Final = 5
# A line is found if it contains words with at least this share of the weight of the query.
_SHARE: Final = 0.5
# The parameters of BM25, as in the index.
_K1: Final = 0.9
_B: Final = 0.3
_HEADING: Final = re.compile(r"#{1,6}[ \t]+(.*)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """A line of a working memory with the lines below it that are indented, and the heading above it."""

    text: str
    at: datetime
    thread: str | None
    score: float
    """The share of the weight of the query that the words of the line have."""


def facts_for(
    query: Query,
    documents: Sequence[tuple[str | None, str, datetime]],
    weights: Mapping[str, float],
    redact: Redact,
) -> list[Fact]:
    """Return the lines of working memories that answer a query, the best first. `weights` has the rarity of terms."""
    wishes = [wish for wish in query.wishes if wish.prefix or wish.inside or wish.terms[0] not in STOP_WORDS]
    if not wishes or query.roles or query.tasks or (query.sources and SOURCE not in query.sources):
        return []
    # A word that no message contains is the rarest.
    rarest = max(weights.values(), default=1.0)
    worth = {wish: weights.get(wish.terms[0] if wish.terms else "", rarest) for wish in wishes}
    found: list[Fact] = []
    for thread, text, at in documents:
        if _is_outside(query, thread, at):
            continue
        for heading, line in _lines(redact(text)):
            whole = f"{heading}: {line}" if heading else line
            own, all_words = _words(line), _words(whole)
            hits = [wish for wish in wishes if _occurs(wish, all_words)]
            score = sum(worth[wish] for wish in hits) / sum(worth.values())
            if score < _SHARE or not any(_occurs(wish, own) for wish in hits):
                continue
            if any(_occurs(wish, all_words) for wish in query.without):
                continue
            if not contains_phrases(whole, query.phrases) or _has_any(whole, query.without_phrases):
                continue
            found.append(Fact(text=whole, at=at, thread=thread, score=score))
    found.sort(key=lambda fact: (-fact.score, len(fact.text)))
    return found[:_MOST_FACTS]


def scores_of(query: Query, texts: Sequence[str]) -> list[float]:
    """Return the score of each text by its words (BM25). It is 0 for a text that does not answer the query."""
    wishes = [wish for wish in query.wishes if wish.prefix or wish.inside or wish.terms[0] not in STOP_WORDS]
    known = [_words(text) for text in texts]
    lengths = [max(1, len(words)) for _, words in known]
    average = sum(lengths) / max(1, len(lengths))
    scores = [0.0] * len(texts)
    for wish in wishes:
        hits = [place for place, words in enumerate(known) if _occurs(wish, words)]
        weight = math.log(1 + (len(texts) - len(hits) + 0.5) / (len(hits) + 0.5))
        for place in hits:
            scores[place] += weight * (_K1 + 1) / (1 + _K1 * (1 - _B + _B * lengths[place] / average))
    for place, text in enumerate(texts):
        if (
            any(_occurs(wish, known[place]) for wish in query.without)
            or not contains_phrases(text, query.phrases)
            or _has_any(text, query.without_phrases)
        ):
            scores[place] = 0.0
        elif query.phrases and not wishes:
            scores[place] = 1.0
    return scores


def _has_any(text: str, phrases: Sequence[str]) -> bool:
    return any(contains_phrases(text, (phrase,)) for phrase in phrases)


def _is_outside(query: Query, thread: str | None, at: datetime) -> bool:
    if query.threads and thread not in query.threads:
        return True
    is_early = query.after is not None and at < query.after
    return thread in query.without_threads or is_early or (query.before is not None and at >= query.before)


def _lines(text: str) -> Iterator[tuple[str, str]]:
    """Yield the lines of a document with their headings. Indented lines belong to the line above them."""
    heading, block = "", list[str]()
    for line in [*text.split("\n"), "# "]:
        title = _HEADING.match(line)
        if block and (title or not line.startswith((" ", "\t"))):
            yield heading, "\n".join(block).strip()
            block = []
        if title:
            heading = title[1].strip()
        elif line.strip():
            block.append(line)


def _words(text: str) -> tuple[frozenset[str], AbstractSet[str]]:
    analysed = analyse(text)
    stored: dict[str, tuple[str, ...]] = {}
    add_stored_words(analysed.words, stored)
    return frozenset(analysed.terms), frozenset(chain.from_iterable(stored.values()))


def _occurs(wish: Wish, words: tuple[frozenset[str], AbstractSet[str]]) -> bool:
    terms, plain = words
    if wish.prefix:
        return any(word.startswith(wish.prefix) for word in plain)
    if wish.inside:
        return any(wish.inside in word for word in plain)
    whole, *parts = wish.terms
    # An identifier occurs if all its parts do.
    return (whole in terms and (not parts or whole.startswith("="))) or (bool(parts) and terms.issuperset(parts))
