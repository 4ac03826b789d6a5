"""Define what an MCP server serves, and read its resources: log, context pack, working memory and tasks."""

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote, unquote

import mcp_types as types

from memolog.adapters.checking import check_memory
from memolog.context.working_memory import working_memory_text
from memolog.domain.errors import InputError, NotFound, ThreadNotFound
from memolog.domain.task import Task
from memolog.domain.working_memory import Document
from memolog.runtime.memory import Memory
from memolog.runtime.packing import context_pack
from memolog.runtime.tools import Tools

PACK_TOKENS: Final = 4_000
_LEAST_TOKENS: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """A memory as the clients of one server see it."""

    memory: Memory
    resource: str
    thread: str | None = None
    """The conversation that the tools work for; without one, that which was active last is shown."""
    session: str | None = None
    """For whom tasks are claimed; without one, for the thread, or else for this server alone."""
    tokens: int = PACK_TOKENS
    """How large a context pack may be."""
    every: float = 2.0
    """How often to look for changes that other processes made, in seconds, while a client wants to know."""
    tools: Tools = field(init=False)

    def __post_init__(self) -> None:
        check_memory(self.memory)
        if self.tokens < _LEAST_TOKENS:
            raise InputError(
                f"A context pack cannot tell anything in {self.tokens} tokens.",
                then=f"Allow at least {_LEAST_TOKENS}.",
            )
        object.__setattr__(self, "tools", self.tools_of(self.session))

    @property
    def is_read_only(self) -> bool:
        """Tell whether clients may only look."""
        return self.memory.config.read_only

    def tools_of(self, session: str | None) -> Tools:
        """Return the tools, claiming for a session."""
        return self.memory.tools(self.resource, thread=self.thread, session=session)

    def definitions(self) -> list[dict[str, Any]]:
        """Return the definitions that clients are given."""
        return tool_definitions(self.tools, is_read_only=self.is_read_only)


def tool_definitions(tools: Tools, *, is_read_only: bool) -> list[dict[str, Any]]:
    """Return the tools' own definitions: without those that change anything where nothing may be changed."""
    return [one for one in tools.definitions("mcp") if not is_read_only or one["annotations"]["readOnlyHint"]]


def wire_text(text: str) -> str:
    """Return a text that can be sent: halves of surrogate pairs, which UTF-8 does not have, are joined or replaced."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def wire_json(value: object) -> str:
    """Return a value as JSON that can be sent."""
    return wire_text(json.dumps(value, ensure_ascii=False))


LOG: Final = "memolog://log"
PACK: Final = "memolog://context-pack"
WORKING_MEMORY: Final = "memolog://working-memory"
TASK: Final = "memolog://task/"
_MARKDOWN: Final = "text/markdown"
_JSON: Final = "application/json"
_MOST_TASKS: Final = 20
_LONGEST_ADDRESS: Final = 600


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """What a resource holds."""

    text: str
    media_type: str


def task_uri(handle: str) -> str:
    """Return the address of a task."""
    return f"{TASK}{quote(handle, safe='')}"


async def listed(served: Served) -> list[types.Resource]:
    """Return the resources: the three that are always there, then what is being worked on and what is ready."""
    fixed = [
        types.Resource(
            uri=PACK,
            name="context-pack",
            title="Context pack",
            description=f"What matters most of the memory, in at most {served.tokens:,} tokens: begin a session with it.",
            mime_type=_MARKDOWN,
        ),
        types.Resource(
            uri=LOG,
            name="log",
            title="Log",
            description="The dated observations of what was said and done, all of them.",
            mime_type=_MARKDOWN,
        ),
        types.Resource(
            uri=WORKING_MEMORY,
            name="working-memory",
            title="Working memory",
            description="Lasting facts, decisions and preferences.",
            mime_type=_MARKDOWN,
        ),
    ]
    return fixed + [
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
    """Return the addresses with a place to fill in."""
    return [
        types.ResourceTemplate(
            uri_template=f"{TASK}{{id}}",
            name="task",
            title="Task",
            description="One task with all that hangs on it, by handle (T-12) or id.",
            mime_type=_JSON,
        )
    ]


async def matching_tasks(served: Served, text: str) -> list[str]:
    """Return the handles of open tasks that somebody may be about to name."""
    wanted = text.strip().lower()
    return [
        task.handle
        for task in await _open_tasks(served)
        if task.handle.lower().startswith(wanted) or (wanted and wanted in task.title.lower())
    ]


async def _open_tasks(served: Served) -> Sequence[Task]:
    tasks = served.memory.tasks(served.resource, session=served.session, thread=served.thread)
    under_way = (await tasks.list(status="in_progress", limit=_MOST_TASKS)).items
    ready = (await tasks.ready(limit=_MOST_TASKS)).items
    # A task whose lease has ended is in progress and ready at once.
    found = {task.id: task for task in (*under_way, *(item.task for item in ready))}
    return list(found.values())[:_MOST_TASKS]


# ---------------------------------------------------------------- reading


async def read(served: Served, uri: str) -> Content:
    """Return what a resource holds; raises NotFound."""
    # Some clients add a stroke to an address that ends with its host.
    uri = uri.removesuffix("/")
    if uri == LOG:
        return await _log(served)
    if uri == PACK:
        pack = await context_pack(served.memory, served.resource, served.thread, tokens=served.tokens)
        return _markdown(pack.text or "Nothing is remembered yet.")
    if uri == WORKING_MEMORY:
        return await _working_memory(served)
    name = unquote(uri.removeprefix(TASK)).strip() if len(uri) <= _LONGEST_ADDRESS else ""
    if uri.startswith(TASK) and name:
        return await _task(served, name)
    raise NotFound(
        f"There is no resource {uri[:80]!r}.", then=f"There are {PACK}, {LOG}, {WORKING_MEMORY} and {TASK}T-12."
    )


async def _log(served: Served) -> Content:
    """Return the log of the thread, of the one that was active last, or the one that all share."""
    kit = await served.memory.open()
    store, thread = kit.store, served.thread
    if thread is None:
        newest = (await store.threads.list(served.resource, limit=1)).items
        thread = newest[0].id if newest else None
    groups: list[str] = []
    if thread is not None:
        with suppress(ThreadNotFound):
            scope = (await kit.config_for(served.resource)).scope
            snapshot = await store.logs.snapshot(served.resource, thread, scope, create=False, newest=1)
            groups = [group.text for group in snapshot.groups if group.text]
    return _markdown("\n\n".join(groups) or "The log has no line yet.")


async def _working_memory(served: Served) -> Content:
    found: dict[str, Document] = {}
    for scope, thread in (("resource", None), ("thread", served.thread)):
        if scope == "resource" or thread is not None:
            with suppress(ThreadNotFound):
                document = await served.memory.working_memory(served.resource, thread).read()
                if document is not None:
                    found[scope] = document
    text = working_memory_text({scope: document.current.text for scope, document in found.items()})
    if text and [document.format for document in found.values()] == ["json"]:
        return Content(text=wire_text(text), media_type=_JSON)
    return _markdown(text or "The working memory is empty.")


async def _task(served: Served, name: str) -> Content:
    answer = await served.tools.call("task-query", {"action": "show", "task": name, "related": True})
    if not answer["success"]:
        raise NotFound(str(answer["error"]))
    del answer["success"]
    return Content(text=wire_json(answer), media_type=_JSON)


def _markdown(text: str) -> Content:
    return Content(text=wire_text(text), media_type=_MARKDOWN)
