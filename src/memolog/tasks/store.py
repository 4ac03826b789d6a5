"""Create, edit and label tasks, read tasks with their links and histories, and link messages to tasks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final, cast

from memolog.core.clock import to_micros
from memolog.core.exact_json import JsonObject, JsonValue, encode, object_text, pack
from memolog.core.observation import Observation, Span
from memolog.core.thread import UNCHANGED, Unchanged
from memolog.db.queries import Row, Script, load_queries
from memolog.db.rows import message_from_row
from memolog.db.scope import (
    FIRST,
    LAST,
    Page,
    check_id,
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
    names_in,
    parent_of,
    reading_task,
    reads,
    reads_much,
    ref_from_row,
    tasks_of_rows,
    writes,
)
from memolog.tasks.rules import ORDERING, like_pairs
from memolog.tasks.task import (
    MESSAGE_LINK_KINDS,
    TASK_TYPES,
    LikelyDuplicate,
    LinkedMessage,
    LinkKind,
    MessageLinkKind,
    Task,
    TaskChange,
    TaskRef,
    TaskStatus,
    TaskType,
    TaskView,
)

link_queries = load_queries("tasks/task_links")
message_queries = load_queries("tasks/task_messages")
task_queries = load_queries("tasks/tasks")
_IDS_A_QUERY = 256
_TEXTS: Final = ("title", "description", "assignee", "metadata")
_check_label = partial(check_id, "label")
_LONGEST_TITLE = 500
_LONGEST_TEXT = 1_000_000
# `duplicates` compares at most this many open tasks, the newest.
_COMPARED = 5_000
# At most this many tasks with the same title are returned.
_MOST_NAMED = 10
# `stale` accepts at most this many days, which is a century.
_MOST_DAYS = 36_525


class TaskStore(TaskCalls):
    """Calls that create, change and read tasks, and link messages to them."""

    @writes("tasks.create")
    def create(
        self,
        title: str,
        *,
        description: str = "",
        priority: int = 2,
        type: TaskType = "task",  # noqa: A002 - the usual name
        assignee: str | None = None,
        labels: Sequence[str] = (),
        defer_until: datetime | None = None,
        due: datetime | None = None,
        metadata: JsonObject | None = None,
        parent: str | None = None,
        blocked_by: Sequence[str] = (),
        blocks: Sequence[str] = (),
        related: Sequence[str] = (),
        discovered_from: str | None = None,
        created_from: Sequence[str] = (),
        id: str | None = None,  # noqa: A002 - as in other values
    ) -> Script[Task]:
        """Create a task with its labels and its links to other tasks. `created_from` are the ids of its source messages."""
        resource, now = self.resource, self._now
        task_id = self._components.store.new_id() if id is None else check_id("task", id)
        fields: dict[str, object] = {
            "title": title,
            "description": description,
            "priority": priority,
            "type": type,
            "assignee": assignee,
            "defer_until": defer_until,
            "due": due,
            "metadata": {} if metadata is None else metadata,
        }
        columns = _columns(self._cleaned(fields))
        labels = self._clean_labels(labels)
        links = [
            *_links(parent, "parent-child", is_source=False),
            *_links(blocked_by, "blocks", is_source=False),
            *_links(blocks, "blocks", is_source=True),
            *_links(related, "related", is_source=True),
            *_links(discovered_from, "discovered-from", is_source=False),
        ]
        number = (yield task_queries.take_book(resource=resource, count=1))[0].last_handle
        rows = yield task_queries.insert_task(**columns, resource=resource, id=task_id, handle=f"T-{number}", now=now)
        if not rows:
            raise InputError(
                f"A task with the id {task_id} exists already.", then="Choose another id, or leave it out."
            )
        pk = rows[0].pk
        if labels:
            yield task_queries.insert_label.many([{"task_pk": pk, "label": label} for label in labels])
        yield change_step(pk, now, self._name, "created")
        made = yield from finding(resource, task_id)
        yield from _linking_new(resource, made, links, self._name, now)
        if created_from:
            yield from attaching(resource, made, names_in(created_from), "created-from")
        return (yield from reading_task(pk))

    @writes("tasks.edit")
    def edit(
        self,
        task: str,
        *,
        title: str | None = None,
        description: str | None = None,
        priority: int | None = None,
        type: TaskType | None = None,  # noqa: A002
        assignee: str | Unchanged | None = UNCHANGED,
        metadata: JsonObject | None = None,
        defer_until: datetime | Unchanged | None = UNCHANGED,
        due: datetime | Unchanged | None = UNCHANGED,
        labels: Sequence[str] | None = None,
        add_labels: Sequence[str] = (),
        remove_labels: Sequence[str] = (),
        version: int | None = None,
    ) -> Script[Task]:
        """Change the given fields in one transaction. With `version`, raise TaskChanged if the task has changed since then.

        `labels` replaces all labels. `add_labels` and `remove_labels` change only these.
        """
        given = {"title": title, "description": description, "priority": priority, "type": type, "metadata": metadata}
        changes: dict[str, object] = {name: value for name, value in given.items() if value is not None}
        may_be_none = {"assignee": assignee, "defer_until": defer_until, "due": due}
        changes |= {name: value for name, value in may_be_none.items() if not isinstance(value, Unchanged)}
        _columns(changes)
        changes = self._cleaned(changes)
        adding = self._clean_labels([*names_in(labels or ()), *names_in(add_labels)])
        removing = list(map(_check_label, names_in(remove_labels)))
        now = self._now
        found = yield from finding(self.resource, task)
        yield task_queries.lock_task(task_pk=found.pk)
        old = yield from reading_task(found.pk)
        if version is not None and version != old.version:
            raise TaskChanged(found.handle, version, old.version)
        if old.level > 0 and changes:
            raise TaskMoveRefused(found.handle, "decayed", "edited", "Restore it first.")
        before = {name: getattr(old, name) for name in _CHECKS}
        after = {**before, **changes}
        edited = {
            name: [_for_history(before[name]), _for_history(after[name])]
            for name in changes
            if before[name] != after[name]
        }
        if edited:
            yield task_queries.update_task(task_pk=found.pk, now=now, **_columns(after))
            yield change_step(found.pk, now, self._name, "edited", fields=edited)
        new = [label for label in adding if label not in old.labels]
        unwanted = {*removing, *(() if labels is None else old.labels)} - set(adding)
        gone = sorted(unwanted & set(old.labels))
        if new or gone:
            for label in new:
                yield task_queries.insert_label(task_pk=found.pk, label=label)
            for label in gone:
                yield task_queries.delete_label(task_pk=found.pk, label=label)
            if not edited:
                yield task_queries.touch(task_pk=found.pk, now=now)
            yield change_step(found.pk, now, self._name, "labelled", added=new or None, removed=gone or None)
        return (yield from reading_task(found.pk)) if edited or new or gone else old

    async def defer(self, task: str, until: datetime | None) -> Task:
        """Defer a task, so that it is not ready until this time. None removes the time."""
        return await self.edit(task, defer_until=until)

    async def due(self, task: str, when: datetime | None) -> Task:
        """Set the time at which a task is due. None removes it."""
        return await self.edit(task, due=when)

    async def label(self, task: str, *, add: Sequence[str] = (), remove: Sequence[str] = ()) -> Task:
        """Add and remove labels."""
        return await self.edit(task, add_labels=add, remove_labels=remove)

    def _cleaned(self, fields: dict[str, object]) -> dict[str, object]:
        """Return the fields of a task, without secrets if `redact_raw` is set."""
        return {**fields, **{name: self._clean(cast("JsonValue", fields[name])) for name in _TEXTS if name in fields}}

    def _clean_labels(self, labels: Sequence[str]) -> Sequence[str]:
        """Return the labels without repetition. If `redact_raw` is set, labels with secrets are left out."""
        return sorted({_check_label(label) for label in names_in(labels) if self._clean(label) == label})

    @reads
    def history(self, task: str, *, limit: int = 100, after: str | None = None) -> Script[Page[TaskChange]]:
        """Return the changes of a task, each with its author and time, the oldest first."""
        check_limit(limit)
        (start,) = page_key(after, (FIRST,))
        found = yield from finding(self.resource, task)
        rows = yield task_queries.changes(task_pk=found.pk, after=start, limit=limit + 1)
        shown, more = page_of(rows, limit, "pk")
        return Page(items=tuple(map(change_from_row, shown)), next=more)

    @reads
    def get(self, task: str) -> Script[Task]:
        """Return a task. Raise TaskNotFound if it does not exist."""
        found = yield from finding(self.resource, task)
        return (yield from reading_task(found.pk))

    @reads
    def _some(self, ids: Sequence[str]) -> Script[dict[str, Task]]:
        """Return the tasks with these ids, by id. Unknown ids are skipped."""
        rows = (yield task_queries.by_ids(resource=self.resource, ids=ids)) if ids else ()
        return {task.id: task for task in (yield from tasks_of_rows(rows))}

    @reads_much
    def _named(self, title: str) -> Script[tuple[Task, ...]]:
        """Return the tasks with this title, ignoring case. Closed tasks come last."""
        wanted = (pack(title) or "").lower()
        rows = yield task_queries.by_title(resource=self.resource, title=wanted, limit=_MOST_NAMED)
        return (yield from tasks_of_rows(rows))

    @reads
    def show(self, task: str) -> Script[TaskView]:
        """Return a task with the tasks that it is linked to."""
        found = yield from finding(self.resource, task)
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
        *,
        status: TaskStatus | Sequence[TaskStatus] = (),
        types: Sequence[TaskType] = (),
        labels: Sequence[str] = (),
        max_priority: int = 4,
        assignee: str | None = None,
        session: str | None = None,
        parent: str | None = None,
        blocked: bool | None = None,
        due_before: datetime | None = None,
        limit: int = 50,
        after: str | None = None,
    ) -> Script[Page[Task]]:
        """Return the tasks that match all given filters, the newest first. Pass `next` as `after` to get the next page."""
        check_limit(limit)
        check_optional_ids(session=session)
        wanted = TaskFilter(
            statuses=names_in(status),
            types=tuple(types),
            labels=names_in(labels),
            most_priority=max_priority,
            assignee=assignee,
            parent=parent,
        )
        before_at, before_pk = page_key(after, (LAST, LAST))
        values: dict[str, Any] = {
            "session": session,
            "blocked": None if blocked is None else int(blocked),
            "due_before": None if due_before is None else to_micros(due_before),
            "before_at": before_at,
            "before_pk": before_pk,
            "limit": limit + 1,
        }
        parent_pk = yield from parent_of(self.resource, wanted)
        rows = yield task_queries.list_tasks(resource=self.resource, **values, **wanted.values(parent_pk))
        shown, more = page_of(rows, limit, "created_at", "pk")
        return Page(items=(yield from tasks_of_rows(shown)), next=more)

    @reads_much
    def stale(self, *, days: float = 14, limit: int = 50, after: str | None = None) -> Script[Page[Task]]:
        """Return tasks that are not claimed and were not changed for `days` days, the oldest change first."""
        check_limit(limit)
        if not isinstance(days, int | float) or not 0 <= days <= _MOST_DAYS:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InputError(
                f"`days` must be a number from 0 to {_MOST_DAYS:,}, got {days!r}.", then="Pass a number of days."
            )
        before = to_micros(self._moment - timedelta(days=days))
        at, pk = page_key(after, (FIRST, FIRST))
        rows = yield task_queries.stale(
            resource=self.resource, before=before, now=self._now, at=at, pk=pk, limit=limit + 1
        )
        shown, more = page_of(rows, limit, "updated_at", "pk")
        return Page(items=(yield from tasks_of_rows(shown)), next=more)

    @reads_much
    def _to_compare(self, task: str | None, title: str) -> Script[tuple[TaskRef, Sequence[TaskRef]]]:
        """Return `task`, or a task that is made from `title`, and the other open tasks."""
        asked = TaskRef(id="", handle="", title=title, status="open", priority=2)
        if task is not None:
            (asked,) = yield from reading_refs([(yield from finding(self.resource, task)).pk])
        rows = yield task_queries.open_texts(resource=self.resource, limit=_COMPARED)
        return asked, [ref for ref in map(ref_from_row, rows) if ref.id != asked.id]

    async def duplicates(
        self, task: str | None = None, *, title: str | None = None, least: float = 0.6, limit: int = 20
    ) -> tuple[LikelyDuplicate, ...]:
        """Return pairs of tasks that are likely duplicates: all pairs, or only those with `task` or a task of this `title`."""
        check_limit(limit)
        asked, others = await self._to_compare(task, title or "")
        is_one = task is not None or title is not None
        refs = [*others, asked] if is_one else others
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

    @writes("task_messages.attach")
    def attach(
        self,
        task: str,
        messages: Sequence[str] | Span,
        kind: MessageLinkKind = "reference",
        *,
        thread: str | None = None,
    ) -> Script[int]:
        """Link messages to a task, by their ids or as a span of a thread. Return the number of new links.

        If a message does not exist, raise MessageNotFound and link none of them.
        """
        where = self._where(messages, thread)
        if kind not in MESSAGE_LINK_KINDS:
            raise InputError(f"Unknown kind of link: {kind!r}.", then=f"Use one of {', '.join(MESSAGE_LINK_KINDS)}.")
        found = yield from finding(self.resource, task)
        count = yield from attaching(self.resource, found, messages, kind, thread=where)
        if count:
            yield change_step(found.pk, self._now, self._name, "attached", kind=kind, messages=count)
        return count

    @writes("task_messages.detach")
    def detach(self, task: str, messages: Sequence[str] | Span, *, thread: str | None = None) -> Script[int]:
        """Unlink messages from a task, also those that were linked because the task was active. Return the number of messages."""
        of_thread = self._where(messages, thread)
        found = yield from finding(self.resource, task)
        gone = 0
        for row in (yield from _reading_messages(self.resource, of_thread, messages)):
            where = {"task_pk": found.pk, "thread_pk": row.thread_pk, "seq": row.seq}
            linked_by_call = yield message_queries.detach(**where)
            saved_while_active = yield message_queries.unlink_own(**where)
            gone += bool(linked_by_call or saved_while_active)
        if gone:
            yield change_step(found.pk, self._now, self._name, "detached", messages=gone)
        return gone

    def _where(self, messages: Sequence[str] | Span, thread: str | None) -> str | None:
        """Return the thread of messages. It may be None if they are given by their ids."""
        where = self._thread if thread is None and isinstance(messages, Span) else thread
        check_optional_ids(thread=where)
        return where

    @reads
    def messages(self, task: str, *, limit: int = 50, after: str | None = None) -> Script[Page[LinkedMessage]]:
        """Return the messages of a task, the oldest first."""
        check_limit(limit)
        at, pk = page_key(after, (FIRST, FIRST))
        found = yield from finding(self.resource, task)
        rows = yield message_queries.linked(task_pk=found.pk, at=at, pk=pk, limit=limit + 1)
        shown, more = page_of(rows, limit, "created_at", "pk")
        linked = (LinkedMessage(message=message_from_row(row), kind=row.kind) for row in shown)
        return Page(items=tuple(linked), next=more)

    @reads_much
    def observations(self, task: str, *, limit: int = 200) -> Script[tuple[Observation, ...]]:
        """Return the observations that were made from the messages of a task, the oldest first."""
        check_limit(limit)
        found = yield from finding(self.resource, task)
        rows = yield message_queries.observations(task_pk=found.pk, limit=limit)
        sources = sources_by_line((yield message_queries.sources(pks=[row.pk for row in rows])) if rows else ())
        return tuple(observation_from_row(row, sources.get(row.id, ())) for row in rows)


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


def _links(given: Sequence[str] | None, kind: LinkKind, *, is_source: bool) -> list[tuple[str, LinkKind, bool]]:
    """Return the links of a new task: the other task, the kind, and whether the new task is the source."""
    names = () if given is None else names_in(given)
    return [(check_id("task", name), kind, is_source) for name in names]


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


_CHECKS: Final[dict[str, Callable[[str, object], object]]] = {
    "title": _title,
    "description": _text,
    "priority": _priority,
    "type": _type,
    "assignee": _name,
    "defer_until": _moment,
    "due": _moment,
    "metadata": lambda _, value: object_text("The metadata", cast("JsonObject", value)),
}
