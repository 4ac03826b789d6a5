"""How long a turn waits for the database.

Knows one limit. What could not be done within it is done later, by whoever asked for it.
"""

import asyncio
from collections.abc import Coroutine
from typing import TypeVar

from memolog.domain.errors import StoreBusy

__all__ = ["in_time"]

T = TypeVar("T")

# A turn gives the database this long; then it goes on with what it knows, and saves later.
_STORE_SECONDS = 3.0


async def in_time(call: Coroutine[object, object, T]) -> T:
    """Await a call of the store, but not for long. A write that is not done by then is not done at all."""
    try:
        async with asyncio.timeout(_STORE_SECONDS):
            return await call
    except TimeoutError as error:
        raise StoreBusy(
            f"The database did not answer within {_STORE_SECONDS:g} s.",
            why="It is locked by another process, or its server is slow.",
            then="The turn goes on; what is not saved yet is saved with the next call.",
        ) from error
