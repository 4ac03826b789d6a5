"""Create, edit and label tasks, read tasks with their links and histories, and link messages to tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final, cast

from memolog.core.clock import to_micros
from memolog.core.exact_json import JsonObject, JsonValue, encode, object_text, pack
from memolog.core.observation import Observation, Span
from memolog.db.engine import reads, writes
from memolog.db.queries import Row, Script, load_queries
from memolog.db.rows import message_from_row
from memolog.db.scope import (
    FIRST,
    LAST,
    Page,
    check_id,
    check_ids,
    check_limit,
    check_optional_ids,
    chunks,
    page_key,
    page_of,
)
from memolog.errors import InputError, MessageNotFound, TaskChanged, TaskMoveRefused
from memolog.log.store import observation_from_row, sources_by_line
from memolog.tasks.dependencies import linking, reading_refs, settling
from memolog.tasks.rows import (
    LOWEST_PRIORITY,
    TaskCalls,
    TaskFilter,
    change_from_row,
    change_step,
    finding,
    parent_of,
    reading_task,
    ref_from_row,
    tasks_of_rows,
)
from memolog.tasks.rules import ORDERING, like_pairs
from memolog.tasks.task import (
    MESSAGE_LINK_KINDS,
    TASK_TYPES,
    LikelyDuplicate,
    LinkedMessage,
    LinkKind,
    MessageLinkKind,
    NewTask,
    Task,
    TaskChange,
    TaskRef,
    TaskView,
)

link_queries = load_queries("tasks/task_links")
message_queries = load_queries("tasks/task_messages")
task_queries = load_queries("tasks/tasks")
_IDS_A_QUERY = 256
EDITABLE: Final = ("title", "description", "priority", "type", "assignee", "defer_until", "due", "metadata")
"""The fields that `edit` can change."""
_TEXTS: Final = ("title", "description", "assignee", "metadata")
_check_label = partial(check_id, "label")
_LONGEST_TITLE = 500
_LONGEST_TEXT = 1_000_000
# `duplicates` compares at most this many open tasks, the newest.
_COMPARED = 5_000
# `stale` accepts at most this many days, which is a century.
_MOST_DAYS = 36_525


class TaskStore(TaskCalls):
    """Creates and changes tasks, and reads their histories."""

    @writes("tasks.create")
    def create(self, resource: str, new: NewTask, *, who: str, created_from: Sequence[str] = ()) -> Script[Task]:
        """Create a task with its labels, links and source messages in one transaction. Raise InputError if the id is in use."""
        check_ids(resource=resource, who=who)
        task_id = self._new_id() if new.id is None else check_id("task", new.id)
        columns = _columns(self._cleaned({name: getattr(new, name) for name in EDITABLE}))
        labels = sorted(map(_check_label, self._clean_labels(new.labels)))
        links = _links_of(new)
        now = self._now()
        number = (yield task_queries.take_book(resource=resource, count=1))[0].last_handle
        rows = yield task_queries.insert_task(**columns, resource=resource, id=task_id, handle=f"T-{number}", now=now)
        if not rows:
            raise InputError(
                f"A task with the id {task_id} exists already.", then="Choose another id, or leave it out."
            )
        pk = rows[0].pk
        if labels:
            yield task_queries.insert_label.many([{"task_pk": pk, "label": label} for label in labels])
        yield change_step(pk, now, who, "created")
        made = yield from finding(resource, task_id)
        yield from _linking_new(resource, made, links, who, now)
        if created_from:
            yield from attaching(resource, made, created_from, "created-from")
        return (yield from reading_task(pk))

    @writes("tasks.edit")
    def edit(
        self, resource: str, task: str, changes: Mapping[str, object], *, who: str, version: int | None = None
    ) -> Script[Task]:
        """Change fields of a task. With `version`, raise TaskChanged if the task has changed since that version."""
        check_ids(who=who)
        unknown = sorted(set(changes) - set(EDITABLE))
        if unknown:
            raise InputError(
                f"These fields of a task cannot be edited: {', '.join(unknown)}.",
                why="Claim, release, close and reopen change the status, and links have their own calls.",
                then=f"Edit {', '.join(EDITABLE)}.",
            )
        _columns(changes)
        changes = self._cleaned(changes)
        now = self._now()
        found = yield from finding(resource, task)
        yield task_queries.lock_task(task_pk=found.pk)
        old = yield from reading_task(found.pk)
        if version is not None and version != old.version:
            raise TaskChanged(found.handle, version, old.version)
        if old.level > 0:
            raise TaskMoveRefused(found.handle, "decayed", "edited", "Restore it first.")
        before = {name: getattr(old, name) for name in EDITABLE}
        after = {**before, **changes}
        edited = {
            name: [_for_history(before[name]), _for_history(after[name])]
            for name in changes
            if before[name] != after[name]
        }
        if not edited:
            return old
        yield task_queries.update_task(task_pk=found.pk, now=now, **_columns(after))
        yield change_step(found.pk, now, who, "edited", fields=edited)
        return (yield from reading_task(found.pk))

    @writes("tasks.label")
    def label(
        self, resource: str, task: str, *, add: Sequence[str] = (), remove: Sequence[str] = (), who: str
    ) -> Script[Task]:
        """Add and remove labels."""
        check_ids(who=who)
        adding = sorted(set(map(_check_label, self._clean_labels(add))))
        removing = sorted(set(map(_check_label, remove)))
        now = self._now()
        found = yield from finding(resource, task)
        yield task_queries.lock_task(task_pk=found.pk)
        old = yield from reading_task(found.pk)
        new = [label for label in adding if label not in old.labels]
        gone = [label for label in removing if label in old.labels and label not in adding]
        if not new and not gone:
            return old
        for label in new:
            yield task_queries.insert_label(task_pk=found.pk, label=label)
        for label in gone:
            yield task_queries.delete_label(task_pk=found.pk, label=label)
        yield task_queries.touch(task_pk=found.pk, now=now)
        yield change_step(found.pk, now, who, "labelled", added=new or None, removed=gone or None)
        return (yield from reading_task(found.pk))

    def _cleaned(self, fields: Mapping[str, object]) -> Mapping[str, object]:
        """Remove secrets from the fields of a task, if redaction is on."""
        return {**fields, **{name: self._clean(cast("JsonValue", fields[name])) for name in _TEXTS if name in fields}}

    def _clean_labels(self, labels: Iterable[str]) -> Iterable[str]:
        """Return the labels that contain no secret."""
        return [label for label in labels if self._clean(label) == label]

    @reads
    def history(
        self, resource: str, task: str, *, limit: int = 100, after: str | None = None
    ) -> Script[Page[TaskChange]]:
        """Return the changes of a task, the oldest first."""
        check_limit(limit)
        (start,) = page_key(after, (FIRST,))
        found = yield from finding(resource, task)
        rows = yield task_queries.changes(task_pk=found.pk, after=start, limit=limit + 1)
        shown, more = page_of(rows, limit, "pk")
        return Page(items=tuple(map(change_from_row, shown)), next=more)


class TaskViews(TaskCalls):
    """Reads tasks."""

    @reads
    def get(self, resource: str, task: str) -> Script[Task]:
        """Return a task by id or handle. Raise TaskNotFound if it does not exist."""
        found = yield from finding(resource, task)
        return (yield from reading_task(found.pk))

    @reads
    def some(self, resource: str, tasks: Sequence[str]) -> Script[dict[str, Task]]:
        """Return the tasks with these ids, by id. Unknown ids are skipped."""
        check_ids(resource=resource)
        ids = [check_id("task", task) for task in tasks]
        rows = (yield task_queries.by_ids(resource=resource, ids=ids)) if ids else ()
        return {task.id: task for task in (yield from tasks_of_rows(rows))}

    async def named(self, resource: str, title: str, *, limit: int = 10) -> tuple[Task, ...]:
        """Return the tasks with this title, ignoring case. Closed tasks come last."""
        check_ids(resource=resource)
        check_limit(limit)
        wanted = (pack(title) or "").lower()

        def script() -> Script[tuple[Task, ...]]:
            rows = yield task_queries.by_title(resource=resource, title=wanted, limit=limit)
            return (yield from tasks_of_rows(rows))

        return await self.engine.read(script, brief=False)

    @reads
    def show(self, resource: str, task: str) -> Script[TaskView]:
        """Return a task with the tasks that it is linked to."""
        found = yield from finding(resource, task)
        shown = yield from reading_task(found.pk)
        sides: dict[tuple[str, bool], list[TaskRef]] = {}
        for row in (yield link_queries.neighbours(task_pk=found.pk)):
            sides.setdefault((row.kind, bool(row.is_source)), []).append(ref_from_row(row))
        linked = yield message_queries.count_linked(task_pk=found.pk)

        def side(kind: str, *, is_source: bool) -> tuple[TaskRef, ...]:
            return tuple(sides.get((kind, is_source), ()))

        return TaskView(
            task=shown,
            blocked_by=side("blocks", is_source=False),
            blocks=side("blocks", is_source=True),
            parents=side("parent-child", is_source=False),
            children=side("parent-child", is_source=True),
            related=side("related", is_source=True) + side("related", is_source=False),
            discovered_from=side("discovered-from", is_source=False),
            discovered=side("discovered-from", is_source=True),
            messages=linked[0].messages,
        )

    @reads
    def list(
        self,
        resource: str,
        chosen: TaskFilter | None = None,
        *,
        session: str | None = None,
        blocked: bool | None = None,
        due_before: datetime | None = None,
        limit: int = 50,
        after: str | None = None,
    ) -> Script[Page[Task]]:
        """Return the tasks that match a filter, the newest first."""
        check_ids(resource=resource)
        check_limit(limit)
        check_optional_ids(session=session)
        wanted = chosen or TaskFilter()
        before_at, before_pk = page_key(after, (LAST, LAST))
        values: dict[str, Any] = {
            "session": session,
            "blocked": None if blocked is None else int(blocked),
            "due_before": None if due_before is None else to_micros(due_before),
            "before_at": before_at,
            "before_pk": before_pk,
            "limit": limit + 1,
        }
        parent = yield from parent_of(resource, wanted)
        rows = yield task_queries.list_tasks(resource=resource, **values, **wanted.values(parent))
        shown, more = page_of(rows, limit, "created_at", "pk")
        return Page(items=(yield from tasks_of_rows(shown)), next=more)

    async def stale(self, resource: str, *, days: float = 14, limit: int = 50, after: str | None = None) -> Page[Task]:
        """Return unclaimed tasks that have not changed for this many days, the longest unchanged first."""
        check_ids(resource=resource)
        check_limit(limit)
        if not isinstance(days, int | float) or not 0 <= days <= _MOST_DAYS:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InputError(
                f"`days` must be a number from 0 to {_MOST_DAYS:,}, got {days!r}.", then="Pass a number of days."
            )
        now = self.clock.now()
        before = to_micros(now - timedelta(days=days))
        at, pk = page_key(after, (FIRST, FIRST))

        def script() -> Script[Page[Task]]:
            rows = yield task_queries.stale(
                resource=resource, before=before, now=to_micros(now), at=at, pk=pk, limit=limit + 1
            )
            shown, more = page_of(rows, limit, "updated_at", "pk")
            return Page(items=(yield from tasks_of_rows(shown)), next=more)

        return await self.engine.read(script, brief=False)

    async def duplicates(
        self, resource: str, task: str | None = None, *, title: str | None = None, least: float = 0.6, limit: int = 20
    ) -> tuple[LikelyDuplicate, ...]:
        """Return pairs of open tasks that are likely duplicates: all pairs, or the pairs with a task or with a new title."""
        check_ids(resource=resource)
        check_limit(limit)
        check_optional_ids(task=task)

        def script() -> Script[tuple[TaskRef, list[TaskRef]]]:
            asked = TaskRef(id="", handle="", title=title or "", status="open", priority=2)
            if task is not None:
                (asked,) = yield from reading_refs([(yield from finding(resource, task)).pk])
            rows = yield task_queries.open_texts(resource=resource, limit=_COMPARED)
            return asked, [ref for ref in map(ref_from_row, rows) if ref.id != asked.id]

        asked, refs = await self.engine.read(script, brief=False)
        is_one = task is not None or title is not None
        if is_one:
            refs.append(asked)
        of = len(refs) - 1 if is_one else None
        pairs = like_pairs([ref.title for ref in refs], least=least, of=of)
        # The task that was asked about comes first.
        return tuple(
            LikelyDuplicate(
                task=refs[other if other == of else one],
                other=refs[one if other == of else other],
                likeness=round(likeness, 3),
            )
            for one, other, likeness in pairs[:limit]
        )


class TaskMessages(TaskCalls):
    """Links messages to tasks."""

    @writes("task_messages.attach")
    def attach(
        self,
        resource: str,
        task: str,
        messages: Sequence[str] | Span,
        kind: MessageLinkKind,
        *,
        who: str,
        thread: str | None = None,
    ) -> Script[int]:
        """Link messages to a task, by their ids or as a span of a thread. Return the number of new links.

        If a message does not exist, raise MessageNotFound and link none of them.
        """
        check_ids(who=who)
        check_optional_ids(thread=thread)
        if kind not in MESSAGE_LINK_KINDS:
            raise InputError(f"Unknown kind of link: {kind!r}.", then=f"Use one of {', '.join(MESSAGE_LINK_KINDS)}.")
        now = self._now()
        found = yield from finding(resource, task)
        count = yield from attaching(resource, found, messages, kind, thread=thread)
        if count:
            yield change_step(found.pk, now, who, "attached", kind=kind, messages=count)
        return count

    @writes("task_messages.detach")
    def detach(
        self, resource: str, task: str, messages: Sequence[str] | Span, *, who: str, thread: str | None = None
    ) -> Script[int]:
        """Unlink messages from a task, also those that were linked because it was active. Return the number of messages."""
        check_ids(who=who)
        check_optional_ids(thread=thread)
        now = self._now()
        found = yield from finding(resource, task)
        gone = 0
        for row in (yield from _reading_messages(resource, thread, messages)):
            where = {"task_pk": found.pk, "thread_pk": row.thread_pk, "seq": row.seq}
            linked_by_call = yield message_queries.detach(**where)
            saved_while_active = yield message_queries.unlink_own(**where)
            gone += bool(linked_by_call or saved_while_active)
        if gone:
            yield change_step(found.pk, now, who, "detached", messages=gone)
        return gone

    @reads
    def messages(
        self, resource: str, task: str, *, limit: int = 50, after: str | None = None
    ) -> Script[Page[LinkedMessage]]:
        """Return the messages of a task, the oldest first."""
        check_limit(limit)
        at, pk = page_key(after, (FIRST, FIRST))
        found = yield from finding(resource, task)
        rows = yield message_queries.linked(task_pk=found.pk, at=at, pk=pk, limit=limit + 1)
        shown, more = page_of(rows, limit, "created_at", "pk")
        linked = (LinkedMessage(message=message_from_row(row), kind=row.kind) for row in shown)
        return Page(items=tuple(linked), next=more)

    @reads
    def count(self, resource: str, task: str) -> Script[int]:
        """Return the number of messages that are linked to a task."""
        found = yield from finding(resource, task)
        return (yield message_queries.count_linked(task_pk=found.pk))[0].messages

    async def observations(self, resource: str, task: str, *, limit: int = 200) -> tuple[Observation, ...]:
        """Return the observations whose sources include a message of the task, the oldest first."""
        check_ids(resource=resource, task=task)
        check_limit(limit)

        def script() -> Script[tuple[Observation, ...]]:
            found = yield from finding(resource, task)
            rows = yield message_queries.observations(task_pk=found.pk, limit=limit)
            sources = sources_by_line((yield message_queries.sources(pks=[row.pk for row in rows])) if rows else ())
            return tuple(observation_from_row(row, sources.get(row.id, ())) for row in rows)

        return await self.engine.read(script, brief=False)


def attaching(
    resource: str, found: Row, messages: Sequence[str] | Span, kind: MessageLinkKind, *, thread: str | None = None
) -> Script[int]:
    """Link messages to a task as part of a larger script. Return the number of new links."""
    pks = [row.pk for row in (yield from _reading_messages(resource, thread, messages))]
    new = 0
    for chunk in chunks(pks, _IDS_A_QUERY):
        new += len((yield message_queries.attach(task_pk=found.pk, kind=kind, pks=chunk)))
    return new


def _reading_messages(resource: str, thread: str | None, messages: Sequence[str] | Span) -> Script[Sequence[Row]]:
    """Return the rows of messages. Raise MessageNotFound if one of them does not exist."""
    if isinstance(messages, Span):
        if thread is None:
            raise InputError("A span of messages needs a thread.", then="Pass thread=…, or the ids of the messages.")
        rows = yield message_queries.by_span(resource=resource, thread=thread, first=messages.first, last=messages.last)
        if not rows:
            raise MessageNotFound(f"{messages.first}-{messages.last} of {thread}")
        return rows
    ids = [check_id("message", message) for message in ([messages] if isinstance(messages, str) else messages)]
    if not ids:
        raise InputError("`messages` must not be empty.", then="Pass at least one message id.")
    found: list[Row] = []
    for chunk in chunks(ids, _IDS_A_QUERY):
        found.extend((yield message_queries.by_ids(resource=resource, thread=thread, ids=chunk)))
    missing = set(ids) - {row.id for row in found}
    if missing:
        raise MessageNotFound(min(missing))
    return found


def _linking_new(
    resource: str, made: Row, links: Sequence[tuple[str, LinkKind, bool]], who: str, now: int
) -> Script[None]:
    """Add the links of a new task."""
    affected: list[int] = []
    for name, kind, is_source in links:
        other = yield from finding(resource, name)
        source, target = (made, other) if is_source else (other, made)
        if (yield from linking(source, target, kind, who, now)) and kind in ORDERING:
            affected.append(target.pk)
    if affected:
        yield from settling(affected)


def _links_of(new: NewTask) -> list[tuple[str, LinkKind, bool]]:
    """Return the links of a new task: the other task, the kind, and whether the new task is the source."""
    links: list[tuple[str, LinkKind, bool]] = []
    if new.parent is not None:
        links.append((new.parent, "parent-child", False))
    links.extend((name, "blocks", False) for name in new.blocked_by)
    links.extend((name, "blocks", True) for name in new.blocks)
    links.extend((name, "related", True) for name in new.related)
    if new.discovered_from is not None:
        links.append((new.discovered_from, "discovered-from", False))
    for name, _, _ in links:
        check_ids(task=name)
    return links


def _for_history(value: object) -> Any:
    """Return a value as JSON for the history. A long text is shortened."""
    if isinstance(value, str) and len(value) > _LONGEST_TITLE:
        return f"{value[:_LONGEST_TITLE]}…"
    return encode(value)


def _columns(fields: Mapping[str, object]) -> dict[str, object]:
    """Return the values of fields as they are stored. Raise InputError for an invalid value."""
    return {name: _CHECKS[name](name, value) for name, value in fields.items()}


def _text(name: str, value: object) -> str | None:
    if not isinstance(value, str):
        raise InputError(f"`{name}` must be a text, got {type(value).__name__}.", then="Pass its text.")
    if len(value) > _LONGEST_TEXT:
        raise InputError(
            f"`{name}` must have at most {_LONGEST_TEXT:,} characters, got {len(value):,}.",
            then="Save the long text as a message and attach that.",
        )
    return pack(value)


def _title(name: str, value: object) -> str | None:
    text, plain = _text(name, value), cast("str", value)
    if not plain.strip() or len(plain) > _LONGEST_TITLE:
        raise InputError(
            f"`title` must have 1 to {_LONGEST_TITLE} characters, got {len(plain.strip())}.",
            then="Describe the task in one line; put the rest into the description.",
        )
    return text


def _priority(_: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= LOWEST_PRIORITY:
        raise InputError(f"`priority` must be 0 (now) to 4 (some day), got {value!r}.", then="Pass a whole number.")
    return value


def _type(_: str, value: object) -> str:
    if value not in TASK_TYPES:
        raise InputError(f"Unknown type of task: {value!r}.", then=f"Use one of {', '.join(TASK_TYPES)}.")
    return cast("str", value)


def _name(name: str, value: object) -> str | None:
    return None if value is None else check_id(name, value)


def _moment(name: str, value: object) -> int | None:
    if value is None:
        return None
    if not isinstance(value, datetime) or value.tzinfo is None:
        raise InputError(
            f"`{name}` must be a datetime with a time zone, got {value!r}.", then="Pass an aware datetime."
        )
    return to_micros(value)


def _metadata(_: str, value: object) -> str:
    return object_text("The metadata", cast("JsonObject", value))


_CHECKS: Final[dict[str, Callable[[str, object], object]]] = {
    "title": _title,
    "description": _text,
    "priority": _priority,
    "type": _type,
    "assignee": _name,
    "defer_until": _moment,
    "due": _moment,
    "metadata": _metadata,
}
