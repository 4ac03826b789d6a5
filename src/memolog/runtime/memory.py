"""Memory: the face of Memolog.

Knows how the parts are put together and offers the whole lifecycle by hand. State that matters is in the store; two of these on
one database are as good as one.
"""

import asyncio
import logging
import os
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from functools import partial
from importlib import import_module
from types import TracebackType
from typing import Any, Self

from memolog.config import Config
from memolog.context import Context
from memolog.domain.clock import Clock
from memolog.domain.errors import ConfigError, MemologError, NotSaved, StoreClosed, StoreReadOnly
from memolog.domain.ids import IdMaker
from memolog.domain.thread import Thread
from memolog.runtime.asking import spent_of
from memolog.runtime.catching_up import catch_up
from memolog.runtime.clock import SystemClock, system_chance
from memolog.runtime.compacting import Compacting
from memolog.runtime.contexts import Contexts
from memolog.runtime.core import Core
from memolog.runtime.events import Bus, Degraded, Event
from memolog.runtime.extractors import Extractor, Extractors
from memolog.runtime.forgetting import Forgetting
from memolog.runtime.heartbeat import Heartbeat
from memolog.runtime.journal import EventJournal
from memolog.runtime.kit import Kit
from memolog.runtime.looking_back import LookingBack
from memolog.runtime.minds import Observer, observers_of
from memolog.runtime.models import ModelPair, ModelSpec, check_model, models_for
from memolog.runtime.opening import check_thread, check_turn, overridden, store_options
from memolog.runtime.outbox import Outbox, Outside
from memolog.runtime.runner import Runner
from memolog.runtime.status import Status, status_of
from memolog.runtime.tasks import Scoped, Tasks
from memolog.runtime.thinking import RunExecutor
from memolog.runtime.tools import Tools
from memolog.runtime.transferring import Transferring
from memolog.runtime.turn import Turn
from memolog.runtime.views import Asked
from memolog.runtime.working_memory import WorkingMemory
from memolog.store.snapshot import Snapshot
from memolog.store.store import open_store
from memolog.tokens import HeuristicCounter, TokenCounter, count_message

__all__ = ["Memory"]

_log = logging.getLogger("memolog")

# A process of which three beats are missing counts as dead.
_BEAT_SECONDS = 1.5


class Memory(LookingBack, Forgetting, Transferring):
    """A long memory for the threads of any number of resources.

    Opens its database at the first use; close it with `aclose()`, or use it as `async with`.
    """

    def __init__(
        self,
        address: "str | os.PathLike[str]" = "memolog.db",
        *,
        model: ModelSpec | None = None,
        config: Config | None = None,
        clock: Clock | None = None,
        counter: TokenCounter | None = None,
        instructions: str | None = None,
        extractors: Sequence[Extractor] = (),
        chance: Callable[[int], int] = system_chance,
    ) -> None:
        """Name the database, and the model that observes; everything has a default.

        A model is `"provider:model"`, an address, an object with `complete` or a function. Without one the embedded observer
        runs the whole pipeline, on this machine and for nothing.
        """
        if config is not None and not isinstance(config, Config):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigError(
                f"The configuration is a Config, not {type(config).__name__}.",
                then="Use Config(…) or Config.from_dict(…).",
            )
        self.address, self.config = os.fspath(address), config or Config()
        self.model, self.clock = model, clock or SystemClock()
        self.counter = counter or HeuristicCounter()
        self._instructions, self._chance = instructions, chance
        self._extractors = Extractors(extractors)
        self._bus = Bus()
        self._gate = asyncio.Lock()
        self._kit: Kit | None = None
        self._opening: asyncio.Task[None] | None = None
        self._outbox = Outbox()
        self._outside = Outside(
            clock=self.clock,
            counter=self.counter,
            instructions=instructions,
            new_id=IdMaker(self.clock.now, chance),
            tell=self._tell,
            outbox=self._outbox,
            open_turns=Counter(),
        )
        self._models = ModelPair(observe=None, reflect=None)

    # ------------------------------------------------------------ opening and closing

    async def open(self) -> Kit:
        """Open the database, if that has not been done; returns its parts."""
        if self._kit is None and not self._outbox.is_closed:
            if self._opening is None or self._opening.done():
                self._opening = asyncio.get_running_loop().create_task(self._open_once(), name="memolog-open")
                self._opening.add_done_callback(_heard)
            # Who does not wait for its end lets it go on: a schema is brought up to date once, however long that takes.
            await asyncio.shield(self._opening)
        if self._kit is None or self._outbox.is_closed:
            raise StoreClosed
        return self._kit

    async def _open_once(self) -> None:
        async with self._gate:
            if self._kit is None and not self._outbox.is_closed:
                self._kit = await self._open()
                # What turns said that ended before there was a database.
                self._outbox.begin()

    def _tell(self, event: Degraded) -> None:
        self._bus.emit(event)
        _log.warning("%s of %s failed: %s", event.what, event.thread, event.error)

    async def _open(self) -> Kit:
        store = await open_store(
            self.address,
            clock=self.clock,
            chance=self._chance,
            weigh=lambda message: count_message(message, self.counter),
            options=store_options(self.config),
        )
        # Unique among all processes that ever use this database, so that a fence tells owners apart.
        owner = f"{os.getpid()}-{store.new_id()}"
        observer, reflector = await self._observers()
        executor = RunExecutor(store, observer, reflector, counter=self.counter, extractors=self._extractors)
        store.processes.lease = self.config.lease
        store.processes.silence = min(store.processes.silence, self.config.lease)
        heartbeat = Heartbeat(store.processes, owner, clock=self.clock, every=min(_BEAT_SECONDS, self.config.heartbeat))
        journal = EventJournal(store, self._bus, self.clock)
        runner = Runner(store, executor, clock=self.clock, heartbeat=heartbeat, tell=journal.tell, chance=self._random)
        core = Core(
            store,
            runner,
            journal,
            clock=self.clock,
            counter=self.counter,
            owner=owner,
            open_turns=self._outside.open_turns,
            chance=self._random,
        )
        return Kit(
            store=store,
            config=self.config,
            clock=self.clock,
            core=core,
            contexts=Contexts(store, self.counter, self._instructions),
            runner=runner,
            compacting=Compacting(store, core, observer, counter=self.counter, clock=self.clock),
            outbox=self._outbox,
            writer=self._models.reflect,
            is_embedded=self._models.observe is None,
        )

    def _random(self) -> float:
        return self._chance(32) / 2**32

    async def _observers(self) -> tuple[Observer, Observer]:
        """Return what observes and what reflects. A model that cannot be used is told of, and the embedded one goes on."""
        try:
            self._models = models_for(self.config, self.model)
            for model in (self._models.observe, self._models.reflect):
                if model is not None:
                    await check_model(model)
        except ConfigError as error:
            if self.config.strict:
                raise
            what, now = "choosing the model", self.clock.now()
            self._bus.emit(Degraded(at=now, resource="", thread=None, what=what, error=str(error)))
            _log.warning("%s", error)
            return observers_of(ModelPair(observe=None, reflect=None), self.counter)
        if self._models.observe is None and self._models.reflect is None:
            _log.info("no model is named, so the embedded observer is used")
        return observers_of(self._models, self.counter)

    async def aclose(self) -> None:
        """Let background work finish, save what is left, then let go of the database. Closing twice is harmless.

        What turns could not save is tried once more, for as long as `busy_timeout`; raises NotSaved if that fails as well.
        """
        problem: Exception | None = await self._open_at_last()
        async with self._gate:
            if self._outbox.is_reported:
                return
            self._outbox.is_closed = True
            if self._kit is not None:
                problem = await self._kit.close(self._models)
            lost = self._outbox.report_loss(problem, self._bus, self.clock)
            self._bus.close()
        if lost is not None:
            raise lost

    async def _open_at_last(self) -> MemologError | None:
        """Try once more to reach the database, if something was said while there was none; returns why there is not."""
        try:
            if len(self._outbox) and not self._outbox.is_closed:
                await self.open()
        except MemologError as error:
            return error
        return None

    async def settled(self) -> None:
        """Wait until no background work of this process is in flight, and none follows.

        What could not be saved is tried once more; while the database is away, nobody waits for it here.
        """
        if self._kit is not None:
            await self._kit.runner.settled()
            await self._outbox.try_now(self.config.turn_timeout)
            await self._kit.store.engine.settled()

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self.aclose()
        except NotSaved:
            # It was told; the error that ended the block comes first.
            if error is None:
                raise

    # ------------------------------------------------------------ turns

    def turn(
        self,
        thread: str,
        resource: str,
        *,
        model: str | None = None,
        zone: str | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> Turn:
        """Begin a turn of a thread: `async with memory.turn("t1", "alice") as turn`.

        `model` is the one that answers, `zone` is where the user is, `settings` differ in this turn from all others.
        """
        if self._outbox.is_closed:
            raise StoreClosed
        check_turn(settings, zone)
        return Turn(
            self.open, self._outside, thread, resource, config=self.config, own=settings, model=model, zone=zone
        )

    async def override(self, thread: str, resource: str, settings: Mapping[str, Any]) -> Thread:
        """Let settings differ from the configuration in all turns of one thread; they take the place of earlier ones."""
        check_thread(settings)
        self.config.with_overrides(settings)
        return await (await self._open_to_write()).store.threads.update(resource, thread, overrides=dict(settings))

    # ------------------------------------------------------------ tasks

    def tasks(
        self, resource: str, *, session: str | None = None, who: str | None = None, thread: str | None = None
    ) -> Tasks:
        """Return the tasks of a resource, as a session sees them.

        `session` is who claims (the thread, if none is named), `who` is named in the history, and what is claimed becomes the
        active task of `thread`: what is said there is linked to it.
        """
        scoped = Scoped(resource=resource, session=session, who=who, thread=thread, config=self.config)
        return Tasks(self.open, scoped)

    # ------------------------------------------------------------ tools

    def tools(self, resource: str, *, thread: str | None = None, session: str | None = None) -> Tools:
        """Return the three tools for a model that works for this resource: definitions, guidance, and calls.

        What is claimed is claimed for the session, and becomes the active task of the thread.
        """
        # Built on the memory itself, and on a library that only its users pay for: loaded when somebody asks.
        made: Tools = import_module("memolog.tools").Toolset(self, resource, thread=thread, session=session)
        return made

    # ------------------------------------------------------------ events

    def subscribe(self, listener: Callable[[Event], None]) -> Callable[[], None]:
        """Call a function with every event from now on; returns the function that ends it."""
        return self._bus.subscribe(listener)

    def events(self) -> AsyncGenerator[Event]:
        """Iterate over events from now on, until the memory is closed."""
        return self._bus.stream()

    # ------------------------------------------------------------ by hand

    async def status(self, thread: str, resource: str) -> Status:
        """Tell how a thread's memory is doing."""
        kit = await self.open()
        config, snapshot = await self._look(thread, resource, create=False)
        usage = await kit.store.ledger.total(resource, thread=thread)
        factor = await kit.factor(resource, snapshot.thread.last_model)
        spent = 0.0 if config.budget is None else await spent_of(kit.store, resource, thread, config)
        unsaved = self._outbox.counts().get((resource, thread))
        trouble = self._bus.trouble(resource, thread)
        dropped = await kit.store.logs.count_dropped(snapshot.resource, snapshot.log.pk)
        now = self.clock.now()
        return status_of(snapshot, config, usage, now, factor, spent, unsaved=unsaved, trouble=trouble, dropped=dropped)

    async def buffer(self, thread: str, resource: str) -> None:
        """Observe in the background what nobody has observed yet, however little it is."""
        await self._by_hand(thread, resource, "buffer")

    async def observe(self, thread: str, resource: str) -> Status:
        """Observe all that was said by now and move it into the log; waits for it, however long: the deadline is for turns.

        After a failure it waits until the model may be asked again, and returns if that takes more than a minute: the status
        says what failed.
        """

        async def act(through: int, *, what: str) -> None:
            await self._by_hand(thread, resource, what, may_wait=what == "observe", through=through)

        look = partial(self._look, thread, resource)
        await catch_up(look, partial(act, what="observe"), partial(act, what="activate"), self.clock)
        return await self.status(thread, resource)

    async def activate(self, thread: str, resource: str) -> Status:
        """Move every buffered group into the log."""
        await self._by_hand(thread, resource, "activate")
        return await self.status(thread, resource)

    async def reflect(self, thread: str, resource: str) -> Status:
        """Condense the log now, and wait for it; for a reflection of another process no longer than a lease."""
        await self._by_hand(thread, resource, "reflect", may_wait=True)
        return await self.status(thread, resource)

    async def finalize(self, thread: str, resource: str, *, compact: bool = False) -> Status:
        """End a session: observe what is left, and compact it if asked to, so that the next one begins with a log."""
        if compact:
            await self.compact(thread, resource)
        return await self.observe(thread, resource)

    async def sweep(self, resource: str) -> int:
        """Observe in the background what threads left behind that nobody reopened.

        Returns in how many of them something was begun or is under way: none, once all of it is observed.
        """
        kit = await self._open_to_write()
        touched, page = 0, None
        while page is None or page.next is not None:
            page = await kit.store.threads.list(resource, limit=200, after=page.next if page else None)
            for thread in page.items:
                config, snapshot = await self._look(thread.id, resource)
                if config.observe and (snapshot.runs or any(m.state == "live" for m in snapshot.tail)):
                    asked = Asked(by_hand=frozenset({"buffer"}), may_activate=False)
                    _, decisions = await kit.core.advance(snapshot, config, asked)
                    touched += bool(snapshot.runs) or any(name != "Wait" for name in decisions)
        return touched

    async def _by_hand(
        self, thread: str, resource: str, what: str, *, may_wait: bool = False, through: int | None = None
    ) -> None:
        kit = await self._open_to_write()
        config, snapshot = await self._look(thread, resource)
        through = snapshot.thread.last_seq if through is None else through
        asked = Asked(by_hand=frozenset({what}), may_wait=may_wait, through=through)
        await kit.core.advance(snapshot, config, asked)

    async def _open_to_write(self) -> Kit:
        if self.config.read_only:
            raise StoreReadOnly("This memory is read-only.", then="Open another one without read_only.")
        return await self.open()

    async def _look(self, thread: str, resource: str, *, create: bool = True) -> tuple[Config, Snapshot]:
        kit = await self.open()
        create = create and not self.config.read_only
        config = await kit.config_for(resource, keep=create)
        snapshot = await kit.store.logs.snapshot(resource, thread, config.scope, create=create)
        config, ignored = overridden(config, snapshot.thread.overrides)
        if ignored:
            self._outside.tell_ignored(resource, thread, ignored)
        return config, snapshot

    # ------------------------------------------------------------ working memory

    def working_memory(self, resource: str, thread: str | None = None) -> WorkingMemory:
        """Return the working memory of a resource, or of one of its threads, to read and change it."""
        return WorkingMemory(self.open, self._open_to_write, resource, thread, self.config)

    # ------------------------------------------------------------ copies

    async def seen(self, thread: str, resource: str, number: int) -> Context:
        """Build again what the model saw: the context of that number in the thread."""
        kit = await self.open()
        return await kit.contexts.again(resource, thread, number, self.config)

    async def clone(self, thread: str, resource: str, new_thread: str | None = None) -> Thread:
        """Copy a thread into a new one, its log included; a log that threads share covers the copy as far as the original."""
        kit = await self._open_to_write()
        return await kit.store.threads.clone(resource, thread, new_thread)

    async def merge(self, resource: str) -> tuple[str, ...]:
        """After a change to resource scope: let the shared log take over what the threads' own logs hold.

        Returns the threads that were merged; a `Degraded` event names each that could not be, and why: what the shared log has
        observed by itself would stand there twice. Nothing is lost either way: what is left is observed again.
        """
        kit, now = await self._open_to_write(), self.clock.now()
        merged = await kit.store.copies.merge(resource, now=now, render=kit.core.rerender)
        for thread, why in merged.left:
            self._tell(Degraded(at=now, resource=resource, thread=thread, what="merging a log", error=why))
        return merged.threads


def _heard(opening: "asyncio.Task[None]") -> None:
    """Take note of how it ended: whoever waited for it may have gone on."""
    if not opening.cancelled():
        opening.exception()
