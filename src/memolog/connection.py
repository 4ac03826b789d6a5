"""Open the database of a `Memory` at its first use, create the components that use it, and close them.

This module also combines the configuration with stored settings, and checks the settings of threads and turns.
"""

import asyncio
import contextlib
import logging
import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from memolog.compaction.compactor import Compacting
from memolog.context.build import Contexts
from memolog.core.clock import Clock, IdMaker, SystemClock, system_chance
from memolog.core.config import Config
from memolog.core.exact_json import JsonObject
from memolog.core.model_names import canonical_model, context_window
from memolog.core.zones import check_zone
from memolog.errors import ConfigError, InputError, MemologError, StoreClosed, StoreReadOnly
from memolog.events import Bus, SettingsChanged
from memolog.log.executor import Core
from memolog.log.heartbeat import Heartbeat
from memolog.log.journal import EventJournal
from memolog.log.runner import Runner
from memolog.log.snapshot import Snapshot
from memolog.log.usage import Lesson
from memolog.log.withdrawals import render_again
from memolog.metrics import meter
from memolog.observer.embedder_choice import EmbedderSpec, check_embedder, close_embedder, resolve_embedder
from memolog.observer.extractors import Extractor, Extractors
from memolog.observer.llm import Observer, observers_of
from memolog.observer.model import Model, check_model, close_model
from memolog.observer.model_choice import ModelPair, ModelSpec, models_for
from memolog.observer.run import RunExecutor, spent_of
from memolog.outbox import READING_SETTINGS, Outbox, Pending, Spent
from memolog.search.background import OWN, BackgroundIndexing
from memolog.search.embedding import Embedder
from memolog.search.semantic import Around, BackgroundVectors, Semantic
from memolog.search.vectors import Vectors
from memolog.store import Store
from memolog.store import open_store as open_with
from memolog.text.message_tokens import count_message, file_shares
from memolog.text.redaction import for_the_index
from memolog.text.tokens import HeuristicCounter, TokenCounter

_log = logging.getLogger("memolog")

# The maximum seconds between two heartbeats. Other processes consider a process dead after about three missing beats.
_BEAT_SECONDS = 1.5
# The share of a model's context window that a context may fill. The rest is for the answer, instructions and tools.
_WINDOW_SHARE = 0.9

_COUNTER = HeuristicCounter()
# These settings are used when the database is opened, so they cannot be changed for a turn.
_FIXED = frozenset(
    {
        "background",
        "busy_timeout",
        "durability",
        "max_message_bytes",
        "pool_size",
        "redact_patterns",
        "redact_raw",
        "statement_timeout",
    }
)

# A turn needs these settings before it reads the settings of its thread.
_NOT_OF_A_THREAD = frozenset({"read_only", "scope"})

_MODELS = ("model", "observation.model", "reflection.model")


@dataclass(slots=True, kw_only=True)
class Components:
    """The components of a `Memory` with an open database."""

    store: Store
    config: Config
    clock: Clock
    core: Core
    contexts: Contexts
    runner: Runner
    compacting: Compacting
    outbox: Outbox
    indexer: BackgroundIndexing | None
    """None if the memory is read-only, or if a worker updates the index."""
    vectors: BackgroundVectors | None = None
    """None without an embedder, if the memory is read-only, or if a worker makes the vectors."""
    writer: Model | None = None
    """The model that writes summaries of tasks. None if the embedded rules write them."""
    is_embedded: bool = False
    """Whether the embedded observer is used, whose runs are short."""

    _lasting: JsonObject = field(init=False)
    _names_scope: bool = field(init=False)
    _completed: tuple[JsonObject, Config] | None = field(init=False, default=None)
    """The configuration of the resource that was used last, with its stored settings."""

    def __post_init__(self) -> None:
        self._lasting, self._names_scope = self.config.lasting, "scope" in self.config.named
        self.outbox.connect(self.core, self._lesson)

    async def close(self, models: ModelPair) -> Exception | None:
        """Save unsaved messages, wait for runs, and close all components. Return the error if messages could not be saved."""
        try:
            # Save before the wait for runs, because a caller that cancels this wait must not lose messages.
            await self.outbox.try_now(self.config.turn_timeout, also_open=True)
            await self.runner.close(self.config.close_timeout)
            return await self.outbox.save_all(self.config.busy_timeout)
        finally:
            await self._release(models)

    async def _release(self, models: ModelPair) -> None:
        """End all tasks, threads and connections, even if `aclose` is cancelled."""
        try:
            await self.outbox.stop()
            if self.indexer is not None:
                await self.indexer.close()
            if self.vectors is not None:
                await self.vectors.close()
        finally:
            await self.store.close()
        # A turn that is still open may have started a run since `runner.close` was called.
        await self.runner.close(0.0)
        for model in (models.observe, models.reflect):
            if model is not None:
                await close_model(model)
        if self.store.semantic is not None:
            await close_embedder(self.store.semantic.embedder)

    async def config_for(self, resource: str, config: Config | None = None, *, keep: bool = False) -> Config:
        """Return `config` (by default the configuration of the `Memory`), completed with the stored settings of a resource.

        `keep` first stores the lasting settings of the `Memory` for the resource. If this changes a stored setting, a
        `SettingsChanged` event is emitted.
        """
        cached = self.store.cache.settings.get(resource)
        if keep and self._lasting and cached is None:
            cached = await self._keep(resource, self._lasting)
        if cached is None or not self._names_scope:
            return (config or self.config).completed(await self.store.settings.get(resource))
        if config is not None and config is not self.config:
            return config.completed(cached)
        if self._completed is None or self._completed[0] is not cached:
            self._completed = cached, self.config.completed(cached)
        return self._completed[1]

    async def _keep(self, resource: str, settings: JsonObject) -> JsonObject:
        stored = await self.store.settings.get(resource)
        if {**stored, **settings} != stored:
            before = await self.store.settings.put(resource, settings)
            if before:
                now = {name: settings[name] for name in before}
                _log.warning("the settings of %s were %s and are %s now", resource, before, now)
                at = self.clock.now()
                await self.core.tell(SettingsChanged(at=at, resource=resource, thread=None, before=before, now=now))
        kept = {**stored, **settings}
        self.store.cache.settings.put(resource, kept)
        return kept

    async def factor(self, resource: str, model: str | None) -> float:
        """Return how many tokens the model counts for each token of Memolog's counter."""
        if model is None:
            return 1.0
        key = (resource, canonical_model(model))
        factor = self.store.cache.factors.get(key)
        if factor is None:
            factor = (await self.store.ledger.calibration(resource, model)).factor
            self.store.cache.factors.put(key, factor)
        return factor

    def window(self, resource: str, model: str | None) -> int | None:
        """Return the maximum tokens of a context for a model, by Memolog's counter. None if the context window is unknown."""
        window = context_window(model) if model else None
        if model is None or window is None:
            return None
        factor = self.store.cache.factors.get((resource, canonical_model(model)))
        return int(window * _WINDOW_SHARE / (1.0 if factor is None else factor))

    async def _lesson(self, pending: Pending, spent: Spent) -> Lesson | None:
        """Return what the usage that a provider reported says about token counts. None if it says nothing."""
        usage, counted = spent.usage, spent.counted
        reported = usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens
        if counted <= 0 or reported <= 0:
            return None
        asked = spent.asked
        # If the requested model is unknown (the name of a deployment), calibrate its name, because the next request has the same
        # name. If it is known, another model may have answered as a fallback, so calibrate the model that answered.
        name = asked if asked and context_window(asked) is None else usage.model
        # If the request has files whose tokens are unknown, compute the tokens of these files and do not change the factor.
        files = file_shares(spent.files, counted, reported / await self.factor(pending.resource, name))
        # Without a requested model, the reported model is stored as the last model of the thread.
        thread = None if asked else pending.thread
        return Lesson(model=name, counted=counted, reported=reported, thread=thread, files=files)


class Connection:
    """Opens a database at its first use, and creates the components of a `Memory` that use it."""

    def __init__(
        self,
        address: str,
        *,
        model: ModelSpec | None,
        embedder: EmbedderSpec | None,
        config: Config,
        clock: Clock,
        counter: TokenCounter,
        instructions: str | None,
        extractors: Sequence[Extractor],
        chance: Callable[[int], int],
    ) -> None:
        self.address, self.config, self.clock, self.counter = address, config, clock, counter
        self.instructions, self.new_id = instructions, IdMaker(clock.now, chance)
        self.bus, self.outbox = Bus(clock), Outbox()
        self.open_turns: Counter[str] = Counter()
        """How often each turn is open in this process, by id. A continued turn may be open more than once."""
        self._model, self._embedder, self._chance = model, embedder, chance
        self._extractors = Extractors(extractors)
        self._models = ModelPair(observe=None, reflect=None)
        self._gate = asyncio.Lock()
        self._components: Components | None = None
        self._opening: asyncio.Task[None] | None = None

    # ------------------------------------------------------------ opening

    @property
    def opened(self) -> Components | None:
        """Return the components if the database is open."""
        return None if self.outbox.is_closed else self._components

    async def open(self) -> Components:
        """Open the database if it is not open, and return the components."""
        if self._components is None and not self.outbox.is_closed:
            if self._opening is None or self._opening.done():
                self._opening = asyncio.get_running_loop().create_task(self._open_once(), name="memolog-open")
                # Retrieve the error, because asyncio warns about errors that were not retrieved.
                self._opening.add_done_callback(lambda opening: opening.cancelled() or opening.exception())
            # Cancelling a caller must not cancel the migration of the schema.
            await asyncio.shield(self._opening)
        if self._components is None or self.outbox.is_closed:
            raise StoreClosed
        return self._components

    async def open_to_write(self) -> Components:
        """Open the database if it is not open, and return the components. Raises StoreReadOnly if the memory is read-only."""
        if self.config.read_only:
            raise StoreReadOnly("This memory is read-only.", then="Open another Memory without read_only.")
        return await self.open()

    async def look(self, thread: str, resource: str, *, create: bool = True) -> tuple[Config, Snapshot]:
        """Return the configuration and a snapshot of a thread. `create` creates the log of the thread if it does not exist."""
        components = await self.open()
        create = create and not self.config.read_only
        config = await components.config_for(resource, keep=create)
        snapshot = await components.store.logs.snapshot(resource, thread, config.scope, create=create)
        config, ignored = overridden(config, snapshot.thread.overrides)
        if ignored:
            self.bus.degraded(resource, thread, READING_SETTINGS, ignored)
        return config, snapshot

    async def _open_once(self) -> None:
        async with self._gate:
            if self._components is None and not self.outbox.is_closed:
                self._components = await self._open()
                # Save the messages of turns that ended while the database could not be opened.
                self.outbox.begin()

    async def _open(self) -> Components:
        await asyncio.to_thread(_import_tracing)
        self.bus.meters = [record for record in (meter(),) if record is not None]
        # First, because with `strict` this may raise, and then no database must stay open.
        observer, reflector = await self._observers()
        embedder = await self._checked_embedder()
        store = await open_with(
            self.address,
            clock=self.clock,
            chance=self._chance,
            weigh=lambda message: count_message(message, self.counter),
            render=partial(render_again, self.counter.count),
            config=self.config,
        )
        # This id is unique among all processes that ever use this database.
        owner = f"{os.getpid()}-{store.new_id()}"
        executor = RunExecutor(store, observer, reflector, counter=self.counter, extractors=self._extractors)
        store.processes.lease = self.config.lease
        store.processes.silence = min(store.processes.silence, self.config.lease)
        heartbeat = Heartbeat(store.processes, owner, clock=self.clock, every=min(_BEAT_SECONDS, self.config.heartbeat))
        journal = EventJournal(store, self.bus)
        runner = Runner(
            store, executor.execute, clock=self.clock, heartbeat=heartbeat, tell=journal.tell, chance=self._random
        )
        core = Core(
            store,
            runner,
            journal,
            clock=self.clock,
            counter=self.counter,
            owner=owner,
            open_turns=self.open_turns,
            chance=self._random,
        )
        if embedder is not None:
            store.semantic = self._semantic(store, embedder, owner)
        indexer, vectors = self._background(store)
        return Components(
            store=store,
            config=self.config,
            clock=self.clock,
            core=core,
            contexts=Contexts(store, self.counter, self.instructions),
            runner=runner,
            compacting=Compacting(store, core, observer, counter=self.counter, clock=self.clock),
            outbox=self.outbox,
            indexer=indexer,
            vectors=vectors,
            writer=self._models.reflect,
            is_embedded=self._models.observe is None,
        )

    def _background(self, store: Store) -> tuple[BackgroundIndexing | None, BackgroundVectors | None]:
        """Return what updates the index and makes vectors in the background of this process."""
        if self.config.read_only or self.config.background == "worker":
            return None, None
        indexer = BackgroundIndexing(store.indexing, for_the_index(self.config))
        store.engine.wrote = indexer.wrote
        if store.semantic is None:
            return indexer, None
        vectors = BackgroundVectors(store.semantic)

        def wrote(name: str) -> None:
            indexer.wrote(name)
            if name == OWN:
                vectors.wake()

        store.engine.wrote = wrote
        # Texts of earlier processes may be without a vector.
        vectors.wake()
        return indexer, vectors

    def _semantic(self, store: Store, embedder: Embedder, owner: str) -> Semantic:
        async def may_spend(resource: str, thread: str | None) -> bool:
            budget = self.config.budget
            return budget is None or await spent_of(store, resource, thread, self.config) < budget

        around = Around(
            owner=owner,
            clock=self.clock,
            redact=for_the_index(self.config),
            book=store.ledger.add,
            tell=lambda resource, error: self.bus.degraded(resource, None, "searching by meaning", error),
            may_spend=may_spend,
            is_read_only=self.config.read_only,
        )
        return Semantic(Vectors(store.engine), embedder, self.config.semantic, around)

    def _random(self) -> float:
        return self._chance(32) / 2**32

    async def _observers(self) -> tuple[Observer, Observer]:
        """Return the observer and the reflector. If a model cannot be used, both are embedded; `strict` raises the error."""
        try:
            self._models = models_for(self.config, self._model)
            for model in (self._models.observe, self._models.reflect):
                if model is not None:
                    await check_model(model)
        except ConfigError as error:
            if self.config.strict:
                raise
            self.bus.degraded("", None, "choosing the model", error)
            return observers_of(ModelPair(observe=None, reflect=None), self.counter)
        if self._models.observe is None and self._models.reflect is None:
            _log.info("no model is set, so the embedded observer is used")
        return observers_of(self._models, self.counter)

    async def _checked_embedder(self) -> Embedder | None:
        """Return the embedder. If it cannot be used, search finds words only; `strict` raises the error."""
        try:
            embedder = resolve_embedder(self.config.embedder if self._embedder is None else self._embedder)
            if embedder is not None:
                await check_embedder(embedder)
        except ConfigError as error:
            if self.config.strict:
                raise
            self.bus.degraded("", None, "choosing the embedder", error)
            return None
        return embedder

    # ------------------------------------------------------------ closing

    async def close(self) -> None:
        """Wait for background work, save unsaved messages, and close the database. Raises NotSaved if messages are lost."""
        problem: Exception | None = await self._open_to_save()
        async with self._gate:
            if self.outbox.is_reported:
                return
            self.outbox.is_closed = True
            if self._components is not None:
                problem = await self._components.close(self._models)
            lost = self.outbox.report_loss(problem, self.bus)
            self.bus.close()
        if lost is not None:
            raise lost

    async def settled(self) -> None:
        """Wait until all background work of this process has finished."""
        if self._components is not None:
            await self._components.runner.settled()
            await self.outbox.try_now(self.config.turn_timeout)
            if self._components.indexer is not None:
                await self._components.indexer.settled()
            await self._components.store.engine.settled()

    async def _open_to_save(self) -> MemologError | None:
        """Try to open the database if there are unsaved messages. Return the error if it cannot be opened."""
        try:
            if len(self.outbox) and not self.outbox.is_closed:
                await self.open()
        except MemologError as error:
            return error
        return None


async def open_store(address: str = "memolog.db", config: Config | None = None) -> Store:
    """Open the store at an address: a file name, `:memory:` or `postgresql://…`.

    Close it after use, or use it as `async with await open_store(…) as store`.
    """
    weigh = partial(count_message, counter=_COUNTER)
    return await open_with(address, clock=SystemClock(), chance=system_chance, weigh=weigh, config=config)


def _import_tracing() -> None:
    """Import OpenTelemetry, if it is installed. Otherwise the first turn would do so on the event loop."""
    with contextlib.suppress(ImportError):
        from opentelemetry import context, trace  # noqa: PLC0415 - slow to import, and optional

        meter()
        trace.get_tracer("memolog")
        context.get_current()


def overridden(config: Config, overrides: Mapping[str, object]) -> tuple[Config, str]:
    """Return the configuration with the settings of a thread, and a text about the settings that are invalid and ignored."""
    if not overrides:
        return config, ""
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
    """Raise ConfigError for settings that cannot be set for a thread."""
    check_turn(settings, None, what="a thread")
    for name in sorted(_NOT_OF_A_THREAD & set(settings)):
        raise ConfigError(
            f"`{name}` cannot be set for a thread.",
            why="It is needed to read the thread, before the settings of the thread are known.",
            then="Set it in the configuration of the memory, or for one turn: turn(…, settings={…}).",
        )


def check_turn(settings: Mapping[str, object] | None, zone: str | None, *, what: str = "a turn") -> None:
    """Raise ConfigError for settings that cannot be set for a turn, and InputError for an unknown zone.

    The error says that they cannot be set for `what`.
    """
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
                f"`{name}` cannot be set for {what}.",
                why="The models are chosen when the memory is opened, and a run may be carried out in another turn.",
                then="Set it in the configuration of the memory, or open another memory on the same database. "
                "Pass the model that answers as turn(model=…).",
            )
    for name in sorted(_FIXED & set(given)):
        raise ConfigError(
            f"`{name}` cannot be set for {what}.",
            why="It is fixed when the database is opened.",
            then="Set it in the configuration of the memory.",
        )
    if zone is not None:
        check_zone(zone)
