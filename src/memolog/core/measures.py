"""What an operator watches: the background work that waits in a database, its runs, its ledger, and what the engine repeated."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal, TypeAlias

WorkKind: TypeAlias = Literal["observe", "reflect", "compact", "retry", "take_over"]
"""Why a log has background work. retry: a failed run may be tried again. take_over: the lease of a run has ended."""
RunState: TypeAlias = Literal["running", "failed", "expired"]
"""failed: the run is tried again later. expired: its lease has ended, and no process has taken it over yet."""

WORK_KINDS: Final[tuple[WorkKind, ...]] = ("observe", "reflect", "compact", "retry", "take_over")
RUN_STATES: Final[tuple[RunState, ...]] = ("running", "failed", "expired")
RUN_KINDS: Final = ("observe", "reflect")
TOKEN_KINDS: Final = ("input", "output", "cache_read", "cache_write")


@dataclass(frozen=True, slots=True, kw_only=True)
class Spending:
    """Tokens and money of one kind of requests."""

    requests: int = 0
    tokens: tuple[int, ...] = (0, 0, 0, 0)
    """In the order of `TOKEN_KINDS`."""
    dollars: float = 0.0

    def __add__(self, other: "Spending") -> "Spending":
        tokens = tuple(map(sum, zip(self.tokens, other.tokens, strict=True)))
        return Spending(requests=self.requests + other.requests, tokens=tokens, dollars=self.dollars + other.dollars)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measures:
    """The state of one database at a moment. It has no ids and no text."""

    at: datetime
    backlog: Mapping[WorkKind, int]
    """The number of logs with background work, by its kind."""
    oldest_at: datetime | None
    """The time of the oldest message that waits to be observed. None if no message waits."""
    runs: Mapping[tuple[str, RunState], int]
    """The number of runs without a result, by kind and state."""
    unindexed: int
    """The number of rows that the search index does not have yet."""
    spent: Mapping[str, Spending]
    """What was added to the ledger since this process first asked, by kind of request."""
    repeated: Mapping[str, int]
    """How often this process repeated a transaction, by reason."""
