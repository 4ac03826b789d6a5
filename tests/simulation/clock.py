"""A clock for each process: the loop's virtual time, its own error, and jumps back."""

import asyncio
from datetime import UTC, datetime, timedelta

__all__ = ["START", "SkewedClock"]

START = datetime(2026, 3, 14, 9, 0, tzinfo=UTC)


class SkewedClock:
    """Tells the virtual time, wrongly by `skew` seconds."""

    def __init__(self, loop: asyncio.AbstractEventLoop, skew: float = 0.0) -> None:
        self._loop, self.skew = loop, skew

    def now(self) -> datetime:
        """Return what this process takes for the present."""
        return START + timedelta(seconds=self._loop.time() + self.skew)
