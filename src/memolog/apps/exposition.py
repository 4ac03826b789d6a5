"""Write the metrics of a process in the text format of Prometheus: counters from events, and figures of the database."""

import asyncio
from collections.abc import Iterable
from typing import Any, Final

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from memolog.core.measures import TOKEN_KINDS, Measures
from memolog.errors import MemologError
from memolog.events import Event
from memolog.memory import Memory
from memolog.metrics import INSTRUMENTS, SECONDS, Instrument, recorded

# The figures of the database are read at most once in this many seconds, however many ask for them.
_KEPT_SECONDS: Final = 1.0
_REASONS: Final = ("busy", "connection", "constraint", "deadlock", "serialization", "statement")


class Figures:
    """The metrics of one process, in a registry of its own."""

    content_type: str = CONTENT_TYPE_LATEST

    def __init__(self, memory: Memory) -> None:
        self._memory, self._reading = memory, asyncio.Lock()
        self._measures: Measures | None = None
        self._read_at: float | None = None
        self._registry = CollectorRegistry(auto_describe=False)
        self._instruments = {one: self._made(one) for one in INSTRUMENTS}
        self._registry.register(self)
        memory.subscribe(self.hear)

    def _made(self, one: Instrument) -> Any:
        if one.kind == "histogram":
            return Histogram(one.exposed, one.text, one.labels, registry=self._registry, buckets=SECONDS)
        return Counter(one.exposed, one.text, one.labels, registry=self._registry)

    def hear(self, event: Event) -> None:
        """Count an event of the memory."""
        for instrument, amount, values in recorded(event):
            made = self._instruments[instrument]
            one = made.labels(*values) if values else made
            one.observe(amount) if instrument.kind == "histogram" else one.inc(amount)

    async def text(self, patience: float) -> bytes:
        """Return all metrics in the text format of Prometheus. Wait at most `patience` seconds for the database."""
        async with self._reading:
            time = asyncio.get_running_loop().time()
            if self._read_at is None or time - self._read_at >= _KEPT_SECONDS:
                try:
                    async with asyncio.timeout(patience):
                        self._measures = await self._memory.measures()
                except (MemologError, TimeoutError):
                    self._measures = None
                self._read_at = asyncio.get_running_loop().time()
            return generate_latest(self._registry)

    def describe(self) -> Iterable[Metric]:
        """Return nothing: the figures of the database are not known before it is read."""
        return ()

    def collect(self) -> Iterable[Metric]:
        """Yield the figures of the database, as they were read last. If it could not be read, only that."""
        measures = self._measures
        yield GaugeMetricFamily(
            "memolog_database_up", "Whether the database could be read.", value=measures is not None
        )
        if measures is not None:
            yield from _waiting(measures)
            yield from _ledger(measures)
            repeats = CounterMetricFamily(
                "memolog_transaction_repeats",
                "Transactions of this process that were repeated, or had to wait for the lock of another process.",
                labels=["reason"],
            )
            for reason in _REASONS:
                repeats.add_metric([reason], measures.repeated.get(reason, 0))
            yield repeats


def _waiting(measures: Measures) -> Iterable[Metric]:
    backlog = GaugeMetricFamily("memolog_backlog_logs", "Logs with background work that is due.", labels=["kind"])
    for kind, count in measures.backlog.items():
        backlog.add_metric([kind], count)
    yield backlog
    age = 0.0 if measures.oldest_at is None else (measures.at - measures.oldest_at).total_seconds()
    text = "Age of the oldest message that is not observed yet, even if it is not due; 0 if there is none."
    yield GaugeMetricFamily("memolog_oldest_unobserved_message_age_seconds", text, value=max(0.0, age))
    runs = GaugeMetricFamily("memolog_open_runs", "Runs without a result.", labels=["kind", "state"])
    for (kind, state), count in measures.runs.items():
        runs.add_metric([kind, state], count)
    yield runs
    text = "Messages and changed rows that the search index does not have yet."
    yield GaugeMetricFamily("memolog_unindexed_rows", text, value=measures.unindexed)


def _ledger(measures: Measures) -> Iterable[Metric]:
    since = "of all processes, since this process was first asked"
    requests = CounterMetricFamily("memolog_ledger_requests", f"Model requests {since}.", labels=["kind"])
    tokens = CounterMetricFamily("memolog_ledger_tokens", f"Tokens {since}.", labels=["kind", "direction"])
    cost = CounterMetricFamily("memolog_ledger_cost_dollars", f"Cost in US dollars {since}.", labels=["kind"])
    for kind, spent in measures.spent.items():
        requests.add_metric([kind], spent.requests)
        cost.add_metric([kind], spent.dollars)
        for direction, count in zip(TOKEN_KINDS, spent.tokens, strict=True):
            tokens.add_metric([kind, direction], count)
    return requests, tokens, cost
