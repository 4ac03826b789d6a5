"""How hooks of either colour reach one memory.

Knows that a `Memory` lives on the caller's loop, and a `SyncMemory` on one of its own that callers of both colours can reach.
Knows nothing of messages.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from memolog.domain.errors import InputError
from memolog.runtime.memory import Memory
from memolog.runtime.portal import Portal
from memolog.runtime.sync import SyncMemory

__all__ = ["Driver"]

T = TypeVar("T")


class Driver:
    """Runs the work of a memory for a caller who can await, or cannot."""

    def __init__(self, memory: Memory | SyncMemory) -> None:
        """Take either face of a memory; only `SyncMemory` can serve callers that cannot await."""
        self.memory: Memory
        self._portal: Portal | None = None
        if isinstance(memory, SyncMemory):
            # The one place outside the runtime that looks behind the synchronous face: it serves both colours at once.
            self.memory, self._portal = memory._memory, memory._portal  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
        else:
            self.memory = memory

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Do it and wait."""
        if self._portal is None:
            work.close()
            raise InputError(
                "This memory can only be awaited, and the agent was called without `await`.",
                why="A Memory lives on the event loop that opened it.",
                then="Call the agent with ainvoke or astream, or hand a SyncMemory to the adapter: it serves both.",
            )
        return self._portal.call(work)

    async def acall(self, work: Coroutine[Any, Any, T]) -> T:
        """Do it and await it, on whichever loop the memory lives."""
        if self._portal is None:
            return await work
        return await asyncio.wrap_future(self._portal.begin(work))
