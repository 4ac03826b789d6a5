"""Search the index: look up the terms of a query, rarest first, filter the documents, and rank them."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from itertools import chain, zip_longest
from operator import itemgetter
from typing import Any, Final, NamedTuple, TypeAlias

from memolog.core.clock import to_micros
from memolog.core.message import ROLES
from memolog.db.engine import Calls, reads
from memolog.db.queries import Row, Script, load_queries
from memolog.db.scope import FIRST, LAST, check_ids, chunks
from memolog.search.bm25 import (
    CLOSELY,
    OBSERVATION,
    PLACE,
    TASK,
    Draft,
    Posting,
    Stats,
    first_key_of,
    is_task,
    thread_of,
)
from memolog.search.embedding import Near, place_of
from memolog.search.index import reading_scope
from memolog.search.query import Query, Wish
from memolog.search.rank import DocumentDetail, Ranked, drafted, rank, summed
from memolog.search.values import SOURCES
from memolog.text.words import grams, is_unspaced, plain_of, terms_of_word, whole_of, words_of

q = load_queries("search/search")
vector_queries = load_queries("search/vectors")
Bounds: TypeAlias = tuple[int, int]
"""The first and the last key to search."""
_Lists: TypeAlias = Mapping[str, str]
"""The keys of the documents of each term, as a JSON list."""
# The maximum keys that are read for one term and for all terms. Reading them takes about ten milliseconds on a small machine.
_MOST_A_TERM = 6_000
_MOST_ROWS = 12_000
# A term with more documents is common. It is looked up only in the best hits of rarer terms, if these have at least `_ENOUGH`
# hits, because its list grows with the resource. With 1,000 the figures of the development halves are the same within half a
# point. With 300 LongMemEval loses up to 1.3 points (turns, any@5).
_COMMON = 500
_ENOUGH = 250
# If they have fewer, the messages with both of the two rarest common terms are hits too. If these are still fewer than
# `_ENOUGH_OF_BOTH`, which is five pages, the whole list of the rarest common term is read. With 20 or 120 the figures of the
# development halves are the same within 0.2 points.
_ENOUGH_OF_BOTH = 50
# Every seventeenth document is counted (`search_counts`).
_COUNTED: Final = 17
# The maximum keys for all terms if filters remove most hits, or if there is only one word. A shorter list would then miss hits.
_MOST_FURTHER = 200_000
# The maximum terms that are looked up, and that are scored. Looking up a term takes 25 microseconds, and scoring takes longer.
_MOST_LOOKED_UP = 1_024
_MOST_SCORED = 512
_ALL_KEYS = LAST - 1
_TERMS_A_QUERY = 16
# The maximum words of the index that one word with * stands for. It is higher for an excluded word (`_MOST_UNWANTED`), because
# no hit may contain any of them.
_MOST_EXPANDED = 200
_MOST_UNWANTED = 2_000
# A word that does not occur is searched as a part of other words, if it has at least `_SHORTEST_INSIDE` characters. This is done
# for at most `_MOST_INSIDE` words of a query.
_MOST_INSIDE = 8
_SHORTEST_INSIDE = 3
# If nothing is found, at most `_MOST_LOOSELY` words of the query are replaced, each by at most `_MOST_ALIKE` similar words.
_MOST_LOOSELY = 16
_MOST_ALIKE = 8
# Similar words have at least the share `_ALIKE` of their trigrams in common. A word of at least `_SHORTEST_PART` characters is
# also similar to a word of the query that contains it.
_ALIKE = 0.5
_SHORTEST_PART = 4
# The weight of a whole path or identifier is higher than that of all its parts, because the parts occur in many texts.
_WHOLE: Final = 3.0
_PART: Final = 0.25
Values: TypeAlias = dict[str, Any]
_ROWS_A_QUERY = 512
_MOST_SPEAKERS = 1_000
_SAID: Final = frozenset({"raw", "compacted"})
_TASKS: Final = frozenset({"task"})
_AND: Final = '" AND "'
"""Between two terms, for the documents that contain both. No term contains a quote."""
_KEY_LISTS: Final = ("keys", "often", "very_often")


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchHits:
    """The hits of a query, the best first."""

    scored: Ranked = field(default_factory=Ranked)
    terms: dict[str, float] = field(default_factory=dict[str, float])
    """The terms with their weight by rarity, the rarest first."""
    left_out: tuple[str, ...] = ()
    """The terms that were not searched, or not completely, because they are too common or too many."""
    relaxed: tuple[str, ...] = ()
    """The words that do not occur and were replaced by similar words."""
    behind: int = 0
    """The number of threads with messages that are not indexed yet."""
    unindexed: int = 0
    """The number of messages, observations and tasks that are not indexed yet."""
    is_whole: bool = True
    """Whether everything is indexed."""
    alive: frozenset[int] | None = None
    """The keys of the near vectors that still exist."""


class Searching(Calls):
    """Searches the index. Each call is limited to one resource."""

    @reads
    def search(
        self,
        resource: str,
        query: Query,
        *,
        explain: bool = False,
        only_if_whole: bool = False,
        near: Sequence[Near] = (),
    ) -> Script[SearchHits]:
        """Return all hits of a query, the best first. With `only_if_whole`, return no hits unless everything is indexed.

        `near` are texts whose meaning is similar to that of the query. They are hits too.
        """
        check_ids(resource=resource)
        # Whether rows wait to be indexed is read in the same transaction as the hits, so that the answer is true for these hits.
        waiting = yield q.any_behind(resource=resource)
        if only_if_whole and any(waiting[0]):
            return SearchHits(is_whole=False)
        found = yield from _searching(resource, query, near, explain=explain)
        if not any(waiting[0]):
            return found
        threads = yield q.count_behind(resource=resource)
        rows = yield q.count_waiting(resource=resource)
        return replace(found, behind=threads[0].threads, unindexed=rows[0].waiting, is_whole=False)

    @reads
    def rows(self, resource: str, keys: Sequence[int]) -> Script[dict[int, Row]]:
        """Return the rows of messages, observations and tasks by their keys in the index."""
        check_ids(resource=resource)
        found: dict[int, Row] = {}
        said = [key for key in keys if key > 0]
        others = [key for key in keys if key < 0]
        if said:
            found |= {row.doc: row for row in (yield q.found_messages(docs=said, resource=resource))}
        if others:
            found |= {row.doc: row for row in (yield q.found_observations(docs=others, resource=resource))}
            found |= {row.doc: row for row in (yield q.found_tasks(docs=others, resource=resource))}
        return found


def _searching(resource: str, query: Query, near: Sequence[Near], *, explain: bool) -> Script[SearchHits]:
    scope_pk = yield from reading_scope(resource)
    if scope_pk is None or not query.wishes:
        return SearchHits()
    names = query.threads | query.without_threads
    threads = (yield q.thread_keys(resource=resource, threads=sorted(names))) if names else ()
    filters = _filter_values(scope_pk, query, {row.id: row.pk for row in threads})
    area = yield from _reading_area(query, filters["thread_pks"])
    if not area.ranges:
        return SearchHits()
    rows = yield q.stats(scope_pk=scope_pk)
    # If messages are excluded, the rarity of a word is its rarity in the other documents.
    rows = [row for row in rows if area.ranges[0][1] > 0 or row.kind in (OBSERVATION, TASK)]
    stats = Stats(documents={row.kind: row.documents for row in rows}, lengths={row.kind: row.length for row in rows})
    said = frozenset(query.said)
    named = yield q.speakers(scope_pk=scope_pk, limit=_MOST_SPEAKERS)
    speakers = frozenset(row.name for row in named if not said.isdisjoint(words_of(row.name)))
    lengths = yield from _lengths(filters["thread_pks"] if area.lines is not None and stats.total > _COMMON else ())
    terms = Terms(scope_pk, area.ranges, is_narrow=_is_narrow(query), share=_share(area, lengths, stats))
    unwanted, too_many = yield from terms.reading_unwanted(query.without)
    wishes = _without_names(query, speakers)
    for reading in (terms.reading, terms.reading_loosely):
        postings, left_out = yield from reading(wishes)
        both = terms.both
        if area.lines:
            postings, both = (_only(some, area.lines.__contains__, said=True) for some in (postings, both))
        if query.sources == _TASKS and stats.documents.get(OBSERVATION):
            postings = _only(postings, is_task, said=False)
        allowed = None
        if _filters(query if area.lines is None else replace(query, threads=frozenset())):
            hits = set[int]().union(*(posting.keys for posting in (*postings, *both)))
            allowed = yield from _passing(query, filters, hits - unwanted)
        sums = summed(postings, stats, query, allowed)
        best = sums.best_with(both, CLOSELY) if terms.common else []
        # Similar words are used only if nothing else is found.
        if sums.own:
            break
    details: dict[int, DocumentDetail] = {}
    if terms.common:
        rows = yield q.terms_of(docs=best)
        details = _detailed(rows)
        sums.add(terms.among(rows), best)
    found = drafted(sums, query)
    details |= yield from _details(found, details)
    if allowed is not None:
        passing = yield from _passing(query, filters, details.keys() - allowed - unwanted)
        details = {key: detail for key, detail in details.items() if key in allowed or key in passing}
    lengths |= yield from _lengths(found.thread_terms.keys() - lengths)
    alive, meant, more = yield from _meant(resource, query, filters, near, unwanted)
    details |= more
    scored = rank(found, query, details, lengths, speakers, meant, explain=explain)
    return SearchHits(
        alive=alive,
        scored=scored,
        terms=found.idf,
        left_out=(*left_out, *too_many, *query.unread),
        relaxed=tuple(dict.fromkeys(terms.relaxed)) if found.own else (),
    )


def _meant(
    resource: str, query: Query, filters: Values, near: Sequence[Near], unwanted: AbstractSet[int]
) -> Script[tuple[frozenset[int], dict[int, float], dict[int, DocumentDetail]]]:
    """Return the vectors that still exist, and the documents of these that pass all filters, with similarity and details."""
    if not near:
        return frozenset(), {}, {}
    rows = yield vector_queries.alive(pks=[one.pk for one in near], resource=resource)
    alive = frozenset(row.pk for row in rows)
    similar = {one.place: one.similarity for one in near if one.pk in alive}
    if not similar:
        return alive, {}, {}
    # The key of an observation begins with its place or with the number below it, by its length.
    places = [*similar, *(place - 1 for place in similar if place < 0)]
    found = {
        row.doc: DocumentDetail(row.at, row.traits, row.speaker)
        for row in (yield q.details(places=places))
        if place_of(row.doc) in similar and row.doc not in unwanted
    }
    lines = [doc for doc in found if doc < 0]
    if lines:
        rows = yield q.threads_of_lines(docs=lines)
        found |= {row.doc: found[row.doc]._replace(thread=row.thread_pk) for row in rows}
    if _filters(query):
        passing = yield from _passing(query, filters, found.keys())
        found = {doc: detail for doc, detail in found.items() if doc in passing}
    return alive, {doc: similar[place_of(doc)] for doc in found}, found


def _lengths(threads: Collection[int]) -> Script[dict[int, tuple[int, int]]]:
    """Return the number of words of users and of others in each thread."""
    rows = (yield q.thread_lengths(threads=sorted(threads))) if threads else ()
    return {row.thread_pk: (row.user_length, row.other_length) for row in rows}


def _share(area: _Area, lengths: Mapping[int, tuple[int, int]], stats: Stats) -> float:
    """Return the share of the documents that are in the area of a query. 0 if too few can be there for a common word."""
    if stats.total <= _COMMON or area.ranges[0][1] < 0:
        return 0.0
    if area.lines is None:
        return 1.0
    return sum(map(sum, lengths.values())) / max(1, sum(stats.lengths.values()))


def _without_names(query: Query, speakers: frozenset[str]) -> tuple[Wish, ...]:
    """Return the words of a query without the names of speakers, because messages of a speaker rarely contain the name."""
    names = {term for speaker in speakers for word in words_of(speaker) for term in terms_of_word(word)}
    others = tuple(wish for wish in query.wishes if wish.prefix or wish.inside or wish.terms[0] not in names)
    return others or query.wishes


class _Area(NamedTuple):
    """The part of the index in which a query is searched."""

    ranges: tuple[Bounds, ...]
    """The first and the last key of each range. The range of the messages comes first."""
    lines: frozenset[int] | None = None
    """If the query names one thread, the keys of its observations. The ranges then contain no messages of other threads."""


def _reading_area(query: Query, threads: Sequence[int]) -> Script[_Area]:
    if query.threads and not threads:
        return _Area(())
    has_messages = not query.sources or bool(query.sources & _SAID)
    if len(threads) != 1:
        return _Area(((FIRST, LAST if has_messages else -1),))
    # The keys of observations do not contain a thread, so they are read.
    rows = (yield q.lines_of_thread(thread_pk=threads[0])) if _wants_others(query) else ()
    lines = frozenset(row.doc for row in rows)
    said = ((first_key_of(threads[0]), first_key_of(threads[0] + 1) - 1),) if has_messages else ()
    return _Area((*said, (min(lines), max(lines))) if lines else said, lines)


def _only(postings: Iterable[Posting], is_wanted: Callable[[int], bool], *, said: bool) -> list[Posting]:
    """Return postings with the wanted keys of observations and tasks. `said` keeps the keys of messages."""
    return [
        replace(
            posting,
            **{
                name: [key for key in getattr(posting, name) if (said if key > 0 else is_wanted(key))]
                for name in _KEY_LISTS
            },
        )
        for posting in postings
    ]


def _wants_others(query: Query) -> bool:
    return not query.roles and (not query.sources or bool(query.sources - _SAID))


def _filters(query: Query) -> bool:
    # A filter for tasks is not needed, because the key says whether a document is a task.
    sources = query.sources if query.sources != _TASKS else None
    wanted = (query.roles, query.threads, query.tasks, sources)
    excluded = (query.without, query.without_roles, query.without_threads)
    return any(wanted) or any(excluded) or query.after is not None or query.before is not None


def _is_narrow(query: Query) -> bool:
    """Return whether filters other than the ranges of keys may remove many hits."""
    phrases = query.phrases or query.without_phrases
    # Messages, and the documents of one thread, have their own ranges of keys, so such filters remove few hits.
    is_place = (not query.sources or query.sources >= _SAID) and len(query.threads) <= 1
    others = replace(query, sources=frozenset(), threads=frozenset())
    return bool(phrases) or not is_place or _filters(others)


def _filter_values(scope_pk: int, query: Query, threads: Mapping[str, int]) -> Values:
    """Return the parameters of the query `allowed`. `threads` has the keys of the threads of the filters by id."""
    return {
        "scope_pk": scope_pk,
        "after": FIRST if query.after is None else to_micros(query.after),
        "before": LAST if query.before is None else to_micros(query.before),
        "sources": sorted(query.sources or SOURCES),
        "any_role": int(not query.roles),
        "roles": sorted(query.roles or ROLES),
        "any_thread": int(not query.threads),
        "thread_pks": [threads[thread] for thread in query.threads if thread in threads],
        # NOT IN needs a list that is not empty, so each list has at least a value that does not occur.
        "not_roles": sorted(query.without_roles) or ["-"],
        "not_threads": [-1, *(threads[thread] for thread in query.without_threads if thread in threads)],
        "any_task": int(not query.tasks),
        "tasks": sorted(query.tasks),
    }


def _passing(query: Query, filters: Values, keys: AbstractSet[int]) -> Script[frozenset[int]]:
    """Return the keys of the documents that pass all filters."""
    passing: set[int] = set()
    left = _in_threads(keys, filters)
    if not _filters(replace(query, without=(), threads=frozenset(), without_threads=frozenset())):
        passing = {key for key in left if key > 0}
    for chunk in chunks(sorted(left - passing), _ROWS_A_QUERY):
        passing |= {row.doc for row in (yield q.allowed(docs=chunk, **filters))}
    return frozenset(passing)


def _in_threads(keys: AbstractSet[int], filters: Values) -> AbstractSet[int]:
    """Return the keys without messages of unwanted threads. This is much faster than a query."""
    wanted, unwanted = frozenset(filters["thread_pks"]), frozenset(filters["not_threads"])
    if not filters["any_thread"]:
        keys = {key for key in keys if key < 0 or thread_of(key) in wanted}
    return {key for key in keys if key < 0 or thread_of(key) not in unwanted} if len(unwanted) > 1 else keys


def _details(drafted: Draft, known: Mapping[int, DocumentDetail]) -> Script[dict[int, DocumentDetail]]:
    """Return the details of the documents to rank in detail that are not known yet, and the threads of observations."""
    places = [*(key // PLACE for key in drafted.closely if key not in known), *drafted.places]
    details = _detailed((yield q.details(places=places))) if places else {}
    lines = {doc: detail for some in (known, details) for doc, detail in some.items() if doc < 0}
    if len(lines) > 1:
        rows = yield q.threads_of_lines(docs=list(lines))
        details |= {row.doc: lines[row.doc]._replace(thread=row.thread_pk) for row in rows}
    return details


def _detailed(rows: Iterable[Row]) -> dict[int, DocumentDetail]:
    return {row.doc: DocumentDetail(row.at, row.traits, row.speaker) for row in rows}


class _Listed(NamedTuple):
    """A term that occurs, with the keys of its documents as a JSON list."""

    term: str
    weight: float
    keys: str
    """Empty for a common term, which is looked up only in hits of rarer terms."""
    occurs: int
    """The number of keys. An estimate for a common term."""
    is_cut: bool
    """Whether there are more keys, which are all of older documents."""


class Terms:
    """Looks up the words of one query in the index of one resource, in some ranges of keys."""

    def __init__(self, scope_pk: int, ranges: Sequence[Bounds], *, is_narrow: bool = False, share: float = 0.0) -> None:
        """Set the index and the ranges. `is_narrow` says that filters will remove most hits.

        `share` is the share of the documents of the resource that are in the ranges.
        """
        self._scope_pk, self._ranges, self._is_narrow, self._share = scope_pk, ranges, is_narrow, share
        self._insides = _MOST_INSIDE
        self._cut: list[str] = []
        self.relaxed: list[str] = []
        """The words that do not occur and were replaced by similar words."""
        self.common: list[_Listed] = []
        """The terms to look up in the best hits, the rarest first."""
        self.both: list[Posting] = []
        """The two rarest of these terms with the documents that contain both, if the rarer terms have too few hits."""

    def reading(self, wishes: Sequence[Wish]) -> Script[tuple[list[Posting], tuple[str, ...]]]:
        """Return the documents of the terms, the rarest term first, and the terms that were left out to stay below the limits."""
        # The first terms of all words come before the second terms, because the first term of a word is the most significant.
        plain = [_weighed(wish) for wish in wishes if wish.prefix is wish.inside is None]
        terms = list(dict.fromkeys(term for term in chain(*zip_longest(*plain)) if term is not None))
        self._cut += terms[_MOST_LOOKED_UP:]
        is_one = len(wishes) == 1
        common = {} if is_one else (yield from self._counted(terms[:_MOST_LOOKED_UP]))
        lists = yield from self._lists([term for term in terms[:_MOST_LOOKED_UP] if term not in common])
        found: dict[str, _Listed] = {}
        for wish in wishes:
            for listed in (yield from self._wished(wish, lists, common)):
                known = found.get(listed.term)
                if known is None or known.weight < listed.weight:
                    found[listed.term] = listed
        return (yield from self._chosen(found, is_one=is_one))

    def among(self, rows: Iterable[Row]) -> list[Posting]:
        """Return the documents of common terms among some documents, of which `rows` has all terms."""
        rows = sorted(rows, key=itemgetter(0))
        found: list[Posting] = []
        for listed in self.common:
            # A term between quotes is found exactly, because no term contains a quote.
            start = f"'{self._scope_pk:x}:{listed.term}"
            keys, often, very_often = (
                [row.doc for row in some] for some in _narrowed(rows, (f"{start}'", f"{start}^'", f"{start}^^'"))
            )
            found.append(
                Posting(
                    term=listed.term,
                    weight=listed.weight,
                    keys=keys,
                    often=often,
                    very_often=very_often,
                    occurs=listed.occurs,
                )
            )
        return found

    def reading_loosely(self, wishes: Sequence[Wish]) -> Script[tuple[list[Posting], tuple[str, ...]]]:
        """Return the same as `reading`, but for words that are similar to the words of the query. Words with * are ignored."""
        found: dict[str, _Listed] = {}
        plain = [wish for wish in wishes if wish.prefix is wish.inside is None]
        for wish in plain[:_MOST_LOOSELY]:
            alike = yield from self._alike(wish)
            if alike:
                self.relaxed.append(wish.word)
            found |= {listed.term: listed for listed in alike if listed.term not in found}
        return (yield from self._chosen(found, is_one=False))

    def reading_unwanted(self, wishes: Iterable[Wish]) -> Script[tuple[set[int], list[str]]]:
        """Return the keys of the documents with an excluded word, and the words with * that match too many words."""
        unwanted, cut = set[int](), list[str]()
        for wish in wishes:
            if is_unspaced(wish.word) or wish.prefix is wish.inside is None:
                # A text in a script without spaces occurs where all its pairs of characters occur.
                terms = list(_weighed(wish)) if is_unspaced(wish.word) else wish.terms[:1]
                lists = yield from self._lists(terms, _ALL_KEYS)
                if lists and len(lists) == len(terms):
                    first, *others = map(keys_in, lists.values())
                    unwanted |= set(first).intersection(*others)
                continue
            words, is_cut = yield from _words_like(self._scope_pk, wish, _MOST_UNWANTED + 1)
            if is_cut:
                cut.append(f"-{_starred(wish)}")
            lists = yield from self._lists(dict.fromkeys(term for word in words for term in _first(word)), _ALL_KEYS)
            unwanted.update(*map(keys_in, lists.values()))
        return unwanted, cut

    def _alike(self, wish: Wish) -> Script[list[_Listed]]:
        """Return the terms of the words that have most trigrams in common with a word, or are a part of it."""
        if is_unspaced(wish.word):
            characters = dict.fromkeys((term for term in wish.terms if len(term) == 1), _PART)
            return _listed((yield from self._lists(characters)), characters)
        piece = plain_of(wish.word)
        wanted = sorted(grams(piece))
        if not wanted:
            return []
        # A word that is a part of the wanted word has at least `least` trigrams.
        least = min(_SHORTEST_PART - 2, len(wanted))
        rows = yield q.words_sharing_grams(scope_pk=self._scope_pk, grams=wanted, count=least, limit=_MOST_EXPANDED)
        alike = {row.word: _likeness(piece, len(wanted), row.word, row.shared) for row in rows}
        words = sorted((word for word in alike if alike[word] >= _ALIKE), key=lambda word: (-alike[word], word))
        return (yield from self._expanded(words[:_MOST_ALIKE], _PART))

    def _chosen(self, found: Mapping[str, _Listed], *, is_one: bool) -> Script[tuple[list[Posting], tuple[str, ...]]]:
        if self._is_narrow or is_one:
            chosen = yield from self._read_further(found.values())
        else:
            found = yield from self._with_enough(found)
            chosen = _affordable([listed for listed in found.values() if listed.keys], _MOST_ROWS)
            self.common = sorted((listed for listed in found.values() if not listed.keys), key=_rarest_first)
            self._cut += [listed.term for listed in self.common]
        # Parsing the lists takes most of the time, so the lists of terms that are too common are not parsed.
        postings = yield from self._read_out(chosen)
        too_common = found.keys() - {posting.term for posting in postings} - {listed.term for listed in self.common}
        self._cut += [listed.term for listed in chosen if listed.is_cut]
        return postings, (*sorted(too_common), *dict.fromkeys(self._cut))

    def _counted(self, terms: Sequence[str]) -> Script[dict[str, int]]:
        """Return the common terms, with the approximate number of their documents in the ranges."""
        if self._is_narrow or not self._share:
            return {}
        factor = _COUNTED * self._share
        mark = f"{self._scope_pk:x}:"
        rows = yield q.common_terms(
            scope_pk=self._scope_pk, terms=[f"{mark}{term}" for term in terms], most=int(_COMMON / factor)
        )
        return {row.term.removeprefix(mark): round(factor * row.documents) for row in rows}

    def _with_enough(self, found: Mapping[str, _Listed]) -> Script[dict[str, _Listed]]:
        """Return the terms with the documents of as many common terms as are needed for enough hits, the rarest first."""
        found = dict(found)
        common = sorted((listed for listed in found.values() if not listed.keys), key=_rarest_first)
        occurs = sum(listed.occurs for listed in found.values() if listed.keys)
        if occurs < _ENOUGH and len(common) > 1:
            # A message with two words of the query is a better hit than one with only the rarer of them, and there are fewer.
            first, second, *_ = common
            wanted = f"{first.term}{_AND}{self._scope_pk:x}:{second.term}"
            keys = keys_in((yield from self._lists([wanted])).get(wanted))
            if occurs + len(keys) >= _ENOUGH_OF_BOTH:
                self.both = [
                    Posting(term=one.term, weight=one.weight, keys=keys, occurs=one.occurs) for one in (first, second)
                ]
                return found
        for listed in common:
            if occurs >= _ENOUGH:
                break
            del found[listed.term]
            lists = yield from self._lists([listed.term])
            for one in _listed(lists, {listed.term: listed.weight}):
                found[one.term] = one
                occurs += one.occurs
        return found

    def _wished(self, wish: Wish, lists: _Lists, common: Mapping[str, int]) -> Script[list[_Listed]]:
        """Return the terms of one word that occur. A word that does not occur is searched as a part of other words."""
        if wish.prefix is not None or wish.inside is not None:
            if is_unspaced(wish.word):
                weighed = _weighed(wish)
                return _listed((yield from self._lists(weighed)), weighed)
            return (yield from self._like(wish, 1.0 if wish.inside is None else _PART))
        weighed = _weighed(wish)
        terms = _listed(lists, weighed)
        terms += [_Listed(term, weighed[term], "", common[term], True) for term in weighed if term in common]
        if not terms and self._insides and len(wish.word) >= _SHORTEST_INSIDE:
            self._insides -= 1
            terms = yield from self._like(replace(wish, inside=wish.word.lower()), _PART)
            if terms:
                self.relaxed.append(wish.word)
        elif not any(term.term.startswith("=") for term in terms):
            # The whole identifier does not occur, so its parts have the weight of words.
            terms = [term._replace(weight=1.0) for term in terms]
        return terms

    def _like(self, wish: Wish, weight: float) -> Script[list[_Listed]]:
        """Return the terms of the words that begin with a wanted prefix, or contain a wanted part."""
        most = 2 * _MOST_EXPANDED if wish.inside else _MOST_EXPANDED + 1
        words, is_cut = yield from _words_like(self._scope_pk, wish, most)
        if is_cut or len(words) > _MOST_EXPANDED:
            self._cut.append(_starred(wish))
        return (yield from self._expanded(words, weight))

    def _expanded(self, words: Sequence[str], weight: float) -> Script[list[_Listed]]:
        """Return the terms of the words that replace a word of the query."""
        terms = dict.fromkeys((term for word in words[:_MOST_EXPANDED] for term in _first(word)), weight)
        return _listed((yield from self._lists(terms)), terms)

    def _lists(self, terms: Iterable[str], most: int | None = None) -> Script[_Lists]:
        """Return the keys of the terms that occur. A list has at most `most` + 1 keys; the last shows that the list was cut."""
        most = _MOST_A_TERM if most is None else most
        wanted = {f'"{self._scope_pk:x}:{term}"': term for term in terms}
        lists: dict[str, str] = {}
        for some in chunks(list(wanted), _TERMS_A_QUERY):
            for first, last in self._ranges:
                rows = yield q.hits(terms=some, first=first, last=last, most=most + 1)
                for row in rows:
                    if row.keys and row.keys != "[]":
                        term = wanted[row.term]
                        lists[term] = _joined(lists[term], row.keys, most) if term in lists else row.keys
        return lists

    def _read_further(self, found: Collection[_Listed]) -> Script[list[_Listed]]:
        """Return the rarest terms. Lists that were cut are read again with a higher limit."""
        chosen = _affordable([listed for listed in found if not listed.is_cut], _MOST_FURTHER)
        left = _MOST_FURTHER - sum(listed.occurs for listed in chosen)
        cut = sorted(listed for listed in found if listed.is_cut)[: left // _MOST_A_TERM]
        longer = yield from self._longer(cut, left)
        # If some lists need less than their share, the others are read again with the rest.
        whole = [listed for listed in longer if not listed.is_cut]
        if 0 < len(whole) < len(longer):
            left -= sum(listed.occurs for listed in whole)
            longer = [*whole, *(yield from self._longer([one for one in longer if one.is_cut], left))]
        return sorted((*chosen, *longer), key=_rarest_first)

    def _longer(self, cut: Sequence[_Listed], left: int) -> Script[list[_Listed]]:
        share = left // max(1, len(cut))
        lists = yield from self._lists([listed.term for listed in cut], share)
        return _listed(lists, {listed.term: listed.weight for listed in cut}, share)

    def _read_out(self, chosen: Sequence[_Listed]) -> Script[list[Posting]]:
        """Return the documents of the terms, and the documents that contain a term often."""
        most = max((_MOST_A_TERM, *(listed.occurs for listed in chosen)))
        lists = yield from self._lists([f"{listed.term}{mark}" for listed in chosen for mark in ("^", "^^")], most)
        found: list[Posting] = []
        for term, weight, listed, *_ in chosen:
            keys, often, very_often = keys_in(listed), keys_in(lists.get(f"{term}^")), keys_in(lists.get(f"{term}^^"))
            # If the list of all documents was cut, the documents before its first key are removed here too.
            often, very_often = (some[bisect_left(some, keys[0]) :] for some in (often, very_often))
            found.append(Posting(term=term, weight=weight, keys=keys, often=often, very_often=very_often))
        return found


def _narrowed(rows: Sequence[Row], terms: Iterable[str]) -> Iterator[Sequence[Row]]:
    """Yield the rows that contain the first term, those of them that contain also the second, and so on."""
    for term in terms:
        rows = [row for row in rows if term in row.terms]
        yield rows


def _starred(wish: Wish) -> str:
    return f"{wish.prefix}*" if wish.inside is None else f"*{wish.inside}*"


def _words_like(scope_pk: int, wish: Wish, most: int) -> Script[tuple[list[str], bool]]:
    """Return at most `most` words that begin with a wanted prefix or contain a wanted part, and whether there may be more."""
    if wish.inside is None:
        first = wish.prefix or ""
        rows = yield q.words_with_prefix(scope_pk=scope_pk, first=first, last=f"{first}\U0010ffff", limit=most)
    elif len(wish.inside) < _SHORTEST_INSIDE:
        return [], True
    else:
        wanted = sorted(grams(wish.inside))
        rows = yield q.words_with_grams(scope_pk=scope_pk, grams=wanted, count=len(wanted), limit=most)
    # A word may have the same trigrams in another order, so the words are checked.
    return [row.word for row in rows if wish.inside is None or wish.inside in row.word], len(rows) == most


def _joined(listed: str, more: str, most: int) -> str:
    """Return two JSON lists of keys as one, cut after `most` + 1 keys."""
    joined = f"{listed[:-1]},{more[1:]}"
    if joined.count(",") <= most:
        return joined
    return json.dumps(json.loads(joined)[: most + 1], separators=(",", ":"))


def keys_in(listed: str | None) -> list[int]:
    """Return the keys of a JSON list in ascending order."""
    keys: list[int] = json.loads(listed) if listed else []
    keys.sort()
    return keys


def _affordable(found: Iterable[_Listed], left: int) -> list[_Listed]:
    chosen: list[_Listed] = []
    for listed in sorted(found, key=_rarest_first):
        is_too_common = listed.occurs > left or (chosen and listed.is_cut)
        if is_too_common or len(chosen) == _MOST_SCORED:
            break
        chosen.append(listed)
        left -= listed.occurs
    return chosen


def _likeness(piece: str, size: int, word: str, shared: int) -> float:
    """Return the similarity of a word to a piece with `size` trigrams: 1 if it is a part, else the share of common trigrams."""
    if len(word) >= _SHORTEST_PART and word in piece:
        return 1.0
    return 2 * shared / (size + max(1, len(word) - 2))


def _rarest_first(listed: _Listed) -> tuple[int, str]:
    return listed.occurs, listed.term


def _first(word: str) -> tuple[str, ...]:
    """Return the terms that a folded word may be indexed as. Before it was folded, it may have been an identifier."""
    return (*terms_of_word(word)[:1], whole_of(word))


def _weighed(wish: Wish) -> dict[str, float]:
    """Return the terms of a word with their weights.

    An identifier has a high weight, and its parts a low weight. A text without spaces has only its pairs of characters.
    """
    terms = wish.terms
    wholes = [term for term in terms if term.startswith("=")]
    if wholes:
        last = [term for term in wholes[1:] if wholes[0].endswith(f"/{term[1:]}")][-1:]
        parts = [term for term in terms if not term.startswith("=")]
        return {wholes[0]: _WHOLE} | dict.fromkeys(last, 1.0) | dict.fromkeys(parts, _PART)
    pairs = [term for term in terms if len(term) > 1]
    return dict.fromkeys(pairs if len(terms) > 1 and pairs else terms, 1.0)


def _listed(lists: _Lists, weighed: Mapping[str, float], most: int | None = None) -> list[_Listed]:
    most = _MOST_A_TERM if most is None else most
    found: list[_Listed] = []
    for term, weight in weighed.items():
        if term in lists:
            occurs = lists[term].count(",") + 1
            found.append(_Listed(term, weight, lists[term], occurs, occurs > most))
    return found
