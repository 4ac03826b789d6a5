"""Classes for models and embedders: create a model, limit its cost, retry it, or fall back to another model."""

from memolog.observer.embedder_choice import (
    CallableEmbedder,
    EmbedderSpec,
    FastEmbedder,
    ProviderEmbedder,
    resolve_embedder,
)
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
from memolog.search.embedding import Embedded, Embedder

__all__ = [
    "BudgetSpent",
    "BudgetedModel",
    "CallableEmbedder",
    "CallableModel",
    "Embedded",
    "Embedder",
    "EmbedderSpec",
    "FallbackModel",
    "FastEmbedder",
    "Limit",
    "ModelAt",
    "ModelError",
    "ModelRefused",
    "ModelSpec",
    "ModelUnavailable",
    "NoModelAnswered",
    "Price",
    "ProviderEmbedder",
    "PydanticModel",
    "Retry",
    "RetryingModel",
    "TieredModel",
    "resolve_embedder",
    "resolve_model",
]
