"""Find exact words: `search` and `recall`."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from memolog.apps.cli.command import Answer, Call, InThread, chosen_thread, refuse_unknown, verb
from memolog.apps.cli.output import clean, local, one_line, told, when

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

    from memolog.domain.message import Message
    from memolog.domain.search import SearchAnswer, SearchResult

app = typer.Typer()
_NEIGHBOUR: Final = 120


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
    await refuse_unknown(call.store, call.resource, thread)
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

    lines = [line for result in found.results for line in _result(result)]
    if not found.results:
        lines.append(told("Nothing fits these words.", "dim"))
    if found.relaxed:
        lines.append(told(f"Not found as written, and looked for by parts: {', '.join(found.relaxed)}", "dim"))
    if found.behind:
        threads = "1 thread has" if found.behind == 1 else f"{found.behind:,} threads have"
        words = f"{threads} messages that were not looked through: the index is behind, and this memory is read-only."
        lines.append(told(f"{words} Search once without read_only to bring it up to date.", "yellow"))
    if found.next:
        lines.append(told(f"{found.total} in all; go on with --cursor {found.next}", "dim"))
    return Text("\n").join(lines)


def _result(result: "SearchResult") -> "Iterator[Text]":
    number = str(result.seq) if result.seq else result.handle
    # A handle counts within a log; where the result does not say of which thread, its id leads there all the same.
    place = " ".join(filter(None, (result.thread, number, None if result.thread or result.task else result.id)))
    who = " ".join(filter(None, (result.role or result.state, result.speaker)))
    head = f"{result.source} · {who} · {place} · {when(local(result.at, result.zone))}"
    yield told(f"{result.rank:>3}. ", "bold").append(clean(head), style="cyan")
    for message in result.before:
        yield _neighbour(message)
    yield told("     ").append_text(marked(one_line(result.snippet, 600)))
    for message in result.after:
        yield _neighbour(message)
    if result.parts:
        yield told("     " + "  ".join(f"{name} {value:.3f}" for name, value in result.parts.items()), "dim")


def _neighbour(message: "Message") -> "Text":
    """Return a message before or after a result on one line: what was said, else what a tool was asked or answered."""
    from memolog.search.texts import text_of_parts

    who = " ".join(filter(None, (message.role, message.speaker)))
    text = "[raw text removed]" if message.pruned else message.text or text_of_parts(message.parts)
    return told(f"       {who} {message.seq}: {one_line(text, _NEIGHBOUR)}", "dim")


def marked(snippet: str) -> "Text":
    """Return a snippet with its hits in colour."""
    from rich.text import Text

    text = Text(clean(snippet))
    text.highlight_regex("«[^»]*»", style="bold yellow")
    return text


@verb(app, needs="resource", example="memolog recall 1-4 --thread atlas --full")
async def recall(
    call: Call,
    reference: Annotated[
        str, typer.Argument(help="A group (g3), a line of the log (g3.2, or its id), a message, or a span (12-30).")
    ],
    thread: Annotated[
        str | None,
        typer.Option(
            "--thread",
            "-t",
            envvar="MEMOLOG_THREAD",
            help="Where to look; without it everywhere, and for a number or a span in the latest thread.",
        ),
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="All of each message, not a line or two.")] = False,
    tool: Annotated[str | None, typer.Option(help="Only calls and results of this tool.")] = None,
    part: Annotated[int | None, typer.Option(help="Only this part of each message, from 0.", min=0)] = None,
    tokens: Annotated[int, typer.Option(help="The most tokens of a page.", min=200)] = 2_000,
    cursor: Annotated[str | None, typer.Option(help="Where the page before ended, or this one begins.")] = None,
) -> Answer:
    """Show the exact messages behind a reference, in pages. Exit code 1: there is nothing to show."""
    from memolog.store.recall import is_number

    await refuse_unknown(call.store, call.resource, None)
    # Each thread counts its messages by itself, so a number alone is one of the latest thread.
    is_latest = thread is None and is_number(reference)
    where = await chosen_thread(call.store, call.resource, None) if is_latest else thread
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
        text = told(f"{where} was active last; name another with --thread\n" if is_latest else "", "dim")
        text.append_text(told(page.text) if page.items else _nothing(tool, part))
        for name, token in (("before", page.previous), ("after", page.next)):
            if token:
                text.append(f"\nmore {name}: --cursor {token}", style="dim")
        return text

    return Answer(data=page, show=show, code=0 if page.items else 1)


def _nothing(tool: str | None, part: int | None) -> "Text":
    """Return why a page is empty, and what to do."""
    wanted = [f"a call or result of a tool {tool}"] if tool else []
    wanted += [f"a part {part}"] if part is not None else []
    if not wanted:
        return told("There is nothing to show here: leave --cursor out, or name another message.", "dim")
    named = " and ".join(name for name, given in (("--tool", tool), ("--part", part)) if given is not None)
    return told(
        f"None of these messages has {' that is '.join(wanted)}. Leave {named} out to see what they have.", "dim"
    )
