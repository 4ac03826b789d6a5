"""What an open memory consists of, and what turns share of it.

Knows the parts by name, and remembers how models count. A remembered factor only saves a read; the store has the truth.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from memolog.domain.clock import Clock
from memolog.domain.run import Calibration
from memolog.runtime.contexts import Contexts
from memolog.runtime.core import Core
from memolog.runtime.runner import Runner
from memolog.store import Store

__all__ = ["Kit"]


@dataclass(slots=True, kw_only=True)
class Kit:
    """The parts of an open memory."""

    store: Store
    clock: Clock
    core: Core
    contexts: Contexts
    runner: Runner
    factors: dict[tuple[str, str], float] = field(default_factory=dict[tuple[str, str], float])

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
