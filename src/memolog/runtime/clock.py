"""The clock and the randomness of the system. No other module uses them directly."""

import secrets
from datetime import UTC, datetime

__all__ = ["SystemClock", "system_chance"]


class SystemClock:
    """The time of this machine, in UTC."""

    def now(self) -> datetime:
        """Return the present moment."""
        return datetime.now(UTC)


def system_chance(bits: int) -> int:
    """Return that many random bits."""
    return secrets.randbits(bits)
