"""Open the database of a memory at its first use, connect the components of the memory to it, and close both."""

import asyncio
import logging
import os
from collections import Counter
from collections.abc import Callable, Sequence

from memolog.compaction.compactor import Compacting
from memolog.components import Components, overridden, store_options
from memolog.context.builder import Contexts
from memolog.core.clock import Clock, IdMaker
from memolog.core.config import Config
from memolog.errors import ConfigError, MemologError, StoreClosed, StoreReadOnly
from memolog.events import Bus, Degraded
from memolog.log.executor import Core
from memolog.log.heartbeat import Heartbeat
from memolog.log.journal import EventJournal
from memolog.log.runner import Runner
from memolog.log.snapshot import Snapshot
from memolog.observer.extractors import Extractor, Extractors
from memolog.observer.llm import Observer, observers_of
from memolog.observer.model import check_model
from memolog.observer.model_choice import ModelPair, ModelSpec, models_for
from memolog.observer.run import RunExecutor
from memolog.outbox import Outbox, Outside
from memolog.store import open_store
from memolog.text.message_tokens import count_message
from memolog.text.tokens import TokenCounter

_log = logging.getLogger("memolog")

# A process of which three beats are missing counts as dead.
_BEAT_SECONDS = 1.5


class Connection:
    """A database, opened at the first use, and the components of a memory that work on it."""

    def __init__(
        self,
        address: str,
        *,
        model: ModelSpec | None,
        config: Config,
        clock: Clock,
        counter: TokenCounter,
        instructions: str | None,
        extractors: Sequence[Extractor],
        chance: Callable[[int], int],
    ) -> None:
        self.address, self.config, self.clock, self.counter = address, config, clock, counter
        self.bus = Bus()
        self.outbox = Outbox()
        self.outside = Outside(
            clock=clock,
            counter=counter,
            instructions=instructions,
            new_id=IdMaker(clock.now, chance),
            tell=self.tell,
            outbox=self.outbox,
            open_turns=Counter(),
        )
        self._model, self._instructions, self._chance = model, instructions, chance
        self._extractors = Extractors(extractors)
        self._models = ModelPair(observe=None, reflect=None)
        self._gate = asyncio.Lock()
        self._components: Components | None = None
        self._opening: asyncio.Task[None] | None = None

    def tell(self, event: Degraded) -> None:
        """Emit and log that something failed."""
        self.bus.emit(event)
        _log.warning("%s of %s failed: %s", event.what, event.thread, event.error)

    # ------------------------------------------------------------ opening

    async def open(self) -> Components:
        """Open the database if it is not open; returns the components."""
        if self._components is None and not self.outbox.is_closed:
            if self._opening is None or self._opening.done():
                self._opening = asyncio.get_running_loop().create_task(self._open_once(), name="memolog-open")
                self._opening.add_done_callback(_retrieve)
            # A caller that is cancelled does not cancel the migration of the schema.
            await asyncio.shield(self._opening)
        if self._components is None or self.outbox.is_closed:
            raise StoreClosed
        return self._components

    async def open_to_write(self) -> Components:
        """Open the database; raises StoreReadOnly if the memory is read-only."""
        if self.config.read_only:
            raise StoreReadOnly("This memory is read-only.", then="Open another one without read_only.")
        return await self.open()

    async def look(self, thread: str, resource: str, *, create: bool = True) -> tuple[Config, Snapshot]:
        """Return a thread's configuration and a snapshot of it; `create` makes the thread if it does not exist."""
        components = await self.open()
        create = create and not self.config.read_only
        config = await components.config_for(resource, keep=create)
        snapshot = await components.store.logs.snapshot(resource, thread, config.scope, create=create)
        config, ignored = overridden(config, snapshot.thread.overrides)
        if ignored:
            self.outside.tell_ignored(resource, thread, ignored)
        return config, snapshot

    async def _open_once(self) -> None:
        async with self._gate:
            if self._components is None and not self.outbox.is_closed:
                self._components = await self._open()
                # Saves what turns said that ended while the database could not be opened.
                self.outbox.begin()

    async def _open(self) -> Components:
        store = await open_store(
            self.address,
            clock=self.clock,
            chance=self._chance,
            weigh=lambda message: count_message(message, self.counter),
            options=store_options(self.config),
        )
        # Unique among all processes that ever use this database.
        owner = f"{os.getpid()}-{store.new_id()}"
        observer, reflector = await self._observers()
        executor = RunExecutor(store, observer, reflector, counter=self.counter, extractors=self._extractors)
        store.processes.lease = self.config.lease
        store.processes.silence = min(store.processes.silence, self.config.lease)
        heartbeat = Heartbeat(store.processes, owner, clock=self.clock, every=min(_BEAT_SECONDS, self.config.heartbeat))
        journal = EventJournal(store, self.bus, self.clock)
        runner = Runner(store, executor, clock=self.clock, heartbeat=heartbeat, tell=journal.tell, chance=self._random)
        core = Core(
            store,
            runner,
            journal,
            clock=self.clock,
            counter=self.counter,
            owner=owner,
            open_turns=self.outside.open_turns,
            chance=self._random,
        )
        return Components(
            store=store,
            config=self.config,
            clock=self.clock,
            core=core,
            contexts=Contexts(store, self.counter, self._instructions),
            runner=runner,
            compacting=Compacting(store, core, observer, counter=self.counter, clock=self.clock),
            outbox=self.outbox,
            writer=self._models.reflect,
            is_embedded=self._models.observe is None,
        )

    def _random(self) -> float:
        return self._chance(32) / 2**32

    async def _observers(self) -> tuple[Observer, Observer]:
        """Return what observes and what reflects: the embedded observer if a model cannot be used, unless `strict` is set."""
        try:
            self._models = models_for(self.config, self._model)
            for model in (self._models.observe, self._models.reflect):
                if model is not None:
                    await check_model(model)
        except ConfigError as error:
            if self.config.strict:
                raise
            what, now = "choosing the model", self.clock.now()
            self.bus.emit(Degraded(at=now, resource="", thread=None, what=what, error=str(error)))
            _log.warning("%s", error)
            return observers_of(ModelPair(observe=None, reflect=None), self.counter)
        if self._models.observe is None and self._models.reflect is None:
            _log.info("no model is named, so the embedded observer is used")
        return observers_of(self._models, self.counter)

    # ------------------------------------------------------------ closing

    async def close(self) -> None:
        """Let background work finish, save what is left, then close the database; raises NotSaved if something is lost."""
        problem: Exception | None = await self._open_to_save()
        async with self._gate:
            if self.outbox.is_reported:
                return
            self.outbox.is_closed = True
            if self._components is not None:
                problem = await self._components.close(self._models)
            lost = self.outbox.report_loss(problem, self.bus, self.clock)
            self.bus.close()
        if lost is not None:
            raise lost

    async def settled(self) -> None:
        """Wait until all background work of this process has finished."""
        if self._components is not None:
            await self._components.runner.settled()
            await self.outbox.try_now(self.config.turn_timeout)
            await self._components.store.engine.settled()

    async def _open_to_save(self) -> MemologError | None:
        """Try once more to open the database if messages wait for it; returns why it cannot be opened."""
        try:
            if len(self.outbox) and not self.outbox.is_closed:
                await self.open()
        except MemologError as error:
            return error
        return None


def _retrieve(opening: "asyncio.Task[None]") -> None:
    """Retrieve the result: asyncio warns about errors of tasks that no caller awaits any more."""
    if not opening.cancelled():
        opening.exception()
