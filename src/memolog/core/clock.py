"""Clocks, random bits, the conversion of moments to microseconds, and ids that sort by time: UUID version 7 (RFC 9562)."""

import os
import threading
from collections.abc import Callable
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
    """Return the microseconds since 1970. Raise InputError for a time without a zone, because it can mean different moments."""
    if not isinstance(moment, datetime):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InputError(
            f"A time must be a datetime, got {type(moment).__name__}.",
            then="Pass an aware datetime, for example datetime.now(timezone.utc).",
        )
    if moment.tzinfo is None:
        raise InputError(
            f"The time {moment.isoformat()} has no zone.",
            why="Without a zone it can mean different moments, and dates in the log would be wrong.",
            then="Pass an aware datetime, for example datetime.now(timezone.utc).",
        )
    micros = (moment - _EPOCH) // _MICROSECOND
    if not _FIRST <= micros <= _LAST:
        raise InputError(
            f"The time {moment.isoformat()} cannot be stored.",
            why="In UTC it lies before the year 1 or after the year 9999.",
            then="Pass a moment within these years.",
        )
    return micros


def from_micros(micros: int) -> datetime:
    """Return the moment in UTC."""
    return _EPOCH + timedelta(microseconds=micros)


def system_chance(bits: int) -> int:
    """Return a random number of `bits` bits."""
    return int.from_bytes(os.urandom((bits + 7) // 8)) >> (-bits % 8)


# ---------------------------------------------------------------- ids

_RANDOM_BITS = 62
_COUNTER_BITS = 12


def uuid7(millis: int, counter: int, chance: int) -> str:
    """Return the id for a millisecond, a 12-bit counter within it and 62 random bits."""
    value = (millis & (1 << 48) - 1) << 80
    value |= 0x7 << 76
    value |= (counter & (1 << _COUNTER_BITS) - 1) << 64
    value |= 0b10 << 62
    value |= chance & (1 << _RANDOM_BITS) - 1
    text = f"{value:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def short(id_: str) -> str:
    """Return the last eight characters, which are enough to distinguish ids in output."""
    return id_[-8:]


class IdMaker:
    """Makes ids that sort in the order in which they were made, even when the clock stands still or jumps back."""

    def __init__(self, now: Callable[[], datetime], chance: Callable[[int], int]) -> None:
        """Set the clock. `chance` returns a random number with the requested number of bits."""
        self._now, self._chance = now, chance
        self._last = (-1, 0)
        # Two event loops may share one maker.
        self._lock = threading.Lock()

    def __call__(self) -> str:
        """Return the next id."""
        with self._lock:
            millis = max(0, to_micros(self._now()) // 1000)
            last_millis, counter = self._last
            if millis > last_millis:
                counter = 0
            else:
                millis, counter = last_millis, counter + 1
                if counter >> _COUNTER_BITS:
                    millis, counter = millis + 1, 0
            self._last = (millis, counter)
        return uuid7(millis, counter, self._chance(_RANDOM_BITS))
