"""Perform `task-mutate`: create, claim, close, dep, link, update_context. Nothing is deleted."""

import json
import re
from typing import Any, Final

from memolog.domain.errors import InputError
from memolog.domain.observation import Span
from memolog.domain.task import Claimed
from memolog.tools.actions import Claim, Close, Create, Dep, Link, UpdateContext
from memolog.tools.naming import CURRENT, task_meant
from memolog.tools.scope import Scope
from memolog.tools.showing import clip, minute, shown_ref, shown_refs, shown_task
from memolog.tools.understanding import Misunderstood

__all__ = ["mutate_tasks"]

_SPAN: Final = re.compile(r"#?(\d{1,15})(?:\s*(?:-|–|\.\.|to)\s*#?(\d{1,15}))?")
_NEXT: Final = frozenset({"next", "any", "first", "ready"})
_SHOWN_DOCUMENT: Final = 4_000


async def mutate_tasks(scope: Scope, action: Create | Claim | Close | Dep | Link | UpdateContext) -> dict[str, Any]:
    """Make a change and return what came of it."""
    match action:
        case Create():
            return await _create(scope, action)
        case Claim():
            return await _claim(scope, action)
        case Close():
            return await _close(scope, action)
        case Dep():
            return await _dep(scope, action)
        case Link():
            return await _link(scope, action)
        case UpdateContext():
            return await _update_context(scope, action)


async def _meant(scope: Scope, name: str) -> str:
    return (await task_meant(scope.tasks, name, await scope.current())).id


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
        parent=await _meant(scope, action.parent) if action.parent else None,
        blocked_by=[await _meant(scope, name) for name in action.blocked_by],
        discovered_from=await _meant(scope, action.discovered_from) if action.discovered_from else None,
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
    return _claimed(await scope.tasks.claim(await _meant(scope, action.task)))


async def _close(scope: Scope, action: Close) -> dict[str, Any]:
    task = await _meant(scope, action.task)
    closed = await scope.tasks.close(task, action.reason, summary=action.summary, claim_next=action.claim_next)
    answer: dict[str, Any] = {"task": shown_task(closed.task), "unblocked": shown_refs(closed.unblocked)}
    if closed.open_children:
        answer["open_children"] = shown_refs(closed.open_children)
    if action.claim_next:
        answer["next"] = None if closed.next is None else _claimed(closed.next)
    return answer


async def _dep(scope: Scope, action: Dep) -> dict[str, Any]:
    task, other = await _meant(scope, action.task), await _meant(scope, action.depends_on)
    change = scope.tasks.link if action.op == "add" else scope.tasks.unlink
    changed = await change(other, task, action.kind)
    view = await scope.tasks.show(changed.id)
    return {"task": shown_task(view.task), "blocked_by": shown_refs(view.blocked_by)}


async def _link(scope: Scope, action: Link) -> dict[str, Any]:
    task = await _meant(scope, action.task)
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


# ---------------------------------------------------------------- what stays in sight


async def _update_context(scope: Scope, action: UpdateContext) -> dict[str, Any]:
    if action.mode != "remove" and not action.text.strip():
        raise Misunderstood('`text` is missing. Expected {"action": "update_context", "section": "…", "text": "…"}.')
    if action.task is not None and (action.section is None or action.task.casefold() not in CURRENT):
        return await _note_at_task(scope, action, action.task)
    if action.scope == "thread" and scope.thread is None:
        raise Misunderstood("These tools belong to no thread. Use scope all.")
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
        raise Misunderstood("Name the `section` that is replaced or removed; the whole is never thrown away here.")
    shown = clip(document.current.text, _SHOWN_DOCUMENT)
    return {"working_memory": shown, "version": document.current.number, "scope": action.scope}


def _fields(action: UpdateContext) -> dict[str, Any]:
    """Return the fields that change in a JSON working memory: those of the text, or one that is named as a section."""
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
    # The version that was read: a note written meanwhile is not overwritten.
    edited = await scope.tasks.edit(task.id, description=text, version=task.version)
    return {"task": {**shown_task(edited), "description": clip(edited.description, _SHOWN_DOCUMENT)}}
