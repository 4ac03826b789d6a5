"""Open the database of a memory at its first use, connect the components of the memory to it, and close both.

Also the configuration of resources and models, and checks of settings.
"""

import asyncio
import logging
import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from memolog.compaction.compactor import Compacting
from memolog.context.build import Contexts
from memolog.core.clock import Clock, IdMaker, SystemClock, system_chance
from memolog.core.config import Config
from memolog.core.exact_json import JsonObject
from memolog.core.message import NewMessage
from memolog.core.model_names import canonical_model, context_window
from memolog.core.run import Calibration
from memolog.core.zones import check_zone
from memolog.errors import ConfigError, InputError, MemologError, StoreClosed, StoreReadOnly
from memolog.events import Bus, Degraded, SettingsChanged
from memolog.log.executor import Core
from memolog.log.heartbeat import Heartbeat
from memolog.log.journal import EventJournal
from memolog.log.runner import Runner
from memolog.log.snapshot import Snapshot
from memolog.observer.extractors import Extractor, Extractors
from memolog.observer.llm import Observer, observers_of
from memolog.observer.model import Model, check_model, close_model
from memolog.observer.model_choice import ModelPair, ModelSpec, models_for
from memolog.observer.run import RunExecutor
from memolog.outbox import READING_SETTINGS, Outbox, Outside, Pending, Spent
from memolog.store import Store
from memolog.store import open_store as open_with
from memolog.text.message_tokens import count_message
from memolog.text.tokens import HeuristicCounter, TokenCounter, learn

_log = logging.getLogger("memolog")

# A process of which three beats are missing counts as dead.
_BEAT_SECONDS = 1.5
_WINDOW_SHARE = 0.9

_COUNTER = HeuristicCounter()
# Fixed when the database is opened.
_FIXED = frozenset(
    {
        "busy_timeout",
        "durability",
        "max_message_bytes",
        "pool_size",
        "redact_patterns",
        "redact_raw",
        "statement_timeout",
    }
)

# A turn needs these before it reads its thread.
_NOT_OF_A_THREAD = frozenset({"read_only", "scope"})

_MODELS = ("model", "observation.model", "reflection.model")


@dataclass(slots=True, kw_only=True)
class Components:
    """The components of an open memory."""

    store: Store
    config: Config
    clock: Clock
    core: Core
    contexts: Contexts
    runner: Runner
    compacting: Compacting
    outbox: Outbox
    writer: Model | None = None
    """The model that writes on request; None for the embedded rules."""
    is_embedded: bool = False
    """Whether the embedded observer is used, whose runs are short."""

    def __post_init__(self) -> None:
        self.outbox.connect(self.core, self._learn)

    async def close(self, models: ModelPair) -> Exception | None:
        """Save what is left, let runs finish, and close everything; returns what kept messages from being saved."""
        try:
            # Before the observer is waited for: a caller who cancels that must not lose messages.
            await self.outbox.try_now(self.config.turn_timeout, also_open=True)
            await self.runner.close(self.config.observation.deadline)
            return await self.outbox.save_all(self.config.busy_timeout)
        finally:
            await self._release(models)

    async def _release(self, models: ModelPair) -> None:
        """Leave no task, thread or connection behind, also when `aclose` is cancelled."""
        try:
            await self.outbox.stop()
        finally:
            await self.store.close()
        # A turn that was running may have started something in the meantime.
        await self.runner.close(0.0)
        for model in (models.observe, models.reflect):
            if model is not None:
                await close_model(model)

    async def config_for(self, resource: str, config: Config | None = None, *, keep: bool = False) -> Config:
        """Return a configuration, by default that of the memory, completed with the stored settings of a resource.

        `keep` stores the lasting settings of the memory with the resource; a change is emitted once.
        """
        if keep and self.config.lasting and self.store.cache.settings.get(resource) is None:
            await self._keep(resource, self.config.lasting)
        known = self.store.cache.settings.get(resource) if "scope" in self.config.named else None
        stored = await self.store.settings.get(resource) if known is None else known
        return (config or self.config).completed(stored)

    async def _keep(self, resource: str, settings: JsonObject) -> None:
        stored = await self.store.settings.get(resource)
        if any(name not in stored or stored[name] != value for name, value in settings.items()):
            before = await self.store.settings.put(resource, settings)
            if before:
                now = {name: settings[name] for name in before}
                _log.warning("the settings of %s were %s and are %s now", resource, before, now)
                at = self.clock.now()
                await self.core.tell(SettingsChanged(at=at, resource=resource, thread=None, before=before, now=now))
        self.store.cache.settings.put(resource, {**stored, **settings})

    async def factor(self, resource: str, model: str | None) -> float:
        """Return how many tokens the model counts for each of ours."""
        if model is None:
            return 1.0
        key = (resource, canonical_model(model))
        factor = self.store.cache.factors.get(key)
        if factor is None:
            factor = (await self.store.ledger.calibration(resource, model)).factor
            self.store.cache.factors.put(key, factor)
        return factor

    def window(self, resource: str, model: str | None) -> int | None:
        """Return how many of our tokens a context may have for a model, where its window is known.

        A tenth is left for the answer, and for instructions and tools that are not part of the context.
        """
        window = context_window(model) if model else None
        if model is None or window is None:
            return None
        factor = self.store.cache.factors.get((resource, canonical_model(model)))
        return int(window * _WINDOW_SHARE / (1.0 if factor is None else factor))

    async def _calibrate(
        self, resource: str, model: str, learn: Callable[[Calibration], Calibration], *, thread: str | None = None
    ) -> None:
        """Store a new calibration; `thread` has no other name for the model than the reported one."""
        known = await self.store.ledger.calibrate(resource, model, learn, thread=thread)
        self.store.cache.factors.put((resource, canonical_model(model)), known.factor)

    async def _learn(self, pending: Pending, spent: Spent) -> None:
        """Calibrate token counts with the usage that a provider reported."""
        usage, counted = spent.usage, spent.counted
        reported = usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens
        if counted > 0 and reported > 0:
            asked = spent.asked
            # An unknown name, such as that of a deployment, is what the next request will name too. A known model for which
            # another one answered, as a fallback does, must not learn how the other counts.
            name = asked if asked and context_window(asked) is None else usage.model
            await self._calibrate(
                pending.resource,
                name,
                lambda known: learn(known, counted, reported),
                thread=None if asked else pending.thread,
            )


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
            self.outside.degraded(resource, thread, READING_SETTINGS, ignored)
        return config, snapshot

    async def _open_once(self) -> None:
        async with self._gate:
            if self._components is None and not self.outbox.is_closed:
                self._components = await self._open()
                # Saves what turns said that ended while the database could not be opened.
                self.outbox.begin()

    async def _open(self) -> Components:
        store = await open_with(
            self.address,
            clock=self.clock,
            chance=self._chance,
            weigh=lambda message: count_message(message, self.counter),
            config=self.config,
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


async def open_store(address: str = "memolog.db", config: Config | None = None) -> Store:
    """Open the store at an address: a file name, `:memory:` or `postgresql://…`.

    Close it when done, or use it as `async with await open_store(…) as store`.
    """
    return await open_with(address, clock=SystemClock(), chance=system_chance, weigh=_weigh, config=config)


def overridden(config: Config, overrides: Mapping[str, object]) -> tuple[Config, str]:
    """Return the configuration with the settings of a thread, and a text about those that no longer exist and are ignored."""
    try:
        return config.with_overrides(overrides), ""
    except ConfigError:
        pass
    ignored: list[str] = []
    for name, value in overrides.items():
        try:
            config = config.with_overrides({name: value})
        except ConfigError as error:
            ignored.append(str(error))
    return config, " ".join(ignored)


def check_thread(settings: Mapping[str, object]) -> None:
    """Raise ConfigError for settings that cannot differ between threads."""
    check_turn(settings, None)
    for name in sorted(_NOT_OF_A_THREAD & set(settings)):
        raise ConfigError(
            f"`{name}` cannot be set for a thread.",
            why="It is needed to read the thread, before the settings of the thread are known.",
            then="Set it in the configuration of the memory, or for one turn: turn(…, settings={…}).",
        )


def check_turn(settings: Mapping[str, object] | None, zone: str | None) -> None:
    """Raise ConfigError for settings that cannot differ between turns, and InputError for an unknown zone."""
    if settings is not None and not isinstance(settings, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InputError(
            f"`settings` must be a dict of names and values, got {type(settings).__name__}.",
            then='Pass {"observation.message_tokens": 20_000}.',
        )
    given = settings or {}
    for name in _MODELS:
        section, _, leaf = name.rpartition(".")
        inner = given.get(section)
        if name in given or (isinstance(inner, Mapping) and leaf in inner):
            raise ConfigError(
                f"`{name}` cannot be set for a turn.",
                why="The models are chosen when the memory is opened, and a run may be carried out in another turn.",
                then="Set it in the configuration of the memory, or open another memory on the same database. "
                "Pass the model that answers as turn(model=…).",
            )
    for name in sorted(_FIXED & set(given)):
        raise ConfigError(
            f"`{name}` cannot be set for a turn.",
            why="It is fixed when the database is opened.",
            then="Set it in the configuration of the memory.",
        )
    if zone is not None:
        check_zone(zone)


def _weigh(message: NewMessage) -> int:
    return count_message(message, _COUNTER)
