"""Measure what memory adds to an agent's turn: time, tokens, bytes and waits. The model is scripted.

    make bench-turn ARGS="--messages 50000 --only chat_and_tools,flatness"

A turn is measured from its beginning to its end, without the time of the agent's model. A step of a turn with tools is measured
from its input to the recorded answer. All storage is included, on a SQLite file with the default settings. Background work runs
during the time in which the agent's model would answer, as in real use.

- chat_and_tools: a long conversation of questions and answers, with a turn with tools from time to time.
  `prefix_reuse` is the share of a prompt, without its edge, with which the next prompt begins.
  `context_excess` is the part of a context above message_tokens × block_after and its log.
  `observer_tokens_per_raw_token` are the tokens that observer and reflector get for each token of conversation, and
  `answered_tokens_per_raw_token` the tokens of their replies.
  `request_tokens` are the tokens of a request to the agent's model, and `cached_share` the share that a prompt cache can serve.
- slow_model: tool results of 2,000 tokens, a step every 50 ms, and observers that take 0.5 s and 2 s. A stall is a step that
  memory delays by more than 100 ms.
- flatness: the time of a turn in a file with a long history, divided by the time in an empty file. Blocks of both alternate.
- resource_200: 200 threads share one log. `resource_observer_tokens_per_raw_token` is like above. Background work and the first
  turn of each thread are included.

p10 and the processor time of the thread show the speed on a machine without other load. Nothing here is a test: no time is
asserted. The table is followed by one line of JSON.
"""

import argparse
import asyncio
import json
import random
import re
import resource
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from time import perf_counter, thread_time
from typing import Any

from bench_store import Site, Texts, fill, progress, ratio, show, temporary_folder
from memolog.context.context import Context
from memolog.core.clock import SystemClock
from memolog.core.config import Config
from memolog.core.message import AssistantMessage, NewMessage, ToolCallPart, ToolMessage, UserMessage
from memolog.log.journal import StoredEvent
from memolog.memory import Memory
from memolog.observer.model import ModelReply, ModelRequest
from memolog.testing import ScriptedModel, observations_of
from memolog.text.tokens import HeuristicCounter
from table import median, percentile, table

OWNER, THREAD = "alice", "t1"
QUESTION, ANSWER, RESULT = 120, 180, 2_000
CHARACTERS_A_TOKEN = 4
TOOL_TURNS, TOOL_STEPS = 30, 10
WARM_TURNS = 200
STEP_SECONDS = 0.05
STALL_SECONDS = 0.1
THREADS = 2_000
RESOURCE_THREADS = 200
BLOCK = 100
CLOCK = SystemClock()
COUNTER = HeuristicCounter()
# The numbers of the messages in the prompt of an observer, and the beginning of each message.
SHOWN = re.compile(r"^<message>\[(\d+)\][^\n]*\n([^\n]{1,100})", re.MULTILINE)
SAID = re.compile(r"Message \d+ was said \[(\d+)\]")

AIMS = {
    "added_p50_ms": 1.5,
    "added_p95_ms": 4.0,
    "waits": 0,
    "context_excess": 0,
    "prefix_reuse_outside_activation": 1.0,
    "rss_growth_mb": 30,
    "observer_tokens_per_raw_token": 1.8,
    "stalls_0.5s": 0,
    "stalls_2s": 6,
    "longest_wait_2s": 2.0,
    "context_excess_0.5s": 0,
    "context_excess_2s": 0,
    "flatness": 1.2,
    "resource_added_p50_ms": 5.0,
    "resource_observer_tokens_per_raw_token": 2.2,
}


# ---------------------------------------------------------------- the conversation


class Talk:
    """Makes texts of a wanted length, and counts their tokens."""

    def __init__(self, seed: int) -> None:
        self._texts = Texts(seed)
        self.tokens = self.bytes = self._calls = 0

    def text(self, tokens: int) -> str:
        """Return a new text of this many tokens."""
        wanted, text = tokens * CHARACTERS_A_TOKEN, ""
        while len(text) < wanted:
            text += self._texts.text() + " "
        self.tokens += tokens
        self.bytes += wanted
        return text[:wanted]

    def question(self) -> NewMessage:
        """Return a user message."""
        return UserMessage(self.text(QUESTION))

    def answer(self) -> NewMessage:
        """Return an answer of the agent's model."""
        return AssistantMessage(self.text(ANSWER))

    def call(self) -> tuple[NewMessage, NewMessage]:
        """Return a tool call and its result."""
        self._calls += 1
        call = ToolCallPart(id=f"call-{self._calls}", name="read_file", arguments={"path": f"src/{self._calls}.py"})
        return AssistantMessage(call), ToolMessage(call.id, self.text(RESULT), name=call.name)


class Observer(ScriptedModel):
    """Replies with observations, and counts the tokens of its requests."""

    def __init__(self, seconds: float = 0.0) -> None:
        super().__init__(seconds=seconds)
        self.sent = self.answered = 0

    async def complete(self, request: ModelRequest) -> ModelReply:
        """Return an observation of every second message, or a short reflection."""
        self.sent += COUNTER.count(request.system) + COUNTER.count(request.text)
        if request.purpose == "observe":
            self.answers.append(in_their_words)
        reply = await super().complete(request)
        self.answered += COUNTER.count(reply.text)
        self.requests.clear()
        return reply


def in_their_words(request: ModelRequest) -> str:
    """Reply with the beginnings of the messages, because repeated or invented observations would be refused."""
    said = dict(SHOWN.findall(request.text))
    return SAID.sub(lambda hit: f"{said.get(hit[1], hit[0])} [{hit[1]}]", observations_of(request))


@asynccontextmanager
async def remembering(path: Path, model: Observer, config: Config | None = None) -> AsyncGenerator[Memory]:
    """Open a memory on a file."""
    async with Memory(str(path), model=model, config=config) as memory:
        yield memory


# ---------------------------------------------------------------- measuring


class Stopwatch:
    """Adds the times between starts and stops, and stores elapsed time and thread time of each lap in milliseconds."""

    def __init__(self) -> None:
        self.laps: list[float] = []
        self.cpu: list[float] = []
        self._total = self._used = self._started = self._began = 0.0

    def start(self) -> None:
        """Start or continue."""
        self._began = thread_time()
        self._started = perf_counter()

    def stop(self) -> None:
        """Pause."""
        self._total += perf_counter() - self._started
        self._used += thread_time() - self._began

    def lap(self) -> None:
        """Stop, and begin the next lap."""
        self.stop()
        self.laps.append(self._total * 1_000)
        self.cpu.append(self._used * 1_000)
        self._total = self._used = 0.0

    def figures(self, name: str) -> dict[str, float]:
        """Return the percentiles of the laps."""
        found = {f"{name}_p{share}_ms": percentile(self.laps, share / 100) for share in (10, 50, 95, 99)}
        return found | {f"{name}_cpu_p50_ms": median(self.cpu)}


@dataclass(slots=True, kw_only=True)
class Seen:
    """Measurements of the contexts of one thread, in their order."""

    config: Config
    last: bytes = b""
    at: list[datetime] = field(default_factory=list[datetime])
    reuse: list[float] = field(default_factory=list[float])
    most: int = 0
    excess: int = -sys.maxsize
    asked: int = 0
    cached: float = 0.0

    def look(self, context: Context) -> None:
        """Compare a context with the one before it."""
        text = context.render_without_edge().encode()
        if self.last:
            common = shared(self.last, text)
            self.reuse.append(common / len(self.last))
            self.cached += (context.tokens.total - context.tokens.edge) * common / len(text)
        self.asked += context.tokens.total
        self.last = text
        self.at.append(CLOCK.now())
        self.measure(context)

    def measure(self, context: Context) -> None:
        """Store the size of a context."""
        self.most = max(self.most, context.tokens.total)
        # The newest messages may exceed the limit, because they are shown before they can be observed.
        newest = max((COUNTER.count(message.render()) for message in context.tail[-1:]), default=0)
        self.excess = max(self.excess, context.tokens.tail - newest - self.config.block_at_for(0))

    def outside(self, changes: Sequence[datetime]) -> list[float]:
        """Return the reuse of each context whose log is the same as in the context before it."""
        pairs = zip(self.at, self.at[1:], self.reuse, strict=False)
        return [reuse for before, after, reuse in pairs if not any(before < change <= after for change in changes)]


def shared(one: bytes, other: bytes) -> int:
    """Return the length in bytes of the common beginning of two texts."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if one[:middle] == other[:middle] else (low, middle - 1)
    return low


async def journal(memory: Memory) -> list[StoredEvent]:
    """Return all measurements."""
    store = (await memory.open()).store
    found: list[StoredEvent] = []
    while page := await store.journal.events(OWNER, after=found[-1].number if found else 0):
        found += page
    return found


def waits(events: Sequence[StoredEvent]) -> int:
    """Return how often a turn waited for an observation."""
    return sum(event.kind == "Decided" and event.data["decision"] == "Observe" for event in events)


def resident_mb() -> float:
    """Return the RAM of the process in MiB, without the pages of mapped files if the system reports this."""
    try:
        lines = Path("/proc/self/status").read_text("ascii").splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon:")) / 1_024
    except (OSError, StopIteration):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 << 20 if sys.platform == "darwin" else 1 << 10)


# ---------------------------------------------------------------- turns

Look = Callable[[Context], None]
Think = Callable[[], Awaitable[None]]


def unseen(context: Context) -> None:
    """Do nothing."""
    del context


async def chat(memory: Memory, thread: str, talk: Talk, watch: Stopwatch, look: Look = unseen) -> None:
    """Ask and answer once, as a lap."""
    question, answer = talk.question(), talk.answer()
    watch.start()
    async with memory.thread(thread, resource=OWNER).turn() as turn:
        context = await turn.prepare(question)
        watch.stop()
        look(context)
        await memory.settled()
        watch.start()
        await turn.record(answer)
    watch.lap()
    await memory.settled()


async def work(memory: Memory, talk: Talk, steps: int, watch: Stopwatch, think: Think, look: Look) -> None:
    """Make one turn with this many tool calls. Each step is a lap."""
    news = talk.question()
    watch.start()
    async with memory.thread(THREAD, resource=OWNER).turn() as turn:
        for _ in range(steps):
            context = await turn.prepare(news)
            watch.stop()
            look(context)
            await think()
            call, news = talk.call()
            watch.start()
            await turn.record(call)
            watch.lap()
            watch.start()
        context = await turn.prepare(news)
        watch.stop()
        look(context)
        await think()
        watch.start()
        await turn.record(talk.answer())
    watch.lap()


# ---------------------------------------------------------------- the four measurements


async def chat_and_tools(folder: Path, turns: int) -> dict[str, float]:
    """Measure a long conversation."""
    path, model, talk = folder / "chat.db", Observer(), Talk(1)
    seen, watch, start_mb = Seen(config=Config()), Stopwatch(), 0.0
    async with remembering(path, model) as memory:
        for number in range(turns):
            await chat(memory, THREAD, talk, watch, seen.look)
            if number % max(2, turns // TOOL_TURNS) == 1:
                await work(memory, talk, TOOL_STEPS, watch, memory.settled, seen.look)
                await memory.settled()
            if number == min(WARM_TURNS, turns // 2):
                start_mb = resident_mb()
        growth = resident_mb() - start_mb
        events = await journal(memory)
    changes = [event.at for event in events if event.kind in {"Activated", "GenerationMade"}]
    return watch.figures("added") | {
        "waits": waits(events),
        "context_tokens_max": seen.most,
        "context_excess": max(0, seen.excess),
        "prefix_reuse": sum(seen.reuse) / len(seen.reuse),
        "prefix_reuse_outside_activation": min(seen.outside(changes)),
        "activations": len(changes),
        "db_bytes_per_raw_byte": path.stat().st_size / talk.bytes,
        "rss_growth_mb": growth,
        "observer_tokens_per_raw_token": model.sent / talk.tokens,
        "answered_tokens_per_raw_token": model.answered / talk.tokens,
        "raw_tokens": talk.tokens,
        "requests": len(seen.at),
        "request_tokens": seen.asked / len(seen.at),
        "cached_share": seen.cached / seen.asked,
    }


async def slow_model(folder: Path, seconds: float, steps: int = 100) -> dict[str, float]:
    """Measure a turn of many tool calls with a slow observer."""
    seen, watch, name = Seen(config=Config()), Stopwatch(), f"{seconds:g}s"
    async with remembering(folder / f"slow-{name}.db", Observer(seconds)) as memory:
        await work(memory, Talk(2), steps, watch, lambda: asyncio.sleep(STEP_SECONDS), seen.measure)
        await memory.settled()
    return {
        f"stalls_{name}": sum(took > STALL_SECONDS * 1_000 for took in watch.laps),
        f"longest_wait_{name}": max(watch.laps) / 1_000,
        f"waited_{name}": sum(took for took in watch.laps if took > STALL_SECONDS * 1_000) / 1_000,
        f"context_tokens_max_{name}": seen.most,
        f"context_excess_{name}": max(0, seen.excess),
    }


async def flatness(folder: Path, messages: int, repeats: int) -> dict[str, float]:
    """Measure turns in a file with a long history and in an empty file, in alternating blocks."""
    blocks: tuple[list[Stopwatch], list[Stopwatch]] = ([], [])
    talk = Talk(3)
    async with remembering(folder / "bare.db", Observer()) as bare, remembering(folder / "full.db", Observer()) as full:
        places = [(OWNER if index % 2 else f"user-{index}", f"old-{index}") for index in range(THREADS)]
        store = (await full.open()).store
        site = Site(store=store, size=messages, texts=Texts(4), chance=random.Random(4), threads=places)
        await fill(site, "history")
        for memory in (bare, full):
            for _ in range(WARM_TURNS):
                await chat(memory, THREAD, talk, Stopwatch())
        for _ in progress("flatness", repeats):
            for memory, kept in zip((bare, full), blocks, strict=True):
                kept.append(Stopwatch())
                for _ in range(BLOCK):
                    await chat(memory, THREAD, talk, kept[-1])
    without, along = ([median(watch.laps) for watch in kept] for kept in blocks)
    cpu_without, cpu_along = ([median(watch.cpu) for watch in kept] for kept in blocks)
    return {
        "flatness": ratio(along, without),
        "flatness_cpu": ratio(cpu_along, cpu_without),
        "bare_added_p50_ms": median(without),
        "full_added_p50_ms": median(along),
    }


async def resource_200(folder: Path, turns: int) -> dict[str, float]:
    """Measure turns of threads that share a log."""
    talk, model, chance, watch = Talk(5), Observer(), random.Random(5), Stopwatch()
    async with remembering(folder / "resource.db", model, Config(scope="resource")) as memory:
        for number in range(RESOURCE_THREADS):
            await chat(memory, f"t{number}", talk, Stopwatch())
        for _ in range(turns):
            await chat(memory, f"t{chance.randrange(RESOURCE_THREADS)}", talk, watch)
    # The count includes the first turn of every thread and all background work, because `chat` waits for it.
    return watch.figures("resource_added") | {
        "resource_observer_tokens_per_raw_token": model.sent / talk.tokens,
        "resource_answered_tokens_per_raw_token": model.answered / talk.tokens,
    }


# ---------------------------------------------------------------- the report

Bench = Callable[[Path], Awaitable[dict[str, float]]]


async def run(options: argparse.Namespace) -> dict[str, dict[str, float]]:
    """Run each selected measurement several times, and return the median of each number."""
    repeats: int = options.repeats

    async def slow(folder: Path) -> dict[str, float]:
        return await slow_model(folder, 0.5) | await slow_model(folder, 2.0)

    benches: dict[str, tuple[Bench, int]] = {
        "chat_and_tools": (lambda folder: chat_and_tools(folder, options.turns), repeats),
        "slow_model": (slow, 1),
        "flatness": (lambda folder: flatness(folder, options.messages, 3 * repeats), 1),
        "resource_200": (lambda folder: resource_200(folder, options.turns // 4), repeats),
    }
    results: dict[str, dict[str, float]] = {}
    for name in options.only.split(","):
        bench, times = benches[name]
        found: list[dict[str, float]] = []
        for number in range(times):
            show(f"{name}, {number + 1} of {times}", lasting=True)
            with temporary_folder() as folder:
                found.append(await bench(folder))
        results[name] = {key: round(median(one[key] for one in found), 4) for key in found[0]}
    return results


def report(results: dict[str, dict[str, Any]]) -> str:
    """Return the table for people."""
    lines = [[f"{name} {key}", value, AIMS.get(key)] for name, found in results.items() for key, value in found.items()]
    return f"{table(['measurement', 'value', 'aim'], lines)}\n"


def main() -> None:
    """Read the arguments, measure, print."""
    parser = argparse.ArgumentParser(description="Measure what memory adds to an agent's turn.")
    parser.add_argument("--messages", type=int, default=1_000_000, help="number of messages in the file with a history")
    parser.add_argument("--turns", type=int, default=2_000, help="number of turns; some have 10 tool steps")
    parser.add_argument("--repeats", type=int, default=3, help="number of measurements")
    parser.add_argument(
        "--only", default="chat_and_tools,slow_model,flatness,resource_200", help="names, separated by commas"
    )
    results = asyncio.run(run(parser.parse_args()))
    print(report(results))
    print(json.dumps(results))


if __name__ == "__main__":
    main()
