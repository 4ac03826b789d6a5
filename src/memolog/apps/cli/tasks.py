"""Read and change tasks: all verbs of `memolog tasks`."""

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from memolog.apps.cli.command import Answer, Call, Cursor, Limit, acting_user, listing, moment_in, verb
from memolog.apps.cli.output import counted, fields, one_line, styled, when
from memolog.apps.cli.search import marked, text_of
from memolog.apps.cli.status import span_name
from memolog.core.exact_json import encode
from memolog.core.observation import Span
from memolog.errors import InputError
from memolog.text.dates import duration

if TYPE_CHECKING:
    from datetime import datetime

    from rich.console import RenderableType
    from rich.text import Text

    from memolog.db.scope import Page
    from memolog.tasks.calls import Tasks
    from memolog.tasks.task import Claimed, Closed, Task, TaskHit, TaskRef, TaskView

app = typer.Typer(help="Manage tasks: work to do, what blocks it, who works on it.")

TaskName = Annotated[str, typer.Argument(help="Handle (T-12 or 12) or id of the task.")]
_Statuses = Annotated[list[str] | None, typer.Option(help="Only open, in_progress or closed; repeatable.")]
_Labels = Annotated[list[str] | None, typer.Option(help="Only with this label; repeatable.")]
_STATUS_COLOURS = {"open": "default", "in_progress": "yellow", "closed": "green"}


@verb(app, needs="resource", name="list", example="memolog tasks list --status open")
async def list_tasks(
    call: Call,
    status: _Statuses = None,
    label: _Labels = None,
    assignee: Annotated[str | None, typer.Option(help="Only tasks of this assignee.")] = None,
    blocked: Annotated[
        bool | None,
        typer.Option("--blocked/--not-blocked", help="Only blocked tasks, or only tasks that are not blocked."),
    ] = None,
    limit: Limit = 50,
    after: Cursor = None,
) -> Answer:
    """List tasks, newest first. Exit code 1: there are none."""
    statuses: Any = tuple(status or ())
    page = await call.of_resource.tasks().list(
        status=statuses, labels=label or (), assignee=assignee, blocked=blocked, limit=limit, after=after
    )
    return _tasks_answer(page, f"Tasks of {call.resource}", f"more: --after {page.next}" if page.next else None)


def _tasks_answer(page: "Page[Task]", title: str, caption: str | None = None) -> Answer:
    heads = ("task!", "status!", "prio!?", "type!??", "title", "who???")
    return listing(page, page.items, heads, _task_row, "There are no such tasks.", title=title, caption=caption)


def _task_row(task: "Task") -> "tuple[Text | str, ...]":
    who = task.assignee or task.session or ""
    return styled(task.handle, "bold"), _status(task), f"P{task.priority}", task.type, task.title, who


def _status(task: "Task") -> "Text":
    return styled(f"{task.status}{', blocked' if task.blocked else ''}", _STATUS_COLOURS[task.status])


@verb(app, needs="resource", example="memolog tasks ready")
async def ready(call: Call, label: _Labels = None, limit: Limit = 10) -> Answer:
    """List tasks that can be claimed now, highest priority first, with reasons. Exit code 1: nothing is ready."""
    found = await call.of_resource.tasks().ready(labels=label or (), limit=limit)
    counts = found.counts
    caption = (
        f"{counts.ready} ready, {counts.blocked} blocked, {counts.deferred} deferred, {counts.in_progress} in progress"
    )
    return listing(
        found,
        found.items,
        ("task!", "prio!?", "title", "why"),
        lambda item: (styled(item.task.handle, "bold"), f"P{item.task.priority}", item.task.title, item.why),
        f"Nothing is ready: {caption}.",
        title=f"Ready tasks of {call.resource}",
        caption=caption,
    )


@verb(app, needs="resource", example="memolog tasks show T-1")
async def show(call: Call, task: TaskName) -> Answer:
    """Show a task with all its links."""
    view = await call.of_resource.tasks().show(task)
    return Answer(data=view, show=lambda: _show_view(view))


def _rows(task: "Task") -> "list[tuple[str, Text | str | None]]":
    return [
        ("task", styled(f"{task.handle}  {one_line(task.title)}", "bold")),
        ("status", _status(task)),
        ("what", f"{task.type}, priority {task.priority}"),
        ("created", when(task.created_at)),
        ("changed", f"{when(task.updated_at)}, version {task.version}"),
        ("description", task.description or None),
        ("assignee", task.assignee or None),
        ("held by", f"{task.session}, until {when(task.held_until)}" if task.session and task.held_until else None),
        ("labels", ", ".join(sorted(task.labels)) or None),
        ("deferred", when(task.defer_until) if task.defer_until else None),
        ("due", when(task.due) if task.due else None),
        ("closed", f"{task.close_reason}, {when(task.closed_at)}" if task.closed_at else None),
        ("summary", task.summary or None),
    ]


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
    return fields([*rows, ("linked", counted(view.messages, "message"))])


def _refs(refs: "Iterable[TaskRef]") -> str:
    return "\n".join(f"{ref.handle} {one_line(ref.title, 80)} ({ref.status})" for ref in refs)


@verb(app, needs="resource", writes=True, example='memolog tasks search "refresh tokens"')
async def search(
    call: Call,
    query: Annotated[str, typer.Argument(help="Text to find.")],
    status: _Statuses = None,
    limit: Limit = 10,
    related: Annotated[
        bool, typer.Option("--related", help="Also show messages and observations about each task.")
    ] = False,
) -> Answer:
    """Search tasks. Exit code 1: nothing found."""
    statuses: Any = tuple(status or ())
    hits = await call.of_resource.tasks().search(query, status=statuses, limit=limit, related=related)

    def row(hit: "TaskHit") -> "tuple[Text | str, ...]":
        return styled(hit.task.handle, "bold"), hit.task.status, hit.task.title, marked(one_line(hit.snippet, 200))

    heads = ("task!", "status!?", "title", "found")
    title = f"Tasks of {call.resource} for “{one_line(query, 60)}”"
    return listing({"hits": hits}, hits, heads, row, "Nothing found.", title=title)


@verb(app, needs="resource", example="memolog tasks history T-1")
async def history(call: Call, task: TaskName, limit: Limit = 100) -> Answer:
    """Show the changes of a task."""
    handle = (await call.of_resource.tasks().get(task)).handle
    page = await call.of_resource.tasks().history(task, limit=limit)
    heads = ("at!", "who?", "what!", "details")
    return listing(
        page,
        page.items,
        heads,
        lambda change: (
            when(change.at),
            change.who,
            change.what,
            ", ".join(f"{name} {one_line(str(value), 200)}" for name, value in encode(change.details).items()),
        ),
        "",
        title=f"Changes of {handle}",
    )


@verb(app, needs="resource", example="memolog tasks explain T-1")
async def explain(call: Call, task: TaskName) -> Answer:
    """Explain why a task is or is not ready. Exit code 1: it is not ready."""
    found = await call.of_resource.tasks().explain(task)
    words = f"{found.task.handle}: {' '.join(found.reasons)}"
    return Answer(data=found, show=words, code=0 if found.is_ready else 1)


@verb(app, needs="resource", example="memolog tasks about T-1")
async def about(call: Call, task: TaskName, limit: Limit = 20) -> Answer:
    """Show messages, observations and cost of a task."""
    found = await call.of_resource.tasks().about(task, limit=limit)

    def show_about() -> "RenderableType":
        rows = _rows(found.task)
        rows += [("learned", one_line(line.text)) for line in found.observations]
        rows += [
            (
                f"{item.message.thread} {item.message.seq}",
                f"{item.message.role}: {one_line(text_of(item.message), 160)}",
            )
            for item in found.messages
        ]
        return fields([*rows, ("cost", f"{counted(found.cost.requests, 'request')}, ${found.cost.cost:.4f}")])

    return Answer(data=found, show=show_about)


@verb(app, needs="resource", example="memolog tasks stale --days 14")
async def stale(
    call: Call, days: Annotated[float, typer.Option(help="Days without a change.", min=0)] = 14, limit: Limit = 50
) -> Answer:
    """List tasks without recent changes that are not in progress. Exit code 1: there are none."""
    title = f"Tasks of {call.resource} without a change for {duration(days * 86_400)}"
    return _tasks_answer(await call.of_resource.tasks().stale(days=days, limit=limit), title)


@verb(app, needs="resource", example="memolog tasks duplicates")
async def duplicates(
    call: Call, task: Annotated[str | None, typer.Argument(help="Only duplicates of this task.")] = None
) -> Answer:
    """List pairs of open tasks that are probably duplicates. Exit code 1: there are none."""
    found = await call.of_resource.tasks().duplicates(task)
    return listing(
        {"pairs": found},
        found,
        (">likeness?", "task", "other"),
        lambda p: (f"{p.likeness:.2f}", f"{p.task.handle} {p.task.title}", f"{p.other.handle} {p.other.title}"),
        "There are no probable duplicates.",
        title=f"Probable duplicates among the tasks of {call.resource}",
    )


_Session = Annotated[
    str | None,
    typer.Option(envvar="MEMOLOG_SESSION", help="Session that holds the task. Default: this user."),
]
_Thread = Annotated[str | None, typer.Option("--thread", "-t", help="Thread whose messages are linked to the task.")]
_Messages = Annotated[list[str], typer.Argument(help="Message ids, or one span of a thread (12-30).")]
_Lease = Annotated[float | None, typer.Option(help="Seconds until the claim expires.", min=1)]
_Force = Annotated[bool, typer.Option("--force", help="Also if another session holds the task.")]
_Kind = Annotated[str, typer.Option(help="Kind of link: blocks, parent-child, related or discovered-from.")]
_Priority = Annotated[
    int | None, typer.Option("--priority", "-p", help="Priority from 0 (highest) to 4 (lowest).", min=0, max=4)
]
_Type = Annotated[str | None, typer.Option("--type", help="Type: bug, feature, task, epic or chore.")]
_Due = Annotated[str | None, typer.Option(help="Due date: 2026-03-14, tomorrow, friday, or 2d for two days from now.")]
_NewLabels = Annotated[list[str] | None, typer.Option(help="Label; repeatable.")]


def _tasks(call: Call, session: str | None = None, thread: str | None = None) -> "Tasks":
    return call.of_resource.tasks(session=session or acting_user(), who=acting_user(), thread=thread)


def _task_answer(task: "Task", words: str, data: object = None) -> Answer:
    from rich.console import Group

    return Answer(data=data or task, show=lambda: Group(styled(words, "green"), fields(_rows(task))))


@verb(
    app,
    needs="resource",
    writes=True,
    example='memolog tasks create "Rotate refresh tokens" --priority 1 --blocked-by T-1',
)
async def create(
    call: Call,
    title: Annotated[str, typer.Argument(help="Title in one line.")],
    description: Annotated[str, typer.Option("--description", "-d", help="Description.")] = "",
    priority: _Priority = None,
    type_: _Type = None,
    label: _NewLabels = None,
    due: _Due = None,
    assignee: Annotated[str | None, typer.Option(help="Assignee.")] = None,
    parent: Annotated[str | None, typer.Option(help="Parent task.")] = None,
    blocked_by: Annotated[list[str] | None, typer.Option(help="Task that must be closed first; repeatable.")] = None,
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
    return _task_answer(task, f"Created {task.handle}.")


@verb(app, needs="resource", writes=True, example="memolog tasks edit T-1 --priority 0 --label security")
async def edit(
    call: Call,
    task: TaskName,
    title: Annotated[str | None, typer.Option(help="New title.")] = None,
    description: Annotated[str | None, typer.Option("--description", "-d", help="New description.")] = None,
    priority: _Priority = None,
    type_: _Type = None,
    label: _NewLabels = None,
    remove_label: Annotated[list[str] | None, typer.Option(help="Label to remove; repeatable.")] = None,
    due: _Due = None,
    defer: Annotated[
        str | None,
        typer.Option(help="Not ready until then: 2026-03-14, 2d for two days from now, or now."),
    ] = None,
    assignee: Annotated[str | None, typer.Option(help="New assignee; an empty text for none.")] = None,
) -> Answer:
    """Change the given fields of a task."""
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
        raise InputError("No change was given.", then="See `memolog tasks edit --help`.")
    changed = await tasks.edit(task, **changes, add_labels=label or (), remove_labels=remove_label or ())
    return _task_answer(changed, f"Changed {changed.handle}.")


# ---------------------------------------------------------------- working


@verb(app, needs="resource", writes=True, example="memolog tasks claim T-1 --thread atlas")
async def claim(
    call: Call, task: TaskName, session: _Session = None, thread: _Thread = None, lease: _Lease = None
) -> Answer:
    """Claim a task for a session. Exit code 4: it is blocked, or another session holds it."""
    return _claim_answer(await _tasks(call, session, thread).claim(task, lease=lease), call.memory.clock.now())


@verb(app, needs="resource", writes=True, name="next", example="memolog tasks next")
async def claim_next(
    call: Call, label: _NewLabels = None, session: _Session = None, thread: _Thread = None, lease: _Lease = None
) -> Answer:
    """Claim the ready task with the highest priority. Exit code 1: nothing is ready."""
    claimed = await _tasks(call, session, thread).claim_next(labels=label or (), lease=lease)
    if claimed is None:
        return Answer(data=None, show="Nothing is ready.", code=1)
    return _claim_answer(claimed, call.memory.clock.now())


def _rounded_up(seconds: float) -> str:
    """Return a length of time in words, rounded up to a minute. A task that was just claimed for 15 minutes is held for 15."""
    return duration(math.ceil(seconds / 60) * 60)


def _claim_answer(claimed: "Claimed", now: "datetime") -> Answer:
    still, left = "still " if claimed.renewed else "", _rounded_up((claimed.until - now).total_seconds())
    words = f"{claimed.task.handle} is {still}yours for {left}, until {when(claimed.until)}."
    return _task_answer(claimed.task, words, claimed)


@verb(app, needs="resource", writes=True, example="memolog tasks release T-3 --session agent-7")
async def release(call: Call, task: TaskName, session: _Session = None, force: _Force = False) -> Answer:
    """Release a claimed task without closing it."""
    released = await _tasks(call, session).release(task, force=force)
    return _task_answer(released, f"{released.handle} is open again.")


@verb(app, needs="resource", writes=True, example='memolog tasks close T-1 --summary "Tokens are stored hashed."')
async def close(
    call: Call,
    task: TaskName,
    summary: Annotated[str | None, typer.Option(help="Result of the task.")] = None,
    draft: Annotated[
        bool, typer.Option("--draft", help="Draft the summary from the messages of the task, with citations.")
    ] = False,
    reason: Annotated[str, typer.Option(help="Reason: completed, wontfix or duplicate.")] = "completed",
    session: _Session = None,
    force: _Force = False,
) -> Answer:
    """Close a task with a summary, and show which tasks it unblocked."""
    tasks = _tasks(call, session)
    if summary is None and not draft:
        raise InputError("Closing a task needs a summary.", then='Add --summary "…", or --draft.')
    text = summary if summary is not None else (await tasks.draft_summary(task)).text
    why: Any = reason
    closed = await tasks.close(task, why, summary=text, force=force)
    return Answer(data=closed, show=lambda: _show_closed(closed))


def _show_closed(closed: "Closed") -> "RenderableType":
    from rich.console import Group

    words = [styled(f"Closed {closed.task.handle}.", "green")]
    words += [styled(f"Unblocked {ref.handle}: {ref.title}", "yellow") for ref in closed.unblocked]
    words += [styled(f"Still open below it: {ref.handle} {ref.title}", "yellow") for ref in closed.open_children]
    return Group(*words, fields(_rows(closed.task)))


@verb(app, needs="resource", writes=True, example='memolog tasks reopen T-4 --why "It came back."')
async def reopen(
    call: Call,
    task: TaskName,
    why: Annotated[str | None, typer.Option(help="Reason, for the history of the task.")] = None,
) -> Answer:
    """Reopen a closed task."""
    opened = await _tasks(call).reopen(task, why=why)
    return _task_answer(opened, f"{opened.handle} is open again.")


@verb(app, needs="resource", writes=True, example="memolog tasks draft T-1")
async def draft(
    call: Call, task: TaskName, most: Annotated[int, typer.Option(help="Maximum number of lines.", min=1)] = 8
) -> Answer:
    """Draft a closing summary, with the messages that each line cites."""
    with call.progress("drafting", "Nothing was changed. Run the command again to start over."):
        made = await _tasks(call).draft_summary(task, most=most)
    spans = [(thread, span_name(Span(first=first, last=last))) for thread, first, last in made.sources]
    cited = "\n".join(f"[{number}] {thread} {span}" for number, (thread, span) in enumerate(spans, start=1))
    return Answer(data=made, show=f"{made.text}\n{cited}", code=0 if made.text else 1)


# ---------------------------------------------------------------- links


@verb(app, needs="resource", writes=True, example="memolog tasks link T-1 T-3 --kind related")
async def link(
    call: Call,
    source: Annotated[str, typer.Argument(help="Task that blocks, is the parent of, or led to the other.")],
    target: Annotated[str, typer.Argument(help="The other task.")],
    kind: _Kind = "blocks",
) -> Answer:
    """Link two tasks. A link that closes a circle is refused."""
    sort: Any = kind
    linked = await _tasks(call).link(source, target, sort)
    return _task_answer(linked, f"Linked {source} and {linked.handle}: {kind}.")


@verb(app, needs="resource", writes=True, example="memolog tasks unlink T-1 T-2")
async def unlink(
    call: Call,
    source: Annotated[str, typer.Argument(help="Source task of the link.")],
    target: Annotated[str, typer.Argument(help="Target task of the link.")],
    kind: _Kind = "blocks",
) -> Answer:
    """Remove a link between two tasks."""
    sort: Any = kind
    freed = await _tasks(call).unlink(source, target, sort)
    return _task_answer(freed, f"{source} and {freed.handle} are no longer linked as {kind}.")


@verb(app, needs="resource", writes=True, example="memolog tasks attach T-3 1-4 --thread atlas")
async def attach(
    call: Call,
    task: TaskName,
    messages: _Messages,
    thread: _Thread = None,
    kind: Annotated[str, typer.Option(help="Kind of link: output, reference or created-from.")] = "reference",
) -> Answer:
    """Link messages to a task. Exit code 1: all were linked already."""
    sort: Any = kind
    tasks = _tasks(call)
    new = await tasks.attach(task, _chosen(messages), sort, thread=thread)
    view = await tasks.show(task)
    words = f"Linked to {view.task.handle} as {kind}: {new} new, {counted(view.messages, 'message')} in all."
    return Answer(data={"linked": new, "in_all": view.messages}, show=words, code=0 if new else 1)


def _chosen(messages: list[str]) -> "list[str] | Span":
    first, _, last = messages[0].partition("-")
    is_span = len(messages) == 1 and first.isdigit() and last.isdigit()
    if is_span and not 1 <= int(first) <= int(last):
        raise InputError(f"{messages[0]} is not a span.", then="Write the first and the last number, such as 12-30.")
    return Span(first=int(first), last=int(last)) if is_span else messages


@verb(app, needs="resource", writes=True, example="memolog tasks detach T-1 1-2 --thread atlas")
async def detach(call: Call, task: TaskName, messages: _Messages, thread: _Thread = None) -> Answer:
    """Unlink messages from a task. Exit code 1: none was linked."""
    tasks = _tasks(call)
    gone = await tasks.detach(task, _chosen(messages), thread=thread)
    view = await tasks.show(task)
    words = f"Unlinked {counted(gone, 'message')} from {view.task.handle}; {counted(view.messages, 'message')} left."
    return Answer(data={"unlinked": gone, "in_all": view.messages}, show=words, code=0 if gone else 1)


# ---------------------------------------------------------------- decay


@verb(app, needs="resource", writes=True, example="memolog tasks decay")
async def decay(call: Call, limit: Limit = 500) -> Answer:
    """Reduce closed tasks to their summary after 30 days, and archive them after 90 days. Exit code 1: none is old enough."""
    done = await _tasks(call).decay(limit=limit)
    rows = [
        ("summarised", ", ".join(done.summarised) or None),
        ("archived", ", ".join(done.archived) or None),
    ]
    if not (done.summarised or done.archived):
        return Answer(data=done, show="No closed task is old enough.", code=1)
    return Answer(data=done, show=lambda: fields(rows))


@verb(app, needs="resource", writes=True, example="memolog tasks restore T-4")
async def restore(call: Call, task: TaskName) -> Answer:
    """Restore the description, metadata and summary of a decayed task."""
    restored = await _tasks(call).restore(task)
    return _task_answer(restored, f"Restored {restored.handle}.")
