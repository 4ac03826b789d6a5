"""Define the interface of a clock."""

from datetime import datetime
from typing import Protocol

__all__ = ["Clock"]


class Clock(Protocol):
    """A source of the present time."""

    def now(self) -> datetime:
        """Return the present moment, with a zone."""
        ...
