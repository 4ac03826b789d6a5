"""Any function as a model.

Knows how to call functions of either colour. A plain function runs in a worker thread, so that it may wait for its provider
without holding the event loop; Python cannot stop such a thread, so a call that is given up ends by itself.
"""

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeAlias

from memolog.domain.errors import ConfigError
from memolog.runtime.model import ModelReply, ModelRequest
from memolog.runtime.models.retry import in_time

__all__ = ["CallableModel", "ModelFunction"]

ModelFunction: TypeAlias = Callable[[ModelRequest], str | ModelReply | Awaitable[str | ModelReply]]

_SECONDS: Final = 90.0


class CallableModel:
    """Answers with what a function returns: a text, or a ModelReply with usage and cost."""

    def __init__(self, function: ModelFunction, *, name: str | None = None, timeout: float = _SECONDS) -> None:
        self._function, self._timeout = function, timeout
        self._name = name or f"callable:{getattr(function, '__name__', type(function).__name__)}"
        call: Any = getattr(function, "__call__", None)  # noqa: B004 - an object's method tells its colour
        self._is_async = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call)

    @property
    def name(self) -> str:
        """Return how the function is called in events, runs and the ledger."""
        return self._name

    async def complete(self, request: ModelRequest) -> ModelReply:
        """Return what the function says."""
        seconds = self._timeout if request.timeout is None else request.timeout
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
        answer: object = self._function(request) if self._is_async else await asyncio.to_thread(self._function, request)
        return await answer if inspect.isawaitable(answer) else answer
