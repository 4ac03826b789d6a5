"""Hold the messages of turns until they are saved.

A turn holds its own messages and saves them in order. Messages that it cannot save stay in the outbox of the `Memory`, which
retries in the background, and again when the `Memory` is closed.
"""

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import takewhile

from memolog.core.clock import Clock
from memolog.core.config import Config
from memolog.core.deadline import in_time
from memolog.core.exact_json import JsonObject, object_text
from memolog.core.message import Message, NewMessage
from memolog.core.observation import Scope
from memolog.core.own_tools import with_own_apart
from memolog.core.run import Usage
from memolog.db.queries import Script
from memolog.db.scope import check_id
from memolog.errors import (
    InputError,
    MemologError,
    MessageNotFound,
    NotSaved,
    StoreBusy,
    StoreClosed,
    StoreError,
    ThreadNotFound,
)
from memolog.events import Bus
from memolog.log.executor import Core
from memolog.log.snapshot import Snapshot
from memolog.log.state import others_for
from memolog.log.usage import Lesson, check_usage
from memolog.log.withdrawals import WithdrawnRows
from memolog.messages.store import Saved, Then
from memolog.messages.validation import check_kinds, check_message
from memolog.store import Store

_log = logging.getLogger("memolog")

# In seconds: the first and the longest delay between attempts of the background task, and the delays between the attempts to save
# a turn when it ends.
_FIRST_DELAY = 0.2
_LONGEST_DELAY = 30.0
_LAST_DELAYS = (0.05, 0.2, 0.5)
READING_SETTINGS = "reading the thread's own settings"
_NOTHING = WithdrawnRows(messages=(), runs=(), groups=(), observations=())


# ---------------------------------------------------------------- what one turn has not saved


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """The usage that the provider reported for a request, and the tokens of the request by Memolog's counter."""

    usage: Usage
    counted: int
    asked: str | None = None
    """The model that the application passed for the request. None if it passed no model."""
    files: tuple[Message, ...] = ()
    """The messages of the request that have large files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _ShownContext:
    """A context that was returned to the agent and is not recorded yet."""

    turn: str
    step: int
    at: datetime
    model: str | None
    record: JsonObject
    unsaved: tuple[str, ...]
    """The ids of the messages in the context that were not saved yet. A message has no number before it is saved."""


@dataclass(slots=True, kw_only=True, eq=False)
class Pending:
    """The messages, usage and contexts that one turn has not saved yet."""

    resource: str
    thread: str
    turn: str = ""
    messages: list[NewMessage] = field(default_factory=list[NewMessage])
    spent: list[Spent] = field(default_factory=list[Spent])
    ids: set[str] = field(default_factory=set[str])
    """Ids of all messages of the turn, saved or not."""
    contexts: list[_ShownContext] = field(default_factory=list[_ShownContext])
    """Contexts that could not be recorded, because the database was unavailable, oldest first."""
    is_withdrawn: bool = False
    """Whether the turn was discarded but its saved messages are not withdrawn yet."""
    keeps_answered: bool = False
    """Whether only the messages after the last answer of the turn are withdrawn."""
    also: tuple[int, ...] = ()
    """The numbers of messages of earlier turns that are withdrawn with this turn."""
    is_over: bool = False
    """Whether the turn has ended. The outbox then saves the rest in the background."""
    is_unanswered: bool = False
    """Whether the last saved message has no answer. The message counts as unseen until `end_turn`, so it stays in the tail."""

    @property
    def is_settled(self) -> bool:
        """Return whether nothing is left to save. Contexts do not count."""
        return not (self.messages or self.spent or self.is_withdrawn or (self.is_over and self.is_unanswered))

    def add(self, messages: Sequence[NewMessage]) -> None:
        """Hold messages. A message that is already held is not added again."""
        known = {id(message) for message in self.messages}
        self.messages += [message for message in messages if id(message) not in known]
        self.ids.update(message.id for message in messages if message.id is not None)

    def add_context(
        self, record: JsonObject, unsaved: Iterable[NewMessage], *, step: int, at: datetime, model: str | None
    ) -> None:
        """Hold the record of a context that could not be stored."""
        ids = tuple(message.id for message in unsaved if message.id)
        self.contexts.append(_ShownContext(turn=self.turn, step=step, at=at, model=model, record=record, unsaved=ids))

    def drop_unanswered(self, *, keep_answered: bool) -> None:
        """Drop the unsaved messages of a discarded turn. With `keep_answered` only those after the last answer are dropped."""
        answers = [position for position, message in enumerate(self.messages) if message.role == "assistant"]
        del self.messages[answers[-1] + 1 if keep_answered and answers else 0 :]

    def drop(self, messages: Sequence[NewMessage]) -> None:
        """Drop messages that were saved or refused. Messages that were added meanwhile stay."""
        gone = {id(message) for message in messages}
        self.messages[:] = [message for message in self.messages if id(message) not in gone]


# ---------------------------------------------------------------- what all turns have not saved


class Outbox:
    """The unsaved data of all turns of a `Memory`, oldest first, and the background task that saves it."""

    def __init__(self) -> None:
        self.is_closed = False
        """Whether the `Memory` is closed. Then nothing more is accepted."""
        self.is_reported = False
        """Whether `aclose` has reported the messages that are lost."""
        self._pending: dict[Pending, None] = {}
        self._core: Core | None = None
        self._lesson: Callable[[Pending, Spent], Awaitable[Lesson | None]]
        # Without this lock, two calls at the same time would store the same usage twice.
        self._gate = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None
        self._woken = asyncio.Event()

    def __len__(self) -> int:
        return len(self._pending)

    def connect(self, core: Core, lesson: Callable[[Pending, Spent], Awaitable[Lesson | None]]) -> None:
        """Use the open database of `core` from now on. `lesson` returns how token counts are calibrated with usage."""
        self._core, self._lesson = core, lesson

    @property
    def is_connected(self) -> bool:
        """Return whether the database was opened."""
        return self._core is not None

    @property
    def core(self) -> Core:
        """Return the core of the open database."""
        if self._core is None:
            raise StoreClosed
        return self._core

    @property
    def store(self) -> Store:
        """Return the open database."""
        return self.core.store

    # ------------------------------------------------------------ what there is

    def hold(self, pending: Pending) -> None:
        """Add the unsaved data of a turn to the outbox, or remove it if nothing is left to save."""
        if pending.is_settled:
            self._pending.pop(pending, None)
        else:
            self._pending[pending] = None

    def waiting(
        self, resource: str | None = None, thread: str | None = None, *, also_open: bool = False
    ) -> tuple[Pending, ...]:
        """Return the unsaved data of ended turns, of all threads or of one thread. `also_open` includes open turns."""
        return tuple(
            pending
            for pending in self._pending
            if (pending.is_over or also_open)
            and (resource is None or (pending.resource, pending.thread) == (resource, thread))
        )

    def messages_of(self, resource: str, thread: str) -> tuple[NewMessage, ...]:
        """Return the messages of a thread that are not saved yet."""
        found = self.waiting(resource, thread, also_open=True)
        return tuple(message for pending in found if not pending.is_withdrawn for message in pending.messages)

    def withdrawn_of(self, resource: str, thread: str) -> frozenset[str]:
        """Return the ids of discarded messages of a thread that may still be in the database."""
        found = self.waiting(resource, thread, also_open=True)
        return frozenset(name for pending in found if pending.is_withdrawn for name in pending.ids)

    def forget(self, resource: str, thread: str | None) -> None:
        """Drop the messages of a forgotten thread, or for `thread=None` of a forgotten resource."""
        for pending in tuple(self._pending):
            if pending.resource == resource and thread in {None, pending.thread}:
                pending.messages.clear()
                pending.is_withdrawn = False
                self.hold(pending)

    def counts(self) -> dict[tuple[str, str], int]:
        """Return the number of unsaved messages, by resource and thread. It is 0 if only usage or a withdrawal is left."""
        found: Counter[tuple[str, str]] = Counter()
        for pending in self._pending:
            found[pending.resource, pending.thread] += len(pending.messages)
        return dict(found)

    # ------------------------------------------------------------ in the background

    def begin(self) -> None:
        """Start to save the data of ended turns in the background. The task ends when everything is saved."""
        is_running = self._task is not None and not self._task.done()
        if not self.is_connected or self.is_closed or is_running or not self.waiting():
            return
        self._woken = asyncio.Event()
        self._task = asyncio.get_running_loop().create_task(self._save_in_background(), name="memolog-outbox")

    def wake(self) -> None:
        """Retry now. Called when a write has succeeded, because then the database is available again."""
        if self.waiting():
            self.begin()
            self._woken.set()

    async def _save_in_background(self) -> None:
        delay = _FIRST_DELAY
        while self.waiting():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(delay):
                    await self._woken.wait()
            self._woken.clear()
            delay = min(2 * delay, _LONGEST_DELAY)
            await self._try()

    async def _try(self, *, also_open: bool = False) -> Exception | None:
        try:
            await self.save(also_open=also_open)
        except MemologError as error:
            return error
        except Exception as error:  # noqa: BLE001 - an unexpected error must not end the retries
            _log.exception("saving the data of ended turns failed unexpectedly")
            return error
        return None

    async def try_now(self, seconds: float, *, also_open: bool = False) -> None:
        """Try once to save, for at most `seconds`. Errors are ignored. Data that is not saved stays in the outbox."""
        if self.waiting(also_open=also_open):
            with contextlib.suppress(MemologError):
                await in_time(self._try(also_open=also_open), seconds)

    async def stop(self) -> None:
        """Stop the background task."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})

    async def save_all(self, seconds: float) -> Exception | None:
        """Save the data of all turns, also of open ones. Retry for at most `seconds`. Return the last error, or None."""
        await self.stop()
        loop = asyncio.get_running_loop()
        end, delay = loop.time() + seconds, _FIRST_DELAY
        error: Exception | None = None
        while len(self):
            try:
                async with asyncio.timeout_at(end):
                    error = await self._try(also_open=True)
            except TimeoutError:
                return error or StoreBusy(f"The database did not answer within {seconds:g} s.")
            if error is None or not getattr(error, "retryable", False) or loop.time() + delay > end:
                break
            await asyncio.sleep(delay)
            delay *= 2
        return error

    def report_loss(self, problem: Exception | None, bus: Bus) -> NotSaved | None:
        """Log and emit how many messages are lost because they could not be saved. Return the error, or None without a loss."""
        self.is_reported = True
        counts = self.counts()
        if not counts:
            return None
        # StoreClosed means that this is a second `aclose`. The cause of the loss is that the first one was interrupted.
        why = "closing was interrupted" if isinstance(problem, StoreClosed) else str(problem or "saving was given up")
        lost = NotSaved(counts, why)
        _log.error("%s", lost)
        what = "the last attempt to save messages"
        for resource, thread in counts:
            bus.degraded(resource, thread, what, lost)
        return lost

    # ------------------------------------------------------------ saving

    async def save(self, resource: str | None = None, thread: str | None = None, *, also_open: bool = False) -> None:
        """Save the data of ended turns, of all threads or of one thread. `also_open` includes open turns."""
        stuck: dict[tuple[str, str], Exception] = {}
        for pending in self.waiting(resource, thread, also_open=also_open):
            key = pending.resource, pending.thread
            try:
                # A turn that saves earlier messages of its thread waits for one of the others at most, not for all.
                async with self._gate:
                    if key not in stuck and pending in self._pending:
                        await self._save_one(pending)
            except Exception as error:
                if isinstance(error, StoreError) and error.retryable:
                    raise
                # After an error in one thread, the other threads are still saved.
                stuck[key] = error
        for error in stuck.values():
            raise error

    async def _save_one(self, pending: Pending) -> None:
        if pending.is_withdrawn:
            try:
                await self.withdraw(pending)
            except Exception as error:
                if _is_temporary(error):
                    raise
                pending.is_withdrawn = False
                self._give_up(pending, f"messages of thread {pending.thread} cannot be withdrawn", error)
        if pending.messages:
            await self.save_messages(pending, tuple(pending.messages))
        if pending.is_unanswered:
            await self.end_turn(pending)
        if pending.spent:
            await self.book(pending)
        try:
            await self.record_contexts(pending)
        except Exception as error:
            if _is_temporary(error):
                raise
            pending.contexts.clear()
            self._give_up(pending, f"a context of thread {pending.thread} cannot be recorded", error)
        self.hold(pending)

    async def save_messages(self, pending: Pending, messages: Sequence[NewMessage]) -> Saved:
        """Save messages that an earlier call could not save. A message that can never be saved is reported and dropped."""
        try:
            # The messages have ids already, so a message that is saved twice is stored once.
            owner = None if pending.is_over else self.core.owner
            where = pending.resource, pending.thread
            saved = await self.store.messages.save(*where, messages, turn=pending.turn, owner=owner)
        except Exception as error:
            if _is_temporary(error):
                raise
            if len(messages) > 1:
                # Save one by one, so that only the message that cannot be saved is dropped.
                done = [await self.save_messages(pending, (message,)) for message in messages]
                rows = tuple(row for saved in done for row in saved.messages)
                return Saved(messages=rows, added=sum(saved.added for saved in done))
            self._give_up(pending, f"1 message of thread {pending.thread} cannot be saved", error)
            saved = Saved(messages=(), added=0)
        pending.drop(messages)
        self.hold(pending)
        return saved

    async def end_turn(self, pending: Pending) -> None:
        """Mark the unanswered messages of an ended turn as seen."""
        await self.store.messages.end_turn(pending.resource, pending.thread, pending.turn)
        pending.is_unanswered = False

    async def withdraw(self, pending: Pending) -> None:
        """Withdraw the messages that a discarded turn saved."""
        now = self.core.clock.now()
        try:
            gone = await self.store.withdrawals.withdraw(
                pending.resource,
                pending.thread,
                pending.turn,
                also=pending.also,
                keep_answered=pending.keeps_answered,
            )
        except ThreadNotFound:
            # No message was saved yet, or the thread was deleted.
            gone = _NOTHING
        pending.is_withdrawn = pending.is_unanswered = False
        self.hold(pending)
        await self.core.tell(gone.event(pending.resource, pending.thread, now))

    async def save_and_book(
        self, pending: Pending, messages: Sequence[NewMessage], then: Then | None = None
    ) -> Saved | None:
        """Save messages and the usage of their request in one transaction. Return None if one of them can never be saved.

        `then` returns further steps of the transaction.
        """
        spent = pending.spent.pop(0)
        try:
            return await self.store.save_and_book(
                pending.resource,
                pending.thread,
                messages,
                turn=pending.turn,
                owner=self.core.owner,
                usage=_of_thread(spent.usage, pending),
                lesson=await self._lesson(pending, spent),
                then=then,
            )
        except BaseException as error:
            pending.spent.insert(0, spent)
            if not isinstance(error, Exception) or _is_temporary(error):
                raise
            return None

    async def book(self, pending: Pending) -> None:
        """Store the usage of a turn's requests. Usage that can never be stored is reported and dropped."""
        while pending.spent:
            spent = pending.spent.pop(0)
            try:
                await self.store.ledger.add(pending.resource, _of_thread(spent.usage, pending))
            except BaseException as error:
                if not isinstance(error, Exception) or _is_temporary(error):
                    pending.spent.insert(0, spent)
                    raise
                what = f"the usage of a request of thread {pending.thread} cannot be stored"
                self._give_up(pending, what, error, doing="storing usage")
            else:
                if lesson := await self._lesson(pending, spent):
                    await self.store.learn(pending.resource, pending.thread, lesson)
            finally:
                self.hold(pending)

    async def record_contexts(self, pending: Pending) -> None:
        """Record the contexts that could not be recorded before. Call it after their messages are saved."""
        resource, thread = pending.resource, pending.thread
        while pending.contexts:
            shown = pending.contexts[0]
            try:
                rows = [
                    row
                    for name in shown.unsaved
                    for row in await self.store.messages.get(resource, name, thread=thread)
                ]
                head = await self.store.logs.snapshot(resource, thread, "thread", create=False, newest=1)
            except (MessageNotFound, ThreadNotFound):
                # A message of this context was never saved, so its record would be wrong.
                pending.contexts.pop(0)
                continue
            # Skip messages that the log covers already. They were sent again with the same id, and the tail did not show them.
            new = (row.seq for row in rows if row.seq > shown.record["cursor"])
            record = {**shown.record, "shown": sorted({*shown.record["shown"], *new})}
            await self.store.journal.add_context(
                resource,
                head.thread.pk,
                turn=shown.turn,
                step=shown.step,
                now=shown.at,
                record=record,
                model=shown.model,
            )
            pending.contexts.pop(0)

    def _give_up(
        self, pending: Pending, what: str, error: Exception, *, doing: str = "saving the data of a turn"
    ) -> None:
        """Report data that can never be saved and is not retried."""
        if not isinstance(error, MemologError):
            _log.error("%s failed unexpectedly", doing, exc_info=error)
        self.core.bus.degraded(pending.resource, pending.thread, doing, f"{what}: {error}")


def _of_thread(usage: Usage, pending: Pending) -> Usage:
    return usage if usage.thread else replace(usage, thread=pending.thread)


def _is_temporary(error: Exception) -> bool:
    """Return whether a retry may succeed, because the database or the machine failed and the data is not wrong."""
    return isinstance(error, StoreError | OSError | MemoryError)


# ---------------------------------------------------------------- one turn


class TurnOutbox:
    """Holds the messages of one turn, and saves them in order."""

    def __init__(
        self,
        outbox: Outbox,
        clock: Clock,
        new_id: Callable[[], str],
        *,
        resource: str,
        thread: str,
        zone: str | None,
    ) -> None:
        self._outbox, self._clock, self._new_id, self._zone = outbox, clock, new_id, zone
        self._resource, self._thread = resource, thread
        self.pending = Pending(resource=resource, thread=thread)
        self.since: list[Message] = []
        """Messages saved since the last snapshot. If the database fails, a context is built from the snapshot and these."""
        self.saved_tokens = 0
        self.worker_scope: Scope | None = None
        """The scope of the log, if a worker shall look at the log when observing is due."""
        self.is_due: Callable[[int], bool] = lambda _: False
        """Returns whether observing is due after this many tokens are saved in addition to `saved_tokens`."""
        self.has_asked = False
        """Whether a worker was asked to look at the log, in a transaction that saved messages."""
        self._own_calls: set[str] = set()
        # Calls of one turn may overlap, for example with results of parallel tools. Their messages are saved in order.
        self._one_by_one = asyncio.Lock()
        # The messages of the last call if it raised, as passed and with ids. If the call is repeated, they get the same ids.
        self._repeatable: tuple[Sequence[NewMessage], Sequence[NewMessage]] | None = None

    # ------------------------------------------------------------ holding

    @contextmanager
    def adding(
        self, messages: Sequence[NewMessage], config: Config, spent: Spent | None = None
    ) -> Generator[Sequence[NewMessage]]:
        """Hold the messages and usage of a call until they are saved. Yields the messages with ids and times.

        If the block raises InputError, the messages and the usage are dropped. With `strict` they are dropped after any error.
        After other errors they are saved later.
        """
        pending = self.pending
        identified = self._identified(messages)
        pending.add(identified)
        if spent:
            pending.spent.append(spent)
        if not config.read_only:
            self._outbox.hold(pending)
        try:
            yield identified
        except BaseException as error:
            self._repeatable = messages, identified
            if config.strict or isinstance(error, InputError):
                pending.drop(identified)
                pending.spent[:] = [one for one in pending.spent if one is not spent]
                self._outbox.hold(pending)
            raise
        self._repeatable = None

    def _identified(self, messages: Sequence[NewMessage]) -> Sequence[NewMessage]:
        """Return the messages with ids and times. A repeated call gets the same ids, so that its messages are stored once."""
        if self._repeatable is not None and messages and self._repeatable[0] == messages:
            return self._repeatable[1]
        check_messages(messages)
        new_id = self._outbox.store.new_id if self._outbox.is_connected else self._new_id
        identified = [
            replace(
                message,
                id=new_id() if message.id is None else message.id,
                created_at=message.created_at or self._clock.now(),
                zone=message.zone or self._zone,
            )
            for message in with_own_apart(messages, self._own_calls)
        ]
        self._check(identified)
        return identified

    def _check(self, messages: Sequence[NewMessage]) -> None:
        """Raise InputError for a message that can never be saved. Needed only if saving may happen after the call returned."""
        if not self._outbox.is_connected:
            for message in messages:
                check_message(message)
                check_id("message", message.id)
                object_text("The metadata", message.metadata)
        elif self._outbox.waiting(self._resource, self._thread, also_open=True):
            # Earlier messages are saved first. If that fails, `messages` do not reach the store, which would check them.
            self._outbox.store.messages.ready(self._resource, self._thread, messages, self.pending.turn)

    def not_saved(self, config: Config) -> Sequence[NewMessage]:
        """Return the messages of the thread that are not saved yet."""
        messages = self._outbox.messages_of(self._resource, self._thread)
        return (*messages, *self.pending.messages) if config.read_only else messages

    # ------------------------------------------------------------ saving

    async def save_and_read(self, fresh: Sequence[NewMessage], config: Config, *, decides: bool = True) -> Snapshot:
        """Save the held messages up to `fresh`, and return a snapshot for a context or, if `decides` is True, for `decide`."""
        if config.read_only:
            return await self.read(config)
        async with self._one_by_one:
            messages = await self._catch_up(fresh)
            saved, snapshot = await self._outbox.store.save_and_snapshot(
                self._resource,
                self._thread,
                messages,
                turn=self.pending.turn,
                owner=self._outbox.core.owner,
                scope=config.scope,
                newest=_newest(config),
                others=others_for(config, decides=decides),
                limit=config.block_at_for,
                then=None if config.buffer_on_idle else self._then(),
            )
            self._settle(messages)
            self._track(saved)
            return snapshot

    async def read(self, config: Config) -> Snapshot:
        """Return a snapshot for a context without writing anything."""
        return await self._outbox.store.logs.snapshot(
            self._resource,
            self._thread,
            config.scope,
            create=False,
            newest=_newest(config),
            others=others_for(config, decides=False),
            limit=config.block_at_for,
        )

    async def save(self, fresh: Sequence[NewMessage] = ()) -> None:
        """Save the held messages up to `fresh`. If `fresh` is empty, save all of them."""
        async with self._one_by_one:
            if messages := await self._catch_up(fresh):
                saved = await self._outbox.store.messages.save(
                    self._resource,
                    self._thread,
                    messages,
                    turn=self.pending.turn,
                    owner=self._outbox.core.owner,
                    then=self._then(),
                )
                self._has_asked(saved)
                self._note(saved)
                self._settle(messages)

    async def save_answer(self, fresh: Sequence[NewMessage]) -> None:
        """Save the held messages up to `fresh` and the held usage, in one transaction if there is one of each."""
        if len(self.pending.spent) == 1 and fresh:
            async with self._one_by_one:
                messages = await self._catch_up(fresh)
                # While this call waited for its turn, another one may have stored the usage.
                if messages and len(self.pending.spent) == 1:
                    saved = await self._outbox.save_and_book(self.pending, messages, self._then())
                    if saved is not None:
                        self._has_asked(saved)
                        self._note(saved)
                        self._settle(messages)
                        return
        # Separately, so that a message is saved even if its usage cannot be stored.
        await self.save(fresh)
        await self._outbox.book(self.pending)

    async def save_rest(self) -> None:
        """Save everything that is left at the end of the turn, with a few retries."""
        for delay in (*_LAST_DELAYS, None):
            try:
                await self.save()
                if self.pending.spent:
                    await self._outbox.book(self.pending)
            except StoreError as error:
                # StoreBusy comes after a long wait for a lock, so do not try again.
                if delay is None or not error.retryable or isinstance(error, StoreBusy):
                    raise
                await asyncio.sleep(delay)
            else:
                return

    async def _catch_up(self, fresh: Sequence[NewMessage]) -> Sequence[NewMessage]:
        """Save the messages of earlier turns and calls of the thread. Return the messages of `fresh` that are not saved."""
        pending, mine = self.pending, {id(message) for message in fresh}
        if len(self._outbox) and self._outbox.waiting(self._resource, self._thread):
            await self._outbox.save(self._resource, self._thread)
        if earlier := tuple(takewhile(lambda message: id(message) not in mine, pending.messages)):
            self._note(await self._outbox.save_messages(pending, earlier))
        # Messages after `fresh` were added by later calls. Those calls save them, and raise their errors.
        return tuple(message for message in pending.messages if id(message) in mine)

    def _settle(self, messages: Sequence[NewMessage]) -> None:
        self.pending.drop(messages)
        self._outbox.hold(self.pending)
        if len(self._outbox):
            # The database is available, so retry to save the data of other turns.
            self._outbox.wake()

    async def end(self) -> None:
        """Mark unanswered messages as seen, because the turn is over, and record its contexts."""
        if self.pending.is_unanswered:
            await self._outbox.end_turn(self.pending)
        await self._outbox.record_contexts(self.pending)

    def _then(self) -> Then | None:
        return None if self.worker_scope is None else self._asking_worker

    def _asking_worker(self, saved: Saved) -> Script[None]:
        """Ask a worker to look at the log, in the transaction that saves messages, if observing is due after it."""
        if self.worker_scope is not None and self.is_due(_tokens(saved)):
            yield from self._outbox.store.jobs.deferring(self._resource, self._thread, self.worker_scope)

    def _has_asked(self, saved: Saved) -> None:
        self.has_asked = self.has_asked or (self.worker_scope is not None and self.is_due(_tokens(saved)))

    def _track(self, saved: Saved) -> None:
        """Store in `pending` whether the last saved message still needs an answer."""
        if saved.messages:
            self.pending.is_unanswered = max(saved.messages, key=lambda row: row.seq).role != "assistant"

    def _note(self, saved: Saved) -> None:
        self._track(saved)
        self.since.extend(saved.messages)
        self.saved_tokens += _tokens(saved)


def _tokens(saved: Saved) -> int:
    return sum(message.tokens for message in saved.messages)


def _newest(config: Config) -> int | None:
    """Return how many of the newest messages a snapshot reads. None means the whole tail, which is needed to observe."""
    return None if config.observe else 2 * config.last_messages


# ---------------------------------------------------------------- checks of arguments


def checked_usage(usage: Usage | None) -> None:
    """Raise InputError if the usage has the wrong type or cannot be stored."""
    if usage is None:
        return
    if not isinstance(usage, Usage):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InputError(
            f"`usage` must be a memolog.Usage, got {type(usage).__name__}.",
            then='Pass Usage(model="…", input_tokens=…, output_tokens=…).',
        )
    check_usage(usage)


def passed_along(messages: NewMessage | Sequence[NewMessage]) -> tuple[NewMessage, ...]:
    """Return `ephemeral` as a tuple of checked messages."""
    several = (messages,) if isinstance(messages, NewMessage) else messages
    if not isinstance(several, Iterable) or isinstance(several, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InputError(
            f"`ephemeral` must be a message or a list of messages, got {type(messages).__name__}.",
            then='Pass ephemeral=[UserMessage("…")].',
        )
    several = tuple(several)
    check_messages(several)
    return several


def check_messages(messages: Sequence[NewMessage]) -> None:
    """Raise InputError if a value is not a message or has parts of a wrong kind."""
    for message in messages:
        if not isinstance(message, NewMessage):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InputError(
                f"A message must be a text, a dict or a message object, got {type(message).__name__}.",
                then='Pass UserMessage("…"), AssistantMessage("…") or ToolMessage(…), one argument each.',
            )
    for message in messages:
        check_kinds(message)
