"""Run the coroutines of a memory for synchronous and for asynchronous callers."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from memolog.errors import InputError
from memolog.memory import Memory
from memolog.sync import SyncMemory

T = TypeVar("T")

Drive = Callable[[Coroutine[Any, Any, Any]], Awaitable[Any]]


class Driver:
    """Runs coroutines of a memory for synchronous and asynchronous hooks."""

    def __init__(self, memory: Memory | SyncMemory) -> None:
        """Set the memory. Synchronous hooks need a `SyncMemory`."""
        self._sync = memory if isinstance(memory, SyncMemory) else None
        self.memory = memory.asynchronous if isinstance(memory, SyncMemory) else memory

    async def now(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine and block until it is done, for a synchronous hook."""
        if self._sync is None:
            work.close()
            raise InputError(
                "A Memory cannot be used in a synchronous call of the agent.",
                why="A Memory belongs to the event loop that opened it.",
                then="Call the agent with ainvoke or astream, or pass a SyncMemory, which works for both.",
            )
        return self._sync.run(work)

    async def later(self, work: Coroutine[Any, Any, T]) -> T:
        """Await a coroutine on the event loop of the memory."""
        if self._sync is None:
            return await work
        return await asyncio.wrap_future(self._sync.submit(work))
