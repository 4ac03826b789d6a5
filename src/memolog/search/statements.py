"""Find the sentence of a text that states what a query asks for, and compare it with a later one."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from memolog.text.word_lists import NUMBER_WORDS
from memolog.text.words import NUMBERS, STOP_WORDS, folded, normal, terms_of_word, words_of

_LOOKED_AT = 4_000
_LONGEST = 30
"""Longer sentences state several things. With 40 LongMemEval loses 1.3 points (turns, any@1); 25 gives the same."""
_OF_THE_FACT = 0.5
"""The least share of the words of the query, weighted by rarity, that a statement contains."""
_SAME_FACT = 0.6
"""Two statements are about one fact if they share at least this part of the words of the query that either contains."""
_FEW = 4
"""The most words of a short statement besides those of the query. Without a limit LoCoMo loses half a point (any@1)."""
# "Dr." and "St." do not end a sentence.
_BORDER: Final = re.compile(r"(?<=[.!?。!?…])(?<!\b[A-Z]\.)(?<!\b[A-Z][a-z]\.)(?<!\b[A-Z][a-z]{2}\.)\s+|\n+")
_FIGURE: Final = re.compile(r"\d")
_NAME: Final = re.compile(r"[A-ZÀ-ÖØ-Þ_./\\:@#]")
_ASKS: Final = ("?", "?")
_WORDS_OF_CHANGE: Final = """
    actually another anymore change changed changes changing correction corrected instead longer lowered moved moves moving new
    now outdated postponed raised renamed replaced replaces rescheduled reverted switched switching update updated upgraded
    aktualisiert anderer andere geandert gewechselt jetzt neu neue neuen neuer neues nun stattdessen umbenannt umgezogen verlegt
    verschoben
    actualizado ahora cambiado cambiamos cambiaron cambie cambio mudado mudamos nueva nuevo otra otro
    autre changee changees demenage desormais maintenant nouveau nouvelle remplace
    adesso agora alterado altro cambiato mudou nova novo nuova nuovo ora outro spostato
    ander gewijzigd nieuw nieuwe nu veranderd verhuisd verplaatst
    """
_NUMBERS: Final = NUMBERS | {folded(word) for words in NUMBER_WORDS.values() for word in words[2:]} | {"duas"}
_CHANGES: Final = frozenset(_WORDS_OF_CHANGE.split())
"""Folded; English, German, Spanish, French, Portuguese and Italian, Dutch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """A sentence that states what the query asks for."""

    terms: frozenset[str]
    """The terms of the query in it."""
    figures: frozenset[str]
    """Its numbers, and other words with a digit, that are not in the query."""
    names: frozenset[str]
    """Its names and identifiers that are not in the query."""
    others: frozenset[str]
    """Its other words that are not in the query."""
    mentions_change: bool
    """Whether it contains a word that means a change."""


def statement_in(text: str, rarity: Mapping[str, float]) -> Statement | None:
    """Return the sentence with most of the words of the query; None if no sentence has enough of them."""
    best, most = None, _OF_THE_FACT * sum(rarity.values())
    for sentence in _BORDER.split(normal(text[:_LOOKED_AT])):
        if sentence.rstrip().endswith(_ASKS):
            continue
        words = words_of(sentence)
        if len(words) > _LONGEST:
            continue
        terms = frozenset(term for word in words for term in terms_of_word(word) if term in rarity)
        worth = sum(map(rarity.__getitem__, terms))
        if terms and worth >= most:
            best, most = _statement(words, terms), worth
    return best


def _statement(words: Sequence[str], terms: frozenset[str]) -> Statement:
    figures, names, others = set[str](), set[str](), set[str]()
    for place, word in enumerate(words):
        stems, plain = terms_of_word(word), folded(word)
        if plain in STOP_WORDS or not terms.isdisjoint(stems):
            continue
        if plain in _NUMBERS or _FIGURE.search(word):
            figures.add(stems[0])
        elif _NAME.search(word, 0 if place else 1):
            # The first word of a sentence always begins with a capital letter.
            names.add(stems[0])
        else:
            others.add(stems[0])
    return Statement(
        terms=terms,
        figures=frozenset(figures),
        names=frozenset(names),
        others=frozenset(others),
        mentions_change=not _CHANGES.isdisjoint(map(folded, words)),
    )


def changes(older: Statement, newer: Statement, rarity: Mapping[str, float]) -> bool:
    """Return whether a later statement is about the same fact and gives another value."""
    rests = (older.others, newer.others)
    both = sum(map(rarity.__getitem__, older.terms & newer.terms))
    if both < _SAME_FACT * sum(map(rarity.__getitem__, older.terms | newer.terms)):
        return False
    # A statement that only repeats the fact has the same figure or name.
    if newer.figures:
        return bool(newer.figures - older.figures)
    if newer.names:
        return bool(newer.names - older.names)
    if newer.mentions_change:
        return True
    # In a short statement the other words are the value ("the café", "the station").
    return min(map(len, rests)) > 0 and max(map(len, rests)) <= _FEW and rests[0].isdisjoint(rests[1])
