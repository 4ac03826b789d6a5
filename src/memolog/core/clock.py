"""Clocks, random bits, and the conversion of moments to microseconds."""

import os
from datetime import UTC, datetime, timedelta
from typing import Protocol

from memolog.errors import InputError

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_FIRST = (datetime.min.replace(tzinfo=UTC) - _EPOCH) // _MICROSECOND
_LAST = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // _MICROSECOND


class Clock(Protocol):
    """A source of the present time."""

    def now(self) -> datetime:
        """Return the present moment, with a zone."""
        ...


class SystemClock:
    """The time of this machine, in UTC."""

    def now(self) -> datetime:
        """Return the present moment."""
        return datetime.now(UTC)


def to_micros(moment: datetime) -> int:
    """Return the microseconds since 1970; refuses a moment without a zone, since it names no moment."""
    if not isinstance(moment, datetime):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InputError(
            f"A time must be a datetime, got {type(moment).__name__}.",
            then="Pass an aware datetime, for example datetime.now(timezone.utc).",
        )
    if moment.tzinfo is None:
        raise InputError(
            f"The time {moment.isoformat()} has no zone.",
            why="Without one it names no moment, and dates in the log would be wrong.",
            then="Pass an aware datetime, for example datetime.now(timezone.utc).",
        )
    micros = (moment - _EPOCH) // _MICROSECOND
    if not _FIRST <= micros <= _LAST:
        raise InputError(
            f"The time {moment.isoformat()} cannot be kept.",
            why="In UTC it lies before the year 1 or after the year 9999.",
            then="Pass a moment within these years.",
        )
    return micros


def from_micros(micros: int) -> datetime:
    """Return the moment in UTC."""
    return _EPOCH + timedelta(microseconds=micros)


def system_chance(bits: int) -> int:
    """Return that many random bits."""
    return int.from_bytes(os.urandom((bits + 7) // 8)) >> (-bits % 8)
