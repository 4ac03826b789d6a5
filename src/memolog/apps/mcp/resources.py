"""List and read the MCP resources of a server: log, context pack, working memory and tasks."""

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, unquote

import mcp_types as types

from memolog.adapters.guards import check_memory
from memolog.context.edge import working_memory_text
from memolog.core.document import Document
from memolog.errors import InputError, NotFound, ThreadNotFound
from memolog.memory import Memory, Tools

if TYPE_CHECKING:
    from memolog.tasks.task import Task

_LEAST_TOKENS: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """The memory that one MCP server serves, and its settings."""

    memory: Memory
    resource: str
    thread: str | None = None
    """Thread of the tools and of the log. With None, the log is that of the thread with the newest activity."""
    session: str | None = None
    """Session that claims tasks. Default: the thread or, without a thread, a new id."""
    tokens: int = 4_000
    """Maximum number of tokens of a context pack."""
    every: float = 2.0
    """Seconds between checks for changes by other processes. Without subscriptions there are no checks."""
    tools: Tools = field(init=False)

    def __post_init__(self) -> None:
        check_memory(self.memory)
        if self.tokens < _LEAST_TOKENS:
            raise InputError(f"tokens must be {_LEAST_TOKENS} or more, got {self.tokens}.")
        object.__setattr__(self, "tools", self.tools_of(self.session))

    @property
    def is_read_only(self) -> bool:
        """Return whether clients may only read."""
        return self.memory.config.read_only

    def tools_of(self, session: str | None) -> Tools:
        """Return the tools for a session."""
        return self.memory.resource(self.resource).tools(thread=self.thread, session=session)


def wire_text(text: str) -> str:
    """Return a text that UTF-8 can encode. Surrogate pairs become one character, and lone surrogates are replaced."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def wire_json(value: object) -> str:
    """Return a value as JSON that UTF-8 can encode."""
    return wire_text(json.dumps(value, ensure_ascii=False))


LOG: Final = "memolog://log"
PACK: Final = "memolog://context-pack"
WORKING_MEMORY: Final = "memolog://working-memory"
TASK: Final = "memolog://task/"
_MARKDOWN: Final = "text/markdown"
_JSON: Final = "application/json"
# Maximum number of tasks in the list of resources.
_MOST_TASKS: Final = 20
# Maximum number of characters of the URI of a task.
_LONGEST_URI: Final = 600


def task_uri(handle: str) -> str:
    """Return the URI of a task."""
    return f"{TASK}{quote(handle, safe='')}"


async def listed(served: Served) -> list[types.Resource]:
    """Return the list of resources: the three fixed ones, then tasks that are in progress or ready."""
    pack = f"The most relevant memory in at most {served.tokens:,} tokens: read it at the start of a session."
    fixed = (
        (PACK, "context-pack", "Context pack", pack),
        (LOG, "log", "Log", "All dated observations of what was said and done."),
        (WORKING_MEMORY, "working-memory", "Working memory", "Lasting facts, decisions and preferences."),
    )
    return [
        types.Resource(uri=uri, name=name, title=title, description=description, mime_type=_MARKDOWN)
        for uri, name, title, description in fixed
    ] + [
        types.Resource(
            uri=task_uri(task.handle),
            name=f"task {task.handle}",
            title=wire_text(f"{task.handle} {task.title}"),
            description=f"{task.status.replace('_', ' ')}, priority {task.priority}",
            mime_type=_JSON,
        )
        for task in await _open_tasks(served)
    ]


def templates() -> list[types.ResourceTemplate]:
    """Return the URI templates of the resources."""
    return [
        types.ResourceTemplate(
            uri_template=f"{TASK}{{id}}",
            name="task",
            title="Task",
            description="One task with everything linked to it, by handle (T-12) or id.",
            mime_type=_JSON,
        )
    ]


async def matching_tasks(served: Served, text: str) -> list[str]:
    """Return the handles that complete a text in a client: those of matching tasks that are in progress or ready."""
    wanted = text.strip().lower()
    return [
        task.handle
        for task in await _open_tasks(served)
        if task.handle.lower().startswith(wanted) or (wanted and wanted in task.title.lower())
    ]


async def _open_tasks(served: Served) -> "Sequence[Task]":
    tasks = served.memory.resource(served.resource).tasks(session=served.session, thread=served.thread)
    under_way = (await tasks.list(status="in_progress", limit=_MOST_TASKS)).items
    ready = (await tasks.ready(limit=_MOST_TASKS)).items
    # A task whose lease has expired is in both lists, so select by id.
    found = {task.id: task for task in (*under_way, *(item.task for item in ready))}
    return list(found.values())[:_MOST_TASKS]


# ---------------------------------------------------------------- reading


async def read(served: Served, uri: str, session: str | None = None) -> types.TextResourceContents:
    """Return the content of a resource. Raises NotFound for an unknown URI or task.

    `session` is the session of the client. The context pack shows the tasks that this session has claimed as active.
    """
    # Some clients append a slash to a URI without a path.
    place, media_type = uri.removesuffix("/"), _MARKDOWN
    name = unquote(place.removeprefix(TASK)).strip() if len(place) <= _LONGEST_URI else ""
    if place == LOG:
        text = await _log(served)
    elif place == PACK:
        resource = served.memory.resource(served.resource)
        pack = await resource.pack(thread=served.thread, session=session or served.tools.session, tokens=served.tokens)
        text = pack.text or "Nothing is remembered yet."
    elif place == WORKING_MEMORY:
        text, media_type = await _working_memory(served)
    elif place.startswith(TASK) and name:
        text, media_type = await _task(served, name), _JSON
    else:
        raise NotFound(
            f"There is no resource {place[:80]!r}.", then=f"There are {PACK}, {LOG}, {WORKING_MEMORY} and {TASK}T-12."
        )
    return types.TextResourceContents(uri=uri, mime_type=media_type, text=wire_text(text))


async def _log(served: Served) -> str:
    """Return the log of the served thread or, without one, of the thread with the newest activity."""
    resource, thread = served.memory.resource(served.resource), served.thread
    if thread is None:
        newest = (await resource.threads(limit=1)).items
        thread = newest[0].id if newest else None
    groups: list[str] = []
    if thread is not None:
        with suppress(ThreadNotFound):
            groups = [group.text for group in await resource.thread(thread).groups() if group.text]
    return "\n\n".join(groups) or "The log has no line yet."


async def _working_memory(served: Served) -> tuple[str, str]:
    scopes = {"resource": None, **({} if served.thread is None else {"thread": served.thread})}
    found: dict[str, Document] = {}
    for scope, thread in scopes.items():
        with suppress(ThreadNotFound):
            document = await served.memory.resource(served.resource).working_memory(thread=thread).read()
            if document is not None:
                found[scope] = document
    text = working_memory_text({scope: document.current.text for scope, document in found.items()})
    is_json = bool(text) and [document.format for document in found.values()] == ["json"]
    return text or "The working memory is empty.", _JSON if is_json else _MARKDOWN


async def _task(served: Served, name: str) -> str:
    answer = await served.tools.call("task-query", {"action": "show", "task": name, "related": True})
    if not answer["success"]:
        raise NotFound(str(answer["error"]))
    del answer["success"]
    return json.dumps(answer, ensure_ascii=False)
