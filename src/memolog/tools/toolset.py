"""Run the three tools for models on one memory and resource. Errors are returned, never raised into the agent."""

import json
import logging
import re
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final

from memolog.core.observation import Span
from memolog.core.own_tools import OWN_TOOLS, called_tool
from memolog.errors import InputError, MemologError, ThreadNotFound
from memolog.memory import Memory
from memolog.search.values import SearchResult
from memolog.tasks.task import Claimed, TaskHit
from memolog.tools.actions import (
    Action,
    Claim,
    Close,
    Create,
    Dep,
    Link,
    ListTasks,
    Ready,
    Recall,
    Search,
    SearchTasks,
    Show,
    UpdateContext,
)
from memolog.tools.arguments import Misunderstood, understand
from memolog.tools.definitions import Form, definition, guidance
from memolog.tools.names import (
    CURRENT,
    ROOM,
    Scope,
    clip,
    fitting,
    minute,
    shown_message,
    shown_observation,
    shown_ref,
    shown_refs,
    shown_task,
    shown_view,
    task_meant,
)

_SPAN: Final = re.compile(r"#?(\d{1,15})(?:\s*(?:-|–|\.\.|to)\s*#?(\d{1,15}))?")
_NEXT: Final = frozenset({"next", "any", "first", "ready"})
_SHOWN_DOCUMENT: Final = 4_000
_DESCRIPTION: Final = 3_500
_RELATED: Final = 5
_PAGE_TOKENS: Final = 1_700
_SNIPPET: Final = 600
_MOST_RELAXED: Final = 8
# Numbers and groups refer to this thread, unless another one is named; ids are found in any thread.
_OF_THREAD: Final = re.compile(r"\s*(?:#?\d+(?:\s*(?:-|–|—|\.\.|to)\s*#?\d+)?|g\d+(?:\.\d+)?)\s*", re.IGNORECASE)
_HERE: Final = frozenset({"this", "current", "here"})
_DOCUMENT: Final = frozenset({"workingmemory", "context", "facts"})
_log = logging.getLogger("memolog")
_MOST_ERROR: Final = 2_000


class Toolset:
    """The tools of one resource, for one thread and session."""

    def __init__(self, memory: Memory, resource: str, *, thread: str | None = None, session: str | None = None) -> None:
        """Bind the tools to a resource; tasks are claimed for `session` and become the active task of `thread`."""
        self.resource, self.thread, self.session = resource, thread, session
        self._scope = Scope(memory=memory, resource=resource, thread=thread, session=session)

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the tools."""
        return OWN_TOOLS

    @property
    def guidance(self) -> str:
        """Return instructions for the system prompt on how to use the tools."""
        return guidance()

    def definitions(self, form: Form = "openai") -> list[dict[str, Any]]:
        """Return the definitions to give to a model: in the form of `openai`, `openai-responses`, `anthropic` or `mcp`."""
        return [definition(tool, form) for tool in OWN_TOOLS]

    async def call(self, name: str, arguments: object = None) -> dict[str, Any]:
        """Return the answer to a call: `{"success": True, …}`, or `{"success": False, "error": …, "retryable": …}`."""
        try:
            return await self._call(name, arguments)
        except Misunderstood as problem:
            return _failure(str(problem), retryable=False)
        except MemologError as error:
            if error.for_outside != str(error):
                _log.warning("the tool %r failed: %s", name, error)
            return _failure(error.for_outside, retryable=error.retryable)
        except Exception:  # noqa: BLE001 - memory must not break the agent
            _log.exception("the tool %r failed unexpectedly", name)
            return _failure("The memory failed to answer. Go on without it, or try once more.", retryable=True)

    async def _call(self, name: str, arguments: object) -> dict[str, Any]:
        tool = called_tool(name)
        if tool is None:
            raise Misunderstood(f"There is no tool {str(name)[:80]!r} here. There are {', '.join(OWN_TOOLS)}.")
        understood = understand(tool, arguments)
        answer = await _PERFORM[type(understood.action)](self._scope, understood.action)
        note = {"ignored": sorted(understood.ignored)[:10]} if understood.ignored else {}
        return {"success": True, **answer, **note}


def _failure(error: str, *, retryable: bool) -> dict[str, Any]:
    return {"success": False, "error": clip(error, _MOST_ERROR), "retryable": retryable}


async def _create(scope: Scope, action: Create) -> dict[str, Any]:
    likely = await scope.tasks.duplicates(title=action.title, limit=3)
    task = await scope.tasks.create(
        action.title,
        description=action.description,
        priority=action.priority,
        type=action.type,
        assignee=action.assignee,
        labels=action.labels,
        defer_until=action.defer_until,
        due=action.due,
        parent=await _task_id(scope, action.parent) if action.parent else None,
        blocked_by=[await _task_id(scope, name) for name in action.blocked_by],
        discovered_from=await _task_id(scope, action.discovered_from) if action.discovered_from else None,
    )
    answer: dict[str, Any] = {"task": shown_task(task)}
    if action.claim:
        answer |= _claimed(await scope.tasks.claim(task.id))
    if likely:
        answer["likely_duplicates"] = [shown_ref(one.other) for one in likely]
    return answer


def _claimed(claimed: Claimed) -> dict[str, Any]:
    task = {**shown_task(claimed.task), "description": clip(claimed.task.description, 2_000)}
    return {"task": task, "yours_until": minute(claimed.until)}


async def _claim(scope: Scope, action: Claim) -> dict[str, Any]:
    if action.task is None or action.task.casefold() in _NEXT:
        claimed = await scope.tasks.claim_next()
        if claimed is None:
            counts = await scope.tasks.counts()
            raise Misunderstood(
                f"Nothing is ready: {counts.blocked} blocked, {counts.in_progress} in progress, {counts.deferred} deferred. "
                "See task-query list, or create a task."
            )
        return _claimed(claimed)
    return _claimed(await scope.tasks.claim(await _task_id(scope, action.task)))


async def _close(scope: Scope, action: Close) -> dict[str, Any]:
    task = await _task_id(scope, action.task)
    closed = await scope.tasks.close(task, action.reason, summary=action.summary, claim_next=action.claim_next)
    answer: dict[str, Any] = {"task": shown_task(closed.task), "unblocked": shown_refs(closed.unblocked)}
    if closed.open_children:
        answer["open_children"] = shown_refs(closed.open_children)
    if action.claim_next:
        answer["next"] = None if closed.next is None else _claimed(closed.next)
    return answer


async def _change_dependency(scope: Scope, action: Dep) -> dict[str, Any]:
    task, other = await _task_id(scope, action.task), await _task_id(scope, action.depends_on)
    change = scope.tasks.link if action.op == "add" else scope.tasks.unlink
    changed = await change(other, task, action.kind)
    view = await scope.tasks.show(changed.id)
    return {"task": shown_task(view.task), "blocked_by": shown_refs(view.blocked_by)}


async def _link_messages(scope: Scope, action: Link) -> dict[str, Any]:
    task = await _task_id(scope, action.task)
    thread = scope.thread if action.thread in {None, "this", "current"} else action.thread
    linked = 0
    ids: list[str] = []
    for name in action.messages:
        if hit := _SPAN.fullmatch(name.strip()):
            first = int(hit[1])
            if thread is None:
                raise Misunderstood("Numbers of messages need their thread. Pass `thread`, or the messages' ids.")
            span = Span(first=first, last=max(first, int(hit[2] or first)))
            linked += await scope.tasks.attach(task, span, action.as_, thread=thread)
        else:
            ids.append(name)
    if ids:
        linked += await scope.tasks.attach(task, ids, action.as_, thread=action.thread and thread)
    view = await scope.tasks.show(task)
    return {"task": shown_task(view.task), "linked": linked, "in_all": view.messages, "as": action.as_}


async def _update_context(scope: Scope, action: UpdateContext) -> dict[str, Any]:
    if action.mode != "remove" and not action.text.strip():
        raise Misunderstood('`text` is missing. Expected {"action": "update_context", "section": "…", "text": "…"}.')
    if action.task is not None and (action.section is None or action.task.casefold() not in CURRENT):
        return await _note_at_task(scope, action, action.task)
    if action.scope == "thread" and scope.thread is None:
        raise Misunderstood("`scope` thread needs a thread, and these tools have none. Use scope all.")
    facts = scope.document(of_thread=action.scope == "thread")
    present = await facts.read()
    if present is not None and present.format == "json":
        document = await facts.merge(_fields(action), who=scope.who)
    elif action.section is not None:
        document = await facts.edit_section(action.section, action.text, mode=action.mode, who=scope.who)
    elif action.mode == "append":
        before = f"{present.current.text.rstrip()}\n" if present is not None and present.current.text.strip() else ""
        read = present.current.number if present is not None else 0
        document = await facts.replace(f"{before}{action.text.strip()}\n", who=scope.who, version=read)
    else:
        raise Misunderstood(
            "`section` is missing. Name the section to replace or remove; the whole cannot be replaced here."
        )
    shown = clip(document.current.text, _SHOWN_DOCUMENT)
    return {"working_memory": shown, "version": document.current.number, "scope": action.scope}


def _fields(action: UpdateContext) -> dict[str, Any]:
    """Return the changed fields of a JSON working memory: those of `text`, or the one that `section` names."""
    value: Any
    try:
        value = json.loads(action.text) if action.text.strip() else None
    except ValueError:
        value = action.text
    if action.section is not None:
        return {action.section: None if action.mode == "remove" else value}
    if not isinstance(value, dict):
        raise Misunderstood(
            'The working memory is JSON. Pass `text` as an object of fields, such as "{\\"name\\": \\"Ann\\"}".'
        )
    return value  # pyright: ignore[reportUnknownVariableType] - JSON


async def _note_at_task(scope: Scope, action: UpdateContext, name: str) -> dict[str, Any]:
    if action.mode == "remove":
        raise Misunderstood("A note at a task is not removed. Use mode append, or replace.")
    task = await task_meant(scope.tasks, name, await scope.current())
    text = action.text.strip() if action.section is None else f"{action.section}: {action.text.strip()}"
    if action.mode == "append" and task.description.strip():
        text = f"{task.description.rstrip()}\n\n{text}"
    if task.status == "closed":
        raise InputError(f"{task.handle} is closed.", then="Create a new task for what is left.")
    # The version that was read: a note written since then is not overwritten.
    edited = await scope.tasks.edit(task.id, description=text, version=task.version)
    return {"task": {**shown_task(edited), "description": clip(edited.description, _SHOWN_DOCUMENT)}}


async def _filters(scope: Scope, action: Ready | ListTasks) -> dict[str, Any]:
    return {
        "labels": action.labels,
        "types": [action.type] if action.type else (),
        "max_priority": 4 if action.max_priority is None else action.max_priority,
        "assignee": action.assignee,
        "parent": None if action.parent is None else await _task_id(scope, action.parent),
        "after": action.cursor,
    }


async def _ready(scope: Scope, action: Ready) -> dict[str, Any]:
    page = partial(scope.tasks.ready, **await _filters(scope, action))
    found, shown = await _paged(page, action.limit, lambda item: {**shown_task(item.task), "why": item.why})
    counts = found.counts
    fields = {"ready": counts.ready, "blocked": counts.blocked, "in_progress": counts.in_progress}
    return {"tasks": shown, "counts": fields, **_more(found.next)}


async def _list(scope: Scope, action: ListTasks) -> dict[str, Any]:
    status = (action.status,) if action.status else ()
    page = partial(scope.tasks.list, status=status, blocked=action.blocked, **await _filters(scope, action))
    found, shown = await _paged(page, action.limit, shown_task)
    return {"tasks": shown, **_more(found.next)}


async def _show(scope: Scope, action: Show) -> dict[str, Any]:
    task = await task_meant(scope.tasks, action.task, await scope.current())
    view = await scope.tasks.show(task.id)
    fields, end = shown_view(view, start=_offset(action.cursor), most=_DESCRIPTION)
    answer: dict[str, Any] = {"task": fields}
    if task.status == "open":
        explained = await scope.tasks.explain(task.id)
        answer["ready"] = explained.is_ready
        answer["why"] = list(explained.reasons)[:_RELATED]
    if action.related:
        about = await scope.tasks.about(task.id, limit=_RELATED)
        answer["observations"] = [shown_observation(one) for one in about.observations[-_RELATED:]]
        answer["messages"] = fitting(about.messages, shown_message, ROOM // 3)
    return {**answer, **_more(None if end is None else _cursor(end))}


async def _search_tasks(scope: Scope, action: SearchTasks) -> dict[str, Any]:
    start = _offset(action.cursor)
    hits = await scope.tasks.search(
        action.query,
        status=(action.status,) if action.status else (),
        # One more than is shown, to find out whether there are more.
        limit=start + action.limit + 1,
        related=action.related,
    )
    chosen: Sequence[TaskHit] = hits[start : start + action.limit]
    shown = fitting(chosen, _shown_hit, ROOM)
    end = start + len(shown)
    return {"tasks": shown, **_more(_cursor(end) if end < len(hits) else None)}


def _shown_hit(hit: TaskHit) -> dict[str, Any]:
    fields = {**shown_task(hit.task), "snippet": hit.snippet}
    if hit.messages:
        fields["messages"] = [shown_message(one) for one in hit.messages[:_RELATED]]
    if hit.observations:
        fields["observations"] = [shown_observation(one) for one in hit.observations[:_RELATED]]
    return fields


async def _task_id(scope: Scope, name: str) -> str:
    return (await task_meant(scope.tasks, name, await scope.current())).id


async def _paged(
    page: Callable[..., Awaitable[Any]], limit: int, show: Callable[[Any], dict[str, Any]], *, items: str = "items"
) -> tuple[Any, list[dict[str, Any]]]:
    """Return a page and the items shown of it; if they do not all fit, request a shorter page, so that its cursor is right."""
    found = await page(limit=limit)
    shown = fitting(getattr(found, items), show, ROOM)
    if len(shown) < len(getattr(found, items)):
        found = await page(limit=len(shown))
        shown = [show(item) for item in getattr(found, items)]
    return found, shown


def _more(cursor: str | None) -> dict[str, Any]:
    return {"cursor": cursor} if cursor is not None else {}


def _cursor(place: int) -> str:
    return f"from-{place}"


def _offset(cursor: str | None) -> int:
    if cursor is None:
        return 0
    place = cursor.removeprefix("from-")
    if not place.isdecimal() or len(place) > 9:  # noqa: PLR2004 - far beyond any page
        raise Misunderstood(f"{cursor!r} is not a cursor. Pass the cursor of the last answer unchanged.")
    return int(place)


async def _search_messages(scope: Scope, action: Search) -> dict[str, Any]:
    query = " ".join([action.query, *_operators(action)])
    search = scope.memory.resource(scope.resource).search
    thread = _thread(scope, action.thread)
    page = partial(search, query, thread=thread, sources=action.sources or None, cursor=action.cursor)
    found, shown = await _paged(page, action.limit, _shown_result, items="results")
    answer: dict[str, Any] = {"results": shown, "total": found.total}
    if found.relaxed:
        answer["not_found_as_written"] = list(found.relaxed)[:_MOST_RELAXED]
    if not shown:
        quoted = "leave out the quotes, or " if '"' in action.query else ""
        answer["hint"] = f"Nothing was found. To find more, {quoted}try other words, or a part of a name with *."
    return answer | _more(found.next)


def _operators(action: Search) -> list[str]:
    """Return the filters as operators of a search query."""
    given = {
        "role": action.role,
        "task": action.task,
        "after": action.since.date().isoformat() if action.since else None,
        "before": action.until.date().isoformat() if action.until else None,
    }
    return [f'{name}:"{value.replace(chr(34), " ")}"' for name, value in given.items() if value]


def _shown_result(result: SearchResult) -> dict[str, Any]:
    fields = {
        "source": result.source,
        "id": result.id,
        "at": minute(result.at),
        "thread": result.thread,
        "number": result.seq,
        "role": result.role,
        "task": result.task,
        "text": clip(result.snippet or result.content, _SNIPPET),
        # Marks inside code would be copied with it.
        "exact": clip(result.exact, _SNIPPET) if result.exact != result.snippet else None,
    }
    return {name: value for name, value in fields.items() if value is not None}


async def _recall(scope: Scope, action: Recall) -> dict[str, Any]:
    if "".join(filter(str.isalpha, action.target.casefold())) in _DOCUMENT:
        return await _working_memory(scope)
    page = await scope.memory.resource(scope.resource).recall(
        action.target,
        thread=_thread(scope, action.thread) or (scope.thread if _OF_THREAD.fullmatch(action.target) else None),
        detail=action.detail,
        tokens=_PAGE_TOKENS,
        cursor=action.cursor,
    )
    answer: dict[str, Any] = {"text": page.text, "messages": len(page.items), **_more(page.next)}
    if page.previous is not None:
        answer["previous_cursor"] = page.previous
    return answer


async def _working_memory(scope: Scope) -> dict[str, Any]:
    """Return the present working memory of the resource and of the thread."""
    found: dict[str, Any] = {}
    for name, of_thread in (("all", False), ("thread", True)):
        if of_thread and scope.thread is None:
            continue
        # A thread in which nothing has been said yet has no document either.
        with suppress(ThreadNotFound):
            document = await scope.document(of_thread=of_thread).read()
            if document is not None and document.current.text.strip():
                found[name] = clip(document.current.text, ROOM // 2)
    return {"working_memory": found or "There is none yet. Write one with task-mutate update_context."}


def _thread(scope: Scope, name: str | None) -> str | None:
    if name is None or name.casefold() in {"all", "any", "*"}:
        return None
    return scope.thread if name.casefold() in _HERE else name


_PERFORM: Final[dict[type[Action], Callable[..., Awaitable[dict[str, Any]]]]] = {
    Ready: _ready,
    Show: _show,
    ListTasks: _list,
    SearchTasks: _search_tasks,
    Create: _create,
    Claim: _claim,
    Close: _close,
    Dep: _change_dependency,
    Link: _link_messages,
    UpdateContext: _update_context,
    Search: _search_messages,
    Recall: _recall,
}
