"""What an open memory consists of, and what turns share of it.

Knows the parts by name, and remembers how models count. A remembered factor only saves a read; the store has the truth.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable
from dataclasses import dataclass, field

from memolog.domain.clock import Clock
from memolog.domain.errors import InputError, MemologError
from memolog.domain.message import NewMessage
from memolog.domain.run import Calibration
from memolog.runtime.compacting import Compacting
from memolog.runtime.contexts import Contexts
from memolog.runtime.core import Core
from memolog.runtime.missed import MissedContexts
from memolog.runtime.model import Model
from memolog.runtime.runner import Runner
from memolog.store import Store

__all__ = ["Kit", "Left"]

_log = logging.getLogger("memolog")

_DELAYS = (0.2, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """Messages of a turn that ended while the database was away."""

    resource: str
    thread: str
    turn: str
    messages: tuple[NewMessage, ...]
    missed: MissedContexts = field(default_factory=MissedContexts)
    """What the model was shown meanwhile, and is not recorded yet."""


@dataclass(slots=True, kw_only=True)
class Kit:
    """The parts of an open memory."""

    store: Store
    clock: Clock
    core: Core
    contexts: Contexts
    runner: Runner
    compacting: Compacting
    writer: Model | None = None
    """The model that writes when it is asked to; None: the embedded rules do."""
    left: list[Left] = field(default_factory=list[Left])
    """What turns could not save before they ended; it is saved as soon as the database allows."""
    factors: dict[tuple[str, str], float] = field(default_factory=dict[tuple[str, str], float])
    is_over: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the memory is closed: what is left is tried once more, and nobody waits for longer."""

    def leave(self, left: Left) -> None:
        """Keep what a turn could not save, and save it in the background."""
        self.left.append(left)
        self.runner.spawn(self._rescue_later())

    async def rescue(self, resource: str | None = None, thread: str | None = None) -> None:
        """Save what earlier turns left behind: all of it, or that of one thread, which comes before what is new."""
        for left in tuple(self.left):
            if resource is None or (left.resource, left.thread) == (resource, thread):
                try:
                    # Ids were given when it was said, so saving it twice is saving it once.
                    await self.store.messages.save(left.resource, left.thread, left.messages, turn=left.turn)
                    await left.missed.record(self.store, left.resource, left.thread)
                except InputError as error:
                    # It can never be saved, and must not keep others from it.
                    _log.error("%d messages of thread %s cannot be saved: %s", len(left.messages), left.thread, error)
                if left in self.left:
                    self.left.remove(left)

    async def _rescue_later(self) -> None:
        for delay in _DELAYS:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.is_over.wait(), delay)
            with contextlib.suppress(MemologError):
                await self.rescue()
                return
            if self.is_over.is_set():
                return

    async def factor(self, resource: str, model: str | None) -> float:
        """Return how many tokens the model counts for each of ours."""
        if model is None:
            return 1.0
        key = (resource, model)
        if key not in self.factors:
            self.factors[key] = (await self.store.ledger.calibration(resource, model)).factor
        return self.factors[key]

    async def calibrate(self, resource: str, model: str, learn: Callable[[Calibration], Calibration]) -> None:
        """Learn from what a provider reported."""
        known = await self.store.ledger.calibrate(resource, model, learn)
        self.factors[resource, model] = known.factor
