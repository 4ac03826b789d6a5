"""Hold the messages of turns until they are saved.

A turn holds its own messages and saves them in order. What it cannot save stays in the outbox of the memory, which retries in the
background and once more when the memory is closed.
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
from memolog.core.own_tools import with_own_apart
from memolog.core.run import Usage
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
from memolog.events import Bus, Degraded, Withdrawn
from memolog.log.executor import Core
from memolog.log.snapshot import Snapshot
from memolog.log.state import others_for
from memolog.log.usage import check_usage
from memolog.log.withdrawals import WithdrawnRows
from memolog.messages.store import Saved
from memolog.messages.validation import check_kinds, check_message
from memolog.store import Store
from memolog.text.tokens import TokenCounter

_log = logging.getLogger("memolog")

# Retries of the background task, and of the last save of a turn.
_FIRST_DELAY = 0.2
_LONGEST_DELAY = 30.0
_LAST_DELAYS = (0.05, 0.2, 0.5)
READING_SETTINGS = "reading the thread's own settings"
_NOTHING = WithdrawnRows(messages=(), runs=(), groups=(), observations=())


# ---------------------------------------------------------------- what one turn has not saved


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """The usage of a request as its provider reported it, and the tokens that we counted for it."""

    usage: Usage
    counted: int
    asked: str | None = None
    """The model that the request named; None if no model was named before the answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _ShownContext:
    """A context that was shown and is not recorded yet."""

    turn: str
    step: int
    at: datetime
    model: str | None
    record: JsonObject
    unsaved: tuple[str, ...]
    """The ids of its messages that were not saved then: a message has no number before it is saved."""


@dataclass(slots=True, kw_only=True, eq=False)
class Pending:
    """What one turn has not saved yet."""

    resource: str
    thread: str
    turn: str = ""
    messages: list[NewMessage] = field(default_factory=list[NewMessage])
    spent: list[Spent] = field(default_factory=list[Spent])
    ids: set[str] = field(default_factory=set[str])
    """Ids of all messages of the turn, saved or not."""
    contexts: list[_ShownContext] = field(default_factory=list[_ShownContext])
    """Contexts shown while the database was away, oldest first."""
    is_withdrawn: bool = False
    """The turn was discarded, and its rows are not withdrawn yet."""
    keeps_answered: bool = False
    """Only messages after the last answer of the turn are withdrawn."""
    also: tuple[int, ...] = ()
    """The numbers of messages of earlier turns that are withdrawn with it."""
    is_over: bool = False
    """The turn has ended: what is left is saved in the background."""
    is_unanswered: bool = False
    """The last saved message has no reply: no log covers it until the turn is ended in the database."""

    @property
    def is_settled(self) -> bool:
        """Return whether nothing is left to be saved."""
        return not (self.messages or self.spent or self.is_withdrawn or (self.is_over and self.is_unanswered))

    def add(self, messages: Sequence[NewMessage]) -> None:
        """Hold messages, each once."""
        known = {id(message) for message in self.messages}
        self.messages += [message for message in messages if id(message) not in known]
        self.ids.update(message.id for message in messages if message.id is not None)

    def add_context(
        self, record: JsonObject, unsaved: Iterable[NewMessage], *, step: int, at: datetime, model: str | None
    ) -> None:
        """Hold the record of a context that could not be written."""
        ids = tuple(message.id for message in unsaved if message.id)
        self.contexts.append(_ShownContext(turn=self.turn, step=step, at=at, model=model, record=record, unsaved=ids))

    def drop_unanswered(self, *, keep_answered: bool) -> None:
        """Drop messages of a discarded turn that were not saved; `keep_answered` keeps them up to the last answer."""
        answers = [place for place, message in enumerate(self.messages) if message.role == "assistant"]
        del self.messages[answers[-1] + 1 if keep_answered and answers else 0 :]

    def drop(self, messages: Sequence[NewMessage]) -> None:
        """Drop messages that are saved or refused; messages added meanwhile stay."""
        gone = {id(message) for message in messages}
        self.messages[:] = [message for message in self.messages if id(message) not in gone]


# ---------------------------------------------------------------- what all turns have not saved


class Outbox:
    """What the turns of a memory have not saved yet, oldest first, and the task that saves it."""

    def __init__(self) -> None:
        self.is_closed = False
        """The memory is closed: nothing more is accepted."""
        self.is_reported = False
        """The memory is closed, and `aclose` has reported what is lost."""
        self._pending: dict[Pending, None] = {}
        self._core: Core | None = None
        self._learn: Callable[[Pending, Spent], Awaitable[None]]
        # Without it, two calls at once would book usage twice.
        self._gate = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None
        self._woken = asyncio.Event()

    def __len__(self) -> int:
        return len(self._pending)

    def connect(self, core: Core, learn: Callable[[Pending, Spent], Awaitable[None]]) -> None:
        """Save into this database from now on; `learn` calibrates token counts from booked usage."""
        self._core, self._learn = core, learn

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
        """Hold what a turn has not saved, or let go of it once nothing is left."""
        if pending.is_settled:
            self._pending.pop(pending, None)
        else:
            self._pending[pending] = None

    def waiting(
        self, resource: str | None = None, thread: str | None = None, *, also_open: bool = False
    ) -> tuple[Pending, ...]:
        """Return what ended turns left, of all threads or of one; `also_open` includes open turns."""
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
        """Drop the messages of a forgotten thread, or (None) of a forgotten resource."""
        for pending in tuple(self._pending):
            if pending.resource == resource and thread in {None, pending.thread}:
                pending.messages.clear()
                pending.is_withdrawn = False
                self.hold(pending)

    def counts(self) -> dict[tuple[str, str], int]:
        """Return the number of unsaved messages by resource and thread; 0 where only something else is left."""
        found: Counter[tuple[str, str]] = Counter()
        for pending in self._pending:
            found[pending.resource, pending.thread] += len(pending.messages)
        return dict(found)

    # ------------------------------------------------------------ in the background

    def begin(self) -> None:
        """Save in the background what ended turns left, however long that takes."""
        is_running = self._task is not None and not self._task.done()
        if not self.is_connected or self.is_closed or is_running or not self.waiting():
            return
        self._woken = asyncio.Event()
        self._task = asyncio.get_running_loop().create_task(self._save_in_background(), name="memolog-outbox")

    def wake(self) -> None:
        """Retry now: a write has succeeded, so the database is there."""
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
        except Exception as error:  # noqa: BLE001 - what is held must not be given up for it
            _log.exception("saving what turns left behind failed unexpectedly")
            return error
        return None

    async def try_now(self, seconds: float, *, also_open: bool = False) -> None:
        """Try once, for at most so many seconds; what is left is retried in the background."""
        if self.waiting(also_open=also_open):
            with contextlib.suppress(MemologError):
                await in_time(self._try(also_open=also_open), seconds)

    async def stop(self) -> None:
        """Stop the background task."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})

    async def save_all(self, seconds: float) -> Exception | None:
        """Save everything, open turns included, retrying for so many seconds; returns the last error."""
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

    def report_loss(self, problem: Exception | None, bus: Bus, clock: Clock) -> NotSaved | None:
        """Log and emit what could not be saved before the memory was closed; returns it as an error."""
        self.is_reported = True
        counts = self.counts()
        if not counts:
            return None
        # A second `aclose` finds the store closed: the reason is that the first one was interrupted.
        why = "closing was cut short" if isinstance(problem, StoreClosed) else str(problem or "it was given up")
        lost = NotSaved(counts, why)
        _log.error("%s", lost)
        what = "saving what was left when the memory was closed"
        for resource, thread in counts:
            bus.emit(Degraded(at=clock.now(), resource=resource, thread=thread, what=what, error=str(lost)))
        return lost

    # ------------------------------------------------------------ saving

    async def save(self, resource: str | None = None, thread: str | None = None, *, also_open: bool = False) -> None:
        """Save what ended turns left: of all threads, or of one before something new is saved there."""
        stuck: dict[tuple[str, str], Exception] = {}
        async with self._gate:
            for pending in self.waiting(resource, thread, also_open=also_open):
                key = pending.resource, pending.thread
                try:
                    if key not in stuck:
                        await self._save_one(pending)
                except Exception as error:
                    if isinstance(error, StoreError) and error.retryable:
                        raise
                    # An error of one thread must not keep the others from being saved.
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
                await self._give_up(pending, f"messages of thread {pending.thread} cannot be withdrawn", error)
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
            await self._give_up(pending, f"a context of thread {pending.thread} cannot be recorded", error)
        self.hold(pending)

    async def save_messages(self, pending: Pending, messages: Sequence[NewMessage]) -> Saved:
        """Save what an earlier call could not. A message that can never be saved is reported and dropped."""
        try:
            # Ids were given when the messages came in, so saving them twice stores them once.
            owner = None if pending.is_over else self.core.owner
            where = pending.resource, pending.thread
            saved = await self.store.messages.save(*where, messages, turn=pending.turn, owner=owner)
        except Exception as error:
            if _is_temporary(error):
                raise
            if len(messages) > 1:
                # One by one, so that only the message that cannot be saved is dropped.
                done = [await self.save_messages(pending, (message,)) for message in messages]
                rows = tuple(row for saved in done for row in saved.messages)
                return Saved(messages=rows, added=sum(saved.added for saved in done))
            await self._give_up(pending, f"1 message of thread {pending.thread} cannot be saved", error)
            saved = Saved(messages=(), added=0)
        pending.drop(messages)
        self.hold(pending)
        return saved

    async def end_turn(self, pending: Pending) -> None:
        """Mark the unanswered messages of an ended turn as seen."""
        await self.store.messages.end_turn(pending.resource, pending.thread, pending.turn)
        pending.is_unanswered = False

    async def withdraw(self, pending: Pending) -> None:
        """Withdraw what a discarded turn saved."""
        now = self.core.clock.now()
        try:
            gone = await self.store.withdrawals.withdraw(
                pending.resource,
                pending.thread,
                pending.turn,
                after=0,
                also=pending.also,
                keep_answered=pending.keeps_answered,
                now=now,
                render=self.core.rerender,
            )
        except ThreadNotFound:
            # Nothing was saved yet, or the thread was deleted.
            gone = _NOTHING
        pending.is_withdrawn = pending.is_unanswered = False
        self.hold(pending)
        await self.core.tell(
            Withdrawn(
                at=now,
                resource=pending.resource,
                thread=pending.thread,
                messages=len(gone.messages),
                runs=len(gone.runs),
                groups=len(gone.groups),
                observations=len(gone.observations),
            )
        )

    async def book(self, pending: Pending) -> None:
        """Book what the requests of a turn cost. Usage that can never be booked is reported and dropped."""
        while pending.spent:
            spent = pending.spent.pop(0)
            usage = replace(spent.usage, thread=spent.usage.thread or pending.thread)
            try:
                await self.store.ledger.add(pending.resource, usage)
            except BaseException as error:
                if not isinstance(error, Exception) or _is_temporary(error):
                    pending.spent.insert(0, spent)
                    raise
                what = f"the usage of a request of thread {pending.thread} cannot be booked"
                await self._give_up(pending, what, error, doing="booking what was spent")
            else:
                await self._learn(pending, spent)
            finally:
                self.hold(pending)

    async def record_contexts(self, pending: Pending) -> None:
        """Record the contexts shown while the database was away, now that their messages are saved."""
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
                # A message of it was never saved: the record would be wrong.
                pending.contexts.pop(0)
                continue
            # A repeated message that the log covers was not shown again.
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

    async def _give_up(
        self, pending: Pending, what: str, error: Exception, *, doing: str = "saving what a turn left behind"
    ) -> None:
        """Report something that can never be saved, and is not retried."""
        if not isinstance(error, MemologError):
            _log.error("%s failed unexpectedly", doing, exc_info=error)
        await self.core.degraded(pending.resource, pending.thread, doing, f"{what}: {error}")


def _is_temporary(error: Exception) -> bool:
    """Return whether a retry may succeed: the database or the machine refused, not the content."""
    return isinstance(error, StoreError | OSError | MemoryError)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outside:
    """What a memory has without its database."""

    clock: Clock
    counter: TokenCounter
    instructions: str | None
    new_id: Callable[[], str]
    tell: Callable[[Degraded], None]
    outbox: Outbox
    open_turns: Counter[str]
    """The running turns of this process by id: a continued turn may be open more than once."""

    def degraded(self, resource: str, thread: str, what: str, error: object) -> None:
        """Emit that something failed and is gone on without."""
        self.tell(Degraded(at=self.clock.now(), resource=resource, thread=thread, what=what, error=str(error)))


# ---------------------------------------------------------------- one turn


class TurnOutbox:
    """Holds what one turn says, and saves it in order."""

    def __init__(self, outside: Outside, *, resource: str, thread: str, zone: str | None) -> None:
        self._outside, self._outbox, self._zone = outside, outside.outbox, zone
        self._resource, self._thread = resource, thread
        self.pending = Pending(resource=resource, thread=thread)
        self.since: list[Message] = []
        """Messages saved since the snapshot was read: a context without the database needs both."""
        self.saved_tokens = 0
        self._own_calls: set[str] = set()
        # Calls of one turn may overlap, as results of parallel tools do; their messages are saved in order.
        self._one_by_one = asyncio.Lock()
        # What the last call brought, if it raised, as given and as held: a repeated call adds it once.
        self._repeatable: tuple[Sequence[NewMessage], Sequence[NewMessage]] | None = None

    # ------------------------------------------------------------ holding

    @contextmanager
    def adding(
        self, messages: Sequence[NewMessage], config: Config, spent: Spent | None = None
    ) -> Generator[Sequence[NewMessage]]:
        """Hold what a call brings until it is saved; yields the messages with ids and times.

        A call that raises adds nothing, unless it was cancelled: then its caller may be gone, and its messages are kept.
        """
        pending = self.pending
        kept = self._identified(messages)
        pending.add(kept)
        if spent:
            pending.spent.append(spent)
        if not config.read_only:
            self._outbox.hold(pending)
        try:
            yield kept
        except BaseException as error:
            self._repeatable = messages, kept
            if config.strict or isinstance(error, InputError):
                pending.drop(kept)
                pending.spent[:] = [one for one in pending.spent if one is not spent]
                self._outbox.hold(pending)
            raise
        self._repeatable = None

    def _identified(self, messages: Sequence[NewMessage]) -> Sequence[NewMessage]:
        """Return messages with ids and times, given once, so that a retry saves them once."""
        if self._repeatable is not None and messages and self._repeatable[0] == messages:
            return self._repeatable[1]
        check_messages(messages)
        new_id = self._outbox.store.new_id if self._outbox.is_connected else self._outside.new_id
        kept = [
            replace(
                message,
                id=new_id() if message.id is None else message.id,
                created_at=message.created_at or self._outside.clock.now(),
                zone=message.zone or self._zone,
            )
            for message in with_own_apart(messages, self._own_calls)
        ]
        self._check(kept)
        return kept

    def _check(self, messages: Sequence[NewMessage]) -> None:
        """Refuse what could never be saved while the caller can correct it, where saving would find out too late."""
        if not self._outbox.is_connected:
            for message in messages:
                check_message(message)
                check_id("message", message.id)
                object_text("The metadata", message.metadata)
        elif self._outbox.waiting(self._resource, self._thread, also_open=True):
            # What waits is saved first, and that may fail before these are checked.
            self._outbox.store.messages.ready(self._resource, self._thread, messages, self.pending.turn)

    def not_saved(self, config: Config) -> Sequence[NewMessage]:
        """Return the messages of the thread that are only held here."""
        messages = self._outbox.messages_of(self._resource, self._thread)
        return (*messages, *self.pending.messages) if config.read_only else messages

    # ------------------------------------------------------------ saving

    async def save_and_read(self, fresh: Sequence[NewMessage], config: Config, *, decides: bool = True) -> Snapshot:
        """Save what is held up to `fresh`, and read what a context or, with `decides`, a decision needs."""
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
            )
            self._settle(messages)
            self._track(saved)
            return snapshot

    async def read(self, config: Config) -> Snapshot:
        """Read what a context needs without writing anything."""
        return await self._outbox.store.logs.snapshot(
            self._resource,
            self._thread,
            config.scope,
            create=False,
            newest=_newest(config),
            others=others_for(config, decides=False),
        )

    async def save(self, fresh: Sequence[NewMessage] = ()) -> None:
        """Save what is held up to `fresh`; all of it, if that is empty."""
        async with self._one_by_one:
            if messages := await self._catch_up(fresh):
                saved = await self._outbox.store.messages.save(
                    self._resource, self._thread, messages, turn=self.pending.turn, owner=self._outbox.core.owner
                )
                self._note(saved)
                self._settle(messages)

    async def save_rest(self) -> None:
        """Save everything that is left at the end of the turn, with a few retries."""
        for delay in (*_LAST_DELAYS, None):
            try:
                await self.save()
                if self.pending.spent:
                    await self._outbox.book(self.pending)
            except StoreError as error:
                # A locked database was already waited for.
                if delay is None or not error.retryable or isinstance(error, StoreBusy):
                    raise
                await asyncio.sleep(delay)
            else:
                return

    async def _catch_up(self, fresh: Sequence[NewMessage]) -> Sequence[NewMessage]:
        """Save first what earlier turns of the thread and earlier calls of this one left; returns what of `fresh` is left."""
        pending, mine = self.pending, {id(message) for message in fresh}
        if len(self._outbox) and self._outbox.waiting(self._resource, self._thread):
            await self._outbox.save(self._resource, self._thread)
        if earlier := tuple(takewhile(lambda message: id(message) not in mine, pending.messages)):
            self._note(await self._outbox.save_messages(pending, earlier))
        # What follows was added by later calls: those save it, and raise what is wrong with it.
        return tuple(message for message in pending.messages if id(message) in mine)

    def _settle(self, messages: Sequence[NewMessage]) -> None:
        self.pending.drop(messages)
        self._outbox.hold(self.pending)
        if len(self._outbox):
            # The database is there: retry what other turns left.
            self._outbox.wake()

    async def end(self) -> None:
        """Mark unanswered messages as seen: the turn is over."""
        if self.pending.is_unanswered:
            await self._outbox.end_turn(self.pending)
        await self._outbox.record_contexts(self.pending)

    def _track(self, saved: Saved) -> None:
        """Note whether the last saved message still needs an answer."""
        if saved.messages:
            self.pending.is_unanswered = max(saved.messages, key=lambda row: row.seq).role != "assistant"

    def _note(self, saved: Saved) -> None:
        self._track(saved)
        self.since.extend(saved.messages)
        self.saved_tokens += sum(message.tokens for message in saved.messages)


def _newest(config: Config) -> int | None:
    """Return how many messages are read where no log is kept."""
    return None if config.observe else 2 * config.last_messages


# ---------------------------------------------------------------- checks of arguments


def checked_usage(usage: Usage | None) -> None:
    """Raise InputError for a usage of the wrong type or one that cannot be stored."""
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
    """Raise InputError for a value that is not a message, or has parts of a wrong kind."""
    for message in messages:
        if not isinstance(message, NewMessage):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InputError(
                f"A message must be a text, a dict or a message object, got {type(message).__name__}.",
                then='Pass UserMessage("…"), AssistantMessage("…") or ToolMessage(…), one argument each.',
            )
    for message in messages:
        check_kinds(message)
