"""Weigh the words of a text (stop words, names, numbers, identifiers) and choose which pieces to keep within a budget.

In scripts without spaces, pairs of characters take the place of words.
"""

import heapq
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Final, NamedTuple

from memolog.text.word_lists import FUNCTION_WORDS, UNSPACED_LETTERS

_CONTRACTIONS: Final = """
    aren't can't couldn't didn't doesn't don't get gets getting haven't he's here's i'd i'll i'm i've isn't it's let let's
    that's there's they're us wasn't we'd we'll we're we've what's won't wouldn't you'd you'll you're you've
    """
STOP: Final = FUNCTION_WORDS | frozenset(_CONTRACTIONS.split())

_EDGES: Final = " \t\n\r.,;:!?\"'`()[]{}<>*|…“”‘’«»–—-=+"
_UNSPACED: Final = re.compile(f"[{UNSPACED_LETTERS}]")
_NAME_WEIGHT: Final = 4.0
_PAIR_WEIGHT: Final = 0.5
_IDENTIFIER: Final = re.compile(r"\d|[_/@#$\\]|\w\.\w|::")
_MEANING: Final = re.compile(r"\(meaning ([^)]{0,200})\)")
_BREAKS: Final = re.compile(r"[.!?;:|]\s+|\s[–—|]\s|[\n(]")
_LONGEST: Final = 200


def words_of(text: str) -> list[str]:
    """Return the words of a text as they are written, without what surrounds them."""
    return [word for token in text.split() if (word := token.strip(_EDGES))]


def is_name(word: str) -> bool:
    """Return whether a word that does not begin a sentence is a name, a number or an identifier."""
    return word != word.lower() or bool(_IDENTIFIER.search(word))


def identifiers_of(text: str) -> list[str]:
    """Return the names of a text in order; adjacent names are joined."""
    found: list[str] = []
    for stretch in _BREAKS.split(_MEANING.sub(" ", text)):
        run: list[str] = []
        for place, word in enumerate(words_of(stretch)):
            # A capital at the beginning of a sentence does not make a name.
            named = is_name(word) and (place > 0 or not (word[1:].islower() and word[1:].isalpha()))
            if named and word.lower() not in STOP and len(word) <= _LONGEST:
                run.append(word)
            elif run:
                found.append(" ".join(run))
                run = []
        if run:
            found.append(" ".join(run))
    return list(dict.fromkeys(found))


def weights_of(text: str, *, is_head: bool = False) -> dict[str, float]:
    """Return the content words of a text in lower case, with their weights."""
    if not text.isascii() and _UNSPACED.search(text):
        return _pairs(text)
    weights: dict[str, float] = {}
    first = not is_head
    # Runs for every word of every message, so the cheap tests come first.
    for token in text.split():
        word = token.strip(_EDGES)
        lower = word.lower()
        if lower and lower not in STOP:
            if lower == word and word.isalpha():
                weights[lower] = 1.0
            else:
                # A capital at the beginning of a sentence does not make a name.
                plain = first and word[1:].isalpha() and word[1:].islower()
                weights[lower] = _NAME_WEIGHT if not plain and is_name(word) else 1.0
        first = False
    return weights


def _pairs(text: str) -> dict[str, float]:
    """Return pairs of characters of a script without spaces, with their weights."""
    weights = {text[at : at + 2]: _PAIR_WEIGHT for at in range(len(text) - 1) if not text[at].isspace()}
    weights.update((word.lower(), _NAME_WEIGHT) for word in words_of(text) if word.isascii() and is_name(word))
    return weights


# ---------------------------------------------------------------- choosing


class Candidate(NamedTuple):
    """A piece that may be kept; a tuple for speed, since there is one for each sentence."""

    weights: Mapping[str, float]
    """What each of its words is worth."""
    cost: float
    factor: float = 1.0
    bonus: float = 0.0
    """Added to the weight of its new words, if it has any."""
    needs: int | None = None
    """The candidate that it depends on: the head of a detail, the sentence a pronoun refers to."""
    group: int = 0
    """Candidates of one group share the cost of opening it: the topic of a list, the start of a line."""
    opening: float = 0.0


def choose(
    candidates: Sequence[Candidate], budget: float, known: set[str], before: Collection[int] = frozenset()
) -> tuple[set[int], float]:
    """Return which candidates to keep within a budget, and what is left of it.

    Greedy: takes the candidate with the most new content for its cost. Words of chosen candidates are added to `known`.
    Candidates chosen `before` are not chosen again, but their groups are open.
    """
    opened = {candidates[index].group for index in before}
    heap, waiting, groups = _queued(candidates, known, opened, before)
    chosen: set[int] = set()
    while heap and budget > 0:
        worth, index = heapq.heappop(heap)
        candidate = candidates[index]
        cost = candidate.cost + (0 if candidate.group in opened else candidate.opening)
        if worth >= 0 or cost > budget or index in chosen:
            continue
        # Worth falls as more words are known, so it is computed again before a candidate is taken.
        now = -_worth(candidate, known, opened)
        if now >= 0 or (heap and now > heap[0][0]):
            heapq.heappush(heap, (now, index))
            continue
        chosen.add(index)
        known.update(candidate.weights)
        budget -= cost
        others = waiting.pop(index, [])
        if candidate.group not in opened:
            # The others of its group cost less now.
            opened.add(candidate.group)
            others = others + [other for other in groups[candidate.group] if candidates[other].needs is None]
        for other in others:
            if other not in chosen and other not in before:
                heapq.heappush(heap, (-_worth(candidates[other], known, opened), other))
    return chosen, budget


def _queued(
    candidates: Sequence[Candidate], known: set[str], opened: set[int], before: Collection[int]
) -> tuple[list[tuple[float, int]], dict[int, list[int]], dict[int, list[int]]]:
    """Return what can be chosen now by its worth, what waits for another, and the members of each group."""
    groups: dict[int, list[int]] = {}
    waiting: dict[int, list[int]] = {}
    heap: list[tuple[float, int]] = []
    for index, candidate in enumerate(candidates):
        groups.setdefault(candidate.group, []).append(index)
        if candidate.needs is not None and candidate.needs not in before:
            waiting.setdefault(candidate.needs, []).append(index)
        elif index not in before:
            heap.append((-_worth(candidate, known, opened), index))
    heapq.heapify(heap)
    return heap, waiting, groups


def _worth(candidate: Candidate, known: set[str], opened: set[int]) -> float:
    gain = sum([weight for word, weight in candidate.weights.items() if word not in known])
    cost = candidate.cost + (0 if candidate.group in opened else candidate.opening)
    return candidate.factor * (gain + candidate.bonus) / cost if gain else 0.0
