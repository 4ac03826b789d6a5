"""Adapters: memory for model clients and agent frameworks, one folder each.

An adapter translates messages and requests, and needs its library only when it is imported.
"""

import inspect
from collections.abc import Coroutine
from importlib.util import find_spec
from typing import Any

from memolog.errors import ConfigError


def missing(module: str, library: str, extra: str) -> ConfigError | None:
    """Return the error for a library that is not installed; None if it is installed."""
    if find_spec(module) is not None:
        return None
    return ConfigError(
        f"{library} is not installed.",
        why="The adapter needs its library, which is an optional dependency.",
        then=f'Run: pip install "memolog[{extra}]".',
    )


async def returned(given: Any) -> Any:
    """Return what a synchronous or an asynchronous function returned."""
    return await given if inspect.isawaitable(given) else given


def at_once(work: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine that never waits, because everything in it is synchronous."""
    try:
        work.send(None)
    except StopIteration as done:
        return done.value
    raise AssertionError
