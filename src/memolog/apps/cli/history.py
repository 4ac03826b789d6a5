"""Show and restore earlier states of the log: `history`, `diff`, `as-of` and `revert`."""

from difflib import unified_diff
from typing import TYPE_CHECKING, Annotated

import typer

from memolog.apps.cli.command import Answer, Call, listing, moment_in, verb
from memolog.apps.cli.output import show_diff, when
from memolog.apps.cli.status import show_groups
from memolog.errors import InputError

if TYPE_CHECKING:
    from memolog.core.observation import Generation
    from memolog.log.snapshot import GroupRow

app = typer.Typer()


@verb(app, example="memolog history")
async def history(call: Call) -> Answer:
    """List the generations of the log with their cause, time and token counts."""
    made = await call.of_thread.history()
    heads = (">generation", "cause!", "at!", ">tokens before", ">tokens after", ">lines dropped")
    return listing({"generations": made}, made, heads, _generation, "There is no log yet.")


def _generation(made: "Generation") -> tuple[str, ...]:
    kind = made.kind + (f" of {made.restored_from}" if made.restored_from is not None else "")
    tokens = f"{made.tokens_before:,}", f"{made.tokens_after:,}"
    return str(made.number), kind, when(made.created_at), *tokens, str(len(made.dropped))


@verb(app, example="memolog diff 0 1")
async def diff(
    call: Call,
    old: Annotated[int, typer.Argument(help="Older generation.", min=0)],
    new: Annotated[int | None, typer.Argument(help="Newer generation. Default: the present one.", min=0)] = None,
) -> Answer:
    """Compare two generations of the log in the format of `diff -u`. Exit code 1: they are equal."""
    present = (await call.of_thread.status()).generation
    new = present if new is None else new
    _refuse_unknown(max(old, new), present)
    before = await call.of_thread.groups(generation=old)
    after = await call.of_thread.groups(generation=new)
    names = f"generation {old}", f"generation {new}"
    lines = list(unified_diff(_lines(before), _lines(after), *names, lineterm=""))
    data = {
        "old": old,
        "new": new,
        "added": _count(lines, "+"),
        "removed": _count(lines, "-"),
        "diff": "\n".join(lines),
    }
    return Answer(data=data, show=lambda: show_diff("\n".join(lines)), code=0 if lines else 1)


def _lines(groups: "tuple[GroupRow, ...]") -> list[str]:
    return [line for group in groups for line in group.text.splitlines()]


def _count(lines: list[str], sign: str) -> int:
    return sum(line.startswith(sign) and not line.startswith(sign * 3) for line in lines)


@verb(app, example="memolog as-of 2026-03-18")
async def as_of(
    call: Call,
    moment: Annotated[str, typer.Argument(help="Date, time or age, such as 2026-03-14, 2026-03-14T09:30, 3h or 2d.")],
) -> Answer:
    """Show the log as it was at a moment. Exit code 1: there was no log yet."""
    at = moment_in(moment, call.memory.clock.now())
    groups = await call.of_thread.as_of(at)
    data = {
        "at": at,
        "groups": [
            {"handle": g.handle, "kind": g.kind, "tokens": g.tokens, "activated_at": g.activated_at, "text": g.text}
            for g in groups
        ],
    }
    return Answer(
        data=data, show=lambda: show_groups(groups, f"There was no log at {when(at)}."), code=0 if groups else 1
    )


@verb(app, writes=True, example="memolog revert 1")
async def revert(
    call: Call,
    generation: Annotated[int, typer.Argument(help="Generation to restore.", min=0)],
) -> Answer:
    """Create a new generation of the log from an earlier generation and all later observations."""
    _refuse_unknown(generation, (await call.of_thread.status()).generation)
    made = await call.of_thread.restore(generation)
    words = (
        f"Generation {made.number} consists of generation {generation} and all later observations. "
        f"The log has {made.tokens_after:,} tokens (before: {made.tokens_before:,})."
    )
    return Answer(data=made, show=words)


def _refuse_unknown(generation: int, newest: int) -> None:
    if generation > newest:
        raise InputError(
            f"There is no generation {generation}.",
            why=f"The newest generation is {newest}.",
            then="See `memolog history`.",
        )
