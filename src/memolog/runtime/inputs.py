"""Collect the inputs of an observer run, which are stored in its row: a process that takes it over asks the same question."""

from memolog.config import Config
from memolog.domain.codec import JsonObject
from memolog.runtime.keeping import kept_document
from memolog.store.snapshot import Snapshot

__all__ = ["observer_inputs"]


def observer_inputs(snapshot: Snapshot, config: Config, thread: str, *, batch: int) -> JsonObject:
    """Return the inputs of a run over a span of this thread, one of so many in a call."""
    hinted = {row.thread: row.hinted_seq for row in snapshot.others}
    hinted[snapshot.thread.id] = snapshot.thread.hints.last_seq
    return {
        "generation": snapshot.log.generation,
        "entries": len(snapshot.groups),
        "mode": config.mode,
        "batch": batch,
        "hinted": hinted.get(thread, 0),
        **kept_document(snapshot, config, thread),
    }
