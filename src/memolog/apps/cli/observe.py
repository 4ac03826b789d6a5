"""Run memory work by hand: `observe`, `buffer`, `activate`, `reflect`, `compact`, `compactions` and `uncompact`."""

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from memolog.apps.cli.command import Answer, Call, listing, verb
from memolog.apps.cli.output import clean, counted, one_line, styled, when
from memolog.apps.cli.status import show_status
from memolog.errors import InputError, NotFound

if TYPE_CHECKING:
    from rich.console import RenderableType

    from memolog.core.reports import Compacted, Compaction
    from memolog.log.status import Status

app = typer.Typer()


@verb(app, writes=True, example="memolog observe --thread atlas")
async def observe(call: Call) -> Answer:
    """Observe all messages of a thread that the log does not cover yet, and wait for the result."""
    with call.progress(f"observing {call.thread}"):
        return _status_answer(await call.of_thread.observe())


@verb(app, writes=True, example="memolog buffer --thread atlas")
async def buffer(call: Call) -> Answer:
    """Observe new messages, and buffer the observations until `activate` moves them into the log."""
    with call.progress(f"buffering {call.thread}"):
        await call.of_thread.buffer()
        await call.memory.settled()
        return _status_answer(await call.of_thread.status())


@verb(app, writes=True, example="memolog activate --thread atlas")
async def activate(call: Call) -> Answer:
    """Move every buffered group into the log. No model is called."""
    return _status_answer(await call.of_thread.activate())


@verb(app, writes=True, example="memolog reflect --thread atlas")
async def reflect(call: Call) -> Answer:
    """Condense the oldest part of the log, and wait for the result. Exit code 1: nothing to condense."""
    with call.progress(f"reflecting on {call.thread}"):
        before = await call.of_thread.status()
        after = await call.of_thread.reflect()
        await call.memory.settled()
    answer = _status_answer(after)
    return replace(answer, code=answer.code or int(after.generation == before.generation))


def _status_answer(status: "Status") -> Answer:
    """Return the status as an answer. The exit code is 3 if the health of the thread is "failing"."""
    return Answer(data=status, show=lambda: show_status(status), code=3 if status.health == "failing" else 0)


@verb(app, writes=True, example="memolog compact --thread atlas --keep 10")
async def compact(
    call: Call,
    keep: Annotated[int, typer.Option(help="Number of newest messages that are not compacted.", min=0)] = 0,
) -> Answer:
    """Replace old messages by summaries in contexts and in the search index. `recall` still shows the original text."""
    with call.progress(f"compacting {call.thread}"):
        made = await call.of_thread.compact(keep=keep)
    return Answer(data=made, show=lambda: _show_compacted(made), code=0 if made.messages else 1)


def _show_compacted(made: "Compacted") -> "RenderableType":
    if not made.messages:
        return styled("Nothing to compact.", "dim")
    groups = f" The log covers them with {', '.join(made.groups)}." if made.groups else ""
    batches = counted(len(made.compactions), "batch", "batches")
    text = styled(f"Compacted {counted(made.messages, 'message')} in {batches}.{groups}\n", "bold")
    return text.append(clean(made.summary), style="default")


@verb(app, example="memolog compactions --thread notes")
async def compactions(call: Call) -> Answer:
    """List compacted batches of messages, including undone compactions. Exit code 1: there are none."""
    made = await call.of_thread.compactions()
    heads = ("messages!", ">level", "at!", "is!", "summary")
    return listing({"compactions": made}, made, heads, _batch, "Nothing is compacted.")


def _batch(batch: "Compaction") -> tuple[str, ...]:
    state = f"undone {when(batch.restored_at)}" if batch.restored_at else "in force"
    return _name(batch), str(batch.level), when(batch.created_at), state, one_line(batch.summary, most=120)


@verb(app, writes=True, example="memolog uncompact 1-4 --thread notes")
async def uncompact(
    call: Call,
    batch: Annotated[
        str | None, typer.Argument(help="Messages (12-30) or id of the batch, from `memolog compactions`.")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Undo every batch of the thread.")] = False,
) -> Answer:
    """Undo the compaction of a batch, so that its original messages are shown and found again. Exit code 1: nothing to undo."""
    if (batch is None) != everything:
        what = "Both a batch and --all were given." if everything else "Neither a batch nor --all was given."
        raise InputError(what, then="Pass one batch, or --all.")
    made = await call.of_thread.compactions()
    chosen = [item for item in made if item.restored_at is None and (everything or batch in {item.id, _name(item)})]
    if not chosen and not everything:
        undone = any(batch in {item.id, _name(item)} for item in made)
        raise NotFound(
            f"The batch {batch} of {call.thread} was undone already."
            if undone
            else f"There is no batch {batch} in {call.thread}.",
            then="`memolog compactions` lists the batches.",
        )
    restored = [await call.of_thread.restore_compaction(item.id) for item in chosen]
    count = sum(item.messages for item in restored)
    batches = counted(len(restored), "batch", "batches")
    words = f"Undid the compaction of {batches} ({counted(count, 'message')})." if restored else "Nothing to undo."
    return Answer(data={"restored": restored, "messages": count}, show=words, code=0 if restored else 1)


def _name(batch: "Compaction") -> str:
    return f"{batch.span.first}-{batch.span.last}"
