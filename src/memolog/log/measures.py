"""Read what an operator watches, in one transaction, and compare the schema with the one of this release.

The reading is bounded: it looks at the threads that wait the longest, and at the requests since the last reading.
"""

import asyncio
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final, cast

from memolog.core.clock import to_micros
from memolog.core.exact_json import JsonObject, JsonValue, loads
from memolog.core.measures import RUN_KINDS, RUN_STATES, TOKEN_KINDS, RunState, Spending
from memolog.core.model_names import canonical_model
from memolog.core.observation import Scope
from memolog.core.run import USAGE_KINDS
from memolog.db.engine import Calls, Engine, reads
from memolog.db.migrations import pending
from memolog.db.queries import Row, Script, load_queries
from memolog.db.rows import NANO
from memolog.log.due import WaitingLog, reading_page

q = load_queries("log/measures")
search = load_queries("search/search")

# The most threads whose messages are read, and the most threads and rows whose index debt is counted.
_THREADS: Final = 500
_COUNTED: Final = 10_000
# A request gets its key before its transaction commits, so a lower key may appear after a higher one. It does so within this many
# seconds.
_SETTLED_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """What one reading found."""

    logs: tuple[WaitingLog, ...]
    settings: Mapping[str, JsonObject]
    """The stored settings, by resource."""
    factors: Mapping[tuple[str, str], float]
    """The calibrations, by resource and canonical model."""
    runs: Mapping[tuple[str, RunState], int]
    unindexed: int
    spent: Mapping[str, Spending]


@dataclass(slots=True, kw_only=True)
class _Ledger:
    """The position of this process in the ledger, and what was spent up to it."""

    base: int
    settled: int
    at: float
    spent: dict[str, Spending] = field(default_factory=lambda: dict.fromkeys(USAGE_KINDS, Spending()))


class Measuring(Calls):
    """Reads figures of the whole database, for operators. They have no ids and no text."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self._ledger: _Ledger | None = None

    async def read(self, *, scope: Scope | None, now: datetime) -> Stored:
        """Read the figures. `scope` is the scope that the configuration sets, if it sets one."""
        ledger = self._ledger
        rows, last, stored = await self.engine.read(lambda: _reading(scope, now, ledger), brief=False)
        return replace(stored, spent=self._spent(rows, last))

    def _spent(self, rows: Sequence[Row], last: int) -> Mapping[str, Spending]:
        """Return what was spent since the first reading. Move the position past requests that are settled."""
        time = asyncio.get_running_loop().time()
        ledger = self._ledger
        if ledger is None:
            self._ledger = ledger = _Ledger(base=last, settled=last, at=time)
        settled, total = dict(ledger.spent), dict(ledger.spent)
        for row in rows:
            spent = Spending(
                requests=row.requests,
                tokens=tuple(int(getattr(row, f"{kind}_tokens")) for kind in TOKEN_KINDS),
                dollars=int(row.cost) / NANO,
            )
            total[row.kind] += spent
            if row.is_settled:
                settled[row.kind] += spent
        if time - ledger.at >= _SETTLED_SECONDS:
            self._ledger = _Ledger(base=ledger.settled, settled=last, at=time, spent=settled)
        return total

    @reads
    def check_schema(self) -> Script[None]:
        """Raise an error if the schema is not the one of this release, because another process has changed it."""
        rows = yield q.migrations()
        pending(self.engine.dialect, [(row.version, row.checksum) for row in rows])


def _reading(scope: Scope | None, now: datetime, ledger: _Ledger | None) -> Script[tuple[Sequence[Row], int, Stored]]:
    page = yield from reading_page(scope=scope, now=now, limit=_THREADS)
    resources = sorted({log.resource for log in page.logs})
    settings: dict[str, dict[str, JsonValue]] = defaultdict(dict)
    factors: dict[tuple[str, str], float] = {}
    if resources:
        for row in (yield q.settings_among(resources=resources)):
            settings[row.resource][row.name] = loads(row.value)
        for row in (yield q.calibrations_among(resources=resources)):
            key = (row.resource, canonical_model(row.model))
            if key not in factors or row.model == key[1]:
                factors[key] = row.factor
    runs: dict[tuple[str, RunState], int] = {(kind, state): 0 for kind in RUN_KINDS for state in RUN_STATES}
    runs |= {(row.kind, cast("RunState", row.state)): row.runs for row in (yield q.open_runs(now=to_micros(now)))}
    unindexed = (yield search.count_all_waiting(limit=_COUNTED))[0].waiting
    last = (yield q.last_usage())[0].last
    spent = () if ledger is None else (yield q.usage_after(base=ledger.base, settled=ledger.settled))
    stored = Stored(logs=page.logs, settings=settings, factors=factors, runs=runs, unindexed=unindexed, spent={})
    return spent, last, stored
