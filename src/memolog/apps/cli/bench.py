"""Measure the speed of a memory on this machine with a temporary database: `bench`."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated

import typer

from memolog.apps.cli.command import Answer, Call, listing, verb

if TYPE_CHECKING:
    from memolog.memory import Memory

app = typer.Typer()
_RESOURCE, _THREAD = "bench", "bench"
_WORDS = (
    "session",
    "token",
    "schema",
    "login",
    "server",
    "retry",
    "index",
    "cache",
    "query",
    "deploy",
    "route",
    "hash",
)
_TRIES = 30
# Printed after Ctrl-C.
_AGAIN = "The temporary database was deleted. Run the command again to start over."


@verb(app, needs="nothing", writes=True, example="memolog bench --messages 200")
async def bench(
    call: Call,
    messages: Annotated[int, typer.Option(help="Number of messages to save first.", min=20, max=100_000)] = 1_000,
) -> Answer:
    """Measure the speed of turns, search and recall on this machine, with a temporary database."""
    import tempfile
    from statistics import median, quantiles

    from memolog.memory import Memory

    with tempfile.TemporaryDirectory(prefix="memolog-bench-", ignore_cleanup_errors=True) as folder:
        config = call.config.with_overrides({"model": "extractive", "read_only": False})
        async with Memory(Path(folder) / "bench.db", config=config) as memory:
            with call.progress(f"saving {messages:,} messages", _AGAIN):
                saved = await _fill(memory, messages)
            with call.progress("measuring", _AGAIN):
                times = await _measure(memory, messages)
    rows = [
        {"what": name, "median_ms": round(median(values), 3), "p95_ms": round(quantiles(values, n=20)[-1], 3)}
        for name, values in times.items()
    ]
    data = {"messages": messages, "saved_a_second": round(messages / saved), "times": rows}
    return listing(
        data,
        rows,
        ("what!", ">median ms", ">p95 ms"),
        lambda row: (str(row["what"]), f"{row['median_ms']:.2f}", f"{row['p95_ms']:.2f}"),
        "",
        title=f"Speed in a thread of {messages:,} messages",
        caption=f"{messages / saved:,.0f} messages saved per second, in batches of 100",
    )


def _text(number: int) -> str:
    """Return the text of message `number`. Each number has its own text, which never changes."""
    words = [_WORDS[(number * step + step) % len(_WORDS)] for step in range(1, 40)]
    return f"Step {number}: " + " ".join(words) + f" in server/part_{number % 97}.ts"


async def _fill(memory: "Memory", messages: int) -> float:
    from memolog.core.message import AssistantMessage, UserMessage

    thread = memory.thread(_THREAD, resource=_RESOURCE)
    new = [(UserMessage if n % 2 == 0 else AssistantMessage)(_text(n)) for n in range(messages)]
    start = perf_counter()
    for first in range(0, messages, 100):
        await thread.save(new[first : first + 100])
    spent = perf_counter() - start
    # Observe, so that the thread has a log and a short tail, like a thread that was used for some time.
    await thread.observe()
    return spent


async def _measure(memory: "Memory", messages: int) -> dict[str, list[float]]:
    from memolog.core.message import UserMessage

    async def turn(number: int) -> None:
        async with memory.thread(_THREAD, resource=_RESOURCE).turn() as turn:
            await turn.prepare(UserMessage(_text(messages + number)))

    async def search(number: int) -> None:
        await memory.resource(_RESOURCE).search(f"{_WORDS[number % len(_WORDS)]} part_{number}")

    async def recall(number: int) -> None:
        await memory.resource(_RESOURCE).recall(f"{number + 1}-{number + 10}", thread=_THREAD)

    async def status(_: int) -> None:
        await memory.thread(_THREAD, resource=_RESOURCE).status()

    calls: dict[str, Callable[[int], Awaitable[None]]] = {
        "a turn: save, decide, build the context": turn,
        "search": search,
        "recall of ten messages": recall,
        "status": status,
    }
    times: dict[str, list[float]] = {}
    for name, call in calls.items():
        await call(0)
        times[name] = [await _milliseconds(call, number) for number in range(1, _TRIES + 1)]
        await memory.settled()
    return times


async def _milliseconds(call: Callable[[int], Awaitable[None]], number: int) -> float:
    start = perf_counter()
    await call(number)
    return (perf_counter() - start) * 1_000
