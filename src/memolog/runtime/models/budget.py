"""A hard budget: checked before every call, in US dollars.

Knows limits and sums. What was spent is asked of whoever keeps the books; what this guard itself let through is added, because
the books hear of it only when the run has ended. So make one guard for each run. Runs at the same time do not see each other's
calls: together they may pass a limit by one call each.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from memolog.domain.errors import MemologError
from memolog.runtime.model import Model, ModelReply, ModelRequest
from memolog.runtime.models.managed import Managed, check_model, close_model
from memolog.runtime.models.retry import complete_in_time

__all__ = ["BudgetSpent", "BudgetedModel", "Limit"]


class BudgetSpent(MemologError):
    """The money for this is spent; the model was not asked."""

    def __init__(self, of: str, dollars: float, spent: float) -> None:
        super().__init__(
            f"The budget of {dollars:g} US dollars for this {of} is spent: {spent:.4f} so far.",
            why="It is checked before every call, and the model was not asked.",
            then="Raise `budget`, or name a cheaper model; messages are kept, and what is due is observed then.",
        )
        self.of, self.dollars, self.spent = of, dollars, spent


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """How much may be spent on one thing: a run, a thread, a resource."""

    of: str
    """What the money is for, in one word that a person understands."""
    dollars: float
    spent: Callable[[], Awaitable[float]]
    """Returns what the books say; where it raises no call is made, because a limit that cannot be read might be passed."""


class BudgetedModel(Managed):
    """Asks a model only while every limit has something left."""

    def __init__(self, model: Model, *limits: Limit) -> None:
        self._model, self._limits, self._passed = model, limits, 0.0

    @property
    def name(self) -> str:
        """Return the name of the model that is asked."""
        return self._model.name

    async def complete(self, request: ModelRequest) -> ModelReply:
        """Return the model's answer, or raise BudgetSpent without asking it."""
        for limit in self._limits:
            spent = await limit.spent() + self._passed
            if spent >= limit.dollars:
                raise BudgetSpent(limit.of, limit.dollars, spent)
        reply = await complete_in_time(self._model, request)
        self._passed += reply.usage.cost if reply.usage else 0.0
        return reply

    async def check(self) -> None:
        """Check the model that is asked."""
        await check_model(self._model)

    async def aclose(self) -> None:
        """Close the model that is asked."""
        await close_model(self._model)
