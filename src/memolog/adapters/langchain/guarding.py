"""Guards of LangChain that raise: what they stop is withdrawn.

Knows that a middleware behind memory may raise in a node of its own, where memory's own hooks do not see it. Knows no rule
of any guard.
"""

import copy
import functools
import inspect
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import Any, Final, TypeVar, cast

from langchain.agents.middleware.types import AgentMiddleware
from langgraph.errors import GraphBubbleUp

from memolog.adapters.langchain.middleware import MemoryMiddleware, MemoryState

__all__ = ["guarded"]

Guard = TypeVar("Guard", bound=AgentMiddleware[Any, Any, Any])

_HOOKS: Final = tuple(
    f"{colour}{name}"
    for name in ("before_agent", "before_model", "wrap_model_call", "wrap_tool_call", "after_model", "after_agent")
    for colour in ("", "a")
)

# Many a guard's awaitable hook calls its plain one: what that raises is seen by the first of the two.
_IS_WATCHED: ContextVar[bool] = ContextVar("memolog_guard_is_watched", default=False)


def guarded(memory: MemoryMiddleware, guard: Guard) -> Guard:
    """Return a guard so that whatever it raises discards the turn.

    Use it where the agent is made: `middleware=[memory, guarded(memory, PIIMiddleware("email", strategy="block"))]`.
    """
    kind = type(guard)
    hooks = {
        name: _watched(getattr(kind, name), memory)
        for name in _HOOKS
        if getattr(kind, name) is not getattr(AgentMiddleware, name)
    }
    watched = copy.copy(guard)
    watched.__class__ = cast("type[Guard]", type(kind.__name__, (kind,), hooks))
    return watched


def _watched(hook: Callable[..., Any], memory: MemoryMiddleware) -> Callable[..., Any]:
    if inspect.iscoroutinefunction(hook):

        @functools.wraps(hook)
        async def ahook(self: Any, first: Any, *rest: Any, **named: Any) -> Any:
            mark = _IS_WATCHED.set(True)
            try:
                return await cast("Awaitable[Any]", hook(self, first, *rest, **named))
            except GraphBubbleUp:
                raise
            except Exception:
                await memory.astop(_state_of(first))
                raise
            finally:
                _IS_WATCHED.reset(mark)

        return ahook

    @functools.wraps(hook)
    def plain(self: Any, first: Any, *rest: Any, **named: Any) -> Any:
        try:
            return hook(self, first, *rest, **named)
        except GraphBubbleUp:
            raise
        except Exception:
            if not _IS_WATCHED.get():
                memory.stop(_state_of(first))
            raise

    return plain


def _state_of(first: Any) -> MemoryState:
    """Return the state that a hook is about: the first thing it is given is the state, or a request with one."""
    return cast("MemoryState", first if isinstance(first, dict) else first.state)
