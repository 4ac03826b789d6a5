"""Rank hits: add up the score of their own words and scores for their surroundings, speakers, dates and so on.

BM25 has no fixed scale, so the scores of one kind are divided by their maximum before they are weighted. SQLite and PostgreSQL
return the same rows, so the order is the same with both. Of several statements of one fact, the newest comes first.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from operator import itemgetter
from typing import Final, NamedTuple

from memolog.core.clock import to_micros
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
    Sums,
    draft,
    is_task,
    seq_of,
    thread_of,
)
from memolog.search.query import Query, closeness
from memolog.text.word_lists import NUMBER_WORDS
from memolog.text.words import NUMBERS, STOP_WORDS, folded, normal, terms_of_word, words_of

_THREAD_K1 = 1.2
_THREAD_B = 0.75
"""The usual parameters of BM25. The parameters for messages in bm25.py differ, because messages are short."""
_SAYS_MUCH: Final = frozenset({ASSISTANT, TOOL})
_NOTHING: Final[Mapping[str, float]] = {}
_NOTHING_SIMILAR: Final[Mapping[int, float]] = {}
_JUST_BELOW = 1e-6
_OF_THE_FACT = 0.5
"""A message or a sentence may state a fact if it contains at least this share of the words of the query, weighted by rarity."""
_SAME_FACT = 0.6
"""Two messages or sentences may state one fact only if they contain about the same words of the query. The words that both
contain must have at least this share of the weight (by rarity) of the words that at least one of them contains."""
_NEAR_EQUAL = 0.5
"""A message may state the same fact as the best message only if its score by its own words is at least this share of the score of
the best message by its own words."""
_COVERS: Final = 0.3
"""If the best hit by words contains this share of the query, weighted by rarity, texts with a similar meaning stay behind all
hits. With 0.2 fewer paraphrases are found, and with 0.4 LongMemEval loses a point (turns, any@1)."""
_FIRST_PAGE = 10
_MOST_STATEMENTS = 8
"""Only statements among the first 10 hits are compared with others, each with at most 7 others."""
_FIGURES: Final = NUMBER | TIME
# Only the first characters of a text are searched for a statement.
_LOOKED_AT = 4_000
_LONGEST_SENTENCE = 30
"""The maximum words of a statement. Longer sentences state several things. With a maximum of 40, the data set LongMemEval loses
1.3 points (any@1: a message with the answer comes first). With 25 the result is the same as with 30."""
_FEW_WORDS = 4
"""The maximum words of a short statement besides those of the query. Without a limit LoCoMo loses half a point (any@1)."""
# "Dr." and "St." do not end a sentence. The text is a result of `normal`, so it has no full-width "！" and "？", and no "…".
# Every border begins with a space, because a search for that is several times as fast as a search for a sentence's end.
_BORDER: Final = re.compile(
    r"\s(?:(?<=[.!?。]\s)(?<!\b[A-Z]\.\s)(?<!\b[A-Z][a-z]\.\s)(?<!\b[A-Z][a-z]{2}\.\s)\s*|(?<=\n)\n*)"
)
_DIGIT: Final = re.compile(r"\d")
_NAME: Final = re.compile(r"[A-ZÀ-ÖØ-Þ_./\\:@#]")
_NUMBERS: Final = NUMBERS | {folded(word) for words in NUMBER_WORDS.values() for word in words[2:]} | {"duas"}
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
_CHANGES: Final = frozenset(_WORDS_OF_CHANGE.split())
"""Words that say that something has changed, folded: English, German, Spanish, French, Portuguese and Italian, Dutch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """The weights of the parts of a score. The words of the message have the weight 1.

    The weights were tuned together by coordinate ascent on the development halves of two public sets, mostly in steps of 0.05.
    `bench-retrieval` measures the same halves, so its figures are not those of unseen questions.
    """

    near: float = 0.1
    thread: float = 0.25
    speaker: float = 0.4
    speaker_near: float = 0.5
    first_named: float = 0.2
    """For messages of the first of several speakers that a question names. This speaker is usually the subject of the question
    ("What did Ana give Ben?"). With 0.1 to 0.3, LoCoMo gains 0.2 to 0.5 points (any@5). LongMemEval has no named speakers."""
    asked: float = 1.0
    """For messages of the role that the question is about: the assistant if it asks for words of the assistant, else the user."""
    date: float = 0.7
    reply: float = 0.45
    """For the message after a question of a user about the topic. Questions of assistants do not count, which gives LongMemEval
    0.8 points more (turns, any@1). From 0.35 to 0.6 all figures stay within 0.6 points."""
    number: float = 0.15
    time: float = 0.1
    time_near: float = 0.2
    name: float = 0.05
    name_near: float = 0.2
    """For `time_near` and `name_near`: answers to when, where or who often do not repeat the topic, so words of the question in
    nearby messages count. Both sets gain with 0.1 to 0.3 for times and 0.05 to 0.2 for names. There is no such weight for
    numbers, because with it LongMemEval lost more than LoCoMo gained."""
    states: float = 0.025
    early: float = 0.5
    """For early messages of a thread, because more questions are about the first mention of something than about later ones."""
    covers: float = 0.5
    """For the share of the query that a text contains, if the query is not a question. So a long text with all words ranks above
    a short text with some words."""
    stated: float = 0.5
    """For statements of the user, because tool calls and results often only repeat them. Not used if the query contains the
    name of a function or a file, because the query may mean any occurrence of the name."""
    phrase: float = 1.0
    """For phrases that a question quotes. With 0.3 the figures are the same."""
    recent: float = 0.01
    """For newer messages. The weight is so small that it matters only for almost equal scores."""
    meaning: float = 0.3
    """For texts with a similar meaning, if there is an embedder and no hit by words contains much of the query. The nearest
    text gets this weight, and the last of the neighbours gets nothing. Chosen with one half of the questions of both sets, with a
    small model. Without the condition LongMemEval loses up to 5 points (turns, any@1) with weights from 0.1."""
    session: float = 0.5
    """For the score of the whole thread, if threads are searched. The best of 0.2, 0.5 and 1."""


WEIGHTS: Final = Weights()


class DocumentDetail(NamedTuple):
    """Details of a document that its key does not contain."""

    at: int
    """Microseconds since 1970."""
    traits: int
    speaker: str | None
    thread: int | None = None
    """The thread of an observation. None for a message, because the key of a message contains its thread."""


class Scored(NamedTuple):
    """A document with its score."""

    score: float
    key: int
    parts: Mapping[str, float] = _NOTHING
    is_beside: bool = False
    """Whether the document contains no word of the query and was found only because of its neighbours."""

    def changed(self, score: float, name: str) -> Scored:
        """Return the document with another score. If its parts are known, the difference becomes a part with this name."""
        parts = {**self.parts, name: score - self.score} if self.parts else _NOTHING
        return self._replace(score=score, parts=parts)


class Fact(NamedTuple):
    """Hits that may state one fact."""

    best: int
    keys: tuple[int, ...]
    """The keys of all these hits, the newest first."""


class Ranked:
    """All hits, the best first: the hits that were ranked in detail, then the others by the score of their own words.

    The others are sorted only when they are read, because most pages end before them.
    """

    def __init__(
        self,
        closely: Sequence[Scored] = (),
        drafted: Draft | None = None,
        threads: Mapping[int, float] | None = None,
        facts: Sequence[Fact] = (),
    ) -> None:
        """Set the hits that were ranked in detail, the draft with the other hits, and the scores of the best threads."""
        self._closely = closely
        self.facts = facts
        """Hits that may state one fact. The caller compares their texts."""
        self.threads: Mapping[int, float] = threads or {}
        self._drafted = drafted
        seen = {one.key for one in closely}
        self._length = len(closely)
        if drafted is not None:
            self._length += drafted.total - len(drafted.own.keys() & seen)

    def __repr__(self) -> str:
        return f"Ranked({list(self)})"

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[Scored]:
        return iter(self[:])

    def __getitem__(self, places: slice) -> Sequence[Scored]:
        first, last, _ = places.indices(self._length)
        known = len(self._closely)
        if last <= known:
            return self._closely[first:last]
        scores, keys = self._others
        others = keys[max(0, first - known) : last - known]
        return [*self._closely[first:], *(Scored(scores[key], key) for key in others)]

    def favouring(self, keys: AbstractSet[int]) -> Ranked:
        """Return the same hits, with a bonus for these keys, whose texts contain the phrases that the question quotes."""
        closely = [
            one.changed(one.score + WEIGHTS.phrase, "phrase") if one.key in keys else one for one in self._closely
        ]
        closely.sort(key=itemgetter(0, 1), reverse=True)
        return Ranked(closely, self._drafted, self.threads, self.facts)

    def rearranged(self, facts: Iterable[Sequence[int]]) -> Ranked:
        """Return the same hits in another order: the hits of one fact exchange their positions and scores.

        Each item of `facts` has the keys of one fact in their new order.
        """
        closely = list(self._closely)
        places = {one.key: place for place, one in enumerate(closely)}
        for keys in facts:
            ordered = [closely[places[key]] for key in keys]
            targets = sorted(places[key] for key in keys)
            for place, score, one in zip(targets, [closely[at].score for at in targets], ordered, strict=True):
                closely[place] = one.changed(score, "newest")
        return Ranked(closely, self._drafted, self.threads)

    @cached_property
    def _others(self) -> tuple[Mapping[int, float], Sequence[int]]:
        """Return the scores of the hits that were not ranked in detail, and their keys, the best first."""
        if self._drafted is None or len(self._closely) == self._length:
            return {}, ()
        every, seen = self._drafted.everything(), {one.key for one in self._closely}
        rest = sorted((key for key in every if key not in seen), reverse=True)
        rest.sort(key=every.__getitem__, reverse=True)
        # These scores have another scale, so none may exceed the lowest score of the hits that were ranked in detail.
        floor, best = min((one.score for one in self._closely), default=0.0), self._drafted.best or 1.0
        return {key: min(floor, every[key] / best) for key in rest}, rest


def summed(postings: Sequence[Posting], stats: Stats, query: Query, allowed: frozenset[int] | None = None) -> Sums:
    """Score every hit by its own words, with the preferences of this query."""
    return Sums(postings, stats, prefer=_preferred(query), bonus=WEIGHTS.asked, allowed=allowed)


def drafted(sums: Sums, query: Query) -> Draft:
    """Choose the hits to rank in detail."""
    # The answer to a question may be next to a message with the words of the question. Other queries look only for the words.
    return draft(sums, around=query.is_question)


def _preferred(query: Query) -> int:
    if not query.is_question:
        return -1
    return ASSISTANT if query.asks_assistant else USER


def rank(
    found: Draft,
    query: Query,
    details: Mapping[int, DocumentDetail],
    thread_lengths: Mapping[int, tuple[int, int]],
    speakers: frozenset[str] = frozenset(),
    meant: Mapping[int, float] = _NOTHING_SIMILAR,
    *,
    explain: bool = False,
) -> Ranked:
    """Return all hits, the best first.

    `details` has the documents to rank in detail, with the neighbours of the best hits. `thread_lengths` has for each thread the
    number of words of users and of others. `speakers` are the speakers of the resource that the question names. `meant` has the
    similarity of the texts with a similar meaning. They are hits, even if they contain no word of the query.
    """
    if not details:
        return Ranked()
    scorer = _Scorer(found, query, details, thread_lengths, speakers)
    scored = _scored(scorer, _NOTHING_SIMILAR, explain=explain)
    if meant:
        nearness, best = _nearness(meant), max((one for one in scored if one.key in found.own), default=None)
        if best is not None and scorer.covers(best.key):
            scored += _behind(scored, nearness)
        else:
            scored = _scored(scorer, nearness, explain=explain)
    scored.sort(key=itemgetter(0, 1), reverse=True)
    return Ranked(scored, found, scorer.threads, tuple(scorer.facts(scored)))


def _scored(scorer: _Scorer, nearness: Mapping[int, float], *, explain: bool) -> list[Scored]:
    """Return the documents that contain words of the query or are near such documents, and those with a similar meaning."""
    scored: list[Scored] = []
    beside: list[Scored] = []
    for key, detail in scorer.details.items():
        own, around = scorer.found.own.get(key, 0.0), scorer.near.get(key, 0.0)
        if own or around or key in nearness:
            parts = scorer.parts(key, detail, own / scorer.own_max, around / scorer.near_max)
            if key in nearness:
                parts["meaning"] = WEIGHTS.meaning * nearness[key]
            # A neighbour of a hit stays behind that hit, even if its meaning is similar.
            is_hit = bool(own) or not around
            one = Scored(sum(parts.values()), key, parts if explain else _NOTHING, not own and key not in nearness)
            (scored if is_hit or key // PLACE in scorer.reply_bonus else beside).append(one)
    return [*scored, *_after_their_hits(beside, scored)]


def _behind(scored: Sequence[Scored], nearness: Mapping[int, float]) -> list[Scored]:
    """Return the texts with a similar meaning that are no hits, with scores below those of all hits."""
    hits = {one.key for one in scored}
    floor = min((one.score for one in scored), default=0.0)
    return [
        Scored(floor - _JUST_BELOW * (2 - near), key, {"meaning": floor - _JUST_BELOW * (2 - near)})
        for key, near in nearness.items()
        if key not in hits
    ]


def _nearness(meant: Mapping[int, float]) -> dict[int, float]:
    """Return the similarities on a scale from 0, for the lowest, to 1, because each model has a scale of its own."""
    low, high = min(meant.values(), default=0.0), max(meant.values(), default=0.0)
    return {key: (one - low) / (high - low) if high > low else 1.0 for key, one in meant.items()}


def _after_their_hits(beside: Iterable[Scored], hits: Iterable[Scored]) -> Iterator[Scored]:
    """Yield the neighbours without a word of the query. The score of each is limited to just below the best hit near it.

    So a greeting of the right speaker is not the first result. The limit costs LoCoMo 0.1 points (any@1). The caller does not
    pass messages after a question, because they may be the answer.
    """
    by_place = {one.key // PLACE: one.score for one in hits if one.key > 0}
    for one in beside:
        place = one.key // PLACE
        around = [by_place[place + distance] for distance, _ in BESIDE if place + distance in by_place]
        limit = max(around, default=0.0) - _JUST_BELOW
        yield one if one.score <= limit or limit <= 0 else one.changed(limit, "beside")


class _Scorer:
    """Scores documents in detail. Values that are the same for all documents are computed once."""

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
        # The bonus of each message that follows a question of a user, because the message may be the answer. The keys are places.
        self.reply_bonus = {
            key // PLACE + 1: sum(found.by_place[key // PLACE].values()) * WEIGHTS.reply / self.own_max
            for key, detail in details.items()
            if detail.traits & ASKS and key > 0 and key & 3 == USER and key // PLACE in found.by_place
        }
        self.prefer = _preferred(query)
        self.weighs_statements = not query.names_code
        # If the query contains the name of code, only messages of users count as statements, because an agent repeats the name of
        # a file with each edit.
        self.authors = frozenset({USER} if query.names_code else {USER, ASSISTANT})
        self._bits = {term: 1 << place for place, term in enumerate(found.idf)}
        self._masks: dict[int, int] = {}
        self._worths: dict[int, float] = {}
        self._all_terms = (1 << len(self._bits)) - 1
        self.asks_for = query.asks_for
        self.spans = [(to_micros(window.first), to_micros(window.end)) for window in query.windows]

    def parts(self, key: int, detail: DocumentDetail, own: float, around: float) -> dict[str, float]:
        """Return the parts of the score of a document. `own` and `around` are its scores as shares of the highest score."""
        at, traits, speaker, _ = detail
        parts = {"own": own, "near": WEIGHTS.near * around, "recent": self.recent_share * (at - self.oldest)}
        if key > 0:
            reply = self.reply_bonus.get(key // PLACE)
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
        # An observation or a task may be about any speaker, so it gets half the bonus. A tool's result gets no bonus.
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
        """Return the share of the words of the query, weighted by rarity, that a document contains."""
        wanted = self._worth(self._all_terms)
        return self._worth(self._terms(key)) / wanted if wanted else 0.0

    def _terms(self, key: int) -> int:
        """Return the terms of the query that a document contains, each as a bit."""
        mask = self._masks.get(key)
        if mask is None:
            mask = self._masks[key] = sum(map(self._bits.__getitem__, self.found.by_place.get(key // PLACE, _NOTHING)))
        return mask

    def _worth(self, mask: int) -> float:
        """Return the weight by rarity of some terms."""
        worth = self._worths.get(mask)
        if worth is None:
            weights = zip(self._bits.values(), self.found.idf.values(), strict=True)
            worth = self._worths[mask] = sum(weight for bit, weight in weights if mask & bit)
        return worth

    def covers(self, key: int) -> bool:
        """Return whether a hit contains so much of the query that texts with a similar meaning stay behind the hits."""
        return self._covered(key) >= _COVERS

    def facts(self, scored: Sequence[Scored]) -> Iterator[Fact]:
        """Yield hits that may state one fact. The caller compares their texts."""
        by_author: dict[tuple[int, int | None, str | None], list[int]] = {}
        first = {one.key for one in scored[:_FIRST_PAGE] if self._states(one)}
        authors = set(map(self._stated_by, first))
        for one in scored:
            if not one.is_beside and (author := self._stated_by(one.key)) in authors and self._states(one):
                by_author.setdefault(author, []).append(one.key)
        for keys in by_author.values():
            left = keys
            while len(left) > 1 and left[0] in first:
                best, *others = left
                same = [best, *(key for key in others if self._may_be_of_one_fact(best, key))][:_MOST_STATEMENTS]
                left = [key for key in others if key not in same]
                if len(same) > 1:
                    yield Fact(best, tuple(sorted(same, key=self._moment, reverse=True)))

    def _states(self, one: Scored) -> bool:
        """Return whether a hit may state the fact that the query asks for."""
        if one.is_beside or is_task(one.key):
            return False
        return (one.key < 0 or one.key & 3 in self.authors) and self._covered(one.key) >= _OF_THE_FACT

    def _stated_by(self, key: int) -> tuple[int, int | None, str | None]:
        """Return class, thread and speaker of a statement. Only statements that agree in all three are compared."""
        detail = self.details[key]
        return (key & 3, thread_of(key), detail.speaker) if key > 0 else (OBSERVATION, detail.thread, None)

    def _moment(self, key: int) -> tuple[int, int]:
        """Return the sort key of a statement by time: the place of a message in its thread, or the time of an observation."""
        return (0, key) if key > 0 else (self.details[key].at, -key)

    def _may_be_of_one_fact(self, best: int, other: int) -> bool:
        """Return whether two messages match the query about equally well and with the same words."""
        own = self.found.own
        if own[other] < _NEAR_EQUAL * own[best]:
            return False
        newer, older = sorted((best, other), key=self._moment, reverse=True)
        # If the question asks for a number or a time, and only the older statement has it, the newer one does not replace it.
        if self.details[older].traits & ~self.details[newer].traits & self.asks_for & _FIGURES:
            return False
        here, there = self._terms(best), self._terms(other)
        return self._worth(here & there) >= _SAME_FACT * self._worth(here | there)


def _first_named(query: Query, speakers: frozenset[str]) -> frozenset[str]:
    """Return the speakers whose names come first in a question. The result is empty if it would contain all `speakers`."""
    # The order is reversed, so that the first place of each word overwrites the later places.
    places = {word: place for place, word in reversed(tuple(enumerate(query.said)))}
    named = {name: min(places.get(word, len(places)) for word in words_of(name)) for name in speakers}
    earliest = min(named.values(), default=0)
    first = frozenset(name for name, place in named.items() if place == earliest)
    return first if len(first) < len(speakers) else frozenset()


def _threads(drafted: Draft, lengths: Mapping[int, tuple[int, int]]) -> dict[int, float]:
    """Return the BM25 score of each thread as one text, divided by the highest score."""
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
    """Return the best message of each thread, the best threads first. Observations and tasks are not included."""
    best: dict[int, Scored] = {}
    for one in scored:
        if one.key > 0:
            best.setdefault(thread_of(one.key), one)
    found: list[Scored] = []
    for thread, one in best.items():
        found.append(one.changed(one.score + WEIGHTS.session * threads.get(thread, 0.0), "session"))
    # The sort is stable, so of threads with equal scores the thread with the better message comes first.
    return sorted(found, key=itemgetter(0), reverse=True)


# ---------------------------------------------------------------- statements of one fact


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """A sentence that states the fact that the query asks for."""

    terms: frozenset[str]
    """The terms of the query in the sentence."""
    figures: frozenset[str]
    """The numbers, and other words with a digit, that are not in the query."""
    names: frozenset[str]
    """The names and identifiers that are not in the query."""
    others: frozenset[str]
    """The other words that are not in the query."""
    mentions_change: bool
    """Whether a word of the sentence says that something has changed."""


def statement_in(text: str, rarity: Mapping[str, float]) -> Statement | None:
    """Return the sentence with the highest weight of words of the query. None if no sentence contains enough of them."""
    best, needed = None, _OF_THE_FACT * sum(rarity.values())
    for sentence in _BORDER.split(normal(text[:_LOOKED_AT])):
        if sentence.rstrip().endswith("?"):
            continue
        words = words_of(sentence)
        if len(words) > _LONGEST_SENTENCE:
            continue
        terms = frozenset(chain.from_iterable(map(terms_of_word, words))).intersection(rarity)
        worth = sum(map(rarity.__getitem__, terms))
        if terms and worth >= needed:
            best, needed = _statement(words, terms), worth
    return best


def _statement(words: Sequence[str], terms: frozenset[str]) -> Statement:
    figures, names, others = set[str](), set[str](), set[str]()
    for place, word in enumerate(words):
        stems, plain = terms_of_word(word), folded(word)
        if plain in STOP_WORDS or not terms.isdisjoint(stems):
            continue
        # Most words have only small letters. They are neither figures nor names.
        is_plain = word.islower() and word.isalpha()
        if plain in _NUMBERS or (not is_plain and _DIGIT.search(word)):
            figures.add(stems[0])
        elif not is_plain and _NAME.search(word, 0 if place else 1):
            # The first letter of a sentence is skipped, because it is always a capital letter.
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


def of_one_fact(fact: Fact, statements: Mapping[int, Statement | None], rarity: Mapping[str, float]) -> list[int]:
    """Return the keys of the best statement and of the statements that give another value for the same fact, the newest first."""
    best = statements.get(fact.best)
    if best is None:
        return []
    place = fact.keys.index(fact.best)
    newer = [key for key in fact.keys[:place] if (other := statements.get(key)) and _changes(best, other, rarity)]
    older = [key for key in fact.keys[place + 1 :] if (other := statements.get(key)) and _changes(other, best, rarity)]
    return [*newer, fact.best, *older]


def _changes(older: Statement, newer: Statement, rarity: Mapping[str, float]) -> bool:
    """Return whether the newer statement is about the same fact and gives another value."""
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
    rests = (older.others, newer.others)
    return min(map(len, rests)) > 0 and max(map(len, rests)) <= _FEW_WORDS and rests[0].isdisjoint(rests[1])
