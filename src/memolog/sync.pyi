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
from memolog.core.message import Message, NewMessage
from memolog.core.observation import Extract, Generation, Observation, Priority, Span
from memolog.core.reports import Compacted, Compaction, ExportReport, Forgotten, ImportReport, Pruned, Report
from memolog.core.run import KeptPrompt, Run, Usage, UsageTotal
from memolog.core.thread import ThreadInfo
from memolog.db.scope import Page
from memolog.events import Event
from memolog.log.journal import StoredEvent
from memolog.log.rendering import Log
from memolog.log.rows import GroupRow
from memolog.log.status import Status
from memolog.log.usage import UsageLine
from memolog.memory import Form, Memory
from memolog.messages.branches import Branch
from memolog.messages.provider_messages import Given
from memolog.observer.extractors import Extractor
from memolog.observer.model_choice import ModelSpec
from memolog.search.recall_store import Reference
from memolog.search.values import Detail, PartType, RecallPage, SearchAnswer, Source
from memolog.tasks.calls import Unchanged
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
        """Return the document with its present version; None if there is no document yet."""
    def value(self) -> JsonObject:
        """Return the object of a JSON working memory; an empty object if there is no document yet."""
    def versions(self, *, limit: int = 50, before: int | None = None) -> tuple[DocumentVersion, ...]:
        """Return the versions, the newest first. Pass the lowest number as `before` to get older versions."""
    def diff(self, old: int, new: int | None = None) -> str:
        """Return the difference between version `old` and version `new`, or the present version, in the form of `diff -u`."""
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
    def restore(self, version: int, *, who: str) -> Document:
        """Restore the text of an old version as a new version."""

class SyncTasks:
    """The tasks of one resource, without `await`."""
    def __eq__(self, other: object) -> bool: ...
    def __hash__(self) -> int: ...
    def get(self, task: str) -> Task:
        """Return a task; raises NotFound."""
    def find(self, name: str) -> tuple[Task, ...]:
        """Return the tasks with this id or handle, or else with exactly this title."""
    def show(self, task: str) -> TaskView:
        """Return a task with what blocks it, what it blocks, and all other links."""
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
        """Return tasks, newest first, that match all given filters. Pass `next` as `after` for more."""
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
        """Return what can be claimed now, by priority, then age, with why, and how many are ready and blocked in all."""
    def counts(self) -> TaskCounts:
        """Return how many tasks are ready, blocked, deferred and in progress."""
    def explain(self, task: str) -> Explained:
        """Return why a task is or is not ready."""
    def stale(self, *, days: float = 14, limit: int = 50, after: str | None = None) -> Page[Task]:
        """Return tasks that are not claimed and were not changed for `days` days, the oldest change first."""
    def duplicates(
        self, task: str | None = None, *, title: str | None = None, least: float = 0.6, limit: int = 20
    ) -> tuple[LikelyDuplicate, ...]:
        """Return pairs of tasks that are likely duplicates: all pairs, or those of a task or of a new title."""
    def history(self, task: str, *, limit: int = 100, after: str | None = None) -> Page[TaskChange]:
        """Return who changed what and when, oldest first."""
    def search(
        self, query: str, *, status: TaskStatus | Sequence[TaskStatus] = (), limit: int = 10, related: bool = False
    ) -> tuple[TaskHit, ...]:
        """Return the tasks that match a text best; `related` adds the messages and observations about each."""
    def messages(self, task: str, *, limit: int = 50, after: str | None = None) -> Page[LinkedMessage]:
        """Return the messages of a task, oldest first."""
    def observations(self, task: str, *, limit: int = 200) -> tuple[Observation, ...]:
        """Return the observations that were made from the messages of a task."""
    def about(self, task: str, *, limit: int = 50, after: str | None = None) -> TaskAbout:
        """Return a task with its messages, its observations and its cost."""
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
        """Create a task, with its labels and its links to other tasks; `created_from` names the messages it came from."""
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
        version: int | None = None,
    ) -> Task:
        """Change the given fields. With `version`, raise a conflict if the task has changed since that version."""
    def label(self, task: str, *, add: Sequence[str] = (), remove: Sequence[str] = ()) -> Task:
        """Add and remove labels."""
    def defer(self, task: str, until: datetime | None) -> Task:
        """Defer a task: it is not ready until a moment; None removes the date."""
    def due(self, task: str, when: datetime | None) -> Task:
        """Set when a task is due; None removes the date."""
    def link(self, source: str, target: str, kind: LinkKind = "blocks") -> Task:
        """Link two tasks: `source` blocks, is the parent of, is related to, or gave rise to `target`.

        Returns the target. Raises TaskCycle, which names the cycle, if the tasks would wait for each other.
        """
    def unlink(self, source: str, target: str, kind: LinkKind = "blocks") -> Task:
        """Remove a link; returns the target."""
    def claim(self, task: str, *, thread: str | None = None, lease: float | None = None) -> Claimed:
        """Claim a task for this session, for `lease` seconds, and make it the active task of a thread.

        Exactly one of any number of callers succeeds. Raises TaskBlocked or TaskHeld.
        """
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
        """Claim the most urgent ready task; None if there is none."""
    def heartbeat(self, task: str, *, lease: float | None = None) -> Claimed:
        """Renew the claim of this session. Saving messages in the thread of an active task renews it too."""
    def release(self, task: str, *, force: bool = False) -> Task:
        """Release a task, so that it is open again; `force` releases it for another session."""
    def close(
        self,
        task: str,
        reason: CloseReason = "completed",
        *,
        summary: str,
        claim_next: bool = False,
        force: bool = False,
    ) -> Closed:
        """Close a task with a reason and a summary; returns what that unblocked. `claim_next` claims the next ready task."""
    def reopen(self, task: str, *, why: str | None = None) -> Task:
        """Reopen a closed task."""
    def attach(
        self,
        task: str,
        messages: Sequence[str] | Span,
        kind: MessageLinkKind = "reference",
        *,
        thread: str | None = None,
    ) -> int:
        """Link past messages to a task, by their ids or as a span of a thread; returns how many links are new."""
    def detach(self, task: str, messages: Sequence[str] | Span, *, thread: str | None = None) -> int:
        """Unlink messages from a task, whether they were linked by hand or not."""
    def draft_summary(self, task: str, *, most: int = 8) -> DraftSummary:
        """Draft the summary for closing a task, with citations, by the model if there is one."""
    def decay(self, *, limit: int = 500) -> Decayed:
        """Shrink closed tasks: to their summary after 30 days, to an archive after 90."""
    def restore(self, task: str) -> Task:
        """Restore a decayed task exactly."""

class SyncTools:
    """The three tools for a model, without `await`."""
    def __eq__(self, other: object) -> bool: ...
    def __hash__(self) -> int: ...
    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the tools."""
    @property
    def guidance(self) -> str:
        """Return how to use the tools, for the system prompt."""
    def definitions(self, form: Form = "openai") -> list[dict[str, Any]]:
        """Return the definitions to give to a model, in one of the forms."""
    def call(self, name: str, arguments: object = None) -> dict[str, Any]:
        """Return the answer to a call, as a value whatever happens."""

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
    def id(self) -> str:
        """Return the id of the turn. It is empty until the turn begins. To continue an earlier turn, set its id before."""
    def prepare(
        self, *messages: Given, ephemeral: NewMessage | Sequence[NewMessage] = (), model: str | None = None
    ) -> Context:
        """Save new messages and return the context for the next model request.

        A message is a text of the user, a `UserMessage` or `ToolMessage`, or a dict in the form of OpenAI or Anthropic. Call
        `prepare` once per model request: first with the message of the user, later with tool results. `ephemeral` messages are
        shown in this request only. They are neither stored nor observed.
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

        `model` is the one that answers, `zone` is where the user is (`"Europe/Berlin"`), `settings` apply to this turn only.
        """
    def context(self, *messages: Given, model: str | None = None, zone: str | None = None) -> Context:
        """Return the context that the model would see now, with these messages added. Saves nothing and starts nothing."""
    def seen(self, number: int) -> Context:
        """Rebuild an earlier context: the one of that number in the thread, counted from 1."""
    def messages(self, *, after: int | None = None, before: int | None = None, limit: int = 50) -> Page[Message]:
        """Return stored messages, oldest first: those after a sequence number, or the last ones before it."""
    def info(self) -> ThreadInfo:
        """Return the stored thread: title, metadata, its settings, last message. Raises ThreadNotFound."""
    def update(
        self,
        *,
        title: str | Unchanged | None = ...,
        metadata: JsonObject | Callable[[JsonObject], JsonObject] | None = None,
    ) -> ThreadInfo:
        """Change the title or the metadata; what is not given stays. Raises ThreadNotFound.

        `metadata` replaces what is stored; a function gets what is stored and returns what replaces it, in one transaction.
        """
    def override(self, settings: Mapping[str, Any]) -> ThreadInfo:
        """Store settings that differ from the configuration in all turns of this thread; they replace earlier ones."""
    def clone(self, new_thread: str | None = None) -> ThreadInfo:
        """Copy the thread and its log into a new thread; a shared log covers the copy as far as the original."""
    def forget(self, *, message: str | None = None, dry_run: bool = False) -> Forgotten:
        """Forget the thread or one of its messages, and all that derives from it. It cannot be undone; `dry_run` only reports."""
    def status(self) -> Status:
        """Return token counts, backlog, health and cost."""
    def log(self, *, generation: int | None = None, retracted: bool = False) -> Log:
        """Return the observations that the model sees, in its order; or those of an earlier generation, from `history()`.

        `retracted` adds those that were retracted and can be reinstated.
        """
    def groups(self, *, generation: int | None = None) -> tuple[GroupRow, ...]:
        """Return the groups of the log in order, each with its handle, its span and the text that the model sees."""
    def export_markdown(self, target: str | os.PathLike[str] | None = None, *, overwrite: bool = False) -> str:
        """Return the log as Markdown for people: the observations by date, with what they come from.

        `target` names a file to write it to as well; `overwrite` lets it take the place of an older one.
        """
    def buffer(self) -> None:
        """Observe in the background all messages that are not observed yet."""
    def observe(self) -> Status:
        """Observe all messages saved so far and move them into the log. Waits for the model without a time limit.

        After a failure it waits for the next attempt, for at most a minute in total; the status has the error.
        """
    def activate(self) -> Status:
        """Move every buffered group into the log."""
    def reflect(self) -> Status:
        """Condense the log now and wait for it; waits at most one lease for a reflection of another process."""
    def finalize(self, *, compact: bool = False) -> Status:
        """End a session: observe what is left, and compact it if `compact` is set."""
    def history(self) -> tuple[Generation, ...]:
        """Return the generations of the log, oldest first."""
    def as_of(self, at: datetime) -> tuple[GroupRow, ...]:
        """Return the log as it was at a moment."""
    def restore(self, generation: int) -> Generation:
        """Restore an old generation of the log, with everything that was activated since."""
    def extracts(self, *, key: str | None = None) -> tuple[Extract, ...]:
        """Return the newest version of each extracted value, or all versions of one `key`, oldest first."""
    def runs(self, *, limit: int = 100) -> tuple[Run, ...]:
        """Return the runs of the observer and the reflector over this thread's log, the newest first."""
    def prompts(self, run: str) -> tuple[KeptPrompt, ...]:
        """Return the requests and replies of a run; empty unless `keep_prompts` was set."""
    def compact(self, *, keep: int = 0) -> Compacted:
        """Observe the thread and replace its messages by summaries, in contexts and in the index; returns the summaries.

        The newest `keep` messages stay as they are. With a log, only messages that the log covers are compacted. Raw texts stay
        and are shown by recall; `restore_compaction` undoes it.
        """
    def compactions(self) -> tuple[Compaction, ...]:
        """Return the compactions in the order of the messages, including restored ones."""
    def restore_compaction(self, compaction: str) -> Compaction:
        """Restore the messages of a compaction, byte for byte."""
    def prune(self) -> Pruned:
        """Remove the raw text of old messages for good; refused unless `compaction.prune` is set.

        Messages that are younger than `compaction.prune_days`, not observed, linked to an open task or not compacted keep it,
        and the result counts them. Summaries and observations stay, and for search the names and numbers.
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
        """Search this thread alone; the arguments are those of `Resource.search`."""
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
        """Return a page of the messages behind a reference of this thread; the arguments are those of `Resource.recall`."""
    def tasks(self, *, session: str | None = None, who: str | None = None) -> SyncTasks:
        """Return the tasks of the resource; a claimed one becomes the active task of this thread."""
    def working_memory(self) -> SyncWorkingMemory:
        """Return the working memory of this thread."""
    def tools(self, *, session: str | None = None) -> SyncTools:
        """Return the three tools for a model that works in this thread."""
    def create(
        self, *, title: str | None = None, metadata: JsonObject | None = None, settings: Mapping[str, Any] | None = None
    ) -> ThreadInfo:
        """Create the thread before its first turn, with settings of its own; raises ThreadExists."""
    def save(self, messages: Sequence[NewMessage]) -> tuple[Message, ...]:
        """Save messages without a turn, all or none of them; saving the same again changes nothing."""
    def import_messages(self, messages: Sequence[NewMessage], *, source: str, title: str | None = None) -> ImportReport:
        """Append messages of another record of this conversation, with their times; importing the same again changes nothing.

        `source` names the record, and is stored with a new thread. What was forgotten here stays forgotten.
        """
    def forgotten(self, messages: Sequence[NewMessage], *, is_history: bool = False) -> frozenset[int]:
        """Return the indexes of the messages that were forgotten in this thread, or with it.

        `is_history`: messages that a client sends again, without ids or times; they are compared by their content.
        """
    def withdraw(self, turn: str) -> None:
        """Withdraw everything that a turn saved, by the id of the turn, after it has ended; raises ThreadNotFound."""
    def rewind(self, *, to: int | str, ended_only: bool = False) -> Branch | None:
        """Withdraw every message after `to`, the number or the id of the last message that stays; 0 withdraws all of them.

        Use it when a user edits an earlier question or wants another answer. Observations of what is withdrawn leave the log.
        The messages are kept as a branch, which `branches` lists and `restore_branch` returns to. Returns None if no message
        comes after `to`. With `ended_only` nothing is withdrawn while a turn after `to` waits for its answer.
        """
    def branches(self) -> tuple[Branch, ...]:
        """Return what rewinds took out of this thread and can be returned to, oldest first."""
    def restore_branch(self, branch: str) -> Branch | None:
        """Return to a branch: its messages are appended again, after the messages that it shares with the thread.

        What is withdrawn for it becomes a branch itself, and is returned; None if nothing was. Raises BranchNotFound.
        """
    def advance(self) -> None:
        """Start what is due by the settings, as the end of a turn does: for messages that no turn saved."""

class SyncResource:
    """The memory of one user, project or team, without `await`."""
    def __eq__(self, other: object) -> bool: ...
    def __hash__(self) -> int: ...
    @property
    def id(self) -> str: ...
    def thread(self, id: str) -> SyncThread:
        """Return one conversation of this resource; reads and writes nothing."""
    def threads(self, *, limit: int = 100, after: str | None = None) -> Page[ThreadInfo]:
        """Return the threads with the newest activity first; pass `next` as `after` for more."""
    def sweep(self) -> int:
        """Observe in the background what is not observed yet in any thread.

        Returns the number of threads in which a run was started or is running: 0 once everything is observed.
        """
    def merge(self) -> tuple[str, ...]:
        """Merge the logs of the threads into the shared log, after a change to resource scope.

        Returns the merged threads. A thread that the shared log has observed already is not merged, and a `Degraded` event says
        why; its messages are observed again.
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
        """Search messages, observations, reflections and tasks; any text is a query, and the best result comes first.

        `context` adds so many messages before and after each result, `sources` limits the search to some sources,
        `by="thread"` returns the best message of each thread, `explain` adds the parts of each score, and `cursor` is the
        `next` of the previous answer.
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
        """Return a page of the messages behind a reference, in their exact words.

        A reference comes from the log or a search: a group ("g3"), an observation, a message, or a span ("12-30", also with its
        thread: "t1 12-30"); a span needs a thread. The page of a message continues through its thread. `detail="low"` shows one
        or two lines of each message, "full" the whole; `types`, `tool` and `part` select parts. A page has at most `tokens`
        tokens; `cursor` is the `next` or `previous` of a page.
        """
    def tasks(self, *, session: str | None = None, who: str | None = None, thread: str | None = None) -> SyncTasks:
        """Return the tasks of this resource, as a session sees them.

        Tasks are claimed for `session` (by default the thread), and `who` is named in their history. A claimed task becomes the
        active task of `thread`: new messages there are linked to it.
        """
    def working_memory(self, *, thread: str | None = None) -> SyncWorkingMemory:
        """Return the working memory of this resource, or of one of its threads, to read and change it."""
    def tools(self, *, thread: str | None = None, session: str | None = None) -> SyncTools:
        """Return the three tools for a model that works for this resource: definitions, guidance, and calls.

        Tasks are claimed for `session`. A claimed task becomes the active task of `thread`.
        """
    def edit_observation(self, observation: str, text: str, *, priority: Priority | None = None) -> Observation:
        """Correct a line of the log; returns the new line, with the same sources. The old line is retracted."""
    def retract(self, observation: str) -> Observation:
        """Remove an observation from the log and from search, until it is reinstated."""
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
        """Forget a message, an observation, a thread or, if none is named, the whole resource. It cannot be undone.

        Everything derived from it is forgotten too: observations, through every reflection, hints, stored prompts, words in the
        index. A running run cannot bring it back. `thread` limits `message` to a thread, or is forgotten itself. `dry_run` only
        reports.
        """
    def apply_retention(self, *, dry_run: bool = False) -> Forgotten:
        """Forget what is older than the settings under `retention` allow; nothing if none is set."""
    def export(self, target: Target, *, overwrite: bool = False) -> ExportReport:
        """Write all of this resource as JSON lines to a path or an open text file; see `Memory.export`."""
    def doctor(self, *, repair: bool = False) -> Report:
        """Check the rows of this resource; see `Memory.doctor`."""
    def usage(self, *, thread: str | None = None, task: str | None = None, since: datetime | None = None) -> UsageTotal:
        """Return the tokens and dollars spent, in total or for one thread or task."""
    def usage_by_model(
        self, *, thread: str | None = None, task: str | None = None, since: datetime | None = None
    ) -> tuple[UsageLine, ...]:
        """Return what `usage` adds up, one line for each kind of work and model."""
    def config(self) -> Config:
        """Return the settings in use: those of the memory, completed with what is stored with this resource."""
    def journal(
        self, *, thread: str | None = None, after: int | None = None, limit: int = 1000
    ) -> tuple[StoredEvent, ...]:
        """Return stored events of all processes, oldest first: those after a number, or the newest."""
    def revision(self) -> tuple[int, ...]:
        """Return numbers that differ whenever something of this resource has changed, to poll for changes."""
    def message(self, id: str, *, thread: str | None = None) -> tuple[Message, ...]:
        """Return the rows of one message: itself, then its continuations; raises MessageNotFound.

        Without a thread, all threads of the resource are searched.
        """
    def pack(self, *, thread: str | None = None, tokens: int = 4000, zone: str | None = None) -> Pack:
        """Return the most relevant memory as one text of at most so many tokens, for an agent that begins to work.

        `thread` is the conversation that goes on; the last active ones follow it. The text is empty if there is nothing.
        """
    def task_lines(self, *, thread: str | None = None, tokens: int = 600) -> tuple[str, ...]:
        """Return the tasks in progress and ready as lines of text, within so many tokens; first those of `thread`."""

class SyncMemory:
    """A Memory without `await`. Close it, or use it as `with SyncMemory(…) as memory`."""
    def __init__(
        self,
        address: str | os.PathLike[str] = "memolog.db",
        *,
        model: ModelSpec | None = None,
        config: Config | None = None,
        clock: Clock | None = None,
        counter: TokenCounter | None = None,
        instructions: str | None = None,
        extractors: Sequence[Extractor] = (),
        chance: Callable[[int], int] = ...,
    ) -> None:
        """Set the address of the database and the model that observes; all arguments have defaults.

        A model is `"provider:model"`, an address, an object with `complete` or a function. Without a model the embedded
        observer is used, which needs no network and costs nothing.
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
        """Let background work finish, then close the database and end the thread. Closing twice is harmless."""
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
        """Return the address of the database; it may be changed until the database is open."""
    def settled(self) -> None:
        """Wait until all background work of this process has finished.

        Unsaved messages are retried once; an unavailable database is not waited for.
        """
    def resource(self, id: str) -> SyncResource:
        """Return the memory of one user, project or team; reads and writes nothing."""
    def thread(self, id: str, *, resource: str) -> SyncThread:
        """Return one conversation of a resource; reads and writes nothing."""
    def resources(self) -> tuple[str, ...]:
        """Return the ids of all resources that have something stored."""
    def subscribe(self, listener: Callable[[Event], None]) -> Callable[[], None]:
        """Call a function with every event from now on; returns the function that ends it."""
    def export(self, target: Target, *, resource: str | None = None, overwrite: bool = False) -> ExportReport:
        """Write everything, or one resource, as JSON lines to a path or an open text file.

        The lines do not depend on the engine. `import_from` reads them back exactly, without a model. Only the owner can read
        the file; `overwrite` replaces an existing file once the new one is complete.
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
        """Import an export of Memolog, or the data of another system; importing the same again changes nothing.

        The format is detected, or named by `format`. `resource` is the owner, if the source does not name it. `dry_run` only
        reports. An interrupted import continues where it stopped when it is repeated. What was forgotten here stays
        forgotten, unless `revive` is set.
        """
    def backup(self, target: str | os.PathLike[str], *, overwrite: bool = False) -> int:
        """Copy a SQLite database into a new file, also while it is written to; returns the size of the copy in bytes.

        `overwrite` replaces an existing file once the copy is complete. For PostgreSQL use the tools of the server, or export.
        """
    def doctor(self, resource: str | None = None, *, repair: bool = False) -> Report:
        """Check the stored rows of one resource or of the whole database.

        `repair` repairs what can be repaired without loss of messages, after a copy of a SQLite file, and rebuilds the search
        index. Other findings are only explained.
        """
