"""What a clock is. The system's own is in the runtime; tests bring theirs."""

from datetime import datetime
from typing import Protocol

__all__ = ["Clock"]


class Clock(Protocol):
    """Tells the time."""

    def now(self) -> datetime:
        """Return the present moment, with a zone."""
        ...
