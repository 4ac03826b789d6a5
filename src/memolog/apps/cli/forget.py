"""Forget memory, correct lines of the log, and check the database: `forget`, `correct`, `retract`, `reinstate` and `doctor`."""

import os
import re
import sys
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from memolog.apps.cli.command import Answer, Call, DryRun, InResource, Yes, ask, refuse_unknown, verb
from memolog.apps.cli.output import Paragraph, console, counted, fields, styled
from memolog.core.exact_json import encode
from memolog.core.observation import MARKS
from memolog.errors import InputError, NotFound

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

    from memolog.core.observation import Observation
    from memolog.core.reports import Forgotten, Report

app = typer.Typer()

# Name of a line of the log: line 2 of group g3.
_NAME: Final = re.compile(r"g[0-9]+\.[0-9]+")
# Printed after Ctrl-C.
_ATOMIC = "Forgetting is one transaction: all or nothing. --dry-run shows what is still there. Run the command again to finish."
_Line = Annotated[
    str, typer.Argument(help="Line of the log: g3.2, from `memolog log --sources`, or its id, from --ids.")
]


@verb(app, needs="resource", writes=True, example="memolog forget --thread notes --dry-run")
async def forget(
    call: Call,
    thread: Annotated[
        str | None,
        typer.Option(
            "--thread", "-t", help="Forget this thread. With --message or --observation: the thread that it is in."
        ),
    ] = None,
    message: Annotated[
        str | None, typer.Option(help="Forget the message with this id or, with --thread, this number.")
    ] = None,
    observation: Annotated[
        str | None, typer.Option(help="Forget the line of the log with this id or, with --thread, this name (g3.2).")
    ] = None,
    everything: Annotated[bool, typer.Option("--everything", help="Forget the whole memory of the resource.")] = False,
    retention: Annotated[
        bool, typer.Option("--retention", help="Forget messages that are older than the retention settings allow.")
    ] = False,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> Answer:
    """Delete something and everything derived from it. This cannot be undone. Exit code 1: nothing to forget."""
    targets = [bool(message or observation or thread), everything, retention]
    if sum(targets) != 1:
        raise InputError(
            "More than one thing to forget was given." if any(targets) else "Nothing to forget was given.",
            then="Pass exactly one of --message, --observation, --thread, --everything and --retention.",
        )
    if message is not None:
        message = await _message_id(call, message, thread)
    if observation is not None:
        observation, thread = await _observation_id(call, observation, thread), None

    async def run(*, dry_run: bool) -> "Forgotten":
        if retention:
            return await call.of_resource.apply_retention(dry_run=dry_run)
        return await call.of_resource.forget(thread=thread, message=message, observation=observation, dry_run=dry_run)

    if not dry_run and not yes:
        _ask(await run(dry_run=True))
    then = "Nothing was changed." if dry_run else _ATOMIC
    with call.progress("counting" if dry_run else "forgetting", then):
        gone = await run(dry_run=dry_run)
        if not dry_run:
            await _purge(call)
    return Answer(data=gone, show=lambda: _show_forgotten(gone), code=0 if _counts(gone) else 1)


async def _message_id(call: Call, name: str, thread: str | None) -> str:
    """Return the id of a message. `name` is the id itself, or the number of a message of the thread."""
    if not name.isdecimal():
        return name
    try:
        return (await call.of_resource.message(name, thread=thread))[0].id
    except NotFound:
        if thread is None:
            raise InputError(
                f"There is no message with the id {name}, and a message number needs a thread.",
                why="Each thread numbers its messages from 1.",
                then="Pass --thread.",
            ) from None
        number = int(name)
        found = (await call.of_resource.thread(thread).messages(after=max(0, number - 1), limit=1)).items
        if not found or found[0].seq != number:
            raise
        return found[0].id


async def _observation_id(call: Call, name: str, thread: str | None) -> str:
    """Return the id of a line of the log. `name` is the id itself, or a name like `g3.2` in the log of the thread."""
    if not _NAME.fullmatch(name):
        return name
    if thread is None:
        raise InputError(
            f"The line {name} needs a thread.",
            why="The log of each thread numbers its groups from 1.",
            then="Pass --thread, or the id of the line from `memolog log --ids`.",
        )
    call.thread = (await call.of_resource.thread(thread).info()).id
    return await _id_of(call, name, "active", "retracted")


async def _purge(call: Call) -> None:
    """Remove forgotten messages from the spool, which contains hook events that are not stored in the database yet."""
    from memolog.apps.hooks.spool import spool_of
    from memolog.apps.hooks.sweep import purge

    await purge(call.of_resource, spool_of(call.address, os.environ))


def _ask(would: "Forgotten") -> None:
    if not sys.stdin.isatty():
        raise InputError(
            "Forgetting cannot be undone and needs a confirmation.",
            why="Standard input is not a terminal.",
            then="Check with --dry-run, then add --yes.",
        )
    console(to_stderr=True).print(_show_forgotten(would))
    ask("This cannot be undone. Forget it?")


def _counts(gone: "Forgotten") -> dict[str, int]:
    """Return the number of forgotten items by kind, without zeros. Ledger entries are left out, because they are not deleted."""
    data: dict[str, Any] = encode(gone)
    counts = {name: len(value) if isinstance(value, list) else value for name, value in data.items()}  # pyright: ignore[reportUnknownArgumentType]
    return {name: n for name, n in counts.items() if type(n) is int and n and name not in {"usage", "copies"}}


def _show_forgotten(gone: "Forgotten") -> "RenderableType":
    counts = _counts(gone)
    if not counts:
        return styled("Nothing to forget.", "dim")
    head = ("would be forgotten" if gone.dry_run else "forgotten", f"from the memory of {gone.resource}")
    rows = [head, *((name.replace("_", " "), f"{count:,}") for name, count in counts.items())]
    rows += [("copy of the database", copy) for copy in gone.copies]
    if gone.usage:
        rows.append(("not deleted", f"{counted(gone.usage, 'ledger entry', 'ledger entries')} (costs, without text)"))
    if not gone.dry_run:
        rows.append(("file", "rewritten without the forgotten bytes" if gone.is_clean else "not rewritten"))
    return fields(rows)


# ---------------------------------------------------------------- correcting


async def _id_of(call: Call, name: str, *states: str) -> str:
    """Return the id of a line of the log. `name` is the id itself, or a name like `g3.2` (line 2 of group g3)."""
    if not _NAME.fullmatch(name):
        return name
    handle, _, number = name.partition(".")
    groups = {group.id for group in await call.of_thread.groups() if group.handle == handle}
    lines = [line for line in await call.of_thread.log(retracted=True) if line.group in groups]
    found = [line.id for line in lines if line.ordinal == int(number) and line.state in states]
    if not found:
        raise NotFound(
            f"There is no {' or '.join(states)} line {name} in the log of {call.thread}.",
            then="`memolog log --sources` shows the lines. You can also pass the id of a line.",
        )
    return found[-1]


def _line_answer(line: "Observation", words: str) -> Answer:
    return Answer(data=line, show=lambda: Paragraph(styled(line.text), styled(f"{words}: ", "green")))


@verb(app, writes=True, example='memolog correct g1.1 "The API lives in backend/." --thread notes --priority high')
async def correct(
    call: Call,
    observation: _Line,
    text: Annotated[str, typer.Argument(help="New text.")],
    priority: Annotated[
        str | None, typer.Option("--priority", "-p", help="New priority: high, medium, low or done.")
    ] = None,
) -> Answer:
    """Correct a line of the log. The old line is retracted, and the new line has the same sources."""
    wanted: Any = priority
    if priority is not None and priority not in MARKS:
        raise InputError(f"priority must be one of {', '.join(MARKS)}, got {priority!r}.")
    name = await _id_of(call, observation, "active")
    line = await call.of_resource.edit_observation(name, text, priority=wanted)
    return _line_answer(line, "Corrected")


@verb(app, writes=True, example="memolog retract g1.1 --thread notes")
async def retract(call: Call, observation: _Line) -> Answer:
    """Remove a line from the log and from search. `reinstate` restores it."""
    name = await _id_of(call, observation, "active")
    return _line_answer(await call.of_resource.retract(name), "Retracted")


@verb(app, writes=True, example="memolog reinstate g1.2 --thread notes")
async def reinstate(call: Call, observation: _Line) -> Answer:
    """Restore a retracted line."""
    name = await _id_of(call, observation, "retracted")
    return _line_answer(await call.of_resource.reinstate(name), "Reinstated")


# ---------------------------------------------------------------- the doctor


# SQLite can compare a full-text index with its rows only if it may write.
@verb(app, needs="database", writes="if allowed", example="memolog doctor")
async def doctor(
    call: Call,
    resource: InResource = None,
    repair: Annotated[
        bool, typer.Option("--repair", help="Copy the database, make the repairs that are safe, and rebuild the index.")
    ] = False,
) -> Answer:
    """Check that nothing in the database is lost, duplicated or misplaced. Exit code 1: there are problems."""
    if resource is not None:
        await refuse_unknown(call.memory, resource, None)
    then = "Repairs are one transaction. Run the command again." if repair else "Nothing was changed. Run it again."
    with call.progress("repairing" if repair else "examining", then):
        report = await call.memory.doctor(resource, repair=repair)
    data = {"healthy": report.is_healthy, **encode(report), "examined": dict(report.examined)}
    is_partial = call.memory.config.read_only
    return Answer(
        data=data,
        show=lambda: _show_report(report, repair=repair, is_partial=is_partial),
        code=0 if report.is_healthy else 1,
    )


def _show_report(report: "Report", *, repair: bool, is_partial: bool) -> "RenderableType":
    found: list[tuple[str, Text]] = []
    for finding in report.findings:
        state = "repaired" if finding.repaired else "can be repaired" if finding.is_safe else "cannot be repaired"
        text = styled(f"{state}: ", "green" if finding.repaired else "bold red")
        found.append((finding.kind, text.append_text(styled(f"{finding.where}: {finding.explanation}", "default"))))
    problems = counted(sum(not finding.repaired for finding in report.findings), "problem")
    advice = "; try --repair" if not repair and any(finding.is_safe for finding in report.findings) else ""
    result = styled("healthy", "green") if report.is_healthy else styled(f"{problems}{advice}", "bold red")
    return fields(
        [
            ("examined", ", ".join(_examined(what, n) for what, n in report.examined)),
            ("not examined", "the full-text index, because the database is opened read-only" if is_partial else None),
            ("not indexed yet", _not_indexed(report.not_indexed)),
            *found,
            ("copy before the repair", report.copy or None),
            ("result", result),
        ]
    )


def _not_indexed(number: int) -> str | None:
    return (
        f"{counted(number, 'new or changed row')}; the next search of their resource indexes them" if number else None
    )


def _examined(what: str, number: int) -> str:
    """Return a number with its noun. `what` is plural, such as `documents of the index`."""
    first, _, rest = what.partition(" ")
    return counted(number, f"{first.removesuffix('s')} {rest}".strip(), what)
