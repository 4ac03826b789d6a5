"""Opening a store with this machine's clock, its chance and the configured token counter.

Knows which settings concern the store. Everything below it gets time and chance as arguments.
"""

from collections.abc import Mapping
from functools import partial

from memolog.config import Config
from memolog.domain.errors import ConfigError
from memolog.domain.message import NewMessage
from memolog.domain.zones import check_zone
from memolog.prompt.without_secrets import without_secrets
from memolog.runtime.clock import SystemClock, system_chance
from memolog.runtime.redacting import redactor_for
from memolog.store.store import Store, StoreOptions
from memolog.store.store import open_store as open_with
from memolog.tokens import HeuristicCounter, count_message

__all__ = ["check_thread", "check_turn", "open_store", "overridden", "store_options"]

_COUNTER = HeuristicCounter()
# Fixed when the database is opened: a turn cannot have its own.
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

# A turn obeys these from its first look at the database on, before it knows the thread.
_NOT_OF_A_THREAD = frozenset({"read_only", "scope"})

_MODELS = ("model", "observation.model", "reflection.model")


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
    """Return the configuration of a thread, and what of its own settings had to be ignored: nobody knows it any more."""
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
    """Refuse what a thread cannot have of its own."""
    check_turn(settings, None)
    for name in sorted(_NOT_OF_A_THREAD & set(settings)):
        raise ConfigError(
            f"{name} cannot differ from thread to thread.",
            why="It says how the thread itself is read, and is needed before its settings are known.",
            then="Set it in the configuration of the memory, or for one turn: turn(…, settings={…}).",
        )


def check_turn(settings: Mapping[str, object] | None, zone: str | None) -> None:
    """Refuse what a turn cannot have of its own, and a zone that nobody knows."""
    given = settings or {}
    for name in _MODELS:
        section, _, leaf = name.rpartition(".")
        inner = given.get(section)
        if name in given or (isinstance(inner, Mapping) and leaf in inner):
            raise ConfigError(
                f"{name} cannot differ from turn to turn.",
                why="What observes and reflects is chosen when the memory is opened; a run may be carried out in another turn.",
                then="Set it in the configuration of the memory, or open another memory on the same database. "
                "Who answers is told by turn(model=…).",
            )
    for name in sorted(_FIXED & set(given)):
        raise ConfigError(
            f"{name} cannot differ from turn to turn.",
            why="It is fixed when the database is opened.",
            then="Set it in the configuration of the memory.",
        )
    if zone is not None:
        check_zone(zone)


def _weigh(message: NewMessage) -> int:
    return count_message(message, _COUNTER)
