"""What can go wrong between a question and its answer.

Knows which failures pass by themselves. Knows no provider: whoever wraps one translates its errors into these.

    MemologError
    ├── ModelError              a model gave no answer
    │   ├── ModelUnavailable    not now: no connection, too slow, too many requests, the server failed
    │   ├── ModelRefused        never: a wrong key, an unknown model, a request it does not take
    │   └── NoModelAnswered     a model and all its stand-ins failed
    └── BudgetSpent             it was not asked, because the money is gone
"""

from memolog.domain.errors import MemologError

__all__ = ["ModelError", "ModelRefused", "ModelUnavailable", "is_transport_error"]


class ModelError(MemologError):
    """A model gave no answer."""


class ModelUnavailable(ModelError):
    """The model cannot be reached, is too slow, too busy, or its server failed: the same call may succeed later."""

    retryable = True

    def __init__(self, what: str, *, why: str = "", then: str = "", retry_after: float | None = None) -> None:
        super().__init__(what, why=why, then=then)
        self.retry_after = retry_after
        """How many seconds the provider asked to wait, if it said."""


class ModelRefused(ModelError):
    """The provider refused the call: the same call will fail again until something is changed."""


def is_transport_error(error: BaseException) -> bool:
    """Tell whether the way to the model failed, so that the same call may be made again at once."""
    if isinstance(error, ModelError):
        return error.retryable
    return isinstance(error, ConnectionError | TimeoutError)
