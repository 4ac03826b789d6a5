"""Forget and correct: `forget`, `correct`, `retract` and `reinstate`. Forgetting asks for confirmation."""

import os
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from memolog.apps.cli.command import Answer, Call, verb
from memolog.apps.cli.output import fields, told
from memolog.domain.codec import encode
from memolog.domain.errors import InputError, NotFound
from memolog.domain.observation import MARKS

if TYPE_CHECKING:
    from rich.console import RenderableType

    from memolog.domain.forgetting import Forgotten
    from memolog.domain.observation import Observation

app = typer.Typer()

_Line = Annotated[str, typer.Argument(help="A line of the log: g3.2, or its id; `memolog log --sources` names them.")]


@verb(app, needs="resource", writes=True, example="memolog forget --thread notes --dry-run")
async def forget(
    call: Call,
    thread: Annotated[
        str | None, typer.Option("--thread", "-t", help="This conversation; with --message, where the message is.")
    ] = None,
    message: Annotated[str | None, typer.Option("--message", help="This message, by its id.")] = None,
    observation: Annotated[str | None, typer.Option("--observation", help="This line of the log, by its id.")] = None,
    everything: Annotated[bool, typer.Option("--everything", help="All of the resource's memory.")] = False,
    retention: Annotated[
        bool, typer.Option("--retention", help="What has become older than the settings under retention allow.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only tell what would go.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> Answer:
    """Forget something for good, with all that was made of it. Shows what that was; exit code 1: there was nothing."""
    named = [bool(message or observation or thread), everything, retention]
    if sum(named) != 1:
        raise InputError(
            "It is not clear what is to be forgotten.",
            then="Name one of --message, --observation, --thread, --everything and --retention.",
        )

    async def go(*, only_tell: bool) -> "Forgotten":
        if retention:
            return await call.memory.apply_retention(call.resource, dry_run=only_tell)
        return await call.memory.forget(
            call.resource, thread=thread, message=message, observation=observation, dry_run=only_tell
        )

    if not dry_run and not yes:
        _ask(await go(only_tell=True))
    with call.progress("looking" if dry_run else "forgetting"):
        gone = await go(only_tell=dry_run)
        if not dry_run:
            await _purge(call)
    return Answer(data=gone, show=lambda: _show_forgotten(gone), code=0 if _counts(gone) else 1)


async def _purge(call: Call) -> None:
    """Take what was forgotten out of what hooks have written down and nobody has stored yet."""
    from memolog.apps.hooks.spool import spool_of
    from memolog.apps.hooks.sweep import purge

    await purge(call.store, spool_of(call.address, os.environ), call.resource)


def _ask(would: "Forgotten") -> None:
    if not sys.stdin.isatty():
        raise InputError(
            "Forgetting cannot be undone, so it asks first.",
            why="There is nobody at a terminal to ask.",
            then="Look with --dry-run, then add --yes.",
        )
    from memolog.apps.cli.output import console

    console(to_stderr=True).print(_show_forgotten(would))
    typer.confirm("This cannot be undone. Forget it?", abort=True, err=True)


def _counts(gone: "Forgotten") -> dict[str, int]:
    """Return how much of each went, without what is none; entries of the ledger stay and do not count."""
    told_: dict[str, Any] = encode(gone)
    counts = {name: len(value) if isinstance(value, list) else value for name, value in told_.items()}  # pyright: ignore[reportUnknownArgumentType]
    return {name: n for name, n in counts.items() if type(n) is int and n and name not in {"usage", "copies"}}


def _show_forgotten(gone: "Forgotten") -> "RenderableType":
    counts = _counts(gone)
    if not counts:
        return told("There is nothing to forget.", "dim")
    head = ("would go" if gone.dry_run else "gone", f"of {gone.resource}'s memory")
    rows = [head, *((name.replace("_", " "), f"{count:,}") for name, count in counts.items())]
    rows += [("copy beside it", copy) for copy in gone.copies]
    if gone.usage:
        rows.append(("stays", f"{gone.usage:,} entries of the ledger: costs, no text"))
    if not gone.dry_run:
        rows.append(("file", "written anew: no byte of it is left" if gone.is_clean else "not written anew"))
    return fields(rows)


# ---------------------------------------------------------------- correcting


async def _id_of(call: Call, name: str, state: str) -> str:
    """Return the id of the line that a person means: an id, or `g3.2` for line 2 of group g3 of the thread's log."""
    handle, _, number = name.partition(".")
    if not (handle.startswith("g") and number.isdigit()):
        return name
    snapshot = await call.store.logs.snapshot(call.resource, call.thread, call.config.scope, create=False)
    groups = [group.id for group in snapshot.groups if group.handle == handle]
    lines = await call.store.logs.observations(snapshot.resource, snapshot.log.pk, groups)
    found = [line.id for line in lines if line.ordinal == int(number) and line.state == state]
    if not found:
        raise NotFound(
            f"There is no {state} line {name} in the log of {call.thread}.",
            then="`memolog log --sources` names the lines; a retracted one is named by its id, too.",
        )
    return found[-1]


def _told_line(line: "Observation", words: str) -> Answer:
    return Answer(
        data=line, show=lambda: told(f"{words} ", "green").append_text(told(f"{line.id}\n{line.text}", "default"))
    )


@verb(app, writes=True, example='memolog correct g1.1 "The API lives in backend/." --thread notes --priority high')
async def correct(
    call: Call,
    observation: _Line,
    text: Annotated[str, typer.Argument(help="What it should say.")],
    priority: Annotated[str | None, typer.Option("--priority", "-p", help="high, medium, low or done.")] = None,
) -> Answer:
    """Correct a line of the log. The old one is kept as retracted; the sources stay."""
    wanted: Any = priority
    if priority is not None and priority not in MARKS:
        raise InputError(f"{priority!r} is no priority.", then=f"Choose among {', '.join(MARKS)}.")
    name = await _id_of(call, observation, "active")
    line = await call.memory.edit_observation(call.resource, name, text, priority=wanted)
    return _told_line(line, "The line is now")


@verb(app, writes=True, example="memolog retract g1.1 --thread notes")
async def retract(call: Call, observation: _Line) -> Answer:
    """Take a line out of the log and of search, until it is reinstated."""
    name = await _id_of(call, observation, "active")
    return _told_line(await call.memory.retract(call.resource, name), "Retracted")


@verb(app, writes=True, example="memolog reinstate g1.2 --thread notes")
async def reinstate(call: Call, observation: _Line) -> Answer:
    """Bring a retracted line back."""
    name = await _id_of(call, observation, "retracted")
    return _told_line(await call.memory.reinstate(call.resource, name), "Reinstated")
