"""The synchronous face: the same code, driven through one portal.

Knows how to run a coroutine on a loop of its own thread and wait for it. Decides nothing; a test checks that nothing is missing.
"""

import atexit
import os
import threading
import weakref
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import Any, Literal, Self, TypeVar

from memolog.context import Context
from memolog.domain.compaction import Compacted, Compaction, Pruned
from memolog.domain.diagnosis import Report
from memolog.domain.errors import NotSaved, StoreClosed
from memolog.domain.extract import Extract
from memolog.domain.forgetting import Forgotten
from memolog.domain.message import NewMessage
from memolog.domain.observation import Generation, Observation, Priority
from memolog.domain.recall import Detail, PartType, RecallPage
from memolog.domain.run import Usage
from memolog.domain.search import SearchAnswer, Source
from memolog.domain.thread import Thread
from memolog.domain.transfer import ExportReport, ImportReport
from memolog.runtime.events import Event
from memolog.runtime.exporting import Target
from memolog.runtime.importing import Progress
from memolog.runtime.memory import Memory
from memolog.runtime.portal import Portal
from memolog.runtime.status import Status
from memolog.runtime.sync_tasks import SyncTasks
from memolog.runtime.sync_working_memory import SyncWorkingMemory
from memolog.runtime.tools import SyncTools
from memolog.runtime.turn import Turn
from memolog.store.recall import Reference
from memolog.store.snapshot import GroupRow

__all__ = ["SyncMemory", "SyncTurn"]

T = TypeVar("T")


class SyncTurn:
    """A turn, without `await`. Use it as `with memory.turn(…) as turn`."""

    def __init__(self, turn: Turn, portal: Portal) -> None:
        self._turn, self._portal = turn, portal

    @property
    def id(self) -> str:
        """Return the turn's id; empty before it is entered."""
        return self._turn.id

    @property
    def step(self) -> int:
        """Return how many requests of the model this turn has had."""
        return self._turn.step

    @property
    def thread(self) -> str:
        """Return the thread."""
        return self._turn.thread

    @property
    def resource(self) -> str:
        """Return the resource."""
        return self._turn.resource

    def prepare(
        self, *messages: NewMessage, ephemeral: NewMessage | Sequence[NewMessage] = (), model: str | None = None
    ) -> Context:
        """Save what is new and return what the model should see now."""
        return self._portal.call(self._turn.prepare(*messages, ephemeral=ephemeral, model=model))

    def record(
        self, *messages: NewMessage, model: str | None = None, usage: Usage | None = None, beside: int | None = 0
    ) -> None:
        """Save what the model answered, and learn from what its provider reported.

        `beside` is how many tokens the request had beside the context (instructions, tools), as the memory's counter counts
        them; None if that cannot be told, so that nothing is learned about counting.
        """
        self._portal.call(self._turn.record(*messages, model=model, usage=usage, beside=beside))

    def discard(self, *, also: Sequence[int] = (), keep_answered: bool = False) -> None:
        """Withdraw what this turn saved, as if it had not been said, and end the turn.

        `also` are the numbers of messages of earlier turns that go with it, if nobody has answered them.
        """
        self._portal.call(self._turn.discard(also=also, keep_answered=keep_answered))

    def __enter__(self) -> Self:
        self._portal.call(self._turn.__aenter__())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._portal.call(self._turn.__aexit__(kind, error, trace))


class SyncMemory:
    """Memory without `await`; close it, or use it as `with SyncMemory(…) as memory`."""

    def __init__(self, address: str = "memolog.db", **options: Any) -> None:
        """Take what `Memory` takes."""
        self._portal = Portal()
        try:
            self._memory = self._portal.call(_make(address, options))
        except BaseException:
            self._portal.close()
            raise
        atexit.register(self.close)
        _close_at_exit(self)

    def open(self) -> None:
        """Open the database, if that has not been done."""
        self._portal.call(self._memory.open())

    def close(self) -> None:
        """Let background work finish, then let go of the database and the thread."""
        try:
            self._portal.call(self._memory.aclose())
        except StoreClosed:
            return
        except NotSaved:
            self._end()
            raise
        self._end()

    def _end(self) -> None:
        self._portal.close()
        atexit.unregister(self.close)

    def settled(self) -> None:
        """Wait until no background work of this process is in flight, and none follows."""
        self._portal.call(self._memory.settled())

    def turn(
        self,
        thread: str,
        resource: str,
        *,
        model: str | None = None,
        zone: str | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> SyncTurn:
        """Begin a turn of a thread: `with memory.turn("t1", "alice") as turn`."""
        turn = self._memory.turn(thread, resource, model=model, zone=zone, settings=settings)
        return SyncTurn(turn, self._portal)

    def tasks(
        self, resource: str, *, session: str | None = None, who: str | None = None, thread: str | None = None
    ) -> SyncTasks:
        """Return the tasks of a resource, as a session sees them."""
        tasks = self._memory.tasks(resource, session=session, who=who, thread=thread)
        return SyncTasks(tasks, self._portal.call)

    def subscribe(self, listener: Callable[[Event], None]) -> Callable[[], None]:
        """Call a function with every event from now on, on the memory's own thread."""
        return self._memory.subscribe(listener)

    def status(self, thread: str, resource: str) -> Status:
        """Tell how a thread's memory is doing."""
        return self._portal.call(self._memory.status(thread, resource))

    def buffer(self, thread: str, resource: str) -> None:
        """Observe in the background what nobody has observed yet, however little it is."""
        self._portal.call(self._memory.buffer(thread, resource))

    def observe(self, thread: str, resource: str) -> Status:
        """Observe all that was said by now and move it into the log; waits for it, however long: the deadline is for turns.

        After a failure it waits until the model may be asked again, and returns if that takes more than a minute: the status
        says what failed.
        """
        return self._portal.call(self._memory.observe(thread, resource))

    def activate(self, thread: str, resource: str) -> Status:
        """Move every buffered group into the log."""
        return self._portal.call(self._memory.activate(thread, resource))

    def reflect(self, thread: str, resource: str) -> Status:
        """Condense the log now, and wait for it; for a reflection of another process no longer than a lease."""
        return self._portal.call(self._memory.reflect(thread, resource))

    def finalize(self, thread: str, resource: str, *, compact: bool = False) -> Status:
        """End a session: observe what is left, and compact it if asked to, so that the next one begins with a log."""
        return self._portal.call(self._memory.finalize(thread, resource, compact=compact))

    def sweep(self, resource: str) -> int:
        """Observe in the background what threads left behind that nobody reopened."""
        return self._portal.call(self._memory.sweep(resource))

    def tools(self, resource: str, *, thread: str | None = None, session: str | None = None) -> SyncTools:
        """Return the three tools for a model that works for this resource: definitions, guidance, and calls."""
        return SyncTools(self._memory.tools(resource, thread=thread, session=session), self._portal)

    def working_memory(self, resource: str, thread: str | None = None) -> SyncWorkingMemory:
        """Return the working memory of a resource, or of one of its threads, to read and change it."""
        return SyncWorkingMemory(self._memory.working_memory(resource, thread), self._portal)

    def search(
        self,
        query: str,
        resource: str,
        *,
        thread: str | None = None,
        limit: int = 10,
        context: int = 0,
        sources: Collection[Source] | Source | None = None,
        by: Literal["message", "thread"] = "message",
        explain: bool = False,
        cursor: str | None = None,
    ) -> SearchAnswer:
        """Find what was said, observed or planned: any text is a query, the best result comes first."""
        return self._portal.call(
            self._memory.search(
                query,
                resource,
                thread=thread,
                limit=limit,
                context=context,
                sources=sources,
                by=by,
                explain=explain,
                cursor=cursor,
            )
        )

    def history(self, thread: str, resource: str) -> tuple[Generation, ...]:
        """Return the generations of the log, oldest first."""
        return self._portal.call(self._memory.history(thread, resource))

    def as_of(self, thread: str, resource: str, at: datetime) -> tuple[GroupRow, ...]:
        """Return the log as it was at a moment."""
        return self._portal.call(self._memory.as_of(thread, resource, at))

    def restore(self, thread: str, resource: str, generation: int) -> Generation:
        """Bring an old generation of the log back, with all that was activated since."""
        return self._portal.call(self._memory.restore(thread, resource, generation))

    def recall(
        self,
        reference: Reference,
        resource: str,
        *,
        thread: str | None = None,
        detail: Detail = "low",
        types: Collection[PartType] | PartType = (),
        tool: str | None = None,
        part: int | None = None,
        tokens: int = 2_000,
        cursor: str | None = None,
    ) -> RecallPage:
        """Return a page of the messages behind a reference, in their exact words."""
        return self._portal.call(
            self._memory.recall(
                reference,
                resource,
                thread=thread,
                detail=detail,
                types=types,
                tool=tool,
                part=part,
                tokens=tokens,
                cursor=cursor,
            )
        )

    def compact(self, thread: str, resource: str, *, keep: int = 0) -> Compacted:
        """Observe a thread and let summaries stand for its messages, in contexts and in the index; says what it made."""
        return self._portal.call(self._memory.compact(thread, resource, keep=keep))

    def compactions(self, thread: str, resource: str) -> tuple[Compaction, ...]:
        """Return what was compacted in a thread, in the order of its messages, also what was restored."""
        return self._portal.call(self._memory.compactions(thread, resource))

    def restore_compaction(self, thread: str, resource: str, compaction: str) -> Compaction:
        """Bring the messages of a batch back as they were, byte for byte."""
        return self._portal.call(self._memory.restore_compaction(thread, resource, compaction))

    def prune(self, thread: str, resource: str) -> Pruned:
        """Remove the raw text of old messages for good; off unless `compaction.prune` is set."""
        return self._portal.call(self._memory.prune(thread, resource))

    def extracts(self, thread: str, resource: str, *, key: str | None = None) -> tuple[Extract, ...]:
        """Return the values that extractors drew from a thread, the newest of each; or all versions of one, oldest first."""
        return self._portal.call(self._memory.extracts(thread, resource, key=key))

    def seen(self, thread: str, resource: str, number: int) -> Context:
        """Build again what the model saw: the context of that number in the thread."""
        return self._portal.call(self._memory.seen(thread, resource, number))

    def override(self, thread: str, resource: str, settings: Mapping[str, Any]) -> Thread:
        """Let settings differ from the configuration in all turns of one thread; they take the place of earlier ones."""
        return self._portal.call(self._memory.override(thread, resource, settings))

    def clone(self, thread: str, resource: str, new_thread: str | None = None) -> Thread:
        """Copy a thread into a new one, its log included; a log that threads share covers the copy as far as the original."""
        return self._portal.call(self._memory.clone(thread, resource, new_thread))

    def merge(self, resource: str) -> tuple[str, ...]:
        """After a change to resource scope: let the shared log take over what the threads' own logs hold."""
        return self._portal.call(self._memory.merge(resource))

    def forget(
        self,
        resource: str,
        *,
        thread: str | None = None,
        message: str | None = None,
        observation: str | None = None,
        dry_run: bool = False,
    ) -> Forgotten:
        """Forget a message, an observation, a thread or the whole resource. It cannot be undone."""
        return self._portal.call(
            self._memory.forget(resource, thread=thread, message=message, observation=observation, dry_run=dry_run)
        )

    def apply_retention(self, resource: str, *, dry_run: bool = False) -> Forgotten:
        """Forget what has become older than the settings under `retention` allow; without any, nothing."""
        return self._portal.call(self._memory.apply_retention(resource, dry_run=dry_run))

    def edit_observation(
        self, resource: str, observation: str, text: str, *, priority: Priority | None = None
    ) -> Observation:
        """Correct a line of the log; returns the new line. The old one is kept as retracted, its sources stay."""
        return self._portal.call(self._memory.edit_observation(resource, observation, text, priority=priority))

    def retract(self, resource: str, observation: str) -> Observation:
        """Take an observation out of the log and of search, until it is reinstated."""
        return self._portal.call(self._memory.retract(resource, observation))

    def reinstate(self, resource: str, observation: str) -> Observation:
        """Bring a retracted observation back."""
        return self._portal.call(self._memory.reinstate(resource, observation))

    def export(self, target: Target, *, resource: str | None = None, overwrite: bool = False) -> ExportReport:
        """Write everything, or all of one resource, as JSON lines to a path or an open text file."""
        return self._portal.call(self._memory.export(target, resource=resource, overwrite=overwrite))

    def import_from(
        self,
        source: "str | os.PathLike[str]",
        *,
        resource: str | None = None,
        format: str | None = None,  # noqa: A002
        dry_run: bool = False,
        progress: Progress | None = None,
        revive: bool = False,
    ) -> ImportReport:
        """Take in an export of ours, or what another system has kept; importing the same again changes nothing."""
        call = self._memory.import_from
        return self._portal.call(
            call(source, resource=resource, format=format, dry_run=dry_run, progress=progress, revive=revive)
        )

    def export_markdown(self, thread: str, resource: str) -> str:
        """Return the log of a thread as Markdown for people."""
        return self._portal.call(self._memory.export_markdown(thread, resource))

    def backup(self, target: "str | os.PathLike[str]", *, overwrite: bool = False) -> int:
        """Copy the database into a new file while others write to it; returns its size in bytes."""
        return self._portal.call(self._memory.backup(target, overwrite=overwrite))

    def doctor(self, resource: str | None = None, *, repair: bool = False) -> Report:
        """Prove on the real rows that everything is as it must be, and repair what is safe if asked to."""
        return self._portal.call(self._memory.doctor(resource, repair=repair))

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.close()
        except NotSaved:
            # It was told; the error that ended the block comes first.
            if error is None:
                raise


def _close_at_exit(memory: SyncMemory) -> None:
    """Close a memory that a script forgot to close: its thread is no daemon, and would keep the process for ever."""
    close = weakref.WeakMethod(memory.close)
    # The hook that thread pools end by: it is called before Python waits for threads, `atexit` only after that.
    register: Callable[[Callable[[], None]], None] | None = getattr(threading, "_register_atexit", None)
    if register is not None:
        register(lambda: call() if (call := close()) else None)


async def _make(address: str, options: dict[str, Any]) -> Memory:
    # Made on the loop that it will live on.
    return Memory(address, **options)
