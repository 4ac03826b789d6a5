"""Stop calling a model once a budget in US dollars is spent.

Make one `BudgetedModel` for each run: it adds its own calls to what the ledger says, because the ledger is written when the run
ends. Concurrent runs do not see each other's calls, so each may exceed a limit by one call.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from memolog.domain.errors import MemologError
from memolog.runtime.model import Model, ModelReply, ModelRequest
from memolog.runtime.models.managed import Wrapper
from memolog.runtime.models.retry import complete_in_time

__all__ = ["BudgetSpent", "BudgetedModel", "Limit"]


class BudgetSpent(MemologError):
    """The budget is spent; the model was not called."""

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
    """What the budget is for, in one word: `thread`, `resource` or `database`."""
    dollars: float
    spent: Callable[[], Awaitable[float]]
    """Returns what the ledger says; if it raises, no call is made."""


class BudgetedModel(Wrapper):
    """Asks a model only while every limit has something left."""

    def __init__(self, model: Model, *limits: Limit) -> None:
        super().__init__(model)
        self._limits, self._passed = limits, 0.0

    async def complete(self, request: ModelRequest) -> ModelReply:
        """Return the model's answer, or raise BudgetSpent without asking it."""
        for limit in self._limits:
            spent = await limit.spent() + self._passed
            if spent >= limit.dollars:
                raise BudgetSpent(limit.of, limit.dollars, spent)
        reply = await complete_in_time(self._model, request)
        self._passed += reply.usage.cost if reply.usage else 0.0
        return reply
