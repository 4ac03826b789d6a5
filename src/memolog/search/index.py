"""Update the search index: analyse new and changed rows in batches and write each batch in one transaction.

Triggers remove deleted rows from the index. A batch is written only if the index is still at the position where the batch was
read, so that two processes do not index the same rows twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any, NamedTuple, TypeAlias, TypeVar

from memolog.core.exact_json import loads, unpack
from memolog.core.message import LONGEST_SPEAKER, Part, ToolResultPart, parts_from_json
from memolog.core.progress import is_heard, report
from memolog.core.reports import Forgotten
from memolog.db.engine import Calls, Engine
from memolog.db.queries import Row, Script, load_queries, padded
from memolog.db.scope import check_ids, chunks
from memolog.search.analysis import Analysed, Redact, add_stored_words, analyse, kind_of, text_of_parts, text_of_task
from memolog.search.bm25 import OBSERVATION, TASK, fits, key_of_message, key_of_other
from memolog.text.words import folded, grams, normal, words_of

reindex_queries = load_queries("search/reindex")
q = load_queries("search/search")
Values: TypeAlias = dict[str, Any]
StoredWords: TypeAlias = dict[str, tuple[str, ...]]
"""What is stored of each word of a batch. It is made by the analysis, so that the transaction is short."""
T = TypeVar("T")
# The maximum rows of one batch, so that other writers wait only for a short time.
_BATCH = 64
# The cost of indexing a row is about that of this many characters, plus the characters of its text.
_ROW_COST = 400
# The maximum words or messages in one query, and the approximate maximum of terms.
_WORDS_A_QUERY = 512
_TERMS_A_QUERY = 20_000
# A batch that costs more takes some milliseconds, so it is written in a worker thread.
_BRIEF_COST = 4_000
# A row with more characters is analysed in a worker thread.
_LONG = 20_000
# The analysis of a batch lets other tasks of the event loop run after rows of this cost, which takes one or two milliseconds.
_SLICE_COST = 5_000
_FOUND_OBSERVATIONS = frozenset({"active", "superseded", "dropped"})


class Indexing(Calls):
    """Brings the index of a resource up to date."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self.callers = 0
        """The number of running calls of `catch_up`. Background indexing waits for them, so that no row is analysed twice."""

    async def catch_up(self, resource: str, redact: Redact, *, most: int | None = None) -> int:
        """Index new and changed rows, all of them or as many as may cost `most` characters. Return the cost of these rows."""
        check_ids(resource=resource)
        total = await self.count(resource) if is_heard() else None
        cost = 0
        self.callers += 1
        try:
            while (most is None or cost < most) and (batch := await self.index_batch(resource, redact)) is not None:
                cost += batch.cost
                if total is not None:
                    left = await self.count(resource)
                    report("rows", max(0, total - left), max(total, left))
        finally:
            self.callers -= 1
        return cost

    async def index_batch(self, resource: str, redact: Redact, *, rows: int = _BATCH) -> IndexedBatch | None:
        """Index at most this many rows of each kind. Return None if no row waits."""
        check_ids(resource=resource)
        unread = await self.engine.read(lambda: _reading_waiting(resource, rows))
        if not unread:
            return None
        stored: StoredWords = {}
        stretches, changed, cost = await _analysed(unread, redact, stored)
        added = await self.engine.write(
            lambda: _writing(resource, stretches, changed, stored), name="search.index", brief=cost <= _BRIEF_COST
        )
        return IndexedBatch(cost=cost, added=added)

    async def count(self, resource: str) -> int:
        """Return the number of rows that are not indexed yet."""
        check_ids(resource=resource)
        return (await self.engine.fetch(q.count_waiting(resource=resource), tuple[int]))[0][0]


class IndexedBatch(NamedTuple):
    """A batch of rows that was written to the index."""

    cost: int
    """The characters of the rows, and an amount for each row."""
    added: bool
    """False if other processes have indexed all of these rows meanwhile."""


def reading_next_waiting(after: str) -> Script[str | None]:
    """Return the first resource after `after` that has rows to index, in the order of the database. None if there is none."""
    rows = yield q.next_waiting(after=after)
    return rows[0].resource


def reading_scope(resource: str) -> Script[int | None]:
    """Return the key of a resource in the index. None if nothing of the resource is indexed."""
    rows = yield q.get_scope(resource=resource)
    return rows[0].pk if rows else None


def taking_index(resource: str) -> Script[int]:
    """Lock the index of a resource until the transaction ends, and return its key.

    To avoid deadlocks, the index must be locked before threads and logs.
    """
    rows = yield reindex_queries.take_scope(resource=resource)
    return rows[0].pk


def clearing_index(resource: str) -> Script[Forgotten]:
    """Delete the index of a resource. Return the number of its documents and words."""
    yield from taking_index(resource)
    documents = yield reindex_queries.delete_docs_of(resource=resource)
    words = yield reindex_queries.delete_words_of(resource=resource)
    yield reindex_queries.delete_grams_of(resource=resource)
    yield reindex_queries.delete_counts_of(resource=resource)
    yield reindex_queries.delete_speakers_of(resource=resource)
    yield reindex_queries.delete_stats_of(resource=resource)
    yield reindex_queries.delete_lengths_of(resource=resource)
    yield reindex_queries.delete_scope(resource=resource)
    yield reindex_queries.forget_queue(resource=resource)
    return Forgotten(resource=resource, index=len(documents) + len(words))


def resetting_index(resource: str) -> Script[None]:
    """Delete the index of a resource and index everything again later, so that no word of deleted texts remains."""
    yield from clearing_index(resource)
    yield reindex_queries.index_threads_again(resource=resource)
    yield reindex_queries.wait_for_threads(resource=resource)
    yield reindex_queries.wait_for_observations(resource=resource)
    yield reindex_queries.wait_for_tasks(resource=resource)


def has_words(row: Row, redact: Redact) -> bool:
    """Return whether a message is to be indexed. The row must have the columns of `select_texts`."""
    return _message(redact, {}, row) is not None


def line_has_words(row: Row, redact: Redact) -> bool:
    """Return whether an observation is to be indexed. The row must have the columns of `observations_queued`."""
    return _changed_observation(redact, {}, row).document is not None


class _Document(NamedTuple):
    values: Values
    words: Collection[str]
    level: int


class _Stretch(NamedTuple):
    """Consecutive messages of a thread that are not indexed yet."""

    thread_pk: int
    from_seq: int
    """The number of the last message before the stretch."""
    up_to: int
    """The number of the last message of the stretch."""
    found: Sequence[Any]
    """The rows of the messages, or their documents after they were analysed."""


class _Changed(NamedTuple):
    """A row that changed since it was indexed. If it has no document, it is only removed from the index."""

    kind: str
    source_pk: int
    version: int
    first: int
    last: int
    """All keys from `first` to `last` are possible keys of this row, because a key also contains the length and the class."""
    document: _Document | None
    source: tuple[object, ...] = ()
    """The columns that were analysed, and the labels of a task. Empty for a message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Unread:
    threads: Sequence[_Stretch] = ()
    messages: Sequence[Row] = ()
    observations: Sequence[Row] = ()
    tasks: Sequence[Row] = ()
    labels: Sequence[Row] = ()

    def __bool__(self) -> bool:
        return bool(self.threads or self.messages or self.observations or self.tasks)


def _reading_waiting(resource: str, limit: int) -> Script[_Unread]:
    waiting = (yield q.any_behind(resource=resource))[0]
    threads = (yield from _reading_threads(resource, limit)) if waiting.behind else ()
    if not waiting.queued:
        return _Unread(threads=threads)
    messages = yield q.messages_queued(resource=resource, limit=limit)
    observations = yield q.observations_queued(resource=resource, limit=limit)
    tasks = yield q.tasks_queued(resource=resource, limit=limit)
    labels = yield q.labels_of(tasks=[row.pk for row in tasks])
    return _Unread(threads=threads, messages=messages, observations=observations, tasks=tasks, labels=labels)


def _reading_threads(resource: str, left: int) -> Script[Sequence[_Stretch]]:
    found: list[_Stretch] = []
    for thread in (yield q.threads_behind(resource=resource, limit=left)):
        indexed, last = thread.indexed_seq, thread.last_seq
        rows: Sequence[Row] = ()
        if indexed < last and left > 0:
            rows = yield q.messages_behind(thread_pk=thread.pk, after=indexed, up_to=last, limit=left)
        elif indexed < last:
            break
        # The last numbers may have no rows, as in a clone of a part of a thread.
        up_to = rows[-1].seq if len(rows) == left and rows else last
        left -= len(rows)
        found.append(_Stretch(thread.pk, indexed, up_to, rows))
    return found


async def _analysed(
    unread: _Unread, redact: Redact, stored: StoredWords
) -> tuple[list[_Stretch], Sequence[_Changed], int]:
    """Return the documents of the rows, and the cost of these rows. Add what is stored of their words to `stored`."""
    slices = _Slices()
    stretches = [
        stretch._replace(
            found=[one for one in await slices.map(partial(_message, redact, stored), stretch.found) if one]
        )
        for stretch in unread.threads
    ]
    changed = (
        *await slices.map(partial(_changed_message, redact, stored), unread.messages),
        *await slices.map(partial(_changed_observation, redact, stored), unread.observations),
        *await slices.map(partial(_changed_task, redact, stored, unread.labels), unread.tasks),
    )
    return stretches, changed, slices.cost


class _Slices:
    """Analyses many rows one after the other, and lets other tasks of the event loop run in between."""

    def __init__(self) -> None:
        self.cost = 0
        """The characters of the rows so far, and an amount for each row."""
        self._pause_at = _SLICE_COST

    async def map(self, analyse_row: Callable[[Row], T], rows: Iterable[Row]) -> list[T]:
        """Return what a function returns for each row."""
        found: list[T] = []
        for row in rows:
            characters = sum([len(cell) for cell in row if type(cell) is str])
            self.cost += characters + _ROW_COST
            # A single long row takes a worker thread, because it cannot be divided.
            if characters > _LONG:
                found.append(await asyncio.to_thread(analyse_row, row))
                continue
            found.append(analyse_row(row))
            if self.cost > self._pause_at:
                self._pause_at = self.cost + _SLICE_COST
                await asyncio.sleep(0)
        return found


def _message(redact: Redact, stored: StoredWords, row: Row) -> _Document | None:
    if row.state != "live" or row.own or not fits(row.thread_pk, row.seq):
        return None
    parts = parts_from_json(row.parts)
    analysed = analyse(_clean_text(parts, redact) if row.search is None else redact(unpack(row.search) or ""))
    if not analysed.terms:
        return None
    kind = kind_of(row.role, parts)
    add_stored_words(analysed.words, stored)
    return _document(
        analysed,
        level=row.level,
        doc=key_of_message(row.thread_pk, row.seq, analysed.length, kind),
        thread_pk=row.thread_pk,
        source_pk=row.pk,
        source="raw" if row.level == 0 else "compacted",
        kind=kind,
        at=row.created_at,
        speaker=_name(unpack(row.speaker) or "") if row.speaker else None,
    )


def _clean_text(parts: Sequence[Part], redact: Redact) -> str:
    match parts:
        case [ToolResultPart(name=name, content=str(content), files=())]:
            # The observer redacts the same content, so it is redacted once if the name is not joined to it before.
            return f"{redact(name or '')}\n{redact(content)}"
        case _:
            return redact(text_of_parts(parts))


def _name(speaker: str) -> str | None:
    """Return the name of a speaker as it is indexed, without characters that a database cannot store."""
    return folded(normal("".join(filter(str.isprintable, speaker[:LONGEST_SPEAKER])))) or None


def _document(analysed: Analysed, level: int = 0, **values: Any) -> _Document:
    values |= {"length": analysed.length, "traits": analysed.traits, "terms": analysed.terms}
    return _Document(values=values, words=analysed.words, level=level)


def _changed_message(redact: Redact, stored: StoredWords, row: Row) -> _Changed:
    # The last eight bits of a key are the length and the class, which may have changed.
    first = key_of_message(row.thread_pk, row.seq, 0, 0)
    return _Changed(
        kind="message",
        source_pk=row.pk,
        version=row.version,
        first=first,
        last=first + 255,
        document=_message(redact, stored, row),
    )


def _changed_observation(redact: Redact, stored: StoredWords, row: Row) -> _Changed:
    text = ""
    if row.state in _FOUND_OBSERVATIONS:
        texts = (unpack(row.text) or "", unpack(row.verbatim) or "", *map(str, loads(row.files)))
        text = redact("\n".join(filter(None, texts)))
    source = "reflection" if row.kind == "reflection" else "observation"
    return _changed_other(OBSERVATION, stored, row, (), text, source=source, thread_pk=row.thread_pk, at=row.at)


def _changed_task(redact: Redact, stored: StoredWords, labels: Iterable[Row], row: Row) -> _Changed:
    packed = _labels(labels, row.pk)
    named = [unpack(label) or "" for label in packed]
    text = text_of_task(unpack(row.title) or "", unpack(row.description) or "", unpack(row.summary), named)
    return _changed_other(TASK, stored, row, (packed,), redact(text), source="task", thread_pk=None, at=row.created_at)


def _changed_other(
    kind: int, stored: StoredWords, row: Row, more: tuple[object, ...], text: str, **values: Any
) -> _Changed:
    """Return a changed observation or task. `more` are values besides the row from which the text was taken."""
    document, analysed = None, analyse(text)
    if analysed.terms:
        add_stored_words(analysed.words, stored)
        key = key_of_other(row.pk, analysed.length, kind)
        document = _document(analysed, doc=key, source_pk=row.pk, kind=kind, speaker=None, **values)
    last = key_of_other(row.pk, 0, kind)
    return _Changed(
        kind="task" if kind == TASK else "observation",
        source_pk=row.pk,
        version=row.version,
        first=last - 255,
        last=last,
        document=document,
        # The last column is the version.
        source=(*row[:-1], *more),
    )


def _labels(labels: Iterable[Row], pk: int) -> tuple[str, ...]:
    return tuple(row.label for row in labels if row.task_pk == pk)


def _writing(
    resource: str, stretches: Iterable[_Stretch], changed: Iterable[_Changed], stored: Mapping[str, tuple[str, ...]]
) -> Script[bool]:
    """Write a batch. Return whether any of its rows still waited."""
    is_new = False
    scope_pk = yield from taking_index(resource)
    documents: list[_Document] = []
    for stretch in stretches:
        claimed = yield q.claim_thread(thread_pk=stretch.thread_pk, from_seq=stretch.from_seq, up_to=stretch.up_to)
        if claimed:
            is_new = True
            documents += stretch.found
            yield q.thread_is_indexed(thread_pk=stretch.thread_pk)
    if taken := (yield from _claiming(resource, changed)):
        is_new = True
        yield q.remove_docs.many([{"first": one.first, "last": one.last} for one in taken])
        documents += [one.document for one in taken if one.document]
    documents = yield from _unchanged(documents)
    if documents:
        for some in _in_parts(documents):
            yield q.add_doc.many([_scoped(document.values, scope_pk) for document in some])
            docs = [document.values["doc"] for document in some]
            yield q.fts_add(docs=docs)
            yield q.add_counts(docs=docs)
            yield q.add_stats(docs=docs)
            yield q.add_lengths(docs=docs)
        yield from _writing_words(scope_pk, documents, stored)
    return is_new


def _in_parts(documents: Sequence[_Document]) -> Iterator[Sequence[_Document]]:
    """Yield the documents in parts with a limited number of terms, so that other callers can use the engine between two parts."""
    part: list[_Document] = []
    terms = 0
    for document in documents:
        part.append(document)
        terms += len(document.values["terms"])
        if terms > _TERMS_A_QUERY:
            yield part
            part, terms = [], 0
    if part:
        yield part


def _claiming(resource: str, changed: Iterable[_Changed]) -> Script[list[_Changed]]:
    """Remove rows from the queue. Return the rows that have not changed since they were analysed, and queue the others again.

    To compare only the versions in the queue is not enough: another process may have indexed the row, and then a later change
    queues the row with the same version again.
    """
    alike: dict[tuple[str, int], dict[int, _Changed]] = {}
    for one in changed:
        alike.setdefault((one.kind, one.version), {})[one.source_pk] = one
    taken: list[_Changed] = []
    for (kind, version), rows in alike.items():
        claimed = yield q.claim_queued(kind=kind, version=version, pks=list(rows))
        taken += [rows[row.source_pk] for row in claimed]
    now = yield from _reading_sources(taken)
    same: list[_Changed] = []
    for one in taken:
        source = now.get((one.kind, one.source_pk))
        if source is None or source == one.source:
            same.append(one)
        else:
            yield q.wait_again(kind=one.kind, source_pk=one.source_pk, resource=resource)
    return same


def _reading_sources(taken: Iterable[_Changed]) -> Script[dict[tuple[str, int], tuple[object, ...]]]:
    observations = [one.source_pk for one in taken if one.kind == "observation"]
    tasks = [one.source_pk for one in taken if one.kind == "task"]
    found: dict[tuple[str, int], tuple[object, ...]] = {}
    if observations:
        rows = yield q.observations_now(pks=observations)
        found |= {("observation", row.pk): tuple(row) for row in rows}
    if tasks:
        rows = yield q.tasks_now(pks=tasks)
        labels = yield q.labels_of(tasks=tasks)
        found |= {("task", row.pk): (*row, _labels(labels, row.pk)) for row in rows}
    return found


def _unchanged(documents: Sequence[_Document]) -> Script[list[_Document]]:
    """Return the documents without messages that were withdrawn or compacted meanwhile. Triggers have queued these again."""
    said = [document for document in documents if document.values["doc"] > 0]
    levels: dict[int, int] = {}
    for some in chunks(said, _WORDS_A_QUERY):
        rows = yield q.unchanged(messages=[document.values["source_pk"] for document in some])
        levels |= {row.pk: row.level for row in rows}
    return [
        document
        for document in documents
        if document.values["doc"] < 0 or levels.get(document.values["source_pk"]) == document.level
    ]


def _scoped(values: Values, scope_pk: int) -> Values:
    # The terms are put in quotes, because PostgreSQL would split some terms without quotes. FTS5 ignores the quotes. No term
    # contains a quote.
    mark = f"'{scope_pk:x}:"
    return {**values, "scope_pk": scope_pk, "terms": mark + f"' {mark}".join(values["terms"]) + "'"}


def _writing_words(
    scope_pk: int, documents: Sequence[_Document], stored: Mapping[str, tuple[str, ...]]
) -> Script[None]:
    found = set[str]().union(*(document.words for document in documents))
    words = list(set(chain.from_iterable(map(stored.__getitem__, found))))
    new: set[str] = set()
    for chunk in chunks(words, _WORDS_A_QUERY):
        new.update(row.word for row in (yield q.new_words(scope_pk=scope_pk, words=padded(chunk))))
    # All processes insert words in the same order, to avoid deadlocks.
    for chunk in chunks(sorted(new), _WORDS_A_QUERY):
        yield q.add_word.many([{"scope_pk": scope_pk, "word": word} for word in chunk])
        pairs = [(gram, word) for word in chunk for gram in sorted(grams(word))]
        yield q.add_gram.many([{"scope_pk": scope_pk, "gram": gram, "word": word} for gram, word in pairs])
    speakers = {document.values["speaker"] for document in documents}
    if names := sorted(name for name in speakers if name and words_of(name)):
        yield q.add_speaker.many([{"scope_pk": scope_pk, "name": name} for name in names])
