"""Search the memory, and show original messages: `search` and `recall`."""

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from memolog.apps.cli.command import Answer, Call, Cursor, InThread, chosen_thread, refuse_unknown, verb
from memolog.apps.cli.output import Paragraph, clean, counted, heading, one_line, styled, when
from memolog.errors import InputError, NotFound

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

    from memolog.core.message import Message
    from memolog.search.values import Recalled, RecalledPiece, SearchAnswer, SearchResult

app = typer.Typer()
# Maximum number of characters that are shown of a message before or after a result.
_NEIGHBOUR: Final = 120


# A search first updates the index, if this user may write to the database.
@verb(app, needs="resource", writes="if allowed", example='memolog search "login schema" --limit 3')
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
        typer.Option(help="Only raw, compacted, observation, reflection, task or working-memory; repeatable."),
    ] = None,
    by_thread: Annotated[bool, typer.Option("--by-thread", help="Show only the best result of each thread.")] = False,
    explain: Annotated[bool, typer.Option("--explain", help="Show the parts of each score.")] = False,
    ids: Annotated[bool, typer.Option("--ids", help="Show the id of each result.")] = False,
    index: Annotated[bool, typer.Option("--index", help="Index everything first, however long it takes.")] = False,
    cursor: Cursor = None,
) -> Answer:
    """Search messages, observations and tasks, best first. Exit code 1: nothing found."""
    if not query.strip():
        raise InputError("The query is empty.", then="Pass the words to find.")
    await refuse_unknown(call.memory, call.resource, thread)
    sources: Any = source or None
    with call.progress("indexing", "What is indexed stays indexed. The next search indexes more."):
        if index:
            await call.of_resource.index()
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
    title = f"{counted(found.total, 'result')} for “{one_line(query, 60)}” in {thread or call.resource}"
    return Answer(data=found, show=lambda: _show_results(found, title, ids=ids), code=0 if found.results else 1)


def _show_results(found: "SearchAnswer", title: str, *, ids: bool) -> "RenderableType":
    from rich.console import Group

    lines: list[RenderableType] = [heading(title)] if found.results else [styled("Nothing found.", "dim")]
    lines += [line for result in found.results for line in _result(result, ids=ids)]
    if found.relaxed:
        words = f"The query was not found as written. Its parts were searched instead: {', '.join(found.relaxed)}"
        lines.append(Paragraph(styled(words, "dim")))
    if found.unindexed:
        entries = f"{counted(found.unindexed, 'entry', 'entries')} {'is' if found.unindexed == 1 else 'are'}"
        words = f"{entries} not in the index yet and {'was' if found.unindexed == 1 else 'were'} not searched."
        lines.append(
            Paragraph(styled(f"{words} To index everything first, search with --index and write access.", "yellow"))
        )
    if found.next:
        lines.append(styled(f"next page: --cursor {found.next}", "dim"))
    return Group(*lines)


def _result(result: "SearchResult", *, ids: bool) -> "Iterator[RenderableType]":
    number = str(result.seq) if result.seq else result.handle
    place = " ".join(filter(None, (result.thread, number)))
    who = " ".join(filter(None, (result.role or result.state, result.speaker)))
    head = " · ".join(filter(None, (result.source, who, place, when(result.at), result.id if ids else "")))
    yield Paragraph(styled(head, "cyan"), styled(f"{result.rank:>3}. ", "bold"))
    for message in result.before:
        yield _neighbour(message)
    yield Paragraph(marked(one_line(result.snippet, 600)), styled("     "))
    for message in result.after:
        yield _neighbour(message)
    if result.parts:
        parts = "  ".join(f"{name} {value:.3f}" for name, value in result.parts.items())
        yield Paragraph(styled(parts, "dim"), styled("     "))


def _neighbour(message: "Message") -> "RenderableType":
    """Return one line for a message before or after a result: its text or, without a text, its tool call or tool result."""
    who = " ".join(filter(None, (message.role, message.speaker)))
    text = text_of(message)
    return Paragraph(styled(f"{who} {message.seq}: {one_line(text, _NEIGHBOUR)}", "dim"), styled("       "))


def text_of(message: "Message") -> str:
    """Return the text of a message or, without a text, its tool call or tool result."""
    from memolog.search.analysis import text_of_parts

    return "[raw text removed]" if message.pruned else message.text or text_of_parts(message.parts)


def marked(snippet: str) -> "Text":
    """Return a snippet with highlighted hits. In a snippet, a hit stands between « and »."""
    from rich.text import Text

    text = Text(clean(snippet))
    text.highlight_regex("«[^»]*»", style="bold yellow")
    return text


@verb(
    app,
    needs="resource",
    example="memolog recall 4 --thread atlas\nmemolog recall 4 --context 2\nmemolog recall 1-4 --thread atlas --full",
)
async def recall(
    call: Call,
    reference: Annotated[
        str, typer.Argument(help="A message (43 or its id), a span (12-30), a group (g3) or a line of the log (g3.2).")
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
    neighbours: Annotated[
        int, typer.Option("--context", help="Number of messages to show before and after.", min=0, max=1000)
    ] = 0,
    full: Annotated[bool, typer.Option("--full", help="Show whole messages.")] = False,
    tool: Annotated[str | None, typer.Option(help="Only calls and results of this tool.")] = None,
    part: Annotated[int | None, typer.Option(help="Only this part of each message, counted from 0.", min=0)] = None,
    tokens: Annotated[int, typer.Option(help="Maximum number of tokens per page.", min=200)] = 2_000,
    ids: Annotated[bool, typer.Option("--ids", help="Show the id of each message.")] = False,
    cursor: Cursor = None,
) -> Answer:
    """Show the original messages of a reference, in pages. Exit code 1: nothing to show."""
    from memolog.search.recall_store import is_number

    # Message numbers are unique only within a thread. A number without a thread means the thread with the newest activity.
    is_latest = thread is None and is_number(reference)
    where = await chosen_thread(call.memory, call.resource, None) if is_latest else thread
    named = await _with_neighbours(call, where, reference, neighbours)
    page = await call.of_resource.recall(
        named, thread=where, detail="full" if full else "low", tool=tool, part=part, tokens=tokens, cursor=cursor
    )

    def show() -> "RenderableType":
        from rich.console import Group

        threads = list(dict.fromkeys(item.thread for item in page.items))
        hint = " (--thread selects another one)" if is_latest else ""
        lines: list[RenderableType] = [heading(f"Thread {', '.join(threads)}{hint}")] if threads else []
        for item in page.items:
            lines += _recalled(item, several=len(threads) > 1, full=full, ids=ids)
        if not page.items:
            lines.append(_nothing(tool, part))
        for name, token in (("before", page.previous), ("after", page.next)):
            if token:
                lines.append(styled(f"more {name}: --cursor {token}", "dim"))
        return Group(*lines)

    return Answer(data=page, show=show, code=0 if page.items else 1)


async def _with_neighbours(call: Call, thread: str | None, reference: str, count: int) -> str:
    """Return a message or a span as a span with `count` more messages on each side.

    Return other references unchanged, or raise InputError if `count` is not 0.
    """
    from memolog.search.recall_store import SPAN

    found = re.fullmatch(rf"(?:(?P<thread>.*\S)\s+)?{SPAN.pattern}", reference.strip(), re.DOTALL)
    if found is not None:
        where = found["thread"] or ""
        first, last = int(found["first"]), int(found["last"] or found["first"])
    else:
        try:
            message = (await call.of_resource.message(reference, thread=thread))[0]
        except (NotFound, InputError):
            if count:
                raise InputError(
                    f"--context needs a message or a span, got {reference!r}.",
                    then="Omit --context, or pass the number of a message, such as 43.",
                ) from None
            return reference
        where, first, last = message.thread, message.seq, message.seq
    return f"{where} {max(1, first - count)}-{last + count}".strip() if 0 < first <= last else reference


def _recalled(item: "Recalled", *, several: bool, full: bool, ids: bool) -> "Iterator[RenderableType]":
    """Yield a message: with `full` its head and its whole parts, otherwise one paragraph."""
    place = f"{item.thread} #{item.seq}" if several else f"#{item.seq}"
    who = f'{item.role} "{item.speaker}"' if item.speaker else item.role
    head = " ".join(filter(None, (place, when(item.at), who, item.id if ids else "")))
    if item.state != "live":
        yield Paragraph(styled(f"{head}: [{item.state}]", "dim"))
        return
    pieces = [_piece(piece, full=full) for piece in item.pieces] or [styled("[nothing to show]", "dim")]
    if item.pruned:
        pieces.insert(0, styled("[raw text removed]", "dim"))
    if full:
        yield styled(head, "bold")
        yield from (Paragraph(piece, styled("    ")) for piece in pieces)
        return
    text = styled(f"{head}: ", "bold")
    for number, piece in enumerate(pieces):
        text.append(" | " if number else "", style="dim").append_text(piece)
    yield Paragraph(text, wrapped="    ")


def _piece(piece: "RecalledPiece", *, full: bool) -> "Text":
    names = {"tool_call": "call", "tool_result": "error" if piece.is_error else "result"}
    name = " ".join(filter(None, (names.get(piece.type, piece.type), piece.tool)))
    text = styled("" if piece.type == "text" else f"[{name}] ", "red" if piece.is_error else "cyan")
    text.append_text(styled(piece.text if full else one_line(piece.text, 1_000), "default"))
    if full and not piece.is_whole:
        end = piece.start + len(piece.text)
        text.append(f"\n[characters {piece.start:,} to {end:,} of {piece.length:,}]", style="dim")
    for file in piece.files:
        text.append_text(styled(f" [{file}]", "magenta"))
    return text


def _nothing(tool: str | None, part: int | None) -> "Text":
    wanted = [f"a call or result of the tool {tool}"] if tool else []
    wanted += [f"a part {part}"] if part is not None else []
    if not wanted:
        return styled("There is nothing on this page. Omit --cursor, or choose another message.", "dim")
    options = " and ".join(name for name, given in (("--tool", tool), ("--part", part)) if given is not None)
    return styled(f"None of these messages has {' that is '.join(wanted)}. Omit {options} to see the messages.", "dim")
