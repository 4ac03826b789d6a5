"""Compute the expected tokens and the cost of an evaluation before any model is called, from ratios that were measured."""

import importlib
from dataclasses import dataclass
from typing import Any, Final

from memolog import Config, Model
from memolog.apps.eval.arms import Arm
from memolog.apps.eval.budget import COUNTER
from memolog.apps.eval.datasets import History
from memolog.apps.eval.evaluation import Plan
from memolog.core.run import Usage

OBSERVER_OVERHEAD: Final = 1_250
"""Tokens of the instructions of an observer, in every call (measured with `talks` and LongMemEval)."""
SENT: Final = 1.32
"""Tokens of messages and earlier log that an observer reads for each token of conversation (`talks`; 0.77 in LongMemEval)."""
KEPT: Final = 0.2
"""Tokens of the log for each token of conversation (docs/models.md)."""
# A search shows about this much, a question is asked with about two searches, and then the model reads everything once more.
_FOUND_TOKENS: Final = 800
_SEARCHES: Final = 2
_INSTRUCTIONS: Final = 250
_MEMORY_TEXTS: Final = 500
_TOOL_TOKENS: Final = 1_500
_ANSWER_TOKENS: Final = 120
_JUDGE_READ: Final = 400
_JUDGE_WRITTEN: Final = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """The expected calls of one model in one role."""

    role: str
    arm: str
    model: str
    calls: int
    read: int
    written: int
    dollars: float | None
    """None if the price of the model is unknown."""


def forecast(plan: Plan) -> list[Expected]:
    """Return what each model is expected to do. What needs no model is left out."""
    config, models = plan.data.config(plan.config), plan.models
    rows = list[Expected]()
    if any(arm.uses_memory for arm in plan.arms):
        observed = [_observed(history, config) for history in plan.data.histories]
        if models.observe is not None:
            calls = sum(one[0] for one in observed)
            raw = sum(one[1] for one in observed)
            read = round(calls * OBSERVER_OVERHEAD + raw * SENT)
            rows.append(_row(plan, "observe", "", models.observe, calls, read, round(raw * KEPT)))
        if models.reflect is not None:
            logs = [raw * KEPT for _, raw in observed if raw * KEPT > config.reflect_background_at]
            calls = sum(max(1, round(log / config.reflect_background_at)) for log in logs)
            read = round(calls * (OBSERVER_OVERHEAD + config.reflect_background_at))
            rows.append(_row(plan, "reflect", "", models.reflect, calls, read, read // 2))
    count = len(plan.data.questions)
    for arm in plan.arms:
        if models.answer is not None:
            sizes = [_context(arm, history, config) for history, _ in plan.data.questions]
            rounds = 1 + _SEARCHES if arm.uses_search else 1
            rows.append(
                _row(
                    plan,
                    "answer",
                    arm.name,
                    models.answer,
                    count * rounds,
                    sum(sizes) * rounds,
                    count * rounds * _ANSWER_TOKENS,
                )
            )
        if models.judge is not None:
            statements = sum(max(1, len(question.rubric)) for _, question in plan.data.questions) * plan.votes
            rows.append(
                _row(
                    *(plan, "judge", arm.name, models.judge),
                    statements,
                    statements * _JUDGE_READ,
                    statements * _JUDGE_WRITTEN,
                )
            )
    return [row for row in rows if row.calls]


def _raw(history: History) -> int:
    return sum(COUNTER.count(said.text) for said in history.messages)


def _observed(history: History, config: Config) -> tuple[int, int]:
    """Return the number of observer calls for a history, and its tokens."""
    raw = _raw(history)
    steps = raw // (config.buffer_step or config.threshold)
    return max(steps, len(history.sessions) if history.scope == "resource" else 1), raw


def _context(arm: Arm, history: History, config: Config) -> int:
    """Return the expected size of a context."""
    raw, searched = _raw(history), _FOUND_TOKENS * _SEARCHES + _TOOL_TOKENS if arm.uses_search else 0
    if arm.uses_log:
        tail = min(raw, config.threshold) if history.scope == "thread" else 0
        return round(_INSTRUCTIONS + _MEMORY_TEXTS + min(raw * KEPT, config.reflect_at) + tail + searched)
    if arm.uses_search:
        return _INSTRUCTIONS + searched
    if arm.only_evidence:
        return _INSTRUCTIONS + raw // max(1, len(history.sessions))
    share = min(1.0, arm.last / max(1, len(history.messages))) if arm.last else 1.0
    return round(_INSTRUCTIONS + raw * share)


def _row(plan: Plan, role: str, arm: str, model: Model, calls: int, read: int, written: int) -> Expected:
    price = plan.price_of(model)
    usage = Usage(model=model.name, input_tokens=read, output_tokens=written)
    dollars = _listed(model.name, usage) if price is None else price.cost(usage)
    return Expected(role=role, arm=arm, model=model.name, calls=calls, read=read, written=written, dollars=dollars)


def _listed(name: str, usage: Usage) -> float | None:
    """Return the cost by the price list that comes with pydantic-ai. None if the list or the model is not there."""
    provider, _, model = name.partition(":")
    try:
        prices: Any = importlib.import_module("genai_prices")
        counted = prices.Usage(input_tokens=usage.input_tokens, output_tokens=usage.output_tokens)
        return float(prices.calc_price(counted, model, provider_id=provider.partition("-")[0]).total_price)
    except (ImportError, LookupError, AttributeError, ValueError):
        return None
