"""Show and restore earlier states of the log and of a thread.

The verbs are `history`, `diff`, `as-of`, `revert`, `rewind`, `branches` and `restore-branch`.
"""

from difflib import unified_diff
from typing import TYPE_CHECKING, Annotated

import typer

from memolog.apps.cli.command import Answer, Call, listing, moment_in, verb
from memolog.apps.cli.output import counted, one_line, show_diff, when
from memolog.apps.cli.status import show_groups
from memolog.errors import InputError

if TYPE_CHECKING:
    from memolog.core.observation import Generation
    from memolog.log.snapshot import GroupRow
    from memolog.messages.branches import Branch

app = typer.Typer()


@verb(app, example="memolog history")
async def history(call: Call) -> Answer:
    """List the generations of the log with their cause, time and token counts."""
    made = await call.of_thread.history()
    heads = (">generation", "cause!", "at!?", ">tokens before?", ">tokens after?", ">lines dropped??")
    empty, title = f"{call.thread} has no log yet.", f"Generations of the log of {call.thread}"
    return listing({"generations": made}, made, heads, _generation, empty, title=title)


def _generation(made: "Generation") -> tuple[str, ...]:
    kind = made.cause or made.kind
    kind += f" of {made.restored_from}" if made.restored_from is not None else ""
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


@verb(app, example="memolog as-of 2026-03-18\nmemolog as-of yesterday")
async def as_of(
    call: Call,
    moment: Annotated[
        list[str],
        typer.Argument(
            help="Day, time or age: 2026-03-14, 2026-03-14T09:30, yesterday, last monday, 3h or 2 days ago. "
            "A day means the end of that day."
        ),
    ],
) -> Answer:
    """Show the log as it was at a moment. Exit code 1: there was no log yet."""
    at = moment_in(" ".join(moment), call.memory.clock.now(), end=True)
    groups = await call.of_thread.as_of(at)
    data = {
        "at": at,
        "groups": [
            {"handle": g.handle, "kind": g.kind, "tokens": g.tokens, "activated_at": g.activated_at, "text": g.text}
            for g in groups
        ],
    }
    title, empty = f"Log of {call.thread} as of {when(at)}", f"{call.thread} had no log at {when(at)}."
    return Answer(data=data, show=lambda: show_groups(groups, title, empty), code=0 if groups else 1)


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
        f"The log has {counted(made.tokens_after, 'token')} (before: {made.tokens_before:,})."
    )
    return Answer(data=made, show=words)


# ---------------------------------------------------------------- rewinding


@verb(app, writes=True, example="memolog rewind 2 --thread notes")
async def rewind(
    call: Call,
    to: Annotated[str, typer.Argument(help="Number or id of the last message that stays; 0 withdraws all messages.")],
) -> Answer:
    """Withdraw all messages after a message, and keep them as a branch. Exit code 1: there are none.

    Observations of the withdrawn messages are removed from the log.
    """
    branch = await call.of_thread.rewind(to=int(to) if to.isdigit() else to)
    return _branch_answer(call, branch, f"No message of {call.thread} follows {to}.", code=1)


def _branch_answer(call: Call, branch: "Branch | None", empty: str, *, code: int = 0) -> Answer:
    if branch is None:
        return Answer(data=None, show=empty, code=code)
    words = (
        f"Withdrew {counted(branch.messages, 'message')} of {call.thread} after message {branch.kept_to}. "
        f"`memolog restore-branch {branch.id} --thread {call.thread}` restores them."
    )
    return Answer(data=branch, show=words)


@verb(app, example="memolog branches --thread drafts --db shared.db")
async def branches(call: Call) -> Answer:
    """List the branches of a thread: messages that were withdrawn and can be restored. Exit code 1: there are none."""
    found = await call.of_thread.branches()
    return listing(
        {"branches": found},
        found,
        ("branch!", ">after message", ">messages?", "at!?", "begins"),
        lambda b: (b.id, f"{b.kept_to:,}", f"{b.messages:,}", when(b.created_at), one_line(b.preview)),
        f"{call.thread} has no branches.",
        title=f"Branches of {call.thread}",
    )


@verb(app, writes=True, example="memolog restore-branch b1 --thread drafts --db shared.db")
async def restore_branch(
    call: Call, branch: Annotated[str, typer.Argument(help="Branch, such as b1, from `memolog branches`.")]
) -> Answer:
    """Restore the messages of a branch. Other messages after the common beginning are withdrawn and become a new branch."""
    count = next((one.messages for one in await call.of_thread.branches() if one.id == branch), 0)
    made = await call.of_thread.restore_branch(branch)
    answer = _branch_answer(call, made, "")
    words = f"Restored branch {branch} of {call.thread}. {counted(count, 'message')} will be observed again. "
    return Answer(data={"restored": branch, "withdrawn": made}, show=f"{words}{answer.show}".strip())


def _refuse_unknown(generation: int, newest: int) -> None:
    if generation > newest:
        raise InputError(
            f"There is no generation {generation}.",
            why=f"The newest generation is {newest}.",
            then="See `memolog history`.",
        )
