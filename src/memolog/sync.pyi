"""The types of the synchronous face. Made by `make docs`; do not edit."""

# ruff: noqa: A002, D204, PYI021 - the names are those of the asynchronous face; the docstrings are what an editor shows
import os
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from concurrent.futures import Future
from datetime import datetime
from types import TracebackType
from typing import Any, Final, Literal, Self

from memolog.admin.export import Target
from memolog.admin.import_conversations import Progress
from memolog.context.context import Context
from memolog.context.pack import Pack
from memolog.core.clock import Clock
from memolog.core.config import Config
from memolog.core.deadline import T
from memolog.core.document import Document, DocumentVersion
from memolog.core.exact_json import JsonObject
from memolog.core.item import Item, ItemChange, Namespace
from memolog.core.job import DueLog, HeldRuns
from memolog.core.measures import Measures
from memolog.core.message import FilePart, Message, NewMessage
from memolog.core.observation import Extract, Generation, Observation, Priority, Span
from memolog.core.reports import Compacted, Compaction, ExportReport, Forgotten, ImportReport, Pruned, Report
from memolog.core.run import KeptPrompt, Run, Usage, UsageTotal
from memolog.core.thread import ThreadInfo, Unchanged
from memolog.db.scope import Page
from memolog.events import Event
from memolog.log.inspection import Activity, LogPage, Origin, ResourceSummary, ThreadSummary, UsageDay
from memolog.log.journal import ContextRecord, RequestSize, StoredEvent
from memolog.log.render import Log
from memolog.log.snapshot import GroupRow
from memolog.log.status import Status
from memolog.log.usage import ThreadUsage, UsageLine
from memolog.memory import Form, Memory, Route
from memolog.messages.branches import Branch
from memolog.messages.provider_messages import Given
from memolog.observer.embedder_choice import EmbedderSpec
from memolog.observer.extractors import Extractor
from memolog.observer.model_choice import ModelSpec
from memolog.search.recall_store import Reference
from memolog.search.values import Detail, PartType, RecallPage, SearchAnswer, Source
from memolog.tasks.task import (
    Claimed,
    Closed,
    CloseReason,
    Decayed,
    DraftSummary,
    Explained,
    LikelyDuplicate,
    LinkedMessage,
    LinkKind,
    MessageLinkKind,
    ReadyTasks,
    Task,
    TaskAbout,
    TaskChange,
    TaskCounts,
    TaskHit,
    TaskStatus,
    TaskType,
    TaskView,
)
from memolog.text.tokens import TokenCounter
from memolog.turn import Turn
from memolog.working_memory.document import SectionMode

__all__ = [
    "TWINS",
    "SyncItems",
    "SyncMemory",
    "SyncResource",
    "SyncTasks",
    "SyncThread",
    "SyncTools",
    "SyncTurn",
    "SyncWorkingMemory",
]
TWINS: Final[dict[type, type]]

class SyncWorkingMemory:
    """A working memory without `await`."""
    def __eq__(self, other: object) -> bool: ...
    def __hash__(self) -> int: ...
    @property
    def resource(self) -> str: ...
    @property
    def thread(self) -> str | None: ...
    def read(self) -> Document | None:
        """Return the document with its present version, or None if there is no document yet."""
    def value(self) -> JsonObject:
        """Return the object of a JSON working memory, or an empty object if there is no document yet."""
    def versions(self, *, limit: int = 50, before: int | None = None) -> tuple[DocumentVersion, ...]:
        """Return the versions, the newest first. Pass the lowest number as `before` to get older versions."""
    def diff(self, old: int, new: int | None = None) -> str:
        """Return the difference between two versions in the form of `diff -u`. `new` is by default the present version."""
    def start(
        self, name: str = "personal", *, who: str, schema: JsonObject | None = None, value: JsonObject | None = None
    ) -> Document:
        """Write the first text: a template (`coding` or `personal`), or a JSON object with a schema.

        Raise DocumentInvalid if the working memory has a text already.
        """
    def replace(
        self, content: str | JsonObject, *, who: str, version: int | None = None, schema: JsonObject | None = None
    ) -> Document:
        """Replace the whole content with Markdown, or with an object if the working memory is JSON. `schema` sets a new schema.

        Pass as `version` the version that you read. Then later changes of other sections or fields stay, and a later change of
        the same section or field raises DocumentConflict. Without `version`, the new content replaces all later changes.
        """
    def merge(self, patch: JsonObject, *, who: str, version: int | None = None) -> Document:
        """Change fields of a JSON working memory: null removes a field, objects are merged, other values replace the field."""
    def edit_section(
        self,
        heading: str,
        text: str | None = None,
        *,
        who: str,
        mode: SectionMode = "replace",
        version: int | None = None,
    ) -> Document:
        """Replace the text under a Markdown heading, append to it, or remove the section.

        A section ends at the next heading of the same or a higher level. A missing section is added at the end.
        """
    def add_line(self, section: str, line: str, *, who: str, known: str | None = None) -> Document | None:
        """Add a line to the list under a Markdown heading, or to the list in a field if the working memory is JSON.

        If a line that begins with `known` is there already, nothing changes and None is returned. The default is the line itself.
        """
    def restore(self, version: int, *, who: str) -> Document:
        """Restore the text of an old version as a new version."""

class SyncItems:
    """The items of one resource, without `await`."""
    def __eq__(self, other: object) -> bool: ...
    def __hash__(self) -> int: ...
    @property
    def resource(self) -> str: ...
    def get(self, namespace: Namespace, key: str) -> Item | None:
        """Return an item, or None if it does not exist."""
    def put(self, namespace: Namespace, key: str, value: JsonObject) -> None:
        """Store an item. An item with the same namespace and key is replaced, and keeps the time of its creation."""
    def delete(self, namespace: Namespace, key: str) -> None:
        """Delete an item. If it does not exist, nothing happens."""
    def change(self, changes: Sequence[ItemChange]) -> None:
        """Make several changes in one transaction, in their order."""
    def list(self, namespace: Namespace = ()) -> tuple[Item, ...]:
        """Return all items whose namespace begins with these labels, the latest changed first."""
    def namespaces(self, namespace: Namespace = ()) -> tuple[Namespace, ...]:
        """Return the namespaces that begin with these labels and have items."""
    def search(
        self, query: str, namespace: Namespace = (), *, where: Callable[[Item], bool] | None = None
    ) -> tuple[Item, ...]:
        """Return the items of `list`, those that contain words of a query first, with their scores. Any text is a query.

        Only items for which `where` returns True are returned. All items below the namespace are read and compared with the
        query, so a namespace should not have more than some ten thousand.
        """

class SyncTasks:
    """The tasks of one resource, without `await`."""
    def __eq__(self, other: object) -> bool: ...
    def __hash__(self) -> int: ...
    def find(self, name: str) -> tuple[Task, ...]:
        """Return the task with this id or handle. If there is none, return the tasks with this title, ignoring case."""
    def search(
        self, query: str, *, status: TaskStatus | Sequence[TaskStatus] = (), limit: int = 10, related: bool = False
    ) -> tuple[TaskHit, ...]:
        """Return the tasks that match a text best. `related` adds the messages and observations of each task."""
    def about(self, task: str, *, limit: int = 50, after: str | None = None) -> TaskAbout:
        """Return a task with its messages, its observations and its cost."""
    def claim_next(
        self,
        *,
        labels: Sequence[str] = (),
        types: Sequence[TaskType] = (),
        max_priority: int = 4,
        assignee: str | None = None,
        thread: str | None = None,
        lease: float | None = None,
    ) -> Claimed | None:
        """Claim the most urgent ready task, and return it. Return None if no task is ready."""
    def close(
        self,
        task: str,
        reason: CloseReason = "completed",
        *,
        summary: str,
        claim_next: bool = False,
        force: bool = False,
    ) -> Closed:
        """Close a task, and return it with the tasks that this unblocked. `claim_next` then claims the next ready task."""
    def draft_summary(self, task: str, *, most: int = 8) -> DraftSummary:
        """Draft the summary for closing a task, with citations. If the memory has a model, the model writes the draft."""
    def create(
        self,
        title: str,
        *,
        description: str = "",
        priority: int = 2,
        type: TaskType = "task",
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
        id: str | None = None,
    ) -> Task:
        """Create a task with its labels and its links to other tasks. `created_from` are the ids of its source messages."""
    def edit(
        self,
        task: str,
        *,
        title: str | None = None,
        description: str | None = None,
        priority: int | None = None,
        type: TaskType | None = None,
        assignee: str | Unchanged | None = ...,
        metadata: JsonObject | None = None,
        defer_until: datetime | Unchanged | None = ...,
        due: datetime | Unchanged | None = ...,
        labels: Sequence[str] | None = None,
        add_labels: Sequence[str] = (),
        remove_labels: Sequence[str] = (),
        version: int | None = None,
    ) -> Task:
        """Change the given fields in one transaction. With `version`, raise TaskChanged if the task has changed since then.

        `labels` replaces all labels. `add_labels` and `remove_labels` change only these.
        """
    def defer(self, task: str, until: datetime | None) -> Task:
        """Defer a task, so that it is not ready until this time. None removes the time."""
    def due(self, task: str, when: datetime | None) -> Task:
        """Set the time at which a task is due. None removes it."""
    def label(self, task: str, *, add: Sequence[str] = (), remove: Sequence[str] = ()) -> Task:
        """Add and remove labels."""
    def history(self, task: str, *, limit: int = 100, after: str | None = None) -> Page[TaskChange]:
        """Return the changes of a task, each with its author and time, the oldest first."""
    def get(self, task: str) -> Task:
        """Return a task. Raise TaskNotFound if it does not exist."""
    def show(self, task: str) -> TaskView:
        """Return a task with the tasks that it is linked to."""
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
    ) -> Page[Task]:
        """Return the tasks that match all given filters, the newest first. Pass `next` as `after` to get the next page."""
    def stale(self, *, days: float = 14, limit: int = 50, after: str | None = None) -> Page[Task]:
        """Return tasks that are not claimed and were not changed for `days` days, the oldest change first."""
    def duplicates(
        self, task: str | None = None, *, title: str | None = None, least: float = 0.6, limit: int = 20
    ) -> tuple[LikelyDuplicate, ...]:
        """Return pairs of tasks that are likely duplicates: all pairs, or only those with `task` or a task of this `title`."""
    def attach(
        self,
        task: str,
        messages: Sequence[str] | Span,
        kind: MessageLinkKind = "reference",
        *,
        thread: str | None = None,
    ) -> int:
        """Link messages to a task, by their ids or as a span of a thread. Return the number of new links.

        If a message does not exist, raise MessageNotFound and link none of them.
        """
    def detach(self, task: str, messages: Sequence[str] | Span, *, thread: str | None = None) -> int:
        """Unlink messages from a task, also those that were linked because the task was active. Return the number of messages."""
    def messages(self, task: str, *, limit: int = 50, after: str | None = None) -> Page[LinkedMessage]:
        """Return the messages of a task, the oldest first."""
    def observations(self, task: str, *, limit: int = 200) -> tuple[Observation, ...]:
        """Return the observations that were made from the messages of a task, the oldest first."""
    def link(self, source: str, target: str, kind: LinkKind = "blocks") -> Task:
        """Link two tasks: `source` blocks, is the parent of, is related to, or gave rise to `target`.

        Return the target. Raise TaskCycle if the tasks would wait for each other.
        """
    def unlink(self, source: str, target: str, kind: LinkKind = "blocks") -> Task:
        """Remove a link, and return the target."""
    def ready(
        self,
        *,
        labels: Sequence[str] = (),
        types: Sequence[TaskType] = (),
        max_priority: int = 4,
        assignee: str | None = None,
        parent: str | None = None,
        limit: int = 10,
        after: str | None = None,
    ) -> ReadyTasks:
        """Return the tasks that can be claimed now, sorted by priority and age, with reasons, and the counts of all tasks."""
    def counts(self) -> TaskCounts:
        """Return how many tasks are ready, blocked, deferred and in progress."""
    def explain(self, task: str) -> Explained:
        """Return the reasons why a task is ready or not ready."""
    def claim(self, task: str, *, thread: str | None = None, lease: float | None = None) -> Claimed:
        """Claim a task for this session, for `lease` seconds, and make it the active task of a thread.

        Only one of several callers succeeds. Raise TaskBlocked if another task must be closed first, and TaskHeld if another
        session has claimed the task.
        """
    def heartbeat(self, task: str, *, lease: float | None = None) -> Claimed:
        """Renew the claim of this session. Saving messages in the thread of its active task renews the claim too."""
    def release(self, task: str, *, force: bool = False) -> Task:
        """Release a task, so that it is open again. `force` also releases a task that another session has claimed."""
    def reopen(self, task: str, *, why: str | None = None) -> Task:
        """Reopen a closed task, and restore it if it has decayed. The tasks that it blocks are blocked again."""
    def decay(self, *, limit: int = 500) -> Decayed:
        """Reduce closed tasks to their summary after 30 days, and archive them after 90 days."""
    def restore(self, task: str) -> Task:
        """Restore the description, metadata and summary of a decayed task."""

class SyncTools:
    """The three tools for a model, without `await`."""
    def __eq__(self, other: object) -> bool: ...
    def __hash__(self) -> int: ...
    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the tools."""
    @property
    def session(self) -> str:
        """Return the session for which tasks are claimed: the passed session, else the thread, else a new id."""
    @property
    def guidance(self) -> str:
        """Return a text for the system prompt that explains how to use the tools."""
    def definitions(self, form: Form = "openai") -> list[Any]:
        """Return the definitions of the tools in the form of a provider or of MCP.

        Each definition is a dict. Its type is Any, so that it fits `tools=` of every client.
        """
    def call(self, name: str, arguments: object = None) -> dict[str, Any]:
        """Return the answer to a call. An error is returned as an answer too, and never raised."""
    def files(self, name: str, arguments: object = None) -> tuple[FilePart, ...]:
        """Return the files of the part that a successful `recall` with `part` shows, for the model. Other calls have no files."""

class SyncTurn:
    """A turn without `await`. Use it as `with thread.turn() as turn`."""
    @property
    def asynchronous(self) -> Turn:
        """Return the asynchronous turn. Run its coroutines with `SyncMemory.run`."""
    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
    def __eq__(self, other: object) -> bool: ...
    def __hash__(self) -> int: ...
    @property
    def resource(self) -> str: ...
    @property
    def thread(self) -> str: ...
    @property
    def step(self) -> int: ...
    @property
    def id_prefix(self) -> str: ...
    @property
    def id(self) -> str:
        """Return the id of the turn. It is empty until the turn begins. To continue an earlier turn, set its id before that."""
    def prepare(
        self, *messages: Given, ephemeral: NewMessage | Sequence[NewMessage] = (), model: str | None = None
    ) -> Context:
        """Save new messages and return the context for the next model request.

        A message is a text of the user, a `UserMessage` or `ToolMessage`, or a dict or a list of dicts in the form of OpenAI or
        Anthropic. Call `prepare` once per model request: first with the message of the user, later with tool results. `ephemeral`
        messages are shown in this request only. They are neither stored nor observed.
        """
    def record(
        self, *messages: Given, model: str | None = None, usage: Usage | None = None, beside: int | None = 0
    ) -> None:
        """Save the answer of the model and its usage.

        An answer is a text, an `AssistantMessage`, a dict, or a message or a whole response of OpenAI or Anthropic. The usage is
        read from a whole response.

        `beside` is the number of tokens that the request had in addition to the context (instructions, tools), counted with the
        counter of the `Memory`. Pass None if the number is unknown; then token counts are not calibrated.
        """
    def discard(self, *, also: Sequence[int] = (), keep_answered: bool = False) -> None:
        """Withdraw the messages that this turn saved, and end the turn.

        `also` has the numbers of unanswered messages of earlier turns that are withdrawn too. With `keep_answered` the messages
        up to the last recorded answer are not withdrawn; use it for messages that a provider refused. If `discard` raises, call
        it again. If you do not, the messages are withdrawn before the next messages of the thread are saved.
        """

class SyncThread:
    """One conversation of a resource, without `await`."""
    def __eq__(self, other: object) -> bool: ...
    def __hash__(self) -> int: ...
    @property
    def id(self) -> str: ...
    @property
    def resource(self) -> str: ...
    def turn(
        self, *, model: str | None = None, zone: str | None = None, settings: Mapping[str, Any] | None = None
    ) -> SyncTurn:
        """Begin a turn: `async with thread.turn() as turn`.

        `model` is the model that answers. `zone` is the time zone of the user (`"Europe/Berlin"`). `settings` are for this turn
        only.
        """
    def context(self, *messages: Given, model: str | None = None, zone: str | None = None) -> Context:
        """Return the context that the model would see now, with `messages` added. Saves nothing and starts nothing."""
    def seen(self, number: int) -> Context:
        """Rebuild the context of an earlier request. `number` is the number of the request in the thread, counted from 1."""
    def messages(self, *, after: int | None = None, before: int | None = None, limit: int = 50) -> Page[Message]:
        """Return a page of messages, oldest first: the first after number `after` (default 0), or the last before `before`."""
    def info(self) -> ThreadInfo:
        """Return the title, metadata, settings and last message number of the thread. Raises ThreadNotFound."""
    def update(
        self,
        *,
        title: str | Unchanged | None = ...,
        metadata: JsonObject | Callable[[JsonObject], JsonObject] | None = None,
    ) -> ThreadInfo:
        """Change the title or the metadata. An argument that is not passed changes nothing. Raises ThreadNotFound.

        `metadata` replaces the stored metadata. If it is a function, it gets the stored metadata and returns the new metadata.
        """
    def override(self, settings: Mapping[str, Any]) -> ThreadInfo:
        """Store settings for all turns of this thread. They replace its stored settings, and override the configuration."""
    def clone(self, new_thread: str | None = None) -> ThreadInfo:
        """Copy the thread and its log into a new thread. In a shared log, copies of observed messages count as observed."""
    def forget(self, *, message: str | None = None, dry_run: bool = False) -> Forgotten:
        """Forget the thread or one of its messages, and all derived data. This cannot be undone. `dry_run` only reports."""
    def status(self) -> Status:
        """Return token counts, backlog, health and cost."""
    def log(self, *, generation: int | None = None, retracted: bool = False) -> Log:
        """Return the observations in the order in which the model sees them. `retracted` adds retracted observations.

        `generation` is the number of a generation from `history()`. By default the current generation is returned.
        """
    def groups(self, *, generation: int | None = None) -> tuple[GroupRow, ...]:
        """Return the groups of the log in their order, each with its handle, its span and the text that the model sees."""
    def log_page(self, *, messages: Span | None = None, before: str | None = None, limit: int = 60) -> LogPage:
        """Return a page of the log with its groups and the runs that made them: the newest lines, in their order.

        With `messages`, return the observations with a source among these messages, also replaced ones. For the lines before a
        page, pass its `next` as `before`. `log` returns the whole log.
        """
    def contexts(self, *, after: int | None = None, limit: int = 100) -> tuple[ContextRecord, ...]:
        """Return the records of requests, oldest first: those after number `after`, or by default the newest.

        `seen` rebuilds the context of a record from its number.
        """
    def sizes(self, *, before: int | None = None, limit: int = 200) -> tuple[RequestSize, ...]:
        """Return the tokens of the newest requests, oldest first, each with the tokens that it would have without a memory.

        For earlier requests, pass the lowest number as `before`.
        """
    def export_markdown(self, target: str | os.PathLike[str] | None = None, *, overwrite: bool = False) -> str:
        """Return the log as Markdown for people: the observations by date, with their sources.

        If `target` is passed, the text is also written to this file. `overwrite` replaces an existing file.
        """
    def buffer(self) -> None:
        """Observe in the background all messages that are not observed yet."""
    def observe(self) -> Status:
        """Observe all messages saved so far and activate the observations. Waits for the model without a time limit.

        After a failure it waits for the next attempt, but at most a minute in total. The returned status has the error.
        """
    def activate(self) -> Status:
        """Move every buffered group into the log."""
    def reflect(self) -> Status:
        """Condense the log now and wait for the result. Waits at most one lease for a reflection of another process."""
    def finalize(self, *, compact: bool = False) -> Status:
        """End a session: observe all messages that are not observed yet. `compact` also compacts the messages."""
    def history(self) -> tuple[Generation, ...]:
        """Return the generations of the log, oldest first."""
    def as_of(self, at: datetime) -> tuple[GroupRow, ...]:
        """Return the groups that the log had at a moment."""
    def restore(self, generation: int) -> Generation:
        """Create a new generation from the groups of an old generation and all groups that were activated after it."""
    def extracts(self, *, key: str | None = None) -> tuple[Extract, ...]:
        """Return the newest version of each extracted value, or all versions of one `key`, oldest first."""
    def runs(self, *, limit: int = 100) -> tuple[Run, ...]:
        """Return the observer runs over this thread and the reflector runs over its log, the newest first."""
    def prompts(self, run: str) -> tuple[KeptPrompt, ...]:
        """Return the requests and replies of a run. They are stored only if `keep_prompts` was set."""
    def compact(self, *, keep: int = 0) -> Compacted:
        """Observe the thread, replace its messages by summaries in contexts and in the search index, and return the summaries.

        The newest `keep` messages are not compacted. With a log, only messages that the log covers are compacted. The raw texts
        stay stored, and recall shows them. `restore_compaction` undoes a compaction.
        """
    def compactions(self) -> tuple[Compaction, ...]:
        """Return the compactions in the order of the messages, including restored ones."""
    def restore_compaction(self, compaction: str) -> Compaction:
        """Undo a compaction: contexts and the search index use the texts from before, byte for byte."""
    def prune(self, *, dry_run: bool = False) -> Pruned:
        """Delete the raw text of old messages. This cannot be undone. Raises InputError unless `compaction.prune` is set.

        The text is not deleted if the message is younger than `compaction.prune_days`, not observed, linked to an open task or
        not compacted. The result counts such messages. Summaries and observations stay. Search still finds names and numbers.
        `dry_run` only counts.
        """
    def search(
        self,
        query: str,
        *,
        limit: int = 10,
        context: int = 0,
        sources: Collection[Source] | Source | None = None,
        explain: bool = False,
        cursor: str | None = None,
    ) -> SearchAnswer:
        """Search only this thread. `Resource.search` describes the arguments."""
    def recall(
        self,
        reference: Reference,
        *,
        detail: Detail = "low",
        types: Collection[PartType] | PartType = (),
        tool: str | None = None,
        part: int | None = None,
        tokens: int = 2000,
        cursor: str | None = None,
    ) -> RecallPage:
        """Return a page of the messages that a reference of this thread points to. `Resource.recall` describes the arguments."""
    def tasks(self, *, session: str | None = None, who: str | None = None) -> SyncTasks:
        """Return the tasks of the resource. A task that is claimed becomes the active task of this thread."""
    def working_memory(self) -> SyncWorkingMemory:
        """Return the working memory of this thread."""
    def tools(self, *, session: str | None = None) -> SyncTools:
        """Return the three tools for a model that works in this thread."""
    def create(
        self, *, title: str | None = None, metadata: JsonObject | None = None, settings: Mapping[str, Any] | None = None
    ) -> ThreadInfo:
        """Create the thread before its first turn, with its settings. Raises ThreadExists."""
    def save(self, messages: Given | Sequence[NewMessage]) -> tuple[Message, ...]:
        """Save messages without a turn, either all of them or none. Saving the same messages again changes nothing.

        A text is a message of the user. A dict, or a list of dicts, is read as in `prepare`.
        """
    def import_messages(self, messages: Sequence[NewMessage], *, source: str, title: str | None = None) -> ImportReport:
        """Append messages of this conversation that another system stored, with their times. A repeated import changes nothing.

        `source` is the name of that system. It is stored in the metadata of a new thread. Forgotten messages are skipped.
        """
    def forgotten(self, messages: Sequence[NewMessage], *, is_history: bool = False) -> frozenset[int]:
        """Return the indexes of the messages that were forgotten, alone or together with this thread.

        Set `is_history` for messages that a client sends again without ids and times. They are compared by their content.
        """
    def withdraw(self, turn: str) -> None:
        """Withdraw all messages of an ended turn. `turn` is the id of the turn. Raises ThreadNotFound."""
    def rewind(self, *, to: int | str, only_turns: str | None = None) -> Branch | None:
        """Withdraw every message after `to`, the number or the id of the last message that stays. 0 withdraws all messages.

        Use it when a user edits an earlier question or wants another answer. Observations of withdrawn messages are removed from
        the log. The messages are stored as a branch: `branches` lists it, and `restore_branch` restores it. If `only_turns` is
        passed, every message after `to` must belong to an ended turn whose id begins with `only_turns`; otherwise nothing is
        withdrawn. Returns None if nothing was withdrawn, also if the thread ends before `to`. Raises TurnRunning if a message
        after `to` is of a running turn.
        """
    def branches(self) -> tuple[Branch, ...]:
        """Return the branches of this thread, oldest first. A branch has the messages that a rewind withdrew."""
    def restore_branch(self, branch: str) -> Branch | None:
        """Restore a branch: append its messages again, after the messages that the branch and the thread have in common.

        Messages of the thread that the branch does not have are withdrawn and become a new branch, which is returned. Returns
        None if there are no such messages. Raises BranchNotFound, and TurnRunning if one of them is of a running turn.
        """
    def advance(self) -> None:
        """Observe, activate or reflect if this is due, as a turn does. Use it after `save`, which starts nothing."""
    def work(self, *, rest: bool = False) -> int:
        """Do the background work that is due for the log of this thread, in this process, and wait for it.

        `memolog worker` calls it. Runs of other processes are left alone while these are alive. `rest` also observes messages
        that are fewer than a step. Nothing is activated, because a turn does that. Returns the number of decisions to start runs.
        After `Memory.start_no_more` it starts nothing.
        """

class SyncResource:
    """The memory of one user, project or team, without `await`."""
    def __eq__(self, other: object) -> bool: ...
    def __hash__(self) -> int: ...
    @property
    def id(self) -> str: ...
    def thread(self, id: str) -> SyncThread:
        """Return one conversation of this resource. Reads and writes nothing."""
    def threads(self, *, limit: int = 100, after: str | None = None) -> Page[ThreadInfo]:
        """Return a page of threads, the latest active first. For the next page, pass its `next` as `after`."""
    def sweep(self) -> int:
        """Observe in the background all messages of all threads that are not observed yet, a few threads at a time.

        Returns the number of threads that have such messages or running runs. It is 0 when all messages are observed.
        """
    def merge(self) -> tuple[str, ...]:
        """Merge the logs of the threads into the shared log, after a change to resource scope.

        Returns the merged threads. A thread is not merged if runs have already observed it for the shared log, or are about to.
        A `Degraded` event gives the reason, and the messages of that thread are observed again.
        """
    def search(
        self,
        query: str,
        *,
        thread: str | None = None,
        limit: int = 10,
        context: int = 0,
        sources: Collection[Source] | Source | None = None,
        by: Literal["message", "thread"] = "message",
        explain: bool = False,
        cursor: str | None = None,
    ) -> SearchAnswer:
        """Search messages, observations, reflections and tasks, and return the best result first. Any text is a query.

        `context` is the number of messages to add before and after each result. `sources` limits the search to some sources.
        `by="thread"` returns the best message of each thread. `explain` adds the parts of each score. For the next page, pass
        the `next` of an answer as `cursor`.
        """
    def index(self) -> None:
        """Index everything that waits to be indexed, however much it is. With an embedder, make all vectors too.

        Searches and background work do the same for smaller amounts. `SearchAnswer.unindexed` says how much was left.
        """
    def recall(
        self,
        reference: Reference,
        *,
        thread: str | None = None,
        detail: Detail = "low",
        types: Collection[PartType] | PartType = (),
        tool: str | None = None,
        part: int | None = None,
        tokens: int = 2000,
        cursor: str | None = None,
    ) -> RecallPage:
        """Return a page of the messages that a reference points to, in their exact words.

        A reference comes from the log or a search: a group ("g3"), an observation, a message, or a span ("12-30" with `thread`,
        or "t1 12-30"). The pages of a message continue with the messages around it. `detail="low"` shows one or two lines
        of each message, `detail="full"` the whole message. `types`, `tool` and `part` select parts. A page has at most `tokens`
        tokens. For another page, pass the `next` or `previous` of a page as `cursor`.
        """
    def tasks(self, *, session: str | None = None, who: str | None = None, thread: str | None = None) -> SyncTasks:
        """Return the tasks of this resource for a session.

        Tasks are claimed for `session` (by default the thread). `who` is stored in their history as the author of changes. A
        claimed task becomes the active task of `thread`, and new messages of that thread are linked to the task.
        """
    def working_memory(self, *, thread: str | None = None) -> SyncWorkingMemory:
        """Return the working memory of this resource, or of one of its threads."""
    def items(self) -> SyncItems:
        """Return the items of this resource: JSON objects that a program stores under namespaces and keys."""
    def tools(self, *, thread: str | None = None, session: str | None = None, read_only: bool = False) -> SyncTools:
        """Return the three tools for a model that works for this resource: definitions, guidance, and calls.

        Tasks are claimed for `session`. A claimed task becomes the active task of `thread`. With `read_only`, the tools offer
        and perform only actions that read.
        """
    def edit_observation(self, observation: str, text: str, *, priority: Priority | None = None) -> Observation:
        """Correct an observation: retract it, and return a new observation with the new text and the same sources."""
    def retract(self, observation: str) -> Observation:
        """Remove an observation from the log and from search. `reinstate` undoes this."""
    def origin(self, observation: str) -> Origin:
        """Return where an observation comes from: its sources, the run that made it, and what it replaces or what replaces it.

        Raises NotFound.
        """
    def reinstate(self, observation: str) -> Observation:
        """Reinstate a retracted observation."""
    def forget(
        self,
        *,
        thread: str | None = None,
        message: str | None = None,
        observation: str | None = None,
        dry_run: bool = False,
    ) -> Forgotten:
        """Forget a message, an observation, a thread or, if none is passed, the whole resource. This cannot be undone.

        All data derived from it is forgotten too: observations and their copies in reflections, hints, stored prompts, and words
        of the search index. A run that is running cannot store it again. With `message`, `thread` is the thread of the message.
        `dry_run` only reports.
        """
    def apply_retention(self, *, dry_run: bool = False) -> Forgotten:
        """Forget data that is older than the settings under `retention` allow. If none of them is set, nothing is forgotten."""
    def export(self, target: Target, *, overwrite: bool = False) -> ExportReport:
        """Write all data of this resource as JSON lines to a path or an open text file. See `Memory.export`."""
    def doctor(self, *, repair: bool = False) -> Report:
        """Check the stored rows of this resource. See `Memory.doctor`."""
    def usage(self, *, thread: str | None = None, task: str | None = None, since: datetime | None = None) -> UsageTotal:
        """Return the tokens and US dollars spent, in total or for one thread or task."""
    def usage_by_model(
        self, *, thread: str | None = None, task: str | None = None, since: datetime | None = None
    ) -> tuple[UsageLine, ...]:
        """Return the usage as `usage` does, but one line for each kind of work and each model."""
    def usage_by_thread(self, *, since: datetime | None = None, limit: int = 50) -> tuple[ThreadUsage, ...]:
        """Return the usage of the threads that cost the most, the most expensive first.

        An entry without a thread is the usage outside of threads and of forgotten threads.
        """
    def config(self) -> Config:
        """Return the configuration of the `Memory`, completed with the settings that are stored with this resource."""
    def journal(
        self,
        *,
        thread: str | None = None,
        after: int | None = None,
        before: int | None = None,
        kinds: Collection[str] | str = (),
        limit: int = 1000,
    ) -> tuple[StoredEvent, ...]:
        """Return stored events of all processes, oldest first: the events after number `after`, or by default the newest.

        The newest may be limited to those before number `before`, and to some `kinds`, such as "Decided".
        """
    def runs(self, *, limit: int = 100) -> tuple[Run, ...]:
        """Return the runs of the observer and the reflector over all threads, the newest first. See `Thread.runs`."""
    def revision(self) -> tuple[int, ...]:
        """Return numbers that differ after a change of messages, log, tasks, working memory or events. Items do not count."""
    def message(self, id: str, *, thread: str | None = None) -> tuple[Message, ...]:
        """Return the rows of one message: the message, then its continuations. Raises MessageNotFound.

        Without `thread`, the message is searched in all threads of the resource.
        """
    def pack(
        self, *, thread: str | None = None, session: str | None = None, tokens: int = 4000, zone: str | None = None
    ) -> Pack:
        """Return the most relevant memory as one text of at most `tokens` tokens, for an agent that begins to work.

        `thread` is the conversation that the agent continues. It comes first, then the latest active threads. Tasks that
        `session` (by default the thread) has claimed are shown as active. The text is empty if nothing is stored.
        """
    def task_lines(
        self, *, thread: str | None = None, session: str | None = None, tokens: int = 600
    ) -> tuple[str, ...]:
        """Return the tasks in progress and the ready tasks as lines of at most `tokens` tokens.

        The tasks that `session` (by default the thread) has claimed come first.
        """

class SyncMemory:
    """A Memory without `await`. Close it, or use it as `with SyncMemory(…) as memory`."""
    def __init__(
        self,
        address: str | os.PathLike[str] | Route = "memolog.db",
        *,
        model: ModelSpec | None = None,
        embedder: EmbedderSpec | None = None,
        config: Config | None = None,
        clock: Clock | None = None,
        counter: TokenCounter | None = None,
        instructions: str | None = None,
        extractors: Sequence[Extractor] = (),
        chance: Callable[[int], int] = ...,
    ) -> None:
        """Set the address of the database and the model that observes. All arguments have defaults.

        A model is `"provider:model"`, an address, an object with a method `complete`, or a function. Without a model the
        embedded observer is used, which needs no network and costs nothing. With an `embedder`, search finds texts by meaning
        too: `"openai:text-embedding-3-small"`, an address, `"fastembed:NAME"`, or a function from texts to vectors. If the
        resources are distributed over several databases, `address` is a function that returns the address of the database for
        the id of a resource.
        """
    @property
    def asynchronous(self) -> Memory:
        """Return the asynchronous Memory. Run its coroutines with `run`."""
    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the event loop of this memory, wait for it, and return its result."""
    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Start a coroutine on the event loop of this memory, and return its future."""
    def open(self) -> None:
        """Open the database if it is not open."""
    def close(self) -> None:
        """Wait for background work, then close the database and end the thread. A second call does nothing."""
    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
    def __eq__(self, other: object) -> bool: ...
    def __hash__(self) -> int: ...
    @property
    def config(self) -> Config: ...
    @property
    def clock(self) -> Clock: ...
    @property
    def counter(self) -> TokenCounter: ...
    @property
    def model(self) -> ModelSpec | None: ...
    @property
    def address(self) -> str:
        """Return the address of the database. It may be changed until the database is opened."""
    def settled(self) -> None:
        """Wait until all background work of this process has finished.

        Tries once to save unsaved messages. Does not wait for an unavailable database, nor for the search index.
        """
    def resource(self, id: str) -> SyncResource:
        """Return the memory of one user, project or team. Reads and writes nothing."""
    def thread(self, id: str, *, resource: str) -> SyncThread:
        """Return one conversation of a resource. Reads and writes nothing."""
    def resources(self) -> tuple[str, ...]:
        """Return the ids of all resources with stored data."""
    def subscribe(self, listener: Callable[[Event], None]) -> Callable[[], None]:
        """Call `listener` with every event from now on. Return a function that ends the subscription."""
    def due(self) -> tuple[DueLog, ...]:
        """Return the logs of all resources that have background work, the longest waiting first. `memolog worker` calls it."""
    def measures(self) -> Measures:
        """Return the work that waits in the database, its runs and its costs. `/metrics` of the servers calls it.

        Writes nothing. Looks at the 500 threads whose new messages wait the longest.
        """
    def overview(
        self, *, resource: str | None = None, limit: int = 25, after: str | None = None
    ) -> Page[ThreadSummary]:
        """Return a page of the threads of all resources, or of one, the latest active first, with their sizes and their health.

        For the next page, pass its `next` as `after`. `Thread.status` returns more about one thread.
        """
    def activity(self) -> Activity:
        """Return the work under way in the whole database: threads that are not observed, runs, and rows to index."""
    def latest_resources(self, *, limit: int = 50) -> tuple[ResourceSummary, ...]:
        """Return the resources with threads, the latest active first, with their numbers of threads and messages."""
    def usage_by_day(
        self, *, since: datetime, resource: str | None = None, thread: str | None = None
    ) -> tuple[UsageDay, ...]:
        """Return the tokens and US dollars spent on each day in UTC, one entry for each kind of work.

        Without `resource`, of all resources that have threads. `thread` is a thread of the resource.
        """
    def revision(self) -> tuple[int, ...]:
        """Return numbers that differ after a change in the database, as `Resource.revision`. Resources are counted together."""
    def check_ready(self) -> None:
        """Raise an error if the database cannot be read, or if its schema is not the one of this release."""
    def held(self) -> HeldRuns | None:
        """Return the runs of all resources that a process has claimed, or None. `memolog worker` calls it."""
    def start_no_more(self) -> None:
        """Start no more background runs in this process. Runs under way go on. `memolog worker` calls it before it ends."""
    def index(self) -> int:
        """Index everything that waits to be indexed, of all resources, and return how many resources that were.

        With an embedder, make the vectors of all resources too. If the embedder fails, they are made later.
        """
    def export(self, target: Target, *, resource: str | None = None, overwrite: bool = False) -> ExportReport:
        """Write the whole database, or one resource, as JSON lines to a path or an open text file.

        The lines are the same for SQLite and PostgreSQL. `import_from` restores them exactly, without a model. Only the user of
        this process can read the file. `overwrite` replaces an existing file when the new file is complete.
        """
    def import_from(
        self,
        source: str | os.PathLike[str],
        *,
        resource: str | None = None,
        format: str | None = None,
        dry_run: bool = False,
        progress: Progress | None = None,
        revive: bool = False,
    ) -> ImportReport:
        """Import an export of Memolog, or the data of another system. Repeating an import changes nothing.

        The format is detected if `format` is not passed. `resource` is used for conversations that name no
        resource, and as the new name if an export has one resource. `dry_run` only reports. A repeated call continues an
        interrupted import. Data that was forgotten in this database is skipped, unless `revive` is set.
        """
    def backup(self, target: str | os.PathLike[str], *, overwrite: bool = False) -> int:
        """Copy a SQLite database into a new file, and return the size of the copy in bytes. The database may be in use.

        `overwrite` replaces an existing file when the copy is complete. For PostgreSQL use the tools of the server, or `export`.
        """
    def doctor(self, resource: str | None = None, *, repair: bool = False) -> Report:
        """Check the stored rows of one resource or of the whole database.

        `repair` corrects the findings that can be corrected without a loss of messages, and rebuilds the search index. A SQLite
        file is copied first. Other findings are only explained.
        """
