"""Measure the speed of search, the size of the index and the time to update it.

    make bench-search [ARGS="--sizes 10000,100000"]

Real questions are searched in real turns. The turns are repeated until the database has the wanted number of messages: (a) all in
one resource, (b) in a thousand resources. The index is updated before the measurement; updating it is measured separately. Aims:
(b) p95 ≤ 5 ms with a million messages, (a) p95 ≤ 25 ms with a hundred thousand. On a busy machine use the processor time (`cpu`).
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
from time import perf_counter, process_time
from typing import Any

from bench_retrieval import DATA, FixedClock, Turn, locomo, longmemeval, message_of
from memolog import Memory
from table import percentile, table

SPREAD = 1_000
QUESTIONS = 1_000
THREAD = 20
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
        await memory.resource(f"r{number}").search("warm", limit=1)
        if number % 50 == 0:
            print(f"\rindexed {number} of {resources}", end="", file=sys.stderr)
    return perf_counter() - began


async def ask(memory: Memory, questions: Sequence[str], resources: int) -> tuple[list[float], list[float]]:
    """Return the elapsed time and the processor time of each question in milliseconds."""
    chance, times, worked = random.Random(1), list[float](), list[float]()
    for number in range(QUESTIONS):
        resource = f"r{chance.randrange(resources)}"
        began, busy = perf_counter(), process_time()
        await memory.resource(resource).search(questions[number % len(questions)])
        times.append((perf_counter() - began) * 1_000)
        worked.append((process_time() - busy) * 1_000)
    return times, worked


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
    async with Memory(str(path), clock=clock) as memory:
        characters, saving = await fill(memory, turns, size, resources)
        indexing = await index(memory, resources)
        await ask(memory, questions[:50], resources)
        times, worked = await ask(memory, questions, resources)
    found = {
        "p50_ms": round(percentile(times, 0.5), 2),
        "p95_ms": round(percentile(times, 0.95), 2),
        "cpu_p50_ms": round(percentile(worked, 0.5), 2),
        "cpu_p95_ms": round(percentile(worked, 0.95), 2),
        "save_us": round(saving / size * 1e6, 1),
        "index_us": round(indexing / size * 1e6, 1),
        "index_bytes_per_text_byte": round(index_bytes(path) / max(1, characters), 2),
    }
    path.unlink()
    return found


def main() -> None:
    """Read the arguments, measure, print."""
    parser = argparse.ArgumentParser(description="Measure the speed of search.")
    parser.add_argument("--data", type=Path, default=DATA, help="the folder with the data sets")
    parser.add_argument("--sizes", default="10000,100000,1000000", help="numbers of messages, separated by commas")
    parser.add_argument("--ways", default="one,spread", help="one: all in one resource; spread: over a thousand")
    options = parser.parse_args()
    turns, questions = material(options.data)
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="memolog-bench-") as temporary:
        for way in options.ways.split(","):
            for size in map(int, options.sizes.split(",")):
                resources = 1 if way == "one" else SPREAD
                found = asyncio.run(measure(Path(temporary), turns, questions, size, resources))
                results.setdefault(way, {})[str(size)] = found
                print(f"\r{way} {size}: {found}", file=sys.stderr)
    columns = ("p50_ms", "p95_ms", "cpu_p50_ms", "cpu_p95_ms", "save_us", "index_us", "index_bytes_per_text_byte")
    lines = [
        [way, int(size), *(found[c] for c in columns)]
        for way, sizes in results.items()
        for size, found in sizes.items()
    ]
    print(table(["way", "messages", *columns], lines))
    print(json.dumps(results))


if __name__ == "__main__":
    main()
