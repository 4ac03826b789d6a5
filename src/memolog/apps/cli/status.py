"""Show the state of a memory: `status`, `threads`, `log`, `context`, `watch` and `cost`."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from memolog.apps.cli.command import Answer, Call, InThread, listing, moment_in, verb
from memolog.apps.cli.output import (
    COLOURS,
    bar,
    clean,
    console,
    counted,
    day,
    fields,
    local,
    one_line,
    print_json,
    styled,
    when,
)
from memolog.core.exact_json import encode
from memolog.core.observation import MARKS, Observation

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

    from memolog import Context
    from memolog.core.run import UsageTotal
    from memolog.core.thread import ThreadInfo
    from memolog.log.journal import StoredEvent
    from memolog.log.snapshot import GroupRow
    from memolog.log.status import Status

app = typer.Typer()
# Maximum number of resources whose threads are listed.
_MOST_RESOURCES = 200


# ---------------------------------------------------------------- status


@verb(app, example="memolog status --thread atlas")
async def status(call: Call) -> Answer:
    """Show the state of a thread: token counts, backlog, health and cost."""
    found, thread = await call.of_thread.status(), await call.of_thread.info()
    data = {
        "database": call.shown_address,
        **encode(found),
        "title": thread.title or thread.hints.title,
        "current_task": thread.hints.current_task,
        "updated_at": encode(thread.updated_at),
    }
    return Answer(data=data, show=lambda: show_status(found, thread))


def show_status(found: "Status", thread: "ThreadInfo | None" = None) -> "RenderableType":
    """Render a status."""
    colour = {"ok": "green", "behind": "yellow", "failing": "bold red"}[found.health]
    title, task = (thread.title or thread.hints.title, thread.hints.current_task) if thread else (None, None)
    buffered = f"{counted(found.buffered_groups, 'group')} over {counted(found.buffered_tokens, 'token')}"
    covered = f"covers {found.cursor} of {counted(found.last_seq, 'message')}"
    dropped = f"{counted(found.dropped, 'line')}; search finds them, and `memolog revert` restores them"
    error = f"{when(found.last_error_at)}  {one_line(found.last_error)}" if found.last_error else None
    used = found.usage
    read = used.input_tokens + used.cache_read_tokens + used.cache_write_tokens
    return fields(
        [
            ("thread", f"{found.thread}  ·  resource {found.resource}  ·  scope {found.scope}"),
            ("title", title or None),
            ("current task", task or None),
            ("health", styled(found.health, colour)),
            ("messages", bar(found.messages.tokens, found.messages.limit)),
            ("observations", bar(found.observations.tokens, found.observations.limit)),
            ("buffered", f"{buffered}; {found.running} running"),
            ("not observed", f"{found.backlog_tokens:,} tokens"),
            ("log", f"{counted(found.groups, 'group')}, generation {found.generation}, {covered}"),
            ("last success", when(found.last_success_at)),
            ("dropped", dropped if found.dropped else None),
            ("last error", error),
            ("tokens", f"{read:,} read and {used.output_tokens:,} written by models"),
            ("cost", f"{counted(used.requests, 'request')}, ${used.cost:.4f}"),
            ("budget left", None if found.budget_left is None else f"${found.budget_left:.4f}"),
        ]
    )


# ---------------------------------------------------------------- threads


@verb(app, needs="database", example="memolog threads --resource alice --limit 5")
async def threads(
    call: Call,
    resource: Annotated[
        str | None, typer.Option("--resource", "-r", envvar="MEMOLOG_RESOURCE", help="Only this resource.")
    ] = None,
    limit: Annotated[int, typer.Option(help="Maximum number of threads per resource.", min=1)] = 20,
) -> Answer:
    """List threads of one resource or of all resources, newest activity first."""
    owners = [resource] if resource else (await call.memory.resources())[:_MOST_RESOURCES]
    found = [one for owner in owners for one in (await call.memory.resource(owner).threads(limit=limit)).items]
    return listing(
        {"threads": found},
        found,
        ("resource", "thread!", ">messages", "last activity!", "title"),
        lambda t: (t.resource, t.id, str(t.last_seq), when(t.updated_at), one_line(t.title or t.hints.title or "", 60)),
        "There are no threads.",
    )


# ---------------------------------------------------------------- log


@verb(app, example="memolog log --sources --priority high")
async def log(
    call: Call,
    sources: Annotated[bool, typer.Option("--sources", "-s", help="Show the source messages of each line.")] = False,
    priority: Annotated[
        list[str] | None, typer.Option("--priority", "-p", help="Only high, medium, low or done; repeatable.")
    ] = None,
    last: Annotated[int | None, typer.Option("--last", "-n", help="Only the newest lines, this many.", min=1)] = None,
) -> Answer:
    """Show the log: observations by day, coloured by priority."""
    wanted = _priorities(priority)
    lines = [line for line in await call.of_thread.log() if line.priority in wanted]
    lines = lines[-last:] if last else lines
    handles = {group.id: group.handle for group in await call.of_thread.groups()}
    data = {
        "resource": call.resource,
        "thread": call.thread,
        "generation": (await call.of_thread.status()).generation,
        "observations": [{**encode(line), "handle": handles.get(line.group)} for line in lines],
    }
    return Answer(data=data, show=lambda: _show_log(lines, handles, sources=sources), code=0 if lines else 1)


def _priorities(given: Sequence[str] | None) -> frozenset[str]:
    unknown = set(given or ()) - MARKS.keys()
    if unknown:
        raise typer.BadParameter(f"priority must be one of {', '.join(MARKS)}, got {min(unknown)!r}.")
    return frozenset(given or MARKS)


def _show_log(lines: Sequence[Observation], handles: dict[str, str], *, sources: bool) -> "RenderableType":
    from rich.text import Text

    if not lines:
        return styled("The log has no such line yet.", "dim")
    return Text("\n").join(_log_lines(lines, handles, sources=sources))


def _log_lines(lines: Sequence[Observation], handles: dict[str, str], *, sources: bool) -> "Iterator[Text]":
    shown_day, group = None, None
    for line in lines:
        said = local(line.said_at, line.zone) if line.said_at else None
        if (today := day(said)) != shown_day or line.group != group:
            yield styled(f"\n{today}  ", "bold").append(handles.get(line.group, ""), style="cyan")
            shown_day, group = today, line.group
        at = f"{said:%H:%M} " if said else ""
        indent = "    " if line.parent is not None else "  "
        text = styled(f"{indent}{MARKS[line.priority]} {at}", "dim").append(
            one_line(line.text, 2_000), style=COLOURS[line.priority]
        )
        if not line.grounded:
            text.append("  (not found in its sources)", style="magenta")
        yield text
        if line.verbatim:
            yield styled(f"{indent}   {clean(line.verbatim)}", "italic")
        if sources:
            cited = ", ".join(f"{source.thread} {source.span.first}-{source.span.last}" for source in line.sources)
            name = f"{handles.get(line.group, '')}.{line.ordinal}"
            by = f"  ·  by {line.metadata['observer']}" if "observer" in line.metadata else ""
            yield styled(f"{indent}   ← {cited or 'nothing'}  ·  {line.trust}  ·  {name}  ·  {line.id}{by}", "dim cyan")


def show_groups(groups: "Sequence[GroupRow]", empty: str) -> "RenderableType":
    """Render groups of a log. Without groups, render the text `empty`."""
    from rich.text import Text

    if not groups:
        return styled(empty, "dim")
    return Text("\n\n").join(
        styled(f"{group.handle}  {group.kind}, {group.tokens:,} tokens\n", "cyan").append(
            clean(group.text), style="default"
        )
        for group in groups
    )


# ---------------------------------------------------------------- context


@verb(app, example="memolog context --tail 5")
async def context(
    call: Call,
    number: Annotated[
        int | None,
        typer.Option(help="Show an earlier context by its number. Default: the present one.", min=1),
    ] = None,
    tail: Annotated[int, typer.Option(help="Number of tail messages to show.", min=0)] = 20,
) -> Answer:
    """Show the context that a model would get now: prefix, tail and edge, with token counts."""
    made = await (call.of_thread.context() if number is None else call.of_thread.seen(number))
    data = {
        "tokens": {name: getattr(made.tokens, name) for name in ("prefix", "tail", "edge", "total")},
        "trimmed": made.trimmed,
        "blocks": made.blocks,
        "messages": made.messages,
        "edge": made.edge,
    }
    return Answer(data=data, show=lambda: _show_context(made, tail, call.config.context_tokens))


def _show_context(made: "Context", tail: int, limit: int | None) -> "RenderableType":
    from rich.console import Group
    from rich.panel import Panel

    whole = limit or max(1, made.tokens.total)
    rows = [(name, bar(getattr(made.tokens, name), whole)) for name in ("prefix", "tail", "edge")]
    shown = [
        f"{m.role}{f' {m.seq}' if m.seq else ''}: {one_line(m.text, 160) or _parts(m.parts)}" for m in made.messages
    ]
    hidden = len(shown) - tail
    lines = (
        [f"… {hidden} earlier messages; --tail {len(shown)} shows them all", *shown[hidden:]] if hidden > 0 else shown
    )
    return Group(
        fields(rows),
        Panel(styled(made.system), title="prefix: stable, cacheable", title_align="left", border_style="green"),
        Panel(styled("\n".join(lines)), title="tail: word for word", title_align="left"),
        Panel(styled(made.edge_text), title="edge: now, never stored", title_align="left", border_style="yellow"),
    )


def _parts(parts: Sequence[object]) -> str:
    return ", ".join(type(part).__name__ for part in parts)


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
        int, typer.Option("--last", "-n", help="Number of past events to show first.", min=0, max=1000)
    ] = 10,
    seconds: Annotated[
        float | None, typer.Option(help="Stop after this many seconds. Default: run until Ctrl-C.", min=0)
    ] = None,
    every: Annotated[float, typer.Option(help="Polling interval in seconds.", min=0.05)] = 0.5,
    kind: Annotated[list[str] | None, typer.Option(help="Only events of this kind; repeatable.")] = None,
) -> Answer:
    """Follow events of every process that uses the database. With --json, one object per line."""
    from asyncio import sleep

    out = console()

    def show(event: "StoredEvent") -> None:
        if kind and event.kind not in kind:
            return
        if call.as_json:
            print_json(event)
        else:
            out.print(_event(event), soft_wrap=True)

    # Read one event more than is shown, because even with `--last 0` the number of the newest event is needed.
    past = await call.of_resource.journal(thread=thread, limit=last + 1)
    for event in past[len(past) - min(last, len(past)) :]:
        show(event)
    after, waited = (past[-1].number if past else 0), 0.0
    while seconds is None or waited < seconds:
        await sleep(every)
        waited += every
        for event in await call.of_resource.journal(thread=thread, after=after):
            show(event)
            after = event.number
    return Answer(data=None, is_printed=True)


def _event(event: "StoredEvent") -> "Text":
    words = "  ".join(
        f"{name}={one_line(str(value), 160)}" for name, value in event.data.items() if value not in (None, [], "")
    )
    text = styled(f"{event.at:%m-%d %H:%M:%S} UTC ", "dim").append(f"{event.thread or '–':<12} ", style="dim")
    return text.append(f"{event.kind:<16} ", style=_COLOURS.get(event.kind, "bold")).append(words)


@verb(app, needs="resource", example="memolog cost --since 30d")
async def cost(
    call: Call,
    thread: InThread = None,
    task: Annotated[str | None, typer.Option(help="Only the cost of this task.")] = None,
    since: Annotated[str | None, typer.Option(help="Only since this date, time or age: 2026-03-14, 3h, 30d.")] = None,
) -> Answer:
    """Show cost and tokens by kind of work and by model, and the budget."""
    start = moment_in(since, call.memory.clock.now()) if since else None
    named = (await call.of_resource.tasks().get(task)).id if task else None
    lines = await call.of_resource.usage_by_model(thread=thread, task=named, since=start)
    total = await call.of_resource.usage(thread=thread, task=named, since=start)
    data = {"resource": call.resource, "lines": lines, "total": total, "budget": call.config.budget}
    heads = ("work!", "model", ">requests", ">input", ">output", ">cache read", ">cost")
    rows = [*((line.kind, line.model, line.total) for line in lines), ("all", "", total)]
    return listing(data, rows, heads, lambda row: (*row[:2], *_numbers(row[2])), "")


def _numbers(total: "UsageTotal") -> list[str]:
    numbers = total.requests, total.input_tokens, total.output_tokens, total.cache_read_tokens
    return [*(f"{number:,}" for number in numbers), f"${total.cost:.4f}"]
