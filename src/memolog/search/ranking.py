"""Rank hits: fuse the scores of their own words with those of their surroundings.

Every list of scores is divided by its maximum before it is weighted, since BM25 has no fixed scale. Both engines pass the
same rows, so both give the same order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cached_property
from operator import itemgetter
from typing import Final, NamedTuple, overload

from memolog.search.analysis import ASKS, NAMES_SOMETHING, NUMBER, STATES, TIME
from memolog.search.bm25 import (
    ASSISTANT,
    BESIDE,
    OBSERVATION,
    OTHERS_IN_THREAD,
    PLACE,
    TOOL,
    USER,
    Draft,
    Posting,
    Stats,
    draft,
    is_task,
    seq_of,
    thread_of,
)
from memolog.search.query import Query, closeness
from memolog.text.words import words_of

_THREAD_K1 = 1.2
_THREAD_B = 0.75
"""The textbook values: threads are as long as the texts that they were found for."""
_SAYS_MUCH: Final = frozenset({ASSISTANT, TOOL})
_NOTHING: Final[Mapping[str, float]] = {}
_JUST_BELOW = 1e-6
_OF_THE_FACT = 0.5
"""A message may state what is asked for if it holds at least this share of the words of the query, weighed by their rarity."""
_SAME_FACT = 0.6
"""Two may state one fact if the words of the query that both hold are at least this share of those that either holds,"""
_NEAR_EQUAL = 0.5
"""and if the words of one are worth at least this share of those of the other."""
_FIRST_PAGE = 10
_MOST_TOLD = 8
"""Facts are looked for among the first results, each in so many messages."""
_FIGURES: Final = NUMBER | TIME


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """What each part of a score is worth beside a message's own words, which count 1.

    Tuned together by coordinate ascent on the development halves of two public sets, mostly in steps of a twentieth. The same
    halves are what `bench-retrieval` reports, so its figures are those of a tuned half, not of unseen questions.
    """

    near: float = 0.1
    thread: float = 0.25
    speaker: float = 0.4
    speaker_near: float = 0.5
    first_named: float = 0.2
    """Of several speakers that a question names, the first is mostly the one who acts. From 0.1 to 0.3 LoCoMo gains 0.2 to 0.5
    points (any@5); the other sets have no named speakers."""
    asked: float = 1.0
    """Whose words are asked for: the user's, unless the question is about what the assistant said."""
    date: float = 0.7
    reply: float = 0.45
    """What follows a question about the matter, if a person asked it. Assistants end with a question out of politeness: without
    theirs LongMemEval gains 0.8 points (turns, any@1). From 0.35 to 0.6 all figures stay within 0.6 points."""
    number: float = 0.15
    time: float = 0.1
    time_near: float = 0.2
    name: float = 0.05
    name_near: float = 0.2
    """An answer to when, where or who often does not repeat the matter: the question's words stand nearby. 0.1 to 0.3 for times
    and from 0.05 to 0.2 for names both parts of the questions gain; the same for numbers lost LongMemEval what it gave LoCoMo."""
    states: float = 0.025
    early: float = 0.5
    """The first to speak of something is asked for more often than what came of it."""
    covers: float = 0.5
    """A query of words, not a question, asks for all of them; half of the own words' weight lets a long text with all of them
    pass a short one with some."""
    stated: float = 0.5
    """What the user states is what edits, calls and output repeat. As much as `covers`; nothing where a function or a file is
    named, since then any place where it stands may be meant."""
    phrase: float = 1.0
    """Words in the order in which a question quotes them: as much as its own words. With 0.3 the figures are the same."""
    recent: float = 0.01
    """Breaks near-ties and nothing more."""
    session: float = 0.5
    """What a whole thread is worth beside its best message, where threads are what is asked for. Of 0.2, 0.5 and 1 the best."""


WEIGHTS: Final = Weights()


class DocumentDetail(NamedTuple):
    """What is known of a document beside its key."""

    at: int
    """Microseconds since 1970."""
    traits: int
    speaker: str | None
    thread: int | None = None
    """Of a line of the log; a message's is in its key."""


class Scored(NamedTuple):
    """One document in the order of the answer."""

    score: float
    key: int
    parts: Mapping[str, float] = _NOTHING
    is_beside: bool = False
    """Whether it holds no word of the query: it is there for what stands beside it."""


class Fact(NamedTuple):
    """Hits that may state one fact."""

    best: int
    keys: tuple[int, ...]
    """The newest first."""


class Ranked(Sequence[Scored]):
    """All hits, the best first: those of a closer look, then the others by their own words.

    The others are sorted when they are asked for: most pages end before.
    """

    def __init__(
        self,
        closely: Sequence[Scored] = (),
        drafted: Draft | None = None,
        threads: Mapping[int, float] | None = None,
        facts: Sequence[Fact] = (),
    ) -> None:
        """Take what was looked at closely, the draft that holds the rest, and what each of the best threads is worth."""
        self._closely = closely
        self.facts = facts
        """Hits that may state one fact: their texts tell."""
        self.threads: Mapping[int, float] = threads or {}
        self._drafted = drafted
        seen = {one.key for one in closely}
        self._length = len(closely)
        if drafted is not None:
            self._length += drafted.total - sum(1 for key in seen if key in drafted.own)

    def __repr__(self) -> str:
        return f"Ranked({list(self)})"

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[Scored]:
        yield from self._closely
        scores, keys = self._others
        yield from (Scored(scores[key], key) for key in keys)

    @overload
    def __getitem__(self, index: int) -> Scored: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Scored]: ...
    def __getitem__(self, index: int | slice) -> Scored | Sequence[Scored]:
        # Of a long list only what is asked for is made.
        chosen = range(self._length)[index]
        if isinstance(chosen, int):
            return self._at(chosen)
        return [self._at(place) for place in chosen]

    def _at(self, place: int) -> Scored:
        if place < len(self._closely):
            return self._closely[place]
        scores, keys = self._others
        key = keys[place - len(self._closely)]
        return Scored(scores[key], key)

    def favouring(self, keys: AbstractSet[int]) -> Ranked:
        """Return the same hits, with some of the best raised: they hold what the question quotes."""
        closely: list[Scored] = []
        for one in self._closely:
            raised = one
            if one.key in keys:
                parts = {**one.parts, "phrase": WEIGHTS.phrase} if one.parts else _NOTHING
                raised = one._replace(score=one.score + WEIGHTS.phrase, parts=parts)
            closely.append(raised)
        closely.sort(key=itemgetter(0, 1), reverse=True)
        return Ranked(closely, self._drafted, self.threads, self.facts)

    def rearranged(self, facts: Iterable[Sequence[int]]) -> Ranked:
        """Return the same hits, where those that state one fact, each time the newest first, have exchanged their places."""
        closely = list(self._closely)
        places = {one.key: place for place, one in enumerate(closely)}
        for keys in facts:
            _exchange(closely, sorted(places[key] for key in keys), [closely[places[key]] for key in keys])
        return Ranked(closely, self._drafted, self.threads)

    @cached_property
    def _others(self) -> tuple[Mapping[int, float], Sequence[int]]:
        """Return the scores and the order of those that were not looked at closely."""
        if self._drafted is None or len(self._closely) == self._length:
            return {}, ()
        every, seen = self._drafted.everything(), {one.key for one in self._closely}
        rest = sorted((key for key in every if key not in seen), reverse=True)
        rest.sort(key=every.__getitem__, reverse=True)
        # Their scores are on another scale, and so are put below.
        floor, best = min((one.score for one in self._closely), default=0.0), self._drafted.best or 1.0
        return {key: min(floor, every[key] / best) for key in rest}, rest


def drafted(postings: Sequence[Posting], stats: Stats, query: Query, allowed: frozenset[int] | None = None) -> Draft:
    """Score every hit by its own words, as this query wants it."""
    # An answer may stand beside the words of the question; who looks for a word wants the word itself.
    return draft(
        postings, stats, prefer=_preferred(query), bonus=WEIGHTS.asked, around=query.is_question, allowed=allowed
    )


def _preferred(query: Query) -> int:
    """Return the class whose words are asked for; -1: any."""
    if not query.is_question:
        return -1
    return ASSISTANT if query.asks_assistant else USER


# ---------------------------------------------------------------- with what stands around it


def rank(
    found: Draft,
    query: Query,
    details: Mapping[int, DocumentDetail],
    thread_lengths: Mapping[int, tuple[int, int]],
    speakers: frozenset[str] = frozenset(),
    *,
    explain: bool = False,
) -> Ranked:
    """Return all hits, the best first.

    `details` are of the keys to look at closely and of those found around them; `thread_lengths` are the words of users and
    of others in each thread; `speakers` are the names in the question that are speakers in this scope.
    """
    if not details:
        return Ranked()
    look = _Look(found, query, details, thread_lengths, speakers)
    scored: list[Scored] = []
    beside: list[Scored] = []
    for key, detail in details.items():
        own, around = found.own.get(key, 0.0), look.near.get(key, 0.0)
        if own or around:
            parts = look.parts(key, detail, own / look.own_max, around / look.near_max)
            one = Scored(sum(parts.values()), key, parts if explain else _NOTHING, not own)
            (scored if own or key // PLACE in look.asked else beside).append(one)
    scored += _after_their_hits(beside, scored)
    scored.sort(key=itemgetter(0, 1), reverse=True)
    return Ranked(scored, found, look.threads, tuple(look.facts(scored)))


def _exchange(scored: list[Scored], places: Sequence[int], ordered: Sequence[Scored]) -> None:
    """Put hits at the places that they have together, in another order: each gets the score of its new place."""
    scores = [scored[place].score for place in places]
    for place, score, one in zip(places, scores, ordered, strict=True):
        parts = {**one.parts, "newest": score - one.score} if one.parts else _NOTHING
        scored[place] = one._replace(score=score, parts=parts)


def _after_their_hits(beside: Iterable[Scored], hits: Iterable[Scored]) -> Iterator[Scored]:
    """Yield what holds no word of the query, each no higher than the best hit that it stands near.

    It is there for the hit's sake; what follows a question may well be what is looked for, and is not asked after here. It
    costs LoCoMo 0.1 points (any@1) and keeps a greeting of the right speaker from the top.
    """
    by_place = {one.key // PLACE: one.score for one in hits if one.key > 0}
    for one in beside:
        place = one.key // PLACE
        most = max((by_place.get(place + distance, 0.0) for distance, _ in BESIDE), default=0.0) - _JUST_BELOW
        if one.score <= most or most <= 0:
            yield one
        else:
            parts = {**one.parts, "beside": most - one.score} if one.parts else _NOTHING
            yield one._replace(score=most, parts=parts)


class _Look:
    """A closer look at some documents: what holds for all of them is worked out once."""

    def __init__(
        self,
        found: Draft,
        query: Query,
        details: Mapping[int, DocumentDetail],
        thread_lengths: Mapping[int, tuple[int, int]],
        speakers: frozenset[str],
    ) -> None:
        self.found, self.details, self.speakers = found, details, speakers
        self.own_max = found.best or 1.0
        self.near = {key: found.near.get(key // PLACE, 0.0) for key in details if key > 0}
        self.near_max = max(self.near.values(), default=0.0) or 1.0
        self.threads = _threads(found, thread_lengths)
        moments = [detail.at for detail in details.values()]
        self.oldest = min(moments)
        self.recent_share = WEIGHTS.recent / ((max(moments) - self.oldest) or 1)
        self.first = _first_named(query, speakers)
        # What each place gives to the one after it: what follows a question answers it.
        self.asked = {
            key // PLACE + 1: sum(found.by_place[key // PLACE].values()) * WEIGHTS.reply / self.own_max
            for key, detail in details.items()
            if detail.traits & ASKS and key > 0 and key & 3 == USER and key // PLACE in found.by_place
        }
        self.prefer = _preferred(query)
        self.weighs_statements = not query.names_code
        # An agent that edits a file says its name each time; who asks for the file wants any of them.
        self.tellers = frozenset({USER} if query.names_code else {USER, ASSISTANT})
        self.wanted = sum(found.idf.values())
        self.asks_for = NUMBER * query.asks_number | TIME * query.asks_time | NAMES_SOMETHING * query.asks_name
        self.spans = [window.in_micros() for window in query.windows]

    def parts(self, key: int, detail: DocumentDetail, own: float, around: float) -> dict[str, float]:
        """Return the parts of a document's score; `own` and `around` are shares of the best."""
        at, traits, speaker, _ = detail
        parts = {"own": own, "near": WEIGHTS.near * around, "recent": self.recent_share * (at - self.oldest)}
        if key > 0:
            reply = self.asked.get(key // PLACE)
            if reply is not None:
                parts["reply"] = reply
            if own:
                parts["early"] = WEIGHTS.early * own / (1 + seq_of(key))
            parts["thread"] = WEIGHTS.thread * self.threads.get(thread_of(key), 0.0)
        if self.prefer < 0:
            covered = self._covered(key)
            parts["covers"] = WEIGHTS.covers * covered
            if self.weighs_statements and key > 0 and key & 3 == USER and traits & STATES:
                parts["stated"] = WEIGHTS.stated * covered
        else:
            self._by_class(parts, key & 3 if key > 0 else -1, traits)
        if speaker is not None and speaker in self.speakers:
            parts["speaker"] = WEIGHTS.speaker + WEIGHTS.speaker_near * around
            if speaker in self.first:
                parts["first_named"] = WEIGHTS.first_named
        if self.spans:
            parts["date"] = WEIGHTS.date * closeness(at, self.spans)
        if self.asks_for & traits:
            self._by_traits(parts, traits, own, around)
        return parts

    def _by_class(self, parts: dict[str, float], kind: int, traits: int) -> None:
        # An observation counts for any speaker; a tool's output gets no bonus.
        if kind == self.prefer:
            parts["asked"] = WEIGHTS.asked
        elif kind < 0:
            parts["asked"] = WEIGHTS.asked / 2
        if traits & STATES and kind not in _SAYS_MUCH:
            parts["states"] = WEIGHTS.states

    def _by_traits(self, parts: dict[str, float], traits: int, own: float, around: float) -> None:
        matching = traits & self.asks_for
        if matching & NUMBER:
            parts["number"] = WEIGHTS.number * own
        if matching & TIME:
            parts["time"] = WEIGHTS.time * own + WEIGHTS.time_near * around
        if matching & NAMES_SOMETHING:
            parts["name"] = WEIGHTS.name * own + WEIGHTS.name_near * around

    def _covered(self, key: int) -> float:
        """Return which share of what is looked for, by its rarity, stands in a document."""
        here = self.found.by_place.get(key // PLACE, _NOTHING)
        return self._worth(here) / self.wanted if self.wanted else 0.0

    def _worth(self, terms: Iterable[str]) -> float:
        return sum(map(self.found.idf.__getitem__, terms))

    # ------------------------------------------------------------ statements of one fact

    def facts(self, scored: Sequence[Scored]) -> Iterator[Fact]:
        """Yield the hits that may state one fact. Whether they do, and say different things of it, is told by their texts."""
        told: dict[tuple[int, int | None, str | None], list[int]] = {}
        first = {one.key for one in scored[:_FIRST_PAGE] if self._states(one)}
        tellers = set(map(self._teller, first))
        for one in scored:
            if (teller := self._teller(one.key)) in tellers and self._states(one):
                told.setdefault(teller, []).append(one.key)
        for keys in told.values():
            left = keys
            while len(left) > 1 and left[0] in first:
                best, *others = left
                same = [best, *(key for key in others if self._may_be_of_one_fact(best, key))][:_MOST_TOLD]
                left = [key for key in others if key not in same]
                if len(same) > 1:
                    yield Fact(best, tuple(sorted(same, key=self._moment, reverse=True)))

    def _states(self, one: Scored) -> bool:
        """Return whether a hit may be a statement of what is asked for."""
        if one.is_beside or is_task(one.key):
            return False
        return (one.key < 0 or one.key & 3 in self.tellers) and self._covered(one.key) >= _OF_THE_FACT

    def _teller(self, key: int) -> tuple[int, int | None, str | None]:
        """Return who makes a statement, and where: one of a user is not replaced by one of an assistant."""
        detail = self.details[key]
        return (key & 3, thread_of(key), detail.speaker) if key > 0 else (OBSERVATION, detail.thread, None)

    def _moment(self, key: int) -> tuple[int, int]:
        """Return when a statement was made: messages are ordered by their sequence, lines of the log by what they say."""
        return (0, key) if key > 0 else (self.details[key].at, -key)

    def _may_be_of_one_fact(self, best: int, other: int) -> bool:
        """Return whether two messages hold what is asked for about equally well."""
        own, get = self.found.own, self.found.by_place.get
        if own[other] < _NEAR_EQUAL * own[best]:
            return False
        newer, older = sorted((best, other), key=self._moment, reverse=True)
        # A question for a number or a time is not answered by a statement without a figure.
        if self.details[older].traits & ~self.details[newer].traits & self.asks_for & _FIGURES:
            return False
        here, there = get(best // PLACE, _NOTHING).keys(), get(other // PLACE, _NOTHING).keys()
        return self._worth(here & there) >= _SAME_FACT * self._worth(here | there)


def _first_named(query: Query, speakers: frozenset[str]) -> frozenset[str]:
    """Return the speakers that a question names before others; none if it names them all at once, or only one."""
    if len(speakers) < 2:  # noqa: PLR2004
        return frozenset()
    # The first place of each word: later ones must not overwrite it.
    places = {word: place for place, word in reversed(tuple(enumerate(query.said)))}
    named = {name: min(places.get(word, len(places)) for word in words_of(name)) for name in speakers}
    earliest = min(named.values())
    first = frozenset(name for name, place in named.items() if place == earliest)
    return first if len(first) < len(speakers) else frozenset()


def _threads(drafted: Draft, lengths: Mapping[int, tuple[int, int]]) -> dict[int, float]:
    """Return BM25 of each thread taken as one text, as a share of the best."""
    sizes = {thread: users + OTHERS_IN_THREAD * others for thread, (users, others) in lengths.items()}
    average = sum(sizes.values()) / len(sizes) if sizes else 1.0
    found: dict[int, float] = {}
    for thread, counts in drafted.thread_terms.items():
        norm = _THREAD_K1 * (1 - _THREAD_B + _THREAD_B * sizes.get(thread, average) / (average or 1.0))
        found[thread] = sum(
            drafted.idf[term] * times * (_THREAD_K1 + 1) / (times + norm) for term, times in counts.items()
        )
    best = max(found.values(), default=0.0) or 1.0
    return {thread: score / best for thread, score in found.items()}


def best_of_threads(scored: Iterable[Scored], threads: Mapping[int, float]) -> list[Scored]:
    """Return the best message of each thread, the best threads first; what belongs to no thread is left out."""
    best: dict[int, Scored] = {}
    for one in scored:
        if one.key > 0:
            best.setdefault(thread_of(one.key), one)
    found: list[Scored] = []
    for thread, one in best.items():
        session = WEIGHTS.session * threads.get(thread, 0.0)
        parts = {**one.parts, "session": session} if one.parts else _NOTHING
        found.append(one._replace(score=one.score + session, parts=parts))
    # Of equals, the one whose message came first.
    return sorted(found, key=itemgetter(0), reverse=True)
