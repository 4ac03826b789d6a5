"""Use a function as a model.

A plain function runs in a worker thread, so that it does not block the event loop. Python cannot stop a thread: a call that timed
out goes on until it returns.
"""

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final, TypeAlias

from memolog.domain.errors import ConfigError
from memolog.runtime.model import ModelReply, ModelRequest
from memolog.runtime.models.retry import DEFAULT_SECONDS, in_time

__all__ = ["CallableModel", "ModelFunction"]

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
        """Return how the function is called in events, runs and the ledger."""
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
