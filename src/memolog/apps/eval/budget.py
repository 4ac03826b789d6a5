"""Count the cost of every model call, and call no model once the budget could be exceeded."""

import asyncio
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from memolog import Model, ModelReply, ModelRequest
from memolog.apps.eval.results import Call, Results
from memolog.core.message import ToolCallPart
from memolog.core.run import Usage
from memolog.errors import InputError, MemologError
from memolog.models import BudgetSpent, Price
from memolog.text.tokens import HeuristicCounter

COUNTER: Final = HeuristicCounter()
# The output of a call without a limit of its own.
_OUTPUT_TOKENS: Final = 4_000
# A call is expected to cost at most this many times what the dearest call of the same size has cost until now.
_SAFETY: Final = 1.5


def tokens_of(usage: Usage) -> int:
    """Return all tokens of a call."""
    return usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens + usage.output_tokens


class BudgetReached(MemologError):
    """The next call could exceed the budget of the evaluation."""

    def __init__(self, dollars: float, spent: float) -> None:
        super().__init__(
            f"The budget of {dollars:g} US dollars is reached: {spent:.4f} are spent, and the next call could exceed it.",
            then="What was done is stored. Run the same command with a higher --budget to continue.",
        )


@dataclass(kw_only=True)
class Purse:
    """The budget of an evaluation. The calls of earlier runs with the same file count too."""

    results: Results
    dollars: float | None = None
    is_reached: bool = False
    problem: InputError | None = None
    """Why the budget cannot be kept."""
    _held: float = 0.0
    _rates: dict[str, float] = field(default_factory=dict[str, float])
    """By model, the highest cost of a token until now."""
    _first: dict[str, asyncio.Lock] = field(default_factory=dict[str, asyncio.Lock])

    def check(self) -> None:
        """Raise BudgetReached if a call was refused, and InputError if the budget cannot be kept."""
        if self.problem is not None:
            raise self.problem
        if self.is_reached:
            raise BudgetReached(self.dollars or 0.0, self.results.spent())

    def refuse(self) -> "BudgetReached":
        """Remember that the budget is reached, and return the error."""
        self.is_reached = True
        return BudgetReached(self.dollars or 0.0, self.results.spent())

    @contextmanager
    def holding(self, dollars: float) -> Generator[None]:
        """Reserve the expected cost of a call. Raise BudgetReached if it does not fit."""
        if self.dollars is not None and (self.is_reached or self.results.spent() + self._held + dollars > self.dollars):
            raise self.refuse()
        self._held += dollars
        try:
            yield
        finally:
            self._held -= dollars

    def expected(self, model: str, price: Price | None, read: int, written: int) -> float | None:
        """Return the most that a call is expected to cost. None if no call of the model has shown its price yet."""
        if price is not None:
            return price.cost(Usage(model=model, input_tokens=read, output_tokens=written))
        rate = self._rates.get(model)
        return None if rate is None else rate * (read + written) * _SAFETY

    def learn(self, model: str, usage: Usage) -> None:
        """Remember the cost of a token of a model."""
        tokens = tokens_of(usage)
        if tokens and not usage.cost and self.dollars is not None:
            self.problem = InputError(
                f"The price of the model {model} is unknown, so the budget cannot be kept.",
                then=f'Pass its price, in US dollars for a million tokens of input and of output: --price "{model}=0.25/2".',
            )
        if tokens:
            self._rates[model] = max(self._rates.get(model, 0.0), usage.cost / tokens)

    def first_call(self, model: str) -> asyncio.Lock:
        """Return the lock under which the first call of a model is made, because its price is unknown."""
        return self._first.setdefault(model, asyncio.Lock())


class MeteredModel:
    """Calls a model within the budget, and stores the cost of each call under a role, a history, a question and an arm."""

    def __init__(
        self,
        model: Model,
        purse: Purse,
        *,
        role: str,
        history: str,
        question: str = "",
        arm: str = "",
        price: Price | None = None,
    ) -> None:
        self._model, self._purse, self._price = model, purse, price
        self._role, self._history, self._question, self._arm = role, history, question, arm
        self.name = model.name

    @property
    def takes_tools(self) -> bool:
        """Return whether the model can be offered tools."""
        return callable(getattr(self._model, "converse", None))

    async def complete(self, request: ModelRequest) -> ModelReply:
        """Return the model's answer. Raises BudgetSpent, which a memory understands, if the budget is reached."""
        read = COUNTER.count(request.system) + COUNTER.count(request.text)
        return await self._within(request, read, lambda: self._model.complete(request))

    async def converse(
        self, messages: Sequence[Any], request: ModelRequest, tools: Sequence[Mapping[str, Any]]
    ) -> tuple[ModelReply, tuple[ToolCallPart, ...]]:
        """Return the model's answer to a conversation, and the tool calls that it asks for."""
        calls: tuple[ToolCallPart, ...] = ()

        async def ask() -> ModelReply:
            nonlocal calls
            inner: Any = self._model
            reply, calls = await inner.converse(messages, request, tools)
            return reply

        read = COUNTER.count(request.system) + COUNTER.count(request.text)
        return await self._within(request, read, ask), calls

    async def _within(self, request: ModelRequest, read: int, ask: Any) -> ModelReply:
        purse, written = self._purse, request.max_tokens or _OUTPUT_TOKENS
        try:
            if purse.dollars is None:
                return self._counted(await ask(), read)
            cost = purse.expected(self.name, self._price, read, written)
            if cost is not None:
                with purse.holding(cost):
                    return self._counted(await ask(), read)
            async with purse.first_call(self.name):
                if purse.problem is not None:
                    raise purse.refuse()
                with purse.holding(purse.expected(self.name, self._price, read, written) or 0.0):
                    return self._counted(await ask(), read)
        except BudgetReached as error:
            raise BudgetSpent("evaluation", purse.dollars or 0.0, purse.results.spent()) from error

    def _counted(self, reply: ModelReply, read: int) -> ModelReply:
        usage = reply.usage
        if usage is None or not tokens_of(usage):
            # Some servers do not count. Without an estimate their calls would cost nothing, and no budget would be kept.
            usage = Usage(model=self.name, input_tokens=read, output_tokens=COUNTER.count(reply.text))
        if self._price is not None and not usage.cost:
            usage = Usage(
                model=usage.model,
                input_tokens=usage.input_tokens,
                output_tokens=usage.output_tokens,
                cache_read_tokens=usage.cache_read_tokens,
                cache_write_tokens=usage.cache_write_tokens,
                cost=self._price.cost(usage),
                kind=usage.kind,
            )
        self._purse.learn(self.name, usage)
        self._purse.results.put_call(
            Call(
                role=self._role,
                history=self._history,
                question=self._question,
                arm=self._arm,
                model=usage.model,
                input_tokens=usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens,
                output_tokens=usage.output_tokens,
                cost=usage.cost,
            )
        )
        return reply
