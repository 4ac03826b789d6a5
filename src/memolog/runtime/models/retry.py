"""Repeat a model call after a transport error, and limit how long it takes.

Other errors and cancelled calls are not repeated: a run that fails here is tried again much later.
"""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from memolog.runtime.model import Model, ModelReply, ModelRequest
from memolog.runtime.models.errors import ModelUnavailable, is_transport_error
from memolog.runtime.models.managed import Managed, Wrapper

__all__ = ["DEFAULT_RETRY", "DEFAULT_SECONDS", "Retry", "RetryingModel", "complete_in_time", "in_time"]

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
        """Return what `ask` returns, which is told how many seconds it has; ask again after a transport error."""
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
    """Return a model's answer within the time of the request; models of ours keep to it themselves, attempt by attempt."""
    if isinstance(model, Managed) or request.timeout is None:
        return await model.complete(request)
    return await in_time(model.complete(request), request.timeout, model.name)


class RetryingModel(Wrapper):
    """Repeats a call after a transport error. For models that do not retry by themselves."""

    def __init__(self, model: Model, retry: Retry = DEFAULT_RETRY) -> None:
        super().__init__(model)
        self._retry = retry

    async def complete(self, request: ModelRequest) -> ModelReply:
        """Return the answer of the first attempt that succeeds."""

        async def ask(seconds: float) -> ModelReply:
            return await in_time(self._model.complete(replace(request, timeout=seconds)), seconds, self.name)

        return await self._retry.run(ask, DEFAULT_SECONDS if request.timeout is None else request.timeout)
