"""Classes for the models that observe and reflect: create a model, limit its cost, retry it, or fall back to another model."""

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
from memolog.observer.model_choice import (
    FallbackModel,
    ModelAt,
    ModelSpec,
    NoModelAnswered,
    PydanticModel,
    TieredModel,
    resolve_model,
)

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
