"""Verbs that change tasks: create, edit, claim, next, release, close, reopen, link, unlink, attach, draft.

Knows which call each verb is, and for whom it claims. Rules are the library's: it says why something is refused.
"""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from memolog.apps.cli.opening import acting_user, moment_in
from memolog.apps.cli.tasks import TaskName, show_task
from memolog.apps.cli.telling import told, when
from memolog.apps.cli.verb import Answer, Call, verb
from memolog.domain.errors import InputError
from memolog.domain.observation import Span

if TYPE_CHECKING:
    from rich.console import RenderableType

    from memolog.domain.task import Claimed, Closed, Task
    from memolog.runtime.tasks import Tasks

__all__ = ["app"]

app = typer.Typer()

_Session = Annotated[
    str | None,
    typer.Option("--session", envvar="MEMOLOG_SESSION", help="For whom it is held; you, if nobody is named."),
]
_Thread = Annotated[str | None, typer.Option("--thread", "-t", help="What is said there is linked to the task.")]
_Lease = Annotated[float | None, typer.Option("--lease", help="How long it is held, in seconds.", min=1)]
_Force = Annotated[bool, typer.Option("--force", help="Also if another session holds it.")]
_Kind = Annotated[str, typer.Option("--kind", help="blocks, parent-child, related or discovered-from.")]
_Priority = Annotated[
    int | None, typer.Option("--priority", "-p", help="0 is the most pressing, 4 the least.", min=0, max=4)
]
_Type = Annotated[str | None, typer.Option("--type", help="bug, feature, task, epic or chore.")]
_Due = Annotated[str | None, typer.Option("--due", help="When it should be done: 2026-03-14, or 2d from now.")]
_Names = Annotated[list[str] | None, typer.Option("--label", help="A label; may be repeated.")]


def _tasks(call: Call, session: str | None = None, thread: str | None = None) -> "Tasks":
    return call.memory.tasks(call.resource, session=session or acting_user(), who=acting_user(), thread=thread)


def _told_task(task: "Task", words: str) -> Answer:
    from rich.console import Group

    return Answer(data=task, show=lambda: Group(told(words, "green"), show_task(task)))


@verb(
    app,
    needs="resource",
    writes=True,
    example='memolog tasks create "Rotate refresh tokens" --priority 1 --blocked-by T-1',
)
async def create(
    call: Call,
    title: Annotated[str, typer.Argument(help="What is to be done, in a line.")],
    description: Annotated[str, typer.Option("--description", "-d", help="More about it.")] = "",
    priority: _Priority = None,
    type_: _Type = None,
    label: _Names = None,
    due: _Due = None,
    assignee: Annotated[str | None, typer.Option(help="Who should do it.")] = None,
    parent: Annotated[str | None, typer.Option(help="The task it is a part of.")] = None,
    blocked_by: Annotated[
        list[str] | None, typer.Option("--blocked-by", help="What must be closed before; may be repeated.")
    ] = None,
) -> Answer:
    """Create a task."""
    kind: Any = type_ or "task"
    task = await _tasks(call).create(
        title,
        description=description,
        priority=2 if priority is None else priority,
        type=kind,
        labels=label or (),
        due=moment_in(due, call.memory.clock.now(), ahead=True) if due else None,
        assignee=assignee,
        parent=parent,
        blocked_by=blocked_by or (),
    )
    return _told_task(task, f"Created {task.handle}.")


@verb(app, needs="resource", writes=True, example="memolog tasks edit T-1 --priority 0 --label security")
async def edit(
    call: Call,
    task: TaskName,
    title: Annotated[str | None, typer.Option(help="A new title.")] = None,
    description: Annotated[str | None, typer.Option("--description", "-d", help="A new description.")] = None,
    priority: _Priority = None,
    type_: _Type = None,
    label: _Names = None,
    remove_label: Annotated[
        list[str] | None, typer.Option("--remove-label", help="A label to take away; may be repeated.")
    ] = None,
    due: _Due = None,
    defer: Annotated[
        str | None,
        typer.Option("--defer", help="Keep it out of what is ready until then: 2026-03-14, 2d from now, or now."),
    ] = None,
    assignee: Annotated[str | None, typer.Option(help="Who should do it; an empty text for nobody.")] = None,
) -> Answer:
    """Change what is given of a task; the rest stays."""
    tasks, now = _tasks(call), call.memory.clock.now()
    kind: Any = type_
    changes: dict[str, Any] = {"title": title, "description": description, "priority": priority, "type": kind}
    changes = {name: value for name, value in changes.items() if value is not None}
    if assignee is not None:
        changes["assignee"] = assignee or None
    if due is not None:
        changes["due"] = moment_in(due, now, ahead=True)
    if defer is not None:
        changes["defer_until"] = None if defer == "now" else moment_in(defer, now, ahead=True)
    if not changes and not label and not remove_label:
        raise InputError("Nothing was given that could be changed.", then="See `memolog tasks edit --help`.")
    changed = await tasks.edit(task, **changes) if changes else await tasks.get(task)
    if label or remove_label:
        changed = await tasks.label(task, add=label or (), remove=remove_label or ())
    return _told_task(changed, f"Changed {changed.handle}.")


# ---------------------------------------------------------------- working


@verb(app, needs="resource", writes=True, example="memolog tasks claim T-1 --thread atlas")
async def claim(
    call: Call, task: TaskName, session: _Session = None, thread: _Thread = None, lease: _Lease = None
) -> Answer:
    """Claim a task, so that nobody else works on it. Exit code 4: it is blocked, or somebody holds it."""
    return _told_claim(await _tasks(call, session, thread).claim(task, lease=lease))


@verb(app, needs="resource", writes=True, name="next", example="memolog tasks next")
async def claim_next(
    call: Call, label: _Names = None, session: _Session = None, thread: _Thread = None, lease: _Lease = None
) -> Answer:
    """Claim the most pressing task that is ready. Exit code 1: nothing is ready."""
    claimed = await _tasks(call, session, thread).claim_next(labels=label or (), lease=lease)
    if claimed is None:
        return Answer(data=None, show=lambda: told("Nothing is ready.", "dim"), code=1)
    return _told_claim(claimed)


def _told_claim(claimed: "Claimed") -> Answer:
    from rich.console import Group

    words = f"{claimed.task.handle} is {'still ' if claimed.renewed else ''}yours until {when(claimed.until)}."
    return Answer(data=claimed, show=lambda: Group(told(words, "green"), show_task(claimed.task)))


@verb(app, needs="resource", writes=True, example="memolog tasks release T-3 --session agent-7")
async def release(call: Call, task: TaskName, session: _Session = None, force: _Force = False) -> Answer:
    """Give a task back unfinished."""
    released = await _tasks(call, session).release(task, force=force)
    return _told_task(released, f"{released.handle} is open again.")


@verb(app, needs="resource", writes=True, example='memolog tasks close T-1 --summary "Tokens are stored hashed."')
async def close(
    call: Call,
    task: TaskName,
    summary: Annotated[str | None, typer.Option("--summary", help="What came of it.")] = None,
    draft: Annotated[
        bool, typer.Option("--draft", help="Let the summary be drafted from what was said, with citations.")
    ] = False,
    reason: Annotated[str, typer.Option("--reason", help="completed, wontfix or duplicate.")] = "completed",
    session: _Session = None,
    force: _Force = False,
) -> Answer:
    """Close a task, saying what came of it; shows what that unblocked."""
    tasks = _tasks(call, session)
    if summary is None and not draft:
        raise InputError("A task is closed with what came of it.", then='Add --summary "…", or --draft.')
    text = summary if summary is not None else (await tasks.draft_summary(task)).text
    why: Any = reason
    closed = await tasks.close(task, why, summary=text, force=force)
    return Answer(data=closed, show=lambda: _show_closed(closed))


def _show_closed(closed: "Closed") -> "RenderableType":
    from rich.console import Group

    words = [told(f"Closed {closed.task.handle}.", "green")]
    words += [told(f"Unblocked {ref.handle}: {ref.title}", "yellow") for ref in closed.unblocked]
    words += [told(f"Still open below it: {ref.handle} {ref.title}", "yellow") for ref in closed.open_children]
    return Group(*words, show_task(closed.task))


@verb(app, needs="resource", writes=True, example='memolog tasks reopen T-4 --why "It came back."')
async def reopen(
    call: Call, task: TaskName, why: Annotated[str | None, typer.Option("--why", help="For its history.")] = None
) -> Answer:
    """Open a closed task again."""
    opened = await _tasks(call).reopen(task, why=why)
    return _told_task(opened, f"{opened.handle} is open again.")


@verb(app, needs="resource", writes=True, example="memolog tasks draft T-1")
async def draft(
    call: Call, task: TaskName, most: Annotated[int, typer.Option("--most", help="The most lines.", min=1)] = 8
) -> Answer:
    """Draft the summary that closing asks for, with the messages that each line cites."""
    with call.progress("drafting"):
        made = await _tasks(call).draft_summary(task, most=most)
    cited = "\n".join(f"[{n}] {thread} {first}-{last}" for n, (thread, first, last) in enumerate(made.sources, start=1))
    return Answer(data=made, show=lambda: told(made.text).append(f"\n{cited}", style="dim"), code=0 if made.text else 1)


# ---------------------------------------------------------------- links


@verb(app, needs="resource", writes=True, example="memolog tasks link T-1 T-3 --kind related")
async def link(
    call: Call,
    source: Annotated[str, typer.Argument(help="The task that blocks, is the parent of, or gave rise to the other.")],
    target: Annotated[str, typer.Argument(help="The other task.")],
    kind: _Kind = "blocks",
) -> Answer:
    """Link two tasks. A link that would make them wait for each other is refused."""
    sort: Any = kind
    linked = await _tasks(call).link(source, target, sort)
    return _told_task(linked, f"{source} {kind} {linked.handle}.")


@verb(app, needs="resource", writes=True, example="memolog tasks unlink T-1 T-2")
async def unlink(
    call: Call,
    source: Annotated[str, typer.Argument(help="The task that the link goes from.")],
    target: Annotated[str, typer.Argument(help="The task that it leads to.")],
    kind: _Kind = "blocks",
) -> Answer:
    """Take a link between two tasks away."""
    sort: Any = kind
    freed = await _tasks(call).unlink(source, target, sort)
    return _told_task(freed, f"{source} and {freed.handle} are no longer linked as {kind}.")


@verb(app, needs="resource", writes=True, example="memolog tasks attach T-3 1-4 --thread atlas")
async def attach(
    call: Call,
    task: TaskName,
    messages: Annotated[list[str], typer.Argument(help="Ids of messages, or one span of a thread (12-30).")],
    thread: _Thread = None,
    kind: Annotated[str, typer.Option("--kind", help="output, reference or created-from.")] = "reference",
) -> Answer:
    """Link past messages to a task. Exit code 1: none was new."""
    sort: Any = kind
    first, _, last = messages[0].partition("-")
    is_span = len(messages) == 1 and first.isdigit() and last.isdigit()
    if is_span and not 1 <= int(first) <= int(last):
        raise InputError(f"{messages[0]} is no span.", then="Write the first and the last number, such as 12-30.")
    chosen = Span(first=int(first), last=int(last)) if is_span else messages
    tasks = _tasks(call)
    new = await tasks.attach(task, chosen, sort, thread=thread)
    view = await tasks.show(task)
    words = f"Linked to {view.task.handle} as {kind}: {new} new, {view.messages} messages in all."
    return Answer(data={"linked": new, "in_all": view.messages}, show=lambda: told(words), code=0 if new else 1)
