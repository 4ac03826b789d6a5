"""Search the memory, and show original messages: `search` and `recall`."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from memolog.apps.cli.command import Answer, Call, Cursor, InThread, chosen_thread, refuse_unknown, verb
from memolog.apps.cli.output import clean, counted, local, one_line, styled, when

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

    from memolog.core.message import Message
    from memolog.search.values import SearchAnswer, SearchResult

app = typer.Typer()
# Maximum number of characters that are shown of a message before or after a result.
_NEIGHBOUR: Final = 120


# A search first updates the index, so it needs write access.
@verb(app, needs="resource", writes=True, example='memolog search "login schema" --limit 3')
async def search(
    call: Call,
    query: Annotated[str, typer.Argument(help="Text to find: words, a name, part of a path.")],
    thread: InThread = None,
    limit: Annotated[int, typer.Option("--limit", "-n", help="Maximum number of results.", min=1, max=100)] = 10,
    neighbours: Annotated[
        int, typer.Option("--context", help="Number of messages to show before and after each result.", min=0, max=20)
    ] = 0,
    source: Annotated[
        list[str] | None,
        typer.Option(help="Only raw, compacted, observation, reflection or task; repeatable."),
    ] = None,
    by_thread: Annotated[bool, typer.Option("--by-thread", help="Show only the best result of each thread.")] = False,
    explain: Annotated[bool, typer.Option("--explain", help="Show the parts of each score.")] = False,
    cursor: Cursor = None,
) -> Answer:
    """Search messages, observations and tasks, best first. Exit code 1: nothing found."""
    await refuse_unknown(call.memory, call.resource, thread)
    sources: Any = source or None
    found = await call.of_resource.search(
        query,
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
        lines.append(styled("Nothing found.", "dim"))
    if found.relaxed:
        words = f"The query was not found as written. Its parts were searched instead: {', '.join(found.relaxed)}"
        lines.append(styled(words, "dim"))
    if found.behind:
        threads = f"{counted(found.behind, 'thread')} {'has' if found.behind == 1 else 'have'}"
        words = f"{threads} messages that are not in the index yet, and a read-only memory cannot update the index."
        lines.append(styled(f"{words} Search once without read_only.", "yellow"))
    if found.next:
        lines.append(styled(f"{counted(found.total, 'result')}; next page: --cursor {found.next}", "dim"))
    return Text("\n").join(lines)


def _result(result: "SearchResult") -> "Iterator[Text]":
    number = str(result.seq) if result.seq else result.handle
    # A handle is unique only within one log, so a result without a thread also shows its id.
    place = " ".join(filter(None, (result.thread, number, None if result.thread or result.task else result.id)))
    who = " ".join(filter(None, (result.role or result.state, result.speaker)))
    head = f"{result.source} · {who} · {place} · {when(local(result.at, result.zone))}"
    yield styled(f"{result.rank:>3}. ", "bold").append(clean(head), style="cyan")
    for message in result.before:
        yield _neighbour(message)
    yield styled("     ").append_text(marked(one_line(result.snippet, 600)))
    for message in result.after:
        yield _neighbour(message)
    if result.parts:
        yield styled("     " + "  ".join(f"{name} {value:.3f}" for name, value in result.parts.items()), "dim")


def _neighbour(message: "Message") -> "Text":
    """Return one line for a message before or after a result: its text or, without a text, its tool call or tool result."""
    from memolog.search.analysis import text_of_parts

    who = " ".join(filter(None, (message.role, message.speaker)))
    text = "[raw text removed]" if message.pruned else message.text or text_of_parts(message.parts)
    return styled(f"       {who} {message.seq}: {one_line(text, _NEIGHBOUR)}", "dim")


def marked(snippet: str) -> "Text":
    """Return a snippet with highlighted hits. In a snippet, a hit stands between « and »."""
    from rich.text import Text

    text = Text(clean(snippet))
    text.highlight_regex("«[^»]*»", style="bold yellow")
    return text


@verb(app, needs="resource", example="memolog recall 1-4 --thread atlas --full")
async def recall(
    call: Call,
    reference: Annotated[
        str, typer.Argument(help="A group (g3), a line of the log (g3.2 or its id), a message, or a span (12-30).")
    ],
    thread: Annotated[
        str | None,
        typer.Option(
            "--thread",
            "-t",
            envvar="MEMOLOG_THREAD",
            help="Thread. Default: all threads. For a message number or a span: the thread with the newest activity.",
        ),
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="Show whole messages.")] = False,
    tool: Annotated[str | None, typer.Option(help="Only calls and results of this tool.")] = None,
    part: Annotated[int | None, typer.Option(help="Only this part of each message, counted from 0.", min=0)] = None,
    tokens: Annotated[int, typer.Option(help="Maximum number of tokens per page.", min=200)] = 2_000,
    cursor: Cursor = None,
) -> Answer:
    """Show the original messages of a reference, in pages. Exit code 1: nothing to show."""
    from memolog.search.recall_store import is_number

    await refuse_unknown(call.memory, call.resource, None)
    # Message numbers are unique only within a thread. A number without a thread means the thread with the newest activity.
    is_latest = thread is None and is_number(reference)
    where = await chosen_thread(call.memory, call.resource, None) if is_latest else thread
    page = await call.of_resource.recall(
        reference, thread=where, detail="full" if full else "low", tool=tool, part=part, tokens=tokens, cursor=cursor
    )

    def show() -> "RenderableType":
        text = styled(f"Thread {where} (--thread selects another one)\n" if is_latest else "", "dim")
        text.append_text(styled(page.text) if page.items else _nothing(tool, part))
        for name, token in (("before", page.previous), ("after", page.next)):
            if token:
                text.append(f"\nmore {name}: --cursor {token}", style="dim")
        return text

    return Answer(data=page, show=show, code=0 if page.items else 1)


def _nothing(tool: str | None, part: int | None) -> "Text":
    wanted = [f"a call or result of the tool {tool}"] if tool else []
    wanted += [f"a part {part}"] if part is not None else []
    if not wanted:
        return styled("There is nothing on this page. Omit --cursor, or choose another message.", "dim")
    options = " and ".join(name for name, given in (("--tool", tool), ("--part", part)) if given is not None)
    return styled(f"None of these messages has {' that is '.join(wanted)}. Omit {options} to see the messages.", "dim")
