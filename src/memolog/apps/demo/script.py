"""The conversation of the demo, read from `talk/`, and how it is played through a memory and measured.

= 2026-03-02 09:05 scene    start of an exchange, with the name of its scene if it has one
> …                         text of the user; lines indented by four continue it
@ tool what                 a tool call; `  + ` lines are its content, indented lines its result (`@!` if it failed)
< …                         text of the assistant
"""

import hashlib
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cache
from importlib.resources import files
from typing import Final
from zoneinfo import ZoneInfo

from memolog import Context
from memolog.core.config import Config, ObservationConfig, ReflectionConfig
from memolog.core.exact_json import JsonObject
from memolog.core.message import AssistantMessage, NewMessage, ToolCallPart, ToolMessage, UserMessage
from memolog.core.settings import KeepRecent
from memolog.memory import Memory
from memolog.testing import FakeClock
from memolog.text.message_tokens import count_message
from memolog.text.tokens import HeuristicCounter
from memolog.turn import Turn

RESOURCE: Final = "mira"
THREADS: Final = ("api", "web", "ops")
ZONE: Final = "Europe/Berlin"
_BERLIN: Final = ZoneInfo(ZONE)
# Longer than the lease of a run, so that it has expired at the first message after the crash.
_BETWEEN: Final = timedelta(seconds=45)
_GIVEN: Final = "  + "
_INDENT: Final = "    "


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One request to the model: the new message and the reply."""

    given: NewMessage
    reply: NewMessage


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """From a user message to the final answer."""

    thread: str
    at: datetime
    scene: str | None
    said: str
    steps: tuple[Step, ...]


@dataclass(slots=True)
class _Entry:
    """One marked line of the notes with its continuation lines."""

    mark: str
    head: str
    given: list[str]
    lines: list[str]


@cache
def script() -> tuple[Exchange, ...]:
    """Return all exchanges of the three threads in order of time."""
    found = [exchange for thread in THREADS for exchange in _read(thread)]
    return tuple(sorted(found, key=lambda exchange: exchange.at))


def _read(thread: str) -> Iterator[Exchange]:
    text = files("memolog.apps.demo").joinpath("talk", f"{thread}.txt").read_text("utf-8")
    entries = list(_entries(text))
    starts = [index for index, entry in enumerate(entries) if entry.mark == "="]
    count = 0
    for start, end in zip(starts, [*starts[1:], len(entries)], strict=True):
        exchange = _exchange(thread, entries[start], entries[start + 1 : end], count)
        count += 2 * len(exchange.steps)
        yield exchange


def _entries(text: str) -> Iterator[_Entry]:
    entry: _Entry | None = None
    for line in text.splitlines():
        if line[:1] in {"=", ">", "<", "@"}:
            if entry is not None:
                yield entry
            mark, _, head = line.partition(" ")
            entry = _Entry(mark, head, [], [])
        elif entry is not None and line.startswith("  +"):
            entry.given.append(line[len(_GIVEN) :])
        elif entry is not None and line.startswith(_INDENT):
            entry.lines.append(line[len(_INDENT) :])
    if entry is not None:
        yield entry


def _exchange(thread: str, header: _Entry, entries: list[_Entry], count: int) -> Exchange:
    day, time, *scene = header.head.split()
    at = datetime.fromisoformat(f"{day}T{time}").replace(tzinfo=_BERLIN)
    said = "\n".join([entries[0].head, *entries[0].lines])
    messages: list[NewMessage] = [UserMessage(said, speaker="Mira")]
    for entry in entries[1:]:
        messages += _messages(entry, f"{thread}-call-{count + len(messages)}")
    stamped = [
        replace(message, id=f"{thread}-{count + number:03d}", created_at=at + number * _BETWEEN)
        for number, message in enumerate(messages, start=1)
    ]
    pairs = zip(stamped[::2], stamped[1::2], strict=True)
    steps = tuple(Step(given=given, reply=reply) for given, reply in pairs)
    return Exchange(thread=thread, at=at, scene=scene[0] if scene else None, said=said, steps=steps)


def _messages(entry: _Entry, call_id: str) -> Iterator[NewMessage]:
    """Yield an answer, or a call and its result."""
    if entry.mark == "<":
        yield AssistantMessage("\n".join([entry.head, *entry.lines]))
        return
    name, _, target = entry.head.partition(" ")
    key = "command" if name == "run" else "query" if name == "search_code" else "path"
    arguments: JsonObject = {key: target}
    if entry.given:
        arguments["content"] = "\n".join(entry.given) + "\n"
    yield AssistantMessage(ToolCallPart(id=call_id, name=name, arguments=arguments))
    yield ToolMessage(call_id, "\n".join(entry.lines), name=name, is_error=entry.mark == "@!")


CONFIG: Final = Config(
    observation=ObservationConfig(message_tokens=1_200, buffer_tokens=0.3, previous_tokens=200),
    reflection=ReflectionConfig(observation_tokens=2_400, keep_recent=KeepRecent(hours=12, observations=12)),
    # Activate after a night, not after a lunch break: so windows fill during the day.
    activate_after_idle=10 * 3600,
    task_lease=24 * 3600,
)


def open_memory(address: str, clock: FakeClock, name: str) -> Memory:
    """Return the memory of one process of the demo; `name` makes its ids unique."""
    return Memory(address, config=CONFIG, clock=clock, chance=_repeatable(name))


def _repeatable(name: str) -> Callable[[int], int]:
    """Return a deterministic source of random bits, so that every run shows the same."""
    count = 0

    def chance(bits: int) -> int:
        nonlocal count
        count += 1
        return int.from_bytes(hashlib.sha256(f"{name} {count}".encode()).digest(), "big") >> (256 - bits)

    return chance


PRICE: Final = 3.0
"""Sample price in US dollars for a million input tokens."""
CACHED_PRICE: Final = 0.3
"""Sample price for cached input tokens."""
# How long a provider keeps a prompt after its last use.
_WARM: Final = timedelta(minutes=5)


@dataclass(slots=True)
class Side:
    """Tokens sent with memory, or without."""

    sent: int = 0
    reused: float = 0.0
    last: int = 0

    def add(self, tokens: int, reused: float) -> None:
        """Count a request."""
        self.sent += tokens
        self.reused += reused
        self.last = tokens

    @property
    def cost(self) -> float:
        """Return the cost in US dollars."""
        return ((self.sent - self.reused) * PRICE + self.reused * CACHED_PRICE) / 1_000_000


@dataclass(slots=True)
class _Seen:
    """The last request of a thread."""

    at: datetime
    text: str
    history: int


@dataclass(slots=True)
class Tally:
    """Counts the requests of all threads."""

    requests: int = 0
    warm_sent: int = 0
    with_memory: Side = field(default_factory=Side)
    without: Side = field(default_factory=Side)
    largest: tuple[int, int] = (0, 0)
    """Tokens of the largest request: without memory, and with it."""
    _seen: dict[str, _Seen] = field(default_factory=dict[str, _Seen])

    def add(self, thread: str, context: Context, history: int, at: datetime) -> None:
        """Count a request with memory, and the same with the whole history."""
        text, total = context.render_without_edge(), context.tokens.total
        before = self._seen.get(thread)
        reused = kept = 0.0
        if before is not None and at - before.at < _WARM:
            same = _shared(before.text, text) / max(1, len(text))
            reused = same * (context.tokens.prefix + context.tokens.tail)
            kept = before.history
            self.warm_sent += total
        self.requests += 1
        self.with_memory.add(total, reused)
        self.without.add(history, kept)
        self.largest = max(self.largest, (history, total))
        self._seen[thread] = _Seen(at, text, history)


def _shared(one: str, other: str) -> int:
    return next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


_COUNTER = HeuristicCounter()


@dataclass(slots=True)
class Played:
    """The messages played so far, and their token counts."""

    said: dict[str, list[NewMessage]] = field(default_factory=dict[str, list[NewMessage]])
    history: dict[str, int] = field(default_factory=dict[str, int])
    """Number of tokens of the messages of each thread."""
    tally: Tally = field(default_factory=Tally)

    def add(self, thread: str, message: NewMessage) -> None:
        """Add a message."""
        self.said.setdefault(thread, []).append(message)
        self.history[thread] = self.history.get(thread, 0) + count_message(message, _COUNTER)


async def play_exchange(
    memory: Memory,
    clock: FakeClock,
    exchange: Exchange,
    played: Played,
    *,
    stored: frozenset[str] = frozenset(),
    answer: Callable[[Context, Step], Awaitable[NewMessage]] | None = None,
    saved: Callable[[NewMessage], None] | None = None,
) -> None:
    """Play one exchange; steps that a killed process has `stored` are skipped.

    `answer` replaces the last reply of the script; `saved` is called for each stored message.
    """
    async with memory.thread(exchange.thread, resource=RESOURCE).turn(zone=ZONE) as turn:
        for number, step in enumerate(exchange.steps, start=1):
            played.add(exchange.thread, step.given)
            if step.reply.id in stored:
                played.add(exchange.thread, step.reply)
                continue
            context = await _prepare(turn, clock, step, played)
            if saved:
                saved(step.given)
            reply = step.reply
            if answer is not None and number == len(exchange.steps):
                reply = replace(reply, parts=(await answer(context, step)).parts)
            clock.time = reply.created_at or clock.time
            await turn.record(reply)
            played.add(exchange.thread, reply)
            if saved:
                saved(reply)
            # Wait for background work after each step, so that every run shows the same.
            await memory.settled()
    await memory.settled()


async def _prepare(turn: Turn, clock: FakeClock, step: Step, played: Played) -> Context:
    clock.time = step.given.created_at or clock.time
    context = await turn.prepare(step.given)
    played.tally.add(turn.thread, context, played.history[turn.thread], clock.time)
    return context
