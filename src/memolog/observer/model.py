"""The interface to language models: requests, replies, errors and prices.

The module also has models that add retries or a budget to another model, and a model that calls a function.
"""

import asyncio
import inspect
import random
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final, Literal, Protocol, TypeAlias, TypeVar, runtime_checkable

from memolog.core.exact_json import nothing
from memolog.core.message import FilePart
from memolog.core.run import Usage
from memolog.errors import ConfigError, MemologError
from memolog.text.error_text import error_text

Purpose: TypeAlias = Literal["observe", "reflect", "turn", "other"]
"""What a request is for. A memory observes and reflects; `memolog eval` also asks questions (turn) and judges (other)."""
FinishReason: TypeAlias = Literal["stop", "length", "content_filter"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRequest:
    """A request to a model, with instructions and a text to work on."""

    purpose: Purpose
    system: str
    text: str
    temperature: float = 0.0
    max_tokens: int | None = None
    """The maximum tokens of the answer. Memolog always sets this, in proportion to the text. None means the model's default."""
    timeout: float | None = None
    """The maximum seconds of one attempt. Memolog always sets this, from `model_timeout`. None means the model's default."""
    files: tuple[FilePart, ...] = ()
    """Images and documents that the text mentions, for models that accept them."""
    options: Mapping[str, Any] = field(default_factory=nothing)
    """Further settings, which are passed to the provider unchanged. A value of None removes a setting."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelReply:
    """The answer of a model, with its usage and the reason why the model stopped."""

    text: str
    usage: Usage | None = None
    finish_reason: FinishReason | None = None
    """Why the model stopped. With "length" the answer reached `max_tokens` and its end is missing. None means unknown."""

    @property
    def is_cut_off(self) -> bool:
        """Return whether the provider says that the end of the answer is missing."""
        return self.finish_reason == "length"


@runtime_checkable
class Model(Protocol):
    """Answers requests. If `complete` raises, the run is tried again later, and no turn fails."""

    @property
    def name(self) -> str:
        """Return the name of the model in events, runs and the ledger."""
        ...

    async def complete(self, request: ModelRequest) -> ModelReply:
        """Return the answer to one request."""
        ...


class ManagedModel:
    """A model that can be checked before its first call and closed after its last call."""

    def _inside(self) -> "Sequence[Model]":
        return ()

    async def check(self) -> None:
        """Raise ConfigError if every call would fail, for example because a key or a package is missing. Makes no call."""
        for model in self._inside():
            await check_model(model)

    async def aclose(self) -> None:
        """Close all connections. The next call opens new ones."""
        for model in self._inside():
            await close_model(model)


async def check_model(model: Model | None) -> None:
    """Raise ConfigError if the configuration of this model makes every call fail. Makes no call."""
    if isinstance(model, ManagedModel):
        await model.check()


async def close_model(model: Model | None) -> None:
    """Close the connections of a managed model, and of the models that it wraps."""
    if isinstance(model, ManagedModel):
        await model.aclose()


class ModelWrapper(ManagedModel):
    """A model that wraps another model and changes how that model is called."""

    def __init__(self, model: Model) -> None:
        self._model = model

    @property
    def name(self) -> str:
        """Return the name of the wrapped model."""
        return self._model.name

    def _inside(self) -> Sequence[Model]:
        return (self._model,)


Cause: TypeAlias = Literal["refused", "denied", "away"]
"""Why a call failed: the content was refused, the call is not allowed ("denied"), or the model was not reached ("away")."""

# After one of these statuses (timeout, conflict, too early, too many requests), or 500 and above, the same call may succeed.
_PASSING: Final = frozenset({408, 409, 425, 429})
_SERVER_FAULT: Final = 500
# Statuses about the content of a request. Other statuses are about the key, the model or the bill.
_ABOUT_THE_REQUEST: Final = frozenset({400, 406, 413, 415, 422, 451})
_STATUS_NAMES: Final = ("status_code", "status", "code", "http_status")
_STATUSES: Final = range(400, 600)
_DEEPEST: Final = 10  # maximum number of causes of an error that are searched
# Names of connection errors of common clients. These classes do not always derive from ConnectionError.
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
    """The model cannot be reached, is too slow or too busy, or its server failed. The same call may succeed later."""

    retryable = True

    def __init__(self, what: str, *, why: str = "", then: str = "", retry_after: float | None = None) -> None:
        super().__init__(what, why=why, then=then)
        self.retry_after = retry_after
        """The seconds to wait before the next call, if the provider asked for that."""


class ModelRefused(ModelError):
    """The provider refused the call. The same call will fail again until the request or the configuration is changed."""


def is_transport_error(error: BaseException) -> bool:
    """Return whether the connection or the server failed, so that the same call may succeed later.

    An error of any client is recognised by its HTTP status, or by a connection error among its causes.
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
    """Return the HTTP status of an error or of one of its causes; None if none of them has a status."""
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


def reason_of(error: BaseException, request: "ModelRequest") -> str:
    """Return the type and the text of an error for events and logs, without passages that also occur in the prompt."""
    return error_text(error, request.text)


def _causes(error: BaseException) -> Iterator[BaseException]:
    found: BaseException | None = error
    for _ in range(_DEEPEST):
        if found is None:
            return
        yield found
        found = found.__cause__ or (None if found.__suppress_context__ else found.__context__)


_MILLION = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """The prices of a million tokens in US dollars. A cache price of None means the price of input."""

    input: float
    output: float
    cache_read: float | None = None
    cache_write: float | None = None

    def cost(self, usage: Usage) -> float:
        """Return the cost of one call in US dollars."""
        read = self.input if self.cache_read is None else self.cache_read
        write = self.input if self.cache_write is None else self.cache_write
        dollars = (
            usage.input_tokens * self.input
            + usage.output_tokens * self.output
            + usage.cache_read_tokens * read
            + usage.cache_write_tokens * write
        )
        return dollars / _MILLION


T = TypeVar("T")

DEFAULT_SECONDS: Final = 120.0
"""The maximum seconds of one attempt if neither the model nor the request has a timeout."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """The number of attempts of one call, and the waits between them."""

    attempts: int = 4
    """The maximum number of attempts, including the first."""
    first: float = 0.5
    """The seconds before the second attempt. Each further wait is twice as long."""
    longest: float = 8.0
    """The maximum seconds of one wait, not including the wait that the provider asked for."""
    total: float | None = None
    """No third or later attempt begins after this many seconds, and no attempt follows a wait of this many seconds. None means
    the timeout of one attempt. An attempt that has begun may use its whole timeout."""
    chance: Callable[[], float] = random.random
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep
    time: Callable[[], float] = time.monotonic

    async def run(self, ask: Callable[[float], Awaitable[T]], seconds: float) -> T:
        """Return the result of `ask(seconds)`, and call it again after a transport error."""
        limit = seconds if self.total is None else self.total
        end = self.time() + limit
        attempt = 1
        while True:
            try:
                return await ask(seconds)
            except Exception as error:
                if attempt >= self.attempts or not is_transport_error(error):
                    raise
                wait = self.wait(attempt, error)
                # A second attempt is made even if the first attempt lasted until its timeout.
                if wait >= limit or (attempt > 1 and self.time() + wait >= end):
                    raise
            await self.sleep(wait)
            attempt += 1

    def wait(self, attempt: int, error: BaseException) -> float:
        """Return the seconds to wait after attempt `attempt`: a random wait plus the seconds that the provider asked for."""
        base = min(self.longest, self.first * 2.0 ** min(attempt - 1, 20))
        jittered = base * (0.5 + 0.5 * self.chance())
        asked = error.retry_after if isinstance(error, ModelUnavailable) else None
        return jittered + max(0.0, asked or 0.0)


DEFAULT_RETRY: Final = Retry()


async def in_time(call: Awaitable[T], seconds: float, name: str) -> T:
    """Return the result of a call. If it takes more than `seconds`, cancel the call and raise ModelUnavailable."""
    limit = asyncio.timeout(seconds)
    try:
        async with limit:
            return await call
    except TimeoutError as error:
        if not limit.expired():
            raise
        raise ModelUnavailable(
            f"The model {name} did not answer within {seconds:g} s.",
            why="The call was cancelled.",
            then="The model is asked again later. If this happens often, raise model_timeout, or make prompts shorter "
            "(observation.prompt_tokens).",
        ) from error


async def complete_in_time(model: Model, request: ModelRequest) -> ModelReply:
    """Return a model's answer within the timeout of the request. A managed model applies the timeout to each attempt."""
    if isinstance(model, ManagedModel) or request.timeout is None:
        return await model.complete(request)
    return await in_time(model.complete(request), request.timeout, model.name)


class RetryingModel(ModelWrapper):
    """Repeats a call after a transport error. Use it for models that do not retry."""

    def __init__(self, model: Model, retry: Retry = DEFAULT_RETRY) -> None:
        super().__init__(model)
        self._retry = retry

    async def complete(self, request: ModelRequest) -> ModelReply:
        """Return the answer of the first attempt that succeeds."""

        async def ask(seconds: float) -> ModelReply:
            return await in_time(self._model.complete(replace(request, timeout=seconds)), seconds, self.name)

        return await self._retry.run(ask, DEFAULT_SECONDS if request.timeout is None else request.timeout)


ModelFunction: TypeAlias = Callable[[ModelRequest], str | ModelReply | Awaitable[str | ModelReply]]

_LIMITS: Final = frozenset({"max_tokens", "timeout"})


class CallableModel:
    """Answers with the result of a function, which returns a text, or a ModelReply with usage and cost.

    The function is called with a ModelRequest. If it has parameters named `max_tokens` or `timeout`, these are passed too.
    """

    def __init__(self, function: ModelFunction, *, name: str | None = None, timeout: float | None = None) -> None:
        self._function = function
        self.name = name or f"callable:{getattr(function, '__name__', type(function).__name__)}"
        self.timeout = timeout
        """The maximum seconds of one call, which take precedence over `model_timeout`; None if not set."""
        call: Any = getattr(function, "__call__", None)  # noqa: B004 - a callable object may have an async method
        self._is_async = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call)
        self._named = _named_arguments(function)

    async def complete(self, request: ModelRequest) -> ModelReply:
        """Return the answer of the function."""
        seconds = request.timeout or self.timeout or DEFAULT_SECONDS
        answer = await in_time(self._call(request), seconds, self.name)
        match answer:
            case ModelReply():
                return answer
            case str():
                return ModelReply(text=answer)
            case _:
                raise ConfigError(
                    f"The model {self.name} answered with a value of type {type(answer).__name__}.",
                    then="Return a str or a ModelReply from the function.",
                )

    async def _call(self, request: ModelRequest) -> object:
        named = {name: getattr(request, name) for name in self._named}
        function: Any = self._function
        call: Callable[[], object] = partial(function, request, **named)
        answer: object = call() if self._is_async else await asyncio.to_thread(call)
        return await answer if inspect.isawaitable(answer) else answer


def _named_arguments(function: Any) -> tuple[str, ...]:
    try:
        parameters = list(inspect.signature(function).parameters.values())[1:]
    except (TypeError, ValueError):
        return ()
    return tuple(p.name for p in parameters if p.name in _LIMITS and p.kind is not inspect.Parameter.POSITIONAL_ONLY)


class BudgetSpent(MemologError):
    """The budget is spent, so the model was not called."""

    def __init__(self, of: str, dollars: float, spent: float) -> None:
        super().__init__(
            f"The budget of {dollars:g} US dollars for this {of} is spent: {spent:.4f} so far.",
            why="The budget is checked before every call, so the model was not called.",
            then="Raise `budget`, or use a cheaper model. No message is lost: new messages are observed after that.",
        )
        self.of, self.dollars, self.spent = of, dollars, spent


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """The maximum cost of a thread, a resource or a database."""

    of: str
    """What the budget is for: `thread`, `resource` or `database`."""
    dollars: float
    spent: Callable[[], Awaitable[float]]
    """Returns the dollars spent until now, from the ledger. If it raises, the model is not called."""


class BudgetedModel(ModelWrapper):
    """Calls a model only while no limit is reached."""

    def __init__(self, model: Model, *limits: Limit) -> None:
        super().__init__(model)
        # The ledger does not contain the cost of calls through this object yet, so `complete` adds this cost.
        self._limits, self._cost = limits, 0.0

    async def complete(self, request: ModelRequest) -> ModelReply:
        """Return the model's answer, or raise BudgetSpent without calling the model."""
        for limit in self._limits:
            spent = await limit.spent() + self._cost
            if spent >= limit.dollars:
                raise BudgetSpent(limit.of, limit.dollars, spent)
        reply = await complete_in_time(self._model, request)
        self._cost += reply.usage.cost if reply.usage else 0.0
        return reply
