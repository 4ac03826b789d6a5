"""A turn: from what the user said to the final answer, one model request after the other.

Knows what belongs to one turn and what of it is not saved yet. Memory never breaks the agent: what fails here becomes an event
and a context made of what is known, unless `strict` is set.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Self, TypeVar

from memolog.config import Config
from memolog.context import Context
from memolog.context.passages import Passage
from memolog.domain.errors import InputError, MemologError, StoreBusy, StoreError, ThreadNotFound
from memolog.domain.message import Message, NewMessage
from memolog.domain.own import with_own_apart
from memolog.domain.run import Usage
from memolog.runtime.away import Away, Outside, dated
from memolog.runtime.contexts import Made, Shown
from memolog.runtime.events import Degraded, Trimmed, Withdrawn
from memolog.runtime.injecting import find_passages, newest_question
from memolog.runtime.kit import Kit, Left
from memolog.runtime.missed import MissedContexts
from memolog.runtime.opening import overridden
from memolog.runtime.status import windows_of
from memolog.runtime.telemetry import span
from memolog.runtime.views import Asked
from memolog.store.snapshot import Snapshot
from memolog.store.withdrawals import Withdrawn as WithdrawnRows
from memolog.tokens import learn

__all__ = ["Turn"]

_log = logging.getLogger("memolog")

T = TypeVar("T")

# A turn gives the database this long; then it goes on with what it knows, and saves later.
_STORE_SECONDS = 3.0
_LAST_DELAYS = (0.05, 0.2, 0.5)


class Turn:
    """One turn of a thread. Use it as `async with memory.turn(…) as turn`."""

    def __init__(
        self,
        open_kit: Callable[[], Awaitable[Kit]],
        outside: Outside,
        *,
        resource: str,
        thread: str,
        config: Config,
        model: str | None,
        zone: str | None,
    ) -> None:
        self._open_kit, self._outside = open_kit, outside
        self._kit: Kit
        self._away: Away | None = None
        self.resource, self.thread = resource, thread
        self._config, self._model, self._zone = config, model, zone
        self.id = ""
        self.step = 0
        self._unsaved: list[NewMessage] = []
        self._snapshot: Snapshot | None = None
        # What was saved since the snapshot was read: a context without the database needs both.
        self._since: list[Message] = []
        self._missed = MissedContexts()
        self._last: Made | None = None
        self._found: tuple[int, tuple[Passage, ...]] | None = None
        self._unspanned = self._uncovered = 0
        self._own_calls: set[str] = set()
        self._is_over = False

    async def __aenter__(self) -> Self:
        await self._arrive()
        return self

    async def _arrive(self) -> None:
        """Open the database; while it is not there, the turn goes on without it and holds what is said."""
        try:
            self._kit = await self._open_kit()
        except StoreError as error:
            # What a person must mend is told when the turn begins; later it must not break what is under way.
            if self._config.strict or (self._away is None and not error.retryable):
                raise
            self._away = self._away or Away(
                self._outside, resource=self.resource, thread=self.thread, config=self._config, zone=self._zone
            )
            self._away.missing(error)
            self.id = self._away.turn
            return
        away, self._away = self._away, None
        self.id = self.id or self._kit.store.new_id()
        if away is not None:
            self._keep(away.said)

    async def _still_away(self) -> Away | None:
        """Return what holds this turn's words while the database is not there; tries now and then whether it is."""
        if self._away is not None and self._away.is_time():
            await self._arrive()
        return self._away

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._is_over:
            return
        self._is_over = True
        if self._config.read_only:
            return
        if away := await self._still_away():
            away.leave()
            return
        try:
            await self._leave()
        except Exception as problem:  # noqa: BLE001 - memory never breaks the agent
            if self._unsaved and not isinstance(problem, InputError):
                said = tuple(self._unsaved)
                left = Left(
                    resource=self.resource, thread=self.thread, turn=self.id, messages=said, missed=self._missed
                )
                self._kit.leave(left)
            await self._degrade("saving the end of the turn", problem, has_failed_already=error is not None)

    # ------------------------------------------------------------ steps

    async def prepare(
        self, *messages: NewMessage, ephemeral: Sequence[NewMessage] = (), model: str | None = None
    ) -> Context:
        """Save what is new and return what the model should see now.

        Call it once a model request: with the user's message first, with tool results later. `ephemeral` is shown in this
        request only, neither stored nor observed.
        """
        self._check_open()
        self.step += 1
        self._model = model or self._model
        with span("memolog.prepare", {"gen_ai.conversation.id": self.thread, "memolog.step": self.step}):
            if away := await self._still_away():
                away.keep(_checked(messages))
                return away.context(_checked(ephemeral))
            self._keep(messages)
            made = await self._prepare(tuple(_checked(ephemeral)))
            self._last = made
            return made.context

    async def record(
        self, *messages: NewMessage, model: str | None = None, usage: Usage | None = None, beside: int | None = 0
    ) -> None:
        """Save what the model answered, and learn from what its provider reported.

        `beside` is how many tokens the request had beside the context (instructions, tools), as the memory's counter counts
        them; None if that cannot be told, so that nothing is learned about counting.
        """
        self._check_open()
        if usage is not None and not isinstance(usage, Usage):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InputError(
                f"Usage is a Usage, not {type(usage).__name__}.",
                then='Pass Usage(model="…", input_tokens=…, output_tokens=…).',
            )
        self._model = model or (usage.model if usage else None) or self._model
        with span("memolog.record", {"gen_ai.conversation.id": self.thread}):
            if away := await self._still_away():
                away.keep(_checked(messages))
                return
            self._keep(messages)
            if self._config.read_only:
                return
            try:
                await self._save()
                await self._learn(usage, beside)
            except Exception as error:  # noqa: BLE001 - memory never breaks the agent
                await self._degrade("recording the answer", error)

    async def discard(self, *, also: Sequence[int] = ()) -> None:
        """Withdraw what this turn saved, as if it had not been said, and end the turn.

        `also` are the numbers of messages of earlier turns that go with it, if nobody has answered them.
        """
        self._check_open()
        self._is_over = True
        self._unsaved.clear()
        if self._config.read_only or self._away is not None:
            # Nothing of it was saved.
            return
        kit = self._kit
        now = kit.clock.now()
        try:
            gone: WithdrawnRows = await kit.store.withdrawals.withdraw(
                self.resource, self.thread, self.id, after=0, also=also, now=now, render=kit.core.rerender
            )
        except ThreadNotFound:
            # Nothing was saved yet, or the thread was deleted with all that was: there is nothing to take back.
            gone = WithdrawnRows(messages=(), runs=(), groups=(), observations=())
        except MemologError as error:
            # A discard that did not happen must not pass for one that did.
            await kit.core.tell(
                Degraded(at=now, resource=self.resource, thread=self.thread, what="discarding", error=str(error))
            )
            raise
        await kit.core.tell(
            Withdrawn(
                at=now,
                resource=self.resource,
                thread=self.thread,
                messages=len(gone.messages),
                runs=len(gone.runs),
                groups=len(gone.groups),
                observations=len(gone.observations),
            )
        )

    # ------------------------------------------------------------ inside

    def _check_open(self) -> None:
        if not self.id or self._is_over:
            raise InputError("This turn is not open.", then="Use it inside its `async with` block.")

    def _keep(self, messages: Sequence[NewMessage]) -> None:
        """Hold messages until they are saved. They get their ids and times now, so that a retry saves them once."""
        kit = self._kit
        for message in with_own_apart(_checked(messages), self._own_calls):
            self._unsaved.append(dated(message, kit.store.new_id, kit.clock, self._zone))

    async def _prepare(self, ephemeral: tuple[NewMessage, ...]) -> Made:
        kit = self._kit
        try:
            # Kept at once: whatever fails from here on, the context still has what was just said.
            self._snapshot = snapshot = await self._save_and_read()
            if snapshot.thread.overrides:
                self._config, ignored = overridden(self._config, snapshot.thread.overrides)
                if ignored:
                    self._outside.tell_ignored(self.resource, self.thread, ignored)
            asked = Asked(model=self._model, may_wait=True, factor=await kit.factor(self.resource, self._model))
            if self._config.observe and not self._config.read_only:
                snapshot = (await kit.core.advance(snapshot, self._config, asked)).snapshot
            self._snapshot = snapshot
            passages = await self._passages(snapshot)
            made = await kit.contexts.build(replace(self._shown(snapshot, ephemeral), passages=passages))
            self._unspanned, self._uncovered = made.unspanned, made.uncovered
            await self._after_build(made)
        except Exception as error:  # noqa: BLE001 - memory never breaks the agent
            await self._degrade("preparing the context", error)
            made = kit.contexts.without_store(self._shown(self._snapshot, ephemeral), self._since, self._unsaved)
            self._missed.add(made.record, self._unsaved, self.id, self.step, kit.clock.now(), self._model)
        return made

    def _shown(self, snapshot: Snapshot | None, ephemeral: tuple[NewMessage, ...]) -> Shown:
        return Shown(
            snapshot=snapshot,
            config=self._config,
            ephemeral=ephemeral,
            zone=self._zone,
            now=self._kit.clock.now(),
        )

    async def _passages(self, snapshot: Snapshot) -> tuple[Passage, ...]:
        """Return what earlier messages say about the newest one: searched for once, and the same at every step."""
        question = newest_question(snapshot) if self._config.recall.results else None
        if question is None:
            return ()
        if self._found is None or self._found[0] != question.seq:
            kit = self._kit
            try:
                found = await _in_time(find_passages(kit.store, snapshot, question, self._config, kit.clock.now()))
            except MemologError as error:
                await self._degrade("searching for earlier messages", error)
                found = ()
            self._found = question.seq, found
        return self._found[1]

    async def _after_build(self, made: Made) -> None:
        kit = self._kit
        if self._snapshot is not None and kit.core.bus.has_listeners:
            kit.core.bus.emit(windows_of(self._snapshot, self._config, kit.clock.now()))
        context, last = made.context, self._last.context if self._last else None
        # What is shown in part stays so from step to step, and is told once.
        if context.trimmed or context.shortened > (last.shortened if last else 0):
            event = Trimmed(
                at=kit.clock.now(),
                resource=self.resource,
                thread=self.thread,
                messages=context.trimmed,
                limit=self._config.context_tokens or self._config.repeated_tokens,
                shortened=context.shortened,
            )
            if self._config.read_only:
                kit.core.bus.emit(event)
            else:
                await kit.core.tell(event)
        if self._config.read_only or self._snapshot is None:
            return
        await self._missed.record(kit.store, self.resource, self.thread)
        await kit.store.journal.add_context(
            self._snapshot.thread.pk,
            turn=self.id,
            step=self.step,
            now=kit.clock.now(),
            record=made.record,
            model=self._model,
        )

    async def _save_and_read(self) -> Snapshot:
        store, config = self._kit.store, self._config
        if self._kit.left:
            await _in_time(self._kit.rescue(self.resource, self.thread))
        newest = None if config.observe else 2 * config.last_messages
        if config.read_only:
            read = await store.logs.snapshot(self.resource, self.thread, config.scope, create=False, newest=newest)
            return self._kit.contexts.including(read, self._unsaved, self._shown(read, ()))
        _, snapshot = await _in_time(
            store.save_and_snapshot(
                self.resource, self.thread, self._unsaved, turn=self.id, scope=config.scope, newest=newest
            )
        )
        self._unsaved.clear()
        return snapshot

    async def _save(self) -> None:
        if not self._unsaved:
            return
        store = self._kit.store
        saved = await _in_time(store.messages.save(self.resource, self.thread, self._unsaved, turn=self.id))
        self._unsaved.clear()
        self._since.extend(saved.messages)
        tokens = sum(message.tokens for message in saved.messages)
        self._unspanned += tokens
        self._uncovered += tokens

    async def _leave(self) -> None:
        """Save what is left; start observing if this turn has made that due."""
        await self._save_at_last()
        await self._missed.record(self._kit.store, self.resource, self.thread)
        config = self._config
        if not config.observe:
            self._kit.compacting.later(self.resource, self.thread, config)
        if not config.observe or self._snapshot is None or not self._is_due():
            return
        snapshot = await self._kit.store.logs.snapshot(self.resource, self.thread, config.scope)
        await self._kit.core.advance(snapshot, config, Asked(may_activate=False, ending=True))

    async def _save_at_last(self) -> None:
        """Save what is left. Nobody comes after this, so a database that was gone for a moment is asked again."""
        for delay in (*_LAST_DELAYS, None):
            try:
                return await self._save()
            except StoreError as error:
                # A lock has cost all the patience that there was already.
                if delay is None or not error.retryable or isinstance(error, StoreBusy):
                    raise
                await asyncio.sleep(delay)
        return None

    def _is_due(self) -> bool:
        """Tell whether a span may be due by now: most turns end without, and need not read the log to find that out."""
        config, step = self._config, self._config.buffer_step
        if config.buffer_on_idle or step is None:
            return config.buffer_on_idle
        is_near = self._uncovered >= config.threshold - step
        return self._unspanned >= (step // 2 if is_near else step)

    async def _learn(self, usage: Usage | None, beside: int | None) -> None:
        if usage is None:
            return
        store = self._kit.store
        await store.ledger.add(self.resource, replace(usage, thread=usage.thread or self.thread))
        reported = usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens
        if self._last is not None and beside is not None and reported > 0:
            counted = self._last.context.tokens.total + max(beside, 0)
            await self._kit.calibrate(self.resource, usage.model, lambda known: learn(known, counted, reported))

    async def _degrade(self, what: str, error: Exception, *, has_failed_already: bool = False) -> None:
        """Go on without: tell whoever listens, and raise only if that was asked for."""
        kit = self._kit
        if not isinstance(error, MemologError):
            _log.error("%s failed in a way that it never should", what, exc_info=error)
        await kit.core.tell(
            Degraded(at=kit.clock.now(), resource=self.resource, thread=self.thread, what=what, error=str(error))
        )
        if isinstance(error, InputError):
            # A message that cannot be stored is the caller's to mend, and must not spoil the next call.
            self._unsaved.clear()
        if (self._config.strict or isinstance(error, InputError)) and not has_failed_already:
            raise error


async def _in_time(call: Coroutine[object, object, T]) -> T:
    """Await a call of the store, but not for long: what it was asked to save is saved later."""
    try:
        async with asyncio.timeout(_STORE_SECONDS):
            return await call
    except TimeoutError as error:
        raise StoreBusy(
            f"The database did not answer within {_STORE_SECONDS:g} s.",
            why="It is locked by another process, or its server is slow.",
            then="The turn goes on; what is not saved yet is saved with the next call.",
        ) from error


def _checked(messages: Sequence[NewMessage]) -> Sequence[NewMessage]:
    for message in messages:
        if not isinstance(message, NewMessage):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InputError(
                f"A turn takes messages, not {type(message).__name__}.",
                then='Pass UserMessage("…"), AssistantMessage("…") or ToolMessage(…), one argument each.',
            )
    return messages
