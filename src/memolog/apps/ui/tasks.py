"""Tasks: the board by state, the graph of what blocks what, and one task with its messages, observations and history."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from starlette.requests import Request
from starlette.responses import Response

from memolog.apps.ui.charts import Node
from memolog.apps.ui.view import WHO, Endpoint, Page, address, field_of, form_of, named, resource_of, see, show
from memolog.errors import InputError
from memolog.memory import Resource

if TYPE_CHECKING:
    from memolog.tasks.calls import Tasks
    from memolog.tasks.task import CloseReason, Task, TaskRef, TaskStatus

# How many tasks one column of the board has, and how many a page of one state.
_A_COLUMN = 12
_A_PAGE = 50
# The graph is drawn for at most this many blocked tasks. A larger drawing cannot be read.
_DRAWN = 24
_MESSAGES = 20
_CHANGES = 30
_PRIORITIES = ("0", "1", "2", "3", "4")
_REASONS = ("completed", "wontfix", "duplicate")
_STATES = ("ready", "in progress", "blocked", "open", "closed")


async def board(request: Request) -> Response:
    """Show the tasks of a resource by state, or all tasks of one state, page by page."""
    resource, state = resource_of(request), request.query_params.get("state", "")
    tasks = resource.tasks()
    if state and state not in _STATES:
        raise InputError(f"There is no state {state[:40]!r}.", then=f"Use one of {', '.join(_STATES)}.")
    if state:
        found, more = await _some(resource, state, _A_PAGE, request.query_params.get("after") or None)
        return show(
            request,
            "tasks.html",
            state=state,
            columns=[(state, found, more)],
            counts=None,
            graph=None,
            cut=0,
            priorities=(),
        )
    columns = [(one, *await _some(resource, one, _A_COLUMN)) for one in ("ready", "in progress", "blocked", "closed")]
    blocked = (await tasks.list(status=("open", "in_progress"), blocked=True, limit=_DRAWN)).items
    nodes, edges = await _graph(resource, blocked)
    counts = await tasks.counts()
    values: dict[str, Any] = {
        "priorities": _PRIORITIES,
        "counts": counts,
        "graph": (nodes, edges) if edges else None,
        "cut": max(0, counts.blocked - len(blocked)),
    }
    return show(request, "tasks.html", state="", columns=columns, **values)


async def _some(
    resource: Resource, state: str, limit: int, after: str | None = None
) -> "tuple[Sequence[tuple[Task, str]], str | None]":
    """Return tasks of one state, each with a remark, and the token of the next page."""
    tasks = resource.tasks()
    if state == "ready":
        ready = await tasks.ready(limit=limit, after=after)
        return [(one.task, one.why) for one in ready.items], ready.next
    kinds: dict[str, tuple[TaskStatus, bool | None]] = {
        "in progress": ("in_progress", None),
        "blocked": ("open", True),
        "open": ("open", None),
        "closed": ("closed", None),
    }
    status, blocked = kinds[state]
    page = await tasks.list(status=status, blocked=blocked, limit=limit, after=after)
    return [(one, _remark(one)) for one in page.items], page.next


def _remark(task: "Task") -> str:
    if task.status == "closed":
        return task.summary or task.close_reason or ""
    return f"claimed by {task.session}" if task.session else ""


async def _graph(resource: Resource, blocked: "Sequence[Task]") -> tuple[list[Node], list[tuple[str, str]]]:
    """Return the tasks that block some tasks, and these, with a link from each blocker to what it blocks."""
    tasks = resource.tasks()
    nodes: dict[str, Node] = {}
    edges: list[tuple[str, str]] = []
    for task in blocked:
        view = await tasks.show(task.id)
        nodes[task.id] = _node(resource, task)
        # A task is also blocked if its parent is.
        waits = [*view.blocked_by, *(parent for parent in view.parents if parent.blocked)]
        for one in waits:
            if one.status != "closed":
                nodes.setdefault(one.id, _node(resource, one))
                edges.append((one.id, task.id))
    return list(nodes.values()), edges


def _node(resource: Resource, task: "Task | TaskRef") -> Node:
    kind = "blocked" if task.blocked else {"open": "ready", "in_progress": "working", "closed": "closed"}[task.status]
    href = address("/task", resource=resource.id, task=task.handle)
    return Node(key=task.id, name=task.handle, title=task.title, kind=kind, href=href)


async def task(request: Request) -> Response:
    """Show one task."""
    resource, name = resource_of(request), named(request, "task")
    tasks = resource.tasks()
    about = await tasks.about(name, limit=_MESSAGES, after=request.query_params.get("after") or None)
    view, explained = await tasks.show(about.task.id), await tasks.explain(about.task.id)
    around = [*view.blocked_by, *view.blocks]
    nodes = [_node(resource, about.task), *(_node(resource, one) for one in {one.id: one for one in around}.values())]
    edges = [(one.id, about.task.id) for one in view.blocked_by] + [(about.task.id, one.id) for one in view.blocks]
    changes = await tasks.history(about.task.id, limit=_CHANGES, after=request.query_params.get("changes") or None)
    values: dict[str, Any] = {
        "about": about,
        "task": about.task,
        "view": view,
        "explained": explained,
        "graph": (nodes, edges) if edges else None,
        "changes": changes,
        "priorities": _PRIORITIES,
        "reasons": _REASONS,
    }
    return show(request, "task.html", **values)


# ---------------------------------------------------------------- changes


def _back(request: Request, task: str) -> Response:
    return see("/task", resource=named(request, "resource"), thread=request.query_params.get("thread"), task=task)


def _tasks(request: Request) -> "Tasks":
    return resource_of(request).tasks(session=WHO, who=WHO)


def _number(form: Mapping[str, str]) -> int:
    value = form.get("priority", "2")
    if value not in _PRIORITIES:
        raise InputError(f"`priority` must be a number from 0 to 4, got {value[:40]!r}.")
    return int(value)


def _labels(form: Mapping[str, str]) -> list[str]:
    return [label for one in form.get("labels", "").split(",") if (label := one.strip())]


async def create(request: Request) -> Response:
    """Create a task."""
    form = await form_of(request)
    made = await _tasks(request).create(
        field_of(form, "title"),
        description=form.get("description", ""),
        priority=_number(form),
        labels=_labels(form),
        blocked_by=[name for one in form.get("blocked_by", "").split(",") if (name := one.strip())],
    )
    return _back(request, made.handle)


async def edit(request: Request) -> Response:
    """Change the fields of a task, unless another writer has changed it since the page was loaded."""
    form, name = await form_of(request), named(request, "task")
    version = form.get("version", "")
    await _tasks(request).edit(
        name,
        title=field_of(form, "title"),
        description=form.get("description", ""),
        priority=_number(form),
        labels=_labels(form),
        version=int(version) if version.isdecimal() else None,
    )
    return _back(request, name)


async def move(request: Request) -> Response:
    """Claim, release, close or reopen a task, or change what blocks it."""
    form, name = await form_of(request), named(request, "task")
    tasks = _tasks(request)
    match form.get("move"):
        case "claim":
            await tasks.claim(name)
        case "release":
            await tasks.release(name, force=True)
        case "close":
            reason = cast("CloseReason", form.get("reason", "completed"))
            await tasks.close(name, reason, summary=field_of(form, "summary"), force=True)
        case "reopen":
            await tasks.reopen(name)
        case "block":
            await tasks.link(field_of(form, "other"), name)
        case "unblock":
            await tasks.unlink(field_of(form, "other"), name)
        case other:
            raise InputError(f"A task cannot be moved by {other!r:.40}.", then="Use a form of the page.")
    return _back(request, name)


def _post(path: str, title: str, endpoint: Endpoint) -> Page:
    return Page(path=path, title=title, endpoint=endpoint, about="resource", is_listed=False, methods=("POST",))


PAGES = (
    _post("/task/create", "Create a task", create),
    _post("/task/edit", "Change a task", edit),
    _post("/task/move", "Move a task", move),
    Page(path="/tasks", title="Tasks", endpoint=board, about="resource"),
    Page(path="/task", title="Task", endpoint=task, about="resource", is_listed=False),
)
