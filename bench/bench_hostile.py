"""Measure how long hostile input blocks the event loop: the longest processor time of a single callback of the loop.

    make bench-hostile ARGS="--only speaker,word --where"

Each row of the table is one hostile input. It is passed through the public API, with a SQLite file and the embedded observer: a
turn that records it, the next turn, observing, searching for a word and for a phrase, status and recall. While a callback runs,
no other task of the loop can run. Work on other operating system threads does not count. The table shows the best of several
rounds, because garbage collection may run at any time. `--where` shows the slowest callback and the call that caused it.

Nothing here is a test: no time is asserted. The table is followed by one line of JSON.
"""

import argparse
import asyncio
import cProfile
import gc
import json
import pstats
import sys
import tempfile
from asyncio import events
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from time import perf_counter, thread_time
from typing import Any, Final

from memolog import (
    AssistantMessage,
    Config,
    MemologError,
    Memory,
    NewMessage,
    TextPart,
    ToolCallPart,
    ToolMessage,
    ToolResultPart,
    UserMessage,
)
from memolog.apps.hooks.events import public
from memolog.transfer.mastra import sections
from table import table

OWNER, THREAD = "alice", "t1"
AIM_MS = 50.0
CALLS = 8_000
PARALLEL = 500


# ---------------------------------------------------------------- holds


class Holds:
    """The longest callback of the loop, and the call that was running."""

    def __init__(self, *, profile: bool) -> None:
        self.longest, self.step, self.longest_step = 0.0, "", ""
        self.profile: cProfile.Profile | None = None
        self._wants_profile = profile

    def run(self, kept: Callable[[Any], None], handle: Any) -> None:
        """Run a callback of the loop and measure its time."""
        profile = cProfile.Profile() if self._wants_profile else None
        began = thread_time()
        if profile is None:
            kept(handle)
        else:
            profile.runcall(kept, handle)
        taken = thread_time() - began
        if taken > self.longest:
            self.longest, self.longest_step, self.profile = taken, self.step, profile


@contextmanager
def watched(holds: Holds) -> Generator[None]:
    """Measure the time of every callback of the loop."""
    kept: Callable[[Any], None] = vars(events.Handle)["_run"]

    def run(handle: Any) -> None:
        holds.run(kept, handle)

    setattr(events.Handle, "_run", run)  # noqa: B010 - a private name
    try:
        yield
    finally:
        setattr(events.Handle, "_run", kept)  # noqa: B010


# ---------------------------------------------------------------- hostile inputs

Feed = Callable[[Memory, Holds, Path], Awaitable[None]]


async def talk(memory: Memory, holds: Holds, *messages: NewMessage, words: str = "deploy") -> None:
    """Record messages in a turn, then make all other calls on the thread."""
    holds.step = "turn"
    async with memory.thread(THREAD, resource=OWNER).turn() as turn:
        await turn.prepare(UserMessage("Please deploy the service to staging on Friday."))
        for number, message in enumerate(messages):
            holds.step = f"record {number}"
            if message.role == "assistant":
                await turn.record(message)
            else:
                await turn.prepare(message)
        holds.step = "answer"
        await turn.record(AssistantMessage("It is deployed to staging."))
    await follow(memory, holds, words)


async def follow(memory: Memory, holds: Holds, words: str = "deploy") -> None:
    """Make the calls that a program makes after a turn: search, observe, status, recall and another turn."""
    steps: dict[str, Callable[[], Awaitable[object]]] = {
        "settled": memory.settled,
        "search": lambda: memory.resource(OWNER).search(words),
        "phrase": lambda: memory.resource(OWNER).search('"to staging"'),
        "observe": lambda: memory.thread(THREAD, resource=OWNER).observe(),
        "status": lambda: memory.thread(THREAD, resource=OWNER).status(),
        "recall": lambda: memory.resource(OWNER).recall(THREAD),
        "next turn": lambda: next_turn(memory),
        "settled again": memory.settled,
        "search again": lambda: memory.resource(OWNER).search(words),
        "compact": lambda: memory.thread(THREAD, resource=OWNER).compact(),
        "turn after compacting": lambda: next_turn(memory),
    }
    for name, step in steps.items():
        holds.step = name
        with suppress(MemologError):
            await step()


async def next_turn(memory: Memory) -> None:
    """Make a turn with a short message."""
    async with memory.thread(THREAD, resource=OWNER).turn() as turn:
        await turn.prepare(UserMessage("And what did we say about it?"))
        await turn.record(AssistantMessage("That it is deployed."))


def called(result: object, name: str = "run") -> tuple[NewMessage, NewMessage]:
    """Return a tool call and its result."""
    call = ToolCallPart(id="c1", name=name, arguments={"command": "make test"})
    return AssistantMessage(call), ToolMessage("c1", result, name=name)  # pyright: ignore[reportArgumentType]


def said(text: str, **more: Any) -> Feed:
    """Return a function that records one user message."""

    async def feed(memory: Memory, holds: Holds, _: Path) -> None:
        await talk(memory, holds, UserMessage(text, **more))

    return feed


def returned(result: object, name: str = "run") -> Feed:
    """Return a function that records one tool result."""

    async def feed(memory: Memory, holds: Holds, _: Path) -> None:
        await talk(memory, holds, *called(result, name))

    return feed


def many_calls(count: int, *, in_one: bool) -> Feed:
    """Return a function that records a message with many calls. Their results are in one message, or in one message each."""
    calls = [ToolCallPart(id=f"c{n}", name="read_file", arguments={"path": f"src/{n}.py"}) for n in range(count)]
    results = [ToolResultPart(call_id=f"c{n}", content=f"def f{n}(): pass", name="read_file") for n in range(count)]
    answers = (
        [NewMessage(role="tool", parts=tuple(results))]
        if in_one
        else [NewMessage(role="tool", parts=(one,)) for one in results]
    )

    async def feed(memory: Memory, holds: Holds, _: Path) -> None:
        holds.step = "turn"
        async with memory.thread(THREAD, resource=OWNER).turn() as turn:
            await turn.prepare(UserMessage("Read all of src, please."))
            holds.step = "calls"
            await turn.record(AssistantMessage(calls))
            holds.step = "results"
            await turn.prepare(*answers)
            await turn.record(AssistantMessage("That is all of it."))
        await follow(memory, holds)

    return feed


def unanswered(count: int) -> Feed:
    """Return a function that records calls without results, each followed by a question."""

    async def feed(memory: Memory, holds: Holds, _: Path) -> None:
        store = (await memory.open()).store
        for start in range(0, count, 100):
            some = [
                message
                for n in range(start, start + 100)
                for message in (
                    AssistantMessage(ToolCallPart(id=f"c{n}", name="run", arguments={"n": n})),
                    UserMessage(f"And what about {n}?"),
                )
            ]
            await store.messages.save(OWNER, THREAD, some)
        await follow(memory, holds)

    return feed


async def chatgpt(memory: Memory, holds: Holds, folder: Path) -> None:
    """Import an export with a long conversation."""
    mapping: dict[str, Any] = {}
    for number in range(CALLS):
        content = {"content_type": "text", "parts": [f"Message {number} about the deploy to staging."]}
        author = {"role": "user" if number % 2 == 0 else "assistant"}
        mapping[f"n{number}"] = {
            "id": f"n{number}",
            "parent": f"n{number - 1}" if number else None,
            "message": {
                "id": f"m{number}",
                "author": author,
                "content": content,
                "create_time": 1_700_000_000 + number,
            },
        }
    file = folder / "conversations.json"
    given = [{"conversation_id": THREAD, "title": "Long", "current_node": f"n{CALLS - 1}", "mapping": mapping}]
    file.write_text(json.dumps(given), "utf-8")
    holds.step = "import"
    await memory.import_from(file, resource=OWNER)
    await follow(memory, holds)


def plainly(work: Callable[[], object]) -> Feed:
    """Return a function that calls a synchronous function. It must be as fast as a callback of the loop."""

    async def feed(_: Memory, holds: Holds, __: Path) -> None:
        await asyncio.sleep(0)
        holds.step = "call"
        work()
        await asyncio.sleep(0)

    return feed


def lines_of(text: str, size: int) -> str:
    """Return a text, repeated until it has this many characters."""
    return text * (size // len(text))


INPUTS: Final[dict[str, Feed]] = {
    "plain": said("We deploy to staging on Friday."),
    "blank lines": returned("\n" * 100_000),
    "blanks and tabs": returned(lines_of(" \t\n", 100_000)),
    "tags to the hook": plainly(lambda: public("<" * 2_000 + " " * 12_000 + "private" + "<private" * 200)),
    "upper-case run": said("ACGT" * 3_000),
    "marks": said("[redacted: " * 9_000),
    "mastra section": plainly(lambda: sections('<thread id="a">' * 6_600)),
    "chatgpt": chatgpt,
    "calls": many_calls(CALLS, in_one=True),
    "parallel results": many_calls(PARALLEL, in_one=False),
    "unanswered calls": unanswered(2_000),
    "speaker": said("Hello there, deploy to staging.", speaker="Eve " * 2_500_000),
    "word": said("x" * 1_000_000),
    "word in a result": returned("x" * 1_000_000),
    "short lines": said(lines_of("a b\n", 400_000)),
    "short lines in a result": returned(lines_of("ok 1\n", 500_000)),
    "JSON in a result": returned([{"name": f"n{n}", "size": n} for n in range(20_000)]),
    "parts": lambda memory, holds, _: talk(
        memory, holds, UserMessage([TextPart(text=f"Line {n}.") for n in range(CALLS)])
    ),
    "quotes": said('"\\' * 50_000),
    "brackets": said("[(<{" * 25_000),
    "meanings": said("(meaning " * 11_000),
    "CJK": said("何" * 100_000),
    "markup": said("**a __b `c [d](e " * 6_000),
}


async def measured(feed: Feed, *, profile: bool) -> Holds:
    """Pass one input to a new memory."""
    holds = Holds(profile=profile)
    with tempfile.TemporaryDirectory(prefix="memolog-hold-", ignore_cleanup_errors=True) as name:
        async with Memory(str(Path(name) / "m.db"), config=Config()) as memory:
            await next_turn(memory)
            await memory.resource(OWNER).search("deploy")
            gc.collect()
            with watched(holds):
                await feed(memory, holds, Path(name))
                holds.step = "close"
                await memory.aclose()
    return holds


def main() -> None:
    """Measure, and print a table and one line of JSON."""
    parser = argparse.ArgumentParser(description="Measure how long hostile input blocks the event loop.")
    parser.add_argument("--only", default="", help="names of inputs, separated by commas")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--where", action="store_true", help="profile the longest callback of each input; slower")
    given = parser.parse_args()
    rounds: int = given.rounds
    rows: list[list[object]] = []
    result: dict[str, float] = {}
    for name in given.only.split(",") if given.only else INPUTS:
        began = perf_counter()
        found = min(
            (asyncio.run(measured(INPUTS[name], profile=given.where)) for _ in range(rounds)),
            key=lambda one: one.longest,
        )
        result[name] = round(found.longest * 1_000, 2)
        print(
            f"{name}: {result[name]} ms in {found.longest_step}, {perf_counter() - began:.1f} s in all",
            file=sys.stderr,
            flush=True,
        )
        rows.append([name, found.longest * 1_000, found.longest_step])
        if found.profile is not None:
            pstats.Stats(found.profile, stream=sys.stderr).sort_stats("cumulative").print_stats(40)
    print(table(["input", "longest hold ms", "in"], rows))
    print(
        json.dumps(
            {"aim_ms": AIM_MS, "above": [name for name, taken in result.items() if taken > AIM_MS], "ms": result}
        )
    )


if __name__ == "__main__":
    main()
