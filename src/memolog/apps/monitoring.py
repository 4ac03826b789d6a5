"""Answer `/healthz`, `/readyz` and `/metrics` of a server, for orchestrators and for Prometheus.

These addresses need no token. They show sums, and no ids and no texts of users.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any, Final, TypeAlias

from memolog.apps.network import is_from_here
from memolog.core.measures import TOKEN_KINDS, Measures
from memolog.errors import MemologError
from memolog.events import Event
from memolog.memory import Memory
from memolog.metrics import INSTRUMENTS, SECONDS, Instrument, recorded

try:
    from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
    from prometheus_client.exposition import CONTENT_TYPE_LATEST
except ImportError:  # pragma: no cover - the extra `mcp` does not install it
    _IS_INSTALLED = False
else:
    _IS_INSTALLED = True

Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App: TypeAlias = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]

HEALTH: Final = "/healthz"
READY: Final = "/readyz"
METRICS: Final = "/metrics"
_TEXT: Final = "text/plain; charset=utf-8"
# The figures of the database are read at most once in this many seconds, however many ask for them.
_KEPT_SECONDS: Final = 1.0
_PATIENCE_SECONDS: Final = 5.0
_REASONS: Final = ("busy", "connection", "constraint", "deadlock", "serialization", "statement")


class Monitored:
    """An ASGI application that answers the requests of operators itself, and passes all others on to another application."""

    def __init__(self, memory: Memory, app: App | None = None, *, only_here: bool) -> None:
        """Watch a memory. With `only_here`, requests whose `host` or `origin` is not this machine are refused."""
        self._memory, self._app, self._only_here = memory, app, only_here
        self._figures = _Figures(memory) if _IS_INSTALLED else None
        self._answers: dict[str, Callable[[], Awaitable[tuple[int, str, bytes]]]] = {
            HEALTH: self._health,
            READY: self._ready,
            METRICS: self._metrics,
        }

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Answer a request."""
        answer = self._answers.get(scope.get("path", "")) if scope["type"] == "http" else None
        if answer is None and self._app is not None:
            return await self._app(scope, receive, send)
        headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in scope.get("headers", ())]
        if self._only_here and not is_from_here(headers):
            status, kind, body = 403, _TEXT, b"This server answers only programs on this machine.\n"
        elif answer is None:
            status, kind, body = 404, _TEXT, b"Not found.\n"
        elif scope["method"] not in {"GET", "HEAD"}:
            status, kind, body = 405, _TEXT, b"Use GET.\n"
        else:
            status, kind, body = await answer()
        sent = [
            (b"content-type", kind.encode()),
            (b"content-length", str(len(body)).encode()),
            (b"cache-control", b"no-store"),
        ]
        await send({"type": "http.response.start", "status": status, "headers": sent})
        return await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})

    @staticmethod
    async def _health() -> tuple[int, str, bytes]:
        """Answer. That the event loop runs is all that the answer says."""
        return 200, _TEXT, b"ok\n"

    async def _ready(self) -> tuple[int, str, bytes]:
        """Say whether the database can be read and its schema is current. A reason is the name of an error, without its text."""
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                await self._memory.check_ready()
        except (MemologError, TimeoutError) as error:
            return 503, _TEXT, f"not ready: {type(error).__name__}\n".encode()
        return 200, _TEXT, b"ready\n"

    async def _metrics(self) -> tuple[int, str, bytes]:
        if self._figures is None:
            return 501, _TEXT, b'Metrics need prometheus-client: pip install "memolog[web]".\n'
        return 200, CONTENT_TYPE_LATEST, await self._figures.text()


class _Figures:
    """The metrics of one process, in a registry of its own."""

    def __init__(self, memory: Memory) -> None:
        self._memory, self._reading = memory, asyncio.Lock()
        self._measures: Measures | None = None
        self._read_at: float | None = None
        self._registry = CollectorRegistry(auto_describe=False)
        self._instruments = {one: self._made(one) for one in INSTRUMENTS}
        self._registry.register(self)
        memory.subscribe(self._hear)

    def _made(self, one: Instrument) -> Any:
        if one.kind == "histogram":
            return Histogram(one.exposed, one.text, one.labels, registry=self._registry, buckets=SECONDS)
        return Counter(one.exposed, one.text, one.labels, registry=self._registry)

    def _hear(self, event: Event) -> None:
        for instrument, amount, values in recorded(event):
            made = self._instruments[instrument]
            one = made.labels(*values) if values else made
            one.observe(amount) if instrument.kind == "histogram" else one.inc(amount)

    async def text(self) -> bytes:
        """Return all metrics in the text format of Prometheus."""
        async with self._reading:
            time = asyncio.get_running_loop().time()
            if self._read_at is None or time - self._read_at >= _KEPT_SECONDS:
                try:
                    async with asyncio.timeout(_PATIENCE_SECONDS):
                        self._measures = await self._memory.measures()
                except (MemologError, TimeoutError):
                    self._measures = None
                self._read_at = asyncio.get_running_loop().time()
            return generate_latest(self._registry)

    def describe(self) -> Iterable["Metric"]:
        """Return nothing: the figures of the database are not known before it is read."""
        return ()

    def collect(self) -> Iterable["Metric"]:
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


def _waiting(measures: Measures) -> Iterable["Metric"]:
    backlog = GaugeMetricFamily("memolog_backlog_logs", "Logs with background work that is due.", labels=["kind"])
    for kind, count in measures.backlog.items():
        backlog.add_metric([kind], count)
    yield backlog
    age = 0.0 if measures.oldest_at is None else (measures.at - measures.oldest_at).total_seconds()
    text = "Age of the oldest message that waits to be observed; 0 if none waits."
    yield GaugeMetricFamily("memolog_oldest_unobserved_message_age_seconds", text, value=max(0.0, age))
    runs = GaugeMetricFamily("memolog_open_runs", "Runs without a result.", labels=["kind", "state"])
    for (kind, state), count in measures.runs.items():
        runs.add_metric([kind, state], count)
    yield runs
    text = "Messages and changed rows that the search index does not have yet."
    yield GaugeMetricFamily("memolog_unindexed_rows", text, value=measures.unindexed)


def _ledger(measures: Measures) -> Iterable["Metric"]:
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
