"""Choose which part of the log is reflected next."""

from datetime import datetime, timedelta

from memolog.config import Config
from memolog.decide.state import Entry, State

__all__ = ["oldest_slice"]


def oldest_slice(state: State, config: Config, now: datetime) -> tuple[Entry, ...]:
    """Return the oldest groups of the log, all but the recent ones.

    Recent is what was said in the last hours or is among the last observations, whichever keeps more, and at most half of the
    size at which a reflection takes over: else a busy day could never be condensed.
    """
    since = now - timedelta(hours=config.reflection.keep_recent.hours)
    kept = observations = 0
    cut = len(state.entries)
    for entry in reversed(state.entries):
        is_recent = entry.newest is not None and entry.newest >= since
        is_among_last = observations < config.reflection.keep_recent.observations
        if entry.is_reflection or not (is_recent or is_among_last):
            break
        if kept + entry.tokens > config.keep_recent_at_most:
            break
        kept += entry.tokens
        observations += entry.observations
        cut -= 1
    return state.entries[:cut]
