"""A turn: from what the user said to the final answer, one model request after the other.

Knows what belongs to one turn and what of it is not saved yet. Memory never breaks the agent: what fails here becomes an event
and a context made of what is known, unless `strict` is set.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import replace
from functools import cache
from types import TracebackType
from typing import Any, Self

from memolog.components import Components, overridden
from memolog.context.auto_recall import Passage, find_passages, newest_question
from memolog.context.builder import Made, Shown, known_context
from memolog.context.context import Context
from memolog.core.config import Config
from memolog.core.deadline import Budget, in_time
from memolog.core.message import NewMessage
from memolog.core.run import Usage
from memolog.errors import InputError, MemologError, ModelFailed, StoreClosed, StoreError
from memolog.events import Trimmed
from memolog.log.snapshot import Snapshot
from memolog.log.snapshot_state import Asked
from memolog.log.status import outage_of, windows_of
from memolog.messages.provider_messages import Given, answers_in, messages_in
from memolog.outbox import Offline, Outside, Spent, TurnOutbox, checked_usage, passed_along

_log = logging.getLogger("memolog")

# How much of a step's time is left for reading, where writing takes too long.
_FOR_READING = 0.2


class Turn:
    """One turn of a thread. Use it as `async with thread.turn() as turn`."""

    resource: str
    thread: str
    step: int
    """How many requests of the model this turn has had."""

    def __init__(
        self,
        open_components: Callable[[], Awaitable[Components]],
        outside: Outside,
        thread: str,
        resource: str,
        *,
        config: Config,
        own: Mapping[str, object] | None,
        model: str | None,
        zone: str | None,
    ) -> None:
        self._open_components, self._outside = open_components, outside
        self._components: Components
        self._away: Offline | None = None
        self.resource, self.thread = resource, thread
        self._config = config.with_overrides(own) if own else config
        self._own, self._zone = own, zone
        # The model that requests are meant for, as far as it was named, and the one that answered last.
        self._asked_model = model
        self._told_model: str | None = None
        self.step = 0
        self._outbox = outside.outbox
        self._said = TurnOutbox(outside, resource=resource, thread=thread, zone=zone)
        self._snapshot: Snapshot | None = None
        self._last: Made | None = None
        self._found: tuple[int, tuple[Passage, ...]] | None = None
        self._unspanned = self._uncovered = 0
        self._is_begun = self._is_over = self._is_beating = self._is_configured = False
        self._beating = ExitStack()

    @property
    def id(self) -> str:
        """Return what names the turn in the store; empty until it begins. Who goes on with an earlier turn sets it before."""
        return self._said.pending.turn

    @id.setter  # noqa: A003 - the property of this class, not the function
    def id(self, name: str) -> None:
        self._said.pending.turn = name

    async def __aenter__(self) -> Self:
        await self._arrive(Budget(self._config.turn_timeout))
        self._is_begun = True
        self._outside.open_turns[self.id] += 1
        return self

    async def _arrive(self, budget: Budget) -> None:
        """Open the database; while it is not there, the turn goes on without it and holds what is said."""
        try:
            async with budget.limit():
                self._components = await self._open_components()
        except StoreError as error:
            # What a person must mend is told when the turn begins; later it must not break what is under way.
            if self._config.strict or isinstance(error, StoreClosed) or not (self._away or error.retryable):
                raise
            self._away = self._away or Offline(self._outside, self._said.pending, config=self._config, zone=self._zone)
            self._away.missing(error)
        else:
            self._away = None
        if not self.id:
            self.id = self._outside.new_id() if self._away else self._components.store.new_id()

    async def _still_away(self, budget: Budget) -> Offline | None:
        """Return what holds this turn's words while the database is not there; tries now and then whether it is."""
        # Somebody else may have opened it meanwhile: then there is nothing to wait for.
        if self._away is not None and (self._outbox.is_connected or self._away.is_time()):
            await self._arrive(budget)
        return self._away

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._is_over:
            return
        self._is_over = True
        self._close_turn()
        if self._config.read_only or self._outbox.is_closed:
            # Whoever closed the memory has saved what this turn held, or was told that it could not be.
            return
        budget = Budget(self._config.turn_timeout)
        try:
            if await self._still_away(budget) is None:
                async with budget.limit():
                    await self._leave()
                await self._finish_runs(budget)
        except asyncio.CancelledError:
            if self._away is None and not self._said.pending.is_settled:
                problem = InterruptedError("The turn was cancelled while it was saved; that goes on in the background.")
                await self._tell("saving the end of the turn", problem)
            raise
        except Exception as problem:  # noqa: BLE001 - memory never breaks the agent
            await self._degrade("saving the end of the turn", problem, has_failed_already=error is not None)
        finally:
            self._beating.close()
            self._said.pending.is_over = True
            self._outbox.hold(self._said.pending)
            self._outbox.begin()

    def _close_turn(self) -> None:
        """Note that the turn is no longer running here."""
        open_turns = self._outside.open_turns
        open_turns[self.id] -= 1
        if open_turns[self.id] <= 0:
            del open_turns[self.id]

    # ------------------------------------------------------------ steps

    async def prepare(
        self, *messages: Given, ephemeral: NewMessage | Sequence[NewMessage] = (), model: str | None = None
    ) -> Context:
        """Save what is new and return what the model should see now.

        A message is a text of the user, a `UserMessage` or `ToolMessage`, or a dict in the form of OpenAI or Anthropic. Call
        it once a model request: with the user's message first, with tool results later. `ephemeral` is shown in this request
        only, neither stored nor observed.
        """
        self._check_open()
        said = messages_in(messages)
        self.step += 1
        self._asked_model = model or self._asked_model
        with span("memolog.prepare", {"gen_ai.conversation.id": self.thread, "memolog.step": self.step}):
            budget = Budget(self._config.turn_timeout)
            away, shown = await self._still_away(budget), passed_along(ephemeral)
            with self._said.adding(said, self._config) as fresh:
                if away:
                    return away.context(self._said.not_saved(self._config), shown)
                self._last = await self._prepare(shown, fresh, budget)
                return self._last.context

    async def record(
        self, *messages: Given, model: str | None = None, usage: Usage | None = None, beside: int | None = 0
    ) -> None:
        """Save what the model answered, and learn from what its provider reported.

        An answer is a text, an `AssistantMessage`, a dict, or the message or whole response of OpenAI or Anthropic; a whole
        response brings its usage along.

        `beside` is how many tokens the request had beside the context (instructions, tools), as the memory's counter counts
        them; None if that cannot be told, so that nothing is learned about counting.
        """
        self._check_open()
        said, reported = answers_in(messages)
        usage = usage or reported
        checked_usage(usage)
        self._told_model = model or (usage.model if usage else None) or self._told_model
        with span("memolog.record", {"gen_ai.conversation.id": self.thread}):
            budget = Budget(self._config.turn_timeout)
            away = await self._still_away(budget)
            counted = 0 if self._last is None or beside is None else self._last.context.tokens.total + max(beside, 0)
            spent = Spent(usage=usage, counted=counted, asked=self._asked_model) if usage else None
            with self._said.adding(said, self._config, spent) as fresh:
                if away or self._config.read_only:
                    return
                try:
                    async with budget.limit():
                        await self._said.save(fresh)
                        await self._outbox.book(self._said.pending)
                except Exception as error:  # noqa: BLE001 - memory never breaks the agent
                    await self._degrade("recording the answer", error)

    async def discard(self, *, also: Sequence[int] = (), keep_answered: bool = False) -> None:
        """Withdraw what this turn saved, as if it had not been said, and end the turn.

        `also` are the numbers of messages of earlier turns that go with it, if nobody has answered them. `keep_answered` keeps
        the turn up to its last recorded answer: for what a provider refused, which is what came after. Where it fails it
        raises and can be repeated; if it is not, it is done before anything else of the thread is saved.
        """
        self._check_open(may_be_withdrawn=True)
        held = self._said.pending
        held.drop_unanswered(keep_answered=keep_answered)
        if self._config.read_only or self._away is not None:
            # Nothing of it was saved.
            self._is_over = held.is_over = True
            self._close_turn()
            self._outbox.hold(held)
            return
        held.is_withdrawn, held.keeps_answered, held.also = True, keep_answered, (*held.also, *also)
        self._outbox.hold(held)
        try:
            await in_time(self._outbox.withdraw(held), self._config.turn_timeout)
        except MemologError as error:
            # A discard that did not happen must not pass for one that did.
            await self._tell("discarding", error)
            raise
        self._is_over = held.is_over = True
        self._close_turn()
        self._beating.close()
        self._outbox.begin()

    # ------------------------------------------------------------ inside

    @property
    def _model(self) -> str | None:
        """Return the model that the next request goes to, as far as that is known.

        The name that was asked for comes first: the cache belongs to it, and an answer's dated name or a fallback's says
        nothing about the next request.
        """
        return self._asked_model or self._told_model

    def _check_open(self, *, may_be_withdrawn: bool = False) -> None:
        if self._outbox.is_closed:
            raise StoreClosed
        if not self._is_begun or self._is_over:
            raise InputError("This turn is not open.", then="Use it inside its `async with` block.")
        if self._said.pending.is_withdrawn and not may_be_withdrawn:
            raise InputError(
                "This turn is being taken back.",
                why="discard() was called and could not be done yet.",
                then="Call discard() again, or leave the turn: it is done before anything else of the thread is saved.",
            )

    async def _prepare(self, ephemeral: tuple[NewMessage, ...], fresh: Sequence[NewMessage], budget: Budget) -> Made:
        try:
            # A lock keeps writers out, and nobody else: some time is left to read.
            async with budget.limit(reserve=_FOR_READING):
                return await self._made(ephemeral, fresh, budget)
        except Exception as error:  # noqa: BLE001 - memory never breaks the agent
            await self._degrade("preparing the context", error)
            said = self._said.not_saved(self._config)
            made = await self._without_saving(ephemeral, said, budget)
            if made.record and not self._config.read_only:
                at, pending = self._components.clock.now(), self._said.pending
                pending.add_context(made.record, said, step=self.step, at=at, model=self._model)
        return made

    async def _made(self, ephemeral: tuple[NewMessage, ...], fresh: Sequence[NewMessage], budget: Budget) -> Made:
        """Save what is new, let the log advance, and build the context."""
        await self._adopt_stored()
        components, config = self._components, self._config
        hold = components.core.hold(self.resource, self.thread, config.scope, budget)
        try:
            is_alone = config.observe and not config.read_only and await hold.try_take()
            # Kept at once: whatever fails from here on, the context still has what was just said.
            self._snapshot = snapshot = await self._said.save_and_read(fresh, config, decides=is_alone)
            self._beat()
            self._adopt_overrides(snapshot)
            if self._config.read_only:
                held = self._said.pending.messages
                snapshot = await components.contexts.including(snapshot, held, self._shown(snapshot, ()))
            asked = Asked(model=self._model, may_wait=True, factor=await self._factor(snapshot))
            if self._config.observe and not self._config.read_only:
                snapshot, _ = await components.core.advance(snapshot, self._config, asked, hold)
                self._check_model(snapshot, replace(asked, unseen=components.core.unseen(snapshot)))
            self._snapshot = snapshot
        finally:
            # What follows changes the log no more.
            hold.give()
        passages = await self._passages(snapshot, budget)
        made = await components.contexts.build(replace(self._shown(snapshot, ephemeral), passages=passages))
        self._unspanned, self._uncovered, self._said.saved_tokens = made.unspanned, made.uncovered, 0
        await self._after_build(made)
        return made

    async def _factor(self, snapshot: Snapshot) -> float:
        """Return how many tokens the model counts for each of ours; where none was named, it is the one that answered last."""
        return await self._components.factor(self.resource, self._model or snapshot.thread.last_model)

    def _beat(self) -> None:
        """Let other processes see, from the first message on, that this turn is under way."""
        if not self._is_beating and not self._config.read_only:
            self._is_beating = True
            self._beating.enter_context(self._components.runner.heartbeat.under_way())

    def _check_model(self, snapshot: Snapshot, asked: Asked) -> None:
        """Raise where a turn would go on with far more than it should, if that was asked for."""
        if self._config.strict and (outage := outage_of(snapshot, self._config, asked)):
            raise ModelFailed(outage)

    async def _without_saving(
        self, ephemeral: tuple[NewMessage, ...], said: Sequence[NewMessage], budget: Budget
    ) -> Made:
        """Return a context although something could not be written: of what can be read, and of what is only known here."""
        contexts = self._components.contexts
        try:
            async with budget.limit():
                self._snapshot = read = await self._said.read(self._config)
                self._adopt_overrides(read)
                withdrawn = self._outbox.withdrawn_of(self.resource, self.thread)
                whole = await contexts.including(read, said, self._shown(read, ()), withdrawn=withdrawn)
                made = await contexts.build(self._shown(whole, ephemeral))
            known = [message.seq for message in whole.tail if message.seq <= read.thread.last_seq]
            return replace(made, record={**made.record, "degraded": True, "shown": known})
        except Exception as error:  # noqa: BLE001 - memory never breaks the agent
            _log.info("the memory cannot be read either: %s", error)
            shown, outside = self._shown(self._snapshot, ephemeral), self._outside
            return known_context(shown, self._said.since, said, outside.counter, outside.instructions)

    async def _adopt_stored(self) -> None:
        """Take the settings that are stored with the resource, where the configuration does not say otherwise."""
        if not self._is_configured:
            keep = not self._config.read_only
            self._config = await self._components.config_for(self.resource, self._config, keep=keep)
            self._is_configured = True

    def _adopt_overrides(self, snapshot: Snapshot) -> None:
        if snapshot.thread.overrides:
            self._config, ignored = overridden(self._config, snapshot.thread.overrides)
            if self._own:
                # What is asked for in a call counts before what was stored earlier.
                self._config, _ = overridden(self._config, self._own)
            if ignored:
                self._outside.tell_ignored(self.resource, self.thread, ignored)

    def _shown(self, snapshot: Snapshot | None, ephemeral: tuple[NewMessage, ...]) -> Shown:
        return Shown(
            snapshot=snapshot,
            config=self._config,
            ephemeral=ephemeral,
            zone=self._zone,
            now=self._components.clock.now(),
            limit=self._config.context_tokens,
            window=self._components.window(self.resource, self._model),
            # What is not stored yet comes after the last message that is.
            unseen_from=self._components.core.unseen(snapshot).get(self.thread, snapshot.thread.last_seq + 1)
            if snapshot
            else None,
        )

    async def _passages(self, snapshot: Snapshot, budget: Budget) -> tuple[Passage, ...]:
        """Return what earlier messages say about the newest one: searched for once, and the same at every step."""
        question = newest_question(snapshot) if self._config.recall.results else None
        if question is None:
            return ()
        if self._found is None or self._found[0] != question.seq:
            components = self._components
            try:
                search = find_passages(components.store, snapshot, question, self._config, components.clock.now())
                # A slow search must not cost the context.
                found = await in_time(search, budget.left / 2)
            except MemologError as error:
                await self._degrade("searching for earlier messages", error)
                found = ()
            self._found = question.seq, found
        return self._found[1]

    async def _after_build(self, made: Made) -> None:
        components = self._components
        # How full a shared log is, only those know who have read what the other threads said.
        if self._snapshot is not None and self._snapshot.beside is None and components.core.bus.has_listeners:
            components.core.bus.emit(windows_of(self._snapshot, self._config, components.clock.now()))
        context, last = made.context, self._last.context if self._last else None
        # What is shown in part stays so from step to step, and is told once.
        if context.trimmed or context.shortened > (last.shortened if last else 0):
            event = Trimmed(
                at=components.clock.now(),
                resource=self.resource,
                thread=self.thread,
                messages=context.trimmed,
                limit=made.record.get("limit") or self._config.repeated_tokens,
                shortened=context.shortened,
            )
            if self._config.read_only:
                components.core.bus.emit(event)
            else:
                await components.core.tell(event)
        if self._config.read_only or self._snapshot is None:
            return
        await self._outbox.record_contexts(self._said.pending)
        await components.store.journal.add_context(
            self.resource,
            self._snapshot.thread.pk,
            turn=self.id,
            step=self.step,
            now=components.clock.now(),
            record=made.record,
            model=self._model,
        )

    async def _leave(self) -> None:
        """Save what is left; start observing if this turn has made that due."""
        if self._said.pending.is_withdrawn:
            return await self._outbox.withdraw(self._said.pending)
        await self._said.save_rest()
        await self._said.end()
        config = self._config
        if not config.observe:
            self._components.compacting.later(self.resource, self.thread, config)
        if not config.observe or self._snapshot is None or not self._is_due():
            return None
        core = self._components.core
        hold = core.hold(self.resource, self.thread, config.scope)
        if not await hold.try_take():
            core.look_later(self.resource, self.thread, config)
            return None
        try:
            snapshot = await self._components.store.logs.snapshot(self.resource, self.thread, config.scope)
            asked = Asked(may_activate=False, ending=True, factor=await self._factor(snapshot))
            await core.advance(snapshot, config, asked, hold)
        finally:
            hold.give()
        return None

    async def _finish_runs(self, budget: Budget) -> None:
        """Let the embedded observer finish: the process may end after this turn, and its next one would begin again."""
        if self._components.is_embedded:
            thread = None if self._config.scope == "resource" else self.thread
            await self._components.runner.finished(self.resource, thread, budget.left)

    def _is_due(self) -> bool:
        """Tell whether a span may be due by now: most turns end without, and need not read the log to find that out."""
        config, step = self._config, self._config.buffer_step
        if config.buffer_on_idle or step is None:
            return config.buffer_on_idle
        is_near = self._uncovered + self._said.saved_tokens >= config.threshold - step
        return self._unspanned + self._said.saved_tokens >= (step // 2 if is_near else step)

    async def _degrade(self, what: str, error: Exception, *, has_failed_already: bool = False) -> None:
        """Go on without: tell whoever listens, and raise only if that was asked for."""
        if not isinstance(error, MemologError):
            _log.error("%s failed in a way that it never should", what, exc_info=error)
        await self._tell(what, error)
        # A message that cannot be stored is the caller's to mend.
        if (self._config.strict or isinstance(error, InputError)) and not has_failed_already:
            raise error

    async def _tell(self, what: str, error: Exception) -> None:
        await self._components.core.degraded(self.resource, self.thread, what, error)


def span(name: str, attributes: Mapping[str, str | int]) -> AbstractContextManager[object]:
    """Open a span around a block of work."""
    tracer = _tracer()
    if tracer is None:
        return nullcontext()
    return _opened(tracer, name, attributes)


@cache
def _tracer() -> Any:
    try:
        from opentelemetry import trace  # noqa: PLC0415 - imported with the first span, not with the package
    except ImportError:
        return None
    return trace.get_tracer("memolog")


@contextmanager
def _opened(tracer: Any, name: str, attributes: Mapping[str, str | int]) -> Generator[object]:
    # What an exception says may hold a secret or the words of a message: an exporter is told its kind and no more.
    with tracer.start_as_current_span(
        name, attributes=dict(attributes), record_exception=False, set_status_on_exception=False
    ) as opened:
        try:
            yield opened
        except Exception as error:
            from opentelemetry.trace import StatusCode  # noqa: PLC0415 - it is installed where there is a tracer

            opened.set_status(StatusCode.ERROR, type(error).__name__)
            raise
