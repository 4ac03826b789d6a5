"""Run the three tools for models on one resource. `Toolset.call` returns errors to the model and never raises them.

A model can name a task by its handle, its id, its title or "current". An ambiguous name is refused. Only the action `show` also
accepts a part of a title or a misspelt title.
"""

import difflib
import json
import logging
import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import Any, Final, TypeVar

from memolog.core.message import FilePart, file_content, part_text
from memolog.core.observation import MARKS, UNVERIFIED, Observation, Span
from memolog.core.own_tools import OWN_TOOLS, called_tool
from memolog.errors import InputError, MemologError, NotFound, ThreadNotFound
from memolog.memory import Form, Memory
from memolog.search.recall_store import SPAN, is_of_a_thread
from memolog.search.values import RecalledPiece, RecallPage, SearchResult
from memolog.tasks.calls import Tasks
from memolog.tasks.task import Claimed, LinkedMessage, Task, TaskHit, TaskRef, TaskView
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
    Release,
    Remember,
    Reopen,
    Search,
    SearchTasks,
    Show,
    Update,
    UpdateContext,
)
from memolog.tools.arguments import Misunderstood, shape_of, understand
from memolog.tools.definitions import definitions, guidance
from memolog.working_memory.calls import WorkingMemory
from memolog.working_memory.document import list_item

T = TypeVar("T")

_CURRENT: Final = frozenset({"current", "active", "this", "mine", "current task", "active task", "this task"})
_HANDLE_IN: Final = re.compile(r"\bT-\d{1,15}\b", re.IGNORECASE)
# A text that is only a handle, such as `T-12` or `task T-12`.
_HANDLE_ONLY: Final = re.compile(r"\W*(?:task\W+)?(T-\d+)\W*", re.IGNORECASE)
# The minimum similarity of a misspelt title, and the minimum number of characters of a part of a title.
_NEAR: Final = 0.85
_SHORTEST: Final = 4
# The maximum number of tasks in an error message, of tasks in progress that are read, and of tasks in a list of links.
_FEW: Final = 5
_MOST_HELD: Final = 200
_MOST_REFS: Final = 15
MOST_CHARACTERS: Final = 8_000
"""The maximum number of characters of an answer, about 2,000 tokens."""
_ROOM: Final = MOST_CHARACTERS - 1_000
"""The maximum number of characters of all items of a list."""
# The maximum number of characters of texts in an answer, of tokens of a recalled page, and of items of short lists.
_SHORT_SNIPPET: Final = 400
_SNIPPET: Final = 600
_MOST_ERROR: Final = 2_000
_DESCRIPTION: Final = 3_500
_SHOWN_DOCUMENT: Final = 4_000
_PAGE_TOKENS: Final = 1_700
_RELATED: Final = 5
_MOST_RELAXED: Final = 8
# How many of the newest messages are searched for the last message of the user.
_LOOKED_BACK: Final = 50
_NEXT: Final = frozenset({"next", "any", "first", "ready"})
_HERE: Final = frozenset({"this", "current", "here"})
_DOCUMENT: Final = frozenset({"workingmemory", "context", "facts"})
_SECTIONS: Final = {"fact": "Facts", "note": "Notes"}
_log = logging.getLogger("memolog")


class Toolset:
    """The tools of one resource, for one thread and session. Tasks are claimed for the session."""

    def __init__(
        self,
        memory: Memory,
        resource: str,
        *,
        session: str,
        thread: str | None = None,
        who: str | None = None,
        read_only: bool = False,
    ) -> None:
        """Set the memory, resource, thread and session that the tools work with. With `read_only`, no action writes."""
        self.thread, self.session = thread, session
        self.is_read_only = read_only or memory.config.read_only
        self.who = who or session
        """Name of the author in the histories of tasks and of the working memory."""
        self.memory, self.resource = memory, memory.resource(resource)
        self.tasks = self.resource.tasks(session=session, who=self.who, thread=thread)

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the tools."""
        return OWN_TOOLS

    @property
    def guidance(self) -> str:
        """Return instructions for the system prompt on how to use the tools."""
        return guidance(read_only=self.is_read_only)

    def definitions(self, form: Form = "openai") -> list[Any]:
        """Return the definitions to give to a model: in the form of `openai`, `openai-responses`, `anthropic` or `mcp`.

        If the tools are read-only, actions that write are left out.
        """
        return definitions(form, read_only=self.is_read_only)

    def document(self, *, of_thread: bool) -> WorkingMemory:
        """Return the working memory of the resource, or of the thread."""
        return self.resource.working_memory(thread=self.thread if of_thread else None)

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

    async def files(self, name: str, arguments: object = None) -> tuple[FilePart, ...]:
        """Return the files that a successful `recall` of one part refers to, to pass them to a model. Other calls have none."""
        tool = called_tool(name)
        action = understand(tool, arguments) if tool else None
        if not isinstance(action, Recall) or action.part is None or action.cursor is not None:
            return ()
        page = await _recalled(self, action)
        return tuple(file for item in page.items for piece in item.pieces for file in piece.stored)

    async def _call(self, name: str, arguments: object) -> dict[str, Any]:
        tool = called_tool(name)
        if tool is None:
            raise Misunderstood(f"There is no tool {str(name)[:80]!r} here. There are {', '.join(OWN_TOOLS)}.")
        action = understand(tool, arguments)
        if self.is_read_only and action.writes:
            raise Misunderstood("This memory is read-only here: search and recall work, and nothing can be changed.")
        return {"success": True, **await _PERFORM[type(action)](self, action)}


def _failure(error: str, *, retryable: bool) -> dict[str, Any]:
    return {"success": False, "error": _clip(error, _MOST_ERROR), "retryable": retryable}


async def _task_meant(tools: Toolset, name: str, *, is_exact: bool = True) -> Task:
    """Return the task that a model has named. Raise Misunderstood if there is no such task, or if there are several.

    With `is_exact=False`, the name may also be a part of the title or a misspelt title. Pass it only for actions that read.
    """
    plain = name.strip().strip("\"'`")
    if plain.casefold() in _CURRENT:
        current = None
        if tools.thread is not None:
            # A thread without messages does not exist yet.
            with suppress(ThreadNotFound):
                current = (await tools.resource.thread(tools.thread).info()).active_task
        else:
            held = (await tools.tasks.list(status="in_progress", limit=_MOST_HELD)).items
            mine = [task for task in held if task.session == tools.session]
            if len(mine) > 1:
                raise _several(plain, mine)
            current = mine[0].id if mine else None
        if current is None:
            raise Misunderstood("No task is in hand here. Claim one first, or name it by its handle, such as T-12.")
        return await tools.tasks.get(current)
    handles = {handle.upper() for handle in _HANDLE_IN.findall(plain)}
    for spelling in dict.fromkeys((plain, *(handles if len(handles) == 1 else ()))):
        found = await tools.tasks.find(spelling)
        if len(found) == 1:
            return found[0]
        if found:
            raise _several(plain, found)
    if only := _HANDLE_ONLY.fullmatch(plain):
        # A handle names one task. A title that contains it is the title of another task.
        raise _unknown(
            _clip(only[1].upper(), _SHORT_SNIPPET), [hit.task for hit in await tools.tasks.search(plain, limit=_FEW)]
        )
    return await _by_title(tools.tasks, plain, is_exact=is_exact)


async def _by_title(tasks: Tasks, name: str, *, is_exact: bool) -> Task:
    """Return the task whose title equals the name. Case and punctuation are ignored.

    With `is_exact=False`, one may also contain the other, or the name may have a typing error. Otherwise raise Misunderstood.
    """
    wanted = _folded(name)
    hits = [hit.task for hit in await tasks.search(name, limit=2 * _FEW)] if wanted else []
    titles = [(task, _folded(task.title)) for task in hits]
    tests: tuple[Callable[[str], bool], ...] = (
        lambda title: title == wanted,
        lambda title: len(wanted) >= _SHORTEST and (wanted in title or title in wanted),
        lambda title: difflib.SequenceMatcher(None, wanted, title).ratio() >= _NEAR,
    )
    for is_meant in tests[:1] if is_exact else tests:
        found = [task for task, title in titles if is_meant(title)]
        # Open tasks have precedence over closed ones.
        still = [task for task in found if task.status != "closed"] or found
        if len(still) == 1:
            return still[0]
        if still:
            raise _several(name, still)
    raise _unknown(repr(_clip(name, _SHORT_SNIPPET)), hits)


def _unknown(name: str, near: Sequence[Task]) -> Misunderstood:
    close = f" Near to it: {_listed(near)}." if near else ""
    return Misunderstood(
        f"There is no task {name}.{close} Name a task by its handle, such as T-12; task-query list shows them."
    )


def _several(name: str, found: Sequence[Task]) -> Misunderstood:
    return Misunderstood(f"{name!r} could be several tasks: {_listed(found)}. Name one by its handle.")


def _listed(tasks: Sequence[Task]) -> str:
    return ", ".join(f"{task.handle} ({task.title[:80]})" for task in tasks[:_FEW])


def _folded(title: str) -> str:
    return " ".join(re.sub(r"[^\w\s]", " ", title).split()).casefold()


def _clip(text: str, most: int) -> str:
    """Return at most `most` characters of a text. A text that is cut ends with "…"."""
    return text if len(text) <= most else f"{text[: most - 1].rstrip()}…"


def _fitting(items: Sequence[T], show: Callable[[T], dict[str, Any]], room: int) -> list[dict[str, Any]]:
    """Return as many items as fit into `room` characters of JSON, but at least one."""
    shown: list[dict[str, Any]] = []
    left = room
    for item in items:
        made = show(item)
        left -= len(json.dumps(made, ensure_ascii=False, default=str)) + 2
        if left < 0 and shown:
            break
        shown.append(made)
    return shown


def _given(**fields: object) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value not in (None, "", [], (), False)}


def _minute(at: datetime | None) -> str | None:
    """Return a moment without seconds, in the ISO form."""
    return None if at is None else at.isoformat(timespec="minutes").replace("+00:00", "Z")


def _shown_task(task: Task) -> dict[str, Any]:
    return {
        "handle": task.handle,
        "title": _clip(task.title, _SHORT_SNIPPET),
        "status": task.status,
        "priority": task.priority,
        **_given(
            type=task.type if task.type != "task" else None,
            blocked=task.blocked,
            labels=sorted(task.labels),
            assignee=task.assignee,
            due=_minute(task.due),
            session=task.session if task.status == "in_progress" else None,
            summary=_clip(task.summary, _SHORT_SNIPPET) if task.summary else None,
        ),
    }


def _shown_ref(ref: TaskRef) -> dict[str, Any]:
    return {"handle": ref.handle, "title": _clip(ref.title, 120), "status": ref.status}


def _shown_refs(refs: Iterable[TaskRef]) -> list[Any]:
    """Return the first `_MOST_REFS` tasks and, if there are more, a text with the number of the others."""
    known = list(refs)
    more = [f"and {len(known) - _MOST_REFS} more"] if len(known) > _MOST_REFS else []
    return [*map(_shown_ref, known[:_MOST_REFS]), *more]


def _shown_view(view: TaskView, *, start: int, most: int) -> tuple[dict[str, Any], int | None]:
    """Return a task with its links and a part of its description, and the position where the next part begins.

    The part begins at `start` and has at most `most` characters. If it is the last part, the position is None.
    """
    task, text = view.task, view.task.description
    end = min(len(text), start + most)
    shown = {
        **_shown_task(task),
        **_given(
            id=task.id,
            description=text[start:end],
            created=_minute(task.created_at),
            deferred_until=_minute(task.defer_until),
            closed=_minute(task.closed_at),
            close_reason=task.close_reason,
            summary=_clip(task.summary, most) if task.summary else None,
            blocked_by=_shown_refs(view.blocked_by),
            blocks=_shown_refs(view.blocks),
            parents=_shown_refs(view.parents),
            children=_shown_refs(view.children),
            related=_shown_refs(view.related),
            discovered_from=_shown_refs(view.discovered_from),
            discovered=_shown_refs(view.discovered),
            messages=view.messages,
        ),
    }
    return shown, end if end < len(text) else None


def _shown_message(linked: LinkedMessage) -> dict[str, Any]:
    message = linked.message
    return {
        "id": message.id,
        "thread": message.thread,
        "number": message.seq,
        "role": message.role,
        "at": _minute(message.created_at),
        **_given(link=linked.kind, text=_clip(message.text, _SHORT_SNIPPET)),
    }


def _shown_observation(observation: Observation) -> str:
    day = f"{observation.said_at.date().isoformat()} " if observation.said_at else ""
    doubt = f"{UNVERIFIED} " if observation.is_unverified else ""
    return f"{MARKS[observation.priority]} {day}{doubt}{_clip(observation.text, _SHORT_SNIPPET)}"


async def _create(tools: Toolset, action: Create) -> dict[str, Any]:
    likely = await tools.tasks.duplicates(title=action.title, limit=3)
    task = await tools.tasks.create(
        action.title,
        description=action.description,
        priority=action.priority,
        type=action.type,
        assignee=action.assignee,
        labels=action.labels,
        defer_until=action.defer_until,
        due=action.due,
        parent=await _task_id(tools, action.parent) if action.parent else None,
        blocked_by=[await _task_id(tools, name) for name in action.blocked_by],
        discovered_from=await _task_id(tools, action.discovered_from) if action.discovered_from else None,
    )
    answer: dict[str, Any] = {"task": _shown_task(task)}
    if action.claim:
        answer |= _claimed(await tools.tasks.claim(task.id))
    if likely:
        answer["likely_duplicates"] = [_shown_ref(one.other) for one in likely]
    return answer


def _claimed(claimed: Claimed) -> dict[str, Any]:
    task = {**_shown_task(claimed.task), "description": _clip(claimed.task.description, 2_000)}
    return {"task": task, "yours_until": _minute(claimed.until)}


async def _claim(tools: Toolset, action: Claim) -> dict[str, Any]:
    if action.task is None or action.task.casefold() in _NEXT:
        claimed = await tools.tasks.claim_next()
        if claimed is None:
            counts = await tools.tasks.counts()
            raise Misunderstood(
                f"Nothing is ready: {counts.blocked} blocked, {counts.in_progress} in progress, {counts.deferred} deferred. "
                "See task-query list, or create a task."
            )
        return _claimed(claimed)
    return _claimed(await tools.tasks.claim(await _task_id(tools, action.task)))


async def _update(tools: Toolset, action: Update) -> dict[str, Any]:
    names = set(type(action).model_fields) - {"task", "clear"}
    changes = {name: value for name in names if (value := getattr(action, name)) is not None}
    if both := sorted(changes.keys() & set(action.clear)):
        raise Misunderstood(f"`{both[0]}` is given and also in `clear`. Pass it only once.")
    changes |= {name: [] if name == "labels" else "" if name == "description" else None for name in action.clear}
    if not changes:
        raise Misunderstood(f"Nothing to change is given. {shape_of('task-mutate', 'update')}")
    task = await tools.tasks.edit(await _task_id(tools, action.task), **changes)
    return {"task": {**_shown_task(task), **_given(description=_clip(task.description, 2_000))}}


async def _release(tools: Toolset, action: Release) -> dict[str, Any]:
    return {"task": _shown_task(await tools.tasks.release(await _task_id(tools, action.task)))}


async def _reopen(tools: Toolset, action: Reopen) -> dict[str, Any]:
    return {"task": _shown_task(await tools.tasks.reopen(await _task_id(tools, action.task), why=action.why))}


async def _close(tools: Toolset, action: Close) -> dict[str, Any]:
    task = await _task_id(tools, action.task)
    closed = await tools.tasks.close(task, action.reason, summary=action.summary, claim_next=action.claim_next)
    answer: dict[str, Any] = {"task": _shown_task(closed.task), "unblocked": _shown_refs(closed.unblocked)}
    if closed.open_children:
        answer["open_children"] = _shown_refs(closed.open_children)
    if action.claim_next:
        answer["next"] = None if closed.next is None else _claimed(closed.next)
    return answer


async def _change_dependency(tools: Toolset, action: Dep) -> dict[str, Any]:
    task, other = await _task_id(tools, action.task), await _task_id(tools, action.depends_on)
    change = tools.tasks.link if action.op == "add" else tools.tasks.unlink
    changed = await change(other, task, action.kind)
    view = await tools.tasks.show(changed.id)
    return {"task": _shown_task(view.task), "blocked_by": _shown_refs(view.blocked_by)}


async def _link_messages(tools: Toolset, action: Link) -> dict[str, Any]:
    task = await _task_id(tools, action.task)
    thread = tools.thread if action.thread in {None, "this", "current"} else action.thread
    linked = 0
    ids: list[str] = []
    for name in action.messages:
        if hit := SPAN.fullmatch(name.strip()):
            first = int(hit["first"])
            if thread is None:
                raise Misunderstood("Numbers of messages need their thread. Pass `thread`, or the messages' ids.")
            span = Span(first=first, last=max(first, int(hit["last"] or first)))
            linked += await tools.tasks.attach(task, span, action.as_, thread=thread)
        else:
            ids.append(name)
    if ids:
        linked += await tools.tasks.attach(task, ids, action.as_, thread=action.thread and thread)
    view = await tools.tasks.show(task)
    return {"task": _shown_task(view.task), "linked": linked, "in_all": view.messages, "as": action.as_}


async def _remember(tools: Toolset, action: Remember) -> dict[str, Any]:
    """Save a fact or a note as a line with its source and its date: in the working memory, or at a task."""
    source = await (_source_given(tools, action.source) if action.source else _source_here(tools))
    origin = ", ".join(filter(None, (source, tools.memory.clock.now().date().isoformat())))
    line = f"{action.text} [{origin}]"
    if action.task is not None:
        return await _note_at_task(tools, UpdateContext(text=list_item(line), section=action.section), action.task)
    facts = _facts(tools, action.scope)
    present = await facts.read()
    is_json = present is not None and present.format == "json"
    default = _SECTIONS[action.kind]
    section = action.section or (default.lower() if is_json else default)
    document = await facts.add_line(section, line, known=f"{action.text} [", who=tools.who)
    if document is None:
        return {"known": True, "hint": "It is in the working memory already. Nothing was changed."}
    saved = line if document.format == "json" else list_item(line)
    return {"remembered": saved, "section": section, "version": document.current.number, "scope": action.scope}


async def _source_given(tools: Toolset, source: str) -> str:
    """Return a source as it is written into the line. Raise an error for a number, span or group that does not exist."""
    source = " ".join(source.split())
    if len(source) > _SHORT_SNIPPET:
        raise Misunderstood(f"`source` must have at most {_SHORT_SNIPPET} characters. Name a message, a file or a URL.")
    if is_of_a_thread(source):
        if tools.thread is None:
            raise Misunderstood("Numbers and groups need their thread, and these tools have none. Pass a message id.")
        await tools.resource.recall(source, thread=tools.thread, detail="low", tokens=_PAGE_TOKENS)
        number = source.lstrip("#")
        return f"{tools.thread} #{number}" if number[:1].isdigit() else f"{source} of {tools.thread}"
    with suppress(NotFound):
        row = (await tools.resource.message(source))[0]
        return f"{row.thread} #{row.seq}"
    return source


async def _source_here(tools: Toolset) -> str | None:
    """Return the newest message of the user in the thread. None if there is none."""
    if tools.thread is None:
        return None
    with suppress(ThreadNotFound):
        thread = tools.resource.thread(tools.thread)
        end = (await thread.info()).last_seq + 1
        for message in reversed((await thread.messages(before=end, limit=_LOOKED_BACK)).items):
            if message.role == "user" and message.state == "live" and not message.own:
                return f"{tools.thread} #{message.seq}"
    return None


def _facts(tools: Toolset, scope: str) -> WorkingMemory:
    if scope == "thread" and tools.thread is None:
        raise Misunderstood("`scope` thread needs a thread, and these tools have none. Use scope all.")
    return tools.document(of_thread=scope == "thread")


async def _update_context(tools: Toolset, action: UpdateContext) -> dict[str, Any]:
    if action.mode != "remove" and not action.text.strip():
        raise Misunderstood('`text` is missing. Expected {"action": "update_context", "section": "…", "text": "…"}.')
    if action.task is not None and (action.section is None or action.task.casefold() not in _CURRENT):
        return await _note_at_task(tools, action, action.task)
    facts = _facts(tools, action.scope)
    present = await facts.read()
    if present is not None and present.format == "json":
        document = await facts.merge(_fields(action), who=tools.who)
    elif action.section is not None:
        document = await facts.edit_section(action.section, action.text, mode=action.mode, who=tools.who)
    elif action.mode == "append":
        before = f"{present.current.text.rstrip()}\n" if present is not None and present.current.text.strip() else ""
        read = present.current.number if present is not None else 0
        document = await facts.replace(f"{before}{action.text.strip()}\n", who=tools.who, version=read)
    else:
        raise Misunderstood(
            "`section` is missing. Name the section to replace or remove; the whole cannot be replaced here."
        )
    shown = _clip(document.current.text, _SHOWN_DOCUMENT)
    return {"working_memory": shown, "version": document.current.number, "scope": action.scope}


def _fields(action: UpdateContext) -> dict[str, Any]:
    """Return the changed fields of a JSON working memory: the fields in `text`, or only the field `section`."""
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


async def _note_at_task(tools: Toolset, action: UpdateContext, name: str) -> dict[str, Any]:
    if action.mode == "remove":
        raise Misunderstood("A note at a task is not removed. Use mode append, or replace.")
    task = await _task_meant(tools, name)
    text = action.text.strip() if action.section is None else f"{action.section}: {action.text.strip()}"
    if action.mode == "append" and task.description.strip():
        text = f"{task.description.rstrip()}\n\n{text}"
    if task.status == "closed":
        raise InputError(f"{task.handle} is closed.", then="Create a new task for what is left.")
    # Pass the version, so that the edit fails if another writer has changed the description since it was read.
    edited = await tools.tasks.edit(task.id, description=text, version=task.version)
    return {"task": {**_shown_task(edited), "description": _clip(edited.description, _SHOWN_DOCUMENT)}}


async def _filters(tools: Toolset, action: Ready | ListTasks) -> dict[str, Any]:
    return {
        "labels": action.labels,
        "types": [action.type] if action.type else (),
        "max_priority": 4 if action.max_priority is None else action.max_priority,
        "assignee": action.assignee,
        "parent": None if action.parent is None else await _task_id(tools, action.parent),
        "after": action.cursor,
    }


async def _ready(tools: Toolset, action: Ready) -> dict[str, Any]:
    page = partial(tools.tasks.ready, **await _filters(tools, action))
    found, shown = await _paged(page, action.limit, lambda item: {**_shown_task(item.task), "why": item.why})
    counts = found.counts
    fields = {"ready": counts.ready, "blocked": counts.blocked, "in_progress": counts.in_progress}
    return {"tasks": shown, "counts": fields, **_more(found.next)}


async def _list(tools: Toolset, action: ListTasks) -> dict[str, Any]:
    status = (action.status,) if action.status else ()
    page = partial(tools.tasks.list, status=status, blocked=action.blocked, **await _filters(tools, action))
    found, shown = await _paged(page, action.limit, _shown_task)
    return {"tasks": shown, **_more(found.next)}


async def _show(tools: Toolset, action: Show) -> dict[str, Any]:
    task = await _task_meant(tools, action.task, is_exact=False)
    view = await tools.tasks.show(task.id)
    fields, end = _shown_view(view, start=_offset(action.cursor), most=_DESCRIPTION)
    answer: dict[str, Any] = {"task": fields}
    if task.status == "open":
        explained = await tools.tasks.explain(task.id)
        answer["ready"] = explained.is_ready
        answer["why"] = list(explained.reasons)[:_RELATED]
    if action.related:
        about = await tools.tasks.about(task.id, limit=_RELATED)
        answer["observations"] = [_shown_observation(one) for one in about.observations[-_RELATED:]]
        answer["messages"] = _fitting(about.messages, _shown_message, _ROOM // 3)
    return {**answer, **_more(None if end is None else _cursor(end))}


async def _search_tasks(tools: Toolset, action: SearchTasks) -> dict[str, Any]:
    start = _offset(action.cursor)
    hits = await tools.tasks.search(
        action.query,
        status=(action.status,) if action.status else (),
        # One more task than is shown, to detect whether there are more.
        limit=start + action.limit + 1,
        related=action.related,
    )
    chosen: Sequence[TaskHit] = hits[start : start + action.limit]
    shown = _fitting(chosen, _shown_hit, _ROOM)
    end = start + len(shown)
    return {"tasks": shown, **_more(_cursor(end) if end < len(hits) else None)}


def _shown_hit(hit: TaskHit) -> dict[str, Any]:
    fields = {**_shown_task(hit.task), "snippet": hit.snippet}
    if hit.messages:
        fields["messages"] = [_shown_message(one) for one in hit.messages[:_RELATED]]
    if hit.observations:
        fields["observations"] = [_shown_observation(one) for one in hit.observations[:_RELATED]]
    return fields


async def _task_id(tools: Toolset, name: str) -> str:
    return (await _task_meant(tools, name)).id


async def _paged(
    page: Callable[..., Awaitable[Any]], limit: int, show: Callable[[Any], dict[str, Any]], *, items: str = "items"
) -> tuple[Any, list[dict[str, Any]]]:
    """Return a page and its items as JSON. If not all items fit, read a shorter page, whose cursor follows its last item."""
    found = await page(limit=limit)
    shown = _fitting(getattr(found, items), show, _ROOM)
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
    if not place.isdecimal() or len(place) > 9:  # noqa: PLR2004 - no position has more digits
        raise Misunderstood(f"{cursor!r} is not a cursor. Pass the cursor of the last answer unchanged.")
    return int(place)


async def _search_messages(tools: Toolset, action: Search) -> dict[str, Any]:
    query = " ".join([action.query, *_operators(action)])
    search = tools.resource.search
    thread = _thread(tools, action.thread)
    page = partial(search, query, thread=thread, sources=action.sources or None, cursor=action.cursor)
    found, shown = await _paged(page, action.limit, _shown_result, items="results")
    answer: dict[str, Any] = {"results": shown, "total": found.total}
    if found.relaxed:
        answer["not_found_as_written"] = list(found.relaxed)[:_MOST_RELAXED]
    if found.unindexed:
        entries = "1 entry is" if found.unindexed == 1 else f"{found.unindexed:,} entries are"
        answer["incomplete"] = f"{entries} not indexed yet, so results may be missing. Search again later."
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
        "at": _minute(result.at),
        "thread": result.thread,
        "number": result.seq,
        "role": result.role,
        "task": result.task,
        "text": _clip(result.snippet or result.content, _SNIPPET),
        # The snippet without the marks of found words, so that code in it can be copied.
        "exact": _clip(result.exact, _SNIPPET) if result.exact != result.snippet else None,
    }
    return {name: value for name, value in fields.items() if value is not None}


async def _recall(tools: Toolset, action: Recall) -> dict[str, Any]:
    if "".join(filter(str.isalpha, action.target.casefold())) in _DOCUMENT:
        return await _working_memory(tools)
    page = await _recalled(tools, action)
    answer: dict[str, Any] = {"text": page.text, "messages": len(page.items), **_more(page.next)}
    pieces = [piece for item in page.items for piece in item.pieces]
    if action.part is not None and len(pieces) == 1 and pieces[0].type == "file":
        answer |= _recalled_file(pieces[0])
    if page.previous is not None:
        answer["previous_cursor"] = page.previous
    return answer


async def _recalled(tools: Toolset, action: Recall) -> RecallPage:
    return await tools.resource.recall(
        action.target,
        thread=_thread(tools, action.thread) or (tools.thread if is_of_a_thread(action.target) else None),
        detail=action.detail if action.part is None else "full",
        part=action.part,
        tokens=_PAGE_TOKENS,
        cursor=action.cursor,
    )


def _recalled_file(piece: RecalledPiece) -> dict[str, Any]:
    """Return the fields of an answer for one file: its address, or a piece of its content."""
    file, data = piece.stored[0], file_content(piece.stored[0])
    fields = {
        "name": file.name,
        "media_type": file.media_type,
        "bytes": None if data is None else len(data),
        "url": file.url if data is None else None,
    }
    if piece.encoding is not None:
        fields |= {piece.encoding: piece.text, "from": piece.start, "of": piece.length}
    answer: dict[str, Any] = {"file": {name: value for name, value in fields.items() if value is not None}}
    # Replace the text of the page, because it would repeat the content.
    return answer if piece.encoding is None else {**answer, "text": part_text(file)}


async def _working_memory(tools: Toolset) -> dict[str, Any]:
    """Return the working memory of the resource and of the thread."""
    found: dict[str, Any] = {}
    for name, of_thread in (("all", False), ("thread", True)):
        if of_thread and tools.thread is None:
            continue
        # A thread without messages does not exist yet.
        with suppress(ThreadNotFound):
            document = await tools.document(of_thread=of_thread).read()
            if document is not None and document.current.text.strip():
                found[name] = _clip(document.current.text, _ROOM // 2)
    return {"working_memory": found or "There is none yet. Write one with remember or update_context."}


def _thread(tools: Toolset, name: str | None) -> str | None:
    if name is None or name.casefold() in {"all", "any", "*"}:
        return None
    return tools.thread if name.casefold() in _HERE else name


_PERFORM: Final[dict[type[Action], Callable[..., Awaitable[dict[str, Any]]]]] = {
    Ready: _ready,
    Show: _show,
    ListTasks: _list,
    SearchTasks: _search_tasks,
    Create: _create,
    Update: _update,
    Claim: _claim,
    Release: _release,
    Close: _close,
    Reopen: _reopen,
    Dep: _change_dependency,
    Link: _link_messages,
    Remember: _remember,
    UpdateContext: _update_context,
    Search: _search_messages,
    Recall: _recall,
}
