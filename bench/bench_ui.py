"""Measure how long the pages of the inspector take, on a database with many threads and on a thread with many messages.

    make bench-ui ARGS="--threads 2000 --messages 200000 --long 100000"

Pages are asked for over HTTP on loopback, one after the other, by a browser that is already let in: the time has the reading of
the database, the template and the transfer, but not the drawing in the browser. Pages of the long and of the short thread
alternate, each at random places: the newest messages, an earlier window, and a selected observation. The model of the observer
is scripted, so the logs have the size that the settings allow.

- overview: the first page, on all threads.
- thread: the page of a thread with `--long` messages, and of one with 1,000 messages. `ratio` compares their medians.

Nothing here is a test: no time is asserted. The table is followed by one line of JSON.
"""

import argparse
import asyncio
import json
import random
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter, process_time

import httpx

from memolog import Memory, NewMessage
from memolog.apps.ui import UiSettings, serve
from memolog.core.message import AssistantMessage, UserMessage
from memolog.memory import Thread
from memolog.observer.model import ModelReply, ModelRequest
from memolog.testing import ScriptedModel
from table import percentile, table

MESSAGE = re.compile(r"<message>\[(\d+)\][^\n]*\n(.*?)\n</message>", re.DOTALL)
LINE = re.compile(r"^\s*(o\d+) (.*)$", re.MULTILINE)
TOKEN = "a-token-of-the-benchmark"  # noqa: S105
SHORT = 1_000
RESOURCES = 20
BATCH = 2_000
LIMITS = {"overview": 150.0, "thread": 100.0, "ratio": 1.5}


def said(number: int) -> NewMessage:
    """Return a message of about thirty tokens."""
    # A user who states something makes the observer look twice, which takes long.
    if number % 2 == 0:
        return UserMessage(f"What about part {number} of the plan, and which of its files are the slow ones today?")
    return AssistantMessage(
        f"Part {number} lives in src/part{number}.py, takes {number % 97} ms and waits for team {number % 13}."
    )


class Brief(ScriptedModel):
    """A model that observes every twelfth message, and reflects by keeping every third line."""

    async def complete(self, request: ModelRequest) -> ModelReply:
        """Return the lines."""
        if request.purpose != "observe":
            kept = LINE.findall(request.text.split("</log>")[0])[::3]
            lines = [f"* {text} [{name}]" for name, text in kept]
            return ModelReply(text="<observations>\n" + "\n".join(lines) + "\n</observations>")
        found = MESSAGE.findall(request.text)[1::12]
        lines = [f"* 🟡 {text.strip()} [{number}]" for number, text in found]
        return ModelReply(text="<observations>\n" + "\n".join(lines) + "\n</observations>")


async def fill(thread: Thread, messages: int) -> None:
    """Save messages in batches."""
    for start in range(0, messages, BATCH):
        await thread.save([said(number) for number in range(start, min(messages, start + BATCH))])


async def build(memory: Memory, threads: int, messages: int, long: int) -> None:
    """Save all conversations, and observe the two threads that are measured."""
    each = max(1, (messages - long - SHORT) // max(1, threads - 2))
    for number in range(threads - 2):
        await fill(memory.thread(f"t{number}", resource=f"r{number % RESOURCES}"), each)
    for name, count in (("long", long), ("short", SHORT)):
        thread = memory.thread(name, resource="bench")
        await fill(thread, count)
        start = perf_counter()
        status, before = await thread.observe(), -1
        while before < status.covered < count:
            before = status.covered
            status = await thread.observe()
        print(
            f"{name}: {count:,} messages observed in {perf_counter() - start:.0f} s, "
            f"{status.covered:,} covered, {status.groups} groups, generation {status.generation}",
            flush=True,
        )


async def places(thread: Thread, chance: random.Random, count: int) -> list[str]:
    """Return addresses of windows: the newest, earlier ones, and selected lines of the log."""
    last = (await thread.info()).last_seq
    lines = (await thread.log_page(limit=200)).lines
    base = f"/thread?resource={thread.resource}&thread={thread.id}"
    found: list[str] = []
    for number in range(count):
        match number % 4:
            case 0:
                found.append(base)
            case 1:
                found.append(f"{base}&before={chance.randint(60, last)}")
            case 2:
                found.append(f"{base}&at={chance.randint(1, last)}&log=messages")
            case _:
                found.append(f"{base}&line={chance.choice(lines).id}" if lines else base)
    return found


async def timed(client: httpx.AsyncClient, path: str) -> tuple[float, float]:
    """Return the milliseconds of a page, by the clock and of the processor."""
    wall, busy = perf_counter(), process_time()
    answer = await client.get(path)
    assert answer.status_code == 200, answer.text[:500]
    return (perf_counter() - wall) * 1_000, (process_time() - busy) * 1_000


async def measure(address: str, runs: int) -> dict[str, list[tuple[float, float]]]:
    """Return the times of each kind of page. Kinds alternate, so that a busy moment of the machine meets all of them."""
    times: dict[str, list[tuple[float, float]]] = {"overview": [], "long": [], "short": []}
    chance = random.Random(1)
    async with Memory(address) as memory, serve(memory, UiSettings(token=TOKEN), port=0) as at:
        long = await places(memory.thread("long", resource="bench"), chance, runs)
        short = await places(memory.thread("short", resource="bench"), chance, runs)
        async with httpx.AsyncClient(base_url=at.base, trust_env=False, timeout=600, follow_redirects=True) as client:
            await client.get("/", params={"token": TOKEN})
            for first, second in zip(long, short, strict=True):
                times["overview"].append(await timed(client, "/"))
                times["long"].append(await timed(client, first))
                times["short"].append(await timed(client, second))
    return times


def report(times: dict[str, list[tuple[float, float]]], arguments: argparse.Namespace) -> None:
    """Print the table and the line of JSON."""
    rows: list[Sequence[object]] = []
    figures: dict[str, float] = {}
    for name, pairs in times.items():
        wall, busy = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
        figures |= {f"{name}_p50": percentile(wall, 0.5), f"{name}_p95": percentile(wall, 0.95)}
        figures |= {f"{name}_processor_p50": percentile(busy, 0.5), f"{name}_processor_p95": percentile(busy, 0.95)}
        rows.append(
            (name, *(round(figures[f"{name}_{key}"], 1) for key in ("p50", "p95", "processor_p50", "processor_p95")))
        )
    figures["ratio"] = figures["long_p50"] / figures["short_p50"]
    figures["ratio_processor"] = figures["long_processor_p50"] / figures["short_processor_p50"]
    print(table(("page", "p50 ms", "p95 ms", "processor p50", "processor p95"), rows))
    print(f"long / short: {figures['ratio']:.2f}, of the processor {figures['ratio_processor']:.2f}")
    print(f"limits: overview {LIMITS['overview']} ms, thread p95 {LIMITS['thread']} ms, ratio {LIMITS['ratio']}")
    shape = {
        "threads": arguments.threads,
        "messages": arguments.messages,
        "long": arguments.long,
        "runs": arguments.runs,
    }
    print(json.dumps({**shape, **{name: round(value, 3) for name, value in figures.items()}}))


async def run(arguments: argparse.Namespace) -> None:
    """Build the database, measure, and print."""
    with tempfile.TemporaryDirectory() as folder:
        address = arguments.db or str(Path(folder) / "memolog.db")
        if not await asyncio.to_thread(Path(address).exists):
            start = perf_counter()
            async with Memory(address, model=Brief()) as memory:
                await build(memory, arguments.threads, arguments.messages, arguments.long)
            print(f"the database took {perf_counter() - start:.0f} s", flush=True)
        report(await measure(address, arguments.runs), arguments)


def main() -> None:
    """Read the arguments, and run."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--threads", type=int, default=2_000)
    parser.add_argument("--messages", type=int, default=200_000)
    parser.add_argument("--long", type=int, default=100_000)
    parser.add_argument("--runs", type=int, default=60)
    parser.add_argument("--db", help="a database to keep, and to measure again if it exists")
    asyncio.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
