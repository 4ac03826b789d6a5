"""Searching the index: the terms of a query, rarest first, then the rows that are worth a closer look, then the page.

Knows the index and its limits. What a query means and how hits are ranked is decided in `search/`, alike for both engines.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

from memolog.domain.message import ROLES
from memolog.domain.moments import to_micros
from memolog.domain.search import SOURCES
from memolog.search.drafting import Draft, Posting, Stats
from memolog.search.keys import OBSERVATION, PLACE, TASK, is_task
from memolog.search.query import Query, Wish
from memolog.search.ranking import Detail, Ranked, drafted, rank
from memolog.search.words import grams, terms_of_word, words_of
from memolog.store.engine import Engine
from memolog.store.indexing import reading_scope
from memolog.store.scope import FIRST, LAST, check_id
from memolog.store.sql import Row, Script, load_queries

__all__ = ["Found", "Searching"]

q = load_queries("search")

T = TypeVar("T")
Values: TypeAlias = dict[str, Any]
_Lists: TypeAlias = Mapping[str, str]
"""By term, the keys of the documents that hold it, as they were read."""

# What a term may cost, and what all may: about ten milliseconds of reading on a small machine.
_MOST_A_TERM = 6_000
_MOST_ROWS = 12_000
_ROWS_A_QUERY = 512
_TERMS_A_QUERY = 16
_MOST_EXPANDED = 24
_MOST_SPEAKERS = 1_000
# A path or an identifier says more than a word of prose. Where it stands whole, no sum of its parts may outweigh it: it has up
# to a dozen of them, and they occur everywhere.
_WHOLE: Final = 3.0
_PART: Final = 0.25
_SHORTEST_INSIDE = 3
_THREAD_SHIFT = 33
_SAID: Final = frozenset({"raw", "compacted"})
_TASKS: Final = frozenset({"task"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What a query found, best first, before anything is shown."""

    scored: Ranked = field(default_factory=Ranked)
    terms: dict[str, float] = field(default_factory=dict[str, float])
    """What was looked for, rarest first, and how rare it is."""
    left_out: tuple[str, ...] = ()


class _Listed(NamedTuple):
    """A term that occurs, and the keys of the documents that hold it, as they were read."""

    term: str
    weight: float
    keys: str
    occurs: int


class Searching:
    """Finds what was said, one resource at a time."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def search(self, resource: str, query: Query, *, explain: bool = False) -> Found:
        """Return every hit of a query, the best first."""
        check_id("resource", resource)
        return await self._engine.read(lambda: _searching(resource, query, explain=explain))

    async def rows(self, resource: str, keys: Sequence[int]) -> dict[int, Row]:
        """Return the rows behind keys of the index: of messages, of observations, of tasks."""
        check_id("resource", resource)
        return await self._engine.read(lambda: _reading_rows(resource, keys))


def _searching(resource: str, query: Query, *, explain: bool) -> Script[Found]:
    scope_pk = yield from reading_scope(resource)
    if scope_pk is None or not query.wishes:
        return Found()
    bounds = yield from _bounds(resource, query)
    if bounds is None:
        return Found()
    rows = yield q.stats(scope_pk=scope_pk)
    # Where no message can be found, a word is as rare as it is among the others.
    rows = [row for row in rows if bounds[1] > 0 or row[0] in (OBSERVATION, TASK)]
    stats = Stats(documents={row[0]: row[1] for row in rows}, lengths={row[0]: row[2] for row in rows})
    speakers = yield from _named_speakers(scope_pk, query)
    postings, left_out = yield from _terms(scope_pk, _without_names(query, speakers), bounds)
    unwanted = yield from _unwanted(scope_pk, query)
    allowed = None
    if query.sources == _TASKS and stats.documents.get(OBSERVATION):
        postings = [_of_tasks(posting) for posting in postings]
    if _filters(query):
        hits = set[int]().union(*(posting.keys for posting in postings))
        allowed = yield from _passing(resource, scope_pk, query, hits, unwanted)
    found = drafted(postings, stats, query, allowed)
    details = yield from _details(found)
    if allowed is not None:
        around = details.keys() - allowed
        passing = yield from _passing(resource, scope_pk, query, around, unwanted)
        details = {key: detail for key, detail in details.items() if key in allowed or key in passing}
    threads = yield from _thread_lengths(found)
    scored = rank(found, query, details, threads, speakers, explain=explain)
    return Found(scored=scored, terms=found.idf, left_out=left_out)


# ---------------------------------------------------------------- terms


def _named_speakers(scope_pk: int, query: Query) -> Script[frozenset[str]]:
    """Return the speakers that the question names, by their whole name or by one of its words."""
    rows = yield q.speakers(scope_pk=scope_pk, limit=_MOST_SPEAKERS)
    return frozenset(row[0] for row in rows if not query.spoken.isdisjoint(words_of(row[0])))


def _without_names(query: Query, speakers: frozenset[str]) -> tuple[Wish, ...]:
    """Leave the speakers' names out of the words: who is named speaks, and is rarely spoken of by name."""
    names = {term for speaker in speakers for word in words_of(speaker) for term in terms_of_word(word)}
    others = tuple(wish for wish in query.wishes if wish.prefix or wish.inside or wish.terms[0] not in names)
    return others or query.wishes


def _terms(
    scope_pk: int, wishes: Sequence[Wish], bounds: tuple[int, int]
) -> Script[tuple[list[Posting], tuple[str, ...]]]:
    """Return where the terms occur, rarest first, as many as the budget allows, and those that are too common."""
    plain = [term for wish in wishes if wish.prefix is wish.inside is None for term in _weighed(wish.terms)]
    lists = yield from _lists(scope_pk, plain, bounds)
    found: dict[str, _Listed] = {}
    for wish in wishes:
        for listed in (yield from _wished(scope_pk, wish, lists, bounds)):
            known = found.get(listed.term)
            if known is None or known.weight < listed.weight:
                found[listed.term] = listed
    chosen: list[_Listed] = []
    left = _MOST_ROWS
    for listed in sorted(found.values(), key=lambda one: (one.occurs, one.term)):
        if listed.occurs > left or (chosen and listed.occurs > _MOST_A_TERM):
            break
        chosen.append(listed)
        left -= listed.occurs
    # Most of the work is reading lists: those of terms that are too common are not looked into.
    postings = yield from _read_out(scope_pk, chosen, bounds)
    return postings, tuple(sorted(found.keys() - {posting.term for posting in postings}))


def _wished(scope_pk: int, wish: Wish, lists: _Lists, bounds: tuple[int, int]) -> Script[list[_Listed]]:
    """Return the terms of one word that occur at all; one that does not occur is looked for inside other words."""
    if wish.prefix is not None:
        rows = yield q.words_with_prefix(
            scope_pk=scope_pk, first=wish.prefix, last=f"{wish.prefix}\U0010ffff", limit=_MOST_EXPANDED
        )
        return (yield from _expanded(scope_pk, [row[0] for row in rows], 1.0, bounds))
    if wish.inside is not None:
        return (yield from _inside(scope_pk, wish.inside, bounds))
    terms = _listed(lists, _weighed(wish.terms))
    if not terms:
        terms = yield from _inside(scope_pk, wish.word.lower(), bounds)
    elif not any(term.term.startswith("=") for term in terms):
        # Nobody wrote it as one word: then its parts are the words that are meant.
        terms = [term._replace(weight=1.0) for term in terms]
    return terms


def _first(word: str) -> tuple[str, ...]:
    """Return what a known word may be indexed as: folded, it does not tell whether it was an identifier."""
    return (*terms_of_word(word)[:1], f"={word}")


def _weighed(terms: tuple[str, ...]) -> dict[str, float]:
    """Return what to look for: an identifier whole, and less by its parts; a run of characters by its pairs."""
    wholes = [term for term in terms if term.startswith("=")]
    if wholes:
        last = [term for term in wholes[1:] if wholes[0].endswith(f"/{term[1:]}")][-1:]
        parts = [term for term in terms if not term.startswith("=")]
        return {wholes[0]: _WHOLE} | dict.fromkeys(last, 1.0) | dict.fromkeys(parts, _PART)
    pairs = [term for term in terms if len(term) > 1]
    return dict.fromkeys(pairs if len(terms) > 1 and pairs else terms, 1.0)


def _inside(scope_pk: int, piece: str, bounds: tuple[int, int]) -> Script[list[_Listed]]:
    """Return the terms of words that contain a piece."""
    if len(piece) < _SHORTEST_INSIDE:
        return []
    wanted = sorted(grams(piece))
    rows = yield q.words_with_grams(scope_pk=scope_pk, grams=wanted, count=len(wanted), limit=4 * _MOST_EXPANDED)
    words = [row[0] for row in rows if piece in row[0]][:_MOST_EXPANDED]
    return (yield from _expanded(scope_pk, words, _PART, bounds))


def _expanded(scope_pk: int, words: Iterable[str], weight: float, bounds: tuple[int, int]) -> Script[list[_Listed]]:
    """Return the terms of words that stand in for the one that was looked for."""
    terms = dict.fromkeys((term for word in words for term in _first(word)), weight)
    return _listed((yield from _lists(scope_pk, terms, bounds)), terms)


def _lists(scope_pk: int, terms: Iterable[str], bounds: tuple[int, int]) -> Script[_Lists]:
    """Return where terms occur; one that does not is left out. One more than may be used tells that there are too many."""
    wanted = {_quoted(scope_pk, term): term for term in terms}
    lists: dict[str, str] = {}
    for some in _chunks(list(wanted), _TERMS_A_QUERY):
        rows = yield q.hits(terms=some, first=bounds[0], last=bounds[1], most=_MOST_A_TERM + 1)
        lists |= {wanted[quoted]: keys for quoted, keys in rows if keys and keys != "[]"}
    return lists


def _listed(lists: _Lists, weighed: Mapping[str, float]) -> list[_Listed]:
    return [
        _Listed(term, weight, lists[term], lists[term].count(",") + 1)
        for term, weight in weighed.items()
        if term in lists
    ]


def _quoted(scope_pk: int, term: str) -> str:
    return f'"{scope_pk:x}:{term}"'


def _read_out(scope_pk: int, chosen: Sequence[_Listed], bounds: tuple[int, int]) -> Script[list[Posting]]:
    """Return terms with the documents that hold them, and those that hold them often."""
    marked = [f"{listed.term}{mark}" for listed in chosen for mark in ("^", "^^")]
    lists = yield from _lists(scope_pk, marked, bounds)
    found: list[Posting] = []
    for term, weight, listed, _ in chosen:
        keys, often, very_often = _keys(listed), _keys(lists.get(f"{term}^")), _keys(lists.get(f"{term}^^"))
        # A list that was cut short begins later than these do.
        often, very_often = (some[bisect_left(some, keys[0]) :] for some in (often, very_often))
        found.append(Posting(term=term, weight=weight, keys=keys, often=often, very_often=very_often))
    return found


def _of_tasks(posting: Posting) -> Posting:
    once, often, very_often = (
        [key for key in keys if is_task(key)] for keys in (posting.keys, posting.often, posting.very_often)
    )
    return replace(posting, keys=once, often=often, very_often=very_often)


def _keys(listed: str | None) -> list[int]:
    keys: list[int] = json.loads(listed) if listed else []
    keys.sort()
    return keys


# ---------------------------------------------------------------- filters


def _bounds(resource: str, query: Query) -> Script[tuple[int, int] | None]:
    """Return between which keys to look: those of one thread, if only one is wanted. None: there is no such thread."""
    last = -1 if query.sources and not query.sources & _SAID else LAST
    if not query.threads:
        return FIRST, last
    rows = yield q.thread_keys(resource=resource, threads=sorted(query.threads))
    if not rows:
        return None
    if len(rows) > 1 or last < 0:
        return FIRST, last
    # What was observed in a thread has no place in its sequence; it is let through by the filter, not by the bounds.
    last = ((rows[0][0] + 1) << _THREAD_SHIFT) - 1
    return (FIRST if _wants_others(query) else rows[0][0] << _THREAD_SHIFT), last


def _wants_others(query: Query) -> bool:
    return not query.roles and (not query.sources or bool(query.sources - _SAID))


def _filters(query: Query) -> bool:
    # Whether a document is a task is said by its key.
    sources = query.sources if query.sources != _TASKS else None
    named = (query.roles, query.threads, query.tasks, sources, query.without)
    return any(named) or query.after is not None or query.before is not None


def _passing(
    resource: str, scope_pk: int, query: Query, keys: AbstractSet[int], unwanted: set[int]
) -> Script[frozenset[int]]:
    """Return the keys among these that the filters let through."""
    thread_pks: list[int] = []
    if query.threads:
        rows = yield q.thread_keys(resource=resource, threads=sorted(query.threads))
        thread_pks = [row[0] for row in rows]
    values: Values = {
        "scope_pk": scope_pk,
        "after": FIRST if query.after is None else to_micros(query.after),
        "before": LAST if query.before is None else to_micros(query.before),
        "sources": sorted(query.sources or SOURCES),
        "any_role": int(not query.roles),
        "roles": sorted(query.roles or ROLES),
        "any_thread": int(not query.threads),
        "thread_pks": thread_pks,
        "any_task": int(not query.tasks),
        "tasks": sorted(query.tasks),
    }
    passing: set[int] = set()
    for chunk in _chunks(sorted(keys - unwanted), _ROWS_A_QUERY):
        passing |= {row[0] for row in (yield q.allowed(docs=chunk, **values))}
    return frozenset(passing)


def _unwanted(scope_pk: int, query: Query) -> Script[set[int]]:
    """Return the keys of documents that hold a word that must not be there."""
    unwanted: set[int] = set()
    for wish in query.without:
        rows = yield q.hits(terms=[_quoted(scope_pk, wish.terms[0])], first=FIRST, last=LAST, most=LAST)
        unwanted.update(_keys(rows[0][1]))
    return unwanted


# ---------------------------------------------------------------- a closer look


def _chunks(items: Sequence[T], size: int) -> Iterable[Sequence[T]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]


def _details(drafted: Draft) -> Script[dict[int, Detail]]:
    places = [*(key // PLACE for key in drafted.closely), *drafted.places]
    if not places:
        return {}
    rows = yield q.details(places=places)
    return {doc: Detail(at, traits, speaker) for doc, at, traits, speaker in rows}


def _thread_lengths(drafted: Draft) -> Script[dict[int, tuple[int, int]]]:
    if not drafted.thread_terms:
        return {}
    rows = yield q.thread_lengths(threads=sorted(drafted.thread_terms))
    return {row[0]: (row[1], row[2]) for row in rows}


def _reading_rows(resource: str, keys: Sequence[int]) -> Script[dict[int, Row]]:
    found: dict[int, Row] = {}
    said = [key for key in keys if key > 0]
    others = [key for key in keys if key < 0]
    if said:
        rows = yield q.found_messages(docs=said, resource=resource)
        found |= {row[0]: row[1:] for row in rows}
    if others:
        rows = yield q.found_observations(docs=others, resource=resource)
        found |= {row[0]: row[1:] for row in rows}
        rows = yield q.found_tasks(docs=others, resource=resource)
        found |= {row[0]: row[1:] for row in rows}
    return found
