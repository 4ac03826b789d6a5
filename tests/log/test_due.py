"""Logs with background work: the query of workers agrees with `decide` on snapshots, and turns leave the work to a worker."""

import random
from collections.abc import AsyncIterator
from operator import itemgetter
from typing import Any, cast

import asyncpg
import pytest

from memolog import AssistantMessage, Config, Memory, ObservationConfig, ReflectionConfig, UserMessage
from memolog.core.job import DueLog
from memolog.db.postgres_address import PostgresOptions, split_url
from memolog.db.queries import Statement
from memolog.log.decide import decide
from memolog.log.state import Asked, Buffer, Wait, state_of
from memolog.testing import FakeClock, ScriptedModel

WORDS = "one two three four five six seven eight nine ten "
CONFIG = Config(
    background="worker",
    observation=ObservationConfig(message_tokens=800, previous_tokens=100),
    reflection=ReflectionConfig(observation_tokens=400),
    sweep_after=None,
)
SHARED = CONFIG.with_overrides({"scope": "resource"})


@pytest.fixture
async def rows(address: str, engine_name: str) -> AsyncIterator[Any]:
    """Return a function that runs a query on the database of the test, which it sees as another process does."""
    if engine_name != "postgres":
        yield None
        return
    url, options = split_url(address, PostgresOptions())
    connection: Any = await cast("Any", asyncpg).connect(url, server_settings={"search_path": options.schema})
    yield connection.fetch
    await connection.close()


async def waiting_jobs(rows: Any) -> list[tuple[str, str]]:
    """Return the jobs that wait, each as resource and thread."""
    found = await rows(
        "select args->>'resource', args->>'thread' from procrastinate_jobs where status = 'todo' order by id"
    )
    return [tuple(row) for row in found]


async def turn(memory: Memory, thread: str, words: int, *, resource: str = "alice") -> None:
    """Hold one turn with about this many words in the question and the answer."""
    async with memory.thread(thread, resource=resource).turn() as one:
        await one.prepare(WORDS * (words // 20))
        await one.record(AssistantMessage(WORDS * (words // 20)))


# ---------------------------------------------------------------- the query


async def by_snapshots(memory: Memory, threads: list[str], config: Config, clock: FakeClock) -> dict[str, type[object]]:
    """Return what `decide` says in the background, by thread or, for a shared log, under the empty name."""
    found: dict[str, type[object]] = {}
    components = await memory.open()
    for thread in threads:
        _, snapshot = await memory._connection.look(thread, "alice")
        factor = await components.factor("alice", snapshot.thread.last_model)
        asked = Asked(may_activate=False, factor=factor, unseen=components.core.unseen(snapshot))
        decision = decide(state_of(snapshot, config, asked), config, clock.now())
        name = thread if config.scope == "thread" else ""
        found[name] = found.get(name, Wait) if isinstance(decision, Wait) else type(decision)
    return found


def due_names(due: tuple[DueLog, ...]) -> set[str]:
    """Return the threads of the logs that are due; the shared log is the empty name."""
    return {"" if one.job.is_shared else one.job.thread for one in due}


@pytest.mark.parametrize("config", [CONFIG, SHARED], ids=["thread", "resource"])
@pytest.mark.parametrize("seed", range(2))
async def test_due_agrees_with_decide(address: str, clock: FakeClock, config: Config, seed: int) -> None:
    """After any history, a log is due exactly if `decide` would start or take over a run there."""
    chance, model = random.Random(seed), ScriptedModel()
    seen: set[str] = set()
    async with Memory(address, model=model, config=config, clock=clock) as memory:
        threads = ["red", "green", "blue"]
        for thread in threads:
            await turn(memory, thread, 20)
        for number in range(40):
            thread = memory.thread(chance.choice(threads), resource="alice")
            match chance.randrange(9):
                case 0 | 1 | 2:
                    await turn(memory, thread.id, chance.choice([20, 60, 200]))
                case 3:
                    await thread.save([UserMessage(WORDS * chance.randint(1, 12)) for _ in range(chance.randint(1, 4))])
                case 4:
                    await thread.work()
                case 5:
                    model.answers.append(ConnectionError("down"))
                    await thread.work(rest=True)
                    model.answers.clear()
                case 6:
                    clock.advance(seconds=chance.choice([1, 5, 700]))
                case 7:
                    await thread.activate()
                case _:
                    last = (await thread.info()).last_seq
                    await thread.rewind(to=max(0, last - chance.randint(1, 3)))
            await memory.settled()
            due = await memory.due()
            said = await by_snapshots(memory, threads, config, clock)
            names = due_names(due)
            assert names == {name for name, kind in said.items() if kind is not Wait}, (number, said, due)
            seen |= {kind.__name__ for kind in said.values()}
            # Asking again gives the same answer: what was noted as done is not lost.
            assert due_names(await memory.due()) == names
    assert {Buffer.__name__, Wait.__name__} <= seen


async def test_what_was_looked_at_is_not_read_again(address: str, clock: FakeClock) -> None:
    """A thread without work leaves the query, and comes back with its next message or when its groups are withdrawn."""
    config = CONFIG.with_overrides({"sweep_after": 600.0})
    async with Memory(address, model=ScriptedModel(), config=config, clock=clock) as memory:
        thread = memory.thread("red", resource="alice")
        store = (await memory.open()).store

        async def read() -> int:
            return len((await store.due.page(scope=None, now=clock.now())).logs)

        await turn(memory, "red", 40)
        assert await memory.due() == ()
        assert await read() == 1
        clock.advance(minutes=10)
        (due,) = await memory.due()
        assert (due.job.rest, due.job.thread) == (True, "red")
        assert await thread.work(rest=True) == 1
        assert await memory.due() == ()
        assert await read() == 0
        await thread.rewind(to=1)
        clock.advance(minutes=10)
        assert await read() == 1
        assert len(await memory.due()) == 1
        assert await thread.work(rest=True) == 1
        assert await memory.due() == ()
        assert await read() == 0
        await thread.save("more")
        assert await read() == 1


async def test_runs_left_behind_are_due(address: str, clock: FakeClock) -> None:
    """A run whose lease has ended and a failed run whose retry is due are found, though nobody speaks in their threads."""
    model = ScriptedModel([ConnectionError("down")])
    async with Memory(address, model=model, config=CONFIG, clock=clock) as memory:
        await turn(memory, "red", 400)
        await memory.thread("red", resource="alice").work()
        assert await memory.due() == ()
        clock.advance(minutes=20)
        (due,) = await memory.due()
        assert due.reason == "a failed run may be tried again"
        model.answers.append(KeyError("a bug"))
        assert await memory.thread("red", resource="alice").work() > 0
        clock.advance(hours=1)
        assert await memory.thread("red", resource="alice").work() > 0
        assert await memory.due() == ()


async def test_pages_follow_each_other(address: str, clock: FakeClock) -> None:
    """More threads than a page are all found, whatever their resource."""
    config = CONFIG.with_overrides({"sweep_after": 60.0})
    async with Memory(address, model=ScriptedModel(), config=config, clock=clock) as memory:
        store = (await memory.open()).store
        for number in range(450):
            await store.messages.save(f"user-{number % 7}", f"thread-{number}", UserMessage("hello"))
        clock.advance(minutes=2)
        due = await memory.due()
        assert {one.job.thread for one in due} == {f"thread-{number}" for number in range(450)}


async def test_threads_without_a_log_are_compacted(address: str, clock: FakeClock) -> None:
    """With `observe=False` a worker compacts, once for each new message at most."""
    config = Config(background="worker", observe=False).with_overrides({"compaction.after": 5, "compaction.batch": 5})
    async with Memory(address, model=ScriptedModel(), config=config, clock=clock) as memory:
        for _ in range(10):
            await turn(memory, "red", 20)
        await memory.settled()
        thread = memory.thread("red", resource="alice")
        assert await thread.compactions() == ()
        (due,) = await memory.due()
        assert due.reason == "messages may be compacted"
        assert await memory.due() == ()
        await thread.work()
        assert len(await thread.compactions()) > 0


async def test_the_query_uses_indexes(address: str, clock: FakeClock, engine_name: str) -> None:
    """No plan reads all threads, all messages or all runs."""
    async with Memory(address, model=ScriptedModel(), config=CONFIG, clock=clock) as memory:
        store = (await memory.open()).store
        for number in range(300):
            await store.messages.save("alice", f"t{number}", UserMessage("hello"))
        plan = await explained(store.engine, engine_name)
    text = "\n".join(plan)
    assert "threads_waiting" in text
    assert "runs_open" in text
    for table in ("threads", "messages", "runs", "logs", "cursors", "groups"):
        assert f"Seq Scan on {table}" not in text, text
    assert not [line for line in plan if line.startswith("SCAN") and line.split()[1] in {"t", "m", "r", "g", "l", "c"}]


async def explained(engine: Any, name: str) -> list[str]:
    """Return the plan of the query, one line for each step."""
    from memolog.log.due import q

    step = q.due(scope=None, now=1, after_at=-1, after_pk=-1, limit=200)
    lengths, values = step.flat()
    if name != "postgres":
        plan = Statement("plan", "EXPLAIN QUERY PLAN " + step.statement.text, step.statement.parameters, ())
        return list(await engine.fetch(plan(**step.values), itemgetter(3)))
    async with engine._connection() as connection:
        await connection.execute("ANALYZE")
        # A small table is read whole if that is cheaper, so that is forbidden here: a plan without an index would still do it.
        await connection.execute("SET enable_seqscan = off")
        try:
            rows = await connection.fetch("EXPLAIN " + step.statement.numbered("$", lengths), *values)
        finally:
            await connection.execute("RESET enable_seqscan")
    return [row[0] for row in rows]


# ---------------------------------------------------------------- turns


@pytest.mark.parametrize("config", [CONFIG, SHARED], ids=["thread", "resource"])
async def test_a_turn_leaves_the_work_to_a_worker(address: str, clock: FakeClock, config: Config, rows: Any) -> None:
    """However many turns there are, no run starts in their process, and one job waits for each log."""
    model = ScriptedModel()
    async with Memory(address, model=model, config=config, clock=clock) as memory:
        for _ in range(4):
            for thread in ("red", "green"):
                await turn(memory, thread, 100)
        await memory.settled()
        assert model.requests == []
        assert await memory.thread("red", resource="alice").runs() == ()
        assert due_names(await memory.due()) == ({"red", "green"} if config.scope == "thread" else {""})
        if rows is not None:
            jobs = await waiting_jobs(rows)
            assert sorted({thread for _, thread in jobs}) == (["green", "red"] if config is CONFIG else [jobs[0][1]])
            assert len(jobs) == (2 if config is CONFIG else 1)
        assert await memory.thread("red", resource="alice").work() > 0
        assert len(model.requests) > 0
        asked = len(model.requests)
        # The same job again changes nothing.
        assert await memory.thread("red", resource="alice").work() == 0
        assert len(model.requests) == asked


async def test_a_turn_that_must_wait_observes_itself(address: str, clock: FakeClock) -> None:
    """Without a worker the tail does not grow for ever: where a turn waits for a model anyway, it starts the run."""
    model = ScriptedModel()
    async with Memory(address, model=model, config=CONFIG, clock=clock) as memory:
        thread = memory.thread("red", resource="alice")
        largest = 0
        for _ in range(30):
            async with thread.turn() as one:
                context = await one.prepare(WORDS * 4)
                largest = max(largest, context.tokens.tail)
                await one.record(AssistantMessage(WORDS * 4))
        assert len(model.requests) > 0
        # A turn waits from 960 tokens on; a step adds about 100.
        assert largest < 1_200


async def test_a_dead_run_does_not_stop_a_turn_that_must_wait(address: str, clock: FakeClock) -> None:
    """If the workers are gone and one of them left a run, a turn at the limit takes that run over."""
    model = ScriptedModel()
    async with Memory(address, model=model, config=CONFIG, clock=clock) as memory:
        thread = memory.thread("red", resource="alice")
        await turn(memory, "red", 400)
        model.answers.append(ConnectionError("the worker dies here"))
        await thread.work()
        assert "failed" in [run.status for run in await thread.runs()]
        clock.advance(hours=1)
        for _ in range(6):
            await turn(memory, "red", 200)
        assert "failed" not in [run.status for run in await thread.runs()]
        assert (await thread.status()).messages.tokens < 1_200
