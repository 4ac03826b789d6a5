"""What `/healthz`, `/readyz` and `/metrics` answer, on both engines."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from kit.clock import until
from kit.engines import engines
from kit.models import Hanging, Priced
from kit.talk import kill, store_of
from memolog import AssistantMessage, Config, Memory, ObservationConfig, Usage
from memolog.apps import exposition
from memolog.apps.monitoring import Monitored
from memolog.core.measures import Measures
from memolog.db.engine import Engine
from memolog.errors import StoreUnavailable
from memolog.events import Degraded, Recovered, RunEnded, RunFailed, RunStarted, StepEnded, Trimmed
from memolog.metrics import INSTRUMENTS, meter
from memolog.testing import FakeClock, ScriptedModel
from monitoring.scrape import client, samples, shapes
from worker.children import a_worker, is_drained
from worker.test_worker import WORDS, turn
from worker.worker_child import CONFIG

engine_name = engines("sqlite", "postgres")
PAGE = Path(__file__).parents[2] / "docs" / "metrics.md"
_LIMIT = 120


@pytest.fixture(autouse=True)
def always_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read the database at every request."""
    monkeypatch.setattr(exposition, "_KEPT_SECONDS", 0.0)


async def test_the_backlog_rises_and_falls(address: str) -> None:
    """Without a worker the backlog and the age rise with the turns. With a worker they fall to nothing."""
    threads = ("red", "green", "blue")
    async with Memory(address, model=ScriptedModel(), config=CONFIG) as memory, client(memory) as http:

        async def backlog() -> float:
            return samples((await http.get("/metrics")).text)("memolog_backlog_logs", kind="observe")

        seen = [await backlog()]
        for thread in threads:
            for _ in range(4):
                await turn(memory, thread)
            seen.append(await backlog())
        assert seen == [0, 1, 2, 3]
        first = samples((await http.get("/metrics")).text)
        assert first("memolog_unindexed_rows") > 0
        assert first("memolog_oldest_unobserved_message_age_seconds") > 0
        assert first("memolog_prepare_duration_seconds_count") == 12
        assert first("memolog_record_duration_seconds_count") == 12
        async with a_worker(address) as child:

            async def is_empty() -> bool:
                value = samples((await http.get("/metrics")).text)
                return value("memolog_backlog_logs", kind="observe") == 0 == value("memolog_unindexed_rows")

            await until(is_empty, _LIMIT)
            await until(lambda: is_drained(memory, *threads), _LIMIT)
            child.process.terminate()
            assert await child.ended() == 0
        assert await backlog() == 0


async def test_the_worker_serves_its_metrics(address: str) -> None:
    """A worker with a port answers the three addresses, and counts its runs."""
    async with Memory(address, model=ScriptedModel(), config=CONFIG) as memory:
        for _ in range(4):
            await turn(memory, "red")
        async with a_worker(address) as child, httpx.AsyncClient(trust_env=False) as http:
            await child.heard("listening")
            url = next(one["url"] for one in child.told if one["event"] == "listening")
            assert (await http.get(f"{url}/healthz")).text == "ok\n"
            assert (await http.get(f"{url}/readyz")).text == "ready\n"

            async def has_run() -> bool:
                value = samples((await http.get(f"{url}/metrics")).text)
                try:
                    return value("memolog_runs_ended_total", kind="observe", outcome="done") > 0
                except KeyError:
                    return False

            await until(has_run, _LIMIT)
            assert (await http.get(f"{url}/other")).status_code == 404
            child.process.terminate()
            assert await child.ended() == 0


async def test_the_page_lists_every_metric(address: str) -> None:
    """The table of the documentation has exactly the metrics, kinds and labels that are exposed."""
    rows = [line.split(" | ") for line in PAGE.read_text("utf-8").splitlines() if line.startswith("| `memolog_")]
    listed = {
        row[0].strip("| `"): (row[1], tuple(sorted(name.strip("` ") for name in row[2].split(",") if name.strip(" –"))))
        for row in rows
    }
    assert len(listed) == len(rows)
    async with Memory(address, model=ScriptedModel(), config=Config()) as memory:
        app = Monitored(memory, only_here=True)
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://127.0.0.1") as http:
            for event in _events(memory):
                assert app.figures is not None
                app.figures.hear(event)
            text = (await http.get("/metrics")).text
            assert shapes(text) == listed
            assert samples(text)("memolog_degraded_total", what="extracting a value") == 1
            assert "private" not in text
    names = {line.split("`")[1] for line in PAGE.read_text("utf-8").splitlines() if line.startswith("| `memolog.")}
    assert {one.name for one in INSTRUMENTS} <= names


def _events(memory: Memory) -> Iterator[Any]:
    """Yield an event for each metric with labels."""
    where: Any = {"at": memory.clock.now(), "resource": "alice", "thread": "red"}
    yield RunStarted(run="r", run_kind="observe", first_seq=1, last_seq=2, attempt=1, **where)
    yield RunEnded(run="r", run_kind="observe", observations=1, input_tokens=7, output_tokens=5, cost=0.5, **where)
    yield RunFailed(run="r", run_kind="observe", error="no", retry_at=None, **where)
    yield Degraded(what="preparing the context", error="no", **where)
    yield Degraded(what="extracting a-private-key", error="no", **where)
    yield Recovered(run="r", reason="try 2", **where)
    yield Recovered(run="r", reason="the lease has ended", is_takeover=True, **where)
    yield Trimmed(messages=1, limit=10, **where)
    yield StepEnded(step="prepare", seconds=0.2, **where)


async def test_tokens_and_money(address: str) -> None:
    """The ledger counts what any process adds after the first request, once, and nothing from before."""
    async with Memory(address, config=Config()) as memory, client(memory) as http:
        thread = memory.thread("red", resource="alice")

        async def spend() -> None:
            async with thread.turn() as one:
                await one.prepare("hello")
                usage = Usage(model="m", input_tokens=100, output_tokens=20, cache_read_tokens=3, cost=0.25)
                await one.record(AssistantMessage("hi"), usage=usage)

        await spend()
        before = samples((await http.get("/metrics")).text)
        assert before("memolog_ledger_tokens_total", kind="turn", direction="input") == 0
        for count in (1, 2, 3):
            await spend()
            value = samples((await http.get("/metrics")).text)
            assert value("memolog_ledger_requests_total", kind="turn") == count
            assert value("memolog_ledger_tokens_total", kind="turn", direction="input") == 100 * count
            assert value("memolog_ledger_tokens_total", kind="turn", direction="cache_read") == 3 * count
            assert value("memolog_ledger_cost_dollars_total", kind="turn") == 0.25 * count
            # As if a minute had passed: what is settled is not read again, and not counted again.
            measuring = (await memory.open()).store.measuring
            assert measuring._ledger is not None
            measuring._ledger.at -= 60
            assert samples((await http.get("/metrics")).text)("memolog_ledger_requests_total", kind="turn") == count


async def test_runs_that_fail(address: str, clock: FakeClock) -> None:
    """A failed run is open until its retry. The retry, its tokens and its cost are counted, and no label names anyone."""
    model = Priced()
    model.is_down = True
    config = Config(observation=ObservationConfig(message_tokens=400, buffer_tokens=False), strict=False)
    async with Memory(address, model=model, config=config, clock=clock) as memory, client(memory) as http:
        for _ in range(6):
            await turn(memory, "a-private-name")
        await memory.settled()
        value = samples((await http.get("/metrics")).text)
        assert value("memolog_open_runs", kind="observe", state="failed") == 1
        assert value("memolog_runs_ended_total", kind="observe", outcome="failed") == 1
        assert value("memolog_backlog_logs", kind="retry") == 0
        model.is_down = False
        clock.advance(hours=1)
        assert samples((await http.get("/metrics")).text)("memolog_backlog_logs", kind="retry") == 1
        await memory.thread("a-private-name", resource="alice").observe()
        text = (await http.get("/metrics")).text
        value = samples(text)
        assert value("memolog_runs_retries_total") == 1
        assert value("memolog_open_runs", kind="observe", state="failed") == 0
        assert value("memolog_runs_ended_total", kind="observe", outcome="done") >= 1
        assert value("memolog_runs_cost_dollars_total", kind="observe") > 0
        assert value("memolog_ledger_cost_dollars_total", kind="observe") > 0
        assert "a-private-name" not in text
        assert "alice" not in text


async def test_a_run_whose_process_died(address: str, clock: FakeClock) -> None:
    """A run of a dead process is expired, then it is due to be taken over, and the take-over is counted."""
    config = Config(observation=ObservationConfig(message_tokens=400, buffer_tokens=False))
    dead = Memory(address, model=Hanging(), config=config, clock=clock)
    async with dead.thread("red", resource="alice").turn() as one:
        await one.prepare(WORDS * 3)
        await one.record(AssistantMessage(WORDS * 3))
    for _ in range(12):
        await turn(dead, "red")
    await kill(dead)
    await (await store_of(dead)).close()
    clock.advance(hours=1)
    async with Memory(address, model=ScriptedModel(), config=config, clock=clock) as memory, client(memory) as http:
        value = samples((await http.get("/metrics")).text)
        assert value("memolog_open_runs", kind="observe", state="expired") == 1
        assert value("memolog_backlog_logs", kind="take_over") == 1
        await memory.thread("red", resource="alice").observe()
        value = samples((await http.get("/metrics")).text)
        assert value("memolog_runs_takeovers_total") == 1
        assert value("memolog_open_runs", kind="observe", state="expired") == 0


async def test_degraded_turns_are_counted(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A turn that goes on without the database is counted, with what it did not do."""
    async with Memory(address, config=Config()) as memory, client(memory) as http:
        thread = memory.thread("red", resource="alice")
        async with thread.turn() as one:
            await one.prepare("hello")

            async def refuse(*_: object, **__: object) -> None:
                raise StoreUnavailable("away", then="wait")

            monkeypatch.setattr(type(one._own_outbox), "save_answer", refuse)
            await one.record(AssistantMessage("hi"))
            monkeypatch.undo()
        value = samples((await http.get("/metrics")).text)
        assert value("memolog_degraded_total", what="recording the answer") == 1


async def test_repeated_transactions_are_counted(address: str) -> None:
    """What the engine had to repeat is shown by its reason."""
    async with Memory(address, config=Config()) as memory, client(memory) as http:
        (await memory.open()).store.engine.repeated.update({"deadlock": 2})
        value = samples((await http.get("/metrics")).text)
        assert value("memolog_transaction_repeats_total", reason="deadlock") == 2
        assert value("memolog_transaction_repeats_total", reason="serialization") == 0


async def test_many_requests_read_once(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests at the same time share one reading, and the next reading is not before its time."""
    monkeypatch.setattr(exposition, "_KEPT_SECONDS", 3_600.0)
    readings = 0
    read = Memory.measures

    async def counted(self: Memory) -> Measures:
        nonlocal readings
        readings += 1
        return await read(self)

    monkeypatch.setattr(Memory, "measures", counted)
    async with Memory(address, config=Config()) as memory, client(memory) as http:
        answers = await asyncio.gather(*(http.get("/metrics") for _ in range(20)))
        assert {one.status_code for one in answers} == {200}
    assert readings == 1


async def test_a_schema_that_is_not_ours(address: str) -> None:
    """When a newer release has migrated the database, the old process is alive and not ready."""
    async with Memory(address, config=Config()) as memory, client(memory) as http:
        assert (await http.get("/readyz")).status_code == 200
        await _newer_schema((await memory.open()).store.engine)
        answer = await http.get("/readyz")
        assert (answer.status_code, answer.text) == (503, "not ready: SchemaTooNew\n")
        assert (await http.get("/healthz")).status_code == 200


async def _newer_schema(engine: Engine) -> None:
    from memolog.db.queries import Script, Statement

    text = "INSERT INTO memolog_migrations (version, name, checksum, applied_at) VALUES (9999, 'later', 'x', 0)"
    later = Statement(name="later", text=text, parameters=(), lists=())

    def script() -> Script[None]:
        yield later()

    await engine.write(script, name="test.later")


async def test_a_database_that_is_away(address: str) -> None:
    """Without the database there is no stale figure: only that it cannot be read. Counters go on."""
    async with Memory(address, config=Config()) as memory:
        http = client(memory)
        await http.get("/metrics")
        await memory.aclose()
        text = (await http.get("/metrics")).text
        assert samples(text)("memolog_database_up") == 0
        assert "memolog_backlog_logs" not in text
        assert "memolog_prepare_duration_seconds_count" in text
        assert (await http.get("/readyz")).text == "not ready: StoreClosed\n"
        await http.aclose()


async def test_pages_of_web_sites_are_refused(address: str) -> None:
    """On loopback without a token, only programs of this machine are answered. Other methods than GET are refused."""
    async with Memory(address, config=Config()) as memory, client(memory) as http:
        for headers in ({"host": "evil.example"}, {"origin": "https://evil.example"}):
            assert (await http.get("/metrics", headers=headers)).status_code == 403
        assert (await http.post("/metrics")).status_code == 405
        head = await http.head("/healthz")
        assert (head.status_code, head.content) == (200, b"")
        async with client(memory, only_here=False) as outside:
            assert (await outside.get("/metrics", headers={"host": "memory.example"})).status_code == 200


async def test_opentelemetry(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a meter of the application, the same events are recorded under the documented names."""
    from opentelemetry import metrics

    taken: list[tuple[str, float, dict[str, str]]] = []

    class Instrument:
        def __init__(self, name: str, *_: object, **__: object) -> None:
            self._name = name

        def add(self, amount: float, attributes: dict[str, str]) -> None:
            taken.append((self._name, amount, attributes))

        record = add

    class Meter:
        def __init__(self, name: str) -> None:
            self.name = name

        create_counter = create_histogram = Instrument

    monkeypatch.setattr(metrics, "get_meter", Meter)
    meter.cache_clear()
    try:
        async with Memory(address, model=ScriptedModel(), config=CONFIG) as memory:
            await turn(memory, "red")
            record = meter()
            assert record is not None
            for event in _events(memory):
                record(event)
    finally:
        meter.cache_clear()
    assert {name for name, _, _ in taken} == {one.name for one in INSTRUMENTS}
    assert ("memolog.runs.ended", 1, {"kind": "observe", "outcome": "abandoned"}) in taken
    assert sum(name == "memolog.record.duration" for name, _, _ in taken) == 1
