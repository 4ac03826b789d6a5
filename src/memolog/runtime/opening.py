"""Opening a store with this machine's clock, its chance and the configured token counter.

Knows which settings concern the store. Everything below it gets time and chance as arguments.
"""

from memolog.config import Config
from memolog.domain.message import NewMessage
from memolog.runtime.clock import SystemClock, system_chance
from memolog.store.store import Store, StoreOptions
from memolog.store.store import open_store as open_with
from memolog.tokens import HeuristicCounter, count_message

__all__ = ["open_store", "store_options"]

_COUNTER = HeuristicCounter()


async def open_store(address: str = "memolog.db", config: Config | None = None) -> Store:
    """Open the store at an address: a file name, `:memory:` or `postgresql://…`.

    Close it when done, or use it as `async with await open_store(…) as store`.
    """
    options = store_options(config or Config())
    return await open_with(address, clock=SystemClock(), chance=system_chance, weigh=_weigh, options=options)


def store_options(config: Config) -> StoreOptions:
    """Return the settings that concern the store."""
    return StoreOptions(
        durability=config.durability,
        busy_timeout=config.busy_timeout,
        statement_timeout=config.statement_timeout,
        pool_size=config.pool_size,
        max_message_bytes=config.max_message_bytes,
        read_only=config.read_only,
    )


def _weigh(message: NewMessage) -> int:
    return count_message(message, _COUNTER)
