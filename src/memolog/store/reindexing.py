"""Starting the search index of a resource over, or taking it away.

Knows what the index of a resource consists of, down to the words that outlive the texts they were in. What is started over is
analysed again by the next search, see `indexing`. Knows nothing of texts.
"""

from __future__ import annotations

from memolog.domain.forgetting import Forgotten
from memolog.store.sql import Script, load_queries

__all__ = ["clearing_index", "resetting_index", "taking_index"]

q = load_queries("reindexing")


def taking_index(resource: str) -> Script[int]:
    """Let nobody else write to a resource's index until this transaction ends; returns the key that it has there.

    Whoever takes threads or logs too takes the index first, so that two writers do not wait for each other.
    """
    rows = yield q.take_scope(resource=resource)
    return rows[0][0]


def clearing_index(resource: str) -> Script[Forgotten]:
    """Take a resource out of the index; returns how many documents and words that were."""
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
    """Let everything of a resource wait to be indexed anew: words that only the forgotten held do not stay."""
    yield from clearing_index(resource)
    yield q.index_threads_again(resource=resource)
    yield q.wait_for_threads(resource=resource)
    yield q.wait_for_observations(resource=resource)
    yield q.wait_for_tasks(resource=resource)
