"""The demo: a real-looking conversation through the true pipeline, live.

Knows how to show a memory to a person. Runs on the embedded defaults and needs no key; its windows are small, so that a short
conversation fills them.
"""

import argparse
import asyncio
import json
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from rich.console import Console
from rich.panel import Panel
from rich.table import Table

from memolog.apps.demo_script import DAYS
from memolog.config import Config, ObservationConfig, ReflectionConfig
from memolog.context import Context
from memolog.domain.errors import MemologError
from memolog.domain.message import AssistantMessage, NewMessage, ToolCallPart, ToolMessage, UserMessage
from memolog.runtime.events import Activated, Event, GenerationMade, RunEnded, RunStarted
from memolog.runtime.memory import Memory

__all__ = ["main"]

RESOURCE, THREAD = "alice", "atlas"
CONFIG = Config(
    observation=ObservationConfig(message_tokens=900, previous_tokens=200),
    reflection=ReflectionConfig(observation_tokens=500),
)


class _DemoClock:
    """A clock that the demo sets to the days it plays."""

    def __init__(self) -> None:
        self.time = datetime(2026, 3, 16, 9, 0, tzinfo=UTC)

    def now(self) -> datetime:
        """Return the time it was set to."""
        return self.time


@dataclass(slots=True)
class _Tally:
    """What the demo counts while it plays."""

    steps: int = 0
    reused: list[float] = field(default_factory=list[float])
    previous: str = ""

    def add(self, context: Context) -> None:
        """Count one request."""
        text = context.render_without_edge()
        if self.previous:
            self.reused.append(_shared_length(self.previous, text) / len(self.previous))
        self.previous = text
        self.steps += 1


def _shared_length(one: str, other: str) -> int:
    return next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def _steps(day: int, number: int) -> Iterator[tuple[list[NewMessage], list[NewMessage]]]:
    """Yield what goes in and what comes out of each model request of one exchange."""
    question, tools, answer = DAYS[day][number]
    given: list[NewMessage] = [UserMessage(question)]
    for index, (name, target, result) in enumerate(tools):
        call_id = f"call_{day}_{number}_{index}"
        yield given, [AssistantMessage(ToolCallPart(id=call_id, name=name, arguments={"target": target}))]
        given = [ToolMessage(call_id, result, name=name)]
    yield given, [AssistantMessage(answer)]


async def play(address: str, console: Console) -> dict[str, object]:
    """Play the conversation; returns what happened."""
    clock, tally = _DemoClock(), _Tally()
    async with Memory(address, config=CONFIG, clock=clock) as memory:
        memory.subscribe(lambda event: _show_event(event, console))
        context = Context()
        for day in range(len(DAYS)):
            console.rule(f"[bold]{clock.now():%A %d %B}")
            for number in range(len(DAYS[day])):
                context = await _exchange(memory, clock, tally, day, number, console)
            clock.time = (clock.time + timedelta(days=1)).replace(hour=9, minute=0)
        status = await memory.status(THREAD, RESOURCE)
        store = (await memory.open()).store
        rows = await store.messages.after(RESOURCE, THREAD, 0)
    _show_context(context, console)
    return {
        "database": address,
        "messages": len(rows),
        "nothing_lost": [row.seq for row in rows] == list(range(1, status.last_seq + 1)),
        "covered_by_log": status.cursor,
        "generations": status.generation,
        "requests": tally.steps,
        "prompt_cache_reuse": round(sum(tally.reused) / max(1, len(tally.reused)), 3),
    }


async def _exchange(
    memory: Memory, clock: _DemoClock, tally: _Tally, day: int, number: int, console: Console
) -> Context:
    context = Context()
    console.print(f"[bold]user[/] {DAYS[day][number][0]}")
    async with memory.turn(THREAD, RESOURCE, zone="Europe/Berlin") as turn:
        for given, replied in _steps(day, number):
            context = await turn.prepare(*given)
            tally.add(context)
            await turn.record(*replied)
            clock.time += timedelta(minutes=2)
            await memory.settled()
    status = await memory.status(THREAD, RESOURCE)
    bar = _bar(status.messages.share), _bar(status.observations.share)
    console.print(
        f"[dim]tail {bar[0]} {status.messages.tokens:>5,}/{status.messages.limit:,}   "
        f"log {bar[1]} {status.observations.tokens:>5,}/{status.observations.limit:,}   "
        f"buffered {status.buffered_groups}[/]"
    )
    return context


def _bar(share: float) -> str:
    filled = min(10, round(share * 10))
    return "█" * filled + "░" * (10 - filled)


def _show_event(event: Event, console: Console) -> None:
    match event:
        case RunStarted():
            span = f" messages {event.first_seq}–{event.last_seq}" if event.first_seq else ""
            console.print(f"  [cyan]· {event.run_kind} in the background:{span}[/]")
        case RunEnded():
            console.print(f"  [cyan]· {event.run_kind} done: {event.observations} lines[/]")
        case Activated():
            console.print(
                f"  [green]· activated {len(event.groups)} groups: the log now covers up to {event.last_seq}[/]"
            )
        case GenerationMade():
            console.print(
                f"  [magenta]· generation {event.number}: the log went from {event.tokens_before:,} "
                f"to {event.tokens_after:,} tokens[/]"
            )
        case _:
            pass


def _show_context(context: Context, console: Console) -> None:
    console.rule("[bold]what the model sees at the last request")
    console.print(
        Panel(context.system, title="prefix: stable, cacheable", style="green", highlight=False), markup=False
    )
    tail = "\n".join(f"{m.role}: {' '.join(m.text.split())[:110] or '(tool)'}" for m in context.tail)
    console.print(Panel(tail, title="tail: the raw messages", highlight=False))
    console.print(Panel(context.edge_text, title="edge: now, never stored", style="yellow", highlight=False))


def _show_result(result: dict[str, object], console: Console) -> None:
    table = Table(title="in all", title_justify="left", show_header=False)
    for name, value in result.items():
        table.add_row(name.replace("_", " "), str(value))
    console.print(table)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demo; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="memolog-demo",
        description="Play a conversation of several days through the real pipeline and show what happens.",
        epilog="example: python -m memolog.apps.demo --db demo.db --json",
    )
    parser.add_argument("--db", help="where to keep it (default: a new temporary file)")
    parser.add_argument("--json", action="store_true", help="print one JSON object and nothing else")
    options = parser.parse_args(arguments)
    address = options.db or str(Path(tempfile.mkdtemp(prefix="memolog-demo-")) / "memolog.db")
    console = Console(quiet=options.json, highlight=False)
    try:
        result = asyncio.run(play(address, console))
    except MemologError as error:
        Console(stderr=True).print(f"[red]error[/red] {error}")
        return 1
    _show_result(result, console)
    if options.json:
        print(json.dumps(result))
    return 0 if result["nothing_lost"] else 1


if __name__ == "__main__":
    raise SystemExit(main())
