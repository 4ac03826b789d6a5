"""Tasks: the board by state, the graph of what blocks what, and one task with its messages, observations and history."""

from collections.abc import Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from memolog.apps.ui.charts import Node
from memolog.apps.ui.view import Page, address, named, resource_of, show
from memolog.errors import InputError
from memolog.memory import Resource
from memolog.tasks.task import Task, TaskRef, TaskStatus

# How many tasks one column of the board has, and how many a page of one state.
_A_COLUMN = 12
_A_PAGE = 50
# The graph is drawn for at most this many blocked tasks. A larger drawing cannot be read.
_DRAWN = 24
_MESSAGES = 20
_CHANGES = 30
_STATES = ("ready", "in progress", "blocked", "open", "closed")


async def board(request: Request) -> Response:
    """Show the tasks of a resource by state, or all tasks of one state, page by page."""
    resource, state = resource_of(request), request.query_params.get("state", "")
    tasks = resource.tasks()
    if state and state not in _STATES:
        raise InputError(f"There is no state {state[:40]!r}.", then=f"Use one of {', '.join(_STATES)}.")
    if state:
        found, more = await _some(resource, state, _A_PAGE, request.query_params.get("after") or None)
        return show(request, "tasks.html", state=state, columns=[(state, found, more)], counts=None, graph=None, cut=0)
    columns = [(one, *await _some(resource, one, _A_COLUMN)) for one in ("ready", "in progress", "blocked", "closed")]
    blocked = (await tasks.list(status=("open", "in_progress"), blocked=True, limit=_DRAWN)).items
    nodes, edges = await _graph(resource, blocked)
    counts = await tasks.counts()
    values: dict[str, Any] = {
        "counts": counts,
        "graph": (nodes, edges) if edges else None,
        "cut": max(0, counts.blocked - len(blocked)),
    }
    return show(request, "tasks.html", state="", columns=columns, **values)


async def _some(
    resource: Resource, state: str, limit: int, after: str | None = None
) -> tuple[Sequence[tuple[Task, str]], str | None]:
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


def _remark(task: Task) -> str:
    if task.status == "closed":
        return task.summary or task.close_reason or ""
    return f"claimed by {task.session}" if task.session else ""


async def _graph(resource: Resource, blocked: Sequence[Task]) -> tuple[list[Node], list[tuple[str, str]]]:
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


def _node(resource: Resource, task: Task | TaskRef) -> Node:
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
    }
    return show(request, "task.html", **values)


PAGES = (
    Page(path="/tasks", title="Tasks", endpoint=board, about="resource"),
    Page(path="/task", title="Task", endpoint=task, about="resource", is_listed=False),
)
