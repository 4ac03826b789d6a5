"""Verbs that read tasks: list, ready, show, search, history, explain, about, stale, duplicates.

Knows how tasks are shown to a person. Changing them is `task_changes`.
"""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from memolog.apps.cli.finding import marked
from memolog.apps.cli.telling import clean, fields, one_line, table, told, when
from memolog.apps.cli.verb import Answer, Call, verb
from memolog.domain.codec import encode

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

    from memolog.domain.task import Task, TaskRef, TaskView

__all__ = ["TaskName", "app", "show_task", "show_tasks"]

app = typer.Typer()

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
