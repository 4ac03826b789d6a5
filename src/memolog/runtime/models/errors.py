"""Errors of model calls, and which of them are worth a retry.

MemologError
├── ModelError              a model gave no answer
│   ├── ModelUnavailable    may pass: no connection, too slow, too many requests, the server failed
│   ├── ModelRefused        permanent: a wrong key, an unknown model, a request it does not accept
│   └── NoModelAnswered     a model and all its fallbacks failed
└── BudgetSpent             not called, because the budget is spent
"""

from collections.abc import Iterator
from typing import Any, Final, Literal, TypeAlias

from memolog.domain.errors import ConfigError, MemologError

__all__ = [
    "Cause",
    "ModelError",
    "ModelRefused",
    "ModelUnavailable",
    "cause_of",
    "is_transport_error",
    "status_of",
]

Cause: TypeAlias = Literal["refused", "denied", "away"]
"""Why a call failed: it was refused for what it says, not allowed at all, or the model could not be reached."""

# Timeout, conflict, too early, too many requests; 500 and above are errors of the server.
_PASSING: Final = frozenset({408, 409, 425, 429})
_SERVER_FAULT: Final = 500
# Statuses about the content of a request; others are about the key, the model or the bill.
_ABOUT_THE_REQUEST: Final = frozenset({400, 406, 413, 415, 422, 451})
_STATUS_NAMES: Final = ("status_code", "status", "code", "http_status")
_STATUSES: Final = range(400, 600)
_DEEPEST: Final = 10
# Connection errors of common clients, which need not derive from those of Python.
_CONNECTION_ERRORS: Final = frozenset(
    {
        "APIConnectionError",
        "ClientConnectionError",
        "ConnectError",
        "IncompleteRead",
        "NetworkError",
        "ProtocolError",
        "ServerDisconnectedError",
        "TimeoutException",
        "Timeout",
        "TransportError",
        "gaierror",
    }
)


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
    """Return whether an error is of the transport, so that the same call may succeed later.

    Recognises the errors of any client by their HTTP status, or by a connection error among their causes.
    """
    if isinstance(error, ModelError):
        return error.retryable
    if isinstance(error, MemologError):
        return False
    status = status_of(error)
    if status is not None:
        return status in _PASSING or status >= _SERVER_FAULT
    return any(
        isinstance(cause, ConnectionError | TimeoutError)
        or (isinstance(cause, ModelError) and cause.retryable)
        or not _CONNECTION_ERRORS.isdisjoint(kind.__name__ for kind in type(cause).__mro__)
        for cause in _causes(error)
    )


def cause_of(error: BaseException) -> Cause:
    """Return why a call failed."""
    if is_transport_error(error):
        return "away"
    status = status_of(error)
    is_denied = isinstance(error, ConfigError) or (status is not None and status not in _ABOUT_THE_REQUEST)
    return "denied" if is_denied else "refused"


def status_of(error: BaseException) -> int | None:
    """Return the HTTP status that an error or one of its causes carries; None if there is none."""
    for cause in _causes(error):
        response: Any = getattr(cause, "response", None)
        for holder in (cause, response):
            for name in _STATUS_NAMES:
                value: Any = getattr(holder, name, None)
                if isinstance(value, str) and value.isdecimal():
                    value = int(value)
                if isinstance(value, int) and value in _STATUSES:
                    return int(value)
    return None


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and what caused it, the nearest first."""
    found: BaseException | None = error
    for _ in range(_DEEPEST):
        if found is None:
            return
        yield found
        found = found.__cause__ or (None if found.__suppress_context__ else found.__context__)
