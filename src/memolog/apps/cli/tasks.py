"""Read and change tasks: all verbs of `memolog tasks`."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from memolog.apps.cli.command import Answer, Call, acting_user, moment_in, verb
from memolog.apps.cli.output import clean, fields, one_line, table, told, when
from memolog.apps.cli.search import marked
from memolog.domain.codec import encode
from memolog.domain.errors import InputError
from memolog.domain.observation import Span

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

    from memolog.domain.task import Claimed, Closed, Task, TaskRef, TaskView
    from memolog.runtime.tasks import Tasks

app = typer.Typer(no_args_is_help=True, help="Task memory: what is to be done, what blocks what, who works on it.")

TaskName = Annotated[str, typer.Argument(help="Its handle (T-12, 12) or its id.")]
_Limit = Annotated[int, typer.Option("--limit", "-n", help="The most that are shown.", min=1)]
_Statuses = Annotated[
    list[str] | None, typer.Option("--status", help="Only open, in_progress or closed; may be repeated.")
]
_Labels = Annotated[list[str] | None, typer.Option("--label", help="Only with this label; may be repeated.")]
_STATUS_COLOURS = {"open": "default", "in_progress": "yellow", "closed": "green"}


@verb(app, needs="resource", name="list", example="memolog tasks list --status open")
async def list_tasks(
    call: Call,
    status: _Statuses = None,
    label: _Labels = None,
    assignee: Annotated[str | None, typer.Option(help="Only theirs.")] = None,
    blocked: Annotated[
        bool | None,
        typer.Option("--blocked/--not-blocked", help="Only those that wait for another, or only the others."),
    ] = None,
    limit: _Limit = 50,
    after: Annotated[str | None, typer.Option(help="Where the page before ended.")] = None,
) -> Answer:
    """List tasks, newest first. Exit code 1: there are none."""
    statuses: Any = tuple(status or ())
    page = await call.memory.tasks(call.resource).list(
        status=statuses, labels=label or (), assignee=assignee, blocked=blocked, limit=limit, after=after
    )
    return Answer(data=page, show=lambda: show_tasks(page.items, page.next), code=0 if page.items else 1)


def show_tasks(tasks: "Sequence[Task]", more: str | None = None) -> "RenderableType":
    """Return tasks as a table."""
    if not tasks:
        return told("There is no such task.", "dim")
    rows = [
        (
            told(task.handle, "bold"),
            told(f"{task.status}{', blocked' if task.blocked else ''}", _STATUS_COLOURS[task.status]),
            f"P{task.priority}",
            task.type,
            task.title,
            task.assignee or task.session or "",
        )
        for task in tasks
    ]
    made = table(("task!", "status!", "prio!", "type!", "title", "who"), rows)
    made.caption = f"more: --after {more}" if more else None
    return made


@verb(app, needs="resource", example="memolog tasks ready")
async def ready(call: Call, label: _Labels = None, limit: _Limit = 10) -> Answer:
    """Show what can be claimed now, the most pressing first, and why. Exit code 1: nothing is ready."""
    found = await call.memory.tasks(call.resource).ready(labels=label or (), limit=limit)
    counts = found.counts
    caption = (
        f"{counts.ready} ready, {counts.blocked} blocked, {counts.deferred} deferred, {counts.in_progress} in progress"
    )

    def show() -> "RenderableType":
        rows = [(told(i.task.handle, "bold"), f"P{i.task.priority}", i.task.title, i.why) for i in found.items]
        made = table(("task!", "prio!", "title", "why"), rows)
        made.caption = caption
        return made if rows else told(f"Nothing is ready: {caption}.", "dim")

    return Answer(data=found, show=show, code=0 if found.items else 1)


@verb(app, needs="resource", example="memolog tasks show T-1")
async def show(call: Call, task: TaskName) -> Answer:
    """Show a task with what blocks it, what it blocks, and all other links."""
    view = await call.memory.tasks(call.resource).show(task)
    return Answer(data=view, show=lambda: _show_view(view))


def show_task(task: "Task") -> "RenderableType":
    """Return one task, field by field."""
    return fields(_rows(task))


def _rows(task: "Task") -> "list[tuple[str, Text | str]]":
    rows: list[tuple[str, Text | str]] = [
        ("task", told(f"{task.handle}  {one_line(task.title)}", "bold")),
        ("status", told(f"{task.status}{', blocked' if task.blocked else ''}", _STATUS_COLOURS[task.status])),
        ("what", f"{task.type}, priority {task.priority}"),
        ("changed", f"{when(task.updated_at)}, version {task.version}; made {when(task.created_at)}"),
    ]
    optional = {
        "description": task.description,
        "assignee": task.assignee,
        "held by": f"{task.session} until {when(task.held_until)}" if task.session and task.held_until else None,
        "labels": ", ".join(sorted(task.labels)),
        "deferred": when(task.defer_until) if task.defer_until else None,
        "due": when(task.due) if task.due else None,
        "closed": f"{task.close_reason}, {when(task.closed_at)}" if task.closed_at else None,
        "summary": task.summary,
    }
    return [*rows, *((name, clean(value)) for name, value in optional.items() if value)]


def _show_view(view: "TaskView") -> "RenderableType":
    linked = {
        "blocked by": view.blocked_by,
        "blocks": view.blocks,
        "part of": view.parents,
        "parts": view.children,
        "related": view.related,
        "found in": view.discovered_from,
        "led to": view.discovered,
    }
    rows = _rows(view.task)
    rows += [(name, _refs(refs)) for name, refs in linked.items() if refs]
    return fields([*rows, ("messages", str(view.messages))])


def _refs(refs: "Iterable[TaskRef]") -> str:
    return "\n".join(f"{ref.handle} {one_line(ref.title, 80)} ({ref.status})" for ref in refs)


@verb(app, needs="resource", writes=True, example='memolog tasks search "refresh tokens"')
async def search(
    call: Call,
    query: Annotated[str, typer.Argument(help="Any text.")],
    status: _Statuses = None,
    limit: _Limit = 10,
    related: Annotated[bool, typer.Option("--related", help="With what was said and learned about each.")] = False,
) -> Answer:
    """Find tasks by words. Exit code 1: nothing fits."""
    statuses: Any = tuple(status or ())
    hits = await call.memory.tasks(call.resource).search(query, status=statuses, limit=limit, related=related)

    def show_hits() -> "RenderableType":
        rows = [
            (told(hit.task.handle, "bold"), hit.task.status, hit.task.title, marked(one_line(hit.snippet, 200)))
            for hit in hits
        ]
        return table(("task!", "status!", "title", "found"), rows) if rows else told("Nothing fits these words.", "dim")

    return Answer(data={"hits": hits}, show=show_hits, code=0 if hits else 1)


@verb(app, needs="resource", example="memolog tasks history T-1")
async def history(call: Call, task: TaskName, limit: _Limit = 100) -> Answer:
    """Show who changed what in a task, and when."""
    page = await call.memory.tasks(call.resource).history(task, limit=limit)
    rows = [(when(c.at), c.who, c.what, one_line(str(encode(c.details)), 200) if c.details else "") for c in page.items]
    return Answer(data=page, show=lambda: table(("at!", "who!", "what!", "details"), rows))


@verb(app, needs="resource", example="memolog tasks explain T-1")
async def explain(call: Call, task: TaskName) -> Answer:
    """Say why a task is or is not ready. Exit code 1: it is not."""
    found = await call.memory.tasks(call.resource).explain(task)
    words = f"{found.task.handle} is {'ready' if found.is_ready else 'not ready'}: " + " ".join(found.reasons)
    return Answer(data=found, show=lambda: told(words), code=0 if found.is_ready else 1)


@verb(app, needs="resource", example="memolog tasks about T-1")
async def about(call: Call, task: TaskName, limit: _Limit = 20) -> Answer:
    """Show what was said about a task, what was learned, and what it cost."""
    found = await call.memory.tasks(call.resource).about(task, limit=limit)

    def show_about() -> "RenderableType":
        rows = _rows(found.task)
        rows += [("learned", one_line(line.text)) for line in found.observations]
        rows += [
            (f"{item.message.thread} {item.message.seq}", f"{item.message.role}: {one_line(item.message.text, 160)}")
            for item in found.messages
        ]
        return fields([*rows, ("cost", f"{found.cost.requests} requests, ${found.cost.cost:.4f}")])

    return Answer(data=found, show=show_about)


@verb(app, needs="resource", example="memolog tasks stale --days 14")
async def stale(
    call: Call, days: Annotated[float, typer.Option(help="Untouched for so long.", min=0)] = 14, limit: _Limit = 50
) -> Answer:
    """List tasks that nobody touched for long and nobody works on. Exit code 1: there are none."""
    page = await call.memory.tasks(call.resource).stale(days=days, limit=limit)
    return Answer(data=page, show=lambda: show_tasks(page.items), code=0 if page.items else 1)


@verb(app, needs="resource", example="memolog tasks duplicates")
async def duplicates(
    call: Call, task: Annotated[str | None, typer.Argument(help="Only those of this task.")] = None
) -> Answer:
    """List open tasks that likely mean the same. Exit code 1: there are none."""
    found = await call.memory.tasks(call.resource).duplicates(task)
    rows = [
        (f"{p.likeness:.2f}", f"{p.task.handle} {p.task.title}", f"{p.other.handle} {p.other.title}") for p in found
    ]
    return Answer(
        data={"pairs": found},
        show=lambda: (
            table((">likeness", "task", "other"), rows) if rows else told("No two seem to mean the same.", "dim")
        ),
        code=0 if found else 1,
    )


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
