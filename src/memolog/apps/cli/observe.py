"""Run memory work by hand: `observe`, `buffer`, `activate`, `reflect`, `compact`, `compactions` and `uncompact`."""

from typing import TYPE_CHECKING, Annotated

import typer

from memolog.apps.cli.command import Answer, Call, verb
from memolog.apps.cli.output import clean, one_line, table, told, when
from memolog.apps.cli.status import show_status
from memolog.domain.errors import InputError, NotFound

if TYPE_CHECKING:
    from rich.console import RenderableType

    from memolog.domain.compaction import Compacted, Compaction
    from memolog.runtime.status import Status

app = typer.Typer()


@verb(app, writes=True, example="memolog observe --thread atlas")
async def observe(call: Call) -> Answer:
    """Observe all that is left of a thread and move it into the log, waiting for it."""
    with call.progress(f"observing {call.thread}"):
        return _told_status(await call.memory.observe(call.thread, call.resource))


@verb(app, writes=True, example="memolog buffer --thread atlas")
async def buffer(call: Call) -> Answer:
    """Observe what nobody has observed yet and keep it out of sight, until it is activated."""
    with call.progress(f"buffering {call.thread}"):
        await call.memory.buffer(call.thread, call.resource)
        await call.memory.settled()
        return _told_status(await call.memory.status(call.thread, call.resource))


@verb(app, writes=True, example="memolog activate --thread atlas")
async def activate(call: Call) -> Answer:
    """Move every buffered group into the log. No model is called."""
    return _told_status(await call.memory.activate(call.thread, call.resource))


@verb(app, writes=True, example="memolog reflect --thread atlas")
async def reflect(call: Call) -> Answer:
    """Condense the oldest part of the log now, waiting for it. Exit code 1: there was nothing to condense."""
    with call.progress(f"reflecting on {call.thread}"):
        before = await call.memory.status(call.thread, call.resource)
        after = await call.memory.reflect(call.thread, call.resource)
        await call.memory.settled()
    answer = _told_status(after)
    is_same = after.generation == before.generation
    return Answer(data=answer.data, show=answer.show, code=answer.code or int(is_same))


def _told_status(status: "Status") -> Answer:
    """Answer with a status: what was asked for did not happen where the model or the database fails."""
    return Answer(data=status, show=lambda: show_status(status), code=3 if status.health == "failing" else 0)


@verb(app, writes=True, example="memolog compact --thread atlas --keep 10")
async def compact(
    call: Call,
    keep: Annotated[int, typer.Option("--keep", help="How many of the newest messages stay as they are.", min=0)] = 0,
) -> Answer:
    """Let summaries stand for old messages, in contexts and in the index. Raw text stays; recall shows it."""
    with call.progress(f"compacting {call.thread}"):
        made = await call.memory.compact(call.thread, call.resource, keep=keep)
    return Answer(data=made, show=lambda: _show_compacted(made), code=0 if made.messages else 1)


def _show_compacted(made: "Compacted") -> "RenderableType":
    if not made.messages:
        return told("There was nothing to compact.", "dim")
    groups = f" The log covers it: {', '.join(made.groups)}." if made.groups else ""
    text = told(f"{made.messages} messages in {len(made.compactions)} batches.{groups}\n", "bold")
    return text.append(clean(made.summary), style="default")


@verb(app, example="memolog compactions --thread notes")
async def compactions(call: Call) -> Answer:
    """List the batches of messages that a summary stands for, also those that were undone. Exit code 1: there are none."""
    made = await call.memory.compactions(call.thread, call.resource)
    return Answer(data={"compactions": made}, show=lambda: _show_batches(made), code=0 if made else 1)


def _show_batches(made: "tuple[Compaction, ...]") -> "RenderableType":
    if not made:
        return told("Nothing is compacted.", "dim")
    rows = [
        (
            _name(batch),
            str(batch.level),
            when(batch.created_at),
            f"undone {when(batch.restored_at)}" if batch.restored_at else "in force",
            one_line(batch.summary, most=120),
        )
        for batch in made
    ]
    return table(("messages!", ">level", "at!", "is!", "summary"), rows)


@verb(app, writes=True, example="memolog uncompact 1-4 --thread notes")
async def uncompact(
    call: Call,
    batch: Annotated[
        str | None, typer.Argument(help="Its messages (12-30) or its id, as `memolog compactions` shows them.")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Every batch of the thread.")] = False,
) -> Answer:
    """Undo a compaction: its messages are shown and found as they were. Exit code 1: there is nothing to undo."""
    if (batch is None) != everything:
        raise InputError("It is not clear what is to be undone.", then="Name one batch, or say --all.")
    made = await call.memory.compactions(call.thread, call.resource)
    chosen = [item for item in made if item.restored_at is None and (everything or batch in {item.id, _name(item)})]
    if not chosen and not everything:
        undone = any(batch in {item.id, _name(item)} for item in made)
        raise NotFound(
            f"The batch {batch} of {call.thread} is undone already."
            if undone
            else f"There is no batch {batch} in {call.thread}.",
            then="`memolog compactions` lists what is in force.",
        )
    restored = [await call.memory.restore_compaction(call.thread, call.resource, item.id) for item in chosen]
    count = sum(item.messages for item in restored)
    words = (
        f"{count} messages of {len(restored)} batches are as they were." if restored else "There was nothing to undo."
    )
    return Answer(data={"restored": restored, "messages": count}, show=lambda: told(words), code=0 if restored else 1)


def _name(batch: "Compaction") -> str:
    return f"{batch.span.first}-{batch.span.last}"
