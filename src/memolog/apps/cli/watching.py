"""Verbs about what happens: watch and cost.

Knows how events and bills are shown. Events are read from the journal, so that those of every process show.
"""

from typing import TYPE_CHECKING, Annotated

import typer

from memolog.apps.cli.opening import moment_in
from memolog.apps.cli.telling import console, one_line, print_json, table, told
from memolog.apps.cli.verb import Answer, Call, InThread, verb

if TYPE_CHECKING:
    from rich.text import Text

    from memolog.domain.run import UsageTotal
    from memolog.store.journal import StoredEvent

__all__ = ["app"]

app = typer.Typer()

_COLOURS = {
    "Activated": "green",
    "Decided": "dim",
    "Degraded": "bold red",
    "GenerationMade": "magenta",
    "Recovered": "yellow",
    "RunEnded": "cyan",
    "RunFailed": "bold red",
    "RunStarted": "cyan",
    "Windows": "dim",
}


@verb(app, needs="resource", example="memolog watch --last 5 --seconds 0")
async def watch(
    call: Call,
    thread: InThread = None,
    last: Annotated[
        int, typer.Option("--last", "-n", help="How many past events are shown first.", min=0, max=1000)
    ] = 10,
    seconds: Annotated[
        float | None, typer.Option("--seconds", help="End after so long; without it, at Ctrl-C.", min=0)
    ] = None,
    every: Annotated[float, typer.Option("--every", help="How often to look, in seconds.", min=0.05)] = 0.5,
    kind: Annotated[list[str] | None, typer.Option("--kind", help="Only events of this kind; may be repeated.")] = None,
) -> Answer:
    """Show events as they happen, of every process that uses the database. With --json one object a line."""
    from asyncio import sleep

    journal, out = call.store.journal, console()

    def show(event: "StoredEvent") -> None:
        if kind and event.kind not in kind:
            return
        if call.as_json:
            print_json(event)
        else:
            out.print(_event(event), soft_wrap=True)

    # One more than is shown: with none to show, the newest still says where to go on.
    seen = await journal.newest(call.resource, thread=thread, limit=last + 1)
    for event in seen[len(seen) - min(last, len(seen)) :]:
        show(event)
    after, waited = (seen[-1].number if seen else 0), 0.0
    while seconds is None or waited < seconds:
        await sleep(every)
        waited += every
        for event in await journal.events(call.resource, thread=thread, after=after):
            show(event)
            after = event.number
    return Answer(data=None, is_printed=True)


def _event(event: "StoredEvent") -> "Text":
    words = "  ".join(
        f"{name}={one_line(str(value), 160)}" for name, value in event.data.items() if value not in (None, [], "")
    )
    text = told(f"{event.at:%m-%d %H:%M:%S} UTC ", "dim").append(f"{event.thread or '–':<12} ", style="dim")
    return text.append(f"{event.kind:<16} ", style=_COLOURS.get(event.kind, "bold")).append(words)


@verb(app, needs="resource", example="memolog cost --since 30d")
async def cost(
    call: Call,
    thread: InThread = None,
    task: Annotated[str | None, typer.Option("--task", help="Only what this task cost.")] = None,
    since: Annotated[
        str | None, typer.Option("--since", help="Only from this date, time or age on: 2026-03-14, 3h, 30d.")
    ] = None,
) -> Answer:
    """Show what was spent, by kind of work and by model, and what is left of the budget."""
    start = moment_in(since, call.memory.clock.now()) if since else None
    named = (await call.memory.tasks(call.resource).get(task)).id if task else None
    lines = await call.store.ledger.lines(call.resource, thread=thread, task=named, since=start)
    total = await call.store.ledger.total(call.resource, thread=thread, task=named, since=start)
    rows = [
        (line.kind, line.model, *(f"{n:,}" for n in _numbers(line.total)), f"${line.total.cost:.4f}") for line in lines
    ]
    rows.append(("all", "", *(f"{n:,}" for n in _numbers(total)), f"${total.cost:.4f}"))
    heads = ("work!", "model", ">requests", ">input", ">output", ">cache read", ">cost")
    return Answer(
        data={"resource": call.resource, "lines": lines, "total": total, "budget": call.config.budget},
        show=lambda: table(heads, rows),
    )


def _numbers(total: "UsageTotal") -> tuple[int, int, int, int]:
    return total.requests, total.input_tokens, total.output_tokens, total.cache_read_tokens
