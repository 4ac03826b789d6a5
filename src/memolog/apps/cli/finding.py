"""Verbs that find exact words: search and recall.

Knows how results are shown to a person. Ranking and paging are the library's.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from memolog.apps.cli.telling import clean, local, one_line, told, when
from memolog.apps.cli.verb import Answer, Call, InThread, verb

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

    from memolog.domain.search import SearchAnswer, SearchResult

__all__ = ["app", "marked"]

app = typer.Typer()


# Searching brings the index up to date first, so it writes.
@verb(app, needs="resource", writes=True, example='memolog search "login schema" --limit 3')
async def search(
    call: Call,
    query: Annotated[str, typer.Argument(help="Any text: words, a name, part of a path.")],
    thread: InThread = None,
    limit: Annotated[int, typer.Option("--limit", "-n", help="How many results.", min=1, max=100)] = 10,
    neighbours: Annotated[
        int, typer.Option("--context", help="How many messages before and after each.", min=0, max=20)
    ] = 0,
    source: Annotated[
        list[str] | None,
        typer.Option("--source", help="Only raw, compacted, observation, reflection or task; may be repeated."),
    ] = None,
    by_thread: Annotated[bool, typer.Option("--by-thread", help="The best message of each thread.")] = False,
    explain: Annotated[bool, typer.Option("--explain", help="Show what made each score.")] = False,
    cursor: Annotated[str | None, typer.Option(help="Where the page before ended.")] = None,
) -> Answer:
    """Find what was said, observed or planned; the best comes first. Exit code 1: nothing fits."""
    sources: Any = source or None
    found = await call.memory.search(
        query,
        call.resource,
        thread=thread,
        limit=limit,
        context=neighbours,
        sources=sources,
        by="thread" if by_thread else "message",
        explain=explain,
        cursor=cursor,
    )
    return Answer(data=found, show=lambda: _show_results(found), code=0 if found.results else 1)


def _show_results(found: "SearchAnswer") -> "RenderableType":
    from rich.text import Text

    if not found.results:
        return told("Nothing fits these words.", "dim")
    lines = [line for result in found.results for line in _result(result)]
    if found.next:
        lines.append(told(f"{found.total} in all; go on with --cursor {found.next}", "dim"))
    return Text("\n").join(lines)


def _result(result: "SearchResult") -> "Iterator[Text]":
    place = " ".join(part for part in (result.thread, str(result.seq) if result.seq else "") if part)
    at = when(local(result.at, result.zone))
    head = f"{result.source} · {result.role or result.state} · {place or result.id} · {at}"
    yield told(f"{result.rank:>3}. ", "bold").append(clean(head), style="cyan")
    for message in result.before:
        yield told(f"       {message.role} {message.seq}: {one_line(message.text, 120)}", "dim")
    yield told("     ").append_text(marked(one_line(result.snippet, 600)))
    for message in result.after:
        yield told(f"       {message.role} {message.seq}: {one_line(message.text, 120)}", "dim")
    if result.parts:
        yield told("     " + "  ".join(f"{name} {value:.3f}" for name, value in result.parts.items()), "dim")


def marked(snippet: str) -> "Text":
    """Return a snippet with its hits in colour."""
    from rich.text import Text

    text = Text(clean(snippet))
    text.highlight_regex("«[^»]*»", style="bold yellow")
    return text


@verb(app, needs="resource", example="memolog recall 1-4 --thread atlas --full")
async def recall(
    call: Call,
    reference: Annotated[str, typer.Argument(help="A group (g3), an observation, a message, or a span (12-30).")],
    thread: Annotated[
        str | None,
        typer.Option(
            "--thread",
            "-t",
            envvar="MEMOLOG_THREAD",
            help="The thread that numbers are of; the latest if none is named.",
        ),
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="All of each message, not a line or two.")] = False,
    tool: Annotated[str | None, typer.Option(help="Only calls and results of this tool.")] = None,
    part: Annotated[int | None, typer.Option(help="Only this part of each message, from 0.", min=0)] = None,
    tokens: Annotated[int, typer.Option(help="The most tokens of a page.", min=50)] = 2_000,
    cursor: Annotated[str | None, typer.Option(help="Where the page before ended, or this one begins.")] = None,
) -> Answer:
    """Show the exact messages behind a reference, in pages."""
    from memolog.apps.cli.opening import chosen_thread

    where = thread or await chosen_thread(call.store, call.resource, None)
    page = await call.memory.recall(
        reference,
        call.resource,
        thread=where,
        detail="full" if full else "low",
        tool=tool,
        part=part,
        tokens=tokens,
        cursor=cursor,
    )

    def show() -> "RenderableType":
        text = told(page.text)
        for name, token in (("before", page.previous), ("after", page.next)):
            if token:
                text.append(f"\nmore {name}: --cursor {token}", style="dim")
        return text

    return Answer(data=page, show=show, code=0 if page.items else 1)
