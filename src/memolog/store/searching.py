"""Search the index: read the terms of a query, rarest first, filter the hits, and rank them with `search/`."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, TypeAlias, overload

from memolog.domain.message import ROLES
from memolog.domain.moments import to_micros
from memolog.domain.search import SOURCES
from memolog.search.drafting import Draft, Posting, Stats
from memolog.search.keys import OBSERVATION, PLACE, TASK, is_task, thread_of
from memolog.search.query import Query, Wish
from memolog.search.ranking import Detail, Ranked, drafted, rank
from memolog.search.words import terms_of_word, words_of
from memolog.store.engine import Engine
from memolog.store.indexing import reading_scope
from memolog.store.scope import FIRST, LAST, check_ids, chunks
from memolog.store.search_terms import Terms, reading_unwanted
from memolog.store.sql import Row, Script, load_queries

__all__ = ["Found", "Searching"]

q = load_queries("search")

Values: TypeAlias = dict[str, Any]

_ROWS_A_QUERY = 512
_MOST_SPEAKERS = 1_000
_THREAD_SHIFT = 33
_SAID: Final = frozenset({"raw", "compacted"})
_TASKS: Final = frozenset({"task"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The hits of a query, best first."""

    scored: Ranked = field(default_factory=Ranked)
    terms: dict[str, float] = field(default_factory=dict[str, float])
    """The terms, rarest first, and how rare each is."""
    left_out: tuple[str, ...] = ()
    relaxed: tuple[str, ...] = ()
    """The words that do not occur, for which similar words were found instead."""
    behind: int = 0
    """How many threads have messages that are not indexed yet."""


class Searching:
    """Searches the index, one resource at a time."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    @overload
    async def search(self, resource: str, query: Query, *, explain: bool = False) -> Found: ...
    @overload
    async def search(
        self, resource: str, query: Query, *, explain: bool = False, only_if_whole: Literal[True]
    ) -> Found | None: ...
    async def search(
        self, resource: str, query: Query, *, explain: bool = False, only_if_whole: bool = False
    ) -> Found | None:
        """Return every hit of a query, the best first; with `only_if_whole` None if something waits to be indexed."""
        check_ids(resource=resource)

        def script() -> Script[Found | None]:
            # Read in the same snapshot, so that no later change is missed.
            waiting = yield q.any_behind(resource=resource)
            if not any(waiting[0]):
                return (yield from _searching(resource, query, explain=explain))
            if only_if_whole:
                return None
            rows = yield q.count_behind(resource=resource)
            found = yield from _searching(resource, query, explain=explain)
            return replace(found, behind=rows[0].threads)

        return await self._engine.read(script)

    async def rows(self, resource: str, keys: Sequence[int]) -> dict[int, Row]:
        """Return the rows behind keys of the index: of messages, of observations, of tasks."""
        check_ids(resource=resource)
        return await self._engine.read(lambda: _reading_rows(resource, keys))


def _searching(resource: str, query: Query, *, explain: bool) -> Script[Found]:
    scope_pk = yield from reading_scope(resource)
    if scope_pk is None or not query.wishes:
        return Found()
    bounds = yield from _bounds(resource, query)
    if bounds is None:
        return Found()
    rows = yield q.stats(scope_pk=scope_pk)
    # If messages are excluded, the rarity of a word is that among the other documents.
    rows = [row for row in rows if bounds[1] > 0 or row.kind in (OBSERVATION, TASK)]
    stats = Stats(documents={row.kind: row.documents for row in rows}, lengths={row.kind: row.length for row in rows})
    speakers = yield from _named_speakers(scope_pk, query)
    terms = Terms(scope_pk, bounds, is_narrow=_is_narrow(query))
    unwanted, too_many = yield from reading_unwanted(scope_pk, query.without)
    wishes = _without_names(query, speakers)
    for reading in (terms.reading, terms.reading_loosely):
        postings, left_out = yield from reading(wishes)
        if query.sources == _TASKS and stats.documents.get(OBSERVATION):
            postings = [_of_tasks(posting) for posting in postings]
        allowed = None
        if _filters(query):
            hits = set[int]().union(*(posting.keys for posting in postings))
            allowed = yield from _passing(resource, scope_pk, query, hits, unwanted)
        found = drafted(postings, stats, query, allowed)
        # Similar words are used only if nothing else is found.
        if found.own:
            break
    details = yield from _details(found)
    if allowed is not None:
        around = details.keys() - allowed
        passing = yield from _passing(resource, scope_pk, query, around, unwanted)
        details = {key: detail for key, detail in details.items() if key in allowed or key in passing}
    threads = yield from _thread_lengths(found)
    scored = rank(found, query, details, threads, speakers, explain=explain)
    return Found(
        scored=scored,
        terms=found.idf,
        left_out=(*left_out, *too_many, *query.unread),
        relaxed=tuple(dict.fromkeys(terms.relaxed)) if found.own else (),
    )


# ---------------------------------------------------------------- terms


def _named_speakers(scope_pk: int, query: Query) -> Script[frozenset[str]]:
    """Return the speakers that the query names, by their whole name or by a word of it."""
    rows = yield q.speakers(scope_pk=scope_pk, limit=_MOST_SPEAKERS)
    return frozenset(row.name for row in rows if not query.spoken.isdisjoint(words_of(row.name)))


def _without_names(query: Query, speakers: frozenset[str]) -> tuple[Wish, ...]:
    """Remove the names of speakers from the words: messages by a speaker rarely contain the name."""
    names = {term for speaker in speakers for word in words_of(speaker) for term in terms_of_word(word)}
    others = tuple(wish for wish in query.wishes if wish.prefix or wish.inside or wish.terms[0] not in names)
    return others or query.wishes


def _of_tasks(posting: Posting) -> Posting:
    once, often, very_often = (
        [key for key in keys if is_task(key)] for keys in (posting.keys, posting.often, posting.very_often)
    )
    return replace(posting, keys=once, often=often, very_often=very_often)


# ---------------------------------------------------------------- filters


def _bounds(resource: str, query: Query) -> Script[tuple[int, int] | None]:
    """Return the first and last key to search, for one thread if only one is wanted; None if there is no such thread."""
    last = -1 if query.sources and not query.sources & _SAID else LAST
    if not query.threads:
        return FIRST, last
    rows = yield q.thread_keys(resource=resource, threads=sorted(query.threads))
    if not rows:
        return None
    if len(rows) > 1 or last < 0:
        return FIRST, last
    # Observations have no place in the sequence of a thread, so the filter selects them, not the bounds.
    last = ((rows[0].pk + 1) << _THREAD_SHIFT) - 1
    return (FIRST if _wants_others(query) else rows[0].pk << _THREAD_SHIFT), last


def _wants_others(query: Query) -> bool:
    return not query.roles and (not query.sources or bool(query.sources - _SAID))


def _filters(query: Query) -> bool:
    # The key of a document tells whether it is a task.
    sources = query.sources if query.sources != _TASKS else None
    wanted = (query.roles, query.threads, query.tasks, sources)
    excluded = (query.without, query.without_roles, query.without_threads)
    return any(wanted) or any(excluded) or query.after is not None or query.before is not None


def _is_narrow(query: Query) -> bool:
    """Return whether filters other than the bounds may remove many hits."""
    phrases = query.phrases or query.without_phrases
    # Messages and single threads have their own ranges of keys: such filters remove little.
    is_place = (not query.sources or query.sources >= _SAID) and (
        not query.threads or (len(query.threads) == 1 and not _wants_others(query))
    )
    others = replace(query, sources=frozenset(), threads=frozenset())
    return bool(phrases) or not is_place or _filters(others)


def _passing(
    resource: str, scope_pk: int, query: Query, keys: AbstractSet[int], unwanted: set[int]
) -> Script[frozenset[int]]:
    """Return the keys among these that pass the filters."""
    named: dict[str, int] = {}
    if query.threads or query.without_threads:
        rows = yield q.thread_keys(resource=resource, threads=sorted(query.threads | query.without_threads))
        named = {row.id: row.pk for row in rows}
    values: Values = {
        "scope_pk": scope_pk,
        "after": FIRST if query.after is None else to_micros(query.after),
        "before": LAST if query.before is None else to_micros(query.before),
        "sources": sorted(query.sources or SOURCES),
        "any_role": int(not query.roles),
        "roles": sorted(query.roles or ROLES),
        "any_thread": int(not query.threads),
        "thread_pks": [named[thread] for thread in query.threads if thread in named],
        # NOT IN needs a non-empty list without NULL, so there is always a value that does not occur.
        "not_roles": sorted(query.without_roles) or ["-"],
        "not_threads": [-1, *(named[thread] for thread in query.without_threads if thread in named)],
        "any_task": int(not query.tasks),
        "tasks": sorted(query.tasks),
    }
    passing: set[int] = set()
    left = _in_threads(keys - unwanted, values)
    if not _filters(replace(query, without=(), threads=frozenset(), without_threads=frozenset())):
        passing = {key for key in left if key > 0}
    for chunk in chunks(sorted(left - passing), _ROWS_A_QUERY):
        passing |= {row.doc for row in (yield q.allowed(docs=chunk, **values))}
    return frozenset(passing)


def _in_threads(keys: AbstractSet[int], values: Values) -> AbstractSet[int]:
    """Remove messages of other threads by their keys, which is much cheaper than a query."""
    wanted, unwanted = frozenset(values["thread_pks"]), frozenset(values["not_threads"])
    if not values["any_thread"]:
        keys = {key for key in keys if key < 0 or thread_of(key) in wanted}
    return {key for key in keys if key < 0 or thread_of(key) not in unwanted} if len(unwanted) > 1 else keys


# ---------------------------------------------------------------- a closer look


def _details(drafted: Draft) -> Script[dict[int, Detail]]:
    places = [*(key // PLACE for key in drafted.closely), *drafted.places]
    if not places:
        return {}
    rows = yield q.details(places=places)
    details = {row.doc: Detail(row.at, row.traits, row.speaker) for row in rows}
    lines = [doc for doc in details if doc < 0]
    if len(lines) > 1:
        rows = yield q.threads_of_lines(docs=lines)
        details |= {row.doc: details[row.doc]._replace(thread=row.thread_pk) for row in rows}
    return details


def _thread_lengths(drafted: Draft) -> Script[dict[int, tuple[int, int]]]:
    if not drafted.thread_terms:
        return {}
    rows = yield q.thread_lengths(threads=sorted(drafted.thread_terms))
    return {row.thread_pk: (row.user_length, row.other_length) for row in rows}


def _reading_rows(resource: str, keys: Sequence[int]) -> Script[dict[int, Row]]:
    found: dict[int, Row] = {}
    said = [key for key in keys if key > 0]
    others = [key for key in keys if key < 0]
    if said:
        found |= {row.doc: row for row in (yield q.found_messages(docs=said, resource=resource))}
    if others:
        found |= {row.doc: row[1:] for row in (yield q.found_observations(docs=others, resource=resource))}
        found |= {row.doc: row[1:] for row in (yield q.found_tasks(docs=others, resource=resource))}
    return found
