"""Models that observe and reflect: build one, limit its cost, retry it, or fall back to another."""

from memolog.observer.model import (
    BudgetedModel,
    BudgetSpent,
    CallableModel,
    Limit,
    ModelError,
    ModelRefused,
    ModelUnavailable,
    Price,
    Retry,
    RetryingModel,
)
from memolog.observer.model_choice import FallbackModel, ModelSpec, NoModelAnswered, TieredModel, resolve_model
from memolog.observer.pydantic_model import ModelAt, PydanticModel

__all__ = [
    "BudgetSpent",
    "BudgetedModel",
    "CallableModel",
    "FallbackModel",
    "Limit",
    "ModelAt",
    "ModelError",
    "ModelRefused",
    "ModelSpec",
    "ModelUnavailable",
    "NoModelAnswered",
    "Price",
    "PydanticModel",
    "Retry",
    "RetryingModel",
    "TieredModel",
    "resolve_model",
]
