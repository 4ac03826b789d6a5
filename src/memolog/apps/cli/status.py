"""Show the state of a memory: `status`, `threads`, `log`, `context`, `watch` and `cost`."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from memolog.apps.cli.command import (
    Answer,
    Call,
    InThread,
    chosen_resource,
    is_missing,
    listing,
    moment_in,
    refuse_unknown,
    verb,
)
from memolog.apps.cli.output import (
    COLOURS,
    Paragraph,
    bar,
    console,
    counted,
    day,
    fields,
    heading,
    local,
    one_line,
    print_json,
    styled,
    when,
    zone_of,
)
from memolog.apps.cli.output import show as show_now
from memolog.core.exact_json import encode
from memolog.core.message import TextPart, ToolCallPart, ToolResultPart, part_text
from memolog.core.observation import MARKS, Observation
from memolog.errors import StoreReadOnly

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

    from memolog import Context
    from memolog.context.context import ContextMessage
    from memolog.core.message import Part
    from memolog.core.observation import Span
    from memolog.core.run import UsageTotal
    from memolog.core.thread import ThreadInfo
    from memolog.log.journal import StoredEvent
    from memolog.log.snapshot import GroupRow
    from memolog.log.status import Status

app = typer.Typer()
# Maximum number of resources whose threads are listed.
_MOST_RESOURCES = 200
# Number of messages of the tail that `context` shows, and number of characters of each part.
_TAIL: Final = 20
_SHORT: Final = 160
# Fields of events that contain ids.
_ID_FIELDS: Final = ("run", "groups", "compaction")
_SHORTEST_TIME: Final = len("2026-03-14T09:30")


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
    return Answer(data=data, show=lambda: show_status(found, thread, call.shown_address))


def show_status(found: "Status", thread: "ThreadInfo | None" = None, database: str | None = None) -> "RenderableType":
    """Render a status."""
    colour = {"ok": "green", "behind": "yellow", "failing": "bold red"}[found.health]
    title, task = (thread.title or thread.hints.title, thread.hints.current_task) if thread else (None, None)
    buffered = f"{counted(found.buffered_groups, 'group')} over {counted(found.buffered_tokens, 'token')}"
    running = f"{counted(found.running, 'run')} at work" if found.running else "nothing at work"
    covered = f"covers {found.covered:,} of {counted(found.live, 'message')}"
    dropped = f"{counted(found.dropped, 'line')}; search finds them, and `memolog revert` restores them"
    error = f"{when(found.last_error_at)}  {one_line(found.last_error)}" if found.last_error else None
    used = found.usage
    read = used.input_tokens + used.cache_read_tokens + used.cache_write_tokens
    of = "one log for all threads" if found.scope == "resource" else "one log for each thread"
    return fields(
        [
            ("thread", styled(found.thread, "bold")),
            ("resource", found.resource),
            ("database", database),
            ("title", title or None),
            ("current task", task or None),
            ("scope", f"{found.scope} ({of})"),
            ("health", styled(found.health, colour)),
            ("messages", bar(found.messages.tokens, found.messages.limit)),
            ("observations", bar(found.observations.tokens, found.observations.limit)),
            ("buffered", f"{buffered}; {running}"),
            ("not observed", counted(found.backlog_tokens, "token")),
            ("log", f"{counted(found.groups, 'group')}, generation {found.generation}, {covered}"),
            ("last activity", when(thread.updated_at) if thread else None),
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
    if resource is not None:
        await refuse_unknown(call.memory, resource)
    owners = [resource] if resource else (await call.memory.resources())[:_MOST_RESOURCES]
    found = [one for owner in owners for one in (await call.memory.resource(owner).threads(limit=limit)).items]
    store = (await call.memory.open()).store
    live = {
        (owner, thread): messages
        for owner in owners
        for thread, (messages, _) in (
            await store.messages.live_counts(owner, [one.id for one in found if one.resource == owner])
        ).items()
    }
    names = {thread.resource for thread in found}
    # One resource is named in the title, several in a column.
    first = ("resource",) if len(names) > 1 else ()
    return listing(
        {"threads": found},
        found,
        (*first, "thread", ">messages?", "last activity!", "title"),
        lambda t: (
            *((t.resource,) if first else ()),
            t.id,
            f"{live[t.resource, t.id]:,}",
            when(t.updated_at),
            one_line(t.title or t.hints.title or "", 60),
        ),
        "There are no threads.",
        title=f"Threads of {', '.join(sorted(names))}" if len(names) == 1 else f"Threads of {len(names)} resources",
    )


# ---------------------------------------------------------------- log


@verb(app, example="memolog log --sources --priority high")
async def log(
    call: Call,
    sources: Annotated[bool, typer.Option("--sources", "-s", help="Show the source messages of each line.")] = False,
    ids: Annotated[bool, typer.Option("--ids", help="Show the source messages and the id of each line.")] = False,
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
    title = f"Log of {call.thread}: {counted(len(lines), 'line')}"

    def show() -> "RenderableType":
        from rich.console import Group

        if not lines:
            what = "line with this priority" if priority else "lines"
            return styled(f"The log of {call.thread} has no {what}.", "dim")
        return Group(heading(title), *_log_lines(lines, handles, sources=sources or ids, ids=ids))

    return Answer(data=data, show=show, code=0 if lines else 1)


def _priorities(given: Sequence[str] | None) -> frozenset[str]:
    unknown = set(given or ()) - MARKS.keys()
    if unknown:
        raise typer.BadParameter(f"priority must be one of {', '.join(MARKS)}, got {min(unknown)!r}.")
    return frozenset(given or MARKS)


def _log_lines(
    lines: Sequence[Observation], handles: dict[str, str], *, sources: bool, ids: bool
) -> "Iterator[RenderableType]":
    shown_day, group = None, None
    for line in lines:
        said = local(line.said_at) if line.said_at else None
        if (today := day(said)) != shown_day or line.group != group:
            zone = f" {zone_of(said)}" if said else ""
            yield styled(f"\n{today}{zone}  ", "bold").append(handles.get(line.group, ""), style="cyan")
            shown_day, group = today, line.group
        at = f"{said:%H:%M} " if said else ""
        indent = "    " if line.parent is not None else "  "
        text = styled(one_line(line.text, 2_000), COLOURS[line.priority])
        if not line.grounded:
            text.append("  (not found in its sources)", style="magenta")
        yield Paragraph(text, styled(f"{indent}{MARKS[line.priority]} {at}", "dim"))
        if line.verbatim:
            yield Paragraph(styled(line.verbatim, "italic"), styled(f"{indent}   "))
        if sources:
            cited = ", ".join(f"{source.thread} {span_name(source.span)}" for source in line.sources)
            name = f"{handles.get(line.group, '')}.{line.ordinal}"
            details = [cited or "nothing", line.trust, name]
            details += [line.id] if ids else []
            details += [f"by {line.metadata['observer']}"] if "observer" in line.metadata else []
            yield Paragraph(styled("  ·  ".join(details), "dim cyan"), styled(f"{indent}   ← ", "dim cyan"))


def span_name(span: "Span") -> str:
    """Return the numbers of a span: `12-30`, or `12` for one message."""
    return str(span.first) if span.first == span.last else f"{span.first}-{span.last}"


def show_groups(groups: "Sequence[GroupRow]", title: str, empty: str) -> "RenderableType":
    """Render groups of a log. Without groups, render the text `empty`."""
    from rich.console import Group

    if not groups:
        return styled(empty, "dim")
    shown: list[RenderableType] = [heading(title)]
    for group in groups:
        shown.append(styled(f"\n{group.handle}  {group.kind}, {counted(group.tokens, 'token')}", "cyan"))
        shown.append(Paragraph(styled(group.text)))
    return Group(*shown)


# ---------------------------------------------------------------- context


@verb(app, example="memolog context --tail 5\nmemolog context --full")
async def context(
    call: Call,
    number: Annotated[
        int | None,
        typer.Option(help="Show an earlier context by its number. Default: the present one.", min=1),
    ] = None,
    tail: Annotated[
        int | None, typer.Option(help="Number of tail messages to show. Default: 20, with --full all.", min=0)
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="Show whole messages, tool arguments and results.")] = False,
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
    title = f"Context {number} of {call.thread}" if number is not None else f"Context of {call.thread}"
    last = _TAIL if tail is None and not full else tail
    return Answer(data=data, show=lambda: _show_context(made, title, last, call.config.context_tokens, full=full))


def _show_context(made: "Context", title: str, last: int | None, limit: int | None, *, full: bool) -> "RenderableType":
    from rich.console import Group

    whole = limit or max(1, made.tokens.total)
    rows = [(name, bar(getattr(made.tokens, name), whole)) for name in ("prefix", "tail", "edge")]
    names = {part.id: part.name for m in made.messages for part in m.parts if isinstance(part, ToolCallPart)}
    hidden = max(0, len(made.messages) - last) if last is not None else 0
    shown: list[RenderableType] = [heading(title), fields(rows)]
    shown += [_section("prefix: stable, cacheable", "green"), Paragraph(styled(made.system))]
    shown.append(_section("tail: word for word", "cyan"))
    if hidden:
        earlier = counted(hidden, "earlier message")
        shown.append(Paragraph(styled(f"… {earlier}; --tail {len(made.messages)} or --full shows them", "dim")))
    for message in made.messages[hidden:]:
        shown += _message(message, names, full=full)
    shown += [_section("edge: now, never stored", "yellow"), Paragraph(styled(made.edge_text))]
    return Group(*shown)


def _section(title: str, colour: str) -> "Text":
    return styled(f"\n── {title} ──", colour)


def _message(message: "ContextMessage", names: dict[str, str], *, full: bool) -> "Iterator[RenderableType]":
    """Yield a message and its parts: text, and the name, arguments and result of each tool call."""
    head = " ".join(
        filter(None, (message.role, str(message.seq or ""), f'"{message.speaker}"' if message.speaker else ""))
    )
    text = styled(f"{head}: ", "bold")
    for part in message.parts:
        yield Paragraph(text.append_text(_part(part, names, full=full)), wrapped="    ")
        text = styled("    ")
    if not message.parts:
        yield text


def _part(part: "Part", names: dict[str, str], *, full: bool) -> "Text":
    text = part_text(part)
    shown = styled(text if full else one_line(text, _SHORT))
    match part:
        case TextPart():
            return shown
        case ToolCallPart():
            return styled(f"[call {part.name}] ", "cyan").append_text(shown)
        case ToolResultPart():
            name = part.name or names.get(part.call_id, "")
            files = "".join(f"\n{part_text(file)}" for file in part.files)
            kind = f"[{'error' if part.is_error else 'result'} {name}".rstrip() + "] "
            return styled(kind, "red" if part.is_error else "green").append_text(shown).append_text(styled(files))
        case _:
            return styled(f"[{part.type}] ", "magenta").append_text(shown)


# ---------------------------------------------------------------- watch


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


@verb(app, needs="address", lines=True, example="memolog watch --last 5 --seconds 0")
async def watch(
    call: Call,
    resource: Annotated[
        str | None,
        typer.Option("--resource", "-r", envvar="MEMOLOG_RESOURCE", help="Resource. Default: the only one."),
    ] = None,
    thread: InThread = None,
    last: Annotated[
        int, typer.Option("--last", "-n", help="Number of past events to show first.", min=0, max=1000)
    ] = 10,
    seconds: Annotated[
        float | None, typer.Option(help="Stop after this many seconds. Default: run until Ctrl-C.", min=0)
    ] = None,
    every: Annotated[float, typer.Option(help="Polling interval in seconds.", min=0.05)] = 0.5,
    kind: Annotated[list[str] | None, typer.Option(help="Only events of this kind; repeatable.")] = None,
    ids: Annotated[bool, typer.Option("--ids", help="Show the ids of runs, groups and compactions.")] = False,
) -> Answer:
    """Follow events of every process that uses the database. Waits for a database that is empty or does not exist yet.

    With --json, one object per line. Exit code 1: there was no memory until the end.
    """
    from memolog.memory import Memory

    patience = _Patience(every=every, seconds=seconds)

    def show(event: "StoredEvent") -> None:
        if kind and event.kind not in kind:
            return
        if call.as_json:
            print_json(event)
        else:
            show_now(_event(event, ids=ids))

    if not await _has_memory_in_time(call, resource, patience):
        return Answer(data=None, is_printed=True, code=1)
    async with Memory(call.address, config=call.config) as memory:
        of = memory.resource(await chosen_resource(memory, resource))
        if thread is not None:
            await of.thread(thread).info()
        # Read one event more than is shown, because even with `--last 0` the number of the newest event is needed.
        past = await of.journal(thread=thread, limit=last + 1)
        for event in past[len(past) - min(last, len(past)) :]:
            show(event)
        after = past[-1].number if past else 0
        while await patience.wait():
            for event in await of.journal(thread=thread, after=after):
                show(event)
                after = event.number
    return Answer(data=None, is_printed=True)


async def _has_memory_in_time(call: Call, resource: str | None, patience: "_Patience") -> bool:
    """Wait until the database has a memory of the resource, or of any resource. Return False if the time is over before."""
    was_missing = is_missing(call.address)
    if not was_missing and await _has_memory(call, resource):
        return True
    err = console(to_stderr=True)
    if err.is_terminal and not call.as_json:
        words = f"Waiting for the first message{f' of {resource}' if resource else ''} in {call.shown_address} …"
        err.print(styled(words, "dim"), soft_wrap=True)
    while await patience.wait():
        # The process that creates the file may not have created its tables yet.
        with suppress(*((StoreReadOnly,) if was_missing else ())):
            if not is_missing(call.address) and await _has_memory(call, resource):
                return True
    return False


async def _has_memory(call: Call, resource: str | None) -> bool:
    from memolog.memory import Memory

    async with Memory(call.address, config=call.config) as memory:
        known = await memory.resources()
    return bool(known) if resource is None else resource in known


@dataclass(slots=True, kw_only=True)
class _Patience:
    """Waits in steps, for at most `seconds` in total. None means without an end."""

    every: float
    seconds: float | None
    waited: float = 0.0

    async def wait(self) -> bool:
        """Wait one step, and return True. Return False at once if the time is over."""
        from asyncio import sleep

        if self.seconds is not None and self.waited >= self.seconds:
            return False
        await sleep(self.every)
        self.waited += self.every
        return True


def _event(event: "StoredEvent", *, ids: bool) -> "RenderableType":
    text = styled(f"{when(event.at, seconds=True)}  {event.thread or '–'}  ", "dim")
    text.append(event.kind, style=_COLOURS.get(event.kind, "bold"))
    words = _event_words(event, ids=ids)
    return Paragraph(text.append_text(styled(f"  {words}" if words else "", "default")), wrapped="    ")


def _event_words(event: "StoredEvent", *, ids: bool) -> str:
    """Return a description of an event. Ids are shown only with `ids`. The number of groups is shown in any case."""
    data: dict[str, Any] = {name: value for name, value in event.data.items() if value not in (None, [], "")}
    named = {name: data.pop(name) for name in _ID_FIELDS if name in data}
    match event.kind:
        case "Decided":
            words = [f"{data['decision']}: {data['reason']}"]
        case "RunStarted":
            over = f" messages {data['first_seq']}-{data['last_seq']}" if "first_seq" in data else ""
            words = [f"{data['run_kind']}{over}", *([f"attempt {data['attempt']}"] if data["attempt"] > 1 else [])]
        case "RunEnded":
            tokens = data["input_tokens"] + data["output_tokens"]
            words = [f"{data['run_kind']}: {counted(data['observations'], 'line')}"]
            words += [counted(tokens, "token"), f"${data['cost']:.4f}"] if tokens else []
            words += [counted(len(data["faults"]), "fault")] if "faults" in data else []
        case "Activated":
            groups = counted(len(named["groups"]), "group")
            words = [f"{groups}, {counted(data['tokens'], 'token')}, up to message {data['last_seq']}"]
        case "Windows":
            words = [
                f"messages {data['message_tokens']:,} of {data['message_limit']:,} tokens",
                f"observations {data['observation_tokens']:,} of {data['observation_limit']:,} tokens",
            ]
        case _:
            words = [f"{name.replace('_', ' ')} {one_line(_value(value), 160)}" for name, value in data.items()]
    if ids:
        words += [f"{name} {', '.join(one) if isinstance(one, list) else one}" for name, one in named.items()]  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    return ", ".join(words)


def _value(value: object) -> str:
    if isinstance(value, str):
        try:
            return when(datetime.fromisoformat(value)) if len(value) >= _SHORTEST_TIME else value
        except ValueError:
            return value
    return f"{value:,}" if type(value) is int else str(value)


@verb(app, needs="resource", example="memolog cost --since 30d")
async def cost(
    call: Call,
    thread: InThread = None,
    task: Annotated[str | None, typer.Option(help="Only the cost of this task.")] = None,
    since: Annotated[
        str | None, typer.Option(help="Only since this date, day, time or age: 2026-03-14, yesterday, 3h, 30d.")
    ] = None,
) -> Answer:
    """Show cost and tokens by kind of work and by model, and the budget."""
    if thread is not None:
        await call.memory.thread(thread, resource=call.resource).info()
    start = moment_in(since, call.memory.clock.now()) if since else None
    named = (await call.of_resource.tasks().get(task)).id if task else None
    lines = await call.of_resource.usage_by_model(thread=thread, task=named, since=start)
    total = await call.of_resource.usage(thread=thread, task=named, since=start)
    data = {"resource": call.resource, "lines": lines, "total": total, "budget": call.config.budget}
    heads = ("work!", "model", ">requests", ">input?", ">output?", ">cache read??", ">cost")
    rows = [*((line.kind, line.model, line.total) for line in lines), ("all", "", total)]
    of = "".join((f", thread {thread}" if thread else "", f", task {task}" if task else ""))
    title = f"Cost of {call.resource}{of}" + (f" since {when(start)}" if start else "")
    budget = None if call.config.budget is None else f"The budget is ${call.config.budget:.2f}."
    return listing(data, rows, heads, lambda row: (*row[:2], *_numbers(row[2])), "", title=title, caption=budget)


def _numbers(total: "UsageTotal") -> list[str]:
    numbers = total.requests, total.input_tokens, total.output_tokens, total.cache_read_tokens
    return [*(f"{number:,}" for number in numbers), f"${total.cost:.4f}"]
