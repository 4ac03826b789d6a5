"""Adapters: memory for model clients and agent frameworks, one folder each.

An adapter translates messages and requests, and needs its library only when it is imported.
"""

from importlib.util import find_spec

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
