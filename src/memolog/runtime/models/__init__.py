"""Make models from what a user writes; wrap them to retry, choose by size, fall back and stop at a budget."""

from memolog.runtime.models.budget import BudgetedModel, BudgetSpent, Limit
from memolog.runtime.models.callable_model import CallableModel
from memolog.runtime.models.errors import ModelError, ModelRefused, ModelUnavailable, cause_of, is_transport_error
from memolog.runtime.models.fallback import FallbackModel, NoModelAnswered
from memolog.runtime.models.managed import Managed, check_model, close_model
from memolog.runtime.models.price import Price
from memolog.runtime.models.pydantic_model import ModelAt, PydanticModel
from memolog.runtime.models.resolve import ModelPair, ModelSpec, models_for, needed_model, resolve_model
from memolog.runtime.models.retry import Retry, RetryingModel
from memolog.runtime.models.tiers import TieredModel

__all__ = [
    "BudgetSpent",
    "BudgetedModel",
    "CallableModel",
    "FallbackModel",
    "Limit",
    "Managed",
    "ModelAt",
    "ModelError",
    "ModelPair",
    "ModelRefused",
    "ModelSpec",
    "ModelUnavailable",
    "NoModelAnswered",
    "Price",
    "PydanticModel",
    "Retry",
    "RetryingModel",
    "TieredModel",
    "cause_of",
    "check_model",
    "close_model",
    "is_transport_error",
    "models_for",
    "needed_model",
    "resolve_model",
]
