"""Compute when a failed run is retried. Clock and jitter are passed in."""

from datetime import datetime, timedelta

__all__ = ["back_off", "breaker_is_open", "is_due"]

_FIRST_SECONDS = 2.0
_LONGEST_SECONDS = 600.0
_LEAST, _MOST = 0.75, 1.25


def back_off(failures: int, jitter: float) -> float:
    """Return the seconds until the next try after that many failures in a row; `jitter` is a number from 0 to 1."""
    base = min(_LONGEST_SECONDS, _FIRST_SECONDS * 2.0 ** min(max(0, failures - 1), 20))
    return base * (_LEAST + (_MOST - _LEAST) * jitter)


def is_due(retry_at: datetime | None, now: datetime) -> bool:
    """Return whether a time to try again has come; one that no back-off can lead to was given by a clock that was ahead."""
    return retry_at is None or not timedelta(0) < retry_at - now <= timedelta(seconds=_LONGEST_SECONDS * _MOST)


def breaker_is_open(failures: int, retry_at: datetime | None, now: datetime) -> bool:
    """Return whether the model has failed so often in a row that no turn should wait for it now."""
    return failures > 0 and not is_due(retry_at, now)
