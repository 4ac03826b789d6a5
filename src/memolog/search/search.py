"""Search a resource: update the index, query it, check phrases, and return one page of results."""

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Literal, TypeAlias
from zlib import crc32

from memolog.core.clock import from_micros
from memolog.core.config import Config
from memolog.core.deadline import offload
from memolog.core.exact_json import loads, unpack
from memolog.core.message import Message
from memolog.core.observation import UNVERIFIED, is_doubtful
from memolog.db.queries import Row, weight_of
from memolog.db.rows import message_from_row
from memolog.db.scope import check_id, check_limit, page_key
from memolog.errors import InputError, StoreError, ThreadNotFound
from memolog.search.analysis import Redact, text_of_parts, text_of_task
from memolog.search.bm25 import is_task as is_task_key
from memolog.search.embedding import Near
from memolog.search.facts import MOST_DOCUMENTS, Fact, facts_for
from memolog.search.facts import SOURCE as FACT
from memolog.search.query import Query, parse
from memolog.search.rank import Ranked, Scored, Statement, best_of_threads, of_one_fact, statement_in
from memolog.search.snippets import Marker, contains_phrases
from memolog.search.store import SearchHits
from memolog.search.values import SOURCES, SearchAnswer, SearchResult, Source
from memolog.text.redaction import for_the_index

if TYPE_CHECKING:
    from memolog.store import Store

_log = logging.getLogger("memolog")

Hits: TypeAlias = Ranked | Sequence[Scored]
# The maximum hits that are checked for phrases. Reading them takes about a second.
_MOST_CHECKED = 4_096
# The maximum rows of one query.
_MOST_READ = 512
# Texts with more characters are checked for phrases in a worker thread.
_LONG_CHARACTERS = 20_000
# This many of the best hits are checked for the quoted phrases of a question. The neighbours of a result are read in pages of up
# to this many messages, or of `context` messages if that is more.
_READ_AT_ONCE = 64
# If other processes write all the time, the index is updated at most this many times before it is searched as it is.
_MOST_TRIES = 4
# The cost in characters (`Indexing.catch_up`) of the rows that a search indexes before it answers: about a thousand short
# messages, in less than half a second. If more rows wait, the answer is incomplete and says so.
_MOST_INDEXED = 600_000


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchOptions:
    """The arguments of a search besides the query."""

    thread: str | None = None
    limit: int = 10
    context: int = 0
    sources: Collection[Source] | None = None
    by: Literal["message", "thread"] = "message"
    explain: bool = False
    cursor: str | None = None
    beside: bool = True
    """Whether messages without a word of the query can be results because of the messages near them."""


async def search_memory(
    store: "Store", config: Config, text: str, resource: str, wanted: SearchOptions, now: datetime
) -> SearchAnswer:
    """Return one page of the results of a query."""
    start = _checked(text, resource, wanted)
    # If the arguments exclude all results, an empty query still updates the index.
    query = _narrowed(parse(text, now), wanted) or Query()
    found = await _found(store, config, resource, query, explain=wanted.explain)
    rows: dict[int, Row] = {}
    ranked = await _newest_first(store, resource, found, rows)
    scored: Hits = ranked
    unread: tuple[str, ...] = ()
    relaxed = found.relaxed
    redact = for_the_index(config)
    if query.named:
        scored, missed = await _favouring(store, resource, ranked, query, redact)
        relaxed = (*relaxed, *missed)
    if query.phrases or query.without_phrases:
        scored, unread = await _with_phrases(store, resource, scored, query, redact)
    if wanted.by == "thread":
        scored = best_of_threads(scored, found.scored.threads)
    marker = Marker(found.terms, (*query.phrases, *query.named))
    facts = await _facts(store, resource, query, wanted, found, redact)
    lines = [_of_fact(one, place, marker) for place, one in enumerate(facts, start=1)]
    # Lines of the working memory come first, because they hold now. Positions count them and then the hits.
    shown = lines[start : start + wanted.limit]
    rest = replace(wanted, limit=wanted.limit - len(shown))
    results, reached = await _page(store, resource, scored, max(0, start - len(lines)), marker, rest, rows)
    if lines:
        results = [*shown, *(replace(one, rank=one.rank + len(lines)) for one in results)]
    reached = len(lines) + reached if start + len(shown) >= len(lines) else start + len(shown)
    total = len(lines) + len(scored)
    return SearchAnswer(
        results=tuple(results),
        total=total,
        next=f"{reached}.{_mark(text, resource, wanted)}" if reached < total else None,
        terms=tuple(found.terms),
        rarity=found.terms,
        left_out=(*found.left_out, *unread),
        relaxed=relaxed if scored else (),
        behind=found.behind,
        unindexed=found.unindexed,
    )


async def _facts(
    store: "Store", resource: str, query: Query, wanted: SearchOptions, found: SearchHits, redact: Redact
) -> list[Fact]:
    if wanted.by == "thread" or not query.wishes:
        return []
    documents = await store.working_memory.to_search(resource, limit=MOST_DOCUMENTS)
    return facts_for(query, documents, found.terms, redact) if documents else []


def _of_fact(fact: Fact, rank: int, marker: Marker) -> SearchResult:
    snippet, exact = marker.both(fact.text)
    return SearchResult(
        id=FACT,
        source=FACT,
        rank=rank,
        score=round(fact.score, 6),
        content=fact.text,
        snippet=snippet,
        exact=exact,
        at=fact.at,
        thread=fact.thread,
    )


async def _found(store: "Store", config: Config, resource: str, query: Query, *, explain: bool) -> SearchHits:
    near: Sequence[Near] = ()
    if store.semantic is not None:
        near = await store.semantic.near(resource, query)
    found = await _found_near(store, config, resource, query, near, explain=explain)
    if store.semantic is not None and found.alive is not None:
        store.semantic.vectors.removed(near, found.alive)
    return found


async def _found_near(
    store: "Store", config: Config, resource: str, query: Query, near: Sequence[Near], *, explain: bool
) -> SearchHits:
    tries = 0 if config.read_only else _MOST_TRIES
    left = _MOST_INDEXED
    for _ in range(tries):
        found = await store.searching.search(resource, query, explain=explain, only_if_whole=True, near=near)
        if found.is_whole:
            return found
        try:
            left -= await store.indexing.catch_up(resource, for_the_index(config), most=left)
        except StoreError as error:
            # The search continues with the index as it is. `behind` in the answer says that messages are missing.
            _log.info("the search index cannot be updated: %s", error)
            break
        if left <= 0:
            break
    return await store.searching.search(resource, query, explain=explain, near=near)


def _checked(text: object, resource: str, wanted: SearchOptions) -> int:
    """Check the arguments. Return the position of the first result of the page."""
    check_id("resource", resource)
    check_limit(wanted.limit)
    if not isinstance(text, str):
        raise InputError(f"`query` must be a string, got {type(text).__name__}.", then="Pass the text to search for.")
    if wanted.thread is not None:
        check_id("thread", wanted.thread)
    if wanted.context < 0:
        raise InputError(f"`context` must be 0 or more, got {wanted.context}.", then="Pass context=0 or more.")
    if wanted.by not in ("message", "thread"):
        raise InputError(f"`by` must be 'message' or 'thread', got {wanted.by!r}.", then='Pass by="thread".')
    unknown = sorted(set(wanted.sources or ()) - set(SOURCES))
    if unknown:
        raise InputError(f"`sources` has the unknown source {unknown[0]!r}.", then=f"Use any of {', '.join(SOURCES)}.")
    mark = _mark(text, resource, wanted)
    start, of = page_key(wanted.cursor, (0, mark))
    if start < 0:
        raise InputError(f"`cursor` must be the `next` of an answer, got {wanted.cursor!r}.", then="Pass it unchanged.")
    if of != mark:
        then = "Pass the same query, resource, `thread`, `sources` and `by` as in the search that returned the cursor."
        raise InputError(f"The cursor {wanted.cursor!r} belongs to another search.", then=then)
    return start


def _mark(text: str, resource: str, wanted: SearchOptions) -> int:
    asked = (text, resource, wanted.thread, sorted(wanted.sources or ()), wanted.by)
    return crc32(repr(asked).encode("utf-8", "surrogatepass"))


def _narrowed(query: Query, wanted: SearchOptions) -> Query | None:
    """Return the query with the filters of the arguments. None if they contradict the filters in the query."""
    if wanted.thread is not None:
        if query.threads and wanted.thread not in query.threads:
            return None
        query = replace(query, threads=frozenset({wanted.thread}))
    if wanted.sources is not None:
        sources = frozenset(wanted.sources) & (query.sources or frozenset(SOURCES))
        if not sources:
            return None
        query = replace(query, sources=sources)
    return query


async def _newest_first(store: "Store", resource: str, found: SearchHits, rows: dict[int, Row]) -> Ranked:
    """Return the hits, with the newest of several statements of one fact first. Add the rows that are read to `rows`."""
    ranked = found.scored
    if not ranked.facts:
        return ranked
    rows |= await store.searching.rows(resource, [key for fact in ranked.facts for key in fact.keys])
    orders: list[Sequence[int]] = []
    for fact in ranked.facts:
        # Without a sentence in the best hit that states the fact, the others are not read.
        keys = [fact.best, *(key for key in fact.keys if key != fact.best)]
        statements: dict[int, Statement | None] = {}
        for key in keys:
            if key in rows:
                statements[key] = statement_in(_searched(key, rows[key]), found.terms)
            if statements.get(fact.best) is None:
                break
        orders.append(of_one_fact(fact, statements, found.terms))
    return ranked.rearranged(orders)


async def _favouring(
    store: "Store", resource: str, scored: Ranked, query: Query, redact: Redact
) -> tuple[Ranked, tuple[str, ...]]:
    """Return the hits, and the quoted phrases that none of the best hits contains.

    Hits among the best that contain all quoted phrases get a bonus.
    """
    keys = [one.key for one in scored[:_READ_AT_ONCE]]
    rows = await store.searching.rows(resource, keys)
    texts = {key: _searched(key, row) for key, row in rows.items()}
    missed = [name for name in query.named if not any(_has_phrases(text, (name,), redact) for text in texts.values())]
    holding = {key for key, text in texts.items() if _has_phrases(text, query.named, redact)}
    return scored.favouring(holding), tuple(f'"{name.strip()}"' for name in missed)


async def _with_phrases(
    store: "Store", resource: str, scored: Hits, query: Query, redact: Redact
) -> tuple[list[Scored], tuple[str, ...]]:
    """Return the hits with all phrases and no excluded phrase. If not every hit could be checked, return also the phrases."""
    kept: list[Scored] = []
    looked_at = scored[:_MOST_CHECKED]
    for start in range(0, len(looked_at), _MOST_READ):
        some = looked_at[start : start + _MOST_READ]
        rows = await store.searching.rows(resource, [one.key for one in some])
        is_long = weight_of(list(rows.values())) > _LONG_CHARACTERS
        kept += await offload(_fitting, some, rows, query, redact, when=is_long)
    if len(looked_at) == len(scored):
        return kept, ()
    wanted = (f'"{phrase.strip()}"' for phrase in query.phrases)
    return kept, (*wanted, *(f'-"{phrase.strip()}"' for phrase in query.without_phrases))


def _fitting(some: Sequence[Scored], rows: Mapping[int, Row], query: Query, redact: Redact) -> list[Scored]:
    def fits(text: str) -> bool:
        if query.phrases and not _has_phrases(text, query.phrases, redact):
            return False
        return not any(_has_phrases(text, (phrase,), redact) for phrase in query.without_phrases)

    return [one for one in some if one.key in rows and fits(_searched(one.key, rows[one.key]))]


def _has_phrases(text: str, phrases: Sequence[str], redact: Redact) -> bool:
    """Return whether a text without its secrets contains all phrases. A search for a secret must not confirm that it occurs."""
    if not contains_phrases(text, phrases):
        return False
    redacted = redact(text)
    return redacted == text or contains_phrases(redacted, phrases)


async def _page(
    store: "Store",
    resource: str,
    scored: Hits,
    start: int,
    marker: Marker,
    wanted: SearchOptions,
    known: Mapping[int, Row],
) -> tuple[list[SearchResult], int]:
    """Return the results of a page, and the position of the first hit after it. `known` are rows that were already read."""
    results: list[SearchResult] = []
    at = start
    while at < len(scored) and len(results) < wanted.limit:
        some = scored[at : at + min(_MOST_READ, wanted.limit - len(results))]
        keys = [one.key for one in some if wanted.beside or not one.is_beside]
        rows = {key: known[key] for key in keys if key in known}
        rows |= await store.searching.rows(resource, [key for key in keys if key not in known])
        for one in some:
            at += 1
            # A hit without a row is skipped: an observation of a group that is not active yet, or an unwanted neighbour.
            if one.key in rows:
                results.append(_result(one, rows[one.key], len(results) + start + 1, marker))
    if wanted.context:
        results = [await _with_neighbours(store, resource, result, wanted.context) for result in results]
    return results, at


def _searched(key: int, row: Row) -> str:
    """Return the text of a hit that was searched."""
    if key > 0:
        return _texts_of(message_from_row(row))[1]
    return _other_text(key, row)


def _texts_of(message: Message) -> tuple[str, str]:
    """Return the text of a message, and the text that was searched. They differ if the message is compacted."""
    text = text_of_parts(message.parts)
    return (text or message.search or ""), (text if message.search is None else message.search)


def _other_text(key: int, row: Row) -> str:
    if is_task_key(key):
        return text_of_task(unpack(row.title) or "", unpack(row.description) or "", unpack(row.summary), ())
    return "\n".join(filter(None, (unpack(row.text), unpack(row.verbatim))))


def _result(one: Scored, row: Row, rank: int, marker: Marker) -> SearchResult:
    score = round(one.score, 6)
    if one.key > 0:
        return _of_message(one, message_from_row(row), rank, score, marker)
    text = _other_text(one.key, row)
    is_task = is_task_key(one.key)
    snippet, exact = marker.both(text)
    is_unverified = not is_task and is_doubtful(grounded=bool(row.grounded), metadata=loads(row.metadata))
    doubt = f"{UNVERIFIED} " if is_unverified else ""
    return SearchResult(
        id=row.id,
        source="task" if is_task else row.source,
        rank=rank,
        score=score,
        content=f"{doubt}{text}",
        snippet=f"{doubt}{snippet}",
        exact=f"{doubt}{exact}" if exact else exact,
        at=from_micros(row.at),
        zone=None if is_task else row.zone,
        state=row.status if is_task else row.state,
        thread=None if is_task else row.thread,
        task=row.id if is_task else None,
        handle=row.handle,
        parts=one.parts,
    )


def _of_message(one: Scored, message: Message, rank: int, score: float, marker: Marker) -> SearchResult:
    content, searched = _texts_of(message)
    snippet, exact = marker.both(searched)
    return SearchResult(
        id=message.id,
        source="compacted" if message.level else "raw",
        rank=rank,
        score=score,
        content=content,
        snippet=snippet,
        # The words of a compacted message were found in its summary, but `exact` is a part of the original.
        exact=exact if content == searched else marker.both(content)[1],
        at=message.created_at,
        zone=message.zone,
        thread=message.thread,
        seq=message.seq,
        role=message.role,
        speaker=message.speaker,
        task=message.task,
        message=message,
        parts=one.parts,
    )


async def _with_neighbours(store: "Store", resource: str, result: SearchResult, count: int) -> SearchResult:
    if result.thread is None or result.seq is None:
        return result
    try:
        before = await _nearest(store, resource, result.thread, count, before=result.seq)
        after = await _nearest(store, resource, result.thread, count, after=result.seq)
    except ThreadNotFound:
        # The thread was deleted after the search.
        return result
    return replace(result, before=before, after=after)


async def _nearest(store: "Store", resource: str, thread: str, count: int, **start: int) -> tuple[Message, ...]:
    found: list[Message] = []
    ((side, at),) = start.items()
    size = count
    while True:
        page = await store.messages.page(resource, thread, limit=size, **{side: at})
        live = [message for message in page.items if message.state == "live"]
        found = [*live, *found] if side == "before" else [*found, *live]
        if len(found) >= count or page.next is None:
            return tuple(found[-count:] if side == "before" else found[:count])
        at, size = int(page.next), max(count, min(2 * size, _READ_AT_ONCE))
