"""Guards of Agent Framework: what they stop is withdrawn.

Knows how a middleware ends a run: it raises, or it answers in place of the model. Knows no rule of any guard.
"""

from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from typing import Any, cast

from agent_framework import (
    AgentContext,
    AgentMiddleware,
    AgentResponse,
    AgentSession,
    MiddlewareException,
    ResponseStream,
)
from agent_framework.exceptions import AgentInvalidResponseException

from memolog.adapters.agent_framework.provider import MemoryProvider
from memolog.adapters.agent_framework.running import Run
from memolog.adapters.checking import check_errors
from memolog.adapters.guards import GuardStopped

__all__ = ["MemoryGuard"]


class MemoryGuard(AgentMiddleware):
    """Discards the turn that a guard has stopped: `Agent(…, middleware=[MemoryGuard(memory), *your_guards])`.

    Put it first. It needs a session, which is how it knows the run.
    """

    def __init__(
        self,
        provider: MemoryProvider,
        *,
        guards: type[Exception] | tuple[type[Exception], ...] = (
            GuardStopped,
            MiddlewareException,
            AgentInvalidResponseException,
        ),
    ) -> None:
        """Take the provider whose turns are guarded, and what guards raise: a model that fails raises too, and is no guard."""
        check_errors("guards", guards)
        self._provider, self._guards = provider, guards

    async def process(self, context: AgentContext, call_next: Callable[[], Awaitable[None]]) -> None:
        """Stand around a run and all of its guards."""
        before = self._run(context.session)

        def run() -> Run | None:
            # A guard at the door ends a run before it begins: the one before it is none of its business.
            found = self._run(context.session)
            return None if found is before else found

        try:
            await call_next()
        except self._guards:
            await _discard(run())
            raise
        if isinstance(context.result, AgentResponse):
            await self._answered(run(), context.result)
        elif isinstance(context.result, ResponseStream):
            self._listen(cast("ResponseStream[Any, Any]", context.result), run)

    def _run(self, session: AgentSession | None) -> Run | None:
        return None if session is None else self._provider.run_of(session)

    async def _answered(self, run: Run | None, response: AgentResponse) -> None:
        if run is not None:
            await self._provider.answered(run, response)

    def _listen(self, stream: "ResponseStream[Any, Any]", run: Callable[[], Run | None]) -> None:
        stopped: list[bool] = []

        @contextmanager
        def watch() -> Generator[None]:
            try:
                yield
            except self._guards:
                stopped.append(True)
                raise

        async def ended() -> None:
            if stopped:
                await _discard(run())

        async def answered(response: AgentResponse) -> None:
            await self._answered(run(), response)

        stream.with_pull_context_manager(watch)
        stream.with_cleanup_hook(ended)
        stream.with_result_hook(answered)


async def _discard(run: Run | None) -> None:
    if run is not None:
        await run.discard()
