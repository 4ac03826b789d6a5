"""Define the keys of documents, score documents by their own words with exact BM25, and choose which are ranked in detail.

Terms are added to the scores in the order of their rarity, the rarest first. At some point enough documents have a higher score
than the remaining terms alone can give. Then the remaining terms are added only to the documents found so far. Documents that
contain only remaining terms are scored when a page needs them.

The key of a message consists of its thread, its sequence number, a step of its length, and its class. The keys of observations
and tasks are negative. A place is a key without length and class, so the places of consecutive messages are consecutive numbers.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Final, TypeAlias

USER: Final = 0
ASSISTANT: Final = 1
TOOL: Final = 2
OBSERVATION: Final = 3
TASK: Final = 4

_CLASS_BITS = 2
_LENGTH_BITS = 6
_SEQ_BITS = 25
_SHIFT = _CLASS_BITS + _LENGTH_BITS
_STEP = math.log(1.2)
"""A length is stored as one of 64 steps. Each step is 20 % longer than the one before, and the last step is 97,000 words. So the
stored length is wrong by 10 % at most."""
LENGTHS: Final = tuple(1.2**step for step in range(1 << _LENGTH_BITS))
"""The number of words of each step."""
PLACE: Final = 1 << _SHIFT
"""The distance between the keys of two consecutive messages. The place of a key is `key // PLACE`."""


def fits(thread_pk: int, seq: int) -> bool:
    """Return whether the numbers of a message are small enough for a key."""
    return 0 < seq < 1 << _SEQ_BITS and 0 < thread_pk < 1 << (63 - _SHIFT - _SEQ_BITS)


def _step(length: int) -> int:
    return min((1 << _LENGTH_BITS) - 1, round(math.log(max(1, length)) / _STEP))


def key_of_message(thread_pk: int, seq: int, length: int, kind: int) -> int:
    """Return the key of a message."""
    return thread_pk << (_SHIFT + _SEQ_BITS) | seq << _SHIFT | _step(length) << _CLASS_BITS | kind


def key_of_other(pk: int, length: int, kind: int) -> int:
    """Return the key of an observation or a task."""
    return -((2 * pk + (kind == TASK)) << _SHIFT | _step(length) << _CLASS_BITS)


def first_key_of(thread_pk: int) -> int:
    """Return a key that is below the keys of a thread's messages and above the keys of all threads with a lower number."""
    return thread_pk << (_SHIFT + _SEQ_BITS)


def thread_of(key: int) -> int:
    """Return the thread of a message's key."""
    return key >> (_SHIFT + _SEQ_BITS)


def seq_of(key: int) -> int:
    """Return the sequence number of a message's key."""
    return (key >> _SHIFT) & ((1 << _SEQ_BITS) - 1)


def is_task(key: int) -> bool:
    """Return whether a key is the key of a task."""
    return key < 0 and bool(-key >> _SHIFT & 1)


_K1 = 0.9
_B = 0.3
"""Messages are short, and longer messages contain more facts, so both values are below the usual 1.2 and 0.75. Three pairs were
tried on the development halves of the benchmarks: 0.9 and 0.4, 1.2 and 0.4, 0.9 and 0.3. The last was best, by at most half a
point."""
_OFTEN = (1.0, 2.4, 5.0)
"""The frequency that is used for a term that occurs once, two or three times, and more often."""
_NEAR: Final = (0.8, 0.6, 0.5, 0.4)
"""The weights of a term that occurs one, two, three and four messages away, because replies follow within a few messages."""
OTHERS_IN_THREAD: Final = 0.3
"""The weight of words of assistants and tools in a thread, because assistants and tools write more than was asked for."""
CLOSELY = 120
_AROUND = 16
"""The number of hits that are ranked in detail, and the number of the best hits whose neighbours are ranked too. Measured on the
development halves: with 120 and 32 the figures are the same; with 80 and 12 LoCoMo loses 0.7 points (any@10); with 400 and 120
some figures rise and some fall by up to two points."""
_NEAR_ENOUGH = 0.4
"""A message without a term of the query is ranked only if the score of the terms near it is at least this share of the highest
score of terms near any message. Measured on the development halves: 20 % fewer documents are ranked, and no figure falls. With
0.5 LoCoMo loses 0.1 points."""
_LONG_LIST = 256
"""Lists with fewer keys are always scored, because that is faster than the check whether they must be scored."""
_EIGHTHS: Final = 8
"""Average lengths are rounded to an eighth of a word, so that resources with similar averages share their tables."""
BESIDE: Final = tuple((side * distance, share) for distance, share in enumerate(_NEAR, start=1) for side in (-1, 1))
_WITHIN: Final = range(-len(_NEAR), len(_NEAR) + 1)
"""The distances from a hit in which terms count."""
_BESIDE_TOO: Final = range(-2 * len(_NEAR), 2 * len(_NEAR) + 1)
"""The same for a hit whose neighbours are ranked too: the distances from the hit and from the messages beside it."""
_NOTHING: Final[Mapping[str, float]] = {}

_MORE: Final = len(_OFTEN)

_Table: TypeAlias = tuple[list[float], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Posting:
    """The keys of the documents that contain a term, and of those that contain it often or very often, in ascending order."""

    term: str
    weight: float
    keys: Sequence[int]
    often: Sequence[int] = ()
    very_often: Sequence[int] = ()
    occurs: int | None = None
    """The number of documents with a term that was looked up only in some of them, so that `keys` is not complete."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stats:
    """The number of documents in the scope and their total length, by class."""

    documents: Mapping[int, int]
    lengths: Mapping[int, int]

    @property
    def total(self) -> int:
        """Return the number of documents of all classes."""
        return sum(self.documents.values())

    def average(self, kind: int) -> float:
        """Return the average length of the documents of a class, in words."""
        return max(1.0, self.lengths.get(kind, 0) / max(1, self.documents.get(kind, 0)))


class _Scale:
    """Tables of the score of a term with the weight 1, by its frequency and the last bits of the key of the document."""

    def __init__(self, stats: Stats) -> None:
        columns = [_column(round(_EIGHTHS * stats.average(kind))) for kind in range(TASK + 1)]
        self.messages = _interleaved(columns[:OBSERVATION], PLACE)
        self.others = _interleaved(columns[OBSERVATION:], 2 * PLACE)
        self.most = max(column[0][0] for column in columns)

    def add(self, posting: Posting, factor: float, into: dict[int, float], only: set[int] | None = None) -> None:
        """Add the scores of a term to the documents that contain it. `only`, if given, is a subset of these documents."""
        _add(posting.keys if only is None else only, self.messages[0], self.others[0], factor, into)
        for step, keys in ((_MORE, posting.often), (_MORE + 1, posting.very_often)):
            # The score for the lower frequency was added before.
            some = keys if only is None else only.intersection(keys)
            _add(some, self.messages[step], self.others[step], factor, into)

    def of(self, key: int, step: int) -> float:
        """Return the score of a term in one document."""
        return self.messages[step][key & 0xFF] if key > 0 else self.others[step][-key & 0x1FF]


def _add(
    keys: Iterable[int], said: Sequence[float], others: Sequence[float], factor: float, into: dict[int, float]
) -> None:
    if into:
        known = into.get
        for key in keys:
            into[key] = known(key, 0.0) + factor * (said[key & 0xFF] if key > 0 else others[-key & 0x1FF])
    else:
        into.update({key: factor * (said[key & 0xFF] if key > 0 else others[-key & 0x1FF]) for key in keys})


@lru_cache(1_024)
def _column(average: int) -> _Table:
    """Return the BM25 scores for each frequency and each step of the length. `average` is in eighths of a word.

    The tables from `_MORE` on have the differences from one frequency to the next.
    """
    norms = [_K1 * (1 - _B + _B * length * _EIGHTHS / average) for length in LENGTHS]
    scores = [[(_K1 + 1) * times / (times + norm) for norm in norms] for times in _OFTEN]
    more = ([b - a for a, b in zip(*pair, strict=True)] for pair in pairwise(scores))
    return *scores, *more


def _interleaved(columns: Sequence[_Table], size: int) -> _Table:
    """Return the tables of `_column`, by the last bits of a key.

    In the key of a message, the class is in the last two bits. In the key of an observation or a task, these two bits are 0, and
    the bit before the length says whether it is a task.
    """
    tables = tuple([0.0] * size for _ in columns[0])
    for kind, column in enumerate(columns):
        for table, scores in zip(tables, column, strict=True):
            if size == PLACE:
                table[kind::4] = scores
            else:
                table[kind * PLACE : (kind + 1) * PLACE : 4] = scores
    return tables


@dataclass(slots=True, kw_only=True)
class Draft:
    """Hits scored by their own words, and the documents to rank in detail."""

    own: dict[int, float]
    """The score of each hit by its own words, by key. Hits that cannot be among the best may be missing."""
    best: float
    """The highest of these scores."""
    by_place: dict[int, dict[str, float]]
    """The score of each term by place, for the documents to rank in detail and the messages near them."""
    closely: list[int]
    """The keys of the hits to rank in detail, the best first."""
    near: dict[int, float]
    """The score of the terms nearby, by place, for the documents to rank in detail."""
    places: list[int]
    """Further places to rank in detail: places near the best hits without a term of the query, but with many terms nearby."""
    thread_terms: dict[int, dict[str, float]]
    """The frequency of each term in each of the best threads."""
    idf: dict[str, float]
    """The weight of each term by its rarity."""
    total: int
    """The number of all hits, including hits that are not in `own`."""
    passed: list[tuple[Posting, float]]
    """The terms, with their weights, that were only added to hits of rarer terms."""
    scale: _Scale

    def everything(self) -> dict[int, float]:
        """Return the scores of all hits, including hits that are not in `own`."""
        every = dict(self.own)
        for posting, factor in self.passed:
            self.scale.add(posting, factor, every, set(posting.keys).difference(self.own))
        return every


class Sums:
    """The scores of hits by their own words. The postings must be in the order of their rarity, the rarest first."""

    def __init__(
        self,
        postings: Iterable[Posting],
        stats: Stats,
        *,
        prefer: int = -1,
        bonus: float = 0.0,
        allowed: frozenset[int] | None = None,
    ) -> None:
        """Score the hits.

        Documents of the class `prefer` get a `bonus`, as a share of the best score, when the best documents are chosen. If
        `allowed` is given, only these keys are hits.
        """
        self._stats, self._prefer, self._bonus = stats, prefer, bonus
        self.scale = _Scale(stats)
        self.weighed = [(posting, self._factor(posting)) for posting in postings]
        self.own, self.passed = _summed(self.weighed, self.scale, prefer, is_whole=allowed is not None)
        self._among: Iterable[int] | None = None
        self._allowed = allowed
        if allowed is not None:
            self.own = {key: score for key, score in self.own.items() if key in allowed}

    @property
    def total(self) -> int:
        """Return the number of all hits, including hits that are not in `own`."""
        if not self.passed:
            return len(self.own)
        return len(set[int]().union(self.own, *(posting.keys for posting, _ in self.passed)))

    def best_with(self, postings: Sequence[Posting], count: int) -> list[int]:
        """Add documents of further terms as hits, and return at most `count` keys with the highest scores.

        The terms do not count yet in the scores of the returned keys. The caller adds them there with all their documents.
        """
        if not postings:
            return self.best(count)
        known, allowed = self.own, self._allowed
        self.own = dict(known)
        for posting in postings:
            self.scale.add(posting, self._factor(posting), self.own)
        if allowed is not None:
            self.own = {key: score for key, score in self.own.items() if key in allowed}
        best = self.best(count)
        self.own |= {key: known.get(key, 0.0) for key in best}
        return best

    def add(self, postings: Iterable[Posting], best: Sequence[int]) -> None:
        """Add further terms, which are more common, to the best hits. The keys of the postings must be among these."""
        for posting in postings:
            factor = self._factor(posting)
            self.weighed.append((posting, factor))
            self.scale.add(posting, factor, self.own)
        # Their scores were the highest and have only risen.
        self._among = best

    def best(self, count: int) -> list[int]:
        """Return at most this many keys with the highest scores. If scores are equal, the newest documents come first."""
        own = self.own if self._among is None else {key: self.own[key] for key in self._among}
        return _best(own, self._prefer, self._bonus * max(own.values(), default=0.0), count)

    def _factor(self, posting: Posting) -> float:
        """Return the weight of a term by its rarity."""
        total = self._stats.total
        count = (len(posting.keys) if posting.occurs is None else posting.occurs) + 0.5
        return posting.weight * max(0.0, math.log(1 + (total + 1 - count) / count)) if total else 0.0


def draft(sums: Sums, *, around: bool = False) -> Draft:
    """Choose the hits to rank in detail. With `around`, places beside the best hits are chosen too."""
    own, weighed = sums.own, sums.weighed
    closely = sums.best(CLOSELY)
    by_place, thread_terms = _placed(weighed, sums.scale, closely, _AROUND if around else 0)
    near = _near([key // PLACE for key in closely if key > 0], by_place)
    beside = _beside(closely[:_AROUND], by_place) if around else {}
    least = _NEAR_ENOUGH * max((*near.values(), *beside.values()), default=0.0)
    return Draft(
        own=own,
        best=max(own.values(), default=0.0),
        by_place=by_place,
        closely=closely,
        near=near | beside,
        places=sorted(place for place, worth in beside.items() if worth >= least),
        thread_terms=thread_terms,
        idf={posting.term: rarity for posting, rarity in weighed},
        total=sums.total,
        passed=sums.passed,
        scale=sums.scale,
    )


def _summed(
    weighed: Sequence[tuple[Posting, float]], scale: _Scale, prefer: int, *, is_whole: bool
) -> tuple[dict[int, float], list[tuple[Posting, float]]]:
    """Return the score of each hit, and the terms that were only added to hits of rarer terms."""
    own: dict[int, float] = {}
    left = sum(factor for _, factor in weighed) * scale.most
    for at, (posting, factor) in enumerate(weighed):
        if not is_whole and len(posting.keys) > _LONG_LIST and _are_ahead(own, left, prefer):
            # A document that contains a common term often can still get a higher score, so these few documents are added too.
            taken = set(own).union(*(common.often for common, _ in weighed[at:]))
            for common, worth in weighed[at:]:
                scale.add(common, worth, own, taken.intersection(common.keys))
            return own, list(weighed[at:])
        scale.add(posting, factor, own)
        left -= factor * scale.most
    return own, []


def _are_ahead(own: Mapping[int, float], most: float, prefer: int) -> bool:
    """Return whether enough hits of the preferred class have a score above `most`, the maximum for any other document."""
    ahead = [key for key, score in own.items() if score > most]
    if prefer >= 0 and len(ahead) >= CLOSELY:
        ahead = [key for key in ahead if key > 0 and key & 3 == prefer]
    return len(ahead) >= CLOSELY


def _best(own: Mapping[int, float], prefer: int, bonus: float, count: int) -> list[int]:
    """Return at most `count` keys with the highest scores. If scores are equal, the newest documents come first."""
    scored: Mapping[int, float] = own
    if prefer >= 0:
        scored = {key: score + bonus for key, score in own.items() if key & 3 == prefer and key > 0}
        # With a bonus as high as the highest score, no other document can be better than one of the preferred class.
        if len(scored) < count or bonus < max(own.values()):
            scored = {**own, **scored}
    scores = scored.values()
    # Comparing numbers is much faster than comparing pairs, so pairs are created only for the highest scores.
    last = sorted(scores)[-count] if len(scores) > count else 0.0
    best = sorted([(score, key) for key, score in scored.items() if score >= last], reverse=True)
    return [key for _, key in best[:count]]


def _placed(
    weighed: Sequence[tuple[Posting, float]], scale: _Scale, closely: Sequence[int], around: int
) -> tuple[dict[int, dict[str, float]], dict[int, dict[str, float]]]:
    """Return the score of each term near the documents to rank in detail, by place, and its frequency in their threads.

    The neighbours of the first `around` documents are ranked too.
    """
    threads = sorted({thread_of(key) for key in closely if key > 0})
    others = frozenset(key for key in closely if key < 0)
    near = {key // PLACE + distance for key in closely[:around] if key > 0 for distance in _BESIDE_TOO}
    near.update([key // PLACE + distance for key in closely[around:] if key > 0 for distance in _WITHIN])
    by_place: dict[int, dict[str, float]] = {}
    thread_terms: dict[int, dict[str, float]] = {thread: {} for thread in threads}
    # Threads are compared with each other, so the terms of an only thread need not be counted.
    count = _weighted_count if len(threads) > 1 else len
    for posting, factor in weighed:
        term, often, very = posting.term, frozenset(posting.often), frozenset(posting.very_often)
        for thread, keys in _by_thread(posting.keys, threads):
            thread_terms[thread][term] = count(keys) * _OFTEN[0]
            for key in [key for key in keys if key >> _SHIFT in near]:
                step = 0 if key not in often else 2 if key in very else 1
                by_place.setdefault(key >> _SHIFT, {})[term] = factor * scale.messages[step][key & 0xFF]
        for step, some in enumerate((posting.often, posting.very_often), start=1):
            for thread, keys in _by_thread(some, threads):
                # The lower frequency was counted before.
                thread_terms[thread][term] += count(keys) * (_OFTEN[step] - _OFTEN[step - 1])
        for key in others.intersection(posting.keys) if others else ():
            by_place.setdefault(key // PLACE, {})[term] = factor * scale.of(key, (key in often) + (key in very))
    return by_place, thread_terms


def _weighted_count(keys: Sequence[int]) -> float:
    """Return the number of messages. Those of assistants and tools count less."""
    users = len([key for key in keys if key & 3 == USER])
    return users + OTHERS_IN_THREAD * (len(keys) - users)


def _by_thread(keys: Sequence[int], threads: Sequence[int]) -> Iterator[tuple[int, Sequence[int]]]:
    at, count = 0, len(keys)
    for thread in threads:
        at = bisect_left(keys, first_key_of(thread), at)
        if at == count:
            break
        end = first_key_of(thread + 1)
        if keys[at] < end:
            first, at = at, bisect_left(keys, end, at)
            yield thread, keys[first:at]


def _beside(keys: Iterable[int], by_place: Mapping[int, Mapping[str, float]]) -> dict[int, float]:
    """Return the places beside some hits that contain no term, with the score of the terms nearby."""
    places = {key // PLACE + distance for key in keys if key > 0 for distance, _ in BESIDE}
    return _near(places.difference(by_place), by_place)


def _near(places: Iterable[int], by_place: Mapping[int, Mapping[str, float]]) -> dict[int, float]:
    """Return the score of the terms near each place. A term counts once, at its best distance, but not if it is in the place."""
    get = by_place.get
    found: dict[int, float] = {}
    for place in places:
        mine = get(place, _NOTHING)
        best: dict[str, float] = {}
        for distance, share in BESIDE:
            there = get(place + distance)
            if there is not None:
                for term, score in there.items():
                    if term not in mine:
                        worth = score * share
                        if term not in best or worth > best[term]:
                            best[term] = worth
        found[place] = sum(best.values())
    return found
