"""Delete the search index of a resource, or rebuild it: the next search then analyses everything again."""

from __future__ import annotations

from memolog.domain.forgetting import Forgotten
from memolog.store.sql import Script, load_queries

__all__ = ["clearing_index", "resetting_index", "taking_index"]

q = load_queries("reindexing")


def taking_index(resource: str) -> Script[int]:
    """Lock the index of a resource until the transaction ends; returns its key.

    Lock the index before threads and logs, to avoid deadlocks.
    """
    rows = yield q.take_scope(resource=resource)
    return rows[0].pk


def clearing_index(resource: str) -> Script[Forgotten]:
    """Delete the index of a resource; returns how many documents and words it had."""
    yield from taking_index(resource)
    documents = yield q.delete_docs_of(resource=resource)
    words = yield q.delete_words_of(resource=resource)
    yield q.delete_grams_of(resource=resource)
    yield q.delete_speakers_of(resource=resource)
    yield q.delete_stats_of(resource=resource)
    yield q.delete_lengths_of(resource=resource)
    yield q.delete_scope(resource=resource)
    yield q.forget_queue(resource=resource)
    return Forgotten(resource=resource, index=len(documents) + len(words))


def resetting_index(resource: str) -> Script[None]:
    """Queue everything of a resource to be indexed again, so that no word of deleted texts remains."""
    yield from clearing_index(resource)
    yield q.index_threads_again(resource=resource)
    yield q.wait_for_threads(resource=resource)
    yield q.wait_for_observations(resource=resource)
    yield q.wait_for_tasks(resource=resource)
