"""The components of an open memory, the configuration of its resources and models, and checks of settings."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from memolog.compaction.compactor import Compacting
from memolog.context.builder import Contexts
from memolog.core.clock import Clock, SystemClock, system_chance
from memolog.core.config import Config
from memolog.core.exact_json import JsonObject
from memolog.core.message import NewMessage
from memolog.core.model_names import canonical_model, context_window
from memolog.core.run import Calibration
from memolog.core.zones import check_zone
from memolog.errors import ConfigError, InputError
from memolog.events import SettingsChanged
from memolog.log.executor import Core
from memolog.log.runner import Runner
from memolog.observer.model import Model, close_model
from memolog.observer.model_choice import ModelPair
from memolog.outbox import Outbox, Pending, Spent
from memolog.store import Store, StoreOptions
from memolog.store import open_store as open_with
from memolog.text.message_tokens import count_message
from memolog.text.redaction import redactor_for, without_secrets
from memolog.text.tokens import HeuristicCounter, learn

_log = logging.getLogger("memolog")

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


async def open_store(address: str = "memolog.db", config: Config | None = None) -> Store:
    """Open the store at an address: a file name, `:memory:` or `postgresql://…`.

    Close it when done, or use it as `async with await open_store(…) as store`.
    """
    options = store_options(config or Config())
    return await open_with(address, clock=SystemClock(), chance=system_chance, weigh=_weigh, options=options)


def store_options(config: Config) -> StoreOptions:
    """Return the settings that concern the store."""
    redactor = redactor_for(config)
    return StoreOptions(
        durability=config.durability,
        busy_timeout=config.busy_timeout,
        statement_timeout=config.statement_timeout,
        pool_size=config.pool_size,
        max_message_bytes=config.max_message_bytes,
        read_only=config.read_only,
        clean=partial(without_secrets, redactor=redactor) if config.redact_raw else None,
        clean_value=redactor.value if config.redact_raw else None,
    )


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
