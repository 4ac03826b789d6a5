"""Measure what grows with the number of messages: search, a turn, the size of the index and the time to update it.

    make bench-search [ARGS="--sizes 10000,100000"]
    make bench-search ARGS="--ways spread --sizes 1000000 --folder /tmp/files"

Real questions are searched in real turns. The turns are repeated until the database has the wanted number of messages: (a) all in
one resource, (b) in a thousand resources. The index is updated before the measurement; updating it is measured separately.
`turn` is the median of turns of a new thread in that database, divided by that of turns in an empty one; the two take turns.
Times are elapsed times less the time in which another program had the processor. With `--folder`, the databases are kept and
used again. Aims: (b) p95 ≤ 5 ms with a million messages, (a) p95 ≤ 20 ms with a hundred thousand, `turn` ≤ 1.2.
"""

import argparse
import asyncio
import json
import random
import sqlite3
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from time import perf_counter, process_time, time_ns
from typing import Any

sys.path.insert(0, str(Path(__file__).parent / "peers"))

from run_queue import run_queue_delay

from bench_retrieval import DATA, FixedClock, Turn, locomo, longmemeval, message_of
from memolog import Memory
from table import percentile, table

SPREAD = 1_000
QUESTIONS = 1_000
THREAD = 20
TURNS, A_THREAD = 200, 10
BATCH = 500


def material(folder: Path) -> tuple[list[Turn], list[str]]:
    """Return real turns and real questions."""
    corpora = [*locomo(folder), longmemeval(folder)]
    return [turn for corpus in corpora for turn in corpus.turns], [
        q.text for corpus in corpora for q in corpus.questions
    ]


async def fill(memory: Memory, turns: Sequence[Turn], size: int, resources: int) -> tuple[int, float]:
    """Save this many messages, in threads of twenty. Return the number of characters and the time in seconds."""
    kit = await memory.open()
    chance, characters, spent = random.Random(size), 0, 0.0
    for start in range(0, size, THREAD):
        resource = f"r{start // THREAD % resources}"
        chosen = chance.choices(turns, k=min(THREAD, size - start))
        messages = [replace(message_of(turn), id=None) for turn in chosen]
        characters += sum(len(turn.text) for turn in chosen)
        began = perf_counter()
        await kit.store.messages.save(resource, f"t{start}", messages)
        spent += perf_counter() - began
    return characters, spent


async def index(memory: Memory, resources: int) -> float:
    """Update the index of every resource. Return the time in seconds."""
    began = perf_counter()
    for number in range(resources):
        await memory.resource(f"r{number}").index()
        if number % 50 == 0:
            print(f"\rindexed {number} of {resources}", end="", file=sys.stderr)
    return perf_counter() - began


class Watch:
    """Measures elapsed time less the time in which another program had the processor, and processor time, in milliseconds."""

    def __init__(self) -> None:
        self.times: list[float] = []
        self.worked: list[float] = []

    def __enter__(self) -> None:
        self._waited, self._busy, self._began = run_queue_delay(), process_time(), perf_counter()

    def __exit__(self, *_: object) -> None:
        taken = perf_counter() - self._began - (run_queue_delay() - self._waited)
        self.times.append(max(0.0, taken) * 1_000)
        self.worked.append((process_time() - self._busy) * 1_000)


async def ask(memory: Memory, questions: Sequence[str], resources: int) -> Watch:
    """Search for each question, in one of the resources."""
    chance, watch = random.Random(1), Watch()
    for number in range(QUESTIONS):
        resource = f"r{chance.randrange(resources)}"
        with watch:
            await memory.resource(resource).search(questions[number % len(questions)])
    return watch


async def talk(memory: Memory, other: Memory) -> float:
    """Return how much longer a turn takes in a memory than in another one."""
    watches = Watch(), Watch()
    name = f"new {time_ns()}"
    for number in range(TURNS):
        for one, watch in zip((memory, other), watches, strict=True):
            with watch:
                async with one.thread(f"{name} {number // A_THREAD}", resource="r0").turn() as turn:
                    await turn.prepare("Where did we leave the keys of the boat, and when do we sail?")
                    await turn.record("In the drawer of the kitchen. You sail on Friday at nine.")
            await one.settled()
    return percentile(watches[0].times, 0.5) / percentile(watches[1].times, 0.5)


def index_bytes(path: Path) -> int:
    """Return the size of the index tables, from the page statistics of SQLite."""
    connection = sqlite3.connect(path)
    try:
        rows = connection.execute("SELECT SUM(pgsize) FROM dbstat WHERE name LIKE '%search\\_%' ESCAPE '\\'").fetchall()
        return int(rows[0][0] or 0)
    except sqlite3.OperationalError:
        # Not every build of SQLite has these statistics.
        return 0
    finally:
        connection.close()


async def measure(
    folder: Path, turns: Sequence[Turn], questions: Sequence[str], size: int, resources: int
) -> dict[str, Any]:
    """Measure one database."""
    path = folder / f"{size}-{resources}.db"
    clock = FixedClock(max(turn.at for turn in turns))
    made: dict[str, float] = {}
    if not path.exists():
        being_made = path.with_suffix(".part")
        async with Memory(str(being_made), clock=clock) as memory:
            characters, saving = await fill(memory, turns, size, resources)
            indexing = await index(memory, resources)
        made = {
            "save_us": round(saving / size * 1e6, 1),
            "index_us": round(indexing / size * 1e6, 1),
            "index_bytes_per_text_byte": round(index_bytes(being_made) / max(1, characters), 2),
        }
        being_made.rename(path)
    async with Memory(str(path), clock=clock) as memory, Memory(f"{path}.empty", clock=clock) as empty:
        await ask(memory, questions[:50], resources)
        asked = await ask(memory, questions, resources)
        slower = await talk(memory, empty)
    Path(f"{path}.empty").unlink()  # noqa: ASYNC240 - nothing else runs
    return {
        "p50_ms": round(percentile(asked.times, 0.5), 2),
        "p95_ms": round(percentile(asked.times, 0.95), 2),
        "cpu_p50_ms": round(percentile(asked.worked, 0.5), 2),
        "cpu_p95_ms": round(percentile(asked.worked, 0.95), 2),
        "turn": round(slower, 2),
        **made,
    }


def main() -> None:
    """Read the arguments, measure, print."""
    parser = argparse.ArgumentParser(description="Measure the speed of search.")
    parser.add_argument("--data", type=Path, default=DATA, help="the folder with the data sets")
    parser.add_argument("--sizes", default="10000,100000,1000000", help="numbers of messages, separated by commas")
    parser.add_argument("--ways", default="one,spread", help="one: all in one resource; spread: over a thousand")
    parser.add_argument("--folder", type=Path, help="a folder to keep the databases in")
    options = parser.parse_args()
    turns, questions = material(options.data)
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="memolog-bench-") as temporary:
        for way in options.ways.split(","):
            for size in map(int, options.sizes.split(",")):
                resources = 1 if way == "one" else SPREAD
                found = asyncio.run(measure(options.folder or Path(temporary), turns, questions, size, resources))
                results.setdefault(way, {})[str(size)] = found
                print(f"\r{way} {size}: {found}", file=sys.stderr)
    columns = (
        "p50_ms",
        "p95_ms",
        "cpu_p50_ms",
        "cpu_p95_ms",
        "turn",
        "save_us",
        "index_us",
        "index_bytes_per_text_byte",
    )
    lines = [
        [way, int(size), *(found.get(c) for c in columns)]
        for way, sizes in results.items()
        for size, found in sizes.items()
    ]
    print(table(["way", "messages", *columns], lines))
    print(json.dumps(results))


if __name__ == "__main__":
    main()
