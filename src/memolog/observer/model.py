"""The interface to language models: requests, replies, `complete`, errors and prices.

Also models that wrap others: with retries, with a budget, or around a function.
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

Purpose: TypeAlias = Literal["observe", "reflect"]
FinishReason: TypeAlias = Literal["stop", "length", "content_filter"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRequest:
    """What a model is asked: its instructions, and the text to work on."""

    purpose: Purpose
    system: str
    text: str
    temperature: float = 0.0
    max_tokens: int | None = None
    """How long the answer may be. Memolog always sets it, in proportion to the text; None leaves it to the model."""
    timeout: float | None = None
    """How many seconds one attempt may take. Memolog always sets it, from `model_timeout`; None leaves it to the model."""
    files: tuple[FilePart, ...] = ()
    """Images and documents that the text speaks of, for models that can see them."""
    options: Mapping[str, Any] = field(default_factory=nothing)
    """Further settings for the provider, passed on unchanged; None as a value removes a setting."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelReply:
    """What a model answered, what it cost, and why it stopped."""

    text: str
    usage: Usage | None = None
    finish_reason: FinishReason | None = None
    """Why the model stopped: "length" if it reached `max_tokens`, so that its end is missing; None if that is unknown."""

    @property
    def is_cut_off(self) -> bool:
        """Return whether the provider says that the end of the answer is missing."""
        return self.finish_reason == "length"


@runtime_checkable
class Model(Protocol):
    """Answers requests. May raise: the run is then tried again later, and no turn fails."""

    @property
    def name(self) -> str:
        """Return the name of the model in events, runs and the ledger."""
        ...

    async def complete(self, request: ModelRequest) -> ModelReply:
        """Return the answer to one request."""
        ...


class ManagedModel:
    """A model of ours that can be checked before its first call, and closed after its last."""

    def _inside(self) -> "Sequence[Model]":
        return ()

    async def check(self) -> None:
        """Raise ConfigError if no call can ever succeed: a key or a package is missing. Makes no call."""
        for model in self._inside():
            await check_model(model)

    async def aclose(self) -> None:
        """Close connections. The next call opens them again."""
        for model in self._inside():
            await close_model(model)


async def check_model(model: Model | None) -> None:
    """Raise ConfigError if this model cannot work as it is configured; makes no call and costs nothing."""
    if isinstance(model, ManagedModel):
        await model.check()


async def close_model(model: Model | None) -> None:
    """Close the connections of a managed model, and of the models within it."""
    if isinstance(model, ManagedModel):
        await model.aclose()


class ModelWrapper(ManagedModel):
    """A model that changes how another one is called."""

    def __init__(self, model: Model) -> None:
        self._model = model

    @property
    def name(self) -> str:
        """Return the name of the wrapped model."""
        return self._model.name

    def _inside(self) -> Sequence[Model]:
        return (self._model,)


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
    found: BaseException | None = error
    for _ in range(_DEEPEST):
        if found is None:
            return
        yield found
        found = found.__cause__ or (None if found.__suppress_context__ else found.__context__)


_MILLION = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """What a million tokens cost, in US dollars. Cached input costs as much as other input unless given."""

    input: float
    output: float
    cache_read: float | None = None
    cache_write: float | None = None

    def cost(self, usage: Usage) -> float:
        """Return what one call cost."""
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
"""How long one attempt may take if neither the model nor the request says it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """How often, how long, and how far apart the attempts of one call are."""

    attempts: int = 4
    first: float = 0.5
    """Seconds before the second attempt; each further wait is twice as long."""
    longest: float = 8.0
    total: float | None = None
    """Seconds after which no third attempt begins; None takes the time that one attempt may take. Every attempt that begins
    has its whole time."""
    chance: Callable[[], float] = random.random
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep
    time: Callable[[], float] = time.monotonic

    async def run(self, ask: Callable[[float], Awaitable[T]], seconds: float) -> T:
        """Return the result of `ask(seconds)`; ask again after a transport error."""
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
                # A second attempt is made even if the first used all of its time.
                if wait >= limit or (attempt > 1 and self.time() + wait >= end):
                    raise
            await self.sleep(wait)
            attempt += 1

    def wait(self, attempt: int, error: BaseException) -> float:
        """Return the seconds to wait after this many attempts: jittered, and after what the provider asked for."""
        base = min(self.longest, self.first * 2.0 ** min(attempt - 1, 20))
        jittered = base * (0.5 + 0.5 * self.chance())
        asked = error.retry_after if isinstance(error, ModelUnavailable) else None
        return jittered + max(0.0, asked or 0.0)


DEFAULT_RETRY: Final = Retry()


async def in_time(call: Awaitable[T], seconds: float, name: str) -> T:
    """Return what a call returns, unless it takes too long; it is then cancelled."""
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
            then="It is asked again later; if that happens often, raise model_timeout, or give it less to read "
            "(observation.prompt_tokens).",
        ) from error


async def complete_in_time(model: Model, request: ModelRequest) -> ModelReply:
    """Return a model's answer within the time of the request; managed models apply it to each attempt themselves."""
    if isinstance(model, ManagedModel) or request.timeout is None:
        return await model.complete(request)
    return await in_time(model.complete(request), request.timeout, model.name)


class RetryingModel(ModelWrapper):
    """Repeats a call after a transport error. For models that do not retry by themselves."""

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
    """Answers with what a function returns: a text, or a ModelReply with usage and cost.

    The function takes a ModelRequest. If it has arguments named `max_tokens` or `timeout`, it gets those of the request too.
    """

    def __init__(self, function: ModelFunction, *, name: str | None = None, timeout: float | None = None) -> None:
        self._function, self._timeout = function, timeout
        self._name = name or f"callable:{getattr(function, '__name__', type(function).__name__)}"
        call: Any = getattr(function, "__call__", None)  # noqa: B004 - a callable object may have an async method
        self._is_async = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call)
        self._named = _named_arguments(function)

    @property
    def name(self) -> str:
        """Return the name of the model in events, runs and the ledger."""
        return self._name

    @property
    def timeout(self) -> float | None:
        """Return how many seconds one call may take, if set; it takes precedence over `model_timeout`."""
        return self._timeout

    async def complete(self, request: ModelRequest) -> ModelReply:
        """Return what the function returns."""
        seconds = request.timeout or self._timeout or DEFAULT_SECONDS
        answer = await in_time(self._call(request), seconds, self._name)
        match answer:
            case ModelReply():
                return answer
            case str():
                return ModelReply(text=answer)
            case _:
                raise ConfigError(
                    f"The model {self._name} answered with a value of type {type(answer).__name__}.",
                    then="Let the function return a str, or a ModelReply.",
                )

    async def _call(self, request: ModelRequest) -> object:
        named = {name: getattr(request, name) for name in self._named}
        function: Any = self._function
        call: Callable[[], object] = partial(function, request, **named)
        answer: object = call() if self._is_async else await asyncio.to_thread(call)
        return await answer if inspect.isawaitable(answer) else answer


def _named_arguments(function: Any) -> tuple[str, ...]:
    """Return which limits of a request the function takes as named arguments."""
    try:
        parameters = list(inspect.signature(function).parameters.values())[1:]
    except (TypeError, ValueError):
        return ()
    return tuple(p.name for p in parameters if p.name in _LIMITS and p.kind is not inspect.Parameter.POSITIONAL_ONLY)


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


class BudgetedModel(ModelWrapper):
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
