"""What the conversation costs with memory and without.

Knows tokens, what a prompt cache keeps, and a sample price. Counts every request as it is made.
"""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from memolog.context import Context

__all__ = ["CACHED_PRICE", "PRICE", "Side", "Tally"]

PRICE: Final = 3.0
"""US dollars for a million tokens of input; a sample, as are all prices."""
CACHED_PRICE: Final = 0.3
"""The same for what the provider has in its prompt cache."""
# How long a provider keeps a prompt after its last use.
_WARM: Final = timedelta(minutes=5)


@dataclass(slots=True)
class Side:
    """What one way of doing it sends."""

    sent: int = 0
    reused: float = 0.0
    last: int = 0

    def add(self, tokens: int, reused: float) -> None:
        """Count a request."""
        self.sent += tokens
        self.reused += reused
        self.last = tokens

    @property
    def cost(self) -> float:
        """Return what it costs, in US dollars."""
        return ((self.sent - self.reused) * PRICE + self.reused * CACHED_PRICE) / 1_000_000


@dataclass(slots=True)
class _Seen:
    """The last request of a thread."""

    at: datetime
    text: str
    history: int


@dataclass(slots=True)
class Tally:
    """Counts the requests of all threads."""

    requests: int = 0
    warm_sent: int = 0
    with_memory: Side = field(default_factory=Side)
    without: Side = field(default_factory=Side)
    largest: tuple[int, int] = (0, 0)
    """The request with the longest history: what it would have been without memory, and what it was."""
    _seen: dict[str, _Seen] = field(default_factory=dict[str, _Seen])

    def add(self, thread: str, context: Context, history: int, at: datetime) -> None:
        """Count a request: what memory made of it, beside the whole history of its thread."""
        text, total = context.render_without_edge(), context.tokens.total
        before = self._seen.get(thread)
        reused = kept = 0.0
        if before is not None and at - before.at < _WARM:
            same = _shared(before.text, text) / max(1, len(text))
            reused = same * (context.tokens.prefix + context.tokens.tail)
            kept = before.history
            self.warm_sent += total
        self.requests += 1
        self.with_memory.add(total, reused)
        self.without.add(history, kept)
        self.largest = max(self.largest, (history, total))
        self._seen[thread] = _Seen(at, text, history)


def _shared(one: str, other: str) -> int:
    return next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
