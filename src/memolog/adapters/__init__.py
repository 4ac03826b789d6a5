"""Adapters: memory for model clients and agent frameworks, one folder for each.

An adapter translates messages and requests. The package of a framework is needed only if its adapter is imported.
"""

import inspect
from collections.abc import Coroutine
from importlib.util import find_spec
from typing import Any

from memolog.errors import ConfigError


def missing(module: str, library: str, extra: str) -> ConfigError | None:
    """Return the error for a package that is not installed; None if it is installed."""
    if find_spec(module) is not None:
        return None
    return ConfigError(
        f"{library} is not installed.",
        why="This adapter needs the package, which is an optional dependency.",
        then=f'Run: pip install "memolog[{extra}]".',
    )


async def returned(value: Any) -> Any:
    """Return the value; if it is awaitable, await it and return its result."""
    return await value if inspect.isawaitable(value) else value


def at_once(work: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine without an event loop and return its result. The coroutine must not wait for anything."""
    try:
        work.send(None)
    except StopIteration as done:
        return done.value
    raise AssertionError
