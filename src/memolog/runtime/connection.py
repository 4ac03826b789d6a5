"""The connection of a memory to its database: open it once, at the first use, and close it with nothing left behind."""

import asyncio
import logging
import os
from collections import Counter
from collections.abc import Callable, Sequence

from memolog.config import Config
from memolog.domain.clock import Clock
from memolog.domain.errors import ConfigError, MemologError, NotSaved, StoreClosed, StoreReadOnly
from memolog.domain.ids import IdMaker
from memolog.runtime.away import Outside
from memolog.runtime.compacting import Compacting
from memolog.runtime.contexts import Contexts
from memolog.runtime.core import Core
from memolog.runtime.events import Bus, Degraded
from memolog.runtime.extractors import Extractor, Extractors
from memolog.runtime.heartbeat import Heartbeat
from memolog.runtime.kit import Kit
from memolog.runtime.minds import Mind, minds_of
from memolog.runtime.models import ModelPair, ModelSpec, check_model, close_model, models_for
from memolog.runtime.opening import overridden, store_options
from memolog.runtime.runner import Runner
from memolog.runtime.thinking import Thinking
from memolog.runtime.unsaved import Unsaved
from memolog.store.snapshot import Snapshot
from memolog.store.store import open_store
from memolog.tokens import TokenCounter, count_message

__all__ = ["Connection"]

_log = logging.getLogger("memolog")

# A process of which three beats are missing counts as dead.
_BEAT_SECONDS = 1.5


class Connection:
    """A database, opened at the first use, and the parts of a memory that work on it."""

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
        self.unsaved = Unsaved()
        self.outside = Outside(
            clock=clock,
            counter=counter,
            instructions=instructions,
            new_id=IdMaker(clock.now, chance),
            tell=self.tell,
            unsaved=self.unsaved,
            open_turns=Counter(),
        )
        self._model, self._instructions, self._chance = model, instructions, chance
        self._extractors = Extractors(extractors)
        self._models = ModelPair(observe=None, reflect=None)
        self._gate = asyncio.Lock()
        self._kit: Kit | None = None
        self._opening: asyncio.Task[None] | None = None

    def tell(self, event: Degraded) -> None:
        """Emit and log that something failed."""
        self.bus.emit(event)
        _log.warning("%s of %s failed: %s", event.what, event.thread, event.error)

    # ------------------------------------------------------------ opening

    async def open(self) -> Kit:
        """Open the database, if that has not been done; returns its parts."""
        if self._kit is None and not self.unsaved.is_closed:
            if self._opening is None or self._opening.done():
                self._opening = asyncio.get_running_loop().create_task(self._open_once(), name="memolog-open")
                self._opening.add_done_callback(_retrieve)
            # A caller that is cancelled does not cancel the migration of the schema.
            await asyncio.shield(self._opening)
        if self._kit is None or self.unsaved.is_closed:
            raise StoreClosed
        return self._kit

    async def open_to_write(self) -> Kit:
        """Open the database; raises StoreReadOnly if the memory is read-only."""
        if self.config.read_only:
            raise StoreReadOnly("This memory is read-only.", then="Open another one without read_only.")
        return await self.open()

    async def look(self, thread: str, resource: str, *, create: bool = True) -> tuple[Config, Snapshot]:
        """Return a thread's configuration and a snapshot of it; `create` makes the thread if it does not exist."""
        kit = await self.open()
        create = create and not self.config.read_only
        config = await kit.config_for(resource, keep=create)
        snapshot = await kit.store.logs.snapshot(resource, thread, config.scope, create=create)
        config, ignored = overridden(config, snapshot.thread.overrides)
        if ignored:
            self.outside.tell_ignored(resource, thread, ignored)
        return config, snapshot

    async def _open_once(self) -> None:
        async with self._gate:
            if self._kit is None and not self.unsaved.is_closed:
                self._kit = await self._open()
                # Saves what turns said that ended while the database could not be opened.
                self._kit.rescue.begin()

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
        observer, reflector = await self._minds()
        thinking = Thinking(store, observer, reflector, counter=self.counter, extractors=self._extractors)
        store.processes.lease = self.config.lease
        store.processes.silence = min(store.processes.silence, self.config.lease)
        heartbeat = Heartbeat(store.processes, owner, clock=self.clock, every=min(_BEAT_SECONDS, self.config.heartbeat))
        runner = Runner(store, thinking, clock=self.clock, heartbeat=heartbeat)
        core = Core(
            store,
            runner,
            self.bus,
            clock=self.clock,
            counter=self.counter,
            owner=owner,
            open_turns=self.outside.open_turns,
            chance=lambda: self._chance(32) / 2**32,
        )
        runner.tell, runner.retry_at = core.tell, core.retry_at
        return Kit(
            store=store,
            config=self.config,
            clock=self.clock,
            core=core,
            contexts=Contexts(store, self.counter, self._instructions),
            runner=runner,
            compacting=Compacting(store, core, observer, counter=self.counter, clock=self.clock),
            unsaved=self.unsaved,
            writer=self._models.reflect,
            is_embedded=self._models.observe is None,
        )

    async def _minds(self) -> tuple[Mind, Mind]:
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
            return minds_of(ModelPair(observe=None, reflect=None), self.counter)
        if self._models.observe is None and self._models.reflect is None:
            _log.info("no model is named, so the embedded observer is used")
        return minds_of(self._models, self.counter)

    # ------------------------------------------------------------ closing

    async def close(self) -> None:
        """Let background work finish, save what is left, then close the database; raises NotSaved if something is lost."""
        problem: Exception | None = await self._open_to_save()
        async with self._gate:
            if self.unsaved.is_told:
                return
            self.unsaved.is_closed = True
            if self._kit is not None:
                problem = await self._close_parts(self._kit)
            lost = self._report_loss(problem)
            self.bus.close()
        if lost is not None:
            raise lost

    async def settled(self) -> None:
        """Wait until no background work of this process is in flight, and none follows."""
        if self._kit is not None:
            await self._kit.runner.settled()
            await self._kit.rescue.try_now(self.config.turn_timeout)
            await self._kit.store.engine.settled()

    async def _open_to_save(self) -> MemologError | None:
        """Try once more to open the database if messages wait for it; returns why it cannot be opened."""
        try:
            if len(self.unsaved) and not self.unsaved.is_closed:
                await self.open()
        except MemologError as error:
            return error
        return None

    async def _close_parts(self, kit: Kit) -> Exception | None:
        """Close the parts of the memory; returns what kept the last messages from being saved."""
        try:
            # Before the observer is waited for: a caller that cancels that wait must not lose what was said.
            await kit.rescue.try_now(self.config.turn_timeout, also_open=True)
            await kit.runner.close(self.config.observation.deadline)
            return await kit.rescue.at_last(self.config.busy_timeout)
        finally:
            await self._let_go(kit)

    async def _let_go(self, kit: Kit) -> None:
        """End every task, thread and connection, also when the caller is cancelled."""
        try:
            await kit.rescue.stop()
        finally:
            await kit.store.close()
        # A turn that was under way may have started a run in the meantime.
        await kit.runner.close(0.0)
        for model in (self._models.observe, self._models.reflect):
            if model is not None:
                await close_model(model)

    def _report_loss(self, problem: Exception | None) -> NotSaved | None:
        """Emit and log what could not be saved, if anything; returns it as an error."""
        self.unsaved.is_told = True
        counts = self.unsaved.counts()
        if not counts:
            return None
        # StoreClosed means that an earlier close was cancelled before it had saved everything.
        why = "closing was cut short" if isinstance(problem, StoreClosed) else str(problem or "it was given up")
        lost = NotSaved(counts, why)
        _log.error("%s", lost)
        what = "saving what was left when the memory was closed"
        for resource, thread in counts:
            self.bus.emit(Degraded(at=self.clock.now(), resource=resource, thread=thread, what=what, error=str(lost)))
        return lost


def _retrieve(opening: "asyncio.Task[None]") -> None:
    """Retrieve the result: asyncio warns about errors of tasks that no caller awaits any more."""
    if not opening.cancelled():
        opening.exception()
