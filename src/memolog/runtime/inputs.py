"""What an observer run is given, fixed in its row: whoever takes the run over asks the same question.

Knows which numbers that takes: the log as it was, whose hints, which document. Knows nothing of how it is asked.
"""

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
