"""The life of a turn, from the user message to the final answer: save, prepare the context of each model request, record.

A failure becomes an event, and the context is built from the available data. The error is raised only if `strict` is set.
"""

import asyncio
import logging
from collections.abc import Generator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import replace
from functools import cache
from types import TracebackType
from typing import Any, Self

from memolog.connection import Components, Connection, overridden
from memolog.context.auto_recall import Passage, find_passages, newest_question
from memolog.context.build import Made, View, empty_snapshot, known_context
from memolog.context.context import Context, are_writers_imported, import_writers
from memolog.core.deadline import Budget, in_time, offload
from memolog.core.message import NewMessage
from memolog.core.run import Usage
from memolog.errors import InputError, MemologError, ModelFailed, StoreClosed, StoreError
from memolog.events import StepEnded, Trimmed
from memolog.log.decide import filled_step, next_step
from memolog.log.snapshot import Snapshot
from memolog.log.state import Asked
from memolog.log.status import outage_of, windows_of
from memolog.messages.provider_messages import Given, answers_in, messages_in
from memolog.outbox import READING_SETTINGS, Spent, TurnOutbox, checked_usage, passed_along
from memolog.text.tokens import calibrated

_log = logging.getLogger("memolog")

# The share of a step's time that is reserved for reading, if writing takes too long.
_FOR_READING = 0.2
# The minimum seconds between two attempts of a turn to open an unavailable database.
_RETRY_SECONDS = 5.0


class Turn:
    """One turn of a thread. Use it as `async with thread.turn() as turn`."""

    resource: str
    thread: str
    step: int
    """The number of model requests of this turn so far."""
    id_prefix: str = ""
    """The beginning of the id of a new turn. An adapter recognises its own turns by it."""

    def __init__(
        self,
        connection: Connection,
        thread: str,
        resource: str,
        *,
        own: Mapping[str, object] | None,
        model: str | None,
        zone: str | None,
    ) -> None:
        self._connection = connection
        self._components: Components
        self._offline_since: float | None = None
        self.resource, self.thread = resource, thread
        self._config = connection.config.with_overrides(own) if own else connection.config
        self._own, self._zone = own, zone
        # The model that the application passed, and the model of the last answer.
        self._requested_model = model
        self._answering_model: str | None = None
        self.step = 0
        self._outbox = connection.outbox
        self._own_outbox = TurnOutbox(
            self._outbox, connection.clock, connection.new_id, resource=resource, thread=thread, zone=zone
        )
        self._snapshot: Snapshot | None = None
        self._last: Made | None = None
        self._found: tuple[int, tuple[Passage, ...]] | None = None
        # The tokens that the log did not cover when the last context was built, and those in no group and no run, by thread.
        self._uncovered, self._free = 0, dict[str, int]()
        self._factor_used = 1.0
        self._is_begun = self._is_over = self._is_beating = self._is_configured = False
        self._beating = ExitStack()

    @property
    def id(self) -> str:
        """Return the id of the turn. It is empty until the turn begins. To continue an earlier turn, set its id before that."""
        return self._own_outbox.pending.turn

    @id.setter  # noqa: A003 - the property of this class, not the function
    def id(self, name: str) -> None:
        self._own_outbox.pending.turn = name

    async def __aenter__(self) -> Self:
        await self._arrive(self._budget())
        await offload(import_writers, when=not are_writers_imported())
        self._is_begun = True
        self._connection.open_turns[self.id] += 1
        return self

    async def _arrive(self, budget: Budget) -> None:
        """Open the database. If it is unavailable, the turn continues without it and holds its messages."""
        try:
            if (components := self._connection.opened) is None:
                async with budget.limit():
                    components = await self._connection.open()
            self._components = components
        except StoreError as error:
            # If a retry cannot succeed, the error is raised when the turn begins. It does not stop a running turn.
            may_go_on = error.retryable or self._offline_since is not None
            if self._config.strict or isinstance(error, StoreClosed) or not may_go_on:
                raise
            self._offline_since = asyncio.get_running_loop().time()
            self._tell("opening the database", error)
        else:
            self._offline_since = None
        if not self.id:
            is_offline = self._offline_since is not None
            new_id = self._connection.new_id if is_offline else self._components.store.new_id
            self.id = self.id_prefix + new_id()

    async def _is_offline(self, budget: Budget) -> bool:
        """Return whether the database is unavailable. Tries to open it every few seconds."""
        if self._offline_since is not None:
            elapsed = asyncio.get_running_loop().time() - self._offline_since
            # Another turn may have opened the database meanwhile.
            if self._outbox.is_connected or elapsed >= _RETRY_SECONDS:
                await self._arrive(budget)
        return self._offline_since is not None

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._is_over:
            return
        self._is_over = True
        self._close_turn()
        if self._config.read_only or self._outbox.is_closed:
            # If the Memory is closed, `aclose` has saved the messages of this turn or reported them as lost.
            return
        budget = self._budget()
        try:
            if not await self._is_offline(budget):
                async with budget.limit():
                    await self._leave()
                is_backlog = self._snapshot is not None and self._snapshot.backlog is not None
                if self._components.is_embedded and not is_backlog:
                    # Wait for the run: if the process ends after this turn, an unfinished run must be repeated.
                    thread = None if self._config.scope == "resource" else self.thread
                    await self._components.runner.finished(self.resource, thread, budget.left)
        except asyncio.CancelledError:
            if self._offline_since is None and not self._own_outbox.pending.is_settled:
                problem = InterruptedError(
                    "The turn was cancelled while it was saved. Saving continues in the background."
                )
                self._tell("saving the end of the turn", problem)
            raise
        except Exception as problem:  # noqa: BLE001 - a failure of Memolog must not stop the agent
            self._degrade("saving the end of the turn", problem, has_failed_already=error is not None)
        finally:
            self._beating.close()
            self._own_outbox.pending.is_over = True
            self._outbox.hold(self._own_outbox.pending)
            self._outbox.begin()

    def _close_turn(self) -> None:
        """Record that the turn no longer runs in this process."""
        open_turns = self._connection.open_turns
        open_turns[self.id] -= 1
        if open_turns[self.id] <= 0:
            del open_turns[self.id]

    # ------------------------------------------------------------ steps

    async def prepare(
        self, *messages: Given, ephemeral: NewMessage | Sequence[NewMessage] = (), model: str | None = None
    ) -> Context:
        """Save new messages and return the context for the next model request.

        A message is a text of the user, a `UserMessage` or `ToolMessage`, or a dict or a list of dicts in the form of OpenAI or
        Anthropic. Call `prepare` once per model request: first with the message of the user, later with tool results. `ephemeral`
        messages are shown in this request only. They are neither stored nor observed.
        """
        self._check_open()
        said = messages_in(messages)
        self.step += 1
        self._requested_model = model or self._requested_model
        with self._timed("prepare", {"memolog.step": self.step}):
            budget = self._budget()
            is_offline, shown = await self._is_offline(budget), passed_along(ephemeral)
            with self._own_outbox.adding(said, self._config) as fresh:
                if is_offline:
                    view = self._view(empty_snapshot(self._config), shown)
                    return known_context(view, (), self._own_outbox.not_saved(self._config)).context
                self._last = await self._prepare(shown, fresh, budget)
                return self._last.context

    async def record(
        self, *messages: Given, model: str | None = None, usage: Usage | None = None, beside: int | None = 0
    ) -> None:
        """Save the answer of the model and its usage.

        An answer is a text, an `AssistantMessage`, a dict, or a message or a whole response of OpenAI or Anthropic. The usage is
        read from a whole response.

        `beside` is the number of tokens that the request had in addition to the context (instructions, tools), counted with the
        counter of the `Memory`. Pass None if the number is unknown; then token counts are not calibrated.
        """
        self._check_open()
        said, reported = answers_in(messages)
        usage = usage or reported
        checked_usage(usage)
        if messages and not said and usage is None:
            # A provider may send an empty answer. This must not stop the agent.
            self._tell("recording the answer", "The response has neither a message nor usage.")
        self._answering_model = model or (usage.model if usage else None) or self._answering_model
        with self._timed("record", {}):
            budget = self._budget()
            is_offline = await self._is_offline(budget)
            counted = 0 if self._last is None or beside is None else self._last.context.tokens.total + max(beside, 0)
            files = self._last.files if self._last else ()
            spent = Spent(usage=usage, counted=counted, asked=self._requested_model, files=files) if usage else None
            with self._own_outbox.adding(said, self._config, spent) as fresh:
                if is_offline or self._config.read_only:
                    return
                try:
                    async with budget.limit():
                        await self._own_outbox.save_answer(fresh)
                except Exception as error:  # noqa: BLE001 - a failure of Memolog must not stop the agent
                    self._degrade("recording the answer", error)

    async def discard(self, *, also: Sequence[int] = (), keep_answered: bool = False) -> None:
        """Withdraw the messages that this turn saved, and end the turn.

        `also` has the numbers of unanswered messages of earlier turns that are withdrawn too. With `keep_answered` the messages
        up to the last recorded answer are not withdrawn; use it for messages that a provider refused. If `discard` raises, call
        it again. If you do not, the messages are withdrawn before the next messages of the thread are saved.
        """
        self._check_open(may_be_withdrawn=True)
        held = self._own_outbox.pending
        held.drop_unanswered(keep_answered=keep_answered)
        if self._config.read_only or self._offline_since is not None:
            # No message of the turn was saved.
            self._is_over = held.is_over = True
            self._close_turn()
            self._outbox.hold(held)
            return
        held.is_withdrawn, held.keeps_answered, held.also = True, keep_answered, (*held.also, *also)
        self._outbox.hold(held)
        try:
            patience = self._config.queue_timeout
            await in_time(self._outbox.withdraw(held), self._config.turn_timeout, patience=patience)
        except MemologError as error:
            # Raise even without `strict`, because the caller must know that nothing was withdrawn yet.
            self._tell("discarding", error)
            raise
        self._is_over = held.is_over = True
        self._close_turn()
        self._beating.close()
        self._outbox.begin()

    # ------------------------------------------------------------ inside

    @property
    def _model(self) -> str | None:
        """Return the model of the next request. None if it is unknown.

        The requested name is preferred, because the prompt cache belongs to it. An answer may name a dated version of the model.
        """
        return self._requested_model or self._answering_model

    def _budget(self) -> Budget:
        return Budget(self._config.turn_timeout, patience=self._config.queue_timeout)

    def _check_open(self, *, may_be_withdrawn: bool = False) -> None:
        if self._outbox.is_closed:
            raise StoreClosed
        if not self._is_begun or self._is_over:
            raise InputError("This turn is not open.", then="Use it inside its `async with` block.")
        if self._own_outbox.pending.is_withdrawn and not may_be_withdrawn:
            raise InputError(
                "This turn is being withdrawn.",
                why="discard() was called and has not succeeded yet.",
                then="Call discard() again, or leave the turn: its messages are withdrawn before the next ones are saved.",
            )

    async def _prepare(self, ephemeral: tuple[NewMessage, ...], fresh: Sequence[NewMessage], budget: Budget) -> Made:
        try:
            # A locked database can still be read, so some time is reserved for reading.
            async with budget.limit(reserve=_FOR_READING):
                return await self._made(ephemeral, fresh, budget)
        except Exception as error:  # noqa: BLE001 - a failure of Memolog must not stop the agent
            self._degrade("preparing the context", error)
            said = self._own_outbox.not_saved(self._config)
            made = await self._without_saving(ephemeral, said, budget)
            if made.record and not self._config.read_only:
                at, pending = self._components.clock.now(), self._own_outbox.pending
                pending.add_context(made.record, said, step=self.step, at=at, model=self._model)
        return made

    async def _made(self, ephemeral: tuple[NewMessage, ...], fresh: Sequence[NewMessage], budget: Budget) -> Made:
        """Save the new messages, observe or activate if it is due, and build the context."""
        await self._adopt_stored()
        components, config = self._components, self._config
        hold = components.core.hold(self.resource, self.thread, config.scope, budget)
        try:
            is_alone = config.observe and not config.read_only and await hold.try_take()
            # Set `_snapshot` before a later step can fail. Then a context that is built after the failure has the new messages.
            self._snapshot = snapshot = await self._own_outbox.save_and_read(fresh, config, decides=is_alone)
            self._beat()
            self._adopt_overrides(snapshot)
            if self._config.read_only:
                held = self._own_outbox.pending.messages
                snapshot = await components.contexts.including(snapshot, held, components.clock.now())
            self._factor_used = await self._factor(snapshot)
            asked = Asked(model=self._model, may_wait=True, factor=self._factor_used)
            if self._config.observe and not self._config.read_only:
                snapshot, _ = await components.core.advance(snapshot, self._config, asked, hold)
                if self._config.strict:
                    asked = replace(asked, unseen=components.core.unseen(snapshot))
                    if outage := outage_of(snapshot, self._config, asked):
                        raise ModelFailed(outage)
            self._snapshot = snapshot
        finally:
            # The steps after this do not change the log.
            hold.give()
        view = self._view(snapshot, ephemeral, await self._passages(snapshot, budget))
        made = await components.contexts.build(view, window=components.window(self.resource, self._model))
        self._uncovered, self._free, self._own_outbox.saved_tokens = made.uncovered, dict(made.free), 0
        await self._after_build(made)
        return made

    async def _factor(self, snapshot: Snapshot) -> float:
        """Return how many tokens the model counts for each token of Memolog's counter."""
        return await self._components.factor(self.resource, self._model or snapshot.thread.last_model)

    def _beat(self) -> None:
        """Write heartbeats from the first message on, so that other processes see that this turn is running."""
        if not self._is_beating and not self._config.read_only:
            self._is_beating = True
            self._beating.enter_context(self._components.runner.heartbeat.under_way())

    async def _without_saving(
        self, ephemeral: tuple[NewMessage, ...], said: Sequence[NewMessage], budget: Budget
    ) -> Made:
        """Build a context without saving, from the messages that can be read and the messages that this process holds."""
        contexts, now = self._components.contexts, self._connection.clock.now()
        try:
            async with budget.limit():
                self._snapshot = read = await self._own_outbox.read(self._config)
                self._adopt_overrides(read)
                withdrawn = self._outbox.withdrawn_of(self.resource, self.thread)
                whole = await contexts.including(read, said, now, withdrawn=withdrawn)
                window = self._components.window(self.resource, self._model)
                made = await contexts.build(self._view(whole, ephemeral), window=window)
            known = [message.seq for message in whole.tail if message.seq <= read.thread.last_seq]
            # Unsaved messages have no final sequence numbers, so reported tokens of their files cannot be stored.
            return replace(made, record={**made.record, "degraded": True, "shown": known}, files=())
        except Exception as error:  # noqa: BLE001 - a failure of Memolog must not stop the agent
            _log.info("the database cannot be read either: %s", error)
            snapshot = self._snapshot or empty_snapshot(self._config)
            return known_context(self._view(snapshot, ephemeral), self._own_outbox.since, said)

    async def _adopt_stored(self) -> None:
        """Use the stored settings of the resource for all settings that the configuration does not set."""
        if not self._is_configured:
            keep = not self._config.read_only
            self._config = await self._components.config_for(self.resource, self._config, keep=keep)
            self._is_configured = True
            if self._config.background == "worker" and self._components.store.engine.has_queue and self._config.observe:
                self._own_outbox.worker_scope, self._own_outbox.is_due = self._config.scope, self._is_due

    def _adopt_overrides(self, snapshot: Snapshot) -> None:
        if snapshot.thread.overrides:
            self._config, ignored = overridden(self._config, snapshot.thread.overrides)
            if self._own:
                # Settings that were passed to `turn()` override stored settings.
                self._config, _ = overridden(self._config, self._own)
            if ignored:
                self._tell(READING_SETTINGS, ignored)

    def _view(self, snapshot: Snapshot, ephemeral: tuple[NewMessage, ...], passages: tuple[Passage, ...] = ()) -> View:
        connection, unseen_from = self._connection, None
        if snapshot.thread.pk:
            # If all stored messages are seen, only messages that are not stored yet are unseen.
            unseen_from = self._components.core.unseen(snapshot).get(self.thread, snapshot.thread.last_seq + 1)
        return View(
            snapshot=snapshot,
            config=self._config,
            counter=connection.counter,
            instructions=connection.instructions,
            ephemeral=ephemeral,
            zone=self._zone,
            now=connection.clock.now(),
            passages=passages,
            limit=self._config.context_tokens,
            unseen_from=unseen_from,
        )

    async def _passages(self, snapshot: Snapshot, budget: Budget) -> tuple[Passage, ...]:
        """Return earlier messages about the newest user message. They are searched once per user message, not at every step."""
        question = newest_question(snapshot) if self._config.recall.results else None
        if question is None:
            return ()
        if self._found is None or self._found[0] != question.seq:
            components = self._components
            try:
                search = find_passages(components.store, snapshot, question, self._config, components.clock.now())
                # A slow search must not use up the time for the context.
                found = await in_time(search, budget.left / 2)
            except MemologError as error:
                self._degrade("searching for earlier messages", error)
                found = ()
            self._found = question.seq, found
        return self._found[1]

    def _tail_limit(self, made: Made) -> int:
        """Return the limit that shortened a context without a hard limit."""
        return (
            self._config.block_at_for(made.context.tokens.prefix) if made.is_backlog else self._config.repeated_tokens
        )

    async def _after_build(self, made: Made) -> None:
        components = self._components
        # `beside` is set if only some messages of the other threads of a shared log were read. Then the token counts are unknown.
        if self._snapshot is not None and self._snapshot.beside is None and components.core.bus.has_listeners:
            components.core.bus.emit(windows_of(self._snapshot, self._config, components.clock.now()))
        context, last = made.context, self._last.context if self._last else None
        # A message that was shortened at an earlier step is not reported again.
        if context.trimmed or context.shortened > (last.shortened if last else 0):
            event = Trimmed(
                at=components.clock.now(),
                resource=self.resource,
                thread=self.thread,
                messages=context.trimmed,
                limit=made.record.get("limit") or self._tail_limit(made),
                shortened=context.shortened,
            )
            if self._config.read_only:
                components.core.bus.emit(event)
            else:
                await components.core.tell(event)
        if self._config.read_only or self._snapshot is None:
            return
        await self._outbox.record_contexts(self._own_outbox.pending)
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
        """Save the remaining messages, and start observing if it is due."""
        if self._own_outbox.pending.is_withdrawn:
            return await self._outbox.withdraw(self._own_outbox.pending)
        await self._own_outbox.save_rest()
        await self._own_outbox.end()
        config = self._config
        if config.background == "worker":
            return await self._leave_to_worker()
        self._components.compacting.start_automatic(self.resource, self.thread, config)
        if not config.observe or self._snapshot is None or not self._is_due():
            return None
        core = self._components.core
        hold = core.hold(self.resource, self.thread, config.scope)
        if not await hold.try_take():
            # Another caller has the lock, so decide when it is free.
            core.runner.spawn(core.look_again(self.resource, self.thread, config, ending=True))
            return None
        try:
            snapshot = await self._components.store.logs.snapshot(
                self.resource, self.thread, config.scope, limit=config.block_at_for, activates=False
            )
            asked = Asked(may_activate=False, ending=True, factor=await self._factor(snapshot))
            await core.advance(snapshot, config, asked, hold)
        finally:
            hold.give()
        return None

    async def _leave_to_worker(self) -> None:
        """Ask a worker to look at the log if something is due, unless the transaction that saved the answer has done so."""
        components, config = self._components, self._config
        if not components.store.engine.has_queue:
            return
        if config.observe:
            is_due = self._snapshot is not None and self._is_due() and not self._own_outbox.has_asked
        else:
            is_due = await components.compacting.is_due(self.resource, self.thread, config)
        if is_due:
            await components.core.hand_over(self.resource, self.thread, config)

    def _is_due(self, new: int = 0) -> bool:
        """Return whether observing may be due. Does not read the log, because after most turns nothing is due.

        `new` are tokens that are being saved and not yet counted.
        """
        if self._config.buffer_on_idle or self._snapshot is None:
            return self._config.buffer_on_idle
        new, factor = self._own_outbox.saved_tokens + new, self._factor_used
        log = calibrated(factor, sum(group.tokens for group in self._snapshot.groups))
        free = {**self._free, self.thread: self._free.get(self.thread, 0) + new}
        step = next_step(
            self._config,
            log=log,
            uncovered=calibrated(factor, self._uncovered + new),
            taken=calibrated(factor, self._uncovered - sum(self._free.values())),
        )
        if step is None:
            return False
        stretches = [calibrated(factor, tokens) for tokens in free.values() if tokens]
        return sum(stretches) >= filled_step(stretches, step, self._config.threshold_for(log))

    def _degrade(self, what: str, error: Exception, *, has_failed_already: bool = False) -> None:
        """Report a failure. Raises the error if `strict` is set or the caller must correct a message."""
        if not isinstance(error, MemologError):
            _log.error("%s failed unexpectedly", what, exc_info=error)
        self._tell(what, error)
        # InputError means that the caller must correct a message.
        if (self._config.strict or isinstance(error, InputError)) and not has_failed_already:
            raise error

    @contextmanager
    def _timed(self, step: str, attributes: Mapping[str, str | int]) -> Generator[None]:
        """Open the span of a step, and report how long it took."""
        loop = asyncio.get_running_loop()
        begun = loop.time()
        try:
            with span(f"memolog.{step}", {"gen_ai.conversation.id": self.thread, **attributes}):
                yield
        finally:
            now, seconds = self._connection.clock.now(), loop.time() - begun
            event = StepEnded(at=now, resource=self.resource, thread=self.thread, step=step, seconds=seconds)
            self._connection.bus.emit(event)

    def _tell(self, what: str, error: object) -> None:
        self._connection.bus.degraded(self.resource, self.thread, what, error)


def span(name: str, attributes: Mapping[str, str | int]) -> AbstractContextManager[object]:
    """Open a tracing span, if OpenTelemetry is installed and the application has set a tracer provider."""
    trace = _tracing()
    # Without a provider of the application, the spans of the proxy are not recorded.
    if trace is None or isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
        return nullcontext()
    return _opened(trace.get_tracer("memolog"), name, attributes)


@cache
def _tracing() -> Any:
    try:
        from opentelemetry import trace  # noqa: PLC0415 - imported with the first span, not with the package
    except ImportError:
        return None
    return trace


@contextmanager
def _opened(tracer: Any, name: str, attributes: Mapping[str, str | int]) -> Generator[object]:
    # The text of an exception may contain secrets or messages, so only its type is exported.
    with tracer.start_as_current_span(
        name, attributes=dict(attributes), record_exception=False, set_status_on_exception=False
    ) as opened:
        try:
            yield opened
        except Exception as error:
            from opentelemetry.trace import StatusCode  # noqa: PLC0415 - it is installed where there is a tracer

            opened.set_status(StatusCode.ERROR, type(error).__name__)
            raise
