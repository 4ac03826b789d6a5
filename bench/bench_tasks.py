"""Measure the speed of task memory with 10,000 tasks and 20,000 links.

    make bench-tasks ARGS="--tasks 10000 --links 20000"

The graph is similar to that of a real project: epics with features, features with tasks, chains of tasks that block each other in
a feature, and links between features. A third of the tasks is closed. Times are medians of calls on one open store, less the time
in which another program had the processor.

- ready: the ten most urgent tasks with their reasons, and the counts of all tasks.
- create: a task with a parent and one blocker.
- close_unblock: close a task that blocks others, and return the tasks that are no longer blocked.
- search: the ten best tasks for a verb and a part of the system.
- cycle_check: add a link between two random tasks, or refuse it because of a cycle.

Nothing here is a test: no time is asserted. The table is followed by one line of JSON, measured on SQLite.
"""

import argparse
import asyncio
import json
import random
import tempfile
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from time import perf_counter

from bench_search import Watch
from memolog import Memory
from memolog.errors import InputError, TaskCycle
from memolog.tasks.calls import Tasks
from memolog.tasks.task import LinkKind
from table import percentile, table

RESOURCE = "bench"
TARGETS = {
    "ready_p50_ms": 3.0,
    "create_p50_ms": 1.0,
    "close_unblock_p50_ms": 3.0,
    "search_p50_ms": 5.0,
    "cycle_check_p50_ms": 3.0,
}
VERBS = ("Fix", "Add", "Remove", "Rename", "Test", "Document", "Speed up", "Redesign", "Migrate", "Review")
AREAS = (
    *(
        "billing",
        "login",
        "search",
        "export",
        "mail",
        "admin",
        "audit",
        "import",
        "avatar",
        "session",
        "report",
        "webhook",
    ),
    *(
        "invoice",
        "calendar",
        "chat",
        "upload",
        "profile",
        "team",
        "plan",
        "coupon",
        "locale",
        "theme",
        "cache",
        "queue",
    ),
    *("cron", "metric", "alert", "backup", "tenant", "ledger", "cart", "order", "stock", "return", "review", "survey"),
)
NAMES = (
    *("schema", "form", "table", "view", "client", "worker", "parser", "limit", "token", "index", "page", "policy"),
    *(
        "trigger",
        "filter",
        "router",
        "fixture",
        "adapter",
        "quota",
        "banner",
        "digest",
        "lock",
        "retry",
        "hook",
        "seed",
    ),
)
PLACES = ("on mobile", "for admins", "in staging", "behind the flag", "for the new plan", "after the move", "in Lisbon")


def thing(chance: random.Random) -> str:
    """Return the subject of a task: a few of hundreds of parts of a system, with names as in text and in code."""
    area, name = chance.choice(AREAS), chance.choice(NAMES)
    return chance.choice((f"{area} {name}", f"{area}_{name}", f"{area.title()}{name.title()}", f"src/{area}/{name}.ts"))


def title(chance: random.Random, number: int) -> str:
    """Return a realistic title."""
    place = f" {chance.choice(PLACES)}" if chance.random() < 0.3 else ""
    return f"{chance.choice(VERBS)} {thing(chance)}{place} ({number})"


def description(chance: random.Random) -> str:
    """Return a few sentences, or an empty text."""
    sentences = (f"See {thing(chance)}, which the {thing(chance)} needs." for _ in range(chance.randint(0, 4)))
    return " ".join(sentences)


async def fill(tasks: Tasks, count: int, links: int, chance: random.Random) -> int:
    """Create the graph. Return the number of its links."""
    made = 0
    for number in range(1, count + 1):
        above = number // 25 if number > 25 else None
        before = [number - 1] if number > 1 and chance.random() < 0.45 else []
        blockers = tuple(f"T-{one}" for one in before if one != above)
        parent = f"T-{above}" if above and chance.random() < 0.7 else None
        made += len(blockers) + (parent is not None)
        await tasks.create(
            title(chance, number),
            description=description(chance),
            priority=chance.choice((0, 1, 1, 2, 2, 2, 3, 4)),
            parent=parent,
            blocked_by=blockers,
        )
    while made < links:
        one, other = sorted(chance.sample(range(1, count + 1), 2))
        # Most blockers of a task were created shortly before it.
        if chance.random() < 0.8:
            other = min(count, one + chance.randint(1, 60))
        kind: LinkKind = chance.choices(("blocks", "related", "discovered-from"), (6, 3, 1))[0]
        with suppress(TaskCycle, InputError):
            await tasks.link(f"T-{one}", f"T-{other}", kind)
            made += 1
    for number in chance.sample(range(1, count + 1), count // 3):
        await close(tasks, number)
    return made


async def close(tasks: Tasks, number: int) -> int:
    """Close a task. Return the number of tasks that are no longer blocked."""
    closed = await tasks.close(f"T-{number}", summary=f"Done, see commit {number}.")
    return len(closed.unblocked)


async def measured(calls: int, call: Callable[[int], Awaitable[object]]) -> list[float]:
    """Return how many milliseconds each of some calls took."""
    watch = Watch()
    for number in range(calls):
        with watch:
            await call(number)
    return watch.times


async def measure(
    tasks: Tasks,
    others: Callable[[str], Tasks],
    index: Callable[[], Awaitable[None]],
    count: int,
    calls: int,
    chance: random.Random,
) -> dict[str, list[float]]:
    """Return the times of every operation. `others` returns the tasks for another session. `index` indexes all tasks."""
    search_words = [f"{chance.choice(VERBS)} {thing(chance)}" for _ in range(calls)]
    # Indexing the new tasks is not part of the time of a search.
    await index()
    waited_for = await _blockers(tasks, calls)
    pairs = [chance.sample(range(1, count + 1), 2) for _ in range(calls)]

    async def link(number: int) -> None:
        one, other = pairs[number]
        with suppress(TaskCycle):
            await tasks.link(f"T-{one}", f"T-{other}")

    async def create(number: int) -> None:
        await tasks.create(title(chance, number), parent="T-3", blocked_by=(f"T-{1 + number % count}",))

    async def claim(number: int) -> None:
        ready = await tasks.ready(limit=1)
        await others(f"s{number}").claim(ready.items[0].task.id, lease=3600)

    return {
        "ready": await measured(calls, lambda _: tasks.ready()),
        "search": await measured(calls, lambda number: tasks.search(search_words[number])),
        "create": await measured(calls, create),
        "close_unblock": await measured(len(waited_for), lambda number: close(tasks, waited_for[number])),
        "claim": await measured(20, claim),
        "cycle_check": await measured(calls, link),
    }


async def _blockers(tasks: Tasks, most: int) -> list[int]:
    """Return tasks that are ready and block other tasks."""
    found: list[int] = []
    after = None
    while len(found) < most:
        page = await tasks.ready(limit=200, after=after)
        found.extend(int(item.task.handle[2:]) for item in page.items if "unblocks" in item.why)
        after = page.next
        if after is None:
            break
    return found[:most]


async def run(arguments: argparse.Namespace, address: str) -> tuple[dict[str, list[float]], int]:
    """Fill a store and measure it."""
    chance = random.Random(arguments.seed)
    async with Memory(address) as memory:
        resource = memory.resource(RESOURCE)
        tasks = resource.tasks(session="bench")
        begun = perf_counter()
        links = await fill(tasks, arguments.tasks, arguments.links, chance)
        counts = await tasks.counts()
        print(f"filled in {perf_counter() - begun:.1f} s: {arguments.tasks:,} tasks, {links:,} links, {counts}")

        def others(session: str) -> Tasks:
            return resource.tasks(session=session)

        return await measure(tasks, others, resource.index, arguments.tasks, arguments.calls, chance), links


def main() -> None:
    """Measure, print a table, and one line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=10_000)
    parser.add_argument("--links", type=int, default=20_000)
    parser.add_argument("--calls", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--address", help="a database to use instead of a temporary SQLite file")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        address = arguments.address or str(Path(folder) / "tasks.db")
        times, links = asyncio.run(run(arguments, address))
    rows = [
        (name, percentile(all_, 0.5), percentile(all_, 0.95), max(all_), TARGETS.get(f"{name}_p50_ms"), len(all_))
        for name, all_ in times.items()
        if all_
    ]
    print(table(("operation, ms", "p50", "p95", "max", "aim p50", "calls"), rows))
    figures = {f"{name}_p50_ms": round(percentile(all_, 0.5), 3) for name, all_ in times.items() if all_}
    print(json.dumps({"tasks": arguments.tasks, "links": links, **figures}))


if __name__ == "__main__":
    main()
