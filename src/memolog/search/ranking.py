"""How hits are ranked: exact BM25 over the rows that the index names, fused with what stands around them.

Knows keys, postings and scores. Two steps, with a look into the store between them: `draft` scores every hit by its own words
and says which documents are worth a closer look; `rank` fuses what is known of those. Both engines hand in the same rows, so
both give the same order.

Every list of scores is divided by its maximum before it is weighed: BM25 has no scale of its own.
"""

import heapq
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from memolog.search.analysis import ASKS, NAMES_SOMETHING, NUMBER, STATES, TIME
from memolog.search.dates import closeness
from memolog.search.keys import ASSISTANT, PLACE, TOOL, USER, place_of, thread_of
from memolog.search.query import Query

__all__ = ["WEIGHTS", "Detail", "Draft", "Posting", "Scored", "Stats", "Weights", "draft", "rank"]

_K1 = 0.9
_B = 0.3
"""Messages are short, and a long one is long because it says more, so both are below the textbook's 1.2 and 0.75. Of the three
pairs tried on the development halves (0.9 and 0.4, 1.2 and 0.4, this one) this was best, by half a point at most."""
_THREAD_K1 = 1.2
_THREAD_B = 0.75
"""The textbook values: threads are as long as the texts that they were found for."""
_OFTEN = (1.0, 2.4, 5.0)
"""What the three steps of how often a term occurs stand for: once, two or three times, more."""
_NEAR = (0.8, 0.6, 0.5, 0.4)
"""What a term is worth that stands one to four messages away: chats answer each other over a few messages, not over twenty."""
_OTHERS_IN_THREAD = 0.3
"""Assistants and tools say more than they are asked, so their words tell less of what a thread is about."""
_CLOSELY = 120
_AROUND = 32
"""How many hits are looked at closely, and around how many of them. Chosen for speed: 160 and 48 gave figures within half a point
on the development halves, 400 and 120 moved some up and some down by up to two."""
_SPAN = len(_NEAR)


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """What each part of a score is worth beside a message's own words, which count 1.

    Tuned together by coordinate ascent on the development halves of two public sets, in steps of a twentieth. The same halves
    are what `bench-retrieval` reports, so its figures are those of a tuned half, not of unseen questions.
    """

    near: float = 0.1
    thread: float = 0.25
    speaker: float = 0.5
    speaker_near: float = 0.5
    asked: float = 0.9
    """Whose words are asked for: the user's, unless the question is about what the assistant said."""
    date: float = 0.7
    reply: float = 0.25
    number: float = 0.15
    time: float = 0.2
    name: float = 0.05
    states: float = 0.1
    early: float = 0.35
    """The first to speak of something is asked for more often than what came of it."""
    covers: float = 0.5
    """Who gives words instead of a question wants all of them; half of the own words' weight lets a long text with all of them
    pass a short one with some."""
    recent: float = 0.02
    """Breaks near-ties and nothing more."""


WEIGHTS: Final = Weights()


@dataclass(frozen=True, slots=True, kw_only=True)
class Posting:
    """Where one term of the query occurs: once at least, often, very often."""

    term: str
    weight: float
    keys: Sequence[int]
    often: Sequence[int] = ()
    very_often: Sequence[int] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Stats:
    """How many documents there are in the scope, and how long they are, by class."""

    documents: Mapping[int, int]
    lengths: Mapping[int, int]
    threads: int = 0

    @property
    def total(self) -> int:
        """Return the number of all documents."""
        return sum(self.documents.values())

    def average(self, kind: int) -> float:
        """Return how long a document of a class is on average."""
        return max(1.0, self.lengths.get(kind, 0) / max(1, self.documents.get(kind, 0)))


class Detail(NamedTuple):
    """What is known of a document beside its key."""

    at: int
    """Microseconds since 1970."""
    traits: int
    speaker: str | None


@dataclass(slots=True, kw_only=True)
class Draft:
    """Hits scored by their own words, and what is to be looked at more closely."""

    own: dict[int, float]
    """By key."""
    by_place: dict[int, dict[str, float]]
    """For hits in the best threads: what each term gave, by thread and sequence number in one."""
    closely: list[int]
    """Keys, best first."""
    places: list[int]
    """Places around the best hits, where no term of the query occurs."""
    thread_terms: dict[int, dict[str, float]]
    """How often each term occurs in the best threads."""
    idf: dict[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scored:
    """One document in the order of the answer."""

    key: int
    score: float
    parts: Mapping[str, float] = field(default_factory=dict[str, float])


# ---------------------------------------------------------------- by its own words


def draft(postings: Sequence[Posting], stats: Stats, query: Query, allowed: frozenset[int] | None = None) -> Draft:
    """Score every hit by its own words; `allowed`, if given, are the only keys that may be found."""
    own: dict[int, float] = {}
    scores: list[dict[int, float]] = []
    idf: dict[str, float] = {}
    total = stats.total
    norms = [_K1 * (1 - _B), *(_K1 * _B / stats.average(kind) for kind in range(5))]
    for posting in postings:
        rarity = math.log(1 + (total - len(posting.keys) + 0.5) / (len(posting.keys) + 0.5)) if total else 0.0
        idf[posting.term] = posting.weight * max(0.0, rarity)
        scored = _scored(posting, idf[posting.term] * (_K1 + 1), norms)
        for key, score in scored.items():
            own[key] = own.get(key, 0.0) + score
        scores.append(scored)
    if allowed is not None:
        own = {key: score for key, score in own.items() if key in allowed}
    prefer = _preferred(query)
    bonus = WEIGHTS.asked * max(own.values(), default=0.0)
    closely = heapq.nlargest(
        _CLOSELY, own, key=lambda key: own[key] + (bonus if key & 3 == prefer and key > 0 else 0.0)
    )
    threads = {thread_of(key) for key in closely if key > 0}
    by_place: dict[int, dict[str, float]] = {}
    thread_terms: dict[int, dict[str, float]] = {thread: {} for thread in threads}
    for posting, scored in zip(postings, scores, strict=True):
        _around(posting, scored, by_place, thread_terms)
    # An answer may stand beside the words of the question; who looks for a word wants the word itself.
    around = closely[:_AROUND] if query.is_question else []
    hit = {place for key in around if key > 0 for place in _neighbours(key)}
    free = sorted(place for place in hit if place not in by_place)
    return Draft(own=own, by_place=by_place, closely=closely, places=free, thread_terms=thread_terms, idf=idf)


def _preferred(query: Query) -> int:
    """Return the class whose words are asked for; -1: any."""
    if not query.is_question:
        return -1
    return ASSISTANT if query.asks_assistant else USER


def _scored(posting: Posting, factor: float, norms: Sequence[float]) -> dict[int, float]:
    """Return BM25 of one term for each document that holds it."""
    often, very = frozenset(posting.often), frozenset(posting.very_often)
    found: dict[int, float] = {}
    cache: dict[int, float] = {}
    for key in posting.keys:
        step = 2 if key in very else 1 if key in often else 0
        # Length and class are the key's last bits, so few different values occur.
        known = (key & 0xFF) << 2 | step if key > 0 else -1
        score = cache.get(known) if known >= 0 else None
        if score is None:
            place = place_of(key)
            times = _OFTEN[step]
            score = factor * times / (times + norms[0] + norms[1 + place.kind] * place.length)
            if known >= 0:
                cache[known] = score
        found[key] = score
    return found


def _around(
    posting: Posting,
    scored: Mapping[int, float],
    by_place: dict[int, dict[str, float]],
    thread_terms: dict[int, dict[str, float]],
) -> None:
    """Note what a term gave, for the hits that stand in one of the best threads."""
    often, very = frozenset(posting.often), frozenset(posting.very_often)
    for key, score in scored.items():
        if key < 0:
            by_place.setdefault(key // PLACE, {})[posting.term] = score
            continue
        counts = thread_terms.get(thread_of(key))
        if counts is None:
            continue
        by_place.setdefault(key // PLACE, {})[posting.term] = score
        times = _OFTEN[2 if key in very else 1 if key in often else 0]
        share = 1.0 if key & 3 == USER else _OTHERS_IN_THREAD
        counts[posting.term] = counts.get(posting.term, 0.0) + share * times


def _neighbours(key: int) -> Iterable[int]:
    place = key // PLACE
    for distance in range(1, _SPAN + 1):
        yield place - distance
        yield place + distance


# ---------------------------------------------------------------- with what stands around it


def rank(
    drafted: Draft,
    query: Query,
    details: Mapping[int, Detail],
    thread_lengths: Mapping[int, tuple[int, int]],
    speakers: frozenset[str] = frozenset(),
    *,
    explain: bool = False,
) -> list[Scored]:
    """Return all hits, the best first: those of a closer look, then the others by their own words.

    `details` are of the keys to look at closely and of those found around them; `thread_lengths` are the words of users and
    of others in each thread; `speakers` are the names in the question that somebody of this scope bears.
    """
    if not details:
        return []
    own_max = max(drafted.own.values(), default=0.0) or 1.0
    near = {key: _near(key, drafted) for key in details if key > 0}
    near_max = max(near.values(), default=0.0) or 1.0
    threads = _threads(drafted, thread_lengths)
    thread_max = max(threads.values(), default=0.0) or 1.0
    oldest = min(detail.at for detail in details.values())
    span = (max(detail.at for detail in details.values()) - oldest) or 1
    asks = {key // PLACE for key, detail in details.items() if key > 0 and detail.traits & ASKS}
    scored: list[Scored] = []
    for key, detail in details.items():
        around = near.get(key, 0.0) / near_max
        own = drafted.own.get(key, 0.0) / own_max
        if not own and not around:
            continue
        parts = _by_words(key, own, around, drafted, asks, own_max)
        parts["thread"] = WEIGHTS.thread * threads.get(thread_of(key), 0.0) / thread_max if key > 0 else 0.0
        if not query.is_question:
            parts["covers"] = WEIGHTS.covers * _covered(key, drafted)
        parts |= _by_question(key, own, around, query, detail, speakers)
        parts["recent"] = WEIGHTS.recent * (detail.at - oldest) / span
        scored.append(Scored(key=key, score=sum(parts.values()), parts=parts if explain else {}))
    scored.sort(key=lambda one: (-one.score, -one.key))
    rest = sorted((key for key in drafted.own if key not in details), key=lambda key: (-drafted.own[key], -key))
    # Behind the ones looked at closely: their scores are on another scale, and so are put below.
    floor = min((one.score for one in scored), default=0.0)
    scored += [Scored(key=key, score=min(floor, drafted.own[key] / own_max)) for key in rest]
    return scored


def _near(key: int, drafted: Draft) -> float:
    """Return what the terms are worth that stand nearby and not in the document itself, each where it counts most."""
    place, by_place = key // PLACE, drafted.by_place
    mine = by_place.get(place, {})
    best: dict[str, float] = {}
    for distance, share in enumerate(_NEAR, start=1):
        for there in (place - distance, place + distance):
            if there not in by_place:
                continue
            for term, score in by_place[there].items():
                if term not in mine and score * share > best.get(term, 0.0):
                    best[term] = score * share
    return sum(best.values())


def _covered(key: int, drafted: Draft) -> float:
    """Return which share of what is looked for, by its rarity, stands in a document."""
    wanted = sum(drafted.idf.values())
    return sum(drafted.idf[term] for term in drafted.by_place.get(key // PLACE, {})) / wanted if wanted else 0.0


def _threads(drafted: Draft, lengths: Mapping[int, tuple[int, int]]) -> dict[int, float]:
    """Return BM25 of each thread taken as one text."""
    sizes = {thread: users + _OTHERS_IN_THREAD * others for thread, (users, others) in lengths.items()}
    average = sum(sizes.values()) / len(sizes) if sizes else 1.0
    found: dict[int, float] = {}
    for thread, counts in drafted.thread_terms.items():
        norm = _THREAD_K1 * (1 - _THREAD_B + _THREAD_B * sizes.get(thread, average) / (average or 1.0))
        found[thread] = sum(
            drafted.idf[term] * times * (_THREAD_K1 + 1) / (times + norm) for term, times in counts.items()
        )
    return found


def _by_words(key: int, own: float, around: float, drafted: Draft, asks: set[int], own_max: float) -> dict[str, float]:
    parts = {"own": own, "near": WEIGHTS.near * around}
    if key > 0:
        before = key // PLACE - 1
        if before in asks:
            asked = sum(drafted.by_place.get(before, {}).values())
            parts["reply"] = WEIGHTS.reply * asked / own_max
        parts["early"] = WEIGHTS.early * own / (1 + place_of(key).seq) if own else 0.0
    return parts


def _by_question(
    key: int, own: float, around: float, query: Query, detail: Detail, speakers: frozenset[str]
) -> dict[str, float]:
    parts: dict[str, float] = {}
    traits = detail.traits
    kind = key & 3 if key > 0 else place_of(key).kind
    if query.is_question and kind != TOOL:
        is_asked = kind == _preferred(query)
        # An observation tells what was said, whoever said it.
        parts["asked"] = WEIGHTS.asked * (1.0 if is_asked else 0.5 if key < 0 else 0.0)
        parts["states"] = WEIGHTS.states if traits & STATES and kind != ASSISTANT else 0.0
    if speakers and detail.speaker in speakers:
        parts["speaker"] = WEIGHTS.speaker + WEIGHTS.speaker_near * around
    if query.windows:
        parts["date"] = WEIGHTS.date * closeness(detail.at, query.windows)
    if query.asks_number and traits & NUMBER:
        parts["number"] = WEIGHTS.number * own
    if query.asks_time and traits & TIME:
        parts["time"] = WEIGHTS.time * own
    if query.asks_name and traits & NAMES_SOMETHING:
        parts["name"] = WEIGHTS.name * own
    return parts
