"""Make time-ordered ids: UUID version 7 (RFC 9562). Clock and random source are passed in."""

import threading
from collections.abc import Callable
from datetime import datetime

from memolog.core.clock import to_micros

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
        """Take the clock, and a function that returns that many random bits."""
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
