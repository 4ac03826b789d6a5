"""Run memory work by hand: `observe`, `buffer`, `sweep`, `finalize`, `activate`, `reflect`, `compact` and `prune`."""

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Final

import typer

from memolog.apps.cli.command import Answer, Call, DryRun, Yes, confirm, listing, refuse_unknown, verb
from memolog.apps.cli.output import counted, fields, one_line, styled, when
from memolog.apps.cli.status import show_status
from memolog.errors import InputError, NotFound

if TYPE_CHECKING:
    from rich.console import RenderableType

    from memolog.core.reports import Compacted, Compaction, Pruned
    from memolog.log.status import Status
    from memolog.memory import Thread

app = typer.Typer()
# Printed after Ctrl-C.
_LATER: Final = "Finished runs are stored. Run the command again to observe the rest."


@verb(app, writes=True, example="memolog observe --thread atlas\nmemolog observe --all")
async def observe(
    call: Call,
    everything: Annotated[bool, typer.Option("--all", help="Observe all threads of the resource.")] = False,
) -> Answer:
    """Observe all messages of a thread that the log does not cover yet, and wait for the result."""
    if everything:
        return await _observe_all(call)
    with call.progress(f"observing {call.thread}", _LATER):
        call.count_runs(await _count_new([call.of_thread]))
        await call.of_thread.observe()
        return await _settled(call)


async def _settled(call: Call) -> Answer:
    """Wait for work that was started in the background, such as a reflection, and return the status of the thread."""
    await call.memory.settled()
    return _status_answer(await call.of_thread.status())


async def _observe_all(call: Call) -> Answer:
    threads = await _all_threads(call)
    done: list[tuple[int, Status]] = []
    with call.progress(f"observing {call.resource}", _LATER):
        call.count_runs(await _count_new(threads))
        for thread in threads:
            before = (await thread.status()).cursor
            await thread.observe()
            await call.memory.settled()
            after = await thread.status()
            done.append((after.cursor - before, after))
    failing = [status.thread for _, status in done if status.health == "failing"]
    return listing(
        {"threads": [status for _, status in done]},
        done,
        ("thread", ">newly observed", ">messages?", ">groups?", "health!"),
        lambda one: (one[1].thread, f"{one[0]:,}", f"{one[1].live:,}", f"{one[1].groups:,}", one[1].health),
        "There are no threads.",
        title=f"Observed threads of {call.resource}",
        code=3 if failing else 0,
    )


async def _all_threads(call: Call) -> "list[Thread]":
    found: list[Thread] = []
    page = None
    while page is None or page.next is not None:
        page = await call.of_resource.threads(limit=200, after=None if page is None else page.next)
        found += [call.of_resource.thread(thread.id) for thread in page.items]
    return found


async def _count_new(threads: "Iterable[Thread]") -> int:
    """Return the number of messages of these threads that no run has observed."""
    count = 0
    for thread in threads:
        status = await thread.status()
        runs = [run for run in await thread.runs() if run.kind == "observe" and run.status == "done" and run.span]
        count += status.last_seq - max([status.cursor, *(run.span.last for run in runs if run.span)])
    return count


@verb(app, writes=True, example="memolog buffer --thread atlas")
async def buffer(call: Call) -> Answer:
    """Observe new messages, and buffer the observations until `activate` moves them into the log."""
    with call.progress(f"buffering {call.thread}", _LATER):
        call.count_runs(await _count_new([call.of_thread]))
        await call.of_thread.buffer()
        return await _settled(call)


@verb(app, needs="resource", writes=True, example="memolog sweep")
async def sweep(call: Call) -> Answer:
    """Observe and buffer new messages of all threads. The next turn of a thread, or `activate`, moves them into its log."""
    await refuse_unknown(call.memory, call.resource)
    with call.progress(f"sweeping {call.resource}", _LATER):
        call.count_runs(await _count_new(await _all_threads(call)))
        touched = await call.of_resource.sweep()
        await call.memory.settled()
    words = f"Observed new messages of {counted(touched, 'thread')}." if touched else "All messages are observed."
    return Answer(data={"resource": call.resource, "threads": touched}, show=words)


@verb(app, writes=True, example="memolog finalize --thread atlas --compact")
async def finalize(
    call: Call,
    compact: Annotated[bool, typer.Option("--compact", help="Also compact the messages.")] = False,
) -> Answer:
    """End a session: observe all messages that are not observed yet."""
    with call.progress(f"finalizing {call.thread}", _LATER):
        call.count_runs(await _count_new([call.of_thread]))
        await call.of_thread.finalize(compact=compact)
        return await _settled(call)


@verb(app, writes=True, example="memolog activate --thread atlas")
async def activate(call: Call) -> Answer:
    """Move every buffered group into the log. No model is called."""
    await call.of_thread.activate()
    return await _settled(call)


@verb(app, writes=True, example="memolog reflect --thread atlas")
async def reflect(call: Call) -> Answer:
    """Condense the oldest part of the log, and wait for the result. Exit code 1: nothing to condense."""
    with call.progress(f"reflecting on {call.thread}", "The log is unchanged. Run the command again to start over."):
        before = await call.of_thread.status()
        await call.of_thread.reflect()
        await call.memory.settled()
        after = await call.of_thread.status()
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
    with call.progress(f"compacting {call.thread}", "Finished batches are stored. Run the command again for the rest."):
        made = await call.of_thread.compact(keep=keep)
    return Answer(data=made, show=lambda: _show_compacted(made), code=0 if made.messages else 1)


def _show_compacted(made: "Compacted") -> "RenderableType":
    if not made.messages:
        return styled("Nothing to compact.", "dim")
    groups = f" The log covers them with {', '.join(made.groups)}." if made.groups else ""
    batches = counted(len(made.compactions), "batch", "batches")
    text = styled(f"Compacted {counted(made.messages, 'message')} in {batches}.{groups}\n", "bold")
    return text.append_text(styled(made.summary, "default"))


@verb(app, example="memolog compactions --thread notes")
async def compactions(call: Call) -> Answer:
    """List compacted batches of messages, including undone compactions. Exit code 1: there are none."""
    made = await call.of_thread.compactions()
    heads = ("messages!", ">level??", "at!?", "state", "summary")
    title = f"Compactions of {call.thread}"
    return listing({"compactions": made}, made, heads, _batch, f"Nothing of {call.thread} is compacted.", title=title)


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


# ---------------------------------------------------------------- prune


@verb(
    app,
    writes=True,
    settings={"compaction.prune": True},
    example="memolog prune --thread notes --yes",
)
async def prune(call: Call, dry_run: DryRun = False, yes: Yes = False) -> Answer:
    """Delete the raw text of old messages. This cannot be undone. Exit code 1: there is nothing to delete.

    The text is deleted only if the message is older than the setting compaction.prune_days, observed, compacted, and not
    linked to an open task. Summaries and observations stay, and search still finds names and numbers.
    """
    days = call.config.compaction.prune_days
    confirm(
        f"Raw text of {call.thread} that is older than {counted(days, 'day')} will be deleted. This cannot be undone.",
        yes=yes or dry_run,
    )
    with call.progress(
        f"pruning {call.thread}", "Either all of the text is deleted, or none. `memolog status` still works."
    ):
        pruned = await call.of_thread.prune(dry_run=dry_run)
    return Answer(data=pruned, show=lambda: _show_pruned(pruned), code=0 if pruned.messages else 1)


def _show_pruned(pruned: "Pruned") -> "RenderableType":
    kept = {
        "too young": pruned.young,
        "not observed": pruned.not_observed,
        "linked to an open task": pruned.open_task,
        "not compacted": pruned.not_compacted,
    }
    return fields(
        [
            (
                "would be deleted" if pruned.dry_run else "deleted",
                f"the raw text of {counted(pruned.messages, 'message')}",
            ),
            *((f"kept, {why}", counted(number, "message")) for why, number in kept.items() if number),
            ("file", "rewritten without the deleted text" if pruned.is_clean else None),
        ]
    )
